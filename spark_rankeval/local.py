"""A session without Java: Sail, an engine that speaks Spark Connect, in this process.

Nothing in the package calls `session` by itself: a caller who wants the engine calls it.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import uuid
import warnings
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyarrow import parquet

from spark_rankeval.checks import EXTRAS, check_extra, installed_version, is_number
from spark_rankeval.errors import EngineError, OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# Clients of these versions talk to Sail 0.7; it refuses those of 4.3.
_FIRST_CLIENT, _FIRST_REFUSED = (4, 0), (4, 3)
_SAIL, _RIGHT_CLIENT = (f'"{requirement}"' for requirement in EXTRAS["sail"].values())
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
# The least memory that an argument can mean: "8" would be eight bytes.
_LEAST_MEMORY = 1 << 20
# The seconds that the engine has to stop in.
_STOP_SECONDS = 5
# The rows of a part of a file, which a core reads by itself.
_ROWS = 1 << 17
# Files that no DataFrame needs are removed when they hold more bytes than this.
_UNUSED_BYTES = 1 << 26
#: The settings that the engine starts with, unless the environment has others.
SETTINGS = {
    # Tables of this package keep in the columns' metadata what their values are.
    "SAIL_PARQUET__SKIP_METADATA": "false",
    # Statistics of Parquet leave NaN out. By them Sail 0.7.2 reads a column of 1.0 and NaN as 1.0 alone, and filters skip NaN.
    "SAIL_EXECUTION__COLLECT_STATISTICS": "false",
    "SAIL_PARQUET__PRUNING": "false",
    # The engine forgets a session, with its settings and views, that has been idle for so many seconds. Its own default is 900.
    "SAIL_SPARK__SESSION_TIMEOUT_SECS": str(365 * 24 * 3600),
    "RUST_LOG": "error",
}
_lock = threading.Lock()


@dataclass(frozen=True)
class _Settings:
    cores: int | None
    memory: int | str | None

    def environment(self) -> dict[str, str]:
        """What Sail reads when it starts; what the caller has set himself stays unless an argument says otherwise."""
        read = {name: value for name, value in SETTINGS.items() if name not in os.environ}
        if self.cores is not None:
            read["SAIL_EXECUTION__DEFAULT_PARALLELISM"] = str(self.cores)
        if self.memory is not None:
            read["SAIL_RUNTIME__MEMORY_POOL__TYPE"] = "fair"
            read["SAIL_RUNTIME__MEMORY_POOL__FAIR__MAX_SIZE"] = str(_bytes(self.memory))
        return read


@dataclass(frozen=True)
class _Running:
    """The engine of this process."""

    session: SparkSession
    settings: _Settings
    folder: Path  # of tables that came from pandas, polars and pyarrow
    unused: list[Path]  # files there that no DataFrame needs any more
    process: int
    cleanup: ExitStack


_running: _Running | None = None


def session(*, cores: int | None = None, memory: int | str | None = None) -> SparkSession:
    """The session of Sail in this process: Spark without Java. It starts once, and stops when the process ends.

    Later calls return the same session. Its ``stop()`` stops the engine, and the next call starts another one. The session's time zone is
    ``TZ``, or that of the machine. Threads may share the session. Processes must be spawned, because a fork has no engine.

    Examples:
        >>> from spark_rankeval.local import session
        >>> spark = session(cores=4, memory="8g")  # doctest: +SKIP

    Args:
        cores: how many partitions the engine computes at a time. None: as many as the machine has cores.
        memory: how much memory sorting, grouping and joining may take together: a string such as ``"8g"``, or a number of bytes. Sorting
            and grouping then write to the folder of temporary files (``TMPDIR``), and a join of larger tables is an error. Python's own
            memory comes on top. None: no limit.

    Raises:
        MissingExtraError: the packages of the extra ``sail`` are not installed.
        EngineError: PySpark has a version that Sail refuses, another session is active, the engine runs with other arguments, or
            this process was forked from the engine's.
        OptionError: an argument is not valid.
    """
    global _running  # noqa: PLW0603 # one engine for the process
    settings = settings_of(cores, memory)
    with _lock:
        if _running is not None and _running.process != os.getpid():
            msg = (
                "this process was forked from one whose engine runs, and a fork has no engine. Start processes with "
                "multiprocessing.get_context('spawn')"
            )
            raise EngineError(msg)
        if _running is not None and not _running.session.is_stopped:  # type: ignore[attr-defined] # of Connect
            if settings not in (_running.settings, _Settings(None, None)):
                msg = (
                    f"the engine runs with cores={_running.settings.cores!r} and memory={_running.settings.memory!r}, and a process has "
                    "one. Call stop() on its session first, or leave the arguments out"
                )
                raise EngineError(msg)
            return _running.session
        check_installed()
        _running = _start(settings)
        return _running.session


def write_table(spark: SparkSession, table: pa.Table) -> DataFrame | None:
    """A table as one of a session of `session`, which reads a file until no DataFrame or view needs it; None for any other session.

    A message to the engine takes 128 MB, and every plan would send the whole table again.

    Raises:
        pyarrow.ArrowNotImplementedError: Parquet has no such type.
    """
    if _running is None or _running.session is not spark or _running.process != os.getpid():
        return None
    with _lock:
        _remove_unused(_running)
    path = _running.folder / f"{uuid.uuid4().hex}.parquet"
    parquet.write_table(table, path, row_group_size=_ROWS, compression="none", use_dictionary=False)
    frame = spark.read.parquet(str(path))
    # The plans of other DataFrames that are made of this one keep its plan, an attribute of Connect. A fork changes a list of its own.
    weakref.finalize(frame._plan, _running.unused.append, path)
    return frame


def _remove_unused(running: _Running) -> None:
    """Remove files that nothing needs. The engine alone knows the plans of views, so views keep all files."""
    unused = [path for path in running.unused if path.exists()]
    if sum(path.stat().st_size for path in unused) <= _UNUSED_BYTES:
        return
    if any(table.isTemporary for table in running.session.catalog.listTables()):
        return
    for path in unused:
        running.unused.remove(path)
        path.unlink()


def check_installed() -> None:
    """Refuse packages that do not go together, before any of them is imported.

    Raises:
        MissingExtraError, EngineError: see `session`.
    """
    both = {name: installed_version(name) for name in ("pyspark", "pyspark-client")}
    if None not in both.values() and len(set(both.values())) > 1:
        words = " and ".join(f"{name} {number}" for name, number in both.items())
        msg = f"{words} are both installed, and each has overwritten files of the other. Uninstall both, and install {_RIGHT_CLIENT}"
        raise EngineError(msg)
    installed = both["pyspark-client"] or both["pyspark"]
    numbers = re.findall(r"\d+", installed or "")[:2]
    if installed and not _FIRST_CLIENT <= tuple(map(int, numbers)) < _FIRST_REFUSED:
        msg = (
            f"sessions without Java need PySpark's client of 4.0 to 4.2; {installed} is installed. Install {_SAIL} {_RIGHT_CLIENT} in "
            f'another environment, or {_SAIL} "pyspark[connect]==4.2.*" in the place of this pyspark'
        )
        raise EngineError(msg)
    check_extra("sail", "sessions without Java")


def settings_of(cores: object, memory: object) -> _Settings:
    """The settings of an engine with these arguments of `session`.

    Raises:
        OptionError: an argument is not valid.
    """
    if cores is not None and not (is_number(cores, int) and cores > 0):  # type: ignore[operator] # it is a number
        msg = f"cores must be a whole number from 1 on; got {cores!r}"
        raise OptionError(msg)
    if memory is not None and _bytes(memory) < _LEAST_MEMORY:
        msg = f"memory must be a string such as '8g', or a number of bytes from {_LEAST_MEMORY} on; got {memory!r}"
        raise OptionError(msg)
    return _Settings(cores, memory)  # type: ignore[arg-type] # the same


def _bytes(memory: object) -> int:
    """A size as a number of bytes; 0 if it is none."""
    if isinstance(memory, str) and (match := _SIZE.fullmatch(memory.strip())):
        return int(match[1]) << _UNITS[match[2].lower()]
    return max(0, memory) if is_number(memory, int) else 0  # type: ignore[call-overload] # it is a number


def _start(settings: _Settings) -> _Running:
    with _quiet_import():
        from pysail.spark import SparkConnectServer  # noqa: PLC0415 # an extra
        from pyspark.sql import SparkSession  # noqa: PLC0415 # after the checks

        other = active_session()
    if other is not None:
        kind = "a session of Spark Connect" if ".connect." in type(other).__module__ else "a classic session of Spark"
        msg = f"{kind} is active, and a process has one engine. Call stop() on it first"
        raise EngineError(msg)
    _stop()
    with ExitStack() as cleanup:
        folder = tempfile.mkdtemp(prefix="spark_rankeval-")
        cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
        with _environment(settings.environment()):
            server = SparkConnectServer("127.0.0.1", 0)
            server.start(background=True)
        cleanup.callback(_stop_server, server)
        host, port = server.listening_address
        # With that, SparkSession.builder.getOrCreate() gives the same session. It would set the second one, and leave it.
        remote = {"SPARK_REMOTE": f"sc://{host}:{port}", "SPARK_CONNECT_MODE_ENABLED": "1"}
        cleanup.enter_context(_environment(remote))
        try:
            with _quiet_import():
                spark = SparkSession.builder.getOrCreate()
        except ImportError as error:
            msg = f'this PySpark lacks what its Spark Connect needs ({error}): pip install "pyspark[connect]==4.2.*"'
            raise EngineError(msg) from error
        _retry_unreadable_responses(spark)
        cleanup.callback(spark.stop)
        # Of PySpark's sessions, too, stop() stops the engine. Otherwise builder.getOrCreate() would give another session of this one.
        spark.stop = partial(_stop, spark)  # type: ignore[method-assign]
        zone = _time_zone() or spark.conf.get("spark.sql.session.timeZone") or "UTC"
        spark.conf.set("spark.sql.session.timeZone", zone)
        # By now the engine has set a handler by which Ctrl-C stops it, and not only the query. Python's own gets its place back.
        handler = signal.getsignal(signal.SIGINT)
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)
        atexit.register(_stop)
        return _Running(spark, settings, Path(folder), [], os.getpid(), cleanup.pop_all())


def _retry_unreadable_responses(spark: SparkSession) -> None:
    """Ask again if a response does not parse, which is rare: twice in some ten runs of all tests."""
    client: Any = spark.client
    policies = client.get_retry_policies()
    # The class is not public, and its place differs between versions.
    policy_class: Any = type(policies[0])

    class UnreadableResponse(policy_class):  # type: ignore[misc] # known at run time alone
        def can_retry(self, exception: BaseException) -> bool:
            return "Exception deserializing response" in str(exception)

    client.set_retry_policies([*policies, UnreadableResponse(max_retries=3, initial_backoff=50)])


def _stop_server(server: Any) -> None:
    """Stop the engine, but do not wait long: a query may still run in a thread."""
    stopping = threading.Thread(target=server.stop, daemon=True)
    stopping.start()
    stopping.join(_STOP_SECONDS)


def _stop(spark: SparkSession | None = None) -> None:
    """Stop the engine of this process, if it runs, and is that of a session; a fork leaves that of its parent alone."""
    global _running  # one engine for the process
    if _running is not None and spark in (None, _running.session) and _running.process == os.getpid():
        atexit.unregister(_stop)
        stopping, _running = _running, None
        stopping.cleanup.close()


def active_session() -> SparkSession | None:
    """The session that PySpark takes for active, of any engine; None if there is none."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 # this module is imported before anything is checked
    from pyspark.sql import SparkSession  # noqa: PLC0415 # the same

    try:
        return SparkSession.active()
    except (PySparkException, RuntimeError):
        return None


def _time_zone() -> str | None:
    """The zone that ``TZ`` names, which Sail does not look at."""
    name = os.environ.get("TZ", "").removeprefix(":")
    try:
        return ZoneInfo(name).key
    except (ValueError, OSError, KeyError):
        return None


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set variables while the engine starts, and put back what was there: processes that are started later inherit none."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _quiet_import() -> Iterator[None]:
    """Import PySpark's client without its warning of pandas 3.

    A program that has no file, as of ``python -c``, is taken by the client for a test of its own, which ends the process.
    """
    main = sys.modules["__main__"]
    has_file = hasattr(main, "__file__")
    if not has_file:
        main.__file__ = "<string>"
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
            warnings.filterwarnings(
                "ignore", message="PySpark does not yet fully support pandas", category=FutureWarning
            )
            yield
    finally:
        if not has_file:
            del main.__file__
