"""The baseline that every recommender must beat: the items that most users have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from spark_rankeval.checks import check_name, check_table
from spark_rankeval.errors import DataError, InputError, OptionError
from spark_rankeval.evaluation.evaluate import top_items
from spark_rankeval.features.vectors.worker import RECOMMENDATIONS
from spark_rankeval.request.options import Table, Vectors
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.sql_text import (
    aggregate,
    call,
    field_of,
    find_column,
    named,
    number,
    select,
    text,
    when,
    where,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOST_SEGMENTS = 100
_USER, _ITEM, _SEGMENT, _VECTOR = "rankeval_user", "rankeval_item", "rankeval_segment", "vector"


@takes_local_tables
def popularity(
    training: Table,
    k: int = 100,
    *,
    user: str = "user",
    item: str = "item",
    segment: str | None = None,
    users: Table | None = None,
    seen: bool = False,
) -> DataFrame:
    """Recommend to every user the items that most users have, as a lazy table: the baseline of a comparison.

    An item's score is the number of users who have it in the training data. Equal scores are ordered by the item.

    Examples:
        >>> log = spark.createDataFrame([(2, "a"), (1, "a"), (1, "b"), (3, "c")], "user int, item string")
        >>> popularity(log, 2).where("user > 1").orderBy("user", "rank").toPandas()
           user item  score  rank
        0     2    b    1.0     1
        1     2    c    1.0     2
        2     3    a    2.0     1
        3     3    b    1.0     2

    Args:
        training: the interactions, a row for each user and item; a pair may occur several times.
        k: how many items a user gets; fewer if there are fewer.
        user: the column that identifies a user.
        item: the column of items.
        segment: a column of `training`, or of `users`, that divides the users. Each user then gets what is popular in the own segment.
            This runs one action, which reads the names of the segments.
        users: the users who get items. None: those of `training`.
        seen: whether users may get items that they have in `training`.

    Returns:
        a row for each user and item: the user, the item, ``score`` and ``rank``, from 1.

    Raises:
        InputError, OptionError: an argument is not valid.
        DataError: a user is in several segments.
    """
    for role, table in (("training", training), ("users", users)):
        if table is not None:
            check_table(role, table)
    check_name("segment", segment)
    people, holder = (training, "training") if users is None else (users, "users")
    needed = [("training", training, user), ("training", training, item), (holder, people, user)]
    if segment is not None:
        needed.append((holder, people, segment))
    _need_columns(needed)
    segments = number(True) if segment is None else named(segment)
    served = select(people, named(user).alias(_USER), segments.cast(T.StringType()).alias(_SEGMENT)).distinct()
    served = where(served, named(_USER).is_not_null() & named(_SEGMENT).is_not_null())
    pairs = select(training, named(user).alias(_USER), named(item).alias(_ITEM)).distinct()
    pairs = where(pairs, named(_USER).is_not_null() & named(_ITEM).is_not_null())
    conditions = [number(True)]
    if segment is not None:
        pairs, conditions = pairs.join(served, _USER), [named(_SEGMENT) == text(name) for name in _segments(served)]
    # A user's vector has a 1 for the segment, and an item's the number of users in each: the product is the item's popularity there.
    marks = [when(condition, number(1.0), number(0.0)) for condition in conditions]
    counts = call("array", *(call("sum", mark) for mark in marks))
    items = aggregate(pairs, [_ITEM], counts.alias(_VECTOR))
    vectors = Vectors(select(served, named(_USER), call("array", *marks).alias(_VECTOR)), items)
    lists = top_items(vectors, k, user=_USER, item=_ITEM, exclude=None if seen else pairs)
    entries = select(lists, named(_USER), call("posexplode", named(RECOMMENDATIONS)).aliases("rank", _ITEM))
    rows = select(
        entries,
        named(_USER).alias(user),
        field_of(_ITEM, _ITEM).alias(item),
        field_of(_ITEM, "score").alias("score"),
        (named("rank") + 1).alias("rank"),
    )
    # An item that no user of the segment has is not popular there.
    return where(rows, named("score") > 0)


def _need_columns(needed: Iterable[tuple[str, DataFrame, str]]) -> None:
    """Refuse tables, each with its role, that lack a column."""
    missing = [
        f"{role} has no column {name!r}; it has {', '.join(table.columns)}"
        for role, table, name in needed
        if find_column(table, name) is None
    ]
    if missing:
        raise InputError("; ".join(dict.fromkeys(missing)))


def _segments(users: DataFrame) -> list[str]:
    """The names of the segments, from one action."""
    counted = call("count", number(1)).alias("n"), call("min", named(_SEGMENT)).alias(_SEGMENT)
    repeated = call("count", when(named("n") > 1, number(1)))
    names = call("array_sort", call("collect_set", named(_SEGMENT)))
    ((n, segments),) = select(aggregate(users, [_USER], *counted), repeated, names).collect()
    if n:
        msg = f"{n:,} user{'s are' if n > 1 else ' is'} in several segments; each user must be in one"
        raise DataError(msg)
    if not 1 <= len(segments) <= _MOST_SEGMENTS:
        msg = f"popularity needs 1 to {_MOST_SEGMENTS:,} segments; the column has {len(segments):,}"
        raise OptionError(msg)
    return list(segments)
