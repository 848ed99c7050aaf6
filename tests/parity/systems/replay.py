"""RePlay, by dictionaries of lists; every user of the ground truth counts."""

import warnings

from replay.metrics import MAP, MRR, NDCG, HitRate, Precision, Recall, RocAuc
from replay.metrics.base_metric import MetricDuplicatesWarning
from replay.metrics.descriptors import PerUser

PACKAGES = ("replay-rec", "polars", "pandas", "numpy")
POPULATION = "every user of the ground truth; one without predictions or without labels counts 0"

MEASURES = {
    "Precision": Precision,
    "Recall": Recall,
    "MAP": MAP,
    "NDCG": NDCG,
    "MRR": MRR,
    "HitRate": HitRate,
    "RocAuc": RocAuc,
}


def run(users, measures):
    # It warns of duplicates, which are what one of the variants is about.
    warnings.simplefilter("ignore", MetricDuplicatesWarning)
    predictions = {name: user["predictions"] for name, user in users.items() if user["predictions"] is not None}
    truth = {name: [item for item, _ in user["labels"]] for name, user in users.items() if user["labels"]}
    results = {}
    for measure in measures:
        name, _, k = measure.partition("@")
        ((_, per_user),) = MEASURES[name](int(k), mode=PerUser())(predictions, truth).items()
        ((_, average),) = MEASURES[name](int(k))(predictions, truth).items()
        results[measure] = dict(per_user), average
    return results
