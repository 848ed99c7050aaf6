"""The same numbers on every platform, to the last bit: one evaluation against figures that one platform gave once.

Where a definition changes what it gives, ``python tests/spark/test_same_everywhere.py`` writes the figures anew.
"""

import dataclasses
import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from helpers.shuffles import settings_of, shuffled_into
from oracles.lists import World, value
from worlds import fixed_users

from spark_rankeval import BCa, Cube, Facts, all_pairs, compare, evaluate, metrics_column, score_users
from spark_rankeval.metrics import parse_metric

GOLDEN = Path(__file__).parents[1] / "golden" / "platforms.json"
ASKED = {"score": "score", "relevance": "grade"}
STATISTICS = {"ci": BCa(replicates=200, seed=5), "quantiles": (0.25, 0.5, 0.9)}
FIGURES = ["mean", "n_users", "n_undefined", "std", "standard_error", "interval_low", "interval_high", "median"]


def bits(value):
    """A number as text that loses nothing; every NaN is the same."""
    return "nan" if math.isnan(value) else float(value).hex()


def numbers(values):
    return " ".join(map(bits, values))


def per_user(frame, metrics):
    """Every user's values of the metrics, by model and user; the counts that stand beside them may become more."""
    frame = frame.toPandas().sort_values(["model", "user"])
    keys = zip(frame["model"], frame["user"], strict=True)
    values = frame.drop(columns=["model", "user", "country"]).iloc[:, : len(metrics)].to_numpy(np.float64)
    return {f"{model} {user}": numbers(row) for (model, user), row in zip(keys, values, strict=True)}


def summary(result):
    rows = result.to_pandas()
    quantiles = [name for name in rows.columns if name.startswith("q0")]
    keys = rows["model"] + " " + rows["slice"] + " " + rows["metric"]
    return dict(zip(keys, map(numbers, rows[FIGURES + quantiles].to_numpy(np.float64)), strict=True))


# How a caller called things is no figure, and there are no clusters. Joint intervals and lifts follow from the other figures.
NO_FIGURES = [
    "sentence", "asked", "cluster", "n_clusters", "effective_n_clusters", "df", "design_effect", "no_interval", "not_shared", "joint_low",
    "joint_high", "n_joint", "lift_low", "lift_high", "no_lift",
]  # fmt: skip


def compared(comparison):
    """The figures of each row, by its words."""
    found = {}
    for row in comparison.rows:
        record = {name: value for name, value in row.by_column().items() if name not in NO_FIGURES}
        words = [one for one in record.values() if isinstance(one, str)]
        found[" ".join(words)] = numbers(one for one in record.values() if isinstance(one, int | float))
    return found


def tables(spark):
    predictions, labels, attributes = fixed_users.tables(spark)
    return (predictions, labels), {**ASKED, "model": "model", "by": "country", "facts": Facts(attributes=attributes)}


def pruned(spark):
    both, asked = tables(spark)
    return per_user(score_users(*both, fixed_users.CUT, **asked), fixed_users.CUT)


def bootstrap(spark):
    both, asked = tables(spark)
    return summary(evaluate(*both, fixed_users.CUT, **asked, **STATISTICS))


def weighted(spark):
    both, asked = tables(spark)
    return summary(evaluate(*both, fixed_users.CUT, **asked, **STATISTICS, user_weight="weight"))


def logged(spark):
    """Labels with weights: every user's estimates, and what is said of all of them."""
    (predictions, _), asked = tables(spark)
    labels = spark.createDataFrame(fixed_users.weight_rows(), "user bigint, item bigint, grade double, w double")
    result = evaluate(predictions, labels.repartition(3, "item"), fixed_users.LOGGED, **asked, weight="w", ci="t")
    sums = {"weights": numbers([result.data_quality.label_weight, result.data_quality.effective_n_labels])}
    return per_user(result.per_user, fixed_users.LOGGED) | summary(result) | sums


def student(spark):
    both, asked = tables(spark)
    return summary(evaluate(*both, fixed_users.WHOLE, **{**asked, "by": Cube("country")}, ci="t"))


def together(spark):
    """Values of all lists together, whose items are counted in several partitions and added up in several."""
    both, asked = tables(spark)
    items = spark.createDataFrame([(item,) for item in fixed_users.ITEMS], "item bigint")
    with shuffled_into(spark, 3):
        rows = evaluate(
            *both, fixed_users.TOGETHER, **{**asked, "facts": dataclasses.replace(asked["facts"], items=items)}
        ).to_pandas()
    keys = rows["model"] + " " + rows["slice"] + " " + rows["metric"]
    return dict(zip(keys, map(numbers, rows[["mean", "n_users"]].to_numpy(np.float64)), strict=True))


def whole(spark):
    both, asked = tables(spark)
    return score_users(*both, fixed_users.WHOLE, **asked)


PARTS = {
    "pruned": pruned,
    "bootstrap": bootstrap,
    "student": student,
    "weighted": weighted,
    "logged feedback": logged,
    "all lists": together,
    "whole lists": lambda spark: per_user(whole(spark), fixed_users.WHOLE),
    "compare": lambda spark: compared(compare(whole(spark), "old", metrics=["ap", "ndcg"], replicates=999, seed=3)),
    "all pairs": lambda spark: compared(all_pairs(whole(spark), metrics=["ap", "ndcg"])),
    "ties averaged": lambda spark: per_user(
        score_users(*tables(spark)[0], fixed_users.TIED, ties="average", **tables(spark)[1]), fixed_users.TIED
    ),
}


@pytest.fixture(scope="module")
def golden():
    return json.loads(GOLDEN.read_text())


# In `make test` the bootstrap has its figures with other settings, below.
ANSI = dict(zip(PARTS, itertools.cycle([True, False])))
BOTH_WAYS = [
    pytest.param(part, ansi, marks=[pytest.mark.ci] if ansi != ANSI[part] or part == "bootstrap" else [])
    for part in PARTS
    for ansi in (True, False)
]


@pytest.mark.parametrize(("part", "ansi"), BOTH_WAYS)
def test_the_figures_are_those_of_every_other_platform(spark, golden, part, ansi):
    with settings_of(spark, {"spark.sql.ansi.enabled": str(ansi).lower()}):
        assert PARTS[part](spark) == golden[part]


def test_other_settings_change_nothing(spark, golden):
    settings = {"spark.sql.caseSensitive": "true", "spark.sql.execution.arrow.maxRecordsPerBatch": "3"}
    with settings_of(spark, settings):
        assert bootstrap(spark) == golden["bootstrap"]


@pytest.mark.ci
def test_arrays_give_the_figures_of_rows(spark, golden):
    """Lists in order as one table, and as a column of a pandas UDF."""
    lists = {}
    for user, item, grade in fixed_users.label_rows():
        lists.setdefault(user, ([], [], []))[2].append((item, grade))
    for model, user, item, score in fixed_users.prediction_rows():
        if model == "new":
            lists.setdefault(user, ([], [], []))[0].append((-score, item))
    rows = [
        (
            user,
            [item for _, item in sorted(predicted)],
            [item for item, _ in labelled],
            [grade for _, grade in labelled],
        )
        for user, (predicted, _, labelled) in lists.items()
    ]
    table = spark.createDataFrame(rows, "user long, prediction array<long>, label array<long>, grade array<double>")
    scored = score_users(table, None, fixed_users.CUT, user="user", relevance="grade")
    column = metrics_column("prediction", "label", fixed_users.CUT, relevance="grade").alias("values")
    places = range(1, 1 + len(fixed_users.CUT))
    for frame in (scored, table.select("user", column).select("user", "values.*")):
        found = {f"new {row[0]}": numbers(row[place] for place in places) for row in frame.collect()}
        assert len(found) == len(lists) > 40
        for key, values in found.items():
            assert values == golden["pruned"][key]


def test_the_golden_evaluation_holds_what_platforms_may_do_differently(golden):
    """Undefined values, ties at the cutoff, users without predictions, and more than one figure for everybody."""
    by_user = [row.split() for row in golden["pruned"].values()]
    assert len(by_user) == fixed_users.N_USERS * len(fixed_users.MODELS)
    columns = list(zip(*by_user, strict=True))
    assert all(len(set(column)) > 5 for column in columns[1:3] + columns[4:])
    assert all("nan" in column and "0x0.0p+0" in column for column in columns)


def test_the_golden_values_of_all_lists_are_those_of_a_naive_count(golden):
    countries = {user: country for user, country, _ in fixed_users.attribute_rows()}
    predictions = {model: {} for model in fixed_users.MODELS}
    for model, user, item, score in fixed_users.prediction_rows():
        predictions[model].setdefault(user, []).append((item, score))
    for key, row in golden["all lists"].items():
        model, place, metric = key.split(" ", 2)
        users = [user for user in predictions[model] if place in ("all", f"country={countries[user]}")]
        world = World({user: predictions[model][user] for user in users}, items=dict.fromkeys(fixed_users.ITEMS))
        expected = value(parse_metric(metric).resolve(), world), len(users)
        assert [float.fromhex(figure) for figure in row.split()] == pytest.approx(expected, rel=1e-12), key
    assert len(golden["all lists"]) == len(fixed_users.TOGETHER) * len(fixed_users.MODELS) * 4


def write(spark):
    """Write what this platform gives: a line a row, so that a difference shows what changed."""
    parts = []
    for name, part in PARTS.items():
        rows = ",\n".join(f"  {json.dumps(key)}: {json.dumps(row)}" for key, row in part(spark).items())
        parts.append(f" {json.dumps(name)}: {{\n{rows}\n }}")
    GOLDEN.write_text("{\n" + ",\n".join(parts) + "\n}\n")


if __name__ == "__main__":
    from pyspark.sql import SparkSession

    write(SparkSession.builder.master("local[2]").getOrCreate())
