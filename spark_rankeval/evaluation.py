"""The front door: evaluate tables of predictions against tables of labels."""

from __future__ import annotations

import math
import numbers
import os
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_rankeval.dialects import Dialect, find_dialect
from spark_rankeval.errors import InputError, OptionError, SparkRankEvalWarning
from spark_rankeval.metrics.naming import parse_metric, parse_metrics
from spark_rankeval.refusal import raise_if_invalid
from spark_rankeval.result import Result
from spark_rankeval.spark.column_names import ColumnNames
from spark_rankeval.spark.inputs import read_sources
from spark_rankeval.spark.scoring import Scoring, facts_of, moments_of_table
from spark_rankeval.spark.storage import exists, publish, staged
from spark_rankeval.summary import DataQuality, summary_row
from spark_rankeval.views import Lists, columns_of, in_order, resolve, views_of
from spark_rankeval.worker.scoring import COUNTS, INVALID_COUNTS, USER_COUNTS
from spark_rankeval.worker.task import ScoringTask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from spark_rankeval.metrics.base import Metric
    from spark_rankeval.statistics.moments import Moments

    Metrics = str | Metric | Iterable[str | Metric] | Mapping[str, str | Metric]


def evaluate(
    predictions: DataFrame | Mapping[str, DataFrame],
    labels: DataFrame | None,
    metrics: Metrics,
    *,
    user: str | Sequence[str] | None = "user",
    item: str | tuple[str, str] = "item",
    score: str | None = None,
    rank: str | None = None,
    relevance: str | Sequence[str] | None = None,
    relevance_threshold: float | None = None,
    users: DataFrame | None = None,
    exclude: DataFrame | None = None,
    dialect: str | Dialect = "default",
    ties: str | None = None,
    on_invalid: str = "error",
    prune: str = "auto",
    model: str | None = None,
) -> Result:
    """Compute metrics of every user in one pass over the data, and their means.

    Names, columns, types and options are checked first, before any job. Then one action runs. Then, if rows were found
    that cannot be ranked, a `DataError` says how many of each kind there are, with examples.

    Args:
        predictions: rows of user, item and score or rank; or rows of user and an array of items, best first, plain or
            as structs with a score (as ALS ``recommendForAllUsers`` gives them).
        labels: rows of user and item, with a grade or without; or rows of user and an array; or None if `predictions`
            holds both arrays, as Spark's own evaluator takes them: each of its rows is then a user.
        metrics: names such as ``"ndcg@10"``, objects such as ``NDCG(k=10)``, several of them, or a dict by label.
        user: the column that makes a user, or several.
        item: the column of items, or two: that of predictions and that of labels.
        score: the column of scores, higher is better. Compared as float64: whole numbers above 2^53 and decimals of
            more than 15 digits are rounded to it, and may tie.
        rank: the column of ranks, lower is better, instead of scores.
        relevance: the column of grades; None: every labelled item has grade 1. Several columns, such as
            ``["click", "purchase"]``, are evaluated in the same pass, each with rows of its own in the summary.
        relevance_threshold: a labelled item is relevant from this grade on; None: above 0, or as the dialect says.
        users: a table of users to count besides, when some are in neither table.
        exclude: a table of (user, item), such as training data or seen items, to leave out of the predictions before
            they are ranked; how many were is counted. Its columns are named as those of predictions.
        dialect: whose conventions fill the parameters that a metric leaves open: ``default`` or ``mllib``.
        ties: how equal scores are ordered: ``item_asc``, ``item_desc``, or ``position`` for arrays; None: as the
            dialect says. ``average``: every metric is its mean over all orders of equal scores, which takes all
            predictions of a user; it is an error for metrics that hang on that order and have no such mean. Single
            metrics have it as ``"rr(ties='average')"``, beside others in order.
        on_invalid: ``error`` raises when rows cannot be ranked; ``drop`` leaves them out and counts them: of equal items
            the best ranked stays, of conflicting labels the highest grade.
        prune: ``auto`` keeps only as many predictions of a user as the metrics need; ``never`` keeps all. No value
            depends on it; only the count of users that hang on ties may be larger with ``auto``, which counts a group of
            equal scores that it cut, and only duplicates among what is kept are counted.
        model: the column of predictions that says which model a row is of. Several models are evaluated in the same pass,
            on the same users; so they are if `predictions` is a dict of tables by the model's name.

    Returns:
        the result; `result["ndcg@10"]` is a mean, `result.per_user` the lazy table of every user.

    Raises:
        MetricError, DialectError, OptionError, InputError: something is wrong with the call; no job has run.
        DataError: rows cannot be ranked.
    """
    scoring = _prepare(
        predictions, labels, metrics, user=user, item=item, score=score, rank=rank, relevance=relevance,
        relevance_threshold=relevance_threshold, users=users, exclude=exclude, dialect=dialect, ties=ties, on_invalid=on_invalid,
        prune=prune, model=model,
    )  # fmt: skip
    plan = scoring.plan(exact=False)
    values, counts, unresolved = scoring.moments(plan)
    words = plan.words
    if unresolved:
        plan = scoring.plan(exact=True)
        values, counts, _ = scoring.moments(plan)
        words = (*plan.words, f"The evaluation ran twice: the first go left the value of {unresolved:,} user(s) open.")
    qualities = {name: DataQuality.from_moments(mine) for name, mine in zip(scoring.task.models, counts, strict=True)}
    raise_if_invalid(DataQuality.of_models(list(qualities.values())), scoring.facts, scoring)
    n_columns = len(scoring.columns)
    rows = [
        _Row(scoring.said_of(i), scoring.values[i].model, scoring.columns[i % n_columns], values[i])
        for i in scoring.shown
    ]
    return _result(scoring.per_user, rows, qualities, words)


def score_users(
    predictions: DataFrame | Mapping[str, DataFrame],
    labels: DataFrame | None,
    metrics: Metrics,
    *,
    user: str | Sequence[str] | None = "user",
    item: str | tuple[str, str] = "item",
    score: str | None = None,
    rank: str | None = None,
    relevance: str | Sequence[str] | None = None,
    relevance_threshold: float | None = None,
    users: DataFrame | None = None,
    exclude: DataFrame | None = None,
    dialect: str | Dialect = "default",
    ties: str | None = None,
    on_invalid: str = "error",
    prune: str = "auto",
    model: str | None = None,
) -> DataFrame:
    """Every user's metrics as a lazy DataFrame, to be written, joined, or given to `summarise`.

    The arguments are those of `evaluate`. Nothing raises while the table is computed: what could not be ranked is
    counted in its columns ``n_invalid_predictions``, ``n_invalid_labels``, ``n_duplicate_predictions``,
    ``n_duplicate_labels`` and ``n_conflicting_labels``, and `summarise` raises.

    Returns:
        the user's columns; a double a metric, NaN where it is undefined; ``n_predictions``, ``n_labels``,
        ``n_relevant``, ``hangs_on_tie`` and the counts. Rows with a null user, if there are any, are one row.
    """
    return _prepare(
        predictions, labels, metrics, user=user, item=item, score=score, rank=rank, relevance=relevance,
        relevance_threshold=relevance_threshold, users=users, exclude=exclude, dialect=dialect, ties=ties, on_invalid=on_invalid,
        prune=prune, model=model,
    ).per_user()  # fmt: skip


def summarise(per_user: DataFrame, on_invalid: str | None = None) -> Result:
    """The means of a per-user table, fresh from `score_users` or read back from storage, with one action.

    Columns are known by the metadata that `score_users` gives them. Parquet and tables made of it keep that metadata;
    CSV, JSON and ORC do not: then every double column is a metric of its own name.

    Args:
        per_user: the table.
        on_invalid: ``error`` or ``drop``, as in `evaluate`; None: as `score_users` was told.

    Raises:
        InputError: the table has no column of a metric.
        DataError: the table counts rows that could not be ranked.
    """
    _one_of("on_invalid", on_invalid, (None, "error", "drop"))
    facts = {field.name: facts_of(field.metadata) for field in per_user.schema.fields}
    users = [name for name, said in facts.items() if said.get("kind") == "user"]
    metrics = {name: said for name, said in facts.items() if said.get("kind") == "metric"}
    if not any(facts.values()):
        doubles = [f.name for f in per_user.schema.fields if f.dataType.simpleString() in ("double", "float")]
        metrics = {name: {"label": name} for name in doubles}
    if not metrics:
        there = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in per_user.schema.fields)
        msg = f"the per-user table has no column of a metric; it has: {there}. Give it a table of score_users"
        raise InputError(msg)
    model = [name for name, said in facts.items() if said.get("kind") == "model"]
    counts = [name for name in COUNTS if name in facts]
    about_users = [name for name in counts if name in USER_COUNTS]
    invalid = [name for name in counts if name in INVALID_COUNTS]
    missing = [name for name in COUNTS if name not in facts]
    if missing:
        msg = f"the per-user table has no {', '.join(missing)}: these counts stand as 0 in the result"
        warnings.warn(msg, SparkRankEvalWarning, stacklevel=2)
    by_model = moments_of_table(per_user, users, [*metrics, *about_users], invalid, model)
    rows, qualities = [], {}
    for key in sorted(by_model, key=str):
        moments, name = by_model[key], str(key[0]) if model else ""
        found = dict(zip([*about_users, *invalid], moments[len(metrics) :], strict=False))
        found |= {lacking: _no_count(moments[0]) for lacking in missing}
        qualities[name] = DataQuality.from_moments(found)
        rows += [
            _Row(said, name, column, figures) for (column, said), figures in zip(metrics.items(), moments, strict=False)
        ]
    some = next(iter(metrics.values()))
    said_of_all = some if on_invalid is None else {**some, "on_invalid": on_invalid}
    raise_if_invalid(DataQuality.of_models(list(qualities.values())), said_of_all)
    return _result(lambda: per_user, rows, qualities, ("The table of users was summarised as it is.",))


def _no_count(like: Moments) -> Moments:
    n = like.n + like.n_undefined
    return replace(like, n=n, n_undefined=0, n_zero=0, mean=0.0, std=0.0, least=0.0, greatest=0.0, total=0.0)


def _prepare(
    predictions: DataFrame | Mapping[str, DataFrame],
    labels: DataFrame | None,
    metrics: Metrics,
    *,
    user: str | Sequence[str] | None,
    item: str | tuple[str, str],
    score: str | None,
    rank: str | None,
    relevance: str | Sequence[str] | None,
    relevance_threshold: float | None,
    users: DataFrame | None,
    exclude: DataFrame | None,
    dialect: str | Dialect,
    ties: str | None,
    on_invalid: str,
    prune: str,
    model: str | None,
) -> Scoring:
    """Check everything that can be checked without a job."""
    _one_of("on_invalid", on_invalid, ("error", "drop"))
    _one_of("prune", prune, ("auto", "never"))
    _one_of("ties", ties, (None, "item_asc", "item_desc", "position", "average"))
    if not (relevance_threshold is None or _is_number(relevance_threshold)):
        msg = f"relevance_threshold must be a number or None; got {relevance_threshold!r}"
        raise OptionError(msg)
    convention = find_dialect(dialect)
    asked = parse_metrics(metrics)
    names = ColumnNames.given(user, item, score, rank, relevance, one_table=labels is None, model=model)
    sources = read_sources(predictions, labels, users, exclude, names)
    left, right = sources.predictions, sources.labels
    if ties == "position" and not (left.arrays and left.has_value):
        msg = "ties='position' is for predictions in arrays with scores; rows of a table have no position. Use 'item_asc' or 'item_desc'"
        raise OptionError(msg)
    models = tuple(one.name for one in sources.models)
    lists = Lists(left.arrays and left.has_value, right.arrays, tuple(one.name for one in right.given_values))
    resolved = resolve(asked, convention, relevance_threshold, lists, ties)
    views, values = views_of(
        resolved,
        convention,
        lists,
        ties=ties,  # type: ignore[arg-type] # checked above
        threshold=relevance_threshold,
        keep_best=on_invalid == "drop",
        models=models,
    )
    task = ScoringTask(
        views=tuple(views),
        prediction_arrays=left.arrays,
        label_arrays=right.arrays,
        unusual_grades=convention.unusual_grades,
        keep_null_items=convention.null_items == "keep_rank" and left.arrays,
        models=models,
    )
    facts = {
        "dialect": convention.name,
        "on_invalid": on_invalid,
        "conflicting_labels": "last" if views[0].ranking.conflicting_labels == "last" else "error",
        "mean": convention.mean,
    }
    taken = [name for name in left.user if name.lower() in COUNTS]
    if taken:
        msg = f"the user column {taken[0]!r} has the name of a count in the per-user table; rename it ({', '.join(COUNTS)} are taken)"
        raise InputError(msg)
    model_column = sources.model_column or ("model" if models != ("",) else "")
    if model_column.lower() in [name.lower() for name in left.user]:
        msg = f"the user column {model_column!r} has the name of the column of models in the per-user table; rename it"
        raise InputError(msg)
    return Scoring(
        sources=sources,
        values=tuple(values),
        columns=columns_of(values, asked, taken=(*left.user, *filter(None, [model_column]), *COUNTS)),
        model_column=model_column,
        shown=tuple(in_order(values, list(asked))),
        task=task,
        prune=prune,
        facts=facts,
    )


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and not math.isnan(value)


def _one_of(option: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        msg = f"{option} must be one of {', '.join(map(repr, allowed))}; got {value!r}"
        raise OptionError(msg)


class _Row(NamedTuple):
    """What becomes a row of the summary: what a value says of itself, its model, its column and its figures."""

    said: Mapping[str, Any]
    model: str
    column: str
    figures: Moments


def _result(
    per_user: Callable[[], DataFrame], rows: Sequence[_Row], qualities: dict[str, DataQuality], words: tuple[str, ...]
) -> Result:
    summary = tuple(
        summary_row(
            said["label"],
            figures,
            model=model,
            dialect=said.get("dialect", ""),
            relevance=said.get("relevance", ""),
            definition=said.get("metric", said["label"]),
            cutoff=parse_metric(said["metric"]).k if "metric" in said else None,
            over_all=said.get("mean") == "all",
        )
        for said, model, _, figures in rows
    )
    columns = {row.key: column for row, (_, _, column, _) in zip(summary, rows, strict=True)}
    return Result(summary, qualities, columns, words, per_user, write_per_user)


def write_per_user(per_user: DataFrame, path: str | os.PathLike[str], mode: str = "errorifexists") -> Result:
    """Write a per-user table to a staging place, summarise what was written, and publish it if it is valid.

    The heavy part, computing the table, runs once.

    Args:
        per_user: a table of `score_users`.
        path: where the Parquet table is to be.
        mode: ``errorifexists`` or ``overwrite``.

    Raises:
        DataError: the written rows are not valid; nothing is published then.
        OptionError: the mode is not known, or there is something at the path already; nothing was computed.
    """
    _one_of("mode", mode, ("errorifexists", "overwrite"))
    path = os.fspath(path)
    if not path.strip():
        msg = "path must name a place; got an empty text"
        raise OptionError(msg)
    if mode == "errorifexists" and exists(per_user.sparkSession, path):
        msg = f"there is something at {path} already; choose another path, or pass mode='overwrite'"
        raise OptionError(msg)
    with staged(per_user, path) as table:
        result = summarise(table)
        published = publish(table, path, mode)
    return replace(result, _table=lambda: published)
