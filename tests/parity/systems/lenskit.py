"""LensKit, by its own MeasurementCollector; lists in the order of their scores, the test items' grades as `rating`."""

import warnings

from lenskit.data import ItemList, ItemListCollection, UserIDKey
from lenskit.metrics import DCG, NDCG, RBP, Hit, MeasurementCollector, Precision, Recall, RecipRank
from lenskit.metrics.ranking import AveragePrecision

from systems.tables import best_first

PACKAGES = ("lenskit", "numpy", "pandas")
POPULATION = "users who have a list of predictions, also an empty one; users without a list do not count"

MEASURES = {
    "Precision": Precision,
    "Recall": Recall,
    "RecipRank": RecipRank,
    "Hit": Hit,
    "AveragePrecision": AveragePrecision,
    "RBP": RBP,
    "RBP(.8)": lambda n: RBP(n, patience=0.8),
    "NDCG": NDCG,
    "DCG": DCG,
    "NDCG(rating)": lambda n: NDCG(n, gain="rating"),
    "DCG(rating)": lambda n: DCG(n, gain="rating"),
}


def collections(users):
    """The lists of predictions, and those of test items."""
    lists = ItemListCollection(UserIDKey)
    test = ItemListCollection(UserIDKey)
    for name, user in users.items():
        if user["predictions"] is not None:
            pairs = best_first(user["predictions"])
            lists.add(
                ItemList([item for item, _ in pairs], scores=[score for _, score in pairs], ordered=True), user_id=name
            )
        if user["labels"]:
            items, grades = zip(*user["labels"], strict=True)
            test.add(ItemList(list(items), rating=[float(grade) for grade in grades]), user_id=name)
    return lists, test


def metric(measure):
    name, _, k = measure.partition("@")
    return MEASURES[name](int(k) if k else None)


def run(users, measures):
    collector = MeasurementCollector()
    for measure in measures:
        collector.add_metric(metric(measure), label=measure)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        means, values = collector.measure_run(*collections(users))
    return {measure: (values[measure].to_dict(), means[f"{measure}.mean"]) for measure in measures}
