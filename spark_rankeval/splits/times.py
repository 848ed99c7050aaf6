"""Cuts and horizons as callers write them, as values that compare with a column of times."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from numbers import Integral
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import types as T

from spark_rankeval.checks import is_number
from spark_rankeval.errors import OptionError
from spark_rankeval.metrics.base import as_float32
from spark_rankeval.spark.sql_text import call, number, text

if TYPE_CHECKING:
    from spark_rankeval.spark.sql_text import Sql

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
_OF_THE_CALENDAR = (T.TimestampType, T.TimestampNTZType, T.DateType)


class TimeColumn(NamedTuple):
    """A column of times."""

    name: str
    kind: T.DataType

    def problem(self) -> str:
        """Why the column cannot be ordered as times, and what to do; empty if it can."""
        if isinstance(self.kind, (*_OF_THE_CALENDAR, T.NumericType)):
            return ""
        return (
            f"log: the time column {self.name!r} is {self.kind.simpleString()}; times must be timestamps, dates or "
            "numbers: cast it with F.to_timestamp"
        )

    @property
    def may_be_nan(self) -> bool:
        """Whether the column can hold NaN."""
        return isinstance(self.kind, T.FloatType | T.DoubleType)

    def cut(self, given: object) -> Moment:
        """The moment at which the log is cut.

        Raises:
            OptionError: it does not fit the column.
        """
        moment = self._number(given) if isinstance(self.kind, T.NumericType) else self._moment(given)
        if moment is None:
            wanted = "a number" if isinstance(self.kind, T.NumericType) else "a time or an ISO string like '2026-11-01'"
            whole = " (a day without a time)" if isinstance(self.kind, T.DateType) else ""
            zone = " without a zone" if isinstance(self.kind, T.TimestampNTZType) else ""
            msg = (
                f"cut must be {wanted}{zone}{whole}, because the column {self.name!r} is {self.kind.simpleString()}; "
                f"got {given!r}"
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

    def in_sql(self, moment: Moment) -> Sql:
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

    def in_words(self, written: str | None) -> str | None:
        """What `as_text` wrote, for a person."""
        if written is None or not isinstance(self.kind, T.TimestampType):
            return written
        return (_EPOCH + timedelta(microseconds=int(written))).isoformat(" ")

    def _number(self, given: object) -> float | None:
        if not is_number(given) or not math.isfinite(given):  # type: ignore[arg-type] # it is a number
            return None
        is_whole = isinstance(self.kind, T.IntegralType | T.DecimalType) and isinstance(given, Integral)
        return int(given) if is_whole else float(given)  # type: ignore[arg-type, call-overload] # the same

    def _moment(self, given: object) -> Moment | None:
        if isinstance(given, str):
            try:
                given = datetime.fromisoformat(given)
            except ValueError:
                return None
        elif isinstance(given, date) and not isinstance(given, datetime):
            given = datetime(given.year, given.month, given.day)  # a day has no zone
        if not isinstance(given, datetime) or given != given:  # noqa: PLR0124 # pandas' NaT is a datetime
            return None
        if isinstance(self.kind, T.TimestampType):
            # Without a zone it would mean another moment on another cluster.
            return given.replace(tzinfo=UTC) if given.tzinfo is None else given.astimezone(UTC)
        if given.tzinfo is not None:
            return None
        if isinstance(self.kind, T.TimestampNTZType):
            return given
        return given.date() if given == datetime(given.year, given.month, given.day) else None  # the same

    def _length(self, horizon: object) -> timedelta | float | None:
        if isinstance(self.kind, T.NumericType):
            length = self._number(horizon)
            return length if length is not None and length > 0 else None
        if isinstance(horizon, str) and (match := _DURATION.fullmatch(horizon)):
            horizon = int(match[1]) * _UNITS[match[2]]
        if not isinstance(horizon, timedelta) or horizon <= timedelta(0):
            return None
        return None if isinstance(self.kind, T.DateType) and horizon % timedelta(days=1) else horizon
