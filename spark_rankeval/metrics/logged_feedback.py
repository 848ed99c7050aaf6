"""Estimates from logs that saw some items only: a label counts with the inverse of its chance to be seen.

A log has a label of item i with probability p_i, its propensity; its weight is w_i = 1/p_i. A sum Σ_j g_j·d(j) of what
items gain, each at its own rank, has these estimates:

- IPS: Σ over the labels of w·g·d(rank), which equals it in expectation (Horvitz, Thompson 1952; Schnabel et al., ICML 2016;
  Joachims, Swaminathan, Schnabel, WSDM 2017). Clipped IPS takes min(w, limit): biased, of less variance (Strehl et al., NIPS 2010).
- SNIPS: IPS divided by what the same weights make of a known sum, Σ w·d(rank) ÷ Σ_j d(j), of expectation 1. The quotient is of
  sums over all users (Swaminathan, Joachims, NIPS 2015): a user's own would cancel the weight of a single label.

A share of the relevant items divides by the sum of the weights of the user's relevant labels (Yang et al., RecSys
2018). What depends on several items at once, such as whether there is a hit, has no estimate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from spark_rankeval.checks import number
from spark_rankeval.errors import MetricError
from spark_rankeval.metrics.base import REGISTRY, Metric, Reads, Unset, parameter
from spark_rankeval.metrics.expected_ties import TieAwareMetric
from spark_rankeval.ranking.batch import RankingBatch, retrieved, tied_labels
from spark_rankeval.ranking.ragged import FloatArray

_DOC = (
    "of logged feedback, whose labels have weights: `ips` adds up weighted gains, `snips` also divides by what the weights "
    "make of a known sum, `naive` ignores weights; without weights none"
)


@dataclass(frozen=True, kw_only=True)
class EstimatedMetric(TieAwareMetric):
    """A metric that logged feedback can estimate."""

    estimator: str | Unset = parameter(Unset.UNSET, choices=("naive", "ips", "snips"), doc=_DOC)
    weight_limit: float | Unset | None = parameter(
        Unset.UNSET,
        check=number(0, what="a number above 0, or None", open_low=True, open_high=True, optional=True),
        doc="the weight of a label that larger ones are clipped to; None: nothing is clipped",
    )

    def _check_together(self) -> None:
        super()._check_together()
        if self.estimator == "naive" and self.limit is not None:
            msg = (
                f"{self.name}: estimator='naive' ignores weights, so weight_limit={self.limit:g} has no effect; leave one of "
                "them out"
            )
            raise MetricError(msg)

    @property
    def estimates(self) -> bool:
        """Whether the weights of labels count."""
        return self.estimator in ("ips", "snips")

    @property
    def limit(self) -> float | None:
        """What larger weights are clipped to."""
        return None if self.weight_limit is Unset.UNSET else self.weight_limit

    def _clipped(self, weights: FloatArray) -> FloatArray:
        return weights if self.limit is None else np.minimum(weights, self.limit)

    def _weights(self, batch: RankingBatch) -> FloatArray:
        """The weight of every labelled prediction; 1 where labels have none."""
        return np.ones(len(batch.user)) if batch.weight is None else self._clipped(batch.weight)

    def _places_within(self, batch: RankingBatch) -> FloatArray:
        """1 for every labelled prediction in the first k places, else 0; or the chance of that over all orders of ties."""
        if self.averages_ties:
            groups = tied_labels(batch)
            return np.repeat(groups.places_within(self.k) / groups.size, groups.held)
        within = batch.within(self.k)
        return np.ones(len(batch.user)) if within is None else within.astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class EstimatedSum(EstimatedMetric):
    """A metric that is a sum over the first k places of what an item gains there, up to a factor that is known."""

    @property
    def normalises(self) -> bool:
        """SNIPS is a quotient of two sums over all users."""
        return self.estimator == "snips"

    @property
    def reads(self) -> Reads:
        """The second sum of SNIPS is over all labels, of whatever grade."""
        return super().reads.but(items="label") if self.normalises else super().reads

    def compute(self, batch: RankingBatch) -> FloatArray:
        """The metric of every user; estimates are defined for everybody, unless SNIPS has nothing to divide by.

        A user without a relevant label in the log may have relevant items: leaving the user out would bias the mean.
        """
        if not self.estimates:
            return super().compute(batch)
        metric = self.resolve()
        placed = metric._worth_of_places(batch)
        gained = np.where(placed > 0, metric._gain_of_items(batch), 0.0)
        values = batch.total(batch.user, gained * placed * metric._weights(batch)) * metric._factor(batch)
        if not metric.normalises:
            return values
        return _divided(values, metric.normaliser(batch), math.nan)

    def normaliser(self, batch: RankingBatch) -> FloatArray:
        """What the weights make of the worth of a list's places, as a share of it; 1 of an empty list."""
        placed = self._worth_of_places(batch)
        weighted = batch.total(batch.user, placed * self._weights(batch))
        whole = self._worth_of_lists(batch)
        return _divided(weighted, whole, 1.0)

    def _gain_of_items(self, batch: RankingBatch) -> FloatArray:
        """What every labelled prediction gains, wherever it stands."""
        raise NotImplementedError

    def _worth_of_places(self, batch: RankingBatch) -> FloatArray:
        """What the place of every labelled prediction is worth, 0 below k; or its mean over all orders of ties."""
        return self._places_within(batch)

    def _worth_of_lists(self, batch: RankingBatch) -> FloatArray:
        """What the first k places of every list are worth together."""
        return retrieved(batch, self.k).astype(np.float64)

    def _factor(self, batch: RankingBatch) -> FloatArray | float:
        """What the sum is multiplied by."""
        return 1.0


def _divided(numerator: FloatArray, denominator: FloatArray, otherwise: float) -> FloatArray:
    """The quotient, and another value where the denominator is 0."""
    quotient = np.full(len(numerator), otherwise)
    np.divide(numerator, denominator, out=quotient, where=denominator > 0)
    return quotient


class EstimatorOfTheCall:
    """Whether labels have weights: metrics then estimate, unless they say otherwise."""

    def __init__(self, weighted: bool) -> None:
        self._weighted = weighted

    def defaults_for(self, metric: type[Metric]) -> Mapping[str, Any]:
        """The estimator that a metric takes by itself: IPS if it has that."""
        if not self._weighted or not issubclass(metric, EstimatedMetric):
            return {}
        return {"estimator": "ips" if "ips" in _choices(metric) else "snips", "weight_limit": None}

    def check(self, metrics: Mapping[str, Metric]) -> None:
        """Refuse metrics without an estimate if labels have weights, and estimates if they have none.

        Raises:
            MetricError: there are such metrics.
        """
        estimated = {label: metric for label, metric in metrics.items() if isinstance(metric, EstimatedMetric)}
        if self._weighted:
            others = [label for label in metrics if label not in estimated]
            if others:
                msg = (
                    f"weight= cannot estimate {', '.join(others)}, which depend on several items at once, or on items that the "
                    f"log may lack. Evaluate these without weight=; it can estimate: {', '.join(_names())}"
                )
                raise MetricError(msg)
            return
        needing = [label for label, metric in estimated.items() if metric.estimates or metric.limit is not None]
        if needing:
            msg = f"{', '.join(needing)}: an estimate needs the weights of the labels; name their column with weight="
            raise MetricError(msg)


def lowest_limit(metrics: Iterable[Metric]) -> float | None:
    """The smallest weight that any metric clips to; None if none clips."""
    limits = [metric.limit for metric in metrics if isinstance(metric, EstimatedMetric) and metric.limit is not None]
    return min(limits, default=None)


def _choices(metric: type[EstimatedMetric]) -> tuple[str, ...]:
    choices: tuple[str, ...] = next(item.metadata["choices"] for item in fields(metric) if item.name == "estimator")
    return choices


def _names() -> list[str]:
    return sorted({metric.name for metric in REGISTRY.values() if issubclass(metric, EstimatedMetric)})
