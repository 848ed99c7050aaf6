"""Users with judged subtopics for the metrics of intents: ties, unjudged items, judgements of grade 0; they follow from a seed."""

import random
from typing import NamedTuple

SEED = 20261127
N_USERS = 600
ITEMS = [str(number) for number in range(100, 150)]
GRADES = (0, 0, 1, 1, 2, 3)
FEW_SCORES = (-1.5, 0.0, 0.25, 0.5, 2.0)


class User(NamedTuple):
    """What one user was recommended, and what was judged: ((subtopic, item), grade)."""

    predictions: list[tuple[str, float]] | None
    judged: list[tuple[tuple[str, str], int]] | None


def random_users():
    """Users by name. Subtopics have names whose order is that in which they are judged first, as ndeval numbers them."""
    rng = random.Random(SEED)
    return {f"u{number:04d}": random_user(rng) for number in range(N_USERS)}


def random_user(rng):
    items = rng.sample(ITEMS, rng.choice((0, 2, 5, 12, 30)))
    kind = rng.randrange(3)
    scores = [0.5 if kind == 0 else rng.choice(FEW_SCORES) if kind == 1 else rng.random() for _ in items]
    n_subtopics = rng.randint(1, 6)
    others = [item for item in ITEMS if item not in items]
    judged = rng.sample(items, rng.randint(0, min(8, len(items)))) + rng.sample(others, rng.randint(0, 6))
    grades = (0,) if rng.random() < 0.05 else GRADES
    triples = [
        ((str(subtopic), item), rng.choice(grades))
        for item in judged
        for subtopic in sorted(rng.sample(range(1, n_subtopics + 1), rng.randint(1, n_subtopics)))
    ]
    absent = rng.random()
    predictions = list(zip(items, scores, strict=True))
    return User(None if absent < 0.05 else predictions, None if 0.05 < absent < 0.1 else triples)
