"""MTEB's confidence of a query's scores, by its kind."""

from systems.modules import skip_start
from systems.tables import qrels_of, run_of

skip_start("mteb", "mteb._evaluators")

from mteb._evaluators import retrieval_metrics as metrics  # noqa: E402 - after what it must not import

PACKAGES = ("mteb", "pytrec-eval-terrier", "numpy")
POPULATION = "queries of both"


def run(users, measures):
    qrels = qrels_of(users)
    predictions = {name: scores for name, scores in run_of(users).items() if name in qrels}
    confidence = {query: metrics.confidence_scores(list(scores.values())) for query, scores in predictions.items()}
    per_kind = {kind: {query: each[kind] for query, each in confidence.items()} for kind in measures}
    return {kind: (values, sum(values.values()) / len(values)) for kind, values in per_kind.items()}
