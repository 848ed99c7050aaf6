"""MTEB's confidence of a query's scores, and the normalised area under the abstention curve of a measure, by each kind of it.

A measure is ``ndcg_at_10_max``: of each query the confidence ``max``, and as the mean the area for ``ndcg_at_10``.
"""

from systems.modules import skip_start
from systems.tables import qrels_of, run_of

skip_start("mteb", "mteb._evaluators")

from mteb._evaluators import retrieval_metrics as metrics  # noqa: E402 - after what it must not import

PACKAGES = ("mteb", "pytrec-eval-terrier", "numpy")
POPULATION = "queries of both"
CALLED = {"ndcg": "NDCG", "map": "MAP", "recall": "Recall"}


def run(users, measures):
    qrels = qrels_of(users)
    predictions = {name: scores for name, scores in run_of(users).items() if name in qrels}
    confidence = {query: metrics.confidence_scores(list(scores.values())) for query, scores in predictions.items()}
    results = {}
    for measure in measures:
        base, kind = measure.rsplit("_", 1)
        name, k = base.rsplit("_at_", 1)
        areas = metrics.calculate_retrieval_scores(predictions, qrels, [int(k)]).naucs
        per_user = {query: each[kind] for query, each in confidence.items()}
        results[measure] = per_user, areas[f"nAUC_{CALLED[name]}@{k}_{kind}"]
    return results
