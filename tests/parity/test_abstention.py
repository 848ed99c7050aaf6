"""Confidence and the area of the abstention curve beside MTEB."""

import numpy as np
import pytest
from parity.environments import run
from parity.users import User
from worlds.ranked_users import lists_of, ranked

from spark_rankeval.dialects import find_dialect
from spark_rankeval.metrics import parse_metric
from spark_rankeval.statistics.abstention import EqualUsers, areas_of, curve_of

N_USERS, N_ITEMS = 300, 40
#: MTEB's measures, and what they are here.
MEASURES = {"ndcg": "ndcg@10", "map": "ap@10", "recall": "recall@10"}
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


def groups_of(order, values):
    """The users of each place of an order, best first."""
    groups, n, total = [], 0, 0.0
    for one in np.unique(order)[::-1]:
        equal = values[order == one]
        groups.append(EqualUsers(len(equal), equal.sum(), n, total))
        n, total = n + len(equal), total + equal.sum()
    return groups


@pytest.mark.parametrize("system", ["mteb_abstention"])
def test_confidence_and_areas_are_those_of_mteb(system):
    users = log()
    theirs = run(system, users, [f"{name}_at_10_{kind}" for name in MEASURES for kind in KINDS])["measures"]
    numbered = [([(int(i), s) for i, s in u.predictions], [(int(i), g) for i, g in u.labels]) for u in users.values()]
    n_entries = sum(len(predictions) for predictions, _ in numbered)
    batch, _ = ranked(lists_of(numbered, entry=np.arange(n_entries)))
    for name, text in MEASURES.items():
        values = parse_metric(text).resolve(find_dialect("mteb")).compute(batch)
        oracle = curve_of(groups_of(values, values), N_USERS)
        for kind in KINDS:
            confidence = parse_metric(f"confidence(kind={kind!r})").compute(batch)
            measure = theirs[f"{name}_at_10_{kind}"]
            np.testing.assert_allclose(confidence, list(measure["per_user"].values()), rtol=1e-12, atol=1e-12)
            curve = curve_of(groups_of(confidence, values), N_USERS)
            assert areas_of(curve, oracle).normalised == pytest.approx(measure["mean"], rel=1e-12, abs=1e-12), text
