"""The tables of a report: texts, no markup."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from spark_rankeval.dialects.explained import formula_in_words
from spark_rankeval.errors import MetricError
from spark_rankeval.metrics.naming import parse_metric
from spark_rankeval.records.quality import MEANING, OF_WEIGHTS
from spark_rankeval.tables.comparison import comparison_figures
from spark_rankeval.tables.text import cells, headers, in_one_format

if TYPE_CHECKING:
    from spark_rankeval.records.comparison import ComparisonRow
    from spark_rankeval.records.quality import DataQuality
    from spark_rankeval.records.summary import SummaryRow
    from spark_rankeval.report.contents import DialectRow, Gate

# A page is for reading: longer tables are those of `to_pandas()`.
MOST_ROWS = 400
# What stands where there is no figure; each table says below itself what that means.
DASH = "–"


@dataclass(frozen=True)
class Table:
    """Texts in rows and columns.

    Attributes:
        caption: what they are.
        heads: of the columns, the first being that of the groups.
        groups: rows without their first cell, which they share, by that.
        words: how many of the columns from the left are words; the others are figures, and stand to the right.
        last_words: whether the last column is words too.
        left_out: how many rows are not shown.
        dash: what a cell says that is a dash.
    """

    caption: str
    heads: tuple[str, ...]
    groups: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]
    words: int = 1
    last_words: bool = False
    left_out: int = 0
    dash: str = "not known"

    @classmethod
    def of(
        cls,
        caption: str,
        heads: Sequence[str],
        rows: Sequence[Sequence[str]],
        words: int = 1,
        *,
        last: bool = False,
        dash: str = "not known",
    ) -> Table:
        """From rows, of which neighbours with the same first cell make a group."""
        shown = [tuple(row) for row in rows[:MOST_ROWS]]
        groups = tuple(
            (label, tuple(row[1:] for row in mine)) for label, mine in groupby(shown, key=lambda row: row[0])
        )
        return cls(caption, tuple(heads), groups, words, last, len(rows) - len(shown), dash)

    @property
    def dash_occurs(self) -> bool:
        """Whether a cell that is shown is a dash."""
        return any(DASH in row for _, rows in self.groups for row in rows)

    @property
    def words_at(self) -> set[int]:
        """The columns that are words."""
        return {*range(self.words), *[len(self.heads) - 1] * self.last_words}


def gates_table(gates: Sequence[Gate]) -> Table:
    """A row a gate, those that were not met first."""
    rows = [
        (gate.name, gate.condition, gate.found, "passed" if gate.passed else "failed")
        for gate in sorted(gates, key=lambda gate: gate.passed)
    ]
    return Table.of("What this run had to meet", ("gate", "condition", "found", "result"), rows, words=4)


def means_table(caption: str, rows: Sequence[SummaryRow], *, slices: bool = False) -> Table:
    """A row a metric and model, or a metric, slice and model: with interval, spread and users."""
    named = any(row.model for row in rows)
    first, *others = headers(rows)
    heads = [first, *["users with"] * slices, *["model"] * named, *others]
    keys = list(dict.fromkeys(row.key for row in rows))
    by_metric = sorted(rows, key=lambda row: keys.index(row.key))
    body = []
    for row, (label, *figures) in zip(by_metric, cells(by_metric), strict=True):
        if len(figures) < len(others):
            figures.insert(1, DASH)
        body.append((label, *[row.slice] * slices, *[row.model] * named, *figures))
    return Table.of(caption, heads, body, words=1 + slices + named, dash="there is no interval")


def differences_table(caption: str, rows: Sequence[ComparisonRow], level: float, *, slices: bool = False) -> Table:
    """A row a metric and model, or a slice, metric and model."""
    heads = [
        "metric", *["users with"] * slices, "model", "users", "mean", "baseline", "difference",
        f"{100 * level:g}% interval", "p", "d", "wins / ties / losses", "verdict",
    ]  # fmt: skip
    body = [
        (
            row.name,
            *[row.slice] * slices,
            row.model,
            *figures,
            f"{row.wins:,} / {row.ties:,} / {row.losses:,}",
            row.verdict,
        )
        for row, figures in zip(rows, comparison_figures(rows), strict=True)
    ]
    return Table.of(caption, heads, body, words=2 + slices, last=True, dash="there is no such figure over these users")


def definitions_table(rows: Sequence[SummaryRow]) -> Table:
    """By which definition each number is: a row a definition, cutoffs and recalls of one together."""
    families: dict[tuple[str, str, str], list[str]] = {}
    formulas: dict[tuple[str, str, str], str] = {}
    for row in rows:
        general = re.sub(r"@\d+$", "@k", row.definition)
        general = re.sub(r"(?<=recall=)[\d.]+", "r", general)
        family = (general, row.dialect, row.relevance)
        formulas.setdefault(family, _formula(row.definition))
        if row.name not in families.setdefault(family, []):
            families[family].append(row.name)
    body = [
        (
            ", ".join(keys) if len(keys) <= 4 else f"{keys[0]} … {keys[-1]} ({len(keys)})",
            family[1],
            family[0],
            formulas[family],
        )
        for family, keys in families.items()
    ]
    return Table.of(
        "By which definition each number is", ("metric", "dialect", "definition", "what it is"), body, words=4
    )


def _formula(definition: str) -> str:
    """The metric's formula and choices in words; empty of what is no metric of ours."""
    try:
        return formula_in_words(parse_metric(definition))
    except MetricError:
        return ""


def dialects_table(rows: Sequence[DialectRow], caption: str = "The same data under other dialects") -> Table:
    """A row a metric and dialect, with why it differs."""
    mean = in_one_format(row.mean for row in rows)
    difference = in_one_format((row.difference for row in rows), sign="+")
    body = [
        (
            row.name,
            row.dialect,
            mean(row.mean) if row.n_users else DASH,
            difference(row.difference) if row.n_users and row.difference else "",
            f"{row.n_users:,}" if row.n_users else DASH,
            row.because,
        )
        for row in rows
    ]
    heads = ("metric", "dialect", "mean", "difference", "users", "because")
    return Table.of(caption, heads, body, words=2, last=True, dash="the dialect has no value")


def quality_table(qualities: Mapping[str, DataQuality]) -> Table:
    """A row a count, a column a model."""
    weighted = any(one.label_weight for one in qualities.values())
    names = [name for name in MEANING if weighted or name not in OF_WEIGHTS]
    body = [
        (
            MEANING[name],
            *(_quality_in_words(getattr(one, name)) for one in qualities.values()),
        )
        for name in names
    ]
    heads = ["", *(model or "count" for model in qualities)]
    return Table.of("What the users and their rows were like", heads, body, dash="not counted")


def _quality_in_words(count: float | None) -> str:
    if count is None:
        return DASH
    return f"{count:{',.10g' if isinstance(count, float) else ','}}"


def quantiles_table(rows: Sequence[SummaryRow]) -> Table:
    """A row a metric and model: least, quantiles, greatest, and how many have 0."""
    named = any(row.model for row in rows)
    shares = sorted({share for row in rows for share in row.quantiles})
    heads = ["metric", *["model"] * named, "least", *("median" if share == 0.5 else f"q{share:g}" for share in shares)]
    columns = [
        [row.minimum for row in rows],
        *([row.quantiles.get(share, float("nan")) for row in rows] for share in shares),
        [row.maximum for row in rows],
    ]
    written = [list(map(in_one_format(column), column)) for column in columns]
    body = [
        (row.name, *[row.model] * named, *figures, f"{row.n_zero:,}")
        for row, figures in zip(rows, zip(*written, strict=True), strict=True)
    ]
    return Table.of("Users' values", [*heads, "greatest", "users at 0"], body, words=1 + named)


def manifest_tables(manifest: Mapping[str, Any]) -> list[Table]:
    """Plain values by name in one table, and each mapping in one of its own, what is in it by dotted names."""
    plain = [(str(name), _text(value)) for name, value in manifest.items() if not isinstance(value, Mapping)]
    tables = [Table.of("The run", ("name", "value"), plain, words=2, dash="not set")] if plain else []
    for name, value in manifest.items():
        if isinstance(value, Mapping):
            tables.append(Table.of(str(name), ("name", "value"), list(_flat(value)), words=2, dash="not set"))
    return tables


def _flat(values: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name, value in values.items():
        here = f"{before}{name}"
        found += _flat(value, f"{here}.") if isinstance(value, Mapping) and value else [(here, _text(value))]
    return found


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: DASH}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_text, value)) or DASH
    return DASH if value == {} else str(value)
