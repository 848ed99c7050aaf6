"""How many rows, users and labels a split has, counted in one action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_rankeval.spark.sql_text import any_of, call, named, number, select, when

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_rankeval.spark.sql_text import Sql
    from spark_rankeval.splits.log import Log

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
        first_time: the first time of a row that can be used; None if there is none, or if the split has no times.
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
    row = _of_log(log).crossJoin(_of_users(log, training, held_out, labels)).collect()[0].asDict()
    n_parts = row["n_training"] + row["n_held_out"] + row["n_invalid"]
    first, last = (None if log.time is None else log.time.in_words(row[name]) for name in _TIMES)
    reasons = {reason: row[f"invalid_{place}"] for place, reason in enumerate(log.reasons())}
    return SplitCounts(
        **{name: row[name] for name in (*_PARTS, "n_rows", "n_invalid", *_USERS)},
        n_after=row["n_rows"] - n_parts,
        invalid={reason: n for reason, n in reasons.items() if n},
        first_time=first,
        last_time=last,
    )


def _of_log(log: Log) -> DataFrame:
    """One row: how many rows there are, how many cannot be used and why, and the first and last time."""
    reasons = log.reasons()
    totals = [
        call("count", number(1)).alias("n_rows"),
        _count_if(any_of(reasons.values())).alias("n_invalid"),
        *(_count_if(reason).alias(f"invalid_{place}") for place, reason in enumerate(reasons.values())),
    ]
    if log.time is not None:
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


def _of_users(log: Log, training: DataFrame, held_out: DataFrame, labels: DataFrame) -> DataFrame:
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
