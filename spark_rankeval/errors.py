"""The errors and warnings of this package, and lists in words for them.

Every message says what is wrong, where, how often, and what to do.
"""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence


def listed(texts: Sequence[str], most: int | None = None) -> str:
    """Join texts with commas and "and".

    Args:
        texts: what to list; if there is none, the list is empty.
        most: how many texts to name, at least 1. The list ends with the number of the others. None: all.

    >>> listed(["ap"]), listed(["ap", "rr"]), listed(["ap", "rr", "auc"]), listed(["ap", "rr", "auc"], most=1)
    ('ap', 'ap and rr', 'ap, rr and auc', 'ap and 2 more')
    """
    if most is not None and len(texts) > most:
        return f"{', '.join(texts[:most])} and {len(texts) - most:,} more"
    *first, last = texts or [""]
    return f"{', '.join(first)} and {last}" if first else last


# A name that is less alike than this was not meant.
_LIKE = 0.6
# Nor was a name that is this much less alike than the nearest one.
_AS_NEAR = 0.05


def did_you_mean(unknown: object, available: Iterable[str], spelled: Callable[[str], str] = str) -> str:
    """The question that a message asks about an unknown name, with a space at the end; empty if no available name is alike.

    Args:
        unknown: the unknown name.
        available: the available names.
        spelled: gives the spelling to suggest for an available name, such as that of an alias.

    >>> did_you_mean("precison", ["ap", "pearson", "precision"]), did_you_mean("rmse", ["novelty"])
    ("did you mean 'precision'? ", '')
    """
    name = str(unknown).lower()
    alike = {other: _likeness(name, other.lower()) for other in available}
    nearest = max(_LIKE, max(alike.values(), default=0.0) - _AS_NEAR)
    near = [spelled(other) for other in sorted(alike, key=lambda other: -alike[other]) if alike[other] >= nearest]
    near = list(dict.fromkeys(near))[:3]
    return f"did you mean {' or '.join(map(repr, near))}? " if near else ""


def _likeness(name: str, other: str) -> float:
    # The same letters in another order are a typing error, which the ratio counts as a big difference.
    slip = 0.9 * (sorted(name) == sorted(other))
    return max(slip, difflib.SequenceMatcher(None, name, other).ratio())


class SparkRankEvalError(Exception):
    """The base class of every error that this package raises on purpose.

    Examples:
        >>> try:
        ...     parse_metric("ndgc@10")
        ... except SparkRankEvalError as error:
        ...     print(type(error).__name__)
        MetricError
    """


class MetricError(SparkRankEvalError, ValueError):
    """The name or a parameter of a metric is unknown, or does not fit with another parameter.

    Examples:
        >>> parse_metric("ndgc@10")
        Traceback (most recent call last):
            ...
        spark_rankeval.errors.MetricError: no metric is called 'ndgc' (in 'ndgc@10'); did you mean 'ndcg'? docs/conventions.md ...
    """


class DialectError(SparkRankEvalError, ValueError):
    """A dialect is unknown, or cannot give the number that the caller wants.

    Examples:
        >>> evaluate(predictions, labels, "rr", score="score", dialect="mlib")
        Traceback (most recent call last):
            ...
        spark_rankeval.errors.DialectError: no dialect is called 'mlib'; did you mean 'mllib'? available: default, ...
    """


class OptionError(SparkRankEvalError, ValueError):
    """An option of a call has a value that is not allowed.

    Examples:
        >>> evaluate(predictions, labels, "rr", score="score", ties="random")
        Traceback (most recent call last):
            ...
        spark_rankeval.errors.OptionError: ties must be one of None, 'item_asc', 'item_desc', 'position', 'average'; got 'random'
    """


class InputError(SparkRankEvalError, ValueError):
    """An input cannot be used, such as a table that lacks a column or has one of the wrong type. Most are found before any job runs.

    Examples:
        >>> evaluate(predictions, labels, "rr", score="scores")
        Traceback (most recent call last):
            ...
        spark_rankeval.errors.InputError: predictions has no column 'scores' (score=); did you mean 'score'? it has: user ...
    """


class DataError(SparkRankEvalError, ValueError):
    """Rows cannot be ranked: nulls, NaN, duplicates, conflicting labels.

    Examples:
        >>> evaluate(predictions.union(predictions), labels, "rr", score="score")
        Traceback (most recent call last):
            ...
        spark_rankeval.errors.DataError: predictions that repeat an item of their user: 24 (for example ...

    Attributes:
        counts: the number of rows of each kind.
    """

    def __init__(self, message: str, counts: dict[str, int] | None = None) -> None:
        super().__init__(message)
        self.counts = dict(counts or {})


class UndefinedMeanError(DataError):
    """The mean that should choose a model has no value, because there are no rows or the metric is undefined for every user.

    Examples:
        >>> from spark_rankeval.ml import RankingEvaluator
        >>> held_out = spark.createDataFrame([(1, 7, 5.0, 0.9)], "user int, item int, rating float, prediction float")
        >>> RankingEvaluator(metricName="auc").evaluate(held_out)
        Traceback (most recent call last):
            ...
        spark_rankeval.errors.UndefinedMeanError: 'auc' (dialect 'default') has no mean: of 1 users 0 have a value, and 0 ...
    """


class FinishedRunError(SparkRankEvalError):
    """A run of a job has written everything; an error says what is wrong all the same.

    Attributes:
        result: what the job prints about the run.
    """

    def __init__(self, message: str, result: str = "") -> None:
        super().__init__(message)
        self.result = result


class GateError(FinishedRunError, ValueError):
    """The figures of a run fail its gates; the run has written everything all the same."""


class TrackingError(FinishedRunError, RuntimeError):
    """A tracking server did not accept a run; the run has written everything all the same."""


class UnknownMetricError(MetricError, KeyError):
    """A result has no such metric, or more than one.

    Examples:
        >>> result["ndcg@10"]
        Traceback (most recent call last):
            ...
        spark_rankeval.errors.UnknownMetricError: this result has no metric 'ndcg@10'; it has: rr, recall@1, recall@2, recall@3
    """

    # KeyError would quote and escape the message.
    __str__ = Exception.__str__


class MergeError(SparkRankEvalError, ValueError):
    """Summaries have different definitions, or lack what is needed to add them up.

    Examples:
        >>> merge([])
        Traceback (most recent call last):
            ...
        spark_rankeval.errors.MergeError: there is nothing to merge; pass at least one result
    """


class ConfigurationError(SparkRankEvalError, ValueError):
    """The configuration of a job is wrong.

    Examples:
        >>> read_gates({"ndcg@10": {"minimum": 0.3}})
        Traceback (most recent call last):
            ...
        spark_rankeval.errors.ConfigurationError: gate 'ndcg@10': unknown key 'minimum'; did you mean 'min'? allowed: ...
    """


class MissingExtraError(SparkRankEvalError, ImportError):
    """An optional package is missing. The message says how to install it.

    Examples:
        >>> try:
        ...     path = result.report(f"{folder}/report.html")
        ... except MissingExtraError as error:
        ...     print("no report:", error)
    """


class WorkerError(SparkRankEvalError, RuntimeError):
    """Spark's Python workers lack something; the message says what, and how to provide it."""


class EngineError(SparkRankEvalError, RuntimeError):
    """The engine cannot be used, or fails.

    No test has run on it, it lacks what a call needs, or it does not start. Or its memory is too small, or it has lost rows.
    """


class UnavailableError(EngineError):
    """A table cannot be read now, because its database or store does not answer. Another attempt may succeed."""


class SparkRankEvalWarning(UserWarning):
    """The numbers are right, but something in the data or the options deserves a look.

    Examples:
        >>> import warnings
        >>> strangers = labels.withColumn("user", labels.user + 100)
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("error", SparkRankEvalWarning)
        ...     evaluate(predictions, strangers, "rr", score="score")
        Traceback (most recent call last):
            ...
        spark_rankeval.errors.SparkRankEvalWarning: none of 8 users with labels has predictions; check that both tables use the ...
    """


def warn(message: str) -> None:
    """Warn the caller of the package, at the line of the call."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("spark_rankeval"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, SparkRankEvalWarning, stacklevel=level)
