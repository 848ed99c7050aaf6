"""A run of the job that evaluates: tables are read, evaluated once, and written with all that is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from inspect import signature
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T

from spark_rankeval.auditing.audit import Audit
from spark_rankeval.errors import ConfigurationError, DataError, GateError, TrackingError
from spark_rankeval.evaluation.dialect_map import dialect_map
from spark_rankeval.evaluation.evaluate import evaluate, quarantine, result_of, scoring_to_describe
from spark_rankeval.evaluation.input_tables import roll_up
from spark_rankeval.evaluation.result import Result
from spark_rankeval.evaluation.summarise import check_memory, summary_of
from spark_rankeval.jobs import outputs
from spark_rankeval.jobs.evaluate import EvaluateConfig, parted
from spark_rankeval.jobs.gating import (
    audit_tables,
    checks_to_make,
    facts_of_gates,
    outcomes_of,
    outcomes_of_audit,
    write_gates,
)
from spark_rankeval.jobs.job_tables import read_tables
from spark_rankeval.jobs.logs import EventLog
from spark_rankeval.jobs.reporting import Part, about_the_run, folded, planned, write_report
from spark_rankeval.jobs.runs import Run, run_id_of, running
from spark_rankeval.jobs.tracking import track
from spark_rankeval.metrics.group_rates import GroupShare
from spark_rankeval.metrics.naming import NamedMetrics, parse_metrics
from spark_rankeval.records.selection import headline_keys
from spark_rankeval.records.side_by_side import MapRow
from spark_rankeval.records.slices import has_item_group
from spark_rankeval.records.stored import row_of
from spark_rankeval.records.summary import SummaryRow
from spark_rankeval.records.table_columns import GATES as GATE_COLUMNS
from spark_rankeval.records.table_columns import RUN_ID
from spark_rankeval.request.call import POPULARITY, UNUSABLE_FACTS, Facts, attributes_in
from spark_rankeval.run_history.gates import GateOutcome, failed, render_gates
from spark_rankeval.spark.catalog import schema_of
from spark_rankeval.spark.per_user import PerUserSchema, without_standards
from spark_rankeval.spark.scoring import Scoring
from spark_rankeval.spark.sql import column
from spark_rankeval.splits import SplitCounts

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    Tables = Mapping[str, DataFrame]


# A map of dialects knows one model, and no facts of users and items.
_MAP_OPTIONS = frozenset(signature(dialect_map).parameters)


def execute(spark: SparkSession, config: EvaluateConfig, log: EventLog) -> str:
    """Evaluate what the configuration asks for, and return what is printed."""
    return evaluate_tables(spark, config, log)[1]


def track_finished(spark: SparkSession, config: EvaluateConfig, log: EventLog) -> str:
    """Log the finished run of the configuration to MLflow, from its manifest and its table of metrics; nothing is computed."""
    if config.mlflow is None:
        msg = "there is no section [mlflow], which says where MLflow keeps runs"
        raise ConfigurationError(msg)
    named = config.output.run_id is not None
    tables = {} if named else read_tables(spark, config.sources(), config.names_of_ids())
    run = Run(spark, "evaluate", config, tables, log, run_id_of(config, tables))
    log.run_id = run.run_id
    manifest = run.finished()
    rows = outputs.read_metrics(spark, config.output).where(column(RUN_ID) == run.run_id).collect()
    track(run, config, [row_of(row.asDict()) for row in rows], manifest)
    return f"run {run.run_id} logged to MLflow"


def evaluate_tables(spark: SparkSession, config: EvaluateConfig, log: EventLog | None = None) -> tuple[Result, str]:
    """Read, evaluate once, and write what the configuration asks for; returns the result, and what is printed.

    Bad rows publish nothing. If gates or MLflow fail, everything was written, and the error has what is printed.
    """
    log = EventLog("evaluate") if log is None else log
    tables = read_tables(spark, config.sources(), config.names_of_ids())
    frames = _frames(config, tables)
    users = without_standards(frames[outputs.PER_USER])
    with running(spark, "evaluate", config, tables, log) as run:
        outputs.prepare_catalog(spark, config.output, _schemas(config, users, frames))
        counts = _split_counts(config, run)
        result = _write_users(run, config)
        if outputs.QUARANTINE in frames:
            with run.staged(frames[outputs.QUARANTINE], outputs.QUARANTINE) as table:
                run.write(table, outputs.QUARANTINE, is_empty=table.isEmpty())
        run.write(outputs.metrics_table(spark, result, run.started).coalesce(1), outputs.METRICS)
        audited = audit_tables(config, tables)
        outcomes = [*outcomes_of_audit(config, audited), *outcomes_of(run, config.gate_rules(), result)]
        write_gates(run, outcomes)
        if audited is not None:
            run.log.tell("audit", leaked=audited.leaked, verdict=audited.verdict)
        stored = outputs.rows_of_users(spark, config.output, run.run_id, users.schema)
        result = replace(result, _table=lambda: stored)
        evaluated = _Evaluated(run, config, result, outcomes, audited, counts, users.schema)
        write_report(run, evaluated.write_page)
        manifest = evaluated.manifest()
        run.publish(manifest)
        unmet, lost = failed(outcomes), ""
        if config.mlflow is not None:
            run.check_fence()
            lost = _tracked(run, config, result, manifest)
        if unmet:
            # A gate that failed is what the user needs to know first.
            raise GateError("; ".join(unmet + ([f"tracking failed too: {lost}"] if lost else [])), evaluated.text())
    if lost:
        raise TrackingError(lost, evaluated.text())
    return result, evaluated.text()


def _tracked(run: Run, config: EvaluateConfig, result: Result, manifest: Mapping[str, Any]) -> str:
    """Log the run to MLflow; says why that failed, which makes no run a failure."""
    try:
        track(run, config, result.summary, manifest)
    except TrackingError as error:
        run.log.tell("tracking failed", error=str(error))
        return str(error)
    return ""


def _schemas(config: EvaluateConfig, users: DataFrame, frames: Tables) -> dict[str, T.StructType]:
    """The columns of the tables that a run writes."""
    schemas = {outputs.PER_USER: users.schema, outputs.METRICS: outputs.metrics_schema()}
    if outputs.QUARANTINE in frames:
        schemas[outputs.QUARANTINE] = frames[outputs.QUARANTINE].schema
    if config.gates or (config.audit is not None and config.audit.limits):
        schemas[outputs.GATES] = schema_of(GATE_COLUMNS.columns)
    return schemas


def _split_counts(config: EvaluateConfig, run: Run) -> SplitCounts | None:
    """The sizes of the split that makes the labels; None if there is none. A split that leaves no user is refused."""
    if config.split is None:
        return None
    counts = config.split.checked(run.tables, config.columns, config.evaluation.on_invalid)
    run.log.tell("split", counts=asdict(counts))
    return counts


def _arguments(config: EvaluateConfig, tables: Tables) -> dict[str, Any]:
    """The tables of the call, and their columns; chunks become documents."""
    arguments = {**config.arguments(tables), **config.columns.options()}
    document, grades = config.columns.roll_up, config.scoring()["relevance"]
    if document is None:
        return arguments
    about: dict[str, Any] = {"document": document, "user": config.columns.user, "k_counts": config.evaluation.k_counts}
    predictions, labels = arguments["predictions"], arguments["labels"]
    of_lists = about | {name: arguments[name] for name in ("score", "rank", "model", "cost")}
    if labels is None:
        of_lists["relevance"] = grades
    else:
        arguments["labels"] = roll_up(labels, relevance=grades, **about)
    arguments["predictions"] = (
        {name: roll_up(table, **of_lists) for name, table in predictions.items()}
        if isinstance(predictions, Mapping)
        else roll_up(predictions, **of_lists)
    )
    return arguments


def _call(config: EvaluateConfig, tables: Tables) -> dict[str, Any]:
    """The arguments of `score_users`: metrics of all lists together are another matter."""
    options = config.evaluation
    about_items = {"item_by": options.item_by, "popularity_groups": options.popularity_groups}
    arguments = {**_arguments(config, tables), **about_items}
    facts = Facts(**{fact.name: arguments.pop(fact.name) for fact in fields(Facts) if fact.name in arguments})
    call = {**arguments, **config.scoring(), "facts": facts, "metrics": parted(config.evaluation.metrics)[0]}
    if config.evaluation.model:
        call["predictions"] = {config.evaluation.model: call["predictions"]}
    return call


def _frames(config: EvaluateConfig, tables: Tables) -> dict[str, DataFrame]:
    """Lazy tables with the columns of those that a run writes, of users and of rejected rows; making them runs no job."""
    call, options = _call(config, tables), config.evaluation
    frames = {outputs.PER_USER: scoring_to_describe(**call).per_user()}
    check_memory(frames[outputs.PER_USER], options.summary())
    if options.on_invalid == "quarantine" or parted(options.metrics)[1]:
        # The table of rejected rows knows all metrics, so that what those of all lists together lack is found here.
        frames[outputs.QUARANTINE] = quarantine(**{**call, "metrics": options.metrics})
    if options.on_invalid != "quarantine":
        frames.pop(outputs.QUARANTINE, None)
    for name, frame in frames.items():
        outputs.check_columns(name, frame)
    return frames


def _write_users(run: Run, config: EvaluateConfig) -> Result:
    """Write every user's values, and give the result; one action computes both from the tables."""
    call = _call(config, run.tables)
    user_metrics, other_metrics = parted(config.evaluation.metrics)
    scoring = scoring_to_describe(**call)
    if other_metrics or call["facts"].item_groups is not None:
        # Metrics of users come first, so that their columns have the same names as without the others.
        ordered = NamedMetrics({**user_metrics, **other_metrics}, user_metrics.spelled)
        whole = scoring_to_describe(**{**call, "metrics": ordered}, users_alone=False)
        result = _write_whole(run, config, call, scoring, whole)
    else:
        with run.staged(scoring.sampled().per_user(), outputs.PER_USER) as table:
            result = _summary(table, config, call, scoring)
            run.write(without_standards(table), outputs.PER_USER, is_empty=table.isEmpty())
    if result.notes:
        run.log.tell("notes", notes=result.notes)
    return result


def _write_whole(run: Run, config: EvaluateConfig, call: Mapping[str, Any], scoring: Scoring, whole: Scoring) -> Result:
    """Write every user's values, and give the result with figures of all lists together or of groups of items, which `whole` has."""
    summary = config.evaluation.summary()
    with run.staged(whole.sampled().with_rows(summary), outputs.PER_USER) as stored:
        whole = replace(whole, stored=stored)
        others = result_of(whole, summary)
        table = whole.per_user().select(*map(column, scoring.schema.marks()))
        result = _with_all_lists(config, _summary(table, config, call, scoring), others)
        run.write(without_standards(table), outputs.PER_USER, is_empty=table.isEmpty())
    return result


def _summary(table: DataFrame, config: EvaluateConfig, call: Mapping[str, Any], scoring: Scoring) -> Result:
    try:
        return summary_of(table, config.evaluation.summary(), evaluation=scoring)
    except DataError as error:
        if UNUSABLE_FACTS in error.counts:
            # The table has one number for all kinds, and the error needs that of each.
            evaluate(**call)
        raise


def _with_all_lists(config: EvaluateConfig, result: Result, others: Result) -> Result:
    """The result with the metrics of all lists together and the groups of items, which no table of users can give."""
    labels, other_metrics = list(parse_metrics(config.evaluation.metrics)), parted(config.evaluation.metrics)[1]
    blocks: dict[tuple[str, str, str], list[SummaryRow]] = {}
    other_rows = [row for row in others.summary if row.metric in other_metrics or has_item_group(row.slice)]
    for row in (*result.summary, *other_rows):
        blocks.setdefault((row.model, row.slice, row.relevance), []).append(row)
    summary = tuple(row for rows in blocks.values() for row in sorted(rows, key=lambda row: labels.index(row.metric)))
    return replace(result, summary=summary, item_groups=others.item_groups)


@dataclass(frozen=True)
class _Evaluated:
    """What a run has computed: its result, the outcomes of its gates, its audit, and the counts of its split."""

    run: Run
    config: EvaluateConfig
    result: Result
    outcomes: list[GateOutcome]
    audited: Audit | None
    counts: SplitCounts | None
    users: T.StructType

    @cached_property
    def facts(self) -> dict[str, Any]:
        facts = {"plan": list(self.result.plan), **self.result.to_dict(), **facts_of_gates(self.outcomes)}
        if self.counts is not None:
            facts["split"] = asdict(self.counts)
        if self.audited is not None:
            facts["audit"] = self.audited.to_dict()
        return facts

    def manifest(self) -> dict[str, Any]:
        facts = self.facts
        if self.config.output.catalog is not None:
            facts = {**facts, outputs.USER_COLUMNS: self.users.jsonValue()}
        return self.run.manifest(facts, self.config.evaluation.seed)

    def write_page(self, path: Path) -> None:
        config, rows = self.config, tuple[MapRow, ...]()
        facts, names = about_the_run(self.manifest()), {row.key: row.name for row in self.result.summary}
        facts["columns"] = {names[key]: column for key, column in self.result.columns.items()}
        if config.report.dialects:
            arguments = _arguments(config, self.run.tables)
            rows = dialect_map(
                **{name: value for name, value in arguments.items() if name in _MAP_OPTIONS},
                metrics=config.evaluation.metrics,
                relevance_threshold=config.evaluation.relevance_threshold,
                on_invalid=config.evaluation.on_invalid,
                dialects=None if config.report.dialects == "all" else config.report.dialects,
            ).rows
        self.result.report(
            path,
            title=config.report.title,
            distributions=config.report.distributions,
            gates=self.outcomes,
            audit=self.audited,
            dialects=rows,
            manifest=facts,
        )

    def text(self) -> str:
        """What is printed: the gates first, then the verdict of the audit and the sizes of the split."""
        result, printed = self.result, self.config.output.printed
        figures = _table(result) if printed == "table" else result.to_trec(per_query=printed == "trec_queries")
        parts = [
            render_gates(self.outcomes) if self.outcomes else "",
            f"audit\n{self.audited.verdict}" if self.audited is not None else "",
            f"split\n{self.counts}" if self.counts is not None else "",
            figures,
            self.config.written(self.run.run_id, (*self.run.written, outputs.MANIFESTS)),
        ]
        return "\n\n".join(filter(None, parts))


def _table(result: Result) -> str:
    """The result as it shows itself, but of curves the usual points alone."""
    total_rows = [row for row in result.summary if row.slice == "all"]
    keys = set(headline_keys(total_rows))
    text = replace(result, summary=tuple(row for row in result.summary if row.key in keys)).to_text()
    n_more = len({row.key for row in total_rows} - keys)
    if n_more:
        text += f"\n\n{n_more:,} more metrics, as points of curves, are in the table metrics"
    return text


def plan(spark: SparkSession, config: EvaluateConfig) -> str:
    """What a run would do; nothing is computed."""
    outputs.check_committer(spark)
    tables = read_tables(spark, config.sources(), config.names_of_ids())
    frames = _frames(config, tables)
    schema = PerUserSchema.read(frames[outputs.PER_USER])
    metrics = [(metric.asked or metric.label, metric.definition) for metric in schema.metrics]
    other_metrics = parted(config.evaluation.metrics)[1]
    for label, metric in other_metrics.items():
        scope = "groups of items" if isinstance(metric, GroupShare) else "all lists together"
        metrics.append((other_metrics.spelled.get(label, label), f"of {scope}"))
    parts: list[Part] = [(f"metrics, dialect '{schema.settings.dialect}'", folded(list(dict(metrics).items())))]
    if config.split is not None:
        split_tables = config.split.tables(tables, config.columns)
        columns = [
            (name, ", ".join(f"{column} {kind}" for column, kind in split_tables[name].dtypes)) for name in split_tables
        ]
        parts.append((f"split of the log: {config.split.rule}", columns))
    if config.evaluation.by:
        totals = "with totals" if config.evaluation.totals else ""
        parts.append(("slices by", [(name, totals) for name in attributes_in(config.evaluation.by)]))
    parts += _groups_of_items(config)
    if config.audit is not None:
        parts.append(("audit", checks_to_make(config, tables)))
    written = [*frames, outputs.METRICS]
    if config.gates or (config.audit is not None and config.audit.limits):
        written.append(outputs.GATES)
    return planned(config, tables, parts, written)


def _groups_of_items(config: EvaluateConfig) -> list[Part]:
    """What a dry run says of the groups of items that have figures."""
    options = config.evaluation
    groups = [(name, "a column of [items]") for name in attributes_in(options.item_by)]
    if options.popularity_groups is not None:
        groups.append((POPULARITY, f"{options.popularity_groups} groups of the items of [training]"))
    return [("groups of items", groups)] if groups else []
