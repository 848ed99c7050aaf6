"""Every metric of the registry in every combination of its parameters' choices."""

import contextlib
import functools
import itertools
import math
import random

import pytest

from spark_rankeval.errors import MetricError
from spark_rankeval.metrics.base import REGISTRY, UNSET
from spark_rankeval.metrics.relevance import ProbabilityMetric
from spark_rankeval.ranking.user_lists import LIST_PARAMETERS

# Those of labels, of what labels are about, and of the items themselves; the latter two need to know more than labels.
EVERY_METRIC = sorted(set(REGISTRY.values()), key=lambda metric: metric.name)
INTENTS = [metric for metric in EVERY_METRIC if "intents" in metric().resolve().reads.facts]
# Those of users who are declared to have no answer: tests/metrics/test_abstention_based.py has them.
NO_ANSWER = [metric for metric in EVERY_METRIC if metric.needs == "no_answer"]
# Those of a model against those before need several models: tests/features/test_stages.py has them.
STAGES = [metric for metric in EVERY_METRIC if "models_before" in metric().resolve().reads.facts]
METRICS = [
    metric
    for metric in EVERY_METRIC
    if not metric().resolve().reads.unlabelled and metric not in (*INTENTS, *NO_ANSWER, *STAGES)
]
# Those of groups of items have too many combinations: tests/metrics/test_group_exposure.py draws some.
GROUPS = [metric for metric in EVERY_METRIC if "groups" in metric().resolve().reads.facts]
# Those of scores as probabilities, which other scores are not: tests/metrics/test_probabilities.py has them.
PROBABILITIES = [metric for metric in EVERY_METRIC if issubclass(metric, ProbabilityMetric)]
BEYOND = [
    metric
    for metric in EVERY_METRIC
    if not any(metric in others for others in (METRICS, INTENTS, GROUPS, NO_ANSWER, STAGES, PROBABILITIES))
]
CUTOFFS = (None, 1, 3, 10)
# Of parameters that are no choice among a few: values that differ in kind. Any other has those of `OTHERWISE` that it takes.
VALUES = {
    "relevance_threshold": (None, -math.inf, 0.0, 2.0), "decay": (1.0, 0.5), "alpha": (0.5, 0.0, 0.7, 1.0),
    "beta": (1.0, 0.0, 0.5, 2.0), "p": (0.8, 0.5), "max_grade": (None, 4.0), "weights": (None, "1,0.5,0.25"),
    "probabilities": (None, "0.5,0.3,0.2"), "judged_threshold": (1.0, 2.0), "head": (0.8, 0.2),
    "smoothing": (0.01, 0.3), "recall": (0.0, 0.1, 0.35, 0.5, 1.0), "group": (None, "a"), "before": (None, 1, "3,2"),
}  # fmt: skip
OTHERWISE = (0.3, 0.5, 1.0, 2.0, 4.0)
# Without weights there is nothing to estimate: tests/metrics/test_logged_feedback.py has the estimators. Others change lists:
# tests/request/test_views.py has it. `no_answer` is about users of whom a batch must know. tests/metrics/test_possible_values.py has
# `ceiling`.
LEFT_OPEN = ("estimator", "weight_limit", "no_answer", *LIST_PARAMETERS, "ceiling")

# Values that few calls have, and that would multiply all others: each is combined with the defaults of the others.
ALONE = {("undefined", "one"), ("undefined", "one_if_empty"), ("ties", "grade_asc"), ("discount", "reciprocal")}


def values_of(metric, item):
    """The values that a parameter has in the variants."""
    if item.name in LEFT_OPEN:
        return (UNSET,)
    return item.metadata["choices"] or VALUES.get(item.name) or _values_taken(metric, item)


def _values_taken(metric, item):
    """The default, and what else a parameter takes of some numbers."""
    taken = {item.metadata["default"]: None}
    for value in OTHERWISE:
        with contextlib.suppress(MetricError):
            taken[getattr(metric(**{item.name: value}), item.name)] = None
    return tuple(taken)


def variants(metric, cutoffs=CUTOFFS, **only):
    """A metric in all its variants; `only` holds parameters to the values given.

    Combinations that the metric refuses (a decay that needs another denominator, an ideal that needs a cutoff) are left
    out.
    """
    return list(_variants(metric, cutoffs, tuple(only.items())))


def some(metric, n, **only):
    """So many variants of a metric, drawn from all of them; all if there are no more."""
    every = variants(metric, **only)
    return random.Random(n).sample(every, n) if len(every) > n else every


def in_thirds(metrics):
    """Each metric with a part of its variants, as parameters of a test: a third of them by day, the others in CI."""
    return [
        pytest.param(metric, every[part::3], id=f"{metric.name} {part + 1}", marks=[pytest.mark.ci] * (part > 0))
        for metric in metrics
        for every in [random.Random(0).sample(variants(metric), len(variants(metric)))]
        for part in range(min(3, len(every)))
    ]


@functools.cache
def _variants(metric, cutoffs, only):
    items, only = metric.parameters(), dict(only)
    choices = [
        only.get(item.name) or [value for value in values_of(metric, item) if (item.name, value) not in ALONE]
        for item in items
    ]
    combinations = [*itertools.product(*choices)]
    combinations += [
        [value if each is item else _usual(each, values) for each, values in zip(items, choices, strict=True)]
        for item in items
        if item.name not in only
        for value in values_of(metric, item)
        if (item.name, value) in ALONE
    ]
    made = []
    for k in cutoffs if metric.takes_cutoff else (None,):
        for values in combinations:
            with contextlib.suppress(MetricError):
                made.append(metric(k=k, **dict(zip((item.name for item in items), values, strict=True))))
    return made


def _usual(item, values):
    """The default of a parameter if it is among some values, or else the first of these."""
    return item.metadata["default"] if item.metadata["default"] in values else values[0]


def single_choices(metric, *, resolved=False):
    """A metric with each choice of each parameter, with a cutoff and without; the others are unset, or have their defaults.

    Choices that the metric refuses are left out.
    """
    made, others = {}, metric().resolve().chosen() if resolved else {}
    for k in (None, 3) if metric.takes_cutoff else (None,):
        for chosen in ({}, *({item.name: value} for item in metric.parameters() for value in values_of(metric, item))):
            with contextlib.suppress(MetricError):
                made[metric(k=k, **others | chosen)] = None
    return list(made)


def parameters_of(metric):
    """The cutoff and the parameters of a resolved metric, as the oracle takes them."""
    chosen = metric.chosen()
    assert chosen.pop("ties", "order") == "order", "the oracle knows one order at a time"
    return {"k": metric.k, **chosen}
