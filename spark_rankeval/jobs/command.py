"""What the command lines of jobs have in common."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Generic, NoReturn

from spark_rankeval.errors import FinishedRunError
from spark_rankeval.jobs.config import Config, load_config
from spark_rankeval.jobs.driver_log import own_stderr
from spark_rankeval.jobs.logs import FORMATS, HIDDEN, EventLog, errors_with_keys, redacted
from spark_rankeval.jobs.session import check_packages, job_session, run_job

#: The options that are short for a setting.
_SHORT = {"format": "output.printed", "engine": "session.engine"}


@dataclass(frozen=True)
class Command(Generic[Config]):
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
    config: type[Config]
    module: str = ""
    formats: tuple[str, ...] = ()
    is_tracked: bool = False

    @own_stderr()
    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Run the job with a command line, by default that of the process; for the exit code see `run_job`."""
        options = self._options(arguments)
        if options.print_schema:
            schemas = resources.files("spark_rankeval.jobs").joinpath("schemas")
            sys.stdout.write(schemas.joinpath(f"{self.name}.json").read_text(encoding="utf-8"))
            return 0
        loaded: list[Config] = []

        def hide(text: str) -> str:
            return loaded[0].redacted(text) if loaded else redacted(text)

        log = EventLog(self.name, options.log_format, hide, options.log_file)

        def job() -> None:
            log.tell("started", config=options.config)
            config = load_config(options.config, self.config, overrides_of(options))
            loaded.append(config)
            keys = config.keys()
            check_packages(config.session)
            # It imports pyspark, for which a wrong configuration does not wait.
            work = importlib.import_module(f"spark_rankeval.jobs.{self.module or self.name + '_run'}")
            session = job_session(f"spark_rankeval {self.name}", config.session)
            with log.with_warnings(keys), session as spark, errors_with_keys(keys):
                try:
                    text = (
                        work.plan(spark, config) if options.dry_run else getattr(work, options.step)(spark, config, log)
                    )
                except FinishedRunError as error:
                    sys.stdout.write(f"{error.result}\n" if error.result else "")
                    raise
            sys.stdout.write(f"{text}\n")

        return run_job(self.name, job, hide, log)

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
        names = [word.partition("=")[0] if word.startswith("--") else HIDDEN for word in rest.split()]
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
        help="short for --set session.engine=…; sail needs no Java (docs/ci_gate.md)",
    )
    parser.add_argument(
        "--log-format",
        choices=FORMATS,
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
