"""Recommenders (Microsoft), by its pandas evaluation, which gives means alone: a user's value is the mean of one."""

import pandas as pd
from recommenders.evaluation import python_evaluation as evaluation

from systems.tables import best_first

PACKAGES = ("recommenders", "pandas", "numpy")
POPULATION = "users who have both labels and predictions; others are dropped"
COLUMNS = {"col_user": "user", "col_item": "item", "col_prediction": "score", "col_rating": "grade"}
# Values of single users are slow to get, a dozen of joins each: as many as tell formulas apart.
N_SINGLE = 400

MEASURES = {
    "precision_at_k": evaluation.precision_at_k,
    "recall_at_k": evaluation.recall_at_k,
    "r_precision_at_k": evaluation.r_precision_at_k,
    "map": evaluation.map,
    "map_at_k": evaluation.map_at_k,
    "ndcg_at_k": evaluation.ndcg_at_k,
    "ndcg_at_k(raw,log2)": lambda *args, **named: evaluation.ndcg_at_k(
        *args, score_type="raw", discfun_type="log2", **named
    ),
    "ndcg_at_k(exp,log2)": lambda *args, **named: evaluation.ndcg_at_k(
        *args, score_type="exp", discfun_type="log2", **named
    ),
}


def run(users, measures):
    labels = frame(
        [(name, item, float(grade)) for name, user in users.items() for item, grade in user["labels"] or []], "grade"
    )
    predictions = frame(
        [(name, item, score) for name, user in users.items() for item, score in best_first(user["predictions"])],
        "score",
    )
    common = [name for name, user in users.items() if user["labels"] and user["predictions"]]
    labels_of, predictions_of = dict(list(labels.groupby("user"))), dict(list(predictions.groupby("user")))
    results = {}
    for measure in measures:
        name, _, k = measure.partition("@")
        score = MEASURES[name]
        per_user = {
            user: score(labels_of[user], predictions_of[user], k=int(k), **COLUMNS) for user in common[:N_SINGLE]
        }
        results[measure] = per_user, score(labels, predictions, k=int(k), **COLUMNS)
    return results


def frame(rows, value):
    table = pd.DataFrame(rows, columns=["user", "item", value])
    return table.astype({"item": int})
