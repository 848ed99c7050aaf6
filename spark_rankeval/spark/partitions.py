"""Rows to partitions that are chosen by number, on every version of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.spark.sql_text import call, named, text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEY = "partition_key_"
_32_BITS = (1 << 32) - 1


def hash_of(number: int) -> int:
    """Spark's hash of an int, by which it chooses a partition: MurmurHash3 of 32 bits with the seed 42, with a sign.

    >>> hash_of(0)
    933211791
    """
    mixed = number * 0xCC9E2D51 & _32_BITS
    mixed = (mixed << 15 | mixed >> 17) & _32_BITS
    mixed = mixed * 0x1B873593 & _32_BITS
    state = 42 ^ mixed
    state = (state << 13 | state >> 19) & _32_BITS
    state = (state * 5 + 0xE6546B64 & _32_BITS) ^ 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        state = (state ^ state >> shift) * factor & _32_BITS
    return state - (1 << 32) if state >> 31 else state


def keys_of_partitions(n: int) -> list[int]:
    """For each of n partitions an int whose rows Spark brings there."""
    keys: dict[int, int] = {}
    key = 0
    while len(keys) < n:
        keys.setdefault(hash_of(key) % n, key)
        key += 1
    return [keys[place] for place in range(n)]


def to_partitions(rows: DataFrame, place: str, n: int) -> DataFrame:
    """The rows in n partitions, each in that which a column of whole numbers from 0 says."""
    keys = call("split", text(",".join(map(str, keys_of_partitions(n)))), text(","))
    key = call("element_at", keys.cast(T.ArrayType(T.IntegerType())), (named(place) + 1).cast("int"))
    return rows.withColumn(_KEY, key.column).repartition(n, F.col(_KEY)).drop(_KEY)
