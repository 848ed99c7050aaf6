"""How functions of this package get to Spark's Python workers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_rankeval.checks import is_connect, tested_engine
from spark_rankeval.spark.platforms import setting
from spark_rankeval.spark.python_workers import check_local_workers, pandas_notice_held
from spark_rankeval.worker.process import panics_raised

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame
    from pyspark.sql import types as T

    from spark_rankeval.worker.process import Run


def run_on_workers(frame: DataFrame, run: Run, schema: T.StructType | str) -> DataFrame:
    """``mapInArrow``, if workers on this machine can run the function, and without PySpark's remarks on pandas."""
    _check_workers_of(frame.sparkSession)
    with pandas_notice_held():
        return frame.mapInArrow(panics_raised(run), schema)


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
