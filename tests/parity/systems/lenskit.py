"""LensKit, by its own RunAnalysis; lists in the order of their scores, the test items' grades as `rating`.

`NDCG@5` is what the metric itself says and its `summarize`, which leaves NaN out; `NDCG@5|filled` is what `list_metrics`
and `list_summary` say, which put the metric's default, 0, in the place of NaN.
"""

from lenskit.data import ItemList, ItemListCollection, UserIDKey
from lenskit.metrics import DCG, NDCG, RBP, Hit, Precision, Recall, RecipRank, RunAnalysis
from lenskit.metrics.ranking import AveragePrecision

from systems.tables import best_first

PACKAGES = ("lenskit", "numpy", "pandas")
POPULATION = "users who have a list of predictions, also an empty one; users without a list do not count"

FILLED = "|filled"
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


def run(users, measures):
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
    metrics, analysis = {}, RunAnalysis()
    for measure in measures:
        name, _, k = measure.removesuffix(FILLED).partition("@")
        metrics[measure] = MEASURES[name](int(k) if k else None)
        analysis.add_metric(metrics[measure], label=measure)
    found = analysis.measure(lists, test)
    values, filled, filled_means = (
        found.list_metrics(fill_missing=False),
        found.list_metrics(),
        found.list_summary()["mean"],
    )
    results = {}
    for measure, metric in metrics.items():
        if measure.endswith(FILLED):
            results[measure] = filled[measure].to_dict(), filled_means[measure]
        else:
            known = values[measure].dropna().to_list()
            results[measure] = values[measure].to_dict(), metric.summarize(known)["mean"]
    return results
