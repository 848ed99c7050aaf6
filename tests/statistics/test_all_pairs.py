"""All pairs of models: the two-way layout of statsmodels, all permutations of few users, and sets of ranks by counting."""

import functools
import itertools
import math

import numpy as np
import pandas as pd
import pytest
from helpers.descriptions import column
from scipy import stats
from statsmodels.formula.api import ols

from spark_rankeval.statistics import comparisons
from spark_rankeval.statistics.comparisons import AllPairsAccumulator, all_pairs_of, permuted_sums, rank_sets
from spark_rankeval.statistics.exact import merged
from spark_rankeval.statistics.intervals import UNBOUNDED, UNKNOWN_MEAN
from spark_rankeval.statistics.resampling import floats_of

RNG = np.random.default_rng(141)


@pytest.fixture(scope="module", autouse=True)
def _tails_counted_once():
    """A tail is an integral, of few degrees of freedom a long one, and tests ask for the same ones again."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("studentized_range_critical", "studentized_range_sf"):
            patch.setattr(comparisons, name, functools.cache(getattr(comparisons, name)))
        yield


def state_of(values, users=None, parts=1, **options):
    values = np.asarray(values, float)
    values = values[None] if values.ndim == 2 else values
    users = np.arange(values.shape[2]) if users is None else users
    accumulator = AllPairsAccumulator(values.shape[0], values.shape[1], **options)
    for part in np.array_split(np.arange(len(users)), parts):
        accumulator.add(users[part], values[:, :, part])
    return accumulator.state()


def pairs(values, bounds=UNBOUNDED, pairwise=False, **options):
    return all_pairs_of(column(state_of(values, **options)), bounds=bounds, pairwise=pairwise)


def models(n_models, n_users, step=0.02):
    users = RNG.random(n_users)
    return users + RNG.normal(0, 0.2, (n_models, n_users)) + step * np.arange(n_models)[:, None]


def assert_pair(pair, difference, error, n_models, df):
    q = abs(difference) / error
    reach = stats.studentized_range.isf(0.05, n_models, df) * error
    assert (pair.difference, pair.q, pair.df) == pytest.approx((difference, q, df), rel=1e-10)
    assert pair.p_tukey == pytest.approx(stats.studentized_range.sf(q, n_models, df), abs=1e-10)
    assert pair.interval[:2] == pytest.approx((difference - reach, difference + reach), rel=1e-7, abs=1e-9)


def test_blocked_tukey_is_that_of_the_two_way_layout():
    n_models, n_users = 3, 40
    values = models(n_models, n_users)
    users, numbers = np.tile(np.arange(n_users), n_models), np.repeat(np.arange(n_models), n_users)
    fit = ols(
        "value ~ C(user) + C(model)", pd.DataFrame({"value": values.ravel(), "model": numbers, "user": users})
    ).fit()
    assert fit.df_resid == (n_users - 1) * (n_models - 1)
    found, means = pairs(values), values.mean(axis=1)
    assert [(pair.first, pair.second) for pair in found] == [*itertools.combinations(range(n_models), 2)]
    for pair in found:
        assert (pair.n, pair.interval.method) == (n_users, "tukey")
        assert_pair(pair, means[pair.second] - means[pair.first], math.sqrt(fit.mse_resid / n_users), 3, fit.df_resid)


def test_games_and_howell_take_the_spread_of_each_pair():
    values = RNG.normal(size=(4, 60)) * [[1.0], [2.0], [0.1], [9.0]]
    for pair in pairs(values, pairwise=True):
        differences = values[pair.second] - values[pair.first]
        assert_pair(pair, differences.mean(), differences.std(ddof=1) / math.sqrt(2 * 60), 4, 59)
        assert pair.interval.method == "games_howell"


def every_permutation_p(values):
    """Of all ways to permute every user's values: how often the range is at least each pair's difference."""
    n_models, n_users = values.shape
    ways = np.array([*itertools.permutations(range(n_models))])
    sums = np.zeros((1, n_models), np.int64)
    for user in range(n_users):
        sums = (sums[:, None] + values[ways, user]).reshape(-1, n_models)
    totals = values.sum(axis=1)
    return [
        np.mean(np.ptp(sums, axis=1) >= abs(totals[b] - totals[a]))
        for a, b in itertools.combinations(range(n_models), 2)
    ]


def test_randomised_tukey_is_that_of_all_permutations_within_its_noise_and_equal_sums_are_equal():
    values = RNG.integers(0, 6, (3, 7))
    found = {scale: [pair.p_randomised for pair in pairs(values / scale, replicates=20_000)] for scale in (1, 5, 7)}
    assert found[1] == found[5] == found[7]
    assert found[1] == pytest.approx(every_permutation_p(values), abs=5 * math.sqrt(0.25 / 20_000))
    (pair,) = pairs(np.arange(30.0) + np.array([[0.0], [1.0]]), replicates=99)
    assert pair.p_randomised == 1 / 100


def test_every_permutation_is_equally_likely():
    n = 4
    values = 1000.0 ** np.arange(n)
    sums = [floats_of(permuted_sums(values[None, :, None], np.array([user]), 1000, 0))[0] for user in range(24)]
    labels = np.rint(np.log(np.concatenate(sums, axis=1)) / np.log(1000)).astype(int)
    _, counts = np.unique(labels, axis=1, return_counts=True)
    assert (len(counts), stats.chisquare(counts).pvalue > 1e-4) == (math.factorial(n), True)


@pytest.mark.parametrize("n_parts", [2, 41])
def test_no_split_and_no_order_changes_a_bit(n_parts):
    values = RNG.normal(size=(3, 3, 500)) * np.array([1e-3, 1, 5000])[:, None, None]
    values[RNG.random(values.shape) < 0.05] = np.nan
    users, order = RNG.integers(-(2**63), 2**63, 500), RNG.permutation(500)
    options = {"replicates": 301}
    whole = state_of(values, users, **options)
    parted = state_of(values[:, :, order], users[order], parts=n_parts, **options)
    joined = merged(state_of(values[:, :, part], users[part], **options) for part in np.array_split(order, n_parts))
    for index, state, pairwise in itertools.product(range(3), (parted, joined), (False, True)):
        found, expected = (repr(all_pairs_of(column(each, index), pairwise=pairwise)) for each in (state, whole))
        assert found == expected


def test_users_without_a_value_under_every_model_are_left_out():
    values = models(3, 20)
    holes = values.copy()
    holes[0, 3], holes[2, 7] = np.nan, np.nan
    complete = np.delete(np.arange(20), [3, 7])
    assert repr(pairs(holes, replicates=9)) == repr(pairs(values[:, complete], users=complete, replicates=9))


def test_equal_models_do_not_differ_and_few_or_infinite_users_say_so():
    for pair in pairs(np.tile(RNG.random(40), (3, 1)), replicates=99):
        assert (pair.difference, pair.p_tukey, pair.p_randomised) == (0, 1, 1)
    for n_users, reason in ((0, "no user"), (1, "one user has no spread")):
        for pair in pairs(np.ones((3, n_users)) * [[0.1], [0.2], [0.3]], replicates=9):
            assert (pair.n, pair.interval.reason, math.isnan(pair.p_tukey)) == (n_users, reason, True)
            assert all(math.isnan(p) or p == 1 for p in (pair.p_of("tukey", 0.1), pair.p_of("randomised", 0.1)))
    (infinite,) = pairs([[math.inf, *range(40)], range(41)], replicates=9)
    assert infinite.interval.reason == "values too large to be compared"
    assert (math.isnan(infinite.p_tukey), math.isnan(infinite.p_randomised)) == (True, True)
    (close,) = pairs([np.zeros(50), 1 + 1e-9 * RNG.standard_normal(50)], pairwise=True)
    assert (math.isnan(close.p_tukey), close.interval.reason) == (True, UNKNOWN_MEAN)


@pytest.mark.parametrize("pairwise", [False, True])
def test_the_p_of_a_margin_is_5_percent_where_the_interval_ends_at_it(pairwise):
    for pair in pairs(RNG.normal(size=(3, 40)) + np.array([[0.0], [4.0], [9.0]]), pairwise=pairwise):
        for margin in pair.interval[:2]:
            assert pair.p_of("tukey", margin) == pytest.approx(0.05, rel=1e-6)
    assert pair.p_of("tukey") == pair.p_tukey


def test_models_that_are_alike_are_not_known_to_be_by_few_users():
    for n_users, p in ((3, 1.0), (2000, 0.0)):
        (pair,) = pairs(np.full((2, n_users), 0.5), bounds=(0.0, 1.0), pairwise=True)
        others = 1 - 0.025 ** (1 / n_users)
        assert pair.interval[:2] == pytest.approx((-others, others))
        assert (pair.p_tukey, pair.interval.method) == (1, "clopper_pearson")
        assert pair.p_of("games_howell", 0.1) == pytest.approx(p, abs=1e-9)
    (gain,) = pairs([[0.5] * 3, [0.75] * 3], pairwise=True)
    assert gain.p_tukey == 0.25
    assert "no bounds" in gain.interval.reason


def test_few_users_who_differ_far_more_make_the_interval_of_their_pair_longer():
    differences = np.zeros(100)
    differences[:3] = 1
    for pairwise in (False, True):
        (plain,) = pairs([np.zeros(100), differences], bounds=(0.0, 1.0), pairwise=pairwise)
        reach = 1 - differences.mean()
        t, n, variance = stats.t.isf(0.025, 99), 100, differences.var(ddof=1)
        x = t**2 * reach / n / 2 + math.sqrt((t**2 * reach / n / 2) ** 2 + t**2 * variance / n)
        assert plain.interval.high == pytest.approx(0.03 + x, rel=1e-6)
        assert plain.p_of("tukey", plain.interval.high) == pytest.approx(0.05, rel=1e-6)


def naive_ranks(pairs, means, larger_is_better):
    """Each model's rank, and its set by counting models."""
    ranks = []
    for model, mean in enumerate(means):
        # How far the model is ahead of each other one, as an interval.
        ahead = {pair.first: (pair.interval.low, pair.interval.high) for pair in pairs if pair.second == model}
        ahead |= {pair.second: (-pair.interval.high, -pair.interval.low) for pair in pairs if pair.first == model}
        above, below = sum(low > 0 for low, _ in ahead.values()), sum(high < 0 for _, high in ahead.values())
        before, after = (below, above) if larger_is_better else (above, below)
        better = sum(other > mean if larger_is_better else other < mean for other in means)
        ranks.append((1 + better, 1 + before, len(means) - after))
    return ranks


@pytest.mark.parametrize("larger_is_better", [True, False])
@pytest.mark.parametrize("step", [0.0, 0.05, 0.5])
def test_sets_of_ranks_are_those_of_counting(step, larger_is_better):
    values = models(5, 40, step)[RNG.permutation(5)]
    of_all, means = pairs(values, pairwise=True), values.mean(axis=1).tolist()
    assert rank_sets(of_all, means, larger_is_better=larger_is_better) == naive_ranks(of_all, means, larger_is_better)


def test_sets_of_ranks_hold_what_is_not_known():
    steps, means = np.array([[0.0], [0.5], [0.5], [9.0]]), [0.0, 0.5, 0.5, 9.0]
    tied = pairs(np.tile(RNG.normal(size=(1, 30)), (4, 1)) + RNG.normal(0, 0.01, (4, 30)) + steps)
    assert rank_sets(tied, means) == [(4, 4, 4), (2, 2, 3), (2, 2, 3), (1, 1, 1)]
    assert rank_sets(pairs(np.full((3, 4), math.nan)), [math.nan] * 3) == [(0, 1, 3)] * 3
