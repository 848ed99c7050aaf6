"""RePlay, by pandas tables; given dictionaries it would leave equal scores in their order."""

import warnings

import pandas as pd
from replay.metrics import MAP, MRR, NDCG, HitRate, Precision, Recall, RocAuc
from replay.metrics.base_metric import MetricDuplicatesWarning
from replay.metrics.descriptors import PerUser

PACKAGES = ("replay-rec", "polars", "pandas", "numpy")
POPULATION = "every user of the ground truth; one without predictions or without labels counts 0"

MEASURES = {
    "Precision": Precision, "Recall": Recall, "MAP": MAP, "NDCG": NDCG, "MRR": MRR, "HitRate": HitRate,
    "RocAuc": RocAuc,
}  # fmt: skip


def run(users, measures):
    # It warns of duplicates, which are what one of the variants is about.
    warnings.simplefilter("ignore", MetricDuplicatesWarning)
    predictions = pd.DataFrame(
        [(name, item, score) for name, user in users.items() for item, score in user["predictions"] or []],
        columns=["query_id", "item_id", "rating"],
    )
    truth = pd.DataFrame(
        [(name, item) for name, user in users.items() for item, _ in user["labels"] or []],
        columns=["query_id", "item_id"],
    )
    results = {}
    for measure in measures:
        name, _, k = measure.partition("@")
        ((_, per_user),) = MEASURES[name](int(k), mode=PerUser())(predictions, truth).items()
        ((_, average),) = MEASURES[name](int(k))(predictions, truth).items()
        results[measure] = dict(per_user), average
    return results
