"""What Spark's Python workers lack, as an error that says what to do."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spark_rankeval.errors import SparkRankEvalError, WorkerError

if TYPE_CHECKING:
    from collections.abc import Iterator

# What runs in a worker imports these; other modules are of the caller's own functions.
_NEEDED = "spark_rankeval|numpy|pandas|pyarrow|pyspark"
# Spark names its own needs by their titles.
_LACKING = re.compile(
    rf"No module named '(?P<module>{_NEEDED})['.]|PACKAGE_NOT_INSTALLED\] (?P<package>\w+)", re.IGNORECASE
)
_ANOTHER = re.compile(r"PYTHON_VERSION_MISMATCH\].*?(?P<there>\d\.\d+).*?(?P<here>\d\.\d+)", re.DOTALL)


@contextmanager
def workers_explained() -> Iterator[None]:
    """Name what workers lack, where an action fails for that.

    Raises:
        WorkerError: they lack a package, or are of another version of Python.
    """
    try:
        yield
    except SparkRankEvalError:
        raise
    except Exception as error:
        found = what_workers_lack(str(error))
        if not found:
            raise
        msg = (
            f"Spark's Python workers {found}. On one machine they run PYSPARK_PYTHON, or else the python3 of the path, which is "
            f"not this Python: set os.environ['PYSPARK_PYTHON'] = sys.executable (here {sys.executable}) before the first session "
            "of the process. On a cluster they need Python as the driver's, numpy, pandas and pyarrow, and this package: "
            "--py-files spark_rankeval.zip, or spark.addArtifacts(package_zip(folder), pyfile=True)"
        )
        raise WorkerError(msg) from error


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
