"""Correlations of score and grade over the items that are both predicted and labelled, user by user."""

from scipy.stats import kendalltau, pearsonr, spearmanr

from systems.tables import mean

PACKAGES = ("scipy", "numpy")
POPULATION = "users with two such items or more whose scores differ and whose grades differ"

MEASURES = {"spearmanr": spearmanr, "pearsonr": pearsonr, "kendalltau": kendalltau}


def run(users, measures):
    sides = {}
    for name, user in users.items():
        grade = dict(user["labels"])
        both = [(score, grade[item]) for item, score in user["predictions"] if item in grade]
        sides[name] = tuple(zip(*both, strict=True))
    results = {}
    for measure in measures:
        per_user = {name: MEASURES[measure](*two).statistic for name, two in sides.items()}
        results[measure] = per_user, mean(per_user.values())
    return results
