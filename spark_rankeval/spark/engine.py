"""The engine behind a session, and what it can do; what Spark's versions call differently, and what a platform may refuse to tell."""

from __future__ import annotations

import logging
import math
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from pyspark import __version__
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from spark_rankeval.checks import SPARK, is_connect, tested_engine
from spark_rankeval.errors import EngineError, warn

if TYPE_CHECKING:
    from pyspark.ml.util import BaseReadWrite
    from pyspark.sql import Column, DataFrame, SparkSession


_WITH_NAN = "SAIL_EXECUTION__COLLECT_STATISTICS=false and SAIL_PARQUET__PRUNING=false"


@dataclass(frozen=True)
class Engine:
    """What runs the plans of a session: Spark, or Sail in the versions that tests run on.

    docs/platforms.md lists for users what Spark can do and Sail cannot.
    """

    name: str  # Spark or Sail
    version: str  # of Spark what PySpark says
    is_spark: bool  # Spark has all of what code asks for, and Sail nothing of it

    @property
    def keeps_best(self) -> bool:
        """Whether min_by keeps several values."""
        return self.is_spark and tuple(map(int, re.findall(r"\d+", self.version)[:2])) >= (4, 2)


_engines: WeakKeyDictionary[SparkSession, Engine] = WeakKeyDictionary()


def engine_of(session: SparkSession) -> Engine:
    """The engine of a session; the first call asks the engine, and the others remember.

    Raises:
        EngineError: no test has run on the engine, see `tested_engine`; or it loses NaN of files.
    """
    if session not in _engines:
        name, version = tested_engine(session)
        if name != SPARK:
            _check_nan(session, name)
        _engines[session] = Engine(name, version, name == SPARK)
    return _engines[session]


def _check_nan(session: SparkSession, name: str) -> None:
    """Refuse an engine that reads NaN in files as other values: statistics of files leave NaN out, and may say that all are equal."""
    path = f"memory:///{uuid.uuid4().hex}"
    try:
        session.createDataFrame([(1.0,), (math.nan,)], "x double").coalesce(1).write.parquet(path)
        table = session.read.parquet(path)
        if table.where(F.isnan("x")).count() == 1:
            return
        keeps_rows = table.count() == 2
    except PySparkException:
        keeps_rows = False
    if keeps_rows:
        msg = f"{name} reads NaN in files as other values with its settings; start it with {_WITH_NAN}, or use local.session()"
        raise EngineError(msg)
    # An engine of several processes may have no memory that they share.
    warn(
        f"whether {name} reads NaN in files as NaN could not be tried; make sure that its server was started with {_WITH_NAN}"
    )


# The second one is Spark 3.5's, and of those file systems whose errors Spark hands on.
_VANISHED = ("FAILED_READ_FILE.FILE_NOT_EXIST", "FileNotFoundException")
_JAVA_CLASS = r"([\w$]+\.)+[\w$]*(Exception|Error)"
# Classic Spark has a colon behind a class, Connect brackets around it, and some errors have nothing but a class.
_JAVA_CLASSES = re.compile(rf"^({_JAVA_CLASS}: |\({_JAVA_CLASS}\) )+")
_CONDITION = re.compile(r"(?:\([\w.$]+\) )?\[([A-Z][A-Z0-9_.]*)\] ")
# Nodes of plans that read some columns of a table cheaply, and those that cost little.
_SCANS = ("FileScan parquet ", "FileScan orc ", "InMemoryTableScan ")
_CHEAP_STEPS = ("Project ", "Filter ", "ColumnarToRow", "AdaptiveSparkPlan ")
_BINARY_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
# What makes other values each time that a plan runs: numbers that are drawn, and functions in Python.
_DRAWN = re.compile(r"\b(rand|randn|randstr|uniform|uuid|shuffle)\(|(Batch|Arrow)EvalPython ")
_ONE_JAVA_CLASS = re.compile(r"([\w$]+\.)+([\w$]*?)(Exception|Error)")


def condition_of(error: PySparkException) -> str | None:
    """The name of an error's condition, such as ``PATH_NOT_FOUND``."""
    # Spark 3.5 has the older name alone, and Spark 4 warns of it.
    named = error.getCondition if hasattr(error, "getCondition") else error.getErrorClass
    if named() is not None:
        return named()
    # A Connect client of 3.5 has nothing but the text of the server's errors.
    match = _CONDITION.match(str(error))
    return match[1] if match else None


def file_vanished(error: Exception) -> bool:
    """Whether a file that Spark had listed was gone when it was to be read."""
    return any(words in str(error) for words in _VANISHED)


def said_by_java(line: str) -> str:
    """What a line of an error of Java says, without the classes before it.

    >>> said_by_java("Caused by: java.io.IOException: Permission denied")
    'Permission denied'
    >>> said_by_java(": org.apache.hadoop.fs.ParentNotDirectoryException")
    'parent not directory'
    """
    words = line.strip().removeprefix("Caused by: ").removeprefix(": ")
    alone = _ONE_JAVA_CLASS.fullmatch(words)
    if alone:
        return re.sub(r"(?<!^)(?=[A-Z])", " ", alone[2]).lower()
    return _JAVA_CLASSES.sub("", words)


def save_mode(mode: str) -> str:
    """A mode of writing as every client spells it: one of Spark Connect knows no ``errorifexists``."""
    return "error" if mode == "errorifexists" else mode


def setting(session: SparkSession, name: str, default: str) -> str:
    """A setting of the session; the default if it is not set, or if a serverless platform does not tell it."""
    try:
        return session.conf.get(name, default) or default
    except PySparkException:
        return default


def read_by(reader: BaseReadWrite) -> Any:
    """By what pyspark.ml reads the metadata of a saved stage: PySpark 3.5 by the context, which is all that it can read by."""
    return reader.sc if __version__.startswith("3.") else reader.sparkSession


def bytes_of_plain_scan(frame: DataFrame) -> int | None:
    """About how many bytes a table has; None unless its plan only reads files or a cached table, chooses columns and leaves rows out.

    A plan's text is no interface, so whatever is not recognised counts as something else, and so does a platform that tells nothing.
    """
    try:
        plan, n_bytes = _connect_plan(frame) if is_connect(frame.sparkSession) else _driver_plan(frame)
    except Exception:  # shared clusters refuse the driver's objects by errors of their own; then the size is unknown
        return None
    for line in plan.splitlines():
        # A plan without branches has a node a line, from the last step to the first.
        node = line.lstrip(" +-:*()0123456789")
        if node.startswith(_SCANS):
            return n_bytes
        if node and not node.startswith(_CHEAP_STEPS):
            return None
    return None


def _driver_plan(frame: DataFrame) -> tuple[str, int]:
    """The physical plan of a table, and about how many bytes it has."""
    planned = frame._jdf.queryExecution()  # public methods print a plan, and tell no size
    return planned.executedPlan().toString(), int(str(planned.optimizedPlan().stats().sizeInBytes()))


def _connect_plan(frame: DataFrame) -> tuple[str, int]:
    text = frame._explain_string(mode="cost")  # type: ignore[operator] # the same
    logical, _, physical = text.partition("== Physical Plan ==")
    size, unit = re.findall(r"sizeInBytes=([\d.E+]+) (\w*)B", logical.partition("== Optimized Logical Plan ==")[2])[0]
    return physical, int(float(size) * 1024 ** _BINARY_UNITS.index(unit))


def collected_columns(frame: DataFrame) -> dict[str, np.ndarray[Any, Any]]:
    """The columns of a table of numbers without nulls, by name."""
    if hasattr(frame, "toArrow"):
        table = frame.toArrow()
    elif is_connect(frame.sparkSession):
        table = pa.Table.from_pandas(frame.toPandas(), preserve_index=False)
    else:
        # What Spark 3.5 has instead. Its toPandas makes an object of each row.
        table = pa.Table.from_batches(frame._collect_as_arrow(), to_arrow_schema(frame.schema))  # type: ignore[operator] # the same
    return {name: table[name].to_numpy() for name in table.column_names}


def from_arrow(session: SparkSession, table: pa.Table, schema: T.StructType) -> DataFrame:
    """A table of Arrow with the types of Spark as a DataFrame."""
    if not __version__.startswith("3."):
        return session.createDataFrame(table, schema)
    # Spark 3.5 takes no Arrow, and of pandas it reads NaN as null.
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return session.createDataFrame(rows, schema, verifySchema=False)


def may_change(frames: Sequence[DataFrame]) -> bool:
    """Whether Spark says that a table is not deterministic, as with ``rand()`` or a UDF that is marked so.

    False if the platform does not say, as Spark 3.5. No job runs.
    """
    first = frames[0]
    # A table gives its columns as attributes.
    if not hasattr(type(first), "exists"):
        return False
    try:
        exist = reduce(and_, [frame.exists() for frame in frames])
        with _unlogged():
            # Spark refuses to join by what is not deterministic, and whether a table has rows is as deterministic as the table.
            joined = first.join(first.alias("other"), exist)
            if is_connect(first.sparkSession):
                _ = joined.schema
    except PySparkException as error:
        return condition_of(error) == "INVALID_NON_DETERMINISTIC_EXPRESSIONS"
    except Exception:  # engines without a JVM have errors of their own; then nothing is known
        return False
    return False


def draws_anew(frame: DataFrame) -> bool:
    """Whether the columns of a table that is not deterministic have other values each time, as far as its plan tells.

    Spark leaves unused columns out of a plan. Numbers of rows, names of files and cached tables are no draws. What Spark Connect draws
    for a table that the client has sent is not in the plan any more.
    """
    try:
        plan, _ = _connect_plan(frame) if is_connect(frame.sparkSession) else _driver_plan(frame)
    except Exception:  # as in `bytes_of_plain_scan`
        return True
    cached = math.inf
    for line in plan.splitlines():
        node = line.lstrip(" +-:*()0123456789")
        depth = len(line) - len(node)
        if depth > cached:
            continue
        cached = depth if node.startswith("InMemoryTableScan ") else math.inf
        if _DRAWN.search(node) and cached == math.inf:
            return True
    return False


def _loggers_of_errors() -> list[logging.Logger]:
    """What Spark's client logs errors with; that of 3.5 logs none.

    They must be of PySpark's own class. With a plain logger of the name, each later error that is logged would be a TypeError.
    """
    try:
        from pyspark.logger import PySparkLogger  # noqa: PLC0415 # Spark 3.5 has no such module
    except ImportError:
        return []
    return [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("DataFrame", "SQL")]


@contextmanager
def _unlogged() -> Iterator[None]:
    """Keep Spark's client from logging an error that is an answer."""
    loggers = _loggers_of_errors()
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def input_files(frame: DataFrame) -> list[str]:
    """The files that a table is read from; none if it has none (databases, Iceberg), or if the platform does not tell."""
    try:
        return sorted(frame.inputFiles())
    except (PySparkException, NotImplementedError):
        return []


def cast_or_null(text: Column, kind: str, pattern: str) -> Column:
    """Texts as numbers, null if a text is none; Spark 3.5 has no function for that, and takes those that match the pattern."""
    if hasattr(type(text), "try_cast"):
        return text.try_cast(kind)
    return F.when(text.rlike(pattern), text.cast(kind))
