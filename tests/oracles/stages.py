"""What a cascade of stages loses, adds and could still reach, of one user and straight from the definitions."""

import itertools
import math
from fractions import Fraction

from oracles.rankings import User, is_relevant, value


def best_value(name, user, n, **parameters):
    """The best value of a metric over all orders of the first n items; the others are cut off."""
    values = []
    for items in itertools.permutations(user.items[:n]):
        other = User([], list(user.grade.items()))
        other.items, other.scores, other.raw_grades = list(items), [None] * len(items), user.raw_grades
        values.append(value(name, other, **parameters))
    return math.nan if any(map(math.isnan, values)) else max(values)


def account(stages, cutoffs, grades, threshold=None):
    """Of each stage the shares of the relevant items that it reaches, loses and adds; None without a relevant item.

    An item is lost at the first stage whose list lacks it. A stage adds what it has although an earlier stage lost it.

    Args:
        stages: the items of each stage, best first.
        cutoffs: how many first places of each stage count.
        grades: the grade of each labelled item.
        threshold: from which grade on an item is relevant; None: above 0.
    """
    relevant = {item for item, grade in grades.items() if is_relevant(grade, threshold)}
    if not relevant:
        return None
    lists = [items[:k] for items, k in zip(stages, cutoffs, strict=True)]
    lost_at = {item: next((stage for stage, items in enumerate(lists) if item not in items), None) for item in relevant}
    rows = []
    for stage, items in enumerate(lists):
        here = [item for item in relevant if item in items]
        lost = [item for item in relevant if lost_at[item] == stage]
        added = [item for item in here if lost_at[item] is not None and lost_at[item] < stage]
        rows.append([Fraction(len(some), len(relevant)) for some in (here, lost, added)])
    return rows
