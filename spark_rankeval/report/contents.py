"""The contents of a report as plain records, and a report into its file: whole, or not at all."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from spark_rankeval.checks import needs_extra
from spark_rankeval.errors import OptionError
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


def write_report(path: str | os.PathLike[str], **contents: Any) -> Path:
    """Write the page of `Contents`, given by its fields; see `Result.report`."""
    target = checked_path(path)
    comparison = contents.get("comparison")
    if comparison is not None and not all(hasattr(comparison, name) for name in ("rows", "sliced", "baseline")):
        msg = f"comparison must be what compare(…) returns; got a {type(comparison).__name__}"
        raise OptionError(msg)
    audit = contents.get("audit")
    if audit is not None and not hasattr(audit, "rows"):
        msg = f"audit must be what audit(…) returns; got a {type(audit).__name__}"
        raise OptionError(msg)
    for gate in contents.get("gates", ()):
        if not isinstance(gate, Gate):
            msg = f"each gate must be spark_rankeval.report.Gate(name, condition, found, passed); got {gate!r}"
            raise OptionError(msg)
    with needs_extra("report", "reports"):
        from spark_rankeval.report.page import page
    return write_page(target, page(Contents(**contents)))


def checked_path(path: str | os.PathLike[str], content: str = "report") -> Path:
    """The place of a file, before its content is made; if this machine has no folder for it, an `OptionError`."""
    target = Path(path)
    if not target.parent.is_dir() or target.is_dir() or "://" in os.fspath(path):
        what = "a folder" if target.is_dir() else "in no folder of this machine"
        msg = (
            f"a {content} must be a file on this machine; {os.fspath(path)!r} is {what}. Write it to a local file, and copy it "
            "where it belongs"
        )
        raise OptionError(msg)
    return target


def write_page(target: Path, text: str, content: str = "report") -> Path:
    """Write a file at a path of `checked_path`, at once and whole; if it cannot be written, an `OptionError`."""
    try:
        _replace(target, text)
    except OSError as error:
        msg = f"cannot write the {content} to {str(target)!r}: {error.strerror or error}"
        raise OptionError(msg) from error
    return target


def text_of(path: str | os.PathLike[str], content: str) -> str:
    """The text of a file on this machine; if it cannot be read, an `OptionError`."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"cannot read a {content} at {os.fspath(path)!r}: {getattr(error, 'strerror', None) or error}"
        raise OptionError(msg) from error


def _replace(target: Path, text: str) -> None:
    # Readers of the path see the old file or the new one, never a part.
    beside = target.with_name(f".report-{uuid.uuid4().hex}.tmp")
    try:
        # Its rights are those of any file that is opened: the umask's, or those of the report that it replaces.
        with open(beside, "x", encoding="utf-8") as file:
            file.write(text)
        if target.exists():
            shutil.copymode(target, beside)
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
