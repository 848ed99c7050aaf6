"""Means under human grades by two judges: people of a few queries and a model of all, drawn at random or by strata."""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from spark_rankeval.errors import OptionError
from spark_rankeval.ranking.user_lists import starts_of_runs
from spark_rankeval.statistics import exact as sums
from spark_rankeval.statistics import intervals
from spark_rankeval.statistics.intervals import Clusters

Array = np.ndarray[Any, Any]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]
Name = TypeVar("Name", bound=Hashable)

_ROUNDING = 2.0**-40
# Differences from a mean are rounding below this share of the largest value, and so are squares below this share of squares of values.
_NEARLY_NOTHING, _NEARLY_NO_SQUARE = 2.0**-46, Fraction(1, 2**92)
# No degrees of freedom would be a division by 0.
_LEAST_DF = 1e-9
# Fourth powers of larger values are no floats, and sums of so large ones do not fit.
_LARGEST_GRADED, _LARGEST = 2.0**250, 2.0**48
# A sum has so many words of 32 bits: the first counts units of 2^64, the last units of 2^-128.
_WORDS, _BITS, _UNIT = 7, 32, 128
# More clusters are joined in so many groups, by the first bits of their hashes, to keep results small.
_MOST_CLUSTERS, _FIRST_BITS = 1 << 13, np.int64(-(1 << 51))
# The columns of a query: keys, and three floats. Sums of queries have keys, numbers, and the words of two sums.
_STRATUM, _CLUSTER, _Y, _F_GRADED, _W = range(5)
_N, _E, _EXCESSIVE, _F, _FF = 2, 3, 4, slice(5, 5 + _WORDS), slice(5 + _WORDS, 5 + 2 * _WORDS)
_WIDTHS = 5, 5 + 2 * _WORDS
# Of so many queries floats hold the sums of words.
_MOST_ROWS = 1 << 20


@dataclass(frozen=True, eq=False)
class JudgedQueries:
    """The values of some queries by two judges, such as those of a slice; parts are put together by addition, in any order.

    Attributes:
        graded: a row for each query that people graded: the place of the stratum, the cluster's hash, and the bits of y, f and w.
        others: a row of sums for each stratum and cluster, of the queries that the model alone graded.
        strata: the names of the strata. Without strata the only name is the empty string.
        is_weighted: whether graded queries were drawn with unequal probabilities. A weight that is none is NaN.
        is_clustered: whether queries come in clusters.
        are_joined: whether there are so many clusters that `others` has groups of them.

    Examples:
        >>> nan = float("nan")
        >>> queries = JudgedQueries.from_values([1.0, 0.5, nan, nan], [0.8, 0.5, 0.7, 0.2], [True, True, False, False])
        >>> queries.n_graded, queries.n_others, (queries + queries).n_graded
        (2, 2, 4)
    """

    graded: Integers
    others: Integers
    strata: tuple[str, ...] = ()
    is_weighted: bool = False
    is_clustered: bool = False
    are_joined: bool = False

    @classmethod
    def from_values(
        cls, human: Any, judge: Any, is_graded: Any, weights: Any = None, strata: Any = None, clusters: Any = None,
        names: Sequence[str] | None = None,
    ) -> JudgedQueries:  # fmt: skip
        """Queries, whose values come in arrays of the same length.

        Args:
            human: a query's value under human grades, NaN if it is undefined; not read for queries without grades.
            judge: its value under the model's grades, NaN if it is undefined.
            is_graded: whether people graded the query.
            weights: one over the probability that a graded query was drawn, times any constant; default 1. Graded queries whose weight
                is not a positive number are counted and left out. The weights of other queries are not read.
            strata: the name of the stratum from which the query was drawn; default: one stratum.
            clusters: the 64-bit hash of the cluster that the query belongs to; default: queries are independent.
            names: the names of all strata; `strata` are then places among these.

        Raises:
            ValueError: The arrays differ in length.
        """
        is_graded = np.asarray(is_graded, np.bool_)
        if names is None:
            strata = np.full(len(is_graded), "") if strata is None else np.asarray(strata, np.str_)
            different, strata = np.unique(strata, return_inverse=True)
            names = different.tolist()
        given = {
            _STRATUM: strata, _CLUSTER: np.zeros(len(is_graded), np.int64) if clusters is None else clusters,
            _Y: human, _F_GRADED: judge, _W: np.ones(len(is_graded)) if weights is None else weights,
        }  # fmt: skip
        columns = [np.asarray(each, np.int64 if place < _Y else np.float64) for place, each in given.items()]
        if len(lengths := {len(is_graded), *map(len, columns)}) > 1:
            msg = (
                f"the arrays of a query's values must have the same length; got {', '.join(map(str, sorted(lengths)))}"
            )
            raise ValueError(msg)
        stratum, cluster, *values = (column[is_graded] for column in columns)
        values[-1][~((values[-1] > 0) & np.isfinite(values[-1]))] = math.nan
        # Zeros have one sign.
        graded = np.stack([stratum, cluster, *((each + 0.0).view(np.int64) for each in values)], axis=1)
        others = sums_of(*(columns[place][~is_graded] for place in (_STRATUM, _CLUSTER, _F_GRADED)))
        return cls(graded, others, tuple(names), weights is not None, clusters is not None)._ordered()

    def _ordered(self) -> JudgedQueries:
        """These queries in the one order of all parts, with the names of those strata alone that have queries."""
        used = np.unique(np.concatenate([self.graded[:, _STRATUM], self.others[:, _STRATUM]]))
        by_name = sorted(used.tolist(), key=self.strata.__getitem__)
        places = np.zeros(len(self.strata), np.int64)
        places[by_name] = np.arange(len(by_name))
        graded, others = _placed(self.graded, places), _placed(self.others, places)
        clusters, are_joined = np.concatenate([graded[:, _CLUSTER], others[:, _CLUSTER]]), self.are_joined
        are_joined = are_joined or (self.is_clustered and len(np.unique(clusters)) > _MOST_CLUSTERS)
        if are_joined:
            others[:, _CLUSTER] &= _FIRST_BITS
        graded = graded[np.lexsort(graded.T[::-1])]
        strata = tuple(self.strata[place] for place in by_name)
        return replace(self, graded=graded, others=_added(others), strata=strata, are_joined=are_joined)

    @classmethod
    def total(cls, parts: Iterable[JudgedQueries], *, is_clustered: bool = False) -> JudgedQueries:
        """All queries of several parts; `is_clustered` says whether queries come in clusters if there are none.

        Raises:
            ValueError: Only some of the parts have weights.
        """
        parts = [part for part in parts if part.strata] or [replace(NO_QUERIES, is_clustered=is_clustered)]
        if len({part.is_weighted for part in parts if len(part.graded)}) > 1:
            msg = "graded users with weights cannot be added to graded users without"
            raise ValueError(msg)
        names = tuple(dict.fromkeys(name for part in parts for name in part.strata))
        numbers = {name: number for number, name in enumerate(names)}
        places = [np.array([numbers[name] for name in part.strata], np.int64) for part in parts]
        graded = np.concatenate([_placed(part.graded, at) for part, at in zip(parts, places, strict=True)])
        others = np.concatenate([_placed(part.others, at) for part, at in zip(parts, places, strict=True)])
        facts = (any(getattr(part, name) for part in parts) for name in ("is_weighted", "is_clustered", "are_joined"))
        return cls(graded, others, names, *facts)._ordered()

    def __add__(self, other: JudgedQueries) -> JudgedQueries:
        return JudgedQueries.total([self, other])

    def parted(self, name_of: Callable[[str], tuple[Name, str]]) -> dict[Name, JudgedQueries]:
        """The queries by what `name_of` makes of the name of their stratum: the name of a part, and that of the stratum in it."""
        named = [name_of(name) for name in self.strata]
        strata, parts = tuple(stratum for _, stratum in named), {}
        for name in dict.fromkeys(part for part, _ in named):
            is_of_part = np.array([part == name for part, _ in named])
            graded, others = (table[is_of_part[table[:, _STRATUM]]] for table in (self.graded, self.others))
            parts[name] = replace(self, graded=graded, others=others, strata=strata)._ordered()
        return parts

    def text(self) -> str:
        """All of it as text, from which `from_text` reads the same; equal queries have one text."""
        tables = self.graded, self.others
        data = zlib.compress(b"".join(table.T.astype("<i8").tobytes() for table in tables))
        return json.dumps({
            "strata": self.strata, "facts": [self.is_weighted, self.is_clustered, self.are_joined],
            "rows": [len(table) for table in tables], "queries": base64.b64encode(data).decode(),
        })  # fmt: skip

    @classmethod
    def from_text(cls, text: str) -> JudgedQueries:
        """The queries of `text`; any other text raises `ValueError`."""
        try:
            read = json.loads(text)
            sizes = [int(n) * width for n, width in zip(read["rows"], _WIDTHS, strict=True)]
            # A spoilt text may not fill the memory.
            data = zlib.decompressobj().decompress(base64.b64decode(read["queries"], validate=True), 8 * sum(sizes) + 1)
            numbers = np.frombuffer(data, "<i8").astype(np.int64)
            if numbers.size != sum(sizes):
                raise ValueError
            parts = zip(np.split(numbers, sizes[:1]), _WIDTHS, strict=True)
            graded, others = (np.ascontiguousarray(part.reshape(width, -1).T) for part, width in parts)
            places = np.concatenate([graded[:, _STRATUM], others[:, _STRATUM]])
            if set(places.tolist()) != set(range(len(read["strata"]))):
                raise ValueError
            return cls(graded, others, tuple(map(str, read["strata"])), *map(bool, read["facts"]))
        except (KeyError, TypeError, ValueError, RecursionError, zlib.error) as error:
            msg = f"these are not the grades of two judges: {text[:40]!r}"
            raise ValueError(msg) from error

    def columns(self) -> tuple[Floats, Floats, Floats]:
        """y, f and w of the graded queries."""
        y, f, w = self.graded[:, _Y:].T.copy().view(np.float64)
        return y, f, w

    @property
    def valid(self) -> JudgedQueries:
        """These queries without the graded ones whose weight is not a positive number."""
        is_valid = ~np.isnan(self.columns()[2])
        return self if is_valid.all() else replace(self, graded=self.graded[is_valid])

    @property
    def n_graded(self) -> int:
        """Queries with human grades."""
        return len(self.graded) - self.n_invalid_weights

    @property
    def n_invalid_weights(self) -> int:
        """Queries with human grades whose weight is not a positive number; they are in no figure."""
        return int(np.count_nonzero(np.isnan(self.columns()[2])))

    @property
    def n_others(self) -> int:
        """Queries that only the model graded."""
        return int(self.others[:, _N].sum())

    @property
    def n_defined(self) -> int:
        """Queries with a value by any judge."""
        y, f, _ = self.valid.columns()
        return int(np.count_nonzero(~(np.isnan(y) & np.isnan(f)))) + int(self.others[:, _E].sum())

    @property
    def independent(self) -> JudgedQueries:
        """These queries without clusters."""
        return replace(self, is_clustered=False)

    @property
    def biases(self) -> JudgedQueries:
        """These queries with f − y in the place of y: how much higher the model's value of a graded query is than people's."""
        (y, f, _), graded = self.columns(), self.graded.copy()
        graded[:, _Y] = (f - y + 0.0).view(np.int64)
        return replace(self, graded=graded)

    @property
    def are_excessive(self) -> bool:
        """Whether values or weights are too large for figures of all."""
        y, f, w = (float(np.nanmax(np.abs(each), initial=0.0)) for each in self.columns())
        return max(y, w) > _LARGEST_GRADED or f >= _LARGEST or bool(self.others[:, _EXCESSIVE].any())

    def clusters_of_people(self, standard_error: float) -> Clusters | None:
        """The clusters of the queries that people graded, with an error of the estimate; None if queries are independent."""
        if not self.is_clustered:
            return None
        sample, _ = sample_of(self)
        return Clusters(0) if sample is None else replace(sample.people, standard_error=standard_error)


def _placed(table: Integers, places: Integers) -> Integers:
    """A table with other places of strata."""
    return np.concatenate([places[table[:, : _STRATUM + 1]], table[:, _STRATUM + 1 :]], axis=1)


def sums_of(stratum: Integers, cluster: Integers, f: Floats) -> Integers:
    """A row of sums for each place of a stratum and hash of a cluster, of queries with the model's value f; many queries have several."""
    if len(f) > _MOST_ROWS:
        parts = [slice(start, start + _MOST_ROWS) for start in range(0, len(f), _MOST_ROWS)]
        return np.concatenate([sums_of(stratum[part], cluster[part], f[part]) for part in parts])
    is_defined, fits = ~np.isnan(f), np.abs(f) < _LARGEST
    names, of_name = np.unique(cluster, return_inverse=True) if cluster.any() else (np.zeros(1, np.int64), cluster)
    cells, places = np.unique(stratum * len(names) + of_name, return_inverse=True)
    rows = np.zeros((len(cells), _WIDTHS[1]), np.int64)
    rows[:, _STRATUM], rows[:, _CLUSTER] = cells // len(names), names[cells % len(names)]
    for column, counted in ((_N, None), (_E, is_defined), (_EXCESSIVE, is_defined & ~fits)):
        rows[:, column] = np.bincount(places, counted, len(cells))
    values = np.where(fits, f, 0.0)
    square, (high, low) = values * values, sums.halves(values)
    # What rounding took from the square (Dekker 1971).
    rest = ((high * high - square) + 2 * high * low) + low * low
    for words, term in ((rows[:, _F], values), (rows[:, _FF], square), (rows[:, _FF], rest)):
        _add_words(words, places, term)
    return rows


def _add_words(words: Integers, places: Integers, values: Floats) -> None:
    """Add floats to the sums of these places. Digits beyond the last unit are cut off."""
    # Floats below 2^53 hold the sums.
    first = max(_WORDS - 1 - (math.frexp(np.abs(values).max(initial=0.0))[1] + _UNIT) // _BITS, 0)
    rest = values * 2.0 ** (_UNIT - _BITS * (_WORDS - 1 - first))
    for place in range(first, _WORDS):
        whole = np.trunc(rest)
        words[:, place] += np.bincount(places, whole, len(words)).astype(np.int64)
        rest = (rest - whole) * 2.0**_BITS
        if not rest.any():
            break


def _added(rows: Integers) -> Integers:
    """The sums of the rows of each stratum and cluster, whose words after the first are from −2³¹ to 2³¹ − 1.

    Squares are needed by stratum alone: its first row has them.
    """
    if not len(rows):
        return rows
    rows = rows[np.lexsort((rows[:, _CLUSTER], rows[:, _STRATUM]))]
    starts = np.flatnonzero(starts_of_runs(rows[:, _STRATUM], rows[:, _CLUSTER]))
    added: Integers = np.add.reduceat(rows, starts, axis=0)
    added[:, : _CLUSTER + 1] = rows[starts, : _CLUSTER + 1]
    firsts = np.flatnonzero(starts_of_runs(added[:, _STRATUM]))
    squares = np.add.reduceat(added[:, _FF], firsts, axis=0)
    added[:, _FF] = 0
    added[firsts, _FF] = squares
    for words in (added[:, _F], added[:, _FF]):
        for place in range(_WORDS - 1, 0, -1):
            carry = (words[:, place] + (1 << (_BITS - 1))) >> _BITS
            words[:, place] -= carry << _BITS
            words[:, place - 1] += carry
    return added


def _floats(words: Integers) -> Floats:
    """Sums of words as floats."""
    total = np.zeros(len(words))
    for place in range(_WORDS - 1, -1, -1):
        total = total * 2.0**-_BITS + words[:, place]
    return total * 2.0 ** (_BITS * (_WORDS - 1) - _UNIT)


NO_QUERIES = JudgedQueries.from_values([], [], [])


class Sums(NamedTuple):
    """The exact sums of e, f and f² over some queries."""

    e: Fraction
    f: Fraction
    ff: Fraction

    @classmethod
    def of_rows(cls, rows: Integers) -> Sums:
        """Those of rows of sums."""

        def exact(words: Integers) -> Fraction:
            total = 0
            for word in words.sum(axis=0).tolist():
                total = (total << _BITS) + word
            return Fraction(total, 1 << _UNIT)

        return cls(Fraction(int(rows[:, _E].sum())), exact(rows[:, _F]), exact(rows[:, _FF]))

    def plus(self, other: Sums) -> Sums:
        """The sums of both."""
        return Sums(*(a + b for a, b in zip(self, other, strict=True)))

    def moved(self, theta: Fraction) -> Fraction:
        """The sum of e(f − θ)."""
        return self.f - theta * self.e

    def spread(self, theta: Fraction, n: int, centre: Fraction) -> Fraction:
        """The sum of the squares of e(f − θ) less a centre, over n queries; 0 if it is rounding."""
        squares = self.ff - 2 * theta * self.f + theta**2 * self.e
        apart = squares - 2 * centre * self.moved(theta) + n * centre**2
        return apart if apart > self.ff * _NEARLY_NO_SQUARE else Fraction(0)


class Parts(NamedTuple):
    """The variances and the covariance of both judges' residuals in the means of independent graded queries, and what others add."""

    human: float
    covariance: float
    judge: float
    others: float
    pooled: float  # the same as judge + others, if all queries vary alike


class Deviations(NamedTuple):
    """How the graded queries deviate from their mean: sums of squares and of fourth powers."""

    n: float
    squares: float
    fourth_powers: float

    @property
    def n_large(self) -> float:
        """How many graded queries carry the spread: as if so many deviated equally, and all others not at all; n/3 of normal values."""
        return self.squares**2 / self.fourth_powers if self.fourth_powers else 0.0

    @property
    def large_square(self) -> float:
        """The square of such a deviation."""
        return self.fourth_powers / self.squares if self.squares else 0.0

    @property
    def df(self) -> float:
        """The degrees of freedom of a variance of values with this kurtosis; n − 1 for normal ones."""
        kurtosis = self.n / max(self.n_large, 1.0)
        return 2 * self.n / max(kurtosis - 1 + 2 / (self.n - 1), 2 / self.n)


class Sample:
    """The queries of some strata, each with a graded one: the estimate for a weight λ of the model, and how queries move it."""

    def __init__(self, queries: JudgedQueries) -> None:
        graded, others, (y, f, self.w) = queries.graded, queries.others, queries.columns()
        self.names, self.is_weighted, self.is_clustered = queries.strata, queries.is_weighted, queries.is_clustered
        self.s, self.s_others, self.clusters = graded[:, _STRATUM], others[:, _STRATUM], graded[:, _CLUSTER]
        own = self.clusters & _FIRST_BITS if queries.are_joined else self.clusters
        units, places = np.unique(np.concatenate([own, others[:, _CLUSTER]]), return_inverse=True)
        self.c, self.c_others, self.n_units = places[: len(own)], places[len(own) :], len(units)
        self.d, self.e, self.y, self.f = ~np.isnan(y) * 1.0, ~np.isnan(f) * 1.0, np.nan_to_num(y), np.nan_to_num(f)
        self.of_others = {"n": others[:, _N] * 1.0, "e": others[:, _E] * 1.0, "f": _floats(others[:, _F])}
        rows, strata = sums_of(self.s, 0 * self.s, f), range(len(self.names))
        self.sums_of_graded = [Sums.of_rows(rows[rows[:, _STRATUM] == place]) for place in strata]
        self.sums_of_others = [Sums.of_rows(others[self.s_others == place]) for place in strata]
        self._influences: dict[float, tuple[Floats, Floats, Floats]] = {}
        self.w_total, self.w_squares = self.by_stratum(self.w), self.by_stratum(self.w**2)
        self.n_graded, self.n_others = self.by_stratum(np.ones(len(self.w))), self.others_by_stratum("n")
        self.sizes = self.n_graded + self.n_others
        self.n, self.size = len(self.w), float(self.sizes.sum())
        self.share = self.sizes / self.size
        #: By how much the difference to all queries is to be multiplied to be that to the other queries; 0 without these.
        self.scale = np.divide(self.sizes, self.n_others, out=np.zeros(len(self.names)), where=self.n_others > 0)

    def by_stratum(self, values: Array) -> Floats:
        """The sums over graded queries."""
        return summed(self.s, values, len(self.names))

    def others_by_stratum(self, name: str) -> Floats:
        """The sums of "n", "e" or "f" over the other queries."""
        return summed(self.s_others, self.of_others[name], len(self.names))

    @property
    def n_human(self) -> int:
        """How many graded queries have a human value."""
        return int(self.d.sum())

    @cached_property
    def _means(self) -> dict[str, float]:
        """The weighted means of graded queries, and by how much the others' by the model are more."""
        means = {name: dot(self.share, self.graded_mean(getattr(self, name))) for name in "dyef"}
        for name in "ef":
            apart = self.mean_of_all(name) - self.graded_mean(getattr(self, name))
            means["shift_" + name] = dot(self.share, self.scale * apart)
        return means

    def graded_mean(self, values: Floats) -> Floats:
        """The weighted mean of graded queries, by stratum."""
        return self.by_stratum(self.w * values) / self.w_total

    def mean_of_all(self, name: str) -> Floats:
        """The mean of "e" or "f" over all queries, by stratum."""
        return (self.by_stratum(getattr(self, name)) + self.others_by_stratum(name)) / self.sizes

    def denominator(self, weight: float) -> float:
        """The estimated share of queries with a human value."""
        return self._means["d"] + weight * self._means["shift_e"]

    def value(self, weight: float) -> float:
        """The estimate in which the model's values count by this weight, λ."""
        return (self._means["y"] + weight * self._means["shift_f"]) / self.denominator(weight)

    @property
    def mean_by_model(self) -> float:
        """The model's weighted mean over graded queries."""
        return self._means["f"] / self._means["e"]

    @cached_property
    def effective_n(self) -> float:
        """How many queries with human values, drawn with equal probabilities from one stratum, would do as well (Kish 1965)."""
        return _equal_number((self.sizes / self.w_total)[self.s] * self.w * self.d)

    @property
    def equal_share(self) -> float:
        """Their number, `effective_n`, as a share of the queries with human values."""
        return self.effective_n / self.n_human

    def residuals(self, theta: float) -> tuple[Floats, Floats, Floats]:
        """By how much the values of graded queries by both judges, and sums of those of the others, are more than θ."""
        others = self.of_others
        return self.y - theta * self.d, self.f - theta * self.e, others["f"] - theta * others["e"]

    def influences(self, theta: float) -> tuple[Floats, Floats, Floats]:
        """By how much a graded query moves the human mean and the model's, and other queries the model's, without F.

        They are multiplied by the root of the correction for the number of queries with a human value, or of clusters.
        """
        if theta not in self._influences:
            self._influences[theta] = self._moved_by(theta, *self._corrections)
        return self._influences[theta]

    def _moved_by(self, theta: float, own_root: Floats, others_root: Floats) -> tuple[Floats, Floats, Floats]:
        u, v, v_others = self.residuals(theta)
        s, n, own_total = self.s, np.maximum(self.n_others, 1), self.by_stratum(v)
        others_total = summed(self.s_others, v_others, len(self.names))
        overall = (own_total + others_total) / self.sizes
        centre, others_centre = (
            np.where(self._has_equal_weights, apart, overall) for apart in (own_total / self.n_graded, others_total / n)
        )
        times, share = own_root * self.share, self.w / self.w_total[s]
        judge = share * _apart(v, self.graded_mean(v)[s]) - _apart(v, centre[s]) / self.sizes[s]
        rest = _apart(v_others, others_centre[self.s_others] * self.of_others["n"]) / self.sizes[self.s_others]
        human = times[s] * share * _apart(u, self.graded_mean(u)[s])
        return human, times[s] * judge, (others_root * self.share)[self.s_others] * rest

    @cached_property
    def _has_equal_weights(self) -> Array:
        """Whether all graded queries of a stratum have one weight."""
        weights = np.zeros(len(self.names))
        weights[self.s] = self.w
        has_equal: Array = self.by_stratum(self.w != weights[self.s]) == 0
        return has_equal

    @cached_property
    def _corrections(self) -> tuple[Floats, Floats]:
        """The roots of n / (n − 1), or of 1 / (1 − Σm² / (Σm)²) with the sizes m of clusters, by stratum; 0 if one has all."""
        if self.is_clustered:
            sides = (self.s, self.c, self.w * self.d), (self.s_others, self.c_others, self.of_others["e"])
            return tuple(np.sqrt([_factor(each) for each in self._by_unit(*side)]) for side in sides)  # type: ignore[return-value]
        return _roots_of_corrections(self.by_stratum(self.d)), np.ones(len(self.names))

    def _by_unit(self, stratum: Integers, unit: Integers, values: Array) -> Floats:
        """Sums by stratum and cluster."""
        shape = len(self.names), self.n_units
        return summed(stratum * shape[1] + unit, values, shape[0] * shape[1]).reshape(shape)

    def parts(self, theta: float) -> Parts:
        """The variances of independent queries."""
        human, judge, _ = self.influences(theta)
        judge = self.scale[self.s] * judge
        of_others = [self._others_of(place, Fraction(theta)) for place in range(len(self.names))]
        others, pooled = (dot((self.share * self.scale) ** 2, np.array(each)) for each in zip(*of_others, strict=True))
        return Parts(dot(human, human), dot(human, judge), dot(judge, judge), others, pooled)

    def variances_of_draw(self, theta: float) -> tuple[float, float]:
        """What graded queries and others add to the variance of the difference of the model's means of graded and of all queries."""
        _, judge, _ = self._moved_by(theta, _roots_of_corrections(self.by_stratum(self.e)), self._corrections[1])
        of_others = [self._others_of(place, Fraction(theta))[0] for place in range(len(self.names))]
        return dot(judge, judge), dot(self.share**2, np.array(of_others))

    def _others_of(self, place: int, theta: Fraction) -> tuple[float, float]:
        """What the others of a stratum add to the variance of the model's mean; and all of its queries, if these vary alike."""
        size, n_others = int(self.sizes[place]), int(self.n_others[place])
        if not n_others:
            return 0.0, 0.0
        both, others = self.sums_of_graded[place].plus(self.sums_of_others[place]), self.sums_of_others[place]
        mean = both.moved(theta) / size
        variance = both.spread(theta, size, mean) / max(size - 1, 1)
        centre = others.moved(theta) / n_others if self._has_equal_weights[place] else mean
        apart = others.spread(theta, n_others, centre)
        rest = (apart * n_others / (n_others - 1) if n_others > 1 else variance * n_others) / size**2
        alike = float(variance) * (self.w_squares[place] / self.w_total[place] ** 2 + 1 / n_others)
        return float(rest), alike * (n_others / size) ** 2

    def _shifts(self, theta: float, weight: float) -> Floats:
        """How far the estimate of each stratum is from θ."""
        u, v, v_others = self.residuals(theta)
        of_all = (self.by_stratum(v) + summed(self.s_others, v_others, len(self.names))) / self.sizes
        return self.graded_mean(u) + weight * self.scale * (of_all - self.graded_mean(v))

    def _moved_by_graded(self, theta: float, weight: float) -> Floats:
        """By how much graded queries move the estimate with a weight λ."""
        human, judge, _ = self.influences(theta)
        return human - weight * self.scale[self.s] * judge

    def moved(self, theta: float, weight: float) -> tuple[Floats, Floats]:
        """By how much clusters move the estimate: with their graded queries; with the others, and the shares of strata."""
        others = self.influences(theta)[2]
        people = summed(self.c, self._moved_by_graded(theta, weight), self.n_units)
        model = summed(self.c_others, weight * self.scale[self.s_others] * others, self.n_units)
        if len(self.names) > 1:
            shifts, n = self._shifts(theta, weight), self.of_others["n"]
            counts = self._by_unit(self.s, self.c, np.ones(self.n)) + self._by_unit(self.s_others, self.c_others, n)
            apart = _apart(shifts, np.full(len(shifts), dot(self.share, shifts))) / self.size
            model = model + math.sqrt(_factor(counts.sum(axis=0))) * (apart[:, np.newaxis] * counts).sum(axis=0)
        return people, model

    def variance(self, theta: float, weight: float) -> tuple[float, float, float]:
        """That of the numerator of the estimate: what graded queries add, the others, and that both are of the same clusters."""
        if self.is_clustered:
            people, model = self.moved(theta, weight)
            return dot(people, people), dot(model, model), 2 * dot(people, model)
        graded = self._moved_by_graded(theta, weight)
        # The queries are a sample, and so are the strata's shares.
        between = dot(self.share, self._shifts(theta, weight) ** 2) / self.size if len(self.names) > 1 else 0.0
        return dot(graded, graded), weight**2 * self.parts(theta).others + between, 0.0

    def best_weight(self, theta: float) -> float:
        """The weight λ with the smallest variance; NaN if all have the same."""
        if not self.is_clustered:
            parts = self.parts(theta)
            return parts.covariance / parts.pooled if parts.pooled else math.nan
        still, whole = (np.sum(self.moved(theta, weight), axis=0) for weight in (0.0, 1.0))
        moving = whole - still
        return -dot(still, moving) / dot(moving, moving) if moving.any() else math.nan

    @cached_property
    def people(self) -> Clusters:
        """The clusters of queries with human values."""
        sizes = (self.sizes / self.w_total)[self.s] * self.w * self.d
        clusters = clusters_of(summed(self.c, sizes, self.n_units))
        df = min(clusters.df, self._df_of_strata(self.value(0.0), 0.0))
        return replace(clusters, n=len(np.unique(self.clusters[self.d > 0])), df=df)

    @cached_property
    def df_of_others(self) -> float:
        """The degrees of freedom of the others' mean by the model; 0 if too few clusters of a stratum have others."""
        if not self.is_clustered:
            return self.size - 1
        is_unknown = (self.others_by_stratum("e") > 0) & (self._corrections[1] == 0)
        df = degrees_of_freedom(summed(self.c_others, self.of_others["e"], self.n_units))
        return 0.0 if is_unknown.any() or not df >= 1 else df

    @cached_property
    def problem_of_clusters(self) -> str:
        """Why clusters leave no interval; empty if they do, or if queries are independent."""
        if not self.is_clustered:
            return ""
        if (self.is_weighted or len(self.names) > 1) and not self._corrections[0].all():
            return "a stratum has one cluster alone with human grades, which has no spread"
        return self.people.problem

    @cached_property
    def dfs(self) -> Floats:
        """The degrees of freedom of the variance between the graded queries of each stratum, or nearly."""
        dfs = self.by_stratum(self.d) - 1
        if self.is_weighted:
            of_weights = [degrees_of_freedom(self.w[self.s == place]) for place in range(len(self.names))]
            dfs = np.minimum(dfs, of_weights)
        return dfs

    def df(self, theta: float, weight: float) -> float:
        """The degrees of freedom of the graded queries' part of the variance."""
        if self.is_clustered:
            return self.people.df
        if len(self.names) == 1:
            return float(self.dfs[0])
        return min(self._df_of_strata(theta, weight), self.effective_n - 1)

    def _df_of_strata(self, theta: float, weight: float) -> float:
        """The degrees of freedom of the graded part, from those of the strata (Satterthwaite); one with little variance may have few."""
        moved = self._moved_by_graded(theta, weight)
        if self.is_clustered:
            dfs = np.array([degrees_of_freedom(each) for each in self._by_unit(self.s, self.c, self.w * self.d)])
            variances = (self._by_unit(self.s, self.c, moved) ** 2).sum(axis=1)
        else:
            dfs, variances = self.dfs, self.by_stratum(moved**2)
        if not variances.any():
            return float(dfs.sum()) if self.is_clustered else math.inf
        has = variances > 0
        shares = variances[has] / math.fsum(variances)
        return 1 / dot(shares, shares / np.maximum(dfs[has], _LEAST_DF))

    def deviations(self, theta: float, weight: float | None = None) -> Deviations:
        """Those of u − λv over all strata, as the queries of one may be equal by chance; without λ those of v. Weights do not count."""
        u, v, _ = self.residuals(theta)
        values = v if weight is None else u - weight * v
        apart = values - math.fsum(values) / self.n
        square = (apart - math.fsum(apart) / self.n) ** 2
        squares = math.fsum(square)
        if squares <= float(_NEARLY_NO_SQUARE) * (dot(self.y, self.y) + dot(self.f, self.f)):
            return Deviations(self.n, 0.0, 0.0)
        return Deviations(self.n, squares, dot(square, square))


def _roots_of_corrections(n: Floats) -> Floats:
    """√(n / (n − 1)); 0 for a single query."""
    return np.sqrt(np.where(n > 1, n / np.maximum(n - 1, 1), 0.0))


def dot(first: Floats, second: Floats) -> float:
    """The sum of products, which is the same in every order and on every machine."""
    return math.fsum(first * second)


def summed(places: Integers, values: Array, n: int) -> Floats:
    """Sums by place, from 0 to n − 1."""
    return np.bincount(places, values, n).astype(np.float64)


def _apart(values: Floats, means: Floats) -> Floats:
    """Differences from means; 0 if they are rounding."""
    apart: Floats = values - means
    return np.where(np.abs(apart) <= _NEARLY_NOTHING * np.abs(values).max(initial=0.0), 0.0, apart)


def _factor(sizes: Floats) -> float:
    """1 / (1 − Σm² / (Σm)²); 0 if one has everything."""
    total, squares = math.fsum(sizes), dot(sizes, sizes)
    return total**2 / (total**2 - squares) if total**2 - squares > total**2 * _ROUNDING else 0.0


def _equal_number(sizes: Floats) -> float:
    """How many of equal size would do as well (Kish 1965)."""
    n, number = int(np.count_nonzero(sizes)), math.fsum(sizes) ** 2 / dot(sizes, sizes)
    return float(n) if abs(number - n) <= _ROUNDING * n else number


def degrees_of_freedom(sizes: Floats) -> float:
    """Those of the variance of a mean of units of these sizes; see `exact.degrees_of_freedom`."""
    if not sizes.any():
        return 0.0
    sizes = sizes / sizes.max()
    return sums.degrees_of_freedom(Fraction(math.fsum(sizes)), Fraction(dot(sizes, sizes * sizes)))


def clusters_of(sizes: Floats) -> Clusters:
    """Clusters of these sizes; some may be 0."""
    n = int(np.count_nonzero(sizes))
    if not n:
        return Clusters(0)
    return Clusters(n, effective_n=_equal_number(sizes), df=degrees_of_freedom(sizes))


class ByModel(NamedTuple):
    """What the model alone says: the sums over all queries, and those of e and f by cluster."""

    sums: Sums
    sizes: Floats
    values: Floats

    def standard_error(self, mean: float) -> float:
        """That of the mean if clusters are independent; NaN if one has all queries."""
        moved = _apart(self.values, mean * self.sizes)
        factor = _factor(self.sizes)
        return math.sqrt(factor * dot(moved, moved)) / math.fsum(self.sizes) if factor else math.nan


def by_model(queries: JudgedQueries) -> ByModel:
    """The model's values of all queries, but for those whose weight is none."""
    valid = queries.valid
    own = sums_of(valid.graded[:, _STRATUM], valid.graded[:, _CLUSTER], valid.columns()[1])
    rows = np.concatenate([own, valid.others])
    clusters = rows[:, _CLUSTER] & _FIRST_BITS if queries.are_joined else rows[:, _CLUSTER]
    names, places = np.unique(clusters, return_inverse=True)
    sizes, values = (summed(places, each, len(names)) for each in (rows[:, _E] * 1.0, _floats(rows[:, _F])))
    return ByModel(Sums.of_rows(rows), sizes, values)


def sample_of(queries: JudgedQueries) -> tuple[Sample | None, str]:
    """The strata, if they have a mean under human grades; and why that has no interval, if it has none."""
    queries = queries.valid._ordered() if queries.n_invalid_weights else queries
    if queries.are_excessive:
        return None, intervals.UNKNOWN_MEAN
    if not len(queries.graded):
        return None, "no user has human grades"
    if ungraded := set(range(len(queries.strata))) - set(queries.graded[:, _STRATUM].tolist()):
        return None, f"stratum {queries.strata[min(ungraded)]!r} has no user with human grades"
    sample = Sample(queries)
    if not sample.n_human:
        return None, "no user with human grades has a value"
    few = np.flatnonzero(~(sample.dfs >= 1)).tolist()
    if few:
        where = f"stratum {sample.names[few[0]]!r} has" if len(sample.names) > 1 else "there are"
        return sample, f"{where} fewer than two users with a human value, or one has nearly all weight"
    return sample, sample.problem_of_clusters


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
    return [replace(stratum, n_drawn=n) for n, stratum in zip(n_drawn, strata, strict=True)]


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
