"""The normal, Student t, noncentral t, studentized range and binomial distributions, to about 1e-13 far into the tails; for the driver.

Exponentials and logarithms are Python's; sums use `math.fsum` or add one term after the other. Those of numpy differ between
versions and processors, and an interval must be the same everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np

from spark_rankeval.errors import OptionError

Array = np.ndarray[Any, np.dtype[np.float64]]

_STANDARD = NormalDist()
# Weights below exp(-745) are 0 in floats.
_UNDERFLOW = 745.0
_STEP = 0.0625


def _elementwise(function: Callable[[float], float]) -> Callable[[Array], Array]:
    def over(x: Array) -> Array:
        return np.fromiter(map(function, x.ravel().tolist()), np.float64, x.size).reshape(x.shape)

    return over


_erfc = _elementwise(math.erfc)
_exp = _elementwise(math.exp)
_expm1 = _elementwise(math.expm1)
_log1p = _elementwise(math.log1p)


def normal_cdf(x: float) -> float:
    """P(Z ≤ x) of the standard normal Z."""
    return 0.5 * math.erfc(-x / math.sqrt(2))


def normal_quantile(p: float) -> float:
    """The x with P(Z ≤ x) = p; −∞ and ∞ for 0 and 1."""
    if p in (0.0, 1.0):
        return math.inf if p else -math.inf
    return _STANDARD.inv_cdf(_probability(p))


def t_sf(t: float, df: float) -> float:
    """P(T > t) of Student's t with `df` degrees of freedom; NaN if t is NaN."""
    if t < 0:
        return 1.0 - t_sf(-t, df)
    return 0.5 if t == 0 else noncentral_t_sf(t, df, 0.0)


@lru_cache(maxsize=4096)
def t_critical(level: float, df: float) -> float:
    """The t with P(|T| ≤ t) = level: how far a two-sided interval of this level reaches."""
    tail = (1.0 - _probability(level)) / 2
    return _where_falls_to(lambda t: t_sf(t, df), tail)


@lru_cache(maxsize=4096)
def noncentral_t_sf(t: float, df: float, noncentrality: float) -> float:
    """P(T > t) of T = (Z + noncentrality) / S, the t statistic if there is a difference."""
    if math.isinf(t):
        return 0.0 if t > 0 else 1.0
    scales, weights = _scale(df)
    with np.errstate(over="ignore"):
        return math.fsum(_normal_sf(t * scales - noncentrality) * weights)


def studentized_range_sf(q: float, groups: int, df: float) -> float:
    """P(Q > q) of Tukey's studentized range of `groups` means, 2 or more, whose standard error has `df` degrees of freedom.

    Source: Tukey 1953; Lund and Lund, AS 190 (1983). For k normals, P(range > r) integrates over the smallest of them, z.
    It is k ∫ φ(z) {Q(z)^{k−1} − [Q(z) − Q(z + r)]^{k−1}} dz with Q = 1 − Φ.
    """
    if groups < 2:
        raise OptionError(f"groups must be a whole number from 2 on; got {groups!r}")
    if q <= 0:
        return 1.0
    if math.isinf(q):
        return 0.0
    scales, weights = _scale(df)
    # The pairs of means give a bound: P(range > r) ≤ groups (groups − 1) P(Z > r/√2).
    pairs = np.minimum(1.0, groups * (groups - 1) * _normal_sf(q * scales / math.sqrt(2)))
    most = _SLACK * weights * pairs + _LEAST
    bounds = np.stack([np.zeros_like(most), most])
    matters = most > most.max() * _NEGLIGIBLE
    bounds[:, matters] = _range_sf_bounds(q * scales[matters], groups, weights[matters]) * weights[matters]
    for nodes in (matters, ~matters):
        # If the least and the most that the sum can be round to the same float, so do the exact terms.
        if _sum_of_pieces(bounds[0]) == _sum_of_pieces(bounds[1]):
            break
        bounds[:, nodes] = _range_sf(q * scales[nodes], groups) * weights[nodes]
    return min(1.0, _sum_of_pieces(bounds[0]))


@lru_cache(maxsize=4096)
def studentized_range_critical(level: float, groups: int, df: float) -> float:
    """The q with P(Q ≤ q) = level."""
    alpha = 1.0 - _probability(level)
    return _where_falls_to(lambda q: studentized_range_sf(q, groups, df), alpha)


def _probability(p: float) -> float:
    if not 0 < p < 1:
        raise OptionError(f"a probability or level must be between 0 and 1; got {p!r}")
    return p


def _where_falls_to(tail: Callable[[float], float], p: float) -> float:
    """The positive x at which a falling function is p, by secant steps in ln tail over ln x that stay inside a bracket."""

    def error_at(point: float) -> float:
        value = tail(math.exp(point))
        return math.log(value / p) if value > 0 else -math.inf

    low, high, step = -1.0, 1.0, 1.0
    while error_at(low) < 0:
        low, step = low - step, step * 2
    step = 1.0
    while error_at(high) > 0:
        low, high, step = high, min(high + step, 709.0), step * 2
    point, previous = (low + high) / 2, (math.nan, math.nan)
    for _ in range(100):
        error = error_at(point)
        low, high = (point, high) if error > 0 else (low, point)
        slope = (error - previous[1]) / (point - previous[0])
        previous = (point, error)
        following = point - error / slope if slope else math.nan
        if not low <= following <= high:
            following = (low + high) / 2
        if error == 0 or abs(following - point) <= 1e-15:
            break
        point = following
    return math.exp(point)


def _normal_sf(x: Array) -> Array:
    return _erfc(x / math.sqrt(2)) / 2


@lru_cache(maxsize=64)
def _scale(df: float) -> tuple[Array, Array]:
    """Nodes s of S = √(χ²_ν / ν), ascending, and their weights, which add up to 1: an average over S is a sum over them.

    In u = ln S the weight is proportional to exp(ν(u − e^{2u}/2)). This is analytic and falls off on both sides, so sums over
    equidistant nodes converge geometrically. All terms are positive.
    """
    if not df >= 1:
        raise OptionError(f"degrees of freedom must be 1 or more; got {df!r}")
    if math.isinf(df):
        return np.ones(1), np.ones(1)
    # The spread of ln S around 0 is about 1 / √(2ν).
    step = min(_STEP, 0.5 / math.sqrt(2 * df))
    left = _UNDERFLOW / df + math.sqrt(_UNDERFLOW / df)
    right = min(math.sqrt(_UNDERFLOW / df), 0.5 * math.log1p(2 * _UNDERFLOW / df) + 0.5)
    u: Array = np.arange(-math.ceil(left / step), math.ceil(right / step) + 1, dtype=np.float64) * step
    weights = _exp(-df * _excess(u))
    used = weights > 0
    return _exp(u[used]), weights[used] / math.fsum(weights)


def _excess(u: Array) -> Array:
    """(e^{2u} − 1)/2 − u; near 0, where the terms cancel, from its series."""
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
_ABOVE = _normal_sf(_SMALLEST)
_PIECE = 512
# Terms below this share of the largest are computed only if they can change the last bit of a sum.
_NEGLIGIBLE = 2.0**-62
# A float stays as it is when less than this share of it is added.
_ABSORBED = 2.0**-55
# These raise bounds, to cover their own rounding and underflow.
_SLACK, _LEAST = 1.01, 1e-300
# Terms below this share of the largest are first computed by numpy, in a fraction of the time, and known up to an error.
_NOTICED = 2.0**-17
# Numpy's exponentials and logarithms are off by some 2⁻⁵⁰ of their size at most.
_ERROR = 2.0**-44


def _pieces(x: Array) -> Iterator[Array]:
    return (x[first : first + _PIECE] for first in range(0, len(x), _PIECE))


def _sum_of_pieces(terms: Array) -> float:
    return math.fsum(map(math.fsum, _pieces(terms)))


def _factors(groups: int) -> Array:
    factors: Array = groups * _DENSITY * math.prod([_ABOVE] * (groups - 1))
    return factors


def _range_sf(r: Array, groups: int) -> Array:
    """P(range > r) of `groups` standard normals, for each r."""
    factors = _factors(groups)
    return np.concatenate([_range_sf_of_piece(piece, groups, factors) for piece in _pieces(r)])


def _range_sf_of_piece(r: Array, groups: int, factors: Array) -> Array:
    most, window = _window(r, groups, factors)
    terms = _range_terms(_shares(r, window), groups) * factors[window]
    # Added one after the other, in the order of z: a larger first term never makes a rounded sum smaller.
    low: Array = terms.cumsum(axis=1)[:, -1]
    terms[:, 0] += most[: window.start].sum()
    high = terms.cumsum(axis=1)[:, -1]
    unsure = (low != high) | (most[window.stop :].max(initial=0.0) >= low * _ABSORBED)
    if unsure.any():
        terms = _range_terms(_shares(r[unsure], slice(None)), groups) * factors
        low[unsure] = terms.cumsum(axis=1)[:, -1]
    return low


def _range_sf_bounds(r: Array, groups: int, weights: Array) -> Array:
    """The least and the most that `_range_sf` can be, 2 × nodes, close where it weighs much."""
    factors = _factors(groups)
    most, window = _window(r, groups, factors)
    shares = _shares(r, window)
    with np.errstate(divide="ignore"):
        terms = -np.expm1((groups - 1) * np.log1p(-shares)) * factors[window]
    low, high = np.maximum(terms * (1 - _ERROR) - _LEAST, 0.0), terms * (1 + _ERROR) + _LEAST
    weighed = terms * weights[:, None]
    noticed = weighed > weighed.max() * _NOTICED
    exact = _range_terms(shares[noticed], groups) * np.broadcast_to(factors[window], noticed.shape)[noticed]
    low[noticed] = high[noticed] = exact
    high[:, 0] += most[: window.start].sum()
    least, greatest = low.cumsum(axis=1)[:, -1], high.cumsum(axis=1)[:, -1]
    after = most[window.stop :]
    adds = after.max(initial=0.0) >= least * _ABSORBED
    greatest[adds] = (greatest[adds] + after.sum()) * (1 + _ERROR)
    return np.stack([least, greatest])


def _window(r: Array, groups: int, factors: Array) -> tuple[Array, slice]:
    """The most that each term can be for any r, and the terms that are not negligible."""
    most = _SLACK * factors * np.minimum(1.0, (groups - 1) * _normal_sf(_SMALLEST + r.min()) / _ABOVE) + _LEAST
    largest = (factors * _normal_sf(_SMALLEST + r.max()) / _ABOVE).max()
    matters = np.flatnonzero(most > largest * _NEGLIGIBLE)
    return most, slice(matters[0], matters[-1] + 1)


def _shares(r: Array, window: slice) -> Array:
    """Q(z + r) / Q(z), the probability that a value above z is above z + r: r × z."""
    return np.minimum(_normal_sf(_SMALLEST[window] + r[:, None]) / _ABOVE[window], 1.0)


def _range_terms(shares: Array, groups: int) -> Array:
    """The probability that one of `groups` − 1 values is beyond."""
    # Most shares are 0 or 1, and stay so.
    beyond, between = shares.copy(), (shares > 0) & (shares < 1)
    beyond[between] = -_expm1((groups - 1) * _log1p(-shares[between]))
    return beyond


_TINY = 1e-300
_ACCURACY = 1e-15


def binomial_sf(k: float, n: float, share: float) -> float:
    """P(X ≥ k) of a binomial X: how often `n` draws, each a hit with the probability `share`, have `k` hits or more.

    Between whole numbers it is the regularised incomplete beta function that it equals there.
    """
    if k <= 0:
        return 1.0
    if k == n:
        return math.pow(share, n)
    return 0.0 if k > n else _beta_cdf(share, k, n - k + 1)


def sign_test_p(wins: int, losses: int) -> float:
    """The two-sided p-value of as many wins and losses if both are equally likely: 2 · P(X ≥ the more frequent), at most 1.

    >>> sign_test_p(5, 0), sign_test_p(3, 3)
    (0.0625, 1.0)
    """
    n = wins + losses
    return min(1.0, 2 * binomial_sf(max(wins, losses), n, 0.5)) if wins != losses else 1.0


def clopper_pearson_interval(hits: float, n: float, level: float) -> tuple[float, float]:
    """The interval of Clopper and Pearson (1934) for a share of `n` draws: neither tail has less than (1 − level)/2.

    Users in clusters, or of unequal weights, are as good as a number of draws that is not whole.
    """
    tail = (1 - level) / 2
    return _lower(hits, n, tail), 1 - _lower(n - hits, n, tail)


# Slices of few users have the same few counts of hits again and again.
@lru_cache(maxsize=1 << 14)
def _lower(hits: float, n: float, tail: float) -> float:
    if hits == 0:
        return 0.0
    if hits == n:
        return math.pow(tail, 1 / n)
    low, high = 0.0, hits / n
    # The tail falls with the share, and bisection ends at neighbouring floats.
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if binomial_sf(hits, n, middle) < tail else (low, middle)
        if high - low <= _ACCURACY * high:
            break
    return (low + high) / 2


def _beta_cdf(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b), by its continued fraction (Press et al., Numerical Recipes, 6.4)."""
    if x in (0.0, 1.0):
        return x
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1 - front * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction, by the method of Lentz; it converges in about √(a + b) steps."""
    c, d = 1.0, 1 / _nonzero(1 - (a + b) * x / (a + 1))
    result = d
    for m in range(1, 1000 + 100 * math.isqrt(math.ceil(a + b))):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _nonzero(1 + numerator * d)
            c = _nonzero(1 + numerator / c)
            step = c * d
            result *= step
        if abs(step - 1) < _ACCURACY:
            break
    return result


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
