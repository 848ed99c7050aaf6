"""Columns of tables by their exact names, whatever characters are in them."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from spark_rankeval.errors import InputError
from spark_rankeval.spark.platforms import setting
from spark_rankeval.spark.sql_text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import Column, DataFrame


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
    known = [*fields, *dotted]
    found = _spelling(frame, name, known, f"the field {name!r} is ambiguous: the array {array!r} has")
    return None if found is None else dotted.get(found, found)


def _spelling(frame: DataFrame, name: str, known: Sequence[str], ambiguous: str) -> str | None:
    matches = [each for each in known if each.lower() == name.lower()]
    if len(matches) > 1 and setting(frame.sparkSession, "spark.sql.caseSensitive", "false").lower() == "true":
        matches = [each for each in matches if each == name] or matches
    if len(matches) > 1:
        msg = f"{ambiguous} {matches}; rename or drop the others"
        raise InputError(msg)
    return matches[0] if matches else None


def check_unambiguous(frame: DataFrame, names: Iterable[str]) -> None:
    """Refuse columns of a table that Spark could take for others of it."""
    n_of_name = Counter(known.lower() for known in frame.columns)
    for name in names:
        if n_of_name[name.lower()] > 1:
            find_column(frame, name)
