"""Paired comparisons and lifts: scipy's t test and Fieller's ends, signs counted or drawn; few users are no surer than they can show."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from helpers.descriptions import column
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from spark_rankeval.statistics.comparisons import TIE, PairedAccumulator, comparison_of, verdict_of
from spark_rankeval.statistics.exact import merged
from spark_rankeval.statistics.intervals import UNBOUNDED, lift_of

RNG = np.random.default_rng(101)
N, SHARE = 400, (0.0, 1.0)


def state_of(values, baseline, users=None, replicates=0, parts=1, seed=0):
    values, baseline = (np.atleast_2d(np.asarray(each, float)) for each in (values, baseline))
    users = np.arange(values.shape[1]) if users is None else users
    accumulator = PairedAccumulator(len(values), replicates=replicates, seed=seed)
    for part in np.array_split(np.arange(len(users)), parts):
        accumulator.add(users[part], values[:, part], baseline[:, part])
    return accumulator.state()


def compare(values, baseline, level=0.95, bounds=UNBOUNDED, **options):
    return comparison_of(column(state_of(values, baseline, **options)), level, bounds)


def word(comparison, margin=0.0):
    p, _ = comparison.p_of("sign_flip", margin)
    return verdict_of(comparison.interval, p, margin=margin, difference=comparison.difference).word


PAIRS = {
    "shares": (RNG.random(N) + 0.03, RNG.random(N)),
    "hits in five": (RNG.integers(0, 6, N) / 5, RNG.integers(0, 6, N) / 5),
    "gains": (RNG.exponential(size=N) * 300, RNG.exponential(size=N) * 270),
    "a small shift": ((base := RNG.random(N)) + RNG.normal(1e-4, 1e-3, N), base),
    "few users": (RNG.random(6), RNG.random(6)),
}
ALL_VALUES = pytest.mark.parametrize(("values", "baseline"), PAIRS.values(), ids=PAIRS)


@ALL_VALUES
def test_the_figures_of_a_comparison_are_scipys(values, baseline):
    difference, n = values - baseline, len(values)
    expected = stats.ttest_rel(values, baseline)
    for level in (0.9, 0.95):
        result = compare(values, baseline, level)
        assert result.interval[:2] == pytest.approx(expected.confidence_interval(level), rel=1e-9)
    std = difference.std(ddof=1)
    assert result.p_t == pytest.approx(expected.pvalue, rel=1e-10)
    assert (result.mean, result.baseline_mean) == pytest.approx((values.mean(), baseline.mean()), rel=1e-12)
    found = result.difference, result.std, result.standard_error, result.cohens_d
    assert found == pytest.approx((difference.mean(), std, std / math.sqrt(n), difference.mean() / std), rel=1e-10)
    wins, losses = (difference > 1e-12).sum(), (difference < -1e-12).sum()
    assert (result.n, result.wins, result.losses, result.ties) == (n, wins, losses, n - wins - losses)
    # The lift is Fieller's, of the moments of users and their baseline.
    moments = np.cov(difference, baseline, ddof=1) / n
    figures = difference.mean(), baseline.mean(), moments[0, 0], moments[1, 1], moments[0, 1]
    lift = lift_of(*map(float, figures), n - 1, 0.9)
    assert result.lift_at(0.9)[:3] == pytest.approx(lift[:3], rel=1e-9, nan_ok=True)
    assert result.relative_lift == pytest.approx(difference.mean() / baseline.mean(), rel=1e-10)
    other = compare(baseline, values)
    assert (other.difference, other.cohens_d) == (-result.difference, -result.cohens_d)
    assert (other.wins, other.losses, other.p_t) == (result.losses, result.wins, result.p_t)


def every_sign_p(difference):
    signs = np.array([*itertools.product((-1, 1), repeat=len(difference))])
    return np.mean(np.abs(signs @ difference) >= abs(difference.sum()) - 1e-9)


@pytest.mark.parametrize("n_users", [1, 2, 3, 7, 11])
def test_the_signs_of_few_users_are_all_counted(n_users):
    values, baseline = RNG.integers(0, 6, (2, n_users)) / 5
    result = compare(values, baseline)
    assert result.p_is_exact
    assert result.p_sign_flip == every_sign_p(values - baseline)
    parts = [
        state_of(values[part], baseline[part], part) for part in np.array_split(np.arange(n_users), min(n_users, 3))
    ]
    assert repr(comparison_of(column(merged(parts)))) == repr(result)


@pytest.mark.parametrize("name", ["shares", "hits in five", "gains"])
def test_many_users_draw_signs(name):
    values, baseline = PAIRS[name]
    result, signs = compare(values, baseline, replicates=9999), RNG.choice([-1.0, 1.0], (9999, N))
    difference = values - baseline
    expected = (np.abs(signs @ difference) >= abs(difference.sum()) - 1e-9).mean()
    assert not result.p_is_exact
    assert result.p_sign_flip == pytest.approx(expected, abs=5 * math.sqrt(2 * expected / 10_000) + 2e-4)
    assert compare(baseline, values, replicates=9999).p_sign_flip == result.p_sign_flip
    one, other = (state_of(values, baseline, replicates=50, seed=seed) for seed in (1, 2))
    assert np.count_nonzero(one["heads"][:, 0] != other["heads"][:, 0]) > 40
    assert np.array_equal(one["total"][:, 1], other["total"][:, 1])
    assert math.isnan(compare(values, baseline).p_sign_flip)


def test_equal_sums_of_drawn_signs_are_equal_whatever_their_rounding_and_parts():
    """Precision at 5 of two models on 24 users: many sums of signed differences are equal."""
    rng = np.random.default_rng(8)
    ours, theirs = rng.integers(0, 6, (2, 24))
    cases = itertools.product((1, 5, 3, 7, 0.01), (1, 3, 24))
    assert len({compare(ours / of, theirs / of, replicates=2000, parts=n).p_sign_flip for of, n in cases}) == 1


@pytest.mark.parametrize("n_parts", [2, 29])
def test_no_split_and_no_order_changes_a_bit(n_parts):
    sizes = np.array([1e-6, 1, 1, 1000, 1e7])[:, None]
    values, baseline = (np.where(RNG.random((5, N)) < 0.1, np.nan, RNG.normal(size=(5, N)) * sizes) for _ in range(2))
    baseline[2] *= 0
    users, order = RNG.integers(-(2**63), 2**63, N), RNG.permutation(N)
    whole = state_of(values, baseline, users, 1100)
    parted = state_of(values[:, order], baseline[:, order], users[order], 1100, n_parts)
    parts = np.array_split(order, n_parts)
    joined = merged(state_of(values[:, part], baseline[:, part], users[part], 1100) for part in parts)
    for index, state in itertools.product(range(5), (parted, joined)):
        assert repr(comparison_of(column(state, index))) == repr(comparison_of(column(whole, index)))


def test_users_without_a_value_of_both_are_left_out_and_counted():
    result = compare([0.5, np.nan, 0.25, np.nan, 1.0], [0.25, 0.5, np.nan, np.nan, 0.5])
    assert (result.n, result.n_undefined) == (2, 3)
    assert (result.mean, result.baseline_mean, result.difference) == (0.75, 0.375, 0.375)


def test_models_that_are_equal_but_for_rounding_are_equal():
    values = RNG.random(200) * 100
    result = compare(values, np.nextafter(values, np.inf), replicates=99)
    assert (result.difference, result.cohens_d, result.p_t, result.p_sign_flip) == (0, 0, 1, 1)
    assert (result.wins, result.ties, result.losses) == (0, 200, 0)
    assert "no bounds" in result.interval.reason


def test_no_and_one_common_user_and_infinite_values():
    nobody, one = compare([np.nan], [0.5], replicates=9), compare([0.7], [0.5], replicates=9)
    assert (nobody.n, nobody.interval.reason, nobody.lift_at(0.95).reason) == (0, "no user", "no user")
    assert all(map(math.isnan, (nobody.difference, nobody.p_t, nobody.p_sign_flip)))
    assert (one.n, one.p_sign_flip, math.isnan(one.p_t)) == (1, 1, True)
    assert one.interval.reason == "one user has no spread"
    for other in (1.0, math.inf, -math.inf):
        result = compare([1.0, math.inf, 3.0], [0.5, other, 4.0], replicates=9)
        assert (result.n, result.wins, result.losses) == (3, 2 - (other == math.inf), 1)
        assert (math.isnan(result.p_sign_flip), math.isnan(result.p_t)) == (True, True)


def test_the_exact_sums_are_those_of_fractions():
    values, baseline = PAIRS["hits in five"]
    state = column(state_of(values, baseline))
    pairs = zip(values.tolist(), baseline.tolist(), strict=True)
    exact = sum((Fraction(a) - Fraction(b) for a, b in pairs), Fraction())
    ones, fraction = state["total"].tolist()
    total = ones + Fraction(fraction, 2**42)
    assert abs(total - exact) <= N * Fraction(1, 2**43)


def test_differences_far_below_the_units_of_sums_have_their_spread():
    new = np.random.default_rng(15).normal(3e-11, 3e-10, 196)
    expected = stats.ttest_1samp(np.where(np.abs(new) <= TIE, 0, new), 0).pvalue
    assert compare(new, np.zeros(196)).p_t == pytest.approx(expected, rel=1e-9)


def test_sixteen_users_who_differ_are_few_and_more_are_not_unless_all_differ_by_as_much():
    few = RNG.random(40)
    few[16:] = 0
    assert compare(few, np.zeros(40)).p_sign_flip == 2.0**-15
    few[16] = 0.5
    assert math.isnan(compare(few, np.zeros(40)).p_sign_flip)
    assert not compare(few, np.zeros(40), replicates=99).p_is_exact
    hits = np.repeat([1.0, -1.0, 0.0], [200, 150, 900])
    p = compare(np.maximum(hits, 0), np.maximum(-hits, 0)).p_sign_flip
    assert p == pytest.approx(stats.binomtest(200, 350).pvalue, rel=1e-10)
    # Shares of hits that differ by a fifth, but for rounding.
    fifths = compare(np.repeat([0.6, 0.4, 0.2], 8), np.repeat([0.4, 0.2, 0.0], 8))
    assert (fifths.p_sign_flip, fifths.std) == (pytest.approx(2.0**-23), 0)


@pytest.mark.parametrize("n_users", [2, 3, 5, 30])
def test_few_users_who_gain_alike_are_no_proof(n_users):
    result, p = compare([1.0] * n_users, [0.0] * n_users, bounds=SHARE), 2.0 ** (1 - n_users)
    assert (result.cohens_d, result.p_t) == (math.inf, p)
    assert result.p_sign_flip == pytest.approx(p)
    assert {word(result), word(result, 0.01), word(result, 0.5)} == {"better" if n_users == 30 else "undecided"}
    # All users won, or all lost: the interval of a share, of −1 and 1.
    expected = stats.binomtest(n_users, n_users).proportion_ci(0.95, "exact")
    assert result.interval[:2] == pytest.approx((2 * expected.low - 1, 1.0))
    unbounded = compare([3.0] * n_users, [2.0] * n_users, bounds=(0.0, math.inf))
    assert "no bounds" in unbounded.interval.reason
    assert word(unbounded, 0.5) == "undecided"
    assert unbounded.lift_at(0.95).reason == "all users have the same difference"


def test_users_who_do_not_differ_are_alike_only_if_they_are_many():
    for n_users, expected in ((3, "undecided"), (1000, "no relevant difference")):
        same = compare([0.5] * n_users, [0.5] * n_users, bounds=SHARE)
        assert (same.p_t, same.p_sign_flip, word(same), word(same, 0.01)) == (1, 1, "undecided", expected)


def test_a_p_beyond_the_margin_is_5_percent_where_the_interval_ends_at_it():
    users = np.array([0.5, 0.2])[:, None] + RNG.random((2, 40)) / 4
    for result in (compare(*users, bounds=SHARE), compare([0.3] * 40, [0.0] * 40, bounds=SHARE)):
        assert result.interval.low > 0
        for margin in result.interval[:2]:
            assert result.p_beyond(margin) == pytest.approx(0.05, rel=1e-9)
    assert result.p_of("t", 0.5)[0] == result.p_beyond(0.5)


def test_who_is_better_by_more_than_a_margin_is_better():
    result = compare([0.9, 0.8, 0.9, 0.85] * 3, [0.1, 0.0, 0.1, 0.06] * 3, bounds=SHARE)
    assert result.p_beyond(0.1) < 0.01
    assert result.p_of("sign_flip", 0.1) == (result.p_beyond(0.1), result.interval.method)
    # Few drawn signs show less than the distance from the margin does.
    many = compare(0.5 + RNG.random(40) / 4, np.full(40, 0.1), replicates=99, bounds=SHARE)
    assert many.p_beyond(0.1) < 1e-5
    assert many.p_of("sign_flip", 0.1) == (0.01, "sign_flip")


def test_a_drawn_p_below_the_resolution_is_that_of_t_and_no_less_than_signs_can_give():
    ours, theirs = RNG.random((2, 60))
    result = compare(ours + 1, theirs, replicates=99, bounds=(0, 2))
    assert result.p_of("sign_flip") == (0.01, "sign_flip")
    interval_p = result.p_beyond(0.0)
    assert result.p_of("sign_flip", resolution=0.01) == (interval_p, "clopper_pearson")
    assert max(result.p_t, 2.0**-59) < interval_p
    for replicates in (99, 0):
        narrow = compare(0.5 + ours[:17] / 1e6, [0.0] * 17, replicates=replicates)
        assert narrow.p_t < 1e-50
        assert narrow.p_of("sign_flip", resolution=0.01) == (2.0**-16, "t")
        assert narrow.p_of("t") == (narrow.p_t, "t")
    # A drawn p stands where that of t is not smaller.
    outlier = compare(np.append(RNG.random(20) / 100 + 0.01, 50.0), np.zeros(21), replicates=99)
    assert outlier.p_sign_flip == 0.01 < outlier.p_t
    assert outlier.p_of("sign_flip", resolution=0.01) == (outlier.p_beyond(0.0), "score")


def test_a_large_value_of_both_models_is_no_tolerance():
    ours, theirs = RNG.random((2, 200)) + np.array([[0.3], [0.0]])
    without = compare(ours, theirs, replicates=999)
    result = compare(np.append(ours, 1e15), np.append(theirs, 1e15), replicates=999)
    assert result.p_sign_flip == without.p_sign_flip == 0.001


@pytest.mark.parametrize("n", [2, 10, 29])
def test_few_users_who_nearly_agree_are_no_certainty_within_a_margin(n):
    """Others who gain a lot may not be among them: what few users with one value can show is the least p."""
    baseline = np.linspace(0.2, 0.8, n)
    nearly = compare(baseline + np.linspace(0, 1e-4, n), baseline, bounds=SHARE)
    alike = compare(baseline + 5e-5, baseline, bounds=SHARE)
    assert nearly.std > 0 == alike.std
    assert nearly.p_beyond(0.05) == pytest.approx(alike.p_beyond(0.05), rel=1e-3)
    assert nearly.p_beyond(0.05) > 0.4
    # Values without bounds have no such least p.
    assert compare(baseline + np.linspace(0, 1e-4, n), baseline, bounds=(0, math.inf)).p_beyond(0.05) < 0.01


@pytest.mark.parametrize(("sign", "bounds", "least_lift"), [
    (1, (0, 1), -1),
    (1, (0, math.inf), -1),
    (1, (0.1, 1), -math.inf),
    (1, (-1, 1), -math.inf),
    (-1, (-1, 0), -math.inf),
])  # fmt: skip
def test_a_model_loses_at_most_all_of_a_baseline_from_0_up(sign, bounds, least_lift):
    rng = np.random.default_rng(12)
    values, baseline = sign * np.array([*np.zeros(29), 1.0]), sign * rng.beta(2, 2, 30)
    free = compare(values, baseline, 0.999).lift_at(0.999)
    assert free.low < -1 if sign > 0 else free.high > 1
    lift = compare(values, baseline, 0.999, bounds).lift_at(0.999)
    assert lift == free._replace(low=max(free.low, least_lift), high=min(free.high, 1 if sign < 0 else math.inf))


def test_lifts_without_an_interval_say_why_and_have_the_sign_of_the_difference():
    nothing = compare(np.zeros(40), RNG.beta(2, 2, 40))
    assert nothing.interval.high < 0
    assert nothing.lift_at(0.95)[::3] == (pytest.approx(-1), "all users have the same value under the model")
    for values in ([0.5], [0.5, 0.7]):
        lift = compare(values, np.zeros(len(values))).lift_at(0.95)
        assert (math.isnan(lift.value), lift.reason) == (True, "the baseline's mean is 0")
    assert compare([-0.1, -0.2], [-0.4, -0.2], bounds=(-1.0, 1.0)).relative_lift == pytest.approx(0.5)


FINITE = st.floats(-3, 3).map(lambda value: round(value, 3))


def lift_from_users(model, baseline, level=0.95):
    difference = model - baseline
    variances = np.cov(difference, baseline, ddof=1) / len(model)
    moments = variances[0, 0], variances[1, 1], variances[0, 1]
    return lift_of(difference.mean(), baseline.mean(), *map(float, moments), len(model) - 1, level)


def t_test_rejects(values, level):
    """Whether the t test rejects that values have the mean 0."""
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    return abs(np.mean(values)) > stats.t.ppf((1 + level) / 2, len(values) - 1) * error


@settings(max_examples=60, derandomize=True)
@given(st.lists(st.tuples(FINITE, FINITE), min_size=3, max_size=12), st.sampled_from([0.5, 0.8, 0.95, 0.99]))
def test_the_ends_are_where_the_test_begins_to_reject(users, level):
    model, baseline = np.array(users).T
    baseline = baseline + 2.0
    # The test below is of baselines above 0; the next test mirrors them.
    assume(baseline.mean() > 1e-3)
    lift = lift_from_users(model, baseline, level)
    assume(min(map(np.std, (model, baseline, model - (1 + lift.value) * baseline))) > 1e-5)
    assert lift.value == pytest.approx((model.mean() - baseline.mean()) / baseline.mean())
    if not t_test_rejects(baseline, level):
        assert (math.isnan(lift.low), "not clearly different from 0" in lift.reason) == (True, True)
        return
    assert lift.low <= lift.value <= lift.high
    step = 1e-6 * max(1.0, lift.high - lift.low)
    rejected = [
        t_test_rejects(model - (1 + end) * baseline, level)
        for end in (lift.low - step, lift.low + step, lift.high - step, lift.high + step)
    ]
    assert rejected == [True, False, False, True]


def test_a_negative_baseline_gains_when_the_model_is_larger():
    baseline = np.array([-2.0, -1.0, -1.5, -2.5])
    model = baseline + np.array([0.5, 0.25, 0.5, 0.75])
    lift, mirrored = lift_from_users(model, baseline), lift_from_users(-model, -baseline)
    assert lift.value == pytest.approx(0.5 / 1.75)
    assert (lift.low, lift.high) == pytest.approx((-mirrored.high, -mirrored.low))
    assert lift.low > 0


@pytest.mark.parametrize(("figures", "reason"), [
    ((0.1, 0.0, 0.1, 0.1, 0.0, 9), "the baseline's mean is 0"),
    ((0.1, math.nan, 0.1, 0.1, 0.0, 9), "unknown"),
    ((0.1, 1.0, math.nan, 0.1, 0.0, 9), "unknown"),
    ((0.1, 1.0, 0.1, 0.1, 0.0, 0), "unknown"),
    ((0.1, 0.1, 0.1, 0.1, 0.0, 9), "not clearly different from 0"),
    ((-0.9, 1.0, 0.01, 0.01, -0.01, 9), "all users have the same value under the model"),
    ((-0.25, 1.0, 0.000625, 0.01, -0.0025, 9), "all users have the same ratio of both values"),
])  # fmt: skip
def test_a_lift_without_an_interval_says_why(figures, reason):
    lift = lift_of(*figures)
    assert np.isnan([lift.low, lift.high]).all()
    assert reason in lift.reason


def test_a_lift_keeps_its_bounds():
    figures = (-0.9, 1.0, 0.04, 0.01, 0.0, 9)
    free, bounded = lift_of(*figures), lift_of(*figures, bounds=(-1.0, math.inf))
    assert free.low < -1
    assert bounded == free._replace(low=-1.0)
    assert lift_of(*figures, bounds=(-math.inf, free.value)).high == free.value


# --- few users who differ far more than others


def far_end(difference, side):
    """The end of an interval: the farthest x where x² = t² · (variance at x) / n, by bisection."""
    n, mean = len(difference), difference.mean()
    reach = (difference.max() - mean) if side > 0 else mean - difference.min()
    variance, t = difference.var(ddof=1), stats.t.isf(0.025, n - 1)
    low, high = 0.0, 10.0
    for _ in range(200):
        x = (low + high) / 2
        low, high = (x, high) if x**2 < t**2 * (variance + reach * x) / n else (low, x)
    return mean + side * low


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.03])
@pytest.mark.parametrize(("n", "n_moved", "gain"), [(100, 1, 1.0), (1000, 3, 1.0), (100, 2, -0.475), (60, 4, 0.3)])
def test_an_interval_reaches_further_on_the_side_of_few_who_differ_far_more(n, n_moved, gain, noise):
    difference = np.random.default_rng(3).normal(0.0, noise, n)
    difference[:n_moved] += gain
    result, plain = compare(difference, np.zeros(n)), stats.ttest_1samp(difference, 0.0).confidence_interval()
    side = int(gain > 0)
    assert result.interval[side] == pytest.approx(far_end(difference, 2 * side - 1), rel=1e-9)
    assert result.interval[1 - side] == pytest.approx(plain[1 - side], rel=1e-9)
    assert result.interval.method == "score"


def test_of_a_share_the_further_end_is_about_that_of_wilson():
    hits = np.zeros(1000)
    hits[:3] = 1
    wilson = stats.binomtest(3, 1000).proportion_ci(0.95, "wilson")
    assert compare(hits, np.zeros(1000), bounds=SHARE).interval.high == pytest.approx(wilson.high, rel=0.01)


@pytest.mark.parametrize(("n", "n_losers"), [(20, 0), (60, 1), (100, 1), (100, 2)])
def test_that_nearly_all_gain_a_little_is_no_proof_if_few_may_lose_much(n, n_losers):
    """95% gain 0.025 and 5% lose 0.475: the true difference is 0. Signs alone are sure, because symmetry is what they need."""
    difference = 0.025 + np.random.default_rng(4).normal(0, 0.005, n)
    difference[:n_losers] = -0.475
    result = compare(difference, np.zeros(n), replicates=999, bounds=SHARE)
    assert min(result.p_t, result.p_sign_flip) < 0.05
    assert (word(result), result.p_of("sign_flip")[0] > 0.05) == ("undecided", True)


def test_many_who_differ_are_no_few():
    assert compare(*RNG.random((2, 60))).interval.method == "t"
    gains = np.zeros(1000)
    gains[:100] = RNG.random(100)
    assert compare(gains, np.zeros(1000)).interval.method == "t"


def test_a_lift_reaches_as_far_as_its_difference():
    baseline, gains = np.random.default_rng(6).beta(4, 4, 60), np.zeros(60)
    gains[:6] = [0.05, 0.1, 0.02, 0.3, 0.04, 0.03]
    result = compare(baseline + gains, baseline)
    assert result.lift_at(0.95).high == pytest.approx(result.interval.high / baseline.mean())
