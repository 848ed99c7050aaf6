"""RecBole's top-k metrics, on what its evaluator hands them: which of the first k places are hits, and how many labels.

RecBole ranks all items itself and has no short lists: a place that a short list leaves empty is no hit.
"""

import torch
from recbole.evaluator import metrics as recbole
from recbole.evaluator.collector import DataStruct

from systems.tables import best_first

PACKAGES = ("recbole", "torch", "numpy")
POPULATION = "users with labels (RecBole evaluates those who have test items)"

MEASURES = {
    "Precision": recbole.Precision, "Recall": recbole.Recall, "Hit": recbole.Hit, "MRR": recbole.MRR,
    "MAP": recbole.MAP, "NDCG": recbole.NDCG,
}  # fmt: skip


def run(users, measures):
    names = [name for name, user in users.items() if user["labels"]]
    results = {}
    for measure in measures:
        name, _, k = measure.partition("@")
        rows = []
        for user in names:
            liked = dict(users[user]["labels"])
            hits = [int(item in liked) for item, _ in best_first(users[user]["predictions"])][: int(k)]
            rows.append(hits + [0] * (int(k) - len(hits)) + [len(liked)])
        data = DataStruct()
        data.set("rec.topk", torch.tensor(rows))
        # The mean is rounded to as many places as the configuration says.
        metric = MEASURES[name]({"topk": [int(k)], "metric_decimal_place": 17})
        hits, n_labels = metric.used_info(data)
        arguments = (hits, n_labels) if name in ("Recall", "MAP", "NDCG") else (hits,)
        per_user = metric.metric_info(*arguments)[:, int(k) - 1]
        (average,) = metric.calculate_metric(data).values()
        results[measure] = dict(zip(names, per_user, strict=True)), average
    return results
