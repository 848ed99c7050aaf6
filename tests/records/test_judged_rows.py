"""The notes of a comparison say what its intervals and p-values are corrected for, and why a verdict is not that of its interval."""

from dataclasses import replace

import pytest
from worlds.summary_rows import difference, pair

from spark_rankeval.comparison.comparison_results import ModelComparison, PairwiseComparison
from spark_rankeval.records.judged_rows import joined_in_words

ALONE = "to_pandas() also has each one alone"
#: An interval that leaves a difference open, and a verdict that does.
WIDE, OPEN = {"joint_low": -0.01, "joint_high": 0.07}, {"verdict": "undecided", "p": 0.2}
HOLM = "Holm's steps decide what Bonferroni's wider interval leaves open"
SIGNS_DECIDE = "the sign-flip test decides what the interval leaves open"
SIGNS_DO_NOT = "the sign-flip test leaves open what the interval decides"
FEW = "p allows for few users and leaves open what the interval decides"
BY_HEADLINE = "undecided although the interval decides, because ndcg@10 is undecided"


def comparison(rows, correction="holm", headline=""):
    return ModelComparison(
        tuple(rows), 0.95, "sign_flip", 999, 0, baseline="popularity", correction=correction, headline=headline
    )


def notes_beside(name, *args, **others):
    """The notes of a comparison that stand beside a name."""
    lines = repr(comparison(*args, **others)).splitlines()
    return [line.removeprefix(name).strip() for line in lines if line.startswith(f"{name} ")]


@pytest.mark.parametrize(("figures", "says"), [
    ({}, ""),
    (WIDE, HOLM),
    (WIDE | {"p_test": "exact", "p_sign_flip": 0.02}, HOLM),
    (WIDE | {"p_test": "exact", "p_sign_flip": 0.01}, SIGNS_DECIDE),
    (OPEN | {"p_test": "exact"}, SIGNS_DO_NOT),
    (OPEN | WIDE, ""),
    ({"margin": 0.02}, HOLM),
    ({"margin": 0.01}, ""),
    ({"margin": 0.04, "verdict": "no relevant difference"}, HOLM),
    ({"margin": 0.05, "verdict": "no relevant difference"}, ""),
    (OPEN | {"margin": 0.02}, ""),
    (OPEN | {"margin": 0.05}, FEW),
])  # fmt: skip
def test_a_note_says_why_a_verdict_is_not_that_of_its_interval(figures, says):
    rows = [difference(n_joint=4, **figures), difference("mrr", n_joint=4)]
    together = f"the intervals of 4 comparisons hold together (Bonferroni); {ALONE}"
    assert notes_beside("interval", rows) == [together, *([f"{says}: ndcg@10 of als"] if says else [])]


def test_benjamini_and_hochberg_have_no_steps_of_holm():
    rows = [difference(n_joint=2, p_test="sign_flip", p_sign_flip=0.04, **WIDE), difference("mrr", n_joint=2)]
    assert notes_beside("interval", rows, "benjamini_hochberg") == [
        f"the intervals of 2 comparisons hold together (Benjamini-Yekutieli); {ALONE}",
        f"{SIGNS_DECIDE}: ndcg@10 of als",
    ]


def test_a_single_comparison_is_not_corrected_for_others():
    assert notes_beside("interval", [difference(p_test="exact", **OPEN)]) == [f"{SIGNS_DO_NOT}: ndcg@10 of als"]
    assert notes_beside("p", [difference()]) == ["from the sign-flip randomisation test with 999 replicates"]


def test_notes_say_how_a_headline_and_other_metrics_are_corrected():
    first, gated, wide = (
        difference(verdict="undecided", p=0.3, **WIDE),
        difference("mrr", verdict="undecided", p=0.3),
        difference("rr", verdict="undecided", p=0.3, **WIDE),
    )
    assert notes_beside("p", [first, gated], headline="ndcg@10")[0].endswith(", each metric alone, ndcg@10 first")
    assert notes_beside("interval", [first, gated], headline="ndcg@10") == [f"{BY_HEADLINE}: mrr of als"]
    rows = [first, replace(gated, n_joint=2), replace(wide, n_joint=2)]
    says = ", ndcg@10 alone, other metrics corrected for 2 comparisons (holm)"
    assert notes_beside("p", rows, headline="ndcg@10")[0].endswith(says)
    together = "the intervals of 2 other comparisons hold together (Bonferroni)"
    assert notes_beside("interval", rows, headline="ndcg@10") == [
        f"{together}, that of ndcg@10 stands alone; {ALONE}", f"{BY_HEADLINE}: mrr of als",
    ]  # fmt: skip
    assert joined_in_words(rows) == ", wide enough for both comparisons at once (ndcg@10: alone)"
    assert joined_in_words(rows[1:]) == ", wide enough for both comparisons at once"
    assert joined_in_words(rows[:1]) == ""
    # The row is open by its own p, whatever the headline says.
    own = [first, replace(gated, p=0.4, n_joint=2, p_test="exact"), rows[2]]
    assert notes_beside("interval", own, headline="ndcg@10")[1:] == [f"{SIGNS_DO_NOT}: mrr of als"]


def test_a_p_that_the_headline_or_the_replicates_limit_is_explained():
    first = difference(p_test="sign_flip", p_sign_flip=0.001, p=0.001)
    hits = difference("hit_rate@10", p_test="exact", p_sign_flip=1e-9, p=0.001)
    shown = repr(comparison([first, hits, difference("mrr", p_test="exact", p=0.04)], headline="ndcg@10")).splitlines()
    assert "p as small as 999 replicates can show, 1/1,000 before correction: ndcg@10 of als" in shown
    assert "p no smaller than that of ndcg@10, which is tested first: hit_rate@10 of als" in shown
    assert "no smaller than" not in repr(comparison([first, hits]))
    assert "no smaller than" not in repr(comparison([first, replace(hits, model="bpr")], headline="ndcg@10"))
    margin = {"margin": 0.01, "p_test": "t", "p": 0.001}
    for p_margin, n in ((0.0005, 1), (0.001, 0)):
        rows = [difference(p_margin=0.001, **margin), difference("mrr", p_margin=p_margin, **margin)]
        assert repr(comparison(rows, headline="ndcg@10")).count("no smaller than") == n
    randomised = PairwiseComparison(
        (pair(p_randomised=0.001, p=0.001), pair("mrr", p_randomised=0.004)), 0.95, "randomised", 999, 0
    )
    assert "p as small as 999 replicates can show, 1/1,000: ndcg@10 of als and popularity" in repr(randomised)
    assert "as small as" not in repr(replace(randomised, test="tukey"))


def test_several_models_share_the_error_of_a_headline():
    metrics = {"ndcg@10": 2, "mrr": 4, "rr": 4}
    rows = [difference(metric, model, n_joint=n) for metric, n in metrics.items() for model in ("als", "bpr")]
    says = ", ndcg@10 corrected for 2 models, other metrics corrected for 4 comparisons (holm)"
    assert notes_beside("p", rows, headline="ndcg@10")[0].endswith(says)
    together = "the intervals of 4 other comparisons hold together (Bonferroni), as do those of ndcg@10 for 2 models"
    assert notes_beside("interval", rows, headline="ndcg@10") == [f"{together}; {ALONE}"]
    assert notes_beside("p", rows[:2], headline="ndcg@10")[0].endswith(", corrected for 2 comparisons (holm)")
    together = "the intervals of 2 comparisons hold together (Bonferroni)"
    assert notes_beside("interval", rows[:2], headline="ndcg@10") == [f"{together}; {ALONE}"]


def test_only_sessions_say_what_to_call_for_single_intervals():
    compared = comparison([difference(n_joint=2), difference("mrr", n_joint=2)])
    assert ALONE in repr(compared)
    for text in (compared.to_text(), compared.to_markdown(), compared.to_latex()):
        assert "the intervals of 2 comparisons hold together" in text
        assert "to_pandas" not in text
