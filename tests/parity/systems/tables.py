"""Users as the shapes that packages take."""

import math

import numpy as np


def qrels_of(users):
    """{user: {item: grade}}; a user without labels has no entry."""
    return {name: dict(user["labels"]) for name, user in users.items() if user["labels"]}


def run_of(users):
    """{user: {item: score}}; a user without predictions has no entry."""
    return {name: dict(user["predictions"]) for name, user in users.items() if user["predictions"]}


def best_first(predictions):
    """The predictions by score, high to low; equal scores stay in the order given."""
    return sorted(predictions or [], key=lambda pair: -pair[1])


def relevant_of(user):
    """The items whose grade is above 0, in the order given."""
    return [item for item, grade in user["labels"] or [] if grade > 0]


def mean(values):
    """The plain mean, for packages that leave it to the caller; NaN is no value."""
    values = [value for value in values if not math.isnan(value)]
    return sum(values) / len(values) if values else float("nan")


def vectors_of(users):
    """{user: (grades, scores)} over the items predicted or labelled, for users who have both.

    An unlabelled item has grade 0; an item that was not predicted has the lowest score less 1.
    """
    vectors = {}
    for name, user in users.items():
        if user["predictions"] and user["labels"]:
            score, grade = dict(user["predictions"]), dict(user["labels"])
            items = [*score, *(item for item in grade if item not in score)]
            below = min(score.values()) - 1
            vectors[name] = (
                np.array([grade.get(item, 0) for item in items]),
                np.array([score.get(item, below) for item in items]),
            )
    return vectors


def rows_of(users):
    """{user: (grades, scores)} of the rows of a query in the order given; each row has both."""
    rows = {}
    for name, user in users.items():
        grade = dict(user["labels"])
        pairs = [(grade[item], score) for item, score in user["predictions"]]
        rows[name] = tuple(np.array(side, np.float64) for side in zip(*pairs, strict=True))
    return rows
