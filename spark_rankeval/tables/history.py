"""The figures of several runs as tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from spark_rankeval.records.fingerprints import changed_tables
from spark_rankeval.tables.numbers import in_one_format
from spark_rankeval.tables.summary import interval_in_words
from spark_rankeval.tables.table import Column, Document, Note, Table, words
from spark_rankeval.wording import listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from spark_rankeval.records.summary import SummaryRow

# So many runs of a metric are printed, the newest ones.
_MOST_RUNS = 20
_MOST_TABLES = 12


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
    for title, group in list(groups.items())[:_MOST_TABLES]:
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
