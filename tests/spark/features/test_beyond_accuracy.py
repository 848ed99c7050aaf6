"""Measures beyond accuracy through the front door: tables of training, items and a baseline, on Spark."""

import math
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from helpers.effort import FULL_LENGTH, part_of
from helpers.plans import plan_of
from helpers.shuffles import shuffled_into
from oracles import item_groups
from oracles.item_groups import groups_of
from oracles.lists import FORMULAS, value
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
from spark_rankeval.spark.ids import hash_in
from spark_rankeval.spark.tasks import MESSAGE_SCHEMA, merged_messages
from spark_rankeval.statistics.bootstrap import WithoutBlock, blocks_of, jackknife_interval

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
    "awrf@3", "awrf(target=relevance)@5", "amortised_awrf@3", "amortised_awrf(target=equal, unknown=apart)@3",
    "attention_share(group=shared)@3", "exposure_to_merit(group=c1)@3", "dtr", "ee_loss@3", "reo", "rsp@3", "popreo(head=0.5)",
    "poprsp@3",
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


def evaluated(spark, tables, worlds, metrics=METRICS, shuffled=lambda table: table):
    """Metrics of both models, of all users and of those of each side, with a bootstrap."""
    sides = spark.createDataFrame([(user, ("left", "right")[user % 2]) for user in range(60)], "user long, side string")
    models = {name: spark.createDataFrame(rows_of(alone.predictions), PAIRS) for name, alone in worlds.items()}
    given = {name: shuffled(table) if hasattr(table, "columns") else table for name, table in tables.items()}
    given["predictions"] = {name: shuffled(table) for name, table in models.items()}
    return evaluate(metrics=metrics, by="side", attributes=sides, ci=BCa(replicates=99), quantiles=(), **given)


@pytest.fixture(scope="module")
def result(spark, tables, worlds):
    with pytest.warns(UserWarning, match=r"no item has the group 'shred'; did you mean 'shared'\?"):
        return evaluated(spark, tables, worlds)


def users_with_rows(*worlds):
    """Whoever has a prediction or a label: a list without an entry is none."""
    return sorted(
        {user for each in worlds for user in each.users if each.predictions.get(user) or each.labels.get(user)}
    )


def naive(world, metric, users):
    """The value of all lists of some users, or each user's."""
    metric = parse_metric(metric).resolve()
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
    world, users = worlds[model], [user for user in users_with_rows(*worlds.values()) if user % 2 in SIDES[side]]
    rows = [row for row in result.summary if (row.model, row.slice) == (model, side)]
    plain = [row for row in rows if row.metric not in ("ndcg@3", str(parse_metric(UNKNOWN_GROUP)))]
    assert len(rows) == len(plain) + 2 == len(OF_USERS + OF_ALL + OF_GROUPS) + 2
    check(plain, world, users, of_names(OF_GROUPS))
    for row in rows:
        if row.metric in of_names(OF_ALL):
            assert row.n_users == sum(bool(world.predictions.get(user)) for user in users)


def test_facts_change_no_other_metric(tables, result, worlds):
    users = tables["labels"].select("user").union(tables["predictions"].select("user"))
    users = users.union(
        users.sparkSession.createDataFrame([(user,) for user in worlds["other"].predictions], "user long")
    )
    alone = ours.evaluate(
        *(tables[name] for name in ("predictions", "labels")), "ndcg@3", score="score", relevance="grade", users=users
    )
    assert alone["ndcg@3"] == result["one", "ndcg@3"]


def test_partitions_change_no_digit(spark, tables, worlds, result):
    metrics = part_of([metric for metric in METRICS if metric != UNKNOWN_GROUP], 3)
    with shuffled_into(spark, 3):
        apart = evaluated(spark, tables, worlds, metrics, lambda table: table.repartition(3, "item"))
    # Fewer metrics read fewer columns of the items.
    figures = [
        {(row.model, row.slice, row.metric): repr(replace(row, fingerprints={})) for row in each.summary}
        for each in (apart, result)
    ]
    assert len(figures[0]) == len(metrics) * 2 * len(SIDES)
    assert figures[0].items() <= figures[1].items()


@pytest.mark.night  # By day test_pruning.py sees that pruning changes nothing.
def test_whole_lists_have_the_same_measures(tables, world):
    whole = evaluate(metrics=[*OF_USERS, *OF_ALL], prune="never", **tables)
    check(whole.summary, world, users_with_rows(world))


def test_every_user_has_the_value_of_the_naive_measures(tables, world):
    metrics = [*OF_USERS, "awrf@3"]
    # Facts are joined to items here; groups never are.
    table = score_users(metrics=metrics, **tables).toPandas().set_index("user")
    assert sorted(table.index) == users_with_rows(world)
    for column, metric in zip(table.columns, metrics, strict=False):
        expected = naive(world, metric, table.index)
        rtol = 1e-9 if metric in OF_GROUPS else 1e-12
        np.testing.assert_allclose(table[column], expected, rtol=rtol, atol=1e-12, equal_nan=True, err_msg=metric)


@pytest.mark.parametrize(
    ("column", "lookup"), part_of([("genres", "workers"), ("genres", "join"), ("category", "join")], 2)
)
def test_lists_are_calibrated_by_one_or_several_categories_of_an_item(tables, world, column, lookup):
    metrics = ["miscalibration@3", "miscalibration(divergence=js, rank_weight=log2)@5", "long_tail_share@3"]
    facts = {name: tables[name] for name in ("training", "items")}
    lists = {name: tables[name] for name in ("predictions", "labels", "score", "relevance")}
    plain = {item: [category] for item, (category, _) in world.items.items() if category is not None}
    if column == "category":
        world = replace(world, genres=plain)
        # Both forms of one column.
        metrics.append("diversity@3")
    found = ours.evaluate(metrics=metrics, facts=Facts(**facts, category=column, lookup=lookup), **lists)
    check(found.summary, world, users_with_rows(world))


def entropy(share):
    """That of two categories, in bits."""
    return -sum(part * math.log2(part) for part in (share, 1 - share))


@pytest.mark.parametrize("lookup", ["join", "workers"])
def test_rows_of_an_item_add_up_its_categories_for_every_metric(spark, lookup):
    rows = [("tea", "drama"), ("tea", "comedy"), ("tea", "drama"), ("tea", None), ("jam", "comedy")]
    items = spark.createDataFrame(rows, "item string, kind string")
    arrays = items.groupBy("item").agg(F.collect_set("kind").alias("kind"))
    log = spark.createDataFrame([("ann", "tea")], "user string, item string")
    lists = spark.createDataFrame([("ann", "tea", 2.0), ("ann", "jam", 1.0)], "user string, item string, score double")
    metrics = ["miscalibration(divergence=js)@2", "s_recall@1", "attention_share(group='drama')@2", "recall@1"]
    for table in part_of((items, arrays), 2):
        facts = Facts(training=log, items=table, category="kind", group="kind", item_by="kind", lookup=lookup)
        found = ours.evaluate(lists, log, metrics, score="score", facts=facts)
        # The history is half drama and half comedy, the list a quarter and three quarters.
        assert found[metrics[0]] == pytest.approx(entropy(0.375) - (entropy(0.5) + entropy(0.25)) / 2, rel=1e-12)
        assert found[metrics[1]] == 1.0
        assert found["recall@1", "item kind=drama"] == found["recall@1", "item kind=comedy"] == 1.0
        assert found[metrics[2]] == pytest.approx(0.5 / (1 + 1 / math.log2(3)), rel=1e-7)
    facts = Facts(training=log, items=items, category="kind", lookup=lookup)
    with pytest.raises(DataError, match="items whose rows give them different categories: 1"):
        ours.evaluate(lists, log, [metrics[0], "diversity@2"], score="score", facts=facts)


def test_ids_in_text_are_ids(tables, world):
    def in_text(table):
        ids = [f"cast({name} as string) AS {name}" for name in ("user", "item") if name in table.columns]
        return table.selectExpr(*ids, *(name for name in table.columns if name not in ("user", "item")))

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


def test_users_outside_the_population_are_exposed_to_nothing(tables, world):
    users = [user for user in world.users if world.labels.get(user)]
    found = evaluate(metrics=["gini@3", "entropy@3"], population="labelled", **tables)
    check(found.summary, world, users)
    for row in found.summary:
        assert row.mean != pytest.approx(naive(world, row.metric, world.users))


def test_excluded_items_are_in_no_measure(tables, world):
    consumed = {*world.training}
    left = {
        user: [(item, score) for item, score in pairs if (user, item) not in consumed]
        for user, pairs in world.predictions.items()
    }
    metrics = ["repetition@3", "novelty@3", "gini@3", "unexpectedness@3"]
    excluded = evaluate(metrics=metrics, exclude=tables["training"], **tables)
    assert excluded["repetition@3"] == 0
    check(excluded.summary, replace(world, predictions=left), users_with_rows(world))


def test_a_list_in_arrays_has_the_same_figures_as_in_rows(spark, tables, world):
    schema = "user long, item array<long>"
    lists = {user: world.list_of(user, None) for user, pairs in world.predictions.items() if pairs}
    base = {user: world.list_of(user, None, world.baseline) for user, pairs in world.baseline.items() if pairs}
    arrays = {"predictions": lists, "baseline": base}
    given = {**tables, **{name: spark.createDataFrame([*rows.items()], schema) for name, rows in arrays.items()}}
    del given["score"]
    metrics = [*OF_USERS, *OF_ALL, *OF_GROUPS]
    check(evaluate(metrics=metrics, **given).summary, world, users_with_rows(world), of_names(metrics))
    with pytest.raises(
        InputError, match="lookup='join' joins facts of items to rows of predictions, and arrays have none"
    ):
        ours.evaluate(
            given["predictions"], tables["labels"], "novelty@3", facts=Facts(training=tables["training"], lookup="join")
        )


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
        WithoutBlock(formula([user for user, number in zip(users, block, strict=True) if number != left]), int(n))
        for left, n in zip(*np.unique(block, return_counts=True), strict=True)
    ]
    return jackknife_interval(formula(users), without, 0.95, metric.bounds)


def test_values_of_all_lists_have_a_jackknife_if_there_is_a_bootstrap(spark, result, world):
    for row in result.summary:
        metric = parse_metric(row.metric).resolve()
        assert row.interval_method == ("jackknife" if metric.corpus_level else "bca")
        if "shred" in row.metric:
            assert math.isnan(row.mean)
    rows = {row.metric: row for row in result.summary if (row.model, row.slice) == ("one", "all")}
    for name in of_names(OF_ALL):
        metric, row = parse_metric(name).resolve(), rows[name]
        error, interval = jackknife_of(spark, world, partial(naive, world, name), metric)
        assert row.no_interval == interval.reason
        found = (row.standard_error, row.interval_low, row.interval_high)
        assert found == pytest.approx((error, interval.low, interval.high), rel=1e-9, abs=1e-12, nan_ok=True), name
    assert sum(not row.no_interval for row in rows.values()) >= len(OF_ALL)
    unequal = rows[str(parse_metric("reo"))]
    assert "an interval needs 30 of each group" in unequal.no_interval
    assert unequal.standard_error > 0
    share = rows[str(parse_metric("attention_share(group=shared)@3"))]
    assert 0 < share.interval_low < share.mean < share.interval_high < 1


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


@pytest.mark.usefixtures("without_charts")
def test_a_result_with_measures_of_all_lists_is_written_and_shown_as_any_other(few, tmp_path):
    written = few.write(str(tmp_path / "per_user"))
    assert [(row.metric, row.mean) for row in written.summary] == [(row.metric, row.mean) for row in few.summary]
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
    # Models are compared by the measures that users have.
    assert [row.metric for row in compare({"one": written, "other": written}, "one", replicates=9)] == ["novelty@3"]


WRONG_COLUMNS = {
    "training lacks its items": ({"training": "user long, thing long"}, "novelty@3", "training has no column 'item'"),
    "training has other ids": ({"training": "user long, item string"}, "novelty@3", "items have different types"),
    "training has other users": ({"training": "user string, item long"}, "novelty@3", "users have different types"),
    "items lack a category": ({"items": "item long, kind string"}, "diversity@3", "category"),
    "categories in arrays": ({"items": "item long, category array<string>"}, "diversity@3", r"several .* diversity\(by='categories'\)"),
    "vectors that are none": ({"items": "item long, vector string"}, "diversity(by=vector)@3", "an array of numbers"),
    "a baseline without scores": ({"baseline": "user long, item long"}, "unexpectedness@3", "baseline has no column 'score'"),
}  # fmt: skip


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
        frames = {name: spark.createDataFrame(*table) for name, table in tables.items()}
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
    if FULL_LENGTH:
        stored = summarise(per_user, on_invalid="drop")
        assert [row.mean for row in stored.summary] == pytest.approx([row.mean for row in right.summary], nan_ok=True)


def test_empty_tables_leave_everything_undefined(spark):
    nobody = {**tables_of(spark, SIMPLE), "predictions": spark.createDataFrame([], PAIRS)}
    with pytest.warns(SparkRankEvalWarning, match="none of 3 users with labels has predictions"):
        found = evaluate(metrics=["novelty@2", "gini@2", "catalogue_coverage@2", "personalisation@2"], **nobody)
    assert all(math.isnan(row.mean) for row in found.summary)


def test_empty_training_data_leave_popularity_undefined(spark):
    nothing = {**tables_of(spark, SIMPLE), "training": spark.createDataFrame([], "user long, item long")}
    found = evaluate(metrics=["novelty@2", "cold_items@2", "cold_user", "catalogue_coverage@2", "gini@2"], **nothing)
    assert [row.mean for row in found.summary] == pytest.approx([math.nan, 1, 1, math.nan, math.nan], nan_ok=True)


def test_an_item_is_one_item_however_its_id_is_written(spark):
    """0.0 and -0.0 are equal numbers."""
    rows = [(user, [-0.0, 0.0][user % 2], 1.0) for user in range(9)]
    predictions = spark.createDataFrame(rows, "user long, item double, score double")
    labels = spark.createDataFrame([(0, 5.0)], "user long, item double")
    with shuffled_into(spark, 3):
        found = ours.evaluate(predictions, labels, ["entropy@1", "personalisation@1"], score="score")
    assert [row.mean for row in found.summary] == [0.0, 0.0]


@pytest.mark.not_on_sail("plans")
def test_messages_are_placed_by_what_a_task_that_runs_again_gives_again(spark):
    """By their buckets, or their partitions; not by counts or bytes of states."""
    messages = spark.createDataFrame([(0, "states", b"")], MESSAGE_SCHEMA)
    # A shuffle into one partition asks no row where it belongs.
    with shuffled_into(spark, 3):
        placed = plan_of(merged_messages(messages, {}))
    (by,) = re.findall(r"hashpartitioning\((.*?), \d+\)", placed)
    assert re.findall(r"([a-z]+)#", by) == ["bucket"]
