"""Every metric of intents of one user, straight from the definitions: slow, and easy to check by eye.

A list is of items, best first; judgements are (item, intent, grade) triples, each item and intent at most once.
"""

import math
from fractions import Fraction

from oracles.rankings import is_relevant

GRADES = (0.0, 0.0, 1.0, 1.0, 2.0, 3.0)
N_INTENTS = 5
WEIGHTS = {"uniform": lambda n_labels: 1, "share": lambda n_labels: n_labels}


def log2(rank):
    return 1 / math.log2(rank + 1)


def reciprocal(rank):
    return Fraction(1, rank)


class User:
    """One user's list, and which items are relevant for which intents."""

    def __init__(self, items, judgements, threshold=None):
        self.items = items
        self.intents = {}
        for item, intent, grade in judgements:
            if is_relevant(grade, threshold):
                self.intents.setdefault(item, set()).add(intent)
        # By the names of the intents, so that sums have one order.
        self.n_labels = {
            intent: sum(intent in served for served in self.intents.values())
            for intent in sorted(set().union(*self.intents.values()))
        }

    def weights(self, kind):
        return {intent: WEIGHTS[kind](n) for intent, n in self.n_labels.items()}

    def served(self, k=None):
        """The intents that each of the first k items is relevant for."""
        return [sorted(self.intents.get(item, ())) for item in self.items[:k]]

    def gains(self, served, alpha, weights):
        """What each place of a list gains."""
        left = dict(weights)
        gains = []
        for intents in served:
            gains.append(sum(left[intent] for intent in intents))
            for intent in intents:
                left[intent] *= 1 - alpha
        return gains

    def greedy(self, alpha, weights):
        """The intents of the user's labels, in the order that greed gives them."""
        left, waiting, order = dict(weights), set(self.intents), []
        while waiting:
            best = max(waiting, key=lambda item: (sum(left[i] for i in sorted(self.intents[item])), item))
            waiting.remove(best)
            order.append(sorted(self.intents[best]))
            for intent in order[-1]:
                left[intent] *= 1 - alpha
        return order


def value(name, items, judgements, k=None, undefined="nan", relevance_threshold=None, **parameters):
    """A metric by its name, with all its parameters."""
    user = User(items, judgements, relevance_threshold)
    if not user.n_labels:
        return {"nan": math.nan, "zero": 0.0, "one": 1.0}[undefined]
    return float(FORMULAS[name](user, k, **parameters)) if items else 0.0


def summed(gains, discount, k):
    return sum(gain * discount(rank) for rank, gain in enumerate(gains[:k], start=1))


def share(user, k, discount, alpha, intent_weights):
    weights = user.weights(intent_weights)
    return summed(user.gains(user.served(), alpha, weights), discount, k) / sum(weights.values())


def of_full(user, k, discount, alpha, intent_weights):
    n = len(user.items) if k is None else k
    full = sum((1 - alpha) ** (rank - 1) * discount(rank) for rank in range(1, n + 1))
    return share(user, k, discount, alpha, intent_weights) / full


def of_greedy(user, k, discount, alpha, intent_weights):
    weights = user.weights(intent_weights)
    ideal = summed(user.gains(user.greedy(alpha, weights), alpha, weights), discount, k)
    return summed(user.gains(user.served(), alpha, weights), discount, k) / ideal


def alpha_dcg(user, k, alpha, intent_weights):
    return of_full(user, k, log2, alpha, intent_weights)


def alpha_ndcg(user, k, alpha, intent_weights):
    return of_greedy(user, k, log2, alpha, intent_weights)


def err_ia(user, k, alpha, intent_weights, scale):
    if scale == "probability":
        return alpha * share(user, k, reciprocal, alpha, intent_weights)
    return of_full(user, k, reciprocal, alpha, intent_weights)


def nerr_ia(user, k, alpha, intent_weights):
    return of_greedy(user, k, reciprocal, alpha, intent_weights)


def nrbp(user, k, alpha, beta, intent_weights):
    return (1 - (1 - alpha) * beta) * share(user, k, lambda rank: beta ** (rank - 1), alpha, intent_weights)


def nnrbp(user, k, alpha, beta, intent_weights):
    return of_greedy(user, k, lambda rank: beta ** (rank - 1), alpha, intent_weights)


def s_recall(user, k):
    return Fraction(len(set().union(*user.served(k))), len(user.n_labels))


def precision_ia(user, k, intent_weights):
    weights = user.weights(intent_weights)
    hits = sum(weights[intent] for served in user.served(k) for intent in served)
    return Fraction(hits, (len(user.items) if k is None else k) * sum(weights.values()))


def ap_ia(user, k, intent_weights):
    weights = user.weights(intent_weights)
    total = Fraction(0)
    for intent, n_labels in user.n_labels.items():
        ranks = [rank for rank, served in enumerate(user.served(k), start=1) if intent in served]
        precisions = sum(Fraction(nth, rank) for nth, rank in enumerate(ranks, start=1))
        total += Fraction(weights[intent], n_labels) * precisions
    return total / sum(weights.values())


FORMULAS = {
    function.__name__: function
    for function in (alpha_dcg, alpha_ndcg, err_ia, nerr_ia, nrbp, nnrbp, s_recall, precision_ia, ap_ia)
}


def random_judged(rng, n_users, *, n_items=14, longest=12, most=6):
    """Users as (predictions, triples): ties, users without labels, without predictions, with intents that nothing serves."""
    users = []
    for _ in range(n_users):
        items = rng.choice(n_items, rng.integers(0, longest + 1) * int(rng.random() < 0.9), replace=False).tolist()
        labelled = rng.choice(n_items, rng.integers(0, most + 1), replace=False).tolist()
        scores = (rng.integers(0, 4, len(items)) / 4).tolist() if rng.random() < 0.7 else [0.5] * len(items)
        judged = [
            (item, int(intent), float(rng.choice(GRADES)))
            for item in labelled
            for intent in rng.choice(N_INTENTS, rng.integers(0, 4), replace=False)
        ]
        users.append((list(zip(items, scores, strict=True)), judged))
    return users


def labels_of(judged):
    """The labels that judgements make: each item once, with its highest grade."""
    grades = {}
    for item, _, grade in judged:
        grades[item] = max(grade, grades.get(item, grade))
    return list(grades.items())
