"""The rows of users and items whose vectors cannot be used, each with its reason."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from spark_rankeval.features.vectors.catalogue import BIAS, ITEM, USUAL_LENGTH, VECTOR
from spark_rankeval.features.vectors.scores import LARGEST
from spark_rankeval.features.vectors.spark import catalogue_rows, usual_length
from spark_rankeval.spark.ids import id_reasons
from spark_rankeval.spark.source import REPEATED_USER, user_column
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

    from spark_rankeval.spark.source import Source, VectorColumns
    from spark_rankeval.spark.sql_text import Sql

_REPEATED_ITEM = "item in several rows"


def users_with_reasons(source: Source, columns: VectorColumns, item: str, reason: str) -> DataFrame:
    """The rows of users' vectors under our names, without an item, each with why it cannot be used, or null."""
    rows = select(source.frame, *source.given_users(), *columns.of_users())
    users = [named(user_column(index)) for index in range(len(source.user))]
    rows = _with_reasons(rows, columns, users, source.user_reasons(), REPEATED_USER, reason)
    return with_columns(rows, {item: null_of(source.item_type)})


def items_with_reasons(columns: VectorColumns, item: str, reason: str) -> DataFrame:
    """The rows of the catalogue under our names, each with why it cannot be used, or null."""
    reasons = id_reasons("item", named(ITEM), columns.items.item_type)
    rows = _with_reasons(catalogue_rows(columns), columns, [named(ITEM)], reasons, _REPEATED_ITEM, reason)
    return rows.withColumnRenamed(ITEM, item)


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
