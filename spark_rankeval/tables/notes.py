"""What a reader of figures would otherwise take for something else: sentences about definitions.

By default AP and NDCG judge the order of what was retrieved. Most systems mean what was missed by these names, too. Whoever leaves
the choice open gets the other value beside the figure.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from spark_rankeval.errors import MetricError
from spark_rankeval.metrics.base import RelevanceMetric
from spark_rankeval.metrics.gain_based import GainMetric
from spark_rankeval.metrics.naming import parse_metric
from spark_rankeval.tables.numbers import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_rankeval.metrics.base import Metric
    from spark_rankeval.records.summary import SummaryRow

# A metric at more cutoffs than these is a curve, of which one point has the other value.
_FEW = 6
_ELSEWHERE = "most systems' definition gives other values: ask for dialect='standard'"
_CUTOFF = re.compile(r"@\d+$")


def notes_of(rows: Sequence[SummaryRow]) -> tuple[str, ...]:
    """What is to be said beside these rows, in sentences; nothing of rows whose `standard` is empty.

    Args:
        rows: of a summary, or those that a chart draws.
    """
    of_all = [row for row in rows if row.slice == "all"] or list(rows)
    return tuple(note for note in (note_of_definitions(of_all), _note_of_users(of_all)) if note)


def note_of_definitions(rows: Sequence[SummaryRow]) -> str:
    """That metrics judge the order of what was retrieved, and what they are where what was missed counts; empty where none does."""
    few = [row for row in rows if row.standard]
    if not few:
        return ""
    names = list(dict.fromkeys(row.name for row in few))
    known = [row for row in few if not math.isnan(row.standard_mean)]
    if not known:
        return f"{_judging(_named(few), len(names))}; {_ELSEWHERE}"
    by_model: dict[str, dict[str, float]] = {}
    for row in known:
        by_model.setdefault(row.model, {})[row.name] = row.standard_mean
    whole = all(list(values) == names for values in by_model.values())
    subject = ("it is" if len(names) == 1 else "they are") if whole else ""
    parts = []
    for model, values in by_model.items():
        figures = [number(value) if whole else f"{name} is {number(value)}" for name, value in values.items()]
        parts.append(_listed(figures) + (f" ({model})" if len(by_model) > 1 else ""))
    return f"{_judging(_named(few), len(names))}; by most systems' definition (dialect='standard') " + " ".join(
        filter(None, [subject, "; ".join(parts)])
    )


def _note_of_users(rows: Sequence[SummaryRow]) -> str:
    """That metrics of gain stand on other users than the rest, because they are defined whatever the threshold."""
    metrics = [
        (row, metric) for row in rows if row.model == rows[0].model and (metric := _parsed(row.definition)) is not None
    ]
    gains = [(row, metric) for row, metric in metrics if isinstance(metric, GainMetric) and _is_left_open(row, metric)]
    if not gains:
        return ""
    row, gain = gains[0]
    alike = [
        other.name for other, metric in gains if (other.relevance, metric.threshold) == (row.relevance, gain.threshold)
    ]
    others = [
        other
        for other, metric in metrics
        if isinstance(metric, RelevanceMetric)
        and metric.labels_alone_define
        and (metric.needs, metric.threshold, other.relevance) == ("relevant", gain.threshold, row.relevance)
        and other.n_users != row.n_users
    ]
    if not others:
        return ""
    names = _listed([other.name for other in others])
    keeps = "; grades below it keep their gain, unless below_threshold='zero'" if gain.below_threshold == "keep" else ""
    return (
        f"{_listed(alike)} {'is' if len(alike) == 1 else 'are'} of {row.n_users:,} users, who have a grade above 0; "
        f"{names} of {others[0].n_users:,}, who have one from relevance_threshold={gain.threshold:g} on{keeps}"
    )


def _is_left_open(row: SummaryRow, metric: GainMetric) -> bool:
    """Whether a metric has a threshold, and nobody said what becomes of the grades below it."""
    asked = _parsed(row.metric)
    is_chosen = asked is not None and "below_threshold" in asked.chosen()
    return not is_chosen and metric.threshold is not None and metric.threshold > 0


def _parsed(text: str) -> Metric | None:
    """A metric by its text; None of a label that somebody made up."""
    try:
        return parse_metric(text)
    except MetricError:
        return None


def note_of_labels(labels: Sequence[str]) -> str:
    """The same of metrics by their labels, whose other values nobody knows; empty without any."""
    return f"{_judging(_listed(labels), len(labels))}; {_ELSEWHERE}" if labels else ""


def _judging(subject: str, n: int) -> str:
    return f"{subject} {'judges' if n == 1 else 'judge'} the order of what was retrieved, not what was missed"


def _named(rows: Sequence[SummaryRow]) -> str:
    """The rows' metrics, a curve by its ends."""
    families: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        labels = families.setdefault((_CUTOFF.sub("", row.definition), row.relevance), [])
        labels += [row.name] if row.name not in labels else []
    names: list[str] = []
    for labels in families.values():
        names += labels if len(labels) <= _FEW else [f"{labels[0]} … {labels[-1]} ({len(labels):,})"]
    return _listed(names)


def _listed(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
