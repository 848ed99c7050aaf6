"""RePlay's measures beyond accuracy, by pandas tables."""

import pandas as pd
from beyond import category_of
from replay.metrics import CategoricalDiversity, Coverage, Novelty, Surprisal, Unexpectedness
from replay.metrics.descriptors import PerUser

PACKAGES = ("replay-rec", "polars", "pandas", "numpy")
POPULATION = "users with recommendations; of Novelty those of the training data"

AGAINST = {"Surprisal": "training", "Novelty": "training", "Unexpectedness": "baseline"}
MEASURES = {"Surprisal": Surprisal, "Novelty": Novelty, "Unexpectedness": Unexpectedness}


def table(users, side):
    rows = [(name, item, value) for name, user in users.items() for item, value in user[side] or []]
    return pd.DataFrame(rows, columns=["query_id", "item_id", "rating"])


def run(users, measures):
    predictions = table(users, "predictions")
    training = table(users, "training")[["query_id", "item_id"]]
    categories = predictions.rename(columns={"item_id": "category_id"})
    categories["category_id"] = categories["category_id"].map(category_of)
    results = {}
    for measure in measures:
        name, _, k = measure.partition("@")
        if name == "Coverage":
            ((_, value),) = Coverage(int(k))(predictions, training).items()
            results[measure] = {}, value
        elif name == "CategoricalDiversity":
            ((_, per_user),) = CategoricalDiversity(int(k), mode=PerUser())(categories).items()
            ((_, average),) = CategoricalDiversity(int(k))(categories).items()
            results[measure] = dict(per_user), average
        else:
            other = training if AGAINST[name] == "training" else table(users, "baseline")
            ((_, per_user),) = MEASURES[name](int(k), mode=PerUser())(predictions, other).items()
            ((_, average),) = MEASURES[name](int(k))(predictions, other).items()
            results[measure] = dict(per_user), average
    return results
