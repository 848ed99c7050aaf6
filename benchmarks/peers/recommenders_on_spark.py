"""Recommenders' ranking metrics of Spark DataFrames: an evaluation a cutoff, and a job a metric of it."""

from beside_a_shuffle import CUTOFFS, run
from recommenders.evaluation.spark_evaluation import SparkRankingEvaluation

COLUMNS = {"col_user": "user", "col_item": "item", "col_rating": "rating", "col_prediction": "score"}


def twenty_values(predictions, labels):
    for k in CUTOFFS:
        evaluation = SparkRankingEvaluation(labels, predictions, k=k, **COLUMNS)
        evaluation.precision_at_k()
        evaluation.recall_at_k()
        evaluation.ndcg_at_k()
        evaluation.map_at_k()


def one_value(predictions, labels):
    SparkRankingEvaluation(labels, predictions, k=10, **COLUMNS).ndcg_at_k()


if __name__ == "__main__":
    run("recommenders", twenty_values, one_value)
