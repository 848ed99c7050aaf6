"""The configuration and the command of the job that evaluates tables: its sections, and what must agree between them."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from spark_rankeval.checks import check_extra
from spark_rankeval.dialects import find_dialect
from spark_rankeval.errors import ConfigurationError, InputError, OptionError
from spark_rankeval.jobs import config
from spark_rankeval.jobs.command import Command, run_as_task
from spark_rankeval.metrics.base import REGISTRY, Metric
from spark_rankeval.metrics.expected_values import EstimatorOption
from spark_rankeval.metrics.item_groups import GroupShare
from spark_rankeval.metrics.naming import NamedMetrics, parse_metrics, reads_as
from spark_rankeval.ranking.batch import NUMBERS
from spark_rankeval.records.quality import check_limits
from spark_rankeval.request import call
from spark_rankeval.run_history.gates import GateRule, check_figures, read_gates
from spark_rankeval.statistics.intervals import BCa, IntervalMethod, Percentile, Student

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_rankeval.splits import Split, SplitCounts


#: The longest name of a run that every store of MLflow takes.
LONGEST_RUN_NAME = 250
_LONGEST_EXPERIMENT = 500


@dataclass(frozen=True)
class LogSplit:
    """Labels and training data that are made of a log, as `spark_rankeval.splits` makes them; the columns are those of [columns].

    Attributes:
        log: the log: a row for each user, item and time.
        cut: the first moment that is not in training, such as "2026-11-01"; labels are of what came after it.
        horizon: how long after the cut labels are collected, such as "7d"; left out, up to the end of the log.
        last_n: how many of the last rows of each user make labels, in the place of cut.
        time: the column of times, of which cut and last_n need one.
        grades: the grade of each event in the column columns.relevance; other events give no label.
        leave_out: labels to leave out: seen (items that the user has in training), cold_users, cold_items (without rows in training).
        exclude_training: whether items that the user has in training are taken out of the predictions before they are ranked.
    """

    log: config.Source
    cut: str | float | None = None
    horizon: str | float | None = None
    last_n: int | None = None
    time: str = "timestamp"
    grades: Mapping[str, float] | None = None
    leave_out: str | tuple[str, ...] = ()
    exclude_training: bool = True

    def __post_init__(self) -> None:
        given = [name for name in ("cut", "last_n") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ConfigurationError(f"needs one of cut, last_n; found {' and '.join(given) or 'none of them'}")
        if self.last_n is not None and self.horizon is not None:
            raise ConfigurationError("horizon does nothing with last_n; leave it out")

    @property
    def rule(self) -> str:
        """The function of `spark_rankeval.splits` that parts the log."""
        return "last_n" if self.cut is None else "by_time"

    def split(self, tables: Mapping[str, DataFrame], columns: call.ColumnOptions) -> Split:
        """The split of the log among tables that were read; lazy, but for a `ConfigurationError` about the columns."""
        from spark_rankeval import splits  # noqa: PLC0415 # it imports pyspark, for which a wrong file does not wait

        if not columns.item:
            msg = "[split] makes labels of items; leave columns.item = false out, or name the column of items"
            raise ConfigurationError(msg)
        log = tables["split.log"]
        options: dict[str, Any] = {
            "user": columns.user,
            # The second of two names is that of labels.
            "item": columns.item if isinstance(columns.item, str) else columns.item[-1],
            "relevance": columns.relevance,
            "grades": self._grades(log, columns),
            "leave_out": self.leave_out,
            "time": self.time,
            **({"n": self.last_n} if self.cut is None else {"cut": self.cut, "horizon": self.horizon}),
        }
        try:
            return splits.last_n(log, **options) if self.cut is None else splits.by_time(log, **options)
        except (OptionError, InputError) as error:
            msg = f"[split] {error}"
            raise ConfigurationError(msg) from error

    def tables(self, tables: Mapping[str, DataFrame], columns: call.ColumnOptions) -> dict[str, DataFrame]:
        """The labels, whose grades are in the column that was named, and the rows before them."""
        split = self.split(tables, columns)
        labels = split.labels
        if isinstance(columns.relevance, str) and self.grades is not None:
            labels = labels.withColumnRenamed("relevance", columns.relevance)
        return {"labels": labels, "training": split.training}

    def checked(self, tables: Mapping[str, DataFrame], columns: call.ColumnOptions, on_invalid: object) -> SplitCounts:
        """The counts of the split, in one action; a `DataError` if it leaves no user, or if bad rows may not be dropped."""
        return self.split(tables, columns).checked_counts("drop" if on_invalid in ("drop", "quarantine") else "error")

    def _grades(self, log: DataFrame, columns: call.ColumnOptions) -> Mapping[Any, float] | None:
        """The grades by event; keys of a file are strings, so those of a column of whole numbers are read as such."""
        kinds = {name.lower(): kind for name, kind in log.dtypes}
        is_whole = kinds.get(str(columns.relevance).lower()) in ("tinyint", "smallint", "int", "bigint")
        if self.grades is None or not is_whole:
            return self.grades
        return {int(event) if event.lstrip("-").isdecimal() else event: grade for event, grade in self.grades.items()}


@dataclass(frozen=True, kw_only=True)
class VectorTables:
    """Vectors of users and items, from which the whole catalogue is ranked; the keys are the arguments of `Vectors`.

    Attributes:
        vector: the column of both tables that holds the vectors: arrays of numbers, all of the same length.
        user_bias: the column of users with a number to add to all scores of the user.
        item_bias: the column of items with a number to add to all scores of the item.
        similarity: dot, the sum of products; or cosine, the same of vectors that are scaled to length 1 first.
        filters: the column, or several, of both tables by which lists are filtered, such as a tenant: a list has only items that share a
            value with the user in each of them.
        users: a row for each user, with the user's columns and the vector.
        items: the catalogue: a row for each item, with the column of items and the vector.
        candidates: the items that can be recommended, or those of each user; left out, the whole catalogue.
        shards: into how many shards the items are split, so that a worker holds one at a time; left out, it holds all.
    """

    vector: str = call.Vectors.vector
    user_bias: str | None = call.Vectors.user_bias
    item_bias: str | None = call.Vectors.item_bias
    similarity: call.Similarity = call.Vectors.similarity
    filters: str | tuple[str, ...] = ()
    shards: int | None = call.Vectors.shards
    users: config.Source
    items: config.Source
    candidates: config.Source | None = None

    def sources(self, section: str) -> dict[str, config.Source]:
        """The tables to read, by the names of their sections in this one."""
        return {f"{section}.{name}": table for name, table in vars(self).items() if isinstance(table, config.Source)}

    def read(self, tables: Mapping[str, Any], section: str) -> call.Vectors:
        """The vectors in tables that were read, by the names of their sections in this one."""
        return call.Vectors(**{name: tables.get(f"{section}.{name}", value) for name, value in vars(self).items()})


@dataclass(frozen=True)
class AuditSettings:
    """An audit of training, labels and predictions: what leaked.

    Attributes:
        time: the column of times in training and labels, and in predictions that of the prediction, if they have it.
        limits: the largest share that passes, from 0 to 1, by the name of the check; a run above one exits with 4.
    """

    time: str = "timestamp"
    limits: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_limits(self.limits)


@dataclass(frozen=True)
class Tracking:
    """Where MLflow keeps a run beside the outputs.

    Attributes:
        experiment: the name of the experiment; it is created if it does not exist.
        run_name: the name of the run there; left out, the run_id.
        tracking_uri: the address of the tracking server, such as "http://mlflow:5000" or "sqlite:///runs.db"; left out, that of the
            environment (MLFLOW_TRACKING_URI).
        model_id: the logged model of MLflow 3 that the predictions come from, such as "m-1f8e"; it gets the metrics, too. Of several
            models each has its own: { als = "m-1f8e" }.
    """

    experiment: str = "spark_rankeval"
    run_name: str | None = None
    tracking_uri: str | None = None
    model_id: str | Mapping[str, str] | None = None

    @property
    def place(self) -> str:
        """Where MLflow keeps runs, as far as that is known without it."""
        return self.tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or "its own place"

    def __post_init__(self) -> None:
        # A database needs packages that a client of a server does not.
        if self.place.startswith(("sqlite", "postgresql", "mysql", "mssql")):
            check_extra("mlflow", "databases of MLflow")
        check_extra("mlflow", "runs in MLflow", only=("mlflow",))
        for name, longest in (("experiment", _LONGEST_EXPERIMENT), ("run_name", LONGEST_RUN_NAME)):
            text = getattr(self, name) or ""
            if len(text) > longest:
                msg = f"{name} must have at most {longest} characters; found {len(text)}, {text[:20]!r}"
                raise ConfigurationError(msg)


#: The sections that name tables, but for those of vectors and of a split.
_TABLES = ("predictions", "labels", "users", "exclude", "attributes", "training", "items", "baseline")


@dataclass(frozen=True)
class Columns(call.FactColumns, call.ColumnOptions):
    """The names of the columns, as in `evaluate`.

    Attributes:
        item: the column of items, or a pair if the names differ: the column of predictions, then that of labels. False: the rows of one
            table with scores and labels name no item.
        roll_up: the column that names the document of each item, if items are chunks of documents, in all tables. Documents are ranked,
            each at the place of its best chunk, and are the items of all other tables.
        no_answer: a column of booleans, true for users who have no answer.
    """

    # TOML has no None.
    item: str | tuple[str, str] | Literal[False] = "item"  # type: ignore[assignment] # it reads more than `evaluate` takes
    roll_up: str | None = None
    no_answer: str | None = None

    def options(self) -> dict[str, Any]:
        """The options of `evaluate`."""
        options = {**vars(self), "item": self.roll_up or (None if self.item is False else self.item)}
        del options["roll_up"]
        return options


@dataclass(frozen=True)
class Evaluation(call.SummaryOptions, call.RankingOptions):
    """The metrics, and the options of `evaluate`.

    Attributes:
        metrics: names such as "ndcg@10", or a table from labels of your own to names.
        metrics_from: a module that defines metrics of your own, such as "shop.metrics"; the driver and the workers import it.
        k_counts: what cutoffs count if columns.roll_up is set: documents or chunks.
        model: a name for the predictions, if the table holds those of one model.
        judged: the columns of grades by people and by a model, in the place of columns.relevance.
        totals: whether to add a total over each attribute, if by has several.
        ci: the interval of each mean: t (Student), bca or percentile (bootstraps; bootstrap means bca), or none.
        level: the share of such intervals that hold the true mean.
        replicates: how many bootstrap samples are drawn.
        seed: another seed draws other samples.
    """

    metrics: str | tuple[str, ...] | Mapping[str, str] = field(kw_only=True)
    metrics_from: str | None = None
    by: str | tuple[str, ...] = ()
    cluster: str | tuple[str, ...] | None = None
    k_counts: Literal["documents", "chunks"] = "documents"
    model: str | None = None
    judged: call.Judged | None = None
    item_by: str | tuple[str, ...] = ()
    popularity_groups: int | None = None
    totals: bool = False
    # TOML has no None.
    ci: Literal["t", "bca", "bootstrap", "percentile", "none"] = "t"
    level: float = 0.95
    replicates: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        call.RankingOptions.__post_init__(self)
        self.summary()
        if self.judged is not None and self.ci != "t":
            raise ConfigurationError(f"ci = {self.ci!r} does not go with judged, which has t intervals")
        if self.metrics_from is not None:
            _import_metrics(self.metrics_from)
        if self.dialect is not None:
            find_dialect(self.dialect)
        if not any(map(is_of_users, parse_metrics(self.metrics).values())):
            # A run writes a table of users, for which such metrics have no values.
            msg = (
                "metrics: no user has a value of any of them: they are of all lists together or shares of groups of items; add a metric "
                "of users, such as 'novelty@10'"
            )
            raise ConfigurationError(msg)

    def summary(self) -> call.SummaryOptions:
        """The options of the summary."""
        # All methods are made, so that each key is checked even if the chosen method does not use it.
        methods: dict[str, IntervalMethod | None] = {
            "t": Student(self.level),
            "percentile": Percentile(self.level, self.replicates, self.seed),
            "bca": BCa(self.level, self.replicates, self.seed),
            "none": None,
        }
        method = methods["bca" if self.ci == "bootstrap" else self.ci]
        options = {option.name: getattr(self, option.name) for option in fields(call.SummaryOptions)}
        return call.SummaryOptions(**options | {"by": call.parts_of(self.by, totals=self.totals), "ci": method})


@dataclass(frozen=True)
class EvaluationOutput(config.Output):
    """Where the results go, and how they are printed.

    Attributes:
        printed: a table, or what trec_eval prints: the means (trec), or every query and then the means (trec_queries).
    """

    printed: Literal["table", "trec", "trec_queries"] = "table"


def models_by_name(settings: Mapping[str, Any]) -> dict[str, config.Source | VectorTables]:
    """The tables of models of a file by the models' names; a section with keys of vectors alone has vectors."""
    of_vectors = {each.name for each in fields(VectorTables)} - {each.name for each in fields(config.Source)}
    models: dict[str, config.Source | VectorTables] = {}
    for name, section in settings.items():
        kind: type[config.Source | VectorTables] = config.Source
        if isinstance(section, Mapping) and not section.keys().isdisjoint(of_vectors):
            kind = VectorTables
        models[name] = config.parse_config(section, kind, f"models.{name}")
    return models


def gates_by_name(settings: Mapping[str, Any]) -> dict[str, GateRule]:
    """The gates of a file by the names that they have there."""
    return dict(zip(settings, read_gates(settings), strict=True))


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig(config.JobConfig):
    """The configuration of jobs/evaluate.py; each attribute is a section of the file.

    Attributes:
        output: where the results go.
        predictions: what was recommended: a row for each user and item, or a row for each user with an array of items.
        vectors: vectors of users and items, in the place of predictions.
        models: predictions or vectors of several models, by the models' names, in the place of predictions.
        evaluation: the metrics and options.
        labels: what the users wanted; left out if the table of predictions holds both arrays, or rows with scores and labels.
        split: a log of events, in the place of labels and of training: both are made of it.
        users: everyone to count, if some users are in neither table.
        exclude: items to leave out of the predictions before they are ranked.
        attributes: columns of the users, for by, user_weight and cluster.
        training: the interactions that the model was trained on, rows of users and items, for metrics that need them.
        items: attributes of items, or the catalogue, for metrics that need them.
        baseline: what a baseline recommends, in the form of predictions, for metrics that need it.
        columns: the names of the columns.
        gates: conditions on figures, by metric or by names of your own; a run that fails one exits with 4.
        audit: counts of what leaked from labels into training, and limits for them.
        mlflow: where MLflow keeps the run, too.
    """

    output: EvaluationOutput
    predictions: config.Source | None = field(default=None, metadata={config.INSTEAD: ("vectors", "models")})
    vectors: VectorTables | None = None
    models: Mapping[str, config.Source | VectorTables] = field(
        default_factory=dict, metadata={config.READ: models_by_name}
    )
    evaluation: Evaluation
    labels: config.Source | None = None
    split: LogSplit | None = None
    users: config.Source | None = None
    exclude: config.Source | None = None
    attributes: config.Source | None = None
    training: config.Source | None = None
    items: config.Source | None = None
    baseline: config.Source | None = None
    columns: Columns = field(default_factory=Columns)
    gates: Mapping[str, GateRule] = field(default_factory=dict, metadata={config.READ: gates_by_name})
    audit: AuditSettings | None = None
    mlflow: Tracking | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        metrics, estimates = parse_metrics(self.evaluation.metrics), EstimatorOption(self.columns.weight is not None)
        dialect = find_dialect(self.evaluation.dialect or "default")
        with config.errors_with_keys(self.keys()):
            call.ScoringOptions(**self.scoring())
            estimates.check({label: metric.resolve(estimates, dialect) for label, metric in metrics.items()})
        self._check_gates(metrics)

    def scoring(self) -> dict[str, Any]:
        """The options of `score_users`, except tables."""
        options = {**vars(self.evaluation), **self.columns.options()}
        options["relevance"] = self.evaluation.judged or self.columns.relevance
        return {option.name: options[option.name] for option in fields(call.ScoringOptions) if option.name in options}

    def sources(self) -> dict[str, config.Source]:
        """The tables to read, by their names in `evaluate`."""
        sources = {} if self.vectors is None else self.vectors.sources("vectors")
        for name, model in self.models.items():
            sources |= model.sources(f"models.{name}")
        sources |= {name: source for name in _TABLES if (source := getattr(self, name)) is not None}
        return sources if self.split is None else {**sources, "split.log": self.split.log}

    def arguments(self, tables: Mapping[str, Any]) -> dict[str, Any]:
        """The tables that were read, and those of a split, by the arguments of `evaluate` that take them."""
        arguments = {"labels": None, **{name: table for name, table in tables.items() if name in _TABLES}}
        if self.split is not None:
            # What the model was really trained on may be another table.
            arguments = self.split.tables(tables, self.columns) | {
                name: table for name, table in arguments.items() if table is not None
            }
            if self.split.exclude_training:
                arguments.setdefault("exclude", arguments["training"])
        if self.vectors is not None:
            arguments["predictions"] = self.vectors.read(tables, "vectors")
        if self.models:
            arguments["predictions"] = {
                name: model.read(tables, f"models.{name}") for name, model in self.models.items()
            }
        return arguments

    def names_of_ids(self) -> frozenset[str]:
        """The columns that identify users, items, models, slices and groups of items."""
        columns, evaluation = self.columns, self.evaluation
        fact_columns = (getattr(columns, each.name) for each in fields(call.FactColumns) if each.name not in NUMBERS)
        ids = config.names_in(
            columns.user,
            columns.item or None,
            columns.roll_up,
            columns.model,
            *fact_columns,
            evaluation.by,
            evaluation.item_by,
            evaluation.cluster,
            None if evaluation.judged is None else evaluation.judged.stratum,
        )
        # A field of arrays, "recs.movieId", is the column "movieId" in tables of single items.
        return ids | {name.rpartition(".")[2] for name in ids}

    @property
    def own_module(self) -> str:
        """The module of the caller's own metrics; empty if there is none."""
        return self.evaluation.metrics_from or ""

    def keys(self) -> dict[str, str]:
        """The keys of the options of `evaluate` in the file, by the options' names."""
        has_vectors = any(isinstance(tables, VectorTables) for tables in (self.vectors, *self.models.values()))
        section = "models.…" if self.models else "vectors"
        keys = config.keys_of(section, VectorTables) if has_vectors else {}
        keys |= {name: f"[{name}]" for name in _TABLES}
        keys |= {**config.keys_of("evaluation", Evaluation), **config.keys_of("columns", Columns)}
        if has_vectors:
            # Both Vectors and Facts have a column of vectors.
            keys["vector"] = f"{section}.vector or columns.vector"
        keys["item=None"] = "columns.item = false"
        if self.split is not None:
            keys |= {"log": "[split.log]", **config.keys_of("split", LogSplit)}
            if self.exclude is None:
                keys["exclude"] = "split.exclude_training"
        if self.audit is not None:
            keys["time"] = "audit.time"
        return keys

    def conflicts(self) -> Iterator[str]:
        """What its sections say against each other and `evaluate` does not refuse itself, or only after it has computed everything."""
        yield from super().conflicts()
        if self.evaluation.judged is not None and self.columns.relevance is not None:
            yield "evaluation.judged names the columns of grades; found columns.relevance too, so leave one out"
        if self.models and self.evaluation.model is not None:
            yield "evaluation.model is for one model, and [models] has names; leave it out"
        if self.split is not None and self.labels is not None:
            yield "[split] makes the labels; found [labels] too, so leave one out"
        if self.audit is not None:
            lacking = [f"[{name}]" for name in ("training", "labels") if getattr(self, name) is None]
            if self.split is None and lacking:
                yield f"[audit] needs the section {' and '.join(lacking)}"
            if self.split is not None and self.audit.time != self.split.time:
                yield f"audit.time is {self.audit.time!r}, and split.time of the labels is {self.split.time!r}; set both alike"
        has_models = self.columns.model is not None or len(self.models) > 1
        if has_models and self.mlflow is not None and isinstance(self.mlflow.model_id, str):
            yield "mlflow.model_id names one logged model; of several models give each its own, as in { als = 'm-1f8e' }"
        metrics = parse_metrics(self.evaluation.metrics)
        for name in self.report.distributions:
            # With several relevances, the report calls a metric "ndcg@10 [click]".
            label = name.partition(" [")[0]
            if label not in metrics and not any(reads_as(label, metric) for metric in metrics.values()):
                available = ", ".join(metrics.spelled.get(each, each) for each in metrics)
                yield f"report.distributions: {name!r} is not evaluated; available: {available}"
        if self.report.dialects and (unknown := ", ".join(self._unknown_to_dialects(metrics))):
            yield f"report.dialects compares metrics of labels, of one model and one relevance; leave it out, or leave out {unknown}"

    def _check_gates(self, metrics: NamedMetrics) -> None:
        """Refuse gates on a metric, slice, interval or model that the evaluation will not have."""
        relevance, judged = self.columns.relevance, self.evaluation.judged
        several = relevance if isinstance(relevance, tuple) and len(relevance) > 1 else ()
        metric_names = {label: metrics.spelled.get(label, label) for label in metrics}
        keys = {
            f"{label} [{each}]": f"{name} [{each}]"
            for label, name in metric_names.items()
            for each in (several if judged is None else judged.columns)
        }
        # Two judges estimate the metric itself, too.
        keys |= {} if judged is None else metric_names
        check_figures(
            self.gates.values(),
            keys or metric_names,
            intervals=self.evaluation.ci != "none",
            slices=bool(self.evaluation.by or self.evaluation.item_by or self.evaluation.popularity_groups),
            # The names in a column of models are known only when it is read.
            models=None if self.columns.model is not None else [*self.models] or [self.evaluation.model or ""],
        )

    def _unknown_to_dialects(self, metrics: NamedMetrics) -> list[str]:
        """What a table of dialects cannot have."""
        columns, evaluation = self.columns, self.evaluation
        settings = {
            "[models]": self.models or None,
            "evaluation.judged": evaluation.judged,
            "further grades": columns.relevance if isinstance(columns.relevance, tuple) else None,
            "evaluation.min_score": evaluation.min_score,
            **{f"columns.{name}": getattr(columns, name) for name in ("model", "weight", "cost", "no_answer")},
        }
        others = [label for label, metric in metrics.items() if metric.reads.facts or metric.corpus_level]
        names = [metrics.spelled.get(label, label) for label in others]
        return [*names, *(name for name, value in settings.items() if value is not None)]


def is_of_users(metric: Metric) -> bool:
    """Whether users have values of a metric: it is neither of all lists together nor a share of groups of items."""
    return not (metric.corpus_level or isinstance(metric, GroupShare))


def _import_metrics(module: str) -> None:
    """Import the module of the caller's own metrics, which makes their names known; also from the current folder."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
        # The workers of a session that starts here inherit it.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), here]))
    try:
        names = vars(importlib.import_module(module)).values()
    # A module of the caller's may raise anything.
    except Exception as error:
        msg = (
            f"metrics_from: {module!r} cannot be imported ({type(error).__name__}: {error}); install it, put its folder on PYTHONPATH, or "
            "send it with --py-files"
        )
        raise ConfigurationError(msg) from error
    own_metrics = {metric for metric in REGISTRY.values() if not metric.__module__.startswith("spark_rankeval.")}
    if not any(isinstance(each, type) and each in own_metrics for each in names):
        msg = f"metrics_from: {module!r} has no metric of its own, a class that derives from Metric and has a name"
        raise ConfigurationError(msg)


COMMAND = Command(
    "evaluate",
    "Evaluate a table of predictions against labels.",
    EvaluateConfig,
    formats=("table", "trec", "trec_queries"),
    is_tracked=True,
)
main, task = COMMAND.main, partial(run_as_task, COMMAND.main)
