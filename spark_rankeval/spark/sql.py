"""Columns by their exact names, expressions as SQL text, and ids: here alone values become text of SQL."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.errors import InputError
from spark_rankeval.spark.engine import engine_of, setting

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row


# Names that read the same in backticks, in quotation marks and after Spark has replaced its variables.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _operator(symbol: str) -> Callable[[Sql, Any], Sql]:
    """What an operator of SQL makes of an expression, and of another one or a number."""
    return lambda left, right: Sql(f"({left} {symbol} {_operand(right)})")


@dataclass(frozen=True, eq=False)
class Sql:
    """An expression; its operators are those of a column, as whose `==` makes a comparison.

    >>> print((named("n") + 1 < 3) & ~named("odd`name").is_null())
    (((`n` + 1) < 3) AND (NOT (`odd``name` IS NULL)))
    """

    text: str

    def __str__(self) -> str:
        return self.text

    def __invert__(self) -> Sql:
        return Sql(f"(NOT {self})")

    def __neg__(self) -> Sql:
        return Sql(f"(- {self})")

    __and__, __or__ = _operator("AND"), _operator("OR")
    __add__, __sub__, __mul__ = _operator("+"), _operator("-"), _operator("*")
    __lt__, __le__, __gt__, __ge__ = _operator("<"), _operator("<="), _operator(">"), _operator(">=")
    __eq__, __ne__ = _operator("="), _operator("<>")  # type: ignore[assignment] # as of a column
    __hash__ = None  # type: ignore[assignment] # equality is a comparison for Spark

    def is_null(self) -> Sql:
        """Whether it is null."""
        return Sql(f"({self} IS NULL)")

    def is_not_null(self) -> Sql:
        """Whether it is not null."""
        return Sql(f"({self} IS NOT NULL)")

    def cast(self, kind: T.DataType | str) -> Sql:
        """The value as another type."""
        return Sql(f"CAST({self} AS {kind if isinstance(kind, str) else _type(kind)})")

    def field(self, name: str) -> Sql:
        """A field of ours of a struct."""
        assert _PLAIN.fullmatch(name), "a caller's name is no name of ours"
        return Sql(f"{self}['{name}']")

    def alias(self, name: str) -> Sql:
        """The value under a name of ours."""
        assert _PLAIN.fullmatch(name), "a caller's name is no name of ours"
        return Sql(f"{self} AS {quoted(name)}")

    def aliases(self, *names: str) -> Sql:
        """What makes several columns, under names of ours."""
        assert all(map(_PLAIN.fullmatch, names)), "a caller's name is no name of ours"
        return Sql(f"{self} AS ({', '.join(map(quoted, names))})")

    @property
    def column(self) -> Column:
        """The value as a column of Spark."""
        return F.expr(self.text)


def quoted(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def named(name: str) -> Sql:
    """A top-level column by its exact name, whatever characters are in it."""
    return _identifier(quoted(name))


def field_of(name: str, field: str, columns: Sequence[str] = ()) -> Sql:
    """A field of a column of structs, or of arrays of structs, in a table with these columns."""
    if _PLAIN.fullmatch(field) and field.lower() in {column.lower() for column in columns}:
        # Behind a dot it would be that column, if the table has the first name. Sail takes brackets behind an array for an index.
        return for_entries("transform", named(name), lambda entry: entry.field(field))
    return _identifier(f"{quoted(name)}.{quoted(field)}")


def _identifier(names: str) -> Sql:
    # Spark replaces ${variables} even in backticks, but not what is written in hexadecimal digits.
    return Sql(f"IDENTIFIER({text(names)})" if "$" in names else names)


def text(value: str) -> Sql:
    """A text, in a form that holds no character of it."""
    return text_of_bytes(value.encode())


def literal(words: str) -> str:
    r"""A text as statements have it that take no expression, such as a comment of a column.

    >>> print(literal("the user's"))
    'the user\'s'
    """
    escaped = words.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def text_of_bytes(value: bytes) -> Sql:
    """A text of these bytes, which need not be UTF-8."""
    return Sql(f"CAST(X'{value.hex()}' AS STRING)")


def number(value: float) -> Sql:
    """A whole number, a double, or a truth value."""
    return Sql(_operand(value))


def _operand(value: object) -> str:
    match value:
        case Sql():
            return value.text
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case float():
            return f"{value!r}D" if math.isfinite(value) else f"double('{value}')"
    msg = f"SQL text is made of expressions and numbers; got {value!r}"
    raise TypeError(msg)


def _type(kind: T.DataType) -> str:
    if isinstance(kind, T.ArrayType):
        return f"array<{_type(kind.elementType)}>"
    # A setting decides which of the types a plain `timestamp` is.
    return "timestamp_ltz" if isinstance(kind, T.TimestampType) else kind.simpleString()


def call(function: str, *arguments: Sql | float) -> Sql:
    """What a function of Spark's makes of the arguments."""
    return Sql(f"{function}({', '.join(map(_operand, arguments))})")


def for_entries(function: str, array: Sql, value: Callable[[Sql], Sql]) -> Sql:
    """What a function of Spark's, such as ``transform``, makes of an array by a value of each entry."""
    return Sql(f"{function}({array}, `entry` -> {value(named('entry'))})")


def null_of(kind: T.DataType) -> Sql:
    """No value, of a type."""
    return Sql("NULL").cast(kind)


#: The bits that both of two whole numbers have, and those that either has.
bits_and, bits_or = _operator("&"), _operator("|")


def when(condition: Sql, value: Sql | float, otherwise: Sql | float | None = None) -> Sql:
    """The value if the condition is true, else the other one or null."""
    rest = "" if otherwise is None else f" ELSE {_operand(otherwise)}"
    return Sql(f"CASE WHEN {condition} THEN {_operand(value)}{rest} END")


def same(left: Sql, right: Sql) -> Sql:
    """Whether two values are equal, or both null."""
    return Sql(f"({left} <=> {right})")


def none_holds(conditions: Mapping[str, Sql]) -> Sql:
    """Whether no condition is true; null is not."""
    if not conditions:
        return number(True)
    # A true one makes the whole true, whatever is null beside it.
    return ~call("coalesce", any_of(conditions.values()), False)


def first_true(conditions: Mapping[str, Sql]) -> Sql:
    """The words of the first condition that is true; null if none is."""
    cases = " ".join(f"WHEN {condition} THEN {text(words)}" for words, condition in conditions.items())
    return Sql(f"CASE {cases} END") if cases else null_of(T.StringType())


def over(value: Sql, keys: Iterable[Sql], order: Iterable[Sql] = ()) -> Sql:
    """What a function makes of all rows that agree in the keys, or of those up to this one if there is an order."""
    key_text, order_text = (", ".join(map(str, columns)) for columns in (keys, order))
    return Sql(f"{value} OVER (PARTITION BY {key_text}{f' ORDER BY {order_text}' if order_text else ''})")


def descending(value: Sql) -> Sql:
    """An order by values, the largest first and nulls last."""
    return Sql(f"{value} DESC NULLS LAST")


def all_of(conditions: Iterable[Sql]) -> Sql:
    """Whether every condition is true; of none, true."""
    some = list(conditions)
    return reduce(and_, some) if some else number(True)


def any_of(conditions: Iterable[Sql]) -> Sql:
    """Whether any condition is true; of none, false."""
    some = list(conditions)
    return reduce(or_, some) if some else number(False)


def select(frame: DataFrame, *expressions: Sql) -> DataFrame:
    """The rows of a table with these columns."""
    return frame.selectExpr(*[expression.text for expression in expressions])


def where(frame: DataFrame, condition: Sql) -> DataFrame:
    """The rows of a table that meet a condition."""
    return frame.where(condition.text)


def aggregate(frame: DataFrame, keys: Sequence[str], *expressions: Sql) -> DataFrame:
    """One row per group of a table that has these keys, which are names of ours."""
    return frame.groupBy(*keys).agg(*[expression.column for expression in expressions])


def aggregate_lists(frame: DataFrame, keys: Sequence[str], *expressions: Sql) -> DataFrame:
    """Aggregates of the rows of each key, if any of the expressions is a list."""
    met = frame if engine_of(frame.sparkSession).is_spark else frame.repartition(*keys)
    return aggregate(met, keys, *expressions)


def union(frame: DataFrame, other: DataFrame) -> DataFrame:
    """The rows of two tables, whose columns meet by name; a column that one of them lacks is null there.

    Sail forgets the type of a column that ``unionByName`` itself fills.
    """
    kinds = {field.name: field.dataType for table in (frame, other) for field in table.schema}

    def whole(table: DataFrame) -> DataFrame:
        names = set(table.columns)
        return select(table, *(named(name) if name in names else null_of(kinds[name]).alias(name) for name in kinds))

    return rows_of_all([whole(frame), whole(other)])


def rows_of_all(tables: Iterable[DataFrame], *, may_lack_columns: bool = False) -> DataFrame:
    """The rows of several tables, whose columns meet by name; what a table lacks is null."""
    # Sail merges a union into the one around it, and fails if its second table is filtered. A name keeps them apart.
    named_tables = [table.alias("rows") for table in tables]
    return reduce(lambda rows, more: rows.unionByName(more, allowMissingColumns=may_lack_columns), named_tables)


def with_columns(frame: DataFrame, columns: Mapping[str, Sql]) -> DataFrame:
    """A table with further columns, or with others of these names."""
    if not columns:
        # Spark Connect refuses to add none.
        return frame
    return frame.withColumns({name: expression.column for name, expression in columns.items()})


def column(name: str) -> Column:
    """A top-level column by its exact name, whatever characters are in it."""
    return F.col(quoted(name))


def any_null(columns: Iterable[Column]) -> Column:
    """Whether any of the columns is null; of no columns, false."""
    nulls = [one.isNull() for one in columns]
    return reduce(or_, nulls) if nulls else F.lit(False)


def find_column(frame: DataFrame, name: str) -> str | None:
    """The name of a column as the table spells it; Spark compares names without regard to case."""
    return _spelling(frame, name, frame.columns, f"the column {name!r} is ambiguous: the table has")


def find_field(frame: DataFrame, array: str, fields: Sequence[str], name: str) -> str | None:
    """The name of a field of an array's structs as they spell it; it may follow the array's name and a dot."""
    dotted = {f"{array}.{field}": field for field in fields}
    spellings = [*fields, *dotted]
    match = _spelling(frame, name, spellings, f"the field {name!r} is ambiguous: the array {array!r} has")
    return None if match is None else dotted.get(match, match)


def _spelling(frame: DataFrame, name: str, spellings: Sequence[str], ambiguous: str) -> str | None:
    matches = [each for each in spellings if each.lower() == name.lower()]
    if len(matches) > 1 and setting(frame.sparkSession, "spark.sql.caseSensitive", "false").lower() == "true":
        matches = [each for each in matches if each == name] or matches
    if len(matches) > 1:
        msg = f"{ambiguous} {matches}; rename or drop the others"
        raise InputError(msg)
    return matches[0] if matches else None


def columns_in_words(frame: DataFrame) -> str:
    """The columns of a table and their types, for a message."""
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in frame.schema.fields)


def check_unambiguous(frame: DataFrame, names: Iterable[str]) -> None:
    """Refuse columns of a table that Spark could take for others of it."""
    n_of_name = Counter(existing.lower() for existing in frame.columns)
    for name in names:
        if n_of_name[name.lower()] > 1:
            find_column(frame, name)


_FLOATING = (T.FloatType, T.DoubleType)
#: What tables can be grouped, joined and ordered by, Arrow carries, and reads as text.
PLAIN = (
    T.NumericType, T.StringType, T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType, T.BinaryType,
)  # fmt: skip
_ITEM_TYPES = (T.IntegralType, T.StringType, *_FLOATING)
#: What a column names.
Named = Literal["user", "item", "slice", "cluster", "model", "category", "intent", "filter"]
_ADVICE: dict[Named, str] = {
    "user": "cast it to string, or make columns of its parts",
    "item": "items must be whole numbers, strings or doubles",
    "slice": "slices need plain values: cast it to string",
    "cluster": "clusters need plain values: cast it to string",
    "model": "model names must be plain values: cast it to string",
    "category": "categories must be plain values: cast it to string, or take one of several",
    "intent": "intents must be plain values or arrays of these: cast it to string",
    "filter": "filters need plain values or arrays of these: cast it to string",
}
#: What unsigned integers of 64 bits become if a value needs the last bit.
UINT64 = T.DecimalType(20, 0)
# What makes items of other types; a cast of these would be text that no other table has.
_ITEMS_OF: dict[type[T.DataType], str] = {
    T.BinaryType: "write it as text with F.hex (bytes.hex in pandas, bin.encode('hex') in polars)",
    T.ArrayType: "make one list of the lists with F.flatten",
    T.MapType: "make rows of its keys and values with F.explode",
    T.StructType: "make a column of its field, or of several with F.concat_ws",
}
# From this power of 2 on, floating point lacks some whole numbers: an id may have become the number of another one.
_BITS = {T.FloatType: 24, T.DoubleType: 53}
#: The key of a column's metadata under which a per-user table says what the column is.
MARK_KEY = "spark_rankeval"
# How `readable` writes the bytes of a text.
_WRITTEN_OUT = r"^(\\x[0-9A-F]{2})+$"


def why_unusable(kind: T.DataType, named: Named) -> str:
    """Why a column of this type cannot name users and so on, and what to do about it; empty if it can. Of arrays it is the items' type."""
    # Spark 3.5 knows no collations. Spark alone compares by them; workers, hashes and dicts compare the bytes.
    if isinstance(kind, T.StringType) and getattr(kind, "collation", "UTF8_BINARY") != "UTF8_BINARY":
        return "strings are compared by their bytes, not by a collation: cast it to string, after lower() if case does not matter"
    if isinstance(kind, _ITEM_TYPES if named == "item" else PLAIN):
        return ""
    return f"{_ADVICE[named]}: {_ITEMS_OF.get(type(kind), 'cast it to string')}" if named == "item" else _ADVICE[named]


def type_in_words(kind: T.DataType) -> str:
    """A type for messages; what unsigned integers with large values become is called as pandas and polars call these."""
    return "uint64 (decimal(20,0))" if kind == UINT64 else kind.simpleString()


def problem_of_type(what: str, kind: T.DataType, named: Named) -> list[str]:
    """Why a column of this type cannot name users and so on, as a sentence about it; none if it can."""
    wrong = why_unusable(kind, named)
    return [f"{what} is {type_in_words(kind)}; {wrong}"] if wrong else []


def id_reasons(what: str, ids: Sql, kind: T.DataType, *, may_be_null: bool = False) -> dict[str, Sql]:
    """Why ids of this type name nothing: conditions by what they mean."""
    missing, rounded = {f"null {what}": ids.is_null()}, {}
    if isinstance(kind, T.StringType):
        missing[f"empty {what} (give it another name if it is one)"] = ids == text("")
    if isinstance(kind, _FLOATING):
        missing[f"NaN {what}"] = call("isnan", ids)
        bits, size = _BITS[type(kind)], call("abs", ids)
        words = f"{what} of 2^{bits} or more, which a {kind.simpleString()} rounds (read ids as strings or bigint)"
        rounded[words] = (size >= 2.0**bits) & (size < math.inf)
    return rounded if may_be_null else missing | rounded


def usable(ids: Sql, kind: T.DataType) -> Sql:
    """Ids of this type, or arrays of them; null if they name nothing."""
    if isinstance(kind, T.ArrayType):
        element = kind.elementType
        usable_ids = for_entries("transform", ids, lambda one: usable(one, element))
        return usable_ids if isinstance(element, _FLOATING) else ids
    if not isinstance(kind, _FLOATING):
        return ids
    # -0.0 becomes 0.0, which it equals.
    return when(~any_of(id_reasons("id", ids, kind).values()), ids + number(0.0).cast(kind))


def check_types(frame: DataFrame, names: Iterable[str], named: Named, table: str) -> None:
    """Refuse columns of a table whose types cannot name users, slices or models."""
    for name in names:
        if problems := problem_of_type(f"{table}: the column {name!r} ({named})", frame.schema[name].dataType, named):
            raise InputError(problems[0])


def as_text(values: Sql, kind: T.DataType) -> Sql:
    """Values of a plain type as text that is equal if they are equal."""
    if isinstance(kind, _FLOATING):
        # -0.0 becomes 0.0, which it equals.
        values = values + number(0.0).cast(kind)
    return values.cast("string")


def is_utf8(words: Sql) -> Sql:
    """Whether a text is UTF-8, as Python needs it; only Spark 4 has a function for it."""
    # An empty match makes Java decode the text and encode it again, which replaces what is not UTF-8.
    return call("regexp_replace", words, text("^"), text("")) == words


def readable(words: Sql, *, is_written_out: bool = False) -> Sql:
    r"""Text that Python can read, and that differs wherever the given texts differ.

    Text that is not UTF-8, as bytes of a binary column may be, has its bytes written out: ``\x61\xFF``. So has text that looks
    like that already, unless that is known to be the work of this function.
    """
    # A backslash is an escape in what Spark puts in the place of a match, and none in Sail's.
    written_out = call(
        "replace", call("regexp_replace", call("hex", words), text("(..)"), text("/x$1")), text("/"), text("\\")
    )
    is_fine = is_utf8(words) if is_written_out else is_utf8(words) & ~call("rlike", words, text(_WRITTEN_OUT))
    return when(is_fine | words.is_null(), words, written_out)


def text_in_sql(frame: DataFrame, name: str) -> Sql:
    """A column of a table as text that is equal if its values are equal, as SQL."""
    return as_text(named(name), frame.schema[name].dataType)


def element_type(frame: DataFrame, name: str) -> T.DataType:
    """The type of a column's values, or of the entries of its arrays."""
    kind = frame.schema[name].dataType
    return kind.elementType if isinstance(kind, T.ArrayType) else kind


def set_in(frame: DataFrame, name: str, id_type: T.DataType | None = None) -> Sql:
    """The values of a column, or of arrays in it, as an array of texts without null; null for null.

    Values that are compared as ids of a type leave out those that name nothing, too.
    """
    several, element = isinstance(frame.schema[name].dataType, T.ArrayType), element_type(frame, name)
    values = named(name) if several else when(named(name).is_not_null(), call("array", named(name)))

    def word(value: Sql) -> Sql:
        if id_type is None:
            return as_text(value, element)
        if isinstance(id_type, T.BinaryType):
            # Sail has no text that is not UTF-8.
            return call("hex", value)
        return as_text(usable(value, element).cast(id_type), id_type)

    return call("array_compact", for_entries("transform", values, word))


def mark_of(item: T.StructField) -> dict[str, Any]:
    """What a column of a per-user table says of itself; empty if nothing."""
    mark = item.metadata.get(MARK_KEY)
    return dict(json.loads(mark)) if mark else {}


def is_readable(frame: DataFrame, name: str) -> bool:
    """Whether a column of a table says that `readable` made it when the table was scored."""
    return mark_of(frame.schema[name]).get("kind") in ("slice", "cluster", "model")


def name_in_sql(frame: DataFrame, name: str) -> Sql:
    """What a column of a table names, as readable text."""
    return readable(text_in_sql(frame, name), is_written_out=is_readable(frame, name))


def model_in(frame: DataFrame, name: str) -> Column:
    """The model that each row of a table of users is of; a null is a name, too."""
    return call("coalesce", name_in_sql(frame, name), text("null")).column


def text_of(name: str) -> Sql:
    """The text that `readable` made a name of."""
    written_out = re.match(_WRITTEN_OUT, name)
    return text_of_bytes(bytes.fromhex(name.replace("\\x", ""))) if written_out else text(name)


def for_example(values: Sql, kind: T.DataType) -> Sql:
    """Values as an error shows them: Python has no dates beyond the year 9999, and no text that is not UTF-8."""
    return values if isinstance(kind, T.NumericType | T.BooleanType) else readable(as_text(values, kind))


def for_examples(frame: DataFrame, names: Iterable[str]) -> list[Column]:
    """Columns of a table as an error shows them; arrays stay as they are."""
    kinds = {name: frame.schema[name].dataType for name in names}
    return [
        (named(name) if isinstance(kind, T.ArrayType) else for_example(named(name), kind)).alias(name).column
        for name, kind in kinds.items()
    ]


def example_of(rows: DataFrame, names: Mapping[str, str]) -> str:
    """One of some rows in words, its columns under the names to show; empty if there is none."""
    found = rows.limit(1).select(*for_examples(rows, names)).collect()
    return example_in_words(found[0], names) if found else ""


def example_in_words(row: Row, names: Mapping[str, str], *, are_nulls_shown: bool = True) -> str:
    """A row of `for_examples` in words."""
    shown = {name: row[ours] for ours, name in names.items()}
    return ", ".join(f"{name}={value!r}" for name, value in shown.items() if are_nulls_shown or value is not None)


def hashable(ids: Sql, kind: T.DataType, *, keeps_null: bool = False) -> Sql:
    """Ids of this type, or arrays of them, in a form whose hashes are equal for equal numbers of any type.

    A null hashes as one, but only with `keeps_null` it is one.
    """
    if isinstance(kind, T.ArrayType):
        element = kind.elementType
        if isinstance(element, T.IntegralType):
            return ids.cast(T.ArrayType(T.LongType()))
        hashable_ids = for_entries("transform", ids, lambda one: hashable(one, element))
        return hashable_ids if isinstance(element, _FLOATING) else ids
    if isinstance(kind, T.IntegralType):
        return ids.cast("bigint")
    if not isinstance(kind, _FLOATING):
        return ids
    # Hashes pass over nulls, and so a struct of one number has the number's hash, and one of none has that of a null.
    double = ids.cast("double")
    is_whole = (double == call("rint", double)) & (call("abs", double) < 2.0**63)
    parts = call("struct", when(is_whole, double.cast("bigint")), when(~is_whole, double))
    # Sail panics if it hashes such a condition alone and all rows of a batch are null.
    return when(ids.is_not_null(), parts) if keeps_null else parts


def user_hash(columns: Iterable[Sql], types: Iterable[T.DataType]) -> Sql:
    """A 64-bit hash of a user's id, equal for equal ids of any numeric type, by which the user is drawn into bootstrap samples."""
    ids = [hashable(column, kind) for column, kind in zip(columns, types, strict=True)]
    # Without ids all users have the same.
    return call("xxhash64", *ids) if ids else number(0).cast("bigint")


def cluster_hash(columns: Iterable[tuple[Sql, T.DataType]]) -> Sql:
    """The hash of a user's cluster by values and their types; null if one of the values is."""
    values, types = zip(*columns, strict=True)
    return when(all_of(value.is_not_null() for value in values), user_hash(values, types))


def hash_in(frame: DataFrame, names: Sequence[str]) -> Sql:
    """The hash of a user by columns of a table."""
    return user_hash(map(named, names), [frame.schema[name].dataType for name in names])


def common_id_type(left: T.DataType, right: T.DataType) -> T.DataType | None:
    """The type under which two ids compare without a cast that could change either; None if there is none."""
    if isinstance(left, T.StringType) and isinstance(right, T.StringType):
        return T.StringType()
    if isinstance(left, T.IntegralType) and isinstance(right, T.IntegralType):
        return left if left == right else T.LongType()
    if isinstance(left, _FLOATING) and isinstance(right, _FLOATING):
        return left if left == right else T.DoubleType()
    return left if left == right else None
