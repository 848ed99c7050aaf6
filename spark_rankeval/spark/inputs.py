"""The caller's tables: which columns are meant, whether their types can be used, and under what names they go on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Literal

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import Column, DataFrame

Role = Literal["predictions", "labels", "users"]
ValueKind = Literal["score", "rank", "relevance"]

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
_DEFAULT_ITEM = "item"
#: What Spark's RankingEvaluator calls the two array columns of its one table.
_ONE_TABLE_ITEMS = ("prediction", "label")


@dataclass(frozen=True)
class ColumnNames:
    """The names that the caller gave.

    Attributes:
        user: the columns that make a user; none for one table of arrays without ids of users.
        item: the column of items in predictions and in labels.
        score: column or field of scores.
        rank: column of ranks.
        relevance: column or field of grades.
    """

    user: tuple[str, ...]
    item: tuple[str, str]
    score: str | None = None
    rank: str | None = None
    relevance: str | None = None

    @classmethod
    def given(
        cls,
        user: str | Sequence[str] | None,
        item: str | tuple[str, str] | list[str],
        score: str | None,
        rank: str | None,
        relevance: str | None,
        one_table: bool,
    ) -> ColumnNames:
        """Names as the front door takes them: one item column for both tables, or one for each.

        Raises:
            InputError: a name is not a text, or there are not two of items.
        """
        users = _as_names(user, "user")
        items = (item, item) if isinstance(item, str) else _as_names(item, "item")
        if one_table and item == _DEFAULT_ITEM:
            items = _ONE_TABLE_ITEMS
        problems = []
        if len(items) != 2:
            problems.append(f"item must be one column, or two: that of predictions and that of labels; got {item!r}")
        if one_table and len(set(items)) == 1:
            problems.append(
                f"one table has two columns of items, that of predictions and that of labels; got item={item!r}"
            )
        if user is None and not one_table:
            problems.append("user=None is for one table of arrays; two tables need the column that joins them")
        if user is not None and not users:
            problems.append("user must name at least one column")
        problems += [
            f"a column is named by a text; got {name!r}, a {type(name).__name__}"
            for name in (*users, *items, score, rank, relevance)
            if name is not None and not isinstance(name, str)
        ]
        if not problems and len(set(users)) < len(users):
            problems.append(f"user names a column twice: {list(users)}")
        if problems:
            raise InputError("; ".join(problems))
        return cls(users, (items[0], items[1]), score, rank, relevance)


def _as_names(given: object, option: str) -> tuple[str, ...]:
    if given is None and option == "user":
        return ()
    if isinstance(given, str):
        return (given,)
    if isinstance(given, tuple | list) and all(isinstance(name, str) for name in given):
        return tuple(given)
    msg = f"{option} must be the name of a column, or a list of names; got {given!r}"
    raise InputError(msg)


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
        value: the column of scores, ranks or grades; None where there is none.
        value_field: the field of scores or grades of an array of structs.
        value_kind: what the value means.
        arrays: a row is a user with a list, not a user with one item.
        shares_table: labels that stand in the rows of the predictions: a row is then a user, and nothing is joined.
    """

    role: Role
    frame: DataFrame
    user: tuple[str, ...]
    item: str
    item_type: T.DataType
    item_field: str | None = None
    value: str | None = None
    value_field: str | None = None
    value_kind: ValueKind | None = None
    arrays: bool = False
    shares_table: bool = False

    @property
    def has_value(self) -> bool:
        """Whether there are scores, ranks or grades."""
        return self.value is not None or self.value_field is not None

    def user_columns(self) -> list[Column]:
        """The user's columns."""
        return [column(name) for name in self.user]

    def ids(self) -> Column:
        """The item, or the array of items."""
        whole = column(self.item)
        return whole if self.item_field is None else whole.getField(self.item_field)

    def values(self) -> Column:
        """The scores, ranks or grades, or the arrays of them."""
        if self.value_field is not None:
            return column(self.item).getField(self.value_field)
        return column(self.value or "")

    def user_types(self) -> list[T.DataType]:
        """The types of the user's columns."""
        return [self.frame.schema[name].dataType for name in self.user]


def column(name: str) -> Column:
    """A top-level column by its exact name, whatever characters are in it."""
    return F.col("`" + name.replace("`", "``") + "`")


def any_null(columns: Iterable[Column]) -> Column:
    """Whether any of the columns is null; of no columns, false."""
    return reduce(or_, [one.isNull() for one in columns], F.lit(False))


def find_column(frame: DataFrame, name: str) -> str | None:
    """The name of a column as the table spells it; Spark compares names without regard to case.

    Raises:
        InputError: several columns answer to the name.
    """
    matches = [known for known in frame.columns if known.lower() == name.lower()]
    if len(matches) > 1 and frame.sparkSession.conf.get("spark.sql.caseSensitive", "false") == "true":
        matches = [known for known in matches if known == name] or matches
    if len(matches) > 1:
        msg = f"the column {name!r} is ambiguous: the table has {matches}; rename them, or select one"
        raise InputError(msg)
    return matches[0] if matches else None


def read_sources(
    predictions: DataFrame, labels: DataFrame | None, users: DataFrame | None, names: ColumnNames
) -> tuple[Source, Source, Source | None]:
    """Find and check the columns of all tables, before any job.

    Args:
        predictions: rows or arrays of predicted items.
        labels: rows or arrays of labelled items; None: they are in the table of predictions.
        users: a table of users to count besides; only the user's columns are read.
        names: the caller's names.

    Raises:
        InputError: columns are missing, ambiguous or of types that cannot be used or compared; all offenders at once.
    """
    for role, frame in (("predictions", predictions), ("labels", labels), ("users", users)):
        if frame is not None and not (hasattr(frame, "schema") and hasattr(frame, "select")):
            msg = f"{role} must be a Spark DataFrame; got a {type(frame).__name__}"
            raise InputError(msg)
    problems: list[str] = []
    if labels is None and names.user == ("user",) and find_column(predictions, "user") is None:
        # Spark's evaluators take one table of two arrays, which names no user.
        names = ColumnNames((), names.item, names.score, names.rank, names.relevance)
    left = _read("predictions", predictions, names, problems)
    right = _read("labels", predictions if labels is None else labels, names, problems)
    left, right = (replace(source, shares_table=labels is None) for source in (left, right))
    everyone = None if users is None else _read("users", users, names, problems)
    if labels is None and not problems and not (left.arrays and right.arrays):
        problems.append(
            "labels=None means one table with an array of predictions and an array of labels; "
            f"got {left.item!r} of {_type_of(left)} and {right.item!r} of {_type_of(right)}. Pass labels as a table of its own"
        )
    if labels is None and users is not None:
        problems.append("users cannot be given with one table: each of its rows is counted")
    if not problems:
        _compare(left, right, everyone, problems)
    if problems:
        raise InputError("; ".join(dict.fromkeys(problems)))
    return left, right, everyone


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
    if role == "users":
        return Source(role, frame, tuple(users), "", T.NullType())
    wanted = names.item[0 if role == "predictions" else 1]
    item = find_column(frame, wanted) or _array_with(frame, wanted, names)
    if item is None:
        _require(role, frame, wanted, "item", problems)
        return Source(role, frame, tuple(users), wanted, T.NullType())
    kind = frame.schema[item].dataType
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
    return next(iter(elements)) if item == _DEFAULT_ITEM and len(elements) == 1 else None


def _read_rows(
    role: Role, frame: DataFrame, users: tuple[str, ...], item: str, names: ColumnNames, problems: list[str]
) -> Source:
    item_type = frame.schema[item].dataType
    _check_item_type(role, item, item_type, problems)
    value_kind: ValueKind | None = None
    value = None
    if role == "predictions":
        given = [kind for kind, name in (("score", names.score), ("rank", names.rank)) if name is not None]
        if len(given) != 1:
            got = "both" if given else "neither"
            problems.append(
                f"predictions come as rows, which need score= (highest first) or rank= (lowest first), and one of them only; got {got}. "
                f"The table has: {', '.join(frame.columns)}"
            )
        else:
            value_kind = "score" if names.score is not None else "rank"
            value = _require(role, frame, names.score or names.rank or "", value_kind, problems)
    elif names.relevance is not None:
        value_kind = "relevance"
        value = _require(role, frame, names.relevance, value_kind, problems)
    if value is not None:
        _check_value_type(role, value, frame.schema[value].dataType, str(value_kind), problems)
    return Source(role, frame, users, item, item_type, value=value, value_kind=value_kind)


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
    value_name = names.score if role == "predictions" else names.relevance
    value_kind: ValueKind | None = None if value_name is None else "score" if role == "predictions" else "relevance"
    if role == "predictions" and names.rank is not None:
        problems.append(
            f"predictions come as arrays ({item!r}), whose order is the rank; leave rank={names.rank!r} out"
        )
    field, item_type, value, value_field = None, element, None, None
    if isinstance(element, T.StructType):
        field = next((n for n in (wanted, names.item[0], _DEFAULT_ITEM) if n in element.names), element.names[0])
        item_type = element[field].dataType
        if value_name is not None and value_name in element.names:
            value_field, value_type = value_name, element[value_name].dataType
    if value_name is not None and value_field is None:
        value = find_column(frame, value_name)
        if value is None:
            fields = (
                f"; the structs in {item!r} have: {', '.join(element.names)}"
                if isinstance(element, T.StructType)
                else ""
            )
            problems.append(
                f"{role} has no column {value_name!r} ({value_kind}=); it has: {', '.join(frame.columns)}{fields}"
            )
        else:
            value_array = frame.schema[value].dataType
            if not isinstance(value_array, T.ArrayType):
                problems.append(
                    f"{role}: {value_kind}={value!r} must be an array beside the array {item!r}; it is {value_array.simpleString()}"
                )
                value = None
            else:
                value_type = value_array.elementType
    if value is not None or value_field is not None:
        _check_value_type(role, value_name or "", value_type, str(value_kind), problems)
    _check_item_type(role, item, item_type, problems)
    return Source(role, frame, users, item, item_type, field, value, value_field, value_kind, arrays=True)


def _check_item_type(role: Role, name: str, kind: T.DataType, problems: list[str]) -> None:
    if not isinstance(kind, T.IntegralType | T.StringType | T.FloatType | T.DoubleType):
        problems.append(
            f"{role}: the item column {name!r} is {kind.simpleString()}; items are whole numbers, text or doubles: cast it to string"
        )


def _check_value_type(role: Role, name: str, kind: T.DataType, meaning: str, problems: list[str]) -> None:
    boolean = meaning == "relevance" and isinstance(kind, T.BooleanType)
    if not isinstance(kind, T.NumericType) and not boolean:
        problems.append(f"{role}: {meaning}={name!r} must be a number; it is {kind.simpleString()}. Cast it")


def common_id_type(left: T.DataType, right: T.DataType) -> T.DataType | None:
    """The type under which two ids compare without a cast that could change either; None where there is none."""
    if isinstance(left, T.StringType) and isinstance(right, T.StringType):
        return T.StringType()
    if isinstance(left, T.IntegralType) and isinstance(right, T.IntegralType):
        return left if left == right else T.LongType()
    if isinstance(left, _FLOATING) and isinstance(right, _FLOATING):
        return left if left == right else T.DoubleType()
    return left if left == right else None


def _compare(left: Source, right: Source, everyone: Source | None, problems: list[str]) -> None:
    if common_id_type(left.item_type, right.item_type) is None:
        problems.append(
            f"items do not compare: predictions' {left.item!r} is {left.item_type.simpleString()}, labels' {right.item!r} is "
            f"{right.item_type.simpleString()}; cast one of them (nothing is cast in silence: '01' would equal 1)"
        )
    for other in (right, everyone):
        if other is None:
            continue
        for name, one, two in zip(left.user, left.user_types(), other.user_types(), strict=True):
            if common_id_type(one, two) is None:
                problems.append(
                    f"users do not compare: {name!r} is {one.simpleString()} in predictions and {two.simpleString()} "
                    f"in {other.role}; cast one of them"
                )


def _type_of(source: Source) -> str:
    return source.frame.schema[source.item].dataType.simpleString()
