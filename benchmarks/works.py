"""The pieces of work that are timed beside each other in one Spark session, on predictions and labels alone.

Each call of this library has its default options, unless the words for it say otherwise.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.feature_works import FEATURE_WORDS, feature_works
from benchmarks.floors import floors, sink, to_nothing
from benchmarks.on_sail import ON_SAIL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pyspark.sql import DataFrame, SparkSession

    Work = Callable[[], object]

METRICS = ("precision", "recall", "ndcg", "ap", "rr", "hit_rate")
FIVE = ("precision", "recall", "ndcg", "ap", "rr")
# What Spark's evaluator, RePlay and Recommenders have, too, by the names that Spark's evaluator gives them.
FOUR = {"precision": "precisionAtK", "recall": "recallAtK", "ndcg": "ndcgAtK", "ap": "meanAveragePrecisionAtK"}

WORDS = {
    "scan": "scan both tables",
    "shuffle": "bare shuffle of both by user (the floor)",
    "grouped": "both grouped into lists and joined, no Python",
    "smallest": "both grouped and joined, to empty Python, collected",
    "hashed": "the same with the hashes of all rows added up",
    "one": "evaluate, 1 value",
    "many": "evaluate, {many} values",
    "no-quantiles": "evaluate, {many} values, no quantiles",
    "per-user": "score_users, {many} values, all rows",
    "spark": "Spark's RankingEvaluator, 1 value",
    "ten": "evaluate, 10 values",
    "ten-bootstrap": "evaluate, 10 values, 1,000 replicates",
    "every": "evaluate, every metric, over 100 values",
    "twenty": "evaluate, the 20 values that Spark's evaluator has",
    "spark-twenty": "Spark's RankingEvaluator, 20 values one by one",
    **FEATURE_WORDS,
    "arrays-scan": "arrays: scan",
    "arrays-carried": "arrays: to Python workers that do nothing",
    "arrays": "arrays: evaluate, {many} values",
    "arrays-every": "arrays: every metric, over 100 values",
    "arrays-no-quantiles": "arrays: {many} values, no quantiles",
    "arrays-spark": "arrays: RankingEvaluator, 1 value",
}


def words_of(work: str, cutoffs: list[int]) -> str:
    """What a work is, for a person."""
    if work.startswith(ON_SAIL):
        return f"on Sail: {words_of(work.removeprefix(ON_SAIL), cutoffs)}"
    return WORDS[work].format(many=len(METRICS) * len(cutoffs))


def first_value(result: object) -> float | None:
    """The first mean of an evaluation; None if the work was another."""
    summary = getattr(result, "summary", None)
    return summary[0].mean if summary else None


def all_works(spark: SparkSession, folder: str, cutoffs: list[int], partitions: int) -> dict[str, Work]:
    """The works by name."""
    # Read once: what a session looks up when it opens a table is no matter of any work.
    names = ("predictions", "labels", "arrays")
    tables = {name: spark.read.parquet(f"{folder}/{name}") for name in names if (Path(folder) / name).exists()}
    return {
        **floors(tables, partitions),
        **_evaluations(tables, cutoffs),
        **_spark_evaluator(tables, cutoffs),
        **(_array_works(tables, cutoffs) if "arrays" in tables else {}),
        **feature_works(spark, folder, tables, values_of(METRICS, cutoffs)),
    }


def _evaluations(tables: dict[str, DataFrame], cutoffs: list[int]) -> dict[str, Work]:
    from spark_rankeval import evaluate, score_users

    def rows(metrics: list[str], **options: Any) -> Work:
        return lambda: evaluate(tables["predictions"], tables["labels"], metrics, score="score", **options)

    many, ten = values_of(METRICS, cutoffs), values_of(FIVE, [5, 10])
    return {
        "one": rows([f"ndcg@{cutoffs[len(cutoffs) // 2]}"]),
        "many": rows(many),
        "no-quantiles": rows(many, quantiles=()),
        "per-user": lambda: sink(score_users(tables["predictions"], tables["labels"], many, score="score")),
        "ten": rows(ten),
        "ten-bootstrap": rows(ten, ci="bca"),
        "every": rows(every_metric(cutoffs)),
        "twenty": rows(values_of(FOUR, cutoffs)),
    }


def _spark_evaluator(tables: dict[str, DataFrame], cutoffs: list[int]) -> dict[str, Work]:
    from pyspark.sql import functions as F

    def prepared() -> DataFrame:
        pair = F.struct(F.col("score"), F.col("item").cast("double").alias("item"))
        lists = tables["predictions"].groupBy("user").agg(F.sort_array(F.collect_list(pair), asc=False).alias("pairs"))
        truth = tables["labels"].groupBy("user").agg(F.collect_list(F.col("item").cast("double")).alias("label"))
        return lists.select("user", F.col("pairs.item").alias("prediction")).join(truth, "user")

    def one_by_one() -> None:
        for metric in FOUR.values():
            for k in cutoffs:
                _by_spark(prepared(), metric, k)

    return {"spark": lambda: _by_spark(prepared()), "spark-twenty": one_by_one}


def _array_works(tables: dict[str, DataFrame], cutoffs: list[int]) -> dict[str, Work]:
    from pyspark.sql import functions as F

    from spark_rankeval import evaluate

    def arrays(metrics: list[str], **options: Any) -> Work:
        return lambda: evaluate(tables["arrays"], None, metrics, **options)

    def carried() -> DataFrame:
        # The same items that go to Python for these cutoffs.
        return to_nothing(tables["arrays"].select(F.slice("prediction", 1, max(cutoffs)), "label"))

    many, every = values_of(METRICS, cutoffs), every_metric(cutoffs)
    return {
        "arrays-scan": lambda: sink(tables["arrays"]),
        "arrays-carried": lambda: carried().collect(),
        "arrays": arrays(many),
        "arrays-every": arrays(every),
        "arrays-no-quantiles": arrays(many, quantiles=()),
        "arrays-spark": lambda: _by_spark(tables["arrays"]),
    }


def _by_spark(frame: DataFrame, metric: str = "ndcgAtK", k: int = 10) -> float:
    from pyspark.ml.evaluation import RankingEvaluator

    evaluator = RankingEvaluator(predictionCol="prediction", labelCol="label", k=k)
    evaluator.setMetricName(metric)  # type: ignore[arg-type] # one of its names
    return evaluator.evaluate(frame)


def values_of(metrics: Collection[str], cutoffs: list[int]) -> list[str]:
    """Each metric at each cutoff."""
    return [f"{metric}@{k}" for metric in metrics for k in cutoffs]


def every_metric(cutoffs: list[int]) -> list[str]:
    """Every metric there is, at every cutoff where it takes one."""
    from spark_rankeval import metrics as _  # noqa: F401 - fills the registry
    from spark_rankeval.metrics.base import REGISTRY

    # Those of the items themselves, of intents and of users without an answer ask for further tables.
    resolved = {kind: kind().resolve() for kind in REGISTRY.values()}
    kinds = sorted(
        (kind.name, kind)
        for kind, metric in resolved.items()
        if not (metric.reads.unlabelled or metric.reads.facts or metric.reads_no_answer)
    )
    return [value for name, kind in kinds for value in (values_of([name], cutoffs) if kind.takes_cutoff else [name])]
