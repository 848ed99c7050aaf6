"""XGBoost's evaluation of a booster that has learned nothing: each query is a matrix whose scores are the margin.

A measure is its name, and perhaps a parameter: ``ndcg@5|ndcg_exp_gain=false``. `map` and `pre` take labels of 0 and 1 alone: a grade
above 0 is 1.
"""

import numpy as np
import xgboost

from systems.tables import mean, rows_of

PACKAGES = ("xgboost-cpu", "numpy")
POPULATION = "queries; the mean is over all of them"


def values_of(grades, scores, measures, **parameters):
    """What one query's evaluation prints, by measure."""
    data = xgboost.DMatrix(np.zeros((len(grades), 1)), grades, base_margin=scores.astype(np.float32))
    data.set_group([len(grades)])
    settings = {"objective": "rank:ndcg", "eval_metric": measures, "verbosity": 0, "nthread": 1, **parameters}
    printed = xgboost.Booster(settings, [data]).eval(data, "rows").split("\t")[1:]
    return {text.rpartition(":")[0].removeprefix("rows-"): float(text.rpartition(":")[2]) for text in printed}


def run(users, measures):
    plain = [measure for measure in measures if "|" not in measure]
    graded = [measure for measure in plain if measure.startswith("ndcg")]
    binary = [measure for measure in plain if measure not in graded]
    results = {measure: {} for measure in measures}
    for user, (grades, scores) in rows_of(users).items():
        values = values_of(grades, scores, graded) | values_of(np.minimum(grades, 1), scores, binary)
        for measure in set(measures) - set(plain):
            name, _, setting = measure.partition("|")
            values[measure] = values_of(grades, scores, [name], **dict([setting.split("=")]))[name]
        for measure in measures:
            results[measure][user] = values[measure]
    return {measure: (per_user, mean(per_user.values())) for measure, per_user in results.items()}
