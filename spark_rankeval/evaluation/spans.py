"""Labels of chunks, made of labelled spans of documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.checks import as_names, check_table, is_number
from spark_rankeval.errors import InputError, OptionError, did_you_mean
from spark_rankeval.request.call import Table
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.sql import aggregate, call, common_id_type, find_column, named, select, when

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ITEM, _PLACES = "rankeval_item", ("rankeval_document", "rankeval_start", "rankeval_end")


@takes_local_tables
def labels_of_spans(
    spans: Table,
    chunks: Table,
    *,
    user: str | Sequence[str] = "user",
    item: str = "item",
    document: str = "document",
    start: str = "start",
    end: str = "end",
    relevance: str | Sequence[str] | None = None,
    overlap: float = 0.0,
) -> DataFrame:
    """Label the chunks that overlap labelled spans of documents, as a lazy table of labels for `evaluate`.

    A chunk and a span overlap if they share at least one character of the same document. With `overlap` they share at least this part of
    the shorter one. A chunk that overlaps several spans of a user has the highest grade. A span that no chunk overlaps gives a label
    without an item, which `evaluate` reports as an invalid label.

    Examples:
        >>> spans = spark.createDataFrame([(1, "d", 90, 130)], "user int, document string, start int, end int")
        >>> chunks = spark.createDataFrame([("d1", "d", 0, 100), ("d2", "d", 100, 200)], "item string, document string, start int, end int")
        >>> labels_of_spans(spans, chunks).orderBy("item").toPandas()
           user item
        0     1   d1
        1     1   d2
        >>> labels_of_spans(spans, chunks, overlap=0.5).toPandas()
           user item
        0     1   d2

    Args:
        spans: what is relevant: rows of a user, a document, and where the span starts and ends in it.
        chunks: rows of an item, the chunk, and the document that it is of, with its start and end.
        user: the column of `spans` that identifies a user or query, or a list of columns that do so together.
        item: the column of `chunks` that identifies a chunk.
        document: the column of documents in both tables.
        start: the column of both tables with the place of the first character; whole numbers.
        end: the column of both tables with the place after the last character.
        relevance: the column of `spans` with grades, or a list of such columns. None: labels have no grade.
        overlap: the least share of the shorter of both, from 0 to 1.

    Returns:
        a row for each user and chunk: the user's columns, the chunk, and the grades.

    Raises:
        InputError, OptionError: an argument is not valid.
    """
    users, grades = as_names("user", user), () if relevance is None else as_names("relevance", relevance)
    for name, value in {"item": item, "document": document, "start": start, "end": end}.items():
        if not isinstance(value, str):
            msg = f"{name} must be a column name; got {value!r}"
            raise InputError(msg)
    if not (is_number(overlap) and 0 <= overlap <= 1):
        msg = f"overlap must be a number from 0 to 1; got {overlap!r}"
        raise OptionError(msg)
    for role, table in (("spans", spans), ("chunks", chunks)):
        check_table(role, table)
    _check_columns(spans, chunks, (*users, *grades), item, (document, start, end))
    own_names = [f"rankeval_user_{index}" for index in range(len(users))]
    own_grades = [f"rankeval_grade_{index}" for index in range(len(grades))]
    ours = [*own_names, *own_grades, *(f"{name}_of_span" for name in _PLACES)]
    columns = [*users, *grades, document, start, end]
    rows = select(spans, *(named(name).alias(own) for name, own in zip(columns, ours, strict=True)))
    listed = select(
        chunks,
        *(named(name).alias(own) for name, own in zip((item, document, start, end), (_ITEM, *_PLACES), strict=True)),
    )
    # A span without a chunk stays, so that it is counted.
    joined = rows.join(listed, _overlaps(overlap), "left")
    # A grade that is missing must not hide behind that of another span.
    highest = [
        when(call("count", named(name)) == call("count", 1), call("max", named(name))).alias(name)
        for name in own_grades
    ]
    labels = (
        aggregate(joined, [*own_names, _ITEM], *highest)
        if highest
        else select(joined, *map(named, [*own_names, _ITEM])).distinct()
    )
    names = dict(zip((*users, item, *grades), (*own_names, _ITEM, *own_grades), strict=True))
    return labels.select(*(F.col(own).alias(name) for name, own in names.items()))


def _overlaps(share: float) -> Column:
    """Whether a span and a chunk overlap by at least this share of the shorter one."""
    document, start, end = ((F.col(name), F.col(f"{name}_of_span")) for name in _PLACES)
    common = F.least(*end) - F.greatest(*start)
    shorter = F.least(*(last - first for last, first in zip(end, start, strict=True)))
    return (document[0] == document[1]) & (common > 0) & (common >= share * shorter)


def _check_columns(
    spans: DataFrame, chunks: DataFrame, span_columns: Sequence[str], item: str, places: tuple[str, str, str]
) -> None:
    """Refuse tables that lack columns, places that are no whole numbers, and documents that do not compare."""
    needed = {"spans": (spans, (*span_columns, *places)), "chunks": (chunks, (item, *places))}
    problems = [
        f"{role} has no column {name!r}; {did_you_mean(name, table.columns)}it has: {', '.join(table.columns)}"
        for role, (table, names) in needed.items()
        for name in names
        if find_column(table, name) is None
    ]
    if problems:
        raise InputError("; ".join(dict.fromkeys(problems)))
    kinds = {
        role: [table.schema[str(find_column(table, name))].dataType for name in places]
        for role, (table, _) in needed.items()
    }
    problems = [
        f"{role}: the column {name!r} must have whole numbers; it is {kind.simpleString()}. Cast it"
        for role in needed
        for name, kind in zip(places[1:], kinds[role][1:], strict=True)
        if not isinstance(kind, T.IntegralType)
    ]
    one, other = kinds["spans"][0], kinds["chunks"][0]
    if common_id_type(one, other) is None:
        problems.append(
            f"documents have different types: {places[0]!r} is {one.simpleString()} in spans and {other.simpleString()} in chunks. Cast "
            "one of them"
        )
    if problems:
        raise InputError("; ".join(problems))
