"""RecTools' popularity of recommended items."""

import pandas as pd
from rectools import Columns
from rectools.metrics import AvgRecPopularity

from systems.tables import best_first

PACKAGES = ("rectools", "pandas", "numpy")
POPULATION = "users with recommendations"


def run(users, measures):
    training = [(name, item) for name, user in users.items() for item, _ in user["training"] or []]
    interactions = pd.DataFrame(training, columns=[Columns.User, Columns.Item])
    predicted = [
        (name, item, rank)
        for name, user in users.items()
        for rank, (item, _) in enumerate(best_first(user["predictions"]), start=1)
    ]
    lists = pd.DataFrame(predicted, columns=[Columns.User, Columns.Item, Columns.Rank])
    results = {}
    for measure in measures:
        name, _, k = measure.partition("@")
        metric = AvgRecPopularity(k=int(k), normalize=name == "AvgRecPopularity(normalize)")
        results[measure] = metric.calc_per_user(lists, interactions).to_dict(), metric.calc(lists, interactions)
    return results
