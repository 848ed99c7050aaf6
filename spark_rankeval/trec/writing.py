"""Write runs in TREC's format: six columns, with ranks in the order in which a dialect would read them."""

from __future__ import annotations

import os
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.checks import check_table, is_number, one_of
from spark_rankeval.dialects import Dialect, find_dialect
from spark_rankeval.errors import DataError, InputError, OptionError
from spark_rankeval.request.options import Table
from spark_rankeval.spark.ids import why_unusable
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.platforms import engine_of, save_mode
from spark_rankeval.spark.sql_text import column, find_column
from spark_rankeval.spark.storage import exists

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_FIELDS = ("query", "item", "model")
_TWICE = "an item twice for a query"


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
    path = _check(predictions, path, tag, k, mode, compression, single_file)
    names = {"query": query, "item": item, "score": score} | ({} if model is None else {"model": model})
    columns = _columns(predictions, names, tag)
    rows = predictions.select(
        *[columns[name].cast("string").alias(name) for name in _FIELDS], columns["score"].cast("double").alias("score")
    )
    _refuse(rows)
    if mode == "errorifexists" and exists(predictions.sparkSession, path):
        msg = f"{path} already exists; choose another path, or pass mode='overwrite'"
        raise OptionError(msg)
    ordered = F.col("score").cast("float" if convention.ranking.score_precision == "float32" else "double")
    items = F.col("item").desc() if convention.ranking.ties == "item_desc" else F.col("item").asc()
    best_first = Window.partitionBy("model", "query").orderBy(ordered.desc(), items)
    ranked = rows.withColumn("rank", F.row_number().over(best_first))
    if k is not None:
        ranked = ranked.where(F.col("rank") <= k)
    rank, value = F.col("rank").cast("string"), F.col("score").cast("string")
    line = F.concat_ws(" ", "query", F.lit("Q0"), "item", rank, value, "model").alias("value")
    lines, order = ranked.select("model", "query", "rank", line), ("model", "query", "rank")
    keeps_order = engine_of(predictions.sparkSession).is_spark
    if keeps_order:
        # The number of partitions is left to Spark, because it suits the cluster.
        lines = lines.repartition(*order[: 1 if single_file else 2]).sortWithinPartitions(*order)
    else:
        # All lines of a query as one row, because Sail mixes sorted rows on their way to a file.
        query_lines = F.array_sort(F.collect_list(F.struct("rank", "value")))
        text = F.concat_ws("\n", F.transform(query_lines, lambda row: row["value"])).alias("value")
        lines = lines.groupBy("model", "query").agg(text).orderBy("model", "query")
    # Sail writes rows to several files, but to one in a folder of a column's value.
    has_folders = model is not None or not keeps_order
    writer = lines.select("value", *["model"] * has_folders).write
    writer = writer.partitionBy("model") if has_folders else writer
    writer.mode(save_mode(mode)).option("compression", compression).text(path)


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
        msg = f"tag must be a non-empty string without spaces; got {tag!r}"
        raise OptionError(msg)
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(text, str) or not text.strip():
        msg = f"path must be a non-empty string; got {path!r}"
        raise OptionError(msg)
    return text


def _columns(predictions: DataFrame, names: dict[str, str], tag: str | None) -> dict[str, Column]:
    if ("model" in names) == (tag is not None):
        msg = "the run needs a name; pass either tag='bm25', or model= for a column of tags"
        raise OptionError(msg)
    columns, problems = {}, []
    for meaning, name in names.items():
        actual = find_column(predictions, name) if isinstance(name, str) else None
        if actual is None:
            problems.append(f"no column {name!r} ({meaning}=)")
            continue
        kind = predictions.schema[actual].dataType
        expected, allowed = (
            ("a number", (T.NumericType,)) if meaning == "score" else ("a string", (T.StringType, T.IntegralType))
        )
        if not isinstance(kind, allowed):
            problems.append(f"{meaning}={actual!r} is {kind.simpleString()}, not {expected}: cast it")
        elif meaning != "score" and (wrong := why_unusable(kind, "item")):
            problems.append(f"{meaning}={actual!r} is {kind.simpleString()}; {wrong}")
        columns[meaning] = column(actual)
    if problems:
        available = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in predictions.schema.fields)
        msg = f"predictions: {'; '.join(problems)}; the table has: {available}"
        raise InputError(msg)
    return columns if tag is None else {**columns, "model": F.lit(tag)}


def _refuse(rows: DataFrame) -> None:
    reasons = {f"null {name}": F.col(name).isNull() for name in (*_FIELDS, "score")}
    reasons["NaN score"] = F.isnan("score")
    reasons |= {
        f"{name} that is empty or holds a space": F.col(name).rlike(r"\s") | (F.col(name) == "") for name in _FIELDS
    }
    reasons["query that begins with #, as a comment does"] = F.col("query").startswith("#")
    wrong = reduce(or_, [F.coalesce(condition, F.lit(False)) for condition in reasons.values()])
    reason = F.coalesce(*[F.when(condition, F.lit(name)) for name, condition in reasons.items()]).alias("reason")
    example = F.struct("query", "item", "model").alias("example")
    refused = rows.where(wrong).select(reason, F.lit(1).cast("bigint").alias("n"), example)
    usable = rows.where(~wrong).groupBy("model", "query", "item").agg(F.count(F.lit(1)).alias("n")).where("n > 1")
    twice = usable.select(F.lit(_TWICE).alias("reason"), (F.col("n") - 1).alias("n"), example)
    totals = refused.unionAll(twice).groupBy("reason").agg(F.sum("n").alias("n"), F.min("example").alias("example"))
    records = totals.collect()
    if records:
        counts = {row["reason"]: row["n"] for row in sorted(records, key=lambda row: str(row["reason"]))}
        parts = [f"{row['reason']}: {row['n']:,}, for example {_shown(row['example'])}" for row in records]
        msg = f"a run cannot hold these rows: {'; '.join(sorted(parts))}. Fix the data, or leave these rows out"
        raise DataError(msg, counts)


def _shown(example: T.Row) -> str:
    return ", ".join(f"{name}={example[name]!r}" for name in _FIELDS)
