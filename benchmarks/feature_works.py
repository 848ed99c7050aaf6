"""Works that need more than predictions and labels: measures beyond accuracy, slices, models, TREC's files, pipelines."""

from __future__ import annotations

from functools import cache, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.floors import grouped_by_user, joined_lists, to_nothing
from benchmarks.retrieval_works import RETRIEVAL_WORDS, prepare_retrieval, retrieval_works

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    Work = Callable[[], object]
    Prepared = Callable[[str], DataFrame]

FEATURE_WORDS = {
    "ndcg": "evaluate, ndcg@10 alone",
    "popularity": "… with 4 measures of how known items are",
    "history": "… with 3 measures of the user's history",
    "categories": "… with 2 measures of categories",
    "vectors": "… with diversity by vectors of 16 numbers",
    "baseline": "… with 2 measures against a baseline",
    "training-lists": "training data grouped by user, to empty Python",
    "baseline-lists": "the baseline grouped by user, to empty Python",
    "all-lists": "… with 4 measures of all lists together",
    "audit": "audit of as many training rows as predictions, with times",
    "logged": "evaluate, 20 estimates from logged feedback",
    "sliced": "evaluate, {many} values, 2,000 slices",
    "item-groups": "evaluate, {many} values, 20 groups of items",
    "ten-grouped": "10 models in the same lists, and labels, joined, to empty Python",
    "ten-models": "evaluate, {many} values, 10 models at once",
    "sessions": "evaluate, {many} values, users of two columns",
    "clustered": "… with cluster=, 10 sessions of each person",
    "groups": "compare_groups, {many} values, 2 groups",
    "groups-covariate": "… with covariate=",
    "groups-sequential": "… with sequential=True",
    "ml-evaluate": "evaluate, ndcg@10, of a pipeline's frame",
    "pyspark-ml": "RankingEvaluator of spark_rankeval.ml, ndcg@10",
    "trec-parquet": "evaluate_runs, ndcg@10, of TREC's columns in Parquet",
    "trec": "read TREC's files, and evaluate ndcg@10",
    **RETRIEVAL_WORDS,
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
_SLICES, _ITEM_GROUPS, _MODELS, _SESSIONS = 2_000, 20, 10, 10


def prepare(spark: SparkSession, folder: str, works: Collection[str], many: list[str]) -> None:
    """Write the tables and files that some of the works need, so that no time has this in it; `many` is as in `feature_works`."""
    from pyspark.sql import functions as F

    predictions, labels = (spark.read.parquet(f"{folder}/{name}") for name in ("predictions", "labels"))
    if "sliced" in works:
        segment = F.pmod(F.xxhash64("user"), F.lit(_SLICES)).alias("segment")
        predictions.select("user").distinct().select("user", segment).write.parquet(f"{folder}/segments")
    if "item-groups" in works:
        group = F.pmod(F.xxhash64("item"), F.lit(_ITEM_GROUPS)).cast("string").alias("provider")
        items = predictions.select("item").union(labels.select("item")).distinct()
        items.select("item", group).write.parquet(f"{folder}/providers")
    if {"ten-models", "ten-grouped"} & set(works):
        for number in range(_MODELS):
            predictions.withColumn("score", F.rand(number)).write.parquet(f"{folder}/model-{number}")
    if {"groups", "groups-covariate", "groups-sequential"} & set(works):
        _prepare_groups(folder, predictions, labels, many)
    if {*BEYOND_ACCURACY, "training-lists", "baseline-lists"} & set(works):
        for name, table in feature_tables(spark, {"predictions": predictions, "labels": labels})._asdict().items():
            table.write.parquet(f"{folder}/features-{name}")
    if "audit" in works:
        training = feature_tables(spark, {"predictions": predictions, "labels": labels}).training
        time = F.pmod(F.xxhash64("user", "item"), F.lit(1_000_000)).alias("timestamp")
        training.select("user", "item", time).write.parquet(f"{folder}/training")
        labels.select("user", "item", (time + 900_000).alias("timestamp")).write.parquet(f"{folder}/timed-labels")
    if {"trec", "trec-parquet"} & set(works):
        _prepare_trec(spark, folder, predictions, labels)
    prepare_retrieval(spark, folder, works)


def _prepare_groups(folder: str, predictions: DataFrame, labels: DataFrame, many: list[str]) -> None:
    from pyspark.sql import functions as F

    from spark_rankeval import score_users, write_per_user

    write_per_user(score_users(predictions, labels, many, score="score"), f"{folder}/per-user")
    variant = F.when(F.pmod(F.xxhash64("user"), F.lit(2)) == 0, "old").otherwise("new").alias("variant")
    before = (F.pmod(F.xxhash64("user", F.lit("before")), F.lit(1_000)) / 1_000).alias("before")
    predictions.select("user").distinct().select("user", variant, before).write.parquet(f"{folder}/variants")


def _prepare_trec(spark: SparkSession, folder: str, predictions: DataFrame, labels: DataFrame) -> None:
    from pyspark.sql import functions as F

    from spark_rankeval.trec import read_qrels, read_run

    predictions.select(F.expr("concat_ws(' ', user, 'Q0', item, 0, score, 'run')")).write.text(f"{folder}/run")
    labels.select(F.expr("concat_ws(' ', user, 'Q0', item, 1)")).write.text(f"{folder}/qrels")
    # The same ids: text, as the files have them.
    read_run(spark, f"{folder}/run/part-*").write.parquet(f"{folder}/run-parquet")
    read_qrels(spark, f"{folder}/qrels/part-*").write.parquet(f"{folder}/qrels-parquet")


def feature_works(spark: SparkSession, folder: str, tables: dict[str, DataFrame], many: list[str]) -> dict[str, Work]:
    """The works by name. Those of `prepare` run only after it.

    Args:
        spark: the session.
        folder: the tables.
        tables: predictions and labels, open.
        many: the metrics of slices and of models.
    """

    @cache
    def prepared(name: str) -> DataFrame:
        return spark.read.parquet(f"{folder}/{name}")

    return {
        **_beyond_accuracy(prepared, tables),
        **_parts_and_models(prepared, tables, many),
        **_clusters(tables, many),
        **_groups(prepared),
        **_pipelines(tables),
        **_trec(spark, folder, prepared),
        **retrieval_works(prepared),
        "audit": lambda: _audit(prepared, tables),
    }


def _audit(prepared: Prepared, tables: dict[str, DataFrame]) -> object:
    from spark_rankeval import audit

    return audit(prepared("training"), prepared("timed-labels"), tables["predictions"])


def _beyond_accuracy(prepared: Prepared, tables: dict[str, DataFrame]) -> dict[str, Work]:
    from pyspark.sql import functions as F

    from spark_rankeval import Facts, evaluate

    def beyond(measures: Iterable[str]) -> Work:
        metrics = ["ndcg@10", *measures]

        def evaluated() -> object:
            training, items, baseline = (prepared(f"features-{name}") for name in FeatureTables._fields)
            facts = Facts(training=training, items=items, baseline=baseline)
            return evaluate(tables["predictions"], tables["labels"], metrics, score="score", facts=facts)

        return evaluated

    def logged() -> object:
        weighted = tables["labels"].withColumn("weight", 1 + F.pmod(F.xxhash64("item"), F.lit(5)))
        return evaluate(tables["predictions"], weighted, ESTIMATES, score="score", weight="weight")

    def lists(name: str, *columns: str) -> Work:
        return lambda: to_nothing(grouped_by_user(prepared(f"features-{name}"), *columns)).collect()

    return {
        **{name: beyond(measures) for name, measures in BEYOND_ACCURACY.items()},
        "logged": logged,
        "training-lists": lists("training", "item"),
        "baseline-lists": lists("baseline", "item", "score"),
    }


def _parts_and_models(prepared: Prepared, tables: dict[str, DataFrame], many: list[str]) -> dict[str, Work]:
    from pyspark.sql import functions as F

    from spark_rankeval import Facts, evaluate

    def sliced() -> object:
        facts = Facts(attributes=prepared("segments"))
        return evaluate(tables["predictions"], tables["labels"], many, score="score", by="segment", facts=facts)

    def item_groups() -> object:
        facts = Facts(items=prepared("providers"), item_by="provider")
        return evaluate(tables["predictions"], tables["labels"], many, score="score", facts=facts)

    models = [f"model-{number}" for number in range(_MODELS)]

    def ten_models() -> object:
        return evaluate({name: prepared(name) for name in models}, tables["labels"], many, score="score")

    def ten_grouped() -> object:
        numbered = [
            prepared(name).withColumn("model", F.lit(number).cast("byte")) for number, name in enumerate(models)
        ]
        every = reduce(lambda left, right: left.unionByName(right), numbered)
        return to_nothing(joined_lists(every, tables["labels"])).collect()

    return {"sliced": sliced, "item-groups": item_groups, "ten-models": ten_models, "ten-grouped": ten_grouped}


def _clusters(tables: dict[str, DataFrame], many: list[str]) -> dict[str, Work]:
    from pyspark.sql import functions as F

    from spark_rankeval import evaluate

    person, session = (
        F.floor(F.col("user") / _SESSIONS).alias("person"),
        F.pmod("user", F.lit(_SESSIONS)).alias("session"),
    )

    def session_table(name: str) -> DataFrame:
        return tables[name].select(person, session, *tables[name].columns[1:])

    def sessions(cluster: str | None) -> Work:
        users = ["person", "session"]
        return lambda: evaluate(
            session_table("predictions"), session_table("labels"), many, score="score", user=users, cluster=cluster
        )

    return {"sessions": sessions(None), "clustered": sessions("person")}


def _groups(prepared: Prepared) -> dict[str, Work]:
    from spark_rankeval import compare_groups

    def compared(**options: Any) -> Work:
        return lambda: compare_groups(
            prepared("per-user").join(prepared("variants"), "user"), "old", group="variant", **options
        )

    return {
        "groups": compared(),
        "groups-covariate": compared(covariate="before"),
        "groups-sequential": compared(sequential=True),
    }


def _pipelines(tables: dict[str, DataFrame]) -> dict[str, Work]:
    from pyspark.sql import functions as F

    from spark_rankeval import evaluate

    def held_out() -> DataFrame:
        # As a recommender's transform gives it: what was held out, with a rating and what was predicted of it.
        rating = F.pmod("item", F.lit(5)).cast("double").alias("rating")
        return tables["predictions"].select("user", "item", rating, F.col("score").alias("prediction"))

    def ml_evaluator() -> object:
        from spark_rankeval.ml import RankingEvaluator

        return RankingEvaluator(metricName="ndcg@10", relevanceThreshold=3).evaluate(held_out())

    def same_frames() -> object:
        frame = held_out()
        return evaluate(frame, frame, ["ndcg@10"], score="prediction", relevance="rating", relevance_threshold=3)

    return {"ml-evaluate": same_frames, "pyspark-ml": ml_evaluator}


def _trec(spark: SparkSession, folder: str, prepared: Prepared) -> dict[str, Work]:
    from spark_rankeval.trec import evaluate_runs, read_qrels, read_run

    def parquet() -> object:
        return evaluate_runs(prepared("run-parquet"), prepared("qrels-parquet"), ["ndcg@10"])

    def files() -> object:
        run, qrels = read_run(spark, f"{folder}/run/part-*"), read_qrels(spark, f"{folder}/qrels/part-*")
        return evaluate_runs(run, qrels, ["ndcg@10"])

    return {"trec-parquet": parquet, "trec": files}


class FeatureTables(NamedTuple):
    """The tables of measures beyond accuracy, by the names that `Facts` gives them."""

    training: DataFrame
    items: DataFrame
    baseline: DataFrame


def feature_tables(spark: SparkSession, tables: Mapping[str, DataFrame]) -> FeatureTables:
    """Training data of as many rows as predictions, their items with category and vector, and a baseline's 20 items a user."""
    from pyspark.sql import functions as F

    predictions = tables["predictions"]
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
    return FeatureTables(training, items, baseline)


def value_of_trec(works: dict[str, Work]) -> float:
    """ndcg@10 of TREC's files, which what else reads them must find, too."""
    result: Any = works["trec"]()
    value: float = result.summary[0].mean
    return value
