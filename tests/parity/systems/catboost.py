"""CatBoost's `eval_metric`, query by query."""

from catboost.utils import eval_metric

from systems.tables import mean, rows_of

PACKAGES = ("catboost", "numpy")
POPULATION = "queries; the mean is over all of them"


def run(users, measures):
    results = {}
    for measure in measures:
        per_user = {
            user: eval_metric(grades, scores, measure, group_id=[0] * len(grades))[0]
            for user, (grades, scores) in rows_of(users).items()
        }
        results[measure] = per_user, mean(per_user.values())
    return results
