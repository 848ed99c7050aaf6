"""A session without Java: Sail, an engine that speaks Spark Connect, in this process.

Nothing in the package calls this: who wants the engine says so.
"""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING

from spark_rankeval.errors import EngineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The settings of the engine that figures need, unless the environment has others.
SETTINGS = {
    # Tables of this package keep in the columns' metadata what their values are.
    "SAIL_PARQUET__SKIP_METADATA": "false",
    # Statistics of Parquet leave NaN out. By them the engine reads a column of 1.0 and NaN as 1.0 alone, and skips NaN in filters.
    "SAIL_EXECUTION__COLLECT_STATISTICS": "false",
    "SAIL_PARQUET__PRUNING": "false",
    # Otherwise hints, which the engine does not follow, are a line each on stderr.
    "RUST_LOG": "error",
}
_MISSING = 'local.session() needs the packages of Sail: pip install "spark-rankeval[sail]"'


def session(*, cores: int | None = None) -> SparkSession:
    """The session of an engine in this process, which starts with the first call and stops when the process ends.

    Args:
        cores: how many partitions the engine computes at a time; None: as many as the machine has. Only the first call starts
            the engine, so only it chooses.

    Raises:
        EngineError: the packages of Sail are not installed.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 # the errors below come first

    try:
        from pysail.spark import SparkConnectServer  # noqa: PLC0415 # an extra
    except ModuleNotFoundError as error:
        raise EngineError(_MISSING) from error
    if cores is not None:
        os.environ["SAIL_EXECUTION__DEFAULT_PARALLELISM"] = str(cores)
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    server = SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    atexit.register(server.stop)
    host, port = server.listening_address
    return SparkSession.builder.remote(f"sc://{host}:{port}").getOrCreate()
