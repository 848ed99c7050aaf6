"""One long table of users, candidates, scores and labels: the figures of two tables, with or without ids of items."""

import math
import re
from itertools import groupby

import pandas as pd
import pytest
from helpers.plans import plan_of
from worlds.random_logs import random_logs

from spark_rankeval import Facts, compare, evaluate, merge, quarantine, score_users, summarise
from spark_rankeval.errors import DataError, InputError
from spark_rankeval.records.notes import NOTE_OF_RETRIEVED_LABELS

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
    result = evaluate(table, None, METRICS, **COLUMNS)
    assert totals(result) == totals(of_two)
    assert result.summary[0].fingerprints.items() <= of_two.summary[0].fingerprints.items()
    assert NOTE_OF_RETRIEVED_LABELS in result.notes
    assert NOTE_OF_RETRIEVED_LABELS not in of_two.notes
    assert NOTE_OF_RETRIEVED_LABELS in summarise(score_users(table, None, METRICS, **COLUMNS)).notes


def test_slices_have_the_users_of_both_sides(table, of_two):
    assert means(evaluate(table, None, METRICS, by="language", **COLUMNS)) == means(of_two)


def test_several_models_share_their_labels(spark, rows, table, of_two):
    """Labels of a candidate that both models retrieved count once, whether the models are tables or a column."""
    reversed_rows = [(*row[:2], None if row[2] is None else -row[2], *row[3:]) for row in rows]
    other = spark.createDataFrame(reversed_rows, SCHEMA)
    result = evaluate({"a": table, "b": other}, None, METRICS, by="language", **COLUMNS)
    of_column = table.selectExpr("*", "'a' model").union(other.selectExpr("*", "'b' model"))
    assert evaluate(of_column, None, METRICS, by="language", model="model", **COLUMNS).summary == result.summary
    assert {(row.slice, row.metric): row.mean for row in result.summary if row.model == "a"} == {
        (row.slice, row.metric): row.mean for row in of_two.summary
    }
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
    words = (
        "the column 'query' is bigint in predictions of model 'a' and string in those of 'b'; cast one of them; the column 'label' is "
        "double in predictions of model 'a' and string in those of 'b'; cast one of them"
    )
    with pytest.raises(InputError, match=re.escape(words)):
        evaluate({"a": table, "b": strings}, None, METRICS, **COLUMNS)
    numbered = table.withColumn("language", table.label)
    with pytest.raises(InputError, match="the column 'language' is string in predictions of model 'a' and double"):
        evaluate({"a": table, "b": numbered}, None, METRICS, by="language", **COLUMNS)
    with pytest.raises(InputError, match="predictions of model 'b' has no column 'language'; add it"):
        evaluate({"a": table, "b": table.drop("language")}, None, METRICS, facts=Facts(subtopic="language"), **COLUMNS)


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
    assert evaluate(table, None, "rr", ties="item_desc", **columns)["rr"] == 1.0
    assert evaluate(table, None, "rr", dialect="trec_eval", **columns)["rr"] == 0.5
    result = evaluate(table, None, "rr", ties="average", **columns)
    assert result["rr"] == 0.75


def test_a_row_without_score_and_label_is_not_lost(spark):
    listed = [(1, 1, 0.5, 1.0), (1, 2, None, None), (1, 3, 0.2, math.nan)]
    table = spark.createDataFrame(listed, SCHEMA.rpartition(",")[0])
    words = r"cannot be ranked: 1 \(null score: 1, for example query=1, item=2.*NaN relevance: 1.*missing score or label is null"
    with pytest.raises(DataError, match=words) as refused:
        evaluate(table, None, "rr", **COLUMNS)
    assert refused.value.counts == {"n_invalid_predictions": 1, "n_invalid_labels": 1}
    reasons = {row.reason for row in quarantine(table, None, "rr", **COLUMNS).collect()}
    assert reasons == {"null score", "NaN relevance"}


@pytest.mark.not_on_sail("plans")
def test_it_is_shuffled_once(table):
    assert plan_of(score_users(table, None, METRICS, **COLUMNS)).count("Exchange hashpartitioning") == 1
    columns = {**COLUMNS, "item": None}
    assert plan_of(score_users(table, None, METRICS, **columns)).count("Exchange hashpartitioning") == 1


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
