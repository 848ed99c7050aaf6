"""Users for the measures beyond accuracy, and the facts of items that all systems get: both follow from a seed, or from the id."""

import random
from typing import NamedTuple

SEED = 20261122
N_USERS = 400
ITEMS = [str(number) for number in range(100, 160)]


class User(NamedTuple):
    """What one user was recommended, likes, has, and would be recommended by a baseline; None: no row in that table."""

    predictions: list[tuple[str, float]] | None
    labels: list[tuple[str, int]] | None
    training: list[tuple[str, int]] | None
    baseline: list[tuple[str, float]] | None


def category_of(item):
    return f"c{int(item) * 7 % 5}"


def vector_of(item):
    number = int(item)
    return [number % 3 - 1.0, number % 5 / 2 + 0.5, number % 7 - 2.0]


def random_users(*, repeats, longest=12, everywhere=False):
    """Users by name.

    Args:
        repeats: whether a list may have items of the user's own history.
        longest: how long a list is at most; all are, where everybody is in every table.
        everywhere: whether everybody is in every table.
    """
    rng = random.Random(SEED)

    def scored(items):
        places = rng.sample(range(256), len(items))
        return [(item, place / 64 + rng.random() / 256) for item, place in zip(items, places, strict=True)]

    users = {}
    for number in range(N_USERS):
        # Popular items are in most histories, and the last few in none.
        history = sorted({ITEMS[min(int(rng.expovariate(0.08)), 54)] for _ in range(rng.randint(1, 12))})
        # Some items nobody recommends, so that the catalogue is not covered.
        free = [item for item in ITEMS[:30] + ITEMS[45:] if repeats or item not in history]
        n_items = longest if everywhere else rng.randint(1, longest)
        items = rng.sample(free, n_items)
        labels = [(item, 1) for item in rng.sample(items, rng.randint(0, min(3, n_items)))] + [("999", 1)]
        absent = 1.0 if everywhere else rng.random()
        users[f"u{number:04d}"] = User(
            None if absent < 0.05 else scored(items),
            labels,
            None if 0.05 < absent < 0.1 else [(item, 1) for item in history],
            None if 0.1 < absent < 0.15 else scored(rng.sample(ITEMS, 12)),
        )
    return users
