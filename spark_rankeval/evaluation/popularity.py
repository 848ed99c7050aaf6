"""The baseline that every recommender must beat: the items that most users have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from spark_rankeval.checks import check_name, check_table
from spark_rankeval.errors import DataError, InputError, OptionError
from spark_rankeval.evaluation.evaluate import top_items
from spark_rankeval.request.call import ColumnNames, ScoringOptions, Table, Vectors
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.sql import (
    aggregate,
    all_of,
    call,
    field_of,
    find_column,
    named,
    null_of,
    number,
    select,
    text,
    when,
    where,
)
from spark_rankeval.worker.vectors import RECOMMENDATIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOST_SEGMENTS = 100
_ITEM, _SEGMENT, _LAST, _VECTOR = "rankeval_item", "rankeval_segment", "rankeval_last_segment", "vector"
_RESULT = ("score", "rank")


@takes_local_tables
def popularity(
    training: Table,
    k: int = 100,
    *,
    user: str | Sequence[str] = "user",
    item: str = "item",
    segment: str | None = None,
    users: Table | None = None,
    seen: bool = False,
) -> DataFrame:
    """Recommend to each user the items that most users have, as a lazy table: the baseline of a comparison.

    An item's score is the number of users who have it in the training data. Equal scores are ordered by the item. A user without rows
    in `training` gets the most popular items if `users` has the user. Otherwise the user has no list, and counts as 0 in an evaluation.
    So pass the labels as `users`, or all users.

    Examples:
        >>> log = spark.createDataFrame([(2, "a"), (1, "a"), (1, "b"), (3, "c")], "user int, item string")
        >>> popularity(log, 2).where("user > 1").orderBy("user", "rank").toPandas()
           user item  score  rank
        0     2    b    1.0     1
        1     2    c    1.0     2
        2     3    a    2.0     1
        3     3    b    1.0     2
        >>> labels = spark.createDataFrame([(3, "b"), (9, "a")], "user int, item string")
        >>> popularity(log, 1, users=labels).orderBy("user").toPandas()
           user item  score  rank
        0     3    a    2.0     1
        1     9    a    2.0     1

    Args:
        training: the interactions, a row for each user and item; a pair may occur several times.
        k: how many items a user gets; fewer if there are fewer.
        user: the column that identifies a user, or a list of columns that do so together.
        item: the column of items.
        segment: a column that divides the users, of `users`, or of `training` if there is no `users`. Each user then gets what is popular
            in the own segment. A user whose segment is null gets what is popular among all. With `users`, those of `training` who are not
            there have no segment either, and count among all users alone. This runs one action, which reads the names of the segments.
        users: a table with the users who get items, each in one row or more, such as the labels. None: those of `training` alone.
        seen: whether users may get items that they have in `training`.

    Returns:
        a row for each user and item: the user's columns, the item, ``score`` and ``rank``, from 1.

    Raises:
        InputError, OptionError: an argument is not valid.
        DataError: a user is in several segments.
    """
    for role, table in (("training", training), ("users", users)):
        if table is not None:
            check_table(role, table)
    check_name("item", item)
    check_name("segment", segment)
    user_names = ColumnNames.read(ScoringOptions(user=user, item=item), one_table=False).user
    _check_result([*user_names, item])
    people, holder = (training, "training") if users is None else (users, "users")
    _need_columns(
        [("training", training, name) for name in (*user_names, item)]
        + [(holder, people, name) for name in (*user_names, *([] if segment is None else [segment]))]
    )
    columns = [f"rankeval_user_{index}" for index in range(len(user_names))]
    named_users = [named(name).alias(column) for name, column in zip(user_names, columns, strict=True)]
    text_of_segment = null_of(T.StringType()) if segment is None else named(segment).cast(T.StringType())
    is_user = all_of(named(column).is_not_null() for column in columns)
    rows = where(select(people, *named_users, text_of_segment.alias(_SEGMENT)), is_user)
    # A row without a segment says nothing of a user who has one in another row.
    ends = call("min", named(_SEGMENT)).alias(_SEGMENT), call("max", named(_SEGMENT)).alias(_LAST)
    served = aggregate(rows, columns, *ends)
    pairs = select(training, *named_users, named(item).alias(_ITEM)).distinct()
    pairs = where(pairs, is_user & named(_ITEM).is_not_null())
    names: list[str] = []
    counted = pairs
    if segment is not None:
        names, counted = _segments(served), pairs.join(served, columns, "left")
    # A user's vector has a 1 for the segment, or in the last place for none. An item's has the number of users in each segment, and of all
    # users. The product is the item's popularity in the segment.
    marks = [when(named(_SEGMENT) == text(name), number(1.0), number(0.0)) for name in names]
    user_vector = call("array", *marks, when(named(_SEGMENT).is_null(), number(1.0), number(0.0)))
    counts = call("array", *(call("sum", mark) for mark in marks), call("sum", number(1.0)))
    items = aggregate(counted, [_ITEM], counts.alias(_VECTOR))
    vectors = Vectors(select(served, *map(named, columns), user_vector.alias(_VECTOR)), items)
    lists = top_items(vectors, k, user=columns, item=_ITEM, exclude=None if seen else pairs)
    entries = select(lists, *map(named, columns), call("posexplode", named(RECOMMENDATIONS)).aliases("rank", _ITEM))
    ranked = select(
        entries,
        *(named(column).alias(name) for name, column in zip(user_names, columns, strict=True)),
        field_of(_ITEM, _ITEM).alias(item),
        field_of(_ITEM, "score").alias("score"),
        (named("rank") + 1).alias("rank"),
    )
    # An item that no user of the segment has is not popular there.
    return where(ranked, named("score") > 0)


def _check_result(names: Sequence[str]) -> None:
    """Refuse columns of users and items that would give the result two columns of one name."""
    taken = list(_RESULT)
    for name in names:
        if name.lower() in taken:
            msg = f"the column {name!r} would occur twice in the result, which has {', '.join((*names, *_RESULT))}; rename it in the data"
            raise OptionError(msg)
        taken.append(name.lower())


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
    """The names of the segments, from one action; `users` has the first and the last one of each user."""
    repeated = call("count", when(named(_SEGMENT) < named(_LAST), number(1)))
    names = call("array_sort", call("collect_set", named(_SEGMENT)))
    ((n, segments),) = select(users, repeated, names).collect()
    if n:
        msg = f"{n:,} user{'s are' if n > 1 else ' is'} in several segments; each user must be in one"
        raise DataError(msg)
    if not 1 <= len(segments) <= _MOST_SEGMENTS:
        msg = f"popularity needs 1 to {_MOST_SEGMENTS:,} segments; the column has {len(segments):,}"
        raise OptionError(msg)
    return list(segments)
