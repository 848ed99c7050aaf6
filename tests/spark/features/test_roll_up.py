"""Chunks rolled up to documents: the figures of tables that were rolled up before, whatever form tables and labels have."""

import re
import warnings

import pytest
from pyspark.sql import functions as F
from worlds.random_logs import random_logs

from spark_rankeval import Facts, Vectors, evaluate, quarantine, score_users, summarise
from spark_rankeval.errors import DataError, InputError, OptionError
from spark_rankeval.records.notes import NOTE_OF_CHUNK_LABELS, NOTE_OF_SHARED_CHUNKS, NOTES_OF_ROLL_UP

METRICS = ["ndcg(ideal='labels')@2", "ap@3", "recall@2", "precision@2", "rr@4"]
COLUMNS = {"user": "query", "item": "chunk", "score": "score", "relevance": "grade"}
DOCUMENT = "chunk % 9"


@pytest.fixture(scope="module")
def logs():
    return random_logs(40, 5, seed=3)


@pytest.fixture(scope="module")
def predictions(spark, logs):
    frame = spark.createDataFrame(logs.prediction_rows, "query long, chunk long, score double")
    return frame.selectExpr("*", f"{DOCUMENT} document").repartition(3)


@pytest.fixture(scope="module")
def labels(spark, logs):
    """Labels of chunks, with the documents that these are of."""
    frame = spark.createDataFrame(logs.label_rows, "query long, chunk long, grade double")
    return frame.selectExpr("*", f"{DOCUMENT} document", "if(query % 3 = 0, 'at', 'de') language")


def best_of(predictions):
    return predictions.groupBy("query", "document").agg(F.max("score").alias("score"))


def highest_of(labels):
    return labels.groupBy("query", "document").agg(F.max("grade").alias("grade"), F.max("language").alias("language"))


def means(result):
    return {(row.model, row.slice, row.metric): (row.mean, row.n_users, row.n_undefined) for row in result.summary}


@pytest.fixture(scope="module")
def documents(predictions, labels):
    """The result of tables without chunks."""
    columns = {**COLUMNS, "item": "document"}
    return evaluate(best_of(predictions), highest_of(labels), METRICS, by="language", **columns)


@pytest.fixture(scope="module")
def rolled_up(predictions, labels):
    return evaluate(predictions, labels, METRICS, by="language", roll_up="document", **COLUMNS)


def test_it_has_the_figures_of_documents(rolled_up, documents):
    assert means(rolled_up) == means(documents)
    ours, theirs = rolled_up.data_quality, documents.data_quality
    assert (ours.n_predictions, ours.n_labels) == (theirs.n_predictions, theirs.n_labels)
    assert NOTES_OF_ROLL_UP["documents"] in rolled_up.notes
    assert NOTES_OF_ROLL_UP["documents"] in summarise(rolled_up.per_user).notes
    assert not any(note in documents.notes for note in NOTES_OF_ROLL_UP.values())


def test_chunks_take_places(spark):
    """Chunks a1 a2 b1 c1: document b stands at place 2 of documents and at place 3 of chunks."""
    predictions = spark.createDataFrame(
        [(1, "a", 0.9), (1, "a", 0.8), (1, "b", 0.7), (1, "c", 0.6)], "query int, document string, score double"
    )
    labels = spark.createDataFrame([(1, "b"), (1, "b"), (1, "c")], "query int, document string")
    columns = {"user": "query", "score": "score", "roll_up": "document"}
    expected = {"documents": (1 / 2, 1 / 2, 1.0), "chunks": (1 / 3, 0.0, 1 / 2)}
    for k_counts, values in expected.items():
        result = evaluate(predictions, labels, ["rr", "precision@2", "recall@3"], k_counts=k_counts, **columns)
        assert (result["rr"], result["precision@2"], result["recall@3"]) == values
        assert NOTES_OF_ROLL_UP[k_counts] in result.notes


def test_labels_of_chunks_get_documents_from_items(predictions, labels, rolled_up):
    """Also predictions do; and a chunk that no list has counts as its document."""
    chunks = predictions.sparkSession.range(40).selectExpr(
        "cast(id as int) chunk", f"cast({DOCUMENT.replace('chunk', 'id')} as int) document"
    )
    options = {**COLUMNS, "roll_up": "document", "by": "language", "facts": Facts(items=chunks)}
    result = evaluate(predictions.drop("document"), labels.drop("document"), METRICS, **options)
    assert means(result) == means(rolled_up)
    assert NOTE_OF_CHUNK_LABELS not in result.notes


def test_labels_of_chunks_get_documents_from_the_lists(spark):
    """Also from lists of others. Each of the two chunks that no list has is a document of its own, which was missed."""
    rows = [(1, 1, 7, 0.9), (1, 2, 8, 0.8), (2, 3, 9, 0.9)]
    labels = spark.createDataFrame([(1, 2), (1, 3), (1, 4), (1, 5)], "query int, chunk int")
    for kind in ("int", "string"):
        table = spark.createDataFrame(rows, "query int, chunk int, document int, score double")
        table = table.withColumn("document", F.col("document").cast(kind))
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


@pytest.mark.parametrize("k_counts", ["documents", "chunks"])
def test_pruning_changes_no_value(spark, k_counts):
    """A user has 300 chunks of 30 documents: the best of few chunks would be those of few documents."""
    chunks = spark.range(6000).selectExpr(
        "id % 20 query", "(id * 37) div 20 % 30 document", "-(id div 200) * 1.0D score"
    )
    labels = spark.range(200).selectExpr("id % 20 query", "id % 30 document")
    options = {"user": "query", "score": "score", "roll_up": "document", "k_counts": k_counts}
    pruned, whole = (
        score_users(chunks, labels, ["recall@5", "rr@5"], prune=prune, **options).drop("hangs_on_tie")
        for prune in ("auto", "never")
    )
    assert sorted(pruned.drop("n_predictions").collect()) == sorted(whole.drop("n_predictions").collect())


def test_a_row_without_a_document_is_bad_data(predictions, labels):
    bad = predictions.withColumn("document", F.expr("if(chunk = 7, null, document)"))
    n_bad = bad.where("document is null").count()
    options = {**COLUMNS, "roll_up": "document"}
    with pytest.raises(DataError, match=rf"cannot be ranked: {n_bad} \(null prediction item"):
        evaluate(bad, labels, "rr", **options)
    rows = quarantine(bad, labels, "rr", **options).collect()
    assert [row.reason for row in rows] == ["null prediction item"] * n_bad


def test_a_chunk_of_two_documents_has_none(spark, labels):
    predictions = spark.createDataFrame([(1, 1, 0.5), (1, 2, 0.4)], "query long, chunk long, score double")
    chunks = spark.createDataFrame([(1, 7), (1, 8), (2, 9), (2, 9)], "chunk long, document long")
    options = {**COLUMNS, "roll_up": "document", "facts": Facts(items=chunks)}
    with pytest.raises(
        DataError, match=r"1 \(null prediction item.*An item here is the document of a chunk.*several\. Otherwise"
    ):
        evaluate(predictions, labels, "rr", **options)


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


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        (
            {"roll_up": "documnt"},
            InputError,
            "predictions has no column 'documnt' (roll_up=); did you mean 'document'?",
        ),
        (
            {"roll_up": ("document", "page")},
            InputError,
            "labels has no column 'page' (roll_up=); it has: query, chunk,",
        ),
        (
            {"roll_up": ("document", "document", "document")},
            InputError,
            "roll_up must be one column of documents, or two",
        ),
        ({"roll_up": 3}, InputError, "roll_up must be one column of documents, or two"),
        ({"roll_up": None, "k_counts": "chunks"}, OptionError, "name the column of documents with roll_up="),
        ({"k_counts": "places"}, OptionError, "k_counts must be one of 'documents', 'chunks'; got 'places'"),
        ({"k_counts": "chunks", "ties": "average"}, OptionError, "no mean over the orders of equal scores"),
        ({"exclude": "chunk"}, InputError, "exclude has no column 'document' (roll_up=)"),
        ({"items": "string"}, InputError, "are bigint, and those with documents are string. Cast one of them"),
        ({"labels": "string"}, InputError, "items have different types: 'document' of predictions is bigint"),
        ({"vectors": True}, InputError, "roll_up cannot be combined with Vectors"),
        ({"arrays": True}, InputError, "needs two names, roll_up=(predictions, labels); got 'document'"),
    ],
)
def test_a_wrong_call_says_what_to_write(predictions, labels, changes, error, words):
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
    with pytest.raises(error, match=re.escape(words)):
        evaluate(predictions, labels, "rr", **options)
