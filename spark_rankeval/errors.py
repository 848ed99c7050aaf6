"""What can go wrong, as one small tree of errors.

Every message says what was found, where, how many, and what to do.
"""

from __future__ import annotations

import difflib
import sys
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# The least likeness of a name that may have been meant.
_LIKE = 0.6
# Names that are this much less alike than the nearest one were not meant.
_AS_NEAR = 0.05


def did_you_mean(asked: object, known: Iterable[str], spelled: Callable[[str], str] = str) -> str:
    """The question that a message asks about an unknown name, with a blank behind it, or an empty text.

    Args:
        asked: the name.
        known: the names that there are.
        spelled: gives the name to use for a known one, such as that of an alias.

    >>> did_you_mean("precison", ["ap", "pearson", "precision"]), did_you_mean("rmse", ["novelty"])
    ("did you mean 'precision'? ", '')
    """
    name = str(asked).lower()
    alike = {other: _likeness(name, other.lower()) for other in known}
    nearest = max(_LIKE, max(alike.values(), default=0.0) - _AS_NEAR)
    near = [spelled(other) for other in sorted(alike, key=lambda other: -alike[other]) if alike[other] >= nearest]
    near = list(dict.fromkeys(near))[:3]
    return f"did you mean {' or '.join(map(repr, near))}? " if near else ""


def _likeness(name: str, other: str) -> float:
    # The same letters in another order are a slip of the fingers, which the ratio counts as a big difference.
    slip = 0.9 * (sorted(name) == sorted(other))
    return max(slip, difflib.SequenceMatcher(None, name, other).ratio())


class SparkRankEvalError(Exception):
    """The root of every error that this package raises on purpose."""


class MetricError(SparkRankEvalError, ValueError):
    """A metric's name or parameter is not known, or does not fit with another one."""


class DialectError(SparkRankEvalError, ValueError):
    """A dialect is not known, or cannot give the number that was asked of it."""


class OptionError(SparkRankEvalError, ValueError):
    """An option of a call has a value that is not allowed."""


class InputError(SparkRankEvalError, ValueError):
    """A table lacks a column, or has one whose type cannot be used; found before any job runs."""


class DataError(SparkRankEvalError, ValueError):
    """Rows that cannot be ranked: nulls, NaN, duplicates, conflicting labels.

    Attributes:
        counts: the number of rows of each kind.
    """

    def __init__(self, message: str, counts: dict[str, int] | None = None) -> None:
        super().__init__(message)
        self.counts = dict(counts or {})


class UndefinedMeanError(DataError):
    """A mean that a model is to be chosen by has no value: there are no rows, or the metric is defined for no user."""


class GateError(SparkRankEvalError, ValueError):
    """Figures of a run do not meet its gates; everything of the run is written all the same.

    Attributes:
        result: what the job prints of the run.
    """

    def __init__(self, message: str, result: str = "") -> None:
        super().__init__(message)
        self.result = result


class TrackingError(SparkRankEvalError, RuntimeError):
    """A tracking server did not take a run; everything of the run is written all the same."""


class SupersededError(SparkRankEvalError, RuntimeError):
    """A later attempt at the same run of a job has taken its name; the earlier one stopped and left everything to it."""


class UnknownMetricError(MetricError, KeyError):
    """A result has no such metric, or more than one."""

    # KeyError would show its message quoted and escaped.
    __str__ = Exception.__str__


class MergeError(SparkRankEvalError, ValueError):
    """Summaries are of different definitions, or lack what adding them up needs."""


class ConfigurationError(SparkRankEvalError, ValueError):
    """A job's configuration is wrong."""


class MissingExtraError(SparkRankEvalError, ImportError):
    """A package is missing that only some uses need; the message says how to install it."""


class WorkerError(SparkRankEvalError, RuntimeError):
    """Spark's Python workers lack what they need; the message says what, and how they get it."""


class SparkRankEvalWarning(UserWarning):
    """Something in the data or the options deserves a look, though the numbers stand."""


def warn(message: str) -> None:
    """Warn the caller of the package, at the line of the call."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("spark_rankeval"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, SparkRankEvalWarning, stacklevel=level)
