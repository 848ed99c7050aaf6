"""One table of the caller's: its columns, why a row of it cannot be ranked, and the hashes of its rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from pyspark.sql import types as T

from spark_rankeval.errors import InputError, did_you_mean
from spark_rankeval.metrics.base import as_float32
from spark_rankeval.ranking.user_lists import EXTRA_COLUMNS
from spark_rankeval.request.call import ColumnNames, Similarity
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.spark import sql
from spark_rankeval.statistics.resampling import digits_of, fingerprint_limbs
from spark_rankeval.worker.reading import BIAS, SHORT, VECTOR, filter_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


Role = Literal[
    "predictions", "labels", "users", "exclude", "attributes", "no_answer", "training", "items", "baseline", "catalogue",
    "candidates", "log", "table", "spans", "chunks",
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


class FilterColumns(NamedTuple):
    """A filter: a list has only items that share a value with its user. Values are arrays of texts, as SQL."""

    name: str  # the column of the users
    user: sql.Sql
    item: sql.Sql


class VectorColumns(NamedTuple):
    """What stands for the lists of a model that ranks the whole catalogue from vectors."""

    items: SourceTable  # the catalogue, with a column of vectors of this name
    vector: str  # the column of the users' vectors
    item_vector: str  # that of the items' vectors
    user_bias: str | None
    item_bias: str | None
    similarity: Similarity
    candidates: SourceTable | None  # the items, or the users and items, that can be recommended
    filters: tuple[FilterColumns, ...] = ()
    shards: int | None = None  # how many shards the catalogue travels in; None: as one row

    def user_columns(self) -> list[sql.Sql]:
        """A user's vector, the number that is added to the scores, and the values of filters, under our names."""
        bias = sql.number(0.0) if self.user_bias is None else sql.named(self.user_bias).cast("double")
        values = [each.user.alias(filter_column(index)) for index, each in enumerate(self.filters)]
        return [sql.named(self.vector).cast(T.ArrayType(T.DoubleType())).alias(VECTOR), bias.alias(BIAS), *values]


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
    vectors: VectorColumns | None = None  # if a row is a user with a vector, not with a list: the vectors and the items

    @property
    def form(self) -> str:
        """How predictions come, in words."""
        if self.vectors is not None:
            return f"vectors with {len(self.vectors.filters)} filters" if self.vectors.filters else "vectors"
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
        items = [self.item]
        if self.vectors is not None:
            bias, filters = self.vectors.user_bias, [each.name for each in self.vectors.filters]
            items = [self.vectors.vector, *([] if bias is None else [bias]), *filters]
        return list(dict.fromkeys([*self.user, *items, *values, *([] if self.subtopic is None else [self.subtopic])]))

    def users_sql(self) -> list[sql.Sql]:
        """The user's columns, null if they are invalid, as SQL."""
        return [sql.usable(sql.named(name), kind) for name, kind in zip(self.user, self.user_types, strict=True)]

    def raw_users(self) -> list[sql.Sql]:
        """The user's columns under our names, as the table has them, as SQL."""
        return [sql.named(name).alias(ours) for ours, name in self.user_names.items()]

    def user_reasons(self) -> dict[str, sql.Sql]:
        """Why users of `raw_users` are invalid: conditions by what they mean."""
        reasons: dict[str, sql.Sql] = {}
        for index, (name, kind) in enumerate(zip(self.user, self.user_types, strict=True)):
            reasons |= sql.id_reasons(f"user ({name})", sql.named(user_column(index)), kind)
        return reasons

    def ids_sql(self) -> sql.Sql:
        """The item, null if it names none, or the array of items, as SQL."""
        return self.raw_ids_sql() if self.arrays else sql.usable(self.raw_ids_sql(), self.item_type)

    def raw_ids_sql(self) -> sql.Sql:
        """The item, or the array of items, as the table has them, as SQL."""
        return sql.named(self.item) if self.item_field is None else self.field(self.item_field)

    def field(self, name: str) -> sql.Sql:
        """A field of the items' structs, as SQL."""
        return sql.field_of(self.item, name, self.frame.columns)

    def values_sql(self) -> list[sql.Sql]:
        """The scores, ranks or grades, or the arrays of them, as SQL: a column for each that was named."""
        return [self.field(value.name) if value.is_field else sql.named(value.name) for value in self.value_columns]

    def named_users_sql(self) -> list[sql.Sql]:
        """The user's columns under our names, null if they are invalid, as SQL."""
        return [user.alias(user_column(index)) for index, user in enumerate(self.users_sql())]

    @cached_property
    def user_types(self) -> list[T.DataType]:
        """The types of the user's columns."""
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
        problems += sql.problem_of_type(f"{role}: the user column {column!r}", frame.schema[column].dataType, "user")
    if len(set(users)) < len(users):
        problems.append(f"{role}: user names the column {users[0]!r} twice")
    if role in WITHOUT_ITEMS:
        return SourceTable(role, frame, tuple(users), "", T.NullType())
    wanted = names.item[1 if role == "labels" else 0]
    spellings = (wanted,) if role in ("predictions", "labels") else names.single_items
    item = next(filter(None, (sql.find_column(frame, name) for name in spellings)), None)
    item = item or _array_with(role, frame, wanted, names, problems)
    if item is None:
        return SourceTable(role, frame, tuple(users), wanted, T.NullType())
    kind = frame.schema[item].dataType
    source = SourceTable(role, frame, tuple(users), item, kind)
    if isinstance(kind, T.ArrayType):
        if role not in _ITEM_ROLES:
            return _read_arrays(source, kind.elementType, wanted, names, problems)
        problems.append(
            f"{role}: the item column {item!r} is {kind.simpleString()}; pass a row for each item, as F.explode makes them"
        )
        return source
    problems += sql.problem_of_type(f"{role}: the item column {item!r}", kind, "item")
    return source if role in _ITEM_ROLES or not are_ranked else _read_rows(source, names, problems)


def require_column(role: Role, frame: DataFrame, name: str, meaning: str, problems: list[str]) -> str | None:
    """The name of a column as the table spells it; None, and a problem, if there is none or more than one."""
    try:
        column = sql.find_column(frame, name)
    except InputError as error:
        problems.append(f"{role}: {error}")
        return None
    if column is None:
        near = did_you_mean(name, frame.columns)
        problems.append(f"{role} has no column {name!r} ({meaning}=); {near}it has: {sql.columns_in_words(frame)}")
    return column


def require_columns(
    role: Role, frame: DataFrame, names: Mapping[str, Sequence[str]], problems: list[str]
) -> dict[str, list[str]]:
    """The columns that each option names, as the table spells them; what is missing is added to the problems."""
    found = {
        option: [require_column(role, frame, name, option, problems) for name in named]
        for option, named in names.items()
    }
    return {option: [name for name in columns if name is not None] for option, columns in found.items()}


def _array_with(role: Role, frame: DataFrame, item: str, names: ColumnNames, problems: list[str]) -> str | None:
    """The array column whose structs have a field of the items' name, as of ALS recommendForAllUsers, if no column has it.

    None, and a problem, if no array has it or several have.
    """
    arrays = [
        field.name
        for field in ([] if role in _ITEM_ROLES else frame.schema.fields)
        if isinstance(field.dataType, T.ArrayType)
        and isinstance(field.dataType.elementType, T.StructType)
        and sql.find_field(frame, field.name, field.dataType.elementType.names, item) is not None
    ]
    if not arrays:
        return require_column(role, frame, item, "item", problems)
    if len(arrays) > 1:
        choices = [_item_option(role, array, item, names) for array in arrays]
        problems.append(f"{role}: item={item!r} is a field of several arrays. Write {' or '.join(choices)}")
        return None
    return arrays[0]


def _item_field(
    source: SourceTable, element: T.StructType, wanted: str, names: ColumnNames, problems: list[str]
) -> str | None:
    """The field of an array's structs that has a name of the items; None, and a problem, if none has."""
    role, array = source.role, source.item
    found = (sql.find_field(source.frame, array, element.names, name) for name in (wanted, *names.item))
    if field := next(filter(None, found), None):
        return field
    fields = ", ".join(f"{array}.{field.name} {field.dataType.simpleString()}" for field in element.fields)
    if role == "baseline":
        advice = f"Rename the field of the items to {names.single_items[2]!r}"
    else:
        ids = [field.name for field in element.fields if isinstance(field.dataType, T.IntegralType | T.StringType)]
        choices = [_item_option(role, array, name, names) for name in ids[:3] or element.names]
        advice = f"Write {' or '.join(choices)}"
    problems.append(
        f"{role}: item={wanted!r} does not say which field of the array {array!r} holds the items: {fields}. {advice}"
    )
    return None


def _item_option(role: Role, array: str, field: str, names: ColumnNames) -> str:
    """The option ``item=`` that names this field of an array of the table, and for the other table what the caller named."""
    half, other = repr(f"{array}.{field}"), repr(names.item[0 if role == "labels" else 1])
    return f"item=({other}, {half})" if role == "labels" else f"item=({half}, {other})"


def _read_rows(source: SourceTable, names: ColumnNames, problems: list[str]) -> SourceTable:
    role, frame = source.role, source.frame
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
    return replace(source, value_columns=values, value_kind=value_kind)


def _read_arrays(
    source: SourceTable, element: T.DataType, wanted: str, names: ColumnNames, problems: list[str]
) -> SourceTable:
    role, item = source.role, source.item
    wanted_values = names.relevance if role == "labels" else (names.score,) if names.score is not None else ()
    value_kind: ValueKind = "relevance" if role == "labels" else "score"
    if role in ("predictions", "baseline") and names.rank is not None:
        problems.append(f"{role} are arrays ({item!r}), and their order is the rank; leave rank={names.rank!r} out")
    field, item_type = None, element
    if isinstance(element, T.StructType):
        field = _item_field(source, element, wanted, names, problems)
        if field is None:
            return replace(source, item_type=T.NullType())
        item_type = element[field].dataType
    find = partial(array_value, role, source.frame, item, element, problems=problems)
    values = _values(role, names, wanted_values, value_kind, find, problems)
    what = f"column {item!r}" if field is None else f"field '{item}.{field}'"
    problems += sql.problem_of_type(f"{role}: the item {what}", item_type, "item")
    return replace(
        source, item_type=item_type, item_field=field, value_columns=values, value_kind=value_kind, arrays=True
    )


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
            # Neither becomes a number at once.
            how = " to timestamp, and that to double" if isinstance(value.kind, T.DateType | T.TimestampNTZType) else ""
            problems.append(
                f"{role}: {meaning}={value.name!r} must be a number; it is {value.kind.simpleString()}. Cast it{how}"
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
    if isinstance(element, T.StructType) and (field := sql.find_field(frame, item, element.names, name)):
        return ValueColumn(field, element[field].dataType, is_field=True)
    column = sql.find_column(frame, name)
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
        if other.role not in WITHOUT_ITEMS and sql.common_id_type(left.item_type, other.item_type) is None:
            problems.append(
                f"items have different types: {left.item!r} of {left.role} is {sql.type_in_words(left.item_type)}, {other.item!r} "
                f"of {other.role} is {sql.type_in_words(other.item_type)}. {cast_in_words(left.item_type, other.item_type)}; they are "
                "never cast silently, because '01' would equal 1"
            )
        if other.role in WITHOUT_USERS:
            continue
        for name, one, two in zip(left.user, left.user_types, other.user_types, strict=True):
            if sql.common_id_type(one, two) is None:
                problems.append(
                    f"users have different types: {name!r} is {sql.type_in_words(one)} in {left.role} and {sql.type_in_words(two)} in "
                    f"{other.role}. {cast_in_words(one, two)}"
                )


def cast_in_words(one: T.DataType, two: T.DataType) -> str:
    """What to do so that values of two types compare."""
    # How large the unsigned integers of a table are decides their type, so that of the other table may change.
    is_uint64 = sql.UINT64 in (one, two)
    return "Cast both to string" if is_uint64 else "Cast one of them, or read it with a schema"


# A largest grade beyond this is a limit of floating point, not of a metric's option.
_HUGE = 1e290


def invalid_reasons(
    source: SourceTable, ids: sql.Sql, values: Sequence[sql.Sql], task: ScoringTask
) -> dict[str, sql.Sql]:
    """Why a row, or an entry of an array, says nothing that could be ranked: conditions by what they mean."""
    may_be_null = task.keep_null_items and source.role == "predictions" and source.arrays
    reasons = sql.id_reasons(f"{source.role.rstrip('s')} item", ids, source.item_type, may_be_null=may_be_null)
    for column_of_values, kind, value in _numbers(source, values):
        is_grade = source.value_kind == "relevance" and not column_of_values.extra
        if is_grade and task.grades_may_be_missing:
            # In SQL NaN is above every number.
            value = sql.when(~sql.call("isnan", value), value)  # noqa: PLW2901 # the same without missing grades
        else:
            reasons[f"null {kind}"] = value.is_null()
        if is_grade and task.unusual_grades == "keep":
            continue
        reasons[f"NaN {kind}"] = sql.call("isnan", value)
        if column_of_values.extra:
            wrong = EXTRA_COLUMNS[column_of_values.extra].wrong
            reasons |= {words: compare(value, bound) for words, compare, bound in wrong}
        if source.value_kind == "rank" and not column_of_values.extra:
            reasons["negative rank"] = value < 0
            reasons["infinite rank"] = value == math.inf
            reasons["fractional rank"] = value != sql.call("rint", value)
        if is_grade:
            largest = task.largest_grade
            held = as_float32(largest) if isinstance(column_of_values.kind, T.FloatType) else largest
            above = f"{kind} above {largest:,.6g}, the largest grade of a metric"
            if largest < _HUGE:
                reasons[f"{above} (set max_grade or gain='linear')"] = value > held
            else:
                reasons |= {f"infinite {kind}": value == math.inf, above: (value > held) & (value < math.inf)}
    return reasons


def unusual_reasons(source: SourceTable, values: Sequence[sql.Sql], task: ScoringTask) -> dict[str, sql.Sql]:
    """Why a row that could be ranked is not: infinite scores and negative grades, which the caller may allow."""
    numbers = [
        (kind, value) for column_of_values, kind, value in _numbers(source, values) if not column_of_values.extra
    ]
    if source.value_kind == "score" and not task.rank_infinite:
        return {f"infinite {kind}": sql.call("abs", value) == math.inf for kind, value in numbers}
    if source.value_kind == "relevance" and task.unusual_grades == "error" and not task.clip_grades:
        return {f"negative {kind}": value < 0 for kind, value in numbers}
    return {}


def _numbers(source: SourceTable, values: Sequence[sql.Sql]) -> list[tuple[ValueColumn, str, sql.Sql]]:
    """Each column of numbers with what messages call it, and its values as doubles; a cast loses no null."""
    several = len(source.grades) > 1
    kinds = [
        value.extra or (f"{source.value_kind} {value.name!r}" if several else str(source.value_kind))
        for value in source.value_columns
    ]
    return list(zip(source.value_columns, kinds, [value.cast("double") for value in values], strict=True))


def says_something(source: SourceTable, task: ScoringTask, model_column: str | None = None) -> sql.Sql:
    """Whether a row of a table of rows has all that a ranking needs."""
    needed = [*source.users_sql(), *([] if model_column is None else [sql.named(model_column)])]
    return sql.all_of(values.is_not_null() for values in needed) & sql.none_holds(
        invalid_reasons(source, source.raw_ids_sql(), source.values_sql(), task)
    )


#: The column of a row's hash on the way to the aggregate of its user.
ROW_HASH = "row_hash_"
_HALF, _LOWER_HALF = 32, 0xFFFFFFFF
# An item and one score or grade hardly ever have the same bits; several grades of a row often do.
_SEVERAL = 3


def total_of_hashes(hashes: sql.Sql) -> sql.Sql:
    """An aggregate: the sum of hashes of rows, modulo 2^64; null over no hash."""
    low = sql.call("sum", sql.bits_and(hashes, _LOWER_HALF))
    high = sql.call("sum", sql.call("shiftright", hashes, _HALF))
    carried = high + sql.call("shiftright", low, _HALF)
    return sql.bits_or(sql.call("shiftleft", carried, _HALF), sql.bits_and(low, _LOWER_HALF))


def short_hash(item: sql.Sql | None, item_type: T.DataType, *numbers: sql.Sql) -> sql.Sql:
    """A hash of 36 bits of a prediction that can be ranked, which adds up without overflow; 0 of others.

    Predictions are most of the rows, and a single sum of them is half the work. None stands for a made id, which is not hashed.
    """
    items = [] if item is None else [sql.hashable(item, item_type)]
    hashed = sql.call("xxhash64", *items, *(each.cast("double") for each in numbers))
    # The hash of nothing but nulls is small.
    return sql.call("shiftright", hashed, 64 - SHORT)


def row_hash(source: SourceTable) -> sql.Sql:
    """The hash of a row: of its item or array of items, and of its scores, ranks or grades.

    Numbers of the same value have the same hash, whatever their width. The users are not in it, and no made ids. Nulls at different
    places of a row give different hashes; at different places of one array they may give the same.
    """
    double, item_type = T.DoubleType(), source.item_type
    values = [value.cast(T.ArrayType(double) if source.arrays else double) for value in source.values_sql()]
    extra_columns = [] if source.hashed is None else [sql.named(source.hashed)]
    # Spark's hash passes over a null, which only matters beside values that could stand in its place.
    tells_nulls = bool(source.arrays or extra_columns or len(values) + 1 >= _SEVERAL)
    id_type = T.ArrayType(item_type) if source.arrays else item_type
    items = [] if source.has_made_ids else [sql.hashable(source.raw_ids_sql(), id_type, keeps_null=tells_nulls)]
    columns = [*items, *values]
    if not tells_nulls:
        return sql.call("xxhash64", *columns)
    if source.arrays:
        columns += [sql.call("array_size", array) for array in columns]
    return hash_of([*columns, *extra_columns])


def columns_of(frame: DataFrame, names: Sequence[str], *, are_ids: bool = True) -> list[sql.Sql]:
    """Columns in a form whose hashes are equal for equal values, arrays with their sizes; numbers that are no ids are doubles."""
    columns = []
    for name in names:
        kind, values = frame.schema[name].dataType, sql.named(name)
        is_array = isinstance(kind, T.ArrayType)
        element = kind.elementType if isinstance(kind, T.ArrayType) else kind
        if isinstance(element, T.DecimalType) or not are_ids:
            columns.append(values.cast(T.ArrayType(T.DoubleType()) if is_array else T.DoubleType()))
        else:
            columns.append(sql.hashable(values, kind, keeps_null=True))
        columns += [sql.call("array_size", values)] if is_array else []
    return columns


def table_fingerprint(frame: DataFrame) -> tuple[str, int]:
    """A fingerprint of all columns of a table, as 32 hexadecimal digits, and how many rows it has; one job, which collects one row.

    Raises:
        InputError: a column has maps, of which Spark makes no hash.
    """
    names = sorted(frame.columns)
    for name in names:
        if "map<" in frame.schema[name].dataType.simpleString():
            msg = f"column {name!r} has maps, which have no hash; select the columns to evaluate"
            raise InputError(msg)
    hashes = sql.select(frame, hash_of(columns_of(frame, names)).alias(ROW_HASH))
    total, n_rows = sql.aggregate(
        hashes,
        (),
        total_of_hashes(sql.named(ROW_HASH)).alias("total"),
        sql.call("count", sql.named(ROW_HASH)).alias("n_rows"),
    ).collect()[0]
    return digits_of(fingerprint_limbs(np.zeros(1, np.int64), np.array([total or 0], np.int64))[0]), n_rows


def hash_of(columns: Sequence[sql.Sql]) -> sql.Sql:
    """A 64-bit hash of values that says which of them are null."""
    places = [sql.when(values.is_null(), 1, 0) for values in columns]
    # Only rows with a null pay for saying where it is.
    whole = sql.all_of(values.is_not_null() for values in columns)
    return sql.when(whole, sql.call("xxhash64", *columns), sql.call("xxhash64", *columns, *places))


class MarkedUsers(NamedTuple):
    """Users whom a table marks. They are evaluated even if no other table has them."""

    column: str  # of a grouped row: how many rows mark the user, null if none does
    source: SourceTable  # the rows that mark their users
    whole: DataFrame  # the table that these are rows of
    is_marked: sql.Sql  # whether a row of it marks its user
