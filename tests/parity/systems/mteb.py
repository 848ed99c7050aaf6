"""MTEB's retrieval metrics: measures of pytrec_eval, and its own, which rank equal scores by the item, downwards.

It rounds most means to five decimals; here they are as they are.
"""

from systems.modules import skip_start
from systems.tables import mean, qrels_of, run_of

skip_start("mteb", "mteb._evaluators")

from mteb._evaluators import retrieval_metrics as metrics  # noqa: E402 - after what it must not import

PACKAGES = ("mteb", "pytrec-eval-terrier", "numpy")
POPULATION = "queries of both; capped recall leaves out those without a relevant label"

metrics.round = lambda value, digits=None: round(value) if digits is None else value
# What `calculate_retrieval_scores` returns, and its names for a query's values.
EVALUATED = {"ndcg": "ndcg_cut", "map": "map_cut", "recall": "recall", "precision": "P", "hit_rate": "success"}
CUSTOM = {"R_cap": metrics.recall_cap, "Hole": metrics.hole}


def run(users, measures):
    qrels = qrels_of(users)
    # A query that nobody judged is an error.
    predictions = {name: scores for name, scores in run_of(users).items() if name in qrels}
    results = {}
    for measure in measures:
        name, k = measure.rsplit("_at_", 1)
        if name in EVALUATED or name == "mrr":
            evaluated = metrics.calculate_retrieval_scores(predictions, qrels, [int(k)])
            (average,) = getattr(evaluated, name).values()
        if name in EVALUATED:
            per_user = {query: scores[f"{EVALUATED[name]}_{k}"] for query, scores in evaluated.all_scores.items()}
        elif name == "mrr":
            (values,) = metrics.mrr(qrels, predictions, [int(k)]).values()
            per_user = dict(zip(predictions, values, strict=True))
        else:
            per_user = {query: of_one(CUSTOM[name], query, qrels, predictions, int(k)) for query in predictions}
            average = mean(per_user.values())
        results[measure] = per_user, average
    return results


def of_one(measure, query, qrels, predictions, k):
    """Of one query at a time: `hole` of several together asks whether any of them has a label for the item."""
    ((value,),) = measure({query: qrels[query]}, {query: predictions[query]}, [k]).values()
    return float("nan") if value is None else value
