"""Charts hold the figures that they were given, and draw something sensible of few or none. Altair checks their form."""

import itertools
import json
import math
import re
from dataclasses import replace

import altair as alt
import pytest
import vl_convert
from altair.utils.schemapi import debug_mode
from helpers.effort import part_of
from hypothesis import given
from hypothesis import strategies as st
from worlds.summary_rows import difference, models_rows, pair, row, undefined

from spark_rankeval.errors import InputError, UnknownMetricError
from spark_rankeval.records.chart_rows import Bin, Estimate, Histogram, StageBar
from spark_rankeval.records.selection import headline_keys, one_of_each
from spark_rankeval.report.comparison_charts import ComparisonPlots, pairs_chart
from spark_rankeval.report.curves import curve_chart, spread_out
from spark_rankeval.report.drawing import forest_chart, histogram_chart, stages_chart
from spark_rankeval.report.marks import ON_DARK, PALETTE, domain, places_of
from spark_rankeval.report.result_charts import ResultPlots

MODELS = ("als", "popularity")
NASTY = "</script><script>alert('x')</script>\"&'.[0]\\"


def plots(rows, models=MODELS):
    return ResultPlots(tuple(rows), {}, models, None)


def records(chart):
    """All records in the data of a chart, which Altair has checked against the schema of Vega-Lite."""
    spec = chart.to_dict(validate=True)
    return [record for values in spec["datasets"].values() for record in values]


def values(chart):
    return [record for record in records(chart) if "value" in record]


def svg(chart):
    return vl_convert.vegalite_to_svg(json.dumps(chart.to_dict()))


def test_a_curve_has_the_means_and_both_ends_of_the_intervals():
    rows = models_rows(slices=["country=DE"])
    chart = plots(rows).curve("ndcg")
    expected = {
        (one.model, one.cutoff): (one.mean, one.interval_low, one.interval_high)
        for one in rows
        if one.metric.startswith("ndcg@") and one.slice == "all"
    }
    found = {(one["series"], one["place"]): (one["value"], one["low"], one["high"]) for one in values(chart)}
    assert found == expected
    assert len(expected) == 10


def test_a_curve_says_how_to_read_it_and_what_it_shows():
    spec = plots(models_rows()).curve("ndcg").to_dict()
    assert spec["title"]["text"] == "ndcg by cutoff"
    assert "band: 95% interval (t), separately for each point" in spec["title"]["subtitle"][0]
    assert spec["description"].startswith("Line chart of mean ndcg against cutoff k. als: 0.1")
    texts = svg(plots(models_rows()).curve("ndcg"))
    assert texts.count(">als<") == texts.count(">popularity<") == 1


def test_a_curve_without_a_cutoff_tells_the_value_of_whole_lists():
    rows = [row(f"ndcg@{k}", 0.1 * k) for k in (1, 2, 3)] + [row("ndcg", 0.4444)]
    chart = plots(rows, [""]).curve("ndcg")
    assert [one["place"] for one in values(chart)] == [1, 2, 3]
    assert "Without a cutoff: 0.4444." in chart.to_dict()["title"]["subtitle"]


def test_a_curve_with_undefined_points_has_gaps_and_one_of_none_says_so():
    rows = [row("ndcg@1", 0.1), undefined("ndcg@2"), row("ndcg@3", 0.3)]
    assert [one["place"] for one in values(plots(rows, [""]).curve("ndcg"))] == [1, 3]
    none = plots([undefined("ndcg@1"), undefined("ndcg@2")], [""]).curve("ndcg")
    assert [record["why"] for record in records(none)] == ["no user has a value"]
    assert "no user has a value" in svg(none)


def test_a_curve_of_one_point_is_a_dot_with_its_interval():
    chart = plots([row("ndcg@10", 0.25)], [""]).curve("ndcg")
    assert [layer["mark"]["type"] for layer in chart.to_dict()["layer"]] == ["rule", "point"]
    drawn = svg(chart)
    assert "NaN" not in drawn
    assert ">10<" in drawn


def test_many_models_are_named_above_the_curve_and_dashed_where_colours_repeat():
    models = [f"model {n}" for n in range(25)]
    chart = plots(models_rows(models, recalls=False), models).curve("ndcg")
    layers = chart.to_dict()["layer"]
    assert layers[0]["encoding"]["color"]["legend"]["orient"] == "top"
    line = next(layer for layer in layers if layer["mark"]["type"] == "line")["encoding"]
    looks = list(zip(line["color"]["scale"]["range"], map(tuple, line["strokeDash"]["scale"]["range"]), strict=True))
    assert len(set(looks)) == 3 * len(PALETTE)


def test_the_precision_recall_curve_has_all_recalls():
    found = values(plots(models_rows()).precision_recall())
    assert sorted({one["place"] for one in found}) == [step / 100 for step in range(101)]
    assert len(found) == 202
    with pytest.raises(UnknownMetricError, match="no curve of 'iprec'"):
        plots([row()], [""]).precision_recall()


def test_means_stand_model_by_model_with_large_figures_apart():
    chart = plots(models_rows(recalls=False)).means()
    spec = chart.to_dict()
    assert len(spec["vconcat"]) == 2, "dcg@10 would press the others together"
    assert {(one["place"], one["series"]) for one in values(chart)} >= {("dcg@10", "als"), ("ndcg@5", "popularity")}
    assert "Only a comparison shows whether models differ." in " ".join(spec["title"]["subtitle"])
    assert not isinstance(plots(models_rows(recalls=False)).means(["ndcg@1", "mrr"]), alt.VConcatChart)


def test_metrics_share_an_axis_within_0_and_1_and_others_have_their_own():
    figures = {
        "ndcg@10": 0.3,
        "dcg@5": 1.5,
        "gini@10": 0.98,
        "average_popularity@10": 231.0,
        "recall@10": 0.2,
        "dcg@10": 4.0,
    }
    result = plots([row(name, mean, model=model) for name, mean in figures.items() for model in MODELS])
    chart = result.means()
    panels = [
        (panel["layer"][0]["encoding"]["x"]["axis"]["title"], *drawn)
        for panel in chart.to_dict()["vconcat"]
        for drawn in [panel["layer"][0]["encoding"]["y"]["sort"]]
    ]
    assert panels == [
        ("mean over users", "ndcg@10", "recall@10"),
        ("mean over users", "dcg@5", "dcg@10"),
        ("value of all lists together", "gini@10"),
        ("mean over users", "average_popularity@10"),
    ]
    assert svg(chart).count(">als<") == 1, "one legend for all panels"
    assert chart.to_dict()["title"]["text"] == "Means over users, and values of all lists"
    alone = result.means("gini@10").to_dict()["title"]
    assert alone["text"] == "gini@10 by model"
    assert alone["subtitle"][0].startswith("Value of all lists together; line")
    rows = tuple(difference(name, value=mean / 9) for name, mean in figures.items())
    differences = ComparisonPlots(rows, (), "popularity", 0.95, MODELS)().to_dict()
    assert len(differences["vconcat"]) == 3


def test_series_keep_their_colours_in_panels_that_lack_some():
    metrics = ["ndcg@10", "average_popularity@10", "mrr"]
    drawn = svg(pairs_chart([pair(name) for name in metrics], 0.95, None, 560))
    assert all(drawn.count(f">{name}<") == 1 for name in metrics)
    colours = [PALETTE[place] for place in places_of(metrics).values()]
    assert len(set(colours)) == 3
    assert all(colour in drawn for colour in colours)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("ends", [(1.472, 1.488), (-0.0012, 0.0003), (144.0, 240.0), (1_000_400, 1_000_900)])
def test_ticks_have_different_labels_that_are_their_values(ends, signed):
    estimate = Estimate("", "novelty", sum(ends) / 2, *ends)
    chart = forest_chart([estimate], title="t", reading=[], x_title="x", series=[""], signed=signed)
    labels = [text.replace("−", "-") for text in re.findall(r">([+−]?[\d.]+)<", svg(chart))]
    assert len(set(labels)) == len(labels) >= 4
    ticks = list(map(float, labels))
    steps = [after - before for before, after in itertools.pairwise(ticks)]
    assert steps == pytest.approx([steps[0]] * len(steps))


def test_means_of_one_metric_are_a_line_a_model():
    chart = plots(models_rows())("ndcg@10")
    assert [(one["place"], one["series"]) for one in values(chart)] == [(model, model) for model in MODELS]


def test_calling_plot_draws_what_the_name_stands_for():
    drawn = plots(models_rows())
    assert drawn().to_dict()["title"]["text"] == "Means over users"
    assert drawn("ndcg").to_dict()["title"]["text"] == "ndcg by cutoff"
    assert drawn("nDCG@10").to_dict()["title"]["text"] == "Mean ndcg@10 by model"
    assert drawn("precision_recall_curve").to_dict()["title"]["text"] == "Precision against recall"
    with pytest.raises(
        UnknownMetricError, match="no metric 'auc' to draw, with or without a cutoff; available: ndcg@1"
    ):
        drawn("auc")
    with pytest.raises(UnknownMetricError, match="no metric 'auc'; available"):
        drawn.means(["ndcg@10", "auc"])


def test_the_headline_has_usual_cutoffs_and_no_points_of_a_recall_curve():
    rows = models_rows(cutoffs=range(1, 101))
    keys = headline_keys(rows)
    assert [key for key in keys if key.startswith("ndcg")] == [f"ndcg@{k}" for k in (1, 5, 10, 20, 50, 100)]
    assert not any("iprec" in key for key in keys)
    assert one_of_each(rows) == ["ndcg@10", "recall@10", "map@10", "mrr", "dcg@10"]
    few = [row("ndcg@3"), row("ndcg@7"), row("iprec", definition="iprec(recall=0.0)")]
    assert headline_keys(few) == ["ndcg@3", "ndcg@7", "iprec"]
    odd = [row(f"ndcg@{k}") for k in range(31, 48)]
    assert headline_keys(odd) == ["ndcg@31", "ndcg@32", "ndcg@33", "ndcg@34", "ndcg@35", "ndcg@47"]


def test_slices_have_their_figures_users_and_the_mean_of_all():
    rows = [row("ndcg@10", 0.3), row("ndcg@10", 0.2, slice="country=DE", n_users=40), undefined(slice="country=FR")]
    chart = plots(rows, [""]).slices()
    found = values(chart)
    assert [(one["place"], one["value"]) for one in found] == [("country=DE", 0.2), ("country=FR", None)]
    assert [one["note"] for one in found] == ["0.2000 · 40 users", "undefined · no users"]
    assert [record["at"] for record in records(chart) if "at" in record] == [0.3]
    assert "country=FR" in svg(chart)


def test_groups_of_items_have_a_chart_of_their_own_that_slices_of_users_do_not_have():
    about = ["country=DE", "item genre=x", "item genre='a, b=1'", "item genre=x, country=DE"]
    rows = [row(metric, 0.3) for metric in ("ndcg@10", "hit_share@10")]
    rows += [row(metric, 0.2, slice=name) for metric in ("ndcg@10", "hit_share@10") for name in about]
    assert [one["place"] for one in values(plots(rows, [""]).slices())] == ["country=DE"]
    chart = plots(rows, [""]).item_groups("ndcg@10")
    assert [one["place"] for one in values(chart)] == ["genre=x", "genre='a, b=1'"]
    assert [record["at"] for record in records(chart) if "at" in record] == [0.3]
    assert "Dashed line: all items." in " ".join(chart.to_dict()["title"]["subtitle"])
    # All items have all hits: a line there would say nothing.
    shares = plots(rows, [""]).item_groups("hit_share@10")
    assert [record["at"] for record in records(shares) if "at" in record] == []
    assert "30% of a list's hits" in " ".join(shares.to_dict()["title"]["subtitle"])
    popular = [row("rr", 0.3), *(row("rr", 0.1, slice=f"item popularity={n}") for n in (1, 2))]
    popular.append(undefined("rr", slice="item popularity='(not in training)'"))
    drawn = plots(popular, [""]).item_groups()
    words = " ".join(drawn.to_dict()["title"]["subtitle"])
    assert "popularity=1: the least popular items. popularity=2: the most popular ones." in words
    assert [one["place"] for one in values(drawn)] == ["popularity=1", "popularity=2"]
    assert "Not drawn: 1 group without a user." in words
    many = [row(model=model) for model in "ab"]
    many += [row(model=model, slice=f"item year={n}", n_users=n) for model in "ab" for n in range(1, 61)]
    shown = plots(many, ["a", "b"]).item_groups()
    assert len(values(shown)) == 80
    assert "Shown: the 40 of 60 groups with the most users." in shown.to_dict()["title"]["subtitle"]
    assert [one["place"] for one in values(plots(rows, [""]).means())] == ["ndcg@10"]
    with pytest.raises(InputError, match="the result has no groups of items"):
        plots([row()], [""]).item_groups()


def test_of_many_slices_those_with_most_users_are_drawn_in_their_order():
    rows = [row()] + [row(slice=f"c={n}", n_users=(n * 37) % 101) for n in range(100)]
    chart = plots(rows, [""]).slices("ndcg@10")
    largest = sorted(range(100), key=lambda n: -((n * 37) % 101))[:40]
    assert [one["place"] for one in values(chart)] == [f"c={n}" for n in sorted(largest)]
    assert "Shown: the 40 of 100 slices with the most users." in chart.to_dict()["title"]["subtitle"]


def test_a_name_of_several_metrics_is_not_drawn_as_one_of_them():
    rows = [row(relevance=name, slice=users) for name in ("click", "buy") for users in ("all", "country=DE")]
    with pytest.raises(UnknownMetricError, match=r"ambiguous: it matches 'ndcg@10 \[click\]', 'ndcg@10 \[buy\]'"):
        plots(rows, [""]).slices("ndcg@10")
    assert len(values(plots(rows, [""]).slices("ndcg@10 [buy]"))) == 1
    assert {one["series"] for one in values(plots(rows, [""]).curve("ndcg"))} == {"[click]", "[buy]"}


def test_no_slices_say_so():
    assert "there are no slices of users; evaluate with by=" in svg(plots([row()], [""]).slices())


def test_quantiles_of_gains_have_an_axis_of_their_own():
    chart = plots(models_rows()).quantiles().to_dict()
    ends = [panel["layer"][0]["encoding"]["x"]["scale"]["domain"][1] for panel in chart["vconcat"]]
    assert ends[0] < 1.2
    assert ends[1] >= 9.5
    assert svg(plots(models_rows()).quantiles()).count(">popularity<") == 1
    assert "vconcat" not in plots([row("dcg@10", 4.0, maximum=9.5)], [""]).quantiles().to_dict()


def test_quantiles_have_ends_ticks_and_the_share_at_0():
    chart = plots([row(quantiles={0.25: 0.1, 0.5: 0.2, 0.9: 0.8})], [""]).quantiles()
    line = next(one for one in records(chart) if "least" in one)
    assert (line["least"], line["low"], line["high"], line["greatest"], line["note"]) == (
        0.0,
        0.1,
        0.8,
        1.0,
        "25% at 0",
    )
    assert [one["at"] for one in records(chart) if "at" in one] == [0.1, 0.2, 0.8]
    assert "Thick line: from the 0.25 to the 0.9 quantile." in chart.to_dict()["title"]["subtitle"][1]
    assert chart.to_dict()["title"]["subtitle"][0].endswith(" Dot: mean.")
    several = plots([row(model=model) for model in MODELS]).quantiles().to_dict()
    assert several["title"]["subtitle"][0].endswith(" Triangle or square: mean.")
    assert "NaN" not in svg(plots([undefined()], [""]).quantiles())


def test_differences_stand_around_0_with_their_margin():
    rows = (difference(margin=0.01), difference("mrr", value=-0.04, verdict="worse"))
    chart = ComparisonPlots(rows, (), "popularity", 0.95, ["popularity", "als"])()
    found = values(chart)
    assert [(one["place"], one["value"], one["note"]) for one in found] == [
        ("ndcg@10", 0.03, "+0.0300 (+12%) · better"), ("mrr", -0.04, "-0.0400 (-16%) · worse"),
    ]  # fmt: skip
    assert {"place": "ndcg@10", "from": -0.01, "to": 0.01} in records(chart)
    assert {"at": 0} in records(chart)
    rule = next(layer for layer in chart.to_dict()["layer"] if layer["mark"].get("strokeWidth") == 2)
    assert rule["encoding"]["color"]["scale"] == {
        "domain": ["als"],
        "range": [PALETTE[places_of(["popularity", "als"])["als"]]],
    }


def test_differences_of_slices():
    sliced = (difference(slice="country=DE", value=-0.02), difference(slice="country=FR"), difference("mrr", slice="x"))
    plot = ComparisonPlots((difference(), difference("mrr")), sliced, "popularity", 0.95, ["popularity", "als"])
    assert [one["place"] for one in values(plot.slices())] == ["country=DE", "country=FR"]
    assert [one["place"] for one in values(plot.slices("mrr"))] == ["x"]
    with pytest.raises(UnknownMetricError, match="no metric 'auc'; available: ndcg@10, mrr"):
        plot.slices("auc")
    many = tuple(difference(slice=f"city={n}", n_users=n) for n in range(100))
    subtitle = replace(plot, sliced=many).slices().to_dict()["title"]["subtitle"]
    assert "Shown: the 40 of 100 slices with the most users." in subtitle


def test_pairs_are_named_by_both_models():
    chart = pairs_chart([pair(), pair(other="bpr", value=-0.01)], 0.95, None, 560)
    assert [one["place"] for one in values(chart)] == ["als − popularity", "als − bpr"]
    assert "hold together" in chart.to_dict()["title"]["subtitle"][0]
    several = pairs_chart([pair(), pair("mrr")], 0.95, None, 560)
    assert {one["series"] for one in values(several)} == {"ndcg@10", "mrr"}


def test_a_histogram_has_shares_of_all_users_and_losses_in_grey():
    bins = (Bin(-0.2, -0.1, 5), Bin(0.1, 0.2, 15))
    one = Histogram("als", bins, 40, 0.05, 0.01, 0.09, "20 equal")
    chart = histogram_chart([one], title="t", reading=[], x_title="x", series=["als"], signed=1)
    bars = [record for record in records(chart) if "share" in record]
    assert [(bar["low"], bar["share"], bar["count"]) for bar in bars] == [(-0.2, 0.125, 5), (0.1, 0.375, 15)]
    own = PALETTE[places_of(["als"])["als"]]
    assert [bar["fill"] for bar in bars] == ["#999999", own]
    downwards = histogram_chart([one], title="t", reading=[], x_title="x", series=["als"], signed=-1)
    assert [record["fill"] for record in records(downwards) if "share" in record] == [own, "#999999"]
    assert "20 equal" in svg(chart)


@pytest.mark.parametrize("width", [560, 250])
def test_histograms_of_several_models_and_of_none(width):
    two = [Histogram(name, (Bin(0, 1, 3),), 3, 0.5) for name in MODELS]
    chart = histogram_chart(two, title="t", reading=[], x_title="x", series=MODELS, width=width)
    assert len(chart.to_dict()["vconcat"]) == 2
    assert all(name in svg(chart) for name in MODELS)
    none = histogram_chart([Histogram("als", (), 0, math.nan)], title="t", reading=[], x_title="x", series=MODELS)
    assert "no user has a value" in svg(none)


@pytest.mark.parametrize(
    ("draw", "width"),
    part_of(itertools.product(["means", "curve", "precision_recall", "slices", "quantiles"], [560, 250]), 3),
)
def test_names_that_look_like_markup_or_fields_are_texts(draw, width):
    rows = models_rows((NASTY, "b.c[d]"), slices=[NASTY])
    drawn = plots(rows, (NASTY, "b.c[d]"))
    arguments = {"curve": ["ndcg"], "slices": ["ndcg@10"]}.get(draw, [])
    chart = getattr(drawn, draw)(*arguments, width=width)
    assert "<script" not in svg(chart)
    assert any(one["series"] == NASTY for one in records(chart) if "series" in one)


def test_charts_can_be_changed_and_joined():
    chart = plots(models_rows()).curve("ndcg").properties(width=300, title="mine")
    both = chart | plots(models_rows()).means(["ndcg@10"])
    assert both.to_dict()["hconcat"][0]["title"] == "mine"


@pytest.mark.night
def test_more_data_than_altair_takes_of_a_table_are_drawn():
    many = [Estimate("", k, 0.1 + k / 1e5) for k in range(1, 6001)]
    chart = curve_chart(many, title="t", reading=[], x_title="k", y_title="y", series=[""], whole_numbers=True)
    assert len(values(chart)) == 6000


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=12), st.floats(0.01, 2))
def test_labels_keep_their_order_and_are_a_gap_apart(places, gap):
    moved = spread_out(places, gap)
    order = sorted(range(len(places)), key=lambda index: (places[index], index))
    steps = [moved[b] - moved[a] for a, b in itertools.pairwise(order)]
    assert all(step >= gap - 1e-9 for step in steps)
    assert sum(moved) == pytest.approx(sum(places), abs=1e-6), "on the whole they stay where they are"
    if all(abs(a - b) >= gap for i, a in enumerate(places) for b in places[:i]):
        assert moved == pytest.approx(places)


@given(st.lists(st.one_of(st.floats(-1e6, 1e6), st.just(math.nan)), max_size=8))
def test_an_axis_holds_all_figures_and_has_a_length(figures):
    low, high = domain(figures, floor=0.0)
    assert low < high
    assert all(low <= value <= high for value in figures if not math.isnan(value))


def test_a_forest_of_one_estimate_without_an_interval():
    chart = forest_chart([Estimate("", "ndcg", 0.5)], title="t", reading=[], x_title="x", series=[""])
    assert "NaN" not in svg(chart)
    assert [one["low"] for one in values(chart)] == [None]


@pytest.mark.parametrize("ends", [(-0.7, 0.6), (-0.1, 0.9)])
def test_the_axis_of_a_forest_holds_both_ends_of_its_intervals(ends):
    chart = forest_chart([Estimate("", "ndcg", 0.5, *ends)], title="t", reading=[], x_title="x", series=[""])
    (reach,) = {tuple(one["encoding"]["x"]["scale"]["domain"]) for one in chart.to_dict()["layer"]}
    assert reach[0] <= ends[0] < ends[1] <= reach[1]


def luminance(colour):
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def test_colours_have_contrast_on_light_and_dark():
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    from spark_rankeval.report.marks import _TEXTS, INK, PAPER, QUIET

    dark = ON_DARK[PAPER]
    for colour in PALETTE:
        assert contrast(colour, PAPER) >= 3, colour
        assert contrast(ON_DARK[colour], dark) >= 3, colour
    for colour in (*_TEXTS, INK, QUIET):
        assert contrast(colour, PAPER) >= 4.5, colour
        assert contrast(ON_DARK[colour], dark) >= 4.5, colour


@pytest.mark.night  # It draws five charts a width; other names are drawn by day, above.
@pytest.mark.parametrize("width", [240, 560])
def test_long_names_do_not_make_a_chart_much_wider(width):
    long = "a_very_long_name_" * 20
    compared = ComparisonPlots((difference(model=long, baseline=long),), (), long, 0.95, [long])
    result = plots(models_rows((long, "b"), slices=[long], recalls=False), (long, "b"))
    # Other tests have the form of these charts checked.
    with debug_mode(False):
        charts = (compared(width=width), result.curve("ndcg", width=width), result.means(width=width),
                  result.slices("ndcg@10", width=width), result.quantiles(width=width))  # fmt: skip
        specs = [chart.properties(title="").to_dict(validate=False) for chart in charts]
    for spec in specs:
        drawn = vl_convert.vegalite_to_svg(spec)
        assert float(re.search(r' width="(\d+)"', drawn)[1]) < width + 480


@pytest.mark.parametrize("width", [560, 300])
def test_a_funnel_has_a_bar_for_each_part_and_marks_with_intervals_below(width):
    bars = [
        StageBar(f"ann {NASTY}", 0.75, 0.0, 0.25, 0.7, 0.8),
        StageBar("shown", 0.25, 0.125, 0.5),
        StageBar("none", *[math.nan] * 3),
    ]
    estimates = [Estimate("reached", bar.place, 0.25, 0.2, 0.3) for bar in bars]
    estimates += [Estimate("ceiling", bar.place, math.nan) for bar in bars]
    chart = stages_chart(bars, estimates, title="a title", reading=["how to read"], x_title="mean ndcg@5", width=width)
    parts = [(one["place"], one["part"], one["from"], one["to"]) for one in records(chart) if "part" in one]
    assert parts == [
        (bars[0].place, "kept", 0.0, 0.75), (bars[0].place, "lost", 0.75, 1.0),
        ("shown", "kept", 0.0, 0.25), ("shown", "added", 0.25, 0.375), ("shown", "lost", 0.375, 0.875),
    ]  # fmt: skip
    assert {one["value"] for one in values(chart)} == {0.25, None}
    assert [(one["low"], one["high"]) for one in records(chart) if set(one) == {"place", "low", "high"}] == [(0.7, 0.8)]
    drawn = svg(chart)
    assert "<script" not in drawn
    for shown in ("kept", "added", "lost", "reached", "ceiling", "how to read", "mean ndcg@5"):
        assert shown in drawn
    assert "0.2500 kept, 0.1250 added, 0.5000 lost" in chart.to_dict()["description"]
