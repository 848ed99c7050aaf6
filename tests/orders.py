"""All orders of equal scores, and the mean of a metric over them, from the oracle's value of each order."""

import itertools
import math
from collections import Counter

from oracle import User, value

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
    return [(User(examples[looks], labels, ties="position"), counts[looks]) for looks in counts]


def mean_over(orders, metric: Metric):
    """The mean of a resolved metric over orders."""
    chosen = {name: chosen for name, chosen in metric.chosen().items() if name != "ties"}
    values = [(value(metric.name, user, k=metric.k, **chosen), n) for user, n in orders]
    return math.fsum(one * n for one, n in values) / sum(n for _, n in values)
