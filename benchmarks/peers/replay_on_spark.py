"""RePlay's metrics of Spark DataFrames, all of them in one `OfflineMetrics`, which is the fastest way that it has."""

from beside_a_shuffle import CUTOFFS, run
from replay.metrics import MAP, NDCG, OfflineMetrics, Precision, Recall


def evaluate(metrics):
    offline = OfflineMetrics(metrics, query_column="user", item_column="item", rating_column="score")
    return lambda predictions, labels: offline(predictions, labels.select("user", "item"))


if __name__ == "__main__":
    run(
        "replay-rec",
        evaluate([metric(list(CUTOFFS)) for metric in (Precision, Recall, NDCG, MAP)]),
        evaluate([NDCG(10)]),
    )
