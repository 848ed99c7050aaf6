"""The tables that only pages have, and how a page shows any table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from spark_rankeval.dialects.explained import formula_in_words
from spark_rankeval.records.gap_rows import attributes_in_slices, gap_rows
from spark_rankeval.records.quality import MEANING, OF_WEIGHTS, DataQuality
from spark_rankeval.records.slices import ItemGroup, attributes_of, group_of, slice_of
from spark_rankeval.records.summary import SummaryRow, known_metric
from spark_rankeval.report.contents import Gate
from spark_rankeval.tables.comparison_tables import gaps_tables
from spark_rankeval.tables.result_tables import METRIC, MODEL
from spark_rankeval.tables.table import DASH, Cell, Column, Table, in_one_format, words

# A page is for reading: longer tables are those of `to_pandas()`.
MOST_ROWS = 400
# Up to so many slices of an attribute are compared with all others.
_MOST_AGAINST_OTHERS = 40


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
        words("gate", lambda gate: gate.name),
        words("condition", lambda gate: gate.condition),
        words("result", lambda gate: Cell("passed", tone="good") if gate.passed else Cell("FAILED", tone="bad")),
        words("found", lambda gate: gate.found),
    ]
    failed_first = sorted(gates, key=lambda gate: gate.passed)
    return Table(failed_first, columns, caption="Conditions that this run had to meet")


def definitions_table(rows: Sequence[SummaryRow]) -> Table:
    """How each metric is defined: a row for each definition; cutoffs and recalls of a definition share a row."""
    families: dict[tuple[str, str, str], list[SummaryRow]] = {}
    for row in rows:
        families.setdefault((_general(row), row.dialect, row.relevance), []).append(row)
    columns: list[Column[list[SummaryRow]]] = [
        words("metric", lambda family: _named(list(dict.fromkeys(row.name for row in family)))),
        words("dialect", lambda family: family[0].dialect),
        words("definition", lambda family: _general(family[0])),
        words("meaning", lambda family: _formula(family[0].definition)),
    ]
    return Table(list(families.values()), columns, caption="How each metric is defined")


def _general(row: SummaryRow) -> str:
    """A definition without its cutoff and recall."""
    return re.sub(r"(?<=recall=)[\d.]+", "r", re.sub(r"@\d+$", "@k", row.definition))


def _named(metrics: Sequence[str]) -> str:
    return ", ".join(metrics) if len(metrics) <= 4 else f"{metrics[0]} … {metrics[-1]} ({len(metrics)})"


def _formula(definition: str) -> str:
    metric = known_metric(definition)
    return "" if metric is None else formula_in_words(metric)


def quality_table(qualities: Mapping[str, DataQuality]) -> Table:
    """A row for each count, a column for each model."""
    weighted = any(quality.label_weight for quality in qualities.values())
    names = [name for name in MEANING if weighted or name not in OF_WEIGHTS]
    columns: list[Column[str]] = [
        words("", lambda name: MEANING[name]),
        *(_quality_column(model, quality) for model, quality in qualities.items()),
    ]
    return Table(names, columns, caption="Counts of users and rows", dash_means="not counted")


def _quality_column(model: str, quality: DataQuality) -> Column[str]:
    def cell(name: str) -> str:
        count = getattr(quality, name)
        return DASH if count is None else f"{count:{',.10g' if isinstance(count, float) else ','}}"

    return Column(model or "count", cell)


def item_groups_table(groups: Sequence[ItemGroup]) -> Table:
    """A row for each group of items: how large it is, and its edges if it is one by popularity."""
    columns: list[Column[ItemGroup]] = [
        words("group", lambda group: group_of(group.slice)),
        Column("items", lambda group: f"{group.n_items:,}"),
    ]
    if any(group.most for group in groups):
        columns += [
            Column("users of the least popular", lambda group: f"{group.least:,}" if group.most else DASH),
            Column("users of the most popular", lambda group: f"{group.most:,}" if group.most else DASH),
        ]
    return Table(
        groups, columns, caption="Groups of items", dash_means="not a group by popularity in the training data"
    )


def gap_tables(rows: Sequence[SummaryRow]) -> tuple[list[Table], list[Table]]:
    """The largest gaps by each attribute, and the tables of each slice against all others."""
    levels = [row.interval_level for row in rows if 0 < row.interval_level < 1]
    level = levels[0] if levels else 0.95
    largest, others = [], []
    for attribute in attributes_in_slices(rows):
        n_slices = len({slice_of(row.slice, [attribute]) for row in rows if attribute in attributes_of(row.slice)})
        found = gap_rows(rows, [attribute], level=level, others=n_slices <= _MOST_AGAINST_OTHERS)
        first, *rest = gaps_tables(found, level)
        largest.append(first)
        others += rest
    return largest, others


def quantiles_table(rows: Sequence[SummaryRow]) -> Table:
    """A row for each metric and model: minimum, quantiles, maximum, and the number of users with 0."""
    shares = sorted({share for row in rows for share in row.quantiles})
    columns: list[Column[SummaryRow]] = [
        METRIC,
        *([MODEL] if any(row.model for row in rows) else []),
        _values("minimum", rows, attrgetter("minimum")),
        *(_quantile(share, rows) for share in shares),
        _values("maximum", rows, attrgetter("maximum")),
        Column("users with 0", lambda row: f"{row.n_zero:,}"),
    ]
    return Table(rows, columns, caption="Values of the users")


def _quantile(share: float, rows: Sequence[SummaryRow]) -> Column[SummaryRow]:
    heading = "median" if share == 0.5 else f"q{share:g}"
    return _values(heading, rows, lambda row: row.quantiles.get(share, float("nan")))


def _values(heading: str, rows: Sequence[SummaryRow], value: Callable[[SummaryRow], float]) -> Column[SummaryRow]:
    written = in_one_format(map(value, rows))
    return Column(heading, lambda row: written(value(row)))


def manifest_tables(manifest: Mapping[str, Any]) -> list[Table]:
    """Plain values by name in one table, and each mapping in a table of its own, nested names joined by dots."""
    plain = [(str(name), _text(value)) for name, value in manifest.items() if not isinstance(value, Mapping)]
    tables = [_values_by_name("The run", plain)] if plain else []
    mappings = ((name, value) for name, value in manifest.items() if isinstance(value, Mapping))
    return [*tables, *(_values_by_name(str(name), _flat(value)) for name, value in mappings)]


def _values_by_name(caption: str, values: Sequence[tuple[str, str]]) -> Table:
    columns: list[Column[tuple[str, str]]] = [words("name", itemgetter(0)), words("value", itemgetter(1))]
    return Table(values, columns, caption=caption, dash_means="not set")


def _flat(values: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    flat: list[tuple[str, str]] = []
    for name, value in values.items():
        here = f"{before}{name}"
        flat += _flat(value, f"{here}.") if isinstance(value, Mapping) and value else [(here, _text(value))]
    return flat


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: DASH}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_text, value)) or DASH
    return DASH if value == {} else str(value)
