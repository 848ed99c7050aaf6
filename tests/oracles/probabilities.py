"""Scores as probabilities, over all pairs of a user and an item: plain loops, and normalised entropy as torchrec computes it.

torchrec adds up cross-entropies of base 2, −y·log2 p − (1 − y)·log2(1 − p), and divides by that of the mean label instead of p, which is
−P·log2 m − N·log2(1 − m) for P pairs with y = 1, N others and m = P ÷ (P + N). Its calibration is Σ p ÷ Σ y.
"""

import math

EPSILON = 2.0**-52


def pairs(world, users, k=None, threshold=None, unlabelled="zero"):
    """(p, y) of each pair that counts."""
    for user in users:
        labels, scores = dict(world.labels.get(user, [])), dict(world.predictions.get(user, []))
        for item in world.list_of(user, k):
            if item in labels or unlabelled == "zero":
                grade = labels.get(item)
                relevant = grade is not None and (grade > 0 if threshold is None else grade >= threshold)
                yield scores[item], float(relevant)


def cross_entropy(p, y, log=math.log):
    def clipped(chance):
        return min(max(chance, EPSILON), 1 - EPSILON)

    return -y * log(clipped(p)) - (1 - y) * log(clipped(1 - p))


def log_loss(those):
    return math.fsum(cross_entropy(p, y) for p, y in those) / len(those) if those else math.nan


def normalised_entropy(those):
    n_relevant, n = math.fsum(y for _, y in those), len(those)
    if not 0 < n_relevant < n:
        return math.nan
    base = n_relevant / n
    return math.fsum(cross_entropy(p, y, math.log2) for p, y in those) / (
        -n_relevant * math.log2(base) - (n - n_relevant) * math.log2(1 - base)
    )


def calibration_ratio(those):
    n_relevant = math.fsum(y for _, y in those)
    return math.fsum(p for p, _ in those) / n_relevant if n_relevant else math.nan


FORMULAS = {each.__name__: each for each in (log_loss, normalised_entropy, calibration_ratio)}


def value(metric, world, users):
    """A resolved metric of 64-bit scores, over the lists of some users."""
    found = FORMULAS[metric.name](list(pairs(world, users, metric.k, metric.threshold, metric.unlabelled)))
    return {"nan": math.nan, "zero": 0.0, "one": 1.0}[metric.undefined] if math.isnan(found) else found
