"""How messages of many partitions become few on their way to the driver: by a tree that is no wider for larger states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as T

from spark_rankeval.spark.engines import engine_of
from spark_rankeval.spark.python_workers import workers_explained
from spark_rankeval.spark.sql_text import call, named, select
from spark_rankeval.spark.workers import run_on_workers
from spark_rankeval.wire import BUCKET, KIND, PAYLOAD, Message, merged_by_bucket
from spark_rankeval.worker.process import in_worker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_rankeval.wire import Mergers

MESSAGE_SCHEMA = T.StructType(
    [
        T.StructField(BUCKET, T.IntegerType()),
        T.StructField(KIND, T.StringType()),
        T.StructField(PAYLOAD, T.BinaryType()),
    ]
)
# Smaller states the driver takes as they are: a shuffle in between would cost more.
_TAKEN_BY_DRIVER = 128_000
# Messages without a bucket meet in so many; if their states are larger than this, they meet once more in one.
_WIDTH, _LARGE = 8, 1 << 23


def collected_messages(
    messages: DataFrame, mergers: Mergers, n_bytes: int, *, have_buckets: bool = False
) -> list[Message]:
    """The messages of all partitions, merged on the way if they are large, in one action.

    A message travels by its bucket or its partition, never by its bytes: if it is lost and made again, it goes where it went before. If
    messages have buckets, each is merged by itself, so that no two of the results have a group in common. `n_bytes` is the size of a
    packed state.
    """
    widths = [_WIDTH] * (n_bytes > _TAKEN_BY_DRIVER) + [1] * (n_bytes > _LARGE)
    for width in [_WIDTH] if have_buckets else widths:
        messages = merged_messages(messages, mergers, width)
    with workers_explained():
        return [Message(row[BUCKET], row[KIND], bytes(row[PAYLOAD])) for row in messages.collect()]


def merged_messages(messages: DataFrame, mergers: Mergers, width: int = _WIDTH) -> DataFrame:
    """The messages with those of each bucket merged; others meet in so many places by their partition."""
    bucket = call("coalesce", named(BUCKET), call("mod", call("spark_partition_id"), width))
    met = select(messages, bucket.alias(BUCKET), named(KIND), named(PAYLOAD)).repartition(BUCKET)
    # Adaptive execution may put several buckets into one partition: they are merged one after the other even so.
    keeps_order = engine_of(messages.sparkSession).keeps_order
    if keeps_order:
        met = met.sortWithinPartitions(BUCKET, KIND)
    return run_on_workers(met, in_worker(merged_by_bucket(mergers, sort=not keeps_order)), MESSAGE_SCHEMA)
