"""LightGBM's evaluation of a booster that has learned nothing: each query is a data set whose scores are where learning would start."""

import lightgbm
import numpy as np

from systems.tables import mean, rows_of

PACKAGES = ("lightgbm", "numpy")
POPULATION = "queries; the mean is over all of them"


def run(users, measures):
    cutoffs = sorted({int(measure.partition("@")[2]) for measure in measures})
    names = sorted({measure.partition("@")[0] for measure in measures})
    parameters = {"objective": "lambdarank", "metric": names, "eval_at": cutoffs, "verbose": -1, "num_threads": 1}
    values = {}
    for user, (grades, scores) in rows_of(users).items():
        data = lightgbm.Dataset(np.zeros((len(grades), 1)), grades, group=[len(grades)], init_score=scores)
        booster = lightgbm.Booster(parameters, data)
        values[user] = {name: value for _, name, value, _ in booster.eval_train()}
    return {
        measure: (
            {user: of_user[measure] for user, of_user in values.items()},
            mean([v[measure] for v in values.values()]),
        )
        for measure in measures
    }
