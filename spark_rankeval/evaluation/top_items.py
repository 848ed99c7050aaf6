"""The first items of every user's list that vectors make of the whole catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from spark_rankeval.checks import check_table, is_number, kind_of
from spark_rankeval.errors import InputError, OptionError
from spark_rankeval.features.vectors.spark import read_catalogue
from spark_rankeval.features.vectors.worker import (
    N_INVALID,
    N_INVALID_CATALOGUE,
    RECOMMENDATIONS,
    first_items_of_batches,
)
from spark_rankeval.request.options import ScoringOptions, Table, Vectors
from spark_rankeval.request.readings import ColumnNames
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.spark.grouping import Grouping
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.tasks import run_on_workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_MOST = 1_000_000


@takes_local_tables
def top_items(
    vectors: Vectors,
    k: int,
    *,
    user: str | Sequence[str] = "user",
    item: str = "item",
    exclude: Table | None = None,
) -> DataFrame:
    """The first k items of every user, best first, as a lazy table: what `evaluate` ranks of the same vectors.

    Nothing raises while the table is computed. A user whose vector cannot be used has null, and ``n_invalid`` counts such rows of the user.
    Rows of the items that cannot be used are in no list, and ``n_invalid_catalogue`` counts them, in each row the same.

    Examples:
        >>> users = spark.createDataFrame([(1, [1.0, 0.0]), (2, [0.0, 1.0])], "user int, vector array<double>")
        >>> items = spark.createDataFrame([("a", [0.5, 0.1]), ("b", [0.2, 0.9]), ("c", [0.4, 0.3])], "item string, vector array<double>")
        >>> top_items(Vectors(users, items), 2).select("user", "recommendations.item", "recommendations.score").orderBy("user").toPandas()
           user    item       score
        0     1  [a, c]  [0.5, 0.4]
        1     2  [b, c]  [0.9, 0.3]

    Args:
        vectors: of users and items.
        k: how many items a user gets; fewer if there are fewer.
        user: the column that identifies a user, or a list of columns that do so together.
        item: the column of items.
        exclude: a table of users and items, such as training data, to leave out.

    Returns:
        the user's columns; ``recommendations``, an array of structs of the item, under the name of its column, and its ``score``, as ALS
        ``recommendForAllUsers`` gives them; ``n_invalid``; and ``n_invalid_catalogue``.

    Raises:
        InputError, OptionError: an argument is not valid.
    """
    if not isinstance(vectors, Vectors):
        msg = f"vectors must be Vectors(users, items); got a {kind_of(vectors)}"
        raise InputError(msg)
    if not (is_number(k, int) and 1 <= k <= _MOST):
        msg = f"k must be a whole number from 1 to {_MOST:,}; got {k!r}"
        raise OptionError(msg)
    if exclude is not None:
        check_table("exclude", exclude)
    names = ColumnNames.read(ScoringOptions(user=user, item=item), one_table=False)
    sources = read_catalogue(vectors, exclude, names)
    columns = sources.predictions.vectors
    assert columns is not None, "they were given"
    grouping = Grouping(sources, ScoringTask(()))
    users = sources.predictions.user
    taken = {RECOMMENDATIONS, N_INVALID, N_INVALID_CATALOGUE}.intersection(map(str.lower, users))
    if taken:
        msg = f"the user column {min(taken)!r} is also the name of a column of the result; rename it"
        raise InputError(msg)
    if item.lower() == "score":
        msg = f"the item column {item!r} has the name of the scores beside it in the result; rename it"
        raise InputError(msg)
    entry = T.StructType([T.StructField(item, grouping.item_type()), T.StructField("score", T.DoubleType())])
    schema = T.StructType(
        [
            *(T.StructField(name, kind) for name, kind in zip(users, grouping.user_types(), strict=True)),
            T.StructField(RECOMMENDATIONS, T.ArrayType(entry)),
            T.StructField(N_INVALID, T.LongType()),
            T.StructField(N_INVALID_CATALOGUE, T.LongType()),
        ]
    )
    run = first_items_of_batches(columns.similarity, k, tuple(grouping.user_columns), item)
    return run_on_workers(grouping.lists(), run, schema)
