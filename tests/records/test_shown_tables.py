"""Tables that people read: names as asked for, one format a column, models side by side, comparisons in every form."""

import math
import re
from dataclasses import replace

import pytest
from worlds.summary_rows import (
    difference,
    models_rows,
    pair,
    row,
    summary_as_html,
    summary_as_latex,
    summary_as_markdown,
    summary_as_text,
)

from spark_rankeval.comparison.comparison_results import (
    ModelComparison,
    ModelRanks,
    PairwiseComparison,
    detectable_difference,
)
from spark_rankeval.errors import InputError, OptionError, UnknownMetricError
from spark_rankeval.evaluation.result import Result
from spark_rankeval.metrics.naming import parse_metrics
from spark_rankeval.records.comparison_rows import differences_table, first_sentences
from spark_rankeval.records.notes import definitions_table, notes_of
from spark_rankeval.records.pair_rows import RankRow, ranks_in_words
from spark_rankeval.records.summary import SummaryRow, means_table
from spark_rankeval.records.table_columns import MODEL_COMPARISON, PAIRS
from spark_rankeval.report.contents import quantiles_table
from spark_rankeval.report.result_charts import ResultPlots

NASTY = r"a<b> & d_e | 100% $x$ \z"


def result(rows):
    return Result(tuple(rows), {}, {}, (), None, None)


def comparison(rows, sliced=(), **others):
    return ModelComparison(tuple(rows), 0.95, "sign_flip", 999, 0, "popularity", "holm", tuple(sliced), **others)


def pairs(rows):
    return PairwiseComparison(tuple(rows), 0.95, "tukey", 0, 0)


MEANS = [
    *(row(mean=mean, model=model) for model, mean in (("als", 0.31), ("popularity", 0.28), ("random", 0.00012))),
    *(
        row("percentile_rank", mean=mean, model=model)
        for model, mean in (("als", 0.2), ("popularity", 0.2), ("random", 0.5))
    ),
]


def test_metrics_remember_what_they_were_called():
    asked = parse_metrics(["map@10", "AP@10", "ndcg@10", " hit @5", "MRR@1..2"])
    assert list(asked) == ["ap@10", "ndcg@10", "hit_rate@5", "rr@1", "rr@2"]
    assert asked.spelled == {"ap@10": "map@10", "hit_rate@5": "hit @5", "rr@1": "MRR@1", "rr@2": "MRR@2"}
    assert parse_metrics({"mine": "map@10"}).spelled == {}
    assert parse_metrics(asked).spelled == asked.spelled


def test_the_name_that_was_asked_for_is_shown_and_programs_have_the_label():
    rows = [row("ap@10", asked="map@10", standard="ap", standard_mean=0.1), row("ap@5", asked="map@5", slice="a=1")]
    for shown in (
        summary_as_text(rows, {}), summary_as_html(rows, {}), summary_as_markdown(rows), summary_as_latex(rows),
        *(str(table.rows) for table in (means_table("", rows), quantiles_table(rows))),
        *notes_of(rows), str(ResultPlots(tuple(rows), {}, [""], list).means().to_dict(validate=False)),
        definitions_table(rows).rows[0][0].text,
    ):  # fmt: skip
        assert "map@10" in shown
        assert not re.search(r"\bap@", shown), shown
    assert "mine [click]" in summary_as_text([row("ap@10", asked="mine", relevance="click")], {})
    assert result(rows).explain().splitlines()[:2] == ["map@10  ap@10", "map@5   ap@5"]
    frame = result(rows).to_pandas()
    assert frame["metric"].tolist() == ["ap@10", "ap@5"]
    assert frame["asked"].tolist() == ["map@10", "map@5"]
    assert result([row()]).to_pandas()["asked"].tolist() == ["ndcg@10"]
    assert result(rows)["map@10"] == result(rows)["ap@10"] == 0.25
    assert SummaryRow.from_stored(rows[0].stored()).name == "map@10"


def test_comparisons_show_the_name_that_was_asked_for():
    rows = [difference("ap@10", asked="map@10")]
    of_all = pairs([pair("ap@10", asked="map@10")])
    for shown in (repr(comparison(rows)), str(differences_table(rows, 0.95, "").rows), repr(of_all), of_all.to_latex()):
        assert "map@10" in shown
        assert " ap@10" not in shown
    chart = str(comparison(rows).plot().to_dict(validate=False))
    assert "'place': 'map@10'" in chart
    assert comparison(rows).to_pandas()[["metric", "asked"]].to_numpy().tolist() == [["ap@10", "map@10"]]


def test_frames_of_comparisons_have_the_options_and_the_names_that_were_asked_for():
    rows = [difference("ap@10", asked="map@10"), difference()]
    compared = comparison(rows, [replace(rows[0], slice="age=old")], headline="ap@10")
    for frame in (compared.to_pandas(), compared.slices, compared.largest_losses()):
        assert list(frame.columns) == MODEL_COMPARISON.names
    assert compared.to_pandas()[["asked", "level", "correction", "headline"]].to_numpy().tolist() == [
        ["map@10", 0.95, "holm", "map@10"], ["ndcg@10", 0.95, "holm", "map@10"],
    ]  # fmt: skip
    assert comparison(rows).to_pandas()["headline"].tolist() == ["", ""]
    assert list(pairs([]).to_pandas().columns) == PAIRS.names
    assert pairs([pair()]).to_pandas()["level"].tolist() == [0.95]
    for found in (compared, result([row("ap@10", asked="map@10"), row()])):
        frame = detectable_difference(found)
        assert frame[["metric", "asked"]].to_numpy().tolist()[:2] == [["ap@10", "map@10"], ["ndcg@10", "ndcg@10"]]
    assert detectable_difference(compared, "map@10")["slice"].tolist() == ["all", "age=old"]


def test_a_comparison_without_an_interval_says_why():
    none = {"interval_low": math.nan, "interval_high": math.nan, "no_interval": "one cluster has no spread"}
    for shown, figure in (
        (comparison([difference("rr", **none)]), "rr of als"),
        (comparison([difference("rr", slice="age=old", **none)]), "rr of als for users with age=old"),
        (pairs([pair("rr", **none)]), "rr of als and popularity"),
    ):
        assert f"no interval: {figure}: one cluster has no spread" in repr(shown)
    for shown in (comparison([difference("rr")]), pairs([pair("rr")])):
        assert "no interval" not in repr(shown)


@pytest.mark.parametrize(
    ("means", "shown"),
    [
        ((0.5, 0.00012), ["0.50000", "0.00012"]),
        ((0.5, 0.00005, 0.0), ["0.500000", "0.000050", "0.000000"]),
        ((0.5, 0.25), ["0.5000", "0.2500"]),
        ((0.5, 1e-12), ["5.0000e-01", "1.0000e-12"]),
        ((0.5, 2e6, math.nan), ["0.5000", "2000000.0000", "undefined"]),
        ((0.5, 2e12), ["5.0000e-01", "2.0000e+12"]),
    ],
)
def test_a_column_has_one_format(means, shown):
    rows = [row(f"ndcg@{k}", mean, interval_low=mean, interval_high=mean) for k, mean in enumerate(means, start=1)]
    lines = summary_as_text(rows, {}).splitlines()[2:]
    assert [line.split()[1] for line in lines] == shown
    assert [line.split()[2].strip("[,") for line in lines] == shown
    assert [cells[1].text for cells in means_table("", rows).rows] == shown
    differing = [difference(f"ndcg@{k}", value=mean, interval_low=mean) for k, mean in enumerate(means, start=1)]
    lines = repr(comparison(differing)).splitlines()[2 : 2 + len(means)]
    if not any(map(math.isnan, means)):
        # After the words "+12%", "+6% to +18%" of the lift.
        assert [line.split()[9].lstrip("+") for line in lines] == shown


def test_models_stand_in_one_table_and_the_best_are_marked():
    lines = repr(result(MEANS).models_table()).splitlines()
    assert lines == [
        "model        ndcg@10  percentile_rank",
        "als         0.31000*          0.2000*",
        "popularity  0.28000           0.2000*",
        "random      0.00012           0.5000",
        "*  the best mean of its column; compare tests whether the lead is decided",
        "means over 1,200 users",
        "smaller is better: percentile_rank",
    ]
    frame = result(MEANS).models_table(metrics="ndcg@10").to_pandas()
    assert frame.to_dict() == {"ndcg@10": {"als": 0.31, "popularity": 0.28, "random": 0.00012}}
    assert (frame.index.name, "*" in repr(result([row()]).models_table())) == ("model", False)
    holes = [*MEANS[:3], replace(MEANS[3], mean=math.nan, n_users=0)]
    assert [line.split()[1:] for line in repr(result(holes).models_table()).splitlines()[1:4]] == [
        ["0.31000*", "undefined"], ["0.28000", "–"], ["0.00012", "–"],
    ]  # fmt: skip
    assert "for whom its metric is defined, 0 to 1,200 of them" in repr(result(holes).models_table())
    with pytest.raises(UnknownMetricError, match="no metric 'rr'"):
        result(MEANS).models_table(metrics="rr")


@pytest.mark.parametrize(
    "show",
    [
        lambda shown: shown.models_table(metrics=[]),
        lambda shown: shown.table(metrics=[]),
        lambda shown: shown.plot.means([]),
        lambda shown: shown.plot.quantiles([]),
        lambda shown: shown.gaps("age", metrics=[]),
    ],
)
def test_no_metrics_are_an_error_that_says_so(show):
    with pytest.raises(OptionError, match="metrics is empty; name a metric"):
        show(result(MEANS))


def test_letters_say_than_which_models_a_mean_is_significantly_better():
    compared = comparison(
        [
            difference(),
            difference(model="random", value=-0.2, verdict="worse"),
            difference("percentile_rank", verdict="undecided"),
        ]
    )
    table = result(MEANS).models_table(compared)
    assert repr(table).splitlines()[:4] == [
        "   model         ndcg@10  percentile_rank",
        "a  als         0.31000 b           0.2000",
        "b  popularity  0.28000 c           0.2000",
        "c  random      0.00012             0.5000",
    ]
    assert "models were compared only with popularity" in repr(table)
    undecided = result(MEANS).models_table(comparison([difference(verdict="undecided", margin=0.01)]))
    assert repr(undecided).splitlines()[0].split() == ["model", "ndcg@10", "percentile_rank"]
    assert "no mean is significantly better than that of another model by more than the margin, according" in repr(
        undecided
    )
    every = pairs([pair(), pair(other="random"), pair(model="popularity", other="random", verdict="worse")])
    table = result(MEANS).models_table(every, metrics="ndcg@10")
    assert '<td style="text-align:right;white-space:nowrap"><b>0.31000</b><sup>bc</sup></td>' in table._repr_html_()
    assert "*  significantly better than every other model in its column" in repr(table)
    assert "the best mean of each metric is bold, if it is significantly better than every other;" in table.caption
    assert "| a | als | **0.31000**<sup>bc</sup> |" in table.to_markdown()
    assert r"a & als & \textbf{0.31000}\textsuperscript{bc} \\" in table.to_latex()
    assert r"c & random & 0.00012\textsuperscript{b\phantom{c}} \\" in table.to_latex(caption="x")
    with pytest.raises(InputError, match="has the models 'bpr', and the result has 'als', 'popularity', 'random'"):
        result(MEANS).models_table(comparison([difference(model="bpr")]))
    with pytest.raises(InputError, match="none of the metrics of this table: ndcg@10, percentile_rank; it has rr"):
        result(MEANS).models_table(comparison([difference("rr")]))


def test_more_models_than_letters_have_numbers():
    models = [f"m{n}" for n in range(30)]
    rows = [row(mean=0.9 if model == "m29" else 0.1, model=model) for model in models]
    compared = pairs([pair(model="m29", other=other) for other in ("m3", "m11")])
    assert "0.9000 4,12" in repr(result(rows).models_table(compared))


def test_tables_of_models_and_comparisons_escape_what_callers_chose():
    rows = [row(mean=mean, model=model) for model, mean in ((NASTY, 0.1), ("popularity", 0.2))]
    compared = comparison([difference(model=NASTY, p=0.00001)])
    for shown in (result(rows).models_table(compared), compared):
        assert "<b> &" not in shown._repr_html_()
        assert "a&lt;b&gt; &amp; d_e | 100% $x$" in shown._repr_html_()
        assert r"a\<b\> \& d\_e \| 100% \$x\$ \\z" in shown.to_markdown()
        assert r"a\textless{}b\textgreater{} \& d\_e \textbar{} 100\% \$x\$ \textbackslash{}z" in shown.to_latex()
        latex = shown.to_latex(caption="10% & more", label="tab:models")
        assert latex.splitlines()[:4] == [
            r"\begin{table}", r"\centering", r"\caption{10\% \& more}", r"\label{tab:models}",
        ]  # fmt: skip
        assert r"\begin{tabular}" in latex
    assert r"& $<$0.0001 &" in compared.to_latex()
    assert "&lt;0.0001" in compared._repr_html_()


def test_a_comparison_is_markdown_latex_and_rows():
    rows = [difference(), difference("mrr", value=-0.04, verdict="worse")]
    compared = comparison(rows, notes=("a note",))
    assert list(compared) == rows
    assert [each.metric for each in compared] == ["ndcg@10", "mrr"]
    assert compared.to_markdown().splitlines()[:5] == [
        "Mean differences from popularity, with 95% intervals",
        "",
        "| metric | model | users | mean | baseline | lift | interval of lift | difference | 95% interval | p |"
        " wins/ties/losses | verdict |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
        "| ndcg\\@10 | als |".replace("\\", "")
        + " 1,200 | 0.2800 | 0.2500 | +12% | +6.0% to +18% | +0.0300 | +0.0150 to +0.0450 | 0.0004 | 500/400/300 | better |",
    ]
    assert compared.to_markdown().endswith("note: a note")
    lines = compared.to_latex().splitlines()
    assert r"\begin{tabular}{llrrrrrrrrrl}" in lines
    assert (
        r"mrr & als & 1,200 & 0.2100 & 0.2500 & $-$16\% & $-$22\% to $-$10\% "
        r"& $-$0.0400 & $-$0.0550 to $-$0.0250 & 0.0004 & 500/400/300 & worse \\" in lines
    )
    assert lines[-1] == "% note: a note"
    every = pairs([pair()])
    assert list(every) == list(every.rows)
    assert "| ndcg@10 | als | popularity | 1,200 |" in every.to_markdown()


def test_slices_stand_in_the_order_that_was_given():
    slices = ["activity=heavy", "activity=light", "activity=medium", "activity=null"]
    shown = ["activity=light", "activity=medium", "activity=heavy", "activity=null"]
    found = result(models_rows(cutoffs=(10,), recalls=False, slices=slices)).with_slices(
        activity=["light", "medium", "heavy"]
    )
    assert list(dict.fromkeys(each.slice for each in found.summary)) == ["all", *shown]
    assert list(dict.fromkeys(found.slices["slice"])) == shown
    assert found.summary[0].model == "als"
    chart = str(found.plot.slices("ndcg@10").to_dict(validate=False))
    assert chart.index("activity=light") < chart.index("activity=medium") < chart.index("activity=heavy")
    assert re.findall(r"activity=\w+", str(means_table("", found.summary[::-1], slices=True).rows))[-1:] == [
        "activity=light"
    ]
    sliced = [difference(slice=name, model=model) for name in slices for model in ("als", "bpr")]
    compared = comparison([difference()], sliced).with_slices(activity=["light", "medium"])
    assert [(each.slice, each.model) for each in compared.sliced[:3]] == [
        ("activity=light", "als"), ("activity=light", "bpr"), ("activity=medium", "als"),
    ]  # fmt: skip
    for order, said in (
        ({"age": [1]}, "there are no slices by 'age'; slices are by 'activity'"),
        ({"activity": ["lite"]}, "no slice has activity=lite; available: activity=light, activity=medium"),
    ):
        with pytest.raises(OptionError, match=said):
            found.with_slices(**order)


def test_a_comparison_says_where_a_slice_has_the_opposite_of_the_mean():
    rows = [difference(), difference("mrr")]
    sliced = [
        difference(slice="age=old", value=-0.02, verdict="worse", p=0.035),
        difference(slice="age=young", value=0.04),
        difference("mrr", slice="age=old", value=-0.01, verdict="undecided", p=0.4),
    ]
    says = "the opposite of the mean over all users: ndcg@10 of als for users with age=old (-0.02, p = 0.0350)"
    assert [line.split("  ")[0] for line in repr(comparison(rows, sliced)).splitlines() if says in line] == ["slices"]
    assert "the opposite" not in repr(comparison(rows, sliced[1:]))
    sure = difference(slice="age=old", value=-15000.0, verdict="worse", p=1e-7)
    assert "age=old (-15,000, p < 0.0001)" in repr(comparison(rows, [sure]))


def test_losses_of_slices_say_what_their_figures_are_corrected_for():
    without = {"lift_low": math.nan, "lift_high": math.nan, "no_lift": "the baseline's mean is 0"}
    sliced = [
        difference(slice="age=old", value=-0.02, verdict="worse", n_joint=2, **without),
        difference(slice="age=young", value=0.04, n_joint=2),
    ]
    shown = repr(comparison([difference()], sliced)).partition("\nthe largest losses of 2 comparisons of slices\n")[2]
    assert shown.split("\n")[1].split()[2:9] == ["als", "1,200", "0.2300", "0.2500", "–", "-0.0200", "-0.0350"]
    assert "slices    1 other comparison is not shown; comparison.slices has them all" in shown
    assert "comparison." not in comparison([difference()], sliced).to_text()
    assert "from all patterns of signs or the paired t test, corrected for 2 comparisons (holm)" in shown
    assert "interval  the intervals of 2 comparisons hold together (Bonferroni)" in shown
    assert "no lift for ndcg@10 of als for users with age=old: the baseline's mean is 0" in shown
    uncorrected = replace(comparison([difference()], sliced), correction="none")
    assert "from all patterns of signs or the paired t test\n" in repr(uncorrected)


def test_a_page_begins_with_the_headline_then_other_verdicts_then_what_is_undecided():
    rows = [
        difference(verdict="undecided"),
        difference("mrr", verdict="undecided"),
        *(difference(f"recall@{k}") for k in range(1, 11)),
    ]
    sentences = [row.sentence for row in rows]
    by_order = [sentences[0], *sentences[2:9], "3 more verdicts are in the table.", "Undecided: mrr of als."]
    assert first_sentences(rows, "") == by_order
    assert first_sentences(rows[:3], "mrr") == [sentences[1], sentences[2], "Undecided: ndcg@10 of als."]
    assert first_sentences(rows[:1], "") == sentences[:1]
    assert first_sentences([], "") == []


def test_ranks_in_words_have_the_endings_of_english():
    numbers = [1, 2, 3, 4, 11, 12, 13, 21, 22, 23, 101, 111, 112, 113]
    sentences = [ranks_in_words("als", "map@10", number, number, 200) for number in numbers]
    assert [sentence.split()[2] for sentence in sentences] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "23rd", "101st", "111th", "112th", "113th",
    ]  # fmt: skip
    assert sentences[0] == "als is 1st of 200 on map@10."


def test_a_table_of_ranks_shows_a_model_without_a_mean():
    rows = [
        RankRow("ap@10", "als", 9, 0.31, 1, 1, 2, 3, "als is between 1st and 2nd of 3 on map@10.", "map@10"),
        RankRow("ap@10", "none", 9, math.nan, 0, 3, 3, 3, "none is 3rd of 3 on map@10.", "map@10"),
    ]
    lines = str(ModelRanks(tuple(rows), 0.9)).splitlines()
    assert lines[0].split() == ["metric", "model", "users", "mean", "rank", "90%", "ranks"]
    assert [line.split()[-4:] for line in lines[1:3]] == [["1", "1", "to", "2"], ["9", "undefined", "–", "3"]]
    assert ModelRanks(tuple(rows), 0.9).to_pandas()["asked"].tolist() == ["map@10", "map@10"]
