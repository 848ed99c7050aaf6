"""Split a log of events: its columns, its times, and the ways to part it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from numbers import Integral
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.checks import check_name, check_table, is_number, one_of
from spark_rankeval.errors import DataError, InputError, OptionError, did_you_mean, listed
from spark_rankeval.metrics.base import as_float32
from spark_rankeval.request.call import ColumnNames, ScoringOptions, Table
from spark_rankeval.spark import source_tables, sql
from spark_rankeval.spark.local_tables import takes_local_tables

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

    def cut(self, value: object) -> Moment:
        """The moment at which the log is cut.

        Raises:
            OptionError: it does not fit the column.
        """
        has_numbers = isinstance(self.kind, T.NumericType)
        moment = self._number(value) if has_numbers else self._moment(value)
        if moment is None:
            wanted = "a number" if has_numbers else "a time or an ISO string like '2026-11-01'"
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
            wanted = "a duration such as '7d', '12h' or '30min' for"
            if isinstance(self.kind, T.NumericType):
                wanted = "a positive number in the unit of"
            days = " and whole days" if isinstance(self.kind, T.DateType) else ""
            msg = (
                f"horizon must be {wanted} the column {self.name!r} ({self.kind.simpleString()}){days}; got {horizon!r}"
            )
            raise OptionError(msg)
        if isinstance(self.kind, T.IntegralType):
            return math.ceil(Fraction(cut) + Fraction(length))  # type: ignore[arg-type] # numbers of the column's kind
        try:
            return cut + length  # type: ignore[operator] # both are of the column's kind
        except OverflowError as error:
            msg = f"horizon ends after the year 9999; got {horizon!r}"
            raise OptionError(msg) from error

    def as_sql(self, moment: Moment) -> sql.Sql:
        """A moment as a constant that compares with the column, whatever the session's time zone is."""
        if isinstance(self.kind, T.TimestampType):
            return sql.call("timestamp_micros", (moment - _EPOCH) // timedelta(microseconds=1))  # type: ignore[operator] # a time
        if isinstance(moment, datetime):
            return sql.text(moment.isoformat(" ")).cast("timestamp_ntz")
        if isinstance(moment, date):
            return sql.text(moment.isoformat()).cast("date")
        if isinstance(self.kind, T.FloatType):
            # The column does not have 0.7, only the float next to it.
            return sql.number(as_float32(moment))
        # What is below 1.5 among whole numbers is what is below 2.
        return sql.number(math.ceil(moment) if isinstance(self.kind, T.IntegralType) else moment)

    def as_text(self, times: sql.Sql) -> sql.Sql:
        """Times of the column as text that no setting changes; of instants the microseconds since 1970."""
        return (sql.call("unix_micros", times) if isinstance(self.kind, T.TimestampType) else times).cast("string")

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

    source: source_tables.SourceTable
    time: TimeColumn
    grade: sql.Sql | None  # the grade that a row gives, null if it gives none; None: every row is a label
    grade_column: str | None  # the column that has these grades or events
    has_events: bool  # whether grades are those of events, some of which may have none on purpose
    leave_out: tuple[str, ...]  # what labels leave out

    @property
    def pair_keys(self) -> list[str]:
        """The names on the way of the columns that make a pair of user and item."""
        return [*self.source.user_names, ITEM]

    def pair_sql(self) -> list[sql.Sql]:
        """The columns of user and item under the names on the way."""
        return [*self.source.named_users_sql(), self.source.ids_sql().alias(ITEM)]

    def reasons(self) -> dict[str, sql.Sql]:
        """Why a row cannot be used: conditions by what they mean."""
        source = self.source
        reasons: dict[str, sql.Sql] = {}
        for name, kind in zip(source.user, source.user_types, strict=True):
            for words, holds in sql.id_reasons("user", sql.named(name), kind).items():
                reasons[words] = holds | reasons[words] if words in reasons else holds
        reasons |= sql.id_reasons("item", source.raw_ids_sql(), source.item_type)
        reasons["null time"] = sql.named(self.time.name).is_null()
        if isinstance(self.time.kind, T.FloatType | T.DoubleType):
            reasons["NaN time"] = sql.call("isnan", sql.named(self.time.name))
        return reasons

    def is_valid(self) -> sql.Sql:
        """Whether a row can be used."""
        return sql.none_holds(self.reasons())


def read_log(
    frame: DataFrame,
    *,
    user: str | Sequence[str],
    item: str,
    time: str,
    relevance: str | None,
    grades: Mapping[str, float] | Mapping[int, float] | None,
    leave_out: str | Sequence[str],
) -> Log:
    """Find and check the columns of a log, before any job.

    Raises:
        InputError: the table cannot be used; the message names all problems at once.
        OptionError: the grades do not fit, or labels cannot leave out one of the words.
    """
    left_out = _read_leave_out(leave_out)
    check_table("log", frame)
    for option, name in {"item": item, "time": time, "relevance": relevance}.items():
        check_name(option, name)
    names = ColumnNames.read(ScoringOptions(user=user, item=item))
    problems: list[str] = []
    source = source_tables.read_source("log", frame, names, problems)
    time_name = source_tables.require_column("log", frame, time, "time", problems)
    grade_column = (
        None if relevance is None else source_tables.require_column("log", frame, relevance, "relevance", problems)
    )
    columns = [*source.user, source.item]
    if time_name is not None:
        columns.append(time_name)
        kind = frame.schema[time_name].dataType
        if not isinstance(kind, (*_CALENDAR_TYPES, T.NumericType)):
            problems.append(
                f"log: the time column {time_name!r} is {kind.simpleString()}; times must be timestamps, dates or "
                "numbers: cast it with F.to_timestamp"
            )
    if not problems and len(set(columns)) < len(columns):
        problems.append(f"log: user, item and time must be different columns; got {columns}")
    if relevance is not None and RELEVANCE in map(str.lower, columns):
        problems.append(
            f"log: a column of users, items or times is named like the grades of labels, {RELEVANCE!r}; rename it"
        )
    if problems or time_name is None:
        raise InputError("; ".join(problems))
    grade = None if grade_column is None else _grade(frame, grade_column, grades)
    if relevance is None and grades is not None:
        msg = "grades needs the column of events, such as relevance='event'; got no relevance="
        raise OptionError(msg)
    return Log(source, TimeColumn(time_name, kind), grade, grade_column, grades is not None, left_out)


# What labels can leave out.
_LEAVE_OUT = ("seen", "cold_users", "cold_items")


def _read_leave_out(leave_out: str | Sequence[str]) -> tuple[str, ...]:
    words = (leave_out,) if isinstance(leave_out, str) else leave_out
    if not isinstance(words, list | tuple):
        msg = f"leave_out must be a word or a list of words (available: {', '.join(_LEAVE_OUT)}); got {leave_out!r}"
        raise OptionError(msg)
    for word in words:
        if word not in _LEAVE_OUT:
            near = did_you_mean(word, _LEAVE_OUT)
            msg = f"leave_out: {word!r} is not among the things that labels can leave out; {near}available: {', '.join(_LEAVE_OUT)}"
            raise OptionError(msg)
    return tuple(words)


def _grade(frame: DataFrame, name: str, grades: Mapping[str, float] | Mapping[int, float] | None) -> sql.Sql | None:
    kind, values = frame.schema[name].dataType, sql.named(name)
    if grades is None:
        if not isinstance(kind, T.NumericType | T.BooleanType):
            msg = (
                f"log: relevance={name!r} must be a number; it is {kind.simpleString()}. Cast it, or pass the grade of each "
                "event, such as grades={'click': 1}"
            )
            raise InputError(msg)
        is_floating = isinstance(kind, T.FloatType | T.DoubleType)
        return sql.when(~sql.call("isnan", values), values) if is_floating else values
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
    grade_of_row: sql.Sql | None = None
    for event, grade in grades.items():
        is_event = values == (sql.text(event) if isinstance(event, str) else sql.number(event))
        grade_of_row = sql.when(is_event, float(grade), grade_of_row)
    return grade_of_row


@dataclass(frozen=True, kw_only=True)
class SplitCounts:
    """The sizes of a split. Rows in = rows in training + rows held out + rows after the horizon + invalid rows.

    Examples:
        >>> from spark_rankeval.splits import by_time
        >>> log = spark.createDataFrame([(1, 7, 1), (1, 8, 2), (2, 8, 2), (None, 7, 1)], "user int, item int, day int")
        >>> counts = by_time(log, 2, time="day").counts()
        >>> counts.n_training, counts.n_held_out, counts.n_cold_users, counts.invalid
        (1, 2, 1, {'null user': 1})

    Attributes:
        n_rows: rows of the log.
        n_training: rows in training.
        n_held_out: rows that are held out.
        n_after: rows at or after the end of the horizon.
        n_invalid: rows that are in no part, because they have no user, item or time.
        invalid: how many rows have each reason. A row can have several.
        n_ungraded: rows that are held out and have no grade, such as events that ``grades=`` does not name.
        n_labels: labels, one for each user and item.
        n_users: users in training or held out.
        n_training_users: users with rows in training.
        n_labelled_users: users with labels.
        n_cold_users: users with labels and without rows in training.
        first_time: the first time of a row that can be used; None if there is none.
        last_time: the last one.
    """

    n_rows: int
    n_training: int
    n_held_out: int
    n_after: int
    n_invalid: int
    invalid: dict[str, int]
    n_ungraded: int
    n_labels: int
    n_users: int
    n_training_users: int
    n_labelled_users: int
    n_cold_users: int
    first_time: str | None
    last_time: str | None

    def __str__(self) -> str:
        rows = f"{_many(self.n_rows, 'row')}; {self.n_training:,} in training, {self.n_held_out:,} held out"
        if self.n_after:
            rows += f", {self.n_after:,} after the horizon"
        if self.invalid:
            rows += "; invalid: " + ", ".join(f"{n:,} with a {reason}" for reason, n in self.invalid.items())
        users = f"{_many(self.n_users, 'user')}; {self.n_training_users:,} in training, {self.n_labelled_users:,} with labels"
        if self.n_cold_users:
            users += f", {self.n_cold_users:,} of them without rows in training"
        labels = f"{_many(self.n_labels, 'pair')} of user and item"
        if self.n_ungraded:
            labels += f"; {_many(self.n_ungraded, 'row')} held out without a grade"
        return f"rows    {rows}\nusers   {users}\nlabels  {labels}"


def _many(n: int, thing: str) -> str:
    return f"{n:,} {thing}{'' if n == 1 else 's'}"


def count_rows(log: Log, training: DataFrame, held_out: DataFrame, labels: DataFrame) -> SplitCounts:
    """Count the rows of the log and of its parts; one action."""
    parts = {"n_training": training, "n_held_out": held_out, "n_labels": labels}
    row = _log_counts(log).crossJoin(_user_counts(log, parts)).collect()[0].asDict()
    first, last = (log.time.as_words(row.pop(name)) for name in ("first_time", "last_time"))
    counts = {reason: row.pop(f"invalid_{place}") for place, reason in enumerate(log.reasons())}
    return SplitCounts(
        **row,
        n_after=row["n_rows"] - row["n_training"] - row["n_held_out"] - row["n_invalid"],
        invalid={reason: n for reason, n in counts.items() if n},
        first_time=first,
        last_time=last,
    )


def _log_counts(log: Log) -> DataFrame:
    """One row: how many rows there are, how many cannot be used and why, and the first and last time."""
    reasons = log.reasons().values()
    times = sql.when(log.is_valid(), sql.named(log.time.name))
    return sql.aggregate(
        log.source.frame,
        (),
        sql.call("count", 1).alias("n_rows"),
        sql.call("count_if", sql.any_of(reasons)).alias("n_invalid"),
        *(sql.call("count_if", reason).alias(f"invalid_{place}") for place, reason in enumerate(reasons)),
        log.time.as_text(sql.call("min", times)).alias("first_time"),
        log.time.as_text(sql.call("max", times)).alias("last_time"),
    )


def _user_counts(log: Log, parts: Mapping[str, DataFrame]) -> DataFrame:
    """One row: how many rows each part has, and how many users."""
    no_grade = sql.number(False) if log.grade is None else log.grade.is_null()
    rows = sql.rows_of_all(
        sql.select(
            part,
            *log.source.named_users_sql(),
            sql.text(name).alias("part"),
            (no_grade if name == "n_held_out" else sql.number(False)).alias("has_no_grade"),
        )
        for name, part in parts.items()
    )
    totals = {name: F.count_if(F.col("part") == name) for name in parts}
    totals["n_ungraded"] = F.count_if("has_no_grade")
    users = rows.groupBy(*log.source.user_names).agg(*(total.alias(name) for name, total in totals.items()))
    n_training, n_labels = F.col("n_training"), F.col("n_labels")
    conditions = {
        "n_users": n_training + F.col("n_held_out") > 0,
        "n_training_users": n_training > 0,
        "n_labelled_users": n_labels > 0,
        "n_cold_users": (n_labels > 0) & (n_training == 0),
    }
    return users.agg(
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in totals),
        *(F.count_if(condition).alias(name) for name, condition in conditions.items()),
    )


_FIRST, _GRADE, _PLACE = "first_time", "highest_grade", "rankeval_place"


class Rule(NamedTuple):
    """How a split parts a log, in words for what it prints and for messages about a part without rows."""

    method: str  # what is in training and what in the labels
    no_training: str  # why no row is left to train on, and what to do
    no_held_out: str  # the same of the rows that are held out


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """A log in parts, as lazy tables: nothing is computed, and nothing raises, until you use one of them or call `check`.

    Examples:
        >>> from spark_rankeval.splits import last_n
        >>> events = [("ann", "tea", 1), ("ann", "jam", 2), ("bob", "tea", 1), ("bob", "rye", 5), ("dan", "jam", 3)]
        >>> log = spark.createDataFrame(events, "user string, item string, day int")
        >>> split = last_n(log, time="day").check()
        >>> split.training.orderBy("user").toPandas()
          user item  day
        0  ann  tea    1
        1  bob  tea    1
        >>> split.labels.orderBy("user").toPandas()
          user item  day
        0  ann  jam    2
        1  bob  rye    5
        2  dan  jam    3

    Attributes:
        training: the rows of the log to train on, with all its columns.
        held_out: the rows that are held out, with all columns. No row is in both tables. A row without a user, an item or a time is in
            neither.
        labels: one row for each user and item of the rows that are held out: the user's columns, the item, the time of the pair's
            first event, and with ``relevance=`` its highest grade in the column ``relevance``. Rows without a grade give no label.
    """

    training: DataFrame
    held_out: DataFrame
    labels: DataFrame
    _log: Log = field(kw_only=True)
    _rule: Rule = field(kw_only=True)

    def __repr__(self) -> str:
        training, labels = (", ".join(table.columns) for table in (self.training, self.labels))
        return (
            f"split     {self._rule.method}\n"
            f"training  {training}; split.held_out has these columns, too\n"
            f"labels    {labels}\n"
            "The tables are lazy: printing reads no row. split.counts() counts rows, users and labels."
        )

    def counts(self) -> SplitCounts:
        """How many rows, users and labels the parts have, and how many rows cannot be used. Each call is an action.

        Examples:
            >>> from spark_rankeval.splits import last_n
            >>> log = spark.createDataFrame([("ann", "tea", 1), ("ann", "jam", 2)], "user string, item string, day int")
            >>> print(last_n(log, time="day").counts())
            rows    2 rows; 1 in training, 1 held out
            users   1 user; 1 in training, 1 with labels
            labels  1 pair of user and item
        """
        return count_rows(self._log, self.training, self.held_out, self.labels)

    def check(self, on_invalid: str = "error") -> Split:
        """Count the parts in one action, and refuse a split that cannot be used.

        Args:
            on_invalid: ``error`` (default), or ``drop`` if the log may have rows without a user, an item, a time or a grade. These rows are
                in no part in either case, and `counts` counts them.

        Returns:
            the split.

        Raises:
            DataError: the log has rows that cannot be used, or the split leaves nobody in training, held out, or with labels.
            OptionError: `on_invalid` is something else.
        """
        self.checked_counts(on_invalid)
        return self

    def checked_counts(self, on_invalid: str = "error") -> SplitCounts:
        """The counts, in one action; refuses what `check` refuses.

        Examples:
            >>> from spark_rankeval.splits import last_n
            >>> log = spark.createDataFrame([("ann", "tea", 1), ("ann", "jam", 2)], "user string, item string, day int")
            >>> last_n(log, time="day").checked_counts().n_labels
            1

        Args:
            on_invalid: as in `check`.

        Raises:
            DataError, OptionError: as `check`.
        """
        one_of("on_invalid", on_invalid, ("error", "drop"))
        counts = self.counts()
        invalid = dict(counts.invalid)
        if counts.n_ungraded and not self._log.has_events:
            invalid["null or NaN grade"] = counts.n_ungraded
        if invalid and on_invalid == "error":
            kinds = listed([f"{n:,} with a {reason}" for reason, n in invalid.items()])
            msg = f"log: of {counts.n_rows:,} rows {kinds} cannot be used; fix the data, or leave them out with on_invalid='drop'"
            raise DataError(msg, {f"n_{reason.replace(' ', '_')}": n for reason, n in invalid.items()})
        if problem := self._problem(counts):
            raise DataError(
                problem, {"n_training": counts.n_training, "n_held_out": counts.n_held_out, "n_labels": counts.n_labels}
            )
        return counts

    def _problem(self, counts: SplitCounts) -> str:
        """What is wrong with a split that leaves no user; empty if it leaves one."""
        if counts.n_rows == counts.n_invalid:
            return f"log: none of {counts.n_rows:,} rows can be used; pass a table with events"
        runs = "" if counts.first_time is None else f". The log runs from {counts.first_time} to {counts.last_time}"
        if not counts.n_training:
            return f"the split leaves no row to train on: {self._rule.no_training}{runs}"
        if not counts.n_held_out:
            return f"the split holds no row out: {self._rule.no_held_out}{runs}"
        if not counts.n_labels:
            ungraded = f"; {counts.n_ungraded:,} of them have no grade" if counts.n_ungraded else ""
            return f"none of {counts.n_held_out:,} rows that are held out gives a label{ungraded}. Check grades= and leave_out="
        return ""


def _split_of(log: Log, training: DataFrame, held_out: DataFrame, rule: Rule) -> Split:
    """A split of these rows, with the labels that it makes."""
    return Split(training, held_out, _labels(log, training, held_out), _log=log, _rule=rule)


def _labels(log: Log, training: DataFrame, held_out: DataFrame) -> DataFrame:
    """One row for each pair of rows that give a label, without what is to be left out."""
    if log.grade is not None:
        held_out = sql.where(held_out, log.grade.is_not_null())
    values = [*log.pair_sql(), sql.named(log.time.name).alias(_FIRST)]
    totals = [sql.call("min", sql.named(_FIRST)).alias(_FIRST)]
    names = dict(zip([*log.pair_keys, _FIRST], [*log.source.user, log.source.item, log.time.name], strict=True))
    if log.grade is not None:
        values.append(log.grade.alias(_GRADE))
        totals.append(sql.call("max", sql.named(_GRADE)).alias(_GRADE))
        names[_GRADE] = RELEVANCE
    pairs = sql.aggregate(sql.select(held_out, *values), log.pair_keys, *totals)
    training_pairs = sql.select(training, *log.pair_sql())
    user_keys = list(log.source.user_names)
    if "seen" in log.leave_out:
        pairs = pairs.join(training_pairs.distinct(), log.pair_keys, "left_anti")
    if "cold_users" in log.leave_out:
        pairs = pairs.join(training_pairs.select(*user_keys).distinct(), user_keys, "left_semi")
    if "cold_items" in log.leave_out:
        pairs = pairs.join(training_pairs.select(ITEM).distinct(), [ITEM], "left_semi")
    columns = [F.col(ours).alias(name) for ours, name in names.items()]
    taken = [name.lower() for name in names.values()]
    if log.grade_column is not None and not log.has_events and log.grade_column.lower() not in taken:
        # The name that the caller gives to the next call as well.
        columns.append(F.col(_GRADE).alias(log.grade_column))
    return pairs.select(*columns)


@takes_local_tables
def by_time(
    log: Table,
    cut: str | date | float,
    *,
    horizon: str | timedelta | float | None = None,
    user: str | Sequence[str] = "user",
    item: str = "item",
    time: str = "timestamp",
    relevance: str | None = None,
    grades: Mapping[str, float] | Mapping[int, float] | None = None,
    leave_out: str | Sequence[str] = (),
) -> Split:
    """Train on what was before a moment, and label what came after it: training < cut ≤ held out < cut + horizon.

    One moment for all users keeps the future out of the training data.

    Examples:
        >>> from spark_rankeval.splits import by_time
        >>> events = [("ann", "tea", "click", 1), ("ann", "jam", "click", 8), ("ann", "jam", "purchase", 9), ("bob", "tea", "click", 20)]
        >>> log = spark.createDataFrame(events, "user string, item string, event string, day int")
        >>> split = by_time(log, 8, horizon=7, time="day", relevance="event", grades={"click": 1, "purchase": 3}).check()
        >>> split.labels.toPandas()
          user item  day  relevance
        0  ann  jam    8        3.0

    Args:
        log: a table of events, a row for each user, item and time.
        cut: the first moment that is not in training. A time or an ISO string such as ``"2026-11-01"``, if the column has times or days; a
            number, if it has numbers. In a column of instants, a cut without a zone is in UTC, whatever zone the session has.
        horizon: how long labels are collected after the cut. A `timedelta`, or a string of a whole number and a unit: ``s``, ``min``,
            ``h``, ``d`` or ``w``. A number in the column's own unit, if it has numbers. None: up to the end of the log.
        user: the column that identifies a user, or a list of columns that do so together.
        item: the column of items.
        time: the column of times: a timestamp, with or without a zone, a date or a number.
        relevance: the column of grades, or with `grades` that of events. A pair of user and item has the highest grade of its rows that are
            held out. None: labels have no grade.
        grades: the grade of each event, such as ``{"click": 1, "purchase": 3}``. Other events give no label.
        leave_out: which labels to leave out, one word or several. ``seen``: items that the user has in training; ``cold_users``: users
            without rows in training; ``cold_items``: items without rows in training.

    Raises:
        InputError: the table or a column cannot be used.
        OptionError: an option has a wrong value, or `cut` or `horizon` does not fit the column of times.
    """
    events = read_log(log, user=user, item=item, time=time, relevance=relevance, grades=grades, leave_out=leave_out)
    column = events.time
    start = column.cut(cut)
    end = None if horizon is None else column.end(start, horizon)
    times = sql.named(column.name)
    is_after = times >= column.as_sql(start)
    # NaN is above every number, so that it is in no part only because the row is not valid.
    is_held_out = is_after if end is None else is_after & (times < column.as_sql(end))
    valid = events.is_valid()
    no_time = f"no usable row is before the cut {start}; choose a later cut"
    until = "" if end is None else f" and before {end}, the end of the horizon"
    labelled = f"from {start} on" if end is None else f"from {start} to before {end}"
    method = f"by {column.name!r}: training before {start}, labels {labelled}"
    rule = Rule(method, no_time, f"no usable row is at or after the cut {start}{until}; choose an earlier cut")
    return _split_of(events, sql.where(log, valid & ~is_after), sql.where(log, valid & is_held_out), rule)


@takes_local_tables
def last_n(
    log: Table,
    n: int = 1,
    *,
    user: str | Sequence[str] = "user",
    item: str = "item",
    time: str = "timestamp",
    relevance: str | None = None,
    grades: Mapping[str, float] | Mapping[int, float] | None = None,
    leave_out: str | Sequence[str] = (),
) -> Split:
    """Hold out the last n rows of each user: for n = 1, leave one out.

    A user's rows are ordered by time, and those of one time by item. Rows of one item are ordered by the other plain columns from left to
    right.
    So the order of equal times never depends on chance. Items compare as numbers, or as UTF-8 bytes if they are strings. A user with n
    rows or fewer has none in training; ``leave_out="cold_users"`` gives no labels to such users. The training data of one user may be
    later than the labels of another, so the future leaks: `by_time` prevents that.

    Examples:
        >>> from spark_rankeval.splits import last_n
        >>> events = [("ann", "tea", 1), ("ann", "jam", 2), ("ann", "rye", 2), ("bob", "tea", 1)]
        >>> log = spark.createDataFrame(events, "user string, item string, day int")
        >>> last_n(log, time="day", leave_out="cold_users").labels.toPandas()
          user item  day
        0  ann  rye    2

    Args:
        log: a table of events, a row for each user, item and time.
        n: how many rows of each user to hold out, at least 1.
        user: as in `by_time`.
        item: as in `by_time`.
        time: as in `by_time`.
        relevance: as in `by_time`.
        grades: as in `by_time`.
        leave_out: as in `by_time`.

    Raises:
        InputError: the table or a column cannot be used.
        OptionError: an option has a wrong value.
    """
    if not (is_number(n, int) and n >= 1):
        msg = f"n must be a whole number, at least 1; got {n!r}"
        raise OptionError(msg)
    events = read_log(log, user=user, item=item, time=time, relevance=relevance, grades=grades, leave_out=leave_out)
    if sql.find_column(log, _PLACE) is not None:
        msg = f"log: the column {_PLACE!r} has the name of the places of rows on the way; rename it"
        raise InputError(msg)
    valid = sql.where(log, events.is_valid())
    numbered = sql.with_columns(
        valid, {_PLACE: sql.over(sql.call("row_number"), events.source.users_sql(), _last_first(events))}
    )
    training = sql.where(numbered, sql.named(_PLACE) > n).drop(_PLACE)
    rule = Rule(
        f"by each user's order of {time!r}: labels from the last {'row' if n == 1 else f'{n:,} rows'}, training from those before",
        f"no user has more than {n:,} usable rows; choose a smaller n",
        "no row can be used",
    )
    return _split_of(events, training, sql.where(numbered, sql.named(_PLACE) <= n).drop(_PLACE), rule)


def _last_first(log: Log) -> list[sql.Sql]:
    """What orders the rows of a user, so that only rows without any difference that Spark can order are equal."""
    first = [log.time.name, log.source.item]
    others = [
        field.name
        for field in log.source.frame.schema.fields
        if field.name not in (*first, *log.source.user) and isinstance(field.dataType, sql.PLAIN)
    ]
    return [sql.descending(sql.named(name)) for name in (*first, *others)]
