"""One table of users to compare: its columns, by their marks or the caller's names, and what of it cannot be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from pyspark.sql import types as T

from spark_rankeval.checks import check_table
from spark_rankeval.errors import InputError
from spark_rankeval.records.notes import notes_of_tables
from spark_rankeval.request.counts import COUNTS, GRADING_WEIGHT
from spark_rankeval.request.on_invalid import OnInvalid
from spark_rankeval.spark.ids import check_types
from spark_rankeval.spark.per_user import (
    MetricColumn,
    PerUserSchema,
    Settings,
    columns_of_models,
    hashes_by_name,
    how_marks_are_read,
)
from spark_rankeval.spark.sql_text import check_unambiguous, find_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Judges(NamedTuple):
    """The two judges of a table, by their columns of grades, and how users were drawn for people to grade."""

    human: str
    judge: str
    draw: str
    stratum: str | None  # the column of strata


@dataclass(frozen=True)
class ModelTable:
    """One table of users, of one model or of several."""

    frame: DataFrame
    users: tuple[str, ...]  # the user's columns
    metrics: dict[str, MetricColumn]  # its metrics by label
    errors: dict[str, int]  # by how much a column that counts rows adds to the number of those that were to be an error
    model: str | None = None  # the model's name; None: `model_column` says whose a row is
    model_column: str | None = None  # the column of models' names
    weights: tuple[str, ...] = ()  # columns of users' weights
    extra_columns: tuple[str, ...] = ()  # columns whose values follow those of the metrics
    clusters: tuple[str, ...] = ()  # columns that make users a cluster; none: users are independent
    keeps_without_cluster: bool = False  # whether users without a cluster were chosen to count as clusters alone
    dialect: str = ""  # whose conventions filled what metrics leave open
    hashes: Mapping[str, str] = field(default_factory=dict)  # the columns of hashes of users' rows, by table
    unit: str = Settings.unit  # what lists are for, in words
    judges: Judges | None = None  # the two judges of the grades, if there are two
    notes: tuple[str, ...] = ()  # what its figures could be mistaken for, because of the tables that it was made of

    def definition(self, label: str) -> str:
        """What a metric means here; empty if the table does not say."""
        definition = self.metrics[label].definition
        return f"{definition} in the dialect {self.dialect!r}" if definition else ""

    @property
    def name(self) -> str:
        """What messages call it."""
        return "the table" if self.model is None else f"{self.model!r}"

    def users_like(self, names: Sequence[str]) -> list[str]:
        """The user's columns of these names, in any case if none has the same; fewer if some are lacking."""
        lower_case = {name.lower(): name for name in self.users}
        same = [name if name in self.users else lower_case.get(name.lower()) for name in names]
        return [name for name in same if name is not None]


def read_table(
    frame: DataFrame,
    model: str | None,
    users: Sequence[str] | None,
    model_column: str | None,
    clusters: Sequence[str] | None = None,
) -> ModelTable:
    """Find the columns of a per-user table, by the caller's names or else by their metadata.

    With a model's name all rows are that model's, whatever a column holds. A table without user, model or metric is an InputError.
    """
    name = "the table" if model is None else f"the table of {model!r}"
    check_table(name, frame, instead="a Result")
    schema = PerUserSchema.read(frame)
    if not schema.is_marked:
        _refuse_predictions(frame, users, name)
    user = _named(frame, users or (), name) or schema.users
    if not user:
        how = how_marks_are_read(frame)
        msg = f"{name} has lost the metadata that marks its user columns; pass user={how}. It has: {columns_in_words(frame)}"
        raise InputError(msg)
    marked = columns_of_models(frame)
    models: tuple[str, ...] = ()
    if model is None:
        models = _column_of_models(frame, model_column, marked, name, is_scored=schema.is_marked)
    metrics = _metrics_of(frame, schema, {*user, *(models or marked)})
    if not metrics:
        msg = f"{name} has no metric column; it has: {columns_in_words(frame)}. Pass a table of score_users"
        raise InputError(msg)
    check_types(frame, user, "user", name)
    check_types(frame, models, "model", name)
    errors = _errors_of(frame, schema)
    check_unambiguous(frame, (*user, *models, *(metric.column for metric in metrics.values()), *errors))
    weights = () if schema.weight is None else (schema.weight,)
    cluster_columns = schema.clusters if clusters is None else _named(frame, clusters, name)
    check_types(frame, cluster_columns, "cluster", name)
    check_unambiguous(frame, cluster_columns)
    keeps = bool(schema.metrics) and OnInvalid.read(schema.settings.on_invalid).missing_clusters == "drop"
    return ModelTable(
        frame, user, metrics, errors, model, next(iter(models), None), weights, clusters=cluster_columns,
        keeps_without_cluster=keeps, dialect=schema.settings.dialect, hashes=schema.hashes or hashes_by_name(frame),
        unit=schema.settings.unit, judges=_judges_of(frame, schema),
        notes=notes_of_tables(schema.settings.labels, schema.settings.k_counts, schema.settings.chunk_ids),
    )  # fmt: skip


def _judges_of(frame: DataFrame, schema: PerUserSchema) -> Judges | None:
    settings = schema.settings
    has_weights = find_column(frame, GRADING_WEIGHT) is not None
    if not (settings.human and has_weights):
        return None
    return Judges(settings.human, settings.judge, settings.draw, schema.stratum)


def refuse_one_model(table: str, model: str = "") -> NoReturn:
    """Refuse a result or a per-user table of one model, which has nothing to compare."""
    msg = (
        f"{table} has one model{f', {model!r}' if model else ''}, and a comparison needs two. Evaluate a dict of models, such as "
        "{'old': predictions, 'new': others}, or pass a dict of results or per-user tables by model name"
    )
    raise InputError(msg)


def _column_of_models(
    frame: DataFrame, model_column: str | None, marked: tuple[str, ...], name: str, *, is_scored: bool
) -> tuple[str, ...]:
    """The only column of models' names, by the caller's name or by the metadata."""
    columns = _named(frame, () if model_column is None else [model_column], name) or marked
    if not columns and is_scored:
        refuse_one_model(name)
    if len(columns) != 1:
        msg = (
            "one table must hold several models and name them in a column; pass model=, or a dict of tables by model name. It "
            f"has: {columns_in_words(frame)}"
        )
        raise InputError(msg)
    return columns


def _errors_of(frame: DataFrame, schema: PerUserSchema) -> dict[str, int]:
    # A table without metadata is taken at its word.
    scored = OnInvalid.read(schema.settings.on_invalid if schema.metrics else "drop")
    errors = {name: weight for name, weight in scored.weights(scored).items() if weight and name in frame.columns}
    if schema.settings.conflicting_labels == "last":
        errors.pop("n_conflicting_labels", None)
    return errors


# What tables of predictions call the item.
_ITEMS = ("item", "items", "item_id", "itemid", "predictions", "recommendations")


def _refuse_predictions(frame: DataFrame, users: Sequence[str] | None, name: str) -> None:
    """Refuse a table with one row per prediction: its scores would pass for users' values of a metric."""
    names = {column.lower() for column in frame.columns} - {user.lower() for user in users or ()}
    if names.intersection(_ITEMS) and not names.intersection(COUNTS):
        msg = (
            f"{name} holds predictions, not values of users; evaluate first, and compare the result of evaluate({{model: "
            f"predictions, …}}, labels, metrics). It has: {columns_in_words(frame)}"
        )
        raise InputError(msg)


def columns_in_words(frame: DataFrame) -> str:
    """The columns of a table and their types, for a message."""
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in frame.schema.fields)


def _named(frame: DataFrame, names: Sequence[str], table: str) -> tuple[str, ...]:
    columns = []
    for name in names:
        existing = find_column(frame, name)
        if existing is None:
            msg = f"{table} has no column {name!r}; it has: {columns_in_words(frame)}"
            raise InputError(msg)
        columns.append(existing)
    return tuple(columns)


def _metrics_of(frame: DataFrame, schema: PerUserSchema, taken: set[str]) -> dict[str, MetricColumn]:
    """The metrics of a table by their keys; of a table whose storage lost the metadata, every column of floats."""
    if schema.metrics:
        return {metric.key: metric for metric in schema.metrics}
    floats = [field.name for field in frame.schema.fields if isinstance(field.dataType, T.DoubleType | T.FloatType)]
    return {name: MetricColumn(name, name) for name in floats if name not in taken}
