"""The caller's tables together: found, checked, and in types in which their users and items compare."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import types as T

from spark_rankeval.checks import as_names, check_table, is_name
from spark_rankeval.errors import InputError
from spark_rankeval.ranking.batch import ATTRIBUTES, FACT_TABLES, Attribute, Fact
from spark_rankeval.request import call
from spark_rankeval.spark import source_tables, sql
from spark_rankeval.spark.local_tables import LongTable
from spark_rankeval.worker.features import ITEM, NO_ANSWER, fields_of
from spark_rankeval.worker.reading import GRADED, STRATUM

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    Predictions = call.Table | call.Vectors | Mapping[str, call.Table | call.Vectors]


_MOST_MODELS = 100


class Model(NamedTuple):
    """The predictions of a model."""

    name: str  # what the caller calls it; empty if there is but one, without a name
    source: source_tables.SourceTable


# The column of the subtopic of a label as text, or of the hash of an array of them.
_SUBTOPIC, _HASH = "subtopic_", "subtopics_hash_"


class IntentSources(NamedTuple):
    """Where the intents of labels come from."""

    labels: source_tables.SourceTable  # as they were given: an item may have a row for each of its subtopics
    subtopic: source_tables.ValueColumn | None  # their column of subtopics; None: intents are categories of items
    category: str | None  # the column of items that has the categories; None: subtopics are the intents

    def subtopics(self) -> sql.Sql | None:
        """The column of subtopics, or the arrays of them; None if the intents are the categories of items."""
        if self.subtopic is None:
            return None
        is_field, name = self.subtopic.is_field, self.subtopic.name
        return self.labels.field(name) if is_field else sql.named(name)

    def read(self) -> source_tables.SourceTable:
        """The labels with what their hash and examples need of subtopics."""
        labels, subtopics = self.labels, self.subtopics()
        if self.subtopic is None or subtopics is None:
            return labels
        if labels.arrays or isinstance(self.subtopic.kind, T.ArrayType):
            frame = sql.with_columns(labels.frame, {_HASH: sql.call("xxhash64", subtopics)})
            return replace(labels, frame=frame, hashed=_HASH)
        frame = sql.with_columns(labels.frame, {_SUBTOPIC: sql.readable(sql.as_text(subtopics, self.subtopic.kind))})
        return replace(labels, frame=frame, hashed=_SUBTOPIC, subtopic=_SUBTOPIC)


def _subtopic_column(
    labels: source_tables.SourceTable, name: str, problems: list[str]
) -> source_tables.ValueColumn | None:
    """The labels' column of subtopics of this name; what is wrong with it is added to the problems."""
    if labels.arrays:
        element = labels.frame.schema[labels.item].dataType.elementType  # type: ignore[attr-defined] # an array
        column = source_tables.array_value(
            "labels", labels.frame, labels.item, element, name, "subtopic", problems=problems
        )
    else:
        spelled = source_tables.require_column("labels", labels.frame, name, "subtopic", problems)
        column = None if spelled is None else source_tables.ValueColumn(spelled, labels.frame.schema[spelled].dataType)
    if column is not None:
        problems += _problem_of_intents(f"labels: the column {column.name!r} (subtopic=)", column.kind)
    return column


def _problem_of_intents(what: str, kind: T.DataType) -> list[str]:
    return sql.problem_of_type(what, kind.elementType if isinstance(kind, T.ArrayType) else kind, "intent")


@dataclass(frozen=True)
class Sources:
    """The sides of the input."""

    # The predictions of each model; all of one table if a column says which model a row is of.
    models: tuple[Model, ...]
    labels: source_tables.SourceTable
    users: source_tables.SourceTable | None = None  # users to count besides
    exclude: source_tables.SourceTable | None = None  # items to leave out of the predictions
    model_column: str | None = None  # the column that says which model a row of predictions is of
    attributes: source_tables.SourceTable | None = None  # the table whose columns part the users into slices
    slices: tuple[str, ...] = ()
    weight: str | None = None  # the column of that table that has the users' weights
    # Columns of the user or of that table; users of the same values there are one cluster.
    clusters: tuple[str, ...] = ()
    training: source_tables.SourceTable | None = None  # interactions of users with items
    items: source_tables.SourceTable | None = None  # attributes of items
    baseline: source_tables.SourceTable | None = None  # the recommendations of a baseline
    tables_of_facts: frozenset[str] = frozenset()  # those of these three that metrics ask for
    # The columns of `items` that hold facts, by the options that name them.
    item_columns: Mapping[str, str] = field(default_factory=dict)
    item_groups: call.ItemGroups | None = None  # groups of items that have figures, by columns as `items` spells them
    intents: IntentSources | None = None  # where the intents of labels come from
    no_answer: tuple[source_tables.MarkedUsers, ...] = ()  # the users who are declared to have no answer
    weight_count: str | None = None  # the count of the per-user table that is the users' weight, if `weight` is not
    # The columns that say which users people graded, by their names on the way.
    judged: Mapping[str, str] = field(default_factory=dict)

    @property
    def predictions(self) -> source_tables.SourceTable:
        """The predictions of the first model."""
        return self.models[0].source

    @property
    def vectors(self) -> dict[int, source_tables.VectorColumns]:
        """The vectors of those models, by index, that rank the whole catalogue."""
        sources = (model.source.vectors for model in self.models)
        return {index: vectors for index, vectors in enumerate(sources) if vectors is not None}

    @property
    def others(self) -> list[source_tables.SourceTable]:
        """The tables whose users and items are to compare with those of the first model."""
        candidates = (vectors.candidates for vectors in self.vectors.values())
        tables = (
            *(model.source for model in self.models[1:]), self.labels, self.users, self.exclude, self.attributes,
            self.training, self.items, self.baseline, *candidates,
            *(marked.source for marked in self.no_answer),
        )  # fmt: skip
        return [table for table in tables if table is not None]

    @property
    def tables_of_users(self) -> list[source_tables.SourceTable]:
        """The tables of users alone who are to be evaluated."""
        return [*([] if self.users is None else [self.users]), *(marked.source for marked in self.no_answer)]

    @property
    def forms(self) -> list[tuple[int, ...]]:
        """The models by their index, with those together whose predictions have the same form."""
        forms: dict[str, tuple[int, ...]] = {}
        for index, model in enumerate(self.models):
            forms[model.source.form] = (*forms.get(model.source.form, ()), index)
        return list(forms.values())

    @property
    def orders(self) -> dict[str, list[str]]:
        """The values of those attributes of slices that came as ordered categories."""
        marks = (
            {} if self.attributes is None else {part.name: sql.mark_of(part) for part in self.attributes.frame.schema}
        )
        return {name: marks[name]["order"] for name in self.slices if "order" in marks[name]}

    @property
    def attributes_of_clusters(self) -> tuple[str, ...]:
        """The columns of clusters that are neither the user's nor of slices."""
        return tuple(name for name in self.clusters if name not in (*self.predictions.user, *self.slices))

    def tables(self) -> tuple[Model, ...]:
        """Every table of predictions, with the model that it is of, or that of one table for all models without a name."""
        return self.models if self.model_column is None else (Model("", self.predictions),)

    @property
    def user_columns(self) -> list[str]:
        """The names of the user's columns on the way."""
        return [source_tables.user_column(index) for index in range(len(self.predictions.user))]

    def users_on_the_way(self) -> list[sql.Sql]:
        """The user's columns on the way."""
        return [sql.named(name) for name in self.user_columns]

    @cached_property
    def user_types(self) -> list[T.DataType]:
        """The types that the user's columns get: wide enough for all tables."""
        types = self.predictions.user_types
        for other in self.others:
            if other.role not in source_tables.WITHOUT_USERS:
                # The inputs were checked: these types compare.
                pairs = zip(types, other.user_types, strict=True)
                types = [sql.common_id_type(kind, more) or kind for kind, more in pairs]
        return types

    @cached_property
    def item_type(self) -> T.DataType:
        """The type that items of all tables get."""
        kind = self.predictions.item_type
        for other in self.others:
            if other.role not in source_tables.WITHOUT_ITEMS:
                kind = sql.common_id_type(kind, other.item_type) or kind
        return kind

    def typed_users(self, source: source_tables.SourceTable) -> list[sql.Sql]:
        """The user's columns of a table, of the types that all tables share."""
        return [user.cast(kind) for user, kind in zip(source.users_sql(), self.user_types, strict=True)]

    def named_users(self, source: source_tables.SourceTable) -> list[sql.Sql]:
        """The user's columns of a table under our names, of the types that all tables share."""
        return [user.alias(name) for user, name in zip(self.typed_users(source), self.user_columns, strict=True)]

    def typed_item(self, item: sql.Sql, name: str = ITEM) -> sql.Sql:
        """An item of some table under our name, of the type that items of all tables get."""
        return item.cast(self.item_type).alias(name)

    def names_user_and_item(self, *numbers: str) -> sql.Sql:
        """Whether a row on the way has a user, an item and these numbers, and none of them is NaN."""
        is_whole = ~sql.any_of(sql.named(name).is_null() for name in (*self.user_columns, ITEM, *numbers))
        are_nan = (sql.call("coalesce", sql.call("isnan", sql.named(name)), sql.number(False)) for name in numbers)
        return sql.all_of([is_whole, *(~is_nan for is_nan in are_nan)])

    def lists_of(self, source: source_tables.SourceTable, name: str, hashed: str = "") -> DataFrame:
        """Each user's items of a table of users and items, as a list of this name; a null matches nothing.

        A column `hashed` has the sum of the rows' hashes, if it has a name.
        """
        row_hash = source_tables.row_hash(source).alias(source_tables.ROW_HASH)
        items = self.typed_item(source.ids_sql(), name)
        rows = sql.select(source.frame, *self.named_users(source), items, row_hash)
        columns = [sql.call("collect_list", sql.named(name)).alias(name)]
        if hashed:
            columns.append(source_tables.total_of_hashes(sql.named(source_tables.ROW_HASH)).alias(hashed))
        return sql.aggregate_lists(rows, self.user_columns, *columns)


def tables_of(facts: Iterable[Fact], *, has_subtopic: bool) -> frozenset[str]:
    """The tables that hold facts; of intents labels know all if they have subtopics."""
    return frozenset(table for fact in facts if not (has_subtopic and fact == "intents") for table in FACT_TABLES[fact])


def read_sources(
    predictions: DataFrame | call.Vectors | Mapping[str, DataFrame | call.Vectors],
    labels: DataFrame | None,
    options: call.ScoringOptions,
    facts: frozenset[Fact] = frozenset(),
    long_table: LongTable | None = None,
    *,
    has_groups: bool = False,
) -> Sources:
    """Find and check the columns of all tables, before any job; but a column of models is read for their names.

    `labels` are None if they are in the table of predictions, which is no long table. Without a table of attributes those that are asked
    for are columns of the first of users, labels and predictions that has them all. An InputError names all offenders at once.
    Metrics ask for `facts`; with `has_groups`, groups of items are read.
    """
    names = call.ColumnNames.read(options, one_table=labels is None)
    groups = options.facts.item_groups if has_groups else None
    asked = tables_of(facts, has_subtopic=options.facts.subtopic is not None)
    fact_frames = _frames_of_facts(options.facts, asked, groups)
    by_model = _checked_tables(predictions, labels, options, fact_frames)
    user_frames = [_table_of_users(table) for table in by_model.values()]
    first, problems = user_frames[0], list[str]()
    if isinstance(predictions, Mapping) and names.model is not None:
        problems.append("predictions is a dict by model, so the model column is not needed; leave model= out")
    problems += _problems_with_vectors(by_model.values(), labels, names, has_baseline="baseline" in fact_frames)
    if labels is None and names.user == ("user",) and sql.find_column(first, "user") is None:
        # Spark's evaluators take one table of two arrays, which names no user.
        names = replace(names, user=())
    models = _read_models(by_model, names, problems)
    left = models[0].source
    right = source_tables.read_source("labels", first if labels is None else labels, names, problems)
    everyone = None if options.users is None else source_tables.read_source("users", options.users, names, problems)
    left_out = (
        None if options.exclude is None else source_tables.read_source("exclude", options.exclude, names, problems)
    )
    attributes = call.AttributeNames(options, names.user)
    table = options.facts.attributes
    about = _attributes(table, attributes, [options.users, labels, *user_frames], names, problems)
    # A baseline may have its items in order even if the predictions have scores.
    fact_tables = {role: _read_facts(role, frame, left, names, problems) for role, frame in fact_frames.items()}
    items = fact_tables.get("items")
    item_columns = {} if items is None else _columns_of_facts(items.frame, facts, options.facts, problems)
    intents = _read_intents(options.facts, facts, items, right, problems)
    if intents is not None and not problems:
        right = intents.read()
    if groups is not None and items is not None and not problems:
        groups = replace(groups, columns=tuple(_columns_of_groups(items, groups, problems)))
    # A long table is one, not two sides.
    sides = [[labels], user_frames] if long_table is None else [long_table.frames]
    declared = _read_no_answer(options.no_answer, [[options.users], *sides, [table]], names, problems)
    shared, has_made_ids = labels is None, long_table is not None and long_table.has_made_ids
    sources = Sources(
        tuple(models), replace(right, shares_table=shared, has_made_ids=has_made_ids), everyone, left_out, attributes=about,
        weight_count=attributes.weight_count, training=fact_tables.get("training"), items=items,
        baseline=fact_tables.get("baseline"), tables_of_facts=asked, item_columns=item_columns, intents=intents, item_groups=groups,
        no_answer=declared,
    )  # fmt: skip
    if shared:
        problems += _problems_with_one_table(sources, options, names, has_problems=bool(problems))
    if not problems:
        source_tables.check_comparable(left, sources.others, problems)
    column = model_column(first, names.model, problems)
    if problems:
        raise InputError("; ".join(dict.fromkeys(problems)))
    if column is not None:
        models = [Model(name, left) for name in _model_names(first, column)]
    models = [model._replace(source=replace(model.source, shares_table=shared)) for model in models]
    sources = replace(sources, models=tuple(models), model_column=column)
    return _with_attributes_of_users(sources, attributes)


def _checked_tables(
    predictions: DataFrame | call.Vectors | Mapping[str, DataFrame | call.Vectors],
    labels: DataFrame | None,
    options: call.ScoringOptions,
    fact_frames: Mapping[source_tables.Role, DataFrame],
) -> Mapping[str, DataFrame | call.Vectors]:
    """The predictions by model; an InputError says what is no table."""
    by_model = predictions if isinstance(predictions, Mapping) else {"": predictions}
    if not by_model:
        raise InputError("predictions is an empty dict; pass a dict of one table per model name")
    if isinstance(predictions, Mapping) and (wrong := [name for name in by_model if not is_name(name)]):
        raise InputError(f"a model's name must be a non-empty string; got {wrong!r}")
    for name, table in by_model.items():
        check_table(_called("predictions", name), _table_of_users(table), instead="Vectors")
    others = {
        "labels": labels, "users": options.users, "exclude": options.exclude, "attributes": options.facts.attributes,
        **fact_frames, "no_answer": None if isinstance(options.no_answer, str) else options.no_answer,
    }  # fmt: skip
    for role, other in others.items():
        if other is not None:
            check_table(role, other)
    return by_model


def _problems_with_one_table(
    sources: Sources, options: call.ScoringOptions, names: call.ColumnNames, *, has_problems: bool
) -> list[str]:
    """What a call says that has no meaning where one table has both arrays."""
    left, right, problems = sources.predictions, sources.labels, []
    if not has_problems and not (left.arrays and right.arrays):
        kinds = [source.frame.schema[source.item].dataType.simpleString() for source in (left, right)]
        problems.append(
            f"labels=None needs one table with an array of predictions and an array of labels; got {left.item!r} of "
            f"{kinds[0]} and {right.item!r} of {kinds[1]}. Pass labels as a separate table"
        )
    if options.users is not None:
        problems.append("users cannot be combined with one table, where every row counts as a user; leave it out")
    if options.exclude is not None:
        problems.append(
            "exclude cannot be combined with one table, whose rows are users already; pass labels as a separate table"
        )
    if options.facts.attributes is not None:
        problems.append("attributes cannot be combined with one table; name columns of that table with by=")
    if len(sources.models) > 1 or names.model is not None:
        problems.append("several models cannot share one table with the labels; pass labels as a separate table")
    if sources.tables_of_facts or sources.intents is not None or not isinstance(options.no_answer, str | None):
        problems.append(
            "training, items, baseline, subtopic and a table no_answer cannot be combined with one table, whose rows are users "
            "already; pass labels as a separate table"
        )
    return problems


def _with_attributes_of_users(sources: Sources, names: call.AttributeNames) -> Sources:
    """The tables with the columns of their attributes as they spell them."""
    user_frame, about = sources.predictions.frame, sources.attributes
    clusters = tuple(str(sql.find_column(user_frame, name)) for name in names.user_clusters)
    if about is None:
        return replace(sources, clusters=clusters)

    def spelled(name: str) -> str:
        return str(sql.find_column(about.frame, name))

    return replace(
        sources,
        slices=tuple(map(spelled, names.by)),
        weight=None if names.weight is None else spelled(names.weight),
        judged={name: spelled(column) for name, column in names.judge_columns.items()},
        clusters=(*clusters, *map(spelled, names.cluster)),
    )


def _attributes(
    table: DataFrame | None,
    attribute_names: call.AttributeNames,
    others: Iterable[DataFrame | None],
    names: call.ColumnNames,
    problems: list[str],
) -> source_tables.SourceTable | None:
    if not attribute_names.all:
        if table is not None:
            problems.append(
                "attributes has no effect without by=, user_weight= or cluster=; name the columns to slice by with by=, the column "
                "of weights with user_weight=, or those of clusters with cluster="
            )
        return None
    frames = [frame for frame in ([table] if table is not None else others) if frame is not None]
    holder = next(
        (frame for frame in frames if all(sql.find_column(frame, name) for name in attribute_names.all)), None
    )
    if holder is None:
        there = "; ".join(", ".join(frame.columns) for frame in frames)
        advice = "" if table is not None else ". Pass a table of users that has them as facts=Facts(attributes=…)"
        if attribute_names.by:
            advice += ". For groups of items use facts=Facts(items=…, item_by=…)"
        problems.append(
            f"{attribute_names.words()}: no table has all these columns beside the user; available: {there}{advice}"
        )
        return None
    kinds = {name: holder.schema[str(sql.find_column(holder, name))].dataType for name in attribute_names.all}
    for name in attribute_names.by:
        problems += sql.problem_of_type(f"by: the column {name!r}", kinds[name], "slice")
    for name in attribute_names.cluster:
        problems += sql.problem_of_type(f"cluster: the column {name!r}", kinds[name], "cluster")
    for option, column in {"user_weight": attribute_names.weight, **attribute_names.judge_columns}.items():
        if column is None:
            continue
        kind = kinds[column]
        if option == STRATUM:
            problems += sql.problem_of_type(f"stratum: the column {column!r}", kind, "slice")
            continue
        wanted, words = (T.BooleanType, "a boolean") if option == GRADED else (T.NumericType, "a number")
        if not isinstance(kind, wanted):
            problems.append(f"{option}={column!r} must be {words}; it is {kind.simpleString()}. Cast it")
    return source_tables.read_source("attributes", holder, names, problems)


def _table_of_users(table: DataFrame | call.Vectors) -> DataFrame:
    """The table that has the users of a model."""
    return table.users if isinstance(table, call.Vectors) else table


def _problems_with_vectors(
    tables: Iterable[object], labels: DataFrame | None, names: call.ColumnNames, *, has_baseline: bool
) -> list[str]:
    """What a call says that has no meaning where lists come from vectors."""
    are_vectors = [isinstance(table, call.Vectors) for table in tables]
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
    by_model: Mapping[str, DataFrame | call.Vectors], names: call.ColumnNames, problems: list[str]
) -> list[Model]:
    """The predictions of all models.

    Arrays have no ranks, and need no scores if other models have them: their order is the rank then.
    """
    by_name: dict[str, list[str]] = {name: [] for name in by_model}
    models = [_read_model(name, table, names, by_name[name]) for name, table in by_model.items()]
    has_rows = not all(model.source.arrays for model in models)
    has_scores = any(model.source.has_value for model in models)
    for index, (name, source) in enumerate(models):
        if source.arrays and source.vectors is None:
            score = None if has_scores and not _may_have_score(source, names) else names.score
            own = replace(names, rank=None if has_rows else names.rank, score=score)
            if own != names:
                by_name[name].clear()
                models[index] = _read_model(name, source.frame, own, by_name[name])
    for model_problems in by_name.values():
        problems += model_problems
    return models


def _may_have_score(source: source_tables.SourceTable, names: call.ColumnNames) -> bool:
    """Whether the score that a call names may be of these arrays: they have structs, or such a column beside them."""
    has_structs = isinstance(getattr(source.frame.schema[source.item].dataType, "elementType", None), T.StructType)
    return names.score is not None and (has_structs or sql.find_column(source.frame, names.score) is not None)


def _read_model(name: str, table: DataFrame | call.Vectors, names: call.ColumnNames, problems: list[str]) -> Model:
    """The predictions of a model; of several tables it is said which one lacks something."""
    model_problems: list[str] = []
    if isinstance(table, call.Vectors):
        model, what = Model(name, _read_vectors(table, names, model_problems)), "Vectors"
    else:
        model, what = (
            Model(name, source_tables.read_source("predictions", table, names, model_problems)),
            "predictions",
        )
    problems += [words.replace(what, _called(what, name), 1) for words in model_problems]
    return model


def _called(role: str, model: str) -> str:
    return f"{role} of model {model!r}" if model else role


def model_column(frame: DataFrame, model: str | None, problems: list[str]) -> str | None:
    """The column of predictions that names the model; None if none was named, or with a problem."""
    column = None if model is None else source_tables.require_column("predictions", frame, model, "model", problems)
    if column is not None:
        what = f"predictions: the column {column!r} (model=)"
        problems += sql.problem_of_type(what, frame.schema[column].dataType, "model")
    return column


def _model_names(frame: DataFrame, model: str) -> list[str]:
    """The models that a column names, in the order of the alphabet."""
    models = sql.select(frame, sql.text_in_sql(frame, model).alias("model")).dropna().distinct().limit(_MOST_MODELS + 1)
    names = sorted(row[0] for row in sql.select(models, sql.readable(sql.named("model"))).collect())
    if not names or len(names) > _MOST_MODELS:
        shown = f"more than {_MOST_MODELS} models, {names[0]!r} among them" if names else "no model: every row is null"
        msg = f"predictions: the column {model!r} (model=) names {shown}. Name the column that holds the model names"
        raise InputError(msg)
    return names


def read_catalogue(vectors: call.Vectors, exclude: DataFrame | None, names: call.ColumnNames) -> Sources:
    """The tables of vectors alone, without labels; checked as by `read_sources`."""
    problems: list[str] = []
    model = Model("", _read_vectors(vectors, names, problems))
    left_out = None if exclude is None else source_tables.read_source("exclude", exclude, names, problems)
    columns = model.source.vectors
    if not problems:
        source_tables.check_comparable(
            model.source, (left_out, None if columns is None else columns.candidates), problems
        )
    if problems:
        raise InputError("; ".join(dict.fromkeys(problems)))
    assert columns is not None, "they were found"
    # There are no labels; the users' side stands for them where types are compared.
    return Sources((model,), model.source, exclude=left_out)


def _frames_of_facts(
    options: call.Facts, asked: Collection[str], groups: call.ItemGroups | None
) -> dict[source_tables.Role, DataFrame]:
    """The tables of facts that metrics ask for, and those that put items into groups, by role."""
    wanted, tables = set(asked), options.tables()
    if groups is not None:
        needed = {"items": ("item_by", groups.columns), "training": ("popularity_groups", groups.popularity)}
        for table, (option, value) in needed.items():
            if value and tables[table] is None:
                raise InputError(f"{option} needs a table: pass facts=Facts({table}=…, {option}={value!r})")
            if value:
                wanted.add(table)
        lower = [name.lower() for name in groups.attributes]
        if twice := [name for name in groups.attributes if lower.count(name.lower()) > 1]:
            advice = (
                "; popularity_groups= makes groups of this name, too" if twice[0].lower() == call.POPULARITY else ""
            )
            raise InputError(f"item_by names {twice[0]!r} twice{advice}")
    return {role: frame for role, frame in tables.items() if role in wanted and frame is not None}  # type: ignore[misc] # roles


def _read_facts(
    role: source_tables.Role,
    frame: DataFrame,
    left: source_tables.SourceTable,
    names: call.ColumnNames,
    problems: list[str],
) -> source_tables.SourceTable:
    """A table of facts; beside one table of both arrays, which has no column for an item, items have the usual name."""
    if left.arrays and role != "baseline" and not any(sql.find_column(frame, name) for name in names.single_items):
        names = replace(names, item=(call.DEFAULT_ITEM, call.DEFAULT_ITEM))
    return source_tables.read_source(role, frame, names, problems)


def _columns_of_facts(
    items: DataFrame, facts: frozenset[Fact], options: call.Facts, problems: list[str]
) -> dict[str, str]:
    """The columns of the table of items that hold facts, by the options that name them."""
    columns: dict[str, str] = {}
    for attribute in (ATTRIBUTES[name] for name in ATTRIBUTES if name in fields_of(facts)):
        option = attribute.option
        # If fields share a column, the first of them asks the most of it.
        columns[option] = columns.get(option) or _column_of(items, attribute, getattr(options, option), problems)
    return columns


def _column_of(items: DataFrame, attribute: Attribute, name: str, problems: list[str]) -> str:
    """The column of an attribute as the table of items spells it; what is wrong with it is added to the problems."""
    if attribute.kind == "vector":
        return _array_of_numbers("items", items, name, problems)
    if (spelled := source_tables.require_column("items", items, name, attribute.option, problems)) is None:
        return name
    kind, words = items.schema[spelled].dataType, f"items: the column {spelled!r} ({attribute.option}=)"
    if isinstance(kind, T.ArrayType) and attribute.kind == "text":
        problems.append(
            f"{words} is {kind.simpleString()}, several {attribute.plural} for each item. diversity(by='categories') compares such "
            f"sets; metrics of one {attribute.option} need one value for each item"
        )
    else:
        problems += sql.problem_of_type(words, kind.elementType if isinstance(kind, T.ArrayType) else kind, "category")
    return spelled


def _array_of_numbers(role: source_tables.Role, frame: DataFrame, name: str, problems: list[str]) -> str:
    """The name of a column of vectors as the table spells it; what is wrong with it is added to the problems."""
    spelled = source_tables.require_column(role, frame, name, "vector", problems)
    kind = T.NullType() if spelled is None else frame.schema[spelled].dataType
    if spelled is not None and not (isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.NumericType)):
        problems.append(
            f"{role}: the column {spelled!r} (vector=) must be an array of numbers; it is {kind.simpleString()}. Convert a vector of "
            "pyspark.ml with pyspark.ml.functions.vector_to_array"
        )
    return spelled or name


def _columns_of_groups(items: source_tables.SourceTable, groups: call.ItemGroups, problems: list[str]) -> Iterator[str]:
    """The columns that make groups, as the table names them."""
    for name in groups.columns:
        spelled = source_tables.require_column("items", items.frame, name, "item_by", problems)
        if spelled is not None:
            kind = items.frame.schema[spelled].dataType
            entries = kind.elementType if isinstance(kind, T.ArrayType) else kind
            problems += sql.problem_of_type(f"items: the column {spelled!r} (item_by=)", entries, "category")
            yield spelled


def _read_intents(
    options: call.Facts,
    facts: frozenset[Fact],
    items: source_tables.SourceTable | None,
    labels: source_tables.SourceTable,
    problems: list[str],
) -> IntentSources | None:
    """Where the intents of labels come from; None if no metric asks for any, or if there are problems already."""
    if problems or not ("intents" in facts or options.subtopic is not None):
        return None
    if options.subtopic is not None:
        return IntentSources(labels, _subtopic_column(labels, options.subtopic, problems), None)
    category = None
    if items is not None:
        category = source_tables.require_column("items", items.frame, options.category, "category", problems)
        if category is not None:
            kind = items.frame.schema[category].dataType
            problems += _problem_of_intents(f"items: the column {category!r} (category=)", kind)
    return IntentSources(labels, None, category)


def _read_vectors(vectors: call.Vectors, names: call.ColumnNames, problems: list[str]) -> source_tables.SourceTable:
    """Find the columns of a model's vectors, as `read_source` finds those of its lists."""
    found: list[str] = []
    users = [
        spelled
        for name in names.user
        if (spelled := source_tables.require_column("predictions", vectors.users, name, "user", found))
    ]
    for name in users:
        kind = vectors.users.schema[name].dataType
        found += sql.problem_of_type(f"predictions: the user column {name!r}", kind, "user")
    items = source_tables.read_source("catalogue", vectors.items, names, found)
    vector = _array_of_numbers("predictions", vectors.users, vectors.vector, found)
    item_vector = _array_of_numbers("catalogue", vectors.items, vectors.vector, found)
    user_bias = _bias("predictions", vectors.users, vectors.user_bias, "user_bias", found)
    item_bias = _bias("catalogue", vectors.items, vectors.item_bias, "item_bias", found)
    filters = tuple(_filters(vectors, found))
    candidates = None
    if vectors.candidates is not None:
        has_users = all(sql.find_column(vectors.candidates, name) for name in names.user)
        role: source_tables.Role = "candidates" if has_users else "catalogue"
        wrong: list[str] = []
        candidates = source_tables.read_source(role, vectors.candidates, names, wrong)
        found += [f"candidates{problem.removeprefix(role)}" for problem in wrong]
    # A problem begins with the role of its table. The caller knows the table by another name.
    for table, name in {"predictions": "users", "catalogue": "items", "candidates": "candidates"}.items():
        problems += [
            f"{name} of Vectors{problem.removeprefix(table)}" for problem in found if problem.startswith(table)
        ]
    columns = source_tables.VectorColumns(
        items, vector, item_vector, user_bias, item_bias, vectors.similarity, candidates, filters, vectors.shards
    )
    return source_tables.SourceTable(
        "predictions", vectors.users, tuple(users), items.item, items.item_type, arrays=True, vectors=columns
    )


def _bias(role: source_tables.Role, frame: DataFrame, name: str | None, option: str, problems: list[str]) -> str | None:
    spelled = None if name is None else source_tables.require_column(role, frame, name, option, problems)
    if spelled is not None and not isinstance(frame.schema[spelled].dataType, T.NumericType):
        kind = frame.schema[spelled].dataType.simpleString()
        problems.append(f"{role}: {option}={spelled!r} must be a number; it is {kind}. Cast it")
    return spelled


def _filters(vectors: call.Vectors, problems: list[str]) -> Iterator[source_tables.FilterColumns]:
    """The filters whose columns both tables have, with values that can be compared."""
    tables: dict[source_tables.Role, DataFrame] = {"predictions": vectors.users, "catalogue": vectors.items}
    for name in as_names("filters", vectors.filters):
        user, item = (
            source_tables.require_column(role, table, name, "filters", problems) for role, table in tables.items()
        )
        if user is None or item is None:
            continue
        kinds = sql.element_type(vectors.users, user), sql.element_type(vectors.items, item)
        words = (f"{role}: the column {name!r} (filters=)" for role in tables)
        wrong = [sql.problem_of_type(*what, "filter") for what in zip(words, kinds, strict=True)]
        shared = sql.common_id_type(*kinds)
        if any(wrong):
            problems += chain.from_iterable(wrong)
        elif shared is None:
            problems.append(
                f"catalogue: filters={name!r} has values of {sql.type_in_words(kinds[1])}, and those of users are "
                f"{sql.type_in_words(kinds[0])}. {source_tables.cast_in_words(*kinds)}; they are never cast silently, because '01' would "
                "equal 1"
            )
        else:
            users, items = sql.set_in(vectors.users, user, shared), sql.set_in(vectors.items, item, shared)
            yield source_tables.FilterColumns(user, users, items)


def _read_no_answer(
    option: str | DataFrame | None,
    holders: Iterable[Iterable[DataFrame | None]],
    names: call.ColumnNames,
    problems: list[str],
) -> tuple[source_tables.MarkedUsers, ...]:
    """The users whom a table, or a column of the first of the holders that has it, declares to have no answer.

    A holder may be several tables, one for each model. What is wrong is added to the problems.
    """
    if option is None:
        return ()
    if not isinstance(option, str):
        source = source_tables.read_source("no_answer", option, names, problems)
        return (source_tables.MarkedUsers(NO_ANSWER, source, option, sql.number(True)),)
    tables = [[frame for frame in frames if frame is not None] for frames in holders]
    having = ([frame for frame in frames if sql.find_column(frame, option)] for frames in tables)
    frames = next(filter(None, having), [])
    if not frames:
        there = "; ".join(", ".join(frame.columns) for frames in tables for frame in frames)
        problems.append(
            f"no table has the column {option!r} (no_answer=); available: {there}. Pass a column of booleans, or a table of the "
            "users who have no answer"
        )
    marked = (_marked_by(option, frame, names, problems) for frame in frames)
    return tuple(each for each in marked if each is not None)


def _marked_by(
    name: str, frame: DataFrame, names: call.ColumnNames, problems: list[str]
) -> source_tables.MarkedUsers | None:
    """The users for whom a column is true. Rows without a user are counted where the table itself is read."""
    column = str(sql.find_column(frame, name))
    kind = frame.schema[column].dataType
    if not isinstance(kind, T.BooleanType):
        problems.append(
            f"no_answer={name!r} must be a column of booleans; it is {kind.simpleString()}. Write a condition, such as "
            "F.col('n_answers') == 0"
        )
        return None
    is_marked: sql.Sql = sql.call("coalesce", sql.named(column), sql.number(False))
    source = source_tables.read_source("no_answer", frame, names, problems)
    has_user = sql.all_of(user.is_not_null() for user in source.users_sql()) if source.user else sql.number(True)
    rows = sql.where(frame, is_marked & has_user)
    return source_tables.MarkedUsers(NO_ANSWER, replace(source, frame=rows), frame, is_marked)
