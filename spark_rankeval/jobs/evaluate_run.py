"""One run of the job that evaluates: its tables, its gates and their history, and its audit."""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial, reduce
from inspect import signature
from operator import and_
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.errors import ConfigurationError, GateError, TrackingError
from spark_rankeval.evaluation.audit import Audit, audit, read_audited
from spark_rankeval.evaluation.dialect_map import dialect_map
from spark_rankeval.evaluation.evaluate import prepare, result_of
from spark_rankeval.evaluation.input_tables import roll_up
from spark_rankeval.evaluation.result import Result
from spark_rankeval.jobs import outputs
from spark_rankeval.jobs.config import EventLog, redacted
from spark_rankeval.jobs.evaluate import AuditSettings, EvaluateConfig, Tracking, is_of_users
from spark_rankeval.metrics.naming import parse_metrics
from spark_rankeval.records.columns import RUN_ID, TIME
from spark_rankeval.records.quality import CHECKS
from spark_rankeval.records.stored import fingerprints_of, qualities_in, row_of
from spark_rankeval.records.summary import METRICS as METRIC_COLUMNS
from spark_rankeval.records.summary import SummaryRow
from spark_rankeval.records.tables_of_means import MapRow, headline_keys
from spark_rankeval.request.call import POPULARITY, Facts, ScoringOptions, attributes_in
from spark_rankeval.run_history import gates
from spark_rankeval.run_history.history import date_of_run
from spark_rankeval.spark.catalog import on_this_disk, read_while_others_write, schema_of, table_of
from spark_rankeval.spark.per_user import PerUserSchema, without_standards
from spark_rankeval.spark.scoring import Scoring
from spark_rankeval.spark.sql import column
from spark_rankeval.splits import SplitCounts
from spark_rankeval.tracking import mlflow

if TYPE_CHECKING:
    from pathlib import Path

    from mlflow import MlflowClient
    from pyspark.sql import DataFrame, SparkSession

    Tables = Mapping[str, DataFrame]


# Rows of two runs that agree in these columns are the same figure; for an end of an interval also in the last three.
_FIGURE = ("model", "slice", "metric", "relevance", "definition", "dialect", "user_weight")
_SAME = (*_FIGURE, "interval_method", "interval_level", "cluster")
# Columns that no gate compares, and that take long to read.
_NOT_COMPARED = ("quantiles", "moments")
_EPOCH = datetime.fromtimestamp(0, UTC)


def outcomes_of(run: outputs.Run, rules: Sequence[gates.GateRule], result: Result) -> list[gates.GateOutcome]:
    """Whether a run meets its gates; it is not yet among the earlier runs."""
    earlier: list[tuple[str, SummaryRow]] = []
    wanted, tables = gates.rows_to_compare(rules, result.summary), (outputs.MANIFESTS, outputs.METRICS)
    if wanted and all(outputs.has_table(run.spark, run.config.output, table) for table in tables):
        earlier = read_while_others_write(partial(_look_back, run, wanted))
    return gates.check_gates(rules, result.summary, earlier)


def _look_back(
    run: outputs.Run, wanted: Mapping[str, Sequence[SummaryRow]], missing_ok: bool
) -> list[tuple[str, SummaryRow]]:
    """The last row of each figure that a gate looks back at, of earlier runs that failed no gate, the newest run first.

    Runs come in the order of the dates in their ids, so that a night that is evaluated later has its place among the others.
    """
    manifests = outputs.run_facts(
        run.spark, run.config.output, (RUN_ID, "started", "gates_failed"), missing_ok=missing_ok
    )
    good = {
        other[RUN_ID]: datetime.fromisoformat(other["started"])
        for other in manifests
        if other[RUN_ID] not in (None, run.run_id) and other["started"] and other["gates_failed"] in (None, "0")
    }
    places = {name: _place_of(name, time, run.run_id) for name, time in good.items()}
    own_places = [_place_of(run.run_id, run.started, other) for other in (run.run_id, "")]
    newest_first = sorted(places, key=places.__getitem__, reverse=True)
    times = {name: good[name] for name in newest_first if places[name] < own_places[not places[name][0]]}
    if not times:
        return []
    table = outputs.read_metrics(run.spark, run.config.output, missing_ok=missing_ok)
    earlier = [
        found
        for figure, rows in wanted.items()
        for found in _rows_of_runs(table, times, gates.ATTRIBUTES[figure], rows)
    ]
    return sorted(earlier, key=lambda row: places[row[0]], reverse=True)


def _place_of(name: str, started: datetime, other: str) -> tuple[bool, datetime, datetime]:
    """Where a run stands among others: by the dates in the ids if both have one, else after these and by when it began."""
    date = date_of_run(name) if date_of_run(other) else None
    return date is not None, date or started, started


def _rows_of_runs(
    table: DataFrame, runs: Mapping[str, datetime], attribute: str, rows: Sequence[SummaryRow]
) -> list[tuple[str, SummaryRow]]:
    """The rows of the same figures as some rows in the table of metrics, with their runs; of each figure the first run's.

    Only these runs count, if they began at these times. The attribute is the figure that must be finite.
    """
    began = F.concat_ws(" ", RUN_ID, F.unix_micros(TIME).cast("string"))
    row_conditions = [F.col(name).isin(sorted({getattr(row, name) for row in rows})) for name in _FIGURE]
    conditions = [
        F.col(RUN_ID).isin(list(runs)),
        *row_conditions,
        began.isin([f"{name} {(time - _EPOCH) // timedelta(microseconds=1)}" for name, time in runs.items()]),
        F.abs(attribute) < math.inf,
    ]
    needed = [name for name in METRIC_COLUMNS.names if name not in (*_SAME, *_NOT_COMPARED, TIME)]
    chosen = table.where(reduce(and_, conditions)).select(*_SAME, RUN_ID, *needed)
    place = F.coalesce(*(F.when(F.col(RUN_ID) == name, place) for place, name in enumerate(runs)))
    last = F.min_by(F.struct(RUN_ID, *needed), place).alias("last")
    newest = chosen.groupBy(*_SAME).agg(last).select(*_SAME, "last.*")
    return [(record[RUN_ID], row_of(record.asDict())) for record in newest.collect()]


def write_gates(run: outputs.Run, outcomes: Sequence[gates.GateOutcome]) -> None:
    """Write outcomes, if there are any, as a table with one row per condition, model and slice, and log an event for each."""
    if not outcomes:
        return
    plain = [outcome.as_json() for outcome in outcomes]
    records = ({**outcome, TIME: run.started} for outcome in plain)
    run.write(table_of(records, gates.GATES, run.spark).coalesce(1), outputs.GATES)
    for outcome in plain:
        facts = {name: outcome[name] for name in ("rule", "on", "passed", "value", "limit")}
        run.log.tell("gate", gate=outcome["name"], **facts)


def audit_tables(config: EvaluateConfig, settings: AuditSettings, tables: Tables) -> Audit:
    """The audit of a run."""
    # An evaluation reads no times, and not all of training. So rows that it can use may be bad rows of the audit.
    on_invalid = config.evaluation.on_invalid
    return audit(
        **_tables_of(config, settings, tables), on_invalid="drop" if on_invalid == "quarantine" else on_invalid
    )


def checks_to_make(config: EvaluateConfig, settings: AuditSettings, tables: Tables) -> list[tuple[str, str]]:
    """The checks of a run by name, and why some cannot be made; tables that cannot be audited are refused."""
    inputs = read_audited(**_tables_of(config, settings, tables))
    reasons = {check.name: inputs.why_not(check.needs) for check in CHECKS}
    return [(name, f"not made: {reason}" if reason else "") for name, reason in reasons.items()]


def outcomes_of_audit(limits: Mapping[str, float], audited: Audit) -> list[gates.GateOutcome]:
    """Whether the audit keeps limits by check."""
    return [
        gates.GateOutcome(
            **vars(gate),
            metric=f"audit.{name}",
            model="",
            slice="all",
            on="share",
            rule="max",
            value=audited[name].share,
            limit=float(limit),
            earlier="",
        )
        for (name, limit), gate in zip(limits.items(), audited.check(limits), strict=True)
    ]


def _tables_of(config: EvaluateConfig, settings: AuditSettings, tables: Tables) -> dict[str, Any]:
    """The arguments of `audit`, except `on_invalid`. Vectors are no lists, so a run of them audits training and labels."""
    columns, arguments = config.columns, config.arguments(tables)
    return {
        "training": arguments["training"],
        "labels": arguments["labels"],
        "predictions": tables.get("predictions"),
        "items": tables.get("items"),
        "time": settings.time,
        "user": columns.user,
        "item": columns.item,
        "model": columns.model,
    }


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
    tables = {} if named else outputs.read_tables(spark, config.sources(), config.names_of_ids())
    run = outputs.Run(spark, "evaluate", config, tables, log, outputs.run_id_of(config, tables))
    log.run_id = run.run_id
    manifest = run.finished()
    rows = outputs.read_metrics(spark, config.output).where(column(RUN_ID) == run.run_id).collect()
    TrackedRun(run, config, config.mlflow, [row_of(row.asDict()) for row in rows], manifest).track()
    return f"run {run.run_id} logged to MLflow"


def evaluate_tables(spark: SparkSession, config: EvaluateConfig, log: EventLog | None = None) -> tuple[Result, str]:
    """Read, evaluate once, and write what the configuration asks for; returns the result, and what is printed.

    Bad rows publish nothing. If gates or MLflow fail, everything was written, and the error has what is printed.
    """
    log = EventLog("evaluate") if log is None else log
    tables = outputs.read_tables(spark, config.sources(), config.names_of_ids())
    scoring = _scoring(config, tables)
    frames = _frames(config, scoring)
    users = frames[outputs.PER_USER]
    with outputs.running(spark, "evaluate", config, tables, log) as run:
        outputs.prepare_catalog(spark, config.output, _schemas(config, frames))
        counts = _split_counts(config, run)
        result = _write_users(run, config, scoring)
        if outputs.QUARANTINE in frames:
            with run.staged(frames[outputs.QUARANTINE], outputs.QUARANTINE) as table:
                run.write(table, outputs.QUARANTINE)
        run.write(result.to_stored(run.started, spark).coalesce(1), outputs.METRICS)
        audited, outcomes = None, outcomes_of(run, [*config.gates.values()], result)
        if config.audit is not None:
            audited = audit_tables(config, config.audit, tables)
            run.log.tell("audit", leaked=audited.leaked, verdict=audited.verdict)
            outcomes = [*outcomes_of_audit(config.audit.limits, audited), *outcomes]
        write_gates(run, outcomes)
        stored = outputs.rows_of_users(spark, config.output, run.run_id, users.schema)
        result = replace(result, _table=lambda: stored)
        evaluated = _Evaluated(run, config, result, outcomes, audited, counts, users.schema)
        outputs.write_report(run, evaluated.write_page)
        manifest = evaluated.manifest()
        run.publish(manifest)
        unmet, lost = gates.failed(outcomes), ""
        if config.mlflow is not None:
            try:
                TrackedRun(run, config, config.mlflow, result.summary, manifest).track()
            # It makes no run a failure.
            except TrackingError as error:
                lost = str(error)
                run.log.tell("tracking failed", error=lost)
        if unmet:
            # A gate that failed is what the user needs to know first.
            raise GateError("; ".join(unmet + ([f"tracking failed too: {lost}"] if lost else [])), evaluated.text())
    if lost:
        raise TrackingError(lost, evaluated.text())
    return result, evaluated.text()


#: A server that is away costs three minutes and not twenty: the run can be logged later. What MLflow prints is not the job's result.
_SETTINGS_OF_MLFLOW = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "5",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
_RUN_TAG, _OUTPUT_TAG = "spark_rankeval.run_id", "spark_rankeval.output"
# The longest value of a tag.
_LONGEST_TAG = 5000


@dataclass(frozen=True)
class TrackedRun:
    """A run that has written all its tables, with its rows and its manifest, for the section [mlflow] of its configuration."""

    run: outputs.Run
    config: EvaluateConfig
    tracking: Tracking
    summary: Sequence[SummaryRow]
    manifest: Mapping[str, Any]

    def track(self) -> None:
        """Log the run to MLflow. What MLflow has of an earlier run of this name and output folder is then deleted there.

        Raises:
            TrackingError: MLflow did not take all of the run.
        """
        place = self.tracking.place
        added = {name: value for name, value in _SETTINGS_OF_MLFLOW.items() if name not in os.environ}
        os.environ.update(added)
        try:
            from mlflow import MlflowClient  # noqa: PLC0415 # of an extra, for which the configuration has looked

            if "MLFLOW_LOGGING_LEVEL" not in os.environ:
                # A job's stderr has warnings and errors alone.
                logging.getLogger("mlflow").setLevel(logging.WARNING)
            client = MlflowClient(tracking_uri=self.tracking.tracking_uri)
            place = client.tracking_uri
            self.log(client)
        # What can fail is the store's to choose: a server, a database, a folder.
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            msg = (
                f"the tables and the manifest of run {self.run.run_id} are complete, but MLflow at {place} did not take all of the run: "
                f"{reason}; start the job again with --only-mlflow to log the run later"
            )
            raise TrackingError(self.config.redacted(msg)) from error
        finally:
            for name in added:
                os.environ.pop(name, None)

    def log(self, client: MlflowClient) -> None:
        """Log figures as metrics, definitions as parameters, tables as datasets, and manifest and report as files.

        One model is one run. Several are nested runs of one that has the first metric of each, so that MLflow's tables and charts set
        them side by side.
        """
        summary, title = self.summary, self.tracking.run_name or self.run.run_id
        # What cannot be read leaves no run in MLflow that is still running.
        report = outputs.report_text(self.run, self.manifest)
        models = list(dict.fromkeys(row.model for row in summary))
        experiment, qualities = self._experiment(client, models), qualities_in(self.manifest, summary)
        earlier = [
            each.info.run_id
            for each in client.search_runs([experiment], f"tags.`{_RUN_TAG}` = '{self.run.run_id}'")
            if each.data.tags.get(_OUTPUT_TAG) == self._tags[_OUTPUT_TAG]
        ]
        state = "FAILED" if self.manifest.get("gates_failed", 0) > 0 else "FINISHED"
        names = mlflow.names_of(summary, self.manifest.get("columns", {}), mlflow.slash_of(client.tracking_uri))
        log_rows = partial(self._log_rows, client, experiment, names)
        if len(models) == 1:
            parent = log_rows(title, summary, mlflow.figures_of(summary, qualities.get(models[0])))
        else:
            first = [row for row in summary if (row.key, row.slice) == (summary[0].key, "all")]
            parent = log_rows(title, first, {(row.key, mlflow.MODEL, row.model): row.mean for row in first})
            for model in models:
                rows = [row for row in summary if row.model == model]
                longest = mlflow.LONGEST_NAME
                short = model if len(model) <= longest else f"{model[:longest]}-{mlflow.hash_of([model])}"
                nested = {"mlflow.parentRunId": parent, "model": model[:_LONGEST_TAG]}
                child = log_rows(short, rows, mlflow.figures_of(rows, qualities.get(model)), nested)
                client.set_terminated(child, state)
        client.log_text(parent, json.dumps(self.manifest, indent=2, ensure_ascii=False, default=str), "manifest.json")
        if report is not None:
            client.log_text(parent, report, "report.html")
        client.set_terminated(parent, state)
        for run_id in earlier:
            client.delete_run(run_id)

    def _experiment(self, client: MlflowClient, models: Collection[str]) -> str:
        """MLflow's id of the experiment, which is made if it is not there."""
        ids = self.tracking.model_id
        if unknown := [name for name in sorted(ids) if name not in models] if isinstance(ids, Mapping) else []:
            msg = f"mlflow.model_id: the run has no model {unknown[0]!r}; it has: {', '.join(map(repr, models))}"
            raise ConfigurationError(msg)
        experiment = client.get_experiment_by_name(self.tracking.experiment)
        if experiment is None:
            return str(client.create_experiment(self.tracking.experiment))
        if experiment.lifecycle_stage == "deleted":
            msg = f"the experiment {self.tracking.experiment!r} is deleted there; restore it, or name another"
            raise ConfigurationError(msg)
        return str(experiment.experiment_id)

    @cached_property
    def _tags(self) -> dict[str, str]:
        # The folders of two projects may have one relative path.
        folder = str(on_this_disk(self.run.output).absolute()) if self.run.is_on_disk else self.run.output
        judged = self.config.evaluation.judged
        judges = {} if judged is None else {"spark_rankeval.human": judged.human, "spark_rankeval.judge": judged.judge}
        return {_RUN_TAG: self.run.run_id, _OUTPUT_TAG: redacted(folder)[:_LONGEST_TAG], **judges}

    def _log_rows(
        self,
        client: MlflowClient,
        experiment: str,
        names: Mapping[mlflow.Figure, str],
        title: str,
        rows: Sequence[SummaryRow],
        figures: Mapping[mlflow.Figure, float],
        more_tags: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        """Log figures as a new run, and what they mean, which the rows say; gives MLflow's id of it."""
        models, fingerprints = {row.model for row in rows}, fingerprints_of(rows)
        model, ids = models.pop() if len(models) == 1 else "", self.tracking.model_id
        start = int(1000 * datetime.fromisoformat(self.manifest["started"]).timestamp())
        run_id = str(client.create_run(experiment, start, {**self._tags, **more_tags}, title).info.run_id)
        first_slices = {row.key: row.slice for row in reversed(rows)}
        params = {f"definition.{names[row.key, first_slices[row.key], '']}": row.definition for row in rows}
        options = self.config.evaluation
        params |= {"dialect": rows[0].dialect, "model": model, "cluster": rows[0].cluster, "ci": options.ci}
        mlflow.log_figures(
            client,
            run_id,
            {names[figure]: value for figure, value in figures.items()},
            fingerprints,
            time=start,
            params={**params, "user_weight": options.user_weight or ""},
            model_id=ids.get(model) if isinstance(ids, Mapping) else ids,
            sources=self._sources(model, fingerprints),
        )
        return run_id

    def _sources(self, model: str, datasets: Iterable[str]) -> dict[str, str]:
        """Where the tables of datasets are, as MLflow describes sources of Spark, without secrets; a database has no place."""
        config = self.config
        places = {name: [source] for name, source in config.sources().items()}
        if config.split is not None:
            places = {"labels": places["split.log"], "exclude": places["split.log"], **places}
        if config.vectors is not None:
            places["predictions"] = [*config.vectors.sources("").values()]
        places |= {f"predictions of {name}": [*each.sources("").values()] for name, each in config.models.items()}
        described = {}
        for name in datasets:
            # Several models may be in one table.
            found = places.get(f"{name} of {model}") or places.get(name) or places.get(name.partition(" of ")[0], [])
            tables = [source.table for source in found if source.table is not None]
            if where := tables or [path for source in found for path in source.paths]:
                described[name] = json.dumps({"table_name" if tables else "path": config.redacted(", ".join(where))})
        return described


def _schemas(config: EvaluateConfig, frames: Tables) -> dict[str, T.StructType]:
    """The columns of the tables that a run writes."""
    schemas = {name: frame.schema for name, frame in frames.items()}
    schemas[outputs.METRICS] = schema_of(METRIC_COLUMNS.columns)
    if config.gates or (config.audit is not None and config.audit.limits):
        schemas[outputs.GATES] = schema_of(gates.GATES.columns)
    return schemas


def _split_counts(config: EvaluateConfig, run: outputs.Run) -> SplitCounts | None:
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


def _scoring(config: EvaluateConfig, tables: Tables) -> Scoring:
    """What is computed of the tables. Making it runs no job, but for one that reads the names in a column of models."""
    options = config.evaluation
    about_items = {"item_by": options.item_by, "popularity_groups": options.popularity_groups}
    arguments = {**_arguments(config, tables), **about_items, **config.scoring()}
    facts = Facts(**{fact.name: arguments.pop(fact.name) for fact in fields(Facts) if fact.name in arguments})
    predictions, labels = arguments.pop("predictions"), arguments.pop("labels")
    if options.model:
        predictions = {options.model: predictions}
    return prepare(predictions, labels, options.metrics, ScoringOptions(**arguments, facts=facts)).with_notes()


def _frames(config: EvaluateConfig, scoring: Scoring) -> dict[str, DataFrame]:
    """Lazy tables with the columns of those that a run writes, of users and of rejected rows; making them runs no job."""
    scoring.check_memory(config.evaluation.summary())
    frames = {outputs.PER_USER: _users_of(scoring)}
    if config.evaluation.on_invalid == "quarantine":
        frames[outputs.QUARANTINE] = scoring.quarantine().frame()
    for name, frame in frames.items():
        outputs.check_columns(name, frame)
    return frames


def _write_users(run: outputs.Run, config: EvaluateConfig, scoring: Scoring) -> Result:
    """Write every user's values, and give the result; one action computes both from the tables."""
    summary, scoring = config.evaluation.summary(), scoring.sampled()
    with run.staged(scoring.with_rows(summary), outputs.PER_USER) as stored:
        scoring = replace(scoring, stored=stored)
        result, table = result_of(scoring, summary), _users_of(scoring)
        run.write(table, outputs.PER_USER)
    if result.notes:
        run.log.tell("notes", notes=result.notes)
    return replace(result, columns={key: name for key, name in result.columns.items() if name in table.columns})


def _users_of(scoring: Scoring) -> DataFrame:
    """The table of users that a run writes: no user has a share of a group of items."""
    users, reading = without_standards(scoring.per_user()), scoring.reading
    values = zip(reading.values, reading.columns, strict=False)
    shares = {name for value, name in values if not is_of_users(value.metric)}
    return users.select(*(column(name) for name in users.columns if name not in shares))


@dataclass(frozen=True)
class _Evaluated:
    """What a run has computed: its result, the outcomes of its gates, its audit, and the counts of its split."""

    run: outputs.Run
    config: EvaluateConfig
    result: Result
    outcomes: list[gates.GateOutcome]
    audited: Audit | None
    counts: SplitCounts | None
    users: T.StructType

    def manifest(self) -> dict[str, Any]:
        facts = {"plan": list(self.result.plan), **self.result.to_dict()}
        if self.outcomes:
            facts["gates"] = [outcome.as_json() for outcome in self.outcomes]
            facts["gates_failed"] = sum(not outcome.passed for outcome in self.outcomes)
        if self.counts is not None:
            facts["split"] = asdict(self.counts)
        if self.audited is not None:
            facts["audit"] = self.audited.to_dict()
        if self.config.output.catalog is not None:
            facts[outputs.USER_COLUMNS] = self.users.jsonValue()
        return self.run.manifest(facts, self.config.evaluation.seed)

    def write_page(self, path: Path) -> None:
        config, rows = self.config, tuple[MapRow, ...]()
        facts, names = outputs.about_the_run(self.manifest()), {row.key: row.name for row in self.result.summary}
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
            gates.render_gates(self.outcomes) if self.outcomes else "",
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
    tables = outputs.read_tables(spark, config.sources(), config.names_of_ids())
    frames = _frames(config, _scoring(config, tables))
    schema = PerUserSchema.read(frames[outputs.PER_USER])
    metrics = [(metric.asked or metric.label, metric.definition) for metric in schema.metrics]
    all_metrics = parse_metrics(config.evaluation.metrics)
    for label, metric in all_metrics.items():
        if not is_of_users(metric):
            scope = "all lists together" if metric.corpus_level else "groups of items"
            metrics.append((all_metrics.spelled.get(label, label), f"of {scope}"))
    parts: list[outputs.Part] = [
        (f"metrics, dialect '{schema.settings.dialect}'", outputs.folded(list(dict(metrics).items())))
    ]
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
        parts.append(("audit", checks_to_make(config, config.audit, tables)))
    return outputs.planned(config, tables, parts, [*_schemas(config, frames)])


def _groups_of_items(config: EvaluateConfig) -> list[outputs.Part]:
    """What a dry run says of the groups of items that have figures."""
    options = config.evaluation
    groups = [(name, "a column of [items]") for name in attributes_in(options.item_by)]
    if options.popularity_groups is not None:
        groups.append((POPULARITY, f"{options.popularity_groups} groups of the items of [training]"))
    return [("groups of items", groups)] if groups else []
