"""The normal, Student t, noncentral t and studentized range distributions, for the driver: numpy and `math` alone.

A variable over S = √(χ²_ν / ν), an independent estimate of its scale, is an average of normal probabilities over S. In u = ln S
the weight of S is proportional to exp(ν(u − e^{2u}/2)), analytic and falling off on both sides, where sums over equidistant
nodes converge geometrically. All terms are positive: the relative accuracy (about 1e-13) holds far out in the tails, for
every ν ≥ 1, and needs neither gamma nor beta functions.

Exponentials and logarithms are Python's, and sums are `math.fsum` or one term after the other: numpy's own round differently
from version to version and from processor to processor, and an interval is to be the same everywhere.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_rankeval.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable

Array = np.ndarray[Any, np.dtype[np.float64]]

_STANDARD = NormalDist()
# Weights below exp(-745) are 0 in floats.
_UNDERFLOW = 745.0
_STEP = 0.0625


def _elementwise(function: Callable[[float], float]) -> Callable[[Array], Array]:
    applied = np.frompyfunc(function, 1, 1)

    def over(x: Array) -> Array:
        values: Array = np.asarray(applied(x), np.float64)
        return values

    return over


_erfc = _elementwise(math.erfc)
_exp = _elementwise(math.exp)
_expm1 = _elementwise(math.expm1)
_log1p = _elementwise(math.log1p)


def normal_sf(x: float) -> float:
    """P(Z > x) of the standard normal Z."""
    return 0.5 * math.erfc(x / math.sqrt(2))


def normal_cdf(x: float) -> float:
    """P(Z ≤ x) of the standard normal Z."""
    return normal_sf(-x)


def normal_quantile(p: float) -> float:
    """The x with P(Z ≤ x) = p; −∞ and ∞ for 0 and 1."""
    if p in (0.0, 1.0):
        return math.inf if p else -math.inf
    return _STANDARD.inv_cdf(_probability(p))


def t_sf(t: float, df: float) -> float:
    """P(T > t) of Student's t with `df` degrees of freedom; NaN for a t of NaN."""
    if t < 0:
        return 1.0 - t_sf(-t, df)
    return 0.5 if t == 0 else noncentral_t_sf(t, df, 0.0)


def t_cdf(t: float, df: float) -> float:
    """P(T ≤ t) of Student's t."""
    return t_sf(-t, df)


def t_quantile(p: float, df: float) -> float:
    """The t with P(T ≤ t) = p."""
    if _probability(p) < 0.5:
        return -_t_isf(p, df)
    return _t_isf(1.0 - p, df)


@lru_cache(maxsize=4096)
def t_critical(level: float, df: float) -> float:
    """The t with P(|T| ≤ t) = level: what a two-sided interval of this level reaches to."""
    return _t_isf((1.0 - _probability(level)) / 2, df)


@lru_cache(maxsize=4096)
def noncentral_t_sf(t: float, df: float, noncentrality: float) -> float:
    """P(T > t) of T = (Z + noncentrality) / S: what the t statistic is when there is a difference."""
    if math.isinf(t):
        return 0.0 if t > 0 else 1.0
    scales, weights = _scale(df)
    with np.errstate(over="ignore"):
        return math.fsum(_normal_sf(t * scales - noncentrality) * weights)


def studentized_range_sf(q: float, groups: int, df: float) -> float:
    """P(Q > q) of Tukey's studentized range of `groups` means.

    Source: Tukey 1953; Lund and Lund, AS 190 (1983). P(range > r) of k normals is taken over the smallest of them, z:
    k ∫ φ(z) {Q(z)^{k−1} − [Q(z) − Q(z + r)]^{k−1}} dz, Q = 1 − Φ.

    Args:
        q: the range of the means over the standard error of one.
        groups: how many means, 2 or more.
        df: degrees of freedom of the standard error.
    """
    if groups < 2:
        raise OptionError(f"a range is of 2 or more groups, got {groups!r}")
    if q <= 0:
        return 1.0
    if math.isinf(q):
        return 0.0
    scales, weights = _scale(df)
    return min(
        1.0, math.fsum(math.fsum(_range_sf(q * part, groups) * share) for part, share in _pieces(scales, weights))
    )


@lru_cache(maxsize=4096)
def studentized_range_critical(level: float, groups: int, df: float) -> float:
    """The q with P(Q ≤ q) = level."""
    alpha = 1.0 - _probability(level)
    return _where_falls_to(lambda q: studentized_range_sf(q, groups, df), alpha)


def _t_isf(p: float, df: float) -> float:
    if p == 0.5:
        return 0.0
    return _where_falls_to(lambda t: t_sf(t, df), p)


def _probability(p: float) -> float:
    if not 0 < p < 1:
        raise OptionError(f"a probability or level is between 0 and 1, got {p!r}")
    return p


def _where_falls_to(tail: Callable[[float], float], p: float) -> float:
    """The positive x at which a falling function comes to p: secant steps in ln tail over ln x, kept inside a bracket."""

    def error_at(at: float) -> float:
        value = tail(math.exp(at))
        return math.log(value / p) if value > 0 else -math.inf

    low, high, step = -1.0, 1.0, 1.0
    while error_at(low) < 0:
        low, step = low - step, step * 2
    step = 1.0
    while error_at(high) > 0:
        low, high, step = high, min(high + step, 709.0), step * 2
    at, previous = (low + high) / 2, (math.nan, math.nan)
    for _ in range(100):
        error = error_at(at)
        low, high = (at, high) if error > 0 else (low, at)
        slope = (error - previous[1]) / (at - previous[0])
        previous = (at, error)
        following = at - error / slope if slope else math.nan
        if not low <= following <= high:
            following = (low + high) / 2
        if error == 0 or abs(following - at) <= 1e-15:
            break
        at = following
    return math.exp(at)


def _normal_sf(x: Array) -> Array:
    return _erfc(x / math.sqrt(2)) / 2


@lru_cache(maxsize=64)
def _scale(df: float) -> tuple[Array, Array]:
    """Nodes s of S = √(χ²_ν / ν), ascending, and their weights, which add up to 1."""
    if not df >= 1:
        raise OptionError(f"degrees of freedom are 1 or more, got {df!r}")
    if math.isinf(df):
        return np.ones(1), np.ones(1)
    # ln S spreads by 1 / √(2ν) about 0.
    step = min(_STEP, 0.5 / math.sqrt(2 * df))
    left = _UNDERFLOW / df + math.sqrt(_UNDERFLOW / df)
    right = min(math.sqrt(_UNDERFLOW / df), 0.5 * math.log1p(2 * _UNDERFLOW / df) + 0.5)
    u: Array = np.arange(-math.ceil(left / step), math.ceil(right / step) + 1, dtype=np.float64) * step
    weights = _exp(-df * _excess(u))
    used = weights > 0
    return _exp(u[used]), weights[used] / math.fsum(weights)


def _excess(u: Array) -> Array:
    """(e^{2u} − 1)/2 − u, by its series near 0, where the terms cancel."""
    x = 2 * u
    near = np.clip(x, -0.5, 0.5)
    series = np.zeros_like(x)
    for power in range(18, 1, -1):
        series = (series + 1.0 / math.factorial(power)) * near if power > 2 else (series + 0.5) * near * near
    result: Array = np.where(np.abs(x) < 0.5, series, _expm1(x) - x) / 2
    return result


_SMALLEST_STEP = 0.125
_SMALLEST = np.arange(-38.0, 12.0, _SMALLEST_STEP)
_DENSITY = _exp(-_SMALLEST * _SMALLEST / 2) * _SMALLEST_STEP / math.sqrt(2 * math.pi)
_PIECE = 512


def _pieces(scales: Array, weights: Array) -> list[tuple[Array, Array]]:
    return [(scales[i : i + _PIECE], weights[i : i + _PIECE]) for i in range(0, len(scales), _PIECE)]


def _range_sf(r: Array, groups: int) -> Array:
    """P(range > r) of `groups` standard normals, for each r."""
    above = _normal_sf(_SMALLEST)
    share = np.minimum(_normal_sf(_SMALLEST + r[:, None]) / above, 1.0)
    # Most shares are 0 or 1, and stay so.
    beyond, between = share, (share > 0) & (share < 1)
    beyond[between] = -_expm1((groups - 1) * _log1p(-share[between]))
    terms = beyond * (groups * _DENSITY * _power(above, groups - 1))
    # Added one after the other, in the order of z.
    sums: Array = terms.cumsum(axis=1)[:, -1]
    return sums


def _power(x: Array, exponent: int) -> Array:
    result = np.ones_like(x)
    for _ in range(exponent):
        result = result * x
    return result
