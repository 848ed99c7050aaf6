"""One table of the caller's: which of its columns are meant, and whether their types can be used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from pyspark.sql import types as T

from spark_rankeval.errors import InputError, did_you_mean
from spark_rankeval.request.column_names import DEFAULT_ITEM, ColumnNames
from spark_rankeval.spark.ids import why_unusable
from spark_rankeval.spark.named_columns import column, find_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

Role = Literal["predictions", "labels", "users", "exclude", "attributes", "training", "items", "baseline"]
#: Tables without a list of a user: what is asked of them are single rows of items.
_OF_ITEMS = ("exclude", "training", "items")
#: Tables whose users, or whose items, are none.
WITHOUT_USERS, WITHOUT_ITEMS = ("items",), ("users", "attributes")
ValueKind = Literal["score", "rank", "relevance"]


class ValueColumn(NamedTuple):
    """A column of scores, ranks or grades."""

    name: str  # of the column, or of the field if the items are structs
    kind: T.DataType  # its type; of an array that of its elements
    is_field: bool = False  # whether it is a field of the items' structs
    # The name of what labels have beside their grades, such as ``weight``; empty: it has scores, ranks or grades.
    beside: str = ""


@dataclass(frozen=True)
class Source:
    """One side of the input, its columns found and their types checked."""

    role: Role
    frame: DataFrame
    user: tuple[str, ...]
    item: str
    item_type: T.DataType
    item_field: str | None = None  # the field of items, if the column holds arrays of structs
    # The column of scores or ranks, or the columns of grades and then those beside them; none if there are none.
    given_values: tuple[ValueColumn, ...] = ()
    value_kind: ValueKind | None = None
    arrays: bool = False  # a row is a user with a list, not a user with one item
    # Labels that stand in the rows of the predictions: a row is then a user, and nothing is joined.
    shares_table: bool = False

    @property
    def has_value(self) -> bool:
        """Whether there are scores, ranks or grades."""
        return bool(self.given_values)

    @property
    def grades(self) -> tuple[str, ...]:
        """The names of the columns of grades."""
        return tuple(value.name for value in self.given_values if not value.beside)

    @property
    def label_columns(self) -> tuple[str, ...]:
        """What labels have beside their grades, by name."""
        return tuple(value.beside for value in self.given_values if value.beside)

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


def read_source(role: Role, frame: DataFrame, names: ColumnNames, problems: list[str]) -> Source:
    """Find the columns that a table of this role has; what is wrong is added to the problems, to be said all at once."""
    users = []
    for name in names.user if role not in WITHOUT_USERS else ():
        found = require_column(role, frame, name, "user", problems)
        if found is None:
            continue
        users.append(found)
        kind = frame.schema[found].dataType
        if wrong := why_unusable(kind, "user"):
            problems.append(f"{role}: the user column {found!r} is {kind.simpleString()}; {wrong}")
    if len(set(users)) < len(users):
        problems.append(f"{role}: user names the column {users[0]!r} twice")
    if role in WITHOUT_ITEMS:
        return Source(role, frame, tuple(users), "", T.NullType())
    wanted = names.item[1 if role == "labels" else 0]
    item = find_column(frame, wanted) or (None if role in _OF_ITEMS else _array_with(frame, wanted, names))
    if item is None:
        require_column(role, frame, wanted, "item", problems)
        return Source(role, frame, tuple(users), wanted, T.NullType())
    kind = frame.schema[item].dataType
    if role in _OF_ITEMS:
        _check_item_type(role, item, kind, problems)
        return Source(role, frame, tuple(users), item, kind)
    if isinstance(kind, T.ArrayType):
        return _read_arrays(role, frame, tuple(users), item, wanted, names, problems)
    return _read_rows(role, frame, tuple(users), item, names, problems)


def require_column(role: Role, frame: DataFrame, name: str, meaning: str, problems: list[str]) -> str | None:
    """The name of a column as the table spells it; None, and a problem, if there is none or more than one."""
    try:
        found = find_column(frame, name)
    except InputError as error:
        problems.append(f"{role}: {error}")
        return None
    if found is None:
        there = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in frame.schema.fields)
        near = did_you_mean(name, frame.columns)
        problems.append(f"{role} has no column {name!r} ({meaning}=); {near}it has: {there}")
    return found


def _array_with(frame: DataFrame, item: str, names: ColumnNames) -> str | None:
    """The array column that holds the items if no column has their name, as in ALS recommendForAllUsers."""
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
    if role in ("predictions", "baseline"):
        given: dict[ValueKind, str | None] = {"score": names.score, "rank": names.rank}
        chosen = {kind: name for kind, name in given.items() if name is not None}
        if len(chosen) == 1:
            value_kind, wanted = next(iter(chosen)), tuple(chosen.values())
        else:
            problems.append(
                f"{role} come as rows, which need score= (highest first) or rank= (lowest first), and one of them only; "
                f"got {'both' if chosen else 'neither'}. The table has: {', '.join(frame.columns)}"
            )
    else:
        wanted = names.relevance
    values = []
    for name in wanted:
        found = require_column(role, frame, name, value_kind, problems)
        if found is not None:
            values.append(ValueColumn(found, frame.schema[found].dataType))
            _check_value_type(role, values[-1], value_kind, problems)
    _check_twice(role, value_kind, values, problems)
    for beside, name in names.beside.items() if role == "labels" else []:
        found = require_column(role, frame, name, beside, problems)
        if found is not None:
            values.append(ValueColumn(found, frame.schema[found].dataType, beside=beside))
            _check_value_type(role, values[-1], beside, problems)
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
    if role in ("predictions", "baseline") and names.rank is not None:
        problems.append(f"{role} come as arrays ({item!r}), whose order is the rank; leave rank={names.rank!r} out")
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
    for beside, name in names.beside.items() if role == "labels" else []:
        found = _array_value(role, frame, item, element, name, beside, problems)
        if found is not None:
            values.append(found._replace(beside=beside))
            _check_value_type(role, found, beside, problems)
    _check_item_type(role, item, item_type, problems)
    return Source(role, frame, users, item, item_type, field, tuple(values), value_kind, arrays=True)


def _array_value(
    role: Role, frame: DataFrame, item: str, element: T.DataType, name: str, meaning: str, problems: list[str]
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
    if wrong := why_unusable(kind, "item"):
        problems.append(f"{role}: the item column {name!r} is {kind.simpleString()}; {wrong}")


def _check_twice(role: Role, meaning: ValueKind, values: Sequence[ValueColumn], problems: list[str]) -> None:
    """Names that differ in case alone are of one column."""
    names = [value.name for value in values]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    problems += [f"{role}: {meaning} names the column {name!r} twice" for name in twice]


def _check_value_type(role: Role, value: ValueColumn, meaning: str, problems: list[str]) -> None:
    boolean = meaning == "relevance" and isinstance(value.kind, T.BooleanType)
    if not isinstance(value.kind, T.NumericType) and not boolean:
        problems.append(
            f"{role}: {meaning}={value.name!r} must be a number; it is {value.kind.simpleString()}. Cast it"
        )
