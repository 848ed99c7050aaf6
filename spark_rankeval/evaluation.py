"""The front door: evaluate tables of predictions against tables of labels."""

from __future__ import annotations

import math
import numbers
import os
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spark_rankeval.dialects import EVERY_METRIC, Dialect, find_dialect
from spark_rankeval.errors import DataError, DialectError, InputError, OptionError, SparkRankEvalWarning
from spark_rankeval.metrics.expected_ties import TiesOfTheCall
from spark_rankeval.metrics.naming import column_names, parse_metric, parse_metrics
from spark_rankeval.result import Result
from spark_rankeval.spark.diagnosis import diagnose, example_of_duplicates, null_users
from spark_rankeval.spark.inputs import ColumnNames, read_sources
from spark_rankeval.spark.scoring import Scoring, facts_of, moments_of_table
from spark_rankeval.spark.storage import exists, publish, staged
from spark_rankeval.summary import DataQuality, summary_row
from spark_rankeval.worker.scoring import COUNTS, INVALID_COUNTS, USER_COUNTS
from spark_rankeval.worker.task import ScoringTask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from spark_rankeval.metrics.base import Metric, SuppliesDefaults
    from spark_rankeval.statistics.moments import Moments

    Metrics = str | Metric | Iterable[str | Metric] | Mapping[str, str | Metric]


def evaluate(
    predictions: DataFrame,
    labels: DataFrame | None,
    metrics: Metrics,
    *,
    user: str | Sequence[str] | None = "user",
    item: str | tuple[str, str] = "item",
    score: str | None = None,
    rank: str | None = None,
    relevance: str | None = None,
    relevance_threshold: float | None = None,
    users: DataFrame | None = None,
    dialect: str | Dialect = "default",
    ties: str | None = None,
    on_invalid: str = "error",
    prune: str = "auto",
    model: str = "",
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
        relevance: the column of grades; None: every labelled item has grade 1.
        relevance_threshold: a labelled item is relevant from this grade on; None: above 0, or as the dialect says.
        users: a table of users to count besides, when some are in neither table.
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
        model: a name for these predictions, for the summary.

    Returns:
        the result; `result["ndcg@10"]` is a mean, `result.per_user` the lazy table of every user.

    Raises:
        MetricError, DialectError, OptionError, InputError: something is wrong with the call; no job has run.
        DataError: rows cannot be ranked.
    """
    scoring = _prepare(
        predictions, labels, metrics, user=user, item=item, score=score, rank=rank, relevance=relevance,
        relevance_threshold=relevance_threshold, users=users, dialect=dialect, ties=ties, on_invalid=on_invalid,
        prune=prune, model=model,
    )  # fmt: skip
    plan = scoring.plan(exact=False)
    moments, unresolved = scoring.moments(plan)
    words = plan.words
    if unresolved:
        plan = scoring.plan(exact=True)
        moments, _ = scoring.moments(plan)
        words = (*plan.words, f"The evaluation ran twice: the first go left the value of {unresolved:,} user(s) open.")
    quality = DataQuality.from_moments(moments)
    _raise_if_invalid(quality, scoring.facts, scoring)
    described = [(label, {"metric": str(metric), **scoring.facts}) for label, metric in scoring.metrics.items()]
    return _result(scoring.per_user, described, moments, quality, scoring.columns, words)


def score_users(
    predictions: DataFrame,
    labels: DataFrame | None,
    metrics: Metrics,
    *,
    user: str | Sequence[str] | None = "user",
    item: str | tuple[str, str] = "item",
    score: str | None = None,
    rank: str | None = None,
    relevance: str | None = None,
    relevance_threshold: float | None = None,
    users: DataFrame | None = None,
    dialect: str | Dialect = "default",
    ties: str | None = None,
    on_invalid: str = "error",
    prune: str = "auto",
    model: str = "",
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
        relevance_threshold=relevance_threshold, users=users, dialect=dialect, ties=ties, on_invalid=on_invalid,
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
    counts = [name for name in COUNTS if name in facts]
    values = {said["label"]: name for name, said in metrics.items()} | {n: n for n in counts if n in USER_COUNTS}
    invalid = [name for name in counts if name in INVALID_COUNTS]
    moments = moments_of_table(per_user, users, values, invalid)
    if len(counts) < len(COUNTS):
        missing = [name for name in COUNTS if name not in facts]
        msg = f"the per-user table has no {', '.join(missing)}: these counts stand as 0 in the result"
        warnings.warn(msg, SparkRankEvalWarning, stacklevel=2)
        nothing = next(iter(moments.values()))
        moments |= {name: _no_count(nothing) for name in missing}
    quality = DataQuality.from_moments(moments)
    some = next(iter(metrics.values()))
    _raise_if_invalid(quality, some if on_invalid is None else {**some, "on_invalid": on_invalid})
    described = [(said["label"], said) for said in metrics.values()]
    columns = {said["label"]: name for name, said in metrics.items()}
    return _result(
        lambda: per_user, described, moments, quality, columns, ("The table of users was summarised as it is.",)
    )


def _no_count(like: Moments) -> Moments:
    n = like.n + like.n_undefined
    return replace(like, n=n, n_undefined=0, n_zero=0, mean=0.0, std=0.0, least=0.0, greatest=0.0, total=0.0)


def _prepare(
    predictions: DataFrame,
    labels: DataFrame | None,
    metrics: Metrics,
    *,
    user: str | Sequence[str] | None,
    item: str | tuple[str, str],
    score: str | None,
    rank: str | None,
    relevance: str | None,
    relevance_threshold: float | None,
    users: DataFrame | None,
    dialect: str | Dialect,
    ties: str | None,
    on_invalid: str,
    prune: str,
    model: str,
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
    callers_ties = TiesOfTheCall(ties)
    sources: list[SuppliesDefaults] = [_CallersThreshold(relevance_threshold), callers_ties, convention]
    resolved = {label: metric.resolve(*sources) for label, metric in asked.items()}
    callers_ties.check(resolved)
    names = ColumnNames.given(user, item, score, rank, relevance, one_table=labels is None)
    left, right, everyone = read_sources(predictions, labels, users, names)
    ordered_labels = [label for label, metric in resolved.items() if metric.needs_label_order]
    if ordered_labels and right.has_value and not right.arrays:
        msg = (
            f"dialect {convention.name!r}: graded {', '.join(ordered_labels)} hangs on the order of a user's labels, which "
            "rows of a table do not have. Pass the labels as arrays, or use ndcg(ideal='labels'), which does not depend on an order"
        )
        raise DialectError(msg)
    if ties == "average":
        # The order that the counts, and metrics that ask for one, still need.
        tie_rule = "item_asc"
    elif left.arrays and left.has_value:
        tie_rule = ties or convention.ties
    elif ties == "position":
        msg = "ties='position' is for predictions in arrays with scores; rows of a table have no position. Use 'item_asc' or 'item_desc'"
        raise OptionError(msg)
    else:
        tie_rule = ties or ("item_asc" if convention.ties == "position" else convention.ties)
    # Which label is the last is known of arrays alone: rows of a table have no order.
    last_label_counts = convention.conflicting_labels == "last" and right.arrays
    task = ScoringTask(
        metrics=tuple(resolved.values()),
        relevance_threshold=_common_threshold(relevance_threshold, convention),
        ties=tie_rule,  # type: ignore[arg-type] # checked above
        duplicates="each" if convention.duplicates == "each" else "keep_best" if on_invalid == "drop" else "count",
        conflicting_labels="last" if last_label_counts else "highest",
        prediction_arrays=left.arrays,
        label_arrays=right.arrays,
        keep_unusual_grades=convention.unusual_grades == "keep",
        keep_null_items=convention.null_items == "keep_rank" and left.arrays,
    )
    facts = {
        "model": model,
        "dialect": convention.name,
        "on_invalid": on_invalid,
        "conflicting_labels": "last" if last_label_counts else "error",
        "mean": convention.mean,
    }
    taken = [name for name in left.user if name.lower() in COUNTS]
    if taken:
        msg = f"the user column {taken[0]!r} has the name of a count in the per-user table; rename it ({', '.join(COUNTS)} are taken)"
        raise InputError(msg)
    columns = column_names(asked, taken=(*left.user, *COUNTS))
    return Scoring(left, right, everyone, resolved, columns, task, prune, facts)


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and not math.isnan(value)


class _CallersThreshold:
    """The threshold that the caller gave for all metrics: it comes before the dialect's."""

    def __init__(self, threshold: float | None) -> None:
        self._values = {} if threshold is None else {"relevance_threshold": threshold}

    def defaults_for(self, metric: type[Metric]) -> Mapping[str, Any]:
        """The threshold, for metrics that have one."""
        return self._values


def _common_threshold(given: float | None, dialect: Dialect) -> float | None:
    return given if given is not None else dialect.parameters.get(EVERY_METRIC, {}).get("relevance_threshold")


def _one_of(option: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        msg = f"{option} must be one of {', '.join(map(repr, allowed))}; got {value!r}"
        raise OptionError(msg)


def _result(
    per_user: Callable[[], DataFrame],
    described: list[tuple[str, dict[str, Any]]],
    moments: dict[str, Moments],
    quality: DataQuality,
    columns: dict[str, str],
    words: tuple[str, ...],
) -> Result:
    rows = tuple(
        summary_row(
            label,
            moments[label],
            model=said.get("model", ""),
            dialect=said.get("dialect", ""),
            definition=said.get("metric", label),
            cutoff=parse_metric(said["metric"]).k if "metric" in said else None,
            over_all=said.get("mean") == "all",
        )
        for label, said in described
    )
    return Result(rows, quality, columns, words, per_user, write_per_user)


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


_MEANING = {
    "n_invalid_predictions": "predictions that cannot be ranked",
    "n_invalid_labels": "labels that cannot be used",
    "n_duplicate_predictions": "predictions that repeat an item of their user",
    "n_conflicting_labels": "labels that repeat an item of their user with another grade",
}


def _raise_if_invalid(quality: DataQuality, facts: Mapping[str, Any], scoring: Scoring | None = None) -> None:
    errors = quality.errors()
    if facts.get("conflicting_labels") == "last":
        errors.pop("n_conflicting_labels", None)
    if not errors or facts.get("on_invalid") == "drop":
        return
    sentences = []
    for name, count in errors.items():
        sentence = f"{_MEANING[name]}: {count:,}"
        detail = _details(name, scoring) if scoring is not None else ""
        sentences.append(f"{sentence} ({detail})" if detail else sentence)
    msg = (
        f"{'; '.join(sentences)}. Mend the data, or pass on_invalid='drop' to leave these out and count them "
        "(of equal items the best ranked stays, of conflicting labels the highest grade)"
    )
    raise DataError(msg, errors)


def _details(name: str, scoring: Scoring) -> str:
    task = scoring.task
    match name:
        case "n_invalid_predictions" | "n_invalid_labels":
            source = scoring.predictions if name == "n_invalid_predictions" else scoring.labels
            found = diagnose(
                source,
                keep_unusual_grades=task.keep_unusual_grades,
                keep_null_items=task.keep_null_items,
                largest_grade=task.largest_grade,
            )
            if source is scoring.labels and scoring.users is not None:
                found += null_users(scoring.users)
            return "; ".join(f"{reason}: {n:,}, for example {example}" for reason, n, example in found)
        case "n_duplicate_predictions":
            return f"for example {example_of_duplicates(scoring.predictions, differing=False)}"
        case _:
            return f"for example {example_of_duplicates(scoring.labels, differing=True)}"
