"""torchmetrics.retrieval over dense vectors of the items predicted or labelled.

A labelled item that was not predicted has a score below the lowest, shared by all of them.
"""

import torch
from torchmetrics import retrieval
from torchmetrics.functional import retrieval as functional

from systems.tables import vectors_of

PACKAGES = ("torchmetrics", "torch")
POPULATION = "users who have both labels and predictions; without a relevant label 0 (empty_target_action='neg')"

# The function of one user, the class that averages, whether it takes grades.
MEASURES = {
    "average_precision": (functional.retrieval_average_precision, retrieval.RetrievalMAP, False),
    "reciprocal_rank": (functional.retrieval_reciprocal_rank, retrieval.RetrievalMRR, False),
    "precision": (functional.retrieval_precision, retrieval.RetrievalPrecision, False),
    "recall": (functional.retrieval_recall, retrieval.RetrievalRecall, False),
    "hit_rate": (functional.retrieval_hit_rate, retrieval.RetrievalHitRate, False),
    "r_precision": (functional.retrieval_r_precision, retrieval.RetrievalRPrecision, False),
    "auroc": (functional.retrieval_auroc, retrieval.RetrievalAUROC, False),
    "normalized_dcg": (functional.retrieval_normalized_dcg, retrieval.RetrievalNormalizedDCG, True),
}


def run(users, measures):
    vectors = {}
    for name, (grades, scores) in vectors_of(users).items():
        vectors[name] = torch.tensor(scores, dtype=torch.float32), torch.tensor(grades)
    indexes = torch.cat([torch.full((len(scores),), place) for place, (scores, _) in enumerate(vectors.values())])
    all_scores = torch.cat([scores for scores, _ in vectors.values()])
    all_grades = torch.cat([grades for _, grades in vectors.values()])
    results = {}
    for measure in measures:
        name, _, k = measure.partition("@")
        of_one, of_all, graded = MEASURES[name]
        options = {"top_k": int(k)} if k else {}
        per_user = {
            user: of_one(scores, grades if graded else grades > 0, **options)
            for user, (scores, grades) in vectors.items()
        }
        average = of_all(empty_target_action="neg", **options)
        average.update(all_scores, all_grades if graded else all_grades > 0, indexes=indexes)
        results[measure] = per_user, average.compute()
    return results
