"""A job's tables, read from files or the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from spark_rankeval.errors import ConfigurationError
from spark_rankeval.jobs.secrets import redacted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_rankeval.jobs.config import Source

_CSV_OPTIONS = {"header": True, "inferSchema": True}


def read_table(spark: SparkSession, source: Source, section: str) -> DataFrame:
    """The table that a section of the configuration names.

    Raises:
        ConfigurationError: there is no such table, or it cannot be read as what it is said to be.
    """
    try:
        if source.table is not None:
            frame = spark.read.table(source.table)
        else:
            reader = spark.read.format(source.format).options(**_CSV_OPTIONS if source.format == "csv" else {})
            paths = list(source.path) if isinstance(source.path, tuple) else source.path
            frame = reader.options(**source.options).load(paths)
        # Spark Connect looks at a table only when its schema is asked for.
        _ = frame.schema
    except PySparkException as error:
        said = redacted(str(error).strip().partition("\n")[0], source.options)
        msg = f"[{section}] cannot be read: {said}"
        raise ConfigurationError(msg) from error
    return frame
