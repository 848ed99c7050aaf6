"""Estimates from few human grades and many by a model, differences of two models under them, and which queries people grade.

Estimates are those of the definition, and careful where people graded few queries.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles.prediction_powered import by_definition, estimate
from scipy import stats

from spark_rankeval.errors import OptionError
from spark_rankeval.statistics.distributions import clopper_pearson_interval
from spark_rankeval.statistics.intervals import UNKNOWN_MEAN
from spark_rankeval.statistics.judged_queries import Bin, JudgedQueries, drawn_strata, strata_of
from spark_rankeval.statistics.judges import JudgedDifference, bias_of_judge, draw_check, judged_estimate, labels_needed

NAN = math.nan


def queries(seed, n=60, n_others=200, agreement=0.7, undefined=0.0):
    """Values by people of the first n queries, and by a model of all."""
    rng = np.random.default_rng(seed)
    size = n + n_others
    f = rng.random(size)
    y = np.where(np.arange(size) < n, agreement * f + (1 - agreement) * rng.random(size), NAN)
    if undefined:
        y[rng.random(size) < undefined] = NAN
        f[rng.random(size) < undefined] = NAN
    return y, f, np.arange(size) < n


def weights_of(f, is_graded, seed):
    return np.where(is_graded, np.random.default_rng(seed).exponential(size=len(f)) + 0.2, NAN)


def estimated(y, f, is_graded, weights=None, strata=None, **options):
    return judged_estimate(JudgedQueries.from_values(y, f, is_graded, weights, strata), **options)


@pytest.mark.parametrize("lam", [None, 0.3, 1.0])
def test_defined_values_have_the_estimate_of_the_definition(lam):
    for seed, agreement in enumerate((0.1, 0.4, 0.6, 0.8, 0.9)):
        y, f, is_graded = queries(seed, agreement=agreement)
        value, error, best = by_definition(y, f, 60, lam)
        result = estimated(y, f, is_graded, lambda_=lam)
        assert (result.value, result.standard_error, result.lambda_) == pytest.approx((value, error, best), rel=1e-12)
        human = np.var(y[is_graded], ddof=1) / 60
        assert result.human.standard_error == pytest.approx(math.sqrt(human), rel=1e-12)
        assert (result.effective_n, result.gain) == pytest.approx((60 * human / error**2, human / error**2), rel=1e-12)
        assert result.judge.value == pytest.approx(f.mean(), rel=1e-12)
        # The oracle of other draws is the definition, too.
        assert estimate(y, f, is_graded, best) == pytest.approx((value, error), rel=1e-12)


@pytest.mark.parametrize("has_weights", [False, True])
@pytest.mark.parametrize("has_strata", [False, True])
@pytest.mark.parametrize("lam", [0.0, 0.4, 1.0])
def test_undefined_values_weights_and_strata_have_the_estimate_of_the_oracle(has_weights, has_strata, lam):
    y, f, is_graded = queries(7, undefined=0.2)
    weights = weights_of(f, is_graded, 8) if has_weights else None
    strata = np.where(f < 0.5, "low", "hi/gh") if has_strata else None
    value, error = estimate(y, f, is_graded, lam, weights, strata)
    result = estimated(y, f, is_graded, weights, strata, lambda_=lam)
    assert (result.value, result.standard_error) == pytest.approx((value, error), rel=1e-10)


def test_equal_weights_change_nothing():
    y, f, is_graded = queries(4)
    plain, weighted = (estimated(y, f, is_graded, weights, bounds=(0, 1)) for weights in (None, np.full(len(f), 3.7)))
    for name in ("value", "standard_error"):
        assert getattr(weighted, name) == pytest.approx(getattr(plain, name), rel=1e-12)
    assert weighted.interval[:2] == pytest.approx(plain.interval[:2], rel=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 5), st.booleans(), st.booleans())
def test_any_split_and_any_order_merge_to_the_same_sums(seed, n_parts, has_weights, has_strata):
    rng = np.random.default_rng(seed)
    y, f, is_graded = queries(seed, n=20, n_others=30, undefined=0.2)
    weights = weights_of(f, is_graded, seed) if has_weights else None
    columns = (y, f, is_graded, weights, rng.choice(["a", "ß"], len(f)) if has_strata else None)
    whole, order, part = JudgedQueries.from_values(*columns), rng.permutation(len(f)), rng.integers(0, n_parts, len(f))
    rows = [order[part == k] for k in range(n_parts)]
    parts = ([None if column is None else column[some] for column in columns] for some in rows)
    merged = JudgedQueries.total(JudgedQueries.from_values(*part) for part in parts)
    assert merged.text() == whole.text() == JudgedQueries.from_text(merged.text()).text()
    assert judged_estimate(merged) == judged_estimate(whole)
    assert list(merged.strata) == sorted(merged.strata)
    assert (merged.n_graded, merged.n_others) == (20, 30)


def test_values_close_together_lose_no_digit():
    noise = np.random.default_rng(0).integers(-8, 9, 1000) * 2.0**-40
    y, f, is_graded = 0.75 + noise, 0.625 + noise / 2, np.arange(1000) < 100
    # A million queries.
    many, far = JudgedQueries.from_values(y, f, is_graded), 2.0**10
    for _ in range(10):
        many += many
    result, tiny = judged_estimate(many, lambda_=0.5), estimated(noise, noise / 2, is_graded, lambda_=0.5)
    corrections = (1 - 1 / 100) / (1 - 1 / (100 * far))
    assert result.n_others == 900 * far
    expected = tiny.human.standard_error * math.sqrt(corrections / far)
    assert result.human.standard_error == pytest.approx(expected, rel=1e-12)
    assert result.standard_error < result.human.standard_error


def test_each_judge_alone_has_the_interval_of_their_queries():
    y, f, is_graded = queries(5, undefined=0.3)
    human = estimated(y, f, is_graded).human
    judge = estimated(y, f, is_graded, strata=np.where(f > 0.5, "a", "b")).judge
    for found, values in ((human, y[is_graded & ~np.isnan(y)]), (judge, f[~np.isnan(f)])):
        expected = stats.ttest_1samp(values, 0).confidence_interval()
        assert found.interval[:2] == pytest.approx(tuple(expected), rel=1e-12)
        assert (found.value, found.n) == (pytest.approx(values.mean()), len(values))


def test_shares_have_the_interval_of_clopper_and_pearson():
    y, f, is_graded = queries(7)
    y, f = np.round(y), np.round(f)
    result, hits = estimated(y, f, is_graded, bounds=(0, 1)), int(y[is_graded].sum())
    assert result.human.interval[:2] == pytest.approx(clopper_pearson_interval(hits, 60, 0.95))
    assert result.judge.interval[:2] == pytest.approx(clopper_pearson_interval(f.sum(), 260, 0.95))
    # As many queries as have a t interval of this width.
    value, error = result.value, result.interval_error
    t_of_n, t = stats.t.ppf(0.975, [59, result.df])
    n = value * (1 - value) / error**2 * (t_of_n / t) ** 2
    assert result.interval[:2] == pytest.approx(clopper_pearson_interval(value * n, n, 0.95), rel=1e-9)
    assert result.interval.method == "clopper_pearson"


@pytest.mark.parametrize("value", [0.0, 0.25, 1.0])
def test_equal_human_values_have_the_interval_without_spread(value):
    _, f, is_graded = queries(8)
    result = estimated(np.full(len(f), value), f, is_graded, bounds=(0, 1))
    others = 1 - 0.025 ** (1 / 60)
    assert (result.lambda_, result.value, result.gain) == (0, value, 1)
    assert result.interval[:2] == pytest.approx((value * (1 - others), value + (1 - value) * others))


def test_estimates_and_intervals_stay_within_bounds_that_values_keep():
    f = np.where(np.random.default_rng(9).random(400) < 0.9, 1.0, 0.5)
    f[:40] = np.where(np.arange(40) < 20, 0.5, 1.0)
    columns = np.where(f == 1.0, 1.0, 0.97), f, np.arange(400) < 40
    bounds = (-math.inf, 2), (0, 1), (0, 0.5)
    free, bounded, broken = (estimated(*columns, lambda_=1.0, bounds=each) for each in bounds)
    assert free.value == broken.value > 1
    assert bounded.value == bounded.interval.high == 1


TOO_FEW = "too few graded users carry the spread of their"


@pytest.mark.parametrize(("y", "f", "note"), [
    (np.arange(40) % 5, np.arange(40) % 5, ""),
    (np.arange(40) % 5, 4 - np.arange(40) % 5, ""),
    (np.arange(40) % 5, np.full(40, 0.5), f"{TOO_FEW} model's values: as good as 0, and 5 are needed"),
    # Values of 0 and 1 have their spread from n pq / (1 − 3 pq).
    ((np.arange(40) < 3) * 1.0, np.arange(40) % 5, f"{TOO_FEW} human values: as good as 3.5, and 5 are needed"),
])  # fmt: skip
def test_a_model_counts_if_enough_queries_differ_and_it_agrees(y, f, note):
    result = estimated(np.concatenate([y, np.full(360, NAN)]), np.tile(f, 10), np.arange(400) < 40)
    assert (result.note, bool(result.interval)) == (note, True)
    assert (result.lambda_ > 0) == (note == "" and f[1] == y[1])


def test_a_model_does_not_count_for_fewer_than_20_graded_queries():
    for n in (19, 20):
        result = estimated(*queries(11, n=n, agreement=0.9))
        assert (
            (result.note == "too few graded users: as good as 19, and 20 are needed")
            == (result.lambda_ == 0)
            == (n == 19)
        )
        assert result.interval == result.human.interval or n == 20


def test_a_model_that_makes_the_interval_longer_does_not_count():
    # Such a weight λ gains less than its degree of freedom costs.
    notes = set()
    for seed in range(12):
        result = estimated(*queries(seed, n=25, agreement=0.0))
        assert result.interval.high - result.interval.low <= result.human.interval.high - result.human.interval.low
        if result.note:
            assert (result.lambda_, result.interval) == (0, result.human.interval)
        notes.add(result.note)
    assert notes == {"", "the model's grades would make the interval longer"}


def test_a_model_does_not_count_because_a_bound_cuts_its_interval_off():
    rng = np.random.default_rng(152)
    human = np.round(rng.beta(0.3, 1.5, 34), 2)
    judge, graded = np.clip(human + rng.normal(0, 0.2, 34), 0, 1), np.arange(34) < 28
    result = estimated(human, judge, graded, np.where(rng.random(34) < 0.5, 2.0, 4.0), bounds=(0, 1))
    assert (result.lambda_, result.effective_n, result.value) == (0, 28, result.human.value)
    assert result.note == "the model's grades would make the interval longer"


def test_without_values_of_other_queries_people_count_alone():
    y, f, is_graded = queries(13, n_others=0)
    result = estimated(y, f, is_graded)
    assert (result.lambda_, result.note, result.gain) == (0, "no user has only the model's grades", 1)
    assert result.value == result.human.value == pytest.approx(y.mean())
    # By λ = 1 the share of queries with a human value would be 0.2 + 0.1 − 0.9.
    y, f, is_graded = queries(22)
    y[12:60], f[54:234] = NAN, NAN
    result = estimated(y, f, is_graded, lambda_=1.0)
    assert (result.lambda_, result.value) == (0, pytest.approx(np.nanmean(y)))
    assert result.note == "by the model, far more graded users than others have a value"


@pytest.mark.parametrize("noise", [0.0, 0.01 * (np.arange(30) == 7), 0.01 * (-1.0) ** np.arange(30)])
def test_a_model_that_disagreed_never_or_little_may_do_so_more(noise):
    y, f, is_graded = queries(23, n=30, n_others=1000)
    y[:30] = f[:30] + noise
    result, deviations = estimated(y, f, is_graded), y[:30] - y[:30].mean()
    square = np.sum(deviations**4) / np.sum(deviations**2)
    others = result.lambda_**2 * np.var(f[30:], ddof=1) / 1000
    assert result.standard_error**2 == pytest.approx(4 * square / (30 * 29) + others, rel=1e-9)
    # The variance of 4 queries has 8 degrees of freedom.
    assert 8 <= result.df < 10
    shares = np.round(f)
    assert estimated(shares, shares, is_graded, bounds=(0, 1)).effective_n < 200


EASY = np.arange(177) < 27  # all of them graded; of the others 5
FEW = np.arange(177) < 32
DRAWS = [(np.where(EASY, 1.0, 30.0), None), (None, np.where(EASY, "easy", "hard"))]
N_EFFECTIVE = 177**2 / (27 + 5 * 30**2)


@pytest.mark.parametrize(("weights", "strata"), DRAWS)
def test_queries_that_stand_for_many_count_as_few(weights, strata):
    other_share = 1 - 0.025 ** (1 / N_EFFECTIVE)
    # Weights times 0.2 are rounded.
    for value in (1.0, 0.2):
        same = estimated(np.full(177, value), np.zeros(177), FEW, weights, strata, bounds=(0, 1))
        ends = value * (1 - other_share), value + (1 - value) * other_share
        assert same.interval[:2] == pytest.approx(ends)
    # The p-value is below 0.05 where the interval lacks 0.
    columns = np.full(177, 0.2), np.zeros(177), FEW, weights, strata
    gain = JudgedDifference(*(JudgedQueries.from_values(*columns) for _ in range(3)), 0, (32, 0, 0), 0.95, (0.0, 1.0))
    assert gain.p_t == pytest.approx(2 ** (1 - N_EFFECTIVE))
    # All of the hard queries are hits, and two thirds of the easy ones.
    hits = estimated((np.arange(177) % 3 > 0) | ~EASY, np.zeros(177), FEW, weights, strata, bounds=(0, 1))
    assert hits.value == pytest.approx(168 / 177)
    expected = clopper_pearson_interval(168 / 177 * N_EFFECTIVE, N_EFFECTIVE, 0.95)
    assert hits.interval[:2] == pytest.approx(expected)
    # Two values, each that of one kind of queries.
    two = estimated(np.where(EASY, 0.9, 0.3), np.zeros(177), FEW, weights, strata, bounds=(0, 1))
    apart = np.where(EASY[FEW], 0.6, 0.0) - 0.6 * 27 / 32
    least = 4 * np.sum(apart**4) / np.sum(apart**2) / (N_EFFECTIVE * (N_EFFECTIVE - 1))
    assert two.standard_error**2 == pytest.approx(least, rel=0.02)


def test_differences_of_0_and_1_have_the_error_of_other_differences():
    y, f, is_graded = queries(24, n=100)
    y = np.where(is_graded, np.arange(len(y)) % 50 == 7, NAN)
    one, other = (estimated(times * y, f, is_graded, bounds=(-1, 1)) for times in (1.0, 0.999))
    assert (other.human.standard_error, other.interval.low) == pytest.approx(
        (0.999 * one.human.standard_error, 0.999 * one.interval.low)
    )


def test_rare_disagreement_costs_degrees_of_freedom():
    y, f, is_graded = queries(15, n=100, n_others=50_000)
    frequent = estimated(y, f, is_graded)
    y[:100] = f[:100] + np.where(np.arange(100) < 6, 0.5, 0.01) * np.where(np.arange(100) % 2, 1, -1)
    assert estimated(y, f, is_graded).df < 30
    assert frequent.df >= 98


@pytest.mark.parametrize(("columns", "reason", "has_value"), [
    (([1.0, 0.0], [1.0, 0.0], [False, False]), "no user has human grades", False),
    (([NAN, 0.0], [1.0, 0.0], [True, False]), "no user with human grades has a value", False),
    (([1.0, 0.0], [1.0, 0.0], [True, False]), "there are fewer than two users with a human value", True),
    (([0.7], [0.3], [True], [2.5]), "there are fewer than two users with a human value", True),
    (([1e200, 0.0], [1.0, 0.0], [True, True]), UNKNOWN_MEAN, False),
    (([1.0, 0.0, 1.0], [1.0, 0.0, 1.0], [True, True, False], None, ["a", "a", "b"]),
     "stratum 'b' has no user with human grades", False),
    (([1.0, 0.0, 1.0], [1.0, 0.0, 1.0], [True, True, True], None, ["a", "a", "b"]),
     "stratum 'b' has fewer than two users with a human value", True),
])  # fmt: skip
def test_a_reason_stands_for_a_missing_interval(columns, reason, has_value):
    result = estimated(*columns)
    assert result.interval.reason.startswith(reason)
    assert (math.isnan(result.interval.low), math.isnan(result.value)) == (True, not has_value)


def test_weights_that_are_no_positive_numbers_are_counted_and_do_not_mix_with_none():
    weights = [1.0, 0.0, -1.0, NAN, NAN]
    moments = JudgedQueries.from_values([1.0] * 5, [1.0] * 5, [True] * 4 + [False], weights, ["a"] * 5)
    assert (moments.n_graded, moments.n_others, moments.n_invalid_weights) == (1, 1, 3)
    y, f, is_graded = queries(16)
    plain, weighted = (JudgedQueries.from_values(y, f, is_graded, w) for w in (None, np.ones(len(f))))
    with pytest.raises(ValueError, match="with weights cannot be added"):
        plain + weighted
    others = JudgedQueries.from_values(y, f, np.zeros(len(f), bool))
    assert (weighted + others).n_others == (plain + others).n_others == 460


MOMENTS = JudgedQueries.from_values(*queries(17))
TEXT = MOMENTS.text()
SPOILT = (
    "",
    "[]",
    '{"/n":"0x1"}',
    TEXT[:-9] + TEXT[-7:],
    TEXT.replace("[60, 1]", "[60, 2]"),
    TEXT.replace('[""]', '["", "a"]'),
)


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: JudgedQueries.from_values([1.0, 0.0], [1.0, 0.0, 1.0], [True, False, False]), ValueError, "same length; got 2, 3"),
    (lambda: judged_estimate(MOMENTS, level=1.0), OptionError, "level"),
    *((lambda width=width: labels_needed(MOMENTS, width), OptionError, "positive number") for width in (0.0, -1.0, NAN)),
    *((lambda text=text: JudgedQueries.from_text(text), ValueError, "not the grades of two judges") for text in SPOILT),
])  # fmt: skip
def test_wrong_arguments_are_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_the_draw_check_is_welchs_test_and_knows_weights_and_strata():
    y, f, is_graded = queries(18)
    check = draw_check(JudgedQueries.from_values(y, f, is_graded))
    expected = stats.ttest_ind(f[is_graded], f[~is_graded], equal_var=False)
    assert (check.p, check.df) == pytest.approx((expected.pvalue, expected.df), rel=1e-9)
    assert check.difference == pytest.approx(f[is_graded].mean() - f.mean())
    assert check.difference / check.standard_error == pytest.approx(expected.statistic, rel=1e-9)
    # Of undefined values the mean is a quotient, and its error that of e(f − θ) ÷ the share that is defined; 200 of 260 are others.
    y, f, is_graded = queries(18, undefined=0.3)
    check, defined = draw_check(JudgedQueries.from_values(y, f, is_graded)), ~np.isnan(f)
    rests, error = np.where(defined, f - np.nanmean(f), 0.0), 0.0
    for part in (is_graded, ~is_graded):
        error += rests[part].var() / (part.sum() - 1)
    assert check.standard_error == pytest.approx(math.sqrt(error) * 200 / 260 / defined.mean(), rel=0.02)
    rng = np.random.default_rng(21)
    f = rng.random(4000)
    chance = np.where(f > 0.5, 0.15, 0.03)
    columns = f, f, rng.random(4000) < chance
    wrong, weighted, stratified = (
        draw_check(JudgedQueries.from_values(*columns, *more)).p for more in ((), (1 / chance,), (None, (f > 0.5).astype(str)))
    )  # fmt: skip
    assert wrong < 1e-9
    assert min(weighted, stratified) > 0.05
    for f, n in (([0.5] * 4, 2), ([NAN, NAN, 1.0, 0.5], 2), ([NAN, 0.3, 1.0, 0.5], 2), ([0.1, 0.3, 1.0, 0.5], 3)):
        assert draw_check(JudgedQueries.from_values([1.0] * 4, f, np.arange(4) < n)) is None


@pytest.mark.parametrize("width", [0.06, 0.1])
def test_labels_are_needed_as_the_definition_says(width):
    y, f, is_graded = queries(21, n=60, n_others=200, agreement=0.5)
    others = f[60:]
    human, covariance, judge = np.cov(y[:60], f[:60])[[0, 0, 1], [0, 1, 1]]

    def width_of(n):
        lam = covariance / ((1 + n / (260 - n)) * np.var(f, ddof=1))
        residual = (human - 2 * lam * covariance + lam**2 * judge) / n * (n - 1) / (n - 2)
        variance = residual + lam**2 * np.var(others, ddof=1) / (260 - n)
        return 2 * stats.t.ppf(0.975, n - 2) * math.sqrt(variance)

    fewest = next(n for n in range(4, 260) if width_of(n) <= width)
    assert labels_needed(JudgedQueries.from_values(y, f, is_graded), width).with_judge == fewest


@pytest.mark.parametrize("agreement", [0.7, 0.99])  # the second is rare disagreement, which counts as some
def test_as_many_labels_are_needed_as_there_are_for_their_width(agreement):
    moments = JudgedQueries.from_values(*queries(20, n=100, n_others=1000, agreement=agreement))
    result = judged_estimate(moments)
    widths = [interval.high - interval.low + 1e-9 for interval in (result.interval, result.human.interval)]
    assert abs(labels_needed(moments, widths[0]).with_judge - 100) <= 2
    assert labels_needed(moments, widths[1]).by_hand == 100
    # Not even all queries are enough.
    none = labels_needed(moments, 1e-4)
    assert (none.with_judge, none.by_hand > 1e6) == (None, True)
    assert labels_needed(JudgedQueries.from_values([1.0], [1.0], [True]), 0.1) is None


def difference_of(human, judge, graded):
    """A model with such differences to a baseline whose values are all 0.5."""
    half = np.full(len(human), 0.5)
    judges = ((human, judge), (half + human, half + judge), (half, half))
    sides = (JudgedQueries.from_values(*values, graded) for values in judges)
    return JudgedDifference(*sides, 0, (3, 2, 1), 0.95, (0.0, 1.0))


def random_values(seed, shift, n=40, n_all=400):
    generator = np.random.default_rng(seed)
    human = np.clip(shift + generator.normal(0, 0.2, n_all), -1, 1)
    judge = np.clip(human + generator.normal(0, 0.1, n_all), -1, 1)
    return human, judge, np.arange(n_all) < n


def random_difference(*options):
    return difference_of(*random_values(*options))


@pytest.mark.parametrize("n", [8, 25, 40])
def test_p_is_below_what_the_level_leaves_if_and_only_if_the_interval_lacks_0(n):
    margin = 0.03
    for seed, shift in itertools.product(range(3), (0.0, 0.02, 0.05, 0.1)):
        judged = random_difference(seed, shift, n)
        low, high, *_ = judged.interval
        assert (judged.p_t < 0.05) == (low > 0 or high < 0)
        # The interval at the level 1 − p ends at 0, unless λ depends on the level, as it does for fewer users.
        if n == 40 and judged.estimate.lambda_ and 1e-6 < judged.p_t < 1:
            at_p = judged.interval_at(1 - judged.p_t)
            assert min(abs(at_p.low), abs(at_p.high)) < 1e-6
        # Of fewer users a margin is decided later: others may differ from them.
        is_decided = low > margin or high < -margin or (-margin < low and high < margin)
        assert n < 40 or (judged.p_beyond(margin) < 0.05) == is_decided
        assert judged.p_of("t", margin)[0] >= judged.p_beyond(margin)


def test_the_interval_of_a_difference_may_lie_on_both_sides_of_0():
    judged = random_difference(0, 0.02, 25)
    assert -1 < judged.interval.low < 0 < judged.difference < judged.interval.high < 1


def test_a_difference_that_no_user_has_is_no_difference():
    nothing, graded = np.zeros(300), np.arange(300) < 50
    same = difference_of(nothing, nothing, graded)
    assert same.no_user_differs
    assert (same.difference, same.p_t, same.mean, same.baseline_mean) == (0.0, 1.0, 0.5, 0.5)
    assert not difference_of(nothing, np.where(np.arange(300) == 299, 0.5, 0.0), graded).no_user_differs


def test_a_mean_is_that_of_the_values_and_the_lift_is_a_share_of_the_baseline():
    judged = random_difference(3, 0.1)
    human, judge, graded = random_values(3, 0.1)
    assert judged.mean == estimated(0.5 + human, 0.5 + judge, graded, bounds=(0.0, 1.0)).value
    lift = judged.lift_at(0.95)
    assert (lift.value, math.isnan(lift.low), bool(lift.reason)) == (pytest.approx(judged.difference / 0.5), True, True)
    assert (judged.wins, judged.ties, judged.losses, judged.n) == (3, 2, 1, 400)


def test_without_a_graded_user_there_is_no_verdict():
    judged = difference_of(np.full(20, np.nan), np.linspace(-1, 1, 20), np.zeros(20, bool))
    p_values = judged.p_t, judged.p_of("t", 0.1)[0]
    assert (bool(judged.interval), *map(math.isnan, p_values)) == (False, True, True)


def test_a_bias_is_the_mean_of_what_the_model_says_more_where_both_have_a_value():
    y, f, is_graded = queries(4, undefined=0.1)
    more = (f - y)[is_graded & ~np.isnan(y) & ~np.isnan(f)]
    expected = stats.ttest_1samp(more, 0).confidence_interval(0.95)
    found = bias_of_judge(JudgedQueries.from_values(y, f, is_graded))
    assert (found.value, *found.interval[:2], found.n) == pytest.approx((more.mean(), *expected, len(more)), rel=1e-12)


def test_no_bias_has_an_interval_below_20_graded_queries_and_those_of_models_that_are_graded_alike_hold_0():
    few, enough, nobody = (JudgedQueries.from_values(*queries(5, n=n)) for n in (19, 20, 0))
    assert bias_of_judge(few).interval.reason == "too few graded users: as good as 19, and 20 are needed"
    assert bias_of_judge(few).value == pytest.approx(np.nanmean(np.subtract(*queries(5, n=19)[1::-1])))
    assert not bias_of_judge(enough).interval.reason
    assert bias_of_judge(nobody).interval.reason == "no user has human grades"
    _, f, is_graded = queries(6)
    alike = bias_of_judge(JudgedQueries.from_values(f, f, is_graded), bounds=(0, 1))
    assert alike.value == 0
    assert -0.2 < alike.interval.low < 0 < alike.interval.high < 0.2


BINS = st.dictionaries(st.integers(-1, 1000), st.tuples(st.integers(1, 50), st.integers(1, 9)), min_size=1, max_size=20)


# Less than a query of the first stratum fits into what is its own.
@example({46: (1, 3), 400: (2, 1)}, 3, 4)
@settings(max_examples=60, derandomize=True)
@given(BINS, st.integers(1, 6), st.integers(1, 3000))
def test_each_query_may_be_drawn_within_the_budget(bins, n_strata, budget):
    bins = [Bin(step, n, n * size) for step, (n, size) in bins.items()]
    n_queries, n_all_pairs = (sum(counts) for counts in list(zip(*bins, strict=True))[1:])
    if budget < n_all_pairs / n_queries:
        with pytest.raises(OptionError, match="is less than one user takes"):
            drawn_strata(bins, budget, n_strata)
        return
    strata = drawn_strata(bins, budget, n_strata)
    assert len(strata) <= len(strata_of(bins, n_strata)) <= n_strata
    assert sum(stratum.n_queries for stratum in strata) == n_queries
    # One over the probability is the weight that makes the mean of drawn queries right on average.
    assert all(0 < stratum.probability == stratum.n_drawn / stratum.n_queries <= 1 for stratum in strata)
    assert all(stratum.probability >= min(budget / n_all_pairs, 1) / 2 - 1e-9 for stratum in strata)
    assert sum(stratum.n_drawn * stratum.pairs_per_query for stratum in strata) <= budget + 1e-6
    if budget >= sum(stratum.n_pairs for stratum in strata):
        assert all(stratum.probability == 1 for stratum in strata)


def test_more_is_drawn_where_models_differ_more():
    strata = drawn_strata([Bin(-1, 5, 50), Bin(0, 45, 450), Bin(100, 25, 250), Bin(600, 25, 250)], 200, 3)
    assert [(stratum.n_queries, stratum.steps) for stratum in strata] == [(50, 0), (25, 100), (25, 600)]
    probabilities = [stratum.probability for stratum in strata]
    assert probabilities == sorted(set(probabilities))
    # An equal draw takes a fifth.
    assert probabilities[0] >= 0.1
    assert sum(stratum.n_drawn for stratum in strata) == 20
    # A stratum that is drawn whole leaves the rest to the others.
    assert [each.n_drawn for each in drawn_strata([Bin(0, 90, 90), Bin(900, 10, 10)], 60, 2)] == [50, 10]


def test_each_query_is_in_the_stratum_of_the_next_step_whose_spread_is_that_of_differences():
    steps = np.random.default_rng(3).integers(0, 1000, 300)
    numbers, counts = np.unique(steps, return_counts=True)
    strata = strata_of([Bin(step, n, 5 * n) for step, n in zip(numbers.tolist(), counts.tolist(), strict=True)], 4)
    places = np.searchsorted([stratum.steps for stratum in strata], steps)
    assert np.bincount(places).tolist() == [stratum.n_queries for stratum in strata]
    # A difference is taken to be in the middle of its step.
    squares = np.where(steps > 0, ((steps + 0.5) / 1000) ** 2, 0.0)
    spreads = [math.sqrt(squares[places == place].mean()) for place in range(len(strata))]
    assert [stratum.spread for stratum in strata] == pytest.approx(spreads)
