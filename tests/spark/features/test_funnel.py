"""Funnels on an engine, beside the account of each user in plain Python."""

import math
import random

import pytest
from oracles.rankings import User, value
from oracles.stages import account, best_value

from spark_rankeval import Vectors, evaluate, funnel
from spark_rankeval.errors import DataError, DialectError, InputError, MetricError, OptionError

K = [6, 4, 2]
NAMES = ["ann", "rerank", "shown"]
COUNTRIES = ["DE", "FR", None]
NDCG = {"gain": "exponential", "ideal": "labels", "discount": "log2"}


@pytest.fixture(scope="module")
def world():
    """Users with lists of three stages, with ties, added items and empty lists, and labels; some have none."""
    drawn = random.Random(11)
    users = {}
    for user in range(24):
        stages = []
        for n_items in (12, 6, 3):
            items = drawn.sample(range(16), drawn.choice([0, n_items // 2, n_items]))
            stages.append([(item, drawn.randint(0, 4) / 2) for item in items])
        labels = {item: float(drawn.randint(0, 3)) for item in drawn.sample(range(18), drawn.choice([0, 3, 6]))}
        users[user] = stages, labels, COUNTRIES[user % 3]
    return users


@pytest.fixture(scope="module")
def tables(spark, world):
    """The tables of the stages, the second of arrays, and the labels."""
    stages = {}
    for place, name in enumerate(NAMES):
        lists = {user: each[0][place] for user, each in world.items()}
        if name == "rerank":
            kind = "user int, item array<struct<item: int, score: double>>"
            stages[name] = spark.createDataFrame(list(lists.items()), kind)
        else:
            rows = [(user, item, score) for user, pairs in lists.items() for item, score in pairs]
            stages[name] = spark.createDataFrame(rows, "user int, item int, score double")
    rows = [
        (user, item, grade, country) for user, (_, labels, country) in world.items() for item, grade in labels.items()
    ]
    return stages, spark.createDataFrame(rows, "user int, item int, grade double, country string")


@pytest.fixture(scope="module")
def stages(tables):
    return funnel(*tables, K, score="score", relevance="grade", by="country")


def figures_of(user):
    """The figures of a user's stages; None without a relevant label."""
    lists, labels, _ = user
    ranked = [User(pairs, list(labels.items())) for pairs in lists]
    shares = account([each.items for each in ranked], K, labels)
    if shares is None:
        return None
    return [
        (*map(float, three), value("ndcg", each, k=2, **NDCG), best_value("ndcg", each, k, k=2, **NDCG))
        for three, each, k in zip(shares, ranked, K, strict=True)
    ]


def test_every_slice_has_the_means_of_what_the_definitions_say_of_its_users(world, stages):
    assert stages.stages == NAMES
    assert sorted(stages.slices) == ["all", "country=DE", "country=FR", "country=null"]
    for slice_ in stages.slices:
        users = [user for user in world.values() if slice_ in ("all", f"country={user[2] or 'null'}")]
        figures = [each for each in map(figures_of, users) if each is not None]
        for place, name in enumerate(NAMES):
            row = stages[name, slice_]
            expected = [math.fsum(user[place][figure] for user in figures) / len(figures) for figure in range(5)]
            shown = [row.recall, row.lost, row.added, row.reached, row.ceiling]
            assert [one.mean for one in shown] == pytest.approx(expected, abs=1e-12), (name, slice_)
            assert {one.n_users for one in shown} == {len(figures)}
            assert all(one.interval_low <= one.mean <= one.interval_high for one in shown)
    totals = [stages[name] for name in NAMES]
    assert all(0 < row.lost.mean < 1 for row in totals)
    assert totals[1].added.mean > 0


def test_figures_are_those_that_evaluate_gives_and_no_others(tables, stages):
    metrics = ["recall@4", "lost(before=6)@4", "added(before=6)@4", "ndcg@2", "ndcg(ceiling=4)@2"]
    result = evaluate(
        *tables, metrics, score="score", relevance="grade", by="country", dialect="standard", quantiles=()
    )
    rows = {(row.model, row.metric, row.slice): row for row in result.summary}
    for slice_ in stages.slices:
        row = stages["rerank", slice_]
        shown = [row.recall, row.lost, row.added, row.reached, row.ceiling]
        assert shown == [rows["rerank", metric, slice_] for metric in metrics]
    assert {row.metric for row in stages.result.summary if row.model == "ann"} == {
        "recall@6", "lost@6", "added@6", "ndcg@2", "ndcg(ceiling=6)@2",
    }  # fmt: skip
    assert "no list reaches" not in str(stages)


def test_it_prints_and_draws_and_has_records(stages):
    lines = str(stages).splitlines()
    assert lines[1].split() == ["slice", "stage", "first", "recall", "lost", "added", "users"]
    assert "ties" in [line.split("  ")[0] for line in lines]
    frame = stages.to_pandas()
    assert len(frame) == len(stages) == 12
    assert list(frame["stage"][:3]) == NAMES
    assert (frame["lost_low"] <= frame["lost"]).all()
    assert stages.to_dict()["stages"][1]["lost"] == stages["rerank"].lost.mean
    assert stages.to_json().count('"slice"') == 12
    assert stages.to_latex().count(r"\begin{tabular}") == stages._repr_html_().count("<table>") == 2
    assert len(stages.sentences) == 3
    assert stages.plot("country=DE", width=300).to_dict()["title"]["text"].endswith("users with country=DE")
    for name in ("rerrank", ("rerank", "country=XX")):
        with pytest.raises(InputError, match="available: "):
            stages[name]


def test_a_stage_may_rank_the_whole_catalogue(spark):
    users = spark.createDataFrame([(1, [1.0, 0.0]), (2, [0.0, 1.0])], "user int, vector array<double>")
    items = spark.createDataFrame([(n, [1.0 - n / 5, n / 5]) for n in range(6)], "item int, vector array<double>")
    shown = spark.createDataFrame([(1, 1, 0.9), (1, 5, 0.8), (2, 3, 0.9)], "user int, item int, score double")
    labels = spark.createDataFrame([(1, 0), (1, 1), (1, 5), (2, 3), (2, 4)], "user int, item int")
    stages = funnel(
        {"exact": Vectors(users, items), "shown": shown}, labels, [3, 2], metric="recall", score="score", ci=None
    )
    row = stages["exact"]
    assert (row.recall.mean, row.lost.mean, row.ceiling.mean) == pytest.approx((5 / 6, 1 / 6, 5 / 6))
    row = stages["shown"]
    assert (row.recall.mean, row.lost.mean, row.added.mean) == pytest.approx((7 / 12, 5 / 12, 1 / 6))
    assert "[" not in str(stages)


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"stages": {}}, InputError, "at least two tables by name, in their order; got 0 of them"),
        ({"stages": "one"}, InputError, "got 1 of them"),
        ({"stages": "table"}, InputError, "stages must be a dict of at least two tables by name"),
        ({"labels": None}, InputError, "labels must be a table of its own"),
        ({"k": [6, 4]}, OptionError, r"one for each of the 3 stages \(ann, rerank, shown\); got \[6, 4\]"),
        ({"k": 6}, OptionError, "k must be a list of whole numbers from 1 on"),
        ({"k": [6, 4, 0]}, OptionError, "k must be a list of whole numbers from 1 on"),
        ({"k": [6, 4.0, 2]}, OptionError, "k must be a list of whole numbers from 1 on"),
        ({"k": [2, 4, 4]}, OptionError, "must not grow from stage to stage; got 4 of 'rerank' after 2 of 'ann'"),
        ({"metric": "ndgc"}, MetricError, "did you mean 'ndcg'"),
        ({"metric": "auc"}, OptionError, "metric='auc' has no ceiling.*available: ap, cg, dcg"),
        ({"metric": "novelty@5"}, OptionError, "has no ceiling"),
        ({"metric": "ndcg@3"}, OptionError, "looks at 3 places, and the last stage passes on 2, .*use 'ndcg@2'"),
        ({"metric": "recall@3"}, OptionError, "looks at 3 places, .*use 'recall@2'"),
        ({"metric": "r_precision"}, OptionError, "looks at as many places as a user has relevant items"),
        ({"metric": "ndcg(ceiling=5)@5"}, OptionError, "leave out ceiling=5"),
        ({"dialect": "default"}, OptionError, r"judges only the order.*\"ndcg\(ideal='labels'\)@2\""),
        ({"metric": "ap(denominator='hits')"}, OptionError, "its ceiling is always 1"),
        ({"dialect": "trec_eval"}, DialectError, "has no 'lost'"),
        ({"ties": "average"}, OptionError, "ties='average' does not say which items a stage passes on"),
        ({"relevance": ["grade", "other"]}, OptionError, "relevance must be one column of grades"),
        ({"by": "planet"}, InputError, "planet"),
    ],
)
def test_what_is_no_funnel_is_refused_before_anything_runs(tables, changes, error, says):
    stages, labels = tables
    shown = {"one": {"ann": stages["ann"]}, "table": stages["ann"]}
    given = {"stages": stages, "labels": labels, "k": K, "score": "score", "relevance": "grade"} | changes
    if isinstance(given["stages"], str):
        given["stages"] = shown[given["stages"]]
    with pytest.raises(error, match=says):
        funnel(**given)


def test_rows_that_cannot_be_ranked_are_an_error(spark, tables):
    stages, labels = tables
    bad = stages["shown"].union(spark.createDataFrame([(3, 5, None)], stages["shown"].schema))
    with pytest.raises(DataError, match="shown"):
        funnel({**stages, "shown": bad}, labels, K, score="score", relevance="grade")
