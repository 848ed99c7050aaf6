"""Every metric of one user, from the definitions, with plain loops: slow, and easy to check by eye.

Predictions are (item, score) pairs, all scores None where the list comes in rank order; labels are (item, grade) pairs.
"""

import math
from fractions import Fraction

METRICS_OF_GAIN = ("cg", "dcg", "idcg", "ndcg", "err", "nerr", "rbp", "rbp_residual", "gap")


def rank(predictions, ties):
    """The predictions best first."""
    if all(score is None for _, score in predictions):
        return list(predictions)
    if ties == "position":
        return sorted(predictions, key=lambda pair: -pair[1])
    by_item = sorted(predictions, key=lambda pair: pair[0], reverse=ties == "item_desc")
    return sorted(by_item, key=lambda pair: -pair[1])


class User:
    """One user's ranked list and labels, duplicates settled."""

    def __init__(self, predictions, labels, ties="item_asc", duplicates="each", conflicting="highest"):
        self.items, self.scores = [], []
        for item, score in rank(predictions, ties):
            if duplicates == "keep_best" and item in self.items:
                continue
            self.items.append(item)
            self.scores.append(score)
        self.grade = {}
        for item, grade in labels:
            beaten = conflicting == "highest" and item in self.grade and grade <= self.grade[item]
            if not beaten:
                self.grade[item] = grade
        # The raw list keeps its duplicates, each with the one grade that its item has.
        self.raw_grades = [self.grade[item] for item, _ in labels]

    def is_hit(self, item, threshold):
        return item in self.grade and is_relevant(self.grade[item], threshold)

    def n_relevant(self, threshold):
        return sum(is_relevant(grade, threshold) for grade in self.grade.values())

    def n_hits(self, k, threshold):
        return sum(self.is_hit(item, threshold) for item in self.items[:k])


def is_relevant(grade, threshold):
    if threshold is None:
        return grade > 0
    return threshold == -math.inf or grade >= threshold


def smaller(k, n):
    """min(k, n), where no cutoff is endless."""
    return n if k is None else min(k, n)


def value(name, user, k=None, undefined="nan", **parameters):
    """A metric by its name; parameters that are not given have the definitions' defaults."""
    threshold = parameters.get("relevance_threshold")
    if parameters.get("ideal") == "label_order":
        defined = len(user.grade) > 0
    elif name in METRICS_OF_GAIN:
        defined = any(grade > 0 for grade in user.grade.values())
    else:
        defined = user.n_relevant(threshold) > 0
    if name == "judged":
        defined = defined and len(user.items) > 0
    if not defined:
        return math.nan if undefined == "nan" else 0.0
    if name in ("err", "nerr") or (name == "rbp" and parameters.get("gain") == "max_grade"):
        max_grade = parameters.get("max_grade")
        if any(grade > (1 if max_grade is None else max_grade) for grade in user.grade.values()):
            return math.nan
    if not user.items:
        return 0.0
    return float(FORMULAS[name](user, k, **parameters))


def precision(user, k, denominator="k", relevance_threshold=None):
    places = len(user.items) if k is None else k
    if denominator == "predictions":
        places = smaller(k, len(user.items))
    return Fraction(user.n_hits(k, relevance_threshold), places)


def recall(user, k, denominator="labels", relevance_threshold=None):
    findable = user.n_relevant(relevance_threshold)
    if denominator == "min_k_labels":
        findable = smaller(k, findable)
    return Fraction(user.n_hits(k, relevance_threshold), findable)


def fbeta(user, k, beta=1.0, relevance_threshold=None):
    p = precision(user, k, relevance_threshold=relevance_threshold)
    r = recall(user, k, relevance_threshold=relevance_threshold)
    square = Fraction(beta) ** 2
    if square * p + r == 0:
        return 0
    return (1 + square) * p * r / (square * p + r)


def f1(user, k, relevance_threshold=None):
    p = precision(user, k, relevance_threshold=relevance_threshold)
    r = recall(user, k, relevance_threshold=relevance_threshold)
    return 2 * p * r / (p + r) if p + r else 0


def hit_rate(user, k, relevance_threshold=None):
    return 1 if user.n_hits(k, relevance_threshold) > 0 else 0


def r_precision(user, k, relevance_threshold=None):
    gamma = user.n_relevant(relevance_threshold)
    return Fraction(user.n_hits(gamma, relevance_threshold), gamma)


def ap(user, k, denominator="hits", decay=1.0, by="rank", relevance_threshold=None):
    rho_k, gamma = smaller(k, len(user.items)), user.n_relevant(relevance_threshold)
    hits, total = 0, 0.0
    if by == "rank":
        for j in range(1, rho_k + 1):
            if user.is_hit(user.items[j - 1], relevance_threshold):
                hits += 1
                total += decay ** (j - 1) * hits / j
    else:
        hits_above = 0
        for j in range(1, rho_k + 1):
            hits += user.is_hit(user.items[j - 1], relevance_threshold)
            score = user.scores[j - 1]
            last_of_its_score = j == rho_k or score is None or user.scores[j] != score
            if last_of_its_score:
                total += (hits - hits_above) * hits / j
                hits_above = hits
    if hits == 0:
        return 0
    return (
        total
        / {
            "hits": hits,
            "labels": gamma,
            "min_k_labels": smaller(k, gamma),
            "min_k_predictions": smaller(k, len(user.items)),
            "min_labels_predictions": min(gamma, rho_k),
            "k": len(user.items) if k is None else k,
        }[denominator]
    )


def rr(user, k, relevance_threshold=None):
    for j, item in enumerate(user.items[:k], start=1):
        if user.is_hit(item, relevance_threshold):
            return Fraction(1, j)
    return 0


def gain_of(grade, gain, below_threshold, threshold, negative_gains):
    if gain == "binary":
        return 1 if is_relevant(grade, threshold) else 0
    if not negative_gains:
        grade = max(grade, 0)
    if below_threshold == "zero" and not is_relevant(grade, threshold):
        grade = 0
    return 2**grade - 1 if gain == "exponential" else grade


def discount_of(j, discount):
    if discount == "ln":
        return 1 / math.log(j + 1)
    return 1 / math.log2(max(j, 2) if discount == "log2_from_two" else j + 1)


def gains_of(user, k, gain, below_threshold, threshold, negative_gains=False):
    """The gain at every rank down to k."""
    return [
        gain_of(user.grade[item], gain, below_threshold, threshold, negative_gains) if item in user.grade else 0
        for item in user.items[:k]
    ]


def discounted(gains, discount):
    total = 0.0
    for j, gain in enumerate(gains, start=1):
        total += gain * discount_of(j, discount)
    return total


def cg(user, k, below_threshold="keep", relevance_threshold=None):
    return sum(gains_of(user, k, "linear", below_threshold, relevance_threshold))


def dcg(user, k, gain="exponential", discount="log2", below_threshold="keep", relevance_threshold=None):
    return discounted(gains_of(user, k, gain, below_threshold, relevance_threshold), discount)


def dcg_and_ideal(
    user, k, gain="exponential", discount="log2", ideal="retrieved", below_threshold="keep", relevance_threshold=None
):
    as_mllib = ideal == "label_order"
    gains = gains_of(user, k, gain, below_threshold, relevance_threshold, negative_gains=as_mllib)
    if ideal == "retrieved":
        best = sorted(gains, reverse=True)
    elif ideal == "k_ones":
        best = [1] * k
    else:
        grades = sorted(user.grade.values(), reverse=True)
        if as_mllib:
            grades = user.raw_grades[: len(user.grade)]
        best = [gain_of(grade, gain, below_threshold, relevance_threshold, as_mllib) for grade in grades][:k]
    return discounted(gains, discount), discounted(best, discount)


def idcg(user, k, **parameters):
    gained, ideal = dcg_and_ideal(user, k, **parameters)
    return 0 if gained == 0 else ideal


def ndcg(user, k, **parameters):
    gained, ideal = dcg_and_ideal(user, k, **parameters)
    return 0 if gained == 0 or ideal == 0 else gained / ideal


def label_gains(user, below_threshold, threshold):
    """The gains of all labelled items, best first."""
    gains = [gain_of(grade, "linear", below_threshold, threshold, False) for grade in user.grade.values()]
    return sorted(gains, reverse=True)


def expected_reciprocal_rank(gains, max_grade, q):
    total, reached = 0.0, 1.0
    for r, gain in enumerate(gains, start=1):
        stops = gain / (max_grade + 1) if q == "linear" else (2**gain - 1) / 2**max_grade
        total += reached * stops / r
        reached *= 1 - stops
    return total


def err(user, k, max_grade=None, q="exponential", below_threshold="keep", relevance_threshold=None):
    gains = gains_of(user, k, "linear", below_threshold, relevance_threshold)
    return expected_reciprocal_rank(gains, 1 if max_grade is None else max_grade, q)


def nerr(user, k, max_grade=None, q="exponential", below_threshold="keep", relevance_threshold=None):
    gains = gains_of(user, k, "linear", below_threshold, relevance_threshold)
    best = label_gains(user, below_threshold, relevance_threshold)[:k]
    gained, ideal = (
        expected_reciprocal_rank(list_, 1 if max_grade is None else max_grade, q) for list_ in (gains, best)
    )
    return gained / ideal if gained else 0


def rbp(user, k, p=0.8, gain="user_max", max_grade=None, below_threshold="keep", relevance_threshold=None):
    kind = "binary" if gain == "binary" else "linear"
    total = 0.0
    for j, share in enumerate(gains_of(user, k, kind, below_threshold, relevance_threshold), start=1):
        total += share * p ** (j - 1)
    whole = {"user_max": max(user.grade.values()), "max_grade": max_grade}.get(gain, 1)
    return (1 - p) * total / whole


def rbp_residual(user, k, p=0.8, below_threshold="keep", relevance_threshold=None):
    unlabelled = [j for j, item in enumerate(user.items, start=1) if item not in user.grade]
    return p ** len(user.items) + (1 - p) * sum(p ** (j - 1) for j in unlabelled)


def gap(user, k, probabilities=None, below_threshold="keep", relevance_threshold=None):
    def enough(gain):
        if probabilities is None:
            return gain
        return sum(p for j, p in enumerate(map(float, probabilities.split(",")), start=1) if j <= gain)

    gains = gains_of(user, k, "linear", below_threshold, relevance_threshold)
    total = 0.0
    for n in range(1, len(gains) + 1):
        total += sum(enough(min(gains[m], gains[n - 1])) for m in range(n)) / n
    most = sum(enough(gain) for gain in label_gains(user, below_threshold, relevance_threshold))
    return total / most if total else 0


def q(user, k, beta=1.0, below_threshold="keep", relevance_threshold=None):
    gains = gains_of(user, k, "linear", below_threshold, relevance_threshold)
    best = label_gains(user, below_threshold, relevance_threshold)
    hits, total = 0, 0.0
    for j, item in enumerate(user.items[:k], start=1):
        if user.is_hit(item, relevance_threshold):
            hits += 1
            total += (hits + beta * sum(gains[:j])) / (j + beta * sum(best[:j]))
    return total / smaller(k, user.n_relevant(relevance_threshold))


def judged(user, k, relevance_threshold=None):
    top = user.items[:k]
    return Fraction(sum(item in user.grade for item in top), len(top))


def bpref(user, k, judged_threshold=1.0, relevance_threshold=None):
    gamma = user.n_relevant(relevance_threshold)
    not_relevant = {item for item, grade in user.grade.items() if 0 <= grade < judged_threshold}
    total = Fraction(0)
    for j, item in enumerate(user.items):
        if user.is_hit(item, relevance_threshold):
            n = sum(above in not_relevant for above in user.items[:j])
            total += 1 - Fraction(min(n, gamma), min(len(not_relevant), gamma)) if n else 1
    return total / gamma


FORMULAS = {
    function.__name__: function
    for function in (
        *(precision, recall, fbeta, f1, hit_rate, r_precision, ap, rr, cg, dcg, idcg, ndcg),
        *(err, nerr, rbp, rbp_residual, gap, q, judged, bpref),
    )
}
