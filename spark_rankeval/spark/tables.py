"""The caller's tables together: found, checked, and whether their users and items compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import types as T

from spark_rankeval.checks import check_table, is_name
from spark_rankeval.errors import InputError
from spark_rankeval.request.call import AttributeNames, ColumnNames, Table, Vectors
from spark_rankeval.spark.source import (
    LongTable,
    MarkedUsers,
    SourceFeature,
    SourceTable,
    TablesOfCall,
    check_comparable,
    read_source,
    require_column,
)
from spark_rankeval.spark.sql import (
    find_column,
    mark_of,
    named,
    problem_of_type,
    readable,
    select,
    text_in_sql,
)
from spark_rankeval.worker.reading import GRADED, STRATUM

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    Predictions = Table | Vectors | Mapping[str, Table | Vectors]


_MOST_MODELS = 100


class Model(NamedTuple):
    """The predictions of a model."""

    name: str  # what the caller calls it; empty if there is but one, without a name
    source: SourceTable


@dataclass(frozen=True)
class Sources:
    """The sides of the input."""

    # The predictions of each model; all of one table if a column says which model a row is of.
    models: tuple[Model, ...]
    labels: SourceTable
    users: SourceTable | None = None  # users to count besides
    exclude: SourceTable | None = None  # items to leave out of the predictions
    model_column: str | None = None  # the column that says which model a row of predictions is of
    attributes: SourceTable | None = None  # the table whose columns part the users into slices
    slices: tuple[str, ...] = ()
    weight: str | None = None  # the column of that table that has the users' weights
    # Columns of the user or of that table; users of the same values there are one cluster.
    clusters: tuple[str, ...] = ()
    features: tuple[SourceFeature, ...] = ()  # the tables of features
    weight_count: str | None = None  # the count of the per-user table that is the users' weight, if `weight` is not
    judged: Mapping[str, str] = field(
        default_factory=dict
    )  # the columns that say which users people graded, by their names on the way

    @property
    def predictions(self) -> SourceTable:
        """The predictions of the first model."""
        return self.models[0].source

    def take_long_table(self, table: LongTable) -> Sources:
        """These tables, as they stand in one long table."""
        return replace(self, labels=replace(self.labels, has_made_ids=table.has_made_ids))

    @property
    def marked_users(self) -> list[MarkedUsers]:
        """The users whom tables of features mark."""
        return [marked for feature in self.features for marked in feature.marked_users()]

    @property
    def tables_of_users(self) -> list[SourceTable]:
        """The tables of users alone who are to be evaluated."""
        return [*([] if self.users is None else [self.users]), *(marked.source for marked in self.marked_users)]

    @property
    def forms(self) -> list[tuple[int, ...]]:
        """The models by their index, with those together whose predictions have the same form."""
        forms: dict[str, tuple[int, ...]] = {}
        for index, model in enumerate(self.models):
            forms[model.source.form] = (*forms.get(model.source.form, ()), index)
        return list(forms.values())

    def side_tables(self) -> dict[str, SourceTable]:
        """The tables of features that are the same for every model, each once, by role; candidates are those of a model."""
        tables: dict[str, SourceTable] = {}
        for source in (
            source
            for feature in self.features
            for source in feature.tables()
            if source.role in ("training", "items", "baseline")
        ):
            tables.setdefault(source.role, source)
        return tables

    @property
    def orders(self) -> dict[str, list[str]]:
        """The values of those attributes of slices that came as ordered categories."""
        marks = {} if self.attributes is None else {part.name: mark_of(part) for part in self.attributes.frame.schema}
        return {name: marks[name]["order"] for name in self.slices if "order" in marks[name]}

    @property
    def attributes_of_clusters(self) -> tuple[str, ...]:
        """The columns of clusters that are neither the user's nor of slices."""
        return tuple(name for name in self.clusters if name not in (*self.predictions.user, *self.slices))

    def tables(self) -> tuple[Model, ...]:
        """Every table of predictions, with the model that it is of, or that of one table for all models without a name."""
        return self.models if self.model_column is None else (Model("", self.predictions),)


def read_sources(
    predictions: DataFrame | Vectors | Mapping[str, DataFrame | Vectors],
    labels: DataFrame | None,
    users: DataFrame | None,
    exclude: DataFrame | None,
    names: ColumnNames,
    attributes: DataFrame | None = None,
    attribute_names: AttributeNames | None = None,
    tables: TablesOfCall | None = None,
) -> Sources:
    """Find and check the columns of all tables, before any job; but a column of models is read for their names.

    `labels` are None if they are in the table of predictions. Without `attributes` the attributes that are asked for are columns of the
    first of users, labels and predictions that has them all. An InputError names all offenders at once.
    """
    tables = tables or TablesOfCall()
    by_model = predictions if isinstance(predictions, Mapping) else {"": predictions}
    if not by_model:
        raise InputError("predictions is an empty dict; pass a dict of one table per model name")
    if isinstance(predictions, Mapping) and (wrong := [name for name in by_model if not is_name(name)]):
        raise InputError(f"a model's name must be a non-empty string; got {wrong!r}")
    for name, table in by_model.items():
        check_table(_called("predictions", name), _table_of_users(table), instead="Vectors")
    others = {"labels": labels, "users": users, "exclude": exclude, "attributes": attributes}
    for role, other in {**others, **tables.frames()}.items():
        if other is not None:
            check_table(role, other)
    user_frames = [_table_of_users(table) for table in by_model.values()]
    first = user_frames[0]
    problems: list[str] = []
    if isinstance(predictions, Mapping) and names.model is not None:
        problems.append("predictions is a dict by model, so the model column is not needed; leave model= out")
    problems += _problems_with_vectors(
        by_model.values(), labels, names, has_baseline=tables.frames().get("baseline") is not None
    )
    if labels is None and names.user == ("user",) and find_column(first, "user") is None:
        # Spark's evaluators take one table of two arrays, which names no user.
        names = replace(names, user=())
    models = _read_models(by_model, names, tables, problems)
    left = models[0].source
    right = read_source("labels", first if labels is None else labels, names, problems)
    everyone = None if users is None else read_source("users", users, names, problems)
    left_out = None if exclude is None else read_source("exclude", exclude, names, problems)
    attribute_names = (attribute_names or AttributeNames()).with_user_clusters(names.user)
    about = _attributes(attributes, attribute_names, [users, labels, *user_frames], names, problems)
    features, right = tables.read([model.source for model in models], right, names, problems)
    if labels is None:
        if not problems and not (left.arrays and right.arrays):
            problems.append(
                f"labels=None needs one table with an array of predictions and an array of labels; got {left.item!r} of "
                f"{_type_of(left)} and {right.item!r} of {_type_of(right)}. Pass labels as a separate table"
            )
        several = len(models) > 1 or names.model is not None
        met = (
            users,
            exclude,
            attributes,
            several or None,
            any(not feature.takes_one_table for feature in features) or None,
        )
        problems += [words for words, problem in zip(_ONE_TABLE, met, strict=True) if problem is not None]
    if not problems:
        compared = [*(model.source for model in models[1:]), right, everyone, left_out, about]
        compared += (source for feature in features for source in feature.tables())
        check_comparable(left, compared, problems)
    column = _model_column(first, names.model, problems)
    if problems:
        raise InputError("; ".join(dict.fromkeys(problems)))
    if column is not None:
        models = [Model(name, left) for name in _model_names(first, column)]
    shared = labels is None
    models = [model._replace(source=replace(model.source, shares_table=shared)) for model in models]
    slices = () if about is None else tuple(str(find_column(about.frame, name)) for name in attribute_names.by)
    weights = (
        None if about is None or attribute_names.weight is None else find_column(about.frame, attribute_names.weight)
    )
    judged = (
        {}
        if about is None
        else {name: str(find_column(about.frame, column)) for name, column in attribute_names.judge_columns.items()}
    )
    clusters = [str(find_column(left.frame, name)) for name in attribute_names.user_clusters]
    clusters += [] if about is None else [str(find_column(about.frame, name)) for name in attribute_names.cluster]
    return Sources(
        tuple(models), replace(right, shares_table=shared), everyone, left_out, column, about, slices, weights,
        tuple(clusters), features, attribute_names.weight_count, judged,
    )  # fmt: skip


_ONE_TABLE = (
    "users cannot be combined with one table, where every row counts as a user; leave it out",
    "exclude cannot be combined with one table, whose rows are users already; pass labels as a separate table",
    "attributes cannot be combined with one table; name columns of that table with by=",
    "several models cannot share one table with the labels; pass labels as a separate table",
    "training, items, baseline, subtopic and a table no_answer cannot be combined with one table, whose rows are users already; pass "
    "labels as a separate table",
)


def _attributes(
    table: DataFrame | None,
    attribute_names: AttributeNames,
    others: Iterable[DataFrame | None],
    names: ColumnNames,
    problems: list[str],
) -> SourceTable | None:
    if not attribute_names.all:
        if table is not None:
            problems.append(
                "attributes has no effect without by=, user_weight= or cluster=; name the columns to slice by with by=, the column "
                "of weights with user_weight=, or those of clusters with cluster="
            )
        return None
    frames = [frame for frame in ([table] if table is not None else others) if frame is not None]
    holder = next((frame for frame in frames if all(find_column(frame, name) for name in attribute_names.all)), None)
    if holder is None:
        there = "; ".join(", ".join(frame.columns) for frame in frames)
        advice = "" if table is not None else ". Pass a table of users that has them as facts=Facts(attributes=…)"
        if attribute_names.by:
            advice += ". For groups of items use facts=Facts(items=…, item_by=…)"
        problems.append(
            f"{attribute_names.words()}: no table has all these columns beside the user; available: {there}{advice}"
        )
        return None
    for name in attribute_names.by:
        kind = holder.schema[str(find_column(holder, name))].dataType
        problems += problem_of_type(f"by: the column {name!r}", kind, "slice")
    for name in attribute_names.cluster:
        kind = holder.schema[str(find_column(holder, name))].dataType
        problems += problem_of_type(f"cluster: the column {name!r}", kind, "cluster")
    for option, column in {"user_weight": attribute_names.weight, **attribute_names.judge_columns}.items():
        if column is None:
            continue
        kind = holder.schema[str(find_column(holder, column))].dataType
        if option == STRATUM:
            problems += problem_of_type(f"stratum: the column {column!r}", kind, "slice")
            continue
        wanted, words = (T.BooleanType, "a boolean") if option == GRADED else (T.NumericType, "a number")
        if not isinstance(kind, wanted):
            problems.append(f"{option}={column!r} must be {words}; it is {kind.simpleString()}. Cast it")
    return read_source("attributes", holder, names, problems)


def _table_of_users(table: DataFrame | Vectors) -> DataFrame:
    """The table that has the users of a model."""
    return table.users if isinstance(table, Vectors) else table


def _problems_with_vectors(
    tables: Iterable[object], labels: DataFrame | None, names: ColumnNames, *, has_baseline: bool
) -> list[str]:
    """What a call says that has no meaning where lists come from vectors."""
    are_vectors = [isinstance(table, Vectors) for table in tables]
    if not any(are_vectors):
        return []
    problems = []
    if labels is None:
        problems.append(
            "labels=None is for one table of arrays, and Vectors have none; pass labels as a separate table"
        )
    options = {"model": names.model} if all(are_vectors) else {}
    options["cost"] = names.cost
    if all(are_vectors) and not has_baseline:
        # A baseline's rows have the columns of predictions.
        options |= {"score": names.score, "rank": names.rank}
    problems += [
        f"{option}={name!r} is for tables of lists, and Vectors have none; leave it out"
        for option, name in options.items()
        if name is not None
    ]
    return problems


def _read_models(
    by_model: Mapping[str, DataFrame | Vectors], names: ColumnNames, tables: TablesOfCall, problems: list[str]
) -> list[Model]:
    """The predictions of all models.

    Arrays have no ranks, and need no scores if other models have them: their order is the rank then.
    """
    by_name: dict[str, list[str]] = {name: [] for name in by_model}
    models = [_read_model(name, table, names, tables, by_name[name]) for name, table in by_model.items()]
    has_rows = not all(model.source.arrays for model in models)
    has_scores = any(model.source.has_value for model in models)
    for index, (name, source) in enumerate(models):
        if source.arrays and source.vectors is None:
            score = None if has_scores and not _may_have_score(source, names) else names.score
            own = replace(names, rank=None if has_rows else names.rank, score=score)
            if own != names:
                by_name[name].clear()
                models[index] = _read_model(name, source.frame, own, tables, by_name[name])
    for model_problems in by_name.values():
        problems += model_problems
    return models


def _may_have_score(source: SourceTable, names: ColumnNames) -> bool:
    """Whether the score that a call names may be of these arrays: they have structs, or such a column beside them."""
    has_structs = isinstance(getattr(source.frame.schema[source.item].dataType, "elementType", None), T.StructType)
    return names.score is not None and (has_structs or find_column(source.frame, names.score) is not None)


def _read_model(
    name: str, table: DataFrame | Vectors, names: ColumnNames, tables: TablesOfCall, problems: list[str]
) -> Model:
    """The predictions of a model; of several tables it is said which one lacks something."""
    model_problems: list[str] = []
    if isinstance(table, Vectors):
        model, what = Model(name, tables.read_vectors(table, names, model_problems)), "Vectors"
    else:
        model, what = Model(name, read_source("predictions", table, names, model_problems)), "predictions"
    problems += [words.replace(what, _called(what, name), 1) for words in model_problems]
    return model


def _called(role: str, model: str) -> str:
    return f"{role} of model {model!r}" if model else role


def _model_column(frame: DataFrame, model: str | None, problems: list[str]) -> str | None:
    column = None if model is None else require_column("predictions", frame, model, "model", problems)
    if column is not None:
        what = f"predictions: the column {column!r} (model=)"
        problems += problem_of_type(what, frame.schema[column].dataType, "model")
    return column


def _model_names(frame: DataFrame, model: str) -> list[str]:
    """The models that a column names, in the order of the alphabet."""
    models = select(frame, text_in_sql(frame, model).alias("model")).dropna().distinct().limit(_MOST_MODELS + 1)
    names = sorted(row[0] for row in select(models, readable(named("model"))).collect())
    if not names or len(names) > _MOST_MODELS:
        shown = f"more than {_MOST_MODELS} models, {names[0]!r} among them" if names else "no model: every row is null"
        msg = f"predictions: the column {model!r} (model=) names {shown}. Name the column that holds the model names"
        raise InputError(msg)
    return names


def _type_of(source: SourceTable) -> str:
    return source.frame.schema[source.item].dataType.simpleString()
