"""The front door on small tables whose numbers are known, in every form."""

import json
import math
import warnings

import chispa
import pytest
from pyspark.sql import functions as F
from worlds import film_lists
from worlds.film_lists import RANKED, WANTED

from spark_rankeval import Facts, evaluate
from spark_rankeval.errors import SparkRankEvalWarning, UnknownMetricError
from spark_rankeval.metrics import NDCG, AveragePrecision

PREDICTIONS = {1: [1, 6, 8], 2: [1, 2, 3, 4, 5], 4: [1, 2, 3, 4]}
LABELS = {1: [1, 2, 3, 4, 5, 6], 2: [2, 4, 6], 3: [2, 4, 6]}
EVERYONE = (1, 2, 3, 4, 5)
# As the sources of the worked example have them.
MEANS = {
    "precision@5": 0.26666666666666666, "recall@5": 0.3333333333333333, "f1@5": 0.28787878787878785, "ap@5": 0.5,
    "rr@5": 0.5, "ndcg@5": 0.5503069766023775,
}  # fmt: skip
METRICS = list(MEANS)


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


def test_means_of_the_worked_example_and_counts_beside_them(rows, result):
    assert means(result) == pytest.approx(MEANS, abs=1e-12)
    assert {(row.n_users, row.n_undefined) for row in result.summary} == {(3, 2)}
    quality = result.data_quality
    assert (quality.n_users, quality.n_without_relevant, quality.n_without_predictions) == (5, 2, 2)
    assert (quality.n_predictions, quality.n_labels, quality.n_relevant) == (12, 12, 12)
    # Users in neither table are counted only when they are given.
    assert evaluate(*rows[:2], "rr", score="score").data_quality.n_users == 4


def test_the_table_of_users_has_a_double_a_metric(result, spark):
    columns = ["precision_at_5", "recall_at_5", "f1_at_5", "ap_at_5", "rr_at_5", "ndcg_at_5"]
    assert result.per_user.columns[:7] == ["user", *columns]
    shown = result.per_user.select("user", "precision_at_5").orderBy("user")
    expected = [(1, 0.4), (2, 0.4), (3, 0.0), (4, math.nan), (5, math.nan)]
    chispa.assert_df_equality(
        shown, spark.createDataFrame(expected, "user long, precision_at_5 double"),
        allow_nan_equality=True, ignore_metadata=True,
    )  # fmt: skip


def test_a_result_is_a_collection_of_labels_asked_in_any_spelling(result):
    assert (list(result), len(result), "nDCG@5" in result, "ndcg@7" in result) == (METRICS, 6, True, False)
    for name in ("ndcg@5", "nDCG@5", "NDCG @ 5", "ndcg_at_5", NDCG(k=5), "ndcg(ideal='retrieved')@5"):
        assert result[name] == pytest.approx(MEANS["ndcg@5"], abs=1e-12)
    with pytest.raises(UnknownMetricError, match=r"no metric 'ndcg@10'; did you mean 'ndcg@5'.*it has: precision@5"):
        result["ndcg@10"]
    frame = result.to_pandas()
    assert frame["metric"].tolist() == METRICS
    assert {"model", "dialect", "metric", "cutoff", "slice", "mean", "n_users", "n_undefined", "std"} <= set(frame)
    text = repr(result)
    assert "ndcg@5       0.5503" in text
    assert "5 users, 3 with labels; of these 0 have no relevant label, 1 has no predictions (33.3%)" in text
    definition = next(row.definition for row in result.summary if row.metric == "ap@5")
    assert definition.startswith("ap(relevance_threshold=None, ties='order', denominator='hits'")
    assert definition in result.explain()


def test_labels_of_a_dict_name_rows_and_columns_whatever_they_hold(rows):
    named = {
        "my.metric": "rr@5", "my`metric": "recall@5", "user_0": AveragePrecision(k=5), "metric_0": "ndcg@5",
        "b": "ap(denominator='labels')@5",
    }  # fmt: skip
    result = evaluate(*rows[:2], named, score="score")
    users = [row.asDict() for row in result.per_user.where("user < 4").collect()]
    for label in named:
        assert sum(user[label] for user in users) / 3 == pytest.approx(result[label], abs=1e-12)
    with pytest.raises(UnknownMetricError, match=r"ambiguous: it matches 'user_0', 'b'"):
        result["map@5"]
    assert result["map(denominator=labels)@5"] == result["b"]


def cast_items(predictions, labels, left, right):
    return tuple(t.withColumn("item", F.col("item").cast(kind)) for t, kind in ((predictions, left), (labels, right)))


def scored_structs(spark):
    lists = {u: [(i, 1.0 - 0.1 * n) for n, i in enumerate(items)][::-1] for u, items in PREDICTIONS.items()}
    return spark.createDataFrame(list(lists.items()), "user long, recs array<struct<item:long,rating:float>>")


# Of tables of rows: the tables in another form, and options beside the users.
FORMS = {
    "ranks": lambda spark, p, y: (p.selectExpr("user", "item", "int(11 - score * 10) AS place"), y, {"rank": "place"}),
    "arrays": lambda spark, p, y: (
        spark.createDataFrame(list(PREDICTIONS.items()), "user long, items array<long>"),
        spark.createDataFrame(list(LABELS.items()), "user long, liked array<long>"), {"item": ("items", "liked")},
    ),
    "arrays of structs with scores": lambda spark, p, y: (scored_structs(spark), y, {"score": "rating"}),
    "arrays in one table, without users": lambda spark, p, y: (
        spark.createDataFrame(
            [(PREDICTIONS.get(u, []), LABELS.get(u, [])) for u in EVERYONE], "prediction array<long>, label array<long>"
        ), None, {"users": None},
    ),
    "decimal scores and boolean grades": lambda spark, p, y: (
        p.withColumn("score", F.col("score").cast("decimal(10,2)")), y.withColumn("clicked", F.lit(True)),
        {"score": "score", "relevance": "clicked"},
    ),
    "narrow users and items": lambda spark, p, y: (
        *cast_items(p.withColumn("user", F.col("user").cast("int")), y, "smallint", "bigint"), {"score": "score"}
    ),
    "texts": lambda spark, p, y: (*cast_items(p, y, "string", "string"), {"score": "score"}),
    "floats and doubles": lambda spark, p, y: (*cast_items(p, y, "float", "double"), {"score": "score"}),
    "names with dots, backticks and in another case": lambda spark, p, y: (
        p.toDF("the.user", "item `x`", "Score ü"), y.toDF("THE.USER", "item `x`"),
        {"user": "the.user", "item": "item `x`", "score": "SCORE ü", "users": None},
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "form",
    [pytest.param(form, marks=[pytest.mark.ci] if form in ("texts", "floats and doubles") else []) for form in FORMS],
)
def test_every_form_of_the_tables_gives_the_same(spark, rows, form):
    *tables, users = rows
    predictions, labels, options = FORMS[form](spark, *tables)
    result = evaluate(predictions, labels, METRICS, **{"users": users, **options})
    assert means(result) == pytest.approx(MEANS, abs=1e-12)
    assert result.data_quality.n_predictions == 12
    first = options.get("user", "user" if labels is not None else "precision_at_5")
    assert result.per_user.columns[0] == first


def mean_rr(excluded=()):
    """The mean reciprocal rank of the ranked films, by definition."""
    of_user = {}
    for user, film, _ in sorted(RANKED, key=lambda row: row[2]):
        if (user, film) not in excluded:
            of_user.setdefault(user, []).append((user, film) in WANTED)
    return sum(1 / (1 + found.index(True)) if any(found) else 0 for found in of_user.values()) / len(of_user)


@pytest.fixture(scope="module")
def films(spark):
    return film_lists.tables_of(spark)


@pytest.mark.parametrize(
    ("predictions", "labels", "options"),
    [
        ("ranked", "labels", {"item": ("recs", "movieId"), "facts": "training"}),
        ("ranked", "other", {"item": ("recs.movieId", "film"), "exclude": True}),
        ("renamed", "labels", {"item": "movieId"}),
        ("scored", "other", {"item": ("recs.movieId", "film"), "score": "rating"}),
        ("ranked", "liked", {"item": ("recs", "movieId"), "exclude": True}),
        ("ranked", "liked", {"item": ("recs.movieId", "liked.movieId"), "relevance": "grade"}),
        ("both", None, {"item": ("recs.movieId", "liked.movieId")}),
    ],
)
def test_items_in_arrays_of_structs_are_those_of_rows(films, predictions, labels, options):
    excluded = {(user, film) for user, film, _ in RANKED if (user + film) % 3 == 1} if "exclude" in options else ()
    tables = {"exclude": films["known"], "facts": Facts(training=films["known"], popularity_groups=2)}
    options = {name: tables.get(name, value) for name, value in options.items()}
    result = evaluate(films[predictions], films.get(labels), "rr", **options)
    assert result["rr"] == pytest.approx(mean_rr(excluded), abs=1e-12)


def test_grades_beside_and_inside_arrays_and_under_a_threshold(spark):
    flat = spark.createDataFrame(
        [([1, 2, 3], [1, 3], [3.0, 1.0])], "prediction array<int>, label array<int>, grades array<double>"
    )
    inside = flat.selectExpr("prediction", "arrays_zip(label, grades) as label")
    expected = (7 + 1 / 2) / (7 + 1 / math.log2(3))
    for table in (flat, inside):
        assert evaluate(table, None, "ndcg@3", relevance="grades")["ndcg@3"] == pytest.approx(expected, abs=1e-12)
    predictions = spark.createDataFrame([(1, 10, 0.9), (1, 11, 0.8), (1, 12, 0.7)], "user int, item int, score float")
    labels = spark.createDataFrame([(1, 10, 2), (1, 12, 5)], "user int, item int, stars int")
    options = {"score": "score", "relevance": "stars", "relevance_threshold": 4}
    result = evaluate(predictions, labels, ["precision@3", "ndcg@3"], **options)
    assert result["precision@3"] == pytest.approx(1 / 3, abs=1e-12)
    assert result.data_quality.n_relevant == 1
    assert result["ndcg@3"] == pytest.approx((3 + 31 / 2) / (31 + 3 / math.log2(3)), abs=1e-12)


def test_several_user_columns_make_a_user_and_ids_above_two_to_the_53_are_told_apart(spark):
    big = 2**53
    predictions = spark.createDataFrame(
        [("q", "de", big, 1.0), ("q", "en", big + 1, 1.0)], "query string, locale string, item long, score double"
    )
    labels = spark.createDataFrame([("q", "de", big), ("q", "en", big)], "query string, locale string, item long")
    result = evaluate(predictions, labels, "precision@1", user=["query", "locale"], score="score")
    assert result["precision@1"] == 0.5
    assert result.per_user.columns[:2] == ["query", "locale"]


def test_text_ids_tie_in_the_order_of_their_bytes(spark):
    # All users have the same list, and a user each of its items for the label.
    ids = ["10", "9", "ä", "z", "Z"]
    places = sorted(ids, key=lambda text: text.encode())
    expected = {user: 1 / (1 + places.index(item)) for user, item in enumerate(ids)}
    lists = [(user, item, 1.0) for user in expected for item in ids]
    predictions = spark.createDataFrame(lists, "user long, item string, score double")
    labels = spark.createDataFrame(list(enumerate(ids)), "user long, item string")
    result = evaluate(predictions, labels, ["rr@4", "rr@5"], score="score")
    assert {row["user"]: row["rr_at_5"] for row in result.per_user.collect()} == expected
    assert result.data_quality.n_hanging_on_ties == len(ids)


def test_only_ties_between_items_of_different_relevance_hang_on_the_order(spark):
    predictions = spark.createDataFrame([("a", 50, 1.0), ("a", 49, 1.0)], "user string, item int, score double")
    labels = spark.createDataFrame([("a", 50, 0), ("a", 7, 9)], "user string, item int, rel int")
    for threshold, n in ((0, 1), (None, 0)):
        options = {"score": "score", "relevance": "rel", "relevance_threshold": threshold}
        assert evaluate(predictions, labels, "precision@1", **options).data_quality.n_hanging_on_ties == n


# What is there of both tables, users, users with a value, and what a result says.
SHAPES = {
    "nothing": ("false", "false", 0, 0, "users  0 users\n"),
    "no predictions": ("false", "true", 3, 3, "3 have no predictions (100.0%)\n"),
    "no labels": ("true", "false", 3, 0, "3 users, none with labels; 0 have no predictions"),
    "nobody in both": (
        "user = 4",
        "true",
        4,
        3,
        "4 users, 3 with labels; of these 0 have no relevant label, 3 have no",
    ),
    "one user": ("user = 1", "user = 1", 1, 1, "1 user, all with labels; of these 0 have no relevant label, 0 have no"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_few_or_no_rows_give_a_result_that_says_so(rows, shape):
    left, right, n_users, n_defined, words = SHAPES[shape]
    predictions, labels, _ = rows
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = evaluate(predictions.where(left), labels.where(right), "rr@5", score="score")
    (row,) = result.summary
    assert (result.data_quality.n_users, row.n_users, row.n_undefined) == (n_users, n_defined, n_users - n_defined)
    assert math.isnan(row.mean) if not n_defined else row.mean == (1.0 if shape == "one user" else 0.0)
    assert words in repr(result)
    assert ("no interval" in repr(result)) == (n_defined < 2)
    assert (json.loads(result.to_json())["summary"][0]["mean"] is None) == (n_defined == 0)
    expected = "there are no labels, so " if not n_defined else "none of 3 users with labels has predictions"
    said = " ".join(str(one.message) for one in caught if issubclass(one.category, SparkRankEvalWarning))
    assert (expected in said) == (shape != "one user")


def test_users_are_counted_also_where_both_sides_are_the_same_table(spark):
    table = spark.createDataFrame([("a", ["x"], ["x"])], "user string, prediction array<string>, label array<string>")
    users = spark.createDataFrame([("zz",)], "user string")
    result = evaluate(table, table, "rr", item=("prediction", "label"), users=users)
    assert result.data_quality.n_users == 2


@pytest.mark.ci
def test_a_list_of_100_000_items_10_000_labels_and_a_k_beyond_any_list(spark):
    ids = F.col("id").cast("long")
    mine = spark.range(100_000).select(F.lit(1).alias("user"), ids.alias("item"), (-ids).alias("score"))
    theirs = spark.range(10_000).select(F.lit(1).alias("user"), (10 * ids).alias("item"))
    metrics = ["rr@5", "precision@1000", "recall@99999", "ap(denominator='labels')@200000", "precision@200000"]
    result = evaluate(mine, theirs, metrics, score="score")
    expected = [1.0, 0.1, 1.0, sum((n + 1) / (10 * n + 1) for n in range(10_000)) / 10_000, 10_000 / 200_000]
    assert [row.mean for row in result.summary] == pytest.approx(expected, rel=1e-12)
    assert (result.data_quality.n_predictions, result.data_quality.n_labels) == (100_000, 10_000)
    arrays = mine.groupBy("user").agg(F.sort_array(F.collect_list("item")).alias("items"))
    assert evaluate(arrays, theirs, metrics, item=("items", "item")).summary[3].mean == pytest.approx(expected[3])


def test_a_hundred_values_take_no_more_jobs_than_one_but_that_which_merges_large_states(rows, jobs_of):
    metrics = [f"{name}@{k}" for name in ("precision", "recall", "ndcg", "ap", "rr") for k in range(1, 21)]
    few, many = (jobs_of(lambda n=n: evaluate(*rows[:2], metrics[:n], score="score")) for n in (1, 100))
    assert 0 < few <= many <= few + 1


def test_an_evaluation_looks_at_each_table_once_and_makes_the_table_of_users_when_it_is_used(spark, tmp_path, jobs_of):
    """What is random in a table is then the same for all figures; docs/guarantees.md says what looks again."""
    looks = tmp_path / "looks"

    def noted(role, frame):
        def note(batches):
            with looks.open("a") as file:
                file.write(f"{role}\n")
            yield from batches

        return frame.coalesce(1).mapInArrow(note, frame.schema)

    rows = spark.range(40).selectExpr("id % 8 user", "id item", "id / 7 score", "'a' model", "'x' country")
    predictions = noted("predictions", rows.select("user", "item", "score", "model"))
    labels, people = noted("labels", rows.select("user", "item")), noted("people", rows.select("user", "country"))
    facts = Facts(attributes=people)
    result = evaluate(predictions, labels, ["rr", "ndcg@10"], score="score", facts=facts, by="country")
    assert sorted(looks.read_text().split()) == ["labels", "people", "predictions"]
    assert jobs_of(lambda: result.per_user) == 0
    assert jobs_of(result.per_user.count) > 0
    looks.unlink()
    # The names of the models are read first.
    evaluate(predictions, labels, "rr", score="score", model="model")
    assert sorted(looks.read_text().split()) == ["labels", "predictions", "predictions"]
