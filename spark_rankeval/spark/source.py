"""One table of the caller's: which of its columns are meant, and whether their types can be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from pyspark.sql import types as T

from spark_rankeval.errors import InputError, did_you_mean
from spark_rankeval.request.column_names import DEFAULT_ITEM, ColumnNames
from spark_rankeval.request.options import Similarity
from spark_rankeval.spark.ids import UINT64, common_id_type, id_reasons, problem_of_type, type_in_words, usable
from spark_rankeval.spark.sql_text import Sql, field_of, find_column, find_field, named, number
from spark_rankeval.worker.grouped_row import BIAS, VECTOR

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


Role = Literal[
    "predictions", "labels", "users", "exclude", "attributes", "no_answer", "training", "items", "baseline", "catalogue",
    "candidates", "log",
]  # fmt: skip
#: Tables without a list of a user: what is asked of them are single rows of items.
_ITEM_ROLES = ("exclude", "training", "items", "catalogue", "candidates", "log")
#: Tables whose users, or whose items, are none.
WITHOUT_USERS, WITHOUT_ITEMS = ("items", "catalogue"), ("users", "attributes", "no_answer")
ValueKind = Literal["score", "rank", "relevance"]
#: Why a user's rows of arrays or vectors but one are not read.
REPEATED_USER = "user in several rows"


def user_column(index: int) -> str:
    """The name that a column of the user has on the way."""
    return f"user_{index}"


class ValueColumn(NamedTuple):
    """A column of scores, ranks or grades."""

    name: str  # of the column, or of the field if the items are structs
    kind: T.DataType  # its type; of an array that of its elements
    is_field: bool = False  # whether it is a field of the items' structs
    # The name of what rows have beside these, such as ``weight``, as of `EXTRA_COLUMNS`; empty: it has scores, ranks or grades.
    extra: str = ""


class VectorColumns(NamedTuple):
    """What stands for the lists of a model that ranks the whole catalogue from vectors."""

    items: SourceTable  # the catalogue, with a column of vectors of this name
    vector: str  # the column of the users' vectors
    item_vector: str  # that of the items' vectors
    user_bias: str | None
    item_bias: str | None
    similarity: Similarity
    candidates: SourceTable | None  # the items, or the users and items, that can be recommended

    def user_columns(self) -> list[Sql]:
        """A user's vector, and the number that is added to the scores, under our names."""
        bias = number(0.0) if self.user_bias is None else named(self.user_bias).cast("double")
        return [named(self.vector).cast(T.ArrayType(T.DoubleType())).alias(VECTOR), bias.alias(BIAS)]

    def users_with_reasons(self, source: SourceTable, item: str, reason: str) -> DataFrame:
        """The rows of users' vectors, without an item, each with why it cannot be used, or null."""
        raise NotImplementedError

    def items_with_reasons(self, item: str, reason: str) -> DataFrame:
        """The rows of the catalogue, likewise."""
        raise NotImplementedError


@dataclass(frozen=True)
class SourceTable:
    """One side of the input, its columns found and their types checked."""

    role: Role
    frame: DataFrame
    user: tuple[str, ...]
    item: str
    item_type: T.DataType
    item_field: str | None = None  # the field of items, if the column holds arrays of structs
    # The column of scores or ranks, or the columns of grades and then those beside them; none if there are none.
    value_columns: tuple[ValueColumn, ...] = ()
    value_kind: ValueKind | None = None
    arrays: bool = False  # a row is a user with a list, not a user with one item
    # Labels that stand in the rows of the predictions: a row is then a user, and nothing is joined.
    shares_table: bool = False
    has_made_ids: bool = False  # items are places in lists, which say nothing of labels
    hashed: str | None = None  # a column that stands in the hash of a row for what else the row says
    # The column, as text, of the subtopic for which a label judges its item; None: an item has one label.
    subtopic: str | None = None
    # The caller's table, with the same rows, if columns were joined to it; else None.
    unjoined: DataFrame | None = None
    vectors: VectorColumns | None = None  # if a row is a user with a vector, not with a list: the vectors and the items

    @property
    def form(self) -> str:
        """How predictions come, in words."""
        if self.vectors is not None:
            return "vectors"
        return f"{'arrays' if self.arrays else 'rows'}{' with scores' if self.has_value else ''}"

    @property
    def has_value(self) -> bool:
        """Whether there are scores, ranks or grades."""
        return len(self.value_columns) > len(self.extra_columns)

    @property
    def value_names(self) -> tuple[str, ...]:
        """The names of the columns of numbers."""
        return tuple(value.name for value in self.value_columns)

    @property
    def grades(self) -> tuple[str, ...]:
        """The names of the columns of grades."""
        return tuple(value.name for value in self.value_columns if not value.extra)

    @property
    def extra_columns(self) -> tuple[str, ...]:
        """What predictions have beside their scores, or labels beside their grades, by name."""
        return tuple(value.extra for value in self.value_columns if value.extra)

    @property
    def user_names(self) -> dict[str, str]:
        """The names of the user's columns, by those that they have on the way."""
        return {user_column(index): name for index, name in enumerate(self.user)}

    @property
    def columns_read(self) -> list[str]:
        """The names of the columns that an evaluation reads, each once."""
        values = [value.name for value in self.value_columns if not value.is_field]
        items = [self.item] if self.vectors is None else [self.vectors.vector]
        return list(dict.fromkeys([*self.user, *items, *values, *([] if self.subtopic is None else [self.subtopic])]))

    def users_sql(self) -> list[Sql]:
        """The user's columns, null if they are invalid, as SQL."""
        return [usable(named(name), kind) for name, kind in zip(self.user, self.user_types(), strict=True)]

    def raw_users(self) -> list[Sql]:
        """The user's columns under our names, as the table has them, as SQL."""
        return [named(name).alias(ours) for ours, name in self.user_names.items()]

    def user_reasons(self) -> dict[str, Sql]:
        """Why users of `raw_users` are invalid: conditions by what they mean."""
        reasons: dict[str, Sql] = {}
        for index, (name, kind) in enumerate(zip(self.user, self.user_types(), strict=True)):
            reasons |= id_reasons(f"user ({name})", named(user_column(index)), kind)
        return reasons

    def ids_sql(self) -> Sql:
        """The item, null if it names none, or the array of items, as SQL."""
        return self.raw_ids_sql() if self.arrays else usable(self.raw_ids_sql(), self.item_type)

    def raw_ids_sql(self) -> Sql:
        """The item, or the array of items, as the table has them, as SQL."""
        return named(self.item) if self.item_field is None else self.field(self.item_field)

    def field(self, name: str) -> Sql:
        """A field of the items' structs, as SQL."""
        return field_of(self.item, name, self.frame.columns)

    def values_sql(self) -> list[Sql]:
        """The scores, ranks or grades, or the arrays of them, as SQL: a column for each that was named."""
        return [self.field(value.name) if value.is_field else named(value.name) for value in self.value_columns]

    def named_users_sql(self) -> list[Sql]:
        """The user's columns under our names, null if they are invalid, as SQL."""
        return [user.alias(user_column(index)) for index, user in enumerate(self.users_sql())]

    def user_types(self) -> list[T.DataType]:
        """The types of the user's columns."""
        return self._user_types

    @cached_property
    def _user_types(self) -> list[T.DataType]:
        # Spark Connect 3.5 asks the server for each schema.
        return [self.frame.schema[name].dataType for name in self.user]


def read_source(
    role: Role, frame: DataFrame, names: ColumnNames, problems: list[str], *, are_ranked: bool = True
) -> SourceTable:
    """Find the columns that a table of this role has; what is wrong is added to the problems, to be said all at once.

    Predictions in rows need scores or ranks, unless they need no order (`are_ranked`).
    """
    users = []
    for name in names.user if role not in WITHOUT_USERS else ():
        column = require_column(role, frame, name, "user", problems)
        if column is None:
            continue
        users.append(column)
        problems += problem_of_type(f"{role}: the user column {column!r}", frame.schema[column].dataType, "user")
    if len(set(users)) < len(users):
        problems.append(f"{role}: user names the column {users[0]!r} twice")
    if role in WITHOUT_ITEMS:
        return SourceTable(role, frame, tuple(users), "", T.NullType())
    wanted = names.item[1 if role == "labels" else 0]
    spellings = (wanted,) if role in ("predictions", "labels") else names.single_items
    item = next(filter(None, (find_column(frame, name) for name in spellings)), None)
    item = item or _array_with(role, frame, wanted, names, problems)
    if item is None:
        return SourceTable(role, frame, tuple(users), wanted, T.NullType())
    kind = frame.schema[item].dataType
    if role in _ITEM_ROLES:
        if isinstance(kind, T.ArrayType):
            problems.append(
                f"{role}: the item column {item!r} is {kind.simpleString()}; pass a row for each item, as F.explode makes them"
            )
        else:
            problems += problem_of_type(f"{role}: the item column {item!r}", kind, "item")
        return SourceTable(role, frame, tuple(users), item, kind)
    if isinstance(kind, T.ArrayType):
        return _read_arrays(role, frame, tuple(users), item, wanted, names, problems)
    if not are_ranked:
        problems += problem_of_type(f"{role}: the item column {item!r}", kind, "item")
        return SourceTable(role, frame, tuple(users), item, kind)
    return _read_rows(role, frame, tuple(users), item, names, problems)


def require_column(role: Role, frame: DataFrame, name: str, meaning: str, problems: list[str]) -> str | None:
    """The name of a column as the table spells it; None, and a problem, if there is none or more than one."""
    try:
        column = find_column(frame, name)
    except InputError as error:
        problems.append(f"{role}: {error}")
        return None
    if column is None:
        there = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in frame.schema.fields)
        near = did_you_mean(name, frame.columns)
        problems.append(f"{role} has no column {name!r} ({meaning}=); {near}it has: {there}")
    return column


def _array_with(role: Role, frame: DataFrame, item: str, names: ColumnNames, problems: list[str]) -> str | None:
    """The array column that holds the items if no column has their name; None, and a problem, if none or several can."""
    arrays = [] if role in _ITEM_ROLES else _arrays_with(frame, item, names)
    if not arrays:
        return require_column(role, frame, item, "item", problems)
    if len(arrays) > 1:
        choices = [_item_option(role, frame, array, item, names) for array in arrays]
        problems.append(f"{role}: item={item!r} is a field of several arrays. Write {' or '.join(choices)}")
        return None
    return arrays[0]


def _arrays_with(frame: DataFrame, item: str, names: ColumnNames) -> list[str]:
    """The array columns that can hold the items if no column has their name, as in ALS recommendForAllUsers."""
    elements = {
        field.name: field.dataType.elementType
        for field in frame.schema.fields
        if isinstance(field.dataType, T.ArrayType) and field.name not in names.user
    }
    inside = [
        name
        for name, kind in elements.items()
        if isinstance(kind, T.StructType) and find_field(frame, name, kind.names, item) is not None
    ]
    return inside or (list(elements) if item == DEFAULT_ITEM and len(elements) == 1 else [])


def _item_field(
    role: Role,
    frame: DataFrame,
    array: str,
    element: T.StructType,
    wanted: str,
    names: ColumnNames,
    problems: list[str],
) -> str | None:
    """The field of an array's structs that holds the items; None, and a problem, if that would be a guess among several."""
    for name in (wanted, *names.item, DEFAULT_ITEM):
        if field := find_field(frame, array, element.names, name):
            return field
    values = (*(names.relevance if role == "labels" else (names.score, names.rank)), *names.extra(role).values())
    taken = [find_field(frame, array, element.names, name) for name in values if name is not None]
    left = [name for name in element.names if name not in taken]
    if len(left) == 1:
        return left[0]
    fields = ", ".join(f"{array}.{field.name} {field.dataType.simpleString()}" for field in element.fields)
    ids = [name for name in left if isinstance(element[name].dataType, (T.IntegralType, T.StringType))]
    ids = ids or left or element.names
    if role == "baseline":
        advice = f"Rename the field of the items to {names.single_items[2]!r}"
    else:
        advice = f"Write {' or '.join(_item_option(role, frame, array, name, names) for name in ids[:3])}"
    problems.append(
        f"{role}: item={wanted!r} does not say which field of the array {array!r} holds the items: {fields}. {advice}"
    )
    return None


def _item_option(role: Role, frame: DataFrame, array: str, field: str, names: ColumnNames) -> str:
    """The option ``item=`` that names this field of an array of the table, and what the other table has as the caller named it."""
    is_labels = role == "labels"
    other = names.item[0 if is_labels else 1]
    column_of_other = None if other == array else find_column(frame, other)
    # In one table of two arrays of structs, the other array needs a field too.
    has_fields = column_of_other is not None and isinstance(
        getattr(frame.schema[column_of_other].dataType, "elementType", None), T.StructType
    )
    halves = [repr(f"{array}.{field}"), "…" if has_fields else repr(other)]
    return f"item=({', '.join(reversed(halves) if is_labels else halves)})"


def _read_rows(
    role: Role, frame: DataFrame, users: tuple[str, ...], item: str, names: ColumnNames, problems: list[str]
) -> SourceTable:
    item_type = frame.schema[item].dataType
    problems += problem_of_type(f"{role}: the item column {item!r}", item_type, "item")
    wanted: tuple[str, ...] = ()
    value_kind: ValueKind = "relevance"
    if role in ("predictions", "baseline"):
        options: dict[ValueKind, str | None] = {"score": names.score, "rank": names.rank}
        chosen = {kind: name for kind, name in options.items() if name is not None}
        if len(chosen) == 1:
            value_kind, wanted = next(iter(chosen)), tuple(chosen.values())
        else:
            problems.append(
                f"{role} in rows need either score= (highest first) or rank= (lowest first); got "
                f"{'both' if chosen else 'neither'}. The table has: {', '.join(frame.columns)}"
            )
    else:
        wanted = names.relevance

    def find(name: str, meaning: str) -> ValueColumn | None:
        column = require_column(role, frame, name, meaning, problems)
        return None if column is None else ValueColumn(column, frame.schema[column].dataType)

    values = _values(role, names, wanted, value_kind, find, problems)
    return SourceTable(role, frame, users, item, item_type, value_columns=values, value_kind=value_kind)


def _read_arrays(
    role: Role,
    frame: DataFrame,
    users: tuple[str, ...],
    item: str,
    wanted: str,
    names: ColumnNames,
    problems: list[str],
) -> SourceTable:
    array = frame.schema[item].dataType
    assert isinstance(array, T.ArrayType), "the caller saw an array"
    element = array.elementType
    wanted_values = names.relevance if role == "labels" else (names.score,) if names.score is not None else ()
    value_kind: ValueKind = "relevance" if role == "labels" else "score"
    if role in ("predictions", "baseline") and names.rank is not None:
        problems.append(f"{role} are arrays ({item!r}), and their order is the rank; leave rank={names.rank!r} out")
    field, item_type = None, element
    if isinstance(element, T.StructType):
        field = _item_field(role, frame, item, element, wanted, names, problems)
        if field is None:
            return SourceTable(role, frame, users, item, T.NullType())
        item_type = element[field].dataType
    find = partial(array_value, role, frame, item, element, problems=problems)
    values = _values(role, names, wanted_values, value_kind, find, problems)
    what = f"column {item!r}" if field is None else f"field '{item}.{field}'"
    problems += problem_of_type(f"{role}: the item {what}", item_type, "item")
    return SourceTable(role, frame, users, item, item_type, field, values, value_kind, arrays=True)


def _values(
    role: Role,
    names: ColumnNames,
    wanted: Sequence[str],
    value_kind: ValueKind,
    find: Callable[[str, str], ValueColumn | None],
    problems: list[str],
) -> tuple[ValueColumn, ...]:
    """The columns of scores, ranks or grades, and of what labels have beside these."""

    def checked(name: str, meaning: str) -> list[ValueColumn]:
        value = find(name, meaning)
        if value is None:
            return []
        boolean = meaning == "relevance" and isinstance(value.kind, T.BooleanType)
        if not isinstance(value.kind, T.NumericType) and not boolean:
            problems.append(
                f"{role}: {meaning}={value.name!r} must be a number; it is {value.kind.simpleString()}. Cast it"
            )
        return [value]

    values = [value for name in wanted for value in checked(name, value_kind)]
    # Names that differ in case alone are of one column.
    n_of_name = Counter(value.name for value in values)
    problems += [f"{role}: {value_kind} names the column {name!r} twice" for name, n in n_of_name.items() if n > 1]
    for extra, name in names.extra(role).items():
        values += [value._replace(extra=extra) for value in checked(name, extra)]
    return tuple(values)


def array_value(
    role: Role, frame: DataFrame, item: str, element: T.DataType, name: str, meaning: str, problems: list[str]
) -> ValueColumn | None:
    """The field of the items' structs, or the array beside them, that has this name."""
    if isinstance(element, T.StructType) and (field := find_field(frame, item, element.names, name)):
        return ValueColumn(field, element[field].dataType, is_field=True)
    column = find_column(frame, name)
    if column is None:
        fields = (
            f"; the structs in {item!r} have: {', '.join(element.names)}" if isinstance(element, T.StructType) else ""
        )
        problems.append(f"{role} has no column {name!r} ({meaning}=); it has: {', '.join(frame.columns)}{fields}")
        return None
    kind = frame.schema[column].dataType
    if not isinstance(kind, T.ArrayType):
        problems.append(
            f"{role}: {meaning}={column!r} must be an array like the array {item!r}; it is {kind.simpleString()}"
        )
        return None
    return ValueColumn(column, kind.elementType)


def check_comparable(left: SourceTable, others: Iterable[SourceTable | None], problems: list[str]) -> None:
    """Add to the problems what says that users or items of a table cannot be compared with those of others."""
    for other in others:
        if other is None:
            continue
        if other.role not in WITHOUT_ITEMS and common_id_type(left.item_type, other.item_type) is None:
            problems.append(
                f"items have different types: {left.item!r} of {left.role} is {type_in_words(left.item_type)}, {other.item!r} "
                f"of {other.role} is {type_in_words(other.item_type)}. {_cast(left.item_type, other.item_type)}; they are "
                "never cast silently, because '01' would equal 1"
            )
        if other.role in WITHOUT_USERS:
            continue
        for name, one, two in zip(left.user, left.user_types(), other.user_types(), strict=True):
            if common_id_type(one, two) is None:
                problems.append(
                    f"users have different types: {name!r} is {type_in_words(one)} in {left.role} and {type_in_words(two)} in "
                    f"{other.role}. {_cast(one, two)}"
                )


def _cast(one: T.DataType, two: T.DataType) -> str:
    # How large the unsigned integers of a table are decides their type, so that of the other table may change.
    is_uint64 = UINT64 in (one, two)
    return "Cast both to string" if is_uint64 else "Cast one of them, or read it with a schema"
