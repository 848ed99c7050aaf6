"""Comparisons that are judged together: their p-values corrected, and the levels at which their intervals hold together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from spark_rankeval.errors import OptionError

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


class Joint(NamedTuple):
    """How one comparison of a family is judged.

    Attributes:
        p: the p-value, corrected for the others.
        level: of the interval that holds together with theirs.
        n: how many comparisons these are, this one included; 1: it stands alone.
    """

    p: float
    level: float
    n: int = 1


def family_of(p_values: Sequence[float], correction: str, level: float) -> list[Joint]:
    """Correct the p-values of a family, and find the levels of intervals that hold together, in the order given.

    ``holm``: each of m intervals has the level 1 − (1 − level) / m, as Bonferroni's. Holm's own regions have no end on one side for the
    comparisons that he decides (Strassburger and Bretz, Statistics in Medicine 2008). ``benjamini_hochberg``: if r comparisons are decided,
    each interval has the level 1 − (1 − level) max(r, 1) / m. That bounds the expected share of intervals of decided comparisons that miss
    the truth (Benjamini and Yekutieli, JASA 2005). ``none``: each interval has the level itself.

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
    # 1 − 0.95 is not 0.05 in floats.
    n_decided = int(np.count_nonzero(corrected <= 1 - level + 1e-12)) if correction == "benjamini_hochberg" else 1
    joint_level = 1 - (1 - level) * max(n_decided, 1) / n
    return [Joint(p, joint_level, n) for p in corrected.tolist()]


def headline_first(
    p_values: Sequence[float], level: float, is_headline: Sequence[bool], models: Sequence[str]
) -> list[Joint]:
    """Test the headline metric of each model alone, and the model's other metrics only if that is decided.

    This is a fixed sequence (Maurer, Hothorn and Lehmacher 1995). Its second step is Holm's correction of the other metrics. With J
    models each has a sequence of its own, whose p-values are multiplied by J. So the probability of any false difference is at most
    1 − level. The intervals of the other metrics hold together, and those of the headline do so among models.

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
        step = _scaled(family_of(values[own & first].tolist(), "holm", level), n_models)
        # Without a headline nothing of the model is decided.
        gate = next((joint.p for joint in step if not math.isnan(joint.p)), 1.0)
        others = _scaled(family_of(values[own & ~first].tolist(), "holm", level), n_models)
        for place, joint in zip(np.flatnonzero(own & first), step, strict=True):
            judged[place] = joint
        for place, joint in zip(np.flatnonzero(own & ~first), others, strict=True):
            # max() of NaN depends on the order.
            judged[place] = joint if math.isnan(joint.p) else joint._replace(p=max(joint.p, gate))
    return judged


def _scaled(family: Sequence[Joint], n_families: int) -> list[Joint]:
    """The same family as one of several that share the error."""
    return [
        Joint(float(np.minimum(1.0, joint.p * n_families)), 1 - (1 - joint.level) / n_families, joint.n * n_families)
        for joint in family
    ]
