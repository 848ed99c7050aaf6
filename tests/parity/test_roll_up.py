"""Chunks rolled up to documents beside Haystack's document evaluators, through the front door: each query, and the mean."""

import random
from typing import NamedTuple

import pytest
from parity.compared import close, differences
from parity.environments import run

from spark_rankeval import evaluate, roll_up

MEASURES = {
    "hit": "hit_rate(undefined='zero')",
    "recall": "recall(undefined='zero')",
    "mrr": "rr(undefined='zero')",
    "map": "ap(denominator='labels', undefined='zero')",
    "ndcg": "ndcg(gain='linear', ideal='labels', undefined='zero')",
}


class User(NamedTuple):
    """A query's retrieved chunks with scores, and labelled chunks with grades; several are of one document."""

    predictions: list[tuple[str, float]]
    labels: list[tuple[str, int]]


def random_users():
    """Queries with ties, with documents of several labelled chunks, without labels, and without a list."""
    rng = random.Random(20261128)
    chunks = [f"{document}#{number}" for document in "abcdefghij" for number in range(4)]
    users = {}
    for query in range(400):
        few_scores = rng.random() < 0.3
        retrieved = rng.sample(chunks, rng.choice((0, 1, 5, 12, 30)) if query else 5)
        labelled = rng.sample(chunks, rng.choice((0, 1, 3, 8)) if query else 3)
        scores = [rng.choice((0.25, 0.5, 0.75)) if few_scores else rng.random() for _ in retrieved]
        if retrieved or labelled:
            users[f"q{query:03d}"] = User(
                list(zip(retrieved, scores, strict=True)), [(chunk, rng.randint(1, 3)) for chunk in labelled]
            )
    return users


@pytest.mark.parametrize("k_counts", ["documents", "chunks"])
@pytest.mark.parametrize("system", ["haystack"])
def test_haystack_computes_the_same(spark, system, k_counts):
    users = random_users()
    rows = {
        side: [
            (query, chunk, chunk.partition("#")[0], value)
            for query, user in users.items()
            for chunk, value in getattr(user, side)
        ]
        for side in User._fields
    }
    predictions = spark.createDataFrame(
        rows["predictions"], "query string, chunk string, document string, score double"
    )
    labels = spark.createDataFrame(rows["labels"], "query string, chunk string, document string, grade int")
    about = {"document": "document", "user": "query", "k_counts": k_counts}
    columns = {"user": "query", "item": "document", "score": "score", "relevance": "grade"}
    lists, grades = roll_up(predictions, score="score", **about), roll_up(labels, relevance="grade", **about)
    result = evaluate(lists, grades, MEASURES, **columns)
    per_user = result.per_user.toPandas().set_index("query")
    names = {measure: f"{measure} of {k_counts}" for measure in MEASURES}
    theirs = run(system, users, list(names.values()))["measures"]
    for measure, name in names.items():
        assert differences(theirs[name]["per_user"], per_user[measure].to_dict(), 1e-12) == {}, name
        assert close(theirs[name]["mean"], result[measure], 1e-12), name
