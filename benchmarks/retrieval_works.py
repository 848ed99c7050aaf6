"""Works of those who evaluate retrieval: one long table, lowest scores, users without an answer, budgets, documents, two judges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pyspark.sql import DataFrame, SparkSession

    Work = Callable[[], object]
    Prepared = Callable[[str], DataFrame]

RETRIEVAL_WORDS = {
    "graded": "evaluate, 6 values of graded chunks",
    "min-score": "… with min_score=",
    "no-answer": "… with no_answer=",
    "budget": "… with a budget in the place of a cutoff",
    "long-table": "… from one long table",
    "long-no-items": "… from one long table, item=None",
    "documents": "… rolled up, a column of predictions",
    "documents-table": "… rolled up, a table of chunks",
    "chunks-grouped": "chunks grouped into lists, no Python",
    "documents-grouped": "… each with its document from a table",
    "two-judges": "evaluate, 6 values by each of two judges",
    "judged": "… with relevance=Judged(…)",
}
_METRICS = ("precision", "recall", "ndcg", "ap", "rr", "hit_rate")
_TEN = [f"{metric}@10" for metric in _METRICS]
# About a third of a list of 50.
_BUDGET = [f"{metric}(budget=4000)" for metric in _METRICS]
_CHUNKS_PER_DOCUMENT = 3


def prepare_retrieval(spark: SparkSession, folder: str, works: Collection[str]) -> None:
    """Write the tables that the works need: predictions with tokens and documents, labels with grades, and all in one table."""
    from pyspark.sql import functions as F

    if not set(RETRIEVAL_WORDS) & set(works):
        return

    def drawn(seed: str, values: int, *columns: str) -> Any:
        return F.pmod(F.xxhash64(*columns, F.lit(seed)), F.lit(values))

    predictions, labels = (spark.read.parquet(f"{folder}/{name}") for name in ("predictions", "labels"))
    document = F.floor(F.col("item") / _CHUNKS_PER_DOCUMENT).alias("document")
    chunks = predictions.select("*", (50 + drawn("tokens", 350, "user", "item")).alias("tokens"), document)
    grade = 1 + drawn("grade", 3, "user", "item")
    model = F.greatest(grade + drawn("error", 3, "user", "item") - 1, F.lit(0))
    graded = labels.select(
        "user",
        "item",
        grade.alias("llm"),
        F.when(drawn("graded", 20, "user") == 0, model).alias("human"),
        (drawn("answer", 50, "user") == 0).alias("unanswerable"),
    )
    rightly_empty = F.when(F.col("unanswerable"), 0).otherwise(F.col("llm")).alias("relevance")
    graded = graded.withColumn("answered", rightly_empty)
    chunks.write.parquet(f"{folder}/chunks")
    graded.write.parquet(f"{folder}/graded")
    joined = predictions.join(graded.select("user", "item", F.col("llm").alias("relevance")), ["user", "item"], "left")
    joined.write.parquet(f"{folder}/long-table")
    graded.groupBy("user", document).agg(F.max("llm").alias("relevance")).write.parquet(f"{folder}/graded-documents")
    items = predictions.select("item").union(labels.select("item")).distinct()
    items.select("item", document).write.parquet(f"{folder}/documents")


def retrieval_works(prepared: Prepared) -> dict[str, Work]:
    """The works by name. They run only after `prepare_retrieval`."""
    from pyspark.sql import functions as F

    from spark_rankeval import Judged, evaluate, roll_up

    def chunks(relevance: Any = "llm", metrics: Collection[str] = _TEN, **options: Any) -> Work:
        return lambda: evaluate(
            prepared("chunks"), prepared("graded"), list(metrics), score="score", relevance=relevance, **options
        )

    def long_table(**options: Any) -> Work:
        return lambda: evaluate(prepared("long-table"), None, _TEN, score="score", relevance="relevance", **options)

    def grouped(*, joined: bool) -> Work:
        """Nothing but lists of documents by user. The documents are a column of the predictions, or joined from a table."""

        def collected() -> object:
            rows = prepared("chunks").select("user", "item", "score", *([] if joined else ["document"]))
            if joined:
                rows = rows.join(prepared("documents"), "item", "left")
            lists = rows.groupBy("user").agg(
                F.collect_list("document").alias("items"), F.collect_list("score").alias("scores")
            )
            return lists.agg(F.sum(F.size("items")), F.sum(F.size("scores"))).collect()

        return collected

    def documents(*columns: str) -> Work:
        def rolled_up() -> object:
            rows = prepared("chunks").select("user", "item", "score", *columns)
            if "document" not in columns:
                rows = rows.join(prepared("documents"), "item", "left")
            return evaluate(
                roll_up(rows, "document", score="score"),
                prepared("graded-documents"),
                _TEN,
                item="document",
                score="score",
                relevance="relevance",
            )

        return rolled_up

    return {
        "graded": chunks(),
        "min-score": chunks(min_score=0.3),
        "no-answer": chunks("answered", no_answer="unanswerable"),
        "budget": chunks(metrics=_BUDGET, cost="tokens"),
        "long-table": long_table(),
        "long-no-items": long_table(item=None),
        "documents": documents("document"),
        "documents-table": documents(),
        "chunks-grouped": grouped(joined=False),
        "documents-grouped": grouped(joined=True),
        "two-judges": chunks(["human", "llm"], on_missing="unjudged"),
        "judged": chunks(Judged(human="human", judge="llm")),
    }
