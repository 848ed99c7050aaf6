"""Raw tables of predictions, training, items and a baseline, and the Arrow batch that Spark would make of them."""

import json

import numpy as np
import pyarrow as pa
from oracles.lists import World

from spark_rankeval.features.items import item_facts as names
from spark_rankeval.worker.grouped_row import (
    FACTS,
    ITEMS,
    LABEL_ROWS,
    LABELS,
    PREDICTION_ROWS,
    SCORES,
    USER_HASH,
    grades_column,
)

SIMPLE = World(
    predictions={1: [(10, 0.9), (11, 0.7), (12, 0.4)], 2: [(12, 0.8), (10, 0.6)], 3: [(10, 0.5), (19, 0.4)]},
    labels={1: [(11, 3.0), (13, 1.0)], 2: [(12, 2.0)], 4: [(10, 1.0)]},
    training=[(1, 10), (2, 10), (2, 11), (5, 12), (5, 10), (5, 10)],
    items={10: ("drink", [1.0, 0.0]), 11: ("food", [0.0, 1.0]), 12: ("food", [1.0, 1.0]), 13: ("food", [0.0, 2.0])},
    baseline={1: [(10, 3.0), (11, 2.0), (12, 1.0)], 2: [(10, 3.0), (11, 2.0), (12, 1.0)]},
    genres={10: ["hot", "wet"], 11: ["dry"], 12: ["dry", "hot"], 13: [], 19: ["hot"]},
)


def random_world(seed, n_users=40, n_items=25, longest=12, dimension=3):
    """Short and long lists, users in some tables alone, ties, repeated interactions, items without attributes."""
    rng = np.random.default_rng(seed)

    def pairs(most, values):
        items = rng.choice(n_items, int(rng.integers(0, most + 1)), replace=False).tolist()
        return [(item, float(rng.choice(values))) for item in items]

    def of_some(share, most, values):
        return {user: pairs(most, values) for user in range(n_users) if rng.random() < share}

    scores = np.arange(-4, 8) / 4
    known = rng.choice(n_items, n_items * 3 // 4, replace=False).tolist()
    # Popular items are in most histories, and the last in none.
    popularity = np.append(1 / np.arange(1, n_items - 1), [0, 0])
    training = [
        (int(user), int(item))
        for user in rng.choice(n_users + 5, n_users, replace=False)
        for item in rng.choice(n_items, int(rng.integers(1, 9)), p=popularity / popularity.sum())
    ]
    vectors = rng.integers(-1, 3, (n_items, dimension)).astype(float)
    items = {
        item: (
            None if rng.random() < 0.1 else f"c{rng.integers(4)}",
            None if rng.random() < 0.1 else vectors[item].tolist(),
        )
        for item in known
    }
    predictions, baseline = of_some(0.9, longest, scores), of_some(0.8, longest, scores)
    labels = of_some(0.8, 6, (0.0, 1.0, 2.0))
    genres = {item: rng.choice(list("abcde"), rng.integers(0, 4)).tolist() for item in items}
    return World(predictions, labels, training, items, baseline, genres)


def genres_of(world, item):
    """The categories of an item as Spark sends them."""
    return json.dumps(sorted({*world.genres[item]})) if item in world.genres else None


def shares_above(world, item):
    """Which shares of pairs and of items are of more popular items, as Spark sends them."""
    counts = {other: world.users_of(other) for _, other in world.training}
    if item not in counts:
        return None, None
    above = [count for count in counts.values() if count > counts[item]]
    return sum(above) / sum(counts.values()), len(above) / len(counts)


def facts_of(world, items):
    """What a join by item would know of items."""
    return [
        {
            names.TRAINING_USERS: world.users_of(item) or None,
            names.TRAINING_INTERACTIONS: world.rows_of(item) or None,
            **dict(zip(names.LONG_TAIL, shares_above(world, item), strict=True)),
            names.CATEGORY: world.category(item),
            names.CATEGORY_SET: genres_of(world, item),
            names.VECTOR: world.items.get(item, (None, None))[1],
            names.IS_IN_ITEMS: True if item in world.items else None,
        }
        for item in items
    ]


FACT_TYPE = pa.struct(
    {
        names.TRAINING_USERS: pa.int64(),
        names.TRAINING_INTERACTIONS: pa.int64(),
        names.SHARE_ABOVE: pa.float64(),
        names.ITEMS_ABOVE: pa.float64(),
        names.CATEGORY: pa.string(),
        names.CATEGORY_SET: pa.string(),
        names.VECTOR: pa.list_(pa.float64()),
        names.IS_IN_ITEMS: pa.bool_(),
    }
)
HISTORY_TYPE = pa.struct(
    {
        names.ITEM: pa.int64(),
        names.TRAINING_USERS: pa.int64(),
        names.CATEGORY_SET: pa.string(),
        names.VECTOR: pa.list_(pa.float64()),
    }
)


def batch_of(world, users=None, shuffled=None):
    """The batch of some users as `Grouping` makes it; lists in an order of their own where a generator is given."""
    users = world.users if users is None else users

    def mixed(values):
        values = list(values)
        return values if shuffled is None else [values[place] for place in shuffled.permutation(len(values))]

    predictions = [mixed(world.predictions.get(user, [])) for user in users]
    labels = [mixed(world.labels.get(user, [])) for user in users]
    vectors = [vector for _, vector in world.items.values() if vector is not None]
    totals = dict.fromkeys(names.TOTALS, 0) | {
        names.N_TRAINING_USERS: world.n_users,
        names.N_TRAINING_ITEMS: len({item for _, item in world.training}),
        names.N_TRAINING_INTERACTIONS: len(world.training),
        names.N_ITEMS: len(world.items),
        names.DIMENSION: max(map(len, vectors), default=0),
    }

    def history(user):
        return [
            {
                names.ITEM: item,
                names.TRAINING_USERS: world.users_of(item),
                names.CATEGORY_SET: genres_of(world, item),
                names.VECTOR: world.items.get(item, (None,) * 2)[1],
            }
            for item in mixed(world.history(user))
        ]

    baselines = [mixed(world.baseline.get(user, [])) for user in users]

    def baseline(place):
        return [[pair[place] for pair in pairs] or None for pairs in baselines]

    columns = {
        ITEMS: pa.array([[item for item, _ in pairs] for pairs in predictions], pa.list_(pa.int64())),
        SCORES: pa.array([[score for _, score in pairs] for pairs in predictions], pa.list_(pa.float64())),
        PREDICTION_ROWS: pa.array([len(pairs) for pairs in predictions], pa.int64()),
        LABELS: pa.array([[item for item, _ in pairs] for pairs in labels], pa.list_(pa.int64())),
        grades_column(0): pa.array([[grade for _, grade in pairs] for pairs in labels], pa.list_(pa.float64())),
        LABEL_ROWS: pa.array([len(pairs) for pairs in labels], pa.int64()),
        FACTS: pa.array([facts_of(world, [item for item, _ in pairs]) for pairs in predictions], pa.list_(FACT_TYPE)),
        names.HISTORY: pa.array([history(user) or None for user in users], pa.list_(HISTORY_TYPE)),
        names.BASELINE: pa.array(baseline(0), pa.list_(pa.int64())),
        names.BASELINE_SCORES: pa.array(baseline(1), pa.list_(pa.float64())),
        USER_HASH: pa.array(users, pa.int64()),
        **{name: pa.array([size] * len(users), pa.int64()) for name, size in totals.items()},
    }
    return pa.RecordBatch.from_pydict(columns)
