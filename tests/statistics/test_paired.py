import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from helpers.descriptions import column
from scipy import stats

from spark_rankeval.statistics.moments import merged
from spark_rankeval.statistics.paired import TIE, PairedAccumulator, comparison_of
from spark_rankeval.statistics.relative_lift import lift_of

RNG = np.random.default_rng(101)
N = 400


def state_of(values, baseline, users=None, replicates=9999, parts=1, seed=0):
    values, baseline = np.atleast_2d(values), np.atleast_2d(baseline)
    users = np.arange(values.shape[1]) if users is None else users
    accumulator = PairedAccumulator(len(values), replicates=replicates, seed=seed)
    for part in np.array_split(np.arange(len(users)), parts):
        accumulator.add(users[part], values[:, part], baseline[:, part])
    return accumulator.state()


def compare(values, baseline, level=0.95, **options):
    return comparison_of(column(state_of(np.asarray(values, float), np.asarray(baseline, float), **options)), level)


def bits(comparison):
    return repr(comparison)


PAIRS = {
    "shares": (RNG.random(N) + 0.03, RNG.random(N)),
    "hits in five": (RNG.integers(0, 6, N) / 5, RNG.integers(0, 6, N) / 5),
    "gains": (RNG.exponential(size=N) * 300, RNG.exponential(size=N) * 270),
    "a small shift": ((base := RNG.random(N)) + RNG.normal(1e-4, 1e-3, N), base),
    "few users": (RNG.random(6), RNG.random(6)),
}
ALL_VALUES = pytest.mark.parametrize(("values", "baseline"), PAIRS.values(), ids=PAIRS)


def test_another_seed_flips_other_signs():
    one, other = (state_of(*PAIRS["shares"], replicates=50, seed=seed) for seed in (1, 2))
    assert np.count_nonzero(one["heads_ones"] != other["heads_ones"]) > 40
    assert np.array_equal(one["total_fraction"], other["total_fraction"])


@ALL_VALUES
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_the_paired_t_test_and_its_interval_are_scipys(values, baseline, level):
    result = compare(values, baseline, level, replicates=9)
    expected = stats.ttest_rel(values, baseline)
    assert result.t == pytest.approx(expected.statistic, rel=1e-10)
    assert result.p_t == pytest.approx(expected.pvalue, rel=1e-10)
    ends = expected.confidence_interval(level)
    assert (result.interval.low, result.interval.high) == pytest.approx((ends.low, ends.high), rel=1e-9)


@ALL_VALUES
def test_the_figures_of_a_comparison(values, baseline):
    result = compare(values, baseline, replicates=9)
    difference = values - baseline
    assert result.n == len(values)
    assert (result.mean, result.baseline_mean) == pytest.approx((values.mean(), baseline.mean()), rel=1e-12)
    assert result.difference == pytest.approx(difference.mean(), rel=1e-10)
    assert result.relative_lift == pytest.approx(difference.mean() / baseline.mean(), rel=1e-10)
    assert result.std == pytest.approx(difference.std(ddof=1), rel=1e-10)
    assert result.standard_error == pytest.approx(stats.sem(difference), rel=1e-10)
    assert result.cohens_d == pytest.approx(difference.mean() / difference.std(ddof=1), rel=1e-10)
    assert (result.wins, result.losses) == ((difference > 1e-12).sum(), (difference < -1e-12).sum())
    assert result.wins + result.ties + result.losses == result.n


@ALL_VALUES
def test_the_sign_flip_test_is_scipys_permutation_test_within_its_noise(values, baseline):
    result = compare(values, baseline)
    expected = stats.permutation_test(
        (values - baseline,), np.mean, permutation_type="samples", n_resamples=9999, vectorized=True, rng=3
    ).pvalue
    assert result.p_sign_flip == pytest.approx(expected, abs=5 * math.sqrt(2 * 0.25 / 10_000))
    assert result.p_sign_flip == pytest.approx(expected, abs=5 * math.sqrt(2 * expected / 10_000) + 2e-4)


def every_sign_p(difference):
    """The p-value over all signs, in whole numbers."""
    total = abs(sum(difference))
    sums = [
        abs(sum(s * d for s, d in zip(signs, difference, strict=True)))
        for signs in itertools.product((-1, 1), repeat=len(difference))
    ]
    return sum(each >= total for each in sums) / len(sums)


def few_values():
    """Precision at 5 of two models on 14 users: many sums of signed differences are equal."""
    rng = np.random.default_rng(5)
    return rng.integers(0, 6, 14), rng.integers(0, 6, 14)


def test_equal_sums_count_as_equal_whatever_their_rounding():
    ours, theirs = few_values()
    exact = every_sign_p([int(a) - int(b) for a, b in zip(ours, theirs, strict=True)])
    for scale in (5, 3, 7, 0.01):
        result = compare(ours / scale, theirs / scale, replicates=50_000)
        assert result.p_sign_flip == pytest.approx(exact, abs=4 * math.sqrt(exact / 50_000))


def naive_p(difference, n_parts, flips):
    """The same test with float sums, a partition at a time."""
    parts = np.array_split(np.arange(len(difference)), n_parts)

    def total(signs):
        result = np.zeros(len(signs))
        for part in parts:
            result += np.cumsum(signs[:, part] * difference[part], axis=1)[:, -1]
        return result

    observed = abs(total(np.ones((1, len(difference))))[0])
    return (np.count_nonzero(np.abs(total(flips)) >= observed) + 1) / (len(flips) + 1)


def test_float_sums_would_move_p_with_the_partitions_and_ours_do_not():
    rng = np.random.default_rng(8)
    ours, theirs = rng.integers(0, 6, 24) / 5, rng.integers(0, 6, 24) / 5
    flips = rng.choice([-1.0, 1.0], (9999, 24))
    naive = {naive_p(ours - theirs, n_parts, flips) for n_parts in (1, 2, 3, 5, 8, 24)}
    assert max(naive) - min(naive) > 0.01
    assert len({compare(ours, theirs, parts=n_parts).p_sign_flip for n_parts in (1, 2, 3, 5, 8, 24)}) == 1


@pytest.mark.parametrize("n_parts", [2, 29])
def test_no_split_and_no_order_changes_a_bit(n_parts):
    values = np.where(RNG.random((5, N)) < 0.1, np.nan, RNG.normal(size=(5, N)) * [[1e-6], [1], [1], [1000], [1e7]])
    baseline = np.where(RNG.random((5, N)) < 0.1, np.nan, RNG.normal(size=(5, N)) * [[1e-6], [1], [0], [1000], [1e7]])
    users = RNG.integers(-(2**63), 2**63, N)
    whole = state_of(values, baseline, users, replicates=2000)
    order = RNG.permutation(N)
    parted = state_of(values[:, order], baseline[:, order], users[order], replicates=2000, parts=n_parts)
    joined = merged(
        state_of(values[:, part], baseline[:, part], users[part], replicates=2000)
        for part in np.array_split(order, n_parts)
    )
    for index in range(5):
        assert bits(comparison_of(column(parted, index))) == bits(comparison_of(column(whole, index)))
        assert bits(comparison_of(column(joined, index))) == bits(comparison_of(column(whole, index)))


def test_swapping_the_models_turns_the_signs_and_no_p():
    values, baseline = PAIRS["hits in five"]
    one, other = compare(values, baseline), compare(baseline, values)
    assert (one.difference, one.t, one.cohens_d) == (-other.difference, -other.t, -other.cohens_d)
    assert (one.wins, one.ties, one.losses) == (other.losses, other.ties, other.wins)
    assert (one.p_t, one.p_sign_flip) == (other.p_t, other.p_sign_flip)


def test_users_without_a_value_of_both_are_left_out_and_counted():
    values = np.array([0.5, np.nan, 0.25, np.nan, 1.0])
    baseline = np.array([0.25, 0.5, np.nan, np.nan, 0.5])
    result = compare(values, baseline, replicates=99)
    assert (result.n, result.n_undefined) == (2, 3)
    assert (result.mean, result.baseline_mean, result.difference) == (0.75, 0.375, 0.375)


def test_models_that_are_equal_but_for_rounding_are_equal():
    values = RNG.random(200) * 100
    result = compare(values, np.nextafter(values, np.inf), replicates=99)
    assert (result.difference, result.t, result.cohens_d) == (0, 0, 0)
    assert (result.p_t, result.p_sign_flip) == (1, 1)
    assert (result.wins, result.ties, result.losses) == (0, 200, 0)
    assert "no bounds" in result.interval.reason


def test_the_same_difference_of_every_user_has_no_spread():
    result = compare(np.full(30, 0.75), np.full(30, 0.5), replicates=999)
    assert (result.t, result.cohens_d, result.p_t) == (math.inf, math.inf, 2.0**-29)
    assert result.p_sign_flip == pytest.approx(2.0**-29, rel=1e-12)


def test_no_and_one_common_user():
    nobody = compare([np.nan], [0.5], replicates=9)
    assert (nobody.n, nobody.interval.reason) == (0, "no user")
    assert all(math.isnan(figure) for figure in (nobody.difference, nobody.t, nobody.p_t, nobody.p_sign_flip))
    one = compare([0.7], [0.5], replicates=9)
    assert (one.n, one.p_sign_flip, one.interval.reason) == (1, 1, "one user has no spread")
    assert math.isnan(one.p_t)


def test_a_baseline_of_nothing_has_no_lift():
    assert math.isnan(compare([0.5, 0.7], [0.0, 0.0], replicates=9).relative_lift)


@pytest.mark.parametrize("other", [1.0, math.inf, -math.inf])
def test_infinite_values_leave_no_p(other):
    result = compare([1.0, math.inf, 3.0], [0.5, other, 2.0], replicates=9)
    assert result.n == 3
    assert math.isnan(result.p_sign_flip)
    assert math.isnan(result.p_t)


def test_the_exact_sums_are_those_of_fractions():
    values, baseline = PAIRS["hits in five"]
    state = column(state_of(values, baseline, replicates=3))
    exact = sum(
        (Fraction(a) - Fraction(b) for a, b in zip(values.tolist(), baseline.tolist(), strict=True)), Fraction(0)
    )
    total = int(state["total_ones"]) + Fraction(int(state["total_fraction"]), 2**42)
    assert abs(total - exact) <= N * Fraction(1, 2**43)


def test_two_users_who_gain_alike_may_do_so_by_chance():
    pairs = PairedAccumulator(1, replicates=9)
    pairs.add(np.arange(2), np.array([[0.5, 0.75]]), np.array([[0.25, 0.5]]))
    found = comparison_of({name: column[0] for name, column in pairs.state().items()})
    assert (found.p_t, found.p_sign_flip, found.interval.method) == (0.5, 0.5, "t")
    assert not found.interval


def test_differences_far_below_the_units_of_sums_have_their_spread():
    rng = np.random.default_rng(15)
    new = rng.normal(3e-11, 3e-10, 196)
    pairs = PairedAccumulator(1, replicates=9)
    pairs.add(np.arange(196), new[None], np.zeros((1, 196)))
    found = comparison_of({name: column[0] for name, column in pairs.state().items()})
    assert found.p_t == pytest.approx(stats.ttest_1samp(np.where(np.abs(new) <= TIE, 0, new), 0).pvalue, rel=1e-9)


def test_without_replicates_there_is_no_randomisation_test_of_many_users():
    pairs = PairedAccumulator(1, replicates=0)
    pairs.add(np.arange(17), RNG.random((1, 17)), RNG.random((1, 17)))
    assert np.isnan(comparison_of({name: column[0] for name, column in pairs.state().items()}).p_sign_flip)


def test_the_lift_has_fiellers_interval_of_users_and_their_baseline():
    baseline = np.clip(RNG.normal(0.4, 0.2, 60), 0, 1)
    values = np.clip(baseline + RNG.normal(0.05, 0.15, 60), 0, 1)
    moments = np.cov(values - baseline, baseline, ddof=1) / 60
    figures = (values - baseline).mean(), baseline.mean(), moments[0, 0], moments[1, 1], moments[0, 1]
    expected = lift_of(*map(float, figures), 59, 0.9)
    assert compare(values, baseline, replicates=9).lift_at(0.9)[:3] == pytest.approx(expected[:3], rel=1e-9)


def test_a_lift_of_users_who_all_gain_the_same_has_no_interval():
    lift = compare([0.5, 0.7, 0.6], [0.4, 0.6, 0.5], replicates=9).lift_at(0.95)
    assert lift.value == pytest.approx(0.2)
    assert (math.isnan(lift.low), lift.reason) == (True, "all users have the same difference")


@pytest.mark.parametrize(
    ("sign", "bounds", "least_lift"),
    [
        (1, (0, 1), -1),
        (1, (0, math.inf), -1),
        (1, (0.1, 1), -math.inf),
        (1, (-1, 1), -math.inf),
        (-1, (-1, 0), -math.inf),
    ],
)
def test_a_model_loses_at_most_all_of_a_baseline_from_0_up(sign, bounds, least_lift):
    rng = np.random.default_rng(12)
    values, baseline = sign * np.array([*np.zeros(29), 1.0]), sign * rng.beta(2, 2, 30)
    pairs = comparison_of(column(state_of(values, baseline, replicates=9)), 0.999, bounds)
    free = comparison_of(column(state_of(values, baseline, replicates=9)), 0.999).lift_at(0.999)
    assert free.low < -1 if sign > 0 else free.high > 1
    lift = pairs.lift_at(0.999)
    assert lift == free._replace(low=max(free.low, least_lift), high=min(free.high, 1 if sign < 0 else math.inf))


def test_a_model_without_hits_has_no_interval_of_its_lift():
    values, baseline = np.zeros(40), RNG.beta(2, 2, 40)
    result = compare(values, baseline, replicates=9)
    assert result.interval.high < 0
    assert result.lift_at(0.95)[::3] == (pytest.approx(-1), "all users have the same value under the model")


def test_a_lift_of_no_user_says_that_there_is_none():
    assert compare([math.nan], [0.5], replicates=9).lift_at(0.95).reason == "no user"
    assert compare([0.5], [0.0], replicates=9).lift_at(0.95).reason == "the baseline's mean is 0"
