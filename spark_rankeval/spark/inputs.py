"""The caller's tables: which columns are meant, whether their types can be used, and under what names they go on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Literal, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.errors import InputError
from spark_rankeval.spark.column_names import DEFAULT_ITEM, ColumnNames
from spark_rankeval.spark.platforms import setting
from spark_rankeval.worker.reading import USER_HASH

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import Column, DataFrame

Role = Literal["predictions", "labels", "users", "exclude", "attributes"]
ValueKind = Literal["score", "rank", "relevance"]

_MOST_MODELS = 100
_FLOATING = (T.FloatType, T.DoubleType)
#: What tables can be grouped and joined by, and Arrow carries.
_USER_TYPES = (
    T.NumericType,
    T.StringType,
    T.BooleanType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
    T.BinaryType,
)


class ValueColumn(NamedTuple):
    """A column of scores, ranks or grades.

    Attributes:
        name: of the column, or of the field where the items are structs.
        kind: its type; of an array that of its elements.
        is_field: whether it is a field of the items' structs.
    """

    name: str
    kind: T.DataType
    is_field: bool = False


@dataclass(frozen=True)
class Source:
    """One side of the input, its columns found and their types checked.

    Attributes:
        role: what it holds.
        frame: the caller's DataFrame.
        user: the names of the user columns in it.
        item: the name of the item column.
        item_field: the field of items, where the column holds arrays of structs.
        item_type: the type of an item.
        given_values: the column of scores or ranks, or the columns of grades; none where there are none.
        value_kind: what the values mean.
        arrays: a row is a user with a list, not a user with one item.
        shares_table: labels that stand in the rows of the predictions: a row is then a user, and nothing is joined.
    """

    role: Role
    frame: DataFrame
    user: tuple[str, ...]
    item: str
    item_type: T.DataType
    item_field: str | None = None
    given_values: tuple[ValueColumn, ...] = ()
    value_kind: ValueKind | None = None
    arrays: bool = False
    shares_table: bool = False

    @property
    def has_value(self) -> bool:
        """Whether there are scores, ranks or grades."""
        return bool(self.given_values)

    def user_columns(self) -> list[Column]:
        """The user's columns."""
        return [column(name) for name in self.user]

    def ids(self) -> Column:
        """The item, or the array of items."""
        whole = column(self.item)
        return whole if self.item_field is None else whole.getField(self.item_field)

    def values(self) -> list[Column]:
        """The scores, ranks or grades, or the arrays of them: a column for each that was named."""
        items = column(self.item)
        return [items.getField(one.name) if one.is_field else column(one.name) for one in self.given_values]

    def user_types(self) -> list[T.DataType]:
        """The types of the user's columns."""
        return [self.frame.schema[name].dataType for name in self.user]


def column(name: str) -> Column:
    """A top-level column by its exact name, whatever characters are in it."""
    return F.col("`" + name.replace("`", "``") + "`")


def any_null(columns: Iterable[Column]) -> Column:
    """Whether any of the columns is null; of no columns, false."""
    return reduce(or_, [one.isNull() for one in columns], F.lit(False))


def user_hash(columns: Iterable[Column], types: Iterable[T.DataType]) -> Column:
    """A 64-bit hash of a user's id, equal for equal ids of any width, by which the user is drawn into bootstrap samples.

    Args:
        columns: the user's columns.
        types: their types.
    """
    widest = [
        column.cast("bigint")
        if isinstance(kind, T.IntegralType)
        else column.cast("double")
        if isinstance(kind, _FLOATING)
        else column
        for column, kind in zip(columns, types, strict=True)
    ]
    return F.xxhash64(*widest).alias(USER_HASH)


def find_column(frame: DataFrame, name: str) -> str | None:
    """The name of a column as the table spells it; Spark compares names without regard to case.

    Raises:
        InputError: several columns answer to the name.
    """
    matches = [known for known in frame.columns if known.lower() == name.lower()]
    if len(matches) > 1 and setting(frame.sparkSession, "spark.sql.caseSensitive", "false") == "true":
        matches = [known for known in matches if known == name] or matches
    if len(matches) > 1:
        msg = f"the column {name!r} is ambiguous: the table has {matches}; rename them, or select one"
        raise InputError(msg)
    return matches[0] if matches else None


class Model(NamedTuple):
    """The predictions of a model.

    Attributes:
        name: what the caller calls it; empty where there is but one, without a name.
        source: the table that holds them.
    """

    name: str
    source: Source


@dataclass(frozen=True)
class Sources:
    """The sides of the input.

    Attributes:
        models: the predictions of each model; all of one table where a column says which model a row is of.
        labels: the labelled items.
        users: users to count besides.
        exclude: items to leave out of the predictions.
        model_column: the column that says which model a row of predictions is of.
        attributes: the table whose columns part the users into slices.
        slices: these columns.
    """

    models: tuple[Model, ...]
    labels: Source
    users: Source | None = None
    exclude: Source | None = None
    model_column: str | None = None
    attributes: Source | None = None
    slices: tuple[str, ...] = ()

    @property
    def predictions(self) -> Source:
        """The predictions of the first model."""
        return self.models[0].source

    def tables(self) -> list[Source]:
        """Every table of predictions, once."""
        return list({id(model.source.frame): model.source for model in self.models}.values())


def read_sources(
    predictions: DataFrame | Mapping[str, DataFrame],
    labels: DataFrame | None,
    users: DataFrame | None,
    exclude: DataFrame | None,
    names: ColumnNames,
    attributes: DataFrame | None = None,
    by: tuple[str, ...] = (),
) -> Sources:
    """Find and check the columns of all tables, before any job; but a column of models is read for their names.

    Args:
        predictions: rows or arrays of predicted items; or such a table for each model, by the model's name.
        labels: rows or arrays of labelled items; None: they are in the table of predictions.
        users: a table of users to count besides; only the user's columns are read.
        exclude: rows of items to leave out of the predictions; the columns are named as those of predictions.
        names: the caller's names.
        attributes: a table of users with the columns of `by`.
        by: columns that part the users into slices; without `attributes`, of the first of users, labels and predictions
            that has them all.

    Raises:
        InputError: columns are missing, ambiguous or of types that cannot be used or compared; all offenders at once.
    """
    by_model = predictions if isinstance(predictions, Mapping) else {"": predictions}
    if isinstance(predictions, Mapping) and (wrong := _wrong_names(predictions)):
        raise InputError(wrong)
    _check_tables(
        {
            **{_called("predictions", name): one for name, one in by_model.items()},
            "users": users,
            "exclude": exclude,
            "attributes": attributes,
        }
    )
    if labels is not None:
        _check_tables({"labels": labels})
    first = next(iter(by_model.values()))
    problems: list[str] = []
    if isinstance(predictions, Mapping) and names.model is not None:
        problems.append("predictions come as a dict by model; leave the column of models (model=) out")
    if labels is None and names.user == ("user",) and find_column(first, "user") is None:
        # Spark's evaluators take one table of two arrays, which names no user.
        names = replace(names, user=())
    models = [Model(name, _read("predictions", frame, names, problems)) for name, frame in by_model.items()]
    left = models[0].source
    right = _read("labels", first if labels is None else labels, names, problems)
    everyone = None if users is None else _read("users", users, names, problems)
    left_out = None if exclude is None else _read("exclude", exclude, names, problems)
    about = _attributes(attributes, by, [users, labels, *by_model.values()], names, problems)
    if labels is None:
        if not problems and not (left.arrays and right.arrays):
            problems.append(
                "labels=None means one table with an array of predictions and an array of labels; got "
                f"{left.item!r} of {_type_of(left)} and {right.item!r} of {_type_of(right)}. Pass labels as a table of its own"
            )
        several = len(models) > 1 or names.model is not None
        problems += [
            words
            for words, met in zip(_ONE_TABLE, (users, exclude, attributes, several or None), strict=True)
            if met is not None
        ]
    if not problems:
        _compare(left, (*(model.source for model in models[1:]), right, everyone, left_out, about), problems)
        problems += [
            f"predictions of model {model.name!r} come as {'arrays' if model.source.arrays else 'rows'}, those of "
            f"{models[0].name!r} do not; give all models in one form"
            for model in models[1:]
            if (model.source.arrays, model.source.has_value) != (left.arrays, left.has_value)
        ]
    column = None
    if names.model is not None:
        column = _require("predictions", first, names.model, "model", problems)
    if problems:
        raise InputError("; ".join(dict.fromkeys(problems)))
    if column is not None:
        models = [Model(name, left) for name in _model_names(first, column)]
    shared = labels is None
    models = [model._replace(source=replace(model.source, shares_table=shared)) for model in models]
    slices = () if about is None else tuple(str(find_column(about.frame, name)) for name in by)
    return Sources(tuple(models), replace(right, shares_table=shared), everyone, left_out, column, about, slices)


_ONE_TABLE = (
    "users cannot be given with one table: each of its rows is counted",
    "exclude cannot be given with one table, whose rows are users already; pass labels as a table",
    "attributes cannot be given with one table; name columns of the table itself with by=",
    "several models cannot stand in one table with the labels; pass labels as a table of their own",
)


def _attributes(
    given: DataFrame | None,
    by: tuple[str, ...],
    others: Iterable[DataFrame | None],
    names: ColumnNames,
    problems: list[str],
) -> Source | None:
    """The table that has the columns of the slices."""
    if not by:
        if given is not None:
            problems.append("attributes are for slices: name the columns that part the users with by=")
        return None
    frames = [frame for frame in ([given] if given is not None else others) if frame is not None]
    holder = next((frame for frame in frames if all(find_column(frame, name) for name in by)), None)
    if holder is None:
        there = "; ".join(", ".join(frame.columns) for frame in frames)
        problems.append(f"by={list(by)}: no table has these columns of the user together; there are: {there}")
        return None
    for name in by:
        kind = holder.schema[str(find_column(holder, name))].dataType
        if not isinstance(kind, _USER_TYPES):
            problems.append(
                f"by: the column {name!r} is {kind.simpleString()}; slices are made by plain values: cast it"
            )
    return _read("attributes", holder, names, problems)


def _called(role: str, model: str) -> str:
    return f"{role} of model {model!r}" if model else role


def _check_tables(tables: Mapping[str, DataFrame | None]) -> None:
    for role, frame in tables.items():
        if frame is not None and not (hasattr(frame, "schema") and hasattr(frame, "select")):
            msg = f"{role} must be a Spark DataFrame; got a {type(frame).__name__}"
            raise InputError(msg)


def _wrong_names(tables: Mapping[str, DataFrame]) -> str:
    if not tables:
        return "predictions is an empty dict; give a table for each model, by its name"
    wrong = [name for name in tables if not isinstance(name, str) or not name.strip()]
    return f"a model's name is a text that is not empty; got {wrong!r}" if wrong else ""


def _model_names(frame: DataFrame, model: str) -> list[str]:
    """The models that a column names, in the order of the alphabet."""
    named = column(model).cast("string")
    rows = frame.select(named.alias("model")).where(named.isNotNull()).distinct().limit(_MOST_MODELS + 1).collect()
    found = sorted(row["model"] for row in rows)
    if not found or len(found) > _MOST_MODELS:
        shown = f"more than {_MOST_MODELS} models, {found[0]!r} among them" if found else "no model: every row is null"
        msg = f"predictions: the column {model!r} (model=) names {shown}. Name the column whose values are models"
        raise InputError(msg)
    return found


def _read(role: Role, frame: DataFrame, names: ColumnNames, problems: list[str]) -> Source:
    users = []
    for name in names.user:
        found = _require(role, frame, name, "user", problems)
        if found is None:
            continue
        users.append(found)
        kind = frame.schema[found].dataType
        if not isinstance(kind, _USER_TYPES):
            problems.append(
                f"{role}: the user column {found!r} is {kind.simpleString()}; cast it to string, or name its parts as columns"
            )
    if len(set(users)) < len(users):
        problems.append(f"{role}: user names the column {users[0]!r} twice")
    if role in ("users", "attributes"):
        return Source(role, frame, tuple(users), "", T.NullType())
    wanted = names.item[1 if role == "labels" else 0]
    item = find_column(frame, wanted) or (None if role == "exclude" else _array_with(frame, wanted, names))
    if item is None:
        _require(role, frame, wanted, "item", problems)
        return Source(role, frame, tuple(users), wanted, T.NullType())
    kind = frame.schema[item].dataType
    if role == "exclude":
        _check_item_type(role, item, kind, problems)
        return Source(role, frame, tuple(users), item, kind)
    if isinstance(kind, T.ArrayType):
        return _read_arrays(role, frame, tuple(users), item, wanted, names, problems)
    return _read_rows(role, frame, tuple(users), item, names, problems)


def _require(role: Role, frame: DataFrame, name: str, meaning: str, problems: list[str]) -> str | None:
    try:
        found = find_column(frame, name)
    except InputError as error:
        problems.append(f"{role}: {error}")
        return None
    if found is None:
        there = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in frame.schema.fields)
        problems.append(f"{role} has no column {name!r} ({meaning}=); it has: {there}")
    return found


def _array_with(frame: DataFrame, item: str, names: ColumnNames) -> str | None:
    """The array column that holds the items where no column has their name, as in ALS recommendForAllUsers."""
    elements = {
        field.name: field.dataType.elementType
        for field in frame.schema.fields
        if isinstance(field.dataType, T.ArrayType) and field.name not in names.user
    }
    inside = [name for name, kind in elements.items() if isinstance(kind, T.StructType) and item in kind.names]
    if len(inside) == 1:
        return inside[0]
    return next(iter(elements)) if item == DEFAULT_ITEM and len(elements) == 1 else None


def _read_rows(
    role: Role, frame: DataFrame, users: tuple[str, ...], item: str, names: ColumnNames, problems: list[str]
) -> Source:
    item_type = frame.schema[item].dataType
    _check_item_type(role, item, item_type, problems)
    wanted: tuple[str, ...] = ()
    value_kind: ValueKind = "relevance"
    if role == "predictions":
        given: dict[ValueKind, str | None] = {"score": names.score, "rank": names.rank}
        chosen = {kind: name for kind, name in given.items() if name is not None}
        if len(chosen) == 1:
            value_kind, wanted = next(iter(chosen)), tuple(chosen.values())
        else:
            problems.append(
                f"predictions come as rows, which need score= (highest first) or rank= (lowest first), and one of them only; "
                f"got {'both' if chosen else 'neither'}. The table has: {', '.join(frame.columns)}"
            )
    else:
        wanted = names.relevance
    values = []
    for name in wanted:
        found = _require(role, frame, name, value_kind, problems)
        if found is not None:
            values.append(ValueColumn(found, frame.schema[found].dataType))
            _check_value_type(role, values[-1], value_kind, problems)
    _check_twice(role, value_kind, values, problems)
    return Source(role, frame, users, item, item_type, given_values=tuple(values), value_kind=value_kind)


def _read_arrays(
    role: Role,
    frame: DataFrame,
    users: tuple[str, ...],
    item: str,
    wanted: str,
    names: ColumnNames,
    problems: list[str],
) -> Source:
    array = frame.schema[item].dataType
    assert isinstance(array, T.ArrayType), "the caller saw an array"
    element = array.elementType
    wanted_values = names.relevance if role == "labels" else (names.score,) if names.score is not None else ()
    value_kind: ValueKind = "relevance" if role == "labels" else "score"
    if role == "predictions" and names.rank is not None:
        problems.append(
            f"predictions come as arrays ({item!r}), whose order is the rank; leave rank={names.rank!r} out"
        )
    field, item_type = None, element
    if isinstance(element, T.StructType):
        field = next((n for n in (wanted, names.item[0], DEFAULT_ITEM) if n in element.names), element.names[0])
        item_type = element[field].dataType
    values = []
    for name in wanted_values:
        found = _array_value(role, frame, item, element, name, value_kind, problems)
        if found is not None:
            values.append(found)
            _check_value_type(role, found, value_kind, problems)
    _check_twice(role, value_kind, values, problems)
    _check_item_type(role, item, item_type, problems)
    return Source(role, frame, users, item, item_type, field, tuple(values), value_kind, arrays=True)


def _array_value(
    role: Role, frame: DataFrame, item: str, element: T.DataType, name: str, meaning: ValueKind, problems: list[str]
) -> ValueColumn | None:
    """The field of the items' structs, or the array beside them, that has this name."""
    if isinstance(element, T.StructType) and name in element.names:
        return ValueColumn(name, element[name].dataType, is_field=True)
    found = find_column(frame, name)
    if found is None:
        fields = (
            f"; the structs in {item!r} have: {', '.join(element.names)}" if isinstance(element, T.StructType) else ""
        )
        problems.append(f"{role} has no column {name!r} ({meaning}=); it has: {', '.join(frame.columns)}{fields}")
        return None
    kind = frame.schema[found].dataType
    if not isinstance(kind, T.ArrayType):
        problems.append(
            f"{role}: {meaning}={found!r} must be an array beside the array {item!r}; it is {kind.simpleString()}"
        )
        return None
    return ValueColumn(found, kind.elementType)


def _check_item_type(role: Role, name: str, kind: T.DataType, problems: list[str]) -> None:
    if not isinstance(kind, T.IntegralType | T.StringType | T.FloatType | T.DoubleType):
        problems.append(
            f"{role}: the item column {name!r} is {kind.simpleString()}; items are whole numbers, text or doubles: cast it to string"
        )


def _check_twice(role: Role, meaning: ValueKind, values: Sequence[ValueColumn], problems: list[str]) -> None:
    """Names that differ in case alone are of one column."""
    names = [value.name for value in values]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    problems += [f"{role}: {meaning} names the column {name!r} twice" for name in twice]


def _check_value_type(role: Role, value: ValueColumn, meaning: ValueKind, problems: list[str]) -> None:
    boolean = meaning == "relevance" and isinstance(value.kind, T.BooleanType)
    if not isinstance(value.kind, T.NumericType) and not boolean:
        problems.append(
            f"{role}: {meaning}={value.name!r} must be a number; it is {value.kind.simpleString()}. Cast it"
        )


def common_id_type(left: T.DataType, right: T.DataType) -> T.DataType | None:
    """The type under which two ids compare without a cast that could change either; None where there is none."""
    if isinstance(left, T.StringType) and isinstance(right, T.StringType):
        return T.StringType()
    if isinstance(left, T.IntegralType) and isinstance(right, T.IntegralType):
        return left if left == right else T.LongType()
    if isinstance(left, _FLOATING) and isinstance(right, _FLOATING):
        return left if left == right else T.DoubleType()
    return left if left == right else None


def _compare(left: Source, others: Iterable[Source | None], problems: list[str]) -> None:
    for other in others:
        if other is None:
            continue
        if other.role not in ("users", "attributes") and common_id_type(left.item_type, other.item_type) is None:
            problems.append(
                f"items do not compare: predictions' {left.item!r} is {left.item_type.simpleString()}, {other.role}' "
                f"{other.item!r} is {other.item_type.simpleString()}; cast one of them (nothing is cast in silence: '01' would equal 1)"
            )
        for name, one, two in zip(left.user, left.user_types(), other.user_types(), strict=True):
            if common_id_type(one, two) is None:
                problems.append(
                    f"users do not compare: {name!r} is {one.simpleString()} in predictions and {two.simpleString()} "
                    f"in {other.role}; cast one of them"
                )


def _type_of(source: Source) -> str:
    return source.frame.schema[source.item].dataType.simpleString()
