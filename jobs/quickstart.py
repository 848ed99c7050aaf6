"""A first look: three models on ratings, from the split to the verdicts, in one file read from top to bottom.

It runs on Spark or, on a machine without Java, on Sail. ALS needs Spark's JVM; on Sail recommendations by items in common stand in.
"""

from __future__ import annotations

import argparse
import random
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

try:
    import pyspark
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from spark_rankeval import Facts, Vectors, compare, popularity, score_users, top_items, write_per_user
    from spark_rankeval.checks import SPARK
    from spark_rankeval.errors import ConfigurationError
    from spark_rankeval.jobs.command import engine_of_this_machine, job_session, run_job
    from spark_rankeval.jobs.config import Session
    from spark_rankeval.spark.engine import engine_of
except ModuleNotFoundError as error:
    sys.stderr.write(f"quickstart: {error}. In a checkout: make demo, or pip install -e '.[spark]'\n")
    sys.exit(2)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

SAMPLE = Path(pyspark.__file__).parent / "data" / "mllib" / "als" / "sample_movielens_ratings.txt"
METRICS = [
    "precision@5",
    "precision@10",
    "recall@10",
    "hit_rate@10",
    "ndcg@10",
    "ap@10",
    "rr",
    "novelty@10",
]
# One says who finds what users want, the other who shows movies that few users know.
HEADLINES = ["ndcg@10", "novelty@10"]
# What most systems mean by NDCG and AP.
DIALECT = "standard"
HELD_OUT = 0.2
RECOMMENDED = 20
# Numbers of factors that ALS is tried with.
RANKS = (5, 10)
SEED = 42
# The ratings that are made up if PySpark brings none: how many movies and users, and into how many tastes both divide.
GENERATED_MOVIES, GENERATED_USERS, TASTES = 100, 60, 4

_SPELLINGS = {
    "user": {"user", "userid"},
    "item": {"item", "itemid", "movie", "movieid"},
    "rating": {"rating"},
    "timestamp": {"timestamp"},
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the quick start.

    Args:
        arguments: the command line; None: that of the process.

    Returns:
        0, or 2 for a wrong option.
    """
    parser = argparse.ArgumentParser(prog="quickstart", description=__doc__)
    parser.add_argument(
        "--ratings",
        metavar="FILE",
        help="MovieLens ratings, .csv, .dat or u.data; default: the sample inside pyspark, or generated ones with pyspark-client",
    )
    parser.add_argument(
        "--engine", choices=("spark", "sail"), help="default: spark, or sail if Spark cannot start on this machine"
    )
    parser.add_argument(
        "--output", metavar="DIR", default="output/quickstart", help="is overwritten; default: %(default)s"
    )
    parser.add_argument(
        "--relevance-threshold",
        metavar="RATING",
        type=float,
        help="held-out ratings from here on are relevant; default: 4, and 3 for the sample, where most ratings are 1",
    )
    options = parser.parse_args(arguments)
    threshold = options.relevance_threshold
    if threshold is None:
        threshold = 4.0 if options.ratings else 3.0

    def job() -> None:
        file = options.ratings or (str(SAMPLE) if SAMPLE.exists() else None)
        if file is not None and "://" not in file and not Path(file).exists():
            msg = f"--ratings: there is no file {file}"
            raise ConfigurationError(msg)
        engine = options.engine or engine_of_this_machine()
        say("starting Sail, which needs no Java" if engine == "sail" else "starting Spark")
        with job_session("spark_rankeval quickstart", Session(engine)) as spark:
            quickstart(spark, file, options.output.rstrip("/"), threshold)

    return run_job("quickstart", job)


def quickstart(spark: SparkSession, file: str | None, output: str, relevance_threshold: float) -> None:
    """Split, train, recommend, evaluate and print; each step is stored before the next one reads it.

    Args:
        spark: the session.
        file: the ratings; None: generated ones.
        output: the folder of all that is written.
        relevance_threshold: held-out ratings from here on are relevant.
    """
    source = "a generator" if file is None else Path(file).name
    say(f"splitting the ratings of {source}")
    everything = generated_ratings(spark) if file is None else read_ratings(spark, file)
    ratings = store(hold_out(everything, HELD_OUT, SEED), f"{output}/ratings")
    training = store(ratings.where(~F.col("held_out")).drop("held_out"), f"{output}/training")
    labels = store(ratings.where("held_out").drop("held_out"), f"{output}/labels")
    counts = ratings.agg(
        F.count(F.lit(1)).alias("ratings"),
        F.countDistinct("user").alias("users"),
        F.countDistinct("item").alias("movies"),
        F.count_if("held_out").alias("labels"),
    ).first()
    if counts is None or not counts.labels:
        msg = f"{file}: no user has two ratings, one to train on and one to hold out"
        raise ConfigurationError(msg)
    engine = engine_of(spark)
    substitute = "" if engine.name == SPARK else "; ALS needs Spark, so item_to_item stands in for it"
    print(
        f"run on {engine.name} {engine.version}{substitute}\n"
        f"{counts.ratings:,} ratings of {counts.movies:,} movies by {counts.users:,} users, from {source}\n"
        f"{counts.labels:,} of them are held out as labels: the last {HELD_OUT:.0%} of each user, "
        f"equal times in a seeded random order\n"
        f"{RECOMMENDED} unseen movies are recommended to each user; "
        f"those held out with a rating of {relevance_threshold:g} or more are relevant"
    )
    recommenders: dict[str, Callable[[DataFrame, int], DataFrame]] = {}
    if engine.name == SPARK:
        recommenders["als"] = partial(recommend_by_als, relevance_threshold=relevance_threshold)
    else:
        recommenders["item_to_item"] = recommend_by_items_in_common
    recommenders |= {
        "popularity": popularity,
        "random": recommend_at_random,
    }
    results = {}
    for model, recommend in recommenders.items():
        say(f"training {model} and recommending {RECOMMENDED} movies to each user")
        predictions = store(recommend(training, RECOMMENDED), f"{output}/{model}")
        say(f"evaluating {model}")
        per_user = score_users(
            {model: predictions},
            labels,
            METRICS,
            score="score",
            relevance="rating",
            relevance_threshold=relevance_threshold,
            dialect=DIALECT,
            facts=Facts(training=training),
        )
        results[model] = write_per_user(per_user, f"{output}/per_user_{model}", mode="overwrite")
        print(f"\n{results[model]}")
    say("comparing the models")
    comparison = compare(results, baseline="popularity")
    print(f"\n{comparison}\n")
    for metric in HEADLINES:
        for model in recommenders:
            if model != "popularity":
                print(comparison[metric, model].sentence)
    names = ["ratings", "training", "labels", *recommenders, *(f"per_user_{model}" for model in recommenders)]
    print(f"\nwritten to {output}: {', '.join(names)}")


def say(what: str) -> None:
    """Print what happens now to the standard error, so that the standard output has the results alone."""
    print(f"{what} ...", file=sys.stderr, flush=True)


def store(frame: DataFrame, path: str) -> DataFrame:
    """Write a table and give it read back, so that nothing before it is computed again."""
    frame.write.mode("overwrite").parquet(path)
    return frame.sparkSession.read.parquet(path)


def generated_ratings(spark: SparkSession) -> DataFrame:
    """Made-up ratings with a fixed seed, in the form of `read_ratings`.

    Users and movies have one of some tastes. Users choose six times as often among the movies of their taste, and rate them better. Movies
    with small ids are popular.
    """
    draw = random.Random(SEED)
    rows = []
    for user in range(GENERATED_USERS):
        shared = [movie % TASTES == user % TASTES for movie in range(GENERATED_MOVIES)]
        weights = [(6 if is_shared else 1) * 1000 // (10 + movie) for movie, is_shared in enumerate(shared)]
        chosen = dict.fromkeys(draw.choices(range(GENERATED_MOVIES), weights, k=40))
        for time, movie in enumerate(chosen):
            rows.append((user, movie, float(draw.randint(1, 3) + 2 * shared[movie]), time))
    return spark.createDataFrame(rows, "user int, item int, rating double, timestamp bigint")


def read_ratings(spark: SparkSession, file: str) -> DataFrame:
    """Ratings as user, item, rating, timestamp; of a movie rated twice by a user, the later rating.

    MovieLens has published three forms: fields between ``::`` or tabs without a header, and CSV with one.

    Raises:
        ConfigurationError: the file is in none of these forms.
    """
    first = spark.read.text(file).head()
    line = "" if first is None else first[0]
    separator = next((text for text in ("::", "\t", ",") if text in line), ",")
    fields = line.split(separator)
    has_header = not fields[0].strip().isdigit()
    columns = list(_SPELLINGS)
    if has_header:
        words = [field.strip().strip('"').replace("_", "").lower() for field in fields]
        columns = [next((name for name, all_ in _SPELLINGS.items() if word in all_), word) for word in words]
    if len(columns) > len(fields) or not set(_SPELLINGS) <= set(columns):
        msg = f"--ratings: {file} must have user, movie, rating and timestamp; its first line is {line[:80]!r}"
        raise ConfigurationError(msg)
    if separator == "::":
        # Not every engine reads CSV with separators of several characters.
        table = spark.read.text(file).select(F.split("value", separator).alias("fields"))
        column = {name: F.col("fields")[index] for index, name in enumerate(columns)}
    else:
        schema = ", ".join(f"c{index} string" for index in range(len(fields)))
        table = spark.read.csv(file, sep=separator, header=has_header, schema=schema, enforceSchema=True)
        column = {name: F.col(f"c{index}") for index, name in enumerate(columns)}
    return (
        table.select(
            # ALS takes ids of 32 bits, which all of MovieLens fits in.
            column["user"].cast("int").alias("user"),
            column["item"].cast("int").alias("item"),
            column["rating"].cast("double").alias("rating"),
            column["timestamp"].cast("bigint").alias("timestamp"),
        )
        .groupBy("user", "item")
        .agg(F.max(F.struct("timestamp", "rating")).alias("last"))
        .select("user", "item", "last.rating", "last.timestamp")
    )


def hold_out(ratings: DataFrame, share: float, seed: int) -> DataFrame:
    """Mark the last ratings of each user as held out, at least one of a user who has two.

    A seeded hash of user and item orders ratings of one time. It is the same in every run and partitioning.
    It is unrelated to the ids, which may follow popularity.

    Args:
        ratings: user, item, rating, timestamp; a user and item at most once.
        share: how much of each user's ratings to hold out, rounded down.
        seed: of the order of equal times.

    Returns:
        the ratings, with a column ``held_out``.
    """
    user = Window.partitionBy("user")
    latest_first = user.orderBy(F.desc("timestamp"), F.xxhash64("user", "item", F.lit(seed)), "item")
    count = F.count(F.lit(1)).over(user)
    wanted = F.when(count >= 2, F.greatest(F.lit(1), F.floor(count * share))).otherwise(0)
    return ratings.withColumn("held_out", F.row_number().over(latest_first) <= wanted)


def recommend_by_als(training: DataFrame, k: int, relevance_threshold: float) -> DataFrame:
    """The k unseen items of highest predicted preference for each user, by the number of factors that ranks the whole catalogue best."""
    # They need Spark's JVM.
    from pyspark.ml.recommendation import ALS

    from spark_rankeval.ml import CatalogueCrossValidator, RankingEvaluator

    als = ALS(
        userCol="user",
        itemCol="item",
        ratingCol="rating",
        # What is ranked is which movies a user will rate at all, so a rating says how sure it is that one is wanted.
        implicitPrefs=True,
        # So few ratings would spend their time on starting the tasks of more blocks.
        numUserBlocks=2,
        numItemBlocks=2,
        seed=SEED,
    )
    validator = CatalogueCrossValidator(
        estimator=als,
        estimatorParamMaps=[{als.rank: rank} for rank in RANKS],
        evaluator=RankingEvaluator(metricName=HEADLINES[0], dialect=DIALECT, relevanceThreshold=relevance_threshold),
        numFolds=2,
        seed=SEED,
    )
    tuned = validator.fit(training)
    figures = ", ".join(f"{mean:.4f} with {rank}" for rank, mean in zip(RANKS, tuned.avgMetrics, strict=True))
    print(f"\n{HEADLINES[0]} of ALS over the whole catalogue, by the number of factors: {figures}")
    unseen = top_items(Vectors.of(tuned.bestModel), k, exclude=training)
    return unseen.select("user", F.inline("recommendations"))


def recommend_by_items_in_common(training: DataFrame, k: int) -> DataFrame:
    """The k unseen items most similar to those that the user has rated: the sum of the cosines of their sets of users."""
    seen = training.select("user", "item")
    n_users = seen.groupBy("item").agg(F.count(F.lit(1)).alias("n_users"))
    others = n_users.select(F.col("item").alias("other"), F.col("n_users").alias("n_users_of_other"))
    pairs = seen.join(seen.withColumnRenamed("item", "other"), "user").where("item <> other")
    shared = (
        pairs.groupBy("item", "other")
        .agg(F.count(F.lit(1)).alias("n_shared"))
        .join(n_users, "item")
        .join(others, "other")
    )
    # Sums of whole numbers are the same in every order.
    millionths = F.expr("bigint(round(1000000 * n_shared / sqrt(double(n_users * n_users_of_other))))")
    similar = shared.select("item", "other", millionths.alias("similarity"))
    scores = seen.join(similar, "item").groupBy("user", "other").agg(F.sum("similarity").cast("double").alias("score"))
    return best_unseen(scores.withColumnRenamed("other", "item"), training, k)


def recommend_at_random(training: DataFrame, k: int) -> DataFrame:
    """Unseen items for each user, k of them, drawn at random: the same in every run and partitioning."""
    candidates = training.select("user").distinct().crossJoin(training.select("item").distinct())
    # With the seed of hold_out the order would tell which ratings are held out.
    score = F.xxhash64("user", "item", F.lit(SEED + 1)).cast("double")
    return best_unseen(candidates.withColumn("score", score), training, k)


def best_unseen(candidates: DataFrame, training: DataFrame, k: int) -> DataFrame:
    """The k best candidates of each user that are not among the user's training items.

    Args:
        candidates: user, item, score.
        training: user and item, among others.
        k: how many.
    """
    best_first = Window.partitionBy("user").orderBy(F.desc("score"), "item")
    unseen = candidates.join(training, ["user", "item"], "left_anti")
    return unseen.withColumn("rank", F.row_number().over(best_first)).where(F.col("rank") <= k)


if __name__ == "__main__":
    sys.exit(main())
