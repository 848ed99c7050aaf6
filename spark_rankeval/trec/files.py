"""Files of retrieval evaluations as tables: runs and qrels of TREC, which are also written; BEIR's folders; MTEB's predictions."""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial, reduce
from itertools import chain, islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.checks import check_table, is_name, is_number, one_of
from spark_rankeval.dialects import Dialect, find_dialect
from spark_rankeval.errors import DataError, InputError, OptionError, listed, warn
from spark_rankeval.evaluation.evaluate import Metrics, evaluate
from spark_rankeval.evaluation.result import Result
from spark_rankeval.metrics import naming, relevance
from spark_rankeval.request.call import Facts, Table
from spark_rankeval.spark import catalog, engine, sql
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.worker import process

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


#: What Spark reads as numbers, by the type of the column: Python, C and Java read these alike. All of nine digits fits into 32 bits.
_NUMBERS = {
    "double": r"^[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:inf|infinity|nan))\z",
    "int": r"^[+-]?[0-9]{1,9}\z",
}
#: White space of C, at the ends of a line and between fields.
SPACES = " \t\v\f\r"
_SPACE = rf"[{SPACES}\n]"
#: The beginning of a line that is not empty and no comment, as trec_eval 10 knows comments.
SAYS_SOMETHING = f"^{_SPACE}*[^#{SPACES}\n]"
_CALLED = {"double": "number", "int": "whole number of at most nine digits"}
_SHOWN = 80


def shown(text: str) -> str:
    """The beginning of a text for a message.

    >>> shown("301 Q0")
    "'301 Q0'"
    """
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


@dataclass(frozen=True)
class TrecForm:
    """A kind of file: what it is called, what a line holds in order, and which of these must be a number."""

    name: str
    fields: tuple[str, ...]
    number: str

    @property
    def columns(self) -> dict[str, str]:
        """The fields that are kept, with the types of Spark."""
        return {name: _TREC_TYPES.get(name, "string") for name in self.fields if name != "Q0"}


_TREC_TYPES = {"rank": "int", "score": "double", "grade": "int"}
#: What a system retrieved: ``301 Q0 FR940202-2-00150 104 2.129133 STANDARD``.
RUN = TrecForm("run", ("query", "Q0", "item", "rank", "score", "model"), "score")
#: What assessors judged: ``301 0 CR93E-10279 0``.
QRELS = TrecForm("qrels", ("query", "iteration", "item", "grade"), "grade")
#: What assessors of diversity judged for each subtopic: ``301 2 CR93E-10279 0``.
DIVERSITY_QRELS = TrecForm("qrels", ("query", "subtopic", "item", "grade"), "grade")


def problem_of(line: str, form: TrecForm) -> str:
    """What is wrong with a line that does not read."""
    text = line.strip(SPACES)
    fields = re.findall(r"\S+", text, re.ASCII)
    # What Spark puts in the place of bytes that are no text.
    if "\ufffd" in text:
        return f"not UTF-8: {shown(text)}"
    if len(fields) != len(form.fields):
        return f"{len(fields)} fields; a {form.name} has {len(form.fields)} ({' '.join(form.fields)}): {shown(text)}"
    number = fields[form.fields.index(form.number)]
    return f"the {form.number} {number!r} is not a {_CALLED[form.columns[form.number]]}: {shown(text)}"


_MOST_EXAMPLES = 3
_COMPRESSED = r"\.(gz|gzip|bz2|lz4|zst|zstd)$"
# What Sail says of text that is not UTF-8.
_NO_UTF8 = "invalid UTF-8"


def read_run(
    spark: SparkSession,
    paths: str | os.PathLike[str] | Sequence[str],
    *,
    model: str = "tag",
    on_invalid: str = "error",
) -> DataFrame:
    """What systems retrieved, from files of lines ``301 Q0 FR940202-2-00150 104 2.129133 STANDARD``.

    A job checks every line first. With several files, another one checks that they are not different runs of one name. The table is
    lazy and reads the files again. Empty lines and lines that begin with ``#`` are ignored. It works on every Spark, classic and
    Connect, without Python workers.

    Examples:
        >>> from pathlib import Path
        >>> _ = Path(folder, "run.txt").write_text("301 Q0 d1 1 2.1 bm25")
        >>> read_run(spark, f"{folder}/run.txt").toPandas()
          query item  rank  score model
        0   301   d1     1    2.1  bm25

    Args:
        spark: the session.
        paths: a file, folder or pattern, or several, as Spark reads them, compressed or not.
        model: the model of a row: ``tag``, the last field of a line, or ``file``, the file's name, if runs share a tag.
        on_invalid: ``error``, or ``drop`` to leave out lines that do not read, with a warning.

    Returns:
        query, item, rank, score, model. The rank is null if it is no whole number: trec_eval ignores it, and orders by score.

    Raises:
        InputError: there is no such file.
        DataError: lines do not read; the message has their number, files, and some of them. Or two files have lists of the same
            queries under one tag, or under one file name.
    """
    one_of("model", model, ("tag", "file"))
    return _read(spark, paths, RUN, on_invalid, model_is_file=model == "file")


def read_qrels(
    spark: SparkSession,
    paths: str | os.PathLike[str] | Sequence[str],
    *,
    subtopics: bool = False,
    on_invalid: str = "error",
) -> DataFrame:
    """What assessors judged, from files of lines ``301 0 CR93E-10279 0``; all else is as in `read_run`.

    Examples:
        >>> from pathlib import Path
        >>> _ = Path(folder, "qrels.txt").write_text("301 0 d1 1")
        >>> read_qrels(spark, f"{folder}/qrels.txt").toPandas()
          query iteration item  grade
        0   301         0   d1      1

    Args:
        spark: the session.
        paths: the files.
        subtopics: whether the second field is a subtopic, as in the diversity tasks, whose lines are ``301 2 CR93E-10279 0``: an item
            then has a line for each subtopic.
        on_invalid: ``error``, or ``drop`` to leave out lines that do not read.

    Returns:
        query, iteration, item, grade; with `subtopics` query, subtopic, item, grade.

    Raises:
        InputError: there is no such file.
        DataError: lines do not read.
    """
    one_of("subtopics", subtopics, (True, False))
    return _read(spark, paths, DIVERSITY_QRELS if subtopics else QRELS, on_invalid)


def _read(
    spark: SparkSession,
    paths: str | os.PathLike[str] | Sequence[str],
    form: TrecForm,
    on_invalid: str,
    *,
    model_is_file: bool = False,
) -> DataFrame:
    one_of("on_invalid", on_invalid, ("error", "drop"))
    text = text_of(spark, checked_paths(paths)).where(F.col("value").rlike(SAYS_SOMETHING))
    # What follows the last field is one more.
    fields = F.split(F.btrim("value", F.lit(SPACES)), f"{_SPACE}+", len(form.fields) + 1)
    lines = text.select("value", "path", fields.alias("fields"))
    lines = lines.select("value", "path", F.when(_reads(form), F.col("fields")).alias("fields"))
    # Clients of Connect read UTF-8 alone.
    text_in_utf8 = _decoded(F.col("value"))
    refuse_wrong(
        lines,
        F.col("fields").isNull(),
        text_in_utf8,
        lambda line: problem_of(line, form),
        form.name,
        on_invalid,
        f"read_{form.name}",
    )
    if on_invalid == "drop":
        lines = lines.where(F.col("fields").isNotNull())
    # A file that has changed since gives rows of nulls, which an evaluation refuses.
    columns = {name: _value(form, name) for name in form.columns}
    if model_is_file:
        columns["model"] = F.when(F.col("fields").isNotNull(), file_name())
    values = [value.alias(name) for name, value in columns.items()]
    if form is RUN and len(engine.input_files(text)) != 1:
        _refuse_mixed_runs(lines.select(*values, "path"), model_is_file=model_is_file)
    return lines.select(*values)


def checked_paths(paths: object) -> list[str]:
    """The paths as strings; anything else is an error."""
    several: list[Any] = list(paths) if isinstance(paths, list | tuple) else [paths]
    named = [os.fspath(path) if isinstance(path, os.PathLike) else path for path in several]
    if not named or not all(isinstance(path, str) and path.strip() for path in named):
        msg = f"paths must be a non-empty string or a list of them; got {paths!r}"
        raise InputError(msg)
    return named


def _refuse_mixed_runs(rows: DataFrame, *, model_is_file: bool) -> None:
    """Refuse files that are different runs of one name; a job looks at the first line of each query in each file.

    A run may come in several files, but only one of them has the first place of a query.
    """
    first_places = rows.where(F.col("rank").isin(0, 1)).groupBy("model", "query", "rank")
    shared = first_places.agg(F.count(F.lit(1)).alias("n"), F.collect_set("path").alias("paths"))
    # A file that gives all its lines one rank says nothing of places.
    mixed = shared.where((F.size("paths") > 1) & (F.col("n") == F.size("paths")))
    row = mixed.agg(
        F.count_distinct("model", "query").alias("n"), F.first(F.struct("model", "paths")).alias("run")
    ).collect()[0]
    if row["n"]:
        paths = listed([readable(path) for path in sorted(row["run"]["paths"])], most=_MOST_EXAMPLES)
        name = f"{'file name' if model_is_file else 'tag'} {row['run']['model']!r}"
        advice = "rename the files" if model_is_file else "pass model='file' to name runs by their files"
        msg = f"{RUN.name}: {row['n']:,} queries have several lists under the {name}, in {paths}. They would count as one run; {advice}"
        raise DataError(msg, {"n_mixed_queries": row["n"]})


def file_name() -> Column:
    """The name of the file of the column `path`, without the ending of a compression."""
    name = F.substring_index("path", "/", -1)
    # Spark gives paths as URIs, in which a plus is a plus.
    decoded = F.url_decode(F.regexp_replace(name, r"\+", "%2B"))
    # Without the cast Sail gives clients a kind of string that they cannot read.
    return F.regexp_replace(decoded, _COMPRESSED, "").cast("string")


def _field(form: TrecForm, name: str) -> Column:
    return F.get("fields", F.lit(form.fields.index(name)))


def _reads(form: TrecForm) -> Column:
    """Whether a line has the fields of a form, its number is one, and it is UTF-8."""
    has_fields = F.size("fields") == len(form.fields)
    if form is RUN:
        # trec_eval ignores the rank and what follows the model. An item with a space would shift the fields unseen.
        has_fields |= (F.size("fields") > len(form.fields)) & _field(form, "rank").rlike(_NUMBERS["int"])
    is_number = _field(form, form.number).rlike(_NUMBERS[form.columns[form.number]])
    return has_fields & is_number & (_decoded(F.col("value")) == F.col("value"))


def _decoded(line: Column) -> Column:
    """A line in UTF-8. Spark decodes it to replace in it, and bytes that are none become this character."""
    return F.regexp_replace(line, "\ufffd", "\ufffd")


def _value(form: TrecForm, name: str) -> Column:
    """A field of a line that reads, in the type of its column; a rank is null if it is no whole number."""
    field = _field(form, name)
    number = field.cast(form.columns[name])
    if name == "rank":
        return F.when(field.rlike(_NUMBERS["int"]), number)
    if name == "score":
        # Spark does not cast a NaN with a sign.
        return F.when(field.rlike("(?i)nan"), F.lit(float("nan"))).otherwise(number)
    return number


def refuse_wrong(
    rows: DataFrame,
    is_wrong: Column,
    value: Column,
    problem: Callable[[str], str],
    name: str,
    on_invalid: str,
    reader: str,
    noun: str = "lines",
    lost: str = "these lines",
) -> None:
    """Refuse rows of files that do not read, or warn of them; a job looks at every row.

    Args:
        rows: the rows, with the column `path`.
        is_wrong: whether a row does not read.
        value: the text that says why.
        problem: what is wrong with that text.
        name: the kind of file.
        on_invalid: ``error``, or ``drop`` to warn.
        reader: the function of the user that reads the files.
        noun: what the rows are called.
        lost: what ``drop`` leaves out.
    """
    try:
        # Below a filter Spark would split each line again for each condition, so that only bad files pay for the example.
        ((n,),) = rows.agg(F.count_if(is_wrong)).collect()
    except PySparkException as error:
        if _NO_UTF8 not in str(error):
            raise
        msg = f"{name}: a line is not UTF-8, and Sail reads no other text; convert the files to UTF-8"
        raise DataError(msg) from error
    if not n:
        return
    example = F.struct("path", value.alias("value"))
    ((n_files, (path, text)),) = rows.where(is_wrong).agg(F.count_distinct("path"), F.min(example)).collect()
    msg = f"{name}: {n:,} {noun[:-1]}(s) in {n_files:,} file(s) cannot be read, for example in {readable(path)}: {problem(text)}"
    if on_invalid == "error":
        raise DataError(
            f"{msg}. Fix the files, or pass on_invalid='drop' to {reader}, which leaves out {lost}", {"n_malformed": n}
        )
    warn(f"{msg}. They are left out")


def readable(path: str) -> str:
    """A path as people write it, from a URI."""
    return re.sub("^file:/+", "/", unquote(path))


def text_of(spark: SparkSession, paths: list[str], *, whole: bool = False) -> DataFrame:
    """The lines of files as `value`, or each file as one, with the path of the file."""
    if not engine.engine_of(spark).is_spark:
        return _text_of_files(spark, paths, whole=whole)
    try:
        text = spark.read.text(paths, wholetext=whole)
        # Spark Connect looks at files only when the schema is asked for.
        _ = text.schema
    except AnalysisException as error:
        if engine.condition_of(error) != "PATH_NOT_FOUND":
            raise
        raise _no_file(paths, f": {str(error).strip().partition(chr(10))[0]}") from error
    return text.select("value", F.col("_metadata.file_path").alias("path"))


def _text_of_files(spark: SparkSession, paths: list[str], *, whole: bool) -> DataFrame:
    """The text of files as `text_of` gives it, each file read by itself."""
    files: dict[str, None] = {}
    for path in paths:
        matches = [
            file for file in engine.input_files(spark.read.format("binaryFile").load(path)) if _is_match(file, path)
        ]
        if not matches:
            raise _no_file([path])
        files |= dict.fromkeys(matches)
    # Spark takes a byte order mark for no text.
    value = F.regexp_replace("value", "^\ufeff", "").alias("value")
    tables = [
        # Sail takes some characters of its own list of files for a pattern.
        spark.read.text(re.sub(r"[*\[\]]", lambda one: quote(one[0]), file), wholetext=whole).select(
            value, F.lit(file).alias("path")
        )
        for file in files
    ]
    while len(tables) > 1:
        # Of few levels, because clients refuse deep plans.
        pairs = (tables[place : place + 2] for place in range(0, len(tables), 2))
        tables = [reduce(lambda rows, more: rows.unionAll(more), pair) for pair in pairs]
    return tables[0]


def _is_match(file: str, path: str) -> bool:
    """Whether Spark, too, reads a file that Sail lists for a path: Sail goes into all folders, Spark into those of a column's value."""
    place = re.sub("^file:/+", "/", path)
    place = place.rstrip("/") if "://" in place else os.path.abspath(place)
    depth, name = place.count("/"), place.rpartition("/")[2]
    start = re.split(r"[*?[{]", place, maxsplit=1)[0]
    # A server has a folder of its own for relative paths.
    if "**" in place or "{" in name or not readable(file).startswith(start):
        return True
    parts = readable(file).split("/")
    return (parts[depth] == name or fnmatchcase(parts[depth], name)) and all(
        "=" in part for part in parts[depth + 1 : -1]
    )


def _no_file(paths: list[str], details: str = "") -> InputError:
    return InputError(f"there is no file at {', '.join(map(repr, paths))}{details}")


#: A file, folder or pattern, or several.
Paths = str | os.PathLike[str] | Sequence[str]
#: The values of a row in the order of its columns, or what is wrong with it.
Read = tuple[Any, ...] | str


@dataclass(frozen=True)
class Form:
    """A kind of file: what it is called, the user's function for it, its columns, and what reads a line, or a whole file."""

    name: str
    reader: str
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


def _object(text: str, expected: str) -> dict[str, Any] | str:
    """The JSON object of a text, or what is wrong with it: it should be what is expected."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"the JSON ends early or is broken ({error}): {shown(text.strip())}"
    return content if isinstance(content, dict) else f"not {expected}: {shown(text.strip())}"


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
    return shown(_utf8(json.dumps(value)) or "")


def _mteb_rows(text: str) -> Iterator[Read]:
    """The predictions of a file, with its model, subset and split: mteb 2 names them, and mteb 1 has queries alone."""
    content = _object(text, "a JSON object of predictions")
    if isinstance(content, str):
        yield content
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
    expected = "an object with query_id and a list of results"
    content = _object(line, expected)
    if isinstance(content, str):
        yield content
        return
    results = content.get("results")
    if not isinstance(results, list):
        yield f"not {expected}: {shown(line.strip())}"
        return
    for result in results:
        if isinstance(result, dict):
            yield _prediction(content.get("query_id"), result.get("corpus_id"), result.get("score"), None)
        else:
            yield f"a result without corpus_id and score: {_said(result)}"


def _texts(line: str, fields: tuple[str, ...]) -> Iterator[Read]:
    """The id of a document or query, its texts, and its metadata as JSON."""
    expected = "an object with an _id that is a text or whole number"
    content = _object(line, expected)
    if isinstance(content, str):
        yield content
        return
    name = _id(content.get("_id"))
    if name is None:
        yield f"not {expected}: {shown(line.strip())}"
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
        yield f"not query-id, corpus-id and a score of at most nine digits, with tabs between: {shown(line)}"


CORPUS = Form("corpus", "read_beir", ("item", "title", "text", "metadata"), partial(_texts, fields=("title", "text")))
QUERIES = Form("queries", "read_beir", ("query", "text", "metadata"), partial(_texts, fields=("text",)))
JUDGEMENTS = Form("qrels", "read_beir", ("query", "item", "grade"), _judgement_rows)
MTEB = Form(
    "MTEB predictions", "read_mteb", ("query", "item", "score", "model", "subset", "split"), _mteb_rows, is_whole=True
)
EVALUATOR = Form(
    "sentence-transformers predictions",
    "read_sentence_transformers",
    ("query", "item", "score", "model"),
    _evaluator_rows,
)
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
    paths = engine.input_files(text_of(spark, [f"{place}/qrels/*.tsv"]))
    splits = sorted(readable(path).rpartition("/")[2].removesuffix(".tsv") for path in paths)
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
        DataError: predictions do not read, a file has none of the subset and split, or a query has several lists under one model: in
            other subsets, splits or files.
    """
    rows = _rows(spark, checked_paths(paths), MTEB, on_invalid)
    choices = {name: chosen for name, chosen in (("subset", subset), ("split", split)) if chosen is not None}
    for name, chosen in choices.items():
        rows = _with_name(rows, name, chosen)
    return _one_list_per_query(rows, MTEB, model, on_invalid, choices)


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
        DataError: lines do not read, a file has no results, or files of one model have lists of the same queries.
    """
    return _one_list_per_query(_rows(spark, checked_paths(paths), EVALUATOR, on_invalid), EVALUATOR, model, on_invalid)


def _rows(spark: SparkSession, paths: list[str], form: Form, on_invalid: str) -> DataFrame:
    """The checked rows of files, with their path."""
    one_of("on_invalid", on_invalid, ("error", "drop"))
    text = text_of(spark, paths, whole=form.is_whole).select("value", "path")
    schema = ", ".join(f"{name} {_TYPES.get(name, _TEXT)[0]}" for name in (*form.columns, *_ABOUT))
    rows = engine.run_on_workers(text, rows_of_texts(form), schema)
    problem = F.col("problem")
    noun = "rows" if "score" in form.columns else "lines"
    lost = f"these {noun}{', and whole files whose JSON is broken' if form.is_whole else ''}"
    refuse_wrong(rows, problem.isNotNull(), problem, str, form.name, on_invalid, form.reader, noun, lost)
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


def _one_list_per_query(
    rows: DataFrame, form: Form, model: str | None, on_invalid: str, choices: Mapping[str, str] = MappingProxyType({})
) -> DataFrame:
    """The rows with the model of each; a job looks for queries with several lists under one model, and for files without rows."""
    if model is not None and not is_name(model):
        msg = f"model must be a non-empty string, or None; got {model!r}"
        raise OptionError(msg)
    file = F.regexp_replace(file_name(), r"\.jsonl?$", "")
    named = rows.withColumn("model", F.coalesce("model", file) if model is None else F.lit(model))
    parts = [name for name in ("subset", "split") if name in form.columns]
    place = F.concat_ws(", ", "path", *parts)
    lists = named.groupBy("model", "query").agg(
        F.min("path").alias("path"), F.min(place).alias("one"), F.max(place).alias("other")
    )
    several = F.col("one") != F.col("other")
    first = F.min(F.when(several, F.struct("query", "model", "one", "other")))
    ((n, example, paths),) = lists.agg(F.count(F.when(several, 1)), first, F.collect_set("path")).collect()
    if n:
        query, name, *places = example
        advice = f"{'pass subset= and split=, or ' if parts else ''}read the files one by one, each with its model="
        msg = (
            f"{form.name}: {n:,} queries have several lists under one model, for example {query!r} of {name!r}, in "
            f"{listed([readable(place) for place in places])}. They would count as one list; {advice}"
        )
        raise DataError(msg, {"n_mixed_queries": n})
    # Engines give no row of a file of 0 bytes, but list it.
    files = {readable(file) for file in engine.input_files(rows)}
    _refuse_empty(files - {readable(path) for path in paths}, len(files), form, on_invalid, choices)
    return named.select(*form.columns)


def _refuse_empty(empty: set[str], n_files: int, form: Form, on_invalid: str, choices: Mapping[str, str]) -> None:
    """Refuse files without predictions of what was asked for, or warn of them: each may be all that a model has."""
    if not empty:
        return
    part = "".join(f", {name} {chosen!r}" for name, chosen in choices.items()).replace(",", " in", 1)
    hint = f" (files of mteb 1 name none: read them without {'= and '.join(choices)}=)" if choices else ""
    msg = f"{form.name}: {len(empty):,} of {n_files:,} file(s) have no prediction{part}, for example {min(empty)}{hint}"
    if on_invalid == "error":
        advice = f"Write them again, leave them out of paths, or pass on_invalid='drop' to {form.reader}, which leaves them out"
        raise DataError(f"{msg}. {advice}", {"n_empty_files": len(empty)})
    warn(f"{msg}. They are left out")


#: What trec_eval prints when it is asked for nothing, but for ``gm_map``.
OFFICIAL = (
    "ap",
    "r_precision",
    "bpref",
    "rr",
    *(f"iprec(recall={tenth / 10})" for tenth in range(11)),
    *(f"precision@{k}" for k in (5, 10, 15, 20, 30, 100, 200, 500, 1000)),
)


@takes_local_tables
def evaluate_runs(
    runs: Table | Mapping[str, Table], qrels: Table, metrics: Metrics = OFFICIAL, **options: Any
) -> Result:
    """Evaluate runs as trec_eval does; ``print(evaluate_runs(runs, qrels).to_trec())`` prints what it prints.

    This is `evaluate` with the columns of `read_run` and `read_qrels`, ``dialect="trec_eval"``, and a model for each value of the
    column ``model``, if there is one. Items are ordered by score, equal ones by item downwards; ranks in files are ignored. Every
    judged query counts, with 0 if the run lacks it (``trec_eval -c``); others do not. If all metrics are of intents, the dialect is
    ``ndeval``.

    Examples:
        >>> runs = spark.createDataFrame([("q1", "d1", 2.0), ("q1", "d2", 1.0)], "query string, item string, score double")
        >>> qrels = spark.createDataFrame([("q1", "d2", 1)], "query string, item string, grade int")
        >>> print(evaluate_runs(runs, qrels, ["map", "rr"]).to_trec())
        num_q                   all     1
        num_ret                 all     2
        num_rel                 all     1
        map                     all     0.5000
        recip_rank              all     0.5000

    Args:
        runs: query, item, score, and model; or such a table for each model, by its name.
        qrels: query, item, grade; and subtopic, for metrics of intents such as ``alpha_ndcg@10``: an item then has a row for each
            subtopic, and the highest of their grades for other metrics.
        metrics: as in `evaluate`; default: those that trec_eval prints by itself.
        options: any other of `evaluate`, such as ``relevance_threshold=2`` (``-l2``), which holds for `bpref`, too.

    Raises:
        MetricError, DialectError, OptionError, InputError, DataError: as in `evaluate`.
    """
    usual = {"user": "query", "item": "item", "score": "score", "relevance": "grade", "dialect": "trec_eval"}
    if not isinstance(runs, Mapping):
        check_table("runs", runs)
        if "model" in runs.columns:
            usual["model"] = "model"
    check_table("qrels", qrels)
    facts = options.get("facts", Facts())
    if "subtopic" in qrels.columns and isinstance(facts, Facts) and facts.subtopic is None:
        options["facts"] = replace(facts, subtopic="subtopic")
    chosen = naming.parse_metrics(metrics)
    if all("intents" in metric.reads.facts for metric in chosen.values()):
        usual["dialect"] = "ndeval"
    level = options.get("relevance_threshold")
    if level is not None:
        judged = dict(chosen)
        for label, metric in chosen.items():
            # The level of -l also says which items are judged as not relevant.
            if isinstance(metric, relevance.BPref) and not metric.chosen():
                judged[label] = replace(metric, judged_threshold=level)
        chosen = naming.NamedMetrics(judged, chosen.spelled)
    return evaluate(runs, qrels, chosen, **{**usual, **options})


_FIELDS = ("query", "item", "model")


@takes_local_tables
def write_run(
    predictions: Table,
    path: str | os.PathLike[str],
    *,
    query: str = "query",
    item: str = "item",
    score: str = "score",
    model: str | None = None,
    tag: str | None = None,
    k: int | None = None,
    dialect: str | Dialect = "trec_eval",
    single_file: bool = False,
    compression: str = "none",
    mode: str = "errorifexists",
) -> None:
    """Write predictions as TREC runs: lines ``query Q0 item rank score tag``, those of a query together and in rank order.

    Ranks count from 1 and go by score. The dialect orders equal scores by the item's string, so a reader of ranks and one that sorts
    as trec_eval does see the same order. Scores read back to the same bits. All rows are checked before any is written.

    Examples:
        >>> from spark_rankeval.trec import read_run
        >>> write_run(predictions, f"{folder}/run", query="user", tag="popular", k=2, single_file=True)
        >>> read_run(spark, f"{folder}/run").orderBy("query", "rank").limit(2).toPandas()
          query item  rank  score    model
        0     0    a     1    1.0  popular
        1     0    b     2    0.5  popular

    Args:
        predictions: a row for each query and item.
        path: the folder to write, with a folder ``model=<tag>`` for each of several models. `read_run` reads both. On Sail a run always
            has such a folder, with one file.
        query: the column of queries.
        item: the column of items.
        score: the column of scores; the highest is best.
        model: the column of the runs' tags. Pass this or `tag`.
        tag: the tag of a single run.
        k: how many items to write for each query. None: all.
        dialect: the dialect whose order of equal scores and precision of scores are used.
        single_file: whether one task writes each run as one file. By default there is one file for each partition.
        compression: ``none``, ``gzip``, or another compression that Spark can write text with.
        mode: what to do if the path exists: ``errorifexists`` or ``overwrite``.

    Raises:
        OptionError, InputError, DialectError: something is wrong with the call, or the path exists; nothing was written.
        DataError: a run cannot hold some rows: nulls, NaN scores, strings that are empty or hold a space, queries that begin with
            ``#``, an item twice for a query. Nothing was written.
    """
    convention = find_dialect(dialect)
    check_table("predictions", predictions)
    one_of("mode", mode, ("errorifexists", "overwrite"))
    one_of("single_file", single_file, (True, False))
    one_of("compression", compression, ("none", "gzip", "bzip2", "lz4", "snappy", "deflate", "zstd"))
    if k is not None and not (is_number(k, int) and k >= 1):
        msg = f"k must be a whole number from 1 on, or None; got {k!r}"
        raise OptionError(msg)
    if tag is not None and (not isinstance(tag, str) or not tag or len(tag.split()) != 1 or tag != tag.strip()):
        msg = f"tag must be a non-empty string without spaces; got {tag!r}"
        raise OptionError(msg)
    place = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(place, str) or not place.strip():
        msg = f"path must be a non-empty string; got {path!r}"
        raise OptionError(msg)
    names = {"query": query, "item": item, "score": score} | ({} if model is None else {"model": model})
    columns = _columns(predictions, names, tag)
    rows = predictions.select(
        *[columns[name].cast("string").alias(name) for name in _FIELDS], columns["score"].cast("double").alias("score")
    )
    _refuse(rows)
    if mode == "errorifexists" and catalog.exists(predictions.sparkSession, place):
        msg = f"{place} already exists; choose another path, or pass mode='overwrite'"
        raise OptionError(msg)
    ranked = _ranked(rows, convention)
    lines = _lines(ranked if k is None else ranked.where(F.col("rank") <= k), single_file=single_file)
    # Sail writes rows to several files, but to one in a folder of a column's value.
    has_folders = model is not None or not engine.engine_of(predictions.sparkSession).is_spark
    writer = lines.select("value", *["model"] * has_folders).write
    writer = writer.partitionBy("model") if has_folders else writer
    writer.mode(engine.save_mode(mode)).option("compression", compression).text(place)


def _ranked(rows: DataFrame, dialect: Dialect) -> DataFrame:
    """The rows of runs with their ranks in a dialect."""
    score = F.col("score").cast("float" if dialect.ranking.score_precision == "float32" else "double")
    items = F.col("item").desc() if dialect.ranking.ties == "item_desc" else F.col("item").asc()
    best_first = Window.partitionBy("model", "query").orderBy(score.desc(), items)
    return rows.withColumn("rank", F.row_number().over(best_first))


def _lines(ranked: DataFrame, *, single_file: bool) -> DataFrame:
    """The lines of runs as `value`, those of a query together and in rank order, with the model of each."""
    rank, score = F.col("rank").cast("string"), F.col("score").cast("string")
    line = F.concat_ws(" ", "query", F.lit("Q0"), "item", rank, score, "model").alias("value")
    lines, order = ranked.select("model", "query", "rank", line), ("model", "query", "rank")
    if engine.engine_of(ranked.sparkSession).is_spark:
        # The number of partitions is left to Spark, because it suits the cluster.
        return lines.repartition(*order[: 1 if single_file else 2]).sortWithinPartitions(*order)
    # All lines of a query as one row, because Sail mixes sorted rows on their way to a file.
    query_lines = F.array_sort(F.collect_list(F.struct("rank", "value")))
    text = F.concat_ws("\n", F.transform(query_lines, lambda row: row["value"])).alias("value")
    return lines.groupBy("model", "query").agg(text).orderBy("model", "query")


def _columns(predictions: DataFrame, names: dict[str, str], tag: str | None) -> dict[str, Column]:
    if ("model" in names) == (tag is not None):
        msg = "the run needs a name; pass either tag='bm25', or model= for a column of tags"
        raise OptionError(msg)
    columns, problems = {}, []
    for meaning, name in names.items():
        actual = sql.find_column(predictions, name) if isinstance(name, str) else None
        if actual is None:
            problems.append(f"no column {name!r} ({meaning}=)")
            continue
        kind = predictions.schema[actual].dataType
        expected, allowed = (
            ("a number", (T.NumericType,)) if meaning == "score" else ("a string", (T.StringType, T.IntegralType))
        )
        if not isinstance(kind, allowed):
            problems.append(f"{meaning}={actual!r} is {kind.simpleString()}, not {expected}: cast it")
        elif meaning != "score" and (wrong := sql.why_unusable(kind, "item")):
            problems.append(f"{meaning}={actual!r} is {kind.simpleString()}; {wrong}")
        columns[meaning] = sql.column(actual)
    if problems:
        msg = f"predictions: {'; '.join(problems)}; the table has: {sql.columns_in_words(predictions)}"
        raise InputError(msg)
    return columns if tag is None else {**columns, "model": F.lit(tag)}


def _refuse(rows: DataFrame) -> None:
    reasons = {f"null {name}": F.col(name).isNull() for name in (*_FIELDS, "score")}
    reasons["NaN score"] = F.isnan("score")
    reasons |= {
        f"{name} that is empty or holds a space": F.col(name).rlike(r"\s") | (F.col(name) == "") for name in _FIELDS
    }
    reasons["query that begins with #, as a comment does"] = F.col("query").startswith("#")
    reason = F.coalesce(*[F.when(condition, F.lit(name)) for name, condition in reasons.items()])
    rows, is_wrong = rows.withColumn("reason", reason), F.col("reason").isNotNull()
    example = F.struct("query", "item", "model").alias("example")
    refused = rows.where(is_wrong).select("reason", F.lit(1).cast("bigint").alias("n"), example)
    usable = rows.where(~is_wrong).groupBy("model", "query", "item").agg(F.count(F.lit(1)).alias("n")).where("n > 1")
    twice = usable.select(F.lit("an item twice for a query").alias("reason"), (F.col("n") - 1).alias("n"), example)
    totals = refused.unionAll(twice).groupBy("reason").agg(F.sum("n").alias("n"), F.min("example").alias("example"))
    records = totals.collect()
    if records:
        counts = {row["reason"]: row["n"] for row in sorted(records, key=lambda row: str(row["reason"]))}
        names = {name: name for name in _FIELDS}
        parts = [
            f"{row['reason']}: {row['n']:,}, for example {sql.example_in_words(row['example'], names)}"
            for row in records
        ]
        msg = f"a run cannot hold these rows: {'; '.join(sorted(parts))}. Fix the data, or leave these rows out"
        raise DataError(msg, counts)
