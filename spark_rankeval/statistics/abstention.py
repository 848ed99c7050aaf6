"""The abstention curve: the mean as a model leaves out users of whom it is not sure; and the area under it.

Source: Gisserot-Boukhlef et al., Towards trustworthy reranking: a simple yet effective abstention mechanism, TMLR 2024.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

#: The shares of users that are left out: 0, 0.1, … 0.9, with the bits that numpy's linspace gives them.
RATES = (0.0, 0.1, 0.2, 0.30000000000000004, 0.4, 0.5, 0.6000000000000001, 0.7000000000000001, 0.8, 0.9)
# Areas that differ by less, relative to their size, differ by rounding alone.
_ROUNDING = 1e-12


class EqualUsers(NamedTuple):
    """Users whom an order does not tell apart."""

    n: int  # how many there are
    total: float  # the sum of their values
    n_above: int  # how many users come before them
    total_above: float  # the sum of the values of these


def n_kept(rate: float, n_users: int) -> int:
    """How many users are left if a share of them is left out: at least one. Halves are rounded to even numbers."""
    return n_users - min(round(rate * n_users), n_users - 1)


def mean_of_first(groups: Sequence[EqualUsers], n_first: int) -> float:
    """The mean of the first so many users of an order; of a group that is cut, the mean over all orders of its users."""
    group = next(each for each in groups if each.n_above < n_first <= each.n_above + each.n)
    return (group.total_above + (n_first - group.n_above) / group.n * group.total) / n_first


def curve_of(groups: Sequence[EqualUsers], n_users: int) -> tuple[float, ...]:
    """The mean at each of `RATES`; NaN without users."""
    return tuple(mean_of_first(groups, n_kept(rate, n_users)) if n_users else math.nan for rate in RATES)


class AbstentionAreas(NamedTuple):
    """Areas under an abstention curve, by trapezoids from rate 0 to 0.9.

    Attributes:
        area: of the curve.
        oracle: of the curve that leaves out the users with the lowest values first.
        flat: of a curve that stays as it begins: the model's confidence says nothing.
        normalised: (area − flat) ÷ (oracle − flat): 1 at best, 0 if confidence says nothing. NaN if all users have the same value.
    """

    area: float
    oracle: float
    flat: float
    normalised: float


def areas_of(curve: Sequence[float], oracle: Sequence[float]) -> AbstentionAreas:
    """The areas under a curve and its oracle, each a mean for each of `RATES`."""
    area, best = _area(curve), _area(oracle)
    flat = oracle[0] * (RATES[-1] - RATES[0])
    room = best - flat
    has_room = room > _ROUNDING * max(abs(best), abs(flat))
    return AbstentionAreas(area, best, flat, (area - flat) / room if has_room else math.nan)


def _area(means: Sequence[float]) -> float:
    steps = zip(RATES, RATES[1:], means, means[1:], strict=False)
    return math.fsum((right - left) * (one + other) / 2 for left, right, one, other in steps)
