"""Rows that cannot be ranked, by what a dialect or a table of arrays makes of them; test_bad_input_table.py has all the others."""

import math
import re

import pytest
from helpers.effort import part_of
from pyspark.sql import functions as F

from spark_rankeval import evaluate, score_users
from spark_rankeval.errors import DataError, DialectError

NAN = float("nan")
PREDICTIONS = [("a", "x", 3.0), ("a", "y", 2.0), ("a", "z", 1.0), ("b", "x", 1.0)]
LABELS = [("a", "y", 1.0), ("b", "x", 2.0)]


def predictions(spark, *more):
    return spark.createDataFrame([*PREDICTIONS, *more], "user string, item string, score double")


def labels(spark, *more):
    return spark.createDataFrame([*LABELS, *more], "user string, item string, grade double")


@pytest.mark.parametrize("arrays", part_of([False, True], 2))
def test_a_dialect_may_take_negative_grades_and_still_no_nan(spark, arrays):
    """The item before the liked one is not liked by `zero`; `negative` has not judged it."""
    users = ("zero", "negative")
    listed = [(user, item, score) for user in users for item, score in (("x", 3.0), ("y", 2.0))]
    mine = spark.createDataFrame(listed, "user string, item string, score double")
    grades = [*((user, "y", 1.0) for user in users), ("zero", "x", 0.0), ("negative", "x", -1.0)]
    options = {"score": "score", "relevance": "grade", "dialect": "trec_eval"}

    def given(*more):
        theirs = spark.createDataFrame([*grades, *more], "user string, item string, grade double")
        if arrays:
            theirs = theirs.groupBy("user").agg(F.collect_list(F.struct("item", "grade")).alias("item"))
        return theirs

    values = score_users(mine, given(), "bpref", **options).select("user", "bpref").collect()
    assert {row["user"]: row["bpref"] for row in values} == {"zero": 0.0, "negative": 1.0}
    with pytest.raises(DataError, match="NaN relevance"):
        evaluate(mine, given(("zero", "z", NAN)), "bpref", **options)


def test_a_null_in_an_ordered_array_is_an_error_where_it_is_read(spark):
    """At the places 0 and 4 of lists that are read up to the fifth, and at 49, where nothing looks."""
    lists = [([*range(place), None, *range(place, 50)], [7]) for place in (0, 4, 49)]
    table, beyond = (
        spark.createDataFrame(one, "prediction array<long>, label array<long>") for one in (lists, lists[2:])
    )
    for prune, n in (("auto", 2), ("never", 3)):
        with pytest.raises(DataError, match="null prediction item: ") as caught:
            evaluate(table, None, "precision@5", prune=prune)
        assert caught.value.counts == {"n_invalid_predictions": n}
    result = evaluate(beyond, None, "precision@5")
    assert "duplicates and nulls further down are not counted" in result.explain()
    assert result.data_quality.n_predictions == 51
    without = evaluate(table, None, ["precision@5", "rr"], on_invalid="drop")
    assert without.data_quality.n_invalid_predictions == 3
    assert without["rr"] == pytest.approx(1 / 8)


def test_a_null_item_takes_a_rank_in_mllib(spark):
    table = spark.createDataFrame([([None, 1], [1])], "prediction array<long>, label array<long>")
    result = evaluate(table, None, ["precision@2", "ap", "ndcg@2"], dialect="mllib")
    assert [row.mean for row in result.summary] == pytest.approx([0.5, 0.5, 1 / math.log2(3)], abs=1e-12)


def test_graded_rows_in_mllib_are_a_named_error(spark):
    with pytest.raises(DialectError, match=r"depends on the order of a user's labels.*ndcg\(ideal='labels'\)"):
        evaluate(predictions(spark), labels(spark), "ndcg@2", score="score", relevance="grade", dialect="mllib")


def test_a_nan_grade_in_mllib_makes_the_mean_nan(spark):
    table = spark.createDataFrame(
        [([1, 2], [1, 2], [NAN, 2.0]), ([1], [1], [1.0])],
        "prediction array<long>, label array<long>, grade array<double>",
    )
    result = evaluate(table, None, ["ndcg@2", "precision@2"], relevance="grade", dialect="mllib")
    assert math.isnan(result["ndcg@2"])
    assert result["precision@2"] == 0.75


def test_a_null_user_in_one_table_of_arrays_is_counted(spark):
    table = spark.createDataFrame(
        [("a", ["x"], ["x"]), (None, ["x"], ["y"])], "user string, prediction array<string>, label array<string>"
    )
    with pytest.raises(DataError, match="null user") as caught:
        evaluate(table, None, "rr")
    assert caught.value.counts == {"n_invalid_predictions": 1, "n_invalid_labels": 1}
    dropped = evaluate(table, None, "rr", on_invalid="drop")
    assert (dropped.data_quality.n_users, dropped["rr"]) == (1, 1.0)


def test_a_null_user_in_the_table_of_users_is_counted(spark):
    users = spark.createDataFrame([("a",), ("zz",), (None,)], "user string")
    with pytest.raises(DataError, match=r"null user \(user\) in the table of users: 1"):
        evaluate(predictions(spark), labels(spark), "rr", score="score", users=users)
    dropped = evaluate(predictions(spark), labels(spark), "rr", score="score", users=users, on_invalid="drop")
    assert dropped.data_quality.n_users == 3


def test_users_are_counted_also_where_both_sides_are_the_same_table(spark):
    table = spark.createDataFrame([("a", ["x"], ["x"])], "user string, prediction array<string>, label array<string>")
    users = spark.createDataFrame([("zz",)], "user string")
    result = evaluate(table, table, "rr", item=("prediction", "label"), users=users)
    assert result.data_quality.n_users == 2


def test_conflicting_rows_have_no_last_label_in_mllib(spark):
    rows = spark.createDataFrame([("a", "x", 5.0), ("a", "x", 1.0)], "user string, item string, grade double")
    with pytest.raises(DataError, match="with another grade: 1"):
        evaluate(predictions(spark), rows, "precision@1", score="score", relevance="grade", dialect="mllib")


READ = r"the columns that are read; dropDuplicates\(\['user', 'item', 'score'\]\)"
MANY = ", ".join(f"more_{index} int" for index in range(31))
#: Rows of user, item, score and further columns, and what the error says of why an item is there twice.
CAUSES = {
    "a column of models": ("run string", [("a", "x", 3.0, "old"), ("a", "x", 2.0, "new")], "'run' tells .*pass model='run'"),
    "a column of models with equal scores": ("run string", [("a", "x", 3.0, "old"), ("a", "x", 3.0, "new")], "'run' tells"),
    "a column of few values": ("week int", [("a", "x", 3.0, 1), ("a", "x", 2.0, 2)], "'week' tells .*keep one of its values"),
    "a table read twice": ("week int", [("a", "x", 3.0, 1)] * 2, "equal in all columns.*dropDuplicates"),
    "a map": ("about map<string,int>", [("a", "x", 3.0, {"k": 1})] * 2, f"equal in {READ}"),
    "more columns than are compared": (MANY, [("a", "x", 3.0, *range(31))] * 2, f"equal in {READ}"),
    "a join": ("genre string", [("a", "x", 3.0, "u"), ("a", "x", 3.0, "v")], "equal but for 'genre', as after a join"),
    "no cause": ("week int", [("a", "x", 3.0, 1), ("a", "x", 2.0, 1)], None),
}  # fmt: skip


@pytest.mark.parametrize("case", part_of(list(CAUSES), 3))
def test_the_error_of_repeated_items_names_the_likely_cause_first(spark, case):
    column, rows, words = CAUSES[case]
    table = spark.createDataFrame(
        [*rows, ("b", "x", 1.0, *rows[0][3:])], f"user string, item string, score double, {column}"
    )
    with pytest.raises(DataError) as caught:
        evaluate(table, labels(spark), "rr", score="score")
    message = str(caught.value)
    assert caught.value.counts == {"n_duplicate_predictions": 1}
    assert "user='a', item='x' 2 times, with scores" in message
    if words is None:
        assert "). Fix the data, or pass on_invalid='drop'" in message
    else:
        assert re.search(rf"\. .*{words}.*\. Otherwise fix the data, or pass on_invalid='drop'", message)


def test_the_same_for_conflicting_labels_and_arrays(spark):
    rated = spark.createDataFrame(
        [("a", "y", 1.0, "ann"), ("a", "y", 2.0, "bob")], "user string, item string, grade double, judge string"
    )
    with pytest.raises(
        DataError, match=r"The column 'judge' tells these rows apart; keep one of its values. Otherwise"
    ):
        evaluate(predictions(spark), rated, "rr", score="score", relevance="grade")
    lists = [("a", ["x", "y"], "old"), ("a", ["y", "x"], "new")]
    listed = spark.createDataFrame(lists, "user string, item array<string>, model string")
    with pytest.raises(DataError, match="pass model='model' if it names models or runs"):
        evaluate(listed, labels(spark), "rr")
