"""The history of a job's runs: its metrics over time, as a table on the terminal or a page with charts."""

from __future__ import annotations

import argparse
import difflib
import sys
from typing import TYPE_CHECKING

from spark_rankeval.errors import ConfigurationError
from spark_rankeval.extras import check_extra
from spark_rankeval.jobs.config import load_config
from spark_rankeval.jobs.evaluate_config import EvaluateConfig
from spark_rankeval.jobs.events import FORMATS, EventLog
from spark_rankeval.jobs.session import job_session, run_job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from spark_rankeval.gates import GateRule
    from spark_rankeval.run_history import History

# So many are listed where one is not found.
_MOST_SLICES = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the history and show it.

    Args:
        arguments: the command line; None: that of the process.

    Returns:
        0; 2 for wrong options, or a folder without runs of the evaluation job; 1 for a crash.
    """
    options = _options(arguments)
    log = EventLog("trend", options.log_format)

    def job() -> None:
        rules: tuple[GateRule, ...] = ()
        output = options.output
        if options.config is not None:
            config = load_config(options.config, EvaluateConfig, options.set)
            output, rules = output or config.output.path, config.gate_rules()
        if options.html:
            check_extra("report", "reports")
        with log.warnings_told(), job_session("spark_rankeval trend") as spark:
            found = read_history(spark, output, None if options.slice == "every" else options.slice)
            shown = found.of(options.metric) if options.metric else found.headline([rule.metric for rule in rules])
            n_more = 0 if options.metric else len(found.keys()) - len(shown.keys())
            more = f"{n_more:,} more metrics, points of curves: --metric NAME shows one\n" * (n_more > 0)
            if options.html:
                path = shown.report(options.html, gates=rules)
                log.tell("written", what="trend", place=str(path))
                sys.stdout.write(f"{len(shown.runs):,} runs of {len(shown.keys()):,} metrics written to {path}\n{more}")
            else:
                sys.stdout.write(f"{shown!r}\n" + (f"\n{more}" if more else ""))

    return run_job("trend", job, log=log)


def read_history(spark: SparkSession, output: str, slice_: str | None = "all") -> History:
    """The whole runs in a folder of outputs.

    Args:
        spark: the session.
        output: the folder of all tables.
        slice_: which users; None: each slice.

    Raises:
        ConfigurationError: there is no table of metrics, or no run has such a slice.
    """
    from spark_rankeval.jobs.runs import MANIFESTS, METRICS, STATUS, read_metrics, run_facts  # noqa: PLC0415 # these import pyspark
    from spark_rankeval.long_table import RUN_ID  # noqa: PLC0415
    from spark_rankeval.run_history import History, history  # noqa: PLC0415
    from spark_rankeval.spark.storage import exists  # noqa: PLC0415

    output = output.rstrip("/")
    if not (exists(spark, f"{output}/{METRICS}") and exists(spark, f"{output}/{MANIFESTS}")):
        tables = f"the tables {METRICS} and {MANIFESTS}"
        msg = f"there are no runs in {output}: it is the folder of the outputs of jobs/evaluate.py, with {tables}"
        raise ConfigurationError(msg)
    manifests = run_facts(spark, output, (RUN_ID, "started", "gates_failed"))
    whole = {one[RUN_ID]: one["started"] for one in manifests}
    states = (
        run_facts(spark, output, (RUN_ID, "started", "state", "kind"), STATUS)
        if exists(spark, f"{output}/{STATUS}")
        else []
    )
    # A later run of the same name may have failed before it replaced anything.
    failed = {
        one[RUN_ID]: one["kind"] or "failed"
        for one in states
        if one["state"] == "failed" and one["started"] == whole.get(one[RUN_ID])
    }
    failed |= {one[RUN_ID]: "gates failed" for one in manifests if one["gates_failed"] not in (None, "0")}
    table = read_metrics(spark, output)
    rows = tuple(one for one in history(table, slice=slice_).rows if one[0] in whole)
    if not rows and whole and slice_ is not None:
        every = table.select("slice", RUN_ID).distinct().collect()
        raise ConfigurationError(_no_slice(slice_, sorted({one["slice"] for one in every if one[RUN_ID] in whole})))
    return History(rows, failed)


def _no_slice(asked: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(asked, known, n=2)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    more = f", … ({len(known):,} in all)" if len(known) > _MOST_SLICES else ""
    return (
        f"no run has a slice {asked!r}; {hint}There are: {', '.join(known[:_MOST_SLICES])}{more}; --slice every is each"
    )


def task() -> None:
    """The job as an entry point of the package, where nobody looks at what a function returns (Databricks' wheel tasks)."""
    code = main()
    if code:
        sys.exit(code)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="trend", description="Show the metrics of all runs of the evaluation job.")
    parser.add_argument("--output", metavar="FOLDER", help="of the outputs of jobs/evaluate.py")
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="of jobs/evaluate.py, instead: its output, and its gates as lines in the charts",
    )
    parser.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="instead of the file's, as there"
    )
    parser.add_argument(
        "--metric",
        metavar="NAME",
        action="append",
        help="such as ndcg@10; repeatable; default: every metric, but of curves the usual points",
    )
    parser.add_argument(
        "--slice", metavar="NAME", default="all", help="which users: country=DE, or every; default: %(default)s"
    )
    parser.add_argument("--html", metavar="FILE", help="write a page with charts there instead of printing tables")
    parser.add_argument(
        "--log-format",
        choices=FORMATS,
        default="text",
        help="of stderr: warnings and errors for a reader, or one line of JSON an event; default: %(default)s",
    )
    options = parser.parse_args(arguments)
    if options.config is None and options.output is None:
        parser.error("--output FOLDER or --config FILE is needed")
    return options
