"""A caller's log of events: its columns found and checked, which rows can be used, and which grade a row gives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from spark_rankeval.checks import check_name, check_table, is_number
from spark_rankeval.errors import InputError, OptionError
from spark_rankeval.request.column_names import ColumnNames
from spark_rankeval.request.options import ScoringOptions
from spark_rankeval.spark.ids import id_reasons
from spark_rankeval.spark.invalid_rows import none_holds
from spark_rankeval.spark.source import read_source, require_column, user_column
from spark_rankeval.spark.sql_text import call, named, number, text, when
from spark_rankeval.splits.times import TimeColumn

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import DataFrame

    from spark_rankeval.spark.source import Source
    from spark_rankeval.spark.sql_text import Sql

#: The column of labels that has the grades.
RELEVANCE = "relevance"
#: What a column of items is called on the way; columns of users have the names that `user_column` gives.
ITEM = "item_of_pair"


@dataclass(frozen=True, eq=False)
class Log:
    """A table of events: rows of a user, an item and a time."""

    source: Source
    time: TimeColumn | None
    grade: Sql | None  # the grade that a row gives, null if it gives none; None: every row is a label
    graded_by: str | None  # the column that has these grades or events
    has_events: bool  # whether grades are those of events, some of which may have none on purpose

    @property
    def frame(self) -> DataFrame:
        """The table as the caller gave it."""
        return self.source.frame

    @property
    def pair_keys(self) -> list[str]:
        """The names on the way of the columns that make a pair of user and item."""
        return [*self.user_keys, ITEM]

    @property
    def user_keys(self) -> list[str]:
        """The names on the way of the columns that make a user."""
        return [user_column(index) for index in range(len(self.source.user))]

    def pair_sql(self) -> list[Sql]:
        """The columns of user and item under the names on the way."""
        return [*self.user_sql(), self.source.ids_sql().alias(ITEM)]

    def user_sql(self) -> list[Sql]:
        """The columns of the user under the names on the way."""
        return [column.alias(key) for column, key in zip(self.source.users_sql(), self.user_keys, strict=True)]

    def reasons(self) -> dict[str, Sql]:
        """Why a row cannot be used: conditions by what they mean."""
        source = self.source
        reasons: dict[str, Sql] = {}
        for name, kind in zip(source.user, source.user_types(), strict=True):
            for words, holds in id_reasons("user", named(name), kind).items():
                reasons[words] = holds | reasons[words] if words in reasons else holds
        reasons |= id_reasons("item", source.given_ids_sql(), source.item_type)
        if self.time is not None:
            reasons["null time"] = named(self.time.name).is_null()
            if self.time.may_be_nan:
                reasons["NaN time"] = call("isnan", named(self.time.name))
        return reasons

    def is_valid(self) -> Sql:
        """Whether a row can be used."""
        return none_holds(self.reasons())


def read_log(
    frame: DataFrame,
    *,
    user: str | Sequence[str],
    item: str,
    time: str | None = None,
    relevance: str | None = None,
    grades: Mapping[str, float] | Mapping[int, float] | None = None,
) -> Log:
    """Find and check the columns of a log, before any job.

    Raises:
        InputError: the table cannot be used; the message names all problems at once.
        OptionError: the grades do not fit.
    """
    check_table("log", frame)
    for option, name in {"item": item, "time": time, "relevance": relevance}.items():
        check_name(option, name)
    names = ColumnNames.given(ScoringOptions(user=user, item=item), one_table=False)
    problems: list[str] = []
    source = read_source("log", frame, names, problems)
    found = {
        option: None if name is None else require_column("log", frame, name, option, problems)
        for option, name in {"time": time, "relevance": relevance}.items()
    }
    column = None if found["time"] is None else TimeColumn(found["time"], frame.schema[found["time"]].dataType)
    if column is not None and column.problem():
        problems.append(column.problem())
    columns = [*source.user, source.item, *([] if column is None else [column.name])]
    if not problems and len(set(columns)) < len(columns):
        problems.append(f"log: user, item and time must be different columns; got {columns}")
    if relevance is not None and RELEVANCE in map(str.lower, columns):
        problems.append(
            f"log: a column of users, items or times is named like the grades of labels, {RELEVANCE!r}; rename it"
        )
    if problems:
        raise InputError("; ".join(problems))
    grade = None if found["relevance"] is None else _grade(frame, found["relevance"], grades)
    if relevance is None and grades is not None:
        msg = "grades needs the column of events, such as relevance='event'; got no relevance="
        raise OptionError(msg)
    return Log(source, column, grade, found["relevance"], grades is not None)


def _grade(frame: DataFrame, name: str, grades: Mapping[str, float] | Mapping[int, float] | None) -> Sql | None:
    kind, values = frame.schema[name].dataType, named(name)
    if grades is None:
        if not isinstance(kind, T.NumericType | T.BooleanType):
            msg = (
                f"log: relevance={name!r} must be a number; it is {kind.simpleString()}. Cast it, or pass the grade of each "
                "event, such as grades={'click': 1}"
            )
            raise InputError(msg)
        is_floating = isinstance(kind, T.FloatType | T.DoubleType)
        return when(~call("isnan", values), values) if is_floating else values
    if not isinstance(grades, Mapping) or not grades:
        msg = f"grades must be a dict of a grade for each event, such as {{'click': 1, 'purchase': 3}}; got {grades!r}"
        raise OptionError(msg)
    wrong = [grade for grade in grades.values() if not is_number(grade) or not math.isfinite(grade)]
    if wrong:
        msg = f"grades must be finite numbers; got {wrong[0]!r}"
        raise OptionError(msg)
    fits = str if isinstance(kind, T.StringType) else int if isinstance(kind, T.IntegralType) else None
    other = [event for event in grades if fits is None or not isinstance(event, fits) or isinstance(event, bool)]
    if other:
        msg = (
            f"grades: the column of events {name!r} is {kind.simpleString()}, so the event {other[0]!r} cannot be in it; "
            "events must be strings or whole numbers, like the column"
        )
        raise InputError(msg)
    grade_of_row: Sql | None = None
    for event, grade in grades.items():
        is_event = values == (text(event) if isinstance(event, str) else number(event))
        grade_of_row = when(is_event, float(grade), grade_of_row)
    return grade_of_row


def free_name(name: str, taken: Collection[str]) -> str:
    """A name that is not among these names in lower case."""
    while name in taken:
        name += "_"
    return name
