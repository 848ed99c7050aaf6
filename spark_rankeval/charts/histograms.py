"""How many users have which value, or which difference; a panel a model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import altair as alt

from spark_rankeval.charts.figures import WIDTH
from spark_rankeval.charts.marks import (
    EDGE,
    INK,
    PALETTE,
    PAPER,
    QUIET,
    ROOMY,
    Drawing,
    axis,
    data,
    heading,
    layered,
    listed,
    nothing,
    places_of,
    upright,
)
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
) -> Drawing:
    """Bars of the share of users, all panels on the same axes, with a line at the mean and its interval shaded.

    Args:
        histograms: a panel each.
        title: what is drawn.
        reading: lines that say what the marks are.
        x_title: what the values are.
        series: all models that have a colour, drawn or not.
        signed: values are differences, and 1: positive ones are gains, −1: they are losses; 0: values are no differences.
            Losses are grey.
        width: of the drawing without its labels, in pixels.
        height: of a panel, in pixels.
    """
    drawn = [one for one in histograms if one.bins]
    if not drawn:
        return nothing(title, "no user has a value" if not signed else "no user has another value", width)
    ends = [end for one in drawn for each in one.bins for end in (each.low, each.high)]
    ends += [end for one in drawn for end in (one.mean, one.low, one.high) if math.isfinite(end)] + (
        [0.0] if signed else []
    )
    tallest = max(each.count / one.n_users for one in drawn for each in one.bins)
    x = alt.Scale(domain=[min(ends), max(ends)], nice=False)
    y = alt.Scale(domain=[0, 1.08 * tallest], nice=False)
    panels = [
        _panel(one, x_title if one is drawn[-1] else "", x, y, series, signed, width, height, first=one is drawn[0])
        for one in drawn
    ]
    whole: alt.LayerChart | alt.VConcatChart = (
        panels[0] if len(panels) == 1 and width >= ROOMY else alt.vconcat(*panels, spacing=12)
    )
    texts = []
    for one in drawn:
        mode = max(one.bins, key=lambda each: each.count)
        shape = f"most users between {number(mode.low)} and {number(mode.high)}, mean {number(one.mean)}"
        texts.append(": ".join(filter(None, (one.series, shape))) + (f", {one.note}" if one.note else ""))
    return whole.properties(title=heading(title, reading), description=f"Histogram of {x_title}. {listed(texts)}.")


def _panel(
    histogram: Histogram,
    x_title: str,
    x_scale: alt.Scale,
    y_scale: alt.Scale,
    series: Sequence[str],
    signed: int,
    width: int,
    height: int,
    *,
    first: bool,
) -> alt.LayerChart:
    colour = PALETTE[places_of([*series, histogram.series])[histogram.series] % len(PALETTE)]
    records = [
        {
            "low": each.low,
            "high": each.high,
            "share": each.count / histogram.n_users,
            "count": each.count,
            "fill": colour if (each.low + each.high) * signed >= 0 else EDGE,
        }
        for each in histogram.bins
        if each.count
    ]
    x_axis = axis(title=x_title or None, grid=False, format="+.3~g" if signed else ".3~g", domain=True)
    x_axis.domainColor = EDGE
    x_axis.labelExpr = "datum.value == 0 ? '0' : datum.label"
    y_axis = axis(**upright("share of users" if first else ""), format="~%", tickCount=4)
    x = alt.X("low:Q", scale=x_scale, axis=x_axis)
    bars = (
        alt.Chart(data(records))
        .mark_rect(stroke=PAPER, strokeWidth=0.5)
        .encode(
            x=x,
            x2="high:Q",
            y=alt.Y("share:Q", scale=y_scale, axis=y_axis),
            y2=alt.Y2Datum(0),
            color=alt.Color("fill:N", scale=None),
            tooltip=[
                "low:Q",
                "high:Q",
                alt.Tooltip("count:Q", title="users", format=","),
                alt.Tooltip("share:Q", format=".1%"),
            ],
        )
    )
    layers = [bars]
    if math.isfinite(histogram.low) and math.isfinite(histogram.high):
        span = alt.Chart(data([{"low": histogram.low, "high": histogram.high}]))
        layers.append(span.mark_rect(color=QUIET, opacity=0.25).encode(x=x, x2="high:Q"))
    if signed:
        layers.append(alt.Chart(data([{"at": 0}])).mark_rule(color=INK).encode(x=alt.X("at:Q", scale=x_scale)))
    if math.isfinite(histogram.mean):
        mean = alt.Chart(data([{"at": histogram.mean}]))
        layers.append(mean.mark_rule(color=INK, strokeDash=[4, 3]).encode(x=alt.X("at:Q", scale=x_scale)))
    words = [text for text in (histogram.series, f"mean {number(histogram.mean)}", histogram.note) if text]
    if width >= ROOMY:
        text = alt.Chart(data([{"words": "\n".join(words)}]))
        layers.append(
            text.mark_text(align="left", baseline="top", dx=10, lineBreak="\n", color=QUIET, limit=220).encode(
                x=alt.value("width"), y=alt.value(0), text="words:N"
            )
        )
    # A narrow panel has no room beside it.
    above = (
        {}
        if width >= ROOMY
        else {
            "title": alt.Title(
                " · ".join(words).replace("\n", "; "), anchor="start", fontSize=11, fontWeight="normal", color=QUIET
            )
        }
    )
    return layered(layers, width=width, height=height, **above)
