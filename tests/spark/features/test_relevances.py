"""Several columns of grades in one pass."""

import pytest
from pyspark.sql import functions as F
from worlds.random_logs import random_logs

from spark_rankeval import dialect_map, evaluate, score_users
from spark_rankeval.errors import DataError, InputError, MetricError, OptionError, UnknownMetricError

METRICS = ["ndcg@5", "recall@3", "ap", "rr"]
FIELDS = ("mean", "std", "n_users", "n_undefined", "minimum", "maximum", "n_zero", "metric", "definition")


@pytest.fixture(scope="module")
def tables(spark):
    logs = random_logs(100, 5, seed=12)
    labels = [(u, i, g, float((u + i) % 3 == 0)) for u, pairs in enumerate(logs.labels) for i, g in dict(pairs).items()]
    predictions, _ = logs.tables(spark)
    return predictions, spark.createDataFrame(labels, "user long, item long, click double, purchase double")


@pytest.fixture(scope="module")
def both(tables):
    return evaluate(*tables, METRICS, score="score", relevance=["click", "purchase"])


def figures(rows):
    return [tuple(getattr(row, name) for name in FIELDS) for row in rows]


def test_each_relevance_has_the_figures_that_it_has_alone(tables, both):
    pairs = [(relevance, metric) for relevance in ("click", "purchase") for metric in METRICS]
    assert [(row.relevance, row.metric) for row in both.summary] == pairs
    for relevance in ("click", "purchase"):
        alone = evaluate(*tables, METRICS, score="score", relevance=relevance)
        assert {row.relevance for row in alone.summary} == {""}
        assert figures(alone.summary) == figures(row for row in both.summary if row.relevance == relevance)
    assert both["ndcg@5 [click]"] != both["ndcg@5 [purchase]"]
    assert both["ndcg_at_5_purchase"] == both["ndcg@5 [purchase]"]
    with pytest.raises(UnknownMetricError, match=r"ambiguous: it matches 'ndcg@5 \[click\]', 'ndcg@5 \[purchase\]'"):
        both["ndcg@5"]
    assert "ndcg@5 [purchase]" in repr(both)
    columns = both.per_user.columns
    assert columns[:5] == ["user", "ndcg_at_5_click", "recall_at_3_click", "ap_click", "rr_click"]


def test_labels_as_arrays_have_an_array_for_each(tables, both):
    predictions, labels = tables
    arrays = labels.groupBy("user").agg(*(F.collect_list(name).alias(name) for name in ("item", "click", "purchase")))
    options = {"score": "score", "relevance": ["click", "purchase"]}
    from_arrays = evaluate(predictions, arrays, METRICS, **options)
    assert figures(from_arrays.summary) == figures(both.summary)
    structs = labels.groupBy("user").agg(F.collect_list(F.struct("item", "click", "purchase")).alias("item"))
    assert from_arrays.summary == evaluate(predictions, structs, METRICS, **options).summary


def test_a_grade_that_cannot_be_used_is_named_with_its_column(spark, tables):
    schema = "user long, item long, click double, purchase double"
    options = {"score": "score", "relevance": ["click", "purchase"]}
    labels = spark.createDataFrame([(1, 1, 1.0, None), (1, 2, -1.0, 1.0)], schema)
    with pytest.raises(DataError, match="labels that cannot be used: 2") as caught:
        evaluate(tables[0], labels, METRICS, **options)
    for words in ("null relevance 'purchase': 1", "negative relevance 'click': 1"):
        assert words in str(caught.value)
    repeated = spark.createDataFrame([(1, 1, 1.0, 0.0), (1, 1, 1.0, 1.0)], schema)
    with pytest.raises(
        DataError, match=r"another grade: 1 \(for example user=1, item=1, click=1.0, purchase=0.0, best=\[1.0, 1.0\]\)"
    ):
        evaluate(tables[0], repeated, METRICS, **options)


WRONG = [
    (False, METRICS, ["click", "click"], "relevance must be a column name or a list of distinct column names"),
    (False, METRICS, ["click", "view"], r"labels has no column 'view' \(relevance=\)"),
    (False, METRICS, ["click", "CLICK"], "labels: relevance names the column 'click' twice"),
    (True, METRICS, ["click", "CLICK"], "labels: relevance names the column 'click' twice"),
    (
        False, {"x": "rr", "x click": "precision@1"}, ["click", "click click"],
        r"'x' of relevance 'click click' .*'x click' of relevance 'click' has",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("arrays", "metrics", "relevance", "words"), WRONG)
def test_columns_that_are_not_told_apart_are_an_error(tables, arrays, metrics, relevance, words):
    predictions, labels = tables
    labels = labels.withColumnRenamed("purchase", "click click")
    if arrays:
        labels = labels.groupBy("user").agg(*(F.collect_list(name).alias(name) for name in ("item", "click")))
    with pytest.raises((InputError, MetricError), match=words):
        evaluate(predictions, labels, metrics, score="score", relevance=relevance)


def test_a_threshold_that_no_label_reaches_is_refused(tables):
    """Without a column of grades each label has grade 1, so that a threshold above 1 leaves nothing relevant."""
    for metric, options in (("rr", {"relevance_threshold": 4}), ("recall(relevance_threshold=1.5)@3", {})):
        for function in (evaluate, score_users, dialect_map):
            with pytest.raises(OptionError, match=r"=(4|1.5) makes no label relevant.*such as relevance='rating'"):
                function(*tables, metric, score="score", **options)
    assert evaluate(*tables, "rr", score="score", relevance_threshold=1)["rr"] > 0
