"""MLflow's metrics of retrieval: lists of ids in the order of their scores, and the ids whose grade is above 0."""

import os
import warnings

# Before the package is there: it would look for its server.
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"

import mlflow.metrics
import pandas as pd

from systems.tables import best_first, relevant_of

PACKAGES = ("mlflow", "scikit-learn", "pandas", "numpy")
POPULATION = "every row of the table; one without predictions or without labels counts"


def run(users, measures):
    # Deprecated since 3.4 in favour of judges, and not replaced.
    warnings.simplefilter("ignore", FutureWarning)
    predictions = pd.Series([[item for item, _ in best_first(user["predictions"])] for user in users.values()])
    targets = pd.Series([relevant_of(user) for user in users.values()])
    results = {}
    for measure in measures:
        name, _, k = measure.partition("@")
        value = getattr(mlflow.metrics, name)(int(k)).eval_fn(predictions, targets)
        results[measure] = dict(zip(users, value.scores, strict=True)), value.aggregate_results["mean"]
    return results
