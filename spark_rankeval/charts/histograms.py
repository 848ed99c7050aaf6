"""How many users have each value or difference; a panel for each model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import altair as alt

from spark_rankeval.charts import marks
from spark_rankeval.charts.figures import WIDTH
from spark_rankeval.tables.numbers import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_rankeval.charts.figures import Histogram


def histogram_chart(
    histograms: Sequence[Histogram],
    *,
    title: str,
    reading: Sequence[str],
    x_title: str,
    series: Sequence[str],
    signed: int = 0,
    width: int = WIDTH,
    height: int = 140,
) -> marks.Drawing:
    """Bars of the share of users, all panels on the same axes, with a line at the mean and its interval shaded.

    For differences, `signed` is 1 if positive ones are gains, and −1 if they are losses; losses are grey. Otherwise it is 0.
    """
    drawn = [histogram for histogram in histograms if histogram.bins]
    if not drawn:
        return marks.nothing(title, "no user has a value" if not signed else "no user has a difference", width)
    ends = [end for histogram in drawn for part in histogram.bins for end in (part.low, part.high)]
    means = [end for histogram in drawn for end in (histogram.mean, histogram.low, histogram.high)]
    ends += filter(math.isfinite, means)
    if signed:
        ends.append(0.0)
    tallest = max(part.count / histogram.n_users for histogram in drawn for part in histogram.bins)
    x = alt.Scale(domain=[min(ends), max(ends)], nice=False)
    y = alt.Scale(domain=[0, 1.08 * tallest], nice=False)
    panels = []
    for histogram in drawn:
        x_axis = marks.number_axis(
            (x_title if histogram is drawn[-1] else "") or None,
            signed=bool(signed),
            grid=False,
            domain=True,
            domainColor=marks.EDGE,
        )
        upright = marks.upright("share of users" if histogram is drawn[0] else "")
        axes: dict[str, Any] = {
            "x": alt.X("low:Q", scale=x, axis=x_axis),
            "y": alt.Y("share:Q", scale=y, axis=marks.axis(**upright, format="~%", tickCount=4)),
        }
        layers = [_bars(histogram, series, signed).encode(**axes), *_lines(histogram, axes["x"], x, signed)]
        panels.append(_with_words(layers, histogram, width, height))
    is_one = len(panels) == 1 and width >= marks.ROOMY
    chart: alt.LayerChart | alt.VConcatChart = panels[0] if is_one else alt.vconcat(*panels, spacing=12)
    about = f"Histogram of {x_title}. {marks.listed(list(map(_in_words, drawn)))}."
    return chart.properties(title=marks.heading(title, reading), description=about)


def _in_words(histogram: Histogram) -> str:
    mode = max(histogram.bins, key=lambda part: part.count)
    shape = f"most users between {number(mode.low)} and {number(mode.high)}, mean {number(histogram.mean)}"
    return ": ".join(filter(None, (histogram.series, shape))) + (f", {histogram.note}" if histogram.note else "")


def _bars(histogram: Histogram, series: Sequence[str], signed: int) -> alt.Chart:
    place = marks.places_of([*series, histogram.series])[histogram.series]
    colour = marks.PALETTE[place % len(marks.PALETTE)]
    records = [
        {
            **vars(part),
            "share": part.count / histogram.n_users,
            "fill": colour if (part.low + part.high) * signed >= 0 else marks.EDGE,
        }
        for part in histogram.bins
        if part.count
    ]
    users = alt.Tooltip("count:Q", title="users", format=",")
    bars: alt.Chart = marks.chart_of(records).mark_rect(stroke=marks.PAPER, strokeWidth=0.5)
    return bars.encode(
        x2="high:Q",
        y2=alt.Y2Datum(0),
        color=alt.Color("fill:N", scale=None),
        tooltip=["low:Q", "high:Q", users, alt.Tooltip("share:Q", format=".1%")],
    )


def _lines(histogram: Histogram, x: alt.X, scale: alt.Scale, signed: int) -> list[alt.Chart]:
    """The interval of the mean, shaded; for differences a line at 0; a dashed line at the mean."""
    layers: list[alt.Chart] = []
    if math.isfinite(histogram.low) and math.isfinite(histogram.high):
        shade = marks.chart_of([{"low": histogram.low, "high": histogram.high}])
        layers.append(shade.mark_rect(color=marks.QUIET, opacity=0.25).encode(x=x, x2="high:Q"))
    at = alt.X("at:Q", scale=scale)
    if signed:
        layers.append(marks.chart_of([{"at": 0}]).mark_rule(color=marks.INK).encode(x=at))
    if math.isfinite(histogram.mean):
        mean = marks.chart_of([{"at": histogram.mean}])
        layers.append(mean.mark_rule(color=marks.INK, strokeDash=[4, 3]).encode(x=at))
    return layers


def _with_words(layers: list[alt.Chart], histogram: Histogram, width: int, height: int) -> alt.LayerChart:
    """The panel with its words beside it or, if it is narrow, above it."""
    words = [text for text in (histogram.series, f"mean {number(histogram.mean)}", histogram.note) if text]
    above: dict[str, Any] = {}
    if width >= marks.ROOMY:
        text = marks.chart_of([{"words": "\n".join(words)}]).mark_text(
            align="left", baseline="top", dx=10, lineBreak="\n", color=marks.QUIET, limit=220
        )
        layers.append(text.encode(x=alt.value("width"), y=alt.value(0), text="words:N"))
    else:
        title = " · ".join(words).replace("\n", "; ")
        above["title"] = alt.Title(title, anchor="start", fontSize=11, fontWeight="normal", color=marks.QUIET)
    return marks.layered(layers, width=width, height=height, **above)
