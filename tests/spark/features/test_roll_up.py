"""Chunks: rolled up to documents as tables that were rolled up before, in any form, and labelled by spans of documents."""

import random
import re
import warnings

import pytest
from pyspark.sql import functions as F
from worlds.random_logs import random_logs

from spark_rankeval import Facts, Vectors, evaluate, labels_of_spans, quarantine, summarise
from spark_rankeval.errors import DataError, InputError, OptionError
from spark_rankeval.records.notes import NOTE_OF_CHUNK_LABELS, NOTE_OF_SHARED_CHUNKS, NOTES_OF_ROLL_UP

METRICS = ["ndcg(ideal='labels')@2", "ap@3", "recall@2", "precision@2", "rr@4"]
COLUMNS = {"user": "query", "item": "chunk", "score": "score", "relevance": "grade"}
DOCUMENT = "chunk % 9"


@pytest.fixture(scope="module")
def predictions(spark):
    rows = random_logs(40, 5, seed=3).prediction_rows
    frame = spark.createDataFrame(rows, "query long, chunk long, score double")
    return frame.selectExpr("*", f"{DOCUMENT} document").repartition(3)


@pytest.fixture(scope="module")
def labels(spark):
    """Labels of chunks, with the documents that these are of."""
    frame = spark.createDataFrame(random_logs(40, 5, seed=3).label_rows, "query long, chunk long, grade double")
    return frame.selectExpr("*", f"{DOCUMENT} document", "if(query % 3 = 0, 'at', 'de') language")


def best_of(predictions):
    return predictions.groupBy("query", "document").agg(F.max("score").alias("score"))


def highest_of(labels):
    return labels.groupBy("query", "document").agg(F.max("grade").alias("grade"), F.max("language").alias("language"))


def means(result):
    return {(row.model, row.slice, row.metric): (row.mean, row.n_users, row.n_undefined) for row in result.summary}


@pytest.fixture(scope="module")
def rolled_up(predictions, labels):
    return evaluate(predictions, labels, METRICS, by="language", roll_up="document", **COLUMNS)


def test_it_has_the_figures_of_documents(predictions, labels, rolled_up):
    """Those of tables without chunks."""
    columns = {**COLUMNS, "item": "document"}
    documents = evaluate(best_of(predictions), highest_of(labels), METRICS, by="language", **columns)
    assert means(rolled_up) == means(documents)
    ours, theirs = rolled_up.data_quality, documents.data_quality
    assert (ours.n_predictions, ours.n_labels) == (theirs.n_predictions, theirs.n_labels)
    assert NOTES_OF_ROLL_UP["documents"] in rolled_up.notes
    assert NOTES_OF_ROLL_UP["documents"] in summarise(rolled_up.per_user).notes
    assert not any(note in documents.notes for note in NOTES_OF_ROLL_UP.values())


@pytest.mark.parametrize(("k_counts", "values"), [("documents", [1 / 2, 1 / 2, 1.0]), ("chunks", [1 / 3, 0.0, 1 / 2])])
def test_chunks_take_places(spark, k_counts, values):
    """Chunks a1 a2 b1 c1: document b stands at place 2 of documents and at place 3 of chunks."""
    rows = [(1, "a", 0.9), (1, "a", 0.8), (1, "b", 0.7), (1, "c", 0.6)]
    predictions = spark.createDataFrame(rows, "query int, document string, score double")
    labels = spark.createDataFrame([(1, "b"), (1, "b"), (1, "c")], "query int, document string")
    columns = {"user": "query", "score": "score", "roll_up": "document", "k_counts": k_counts}
    result = evaluate(predictions, labels, ["rr", "precision@2", "recall@3"], **columns)
    assert [row.mean for row in result.summary] == values
    assert NOTES_OF_ROLL_UP[k_counts] in result.notes


def test_labels_of_chunks_get_documents_from_items(spark, predictions, labels, rolled_up):
    """Also predictions do; and a chunk that no list has counts as its document."""
    chunks = spark.range(40).selectExpr("cast(id as int) chunk", "cast(id % 9 as int) document")
    options = {**COLUMNS, "roll_up": "document", "by": "language", "facts": Facts(items=chunks)}
    result = evaluate(predictions.drop("document"), labels.drop("document"), METRICS, **options)
    assert means(result) == means(rolled_up)
    assert NOTE_OF_CHUNK_LABELS not in result.notes


@pytest.mark.parametrize("kind", ["int", "string"])
def test_labels_of_chunks_get_documents_from_the_lists(spark, kind):
    """Also from lists of others. Each of the two chunks that no list has is a document of its own, which was missed."""
    documents = [7, 8, 9] if kind == "int" else ["7", "8", "9"]
    rows = [(1, 1, documents[0], 0.9), (1, 2, documents[1], 0.8), (2, 3, documents[2], 0.9)]
    table = spark.createDataFrame(rows, f"query int, chunk int, document {kind}, score double")
    labels = spark.createDataFrame([(1, 2), (1, 3), (1, 4), (1, 5)], "query int, chunk int")
    columns = {"user": "query", "item": "chunk", "score": "score", "roll_up": "document"}
    result = evaluate(table, labels, ["recall@5", "rr"], **columns)
    assert (result["recall@5"], result["rr"], result.data_quality.n_labels) == (1 / 4, 1 / 2, 4)
    assert NOTE_OF_CHUNK_LABELS in result.notes


def test_a_long_table_has_documents_with_and_without_ids_of_chunks(predictions, labels, rolled_up):
    keys = ["query", "chunk", "document"]
    table = predictions.join(labels.drop("language"), keys, "full")
    for item in ("chunk", None):
        result = evaluate(table, None, METRICS, roll_up="document", **{**COLUMNS, "item": item})
        totals = {(row.metric, row.mean) for row in result.summary}
        assert totals == {(row.metric, row.mean) for row in rolled_up.summary if row.slice == "all"}


def test_arrays_name_documents_in_a_field_or_beside_the_items(predictions, labels, rolled_up):
    lists = predictions.groupBy("query").agg(F.collect_list(F.struct("chunk", "document", "score")).alias("chunks"))
    columns = {**COLUMNS, "by": "language"}
    of_structs = evaluate(lists, labels, METRICS, roll_up="document", **columns)
    assert means(of_structs) == means(rolled_up)
    parallel = lists.selectExpr("query", "chunks.document documents", "chunks.score score")
    beside = evaluate(parallel, labels, METRICS, roll_up=("documents", "document"), **columns)
    assert means(beside) == means(rolled_up)


def test_exclude_takes_documents_out(predictions, labels):
    exclude = labels.where("grade < 2").select("query", "document")
    with warnings.catch_warnings(action="ignore"):
        result = evaluate(predictions, labels, METRICS, roll_up="document", exclude=exclude, **COLUMNS)
        columns = {**COLUMNS, "item": "document"}
        expected = evaluate(best_of(predictions), highest_of(labels), METRICS, exclude=exclude, **columns)
    assert means(result) == means(expected)


def test_a_row_without_a_document_is_bad_data(predictions, labels):
    bad = predictions.withColumn("document", F.expr("if(chunk = 7, null, document)"))
    options = {**COLUMNS, "roll_up": "document"}
    reasons = [row.reason for row in quarantine(bad, labels, "rr", **options).collect()]
    assert set(reasons) == {"null prediction item"}
    with pytest.raises(DataError, match=rf"cannot be ranked: {len(reasons)} \(null prediction item"):
        evaluate(bad, labels, "rr", **options)


def test_a_chunk_of_two_documents_has_none(spark, labels):
    predictions = spark.createDataFrame([(1, 1, 0.5), (1, 2, 0.4)], "query long, chunk long, score double")
    chunks = spark.createDataFrame([(1, 7), (1, 8), (2, 9), (2, 9)], "chunk long, document long")
    words = r"1 \(null prediction item.*An item here is the document of a chunk.*several\. Otherwise"
    with pytest.raises(DataError, match=words):
        evaluate(predictions, labels, "rr", roll_up="document", facts=Facts(items=chunks), **COLUMNS)


def test_models_may_name_chunks_differently(spark):
    """Four evaluations: documents in predictions, in items with models, in items of one model, and in items that contradict each other."""
    documents = {"a": {1: 7, 2: 7, 3: 8}, "b": {1: 7, 2: 8, 3: 9}}
    rows = [(1, chunk, -chunk, name, each[chunk]) for name, each in documents.items() for chunk in each]
    predictions = spark.createDataFrame(rows, "query int, chunk int, score int, model string, document int")
    labels = spark.createDataFrame([(1, 8, 1), (1, 9, 2)], "query int, document int, grade int")
    options = {**COLUMNS, "roll_up": "document"}
    expected = {("a", "rr"): 1 / 2, ("b", "rr"): 1 / 2, ("a", "recall@3"): 1 / 2, ("b", "recall@3"): 1.0}
    items, ids = predictions.select("model", "chunk", "document"), predictions.drop("document")
    for table, facts in ((predictions, Facts()), (ids, Facts(items=items))):
        result = evaluate(table, labels, ["rr", "recall@3"], model="model", facts=facts, **options)
        assert {(row.model, row.metric): row.mean for row in result.summary} == expected
        assert NOTE_OF_SHARED_CHUNKS not in result.notes
    models = {name: ids.where(f"model = '{name}'") for name in documents}
    of_one = evaluate(models, labels, "rr", facts=Facts(items=items.where("model = 'a'")), **options)
    assert NOTE_OF_SHARED_CHUNKS in of_one.notes
    assert NOTE_OF_SHARED_CHUNKS in summarise(of_one.per_user).notes
    with pytest.raises(DataError, match="these chunks have none, or several; if models differ in what an id means"):
        evaluate(models, labels, "rr", facts=Facts(items=items), **options)


WRONG = [
    ({"roll_up": "documnt"}, "predictions has no column 'documnt' (roll_up=); did you mean 'document'?"),
    ({"roll_up": ("document", "page")}, "labels has no column 'page' (roll_up=); it has: query, chunk,"),
    ({"roll_up": ("document", "document", "document")}, "roll_up must be one column of documents, or a tuple of two"),
    ({"roll_up": ["document", "language"]}, "roll_up must be one column of documents, or a tuple of two"),
    ({"roll_up": 3}, "roll_up must be one column of documents, or a tuple of two"),
    ({"roll_up": None, "k_counts": "chunks"}, "name the column of documents with roll_up="),
    ({"k_counts": "places"}, "k_counts must be one of 'documents', 'chunks'; got 'places'"),
    ({"k_counts": "chunks", "ties": "average"}, "no mean over the orders of equal scores"),
    ({"exclude": "chunk"}, "exclude has no column 'document' (roll_up=)"),
    ({"items": "string"}, "are bigint, and those with documents are string. Cast one of them"),
    ({"labels": "string"}, "items have different types: 'document' of predictions is bigint"),
    ({"vectors": True}, "roll_up cannot be combined with Vectors"),
    ({"arrays": True}, "needs two names, roll_up=(predictions, labels); got 'document'"),
]


@pytest.mark.parametrize(("changes", "words"), WRONG)
def test_a_wrong_call_says_what_to_write(predictions, labels, changes, words):
    options = {**COLUMNS, "roll_up": "document", **changes}
    if "exclude" in changes:
        options["exclude"] = labels.select("query", "chunk")
    if kind := options.pop("items", None):
        items = predictions.select(F.col("chunk").cast(kind), "document")
        options["facts"], predictions = Facts(items=items), predictions.drop("document")
    if kind := options.pop("labels", None):
        labels = labels.withColumn("document", F.col("document").cast(kind))
    if options.pop("vectors", False):
        predictions = Vectors(predictions, predictions)
    if options.pop("arrays", False):
        labels, options = None, {"roll_up": "document"}
    of_options = "k_counts" in changes
    with pytest.raises(OptionError if of_options else InputError, match=re.escape(words)):
        evaluate(predictions, labels, "rr", **options)


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
        ({"document": "documnt"}, "chunks has no column 'documnt'; did you mean 'document'?"),
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
