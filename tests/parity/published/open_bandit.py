"""The sample of the Open Bandit Dataset in its package: `python open_bandit.py FILE` writes logs and estimates into the file.

The file has `CAMPAIGN LOG POLICY` for each policy that is evaluated: an array of actions, rewards and weights. A weight says how much
more often the policy takes the action than the log's. `estimates CAMPAIGN LOG POLICY` has the package's IPW and SNIPW.
"""

import itertools
import sys

import numpy as np
from obp.dataset import OpenBanditDataset
from obp.ope import InverseProbabilityWeighting, OffPolicyEvaluation, SelfNormalizedInverseProbabilityWeighting
from obp.policy import BernoulliTS


class Log(OpenBanditDataset):
    """The log without features of users and items, which no estimator here reads, and which need an older pandas."""

    def pre_process(self):
        self.context = np.zeros((self.n_rounds, 1))
        self.action_context = np.zeros((self.n_actions, 1))


def main(file):
    written = {}
    for campaign, behaviour in itertools.product(("all", "men", "women"), ("random", "bts")):
        log = Log(behavior_policy=behaviour, campaign=campaign)
        rounds = log.obtain_batch_bandit_feedback()
        sampler = BernoulliTS(
            n_actions=log.n_actions, len_list=log.len_list, is_zozotown_prior=True, campaign=campaign, random_state=12345
        )  # fmt: skip
        thompson = sampler.compute_batch_action_dist(n_sim=100_000, n_rounds=log.n_rounds)
        # Of its own log a random policy is the mean reward.
        policies = {"bts": thompson, "random": np.full_like(thompson, 1 / log.n_actions)}
        for policy in ("bts",) if behaviour == "random" else ("bts", "random"):
            chances = policies[policy]
            name = f"{campaign} {behaviour} {policy}"
            evaluation = OffPolicyEvaluation(
                bandit_feedback=rounds,
                ope_estimators=[InverseProbabilityWeighting(), SelfNormalizedInverseProbabilityWeighting()],
            )
            estimates = evaluation.estimate_policy_values(action_dist=chances)
            written[f"estimates {name}"] = np.array([estimates["ipw"], estimates["snipw"]])
            ratios = chances[np.arange(log.n_rounds), rounds["action"], rounds["position"]] / rounds["pscore"]
            written[name] = np.column_stack([rounds["action"], rounds["reward"], ratios])
    np.savez(file, **written)


if __name__ == "__main__":
    main(sys.argv[1])
