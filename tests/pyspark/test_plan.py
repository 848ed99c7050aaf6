"""What the plans cost: one shuffle, one action."""

import re

import pytest
from helpers.plans import plan_of
from helpers.shuffles import settings_of, shuffled_into

from spark_rankeval import Facts, evaluate, score_users
from spark_rankeval.evaluation.prepare import prepare
from spark_rankeval.judging.judge_agreement import read_labels
from spark_rankeval.request.options import ScoringOptions

METRICS = [f"{name}@{k}" for name in ("precision", "recall", "ndcg", "ap", "rr") for k in range(1, 21)]


@pytest.fixture(scope="module", autouse=True)
def _several_partitions(spark):
    """What has one partition need not be shuffled; the tables have four, too."""
    with shuffled_into(spark, 4):
        yield


@pytest.fixture(scope="module")
def tables(spark):
    predictions = spark.range(0, 4000, 1, 4).selectExpr("id % 100 as user", "id div 100 as item", "hash(id) as score")
    return predictions, spark.range(0, 500, 1, 4).selectExpr("id % 100 as user", "id div 100 as item")


def shuffles(frame):
    return len(re.findall(r"Exchange hashpartitioning", plan_of(frame)))


@pytest.mark.not_on_sail("plans")
@pytest.mark.parametrize("prune", ["auto", "never"])
def test_rows_are_shuffled_once_a_side(tables, prune):
    scored = score_users(*tables, METRICS[:40:20], score="score", prune=prune)
    assert shuffles(scored) == 2


def test_lists_are_built_of_whole_rows_unless_parts_of_them_are_cheap(tables, platform):
    words = plan_of(score_users(*tables, METRICS[:1], score="score", prune="never"))
    in_parts = re.findall(r"mode=Partial|partial_collect_list", words)
    assert bool(in_parts) == (platform != "sail")


@pytest.mark.not_on_sail("plans")
def test_dropping_duplicates_costs_no_further_shuffle(tables):
    assert shuffles(score_users(*tables, ["ndcg@5"], score="score", on_invalid="drop")) == 2


@pytest.mark.not_on_sail("plans")
def test_users_to_count_cost_no_further_shuffle(tables, spark):
    assert shuffles(score_users(*tables, ["ndcg@5"], score="score", users=spark.range(0, 10, 1, 4).toDF("user"))) == 2


@pytest.mark.not_on_sail("plans")
def test_labels_that_say_who_has_no_answer_are_read_once(tables):
    labels = tables[1].selectExpr("*", "user = 1 AS is_unanswerable")
    scored = score_users(tables[0], labels, "abstention", score="score", no_answer="is_unanswerable")
    assert "Union" not in plan_of(scored)


@pytest.mark.not_on_sail("plans")
def test_judged_labels_are_shuffled_once_and_then_their_counts(tables):
    labels = tables[1].selectExpr("*", "user % 3 AS human", "user % 2 AS llm", "item % 2 AS kind")
    judged = read_labels(labels, ["human", "llm"], user="user", item="item", by="kind")
    assert shuffles(judged.combinations()) == 2


@pytest.mark.not_on_sail("plans")
def test_one_table_of_arrays_is_not_shuffled(spark):
    table = spark.createDataFrame([([1, 2], [2])], "prediction array<long>, label array<long>")
    assert shuffles(score_users(table, None, METRICS)) == 0


@pytest.mark.not_on_sail("plans")
def test_tables_bucketed_by_user_are_not_shuffled(tables, spark):
    for name, table in zip(("bucketed_predictions", "bucketed_labels"), tables, strict=True):
        table.write.bucketBy(4, "user").mode("overwrite").saveAsTable(name)
    try:
        scored = score_users(
            spark.table("bucketed_predictions"), spark.table("bucketed_labels"), ["ndcg@5"], score="score"
        )
        assert shuffles(scored) == 0
        assert scored.count() == 100
    finally:
        spark.sql("drop table bucketed_predictions")
        spark.sql("drop table bucketed_labels")


def test_a_hundred_values_take_no_more_jobs_than_one_but_that_which_merges_large_states(tables, jobs_of):
    predictions, labels = tables
    few = jobs_of(lambda: evaluate(predictions, labels, METRICS[:1], score="score", prune="never"))
    many = jobs_of(lambda: evaluate(predictions, labels, METRICS, score="score", prune="never"))
    assert 0 < few <= many <= few + 1


def test_the_per_user_table_is_made_when_it_is_used(tables, jobs_of):
    predictions, labels = tables
    result = evaluate(predictions, labels, "ndcg@5", score="score")
    assert jobs_of(lambda: result.per_user) == 0
    assert jobs_of(result.per_user.count) > 0


def test_an_evaluation_looks_at_each_table_once(spark, tmp_path):
    """What is random in a table is then the same for all figures; docs/reliability.md says what looks again."""
    looks = tmp_path / "looks"

    def noted(role, frame):
        def note(batches):
            with looks.open("a") as file:
                file.write(f"{role}\n")
            yield from batches

        return frame.coalesce(1).mapInArrow(note, frame.schema)

    rows = spark.range(40).selectExpr("id % 8 user", "id item", "id / 7 score", "'a' model", "'x' country")
    predictions = noted("predictions", rows.select("user", "item", "score", "model"))
    labels, people = noted("labels", rows.select("user", "item")), noted("people", rows.select("user", "country"))
    evaluate(predictions, labels, ["rr", "ndcg@10"], score="score", facts=Facts(attributes=people), by="country")
    assert sorted(looks.read_text().split()) == ["labels", "people", "predictions"]
    looks.unlink()
    # The names of the models are read first.
    evaluate(predictions, labels, "rr", score="score", model="model")
    assert sorted(looks.read_text().split()) == ["labels", "predictions", "predictions"]


@pytest.mark.not_on_sail("plans")
@pytest.mark.parametrize("lookup", ["workers", "join"])
def test_training_data_are_shuffled_once_whoever_asks_for_them(tables, spark, tmp_path, lookup):
    tables[0].select("user", "item").write.parquet(str(tmp_path / "training"))
    facts = Facts(training=spark.read.parquet(str(tmp_path / "training")), lookup=lookup)
    asked = ["average_popularity@5", "repetition@5", "popularity_ratio@5"]
    scoring = prepare(*tables, asked, ScoringOptions(score="score", facts=facts))
    # Without adaptive execution Spark plans at once what it computes a single time.
    with settings_of(spark, {"spark.sql.adaptive.enabled": "false"}):
        words = plan_of(scoring.grouping(scoring.plan(exact=False)).frame())
    assert words.count("FileScan parquet") == 1
    assert words.count("MapInArrow counted_items") == (lookup == "join")
