"""One table of users, items, scores and labels: the figures of two tables, with or without ids of items.

It stands in the place of predictions and labels, whose rows may lack one side, or it is given as both, whose rows have both.
"""

import math
import re
from itertools import groupby

import pandas as pd
import pytest
from worlds.random_logs import random_logs

from spark_rankeval import Facts, compare, evaluate, merge, quarantine, score_users, summarise
from spark_rankeval.errors import DataError, InputError
from spark_rankeval.records.comparisons import NOTE_OF_RETRIEVED_LABELS

METRICS = ["ndcg(ideal='labels')@5", "ap@3", "recall@5", "precision@2", "rr", "auc"]
COLUMNS = {"user": "query", "item": "chunk", "score": "score", "relevance": "label"}
SCHEMA = "query long, chunk long, score double, label double, language string"


def language(query):
    return "de" if query % 3 else "at"


@pytest.fixture(scope="module")
def rows():
    """Rows of both sides, of predictions without a label, and of labels that were not retrieved."""
    logs = random_logs(60, 5, seed=3)
    pairs = {}
    for query, chunk, score in logs.prediction_rows:
        pairs[query, chunk] = [score, None]
    for query, chunk, grade in logs.label_rows:
        pairs.setdefault((query, chunk), [None, None])[1] = grade
    return [(*pair, *values, language(pair[0])) for pair, values in pairs.items()]


@pytest.fixture(scope="module")
def table(spark, rows):
    return spark.createDataFrame(rows, SCHEMA).repartition(3)


@pytest.fixture(scope="module")
def of_two(table):
    """The result of two tables."""
    predictions, labels = (table.where(f"{name} is not null") for name in ("score", "label"))
    attributes = Facts(attributes=table)
    return evaluate(predictions, labels, METRICS, by="language", facts=attributes, **COLUMNS)


def totals(result):
    return {row.metric: row.mean for row in result.summary if row.slice == "all"}


def means(result):
    return {(row.slice, row.metric): (row.mean, row.n_users, row.n_undefined) for row in result.summary}


def test_it_has_the_figures_of_two_tables_and_says_what_labels_are_known(table, of_two):
    """Also of slices, which have the users of both sides."""
    result = evaluate(table, None, METRICS, by="language", **COLUMNS)
    assert means(result) == means(of_two)
    once = evaluate(table, None, METRICS, **COLUMNS)
    assert totals(once) == totals(of_two)
    assert once.summary[0].fingerprints.items() <= of_two.summary[0].fingerprints.items()
    assert NOTE_OF_RETRIEVED_LABELS in once.notes
    assert NOTE_OF_RETRIEVED_LABELS not in of_two.notes
    assert NOTE_OF_RETRIEVED_LABELS in summarise(once.per_user).notes


def test_several_models_share_their_labels(spark, rows, table, of_two):
    """Labels of a candidate that both models retrieved count once, whether the models are tables or a column."""
    reversed_rows = [(*row[:2], None if row[2] is None else -row[2], *row[3:]) for row in rows]
    other = spark.createDataFrame(reversed_rows, SCHEMA)
    result = evaluate({"a": table, "b": other}, None, METRICS, by="language", **COLUMNS)
    of_column = table.selectExpr("*", "'a' model").union(other.selectExpr("*", "'b' model"))
    assert evaluate(of_column, None, METRICS, by="language", model="model", **COLUMNS).summary == result.summary
    ours = {(row.slice, row.metric): row.mean for row in result.summary if row.model == "a"}
    assert ours == {(row.slice, row.metric): row.mean for row in of_two.summary}
    assert result.qualities["a"].n_labels == of_two.data_quality.n_labels
    assert result.qualities["a"].n_duplicate_labels == 0
    for notes in (result.models_table().notes, merge([result, result]).notes):
        assert NOTE_OF_RETRIEVED_LABELS in notes


def test_comparisons_say_whose_labels_are_in_its_predictions(table):
    """Two actions: of a comparison in which both models have one long table, and of one in which only the first has."""
    long = {name: score_users(table, None, "recall@5", **COLUMNS) for name in "ab"}
    assert NOTE_OF_RETRIEVED_LABELS in compare(long, baseline="a", replicates=9).notes
    labels = table.where("label is not null").drop("score")
    other = score_users(table.where("score is not null").drop("label"), labels, "recall@5", **COLUMNS)
    notes = compare({"a": long["a"], "b": other}, baseline="a", replicates=9).notes
    assert f"'a': {NOTE_OF_RETRIEVED_LABELS}" in notes


def test_columns_that_differ_between_models_are_named(table):
    strings = table.withColumns({name: table[name].cast("string") for name in ("query", "label")})
    differ = "the column '{}' is {} in predictions of model 'a' and string in those of 'b'; cast one of them"
    cases = [
        (strings, {}, f"{differ.format('query', 'bigint')}; {differ.format('label', 'double')}"),
        (table.withColumn("language", table.label), {"by": "language"}, "'language' is string in predictions of model"),
        (table.drop("language"), {"facts": Facts(subtopic="language")}, "model 'b' has no column 'language'; add it"),
    ]
    for other, options, words in cases:
        with pytest.raises(InputError, match=re.escape(words)):
            evaluate({"a": table, "b": other}, None, METRICS, **COLUMNS, **options)


def test_ranks_may_stand_in_the_place_of_scores_and_nan_of_pandas_is_missing(rows, of_two):
    """A merge of pandas leaves NaN where a row has no rank or no label."""
    ranked = pd.DataFrame(rows, columns=["query", "chunk", "score", "label", "language"])
    ranked["position"] = ranked.groupby("query").score.rank("dense", ascending=False)
    assert ranked[["position", "label"]].isna().any().all()
    columns = {**COLUMNS, "rank": "Position"}
    del columns["score"]
    assert totals(evaluate(ranked, None, METRICS, **columns)) == totals(of_two)


def dcg(grades):
    return sum((2.0**grade - 1) / math.log2(place + 2) for place, grade in enumerate(grades))


def test_without_ids_the_lowest_grade_of_equal_scores_comes_first(spark, rows):
    """Whatever the order of rows and partitions; an oracle that sorts each list has the same values."""
    retrieved = [(query, score, grade) for query, _, score, grade, _ in rows if score is not None]
    expected = {}
    for query, group in groupby(sorted(retrieved, key=lambda row: row[0]), key=lambda row: row[0]):
        listed = sorted(group, key=lambda row: (-row[1], -1 if row[2] is None else row[2]))
        grades = [grade or 0.0 for *_, grade in listed]
        ideal = dcg(sorted(grades, reverse=True)[:5])
        expected[query] = dcg(grades[:5]) / ideal if ideal else math.nan
    metric = "ndcg(gain='exponential', ideal='labels')@5"
    columns = {**COLUMNS, "item": None}
    for order, n_partitions in ((retrieved, 1), (retrieved[::-1], 4)):
        frame = spark.createDataFrame(order, "query long, score double, label double").repartition(n_partitions)
        values = score_users(frame, None, {"ndcg": metric}, **columns).select("query", "ndcg").toPandas()
        assert dict(values.itertuples(index=False)) == pytest.approx(expected, abs=1e-12, nan_ok=True)
    # Slices take a grouping of each side, with ids that are the same in both.
    once = evaluate(frame, None, {"ndcg": metric}, **columns)
    apart = evaluate(frame.withColumn("part", frame["query"] % 2), None, {"ndcg": metric}, by="part", **columns)
    assert once["ndcg"] == pytest.approx(math.fsum(filter(math.isfinite, expected.values())) / once.summary[0].n_users)
    assert once.summary[0].fingerprints.items() <= apart.summary[0].fingerprints.items()
    assert (once["ndcg"], once.data_quality) == (apart["ndcg"], apart.data_quality)


def test_ties_can_be_averaged_without_ids(spark):
    """Two candidates of equal score, one of them relevant: rank 1 or 2 is as likely."""
    table = spark.createDataFrame([("q", 0.5, 1), ("q", 0.5, 0)], "query string, score double, label int")
    columns = {**COLUMNS, "item": None}
    assert evaluate({"dense": table}, None, "rr", **columns)["rr"] == 0.5
    for options, value in (({"ties": "item_desc"}, 1.0), ({"dialect": "trec_eval"}, 0.5), ({"ties": "average"}, 0.75)):
        assert evaluate(table, None, "rr", **columns, **options)["rr"] == value
    averaged = evaluate(table, None, "ndcg", **columns, dialect="sklearn")
    assert averaged["ndcg"] == pytest.approx((1 + 1 / math.log2(3)) / 2)
    ordered = evaluate(table, None, "ndcg", **columns, dialect="lightgbm")
    assert ordered["ndcg"] == pytest.approx(1 / math.log2(3))
    assert "Rows have none, and stand with the lowest grade first: the values of 1 user depend on it" in str(ordered)


def test_a_row_without_score_and_label_is_not_lost(spark):
    listed = [(1, 1, 0.5, 1.0), (1, 2, None, None), (1, 3, 0.2, math.nan)]
    table = spark.createDataFrame(listed, SCHEMA.rpartition(",")[0])
    words = r"cannot be ranked: 1 \(null score: 1, for example query=1, item=2.*NaN relevance: 1.*missing score or label is null"
    with pytest.raises(DataError, match=words) as refused:
        evaluate(table, None, "rr", **COLUMNS)
    assert refused.value.counts == {"n_invalid_predictions": 1, "n_invalid_labels": 1}
    reasons = {row.reason for row in quarantine(table, None, "rr", **COLUMNS).collect()}
    assert reasons == {"null score", "NaN relevance"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"relevance": None}, "name relevance= and either score= or rank="),
        ({"score": None}, "name relevance= and either score= or rank="),
        ({"rank": "score"}, "name relevance= and either score= or rank="),
        ({"item": "doc"}, "no column 'doc' (item=);"),
        ({"item": "doc"}, "If rows name no item, pass item=None"),
        ({"item": ("chunk", "chunk")}, "is for two tables"),
        ({"score": "scor", "relevance": "lable"}, "did you mean 'score'?"),
        ({"score": "scor", "relevance": "lable"}, "did you mean 'label'?"),
        ({"user": None}, "name the column that says which user or query"),
        ({"item": None, "model": "language"}, "several models cannot do without"),
        ({"item": None, "facts": True}, "tables of items in facts= cannot do without"),
    ],
)
def test_a_wrong_call_says_what_to_write(table, changes, words):
    changes = {**changes, **({"facts": Facts(items=table)} if "facts" in changes else {})}
    with pytest.raises(InputError, match=re.escape(words)):
        evaluate(table, None, "rr", **{**COLUMNS, **changes})


NAN, INF = math.nan, math.inf
OF_BOTH = {"score": "score", "relevance": "rating", "relevance_threshold": 3.0}
# Users, items, scores and ratings that are good, twice there, missing, or no numbers.
ROWS_OF_BOTH = [
    (1, 10, 0.9, 5.0), (1, 11, 0.8, 1.0), (1, 12, 0.7, 4.0), (1, 12, 0.6, 4.0), (1, 13, 0.7, 2.0),
    (2, 10, None, 5.0), (2, 11, NAN, 3.0), (2, 12, 0.1, None), (2, None, 0.3, 4.0), (2, 13, 0.2, NAN),
    (3, 10, INF, 4.0), (3, 11, 0.5, 3.0), (3, 12, 0.5, 5.0), (4, 10, 0.1, 1.0),
    (None, 10, 0.9, 5.0), (None, None, None, None),
]  # fmt: skip


@pytest.fixture(scope="module")
def both(spark):
    frame = spark.createDataFrame(ROWS_OF_BOTH, "user int, item int, score double, rating double")
    many = spark.range(200).selectExpr("int(5 + id % 5)", "int(id)", "id * 7 % 40 / 40", "id % 6 * 1.0D")
    return frame.union(many).repartition(3)


BAD = {"invalid_predictions": "drop", "invalid_labels": "drop"}
DUPLICATES = {**BAD, "duplicate_predictions": "drop", "infinite_scores": "drop"}
CALLS = [
    {"on_invalid": "drop"},
    {"on_invalid": DUPLICATES},
    {"on_invalid": BAD, "metrics": ["ap@3", "recall@2"], "ties": "average"},
    {"on_invalid": BAD, "metrics": ["precision@2", "ap@3"], "dialect": "mllib", "ci": "bca"},
    # What follows takes a grouping of its own.
    {"on_invalid": "drop", "users": [0, 1, 99]},
    {"on_invalid": BAD, "by": "country", "user_weight": "spend"},
]


def given(rows, options):
    """Rows, metrics and options for them; nothing stands twice unless duplicates are dropped."""
    asked = {**OF_BOTH, "metrics": ["ndcg@2", "ap@3", "recall@2", "hit_rate@1"], **options}
    if asked["on_invalid"] not in ("drop", DUPLICATES):
        rows = rows.where("score is null or score <> 0.6D")
    if "users" in asked:
        asked["users"] = rows.sparkSession.createDataFrame([(user,) for user in asked["users"]], "user int")
    if "by" in asked:
        rows = rows.selectExpr("*", "if(user < 3, 'DE', 'AT') country", "user * 2.0D spend").where("user is not null")
    return rows, asked.pop("metrics"), asked


@pytest.mark.parametrize("options", CALLS, ids=str)
@pytest.mark.filterwarnings("ignore:.*have an infinite score")
def test_a_table_given_twice_has_the_figures_of_two(both, options):
    table, metrics, asked = given(both, options)
    together, of_two = (evaluate(table, labels, metrics, **asked) for labels in (table, table.select("*")))
    assert repr(together.summary) == repr(of_two.summary)
    assert together.data_quality == of_two.data_quality


@pytest.mark.parametrize(
    ("item", "rr"), [(("ranked", "wanted"), 0.5), (("ranked", "target"), 0.5), (("target", "wanted"), 1.0)], ids=str
)
def test_a_table_given_twice_may_have_arrays(spark, item, rr):
    schema = "user int, ranked array<string>, wanted array<string>, target string, score double"
    table = spark.createDataFrame([(1, ["x", "y"], ["y"], "y", 0.5)], schema)
    score = {"score": "score"} if item[0] == "target" else {}
    assert totals(evaluate(table, table, "rr", item=item, **score)) == {"rr": rr}


def test_a_table_given_as_labels_may_be_one_of_several_models(spark):
    schema = "user int, item int, score double"
    table, other = (spark.createDataFrame(rows, schema) for rows in ([(1, 1, 0.5)], [(1, 1, 0.5), (1, 2, 0.9)]))
    result = evaluate({"same": table, "other": other}, table, "rr", score="score")
    assert {row.model: row.mean for row in result.summary} == {"same": 1.0, "other": 0.5}
