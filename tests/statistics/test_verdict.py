import math

import pytest

from spark_rankeval.statistics.intervals import Interval
from spark_rankeval.statistics.verdicts import ShownFigures, percent, verdict_of


def verdict(low, high, p=0.001, **options):
    return verdict_of(Interval(low, high, 0.95, "t"), p, difference=(low + high) / 2, **options)


@pytest.mark.parametrize(("low", "high", "p", "margin", "word"), [
    (0.01, 0.03, 0.001, 0.0, "better"),
    (-0.03, -0.01, 0.001, 0.0, "worse"),
    (-0.01, 0.03, 0.3, 0.0, "undecided"),
    (0.01, 0.03, 0.05, 0.0, "better"),
    (0.01, 0.03, 0.2, 0.0, "undecided"),          # not after correction for the other comparisons
    (0.01, 0.03, math.nan, 0.0, "undecided"),
    (0.01, 0.03, 0.001, 0.005, "better"),
    (0.01, 0.03, 0.001, 0.02, "undecided"),       # there is a difference, and whether it matters is open
    (0.0001, 0.0004, 1e-9, 0.001, "no relevant difference"),
    (-0.0009, 0.0004, 0.01, 0.001, "no relevant difference"),
    (-0.001, 0.001, 0.05, 0.001, "no relevant difference"),
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


@pytest.mark.parametrize(("level", "p"), [(0.8, 0.2), (0.9, 0.1), (0.95, 0.05), (0.99, 0.01)])
def test_a_p_at_1_less_the_level_is_enough_at_any_level(level, p):
    assert verdict_of(Interval(0.01, 0.03, level, "t"), p, difference=0.02).word == "better"
    assert verdict_of(Interval(0.01, 0.03, level, "t"), p + 1e-9, difference=0.02).word == "undecided"


def test_the_sentence_has_the_models_the_metric_and_the_figures():
    result = verdict(0.0123, 0.0345, 0.00421, names=("ALS", "popularity"), metric="ndcg@10")
    assert result.sentence == (
        "ALS is better than popularity on ndcg@10 (difference +0.0234, 95% interval +0.0123 to +0.0345, p = 0.0042)."
    )


@pytest.mark.parametrize(("low", "high", "margin", "says"), [
    (0.01, 0.03, 0.005, "The model is better than the baseline on the metric by more than a margin of 0.005 ("),
    (-0.03, -0.01, 0.0, "The model is worse than the baseline on the metric ("),
    (-0.0003, 0.0002, 0.001, "The model and the baseline differ by less than a margin of 0.001 on the metric ("),
    (0.0, 0.0, 0.0, "Whether the model is better or worse than the baseline on the metric is undecided ("),
    (-0.01, 0.02, 0.0, "Whether the model is better or worse than the baseline on the metric is undecided ("),
])  # fmt: skip
def test_sentences(low, high, margin, says):
    result = verdict(low, high, 1e-7, margin=margin)
    assert result.sentence.startswith(says)
    assert result.sentence.endswith("p < 0.0001).")


@pytest.mark.parametrize(("means", "words"), [
    ((0.0406, 0.0318), "0.0318 → 0.0406"),
    ((0.318, 0.31812), "0.3181 → 0.3180"),
    ((1570.4, 1204.0), "1,204 → 1,570"),
    ((1570.4, 1570.1), "1,570.1 → 1,570.4"),
    ((999.7, 1e6), "1,000,000 → 1,000"),
    ((123456.7, 95.0), "95.0 → 123,457"),
])  # fmt: skip
def test_large_means_are_written_out(means, words):
    result = verdict(0.01, 0.03, shown=ShownFigures(means=means, lift=(0.1, 0.05, 0.15)))
    assert f"(+10%, {words}; 95% interval +5.0% to +15%, p = 0.0010)." in result.sentence


def test_a_verdict_says_that_no_user_differs_unless_something_is_decided():
    same = verdict(-0.01, 0.01, 1.0, names=("copy", "als"), metric="rr", no_user_differs=True)
    assert same.word == "no user differs"
    assert same.sentence == (
        "No user differs between copy and als on rr (difference 0, 95% interval -0.01 to +0.01, p = 1.0000)."
    )
    assert verdict(-0.01, 0.01, 0.001, margin=0.02, no_user_differs=True).word == "no relevant difference"
    missing = Interval.missing(0.95, "t", "the metric has no bounds")
    without = verdict_of(missing, 1.0, difference=0.0, metric="dcg", no_user_differs=True)
    assert without.word == "no user differs"
    assert without.sentence == "No user differs between the model and the baseline on dcg (p = 1.0000)."


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.28, "+28%"), (-0.035, "-3.5%"), (0.0042, "+0.42%"), (-0.00004, "0.00%"), (0.0, "0.00%"), (-0.00006, "-0.01%")],
)
def test_a_percentage_that_rounds_to_0_has_no_sign(share, text):
    assert percent(share) == text


def test_large_differences_are_written_out():
    assert "(difference +15,000, 95% interval -999 to +30,999, p < 0.0001)." in verdict(-999, 30999, 1e-9).sentence


def test_a_name_stays_as_it_is_spelled():
    assert verdict(0.01, 0.03, names=("als_v2", "als_v1")).sentence.startswith("als_v2 is better than als_v1 on ")


def test_without_an_interval_nothing_can_be_said_and_the_reason_is():
    result = verdict_of(Interval.missing(0.95, "t", "no user"), math.nan, difference=math.nan)
    assert result.word == "undecided"
    assert result.sentence == "Nothing can be said of the model and the baseline on the metric: no user."
