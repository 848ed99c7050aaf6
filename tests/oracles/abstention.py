"""The abstention curve and its areas as MTEB 2.26 computes them, in mteb/_evaluators/retrieval_metrics.py."""

import numpy as np

RATES = np.linspace(0, 1, 11)[:-1]


def curve(confidence, values):
    """The mean of the values at each rate; of equal confidence those that come first are left out first."""
    order = np.argsort(confidence, kind="stable")
    return [values[order[min(round(rate * len(order)), len(order) - 1) :]].mean() for rate in RATES]


def nauc(confidence, values):
    """The area under the curve, and the normalised one; that of scikit-learn's ``auc`` is written out."""
    curves = curve(confidence, values), curve(values, values)
    area, oracle = (sum(np.diff(RATES) * (np.array(each[1:]) + each[:-1]) / 2) for each in curves)
    flat = curves[1][0] * (RATES[-1] - RATES[0])
    return area, (area - flat) / (oracle - flat)
