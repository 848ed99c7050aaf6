"""Scores as probabilities, from tables to figures with intervals."""

import math
from dataclasses import replace

import numpy as np
import pytest
from oracles import probabilities
from worlds.recommendations import random_world

from spark_rankeval import Facts, compare, evaluate
from spark_rankeval.errors import DataError, InputError
from spark_rankeval.metrics import parse_metric

METRICS = ["log_loss", "normalised_entropy@3", "calibration_ratio", "calibration_ratio(unlabelled=left_out)@3", "auc"]
NAMES = {"user": "user", "item": "item", "score": "p", "relevance": "grade"}


def world_of(seed):
    world, rng = random_world(seed, n_users=90), np.random.default_rng(seed)
    lists = {
        user: [(item, float(rng.integers(0, 9) / 8)) for item, _ in pairs] for user, pairs in world.predictions.items()
    }
    return replace(world, predictions=lists)


def rows_of(table):
    return [(user, item, number) for user, pairs in table.items() for item, number in pairs]


@pytest.fixture(scope="module")
def worlds():
    one = world_of(5)
    return {"one": one, "other": replace(one, predictions=world_of(6).predictions)}


@pytest.fixture(scope="module")
def tables(spark, worlds):
    models = {
        name: spark.createDataFrame(rows_of(world.predictions), "user long, item long, p double")
        for name, world in worlds.items()
    }
    labels = spark.createDataFrame(rows_of(worlds["one"].labels), "user long, item long, grade double")
    return {"predictions": models, "labels": labels, **NAMES}


@pytest.mark.parametrize("n_partitions", [1, 5])
def test_every_figure_is_that_of_plain_loops_with_an_interval_by_model_and_slice(spark, tables, worlds, n_partitions):
    sides = spark.createDataFrame([(user, "ab"[user % 2]) for user in range(90)], "user long, side string")
    models = {name: table.repartition(n_partitions) for name, table in tables["predictions"].items()}
    given = {**tables, "predictions": models}
    result = evaluate(metrics=METRICS, by="side", facts=Facts(attributes=sides), ci="bootstrap", quantiles=(), **given)
    rows = [row for row in result.summary if row.metric != "auc"]
    assert len(rows) == 2 * 3 * 4
    for row in rows:
        users = [user for user in worlds[row.model].users if row.slice == "all" or row.slice[-1] == "ab"[user % 2]]
        metric = parse_metric(row.metric).resolve()
        assert row.mean == pytest.approx(probabilities.value(metric, worlds[row.model], users), rel=1e-12), row
        assert row.interval_method == "jackknife"
        # Few users have a label in their first places.
        is_wide = row.slice == "all" and "left_out" not in row.metric
        assert row.interval_low < row.mean < row.interval_high if is_wide else row.standard_error > 0


def test_scores_of_32_bits_have_their_own_epsilon(spark):
    rows = [(1, 1, 0.0, 1.0), (1, 2, 1.0, 0.0)]
    for kind, bits in (("float", 23), ("double", 52)):
        table = spark.createDataFrame(rows, f"user long, item long, p {kind}, grade double")
        assert evaluate(table, None, "log_loss", **NAMES)["log_loss"] == pytest.approx(bits * math.log(2), rel=1e-12)


def test_scores_that_are_no_probabilities_are_counted(spark, tables):
    wrong = spark.createDataFrame([(1, 1, 1.5), (1, 2, 0.5), (2, 1, -0.1)], "user long, item long, p double")
    said = (
        r"predictions of model 'wrong': 2 of 3 scores are outside \[0, 1\], so they are no probabilities for log_loss and "
        "normalised_entropy. Name a column of probabilities with score=, or ask for other metrics"
    )
    models = {"right": tables["predictions"]["one"], "wrong": wrong}
    with pytest.raises(DataError, match=said) as raised:
        evaluate(metrics=["log_loss", "normalised_entropy"], **{**tables, "predictions": models})
    assert raised.value.counts == {"n_invalid": 2}
    ranked = wrong.selectExpr("user", "item", "1L AS rank")
    with pytest.raises(InputError, match="log_loss needs scores"):
        evaluate(ranked.dropDuplicates(["user"]), tables["labels"], "log_loss", user="user", item="item", rank="rank")


def test_models_are_not_compared_by_metrics_of_all_lists_alone(tables):
    with pytest.raises(
        InputError, match="the table has no metric of each user, and those of all lists together are not compared"
    ):
        compare(evaluate(metrics="log_loss", **tables), "one")
