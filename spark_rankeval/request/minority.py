"""Metrics that few systems define as the default dialect does, so that a reader gets the other value, too."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_rankeval.metrics.base import Metric

# The parameter that decides, and by which of its values the order of what was retrieved is judged.
_DECIDING = {"ap": ("denominator", "hits"), "ndcg": ("ideal", "retrieved")}
# A metric at more cutoffs than these is a curve; one point of it has the other value.
_FEW = 6
_CUTOFF = re.compile(r"@\d+$")


def in_the_minority(asked: Mapping[str, Metric], resolved: Mapping[str, Metric]) -> list[str]:
    """The labels of the resolved metrics that judge the order of what was retrieved, and whose caller did not say so."""
    return [
        label
        for label, metric in resolved.items()
        for parameter, minority in [_DECIDING.get(metric.name, ("", ""))]
        if parameter and parameter not in asked[label].chosen() and getattr(metric, parameter) == minority
    ]


def few_of_each(metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    """The metrics, but of those at many cutoffs that at 10, or one amid the cutoffs."""
    families: dict[str, list[str]] = {}
    for label, metric in metrics.items():
        families.setdefault(_CUTOFF.sub("", str(metric)), []).append(label)
    kept = []
    for labels in families.values():
        at_ten = [label for label in labels if metrics[label].k == 10]
        kept += labels if len(labels) <= _FEW else (at_ten or [labels[len(labels) // 2]])[:1]
    return {label: metric for label, metric in metrics.items() if label in kept}
