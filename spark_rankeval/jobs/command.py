"""The process of a job: its command line, session, events and exit code; and the command ``spark-rankeval``."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import shutil
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Literal, NoReturn

from spark_rankeval import errors, local
from spark_rankeval.checks import EXTRAS, PANDAS_NOTICE, __version__, package_zip
from spark_rankeval.dialects import published
from spark_rankeval.errors import ConfigurationError, FinishedRunError, SparkRankEvalError
from spark_rankeval.jobs import config as configuration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_rankeval.spark.engine import Engine


OK, CRASH, CONFIG, DATA, GATE, TRACKING = 0, 1, 2, 3, 4, 6
_CRASHED = "crash"
#: Kinds of errors, their words and their exit codes; the first that fits counts.
_OUTCOMES: tuple[tuple[type[Exception], str, int], ...] = (
    (errors.DataError, "bad data", DATA),
    (errors.GateError, "gates failed", GATE),
    (errors.TrackingError, "tracking failed", TRACKING),
    (errors.UnavailableError, "not available", CRASH),
    # Before the tables are read it is a ConfigurationError.
    (errors.EngineError, "engine failed", CRASH),
    (errors.SparkRankEvalError, "wrong config", CONFIG),
)

#: Settings for one machine; a cluster has its own, and what `spark-defaults.conf` sets stands.
_LOCAL = {
    # The second number is how often a task may fail: plain local[*] gives up at the first failure.
    "spark.master": "local[*, 4]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Errors come with hundreds of lines of stack, and the job says them in one.
    "spark.log.level": "FATAL",
}
#: Databricks sets this if it has a session, in wheel tasks too. A job must not configure or stop that session.
_DATABRICKS = "DATABRICKS_RUNTIME_VERSION"
_ANY = configuration.Session()
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
        chosen = configuration.Session(engine_of_this_machine())
        return _running_session(chosen) or _started("spark_rankeval")
    except ConfigurationError as error:
        raise errors.EngineError(str(error)) from error


def engine_of_this_machine() -> Literal["sail"] | None:
    """Sail if it is installed, no session runs, and Spark cannot start here; None otherwise."""
    if find_spec("pysail") is None or local.active_session() is not None:
        return None
    return "sail" if why_spark_does_not_start() else None


def run_job(name: str, job: Callable[[], None], log: configuration.EventLog | None = None) -> int:
    """Run a job and turn an error into an exit code; errors that the user can fix become one line on stderr.

    Returns:
        0; 2 for a wrong configuration, 3 for bad data, 4 if gates failed, 6 if only a tracking server did not accept the run; 1 if
        another attempt may succeed: a database does not answer, the engine failed, or for a crash, which prints its traceback.
    """
    # The filter is set before the first import of PySpark, which warns, too.
    warnings.filterwarnings("ignore", PANDAS_NOTICE, FutureWarning)
    log = configuration.EventLog(name) if log is None else log
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
def job_session(name: str, chosen: configuration.Session = _ANY) -> Iterator[SparkSession]:
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
        yield running
        return
    spark = _started(name)
    from pyspark.sql.utils import is_remote  # noqa: PLC0415

    try:
        engine = _checked_engine(spark, chosen)
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

    builder = SparkSession.builder.appName(name)
    return builder.getOrCreate() if _has_place() else _start_locally(builder)


def check_packages(chosen: configuration.Session) -> None:
    """Refuse packages that a session of Sail cannot start with, before PySpark is imported: it may be two versions mixed."""
    if chosen.engine == "sail" and "pyspark" not in sys.modules and not os.environ.get("SPARK_REMOTE"):
        with _refused_engines():
            local.check_installed()


def _running_session(chosen: configuration.Session) -> SparkSession | None:
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


def _checked_engine(spark: SparkSession, chosen: configuration.Session) -> Engine:
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


#: The options that are short for a setting.
_SHORT = {"format": "output.printed", "engine": "session.engine"}


@dataclass(frozen=True)
class Command(Generic[configuration.Config]):
    """A job that is started with a configuration; `execute` and `plan` of its module return what is printed.

    Attributes:
        name: of the job, and of its file in ``jobs/`` and in ``conf/``.
        description: what it does.
        config: the dataclass of its configuration.
        module: the module of `execute` and `plan`; left out, ``<name>_run``.
        formats: what ``--format`` takes, short for ``--set output.printed``; none: there is no such option.
        is_tracked: whether MLflow keeps its runs, and the module has `track_finished`.
    """

    name: str
    description: str
    config: type[configuration.Config]
    module: str = ""
    formats: tuple[str, ...] = ()
    is_tracked: bool = False

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Run the job with a command line, by default that of the process; for the exit code see `run_job`."""
        options = self._options(arguments)
        if options.print_schema:
            schemas = resources.files("spark_rankeval.jobs").joinpath("schemas")
            sys.stdout.write(schemas.joinpath(f"{self.name}.json").read_text(encoding="utf-8"))
            return 0
        log = configuration.EventLog(self.name, options.log_format, options.log_file)

        def job() -> None:
            log.tell("started", config=options.config)
            config = configuration.load_config(options.config, self.config, overrides_of(options))
            log.hide = config.redacted
            keys = config.keys()
            check_packages(config.session)
            # It imports pyspark, for which a wrong configuration does not wait.
            work = importlib.import_module(f"spark_rankeval.jobs.{self.module or self.name + '_run'}")
            session = job_session(f"spark_rankeval {self.name}", config.session)
            with log.with_warnings(keys), session as spark, configuration.errors_with_keys(keys):
                try:
                    text = (
                        work.plan(spark, config) if options.dry_run else getattr(work, options.step)(spark, config, log)
                    )
                except FinishedRunError as error:
                    sys.stdout.write(f"{error.result}\n" if error.result else "")
                    raise
            sys.stdout.write(f"{text}\n")

        return run_job(self.name, job, log)

    def _options(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        parser = job_parser(
            self.name, self.description, f"a file of TOML, or YAML (.yaml, .yml); conf/{self.name}.toml explains it"
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="check configuration and columns, say what would be done, and stop"
        )
        parser.add_argument(
            "--print-schema",
            action="store_true",
            help="print the JSON Schema of the configuration, for editors, and stop",
        )
        parser.set_defaults(step="execute")
        if self.is_tracked:
            parser.add_argument(
                "--only-mlflow",
                action="store_const",
                dest="step",
                const="track_finished",
                help="log the finished run of this configuration to MLflow, compute nothing, and stop",
            )
        if self.formats:
            parser.add_argument(
                "--format", choices=self.formats, help="how the result is printed; short for --set output.printed=…"
            )
        options = parser.parse_args(arguments)
        if options.config is None and not options.print_schema:
            parser.error("--config FILE is needed")
        return options


class _Parser(argparse.ArgumentParser):
    """A parser that does not repeat what stands in the wrong place, as in ``--set key= value``: it may be a secret."""

    def error(self, message: str) -> NoReturn:
        beginning, words, rest = message.partition("unrecognized arguments: ")
        names = [word.partition("=")[0] if word.startswith("--") else configuration.HIDDEN for word in rest.split()]
        super().error(f"{beginning}{words}{' '.join(names)}")


def job_parser(name: str, description: str, about_config: str) -> argparse.ArgumentParser:
    """The command line of a job, with the options that all jobs have."""
    parser = _Parser(prog=name, description=description)
    parser.add_argument("--config", metavar="FILE", help=about_config)
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a full key and its value, instead of the file's: evaluation.metrics=ndcg@10; repeatable",
    )
    parser.add_argument(
        "--engine",
        choices=("spark", "sail"),
        help="short for --set session.engine=…; sail needs no Java (docs/platforms.md)",
    )
    parser.add_argument(
        "--log-format",
        choices=configuration.FORMATS,
        default="text",
        help="of stderr: warnings and errors for a reader, or one line of JSON an event; default: %(default)s",
    )
    parser.add_argument(
        "--log-file",
        metavar="FILE",
        type=_log_file,
        help="add these lines to a file of this machine instead; a failure is a line on stderr, too",
    )
    return parser


def _log_file(path: str) -> str:
    try:
        with open(path, "a", encoding="utf-8"):
            return path
    except OSError as error:
        msg = f"cannot write to {path!r}: {error.strerror}"
        raise argparse.ArgumentTypeError(msg) from error


def overrides_of(options: argparse.Namespace) -> list[str]:
    """The settings of the command line, with the options that are short for one."""
    values = {key: getattr(options, name, None) for name, key in _SHORT.items()}
    return [*options.set, *(f"{key}={value}" for key, value in values.items() if value)]


def run_as_task(main: Callable[[], int]) -> None:
    """Run a job as an entry point of the package, whose return value has no reader (Databricks' wheel tasks)."""
    code = main()
    if code:
        sys.exit(code)


# The main function of each job, which reads its own options, and what the job is for.
_JOBS = {
    "evaluate": ("evaluate:main", "evaluate a table of predictions: --config FILE; --help has all options"),
    "compare": ("runs:compare_main", "compare models with a baseline: --config FILE; --help has all options"),
    "compare_groups": (
        "runs:groups_main",
        "compare groups of different users, as in an A/B test: --config FILE; --help has all options",
    ),
    "trend": ("runs:trend_main", "draw a metric over all runs: --output FOLDER; --help has all options"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand with a command line, by default that of the process, and return the exit code, for jobs as they have it."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words and words[0] in _JOBS:
        place, _ = _JOBS[words[0]]
        code: int = pkgutil.resolve_name(f"spark_rankeval.jobs.{place}")(words[1:])
        return code
    if words and words[0] == "doctor":
        return int(pkgutil.resolve_name("spark_rankeval.__main__:main")(words))
    options = _parser().parse_args(words or ["--help"])
    try:
        if options.command == "dialects":
            print(published.list_dialects())
        elif options.command == "explain":
            print(published.explain(options.metric, options.dialect))
        else:
            print(__version__)
    except SparkRankEvalError as error:
        print(f"{options.command}: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="spark-rankeval", description="Evaluate rankings and recommendations on Spark."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for job, (_, about) in _JOBS.items():
        commands.add_parser(job, help=about, add_help=False)
    # It is in __main__, which also runs if a package is missing.
    commands.add_parser("doctor", help="look for problems of this machine, and say what to do about each")
    commands.add_parser("dialects", help="list the dialects, one a line")
    explain = commands.add_parser(
        "explain",
        help="say what a metric is: formula, edge cases, source, parameters, and what each dialect makes of it",
    )
    explain.add_argument("metric", help="as evaluations take it: ndcg@10, ap(denominator=labels)@10")
    explain.add_argument("--dialect", help="resolve the metric in this dialect; without one, all in short")
    commands.add_parser("version", help="print the version")
    return parser
