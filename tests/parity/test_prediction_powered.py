"""Prediction-powered means beside those of ppi-python, the package of the method's authors."""

import math

import numpy as np
import pytest
from parity.environments import run
from parity.users import User

from spark_rankeval.statistics.distributions import normal_quantile
from spark_rankeval.statistics.judged_queries import JudgedQueries, sample_of
from spark_rankeval.statistics.judges import judged_estimate

N_GRADED, N_OTHERS = 120, 900
LAMBDAS = (0.0, 0.35, 1.0)


def queries():
    """The human and the model's values of all queries, the graded ones first."""
    random = np.random.default_rng(55)
    judge = random.beta(2, 1.5, N_GRADED + N_OTHERS)
    return np.clip(0.7 * judge + 0.3 * random.random(len(judge)), 0, 1), judge


def as_users(human, judge, weights):
    graded = [User([(0, f)], [(y, w)]) for y, f, w in zip(human, judge[: len(human)], weights, strict=True)]
    others = [User([(0, f)], None) for f in judge[len(human) :]]
    return {str(place): user for place, user in enumerate(graded + others)}


def normal_interval(moments, lam, level):
    """The interval with their divisors, n in place of n − 1, and a quantile of the normal distribution."""
    sample, _ = sample_of(moments)
    value = sample.value(lam)
    parts = sample.parts(value)
    graded = parts.human - 2 * lam * parts.covariance + lam**2 * parts.judge
    variance = graded * (1 - 1 / N_GRADED) + lam**2 * parts.others * (1 - 1 / N_OTHERS)
    reach = normal_quantile((1 + level) / 2) * math.sqrt(variance)
    return value - reach, value + reach


@pytest.mark.parametrize("system", ["ppi"])
def test_means_and_intervals_are_those_of_ppi_python(system):
    human, judge = queries()
    measures = [
        f"{what}:{lam}:{level}" for what in ("value", "low", "high") for lam in LAMBDAS for level in (0.9, 0.95)
    ]
    theirs = run(system, as_users(human[:N_GRADED], judge, np.ones(N_GRADED)), measures)["measures"]
    moments = JudgedQueries.from_values(human, judge, np.arange(len(judge)) < N_GRADED)
    for lam in LAMBDAS:
        value = judged_estimate(moments, lambda_=lam).value
        for level in (0.9, 0.95):
            low, high = normal_interval(moments, lam, level)
            ours = {"value": value, "low": low, "high": high}
            for what, number in ours.items():
                assert number == pytest.approx(theirs[f"{what}:{lam}:{level}"]["mean"], rel=1e-9, abs=1e-12), (
                    what,
                    lam,
                )


@pytest.mark.parametrize("system", ["ppi"])
def test_weighted_means_are_those_of_ppi_python_over_all_queries(system):
    human, judge = queries()
    weights = np.random.default_rng(56).exponential(size=N_GRADED) + 0.1
    # Their "unlabeled" queries are all queries, and the model's values count by N/M as much.
    everyone = np.concatenate([judge[:N_GRADED], judge])
    measures = {lam: f"value:{lam * len(judge) / N_OTHERS!r}:0.95" for lam in LAMBDAS}
    theirs = run(system, as_users(human[:N_GRADED], everyone, weights), measures.values())["measures"]
    is_graded = np.arange(len(judge)) < N_GRADED
    padded = np.concatenate([weights, np.ones(N_OTHERS)])
    moments = JudgedQueries.from_values(human, judge, is_graded, padded)
    for lam, measure in measures.items():
        assert judged_estimate(moments, lambda_=lam).value == pytest.approx(theirs[measure]["mean"], rel=1e-9)
