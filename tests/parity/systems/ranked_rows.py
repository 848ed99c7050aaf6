"""NDCG of learning to rank, query by query: rows of a query are all that there is, and have no ids.

A measure is ``sklearn@k`` or ``lightgbm@k``. LightGBM has no function of scores and labels: a model without a tree gives each row its
initial score, and each query is a data set of its own.
"""

import lightgbm
import numpy as np
from sklearn.metrics import ndcg_score

from systems.tables import mean

PACKAGES = ("scikit-learn", "lightgbm", "numpy")
POPULATION = "queries with rows; LightGBM gives a query without a relevant row the value 1, scikit-learn 0"


def rows_of(user):
    scores, grades = dict(user["predictions"] or ()), dict(user["labels"] or ())
    return np.array([grades.get(item, 0.0) for item in scores]), np.array([*scores.values()])


def by_sklearn(queries, k):
    return {name: ndcg_score([grades], [scores], k=k) for name, (grades, scores) in queries.items() if len(scores) > 1}


def by_lightgbm(queries, k):
    def data_set(grades, scores, reference=None):
        features = np.zeros((len(grades), 1))
        return lightgbm.Dataset(features, grades, group=[len(grades)], init_score=scores, reference=reference)

    training = data_set(np.array([0.0, 1.0]), np.zeros(2))
    valid = [data_set(*rows, reference=training) for rows in queries.values()]
    found = {}
    options = {"objective": "lambdarank", "metric": "ndcg", "eval_at": [k], "verbose": -1}
    callback = lightgbm.record_evaluation(found)
    lightgbm.train(options, training, 1, valid_sets=valid, valid_names=[*queries], callbacks=[callback])
    return {name: found[name][f"ndcg@{k}"][0] for name in queries}


def run(users, measures):
    queries = {name: rows for name, user in users.items() if len((rows := rows_of(user))[0])}
    results = {}
    for measure in measures:
        system, _, k = measure.partition("@")
        per_user = {"sklearn": by_sklearn, "lightgbm": by_lightgbm}[system](queries, int(k))
        results[measure] = per_user, mean(per_user.values())
    return results
