"""Runs and judgements as tables, read by Spark from wherever it reads text; lines that do not read are told with file and number."""

from __future__ import annotations

import os
import re
import warnings
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from spark_rankeval.checks import check_table, one_of
from spark_rankeval.errors import DataError, InputError, SparkRankEvalWarning
from spark_rankeval.spark.platforms import condition_of
from spark_rankeval.spark.workers import run_on_workers
from spark_rankeval.trec.lines import QRELS, RUN, Form
from spark_rankeval.trec.sources import MALFORMED, MODELS
from spark_rankeval.trec.tables import SURVEY, survey_lines, tabulate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

_MOST_EXAMPLES = 3
_NO_FILE = ("PATH_NOT_FOUND", "_LEGACY_ERROR_TEMP_1156")


def read_run(
    spark: SparkSession,
    paths: str | os.PathLike[str] | Sequence[str],
    *,
    model: str = "tag",
    on_invalid: str = "error",
) -> DataFrame:
    """What systems retrieved, from files of lines ``301 Q0 FR940202-2-00150 104 2.129133 STANDARD``.

    Every line is looked at once before, in a job of its own; the table that is given is lazy and reads the files again. Empty
    lines and those that begin with ``#`` say nothing. Works on every Spark, classic and Connect.

    Args:
        spark: the session.
        paths: a file, folder or pattern, or several, as Spark reads them; compressed as it reads that.
        model: what names the model of a row: the run's ``tag``, the last field of a line; or ``file``, the file's name, where runs
            have one tag.
        on_invalid: lines that do not read are an ``error``, or ``drop`` leaves them out and warns of them.

    Returns:
        query, item, rank, score, model. The rank is the file's, null where it is no whole number: trec_eval ignores it, and
        orders by score.

    Raises:
        InputError: there is no such file.
        DataError: lines do not read; the message has their number, files, and some of them.
    """
    one_of("model", model, MODELS)
    return _read(spark, paths, RUN, on_invalid, model_is_file=model == "file")


def read_qrels(
    spark: SparkSession, paths: str | os.PathLike[str] | Sequence[str], *, on_invalid: str = "error"
) -> DataFrame:
    """What assessors judged, from files of lines ``301 0 CR93E-10279 0``.

    Args:
        spark: as in `read_run`, and so are the others.
        paths: the files.
        on_invalid: what becomes of lines that do not read.

    Returns:
        query, iteration, item, grade.

    Raises:
        InputError: there is no such file.
        DataError: lines do not read.
    """
    return _read(spark, paths, QRELS, on_invalid)


def check(frame: DataFrame) -> DataFrame:
    """Raise where lines of a table of ``spark.read.format("trec_run")`` or ``"trec_qrels"`` did not read; else give it back.

    Args:
        frame: a table with a column ``malformed``. Its files are read once, in a job.

    Raises:
        DataError: so it is; with file, line and reason of some of them.
        InputError: the table has no such column.
    """
    check_table("frame", frame)
    if MALFORMED not in frame.columns:
        msg = f"a table of the formats trec_run and trec_qrels has a column {MALFORMED!r}; this one has: {', '.join(frame.columns)}"
        raise InputError(msg)
    wrong = frame.where(F.col(MALFORMED).isNotNull())
    row = wrong.agg(F.count(F.lit(1)).alias("n"), F.min(MALFORMED).alias("example")).first()
    if row is not None and row["n"]:
        msg = f"lines that do not read: {row['n']:,}, for example {row['example']}. Mend the files, or leave out the rows with {MALFORMED}"
        raise DataError(msg, {"n_malformed": row["n"]})
    return frame


def _read(
    spark: SparkSession,
    paths: str | os.PathLike[str] | Sequence[str],
    form: Form,
    on_invalid: str,
    *,
    model_is_file: bool = False,
) -> DataFrame:
    one_of("on_invalid", on_invalid, ("error", "drop"))
    text = _text(spark, _as_paths(paths))
    lines = text.select(
        F.col("value").cast("binary").alias("line"),
        F.col("_metadata.file_path").alias("file"),
        F.col("_metadata.file_block_start").alias("block"),
        F.monotonically_increasing_id().alias("place"),
    )
    survey = run_on_workers(lines, partial(survey_lines, form=form), SURVEY)
    wrong = _malformed([_Survey(*row) for row in survey.collect()])
    if wrong.n:
        msg = f"{form.name}: lines that do not read: {wrong.n:,} in {wrong.n_files:,} file(s): {'; '.join(wrong.examples)}"
        if on_invalid == "error":
            msg = f"{msg}. Mend the files, or pass on_invalid='drop' to leave these lines out"
            raise DataError(msg, {"n_malformed": wrong.n})
        warnings.warn(f"{msg}. They are left out", SparkRankEvalWarning, stacklevel=3)
    columns = [F.col("value").cast("binary").alias("line")]
    columns += [F.col("_metadata.file_path").alias("file")] * model_is_file
    read = partial(tabulate, form=form, keep=on_invalid == "error")
    return run_on_workers(text.select(*columns), read, form.schema())


def _text(spark: SparkSession, paths: list[str]) -> DataFrame:
    try:
        text = spark.read.text(paths)
        # Spark Connect looks at files only when the schema is asked for.
        _ = text.schema
    except AnalysisException as error:
        if condition_of(error) not in _NO_FILE:
            raise
        msg = f"there is no file at {', '.join(map(repr, paths))}: {str(error).strip().partition(chr(10))[0]}"
        raise InputError(msg) from error
    return text


def _as_paths(paths: str | os.PathLike[str] | Sequence[str]) -> list[str]:
    given = [paths] if isinstance(paths, str | os.PathLike) else paths
    named = (
        [os.fspath(one) if isinstance(one, os.PathLike) else one for one in given]
        if isinstance(given, list | tuple)
        else []
    )
    if not named or not all(isinstance(one, str) and one.strip() for one in named):
        msg = f"paths must name files: a text that is not empty, or a list of them; got {paths!r}"
        raise InputError(msg)
    return named


class _Survey(NamedTuple):
    """What a batch of lines of one block of a file is like; see `survey_lines`."""

    file: str
    block: int
    first: int
    n_lines: int
    n_wrong: int
    places: list[int]
    problems: list[str]


class _Wrong(NamedTuple):
    n: int
    n_files: int
    examples: list[str]


def _malformed(surveys: list[_Survey]) -> _Wrong:
    """How many lines do not read, and where the first of them stand.

    The id of a row grows within a block by 1, so that its place is the difference to the least id; the lines of the blocks
    before it are counted.
    """
    wrong = [one for one in surveys if one.n_wrong]
    files = sorted({one.file for one in wrong})
    examples = []
    for file in files[:_MOST_EXAMPLES]:
        mine = [one for one in surveys if one.file == file]
        first = {block: min(one.first for one in mine if one.block == block) for block in {one.block for one in mine}}
        found = []
        for one in mine:
            before = sum(other.n_lines for other in mine if other.block < one.block)
            found += [
                (before + place - first[one.block] + 1, problem)
                for place, problem in zip(one.places, one.problems, strict=True)
            ]
        examples += [
            f"{_shown(file)}:{number}: {problem}"
            for number, problem in sorted(found)[: max(1, _MOST_EXAMPLES // len(files))]
        ]
    return _Wrong(sum(one.n_wrong for one in wrong), len(files), examples)


def _shown(file: str) -> str:
    """A file as a person names it."""
    return re.sub("^file:/+", "/", unquote(file))
