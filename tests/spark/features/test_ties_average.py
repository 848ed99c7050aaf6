"""The expected value over tied items, from tables: averaged over all orders by the oracle, and what is refused."""

import numpy as np
import pytest
from orders import mean_over, orders_of
from pyspark.sql import functions as F

from spark_rankeval import evaluate, metrics_column, score_users
from spark_rankeval.errors import MetricError, OptionError
from spark_rankeval.metrics import parse_metric
from spark_rankeval.metrics.expected_values import TiesOption

METRICS = [
    *("precision@3", "recall@3", "f1@3", "hit_rate@3", "rr@3", "ap@3", "cg@3", "dcg@3", "ndcg(ideal='labels')@3"),
    *("ndcg(gain='binary')@3", "idcg(ideal='labels')@3", "r_precision", "ap(denominator='labels')@2"),
]


@pytest.fixture(scope="module")
def logs():
    rng = np.random.default_rng(61)
    logs = {}
    for user in range(20):
        items = rng.choice(9, int(rng.integers(1, 8)), replace=False).tolist()
        labelled = rng.choice(9, int(rng.integers(1, 7)), replace=False).tolist()
        scores, grades = (rng.integers(0, 2, len(items)) / 2).tolist(), rng.integers(0, 4, len(labelled)).astype(float)
        logs[user] = (list(zip(items, scores, strict=True)), list(zip(labelled, grades.tolist(), strict=True)))
    # Many equal scores; the one relevant item is the last of them.
    logs[20] = ([(item, 0.5) for item in range(100)], [(99, 1.0)])
    return logs


@pytest.fixture(scope="module")
def tables(spark, logs):
    predictions = [(user, *pair) for user, (pairs, _) in logs.items() for pair in pairs]
    labels = [(user, *pair) for user, (_, pairs) in logs.items() for pair in pairs]
    return (
        spark.createDataFrame(predictions, "user int, item int, score double"),
        spark.createDataFrame(labels, "user int, item int, grade double"),
    )


@pytest.fixture(scope="module")
def result(tables):
    return evaluate(*tables, METRICS, score="score", relevance="grade", ties="average")


def test_every_users_value_is_the_mean_over_all_orders(result, logs):
    table = result.per_user.toPandas().set_index("user")
    small = {user: orders_of(*log) for user, log in logs.items() if len(log[0]) < 10}
    for text in METRICS:
        metric = parse_metric(text).resolve(TiesOption("average"))
        for user, orders in small.items():
            value = table[result.columns[text]][user]
            assert value == pytest.approx(mean_over(orders, metric), rel=1e-12, abs=1e-12, nan_ok=True), (text, user)
    of_one_score = table.loc[20, [result.columns[text] for text in ("hit_rate@3", "rr@3", "precision@3")]]
    assert of_one_score.tolist() == pytest.approx([0.03, (1 + 1 / 2 + 1 / 3) / 100, 0.01], rel=1e-12)


def test_the_summary_says_that_it_averages(result):
    definition = next(row.definition for row in result.summary if row.metric == "rr@3")
    assert "ties='average'" in definition


def test_what_is_asked_of_one_metric_holds_for_it_alone(result, tables):
    asked = {"average": "rr(ties='average')@3", "in order": "rr@3", "err": "err(max_grade=3)@3"}
    found = evaluate(*tables, asked, score="score", relevance="grade")
    in_order = evaluate(*tables, METRICS, score="score", relevance="grade", ties="item_asc")
    assert found["in order"] == in_order["rr@3"] != found["average"]
    assert found["average"] == result["rr@3"]
    # No user hangs on ties that are averaged.
    assert result.data_quality.n_hanging_on_ties == 0
    assert in_order.data_quality.n_hanging_on_ties > 10


def test_arrays_with_scores_and_metrics_as_a_column_average_too(result, tables):
    def lists(table, *names):
        return table.groupBy("user").agg(*(F.collect_list(before).alias(name) for before, name in names))

    predictions, labels = tables
    arrays = lists(predictions, ("item", "items"), ("score", "scores"))
    arrays = arrays.join(lists(labels, ("item", "liked"), ("grade", "grades")), "user")
    column = metrics_column("items", "liked", METRICS, scores="scores", relevance="grades", ties="average")
    rows = {row["user"]: row["metrics"] for row in arrays.select("user", column.alias("metrics")).collect()}
    for row in result.per_user.collect():
        values = [row[name] for name in result.columns.values()]
        assert [rows[row["user"]][name] for name in result.columns.values()] == pytest.approx(
            values, rel=1e-12, nan_ok=True
        )


def test_lists_in_order_have_no_ties_to_average(spark):
    table = spark.createDataFrame([([1, 2, 3], [3]), ([2, 1], [2])], "prediction array<long>, label array<long>")
    metrics = ["rr@3", "precision@2", "ap@2"]
    average = evaluate(table, None, metrics, user=None, item=("prediction", "label"), ties="average")
    in_order = evaluate(table, None, metrics, user=None, item=("prediction", "label"))
    assert [row.mean for row in average.summary] == [row.mean for row in in_order.summary]


@pytest.mark.parametrize("run", [evaluate, score_users], ids=lambda run: run.__name__)
def test_metrics_without_an_average_are_named(run, tables):
    asked = {"score": "score", "relevance": "grade", "ties": "average"}
    with pytest.raises(OptionError, match=r"not available for err@3, bpref: .* Leave"):
        run(*tables, ["rr@3", "err@3", "auc", "bpref", "spearman"], **asked)
    with pytest.raises(MetricError, match="Use ideal='labels'"):
        run(*tables, ["ndcg@3"], **asked)
    with pytest.raises(OptionError, match="err@3"):
        metrics_column("items", "liked", ["err@3"], scores="scores", ties="average")
