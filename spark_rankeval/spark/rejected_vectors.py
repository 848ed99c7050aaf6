"""The rows of users and items whose vectors cannot be used, each with its reason."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from spark_rankeval.features.vectors.catalogue import BIAS, ITEM, USUAL_LENGTH, VECTOR
from spark_rankeval.features.vectors.scores import LARGEST
from spark_rankeval.features.vectors.spark import catalogue_rows, usual_length
from spark_rankeval.spark.ids import id_reasons
from spark_rankeval.spark.named_columns import column
from spark_rankeval.spark.source import user_column
from spark_rankeval.spark.sql_text import named

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark_rankeval.spark.source import Source, VectorColumns

REPEATED_USER = "user in several rows"
_REPEATED_ITEM = "item in several rows"
_VECTOR, _BIAS, _NTH = "vector_", "bias_", "nth_"


def users_with_reasons(source: Source, columns: VectorColumns, item: str, reason: str) -> DataFrame:
    """The rows of users' vectors under our names, without an item, each with why it cannot be used, or null."""
    names = [user_column(index) for index in range(len(source.user))]
    rows = source.frame.select(*source.given_users(), *_vector_and_bias(columns.vector, columns.user_bias))
    reasons = {words: holds.column for words, holds in source.user_reasons().items()}
    return _with_reasons(rows, columns, names, reasons, REPEATED_USER, reason).withColumn(
        item, F.lit(None).cast(source.item_type)
    )


def items_with_reasons(columns: VectorColumns, item: str, reason: str) -> DataFrame:
    """The rows of the catalogue under our names, each with why it cannot be used, or null."""
    source = columns.items
    rows = catalogue_rows(columns)
    rows = rows.select(F.col(ITEM).alias(item), *_vector_and_bias(VECTOR, BIAS))
    reasons = {words: holds.column for words, holds in id_reasons("item", named(item), source.item_type).items()}
    return _with_reasons(rows, columns, [item], reasons, _REPEATED_ITEM, reason)


def _vector_and_bias(vector: str, bias: str | None) -> tuple[Column, Column]:
    added = F.lit(0.0) if bias is None else column(bias).cast("double")
    return column(vector).cast("array<double>").alias(_VECTOR), added.alias(_BIAS)


def _with_reasons(
    rows: DataFrame, columns: VectorColumns, keys: list[str], reasons: dict[str, Column], repeated: str, reason: str
) -> DataFrame:
    """Rows of vectors with a reason each. Of several rows of a key one is used, that of the greatest vector.

    Of an item's rows that is one of those that can be used. Of a user's rows it is one of all, as they are grouped.
    """
    rows = rows.crossJoin(usual_length(catalogue_rows(columns)).hint("broadcast"))
    reasons = {
        **reasons,
        "null vector": F.col(_VECTOR).isNull(),
        "empty vector": F.size(_VECTOR) == 0,
        "null, NaN or infinite number in the vector": F.exists(_VECTOR, _is_no_number),
        f"number beyond ±{LARGEST:g} in the vector": F.exists(_VECTOR, _is_too_large),
        "null, NaN or infinite bias": _is_no_number(F.col(_BIAS)),
        f"bias beyond ±{LARGEST:g}": _is_too_large(F.col(_BIAS)),
        "vector of another length than most items have": F.size(_VECTOR) != F.col(USUAL_LENGTH),
    }
    words = F.lit(None).cast("string")
    for why, holds in reversed(reasons.items()):
        words = F.when(F.coalesce(holds, F.lit(False)), why).otherwise(words)
    order = [F.col(_VECTOR).desc(), F.col(_BIAS).desc()]
    if repeated == _REPEATED_ITEM:
        order.insert(0, F.col(reason).isNotNull().asc())
    rows = rows.withColumn(reason, words)
    rows = rows.withColumn(_NTH, F.row_number().over(Window.partitionBy(*keys).orderBy(*order)))
    again = F.when(F.col(_NTH) > 1, repeated)
    return rows.withColumn(reason, F.coalesce(F.col(reason), again)).drop(_VECTOR, _BIAS, USUAL_LENGTH, _NTH)


def _is_no_number(value: Column) -> Column:
    return value.isNull() | F.isnan(value) | (F.abs(value) == math.inf)


def _is_too_large(value: Column) -> Column:
    return F.abs(value) > LARGEST
