"""Estimates from few human grades and many by a model."""

import itertools
import math
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.documented import ROOT
from helpers.effort import examples, part_of
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.prediction_powered import by_definition, estimate
from scipy import stats

from spark_rankeval.errors import OptionError
from spark_rankeval.statistics.distributions import clopper_pearson_interval
from spark_rankeval.statistics.intervals import UNKNOWN_MEAN
from spark_rankeval.statistics.judged_draws import draw_check, labels_needed
from spark_rankeval.statistics.judged_moments import JudgedMoments
from spark_rankeval.statistics.prediction_powered import judged_estimate

simulated = SimpleNamespace(**run_path(str(ROOT / "tools" / "simulate_prediction_powered.py")))
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
    rng = np.random.default_rng(seed)
    return np.where(is_graded, rng.exponential(size=len(f)) + 0.2, NAN)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("lam", [None, 0.3, 1.0])
def test_defined_values_have_the_estimate_of_the_definition(seed, lam):
    y, f, is_graded = queries(seed, agreement=(0.1, 0.4, 0.6, 0.8, 0.9)[seed])
    value, error, best = by_definition(y, f, 60, lam)
    result = judged_estimate(JudgedMoments.from_values(y, f, is_graded), lambda_=lam)
    assert (result.value, result.standard_error) == pytest.approx((value, error), rel=1e-12)
    assert result.lambda_ == pytest.approx(best, rel=1e-12)
    human = np.var(y[is_graded], ddof=1) / 60
    assert result.human.standard_error == pytest.approx(math.sqrt(human), rel=1e-12)
    assert result.effective_n == pytest.approx(60 * human / error**2, rel=1e-12)
    assert result.gain == pytest.approx(result.effective_n / 60)
    assert result.judge.value == pytest.approx(f.mean(), rel=1e-12)


@pytest.mark.parametrize("has_weights", [False, True])
@pytest.mark.parametrize("has_strata", [False, True])
@pytest.mark.parametrize("lam", [0.0, 0.4, 1.0])
def test_undefined_values_weights_and_strata_have_the_estimate_of_the_oracle(has_weights, has_strata, lam):
    y, f, is_graded = queries(7, undefined=0.2)
    weights = weights_of(f, is_graded, 8) if has_weights else None
    strata = np.where(f < 0.5, "low", "hi/gh") if has_strata else None
    value, error = estimate(y, f, is_graded, lam, weights, strata)
    result = judged_estimate(JudgedMoments.from_values(y, f, is_graded, weights, strata), lambda_=lam)
    assert (result.value, result.standard_error) == pytest.approx((value, error), rel=1e-10)


def test_the_oracle_is_the_definition_if_all_is_defined_and_equally_drawn():
    y, f, is_graded = queries(3)
    value, error, lam = by_definition(y, f, 60)
    assert estimate(y, f, is_graded, lam) == pytest.approx((value, error), rel=1e-12)


def test_equal_weights_change_nothing():
    y, f, is_graded = queries(4)
    plain = judged_estimate(JudgedMoments.from_values(y, f, is_graded), bounds=(0, 1))
    weighted = judged_estimate(JudgedMoments.from_values(y, f, is_graded, np.full(len(f), 3.7)), bounds=(0, 1))
    assert weighted.value == pytest.approx(plain.value, rel=1e-14)
    assert weighted.interval.low == pytest.approx(plain.interval.low, rel=1e-12)
    assert weighted.standard_error == pytest.approx(plain.standard_error, rel=1e-12)


@settings(max_examples=examples(20, 300), deadline=None)
@given(st.data())
def test_any_split_and_any_order_merge_to_the_same_sums(data):
    seed, n_parts = data.draw(st.integers(0, 1000)), data.draw(st.integers(1, 5))
    rng = np.random.default_rng(seed)
    y, f, is_graded = queries(seed, n=20, n_others=30, undefined=0.2)
    weights = weights_of(f, is_graded, seed) if data.draw(st.booleans()) else None
    strata = rng.choice(["a", "ß"], len(f)) if data.draw(st.booleans()) else None
    columns = (y, f, is_graded, weights, strata)
    whole = JudgedMoments.from_values(*columns)
    order, part = rng.permutation(len(f)), rng.integers(0, n_parts, len(f))
    parts = [
        JudgedMoments.from_values(*(None if column is None else column[order[part == k]] for column in columns))
        for k in range(n_parts)
    ]
    merged = JudgedMoments.total(parts)
    assert merged == whole
    assert JudgedMoments.from_text(merged.text()) == whole
    assert merged.text() == whole.text()
    assert (merged.n_graded, merged.n_others) == (20, 30)


def test_values_close_together_lose_no_digit():
    rng = np.random.default_rng(0)
    noise = rng.integers(-8, 9, 1000) * 2.0**-40
    y, f, is_graded = 0.75 + noise, 0.625 + noise / 2, np.arange(1000) < 100
    one = JudgedMoments.from_values(y, f, is_graded)
    # More than 10⁸ queries.
    many = one
    for _ in range(17):
        many += many
    result = judged_estimate(many, lambda_=0.5)
    tiny, far = judged_estimate(JudgedMoments.from_values(noise, noise / 2, is_graded), lambda_=0.5), 2.0**17
    corrections = (1 - 1 / 100) / (1 - 1 / (100 * far))
    expected = tiny.human.standard_error * math.sqrt(corrections / far)
    assert result.n_others == 900 * far
    assert result.human.standard_error == pytest.approx(expected, rel=1e-12)
    assert result.standard_error < expected


def test_people_alone_have_the_interval_of_their_queries():
    y, f, is_graded = queries(5, undefined=0.3)
    human = judged_estimate(JudgedMoments.from_values(y, f, is_graded)).human
    values = y[is_graded & ~np.isnan(y)]
    expected = stats.ttest_1samp(values, 0).confidence_interval()
    assert (human.interval.low, human.interval.high) == pytest.approx(tuple(expected), rel=1e-12)
    assert (human.value, human.n) == (pytest.approx(values.mean()), len(values))


def test_the_model_alone_has_the_interval_of_all_queries():
    y, f, is_graded = queries(6, undefined=0.3)
    judge = judged_estimate(JudgedMoments.from_values(y, f, is_graded, strata=np.where(f > 0.5, "a", "b"))).judge
    expected = stats.ttest_1samp(f[~np.isnan(f)], 0).confidence_interval()
    assert (judge.interval.low, judge.interval.high) == pytest.approx(tuple(expected), rel=1e-12)


def test_shares_have_the_interval_of_clopper_and_pearson():
    y, f, is_graded = queries(7)
    shares = np.round(y), np.round(f)
    result = judged_estimate(JudgedMoments.from_values(*shares, is_graded), bounds=(0, 1))
    hits = int(shares[0][is_graded].sum())
    assert result.human.interval[:2] == pytest.approx(clopper_pearson_interval(hits, 60, 0.95))
    assert result.interval.method == "clopper_pearson"
    assert result.judge.interval[:2] == pytest.approx(clopper_pearson_interval(shares[1].sum(), 260, 0.95))
    assert result.interval.low < result.value < result.interval.high


@pytest.mark.parametrize("value", [0.0, 0.25, 1.0])
def test_equal_human_values_have_the_interval_without_spread(value):
    _, f, is_graded = queries(8)
    result = judged_estimate(JudgedMoments.from_values(np.full(len(f), value), f, is_graded), bounds=(0, 1))
    others = 1 - 0.025 ** (1 / 60)
    assert (result.lambda_, result.value, result.gain) == (0, value, 1)
    assert result.interval[:2] == pytest.approx((value * (1 - others), value + (1 - value) * others))


def test_estimates_and_intervals_stay_within_bounds():
    rng = np.random.default_rng(9)
    f = np.where(rng.random(400) < 0.9, 1.0, 0.5)
    f[:40] = np.where(np.arange(40) < 20, 0.5, 1.0)
    moments = JudgedMoments.from_values(np.where(f == 1.0, 1.0, 0.97), f, np.arange(400) < 40)
    free, bounded = (judged_estimate(moments, lambda_=1.0, bounds=bounds) for bounds in ((-math.inf, 2), (0, 1)))
    assert free.value > 1
    assert bounded.value == bounded.interval.high == 1
    # Values break these bounds, so there are none.
    assert judged_estimate(moments, lambda_=1.0, bounds=(0, 0.5)).value == free.value


@pytest.mark.parametrize(
    ("y", "f", "note"),
    [
        (np.arange(40) % 5, np.arange(40) % 5, ""),
        (np.arange(40) % 5, 4 - np.arange(40) % 5, ""),
        (np.arange(40) % 5, np.full(40, 0.5), "too few graded users differ in their model's values"),
        ((np.arange(40) < 3) * 1.0, np.arange(40) % 5, "too few graded users differ in their human values"),
    ],
)
def test_a_model_counts_if_enough_queries_differ_and_it_agrees(y, f, note):
    judge = np.tile(f, 10)
    human = np.concatenate([y, np.full(len(judge) - 40, NAN)])
    result = judged_estimate(JudgedMoments.from_values(human, judge, np.arange(400) < 40))
    assert result.note == note
    assert (result.lambda_ > 0) == (note == "" and f[1] == y[1])
    assert result.interval


def test_one_graded_query_with_a_weight_has_no_interval():
    alone = JudgedMoments.from_values([0.7], [0.3], [True], [2.5])
    assert judged_estimate(alone).interval.reason
    assert judged_estimate(alone).value == 0.7


def test_a_model_does_not_count_for_fewer_than_20_graded_queries():
    for n in (19, 20):
        y, f, is_graded = queries(11, n=n, agreement=0.9)
        result = judged_estimate(JudgedMoments.from_values(y, f, is_graded))
        assert (result.note == "fewer than 20 graded users, or as good as fewer") == (n == 19)
        assert (result.lambda_ == 0) == (n == 19)
        assert result.interval == result.human.interval or n == 20


def test_a_model_that_makes_the_interval_longer_does_not_count():
    # Such a weight λ gains less than its degree of freedom costs.
    notes = set()
    for seed in range(20):
        result = judged_estimate(JudgedMoments.from_values(*queries(seed, n=25, agreement=0.0)))
        assert result.interval.high - result.interval.low <= result.human.interval.high - result.human.interval.low
        if result.note:
            assert (result.lambda_, result.interval) == (0, result.human.interval)
        notes.add(result.note)
    assert notes == {"", "the model's grades would make the interval longer"}


def test_a_model_does_not_count_because_a_bound_cuts_its_interval_off():
    rng = np.random.default_rng(152)
    human = np.round(rng.beta(0.3, 1.5, 34), 2)
    judge, graded = np.clip(human + rng.normal(0, 0.2, 34), 0, 1), np.arange(34) < 28
    estimate = judged_estimate(
        JudgedMoments.from_values(human, judge, graded, np.where(rng.random(34) < 0.5, 2.0, 4.0)), bounds=(0, 1)
    )
    assert (estimate.lambda_, estimate.effective_n, estimate.value) == (0, 28, estimate.human.value)
    assert estimate.note == "the model's grades would make the interval longer"


def test_without_other_queries_people_count_alone():
    y, f, is_graded = queries(13, n_others=0)
    result = judged_estimate(JudgedMoments.from_values(y, f, is_graded))
    assert (result.lambda_, result.note) == (0, "no user has only the model's grades")
    assert result.value == result.human.value == pytest.approx(y.mean())
    assert result.gain == 1


def test_a_model_with_values_for_graded_queries_alone_does_not_count():
    # By λ = 1 the share of queries with a human value would be 0.2 + 0.1 − 0.9.
    y, f, is_graded = queries(22)
    y[12:60] = NAN
    f[54:234] = NAN
    result = judged_estimate(JudgedMoments.from_values(y, f, is_graded), lambda_=1.0)
    assert (result.lambda_, result.value) == (0, pytest.approx(np.nanmean(y)))
    assert result.note == "by the model, far more graded users than others have a value"


def test_a_model_that_never_disagreed_may_do_so_rarely():
    rng = np.random.default_rng(14)
    f = np.round(rng.random(1030))
    result = judged_estimate(JudgedMoments.from_values(f, f, np.arange(1030) < 30), bounds=(0, 1))
    deviations = f[:30] - f[:30].mean()
    square = np.sum(deviations**4) / np.sum(deviations**2)
    others = result.lambda_**2 * np.var(f[30:], ddof=1) / 1000
    assert result.standard_error**2 == pytest.approx(4 * square / (30 * 29) + others, rel=1e-9)
    assert result.effective_n < 200


def test_a_model_that_disagreed_a_little_and_rarely_may_do_so_more():
    y, f, is_graded = queries(23, n=30, n_others=1000)
    y[:30] = f[:30]
    y[7] += 0.01
    result = judged_estimate(JudgedMoments.from_values(y, f, is_graded))
    deviations = y[:30] - y[:30].mean()
    square = np.sum(deviations**4) / np.sum(deviations**2)
    others = result.lambda_**2 * np.var(f[30:], ddof=1) / 1000
    assert result.standard_error**2 == pytest.approx(4 * square / (30 * 29) + others, rel=1e-9)


def test_rare_disagreement_costs_degrees_of_freedom():
    y, f, is_graded = queries(15, n=100, n_others=50_000)
    frequent = judged_estimate(JudgedMoments.from_values(y, f, is_graded))
    y[:100] = f[:100] + np.where(np.arange(100) < 6, 0.5, 0.01) * np.where(np.arange(100) % 2, 1, -1)
    rare = judged_estimate(JudgedMoments.from_values(y, f, is_graded))
    assert rare.df < 30
    assert frequent.df >= 98


@pytest.mark.parametrize(
    ("columns", "reason", "has_value"),
    [
        (([1.0, 0.0], [1.0, 0.0], [False, False]), "no user has human grades", False),
        (([NAN, 0.0], [1.0, 0.0], [True, False]), "no user with human grades has a value", False),
        (([1.0, 0.0], [1.0, 0.0], [True, False]), "there are fewer than two users with a human value", True),
        (([1e200, 0.0], [1.0, 0.0], [True, True]), UNKNOWN_MEAN, False),
        (
            ([1.0, 0.0, 1.0], [1.0, 0.0, 1.0], [True, True, False], None, ["a", "a", "b"]),
            "stratum 'b' has no user with human grades",
            False,
        ),
        (
            ([1.0, 0.0, 1.0], [1.0, 0.0, 1.0], [True, True, True], None, ["a", "a", "b"]),
            "stratum 'b' has fewer than two users with a human value",
            True,
        ),
    ],
)
def test_a_reason_stands_for_a_missing_interval(columns, reason, has_value):
    result = judged_estimate(JudgedMoments.from_values(*columns))
    assert result.interval.reason.startswith(reason)
    assert math.isnan(result.interval.low)
    assert math.isnan(result.value) != has_value


def test_weights_that_are_no_positive_numbers_are_counted():
    moments = JudgedMoments.from_values(
        [1.0] * 5, [1.0] * 5, [True] * 4 + [False], [1.0, 0.0, -1.0, NAN, NAN], ["a"] * 5
    )
    assert (moments.n_graded, moments.n_others, moments.count("invalid_weights")) == (1, 1, 3)


def test_sums_with_and_without_weights_do_not_mix():
    y, f, is_graded = queries(16)
    plain, weighted = (JudgedMoments.from_values(y, f, is_graded, w) for w in (None, np.ones(len(f))))
    with pytest.raises(ValueError, match="with weights cannot be added"):
        plain + weighted
    others = JudgedMoments.from_values(y, f, np.zeros(len(f), bool))
    assert (weighted + others).n_others == (plain + others).n_others == 460


def test_wrong_arguments_are_refused():
    moments = JudgedMoments.from_values(*queries(17))
    with pytest.raises(ValueError, match="same length; got 2, 3"):
        JudgedMoments.from_values([1.0, 0.0], [1.0, 0.0, 1.0], [True, False, False])
    for wrong in ({"level": 1.0}, {"lambda_": 1.5}, {"lambda_": "best"}):
        with pytest.raises(OptionError):
            judged_estimate(moments, **wrong)
    for width in (0.0, -1.0, NAN):
        with pytest.raises(OptionError, match="positive number"):
            labels_needed(moments, width)
    with pytest.raises(ValueError, match="0x1"):
        JudgedMoments.from_text('{"/n":"0x1"}')


def test_the_draw_check_is_welchs_test():
    y, f, is_graded = queries(18, undefined=0.0)
    check = draw_check(JudgedMoments.from_values(y, f, is_graded))
    expected = stats.ttest_ind(f[is_graded], f[~is_graded], equal_var=False)
    assert (check.p, check.df) == pytest.approx((expected.pvalue, expected.df), rel=1e-9)
    assert check.difference == pytest.approx(f[is_graded].mean() - f.mean())
    assert check.difference / check.standard_error == pytest.approx(expected.statistic, rel=1e-9)


def test_the_draw_check_knows_weights_and_strata():
    rng = np.random.default_rng(21)
    f = rng.random(4000)
    chance = np.where(f > 0.5, 0.15, 0.03)
    is_graded = rng.random(4000) < chance
    wrong, weighted = (draw_check(JudgedMoments.from_values(f, f, is_graded, w)) for w in (None, 1 / chance))
    stratified = draw_check(JudgedMoments.from_values(f, f, is_graded, strata=(f > 0.5).astype(str)))
    assert wrong.p < 1e-9
    assert min(weighted.p, stratified.p) > 0.05


@pytest.mark.parametrize("f", [[0.5] * 4, [NAN, NAN, 1.0, 0.5]])
def test_there_is_no_check_without_values(f):
    assert draw_check(JudgedMoments.from_values([1.0] * 4, f, [True, True, False, False])) is None


@pytest.mark.parametrize("width", [0.06, 0.08, 0.1])
def test_labels_are_needed_as_the_definition_says(width):
    y, f, is_graded = queries(21, n=60, n_others=200, agreement=0.5)
    y, f, others = y[:60], f[:60], f[60:]
    human, covariance, judge = np.cov(y, f)[[0, 0, 1], [0, 1, 1]]

    def width_of(n):
        lam = covariance / ((1 + n / (260 - n)) * np.var(np.r_[f, others], ddof=1))
        residual = (human - 2 * lam * covariance + lam**2 * judge) / n * (n - 1) / (n - 2)
        variance = residual + lam**2 * np.var(others, ddof=1) / (260 - n)
        return 2 * stats.t.ppf(0.975, n - 2) * math.sqrt(variance)

    fewest = next(n for n in range(4, 260) if width_of(n) <= width)
    moments = JudgedMoments.from_values(np.r_[y, np.full(200, NAN)], np.r_[f, others], is_graded)
    assert labels_needed(moments, width).with_judge == fewest


def test_as_many_labels_are_needed_as_there_are_for_their_width():
    y, f, is_graded = queries(20, n=100, n_others=1000)
    moments = JudgedMoments.from_values(y, f, is_graded)
    result = judged_estimate(moments)
    widths = [interval.high - interval.low + 1e-9 for interval in (result.interval, result.human.interval)]
    assert abs(labels_needed(moments, widths[0]).with_judge - 100) <= 2
    assert labels_needed(moments, widths[1]).by_hand == 100
    # Not even all queries are enough.
    none = labels_needed(moments, 1e-4)
    assert none.with_judge is None
    assert none.by_hand > 1e6
    assert labels_needed(JudgedMoments.from_values([1.0], [1.0], [True]), 0.1) is None


@pytest.mark.parametrize(
    ("metric", "judge", "n"),
    part_of(itertools.product(simulated.METRICS, simulated.JUDGES | simulated.RARE_DISAGREEMENT, (5, 30, 100)), 13),
)
def test_intervals_hold_as_often_as_promised_and_are_no_longer_than_by_hand(metric, judge, n):
    rng, runs = np.random.default_rng(551), examples(150, 1000)
    kinds = simulated.population(
        rng, simulated.METRICS[metric], (simulated.JUDGES | simulated.RARE_DISAGREEMENT)[judge]
    )
    rates = simulated.simulated(rng, kinds, n, 1000, runs)
    # Of five queries at most one may have a relevant item.
    assert rates.shown == 1 or (n == 5 and rates.shown > 0.9)
    assert 1 - rates.covered <= stats.binom.ppf(0.999, runs, 0.08) / runs
    assert rates.width <= 1.03
    if judge == "reversed":
        assert rates.width == 1


@pytest.mark.parametrize("design", ["weights", "strata", "both"])
def test_intervals_hold_for_other_draws(design):
    rng, runs = np.random.default_rng(552), examples(100, 1000)
    kinds = simulated.population(rng, simulated.ndcg, simulated.JUDGES["unbiased"])
    queries = (rng.integers(0, len(kinds.human), 600) for _ in range(runs))
    moments = [JudgedMoments.from_values(*simulated.drawn(rng, kinds, 100, each, design)) for each in queries]
    rates = simulated.rates([judged_estimate(each, bounds=(0, 1)) for each in moments], kinds.mean)
    assert 1 - rates.covered <= stats.binom.ppf(0.999, runs, 0.08) / runs
    assert rates.width < 0.9


def test_intervals_hold_for_clusters():
    rng, runs = np.random.default_rng(553), examples(100, 1000)
    kinds = simulated.population(rng, simulated.ndcg, simulated.JUDGES["unbiased"])
    moments = [simulated.persons(rng, kinds, simulated.SIZES["1 to 20"](rng, 60)) for _ in range(runs)]
    rates = simulated.rates([judged_estimate(each, bounds=(0, 1)) for each in moments], kinds.mean)
    assert 1 - rates.covered <= stats.binom.ppf(0.999, runs, 0.08) / runs
    assert rates.width < 0.97


@pytest.mark.parametrize("design", ["weights", "both"])
def test_intervals_hold_for_clusters_of_other_draws(design):
    rng, runs = np.random.default_rng(554), examples(60, 1000)
    kinds = simulated.population(rng, simulated.ndcg, simulated.JUDGES["unbiased"])
    moments = [simulated.drawn_persons(rng, kinds, simulated.SIZES["1 to 20"](rng, 60), design) for _ in range(runs)]
    rates = simulated.rates([judged_estimate(each, bounds=(0, 1)) for each in moments], kinds.mean)
    assert 1 - rates.covered <= stats.binom.ppf(0.999, runs, 0.08) / runs
    assert rates.width < 1
