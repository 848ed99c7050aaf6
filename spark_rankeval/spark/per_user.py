"""Per-user tables: what their columns are, as JSON in metadata that Parquet keeps; and metrics as functions of columns."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.checks import one_of
from spark_rankeval.dialects import Dialect, find_dialect
from spark_rankeval.errors import InputError, MetricError
from spark_rankeval.metrics.base import Metric
from spark_rankeval.metrics.naming import column_name, column_names, parse_metric, parse_metrics
from spark_rankeval.records.stored import Query
from spark_rankeval.request.call import ALL_COUNTS, OVERLAP, OnInvalidOption, is_sum
from spark_rankeval.request.task import Lists, ScoringTask, resolve, views_of
from spark_rankeval.spark.engine import engine_of, pandas_function
from spark_rankeval.spark.sql import MARK_KEY, call, column, mark_of, model_in, readable, text, text_in_sql
from spark_rankeval.worker.features import JudgedPair, TwoJudges
from spark_rankeval.worker.scoring import N_INVALID, score_series

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark_rankeval.records.summary import SummaryRow
    from spark_rankeval.records.tables_of_means import Counts, Grid


#: The tables that may have a column of hashes.
TABLES = ("predictions", "labels", "users", "exclude")
# Fields of a metric that its mark has only if they are not empty.
_IF_ANY = ("asked", "normaliser", "standard")


@dataclass(frozen=True)
class MetricColumn:
    """A metric in a per-user table."""

    column: str  # its column; empty for a metric of all lists together, which no user has
    label: str  # by which programs know the metric
    definition: str = ""  # the metric with every parameter; empty if the table does not say
    relevance: str = ""  # the column of grades, if there are several; else empty
    asked: str = ""  # what the caller called the metric; empty: by its label
    # The column of the weights of the users' values, if the mean is a quotient of sums over users; else empty.
    normaliser: str = ""
    # What most systems mean by the metric, if that is another definition and the caller did not choose; else empty.
    standard: str = ""
    standard_column: str = ""  # the column of the values by that definition, if the table has it; else empty
    # The column of grades by people, if the mean under these is estimated from two judges; else empty. No user has a value.
    estimated: str = ""

    @property
    def key(self) -> str:
        """What tells it from the other metrics of a model."""
        return f"{self.label} [{self.relevance}]" if self.relevance else self.label

    @property
    def human_key(self) -> str:
        """The key of the same metric by people alone."""
        return f"{self.label} [{self.estimated}]"

    @property
    def caller_key(self) -> str:
        """The key as the caller called it; empty: as `key` has it."""
        return f"{self.asked} [{self.relevance}]" if self.asked and self.relevance else self.asked

    @property
    def caller_column(self) -> str:
        """The column by the name that the caller used."""
        return column_name(self.caller_key) if self.asked else self.column


@dataclass(frozen=True)
class Settings:
    """The options of the evaluation that made a per-user table, as far as its summary depends on them."""

    dialect: str = ""  # whose conventions filled what was not set; empty: not known
    on_invalid: OnInvalidOption = "error"  # what becomes of rows that cannot be ranked
    conflicting_labels: str = "error"  # ``last`` if the last of an item's labels holds, so that several are no mistake
    mean: str = "defined"  # ``all`` if an undefined value makes the mean undefined
    unpredicted: str = "counted"  # what becomes of users without predictions: ``counted`` or ``left_out``
    # Where labels are: a ``table`` of their own, such a table of ``chunks`` whose documents the predictions know, or the rows of
    # ``predictions``.
    labels: str = "table"
    # The columns of grades of `Judged`, if the grades are those of two judges; else empty.
    human: str = ""
    judge: str = ""
    draw: str = ""  # ``weighted`` if people graded users who were drawn with unequal probabilities; else empty


@dataclass(frozen=True)
class PerUserSchema:
    """The columns of a per-user table, each by its name there."""

    users: tuple[str, ...] = ()  # the columns that make a user
    metrics: tuple[MetricColumn, ...] = ()  # the metrics, in the order of their columns
    counts: tuple[str, ...] = ()  # the counts
    # The hashes of the user's rows of a table, by table; fingerprints of tables are made of them.
    hashes: Mapping[str, str] = field(default_factory=dict)
    slices: tuple[str, ...] = ()  # the attributes that part the users
    # The values of those attributes whose values have an order.
    orders: Mapping[str, Sequence[str]] = field(default_factory=dict)
    weight: str | None = None  # the users' weight; None: each counts the same
    # The columns that make users a cluster, some of them perhaps the user's or slices; none: users are independent.
    clusters: tuple[str, ...] = ()
    stratum: str | None = None  # the strata from which users were drawn for people to grade; None: there is one
    model: str | None = None  # whose predictions a row is of; None: the table has one model without a name
    models: tuple[str, ...] = ("",)  # the names of the models, in the order in which they were named
    settings: Settings = Settings()  # the settings of the evaluation
    # Differences to a baseline by the metric's label, which a table of `differences` has instead of metrics.
    differences: Mapping[str, str] = field(default_factory=dict)
    is_marked: bool = True  # the columns say what they are

    @property
    def two_judges(self) -> TwoJudges | None:
        """The values of both judges of `Judged`, as places among the metrics; None: the table has no such."""
        settings = self.settings
        if not settings.human:
            return None
        places = {(metric.label, metric.relevance): place for place, metric in enumerate(self.metrics)}
        pairs = [
            JudgedPair(place, places[label, settings.judge])
            for (label, relevance), place in places.items()
            if relevance == settings.human and (label, settings.judge) in places
        ]
        return TwoJudges(tuple(pairs), settings.draw == "weighted") if pairs else None

    @classmethod
    def read(cls, frame: DataFrame) -> PerUserSchema:
        """The schema of a table; of one whose columns say nothing it is empty."""
        marks = {item.name: mark for item in frame.schema.fields if (mark := mark_of(item))}

        def marks_by_kind(kind: str) -> dict[str, dict[str, Any]]:
            return {name: mark for name, mark in marks.items() if mark["kind"] == kind}

        standards = {mark["of"]: name for name, mark in marks_by_kind("standard").items()}
        models = marks_by_kind("model")
        settings = next(iter(marks_by_kind("metric").values()), {})
        return cls(
            users=tuple(marks_by_kind("user")),
            metrics=tuple(
                MetricColumn(
                    column=name,
                    label=mark["label"],
                    definition=mark.get("metric", ""),
                    relevance=mark.get("relevance", ""),
                    standard_column=standards.get(name, ""),
                    **{text: mark.get(text, "") for text in _IF_ANY},
                )
                for name, mark in marks_by_kind("metric").items()
            ),
            counts=tuple(marks_by_kind("count")),
            hashes={mark["table"]: name for name, mark in marks_by_kind("hash").items()},
            slices=tuple(marks_by_kind("slice")),
            orders={name: mark["order"] for name, mark in marks.items() if "order" in mark},
            weight=next((name for name, mark in marks.items() if mark["kind"] == "weight" or mark.get("weight")), None),
            clusters=tuple(name for name, mark in marks.items() if mark.get("cluster")),
            stratum=next((name for name, mark in marks.items() if mark.get("stratum")), None),
            model=next(iter(models), None),
            models=tuple(next(iter(models.values())).get("models", ())) if models else ("",),
            settings=Settings(**{item.name: settings[item.name] for item in fields(Settings) if item.name in settings}),
            differences={mark["label"]: name for name, mark in marks_by_kind("difference").items()},
            is_marked=bool(marks),
        )

    def marks(self) -> dict[str, dict[str, Any]]:
        """What each column says of itself, in the order of the columns."""
        settings = {name: value for name, value in asdict(self.settings).items() if value != ""}
        marks: dict[str, dict[str, Any]] = {name: {"kind": "user"} for name in self.users}
        marks |= {name: {"kind": "slice"} for name in self.slices}
        marks |= {name: {"kind": "slice", "order": list(order)} for name, order in self.orders.items()}
        if self.weight is not None and self.weight not in self.counts:
            marks[self.weight] = {"kind": "weight"}
        if self.stratum is not None:
            marks[self.stratum] = {**marks.get(self.stratum, {"kind": "stratum"}), "stratum": True}
        marks |= {name: {**marks.get(name, {"kind": "cluster"}), "cluster": True} for name in self.clusters}
        if self.model is not None:
            marks[self.model] = {"kind": "model", **({"models": list(self.models)} if self.models else {})}
        for metric in self.metrics:
            always = {"label": metric.label, "metric": metric.definition, "relevance": metric.relevance}
            if_any = {name: text for name in _IF_ANY if (text := getattr(metric, name))}
            marks[metric.column] = {"kind": "metric", **always, **if_any, **settings}
        marks |= {name: {"kind": "count", **settings} for name in self.counts}
        if self.weight in self.counts:
            marks[self.weight] |= {"weight": True}
        marks |= {metric.normaliser: {"kind": "normaliser"} for metric in self.metrics if metric.normaliser}
        marks |= {
            metric.standard_column: {"kind": "standard", "of": metric.column}
            for metric in self.metrics
            if metric.standard_column
        }
        marks |= {name: {"kind": "hash", "table": table} for table, name in self.hashes.items()}
        marks |= {name: {"kind": "difference", "label": label} for label, name in self.differences.items()}
        return marks

    def marked(self, columns: Sequence[Column]) -> list[Column]:
        """Columns, one for each of `marks` in its order, under their names, with their marks and comments."""
        marks, meanings = self.marks(), self._meanings()
        return [
            # Text keeps the types of a mark: numbers and None come back as they were, through any storage that keeps metadata.
            values.alias(name, metadata={MARK_KEY: json.dumps(mark), "comment": meanings.get(name, mark["kind"])})
            for values, (name, mark) in zip(columns, marks.items(), strict=True)
        ]

    def _meanings(self) -> dict[str, str]:
        """What columns are, in words for a catalogue; others are what their mark says."""
        counts = {count.name: f"count: {count.words}" for count in ALL_COUNTS if count.name in self.counts}
        metrics = {
            metric.column: ": ".join(filter(None, [metric.asked, metric.definition or metric.label]))
            for metric in self.metrics
        }
        hashes = {name: f"hash of the user's rows of {table}" for table, name in self.hashes.items()}
        return {**counts, **metrics, **hashes}

    def with_valid_users(self, frame: DataFrame) -> DataFrame:
        """The table without the row that counts rows with a null user."""
        for name in self.users:
            frame = frame.where(column(name).isNotNull())
        return frame


def estimated_metrics(metrics: Sequence[MetricColumn], human: str) -> tuple[MetricColumn, ...]:
    """The metrics whose mean under human grades is estimated from two judges: no user has a value of these."""
    by_people = (metric for metric in metrics if metric.relevance == human)
    return tuple(
        replace(metric, column="", relevance="", standard="", standard_column="", estimated=human)
        for metric in by_people
    )


def without_standards(per_user: DataFrame) -> DataFrame:
    """A per-user table without the columns that only notes and warnings are made of."""
    schema = PerUserSchema.read(per_user)
    left_out = {metric.standard_column for metric in schema.metrics}
    left_out |= {name for name in schema.counts if name.startswith(OVERLAP)}
    return per_user.select(*(column(name) for name in per_user.columns if name not in left_out))


def table_hash(table: str) -> str:
    """The column of the hashes of users' rows of a table."""
    return f"{table}_hash"


def hashes_by_name(frame: DataFrame) -> dict[str, str]:
    """The columns of hashes of a table whose storage lost the metadata, by table.

    As floats, which pandas makes of whole numbers with nulls, hashes have lost digits.
    """
    there = {table: table_hash(table) for table in TABLES if table_hash(table) in frame.columns}
    return {table: name for table, name in there.items() if not isinstance(frame.schema[name].dataType, T.DoubleType)}


def type_of_count(name: str) -> T.DataType:
    """The type of a count's column."""
    return T.DoubleType() if is_sum(name) else T.LongType()


def how_marks_are_read(frame: DataFrame) -> str:
    """Where an engine keeps metadata that it leaves out by default; empty if the engine always reads it."""
    if engine_of(frame.sparkSession).is_spark:
        return ""
    return ". On Sail, Parquet keeps it with option('skip_metadata', 'false'), Delta by path, Iceberg never"


def marked_as_model(names: Column, name: str, models: Sequence[str]) -> Column:
    """A column of models' names, under a name and with its mark."""
    return PerUserSchema(model=name, models=tuple(models)).marked([names])[0]


def marked_as_covariate(frame: DataFrame, name: str) -> DataFrame:
    """The table with a column that was a metric of an earlier table, and is no metric of this one."""
    if not mark_of(frame.schema[name]):
        return frame
    # Empty metadata would not do: on Spark 3.5 a column without any takes that of the column that it is made of.
    marked = column(name).alias(name, metadata={MARK_KEY: json.dumps({"kind": "covariate"})})
    return frame.withColumn(name, marked)


# Values computed in floating point may lie a hair below the bound that they stand for: 0.15 / 0.05 is 2.9999999999999996.
_HAIR = 1e-9


def users_by_value(frame: DataFrame, name: str, grid: Grid, *, leave_out: float | None = None) -> Counts:
    """Count the users of a per-user table by their value in a column, in one action.

    It returns one row per model and bin that is not empty. NaN, null and `leave_out` are in no bin.
    Without a column of models all rows are of one without a name.
    """
    value = column(name)
    keep = value.isNotNull() & ~F.isnan(value)
    if leave_out is not None:
        keep &= value != F.lit(leave_out)
    bin_number = F.floor((value - F.lit(grid.low)) / F.lit(grid.width) + F.lit(_HAIR))
    bin_index = F.greatest(F.least(bin_number, F.lit(grid.n - 1)), F.lit(0)).cast("int")
    counts: Counts = {}
    bins = frame.where(keep).select(_model(frame), bin_index.alias("bin")).groupBy("model", "bin")
    for model, index, count in bins.agg(F.count(F.lit(1))).collect():
        counts.setdefault(model, {})[index] = count
    return counts


def users_by_difference(differences: DataFrame, metric: str, grid: Grid) -> Counts:
    """Count the users of a table of `differences` by theirs in a metric; those without any difference are in no bin."""
    return users_by_value(differences, PerUserSchema.read(differences).differences[metric], grid, leave_out=0.0)


_NEEDED = ("n_predictions", "n_relevant", "left_out")


def queries_of(per_user: DataFrame, rows: Sequence[SummaryRow], columns: Mapping[str, str]) -> dict[str, list[Query]]:
    """Every query of every model, in the order of trec_eval: by the bytes of their names."""
    users = PerUserSchema.read(per_user).users
    if not users:
        msg = "per_query=True needs a user column, and this result has none; leave per_query=True out"
        raise InputError(msg)
    name = readable(call("concat_ws", text("/"), *[text_in_sql(per_user, user) for user in users])).column.alias(
        "query"
    )
    # A metric of all lists together has no value of a query.
    cells = [column(columns[row.key]) if row.key in columns else F.lit(math.nan) for row in rows]
    values = F.array(*cells).alias("values")
    counts = [column("n_predictions"), column("n_relevant"), _hits(rows, columns).alias("found")]
    queries_by_model: dict[str, list[Query]] = {}
    for row in _counted(per_user).select(_model(per_user), name, *counts, values).collect():
        query = Query(row["query"], row["n_predictions"], row["n_relevant"], row["found"], row["values"])
        queries_by_model.setdefault(row["model"], []).append(query)
    return {
        model: sorted(queries, key=lambda query: query.name.encode()) for model, queries in queries_by_model.items()
    }


def totals_of(per_user: DataFrame, rows: Sequence[SummaryRow], columns: Mapping[str, str]) -> dict[str, Query]:
    """All queries of each model together, without values."""
    hits = _hits(rows, columns)
    grouped = (
        _counted(per_user)
        .groupBy(_model(per_user))
        .agg(
            F.count(F.lit(1)).alias("queries"),
            F.sum("n_predictions").alias("retrieved"),
            F.sum("n_relevant").alias("relevant"),
            F.when(F.count(hits) == F.count(F.lit(1)), F.sum(hits)).alias("found"),
        )
    )
    return {
        row["model"]: Query("all", row["retrieved"], row["relevant"], row["found"], (), row["queries"])
        for row in grouped.collect()
    }


def _counted(per_user: DataFrame) -> DataFrame:
    """The users whom the means are about."""
    missing = [name for name in _NEEDED if name not in per_user.columns]
    if missing:
        msg = f"the output of trec_eval needs the counts of users, and the per-user table has no {', '.join(missing)}"
        raise InputError(msg)
    return per_user.where(column("left_out") == 0)


def _model(per_user: DataFrame) -> Column:
    """The model of each row, by its name; empty if the table has one without a name."""
    name = PerUserSchema.read(per_user).model
    return (F.lit("") if name is None else model_in(per_user, name)).alias("model")


def _hits(rows: Sequence[SummaryRow], columns: Mapping[str, str]) -> Column:
    """How many relevant items of a user were predicted, by the first metric that tells it; null if none does."""
    candidates = [F.lit(None).cast("bigint")]
    for row in rows:
        divisor = None if row.relevance or row.key not in columns else _divisor(row)
        if divisor is not None:
            value = F.round(F.nanvl(column(columns[row.key]), F.lit(0.0)) * divisor).cast("bigint")
            candidates.insert(-1, value)
    return F.coalesce(*candidates)


def _divisor(row: SummaryRow) -> Column | None:
    """What a share of the hits is a share of; null for a user whose list is longer than the metric looks."""
    try:
        short_form, metric = parse_metric(row.metric), parse_metric(row.definition)
    except MetricError:
        return None
    chosen: dict[str, Any] = metric.chosen()
    # The counts are of the threshold of all metrics.
    if "relevance_threshold" in short_form.chosen() or chosen.get("ties") in ("average", "grade_asc"):
        return None
    whole: Column = {
        ("recall", "labels"): column("n_relevant"),
        ("precision", "k"): column("n_predictions") if metric.k is None else F.lit(metric.k),
    }.get((metric.name, chosen.get("denominator")))  # type: ignore[arg-type, assignment] # None for any other metric
    if whole is None or metric.k is None:
        return whole
    return F.when(column("n_predictions") <= metric.k, whole)


def metrics_column(
    predictions: str | Column,
    labels: str | Column,
    metrics: str | Metric | Iterable[str | Metric] | Mapping[str, str | Metric],
    *,
    scores: str | Column | None = None,
    relevance: str | Column | None = None,
    dialect: str | Dialect = "default",
    ties: str | None = None,
) -> Column:
    """Compute metrics from arrays in the same row, as a struct with a field for each metric; a pandas UDF does it.

    ``df.select("user", metrics_column("predictions", "labels", ["ndcg@10", "rr"]).alias("metrics"))``

    Nothing raises while the column is computed. NaN means, as elsewhere, that the metric is undefined for the row. If `evaluate` would
    refuse a row, all its metrics are null, and ``n_invalid`` counts the entries that are wrong. That is so for a null array or entry,
    a NaN score, arrays of unequal length, and an item twice. It is so for a negative grade, and for ids that do not
    compare. It is also so for an id that is not UTF-8, which pandas cannot read.

    Examples:
        >>> lists = spark.createDataFrame([(["a", "b", "c"], ["c"])], "predictions array<string>, labels array<string>")
        >>> lists.select(metrics_column("predictions", "labels", ["rr", "recall@2"]).alias("metrics")).select("metrics.*").toPandas()
                 rr  recall_at_2  n_invalid
        0  0.333333          0.0          0

    Args:
        predictions: the array of items, best first; in any order if `scores` are given.
        labels: the array of labelled items.
        metrics: as in `evaluate`.
        scores: the array of scores beside `predictions`. None: the items are in order.
        relevance: the array of grades beside `labels`. None: every labelled item has grade 1.
        dialect: as in `evaluate`. An array with a null item is refused in every dialect.
        ties: how equal scores are ordered, or ``average``, as in `evaluate`. None: as the dialect says.

    Raises:
        MetricError: a name or parameter is not known.
        DialectError: the dialect is not known, or lacks a metric.
        InputError: an array is neither a column name nor a Column.
        OptionError: `ties` is not known, or is ``average`` and a metric has none.
    """
    convention = find_dialect(dialect)
    parsed = parse_metrics(metrics)
    names = column_names(parsed, taken=(N_INVALID,))
    one_of("ties", ties, (None, "item_asc", "item_desc", "position", "average"))
    relevances = () if relevance is None else ("relevance",)
    lists = Lists(scores is not None, label_arrays=True, relevances=relevances, has_scores=scores is not None)
    resolved = resolve(parsed, convention, {}, lists, ties)
    views, values = views_of(resolved, convention, lists, ties=ties)  # type: ignore[arg-type] # checked above
    task = ScoringTask(
        views=tuple(views),
        array_models=(0,),
        label_arrays=True,
        unusual_grades=convention.unusual_grades,
    )
    fields_of_values = [names[value.label] for value in values]
    arguments = {"items": predictions, "labels": labels, "scores": scores, "grades": relevance}
    for name, value in zip(("predictions", "labels", "scores", "relevance"), arguments.values(), strict=True):
        optional = name in ("scores", "relevance") and value is None
        if not (optional or hasattr(type(value), "getField") or (isinstance(value, str) and value.strip())):
            msg = f"{name} must be a column name or a Column; got {value!r}"
            raise InputError(msg)
    arrays = {name: _without_null_entries(value) for name, value in arguments.items() if value is not None}
    arrays |= {name: _readable_ids(arrays[name]) for name in ("items", "labels")}
    if "grades" in arrays:
        # Thresholds are rounded as the grades are.
        arrays["single"] = F.typeof(arrays["grades"]) == "array<float>"
    # Scores and grades may be any numbers.
    arrays |= {name: arrays[name].cast("array<double>") for name in ("scores", "grades") if name in arrays}
    fields = [T.StructField(name, T.DoubleType()) for name in fields_of_values]
    returned = T.StructType([*fields, T.StructField(N_INVALID, T.LongType())])
    udf = pandas_function(score_series(task, tuple(arrays), tuple(fields_of_values)), returned)
    scored = udf(*arrays.values())
    # Arrow turns NaN in a pandas frame into null, but null must mean that the row was refused.
    fine = scored.getField(N_INVALID) == 0
    shown = [
        F.when(fine, F.coalesce(scored.getField(name), F.lit(float("nan")))).alias(name) for name in names.values()
    ]
    return F.struct(*shown, scored.getField(N_INVALID).alias(N_INVALID))


def _readable_ids(array: Column) -> Column:
    """The array, or null if its ids do not compare by their values or pandas cannot read one."""
    # The separator keeps the bytes of two ids from forming one character. For numbers, Spark's planner drops all of this.
    together = F.concat_ws("\n", array.cast("array<string>"))
    # An empty match decodes the string and encodes it again, which replaces what is not UTF-8.
    is_utf8 = F.regexp_replace(together, "^", "") == together
    plain = F.typeof(array).rlike("^array<(tinyint|smallint|int|bigint|float|double|void)>$")
    return F.when(plain | ((F.typeof(array) == "array<string>") & is_utf8), array)


def _without_null_entries(array: str | Column) -> Column:
    """The array, or null if an entry is null: beside a null, pandas would turn whole numbers into rounded floats."""
    if isinstance(array, str):
        # A name with a dot is a field of a struct.
        array = F.col(array) if "." in array else column(array)
    return F.when(~F.exists(array, lambda entry: entry.isNull()), array)
