import functools
import itertools
import math

import numpy as np
import pandas as pd
import pytest
from helpers.descriptions import column
from helpers.effort import part_of
from scipy import stats
from statsmodels.formula.api import ols

from spark_rankeval.statistics import all_pairs
from spark_rankeval.statistics.all_pairs import AllPairsAccumulator, all_pairs_of, permuted_sums, rank_sets
from spark_rankeval.statistics.moments import merged
from spark_rankeval.statistics.paired import PairedAccumulator, comparison_of

RNG = np.random.default_rng(141)


@pytest.fixture(scope="module", autouse=True)
def _tails_counted_once():
    """A tail is an integral, of few degrees of freedom a long one, and tests ask for the same ones again."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("studentized_range_critical", "studentized_range_sf"):
            patch.setattr(all_pairs, name, functools.cache(getattr(all_pairs, name)))
        yield


def state_of(values, users=None, parts=1, **options):
    values = np.asarray(values, float)
    values = values[None] if values.ndim == 2 else values
    users = np.arange(values.shape[2]) if users is None else users
    accumulator = AllPairsAccumulator(values.shape[0], values.shape[1], **options)
    for part in np.array_split(np.arange(len(users)), parts):
        accumulator.add(users[part], values[:, :, part])
    return accumulator.state()


def pairs(values, level=0.95, **options):
    return all_pairs_of(column(state_of(values, **options)), level)


def models(n_models, n_users, step=0.02):
    users = RNG.random(n_users)
    return users + RNG.normal(0, 0.2, (n_models, n_users)) + step * np.arange(n_models)[:, None]


def test_the_least_p_of_permuted_labels_is_that_of_the_labels_as_they_are():
    (pair,) = pairs(np.arange(30.0) + np.array([[0.0], [1.0]]), replicates=99)
    assert pair.p_randomised == 1 / 100


@pytest.mark.parametrize(("n_models", "n_users"), part_of([(2, 30), (3, 40), (5, 25)], 2))
def test_blocked_tukey_is_that_of_the_two_way_layout(n_models, n_users):
    values = models(n_models, n_users)
    table = pd.DataFrame(
        {
            "value": values.ravel(),
            "model": np.repeat(np.arange(n_models), n_users),
            "user": np.tile(np.arange(n_users), n_models),
        }
    )
    fit = ols("value ~ C(user) + C(model)", table).fit()
    assert fit.df_resid == (n_users - 1) * (n_models - 1)
    error = math.sqrt(fit.mse_resid / n_users)
    means = values.mean(axis=1)
    found = pairs(values)
    assert [(pair.first, pair.second) for pair in found] == list(itertools.combinations(range(n_models), 2))
    reach = stats.studentized_range.ppf(0.95, n_models, fit.df_resid) * error
    for pair in found:
        difference = means[pair.second] - means[pair.first]
        q = abs(difference) / error
        assert pair.n == n_users
        assert pair.difference == pytest.approx(difference, rel=1e-10)
        assert pair.q == pytest.approx(q, rel=1e-10)
        assert pair.p_tukey == pytest.approx(stats.studentized_range.sf(q, n_models, fit.df_resid), abs=1e-10)
        assert (pair.interval.low, pair.interval.high) == pytest.approx(
            (difference - reach, difference + reach), rel=1e-7, abs=1e-9
        )


def test_of_two_models_blocked_tukey_is_the_paired_t_test():
    values = models(2, 50)
    (pair,) = pairs(values)
    expected = stats.ttest_rel(values[1], values[0])
    ends = expected.confidence_interval(0.95)
    assert pair.p_tukey == pytest.approx(expected.pvalue, rel=1e-10)
    assert (pair.interval.low, pair.interval.high) == pytest.approx((ends.low, ends.high), rel=1e-10)


def test_of_two_models_permuting_labels_is_flipping_signs():
    values = models(2, 60)
    (pair,) = pairs(values, replicates=20_000)
    signs = PairedAccumulator(1, replicates=20_000)
    signs.add(np.arange(60), values[1:], values[:1])
    expected = comparison_of(column(signs.state())).p_sign_flip
    assert pair.p_randomised == pytest.approx(expected, abs=5 * math.sqrt(2 * expected / 20_000))


def every_permutation_p(values):
    """Of all ways to permute every user's values: how often the range is at least each pair's difference."""
    n_models, n_users = values.shape
    ways = list(itertools.permutations(range(n_models)))
    sums = np.array([[0] * n_models])
    for user in range(n_users):
        sums = (sums[:, None] + np.array([[values[way, user] for way in way_of] for way_of in ways])).reshape(
            -1, n_models
        )
    ranges = np.ptp(sums, axis=1)
    totals = values.sum(axis=1)
    return [np.mean(ranges >= abs(totals[b] - totals[a])) for a, b in itertools.combinations(range(n_models), 2)]


def test_randomised_tukey_is_that_of_all_permutations_within_its_noise_and_equal_sums_are_equal():
    values = RNG.integers(0, 6, (3, 7))
    expected = every_permutation_p(values)
    for scale in (1, 5, 7):
        found = [pair.p_randomised for pair in pairs(values / scale, replicates=20_000)]
        assert found == pytest.approx(expected, abs=5 * math.sqrt(0.25 / 20_000))


def test_the_randomised_test_agrees_with_the_blocked_one_where_the_latters_assumptions_hold():
    for pair in pairs(models(4, 300, 0.012), replicates=5000):
        assert pair.p_randomised == pytest.approx(pair.p_tukey, abs=0.03)


def test_every_permutation_is_equally_likely():
    n = 4
    values = 1000.0 ** np.arange(n)
    sums = [permuted_sums(values[None, :, None], np.array([user]), 1000, 0).floats()[0] for user in range(24)]
    labels = np.rint(np.log(np.concatenate(sums, axis=1)) / np.log(1000)).astype(int)
    _, counts = np.unique(labels, axis=1, return_counts=True)
    assert len(counts) == math.factorial(n)
    assert stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("n_parts", [2, 41])
def test_no_split_and_no_order_changes_a_bit(n_parts):
    values = RNG.normal(size=(3, 3, 500)) * np.array([1e-3, 1, 5000])[:, None, None]
    values[RNG.random(values.shape) < 0.05] = np.nan
    users = RNG.integers(-(2**63), 2**63, 500)
    whole = state_of(values, users, replicates=301)
    order = RNG.permutation(500)
    parted = state_of(values[:, :, order], users[order], parts=n_parts, replicates=301)
    joined = merged(
        state_of(values[:, :, part], users[part], replicates=301) for part in np.array_split(order, n_parts)
    )
    for index in range(3):
        assert repr(all_pairs_of(column(parted, index))) == repr(all_pairs_of(column(whole, index)))
        assert repr(all_pairs_of(column(joined, index))) == repr(all_pairs_of(column(whole, index)))


def test_users_without_a_value_under_every_model_are_left_out():
    values = models(3, 20)
    holes = values.copy()
    holes[0, 3], holes[2, 7] = np.nan, np.nan
    complete = np.delete(np.arange(20), [3, 7])
    found, expected = pairs(holes), pairs(values[:, complete], users=complete)
    for pair, other in zip(found, expected, strict=True):
        assert pair.n == 18
        assert (pair.difference, pair.p_tukey) == (other.difference, other.p_tukey)


def test_equal_models_do_not_differ():
    for pair in pairs(np.tile(RNG.random(40), (3, 1)), replicates=99):
        assert (pair.difference, pair.p_tukey, pair.p_randomised) == (0, 1, 1)


def test_few_users_say_so():
    for n_users, reason in ((0, "no user"), (1, "one user has no spread")):
        for pair in pairs(np.ones((3, n_users)), replicates=9):
            assert (pair.n, pair.interval.reason) == (n_users, reason)
            assert math.isnan(pair.p_tukey)


def test_infinite_values_leave_no_p():
    for pair in pairs([[math.inf, *range(40)], range(41)], replicates=9):
        assert pair.interval.reason == "values too large to be compared"
        assert math.isnan(pair.p_tukey)
        assert math.isnan(pair.p_randomised)


def own_spreads(values, bounds=(-math.inf, math.inf), parts=1):
    accumulators = []
    for part in np.array_split(np.arange(values.shape[2]), parts):
        accumulators.append(AllPairsAccumulator(*values.shape[:2], pairwise=True))
        accumulators[-1].add(part, values[:, :, part])
    return all_pairs_of(column(merged(each.state() for each in accumulators)), bounds=bounds)


def test_games_and_howell_take_the_spread_of_each_pair():
    values = RNG.normal(size=(1, 4, 30)) * [[1.0], [2.0], [0.1], [9.0]]
    pairs = own_spreads(values)
    assert repr(own_spreads(values, parts=3)) == repr(pairs)
    for pair in pairs:
        differences = values[0, pair.second] - values[0, pair.first]
        error = differences.std(ddof=1) / math.sqrt(2 * 30)
        q = abs(differences.mean()) / error
        assert pair.q == pytest.approx(q, rel=1e-10)
        assert pair.p_tukey == pytest.approx(stats.studentized_range.sf(q, 4, 29), abs=1e-10)
        reach = stats.studentized_range.isf(0.05, 4, 29) * error
        assert (pair.interval.low, pair.interval.high) == pytest.approx(
            (differences.mean() - reach, differences.mean() + reach), rel=1e-7
        )
        assert pair.interval.method == "games_howell"


@pytest.mark.parametrize("pairwise", [False, True])
def test_the_p_of_a_margin_is_5_percent_where_the_interval_ends_at_it(pairwise):
    values = RNG.normal(size=(1, 3, 40)) + np.array([[0.0], [4.0], [9.0]])
    pairs = own_spreads(values) if pairwise else all_pairs_of(column(state_of(values)))
    for pair in pairs:
        for margin in (pair.interval.low, pair.interval.high):
            assert pair.p_of("tukey", margin) == pytest.approx(0.05, rel=1e-6)
    assert pair.p_of("tukey") == pair.p_tukey


def test_models_that_are_alike_are_not_known_to_be_by_few_users():
    for n_users, p in ((3, 1.0), (2000, 0.0)):
        (pair,) = own_spreads(np.full((1, 2, n_users), 0.5), bounds=(0.0, 1.0))
        others = 1 - 0.025 ** (1 / n_users)
        assert (pair.interval.low, pair.interval.high) == pytest.approx((-others, others))
        assert (pair.p_tukey, pair.interval.method) == (1, "clopper_pearson")
        assert pair.p_of("games_howell", 0.1) == pytest.approx(p, abs=1e-9)


def test_users_who_all_gain_alike_are_no_certainty():
    (pair,) = own_spreads(np.array([[[0.5] * 3, [0.75] * 3]]))
    assert pair.p_tukey == 0.25
    assert "no bounds" in pair.interval.reason


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
    of_all = own_spreads(values[None])
    means = values.mean(axis=1).tolist()
    assert rank_sets(of_all, means, larger_is_better=larger_is_better) == naive_ranks(of_all, means, larger_is_better)


def test_sets_of_ranks_hold_what_is_not_known():
    steps = np.array([[0.0], [0.5], [0.5], [9.0]])
    one_tie = pairs(np.tile(RNG.normal(size=(1, 30)), (4, 1)) + RNG.normal(0, 0.01, (4, 30)) + steps)
    assert [(lowest, highest) for _, lowest, highest in rank_sets(one_tie, [0.0, 0.5, 0.5, 9.0])] == [
        (4, 4), (2, 3), (2, 3), (1, 1),
    ]  # fmt: skip
    assert [each.rank for each in rank_sets(one_tie, [0.0, 0.5, 0.5, 9.0])] == [4, 2, 2, 1]
    nobody = pairs(np.full((3, 4), math.nan))
    assert rank_sets(nobody, [math.nan] * 3) == [(0, 1, 3)] * 3
