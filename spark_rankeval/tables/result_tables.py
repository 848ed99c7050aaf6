"""The tables of results: means with their intervals, the same data under several dialects, figures of several runs, and audits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from spark_rankeval.errors import listed
from spark_rankeval.records.audit_rows import AuditRow, InvalidRows
from spark_rankeval.records.quality import DataQuality
from spark_rankeval.records.slices import about_items, group_of
from spark_rankeval.records.stored import changed_tables
from spark_rankeval.records.summary import SELF_NORMALISED, SummaryRow
from spark_rankeval.statistics.intervals import asked_for
from spark_rankeval.tables.notes import quality_notes
from spark_rankeval.tables.table import (
    DASH,
    Bar,
    Cell,
    Column,
    Document,
    Note,
    Table,
    Tone,
    in_one_format,
    remarks,
    share,
    words,
)

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


class DialectRow(Protocol):
    """The fields of a row of a `DialectMap` that the table shows."""

    @property
    def metric(self) -> str: ...  # noqa: D102 # the map's row says it
    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def dialect(self) -> str: ...  # noqa: D102
    @property
    def mean(self) -> float: ...  # noqa: D102
    @property
    def difference(self) -> float: ...  # noqa: D102
    @property
    def n_users(self) -> int: ...  # noqa: D102
    @property
    def because(self) -> str: ...  # noqa: D102


def dialects_table(rows: Sequence[DialectRow], caption: str = "The same data under other dialects") -> Table:
    """One row for each metric and dialect, with the reasons why it differs."""
    mean = in_one_format(row.mean for row in rows)
    difference = in_one_format((row.difference for row in rows), sign="+")

    def if_known(row: DialectRow, text: str) -> str:
        return DASH if math.isnan(row.mean) and not row.n_users else text

    columns: list[Column[DialectRow]] = [
        words("metric", lambda row: row.name),
        words("dialect", lambda row: row.dialect),
        Column("mean", lambda row: if_known(row, mean(row.mean))),
        Column("difference", lambda row: if_known(row, difference(row.difference) if row.difference else "")),
        Column("users", lambda row: if_known(row, f"{row.n_users:,}")),
        Column("because", lambda row: row.because, "prose"),
    ]
    return Table(rows, columns, caption=caption, dash_means="the dialect has no value", is_grouped=True)


# So many runs of a metric are printed, the newest ones.
_MOST_RUNS = 20
_MOST_TABLES_OF_RUNS = 12


class HistoryRow(NamedTuple):
    """A row of a run's summary, with the run's id and the time when it began."""

    run: str
    time: datetime
    row: SummaryRow


def history_on_screen(rows: Sequence[HistoryRow], failed: Mapping[str, str]) -> Document:
    """One table for each metric and slice, the earliest run first. `failed` has the reasons why runs failed, by their ids."""
    groups: dict[str, list[HistoryRow]] = {}
    for each in rows:
        groups.setdefault(figure_in_words(each.row.key, each.row.slice), []).append(each)
    tables = []
    for title, group in list(groups.items())[:_MOST_TABLES_OF_RUNS]:
        runs = list(dict.fromkeys(run for run, _, _ in group))
        newest = runs[-_MOST_RUNS:]
        n_left_out = len(runs) - len(newest)
        notes = [Note(f"{n_left_out:,} earlier runs are not shown: to_pandas() has them all")] if n_left_out else []
        shown = [each for each in group if each.run in newest]
        table = history_table(shown, failed, changes=changes_of(group))
        tables.append(replace(table, title=title, notes=notes))
    n_more = len(groups) - len(tables)
    more = (Note(f"{n_more:,} more metrics and slices are not shown: to_pandas() has them all"),) if n_more else ()
    return Document(tuple(tables), more)


def changes_of(rows: Sequence[HistoryRow]) -> dict[str, str]:
    """The tables among labels, users and exclusions that are not those of the run before, in words, by the runs' ids."""
    changes: dict[str, dict[str, None]] = {}
    before: dict[str, Mapping[str, str]] = {}
    for run, _, row in sorted(rows, key=lambda each: (each.time, each.run)):
        changed = changed_tables(before.get(row.model, {}), row.fingerprints)
        if changed:
            changes.setdefault(run, {}).update(dict.fromkeys(changed))
        if row.fingerprints:
            before[row.model] = row.fingerprints
    return {run: listed(list(tables)) for run, tables in changes.items()}


def history_table(
    rows: Sequence[HistoryRow], failed: Mapping[str, str], caption: str = "", changes: Mapping[str, str] | None = None
) -> Table:
    """One row for each run and model. If some runs failed, a column says why; if labels changed, a column says where.

    `changes` are those of `changes_of`; None: of these rows.
    """
    changes = changes_of(rows) if changes is None else changes
    levels = list(dict.fromkeys(row.interval_level for _, _, row in rows if row.interval_method))
    written = in_one_format(row.mean for _, _, row in rows)
    columns: list[Column[HistoryRow]] = [
        words("run_id", lambda each: each.run),
        words("time (UTC)", lambda each: f"{each.time:%Y-%m-%d %H:%M}"),
    ]
    if any(run in failed for run, _, _ in rows):
        columns.append(words("failed", lambda each: failed.get(each.run, "")))
    if any(run in changes for run, _, _ in rows):
        columns.append(words("changed", lambda each: changes.get(each.run, "")))
    if any(row.model for _, _, row in rows):
        columns.append(words("model", lambda each: each.row.model))
    interval = f"{100 * levels[0]:.6g}% interval" if len(levels) == 1 else "interval"
    columns += [
        Column("mean", lambda each: written(each.row.mean)),
        Column(interval, lambda each: interval_in_words(each.row, written)),
        Column("users", lambda each: f"{each.row.n_users:,}"),
        Column("undefined", lambda each: f"{each.row.n_undefined:,}"),
    ]
    return Table(rows, columns, caption=caption)


def figure_in_words(key: str, slice_: str) -> str:
    """A metric, and its users if they are not all users."""
    return key if slice_ == "all" else f"{key}, users with {slice_}"


_TONES: dict[str, Tone] = {"none": "good", "leak": "bad"}


def audit_table(rows: Sequence[AuditRow], caption: str = "What training, labels and predictions share") -> Table:
    """A row for each check."""
    columns: list[Column[AuditRow]] = [
        words("check", lambda row: row.check.words),
        words("result", lambda row: Cell(row.result, tone=_TONES.get(row.result, ""))),
        Column("count", lambda row: DASH if row.not_checked else f"{row.n:,}"),
        Column("of", lambda row: DASH if row.not_checked else f"{row.of:,}"),
        Column("share", lambda row: DASH if math.isnan(row.share) else f"{row.share:.1%}"),
        Column("for example", _beside, "prose"),
    ]
    return Table(rows, columns, caption=caption, dash_means="not checked, or nothing to count among")


def _beside(row: AuditRow) -> str:
    return row.not_checked or "; ".join(map(example_in_words, row.examples))


def example_in_words(example: Mapping[str, Any]) -> str:
    """An example as messages write it.

    >>> example_in_words({"user": 1, "item": "a"})
    "user=1, item='a'"
    """
    return ", ".join(f"{name}={value!r}" for name, value in example.items())


def headline(rows: Sequence[AuditRow], invalid: Sequence[InvalidRows] = ()) -> str:
    """Whether anything leaked, in a sentence."""
    leaks = [row for row in rows if row.check.kind == "leak"]
    found = [row.check.words for row in leaks if row.result == "leak"]
    unchecked = [row.check.words for row in leaks if row.not_checked]
    if found:
        return f"Leaked: {listed(found)}."
    none = "No leak was found among the rows that can be used" if invalid else "No leak was found"
    if unchecked:
        return f"{none}, but {len(unchecked)} of {len(leaks)} checks for leaks could not be made."
    return f"{none}."


def left_out_in_words(invalid: Sequence[InvalidRows]) -> list[str]:
    """A sentence for each table on the rows that were left out."""
    return [
        f"Left out: {each.n:,} of {each.of:,} rows of {each.table}{share(each.n, each.of)} with {each.reason}. Leaks among them do "
        "not show."
        for each in invalid
    ]


def findings(rows: Sequence[AuditRow]) -> list[str]:
    """A paragraph on each check that found something: how many, what it means and what to do."""
    return [
        f"{row.check.words[0].upper()}{row.check.words[1:]}: {row.n:,} of {row.of:,} {row.check.of}{share(row.n, row.of)}. "
        f"{row.check.meaning} {row.check.advice}"
        for row in rows
        if row.result in ("leak", "problem", "note")
    ]


def unchecked_in_words(rows: Sequence[AuditRow]) -> list[str]:
    """A sentence for each reason why checks were not made."""
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        if row.not_checked:
            by_reason.setdefault(row.not_checked, []).append(row.check.words)
    return [f"Not checked, because {reason}: {listed(names)}." for reason, names in by_reason.items()]


def verdict_of(rows: Sequence[AuditRow], invalid: Sequence[InvalidRows] = ()) -> list[str]:
    """The verdict: the headline, what was left out, what was found, and what was not checked."""
    return [headline(rows, invalid), *left_out_in_words(invalid), *findings(rows), *unchecked_in_words(rows)]


def verdict_notes(rows: Sequence[AuditRow], invalid: Sequence[InvalidRows] = ()) -> tuple[Note, ...]:
    """The verdict as notes below a table."""
    return tuple(map(Note, verdict_of(rows, invalid)))
