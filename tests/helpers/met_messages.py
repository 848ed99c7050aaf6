"""Messages of workers, brought together as Spark does it."""

from spark_rankeval.worker.process import merged_by_bucket, messages_of, rows_of


def met(rows, mergers, n_partitions=1):
    """What the driver gets of the rows that workers sent, which meet in partitions by their buckets."""
    messages = list(messages_of(rows))
    merged = []
    for part in range(n_partitions):
        of_part = [message for message in messages if (message.bucket or 0) % n_partitions == part]
        merged += messages_of(merged_by_bucket(mergers, sort=True)(rows_of(of_part)))
    return merged
