"""The batch evaluation: two tables and a configuration in; every user's metrics, the summary and an exit code out."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from spark_rankeval.errors import DataError, GateError, TrackingError
from spark_rankeval.jobs.command import Command
from spark_rankeval.jobs.evaluate_config import TABLES_OF_FACTS, EvaluateConfig, parted
from spark_rankeval.jobs.events import EventLog
from spark_rankeval.metrics.naming import parse_metrics
from spark_rankeval.run_history.gates import failed, render_gates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from spark_rankeval.evaluation.dialect_map import MapRow
    from spark_rankeval.evaluation.result import Result
    from spark_rankeval.jobs.runs import Run
    from spark_rankeval.records.summary import SummaryRow
    from spark_rankeval.run_history.gates import GateOutcome


def _prepare(config: EvaluateConfig) -> None:
    """Contact the tracking server that the run is for."""
    if config.mlflow is not None:
        from spark_rankeval.jobs.tracking import reach  # noqa: PLC0415 # it imports pyspark

        reach(config)


def _run(spark: SparkSession, config: EvaluateConfig, log: EventLog) -> str:
    result, outcomes, run_id, tables = evaluate_tables(spark, config, log)
    return _said(result, outcomes, config, run_id, tables)


def evaluate_tables(
    spark: SparkSession, config: EvaluateConfig, log: EventLog | None = None
) -> tuple[Result, list[GateOutcome], str, tuple[str, ...]]:
    """Read, evaluate once, and write what the configuration asks for.

    Args:
        spark: the session.
        config: of the run.
        log: what is told meanwhile; None: nothing.

    Returns:
        the result, what became of the gates, the run's id, and the names of the tables that it has a partition of.

    Raises:
        ConfigurationError, InputError, MetricError, OptionError: something is wrong with it; nothing was computed.
        DataError: rows cannot be ranked; nothing was published.
        GateError: figures do not meet their gates; everything was written.
        SupersededError: a later attempt has taken the run's name.
        TrackingError: MLflow did not take the run; everything was written.
    """
    from spark_rankeval.jobs import runs  # noqa: PLC0415 # these import pyspark
    from spark_rankeval.jobs.attempts import stop_if_superseded  # noqa: PLC0415
    from spark_rankeval.jobs.gating import gates_table, outcomes_of, tell_gates  # noqa: PLC0415
    from spark_rankeval.jobs.gating import told as gates_told  # noqa: PLC0415
    from spark_rankeval.jobs.reporting import about_the_run, write_report  # noqa: PLC0415
    from spark_rankeval.jobs.tables import read_tables  # noqa: PLC0415
    from spark_rankeval.spark.per_user import without_standards  # noqa: PLC0415
    from spark_rankeval.spark.storage import staged  # noqa: PLC0415

    log = EventLog("evaluate") if log is None else log
    tables = read_tables(spark, config.sources(), config.names_of_ids())
    call, frames = _call(config, tables), _frames(config, tables)
    per_user = frames[runs.PER_USER]
    with runs.running(spark, "evaluate", config, tables, log) as run:
        with staged(per_user, f"{run.output}/{runs.PER_USER}") as table:
            result = _summarised(config, table, call)
            run.write(without_standards(table), runs.PER_USER, is_empty=table.isEmpty())
        if result.notes:
            log.tell("notes", notes=result.notes)
        result = _with_all_lists(config, result, call)
        if runs.QUARANTINE in frames:
            with staged(frames[runs.QUARANTINE], f"{run.output}/{runs.QUARANTINE}") as table:
                run.write(table, runs.QUARANTINE, is_empty=table.isEmpty())
        run.write(runs.metrics_table(spark, result, run.started).coalesce(1), runs.METRICS)
        outcomes = outcomes_of(run, config.gate_rules(), result)
        if outcomes:
            run.write(gates_table(run, outcomes), runs.GATES)
            tell_gates(log, outcomes)
        told = {"plan": list(result.plan), **result.to_dict(), **gates_told(outcomes)}
        stored = spark.read.schema(without_standards(per_user).schema).parquet(run.place(runs.PER_USER))
        result = replace(result, _table=lambda: stored)

        def report(path: Path) -> None:
            result.report(
                path,
                title=config.report.title,
                distributions=config.report.distributions,
                gates=outcomes,
                dialects=_dialects(config, tables),
                manifest=about_the_run(run.manifest(told, config.evaluation.seed)),
            )

        write_report(run, report)
        manifest = run.manifest(told, config.evaluation.seed)
        run.publish(manifest)
        tables_written = (*run.written, runs.MANIFESTS)
        unmet = failed(outcomes)
        if config.mlflow is not None:
            stop_if_superseded(run)
            unmet += _tracked(run, config, result, manifest, has_failed=bool(unmet))
        if unmet:
            said = _said(result, outcomes, config, run.run_id, tables_written)
            raise GateError("; ".join(unmet), said)
    return result, outcomes, run.run_id, tables_written


def _summarised(config: EvaluateConfig, table: DataFrame, call: Mapping[str, Any]) -> Result:
    """The result of a table of users.

    Raises:
        DataError: rows cannot be ranked.
    """
    from spark_rankeval.evaluation.evaluate import evaluate  # noqa: PLC0415
    from spark_rankeval.evaluation.summarise import summarise  # noqa: PLC0415

    try:
        return summarise(table, **vars(config.evaluation.summary()))
    except DataError:
        # The stored counts say how much is wrong; only another look at the data finds examples of it.
        evaluate(**call, notes=False)
        raise


def _tracked(
    run: Run, config: EvaluateConfig, result: Result, manifest: Mapping[str, Any], *, has_failed: bool
) -> list[str]:
    """Log a run to MLflow; of one that has failed its gates, which is what its user is to learn, what went wrong there too."""
    from spark_rankeval.jobs.tracking import track  # noqa: PLC0415 # it imports pyspark

    try:
        track(run, config, result, manifest)
    except TrackingError as error:
        if not has_failed:
            raise
        run.log.tell("tracking failed", error=str(error))
        return [f"besides, tracking failed: {error}"]
    return []


def _said(
    result: Result, outcomes: Sequence[GateOutcome], config: EvaluateConfig, run_id: str, tables: Sequence[str]
) -> str:
    """What is printed of a run: its gates first."""
    parts = [render_gates(outcomes)] * bool(outcomes)
    printed = config.output.printed
    told = _table(result) if printed == "table" else result.to_trec(per_query=printed == "trec_queries")
    return "\n\n".join([*parts, told, config.written(run_id, tables)])


def _with_all_lists(config: EvaluateConfig, result: Result, call: Mapping[str, Any]) -> Result:
    """The result with the metrics of all lists together, of which no table of users holds what they need."""
    from spark_rankeval.evaluation.evaluate import evaluate  # noqa: PLC0415

    of_all = parted(config.evaluation.metrics)[1]
    if not of_all:
        return result
    options = {**vars(config.evaluation.summary()), "notes": False, "metrics": of_all}
    others = evaluate(**{**call, **options})
    labels = list(parse_metrics(config.evaluation.metrics))
    blocks: dict[tuple[str, str, str], list[SummaryRow]] = {}
    for row in (*result.summary, *others.summary):
        blocks.setdefault((row.model, row.slice, row.relevance), []).append(row)
    summary = tuple(row for rows in blocks.values() for row in sorted(rows, key=lambda row: labels.index(row.metric)))
    return replace(result, summary=summary)


def _table(result: Result) -> str:
    """The result as it shows itself, but of curves the usual points alone."""
    from spark_rankeval.charts.of_results import headline_keys  # noqa: PLC0415 # it imports pyspark

    of_all = [row for row in result.summary if row.slice == "all"]
    keys = {*headline_keys(of_all)}
    n_more = len({row.key for row in of_all} - keys)
    shown = replace(result, summary=tuple(row for row in result.summary if row.key in keys))
    return f"{shown!r}" + f"\n\n{n_more:,} more metrics, as points of curves, are in the table metrics" * (n_more > 0)


def _call(config: EvaluateConfig, tables: Mapping[str, DataFrame | None]) -> dict[str, Any]:
    """The arguments of `score_users`: what is of all lists together is another matter."""
    from spark_rankeval.request.options import Facts  # noqa: PLC0415

    call: dict[str, Any] = {**tables, **vars(config.columns)}
    call["facts"] = Facts(**{fact.name: call.pop(fact.name) for fact in fields(Facts)})
    call |= config.scoring() | {"metrics": parted(config.evaluation.metrics)[0]}
    if config.evaluation.model:
        call["predictions"] = {config.evaluation.model: tables["predictions"]}
    return call


def _frames(config: EvaluateConfig, tables: Mapping[str, DataFrame | None]) -> dict[str, DataFrame]:
    """The lazy tables of users and of rejected rows that a run writes; making them runs no job.

    Raises:
        ConfigurationError, InputError, MetricError, OptionError: they cannot be made of these tables, or not be stored.
    """
    from spark_rankeval.evaluation.evaluate import (  # noqa: PLC0415 # these import pyspark
        quarantine,
        score_users,
        score_users_to_describe,
    )
    from spark_rankeval.evaluation.summarise import check_memory  # noqa: PLC0415
    from spark_rankeval.jobs import runs  # noqa: PLC0415
    from spark_rankeval.jobs.partitions import check_columns  # noqa: PLC0415

    call, asked = _call(config, tables), config.evaluation
    score = score_users_to_describe if asked.notes else score_users
    frames = {runs.PER_USER: score(**call)}
    check_memory(frames[runs.PER_USER], asked.summary())
    if asked.on_invalid == "quarantine" or parted(asked.metrics)[1]:
        # The table of rejected rows knows all metrics, so that what those of all lists together lack is found here.
        frames[runs.QUARANTINE] = quarantine(**{**call, "metrics": asked.metrics})
    if asked.on_invalid != "quarantine":
        frames.pop(runs.QUARANTINE, None)
    for name, frame in frames.items():
        check_columns(name, frame)
    return frames


# What a map of dialects does not take: it knows one model, and no facts of items.
_NOT_OF_MAPS = ("model", "weight", "category", "vector")


def _dialects(config: EvaluateConfig, tables: Mapping[str, DataFrame | None]) -> tuple[MapRow, ...]:
    """The map of dialects that the report is to have."""
    from spark_rankeval.evaluation.dialect_map import dialect_map  # noqa: PLC0415

    asked = config.report.dialects
    if not asked:
        return ()
    given = {name: table for name, table in tables.items() if name not in ("attributes", *TABLES_OF_FACTS)}
    columns = {name: value for name, value in vars(config.columns).items() if name not in _NOT_OF_MAPS}
    found = dialect_map(
        **given,  # type: ignore[arg-type] # predictions are required, labels may be None
        **columns,
        metrics=config.evaluation.metrics,
        relevance_threshold=config.evaluation.relevance_threshold,
        on_invalid=config.evaluation.on_invalid,
        dialects=None if asked == "all" else asked,
    )
    return found.rows


def _plan(spark: SparkSession, config: EvaluateConfig) -> str:
    """What a run would do; nothing is computed."""
    from spark_rankeval.jobs import runs  # noqa: PLC0415
    from spark_rankeval.jobs.dry_run import Part, folded, planned  # noqa: PLC0415
    from spark_rankeval.jobs.partitions import check_committer  # noqa: PLC0415
    from spark_rankeval.jobs.tables import read_tables  # noqa: PLC0415
    from spark_rankeval.spark.per_user import PerUserSchema  # noqa: PLC0415

    check_committer(spark)
    tables = read_tables(spark, config.sources(), config.names_of_ids())
    frames = _frames(config, tables)
    schema = PerUserSchema.read(frames[runs.PER_USER])
    metrics = [(metric.label, metric.definition) for metric in schema.metrics]
    metrics += [(label, "of all lists together, by another pass") for label in parted(config.evaluation.metrics)[1]]
    parts: list[Part] = [(f"metrics, dialect '{schema.settings.dialect}'", folded(list(dict(metrics).items())))]
    by = config.evaluation.by
    if by:
        totals = "with totals" if config.evaluation.totals else ""
        parts.append(("slices by", [(name, totals) for name in ((by,) if isinstance(by, str) else by)]))
    outputs = [
        *frames,
        runs.METRICS,
        *[runs.GATES] * bool(config.gates),
        *[runs.REPORTS] * (config.output.report is True),
        runs.MANIFESTS,
        runs.STATUS,
    ]
    return planned(config, tables, parts, outputs)


COMMAND = Command(
    "evaluate",
    "Evaluate a table of predictions against labels.",
    EvaluateConfig,
    run=_run,
    plan=_plan,
    formats=("table", "trec", "trec_queries"),
    prepare=_prepare,
)
main, task = COMMAND.main, COMMAND.as_task
