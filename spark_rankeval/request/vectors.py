"""Vectors of users and items, from which the whole catalogue is ranked, in the place of predictions."""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from typing import Any, Literal, Self, get_args

from spark_rankeval.checks import check_name, check_table, local_package, one_of
from spark_rankeval.errors import InputError, OptionError
from spark_rankeval.request.options import Table  # noqa: TC001 # of a field, whose type is looked at

#: How a user and an item make a score.
Similarity = Literal["dot", "cosine"]
#: What helps if tasks cannot hold the catalogue.
SMALLER_CATALOGUE = (
    "Use float32, fewer dimensions, or a table of items as candidates; or evaluate lists that the model makes, such as ALS "
    "recommendForAllUsers(100)"
)
#: What is wrong if no task can hold it.
CATALOGUE_TOO_LARGE = f"the items of Vectors take more than 2 GB, and no row of a table holds more. {SMALLER_CATALOGUE}"
#: What to do about an option that there was.
NO_PARTS = (
    "parts was removed, and each task holds the whole catalogue; leave it out, and give workers more memory if that does not fit. "
    f"{SMALLER_CATALOGUE}"
)


@dataclass(frozen=True)
class Vectors:
    """Vectors of users and items that stand for a model's predictions: every user's list is the whole catalogue, best first.

    The score of a user and an item is the sum of the products of their numbers. It is computed in float64, dimension after dimension,
    so that ranks are the same on every machine. Equal scores are ordered by item, as everywhere.

    Examples:
        >>> users = spark.createDataFrame([(user, [1.0, user / 10]) for user in range(8)], "user int, vector array<double>")
        >>> items = spark.createDataFrame([("a", [0.5, 1.0]), ("b", [0.4, 2.0]), ("c", [0.1, 0.0])], "item string, vector array<double>")
        >>> evaluate(Vectors(users, items), labels, ["rr", "recall@1"])["rr"]
        0.5208333333333334

    Attributes:
        users: a row for each user, with the user's columns as `evaluate` names them, and the vector.
        items: the catalogue: a row for each item, with the column of items as `evaluate` names it, and the vector.
        vector: the column of both tables that holds the vectors: arrays of numbers, all of the same length.
        user_bias: the column of `users` with a number to add to all scores of the user. None: nothing is added.
        item_bias: the column of `items` with a number to add to all scores of the item. None: nothing is added.
        similarity: ``dot``, the sum of products; or ``cosine``, the same of vectors that are scaled to length 1 first. A vector of zeros
            stays as it is, and its scores are 0. Biases are added afterwards.
        candidates: the items that can be recommended: a table of items; or of users and items, which gives each user their own. None: all
            of `items`.
        parts: was removed, and must be left out: each task holds the whole catalogue.

    Raises:
        InputError, OptionError: an argument is not what it should be.
    """

    users: Table
    items: Table
    vector: str = "vector"
    user_bias: str | None = None
    item_bias: str | None = None
    similarity: Similarity = "dot"
    candidates: Table | None = None
    parts: InitVar[int | None] = None

    def __post_init__(self, parts: int | None) -> None:
        if parts is not None:
            raise OptionError(NO_PARTS)
        for name in ("users", "items", "candidates"):
            table = getattr(self, name)
            if not local_package(table) and (table is not None or name != "candidates"):
                check_table(f"{name} of Vectors", table)
        if not isinstance(self.vector, str):
            msg = f"vector must be a column name; got {self.vector!r}"
            raise InputError(msg)
        check_name("user_bias", self.user_bias)
        check_name("item_bias", self.item_bias)
        one_of("similarity", self.similarity, get_args(Similarity))

    @classmethod
    def of(cls, model: Any, *, parts: int | None = None) -> Self:
        """The factors of a fitted ``ALSModel`` of ``pyspark.ml``; users and items are named as its ``userCol`` and ``itemCol``.

        ``evaluate(Vectors.of(model), labels, "ndcg@10", exclude=training)``

        Raises:
            InputError: the model has no factors of users and items.
        """
        try:
            users, items = model.userFactors, model.itemFactors
            names = model.getUserCol(), model.getItemCol()
        except (AttributeError, TypeError) as error:  # a table of Connect takes any name for a column
            msg = (
                f"the model of Vectors.of must be a fitted ALSModel of pyspark.ml; got {type(model).__name__}. Pass Vectors(users, items), "
                "two tables with a column of vectors"
            )
            raise InputError(msg) from error
        return cls(users.toDF(names[0], "vector"), items.toDF(names[1], "vector"), parts=parts)
