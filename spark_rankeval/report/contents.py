"""What a report shows, the tables that only pages have, and how a page becomes a file."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from spark_rankeval.checks import needs_extra
from spark_rankeval.errors import OptionError
from spark_rankeval.printed_tables import DASH, Cell, Column, Table, common_format, text_column
from spark_rankeval.records.columns import Row, described
from spark_rankeval.records.comparisons import ComparisonRow
from spark_rankeval.records.quality import AuditRow, DataQuality, InvalidRows
from spark_rankeval.records.summary import METRIC, MODEL, ItemGroup, SummaryRow
from spark_rankeval.records.tables_of_means import MapRow
from spark_rankeval.report.charts import ComparisonPlots, ResultPlots


@dataclass(frozen=True)
class Gate(Row):
    """A condition that a run had to meet.

    Attributes:
        name: the figure that the condition is about, such as ``ndcg@10``.
        condition: the condition in words, such as ``at least 0.31 (lower end of the interval)``.
        found: the value that was found, in words.
        passed: whether the condition was met.
    """

    name: str = described("the figure in words, after the gate's own name if it has one")
    condition: str = described("the condition in words")
    found: str = described("the figure that was found, in words")
    passed: bool = described("whether the condition is met")


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
    def headline(self) -> str: ...  # noqa: D102
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
    dialects: Sequence[MapRow] = ()
    distributions: Sequence[str] = ()
    manifest: Mapping[str, Any] = field(default_factory=dict)


# A page is for reading: longer tables are those of `to_pandas()`.
MOST_ROWS = 400


class PageTable(NamedTuple):
    """A table as a page shows it: without pictures, its rows in groups of neighbours with the same first cell."""

    table: Table
    groups: list[tuple[Cell, list[list[Cell]]]]
    n_left_out: int

    @property
    def dash_occurs(self) -> bool:
        """Whether a cell that is shown is a dash; the first of a row is a name."""
        return any(cell.text == DASH for _, rows in self.groups for row in rows for cell in row)


def on_page(table: Table) -> PageTable:
    """A table as a page shows it."""
    plain = table.without_bars()
    shown = plain.rows[:MOST_ROWS]
    groups = [(first, [row[1:] for row in group]) for first, group in groupby(shown, key=lambda row: row[0])]
    return PageTable(plain, groups, len(plain.rows) - len(shown))


def gates_table(gates: Sequence[Gate]) -> Table:
    """A row for each gate, failed ones first."""
    columns: list[Column[Gate]] = [
        text_column("gate", lambda gate: gate.name),
        text_column("condition", lambda gate: gate.condition),
        text_column("result", lambda gate: Cell("passed", tone="good") if gate.passed else Cell("FAILED", tone="bad")),
        text_column("found", lambda gate: gate.found),
    ]
    failed_first = sorted(gates, key=lambda gate: gate.passed)
    return Table(failed_first, columns, caption="Conditions that this run had to meet")


def quantiles_table(rows: Sequence[SummaryRow]) -> Table:
    """A row for each metric and model: minimum, quantiles, maximum, and the number of users with 0."""
    shares = sorted({share for row in rows for share in row.quantiles})
    columns: list[Column[SummaryRow]] = [
        METRIC,
        *([MODEL] if any(row.model for row in rows) else []),
        _quantile_column("minimum", rows, attrgetter("minimum")),
        *(_quantile(share, rows) for share in shares),
        _quantile_column("maximum", rows, attrgetter("maximum")),
        Column("users with 0", lambda row: f"{row.n_zero:,}"),
    ]
    return Table(rows, columns, caption="Values of the users")


def _quantile(share: float, rows: Sequence[SummaryRow]) -> Column[SummaryRow]:
    heading = "median" if share == 0.5 else f"q{share:g}"
    return _quantile_column(heading, rows, lambda row: row.quantiles.get(share, float("nan")))


def _quantile_column(
    heading: str, rows: Sequence[SummaryRow], value: Callable[[SummaryRow], float]
) -> Column[SummaryRow]:
    format_value = common_format(map(value, rows))
    return Column(heading, lambda row: format_value(value(row)))


def manifest_tables(manifest: Mapping[str, Any]) -> list[Table]:
    """Plain values by name in one table, and each mapping in a table of its own, nested names joined by dots."""
    plain = [(str(name), _text(value)) for name, value in manifest.items() if not isinstance(value, Mapping)]
    tables = [_values_by_name("The run", plain)] if plain else []
    mappings = ((name, value) for name, value in manifest.items() if isinstance(value, Mapping))
    return [*tables, *(_values_by_name(str(name), _flattened(value)) for name, value in mappings)]


def _values_by_name(caption: str, values: Sequence[tuple[str, str]]) -> Table:
    columns: list[Column[tuple[str, str]]] = [text_column("name", itemgetter(0)), text_column("value", itemgetter(1))]
    return Table(values, columns, caption=caption, dash_means="not set")


def _flattened(values: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    flat: list[tuple[str, str]] = []
    for name, value in values.items():
        here = f"{before}{name}"
        flat += _flattened(value, f"{here}.") if isinstance(value, Mapping) and value else [(here, _text(value))]
    return flat


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: DASH}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_text, value)) or DASH
    return DASH if value == {} else str(value)


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
        what = "a folder" if target.is_dir() else "not in an existing local folder"
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
    staging = target.with_name(f".report-{uuid.uuid4().hex}.tmp")
    try:
        # Its rights are those of any file that is opened: the umask's, or those of the report that it replaces.
        with open(staging, "x", encoding="utf-8") as file:
            file.write(text)
        if target.exists():
            shutil.copymode(target, staging)
        os.replace(staging, target)
    except BaseException:
        staging.unlink(missing_ok=True)
        raise
