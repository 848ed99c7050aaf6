"""The table of bad input in docs/bad_data.md, a class a row: ``pytest tests/spark/test_bad_input_table.py -k TestTies``."""

import itertools
import math
import re
import warnings
from collections import Counter
from contextlib import nullcontext
from functools import partial
from typing import ClassVar

import pytest
from helpers.effort import part_of
from pyspark.sql import functions as F

from spark_rankeval import Facts, audit, evaluate, quarantine, score_users, summarise
from spark_rankeval.errors import DataError, InputError, OptionError, SparkRankEvalWarning
from spark_rankeval.splits import by_time

NAN, INF = math.nan, math.inf
GOOD = [("a", "x", 3.0), ("a", "y", 2.0), ("a", "z", 1.0), ("b", "x", 1.0)]
LIKED = [("a", "y", 1.0), ("b", "x", 2.0)]
CUT, WHOLE = ["precision@2", "ndcg@2", "cg@2"], ["rr", "ndcg@2", "cg@2"]
COLUMNS = {"score": "score", "relevance": "grade"}
# What the tables hold of a user beside the predictions x, y and z and the label y: further predictions, and further labels.
LISTED, LIKED_ITEM = [("x", 3.0), ("y", 2.0), ("z", 1.0)], [("y", 1.0)]
MORE = {
    "nothing": ([], []),
    # As many as would fill all that pruning keeps.
    "null item": ([(None, 9.0)] * 12, [(None, 1.0)]),
    "null score": ([("w", None)], []),
    # It would be the best of all to Spark.
    "NaN score": ([("w", NAN)], []),
    "repeated predictions": ([("z", 9.0), ("x", 0.5), ("x", 0.25)], []),
    "equal labels": ([], [("y", 1.0)] * 2),
    "conflicting labels": ([], [("y", 3.0), ("y", 3.0), ("y", 0.0)]),
    "null grade": ([], [("w", None)]),
    "NaN grade": ([], [("w", NAN)]),
    "negative grades": ([], [("w", -1.0), ("v", -INF)]),
    "grade above 992": ([], [("w", 1024.0)]),
}
# And the users who have nothing else.
ALONE = {"invalid rows alone": ([(None, 9.0)], []), None: ([("x", 9.0), (None, None)], [("y", 1.0)])}
COUNTS = {
    "n_invalid_predictions": 17, "n_invalid_labels": 7, "n_duplicate_predictions": 3, "n_conflicting_labels": 2
}  # fmt: skip


def predictions(spark, *more):
    return spark.createDataFrame([*GOOD, *more], "user string, item string, score double")


def labels(spark, *more):
    return spark.createDataFrame([*LIKED, *more], "user string, item string, grade double")


def refused(call, **counts):
    with pytest.raises(DataError) as caught:
        call()
    assert caught.value.counts == counts
    assert "\n" not in str(caught.value)
    assert "Traceback" not in str(caught.value)
    return str(caught.value)


def rows(frame, *names):
    return sorted((tuple(row[name] for name in names) for row in frame.collect()), key=repr)


def accounted(quality):
    """How many rows of predictions and of labels the counts speak of."""
    return (
        quality.n_predictions + quality.n_excluded + quality.n_invalid_predictions + quality.n_duplicate_predictions,
        quality.n_labels + quality.n_invalid_labels + quality.n_duplicate_labels + quality.n_conflicting_labels,
    )


@pytest.fixture(scope="module")
def tables(spark):
    """All kinds of bad rows, each of a user of its name."""
    all_users = {user: (LISTED + listed, LIKED_ITEM + liked) for user, (listed, liked) in MORE.items()} | ALONE
    rows_of = [[(user, *pair) for user, sides in all_users.items() for pair in sides[side]] for side in (0, 1)]
    return (
        spark.createDataFrame(rows_of[0], "user string, item string, score double"),
        spark.createDataFrame(rows_of[1], "user string, item string, grade double"),
    )


class Evaluated:
    """What an evaluation of `tables` refuses, and what it has of each user where bad rows are left out."""

    def __init__(self, tables, metrics):
        self.metrics = metrics
        self.refusal = refused(lambda: evaluate(*tables, metrics, **COLUMNS), **COUNTS)
        self.result = evaluate(*tables, metrics, on_invalid="quarantine", **COLUMNS)
        self.users = {row["user"]: row for row in self.result.per_user.collect()}
        self.rejected = self.result.quarantine.collect()

    def values(self, user):
        return [self.users[user][self.result.columns[metric]] for metric in self.metrics]

    def counts(self, user):
        """How many rows of a user were left out, by kind."""
        row = self.users[user].asDict()
        return {
            name: row[name]
            for name in (*COUNTS, "n_duplicate_labels", "n_negative_grades", "n_infinite_scores")
            if row[name]
        }

    def quarantined(self, user):
        of_user = [row for row in self.rejected if row["user"] == user]
        return sorted(
            ((row["table"], row["item"], row["score"], row["grade"], row["reason"]) for row in of_user), key=repr
        )


# Of whole lists the fuzz and the test of every plan below see by day what is left out.
PLANS = pytest.mark.parametrize("metrics", part_of([CUT, WHOLE], 2), ids=part_of(["pruned", "whole"], 2))


@pytest.fixture(scope="module", params=part_of([CUT, WHOLE], 2), ids=part_of(["pruned", "whole"], 2))
def evaluated(tables, request):
    return Evaluated(tables, request.param)


class TestNullUserNullItem:
    def test_error_with_counts_and_an_example(self, evaluated):
        for words in (
            "predictions that cannot be ranked: 17 (",
            "labels that cannot be used: 7 (",
            "null user (user): 2, for example user=None, item=",
            "null user (user): 1, for example user=None, item='y', relevance=1.0",
            "null prediction item: 13, for example user='",
            "null label item: 1, for example user='null item', item=None, relevance=1.0",
            "on_invalid='drop'",
        ):
            assert words in evaluated.refusal

    def test_drop_and_quarantine_evaluate_the_rest(self, evaluated):
        assert evaluated.values("null item") == evaluated.values("nothing")
        assert evaluated.counts("null item") == {"n_invalid_predictions": 12, "n_invalid_labels": 1}
        assert evaluated.quarantined("null item") == [
            ("labels", None, None, 1.0, "null label item"),
            *[("predictions", None, 9.0, None, "null prediction item")] * 12,
        ]
        assert evaluated.result.quarantine.columns == ["table", "user", "item", "score", "grade", "reason"]
        assert evaluated.quarantined(None) == [
            ("labels", "y", None, 1.0, "null user (user)"),
            ("predictions", "x", 9.0, None, "null user (user)"),
            ("predictions", None, None, None, "null user (user)"),
        ]

    def test_nobody_is_no_user_and_somebody_with_invalid_rows_alone_is(self, evaluated):
        quality = evaluated.result.data_quality
        assert set(evaluated.users) == {*MORE, "invalid rows alone"}
        assert (quality.n_users, quality.n_without_predictions, quality.n_without_relevant) == (len(MORE) + 1, 1, 1)
        for row in evaluated.result.summary:
            values = [user[evaluated.result.columns[row.key]] for user in evaluated.users.values()]
            defined = [value for value in values if not math.isnan(value)]
            assert (row.n_users, row.n_undefined) == (len(defined), 1)
            assert row.mean == pytest.approx(sum(defined) / len(MORE), rel=1e-12)

    def test_rows_in_are_rows_ranked_and_rows_reported(self, evaluated):
        """Of every user, and of all together with those of nobody."""
        for user, (listed, liked) in MORE.items():
            assert accounted(evaluated.users[user]) == (len(LISTED) + len(listed), 1 + len(liked)), user
        n_rows = [sum(len(sides[side]) for sides in (MORE | ALONE).values()) for side in (0, 1)]
        expected = n_rows[0] + len(LISTED) * len(MORE), n_rows[1] + len(MORE)
        assert accounted(evaluated.result.data_quality) == expected

    def test_a_table_of_users_keeps_the_counts(self, tables, evaluated):
        refused(lambda: summarise(score_users(*tables, evaluated.metrics, **COLUMNS)), **COUNTS)
        dropped = summarise(score_users(*tables, evaluated.metrics, on_invalid="drop", **COLUMNS))
        assert dropped.summary == evaluated.result.summary
        assert dropped.data_quality.to_dict() == evaluated.result.data_quality.to_dict()
        with pytest.raises(InputError, match="does not hold them; use evaluate"):
            _ = dropped.quarantine

    def test_the_quarantine_is_lazy_alone(self, tables, evaluated, jobs_of):
        frames = []
        assert jobs_of(lambda: frames.append(quarantine(*tables, evaluated.metrics, **COLUMNS))) == 0
        assert sorted(map(repr, frames[0].collect())) == sorted(map(repr, evaluated.rejected))
        with pytest.raises(
            OptionError, match=r"there is no option 'scores'; did you mean 'score'\? available: user, item, score"
        ):
            quarantine(*tables, evaluated.metrics, scores="score")

    @pytest.mark.parametrize("arrays", [False, True], ids=["rows", "arrays"])
    def test_a_nan_is_no_item(self, spark, arrays):
        mine = spark.createDataFrame([(1, NAN, 2.0), (1, 5.0, 1.0)], "user int, item double, score double")
        theirs = mine.where("item = 5").drop("score")
        if arrays:
            mine = mine.groupBy("user").agg(F.collect_list(F.struct("item", "score")).alias("item"))
        assert "NaN prediction item: 1" in refused(
            lambda: evaluate(mine, theirs, "rr", score="score"), n_invalid_predictions=1
        )
        assert evaluate(mine, theirs, "rr", score="score", on_invalid="drop")["rr"] == 1.0

    @pytest.mark.parametrize("name", ["table", "Table", "Item", "reason"])
    def test_a_column_with_the_name_of_one_of_the_quarantine_is_an_error_before_any_job(self, spark, jobs_of, name):
        # The columns of items may have any name: the quarantine calls them "item".
        renamed = [
            table.withColumnRenamed("item", "product").withColumnRenamed("user", name)
            for table in (predictions(spark), labels(spark))
        ]
        call = {"metrics": CUT, "user": name, "item": "product", **COLUMNS}

        def refuse():
            with pytest.raises(
                InputError, match=f"would have several columns named .*'{name}'.*; rename the column of the data"
            ):
                quarantine(*renamed, **call)
            with pytest.raises(InputError, match="several columns named"):
                evaluate(*renamed, on_invalid="quarantine", **call)

        assert jobs_of(refuse) == 0


class TestRoundedIds:
    """From 2^53 on doubles lack whole numbers, and from 2^24 on floats: two ids may have become one."""

    TYPES = pytest.mark.parametrize(("kind", "bits"), [("double", 53), ("float", 24)])

    @staticmethod
    def tables(spark, kind, bits):
        large, good = 2.0**bits, 2.0**bits - 1
        mine = [
            (good, good, 0.5),
            (large, good, 0.5),
            (large, 1.0, 0.5),
            (good, large, 0.9),
            (good, -large, 0.8),
            (NAN, 1.0, 0.5),
        ]
        theirs = [(good, good), (large, good), (good, 4 * large)]
        return (
            spark.createDataFrame(mine, f"user {kind}, item {kind}, score double"),
            spark.createDataFrame(theirs, f"user {kind}, item {kind}"),
        )

    @TYPES
    def test_error_with_counts_examples_and_advice(self, spark, kind, bits):
        said = refused(
            lambda: evaluate(*self.tables(spark, kind, bits), "rr", score="score"),
            n_invalid_predictions=5,
            n_invalid_labels=2,
        )
        advice = f"of 2^{bits} or more, which a {kind} rounds (read ids as strings or bigint)"
        for words in (
            f"user (user) {advice}: 2, for example user={2.0**bits!r}, item=",
            f"prediction item {advice}: 2, for example user=",
            f"user (user) {advice}: 1, for example",
            f"label item {advice}: 1, for example user={2.0**bits - 1!r}, item={2.0 ** (bits + 2)!r}",
            "NaN user (user): 1",
        ):
            assert words in said

    def test_drop_and_quarantine_evaluate_the_rest_of_rounded_ids(self, spark):
        tables = self.tables(spark, "double", 53)
        result = evaluate(*tables, "rr", score="score", on_invalid="quarantine")
        assert accounted(result.data_quality) == (6, 3)
        assert (result["rr"], result.data_quality.n_users) == (1.0, 1)
        assert Counter(row["table"] for row in result.quarantine.collect()) == {"predictions": 5, "labels": 2}
        dropped = summarise(score_users(*tables, "rr", score="score", on_invalid="drop"))
        assert dropped.data_quality == result.data_quality

    @pytest.mark.parametrize(("kind", "bits", "dialect"), [("double", 53, "mllib"), ("float", 24, "default")])
    def test_entries_of_arrays(self, spark, kind, bits, dialect):
        large = 2.0**bits
        rows = [(1, [large, 5.0], [5.0]), (2, [INF, large - 1], [large - 1, -large]), (3, [], [])]
        table = spark.createDataFrame(rows, f"user int, item array<{kind}>, label array<{kind}>")
        call = {
            "labels": table.select("user", "label"),
            "metrics": "ap@2",
            "item": ("item", "label"),
            "dialect": dialect,
        }
        refused(lambda: evaluate(table, **call), n_invalid_predictions=1, n_invalid_labels=1)
        quality = evaluate(table, **call, on_invalid="drop").data_quality
        assert (quality.n_predictions, quality.n_labels) == (3, 2)

    def test_other_tables(self, spark):
        large = 2.0**53
        mine = spark.createDataFrame([(1.0, 1.0, 0.5), (2.0, 2.0, 0.5)], "user double, item double, score double")
        log = spark.createDataFrame(
            [(1.0, 1.0, 1), (large, 1.0, 1), (1.0, large, 2), (2.0, 2.0, 2)], "user double, item double, day int"
        )
        for table, options, n in (
            ("training", {"metrics": "novelty@1", "facts": Facts(training=log)}, 2),
            ("items", {"metrics": "rr", "facts": Facts(items=log, item_by="day")}, 1),
        ):
            call = {"labels": mine.drop("score"), "score": "score", **options}
            refused(lambda call=call: evaluate(mine, **call), **{f"n_invalid_{table}": n})
        refused(lambda: evaluate(mine, mine.drop("score"), "rr", score="score", users=log), n_invalid_labels=1)
        halves = by_time(log, 2, time="day")
        assert (halves.training.count(), halves.labels.count()) == (1, 1)
        assert set(halves.counts().invalid.values()) == {1}
        with pytest.raises(DataError, match="or an id that floating point rounds: 2 of 4"):
            audit(log, mine, time=None)


class TestNullOrNaNScoreNullOrWrongRank:
    @pytest.mark.parametrize(("user", "shown"), [("null score", "None"), ("NaN score", "nan")])
    def test_scores_are_an_error_and_never_ranked(self, evaluated, user, shown):
        assert f"{user}: 1, for example user='{user}', item='w', score={shown}" in evaluated.refusal
        assert evaluated.values(user) == evaluated.values("nothing")
        assert evaluated.counts(user) == {"n_invalid_predictions": 1}
        assert [(item, reason) for _, item, _, _, reason in evaluated.quarantined(user)] == [("w", user)]

    def test_ranks(self, spark):
        ranks = [
            ("a", "x", 1.0),
            ("a", "y", 2.0),
            ("a", "y", 3.0),
            ("b", "x", None),
            ("b", "y", -1.0),
            ("b", "z", 1.5),
            ("b", "w", NAN),
            ("b", "v", INF),
        ]
        ranked = spark.createDataFrame(ranks, "user string, item string, place double")
        said = refused(
            lambda: evaluate(ranked, labels(spark), CUT, rank="place"),
            n_invalid_predictions=5, n_duplicate_predictions=1,
        )  # fmt: skip
        for reason in ("null rank: 1", "negative rank: 1", "fractional rank: 1", "NaN rank: 1", "infinite rank: 1"):
            assert reason in said
        result = evaluate(ranked, labels(spark), "rr", rank="place", on_invalid="drop")
        quality = result.data_quality
        assert (result["rr"], quality.n_without_predictions, quality.n_invalid_predictions) == (0.25, 1, 5)
        # Of repeated ranks the smallest is the best.
        assert ("y", 3.0, "repeats an item of the user, ranked better") in rows(
            result.quarantine, "item", "place", "reason"
        )


class TestInfiniteScore:
    BAD = (("a", "w", INF), ("b", "w", -INF))

    def test_ranked_counted_and_warned(self, spark):
        for metrics in part_of((CUT, WHOLE), 2):
            with pytest.warns(
                SparkRankEvalWarning, match="2 predictions have an infinite score.*'infinite_scores': 'error'"
            ):
                result = evaluate(predictions(spark, *self.BAD), labels(spark, ("a", "w", 3.0)), metrics, **COLUMNS)
            assert result.data_quality.n_infinite_scores == 2
            assert result.data_quality.n_invalid_predictions == 0
            assert result[metrics[0]] == {"precision@2": 0.5, "rr": 1.0}[metrics[0]]
        table = score_users(predictions(spark, *self.BAD), labels(spark, ("a", "w", 3.0)), "rr", **COLUMNS)
        with pytest.warns(SparkRankEvalWarning, match="infinite"):
            assert summarise(table)["rr"] == 1.0
        with pytest.raises(DataError, match="predictions that cannot be ranked: 2"):
            summarise(table, {"infinite_scores": "error"})

    def test_dropped_ones_are_not_warned_of_in_a_stored_table(self, spark):
        without = score_users(
            predictions(spark, *self.BAD), labels(spark), "rr", on_invalid={"infinite_scores": "drop"}, **COLUMNS
        )
        with warnings.catch_warnings(action="error", category=SparkRankEvalWarning):
            # They are not there, whatever is thought of them now.
            assert summarise(without, {"infinite_scores": "rank"}).data_quality.n_infinite_scores == 2

    @PLANS
    def test_an_error_or_dropped_on_request_whatever_other_rows_are(self, spark, metrics):
        bad = predictions(spark, *self.BAD, ("a", "q", NAN))

        def run(**kinds):
            with warnings.catch_warnings():
                warnings.simplefilter("error", SparkRankEvalWarning)
                return evaluate(bad, labels(spark), metrics, on_invalid=kinds, **COLUMNS)

        said = refused(lambda: run(infinite_scores="error", invalid_predictions="drop"), n_invalid_predictions=2)
        assert "infinite score: 2, for example user=" in said
        assert "NaN" not in said
        said = refused(lambda: run(infinite_scores="drop"), n_invalid_predictions=1)
        assert "NaN score: 1" in said
        assert "infinite score" not in said
        result = run(infinite_scores="drop", invalid_predictions="drop")
        # Of a the second is liked, of b the only one.
        first, of_a = {"precision@2": 0.5, "rr": 0.75}, 1 / math.log2(3)
        assert [row.mean for row in result.summary] == pytest.approx(
            [first[metrics[0]], (of_a + 1) / 2, 1.5], abs=1e-12
        )
        assert (result.data_quality.n_infinite_scores, result.data_quality.n_invalid_predictions) == (2, 3)
        assert accounted(result.data_quality)[0] == 7
        assert rows(result.quarantine, "item", "reason")[0] == ("q", "NaN score")


class TestDuplicatePrediction:
    def test_error_with_counts(self, evaluated):
        words = "predictions that repeat an item of their user: 3 (for example user='repeated predictions', item="
        assert words in evaluated.refusal

    def test_the_best_rank_is_kept_and_the_others_counted(self, evaluated):
        # z moves to the top, and pushes y out of the first two.
        assert evaluated.values("repeated predictions") == [
            {"precision@2": 0.0, "rr": 1 / 3}[evaluated.metrics[0]],
            0,
            0,
        ]
        assert evaluated.counts("repeated predictions") == {"n_duplicate_predictions": 3}
        assert evaluated.quarantined("repeated predictions") == [
            ("predictions", "x", 0.25, None, "repeats an item of the user, ranked better"),
            ("predictions", "x", 0.5, None, "repeats an item of the user, ranked better"),
            ("predictions", "z", 1.0, None, "repeats an item of the user, ranked better"),
        ]

    def test_of_all_kinds_these_alone_may_be_dropped(self, spark):
        bad = predictions(spark, ("a", "z", 9.0), ("b", "x", 0.5), ("b", "x", 0.25))
        given = labels(spark, ("a", "z", 1.0))
        result = evaluate(bad, given, "rr@2", on_invalid={"duplicate_predictions": "drop"}, **COLUMNS)
        assert result["rr@2"] == 1.0
        assert result.data_quality.n_duplicate_predictions == 3
        assert accounted(result.data_quality) == (7, 3)
        assert result.quarantine.count() == 3


class TestDuplicateLabel:
    def test_equal_grades_are_merged_and_counted(self, evaluated):
        assert evaluated.values("equal labels") == evaluated.values("nothing")
        assert evaluated.counts("equal labels") == {"n_duplicate_labels": 2}
        assert evaluated.quarantined("equal labels") == []

    def test_different_grades_are_an_error_or_the_highest_counts(self, evaluated):
        words = (
            "labels that repeat an item of their user with another grade: 2 (for example user='conflicting labels', "
        )
        assert words + "item='y' 4 times, with relevances [0.0, 1.0, 3.0]" in evaluated.refusal
        *others, gain = evaluated.values("conflicting labels")
        assert (others, gain) == (evaluated.values("nothing")[:2], 3.0)
        assert evaluated.counts("conflicting labels") == {"n_duplicate_labels": 1, "n_conflicting_labels": 2}
        reason = "repeats an item of the user with a lower grade"
        assert evaluated.quarantined("conflicting labels") == [
            ("labels", "y", None, 0.0, reason),
            ("labels", "y", None, 1.0, reason),
        ]

    def test_of_all_kinds_these_alone_may_be_dropped(self, spark):
        bad = labels(spark, ("a", "y", 3.0), ("a", "x", 1.0))
        result = evaluate(predictions(spark), bad, "ndcg@2", on_invalid={"conflicting_labels": "drop"}, **COLUMNS)
        of_a = (1 + 7 / math.log2(3)) / (7 + 1 / math.log2(3))
        assert result["ndcg@2"] == pytest.approx((of_a + 1) / 2, abs=1e-12)
        assert result.data_quality.n_conflicting_labels == 1


class TestIdsOfDifferentTypes:
    @pytest.fixture
    def endless(self, spark):
        """A table over which no job would ever end."""
        return spark.range(10**15).select(
            F.col("id").alias("user"), F.col("id").alias("item"), F.lit(0.5).alias("score")
        )

    @pytest.mark.parametrize("column", ["user", "item"])
    @pytest.mark.parametrize(
        ("left", "right"),
        [("string", "bigint"), ("bigint", "double"), ("int", "string"), ("double", "string"), ("float", "int")],
    )
    def test_error_before_any_job_that_says_how(self, endless, column, left, right):
        with pytest.raises(InputError, match=rf"{left}.*{right}.*Cast one of them"):
            evaluate(
                endless.withColumn(column, F.col(column).cast(left)), endless.withColumn(column, F.col(column).cast(right)),
                "rr", score="score",
            )  # fmt: skip

    def test_int_against_long_is_fine_and_so_is_an_explicit_cast(self, spark):
        one = spark.createDataFrame([(1, 7, 0.5)], "user int, item int, score double")
        two = spark.createDataFrame([("1", 7)], "user string, item long")
        assert evaluate(one, two.withColumn("user", F.col("user").cast("long")), "rr", score="score")["rr"] == 1.0
        assert evaluate(one.withColumn("user", F.col("user").cast("string")), two, "rr", score="score")["rr"] == 1.0


class TestTies:
    def test_ordered_by_the_rule_their_share_reported_and_averaged_on_request(self, spark):
        table = spark.createDataFrame(
            [("a", item, 0.5) for item in "xyz"] + [("b", "x", 1.0)], "user string, item string, score double"
        )
        result = evaluate(table, labels(spark), ["rr@3", "rr"], score="score")
        assert result["rr"] == (1 / 2 + 1) / 2
        assert result.data_quality.n_hanging_on_ties == 1
        assert "1 user's values depend on the order of equal scores (50.0%)" in repr(result)
        assert evaluate(table, labels(spark, ("a", "z", 1.0)), "rr", score="score", ties="item_desc")["rr"] == 1.0
        averaged = evaluate(table, labels(spark), "rr", score="score", ties="average")
        assert averaged["rr"] == pytest.approx(((1 + 1 / 2 + 1 / 3) / 3 + 1) / 2)


class TestUsersInOneTableOnly:
    def test_zero_or_undefined_and_excluded_on_request_with_counts(self, spark):
        mine = predictions(spark, ("only predicted", "x", 1.0), ("of grade 0", "x", 1.0))
        theirs = labels(spark, ("only labelled", "x", 1.0), ("of grade 0", "x", 0.0))
        expected = {
            None: (2 / 3, 3, 2),
            "every": (2 / 3, 3, 2),
            "labelled": (2 / 3, 3, 2),
            "predicted": (1.0, 2, 3),
            "both": (1.0, 2, 3),
        }
        left_out = {None: 0, "every": 0, "labelled": 1, "predicted": 1, "both": 2}
        for population, (mean, n_users, n_undefined) in part_of(expected.items(), 2):
            result = evaluate(mine, theirs, "hit_rate@2", population=population, **COLUMNS)
            (row,) = result.summary
            assert (row.mean, row.n_users, row.n_undefined) == (mean, n_users, n_undefined)
            quality = result.data_quality
            assert (quality.n_users, quality.n_without_predictions, quality.n_without_labels) == (5, 1, 1)
            assert (quality.n_without_relevant, quality.n_left_out) == (2, left_out[population])
        counted = evaluate(mine, theirs, "hit_rate(undefined=zero)@2", population="labelled", **COLUMNS).summary[0]
        assert (counted.mean, counted.n_users) == (2 / 4, 4)
        with pytest.raises(
            OptionError, match="population must be one of None, 'every', 'labelled', 'predicted', 'both'"
        ):
            evaluate(mine, theirs, "rr", population="all", **COLUMNS)

    def test_tables_that_hardly_share_a_user_are_warned_of(self, spark):
        """21 users with labels, 2 of whom have predictions; and 20, 2 of whom do: one in ten."""
        others = [(f"user {n}", "x", 1.0) for n in range(19)]
        few = (predictions(spark), labels(spark, *others))
        said = r"only 2 of 21 users with labels have predictions \(9.5%\); check .* the same user ids\. The other users .* 0"
        said = said.replace(" .* 0", " count as users without hits; population='predicted' leaves them out")
        with pytest.warns(SparkRankEvalWarning, match=said):
            result = evaluate(*few, "rr", **COLUMNS)
        assert "!      only 2 of 21 users with labels have predictions (9.5%); check that both tables" in repr(result)
        with pytest.warns(SparkRankEvalWarning, match=said):
            stored = summarise(score_users(*few, "rr", **COLUMNS))
        assert stored.data_quality == result.data_quality
        assert result.data_quality.n_in_both == 2
        # Who leaves the others out has asked about few; but hardly about nobody.
        assert evaluate(*few, "rr", population="predicted", **COLUMNS).summary[0].n_users == 2
        nobody = spark.createDataFrame(others, "user string, item string, grade double")
        with pytest.warns(
            SparkRankEvalWarning, match=r"none of 19 users with labels has predictions; check .* same user ids$"
        ):
            evaluate(predictions(spark), nobody, "rr", population="predicted", **COLUMNS)
        with warnings.catch_warnings(action="error", category=SparkRankEvalWarning):
            a_tenth = evaluate(predictions(spark), labels(spark, *others[:18]), "rr", **COLUMNS).data_quality
        assert (a_tenth.n_in_both, a_tenth.n_labelled) == (2, 20)

    def test_with_further_users_or_several_models_users_in_both_are_counted_as_well(self, spark):
        strangers = predictions(spark).withColumn("user", F.concat("user", F.lit("'")))
        models = {"good": predictions(spark), "strange": strangers}
        with pytest.warns(SparkRankEvalWarning, match="^model 'strange': none of 2 users with labels has predictions"):
            of_models = evaluate(models, labels(spark), "rr", **COLUMNS)
        assert {name: quality.n_in_both for name, quality in of_models.qualities.items()} == {"good": 2, "strange": 0}
        with pytest.warns(SparkRankEvalWarning, match="^model 'none': none of 2 users with labels has predictions"):
            evaluate({"good": predictions(spark), "none": strangers.limit(0)}, labels(spark), "rr", **COLUMNS)
        users = spark.createDataFrame([(f"user {n}",) for n in range(50)], "user string")
        result = evaluate(predictions(spark), labels(spark), "rr", users=users, **COLUMNS)
        assert result.data_quality.n_in_both == 2
        others = labels(spark, *[(f"user {n}", "x", 1.0) for n in range(19)])
        with pytest.warns(SparkRankEvalWarning, match="only 2 of 21 users with labels"):
            evaluate(predictions(spark), others, "rr", users=users, **COLUMNS)

    def test_what_the_caller_says_wins_over_the_dialect(self, spark):
        mine = predictions(spark, ("only predicted", "x", 1.0))
        options = {**COLUMNS, "dialect": "trec_eval"}
        assert evaluate(mine, labels(spark), "rr", **options).data_quality.n_left_out == 1
        every = evaluate(mine, labels(spark), "rr", population="every", **options)
        assert (every.data_quality.n_left_out, every.summary[0].n_users) == (0, 3)


class TestIdsThatNeverMatch:
    LABELLED = ("3", "n\u00e9")
    # What a model predicts to the users, and the ids that a warning then shows; None: no warning.
    PREDICTED: ClassVar = {
        "index": (("1000", "1001"), "'3' and '1000'"),
        "one of two": (("3", "z"), None),
        "double": (("3.0", "z"), "'3' and '3.0'"),
        "blank": (("3 ", "z"), "'3' and '3 '"),
        "CHAR(8)": (("3       ", "n\u00e9      "), "'3' and '3       '"),
        "zeros": (("z", "003"), "'3' and '003'"),
        "accent": (("z", "ne\u0301"), r"'n\xe9' and 'ne\u0301'"),
        "case": (("z", "N\u00c9"), "'n\u00e9' and 'N\u00c9'"),
        "item of the other user": (("n\u00e9", "3"), None),
    }

    def tables(self, spark, *names):
        rows = [
            (user, item, 1.0, name) for name in names for user, item in zip("ab", self.PREDICTED[name][0], strict=True)
        ]
        schema = "user string, item string, score double"
        models = {name: spark.createDataFrame([row[:3] for row in rows if row[3] == name], schema) for name in names}
        liked = spark.createDataFrame(list(zip("ab", self.LABELLED, strict=True)), "user string, item string")
        return models, liked

    def said(self, call):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = call()
        messages = [str(one.message) for one in caught if issubclass(one.category, SparkRankEvalWarning)]
        assert [note for note in result.notes if note.startswith(("none of", "model "))] == messages
        return messages

    def test_items_are_shown_beside_those_that_look_like_them(self, spark):
        """Each user is a batch, so that of items which others have only the second look knows that they match."""
        names = [name for name, _ in part_of(self.PREDICTED.items(), 4)] + ["one of two"]
        names = list(dict.fromkeys(names))
        models, liked = self.tables(spark, *names)
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 1)
        try:
            said = self.said(lambda: evaluate(models, liked, "rr", score="score"))
        finally:
            spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
        assert said == [
            f"model {name!r}: none of the 2 labelled items is among the 2 predicted ones, for example {shown}, so no list has a hit. "
            "If both mean the same items, use the same ids: cast or trim them, or map them by a join"
            for name in names
            if (shown := self.PREDICTED[name][1])
        ]

    def test_nobody_looks_at_ids_if_one_matches(self, spark, jobs_of):
        def jobs(name):
            models, liked = self.tables(spark, name)
            with warnings.catch_warnings(action="ignore"):
                return jobs_of(
                    lambda: evaluate(models[name], liked, ["rr", "ndcg@1"], score="score", exclude=liked.limit(0))
                )

        models, liked = self.tables(spark, "one of two")
        all_match = liked.selectExpr("user", "item", "1d score")
        least = jobs_of(lambda: evaluate(all_match, liked, ["rr", "ndcg@1"], score="score"))
        assert jobs_of(lambda: evaluate(models["one of two"], liked, ["rr", "ndcg@1"], score="score")) == least
        assert jobs("double") > jobs("one of two")

    @pytest.mark.parametrize("form", ["arrays", "structs", "one table", "model column"])
    def test_lists_of_any_form_are_looked_at(self, spark, form):
        rows = [("a", 1.0, "m"), ("b", 1.0, "m"), ("a", 2.0, "n")]
        flat = spark.createDataFrame(
            [(user, int(item), item, model) for user, item, model in rows],
            "user string, item long, x double, model string",
        )
        liked = spark.createDataFrame([("a", 7), ("b", 8)], "user string, item int")
        options, beginning = {}, "none of the 2 labelled items is among the 2 predicted ones, for example 7 and 1,"
        if form == "model column":
            mine, options = flat, {"score": "x", "model": "model"}
            beginning = "model 'm': none of the 2 labelled items is among the 1 predicted ones, for example 7 and 1,"
        elif form == "arrays":
            mine, liked = (
                flat.groupBy("user").agg(F.collect_list("item").alias("item")),
                liked.groupBy("user").agg(F.collect_list("item").alias("item")),
            )
        elif form == "structs":
            mine = flat.groupBy("user").agg(F.collect_list(F.struct("x", "item")).alias("recommendations"))
            options = {"score": "x"}
        else:
            mine, liked = (
                spark.createDataFrame(
                    [([1, 2], [7]), ([], []), (None, [8])], "prediction array<long>, label array<long>"
                ).where("prediction is not null"),
                None,
            )
            beginning = "none of the 1 labelled items is among the 2 predicted ones, for example 7 and 1,"
        said = self.said(lambda: evaluate(mine, liked, "rr", **options))
        assert said
        assert said[0].startswith(beginning)
        assert len(said) == 1 + (form == "model column")

    def test_tables_that_should_share_ids_with_predictions_are_looked_at(self, spark):
        models, liked = self.tables(spark, "one of two")
        others = liked.withColumn("item", F.concat("item", F.lit(".0")))
        strangers = liked.withColumn("user", F.upper("user"))
        given = {
            "training": others,
            "items": others.withColumn("category", F.lit("c")),
            "baseline": others.withColumn("score", F.lit(1.0)),
        }
        metrics = ["novelty@2", "repetition@2", "categorical_diversity@2", "unexpectedness@2"]
        for lookup in part_of(["workers", "join"], 2):
            facts = Facts(**given, category="category", lookup=lookup)
            call = partial(evaluate, models, liked, metrics, score="score", exclude=strangers, facts=facts)
            assert [re.sub(r" is among.*, so ", ": ", words).partition(". ")[0] for words in self.said(call)] == [
                "none of the 2 users of exclude: nothing is excluded",
                "none of the 2 items of training: every predicted item counts as one that no user has",
                "none of the 2 items of the table of items: no prediction has a category, vector or group",
                "none of the 2 items of the baseline: it recommends none of the predictions",
            ]
        facts = Facts(training=strangers, baseline=strangers.withColumn("score", F.lit(1.0)))
        said = self.said(
            lambda: evaluate(
                models, liked, ["repetition@2", "unexpectedness@2"], score="score", exclude=others, facts=facts
            )
        )
        assert [words.partition(" is among")[0] for words in said] == [
            "none of the 2 excluded items", "none of the 2 users of training", "none of the 2 users of the baseline"
        ]  # fmt: skip
        facts = Facts(items=given["items"], category="category")
        said = self.said(lambda: evaluate(models["one of two"], liked, "alpha_ndcg@2", score="score", facts=facts))
        assert [words.partition(", for")[0] for words in said] == [
            "none of the 2 labelled items is among the 2 in the table of items"
        ]


class TestNegativeNaNOrNullRelevance:
    BAD = (("a", "x", -1.0), ("b", "q", NAN), ("b", "w", None), ("a", "v", -INF))

    def test_error(self, evaluated):
        above = "relevance above 992, the largest grade of a metric (set max_grade or gain='linear'): 1"
        for reason in ("negative relevance: 2", "NaN relevance: 1", "null relevance: 1", above):
            assert f"{reason}, for example user=" in evaluated.refusal

    @pytest.mark.parametrize("user", ["null grade", "NaN grade", "negative grades", "grade above 992"])
    def test_dropped(self, evaluated, user):
        n = len(MORE[user][1])
        negative = {"n_negative_grades": n} if user == "negative grades" else {}
        assert evaluated.values(user) == evaluated.values("nothing")
        assert evaluated.counts(user) == {"n_invalid_labels": n, **negative}
        reason = user.replace("grades", "grade").replace("grade", "relevance")
        assert len(evaluated.quarantined(user)) == n
        assert all(row[-1].startswith(reason) for row in evaluated.quarantined(user))

    @pytest.mark.parametrize("arrays", [False, True], ids=["rows", "arrays"])
    def test_dropped_or_clipped(self, spark, arrays):
        bad = labels(spark, *self.BAD)
        if arrays:
            bad = bad.groupBy("user").agg(F.collect_list(F.struct("item", "grade")).alias("item"))

        def run(on_invalid):
            return evaluate(predictions(spark), bad, ["cg@2", "bpref"], on_invalid=on_invalid, **COLUMNS)

        if arrays:
            # Those of rows are above.
            dropped = run("drop")
            assert [(row.mean, row.n_users) for row in dropped.summary] == [(1.5, 2), (1.0, 2)]
            assert (dropped.data_quality.n_invalid_labels, dropped.data_quality.n_negative_grades) == (4, 2)
        mended = {"negative_grades": "clip" if arrays else "drop"}
        assert "negative" not in refused(lambda: run(mended), n_invalid_labels=2)
        clipped = run({"negative_grades": "clip", "invalid_labels": "drop"})
        # Of grade 0, x is known not to be liked, and stands before y.
        assert [(row.mean, row.n_users) for row in clipped.summary] == [(1.5, 2), (0.5, 2)]
        quality = clipped.data_quality
        assert (quality.n_invalid_labels, quality.n_negative_grades, accounted(quality)[1]) == (2, 2, 6)
        assert rows(clipped.quarantine, "item", "reason") == [("q", "NaN relevance"), ("w", "null relevance")]

    def test_what_no_metric_raises_to_a_power_may_be_large_and_not_infinite(self, spark):
        large = labels(spark, ("a", "q", 1024.0), ("a", "w", INF))
        metrics = ["rr", "ndcg(gain=linear)@2"]
        said = refused(lambda: evaluate(predictions(spark), large, metrics, **COLUMNS), n_invalid_labels=1)
        assert "infinite relevance: 1, for example user='a', item='w'" in said

    def test_a_grade_above_the_scale_of_a_metric_is_an_error(self, spark):
        given = predictions(spark), labels(spark)
        said = refused(lambda: evaluate(*given, "err@2", **COLUMNS), n_invalid_labels=1)
        assert "relevance above 1, the largest grade of a metric" in said
        assert evaluate(*given, "err(max_grade=2)@2", **COLUMNS)["err@2"] > 0


class TestColumns:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (
                {"score": "score", "rank": "score"},
                "either score= .* or rank= .*; got both. The table has: user, item, score",
            ),
            ({}, "got neither. The table has: user, item, score"),
            (
                {"score": "points"},
                r"predictions has no column 'points' \(score=\); it has: user string, item string, score double",
            ),
            ({"score": "item"}, "score='item' must be a number; it is string"),
            (
                {"score": "score", "user": "who"},
                r"predictions has no column 'who' \(user=\).*labels has no column 'who'",
            ),
            ({"score": "nested.score"}, "has no column 'nested.score'"),
        ],
    )
    def test_an_error_that_names_what_is_there(self, spark, options, words):
        with pytest.raises(InputError, match=words):
            evaluate(predictions(spark), labels(spark), CUT, **options)

    def test_which_of_several_models_lacks_a_column_is_said(self, spark):
        tables = {"als": predictions(spark), "popular": predictions(spark).drop("score")}
        with pytest.raises(InputError, match=r"^predictions of model 'popular' has no column 'score'"):
            evaluate(tables, labels(spark), CUT, score="score")

    def test_ambiguous_and_nested_columns(self, spark):
        twice = predictions(spark).withColumn("x", F.col("score")).toDF("user", "item", "score", "SCORE")
        with pytest.raises(InputError, match=r"'score' is ambiguous: the table has \['score', 'SCORE'\]"):
            evaluate(twice, labels(spark), CUT, score="score")
        for kind, column in {
            "struct<a:int>": F.struct(F.lit(1).alias("a")),
            "map<int,int>": F.create_map(F.lit(1), F.lit(1)),
            "array<array<int>>": F.array(F.array(F.lit(1))),
        }.items():
            with pytest.raises(InputError, match=r"item|score"):
                evaluate(predictions(spark).withColumn("item", column), labels(spark), CUT, score="score")
            with pytest.raises(InputError, match=rf"user.*is {kind}|has no column"):
                evaluate(predictions(spark).withColumn("user", column), labels(spark), CUT, score="score")

    @pytest.mark.parametrize(
        "names", part_of([("a.b c d", "名前", "e`f"), ("USER", "select", "ü Ｓ𝄞"), ("'; --", "iTEM", "x\ty")], 3)
    )
    def test_any_name_simply_works(self, spark, names):
        mine = predictions(spark, ("a", None, 1.0)).toDF(*names)
        theirs = labels(spark).toDF(*names[:2], "gra.de")
        user, item, score = (name.swapcase() if name.isascii() else name for name in names)
        result = evaluate(
            {"one": mine, "two": mine},
            theirs,
            "rr",
            user=user,
            item=item,
            score=score,
            relevance="GRA.de",
            on_invalid="drop",
        )
        assert result["one", "rr"] == 0.75
        assert names[0] in result.per_user.columns
        assert rows(result.quarantine, "model", "reason") == [
            ("one", "null prediction item"),
            ("two", "null prediction item"),
        ]


class TestShapes:
    @pytest.mark.filterwarnings("ignore:there are no labels")
    def test_no_rows_no_labels_no_common_users_one_user(self, spark):
        mine, theirs = predictions(spark), labels(spark)
        strangers = theirs.withColumn("user", F.concat(F.lit("not "), "user"))
        one = F.col("user") == "b"
        shapes = (
            (mine.limit(0), theirs.limit(0), 0, None, "0 users"),
            (mine.limit(0), theirs, 2, 0.0, "2 without predictions (100.0%)"),
            (mine, theirs.limit(0), 2, None, "2 without a relevant label (100.0%)"),
            (mine, strangers, 4, 0.0, "2 without a relevant label (50.0%); 2 without predictions (50.0%)"),
            (mine.where(one), theirs.where(one), 1, 1.0, "1 users"),
        )
        # Each of both is pruned or whole by day; at night each is both.
        cases = [(shape, metric) for metric in ("rr@2", "rr") for shape in shapes]
        for (left, right, n_users, mean, words), metric in part_of(cases, 2):
            warned = pytest.warns(SparkRankEvalWarning, match="none of 2 users with labels has predictions")
            with warned if mean == 0.0 else nullcontext():
                result = evaluate(left, right, [metric], **COLUMNS)
            assert result.data_quality.n_users == n_users
            assert math.isnan(result[metric]) if mean is None else result[metric] == mean
            assert words in repr(result)
            assert "no interval" in repr(result) or mean == 0.0

    def test_a_list_of_100_000_items_10_000_labels_and_a_k_beyond_any_list(self, spark):
        ids = F.col("id").cast("long")
        mine = spark.range(100_000).select(F.lit(1).alias("user"), ids.alias("item"), (-ids).alias("score"))
        theirs = spark.range(10_000).select(F.lit(1).alias("user"), (10 * ids).alias("item"))
        metrics = ["rr@5", "precision@1000", "recall@99999", "ap(denominator='labels')@200000", "precision@200000"]
        result = evaluate(mine, theirs, metrics, score="score")
        expected = [1.0, 0.1, 1.0, sum((n + 1) / (10 * n + 1) for n in range(10_000)) / 10_000, 10_000 / 200_000]
        assert [row.mean for row in result.summary] == pytest.approx(expected, rel=1e-12)
        assert accounted(result.data_quality) == (100_000, 10_000)
        assert evaluate(mine, theirs, metrics[:2], score="score")["precision@1000"] == 0.1
        arrays = mine.groupBy("user").agg(F.sort_array(F.collect_list("item")).alias("items"))
        assert evaluate(arrays, theirs, metrics, item=("items", "item")).summary[3].mean == pytest.approx(expected[3])


class TestArrays:
    BAD = (
        (2, None, [0.5]),
        (3, [1, 2], None),
        (4, [1, None], [0.5, 0.4]),
        (5, [1, 2], [0.5, None]),
        (6, [1, 2, 3], [0.5]),
        (7, [1, 2], [NAN, 0.5]),
        (None, [1, 2], [0.5, 0.4]),
        (8, [1], [0.1]),
        (8, [1, 2], [0.2, 0.1]),
        (9, [], []),
    )
    REASONS = (
        ("NaN score", 7, 1),
        ("null array of predictions", 2, None),
        ("null array of predictions", 3, None),
        ("null prediction item", 4, None),
        ("null score", 5, 2),
        ("null user (user)", None, None),
        ("unequal lengths of items and scores", 6, None),
        ("user in several rows", 8, None),
    )

    @pytest.fixture
    def tables(self, spark):
        bad = spark.createDataFrame(
            [(1, [1, 2], [0.2, 0.9]), *self.BAD], "user long, items array<long>, scores array<double>"
        )
        return bad, spark.createDataFrame([(user, 1) for user in range(1, 10)], "user long, item long")

    def test_error_with_counts(self, tables):
        said = refused(
            lambda: evaluate(*tables, "rr", item=("items", "item"), score="scores"),
            n_invalid_predictions=len(self.REASONS),
        )
        for reason, *_ in self.REASONS:
            n = sum(reason == other for other, *_ in self.REASONS)
            assert f"{reason}: {n}, for example user=" in said
        assert "user in several rows: 1, for example user=8 in 2 rows" in said

    def test_dropped_and_counted(self, tables):
        result = evaluate(*tables, "rr", item=("items", "item"), score="scores", on_invalid="drop")
        quality = result.data_quality
        assert (quality.n_invalid_predictions, quality.n_predictions, quality.n_users) == (len(self.REASONS), 7, 9)
        # Of the two rows of user 8 the same one is read every time.
        assert rows(result.per_user, "user", "rr") == [
            (1, 0.5), (2, 0.0), (3, 0.0), (4, 1.0), (5, 1.0), (6, 0.0), (7, 0.0), (8, 1.0), (9, 0.0)
        ]  # fmt: skip
        found = rows(result.quarantine, "reason", "user", "item")
        assert found == sorted(self.REASONS, key=repr)

    def test_one_table_of_both_arrays(self, spark):
        table = spark.createDataFrame(
            [
                ([1, 2, 2, None], [2, 2, 3], [1.0, 3.0, -1.0]),
                ([1, 2], [2, 2], [1.0, 1.0]),
                (None, [1], [None]),
                ([5, 5], [5], [1.0, 2.0]),
            ],
            "prediction array<int>, label array<int>, grade array<double>",
        )
        said = refused(
            lambda: evaluate(table, None, "rr", relevance="grade"),
            n_invalid_predictions=2, n_invalid_labels=3, n_duplicate_predictions=2, n_conflicting_labels=1,
        )  # fmt: skip
        assert "item=2 2 times" in said
        assert "with relevances [1.0, 3.0]" in said
        result = evaluate(table, None, "rr", relevance="grade", on_invalid="quarantine")
        assert (result.data_quality.n_predictions, result.data_quality.n_labels) == (5, 2)
        again, lower = "repeats an item of the user, ranked better", "repeats an item of the user with a lower grade"
        assert rows(result.quarantine, "table", "item", "grade", "reason") == [
            ("labels", 1, None, "null relevance"),
            ("labels", 2, 1.0, lower),
            ("labels", 3, -1.0, "negative relevance"),
            ("labels", None, None, "unequal lengths of label and grade"),
            ("predictions", 2, None, again),
            ("predictions", 5, None, again),
            ("predictions", None, None, "null array of predictions"),
            ("predictions", None, None, "null prediction item"),
        ]


def test_labels_of_several_relevances_are_all_accounted_for(spark):
    graded = [
        ("a", "x", 1.0, 1.0),
        ("a", "x", 1.0, 2.0),
        ("a", "x", 2.0, 1.0),
        ("a", "y", 1.0, -1.0),
        ("a", "z", NAN, 1.0),
    ]
    graded += [("b", "x", 1.0, 1.0), ("b", "x", 1.0, 1.0)]
    theirs = spark.createDataFrame(graded, "user string, item string, click double, buy double")
    result = evaluate(predictions(spark), theirs, "rr", score="score", relevance=["click", "buy"], on_invalid="drop")
    quality = result.data_quality
    assert accounted(quality) == (len(GOOD), len(graded))
    assert (quality.n_invalid_labels, quality.n_negative_grades) == (2, 1)
    found = dict(result.quarantine.groupBy("reason").count().collect())
    assert found["NaN relevance 'click'"] == found["negative relevance 'buy'"] == 1
    assert quality.n_conflicting_labels + quality.n_duplicate_labels == 3


def test_rows_in_are_rows_ranked_and_rows_reported_under_every_plan(spark):
    bad = [
        (None, "x", 1.0),
        ("a", None, 9.0),
        ("c", "q", NAN),
        ("a", "x", 0.5),
        ("b", "x", 0.5),
        ("b", "w", -INF),
        ("d", "x", INF),
    ]
    mine, theirs = (
        predictions(spark, *bad),
        labels(spark, ("a", "y", 1.0), ("a", "y", 2.0), ("b", None, 1.0), ("z", "z", -1.0)),
    )
    excluded = spark.createDataFrame([("a", "x"), ("b", "w"), ("d", None)], "user string, item string")
    kinds = ("invalid_predictions", "duplicate_predictions", "invalid_labels", "conflicting_labels")
    plans = itertools.product(("rank", "drop"), (["rr@2"], ["rr"]), ({}, {"exclude": excluded}, {"prune": "never"}))
    # By day two that have nothing in common: pruned as it comes, and whole without excluded items.
    for infinite, metrics, options in part_of(plans, 10):
        on_invalid = dict.fromkeys(kinds, "drop") | {"infinite_scores": infinite}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SparkRankEvalWarning)
            result = evaluate(
                {"one": mine, "two": mine.limit(0)}, theirs, metrics, on_invalid=on_invalid, **options, **COLUMNS
            )
        assert accounted(result.qualities["one"]) == (len(GOOD) + len(bad), len(LIKED) + 4)
        assert accounted(result.qualities["two"])[0] == 0
        counted = result.qualities["one"]
        assert Counter(row["table"] for row in result.quarantine.collect()) == {
            "predictions": counted.n_invalid_predictions + counted.n_duplicate_predictions,
            "labels": counted.n_invalid_labels + counted.n_conflicting_labels,
        }
