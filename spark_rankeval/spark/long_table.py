"""One table of predictions with labels in the same rows, as learning to rank has it: the rows of each side, and ids of items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from spark_rankeval.checks import as_names, check_table
from spark_rankeval.errors import InputError
from spark_rankeval.request.column_names import AttributeNames
from spark_rankeval.request.options import ColumnOrTable, ScoringOptions, Table, Vectors, grade_columns
from spark_rankeval.spark.source import require_column
from spark_rankeval.spark.sql_text import (
    Sql,
    any_of,
    call,
    descending,
    find_column,
    named,
    number,
    over,
    rows_of_all,
    select,
    when,
    where,
    with_columns,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The column of made ids, where rows name no item: the place of the row in the user's list.
PLACE = "place_in_list"


@dataclass(frozen=True)
class BothSides:
    """A table of rows that are predictions, labels, or both."""

    frame: DataFrame
    is_prediction: Sql | None = None  # None: every row is
    is_label: Sql | None = None
    without_ids: DataFrame | None = None  # the same before ids were made


@dataclass(frozen=True)
class LongTable:
    """What a long table is for an evaluation: the rows of each side, and the options that name their columns."""

    predictions: DataFrame | Mapping[str, DataFrame]
    labels: DataFrame
    options: ScoringOptions
    both: BothSides | None  # the rows of both sides, if there is one model
    frames: list[DataFrame]  # the tables of all models
    has_made_ids: bool  # whether rows name no item


@dataclass(frozen=True)
class _Columns:
    """The columns of a long table, as the table spells them."""

    users: tuple[str, ...]
    value: str  # of scores or ranks
    grades: tuple[str, ...]
    weight: tuple[str, ...]  # of labels; one or none
    cost: tuple[str, ...]  # of predictions; likewise

    @classmethod
    def find(cls, frame: DataFrame, options: ScoringOptions) -> _Columns:
        """Those that the options name; an InputError names all that are lacking."""
        problems: list[str] = []

        def found(meaning: str, names: Sequence[str]) -> tuple[str, ...]:
            columns = (require_column("predictions", frame, name, meaning, problems) for name in names)
            return tuple(filter(None, columns))

        kind = "score" if options.rank is None else "rank"
        users = found("user", as_names("user", options.user))
        value = found(kind, [getattr(options, kind)])
        grades = found("relevance", as_names("relevance", grade_columns(options.relevance)))
        weight = found("weight", [] if options.weight is None else [options.weight])
        cost = found("cost", [] if options.cost is None else [options.cost])
        if options.item is not None and not found("item", [str(options.item)]):
            problems[-1] += ". If rows name no item, pass item=None"
        if problems:
            raise InputError("; ".join(problems))
        return cls(users, value[0], grades, weight, cost)


def read_long_table(
    predictions: Table | Vectors | Mapping[str, Table | Vectors], options: ScoringOptions
) -> LongTable | None:
    """The sides of a call without labels, if rows of predictions have them; None if it means arrays.

    A row is a prediction if it has a score or rank, and a label if it has a grade. A row without either may declare that its user has no
    answer. Any other counts as a prediction that cannot be ranked, so that none is lost.
    """
    tables = dict(predictions) if isinstance(predictions, Mapping) else {"": predictions}
    frames = {name: table for name, table in tables.items() if not isinstance(table, Vectors)}
    if len(frames) < len(tables) or not frames:
        return None
    for table in frames.values():
        check_table("predictions", table)
    if not _has_rows(next(iter(frames.values())), options.item):
        return None
    has_models = len(frames) > 1 or options.model is not None
    only = next(iter(frames))
    _check(options, has_models=has_models)
    columns = {name: _Columns.find(frame, options) for name, frame in frames.items()}
    has_made_ids, without_ids = options.item is None, None
    if has_made_ids:
        item, without_ids = _made_id(frames[only]), frames[only]
        frames = {only: with_columns(frames[only], {item: _place(columns[only], is_rank=options.rank is not None)})}
        # Ids are numbers in an order that no dialect may turn round, or ties would flatter.
        options = replace(options, item=item, ties=options.ties or "item_asc")
    is_label = {name: any_of(named(grade).is_not_null() for grade in columns[name].grades) for name in frames}
    says_something = {name: is_label[name] | _declares(frame, options.no_answer) for name, frame in frames.items()}
    is_prediction = {name: named(columns[name].value).is_not_null() | ~says_something[name] for name in frames}
    scored = {name: where(frame, is_prediction[name]) for name, frame in frames.items()}
    labels = {name: where(frame, is_label[name]) for name, frame in frames.items()}
    return LongTable(
        scored if isinstance(predictions, Mapping) else scored[only],
        _labels_of_models(labels, columns[only], options) if has_models else labels[only],
        _with_attributes(frames, options),
        None if has_models else BothSides(frames[only], is_prediction[only], is_label[only], without_ids),
        list(frames.values()),
        has_made_ids,
    )


def _declares(frame: DataFrame, no_answer: ColumnOrTable | None) -> Sql:
    """Whether a row declares that its user has no answer."""
    column = find_column(frame, no_answer) if isinstance(no_answer, str) else None
    if column is None or not isinstance(frame.schema[column].dataType, T.BooleanType):
        return number(False)
    return call("coalesce", named(column), number(False))


def _has_rows(frame: DataFrame, item: str | tuple[str, str] | None) -> bool:
    """Whether each row is a user and an item: no column has arrays, or the item names one that has none."""
    if item is None or not any(isinstance(field.dataType, T.ArrayType) for field in frame.schema.fields):
        return True
    column = find_column(frame, item) if isinstance(item, str) else None
    return column is not None and not isinstance(frame.schema[column].dataType, T.ArrayType)


def _check(options: ScoringOptions, *, has_models: bool) -> None:
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
    while find_column(frame, name) is not None:
        name += "_"
    return name


def _place(columns: _Columns, *, is_rank: bool) -> Sql:
    """The place of a row in the list of its user: by score, of equal scores the unlabelled rows and then the lowest grade first.

    Rows that are equal in all of these can change places without a change of any value, so no order of rows decides.
    """
    # Scores compare as doubles, and of these the two zeros are equal.
    value = named(columns.value).cast("double") + 0.0
    # A missing grade is the lowest, be it null or NaN.
    grades = [when(~call("isnan", named(grade).cast("double")), named(grade)) for grade in columns.grades]
    order = [value if is_rank else descending(value), *grades, *map(named, (*columns.weight, *columns.cost))]
    # Of the type of numbers of rows, which take its place in a table that is read once.
    return over(call("row_number"), map(named, columns.users), order).cast("bigint")


def _labels_of_models(labels: Mapping[str, DataFrame], columns: _Columns, options: ScoringOptions) -> DataFrame:
    """The labels of several models as one table: each model may have a row of the same label, which counts once."""
    subtopic = [] if options.facts.subtopic is None else [options.facts.subtopic]
    names = (*columns.users, str(options.item), *columns.grades, *columns.weight, *subtopic)
    return _rows_of_models(labels, names).distinct()


def _rows_of_models(frames: Mapping[str, DataFrame], names: Sequence[str]) -> DataFrame:
    """These columns of the tables of all models; an `InputError` says which ones have different types."""
    problems = []
    for name in names:
        columns = {model: find_column(frame, name) for model, frame in frames.items()}
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
    return rows_of_all(select(frame, *map(named, names)) for frame in frames.values())


def _meet(kind: T.DataType, other: T.DataType) -> bool:
    """Whether the values of two columns can stand in one, as they are."""
    both = (kind, other)
    return (
        kind == other
        or any(isinstance(each, T.NullType) for each in both)
        or all(isinstance(each, T.NumericType) for each in both)
        or all(isinstance(each, T.StringType | T.CharType | T.VarcharType) for each in both)
    )


def _with_attributes(frames: Mapping[str, DataFrame], options: ScoringOptions) -> ScoringOptions:
    """The options with the whole table as that of attributes, if it has those that are asked for: no side has all users."""
    users = as_names("user", options.user)
    lower = [name.lower() for name in users]
    names = [name for name in AttributeNames.from_options(options).all if name.lower() not in lower]
    is_there = all(find_column(frame, name) for frame in frames.values() for name in names)
    if not names or options.facts.attributes is not None or not is_there:
        return options
    if options.users is not None and all(find_column(options.users, name) for name in names):
        return options
    return replace(options, facts=replace(options.facts, attributes=_rows_of_models(frames, (*users, *names))))
