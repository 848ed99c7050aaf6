"""The engine behind a session, and what it can do: PySpark runs on Spark's JVM, or on another engine that speaks Spark Connect.

Where engines differ, the code asks here what the engine can do, never for its version.
"""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.checks import SPARK, tested_engine
from spark_rankeval.errors import EngineError, warn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WITH_NAN = "SAIL_EXECUTION__COLLECT_STATISTICS=false and SAIL_PARQUET__PRUNING=false"


@dataclass(frozen=True)
class Engine:
    """What runs the plans of a session.

    Only `keeps_best` is tried. The rest follows from the name, as docs/platforms.md lists it: the tests run on each version of Sail before
    it is allowed. Code asks for what it needs all the same.

    Attributes:
        name: ``Spark`` or ``Sail``.
        version: of the engine; of Spark what PySpark says.
        keeps_best: whether ``max_by`` and ``min_by`` keep several values. Spark does so from version 4.2 on.
        sorts_cheaply: whether to sort a user's predictions for the best of them costs less than to gather all.
        keeps_order: whether rows stay in the partition and the order that a plan gave them until Python gets them.
        builds_lists_in_parts: whether lists that partitions build, and that then meet, cost less than rows that meet first.
        compares_arrays_in_structs: whether ``max`` finds the largest of structs of arrays, and not any of them.
        reuses_plans: whether equal parts of a plan are computed once.
        refuses_missing_paths: whether reading from a path with nothing there is an error, and not a table without rows.
        caches_files: whether the list of a folder's files is kept between two readings.
        replaces_partitions: whether a write can replace one partition of a table and keep the others (dynamic overwrite).
        takes_packages: whether a client can send Python code to the workers.
        reads_json_as_text: whether a column of strings can be read from the numbers of a JSON file.
        reads_null_partitions: whether the names of folders that stand for null are read as null.
        infers_from_all_rows: whether the types of CSV and JSON fit all rows, and not only the first ones.
        reads_metadata: whether tables that are read from Parquet have the metadata of their columns, whatever the settings.
        names_files: whether rows that are read from files tell which file they are from.
    """

    name: str
    version: str
    keeps_best: bool
    sorts_cheaply: bool
    keeps_order: bool
    builds_lists_in_parts: bool
    compares_arrays_in_structs: bool
    reuses_plans: bool
    refuses_missing_paths: bool
    caches_files: bool
    replaces_partitions: bool
    takes_packages: bool
    reads_json_as_text: bool
    reads_null_partitions: bool
    infers_from_all_rows: bool
    reads_metadata: bool
    names_files: bool


_engines: WeakKeyDictionary[SparkSession, Engine] = WeakKeyDictionary()


def engine_of(session: SparkSession) -> Engine:
    """The engine of a session; the first call asks the engine, and the others remember.

    Raises:
        EngineError: no test has run on the engine, see `tested_engine`; or it loses NaN of files.
    """
    if session not in _engines:
        name, version = tested_engine(session)
        is_spark = name == SPARK
        if not is_spark:
            _check_nan(session, name)
        _engines[session] = Engine(
            name,
            version,
            keeps_best=_keeps_best(session),
            sorts_cheaply=is_spark,
            keeps_order=is_spark,
            builds_lists_in_parts=is_spark,
            compares_arrays_in_structs=is_spark,
            reuses_plans=is_spark,
            refuses_missing_paths=is_spark,
            caches_files=is_spark,
            replaces_partitions=is_spark,
            takes_packages=is_spark,
            reads_json_as_text=is_spark,
            reads_null_partitions=is_spark,
            infers_from_all_rows=is_spark,
            reads_metadata=is_spark,
            names_files=is_spark,
        )
    return _engines[session]


def _check_nan(session: SparkSession, name: str) -> None:
    """Refuse an engine that reads NaN in files as other values: statistics of files leave NaN out, and may say that all are equal."""
    path = f"memory:///{uuid.uuid4().hex}"
    try:
        session.createDataFrame([(1.0,), (math.nan,)], "x double").coalesce(1).write.parquet(path)
        table = session.read.parquet(path)
        if table.where(F.isnan("x")).count() == 1:
            return
        is_known = table.count() == 2
    except PySparkException:
        is_known = False
    if is_known:
        msg = f"{name} reads NaN in files as other values with its settings; start it with {_WITH_NAN}, or use local.session()"
        raise EngineError(msg)
    # An engine of several processes may have no memory that they share.
    warn(
        f"whether {name} reads NaN in files as NaN could not be tried; make sure that its server was started with {_WITH_NAN}"
    )


def _keeps_best(session: SparkSession) -> bool:
    """Whether ``max_by`` takes a number of values; Spark below 4.2 refuses it, and Sail takes no notice of it."""
    try:
        kind = session.sql("SELECT max_by(1, 1, 2) AS best").schema["best"].dataType
    except PySparkException:
        return False
    return isinstance(kind, T.ArrayType)
