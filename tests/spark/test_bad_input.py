"""Rows that cannot be ranked are never ranked or dropped in silence."""

import math
from contextlib import nullcontext

import pytest
from pyspark.sql import functions as F

from spark_rankeval import evaluate, score_users, summarise
from spark_rankeval.errors import DataError, DialectError, SparkRankEvalError

NAN = float("nan")
PREDICTIONS = [("a", "x", 3.0), ("a", "y", 2.0), ("a", "z", 1.0), ("b", "x", 1.0)]
LABELS = [("a", "y", 1.0), ("b", "x", 2.0)]
METRICS = ["precision@2", "ndcg@2", "rr"]


def predictions(spark, *more):
    return spark.createDataFrame([*PREDICTIONS, *more], "user string, item string, score double")


def labels(spark, *more):
    return spark.createDataFrame([*LABELS, *more], "user string, item string, grade double")


def clean(spark, **options):
    return evaluate(predictions(spark), labels(spark), METRICS, score="score", relevance="grade", **options)


BAD_PREDICTIONS = {
    "null user": ((None, "x", 1.0), "null user"),
    "null item": (("a", None, 9.0), "null prediction item"),
    "null score": (("a", "q", None), "null score"),
    "NaN score": (("a", "q", NAN), "NaN score"),
}
BAD_LABELS = {
    "null user": ((None, "x", 1.0), "null user"),
    "null item": (("a", None, 1.0), "null label item"),
    "null relevance": (("a", "q", None), "null relevance"),
    "NaN relevance": (("a", "q", NAN), "NaN relevance"),
    "negative relevance": (("a", "q", -1.0), "negative relevance"),
}


@pytest.mark.parametrize("prune", ["auto", "never"])
@pytest.mark.parametrize("case", BAD_PREDICTIONS)
def test_bad_predictions_are_counted_then_an_error(spark, case, prune):
    row, reason = BAD_PREDICTIONS[case]
    metrics = METRICS[:2] if prune == "auto" else METRICS
    bad = predictions(spark, row, row)
    with pytest.raises(
        DataError, match=rf"predictions that cannot be ranked: 2 \({reason}.*: 2, for example"
    ) as caught:
        evaluate(bad, labels(spark), metrics, score="score", relevance="grade", prune=prune)
    assert caught.value.counts == {"n_invalid_predictions": 2}
    assert "on_invalid='drop'" in str(caught.value)
    dropped = evaluate(bad, labels(spark), metrics, score="score", relevance="grade", prune=prune, on_invalid="drop")
    assert [row.mean for row in dropped.summary] == [clean(spark)[metric] for metric in metrics]
    assert dropped.data_quality.n_invalid_predictions == 2
    assert dropped.data_quality.n_users == 2


@pytest.mark.parametrize("case", BAD_LABELS)
def test_bad_labels_are_counted_then_an_error(spark, case):
    row, reason = BAD_LABELS[case]
    bad = labels(spark, row)
    with pytest.raises(DataError, match=rf"labels that cannot be used: 1 \({reason}.*: 1, for example"):
        evaluate(predictions(spark), bad, METRICS, score="score", relevance="grade")
    dropped = evaluate(predictions(spark), bad, METRICS, score="score", relevance="grade", on_invalid="drop")
    assert [row.mean for row in dropped.summary] == [row.mean for row in clean(spark).summary]
    assert dropped.data_quality.n_invalid_labels == 1
    assert dropped.data_quality.n_users == 2


@pytest.mark.parametrize(
    ("rank", "reason"), [(None, "null rank"), (-1.0, "negative rank"), (1.5, "fractional rank"), (NAN, "NaN rank")]
)
def test_bad_ranks_are_counted_then_an_error(spark, rank, reason):
    ranked = spark.createDataFrame(
        [("a", "x", 1.0), ("a", "y", 2.0), ("b", "x", rank)], "user string, item string, rank double"
    )
    with pytest.raises(DataError, match=reason):
        evaluate(ranked, labels(spark), METRICS, rank="rank", relevance="grade")


def test_duplicate_predictions_are_an_error_and_the_best_stays_when_dropped(spark):
    bad = predictions(spark, ("a", "y", 9.0), ("b", "x", 0.5))
    with pytest.raises(DataError, match=r"predictions that repeat an item of their user: 2 \(for example user="):
        evaluate(bad, labels(spark), METRICS, score="score", relevance="grade")
    for prune in ("auto", "never"):
        metrics = ["rr@2", "precision@2"]
        dropped = evaluate(
            bad, labels(spark), metrics, score="score", relevance="grade", on_invalid="drop", prune=prune
        )
        assert dropped["rr@2"] == 1.0
        assert dropped.data_quality.n_duplicate_predictions == 2
        assert dropped.data_quality.n_predictions == 4


def test_repeated_labels_of_equal_grade_are_merged_and_counted(spark):
    result = evaluate(
        predictions(spark), labels(spark, ("a", "y", 1.0), ("a", "y", 1.0)), METRICS, score="score", relevance="grade"
    )
    assert result.summary == clean(spark).summary
    assert result.data_quality.n_duplicate_labels == 2
    assert result.data_quality.n_labels == 2


def test_labels_that_conflict_are_an_error_and_the_highest_grade_stays_when_dropped(spark):
    bad = labels(spark, ("a", "y", 3.0), ("a", "x", 1.0))
    with pytest.raises(
        DataError,
        match=r"labels that repeat an item of their user with another grade: 1 .* with relevances \[1.0, 3.0\]",
    ):
        evaluate(predictions(spark), bad, METRICS, score="score", relevance="grade")
    dropped = evaluate(predictions(spark), bad, "ndcg@2", score="score", relevance="grade", on_invalid="drop")
    only_a = (1 + 7 / math.log2(3)) / (7 + 1 / math.log2(3))
    assert dropped["ndcg@2"] == pytest.approx((only_a + 1) / 2, abs=1e-12)
    assert dropped.data_quality.n_conflicting_labels == 1


@pytest.mark.parametrize("arrays", [False, True])
def test_a_dialect_may_take_negative_grades_and_still_no_nan(spark, arrays):
    def evaluated(*more):
        given = labels(spark, *more)
        if arrays:
            given = given.groupBy("user").agg(F.collect_list(F.struct("item", "grade")).alias("item"))
        return evaluate(predictions(spark), given, "bpref", score="score", relevance="grade", dialect="trec_eval")

    assert evaluated(("a", "x", 0.0))["bpref"] == 0.5
    assert evaluated(("a", "x", -1.0))["bpref"] == 1.0
    with pytest.raises(DataError, match="NaN relevance"):
        evaluated(("a", "x", NAN))


def test_all_kinds_are_named_in_one_error(spark):
    bad = predictions(spark, (None, "x", 1.0), ("a", None, 1.0), ("a", "q", NAN), ("a", "x", 0.0))
    with pytest.raises(DataError) as caught:
        evaluate(bad, labels(spark, ("a", "q", -1.0)), METRICS, score="score", relevance="grade")
    assert caught.value.counts == {"n_invalid_predictions": 3, "n_invalid_labels": 1, "n_duplicate_predictions": 1}
    for words in ("null user (user): 1", "null prediction item: 1", "NaN score: 1", "negative relevance: 1"):
        assert words in str(caught.value)


def test_rows_in_are_rows_ranked_and_rows_reported(spark):
    more = [(None, "x", 1.0), ("a", None, 9.0), ("c", "q", NAN), ("a", "x", 0.5), ("b", "x", 0.5), ("b", "w", 0.5)]
    quality = evaluate(predictions(spark, *more), labels(spark), "rr", score="score", on_invalid="drop").data_quality
    ranked, invalid, again = quality.n_predictions, quality.n_invalid_predictions, quality.n_duplicate_predictions
    assert (ranked, invalid, again) == (5, 3, 2)
    assert ranked + invalid + again == len(PREDICTIONS) + len(more)


def test_a_user_with_invalid_rows_alone_is_still_counted(spark):
    result = evaluate(predictions(spark, ("c", None, 1.0)), labels(spark), "rr", score="score", on_invalid="drop")
    assert result.data_quality.n_users == 3
    assert result.data_quality.n_without_relevant == 1


def test_score_users_counts_and_summarise_raises(spark):
    bad = predictions(spark, (None, "x", 1.0), ("a", "x", 0.5))
    table = score_users(bad, labels(spark), METRICS, score="score", relevance="grade")
    assert table.agg(F.sum("n_invalid_predictions")).first()[0] == 1
    with pytest.raises(DataError) as caught:
        summarise(table)
    assert caught.value.counts == {"n_invalid_predictions": 1, "n_duplicate_predictions": 1}
    told = score_users(bad, labels(spark), METRICS, score="score", relevance="grade", on_invalid="drop")
    assert summarise(told).data_quality.n_users == 2
    assert summarise(told).per_user.where("user is null").count() == 0


ARRAYS = "user long, items array<long>, scores array<double>"


@pytest.mark.parametrize(
    ("row", "reason", "n"),
    [
        ((2, None, [0.5]), "null array of predictions", 1),
        ((2, [1], None), "null array of predictions", 1),
        ((2, [1, None], [0.5, 0.4]), "null prediction item", 1),
        ((2, [1, 2], [0.5, None]), "null score", 1),
        ((2, [1, 2], [0.5, NAN]), "NaN score", 1),
        ((2, [1, 2, 3], [0.5]), "unequal lengths of items and scores", 1),
        ((None, [1, 2], [0.5, 0.4]), "null user", 1),
    ],
)
def test_bad_arrays_are_counted_then_an_error(spark, row, reason, n):
    good = (1, [1, 2], [0.2, 0.9])
    truth = spark.createDataFrame([(1, 1), (2, 1)], "user long, item long")
    bad = spark.createDataFrame([good, row], ARRAYS)
    with pytest.raises(DataError, match=reason) as caught:
        evaluate(bad, truth, "rr", item=("items", "item"), score="scores")
    assert caught.value.counts == {"n_invalid_predictions": n}
    dropped = evaluate(bad, truth, "rr", item=("items", "item"), score="scores", on_invalid="drop")
    assert dropped.data_quality.n_invalid_predictions == n
    assert dropped.per_user.where("user = 1").first()["rr"] == 0.5


@pytest.mark.parametrize("place", [0, 4, 49])
def test_a_null_in_an_ordered_array_is_an_error_where_it_is_read(spark, place):
    items = [*range(place), None, *range(place, 50)]
    table = spark.createDataFrame([(items, [7])], "prediction array<long>, label array<long>")
    read = place < 5
    with pytest.raises(DataError, match="null prediction item: 1") if read else nullcontext():
        result = evaluate(table, None, "precision@5")
        assert "duplicates and nulls further down are not counted" in result.explain()
        assert result.data_quality.n_predictions == 51
    with pytest.raises(DataError, match="null prediction item: 1"):
        evaluate(table, None, "precision@5", prune="never")
    without = evaluate(table, None, ["precision@5", "rr"], on_invalid="drop")
    assert without.data_quality.n_invalid_predictions == 1
    assert without["rr"] == pytest.approx(1 / 8)


def test_a_null_item_takes_a_rank_in_mllib(spark):
    table = spark.createDataFrame([([None, 1], [1])], "prediction array<long>, label array<long>")
    result = evaluate(table, None, ["precision@2", "ap", "ndcg@2"], dialect="mllib")
    assert [row.mean for row in result.summary] == pytest.approx([0.5, 0.5, 1 / math.log2(3)], abs=1e-12)


def test_a_user_in_two_rows_of_a_table_of_arrays_is_an_error(spark):
    twice = spark.createDataFrame([(1, [1]), (1, [2]), (2, [1])], "user long, items array<long>")
    truth = spark.createDataFrame([(1, 1), (2, 1)], "user long, item long")
    with pytest.raises(
        DataError, match=r"predictions that cannot be ranked: 1 \(user in several rows: 1, for example user=1 in 2 rows"
    ):
        evaluate(twice, truth, "rr", item=("items", "item"))


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


def test_nothing_raises_inside_the_plan(spark):
    bad = predictions(spark, (None, None, None), ("a", "y", NAN))
    with pytest.raises(SparkRankEvalError) as caught:
        evaluate(bad, labels(spark), METRICS, score="score", relevance="grade")
    assert "Traceback" not in str(caught.value)
    assert "\n" not in str(caught.value)


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
    with pytest.raises(DataError, match="null user in the table of users: 1"):
        evaluate(predictions(spark), labels(spark), "rr", score="score", users=users)
    dropped = evaluate(predictions(spark), labels(spark), "rr", score="score", users=users, on_invalid="drop")
    assert dropped.data_quality.n_users == 3


def test_users_are_counted_also_where_both_sides_are_the_same_table(spark):
    table = spark.createDataFrame([("a", ["x"], ["x"])], "user string, prediction array<string>, label array<string>")
    users = spark.createDataFrame([("zz",)], "user string")
    result = evaluate(table, table, "rr", item=("prediction", "label"), users=users)
    assert result.data_quality.n_users == 2


@pytest.mark.parametrize(
    ("grade", "metric", "reason"),
    [
        (1024.0, "ndcg@2", "relevance above 1,023"),
        (math.inf, "rr", "infinite relevance"),
    ],
)
def test_grades_that_overflow_are_an_error(spark, grade, metric, reason):
    with pytest.raises(DataError, match=reason):
        evaluate(predictions(spark), labels(spark, ("a", "q", grade)), metric, score="score", relevance="grade")
    assert evaluate(
        predictions(spark), labels(spark, ("a", "q", 1024.0)), "ndcg(gain=linear)@2", score="score", relevance="grade"
    )


def test_an_infinite_rank_is_an_error_of_ours(spark):
    ranked = spark.createDataFrame([("a", "x", 1.0), ("a", "y", math.inf)], "user string, item string, rank double")
    with pytest.raises(DataError, match="infinite rank: 1"):
        evaluate(ranked, labels(spark), METRICS, rank="rank")


def test_conflicting_rows_have_no_last_label_in_mllib(spark):
    rows = spark.createDataFrame([("a", "x", 5.0), ("a", "x", 1.0)], "user string, item string, grade double")
    with pytest.raises(DataError, match="with another grade: 1"):
        evaluate(predictions(spark), rows, "precision@1", score="score", relevance="grade", dialect="mllib")


def test_a_grade_above_the_scale_of_a_metric_is_an_error(spark):
    with pytest.raises(DataError, match="relevance above 1, the largest grade of a metric"):
        evaluate(predictions(spark), labels(spark), "err@2", score="score", relevance="grade")
    assert (
        evaluate(predictions(spark), labels(spark), "err(max_grade=2)@2", score="score", relevance="grade")["err@2"] > 0
    )
