"""Runs to files: six columns, ranks in the order in which a dialect would read them."""

from __future__ import annotations

import os
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.checks import check_table, is_number, one_of
from spark_rankeval.dialects import find_dialect
from spark_rankeval.errors import DataError, InputError, OptionError
from spark_rankeval.spark.ids import why_unusable
from spark_rankeval.spark.named_columns import column, find_column
from spark_rankeval.spark.platforms import save_mode
from spark_rankeval.spark.storage import exists

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark_rankeval.dialects import Dialect

_FIELDS = ("query", "item", "model")
_TWICE = "an item twice for a query"


def write_run(
    predictions: DataFrame,
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
    """Write predictions as TREC's runs: lines ``query Q0 item rank score tag``, those of a query together and in rank order.

    Ranks count from 1. They go by score, equal scores as the dialect orders the items' text, so that a reader who trusts ranks and one
    who sorts as trec_eval does see one order. Scores are written so that they read back to the same bits. All is looked at before
    anything is written.

    Args:
        predictions: a row a query and item.
        path: the folder to write; of several models a folder ``model=<tag>`` in it for each. `read_run` reads both.
        query: the column of queries.
        item: the column of items.
        score: the column of scores, higher is better.
        model: the column that names the run of a row, its tag.
        tag: the run's tag, where there is but one; one of the two must be given.
        k: how many items to write of each query; None: all.
        dialect: whose order equal scores have, and whose precision scores.
        single_file: one file a run, which one task writes, and not one a partition.
        compression: ``none``, ``gzip``, or another that Spark writes text with.
        mode: ``errorifexists`` or ``overwrite``.

    Raises:
        OptionError, InputError, DialectError: something is wrong with the call; no job has run.
        DataError: rows that a run cannot hold: nulls, scores that are NaN, texts that are empty or hold a space, queries that begin
            with ``#``, an item twice for a query. Nothing is written then.
    """
    convention = find_dialect(dialect)
    path = _check(predictions, path, tag, k, mode, compression, single_file)
    names = {"query": query, "item": item, "score": score} | ({} if model is None else {"model": model})
    found = _columns(predictions, names, tag)
    rows = predictions.select(
        *[found[name].cast("string").alias(name) for name in _FIELDS], found["score"].cast("double").alias("score")
    )
    _refuse(rows)
    if mode == "errorifexists" and exists(predictions.sparkSession, path):
        msg = f"there is something at {path} already; choose another path, or pass mode='overwrite'"
        raise OptionError(msg)
    ordered = F.col("score").cast("float" if convention.ranking.score_precision == "float32" else "double")
    items = F.col("item").desc() if convention.ranking.ties == "item_desc" else F.col("item").asc()
    ranked = rows.withColumn(
        "rank", F.row_number().over(Window.partitionBy("model", "query").orderBy(ordered.desc(), items))
    )
    if k is not None:
        ranked = ranked.where(F.col("rank") <= k)
    keys = [F.col("model")] if single_file else [F.col("model"), F.col("query")]
    # A number of partitions would be a setting of the cluster's: Spark's own is taken.
    sorted_rows = ranked.repartition(*keys).sortWithinPartitions("model", "query", "rank")
    line = F.concat_ws(
        " ", "query", F.lit("Q0"), "item", F.col("rank").cast("string"), F.col("score").cast("string"), "model"
    )
    lines = sorted_rows.select(line.alias("value"), *([] if model is None else ["model"]))
    writer = lines.write.mode(save_mode(mode)).option("compression", compression)
    (writer if model is None else writer.partitionBy("model")).text(path)


def _check(
    predictions: DataFrame,
    path: str | os.PathLike[str],
    tag: str | None,
    k: int | None,
    mode: str,
    compression: str,
    single_file: bool,
) -> str:
    check_table("predictions", predictions)
    one_of("mode", mode, ("errorifexists", "overwrite"))
    one_of("single_file", single_file, (True, False))
    one_of("compression", compression, ("none", "gzip", "bzip2", "lz4", "snappy", "deflate", "zstd"))
    if k is not None and not (is_number(k, int) and k >= 1):
        msg = f"k must be a whole number from 1 on, or None; got {k!r}"
        raise OptionError(msg)
    if tag is not None and (not isinstance(tag, str) or not tag or len(tag.split()) != 1 or tag != tag.strip()):
        msg = f"tag must be a text without spaces that is not empty; got {tag!r}"
        raise OptionError(msg)
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(text, str) or not text.strip():
        msg = f"path must name a place, in a text that is not empty; got {path!r}"
        raise OptionError(msg)
    return text


def _columns(predictions: DataFrame, names: dict[str, str], tag: str | None) -> dict[str, Column]:
    """The columns of a run, all offenders named at once."""
    if ("model" in names) == (tag is not None):
        msg = "say what the run is called: tag='bm25', or model= for a column of tags, one of them"
        raise OptionError(msg)
    found, problems = {}, []
    for meaning, name in names.items():
        there = find_column(predictions, name) if isinstance(name, str) else None
        if there is None:
            problems.append(f"no column {name!r} ({meaning}=)")
            continue
        kind = predictions.schema[there].dataType
        fine = (T.NumericType,) if meaning == "score" else (T.StringType, T.IntegralType)
        if not isinstance(kind, fine):
            problems.append(
                f"{meaning}={there!r} is {kind.simpleString()}, which is no {'number' if meaning == 'score' else 'text'}: cast it"
            )
        elif meaning != "score" and (wrong := why_unusable(kind, "item")):
            problems.append(f"{meaning}={there!r} is {kind.simpleString()}; {wrong}")
        found[meaning] = column(there)
    if problems:
        there = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in predictions.schema.fields)
        msg = f"predictions: {'; '.join(problems)}; the table has: {there}"
        raise InputError(msg)
    return found if tag is None else {**found, "model": F.lit(tag)}


def _refuse(rows: DataFrame) -> None:
    """Raise where rows cannot be lines of a run.

    Raises:
        DataError: so it is.
    """
    reasons = {f"null {name}": F.col(name).isNull() for name in (*_FIELDS, "score")}
    reasons["NaN score"] = F.isnan("score")
    reasons |= {
        f"{name} that is empty or holds a space": F.col(name).rlike(r"\s") | (F.col(name) == "") for name in _FIELDS
    }
    reasons["query that begins with #, as a comment does"] = F.col("query").startswith("#")
    wrong = reduce(or_, [F.coalesce(one, F.lit(False)) for one in reasons.values()])
    reason = F.coalesce(*[F.when(one, F.lit(name)) for name, one in reasons.items()])
    fine = rows.where(~wrong).groupBy("model", "query", "item").agg(F.count(F.lit(1)).alias("n")).where("n > 1")
    example = F.struct("query", "item", "model").alias("example")
    told = rows.where(wrong).select(reason.alias("reason"), F.lit(1).cast("bigint").alias("n"), example)
    twice = fine.select(F.lit(_TWICE).alias("reason"), (F.col("n") - 1).alias("n"), example)
    found = (
        told.unionAll(twice).groupBy("reason").agg(F.sum("n").alias("n"), F.min("example").alias("example")).collect()
    )
    if found:
        counts = {row["reason"]: row["n"] for row in sorted(found, key=lambda row: str(row["reason"]))}
        parts = [f"{row['reason']}: {row['n']:,}, for example {_shown(row['example'])}" for row in found]
        msg = f"rows that a run cannot hold: {'; '.join(sorted(parts))}. Mend the data, or leave these rows out"
        raise DataError(msg, counts)


def _shown(example: T.Row) -> str:
    return ", ".join(f"{name}={example[name]!r}" for name in _FIELDS)
