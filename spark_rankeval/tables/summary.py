"""The tables of a summary: means with their intervals, spread and users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_rankeval.records.item_groups import about_items, group_of
from spark_rankeval.records.summary import SELF_NORMALISED
from spark_rankeval.statistics.intervals import asked_for
from spark_rankeval.tables.numbers import DASH, in_one_format
from spark_rankeval.tables.quality import quality_notes
from spark_rankeval.tables.table import Bar, Cell, Column, Document, Note, Table, remarks, words
from spark_rankeval.wording import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from spark_rankeval.records.quality import DataQuality
    from spark_rankeval.records.summary import SummaryRow

_METHODS = {
    "": "",
    "t": "t",
    "percentile": "percentile bootstrap",
    "bca": "BCa bootstrap",
    "clopper_pearson": "Clopper-Pearson",
    "jackknife": "jackknife",
}
#: A note names so many metrics, and counts the others.
MOST_LISTED = 4
# So many models and slices are printed; a table for each.
_MOST_TABLES = 24

#: Columns that several tables have, of summaries and of comparisons.
METRIC: Column[Any] = words("metric", lambda row: row.name)
MODEL: Column[Any] = words("model", lambda row: row.model)
SLICE: Column[Any] = words("users with", lambda row: row.slice)
ITEM_GROUP: Column[Any] = words("group of items", lambda row: group_of(row.slice))
USERS: Column[Any] = Column("users", lambda row: f"{row.n_users:,}")
UNDEFINED: Column[Any] = Column("undefined", lambda row: f"{row.n_undefined:,}")


def summary_on_screen(
    rows: Sequence[SummaryRow], qualities: Mapping[str, DataQuality], notes: Sequence[str] = ()
) -> Document:
    """As many tables as fit on a page. Notes on a model's users follow its last table."""
    groups = _by_model(rows)
    last = {group[0].model: place for place, group in enumerate(groups)}
    tables = []
    for place, group in enumerate(groups[:_MOST_TABLES]):
        model = group[0].model
        is_last = model in qualities and last[model] == place
        tables.append(_summary_table(group, _notes_of(qualities[model], group) if is_last else ()))
    n_left_out = len(groups) - len(tables)
    if n_left_out:
        more = Note(f"{n_left_out:,} more slices are not shown: result.slices has them all")
        of_all = _notes_of(next(iter(qualities.values())), rows) if len(qualities) == 1 else []
        tables[-1] = _summary_table(groups[len(tables) - 1], [more, *of_all])
    return Document(tuple(tables), remarks(notes))


def _notes_of(quality: DataQuality, rows: Sequence[SummaryRow]) -> list[Note]:
    return quality_notes(quality, excludes="exclude" in rows[0].fingerprints)


def summary_on_paper(rows: Sequence[SummaryRow], notes: Sequence[str] = ()) -> Document:
    """One table for each model and slice."""
    return Document(tuple(map(_summary_table, _by_model(rows))), remarks(notes))


def means_table(caption: str, rows: Sequence[SummaryRow], *, slices: bool = False, item_groups: bool = False) -> Table:
    """One row for each metric and model, or for each metric, slice or group of items, and model."""
    keys = list(dict.fromkeys(row.key for row in rows))
    by_metric = sorted(rows, key=lambda row: keys.index(row.key))
    also = [SLICE] * slices + [ITEM_GROUP] * item_groups
    if any(row.model for row in rows):
        also.append(MODEL)
    return Table(by_metric, _columns(by_metric, also), caption=caption, dash_means="there is no interval")


def _summary_table(rows: Sequence[SummaryRow], below: Iterable[Note] = ()) -> Table:
    about = users_in_words(rows)
    remarked = [*missing_intervals(rows), *_without_weights(rows)]
    return Table(rows, _columns(rows), about, about, [*map(Note, remarked), *below])


def _columns(rows: Sequence[SummaryRow], also: Iterable[Column[SummaryRow]] = ()) -> list[Column[SummaryRow]]:
    """The columns of a table of means. The columns `also` come right after the metric. Each column has one format."""
    mean, std = in_one_format(row.mean for row in rows), in_one_format(row.std for row in rows)
    columns = [METRIC, *also, Column("mean", lambda row: mean(row.mean))]
    name = interval_name(usual(rows))
    if name:
        columns += [
            Column(name, lambda row: interval_in_words(row, mean)),
            Column("", lambda row: Cell("", bar=Bar(row.mean, row.interval_low, row.interval_high)), "bar"),
        ]
    return [*columns, Column("std", lambda row: std(row.std)), USERS, UNDEFINED]


def interval_in_words(row: SummaryRow, written: Callable[[float], str]) -> str:
    """The interval of a mean, in the format of the column of means."""
    return DASH if row.no_interval else f"[{written(row.interval_low)}, {written(row.interval_high)}]"


def users_in_words(rows: Sequence[SummaryRow]) -> str:
    """The model, dialect, weights and slice of the rows of a table, as a caption."""
    row = rows[0]
    parts = [f"model {row.model!r}"] if row.model else []
    parts.append(f"dialect {row.dialect!r}")
    parts += [f"users weighted by {weight!r}" for weight in _weights(rows)]
    if row.slice != "all":
        parts.append(about_items(row.slice))
    return ", ".join(parts)


def _weights(rows: Sequence[SummaryRow]) -> list[str]:
    return list(dict.fromkeys(row.user_weight for row in rows if row.user_weight not in ("", SELF_NORMALISED)))


def _without_weights(rows: Sequence[SummaryRow]) -> list[str]:
    """A sentence on the values that users' weights do not change, in a table of others."""
    alike = [row.name for row in rows if not row.user_weight] if _weights(rows) else []
    return [f"users' weights do not change {listed(alike, MOST_LISTED)}"] if alike else []


def interval_name(row: SummaryRow) -> str:
    """The kind of a mean's interval. Empty if the caller asked for none."""
    level = f"{row.interval_level * 100:.6g}%"
    return f"{level} interval ({_METHODS[row.interval_method]})" if row.interval_method else ""


def usual(rows: Sequence[SummaryRow]) -> SummaryRow:
    """A row whose interval is of the kind that the caller asked for. If there is none, the first row."""
    return next((row for row in rows if row.interval_method == asked_for(row.interval_method)), rows[0])


def missing_intervals(rows: Sequence[SummaryRow]) -> list[str]:
    """Sentences on means that have no interval, or one of another kind than the column's heading says."""
    reasons: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {}
    for row in rows:
        if row.interval_method and row.no_interval:
            reasons.setdefault(row.no_interval, []).append(row.name)
        elif row.interval_method != usual(rows).interval_method:
            others.setdefault(_METHODS[row.interval_method], []).append(row.name)
    return [
        *(f"no interval for {_listed(keys, len(rows))}: {reason}" for reason, keys in reasons.items()),
        *(f"interval for {_listed(keys, len(rows))}: {method}" for method, keys in others.items()),
    ]


def _listed(names: Sequence[str], n_rows: int) -> str:
    """List the first metrics, or say that they are all metrics of the table."""
    return "any mean" if len(names) == n_rows > 1 else listed(list(dict.fromkeys(names)), MOST_LISTED)


def _by_model(rows: Sequence[SummaryRow]) -> list[list[SummaryRow]]:
    """The rows of each model and slice, model by model, in their given order."""
    groups: dict[str, dict[str, list[SummaryRow]]] = {}
    for row in rows:
        groups.setdefault(row.model, {}).setdefault(row.slice, []).append(row)
    return [group for slices in groups.values() for group in slices.values()]
