"""Confidence beside MTEB."""

import numpy as np
import pytest
from parity.environments import run
from parity.users import User
from worlds.ranked_users import lists_of, ranked

from spark_rankeval.metrics import parse_metric

N_USERS, N_ITEMS = 300, 40
KINDS = ("max", "std", "diff1")


def log():
    """Queries with scores that never tie, and some labels."""
    random = np.random.default_rng(8)
    users = {}
    for user in range(N_USERS):
        items = random.choice(N_ITEMS, random.integers(2, 30), replace=False).tolist()
        labels = random.choice(N_ITEMS, random.integers(1, 6), replace=False).tolist()
        scores = random.normal(size=len(items)).tolist()
        users[f"q{user:03}"] = User(
            list(zip(map(str, items), scores, strict=True)),
            [(str(item), int(random.integers(1, 4))) for item in labels],
        )
    return users


@pytest.mark.parametrize("system", ["mteb_confidence"])
def test_confidence_is_that_of_mteb(system):
    users = log()
    theirs = run(system, users, KINDS)["measures"]
    numbered = [([(int(i), s) for i, s in u.predictions], [(int(i), g) for i, g in u.labels]) for u in users.values()]
    n_entries = sum(len(predictions) for predictions, _ in numbered)
    batch, _ = ranked(lists_of(numbered, entry=np.arange(n_entries)))
    for kind in KINDS:
        confidence = parse_metric(f"confidence(kind={kind!r})").compute(batch)
        np.testing.assert_allclose(confidence, list(theirs[kind]["per_user"].values()), rtol=1e-12, atol=1e-12)
