"""RePlay's metrics of Spark DataFrames, all of them in one `OfflineMetrics`, which is the fastest way that it has."""

from on_spark import CUTOFFS, run
from replay.metrics import (
    MAP,
    NDCG,
    CategoricalDiversity,
    Coverage,
    Novelty,
    OfflineMetrics,
    Precision,
    Recall,
    Surprisal,
    Unexpectedness,
)

COLUMNS = {"query_column": "user", "item_column": "item", "rating_column": "score"}


def evaluate(metrics):
    offline = OfflineMetrics(metrics, **COLUMNS)
    return lambda predictions, labels: offline(predictions, labels.select("user", "item"))


def beyond(tables):
    # A category of its own column is what the categories' measure needs, and no other minds.
    categories = tables["items"].select("item", tables["items"]["category"].alias("category_id"))
    offline = OfflineMetrics(
        [Coverage(10), Novelty(10), Surprisal(10), Unexpectedness(10), CategoricalDiversity(10)], **COLUMNS
    )
    values = offline(
        tables["predictions"].join(categories, "item"),
        tables["labels"],
        tables["training"],
        base_recommendations={"baseline": tables["baseline"]},
    )
    return {
        "catalogue_coverage@10": values["Coverage@10"],
        "novelty@10": values["Novelty@10"],
        "surprisal@10": values["Surprisal@10"],
        "unexpectedness@10": values["Unexpectedness_baseline@10"],
        "categorical_diversity@10": values["CategoricalDiversity@10"],
    }


if __name__ == "__main__":
    run(
        "replay-rec",
        evaluate([NDCG(10)]),
        evaluate([metric(list(CUTOFFS)) for metric in (Precision, Recall, NDCG, MAP)]),
        beyond,
    )
