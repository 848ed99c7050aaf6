"""Charts hold the figures that they were given, and show something sensible of few or none: as data by day, drawn in CI."""

import itertools
import json
import math
import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import vl_convert
from altair.utils.schemapi import debug_mode
from helpers.charts import heading_of, records_of, shown_by, values_of
from hypothesis import given
from hypothesis import strategies as st
from worlds.summary_rows import difference, models_rows, pair, row, undefined

from spark_rankeval.errors import InputError, UnknownMetricError
from spark_rankeval.records.stored import HistoryRow
from spark_rankeval.records.tables_of_means import Bin, Estimate, Histogram, StageBar, headline_keys, one_of_each
from spark_rankeval.report import drawing
from spark_rankeval.report.contents import ComparisonPlots, ResultPlots, pairs_chart
from spark_rankeval.report.drawing import (
    ON_DARK,
    PALETTE,
    PAPER,
    curve_chart,
    domain,
    forest_chart,
    histogram_chart,
    places_of,
    spread_out,
    stages_chart,
)
from spark_rankeval.run_history.history import History

MODELS = ("als", "popularity")
NASTY = "</script><script>alert('x')</script>\"&'.[0]\\"
WORDS = {"title": "t", "reading": ["how to read"], "x_title": "x"}


@pytest.fixture(autouse=True)
def unchecked(request):
    """Altair checks the form of charts where they are drawn, in CI: it takes most of the time."""
    with debug_mode(request.node.get_closest_marker("ci") is not None):
        yield


def plots(rows, models=MODELS):
    return ResultPlots(tuple(rows), {}, models, None)


def alone(*rows):
    """Charts of a model without a name."""
    return plots(rows, [""])


def compared(rows, sliced=()):
    return ComparisonPlots(tuple(rows), tuple(sliced), "popularity", 0.95, ["popularity", "als"])


def svg(chart):
    return vl_convert.vegalite_to_svg(json.dumps(chart.to_dict(validate=True)))


def places(chart):
    return [one["place"] for one in values_of(chart)]


# --- scenes


SMALL = models_rows(cutoffs=(1, 10), recalls=False)
AXES = {"ndcg@10": 0.3, "dcg@5": 1.5, "gini@10": 0.98, "average_popularity@10": 231.0, "recall@10": 0.2, "dcg@10": 4.0}
ON_AXES = plots([row(name, mean, model=model) for name, mean in AXES.items() for model in MODELS])
GERMAN = [row("ndcg@10", 0.3), row("ndcg@10", 0.2, slice="country=DE", n_users=40), undefined(slice="country=FR")]
OF_ITEMS = [
    row(metric, 0.3 if users == "all" else 0.2, slice=users)
    for metric in ("ndcg@10", "hit_share@10")
    for users in ("all", "country=DE", "item genre=x", "item genre='a, b=1'", "item genre=x, country=DE")
]
POPULAR = [row("rr", 0.3), *(row("rr", 0.1, slice=f"item popularity={n}") for n in (1, 2))]
POPULAR.append(undefined("rr", slice="item popularity='(not in training)'"))
BINS = Histogram("als", (Bin(-0.2, -0.1, 5), Bin(0.1, 0.2, 15)), 40, 0.05, 0.01, 0.09, "20 equal")
BARS = [
    StageBar(f"ann {NASTY}", 0.75, 0.0, 0.25, 0.7, 0.8),
    StageBar("shown", 0.25, 0.125, 0.5),
    StageBar("none", *[math.nan] * 3),
]
MARKS = [Estimate("reached", bar.place, 0.25, 0.2, 0.3) for bar in BARS]
MARKS += [Estimate("ceiling", bar.place, math.nan) for bar in BARS]
OF_SLICES = compared(
    [difference(), difference("mrr")],
    [difference(slice="country=DE", value=-0.02), difference(slice="country=FR"), difference("mrr", slice="x")],
)
SCENES = {
    "a curve": lambda: plots(SMALL).curve("ndcg"),
    "a curve beside the value of whole lists": lambda: alone(
        *(row(f"ndcg@{k}", 0.1 * k) for k in (1, 2, 3)), row("ndcg", 0.4444)
    ).curve("ndcg"),
    "a curve with a gap": lambda: alone(row("ndcg@1", 0.1), undefined("ndcg@2"), row("ndcg@3", 0.3)).curve("ndcg"),
    "a curve of nobody": lambda: alone(undefined("ndcg@1"), undefined("ndcg@2")).curve("ndcg"),
    "a curve of one point": lambda: alone(row("ndcg@10", 0.25)).curve("ndcg"),
    "curves of two relevances": lambda: alone(row(relevance="click"), row(relevance="buy")).curve("ndcg"),
    "means with gains apart": lambda: plots(SMALL).means(),
    "means of metrics of one axis": lambda: plots(SMALL).means(["ndcg@1", "mrr"]),
    "axes for shares, gains, all lists and popularity": ON_AXES.means,
    "a value of all lists by model": lambda: ON_AXES.means("gini@10"),
    "a metric by model": lambda: plots(SMALL)("ndcg@10"),
    "slices": lambda: alone(*GERMAN).slices(),
    "no slices": lambda: alone(row()).slices(),
    "groups of items": lambda: alone(*OF_ITEMS).item_groups("ndcg@10"),
    # All items have all hits: a line there would say nothing.
    "shares of hits have no line of all items": lambda: alone(*OF_ITEMS).item_groups("hit_share@10"),
    "groups by popularity": lambda: alone(*POPULAR).item_groups(),
    "differences with a margin": compared([difference(margin=0.01), difference("mrr", value=-0.04, verdict="worse")]),
    "differences on axes of their own": compared([difference(name, value=mean / 9) for name, mean in AXES.items()]),
    "differences of slices": OF_SLICES.slices,
    "differences of slices of another metric": lambda: OF_SLICES.slices("mrr"),
    "pairs": lambda: pairs_chart([pair(), pair(other="bpr", value=-0.01)], 0.95, None, 560),
    "pairs on several metrics": lambda: pairs_chart(
        [pair(name) for name in ("ndcg@10", "average_popularity@10", "mrr")], 0.95, None, 560
    ),
    "a histogram of gains and losses": lambda: histogram_chart([BINS], series=["als"], signed=1, **WORDS),
    "a histogram of what should be small": lambda: histogram_chart([BINS], series=["als"], signed=-1, **WORDS),
    "histograms of several models": lambda: histogram_chart(
        [Histogram(name, (Bin(0, 1, 3),), 3, 0.5) for name in MODELS], series=MODELS, **WORDS
    ),
    "a histogram of nobody": lambda: histogram_chart([Histogram("als", (), 0, math.nan)], series=MODELS, width=250, **WORDS),
    "a funnel": lambda: stages_chart(BARS, MARKS, **WORDS),
    "an estimate without an interval": lambda: forest_chart([Estimate("", "ndcg", 0.5)], series=[""], **WORDS),
    "an interval below 0": lambda: forest_chart([Estimate("", "ndcg", 0.5, -0.7, 0.6)], series=[""], **WORDS),
    "an interval up to 0.9": lambda: forest_chart([Estimate("", "ndcg", 0.5, -0.1, 0.9)], series=[""], **WORDS),
}  # fmt: skip


@pytest.mark.parametrize("name", SCENES)
def test_a_chart_shows(golden, name):
    golden(shown_by(SCENES[name]()))


@pytest.mark.ci
@pytest.mark.parametrize("name", SCENES)
def test_a_chart_is_drawn(name):
    """Altair checks the form of the chart, and no figure or name is lost or read as markup."""
    chart = SCENES[name]()
    drawn = svg(chart)
    assert "NaN" not in drawn
    assert "<script" not in drawn
    words = {one[key] for one in records_of(chart) for key in ("why", "part") if key in one}
    assert [word for word in words if f">{word}<" not in drawn] == []
    assert all(drawn.count(f">{model}<") <= 1 for model in MODELS), "one legend for all panels"


# --- what is chosen to be drawn


def test_a_curve_has_the_means_and_both_ends_of_the_intervals():
    rows = models_rows(slices=["country=DE"])
    assert {
        (one["series"], one["place"]): (one["value"], one["low"], one["high"])
        for one in values_of(plots(rows).curve("ndcg"))
    } == {
        (one.model, one.cutoff): (one.mean, one.interval_low, one.interval_high)
        for one in rows
        if one.metric.startswith("ndcg@") and one.slice == "all"
    }


def test_many_models_are_named_above_the_curve_and_dashed_where_colours_repeat():
    models = [f"model {n}" for n in range(25)]
    layers = plots(models_rows(models, recalls=False), models).curve("ndcg").to_dict(validate=False)["layer"]
    assert layers[0]["encoding"]["color"]["legend"]["orient"] == "top"
    line = next(layer for layer in layers if layer["mark"]["type"] == "line")["encoding"]
    looks = list(zip(line["color"]["scale"]["range"], map(tuple, line["strokeDash"]["scale"]["range"]), strict=True))
    assert len(set(looks)) == 3 * len(PALETTE)


def test_the_precision_recall_curve_has_all_recalls():
    chart = plots(models_rows(MODELS[:1], cutoffs=(1,)), MODELS[:1])("precision_recall_curve")
    assert heading_of(chart).startswith("Precision against recall\n")
    assert places(chart) == [step / 100 for step in range(101)]


def test_calling_plot_draws_what_the_name_stands_for():
    drawn = plots(SMALL)
    assert [heading_of(each).split("\n")[0] for each in (drawn(), drawn("ndcg"), drawn("nDCG@10"))] == [
        "Means over users", "ndcg by cutoff", "Mean ndcg@10 by model",
    ]  # fmt: skip


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


def test_of_many_slices_those_with_most_users_are_drawn_in_their_order():
    n_users = {f"c={n}": (n * 37) % 101 for n in range(100)}
    largest = set(sorted(n_users, key=n_users.get)[-40:])
    shown = "Shown: the 40 of 100 slices with the most users."
    chart = alone(row(), *(row(slice=name, n_users=n) for name, n in n_users.items())).slices("ndcg@10")
    differences = compared([difference()], [difference(slice=name, n_users=n) for name, n in n_users.items()]).slices()
    for each in (chart, differences):
        assert places(each) == [name for name in n_users if name in largest]
        assert shown in heading_of(each)
    many = [row(model=model, slice=f"item year={n}", n_users=n) for model in "ab" for n in range(1, 61)]
    groups = plots([*(row(model=model) for model in "ab"), *many], ["a", "b"]).item_groups()
    assert len(values_of(groups)) == 80
    assert "Shown: the 40 of 60 groups with the most users." in heading_of(groups)


def test_groups_of_items_are_no_slices_of_users():
    assert places(alone(*OF_ITEMS).slices()) == ["country=DE"]
    assert places(alone(*OF_ITEMS).means()) == ["ndcg@10"]


BY_RELEVANCE = [row(relevance=name, slice=users) for name in ("click", "buy") for users in ("all", "country=DE")]


@pytest.mark.parametrize(
    ("draw", "error", "says"),
    [
        (alone(row()).precision_recall, UnknownMetricError, "no curve of 'iprec'"),
        (alone(row()).item_groups, InputError, "the result has no groups of items"),
        (lambda: plots(SMALL)("auc"), UnknownMetricError, "no metric 'auc' to draw, with or without a cutoff; available: ndcg@1"),
        (lambda: plots(SMALL).means(["ndcg@10", "auc"]), UnknownMetricError, "no metric 'auc'; available"),
        (lambda: OF_SLICES.slices("auc"), UnknownMetricError, "no metric 'auc'; available: ndcg@10, mrr"),
        (lambda: alone(*BY_RELEVANCE).slices("ndcg@10"), UnknownMetricError, r"ambiguous: it matches 'ndcg@10 \[click\]', 'ndcg@10 \[buy"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused(draw, error, says):
    with pytest.raises(error, match=says):
        draw()
    assert len(values_of(alone(*BY_RELEVANCE).slices("ndcg@10 [buy]"))) == 1


# --- axes and labels


@pytest.mark.ci
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("ends", [(1.472, 1.488), (-0.0012, 0.0003), (144.0, 240.0), (1_000_400, 1_000_900)])
def test_ticks_have_different_labels_that_are_their_values(ends, signed):
    estimate = Estimate("", "novelty", sum(ends) / 2, *ends)
    drawn = svg(forest_chart([estimate], series=[""], signed=signed, **WORDS))
    labels = [text.replace("−", "-") for text in re.findall(r">([+−]?[\d.]+)<", drawn)]
    assert len(set(labels)) == len(labels) >= 4
    ticks = list(map(float, labels))
    steps = [after - before for before, after in itertools.pairwise(ticks)]
    assert steps == pytest.approx([steps[0]] * len(steps))


@pytest.mark.ci
@pytest.mark.parametrize("draw", ["means", "curve", "precision_recall", "slices"])
def test_names_that_look_like_markup_or_fields_are_texts(draw):
    drawn = plots(models_rows((NASTY, "b.c[d]"), slices=[NASTY]), (NASTY, "b.c[d]"))
    arguments = {"curve": ["ndcg"], "slices": ["ndcg@10"]}.get(draw, [])
    chart = getattr(drawn, draw)(*arguments, width=250)
    assert "<script" not in svg(chart)
    assert any(one["series"].replace("\u2060", "") == NASTY for one in records_of(chart) if "series" in one)


def test_no_name_ends_the_script_of_altairs_page():
    of_models = plots(models_rows((NASTY, "b")), (NASTY, "b"))
    charts = [
        of_models.means(),
        of_models.curve("ndcg"),
        histogram_chart([replace(BINS, series=NASTY)], series=[NASTY], **WORDS),
        stages_chart([replace(BARS[0], place=NASTY)], MARKS, **WORDS),
        drawing.nothing(NASTY, "no user has a value", 300),
    ]
    assert ["<script>alert" in chart.to_html() for chart in charts] == [False] * 5


@pytest.mark.night
def test_more_data_than_altair_takes_of_a_table_are_drawn():
    many = [Estimate("", k, 0.1 + k / 1e5) for k in range(1, 6001)]
    chart = curve_chart(many, title="t", reading=[], x_title="k", y_title="y", series=[""], whole_numbers=True)
    assert len(values_of(chart)) == 6000


@pytest.mark.night  # It draws four charts a width; other names are drawn in CI, above.
@pytest.mark.parametrize("width", [240, 560])
def test_long_names_do_not_make_a_chart_much_wider(width):
    long = "a_very_long_name_" * 20
    differences = ComparisonPlots((difference(model=long, baseline=long),), (), long, 0.95, [long])
    result = plots(models_rows((long, "b"), slices=[long], recalls=False), (long, "b"))
    charts = (differences(width=width), result.curve("ndcg", width=width), result.means(width=width),
              result.slices("ndcg@10", width=width))  # fmt: skip
    for chart in charts:
        drawn = vl_convert.vegalite_to_svg(chart.properties(title="").to_dict(validate=False))
        assert float(re.search(r' width="(\d+)"', drawn)[1]) < width + 480


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=12), st.floats(0.01, 2))
def test_labels_keep_their_order_and_are_a_gap_apart(given_places, gap):
    moved = spread_out(given_places, gap)
    order = sorted(range(len(moved)), key=lambda index: (given_places[index], index))
    steps = [moved[b] - moved[a] for a, b in itertools.pairwise(order)]
    assert all(step >= gap - 1e-9 for step in steps)
    assert sum(moved) == pytest.approx(sum(given_places), abs=1e-6), "on the whole they stay where they are"
    if all(abs(a - b) >= gap for i, a in enumerate(given_places) for b in given_places[:i]):
        assert moved == pytest.approx(given_places)


@given(st.lists(st.one_of(st.floats(-1e6, 1e6), st.just(math.nan)), max_size=8))
def test_an_axis_holds_all_figures_and_has_a_length(figures):
    low, high = domain(figures, floor=0.0)
    assert low < high
    assert all(low <= value <= high for value in figures if not math.isnan(value))


# --- colours: one model, one colour, in every chart, beside whichever others, in whatever order


# The first and the last would have one colour if each were alone.
COLOURED = ("als", "popularity", "bm25")


def colours(chart):
    """The colours of the series, of the first scale of a chart that has some."""
    scale = next(
        layer["encoding"]["color"]["scale"]
        for layer in chart.to_dict(validate=False)["layer"]
        if "domain" in layer["encoding"].get("color", {}).get("scale", {})
    )
    return dict(zip(scale["domain"], scale["range"], strict=True))


def of_models(models):
    return plots(models_rows(models, cutoffs=(5,), recalls=False), models)


def test_a_model_has_its_colour_in_any_order_and_beside_any_baseline():
    expected = colours(of_models(COLOURED).means("ndcg@5"))
    assert set(expected) == set(COLOURED)
    assert len(set(expected.values())) == 3
    turned = of_models(COLOURED[::-1])
    assert colours(turned.means("ndcg@5")) == expected
    rows = tuple(difference(model=model, baseline="bm25") for model in MODELS)
    beside = ComparisonPlots(rows, (), "bm25", 0.95, ("bm25", *MODELS))
    assert colours(beside()) == {model: expected[model] for model in MODELS}
    bars = histogram_chart([Histogram("als", (Bin(0.0, 1.0, 3),), 3, 0.5)], series=COLOURED[::-1], **WORDS)
    assert [one["fill"] for one in records_of(bars) if "fill" in one] == [expected["als"]]
    runs = [("run", datetime(2026, 1, day, tzinfo=UTC), one) for day in (1, 2) for one in turned.rows]
    assert colours(History(tuple(map(HistoryRow._make, runs))).plot("ndcg@5", width=300)) == expected


def test_a_model_keeps_its_colour_where_only_some_are_shown():
    expected = colours(of_models(COLOURED).means("ndcg@5"))
    for shown in (COLOURED[:1], COLOURED[1:], COLOURED[::2]):
        assert colours(replace(of_models(shown), models=COLOURED).means("ndcg@5")).items() <= expected.items()
    # In an evaluation of its own a model has the same colour, unless it stood back behind one that is not there.
    assert places_of(["popularity"]).items() <= places_of(COLOURED).items()
    assert places_of(COLOURED[1:]).items() <= places_of(COLOURED).items()


def test_no_two_of_seven_models_have_one_colour_and_the_nameless_one_has_the_first():
    for n in range(40):
        names = [f"{n}-{place}" for place in range(len(PALETTE))]
        assert sorted(places_of(names).values()) == list(range(len(PALETTE)))
        assert max(places_of(names[:-1]).values()) < len(PALETTE) - 1, "grey is for those who find no other"
    assert places_of([""]) == {"": 0}


def luminance(colour):
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def test_colours_have_contrast_on_light_and_dark():
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    least = dict.fromkeys(PALETTE, 3) | dict.fromkeys((*drawing._TEXTS, drawing.INK, drawing.QUIET), 4.5)
    for colour, ratio in least.items():
        assert contrast(colour, PAPER) >= ratio, colour
        assert contrast(ON_DARK[colour], ON_DARK[PAPER]) >= ratio, colour
