"""RecTools, which takes ranks: the place in the order of the scores, duplicates included."""

import pandas as pd
from rectools import Columns
from rectools.metrics import MAP, MRR, NDCG, F1Beta, HitRate, Precision, Recall

from systems.tables import best_first

PACKAGES = ("rectools", "pandas", "numpy")
POPULATION = "every user with labels (interactions); one without predictions counts 0"

MEASURES = {
    "Precision": Precision,
    "Precision(r_precision)": lambda k: Precision(k, r_precision=True),
    "Recall": Recall,
    "F1Beta": F1Beta,
    "F1Beta(2)": lambda k: F1Beta(k, beta=2.0),
    "HitRate": HitRate,
    "MAP": MAP,
    "MAP(divide_by_k)": lambda k: MAP(k, divide_by_k=True),
    "MRR": MRR,
    "NDCG": NDCG,
    "NDCG(divide_by_achievable)": lambda k: NDCG(k, divide_by_achievable=True),
}


def run(users, measures):
    predicted = [
        (name, item, rank)
        for name, user in users.items()
        for rank, (item, _) in enumerate(best_first(user["predictions"]), start=1)
    ]
    liked = [(name, item) for name, user in users.items() for item, _ in user["labels"] or []]
    recommendations = pd.DataFrame(predicted, columns=[Columns.User, Columns.Item, Columns.Rank])
    interactions = pd.DataFrame(liked, columns=[Columns.User, Columns.Item])
    results = {}
    for measure in measures:
        name, _, k = measure.partition("@")
        metric = MEASURES[name](k=int(k))
        per_user = metric.calc_per_user(recommendations, interactions)
        results[measure] = per_user.to_dict(), metric.calc(recommendations, interactions)
    return results
