"""How many marked items a random draw holds, and with which chance.

Chances are running products of ratios: binomials overflow, and differences of log-gammas lose digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from spark_rankeval.ranking.ragged import FloatArray, IntArray, grouped

if TYPE_CHECKING:
    from collections.abc import Callable


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
    """The chance that at least one marked item is drawn; float64, an entry a case."""
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
