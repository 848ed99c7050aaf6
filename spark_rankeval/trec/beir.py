"""Files of retrieval benchmarks as tables: BEIR's folders, and the predictions of MTEB and of sentence-transformers."""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F

from spark_rankeval.checks import is_name, one_of
from spark_rankeval.errors import DataError, InputError, OptionError, listed, warn
from spark_rankeval.spark import engine
from spark_rankeval.trec import files
from spark_rankeval.worker import process

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


#: A file, folder or pattern, or several.
Paths = str | os.PathLike[str] | Sequence[str]
#: The values of a row in the order of its columns, or what is wrong with it.
Read = tuple[Any, ...] | str


@dataclass(frozen=True)
class Form:
    """A kind of file: what it is called, its columns, and what reads a line, or a whole file."""

    name: str
    columns: tuple[str, ...]
    read: Callable[[str], Iterator[Read]]
    is_whole: bool = False


class Benchmark(NamedTuple):
    """The tables of a benchmark's folder.

    Examples:
        >>> Benchmark(corpus=None, queries=None, qrels="judgements").qrels
        'judgements'

    Args:
        corpus: item, title, text, metadata.
        queries: query, text, metadata.
        qrels: query, item, grade.
    """

    corpus: DataFrame
    queries: DataFrame
    qrels: DataFrame


def _content(text: str) -> Any:
    """What JSON says; None if it is none, or nests too deep for Python."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _id(value: Any) -> str | None:
    """An id as text. Whole numbers are ids of Python; None: the value is no id, or no text in UTF-8."""
    text = str(value) if type(value) is int else value
    return text if isinstance(text, str) and (text.isascii() or _utf8(text) == text) else None


def _utf8(text: Any) -> str | None:
    """The text in UTF-8; None: the value is no text. Halves of a character, which JSON can name, become question marks."""
    return text.encode("utf-8", "replace").decode() if isinstance(text, str) else None


def _prediction(query: Any, item: Any, score: Any, *names: str | None) -> Read:
    ids = _id(query), _id(item)
    if None in ids:
        what, value = ("query", query) if ids[0] is None else ("document", item)
        return f"the {what} is no text or whole number: {_said(value)}"
    # JSON has whole numbers beyond all floats.
    if type(score) is not float and not (type(score) is int and score.bit_length() < sys.float_info.max_exp):
        return f"the score is not a number: {_said(score)}, of query {_said(query)} and document {_said(item)}"
    return (*ids, float(score), *names)


def _said(value: Any) -> str:
    return files.shown(_utf8(json.dumps(value)) or "")


def _mteb_rows(text: str) -> Iterator[Read]:
    """The predictions of a file, with its model, subset and split: mteb 2 names them, and mteb 1 has queries alone."""
    content = _content(text)
    if not isinstance(content, dict):
        yield f"not a JSON object of predictions: {files.shown(text.strip())}"
        return
    names = content.pop("mteb_model_meta", None)
    model = _utf8(names.get("model_name")) if isinstance(names, dict) else None
    parts: list[tuple[str | None, str | None, Any]] = [(None, None, content)]
    if names is not None:
        parts = [
            (_utf8(subset), _utf8(split), queries)
            for subset, splits in content.items()
            for split, queries in (splits.items() if isinstance(splits, dict) else [("", splits)])
        ]
    for subset, split, queries in parts:
        place = "" if subset is None else f" in subset {subset!r}, split {split!r}"
        if not isinstance(queries, dict):
            yield f"no {{query: {{document: score}}}}{place}, as of a retrieval task: {_said(queries)}"
            continue
        for query, documents in queries.items():
            if not isinstance(documents, dict):
                yield f"query {query!r}{place} has no {{document: score}}: {_said(documents)}"
                continue
            for document, score in documents.items():
                yield _prediction(query, document, score, model, subset, split)


def _evaluator_rows(line: str) -> Iterator[Read]:
    """The predictions of a query, from a line of sentence-transformers."""
    content = _content(line)
    results = content.get("results") if isinstance(content, dict) else None
    if not isinstance(results, list):
        yield f"not an object with query_id and a list of results: {files.shown(line.strip())}"
        return
    for result in results:
        if isinstance(result, dict):
            yield _prediction(content.get("query_id"), result.get("corpus_id"), result.get("score"), None)
        else:
            yield f"a result without corpus_id and score: {_said(result)}"


def _texts(line: str, fields: tuple[str, ...]) -> Iterator[Read]:
    """The id of a document or query, its texts, and its metadata as JSON."""
    content = _content(line)
    name = _id(content.get("_id")) if isinstance(content, dict) else None
    if name is None:
        yield f"not an object with an _id that is a text or whole number: {files.shown(line.strip())}"
        return
    wrong = next((field for field in fields if not isinstance(content.get(field), str | None)), None)
    if wrong is not None:
        yield f"the {wrong} of {name!r} is no text: {_said(content[wrong])}"
        return
    metadata = content.get("metadata")
    yield name, *(_utf8(content.get(field)) for field in fields), json.dumps(metadata) if metadata else None


def _judgement_rows(line: str) -> Iterator[Read]:
    """A judgement from a line of tabs; the header has none."""
    try:
        fields = next(csv.reader([line.rstrip("\r\n")], delimiter="\t"))
    except csv.Error:
        fields = []
    if fields == ["query-id", "corpus-id", "score"]:
        return
    if len(fields) == len(JUDGEMENTS.columns) and re.fullmatch(r"\s*[+-]?[0-9]{1,9}\s*", fields[2]):
        yield fields[0], fields[1], int(fields[2])
    else:
        yield f"not query-id, corpus-id and a score of at most nine digits, with tabs between: {files.shown(line)}"


CORPUS = Form("corpus", ("item", "title", "text", "metadata"), partial(_texts, fields=("title", "text")))
QUERIES = Form("queries", ("query", "text", "metadata"), partial(_texts, fields=("text",)))
JUDGEMENTS = Form("qrels", ("query", "item", "grade"), _judgement_rows)
MTEB = Form("MTEB predictions", ("query", "item", "score", "model", "subset", "split"), _mteb_rows, is_whole=True)
EVALUATOR = Form("sentence-transformers predictions", ("query", "item", "score", "model"), _evaluator_rows)
#: What each row says of itself: what is wrong with it, and its file.
_ABOUT = ("problem", "path")
#: The types of the columns that are no texts, for Spark and for Arrow.
_TYPES = {"score": ("double", pa.float64()), "grade": ("int", pa.int32())}
_TEXT = ("string", pa.string())
#: How many rows a worker gives at a time: a file is one row, and may hold millions of predictions.
_BATCH = 50_000


def rows_of_texts(form: Form) -> process.Run:
    """A function for ``mapInArrow``: from text and path to the columns of a form, what is wrong with a row, and the path."""
    schema = pa.schema([(name, _TYPES.get(name, _TEXT)[1]) for name in (*form.columns, *_ABOUT)])
    nulls = (None,) * len(form.columns)

    def rows(text: str, path: str) -> Iterator[tuple[Any, ...]]:
        # Sail leaves the mark of the byte order in the text. A line may be blank; a blank file is no JSON.
        for row in form.read(text.removeprefix("\ufeff")) if form.is_whole or text.strip() else ():
            yield (*nulls, _utf8(row), path) if isinstance(row, str) else (*row, None, path)

    def run(batches: process.Batches) -> process.Batches:
        for batch in batches:
            found = chain.from_iterable(map(rows, batch.column(0).to_pylist(), batch.column(1).to_pylist()))
            while some := list(islice(found, _BATCH)):
                columns = zip(zip(*some, strict=True), schema.types, strict=True)
                yield pa.RecordBatch.from_arrays([pa.array(*column) for column in columns], schema=schema)

    return run


def read_beir(
    spark: SparkSession, folder: str | os.PathLike[str], *, split: str = "test", on_invalid: str = "error"
) -> Benchmark:
    r"""The corpus, the queries and the judgements of a folder of BEIR: corpus.jsonl, queries.jsonl, qrels/test.tsv.

    A job checks every line of each file first, and another one looks for judged queries without a text. The tables are lazy and read the
    files again. The queries are those of all splits. Python workers read the lines, as BEIR's loader does.

    Examples:
        >>> from pathlib import Path
        >>> Path(folder, "qrels").mkdir()
        >>> _ = Path(folder, "corpus.jsonl").write_text('{"_id": "d1", "title": "Tea", "text": "Tea is a drink."}')
        >>> _ = Path(folder, "queries.jsonl").write_text('{"_id": "q1", "text": "what is tea"}')
        >>> header = "query-id\tcorpus-id\tscore"
        >>> _ = Path(folder, "qrels", "test.tsv").write_text(f"{header}\nq1\td1\t1")
        >>> read_beir(spark, folder).qrels.toPandas()
          query item  grade
        0    q1   d1      1

    Args:
        spark: the session.
        folder: the folder.
        split: which file of the folder qrels: ``test``, ``dev``, ``train``.
        on_invalid: ``error``, or ``drop`` to leave out lines that do not read, with a warning.

    Returns:
        The tables corpus (item, title, text, metadata), queries (query, text, metadata) and qrels (query, item, grade). The metadata are
        JSON, and null where there are none.

    Raises:
        InputError: the folder is no path, or a file or the split is missing; the message names the splits that there are.
        DataError: lines do not read; the message has their number and one of them.
    """
    if not isinstance(folder, str | os.PathLike) or not os.fspath(folder).strip():
        msg = f"folder must be the path of a folder; got {folder!r}"
        raise InputError(msg)
    place = os.fspath(folder)
    paths = engine.input_files(files.text_of(spark, [f"{place}/qrels/*.tsv"]))
    splits = sorted(files.readable(path).rpartition("/")[2].removesuffix(".tsv") for path in paths)
    if split not in splits:
        msg = f"no split {split!r} in {place}/qrels; it has {listed([repr(name) for name in splits])}"
        raise InputError(msg)
    forms = ((CORPUS, "corpus.jsonl"), (QUERIES, "queries.jsonl"), (JUDGEMENTS, f"qrels/{split}.tsv"))
    corpus, queries, qrels = (_rows(spark, [f"{place}/{file}"], form, on_invalid).drop("path") for form, file in forms)
    unknown = qrels.where(F.col("query").isNotNull()).join(queries, "query", "left_anti")
    ((n, example),) = unknown.agg(F.count_distinct("query"), F.min("query")).collect()
    if n:
        warn(
            f"qrels: {n:,} judged queries have no text in queries.jsonl, for example {example!r}. They count all the same"
        )
    return Benchmark(corpus, queries, qrels)


def read_mteb(
    spark: SparkSession,
    paths: Paths,
    *,
    model: str | None = None,
    subset: str | None = None,
    split: str | None = None,
    on_invalid: str = "error",
) -> DataFrame:
    """What models retrieved, from files of MTEB's predictions: ``prediction_folder=``, or ``save_predictions=True`` of mteb 1.

    The JSON of mteb 2 is ``{"mteb_model_meta": {…}, subset: {split: {query: {document: score}}}}``, that of mteb 1 ``{query: {document:
    score}}``. A job checks every prediction first, another one that no query has several lists. The table is lazy and reads the files
    again. Python workers read them, each file as one row, so that it takes at most 2 GB.

    Examples:
        >>> from pathlib import Path
        >>> text = '{"mteb_model_meta": {"model_name": "e5"}, "default": {"test": {"q1": {"d1": 0.75}}}}'
        >>> _ = Path(folder, "SciFact_predictions.json").write_text(text)
        >>> read_mteb(spark, f"{folder}/SciFact_predictions.json").toPandas()
          query item  score model   subset split
        0    q1   d1   0.75    e5  default  test

    Args:
        spark: the session.
        paths: a file, folder or pattern, or several, as Spark reads them, compressed or not.
        model: the name of the model. None: the file's ``model_name``, else the name of the file.
        subset: the subset to read, such as ``default`` or ``en``. None: all. Files of mteb 1 name none.
        split: the split to read. None: all. Files of mteb 1 name none.
        on_invalid: ``error``, or ``drop`` to leave out what does not read, with a warning.

    Returns:
        query, item, score, model, subset, split. A query without predictions has no row.

    Raises:
        InputError: there is no such file, subset or split.
        DataError: predictions do not read, or a query has several lists under one model: in other subsets, splits or files.
    """
    rows = _rows(spark, files.checked_paths(paths), MTEB, on_invalid)
    for name, chosen in (("subset", subset), ("split", split)):
        if chosen is not None:
            rows = _with_name(rows, name, chosen)
    return _one_list_per_query(rows, MTEB, model)


def read_sentence_transformers(
    spark: SparkSession, paths: Paths, *, model: str | None = None, on_invalid: str = "error"
) -> DataFrame:
    """What a model retrieved, from files that ``InformationRetrievalEvaluator(…, write_predictions=True)`` writes.

    A line is ``{"query_id": …, "query": …, "results": [{"corpus_id": …, "score": …}, …]}``. All else is as in `read_mteb`.

    Examples:
        >>> from pathlib import Path
        >>> text = '{"query_id": "q1", "query": "tea", "results": [{"corpus_id": "d1", "score": 0.75}]}'
        >>> _ = Path(folder, "cosine.jsonl").write_text(text)
        >>> read_sentence_transformers(spark, f"{folder}/cosine.jsonl", model="e5").toPandas()
          query item  score model
        0    q1   d1   0.75    e5

    Args:
        spark: the session.
        paths: a file, folder or pattern, or several, as Spark reads them, compressed or not.
        model: the name of the model. None: the name of the file.
        on_invalid: ``error``, or ``drop`` to leave out what does not read, with a warning.

    Returns:
        query, item, score, model. Ids that are whole numbers become texts. A query without results has no row.

    Raises:
        InputError: there is no such file.
        DataError: lines do not read, or files of one model have lists of the same queries.
    """
    return _one_list_per_query(_rows(spark, files.checked_paths(paths), EVALUATOR, on_invalid), EVALUATOR, model)


def _rows(spark: SparkSession, paths: list[str], form: Form, on_invalid: str) -> DataFrame:
    """The checked rows of files, with their path."""
    one_of("on_invalid", on_invalid, ("error", "drop"))
    text = files.text_of(spark, paths, whole=form.is_whole).select("value", "path")
    schema = ", ".join(f"{name} {_TYPES.get(name, _TEXT)[0]}" for name in (*form.columns, *_ABOUT))
    rows = engine.run_on_workers(text, rows_of_texts(form), schema)
    problem = F.col("problem")
    noun = "rows" if "score" in form.columns else "lines"
    files.refuse_wrong(rows, problem.isNotNull(), problem, str, form.name, on_invalid, noun)
    # A file that has changed since gives rows of nulls, which an evaluation refuses.
    return (rows.where(problem.isNull()) if on_invalid == "drop" else rows).drop("problem")


def _with_name(rows: DataFrame, column: str, chosen: str) -> DataFrame:
    """The rows of a subset or split; a job looks which there are."""
    names = sorted(row[0] or "" for row in rows.select(column).distinct().collect())
    if chosen not in names:
        found = listed([repr(name) for name in names if name]) or f"no names, as those of mteb 1: leave out {column}="
        msg = f"{MTEB.name}: no {column} {chosen!r}; the files have {found}"
        raise InputError(msg)
    return rows.where(F.col(column) == chosen)


def _one_list_per_query(rows: DataFrame, form: Form, model: str | None) -> DataFrame:
    """The rows with the model of each, if no query has lists of several places under one model; a job looks for them."""
    if model is not None and not is_name(model):
        msg = f"model must be a non-empty string, or None; got {model!r}"
        raise OptionError(msg)
    file = F.regexp_replace(files.file_name(), r"\.jsonl?$", "")
    named = rows.withColumn("model", F.coalesce("model", file) if model is None else F.lit(model))
    parts = [name for name in ("subset", "split") if name in form.columns]
    place = F.concat_ws(", ", "path", *parts)
    lists = named.groupBy("model", "query").agg(F.min(place).alias("one"), F.max(place).alias("other"))
    first = F.min(F.struct("query", "model", "one", "other"))
    ((n, example),) = lists.where(F.col("one") != F.col("other")).agg(F.count(F.lit(1)), first).collect()
    if n:
        query, name, *places = example
        advice = f"{'pass subset= and split=, or ' if parts else ''}read the files one by one, each with its model="
        msg = (
            f"{form.name}: {n:,} queries have several lists under one model, for example {query!r} of {name!r}, in "
            f"{listed([files.readable(place) for place in places])}. They would count as one list; {advice}"
        )
        raise DataError(msg, {"n_mixed_queries": n})
    return named.select(*form.columns)
