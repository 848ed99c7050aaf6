"""Sums over queries with values of two judges: human grades of a few, a model's of all. They add up exactly.

Of each graded query come the human value y and the model's value f, of every other query only f. A value may be undefined: no label
is relevant. So d is 1 where y is defined, e is 1 where f is, and undefined values count as 0. A graded query may have a weight w, one
over the probability that it was drawn.

The sums of products of up to two of d, y, e and f give means, variances and covariances, those with w or w² the weighted ones. The sums
of up to four tell how rare the largest deviations are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from spark_rankeval.statistics.cluster_sums import Clusters
from spark_rankeval.statistics.drawn_clusters import DrawnSums
from spark_rankeval.statistics.judged_clusters import DRAWN, ClusteredSums, JudgedClusters
from spark_rankeval.statistics.sums import LIMBS, ExactSums, Sums, added, as_text, exact_sum, from_text

Array = np.ndarray[Any, Any]
Floats = np.ndarray[Any, np.dtype[np.float64]]

#: Counts, and the sums of the queries without a human value.
GRADED, OTHERS, INVALID_WEIGHTS, EXCESSIVE = "n", "others", "invalid_weights", "excessive"
OTHERS_E, OTHERS_F, OTHERS_FF = "others_e", "others_f", "others_ff"
WEIGHT_CUBES = "www"
# What stands in the place of a stratum before the sums of clusters: no stratum has such an escaped name.
_CLUSTERS = "clusters"
# The name of the only stratum if queries have none.
_WHOLE = ""
# Splits a float into two halves of at most 26 bits, whose products are exact (Dekker 1971).
_HALVES = 2.0**27 + 1
_ORDERS = {"": 0, "d": 1, "y": 1, "yy": 2, "yyy": 3, "yyyy": 4}


class Monomial(NamedTuple):
    """A product of powers of a query's w, y and f, and of d and e, which equal their squares; dy = y and ef = f."""

    weights: int = 0
    human: str = ""
    judge: str = ""

    def __mul__(self, other: object) -> Monomial:
        """The product of two."""
        return _product(self, other) if isinstance(other, Monomial) else NotImplemented

    @property
    def name(self) -> str:
        """The name of its sum; without any factor it counts the graded queries."""
        return "w" * self.weights + self.human + self.judge or GRADED

    @property
    def unweighted(self) -> Monomial:
        """The same of weights of 1."""
        return self._replace(weights=0)


@lru_cache(maxsize=4096)
def _product(first: Monomial, second: Monomial) -> Monomial:
    return Monomial(
        first.weights + second.weights,
        _joined(first.human, second.human, "d"),
        _joined(first.judge, second.judge, "e"),
    )


def _joined(first: str, second: str, indicator: str) -> str:
    powers = (first + second).replace(indicator, "")
    return powers or max(first, second)


_HUMAN = tuple(_ORDERS)
_JUDGE = tuple(human.replace("d", "e").replace("y", "f") for human in _HUMAN)
_PAIRS = tuple(
    (Monomial(0, human, judge), _ORDERS[human] + order)
    for human in _HUMAN
    for judge, order in zip(_JUDGE, _ORDERS.values(), strict=True)
    if _ORDERS[human] + order <= 4
)
# Without weights all sums of order 1 to 4; with weights also those of w and w² times each product of order up to 2.
_PLAIN = tuple(monomial for monomial, order in _PAIRS if order)
_WEIGHTED = tuple(monomial._replace(weights=j) for j in (1, 2) for monomial, order in _PAIRS if order <= 2)


@dataclass(frozen=True)
class JudgedMoments:
    """The sums of some queries, such as those of a slice; the sums of several parts merge by addition, in any order.

    Attributes:
        strata: the sums by stratum. Without strata the only name is the empty string.
        clusters: what is known of the clusters that the queries come in, which no sum of parts has; None: queries are independent.

    Examples:
        >>> nan = float("nan")
        >>> moments = JudgedMoments.from_values([1.0, 0.5, nan, nan], [0.8, 0.5, 0.7, 0.2], [True, True, False, False])
        >>> moments.n_graded, moments.n_others, (moments + moments).n_graded
        (2, 2, 4)
    """

    strata: Mapping[str, Sums] = field(default_factory=dict, hash=False)
    clusters: JudgedClusters | None = None

    @classmethod
    def from_values(
        cls, human: Any, judge: Any, is_graded: Any, weights: Any = None, strata: Any = None
    ) -> JudgedMoments:
        """The sums of queries, whose values come in arrays of the same length.

        Args:
            human: a query's value under human grades, NaN if it is undefined; not read for queries without grades.
            judge: its value under the model's grades, NaN if it is undefined.
            is_graded: whether people graded the query.
            weights: one over the probability that a graded query was drawn, times any constant; default 1. Graded queries whose weight
                is not a positive number are counted and left out. The weights of other queries are not read.
            strata: the name of the stratum from which the query was drawn; default: one stratum.

        Raises:
            ValueError: The arrays differ in length.
        """
        if strata is None:
            return cls.from_groups(human, judge, is_graded, weights, [_WHOLE], np.zeros(len(human), np.int64))
        labels, group = np.unique(np.asarray(strata, np.str_), return_inverse=True)
        return cls.from_groups(human, judge, is_graded, weights, labels.tolist(), group)

    @classmethod
    def from_groups(
        cls, human: Any, judge: Any, is_graded: Any, weights: Any, names: Sequence[str], group: Array
    ) -> JudgedMoments:
        """The same of queries whose strata are places in `names`."""
        y, f = np.asarray(human, np.float64), np.asarray(judge, np.float64)
        graded = np.asarray(is_graded, np.bool_)
        w = None if weights is None else np.asarray(weights, np.float64)
        lengths = {len(array) for array in (y, f, graded, group, f if w is None else w)}
        if len(lengths) > 1:
            msg = (
                f"the arrays of a query's values must have the same length; got {', '.join(map(str, sorted(lengths)))}"
            )
            raise ValueError(msg)
        sums = _GroupedSums(len(names))
        sums.add_others(f[~graded], group[~graded])
        y, f, group, w = y[graded], f[graded], group[graded], None if w is None else w[graded]
        if w is not None:
            valid = (w > 0) & np.isfinite(w)
            sums.count(INVALID_WEIGHTS, group[~valid])
            y, f, group, w = y[valid], f[valid], group[valid], w[valid]
        sums.add_graded(y, f, w, group)
        return cls(dict(zip(names, sums.by_group(), strict=True)))

    @classmethod
    def from_text(cls, text: str) -> JudgedMoments:
        """The sums of `text`; any other text raises `ValueError`."""
        strata: dict[str, dict[str, Fraction]] = {}
        for name, value in from_text(text).items():
            stratum, _, term = name.rpartition("/")
            strata.setdefault(stratum, {})[term] = value
        clusters = strata.pop(_CLUSTERS, None)
        return cls(
            {_unescaped(name): sums for name, sums in strata.items()},
            None if clusters is None else JudgedClusters(clusters),
        )

    @classmethod
    def total(cls, parts: Iterable[JudgedMoments]) -> JudgedMoments:
        """The sums of all queries of several parts.

        Raises:
            ValueError: Only some of the parts have weights.
        """
        strata: dict[str, list[Sums]] = {}
        for part in parts:
            for name, sums in part.strata.items():
                strata.setdefault(name, []).append(sums)
        kinds = {is_weighted(sums) for each in strata.values() for sums in each if sums.get(GRADED)}
        if len(kinds) > 1:
            msg = "graded users with weights cannot be added to graded users without"
            raise ValueError(msg)
        # In one order, whatever partition came first: floats are added in it, and texts have it.
        return cls({name: added(strata[name]) for name in sorted(strata)})

    def __add__(self, other: JudgedMoments) -> JudgedMoments:
        return JudgedMoments.total([self, other])

    def text(self) -> str:
        """The sums as text, from which `from_text` reads the same sums; equal sums have one text."""
        strata: dict[str, Sums] = {_escaped(name): sums for name, sums in self.strata.items()}
        if self.clusters is not None:
            strata[_CLUSTERS] = self.clusters.sums
        return as_text({f"{name}/{term}": value for name, sums in strata.items() for term, value in sums.items()})

    def count(self, name: str) -> int:
        """One of the counts, over all strata."""
        return int(sum(sums.get(name, 0) for sums in self.strata.values()))

    @cached_property
    def clustered(self) -> ClusteredSums | DrawnSums | None:
        """The clusters with the sums of all queries; None if queries are independent."""
        if self.clusters is None:
            return None
        if DRAWN in self.clusters.sums:
            return DrawnSums(self.clusters)
        return ClusteredSums(self.clusters, added(self.strata.values()))

    @property
    def independent(self) -> JudgedMoments:
        """The same sums without clusters."""
        return replace(self, clusters=None)

    def clusters_of_people(self, standard_error: float) -> Clusters | None:
        """The clusters of the queries that people graded, with an error of the estimate; None if queries are independent."""
        clusters = self.clustered
        return None if clusters is None else replace(clusters.human, standard_error=standard_error)

    @property
    def n_graded(self) -> int:
        """Queries with human grades."""
        return self.count(GRADED)

    @property
    def n_others(self) -> int:
        """Queries that only the model graded."""
        return self.count(OTHERS)


@lru_cache(maxsize=4096)
def name_of(monomial: Monomial, is_weighted: bool) -> str:
    """The name of the sum of a product; that of the product without weights if all are 1."""
    return (monomial if is_weighted else monomial.unweighted).name


def is_weighted(sums: Mapping[str, Fraction]) -> bool:
    """Whether graded queries have weights."""
    return "w" in sums


def _escaped(name: str) -> str:
    """The name of a stratum in characters that JSON does not escape."""
    return name.encode().hex()


def _unescaped(text: str) -> str:
    return bytes.fromhex(text).decode()


class _GroupedSums:
    """The sums of groups of queries."""

    def __init__(self, n_groups: int) -> None:
        self._n_groups = n_groups
        self._terms: dict[str, Fraction | Floats] = {}
        self._sums: list[Sums] = [{} for _ in range(n_groups)]

    def count(self, name: str, group: Array) -> None:
        """Count the queries of each group."""
        for sums, n in zip(self._sums, np.bincount(group, minlength=self._n_groups).tolist(), strict=True):
            if n:
                sums[name] = sums.get(name, Fraction(0)) + n

    def add_others(self, f: Floats, group: Array) -> None:
        """Add queries without human grades."""
        is_defined = ~np.isnan(f)
        self.count(OTHERS, group)
        self.count(OTHERS_E, group[is_defined])
        values, group = f[is_defined], group[is_defined]
        self._add({OTHERS_F: [values], OTHERS_FF: exact_product(values, values)}, group)

    def add_graded(self, y: Floats, f: Floats, w: Floats | None, group: Array) -> None:
        """Add queries with human grades; `w` are their weights."""
        self.count(GRADED, group)
        powers = _powers(y, "d", "y") | _powers(f, "e", "f")
        one = np.ones(len(y))
        terms: dict[str, list[Floats]] = {}
        with np.errstate(over="ignore", invalid="ignore"):
            for monomial in (*_PLAIN, *(() if w is None else _WEIGHTED)):
                first, second = powers.get(monomial.human, one), powers.get(monomial.judge, one)
                if not monomial.judge and len(monomial.human) == 2:
                    first = second = powers["y"]
                if not monomial.human and len(monomial.judge) == 2:
                    first = second = powers["f"]
                if w is not None and monomial.weights:
                    # Each factor is rounded alone, so that Σw²(y − mean)² keeps its digits if the values are close to one another.
                    first, second = w * first, second if monomial.weights == 1 else w * second
                terms[monomial.name] = exact_product(first, second)
            if w is not None:
                terms[WEIGHT_CUBES] = [w * w * w]
        self._add(terms, group)

    def _add(self, terms: dict[str, list[Floats]], group: Array) -> None:
        if not len(group):
            return
        sums = ExactSums(len(terms) * self._n_groups)
        for index, parts in enumerate(terms.values()):
            for part in parts:
                # Infinity times 0 is NaN; it is counted with the terms that are too large.
                sums.add(index * self._n_groups, np.where(np.isnan(part), math.inf, part), group)
        state = sums.state()
        limbs = state["limbs"].reshape(len(terms), self._n_groups, LIMBS)
        n_excessive = state["n_excessive"].reshape(len(terms), self._n_groups)
        for name, by_group, excessive in zip(terms, limbs, n_excessive, strict=True):
            for place in np.flatnonzero(by_group.any(axis=1)).tolist():
                self._sums[place][name] = exact_sum(by_group[place])
            for place in np.flatnonzero(excessive).tolist():
                self._sums[place][EXCESSIVE] = Fraction(1)

    def by_group(self) -> list[Sums]:
        """The sums of each group; a missing sum is 0."""
        return self._sums


def _powers(values: Floats, indicator: str, letter: str) -> dict[str, Floats]:
    is_defined = ~np.isnan(values)
    base = np.where(is_defined, values, 0.0)
    # Products, because powers differ in the last bit between versions of numpy.
    with np.errstate(over="ignore"):
        square = base * base
        powers = {letter: base, letter * 2: square, letter * 3: square * base, letter * 4: square * square}
    return {indicator: is_defined.astype(np.float64)} | powers


def exact_product(first: Floats, second: Floats) -> list[Floats]:
    """The products of two arrays, and what rounding took from them (Dekker 1971)."""
    product = first * second
    halves = []
    for values in (first, second):
        turned = values * _HALVES
        high = turned - (turned - values)
        halves.append((high, values - high))
    (high, low), (other_high, other_low) = halves
    rest = ((high * other_high - product) + high * other_low + low * other_high) + low * other_low
    return [product, np.where(np.isfinite(product), rest, 0.0)]
