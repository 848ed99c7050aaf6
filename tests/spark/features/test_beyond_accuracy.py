"""Measures beyond accuracy through the front door: tables of training, items and a baseline, on Spark."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from oracles import item_groups, rankings
from oracles.item_groups import groups_of
from oracles.lists import FORMULAS, value
from oracles.rankings import User
from pyspark.sql import functions as F
from worlds.recommendations import SIMPLE, random_world

import spark_rankeval as ours
from spark_rankeval import BCa, Facts, compare, merge, summarise
from spark_rankeval.errors import (
    DataError,
    InputError,
    MergeError,
    MetricError,
    SparkRankEvalWarning,
    UnknownMetricError,
)
from spark_rankeval.metrics import parse_metric

OF_USERS = [
    "novelty@3", "novelty(by=interactions, unknown=left_out)@3", "novelty(by=history)@3", "surprisal@3", "average_popularity",
    "popularity_ratio@3", "cold_items@3", "repetition@3", "cold_user", "long_tail_share@3", "long_tail_items(head=0.5)@5",
    "diversity@3", "diversity(by=vector)@5", "categorical_diversity@3", "unexpectedness@3", "serendipity@3",
    "serendipity(against=history)@3",
]  # fmt: skip
OF_ALL = [
    "catalogue_coverage@3", "catalogue_coverage(among=items)@1", "catalogue_coverage(counted=any)", "gini@3", "gini(among=items)@3",
    "gini(among=recommended)@1", "entropy@3", "personalisation@3", "personalisation(denominator=k)@5",
]  # fmt: skip
OF_GROUPS = [
    "awrf@3", "awrf(target=relevance)@5", "awrf(target=equal, unknown=apart)@3", "attention_share(group=shared)@3",
    "exposure_to_merit(group=c1)@3", "exposure_to_merit", "reo",
]  # fmt: skip
UNKNOWN_GROUP = "exposure_to_merit(group=shred)@3"
METRICS = [*OF_USERS, *OF_ALL, *OF_GROUPS, UNKNOWN_GROUP, "ndcg@3"]
PAIRS = "user long, item long, score double"
SIDES = {"all": (0, 1), "side=left": (0,), "side=right": (1,)}


def rows_of(pairs_by_user):
    return [(user, item, number) for user, pairs in pairs_by_user.items() for item, number in pairs]


def genres_of(world, item):
    """As people write them: with nulls, which are no genres."""
    genres = world.genres.get(item)
    return genres and [*genres, None]


def tables_of(spark, world):
    """The arguments that the front door takes of a world."""
    items = [
        (item, category, vector, genres_of(world, item), groups_of(world, item))
        for item, (category, vector) in world.items.items()
    ]
    schema = "item long, category string, vector array<double>, genres array<string>, group array<string>"
    return {
        "predictions": spark.createDataFrame(rows_of(world.predictions), PAIRS),
        "labels": spark.createDataFrame(rows_of(world.labels), "user long, item long, grade double"),
        "training": spark.createDataFrame(world.training, "user long, item long"),
        "items": spark.createDataFrame(items, schema),
        "baseline": spark.createDataFrame(rows_of(world.baseline), PAIRS),
        "score": "score",
        "relevance": "grade",
    }


def with_facts(function):
    """A function of the package that takes the tables of facts by their names, as the cases here have them."""

    def call(**options):
        names = ("attributes", "training", "items", "baseline", "item_by", "popularity_groups")
        facts = {name: options.pop(name) for name in names if name in options}
        return function(**options, facts=Facts(**facts))

    return call


evaluate, score_users = with_facts(ours.evaluate), with_facts(ours.score_users)


@pytest.fixture(scope="module")
def world():
    return random_world(21, n_users=60)


@pytest.fixture(scope="module")
def tables(spark, world):
    return tables_of(spark, world)


@pytest.fixture(scope="module")
def worlds(world):
    """What each of two models recommends, in the same world."""
    return {"one": world, "other": replace(world, predictions=random_world(22, n_users=60).predictions)}


@pytest.fixture(scope="module")
def result(spark, tables, worlds):
    """Metrics of both models, of all users and of those of each side, with a bootstrap."""
    sides = spark.createDataFrame([(user, ("left", "right")[user % 2]) for user in range(60)], "user long, side string")
    models = {name: spark.createDataFrame(rows_of(alone.predictions), PAIRS) for name, alone in worlds.items()}
    given = {**tables, "predictions": models, "by": "side", "attributes": sides, "ci": BCa(replicates=99)}
    with pytest.warns(UserWarning, match=r"no item has the group 'shred'; did you mean 'shared'\?"):
        return evaluate(metrics=METRICS, quantiles=(), **given)


def users_with_rows(*worlds):
    """Whoever has a prediction or a label: a list without an entry is none."""
    return sorted(
        {user for each in worlds for user in each.users if each.predictions.get(user) or each.labels.get(user)}
    )


def naive(world, metric, users):
    """The value of all lists of some users, or each user's."""
    metric = parse_metric(metric).resolve()
    if metric.name == "ndcg":
        lists = [User(world.predictions.get(user, []), world.labels.get(user, [])) for user in users]
        return np.array([rankings.value("ndcg", each, k=metric.k) for each in lists])
    if metric.name in item_groups.OF_ALL:
        return item_groups.value(metric, world, users)
    if metric.name in item_groups.OF_USERS:
        return np.array([item_groups.value(metric, world, user) for user in users])
    if metric.corpus_level:
        chosen = {name: choice for name, choice in metric.chosen().items() if name != "undefined"}
        return FORMULAS[metric.name](world, metric.k, users=users, **chosen)
    return np.array([value(metric, world, user) for user in users])


def check(rows, world, users, groups=()):
    """Every row has the naive value, or the mean of these users'; amounts of groups are held to 2^−32."""
    for row in rows:
        expected = naive(world, row.metric, users)
        if np.ndim(expected):
            assert row.n_undefined == np.isnan(expected).sum(), row.metric
            expected = np.nanmean(expected)
        assert row.mean == pytest.approx(expected, rel=1e-7 if row.metric in groups else 1e-12), row.metric


def of_names(metrics):
    return {str(parse_metric(metric)) for metric in metrics}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("model", ["one", "other"])
def test_every_mean_is_that_of_naive_loops(result, worlds, model, side):
    """Also that of a metric that reads no facts."""
    world, users = worlds[model], [user for user in users_with_rows(*worlds.values()) if user % 2 in SIDES[side]]
    rows = [row for row in result.summary if (row.model, row.slice) == (model, side) and "shred" not in row.metric]
    assert len(rows) == len(METRICS) - 1
    check(rows, world, users, of_names(OF_GROUPS))
    n_users = {row.n_users for row in rows if row.metric in of_names(OF_ALL)}
    assert n_users == {sum(bool(world.predictions.get(user)) for user in users)}


@pytest.mark.parametrize("column", ["genres", "category"])
def test_lists_are_calibrated_by_one_or_several_categories_of_an_item(tables, world, column):
    metrics = ["miscalibration@3", "miscalibration(divergence=js, rank_weight=log2)@5", "long_tail_share@3"]
    facts = {name: tables[name] for name in ("training", "items")}
    lists = {name: tables[name] for name in ("predictions", "labels", "score", "relevance")}
    plain = {item: [category] for item, (category, _) in world.items.items() if category is not None}
    if column == "category":
        world = replace(world, genres=plain)
        # Both forms of one column.
        metrics.append("diversity@3")
    found = ours.evaluate(metrics=metrics, facts=Facts(**facts, category=column), **lists)
    check(found.summary, world, users_with_rows(world))


def entropy(share):
    """That of two categories, in bits."""
    return -sum(part * math.log2(part) for part in (share, 1 - share))


def test_rows_of_an_item_add_up_its_categories_for_every_metric(spark):
    rows = [("tea", "drama"), ("tea", "comedy"), ("tea", "drama"), ("tea", None), ("jam", "comedy")]
    items = spark.createDataFrame(rows, "item string, kind string")
    log = spark.createDataFrame([("ann", "tea")], "user string, item string")
    lists = spark.createDataFrame([("ann", "tea", 2.0), ("ann", "jam", 1.0)], "user string, item string, score double")
    facts = Facts(training=log, items=items, category="kind", group="kind", item_by="kind")
    metrics = ["miscalibration(divergence=js)@2", "s_recall@1", "attention_share(group='drama')@2", "recall@1"]
    found = ours.evaluate(lists, log, metrics, score="score", facts=facts)
    # The history is half drama and half comedy, the list a quarter and three quarters.
    assert found[metrics[0]] == pytest.approx(entropy(0.375) - (entropy(0.5) + entropy(0.25)) / 2, rel=1e-12)
    assert found["s_recall@1"] == found["recall@1", "item kind=drama"] == found["recall@1", "item kind=comedy"] == 1.0
    assert found[metrics[2]] == pytest.approx(0.5 / (1 + 1 / math.log2(3)), rel=1e-7)
    with pytest.raises(DataError, match="items whose rows give them different categories: 1"):
        ours.evaluate(lists, log, [metrics[0], "diversity@2"], score="score", facts=facts)


def test_ids_in_text_and_in_any_partition_are_ids(tables, world):
    def in_text(table):
        ids = [f"cast({name} as string) AS {name}" for name in ("user", "item") if name in table.columns]
        others = (name for name in table.columns if name not in ("user", "item"))
        return table.selectExpr(*ids, *others).repartition(3, "item")

    named = {name: in_text(table) if hasattr(table, "columns") else table for name, table in tables.items()}
    # Of whole lists, which do not depend on the order of ids.
    metrics = [
        "novelty", "repetition", "diversity", "diversity(by=vector)", "unexpectedness", "gini", "personalisation",
        "serendipity(against=history)", "popularity_ratio", "catalogue_coverage(among=items)",
    ]  # fmt: skip
    check(evaluate(metrics=metrics, **named).summary, world, users_with_rows(world))


def test_duplicates_that_are_left_out_are_in_no_measure(tables, world):
    """Nor those of the baseline. A duplicate comes right after the first, whose neighbour it would push out of the list."""
    twice = {
        name: tables[name].unionByName(tables[name].selectExpr("user", "item", "score - 0.125 AS score"))
        for name in ("predictions", "baseline")
    }
    metrics = ["novelty@3", "diversity@3", "gini@3", "repetition@3", "unexpectedness@3", "serendipity@3"]
    other = evaluate(metrics=metrics, on_invalid="drop", **{**tables, **twice})
    assert other.data_quality.n_duplicate_predictions == sum(map(len, world.predictions.values()))
    check(other.summary, world, users_with_rows(world))


def test_excluded_items_and_users_outside_the_population_are_in_no_measure(tables, world):
    consumed, all_users = {*world.training}, world.users
    left = {
        user: [(item, score) for item, score in pairs if (user, item) not in consumed]
        for user, pairs in world.predictions.items()
    }
    world = replace(world, predictions=left)
    metrics = ["gini@3", "entropy@3", "repetition@3", "novelty@3", "unexpectedness@3"]
    found = evaluate(metrics=metrics, population="labelled", exclude=tables["training"], **tables)
    assert found["repetition@3"] == 0
    for name in metrics:
        expected, of_all = (
            np.nanmean(naive(world, name, users))
            for users in ([user for user in all_users if world.labels.get(user)], all_users)
        )
        assert found[name] == pytest.approx(expected, rel=1e-12)
        assert name == "repetition@3" or expected != pytest.approx(of_all)


def test_a_list_in_arrays_has_the_same_figures_as_in_rows(spark, tables, world):
    given = {name: table for name, table in tables.items() if name != "score"}
    for name, lists in (("predictions", world.predictions), ("baseline", world.baseline)):
        rows = [(user, world.list_of(user, None, lists)) for user, pairs in lists.items() if pairs]
        given[name] = spark.createDataFrame(rows, "user long, item array<long>")
    metrics = [*OF_USERS, *OF_ALL, *OF_GROUPS]
    check(evaluate(metrics=metrics, **given).summary, world, users_with_rows(world), of_names(metrics))


def test_a_table_that_no_measure_needs_is_not_read(spark, tables):
    broken = spark.range(3).selectExpr("assert_true(id < 0, 'this table was read') AS nothing")
    assert evaluate(metrics="ndcg@3", **{**tables, "items": broken, "baseline": broken})["ndcg@3"] >= 0


def test_values_of_all_lists_have_a_jackknife_if_there_is_a_bootstrap(result):
    """Its values without a block of users are those of tests/metrics/test_exposure_blocks.py."""
    for row in result.summary:
        metric = parse_metric(row.metric).resolve()
        assert row.interval_method == ("jackknife" if metric.corpus_level else "bca")
        if "shred" in row.metric:
            assert math.isnan(row.mean)
        elif metric.corpus_level and row.slice == "all":
            assert row.standard_error >= 0
            assert row.no_interval or row.interval_low <= row.mean <= row.interval_high
    rows = {row.metric: row for row in result.summary if (row.model, row.slice) == ("one", "all")}
    assert "an interval needs 30 of each group" in rows[str(parse_metric("reo"))].no_interval
    assert sum(not row.no_interval for row in rows.values()) >= len(OF_ALL)


def test_users_of_a_cluster_are_left_out_together(spark, tables, world):
    homes = spark.createDataFrame([(user, "one") for user in world.users], "user long, home string")
    row = evaluate(metrics="gini@3", ci="bootstrap", cluster="home", attributes=homes, **tables).summary[0]
    assert "too few users" in row.no_interval


def test_a_metric_of_all_lists_ranks_judged_items_alone_beside_one_that_ranks_all(tables, world):
    gini, share = evaluate(metrics=["gini@2", "attention_share(judged_only=true)@2"], **tables).summary
    judged = {user: {item for item, grade in pairs if grade >= 0} for user, pairs in world.labels.items()}
    lists = {
        user: [pair for pair in pairs if pair[0] in judged.get(user, ())] for user, pairs in world.predictions.items()
    }
    check([gini], world, world.users)
    expected = naive(replace(world, predictions=lists), "attention_share@2", world.users)
    assert share.mean == pytest.approx(expected, rel=1e-7)


def test_a_group_that_is_a_number_has_its_name_in_text(tables):
    numbered = {**tables, "items": tables["items"].withColumn("group", F.array(F.col("item") % 2))}
    shares = evaluate(metrics=["attention_share(group='0')@3", "attention_share(group='1')@3"], **numbered)
    assert sum(row.mean for row in shares.summary) == pytest.approx(1, abs=1e-8)


def test_values_of_all_lists_are_written_and_shown_and_are_no_values_of_users(tables, tmp_path):
    found = evaluate(metrics=["novelty@3", "gini@3", "gini@1", "entropy@3"], **tables)
    written = found.write(str(tmp_path / "per_user"))
    assert [(row.metric, row.mean) for row in written.summary] == [(row.metric, row.mean) for row in found.summary]
    assert "no interval for gini@3, gini@1 and entropy@3: a value of all lists together has no spread" in repr(found)
    assert found.curve("gini")["mean"].tolist() == [found["gini@1"], found["gini@3"]]
    assert "gini" in found.to_trec(per_query=True)
    with pytest.raises(UnknownMetricError, match="one value for all lists together"):
        found.plot.histogram("gini@3")
    with pytest.raises(MergeError, match="for all lists together"):
        merge({"monday": found, "tuesday": found})
    with pytest.raises(MetricError, match="one value for all lists together"):
        score_users(metrics="gini@3", **tables)
    # Models are compared by the measures that users have.
    assert [row.metric for row in compare({"one": written, "other": written}, "one", replicates=9)] == ["novelty@3"]


# Metrics, the schemas of tables in place of those there are (None: without the table), and what is said.
REFUSED = [
    ("novelty@3", {"training": None}, "needs training; "),
    ("repetition@3", {"training": None}, "needs training; "),
    ("diversity@3", {"items": None}, "needs items; "),
    ("catalogue_coverage(among='items')@3", {"items": None}, "needs items; "),
    ("unexpectedness@3", {"baseline": None}, "needs baseline; "),
    ("novelty@3", {"training": "user long, thing long"}, "training has no column 'item'"),
    ("novelty@3", {"training": "user long, item string"}, "items have different types"),
    ("novelty@3", {"training": "user string, item long"}, "users have different types"),
    ("diversity@3", {"items": "item long, kind string"}, "category"),
    ("diversity@3", {"items": "item long, category array<string>"}, r"several .* diversity\(by='categories'\)"),
    ("diversity(by=vector)@3", {"items": "item long, vector string"}, "an array of numbers"),
    ("unexpectedness@3", {"baseline": "user long, item long"}, "baseline has no column 'score'"),
    # A table without users comes before this one.
    (
        ["diversity@3", "unexpectedness@3"],
        {"baseline": "user string, item long, score double"},
        "users have different types: .* in baseline",
    ),
    ("awrf@3", {"items": "item long, category string"}, "'group'"),
    ("awrf@3", {"items": "item long, group array<array<long>>"}, r"the column 'group' \(group=\)"),
]


@pytest.mark.parametrize(("metric", "schemas", "words"), REFUSED)
def test_tables_and_columns_that_lack_or_are_wrong_are_named(spark, tables, metric, schemas, words):
    given = {name: table for name, table in tables.items() if schemas.get(name, "") is not None}
    wrong = {name: spark.createDataFrame([], schema) for name, schema in schemas.items() if schema}
    with pytest.raises(InputError, match=words):
        evaluate(metrics=metric, **{**given, **wrong})


# Tables with rows that cannot be used, and what remains of them.
SCHEMAS = {
    "training": "user long, item long",
    "items": "item long, category string, vector array<double>",
    "baseline": PAIRS,
}
WRONG_ROWS = {
    "training": [(1, None), (None, 10), (1, 10)],
    "items": [
        (10, "a", [1.0, 2.0]),
        # Two categories, two vectors; a vector that is too short, and one with NaN; a row of no item.
        (11, "a", [1.0, 3.0]), (11, "b", [1.0, 3.0]), (12, "a", [1.0, 0.0]), (12, "a", [0.0, 1.0]), (13, "a", [1.0]),
        (14, "a", [math.nan, 1.0]), (None, "a", [1.0, 1.0]),
    ],
    "baseline": [(1, 10, math.nan), (1, None, 2.0), (1, 11, 1.0)],
}  # fmt: skip
RIGHT_ROWS = {
    "training": [(1, 10)],
    "items": [(10, "a", [1.0, 2.0]), (11, None, [1.0, 3.0]), (12, "a", None), (13, "a", None), (14, "a", None)],
    "baseline": [(1, 11, 1.0)],
}


def test_rows_that_cannot_be_used_are_counted_and_refused_or_left_out(spark):
    metrics = ["novelty@2", "diversity@3", "diversity(by=vector)@3", "unexpectedness@2"]

    def given(tables):
        frames = {name: spark.createDataFrame(rows, SCHEMAS[name]) for name, rows in tables.items()}
        return {**tables_of(spark, SIMPLE), **frames, "metrics": metrics}

    wrong = given(WRONG_ROWS)
    # Groups read one of the tables again, and say nothing of the others.
    for groups in ({"item_by": "category"}, {"popularity_groups": 2}, {}):
        with pytest.raises(DataError) as caught:
            evaluate(**wrong, **groups)
        assert caught.value.counts == {
            "n_invalid_training": 2, "n_invalid_items": 1, "n_invalid_baseline": 2, "n_conflicting_categories": 1,
            "n_conflicting_vectors": 1, "n_ragged_vectors": 2,
        }  # fmt: skip
    words = "training.*: 2", "without an item: 1", "baseline.*: 2", "different categories: 1", "different vectors: 1"
    assert all(re.search(each, str(caught.value)) for each in words)
    left_out, right = evaluate(on_invalid={"invalid_facts": "drop"}, **wrong), evaluate(**given(RIGHT_ROWS))
    assert [row.mean for row in left_out.summary] == pytest.approx([row.mean for row in right.summary], nan_ok=True)
    with pytest.raises(DataError, match="cannot be used: 9"):
        summarise(left_out.per_user, on_invalid="error")


def test_empty_tables_leave_everything_undefined(spark):
    nobody = {**tables_of(spark, SIMPLE), "predictions": spark.createDataFrame([], PAIRS)}
    with pytest.warns(SparkRankEvalWarning, match="none of 3 users with labels has predictions"):
        found = evaluate(metrics=["novelty@2", "gini@2", "catalogue_coverage@2", "personalisation@2"], **nobody)
    assert all(math.isnan(row.mean) for row in found.summary)
    nothing = {**tables_of(spark, SIMPLE), "training": spark.createDataFrame([], "user long, item long")}
    found = evaluate(metrics=["novelty@2", "cold_items@2", "cold_user", "catalogue_coverage@2", "gini@2"], **nothing)
    assert [row.mean for row in found.summary] == pytest.approx([math.nan, 1, 1, math.nan, math.nan], nan_ok=True)
