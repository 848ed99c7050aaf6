"""Verdicts follow from interval, p and margin; corrections for several comparisons are statsmodels', and intervals agree."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from spark_rankeval.errors import OptionError
from spark_rankeval.statistics.comparisons import (
    Joint,
    ShownFigures,
    adjusted,
    family_of,
    headline_first,
    percent,
    verdict_of,
)
from spark_rankeval.statistics.intervals import Interval


def verdict(low, high, p=0.001, level=0.95, **options):
    return verdict_of(Interval(low, high, level, "t"), p, difference=(low + high) / 2, **options)


@pytest.mark.parametrize(("low", "high", "p", "margin", "word"), [
    (0.01, 0.03, 0.001, 0.0, "better"),
    (-0.01, 0.03, 0.3, 0.0, "undecided"),
    (0.01, 0.03, 0.05, 0.0, "better"),
    (0.01, 0.03, 0.2, 0.0, "undecided"),          # not after correction for the other comparisons
    (0.01, 0.03, math.nan, 0.0, "undecided"),
    (0.01, 0.03, 0.001, 0.005, "better"),
    (0.01, 0.03, 0.001, 0.02, "undecided"),       # there is a difference, and whether it matters is open
    (0.0001, 0.0004, 1e-9, 0.001, "no relevant difference"),
    (-0.0009, 0.0009, 0.05, 0.001, "no relevant difference"),
    (-0.001, 0.001, 0.05, 0.001, "undecided"),    # as at 0, an end is what the interval holds
    (-0.0009, 0.0004, 0.3, 0.001, "undecided"),   # not after correction for the other comparisons
    (-0.0011, 0.0004, 0.01, 0.001, "undecided"),
    (0.0, 0.0, 0.0, 0.0, "undecided"),            # without a margin nothing does not differ
    (0.0, 0.02, 0.05, 0.0, "undecided"),
])  # fmt: skip
def test_the_word_follows_from_interval_p_and_margin(low, high, p, margin, word):
    assert verdict(low, high, p, margin=margin).word == word
    opposite = {"better": "worse", "worse": "better"}.get(word, word)
    assert verdict(-high, -low, p, margin=margin).word == opposite
    assert verdict(low, high, p, margin=margin, higher_is_better=False).word == opposite


def test_a_p_at_1_less_the_level_is_enough_at_any_level():
    for level, p in ((0.8, 0.2), (0.9, 0.1), (0.95, 0.05), (0.99, 0.01)):
        words = [verdict(0.01, 0.03, each, level).word for each in (p, p + 1e-9)]
        assert words == ["better", "undecided"]


def test_no_user_differs_unless_something_is_decided():
    for p, word in ((1.0, "no user differs"), (0.001, "no relevant difference")):
        assert verdict(-0.01, 0.01, p, margin=0.02, no_user_differs=True).word == word


def test_sentences(golden):
    missing, lift = Interval.missing(0.95, "t", "the metric has no bounds"), (0.1, 0.05, 0.15)
    of_all = ShownFigures(joint=Interval(-0.001, 0.05, 0.99, "t"), n_comparisons=1200, means=(0.2, 0.18), lift=lift)
    verdicts = [
        verdict(0.0123, 0.0345, 0.00421, names=("ALS", "popularity"), metric="ndcg@10"),
        verdict(0.01, 0.03, names=("als_v2", "als_v1")), verdict(0.01, 0.03, 1e-7, margin=0.005),
        verdict(-0.03, -0.01, 1e-7), verdict(-0.0003, 0.0002, 1e-7, margin=0.001), verdict(0.0, 0.0, 1e-7),
        verdict(-999, 30999, 1e-9), verdict(0.01, 0.03, shown=of_all), verdict(0.01, 0.03, margin=0.001, shown=of_all),
        verdict(0.01, 0.03, shown=of_all._replace(lift=(0.1, math.nan, math.nan))),
        verdict(-0.01, 0.01, 1.0, names=("copy", "als"), metric="rr", no_user_differs=True),
        *(verdict(0.01, 0.03, p, metric="novelty", higher_is_better=None) for p in (0.001, 0.3)),
        verdict(-0.03, -0.01, metric="latency_ms", higher_is_better=None, margin=0.005),
        verdict(0.01, 0.03, metric="percentile_rank", higher_is_better=False),
        verdict_of(missing, 1.0, difference=0.0, metric="dcg", no_user_differs=True),
        verdict_of(missing, math.nan, difference=math.nan),
    ]  # fmt: skip
    means = [(0.0406, 0.0318), (0.318, 0.31812), (1570.4, 1204.0), (1570.4, 1570.1), (999.7, 1e6), (123456.7, 95.0)]
    verdicts += [verdict(0.01, 0.03, shown=ShownFigures(means=each, lift=lift)) for each in [*means, (0.5, 0.5)]]
    golden("\n".join(f"{each.word}: {each.sentence}" for each in verdicts))


def test_a_percentage_that_rounds_to_0_has_no_sign():
    texts = [percent(share) for share in (0.28, -0.035, 0.0042, -0.00004, 0.0, -0.00006)]
    assert texts == ["+28%", "-3.5%", "+0.42%", "0.00%", "0.00%", "-0.01%"]


RNG = np.random.default_rng(111)
THEIRS = {"holm": "holm", "benjamini_hochberg": "fdr_bh"}
FAMILIES = [RNG.random(40) ** 6, *map(np.array, ([0.01, 0.01, 0.04, 0.04, 1.0], [0.0, 1e-300, 0.5], [0.3]))]


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
    ("p", "method", "says"), [(0.5, "bonferoni", "holm"), (1.2, "holm", "1.2"), (-0.1, "none", "0.1")]
)
def test_what_is_no_p_value_or_no_correction_is_refused(p, method, says):
    with pytest.raises(OptionError, match=says):
        adjusted([p], method)


@settings(max_examples=60, derandomize=True)
@given(st.lists(st.floats(1e-6, 1) | st.just(math.nan), min_size=1, max_size=8), st.sampled_from([0.9, 0.95]))
def test_an_interval_of_a_family_leaves_out_0_if_and_only_if_the_comparison_is_decided(p_values, level):
    n = sum(not math.isnan(p) for p in p_values)
    for method in THEIRS:
        family = family_of(p_values, method, level)
        n_decided = sum(joint.p <= 1 - level + 1e-12 for joint in family)
        for joint, p in zip(family, p_values, strict=True):
            if not math.isnan(p) and not math.isclose(p, 1 - joint.level, rel_tol=1e-6):
                assert (p < 1 - joint.level) == (joint.p <= 1 - level + 1e-12)
            # The expected share of intervals of decided comparisons that miss is bounded (Benjamini and Yekutieli 2005).
            assert level - 1e-12 <= 1 - (1 - level) * max(n_decided, 1) / max(n, 1) - 1e-12 <= joint.level or n < 2
    alone = family_of(p_values, "none", level)
    assert alone == [Joint(pytest.approx(p, nan_ok=True), level) for p in p_values]


@pytest.mark.parametrize(
    ("p_headline", "expected"),
    [(0.01, [0.01, 0.03, 0.04]), (0.035, [0.035, 0.035, 0.04]), (0.3, [0.3, 0.3, 0.3]), (math.nan, [math.nan, 1, 1])],
)
def test_other_metrics_wait_for_the_headline(p_headline, expected):
    judged = headline_first([p_headline, 0.015, 0.04], 0.95, [True, False, False], ["als"] * 3)
    assert [joint.p for joint in judged] == pytest.approx(expected, nan_ok=True)
    # Holm decides both of the others, the last one at the whole level.
    assert [joint.level for joint in judged] == pytest.approx([0.95, 0.95, 0.95])
    assert [joint.n for joint in judged] == [1, 2, 2]


def test_every_model_has_a_sequence_of_its_own_and_they_share_the_error():
    p_values, models = [0.01, 0.6, 0.004, 0.02], ["als", "pop", "als", "pop"]
    judged = headline_first(p_values, 0.95, [True, True, False, False], models)
    assert [joint.p for joint in judged] == pytest.approx([0.02, 1.0, 0.02, 1.0])
    assert {(round(joint.level, 12), joint.n) for joint in judged} == {(0.975, 2)}
