"""What the command lines of jobs have in common: a configuration, settings instead of its own, a session, an exit code."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

from spark_rankeval.errors import GateError
from spark_rankeval.jobs.config import Config, load_config
from spark_rankeval.jobs.events import FORMATS, EventLog
from spark_rankeval.jobs.json_schema import json_schema
from spark_rankeval.jobs.secrets import redacted
from spark_rankeval.jobs.session import job_session, run_job
from spark_rankeval.jobs.wording import errors_with_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Command(Generic[Config]):
    """A job that is started with a configuration.

    Attributes:
        name: of the job, and of its file in ``jobs/`` and in ``conf/``.
        description: what it does.
        config: the dataclass of its configuration.
        run: does it, and gives what is printed, without secrets.
        plan: says what it would do, as such text, without doing it.
        formats: what ``--format`` takes, short for ``--set output.printed``; none: there is no such option.
        prepare: what is done before Spark starts, so that what it refuses costs nothing; not of a dry run.
    """

    name: str
    description: str
    config: type[Config]
    run: Callable[[SparkSession, Config, EventLog], str]
    plan: Callable[[SparkSession, Config], str]
    formats: tuple[str, ...] = ()
    prepare: Callable[[Config], None] | None = None

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Run the job.

        Args:
            arguments: the command line; None: that of the process.

        Returns:
            0; 2 for a wrong configuration, 3 for bad data, 4 for gates that are not met, 5 if a later attempt
            has taken the run's name, 1 for a crash.
        """
        options = self._options(arguments)
        if options.print_schema:
            schema = json_schema(self.config, f"configuration of {self.name}")
            print(json.dumps(schema, indent=2, ensure_ascii=False))
            return 0
        loaded: list[Config] = []

        def hide(text: str) -> str:
            return loaded[0].redacted(text) if loaded else redacted(text)

        log = EventLog(self.name, options.log_format, hide)

        def job() -> None:
            log.tell("started", config=options.config)
            config = load_config(options.config, self.config, options.set)
            loaded.append(config)
            keys = config.keys()
            if self.prepare is not None and not options.dry_run:
                with log.with_warnings(keys):
                    self.prepare(config)
            with log.with_warnings(keys), job_session(f"spark_rankeval {self.name}") as spark, errors_with_keys(keys):
                try:
                    text = self.plan(spark, config) if options.dry_run else self.run(spark, config, log)
                except GateError as error:
                    sys.stdout.write(f"{error.result}\n")
                    raise
            sys.stdout.write(f"{text}\n")

        return run_job(self.name, job, hide, log)

    def as_task(self) -> None:
        """Run the job; see `run_as_task`."""
        run_as_task(self.main)

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
        if self.formats:
            parser.add_argument(
                "--format", choices=self.formats, help="how the result is printed; short for --set output.printed=…"
            )
        options = parser.parse_args(arguments)
        if getattr(options, "format", None):
            options.set = [*options.set, f"output.printed={options.format}"]
        if options.config is None and not options.print_schema:
            parser.error("--config FILE is needed")
        return options


def job_parser(name: str, description: str, about_config: str) -> argparse.ArgumentParser:
    """The command line of a job, with the options that all jobs have; what is said of ``--config`` differs."""
    parser = argparse.ArgumentParser(prog=name, description=description)
    parser.add_argument("--config", metavar="FILE", help=about_config)
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="instead of the file's: evaluation.metrics=ndcg@10, or the end of a key that no other ends with; repeatable",
    )
    parser.add_argument(
        "--log-format",
        choices=FORMATS,
        default="text",
        help="of stderr: warnings and errors for a reader, or one line of JSON an event; default: %(default)s",
    )
    return parser


def run_as_task(main: Callable[[], int]) -> None:
    """A job as an entry point of the package, where nobody looks at what a function returns (Databricks' wheel tasks)."""
    code = main()
    if code:
        sys.exit(code)
