"""The caller's tables together: found, checked, and whether their users and items compare. One long table becomes two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import types as T

from spark_rankeval.checks import as_names, check_table, is_name
from spark_rankeval.errors import InputError
from spark_rankeval.request import call
from spark_rankeval.spark import facts, source_tables, sql
from spark_rankeval.spark.facts import GroupSources, read_groups
from spark_rankeval.worker.reading import GRADED, STRATUM

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    Predictions = call.Table | call.Vectors | Mapping[str, call.Table | call.Vectors]


_MOST_MODELS = 100


class Model(NamedTuple):
    """The predictions of a model."""

    name: str  # what the caller calls it; empty if there is but one, without a name
    source: source_tables.SourceTable


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
    # The tables of training, items and a baseline that metrics ask for.
    fact_tables: facts.SideSources = facts.SideSources()
    intents: facts.IntentSources | None = None  # where the intents of labels come from
    item_groups: GroupSources | None = None  # the tables that put items into groups
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
            *self.fact_tables.tables(), *candidates, *([] if self.item_groups is None else self.item_groups.tables()),
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

    def side_tables(self) -> dict[str, source_tables.SourceTable]:
        """The tables of facts and of groups of items by role, each once."""
        groups = [] if self.item_groups is None else self.item_groups.tables()
        # Of a table that is both, what metrics read of it comes last.
        return {source.role: source for source in (*groups, *self.fact_tables.tables())}

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


def read_sources(
    predictions: DataFrame | call.Vectors | Mapping[str, DataFrame | call.Vectors],
    labels: DataFrame | None,
    options: call.ScoringOptions,
    side_tables: facts.SideTables = facts.SideTables(),  # noqa: B008 # it is immutable
    long_table: LongTable | None = None,
    *,
    has_groups: bool = False,
) -> Sources:
    """Find and check the columns of all tables, before any job; but a column of models is read for their names.

    `labels` are None if they are in the table of predictions, which is no long table. Without a table of attributes those that are asked
    for are columns of the first of users, labels and predictions that has them all. An InputError names all offenders at once.
    """
    names = call.ColumnNames.read(options, one_table=labels is None)
    by_model = _checked_tables(predictions, labels, options, side_tables)
    user_frames = [_table_of_users(table) for table in by_model.values()]
    first, problems = user_frames[0], list[str]()
    if isinstance(predictions, Mapping) and names.model is not None:
        problems.append("predictions is a dict by model, so the model column is not needed; leave model= out")
    problems += _problems_with_vectors(
        by_model.values(), labels, names, has_baseline=side_tables.frames()["baseline"] is not None
    )
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
    fact_tables = facts.read_side_tables(side_tables, names, problems)
    intents = facts.read_intents(options.facts, side_tables.facts, fact_tables.items, right, problems)
    if intents is not None and not problems:
        right = intents.read()
    groups = read_groups(options.facts, left, names, problems) if has_groups else None
    # A long table is one, not two sides.
    sides = [[labels], user_frames] if long_table is None else [long_table.frames]
    declared = facts.read_no_answer(options.no_answer, [[options.users], *sides, [table]], names, problems)
    shared, has_made_ids = labels is None, long_table is not None and long_table.has_made_ids
    sources = Sources(
        tuple(models), replace(right, shares_table=shared, has_made_ids=has_made_ids), everyone, left_out, attributes=about,
        weight_count=attributes.weight_count, fact_tables=fact_tables, intents=intents, item_groups=groups, no_answer=declared,
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
    side_tables: facts.SideTables,
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
        **side_tables.frames(), "no_answer": None if isinstance(options.no_answer, str) else options.no_answer,
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
    has_tables = bool(sources.fact_tables.tables()) or sources.intents is not None
    met = (
        options.users is not None,
        options.exclude is not None,
        options.facts.attributes is not None,
        len(sources.models) > 1 or names.model is not None,
        has_tables or not isinstance(options.no_answer, str | None),
    )
    return problems + [words for words, is_met in zip(_ONE_TABLE, met, strict=True) if is_met]


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
        model, what = Model(name, facts.read_vectors(table, names, model_problems)), "Vectors"
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
    model = Model("", facts.read_vectors(vectors, names, problems))
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


#: The column of made ids, where rows name no item: the place of the row in the user's list.
PLACE = "place_in_list"


@dataclass(frozen=True)
class LongTable:
    """What a long table is for an evaluation: the rows of each side, and the options that name their columns."""

    predictions: DataFrame | Mapping[str, DataFrame]
    labels: DataFrame
    options: call.ScoringOptions
    frames: list[DataFrame]  # the tables of all models
    has_made_ids: bool  # whether rows name no item


def _columns_of_long_table(frame: DataFrame, options: call.ScoringOptions) -> dict[str, list[str]]:
    """The columns that options name, as the table spells them; an InputError names all that are lacking."""
    problems: list[str] = []
    kind = "score" if options.rank is None else "rank"
    names: dict[str, Sequence[str]] = {
        "user": as_names("user", options.user),
        kind: [getattr(options, kind)],
        "relevance": as_names("relevance", call.grade_columns(options.relevance)),
        "weight": [] if options.weight is None else [options.weight],
        "cost": [] if options.cost is None else [options.cost],
    }
    columns = source_tables.require_columns("predictions", frame, names, problems)
    if options.item is not None:
        lacking: list[str] = []
        source_tables.require_column("predictions", frame, str(options.item), "item", lacking)
        problems += [f"{problem}. If rows name no item, pass item=None" for problem in lacking]
    if problems:
        raise InputError("; ".join(problems))
    return {**columns, "value": columns[kind]}


def read_long_table(
    predictions: call.Table | call.Vectors | Mapping[str, call.Table | call.Vectors], options: call.ScoringOptions
) -> LongTable | None:
    """The sides of a call without labels, if rows of predictions have them; None if it means arrays.

    A row is a prediction if it has a score or rank, and a label if it has a grade. A row without either may declare that its user has no
    answer. Any other counts as a prediction that cannot be ranked, so that none is lost.
    """
    tables = dict(predictions) if isinstance(predictions, Mapping) else {"": predictions}
    frames = {name: table for name, table in tables.items() if not isinstance(table, call.Vectors)}
    if len(frames) < len(tables) or not frames:
        return None
    for table in frames.values():
        check_table("predictions", table)
    if not _has_rows(next(iter(frames.values())), options.item):
        return None
    has_models = len(frames) > 1 or options.model is not None
    only = next(iter(frames))
    _check(options, has_models=has_models)
    columns = {name: _columns_of_long_table(frame, options) for name, frame in frames.items()}
    has_made_ids = options.item is None
    if has_made_ids:
        item = _made_id(frames[only])
        frames = {only: sql.with_columns(frames[only], {item: _place(columns[only], is_rank=options.rank is not None)})}
        # Ids are numbers in an order that no dialect may turn round, or ties would flatter.
        options = replace(options, item=item, ties=options.ties or "item_asc")
    scored, labels = {}, {}
    for name, frame in frames.items():
        (value,) = columns[name]["value"]
        is_label = sql.any_of(sql.named(grade).is_not_null() for grade in columns[name]["relevance"])
        says_something = is_label | _declares(frame, options.no_answer)
        scored[name] = sql.where(frame, sql.named(value).is_not_null() | ~says_something)
        labels[name] = sql.where(frame, is_label)
    if has_models:
        # Each model may have a row of the same label, which counts once.
        first, subtopic = columns[only], options.facts.subtopic
        names = [*first["user"], str(options.item), *first["relevance"], *first["weight"]]
        names += [] if subtopic is None else [subtopic]
        labels = {only: _rows_of_models(labels, names).distinct()}
    return LongTable(
        scored if isinstance(predictions, Mapping) else scored[only],
        labels[only],
        _with_attributes(frames, options),
        list(frames.values()),
        has_made_ids,
    )


def _declares(frame: DataFrame, no_answer: call.ColumnOrTable | None) -> sql.Sql:
    """Whether a row declares that its user has no answer."""
    column = sql.find_column(frame, no_answer) if isinstance(no_answer, str) else None
    if column is None or not isinstance(frame.schema[column].dataType, T.BooleanType):
        return sql.number(False)
    return sql.call("coalesce", sql.named(column), sql.number(False))


def _has_rows(frame: DataFrame, item: str | tuple[str, str] | None) -> bool:
    """Whether each row is a user and an item: no column has arrays, or the item names one that has none."""
    if item is None or not any(isinstance(field.dataType, T.ArrayType) for field in frame.schema.fields):
        return True
    column = sql.find_column(frame, item) if isinstance(item, str) else None
    return column is not None and not isinstance(frame.schema[column].dataType, T.ArrayType)


def _check(options: call.ScoringOptions, *, has_models: bool) -> None:
    if options.relevance is None or (options.score is None) == (options.rank is None):
        msg = (
            "labels=None needs one table. With a row for each user and item name relevance= and either score= or rank=; with arrays, "
            "item=(predictions, labels)"
        )
        raise InputError(msg)
    if isinstance(options.item, tuple):
        msg = f"item={options.item!r} is for two tables, and labels=None means one; name its column of items, or pass item=None"
        raise InputError(msg)
    if options.user is None:
        msg = "user=None is for one table of arrays, whose rows are users; name the column that says which user or query a row is of"
        raise InputError(msg)
    met = {
        "several models": has_models,
        "exclude=": options.exclude is not None,
        "tables of items in facts=": any(table is not None for table in options.facts.tables().values()),
        "facts=Facts(subtopic=…)": options.facts.subtopic is not None,
    }
    if options.item is None and any(met.values()):
        words = " and ".join(words for words, is_met in met.items() if is_met)
        msg = (
            f"item=None says that rows name no item, and {words} cannot do without; name the column of items with item="
        )
        raise InputError(msg)


def _made_id(frame: DataFrame) -> str:
    """A name for made ids that no column has."""
    name = PLACE
    while sql.find_column(frame, name) is not None:
        name += "_"
    return name


def _place(columns: Mapping[str, Sequence[str]], *, is_rank: bool) -> sql.Sql:
    """The place of a row in the list of its user: by score, of equal scores the unlabelled rows and then the lowest grade first.

    Rows that are equal in all of these can change places without a change of any value, so no order of rows decides.
    """
    # Scores compare as doubles, and of these the two zeros are equal.
    value = sql.named(columns["value"][0]).cast("double") + 0.0
    # A missing grade is the lowest, be it null or NaN.
    graded = map(sql.named, columns["relevance"])
    grades = [sql.when(~sql.call("isnan", grade.cast("double")), grade) for grade in graded]
    others = map(sql.named, (*columns["weight"], *columns["cost"]))
    order = [value if is_rank else sql.descending(value), *grades, *others]
    return sql.over(sql.call("row_number"), map(sql.named, columns["user"]), order).cast("bigint")


def _rows_of_models(frames: Mapping[str, DataFrame], names: Sequence[str]) -> DataFrame:
    """These columns of the tables of all models; an `InputError` says which ones have different types."""
    problems = []
    for name in names:
        columns = {model: sql.find_column(frame, name) for model, frame in frames.items()}
        lacking = [model for model, column in columns.items() if column is None]
        problems += [f"predictions of model {model!r} has no column {name!r}; add it" for model in lacking]
        kinds = {model: frames[model].schema[column].dataType for model, column in columns.items() if column}
        first = next(iter(kinds))
        problems += [
            f"the column {name!r} is {kinds[first].simpleString()} in predictions of model {first!r} and {kind.simpleString()} in "
            f"those of {model!r}; cast one of them"
            for model, kind in kinds.items()
            if not _meet(kinds[first], kind)
        ]
    if problems:
        raise InputError("; ".join(problems))
    return sql.rows_of_all(sql.select(frame, *map(sql.named, names)) for frame in frames.values())


def _meet(kind: T.DataType, other: T.DataType) -> bool:
    """Whether the values of two columns can stand in one, as they are."""
    both = (kind, other)
    return (
        kind == other
        or any(isinstance(each, T.NullType) for each in both)
        or all(isinstance(each, T.NumericType) for each in both)
        or all(isinstance(each, T.StringType | T.CharType | T.VarcharType) for each in both)
    )


def _with_attributes(frames: Mapping[str, DataFrame], options: call.ScoringOptions) -> call.ScoringOptions:
    """The options with the whole table as that of attributes, if it has those that are asked for: no side has all users."""
    users = as_names("user", options.user)
    lower = [name.lower() for name in users]
    names = [name for name in call.AttributeNames(options).all if name.lower() not in lower]
    is_there = all(sql.find_column(frame, name) for frame in frames.values() for name in names)
    if not names or options.facts.attributes is not None or not is_there:
        return options
    if options.users is not None and all(sql.find_column(options.users, name) for name in names):
        return options
    return replace(options, facts=replace(options.facts, attributes=_rows_of_models(frames, (*users, *names))))
