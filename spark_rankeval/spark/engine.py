"""The engine behind a session: what it can do, what its Python workers need, receive and give back, and how far it is."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import shutil
import subprocess
import sys
import threading
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from pyspark import __version__
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from spark_rankeval.checks import PANDAS_NOTICE, SPARK, is_connect, needs_extra, tested_engine
from spark_rankeval.errors import DataError, EngineError, InputError, MetricError, SparkRankEvalError, WorkerError, warn
from spark_rankeval.worker import process
from spark_rankeval.worker.process import (
    BUCKET,
    CATALOGUE_TOO_LARGE,
    KIND,
    PAYLOAD,
    TABLE_TOO_LARGE,
    Mergers,
    Message,
    merged_by_bucket,
)

if TYPE_CHECKING:
    from pyspark.ml.util import BaseReadWrite
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.connect.shell.progress import ProgressHandler, StageInfo


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
        plan, n_bytes = _plan(frame)
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


def _plan(frame: DataFrame) -> tuple[str, int]:
    """The physical plan of a table, and about how many bytes it has."""
    if not is_connect(frame.sparkSession):
        planned = frame._jdf.queryExecution()  # public methods print a plan, and tell no size
        return planned.executedPlan().toString(), int(str(planned.optimizedPlan().stats().sizeInBytes()))
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
        plan, _ = _plan(frame)
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


# What runs in a worker imports these; other modules are of the caller's own functions.
_NEEDED = "spark_rankeval|numpy|pandas|pyarrow|pyspark"
# Spark names its own needs by their titles.
_LACKING = re.compile(
    rf"No module named '(?P<module>{_NEEDED})['.]|PACKAGE_NOT_INSTALLED\] (?P<package>\w+)", re.IGNORECASE
)
_ANOTHER = re.compile(r"PYTHON_VERSION_MISMATCH\].*?(?P<there>\d\.\d+).*?(?P<here>\d\.\d+)", re.DOTALL)
# What a worker's traceback ends with if a metric of the caller's own fails.
_METRIC_FAILED = re.compile(r"^spark_rankeval\.errors\.MetricError: (.*)$", re.MULTILINE)
# What Sail says if a grouping or a join needs more than its pool of memory holds.
_EXHAUSTED = re.compile(r"Resources exhausted: [^\n]*")
# What a worker says of a table that it cannot hold.
_TOO_LARGE = re.compile(rf"({re.escape(CATALOGUE_TOO_LARGE)}|{re.escape(TABLE_TOO_LARGE)})[^\n]*")
_warning_filters = threading.RLock()
# Spark itself gives its workers pyspark, and this package may travel.
_PACKAGES = ("numpy", "pandas", "pyarrow")
# For any Python from 3.4 on: its version, and which of these packages it lacks.
_PROBE = """import sys, importlib.util as util
print("%d.%d" % sys.version_info[:2])
print(", ".join(name for name in sys.argv[1:] if util.find_spec(name) is None))
"""
_ANSWER = re.compile(r"^(\d+\.\d+)\n(.*)\n\Z", re.MULTILINE)
# A Python that takes longer to start is left to Spark.
_PATIENCE_S = 20


@contextmanager
def pandas_notice_held() -> Iterator[None]:
    """Keep PySpark's warning about pandas 3 from a caller who has not used pandas: PySpark gives it for functions of ours."""
    # A thread that restores the filters must not restore those of another one.
    with _warning_filters, warnings.catch_warnings():
        warnings.filterwarnings("ignore", PANDAS_NOTICE, FutureWarning)
        yield


def check_local_workers(master: str) -> None:
    """Refuse to send functions to workers on this machine that cannot run them; no job has run."""
    if master.startswith("local"):
        python = os.environ.get("PYSPARK_PYTHON", "python3")
        lacking = _what_python_lacks(python, shutil.which(python))
        if lacking:
            source = "PYSPARK_PYTHON" if "PYSPARK_PYTHON" in os.environ else "the first python3 on the PATH"
            msg = (
                f"Spark's Python workers {lacking}. They run {source}, and this is {sys.executable}: stop the session, set "
                "os.environ['PYSPARK_PYTHON'] = sys.executable, and start the session again"
            )
            raise WorkerError(msg)


@cache
def _what_python_lacks(python: str, place: str | None) -> str:
    """What a Python on this machine lacks, in the words of `what_workers_lack`; empty if that is nothing, or is not known."""
    if place is None:
        return f"do not start: there is no {python}"
    if os.path.abspath(place) == sys.executable:
        return ""
    try:
        done = subprocess.run(
            [place, "-c", _PROBE, *_PACKAGES], capture_output=True, text=True, timeout=_PATIENCE_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    # A script that starts a Python may say more before.
    answer = _ANSWER.search(done.stdout)
    if answer is None:
        return ""
    there, lacking = answer.groups()
    here = ".".join(map(str, sys.version_info[:2]))
    if there != here:
        return f"are Python {there}, and this is Python {here}"
    return f"lack {lacking}" if lacking else ""


@contextmanager
def workers_explained(own_module: str = "", frames: Iterable[DataFrame] = ()) -> Iterator[None]:
    """Turn an error of an action into ours: a MetricError of an own metric, a WorkerError or EngineError that names what is lacking.

    A module of the caller's own is named, too, if workers cannot import it, and the line of the frames' files that is no JSON.
    """
    try:
        yield
    except SparkRankEvalError:
        raise
    except Exception as error:
        if failed := _METRIC_FAILED.search(str(error)):
            raise MetricError(failed[1]) from None
        if exhausted := _EXHAUSTED.search(str(error)):
            msg = (
                f"the engine's memory is too small for these tables ({exhausted[0]}). Start it with more, as local.session(memory=…) does, "
                "or evaluate a part of the users at a time"
            )
            raise EngineError(msg) from error
        if no_json := no_json_in_words(str(error), (file for frame in frames for file in input_files(frame))):
            raise DataError(no_json) from None
        if too_large := _TOO_LARGE.search(str(error)):
            raise EngineError(too_large[0]) from error
        if own_module and re.search(rf"No module named '{re.escape(own_module.partition('.')[0])}['.]", str(error)):
            msg = f"Spark's Python workers lack {own_module}; install it where they run, or send it with --py-files"
            raise WorkerError(msg) from None
        problem = what_workers_lack(str(error))
        if not problem:
            raise
        msg = (
            f"Spark's Python workers {problem}; on one machine, set os.environ['PYSPARK_PYTHON'] = sys.executable (here "
            f"{sys.executable}) before the first session. On a cluster, install the driver's version of Python "
            "with numpy, pandas and pyarrow, and send this package: --py-files spark_rankeval.zip, or "
            "spark.addArtifacts(package_zip(folder), pyfile=True)"
        )
        # Spark's own error is a hundred lines of Java that say no more.
        raise WorkerError(msg) from None


def no_json_in_words(said: str, files: Iterable[str]) -> str:
    """Which line of the files on this machine is no JSON, if an error of Sail says that there is one."""
    if "Json error: " not in said:
        return ""
    what = "a line is cut, or is no JSON. Mend it, or leave it out"
    for path in (Path(unquote(file).removeprefix("file://")) for file in files):
        if path.suffix.endswith(("json", "jsonl")) and path.is_file():
            with path.open("rb") as lines:
                for number, line in enumerate(lines, 1):
                    try:
                        json.loads(line.strip() or "0")
                    except ValueError:
                        return f"{path}, line {number}: {what}"
    return what


def what_workers_lack(said: str) -> str:
    """What an error of Spark says that its workers lack; empty: nothing.

    Args:
        said: the error, with the traceback of the worker in it.

    >>> what_workers_lack("ModuleNotFoundError: No module named 'pandas'")
    'lack pandas'
    >>> what_workers_lack("[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, …")
    'are Python 3.9, and this is Python 3.11'
    """
    if another := _ANOTHER.search(said):
        return f"are Python {another['there']}, and this is Python {another['here']}"
    lacking = _LACKING.search(said)
    return f"lack {lacking['module'] or lacking['package']}" if lacking else ""


def run_on_workers(frame: DataFrame, run: process.Run, schema: T.StructType | str) -> DataFrame:
    """``mapInArrow``, if workers on this machine can run the function, and without PySpark's remarks on pandas."""
    _check_workers_of(frame.sparkSession)
    with pandas_notice_held():
        return frame.mapInArrow(process.errors_raised(run), schema)


def without_file_metadata(frame: DataFrame) -> DataFrame:
    """Rows that can be united with those of other files and then grouped.

    Sail does not group rows of a union if the metadata of the files' schemas differ, as in files of pandas.
    """
    return frame if engine_of(frame.sparkSession).is_spark else run_on_workers(frame, iter, frame.schema)


def pandas_function(run: Callable[..., object], schema: T.StructType) -> Callable[..., Column]:
    """A pandas UDF of a function with type hints that say what it takes, without PySpark's remarks on pandas."""
    session = SparkSession.getActiveSession()
    if session is not None:
        _check_workers_of(session)
    with pandas_notice_held():
        return F.pandas_udf(run, schema)  # type: ignore[attr-defined, no-any-return] # missing from the stubs


def _check_workers_of(session: SparkSession) -> None:
    tested_engine(session)
    # A Connect server is somewhere else, unless this process has started it.
    if not is_connect(session) or "SPARK_LOCAL_REMOTE" in os.environ:
        check_local_workers(setting(session, "spark.master", ""))


_SCHEMA = T.StructType([T.StructField(process.PACKED, T.BinaryType())])
# A message of Spark Connect takes 128 MB, and the tables are a part of one.
_MOST_BYTES = 120_000_000
_ROW_TOO_LARGE = (
    "the vectors, facts and groups of the items take more than 120 MB together, and no more reaches the Python code of this engine; use "
    "Vectors(…, shards=…), PySpark, or fewer items"
)
# Columns that tell to which rows a table is given.
_FIRST, _EVERY = "first_", "every_"


def packed(rows: DataFrame, pack: process.Run) -> DataFrame:
    """One row per partition with the packed table of its rows; `pack` makes it."""
    return run_on_workers(rows, pack, _SCHEMA)


def packed_together(
    rows: DataFrame,
    read: Callable[[pa.RecordBatch], pa.Table] = process.rows_in,
    combine: Callable[[pa.Table], pa.Table] | None = None,
) -> DataFrame:
    """One row per partition with the packed table of its rows; `read` and `combine` as of `pack_together`."""
    return packed(rows, process.pack_together(read, combine, most_bytes_of_row(rows.sparkSession)))


def most_bytes_of_row(session: SparkSession) -> int:
    """How many bytes a packed table may take on its way to the workers."""
    return process.MOST_BYTES if engine_of(session).is_spark else _MOST_BYTES


def broadcast_row(rows: DataFrame, one: DataFrame) -> DataFrame:
    """The rows, each with the columns of the one row of another table, which is broadcast.

    By a key that is always true, and Spark does not know: beside a join of all rows with all it would leave partitions small.
    """
    keyed = rows.withColumn(_EVERY, F.rand(0) >= 0)
    one_row = one.withColumn(_EVERY, F.pmod(F.xxhash64(*one.columns), F.lit(2)) < 2)
    return keyed.join(one_row.hint("broadcast"), _EVERY, "left").drop(_EVERY)


def broadcast_tables(rows: DataFrame, tables: Mapping[str, DataFrame]) -> DataFrame:
    """The rows with a column for each packed table, a row or none. The first row of each partition has it, the others have null.

    It is broadcast, so that nothing is shuffled and no row moves. What runs next on each partition finds it in its first row. An engine
    that may move rows gets the tables with the function, after an action.
    """
    if not tables:
        return rows
    if not engine_of(rows.sparkSession).is_spark:
        return _attached(rows, tables)
    # The number of a row within its partition: the low bits of Spark's number of it.
    row_of_partition = F.monotonically_increasing_id().bitwiseAND(F.lit((1 << 33) - 1))
    numbered = rows.withColumn(_FIRST, row_of_partition == 0)
    for name, table in tables.items():
        # Always true, and Spark does not know: of a constant it would make a join of all rows with all.
        cells = F.col(process.PACKED)
        one = table.select(cells.isNotNull().alias(_FIRST), cells.alias(name))
        numbered = numbered.join(one.hint("broadcast"), _FIRST, "left")
    return numbered.drop(_FIRST)


def _attached(rows: DataFrame, tables: Mapping[str, DataFrame]) -> DataFrame:
    """The rows with each table in a column, from a function that holds the tables, which are collected first."""
    with workers_explained():
        rows_of_table = {name: table.collect() for name, table in tables.items()}
    cells = {name: bytes(found[0][process.PACKED]) if found else None for name, found in rows_of_table.items()}
    if sum(map(len, filter(None, cells.values()))) > _MOST_BYTES:
        raise EngineError(_ROW_TOO_LARGE)
    columns = [T.StructField(name, T.BinaryType()) for name in cells]
    return run_on_workers(rows, process.attach(cells), T.StructType([*rows.schema.fields, *columns]))


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

    A message travels by its bucket or its partition, never by its bytes. If it is lost and made again, it goes where it went before. If
    messages have buckets, each is merged by itself, so that no two of the results have a group in common. `n_bytes` is the size of a
    packed state.
    """
    widths = [_WIDTH] * (n_bytes > _TAKEN_BY_DRIVER) + [1] * (n_bytes > _LARGE)
    for width in [_WIDTH] if have_buckets else widths:
        messages = merged_messages(messages, mergers, width)
    with workers_explained(frames=[messages]):
        return [Message(row[BUCKET], row[KIND], bytes(row[PAYLOAD])) for row in messages.collect()]


def merged_messages(messages: DataFrame, mergers: Mergers, width: int = _WIDTH) -> DataFrame:
    """The messages with those of each bucket merged; others meet in so many places by their partition."""
    bucket = F.coalesce(BUCKET, F.spark_partition_id() % width)
    met = messages.select(bucket.alias(BUCKET), KIND, PAYLOAD).repartition(BUCKET)
    # Adaptive execution may put several buckets into one partition: they are merged one after the other even so.
    keeps_order = engine_of(messages.sparkSession).is_spark
    if keeps_order:
        met = met.sortWithinPartitions(KIND, BUCKET)
    return run_on_workers(met, merged_by_bucket(mergers, sort=not keeps_order), MESSAGE_SCHEMA)


# Bars appear after so many seconds, so short operations have none.
_DELAY = 0.5
_FORMAT = "{desc}: {percentage:3.0f}%|{bar}|{postfix} [{elapsed}]"


@contextmanager
def progress(spark: SparkSession) -> Iterator[None]:
    """Show how far Spark is while the block runs, in a notebook or a terminal.

    On Spark Connect (4.0 or newer), each operation that takes longer than half a second has a bar of its finished tasks. The bar may fall
    back, because Spark may add tasks while an operation runs. It disappears when the operation is done. Classic Spark draws a bar of its
    own if ``spark.ui.showConsoleProgress`` was true when the session was built. `progress` changes no setting and warns if no bar can
    appear. If the output goes to a file, there is no bar and no warning. Use one block at a time: nested blocks show each bar twice.

    Examples:
        >>> with progress(spark):
        ...     mean = evaluate(predictions, labels, "rr", score="score")["rr"]
        ...

    Args:
        spark: the session that does the work.

    Raises:
        InputError: `spark` is not a session.
        MissingExtraError: a bar would be shown, and tqdm is not installed.
    """
    if not hasattr(spark, "conf"):
        msg = f"progress needs the Spark session that does the work, as in progress(spark); got {type(spark).__name__}"
        raise InputError(msg)
    if not _is_interactive():
        yield
        return
    if not is_connect(spark):
        # Classic Spark draws its bar itself.
        if setting(spark, "spark.ui.showConsoleProgress", "false") != "true":
            msg = (
                "no progress bar is shown, because this session of classic Spark has its bar turned off; to see it, build the session with "
                "SparkSession.builder.config('spark.ui.showConsoleProgress', 'true')"
            )
            warnings.warn(msg, stacklevel=3)
        yield
        return
    if not hasattr(spark, "registerProgressHandler"):
        warnings.warn("Spark Connect reports no progress before version 4.0, so no bar is shown", stacklevel=3)
        yield
        return
    bars = _Bars(_bar_maker())
    # No subclass of Spark's abstract ProgressHandler: its import fails if the packages of Spark Connect are missing.
    handler = cast("ProgressHandler", bars)
    spark.registerProgressHandler(handler)
    try:
        yield
    finally:
        # The block may have cleared all handlers itself.
        with suppress(ValueError):
            spark.removeProgressHandler(handler)
        bars.close()


def _is_interactive() -> bool:
    """Whether bars can be seen: in a notebook, or if stderr is a terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    is_notebook = shell is not None and "IPKernelApp" in shell.config
    return is_notebook or (sys.stderr is not None and sys.stderr.isatty())


def _bar_maker() -> Callable[[], Any]:
    """A function that makes an empty bar."""
    with needs_extra("notebook", "progress bars"), warnings.catch_warnings():
        # Without ipywidgets tqdm warns at its import, and writes its bars as text, which is good enough.
        warnings.filterwarnings("ignore", message="IProgress not found")
        from tqdm.auto import tqdm  # noqa: PLC0415 # an extra
    # A bar counts to 1, not to the number of tasks: a widget's total cannot grow if Spark adds tasks.
    return lambda: tqdm(total=1.0, desc="Spark", leave=False, delay=_DELAY, bar_format=_FORMAT)


class _Bars:
    """A handler for Spark Connect that draws one bar per operation."""

    def __init__(self, make_bar: Callable[[], Any]) -> None:
        self._make_bar = make_bar
        self._bars: dict[str | None, Any] = {}

    def __call__(
        self, stages: Iterable[StageInfo] | None, inflight_tasks: int, operation_id: str | None, done: bool
    ) -> None:
        # Spark would end the query with any error raised here, so bars fail silently.
        with suppress(Exception):
            if done:
                self._close(operation_id)
            else:
                self._draw(list(stages or ()), inflight_tasks, operation_id)

    def _draw(self, stages: list[StageInfo], running: int, operation_id: str | None) -> None:
        tasks = sum(stage.num_tasks for stage in stages)
        if not tasks:
            return
        finished = sum(stage.num_completed_tasks for stage in stages)
        if operation_id not in self._bars:
            self._bars[operation_id] = self._make_bar()
        bar = self._bars[operation_id]
        bar.set_postfix_str(f"{finished:,} of {tasks:,} tasks, {running:,} running", refresh=False)
        bar.update(finished / tasks - bar.n)

    def _close(self, operation_id: str | None) -> None:
        bar = self._bars.pop(operation_id, None)
        if bar is not None:
            # A widget that is closed before it is full stays on the screen in red. That a query failed is said by its exception.
            bar.n = bar.total
            bar.close()

    def close(self) -> None:
        """Remove the bars of operations that never reported their end."""
        for operation_id in list(self._bars):
            with suppress(Exception):
                self._close(operation_id)
