"""The pieces of work that are timed beside each other in one Spark session."""

from __future__ import annotations

import os
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from pyspark.sql import DataFrame, SparkSession

METRICS = ("precision", "recall", "ndcg", "ap", "rr", "hit_rate")
FIVE = ("precision", "recall", "ndcg", "ap", "rr")
# What Spark's evaluator, RePlay and Recommenders have, too, by the names that Spark's evaluator gives them.
FOUR = {"precision": "precisionAtK", "recall": "recallAtK", "ndcg": "ndcgAtK", "ap": "meanAveragePrecisionAtK"}
CORES = 2


def start_session(heap: str, partitions: int, java_options: str = "") -> SparkSession:
    """A local session whose size is fixed, so that figures compare."""
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    spark: SparkSession = (
        SparkSession.builder.master(f"local[{CORES},4]")
        .config("spark.driver.memory", heap)
        .config("spark.driver.extraJavaOptions", java_options)
        .config("spark.sql.shuffle.partitions", str(partitions))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    return spark


WORDS = {
    "scan": "scan both tables",
    "shuffle": "bare shuffle of both by user (the floor)",
    "grouped": "both grouped into lists and joined, no Python",
    "one": "evaluate, 1 value",
    "many": "evaluate, {many} values",
    "no-quantiles": "evaluate, {many} values, no quantiles",
    "ten": "evaluate, 10 values",
    "ten-bootstrap": "evaluate, 10 values, 1,000 replicates",
    "twenty": "evaluate, the 20 values that Spark's evaluator has",
    "every": "evaluate, every metric, {every} values",
    "pruned": "evaluate, {many} values, pruned",
    "ndcg": "evaluate, ndcg@10, pruned, what the next are beside",
    "popularity": "… with 4 measures of how known items are",
    "history": "… with 3 measures of the user's history",
    "categories": "… with 2 measures of categories",
    "vectors": "… with diversity by vectors of 16 numbers",
    "baseline": "… with 2 measures against a baseline",
    "all-lists": "… with 4 measures of all lists together",
    "logged": "evaluate, 20 estimates from logged feedback",
    "pyspark-ml": "RankingEvaluator of spark_rankeval.ml, ndcg@10",
    "trec": "read TREC's files, and evaluate ndcg@10",
    "per-user": "score_users, {many} values, all rows",
    "spark": "Spark's RankingEvaluator, 1 value",
    "spark-twenty": "Spark's RankingEvaluator, 20 values one by one",
    "arrays-scan": "arrays: scan",
    "arrays-carried": "arrays: to Python workers that do nothing",
    "arrays": "arrays: evaluate, {many} values",
    "arrays-every": "arrays: every metric, {every} values, whole",
    "arrays-many": "arrays: evaluate, {many} values, whole",
    "arrays-no-quantiles": "arrays: {many} values, whole, no quantiles",
    "arrays-spark": "arrays: RankingEvaluator, 1 value",
}
# Measures beyond accuracy by their work, each beside ndcg@10.
BEYOND_ACCURACY = {
    "ndcg": (),
    "popularity": ("novelty@10", "surprisal@10", "average_popularity@10", "cold_items@10"),
    "history": ("repetition@10", "cold_user", "popularity_ratio@10"),
    "categories": ("diversity@10", "categorical_diversity@10"),
    "vectors": ("diversity(by='vector')@10",),
    "baseline": ("unexpectedness@10", "serendipity@10"),
    "all-lists": ("coverage@10", "gini@10", "entropy@10", "personalisation@10"),
}
ESTIMATES = [
    f"{metric}({estimator})@{k}"
    for metric in ("dcg", "precision")
    for estimator in ("estimator='ips'", "estimator='ips', weight_limit=3")
    for k in (1, 3, 5, 10, 20)
]
# Too long to be repeated often: best of so many rounds, and none to warm up.
FEW_ROUNDS = {"spark-twenty": 1}


def all_works(spark: SparkSession, folder: str, cutoffs: list[int], partitions: int) -> dict[str, Callable[[], object]]:
    """The works by name, in the order of the table."""
    from pyspark.ml.evaluation import RankingEvaluator
    from pyspark.sql import functions as F

    from spark_rankeval import Facts, evaluate, score_users

    # Read once: what a session looks up when it opens a table is no matter of any work.
    tables = {path.name: spark.read.parquet(str(path)) for path in Path(folder).iterdir()}

    def rows(metrics: list[str], **options: object) -> Callable[[], object]:
        return lambda: evaluate(tables["predictions"], tables["labels"], metrics, score="score", **options)  # type: ignore[arg-type] # as given

    def arrays(metrics: list[str], **options: object) -> Callable[[], object]:
        return lambda: evaluate(tables["arrays"], None, metrics, **options)  # type: ignore[arg-type] # as given

    def sink(frame: DataFrame) -> None:
        frame.write.format("noop").mode("overwrite").save()

    def both(shuffled: bool) -> DataFrame:
        left = tables["predictions"]
        right = tables["labels"].select("user", "item", F.lit(None).cast("double").alias("score"))
        if shuffled:
            left, right = left.repartition(partitions, "user"), right.repartition(partitions, "user")
        return left.unionByName(right)

    def grouped() -> DataFrame:
        lists = tables["predictions"].groupBy("user").agg(F.collect_list("item"), F.collect_list("score"))
        return lists.join(tables["labels"].groupBy("user").agg(F.collect_list("item")), "user", "full")

    def nothing(batches: Iterator[Any]) -> Iterator[Any]:
        for _ in batches:
            pass
        return iter(())

    def carried() -> DataFrame:
        # The same items that go to Python for these cutoffs.
        return tables["arrays"].select(F.slice("prediction", 1, max(cutoffs)), "label").mapInArrow(nothing, "n long")

    training, items, baseline = further_tables(spark, tables)

    def beyond(measures: Collection[str]) -> Callable[[], object]:
        return rows(["ndcg@10", *measures], facts=Facts(training=training, items=items, baseline=baseline))

    def logged() -> None:
        weighted = tables["labels"].withColumn("weight", 1 + F.pmod(F.xxhash64("item"), F.lit(5)))
        evaluate(tables["predictions"], weighted, ESTIMATES, score="score", weight="weight")

    def ml_evaluator() -> None:
        from spark_rankeval.ml import RankingEvaluator as OurEvaluator

        # As a recommender's transform gives it: what was held out, with a rating and what was predicted of it.
        rating = F.pmod("item", F.lit(5)).cast("double").alias("rating")
        held_out = tables["predictions"].select("user", "item", rating, F.col("score").alias("prediction"))
        OurEvaluator(metricName="ndcg@10", relevanceThreshold=3).evaluate(held_out)

    def trec_files() -> None:
        from spark_rankeval.trec import evaluate_runs, read_qrels, read_run

        run, qrels = Path(folder) / "run", Path(folder) / "qrels"
        if not run.exists():
            lines = {run: ("predictions", "0, score, 'run'"), qrels: ("labels", "1")}
            for path, (table, rest) in lines.items():
                tables[table].select(F.expr(f"concat_ws(' ', user, 'Q0', item, {rest})")).write.text(str(path))
        evaluate_runs(read_run(spark, f"{run}/part-*"), read_qrels(spark, f"{qrels}/part-*"), ["ndcg@10"])

    def spark_evaluator(frame: DataFrame, metric: str = "ndcgAtK", k: int = 10) -> float:
        evaluator = RankingEvaluator(predictionCol="prediction", labelCol="label", k=k)
        evaluator.setMetricName(metric)  # type: ignore[arg-type] # one of its names
        return evaluator.evaluate(frame)

    def prepared() -> DataFrame:
        pair = F.struct(F.col("score"), F.col("item").cast("double").alias("item"))
        lists = tables["predictions"].groupBy("user").agg(F.sort_array(F.collect_list(pair), asc=False).alias("pairs"))
        truth = tables["labels"].groupBy("user").agg(F.collect_list(F.col("item").cast("double")).alias("label"))
        return lists.select("user", F.col("pairs.item").alias("prediction")).join(truth, "user")

    def one_by_one() -> None:
        for metric in FOUR.values():
            for k in cutoffs:
                spark_evaluator(prepared(), metric, k)

    many, every = values_of(METRICS, cutoffs), every_metric(cutoffs)
    ten, twenty, one = values_of(FIVE, [5, 10]), values_of(FOUR, cutoffs), [f"ndcg@{cutoffs[len(cutoffs) // 2]}"]
    return {
        "scan": lambda: sink(both(shuffled=False)),
        "shuffle": lambda: sink(both(shuffled=True)),
        "grouped": lambda: sink(grouped()),
        "one": rows(one, prune="never"),
        "many": rows(many, prune="never"),
        "no-quantiles": rows(many, prune="never", quantiles=()),
        "ten": rows(ten, prune="never"),
        "ten-bootstrap": rows(ten, prune="never", ci="bca"),
        "twenty": rows(twenty, prune="never"),
        "every": rows(every, prune="never"),
        "pruned": rows(many),
        **{name: beyond(measures) for name, measures in BEYOND_ACCURACY.items()},
        "logged": logged,
        "pyspark-ml": ml_evaluator,
        "trec": trec_files,
        "per-user": lambda: sink(
            score_users(tables["predictions"], tables["labels"], many, score="score", prune="never")
        ),
        "spark": lambda: spark_evaluator(prepared()),
        "spark-twenty": one_by_one,
        "arrays-scan": lambda: sink(tables["arrays"]),
        "arrays-carried": lambda: carried().collect(),
        "arrays": arrays(many),
        "arrays-every": arrays(every, prune="never"),
        "arrays-many": arrays(many, prune="never"),
        "arrays-no-quantiles": arrays(many, prune="never", quantiles=()),
        "arrays-spark": lambda: spark_evaluator(tables["arrays"]),
    }


def further_tables(
    spark: SparkSession, tables: dict[str, DataFrame]
) -> tuple[DataFrame | None, DataFrame | None, DataFrame | None]:
    """Training data of as many rows as predictions, their items with category and vector, and a baseline's 20 items a user.

    None where item ids are text, or there are no rows.
    """
    from pyspark.sql import functions as F

    predictions = tables.get("predictions")
    if predictions is None or dict(predictions.dtypes)["item"] == "string":
        return None, None, None
    # Popular items have small numbers.
    popular = F.pow(F.pmod(F.xxhash64("user", "item"), F.lit(1_000_000)) / 1e6, 3) * 100_000
    training = predictions.select("user", popular.cast("bigint").alias("item"))
    items = spark.range(100_000).select(
        F.col("id").alias("item"),
        (F.col("id") % 50).cast("string").alias("category"),
        F.expr("transform(sequence(1, 16), i -> sin(id * i))").alias("vector"),
    )
    best = spark.range(20).select(F.col("id").alias("item"), (-F.col("id")).cast("double").alias("score"))
    baseline = tables["labels"].select("user").distinct().crossJoin(F.broadcast(best))
    return training, items, baseline


def values_of(metrics: Collection[str], cutoffs: list[int]) -> list[str]:
    """Each metric at each cutoff."""
    return [f"{metric}@{k}" for metric in metrics for k in cutoffs]


def every_metric(cutoffs: list[int]) -> list[str]:
    """Every metric there is, at every cutoff where it takes one."""
    from spark_rankeval import metrics as _  # noqa: F401 - fills the registry
    from spark_rankeval.metrics.base import REGISTRY

    # Those of the items themselves ask for further tables.
    of_labels = {metric.name: metric for metric in REGISTRY.values() if not metric().resolve().reads.unlabelled}
    kinds = sorted(of_labels.items())
    return [value for name, kind in kinds for value in (values_of([name], cutoffs) if kind.takes_cutoff else [name])]


def timed(works: dict[str, Callable[[], object]], rounds: int, warm_up: int) -> dict[str, list[float]]:
    """The times of each work in seconds, one a round, the works taking turns."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for number in range(-warm_up, rounds):
        for name, work in works.items():
            if name in FEW_ROUNDS and not 0 <= number < FEW_ROUNDS[name]:
                continue
            began = time.perf_counter()
            work()
            if number >= 0:
                times[name].append(time.perf_counter() - began)
        print(f"round {number + 1} of {rounds} done" if number >= 0 else "warm-up round done", file=sys.stderr)
    return times
