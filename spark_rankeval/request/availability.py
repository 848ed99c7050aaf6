"""What there is for metrics to read, and which metrics need more than there is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from spark_rankeval.dialects import Dialect
from spark_rankeval.errors import DialectError, InputError, MetricError, OptionError
from spark_rankeval.metrics.abstention_based import Confidence
from spark_rankeval.metrics.base import UNSET, Metric
from spark_rankeval.ranking.recommended import FACT_TABLES, Fact
from spark_rankeval.request.options import KCounts


@dataclass(frozen=True)
class Lists:
    """The form of the lists, which is clear before a job."""

    scored_arrays: bool  # predictions come as arrays with scores, so that equal scores have a position
    label_arrays: bool  # labels come as arrays, which have an order
    relevances: tuple[str, ...] = ()  # the columns of grades; none if every label has grade 1
    label_columns: tuple[str, ...] = ()  # what labels have beside their grades, by name
    has_scores: bool = True  # whether the predictions of every model have scores
    prediction_columns: tuple[str, ...] = ()  # what predictions have beside these, by name
    k_counts: KCounts | None = None  # what a cutoff counts, if chunks are rolled up to documents
    has_no_answer: bool = False  # whether it is declared who has no answer


class RequiredFacts(NamedTuple):
    """What metrics ask for beside predictions and labels."""

    facts: frozenset[Fact]  # what is to be known
    tables: dict[str, list[str]]  # the labels of the metrics that ask for each table


def required_facts(
    metrics: Mapping[str, Metric], dialect: Dialect, label_facts: frozenset[Fact] = frozenset()
) -> RequiredFacts:
    """What metrics ask for, as the dialect and the caller set them; of the facts in `label_facts`, labels know all."""
    tables: dict[str, list[str]] = {}
    facts: frozenset[Fact] = frozenset()
    for label, metric in metrics.items():
        metric_facts = metric.resolve(dialect).reads.facts
        facts |= metric_facts
        for table in sorted({table for fact in metric_facts - label_facts for table in FACT_TABLES[fact]}):
            tables.setdefault(table, []).append(label)
    return RequiredFacts(facts, tables)


def check_available(
    resolved: Mapping[str, Metric],
    dialect: Dialect,
    lists: Lists,
    parameters: Mapping[str, float | None],
    *,
    has_fact_tables: bool,
    users_alone: bool,
) -> None:
    """Raise an error if metrics need what there is not; see `readings.resolve`."""
    if not lists.relevances:
        _refuse_unreachable_threshold(parameters.get("relevance_threshold"), resolved.values())
    _check_list_ends(resolved, lists)
    _check_tables(resolved, has_fact_tables, users_alone)
    _check_abstention(resolved, lists)
    ordered = [label for label, metric in resolved.items() if metric.reads.label_order]
    if ordered and lists.relevances and not lists.label_arrays:
        msg = (
            f"dialect {dialect.name!r}: graded {', '.join(ordered)} depends on the order of a user's labels, which rows of a "
            "table do not have. Pass the labels as arrays, or use ndcg(ideal='labels')"
        )
        raise DialectError(msg)


def _check_list_ends(resolved: Mapping[str, Metric], lists: Lists) -> None:
    """Refuse metrics that end lists by scores or costs without such a column."""
    above = [label for label, metric in resolved.items() if metric.min_score is not UNSET]
    if above and not lists.has_scores:
        msg = f"{', '.join(above)}: min_score needs scores; name their column with score=, or leave min_score out"
        raise InputError(msg)
    paid = [label for label, metric in resolved.items() if metric.budget is not UNSET]
    if paid and "cost" not in lists.prediction_columns:
        msg = (
            f"{', '.join(paid)}: a budget needs what items cost; name a column of predictions, such as that of their tokens, with "
            "cost="
        )
        raise InputError(msg)
    averaged = [label for label in paid if getattr(resolved[label], "ties", None) == "average"]
    if averaged:
        msg = f"{', '.join(averaged)}: a budget ends a list at one of several equal scores, so ties='average' has no value; leave one out"
        raise MetricError(msg)


def _check_tables(resolved: Mapping[str, Metric], has_fact_tables: bool, users_alone: bool) -> None:
    corpus_metrics = [label for label, metric in resolved.items() if metric.corpus_level]
    if corpus_metrics and users_alone:
        msg = (
            f"{', '.join(corpus_metrics)}: one value for all lists together, so users have no value. Use evaluate, and leave it out of "
            "per-user tables and comparisons"
        )
        raise MetricError(msg)
    asking = [label for label, metric in resolved.items() if metric.reads.facts]
    if asking and not has_fact_tables:
        tables = sorted(
            {table for label in asking for fact in resolved[label].reads.facts for table in FACT_TABLES[fact]}
        )
        needed = " and ".join(tables) or "several models"
        msg = f"{', '.join(asking)} needs {needed}; only evaluate and score_users take these"
        raise MetricError(msg)


def _check_abstention(resolved: Mapping[str, Metric], lists: Lists) -> None:
    """Refuse metrics of users without an answer if none are declared, and values for them that do not fit the metric."""
    asking = [label for label, metric in resolved.items() if metric.reads_no_answer]
    if asking and not lists.has_no_answer:
        msg = (
            f"{', '.join(asking)}: it must be declared who has no answer; pass no_answer=, a column of booleans or a table of these users, "
            "to evaluate or score_users"
        )
        raise InputError(msg)
    unfit = [
        label
        for label, metric in resolved.items()
        if metric.no_answer is not UNSET
        and (metric.bounds != (0.0, 1.0) or not metric.larger_is_better or metric.normalises or metric.corpus_level)
    ]
    if unfit:
        msg = (
            f"{', '.join(unfit)}: no_answer='empty_is_right' gives 1 or 0, which fits metrics of users between 0 and 1 whose larger "
            "values are better; leave it out"
        )
        raise MetricError(msg)
    confident = [label for label, metric in resolved.items() if isinstance(metric, Confidence)]
    if confident and not lists.has_scores:
        msg = f"{', '.join(confident)} needs scores, and predictions have only an order; name their column with score="
        raise InputError(msg)


def _refuse_unreachable_threshold(threshold: float | None, resolved: Iterable[Metric]) -> None:
    """Refuse a threshold that no label reaches, because labels without grades have grade 1."""
    thresholds = [threshold, *(getattr(metric, "relevance_threshold", None) for metric in resolved)]
    highest = max((each for each in thresholds if each is not None), default=1)
    if highest > 1:
        msg = (
            f"relevance_threshold={highest:g} makes no label relevant, because every label has grade 1 without relevance=. Name the "
            "column of grades, such as relevance='rating', or leave relevance_threshold out"
        )
        raise OptionError(msg)
