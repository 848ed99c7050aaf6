"""Chunks: rolled up to documents as loops and as tables of documents have it, and labelled by spans of documents."""

import math
import random
import re

import pytest
from oracles.rankings import User, value
from oracles.roll_up import labels_of, places_of
from pyspark.sql import functions as F
from worlds.random_logs import random_logs

from spark_rankeval import evaluate, labels_of_spans, quarantine, roll_up
from spark_rankeval.errors import DataError, InputError, OptionError

METRICS = ["ndcg(ideal='labels')@2", "ap@3", "recall@2", "precision@2", "rr@4"]
COLUMNS = {"user": "query", "item": "document", "score": "score", "relevance": "grade"}
LOGS = random_logs(40, 5, seed=3)
DOCUMENT = "chunk % 9"


@pytest.fixture(scope="module")
def predictions(spark):
    frame = spark.createDataFrame(LOGS.prediction_rows, "query long, chunk long, score double")
    return frame.selectExpr("*", f"{DOCUMENT} document").repartition(3)


@pytest.fixture(scope="module")
def labels(spark):
    frame = spark.createDataFrame(LOGS.label_rows, "query long, chunk long, grade double")
    return frame.selectExpr("*", f"{DOCUMENT} document", "if(query % 3 = 0, 'at', 'de') language")


def rolled_up(predictions, labels, **options):
    options = {"user": "query", **options}
    return roll_up(predictions, "document", score="score", **options), roll_up(
        labels, "document", relevance="grade", **options
    )


def means(result):
    return {(row.model, row.slice, row.metric): (row.mean, row.n_users, row.n_undefined) for row in result.summary}


def test_it_has_the_figures_of_documents(predictions, labels):
    """Those of tables without chunks; in one table of two models, and in slices by a column of the labels, too."""
    both = predictions.withColumn("model", F.lit("old")).unionByName(
        predictions.selectExpr("query", "chunk", "-score score", "document", "'new' model")
    )
    best = both.groupBy("query", "document", "model").agg(F.max("score").alias("score"))
    highest = labels.groupBy("query", "document", "language").agg(F.max("grade").alias("grade"))
    lists = roll_up(both, "document", user="query", score="score", model="model")
    tables = lists, rolled_up(predictions, labels)[1]
    chunks, documents = (
        evaluate(*each, METRICS, by="language", model="model", **COLUMNS) for each in (tables, (best, highest))
    )
    assert means(chunks) == means(documents)
    assert chunks.data_quality.n_predictions == documents.data_quality.n_predictions
    assert chunks.data_quality.n_labels == documents.data_quality.n_labels
    assert lists.columns == both.columns


def test_chunks_take_places(predictions, labels):
    """Each metric of each user is that of a list in which the further chunks of a document are items that nobody labelled."""
    result = evaluate(*rolled_up(predictions, labels, k_counts="chunks"), ["rr", "precision@2", "recall@3"], **COLUMNS)
    table = result.per_user.toPandas().set_index("query")
    for user in range(40):
        places = places_of([(chunk % 9, score) for chunk, score in LOGS.predictions[user]])
        of = User(places, labels_of([(chunk % 9, grade) for chunk, grade in LOGS.labels[user]]))
        for column, metric, k in (("rr", "rr", None), ("precision_at_2", "precision", 2), ("recall_at_3", "recall", 3)):
            expected = value(metric, of, **({} if k is None else {"k": k}))
            assert table[column].get(user, math.nan) == pytest.approx(expected, abs=1e-12, nan_ok=True), (user, metric)


def test_of_equal_chunks_the_cheaper_one_is_the_best(spark):
    rows = [(1, "a", 0.5, 5.0), (1, "a", 0.5, 1.0), (1, "b", 0.4, 2.0)]
    table = spark.createDataFrame(rows, "user int, document string, score double, cost double").repartition(3)
    ranks = table.withColumn("score", 1 - F.col("score"))
    for kept in (
        roll_up(table, "document", score="score", cost="cost"),
        roll_up(ranks, "document", rank="score", cost="cost"),
    ):
        assert sorted((row.document, row.cost) for row in kept.collect()) == [("a", 1.0), ("b", 2.0)]


def test_one_long_table_has_the_figures_of_two(predictions, labels):
    """Also from pandas, where a missing score or grade is NaN."""
    both = predictions.join(labels.drop("language"), ["query", "chunk", "document"], "full")
    expected = means(evaluate(*rolled_up(predictions, labels), METRICS, **COLUMNS))
    for table in (both, both.toPandas()):
        rows = roll_up(table, "document", user="query", score="score", relevance="grade")
        assert means(evaluate(rows, None, METRICS, **COLUMNS)) == expected


def test_a_document_has_one_grade_for_all_models(spark):
    """Also if models find different chunks of it."""
    rows = [("old", 1, "a", 0.9, 0), ("new", 1, "a", 0.8, 2), ("new", 1, "b", 0.5, 1), ("old", 1, "b", 0.4, None)]
    table = spark.createDataFrame(rows, "model string, query int, document string, score double, grade int")
    rolled = roll_up(table, "document", user="query", score="score", relevance="grade", model="model")
    assert {(row.document, row.grade) for row in rolled.collect()} == {("a", 2), ("b", 1)}
    assert evaluate(rolled, None, "rr", model="model", **COLUMNS)["new", "rr"] == 1


def test_rows_that_cannot_be_ranked_stay(spark):
    rows = [(1, "a", 0.9), (1, "a", None), (1, "a", math.nan), (1, None, 0.8), (1, None, 0.8), (None, "a", 0.1)]
    predictions = spark.createDataFrame(rows, "query int, document string, score double")
    labels = spark.createDataFrame([(1, "a", 1), (1, "a", None)], "query int, document string, grade int")
    tables = rolled_up(predictions, labels)
    reasons = [row.reason for row in quarantine(*tables, "rr", **COLUMNS).collect()]
    assert sorted(reasons) == [
        "NaN score", "null prediction item", "null prediction item", "null relevance", "null score", "null user (query)",
    ]  # fmt: skip


WRONG = [
    ({"document": "documnt"}, InputError, "table has no column 'documnt' (document=); did you mean 'document'?"),
    ({"document": 3}, InputError, "document must be a column name; got 3"),
    ({"user": ["query", "quer"]}, InputError, "table has no column 'quer' (user=)"),
    ({"score": "score", "rank": "chunk"}, InputError, "score and rank are both given"),
    ({"score": "pages"}, InputError, "the column 'pages' (score=) has arrays; roll_up takes rows"),
    ({"k_counts": "places"}, OptionError, "k_counts must be one of 'documents', 'chunks'; got 'places'"),
    ({"table": {"old": 1}}, InputError, "table must be a table; got a dict"),
]


@pytest.mark.parametrize(("changes", "error", "words"), WRONG)
def test_a_wrong_call_says_what_to_write(predictions, changes, error, words):
    call = {
        "table": predictions.withColumn("pages", F.array("chunk")),
        "document": "document",
        "user": "query",
    } | changes
    with pytest.raises(error, match=re.escape(words)):
        roll_up(**call)


SPAN = "query int, document string, start int, end int, grade int"
CHUNK = "chunk int, document string, start int, end int"
NAMES = {"user": "query", "item": "chunk"}


def labels_by_loops(spans, chunks, overlap):
    """The highest grade of each chunk of a query; of a span that no chunk overlaps, None is the chunk."""
    labels = {}
    for query, document, start, end, grade in spans:
        overlapped = []
        for chunk, of, first, last in chunks:
            common = len(set(range(start, end)) & set(range(first, last)))
            if of == document and common and common >= overlap * min(end - start, last - first):
                overlapped.append(chunk)
        for chunk in overlapped or [None]:
            labels[query, chunk] = max(grade, labels.get((query, chunk), grade))
    return labels


@pytest.fixture(scope="module")
def spans_and_chunks():
    draw = random.Random(5)

    def places():
        start = draw.randrange(40)
        return draw.choice("abc"), start, start + draw.randrange(1, 15)

    spans = [(draw.randrange(12), *places(), draw.randrange(4)) for _ in range(60)]
    return spans, [(chunk, *places()) for chunk in range(15)]


@pytest.mark.parametrize("overlap", [0, 0.5, 1])
def test_chunks_that_overlap_spans_are_labelled(spark, spans_and_chunks, overlap):
    tables = [spark.createDataFrame(*table) for table in zip(spans_and_chunks, (SPAN, CHUNK), strict=True)]
    labels = labels_of_spans(*tables, relevance="grade", overlap=overlap, **NAMES)
    assert labels.columns == ["query", "chunk", "grade"]
    expected = labels_by_loops(*spans_and_chunks, overlap)
    assert {(row.query, row.chunk): row.grade for row in labels.collect()} == expected
    assert any(chunk is None for _, chunk in expected)


def test_a_span_without_a_chunk_and_a_grade_that_is_missing_are_not_hidden(spark):
    chunks = spark.createDataFrame([(1, "a", 0, 10), (2, "a", 10, 20)], CHUNK)
    spans = [(1, "a", 9, 11, 1), (1, "a", 20, 30, 1), (1, "a", 5, 5, 1), (2, "a", 0, 5, None), (2, "a", 5, 9, 2)]
    spans = spark.createDataFrame(spans, SPAN)
    predictions = spark.createDataFrame([(1, 2, 0.5)], "query int, chunk int, score double")
    labels = labels_of_spans(spans, chunks, relevance="grade", **NAMES)
    found = sorted((row.query, row.chunk or 0, row.grade) for row in labels.collect())
    assert found == [(1, 0, 1), (1, 1, 1), (1, 2, 1), (2, 1, None)]
    with pytest.raises(DataError, match="null label item: 1"):
        evaluate(predictions, labels.fillna(0, "grade"), "rr", score="score", **NAMES)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"overlap": 1.5}, "overlap must be a number from 0 to 1; got 1.5"),
        ({"document": "documnt"}, "chunks has no column 'documnt' (document=); did you mean 'document'?"),
        ({"start": None}, "start must be a column name; got None"),
        ({"start": "document"}, "the column 'document' must have whole numbers; it is string"),
        ({"document": "start", "start": "end"}, "documents have different types: 'start' is int in spans"),
    ],
)
def test_a_wrong_call_of_spans_says_what_to_write(spark, changes, words):
    spans, chunks = (spark.createDataFrame([], schema) for schema in (SPAN, CHUNK))
    if changes.get("document") == "start":
        chunks = chunks.selectExpr("chunk", "cast(start as string) start", "end")
    with pytest.raises(OptionError if "overlap" in changes else InputError, match=re.escape(words)):
        labels_of_spans(spans, chunks, **{**NAMES, **changes})
