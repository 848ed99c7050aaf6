"""What a split gives: the training rows, the rows that are held out, the labels that these make, and how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from spark_rankeval.checks import one_of
from spark_rankeval.errors import DataError, OptionError, did_you_mean, listed
from spark_rankeval.spark.sql_text import Sql, aggregate, any_of, call, named, number, select, when, where
from spark_rankeval.splits.log import ITEM, RELEVANCE, Log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_TIMES = ("first_time", "last_time")
_PARTS = ("n_training", "n_held_out", "n_ungraded", "n_labels")


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
    row = _log_counts(log).crossJoin(_user_counts(log, training, held_out, labels)).collect()[0].asDict()
    n_parts = row["n_training"] + row["n_held_out"] + row["n_invalid"]
    first, last = (log.time.as_words(row[name]) for name in _TIMES)
    reasons = {reason: row[f"invalid_{place}"] for place, reason in enumerate(log.reasons())}
    return SplitCounts(
        **{name: row[name] for name in (*_PARTS, "n_rows", "n_invalid", *_USERS)},
        n_after=row["n_rows"] - n_parts,
        invalid={reason: n for reason, n in reasons.items() if n},
        first_time=first,
        last_time=last,
    )


def _log_counts(log: Log) -> DataFrame:
    """One row: how many rows there are, how many cannot be used and why, and the first and last time."""
    reasons = log.reasons()
    totals = [
        call("count", number(1)).alias("n_rows"),
        _count_if(any_of(reasons.values())).alias("n_invalid"),
        *(_count_if(reason).alias(f"invalid_{place}") for place, reason in enumerate(reasons.values())),
    ]
    times = when(log.is_valid(), named(log.time.name))
    totals += [
        log.time.as_text(call(function, times)).alias(name)
        for function, name in zip(("min", "max"), _TIMES, strict=True)
    ]
    return log.frame.agg(*(total.column for total in totals))


# How many users meet each condition.
_USERS = {
    "n_users": (named("n_training") + named("n_held_out")) > 0,
    "n_training_users": named("n_training") > 0,
    "n_labelled_users": named("n_labels") > 0,
    "n_cold_users": (named("n_labels") > 0) & (named("n_training") == 0),
}


def _user_counts(log: Log, training: DataFrame, held_out: DataFrame, labels: DataFrame) -> DataFrame:
    """One row: how many rows each part has, and how many users."""
    ungraded = number(0) if log.grade is None else when(log.grade.is_null(), 1, 0)
    parts = [
        select(rows, *log.user_sql(), *(marks.get(part, number(0)).alias(part) for part in _PARTS))
        for rows, marks in (
            (training, {"n_training": number(1)}),
            (held_out, {"n_held_out": number(1), "n_ungraded": ungraded}),
            (labels, {"n_labels": number(1)}),
        )
    ]
    rows = parts[0].union(parts[1]).union(parts[2])
    users = rows.groupBy(*log.user_keys).agg(*(call("sum", named(part)).alias(part).column for part in _PARTS))
    totals = {part: call("coalesce", call("sum", named(part)), 0) for part in _PARTS}
    totals |= {name: _count_if(condition) for name, condition in _USERS.items()}
    return users.agg(*(total.alias(name).column for name, total in totals.items()))


def _count_if(condition: Sql) -> Sql:
    return call("count", when(condition, 1))


_FIRST, _GRADE = "first_time", "highest_grade"
# What labels can leave out.
_SEEN, _COLD_USERS, _COLD_ITEMS = _LEAVE_OUT = ("seen", "cold_users", "cold_items")


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


def read_leave_out(leave_out: str | Sequence[str]) -> tuple[str, ...]:
    """What labels are to leave out.

    Raises:
        OptionError: a word is unknown.
    """
    words = (leave_out,) if isinstance(leave_out, str) else leave_out
    if isinstance(words, list | tuple):
        unknown = [word for word in words if word not in _LEAVE_OUT]
        if not unknown:
            return tuple(words)
        near = did_you_mean(unknown[0], _LEAVE_OUT)
        msg = f"leave_out: {unknown[0]!r} is not among the things that labels can leave out; {near}available: {', '.join(_LEAVE_OUT)}"
        raise OptionError(msg)
    msg = f"leave_out must be a word or a list of words (available: {', '.join(_LEAVE_OUT)}); got {leave_out!r}"
    raise OptionError(msg)


def split_of(log: Log, training: DataFrame, held_out: DataFrame, leave_out: tuple[str, ...], rule: Rule) -> Split:
    """A split of these rows, with the labels that it makes."""
    return Split(training, held_out, _labels(log, training, held_out, leave_out), _log=log, _rule=rule)


def _labels(log: Log, training: DataFrame, held_out: DataFrame, leave_out: tuple[str, ...]) -> DataFrame:
    """One row for each pair of rows that give a label, without what is to be left out."""
    if log.grade is not None:
        held_out = where(held_out, log.grade.is_not_null())
    values, totals = [*log.pair_sql(), named(log.time.name).alias(_FIRST)], [call("min", named(_FIRST)).alias(_FIRST)]
    names = dict(zip([*log.pair_keys, _FIRST], [*log.source.user, log.source.item, log.time.name], strict=True))
    if log.grade is not None:
        values.append(log.grade.alias(_GRADE))
        totals.append(call("max", named(_GRADE)).alias(_GRADE))
        names[_GRADE] = RELEVANCE
    pairs = aggregate(select(held_out, *values), log.pair_keys, *totals)
    training_pairs = select(training, *log.pair_sql())
    if _SEEN in leave_out:
        pairs = pairs.join(training_pairs.distinct(), log.pair_keys, "left_anti")
    if _COLD_USERS in leave_out:
        pairs = pairs.join(training_pairs.select(*log.user_keys).distinct(), log.user_keys, "left_semi")
    if _COLD_ITEMS in leave_out:
        pairs = pairs.join(training_pairs.select(ITEM).distinct(), [ITEM], "left_semi")
    columns = [F.col(ours).alias(name) for ours, name in names.items()]
    taken = [name.lower() for name in names.values()]
    if log.grade_column is not None and not log.has_events and log.grade_column.lower() not in taken:
        # The name that the caller gives to the next call as well.
        columns.append(F.col(_GRADE).alias(log.grade_column))
    return pairs.select(*columns)
