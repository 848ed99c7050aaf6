"""The job that shows the metrics of all runs over time, as a table on the terminal or a page with charts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from spark_rankeval.checks import check_extra
from spark_rankeval.errors import ConfigurationError, did_you_mean, listed
from spark_rankeval.jobs.command import job_parser, job_session, overrides_of, run_as_task, run_job
from spark_rankeval.jobs.config import EventLog, Output, Session, load_config
from spark_rankeval.jobs.evaluate import EvaluateConfig
from spark_rankeval.run_history.gates import GateRule

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_rankeval.run_history.history import History


# The message about a slice that no run has names so many others.
_MOST_SLICES = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the history and show it; `arguments` are by default those of the process. For the exit code see `run_job`."""
    options = _options(arguments)
    log = EventLog("trend", options.log_format, options.log_file)

    def job() -> None:
        rules: tuple[GateRule, ...] = ()
        output, session = Output(options.output or "", options.catalog), Session(options.engine)
        if options.config is not None:
            config = load_config(options.config, EvaluateConfig, overrides_of(options))
            rules, session = tuple(config.gates.values()), config.session
            output = config.output if options.output is None and options.catalog is None else output
        if options.html:
            check_extra("report", "reports")
        with log.with_warnings(), job_session("spark_rankeval trend", session) as spark:
            slice_ = None if options.slice == "every" else options.slice
            full = read_history(spark, output, slice_, options.metric or ())
            shown = full.of(options.metric) if options.metric else full.headline([rule.metric for rule in rules])
            n_more = 0 if options.metric else len(full.keys()) - len(shown.keys())
            more = f"{n_more:,} more metrics, points of curves: --metric NAME shows one\n" if n_more else ""
            if options.html:
                path = shown.report(options.html, gates=rules)
                log.tell("written", what="trend", place=str(path))
                sys.stdout.write(f"{len(shown.runs):,} runs of {len(shown.keys()):,} metrics written to {path}\n{more}")
            else:
                sys.stdout.write(f"{shown!r}\n" + (f"\n{more}" if more else ""))

    return run_job("trend", job, log=log)


def read_history(
    spark: SparkSession, output: Output, slice_: str | None = "all", metrics: Sequence[str] = ()
) -> History:
    """The history of all complete runs. Other jobs may write meanwhile.

    Args:
        spark: the session.
        output: where the runs are.
        slice_: which users; None: each slice.
        metrics: in any spelling. All metrics are read if there are none, or if no run has one of them.
    """
    from spark_rankeval.jobs.outputs import MANIFESTS, METRICS, has_table  # noqa: PLC0415 # these import pyspark
    from spark_rankeval.spark.catalog import read_while_others_write  # noqa: PLC0415

    if not (has_table(spark, output, METRICS) and has_table(spark, output, MANIFESTS)):
        option, what = ("--catalog", "the schema") if output.catalog else ("--output", "the output folder")
        place = ", ".join(filter(None, (output.catalog, output.path)))
        msg = f"there are no runs in {place}; {option} must be {what} of jobs/evaluate.py, with the tables {METRICS} and {MANIFESTS}"
        msg += "" if output.catalog else "; runs in a catalogue need --catalog, too"
        raise ConfigurationError(msg)
    return read_while_others_write(partial(_read, spark, output, slice_, metrics))


def _read(spark: SparkSession, output: Output, slice_: str | None, metrics: Sequence[str], missing_ok: bool) -> History:
    from pyspark.sql import functions as F  # noqa: PLC0415

    from spark_rankeval.jobs.outputs import STATUS, has_table, read_metrics, run_facts  # noqa: PLC0415
    from spark_rankeval.records.columns import RUN_ID  # noqa: PLC0415
    from spark_rankeval.run_history.history import History, history  # noqa: PLC0415

    manifests = run_facts(spark, output, (RUN_ID, "job", "started", "gates_failed"), missing_ok=missing_ok)
    started = {run[RUN_ID]: run["started"] for run in manifests if run["job"] == "evaluate"}
    facts = (RUN_ID, "started", "state", "kind")
    has_status = bool(output.path) and has_table(spark, output, STATUS)
    states = run_facts(spark, output, facts, STATUS, missing_ok=missing_ok) if has_status else []
    # A status counts only if it is about the stored run: a later run of the same name may have failed before it replaced anything.
    failed = {
        run[RUN_ID]: run["kind"] or "failed"
        for run in states
        if run["state"] == "failed" and run["started"] == started.get(run[RUN_ID])
    }
    failed |= {run[RUN_ID]: "gates failed" for run in manifests if run["gates_failed"] not in (None, "0")}
    run_rows = read_metrics(spark, output, missing_ok=missing_ok).where(F.col(RUN_ID).isin(list(started)))
    rows = history(_metric_rows(run_rows, metrics), slice=slice_).rows
    if not rows and started and slice_ is not None:
        slices = sorted(row["slice"] for row in run_rows.select("slice").distinct().collect())
        if slice_ not in slices:
            there = f"{did_you_mean(slice_, slices)}There are: {listed(slices, _MOST_SLICES)}"
            raise ConfigurationError(f"no run has a slice {slice_!r}; {there}; --slice every is each")
    return History(rows, failed)


def _metric_rows(table: DataFrame, metrics: Sequence[str]) -> DataFrame:
    """The rows of some metrics; all rows if one of them is unknown, so that a message can list the others."""
    from pyspark.sql import functions as F  # noqa: PLC0415

    from spark_rankeval.run_history.gates import names  # noqa: PLC0415

    if not metrics:
        return table
    available = [tuple(record) for record in table.select("metric", "relevance").distinct().collect()]
    keys = {f"{metric} [{relevance}]" if relevance else metric: metric for metric, relevance in available}
    matches = {name: [metric for key, metric in keys.items() if names(name, key)] for name in metrics}
    if not all(matches.values()):
        return table
    return table.where(F.col("metric").isin(sorted({metric for matching in matches.values() for metric in matching})))


task = partial(run_as_task, main)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    about_config = "of jobs/evaluate.py, instead: its output, and its gates as lines in the charts"
    parser = job_parser("trend", "Show the metrics of all runs of the evaluation job.", about_config)
    parser.add_argument("--output", metavar="FOLDER", help="of the outputs of jobs/evaluate.py")
    parser.add_argument(
        "--catalog",
        metavar="SCHEMA",
        help="of the catalogue with the tables of jobs/evaluate.py; on Sail beside --output",
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
    options = parser.parse_args(arguments)
    if options.config is None and options.output is None and options.catalog is None:
        parser.error("--output FOLDER, --catalog SCHEMA or --config FILE is needed")
    return options
