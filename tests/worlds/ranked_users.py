"""Users as plain lists: (predictions, labels), each a list of pairs, as the oracle takes them; and their `RawLists`."""

import numpy as np

from spark_rankeval.metrics import parse_metric
from spark_rankeval.ranking.ranks import rank_lists
from spark_rankeval.ranking.user_lists import Ragged, RankingPolicy, RawLists

GRADES = (-1.0, 0.0, 0.0, 0.5, 1.0, 1.0, 2.0, 3.0)
SCORES = (-2.0, -0.5, 0.0, 0.25, 0.5, 0.75, 1.0)


def lists_of(users, **further):
    """The raw input that these users make; scores are absent where none of the pairs has one."""
    predictions, labels = [user[0] for user in users], [user[1] for user in users]
    scores = [[score for _, score in pairs] for pairs in predictions]
    scored = any(score is not None for row in scores for score in row)
    return RawLists(
        items=Ragged.from_lists([[item for item, _ in pairs] for pairs in predictions], np.int64),
        scores=Ragged.from_lists(scores, np.float64) if scored else None,
        labels=Ragged.from_lists([[item for item, _ in pairs] for pairs in labels], np.int64),
        grades=Ragged.from_lists([[grade for _, grade in pairs] for pairs in labels], np.float64),
        **further,
    )


def ranked(lists, **options):
    """`rank_lists`, the fields of the policy given among the options."""
    policy = {name: options.pop(name) for name in RankingPolicy.__dataclass_fields__ if name in options}
    return rank_lists(lists, RankingPolicy(**policy), **options)


def batch_of(users, **options):
    """The ranked batch of these users, with the order of the labels kept."""
    return ranked(lists_of(users), keep_label_order=True, **options)[0]


def values_of(metric, *users, **options):
    """A metric of some users."""
    return parse_metric(metric).resolve().compute(batch_of(list(users), **options))


def value_of(metric, predictions, labels):
    """A metric of one user."""
    return values_of(metric, (predictions, labels))[0]


def in_order(items):
    """Predictions that come best first."""
    return [(item, None) for item in items]


def ungraded(items):
    """Labels of grade 1."""
    return [(item, 1.0) for item in items]


def random_users(rng, n_users, longest=20, most_labels=12, n_items=25, distinct=False, scored=True, grades=GRADES):
    """Users with short and long lists, ties and constant scores, empty sides and, unless distinct, duplicates."""
    users = []
    for _ in range(n_users):
        n_predictions = int(rng.choice([0, rng.integers(1, 4), rng.integers(1, longest + 1)], p=[0.1, 0.3, 0.6]))
        n_labels = int(rng.choice([0, rng.integers(1, most_labels + 1)], p=[0.1, 0.9]))
        items = rng.choice(n_items, n_predictions, replace=not distinct).tolist()
        labelled = rng.choice(n_items, n_labels, replace=not distinct).tolist()
        kind = rng.integers(4)
        if not scored:
            scores = [None] * n_predictions
        elif kind == 0:
            scores = [0.5] * n_predictions
        elif kind == 1:
            scores = rng.normal(size=n_predictions).tolist()
        else:
            scores = rng.choice(SCORES, n_predictions).tolist()
        users.append((list(zip(items, scores, strict=True)), [(item, float(rng.choice(grades))) for item in labelled]))
    return users


def long_users(rng, n_users, longest, most_labels, *, scored, grades=(-1.0, 0.0, 1.0, 2.0, 3.0)):
    """Users with long lists and many labels; the first one has as many as there may be, and every second list repeats items."""
    users = []
    for nth in range(n_users):
        n_items, n_labels = (rng.integers(most // 3, most + 1) if nth else most for most in (longest, most_labels))
        items = rng.choice(2 * longest, n_items, replace=nth % 2 == 0).tolist()
        scores = (rng.integers(0, 60, n_items) / 7).tolist() if scored else [None] * n_items
        labels = rng.choice(2 * longest, n_labels, replace=False).tolist()
        given = rng.choice(grades, n_labels).tolist()
        users.append((list(zip(items, scores, strict=True)), list(zip(labels, given, strict=True))))
    return users
