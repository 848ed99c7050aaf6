"""The tables of a model that ranks the whole catalogue from vectors: found and checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as T

from spark_rankeval.spark.ids import problem_of_type
from spark_rankeval.spark.named_columns import find_column
from spark_rankeval.spark.source import Source, VectorColumns, read_source, require_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_rankeval.request.column_names import ColumnNames
    from spark_rankeval.request.vectors import Vectors
    from spark_rankeval.spark.source import Role


def read_vectors(vectors: Vectors, names: ColumnNames, problems: list[str]) -> Source:
    """Find the columns of a model's vectors, as `read_source` finds those of its lists."""
    found: list[str] = []
    source = _read_vectors(vectors, names, found)
    # A problem begins with the role of its table. The caller knows the table by another name.
    for role, name in {"predictions": "users", "catalogue": "items", "candidates": "candidates"}.items():
        problems += [f"{name} of Vectors{text.removeprefix(role)}" for text in found if text.startswith(role)]
    return source


def _read_vectors(vectors: Vectors, names: ColumnNames, problems: list[str]) -> Source:
    users = [
        found for name in names.user if (found := require_column("predictions", vectors.users, name, "user", problems))
    ]
    for name in users:
        kind = vectors.users.schema[name].dataType
        problems += problem_of_type(f"predictions: the user column {name!r}", kind, "user")
    items = read_source("catalogue", vectors.items, names, problems)
    vector = array_of_numbers("predictions", vectors.users, vectors.vector, problems)
    item_vector = array_of_numbers("catalogue", vectors.items, vectors.vector, problems)
    user_bias = _bias("predictions", vectors.users, vectors.user_bias, "user_bias", problems)
    item_bias = _bias("catalogue", vectors.items, vectors.item_bias, "item_bias", problems)
    candidates = None
    if vectors.candidates is not None:
        of_users = all(find_column(vectors.candidates, name) for name in names.user)
        role: Role = "candidates" if of_users else "catalogue"
        wrong: list[str] = []
        candidates = read_source(role, vectors.candidates, names, wrong)
        problems += [f"candidates{problem.removeprefix(role)}" for problem in wrong]
    columns = VectorColumns(items, vector, item_vector, user_bias, item_bias, vectors.similarity, candidates)
    return Source("predictions", vectors.users, tuple(users), items.item, items.item_type, arrays=True, vectors=columns)


def array_of_numbers(role: Role, frame: DataFrame, name: str, problems: list[str]) -> str:
    """The name of a column of vectors as the table spells it; what is wrong with it is added to the problems."""
    found = require_column(role, frame, name, "vector", problems)
    kind = T.NullType() if found is None else frame.schema[found].dataType
    if found is not None and not (isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.NumericType)):
        problems.append(
            f"{role}: the column {found!r} (vector=) must be an array of numbers; it is {kind.simpleString()}. Convert a vector of "
            "pyspark.ml with pyspark.ml.functions.vector_to_array"
        )
    return found or name


def _bias(role: Role, frame: DataFrame, name: str | None, option: str, problems: list[str]) -> str | None:
    found = None if name is None else require_column(role, frame, name, option, problems)
    if found is not None and not isinstance(frame.schema[found].dataType, T.NumericType):
        kind = frame.schema[found].dataType.simpleString()
        problems.append(f"{role}: {option}={found!r} must be a number; it is {kind}. Cast it")
    return found
