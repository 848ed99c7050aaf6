"""The word of a verdict follows from interval, p and margin; its sentences are stored texts."""

import math

import pytest

from spark_rankeval.statistics.intervals import Interval
from spark_rankeval.statistics.verdicts import ShownFigures, percent, verdict_of


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


def test_a_p_at_1_less_the_level_is_enough_at_any_level():
    for level, p in ((0.8, 0.2), (0.9, 0.1), (0.95, 0.05), (0.99, 0.01)):
        words = [verdict(0.01, 0.03, each, level).word for each in (p, p + 1e-9)]
        assert words == ["better", "undecided"]


def test_no_user_differs_unless_something_is_decided():
    words = [verdict(-0.01, 0.01, p, margin=0.02, no_user_differs=True).word for p in (1.0, 0.001)]
    assert words == ["no user differs", "no relevant difference"]


def test_sentences(golden):
    missing, lift = Interval.missing(0.95, "t", "the metric has no bounds"), (0.1, 0.05, 0.15)
    of_all = ShownFigures(joint=Interval(-0.001, 0.05, 0.99, "t"), n_comparisons=1200, means=(0.2, 0.18), lift=lift)
    verdicts = [
        verdict(0.0123, 0.0345, 0.00421, names=("ALS", "popularity"), metric="ndcg@10"),
        verdict(0.01, 0.03, names=("als_v2", "als_v1")),
        verdict(0.01, 0.03, 1e-7, margin=0.005),
        verdict(-0.03, -0.01, 1e-7),
        verdict(-0.0003, 0.0002, 1e-7, margin=0.001),
        verdict(0.0, 0.0, 1e-7),
        verdict(-999, 30999, 1e-9),
        verdict(0.01, 0.03, shown=of_all),
        verdict(0.01, 0.03, margin=0.001, shown=of_all),
        verdict(0.01, 0.03, shown=of_all._replace(lift=(0.1, math.nan, math.nan))),
        verdict(-0.01, 0.01, 1.0, names=("copy", "als"), metric="rr", no_user_differs=True),
        verdict_of(missing, 1.0, difference=0.0, metric="dcg", no_user_differs=True),
        verdict_of(missing, math.nan, difference=math.nan),
    ]
    means = [(0.0406, 0.0318), (0.318, 0.31812), (1570.4, 1204.0), (1570.4, 1570.1), (999.7, 1e6), (123456.7, 95.0)]
    verdicts += [verdict(0.01, 0.03, shown=ShownFigures(means=each, lift=lift)) for each in means]
    golden("\n".join(f"{each.word}: {each.sentence}" for each in verdicts))


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.28, "+28%"), (-0.035, "-3.5%"), (0.0042, "+0.42%"), (-0.00004, "0.00%"), (0.0, "0.00%"), (-0.00006, "-0.01%")],
)
def test_a_percentage_that_rounds_to_0_has_no_sign(share, text):
    assert percent(share) == text
