"""The command ``spark-rankeval``: the jobs, and what metrics and dialects are, each as a subcommand."""

from __future__ import annotations

import argparse
import pkgutil
import sys
from collections.abc import Sequence

from spark_rankeval.dialects import explained
from spark_rankeval.errors import SparkRankEvalError
from spark_rankeval.package import __version__

# The main function of each job, which reads its own options, and what the job is for.
_JOBS = {
    "evaluate": ("evaluate:main", "evaluate a table of predictions: --config FILE; --help has all options"),
    "compare": ("compare:main", "compare models with a baseline: --config FILE; --help has all options"),
    "compare_groups": (
        "compare:groups_main",
        "compare groups of different users, as in an A/B test: --config FILE; --help has all options",
    ),
    "trend": ("trend:main", "draw a metric over all runs: --output FOLDER; --help has all options"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand with a command line, by default that of the process, and return the exit code, for jobs as they have it."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words and words[0] in _JOBS:
        place, _ = _JOBS[words[0]]
        code: int = pkgutil.resolve_name(f"spark_rankeval.jobs.{place}")(words[1:])
        return code
    options = _parser().parse_args(words or ["--help"])
    try:
        if options.command == "dialects":
            print(explained.list_dialects())
        elif options.command == "explain":
            print(explained.explain(options.metric, options.dialect))
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
    commands.add_parser("dialects", help="list the dialects, one a line")
    explain = commands.add_parser(
        "explain",
        help="say what a metric is: formula, edge cases, source, parameters, and what each dialect makes of it",
    )
    explain.add_argument("metric", help="as evaluations take it: ndcg@10, ap(denominator=labels)@10")
    explain.add_argument("--dialect", help="resolve the metric in this dialect; without one, all in short")
    commands.add_parser("version", help="print the version")
    return parser
