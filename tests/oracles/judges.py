"""Agreement of judges in plain Python, straight from the definitions. An item is a user and a grade of each judge, None without one."""

import itertools
import math
from collections import Counter


def pairs_of(items, judge, other):
    """The grades of two judges on the items that both graded."""
    return [(g[judge], g[other]) for _, g in items if g[judge] is not None and g[other] is not None]


def agreement(pairs):
    return sum(a == b for a, b in pairs) / len(pairs) if pairs else math.nan


def kappa(pairs, power):
    """1 − the mean distance of the pairs ÷ that of a grade of the one judge and any of the other; power 0: equal or not."""

    def distance(a, b):
        return abs(a - b) ** power if a != b else 0.0

    expected = sum(distance(a, b) for a, _ in pairs for _, b in pairs)
    return 1 - len(pairs) * sum(distance(a, b) for a, b in pairs) / expected if expected else math.nan


def alpha(items, measurement):
    """Krippendorff's alpha, from all pairs of grades of an item and all pairs of grades of all such items."""
    units = [[grade for grade in grades if grade is not None] for _, grades in items]
    units = [unit for unit in units if len(unit) > 1]
    values = [grade for unit in units for grade in unit]
    counts = Counter(values)

    def difference(a, b):
        if measurement == "nominal":
            return float(a != b)
        if measurement == "interval":
            return (a - b) ** 2
        between = sum(n for grade, n in counts.items() if min(a, b) <= grade <= max(a, b))
        return (between - (counts[a] + counts[b]) / 2) ** 2

    observed = sum(difference(a, b) / (len(unit) - 1) for unit in units for a, b in itertools.permutations(unit, 2))
    expected = sum(difference(a, b) for a, b in itertools.permutations(values, 2))
    return 1 - (len(values) - 1) * observed / expected if expected else math.nan
