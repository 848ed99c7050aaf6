"""The session that runs or that this machine can start; that of a job, on a laptop or a cluster; and the exit code."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from spark_rankeval import errors, local
from spark_rankeval.checks import EXTRAS, PANDAS_NOTICE
from spark_rankeval.errors import ConfigurationError
from spark_rankeval.jobs.config import Session
from spark_rankeval.jobs.driver_log import quiet_settings, quiet_spark
from spark_rankeval.jobs.logs import EventLog, follow_session, redacted
from spark_rankeval.package import package_zip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_rankeval.spark.engine import Engine


OK, CRASH, CONFIG, DATA, GATE, SUPERSEDED, TRACKING = 0, 1, 2, 3, 4, 5, 6
_CRASHED = "crash"
#: Kinds of errors, their words and their exit codes; the first that fits counts.
_OUTCOMES: tuple[tuple[type[Exception], str, int], ...] = (
    (errors.DataError, "bad data", DATA),
    (errors.GateError, "gates failed", GATE),
    (errors.TrackingError, "tracking failed", TRACKING),
    (errors.SupersededError, "superseded", SUPERSEDED),
    (errors.UnavailableError, "not available", CRASH),
    # Before the tables are read it is a ConfigurationError.
    (errors.EngineError, "engine failed", CRASH),
    (errors.SparkRankEvalError, "wrong config", CONFIG),
)

#: Settings for one machine; a cluster has its own.
_LOCAL = {
    # The second number is how often a task may fail: plain local[*] gives up at the first failure.
    "spark.master": "local[*, 4]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.enabled": "false",
}
#: Databricks sets this if it has a session, in wheel tasks too. A job must not configure or stop that session.
_DATABRICKS = "DATABRICKS_RUNTIME_VERSION"
_ANY = Session()
_INSTALL_JAVA = (
    "install Java 17 or newer (apt install openjdk-17-jre-headless; brew install openjdk@17) or set JAVA_HOME"
)
_PACKAGES_OF_SAIL = " ".join(f"'{requirement}'" for requirement in EXTRAS["sail"].values())
_WITHOUT_JAVA = f"pip install {_PACKAGES_OF_SAIL} in an environment without pyspark (the extra 'sail')"


def session() -> SparkSession:
    """The session that runs; else a local one of PySpark; else Sail's, which needs no Java.

    A local session of PySpark uses all cores. `local.session` starts Sail with a number of cores and a bound of memory.

    Examples:
        >>> from spark_rankeval import session
        >>> spark = session()

    Raises:
        EngineError: no engine can start on this machine, or the session's engine is refused.
    """
    try:
        chosen = Session(engine_of_this_machine())
        return _running_session(chosen) or _started("spark_rankeval")
    except ConfigurationError as error:
        raise errors.EngineError(str(error)) from error


def engine_of_this_machine() -> Literal["sail"] | None:
    """Sail if it is installed, no session runs, and Spark cannot start here; None otherwise."""
    if find_spec("pysail") is None or local.active_session() is not None:
        return None
    return "sail" if why_spark_does_not_start() else None


def run_job(
    name: str, job: Callable[[], None], hide: Callable[[str], str] = redacted, log: EventLog | None = None
) -> int:
    """Run a job and turn an error into an exit code; errors that the user can fix become one line on stderr.

    Returns:
        0; 2 for a wrong configuration, 3 for bad data, 4 if gates failed, 5 if a later attempt has taken the run's name, 6 if only a
        tracking server did not accept the run; 1 if another attempt may succeed: a database does not answer, the engine failed, or for a
        crash, which prints its traceback.
    """
    # The filter is set before the first import of PySpark, which warns, too.
    warnings.filterwarnings("ignore", PANDAS_NOTICE, FutureWarning)
    log = EventLog(name, hide=hide) if log is None else log
    try:
        job()
    except Exception as error:
        what, code = outcome_of(error)
        text = traceback.format_exc() if what == _CRASHED else f"{name}: {what}: {' '.join(str(error).split())}\n"
        log.fail(text, kind=what, exit_code=code, error=str(error))
        return code
    return OK


def outcome_of(error: Exception) -> tuple[str, int]:
    """The kind of an error in words, and its exit code."""
    return next(((what, code) for kind, what, code in _OUTCOMES if isinstance(error, kind)), (_CRASHED, CRASH))


@contextmanager
def job_session(name: str, chosen: Session = _ANY) -> Iterator[SparkSession]:
    """The session of the platform, which keeps running, or else a local one.

    Raises:
        ConfigurationError: the session of the platform has another engine or other sizes than the chosen ones, or an engine that is
            refused; or no session can start.
    """
    check_packages(chosen)
    if chosen.engine is None:
        chosen = replace(chosen, engine=engine_of_this_machine())
    running = _running_session(chosen)
    if running is not None:
        _hide_secrets_of(running)
        yield running
        return
    spark = _started(name)
    from pyspark.sql.utils import is_remote  # noqa: PLC0415

    try:
        engine = _checked_engine(spark, chosen)
        _hide_secrets_of(spark)
        # A Connect server does not have the package; classic Spark gets it from --py-files.
        if is_remote() and engine.is_spark:
            with tempfile.TemporaryDirectory() as folder:
                spark.addArtifacts(package_zip(folder), pyfile=True)
        yield spark
    finally:
        spark.stop()


def _started(name: str) -> SparkSession:
    """A new session: that of the place, or else a local one of PySpark."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 # a wrong config is reported without waiting for this import
    from pyspark.sql.utils import is_remote  # noqa: PLC0415

    builder = SparkSession.builder.appName(name)
    if not is_remote():
        builder = builder.config(map=quiet_settings())
    spark = builder.getOrCreate() if _has_place() else _start_locally(builder)
    if not is_remote():
        quiet_spark()
    return spark


def check_packages(chosen: Session) -> None:
    """Refuse packages that a session of Sail cannot start with, before PySpark is imported: it may be two versions mixed."""
    if chosen.engine == "sail" and "pyspark" not in sys.modules and not os.environ.get("SPARK_REMOTE"):
        with _refused_engines():
            local.check_installed()


def _running_session(chosen: Session) -> SparkSession | None:
    """The session of the place, or Sail's in this process, which stops at the end of the process."""
    from pyspark.sql import SparkSession  # noqa: PLC0415

    # Also that of another thread.
    active = local.active_session()
    if active is None and os.environ.get(_DATABRICKS):
        active = SparkSession.builder.getOrCreate()
    if active is not None:
        _checked_engine(active, chosen)
    elif os.environ.get("SPARK_REMOTE"):
        if chosen.sizes:
            msg = f"the server in SPARK_REMOTE has its own cores and memory; leave {chosen.sizes} out"
            raise ConfigurationError(msg)
        return None
    if chosen.engine == "sail" and (active is None or chosen.sizes):
        with _refused_engines():
            # It refuses other sizes than those that it runs with.
            active = local.session(cores=chosen.cores, memory=chosen.memory)
    return active


@contextmanager
def _refused_engines() -> Iterator[None]:
    """An engine that is refused before the tables are read is a matter of the configuration."""
    try:
        yield
    except errors.EngineError as error:
        raise ConfigurationError(str(error)) from error


def _checked_engine(spark: SparkSession, chosen: Session) -> Engine:
    from spark_rankeval.spark.engine import engine_of  # noqa: PLC0415

    with _refused_engines():
        engine = engine_of(spark)
    if chosen.engine not in (None, engine.name.lower()):
        msg = (
            f"session.engine is {chosen.engine!r}, but the session of this place runs on {engine.name} {engine.version}; "
            "leave the key out to use it"
        )
        raise ConfigurationError(msg)
    return engine


def _hide_secrets_of(spark: SparkSession) -> None:
    from spark_rankeval.spark.engine import setting  # noqa: PLC0415

    follow_session(setting(spark, "spark.redaction.regex", ""))


def why_spark_does_not_start() -> str:
    """What this machine lacks to start Spark, and what to do; empty if no lack is known."""
    if _has_place():
        return ""
    import pyspark  # noqa: PLC0415

    if not Path(pyspark.__file__).with_name("bin").is_dir() and not os.environ.get("SPARK_HOME"):
        return f"pyspark-client is installed, which has no Spark to start: {_WITHOUT_JAVA}, or name a server in SPARK_REMOTE"
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        return f"Spark needs Java, and this machine has none: {_INSTALL_JAVA}. Or run without Java: {_WITHOUT_JAVA}"
    return ""


def _has_place() -> bool:
    """Whether spark-submit, Spark Connect or the user's settings say where Spark runs."""
    chosen = ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE", "MASTER")
    return any(os.environ.get(name) for name in chosen) or "spark.master" in _site_settings()


def _site_settings() -> set[str]:
    """The names set in spark-defaults.conf, which the settings of a builder would override."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (str(Path(home, "conf")) if home else "")
    file = Path(folder, "spark-defaults.conf")
    if not folder or not file.is_file():
        return set()
    lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    return {line.replace("=", " ").split()[0] for line in lines if line and not line.startswith("#")}


def _start_locally(builder: SparkSession.Builder) -> SparkSession:
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415

    from spark_rankeval.spark.engine import condition_of  # noqa: PLC0415

    if reason := why_spark_does_not_start():
        raise ConfigurationError(reason)
    # Otherwise workers use the first python on the PATH, which may lack this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    site = _site_settings()
    for key, value in _LOCAL.items():
        if key not in site:
            builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        if condition_of(error) != "JAVA_GATEWAY_EXITED":
            raise
        msg = f"Spark did not start; its own message is above. If it is about Java, {_INSTALL_JAVA}"
        raise ConfigurationError(msg) from error
