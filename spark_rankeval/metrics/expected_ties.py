"""The expected value of a metric over all orders of tied items.

Chances of a random draw are running products of ratios: binomials overflow, and differences of log-gammas lose digits.

A tied group holds the ranks a+1 … a+t. It has s items of a kind, C of that kind stand above it, and m of its places
within the cutoff.

Source: McSherry, Najork, Computing information retrieval performance measures efficiently in the presence of tied
scores, ECIR 2008.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from spark_rankeval.errors import OptionError
from spark_rankeval.metrics.base import Metric, Reads, RelevanceMetric, Unset, parameter
from spark_rankeval.ranking.batch import RankingBatch, TiedGroups, tied_hits
from spark_rankeval.ranking.ragged import FloatArray, IntArray, grouped, offsets_of, pieces


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
    least, most = np.maximum(drawn - others, 0), np.minimum(marked, drawn)
    # From the likeliest number outwards chances only fall: products cannot overflow, and keep their relative precision.
    likeliest = np.clip((drawn + 1) * (marked + 1) // (population + 2), least, most)

    def outwards(steps: IntArray, sign: int, ratio: Callable[[IntArray, IntArray], FloatArray]) -> Draws:
        case = np.repeat(np.arange(n_cases), steps)
        step = np.arange(len(case)) - np.repeat(np.cumsum(steps) - steps, steps) + 1
        number = likeliest[case] + sign * step
        return Draws(n_cases, case, number, grouped(ratio(case, number), case, n_cases).accumulated(np.multiply).values)

    def more(case: IntArray, number: IntArray) -> FloatArray:
        # One more marked item, taken from the marked ones that are left, in the place of one of the others.
        return ((marked[case] - number + 1) / number) * (
            (drawn[case] - number + 1) / (others[case] - drawn[case] + number)
        )

    def fewer(case: IntArray, number: IntArray) -> FloatArray:
        return 1 / more(case, number + 1)

    up, down = outwards(most - likeliest, 1, more), outwards(likeliest - least, -1, fewer)
    case = np.concatenate([np.arange(n_cases), up.case, down.case])
    weight = np.concatenate([np.ones(n_cases), up.chance, down.chance])
    total = np.bincount(case, weight, n_cases)
    return Draws(n_cases, case, np.concatenate([likeliest, up.marked, down.marked]), weight / total[case])


def chance_of_any(population: IntArray, marked: IntArray, drawn: IntArray) -> FloatArray:
    """The chance that at least one marked item is drawn; float64, one entry per case."""
    # The two numbers change places freely: the shorter product is taken.
    steps, other = np.minimum(marked, drawn), np.maximum(marked, drawn)
    case = np.repeat(np.arange(len(steps)), steps)
    start = np.cumsum(steps) - steps
    gone = np.arange(len(case)) - start[case]
    left = population[case] - gone
    misses = grouped(np.maximum(left - other[case], 0) / left, case, len(steps)).accumulated(np.multiply).values
    chance = np.zeros(len(steps))
    some = steps > 0
    chance[some] = 1 - misses[(start + steps - 1)[some]]
    return chance


# Sums over places are made for about so many at a time, so that whole lists of equal scores stay in a core's cache.
_PLACES = 1 << 17


@dataclass(frozen=True, kw_only=True)
class TieAwareMetric(RelevanceMetric):
    """A metric with a closed form of its mean over all orders of tied items."""

    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    ties: str | Unset = parameter(
        "order",
        choices=("order", "average"),
        doc="equal scores stand in the order of the evaluation, or the value is its mean over all their orders",
    )

    @property
    def averages_ties(self) -> bool:
        """Whether the value is the mean over all orders of tied items."""
        return self.ties == "average"

    @property
    def reads(self) -> Reads:
        """A mean over all orders of equal scores needs to know these, and does not depend on one order."""
        return super().reads.but(scores=True, tie_order=False) if self.averages_ties else super().reads

    def _n_hits(self, batch: RankingBatch, k: int | None) -> FloatArray:
        """H_k of each user, or its expected value."""
        return expected_hits(batch, k, self.threshold) if self.averages_ties else batch.n_hits(k, self.threshold)


class TiesOfTheCall:
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


def summed_over_places(n_places: IntArray, worth: Callable[[IntArray, IntArray], FloatArray]) -> FloatArray:
    """Σ_{j=1..n} worth(group, j) of every group, added in the order of j; float64, one entry per group.

    Args:
        n_places: n, how many places of each group count.
        worth: gets two int64 arrays, groups and j, of whole groups.
    """
    offsets = offsets_of(n_places)
    sums = np.zeros(len(n_places))
    for low, high in pieces(offsets, _PLACES):
        group = np.repeat(np.arange(low, high), n_places[low:high])
        j = np.arange(offsets[low], offsets[high]) - offsets[group] + 1
        sums[low:high] = np.bincount(group - low, worth(group, j), high - low)
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
