"""Labels of chunks from labelled spans of documents, against loops over both."""

import random
import re

import pytest

from spark_rankeval import evaluate, labels_of_spans
from spark_rankeval.errors import DataError, InputError, OptionError

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
def rows():
    draw = random.Random(5)

    def places():
        start = draw.randrange(40)
        return draw.choice("abc"), start, start + draw.randrange(1, 15)

    spans = [(draw.randrange(12), *places(), draw.randrange(4)) for _ in range(60)]
    return spans, [(chunk, *places()) for chunk in range(15)]


@pytest.mark.parametrize("overlap", [0, 0.5, 1])
def test_chunks_that_overlap_spans_are_labelled(spark, rows, overlap):
    spans, chunks = spark.createDataFrame(rows[0], SPAN), spark.createDataFrame(rows[1], CHUNK)
    labels = labels_of_spans(spans, chunks, relevance="grade", overlap=overlap, **NAMES)
    assert labels.columns == ["query", "chunk", "grade"]
    expected = labels_by_loops(*rows, overlap)
    assert {(row.query, row.chunk): row.grade for row in labels.collect()} == expected
    assert any(chunk is None for _, chunk in expected)


def test_a_span_without_a_chunk_is_reported(spark):
    chunks = spark.createDataFrame([(1, "a", 0, 10), (2, "a", 10, 20)], CHUNK)
    spans = spark.createDataFrame([(1, "a", 9, 11, 1), (1, "a", 20, 30, 1), (1, "a", 5, 5, 1)], SPAN)
    predictions = spark.createDataFrame([(1, 2, 0.5)], "query int, chunk int, score double")
    labels = labels_of_spans(spans, chunks, **NAMES)
    assert sorted((row.query, row.chunk or 0) for row in labels.collect()) == [(1, 0), (1, 1), (1, 2)]
    with pytest.raises(DataError, match="null label item: 1"):
        evaluate(predictions, labels, "rr", score="score", **NAMES)


def test_a_grade_that_is_missing_is_not_hidden(spark):
    chunks = spark.createDataFrame([(1, "a", 0, 10)], CHUNK)
    spans = spark.createDataFrame([(1, "a", 0, 5, None), (1, "a", 5, 9, 2)], SPAN)
    assert [row.grade for row in labels_of_spans(spans, chunks, relevance="grade", **NAMES).collect()] == [None]


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"overlap": 1.5}, OptionError, "overlap must be a number from 0 to 1; got 1.5"),
        ({"document": "documnt"}, InputError, "chunks has no column 'documnt'; did you mean 'document'?"),
        ({"start": None}, InputError, "start must be a column name; got None"),
        ({"start": "document"}, InputError, "the column 'document' must have whole numbers; it is string"),
        (
            {"document": "start"},
            InputError,
            "documents have different types: 'start' is int in spans and string in chunks",
        ),
    ],
)
def test_a_wrong_call_says_what_to_write(spark, rows, changes, error, words):
    spans, chunks = spark.createDataFrame(rows[0], SPAN), spark.createDataFrame(rows[1], CHUNK)
    if changes == {"document": "start"}:
        chunks = chunks.selectExpr("chunk", "cast(start as string) start", "end")
        changes = {**changes, "start": "end"}
    with pytest.raises(error, match=re.escape(words)):
        labels_of_spans(spans, chunks, **{**NAMES, **changes})
