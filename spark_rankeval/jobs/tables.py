"""A job's tables, read from files, the catalogue or a database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from spark_rankeval.errors import ConfigurationError
from spark_rankeval.jobs.wording import errors_in_keys
from spark_rankeval.spark.platforms import input_files, said_by_java
from spark_rankeval.trec import read_qrels, read_run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pyspark.sql import DataFrame, SparkSession

    from spark_rankeval.jobs.config import Source

_CSV_OPTIONS = {"header": True, "inferSchema": True}
#: Formats whose columns and types Spark finds in the rows alone, which it reads once more for that.
_INFERRED = ("csv", "json")
_LACKING = {
    "delta": "spark-submit --packages io.delta:delta-spark_2.13:…, with its settings of extension and catalogue",
    "iceberg": "spark-submit --packages org.apache.iceberg:iceberg-spark-runtime-…, with its settings of catalogues",
}


def read_tables(spark: SparkSession, sources: Mapping[str, Source | None]) -> dict[str, DataFrame | None]:
    """The tables of several sections, by their names.

    Raises:
        ConfigurationError: one cannot be read.
    """
    return {section: None if it is None else read_table(spark, it, section) for section, it in sources.items()}


def read_table(spark: SparkSession, source: Source, section: str) -> DataFrame:
    """The table that a section of the configuration names.

    Raises:
        ConfigurationError: there is no such table, or it cannot be read as what it is said to be.
    """
    try:
        with errors_in_keys({name: f"{section}.options.{name}" for name in ("on_invalid", "model")}):
            frame = _frame(spark, source)
        # Spark Connect looks at a table only when its schema is asked for.
        _ = frame.schema
    except Exception as error:
        said = source.redacted(_said(error))
        if "DATA_SOURCE_NOT_FOUND" in str(error) and source.format in _LACKING:
            said = f"this session has no format {source.format!r}; start Spark with it ({_LACKING[source.format]})"
        elif not (isinstance(error, PySparkException) or _is_of_the_jvm(error) or source.format in (*_LACKING, "jdbc")):
            raise
        msg = f"[{section}] cannot be read: {said}"
        raise ConfigurationError(msg) from error
    return frame


def _frame(spark: SparkSession, source: Source) -> DataFrame:
    if source.table is not None:
        return spark.read.table(source.table)
    if source.format in ("trec_run", "trec_qrels"):
        return _trec_table(spark, source)
    reader = spark.read.format(source.format).options(**_CSV_OPTIONS if source.format == "csv" else {})
    if source.schema is not None:
        reader = reader.schema(source.schema)
    reader = reader.options(**source.options)
    if source.path is None:
        return reader.load()
    return reader.load(list(source.path) if isinstance(source.path, tuple) else source.path)


def _trec_table(spark: SparkSession, source: Source) -> DataFrame:
    """A run or judgements, by the functions that read them on every Spark."""
    paths = [source.path] if isinstance(source.path, str) else list(source.path or ())
    if source.format == "trec_qrels":
        return read_qrels(spark, paths, **source.options)  # type: ignore[arg-type] # options are checked there
    return read_run(spark, paths, **source.options)  # type: ignore[arg-type] # the same


def _is_of_the_jvm(error: Exception) -> bool:
    """Whether classic Spark hands on an error of the JVM as it is, which it does with those that it has no class for."""
    return hasattr(error, "java_exception")


def _said(error: Exception) -> str:
    """The line of an error that says most: of one of the JVM, or of a task, its innermost cause, of others the first."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    if lines and lines[0].startswith("An error occurred while calling"):
        lines = lines[1:]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    # What a task met comes as text from Spark 4.0's Connect, in the trace of a job that was given up.
    if causes and (_is_of_the_jvm(error) or lines[0].startswith("Job aborted")):
        return said_by_java(causes[-1])
    return said_by_java(lines[0]) if lines else type(error).__name__


def told_of(frame: DataFrame) -> dict[str, Any]:
    """What a record of a run says of a table: its columns with their types, and how many files it has."""
    return {"columns": dict(frame.dtypes), "n_files": len(input_files(frame))}


def read_for_schema(sources: Mapping[str, Source | None]) -> list[str]:
    """The sections whose files Spark reads to know their columns and types."""
    return [
        section
        for section, it in sources.items()
        if it is not None and it.table is None and it.format in _INFERRED and it.schema is None
    ]
