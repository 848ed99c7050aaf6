"""Recommenders' metrics of Spark DataFrames: an evaluation a cutoff, and a job or more a metric of it."""

from on_spark import CUTOFFS, run
from pyspark.ml.functions import array_to_vector
from pyspark.sql import Window
from pyspark.sql import functions as F
from recommenders.evaluation.spark_evaluation import SparkDiversityEvaluation, SparkRankingEvaluation

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


def beyond(tables):
    # It takes lists as they are, and items as 32-bit numbers.
    best_first = Window.partitionBy("user").orderBy(F.desc("score"), "item")
    lists = tables["predictions"].withColumn("place", F.row_number().over(best_first)).where("place <= 10")
    lists = lists.select("user", F.col("item").cast("int").alias("item"))
    liked = tables["labels"].select("user", F.col("item").cast("int").alias("item"), F.lit(1.0).alias("relevance"))
    training = tables["training"].select("user", F.col("item").cast("int").alias("item"))
    # An item that nobody is shown and nobody has is in no measure, and would be compared with all others.
    shown = lists.select("item").union(training.select("item")).distinct()
    vectors = tables["items"].select(
        F.col("item").cast("int").alias("item"), array_to_vector("vector").alias("features")
    )
    evaluation = SparkDiversityEvaluation(
        train_df=training,
        reco_df=lists.join(liked, ["user", "item"], "left").fillna(0.0, "relevance"),
        item_feature_df=vectors.join(shown, "item", "left_semi"),
        item_sim_measure="item_feature_vector",
        col_user="user",
        col_item="item",
        col_relevance="relevance",
    )
    return {
        "novelty@10": evaluation.novelty(),
        "diversity@10": evaluation.diversity(),
        "serendipity@10": evaluation.serendipity(),
        "catalogue_coverage@10": evaluation.catalog_coverage(),
        "entropy@10": evaluation.distributional_coverage(),
    }


if __name__ == "__main__":
    run("recommenders", one_value, twenty_values, beyond)
