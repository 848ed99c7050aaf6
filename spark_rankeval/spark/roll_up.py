"""Chunks that are rolled up: every table with the document of each chunk, so that documents can take the place of items."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import types as T

from spark_rankeval.checks import check_table
from spark_rankeval.errors import InputError, did_you_mean
from spark_rankeval.request.column_names import ColumnNames
from spark_rankeval.request.options import ScoringOptions, Table, Vectors
from spark_rankeval.spark.ids import common_id_type, usable
from spark_rankeval.spark.inputs import Model, Sources
from spark_rankeval.spark.sql_text import (
    Sql,
    aggregate,
    call,
    find_column,
    find_field,
    look_up,
    named,
    rows_of_all,
    select,
    text,
    when,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    Predictions = Table | Vectors | Mapping[str, Table | Vectors]

_CHUNK, _DOCUMENT, _LAST, _LABELLED = "roll_up_chunk_", "roll_up_document_", "last_document_", "labelled_chunk_"
_MODEL = "roll_up_model_"


@dataclass(frozen=True)
class RolledUp:
    """A call whose tables have documents, which its options name as items."""

    predictions: Predictions
    labels: DataFrame | None
    options: ScoringOptions
    are_chunks_labelled: bool = False  # whether predictions alone say which documents the labelled chunks are of
    are_ids_shared: bool = False  # whether one table says which documents the chunks of several models are of
    # The caller's tables to which documents were joined, by id() of the joined table.
    unjoined: Mapping[int, DataFrame] = field(default_factory=dict)

    def with_unjoined(self, sources: Sources) -> Sources:
        """The tables as they were read, each knowing the caller's table."""

        def with_table(model: Model) -> Model:
            source = model.source
            return model._replace(source=replace(source, unjoined=self.unjoined.get(id(source.frame))))

        return replace(sources, models=tuple(map(with_table, sources.models)))


def roll_up(predictions: Predictions, labels: DataFrame | None, options: ScoringOptions) -> RolledUp:
    """A call with the documents of all chunks, and with documents as items; as it is if nothing is rolled up.

    An `InputError` names all tables that lack documents.
    """
    if options.roll_up is None:
        return RolledUp(predictions, labels, options)
    tables: dict[str, Any] = dict(predictions) if isinstance(predictions, Mapping) else {"": predictions}
    names = _names_of(options, labels, tables.values())
    for table in tables.values():
        check_table("predictions", table)
    # A pair of names says that both tables have documents.
    may_lack = isinstance(options.roll_up, str)
    chunks = _chunks_of_items(options, names) if may_lack else None
    model_chunks = _chunks_of_items(options, names, options.model) if may_lack and options.model else None
    problems: list[str] = []
    rolled = {
        name: names.predictions.added("predictions", table, model_chunks or chunks, problems)
        for name, table in tables.items()
    }
    are_chunks_labelled, rolled_labels = False, labels
    if labels is not None:
        check_table("labels", labels)
        listed_chunks = _chunks_of_lists(rolled.values(), labels, names) if may_lack and chunks is None else None
        are_chunks_labelled = listed_chunks is not None
        rolled_labels = names.labels.added("labels", labels, chunks or listed_chunks, problems)
    if options.exclude is not None and not any(_has(options.exclude, side.document) for side in names):
        problems.append(
            f"exclude has no column {names.predictions.document!r} (roll_up=): lists that are rolled up leave out documents; it has: "
            f"{', '.join(options.exclude.columns)}"
        )
    if problems:
        raise InputError("; ".join(dict.fromkeys(problems)))
    has_models = len(tables) > 1 or options.model is not None
    is_joined = any(frame is not tables[name] for name, frame in rolled.items())
    item = options.roll_up if names.predictions.document != names.labels.document else names.predictions.document
    return RolledUp(
        rolled if isinstance(predictions, Mapping) else rolled[""],
        rolled_labels,
        replace(options, item=item),
        are_chunks_labelled,
        has_models and is_joined and model_chunks is None,
        {id(frame): tables[name] for name, frame in rolled.items() if frame is not tables[name]},
    )


class _Chunks(NamedTuple):
    """The document of each chunk."""

    frame: DataFrame  # a row for each chunk, without a document if its rows differ
    chunk: T.DataType
    document: T.DataType
    unknown: bool = False  # whether a chunk that is not here counts as a document of its own; else it has none
    model: str | None = None  # the column of models, if these name chunks differently

    @classmethod
    def of(cls, rows: DataFrame, *, unknown: bool, model: str | None = None) -> _Chunks:
        """Those of rows of chunks and documents under our names, of each model or of all."""
        keys = [_CHUNK] if model is None else [_MODEL, _CHUNK]
        ends = call("min", named(_DOCUMENT)).alias(_DOCUMENT), call("max", named(_DOCUMENT)).alias(_LAST)
        agreed = when(named(_DOCUMENT) == named(_LAST), named(_DOCUMENT)).alias(_DOCUMENT)
        kinds = rows.schema
        once = select(aggregate(rows, keys, *ends), *map(named, keys), agreed)
        return cls(once, kinds[_CHUNK].dataType, kinds[_DOCUMENT].dataType, unknown, model)

    def document_of(self, chunk: Sql) -> Sql:
        """The document of a chunk after the join with these."""
        if not self.unknown:
            return named(_DOCUMENT)
        is_unknown = named(_CHUNK).is_null() & chunk.is_not_null()
        if isinstance(self.document, T.StringType):
            return when(is_unknown, call("concat", text("unknown document of chunk "), chunk), named(_DOCUMENT))
        # The hash of a chunk is hardly ever the id of a document.
        return when(is_unknown, call("xxhash64", chunk), named(_DOCUMENT).cast(T.LongType()))


class _Side(NamedTuple):
    """The names of the columns of a table."""

    chunk: str | None
    document: str

    def added(self, role: str, frame: DataFrame, chunks: _Chunks | None, problems: list[str]) -> DataFrame:
        """The table with the document of each chunk; if it cannot have it, as it is, and a problem says why."""
        if _has(frame, self.document):
            return frame
        chunk = None if self.chunk is None else find_column(frame, self.chunk)
        if chunk is None or chunks is None or isinstance(frame.schema[chunk].dataType, T.ArrayType):
            problems.append(self._lack(role, frame))
            return frame
        kind = frame.schema[chunk].dataType
        common = common_id_type(chunks.chunk, kind)
        if common is None:
            problems.append(
                f"{role}: the items {chunk!r} are {kind.simpleString()}, and those with documents are {chunks.chunk.simpleString()}. Cast "
                f"one of them, or add the column {self.document!r}"
            )
            return frame
        own = usable(named(chunk), kind).cast(common)
        keys = {_CHUNK: usable(named(_CHUNK), chunks.chunk).cast(common)}
        is_same = own == named(_CHUNK)
        if chunks.model is not None:
            keys[_MODEL] = named(_MODEL)
            is_same &= named(chunks.model).cast("string") == named(_MODEL)
        documents = select(chunks.frame, *(key.alias(name) for name, key in keys.items()), named(_DOCUMENT))
        joined = look_up(frame, documents, is_same)
        columns = [named(name).column for name in frame.columns]
        return joined.select(*columns, chunks.document_of(own).column.alias(self.document))

    def _lack(self, role: str, frame: DataFrame) -> str:
        near = did_you_mean(self.document, frame.columns)
        return (
            f"{role} has no column {self.document!r} (roll_up=); {near}it has: {', '.join(frame.columns)}. Add the document of each "
            f"item, or pass facts=Facts(items=…), a table with the columns {self.chunk or 'item'!r} and {self.document!r}"
        )


class _Names(NamedTuple):
    """The names of both tables."""

    predictions: _Side
    labels: _Side


def _names_of(options: ScoringOptions, labels: DataFrame | None, tables: Iterable[object]) -> _Names:
    """The names of chunks and documents; an InputError if lists of this form cannot be rolled up."""
    documents = options.roll_up
    pair = (documents, documents) if isinstance(documents, str) else documents
    if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(name, str) for name in pair):
        msg = f"roll_up must be one column of documents, or a tuple of two (of predictions and of labels); got {documents!r}"
        raise InputError(msg)
    if any(isinstance(table, Vectors) for table in tables):
        msg = (
            "roll_up cannot be combined with Vectors, which rank single items. Make lists with top_items, join the documents, and pass "
            "these lists"
        )
        raise InputError(msg)
    if labels is None and options.score is None and options.rank is None and pair[0] == pair[1]:
        msg = (
            f"one table with arrays of predictions and labels needs two names, roll_up=(predictions, labels); got {documents!r}. If each "
            "row is a user and an item, pass score= or rank="
        )
        raise InputError(msg)
    item = options.item
    chunks = (item, item) if isinstance(item, str) or item is None else item
    return _Names(_Side(chunks[0], pair[0]), _Side(chunks[1], pair[1]))


def _has(frame: DataFrame, name: str) -> bool:
    """Whether a table has a column, or an array of structs with a field, of this name."""
    return find_column(frame, name) is not None or any(
        find_field(frame, field.name, field.dataType.elementType.names, name) is not None
        for field in frame.schema.fields
        if isinstance(field.dataType, T.ArrayType) and isinstance(field.dataType.elementType, T.StructType)
    )


def _chunks_of_items(options: ScoringOptions, names: _Names, model: str | None = None) -> _Chunks | None:
    """The chunks in the table of items, or those of each model; None if it lacks a column of documents, chunks or models."""
    items = options.facts.items
    if items is None or options.item is None:
        return None
    check_table("items", items)
    chunk_names = ColumnNames.read(options, one_table=False).single_items
    chunk = next(filter(None, (find_column(items, name) for name in chunk_names)), None)
    document = next(filter(None, (find_column(items, side.document) for side in names)), None)
    if chunk is None or document is None or chunk == document:
        return None
    model_in_items = None if model is None else find_column(items, model)
    if model is not None and model_in_items is None:
        return None
    return _Chunks.of(_pairs(items, chunk, document, model_in_items), unknown=False, model=model)


def _chunks_of_lists(frames: Iterable[DataFrame], labels: DataFrame, names: _Names) -> _Chunks | None:
    """The labelled chunks of the lists; None if labels have documents, or if a list has no rows of chunks and documents."""
    label_chunk = None if names.labels.chunk is None else find_column(labels, names.labels.chunk)
    if label_chunk is None or _has(labels, names.labels.document):
        return None
    kind = labels.schema[label_chunk].dataType
    if isinstance(kind, T.ArrayType):
        return None
    labelled = select(labels, named(label_chunk).alias(_LABELLED)).distinct()
    rows = []
    for frame in frames:
        chunk = None if names.predictions.chunk is None else find_column(frame, names.predictions.chunk)
        document = find_column(frame, names.predictions.document)
        if chunk is None or document is None or common_id_type(frame.schema[chunk].dataType, kind) is None:
            return None
        if not isinstance(frame.schema[document].dataType, T.IntegralType | T.StringType):
            return None
        pairs = _pairs(frame, chunk, document)
        # Lists are long, and labels few.
        labelled_pairs = labelled.join(pairs, (named(_CHUNK) == named(_LABELLED)).column)
        rows.append(select(labelled_pairs, named(_CHUNK), named(_DOCUMENT)))
    return _Chunks.of(rows_of_all(rows), unknown=True)


def _pairs(frame: DataFrame, chunk: str, document: str, model: str | None = None) -> DataFrame:
    models = [] if model is None else [named(model).cast("string").alias(_MODEL)]
    return select(frame, *models, named(chunk).alias(_CHUNK), named(document).alias(_DOCUMENT))
