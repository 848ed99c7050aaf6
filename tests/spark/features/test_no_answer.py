"""Users whose right answer is nothing: however they are declared, with models, slices, comparisons."""

import math

import numpy as np
import pytest
from pyspark.sql import functions as F

from spark_rankeval import Facts, compare, evaluate, quarantine
from spark_rankeval.errors import DataError, InputError

FORGIVING, CONFIDENCE = "rr(no_answer='empty_is_right')", "confidence(kind='diff1')@2"
METRICS = ["abstention", "false_alarm", "false_abstention", FORGIVING, "rr", CONFIDENCE]
N = 24


def list_of(user, model=0):
    """A user's list of items and scores; every fourth list is empty."""
    places = range(0 if user % 4 == model else 3)
    return [(f"i{(user + place) % 7}", (user * 5 + place * 3) % 11 / 10) for place in places]


def label_of(user):
    """The item that a user wants; None: it has no label."""
    return f"i{(user + 1) % 7}" if user % 3 else None


def has_no_answer(user):
    return user % 6 == 0


@pytest.fixture(scope="module")
def tables(spark):
    """Predictions of two models, labels, and the users; some of those without an answer are in no other table."""
    users = range(N)
    lists = [[(user, *pair) for user in users if user < N - 6 for pair in list_of(user, model)] for model in (0, 1)]
    labels = [(user, label_of(user)) for user in users if label_of(user)]
    everyone = [(user, "at" if user % 2 else "de", has_no_answer(user) or None) for user in users]
    return (
        *(spark.createDataFrame(rows, "user long, item string, score double") for rows in lists),
        spark.createDataFrame(labels, "user long, item string"),
        spark.createDataFrame(everyone, "user int, country string, unanswerable boolean"),
    )


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
            values[FORGIVING].append(float(not items) if has_no_answer(user) else rr)
        if items:
            values[CONFIDENCE].append(ranked[0][1] - ranked[1][1])
    return {name: (pytest.approx(np.mean(of_users), abs=1e-12), len(of_users)) for name, of_users in values.items()}


def figures(result, **wanted):
    rows = [row for row in result.summary if all(getattr(row, name) == value for name, value in wanted.items())]
    return {row.metric: (row.mean, row.n_users) for row in rows}


def ways(tables):
    """Ways to declare that the same users have no answer: predictions, labels and options."""
    predictions, _, labels, everyone = tables
    declared, graded = everyone.where("unanswerable"), labels.withColumn("label", F.lit(1))
    rows = declared.crossJoin(labels.limit(1).select("item")).withColumn("label", F.lit(0))
    spoken = graded.join(everyone, "user", "left").unionByName(rows)
    # Users without a row of either side have one that says only that they have no answer.
    long = predictions.join(graded, ["user", "item"], "full").join(everyone, "user", "full")
    long = long.where("item is not null or unanswerable")
    table, users = {"no_answer": declared.select("user")}, everyone.select("user", "country")
    return {
        "a table": (predictions, labels, table),
        "a column of users": (predictions, labels, {"users": everyone}),
        "a column of attributes": (predictions, labels, {"facts": Facts(attributes=everyone), "by": "country"}),
        "rows of labels": (predictions, spoken, {"relevance": "label"}),
        "rows of labels beside users": (predictions, spoken, {"relevance": "label", "users": users}),
        "rows of labels beside attributes": (
            predictions, spoken, {"relevance": "label", "facts": Facts(attributes=users), "by": "country"}
        ),
        "a long table": (long, None, {"relevance": "label"}),
        "a table beside a long table": (long, None, {"relevance": "label", "on_invalid": "drop", **table}),
    }  # fmt: skip


def test_each_way_to_declare_users_gives_the_naive_figures(tables):
    for way, (predictions, labels, options) in ways(tables).items():
        result = evaluate(predictions, labels, METRICS, **{"score": "score", "no_answer": "unanswerable"} | options)
        assert figures(result, slice="all") == naive(), way
        assert (result.data_quality.n_no_answer, result.data_quality.n_conflicting_answers) == (4, 0), way
        if "users" not in options:
            assert result.data_quality.n_users == 23, way
        if way == "a table":
            assert "of the 7 without a relevant label 4 have no answer, and 3 may have one" in str(result)


def test_a_mean_over_all_users_and_predictions_that_declare_users(tables):
    predictions, _, labels, everyone = tables
    declared = everyone.where("unanswerable").select("user")
    # MLlib's mean is over all users, and one undefined value makes it undefined; these users are not meant.
    mllib = evaluate(predictions, labels, "recall@1", score="score", no_answer=declared, dialect="mllib", ci=None)
    first = [max(list_of(user), key=lambda pair: pair[1], default=(None,))[0] for user in range(N - 6)]
    n_hits = sum(item == label_of(user) for user, item in enumerate(first) if item is not None)
    assert figures(mllib)["recall@1"] == (pytest.approx(n_hits / 19, abs=1e-12), 19)
    of_predictions = predictions.join(everyone, "user")
    seen = evaluate(of_predictions, labels, METRICS, score="score", no_answer="unanswerable", users=declared)
    # Only users with a prediction have a row that declares them.
    assert figures(seen)["false_alarm"] == (1.0, 1)


def test_models_slices_and_comparisons_know_who_has_no_answer(tables):
    old, new, labels, everyone = tables
    options = {"score": "score", "users": everyone, "no_answer": "unanswerable", "by": "country"}
    result = evaluate({"old": old, "new": new}, labels, METRICS, **options)
    for model, name in enumerate(["old", "new"]):
        assert figures(result, slice="all", model=name) == naive(model)
    assert figures(result, slice="country=at", model="old")["abstention"] == (pytest.approx(math.nan, nan_ok=True), 0)
    assert figures(result, slice="country=de", model="old")["abstention"] == naive()["abstention"]
    assert result.data_quality.n_no_answer == 4
    (row,) = compare(result, baseline="old", metrics="abstention")
    assert (row.n_users, row.baseline_mean) == (4, naive()["abstention"][0])


def test_a_row_of_arrays_says_whether_it_has_an_answer(spark):
    rows = [(["a", "b"], ["b"], None), ([], [], True), (["a"], [], True), (["a"], ["c"], False)]
    table = spark.createDataFrame(rows, "prediction array<string>, label array<string>, none boolean")
    result = evaluate(table, None, ["abstention", FORGIVING], no_answer="none", user=None, ci=None)
    assert figures(result) == {"abstention": (0.5, 2), FORGIVING: (0.375, 4)}
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


REFUSED = {
    "country": "must be a column of booleans; it is string",
    "unanswered": "no table has the column 'unanswered'",
    3: "no_answer must be a table; got a int",
}


@pytest.mark.parametrize("declared", REFUSED)
def test_what_declares_nothing_is_refused(tables, declared):
    predictions, _, labels, everyone = tables
    with pytest.raises(InputError, match=REFUSED[declared]):
        evaluate(predictions, labels, "abstention", score="score", users=everyone, no_answer=declared)


@pytest.fixture(scope="module")
def few_users(spark):
    """User 1 is answered, user 2 is not; of users 3 to 5, who have no answer, user 3 gets a list. User 6 has no label."""
    predictions = spark.createDataFrame(
        [(1, "a", 0.9), (1, "b", 0.8), (3, "a", 0.7), (6, "a", 0.7)], "user int, item string, score double"
    )
    labels = spark.createDataFrame([(1, "b"), (2, "a")], "user int, item string")
    return predictions, labels, spark.createDataFrame([(3,), (4,), (5,)], "user int")


@pytest.mark.parametrize(
    ("options", "rr", "n_left_out"),
    [
        # User 1 has 1/2, user 2 has 0, users 3 to 5 have 0, 1 and 1.
        ({"population": "every"}, (2.5 / 5, 5), 0),
        ({"population": "labelled"}, (2.5 / 5, 5), 1),
        ({"population": "predicted"}, (2.5 / 4, 4), 1),
        ({"population": "both"}, (2.5 / 4, 4), 2),
        ({"dialect": "trec_eval"}, (2.5 / 5, 5), 1),
    ],
)
def test_users_without_an_answer_count_in_every_population(few_users, options, rr, n_left_out):
    predictions, labels, declared = few_users
    result = evaluate(
        predictions, labels, "rr(no_answer='empty_is_right')", score="score", no_answer=declared, ci=None, **options
    )
    (row,) = result.summary
    assert (row.mean, row.n_users) == (pytest.approx(rr[0]), rr[1])
    assert (result.data_quality.n_left_out, result.data_quality.n_no_answer) == (n_left_out, 3)
