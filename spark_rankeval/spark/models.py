"""Tables of users to compare: their columns, by their marks or the caller's names, and the users of several models."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.checks import check_table
from spark_rankeval.errors import InputError, listed
from spark_rankeval.records.comparisons import note_of_labels, notes_of_tables
from spark_rankeval.records.stored import SHARED
from spark_rankeval.request.call import COUNTS, GRADING_WEIGHT, OnInvalid
from spark_rankeval.spark import per_user, sql
from spark_rankeval.spark.engine import MESSAGE_SCHEMA, collected_messages, run_on_workers
from spark_rankeval.spark.grouping import agreed
from spark_rankeval.spark.source_tables import user_column
from spark_rankeval.worker import comparing
from spark_rankeval.worker.features import JudgedFigures, judged_figures
from spark_rankeval.worker.process import Merger, Message, Run
from spark_rankeval.worker.reading import CLUSTER_HASH, NO_USER, STRATUM, USER_HASH, hash_column, slice_column
from spark_rankeval.worker.states import ClusterStates, merged_clusters

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


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
    metrics: dict[str, per_user.MetricColumn]  # its metrics by label
    errors: dict[str, int]  # by how much a column that counts rows adds to the number of those that were to be an error
    model: str | None = None  # the model's name; None: `model_column` says whose a row is
    model_column: str | None = None  # the column of models' names
    weights: tuple[str, ...] = ()  # columns of users' weights
    extra_columns: tuple[str, ...] = ()  # columns whose values follow those of the metrics
    clusters: tuple[str, ...] = ()  # columns that make users a cluster; none: users are independent
    keeps_without_cluster: bool = False  # whether users without a cluster were chosen to count as clusters alone
    dialect: str = ""  # whose conventions filled what metrics leave open
    hashes: Mapping[str, str] = field(default_factory=dict)  # the columns of hashes of users' rows, by table
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
    schema = per_user.PerUserSchema.read(frame)
    if not schema.is_marked:
        _refuse_predictions(frame, users, name)
    user = _named(frame, users or (), name) or schema.users
    if not user:
        how = per_user.how_marks_are_read(frame)
        msg = f"{name} has lost the metadata that marks its user columns; pass user={how}. It has: {sql.columns_in_words(frame)}"
        raise InputError(msg)
    # A table that was joined from two may have several.
    marked = tuple(item.name for item in frame.schema.fields if sql.mark_of(item).get("kind") == "model")
    models: tuple[str, ...] = ()
    if model is None:
        models = _column_of_models(frame, model_column, marked, name, is_scored=schema.is_marked)
    metrics = _metrics_of(frame, schema, {*user, *(models or marked)})
    if not metrics and schema.is_marked:
        msg = f"{name} has no metric of each user, and those of all lists together are not compared; evaluate one such as ndcg@10, too"
        raise InputError(msg)
    if not metrics:
        msg = f"{name} has no metric column; it has: {sql.columns_in_words(frame)}. Pass a table of score_users"
        raise InputError(msg)
    sql.check_types(frame, user, "user", name)
    sql.check_types(frame, models, "model", name)
    errors = _errors_of(frame, schema)
    sql.check_unambiguous(frame, (*user, *models, *(metric.column for metric in metrics.values()), *errors))
    weights = () if schema.weight is None else (schema.weight,)
    cluster_columns = schema.clusters if clusters is None else _named(frame, clusters, name)
    sql.check_types(frame, cluster_columns, "cluster", name)
    sql.check_unambiguous(frame, cluster_columns)
    keeps = bool(schema.metrics) and OnInvalid.read(schema.settings.on_invalid).missing_clusters == "drop"
    return ModelTable(
        frame, user, metrics, errors, model, next(iter(models), None), weights, clusters=cluster_columns,
        keeps_without_cluster=keeps, dialect=schema.settings.dialect, hashes=schema.hashes or per_user.hashes_by_name(frame),
        judges=_judges_of(frame, schema),
        notes=notes_of_tables(schema.settings.labels),
    )  # fmt: skip


def _judges_of(frame: DataFrame, schema: per_user.PerUserSchema) -> Judges | None:
    settings = schema.settings
    has_weights = sql.find_column(frame, GRADING_WEIGHT) is not None
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
            f"has: {sql.columns_in_words(frame)}"
        )
        raise InputError(msg)
    return columns


def _errors_of(frame: DataFrame, schema: per_user.PerUserSchema) -> dict[str, int]:
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
            f"predictions, …}}, labels, metrics). It has: {sql.columns_in_words(frame)}"
        )
        raise InputError(msg)


def _same_names(wanted: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """The wanted names among others, in any case if none is the same; fewer if some are lacking."""
    lower_case = {name.lower(): name for name in names}
    same = [name if name in names else lower_case.get(name.lower()) for name in wanted]
    return tuple(name for name in same if name is not None)


def _named(frame: DataFrame, names: Sequence[str], table: str) -> tuple[str, ...]:
    columns = []
    for name in names:
        existing = sql.find_column(frame, name)
        if existing is None:
            msg = f"{table} has no column {name!r}; it has: {sql.columns_in_words(frame)}"
            raise InputError(msg)
        columns.append(existing)
    return tuple(columns)


def _metrics_of(frame: DataFrame, schema: per_user.PerUserSchema, taken: set[str]) -> dict[str, per_user.MetricColumn]:
    """The metrics of a table by their keys; of a table whose storage lost the metadata, every column of floats."""
    if schema.metrics:
        return {metric.key: metric for metric in schema.metrics}
    floats = [field.name for field in frame.schema.fields if isinstance(field.dataType, T.DoubleType | T.FloatType)]
    return {name: per_user.MetricColumn(name, name) for name in floats if name not in taken}


_ROW, _BASELINE = "row", "baseline"


class Collected(NamedTuple):
    """The merged states of all users, of their clusters by the names of groups, and what two judges say."""

    users: comparing.ComparisonStates
    clusters: ClusterStates
    judged: JudgedFigures

    @classmethod
    def from_messages(cls, messages: Sequence[Message]) -> Collected:
        """What the messages of all partitions have."""
        states = comparing.ComparisonStates.merged(
            message.state for message in messages if message.kind == comparing.COMPARISON
        )
        return cls(states, merged_clusters(messages), judged_figures(messages))


@dataclass(frozen=True)
class ModelTables:
    """Tables whose users compare."""

    tables: tuple[ModelTable, ...]  # one a model, or one of all
    user_types: tuple[T.DataType, ...]  # the types of the user's columns, wide enough for all tables

    @classmethod
    def checked(cls, tables: Sequence[ModelTable]) -> ModelTables:
        """The tables; columns of users and clusters that have the same names are the same, and get the order of the first table."""
        first = tables[0]
        types = [first.frame.schema[name].dataType for name in first.users]
        ordered = [first]
        for other in tables[1:]:
            names = _same_names(first.users, other.users)
            if sorted(names) != sorted(other.users):
                msg = (
                    f"the tables have different user columns: {', '.join(first.users)} in {first.name}, "
                    f"{', '.join(other.users)} in {other.name}; rename them"
                )
                raise InputError(msg)
            for index, name in enumerate(names):
                wanted, kind = types[index], other.frame.schema[name].dataType
                common = sql.common_id_type(wanted, kind)
                if common is None:
                    msg = (
                        f"users have different types: {name!r} is {wanted.simpleString()} in {first.name} and "
                        f"{kind.simpleString()} in {other.name}. Cast one of them, or read it with a schema"
                    )
                    raise InputError(msg)
                types[index] = common
            if sorted(map(str.lower, other.clusters)) != sorted(map(str.lower, first.clusters)):
                here, there = (", ".join(table.clusters) or "none" for table in (first, other))
                msg = f"the tables have different clusters: {here} in {first.name}, {there} in {other.name}; pass cluster="
                raise InputError(msg)
            ordered.append(replace(other, users=names, clusters=_same_names(first.clusters, other.clusters)))
        return cls(tuple(ordered), tuple(types))

    @property
    def names(self) -> list[str]:
        """The models' names, if the tables are known by them."""
        return [table.model for table in self.tables if table.model is not None]

    @property
    def clusters(self) -> tuple[str, ...]:
        """The columns that make users a cluster; none: users are independent."""
        return self.tables[0].clusters

    @property
    def judges(self) -> Judges | None:
        """The two judges of the grades, if all tables have the same two."""
        judges = {table.judges for table in self.tables}
        return self.tables[0].judges if len(judges) == 1 else None

    def by_both_judges(self) -> ModelTables:
        """These tables with the metrics that two judges estimate, whose values are those by people."""
        assert self.judges is not None, "they have two judges"
        human = self.judges.human
        tables = [
            replace(
                table,
                metrics={
                    metric.label: replace(metric, relevance="", standard="", standard_column="")
                    for metric in table.metrics.values()
                    if metric.relevance == human
                },
            )
            for table in self.tables
        ]
        return replace(self, tables=tuple(tables))

    def with_values_of_judge(self, labels: Sequence[str]) -> ModelTables:
        """These tables with columns behind those of the metrics: their values by the model, and the users' grading weights."""
        assert self.judges is not None, "they have two judges"
        judge = self.judges.judge
        tables = []
        for table in self.tables:
            columns = {
                m.label: m.column for m in per_user.PerUserSchema.read(table.frame).metrics if m.relevance == judge
            }
            weight = sql.find_column(table.frame, GRADING_WEIGHT) or GRADING_WEIGHT
            tables.append(replace(table, extra_columns=(*(columns[label] for label in labels), weight)))
        return replace(self, tables=tuple(tables))

    @property
    def keeps_without_cluster(self) -> bool:
        """Whether users without a cluster count as clusters alone: all tables were scored so, with ``on_invalid="drop"``."""
        return all(table.keeps_without_cluster for table in self.tables)

    def notes_without_cluster(self, n_users: int) -> tuple[str, ...]:
        """The note on users without a cluster, if there are any."""
        if not n_users:
            return ()
        return (f"users without a cluster by {', '.join(self.clusters)}: {n_users:,}; each counts as a cluster alone",)

    @property
    def labels(self) -> list[str]:
        """The metrics that all tables have, in the order of the first."""
        return [label for label in self.tables[0].metrics if all(label in table.metrics for table in self.tables)]

    @property
    def without_hashes(self) -> list[str]:
        """The tables that do not say which labels they were made from."""
        return [table.name for table in self.tables if not table.hashes]

    @property
    def shared_tables(self) -> tuple[str, ...]:
        """The tables that models should share, as far as their users tell whether they do."""
        if self.without_hashes:
            return ()
        return tuple(name for name in SHARED if any(name in table.hashes for table in self.tables))

    def notes(self, labels: Sequence[str]) -> tuple[str, ...]:
        """What figures of these metrics could be taken for."""
        noted = [label for label in labels if any(table.metrics[label].standard for table in self.tables)]
        notes = list(filter(None, [note_of_labels(self.metric_names(noted))]))
        for note in dict.fromkeys(note for table in self.tables for note in table.notes):
            names = [table.name for table in self.tables if note in table.notes]
            notes.append(note if len(names) == len(self.tables) else f"{listed(names)}: {note}")
        return tuple(notes)

    def caller_key(self, label: str) -> str:
        """What the caller called a metric, in the first table; empty: by its label."""
        return self.tables[0].metrics[label].caller_key

    def metric_names(self, labels: Iterable[str]) -> list[str]:
        """The metrics as the caller called them."""
        return [self.caller_key(label) or label for label in labels]

    def check_definitions(self, labels: Sequence[str]) -> None:
        """Refuse labels that do not mean the same in all tables."""
        for label in labels:
            definitions = [(table, definition) for table in self.tables if (definition := table.definition(label))]
            for table, definition in definitions[1:]:
                first, expected = definitions[0]
                if definition != expected:
                    msg = (
                        f"{label!r} is not the same metric in all tables: {expected} in {first.name}, "
                        f"{definition} in {table.name}. Evaluate both alike, or leave it out with metrics="
                    )
                    raise InputError(msg)

    def check_attributes(self, by: Sequence[str]) -> None:
        """Refuse attributes that a table does not have."""
        for table in self.tables:
            lacking = [name for name in by if sql.find_column(table.frame, name) is None]
            if lacking:
                msg = (
                    f"by={list(by)}: {table.name} has no column {lacking[0]!r}; it has: {sql.columns_in_words(table.frame)}. Keep it with "
                    "score_users(by=…), or join it"
                )
                raise InputError(msg)
            sql.check_types(table.frame, (str(sql.find_column(table.frame, name)) for name in by), "slice", table.name)

    def grouped(self, labels: Sequence[str], by: Sequence[str] = (), shared: Sequence[str] = ()) -> DataFrame:
        """One row per user: the user's columns, and an array with one struct per row of the tables with the metrics' values in their order.

        Attributes of the user become columns of text, null if rows do not agree, beside the number of those. The structs also have the
        hashes of the user's rows of shared tables.
        """
        tables = [self._rows(table, labels, by, shared) for table in self.tables]
        together = sql.rows_of_all(tables)
        named_so = [slice_column(index) for index in range(len(by))]
        attributes = agreed([*named_so, *self._columns_of_draws], comparing.CONFLICTS)
        users = [user_column(index) for index in range(len(self.user_types))]
        return sql.aggregate_lists(
            together, users, sql.call("collect_list", sql.named(_ROW)).alias(comparing.ROWS), *attributes
        )

    @property
    def stratum(self) -> str | None:
        """The column of the strata from which users were drawn for people to grade; None: there is one, or one judge."""
        return self.judges.stratum if self.judges is not None and self.tables[0].extra_columns else None

    @property
    def _columns_of_draws(self) -> list[str]:
        """The columns of a user's cluster and stratum on the way, as far as there are any."""
        return [*([CLUSTER_HASH] if self.clusters else []), *([] if self.stratum is None else [STRATUM])]

    def _users(self) -> list[Column]:
        return [F.col(user_column(index)) for index in range(len(self.user_types))]

    def _rows(self, table: ModelTable, labels: Sequence[str], by: Sequence[str], shared: Sequence[str]) -> DataFrame:
        typed = enumerate(zip(table.users, self.user_types, strict=True))
        users = [sql.column(name).cast(type_).alias(user_column(index)) for index, (name, type_) in typed]
        errors = [
            F.coalesce(sql.column(name).cast("bigint"), F.lit(0)) * weight for name, weight in table.errors.items()
        ]
        named_values = [*(table.metrics[label].column for label in labels), *table.extra_columns]
        doubles = [sql.column(name).cast("double") for name in named_values]
        # A column's metadata, which the greatest of two loses, would stay behind in a struct of Sail's plans.
        values = [F.greatest(value, value).alias(comparing.value_field(index)) for index, value in enumerate(doubles)]
        n_invalid = reduce(operator.add, errors, F.lit(0).cast("bigint")).alias(comparing.INVALID)
        hashes = [_hash_of(table, name).alias(hash_column(name)) for name in shared]
        row = F.struct(
            _model_of(table).alias(comparing.MODEL),
            n_invalid,
            _n_predictions(table).alias(comparing.N_PREDICTIONS),
            *values,
            *hashes,
        )
        attributes = [
            sql.name_in_sql(table.frame, sql.find_column(table.frame, name) or name).alias(slice_column(index)).column
            for index, name in enumerate(by)
        ]
        stratum = self.stratum
        strata = [] if stratum is None else [sql.name_in_sql(table.frame, stratum).alias(STRATUM).column]
        return table.frame.select(*users, row.alias(_ROW), *attributes, *self._cluster(table), *strata)

    def _cluster(self, table: ModelTable) -> list[Column]:
        """The hash of the cluster of each row's user, null if one of its columns is; none if users are independent."""
        if not self.clusters:
            return []
        types = dict(zip(table.users, self.user_types, strict=True))
        columns = (
            (sql.named(name).cast(types[name]), types[name])
            if name in types
            else (sql.name_in_sql(table.frame, name), T.StringType())
            for name in table.clusters
        )
        return [sql.cluster_hash(columns).alias(CLUSTER_HASH).column]

    def collected(
        self,
        labels: Sequence[str],
        run: Run,
        bytes_each: int,
        by: Sequence[str] = (),
        shared: Sequence[str] = (),
        clusters: Merger | None = None,
    ) -> Collected:
        """Run the worker on all users, and merge the states of its partitions, in one action.

        `clusters` merges what users of a cluster have, if the worker sends them on.
        """
        attributes = [*map(slice_column, range(len(by))), *self._columns_of_draws]
        attributes += [comparing.CONFLICTS] if attributes else []
        users = [sql.named(user_column(index)) for index in range(len(self.user_types))]
        hashed = sql.user_hash(users, self.user_types).column.alias(USER_HASH)
        is_null_user = sql.any_null(self._users()).alias(NO_USER)
        grouped = self.grouped(labels, by, shared).select(hashed, is_null_user, comparing.ROWS, *attributes)
        messages = collected_messages(
            run_on_workers(grouped, run, MESSAGE_SCHEMA), comparing.merging_comparisons(clusters), bytes_each,
            have_buckets=bool(by) or clusters is not None,
        )  # fmt: skip
        return Collected.from_messages(messages)

    def n_rows_without_model(self) -> int:
        """How many rows have a null in the column of models, which reads as the name ``null``: an action."""
        columns = [(table.frame, table.model_column) for table in self.tables if table.model_column is not None]
        return sum(frame.where(sql.column(name).isNull()).count() for frame, name in columns)

    def repeated_user(self, model: str) -> str:
        """A user who stands in several rows of a model, for a message; empty if there is none."""
        for table in self.tables:
            if table.model not in (None, model):
                continue
            users = [sql.column(name).alias(user_column(index)) for index, name in enumerate(table.users)]
            rows = (
                table.frame.where(_model_of(table) == F.lit(model)).select(*users).where(~sql.any_null(self._users()))
            )
            repeated = rows.groupBy(*rows.columns).count().where("count > 1").limit(1)
            shown = [sql.for_example(sql.named(field.name), field.dataType).column for field in rows.schema.fields]
            examples = repeated.select(*shown, "count").collect()
            if examples:
                pairs = zip(self.tables[0].users, examples[0], strict=False)
                return ", ".join(f"{name}={value!r}" for name, value in pairs) + f" in {examples[0]['count']} rows"
        return ""

    def differences(self, labels: Sequence[str], baseline: str) -> DataFrame:
        """One row per user and model other than the baseline: each metric less the baseline's."""
        first = self.tables[0]
        model = first.model_column or "model"
        columns = {label: first.metrics[label].caller_column for label in labels}
        if len(set(columns.values())) < len(columns):
            columns = {label: first.metrics[label].column for label in labels}
        taken = [name for name in (*first.users, *columns.values()) if name.lower() == model.lower()]
        if taken:
            msg = f"the column {taken[0]!r} has the name that the model column gets; rename it"
            raise InputError(msg)
        grouped = self.grouped(labels).where(~sql.any_null(self._users()))
        baseline_row = F.get(F.filter(comparing.ROWS, lambda row: row[comparing.MODEL] == F.lit(baseline)), F.lit(0))
        others = F.filter(comparing.ROWS, lambda row: row[comparing.MODEL] != F.lit(baseline))
        rows = grouped.select(*self._users(), baseline_row.alias(_BASELINE), F.explode(others).alias(_ROW))
        values = [
            F.col(_ROW).getField(comparing.value_field(index)) - F.col(_BASELINE).getField(comparing.value_field(index))
            for index in range(len(columns))
        ]
        schema = per_user.PerUserSchema(users=first.users, model=model, models=(), differences=columns)
        differences = [F.coalesce(value, F.lit(math.nan)) for value in values]
        return rows.select(*schema.marked([*self._users(), F.col(_ROW).getField(comparing.MODEL), *differences]))


def _n_predictions(table: ModelTable) -> Column:
    """How many predictions a row's user has; 1 if that is not known."""
    name = sql.find_column(table.frame, comparing.N_PREDICTIONS)
    count = F.lit(1) if name is None else sql.column(name)
    # All tables need the same type, nulls included.
    return F.coalesce(count.cast("bigint"), F.lit(1)) * F.lit(1)


def _hash_of(table: ModelTable, name: str) -> Column:
    """The hash of the user's rows of a table that models share: 0 if there are none, null if that is not known."""
    if name not in table.hashes:
        return F.lit(0).cast("bigint")
    hashes = sql.column(table.hashes[name]).cast("bigint")
    # Whom nothing was recommended to, nothing could be excluded for.
    return hashes if name == "exclude" else F.coalesce(hashes, F.lit(0))


def _model_of(table: ModelTable) -> Column:
    return F.lit(table.model) if table.model_column is None else sql.model_in(table.frame, table.model_column)
