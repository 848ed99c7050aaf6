"""A first look: three models on ratings, from the split to a verdict, in one file read from top to bottom.

It prints the same figures on Spark and on Sail, which needs no Java.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

try:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from spark_rankeval import Facts, compare, evaluate, popularity
    from spark_rankeval.errors import ConfigurationError
    from spark_rankeval.jobs.command import engine_of_this_machine, job_session, run_job
    from spark_rankeval.jobs.config import Session
    from spark_rankeval.spark.engine import engine_of
    from spark_rankeval.splits import last_n
except ModuleNotFoundError as error:
    sys.stderr.write(f"quickstart: {error}. In a checkout: make demo, or pip install -e '.[spark]'\n")
    sys.exit(2)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

METRICS = ["ndcg@10", "recall@10", "precision@10", "hit_rate@10", "ap@10", "novelty@10"]
BASELINE = "popularity"
LABELS_PER_USER = 8
# Rated movies that a user liked.
RELEVANT = 4.0
RECOMMENDED = 20
SEED = 42
DEFAULT_OUTPUT = "output/quickstart"
# The ratings that are made up: how many movies and users, into how many tastes both divide, and how many movies a user rates.
MOVIES, USERS, TASTES, RATED = 200, 400, 5, 40

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
        "--ratings", metavar="FILE", help="MovieLens ratings, .csv, .dat or u.data; default: made-up ratings"
    )
    parser.add_argument(
        "--engine", choices=("spark", "sail"), help="default: spark, or sail if Spark cannot start on this machine"
    )
    parser.add_argument("--output", metavar="DIR", default=DEFAULT_OUTPUT, help="is overwritten; default: %(default)s")
    options = parser.parse_args(arguments)

    def job() -> None:
        file = options.ratings
        if file is not None and "://" not in file and not Path(file).exists():
            msg = f"--ratings: there is no file {file}"
            raise ConfigurationError(msg)
        engine = options.engine or engine_of_this_machine()
        say("starting Sail, which needs no Java" if engine == "sail" else "starting Spark")
        with job_session("spark_rankeval quickstart", Session(engine)) as spark:
            quickstart(spark, file, options.output.rstrip("/"))

    return run_job("quickstart", job)


def quickstart(spark: SparkSession, file: str | None, output: str) -> None:
    """Split, train, recommend, evaluate and compare; each step is stored before the next one reads it.

    Args:
        spark: the session.
        file: the ratings; None: made-up ones.
        output: the folder of all that is written.
    """
    say("splitting the ratings")
    ratings = store(made_up_ratings(spark) if file is None else read_ratings(spark, file), f"{output}/ratings")
    split = last_n(ratings, LABELS_PER_USER, time="timestamp", relevance="rating").check()
    training, labels = store(split.training, f"{output}/training"), store(split.labels, f"{output}/labels")
    engine = engine_of(spark)
    print(f"{'made-up ratings' if file is None else file}, on {engine.name} {engine.version}\n{split.counts()}")

    say(f"recommending {RECOMMENDED} movies that a user has not rated, by three models")
    models = {
        "popularity": store(popularity(training, RECOMMENDED), f"{output}/popularity"),
        "item_to_item": store(recommend_by_items_in_common(training, RECOMMENDED), f"{output}/item_to_item"),
        "random": store(recommend_at_random(training, RECOMMENDED), f"{output}/random"),
    }

    say("evaluating them")
    result = evaluate(
        models,
        labels,
        METRICS,
        score="score",
        relevance="rating",
        relevance_threshold=RELEVANT,
        dialect="standard",
        facts=Facts(training=training),
    ).write(f"{output}/per_user", mode="overwrite")
    print(f"\n{result.models_table()}")

    say("comparing them")
    comparison = compare(result, baseline=BASELINE, metrics=["ndcg@10", "recall@10"], headline="ndcg@10")
    print(f"\n{comparison}\n\ntables: {output}")
    if find_spec("altair"):
        print(f"charts: {result.report(f'{output}/report.html', comparison=comparison)}")
    if output != DEFAULT_OUTPUT:
        return
    # The configurations read the default folder.
    option = "" if engine.is_spark else " --engine sail"
    python = os.path.relpath(sys.executable)
    print(
        f"""next:
  {python} jobs/evaluate.py --config conf/evaluate.toml{option}
  {python} jobs/compare.py --config conf/compare.toml{option}
  {python} jobs/quickstart.py --ratings ratings.csv{option}     # those of MovieLens"""
    )


def say(what: str) -> None:
    """Print what happens now to the standard error, so that the standard output has the results alone."""
    print(f"{what} ...", file=sys.stderr, flush=True)


def store(frame: DataFrame, path: str) -> DataFrame:
    """Write a table and give it read back, so that nothing before it is computed again."""
    frame.write.mode("overwrite").parquet(path)
    return frame.sparkSession.read.parquet(path)


def made_up_ratings(spark: SparkSession) -> DataFrame:
    """Made-up ratings with a fixed seed, in the form of `read_ratings`.

    Users and movies have one of some tastes. Users choose four times as often among the movies of their taste, and rate them better.
    Movies with small ids are popular.
    """
    draw = random.Random(SEED)
    rows = []
    for user in range(USERS):
        shared = [movie % TASTES == user % TASTES for movie in range(MOVIES)]
        weights = [(4 if is_shared else 1) * 1000 // (10 + movie) for movie, is_shared in enumerate(shared)]
        chosen: dict[int, None] = {}
        while len(chosen) < RATED:
            chosen |= dict.fromkeys(draw.choices(range(MOVIES), weights, k=RATED - len(chosen)))
        order = draw.sample(sorted(chosen), RATED)
        rows += [(user, movie, float(draw.randint(1, 3) + 2 * shared[movie]), time) for time, movie in enumerate(order)]
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
            column["user"].cast("int").alias("user"),
            column["item"].cast("int").alias("item"),
            column["rating"].cast("double").alias("rating"),
            column["timestamp"].cast("bigint").alias("timestamp"),
        )
        .groupBy("user", "item")
        .agg(F.max(F.struct("timestamp", "rating")).alias("last"))
        .select("user", "item", "last.rating", "last.timestamp")
    )


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
    score = F.xxhash64("user", "item", F.lit(SEED)).cast("double")
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
