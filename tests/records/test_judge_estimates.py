"""Rows of means that two judges estimate: what they say, how they merge, and what does not take them for values of users."""

import math

import numpy as np
import pytest
from worlds.judged_users import estimated, result_of, rows_of, users
from worlds.summary_rows import replace, row

from spark_rankeval import labels_needed
from spark_rankeval.errors import InputError, MergeError, OptionError, UnknownMetricError
from spark_rankeval.evaluation.merge import merged_rows
from spark_rankeval.records.gaps import gap_rows
from spark_rankeval.records.judges import JudgedMeans, judged_rows, notes_judge_columns
from spark_rankeval.records.tables_of_means import rows_of_one_metric
from spark_rankeval.statistics.judged_queries import JudgedQueries
from spark_rankeval.statistics.judges import judged_estimate

ALL = users(400)
ROWS = rows_of(*ALL)


def test_a_row_counts_who_is_behind_the_estimate():
    human, judge, graded = ALL
    moments = JudgedQueries.from_values(human, judge, graded)
    made, expected = ROWS[0], judged_estimate(moments, bounds=(0, 1))
    n_open = int(((~graded | np.isnan(human)) & np.isnan(judge)).sum())
    assert (made.n_users, made.n_undefined) == (400 - n_open, n_open)
    assert (made.mean, made.standard_error, made.df) == (expected.value, expected.standard_error, expected.df)
    assert (made.interval_low, made.interval_high) == (expected.interval.low, expected.interval.high)
    assert made.effective_n_users == expected.effective_n > graded.sum()
    assert all(math.isnan(figure) for figure in (made.std, made.minimum, made.maximum))
    (read,) = judged_rows(ROWS)
    assert (read.estimate, read.metric, read.slice) == (expected, "ndcg@10", "all")


def test_an_interval_stays_within_the_bounds_of_its_metric():
    (rare,) = estimated(np.where(np.arange(40) == 3, 0.7, 0.0), np.zeros(40), np.arange(40) < 20)
    assert rare.interval_low == 0 < rare.mean < rare.interval_high


def test_parts_merge_to_the_whole_to_the_last_bit():
    human, judge, graded = ALL
    parts = {f"day {part}": estimated(human[part::3], judge[part::3], graded[part::3]) for part in range(3)}
    assert merged_rows(parts) == tuple(estimated(*ALL))


def test_a_day_that_nobody_graded_merges_with_days_of_any_draw():
    human, judge, graded = ALL
    weights = np.full(200, 4.0)
    drawn = estimated(human[:200], judge[:200], graded[:200], weights)
    nobody = estimated(human[200:], judge[200:], np.zeros(200, bool))
    (merged,) = merged_rows({"drawn": drawn, "nobody": nobody})
    whole = JudgedQueries.from_values(human, judge, np.where(np.arange(400) < 200, graded, False), np.full(400, 4.0))
    assert merged.mean == judged_estimate(whole, bounds=(0, 1)).value


@pytest.mark.parametrize(
    ("others", "words"),
    [
        (estimated(*ALL, np.full(400, 4.0)), "cannot be merged: graded users with weights"),
        (estimated(*ALL, strata=["de"] * 400), "cannot be merged: users of strata"),
        ([row()], "its interval is 'prediction_powered' in first, and 't' in second"),
        (ROWS, "metrics differ"),
        ([replace(ROWS[0], interval_level=0.9)], "its level is"),
        ([replace(ROWS[0], definition="ndcg(relevance_threshold=2)@10")], "its definition is"),
    ],
)
def test_what_is_estimated_merges_only_with_the_same(others, words):
    with pytest.raises(MergeError, match=words):
        merged_rows({"first": estimated(*ALL), "second": others})


def test_judges_who_changed_places_do_not_merge():
    turned = rows_of(*ALL, judges=("human", "llm"))
    with pytest.raises(MergeError, match="differ: llm before human in first, and human before llm in second"):
        merged_rows({"first": ROWS, "second": turned})


def test_a_name_means_what_both_judges_estimate():
    result = result_of(ROWS)
    assert result["ndcg@10"] == result["NDCG(k=10)"] == ROWS[0].mean
    assert result["ndcg@10 [llm]"] == ROWS[1].mean
    assert rows_of_one_metric(ROWS, "ndcg@10") == ROWS[:1]
    with pytest.raises(UnknownMetricError, match="ambiguous"):
        rows_of_one_metric(ROWS[1:], "ndcg@10")
    alone = result_of(ROWS[1:])
    with pytest.raises(UnknownMetricError, match="ambiguous"):
        _ = alone["ndcg@10"]
    with pytest.raises(InputError, match="relevance=Judged"):
        _ = alone.judged


def test_gaps_do_not_take_sums_of_two_judges_for_those_of_users():
    halves = {"country=DE": slice(0, 200), "country=FR": slice(200, 400)}
    sliced = [one for name, half in halves.items() for one in estimated(*(each[half] for each in ALL), slice_=name)]
    gaps = gap_rows([ROWS[0], *sliced], ["country"])
    assert all(math.isnan(gap.difference) and math.isnan(gap.p) and gap.no_interval for gap in gaps)
    assert "two judges estimate" in gaps[-1].no_interval


def test_plots_of_users_say_that_an_estimate_has_none():
    with pytest.raises(UnknownMetricError, match=r"ndcg@10 is estimated from two judges"):
        result_of(ROWS).plot.histogram("ndcg@10")


def test_the_table_says_what_each_judge_says_and_what_is_unknown():
    nobody = estimated(*ALL[:2], np.zeros(400, bool), slice_="country=DE")
    means = JudgedMeans(judged_rows([*ROWS, *nobody]), "human", "llm")
    lines = str(means).splitlines()
    whole, unknown = lines[2:4]
    assert whole.split()[0] == "ndcg@10"
    assert f"{ROWS[0].mean:.4f} [{ROWS[0].interval_low:.4f}, {ROWS[0].interval_high:.4f}]" in whole
    assert unknown.split()[-4:] == ["–", "0", "400", "–"]
    assert "nan" not in "".join(lines)
    (record, _) = means.to_pandas().to_dict("records")
    human = np.where(ALL[2], ALL[0], math.nan)
    assert record["human"] == pytest.approx(np.nanmean(human), rel=1e-15)
    assert record["judge"] == pytest.approx(np.nanmean(ALL[1]), rel=1e-15)
    assert record["human_low"] < record["human"] < record["human_high"]
    assert record["judge_low"] < record["judge"] < record["judge_high"]
    assert record["n_graded"] + record["n_others"] == 400
    assert record["gain"] == record["effective_n_graded"] / record["n_graded"] > 1
    assert 0 < record["weight_of_judge"] <= 1
    assert record["bias"] == pytest.approx(np.nanmean(ALL[1] - human), rel=1e-12)
    assert record["bias_low"] < record["bias"] < record["bias_high"]
    assert f"{record['bias']:+.4f}" in whole
    assert means.rows[0].labels_needed(0.05).with_judge < means.rows[0].labels_needed(0.05).by_hand


def test_a_bias_of_few_users_has_no_interval_and_a_note_says_why():
    human, judge, _ = ALL
    means = JudgedMeans(judged_rows(rows_of(human, judge, np.arange(400) < 12)), "human", "llm")
    reason = means.records()[0]["no_bias_interval"]
    assert reason.startswith("too few graded users: as good as ")
    assert f"the bias has no interval for ndcg@10 ({reason.partition(': ')[2]}): too few graded users" in str(means)


def test_notes_tell_of_a_draw_that_does_not_look_random_and_of_people_alone():
    human, judge, _ = ALL
    by_size = np.nan_to_num(judge) > np.nanquantile(judge, 0.6)
    (biased,) = judged_rows(rows_of(human, judge, by_size))
    assert biased.record()["p_of_draw"] == biased.draw.p < 0.01
    (note,) = notes_judge_columns([biased])
    assert note.startswith("the graded users do not look drawn at random")
    assert f"{biased.draw.graded_mean:.3g}" in note
    (fair,) = judged_rows(ROWS)
    assert notes_judge_columns([fair]) == []
    few = np.arange(400) < 10
    (alone,) = judged_rows(rows_of(human, judge, few))
    (note,) = notes_judge_columns([alone])
    why, _, numbers = alone.estimate.note.partition(": ")
    assert note == f"people alone count for ndcg@10 ({numbers}): {why}"
    assert notes_judge_columns([replace(alone, slice="country=DE")]) == []
    (nobody,) = judged_rows(estimated(human, judge, np.zeros(400, bool)))
    assert math.isnan(nobody.record()["p_of_draw"])


def test_the_number_of_labels_follows_the_pilot():
    (needed,) = labels_needed(result_of(ROWS), width=0.05).to_dict("records")
    (row,) = judged_rows(ROWS)
    figures = ("metric", "n_graded", "wanted", "n_clusters", "counted", "remark")
    assert [needed[name] for name in figures] == ["ndcg@10", row.estimate.n_graded, 0.05, 0, "users", ""]
    assert (needed["with_judge"], needed["by_hand"]) == row.labels_needed(0.05)
    assert needed["with_judge"] < needed["by_hand"]
    few = rows_of(*users(400, graded=0.03))
    assert judged_rows(few)[0].estimate.note
    (alone,) = labels_needed(result_of(few), width=0.05).to_dict("records")
    assert alone["with_judge"] is None
    n_graded = judged_rows(few)[0].estimate.human.n
    assert alone["remark"] == f"people alone count: too few graded users: as good as {n_graded}, and 20 are needed"


@pytest.mark.parametrize(
    ("result", "width", "error", "says"),
    [
        *((result_of(ROWS), width, OptionError, "positive number") for width in (0, -1, math.inf, "0.05", {"ndcg@10": 0}, {})),
        (result_of(ROWS), {"map": 0.05}, OptionError, "width names map, which the result does not have; it has ndcg@10"),
        (result_of([one for one in ROWS if one.relevance]), 0.05, InputError, "relevance=Judged"),
        (ROWS, 0.05, InputError, "takes a result"),
    ],
)  # fmt: skip
def test_numbers_of_labels_that_cannot_be_told_are_refused(result, width, error, says):
    with pytest.raises(error, match=says):
        labels_needed(result, width=width)


def test_each_metric_has_a_width_of_its_own_and_remarks_say_why_numbers_are_missing():
    human, judge, is_graded = ALL
    unlike = [replace(row, metric="rr") for row in rows_of(human, 1 - judge, is_graded)]
    result = result_of([*ROWS, *unlike])
    assert labels_needed(result, {"ndcg@10": 0.05})["metric"].tolist() == ["ndcg@10"]
    table = labels_needed(result, {"ndcg@10": 0.9, "rr": 0.001}).set_index("metric")
    assert table["wanted"].to_dict() == {"ndcg@10": 0.9, "rr": 0.001}
    assert table["remark"].to_dict() == {
        "ndcg@10": "the pilot's interval is narrow enough",
        "rr": "the model adds nothing to people's grades; people's grades of all 400 users are not enough",
    }
    (nobody,) = judged_rows(estimated(human, judge, np.zeros(400, bool)))
    (alike,) = judged_rows(estimated(np.ones(400), judge, is_graded))
    for each, why in ((nobody, "no user has human grades"), (alike, "all graded users have the same human value")):
        assert each.labels_needed(0.05) is None
        assert each.remark_on(None, 0.05) == f"the pilot tells too little: {why}"


def test_a_chart_has_a_mark_for_both_judges_and_one_for_each_alone():
    result = result_of(ROWS)
    records = next(iter(result.plot.judged().to_dict(validate=False)["datasets"].values()))
    (judged,) = result.judged.rows
    names = ("both", "human alone", "llm alone")
    assert {record["series"]: (record["value"], record["low"], record["high"]) for record in records} == {
        name: (value, *ends[:2]) for name, (value, ends) in zip(names, judged.means, strict=True)
    }
    with pytest.raises(InputError, match="relevance=Judged"):
        result_of([one for one in ROWS if one.relevance]).plot.judged()


@pytest.mark.usefixtures("without_charts")
def test_a_report_has_a_section_of_both_judges(tmp_path):
    page = result_of(ROWS).report(tmp_path / "page.html").read_text()
    assert "Means by human and model judges" in page
    assert "Means under &#39;human&#39;, with the grades of &#39;llm&#39;" in page
    alone = result_of([one for one in ROWS if one.relevance]).report(tmp_path / "other.html").read_text()
    assert "human and model judges" not in alone
