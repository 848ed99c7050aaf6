"""All orders of equal scores, and the mean of a metric over them, from the oracle's value of each order."""

import functools
import itertools
import math
from collections import Counter

from oracles.rankings import METRICS_OF_GAIN, User, value

from spark_rankeval.metrics.base import Metric


def orders_of(predictions, labels):
    """Every order that equal scores can have, as the oracle's user, with how many orders it stands for.

    Orders in which every place has the same grade are one to a metric.
    """
    grade = dict(labels)
    by_score = {}
    for item, score in predictions:
        by_score.setdefault(score, []).append((item, score))
    groups = [by_score[score] for score in sorted(by_score, reverse=True)]
    counts, examples = Counter(), {}
    for choice in itertools.product(*map(itertools.permutations, groups)):
        order = list(itertools.chain(*choice))
        looks = tuple(grade.get(item) for item, _ in order)
        counts[looks] += 1
        examples.setdefault(looks, order)
    return tuple((User(examples[looks], labels, ties="position"), counts[looks]) for looks in counts)


@functools.cache
def that_differ(orders, k, threshold, gains):
    """One of all orders that look the same to a metric: places below its cutoff do not count, nor without gains do grades."""
    counts, examples = Counter(), {}
    for user, n in orders:
        seen = user.items[:k]
        looks = tuple(user.grade.get(item) if gains else user.is_hit(item, threshold) for item in seen)
        counts[looks] += n
        examples.setdefault(looks, user)
    return [(examples[looks], counts[looks]) for looks in counts]


def mean_over(orders, metric: Metric):
    """The mean of a resolved metric over orders."""
    chosen = {name: chosen for name, chosen in metric.chosen().items() if name != "ties"}
    gains = metric.name in METRICS_OF_GAIN
    different = that_differ(orders, metric.k, None if gains else metric.relevance_threshold, gains)
    values = [(value(metric.name, user, k=metric.k, **chosen), n) for user, n in different]
    return math.fsum(one * n for one, n in values) / sum(n for _, n in values)
