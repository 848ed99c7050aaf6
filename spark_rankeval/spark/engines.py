"""The engine behind a session, and what it can do: PySpark runs on Spark's JVM, or on another engine that speaks Spark Connect.

Where engines differ, the code asks here what the engine can do, never for its version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pyspark.errors import PySparkException
from pyspark.sql import types as T

from spark_rankeval.checks import SPARK, tested_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Engine:
    """What runs the plans of a session.

    Attributes:
        name: ``Spark`` or ``Sail``.
        version: of the engine; of Spark what PySpark says.
        keeps_best: whether ``max_by`` and ``min_by`` keep several values. Spark does so from version 4.2 on.
        keeps_order: whether rows stay in the partition and the order that a plan gave them until Python gets them.
        reuses_plans: whether equal parts of a plan are computed once.
        refuses_missing_paths: whether reading from a path with nothing there is an error, and not a table without rows.
        caches_files: whether the list of a folder's files is kept between two readings.
    """

    name: str
    version: str
    keeps_best: bool
    keeps_order: bool
    reuses_plans: bool
    refuses_missing_paths: bool
    caches_files: bool


_engines: WeakKeyDictionary[SparkSession, Engine] = WeakKeyDictionary()


def engine_of(session: SparkSession) -> Engine:
    """The engine of a session; the first call asks the engine, and the others remember.

    Raises:
        EngineError: no test has run on the engine; see `tested_engine`.
    """
    if session not in _engines:
        name, version = tested_engine(session)
        is_spark = name == SPARK
        _engines[session] = Engine(
            name,
            version,
            keeps_best=_keeps_best(session),
            keeps_order=is_spark,
            reuses_plans=is_spark,
            refuses_missing_paths=is_spark,
            caches_files=is_spark,
        )
    return _engines[session]


def _keeps_best(session: SparkSession) -> bool:
    """Whether ``max_by`` takes a number of values; Spark below 4.2 refuses it, and Sail takes no notice of it."""
    try:
        kind = session.sql("SELECT max_by(1, 1, 2) AS best").schema["best"].dataType
    except PySparkException:
        return False
    return isinstance(kind, T.ArrayType)
