"""How far the interval of a mean reaches if users who were not drawn may be as far away as the bounds, from docs/statistics.md."""

import math


def interval(mean, reach, error, n, values, most=1.0, level=0.95):
    """The ends; `reach` is that of Student's t, `n` counts effective users, and values lie between 0 and `most`."""
    share = 1 - ((1 - level) / 2) ** (1 / n)
    unseen = share * mean, share * (most - mean)
    farthest = max(mean - min(values), max(values) - mean) / error
    both = math.hypot if farthest**2 > max(9 * n, n * n / 10) else max
    return mean - both(reach, unseen[0]), mean + both(reach, unseen[1])
