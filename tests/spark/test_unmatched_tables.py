"""Tables that share few users or items: zero or no value, and warnings that show the ids side by side."""

import re
import warnings
from functools import partial

import pytest
from helpers.shuffles import settings_of
from pyspark.sql import functions as F

from spark_rankeval import Facts, evaluate, score_users, summarise
from spark_rankeval.errors import SparkRankEvalWarning

PREDICTED, GRADED = "user string, item string, score double", "user string, item string, grade double"
COLUMNS = {"score": "score", "relevance": "grade"}
GOOD = [("a", "x", 3.0), ("a", "y", 2.0), ("a", "z", 1.0), ("b", "x", 1.0)]
LIKED = [("a", "y", 1.0), ("b", "x", 2.0)]


def test_users_in_one_table_only_have_zero_or_no_value_and_are_left_out_on_request(spark):
    mine = spark.createDataFrame([*GOOD, ("only predicted", "x", 1.0), ("of grade 0", "x", 1.0)], PREDICTED)
    theirs = spark.createDataFrame([*LIKED, ("only labelled", "x", 1.0), ("of grade 0", "x", 0.0)], GRADED)
    # Mean, users, users without a value, users left out.
    expected = {None: (2 / 3, 3, 2, 0), "predicted": (1.0, 2, 3, 1), "both": (1.0, 2, 3, 2)}
    for population, figures in expected.items():
        result = evaluate(mine, theirs, "hit_rate@2", population=population, **COLUMNS)
        row, quality = result.summary[0], result.data_quality
        assert (row.mean, row.n_users, row.n_undefined, quality.n_left_out) == figures
        assert (quality.n_users, quality.n_without_predictions, quality.n_without_labels) == (5, 1, 1)
        assert quality.n_without_relevant == 2
    counted = evaluate(mine, theirs, "hit_rate(undefined=zero)@2", population="labelled", **COLUMNS)
    assert (counted.summary[0].mean, counted.summary[0].n_users, counted.data_quality.n_left_out) == (2 / 4, 4, 1)
    # What the caller says wins over the dialect.
    options = {**COLUMNS, "dialect": "trec_eval"}
    assert evaluate(mine, theirs, "rr", **options).data_quality.n_left_out > 0
    assert evaluate(mine, theirs, "rr", population="every", **options).data_quality.n_left_out == 0


STRANGERS = [(f"user {n}", "x", 1.0) for n in range(19)]


def test_tables_that_hardly_share_a_user_are_warned_of(spark):
    """21 users with labels, 2 of whom have predictions; and 20, 2 of whom do: one in ten."""
    mine, few = spark.createDataFrame(GOOD, PREDICTED), spark.createDataFrame([*LIKED, *STRANGERS], GRADED)
    said = (
        r"only 2 of 21 users with labels have predictions \(9.5%\); check .* the same user ids\. The other users .* 0"
    )
    said = said.replace(" .* 0", " count as users without hits; population='predicted' leaves them out")
    with pytest.warns(SparkRankEvalWarning, match=said):
        result = evaluate(mine, few, "rr", **COLUMNS)
    assert "!      only 2 of 21 users with labels have predictions (9.5%); check that both tables" in repr(result)
    assert result.data_quality.n_in_both == 2
    with pytest.warns(SparkRankEvalWarning, match=said):
        assert summarise(score_users(mine, few, "rr", **COLUMNS)).data_quality == result.data_quality
    # Who leaves the others out has asked about few; but hardly about nobody.
    nobody = spark.createDataFrame(STRANGERS, GRADED)
    with pytest.warns(
        SparkRankEvalWarning, match=r"none of 19 users with labels has predictions; check .* same user ids$"
    ):
        evaluate(mine, nobody, "rr", population="predicted", **COLUMNS)
    with warnings.catch_warnings(action="error", category=SparkRankEvalWarning):
        assert evaluate(mine, few, "rr", population="predicted", **COLUMNS).summary[0].n_users == 2
        a_tenth = evaluate(mine, spark.createDataFrame([*LIKED, *STRANGERS[:18]], GRADED), "rr", **COLUMNS).data_quality
    assert (a_tenth.n_in_both, a_tenth.n_labelled) == (2, 20)


@pytest.mark.ci
def test_users_in_both_tables_are_counted_for_each_model_and_among_further_users(spark):
    mine, liked = spark.createDataFrame(GOOD, PREDICTED), spark.createDataFrame(LIKED, GRADED)
    strangers = mine.withColumn("user", F.concat("user", F.lit("'")))
    for other, n_in_both in ((strangers, {"good": 2, "other": 0}), (strangers.limit(0), {"good": 2, "other": 0})):
        with pytest.warns(SparkRankEvalWarning, match="^model 'other': none of 2 users with labels has predictions"):
            of_models = evaluate({"good": mine, "other": other}, liked, "rr", **COLUMNS)
        assert {name: quality.n_in_both for name, quality in of_models.qualities.items()} == n_in_both
    users = spark.createDataFrame([(f"user {n}",) for n in range(50)], "user string")
    assert evaluate(mine, liked, "rr", users=users, **COLUMNS).data_quality.n_in_both == 2
    with pytest.warns(SparkRankEvalWarning, match="only 2 of 21 users with labels"):
        evaluate(mine, spark.createDataFrame([*LIKED, *STRANGERS], GRADED), "rr", users=users, **COLUMNS)


# What a model predicts to users of whom one likes 3 and the other né, and the ids that a warning then shows; None: no warning.
UNLIKE = {
    "index": (("1000", "1001"), "'3' and '1000'"), "one of two": (("3", "z"), None),
    "double": (("3.0", "z"), "'3' and '3.0'"), "blank": (("3 ", "z"), "'3' and '3 '"),
    "CHAR(8)": (("3       ", "n\u00e9      "), "'3' and '3       '"), "zeros": (("z", "003"), "'3' and '003'"),
    "accent": (("z", "ne\u0301"), r"'n\xe9' and 'ne\u0301'"), "case": (("z", "N\u00c9"), "'n\u00e9' and 'N\u00c9'"),
    "item of the other user": (("n\u00e9", "3"), None),
}  # fmt: skip


@pytest.fixture(scope="module")
def unlike(spark):
    """A model of each name above, and the labels."""
    models = {name: [(*pair, 1.0) for pair in zip("ab", items, strict=True)] for name, (items, _) in UNLIKE.items()}
    liked = [*zip("ab", ("3", "n\u00e9"), strict=True)]
    return {name: spark.createDataFrame(listed, PREDICTED) for name, listed in models.items()}, spark.createDataFrame(
        liked, "user string, item string"
    )


def said(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    messages = [str(one.message) for one in caught if issubclass(one.category, SparkRankEvalWarning)]
    assert [note for note in result.notes if note.startswith(("none of", "model "))] == messages
    return messages


def test_items_that_never_match_are_shown_beside_those_that_look_like_them(spark, unlike):
    """Each user is a batch, so that of items which others have only the second look knows that they match."""
    models, liked = unlike
    with settings_of(spark, {"spark.sql.execution.arrow.maxRecordsPerBatch": "1"}):
        words = said(lambda: evaluate(models, liked, "rr", score="score"))
    assert words == [
        f"model {name!r}: none of the 2 labelled items is among the 2 predicted ones, for example {shown}, so no list has a hit. "
        "If both mean the same items, use the same ids: cast or trim them, or map them by a join"
        for name, (_, shown) in UNLIKE.items()
        if shown
    ]


def labels_of(n_own, n_of_others, n_gone):
    """Relevant labels, of a user each: of items that the own list has, that only others' lists have, and that no list has."""
    own = [(f"u{n}", f"d{n}", 1.0) for n in range(n_own)]
    of_others = [(f"u{n_own + n}", f"d{50 + n}", 1.0) for n in range(n_of_others)]
    return [*own, *of_others, *((f"u{n_own + n_of_others + n}", f"gone {n}", 1.0) for n in range(n_gone))]


# Labels, and whether most of their relevant items are in no list. Items of grade 0 do not count.
GOLDEN_SETS = {
    "most are gone": ([*labels_of(6, 4, 20), *((f"u{n}", f"poor {n}", 0.0) for n in range(40))], True),
    "half are gone": (labels_of(5, 10, 15), False),
    "few labels": (labels_of(3, 0, 16), False),
    "half of the labels are found": ([(f"u{n}", "d60", 1.0) for n in range(60, 80)] + labels_of(0, 0, 20), False),
}


@pytest.mark.parametrize("name", GOLDEN_SETS)
def test_relevant_items_in_no_list_of_any_model_are_noted_if_they_are_most(spark, name):
    labels, is_noted = GOLDEN_SETS[name]
    second = [(f"u{n}", "d60" if n > 60 else f"x{n}", 1.0) for n in range(80)]
    models = {
        model: [*second, *((f"u{n}", f"d{n}", 2.0) for n in range(first, 80, 2))] for first, model in enumerate("ab")
    }
    tables = {model: spark.createDataFrame(rows, PREDICTED) for model, rows in models.items()}
    result = evaluate(tables, spark.createDataFrame(labels, GRADED), "recall@2", **COLUMNS)
    relevant = {item for _, item, grade in labels if grade > 0}
    unlisted = relevant - {item for rows in models.values() for _, item, _ in rows}
    words = f"{len(unlisted)} of {len(relevant)} relevant items ({len(unlisted) / len(relevant):.1%}) are in no list."
    noted = [note for note in result.notes if "in no list" in note]
    assert [note.partition(". ")[0] + "." for note in noted] == [words] * is_noted


@pytest.mark.ci
def test_nobody_looks_at_ids_if_one_matches(unlike, jobs_of):
    models, liked = unlike

    def jobs(table, **options):
        with warnings.catch_warnings(action="ignore"):
            return jobs_of(lambda: evaluate(table, liked, ["rr", "ndcg@1"], score="score", **options))

    all_match = liked.selectExpr("user", "item", "1d score")
    assert jobs(models["one of two"]) == jobs(all_match)
    exclude = {"exclude": liked.limit(0)}
    assert jobs(models["double"], **exclude) > jobs(models["one of two"], **exclude)


@pytest.mark.ci
@pytest.mark.parametrize("form", ["arrays", "structs", "one table", "model column"])
def test_ids_in_lists_of_any_form_are_looked_at(spark, form):
    listed = [("a", 1, 1.0, "m"), ("b", 1, 1.0, "m"), ("a", 2, 2.0, "n")]
    mine = spark.createDataFrame(listed, "user string, item long, x double, model string")
    liked = spark.createDataFrame([("a", 7), ("b", 8)], "user string, item int")
    options, beginning = {}, "none of the 2 labelled items is among the 2 predicted ones, for example 7 and 1,"
    if form == "model column":
        options = {"score": "x", "model": "model"}
        beginning = "model 'm': none of the 2 labelled items is among the 1 predicted ones, for example 7 and 1,"
    elif form == "arrays":
        mine, liked = (table.groupBy("user").agg(F.collect_list("item").alias("item")) for table in (mine, liked))
    elif form == "structs":
        mine = mine.groupBy("user").agg(F.collect_list(F.struct("x", "item")).alias("recommendations"))
        options = {"score": "x"}
    else:
        lists = [([1, 2], [7]), ([], [])]
        mine, liked = spark.createDataFrame(lists, "prediction array<long>, label array<long>"), None
        beginning = "none of the 1 labelled items is among the 2 predicted ones, for example 7 and 1,"
    # A share of labelled items has a value whatever the labels are, and is 0 for the same reason.
    words = said(lambda: evaluate(mine, liked, "judged" if form == "arrays" else "rr", **options))
    assert words[0].startswith(beginning)
    assert len(words) == 1 + (form == "model column")


@pytest.mark.ci
def test_tables_that_should_share_ids_with_predictions_are_looked_at(unlike):
    models, liked = unlike
    models = {"one of two": models["one of two"]}
    strangers = liked.withColumn("user", F.upper("user"))
    others = liked.withColumn("item", F.concat("item", F.lit(".0")))
    items = others.withColumn("category", F.lit("c"))

    def beginnings(*metrics, exclude=None, **facts):
        call = partial(evaluate, models, liked, list(metrics), score="score", exclude=exclude)
        words = said(lambda: call(facts=Facts(category="category", **facts)))
        return [re.sub(r" is among.*, so ", ": ", one).partition(". ")[0].partition(" is among")[0] for one in words]

    given = {"training": others, "items": items, "baseline": others.withColumn("score", F.lit(1.0))}
    metrics = ("novelty@2", "repetition@2", "categorical_diversity@2", "unexpectedness@2")
    assert beginnings(*metrics, exclude=strangers, **given) == [
        "none of the 2 users of exclude: nothing is excluded",
        "none of the 2 items of training: every predicted item counts as one that no user has",
        "none of the 2 items of the table of items: no prediction has a category, vector or group",
        "none of the 2 items of the baseline: it recommends none of the predictions",
    ]
    given = {"training": strangers, "baseline": strangers.withColumn("score", F.lit(1.0))}
    assert [words.partition(":")[0] for words in beginnings("repetition@2", "unexpectedness@2", exclude=others, **given)] == [
        "none of the 2 excluded items", "none of the 2 users of training", "none of the 2 users of the baseline"
    ]  # fmt: skip
    assert beginnings("alpha_ndcg@2", items=items)[0].startswith("none of the 2 labelled items")


@pytest.mark.parametrize("metrics", [["rr"], ["rr", "precision@2"]])
def test_scores_that_put_all_relevant_items_last_get_a_word(spark, metrics):
    """Of 8 users with both, 6 have their relevant items last, one in the middle; the last one has no other item."""
    rows = [
        (f"user {user}", item, score)
        for user in range(7)
        for item, score in zip("abcd", (0.1, 0.4, 0.6, 0.9), strict=True)
    ]
    liked = [(f"user {user}", item, 1.0) for user in range(6) for item in "ab"] + [
        ("user 6", "b", 1.0),
        ("alone", "a", 1.0),
    ]
    tables = spark.createDataFrame([*rows, ("alone", "a", 0.5)], PREDICTED), spark.createDataFrame(liked, GRADED)
    words = "the relevant predictions of 6 of 8 users with labels and predictions are the last of their list, and of no user the first"
    with pytest.warns(SparkRankEvalWarning, match=words):
        result = evaluate(*tables, metrics, **COLUMNS)
    assert any(words in note for note in result.notes)
    turned = tables[0].withColumn("score", -F.col("score"))
    assert not any("are the last" in note for note in evaluate(turned, tables[1], metrics, **COLUMNS).notes)
