"""A job's tables: read from files or the catalogue, and the summary written as a table and as JSON."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import types as T

from spark_rankeval.errors import ConfigurationError
from spark_rankeval.spark.platforms import save_mode
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

_QUALITY_SCHEMA = T.StructType([T.StructField(item.name, T.LongType()) for item in fields(DataQuality)])


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
    records = [row.record() for row in result.summary]
    known = {item.name: _TYPES[str(item.type)] for item in fields(SummaryRow) if str(item.type) in _TYPES}
    # Any other column is a quantile.
    schema = T.StructType([T.StructField(name, known.get(name, T.DoubleType())) for name in records[0]])
    rows = spark.createDataFrame(records, schema)
    rows.coalesce(1).write.mode(save_mode(mode)).parquet(table)
    fields_of_document = [
        T.StructField("summary", T.ArrayType(schema)),
        T.StructField("data_quality", _QUALITY_SCHEMA),
    ]
    whole = spark.createDataFrame([result.to_dict()], T.StructType(fields_of_document))
    whole.coalesce(1).write.mode(save_mode(mode)).option("ignoreNullFields", False).json(document)
