"""The configuration and the command of the job that evaluates tables: its sections, and what must agree between them."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Literal

from spark_rankeval.checks import check_extra
from spark_rankeval.dialects import find_dialect
from spark_rankeval.errors import ConfigurationError, DialectError, InputError, MetricError, OptionError
from spark_rankeval.jobs.command import Command, run_as_task
from spark_rankeval.jobs.config import INSTEAD, JobConfig, Output, Source, empty_names, keys_of, names_in, refusal
from spark_rankeval.metrics.base import REGISTRY
from spark_rankeval.metrics.expected_values import EstimatorOption
from spark_rankeval.metrics.item_groups import GroupShare
from spark_rankeval.metrics.naming import NamedMetrics, parse_metric, parse_metrics, reads_as
from spark_rankeval.ranking.batch import NUMBERS
from spark_rankeval.records.quality import check_limits
from spark_rankeval.request.call import (
    ColumnOptions,
    FactColumns,
    Judged,
    RankingOptions,
    ScoringOptions,
    Similarity,
    SummaryOptions,
    Vectors,
    parts_of,
)
from spark_rankeval.run_history.gates import GateRule, check_figures, read_gates
from spark_rankeval.statistics.intervals import BCa, IntervalMethod, Percentile, Student

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_rankeval.splits import Split, SplitCounts


#: The longest name of a run that every store of MLflow takes.
LONGEST_RUN_NAME = 250
_LONGEST_EXPERIMENT = 500
# The keys of each split beside those of all splits; the first one asks for it.
_KEYS = {"by_time": ("cut", "time", "horizon"), "last_n": ("last_n", "time")}


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

    log: Source
    cut: str | float | None = None
    horizon: str | float | None = None
    last_n: int | None = None
    time: str = "timestamp"
    grades: Mapping[str, float] | None = None
    leave_out: str | tuple[str, ...] = ()
    exclude_training: bool = True

    @property
    def rule(self) -> str:
        """The function of `spark_rankeval.splits` that parts the log; empty if no key asks for one."""
        return next((name for name, keys in _KEYS.items() if getattr(self, keys[0]) is not None), "")

    def problems(self, columns: ColumnOptions) -> list[str]:
        """What is not valid here, alone or together with the names of the columns."""
        problems = empty_names("split", {"time": self.time})
        rules = [keys[0] for keys in _KEYS.values() if getattr(self, keys[0]) is not None]
        if len(rules) != 1:
            got = " and ".join(rules) or "none of them"
            problems.append(f"[split] needs one of {', '.join(keys[0] for keys in _KEYS.values())}; found {got}")
        else:
            rule_keys = {key for keys in _KEYS.values() for key in keys}
            settings = [
                key.name for key in fields(self) if getattr(self, key.name) != key.default and key.name in rule_keys
            ]
            unused = [name for name in settings if name not in _KEYS[self.rule]]
            problems += [f"split.{name} does nothing with split.{rules[0]}; leave it out" for name in unused]
        if self.grades is not None and columns.relevance is None:
            problems.append("split.grades needs the log's column of events; name it in columns.relevance")
        if isinstance(columns.relevance, tuple):
            problems.append("[split] makes one column of grades; name only one in columns.relevance")
        problems += [
            f"columns.{name} is for [labels], and [split] makes no such column; leave it out"
            for name in ("weight", "subtopic")
            if getattr(columns, name, None) is not None
        ]
        return problems

    def problems_of_times(self, time: str) -> list[str]:
        """The problem of an audit whose times are in another column than those of the log."""
        if "time" not in _KEYS.get(self.rule, ()) or time == self.time:
            return []
        return [
            f"audit.time is {time!r}, and the labels of [split] have the times in split.time, {self.time!r}; set both alike"
        ]

    def split(self, tables: Mapping[str, DataFrame], columns: ColumnOptions) -> Split:
        """The split of the log among tables that were read; lazy, but for a `ConfigurationError` about the columns."""
        from spark_rankeval import splits  # noqa: PLC0415 # it imports pyspark, for which a wrong file does not wait

        log = tables["split.log"]
        assert columns.item, "a split makes labels, which rows without ids of items do not go with"
        shared: dict[str, Any] = {
            "user": columns.user,
            # The second of two names is that of labels.
            "item": columns.item if isinstance(columns.item, str) else columns.item[-1],
            "relevance": columns.relevance,
            "grades": self._grades(log, columns),
            "leave_out": self.leave_out,
        }
        try:
            if self.cut is not None:
                return splits.by_time(log, self.cut, horizon=self.horizon, time=self.time, **shared)
            assert self.last_n is not None, "one of the two was given"
            return splits.last_n(log, self.last_n, time=self.time, **shared)
        except (OptionError, InputError) as error:
            msg = f"[split]: {error}"
            raise ConfigurationError(msg) from error

    def tables(self, tables: Mapping[str, DataFrame], columns: ColumnOptions) -> dict[str, DataFrame]:
        """The labels, whose grades are in the column that was named, and the rows before them."""
        split = self.split(tables, columns)
        labels = split.labels
        if isinstance(columns.relevance, str) and self.grades is not None:
            labels = labels.withColumnRenamed("relevance", columns.relevance)
        return {"labels": labels, "training": split.training}

    def checked(self, tables: Mapping[str, DataFrame], columns: ColumnOptions, on_invalid: object) -> SplitCounts:
        """The counts of the split, in one action; a `DataError` if it leaves no user, or if bad rows may not be dropped."""
        return self.split(tables, columns).checked_counts("drop" if on_invalid in ("drop", "quarantine") else "error")

    def _grades(self, log: DataFrame, columns: ColumnOptions) -> Mapping[Any, float] | None:
        """The grades by event; keys of a file are strings, so those of a column of whole numbers are read as such."""
        kinds = {name.lower(): kind for name, kind in log.dtypes}
        is_whole = kinds.get(str(columns.relevance).lower()) in ("tinyint", "smallint", "int", "bigint")
        if self.grades is None or not is_whole:
            return self.grades
        return {int(event) if event.lstrip("-").isdecimal() else event: grade for event, grade in self.grades.items()}


#: The keys that are tables.
TABLES_OF_VECTORS = ("users", "items", "candidates")


@dataclass(frozen=True)
class VectorTables:
    """Vectors of users and items, from which the whole catalogue is ranked; the keys are the arguments of `Vectors`.

    Attributes:
        users: a row for each user, with the user's columns and the vector.
        items: the catalogue: a row for each item, with the column of items and the vector.
        candidates: the items that can be recommended, or those of each user; left out, the whole catalogue.
        vector: the column of both tables that holds the vectors: arrays of numbers, all of the same length.
        user_bias: the column of users with a number to add to all scores of the user.
        item_bias: the column of items with a number to add to all scores of the item.
        similarity: dot, the sum of products; or cosine, the same of vectors that are scaled to length 1 first.
    """

    users: Source
    items: Source
    candidates: Source | None = None
    vector: str = Vectors.vector
    user_bias: str | None = Vectors.user_bias
    item_bias: str | None = Vectors.item_bias
    similarity: Similarity = Vectors.similarity

    def options(self) -> dict[str, Any]:
        """The arguments of `Vectors`, except tables."""
        return {name: value for name, value in vars(self).items() if name not in TABLES_OF_VECTORS}

    def sources(self, section: str) -> dict[str, Source]:
        """The tables to read, by the names of their sections in this one."""
        tables = {name: getattr(self, name) for name in TABLES_OF_VECTORS}
        return {f"{section}.{name}": source for name, source in tables.items() if source is not None}

    def read(self, tables: Mapping[str, Any], section: str) -> Vectors:
        """The vectors in tables that were read, by the names of their sections in this one."""
        arguments = self.options() | {name: tables.get(f"{section}.{name}") for name in TABLES_OF_VECTORS}
        return Vectors(**arguments)


@dataclass(frozen=True)
class ModelTables(Source):
    """One of several models: the keys of [predictions] name its table of rows or arrays, those of [vectors] its vectors.

    Attributes:
        users: vectors in the place of predictions: a row for each user, with the user's columns and the vector.
        items: the catalogue of vectors: a row for each item, with the column of items and the vector.
        candidates: the items that can be recommended, or those of each user; left out, the whole catalogue.
        vector: the column of both tables that holds the vectors: arrays of numbers, all of the same length.
        user_bias: the column of users with a number to add to all scores of the user.
        item_bias: the column of items with a number to add to all scores of the item.
        similarity: dot, the sum of products; or cosine, the same of vectors that are scaled to length 1 first.
    """

    users: Source | None = None
    items: Source | None = None
    candidates: Source | None = None
    vector: str = Vectors.vector
    user_bias: str | None = Vectors.user_bias
    item_bias: str | None = Vectors.item_bias
    similarity: Similarity = Vectors.similarity

    @property
    def vectors(self) -> VectorTables | None:
        """The vectors of the model; None if it has predictions."""
        if self.users is None or self.items is None:
            return None
        return VectorTables(**{each.name: getattr(self, each.name) for each in fields(VectorTables)})

    def sources_of_model(self, section: str) -> dict[str, Source]:
        """The tables to read, by the names of their sections."""
        return {section: self} if self.vectors is None else self.vectors.sources(section)

    def problems(self, section: str) -> list[str]:
        """The problems of this section; it has keys of predictions or of vectors, and not of both."""
        settings = {each.name for each in fields(self) if getattr(self, each.name) not in (None, {}, each.default)}
        vector_keys = [each.name for each in fields(VectorTables) if each.name in settings]
        prediction_keys = [each.name for each in fields(Source) if each.name in settings]
        if vector_keys and prediction_keys:
            return [
                f"[{section}] has {prediction_keys[0]} of predictions and {vector_keys[0]} of vectors; leave one out"
            ]
        if vector_keys:
            lacking = [f"[{section}.{name}]" for name in ("users", "items") if getattr(self, name) is None]
            return [f"[{section}] of vectors needs {' and '.join(lacking)}"] if lacking else []
        if not prediction_keys:
            return [
                f"[{section}] needs path or table of predictions, or [{section}.users] and [{section}.items] of vectors"
            ]
        return super().problems(section)


@dataclass(frozen=True)
class AuditSettings:
    """An audit of training, labels and predictions: what leaked.

    Attributes:
        time: the column of times in training and labels, and in predictions that of the prediction, if they have it.
        limits: the largest share that passes, from 0 to 1, by the name of the check; a run above one exits with 4.
    """

    time: str = "timestamp"
    limits: Mapping[str, float] = field(default_factory=dict)

    def problems(self) -> list[str]:
        """The limits that cannot be met or belong to no check."""
        return empty_names("audit", {"time": self.time}) + refusal(lambda: check_limits(self.limits), "audit.")


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

    def problems(self) -> list[str]:
        """The names that MLflow does not take."""
        # A database needs packages that a client of a server does not.
        is_database = self.place.startswith(("sqlite", "postgresql", "mysql", "mssql"))
        check_extra(
            "mlflow",
            "databases of MLflow" if is_database else "runs in MLflow",
            only=None if is_database else ("mlflow",),
        )
        problems = []
        for name, longest in (("experiment", _LONGEST_EXPERIMENT), ("run_name", LONGEST_RUN_NAME)):
            text = getattr(self, name)
            if text is not None and not 0 < len(text.strip()) <= len(text) <= longest:
                problems.append(f"mlflow.{name} must have 1 to {longest} characters; found {len(text)}, {text[:20]!r}")
        return problems


#: The sections that name tables, but for those of vectors and of a split.
_TABLES = ("predictions", "labels", "users", "exclude", "attributes", "training", "items", "baseline")


@dataclass(frozen=True)
class Columns(FactColumns, ColumnOptions):
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
class TwoJudges(Judged):
    """The columns of grades of two judges: people, who graded some users, and a model, which graded all; see `Judged`."""

    def __post_init__(self) -> None:
        """Check nothing: `EvaluateConfig.problems` checks the columns with the rest of the file."""


@dataclass(frozen=True)
class Evaluation(SummaryOptions, RankingOptions):
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
    judged: TwoJudges | None = None
    item_by: str | tuple[str, ...] = ()
    popularity_groups: int | None = None
    totals: bool = False
    # TOML has no None.
    ci: Literal["t", "bca", "bootstrap", "percentile", "none"] = "t"
    level: float = 0.95
    replicates: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        """Check nothing: `EvaluateConfig.problems` checks values with the rest of the file, to report all problems at once."""

    def summary(self) -> SummaryOptions:
        """The options of the summary."""
        # All methods are made, so that each key is checked even if the chosen method does not use it.
        methods: dict[str, IntervalMethod | None] = {
            "t": Student(self.level),
            "percentile": Percentile(self.level, self.replicates, self.seed),
            "bca": BCa(self.level, self.replicates, self.seed),
            "none": None,
        }
        method = methods["bca" if self.ci == "bootstrap" else self.ci]
        options = {option.name: getattr(self, option.name) for option in fields(SummaryOptions)}
        return SummaryOptions(**options | {"by": parts_of(self.by, totals=self.totals), "ci": method})


@dataclass(frozen=True)
class EvaluationOutput(Output):
    """Where the results go, and how they are printed.

    Attributes:
        printed: a table, or what trec_eval prints: the means (trec), or every query and then the means (trec_queries).
    """

    printed: Literal["table", "trec", "trec_queries"] = "table"


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig(JobConfig):
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
    predictions: Source | None = field(default=None, metadata={INSTEAD: ("vectors", "models")})
    vectors: VectorTables | None = None
    models: Mapping[str, ModelTables] = field(default_factory=dict)
    evaluation: Evaluation
    labels: Source | None = None
    split: LogSplit | None = None
    users: Source | None = None
    exclude: Source | None = None
    attributes: Source | None = None
    training: Source | None = None
    items: Source | None = None
    baseline: Source | None = None
    columns: Columns = field(default_factory=Columns)
    gates: Mapping[str, GateRule] = field(default_factory=dict)
    audit: AuditSettings | None = None
    mlflow: Tracking | None = None

    def gate_rules(self) -> tuple[GateRule, ...]:
        """The gates; an error if one cannot be met, or names an unknown metric, slice or model."""
        rules = read_gates(
            {
                name: {key: value for key, value in vars(rule).items() if value not in (None, "")}
                for name, rule in self.gates.items()
            }
        )
        labels, relevance = parse_metrics(self.evaluation.metrics), self.columns.relevance
        judged = self.evaluation.judged
        several = relevance if isinstance(relevance, tuple) and len(relevance) > 1 else ()
        metric_names = {label: labels.spelled.get(label, label) for label in labels}
        keys = {
            f"{label} [{each}]": f"{name} [{each}]"
            for label, name in metric_names.items()
            for each in (several if judged is None else judged.columns)
        }
        # Two judges estimate the metric itself, too.
        keys |= {} if judged is None else metric_names
        check_figures(
            rules,
            keys or metric_names,
            intervals=self.evaluation.ci != "none",
            slices=bool(self.evaluation.by or self.evaluation.item_by or self.evaluation.popularity_groups),
            # The names in a column of models are known only when it is read.
            models=None if self.columns.model is not None else [*self.models] or [self.evaluation.model or ""],
        )
        return rules

    def all_vectors(self) -> dict[str, VectorTables]:
        """The vectors of each model, by the names of their sections."""
        if self.vectors is not None:
            return {"vectors": self.vectors}
        vectors = {f"models.{name}": model.vectors for name, model in self.models.items()}
        return {section: tables for section, tables in vectors.items() if tables is not None}

    def scoring(self) -> dict[str, Any]:
        """The options of `score_users`, except tables."""
        options = {**vars(self.evaluation), **self.columns.options()}
        if self.evaluation.judged is not None:
            options["relevance"] = Judged(**vars(self.evaluation.judged))
        return {option.name: options[option.name] for option in fields(ScoringOptions) if option.name in options}

    def sources(self) -> dict[str, Source]:
        """The tables to read, by their names in `evaluate`."""
        sources = {name: source for name in _TABLES if (source := getattr(self, name)) is not None}
        if self.split is not None:
            sources["split.log"] = self.split.log
        model_sources = [model.sources_of_model(f"models.{name}") for name, model in self.models.items()]
        if self.vectors is not None:
            model_sources.append(self.vectors.sources("vectors"))
        return reduce(or_, [*model_sources, sources])

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
        vectors = {section: each.read(tables, section) for section, each in self.all_vectors().items()}
        if self.models:
            sections = {name: f"models.{name}" for name in self.models}
            models = {name: vectors.get(section) or tables[section] for name, section in sections.items()}
            return {"predictions": models, **arguments}
        return {"predictions": vectors["vectors"], **arguments} if vectors else arguments

    def names_of_ids(self) -> frozenset[str]:
        """The columns that identify users, items, models, slices and groups of items."""
        columns, evaluation = self.columns, self.evaluation
        fact_columns = (getattr(columns, each.name) for each in fields(FactColumns) if each.name not in NUMBERS)
        ids = names_in(
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
        sections = {name: f"[{name}]" for name in _TABLES}
        keys = {**sections, **keys_of("evaluation", Evaluation), **keys_of("columns", Columns)}
        keys["item=None"] = "columns.item = false"
        if self.split is not None:
            keys |= {"log": "[split.log]", **keys_of("split", LogSplit)}
            if self.exclude is None:
                keys["exclude"] = "split.exclude_training"
        if self.audit is not None:
            keys["time"] = "audit.time"
        if self.all_vectors():
            vector_keys = keys_of("models.…" if self.models else "vectors", VectorTables)
            for name in vector_keys.keys() - TABLES_OF_VECTORS:
                # Both Vectors and Facts have a column of vectors.
                keys[name] = " or ".join([vector_keys[name], *filter(None, [keys.get(name)])])
        return keys

    def problems(self) -> list[str]:
        """What is not valid in its sections, alone or together."""
        problems = super().problems()
        problems += empty_names("columns", vars(self.columns))
        if self.columns.item is False:
            problems += self._problems_without_items()
        if self.vectors is not None or self.models:
            problems += self._problems_of_models()
        problems += empty_names(
            "evaluation", {name: getattr(self.evaluation, name) for name in ("by", "user_weight", "cluster")}
        )
        if self.evaluation.judged is not None:
            problems += self._problems_of_judges(self.evaluation.judged)
        problems += self.refused("evaluation", self.evaluation.summary, lambda: ScoringOptions(**self.scoring()))
        metrics = NamedMetrics({}, {})
        # `wrong_names` reports wrong metrics.
        with suppress(MetricError):
            metrics = parse_metrics(self.evaluation.metrics)
        if metrics:
            problems += self._problems_of_metrics(metrics)
        if self.split is not None:
            problems += self.split.problems(self.columns)
            if self.labels is not None:
                problems.append("[split] makes the labels; found [labels] too, so leave one out")
        if self.audit is not None:
            problems += self.audit.problems()
            lacking = [f"[{name}]" for name in ("training", "labels") if getattr(self, name) is None]
            if self.split is not None:
                problems += self.split.problems_of_times(self.audit.time)
            elif lacking:
                problems.append(f"[audit] needs the section {' and '.join(lacking)}")
        if self.mlflow is not None:
            problems += self.mlflow.problems()
            if isinstance(self.mlflow.model_id, str) and (self.columns.model is not None or len(self.models) > 1):
                problems.append(
                    "mlflow.model_id names one logged model; of several models give each its own, as in { als = 'm-1f8e' }"
                )
        if self.report.dialects:
            problems += self._problems_of_maps(metrics)
        return problems

    def _problems_without_items(self) -> list[str]:
        """What rows without ids of items do not go with."""
        sections = [name for name in ("labels", "split", "exclude", "vectors", "models") if getattr(self, name)]
        if not sections:
            return []
        words = ", ".join(f"[{name}]" for name in sections)
        return [
            f"columns.item = false is for one table of users, scores and labels in [predictions]; found {words} too. Leave it out, or name "
            "the column of items"
        ]

    def _problems_of_judges(self, judged: TwoJudges) -> list[str]:
        problems = empty_names("evaluation.judged", vars(judged))
        if self.columns.relevance is not None:
            problems.append(
                "evaluation.judged names the columns of grades; found columns.relevance too, so leave one out"
            )
        if self.split is not None:
            problems.append(
                "[split] makes one column of grades, and evaluation.judged needs those of two judges; leave one out"
            )
        if self.evaluation.ci != "t":
            problems.append(
                f"evaluation.ci = {self.evaluation.ci!r} does not go with evaluation.judged, which has t intervals"
            )
        return problems

    def _problems_of_models(self) -> list[str]:
        problems = []
        for section, vectors in self.all_vectors().items():
            problems += empty_names(section, vectors.options())
        for name, model in self.models.items():
            # `sources` names other models themselves.
            problems += model.problems(f"models.{name}") if model.vectors is not None else []
        whole = "[models]" if self.models else "[vectors]"
        if self.labels is None and self.split is None:
            problems.append(f"{whole} needs the section [labels]")
        if self.models and self.evaluation.model is not None:
            problems.append("evaluation.model is for one model, and [models] has names; leave it out")
        # The rows of a baseline have the columns of predictions, and so have those of models without vectors.
        have_rows = self.baseline is not None or len(self.all_vectors()) < len(self.models)
        for name in ("model",) if have_rows else ("score", "rank", "model"):
            if getattr(self.columns, name) is not None:
                problems.append(f"columns.{name} is for [predictions], and {whole} has no such column; leave it out")
        return problems

    def _problems_of_metrics(self, metrics: NamedMetrics) -> list[str]:
        problems, call = [], EstimatorOption(self.columns.weight is not None)
        # `wrong_names` reports a wrong dialect.
        with suppress(DialectError):
            dialect = find_dialect(self.evaluation.dialect or "default")
            problems += self.refused(
                "evaluation", lambda: call.check({label: one.resolve(call, dialect) for label, one in metrics.items()})
            )
        problems += refusal(self.gate_rules)
        if all(metric.corpus_level or isinstance(metric, GroupShare) for metric in metrics.values()):
            # A run writes a table of users, for which such metrics have no values.
            problems.append(
                "evaluation.metrics: no user has a value of any of them: they are of all lists together or shares of groups of items; "
                "add a metric of users, such as 'novelty@10'"
            )
        for name in self.report.distributions:
            # With several relevances, the report calls a metric "ndcg@10 [click]".
            label = name.partition(" [")[0]
            if label not in metrics and not any(reads_as(label, metric) for metric in metrics.values()):
                available = ", ".join(metrics.spelled.get(each, each) for each in metrics)
                problems.append(f"report.distributions: {name!r} is not evaluated; available: {available}")
        return problems

    def _problems_of_maps(self, metrics: NamedMetrics) -> list[str]:
        problems = []
        outside = [
            metrics.spelled.get(label, label)
            for label, metric in metrics.items()
            if metric.reads.facts or metric.corpus_level
        ]
        if outside:
            problems.append(
                f"report.dialects compares only metrics of labels; leave it out, or leave out {', '.join(outside)}"
            )
        several = isinstance(self.columns.relevance, tuple) or self.evaluation.judged is not None
        if several or self.columns.model is not None or self.models:
            problems.append(
                "report.dialects needs one model and one relevance; leave it out, or leave out columns.model, [models] and further "
                "grades"
            )
        if self.columns.weight is not None:
            problems.append(
                "report.dialects cannot compare definitions that weighted labels only estimate; leave it out, or leave out "
                "columns.weight"
            )
        unknown = [f"columns.{name}" for name in ("cost", "no_answer") if getattr(self.columns, name) is not None]
        unknown += ["evaluation.min_score"] if self.evaluation.min_score is not None else []
        if unknown:
            problems.append(
                f"report.dialects does not know {', '.join(unknown)}; leave it out, or leave out report.dialects"
            )
        return problems

    @classmethod
    def wrong_names(cls, settings: Mapping[str, Any]) -> list[str]:
        """Wrong metrics and dialects, which are reported together with wrong keys."""
        problems = []
        evaluation, report = settings.get("evaluation"), settings.get("report")
        if isinstance(evaluation, Mapping):
            problems += _problems_of_import(evaluation.get("metrics_from"))
            problems += _wrong_metrics(evaluation.get("metrics"))
            problems += _wrong_texts("evaluation.dialect", find_dialect, [evaluation.get("dialect", "default")])
        dialects = report.get("dialects") if isinstance(report, Mapping) else None
        return problems + _wrong_texts("report.dialects", find_dialect, dialects if isinstance(dialects, list) else [])


def parted(metrics: str | tuple[str, ...] | Mapping[str, str]) -> tuple[NamedMetrics, NamedMetrics]:
    """The metrics of single users and the others, of all lists together or of groups of items, by label."""
    all_metrics = parse_metrics(metrics)
    other_metrics = {
        label: one for label, one in all_metrics.items() if one.corpus_level or isinstance(one, GroupShare)
    }
    user_metrics = {label: metric for label, metric in all_metrics.items() if label not in other_metrics}
    return NamedMetrics(user_metrics, all_metrics.spelled), NamedMetrics(other_metrics, all_metrics.spelled)


def _problems_of_import(module: object) -> list[str]:
    """Import the module of the caller's own metrics, which makes their names known."""
    if not isinstance(module, str):
        return []
    try:
        names = vars(importlib.import_module(module)).values()
    # A module of the caller's may raise anything.
    except Exception as error:
        return [
            f"evaluation.metrics_from: {module!r} cannot be imported ({type(error).__name__}: {error}); install it, put its folder on "
            "PYTHONPATH, or send it with --py-files"
        ]
    own_metrics = {metric for metric in REGISTRY.values() if not metric.__module__.startswith("spark_rankeval.")}
    if any(isinstance(each, type) and each in own_metrics for each in names):
        return []
    return [
        f"evaluation.metrics_from: {module!r} has no metric of its own, a class that derives from Metric and has a name"
    ]


def _wrong_metrics(metrics: object) -> list[str]:
    if metrics in ([], {}):
        return refusal(lambda: parse_metrics([]), "evaluation.metrics: ")
    if isinstance(metrics, Mapping):
        return _wrong_texts("evaluation.metrics", parse_metric, metrics.values())
    # A single string may name many cutoffs.
    return _wrong_texts(
        "evaluation.metrics", lambda text: parse_metrics([text]), metrics if isinstance(metrics, list) else [metrics]
    )


def _wrong_texts(key: str, check: Callable[[str], object], values: Iterable[object]) -> list[str]:
    # Values that are not strings are reported already.
    texts = [value for value in values if isinstance(value, str)]
    return [problem for text in texts for problem in refusal(partial(check, text), f"{key}: ")]


COMMAND = Command(
    "evaluate",
    "Evaluate a table of predictions against labels.",
    EvaluateConfig,
    formats=("table", "trec", "trec_queries"),
    is_tracked=True,
)
main, task = COMMAND.main, partial(run_as_task, COMMAND.main)
