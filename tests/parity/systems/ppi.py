"""Prediction-powered means of ppi-python, of queries with a value by a model and, if people graded them, by people.

A user is a query: `predictions` holds the model's value, `labels` the human value and the query's weight. `measures` are
``what:λ:level``: the estimate, or an end of its interval, in which the model's values count by λ.
"""

import numpy as np
from ppi_py import ppi_mean_ci, ppi_mean_pointestimate

PACKAGES = ("ppi-python",)
POPULATION = "every query"


def run(users, measures):
    graded = [user for user in users.values() if user["labels"]]
    others = [user for user in users.values() if not user["labels"]]
    judge, everyone = (np.array([user["predictions"][0][1] for user in part]) for part in (graded, others))
    human, weights = (np.array([user["labels"][0][place] for user in graded]) for place in (0, 1))
    results = {}
    for measure in measures:
        what, weight, level = measure.split(":")
        given = {"lam": float(weight), "w": weights}
        if what == "value":
            value = ppi_mean_pointestimate(human, judge, everyone, **given)
        else:
            low, high = ppi_mean_ci(human, judge, everyone, alpha=1 - float(level), **given)
            value = low if what == "low" else high
        results[measure] = {}, np.ravel(value)[0]
    return results
