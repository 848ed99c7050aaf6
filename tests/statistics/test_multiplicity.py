import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from spark_rankeval.errors import OptionError
from spark_rankeval.statistics.multiple_comparisons import Joint, adjusted, family_of, headline_first

RNG = np.random.default_rng(111)
THEIRS = {"holm": "holm", "benjamini_hochberg": "fdr_bh"}
FAMILIES = [RNG.random(n) ** power for n in (1, 2, 5, 40, 500) for power in (1, 6)]
FAMILIES += [np.array([0.01, 0.01, 0.04, 0.04, 1.0]), np.zeros(3), np.ones(4), np.array([1e-300, 0.5])]


@pytest.mark.parametrize("method", THEIRS)
@pytest.mark.parametrize("p_values", FAMILIES, ids=range(len(FAMILIES)))
def test_corrections_are_statsmodels(p_values, method):
    expected = multipletests(p_values, method=THEIRS[method])[1]
    assert adjusted(p_values, method) == pytest.approx(expected, rel=1e-12, abs=0)


def test_none_changes_nothing():
    assert adjusted([0.04, 0.2, math.nan], "none").tolist()[:2] == [0.04, 0.2]


def test_holm_is_the_default():
    assert adjusted([0.01, 0.04, 0.03]).tolist() == pytest.approx([0.03, 0.06, 0.06])


@pytest.mark.parametrize("method", ["holm", "benjamini_hochberg", "none"])
def test_a_test_that_could_not_be_made_is_no_member_of_the_family(method):
    result = adjusted([0.01, math.nan, 0.04, math.nan], method)
    assert np.isnan(result).tolist() == [False, True, False, True]
    assert result[[0, 2]].tolist() == adjusted([0.01, 0.04], method).tolist()


def test_no_test_has_no_p_value():
    assert adjusted([]).tolist() == []


def test_what_was_given_stays_as_it_was():
    given = np.array([0.04, 0.01])
    adjusted(given)
    assert given.tolist() == [0.04, 0.01]


@pytest.mark.parametrize(
    ("p_values", "method", "says"), [([0.5], "bonferoni", "holm"), ([1.2], "holm", "1.2"), ([-0.1], "none", "0.1")]
)
def test_what_is_no_p_value_or_no_correction_is_refused(p_values, method, says):
    with pytest.raises(OptionError, match=says):
        adjusted(p_values, method)


p_lists = st.lists(st.floats(1e-6, 1) | st.just(math.nan), min_size=1, max_size=8)


@given(p_lists, st.sampled_from([0.9, 0.95]))
def test_intervals_of_holm_are_those_of_bonferroni(p_values, level):
    n = sum(not math.isnan(p) for p in p_values)
    for joint, p in zip(family_of(p_values, "holm", level), adjusted(p_values, "holm"), strict=True):
        assert (joint.p == p) or (math.isnan(joint.p) and math.isnan(p))
        assert joint.level == pytest.approx(1 - (1 - level) / max(n, 1))
        assert joint.n == max(n, 1)


@given(p_lists)
def test_intervals_of_a_false_discovery_rate_agree_with_its_decisions(p_values):
    """An interval at the joint level leaves out 0 if the p-value is at most 1 − that level, and only then the comparison is decided."""
    for joint, p in zip(family_of(p_values, "benjamini_hochberg", 0.95), p_values, strict=True):
        if not math.isnan(p) and not math.isclose(p, 1 - joint.level, rel_tol=1e-6):
            assert (p < 1 - joint.level) == (joint.p <= 0.05)


def test_without_a_correction_each_interval_stands_alone():
    assert family_of([0.01, 0.2], "none", 0.95) == [Joint(0.01, 0.95), Joint(0.2, 0.95)]


@pytest.mark.parametrize(
    ("p_headline", "expected"),
    [(0.01, [0.01, 0.03, 0.04]), (0.035, [0.035, 0.035, 0.04]), (0.3, [0.3, 0.3, 0.3]), (math.nan, [math.nan, 1, 1])],
)
def test_other_metrics_wait_for_the_headline(p_headline, expected):
    judged = headline_first([p_headline, 0.015, 0.04], 0.95, [True, False, False], ["als"] * 3)
    assert [joint.p for joint in judged] == pytest.approx(expected, nan_ok=True)
    assert [joint.level for joint in judged] == pytest.approx([0.95, 0.975, 0.975])
    assert [joint.n for joint in judged] == [1, 2, 2]


def test_every_model_has_a_sequence_of_its_own_and_they_share_the_error():
    p_values, models = [0.01, 0.5, 0.004, 0.02], ["als", "pop", "als", "pop"]
    judged = headline_first(p_values, 0.95, [True, True, False, False], models)
    assert [joint.p for joint in judged] == pytest.approx([0.02, 1.0, 0.02, 1.0])
    assert {joint.level for joint in judged} == {0.975}
    assert [joint.n for joint in judged] == [2, 2, 2, 2]


@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_joint_intervals_hold_all_true_differences_of_15_metrics_together(correlation):
    """1,500 draws of 15 means of 30 users: at least 0.95 of them, less three standard errors, hold every mean."""
    rng, n, m, n_draws = np.random.default_rng(5), 30, 15, 1500
    shared = rng.normal(size=(n_draws, n, 1)) * math.sqrt(correlation)
    truth = np.where(np.arange(m) < 7, 0.4, 0.0)
    values = shared + rng.normal(size=(n_draws, n, m)) * math.sqrt(1 - correlation) + truth
    t, p_values = stats.ttest_1samp(values, 0, axis=1)
    error = values.mean(axis=1) / t
    held, falsely_decided = 0, 0
    for mean, spread, p in zip(values.mean(axis=1), error, p_values, strict=True):
        family = family_of(p.tolist(), "holm", 0.95)
        reach = stats.t.ppf((1 + family[0].level) / 2, n - 1) * np.abs(spread)
        held += bool(np.all(np.abs(mean - truth) <= reach))
        sequence = headline_first(p.tolist(), 0.95, np.arange(m) == 14, ["als"] * m)
        falsely_decided += any(joint.p <= 0.05 for joint, true in zip(sequence, truth, strict=True) if not true)
    assert held / n_draws > 0.95 - 3 * math.sqrt(0.05 * 0.95 / n_draws)
    assert falsely_decided / n_draws < 0.05 + 3 * math.sqrt(0.05 * 0.95 / n_draws)
