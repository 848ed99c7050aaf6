"""A caller's log of events: its columns found and checked, which rows can be used, its times, and which grade a row gives."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from numbers import Integral
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import types as T

from spark_rankeval.checks import check_name, check_table, is_number
from spark_rankeval.errors import InputError, OptionError
from spark_rankeval.metrics.base import as_float32
from spark_rankeval.request.column_names import ColumnNames
from spark_rankeval.request.options import ScoringOptions
from spark_rankeval.spark.ids import id_reasons
from spark_rankeval.spark.invalid_rows import none_holds
from spark_rankeval.spark.source import SourceTable, read_source, require_column, user_column
from spark_rankeval.spark.sql_text import Sql, call, named, number, text, when

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


#: A point in time: with a zone, without one, a day, or a number of the column's unit.
Moment = datetime | date | float

_UNITS = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "min": timedelta(minutes=1),
    "s": timedelta(seconds=1),
}
_DURATION = re.compile(rf"\s*(\d+)\s*({'|'.join(_UNITS)})\s*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CALENDAR_TYPES = (T.TimestampType, T.TimestampNTZType, T.DateType)


class TimeColumn(NamedTuple):
    """A column of times."""

    name: str
    kind: T.DataType

    def problem(self) -> str:
        """Why the column cannot be ordered as times, and what to do; empty if it can."""
        if isinstance(self.kind, (*_CALENDAR_TYPES, T.NumericType)):
            return ""
        return (
            f"log: the time column {self.name!r} is {self.kind.simpleString()}; times must be timestamps, dates or "
            "numbers: cast it with F.to_timestamp"
        )

    @property
    def may_be_nan(self) -> bool:
        """Whether the column can hold NaN."""
        return isinstance(self.kind, T.FloatType | T.DoubleType)

    def cut(self, value: object) -> Moment:
        """The moment at which the log is cut.

        Raises:
            OptionError: it does not fit the column.
        """
        moment = self._number(value) if isinstance(self.kind, T.NumericType) else self._moment(value)
        if moment is None:
            wanted = "a number" if isinstance(self.kind, T.NumericType) else "a time or an ISO string like '2026-11-01'"
            whole = " (a day without a time)" if isinstance(self.kind, T.DateType) else ""
            zone = " without a zone" if isinstance(self.kind, T.TimestampNTZType) else ""
            msg = (
                f"cut must be {wanted}{zone}{whole}, because the column {self.name!r} is {self.kind.simpleString()}; "
                f"got {value!r}"
            )
            raise OptionError(msg)
        return moment

    def end(self, cut: Moment, horizon: object) -> Moment:
        """The moment at which a horizon after the cut ends.

        Raises:
            OptionError: the horizon does not fit the column, or is not longer than nothing.
        """
        length = self._length(horizon)
        if length is None:
            wanted = {True: "a positive number in the unit of", False: "a duration such as '7d', '12h' or '30min' for"}
            days = " and whole days" if isinstance(self.kind, T.DateType) else ""
            msg = (
                f"horizon must be {wanted[isinstance(self.kind, T.NumericType)]} the column {self.name!r} "
                f"({self.kind.simpleString()}){days}; got {horizon!r}"
            )
            raise OptionError(msg)
        if isinstance(self.kind, T.IntegralType):
            return math.ceil(Fraction(cut) + Fraction(length))  # type: ignore[arg-type] # numbers of the column's kind
        try:
            return cut + length  # type: ignore[operator] # both are of the column's kind
        except OverflowError as error:
            msg = f"horizon ends after the year 9999; got {horizon!r}"
            raise OptionError(msg) from error

    def as_sql(self, moment: Moment) -> Sql:
        """A moment as a constant that compares with the column, whatever the session's time zone is."""
        if isinstance(self.kind, T.TimestampType):
            return call("timestamp_micros", (moment - _EPOCH) // timedelta(microseconds=1))  # type: ignore[operator] # a time
        if isinstance(moment, datetime):
            return text(moment.isoformat(" ")).cast("timestamp_ntz")
        if isinstance(moment, date):
            return text(moment.isoformat()).cast("date")
        if isinstance(self.kind, T.FloatType):
            # The column does not have 0.7, only the float next to it.
            return number(as_float32(moment))
        # What is below 1.5 among whole numbers is what is below 2.
        return number(math.ceil(moment) if isinstance(self.kind, T.IntegralType) else moment)

    def as_text(self, times: Sql) -> Sql:
        """Times of the column as text that no setting changes; of instants the microseconds since 1970."""
        return (call("unix_micros", times) if isinstance(self.kind, T.TimestampType) else times).cast("string")

    def as_words(self, written: str | None) -> str | None:
        """What `as_text` wrote, for a person."""
        if written is None or not isinstance(self.kind, T.TimestampType):
            return written
        return (_EPOCH + timedelta(microseconds=int(written))).isoformat(" ")

    def _number(self, value: object) -> float | None:
        if not is_number(value) or not math.isfinite(value):  # type: ignore[arg-type] # it is a number
            return None
        is_whole = isinstance(self.kind, T.IntegralType | T.DecimalType) and isinstance(value, Integral)
        return int(value) if is_whole else float(value)  # type: ignore[arg-type, call-overload] # the same

    def _moment(self, value: object) -> Moment | None:
        if isinstance(value, str):
            try:
                value = datetime.fromisoformat(value)
            except ValueError:
                return None
        elif isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)  # a day has no zone
        if not isinstance(value, datetime) or value != value:  # noqa: PLR0124 # pandas' NaT is a datetime
            return None
        if isinstance(self.kind, T.TimestampType):
            # Without a zone it would mean another moment on another cluster.
            return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        if value.tzinfo is not None:
            return None
        if isinstance(self.kind, T.TimestampNTZType):
            return value
        return value.date() if value == datetime(value.year, value.month, value.day) else None  # the same

    def _length(self, horizon: object) -> timedelta | float | None:
        if isinstance(self.kind, T.NumericType):
            length = self._number(horizon)
            return length if length is not None and length > 0 else None
        if isinstance(horizon, str) and (match := _DURATION.fullmatch(horizon)):
            horizon = int(match[1]) * _UNITS[match[2]]
        if not isinstance(horizon, timedelta) or horizon <= timedelta(0):
            return None
        return None if isinstance(self.kind, T.DateType) and horizon % timedelta(days=1) else horizon


#: The column of labels that has the grades.
RELEVANCE = "relevance"
#: What a column of items is called on the way; columns of users have the names that `user_column` gives.
ITEM = "item_of_pair"


@dataclass(frozen=True, eq=False)
class Log:
    """A table of events: rows of a user, an item and a time."""

    source: SourceTable
    time: TimeColumn
    grade: Sql | None  # the grade that a row gives, null if it gives none; None: every row is a label
    grade_column: str | None  # the column that has these grades or events
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
        reasons |= id_reasons("item", source.raw_ids_sql(), source.item_type)
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
    time: str,
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
    names = ColumnNames.read(ScoringOptions(user=user, item=item), one_table=False)
    problems: list[str] = []
    source = read_source("log", frame, names, problems)
    by_option = {
        option: None if name is None else require_column("log", frame, name, option, problems)
        for option, name in {"time": time, "relevance": relevance}.items()
    }
    column = (
        None if by_option["time"] is None else TimeColumn(by_option["time"], frame.schema[by_option["time"]].dataType)
    )
    if column is not None and column.problem():
        problems.append(column.problem())
    columns = [*source.user, source.item, *([] if column is None else [column.name])]
    if not problems and len(set(columns)) < len(columns):
        problems.append(f"log: user, item and time must be different columns; got {columns}")
    if relevance is not None and RELEVANCE in map(str.lower, columns):
        problems.append(
            f"log: a column of users, items or times is named like the grades of labels, {RELEVANCE!r}; rename it"
        )
    if problems or column is None:
        raise InputError("; ".join(problems))
    grade = None if by_option["relevance"] is None else _grade(frame, by_option["relevance"], grades)
    if relevance is None and grades is not None:
        msg = "grades needs the column of events, such as relevance='event'; got no relevance="
        raise OptionError(msg)
    return Log(source, column, grade, by_option["relevance"], grades is not None)


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
