"""Lists that end at a lowest score or a budget, in each form of predictions: as lists that were cut before."""

import re

import pytest
from pyspark.sql import functions as F
from worlds.random_logs import random_logs

from spark_rankeval import Vectors, compare, evaluate, quarantine, score_users
from spark_rankeval.errors import DataError, InputError, MetricError, OptionError

SCORES, BUDGETS = (0.0, 0.25, 0.5), (2.0, 5.0)
ENDS = [f"(min_score={low})" for low in SCORES] + [f"(budget={budget})" for budget in BUDGETS]
NAMES = ("recall{}@5", "ndcg{}@3", "precision{}")
ASKED = {(end, name.format("")): name.format(end) for end in ENDS for name in NAMES}
COLUMNS = {"score": "score", "relevance": "grade"}


@pytest.fixture(scope="module")
def logs():
    return random_logs(60, 5, seed=7)


@pytest.fixture(scope="module")
def tables(spark, logs):
    predictions, labels = logs.tables(spark)
    return predictions.selectExpr("*", "item % 4 / 2 + 0.5D tokens"), labels


def within(pairs, budget):
    """The items that fit into a budget, one after the other."""
    spent, kept = 0.0, []
    for item, score in pairs:
        spent += item % 4 / 2 + 0.5
        if spent > budget:
            break
        kept.append((item, score))
    return kept


@pytest.fixture(scope="module")
def expected(spark, logs, tables):
    """The means of lists that were cut beforehand, by the parameter that cuts."""
    predictions, labels = tables
    cuts = {f"(min_score={low})": lambda pairs, low=low: [pair for pair in pairs if pair[1] >= low] for low in SCORES}
    cuts |= {f"(budget={budget})": lambda pairs, budget=budget: within(pairs, budget) for budget in BUDGETS}
    models = {}
    for end, kept in cuts.items():
        rows = [(user, *pair) for user in range(len(logs.predictions)) for pair in kept(logs.ranked(user))]
        models[end] = spark.createDataFrame(rows, "user long, item long, score double")
    result = evaluate(models, labels, [name.format("") for name in NAMES], users=predictions.select("user"), **COLUMNS)
    return {(row.model, row.metric): row.mean for row in result.summary}


def test_rows_are_cut_in_one_pass_and_draw_curves(tables, expected):
    """Arrays are, too."""
    predictions, labels = tables
    by_score = "sort_array(collect_list(struct(-score s, item, tokens)))"
    entries = F.expr(f"transform({by_score}, e -> struct(e.item, -e.s as score, e.tokens)) list")
    models = {"rows": predictions, "arrays": predictions.groupBy("user").agg(entries)}
    metrics = [*ASKED.values(), "recall@1..5"]
    result = evaluate(models, labels, metrics, cost="tokens", item=("item", "item"), **COLUMNS)
    for model in models:
        assert {key: result[model, metric] for key, metric in ASKED.items()} == expected
    assert set(compare(result, baseline="rows").to_pandas()["difference"]) == {0.0}
    curve = result.curve("recall@5", over="score")
    assert curve.columns.tolist() == ["model", "relevance", "score", "mean", "standard_error", "n_users"]
    drawn = curve[curve["model"] == "rows"][["score", "mean"]].to_numpy().tolist()
    assert drawn == [[low, expected[f"(min_score={low})", "recall@5"]] for low in SCORES]
    assert result.curve("precision", over="budget")["budget"].tolist() == [*BUDGETS] * 2
    # Lists that end at a score are no places of a curve over cutoffs.
    means = [result[model, f"recall@{k}"] for model in models for k in range(1, 6)]
    assert result.curve("recall")["mean"].tolist() == means
    with pytest.raises(OptionError, match="over must be one of"):
        result.curve("recall@5", over="rank")


def test_an_option_is_for_all_metrics(tables, expected):
    cut = [name.format("") for name in NAMES[:2]]
    predictions, labels = tables
    result = evaluate(predictions, labels, cut, min_score=0.25, **COLUMNS)
    assert [row.mean for row in result.summary] == [expected["(min_score=0.25)", name] for name in cut]


def test_a_column_of_floats_reaches_a_score_as_it_is_written(spark):
    table = spark.createDataFrame([(1, 1, 0.7), (1, 2, 0.6)], "user int, item int, score float")
    paid, metrics = table.withColumn("tokens", table.score), ["recall(min_score=0.7)", "recall(budget=0.7)"]
    result = evaluate(paid, table.drop("score"), metrics, score="score", cost="tokens")
    assert [row.mean for row in result.summary] == [0.5, 0.5]


def test_costs_that_are_none_are_invalid(spark):
    rows = [(1, 1, 0.7, 1.0), (1, 2, 0.6, None), (1, 3, 0.5, -1.0), (1, 4, 0.4, float("inf"))]
    table = spark.createDataFrame(rows, "user int, item int, score double, tokens double")
    given = [table, table.select("user", "item"), "recall(budget=9)"]
    options = {"score": "score", "cost": "tokens"}
    with pytest.raises(DataError, match=re.escape("cannot be ranked: 3 (infinite cost: 1, for example user=1, item=4")):
        evaluate(*given, **options)
    reasons = quarantine(*given, **options).select("reason").collect()
    assert sorted(row.reason for row in reasons) == ["infinite cost", "negative cost", "null cost"]
    assert score_users(*given, on_invalid="drop", **options).collect()[0]["n_invalid_predictions"] == 3


WRONG = [
    (InputError, {"cost": "token", "metrics": "recall(budget=9)"}, "did you mean 'tokens'?"),
    (OptionError, {"min_score": "high"}, "min_score must be a number or None"),
    (InputError, {"min_score": 1, "score": None, "rank": "score"}, "min_score needs scores"),
    (MetricError, {"min_score": 1, "score": None, "vectors": True}, "make the lists with top_items first"),
]


@pytest.mark.parametrize(("error", "changes", "words"), WRONG)
def test_a_wrong_call_says_what_to_write(spark, tables, error, changes, words):
    predictions, labels = tables
    options = {"metrics": "recall", **COLUMNS, **changes}
    if options.pop("vectors", False):
        kinds = ("user long, vector array<double>", "item long, vector array<double>")
        predictions = Vectors(*(spark.createDataFrame([(1, [1.0])], kind) for kind in kinds))
    with pytest.raises(error, match=re.escape(words)):
        evaluate(predictions, labels, **options)
