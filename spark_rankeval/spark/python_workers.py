"""What Spark's Python workers need: errors that say what they lack, and no remarks of PySpark on functions."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from spark_rankeval.errors import DataError, EngineError, MetricError, SparkRankEvalError, WorkerError
from spark_rankeval.request.call import CATALOGUE_TOO_LARGE
from spark_rankeval.worker.process import TABLE_TOO_LARGE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
_TOO_LARGE = re.compile(rf"{re.escape(CATALOGUE_TOO_LARGE)}|{re.escape(TABLE_TOO_LARGE)}[^\n]*")
#: What PySpark's warning about every pandas from 3 on begins with. What is used here works with it.
PANDAS_NOTICE = "PySpark does not yet fully support pandas"
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
        from spark_rankeval.spark.engine import input_files  # noqa: PLC0415 # it imports pyspark

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
