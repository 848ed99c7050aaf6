"""Estimates of logged feedback beside the Open Bandit Pipeline, on a log that it can read: one item a user."""

from dataclasses import replace

import numpy as np
import pytest
from parity.environments import run
from parity.users import User
from worlds.ranked_users import lists_of, ranked

from spark_rankeval.metrics.expected_values import EstimatorOption
from spark_rankeval.metrics.naming import parse_metric
from spark_rankeval.ranking.user_lists import Ragged

N_USERS, N_ITEMS, K = 500, 9, 4
DCG = sum(1 / np.log2(np.arange(2, K + 2)))
# What its policy's value is, in units of the metric.
MEASURES = {
    "ips:log2@4": ("dcg(gain='linear')@4", DCG),
    "snips:log2@4": ("dcg(estimator='snips', gain='linear')@4", DCG),
    "ips:none@4": ("precision@4", 1.0),
    "snips:none@4": ("precision(estimator='snips')@4", 1.0),
    "snips:none@1": ("precision(estimator='snips')@1", 1.0),
}


def log():
    """Users by name with their items best first and the one that was shown, its reward and propensity."""
    random = np.random.default_rng(5)
    users = {}
    for user in range(N_USERS):
        chances = random.dirichlet(np.ones(N_ITEMS))
        shown = int(random.choice(N_ITEMS, p=chances))
        order = random.permutation(N_ITEMS).tolist()
        label = (shown, [float(random.random() < 0.2 + 0.08 * shown), float(chances[shown])])
        users[str(user)] = User([(item, None) for item in order], [label])
    return users


@pytest.mark.parametrize("system", ["obp"])
def test_one_item_a_user_has_the_estimates_of_the_open_bandit_pipeline(system):
    users = log()
    measures = run(system, users, MEASURES)["measures"]
    graded = [(u.predictions, [(item, told[0]) for item, told in u.labels]) for u in users.values()]
    weights = [[1 / told[1] for _, told in user.labels] for user in users.values()]
    batch, _ = ranked(replace(lists_of(graded), extra_values={"weight": Ragged.from_lists(weights, np.float64)}))
    for measure, (text, unit) in MEASURES.items():
        metric = parse_metric(text).resolve(EstimatorOption(True))
        values = metric.compute(batch)
        share = metric.normaliser(batch) if metric.normalises else np.ones(N_USERS)
        mean = np.nansum(values * share) / share.sum()
        assert mean == pytest.approx(unit * measures[measure]["mean"], rel=1e-12), text
        if not metric.normalises:
            # Of SNIPS it divides each round by the mean weight of all.
            theirs = unit * np.array(list(measures[measure]["per_user"].values()))
            np.testing.assert_allclose(values, theirs, rtol=1e-12, atol=1e-12)
