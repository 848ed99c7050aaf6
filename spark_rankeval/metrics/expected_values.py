"""Expected values of metrics: over all orders of tied items, and over what a log may have recorded.

Ties. Chances of a random draw are running products of ratios: binomials overflow, and differences of log-gammas lose digits. A tied group
holds the ranks a+1 … a+t. It has s items of a kind, C of that kind stand above it, and m of its places within the cutoff. Source:
McSherry, Najork, Computing information retrieval performance measures efficiently in the presence of tied scores, ECIR 2008.

Logs. A log has a label of item i with probability p_i, its propensity; its weight is w_i = 1/p_i. A sum Σ_j g_j·d(j) of what
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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from spark_rankeval.checks import is_cutoff, number
from spark_rankeval.errors import MetricError, OptionError
from spark_rankeval.metrics.base import REGISTRY, UNSET, Metric, Reads, RelevanceMetric, Unset, parameter, ratio
from spark_rankeval.ranking import user_lists
from spark_rankeval.ranking.batch import RankingBatch, TiedGroups, retrieved, tied_hits, tied_labels
from spark_rankeval.ranking.user_lists import FloatArray, IntArray, grouped, offsets_of, position_within


class Draws(NamedTuple):
    """Every number of marked items that a draw can have, with its chance; the chances of a case add up to 1.

    Attributes:
        n_cases: how many cases there are.
        case: int64, which case.
        marked: int64, how many marked items are drawn.
        chance: float64, of that number.
    """

    n_cases: int
    case: IntArray
    marked: IntArray
    chance: FloatArray

    def expected(self, values: FloatArray) -> FloatArray:
        """The expected value of each case, from the value of each draw; float64 (n_cases,)."""
        # Without an entry numpy forgets the weights, and counts in whole numbers.
        return np.bincount(self.case, self.chance * values, self.n_cases).astype(np.float64, copy=False)


def draws(population: IntArray, marked: IntArray, drawn: IntArray) -> Draws:
    """The hypergeometric distribution of every case: of a population, how many are marked, and how many are drawn."""
    n_cases, others = len(population), population - marked
    lowest, highest = np.maximum(drawn - others, 0), np.minimum(marked, drawn)
    # From the likeliest number outwards chances only fall: products cannot overflow, and keep their relative precision.
    mode = np.clip((drawn + 1) * (marked + 1) // (population + 2), lowest, highest)

    def chances_from_mode(steps: IntArray, sign: int, ratio: Callable[[IntArray, IntArray], FloatArray]) -> Draws:
        case = np.repeat(np.arange(n_cases), steps)
        step = np.arange(len(case)) - np.repeat(np.cumsum(steps) - steps, steps) + 1
        number = mode[case] + sign * step
        return Draws(n_cases, case, number, grouped(ratio(case, number), case, n_cases).accumulated(np.multiply).values)

    def more(case: IntArray, number: IntArray) -> FloatArray:
        # One more marked item, taken from the marked ones that are left, in the place of one of the others.
        return ((marked[case] - number + 1) / number) * (
            (drawn[case] - number + 1) / (others[case] - drawn[case] + number)
        )

    def fewer(case: IntArray, number: IntArray) -> FloatArray:
        return 1 / more(case, number + 1)

    up, down = chances_from_mode(highest - mode, 1, more), chances_from_mode(mode - lowest, -1, fewer)
    case = np.concatenate([np.arange(n_cases), up.case, down.case])
    weight = np.concatenate([np.ones(n_cases), up.chance, down.chance])
    total = np.bincount(case, weight, n_cases)
    return Draws(n_cases, case, np.concatenate([mode, up.marked, down.marked]), weight / total[case])


def chance_of_any(population: IntArray, marked: IntArray, drawn: IntArray) -> FloatArray:
    """The chance that at least one marked item is drawn; float64, one entry per case."""
    # The two numbers change places freely: the shorter product is taken.
    steps, other = np.minimum(marked, drawn), np.maximum(marked, drawn)
    case = np.repeat(np.arange(len(steps)), steps)
    start = np.cumsum(steps) - steps
    n_earlier = np.arange(len(case)) - start[case]
    n_left = population[case] - n_earlier
    misses = grouped(np.maximum(n_left - other[case], 0) / n_left, case, len(steps)).accumulated(np.multiply).values
    chance = np.zeros(len(steps))
    has_steps = steps > 0
    chance[has_steps] = 1 - misses[(start + steps - 1)[has_steps]]
    return chance


# Sums over places are made for about so many at a time, so that whole lists of equal scores stay in a core's cache.
_PLACES_AT_ONCE = 1 << 17


class TieAwareMetric(RelevanceMetric):
    """A metric with a closed form of its mean over all orders of tied items."""

    value_range = (0.0, 1.0)

    ties: str = parameter(
        "order",
        choices=("order", "average", "grade_asc"),
        doc="equal scores stand in the order of the evaluation, the value is its mean over all their orders, or the lowest grade is first",
    )

    ceiling: int | Unset = parameter(
        UNSET,
        check=lambda value: None if is_cutoff(value) else "a whole number from 1 on",
        doc="the value is the best that any order of so many first places has: they stand by grade, and the rest is cut off",
    )

    def _problems(self) -> Iterator[str]:
        yield from super()._problems()
        if self.ceiling is not UNSET and self._sees_ties:
            yield f"ceiling={self.ceiling} has an order of its own; leave out ties={self.ties!r}"

    @property
    def averages_ties(self) -> bool:
        """Whether the value is the mean over all orders of tied items."""
        return self.ties == "average"

    @property
    def _sees_ties(self) -> bool:
        """Whether the value depends on which scores are equal, and not on the order in which they come."""
        return self.averages_ties or self.ties == "grade_asc"

    @property
    def reads(self) -> Reads:
        """A mean over all orders of equal scores, or one order by grade, needs to know these, and does not depend on their order.

        For the best order it matters which items stand in the first places.
        """
        if self.ceiling is not UNSET:
            return super().reads.but(depth=self.ceiling)
        return super().reads.but(scores=True, tie_order=False) if self._sees_ties else super().reads

    def compute(self, batch: RankingBatch) -> FloatArray:
        """The metric of every user, of the best order of the first places if it is a `ceiling`."""
        if self.ties == "grade_asc":
            batch = _lowest_grade_first(batch)
        return super().compute(batch if self.ceiling is UNSET else _best_order(batch, self.ceiling))

    def _n_hits(self, batch: RankingBatch, k: int | None) -> FloatArray:
        """H_k of each user, or its expected value."""
        return expected_hits(batch, k, self.threshold) if self.averages_ties else batch.n_hits(k, self.threshold)

    def _chance_within(self, batch: RankingBatch) -> FloatArray:
        """1 for every labelled prediction in the first k places, else 0; or the chance of that over all orders of ties."""
        if self.averages_ties:
            groups = tied_labels(batch)
            return np.repeat(groups.places_within(self.k) / groups.size, groups.held)
        within = batch.within(self.k)
        return np.ones(len(batch.user)) if within is None else within.astype(np.float64)


def _best_order(batch: RankingBatch, n: int) -> RankingBatch:
    """The first n places of every list in the best order: labelled items by their grades, then the others. The rest is cut off."""

    def sort() -> RankingBatch:
        there = np.flatnonzero(batch.rank <= n)
        # Users come in order, so only the items of a user change places.
        entry = there[np.lexsort((-batch.grade[there], batch.user[there]))]
        rank = position_within(batch.user[entry], batch.n_users) + 1
        ties = {"score": -rank.astype(np.float64), "tied_above": rank - 1, "tied": np.ones(len(rank), np.int64)}
        return _reordered(batch, entry, n_predictions=retrieved(batch, n), rank=rank, **ties)

    return batch.remember(("best order", n), sort)


def _lowest_grade_first(batch: RankingBatch) -> RankingBatch:
    """Every list with equal scores in the order of their grades: items without a label, then labelled ones from the lowest grade up."""

    def sort() -> RankingBatch:
        entry = np.lexsort((batch.grade, batch.tied_above, batch.user))
        above = batch.tied_above[entry]
        start = np.flatnonzero(user_lists.starts_of_runs(batch.user[entry], above))
        held = np.diff(np.append(start, len(entry)))
        # The labelled items of a group have its last places.
        place = np.arange(len(entry)) - np.repeat(start + held, held) + 1
        return _reordered(batch, entry, rank=above + batch.tied[entry] + place)

    return batch.remember("lowest grade first", sort)


def _reordered(batch: RankingBatch, entry: IntArray, **changes: Any) -> RankingBatch:
    """The batch with some labelled predictions in another order; facts of whole lists, which do not follow it, are left out."""
    kept = {name: getattr(batch, name)[entry] for name in ("user", "grade", "score", "tied_above", "tied")}
    extra_values = {name: values[entry] for name, values in batch.extra_values.items()}
    label = None if batch.label is None else batch.label[entry]
    return replace(batch, **kept | changes, extra_values=extra_values, label=label, recommended=None, intents=None)


class TiesOption:
    """How the caller of an evaluation wants equal scores treated; it comes before the dialect."""

    def __init__(self, ties: str | None) -> None:
        self._values = {} if ties is None else {"ties": "average" if ties == "average" else "order"}

    def defaults_for(self, metric: type[Metric]) -> Mapping[str, Any]:
        """The parameter, for metrics that have it."""
        return self._values

    def check(self, metrics: Mapping[str, Metric]) -> None:
        """Refuse an average over ties for metrics that have none.

        Raises:
            OptionError: a metric has no such average and depends on the order of ties.
        """
        if self._values.get("ties") != "average":
            return
        unavailable = [
            label
            for label, metric in metrics.items()
            if metric.reads.tie_order and not isinstance(metric, TieAwareMetric)
        ]
        if unavailable:
            msg = (
                f"ties='average' is not available for {', '.join(unavailable)}: the order of ties decides them, and their average "
                "over all orders is not known. Leave these out, or ask only single metrics for the average, as in "
                "\"rr(ties='average')\""
            )
            raise OptionError(msg)


def summed_over_places(n_places: IntArray, term: Callable[[IntArray, IntArray], FloatArray]) -> FloatArray:
    """Σ_{j=1..n} term(group, j) of every group, added in the order of j; float64, one entry per group.

    Args:
        n_places: n, how many places of each group count.
        term: gets two int64 arrays, groups and j, of whole groups.
    """
    offsets = offsets_of(n_places)
    sums = np.zeros(len(n_places))
    for low, high in user_lists.pieces(offsets, _PLACES_AT_ONCE):
        group = np.repeat(np.arange(low, high), n_places[low:high])
        j = np.arange(offsets[low], offsets[high]) - offsets[group] + 1
        sums[low:high] = np.bincount(group - low, term(group, j), high - low)
    return sums


def expected_hits(batch: RankingBatch, cutoff: IntArray | int | None, threshold: float | None) -> FloatArray:
    """The expected number of hits within a cutoff: every place of a group carries its mean, s/t."""
    groups = tied_hits(batch, threshold)
    return batch.total(groups.user, groups.held * groups.places_within(cutoff) / groups.size)


def chance_of_one(batch: RankingBatch, groups: TiedGroups, cutoff: int | None) -> FloatArray:
    """The chance that an item of the kind stands within the cutoff; float64 (n_users,). The first group decides."""
    first = groups.where(groups.held_above == 0)
    chance = np.zeros(batch.n_users)
    chance[first.user] = chance_of_any(first.size, first.held, first.places_within(cutoff))
    return chance


class EstimatedMetric(TieAwareMetric):
    """A metric that logged feedback can estimate."""

    estimator: str | Unset = parameter(
        UNSET,
        choices=("naive", "ips", "snips"),
        doc="of logged feedback, whose labels have weights: `ips` adds up weighted gains, `snips` also divides by what the weights "
        "make of a known sum, `naive` ignores weights; without weights none",
    )
    weight_limit: float | Unset | None = parameter(
        UNSET,
        check=number(0, what="a number above 0, or None", open_low=True, open_high=True, optional=True),
        doc="the weight of a label that larger ones are clipped to; None: nothing is clipped",
    )

    def _problems(self) -> Iterator[str]:
        yield from super()._problems()
        if self.estimates and self.ceiling is not UNSET:
            yield f"the best order of weighted labels is not known; leave out ceiling={self.ceiling}, or weight="
        if self.estimator == "naive" and self.limit is not None:
            yield f"estimator='naive' ignores weights, so weight_limit={self.limit:g} has no effect; leave one of them out"

    @property
    def estimates(self) -> bool:
        """Whether the weights of labels count."""
        return self.estimator in ("ips", "snips")

    @property
    def limit(self) -> float | None:
        """What larger weights are clipped to."""
        return None if self.weight_limit is UNSET else self.weight_limit

    def _clipped(self, weights: FloatArray) -> FloatArray:
        return weights if self.limit is None else np.minimum(weights, self.limit)

    def _weights(self, batch: RankingBatch) -> FloatArray:
        """The weight of every labelled prediction; 1 where labels have none."""
        return np.ones(len(batch.user)) if batch.weight is None else self._clipped(batch.weight)


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
        place_weight = metric._place_weights(batch)
        gain = np.where(place_weight > 0, metric._item_gains(batch), 0.0)
        values = batch.total(batch.user, gain * place_weight * metric._weights(batch)) * metric._factor(batch)
        if not metric.normalises:
            return values
        return ratio(values, metric.normaliser(batch), math.nan)

    def normaliser(self, batch: RankingBatch) -> FloatArray:
        """What the weights make of the worth of a list's places, as a share of it; 1 of an empty list."""
        weighted = batch.total(batch.user, self._place_weights(batch) * self._weights(batch))
        return ratio(weighted, self._list_weights(batch), 1.0)

    def _item_gains(self, batch: RankingBatch) -> FloatArray:
        """What every labelled prediction gains, wherever it stands."""
        raise NotImplementedError

    def _place_weights(self, batch: RankingBatch) -> FloatArray:
        """What the place of every labelled prediction is worth, 0 below k; or its mean over all orders of ties."""
        return self._chance_within(batch)

    def _list_weights(self, batch: RankingBatch) -> FloatArray:
        """What the first k places of every list are worth together."""
        return retrieved(batch, self.k).astype(np.float64)

    def _factor(self, batch: RankingBatch) -> FloatArray | float:
        """What the sum is multiplied by."""
        return 1.0


class EstimatorOption:
    """Whether labels have weights: metrics then estimate, unless they say otherwise."""

    def __init__(self, weighted: bool) -> None:
        self._weighted = weighted

    def defaults_for(self, metric: type[Metric]) -> Mapping[str, Any]:
        """The estimator that a metric takes by itself: IPS if it has that."""
        if not self._weighted or not issubclass(metric, EstimatedMetric):
            return {}
        (choices,) = (item.metadata["choices"] for item in fields(metric) if item.name == "estimator")
        return {"estimator": "ips" if "ips" in choices else "snips", "weight_limit": None}

    def check(self, metrics: Mapping[str, Metric]) -> None:
        """Refuse metrics without an estimate if labels have weights, and estimates if they have none.

        Raises:
            MetricError: there are such metrics.
        """
        estimated = {label: metric for label, metric in metrics.items() if isinstance(metric, EstimatedMetric)}
        if self._weighted:
            others = [label for label in metrics if label not in estimated]
            if others:
                known = sorted({metric.name for metric in REGISTRY.values() if issubclass(metric, EstimatedMetric)})
                msg = (
                    f"weight= cannot estimate {', '.join(others)}, which depend on several items at once, or on items that the "
                    f"log may lack. Evaluate these without weight=; it can estimate: {', '.join(known)}"
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
