"""What docs/calls.md speaks of: small tables that have all columns named there."""

from types import SimpleNamespace


def tables_of_all_kinds(spark):
    """One small table for each name, with all columns that the calls name."""
    columns = "user string, item string, query string, locale string, userId int, movieId int"
    ids = [("ann", "jam", "q1", "de", 1, 10), ("ann", "tea", "q1", "de", 1, 11), ("bob", "rye", "q1", "fr", 2, 12)]
    predictions = spark.createDataFrame(
        [(*row, 1.0 - place / 10, place, 900) for place, row in enumerate(ids)],
        f"{columns}, score double, position int, tokens int",
    )
    labels = spark.createDataFrame(
        [(*row, 5 - 4 * (place % 2), place % 2, 1) for place, row in enumerate(ids)],
        f"{columns}, rating int, click int, purchase int",
    )
    recommended = spark.createDataFrame(
        [(1, [(11, 0.5), (10, 0.25)])], "userId int, recommendations array<struct<movieId: int, rating: float>>"
    )
    return {
        "predictions": predictions,
        "labels": labels,
        "metrics": ["recall@10"],
        "als": predictions,
        "popular": predictions,
        "als_model": SimpleNamespace(recommendForAllUsers=lambda k: recommended),
        "recommended": recommended.withColumnRenamed("recommendations", "recs"),
        "table": spark.createDataFrame(
            [("ann", ["a", "b"], ["b"])], "user string, prediction array<string>, label array<string>"
        ),
        "rows": spark.createDataFrame(
            [("q1", "a", 0.5, 1), ("q1", "b", 0.4, 0)], "query string, chunk string, score double, label int"
        ),
        "training": spark.createDataFrame([("ann", "tea")], "user string, item string"),
        "films": spark.createDataFrame([("jam", "drama"), ("tea", "comedy")], "item string, genre string"),
        "user_vectors": spark.createDataFrame([("ann", [1.0]), ("bob", [2.0])], "user string, vector array<double>"),
        "item_vectors": spark.createDataFrame([("jam", [1.0]), ("tea", [2.0])], "item string, vector array<double>"),
        "people": spark.createDataFrame([("ann", "DE"), ("bob", "FR")], "user string, country string"),
    }
