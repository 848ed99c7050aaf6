"""The front door on small tables whose numbers are known."""

import ast
import json
import math
import re

import chispa
import pytest
from helpers.effort import FULL_LENGTH, part_of
from pyspark.sql import functions as F

from spark_rankeval import Facts, evaluate, score_users, summarise
from spark_rankeval.errors import (
    DialectError,
    InputError,
    MetricError,
    OptionError,
    SparkRankEvalError,
    SparkRankEvalWarning,
    UnknownMetricError,
)
from spark_rankeval.metrics import NDCG, AveragePrecision

PREDICTIONS = {1: [1, 6, 8], 2: [1, 2, 3, 4, 5], 4: [1, 2, 3, 4]}
LABELS = {1: [1, 2, 3, 4, 5, 6], 2: [2, 4, 6], 3: [2, 4, 6]}
EVERYONE = (1, 2, 3, 4, 5)
METRICS = ["precision@5", "recall@5", "f1@5", "ap@5", "rr@5", "ndcg@5"]
MEANS = {
    "precision@5": 0.26666666666666666,
    "recall@5": 0.3333333333333333,
    "f1@5": 0.28787878787878785,
    "ap@5": 0.5,
    "rr@5": 0.5,
    "ndcg@5": 0.5503069766023775,
}


@pytest.fixture(scope="module")
def rows(spark):
    scored = [(u, i, 1.0 - 0.1 * n) for u, items in PREDICTIONS.items() for n, i in enumerate(items)]
    labelled = [(u, i) for u, items in LABELS.items() for i in items]
    users = spark.createDataFrame([(u,) for u in EVERYONE], "user long")
    return (
        spark.createDataFrame(scored, "user long, item long, score double"),
        spark.createDataFrame(labelled, "user long, item long"),
        users,
    )


@pytest.fixture(scope="module")
def result(rows):
    predictions, labels, users = rows
    return evaluate(predictions, labels, METRICS, score="score", users=users)


def means(result):
    return {row.metric: row.mean for row in result.summary}


def test_worked_example_of_the_sources(result):
    assert means(result) == pytest.approx(MEANS, abs=1e-12)


def test_counts_stand_beside_the_means(result):
    assert {(row.n_users, row.n_undefined) for row in result.summary} == {(3, 2)}
    quality = result.data_quality
    assert (quality.n_users, quality.n_without_relevant, quality.n_without_predictions) == (5, 2, 2)
    assert (quality.n_predictions, quality.n_labels, quality.n_relevant) == (12, 12, 12)


def test_users_in_neither_table_are_counted_only_when_given(rows):
    predictions, labels, _ = rows
    assert evaluate(predictions, labels, "rr", score="score").data_quality.n_users == 4


def test_per_user_table_is_lazy_and_has_a_double_a_metric(result, spark):
    assert [c for c in result.per_user.columns if "_at_" in c] == [
        "precision_at_5", "recall_at_5", "f1_at_5", "ap_at_5", "rr_at_5", "ndcg_at_5",
    ]  # fmt: skip
    shown = result.per_user.select("user", "precision_at_5").orderBy("user")
    expected = [(1, 0.4), (2, 0.4), (3, 0.0), (4, math.nan), (5, math.nan)]
    chispa.assert_df_equality(
        shown, spark.createDataFrame(expected, "user long, precision_at_5 double"),
        allow_nan_equality=True, ignore_metadata=True,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["ndcg@5", "nDCG@5", "NDCG @ 5", "ndcg_at_5", NDCG(k=5), "ndcg(ideal='retrieved')@5"])
def test_a_mean_is_found_by_alias_object_column_or_definition(result, name):
    assert result[name] == pytest.approx(MEANS["ndcg@5"], abs=1e-12)


def test_a_name_that_nothing_answers_to_lists_what_there_is(result):
    with pytest.raises(UnknownMetricError, match=r"no metric 'ndcg@10'; did you mean 'ndcg@5'.*it has: precision@5"):
        result["ndcg@10"]


def test_a_name_that_two_answer_to_is_ambiguous(rows):
    predictions, labels, _ = rows
    both = evaluate(predictions, labels, {"a": "ap@5", "b": "ap(denominator='labels')@5"}, score="score")
    with pytest.raises(UnknownMetricError, match=r"ambiguous: it matches 'a', 'b'"):
        both["map@5"]
    assert both["map(denominator=labels)@5"] == both["b"]


def test_labels_of_a_dict_name_rows_and_columns(rows):
    predictions, labels, _ = rows
    renamed = evaluate(predictions, labels, {"quality of list": AveragePrecision(k=5)}, score="score")
    assert renamed["quality of list"] == pytest.approx(0.5, abs=1e-12)
    assert "quality of list" in renamed.per_user.columns


def test_definitions_say_every_parameter(result):
    definition = next(row.definition for row in result.summary if row.metric == "ap@5")
    assert (
        definition
        == "ap(relevance_threshold=None, ties='order', denominator='hits', decay=1.0, weights=None, by='rank', undefined='nan')@5"
    )
    assert definition in result.explain()


def test_summary_as_pandas_has_a_row_a_metric(result):
    frame = result.to_pandas()
    assert frame["metric"].tolist() == METRICS
    assert {"model", "dialect", "metric", "cutoff", "slice", "mean", "n_users", "n_undefined", "std"} <= set(frame)
    assert frame["cutoff"].tolist() == [5] * 6


@pytest.mark.filterwarnings("ignore:there are no labels")
def test_json_writes_undefined_as_null(spark, rows):
    predictions, labels, _ = rows
    nobody = evaluate(predictions, labels.limit(0), "ndcg@5", score="score")
    assert math.isnan(nobody["ndcg@5"])
    assert json.loads(nobody.to_json())["summary"][0]["mean"] is None


def test_result_prints_as_a_table_with_the_data_quality(result):
    text = repr(result)
    assert "metric" in text
    assert "ndcg@5       0.5503" in text
    assert "5 users, 3 with labels; of these 0 have no relevant label, 1 has no predictions (33.3%)" in text


def test_summarise_of_the_per_user_table_gives_the_same_to_the_last_bit(rows, result):
    predictions, labels, users = rows
    table = score_users(predictions, labels, METRICS, score="score", users=users)
    again = summarise(table)
    assert again.summary == result.summary
    assert again.data_quality == result.data_quality


def test_summarise_refuses_the_users_of_several_runs(rows, result, jobs_of):
    predictions, labels, users = rows
    table = score_users(predictions, labels, METRICS, score="score", users=users).persist()
    runs = table.withColumn("run_id", F.explode(F.array(F.lit("day1"), F.lit("day2"))))
    for options in ({}, {"by": "run_id"}):
        with pytest.raises(InputError, match=r"holds rows of several runs \(column 'run_id'\), and a user in several"):
            summarise(runs, **options)
    with pytest.raises(InputError, match="the column 'run_id' was read as double, but names of runs are text"):
        summarise(table.withColumn("run_id", F.lit(1.5)), model="run_id")
    made = []
    assert jobs_of(lambda: made.append(summarise(runs.where("run_id = 'day2'")))) == jobs_of(lambda: summarise(table))
    assert (made[0].summary, made[0].data_quality) == (result.summary, result.data_quality)
    each = summarise(runs, model="run_id")
    assert [each["day1", metric] for metric in MEANS] == [each["day2", metric] for metric in MEANS]
    assert each.models == ["day1", "day2"]
    if FULL_LENGTH:
        # A day a model is no user twice.
        days = runs.withColumn("model", F.concat(F.lit("of "), "run_id"))
        assert summarise(days, model="model").models == ["of day1", "of day2"]
    table.unpersist()


def test_summarise_of_a_table_without_metadata_takes_its_double_columns(spark):
    table = spark.createDataFrame([(1, 0.5), (2, None), (3, 1.0)], "user long, my_metric double")
    with pytest.warns(SparkRankEvalWarning) as warned:
        result = summarise(table)
    said = [str(one.message) for one in warned]
    assert any("read as metrics: my_metric; not read: user bigint" in text for text in said)
    assert any("has no n_predictions" in text for text in said)
    assert result["my_metric"] == 0.75
    assert result.summary[0].n_undefined == 1


def test_summarise_of_a_table_without_metrics_is_an_error(spark):
    with pytest.raises(InputError, match="no metric column; it has: user bigint"):
        summarise(spark.createDataFrame([(1,)], "user long"))


def test_ranks_instead_of_scores(rows):
    predictions, labels, users = rows
    ranked = predictions.withColumn("place", (F.lit(11) - F.col("score") * 10).cast("int")).drop("score")
    assert means(evaluate(ranked, labels, METRICS, rank="place", users=users)) == pytest.approx(MEANS, abs=1e-12)


def test_two_tables_of_arrays(spark):
    predictions = spark.createDataFrame(list(PREDICTIONS.items()), "user long, items array<long>")
    labels = spark.createDataFrame(list(LABELS.items()), "user long, liked array<long>")
    users = spark.createDataFrame([(u,) for u in EVERYONE], "user long")
    result = evaluate(predictions, labels, METRICS, item=("items", "liked"), users=users)
    assert means(result) == pytest.approx(MEANS, abs=1e-12)
    assert result.data_quality.n_users == 5


def test_arrays_of_structs_with_a_score_are_ordered_by_it(spark, rows):
    shuffled = [
        (u, [(i, 1.0 - 0.1 * n) for n, i in reversed(list(enumerate(items)))]) for u, items in PREDICTIONS.items()
    ]
    predictions = spark.createDataFrame(shuffled, "user long, recommendations array<struct<item:long,rating:float>>")
    _, labels, users = rows
    result = evaluate(predictions, labels, METRICS, score="rating", users=users)
    assert means(result) == pytest.approx(MEANS, abs=1e-12)


RANKED = [(user, 10 + place, (3 * place + user) % 7 + 1) for user in range(9) for place in range(7)]
WANTED = {(user, film) for user, film, _ in RANKED if (user + film) % 3 == 0}


def mean_rr(excluded=()):
    """The mean reciprocal rank of the ranked films, by definition."""
    of_user = {}
    for user, film, _ in sorted(RANKED, key=lambda row: row[2]):
        if (user, film) not in excluded:
            of_user.setdefault(user, []).append((user, film) in WANTED)
    return sum(1 / (1 + found.index(True)) if any(found) else 0 for found in of_user.values()) / len(of_user)


@pytest.fixture(scope="module")
def films(spark):
    """The films as rows, and as arrays of structs of several fields, of which that of items is not the first."""
    rows = spark.createDataFrame(RANKED, "user int, movieId int, rank int")
    labels = rows.where(F.pmod(F.col("user") + F.col("movieId"), F.lit(3)) == 0).select("user", "movieId")

    def lists(table, name, *fields):
        return table.groupBy("user").agg(F.sort_array(F.collect_list(F.struct(*fields))).alias(name))

    minus_rank = (-F.col("rank")).cast("double").alias("rating")
    both = lists(rows, "recs", "rank", "movieId").join(
        lists(labels, "liked", F.lit(1.0).alias("grade"), "movieId"), "user"
    )
    return {
        "rows": rows,
        "ranked": both.select("user", "recs"),
        "scored": lists(rows, "recs", minus_rank, "movieId"),
        "renamed": both.selectExpr("user", "transform(recs, one -> struct(one.movieId AS MOVIEID, one.rank)) AS recs"),
        "labels": labels,
        "other": labels.withColumnRenamed("movieId", "film"),
        "liked": both.select("user", "liked"),
        "both": both,
        "known": rows.where("pmod(user + movieId, 3) = 1").select("user", "movieId"),
    }


def with_tables(films, options):
    """The options with the tables that they name."""
    baseline = "transform(recs, one -> struct(one.rating, one.movieId AS film)) AS movieId"
    facts = {
        "training": Facts(training=films["known"], popularity_groups=2),
        "baseline": Facts(baseline=films["scored"].selectExpr("user", baseline)),
    }
    tables = {"exclude": films, "facts": facts}
    return {name: tables[name][value] if name in tables else value for name, value in options.items()}


@pytest.mark.parametrize(
    ("predictions", "labels", "options"),
    [
        ("ranked", "labels", {"item": ("recs", "movieId"), "facts": "training"}),
        ("ranked", "other", {"item": ("recs.movieId", "film"), "exclude": "known"}),
        ("renamed", "labels", {"item": "movieId"}),
        ("scored", "other", {"item": ("recs", "film"), "score": "rating"}),
        ("ranked", "liked", {"item": ("recs", "movieId"), "exclude": "known"}),
        ("ranked", "liked", {"item": ("recs.movieId", "liked"), "relevance": "grade"}),
        ("both", None, {"item": ("recs.movieId", "liked.movieId")}),
    ],
)
def test_items_in_arrays_of_structs_are_those_of_rows(films, predictions, labels, options):
    options = with_tables(films, options)
    result = evaluate(films[predictions], films.get(labels), "rr", **options)
    excluded = {(user, film) for user, film, _ in RANKED if (user + film) % 3 == 1} if "exclude" in options else ()
    assert result["rr"] == pytest.approx(mean_rr(excluded), abs=1e-12)


@pytest.mark.parametrize(
    ("predictions", "labels", "options", "message"),
    [
        (
            "ranked",
            "labels",
            {"item": "recs"},
            "recs.rank int, recs.movieId int. Write item=('recs.rank', 'recs') or item=('recs.movieId', 'recs')",
        ),
        ("scored", "labels", {}, "recs.rating double, recs.movieId int. Write item=('recs.movieId', 'item')"),
        ("scored", "other", {"item": ("recs", "film")}, "recs.movieId int. Write item=('recs.movieId', 'film')"),
        ("rows", "liked", {"item": ("rank", "liked"), "rank": "rank"}, "Write item=('rank', 'liked.movieId')"),
        ("both", None, {"item": ("recs", "liked")}, "or item=('recs.movieId', …)"),
        ("both", None, {"item": ("recs", "liked")}, "Write item=(…, 'liked.movieId')"),
        ("both", "labels", {"item": "movieId"}, "item=('recs.movieId', 'movieId') or item=('liked.movieId', 'movieId')"),
        ("ranked", "labels", {"item": ("recs", "movieId"), "exclude": "ranked"}, "pass a row for each item"),
        (
            "rows",
            "labels",
            {"item": "movieId", "score": "rank", "metrics": ["unexpectedness@3"], "facts": "baseline"},
            "baseline: item='movieId' does not say which field of the array 'movieId' holds the items: movieId.rating double, "
            "movieId.film int. Rename the field of the items to 'movieId'",
        ),
    ],
)  # fmt: skip
def test_the_item_is_not_guessed_among_several_fields(films, predictions, labels, options, message):
    options = with_tables(films, options)
    with pytest.raises(InputError, match=re.escape(message)):
        evaluate(films[predictions], films.get(labels), ["rr", *options.pop("metrics", ())], **options)


@pytest.mark.parametrize("name", ["item", "recs"])
def test_the_advice_on_the_field_of_items_works_whatever_the_labels_call_theirs(films, name):
    labels = films["labels"].withColumnRenamed("movieId", name)
    with pytest.raises(InputError) as caught:
        evaluate(films["ranked"], labels, "rr", item=name)
    advice = re.search(r"or item=(\(.*\))", str(caught.value))[1]
    result = evaluate(films["ranked"], labels, "rr", item=ast.literal_eval(advice))
    assert result["rr"] == pytest.approx(mean_rr(), abs=1e-12)


def test_one_table_with_both_arrays_and_no_user(spark):
    table = spark.createDataFrame(
        [(PREDICTIONS.get(u, []), LABELS.get(u, [])) for u in EVERYONE], "prediction array<long>, label array<long>"
    )
    result = evaluate(table, None, METRICS)
    assert means(result) == pytest.approx(MEANS, abs=1e-12)
    assert result.per_user.columns[0] == "precision_at_5"


def test_grades_beside_and_inside_arrays(spark):
    flat = spark.createDataFrame(
        [([1, 2, 3], [1, 3], [3.0, 1.0])], "prediction array<int>, label array<int>, grades array<double>"
    )
    inside = flat.selectExpr("prediction", "arrays_zip(label, grades) as label")
    expected = (7 + 1 / 2) / (7 + 1 / math.log2(3))
    for table in (flat, inside):
        assert evaluate(table, None, "ndcg@3", relevance="grades")["ndcg@3"] == pytest.approx(expected, abs=1e-12)


def test_graded_labels_and_a_threshold(spark):
    predictions = spark.createDataFrame([(1, 10, 0.9), (1, 11, 0.8), (1, 12, 0.7)], "user int, item int, score float")
    labels = spark.createDataFrame([(1, 10, 2), (1, 12, 5)], "user int, item int, stars int")
    result = evaluate(
        predictions, labels, ["precision@3", "ndcg@3"], score="score", relevance="stars", relevance_threshold=4
    )
    assert result["precision@3"] == pytest.approx(1 / 3, abs=1e-12)
    assert result.data_quality.n_relevant == 1
    assert result["ndcg@3"] == pytest.approx((3 + 31 / 2) / (31 + 3 / math.log2(3)), abs=1e-12)


def test_several_user_columns_make_a_user(spark):
    predictions = spark.createDataFrame(
        [("q", "de", 1, 1.0), ("q", "en", 2, 1.0)], "query string, locale string, item int, score double"
    )
    labels = spark.createDataFrame([("q", "de", 1), ("q", "en", 1)], "query string, locale string, item int")
    result = evaluate(predictions, labels, "precision@1", user=["query", "locale"], score="score")
    assert result["precision@1"] == 0.5
    assert result.per_user.columns[:2] == ["query", "locale"]


def test_column_names_with_dots_spaces_backticks_and_any_case(spark):
    predictions = spark.createDataFrame([(1, 7, 0.5)], "a long, b long, c double").toDF(
        "the.user", "item `x`", "Score ü"
    )
    labels = spark.createDataFrame([(1, 7)], "a long, b long").toDF("THE.USER", "item `x`")
    result = evaluate(
        predictions,
        labels,
        "rr",
        user="the.user",
        item="item `x`",
        score="score Ü".swapcase().swapcase().replace("s", "S"),
    )
    assert result["rr"] == 1.0
    assert "the.user" in result.per_user.columns


@pytest.mark.parametrize(
    ("left", "right"),
    part_of(
        [("int", "bigint"), ("smallint", "int"), ("string", "string"), ("double", "double"), ("float", "double")], 2
    ),
)
def test_ids_of_types_that_compare(spark, rows, left, right):
    predictions, labels, users = rows
    result = evaluate(
        predictions.withColumn("item", F.col("item").cast(left)), labels.withColumn("item", F.col("item").cast(right)),
        METRICS, score="score", users=users,
    )  # fmt: skip
    assert means(result) == pytest.approx(MEANS, abs=1e-12)


def test_ids_above_two_to_the_53_are_told_apart(spark):
    big = 2**53
    predictions = spark.createDataFrame([(1, big, 1.0), (1, big + 1, 0.5)], "user long, item long, score double")
    labels = spark.createDataFrame([(1, big + 1)], "user long, item long")
    assert evaluate(predictions, labels, "rr", score="score")["rr"] == 0.5


def test_text_ids_tie_in_the_order_of_their_bytes(spark):
    # All users have the same list, and a user each of its items for the label.
    ids = ["10", "9", "ä", "z", "Z"]
    expected = {
        1 + place: sorted(ids, key=lambda text: text.encode()).index(item) + 1 for place, item in enumerate(ids)
    }
    lists = [(user, item, 1.0) for user in expected for item in ids]
    predictions = spark.createDataFrame(lists, "user long, item string, score double")
    labels = spark.createDataFrame(list(enumerate(ids, start=1)), "user long, item string")
    for prune in ("auto", "never"):
        result = evaluate(predictions, labels, ["rr@4", "rr@5"], score="score", prune=prune)
        assert {row["user"]: row["rr_at_5"] for row in result.per_user.collect()} == {
            user: 1 / place for user, place in expected.items()
        }
        assert result.data_quality.n_hanging_on_ties == len(ids)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"metrics": ["ndgc@5"]}, MetricError, "did you mean 'ndcg'"),
        ({"metrics": []}, MetricError, "no metric was asked for"),
        ({"score": None}, InputError, "neither"),
        ({"rank": "item"}, InputError, "both"),
        ({"user": "usr"}, InputError, r"predictions has no column 'usr' \(user=\); did you mean 'user'\? it has: user bigint"),
        ({"item": "thing"}, InputError, "no column 'thing'"),
        ({"score": "points"}, InputError, "no column 'points'"),
        ({"relevance": "grade"}, InputError, "labels has no column 'grade'"),
        ({"dialect": "mlib"}, DialectError, "did you mean 'mllib'"),
        ({"on_invalid": "ignore"}, OptionError, "on_invalid must be one of 'error', 'drop', 'quarantine', or a dict by kind.*got 'ignore'"),
        ({"prune": True}, OptionError, "prune"),
        ({"ties": "random"}, OptionError, "ties"),
        ({"ties": "position"}, OptionError, "position"),
        ({"relevance_threshold": "4"}, OptionError, "relevance_threshold must be a number"),
        ({"dialect": "mllib", "metrics": "rr"}, DialectError, "has no 'rr'; it has ap, ndcg, precision, recall"),
        ({"user": None}, InputError, "user=None"),
        ({"user": 5}, InputError, "user must be a column name"),
        ({"user": ["user", "USER"]}, InputError, "twice"),
        ({"item": None}, InputError, "item=None is for one table"),
        ({"metrics": 5}, MetricError, "got 5"),
        ({"metrics": "ndcg@3000000000"}, MetricError, "cutoff"),
    ],
)  # fmt: skip
def test_a_wrong_call_raises_before_any_job(jobs_of, rows, arguments, error, words):
    predictions, labels, _ = rows

    def call():
        with pytest.raises(error, match=words):
            evaluate(predictions, labels, **{"metrics": METRICS, "score": "score", **arguments})

    assert jobs_of(call) == 0


UNREADABLE = [
    (lambda p, y: (p, y), {"user": "who", "score": "points", "relevance": "grade"}, r"'who'.*'points'.*'who'.*'grade'"),
    (lambda p, y: (p, y.withColumn("user", F.col("user").cast("string"))), {},
     "users have different types: 'user' is bigint in predictions and string in labels"),
    (lambda p, y: (p.withColumn("score", F.col("score").cast("string")), y), {}, "score='score' must be a number; it is string"),
    (lambda p, y: (p.select("*", F.col("score").alias("SCORE")), y), {"score": "sCore"}, "ambiguous"),
    (lambda p, y: (p.toDF("user", "item", "ITEM"), y), {"score": "item"}, "ambiguous"),
    (lambda p, y: ([1], y), {}, "predictions must be a table or Vectors; got a list"),
    (lambda p, y: [each.withColumnRenamed("user", "n_labels") for each in (p, y)], {"user": "n_labels"},
     "'n_labels' is also the name of a count"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "columns", "words"), UNREADABLE)
def test_tables_that_cannot_be_read_are_errors_that_name_every_column(rows, change, columns, words):
    with pytest.raises(InputError, match=words):
        evaluate(*change(*rows[:2]), METRICS, **{"score": "score", **columns})


@pytest.mark.parametrize(("cast", "kind"), [("string", "string"), ("double", "double"), ("decimal(9,0)", "decimal")])
def test_ids_of_types_that_do_not_compare_are_an_error(rows, cast, kind):
    predictions, labels, _ = rows
    with pytest.raises(InputError, match=kind):
        evaluate(predictions.withColumn("item", F.col("item").cast(cast)), labels, METRICS, score="score")


def test_decimal_scores_and_boolean_grades(spark, rows):
    predictions, labels, users = rows
    result = evaluate(
        predictions.withColumn("score", F.col("score").cast("decimal(10,2)")), labels.withColumn("clicked", F.lit(True)),
        METRICS, score="score", relevance="clicked", users=users,
    )  # fmt: skip
    assert means(result) == pytest.approx(MEANS, abs=1e-12)


@pytest.mark.parametrize("empty", ["predictions", "labels", "both"])
def test_empty_tables_give_a_result_that_says_so(rows, empty):
    predictions, labels, _ = rows
    predictions = predictions.limit(0) if empty in ("predictions", "both") else predictions
    labels = labels.limit(0) if empty in ("labels", "both") else labels
    warning = "none of 3 users with labels has predictions" if empty == "predictions" else "there are no labels, so "
    with pytest.warns(SparkRankEvalWarning, match=warning):
        result = evaluate(predictions, labels, METRICS, score="score")
    expected = {"predictions": (3, 0), "labels": (0, 3), "both": (0, 0)}[empty]
    assert (result.summary[0].n_users, result.summary[0].n_undefined) == expected
    assert math.isnan(result["rr@5"]) == (empty != "predictions")
    assert "undefined" in repr(result)


def test_all_errors_are_ours():
    for error in (MetricError, DialectError, InputError, OptionError, UnknownMetricError):
        assert issubclass(error, SparkRankEvalError)


def test_a_label_may_hold_any_character_or_be_a_name_of_ours(rows):
    predictions, labels, _ = rows
    named = {"my.metric": "rr@5", "my`metric": "recall@5", "user_0": "ap@5", "metric_0": "ndcg@5"}
    result = evaluate(predictions, labels, named, score="score")
    users = [row.asDict() for row in result.per_user.where("user < 4").collect()]
    for label in named:
        assert sum(user[label] for user in users) / 3 == pytest.approx(result[label], abs=1e-12)


def test_a_cutoff_beyond_what_spark_can_keep_is_not_pruned(rows):
    predictions, labels, users = rows
    result = evaluate(predictions, labels, "recall@200000", score="score", users=users)
    assert "too large to leave any out" in result.explain()
    assert result["recall@200000"] == pytest.approx(1 / 3, abs=1e-12)


def test_ties_between_items_of_different_relevance_are_seen(spark):
    predictions = spark.createDataFrame([("a", 50, 1.0), ("a", 49, 1.0)], "user string, item int, score double")
    labels = spark.createDataFrame([("a", 50, 0), ("a", 7, 9)], "user string, item int, rel int")

    def hanging(metric, threshold):
        result = evaluate(predictions, labels, metric, score="score", relevance="rel", relevance_threshold=threshold)
        return result.data_quality.n_hanging_on_ties

    assert hanging("precision@1", 0) == 1
    assert hanging("precision@1", None) == 0


def test_a_result_is_a_collection_of_labels(result):
    assert "nDCG@5" in result
    assert "ndcg@7" not in result
    assert list(result) == METRICS
    assert len(result) == 6
