"""A job's tables: read from files or the catalogue, and the summary written as a table and as JSON."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import types as T

from spark_rankeval.errors import ConfigurationError
from spark_rankeval.summary import DataQuality, SummaryRow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_rankeval.jobs.config import Source
    from spark_rankeval.result import Result

_TYPES: dict[str, T.DataType] = {
    "str": T.StringType(),
    "float": T.DoubleType(),
    "int": T.LongType(),
    "int | None": T.LongType(),
}
_CSV_OPTIONS = {"header": True, "inferSchema": True}

SUMMARY_SCHEMA = T.StructType([T.StructField(item.name, _TYPES[str(item.type)]) for item in fields(SummaryRow)])
_JSON_SCHEMA = T.StructType(
    [
        T.StructField("summary", T.ArrayType(SUMMARY_SCHEMA)),
        T.StructField("data_quality", T.StructType([T.StructField(f.name, T.LongType()) for f in fields(DataQuality)])),
    ]
)


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
        said = str(error).strip().partition("\n")[0]
        msg = f"[{section}] cannot be read: {said}"
        raise ConfigurationError(msg) from error
    return frame


def write_summary(spark: SparkSession, result: Result, table: str, document: str, mode: str) -> None:
    """Write the summary as a Parquet table, a row a metric, and with the data quality as one JSON document.

    Args:
        spark: the session.
        result: what to write.
        table: the path of the table.
        document: the path of the JSON, a folder with one file of one line, which any storage takes; NaN is null.
        mode: ``errorifexists`` or ``overwrite``.
    """
    rows = spark.createDataFrame([asdict(row) for row in result.summary], SUMMARY_SCHEMA)
    rows.coalesce(1).write.mode(mode).parquet(table)
    whole = spark.createDataFrame([result.to_dict()], _JSON_SCHEMA)
    whole.coalesce(1).write.mode(mode).option("ignoreNullFields", False).json(document)
