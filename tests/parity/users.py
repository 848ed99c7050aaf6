"""Random users for the parity runs: one seed, one file of JSON, every system.

Item ids are strings of three digits: as numbers and as bytes they have one order, so that a system may take either.
"""

import json
import random
from typing import NamedTuple

SEED = 20261101
N_USERS = 2_200
ITEMS = [str(number) for number in range(100, 180)]
GRADES = (0, 0, 1, 1, 2, 3, 4)
NEGATIVE_GRADES = (-2, -1)
FEW_SCORES = (-1.5, -0.25, 0.0, 0.25, 0.5, 2.0)
# 1 and 1 + 2⁻³⁰ are two numbers in float64 and one in float32.
CLOSE = 2.0**-30


class User(NamedTuple):
    """What one user was recommended and likes; None: the user has no row in that table."""

    predictions: list[tuple[str, float]] | None
    labels: list[tuple[str, int]] | None


class Variant(NamedTuple):
    """What a package is fed: only what it is documented to take."""

    ties: bool = True
    negative_grades: bool = False
    duplicates: bool = False
    positive_scores: bool = False
    most_unpredicted: int = 8
    all_labelled: bool = False


VARIANTS = {
    "ties": Variant(),
    "distinct": Variant(ties=False),
    "negative": Variant(negative_grades=True),
    "negative_distinct": Variant(ties=False, negative_grades=True),
    "duplicates": Variant(ties=False, duplicates=True),
    "positive": Variant(positive_scores=True),
    # Rows of a trainer: each has a score and a label.
    "rows": Variant(all_labelled=True),
    # At most one labelled item is not predicted: a system that puts those at one score below has no ties there.
    "positive_distinct": Variant(ties=False, positive_scores=True, most_unpredicted=1),
}


def random_users(variant, n_users=N_USERS, seed=SEED):
    """Users by name; the same seed makes the same users, on any machine."""
    rng = random.Random(seed)
    return {f"u{number:05d}": random_user(rng, variant) for number in range(n_users)}


def random_user(rng, variant):
    predictions = random_predictions(rng, variant)
    labels = random_labels(rng, variant, [item for item, _ in predictions])
    absent = rng.random()
    if absent < 0.05:
        return User(None, labels)
    if absent < 0.10:
        return User(predictions, None)
    return User(predictions, labels)


def random_predictions(rng, variant):
    kind = rng.random()
    length = 0 if kind < 0.03 else rng.randint(1, 3) if kind < 0.3 else rng.randint(1, 25) if kind < 0.9 else 60
    items = rng.sample(ITEMS, length)
    predictions = list(zip(items, random_scores(rng, variant, length), strict=True))
    if variant.duplicates and length > 1 and rng.random() < 0.5:
        # Of an item that is there already, at a place and a score of its own.
        predictions += [(rng.choice(items), rng.choice((0.0, 3.0)) + rng.random()) for _ in range(rng.randint(1, 3))]
        rng.shuffle(predictions)
    return predictions


def random_scores(rng, variant, length):
    """All alike, a few values, close ones or any; in no order."""
    kind = rng.randrange(4) if variant.ties else 3
    if kind == 0:
        scores = [0.5] * length
    elif kind == 1:
        scores = [rng.choice(FEW_SCORES) for _ in range(length)]
    elif kind == 2:
        scores = [rng.choice((1.0, 2.0)) + rng.randrange(3) * CLOSE for _ in range(length)]
    else:
        # Distinct in float32 too: a step of 1/64 each, and less than half a step of noise.
        places = rng.sample(range(-64, 192), length)
        scores = [place / 64 + rng.random() / 256 for place in places]
    return [score + 8.0 for score in scores] if variant.positive_scores else scores


def random_labels(rng, variant, predicted):
    kind = rng.random()
    if kind < 0.03:
        return []
    grades = GRADES
    if kind < 0.10:
        grades = (0,)
    elif kind < 0.40:
        grades = (0, 1)
    elif kind < 0.50:
        grades = (1, 2, 3, 4)
    if variant.negative_grades:
        grades = (*grades, *NEGATIVE_GRADES)
    if variant.all_labelled:
        return [(item, rng.choice(grades)) for item in predicted]
    # Most labels are of predicted items, or there would be few hits to compare.
    liked = rng.sample(predicted, rng.randint(0, len(predicted)))[:15] if len(set(predicted)) == len(predicted) else []
    if not liked:
        liked = sorted(set(predicted))[: rng.randint(0, 8)]
    others = [item for item in ITEMS if item not in predicted]
    items = liked + rng.sample(others, rng.randint(0 if liked else 1, variant.most_unpredicted))
    return [(item, rng.choice(grades)) for item in items]


def as_json(users):
    """The users as the runners read them."""
    return json.dumps({name: user._asdict() for name, user in users.items()})


def items_of(user):
    return {item for item, _ in (user.predictions or []) + (user.labels or [])}


def correlates(user):
    """Whether the items that are predicted and labelled have two scores or more, and two grades or more."""
    grade = dict(user.labels or [])
    both = [(score, grade[item]) for item, score in user.predictions or [] if item in grade]
    return bool(both) and all(len(set(side)) > 1 for side in zip(*both, strict=True))


def best_grade(user):
    return max((grade for _, grade in user.labels or []), default=0)


# What a package is fed where it fails on other users, each of which is in docs/deviations.md.
ONLY = {
    "all": lambda user: True,
    "labelled": lambda user: bool(user.labels),
    "lists": lambda user: bool(user.predictions),
    "labelled lists": lambda user: bool(user.labels) and bool(user.predictions),
    "not all negative": lambda user: best_grade(user) >= 0,
    "relevant": lambda user: best_grade(user) > 0,
    "relevant and not": lambda user: best_grade(user) > 1 and any(grade < 1 for _, grade in user.labels),
    "several items": lambda user: len(items_of(user)) > 1,
    "correlated": correlates,
}
