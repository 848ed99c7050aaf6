"""What is evaluated while things break: the data, and the ways through the package, each giving all its figures as text."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
from worlds.random_logs import assert_tricky, random_logs

from spark_rankeval import BCa, Facts, all_pairs, compare, evaluate, score_users, write_per_user

N_USERS, CUTOFF = 3000, 10
METRICS = [
    "precision@5", "recall@10", "ap@10", "rr@10", "ndcg@10", "err(max_grade=3)@5", "rbp@10", "auc", "kendall_tau",
]  # fmt: skip
#: Of all lists together.
TOGETHER = ["catalogue_coverage(among='items')@10", "gini(among='recommended')@5", "entropy@10", "personalisation@10"]
#: Four tasks a shuffle, none merged and no join by broadcast, so that a fault meets a part of the users in the middle of a
#: batch job; several batches a task, so that the task has some behind it.
PLAN = {
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200",
}


def write_data(folder):
    """Predictions of two models and labels as files, and nothing else in the folder."""
    random = np.random.default_rng(0)
    labels = None
    for number, model in enumerate(("old", "new")):
        logs = random_logs(N_USERS, CUTOFF, seed=number)
        assert_tricky(logs, CUTOFF)
        rows = [(user, item, score) for user, pairs in enumerate(logs.predictions) for item, score in pairs]
        pd.DataFrame(rows, columns=["user", "item", "score"]).to_parquet(Path(folder) / f"{model}.parquet")
        labels = labels or [(user, item, grade) for user, pairs in enumerate(logs.labels) for item, grade in pairs]
    # Sums of such weights depend on the order in which they are added, if nothing is done about it.
    labels = [(*label, 1 + random.random()) for label in labels]
    pd.DataFrame(labels, columns=["user", "item", "grade", "weight"]).to_parquet(Path(folder) / "labels.parquet")
    # Some items that are recommended are not in the table.
    pd.DataFrame({"item": range(3, 60)}).to_parquet(Path(folder) / "items.parquet")


def _call(spark, folder, models=("old", "new")):
    predictions = {name: spark.read.parquet(f"{folder}/{name}.parquet") for name in models}
    labels = spark.read.parquet(f"{folder}/labels.parquet")
    return {"predictions": predictions, "labels": labels, "metrics": METRICS, "score": "score", "relevance": "grade"}


_INTERVALS = {"ci": BCa(replicates=200, seed=5), "quantiles": (0.25, 0.5, 0.9)}


def evaluated(spark, folder):
    """Means, intervals by the bootstrap, quantiles and counts; and the estimates of labels with weights."""
    call = _call(spark, folder)
    estimates = evaluate(**call | {"metrics": ["recall@10", "dcg(estimator='snips')@5"]}, weight="weight")
    return evaluate(**call, **_INTERVALS).to_json() + estimates.to_json()


def evaluated_together(spark, folder):
    """Values of all lists together, of items that are added up in a shuffle of their own."""
    call = {**_call(spark, folder), "metrics": TOGETHER}
    return evaluate(**call, facts=Facts(items=spark.read.parquet(f"{folder}/items.parquet")), **_INTERVALS).to_json()


def scored(spark, folder):
    """Every user's values and counts."""
    return figures_of(score_users(**_call(spark, folder)))


def compared(spark, folder):
    """Differences with intervals and p-values of both tests, of two models and of all pairs; needs `stored`."""
    table = spark.read.parquet(stored_in(folder))
    pairs = all_pairs(table, test="randomised", replicates=199, seed=3)
    return compare(table, "old", replicates=999, seed=3).to_json() + pairs.to_json()


def stored(spark, folder, path, mode="errorifexists", models=("old", "new")):
    """The per-user table written to a place, and the figures of what was written."""
    return write_per_user(score_users(**_call(spark, folder, models)), path, mode, **_INTERVALS).to_json()


def stored_in(folder):
    """Where `compared` looks for the per-user table."""
    return f"{folder}/per_user"


def figures_of(per_user):
    """All rows of a per-user table in the order of models and users; floating numbers to the last bit."""
    rows = sorted(map(tuple, per_user.collect()), key=lambda row: (str(row[1]), row[0]))
    texts = [[value.hex() if isinstance(value, float) else str(value) for value in row] for row in rows]
    return json.dumps([per_user.columns, *texts])


#: The ways that are disturbed, by name.
WAYS = {"evaluate": evaluated, "all lists": evaluated_together, "score_users": scored, "compare": compared}
