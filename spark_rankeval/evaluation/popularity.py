"""The baseline that every recommender must beat: the items that most users have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as T

from spark_rankeval.checks import check_name, check_table
from spark_rankeval.errors import DataError, InputError, OptionError
from spark_rankeval.evaluation.evaluate import top_items
from spark_rankeval.request.options import Table, Vectors
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.sql_text import (
    Sql,
    aggregate,
    call,
    field_of,
    find_column,
    named,
    number,
    quoted,
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
    people = training if users is None else users
    needed = [("training", training, user), ("training", training, item)]
    if users is not None:
        needed.append(("users", users, user))
    if segment is not None:
        needed.append(("training" if users is None else "users", people, segment))
    missing = [
        f"{role} has no column {name!r}; it has {', '.join(table.columns)}"
        for role, table, name in needed
        if find_column(table, name) is None
    ]
    if missing:
        raise InputError("; ".join(missing))
    no_segment = number(True).cast(T.StringType())
    segments = no_segment if segment is None else named(segment).cast(T.StringType())
    listed_users = select(people, named(user).alias(_USER), segments.alias(_SEGMENT)).distinct()
    listed_users = where(listed_users, named(_USER).is_not_null() & named(_SEGMENT).is_not_null())
    pairs = select(training, named(user).alias(_USER), named(item).alias(_ITEM)).distinct()
    pairs = where(pairs, named(_USER).is_not_null() & named(_ITEM).is_not_null())
    if segment is None:
        conditions = [number(True)]
    else:
        pairs, conditions = (
            pairs.join(listed_users, _USER),
            [named(_SEGMENT) == text(name) for name in _segments(listed_users)],
        )
    counts = [call("sum", when(condition, number(1.0), number(0.0))) for condition in conditions]
    items = aggregate(pairs, [_ITEM], call("array", *counts).alias(_VECTOR))
    vector = call("array", *(when(condition, number(1.0), number(0.0)) for condition in conditions))
    vectors = Vectors(select(listed_users, named(_USER), vector.alias(_VECTOR)), items)
    lists = top_items(vectors, k, user=_USER, item=_ITEM, exclude=None if seen else pairs)
    entries = select(lists, named(_USER), Sql(f"posexplode(recommendations) AS (`rank`, {quoted(_ITEM)})"))
    rows = select(
        entries,
        named(_USER).alias(user),
        field_of(_ITEM, _ITEM).alias(item),
        field_of(_ITEM, "score").alias("score"),
        (named("rank") + 1).alias("rank"),
    )
    # An item that no user of the segment has is not popular there.
    return where(rows, named("score") > 0)


def _segments(users: DataFrame) -> list[str]:
    """The names of the segments, from one action."""
    (counted,) = users.selectExpr(
        "count(1)", f"count(DISTINCT {quoted(_USER)})", f"array_sort(collect_set({quoted(_SEGMENT)}))"
    ).collect()
    n_rows, n_users, names = counted
    if n_rows > n_users:
        n = n_rows - n_users
        msg = f"{n:,} user{'s are' if n > 1 else ' is'} in several segments; each user must be in one"
        raise DataError(msg)
    if not 1 <= len(names) <= _MOST_SEGMENTS:
        msg = f"popularity needs 1 to {_MOST_SEGMENTS:,} segments; the column has {len(names):,}"
        raise OptionError(msg)
    return list(names)
