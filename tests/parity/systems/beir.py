"""BEIR's `EvaluateRetrieval`: measures of pytrec_eval, and its own, which rank by the score and keep the order of equal ones.

It rounds means to five decimals, and gives no values of single queries: these are means of one, unrounded.
"""

from beir.retrieval import custom_metrics, evaluation

from systems.tables import qrels_of, run_of

PACKAGES = ("beir", "pytrec-eval-terrier")
POPULATION = "queries of both (pytrec_eval), or every query with labels, one without a run as 0 (its own measures)"

# The means as they are.
evaluation.round = custom_metrics.round = lambda value, _: value
# The place of each measure in what `evaluate` returns, and the names of the others.
EVALUATED = {"NDCG": 0, "MAP": 1, "Recall": 2, "P": 3}
CUSTOM = {"MRR": "mrr", "R_cap": "recall_cap", "Hole": "hole", "Accuracy": "top_k_accuracy"}


def value(measure, qrels, predictions):
    name, k = measure.split("@")
    if name in EVALUATED:
        return evaluation.EvaluateRetrieval.evaluate(qrels, predictions, [int(k)])[EVALUATED[name]][measure]
    return evaluation.EvaluateRetrieval.evaluate_custom(qrels, predictions, [int(k)], CUSTOM[name])[measure]


def run(users, measures):
    qrels = qrels_of(users)
    # A query that nobody judged is an error.
    predictions = {name: scores for name, scores in run_of(users).items() if name in qrels}
    results = {}
    for measure in measures:
        with_value = predictions if measure.split("@")[0] in EVALUATED else qrels
        per_user = {
            name: value(measure, {name: qrels[name]}, {name: predictions[name]} if name in predictions else {})
            for name in with_value
        }
        results[measure] = per_user, value(measure, qrels, predictions)
        if measure.startswith("Hole"):
            # Of all queries together it asks whether any of them has a label for the item.
            results[f"{measure} of all"] = {}, results[measure][1]
            results[measure] = per_user, sum(per_user.values()) / len(per_user)
    return results
