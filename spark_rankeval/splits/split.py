"""What a split gives: the training rows, the rows that are held out, and the labels that these make."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from spark_rankeval.checks import one_of
from spark_rankeval.errors import DataError, OptionError, did_you_mean
from spark_rankeval.spark.sql_text import aggregate, call, named, select, where
from spark_rankeval.splits.counts import SplitCounts, count_rows
from spark_rankeval.splits.log import ITEM, RELEVANCE, Log
from spark_rankeval.wording import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

_FIRST, _GRADE = "first_time", "highest_grade"
# What labels can leave out.
_SEEN, _COLD_USERS, _COLD_ITEMS = _LEAVE_OUT = ("seen", "cold_users", "cold_items")


class Rule(NamedTuple):
    """How a split parts a log, in words for messages about a part without rows."""

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
        if problem := self._nobody(counts):
            raise DataError(
                problem, {"n_training": counts.n_training, "n_held_out": counts.n_held_out, "n_labels": counts.n_labels}
            )
        return counts

    def _nobody(self, counts: SplitCounts) -> str:
        """What is wrong with a split that leaves nobody; empty if it leaves somebody."""
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


def read_leave_out(given: str | Sequence[str]) -> tuple[str, ...]:
    """What labels are to leave out.

    Raises:
        OptionError: a word is unknown.
    """
    words = (given,) if isinstance(given, str) else given
    if isinstance(words, list | tuple):
        unknown = [word for word in words if word not in _LEAVE_OUT]
        if not unknown:
            return tuple(words)
        near = did_you_mean(unknown[0], _LEAVE_OUT)
        msg = f"leave_out: {unknown[0]!r} is not among the things that labels can leave out; {near}available: {', '.join(_LEAVE_OUT)}"
        raise OptionError(msg)
    msg = f"leave_out must be a word or a list of words (available: {', '.join(_LEAVE_OUT)}); got {given!r}"
    raise OptionError(msg)


def split_of(log: Log, training: DataFrame, held_out: DataFrame, leave_out: tuple[str, ...], rule: Rule) -> Split:
    """A split of these rows, with the labels that it makes."""
    return Split(training, held_out, _labels(log, training, held_out, leave_out), _log=log, _rule=rule)


def _labels(log: Log, training: DataFrame, held_out: DataFrame, leave_out: tuple[str, ...]) -> DataFrame:
    """One row for each pair of rows that give a label, without what is to be left out."""
    if log.grade is not None:
        held_out = where(held_out, log.grade.is_not_null())
    values, totals = log.pair_sql(), []
    names = dict(zip(log.pair_keys, [*log.source.user, log.source.item], strict=True))
    if log.time is not None:
        values.append(named(log.time.name).alias(_FIRST))
        totals.append(call("min", named(_FIRST)).alias(_FIRST))
        names[_FIRST] = log.time.name
    if log.grade is not None:
        values.append(log.grade.alias(_GRADE))
        totals.append(call("max", named(_GRADE)).alias(_GRADE))
        names[_GRADE] = RELEVANCE
    rows = select(held_out, *values)
    pairs = aggregate(rows, log.pair_keys, *totals) if totals else rows.distinct()
    known = select(training, *log.pair_sql())
    if _SEEN in leave_out:
        pairs = pairs.join(known.distinct(), log.pair_keys, "left_anti")
    if _COLD_USERS in leave_out:
        pairs = pairs.join(known.select(*log.user_keys).distinct(), log.user_keys, "left_semi")
    if _COLD_ITEMS in leave_out:
        pairs = pairs.join(known.select(ITEM).distinct(), [ITEM], "left_semi")
    columns = [F.col(ours).alias(name) for ours, name in names.items()]
    taken = [name.lower() for name in names.values()]
    if log.graded_by is not None and not log.has_events and log.graded_by.lower() not in taken:
        # The name that the caller gives to the next call as well.
        columns.append(F.col(_GRADE).alias(log.graded_by))
    return pairs.select(*columns)
