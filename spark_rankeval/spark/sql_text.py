"""Columns by their exact names, and expressions as SQL text, which cost a single call of the JVM: here alone values become text."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.errors import InputError
from spark_rankeval.spark.platforms import engine_of, setting

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


# Names that read the same in backticks, in quotation marks and after Spark has replaced its variables.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, eq=False)
class Sql:
    """An expression; its operators are those of a column, as whose `==` makes a comparison.

    >>> print((named("n") + 1 < 3) & ~named("odd`name").is_null())
    (((`n` + 1) < 3) AND (NOT (`odd``name` IS NULL)))
    """

    text: str

    def __str__(self) -> str:
        return self.text

    def __and__(self, other: Sql) -> Sql:
        return Sql(f"({self} AND {other})")

    def __or__(self, other: Sql) -> Sql:
        return Sql(f"({self} OR {other})")

    def __invert__(self) -> Sql:
        return Sql(f"(NOT {self})")

    def __neg__(self) -> Sql:
        return Sql(f"(- {self})")

    def __add__(self, other: Sql | float) -> Sql:
        return Sql(f"({self} + {_operand(other)})")

    def __sub__(self, other: Sql | float) -> Sql:
        return Sql(f"({self} - {_operand(other)})")

    def __mul__(self, other: Sql | float) -> Sql:
        return Sql(f"({self} * {_operand(other)})")

    def __lt__(self, other: Sql | float) -> Sql:
        return Sql(f"({self} < {_operand(other)})")

    def __le__(self, other: Sql | float) -> Sql:
        return Sql(f"({self} <= {_operand(other)})")

    def __gt__(self, other: Sql | float) -> Sql:
        return Sql(f"({self} > {_operand(other)})")

    def __ge__(self, other: Sql | float) -> Sql:
        return Sql(f"({self} >= {_operand(other)})")

    def __eq__(self, other: object) -> Sql:  # type: ignore[override] # as of a column
        return Sql(f"({self} = {_operand(other)})")

    def __ne__(self, other: object) -> Sql:  # type: ignore[override] # as of a column
        return Sql(f"({self} <> {_operand(other)})")

    __hash__ = None  # type: ignore[assignment] # equality is a comparison for Spark

    def is_null(self) -> Sql:
        """Whether it is null."""
        return Sql(f"({self} IS NULL)")

    def is_not_null(self) -> Sql:
        """Whether it is not null."""
        return Sql(f"({self} IS NOT NULL)")

    def cast(self, kind: T.DataType | str) -> Sql:
        """The same as another type."""
        return Sql(f"CAST({self} AS {kind if isinstance(kind, str) else _type(kind)})")

    def field(self, name: str) -> Sql:
        """A field of ours of a struct."""
        assert _PLAIN.fullmatch(name), "a caller's name is no name of ours"
        return Sql(f"{self}['{name}']")

    def alias(self, name: str) -> Sql:
        """The same under a name of ours."""
        assert _PLAIN.fullmatch(name), "a caller's name is no name of ours"
        return Sql(f"{self} AS {quoted(name)}")

    def aliases(self, *names: str) -> Sql:
        """What makes several columns, under names of ours."""
        assert all(map(_PLAIN.fullmatch, names)), "a caller's name is no name of ours"
        return Sql(f"{self} AS ({', '.join(map(quoted, names))})")

    @property
    def column(self) -> Column:
        """The same as a column of Spark's."""
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
        return call("transform", named(name), function_of(["entry"], named("entry").field(field)))
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


def function_of(parameters: Sequence[str], value: Sql) -> Sql:
    """A function that makes a value of parameters with names of ours, for functions of Spark's that take one."""
    assert all(map(_PLAIN.fullmatch, parameters)), "a caller's name is no name of ours"
    return Sql(
        f"({', '.join(map(quoted, parameters))}) -> {value}"
        if len(parameters) > 1
        else f"{quoted(parameters[0])} -> {value}"
    )


def null_of(kind: T.DataType) -> Sql:
    """No value, of a type."""
    return Sql("NULL").cast(kind)


def bits_and(left: Sql, right: Sql | int) -> Sql:
    """The bits that both whole numbers have."""
    return Sql(f"({left} & {_operand(right)})")


def bits_or(left: Sql, right: Sql | int) -> Sql:
    """The bits that either of two whole numbers has."""
    return Sql(f"({left} | {_operand(right)})")


def true_for_every_row() -> Sql:
    """True, which Spark does not know: it moves no other condition past this one, and makes no join of all rows with all of it."""
    return call("rand", 0) >= 0


def row_of_partition() -> Sql:
    """The number of a row within its partition, from 0: the low bits of Spark's number of it."""
    return bits_and(call("monotonically_increasing_id"), (1 << 33) - 1)


def when(condition: Sql, value: Sql | float, otherwise: Sql | float | None = None) -> Sql:
    """The value if the condition is true, else the other one or null."""
    rest = "" if otherwise is None else f" ELSE {_operand(otherwise)}"
    return Sql(f"CASE WHEN {condition} THEN {_operand(value)}{rest} END")


def first_true(conditions: Mapping[str, Sql]) -> Sql:
    """The words of the first condition that is true; null if none is."""
    cases = " ".join(f"WHEN {condition} THEN {text(words)}" for words, condition in conditions.items())
    return Sql(f"CASE {cases} END") if cases else null_of(T.StringType())


def over(value: Sql, keys: Iterable[Sql], order: Iterable[Sql] = (), *, frame: str = "") -> Sql:
    """What a function makes of the rows that agree in the keys.

    The frame is of all rows, or of those up to this one if there is an order.
    """
    key_text, order_text = (", ".join(map(str, columns)) for columns in (keys, order))
    return Sql(
        f"{value} OVER (PARTITION BY {key_text}{f' ORDER BY {order_text}' if order_text else ''}{f' {frame}' if frame else ''})"
    )


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
    """The same if any of the expressions is a list."""
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


def look_up(rows: DataFrame, table: DataFrame, on: Sql) -> DataFrame:
    """Rows with the columns of a smaller table, null where nothing matches.

    Sail holds the left table of a join in memory, whichever is smaller. Spark chooses by itself.
    """
    return table.join(rows, on.column, "right")


def rows_of_all(tables: Iterable[DataFrame]) -> DataFrame:
    """The rows of several tables, whose columns meet by name."""
    # Sail merges a union into the one around it, and fails if its second table is filtered. A name keeps them apart.
    return reduce(lambda rows, more: rows.unionByName(more), [table.alias("rows") for table in tables])


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


def check_unambiguous(frame: DataFrame, names: Iterable[str]) -> None:
    """Refuse columns of a table that Spark could take for others of it."""
    n_of_name = Counter(existing.lower() for existing in frame.columns)
    for name in names:
        if n_of_name[name.lower()] > 1:
            find_column(frame, name)
