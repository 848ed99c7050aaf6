"""The Open Bandit Pipeline's estimators for a log with one item a user, and a policy that takes an item by its rank's discount.

A user's predictions are items best first, without scores; the one label has the value [reward, propensity]. What it
estimates, the expected reward of one draw, is DCG ÷ Σ d(j), or precision: `measures` are ``estimator:discount@k``.
"""

import math

import numpy as np
from obp.ope.estimators import InverseProbabilityWeighting, SelfNormalizedInverseProbabilityWeighting

PACKAGES = ("obp",)
POPULATION = "every round of the log"

ESTIMATORS = {"ips": InverseProbabilityWeighting, "snips": SelfNormalizedInverseProbabilityWeighting}
DISCOUNTS = {"log2": lambda j: 1 / math.log2(j + 1), "none": lambda j: 1.0}


def run(users, measures):
    results = {}
    rounds = [user["labels"][0] for user in users.values()]
    n_items = 1 + max(item for user in users.values() for item, _ in [*user["predictions"], *user["labels"]])
    action = np.array([item for item, _ in rounds])
    reward, propensity = (np.array([told[place] for _, told in rounds]) for place in (0, 1))
    for measure in measures:
        name, _, rest = measure.partition(":")
        discount, _, k = rest.partition("@")
        chance = np.zeros((len(users), n_items, 1))
        for row, user in enumerate(users.values()):
            worth = [DISCOUNTS[discount](j) for j in range(1, int(k) + 1)]
            for (item, _), d in zip(user["predictions"], worth, strict=False):
                chance[row, item, 0] = d / sum(worth)
        given = {"reward": reward, "action": action, "pscore": propensity, "action_dist": chance}
        estimator = ESTIMATORS[name]()
        of_rounds = estimator._estimate_round_rewards(**given)
        results[measure] = dict(zip(users, of_rounds, strict=True)), estimator.estimate_policy_value(**given)
    return results
