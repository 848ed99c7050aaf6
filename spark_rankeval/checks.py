"""Checks of arguments that many calls have."""

from __future__ import annotations

import numbers
from typing import Any

from spark_rankeval.errors import InputError, OptionError


def one_of(option: str, value: object, allowed: tuple[object, ...]) -> None:
    """Refuse a value that an option does not allow."""
    # 1 is not True here, and a value without a hash or == is not allowed.
    if not any(type(value) is type(choice) and value == choice for choice in allowed):
        msg = f"{option} must be one of {', '.join(map(repr, allowed))}; got {value!r}"
        raise OptionError(msg)


def as_names(option: str, given: object) -> tuple[str, ...]:
    """The names of columns as a caller gives them: one, or several different ones."""
    names = (given,) if isinstance(given, str) else given
    if (
        not isinstance(names, tuple | list)
        or not all(isinstance(name, str) for name in names)
        or len(set(names)) < len(names)
    ):
        msg = f"{option} must be a column name or a list of distinct column names; got {given!r}"
        raise InputError(msg)
    return tuple(names)


def check_place(option: str, path: str) -> None:
    """Refuse a path that Spark would write to as it is, but read as a pattern."""
    special = [character for character in "[]{}*?\\" if character in path]
    if special:
        msg = (
            f"{option}: {path} contains {' '.join(special)}, which Spark reads as a wildcard pattern; choose a path without "
            "these characters"
        )
        raise OptionError(msg)


def is_number(value: object, kind: type = numbers.Real) -> bool:
    """Whether a value is a number of a kind; booleans are not."""
    return isinstance(value, kind) and not isinstance(value, bool)


def is_name(value: object) -> bool:
    """Whether a value can name a model: text that is not blank and fits UTF-8, unlike half a surrogate pair."""
    return isinstance(value, str) and bool(value.strip()) and value.encode(errors="ignore").decode() == value


def check_table(role: str, frame: Any, *, instead: str = "") -> None:
    """Refuse what is not a Spark DataFrame, and one that never ends; `instead` is what else the role allows."""
    if not is_table(frame):
        kind = type(frame)
        package = kind.__module__.partition(".")[0]
        advice = _AS_SPARK.get(f"{kind.__module__}.{kind.__name__}") or _AS_SPARK.get(package)
        wanted = f"a Spark DataFrame{f' or {instead}' if instead else ''}"
        msg = f"{role} must be {wanted}; got a {kind_of(frame)}{f'. {advice}' if advice else ''}"
        raise InputError(msg)
    if frame.isStreaming:
        msg = (
            f"{role} must be a batch DataFrame; got a streaming one. Read it as a batch, or evaluate each micro-batch in "
            "foreachBatch"
        )
        raise InputError(msg)


def kind_of(value: object) -> str:
    """The class of a value, with its package, because many packages have a DataFrame."""
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    return kind.__name__ if package == "builtins" else f"{package} {kind.__name__}"


def is_table(given: Any) -> bool:
    """Whether something is a Spark DataFrame, classic or of Connect, which have no common base in Spark 3.5."""
    return any(
        kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.") for kind in type(given).__mro__
    )


#: How tables of other packages, none of which is imported, become Spark's.
_AS_SPARK = {
    "pandas": "Pass spark.createDataFrame(table)",
    "pyarrow": "Pass spark.createDataFrame(table.to_pandas())",
    "polars": "Pass spark.createDataFrame(table.to_pandas())",
    "polars.lazyframe.frame.LazyFrame": "Pass spark.createDataFrame(table.collect().to_pandas())",
    "snowflake": "Save it as a table, and read that table with Spark",
    "pyspark.pandas.frame.DataFrame": "Pass table.to_spark()",
    "pyspark.sql.group.GroupedData": "Aggregate it with agg(), which gives a DataFrame",
    "pyspark.sql.connect.group.GroupedData": "Aggregate it with agg(), which gives a DataFrame",
}


def check_name(option: str, given: object) -> None:
    """Refuse what is neither a column's name nor None."""
    if not (given is None or isinstance(given, str)):
        msg = f"{option} must be a column name; got {given!r}"
        raise InputError(msg)
