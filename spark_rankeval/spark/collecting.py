"""How the states of many partitions become few on their way to the driver: by a tree that is no wider for larger states."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import types as T

from spark_rankeval.spark.engines import engine_of
from spark_rankeval.spark.python_workers import workers_explained
from spark_rankeval.spark.sql_text import call, named, select
from spark_rankeval.spark.workers import run_on_workers
from spark_rankeval.worker.packing import PLACE, STATE, in_order

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_rankeval.spark.sql_text import Sql
    from spark_rankeval.worker.process import Run

STATE_SCHEMA = T.StructType([T.StructField(PLACE, T.IntegerType()), T.StructField(STATE, T.BinaryType())])
# Smaller states the driver takes as they are: a shuffle in between would cost more.
_TAKEN_BY_DRIVER = 128_000
# In so many places states of no place of their own meet; if they are larger than this, they meet once more in one.
_WIDTH, _LARGE = 8, 1 << 23


def meeting_place(width: int = _WIDTH) -> Sql:
    """Where a row's state meets others: the row's own place, or one of so many by the partition."""
    return call("coalesce", named(PLACE), call("mod", call("spark_partition_id"), width))


def run_by_place(rows: DataFrame, merge: Run, schema: T.StructType) -> DataFrame:
    """What a function for ``mapInArrow`` makes of rows that stand in the partitions of their places, place by place."""
    # Adaptive execution may put several places into one partition: they are merged one after the other even so.
    if engine_of(rows.sparkSession).keeps_order:
        return run_on_workers(rows.sortWithinPartitions(PLACE), merge, schema)
    return run_on_workers(rows, in_order(merge), schema)


class Packed(NamedTuple):
    """A packed state, and the place of its row, if it has one."""

    place: int | None
    state: bytes


def collected_states(states: DataFrame, merge: Run, n_bytes: int, *, have_places: bool = False) -> list[Packed]:
    """The packed states of all partitions, merged on the way if they are large, in one action.

    A state travels by its place or its partition, never by its bytes: if it is lost and made again, it goes where it went before. If rows
    have places, each is merged by itself, so that no two of the results have a group in common. `n_bytes` is the size of a packed state.
    """
    widths = [_WIDTH] * (n_bytes > _TAKEN_BY_DRIVER) + [1] * (n_bytes > _LARGE)
    for width in [_WIDTH] if have_places else widths:
        met = select(states, meeting_place(width).alias(PLACE), named(STATE)).repartition(PLACE)
        states = run_by_place(met, merge, STATE_SCHEMA)
    with workers_explained():
        return [Packed(row[PLACE], bytes(row[STATE])) for row in states.collect()]
