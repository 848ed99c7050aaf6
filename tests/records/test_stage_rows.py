"""The tables, sentences and parts of the chart of a funnel, from rows without Spark."""

import math
from dataclasses import replace

import pytest
from worlds.summary_rows import row, undefined

from spark_rankeval.records.stage_rows import (
    FIGURES,
    StageRow,
    funnel_tables,
    stage_bars,
    stage_estimates,
    stages_in_words,
)
from spark_rankeval.table_writers import as_text
from spark_rankeval.tables import Document

MEANS = {"ann": (0.75, 0.25, 0.0, 0.25, 0.9375), "rerank": (0.5, 0.375, 0.125, 0.5, 0.625)}


def stage_row(stage, k, slice_="all", **others):
    figures = {
        name: row(f"{'ndcg' if name in FIGURES[3:] else name}@{k}", mean, slice=slice_, model=stage)
        for name, mean in zip(FIGURES, MEANS[stage], strict=True)
    }
    return StageRow(stage, k, slice_, **figures | others)


ROWS = [stage_row("ann", 100), stage_row("rerank", 5)]


def text_of(rows):
    return as_text(Document(funnel_tables(rows)))


def test_figures_stand_with_their_intervals_and_the_first_stage_adds_nothing():
    lines = [line.split() for line in text_of(ROWS).splitlines()]
    assert ["ann", "100", "0.7500", "[0.7300,", "0.7700]", "0.2500", "[0.2300,", "0.2700]", "–", "1,200"] in lines
    assert ["rerank", "5", "0.5000", "[0.4800,", "0.5200]", "0.6250", "[0.6050,", "0.6450]", "1,200"] in lines
    assert "in brackets: 95% interval (t)" in text_of(ROWS)
    assert "slice" not in text_of(ROWS)


def test_slices_stand_below_one_another():
    text = text_of([*ROWS, stage_row("ann", 100, "country=DE"), stage_row("rerank", 5, "country=DE")])
    assert [line.split()[0] for line in text.splitlines() if " ann " in line] == ["all", "country=DE"] * 2


def test_figures_without_an_interval_are_named_by_their_stage_and_those_of_another_kind_have_a_letter():
    no_interval = row("added@5", 0.0, no_interval="one user", interval_low=math.nan, interval_high=math.nan)
    other = replace(ROWS[1].reached, interval_method="clopper_pearson")
    rows = [ROWS[0], replace(ROWS[1], added=no_interval, reached=other)]
    assert "no interval for added of rerank: one user" in text_of(rows)
    assert "0.5000 [0.4800, 0.5200] c" in text_of(rows)
    assert "c: Clopper-Pearson interval" in text_of(rows)


def test_without_intervals_there_are_none():
    missing = {
        "interval_method": "",
        "no_interval": "not asked for",
        "interval_low": math.nan,
        "interval_high": math.nan,
    }
    plain = [replace(one, **{name: replace(getattr(one, name), **missing) for name in FIGURES}) for one in ROWS]
    assert "[" not in text_of(plain)
    assert "interval" not in text_of(plain)


def test_sentences_say_what_is_lost_and_what_is_left():
    assert list(stages_in_words(ROWS)) == [
        "ann loses 25.0% of the relevant items; recall@100 is 75.0%. ndcg@100 is 0.2500, and these items allow 0.9375.",
        "rerank loses 37.5% of the relevant items and adds 12.5%; recall@5 is 50.0%. ndcg@5 is 0.5000, and these items allow "
        "0.6250.",
    ]


def test_the_parts_of_a_bar_add_up_to_what_came_in_and_was_added():
    bars = stage_bars(ROWS)
    assert [(bar.place, bar.kept, bar.added, bar.lost) for bar in bars] == [
        ("ann, first 100", 0.75, 0.0, 0.25),
        ("rerank, first 5", 0.375, 0.125, 0.375),
    ]
    assert (bars[1].low, bars[1].high) == (0.48, 0.52)
    assert [(each.series, each.place, each.value) for each in stage_estimates(ROWS)[2:]] == [
        ("reached", "rerank, first 5", 0.5),
        ("ceiling", "rerank, first 5", 0.625),
    ]


def test_a_record_has_every_figure_with_its_ends():
    record = ROWS[1].record()
    assert (record["stage"], record["k"], record["slice"], record["metric"]) == ("rerank", 5, "all", "ndcg@5")
    assert (record["lost"], record["lost_low"], record["lost_high"]) == pytest.approx((0.375, 0.355, 0.395))
    assert set(FIGURES) <= set(record)
    empty = stage_row("ann", 100, recall=undefined("recall@100"))
    assert empty.record()["n_users"] == 0
