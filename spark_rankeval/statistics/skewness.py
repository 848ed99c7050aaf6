"""How many users make the mean of skewed values close to normal.

The third absolute moment of values about their mean is at most range × variance. So the skewness of a mean of n users is at most
range / (standard deviation · √n), and with it how far the mean is from normal (Berry 1941, Esseen 1942). If few values are far from most,
the range is many standard deviations.
"""

from __future__ import annotations

import math

#: Of fewer users the spread may be small by chance, whatever their values are.
LEAST_USERS = 100


def users_needed(variance: float, width: float, times: float) -> float:
    """How many users make the skewness of a mean at most 1 / √times, for values of a variance and a range; at least 100."""
    return max(LEAST_USERS, times * (width / math.sqrt(variance)) ** 2) if variance > 0 else math.inf
