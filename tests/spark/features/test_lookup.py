"""Facts of items that workers look up: the same numbers as of a join, to the bit."""

import numpy as np
import pyarrow as pa
import pytest
from helpers.effort import FULL_LENGTH, part_of
from helpers.plans import plan_of
from helpers.shuffles import settings_of, shuffled_into
from pyspark.sql import functions as F

from spark_rankeval import Facts, evaluate, score_users
from spark_rankeval.errors import OptionError
from spark_rankeval.features.items import item_facts
from spark_rankeval.spark.tasks import broadcast_tables, packed
from spark_rankeval.worker.process import Bound, pack_together, rows_in, unpacked

OF_USERS = [
    "ndcg@3", "novelty(by=interactions)@3", "novelty(by=history)@3", "surprisal", "popularity_ratio@3", "repetition@3",
    "cold_user", "diversity@3", "diversity(by=vector)@5", "serendipity@3", "serendipity(against=history)@3",
]  # fmt: skip
METRICS = [*OF_USERS, "catalogue_coverage(among=items)@1", "gini@3", "entropy@3"]
ITEMS, USERS = 30, 40


#: Doubles have two zeros, which are one item.
KINDS = ["double", "long", "string"]


@pytest.fixture(scope="module", params=KINDS)
def tables(spark, request):
    """Rows that repeat, null items and users, items and users that other tables do not know, vectors of several lengths."""
    random = np.random.default_rng(3)

    def pairs(n, n_users=USERS, n_items=ITEMS):
        drawn = zip(random.integers(0, n_users, n).tolist(), random.integers(0, n_items, n).tolist(), strict=True)
        return [
            (None if random.random() < 0.02 else user, None if random.random() < 0.02 else item) for user, item in drawn
        ]

    def scored(n):
        return [(*pair, float(random.integers(0, 9))) for pair in dict.fromkeys(pairs(n))]

    def frame(rows, fields=""):
        # Of doubles both zeros are one item.
        item = F.when(F.col("item") == 0, F.expr("if(hash(user, item) % 2 = 0, -0d, 0d)")).otherwise(F.col("item"))
        of_kind = {"string": F.concat(F.lit("item-"), "item"), "double": item}
        table = spark.createDataFrame(rows, f"user long, item long{fields}").repartition(3)
        return table.withColumn("item", of_kind.get(request.param, F.col("item")))

    about = [
        (0, None if random.random() < 0.1 else item, f"c{random.integers(4)}", [1.0] * int(random.integers(2, 4)))
        for item in [*range(5, ITEMS + 5), 7, 8, None]
    ]
    return {
        "predictions": frame(scored(400), ", score double"),
        "other": frame(scored(300), ", score double"),
        "labels": frame(list(dict.fromkeys(pairs(200)))),
        "training": frame(pairs(500, USERS + 5, ITEMS - 5)),
        "items": frame(about, ", category string, vector array<double>").drop("user"),
        "baseline": frame(scored(200), ", score double"),
    }


def evaluated(tables, lookup, metrics=METRICS, function=evaluate):
    facts = Facts(**{name: tables[name] for name in ("training", "items", "baseline")}, lookup=lookup)
    models = {"one": tables["predictions"], "other": tables["other"]}
    return function(models, tables["labels"], metrics, score="score", facts=facts, on_invalid="drop")


def figures(result):
    return repr(result.to_dict())


@pytest.fixture(scope="module")
def joined(tables):
    return evaluated(tables, "join")


@pytest.mark.parametrize("tables", part_of(KINDS, 3), indirect=True)
def test_workers_find_what_a_join_finds(tables, joined):
    looked_up = evaluated(tables, "auto")
    assert figures(looked_up) == figures(joined)
    assert any("joined to predictions: lookup='join'" in words for words in joined.plan)
    assert any("workers look up" in words for words in looked_up.plan)


@pytest.mark.parametrize("tables", part_of(KINDS[::-1], 3), indirect=True)
def test_users_have_the_same_values_either_way(tables):
    rows = [
        sorted(map(repr, evaluated(tables, lookup, OF_USERS, score_users).collect())) for lookup in ("join", "workers")
    ]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("tables", KINDS[:1], indirect=True)
@pytest.mark.parametrize("bound", part_of([Bound(ITEMS // 2, 1 << 20), Bound(1000, 300)], 2), ids=str)
def test_tables_that_are_too_large_are_joined_in_a_second_run(tables, joined, monkeypatch, bound):
    monkeypatch.setattr(item_facts, "BOUND", bound)
    result = evaluated(tables, "auto")
    assert figures(result) == figures(joined)
    assert any("began twice" in words for words in result.plan)
    if not FULL_LENGTH:
        return
    forced = evaluated(tables, "workers")
    assert figures(forced) == figures(joined)
    assert not any("began twice" in words for words in forced.plan)


@pytest.mark.not_on_sail("plans")
@pytest.mark.parametrize("tables", ["long"], indirect=True)
def test_predictions_are_not_shuffled_by_item(tables, spark):
    with shuffled_into(spark, 4):
        plans = {
            lookup: plan_of(evaluated(tables, lookup, ["novelty@3", "diversity@3"], score_users))
            for lookup in ("workers", "join", "auto")
        }
    assert "hashpartitioning(items" not in plans["workers"]
    # A lazy table is joined: nobody knows how large its tables are before it is computed.
    for lookup in ("join", "auto"):
        assert "facts" in plans[lookup]
        assert "popularity_table" not in plans[lookup]


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


@pytest.mark.parametrize("tables", ["long"], indirect=True)
def test_a_table_of_items_whose_size_spark_knows_is_one_row_all_the_same(tables, spark):
    items = spark.range(0, ITEMS, 1, 3).selectExpr("id AS item", "CAST(id % 4 AS STRING) AS category")
    with settings_of(spark, {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "4"}):
        results = [evaluated({**tables, "items": items}, lookup, ["diversity@3"]) for lookup in ("auto", "join")]
    assert figures(results[0]) == figures(results[1])


def test_another_way_is_refused():
    with pytest.raises(OptionError, match="lookup"):
        Facts(lookup="broadcast")
