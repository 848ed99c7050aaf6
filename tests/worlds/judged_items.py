"""Items with the grades of several judges, and their counts as Spark makes them, without Spark."""

import itertools
from collections import Counter

import numpy as np

from spark_rankeval.statistics.description import N_BLOCKS
from spark_rankeval.statistics.judges import GradeCounts


def counts_of(items):
    """The counts of items, each a user (a number, whose block it is, too) and a grade of each judge or None."""
    n_judges = len(items[0][1])
    pairs = list(itertools.combinations(range(n_judges), 2))
    combinations = Counter((user, grades) for user, grades in items)
    n_users, seen = [], set()
    for user, grades in combinations:
        has = [all(grades[judge] is not None for judge in pair) for pair in pairs]
        new = [pair_has and (user, place) not in seen for place, pair_has in enumerate([*has, any(has)])]
        seen |= {(user, place) for place, is_new in enumerate(new) if is_new}
        n_users.append(new)
    grades = np.array([g for _, g in combinations], np.float64)
    return GradeCounts(
        grades,
        np.array([user % N_BLOCKS for user, _ in combinations]),
        np.array(list(combinations.values())),
        np.array(n_users, np.int64),
        np.unique(grades[~np.isnan(grades)]),
    )


def graded_users(rng, n_users, *, noise=0.7, bias=0.2):
    """Users whose items two judges grade from 0 to 3. Grades and errors of a user are alike, and users differ in size."""
    items = []
    for user in range(n_users):
        n = 2 + rng.geometric(1 / 8)
        relevance = 0.5 * rng.normal() + rng.normal(size=n)
        first = relevance + 0.3 * rng.normal(size=n)
        second = relevance + bias + 0.4 * rng.normal() + noise * rng.normal(size=n)
        cuts = (-0.5, 0.5, 1.2)
        items += [
            (user, pair) for pair in zip(*(np.digitize(side, cuts).tolist() for side in (first, second)), strict=True)
        ]
    return items
