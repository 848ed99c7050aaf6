"""Lists that end at a lowest score or a budget, in each form of predictions: as lists that were cut before."""

import re

import pytest
from pyspark.sql import functions as F
from worlds.random_logs import random_logs

from spark_rankeval import Vectors, compare, evaluate, quarantine, score_users
from spark_rankeval.errors import DataError, InputError, MetricError, OptionError

SCORES, BUDGETS = (0.0, 0.25, 0.5), (2.0, 5.0)
NAMES = ("recall{}@5", "ndcg{}@3", "precision{}")
COLUMNS = {"score": "score", "relevance": "grade"}


def tokens(item):
    return item % 4 / 2 + 0.5


@pytest.fixture(scope="module")
def logs():
    return random_logs(60, 5, seed=7)


@pytest.fixture(scope="module")
def tables(spark, logs):
    predictions, labels = logs.tables(spark)
    return predictions.selectExpr("*", "item % 4 / 2 + 0.5D tokens"), labels


def cut_to(spark, logs, kept):
    """The predictions of which a function keeps the first, a user's best first."""
    rows = [(user, *pair) for user in range(len(logs.predictions)) for pair in kept(logs.ranked(user))]
    return spark.createDataFrame(rows, "user long, item long, score double")


def within(pairs, budget):
    """The items that fit into a budget, one after the other."""
    spent, kept = 0.0, []
    for item, score in pairs:
        spent += tokens(item)
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
    cuts[""] = lambda pairs: pairs
    models = {text: cut_to(spark, logs, kept) for text, kept in cuts.items() if text}
    models["none"] = cut_to(spark, logs, cuts[""])
    result = evaluate(models, labels, [name.format("") for name in NAMES], users=predictions.select("user"), **COLUMNS)
    return {(row.model, row.metric): row.mean for row in result.summary}


def asked():
    parameters = [f"(min_score={low})" for low in SCORES] + [f"(budget={budget})" for budget in BUDGETS]
    return {(text, name.format("")): name.format(text) for text in parameters for name in NAMES}


def found(result):
    means = {row.metric: row.mean for row in result.summary if row.model in ("", "a")}
    return {key: means[metric] for key, metric in asked().items()}


def test_rows_are_cut_in_one_pass_and_draw_curves(tables, expected):
    predictions, labels = tables
    result = evaluate(predictions, labels, list(asked().values()), cost="tokens", **COLUMNS)
    assert found(result) == {key: expected[key] for key in asked()}
    curve = result.curve("recall@5", over="score")
    assert curve.columns.tolist() == ["model", "relevance", "score", "mean", "standard_error", "n_users"]
    assert curve[["score", "mean"]].to_numpy().tolist() == [
        [low, expected[f"(min_score={low})", "recall@5"]] for low in SCORES
    ]
    assert result.curve("precision", over="budget")["budget"].tolist() == [*BUDGETS]
    plain = evaluate(predictions, labels, ["recall@1..5", "recall(min_score=0.25)@1..5"], **COLUMNS)
    assert plain.curve("recall")["mean"].tolist() == [plain[f"recall@{k}"] for k in range(1, 6)]
    with pytest.raises(OptionError, match="over must be one of"):
        result.curve("recall@5", over="rank")


def test_arrays_of_structs_and_several_models_are_cut_alike(tables, expected):
    predictions, labels = tables
    entries = F.expr(
        "transform(sort_array(collect_list(struct(-score as s, item, tokens))), e -> struct(e.item, -e.s as score, e.tokens))"
    )
    arrays = predictions.groupBy("user").agg(entries.alias("list"))
    models = {"a": predictions, "b": arrays}
    result = evaluate(models, labels, list(asked().values()), cost="tokens", item=("item", "item"), **COLUMNS)
    means = {(row.model, row.metric): row.mean for row in result.summary}
    for key, metric in asked().items():
        assert means["a", metric] == means["b", metric] == expected[key]
    assert set(compare(result, baseline="a").to_pandas()["difference"]) == {0.0}


def test_pruned_lists_are_cut_alike_and_an_option_is_for_all_metrics(spark, logs, tables, expected):
    predictions, labels = tables
    cut = [name.format("") for name in NAMES[:2]]
    result = evaluate(predictions, labels, cut, min_score=0.25, prune="auto", **COLUMNS)
    assert {row.metric: row.mean for row in result.summary} == {
        name: expected["(min_score=0.25)", name] for name in cut
    }
    assert "lists end at the lowest score 0.25 (min_score)" in result.notes


def test_a_column_of_floats_reaches_a_score_as_it_is_written(spark):
    table = spark.createDataFrame([(1, 1, 0.7), (1, 2, 0.6)], "user int, item int, score float")
    assert evaluate(table, table.drop("score"), "recall(min_score=0.7)", score="score")["recall(min_score=0.7)"] == 0.5
    paid = table.withColumn("tokens", table.score)
    options = {"score": "score", "cost": "tokens"}
    assert evaluate(paid, table.drop("score"), "recall(budget=0.7)", **options)["recall(budget=0.7)"] == 0.5


def test_costs_that_are_none_are_invalid(spark):
    table = spark.createDataFrame(
        [(1, 1, 0.7, 1.0), (1, 2, 0.6, None), (1, 3, 0.5, -1.0), (1, 4, 0.4, float("inf"))],
        "user int, item int, score double, tokens double",
    )
    options = {"metrics": "recall(budget=9)", "score": "score", "cost": "tokens"}
    with pytest.raises(DataError, match=re.escape("cannot be ranked: 3 (infinite cost: 1, for example user=1, item=4")):
        evaluate(table, table.select("user", "item"), **options)
    reasons = quarantine(table, table.select("user", "item"), **options).select("reason").collect()
    assert sorted(row.reason for row in reasons) == ["infinite cost", "negative cost", "null cost"]
    kept = score_users(table, table.select("user", "item"), on_invalid="drop", **options).collect()
    assert kept[0]["n_invalid_predictions"] == 3


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        (
            {"metrics": "recall(budget=9)"},
            InputError,
            "name a column of predictions, such as that of their tokens, with cost=",
        ),
        ({"cost": "tokens"}, InputError, "cost= has no effect without a metric with a budget"),
        ({"cost": "token", "metrics": "recall(budget=9)"}, InputError, "did you mean 'tokens'?"),
        ({"min_score": "high"}, OptionError, "min_score must be a number or None"),
        ({"min_score": 1, "score": None, "rank": "score"}, InputError, "min_score needs scores"),
    ],
)
def test_a_wrong_call_says_what_to_write(tables, changes, error, words):
    with pytest.raises(error, match=re.escape(words)):
        evaluate(*tables, **{"metrics": "recall", **COLUMNS, **changes})


def test_lists_from_vectors_have_no_end(spark, tables):
    vectors = Vectors(
        spark.createDataFrame([(1, [1.0])], "user long, vector array<double>"),
        spark.createDataFrame([(1, [1.0])], "item long, vector array<double>"),
    )
    with pytest.raises(MetricError, match=r"make the lists with top_items first"):
        evaluate(vectors, tables[1], "recall(min_score=0.5)@5", relevance="grade")
