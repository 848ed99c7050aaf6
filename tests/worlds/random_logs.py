"""Random logs that contain what makes evaluators differ: ties, duplicates, empty sides, lists shorter and longer than k."""

from dataclasses import dataclass

import numpy as np


@dataclass
class Logs:
    """Every user's predicted items with scores, in input order, and labelled items with grades."""

    predictions: list[list[tuple[int, float]]]
    labels: list[list[tuple[int, float]]]

    @property
    def prediction_rows(self):
        return [(user, *pair) for user, pairs in enumerate(self.predictions) for pair in pairs]

    @property
    def label_rows(self):
        return [(user, *pair) for user, pairs in enumerate(self.labels) for pair in pairs]

    def tables(self, spark):
        """Predictions and labels as tables of Spark."""
        predictions = spark.createDataFrame(self.prediction_rows, "user long, item long, score double")
        return predictions, spark.createDataFrame(self.label_rows, "user long, item long, grade double")

    def ranked(self, user):
        return sorted(self.predictions[user], key=lambda pair: (-pair[1], pair[0]))


def random_logs(n_users, k, seed, *, duplicates=False, negative=False, n_items=40):
    """Logs for cutoff k; whoever compares with them may call `assert_tricky` first."""
    random = np.random.default_rng(seed)
    predictions, labels = [], []
    for user in range(n_users):
        length = int(random.integers(0, 3 * k)) if user % 11 else 0
        items = random.choice(n_items, min(length, n_items), replace=False)
        match user % 4:
            case 0:
                scores = random.random(len(items))
            case 1:
                scores = random.integers(0, 3, len(items)) / 4
            case 2:
                scores = np.full(len(items), 0.5)
            case _:
                scores = random.integers(0, 12, len(items)) / 16
        rows = [(int(i), float(s)) for i, s in zip(items, scores, strict=True)]
        if duplicates and rows:
            again = random.integers(0, len(rows), max(1, len(rows) // 3))
            rows += [(rows[n][0], float(random.integers(0, 5) / 4)) for n in again]
        n_labels = int(random.integers(0, 8)) if user % 7 else 0
        grades = random.integers(-2 if negative else 0, 4, n_labels)
        liked = random.choice(n_items, n_labels, replace=False)
        predictions.append([rows[n] for n in random.permutation(len(rows))])
        labels.append([(int(i), float(g)) for i, g in zip(liked, grades, strict=True)])
    return Logs(predictions, labels)


def assert_tricky(logs, k, *, duplicates=False):
    """The data holds what a comparison is to withstand."""
    users = range(len(logs.predictions))
    ranked = [logs.ranked(user) for user in users]
    assert any(len(r) > k and r[k - 1][1] == r[k][1] for r in ranked), "no tie at the cutoff"
    assert any(len(r) > 1 and len({score for _, score in r}) == 1 for r in ranked), "no constant scores"
    assert any(not r and logs.labels[u] for u, r in enumerate(ranked)), "nobody without predictions"
    assert any(r and not logs.labels[u] for u, r in enumerate(ranked)), "nobody without labels"
    assert any(not r and not logs.labels[u] for u, r in enumerate(ranked)), "nobody without both"
    assert any(0 < len(r) < k for r in ranked), "no list shorter than k"
    assert any(len(r) > k for r in ranked), "no list longer than k"
    if duplicates:
        across = [{item for item, _ in r[:k]} & {item for item, _ in r[k:]} for r in ranked]
        assert any(across), "no duplicate across the cutoff"
