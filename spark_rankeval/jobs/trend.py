"""The job that shows the metrics of all runs over time, as a table on the terminal or a page with charts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from spark_rankeval.checks import check_extra
from spark_rankeval.errors import listed
from spark_rankeval.jobs.command import job_parser, job_session, overrides_of, run_as_task, run_job
from spark_rankeval.jobs.config import EventLog, Output, Session, load_config
from spark_rankeval.jobs.evaluate import EvaluateConfig
from spark_rankeval.run_history.gates import GateRule

# So many runs without figures are named.
_MOST_RUNS = 20


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
            from spark_rankeval.jobs.outputs import read_history  # noqa: PLC0415 # it imports pyspark

            slice_ = None if options.slice == "every" else options.slice
            full = read_history(spark, output, slice_, options.metric or ())
            shown = full.of(options.metric) if options.metric else full.headline([rule.metric for rule in rules])
            n_more = 0 if options.metric else len(full.keys()) - len(shown.keys())
            more = f"{n_more:,} more metrics, points of curves: --metric NAME shows one\n" if n_more else ""
            lacking = [f"{run} ({why})" for run, why in full.failed.items() if run not in full.runs]
            more += f"no figures of {listed(lacking, _MOST_RUNS)}\n" if lacking else ""
            if options.html:
                path = shown.report(options.html, gates=rules)
                log.tell("written", what="trend", place=str(path))
                sys.stdout.write(f"{len(shown.runs):,} runs of {len(shown.keys()):,} metrics written to {path}\n{more}")
            else:
                sys.stdout.write(f"{shown!r}\n" + (f"\n{more}" if more else ""))

    return run_job("trend", job, log=log)


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
