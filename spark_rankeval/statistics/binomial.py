"""Binomial probabilities and the Clopper-Pearson interval of a share, for the driver: `math` alone."""

from __future__ import annotations

import math
from functools import lru_cache

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


def share_interval(hits: float, n: float, level: float) -> tuple[float, float]:
    """The Clopper-Pearson interval of a share (1934), given `n` draws: neither tail has less than (1 − level)/2.

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
