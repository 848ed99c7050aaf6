"""Bounds of metrics, whatever grades the items without a label might have: two further metrics for each."""

from __future__ import annotations

from collections.abc import Iterable

from spark_rankeval.errors import MetricError
from spark_rankeval.metrics.base import UNSET, Metric
from spark_rankeval.metrics.naming import NamedMetrics
from spark_rankeval.request.options import ScoringOptions

#: The two bounds, as the parameter `unjudged` and the labels of metrics have them.
LOWEST, HIGHEST = "lowest", "highest"


def names_of_bounded(metrics: Iterable[Metric]) -> list[str]:
    """What metrics with bounds are called, each once: the name and the cutoff."""
    return list(dict.fromkeys(metric.name if metric.k is None else f"{metric.name}@{metric.k}" for metric in metrics))


def with_bounds(metrics: NamedMetrics, options: ScoringOptions) -> NamedMetrics:
    """The metrics of a call with both bounds of each that has some, if the caller wants them.

    Raises:
        MetricError: no metric has bounds.
    """
    if options.bounds is None:
        return metrics
    highest = {} if options.highest_grade is None else {"highest_grade": options.highest_grade}
    widened, spelled = NamedMetrics({}, metrics.spelled), dict(metrics.spelled)
    for label, metric in metrics.items():
        widened[label] = metric
        if metric.unjudged is not UNSET or options.ties == "average" or not metric.resolve(options.convention).growth:
            continue
        for side in (LOWEST, HIGHEST):
            bound = type(metric)(k=metric.k, **metric.chosen() | {"unjudged": side} | highest)
            name = f"{metrics.spelled.get(label, label)} {side}"
            # A label of the caller's own stays one.
            bound_label = str(bound) if label == str(metric) else name
            widened[bound_label] = bound
            if bound_label != name:
                spelled[bound_label] = name
    if len(widened) == len(metrics):
        msg = (
            f"bounds={options.bounds!r}: {', '.join(metrics)} cannot be bounded, because no grade of an item decides them alone, or equal "
            "scores are averaged. Leave bounds out, or add a metric such as 'ndcg@10'"
        )
        raise MetricError(msg)
    widened.spelled = spelled
    return widened
