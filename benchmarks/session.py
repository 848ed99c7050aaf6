"""A Spark session whose size is fixed, and works that take turns in it."""

from __future__ import annotations

import os
import sys
import time
import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

CORES = 2
# Whether this environment has Sail in the place of PySpark with Java.
HAS_SAIL = find_spec("pysail") is not None
# Too long to be repeated often: best of so many rounds, and none to warm up.
FEW_ROUNDS = {"spark-twenty": 1}


def start_session(heap: str, partitions: int, java_options: str = "") -> SparkSession:
    """A local session whose size is fixed, so that figures compare. Sail takes none of the settings, and all cores."""
    if HAS_SAIL:
        from spark_rankeval.local import session

        return session()
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    spark: SparkSession = (
        SparkSession.builder.master(f"local[{CORES},4]")
        .config("spark.driver.memory", heap)
        .config("spark.driver.extraJavaOptions", java_options)
        .config("spark.sql.shuffle.partitions", str(partitions))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    return spark


def timed(works: Mapping[str, Callable[[], object]], rounds: int, warm_up: int) -> dict[str, list[float]]:
    """The times of each work in seconds, one a round, the works taking turns."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for number in range(-warm_up, rounds):
        for name, work in works.items():
            if name in FEW_ROUNDS and not 0 <= number < FEW_ROUNDS[name]:
                continue
            began = time.perf_counter()
            work()
            if number >= 0:
                times[name].append(time.perf_counter() - began)
        print(f"round {number + 1} of {rounds} done" if number >= 0 else "warm-up round done", file=sys.stderr)
    return times
