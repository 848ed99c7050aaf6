"""Corrections for several comparisons are statsmodels', and intervals agree with the decisions."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from spark_rankeval.errors import OptionError
from spark_rankeval.statistics.multiple_comparisons import Joint, adjusted, family_of, headline_first

RNG = np.random.default_rng(111)
THEIRS = {"holm": "holm", "benjamini_hochberg": "fdr_bh"}
FAMILIES = [RNG.random(n) ** power for n, power in ((1, 1), (5, 1), (5, 6), (500, 6))]
FAMILIES += [np.array([0.01, 0.01, 0.04, 0.04, 1.0]), np.zeros(3), np.ones(4), np.array([1e-300, 0.5])]


@pytest.mark.parametrize("method", THEIRS)
def test_corrections_are_statsmodels(method):
    for p_values in FAMILIES:
        expected, before = multipletests(p_values, method=THEIRS[method])[1], p_values.copy()
        assert adjusted(p_values, method) == pytest.approx(expected, rel=1e-12, abs=0)
        assert np.array_equal(p_values, before)
    assert adjusted([], method).tolist() == []
    assert adjusted([0.01, 0.04, 0.03]).tolist() == adjusted([0.01, 0.04, 0.03], "holm").tolist()


@pytest.mark.parametrize("method", [*THEIRS, "none"])
def test_a_test_that_could_not_be_made_is_no_member_of_the_family(method):
    expected = [0.01, 0.04] if method == "none" else adjusted([0.01, 0.04], method).tolist()
    assert adjusted([0.01, math.nan, 0.04, math.nan], method).tolist() == pytest.approx(
        [expected[0], math.nan, expected[1], math.nan], nan_ok=True
    )


@pytest.mark.parametrize(
    ("p_values", "method", "says"), [([0.5], "bonferoni", "holm"), ([1.2], "holm", "1.2"), ([-0.1], "none", "0.1")]
)
def test_what_is_no_p_value_or_no_correction_is_refused(p_values, method, says):
    with pytest.raises(OptionError, match=says):
        adjusted(p_values, method)


@settings(max_examples=60, derandomize=True)
@given(st.lists(st.floats(1e-6, 1) | st.just(math.nan), min_size=1, max_size=8), st.sampled_from([0.9, 0.95]))
def test_intervals_hold_together_and_agree_with_decisions(p_values, level):
    """Those of Holm are Bonferroni's. Of a false discovery rate one leaves out 0 if and only if the comparison is decided."""
    n = max(1, sum(not math.isnan(p) for p in p_values))
    for joint, p in zip(family_of(p_values, "holm", level), adjusted(p_values, "holm").tolist(), strict=True):
        assert joint == (pytest.approx(p, nan_ok=True), pytest.approx(1 - (1 - level) / n), n)
    for joint, p in zip(family_of(p_values, "benjamini_hochberg", level), p_values, strict=True):
        if not math.isnan(p) and not math.isclose(p, 1 - joint.level, rel_tol=1e-6):
            assert (p < 1 - joint.level) == (joint.p <= 1 - level + 1e-12)
    alone = family_of(p_values, "none", level)
    assert alone == [Joint(pytest.approx(p, nan_ok=True), level) for p in p_values]


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
    assert {(joint.level, joint.n) for joint in judged} == {(0.975, 2)}
