"""One model, one colour: in every chart, beside whichever others, in whatever order."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from altair.utils.schemapi import debug_mode
from worlds.summary_rows import difference, models_rows

from spark_rankeval.records.chart_rows import Bin, Histogram
from spark_rankeval.records.stored import HistoryRow
from spark_rankeval.report.comparison_charts import ComparisonPlots
from spark_rankeval.report.drawing import histogram_chart
from spark_rankeval.report.marks import PALETTE, places_of
from spark_rankeval.report.result_charts import ResultPlots
from spark_rankeval.run_history.history import HistoryPlots

# The first and the last would have one colour if each were alone.
MODELS = ("als", "popularity", "bm25")


@pytest.fixture(autouse=True)
def unchecked():
    """Other tests have the form of these charts checked."""
    with debug_mode(False):
        yield


def colours(chart):
    """The colours of the series, of the first scale of a chart that has some."""
    parts = [chart.to_dict(validate=False)]
    for part in parts:
        if isinstance(part, dict):
            colour = part.get("color")
            scale = colour.get("scale") if isinstance(colour, dict) else None
            if scale and "domain" in scale:
                return dict(zip(scale["domain"], scale["range"], strict=True))
            parts += part.values()
        elif isinstance(part, list):
            parts += part
    return {}


def plots(models):
    rows = tuple(models_rows(models, cutoffs=(5,), recalls=False))
    return ResultPlots(rows, {}, models, list)


def test_a_model_has_its_colour_in_any_order_and_beside_any_baseline():
    expected = colours(plots(MODELS).means("ndcg@5"))
    assert set(expected) == set(MODELS)
    assert len(set(expected.values())) == 3
    turned = plots(MODELS[::-1])
    assert colours(turned.means("ndcg@5")) == colours(turned.quantiles("ndcg@5")) == expected
    rows = tuple(difference(model=model, baseline="bm25") for model in MODELS[:2])
    compared = ComparisonPlots(rows, (), "bm25", 0.95, ("bm25", *MODELS[:2]))
    assert colours(compared()) == {model: expected[model] for model in MODELS[:2]}
    bars = histogram_chart(
        [Histogram("als", (Bin(0.0, 1.0, 3),), 3, 0.5)], title="", reading=[], x_title="", series=MODELS[::-1]
    )
    assert f"'fill': '{expected['als']}'" in str(bars.to_dict(validate=False))
    runs = [("run", datetime(2026, 1, day, tzinfo=UTC), row) for day in (1, 2) for row in turned.rows]
    assert colours(HistoryPlots(tuple(map(HistoryRow._make, runs)))("ndcg@5", width=300)) == expected


def test_a_model_keeps_its_colour_where_only_some_are_shown():
    expected = colours(plots(MODELS).means("ndcg@5"))
    for shown in (MODELS[:1], MODELS[1:], MODELS[::2]):
        assert colours(replace(plots(shown), models=MODELS).means("ndcg@5")).items() <= expected.items()
    # In an evaluation of its own a model has the same colour, unless it stood back behind one that is not there.
    assert places_of(["popularity"]).items() <= places_of(MODELS).items()
    assert places_of(MODELS[1:]).items() <= places_of(MODELS).items()


def test_no_two_of_seven_models_have_one_colour_and_the_nameless_one_has_the_first():
    for n in range(40):
        names = [f"{n}-{place}" for place in range(len(PALETTE))]
        assert sorted(places_of(names).values()) == list(range(len(PALETTE)))
        assert max(places_of(names[:-1]).values()) < len(PALETTE) - 1, "grey is for those who find no other"
    assert places_of([""]) == {"": 0}
