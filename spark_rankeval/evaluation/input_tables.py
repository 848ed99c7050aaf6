"""Tables that are made for an evaluation: documents of chunks, labels of spans or of another model's lists, and popular items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window

from spark_rankeval.checks import as_names, check_name, check_table, is_number, one_of
from spark_rankeval.errors import DataError, InputError, OptionError
from spark_rankeval.evaluation.evaluate import Metrics, evaluate, top_items
from spark_rankeval.evaluation.result import Result
from spark_rankeval.request import call
from spark_rankeval.spark import source_tables, sql
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.worker.catalogue_lists import RECOMMENDATIONS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_ITEM, _DOCUMENT, _START, _END = "rankeval_item", "rankeval_document", "rankeval_start", "rankeval_end"
#: What a cutoff counts in lists of documents: documents, or their chunks.
KCounts = Literal["documents", "chunks"]

_CHUNK = "rankeval_place_of_chunk"


@takes_local_tables
def roll_up(
    table: call.Table,
    document: str,
    *,
    user: str | Sequence[str] = "user",
    score: str | None = None,
    rank: str | None = None,
    model: str | None = None,
    relevance: str | Sequence[str] | call.Judged | None = None,
    cost: str | None = None,
    k_counts: KCounts = "documents",
) -> DataFrame:
    """Make rows of chunks rows of documents, as a lazy table for `evaluate` with ``item=document``.

    With `score` or `rank`, a document keeps the row of the user's best chunk of it. Of equal chunks that of the lower cost is the best.
    Every row has the highest grade that the user's rows of this document have. So pass predictions with their scores, and labels with
    their grades. One table of both has all of these. Rows that cannot be ranked stay, so that `evaluate` counts them.

    Examples:
        >>> chunks = spark.createDataFrame(
        ...     [(1, "a", 0.9), (1, "a", 0.8), (1, "b", 0.7)], "user int, document string, score double"
        ... )
        >>> roll_up(chunks, "document", score="score").orderBy("document").toPandas()
           user document  score
        0     1        a    0.9
        1     1        b    0.7
        >>> judged = spark.createDataFrame([(1, "b", 1), (1, "b", 2)], "user int, document string, grade int")
        >>> evaluate(
        ...     roll_up(chunks, "document", score="score"),
        ...     roll_up(judged, "document", relevance="grade"),
        ...     "rr", item="document", score="score", relevance="grade",
        ... )["rr"]
        0.5

    Args:
        table: rows of users and chunks, with the column of documents.
        document: the column that names the document of each chunk.
        user: the column that identifies a user or query, or a list of columns that do so together.
        score: the column of scores, of which the highest is best. None: there are ranks, or the rows are labels.
        rank: the column of ranks, of which the lowest is best.
        model: the column that names the model of each row, if the table holds several models.
        relevance: the column of grades, a list of such columns, or `Judged`. None: rows have no grade.
        cost: the column of what chunks cost.
        k_counts: what cutoffs of metrics are to count. With ``chunks``, the further chunks of a document take places without a label: they
            stay as items of their own, such as ``a (chunk 2)``. Documents are then text, so pass the same word for the labels.

    Returns:
        the columns of the table, and its rows or fewer.

    Raises:
        InputError, OptionError: an argument is not valid.
    """
    one_of("k_counts", k_counts, get_args(KCounts))
    check_table("table", table)
    grades = relevance if relevance is None else as_names("relevance", call.grade_columns(relevance))
    options = {"document": document, "score": score, "rank": rank, "model": model, "cost": cost}
    for option, name in options.items():
        check_name(option, name)
    names: dict[str, Sequence[str]] = {option: [] if name is None else [name] for option, name in options.items()}
    names |= {"user": as_names("user", user), "relevance": grades or ()}
    problems: list[str] = []
    found = source_tables.require_columns("table", table, names, problems)
    problems += [
        f"table: the column {name!r} ({option}=) has arrays; roll_up takes rows. inline(column) of Spark SQL makes them"
        for option, columns in found.items()
        for name in columns
        if isinstance(table.schema[name].dataType, T.ArrayType)
    ]
    if problems:
        raise InputError("; ".join(problems))
    if score is not None and rank is not None:
        msg = "score and rank are both given, and one of them orders the chunks; leave one out"
        raise InputError(msg)
    (item,), keys = found["document"], [*map(sql.named, (*found["user"], *found["model"]))]
    best = [*map(sql.named, found["score"] or found["rank"])]
    documents = [*keys, sql.named(item)]
    if grades:
        # Models may find different chunks of a document, which has one grade.
        of_all_models = [*map(sql.named, found["user"]), sql.named(item)]
        highest = {name: sql.over(sql.call("max", sql.named(name)), of_all_models) for name in found["relevance"]}
        if not best:
            # A missing grade of a label stays, because it is a mistake.
            highest = {name: sql.when(sql.named(name).is_not_null(), high) for name, high in highest.items()}
        table = sql.with_columns(table, highest)
    if not best:
        return sql.with_columns(table, {item: sql.named(item).cast("string")}) if k_counts == "chunks" else table
    # Zero added to it, −0 is 0.
    value = best[0].cast("double") + 0.0
    is_usable = sql.named(item).is_not_null() & value.is_not_null() & ~sql.call("isnan", value)
    order = [sql.descending(value) if score is not None else value, *map(sql.named, found["cost"])]
    place = sql.when(is_usable, sql.over(sql.call("row_number"), [*documents, is_usable], order), 1)
    table = sql.with_columns(table, {_CHUNK: place})
    if k_counts == "documents":
        return sql.where(table, sql.named(_CHUNK) == 1).drop(_CHUNK)
    further = sql.call("concat", sql.named(item), sql.text(" (chunk "), sql.named(_CHUNK).cast("string"), sql.text(")"))
    return sql.with_columns(
        table, {item: sql.when(sql.named(_CHUNK) == 1, sql.named(item).cast("string"), further)}
    ).drop(_CHUNK)


def _renamed(table: DataFrame, names: Mapping[str, str]) -> DataFrame:
    """Columns of a table under our names, as these stand for the caller's."""
    return sql.select(table, *(sql.named(name).alias(ours) for ours, name in names.items()))


@takes_local_tables
def labels_of_spans(
    spans: call.Table,
    chunks: call.Table,
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
    shared = {"document": (document,), "start": (start,), "end": (end,)}
    problems: list[str] = []
    found = {
        "spans": source_tables.require_columns(
            "spans", spans, {"user": users, "relevance": grades, **shared}, problems
        ),
        "chunks": source_tables.require_columns("chunks", chunks, {"item": (item,), **shared}, problems),
    }
    problems = problems or _problems_of_places({"spans": spans, "chunks": chunks}, found)
    if problems:
        raise InputError("; ".join(problems))
    user_columns = {f"rankeval_user_{index}": name for index, name in enumerate(users)}
    grade_columns = {f"rankeval_grade_{index}": name for index, name in enumerate(grades)}
    places = {_DOCUMENT: document, _START: start, _END: end}
    rows = _renamed(spans, user_columns | grade_columns | {f"{ours}_of_span": name for ours, name in places.items()})
    listed = _renamed(chunks, {_ITEM: item} | places)
    # A span without a chunk stays, so that it is counted.
    joined = rows.join(listed, _overlaps(overlap), "left")
    # A grade that is missing must not hide behind that of another span.
    highest = [
        sql.when(sql.call("count", sql.named(name)) == sql.call("count", 1), sql.call("max", sql.named(name))).alias(
            name
        )
        for name in grade_columns
    ]
    keys = [*user_columns, _ITEM]
    labels = sql.aggregate(joined, keys, *highest) if highest else joined.select(*keys).distinct()
    columns = user_columns | {_ITEM: item} | grade_columns
    return labels.select(*(F.col(ours).alias(name) for ours, name in columns.items()))


def _overlaps(share: float) -> Column:
    """Whether a span and a chunk overlap by at least this share of the shorter one."""
    document, start, end = ((F.col(name), F.col(f"{name}_of_span")) for name in (_DOCUMENT, _START, _END))
    common = F.least(*end) - F.greatest(*start)
    shorter = F.least(*(last - first for last, first in zip(end, start, strict=True)))
    return (document[0] == document[1]) & (common > 0) & (common >= share * shorter)


def _problems_of_places(tables: Mapping[str, DataFrame], found: Mapping[str, Mapping[str, Sequence[str]]]) -> list[str]:
    """Which places are no whole numbers, and whether documents do not compare."""
    names = {(role, option): found[role][option][0] for role in tables for option in ("document", "start", "end")}
    kinds = {(role, option): tables[role].schema[name].dataType for (role, option), name in names.items()}
    problems = [
        f"{role}: the column {names[role, option]!r} must have whole numbers; it is {kind.simpleString()}. Cast it"
        for (role, option), kind in kinds.items()
        if option != "document" and not isinstance(kind, T.IntegralType)
    ]
    one, other = kinds["spans", "document"], kinds["chunks", "document"]
    if sql.common_id_type(one, other) is None:
        problems.append(
            f"documents have different types: {names['spans', 'document']!r} is {one.simpleString()} in spans and "
            f"{other.simpleString()} in chunks. Cast one of them"
        )
    return problems


_MOST_SEGMENTS = 100
_SEGMENT, _LAST, _VECTOR = "rankeval_segment", "rankeval_last_segment", "vector"
_RESULT = ("score", "rank")


@takes_local_tables
def popularity(
    training: call.Table,
    k: int = 100,
    *,
    user: str | Sequence[str] = "user",
    item: str = "item",
    segment: str | None = None,
    users: call.Table | None = None,
    seen: bool = False,
) -> DataFrame:
    """Recommend to each user the items that most users have, as a lazy table: the baseline of a comparison.

    An item's score is the number of users who have it in the training data. Equal scores are ordered by the item. A user without rows
    in `training` gets the most popular items if `users` has the user. Otherwise the user has no list, and counts as 0 in an evaluation.
    So pass the labels as `users`, or all users.

    Examples:
        >>> log = spark.createDataFrame([(2, "a"), (1, "a"), (1, "b"), (3, "c")], "user int, item string")
        >>> popularity(log, 2).where("user > 1").orderBy("user", "rank").toPandas()
           user item  score  rank
        0     2    b    1.0     1
        1     2    c    1.0     2
        2     3    a    2.0     1
        3     3    b    1.0     2
        >>> labels = spark.createDataFrame([(3, "b"), (9, "a")], "user int, item string")
        >>> popularity(log, 1, users=labels).orderBy("user").toPandas()
           user item  score  rank
        0     3    a    2.0     1
        1     9    a    2.0     1

    Args:
        training: the interactions, a row for each user and item; a pair may occur several times.
        k: how many items a user gets; fewer if there are fewer.
        user: the column that identifies a user, or a list of columns that do so together.
        item: the column of items.
        segment: a column that divides the users, of `users`, or of `training` if there is no `users`. Each user then gets what is popular
            in the own segment. A user whose segment is null gets what is popular among all. With `users`, those of `training` who are not
            there have no segment either, and count among all users alone. This runs one action, which reads the names of the segments.
        users: a table with the users who get items, each in one row or more, such as the labels. None: those of `training` alone.
        seen: whether users may get items that they have in `training`.

    Returns:
        a row for each user and item: the user's columns, the item, ``score`` and ``rank``, from 1.

    Raises:
        InputError, OptionError: an argument is not valid.
        DataError: a user is in several segments.
    """
    for role, table in (("training", training), ("users", users)):
        if table is not None:
            check_table(role, table)
    check_name("item", item)
    check_name("segment", segment)
    user_names = call.ColumnNames.read(call.ScoringOptions(user=user, item=item)).user
    _check_result([*user_names, item])
    problems: list[str] = []
    source_tables.require_columns("training", training, {"user": user_names, "item": (item,)}, problems)
    people = training if users is None else users
    of_people = {"user": user_names, "segment": () if segment is None else (segment,)}
    source_tables.require_columns("training" if users is None else "users", people, of_people, problems)
    if problems:
        raise InputError("; ".join(dict.fromkeys(problems)))
    columns = [f"rankeval_user_{index}" for index in range(len(user_names))]
    named_users = [sql.named(name).alias(column) for name, column in zip(user_names, columns, strict=True)]
    text_of_segment = sql.null_of(T.StringType()) if segment is None else sql.named(segment).cast(T.StringType())
    is_user = sql.all_of(sql.named(column).is_not_null() for column in columns)
    rows = sql.where(sql.select(people, *named_users, text_of_segment.alias(_SEGMENT)), is_user)
    # A row without a segment says nothing of a user who has one in another row.
    ends = sql.call("min", sql.named(_SEGMENT)).alias(_SEGMENT), sql.call("max", sql.named(_SEGMENT)).alias(_LAST)
    served = sql.aggregate(rows, columns, *ends)
    pairs = sql.select(training, *named_users, sql.named(item).alias(_ITEM)).distinct()
    pairs = sql.where(pairs, is_user & sql.named(_ITEM).is_not_null())
    names: list[str] = []
    counted = pairs
    if segment is not None:
        names, counted = _segments(served), pairs.join(served, columns, "left")
    # A user's vector has a 1 for the segment, or in the last place for none. An item's has the number of users in each segment, and of all
    # users. The product is the item's popularity in the segment.
    marks = [sql.when(sql.named(_SEGMENT) == sql.text(name), 1.0, 0.0) for name in names]
    user_vector = sql.call("array", *marks, sql.when(sql.named(_SEGMENT).is_null(), 1.0, 0.0))
    counts = sql.call("array", *(sql.call("sum", mark) for mark in marks), sql.call("sum", 1.0))
    items = sql.aggregate(counted, [_ITEM], counts.alias(_VECTOR))
    vectors = call.Vectors(sql.select(served, *map(sql.named, columns), user_vector.alias(_VECTOR)), items)
    lists = top_items(vectors, k, user=columns, item=_ITEM, exclude=None if seen else pairs)
    entries = lists.select(*columns, F.posexplode(RECOMMENDATIONS).alias("place", "entry"))
    # An item that no user of the segment has is not popular there.
    return entries.where(F.col("entry.score") > 0).select(
        *(F.col(column).alias(name) for name, column in zip(user_names, columns, strict=True)),
        F.col(f"entry.{_ITEM}").alias(item),
        F.col("entry.score").alias("score"),
        (F.col("place") + 1).alias("rank"),
    )


def _check_result(names: Sequence[str]) -> None:
    """Refuse columns of users and items that would give the result two columns of one name."""
    taken = list(_RESULT)
    for name in names:
        if name.lower() in taken:
            msg = f"the column {name!r} would occur twice in the result, which has {', '.join((*names, *_RESULT))}; rename it in the data"
            raise OptionError(msg)
        taken.append(name.lower())


def _segments(users: DataFrame) -> list[str]:
    """The names of the segments, from one action; `users` has the first and the last one of each user."""
    repeated = sql.call("count", sql.when(sql.named(_SEGMENT) < sql.named(_LAST), sql.number(1)))
    names = sql.call("array_sort", sql.call("collect_set", sql.named(_SEGMENT)))
    ((n, segments),) = sql.select(users, repeated, names).collect()
    if n:
        msg = f"{n:,} user{'s are' if n > 1 else ' is'} in several segments; each user must be in one"
        raise DataError(msg)
    if not 1 <= len(segments) <= _MOST_SEGMENTS:
        msg = f"popularity needs 1 to {_MOST_SEGMENTS:,} segments; the column has {len(segments):,}"
        raise OptionError(msg)
    return list(segments)


_LISTED, _GRADE, _ORDER = "listed_item", "grade_by_rank", "order"


@takes_local_tables
def agreement(
    predictions_a: call.Table,
    predictions_b: call.Table,
    metrics: Metrics = "rbo",
    *,
    user: str | Sequence[str] = "user",
    item: str = "item",
    score: str | None = None,
    rank: str | None = None,
    on_invalid: call.OnInvalidOption = "error",
    model: str = "",
) -> Result:
    """Measure how alike the lists of two models are, for every user and in the mean.

    The second model's lists serve as labels: an item's grade is the list's length − its rank + 1. In both lists, equal scores are
    ranked by item, ascending. ``"rbo"`` compares whole lists and gives the top most weight (Webber, Moffat, Zobel 2010).
    ``"kendall_distance(labels='best_k')@10"`` compares the order of the items that both have among their first 10. Both are symmetric.
    Other metrics read these labels like any others: ``"precision@10"`` of lists of 10 is the share of items that both have.

    Examples:
        >>> alike = agreement(predictions, personal, ["rbo", "precision@3"], score="score")
        >>> round(alike["rbo"], 4), round(alike["precision@3"], 4)
        (0.8419, 0.9167)

    Args:
        predictions_a: rows of user, item and score or rank; or a row for each user with an array, as in `evaluate`.
        predictions_b: the same of the other model, with the same column names.
        metrics: as in `evaluate`.
        user: the column that identifies a user, or a list of columns that do so together.
        item: the column of items.
        score: the column of scores; the highest is best.
        rank: the column of ranks instead; the lowest is best.
        on_invalid: as in `evaluate`.
        model: a name for the pair in the summary; empty: none.

    Returns:
        a result of `evaluate`. Users without a list of the first model have 0 in ``rbo``. Those without a list of the second are left
        out of the mean. `Result.data_quality` counts both: ``n_without_predictions``, ``n_without_relevant``.

    Raises:
        MetricError, OptionError, InputError: an argument is not valid; no job has run.
        DataError: rows cannot be ranked; those of the second model are reported as labels.
    """
    if not isinstance(model, str):
        msg = f"model must be a name for the pair of models; got {model!r}"
        raise OptionError(msg)
    check_table("predictions_a", predictions_a)
    check_table("predictions_b", predictions_b)
    options: dict[str, Any] = {"user": user, "score": score, "rank": rank, "on_invalid": on_invalid}
    names = call.ColumnNames.read(call.ScoringOptions(item=item, **options))
    left = _read(predictions_a, "predictions_a", names)
    other = _read(predictions_b, "predictions_b", names)
    problems: list[str] = []
    source_tables.check_comparable(left, (replace(other, role="labels"),), problems)
    if problems:
        raise InputError("; ".join(problems))
    try:
        predictions = {model: predictions_a} if model else predictions_a
        return evaluate(predictions, _as_labels(other), metrics, item=(item, _LISTED), relevance=_GRADE, **options)
    except DataError as error:
        msg = f"the second model's list serves as the labels, and its order as their relevance: {error}"
        raise DataError(msg, error.counts) from error


def _read(frame: DataFrame, name: str, names: call.ColumnNames) -> source_tables.SourceTable:
    problems: list[str] = []
    source = source_tables.read_source("predictions", frame, names, problems)
    if problems:
        msg = f"{name}: {'; '.join(problems)}"
        raise InputError(msg)
    return source


def _as_labels(source: source_tables.SourceTable) -> DataFrame:
    """A row for each item of a list, graded by its place; an item without a score or rank has no grade."""
    users = [sql.column(name) for name in source.user]
    ids, *values = (each.column for each in (source.raw_ids_sql(), *source.values_sql()))
    if source.arrays:
        # Without scores the place orders the entries. A null array has one null entry.
        entries = F.transform(
            ids,
            lambda item, place: F.struct(
                item.alias(_LISTED), (F.get(values[0], place) if values else -place).cast("double").alias(_ORDER)
            ),
        )
        lists = source.frame.where(ids.isNull() | (F.size(ids) > 0))
        rows = lists.select(*users, F.explode_outer(entries).alias("entry")).select(*users, "entry.*")
    else:
        value = values[0].cast("double")
        order = -value if source.value_kind == "rank" else value
        rows = source.frame.select(*users, ids.alias(_LISTED), order.alias(_ORDER))
    # Counted from the last place up, the row number is length − rank + 1.
    from_below = Window.partitionBy(*users).orderBy(F.col(_ORDER).asc(), F.col(_LISTED).desc())
    has_order = ~(F.col(_ORDER).isNull() | F.isnan(_ORDER))
    grade = F.when(has_order, F.row_number().over(from_below)).alias(_GRADE)
    return rows.select(*users, _LISTED, grade)
