"""The contents of a report as plain records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from spark_rankeval.records.audit_rows import AuditRow, InvalidRows
from spark_rankeval.records.quality import DataQuality
from spark_rankeval.records.slices import ItemGroup

if TYPE_CHECKING:
    from spark_rankeval.charts.of_comparisons import ComparisonPlots
    from spark_rankeval.charts.of_results import ResultPlots
    from spark_rankeval.records.comparison_rows import ComparisonRow
    from spark_rankeval.records.summary import SummaryRow
    from spark_rankeval.tables.result_tables import DialectRow


@dataclass(frozen=True)
class Gate:
    """A condition that a run had to meet.

    Attributes:
        name: the figure that the condition is about, such as ``ndcg@10``.
        condition: the condition in words, such as ``at least 0.31 (lower end of the interval)``.
        found: the value that was found, in words.
        passed: whether the condition was met.
    """

    name: str
    condition: str
    found: str
    passed: bool


class ReportedComparison(Protocol):
    """The parts of a `ModelComparison` that a report reads."""

    @property
    def rows(self) -> tuple[ComparisonRow, ...]: ...  # noqa: D102 # the comparison says it
    @property
    def sliced(self) -> tuple[ComparisonRow, ...]: ...  # noqa: D102
    @property
    def baseline(self) -> str: ...  # noqa: D102
    @property
    def level(self) -> float: ...  # noqa: D102
    @property
    def test(self) -> str: ...  # noqa: D102
    @property
    def correction(self) -> str: ...  # noqa: D102
    @property
    def replicates(self) -> int: ...  # noqa: D102
    @property
    def plot(self) -> ComparisonPlots: ...  # noqa: D102
    @property
    def notes(self) -> tuple[str, ...]: ...  # noqa: D102


class Audited(Protocol):
    """The part of an `Audit` that a report reads."""

    @property
    def rows(self) -> tuple[AuditRow, ...]: ...  # noqa: D102 # the audit says it
    @property
    def invalid(self) -> tuple[InvalidRows, ...]: ...  # noqa: D102


@dataclass(frozen=True)
class Contents:
    """Everything that a report shows.

    Attributes:
        title: of the page.
        summary: the rows of the evaluation.
        qualities: the counts of users and rows, by model.
        plan: how the data was grouped, in sentences.
        plots: the charts of the result.
        notes: what the figures could be mistaken for, in sentences.
        item_groups: the groups of items that have figures.
        comparison: the comparison of the models with a baseline, or None.
        gates: the conditions that the run had to meet.
        audit: the audit of the tables, or None.
        dialects: the rows of a map of dialects.
        distributions: metrics to draw as histograms, whose users are counted on Spark.
        manifest: the rest of the record of the run: values by name, or mappings of such values.
    """

    title: str
    summary: Sequence[SummaryRow]
    qualities: Mapping[str, DataQuality]
    plan: Sequence[str]
    plots: ResultPlots
    notes: Sequence[str] = ()
    item_groups: Sequence[ItemGroup] = ()
    comparison: ReportedComparison | None = None
    gates: Sequence[Gate] = ()
    audit: Audited | None = None
    dialects: Sequence[DialectRow] = ()
    distributions: Sequence[str] = ()
    manifest: Mapping[str, Any] = field(default_factory=dict)
