"""Cluster-robust precision of means: statsmodels' on random data, and the same bits for every way of parting the clusters."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import statsmodels.api as sm
from helpers.descriptions import column, descriptions_of, moments
from oracles.clusters import correction, effective_n, precision_of, sizes_of
from scipy import stats

from spark_rankeval.statistics.comparisons import (
    AllPairsAccumulator,
    PairedAccumulator,
    PairedClusters,
    all_pairs_of,
    comparison_of,
    paired_sides,
)
from spark_rankeval.statistics.description import DescriptionAccumulator, DescriptionOptions
from spark_rankeval.statistics.distributions import clopper_pearson_interval
from spark_rankeval.statistics.exact import LIMBS, MeanAccumulator, exact_sum, mean_of, merged
from spark_rankeval.statistics.exact import degrees_of_freedom as exact_degrees_of_freedom
from spark_rankeval.statistics.groups import Group, difference_of
from spark_rankeval.statistics.intervals import (
    ClusterAccumulator,
    adjusted_interval,
    clusters_of,
    mean_interval,
    sums_by_cluster,
)


def test_degrees_of_freedom_are_a_double_even_if_they_are_whole():
    """A column of doubles takes no whole number."""
    df = exact_degrees_of_freedom(Fraction(100), Fraction(100))
    assert (df, type(df)) == (99, float)


def users(n_users=3000, n_clusters=70, seed=1):
    """Sorted clusters, values of three columns with NaN and a shared part in each cluster, and weights."""
    random = np.random.default_rng(seed)
    clusters = np.sort(random.integers(0, n_clusters, n_users))
    values = random.random((n_users, 3)) * [1.0, 30.0, 1e-4] + random.normal(size=n_clusters)[clusters, None]
    values[random.random(values.shape) < 0.1] = np.nan
    return clusters, values, random.exponential(size=n_users)


def starts_of(clusters):
    return np.flatnonzero(np.append(True, clusters[1:] != clusters[:-1]))


def state_of(clusters, values, weights=None, parts=1):
    """The state of clusters that are divided into parts."""
    states = []
    for part in np.array_split(np.unique(clusters), parts):
        rows, accumulator = np.isin(clusters, part), ClusterAccumulator(values.shape[1], cubes=True)
        given = None if weights is None else np.broadcast_to(weights.reshape(len(values), -1), values.shape)[rows]
        if rows.any():
            accumulator.add(sums_by_cluster(clusters[rows], starts_of(clusters[rows]), values[rows], given))
        states.append(accumulator.state())
    return merged(states)


@pytest.mark.parametrize("is_weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("n_clusters", [2, 7, 70, 2500])
def test_errors_are_those_of_statsmodels_but_for_the_correction(n_clusters, is_weighted):
    clusters, values, weights = users(n_clusters=n_clusters)
    ones = weights if is_weighted else np.ones(len(weights))
    for place, found in enumerate(clusters_of(state_of(clusters, values, weights if is_weighted else None))):
        used = ~np.isnan(values[:, place])
        sizes = sizes_of(clusters[used], ones[used])
        model = sm.WLS(values[used, place], np.ones(used.sum()), ones[used])
        fitted = model.fit(cov_type="cluster", cov_kwds={"groups": clusters[used]})
        _, error, df = precision_of(values[:, place], clusters, ones)
        assert (found.n, found.df) == (len(np.unique(clusters[used])), pytest.approx(df))
        assert found.standard_error == pytest.approx(fitted.bse[0] * correction(sizes), rel=1e-9)
        assert (found.standard_error, found.effective_n) == pytest.approx((error, effective_n(sizes)), rel=1e-9)


def test_a_column_has_weights_of_its_own_and_nothing_of_other_columns():
    clusters, values, weights = users()
    each = np.stack([weights, weights**2, np.ones(len(weights))], axis=1)
    together = clusters_of(state_of(clusters, values, each))
    alone = [clusters_of(state_of(clusters, values[:, [column]], each[:, column]))[0] for column in range(3)]
    assert together == alone


@pytest.mark.parametrize("is_weighted", [False, True])
def test_clusters_of_one_user_say_what_users_say(is_weighted):
    _, values, weights = users(400)
    given = weights if is_weighted else np.ones(400)
    for place, found in enumerate(clusters_of(state_of(np.arange(400), values, given if is_weighted else None))):
        accumulator = MeanAccumulator(1, weighted=True)
        accumulator.add(0, values[:, place], given)
        mean, factor = mean_of(column(accumulator.state())), correction(given[~np.isnan(values[:, place])])
        assert (found.n, found.effective_n, found.df) == pytest.approx((mean.n, mean.effective_n, mean.df))
        assert found.standard_error == pytest.approx(mean.standard_error * factor, rel=1e-12)
        assert found.acceleration == pytest.approx(mean.acceleration, rel=1e-9)
        assert found.design_effect(mean.standard_error) == pytest.approx(factor**2)


def test_the_acceleration_is_that_of_the_jackknife_of_clusters():
    """It is half of the skewness of the influences over their number's root (Efron 1987, 6.6), up to terms of order 1/G."""
    clusters, values, _ = users(n_clusters=300, seed=4)
    values = values[:, 0]
    means = np.array([np.nanmean(values[clusters != each]) for each in np.unique(clusters)])
    influence = means.mean() - means
    jackknife = (influence**3).sum() / (6 * (influence**2).sum() ** 1.5)
    assert clusters_of(state_of(clusters, values[:, None]))[0].acceleration == pytest.approx(jackknife, rel=0.05)


@pytest.mark.parametrize("parts", [2, 9, 200])
def test_no_way_of_parting_clusters_changes_a_bit(parts):
    clusters, values, weights = users()
    whole, parted = (state_of(clusters, values, weights, each) for each in (1, parts))
    assert clusters_of(whole) == clusters_of(parted)
    sums, others = ([exact_sum(limbs) for limbs in state["limbs"].reshape(-1, LIMBS)] for state in (whole, parted))
    assert sums == others


def test_too_few_clusters_and_values_or_weights_that_sums_cannot_hold_have_no_error():
    one, none, two = np.array([3, 3]), np.array([[math.nan], [math.nan]]), np.array([1, 2])
    found = [clusters_of(state_of(one, values))[0] for values in (np.array([[0.5], [1.0]]), none)]
    found += [clusters_of(state_of(two, np.array([[large], [1.0]])))[0] for large in (math.inf, 1e200)]
    assert [each.n for each in found] == [1, 0, 2, 2]
    values = np.random.default_rng(3).random((40, 1))
    weights = (1e-170, 1e-120, 1e-60, 1e60)
    found += [clusters_of(state_of(np.arange(40) // 4, values, np.full(40, each)))[0] for each in weights]
    assert all(math.isnan(each.standard_error) for each in found)


def test_equal_values_have_no_spread_and_no_design_effect():
    found = clusters_of(state_of(np.repeat(np.arange(20), 5), np.full((100, 1), 0.1)))[0]
    assert (found.standard_error, found.acceleration, math.isnan(found.design_effect(0.0))) == (0, 0, True)


def compared(clusters, values, baseline, *, replicates=0, parts=1):
    """Models against a baseline on users in clusters; values are users × columns."""
    users, sides, states = PairedAccumulator(values.shape[1]), paired_sides(values.T, baseline.T).T, []
    users.add(clusters, values.T, baseline.T)
    for part in np.array_split(np.unique(clusters), parts):
        rows, signs = np.isin(clusters, part), PairedClusters(values.shape[1], replicates=replicates)
        signs.add(sums_by_cluster(clusters[rows], starts_of(clusters[rows]), sides[rows]))
        states.append(signs.state())
    state, of_clusters = users.state(), merged(states)
    return [
        comparison_of(column(state, place), cluster_state=column(of_clusters, place))
        for place in range(values.shape[1])
    ]


def test_a_comparison_has_the_error_of_clusters_and_its_lift_ends_where_their_test_begins_to_reject():
    clusters, values, baseline = *users()[:2], users(seed=2)[1] + 20.0
    for place, found in enumerate(compared(clusters, values, baseline)):
        differences = values[:, place] - baseline[:, place]
        mean, error, df = precision_of(differences, clusters)
        assert found.n == np.sum(~np.isnan(differences))
        assert (found.difference, found.standard_error) == pytest.approx((mean, error), rel=1e-9)
        assert found.p_t == pytest.approx(2 * stats.t.sf(abs(mean) / error, df), rel=1e-6)
        reach = stats.t.ppf(0.975, df) * error
        assert found.interval[:2] == pytest.approx((mean - reach, mean + reach), rel=1e-6)
        margin = abs(mean) - error
        assert found.p_beyond(margin) == pytest.approx(2 * stats.t.sf(1, df), rel=1e-6)
        for end in found.lift_at(0.95)[1:3]:
            rest, error, _ = precision_of(differences - end * baseline[:, place], clusters)
            assert abs(rest) == pytest.approx(stats.t.ppf(0.975, df) * error, rel=1e-6)


def test_differences_that_cancel_within_every_cluster_are_no_difference():
    baseline = np.tile([0.3, 0.4, 0.5], 40)[:, None]
    found = compared(np.repeat(np.arange(40), 3), baseline + np.tile([0.1, 0.2, -0.3], 40)[:, None], baseline)[0]
    assert found.p_t == 1


def test_few_clusters_get_every_sign():
    """The randomisation test of clusters by brute force."""
    clusters, values, baseline = *users(n_clusters=9, seed=3)[:2], users(n_clusters=9, seed=8)[1]
    for place, found in enumerate(compared(clusters, values, baseline)):
        sums = sizes_of(clusters, np.nan_to_num(values[:, place] - baseline[:, place]))
        signs = np.array([*itertools.product([-1, 1], repeat=len(sums))])
        expected = (np.abs(signs @ sums) >= abs(sums.sum()) - 1e-9).mean()
        assert (found.p_is_exact, found.p_sign_flip) == (True, pytest.approx(expected))
        assert found.least_p == 2.0 ** (1 - len(sums))


def test_drawn_signs_are_those_of_clusters_whatever_the_parts():
    clusters, values, baseline = *users()[:2], users(seed=2)[1]
    first, again = (compared(clusters, values, baseline, replicates=999, parts=parts) for parts in (1, 9))
    assert repr(first) == repr(again)
    for found in first:
        assert not found.p_is_exact
        assert found.p_sign_flip == pytest.approx(found.p_t, abs=0.06)
    # Users who are clusters have the signs of users.
    _, values, baseline = *users(400)[:2], users(400, seed=2)[1]
    alone = PairedAccumulator(3, replicates=99)
    alone.add(np.arange(400), values.T, baseline.T)
    for place, found in enumerate(compared(np.arange(400), values, baseline, replicates=99)):
        expected = comparison_of(column(alone.state(), place))
        for name in ("p_sign_flip", "p_t", "wins", "n_moved"):
            assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-9)
        assert found.interval[:2] == pytest.approx(expected.interval[:2], rel=1e-9)


def test_pairs_of_models_have_the_error_of_clusters():
    """With clusters of one size it is the residual mean square of clusters and models, as without clusters that of users and models."""
    random, clusters = np.random.default_rng(6), np.repeat(np.arange(40), 5)
    values = random.random((200, 3)) + random.normal(size=(40, 3))[clusters]
    blocks, users_alone = (AllPairsAccumulator(1, 3) for _ in range(2))
    blocks.add(np.arange(40), values.reshape(40, 5, 3).mean(axis=1).T[None])
    users_alone.add(clusters, values.T[None])
    differences = np.stack([values[:, b] - values[:, a] for a, b in itertools.combinations(range(3), 2)], axis=1)
    by_block = all_pairs_of(column(blocks.state()))
    found = all_pairs_of(column(users_alone.state()), clusters=clusters_of(state_of(clusters, differences)))
    for pair, expected in zip(found, by_block, strict=True):
        assert (pair.error, pair.p_tukey) == pytest.approx((expected.error, expected.p_tukey), rel=1e-6)
        assert (pair.df, pair.n, pair.n_clusters) == (expected.df, 200, 40)


@pytest.mark.parametrize("of", ["household", "weight"])
def test_two_users_of_a_household_or_one_of_another_weight_change_a_share_nearly_not_at_all(of):
    """Of 100 users with some hits the interval stays that of Clopper and Pearson."""
    n, counts = 100, np.arange(1, 12)
    hits = (np.random.default_rng(12).permuted(np.tile(np.arange(n)[:, None], len(counts)), axis=0) < counts) * 1.0
    weights = np.where(np.arange(n) == 0, 1.01, 1.0) if of == "weight" else None
    options = DescriptionOptions("t", quantiles=(), weighted=weights is not None, clustered=weights is None)
    accumulator = DescriptionAccumulator(len(counts), options)
    accumulator.add(list(hits.T), None, weights)
    clusters = clusters_of(state_of(np.maximum(np.arange(n) - 1, 0), hits)) if weights is None else None
    for count, found in zip(counts, descriptions_of(accumulator.state(), options, clusters), strict=True):
        interval = adjusted_interval(found.interval, found.moments, (0, 1), found.weighted, found.clusters)
        assert interval.method == "clopper_pearson"
        assert interval[:2] == pytest.approx(clopper_pearson_interval(count, n, 0.95), abs=0.015)


@pytest.mark.parametrize(("n_clusters", "most", "method"), [(20, 1, "clopper_pearson"), (20, 2, "t"), (90, 1, "t")])
def test_values_from_0_to_1_of_few_clusters_have_the_interval_of_a_share_that_is_as_precise(n_clusters, most, method):
    random = np.random.default_rng(9)
    clusters = np.repeat(np.arange(n_clusters), random.integers(1, 6, n_clusters))
    values = np.clip(random.random(len(clusters)) + random.normal(0, 0.2, n_clusters)[clusters], 0, 1)
    (found,), all_users = clusters_of(state_of(clusters, values[:, None])), moments(values)
    interval = adjusted_interval(mean_interval(all_users, clusters=found), all_users, (0, most), None, found)
    mean, error, df = precision_of(values, clusters)
    t_of_users, t_of_clusters = stats.t.ppf(0.975, [len(values) - 1, df])
    ends = (mean - t_of_clusters * error, mean + t_of_clusters * error)
    if method == "clopper_pearson":
        n = mean * (1 - mean) / error**2 * (t_of_users / t_of_clusters) ** 2
        hits = mean * n
        ends = (stats.beta.ppf(0.025, hits, n - hits + 1), stats.beta.ppf(0.975, hits + 1, n - hits))
    # So many clusters with a value at the larger bound may be missing.
    unseen = (1 - 0.025 ** (1 / found.effective_n)) * (most - mean)
    assert interval.method == method
    assert interval[:2] == pytest.approx((ends[0], max(ends[1], mean + unseen)), rel=1e-9)


GIANT = np.repeat(np.arange(4), [60, 1, 1, 1])
TOO_FEW = "the 4 clusters are as good as 1.1 equal ones, too few for an interval"
NEEDS_50 = "the 49 clusters are as good as 49.0 equal ones, and a bootstrap needs 50: use ci='t'"


@pytest.mark.parametrize(("clusters", "method", "reason"), [
    (GIANT, "t", TOO_FEW),
    (GIANT, "percentile", TOO_FEW),
    (np.arange(2 * 49) // 2, "percentile", NEEDS_50),
    (np.arange(2 * 50) // 2, "percentile", ""),
])  # fmt: skip
def test_few_clusters_or_one_that_has_nearly_everybody_give_no_interval(clusters, method, reason):
    values = np.random.default_rng(5).random(len(clusters))
    options = DescriptionOptions(method, clustered=True, replicates=100)
    accumulator = DescriptionAccumulator(1, options)
    accumulator.add([values], clusters)
    (found,) = descriptions_of(accumulator.state(), options, clusters_of(state_of(clusters, values[:, None])))
    assert found.interval.reason == reason


def test_comparisons_of_clusters_of_which_one_has_nearly_everybody_have_no_interval():
    values, baseline = np.random.default_rng(1).random((2, 63, 1))
    comparison = compared(GIANT, values, baseline)[0]
    assert (comparison.interval.reason, math.isnan(comparison.p_t)) == (TOO_FEW, True)
    assert (comparison.p_sign_flip >= 1 / 8, math.isnan(comparison.p_beyond(0.1))) == (True, True)
    group = Group("DE", moments(values[:, 0]), None, (0, 1), "", clusters_of(state_of(GIANT, values))[0])
    assert difference_of(group, group).interval(0.95).reason == f"DE: {TOO_FEW}"
    pairs = AllPairsAccumulator(1, 2)
    pairs.add(GIANT, np.stack([values[:, 0], baseline[:, 0]])[None])
    (pair,) = all_pairs_of(column(pairs.state()), clusters=clusters_of(state_of(GIANT, baseline - values)))
    assert (pair.interval.reason, math.isnan(pair.p_of("tukey"))) == (TOO_FEW, True)
