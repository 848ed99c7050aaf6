"""The command ``spark-rankeval``, by typer: its jobs, and what the registries say, each as a subcommand."""

from __future__ import annotations

import importlib
from typing import Annotated

import typer

import spark_rankeval
from spark_rankeval import definitions
from spark_rankeval.errors import SparkRankEvalError

# A job reads its own options, those of its file in jobs/, so that both stay the same.
_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}

app = typer.Typer(
    name="spark-rankeval",
    help="Evaluate rankings and recommendations on Spark.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _run(job: str, context: typer.Context) -> None:
    main = importlib.import_module(f"spark_rankeval.jobs.{job}").main
    raise typer.Exit(main(context.args))


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(spark_rankeval.__version__)
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Evaluate rankings and recommendations on Spark."""


@app.command(context_settings=_PASSED_ON, add_help_option=False)
def evaluate(context: typer.Context) -> None:
    """Evaluate a table of predictions: --config FILE; --help has all options."""
    _run("evaluate", context)


@app.command(context_settings=_PASSED_ON, add_help_option=False)
def compare(context: typer.Context) -> None:
    """Compare models with a baseline: --config FILE; --help has all options."""
    _run("compare", context)


@app.command(context_settings=_PASSED_ON, add_help_option=False)
def trend(context: typer.Context) -> None:
    """Draw a metric over all runs: --output FOLDER; --help has all options."""
    _run("trend", context)


@app.command()
def dialects() -> None:
    """List the dialects, one a line."""
    typer.echo(definitions.list_dialects())


@app.command()
def explain(
    metric: Annotated[str, typer.Argument(help="as evaluations take it: ndcg@10, ap(denominator=labels)@10")],
    dialect: Annotated[
        str | None, typer.Option(help="resolve the metric in this dialect; without one, all in short")
    ] = None,
) -> None:
    """Say what a metric is: formula, edge cases, source, parameters, and what each dialect makes of it."""
    try:
        typer.echo(definitions.explain(metric, dialect))
    except SparkRankEvalError as error:
        typer.echo(f"explain: {error}", err=True)
        raise typer.Exit(2) from error


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(spark_rankeval.__version__)
