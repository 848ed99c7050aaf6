"""One long table without ids beside the NDCG of learning to rank: the same value for each query."""

import math

import numpy as np
import pytest
from parity.environments import run
from parity.users import User

from spark_rankeval import score_users

# Our metric, and what the system gives a query without a relevant row.
OURS = {
    "sklearn@5": ("ndcg(gain='linear', ideal='labels', ties='average')@5", 0.0),
    "lightgbm@5": ("ndcg(gain='exponential', ideal='labels')@5", 1.0),
}


def queries(*, tied):
    """Rows by query: lists of one row and of many, queries without a relevant row, and grades from 0 to 4."""
    random = np.random.default_rng(11)
    made = {}
    for query in range(80):
        n_rows = int(random.integers(1, 30))
        scores = random.integers(0, 6, n_rows) / 8 if tied else random.permutation(n_rows) / 64
        grades = random.integers(0, 5, n_rows) * (query % 9 > 0) * (random.random(n_rows) < 0.6)
        made[f"q{query}"] = [
            (f"d{row}", float(s), float(g)) for row, (s, g) in enumerate(zip(scores, grades, strict=True))
        ]
    return made


@pytest.mark.parametrize("system", ["ranked_rows"])
@pytest.mark.parametrize("measure", OURS)
def test_rows_have_the_ndcg_of_learning_to_rank(spark, system, measure):
    made = queries(tied=measure.startswith("sklearn"))
    users = {
        name: User([row[:2] for row in rows], [(item, grade) for item, _, grade in rows]) for name, rows in made.items()
    }
    theirs = run(system, users, [measure])["measures"][measure]["per_user"]
    rows = [(name, score, grade) for name, listed in made.items() for _, score, grade in listed]
    metric, without_relevant = OURS[measure]
    table = spark.createDataFrame(rows, "query string, score double, label double")
    scored = score_users(table, None, {"ndcg": metric}, user="query", item=None, score="score", relevance="label")
    ours = {row["query"]: row["ndcg"] for row in scored.select("query", "ndcg").collect()}
    assert len(ours) == 80
    compared = {name: without_relevant if math.isnan(ours[name]) else ours[name] for name in theirs}
    assert compared == pytest.approx(theirs, abs=1e-12)
    assert len(theirs) > 70
