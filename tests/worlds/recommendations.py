"""Raw tables of predictions, training, items and a baseline, and the Arrow batch that Spark would make of them."""

import json

import numpy as np
import pyarrow as pa
from oracles.lists import World

from spark_rankeval.worker import features as names
from spark_rankeval.worker.process import stream_of, with_features
from spark_rankeval.worker.reading import ITEMS, LABEL_ROWS, LABELS, PREDICTION_ROWS, SCORES, USER_HASH, grades_column
from spark_rankeval.worker.scoring import score

SIMPLE = World(
    predictions={1: [(10, 0.9), (11, 0.7), (12, 0.4)], 2: [(12, 0.8), (10, 0.6)], 3: [(10, 0.5), (19, 0.4)]},
    labels={1: [(11, 3.0), (13, 1.0)], 2: [(12, 2.0)], 4: [(10, 1.0)]},
    training=[(1, 10), (2, 10), (2, 11), (5, 12), (5, 10), (5, 10)],
    items={10: ("drink", [1.0, 0.0]), 11: ("food", [0.0, 1.0]), 12: ("food", [1.0, 1.0]), 13: ("food", [0.0, 2.0])},
    baseline={1: [(10, 3.0), (11, 2.0), (12, 1.0)], 2: [(10, 3.0), (11, 2.0), (12, 1.0)]},
    genres={10: ["hot", "wet"], 11: ["dry"], 12: ["dry", "hot"], 13: []},
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


def packed(columns, types):
    """A packed table, as Spark makes it."""
    table = pa.table({name: pa.array(columns[name], kind) for name, kind in types.items()})
    return stream_of(table).to_pybytes()


def tables_of(world):
    """The packed tables of popularity and of attributes, by their names."""
    trained = [None, *sorted({item for _, item in world.training})]
    listed = list(world.items)
    counted = {
        names.ITEM: trained,
        names.TRAINING_USERS: [world.n_users, *map(world.users_of, trained[1:])],
        names.TRAINING_INTERACTIONS: [0, *map(world.rows_of, trained[1:])],
    }
    attributes = {
        names.ITEM: listed,
        names.ROWS: [1] * len(listed),
        "category": [world.items[item][0] for item in listed],
        names.CATEGORY_SET: [
            json.dumps(sorted({*world.genres[item]})) if item in world.genres else None for item in listed
        ],
        names.VECTOR: [world.items[item][1] for item in listed],
    }
    types = {
        names.ITEM: pa.int64(), names.ROWS: pa.int64(), "category": pa.string(), names.CATEGORY_SET: pa.string(),
        names.VECTOR: pa.list_(pa.float64()),
    }  # fmt: skip
    return {
        names.POPULARITY_TABLE: packed(counted, dict.fromkeys(counted, pa.int64())),
        names.ATTRIBUTES_TABLE: packed(attributes, types),
    }


def batch_of(world, users=None, shuffled=None):
    """The batch of some users as `Grouping` makes it; lists in an order of their own where a generator is given."""
    users = world.users if users is None else users

    def mixed(values):
        values = list(values)
        return values if shuffled is None else [values[place] for place in shuffled.permutation(len(values))]

    predictions = [mixed(world.predictions.get(user, [])) for user in users]
    labels = [mixed(world.labels.get(user, [])) for user in users]
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
        names.HISTORY: pa.array([mixed(world.history(user)) or None for user in users], pa.list_(pa.int64())),
        names.BASELINE: pa.array(baseline(0), pa.list_(pa.int64())),
        names.BASELINE_SCORES: pa.array(baseline(1), pa.list_(pa.float64())),
        USER_HASH: pa.array(users, pa.int64()),
        **{
            name: pa.array([table, *[None] * (len(users) - 1)][: len(users)], pa.binary())
            for name, table in tables_of(world).items()
        },
    }
    return pa.RecordBatch.from_pydict(columns)


def scored(task, batch):
    """The scores of a batch that is a task of its own."""
    ((part, features),) = with_features(task, iter([batch]))
    return score(task, part, features)
