"""Users whose right answer is nothing: however they are declared, with models, slices, comparisons; and the abstention curve."""

import math

import numpy as np
import pytest
from oracles.abstention import nauc
from pyspark.sql import functions as F

from spark_rankeval import Facts, abstention_curve, compare, evaluate, quarantine, score_users, summarise
from spark_rankeval.errors import DataError, InputError

METRICS = [
    "abstention",
    "false_alarm",
    "false_abstention",
    "rr(no_answer='empty_is_right')",
    "rr",
    "confidence(kind='diff1')@2",
]
N = 24


def list_of(user, model=0):
    """A user's list of items and scores; every fourth list is empty."""
    return (
        []
        if user % 4 == model
        else [(f"i{(user + place) % 7}", (user * 5 + place * 3) % 11 / 10) for place in range(3)]
    )


def label_of(user):
    """The item that a user wants; None: it has no label."""
    return f"i{(user + 1) % 7}" if user % 3 else None


def has_no_answer(user):
    return user % 6 == 0


@pytest.fixture(scope="module")
def tables(spark):
    """Predictions of two models, labels, and the users; some of those without an answer are in no other table."""
    users = range(N)
    predictions = [
        spark.createDataFrame(
            [(user, item, score) for user in users if user < N - 6 for item, score in list_of(user, model)],
            "user long, item string, score double",
        )
        for model in (0, 1)
    ]
    labels = spark.createDataFrame(
        [(user, label_of(user)) for user in users if label_of(user)], "user long, item string"
    )
    everyone = spark.createDataFrame(
        [(user, "at" if user % 2 else "de", has_no_answer(user) or None) for user in users],
        "user int, country string, unanswerable boolean",
    )
    return *predictions, labels, everyone


def naive(model=0):
    """Each metric's mean, over whom, from the definitions."""
    values = {name: [] for name in METRICS}
    for user in range(N):
        ranked = sorted(list_of(user, model) if user < N - 6 else [], key=lambda pair: (-pair[1], pair[0]))
        items, label = [item for item, _ in ranked], label_of(user)
        rr = 1 / (items.index(label) + 1) if label in items else 0.0
        if has_no_answer(user):
            values["abstention"].append(float(not items))
            values["false_alarm"].append(float(bool(items)))
        elif label is not None:
            values["false_abstention"].append(float(not items))
            values["rr"].append(rr)
        if has_no_answer(user) or label is not None:
            values["rr(no_answer='empty_is_right')"].append(float(not items) if has_no_answer(user) else rr)
        if items:
            values["confidence(kind='diff1')@2"].append(ranked[0][1] - ranked[1][1])
    return {name: (pytest.approx(np.mean(of_users), abs=1e-12), len(of_users)) for name, of_users in values.items()}


def naive_hits():
    """How many users have their label in the first place."""
    first = [max(list_of(user), key=lambda pair: pair[1], default=(None,))[0] for user in range(N - 6)]
    return sum(item == label_of(user) for user, item in enumerate(first) if item is not None)


def figures(result, **wanted):
    rows = [row for row in result.summary if all(getattr(row, name) == value for name, value in wanted.items())]
    return {row.metric: (row.mean, row.n_users) for row in rows}


def test_a_table_or_a_column_of_any_table_gives_the_naive_figures(tables):
    predictions, _, labels, everyone = tables
    declared = everyone.where("unanswerable").select("user")
    call = (predictions, labels, METRICS)
    result = evaluate(*call, score="score", no_answer=declared)
    assert figures(result) == naive()
    quality = result.data_quality
    assert (quality.n_users, quality.n_no_answer, quality.n_conflicting_answers) == (23, 4, 0)
    assert "of the 7 without a relevant label 4 have no answer, and 3 may have one" in str(result)
    for options in ({"users": everyone}, {"facts": Facts(attributes=everyone), "by": "country"}):
        other = evaluate(*call, score="score", no_answer="unanswerable", **options)
        assert figures(other, slice="all") == naive()
        assert other.data_quality.n_no_answer == 4
    # MLlib's mean is over all users, and one undefined value makes it undefined; these users are not meant.
    mllib = evaluate(*call[:2], "recall@1", score="score", no_answer=declared, dialect="mllib", ci=None)
    assert figures(mllib)["recall@1"] == (pytest.approx(naive_hits() / 19, abs=1e-12), 19)
    of_predictions = predictions.join(everyone, "user")
    seen = evaluate(of_predictions, labels, METRICS, score="score", no_answer="unanswerable", users=declared)
    # Only users with a prediction have a row that declares them.
    assert figures(seen)["false_alarm"] == (1.0, 1)


def test_rows_of_labels_that_say_who_has_no_answer_are_grouped_once(tables):
    predictions, _, labels, everyone = tables
    declared = everyone.where("unanswerable").crossJoin(labels.limit(1).select("item"))
    graded = labels.join(everyone, "user", "left").withColumn("label", F.lit(1))
    graded = graded.unionByName(declared.withColumn("label", F.lit(0)))
    call = (predictions, graded, METRICS)
    options = {"score": "score", "relevance": "label", "no_answer": "unanswerable"}
    result = evaluate(*call, **options)
    assert figures(result) == naive()
    assert (result.data_quality.n_users, result.data_quality.n_no_answer) == (23, 4)
    about_users = {"facts": Facts(attributes=everyone.select("user", "country")), "by": "country"}
    for more in ({"users": everyone.select("user")}, about_users):
        other = evaluate(*call, **options, **more)
        assert figures(other, slice="all") == naive()
        assert other.data_quality.n_no_answer == 4


def test_models_slices_and_comparisons_know_who_has_no_answer(tables, tmp_path):
    old, new, labels, everyone = tables
    per_user = score_users(
        {"old": old, "new": new}, labels, METRICS, score="score", users=everyone, no_answer="unanswerable", by="country"
    )
    result = summarise(per_user, by="country")
    for model, name in enumerate(["old", "new"]):
        assert figures(result, slice="all", model=name) == naive(model)
    assert figures(result, slice="country=at", model="old")["abstention"] == (pytest.approx(math.nan, nan_ok=True), 0)
    assert figures(result, slice="country=de", model="old")["abstention"] == naive()["abstention"]
    assert result.data_quality.n_no_answer == 4
    (row,) = compare(per_user, baseline="old", metrics="abstention")
    assert (row.n_users, row.baseline_mean) == (4, naive()["abstention"][0])


def test_one_long_table_is_grouped_once(tables):
    predictions, _, labels, everyone = tables
    both_sides = predictions.join(labels.withColumn("label", F.lit(1)), ["user", "item"], "full")
    # Users without a row of either side have one that says only that they have no answer.
    rows = both_sides.join(everyone, "user", "full").where("item is not null or unanswerable")
    result = evaluate(rows, None, METRICS, score="score", relevance="label", no_answer="unanswerable")
    assert figures(result) == naive()
    assert (result.data_quality.n_users, result.data_quality.n_no_answer) == (23, 4)
    declared = everyone.where("unanswerable").select("user")
    by_table = evaluate(rows, None, METRICS, score="score", relevance="label", no_answer=declared, on_invalid="drop")
    assert figures(by_table) == naive()
    assert any("labels are in the same rows" in words for words in result.plan)


def test_a_row_of_arrays_says_whether_it_has_an_answer(spark):
    rows = [(["a", "b"], ["b"], None), ([], [], True), (["a"], [], True), (["a"], ["c"], False)]
    table = spark.createDataFrame(rows, "prediction array<string>, label array<string>, none boolean")
    result = evaluate(
        table, None, ["abstention", "rr(no_answer='empty_is_right')"], no_answer="none", user=None, ci=None
    )
    assert figures(result) == {"abstention": (0.5, 2), "rr(no_answer='empty_is_right')": (0.375, 4)}
    with pytest.raises(InputError, match="a table no_answer cannot be combined with one table"):
        evaluate(table.selectExpr("1 as user", "*"), None, "abstention", no_answer=table.selectExpr("1 as user"))


def test_a_relevant_label_contradicts_and_a_null_user_is_a_bad_row(tables, spark):
    predictions, _, labels, _ = tables
    declared = spark.createDataFrame([(1,), (2,), (6,), (None,)], "user long")
    call = {"score": "score", "no_answer": declared}
    with pytest.raises(DataError) as error:
        evaluate(predictions, labels, "abstention", **call)
    assert error.value.counts == {"n_invalid_labels": 1, "n_conflicting_answers": 2}
    assert "declared to have no answer who have a relevant label: 2 (for example user=" in str(error.value)
    assert "null user (user) in the table no_answer: 1" in str(error.value)
    result = evaluate(predictions, labels, ["abstention", "rr"], on_invalid="drop", **call)
    assert figures(result)["abstention"] == (0.0, 1)
    assert result.data_quality.n_conflicting_answers == 2
    assert "2 declared to have no answer, in spite of a relevant label" in str(result)
    assert [row["reason"] for row in quarantine(predictions, labels, "rr", **call).collect()] == [
        "null user (user) in the table no_answer"
    ]


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ("country", "must be a column of booleans; it is string"),
        ("unanswered", "no table has the column 'unanswered'"),
        (3, "no_answer must be a table; got a int"),
    ],
)
def test_what_declares_nothing_is_refused(tables, declared, words):
    predictions, _, labels, everyone = tables
    with pytest.raises(InputError, match=words):
        evaluate(predictions, labels, "abstention", score="score", users=everyone, no_answer=declared)


def test_the_area_of_the_abstention_curve_is_that_of_mteb(spark):
    rng, n = np.random.default_rng(1), 25
    confidence, values = rng.permutation(n) / 7, rng.choice([0.0, 0.25, 1 / 3, 1.0], n)
    rows = [(float(one), float(other)) for one, other in zip(confidence, values, strict=True)] + [
        (1.0, math.nan),
        (None, 1.0),
    ]
    table = spark.createDataFrame(rows, "sure double, `ndcg of mine` double")
    curve = abstention_curve(table, "ndcg of mine", confidence="sure")
    assert (curve.n_users, curve.n_left_out) == (n, 2)
    np.testing.assert_allclose([curve.area, curve.normalised_area], nauc(confidence, values), rtol=1e-12, atol=1e-12)


def test_equal_confidence_gives_the_mean_over_all_orders_and_models_are_named(tables):
    old, new, labels, _ = tables
    users = score_users({"old": old, "new": new}, labels, ["rr", "confidence@1"], score="score").withColumn(
        "same", F.lit(1.0)
    )
    curve = abstention_curve(users, "rr", confidence="same", model="new")
    mean, n_users = naive(1)["rr"]
    assert [row.mean for row in curve.rows] == [pytest.approx(mean.expected, abs=1e-12)] * 10
    assert curve.n_users == n_users
    assert curve.normalised_area == pytest.approx(0, abs=1e-12)
    for wrong, words in (({}, "model must be one of 'old', 'new'"), ({"model": "x"}, "got 'x'")):
        with pytest.raises(InputError, match=words):
            abstention_curve(users, "rr", confidence="same", **wrong)
    with pytest.raises(InputError, match="the table has no such metric or column"):
        abstention_curve(users, "ndcg", confidence="same", model="old")
