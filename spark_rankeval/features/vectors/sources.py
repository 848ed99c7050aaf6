"""The tables of a model that ranks the whole catalogue from vectors: found and checked, and the rows that cannot be used."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from spark_rankeval.errors import InputError
from spark_rankeval.features.items.sources import array_of_numbers
from spark_rankeval.features.vectors.catalogue import BIAS, ITEM, USUAL_LENGTH, VECTOR
from spark_rankeval.features.vectors.scores import LARGEST
from spark_rankeval.features.vectors.spark import VectorSources, catalogue_rows, usual_length
from spark_rankeval.spark.ids import id_reasons, problem_of_type
from spark_rankeval.spark.inputs import Model, Sources
from spark_rankeval.spark.named_columns import find_column
from spark_rankeval.spark.source import (
    REPEATED_USER,
    Source,
    VectorColumns,
    check_comparable,
    read_source,
    require_column,
    user_column,
)
from spark_rankeval.spark.sql_text import (
    call,
    descending,
    first_true,
    function_of,
    named,
    null_of,
    over,
    select,
    text,
    when,
    with_columns,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_rankeval.request.column_names import ColumnNames
    from spark_rankeval.request.vectors import Vectors
    from spark_rankeval.spark.source import Role
    from spark_rankeval.spark.sql_text import Sql

_REPEATED_ITEM = "item in several rows"


class CatalogueColumns(VectorColumns):
    """The same with the reasons why rows cannot be used."""

    def users_with_reasons(self, source: Source, item: str, reason: str) -> DataFrame:
        """The rows of users' vectors under our names, without an item, each with why it cannot be used, or null."""
        rows = select(source.frame, *source.given_users(), *self.of_users())
        users = [named(user_column(index)) for index in range(len(source.user))]
        rows = _with_reasons(rows, self, users, source.user_reasons(), REPEATED_USER, reason)
        return with_columns(rows, {item: null_of(source.item_type)})

    def items_with_reasons(self, item: str, reason: str) -> DataFrame:
        """The rows of the catalogue under our names, each with why it cannot be used, or null."""
        reasons = id_reasons("item", named(ITEM), self.items.item_type)
        rows = _with_reasons(catalogue_rows(self), self, [named(ITEM)], reasons, _REPEATED_ITEM, reason)
        return rows.withColumnRenamed(ITEM, item)


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
    columns = CatalogueColumns(items, vector, item_vector, user_bias, item_bias, vectors.similarity, candidates)
    return Source("predictions", vectors.users, tuple(users), items.item, items.item_type, arrays=True, vectors=columns)


def _bias(role: Role, frame: DataFrame, name: str | None, option: str, problems: list[str]) -> str | None:
    found = None if name is None else require_column(role, frame, name, option, problems)
    if found is not None and not isinstance(frame.schema[found].dataType, T.NumericType):
        kind = frame.schema[found].dataType.simpleString()
        problems.append(f"{role}: {option}={found!r} must be a number; it is {kind}. Cast it")
    return found


def read_catalogue(vectors: Vectors, exclude: DataFrame | None, names: ColumnNames) -> Sources:
    """The tables of vectors alone, without labels; checked as by `read_sources`."""
    problems: list[str] = []
    model = Model("", read_vectors(vectors, names, problems))
    left_out = None if exclude is None else read_source("exclude", exclude, names, problems)
    columns = model.source.vectors
    if not problems:
        check_comparable(model.source, (left_out, None if columns is None else columns.candidates), problems)
    if problems:
        raise InputError("; ".join(dict.fromkeys(problems)))
    assert columns is not None, "they were found"
    # Nobody asks for labels; the users' side stands for them where types are compared.
    return Sources((model,), model.source, exclude=left_out, features=(VectorSources((columns,)),))


def _with_reasons(
    rows: DataFrame, columns: VectorColumns, keys: list[Sql], reasons: dict[str, Sql], repeated: str, reason: str
) -> DataFrame:
    """Rows of vectors with a reason each. Of several rows of a key one is used, that of the greatest vector.

    Of an item's rows that is one of those that can be used. Of a user's rows it is one of all, as they are grouped.
    """
    vector, bias, entry = named(VECTOR), named(BIAS), named("entry")
    reasons = {
        **reasons,
        "null vector": vector.is_null(),
        "empty vector": call("size", vector) == 0,
        "null, NaN or infinite number in the vector": call(
            "exists", vector, function_of(["entry"], _is_no_number(entry))
        ),
        f"number beyond ±{LARGEST:g} in the vector": call(
            "exists", vector, function_of(["entry"], _is_too_large(entry))
        ),
        "null, NaN or infinite bias": _is_no_number(bias),
        f"bias beyond ±{LARGEST:g}": _is_too_large(bias),
        "vector of another length than most items have": call("size", vector) != named(USUAL_LENGTH),
    }
    rows = rows.crossJoin(usual_length(catalogue_rows(columns)).hint("broadcast"))
    rows = with_columns(rows, {reason: first_true(reasons)})
    usable_first = [named(reason).is_not_null()] if repeated == _REPEATED_ITEM else []
    nth = over(call("row_number"), keys, [*usable_first, descending(vector), descending(bias)])
    again = when(nth > 1, text(repeated))
    return with_columns(rows, {reason: call("coalesce", named(reason), again)}).drop(VECTOR, BIAS, USUAL_LENGTH)


def _is_no_number(value: Sql) -> Sql:
    return value.is_null() | call("isnan", value) | (call("abs", value) == math.inf)


def _is_too_large(value: Sql) -> Sql:
    return call("abs", value) > LARGEST
