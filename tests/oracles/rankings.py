"""Every metric of one user, from the definitions, with plain loops: slow, and easy to check by eye.

Predictions are (item, score) pairs, all scores None where the list comes in rank order; labels are (item, grade) pairs.
"""

import functools
import itertools
import math
from fractions import Fraction

METRICS_OF_GAIN = (
    *("cg", "dcg", "idcg", "ndcg", "err", "nerr", "rbp", "rbp_residual", "gap"),
    *("xdcg", "fidelity", "max_relevance"),
)
# Metrics without rules 1 (undefined without a relevant label), and without rules 2 and 4 (0 where nothing is found).
CORRELATIONS = ("spearman", "pearson", "kendall_tau", "kendall_distance", "tau_ap")
BY_FORMULA = ("percentile_rank", "auc", "auc_pr", "judged", "holes", "false_abstention", *CORRELATIONS)


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
    # Python's own truth: sums of numpy's would be numbers of fixed width, which fractions outgrow.
    return bool(grade > 0 if threshold is None else threshold == -math.inf or grade >= threshold)


def smaller(k, n):
    """min(k, n), where no cutoff is endless."""
    return n if k is None else min(k, n)


def value(name, user, k=None, undefined="nan", **parameters):
    """A metric by its name; parameters that are not given have the definitions' defaults."""
    threshold = parameters.get("relevance_threshold")
    if parameters.get("ideal") == "label_order" or name == "rbo":
        defined = len(user.grade) > 0
    elif name in METRICS_OF_GAIN and parameters.get("gain") == "binary" and threshold == -math.inf:
        # Grades are not read, and none is below the threshold.
        defined = len(user.grade) > 0
    elif name in METRICS_OF_GAIN:
        loses = parameters.get("below_threshold") == "zero"
        defined = any(grade > 0 and (not loses or is_relevant(grade, threshold)) for grade in user.grade.values())
    elif name in (*CORRELATIONS, "judged", "holes"):
        defined = True
    else:
        defined = user.n_relevant(threshold) > 0
    if defined and (name in ("err", "nerr", "xdcg") or (name == "rbp" and parameters.get("gain") == "max_grade")):
        max_grade = parameters.get("max_grade")
        if any(grade > (1 if max_grade is None else max_grade) for grade in user.grade.values()):
            return math.nan
    if defined and not user.items and name not in BY_FORMULA:
        return 0.0
    found = float(FORMULAS[name](user, k, **parameters)) if defined else math.nan
    if math.isnan(found) and undefined != "nan":
        return float(undefined == "one" or (undefined == "one_if_empty" and not user.items))
    return found


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
    return fbeta(user, k, 1.0, relevance_threshold)


def hit_rate(user, k, relevance_threshold=None):
    return 1 if user.n_hits(k, relevance_threshold) > 0 else 0


def false_abstention(user, k, relevance_threshold=None):
    return 0 if user.items else 1


def r_precision(user, k, relevance_threshold=None):
    gamma = user.n_relevant(relevance_threshold)
    return Fraction(user.n_hits(gamma, relevance_threshold), gamma)


def ap(user, k, denominator="hits", decay=1.0, weights=None, by="rank", relevance_threshold=None):
    rho_k, gamma = smaller(k, len(user.items)), user.n_relevant(relevance_threshold)
    listed = weights and [Fraction(one) for one in weights.split(",")]
    weight = [listed[min(j, len(listed) - 1)] if listed else Fraction(decay) ** j for j in range(len(user.items))]
    hits, total = 0, 0.0
    if by == "rank":
        for j in range(1, rho_k + 1):
            if user.is_hit(user.items[j - 1], relevance_threshold):
                hits += 1
                total += float(weight[j - 1]) * hits / j
    else:
        hits_above, weight_of_hits = 0, Fraction(0)
        for j in range(1, rho_k + 1):
            is_hit = user.is_hit(user.items[j - 1], relevance_threshold)
            hits += is_hit
            weight_of_hits += is_hit * weight[j - 1]
            score = user.scores[j - 1]
            last_of_its_score = j == rho_k or score is None or user.scores[j] != score
            if last_of_its_score:
                total += float((weight_of_hits - hits_above) * weight_of_hits / sum(weight[:j]))
                hits_above = weight_of_hits
        if decay != 1 or weights:
            return float(total / weight_of_hits) if weight_of_hits else 0
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
    if discount == "reciprocal":
        return 1 / j
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
        if ideal == "filled_places":
            top = user.items[:k]
            again = [user.grade[item] for j, item in enumerate(top) if item in top[:j] and item in user.grade]
            grades = sorted(grades + again, reverse=True)
            k = len(top)
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
    gained = err(user, k, max_grade, q, below_threshold, relevance_threshold)
    best = label_gains(user, below_threshold, relevance_threshold)[:k]
    return gained / expected_reciprocal_rank(best, 1 if max_grade is None else max_grade, q) if gained else 0


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
    @functools.cache
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


def xdcg(user, k, max_grade=None, decay=0.6, below_threshold="keep", relevance_threshold=None):
    gains = gains_of(user, k, "linear", below_threshold, relevance_threshold)
    places = len(user.items) if k is None else k
    weighted = sum(gain * decay**j for j, gain in enumerate(gains))
    return 100 * weighted / (1 if max_grade is None else max_grade) / sum(decay**j for j in range(places))


def fidelity(user, k, below_threshold="keep", relevance_threshold=None):
    def weight(gains):
        return sum(2 ** (gain + 1) - 1 for gain in gains if gain > 0)

    gains = gains_of(user, k, "linear", below_threshold, relevance_threshold)
    return weight(gains) / weight(label_gains(user, below_threshold, relevance_threshold))


def max_relevance(user, k, below_threshold="keep", relevance_threshold=None):
    return max(gains_of(user, k, "linear", below_threshold, relevance_threshold))


def q(user, k, beta=1.0, below_threshold="keep", relevance_threshold=None):
    gains = gains_of(user, k, "linear", below_threshold, relevance_threshold)
    best = label_gains(user, below_threshold, relevance_threshold)
    hits, total = 0, 0.0
    for j, item in enumerate(user.items[:k], start=1):
        if user.is_hit(item, relevance_threshold):
            hits += 1
            total += (hits + beta * sum(gains[:j])) / (j + beta * sum(best[:j]))
    return total / smaller(k, user.n_relevant(relevance_threshold))


def judged(user, k):
    top = user.items[:k]
    return Fraction(sum(item in user.grade for item in top), len(top)) if top else math.nan


def holes(user, k, denominator="predictions"):
    top = user.items[:k]
    n_unlabelled = sum(item not in user.grade for item in top)
    divisor = {"predictions": len(top), "k": len(top) if k is None else k, "one": 1}[denominator]
    return Fraction(n_unlabelled, divisor) if top else math.nan


def bpref(user, k, judged_threshold=1.0, relevance_threshold=None):
    gamma = user.n_relevant(relevance_threshold)
    not_relevant = {item for item, grade in user.grade.items() if 0 <= grade < judged_threshold}
    total = Fraction(0)
    for j, item in enumerate(user.items):
        if user.is_hit(item, relevance_threshold):
            n = sum(above in not_relevant for above in user.items[:j])
            total += 1 - Fraction(min(n, gamma), min(len(not_relevant), gamma)) if n else 1
    return total / gamma


def percentile_rank(user, k, weighting="users", relevance_threshold=None):
    hits = [
        (j, Fraction(max(user.grade[item], 0)) if weighting == "grades" else Fraction(1))
        for j, item in enumerate(user.items, start=1)
        if user.is_hit(item, relevance_threshold)
    ]
    whole = sum(weight for _, weight in hits)
    if not whole:
        return math.nan
    if len(user.items) == 1:
        return 0
    return sum((j - 1) * weight for j, weight in hits) / whole / (len(user.items) - 1)


def scores_of(user):
    """What the items were ranked by: the scores, or the negated ranks."""
    return [-float(j) if score is None else float(score) for j, score in enumerate(user.scores, start=1)]


def auc(user, k, decay=1.0, weighting="sample", relevance_threshold=None):
    hit = [user.is_hit(item, relevance_threshold) for item in user.items]
    n_hits, n_others = sum(hit), len(hit) - sum(hit)
    if not n_hits or not n_others:
        return math.nan
    # In fractions, so that no weight is too small for a float.
    weight = [Fraction(decay) ** j for j in range(len(hit))]
    if weighting == "trapezoid":
        area, found = Fraction(0), 0
        for i in range(len(hit) - 1):
            found += hit[i]
            fpr_step = Fraction(not hit[i + 1], n_others)
            area += weight[i] * fpr_step * Fraction(found + found + hit[i + 1], n_hits) / 2
        return area
    places = {}
    for j, score in enumerate(scores_of(user)):
        places.setdefault(score, []).append(j)
    won = lower = Fraction(0)
    # From the bottom up, a score at a time: the weight of other items below, and of those with this score.
    for _, here in sorted(places.items()):
        equal = sum(weight[j] for j in here if not hit[j])
        won += sum(weight[j] for j in here if hit[j]) * (lower + Fraction(equal) / 2)
        lower += equal
    return won / lower / sum(weight[j] for j in range(len(hit)) if hit[j])


def auc_pr(user, k, recall="labels", relevance_threshold=None):
    denominator = user.n_relevant(relevance_threshold)
    if recall == "hits":
        denominator = user.n_hits(None, relevance_threshold)
    if not denominator:
        return math.nan
    scores, hits = scores_of(user), 0
    points = [(Fraction(0), Fraction(1))]
    for j, item in enumerate(user.items, start=1):
        hits += user.is_hit(item, relevance_threshold)
        if j == len(scores) or scores[j] != scores[j - 1]:
            points.append((Fraction(hits, denominator), Fraction(hits, j)))
    return sum((r - r_before) * (p_before + p) / 2 for (r_before, p_before), (r, p) in itertools.pairwise(points))


def iprec(user, k, recall=0.0, rounding="ceil", relevance_threshold=None):
    gamma = user.n_relevant(relevance_threshold)
    if rounding == "ceil":
        # Recall as it is written: 0.1 is a tenth.
        needed = math.ceil(Fraction(str(float(recall))) * gamma)
    elif rounding == "floor_plus_0.9":
        needed = math.floor(recall * gamma + 0.9)
    else:
        needed = math.floor(Fraction(recall * gamma) + Fraction(1, 2))
    found = itertools.accumulate(user.is_hit(item, relevance_threshold) for item in user.items)
    return max((Fraction(h, j) for j, h in enumerate(found, start=1) if h >= needed), default=0)


def iprec_11pt(user, k, rounding="ceil", relevance_threshold=None):
    return sum(iprec(user, k, tenth / 10, rounding, relevance_threshold) for tenth in range(11)) / Fraction(11)


def fap(user, k, beta=1.0, relevance_threshold=None):
    f = fbeta(user, k, beta=beta, relevance_threshold=relevance_threshold)
    precision_of_hits = ap(user, k, denominator="labels", relevance_threshold=relevance_threshold)
    square = beta**2
    if square * f + precision_of_hits == 0:
        return 0
    return (1 + square) * f * precision_of_hits / (square * f + precision_of_hits)


def sides(user, k=None):
    """Scores and grades of the labelled items of the list, in its order."""
    pairs = list(zip(user.items, scores_of(user), strict=True))[:k]
    return [score for item, score in pairs if item in user.grade], [
        float(user.grade[item]) for item, _ in pairs if item in user.grade
    ]


def pearson_of(xs, ys):
    if len(xs) < 2 or any(math.isinf(value) for value in (*xs, *ys)):
        return math.nan
    xs, ys = [Fraction(x) for x in xs], [Fraction(y) for y in ys]
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    xs, ys = [x - x_mean for x in xs], [y - y_mean for y in ys]
    product = sum(x * x for x in xs) * sum(y * y for y in ys)
    if not product:
        return math.nan
    together = sum(x * y for x, y in zip(xs, ys, strict=True))
    return math.copysign(math.sqrt(together**2 / product), together)


def pearson(user, k):
    return pearson_of(*sides(user))


def spearman(user, k):
    def ranks(values):
        return [sum(v < x for v in values) + Fraction(sum(v == x for v in values) + 1, 2) for x in values]

    xs, ys = sides(user)
    return pearson_of(ranks(xs), ranks(ys))


def kendall_tau(user, k):
    pairs = [
        ((x > x2) - (x < x2), (y > y2) - (y < y2))
        for (x, y), (x2, y2) in itertools.combinations(zip(*sides(user), strict=True), 2)
    ]
    of_scores, of_grades = sum(x != 0 for x, _ in pairs), sum(y != 0 for _, y in pairs)
    if not of_scores or not of_grades:
        return math.nan
    return sum(x * y for x, y in pairs) / math.sqrt(of_scores * of_grades)


def kendall_distance(user, k, labels="all"):
    grades = sides(user, k)[1]
    if labels == "best_k":
        grades = [grade for grade in grades if k is None or sum(g > grade for g in user.grade.values()) < k]
    pairs = [(above, below) for above, below in itertools.combinations(grades, 2) if above != below]
    return Fraction(sum(above < below for above, below in pairs), len(pairs)) if pairs else math.nan


def tau_ap(user, k):
    grades = sides(user)[1]
    if len(set(grades)) < 2:
        return math.nan
    total = Fraction(0)
    for i in range(1, len(grades)):
        right = sum(g > grades[i] for g in grades[:i]) + Fraction(sum(g == grades[i] for g in grades[:i]), 2)
        total += right / i
    return 2 * total / (len(grades) - 1) - 1


def rbo(user, k, p=0.9):
    grades = list(user.grade.values())
    higher = {item: sum(other > grade for other in grades) for item, grade in user.grade.items()}
    equal = {item: grades.count(grade) for item, grade in user.grade.items()}

    def x(d):
        both = [item for item in user.items[:d] if item in user.grade]
        return sum(min(max((d - higher[item]) / equal[item], 0), 1) for item in both)

    short, long = sorted((smaller(k, len(user.items)), smaller(k, len(grades))))
    total = sum(x(d) / d * p**d for d in range(1, long + 1))
    total += sum(x(short) * (d - short) / (short * d) * p**d for d in range(short + 1, long + 1))
    return (1 - p) / p * total + ((x(long) - x(short)) / long + x(short) / short) * p**long


def ranks_of_hits(user, k, relevance_threshold):
    return [j for j, item in enumerate(user.items[:k], start=1) if user.is_hit(item, relevance_threshold)]


def ways_no_better(ranks, places):
    """How many ways to place so many hits are no better: their lowest hit is lower, or it is as low and the rest is no better."""
    if not ranks:
        return 1
    *others, last = ranks
    lower = sum(math.comb(other - 1, len(others)) for other in range(last + 1, places + 1))
    return lower + ways_no_better(others, last - 1)


def lexirecall(user, k, relevance_threshold=None):
    ranks, places = ranks_of_hits(user, k, relevance_threshold), len(user.items) if k is None else k
    if not ranks:
        return 0
    share = Fraction(ways_no_better(ranks, places), math.comb(places, len(ranks)))
    return (len(ranks) - 1 + share) / user.n_relevant(relevance_threshold)


def total_search_efficiency(user, k, discount="reciprocal", relevance_threshold=None):
    ranks = ranks_of_hits(user, k, relevance_threshold)
    # Where each occurrence of an item counts, the search ends with as many hits as there are relevant items.
    if len(ranks) < user.n_relevant(relevance_threshold):
        return 0
    last = ranks[user.n_relevant(relevance_threshold) - 1]
    return Fraction(1, last) if discount == "reciprocal" else 1 / math.log2(last + 1)


FORMULAS = {
    function.__name__: function
    for function in (
        *(precision, recall, fbeta, f1, hit_rate, r_precision, ap, rr, cg, dcg, idcg, ndcg),
        *(err, nerr, rbp, rbp_residual, gap, xdcg, fidelity, max_relevance, q, judged, holes, bpref),
        *(false_abstention, percentile_rank, auc, auc_pr, iprec, iprec_11pt, fap),
        *(pearson, spearman, kendall_tau, kendall_distance, tau_ap, rbo),
        *(lexirecall, total_search_efficiency),
    )
}


def estimate(name, user, weights, k=None, estimator="ips", weight_limit=None, relevance_threshold=None, **parameters):
    """An estimate of logged feedback: a user's value, and with which weight it counts in the mean.

    Weights are of the user's labelled items, by item.
    """
    weight = {item: min(w, math.inf if weight_limit is None else weight_limit) for item, w in weights.items()}
    ranked = list(enumerate(user.items[:k], start=1))
    if name == "recall":
        relevant = {item for item in user.grade if user.is_hit(item, relevance_threshold)}
        if not relevant:
            return math.nan, 1
        hits = sum(weight[item] for _, item in ranked if item in relevant)
        return hits / sum(weight[item] for item in relevant), 1

    def gain(item):
        if name == "precision":
            return 1 if user.is_hit(item, relevance_threshold) else 0
        kind = parameters.get("gain", "exponential") if name == "dcg" else "linear"
        return gain_of(
            user.grade[item], kind, parameters.get("below_threshold", "keep"), relevance_threshold, negative_gains=False
        )

    def place(j):
        return discount_of(j, parameters.get("discount", "log2")) if name == "dcg" else 1

    value = sum(weight[item] * gain(item) * place(j) for j, item in ranked if item in weight)
    if name == "precision":
        places = len(ranked) if k is None or parameters.get("denominator") == "predictions" else k
        value = value / places if places else 0.0
    if estimator == "ips":
        return value, 1
    known = sum(place(j) for j, _ in ranked)
    if not known:
        return 0.0, 1
    share = sum(weight[item] * place(j) for j, item in ranked if item in weight) / known
    return (value / share if share else math.nan), share
