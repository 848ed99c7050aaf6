"""Measures beyond accuracy through the front door: tables of training, items and a baseline, on Spark."""

import math
import re
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from helpers.effort import part_of
from helpers.plans import plan_of
from helpers.shuffles import shuffled_into
from oracles import intents as intents_oracle
from oracles import rankings as oracle
from oracles.intents import random_judged
from oracles.item_groups import groups_of
from oracles.item_groups import value as value_of_groups
from oracles.lists import FORMULAS, value
from pyspark.sql import functions as F
from worlds.recommendations import SIMPLE, random_world
from worlds.variants import INTENTS, parameters_of

import spark_rankeval as ours
from spark_rankeval import Facts, compare, merge, summarise
from spark_rankeval.errors import (
    DataError,
    InputError,
    MergeError,
    MetricError,
    SparkRankEvalWarning,
    UnknownMetricError,
)
from spark_rankeval.metrics import parse_metric
from spark_rankeval.spark.ids import hash_in
from spark_rankeval.spark.tasks import MESSAGE_SCHEMA, merged_messages
from spark_rankeval.statistics.bootstrap import WithoutBlock, blocks_of, jackknife_interval

OF_USERS = [
    "novelty@3",
    "novelty(by=interactions, unknown=left_out)@3",
    "novelty(by=history)@3",
    "surprisal@3",
    "average_popularity",
    "popularity_ratio@3",
    "cold_items@3",
    "repetition@3",
    "cold_user",
    "long_tail_share@3",
    "long_tail_items(head=0.5)@5",
    "diversity@3",
    "diversity(by=vector)@5",
    "categorical_diversity@3",
    "unexpectedness@3",
    "serendipity@3",
    "serendipity(against=history)@3",
]
OF_ALL = [
    "catalogue_coverage@3",
    "catalogue_coverage(among=items)@1",
    "catalogue_coverage(counted=any)",
    "gini@3",
    "gini(among=items)@3",
    "gini(among=recommended)@1",
    "entropy@3",
    "personalisation@3",
    "personalisation(denominator=k)@5",
]
PAIRS = "user long, item long, score double"


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
    of_items = "item long, category string, vector array<double>, genres array<string>, group array<string>"
    return {
        "predictions": spark.createDataFrame(rows_of(world.predictions), PAIRS),
        "labels": spark.createDataFrame(rows_of(world.labels), "user long, item long, grade double"),
        "training": spark.createDataFrame(world.training, "user long, item long"),
        "items": spark.createDataFrame(items, of_items),
        "baseline": spark.createDataFrame(rows_of(world.baseline), PAIRS),
        "score": "score",
        "relevance": "grade",
    }


def with_facts(function):
    """A function of the package that takes the tables of facts by their names, as the cases here have them."""

    def call(*tables, **given):
        given |= dict(zip(("predictions", "labels", "metrics"), tables, strict=False))
        names = ("attributes", "training", "items", "baseline", "item_by", "popularity_groups")
        facts = {name: given.pop(name) for name in names if name in given}
        return function(**given, facts=Facts(**facts))

    return call


evaluate, score_users = with_facts(ours.evaluate), with_facts(ours.score_users)


@pytest.fixture(scope="module")
def world():
    return random_world(21, n_users=60)


@pytest.fixture(scope="module")
def tables(spark, world):
    return tables_of(spark, world)


@pytest.fixture(scope="module")
def result(tables):
    return evaluate(metrics=[*OF_USERS, *OF_ALL, "ndcg@3"], **tables)


@pytest.fixture(scope="module")
def other_world():
    return random_world(22, n_users=60)


@pytest.fixture(scope="module")
def of_models(spark, tables, other_world):
    other = spark.createDataFrame(rows_of(other_world.predictions), PAIRS)
    metrics = ["novelty@3", "diversity(by=vector)@5", "unexpectedness@3", "gini@3", "personalisation@3"]
    return evaluate(metrics=metrics, **{**tables, "predictions": {"one": tables["predictions"], "other": other}})


def known_users(world):
    """Whoever has a row: a list without an entry is none."""
    return [user for user in world.users if world.predictions.get(user) or world.labels.get(user)]


def naive(world, metric, users):
    """The value of all lists together, or the mean of these users' values."""
    resolved = parse_metric(metric).resolve()
    if resolved.name in {parse_metric(one).name for one in OF_ALL}:
        return value(resolved, world)
    return np.nanmean([value(resolved, world, user) for user in users])


def check(result, world):
    """Every row is the naive computation's."""
    for metric in OF_USERS:
        row = next(row for row in result.summary if row.metric == str(parse_metric(metric)))
        values = [value(parse_metric(metric).resolve(), world, user) for user in known_users(world)]
        assert row.mean == pytest.approx(np.nanmean(values), rel=1e-12), metric
        assert row.n_undefined == np.isnan(values).sum(), metric
    for metric in OF_ALL:
        row = next(row for row in result.summary if row.metric == str(parse_metric(metric)))
        assert row.mean == pytest.approx(value(parse_metric(metric).resolve(), world), rel=1e-12), metric
        assert math.isnan(row.interval_low)
        assert "no spread between users" in row.no_interval
        assert row.n_users == sum(bool(pairs) for pairs in world.predictions.values())


def test_all_measures_come_at_once_and_equal_the_naive_ones(tables, result, world):
    check(result, world)
    alone = evaluate(metrics="ndcg@3", **tables)
    assert alone["ndcg@3"] == result["ndcg@3"]


# Text ids and arrays have the naive measures of whole lists by day.
def test_whole_lists_have_the_same_measures(tables, world):
    check(evaluate(metrics=[*OF_USERS, *OF_ALL, "ndcg@3"], prune="never", **tables), world)


def test_every_user_has_the_value_of_the_naive_measures(tables, world):
    table = score_users(metrics=OF_USERS, **tables).toPandas().set_index("user")
    assert sorted(table.index) == known_users(world)
    for column, metric in zip(table.columns, OF_USERS, strict=False):
        expected = [value(parse_metric(metric).resolve(), world, user) for user in table.index]
        np.testing.assert_allclose(table[column], expected, rtol=1e-12, atol=1e-12, equal_nan=True, err_msg=metric)


@pytest.mark.parametrize(
    ("column", "lookup"), part_of([("genres", "workers"), ("genres", "join"), ("category", "join")], 2)
)
def test_lists_are_calibrated_by_one_or_several_categories_of_an_item(tables, world, column, lookup):
    metrics = ["miscalibration@3", "miscalibration(divergence=js, rank_weight=log2)@5", "long_tail_share@3"]
    facts = {name: tables[name] for name in ("training", "items")}
    given = {name: tables[name] for name in ("predictions", "labels", "score", "relevance")}
    plain = {item: [category] for item, (category, _) in world.items.items() if category is not None}
    known = world if column == "genres" else replace(world, genres=plain)
    if column == "category":
        # Both forms of one column.
        metrics.append("diversity@3")
    result = ours.evaluate(metrics=metrics, facts=Facts(**facts, category=column, lookup=lookup), **given)
    for row, metric in zip(result.summary, metrics, strict=True):
        values = [value(parse_metric(metric).resolve(), known, user) for user in known_users(world)]
        assert row.mean == pytest.approx(np.nanmean(values), rel=1e-12), metric
        assert row.n_undefined == np.isnan(values).sum(), metric


@pytest.mark.parametrize("lookup", part_of(["join", "workers"], 1))
def test_rows_of_an_item_add_up_its_categories_for_every_metric(spark, lookup):
    rows = [("tea", "drama"), ("tea", "comedy"), ("tea", "drama"), ("tea", None), ("jam", "comedy")]
    items = spark.createDataFrame(rows, "item string, kind string")
    arrays = items.groupBy("item").agg(F.collect_set("kind").alias("kind"))
    log = spark.createDataFrame([("ann", "tea")], "user string, item string")
    lists = spark.createDataFrame([("ann", "tea", 2.0), ("ann", "jam", 1.0)], "user string, item string, score double")
    asked = ["miscalibration(divergence=js)@2", "s_recall@1", "attention_share(group='drama')@2", "recall@1"]
    for table in (items, arrays):
        facts = Facts(training=log, items=table, category="kind", group="kind", item_by="kind", lookup=lookup)
        result = ours.evaluate(lists, log, asked, score="score", facts=facts)
        # The history is half drama and half comedy, the list a quarter and three quarters.
        expected = entropy(0.375) - (entropy(0.5) + entropy(0.25)) / 2
        assert result[asked[0]] == pytest.approx(expected, rel=1e-12)
        assert (
            result[asked[1]] == result["recall@1", "item kind=drama"] == result["recall@1", "item kind=comedy"] == 1.0
        )
        assert result[asked[2]] == pytest.approx(0.5 / (1 + 1 / math.log2(3)), rel=1e-7)
    with pytest.raises(DataError, match="items whose rows give them different categories: 1"):
        ours.evaluate(
            lists,
            log,
            [*asked[:1], "diversity@2"],
            score="score",
            facts=Facts(training=log, items=items, category="kind", lookup=lookup),
        )


def entropy(share):
    """That of two categories, in bits."""
    return -sum(part * math.log2(part) for part in (share, 1 - share))


def test_partitions_change_no_digit(spark, tables, result):
    apart = {
        name: table.repartition(3, "item") if hasattr(table, "repartition") else table for name, table in tables.items()
    }
    with shuffled_into(spark, 3):
        other = evaluate(metrics=[*OF_USERS, *OF_ALL, "ndcg@3"], **apart)
    assert [row.mean for row in other.summary] == [row.mean for row in result.summary]


def test_ids_in_text_are_ids(tables, world):
    def in_text(table):
        ids = [f"cast({name} as string) AS {name}" for name in ("user", "item") if name in table.columns]
        return table.selectExpr(*ids, *(name for name in table.columns if name not in ("user", "item")))

    named = {name: in_text(table) if hasattr(table, "columns") else table for name, table in tables.items()}
    # Of whole lists, which do not depend on the order of ids.
    metrics = [
        "novelty",
        "repetition",
        "diversity",
        "diversity(by=vector)",
        "unexpectedness",
        "gini",
        "personalisation",
    ]
    metrics += ["serendipity(against=history)", "popularity_ratio", "catalogue_coverage(among=items)"]
    means = [row.mean for row in evaluate(metrics=metrics, **named).summary]
    assert means == pytest.approx([naive(world, metric, known_users(world)) for metric in metrics], rel=1e-12)


def test_duplicates_that_are_left_out_are_in_no_measure(tables, result):
    """Nor those of the baseline. A duplicate comes right after the first, whose neighbour it would push out of the list."""
    twice = {
        name: tables[name].unionByName(tables[name].selectExpr("user", "item", "score - 0.125 AS score"))
        for name in ("predictions", "baseline")
    }
    metrics = ["novelty@3", "diversity@3", "gini@3", "repetition@3", "unexpectedness@3", "serendipity@3"]
    other = evaluate(metrics=metrics, on_invalid="drop", **{**tables, **twice})
    assert other.data_quality.n_duplicate_predictions == result.data_quality.n_predictions
    assert [row.mean for row in other.summary] == [result[metric] for metric in metrics]


def test_slices_have_the_coverage_and_exposure_of_their_own_lists(spark, tables, world):
    users = spark.createDataFrame(
        [(user, "odd" if user % 2 else "even") for user in world.users], "user long, side string"
    )
    # Popular items and rare ones, counted in several partitions and added up in as many.
    with shuffled_into(spark, 4):
        result = evaluate(metrics=[*OF_ALL, "novelty@3"], by="side", attributes=users, **tables)
    for side, members in (("all", None), ("side=odd", lambda user: user % 2), ("side=even", lambda user: not user % 2)):
        mine = world.users if members is None else list(filter(members, world.users))
        for metric in map(parse_metric, OF_ALL):
            row = next(row for row in result.summary if (row.metric, row.slice) == (str(metric), side))
            resolved = metric.resolve()
            chosen = {name: found for name, found in resolved.chosen().items() if name != "undefined"}
            expected = FORMULAS[metric.name](world, metric.k, users=mine, **chosen)
            assert row.mean == pytest.approx(expected, rel=1e-12), (str(metric), side)


def test_users_outside_the_population_are_exposed_to_nothing(tables, world):
    users = [user for user in world.users if world.labels.get(user)]
    result = evaluate(metrics=["gini@3", "entropy@3"], population="labelled", **tables)
    for row in result.summary:
        metric = parse_metric(row.metric).resolve()
        chosen = {name: choice for name, choice in metric.chosen().items() if name != "undefined"}
        assert row.mean == pytest.approx(FORMULAS[metric.name](world, metric.k, users=users, **chosen), rel=1e-12)
        assert FORMULAS[metric.name](world, metric.k, **chosen) != pytest.approx(row.mean)


def test_models_side_by_side_have_the_naive_measures_of_each(of_models, world, other_world):
    users = sorted({*known_users(world), *(user for user, pairs in other_world.predictions.items() if pairs)})
    for name, predictions in (("one", world.predictions), ("other", other_world.predictions)):
        alone = replace(world, predictions=predictions)
        of_model = [row for row in of_models.summary if row.model == name]
        assert [row.mean for row in of_model] == pytest.approx(
            [naive(alone, row.metric, users) for row in of_model], rel=1e-12
        )


def test_excluded_items_are_in_no_measure(tables, world):
    consumed = {(user, item) for user, item in world.training}
    left = {
        user: [(item, score) for item, score in pairs if (user, item) not in consumed]
        for user, pairs in world.predictions.items()
    }
    metrics = ["repetition@3", "novelty@3", "gini@3", "unexpectedness@3"]
    excluded = evaluate(metrics=metrics, exclude=tables["training"], **tables)
    assert excluded["repetition@3"] == 0
    without = [naive(replace(world, predictions=left), metric, known_users(world)) for metric in metrics]
    assert [row.mean for row in excluded.summary] == pytest.approx(without, rel=1e-12)


def test_a_list_in_arrays_has_what_users_have_and_its_items_facts_are_refused(spark, tables, result, world):
    rows = [(user, world.list_of(user, None)) for user, pairs in world.predictions.items() if pairs]
    arrays = spark.createDataFrame(rows, "user long, item array<long>")
    base = spark.createDataFrame(
        [(user, world.list_of(user, None, world.baseline)) for user, pairs in world.baseline.items() if pairs],
        "user long, item array<long>",
    )
    given = {**tables, "predictions": arrays, "baseline": base}
    del given["score"]
    metrics = ["repetition@3", "unexpectedness@3", "serendipity@3", "entropy@3", "personalisation@3"]
    assert [row.mean for row in evaluate(metrics=metrics, **given).summary] == [result[metric] for metric in metrics]
    with pytest.raises(InputError, match="Explode them"):
        evaluate(metrics="novelty@3", **given)


LACKING = {
    "novelty@3": "training",
    "repetition@3": "training",
    "diversity@3": "items",
    "catalogue_coverage(among='items')@3": "items",
    "unexpectedness@3": "baseline",
}


@pytest.mark.parametrize("metric", LACKING)
def test_a_measure_without_its_table_is_refused_before_any_job(tables, metric):
    given = {name: table for name, table in tables.items() if name not in ("training", "items", "baseline")}
    with pytest.raises(InputError, match=rf"needs {LACKING[metric]}; "):
        evaluate(metrics=metric, **given)


def test_a_table_that_no_measure_needs_is_not_read(spark, tables):
    broken = spark.range(3).selectExpr("assert_true(id < 0, 'this table was read') AS nothing")
    assert evaluate(metrics="ndcg@3", **{**tables, "items": broken, "baseline": broken})["ndcg@3"] >= 0


def test_measures_of_all_lists_have_no_users(tables, result):
    with pytest.raises(MetricError, match="one value for all lists together"):
        score_users(metrics="gini@3", **tables)
    assert "gini_at_3" not in result.per_user.columns
    assert "novelty_at_3" in result.per_user.columns


def jackknife_of(spark, world, formula, metric):
    """The interval of a value of all lists together: naive values without the users of each block."""
    users = [user for user in world.users if world.predictions.get(user)]
    frame = spark.createDataFrame([(user,) for user in users], "user long")
    hashes = [row[0] for row in frame.select(hash_in(frame, ["user"]).column).collect()]
    block = blocks_of(np.array(hashes, np.int64), 0)
    without = [
        WithoutBlock(formula([user for user, of in zip(users, block, strict=True) if of != left]), int(n))
        for left, n in zip(*np.unique(block, return_counts=True), strict=True)
    ]
    return jackknife_interval(formula(users), without, 0.95, metric.bounds)


def test_values_of_all_lists_have_a_jackknife_if_a_bootstrap_is_asked_for(spark, tables, world):
    metrics = [*OF_ALL, "ndcg@3", "attention_share(group=shared)@3", "exposure_to_merit(group=shred)@3", "reo@3"]
    in_parts = {**tables, "predictions": tables["predictions"].repartition(4)}
    unknown = r"no item has the group 'shred'; did you mean 'shared'\?"
    with pytest.warns(UserWarning, match=unknown):
        result = evaluate(metrics=metrics, ci="bootstrap", **tables)
    with shuffled_into(spark, 3), pytest.warns(UserWarning, match=unknown):
        apart = evaluate(metrics=metrics, ci="bootstrap", **in_parts)
    assert [repr(row) for row in result.summary] == [repr(row) for row in apart.summary]
    for row in result.summary:
        metric = parse_metric(row.metric).resolve()
        chosen = {name: found for name, found in metric.chosen().items() if name != "undefined"}
        if metric.name == "ndcg":
            assert row.interval_method == "bca"
        elif metric.name in FORMULAS:
            formula = partial(FORMULAS[metric.name], world, metric.k, **chosen)
            error, interval = jackknife_of(spark, world, lambda users, of=formula: of(users=users), metric)
            assert row.interval_method == "jackknife"
            assert row.no_interval == interval.reason
            assert (row.standard_error, row.interval_low, row.interval_high) == pytest.approx(
                (error, interval.low, interval.high), rel=1e-9, abs=1e-12, nan_ok=True
            ), metric
        elif "shred" in row.metric:
            assert math.isnan(row.mean)
        elif metric.name == "ranking_equal_opportunity":
            assert "an interval needs 30 of each group" in row.no_interval
            assert row.standard_error > 0
        else:
            assert 0 < row.interval_low < row.mean < row.interval_high < 1
    assert sum(not row.no_interval for row in result.summary) >= len(OF_ALL)


def test_users_of_a_cluster_are_left_out_together(spark, tables, world):
    homes = spark.createDataFrame([(user, "one") for user in world.users], "user long, home string")
    row = evaluate(metrics="gini@3", ci="bootstrap", cluster="home", attributes=homes, **tables).summary[0]
    assert "too few users" in row.no_interval


GROUPED = [
    "awrf@3",
    "awrf(target=relevance)@5",
    "amortised_awrf@3",
    "amortised_awrf(target=equal, unknown=apart)@3",
    "attention_share(group=shared)@3",
    "exposure_to_merit(group=c1)@3",
    "dtr",
    "ee_loss@3",
    "reo",
    "rsp@3",
    "popreo(head=0.5)",
    "poprsp@3",
]


def check_groups(rows, world, users):
    """Rows are what naive loops over these users say; amounts are held to 2^−32."""
    for row in rows:
        metric = parse_metric(row.metric).resolve()
        if metric.corpus_level:
            expected = value_of_groups(metric, world, users)
        else:
            expected = np.nanmean([value_of_groups(metric, world, user) for user in users])
        assert row.mean == pytest.approx(expected, rel=1e-7), row.metric


def test_groups_of_items_get_what_naive_loops_say_in_slices_of_several_models(spark, tables, world, other_world):
    users = spark.createDataFrame([(user, f"side {user % 2}") for user in range(60)], "user long, side string")
    predictions = {
        "one": tables["predictions"],
        "other": spark.createDataFrame(rows_of(other_world.predictions), PAIRS),
    }
    asked = {"metrics": [*GROUPED, "gini@3", "aplt@3"], "by": "side", "score": "score", "relevance": "grade"}
    # Facts of other metrics are joined to items here; groups never are.
    facts = Facts(training=tables["training"], items=tables["items"], attributes=users, lookup="join")
    with shuffled_into(spark, 3):
        result = ours.evaluate(predictions, tables["labels"], ci="bootstrap", facts=facts, **asked)
    for model, lists in (("one", world.predictions), ("other", other_world.predictions)):
        alone = replace(world, predictions=lists)
        for side, members in (("all", (0, 1)), ("side=side 0", (0,)), ("side=side 1", (1,))):
            rows = [row for row in result.summary if (row.model, row.slice) == (model, side)]
            assert len(rows) == len(GROUPED) + 2
            check_groups(rows[:-2], alone, [user for user in alone.users if user % 2 in members])
            of_users = ("awrf", "long_tail")
            assert all(
                row.interval_method == ("bca" if row.metric.startswith(of_users) else "jackknife") for row in rows
            )


def test_a_metric_of_all_lists_ranks_judged_items_alone_beside_one_that_ranks_all(tables, world):
    gini, share = evaluate(metrics=["gini@2", "attention_share(judged_only=true)@2"], **tables).summary
    judged = {user: {item for item, grade in pairs if grade >= 0} for user, pairs in world.labels.items()}
    lists = {
        user: [pair for pair in pairs if pair[0] in judged.get(user, ())] for user, pairs in world.predictions.items()
    }
    assert gini.mean == pytest.approx(value(parse_metric("gini@2").resolve(), world))
    of_judged = value_of_groups(
        parse_metric("attention_share@2").resolve(), replace(world, predictions=lists), world.users
    )
    assert share.mean == pytest.approx(of_judged, rel=1e-7)


def test_arrays_and_tables_of_users_have_the_groups_of_items(spark, tables, world):
    rows = [(user, world.list_of(user, None)) for user, pairs in world.predictions.items() if pairs]
    arrays = spark.createDataFrame(rows, "user long, item array<long>")
    given = {**tables, "predictions": arrays}
    del given["score"]
    check_groups(evaluate(metrics=GROUPED, **given).summary, world, world.users)
    # Here facts of other metrics are joined to items.
    table = score_users(metrics=["awrf@3", "diversity@3"], **tables).toPandas().set_index("user")
    metric = parse_metric("awrf@3").resolve()
    expected = [value_of_groups(metric, world, user) for user in table.index]
    np.testing.assert_allclose(table["awrf_at_3"], expected, rtol=1e-9, atol=1e-12, equal_nan=True)


def test_a_group_that_is_a_number_has_its_name_in_text_and_other_types_are_refused(tables):
    items = tables["items"].drop("group")
    numbered = {**tables, "items": items.withColumn("group", F.array(F.col("item") % 2))}
    shares = evaluate(metrics=["attention_share(group='0')@3", "attention_share(group='1')@3"], **numbered)
    assert sum(row.mean for row in shares.summary) == pytest.approx(1, abs=1e-8)
    with pytest.raises(InputError, match="'group'"):
        evaluate(metrics="awrf@3", **{**tables, "items": items})
    nested = items.withColumn("group", F.array(F.array("item")))
    with pytest.raises(InputError, match=r"the column 'group' \(group=\)"):
        evaluate(metrics="awrf@3", **{**tables, "items": nested})


@pytest.fixture(scope="module")
def few(tables):
    return evaluate(metrics=["novelty@3", "gini@3", "gini@1", "entropy@3"], quantiles=(0.1, 0.5), **tables)


def test_what_is_written_keeps_the_measures_of_all_lists(few, tmp_path):
    written = few.write(str(tmp_path / "per_user"))
    assert [(row.metric, row.mean) for row in written.summary] == [(row.metric, row.mean) for row in few.summary]


@pytest.mark.usefixtures("without_charts")
def test_a_result_with_measures_of_all_lists_is_shown_as_any_other(few, tmp_path):
    assert "no interval for gini@3, gini@1 and entropy@3: a value of all lists together has no spread" in repr(few)
    for shown in (few.to_json(), few.to_markdown(), few.to_latex(), few._repr_html_(), few.explain()):
        assert "gini" in shown
    assert few.curve("gini")["mean"].tolist() == [few["gini@1"], few["gini@3"]]
    assert "gini" in few.to_trec(per_query=True)
    assert few.plot().to_dict()
    assert few.report(tmp_path / "report.html").exists()
    with pytest.raises(UnknownMetricError, match="one value for all lists together"):
        few.plot.histogram("gini@3")
    with pytest.raises(MergeError, match="for all lists together"):
        merge({"monday": few, "tuesday": few})


def test_models_are_compared_by_the_measures_that_users_have(of_models):
    compared = compare(of_models, baseline="one")
    assert {row.metric for row in compared.rows} == {"novelty@3", "diversity(by='vector')@5", "unexpectedness@3"}


WRONG_COLUMNS = {
    "training lacks its items": ({"training": "user long, thing long"}, "novelty@3", "training has no column 'item'"),
    "training has other ids": ({"training": "user long, item string"}, "novelty@3", "items have different types"),
    "training has other users": ({"training": "user string, item long"}, "novelty@3", "users have different types"),
    "items lack a category": ({"items": "item long, kind string"}, "diversity@3", "category"),
    "categories in arrays": (
        {"items": "item long, category array<string>"},
        "diversity@3",
        r"several .* diversity\(by='categories'\)",
    ),
    "vectors that are none": ({"items": "item long, vector string"}, "diversity(by=vector)@3", "an array of numbers"),
    "a baseline without scores": (
        {"baseline": "user long, item long"},
        "unexpectedness@3",
        "baseline has no column 'score'",
    ),
}


@pytest.mark.parametrize("case", WRONG_COLUMNS)
def test_wrong_columns_are_named(spark, tables, case):
    schemas, metric, words = WRONG_COLUMNS[case]
    wrong = {name: spark.createDataFrame([], schema) for name, schema in schemas.items()}
    with pytest.raises(InputError, match=words):
        evaluate(metrics=metric, **{**tables, **wrong})


WRONG_ROWS = {
    "training": ([(1, None), (None, 10), (1, 10)], "user long, item long"),
    "items": (
        [
            (10, "a", [1.0, 2.0]),
            # Two categories, two vectors; a vector that is too short, and one with NaN; a row of no item.
            (11, "a", [1.0, 3.0]), (11, "b", [1.0, 3.0]), (12, "a", [1.0, 0.0]), (12, "a", [0.0, 1.0]), (13, "a", [1.0]),
            (14, "a", [math.nan, 1.0]), (None, "a", [1.0, 1.0]),
        ],
        "item long, category string, vector array<double>",
    ),
    "baseline": ([(1, 10, math.nan), (1, None, 2.0), (1, 11, 1.0)], PAIRS),
}  # fmt: skip
# What remains of these.
RIGHT_ROWS = {
    "training": ([(1, 10)], "user long, item long"),
    "items": (
        [(10, "a", [1.0, 2.0]), (11, None, [1.0, 3.0]), (12, "a", None), (13, "a", None), (14, "a", None)],
        "item long, category string, vector array<double>",
    ),
    "baseline": ([(1, 11, 1.0)], PAIRS),
}


def test_rows_that_cannot_be_used_are_counted_and_refused_or_left_out(spark):
    metrics = ["novelty@2", "diversity@3", "diversity(by=vector)@3", "unexpectedness@2"]

    def given(tables):
        return {
            **tables_of(spark, SIMPLE), **{name: spark.createDataFrame(*table) for name, table in tables.items()},
            "metrics": metrics,
        }  # fmt: skip

    wrong = given(WRONG_ROWS)
    # Groups read one of the tables again, and say nothing of the others.
    for groups in ({"item_by": "category"}, {"popularity_groups": 2}, {}):
        with pytest.raises(DataError) as caught:
            evaluate(**wrong, **groups)
        assert caught.value.counts == {
            "n_invalid_training": 2, "n_invalid_items": 1, "n_invalid_baseline": 2, "n_conflicting_categories": 1,
            "n_conflicting_vectors": 1, "n_ragged_vectors": 2,
        }  # fmt: skip
    for words in (
        "training.*: 2",
        "without an item: 1",
        "baseline.*: 2",
        "different categories: 1",
        "different vectors: 1",
    ):
        assert re.search(words, str(caught.value))
    left_out = evaluate(on_invalid={"invalid_facts": "drop"}, **wrong)
    right = evaluate(**given(RIGHT_ROWS))
    assert [row.mean for row in left_out.summary] == pytest.approx([row.mean for row in right.summary], nan_ok=True)
    scored = score_users(**wrong)
    per_user = spark.createDataFrame(scored.collect(), scored.schema)
    with pytest.raises(DataError, match="cannot be used: 9"):
        summarise(per_user)
    stored = summarise(per_user, on_invalid="drop")
    assert [row.mean for row in stored.summary] == pytest.approx([row.mean for row in left_out.summary], nan_ok=True)


def test_empty_tables_leave_everything_undefined(spark):
    nobody = {**tables_of(spark, SIMPLE), "predictions": spark.createDataFrame([], PAIRS)}
    with pytest.warns(SparkRankEvalWarning, match="none of 3 users with labels has predictions"):
        result = evaluate(metrics=["novelty@2", "gini@2", "catalogue_coverage@2", "personalisation@2"], **nobody)
    assert all(math.isnan(row.mean) for row in result.summary)


def test_empty_training_data_leave_popularity_undefined(spark):
    nothing = {**tables_of(spark, SIMPLE), "training": spark.createDataFrame([], "user long, item long")}
    result = evaluate(metrics=["novelty@2", "cold_items@2", "cold_user", "catalogue_coverage@2", "gini@2"], **nothing)
    assert [row.mean for row in result.summary][1:3] == [1, 1]
    assert all(math.isnan(row.mean) for row in (result.summary[0], *result.summary[3:]))


def test_an_item_is_one_item_however_its_id_is_written(spark):
    """0.0 and -0.0 are equal numbers."""
    predictions = spark.createDataFrame([(user, [-0.0, 0.0][user % 2]) for user in range(9)], "user long, item double")
    labels = spark.createDataFrame([(0, 5.0)], "user long, item double")
    with shuffled_into(spark, 3):
        result = evaluate(
            predictions.withColumn("score", F.lit(1.0)), labels, ["entropy@1", "personalisation@1"], score="score"
        )
    assert [row.mean for row in result.summary] == [0.0, 0.0]


@pytest.mark.not_on_sail("plans")
def test_messages_are_placed_by_what_a_task_that_runs_again_gives_again(spark):
    """By their buckets, or their partitions; not by counts or bytes of states."""
    messages = spark.createDataFrame([(0, "states", b"")], MESSAGE_SCHEMA)
    # A shuffle into one partition asks no row where it belongs.
    with shuffled_into(spark, 3):
        placed = plan_of(merged_messages(messages, {}))
    (by,) = re.findall(r"hashpartitioning\((.*?), \d+\)", placed)
    assert re.findall(r"([a-z]+)#", by) == ["bucket"]


# --- intents

JUDGED = random_judged(np.random.default_rng(31), 60)
OF_INTENTS = [metric(k=k).resolve() for metric in INTENTS for k in (None, 3)]


def judged_tables(spark, judged=JUDGED):
    """Predictions, and judgements with a row for each subtopic of an item. Everybody has a judgement, of an item of their own."""
    of_all = [(user, "extra", 1000 + user, 1.0) for user in range(0, len(judged), 2)]
    triples = [(user, f"i{i}", item, grade) for user, (_, rows) in enumerate(judged) for item, i, grade in rows]
    return {
        "predictions": spark.createDataFrame(
            [(user, *pair) for user, (pairs, _) in enumerate(judged) for pair in pairs], PAIRS
        ),
        "labels": spark.createDataFrame(triples + of_all, "user long, subtopic string, item long, grade double"),
        "score": "score",
        "relevance": "grade",
        "facts": Facts(subtopic="subtopic"),
    }


def judged_by(user):
    """The list and the judgements of a user of these tables."""
    pairs, triples = JUDGED[user]
    ranked = [item for item, _ in oracle.rank(pairs, "item_asc")]
    judged = [(item, f"i{intent}", grade) for item, intent, grade in triples]
    return ranked, judged + ([] if user % 2 else [(1000 + user, "extra", 1.0)])


def check_intents(result, users=range(60), metrics=OF_INTENTS, rows=None):
    """Every user has the naive value of every metric."""
    table = (result.per_user if rows is None else rows).toPandas().set_index("user")
    for metric in metrics:
        expected = [intents_oracle.value(metric.name, *judged_by(user), **parameters_of(metric)) for user in users]
        values = table[result.columns[str(metric)]].reindex(users)
        np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-15, err_msg=str(metric))


@pytest.fixture(scope="module")
def judged(spark):
    return judged_tables(spark)


def test_judged_subtopics_give_every_user_the_naive_metrics(spark, judged):
    result = ours.evaluate(metrics=[*OF_INTENTS, "ndcg@3"], by="side", **judged_with_sides(spark, judged))
    check_intents(result)
    # Other metrics see an item once, with its highest grade.
    merged = judged["labels"].groupBy("user", "item").agg(F.max("grade").alias("grade"))
    alone = ours.evaluate(**{**judged, "labels": merged, "facts": Facts(), "metrics": "ndcg@3"})
    assert result["ndcg@3"] == alone["ndcg@3"]
    values = [intents_oracle.value("s_recall", *judged_by(user), k=3) for user in range(0, 60, 3)]
    assert result["s_recall(undefined='nan', relevance_threshold=None)@3", "side=left"] == pytest.approx(
        np.nanmean(values)
    )


def judged_with_sides(spark, judged):
    sides = spark.createDataFrame(
        [(user, "right" if user % 3 else "left") for user in range(60)], "user long, side string"
    )
    return {**judged, "facts": replace(judged["facts"], attributes=sides)}


def test_subtopics_and_lists_in_arrays_give_the_same(spark, judged):
    metrics = OF_INTENTS[::3]
    of_items = judged["labels"].groupBy("user", "item", "grade").agg(F.collect_set("subtopic").alias("subtopic"))
    # One grade an item, so that all its subtopics fit into one row.
    graded = of_items.where("grade = 1")
    expected = ours.evaluate(**{**judged, "labels": judged["labels"].where("grade = 1"), "metrics": metrics})
    rows = ours.evaluate(**{**judged, "labels": graded, "metrics": metrics})
    structs = graded.groupBy("user").agg(F.collect_list(F.struct("item", "grade", "subtopic")).alias("liked"))
    pairs = F.array_sort(F.collect_list(F.struct((-F.col("score")).alias("place"), "item")))
    lists = judged["predictions"].groupBy("user").agg(F.transform(pairs, lambda pair: pair["item"]).alias("listed"))
    arrays = ours.evaluate(lists, structs, metrics, item=("listed", "item"), relevance="grade", facts=judged["facts"])
    for result in (rows, arrays):
        assert [row.mean for row in result.summary] == [row.mean for row in expected.summary]
        assert [row.n_users for row in result.summary] == [row.n_users for row in expected.summary]


def test_categories_of_items_are_the_intents_of_their_labels(spark, judged):
    labels = judged["labels"].groupBy("user", "item").agg(F.max("grade").alias("grade"))
    categories = {item: ["x"] * (item % 2) + ["y"] * (item % 3 == 0) + ["z"] * (item == 4) for item in range(10)}
    in_arrays = spark.createDataFrame([*categories.items(), (4, ["x"])], "item long, kinds array<string>")
    in_rows = spark.createDataFrame(
        [(i, k) for i, kinds in [*categories.items(), (4, ["x"])] for k in kinds], "item long, kinds string"
    )
    metrics = [*OF_INTENTS[::3], "diversity@3"]
    subtopics = labels.join(in_rows.distinct(), "item").withColumnRenamed("kinds", "subtopic")
    expected = ours.evaluate(**{**judged, "labels": subtopics, "metrics": metrics[:-1]})
    given = {**judged, "labels": labels}
    of_arrays = ours.evaluate(**{**given, "metrics": metrics[:-1], "facts": Facts(items=in_arrays, category="kinds")})
    of_rows = score_users_of(given, metrics[:-1], in_rows)
    assert of_arrays.data_quality.n_labels == labels.count()
    assert [row.mean for row in of_arrays.summary] == [row.mean for row in expected.summary]
    assert [row.mean for row in of_rows.summary] == [row.mean for row in expected.summary]
    with pytest.raises(InputError, match="one value for each item"):
        ours.evaluate(**{**given, "metrics": metrics, "facts": Facts(items=in_arrays, category="kinds")})
    nested = Facts(items=in_arrays.withColumn("kinds", F.array("kinds")), category="kinds")
    with pytest.raises(InputError, match=r"one value for each item\Z"):
        ours.evaluate(**{**given, "metrics": ["diversity@3", "diversity(by='categories')@3"], "facts": nested})
    unknown = in_arrays.union(spark.createDataFrame([(None, ["x"])], in_arrays.schema))
    with pytest.raises(DataError, match="rows of items without an item: 1"):
        ours.evaluate(**{**given, "metrics": "s_recall@3", "facts": Facts(items=unknown, category="kinds")})


def score_users_of(given, metrics, items):
    scored = ours.score_users(**{**given, "metrics": metrics, "facts": Facts(items=items, category="kinds")})
    return summarise(scored.sparkSession.createDataFrame(scored.collect(), scored.schema))


def test_models_lists_from_vectors_and_text_have_intents(spark, judged):
    metrics = [parse_metric(name).resolve() for name in ("alpha_ndcg@3", "s_recall@3")]
    upside_down = judged["predictions"].withColumn("score", -F.col("score"))
    both = ours.evaluate(
        **{**judged, "predictions": {"one": judged["predictions"], "other": upside_down}, "metrics": metrics}
    )
    alone = ours.evaluate(**{**judged, "predictions": upside_down, "metrics": metrics})
    check_intents(both, metrics=metrics, rows=both.per_user.where("model = 'one'"))
    assert [row.mean for row in both.summary if row.model == "other"] == [row.mean for row in alone.summary]
    as_text = {
        name: judged[name].withColumn("item", F.format_string("%05d", "item")) for name in ("predictions", "labels")
    }
    assert ours.evaluate(**{**judged, **as_text, "metrics": metrics})["alpha_ndcg@3"] == both["one", "alpha_ndcg@3"]
    users = spark.createDataFrame([(user, [1.0]) for user in range(60)], "user long, vector array<double>")
    items = spark.createDataFrame([(item, [float(item % 5)]) for item in range(14)], "item long, vector array<double>")
    whole = users.select("user").crossJoin(items.select("item", F.col("vector")[0].alias("score")))
    ranked = ours.evaluate(**{**judged, "predictions": whole, "metrics": metrics})
    vectors = ours.evaluate(
        ours.Vectors(users, items), judged["labels"], metrics, relevance="grade", facts=judged["facts"]
    )
    assert [row.mean for row in vectors.summary] == [row.mean for row in ranked.summary]


WRONG_INTENTS = {
    "neither subtopics nor items": (Facts(), "needs items; .* name it: Facts"),
    "no such column": (Facts(subtopic="topic"), "labels has no column 'topic'"),
    "a name that is none": (Facts(subtopic=3), "subtopic must be a column name"),
    "a column of structs": (Facts(subtopic="both"), "plain values or arrays of these"),
}


@pytest.mark.parametrize("case", WRONG_INTENTS)
def test_intents_that_cannot_be_found_are_named(judged, case):
    facts, words = WRONG_INTENTS[case]
    labels = judged["labels"].withColumn("both", F.struct("item", "grade"))
    with pytest.raises(InputError, match=words):
        ours.evaluate(**{**judged, "labels": labels, "facts": facts, "metrics": "alpha_ndcg@3"})


def test_judgements_that_contradict_each_other_are_counted(spark, judged):
    first = judged["labels"].where("grade = 1").orderBy("user", "item", "subtopic").limit(1)
    labels = judged["labels"].union(first.withColumn("grade", F.lit(0.0)))
    with pytest.raises(DataError) as caught:
        ours.evaluate(**{**judged, "labels": labels, "metrics": "alpha_ndcg@3"})
    assert caught.value.counts == {"n_conflicting_labels": 1}
    metrics = OF_INTENTS[:2]
    # Rows without a grade take no other judgement of the item with them.
    unusable = first.withColumn("grade", F.lit(None).cast("double"))
    bad = labels.union(unusable).union(unusable.withColumn("subtopic", F.lit("i8")))
    asked = {**judged, "labels": bad, "metrics": [*metrics, "recall@3"], "on_invalid": "quarantine"}
    result = ours.evaluate(**asked)
    check_intents(result, metrics=metrics)
    assert result["recall@3"] == ours.evaluate(**{**judged, "metrics": "recall@3"})["recall@3"]
    assert (result.data_quality.n_conflicting_labels, result.data_quality.n_invalid_labels) == (1, 2)
    (item,) = first.collect()
    rows = [(row.user, row.item, row.grade, row.reason) for row in result.quarantine.orderBy("reason").collect()]
    assert rows == [
        (item.user, item.item, None, "null relevance"),
        (item.user, item.item, None, "null relevance"),
        (item.user, item.item, 0.0, "repeats an item of the user with a lower grade"),
    ]
    # The labels are others if their subtopics are.
    renamed = labels.withColumn("subtopic", F.regexp_replace("subtopic", "i1", "i9"))
    result, other = (
        ours.evaluate(**{**judged, "labels": each, "metrics": metrics, "on_invalid": "drop"})
        for each in (labels, renamed)
    )
    assert other.fingerprints["labels"] != result.fingerprints["labels"]
    assert other.fingerprints["predictions"] == result.fingerprints["predictions"]


SUBTOPIC_ROWS = [
    # Another subtopic, with a lower grade: its row counts as one of another subtopic.
    ("a", "leaf", "tea", 2.0), ("a", "fruit", "tea", 1.0),
    # The same subtopic again, equal and not.
    ("a", "leaf", "jam", 1.0), ("a", "leaf", "jam", 1.0), ("a", "leaf", "jam", 0.0),
    # Without a subtopic there is nothing that could conflict.
    ("b", None, "rye", 1.0), ("b", None, "rye", 2.0), ("b", "leaf", "ham", 3.0),
    # Beside a higher grade, alone, and for the same subtopic as a higher grade.
    ("b", "fruit", "ham", -1.0), ("b", "leaf", "egg", -2.0), ("b", "root", "egg", -1.0), ("b", "leaf", "ham", -1.0),
    # If -1 is clipped, it equals this one.
    ("b", "root", "egg", 0.0),
    # Rows that cannot be used.
    ("b", "leaf", "ham", None), (None, "leaf", "tea", 1.0), ("b", "fruit", None, 1.0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("negative", "counts"),
    [
        ("drop", {"labels": 5, "subtopic_labels": 2, "duplicate_labels": 1, "conflicting_labels": 1, "invalid_labels": 7}),
        # Clipped grades are 0: for one subtopic of ham 3 and 0 conflict.
        ("clip", {"labels": 5, "subtopic_labels": 4, "duplicate_labels": 2, "conflicting_labels": 2, "invalid_labels": 3}),
    ],
)  # fmt: skip
def test_every_row_of_a_subtopic_is_used_or_counted(spark, negative, counts):
    labels = spark.createDataFrame(SUBTOPIC_ROWS, "user string, subtopic string, item string, grade double")
    predictions = spark.createDataFrame(
        [("a", "tea", 1.0), ("b", "ham", 1.0)], "user string, item string, score double"
    )
    call = {"score": "score", "relevance": "grade", "facts": Facts(subtopic="subtopic")}
    kinds = {"negative_grades": negative, **dict.fromkeys(("conflicting_labels", "invalid_labels"), "drop")}
    for metrics in (["ndcg@1"], ["s_recall@1", "ndcg@1"]):
        result = ours.evaluate(predictions, labels, metrics, **call, on_invalid=kinds)
        found = result.data_quality.to_dict()
        assert {name: found[f"n_{name}"] for name in counts} == counts
        assert sum(counts.values()) == len(SUBTOPIC_ROWS)
        assert found["n_negative_grades"] == 4
        assert f"{counts['subtopic_labels']} labels for other subtopics of their item" in str(result)
        assert result["ndcg@1"] == 1.0
        reasons = Counter(row.reason for row in result.quarantine.collect())
        assert sum(reasons.values()) == counts["invalid_labels"] + counts["conflicting_labels"]
    assert result["s_recall@1"] == 1.0
    with pytest.raises(DataError, match="negative relevance: 4, for example user='b', item=") as caught:
        ours.evaluate(predictions, labels, "ndcg@1", **call)
    assert caught.value.counts == {"n_invalid_labels": 7, "n_conflicting_labels": 1}
    assert "item='jam' 3 times, with relevances [0.0, 1.0]" in str(caught.value)


def test_a_subtopic_twice_in_an_array_is_one_judgement(spark):
    labels = spark.createDataFrame([("a", ["leaf", "leaf"], "tea")], "user string, subtopic array<string>, item string")
    predictions = spark.createDataFrame([("a", "tea", 1.0)], "user string, item string, score double")
    result = ours.evaluate(predictions, labels, "s_recall@1", score="score", facts=Facts(subtopic="subtopic"))
    assert (result.data_quality.n_labels, result.data_quality.n_duplicate_labels) == (1, 0)
