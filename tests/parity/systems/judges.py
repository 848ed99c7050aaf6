"""Agreement of judges: Cohen's kappa of scikit-learn, of the first two, and Krippendorff's alpha of the package, of all.

A user is a judge, and labels are the grades; items that a judge did not grade are missing. A measure is ``kappa:weights`` or
``alpha:level``. Scikit-learn's weights are of places among the labels, so it gets every whole grade as a label.
"""

import math

import numpy as np
from krippendorff import alpha
from sklearn.metrics import cohen_kappa_score

PACKAGES = ("scikit-learn", "krippendorff", "numpy")
POPULATION = "items that both judges graded, of alpha two or more judges"


def kappa(judges, weights):
    one, two, *_ = judges.values()
    both = [item for item in one if item in two]
    pairs = [[int(judge[item]) for item in both] for judge in (one, two)]
    grades = sorted({grade for side in pairs for grade in side})
    whole = range(grades[0], grades[-1] + 1)
    return cohen_kappa_score(*pairs, labels=list(whole), weights=None if weights == "none" else weights)


def alpha_of_all(judges, level):
    items = sorted({item for grades in judges.values() for item in grades})
    data = np.array([[grades.get(item, math.nan) for item in items] for grades in judges.values()])
    return alpha(reliability_data=data, level_of_measurement=level)


def run(users, measures):
    judges = {name: dict(user["labels"]) for name, user in users.items()}
    results = {}
    for measure in measures:
        figure, _, choice = measure.partition(":")
        results[measure] = {}, {"kappa": kappa, "alpha": alpha_of_all}[figure](judges, choice)
    return results
