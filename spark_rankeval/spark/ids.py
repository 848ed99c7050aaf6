"""Ids of users and items: which types compare, and the hash by which users are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.worker.reading import USER_HASH

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column

_FLOATING = (T.FloatType, T.DoubleType)


def user_hash(columns: Iterable[Column], types: Iterable[T.DataType]) -> Column:
    """A 64-bit hash of a user's id, equal for equal ids of any width, by which the user is drawn into bootstrap samples.

    Args:
        columns: the user's columns.
        types: their types.
    """
    widest = [
        column.cast("bigint")
        if isinstance(kind, T.IntegralType)
        else column.cast("double")
        if isinstance(kind, _FLOATING)
        else column
        for column, kind in zip(columns, types, strict=True)
    ]
    return F.xxhash64(*widest).alias(USER_HASH)


def common_id_type(left: T.DataType, right: T.DataType) -> T.DataType | None:
    """The type under which two ids compare without a cast that could change either; None where there is none."""
    if isinstance(left, T.StringType) and isinstance(right, T.StringType):
        return T.StringType()
    if isinstance(left, T.IntegralType) and isinstance(right, T.IntegralType):
        return left if left == right else T.LongType()
    if isinstance(left, _FLOATING) and isinstance(right, _FLOATING):
        return left if left == right else T.DoubleType()
    return left if left == right else None
