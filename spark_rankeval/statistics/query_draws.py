"""Which queries people should grade: strata by how much models differ on a query, and how many queries to draw of each.

Half of the effort is spread evenly, so that a query has at most twice the weight of an equal draw. The other half goes where models
differ: in proportion to the root mean square of the differences in a stratum (Neyman 1934).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spark_rankeval.errors import OptionError

#: Differences are counted in steps of one over this.
STEPS = 1000


class Bin(NamedTuple):
    """Queries whose models differ alike.

    Attributes:
        step: the difference in whole steps; -1 if it is unknown, because a model's value is undefined.
        n_queries: how many queries.
        n_pairs: how many of their items nobody graded.
    """

    step: int
    n_queries: int
    n_pairs: int

    @property
    def square(self) -> float:
        """The square of the difference."""
        return ((self.step + 0.5) / STEPS) ** 2 if self.step > 0 else 0.0


@dataclass(frozen=True)
class QueryStratum:
    """Queries that are drawn with the same probability.

    Attributes:
        steps: the largest difference, in steps; those above that of the stratum before belong to it.
        n_queries: how many queries it has.
        n_pairs: how many pairs of a query and an item they have together.
        n_drawn: how many queries are drawn.
        spread: the root mean square of the differences.
    """

    steps: int
    n_queries: int
    n_pairs: int
    spread: float
    n_drawn: int = 0

    @property
    def probability(self) -> float:
        """The probability that a query is drawn."""
        return self.n_drawn / self.n_queries

    @property
    def pairs_per_query(self) -> float:
        """How many pairs a query has on average."""
        return self.n_pairs / self.n_queries


def strata_of(bins: Sequence[Bin], n_strata: int) -> list[QueryStratum]:
    """Strata by the difference: first the queries without any, then about as many queries in each of the others."""
    ordered = sorted(bins)
    n_different = sum(each.n_queries for each in ordered if each.step > 0)
    parts: dict[int, list[Bin]] = {}
    n_before = 0
    for each in ordered:
        if each.step <= 0:
            parts.setdefault(0, []).append(each)
            continue
        middle = n_before + each.n_queries / 2
        parts.setdefault(1 + math.floor(middle * (n_strata - 1) / n_different) if n_strata > 1 else 0, []).append(each)
        n_before += each.n_queries
    return [_stratum(part) for part in parts.values()]


def _stratum(bins: Sequence[Bin]) -> QueryStratum:
    n_queries = sum(each.n_queries for each in bins)
    spread = math.sqrt(math.fsum(each.square * each.n_queries for each in bins) / n_queries)
    return QueryStratum(bins[-1].step, n_queries, sum(each.n_pairs for each in bins), spread)


def drawn_strata(bins: Sequence[Bin], budget: int, n_strata: int) -> list[QueryStratum]:
    """The strata with the number of queries to draw of each: with the pairs of an average query, they stay within the budget.

    There are fewer strata if the budget is too small for so many.

    Raises:
        OptionError: the budget is less than a query takes.
    """
    half = budget / (2 * sum(each.n_pairs for each in bins))
    for n in range(n_strata, 0, -1):
        strata = strata_of(bins, n)
        # No query weighs more than twice as much as in an equal draw.
        least = [math.ceil(min(half, 1.0) * stratum.n_queries - 1e-9) for stratum in strata]
        left = budget - sum(n * stratum.pairs_per_query for n, stratum in zip(least, strata, strict=True))
        if left >= -1e-9:
            break
    else:
        msg = (
            f"budget={budget} is less than one user takes, about {math.ceil(strata[0].pairs_per_query)} pairs. Raise it"
        )
        raise OptionError(msg)
    exact = [share * stratum.n_queries for share, stratum in zip(_shares(strata, budget), strata, strict=True)]
    more = [max(n - fewest, 0.0) for n, fewest in zip(exact, least, strict=True)]
    wanted = sum(n * stratum.pairs_per_query for n, stratum in zip(more, strata, strict=True))
    times = min(left / wanted, 1.0) if wanted else 0.0
    n_drawn = [fewest + math.floor(times * n + 1e-9) for fewest, n in zip(least, more, strict=True)]
    left = budget - sum(n * stratum.pairs_per_query for n, stratum in zip(n_drawn, strata, strict=True))
    # What rounding down left over goes where it took most.
    for place in sorted(range(len(strata)), key=lambda place: n_drawn[place] - exact[place]):
        stratum = strata[place]
        if n_drawn[place] < stratum.n_queries and stratum.pairs_per_query <= left + 1e-9:
            n_drawn[place] += 1
            left -= stratum.pairs_per_query
    return [
        QueryStratum(stratum.steps, stratum.n_queries, stratum.n_pairs, stratum.spread, n)
        for n, stratum in zip(n_drawn, strata, strict=True)
    ]


def _shares(strata: Sequence[QueryStratum], budget: float) -> list[float]:
    """The share of the queries of each stratum whose pairs fit into the budget, none above 1."""
    n_pairs = sum(stratum.n_pairs for stratum in strata)
    mean = sum(stratum.spread * stratum.n_pairs for stratum in strata) / n_pairs
    weights = [0.5 + 0.5 * stratum.spread / mean if mean else 1.0 for stratum in strata]
    shares = [0.0] * len(strata)
    free = set(range(len(strata)))
    while free:
        rest = budget - sum(strata[place].n_pairs for place in range(len(strata)) if place not in free)
        scale = rest / sum(weights[place] * strata[place].n_pairs for place in free)
        full = {place for place in free if scale * weights[place] >= 1}
        shares = [scale * weights[place] if place in free else 1.0 for place in range(len(strata))]
        if not full:
            break
        shares = [1.0 if place in full else share for place, share in enumerate(shares)]
        free -= full
    return shares
