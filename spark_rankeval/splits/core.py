"""The k-core of a log: the users and items that keep at least k of each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from spark_rankeval.checks import check_place, is_number, one_of
from spark_rankeval.errors import DataError, OptionError, listed
from spark_rankeval.request.options import Table
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.sql_text import Sql, all_of, call, named, number, over, select, when, where
from spark_rankeval.spark.storage import writable
from spark_rankeval.splits.log import ITEM, Log, free_name, read_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_N_ITEMS, _N_USERS = "n_items_of_user", "n_users_of_item"
# Spark cannot read a plan that is twice as deep as this many rounds make it.
_MOST_ROUNDS = 16
# If rounds are stored, so many are computed at a time: fewer cost more writes, more cost rounds that nobody needs.
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
    """Keep the users with at least k items and the items with at least k users, again and again until nobody else has to go.

    A user who has the same item several times has it once. The result does not depend on who goes first.

    This needs actions, because nobody knows beforehand how many rounds it takes. A round counts the items of each user and then the
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
