"""A sample of queries with two judges: the variances of its means, by stratum and over all, and how rare large deviations are.

d and y are a graded query's human value and whether it is defined, e and f those of the model; see `judged_moments`. The residuals at a
mean θ are d(y − θ) and e(f − θ). All is computed from exact sums, as fractions, so that nothing cancels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from spark_rankeval.statistics.drawn_clusters import DrawnSums
from spark_rankeval.statistics.intervals import UNKNOWN_MEAN
from spark_rankeval.statistics.judged_clusters import ClusteredSums
from spark_rankeval.statistics.judged_moments import (
    EXCESSIVE,
    GRADED,
    OTHERS,
    OTHERS_E,
    OTHERS_F,
    OTHERS_FF,
    WEIGHT_CUBES,
    JudgedMoments,
    Monomial,
    is_weighted,
    name_of,
)
from spark_rankeval.statistics.sums import Sums, degrees_of_freedom

# A linear form of a query's values: the factor of each.
Form = Mapping[Monomial, Fraction]

ZERO, ONE = Fraction(0), Fraction(1)
CONSTANT = Monomial()
W, D, Y, E, F = Monomial(1), Monomial(0, "d"), Monomial(0, "y"), Monomial(0, "", "e"), Monomial(0, "", "f")
#: Deviations below this share of values are rounding: fourth powers are rounded before they are added.
NEARLY_NOTHING = Fraction(1, 2**46)


class Polynomial(NamedTuple):
    """A polynomial of a query's values: for each product a whole number of units, `per` to 1. Fractions would be reduced at each step."""

    factors: Mapping[Monomial, int]
    per: int

    @classmethod
    def from_form(cls, form: Form) -> Polynomial:
        """A linear form."""
        per = math.lcm(*(factor.denominator for factor in form.values()))
        return cls({term: factor.numerator * (per // factor.denominator) for term, factor in form.items()}, per)

    def times(self, other: Polynomial) -> Polynomial:
        """The product of two."""
        factors: dict[Monomial, int] = {}
        for one, factor in self.factors.items():
            for another, other_factor in other.factors.items():
                term = one * another
                factors[term] = factors.get(term, 0) + factor * other_factor
        return Polynomial(factors, self.per * other.per)


class Parts(NamedTuple):
    """Of a stratum, or of all: the variances and the covariance of d(y − θ) and e(f − θ) in the means of the graded queries."""

    human: Fraction
    covariance: Fraction
    judge: Fraction
    others: Fraction  # what the other queries add to the variance
    pooled: Fraction  # the same as judge + others, if all queries vary alike

    def scaled(self, share: Fraction, factor: Fraction) -> Parts:
        """Those of a stratum's share of the mean, with the model's values times a factor."""
        powers = (ZERO, factor, factor**2, factor**2, factor**2)
        return Parts(
            self.human * share**2, *(part * p * share**2 for part, p in zip(self[1:], powers[1:], strict=True))
        )


class Stratum:
    """The sums of one stratum, and its share of all queries."""

    def __init__(self, name: str, sums: Sums, n_all: int) -> None:
        self.name, self._sums = name, sums
        self.n, self.n_others = sums.get(GRADED, ZERO), sums.get(OTHERS, ZERO)
        self.size = self.n + self.n_others
        self.share = self.size / n_all
        self._is_weighted = is_weighted(sums)
        self._others = {E: OTHERS_E, F: OTHERS_F, F * F: OTHERS_FF}
        # The sums in whole units, too.
        self._per = math.lcm(*(value.denominator for value in sums.values()))
        self._whole = {term: value.numerator * (self._per // value.denominator) for term, value in sums.items()}

    def total(self, monomial: Monomial) -> Fraction:
        """The sum over graded queries."""
        return self._sums.get(name_of(monomial, self._is_weighted), ZERO)

    def other_total(self, monomial: Monomial) -> Fraction:
        """The sum over the other queries."""
        return self._sums.get(self._others[monomial], ZERO)

    def sum_of(self, polynomial: Polynomial) -> Fraction:
        """The sum of a polynomial over graded queries."""
        factors, whole = polynomial.factors, self._whole
        total = sum(factor * whole.get(name_of(term, self._is_weighted), 0) for term, factor in factors.items())
        return Fraction(total, polynomial.per * self._per)

    def centred(self, form: Form, weight: Monomial = CONSTANT) -> Form:
        """A form, less its mean over graded queries times their weights; without weights unless `weight` is W."""
        mean = self.sum_of(Polynomial.from_form(form)) / self.total(weight)
        return {**form, weight: form.get(weight, ZERO) - mean}

    def graded_mean(self, monomial: Monomial) -> Fraction:
        """The weighted mean over graded queries."""
        return self.total(W * monomial) / self.total(W)

    def all_mean(self, monomial: Monomial) -> Fraction:
        """The mean over all queries."""
        return (self.total(monomial) + self.other_total(monomial)) / self.size

    @property
    def scale(self) -> Fraction:
        """By how much the difference to all queries is to be multiplied to be that to the other queries; 0 without these."""
        return self.size / self.n_others if self.n_others else ZERO

    @property
    def weight_squares(self) -> Fraction:
        """Σw² / (Σw)², which is 1 / n for equal weights."""
        return self.total(W * W) / self.total(W) ** 2

    @property
    def df(self) -> float:
        """The degrees of freedom of a variance between the graded queries with a human value, or nearly."""
        df = float(self.total(D)) - 1
        if self._is_weighted:
            df = min(df, degrees_of_freedom(self.total(W), self._sums.get(WEIGHT_CUBES, ZERO)))
        return df

    def parts(self, theta: Fraction, counted: Monomial = D) -> Parts:
        """The variances at θ; the correction for the mean is that of the queries for which `counted` is 1."""
        n_counted = self.total(counted)
        correction = n_counted / (n_counted - 1) / self.size**2 if n_counted > 1 else ZERO
        per_weight = self.size / self.total(W)
        human_form, judge_form = (
            self.centred({W * value: per_weight, W * one: -theta * per_weight}, W) for value, one in ((Y, D), (F, E))
        )
        graded_centre = (self.total(F) - theta * self.total(E)) / self.n
        n_others, others_centre = self.n_others, self._mean_of_others(theta)
        overall = (self.n * graded_centre + n_others * others_centre) / self.size
        squares = self.total(F * F) - 2 * theta * self.total(F) + theta**2 * self.total(E)
        other_squares = self.other_total(F * F) - 2 * theta * self.other_total(F) + theta**2 * self.other_total(E)
        variance = (squares + other_squares - self.size * overall**2) / max(self.size - 1, ONE)
        # Equal weights carry nothing about which queries were drawn; unequal ones make the graded queries differ from the others.
        is_equal = self.weight_squares * self.n == 1
        centres = (graded_centre, others_centre) if is_equal else (overall, overall)
        human = self._simplified(human_form)
        judge = self._simplified({**judge_form, F: -ONE, E: theta, CONSTANT: centres[0]})
        apart = other_squares - 2 * centres[1] * n_others * others_centre + n_others * centres[1] ** 2
        others = (
            apart * n_others / (n_others - 1) / self.size**2 if n_others > 1 else variance * n_others / self.size**2
        )
        return Parts(
            self.sum_of(human.times(human)) * correction,
            self.sum_of(human.times(judge)) * correction,
            self.sum_of(judge.times(judge)) * correction,
            others,
            variance * (self.weight_squares + 1 / n_others) * (n_others / self.size) ** 2 if n_others else ZERO,
        )

    def _simplified(self, form: Form) -> Polynomial:
        """The form, with fewer terms if all weights are 1."""
        if self._is_weighted:
            return Polynomial.from_form(form)
        terms: dict[Monomial, Fraction] = {}
        for monomial, factor in form.items():
            terms[monomial.unweighted] = terms.get(monomial.unweighted, ZERO) + factor
        return Polynomial.from_form(terms)

    def _mean_of_others(self, theta: Fraction) -> Fraction:
        return (self.other_total(F) - theta * self.other_total(E)) / self.n_others if self.n_others else ZERO


class Deviations(NamedTuple):
    """How the graded queries deviate from their mean: sums of squares and of fourth powers."""

    n: float
    squares: Fraction
    fourth_powers: Fraction

    @property
    def n_large(self) -> float:
        """How many graded queries carry the spread: as if so many deviated equally, and all others not at all; n/3 of normal values."""
        return float(self.squares**2 / self.fourth_powers) if self.fourth_powers else 0.0

    @property
    def large_square(self) -> Fraction:
        """The square of such a deviation."""
        return self.fourth_powers / self.squares if self.squares else ZERO

    @property
    def df(self) -> float:
        """The degrees of freedom of a variance of values with this kurtosis; n − 1 for normal ones."""
        kurtosis = self.n / max(self.n_large, 1.0)
        return 2 * self.n / max(kurtosis - 1 + 2 / (self.n - 1), 2 / self.n)


class Sample:
    """All strata; each has a graded query."""

    def __init__(self, strata: list[Stratum], clusters: ClusteredSums | DrawnSums | None = None) -> None:
        self.strata, self.clusters = strata, clusters
        self.n = sum(stratum.n for stratum in strata)
        self.size = sum((stratum.size for stratum in strata), ZERO)
        self.d, self.y, self.e, self.f = (self._mean(monomial) for monomial in (D, Y, E, F))
        self.shift_e, self.shift_f = (
            sum((s.share * s.scale * (s.all_mean(each) - s.graded_mean(each)) for s in strata), ZERO) for each in (E, F)
        )

    def _mean(self, monomial: Monomial) -> Fraction:
        return sum((stratum.share * stratum.graded_mean(monomial) for stratum in self.strata), ZERO)

    def total(self, monomial: Monomial) -> Fraction:
        """The sum over graded queries, without weights."""
        return sum((stratum.total(monomial) for stratum in self.strata), ZERO)

    def denominator(self, weight: Fraction) -> Fraction:
        """The estimated share of queries with a human value."""
        return self.d + weight * self.shift_e

    def value(self, weight: Fraction) -> Fraction:
        """The estimate in which the model's values count by this weight, λ."""
        return (self.y + weight * self.shift_f) / self.denominator(weight)

    def parts(self, theta: Fraction) -> Parts:
        """The variances of all strata together."""
        scaled = [stratum.parts(theta).scaled(stratum.share, stratum.scale) for stratum in self.strata]
        return Parts(*(sum(part, ZERO) for part in zip(*scaled, strict=True)))

    def between(self, theta: Fraction, weight: Fraction) -> Fraction:
        """What the strata add to the variance, because the queries are a sample, and so are the strata's shares."""
        apart = ZERO
        for s in self.strata:
            terms = ((Y, F, ONE), (D, E, -theta))
            deviation = sum(
                (
                    factor * (s.graded_mean(human) + weight * s.scale * (s.all_mean(judge) - s.graded_mean(judge)))
                    for human, judge, factor in terms
                ),
                ZERO,
            )
            apart += s.share * deviation**2
        return apart / self.size

    @property
    def effective_n(self) -> float:
        """How many queries with human values, drawn with equal probabilities from one stratum, would do as well (Kish 1965)."""
        squares = sum((s.share**2 * s.total(W * W * D) / s.total(W) ** 2 for s in self.strata), ZERO)
        return float(self.d**2 / squares)

    def deviations(self, form: Form) -> Deviations:
        """Those of a linear form, over all strata: the queries of one may be equal by chance. Weights do not count."""
        mean = sum((stratum.sum_of(Polynomial.from_form(form)) for stratum in self.strata), ZERO) / self.n
        # A mean of few digits is as good, and fast.
        centred = Polynomial.from_form({**form, CONSTANT: Fraction(-float(mean))})
        square = centred.times(centred)
        fourth_power = square.times(square)
        squares = fourth = largest = ZERO
        for stratum in self.strata:
            squares += stratum.sum_of(square)
            fourth += stratum.sum_of(fourth_power)
            largest += stratum.total(Y * Y * Y * Y) + stratum.total(F * F * F * F)
        if squares and fourth <= largest * NEARLY_NOTHING:
            # Fourth powers of so small deviations are rounding: take the values for normal ones.
            fourth = 3 * squares**2 / self.n
        return Deviations(float(self.n), squares, fourth)


def deviation_forms(theta: Fraction) -> tuple[Form, Form]:
    """The residuals d(y − θ) and e(f − θ)."""
    return {Y: ONE, D: -theta}, {F: ONE, E: -theta}


def residual_form(theta: Fraction, weight: Fraction) -> Form:
    """What the model's residual, times a weight, leaves of the human one."""
    return {Y: ONE, D: -theta, F: -weight, E: weight * theta}


def sample_of(moments: JudgedMoments) -> tuple[Sample | None, str]:
    """The strata, if they have a mean under human grades; and why that has no interval, if it has none."""
    n_all = moments.n_graded + moments.n_others
    strata = [Stratum(name, sums, n_all) for name, sums in moments.strata.items() if n_all]
    strata = [stratum for stratum in strata if stratum.size]
    if moments.count(EXCESSIVE):
        return None, UNKNOWN_MEAN
    if not moments.n_graded:
        return None, "no user has human grades"
    for stratum in strata:
        if not stratum.n:
            return None, f"stratum {stratum.name!r} has no user with human grades"
    sample = Sample(strata, moments.clustered)
    if not sample.d:
        return None, "no user with human grades has a value"
    for stratum in strata:
        if not stratum.df >= 1:
            where = f"stratum {stratum.name!r} has" if len(strata) > 1 else "there are"
            return sample, f"{where} fewer than two users with a human value, or one has nearly all weight"
    return sample, "" if sample.clusters is None else sample.clusters.problem
