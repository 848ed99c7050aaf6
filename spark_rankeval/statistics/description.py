"""All that is said of columns of users' values: counts and moments, an interval of the mean, quantiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from spark_rankeval.checks import is_number
from spark_rankeval.errors import OptionError
from spark_rankeval.statistics.bootstrap import (
    BootstrapAccumulator,
    BootstrapMeans,
    WithoutBlock,
    bca_interval,
    bootstrap_means_of,
    jackknife_interval,
    percentile_interval,
)
from spark_rankeval.statistics.cluster_sums import FEWEST_IF_SKEWED, Clusters
from spark_rankeval.statistics.intervals import (
    UNBOUNDED,
    Interval,
    IntervalMethod,
    Student,
    interval_method,
    mean_interval,
    t_interval,
)
from spark_rankeval.statistics.judged_queries import JudgedQueries
from spark_rankeval.statistics.moments import Moments, MomentsAccumulator, moments_of_columns, too_small
from spark_rankeval.statistics.quantiles import QuantileAccumulator, quantiles_of, tallies, tallies_of_groups
from spark_rankeval.statistics.sums import Mean, MeanAccumulator, mean_of

Array = np.ndarray[Any, Any]
#: The states of the accumulators by what they are for: ``moments``, ``quantiles``, ``means``, ``bootstrap``. The first axis is the groups.
State = dict[str, dict[str, Array]]

_RESAMPLED = {"percentile": percentile_interval, "bca": bca_interval}
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
        method = interval_method(ci)
        shares = tuple(quantiles) if isinstance(quantiles, Iterable) else (quantiles,)
        if not (isinstance(quantiles, Iterable) and all(is_number(share) and 0 <= share <= 1 for share in shares)):
            raise OptionError(f"quantiles must be shares from 0 to 1, such as (0.25, 0.5); got {quantiles!r}")
        options = cls(
            method=None if method is None else method.name,
            quantiles=tuple(dict.fromkeys(float(share) for share in shares)),
            weighted=weighted,
        )
        if method is None:
            return options
        options = replace(options, level=float(method.level))
        if isinstance(method, Student):
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
        self._moments = MomentsAccumulator(n_columns * n_groups)
        self._quantiles = QuantileAccumulator() if options.quantiles else None
        needs_means = options.resamples or options.any_weighted
        self._means = MeanAccumulator(n_columns * n_groups, weighted=options.any_weighted) if needs_means else None
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
            each = tallies(columns) if group is None else tallies_of_groups(columns, group, self._n_groups, first)
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
    """The figures of one column; `median` and `quantiles` are within `quantiles.RELATIVE_ACCURACY`.

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
        if self.weighted is not None:
            return self.weighted.standard_error
        return self.moments.std / math.sqrt(self.moments.n) if self.moments.n else math.nan

    @property
    def standard_error(self) -> float:
        """The standard error of the mean, or of the one figure of all users."""
        if not math.isnan(self.error_of_figure):
            return self.error_of_figure
        return self.error_of_users if self.clusters is None else self.clusters.standard_error


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
        column_quantiles = quantiles_of(grouped_sketches, n_columns * n_groups, (MEDIAN, *options.quantiles))
    described = []
    for index, moments in enumerate(moments_of_columns(columns["moments"])):
        group_number, column = divmod(index, n_columns)
        median, quantiles = math.nan, {}
        is_plain = column >= n_columns - options.n_plain
        if options.quantiles and not is_plain:
            median, *shares = column_quantiles[index]
            quantiles = dict(zip(options.quantiles, shares, strict=True))
        is_weighted = options.weighted or column in options.normalised
        weighted = with_reliable_figures(mean_of(_column(columns["means"], index)), moments) if is_weighted else None
        column_clusters = None if is_plain or clusters is None else _as_precise(clusters[group_number][column], moments)
        interval = None
        if not is_plain and options.method is not None:
            if options.resamples:
                samples = bootstrap_means_of(_column(columns["bootstrap"], index - group_number * options.n_plain))
                mean = mean_of(_column(columns["means"], index))
                interval = _resampled_interval(samples, mean, options, column_clusters)
            else:
                interval = t_interval_of(moments, weighted, options.level, column_clusters)
        described.append(Description(moments, interval, median, quantiles, weighted, column_clusters))
    return [described[group * n_columns : (group + 1) * n_columns] for group in range(n_groups)]


def one_figure(
    value: float,
    n_users: int,
    options: DescriptionOptions,
    left_out: Sequence[WithoutBlock] = (),
    bounds: tuple[float, float] = UNBOUNDED,
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
        reason = clusters.problem or f"{clusters.words}, and a bootstrap needs {FEWEST_IF_SKEWED}: use ci='t'"
        return Interval.missing(options.level, options.method, reason)
    if clusters is not None:
        mean = replace(mean, acceleration=clusters.acceleration)
    return _RESAMPLED[options.method](samples, mean, options.level)


def _as_precise(clusters: Clusters, moments: Moments) -> Clusters:
    """The clusters, without a standard error if exact sums hold too few digits of such small values."""
    _, squares_too_small = too_small(moments.least, moments.greatest)
    return replace(clusters, standard_error=math.nan) if squares_too_small else clusters


def with_reliable_figures(weighted: Mean, moments: Moments) -> Mean:
    """The weighted mean and its spread, each NaN if exact sums hold too few digits of such small values."""
    sum_too_small, squares_too_small = too_small(moments.least, moments.greatest)
    if sum_too_small:
        weighted = replace(weighted, mean=math.nan)
    return replace(weighted, std=math.nan, standard_error=math.nan) if squares_too_small else weighted


def t_interval_of(moments: Moments, weighted: Mean | None, level: float, clusters: Clusters | None = None) -> Interval:
    """The t interval of a mean; of the weighted mean if there is one."""
    if weighted is not None and moments.n and not math.isfinite(weighted.mean):
        reason = "values or weights too large or too small to be added: multiply the weights by a constant"
        return Interval.missing(level, "t", reason)
    if clusters is not None:
        mean = moments.mean if weighted is None else weighted.mean
        return t_interval(mean, clusters.standard_error, clusters.n, level, clusters.df, clusters.problem)
    if weighted is None:
        return mean_interval(moments, level)
    return t_interval(weighted.mean, weighted.standard_error, weighted.n, level, weighted.df, weighted.problem)


def _column(state: dict[str, Array], index: int) -> dict[str, Any]:
    return {name: values[index] for name, values in state.items()}
