"""Decisions: the verdict of a comparison, and corrections for many tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from spark_rankeval.errors import OptionError
from spark_rankeval.statistics.intervals import Interval

BETTER = "better"
WORSE = "worse"
NO_RELEVANT_DIFFERENCE = "no relevant difference"
UNDECIDED = "undecided"


class Verdict(NamedTuple):
    """What may be said of a model beside its baseline, in a word and in a plain sentence with the figures behind it."""

    word: str
    sentence: str


def verdict_of(
    interval: Interval,
    p: float,
    *,
    margin: float = 0.0,
    difference: float,
    names: tuple[str, str] = ("the model", "the baseline"),
    metric: str = "the metric",
    higher_is_better: bool = True,
) -> Verdict:
    """The verdict on a difference, model − baseline, from its interval and p-value.

    Nothing is decided unless p, corrected for the other comparisons, is at most 1 − level. Then the interval decides. Beyond the
    margin on one side, the model is better or worse. Within ±margin, there is no relevant difference: two one-sided tests (TOST;
    Schuirmann 1987), each with α = (1 − level)/2, stricter than the 90 % interval of TOST at α = 5 %. Without a margin (0) any
    difference is relevant.
    """
    model, baseline = names
    if not interval:
        return Verdict(UNDECIDED, f"Nothing can be said of {model} and {baseline} on {metric}: {interval.reason}.")
    word = _word(interval, p, margin, higher_is_better)
    within = f"a margin of {margin:g}"
    says = {
        BETTER: f"{model} is better than {baseline} on {metric}" + (f" by more than {within}" if margin else ""),
        WORSE: f"{model} is worse than {baseline} on {metric}" + (f" by more than {within}" if margin else ""),
        NO_RELEVANT_DIFFERENCE: f"{model} and {baseline} differ by less than {within} on {metric}",
        UNDECIDED: f"whether {model} is better or worse than {baseline} on {metric} is undecided",
    }[word]
    figures = (
        f"difference {difference:+.4g}, {100 * interval.level:g} % interval {interval.low:+.4g} to {interval.high:+.4g}"
    )
    # A model's name is written as it is.
    begin = says[0].upper() if says.startswith(("the model", "whether")) else says[0]
    return Verdict(word, f"{begin}{says[1:]} ({figures}, {_p_text(p)}).")


def _word(interval: Interval, p: float, margin: float, higher_is_better: bool) -> str:
    # 1 − 0.95 is not 0.05 in floats.
    if not p <= 1 - interval.level + 1e-12:
        return UNDECIDED
    if margin and -margin <= interval.low and interval.high <= margin:
        return NO_RELEVANT_DIFFERENCE
    if interval.low > margin:
        return BETTER if higher_is_better else WORSE
    if interval.high < -margin:
        return WORSE if higher_is_better else BETTER
    return UNDECIDED


def _p_text(p: float) -> str:
    return "p unknown" if math.isnan(p) else "p < 0.0001" if p < 1e-4 else f"p = {p:.4f}"


Array = np.ndarray[Any, np.dtype[np.float64]]


_METHODS: dict[str, Callable[[Array, int], Array]] = {
    "holm": lambda ascending, n: np.maximum.accumulate(ascending * np.arange(n, 0, -1)),
    "benjamini_hochberg": lambda ascending, n: np.minimum.accumulate((ascending * n / np.arange(1, n + 1))[::-1])[::-1],
    "none": lambda ascending, _: ascending,
}


def adjusted(p_values: Sequence[float] | Array, method: str = "holm") -> Array:
    """The p-values of a family of tests, in the order given, each corrected for the others; to test at α, reject those below α.

    NaN means that a test could not be made; it stays NaN and does not count as a test. ``holm`` bounds the probability of any
    false rejection (Holm 1979). ``benjamini_hochberg`` bounds the expected share of false ones among the rejections, if tests are
    independent or positively dependent (Benjamini and Hochberg 1995). ``none`` leaves p-values as they are.
    """
    if not isinstance(method, str) or method not in _METHODS:
        raise OptionError(f"there is no correction {method!r}; available: {', '.join(_METHODS)}")
    values = np.asarray(p_values, np.float64)
    if np.any((values < 0) | (values > 1)):
        raise OptionError(f"p-values must be between 0 and 1; got {values[(values < 0) | (values > 1)][0]!r}")
    result = values.copy()
    members = np.flatnonzero(~np.isnan(values))
    order = members[np.argsort(values[members], kind="stable")]
    result[order] = np.minimum(_METHODS[method](values[order], len(order)), 1.0)
    return result
