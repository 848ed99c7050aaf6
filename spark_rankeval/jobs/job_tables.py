"""The tables that jobs read, from files, the catalogue or a database."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import dataset
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.errors import ConfigurationError, UnavailableError, listed
from spark_rankeval.jobs.config import Source
from spark_rankeval.jobs.logs import errors_with_keys
from spark_rankeval.spark.engine import engine_of, input_files, no_json_in_words, said_by_java
from spark_rankeval.spark.local_tables import NANOSECONDS, ON_NANOSECONDS, with_spark_types
from spark_rankeval.spark.sql import column
from spark_rankeval.trec import read_qrels, read_run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession


# A quote in a quoted text is doubled, as RFC 4180 has it and pandas writes it. Spark's own default is a backslash before it.
_CSV_OPTIONS: dict[str, bool | str] = {"header": True, "inferSchema": True, "escape": '"'}
#: Formats whose columns and types Spark finds in the rows alone, which it reads once more for that.
_INFERRED = ("csv", "json")
# Formats whose tables have a type for every column, also for those that divide their files into folders.
_TYPED_TABLES = ("delta", "iceberg")
# An engine that does not have a format says so.
_NO_FORMAT = re.compile(r"No data source found for: (\w+)")
# What stands for null in the names of folders.
_NULL_IN_FOLDERS = ("", "__HIVE_DEFAULT_PARTITION__")
_ALL_ROWS = 2**62
# The column of lines of text.
_LINE = "value"
_WHOLE_NUMBER = "^(0|-?[1-9][0-9]*)$"
_LACKING = {
    "delta": "spark-submit --packages io.delta:delta-spark_2.13:…, with its settings of extension and catalogue",
    "iceberg": "spark-submit --packages org.apache.iceberg:iceberg-spark-runtime-…, with its settings of catalogues",
    "jdbc": "spark-submit --jars or --packages, with the driver of the database",
}
# A session without a format or without the driver of a database.
_NOT_THERE = re.compile("DATA_SOURCE_NOT_FOUND|ClassNotFoundException")
# What engines, drivers and servers say if another attempt may succeed. A host that is not known is mostly a wrong name.
_NOT_NOW = re.compile(
    r"java\.net\.(Connect|SocketTimeout|NoRouteToHost)Exception|SQL(Transient|Recoverable)\w*Exception|CommunicationsException"
    r"|too many (clients|connections)|the database system is (starting up|shutting down)|error sending request",
    re.IGNORECASE,
)
_UNKNOWN_HOST = re.compile("UnknownHostException|failed to lookup address")


def read_tables(
    spark: SparkSession, sources: Mapping[str, Source], names_of_ids: Collection[str]
) -> dict[str, DataFrame]:
    """The tables of several sections, by their names; see `read_table`."""
    return {section: read_table(spark, source, section, names_of_ids) for section, source in sources.items()}


def read_table(spark: SparkSession, source: Source, section: str, names_of_ids: Collection[str] = ()) -> DataFrame:
    """The table of a section of the configuration; ids whose type Spark infers stay as written: 7, 007 and 7.0 are three."""
    try:
        with errors_with_keys({name: f"{section}.options.{name}" for name in ("on_invalid", "model")}):
            frame = _frame(spark, source, names_of_ids)
        # Spark Connect looks at a table only when its schema is asked for.
        _ = frame.schema
        _check_paths(spark, source)
    except Exception as error:
        reason = source.redacted(_reason(error))
        if _NOT_THERE.search(str(error)) and source.format in _LACKING:
            reason = f"this session does not have the format {source.format!r}; start Spark with it ({_LACKING[source.format]})"
        elif (no_format := _NO_FORMAT.search(str(error))) is not None:
            reason = f"{engine_of(spark).name} has no format {no_format[1]!r}; store the table as parquet, or run the job on Spark"
        elif no_json := no_json_in_words(str(error), _files_of(spark, *source.paths)):
            reason = no_json
        elif NANOSECONDS in str(error):
            reason = _columns_of_nanoseconds(source) + ON_NANOSECONDS
        elif not (isinstance(error, PySparkException) or _is_of_the_jvm(error) or source.format in _LACKING):
            raise
        said = _said(error)
        is_down = _NOT_NOW.search(said) and not _UNKNOWN_HOST.search(said)
        msg = f"[{section}] cannot be read: {reason}"
        raise (UnavailableError if is_down else ConfigurationError)(msg) from error
    return frame


def _columns_of_nanoseconds(source: Source) -> str:
    """The columns of Parquet files with times of nanoseconds, and a colon; empty if only Spark reaches the files."""
    try:
        schema = dataset.dataset(source.paths[0]).schema
    except (OSError, pa.ArrowException):
        return ""
    return f"{listed([repr(each.name) for each in schema if '[ns' in str(each.type)])}: "


def _files_of(spark: SparkSession, *paths: str) -> Iterator[str]:
    """The files at paths, as they are asked for."""
    return chain.from_iterable(input_files(spark.read.schema("value string").text(path)) for path in paths)


def _check_paths(spark: SparkSession, source: Source) -> None:
    """Refuse paths with nothing there, which some engines read as no rows."""
    if engine_of(spark).is_spark or source.format in _TYPED_TABLES:
        return
    missing = [path for path in source.paths if not [*_files_of(spark, path)]]
    if missing:
        msg = f"there is no file at {', '.join(missing)} [PATH_NOT_FOUND]"
        raise AnalysisException(msg)


def _frame(spark: SparkSession, source: Source, names_of_ids: Collection[str]) -> DataFrame:
    if source.table is not None:
        return spark.read.table(source.table)
    if source.format == "trec_qrels":
        return read_qrels(spark, source.paths, **source.options)  # type: ignore[arg-type] # options are checked there
    if source.format == "trec_run":
        return read_run(spark, source.paths, **source.options)  # type: ignore[arg-type] # the same
    engine = engine_of(spark)
    reader = spark.read.format(source.format).options(**_CSV_OPTIONS if source.format == "csv" else {})
    if source.format in _INFERRED and not engine.is_spark:
        reader = reader.option("schemaInferMaxRecords", _ALL_ROWS)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    reader = reader.options(**source.options)
    if source.path is None:
        return reader.load()
    paths = list(source.path) if isinstance(source.path, tuple) else source.path
    frame = with_spark_types(reader.load(paths), ", ".join(source.paths))
    if source.format in _TYPED_TABLES:
        return frame
    ids = {name.lower() for name in names_of_ids}
    roots = [str(value) for name, value in source.options.items() if name.lower() == "basepath"] or source.paths
    folder_columns = _columns_in(file.rpartition("/")[0] for file in input_files(frame)) - _columns_in(roots)
    if source.schema is None:
        # Parquet and ORC have types; but Spark infers those of the columns that only the names of folders have.
        inferred = ids if source.format in _INFERRED else ids & folder_columns
        if source.format == "json" and not engine.is_spark:
            frame = _from_lines(spark.read.options(**source.options).format("text").load(paths), frame, ids)
        else:
            frame = _with_ids_as_written(reader, paths, frame, inferred)
    return frame if engine.is_spark else _with_nulls(frame, folder_columns)


def _columns_in(folders: Iterable[str]) -> set[str]:
    """The columns that folders have in their names, such as model in ``model=01``, in lower case."""
    return {unquote(part.partition("=")[0]).lower() for folder in folders for part in folder.split("/") if "=" in part}


def _with_nulls(frame: DataFrame, folder_columns: Collection[str]) -> DataFrame:
    """A table with null in the columns of folders where the names of folders stand for it."""
    texts = [name for name, kind in frame.dtypes if kind == "string" and name.lower() in folder_columns]
    nulls = {name: F.when(~column(name).isin(*_NULL_IN_FOLDERS), column(name)) for name in texts}
    return frame.withColumns(nulls) if nulls else frame


def _from_lines(lines: DataFrame, inferred: DataFrame, ids: Collection[str]) -> DataFrame:
    """A table of lines of JSON, some of whose strings are numbers in the files. Numbers of 64 bits stay as written."""
    kinds = {field.name: field.dataType for field in inferred.schema.fields}
    inexact = [name for name, kind in kinds.items() if _with_text(kind, ids, is_id=name.lower() in ids) != kind]
    if inexact:
        msg = (
            f"the ids in {', '.join(inexact)} are neither strings nor whole numbers of 64 bits, and this engine cannot read them as "
            "written; store them as strings"
        )
        raise AnalysisException(msg)
    # The rest are columns of folders.
    fields = {name: kind for name, kind in kinds.items() if name == _LINE or name not in lines.columns}
    # Lines without text are no rows.
    read = lines.where(F.col(_LINE).rlike(r"\S")).withColumn(_LINE, F.from_json(_LINE, _schema(fields)))
    return read.select(*[column(_LINE)[name].alias(name) if name in fields else column(name) for name in kinds])


def _with_ids_as_written(
    reader: DataFrameReader, paths: str | list[str], inferred: DataFrame, ids: Collection[str]
) -> DataFrame:
    """A table whose inferred ids are text, unless all are whole numbers as Spark writes them: it would read 007 as 7."""
    inferred_types = {field.name: field.dataType for field in inferred.schema.fields}
    types = {name: _with_text(kind, ids, is_id=name.lower() in ids) for name, kind in inferred_types.items()}
    whole = [name for name, kind in types.items() if name.lower() in ids and isinstance(kind, T.IntegralType)]
    if whole:
        text = reader.schema(_schema(types | dict.fromkeys(whole, T.StringType()))).load(paths)
        written = [F.min(column(name).rlike(_WHOLE_NUMBER)).alias(str(place)) for place, name in enumerate(whole)]
        (row,) = text.agg(*written).collect()
        types |= {name: T.StringType() for name, is_written in zip(whole, row, strict=True) if not is_written}
    return inferred if types == inferred_types else reader.schema(_schema(types)).load(paths)


def _with_text(kind: T.DataType, ids: Collection[str], *, is_id: bool) -> T.DataType:
    """A type with text for ids, in arrays and structs, too; whole numbers stay."""
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_with_text(kind.elementType, ids, is_id=is_id))
    if isinstance(kind, T.StructType):
        return _schema({each.name: _with_text(each.dataType, ids, is_id=each.name.lower() in ids) for each in kind})
    return T.StringType() if is_id and not isinstance(kind, T.IntegralType) else kind


def _schema(types: Mapping[str, T.DataType]) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in types.items()])


def _is_of_the_jvm(error: Exception) -> bool:
    """Whether this is an error of the JVM for which classic Spark has no class."""
    return hasattr(error, "java_exception")


def _said(error: Exception) -> str:
    """What an error says, with the causes that PySpark keeps apart."""
    return f"{error}\n{getattr(error, '_stackTrace', None) or getattr(error, '_stacktrace', None) or ''}".strip()


def _reason(error: Exception) -> str:
    """The line of an error that says most: for one of the JVM or of a task the innermost cause, for others the first.

    Of a database it is all causes: that of the driver and that of the server.
    """
    lines = [line.strip() for line in _said(error).splitlines()]
    if lines and lines[0].startswith("An error occurred while calling"):
        lines = lines[1:]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    if causes and lines[0].startswith("[FAILED_JDBC"):
        return "; ".join(said_by_java(cause).rstrip(".") for cause in causes)
    # What a task met comes as text from Spark 4.0's Connect, in the trace of a job that was given up.
    if causes and (_is_of_the_jvm(error) or lines[0].startswith("Job aborted")):
        return said_by_java(causes[-1])
    return said_by_java(lines[0]) if lines else type(error).__name__


def read_for_schema(sources: Mapping[str, Source]) -> list[str]:
    """The sections whose files Spark reads to know their columns and types."""
    return [
        section
        for section, source in sources.items()
        if source.table is None and source.format in _INFERRED and source.schema is None
    ]
