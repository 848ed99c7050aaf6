"""Settings of Spark for a while, and shuffles of small tables as large tables have them."""

from contextlib import contextmanager


@contextmanager
def settings_of(spark, settings):
    """Spark with other settings, and as it was after."""
    before = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, setting in settings.items():
            spark.conf.set(name, setting)
        yield
    finally:
        for name, setting in before.items():
            spark.conf.set(name, setting) if setting is not None else spark.conf.unset(name)


def shuffled_into(spark, n_partitions):
    """Every shuffle has so many partitions; Spark would merge those of a few rows into one."""
    return settings_of(
        spark,
        {"spark.sql.shuffle.partitions": str(n_partitions), "spark.sql.adaptive.coalescePartitions.enabled": "false"},
    )
