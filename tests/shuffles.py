"""Shuffles of small tables as large tables have them."""

from contextlib import contextmanager


@contextmanager
def shuffled_into(spark, n_partitions):
    """Every shuffle has so many partitions; Spark would merge those of a few rows into one."""
    settings = {
        "spark.sql.shuffle.partitions": str(n_partitions),
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
    }
    before = {name: spark.conf.get(name) for name in settings}
    try:
        for name, setting in settings.items():
            spark.conf.set(name, setting)
        yield
    finally:
        for name, setting in before.items():
            spark.conf.set(name, setting)
