"""Comparisons that are judged together: their p-values corrected, and the levels at which their intervals hold together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from spark_rankeval.errors import OptionError
from spark_rankeval.statistics.verdicts import is_enough

Floats = np.ndarray[Any, np.dtype[np.float64]]


_METHODS: dict[str, Callable[[Floats, int], Floats]] = {
    "holm": lambda ascending, n: np.maximum.accumulate(ascending * np.arange(n, 0, -1)),
    "benjamini_hochberg": lambda ascending, n: np.minimum.accumulate((ascending * n / np.arange(1, n + 1))[::-1])[::-1],
    "none": lambda ascending, _: ascending,
}


def adjusted(p_values: Sequence[float] | Floats, method: str = "holm") -> Floats:
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


class Joint(NamedTuple):
    """How one comparison of a family is judged.

    Attributes:
        p: the p-value, corrected for the others.
        level: of the interval that leaves out 0, or what a margin holds, exactly if the corrected p decides.
        n: how many comparisons these are, this one included; 1: it stands alone.
    """

    p: float
    level: float
    n: int = 1


def family_of(p_values: Sequence[float], correction: str, level: float) -> list[Joint]:
    """Correct the p-values of a family, and find the level of the intervals that decide what these decide, in the order given.

    If r of m comparisons are decided, or r is 1 because none is, each interval has the level 1 − (1 − level) · share. For ``holm`` the
    share is 1 / (m − r + 1), that of his last step. For ``benjamini_hochberg`` it is r / m (Benjamini and Yekutieli, JASA 2005), and for
    ``none`` 1. The first two shares are at most r / m. So of the intervals of decided comparisons an expected share of at most 1 − level
    misses the truth. Each interval holds at least as often as the level says, and all together do so if none is decided.

    Args:
        p_values: of each comparison; NaN if it could not be made, which does not count.
        correction: as in `adjusted`.
        level: of an interval that stands alone.
    """
    values = np.asarray(p_values, np.float64)
    corrected = adjusted(values, correction)
    n = int(np.count_nonzero(~np.isnan(values)))
    if correction == "none" or n < 2:
        return [Joint(p, level) for p in corrected.tolist()]
    n_decided = max(1, sum(is_enough(p, level) for p in corrected.tolist()))
    share = 1 / (n - n_decided + 1) if correction == "holm" else n_decided / n
    return [Joint(p, 1 - (1 - level) * share, n) for p in corrected.tolist()]


def headline_first(
    p_values: Sequence[float], level: float, is_headline: Sequence[bool], models: Sequence[str]
) -> list[Joint]:
    """Test the headline metric of each model alone, and the model's other metrics only if that is decided.

    This is a fixed sequence (Maurer, Hothorn and Lehmacher 1995). Its second step is Holm's correction of the other metrics. With J
    models each has a sequence of its own, whose p-values are multiplied by J. So the probability of any false difference is at most
    1 − level. Intervals are those of each step alone.

    Args:
        p_values: of each comparison; NaN if it could not be made.
        level: of an interval that stands alone.
        is_headline: which comparisons are of the headline metric.
        models: whose comparison it is.
    """
    values, first = np.asarray(p_values, np.float64), np.asarray(is_headline, bool)
    names = np.asarray(models, object)
    n_models = max(1, int(np.count_nonzero(~np.isnan(values[first]))))
    judged = [Joint(math.nan, level)] * len(values)
    for model in dict.fromkeys(models):
        own = names == model
        step = _family_of_several(values[own & first], level, n_models)
        # Without a headline nothing of the model is decided.
        gate = next((joint.p for joint in step if not math.isnan(joint.p)), 1.0)
        others = _family_of_several(values[own & ~first], level, n_models)
        for place, joint in zip(np.flatnonzero(own & first), step, strict=True):
            judged[place] = joint
        for place, joint in zip(np.flatnonzero(own & ~first), others, strict=True):
            # max() of NaN depends on the order.
            judged[place] = joint if math.isnan(joint.p) else joint._replace(p=max(joint.p, gate))
    return judged


def _family_of_several(values: Floats, level: float, n_families: int) -> list[Joint]:
    """One of several families that share the error."""
    family = family_of(values.tolist(), "holm", 1 - (1 - level) / n_families)
    return [Joint(float(np.minimum(1.0, p * n_families)), own_level, n * n_families) for p, own_level, n in family]
