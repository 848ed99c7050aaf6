"""Sections of the configuration that evaluates tables: a split of a log into labels and training, vectors, models, an audit, MLflow."""

from __future__ import annotations

import os
from collections.abc import Mapping  # of a field, whose type is looked at
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from spark_rankeval.checks import check_extra
from spark_rankeval.errors import ConfigurationError, InputError, OptionError
from spark_rankeval.jobs.config import Source, empty_names, refusal
from spark_rankeval.records.audit_rows import check_limits
from spark_rankeval.request.call import ColumnOptions, Similarity, Vectors

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
