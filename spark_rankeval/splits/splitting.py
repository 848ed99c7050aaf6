"""The ways to part a log: at a moment, and before each user's last events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING

from spark_rankeval.checks import is_number
from spark_rankeval.errors import OptionError
from spark_rankeval.request.options import Table
from spark_rankeval.spark.ids import PLAIN
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.sql_text import (
    Sql,
    call,
    descending,
    named,
    over,
    where,
    with_columns,
)
from spark_rankeval.splits.log import Log, free_name, read_log
from spark_rankeval.splits.split import Rule, Split, read_leave_out, split_of

if TYPE_CHECKING:
    pass


@takes_local_tables
def by_time(
    log: Table,
    cut: str | date | float,
    *,
    horizon: str | timedelta | float | None = None,
    user: str | Sequence[str] = "user",
    item: str = "item",
    time: str = "timestamp",
    relevance: str | None = None,
    grades: Mapping[str, float] | Mapping[int, float] | None = None,
    leave_out: str | Sequence[str] = (),
) -> Split:
    """Train on what was before a moment, and label what came after it: training < cut ≤ held out < cut + horizon.

    One moment for all users keeps the future out of the training data.

    Examples:
        >>> from spark_rankeval.splits import by_time
        >>> events = [("ann", "tea", "click", 1), ("ann", "jam", "click", 8), ("ann", "jam", "purchase", 9), ("bob", "tea", "click", 20)]
        >>> log = spark.createDataFrame(events, "user string, item string, event string, day int")
        >>> split = by_time(log, 8, horizon=7, time="day", relevance="event", grades={"click": 1, "purchase": 3}).check()
        >>> split.labels.toPandas()
          user item  day  relevance
        0  ann  jam    8        3.0

    Args:
        log: a table of events, a row for each user, item and time.
        cut: the first moment that is not in training. A time or an ISO string such as ``"2026-11-01"``, if the column has times or days; a
            number, if it has numbers. In a column of instants, a cut without a zone is in UTC, whatever zone the session has.
        horizon: how long labels are collected after the cut. A `timedelta`, or a string of a whole number and a unit: ``s``, ``min``,
            ``h``, ``d`` or ``w``. A number in the column's own unit, if it has numbers. None: up to the end of the log.
        user: the column that identifies a user, or a list of columns that do so together.
        item: the column of items.
        time: the column of times: a timestamp, with or without a zone, a date or a number.
        relevance: the column of grades, or with `grades` that of events. A pair of user and item has the highest grade of its rows that are
            held out. None: labels have no grade.
        grades: the grade of each event, such as ``{"click": 1, "purchase": 3}``. Other events give no label.
        leave_out: which labels to leave out, one word or several. ``seen``: items that the user has in training; ``cold_users``: users
            without rows in training; ``cold_items``: items without rows in training.

    Raises:
        InputError: the table or a column cannot be used.
        OptionError: an option has a wrong value, or `cut` or `horizon` does not fit the column of times.
    """
    left_out = read_leave_out(leave_out)
    events = read_log(log, user=user, item=item, time=time, relevance=relevance, grades=grades)
    column = events.time
    start = column.cut(cut)
    end = None if horizon is None else column.end(start, horizon)
    times = named(column.name)
    is_after = times >= column.as_sql(start)
    # NaN is above every number, so that it is in no part only because the row is not valid.
    is_held_out = is_after if end is None else is_after & (times < column.as_sql(end))
    valid = events.is_valid()
    no_time = f"no usable row is before the cut {start}; choose a later cut"
    until = "" if end is None else f" and before {end}, the end of the horizon"
    labelled = f"from {start} on" if end is None else f"from {start} to before {end}"
    method = f"by {column.name!r}: training before {start}, labels {labelled}"
    rule = Rule(method, no_time, f"no usable row is at or after the cut {start}{until}; choose an earlier cut")
    return split_of(events, where(log, valid & ~is_after), where(log, valid & is_held_out), left_out, rule)


@takes_local_tables
def last_n(
    log: Table,
    n: int = 1,
    *,
    user: str | Sequence[str] = "user",
    item: str = "item",
    time: str = "timestamp",
    relevance: str | None = None,
    grades: Mapping[str, float] | Mapping[int, float] | None = None,
    leave_out: str | Sequence[str] = (),
) -> Split:
    """Hold out the last n rows of each user: for n = 1, leave one out.

    A user's rows are ordered by time, and those of one time by item. Rows of one item are ordered by the other plain columns from left to
    right.
    So the order of equal times never depends on chance. Items compare as numbers, or as UTF-8 bytes if they are strings. A user with n
    rows or fewer has none in training; ``leave_out="cold_users"`` gives no labels to such users. The training data of one user may be
    later than the labels of another, so the future leaks: `by_time` prevents that.

    Examples:
        >>> from spark_rankeval.splits import last_n
        >>> events = [("ann", "tea", 1), ("ann", "jam", 2), ("ann", "rye", 2), ("bob", "tea", 1)]
        >>> log = spark.createDataFrame(events, "user string, item string, day int")
        >>> last_n(log, time="day", leave_out="cold_users").labels.toPandas()
          user item  day
        0  ann  rye    2

    Args:
        log: a table of events, a row for each user, item and time.
        n: how many rows of each user to hold out, at least 1.
        user: as in `by_time`.
        item: as in `by_time`.
        time: as in `by_time`.
        relevance: as in `by_time`.
        grades: as in `by_time`.
        leave_out: as in `by_time`.

    Raises:
        InputError: the table or a column cannot be used.
        OptionError: an option has a wrong value.
    """
    if not (is_number(n, int) and n >= 1):
        msg = f"n must be a whole number, at least 1; got {n!r}"
        raise OptionError(msg)
    left_out = read_leave_out(leave_out)
    events = read_log(log, user=user, item=item, time=time, relevance=relevance, grades=grades)
    place = free_name("place", {name.lower() for name in log.columns})
    valid = where(log, events.is_valid())
    numbered = with_columns(valid, {place: over(call("row_number"), events.source.users_sql(), _last_first(events))})
    training = where(numbered, named(place) > n).drop(place)
    rule = Rule(
        f"by each user's order of {time!r}: labels from the last {'row' if n == 1 else f'{n:,} rows'}, training from those before",
        f"no user has more than {n:,} usable rows; choose a smaller n",
        "no row can be used",
    )
    return split_of(events, training, where(numbered, named(place) <= n).drop(place), left_out, rule)


def _last_first(log: Log) -> list[Sql]:
    """What orders the rows of a user, so that only rows without any difference that Spark can order are equal."""
    first = [log.time.name, log.source.item]
    others = [
        field.name
        for field in log.frame.schema.fields
        if field.name not in (*first, *log.source.user) and isinstance(field.dataType, PLAIN)
    ]
    return [descending(named(name)) for name in (*first, *others)]
