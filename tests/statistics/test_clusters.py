"""Cluster-robust precision of means: statsmodels' on random data, and the same bits for every way of parting the clusters."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import statsmodels.api as sm
from helpers.descriptions import descriptions_of, moments
from oracles.clusters import correction, degrees_of_freedom, effective_n, sizes_of
from scipy import stats

from spark_rankeval.statistics.all_pairs import AllPairsAccumulator, all_pairs_of
from spark_rankeval.statistics.cluster_sums import ClusterAccumulator, clusters_of, sums_by_cluster
from spark_rankeval.statistics.description import DescriptionAccumulator, DescriptionOptions, t_interval_of
from spark_rankeval.statistics.distributions import clopper_pearson_interval
from spark_rankeval.statistics.independent_groups import Group, difference_of
from spark_rankeval.statistics.intervals import adjusted_interval
from spark_rankeval.statistics.moments import merged
from spark_rankeval.statistics.paired import PairedAccumulator, PairedClusters, comparison_of, paired_sides
from spark_rankeval.statistics.sums import LIMBS, MeanAccumulator, exact_sum, mean_of
from spark_rankeval.statistics.sums import degrees_of_freedom as exact_degrees_of_freedom


def test_degrees_of_freedom_are_a_double_even_if_they_are_whole():
    """A column of doubles takes no whole number."""
    df = exact_degrees_of_freedom(Fraction(100), Fraction(100))
    assert df == 99
    assert isinstance(df, float)


def users(n_users=3000, n_clusters=70, seed=1):
    """Sorted clusters, values of three columns with NaN and a shared part in each cluster, and weights."""
    random = np.random.default_rng(seed)
    clusters = np.sort(random.integers(0, n_clusters, n_users))
    values = random.random((n_users, 3)) * [1.0, 30.0, 1e-4] + random.normal(size=n_clusters)[clusters, None]
    values[random.random(values.shape) < 0.1] = np.nan
    return clusters, values, random.exponential(size=n_users)


def starts_of(clusters):
    return np.flatnonzero(np.append(True, clusters[1:] != clusters[:-1]))


def state_of(clusters, values, weights=None, *, parts=1, cubes=True):
    """The state of clusters that are divided into parts."""
    states = []
    for part in np.array_split(np.unique(clusters), parts):
        rows = np.isin(clusters, part)
        accumulator = ClusterAccumulator(values.shape[1], cubes=cubes)
        given = None if weights is None else np.broadcast_to(weights.reshape(len(values), -1), values.shape)[rows]
        if rows.any():
            accumulator.add(sums_by_cluster(clusters[rows], starts_of(clusters[rows]), values[rows], given))
        states.append(accumulator.state())
    return merged(states)


@pytest.mark.parametrize("is_weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("n_clusters", [2, 7, 70, 2500])
def test_errors_are_those_of_statsmodels_but_for_the_correction(n_clusters, is_weighted):
    clusters, values, weights = users(n_clusters=n_clusters)
    weights = weights if is_weighted else None
    for column, found in enumerate(clusters_of(state_of(clusters, values, weights))):
        used = ~np.isnan(values[:, column])
        model = sm.WLS(values[used, column], np.ones(used.sum()), 1.0 if weights is None else weights[used])
        fitted = model.fit(cov_type="cluster", cov_kwds={"groups": clusters[used]})
        assert found.n == len(np.unique(clusters[used]))
        sizes = sizes_of(clusters[used], None if weights is None else weights[used])
        assert found.standard_error == pytest.approx(fitted.bse[0] * correction(sizes), rel=1e-9)
        assert (found.effective_n, found.df) == pytest.approx((effective_n(sizes), degrees_of_freedom(sizes)))


def test_a_quotient_of_sums_has_weights_of_its_own_in_each_column():
    clusters, values, weights = users()
    each = np.stack([weights, weights**2, np.ones(len(weights))], axis=1)
    together = clusters_of(state_of(clusters, values, each))
    for column in range(3):
        alone = clusters_of(state_of(clusters, values[:, [column]], each[:, column]))
        assert together[column] == alone[0]


def test_clusters_of_one_user_say_what_users_say():
    _, values, weights = users(400)
    for given in (None, weights):
        found = clusters_of(state_of(np.arange(400), values, given))
        for column in range(3):
            accumulator = MeanAccumulator(1, weighted=True)
            accumulator.add(0, values[:, column], np.ones(400) if given is None else given)
            mean = mean_of({name: entries[0] for name, entries in accumulator.state().items()})
            assert found[column].n == mean.n
            sizes = np.ones(mean.n) if given is None else given[~np.isnan(values[:, column])]
            assert (found[column].effective_n, found[column].df) == pytest.approx((mean.effective_n, mean.df))
            assert found[column].standard_error == pytest.approx(mean.standard_error * correction(sizes), rel=1e-12)
            assert found[column].acceleration == pytest.approx(mean.acceleration, rel=1e-9)
            assert found[column].design_effect(mean.standard_error) == pytest.approx(correction(sizes) ** 2)


def test_the_acceleration_is_that_of_the_jackknife_of_clusters():
    """It is half of the skewness of the influences over their number's root (Efron 1987, 6.6), up to terms of order 1/G."""
    clusters, values, _ = users(n_clusters=300, seed=4)
    column = values[:, 0]
    means = np.array([np.nanmean(column[clusters != each]) for each in np.unique(clusters)])
    influence = means.mean() - means
    jackknife = (influence**3).sum() / (6 * (influence**2).sum() ** 1.5)
    assert clusters_of(state_of(clusters, values))[0].acceleration == pytest.approx(jackknife, rel=0.05)


@pytest.mark.parametrize("parts", [2, 9, 200])
def test_no_way_of_parting_clusters_changes_a_bit(parts):
    clusters, values, weights = users()
    whole, parted = state_of(clusters, values, weights), state_of(clusters, values, weights, parts=parts)
    assert clusters_of(whole) == clusters_of(parted)
    assert [exact_sum(sums) for sums in whole["limbs"].reshape(-1, LIMBS)] == [
        exact_sum(sums) for sums in parted["limbs"].reshape(-1, LIMBS)
    ]


def test_other_columns_do_not_change_the_sums_of_one():
    clusters, values, weights = users()
    starts = starts_of(clusters)
    together = sums_by_cluster(clusters, starts, values, np.repeat(weights[:, None], 3, axis=1))
    alone = sums_by_cluster(clusters, starts, values[:, [1]], weights[:, None])
    assert np.array_equal(together.values[:, [1]], alone.values)


def test_too_few_or_too_large_clusters_have_no_error():
    one, none = np.array([3, 3]), np.array([[math.nan], [math.nan]])
    found = clusters_of(state_of(one, np.array([[0.5], [1.0]])))[0]
    assert (found.n, found.standard_error) == (1, pytest.approx(math.nan, nan_ok=True))
    assert clusters_of(state_of(one, none))[0].n == 0
    for large in (math.inf, 1e200):
        found = clusters_of(state_of(np.array([1, 2]), np.array([[large], [1.0]])))[0]
        assert found.n == 2
        assert math.isnan(found.standard_error)


@pytest.mark.parametrize("weight", [1e-170, 1e-120, 1e-60, 1e60])
def test_weights_that_sums_cannot_hold_give_no_error(weight):
    values = np.random.default_rng(3).random((40, 1))
    found = clusters_of(state_of(np.arange(40) // 4, values, np.full(40, weight)))[0]
    assert math.isnan(found.standard_error)


def test_differences_that_cancel_within_every_cluster_are_no_difference():
    baseline = np.tile([0.3, 0.4, 0.5], 40)[:, None]
    found = compared(np.repeat(np.arange(40), 3), baseline + np.tile([0.1, 0.2, -0.3], 40)[:, None], baseline)[0]
    assert found.p_t == 1


def test_equal_values_have_no_spread_and_no_design_effect():
    found = clusters_of(state_of(np.repeat(np.arange(20), 5), np.full((100, 1), 0.1)))[0]
    assert (found.standard_error, found.acceleration) == (0, 0)
    assert math.isnan(found.design_effect(0.0))


def compared(clusters, values, baseline, *, replicates=0, parts=1):
    """Models against a baseline on users in clusters; values are users × columns."""
    users = PairedAccumulator(values.shape[1])
    users.add(clusters, values.T, baseline.T)
    sides = paired_sides(values.T, baseline.T).T
    states = []
    for part in np.array_split(np.unique(clusters), parts):
        rows = np.isin(clusters, part)
        signs = PairedClusters(values.shape[1], replicates=replicates)
        signs.add(sums_by_cluster(clusters[rows], starts_of(clusters[rows]), sides[rows]))
        states.append(signs.state())
    state, of_clusters = users.state(), merged(states)
    return [
        comparison_of(
            {name: entries[column] for name, entries in state.items()},
            cluster_state={name: entries[column] for name, entries in of_clusters.items()},
        )
        for column in range(values.shape[1])
    ]


def test_a_comparison_has_the_error_of_clusters_and_as_many_degrees_of_freedom():
    clusters, values, baseline = *users()[:2], users(seed=2)[1]
    for column, found in enumerate(compared(clusters, values, baseline)):
        difference = values[:, column] - baseline[:, column]
        used = ~np.isnan(difference)
        model = sm.OLS(difference[used], np.ones(used.sum()))
        fitted = model.fit(cov_type="cluster", cov_kwds={"groups": clusters[used]}, use_t=True)
        assert found.difference == pytest.approx(fitted.params[0], rel=1e-9)
        sizes = sizes_of(clusters[used])
        error, df = fitted.bse[0] * correction(sizes), degrees_of_freedom(sizes)
        assert found.standard_error == pytest.approx(error, rel=1e-9)
        assert found.p_t == pytest.approx(2 * stats.t.sf(abs(found.difference) / error, df), rel=1e-6)
        reach = stats.t.ppf(0.975, df) * error
        ends = (found.difference - reach, found.difference + reach)
        assert (found.interval.low, found.interval.high) == pytest.approx(ends, rel=1e-6)
        beyond = 2 * stats.t.sf(abs(abs(found.difference) - 0.001) / error, df)
        assert found.p_beyond(0.001) == pytest.approx(beyond, rel=1e-6)
        assert found.n == used.sum()


def test_the_lift_of_clusters_ends_where_their_test_begins_to_reject():
    clusters, values, baseline = *users()[:2], users(seed=2)[1] + 20.0
    for column, found in enumerate(compared(clusters, values, baseline)):
        lift = found.lift_at(0.95)
        difference = values[:, column] - baseline[:, column]
        used = ~np.isnan(difference)
        sizes = sizes_of(clusters[used])
        critical = stats.t.ppf(0.975, degrees_of_freedom(sizes))
        for end in (lift.low, lift.high):
            rest = difference[used] - end * baseline[used, column]
            model = sm.OLS(rest, np.ones(used.sum()))
            fitted = model.fit(cov_type="cluster", cov_kwds={"groups": clusters[used]}, use_t=True)
            assert abs(fitted.params[0]) == pytest.approx(critical * fitted.bse[0] * correction(sizes), rel=1e-6)


def test_few_clusters_get_every_sign():
    """The randomisation test of clusters by brute force."""
    clusters, values, baseline = *users(n_clusters=9, seed=3)[:2], users(n_clusters=9, seed=8)[1]
    for column, found in enumerate(compared(clusters, values, baseline)):
        difference = np.nan_to_num(values[:, column] - baseline[:, column])
        sums = np.array([difference[clusters == each].sum() for each in np.unique(clusters)])
        signs = np.array(list(itertools.product([-1, 1], repeat=len(sums))))
        expected = (np.abs(signs @ sums) >= abs(sums.sum()) - 1e-9).mean()
        assert found.p_is_exact
        assert found.p_sign_flip == pytest.approx(expected)
        assert found.least_p == 2.0 ** (1 - len(sums))


def test_drawn_signs_are_those_of_clusters_whatever_the_parts():
    clusters, values, baseline = *users()[:2], users(seed=2)[1]
    first = compared(clusters, values, baseline, replicates=999)
    again = compared(clusters, values, baseline, replicates=999, parts=9)
    assert [repr(each) for each in first] == [repr(each) for each in again]
    for found in first:
        assert not found.p_is_exact
        assert found.p_sign_flip == pytest.approx(found.p_t, abs=0.06)


def test_users_who_are_clusters_compare_as_users_do():
    _, values, baseline = users(400)[0], users(400)[1], users(400, seed=2)[1]
    alone = PairedAccumulator(3, replicates=99)
    alone.add(np.arange(400), values.T, baseline.T)
    state = alone.state()
    for column, found in enumerate(compared(np.arange(400), values, baseline, replicates=99)):
        expected = comparison_of({name: entries[column] for name, entries in state.items()})
        assert found.p_sign_flip == expected.p_sign_flip
        assert found.p_t == pytest.approx(expected.p_t, rel=1e-9)
        assert (found.wins, found.n_moved) == (expected.wins, expected.n_moved)
        assert found.interval.low == pytest.approx(expected.interval.low, rel=1e-9)


def test_pairs_of_models_have_the_error_of_clusters():
    """With clusters of one size it is the residual mean square of clusters and models, as without clusters that of users and models."""
    random = np.random.default_rng(6)
    clusters = np.repeat(np.arange(40), 5)
    values = random.random((200, 3)) + random.normal(size=(40, 3))[clusters]
    means = values.reshape(40, 5, 3).mean(axis=1)
    blocks, users_alone = (AllPairsAccumulator(1, 3) for _ in range(2))
    blocks.add(np.arange(40), means.T[None])
    users_alone.add(clusters, values.T[None])
    pairs = []
    for first, second in itertools.combinations(range(3), 2):
        difference = values[:, [second]] - values[:, [first]]
        accumulator = ClusterAccumulator(1)
        accumulator.add(sums_by_cluster(clusters, starts_of(clusters), difference))
        pairs += clusters_of(accumulator.state())
    by_block = all_pairs_of({name: entries[0] for name, entries in blocks.state().items()})
    found = all_pairs_of({name: entries[0] for name, entries in users_alone.state().items()}, clusters=pairs)
    for pair, expected in zip(found, by_block, strict=True):
        assert pair.error == pytest.approx(expected.error, rel=1e-9)
        assert (pair.df, pair.n, pair.n_clusters) == (expected.df, 200, 40)
        assert pair.p_tukey == pytest.approx(expected.p_tukey, rel=1e-6)


@pytest.mark.parametrize("of", ["household", "weight"])
def test_two_users_of_a_household_or_one_of_another_weight_change_a_share_nearly_not_at_all(of):
    """100 users with hits at a rate of 0.05: the interval stays that of Clopper and Pearson, which holds the rate."""
    runs, n = 500, 100
    hits = (np.random.default_rng(12).random((n, runs)) < 0.05).astype(float)
    hits = hits[:, (hits.sum(axis=0) > 0)]
    weights = np.where(np.arange(n) == 0, 1.01, 1.0) if of == "weight" else None
    options = DescriptionOptions("t", quantiles=(), weighted=weights is not None, clustered=weights is None)
    accumulator = DescriptionAccumulator(hits.shape[1], options)
    accumulator.add(list(hits.T), None, weights)
    homes = np.maximum(np.arange(n) - 1, 0)
    clusters = clusters_of(state_of(homes, hits)) if weights is None else None
    n_held = 0
    for count, found in zip(hits.sum(axis=0), descriptions_of(accumulator.state(), options, clusters), strict=True):
        interval = adjusted_interval(found.interval, found.moments, (0, 1), found.weighted, found.clusters)
        alone = clopper_pearson_interval(count, n, 0.95)
        assert interval.method == "clopper_pearson"
        assert (interval.low, interval.high) == pytest.approx(alone, abs=0.015)
        n_held += interval.low <= 0.05 <= interval.high
    assert n_held / hits.shape[1] > 0.95


@pytest.mark.parametrize(
    ("n_clusters", "bounds", "method"), [(20, (0, 1), "clopper_pearson"), (20, (0, 2), "t"), (90, (0, 1), "t")]
)
def test_values_from_0_to_1_of_few_clusters_have_the_interval_of_a_share_that_is_as_precise(n_clusters, bounds, method):
    random = np.random.default_rng(9)
    clusters = np.repeat(np.arange(n_clusters), random.integers(1, 6, n_clusters))
    values = np.clip(random.random((len(clusters), 1)) + random.normal(0, 0.2, n_clusters)[clusters, None], 0, 1)
    (found,) = clusters_of(state_of(clusters, values))
    all_users = moments(values[:, 0])
    interval = adjusted_interval(t_interval_of(all_users, None, 0.95, found), all_users, bounds, None, found)
    sizes = sizes_of(clusters)
    mean, error = values.mean(), found.standard_error
    t_of_users, t_of_clusters = stats.t.ppf(0.975, [len(values) - 1, degrees_of_freedom(sizes)])
    ends = (mean - t_of_clusters * error, mean + t_of_clusters * error)
    if method == "clopper_pearson":
        n = mean * (1 - mean) / error**2 * (t_of_users / t_of_clusters) ** 2
        hits = mean * n
        ends = (stats.beta.ppf(0.025, hits, n - hits + 1), stats.beta.ppf(0.975, hits + 1, n - hits))
    assert interval.method == method
    assert (interval.low, interval.high) == pytest.approx(ends, rel=1e-9)


GIANT = np.repeat(np.arange(4), [60, 1, 1, 1])
TOO_FEW = "the 4 clusters are as good as 1.1 equal ones, too few for an interval"


def test_clusters_of_which_one_has_nearly_everybody_give_no_interval():
    random = np.random.default_rng(1)
    values, baseline = random.random((63, 1)), random.random((63, 1))
    clusters = clusters_of(state_of(GIANT, values))
    for options, words in (
        (DescriptionOptions("t", clustered=True), TOO_FEW),
        (DescriptionOptions("percentile", clustered=True, replicates=100), TOO_FEW),
    ):
        accumulator = DescriptionAccumulator(1, options)
        accumulator.add([values[:, 0]], np.arange(63))
        (found,) = descriptions_of(accumulator.state(), options, clusters)
        assert found.interval.reason == words
    comparison = compared(GIANT, values, baseline)[0]
    assert (comparison.interval.reason, math.isnan(comparison.p_t)) == (TOO_FEW, True)
    assert comparison.p_sign_flip >= 1 / 8
    assert math.isnan(comparison.p_beyond(0.1))
    group = Group("DE", moments(values[:, 0]), None, (0, 1), "", clusters[0])
    assert difference_of(group, group).interval(0.95).reason == f"DE: {TOO_FEW}"
    pairs = AllPairsAccumulator(1, 2)
    pairs.add(GIANT, np.stack([values[:, 0], baseline[:, 0]])[None])
    state = {name: entries[0] for name, entries in pairs.state().items()}
    (pair,) = all_pairs_of(state, clusters=clusters_of(state_of(GIANT, baseline - values)))
    assert (pair.interval.reason, math.isnan(pair.p_of("tukey"))) == (TOO_FEW, True)


@pytest.mark.parametrize(
    ("n_clusters", "reason"),
    [(49, "the 49 clusters are as good as 49.0 equal ones, and a bootstrap needs 50: use ci='t'"), (50, "")],
)
def test_a_bootstrap_needs_clusters_as_good_as_50_equal_ones(n_clusters, reason):
    values = np.random.default_rng(5).random((2 * n_clusters, 1))
    clusters = np.arange(2 * n_clusters) // 2
    options = DescriptionOptions("percentile", clustered=True, replicates=100)
    accumulator = DescriptionAccumulator(1, options)
    accumulator.add([values[:, 0]], clusters)
    (found,) = descriptions_of(accumulator.state(), options, clusters_of(state_of(clusters, values)))
    assert found.interval.reason == reason
