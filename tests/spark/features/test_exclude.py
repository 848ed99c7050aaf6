"""Items to leave out of the predictions before they are ranked."""

import warnings

import pytest
from worlds.random_logs import random_logs

from spark_rankeval import evaluate, summarise
from spark_rankeval.errors import InputError, SparkRankEvalWarning

METRICS = [f"{name}@{k}" for name in ("precision", "recall", "ndcg", "ap") for k in (1, 3, 10)] + ["rr", "auc"]
WORDS = "user string, item string"


@pytest.fixture(scope="module")
def logs():
    return random_logs(120, 5, seed=11)


@pytest.fixture(scope="module")
def tables(spark, logs):
    return logs.tables(spark)


def means(result):
    return {row.metric: (row.mean, row.n_users, row.n_undefined, row.std) for row in result.summary}


@pytest.mark.filterwarnings("ignore:.*excluded item")
def test_excluded_items_are_as_if_they_had_not_been_predicted(spark, logs, tables):
    predictions, labels = tables
    # A seen item of every third user's list, several times, an item that nobody predicted, and users nobody knows.
    seen = {(u, pairs[len(pairs) // 2][0]) for u, pairs in enumerate(logs.predictions) if u % 3 == 0 and pairs}
    rows = [*seen, *seen, (1, 10**6), (10**6, 1), (10**6, 2), (None, 3), (4, None)]
    options = {"score": "score", "relevance": "grade"}
    without = [(u, i, s) for u, pairs in enumerate(logs.predictions) for i, s in pairs if (u, i) not in seen]
    left = spark.createDataFrame(without, "user long, item long, score double")
    expected = evaluate(left, labels, METRICS, users=predictions.select("user"), **options)
    options["exclude"] = spark.createDataFrame(rows, "user long, item int")
    result = evaluate(predictions, labels, METRICS, **options)
    assert means(result) == means(expected)
    assert result.data_quality.n_excluded == len(seen) > 20
    assert result.data_quality.n_users == expected.data_quality.n_users
    assert result.data_quality.n_predictions == len(without)
    cut = evaluate(predictions, labels, "ndcg@3", **options)
    assert cut["ndcg@3"] == expected["ndcg@3"]
    assert f"{len(seen)} predictions excluded" in repr(result)


def test_that_nothing_was_excluded_is_printed_and_an_empty_list_is_not_blamed_on_ids(spark):
    table = spark.createDataFrame([("a", "x", 1.0), ("b", "y", 1.0)], f"{WORDS}, score double")
    labels = table.drop("score")
    # Users and items are those of the predictions, and no pair of them is.
    exclude = spark.createDataFrame([("a", "y"), ("b", "x")], WORDS)
    with warnings.catch_warnings(action="error", category=SparkRankEvalWarning):
        result = evaluate(table, labels, "rr", score="score", exclude=exclude)
        for shown in (result, summarise(result.per_user)):
            assert "; 0 predictions excluded" in repr(shown)
        assert "excluded" not in repr(evaluate(table, labels, "rr", score="score"))
    said = "none of 2 users with labels has predictions; the lists of all users are empty, as 2 predictions were excl"
    with pytest.warns(SparkRankEvalWarning, match="of excluded items"), pytest.warns(SparkRankEvalWarning, match=said):
        evaluate(table, labels, "rr", score="score", exclude=labels)
    with pytest.warns(SparkRankEvalWarning, match="of an excluded item"):
        one = evaluate(table, labels, "rr", score="score", exclude=labels.where("user = 'a'"))
    # Whoever has no prediction left counts as a user without predictions.
    assert (one["rr"], one.data_quality.n_without_predictions) == (0.5, 1)


def test_arrays_leave_items_out_as_rows_do(spark):
    lists = spark.createDataFrame([(1, [5, 6, 7]), (2, [6])], "user long, items array<long>")
    labels = spark.createDataFrame([(1, 7), (2, 6)], "user long, item long")
    options = {"item": ("items", "item"), "exclude": spark.createDataFrame([(1, 5), (1, 6)], "user long, items long")}
    result = evaluate(lists, labels, ["rr", "precision@1"], **options)
    assert [result["rr"], result["precision@1"], result.data_quality.n_excluded] == [1.0, 1.0, 2]
    # Those that move up are read where nothing else needs more than the first.
    assert evaluate(lists, labels, "precision@1", **options)["precision@1"] == 1.0


def test_excluded_items_must_compare_with_predicted_ones(spark, tables):
    texts = spark.createDataFrame([(1, "5")], "user long, item string")
    one_table = spark.createDataFrame([(1, [1], [1])], "user long, prediction array<long>, label array<long>")
    types = "items have different types: 'item' of predictions is bigint, 'item' of exclude is string"
    cases = [
        (tables, {"score": "score", "exclude": texts}, types),
        (tables, {"score": "score", "exclude": texts.drop("item")}, "exclude has no column 'item'"),
        ((one_table, None), {"exclude": tables[1]}, "exclude cannot be combined with one table"),
    ]
    for given, options, words in cases:
        with pytest.raises(InputError, match=words):
            evaluate(*given, "rr", **options)


def test_labels_that_are_excluded_too_are_warned_of(spark):
    """Training that contains the test: every recall is 0, however good the model."""
    labels = spark.createDataFrame([("a", "x"), ("b", "x"), ("b", "y")], WORDS)
    training = spark.createDataFrame([("a", "x"), ("a", "x"), ("a", "z"), ("b", "y"), ("c", "x")], WORDS)
    rows = [(user, item, model, 1.0) for user in "ab" for item in "xyz" for model in ("m", "n")]
    predictions = spark.createDataFrame(rows, f"{WORDS}, model string, score double").where("model = 'm' or item = 'z'")
    warning = r"2 of 3 labels \(66.7%\) are of excluded items: no prediction can match them"
    with pytest.warns(SparkRankEvalWarning, match=warning):
        result = evaluate(predictions, labels, "recall@3", score="score", model="model", exclude=training)
    assert [quality.n_excluded_labels for quality in result.qualities.values()] == [2, 2]
    assert (result.data_quality.n_excluded_labels, result.data_quality.n_excluded) == (2, 4)
    assert "2 labels of excluded items" in repr(result)
    with pytest.warns(SparkRankEvalWarning, match=warning):
        assert summarise(result.per_user).qualities == result.qualities
