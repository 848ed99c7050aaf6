"""Confidence sequences: intervals that hold at all times together, so that one may look every day and stop at any.

Source: Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, Time-uniform central limit theory and asymptotic confidence sequences
(arXiv:2103.06476, 2021; Annals of Statistics 2024), theorem 2.2. With the mean of n users and their standard deviation σ it is

    mean ± σ √( 2 (nρ² + 1) / (n²ρ²) · ln( √(nρ² + 1) / α ) ).

It approximates a sequence that holds the true mean at all n with the probability 1 − α: the normal mixture of Robbins (1970).
σ / √n is the standard error. Other estimates that are close to normal have one too, such as a difference of two means.
"""

from __future__ import annotations

import math

#: The number of users, of both groups together, at which a sequence is tightest by default.
TIGHTEST_AT = 10_000
#: A sequence begins when each group has this number of times (range / standard deviation)² users: `skewness.users_needed`.
TIMES_SPREAD = 5


def squared_rho(tightest_at: float, level: float) -> float:
    """ρ² for which the sequence is tightest at a number of users, as the authors approximate it."""
    doubled = -2 * math.log(1 - level)
    return (doubled + math.log(doubled + 1)) / tightest_at


def reach(n: float, level: float, tightest_at: float) -> float:
    """How many standard errors a sequence reaches to either side after n users."""
    spent = n * squared_rho(tightest_at, level)
    return math.sqrt(2 * (spent + 1) / spent * (math.log1p(spent) / 2 - math.log(1 - level)))


def always_valid_p(z: float, n: float, level: float, tightest_at: float) -> float:
    """The p-value of an estimate z standard errors from 0 after n users: 1 − level of the sequence that ends at 0.

    ρ is that of the level which is asked for. The probability that p is ever at most α is α, if the estimate is of 0 (Johari,
    Koomen, Pekelis and Walsh 2017).
    """
    spent = n * squared_rho(tightest_at, level)
    return min(1.0, math.exp(math.log1p(spent) / 2 - z * z * spent / (2 * (spent + 1))))
