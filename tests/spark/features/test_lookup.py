"""Facts of items that workers look up: the same numbers as of a join, to the bit."""

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from spark_rankeval import Facts, evaluate
from spark_rankeval.errors import OptionError
from spark_rankeval.features.items import item_facts
from spark_rankeval.spark.tasks import broadcast_tables, packed
from spark_rankeval.worker.process import Bound, pack_together, rows_in, unpacked

METRICS = [
    "ndcg@3", "novelty(by=interactions)@3", "novelty(by=history)@3", "surprisal", "popularity_ratio@3", "repetition@3",
    "cold_user", "diversity@3", "diversity(by=vector)@5", "serendipity@3", "serendipity(against=history)@3",
    "catalogue_coverage(among=items)@1", "gini@3", "entropy@3",
]  # fmt: skip
ITEMS, USERS = 30, 40


@pytest.fixture(scope="module")
def tables(spark):
    """Rows that repeat, null items and users, items and users that other tables do not know, vectors of several lengths."""
    random = np.random.default_rng(3)

    def some(n):
        return [None if random.random() < 0.02 else int(number) for number in random.integers(0, *n)]

    def pairs(n, n_users=USERS, n_items=ITEMS):
        return [*zip(some((n_users, n)), some((n_items, n)), strict=True)]

    def scored(n):
        return [(*pair, float(random.integers(0, 9))) for pair in dict.fromkeys(pairs(n))]

    def frame(rows, fields=""):
        # Doubles have two zeros, which are one item.
        item = F.expr("if(item = 0, if(hash(user, item) % 2 = 0, -0d, 0d), item)")
        return spark.createDataFrame(rows, f"user long, item long{fields}").repartition(3).withColumn("item", item)

    about = [
        (0, None if random.random() < 0.1 else item, f"c{random.integers(4)}", [1.0] * int(random.integers(2, 4)))
        for item in [*range(5, ITEMS + 5), 7, 8, None]
    ]
    return {
        "predictions": frame(scored(400), ", score double"),
        "other": frame(scored(300), ", score double"),
        "labels": frame([*dict.fromkeys(pairs(200))]),
        "training": frame(pairs(500, USERS + 5, ITEMS - 5)),
        "items": frame(about, ", category string, vector array<double>").drop("user"),
        "baseline": frame(scored(200), ", score double"),
    }


def evaluated(tables, lookup):
    facts = Facts(**{name: tables[name] for name in ("training", "items", "baseline")}, lookup=lookup)
    models = {"one": tables["predictions"], "other": tables["other"]}
    return evaluate(models, tables["labels"], METRICS, score="score", facts=facts, on_invalid="drop")


def figures(result):
    return repr(result.to_dict())


@pytest.fixture(scope="module")
def joined(tables):
    return evaluated(tables, "join")


def test_workers_find_what_a_join_finds(tables, joined):
    looked_up = evaluated(tables, "auto")
    assert figures(looked_up) == figures(joined)
    assert any("joined to predictions: lookup='join'" in words for words in joined.plan)
    assert any("workers look up" in words for words in looked_up.plan)


@pytest.mark.parametrize("bound", [Bound(ITEMS // 2, 1 << 20), Bound(1000, 300)], ids=str)
def test_tables_that_are_too_large_are_joined_in_a_second_run(tables, joined, monkeypatch, bound):
    monkeypatch.setattr(item_facts, "BOUND", bound)
    result = evaluated(tables, "auto")
    assert figures(result) == figures(joined)
    assert any("began twice" in words for words in result.plan)


def test_the_first_row_of_each_partition_has_the_packed_table(spark):
    table = packed(spark.range(5).repartition(1), pack_together(rows_in, lambda rows: rows, None))
    nothing = packed(spark.range(0).repartition(1), pack_together(rows_in, lambda rows: rows, None))
    given = broadcast_tables(spark.range(0, 100, 1, 4).toDF("n"), {"table": table, "nothing": nothing})
    rows = given.withColumn("partition", F.spark_partition_id()).collect()
    assert len(rows) == 100
    with_table = [row for row in rows if row["table"] is not None]
    assert sorted((row["partition"], row["n"]) for row in with_table) == [(part, 25 * part) for part in range(4)]
    assert all(row["nothing"] is None for row in rows)
    assert unpacked(pa.scalar(bytes(with_table[0]["table"]), pa.binary()))["id"].to_pylist() == [0, 1, 2, 3, 4]


def test_another_way_is_refused():
    with pytest.raises(OptionError, match="lookup"):
        Facts(lookup="broadcast")
