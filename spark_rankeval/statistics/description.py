"""Means of users with spread, quantiles and intervals, by t or by the bootstrap; and columns described at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from spark_rankeval.checks import is_number
from spark_rankeval.errors import OptionError
from spark_rankeval.statistics import exact, intervals, resampling
from spark_rankeval.statistics.distributions import normal_cdf, normal_quantile, t_critical
from spark_rankeval.statistics.exact import Mean, Moments
from spark_rankeval.statistics.intervals import Clusters, Interval, IntervalMethod
from spark_rankeval.statistics.judged_queries import JudgedQueries

Array = np.ndarray[Any, Any]
Floats = np.ndarray[Any, np.dtype[np.float64]]


class BootstrapAccumulator:
    """The sums of several columns in every bootstrap sample, for users that come batch by batch.

    A user's weight in a sample is Poisson with mean 1. It is the same for all columns, so metrics and models are comparable.
    """

    def __init__(self, n_columns: int, *, replicates: int = 1000, seed: int = 0) -> None:
        self._replicates = replicates
        self._seed = seed
        self._values = resampling.zero_sums(n_columns, replicates)
        self._weights = resampling.zero_sums(n_columns, replicates)
        self._n_excessive = np.zeros(n_columns, np.int64)

    def add(self, users: Array, values: Floats, weights: Floats | None = None) -> None:
        """Add users, each once: 64-bit hashes of their ids, and their values as columns × users.

        NaN is left out; a value from 2³¹ on is counted and left out. There is one weight per user, or one per column and user. Users
        without a valid weight above 0 are left out. Weights and weighted values are held to 2⁻⁴², so weights of about 1 are best.
        """
        given = np.broadcast_to(1.0 if weights is None else weights, values.shape)
        is_valid = (given > 0) & np.isfinite(given)
        # An infinity times 0 is no number.
        with np.errstate(invalid="ignore"):
            largest = np.abs(values) if weights is None else np.maximum(np.abs(values), 1.0) * given
        excessive = is_valid & (largest >= resampling.LIMIT)
        self._n_excessive += np.count_nonzero(excessive, axis=1)
        used = is_valid & ~(np.isnan(values) | excessive)
        held = np.where(used, given, 0.0)
        # Most metrics are undefined for the same users, so weights that are alike are added up once.
        patterns = list(dict.fromkeys(row.tobytes() for row in held))
        places = [patterns.index(row.tobytes()) for row in held]
        different = np.array([np.frombuffer(pattern) for pattern in patterns]).reshape(len(patterns), -1)
        rows = np.concatenate([np.where(used, values, 0.0) * held, different])
        sums = resampling.resampled_sums(rows, users, resampling.PoissonDraw(), self._replicates, self._seed)
        n = len(values)
        self._values = resampling.carried(self._values + sums[:, :n])
        self._weights = resampling.carried(self._weights + sums[:, n + np.array(places, np.intp)])

    def state(self) -> dict[str, Array]:
        """The state so far, as arrays by column; states are merged by adding."""
        fields = {"values": self._values, "weights": self._weights}
        sums = {name: np.moveaxis(limbs, 0, 1).copy() for name, limbs in fields.items()}
        return {**sums, "n_excessive": self._n_excessive.copy()}


@dataclass(frozen=True)
class BootstrapMeans:
    """The means of one column in the bootstrap samples, ascending; `n_empty` samples have no user and so no mean."""

    means: Floats
    n_empty: int
    n_excessive: int


def bootstrap_means_of(state: dict[str, Any]) -> BootstrapMeans:
    """The samples of one column from its merged state: one entry of each field of `BootstrapAccumulator.state`."""
    values, weights = (resampling.floats_of(state[name]) for name in ("values", "weights"))
    drawn = weights > 0
    means = np.sort(values[drawn] / weights[drawn])
    return BootstrapMeans(means, int(np.count_nonzero(~drawn)), int(state["n_excessive"]))


# Weights are held to 2⁻⁴², so if the mean weight is smaller than this, they keep too few digits.
_LEAST_MEAN_WEIGHT = 2.0**-20
# Values are held to 2⁻⁴², too, so a smaller spread keeps too few digits.
_LEAST_SPREAD = 2.0**-32
# In floats 1 − 0.9 is a little less than 0.1.
_SAME_COUNT = 1e-6
# Means of the same users that differ by less than this differ only by the units in which they are added.
_SAME = 2.0**-41


def bootstrap_interval(samples: BootstrapMeans, mean: Mean, level: float = 0.95, method: str = "bca") -> Interval:
    """The interval of a mean from its bootstrap samples.

    ``percentile`` is the interval between the (1 ∓ level)/2 quantiles of the samples' means (Efron 1979). ``bca`` is the bias-corrected and
    accelerated one (Efron 1987; Efron and Tibshirani 1993, 14.3). The bias correction comes from the share of samples below the mean, plus
    half of those equal to it. The acceleration is that of the jackknife, from the third moment of the values.
    """
    if reason := _why_none(samples, mean, level):
        return Interval.missing(level, method, reason)
    bias = acceleration = 0.0
    if method == "bca":
        same = _SAME * max(abs(mean.mean), 1.0)
        below, not_above = np.searchsorted(samples.means, [mean.mean - same, mean.mean + same])
        bias, acceleration = normal_quantile((below + not_above) / 2 / len(samples.means)), mean.acceleration
    ends = []
    for z in (normal_quantile((1 - level) / 2), normal_quantile((1 + level) / 2)):
        shifted = bias + z
        if not 1 - acceleration * shifted > 0 or math.isinf(bias):
            lie = "all samples lie on one side of the mean" if math.isinf(bias) else "the values are too skewed for it"
            return Interval.missing(level, method, lie)
        ends.append(normal_cdf(bias + shifted / (1 - acceleration * shifted)))
    low, high = np.quantile(samples.means, ends)
    return Interval(float(low), float(high), level, method)


def _why_none(samples: BootstrapMeans, mean: Mean, level: float) -> str:
    """Why the samples give no interval; empty if they give one."""
    n_samples, needed = len(samples.means) + samples.n_empty, math.ceil(2 / (1 - level) - _SAME_COUNT)
    problems = {
        "no user": mean.n == 0,
        "one user has no spread": mean.n == 1,
        f"values{' or weights' * mean.is_weighted} too large to be resampled": samples.n_excessive > 0
        or not math.isfinite(mean.mean),
        "weights too small to be resampled: multiply them by a constant": mean.total_weight
        < mean.n * _LEAST_MEAN_WEIGHT,
        f"a level of {level:g} needs {needed:,} replicates, and there are {n_samples:,}": n_samples < needed,
        "no sample has a user": not len(samples.means),
        "all users have the same value, or nearly so, and so has every sample: ci='t' uses the metric's bounds": mean.std
        == 0,
        f"values differ by less than can be resampled, about {_LEAST_SPREAD:.0e}: use ci='t'": mean.std < _LEAST_SPREAD,
    }
    return next((reason for reason, holds in problems.items() if holds), "")


#: So many blocks.
N_BLOCKS = 64
#: An interval needs so many blocks with users: with fewer some hold the truth in less than 0.92 of samples instead of 0.95.
LEAST_BLOCKS = 20
# Sets the stream apart from those of the draws of `resampling`.
_PURPOSE = 3
# What rounding may do to a value, as a share of it.
_ROUNDING = 2.0**-40
# The exponential of a larger number is no float.
_LARGEST_POWER = 700.0


def blocks_of(users: Array, seed: int) -> Array:
    """The block of each user, from 64-bit hashes of their ids; int64, below `N_BLOCKS`."""
    words = resampling.uniform64(users, np.zeros(1, np.int64), seed, _PURPOSE)
    return (words % np.uint64(N_BLOCKS)).astype(np.int64)


class WithoutBlock(NamedTuple):
    """A figure without the users of a block."""

    value: float  # NaN if it is not defined then
    n_users: int  # how many users were left out, at least 1


class JackknifeSpread(NamedTuple):
    """How much a figure of all users would differ between samples of as many users."""

    standard_error: float
    df: float  # degrees of freedom; fewer than blocks if these differ in size
    df_of_terms: float  # the same if the terms of few blocks make up the variance


def spread_of(value: float, left_out: Sequence[WithoutBlock]) -> JackknifeSpread | None:
    """The spread of a figure, or None if blocks do not tell it.

    Block j has m_j of the n users, and h_j = n/m_j. The figure without it is θ_(j), and θ_J = g·θ − Σ (1 − m_j/n)·θ_(j). Over the g
    blocks the variance is the mean of (h_j·θ − (h_j − 1)·θ_(j) − θ_J)² ÷ (h_j − 1). With v_j for these terms, it has the degrees of freedom
    2 (Σ v_j)² ÷ Σ (v_j − their mean)² of Satterthwaite, which for normal values are about g.

    Source: Busing, Meijer, van der Leeden, Delete-m jackknife for unequal m, Statistics and Computing 1999. Of the degrees of freedom: Pan
    and Wall, Small-sample adjustments in using the sandwich variance estimator, 2002.
    """
    n_left_out = np.array([block.n_users for block in left_out], np.float64)
    n_users = n_left_out.sum()
    difference = np.array([block.value for block in left_out]) - value
    if len(left_out) < 2 or not np.isfinite(difference).all():
        return None
    h = n_users / n_left_out
    # The terms of θ cancel out: what is left are differences, which keep their digits.
    centre = -math.fsum((1 - 1 / h) * difference)
    terms = ((h - 1) * difference + centre) ** 2 / (h - 1)
    total, g = math.fsum(terms), len(left_out)
    unequal = math.fsum((terms / total - 1 / g) ** 2) if total else 0.0
    # Whole tenths, because each t of other degrees of freedom takes its time.
    df_of_terms = max(1.0, math.floor(20 / unequal) / 10) if unequal else math.inf
    return JackknifeSpread(math.sqrt(total / g), float(n_users**2 / (n_left_out**2).sum()) - 1, df_of_terms)


def jackknife_interval(
    value: float,
    left_out: Sequence[WithoutBlock],
    level: float,
    bounds: tuple[float, float],
    *,
    may_rest_on_few: bool = False,
) -> tuple[float, Interval]:
    """The standard error of a figure of all users, NaN if it is not known, and its interval.

    The interval is ± t · standard error on a scale without ends: the logarithm of a figure from 0 up, the logit of one between
    two bounds. Ratios and shares are skewed near their ends, and on such a scale hardly (Efron 1982, section 3). If the figure is
    at an end, with all users or without some, the interval is on its own scale, and cut at the bounds. If a figure `may_rest_on_few`
    users, its degrees of freedom know how few they are.
    """
    spread = None if math.isnan(value) else spread_of(value, left_out)
    if spread is None:
        reason = "no user" if math.isnan(value) else "too few users: the value is undefined without some of them"
        return math.nan, Interval.missing(level, intervals.JACKKNIFE, reason)
    reason = ""
    if spread.standard_error <= _ROUNDING * max(1.0, abs(value)):
        reason = "the value is the same whoever is left out"
    elif len(left_out) < LEAST_BLOCKS:
        needed = f"{LEAST_BLOCKS} need about 25 of them"
        reason = f"too few users or clusters: they fill {len(left_out)} blocks, and {needed}"
    if reason:
        return spread.standard_error, Interval.missing(level, intervals.JACKKNIFE, reason)
    centre, kept = _without_ends(value, bounds), (-math.inf, math.inf)
    stretched = spread_of(centre, [WithoutBlock(_without_ends(each, bounds), n) for each, n in left_out])
    if stretched is None:
        centre, stretched, kept = value, spread, bounds if bounds[0] <= value <= bounds[1] else kept
        bounds = (-math.inf, math.inf)
    df = min(stretched.df, stretched.df_of_terms) if may_rest_on_few else stretched.df
    half_width = t_critical(level, df) * stretched.standard_error
    low, high = (_within_ends(end, bounds) for end in (centre - half_width, centre + half_width))
    return spread.standard_error, Interval(low, high, level, intervals.JACKKNIFE).within(kept)


def _without_ends(value: float, bounds: tuple[float, float]) -> float:
    """The value on a scale without ends; NaN at an end or beyond."""
    low, high = bounds
    if not low < value < high:
        return math.nan
    below, above = (math.log(part) if math.isfinite(part) else 0.0 for part in (value - low, high - value))
    return below - above if math.isfinite(low) or math.isfinite(high) else value


def _within_ends(stretched: float, bounds: tuple[float, float]) -> float:
    """The value that is so far on the scale without ends."""
    low, high = bounds
    up, down = (math.exp(min(power, _LARGEST_POWER)) for power in (stretched, -stretched))
    if not math.isfinite(low):
        return high - down if math.isfinite(high) else stretched
    if not math.isfinite(high):
        return low + up
    return low + (high - low) / (1 + down)


#: The states of the accumulators by what they are for: ``moments``, ``quantiles``, ``means``, ``bootstrap``. The first axis is the groups.
State = dict[str, dict[str, Array]]

_RESAMPLED = ("percentile", "bca")
MEDIAN = 0.5


@dataclass(frozen=True)
class DescriptionOptions:
    """What is to be said beyond counts and moments; without a `method` no interval, without `quantiles` no median either.

    Attributes:
        weighted: users have weights, for the mean, its spread and its interval.
        normalised: the columns whose values have weights of their own: their means are quotients of sums.
        n_plain: how many of the last columns have only moments and the weighted mean.
        clustered: users come in clusters, which are drawn and counted as wholes. Their sums have a state of their own.
    """

    method: str | None = "t"
    level: float = 0.95
    replicates: int = 1000
    seed: int = 0
    quantiles: tuple[float, ...] = (MEDIAN,)
    weighted: bool = False
    normalised: tuple[int, ...] = ()
    n_plain: int = 0
    clustered: bool = False

    @classmethod
    def read(
        cls, ci: str | IntervalMethod | None, quantiles: Sequence[float], *, weighted: bool = False
    ) -> DescriptionOptions:
        """Options as a caller gives them; raises `OptionError` if one is not valid."""
        method = intervals.interval_method(ci)
        shares = tuple(quantiles) if isinstance(quantiles, Iterable) else (quantiles,)
        if not (isinstance(quantiles, Iterable) and all(is_number(share) and 0 <= share <= 1 for share in shares)):
            raise OptionError(f"quantiles must be shares from 0 to 1, such as (0.25, 0.5); got {quantiles!r}")
        quantiles = tuple(dict.fromkeys(float(share) for share in shares))
        if method is None:
            return cls(None, quantiles=quantiles, weighted=weighted)
        options = cls(method.name, float(method.level), quantiles=quantiles, weighted=weighted)
        if isinstance(method, intervals.Student):
            return options
        return replace(options, replicates=int(method.replicates), seed=int(method.seed))

    @property
    def any_weighted(self) -> bool:
        """Whether any column's values have weights."""
        return self.weighted or bool(self.normalised)

    @property
    def resamples(self) -> bool:
        """Whether bootstrap samples are drawn, for which users need hashes."""
        return self.method in _RESAMPLED


MOMENTS_ALONE = DescriptionOptions(method=None, quantiles=())


class Figures(NamedTuple):
    """The figures of a group of users."""

    values: list[Description]  # the figures of each value
    counts: Mapping[str, Moments]  # the moments of each count, by name
    fingerprints: dict[str, str]  # by table


class DescriptionAccumulator:
    """What is to be said of several columns in one or more groups, of users that come batch by batch."""

    def __init__(self, n_columns: int, options: DescriptionOptions, n_groups: int = 1) -> None:
        self._n_groups, self._n_described = n_groups, n_columns - options.n_plain
        # Every n-th column of these is of the same group.
        self._moments = exact.MomentsAccumulator(n_columns * n_groups)
        self._quantiles = exact.QuantileAccumulator() if options.quantiles else None
        needs_means = options.resamples or options.any_weighted
        self._means = (
            exact.MeanAccumulator(n_columns * n_groups, weighted=options.any_weighted) if needs_means else None
        )
        self._weighs = options.any_weighted
        self._bootstraps = [
            BootstrapAccumulator(self._n_described, replicates=options.replicates, seed=options.seed)
            for _ in range(n_groups * options.resamples)
        ]

    def add(
        self,
        values: Sequence[Array],
        users: Array | None = None,
        weights: Array | None = None,
        normalisers: Mapping[int, Array] | None = None,
        group: Array | None = None,
    ) -> None:
        """Take in users: for each column their values, NaN if undefined; and 64-bit hashes of their ids, if they are resampled.

        Users with weight 0, or a negative, NaN or infinite one, are left out and counted. `normalisers` are weights of single
        columns, for each that the options name; they multiply the users' weights. `group` has the group of each user, from 0 on, if there
        are several.
        """
        column_factors = {} if normalisers is None else normalisers
        plain = np.ones(len(values[0])) if weights is None and self._weighs and values else weights
        column_weights = [
            plain * column_factors[index] if plain is not None and index in column_factors else plain
            for index in range(len(values))
        ]
        if self._means is not None:
            for index, column in enumerate(values):
                self._means.add(index, column, column_weights[index], group, self._n_groups)
        if weights is not None:
            counts = (weights > 0) & np.isfinite(weights)
            values, weights = [column[counts] for column in values], weights[counts]
            users, group = (None if each is None else each[counts] for each in (users, group))
            column_weights = [None if column is None else column[counts] for column in column_weights]
        self._add_values(values, group)
        if self._bootstraps and self._n_described:
            assert users is not None, "users are resampled by their hashes"
            factors = np.stack(column_weights[: self._n_described]) if column_factors else weights  # type: ignore[arg-type] # none is None
            self._resample(users, np.stack(values[: self._n_described]), factors, group)

    def _add_values(self, values: Sequence[Array], group: Array | None) -> None:
        """Add values to moments and sketches."""
        n_counted = self._n_described if self._quantiles is not None else 0
        for first, columns in ((0, values[:n_counted]), (n_counted, values[n_counted:])):
            if group is None and first >= n_counted:
                for index, column in enumerate(columns, first):
                    self._moments.add(index, column)
                continue
            each = (
                exact.tallies(columns)
                if group is None
                else exact.tallies_of_groups(columns, group, self._n_groups, first)
            )
            for counted in each:
                self._moments.add_tally(counted)
                if self._quantiles is not None and first < n_counted:
                    self._quantiles.add_tally(counted)

    def _resample(self, users: Array, values: Array, weights: Array | None, group: Array | None) -> None:
        parts: list[Any] = [slice(None)]
        if group is not None:
            order = np.argsort(group, kind="stable")
            parts = np.split(order, np.searchsorted(group[order], np.arange(1, self._n_groups)))
        for bootstrap, some in zip(self._bootstraps, parts, strict=True):
            bootstrap.add(users[some], values[:, some], None if weights is None else weights[..., some])

    def state(self) -> State:
        """The state so far, with an entry for each group; a sketch has the number of ``rows`` of each group."""
        parts = {"moments": self._moments, "quantiles": self._quantiles, "means": self._means}
        state = {name: part.state_of_groups(self._n_groups) for name, part in parts.items() if part is not None}
        if self._bootstraps:
            states = [bootstrap.state() for bootstrap in self._bootstraps]
            state["bootstrap"] = {field: np.stack([each[field] for each in states]) for field in states[0]}
        return state


class Description(NamedTuple):
    """The figures of one column; `median` and `quantiles` are within `exact.RELATIVE_ACCURACY`.

    The weighted mean and its errors are there if users have weights; all other figures count each user with a weight above 0 once.
    If users come in clusters, `clusters` has the standard error of the mean, which the interval is made of.
    """

    moments: Moments
    interval: Interval | None
    median: float
    quantiles: dict[float, float]
    weighted: Mean | None = None
    clusters: Clusters | None = None
    # The standard error of one figure of all users together, as far as it is known.
    error_of_figure: float = math.nan
    # What two judges say of users, of whom people graded a part; of the values by people alone.
    judged: JudgedQueries | None = None

    @property
    def mean(self) -> float:
        """The mean, weighted if users have weights."""
        return self.moments.mean if self.weighted is None else self.weighted.mean

    @property
    def error_of_users(self) -> float:
        """The standard error of the mean if all users are independent."""
        return intervals.precision_of(self.moments, self.weighted).standard_error

    @property
    def standard_error(self) -> float:
        """The standard error of the mean, or of the one figure of all users."""
        if not math.isnan(self.error_of_figure):
            return self.error_of_figure
        return intervals.precision_of(self.moments, self.weighted, self.clusters).standard_error


def descriptions_of_groups(
    state: State, options: DescriptionOptions, clusters: Sequence[Sequence[Clusters]] | None = None
) -> list[list[Description]]:
    """The figures of every column of one or more groups, from their merged states: in as many steps as those of one group.

    `clusters` are those of each group and column; plain columns have none.
    """
    n_groups, n_columns = state["moments"]["n"].shape
    # The columns of the first group, then those of the second, and so on.
    columns = {
        name: {field: values.reshape(-1, *values.shape[2:]) for field, values in fields.items()}
        for name, fields in state.items()
        if name != "quantiles"
    }
    column_quantiles = []
    if options.quantiles:
        sketches = state["quantiles"]
        group = np.repeat(np.arange(n_groups), sketches["rows"])
        grouped_sketches = sketches | {"column": group * n_columns + sketches["column"]}
        column_quantiles = exact.quantiles_of(grouped_sketches, n_columns * n_groups, (MEDIAN, *options.quantiles))
    described = []
    for index, moments in enumerate(exact.moments_of_columns(columns["moments"])):
        group_number, column = divmod(index, n_columns)
        median, quantiles = math.nan, {}
        is_plain = column >= n_columns - options.n_plain
        if options.quantiles and not is_plain:
            median, *shares = column_quantiles[index]
            quantiles = dict(zip(options.quantiles, shares, strict=True))
        is_weighted = options.weighted or column in options.normalised
        weighted = (
            with_reliable_figures(exact.mean_of(_column(columns["means"], index)), moments) if is_weighted else None
        )
        column_clusters = None if is_plain or clusters is None else _as_precise(clusters[group_number][column], moments)
        interval = None
        if not is_plain and options.method is not None:
            if options.resamples:
                samples = bootstrap_means_of(_column(columns["bootstrap"], index - group_number * options.n_plain))
                mean = exact.mean_of(_column(columns["means"], index))
                interval = _resampled_interval(samples, mean, options, column_clusters)
            else:
                interval = intervals.mean_interval(moments, options.level, weighted, column_clusters)
        described.append(Description(moments, interval, median, quantiles, weighted, column_clusters))
    return [described[group * n_columns : (group + 1) * n_columns] for group in range(n_groups)]


def one_figure(
    value: float,
    n_users: int,
    options: DescriptionOptions,
    left_out: Sequence[WithoutBlock] = (),
    bounds: tuple[float, float] = intervals.UNBOUNDED,
) -> Description:
    """The description of one figure of all users together, NaN if undefined: it has no spread between users.

    If users are resampled, its interval comes from the figures `without` the users of each block.
    """
    n = 0 if math.isnan(value) else n_users
    nan = math.nan
    moments = Moments(n, 0, 0, mean=value, std=nan, least=nan, greatest=nan, total=nan, sums=None)
    error, interval = nan, None
    if options.resamples:
        error, interval = jackknife_interval(value, left_out, options.level, bounds)
    elif options.method is not None:
        reason = "a value of all lists together has no spread between users; ci='bootstrap' gives it an interval"
        interval = Interval.missing(options.level, options.method, reason)
    return Description(moments, interval, nan, dict.fromkeys(options.quantiles, nan), error_of_figure=error)


def _resampled_interval(
    samples: BootstrapMeans, mean: Mean, options: DescriptionOptions, clusters: Clusters | None
) -> Interval:
    assert options.method is not None, "it is one that resamples"
    if clusters is not None and (clusters.problem or clusters.are_few_if_skewed):
        reason = clusters.problem or f"{clusters.words}, and a bootstrap needs {intervals.FEWEST_IF_SKEWED}: use ci='t'"
        return Interval.missing(options.level, options.method, reason)
    if clusters is not None:
        mean = replace(mean, acceleration=clusters.acceleration)
    return bootstrap_interval(samples, mean, options.level, options.method)


def _as_precise(clusters: Clusters, moments: Moments) -> Clusters:
    """The clusters, without a standard error if exact sums hold too few digits of such small values."""
    _, squares_too_small = exact.too_small(moments.least, moments.greatest)
    return replace(clusters, standard_error=math.nan) if squares_too_small else clusters


def with_reliable_figures(weighted: Mean, moments: Moments) -> Mean:
    """The weighted mean and its spread, each NaN if exact sums hold too few digits of such small values."""
    sum_too_small, squares_too_small = exact.too_small(moments.least, moments.greatest)
    if sum_too_small:
        weighted = replace(weighted, mean=math.nan)
    return replace(weighted, std=math.nan, standard_error=math.nan) if squares_too_small else weighted


def _column(state: dict[str, Array], index: int) -> dict[str, Any]:
    return {name: values[index] for name, values in state.items()}
