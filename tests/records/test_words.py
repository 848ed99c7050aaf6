"""Words beside comparisons, funnels and counts: what figures are corrected for, and whom they are of."""

import math

import pytest
from helpers.scenes import scene
from worlds.summary_rows import QUALITY, comparison_of, difference, pair, pairs_of, replace, row, undefined

from spark_rankeval.printed_tables import Document, as_text
from spark_rankeval.records import cross_table
from spark_rankeval.records.comparisons import answers
from spark_rankeval.records.judges import joined_in_words
from spark_rankeval.records.quality import DataQuality, quality_notes, quality_table

# --- comparisons

#: An interval that leaves a difference open, and a verdict that does.
WIDE, OPEN = {"joint_low": -0.01, "joint_high": 0.07}, {"verdict": "undecided", "p": 0.2}
MARGIN = {"margin": 0.01, "p_test": "t", "p": 0.001}
WAITING = difference(verdict="undecided", p=0.3, **WIDE)
GATED = [
    difference("mrr", verdict="undecided", p=0.3, n_joint=2),
    difference("rr", n_joint=2, **OPEN | {"p": 0.3}, **WIDE),
]
FLIPPED = difference(p_test="sign_flip", p_sign_flip=0.001, p=0.001)
HITS = difference("hit_rate@10", p_test="exact", p_sign_flip=1e-9, p=0.001)
OF_TWO = [
    difference(metric, model, n_joint=n) for metric, n in (("ndcg@10", 2), ("mrr", 4), ("rr", 4)) for model in ("als", "bpr")
]  # fmt: skip


CORRECTED = {
    "Benjamini and Hochberg": [difference(n_joint=2), difference("mrr", n_joint=2)],
    "few users differ far more than others": [difference(interval_method="score"), difference("mrr")],
    "a single comparison is not corrected": [difference(p_test="exact", **OPEN)],
    "no headline limits p": [FLIPPED, HITS],
}  # fmt: skip
BESIDE_A_HEADLINE = {
    "each metric alone, the headline first": [WAITING, replace(GATED[0], n_joint=1)],
    "others are corrected beside a headline": [WAITING, *GATED],
    "a row that is open by its own p": [WAITING, replace(GATED[0], p=0.4, p_test="exact"), GATED[1]],
    "the least p": [FLIPPED, HITS, difference("mrr", p_test="exact", p=0.04)],
    "a headline limits p of its own model": [FLIPPED, replace(HITS, model="bpr")],
    "p of a margin that is less": [difference(p_margin=0.001, **MARGIN), difference("mrr", p_margin=0.0005, **MARGIN)],
    "p of a margin that is as large": [
        difference(p_margin=0.001, **MARGIN),
        difference("mrr", p_margin=0.001, **MARGIN),
    ],
    "models share the error of a headline": OF_TWO,
    "models share the error of a headline alone": OF_TWO[:2],
}


@pytest.mark.parametrize("name", CORRECTED | BESIDE_A_HEADLINE)
def test_notes_say_what_figures_are_corrected_for(golden, name):
    options = {"correction": "benjamini_hochberg"} if name.startswith("Benjamini") else {}
    options |= {"headline": "ndcg@10"} if name in BESIDE_A_HEADLINE else {}
    shown = comparison_of((CORRECTED | BESIDE_A_HEADLINE)[name], **options).explain()
    golden("\n".join(line for line in shown.splitlines() if not line.startswith("lift")))


def test_the_least_p_of_pairs_is_that_of_the_replicates(golden):
    rows = (pair(p_randomised=0.001, p=0.001), pair("mrr", p_randomised=0.004))
    golden(scene(pairs_of(rows, "randomised", 999), pairs_of(rows, "tukey", 999)))


def test_intervals_are_corrected_for_several_comparisons_in_words():
    assert joined_in_words([WAITING, *GATED]) == ", corrected for 2 comparisons"
    assert joined_in_words(GATED, "holm") == ", corrected for 2 comparisons (holm)"
    assert joined_in_words([WAITING]) == ""


def test_only_sessions_say_what_to_call_for_single_intervals():
    compared = comparison_of([difference(n_joint=2), difference("mrr", n_joint=2)])
    assert "to_pandas() also has each one alone" in compared.explain()
    assert "to_pandas" not in compared.to_text()
    for text in (compared.to_markdown(), compared.to_latex()):
        assert "corrected as p is; each holds with 95% or more, all together may not" in text
        assert "to_pandas" not in text


def test_a_page_says_what_a_difference_means_for_users():
    rows = [difference(), difference("recall@10", value=0.0125)]
    counts = "500 users gain, 300 lose, and 400 see no change"
    of_labels = {"ndcg@10": "ndcg@10", "recall@10": "recall(denominator='labels')@10"}
    assert answers(rows, "", of_labels) == [
        "With als instead of popularity, on average 26.2% instead of 25.0% of a user's relevant items are in the first 10. "
        f"By ndcg@10, {counts}."
    ]
    # Another denominator has other words, or none.
    for definition in ("recall(denominator='min_k_labels')@10", "recall(denominator='labels', ceiling=20)@10"):
        of_k = of_labels | {"recall@10": definition}
        assert answers(rows, "", of_k) == [f"With als instead of popularity, {counts} by ndcg@10."]
    # Of a metric that describes lists, and of a column, nobody said which way is better.
    assert answers(rows, "", {}) == [
        "With als instead of popularity, 500 users have a higher value, 300 a lower one, and 400 see no change by ndcg@10."
    ]
    of_places = {"precision@5": "precision(denominator='k')@5", "hit_rate@5": "hit_rate()@5"}
    assert [
        answers([difference(metric)], "", of_places)[0].partition(", ")[2].partition(". ")[0] for metric in of_places
    ] == [
        "on average 28.0% instead of 25.0% of the first 5 items are relevant",
        "28.0% instead of 25.0% of the users have a relevant item in the first 5",
    ]


# --- funnels


MEANS = {"ann": (0.75, 0.25, 0.0, 0.25, 0.9375), "rerank": (0.5, 0.375, 0.125, 0.5, 0.625)}


def stage_row(stage, k, slice_="all", **others):
    figures = {
        name: row(f"{'ndcg' if name in cross_table.FIGURES[3:] else name}@{k}", mean, slice=slice_, model=stage)
        for name, mean in zip(cross_table.FIGURES, MEANS[stage], strict=True)
    }
    return cross_table.StageRow(stage, k, slice_, **figures | others)


STAGES = [stage_row("ann", 100), stage_row("rerank", 5)]


def test_a_funnel_in_tables_and_sentences(golden):
    """The first stage adds nothing; slices stand below one another; odd intervals are named by their stage."""
    german = [stage_row("ann", 100, "country=DE"), stage_row("rerank", 5, "country=DE")]
    none = row("added@5", 0.0, no_interval="one user", interval_low=math.nan, interval_high=math.nan)
    odd = replace(STAGES[1], added=none, reached=replace(STAGES[1].reached, interval_method="clopper_pearson"))
    missing = {"interval_method": "", "no_interval": "not asked for"} | dict.fromkeys(
        ("interval_low", "interval_high"), math.nan
    )
    plain = [
        replace(one, **{name: replace(getattr(one, name), **missing) for name in cross_table.FIGURES}) for one in STAGES
    ]
    shown = (STAGES, [*STAGES, *german], [STAGES[0], odd], plain)
    golden(
        scene(
            *(as_text(Document(cross_table.funnel_tables(rows))) for rows in shown),
            *cross_table.stages_in_words(STAGES),
        )
    )


def test_the_parts_of_a_bar_add_up_to_what_came_in_and_was_added():
    bars = cross_table.stage_bars(STAGES)
    assert [(bar.place, bar.kept, bar.added, bar.lost) for bar in bars] == [
        ("ann, first 100", 0.75, 0.0, 0.25),
        ("rerank, first 5", 0.375, 0.125, 0.375),
    ]
    assert (bars[1].low, bars[1].high) == (0.48, 0.52)
    assert [(each.series, each.place, each.value) for each in cross_table.stage_estimates(STAGES)[2:]] == [
        ("reached", "rerank, first 5", 0.5),
        ("ceiling", "rerank, first 5", 0.625),
    ]


def test_a_record_of_a_stage_has_every_figure_with_its_ends():
    record = STAGES[1].record()
    assert (record["stage"], record["k"], record["slice"], record["metric"]) == ("rerank", 5, "all", "ndcg@5")
    assert (record["lost"], record["lost_low"], record["lost_high"]) == pytest.approx((0.375, 0.355, 0.395))
    assert set(cross_table.FIGURES) <= set(record)
    assert stage_row("ann", 100, recall=undefined("recall@100")).record()["n_users"] == 0


# --- counts of users and rows


def test_what_depends_on_predictions_is_added_up_over_models():
    """Users and labels are the same for all models."""
    added = {
        "n_without_predictions", "n_hanging_on_ties", "n_predictions", "n_invalid_predictions", "n_duplicate_predictions", "n_excluded",
        "n_infinite_scores", "n_left_out", "n_in_both", "n_labels_without_vector",
    }  # fmt: skip
    counts = {name: 10 + place for place, name in enumerate(QUALITY.to_dict())}
    quality = QUALITY.with_counts(**counts)
    together = type(quality).sum_of_models([quality, quality])
    assert together.to_dict() == {name: count * (2 if name in added else 1) for name, count in counts.items()}


def test_counts_that_are_0_for_all_models_are_only_counted():
    nothing = dict.fromkeys(QUALITY.to_dict(), 0)
    one, other = QUALITY.with_counts(**nothing), QUALITY.with_counts(**nothing | {"n_excluded": 3})
    table = quality_table({"als": one, "popularity": other})
    assert [[cell.text for cell in line] for line in table.rows] == [
        ["users", "0", "0"], ["predictions", "0", "0"], ["labels", "0", "0"], ["predictions excluded", "0", "3"],
    ]  # fmt: skip
    assert [note.text for note in table.notes] == ["22 other counts are 0"]


@pytest.mark.parametrize(
    "counts",
    [
        {"n_without_labels": 20, "n_in_both": 240},
        {"n_without_relevant": 1, "n_in_both": 300, "n_left_out": 1},
        {"n_without_labels": 20, "n_without_predictions": 30},
        {"n_without_labels": 300, "n_without_relevant": 300, "n_without_predictions": 3, "n_in_both": 0},
        dict.fromkeys(("n_users", "n_without_relevant", "n_in_both", "n_hanging_on_ties"), 0),
    ],
    ids=["some without labels", "one left out", "unknown who has both", "nobody with labels", "no users"],
)
def test_a_share_of_users_says_of_which_users_it_is(golden, counts):
    quality = DataQuality.of(**{"n_users": 300, "n_without_relevant": 30, "n_hanging_on_ties": 60, **counts})
    golden("\n".join(note.text for note in quality_notes(quality)))
