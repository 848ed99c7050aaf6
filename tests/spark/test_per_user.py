"""What people do with the table of users."""

import math

from pyspark.sql import functions as F

from spark_rankeval import evaluate


def test_the_recipe_for_averages_leaves_out_who_has_no_value(spark):
    predictions = spark.createDataFrame([(1, 1, 0.9), (1, 2, 0.8), (2, 3, 0.5)], "user int, item int, score double")
    labels = predictions.where("item = 2").select("user", "item")
    result = evaluate(predictions, labels, "recall@10", score="score")
    # The recipe of `Result.per_user`.
    recipe = F.avg(F.nanvl("recall_at_10", F.lit(None)))
    (row,) = result.per_user.agg(F.avg("recall_at_10").alias("all"), recipe.alias("with_value")).collect()
    assert math.isnan(row["all"])
    assert row["with_value"] == result["recall@10"] == 1
