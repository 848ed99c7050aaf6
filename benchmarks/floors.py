"""Works that do nothing but what no evaluation can do without: bring the rows of a user together, and carry them to Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame

    Work = Callable[[], object]


def floors(tables: Mapping[str, DataFrame], partitions: int) -> dict[str, Work]:
    """The works of predictions and labels by name."""
    from pyspark.sql import functions as F

    def both(*, shuffled: bool) -> DataFrame:
        left = tables["predictions"]
        right = tables["labels"].select("user", "item", F.lit(None).cast("double").alias("score"))
        if shuffled:
            left, right = left.repartition(partitions, "user"), right.repartition(partitions, "user")
        return left.unionByName(right)

    def grouped() -> DataFrame:
        return joined_lists(tables["predictions"], tables["labels"])

    def hashed() -> DataFrame:
        # As an evaluation adds up the hashes of labels, in two halves. Workers hash whole lists of predictions.
        label = F.xxhash64("item")
        halves = [F.sum(label.bitwiseAND(F.lit(2**32 - 1))), F.sum(F.shiftright(label, 32))]
        labels = tables["labels"].groupBy("user").agg(F.collect_list("item"), *halves)
        return grouped_by_user(tables["predictions"], "item", "score").join(labels, "user", "full")

    return {
        "scan": lambda: sink(both(shuffled=False)),
        "shuffle": lambda: sink(both(shuffled=True)),
        "grouped": lambda: sink(grouped()),
        "hashed": lambda: to_nothing(hashed(), hashed=True).collect(),
        "smallest": lambda: to_nothing(grouped()).collect(),
    }


def joined_lists(predictions: DataFrame, labels: DataFrame) -> DataFrame:
    """A row a user with a list of each column of the predictions, and the labels."""

    def lists(table: DataFrame) -> DataFrame:
        return grouped_by_user(table, *(name for name in table.columns if name != "user"))

    return lists(predictions).join(lists(labels), "user", "full")


def grouped_by_user(table: DataFrame, *names: str) -> DataFrame:
    """A row a user with a list of each of some columns."""
    from pyspark.sql import functions as F

    return table.groupBy("user").agg(*map(F.collect_list, names))


def to_nothing(frame: DataFrame, *, hashed: bool = False) -> DataFrame:
    """The rows carried to Python workers that read everything and give nothing.

    If they are to be `hashed`, the second and the third column have lists of items and scores.
    """

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if hashed:
                from pyarrow import compute as pc

                from spark_rankeval.worker.reading import ITEMS, PREDICTION_ROWS, SCORES, hashes_of_users

                items, scores = batch.columns[1:3]
                n_rows = pc.list_value_length(items)
                hashes_of_users("predictions", {ITEMS: items, SCORES: scores, PREDICTION_ROWS: n_rows})
        return iter(())

    # Every column needs a name of its own on the way. Workers lack this module: a function of a function travels whole.
    return frame.toDF(*(f"column_{place}" for place in range(len(frame.columns)))).mapInArrow(run, "n long")


def sink(frame: DataFrame) -> None:
    """Compute every row, and keep none."""
    frame.write.format("noop").mode("overwrite").save()
