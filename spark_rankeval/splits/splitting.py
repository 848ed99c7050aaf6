"""The ways to part a log: at a moment, before each user's last events, and by a hash."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, timedelta

from pyspark.sql import types as T

from spark_rankeval.checks import is_number, one_of
from spark_rankeval.errors import OptionError
from spark_rankeval.request.options import Table
from spark_rankeval.spark.ids import PLAIN, user_hash
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.sql_text import Sql, call, descending, named, number, over, where, with_columns
from spark_rankeval.splits.log import Log, free_name, read_log
from spark_rankeval.splits.split import Rule, Split, read_leave_out, split_of

# Rows whose hash is below a share of this many are drawn.
_BITS = 53
_LARGEST_SEED = (1 << 63) - 1


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
    assert column is not None, "a name was given"
    start = column.cut(cut)
    end = None if horizon is None else column.end(start, horizon)
    times = named(column.name)
    is_after = times >= column.in_sql(start)
    # NaN is above every number, so that it is in no part only because the row is not valid.
    is_held_out = is_after if end is None else is_after & (times < column.in_sql(end))
    valid = events.is_valid()
    no_time = f"no usable row is before the cut {start}; choose a later cut"
    until = "" if end is None else f" and before {end}, the end of the horizon"
    rule = Rule(no_time, f"no usable row is at or after the cut {start}{until}; choose an earlier cut")
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

    A user's rows are ordered by time, those of one time by item, and those of one item by the other plain columns from left to right.
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
    rule = Rule(f"no user has more than {n:,} usable rows; choose a smaller n", "no row can be used")
    return split_of(events, training, where(numbered, named(place) <= n).drop(place), left_out, rule)


@takes_local_tables
def by_hash(
    log: Table,
    share: float,
    *,
    of: str = "users",
    seed: int = 0,
    user: str | Sequence[str] = "user",
    item: str = "item",
    relevance: str | None = None,
    grades: Mapping[str, float] | Mapping[int, float] | None = None,
    leave_out: str | Sequence[str] = (),
) -> Split:
    """Hold out a share of the users, or of the rows, drawn by a hash of their ids.

    Who is drawn depends on the ids and the seed alone: not on the other rows, on partitions, on the width of integers, or on the version of
    Spark. A larger share draws the same users and others. The share is met on average, as with a coin for each user.

    Examples:
        >>> from spark_rankeval.splits import by_hash
        >>> log = spark.createDataFrame([(user, item) for user in range(50) for item in range(2)], "user int, item int")
        >>> print(by_hash(log, 0.2, seed=1).counts())
        rows    100 rows; 76 in training, 24 held out
        users   50 users; 38 in training, 12 with labels, 12 of them without rows in training
        labels  24 pairs of user and item

    Args:
        log: a table of events, a row for each user and item.
        share: the share to hold out, more than 0 and less than 1.
        of: ``users`` (default), each with all of their rows; or ``rows``, drawn by user and item, so that all events of a pair go to the
            same side.
        seed: a whole number; another one draws others.
        user: as in `by_time`.
        item: as in `by_time`.
        relevance: as in `by_time`.
        grades: as in `by_time`.
        leave_out: as in `by_time`.

    Raises:
        InputError: the table or a column cannot be used.
        OptionError: an option has a wrong value.
    """
    one_of("of", of, ("users", "rows"))
    if not (is_number(share) and 0 < share < 1):
        msg = f"share must be a number between 0 and 1; got {share!r}"
        raise OptionError(msg)
    if not (is_number(seed, int) and 0 <= seed <= _LARGEST_SEED):
        msg = f"seed must be a whole number from 0 to {_LARGEST_SEED}; got {seed!r}"
        raise OptionError(msg)
    left_out = read_leave_out(leave_out)
    events = read_log(log, user=user, item=item, relevance=relevance, grades=grades)
    source = events.source
    ids, types = [*source.users_sql()], [*source.user_types()]
    if of == "rows":
        ids, types = [*ids, source.ids_sql()], [*types, source.item_type]
    hashed = user_hash([number(seed), *ids], [T.LongType(), *types])
    # The share of 2^53 is a double exactly, so no rounding decides who is drawn.
    is_drawn = call("shiftrightunsigned", hashed, 64 - _BITS) < math.ceil(share * 2**_BITS)
    valid = events.is_valid()
    rule = Rule(
        f"the share {share:g} draws everybody; choose a smaller one",
        f"the share {share:g} draws nobody; choose a larger one",
    )
    return split_of(events, where(log, valid & ~is_drawn), where(log, valid & is_drawn), left_out, rule)


def _last_first(log: Log) -> list[Sql]:
    """What orders the rows of a user, so that only rows without any difference that Spark can order are equal."""
    assert log.time is not None, "a name was given"
    first = [log.time.name, log.source.item]
    others = [
        field.name
        for field in log.frame.schema.fields
        if field.name not in (*first, *log.source.user) and isinstance(field.dataType, PLAIN)
    ]
    return [descending(named(name)) for name in (*first, *others)]
