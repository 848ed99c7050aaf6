"""The ways to part a log: at a moment, before each user's last events, and by a hash; and the k-core of a log."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.checks import check_place, is_number, one_of
from spark_rankeval.errors import DataError, OptionError, listed
from spark_rankeval.request.options import Table
from spark_rankeval.spark.ids import PLAIN, user_hash
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.sql_text import (
    Sql,
    all_of,
    call,
    descending,
    named,
    number,
    over,
    select,
    when,
    where,
    with_columns,
)
from spark_rankeval.spark.storage import writable
from spark_rankeval.splits.log import ITEM, Log, free_name, read_log
from spark_rankeval.splits.split import Rule, Split, read_leave_out, split_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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

    Who is drawn depends on the ids and the seed alone. Other rows, partitions, the width of integers and the version of Spark do not
    matter. A larger share draws the same users and others. The share is met on average, as with a coin for each user.

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
        f"by a hash: labels from {100 * share:g}% of the {of} (seed {seed}), training from the others",
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


_N_ITEMS, _N_USERS = "n_items_of_user", "n_users_of_item"
# Spark cannot read a plan that is twice as deep as this many rounds make it.
_MOST_ROUNDS = 16
# If rounds are stored, so many are computed at a time: fewer cost more writes, more cost rounds that are not needed.
_STORED_ROUNDS = 4


@dataclass(frozen=True, eq=False, repr=False)
class Core:
    """What is left of a log.

    Examples:
        >>> from spark_rankeval.splits import k_core
        >>> log = spark.createDataFrame([(1, 7), (1, 8), (2, 7), (2, 8), (3, 8)], "user int, item int")
        >>> k_core(log, 2).log.orderBy("user", "item").toPandas()
           user  item
        0     1     7
        1     1     8
        2     2     7
        3     2     8

    Attributes:
        log: the rows whose users and items are left, a lazy table. Without a folder its plan holds all rounds, so write it if you use it
            more than once. With a folder it reads the pairs from there.
        rounds: how many rounds were computed: the first of 1, 2, 4, 8 and 16 that is enough, or with a folder of 4, 8, 12 and so on.
        n_users: users that are left.
        n_items: items that are left.
        n_pairs: pairs of user and item that are left.
    """

    log: DataFrame
    rounds: int
    n_users: int
    n_items: int
    n_pairs: int


@takes_local_tables
def k_core(
    log: Table,
    k: int,
    *,
    user: str | Sequence[str] = "user",
    item: str = "item",
    folder: str | None = None,
    on_invalid: str = "error",
) -> Core:
    """Keep the users with at least k items and the items with at least k users, again and again until all stay.

    A user who has the same item several times has it once. The result does not depend on who goes first.

    This needs actions, because the number of rounds is not known beforehand. A round counts the items of each user and then the
    users of each item, with one shuffle for each. One action looks for invalid rows. Then Spark tries 1, 2, 4, 8 and 16 rounds, one action
    for each try. All tries together cost about twice what the last one costs. With a `folder`, Spark writes the pairs that are left after
    each four rounds, and there is no limit. Nothing is cached or collected: memory is bounded by what Spark spills to disk.

    Examples:
        >>> from spark_rankeval.splits import k_core
        >>> events = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("bob", "jam"), ("bob", "rye"), ("dan", "rye")]
        >>> core = k_core(spark.createDataFrame(events, "user string, item string"), 2)
        >>> core.n_users, core.n_items, core.n_pairs, core.rounds
        (2, 2, 4, 1)

    Args:
        log: a table of events, a row for each user and item.
        k: the least number of items of a user, and of users of an item; at least 1.
        user: the column that identifies a user, or a list of columns that do so together.
        item: the column of items.
        folder: a place for Parquet that driver and executors can write to. Spark overwrites its folders ``pairs-0`` and ``pairs-1``. Keep
            it as long as you use the result. None: at most 16 rounds, and nothing is written.
        on_invalid: what to do with rows without a user or an item: ``error`` (default), or ``drop`` to leave them out.

    Returns:
        the log without the others, and its size.

    Raises:
        DataError: the log has rows without a user or an item, nobody is left, or 16 rounds are not enough without a folder.
        InputError, OptionError: an argument is not valid.
    """
    if not (is_number(k, int) and k >= 1):
        msg = f"k must be a whole number, at least 1; got {k!r}"
        raise OptionError(msg)
    one_of("on_invalid", on_invalid, ("error", "drop"))
    if folder is not None:
        if not isinstance(folder, str):
            msg = f"folder must be a path as a string; got {folder!r}"
            raise OptionError(msg)
        check_place("folder", folder)
    events = read_log(log, user=user, item=item)
    valid = where(log, events.is_valid())
    pairs = select(valid, *events.pair_sql()).distinct()
    if on_invalid == "error":
        _refuse_invalid(events)
    rounds, step = 0, 1 if folder is None else _STORED_ROUNDS
    while True:
        for _ in range(step):
            pairs = _after_a_round(pairs, events, k)
        rounds += step
        if folder is not None:
            pairs = _stored(pairs, f"{folder.rstrip('/')}/pairs-{rounds // step % 2}")
        left = _what_is_left(pairs, events, k)
        if not left.n_too_few:
            break
        if folder is None:
            step = rounds
            if rounds + step > _MOST_ROUNDS:
                msg = (
                    f"after {rounds} rounds {left.n_too_few:,} of {left.n_pairs:,} pairs are still of users with fewer than k = {k} "
                    "items; pass folder=, a place for the pairs that are left between rounds"
                )
                raise DataError(msg, {"n_too_few": left.n_too_few, "n_pairs": left.n_pairs})
    if not left.n_pairs:
        msg = f"log: no user has {k} items that each have {k} users; choose a smaller k"
        raise DataError(msg, {"n_pairs": 0})
    core = _rows_of(valid, pairs, events)
    return Core(core, rounds, left.n_users, left.n_items, left.n_pairs)


class _Left(NamedTuple):
    """What is left after some rounds."""

    n_pairs: int
    n_too_few: int  # pairs that the next round would take away
    n_users: int
    n_items: int


def _refuse_invalid(log: Log) -> None:
    reasons = log.reasons()
    counts = [
        call("count", when(reason, 1)).alias(f"invalid_{place}").column for place, reason in enumerate(reasons.values())
    ]
    row = log.frame.agg(*counts).collect()[0]
    invalid = {reason: n for reason, n in zip(reasons, row, strict=True) if n}
    if invalid:
        kinds = listed([f"{n:,} with a {reason}" for reason, n in invalid.items()])
        msg = f"log: rows {kinds} belong to nobody; fix the data, or pass on_invalid='drop' to leave them out"
        raise DataError(msg, {f"n_{reason.replace(' ', '_')}": n for reason, n in invalid.items()})


def _counted(pairs: DataFrame, log: Log, name: str, groups: Sequence[str]) -> DataFrame:
    """The pairs with the size of each pair's group."""
    keys = [named(key) for key in log.pair_keys]
    size: Sql = over(call("count", number(1)), map(named, groups)).alias(name)
    return select(pairs, *keys, size)


def _after_a_round(pairs: DataFrame, log: Log, k: int) -> DataFrame:
    """The pairs without users that have too few items, and then without items that have too few users."""
    pairs = where(_counted(pairs, log, _N_ITEMS, log.user_keys), named(_N_ITEMS) >= k)
    return where(_counted(pairs, log, _N_USERS, [ITEM]), named(_N_USERS) >= k)


def _stored(pairs: DataFrame, path: str) -> DataFrame:
    """The pairs, written and read back, so that their plan begins anew."""
    with writable(path, "folder"):
        pairs.write.mode("overwrite").parquet(path)
    return pairs.sparkSession.read.schema(pairs.schema).parquet(path)


def _what_is_left(pairs: DataFrame, log: Log, k: int) -> _Left:
    """Count the pairs that are left; one action."""
    # Every item that is left had k users after the last round took the items, so only users can have too few items.
    counted = _counted(pairs, log, _N_ITEMS, log.user_keys)
    row = counted.agg(
        call("count", number(1)).column,
        call("count", when(named(_N_ITEMS) < k, 1)).column,
        F.count_distinct(*(named(key).column for key in log.user_keys)),
        F.count_distinct(named(ITEM).column),
    ).collect()[0]
    return _Left(*row)


def _rows_of(valid: DataFrame, pairs: DataFrame, log: Log) -> DataFrame:
    """The rows of these pairs."""
    taken = {name.lower() for name in valid.columns}
    free = [free_name(key, taken) for key in log.pair_keys]
    renamed = select(pairs, *(named(key).alias(name) for key, name in zip(log.pair_keys, free, strict=True)))
    columns = [*log.source.users_sql(), log.source.ids_sql()]
    return valid.join(
        renamed, all_of(column == named(name) for column, name in zip(columns, free, strict=True)).column, "left_semi"
    )
