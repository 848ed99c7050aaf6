"""Columns that name something: which types may name users, items, slices and models, which of them compare, and how they read."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import types as T

from spark_rankeval.errors import InputError
from spark_rankeval.spark.sql_text import Sql, any_of, call, function_of, named, number, text, text_of_bytes, when

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row


_FLOATING = (T.FloatType, T.DoubleType)
#: What tables can be grouped, joined and ordered by, Arrow carries, and reads as text.
PLAIN = (
    T.NumericType, T.StringType, T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType, T.BinaryType,
)  # fmt: skip
_ITEM_TYPES = (T.IntegralType, T.StringType, *_FLOATING)
#: What a column names.
Named = Literal["user", "item", "slice", "cluster", "model", "category", "intent"]
_ADVICE: dict[Named, str] = {
    "user": "cast it to string, or name its parts as columns",
    "item": "items must be whole numbers, strings or doubles",
    "slice": "slices need plain values: cast it",
    "cluster": "clusters need plain values: cast it to string",
    "model": "model names must be plain values: cast it to string",
    "category": "categories must be plain values: cast it, or take one of several",
    "intent": "intents must be plain values or arrays of these: cast it",
}
#: What unsigned integers of 64 bits become if a value needs the last bit.
UINT64 = T.DecimalType(20, 0)
# What makes items of other types; a cast of these would be text that no other table has.
_ITEMS_OF: dict[type[T.DataType], str] = {
    T.BinaryType: "write it as text with F.hex (bytes.hex in pandas, bin.encode('hex') in polars)",
    T.ArrayType: "make one list of the lists with F.flatten",
    T.MapType: "make rows of its keys and values with F.explode",
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
        one = usable(named("one"), kind.elementType)
        return call("transform", ids, function_of(["one"], one)) if isinstance(kind.elementType, _FLOATING) else ids
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


def set_in(frame: DataFrame, name: str) -> Sql:
    """The values of a column, or of arrays in it, as an array of texts without null; null for null."""
    kind = frame.schema[name].dataType
    several = isinstance(kind, T.ArrayType)
    values = named(name) if several else when(named(name).is_not_null(), call("array", named(name)))
    element = kind.elementType if isinstance(kind, T.ArrayType) else kind
    return call("array_compact", call("transform", values, function_of(["one"], as_text(named("one"), element))))


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


def name_in(frame: DataFrame, name: str) -> Column:
    """The same as a column."""
    return name_in_sql(frame, name).column


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
    """The same of columns of a table; arrays stay as they are."""
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
        if isinstance(kind.elementType, T.IntegralType):
            return ids.cast(T.ArrayType(T.LongType()))
        one = hashable(named("one"), kind.elementType)
        return call("transform", ids, function_of(["one"], one)) if isinstance(kind.elementType, _FLOATING) else ids
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


def hash_in(frame: DataFrame, names: Sequence[str]) -> Sql:
    """The same of columns of a table."""
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
