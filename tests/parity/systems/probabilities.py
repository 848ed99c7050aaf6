"""scikit-learn's log-loss, over all pairs of a user and an item that the user's list and labels both have.

A measure is ``log_loss:float64`` or ``log_loss:float32``, by the floats that hold the probabilities.
"""

import numpy as np
from sklearn.metrics import log_loss

PACKAGES = ("scikit-learn", "numpy")
POPULATION = "all pairs together; no user has a value"


def run(users, measures):
    labels, scores = [], []
    for user in users.values():
        grades = dict(user["labels"])
        for item, score in user["predictions"]:
            labels.append(grades[item])
            scores.append(score)
    return {
        measure: ({}, log_loss(np.array(labels), np.array(scores, measure.partition(":")[2]))) for measure in measures
    }
