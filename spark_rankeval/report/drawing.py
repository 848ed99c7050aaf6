"""Altair charts of figures with intervals, of users' values, and of histograms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import altair as alt

from spark_rankeval.printed_tables import number
from spark_rankeval.records.chart_rows import WIDTH, Estimate, Histogram, StageBar, axis_of, with_interval
from spark_rankeval.records.summary import SummaryRow
from spark_rankeval.report import marks

# Pixels that a line takes, and the room between groups of them.
_LINE, _SPREAD_LINE, _ROOM = 16, 18, 10


def forest_chart(
    estimates: Sequence[Estimate],
    *,
    title: str,
    reading: Sequence[str],
    x_title: str,
    series: Sequence[str],
    reference: Mapping[str, float] | None = None,
    signed: bool = False,
    width: int = WIDTH,
) -> marks.Drawing:
    """A mark and a line to both ends of the interval for each estimate, models in colours on lines of their own.

    Estimates without a value keep their line, empty. A reference is a value for each model, drawn as a dashed line.
    If values are signed, they are differences: a line stands at 0, and margins are shaded.
    """
    if not estimates:
        return marks.nothing(title, "there is nothing to compare", width)
    drawn = {each.series for each in estimates} | (reference or {}).keys()
    panel = partial(
        _estimates, title=x_title, shown=[name for name in series if name in drawn], series=series,
        reference=reference or {}, signed=signed, width=width,
    )  # fmt: skip
    chart = marks.by_axis(estimates, attrgetter("axis", "x_title"), panel)
    texts = [" ".join(filter(None, (str(each.place), each.series, with_interval(each)))) for each in estimates]
    about = f"Marks with intervals, {x_title}: {marks.listed(texts)}."
    return marks.titled(chart, title, reading, about)


def _finite_ends(estimate: Estimate) -> list[float]:
    return [end for end in (estimate.value, estimate.low, estimate.high) if math.isfinite(end)]


def _estimates(
    estimates: Sequence[Estimate],
    has_legend: bool,
    *,
    title: str,
    shown: Sequence[str],
    series: Sequence[str],
    reference: Mapping[str, float],
    signed: bool,
    width: int,
    ends: Sequence[float] = (),
) -> alt.LayerChart:
    x_title = estimates[0].x_title or title
    places = list(dict.fromkeys(str(each.place) for each in estimates))
    drawn = {each.series for each in estimates} | reference.keys()
    present = [name for name in shown if name in drawn]
    is_model_a_line = all(each.place == each.series for each in estimates)
    several = len(present) > 1 and not is_model_a_line
    margins = {str(each.place): each.margin for each in estimates if each.margin}
    values = [*ends, *reference.values(), *(end for each in estimates for end in _finite_ends(each))]
    values += [end for margin in margins.values() for end in (margin, -margin)]
    if signed:
        values.append(0.0)
    x = _horizontal(x_title, values, width, signed=signed)
    line = _places(places, present if several else (), width)
    # All layers encode colours alike; otherwise Vega draws no legend.
    legend = has_legend and len(shown) > 1 and not is_model_a_line
    colour, shape = marks.looks(shown, series, legend=legend, width=width)
    base = marks.chart_of(each.record() for each in estimates).encode(**line, color=colour)
    layers: list[alt.Chart] = []
    if margins:
        ranges = [{"place": place, "from": -margin, "to": margin} for place, margin in margins.items()]
        shade = marks.chart_of(ranges).mark_rect(color=marks.FAINT, opacity=0.8)
        layers.append(shade.encode(x=alt.X("from:Q", **x), x2="to:Q", y=line["y"]))
    if signed:
        layers.append(marks.chart_of([{"at": 0}]).mark_rule(color=marks.INK).encode(x=alt.X("at:Q", **x)))
    references = [{"series": name, "at": value} for name, value in reference.items() if math.isfinite(value)]
    if references:
        dashed = marks.chart_of(references).mark_rule(strokeDash=[4, 3], opacity=0.7)
        layers.append(dashed.encode(x=alt.X("at:Q", **x), color=colour))
    bounded = base.transform_filter("isValid(datum.low) && isValid(datum.high)")
    layers.append(bounded.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", **x), x2="high:Q"))
    hints = ["place:N", alt.Tooltip("series:N", title="model"), alt.Tooltip("shown:N", title=x_title), "note:N"]
    dots = base.transform_filter("isValid(datum.value)").mark_point(filled=True, opacity=1, size=55)
    layers.append(dots.encode(x=alt.X("value:Q", **x), shape=shape, tooltip=hints))
    layers += _notes(base, (each.note for each in estimates), width)
    height = len(places) * ((len(present) if several else 1) * _LINE + _ROOM)
    return marks.layered(layers, width=width, height=height)


# The parts of a stage's relevant items, with their colours.
_PARTS = {"kept": marks.PALETTE[0], "added": marks.PALETTE[2], "lost": marks.FAINT}


def stages_chart(
    bars: Sequence[StageBar],
    estimates: Sequence[Estimate],
    *,
    title: str,
    reading: Sequence[str],
    x_title: str,
    width: int = WIDTH,
) -> marks.Drawing:
    """A bar for each stage, of the relevant items that it keeps, adds and loses, and below marks of what it reaches and allows."""
    series = list(dict.fromkeys(each.series for each in estimates))
    below = _estimates(
        estimates,
        True,
        title=x_title,
        shown=series,
        series=series,
        reference={},
        signed=False,
        width=width,
        ends=[0.0, 1.0],
    )
    texts = [
        f"{bar.place}: {number(bar.kept)} kept, {number(bar.added)} added, {number(bar.lost)} lost" for bar in bars
    ]
    texts += [f"{each.place} {each.series} {with_interval(each)}" for each in estimates]
    chart: alt.VConcatChart = alt.vconcat(_stage_bars(bars, width), below, spacing=24)
    about = f"Bars of shares of the relevant items, and marks with intervals, {x_title}: {marks.listed(texts)}."
    chart = chart.resolve_scale(color="independent", shape="independent")
    return marks.titled(chart, title, reading, about)


def _stage_bars(bars: Sequence[StageBar], width: int) -> alt.LayerChart:
    x = _horizontal("share of a user's relevant items", [0.0, 1.0], width)
    line = _places([bar.place for bar in bars], (), width)
    records = []
    for bar in bars:
        start = 0.0
        for part in _PARTS:
            size = getattr(bar, part)
            if math.isfinite(size) and size > 0:
                records.append({"place": bar.place, "part": part, "from": start, "to": start + size, "share": size})
                start += size
    names = alt.Legend(title=None, orient="top", labelColor=marks.INK, columns=len(_PARTS))
    colour = alt.Color(
        "part:N", scale=alt.Scale(domain=list(_PARTS), range=list(_PARTS.values())), sort=list(_PARTS), legend=names
    )
    hints = ["place:N", "part:N", alt.Tooltip("share:Q", format=".1%")]
    boxes = marks.chart_of(records).mark_rect(stroke=marks.PAPER, strokeWidth=0.5)
    ends = [
        {"place": bar.place, "low": bar.low, "high": bar.high}
        for bar in bars
        if math.isfinite(bar.low) and math.isfinite(bar.high)
    ]
    rules = marks.chart_of(ends).mark_rule(strokeWidth=2, color=marks.INK)
    layers = [
        boxes.encode(**line, x=alt.X("from:Q", **x), x2="to:Q", color=colour, tooltip=hints),
        rules.encode(**line, x=alt.X("low:Q", **x), x2="high:Q"),
    ]
    return marks.layered(layers, width=width, height=len(bars) * (_LINE + _ROOM))


def quantile_chart(
    rows: Sequence[SummaryRow], *, title: str, reading: Sequence[str], series: Sequence[str], width: int = WIDTH
) -> marks.Drawing:
    """A thin line from the smallest to the largest value, a thick one between the outer quantiles, ticks at all, a mark at the mean."""
    drawn = [row for row in rows if math.isfinite(row.minimum) and math.isfinite(row.maximum)]
    if not drawn:
        return marks.nothing(title, "no user has a value", width)
    models = {row.model for row in drawn}
    panel = partial(_spreads, shown=[name for name in series if name in models], series=series, width=width)
    chart = marks.by_axis(drawn, lambda row: axis_of(row.definition), panel)
    texts = [
        f"{' '.join(filter(None, (row.name, row.model)))}: from {number(row.minimum)} to {number(row.maximum)}, "
        f"mean {number(row.mean)}"
        for row in drawn
    ]
    about = f"Lines from the smallest to the largest value of a user. {marks.listed(texts)}."
    return marks.titled(chart, title, reading, about)


def _spreads(
    rows: Sequence[SummaryRow], has_legend: bool, *, shown: Sequence[str], series: Sequence[str], width: int
) -> alt.LayerChart:
    drawn = {row.model for row in rows}
    present = [name for name in shown if name in drawn]
    places = list(dict.fromkeys(row.name for row in rows))
    records = list(map(_spread, rows))
    ticks = [
        {
            "place": row.name,
            "series": row.model,
            "at": value,
            "shown": f"{share:.0%} of the users are below",
        }
        for row in rows
        for share, value in sorted(row.quantiles.items())
        if math.isfinite(value)
    ]
    x = _horizontal("a user's value", [end for row in rows for end in (row.minimum, row.maximum)], width)
    colour, shape = marks.looks(shown, series, legend=has_legend and len(shown) > 1, width=width)
    line = {**_places(places, present if len(present) > 1 else (), width), "color": colour}
    base = marks.chart_of(records).encode(**line)
    thick = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=6, opacity=0.4)
    tick = marks.chart_of(ticks).mark_tick(thickness=2, size=12)
    dots = base.transform_filter("isValid(datum.mean)").mark_point(filled=True, size=50, opacity=1)
    hints = ["place:N", "series:N", "mean:Q", "least:Q", "greatest:Q"]
    layers = [
        base.mark_rule(strokeWidth=1.5, opacity=0.6).encode(x=alt.X("least:Q", **x), x2="greatest:Q"),
        thick.encode(x=alt.X("low:Q", **x), x2="high:Q"),
        tick.encode(x=alt.X("at:Q", **x), tooltip=["at:Q", "shown:N"], **line),
        dots.encode(x=alt.X("mean:Q", **x), shape=shape, tooltip=hints),
        *_notes(base, (record["note"] for record in records), width),
    ]
    return marks.layered(layers, width=width, height=len(places) * (_SPREAD_LINE * len(present) + _ROOM))


def _spread(row: SummaryRow) -> dict[str, Any]:
    values = [value for _, value in sorted(row.quantiles.items()) if math.isfinite(value)]
    low, high = (values[0], values[-1]) if len(values) > 1 else (None, None)
    return {
        "place": row.name,
        "series": row.model,
        "least": row.minimum,
        "greatest": row.maximum,
        "mean": row.mean if math.isfinite(row.mean) else None,
        "low": low,
        "high": high,
        "note": f"{row.n_zero / row.n_users:.0%} at 0" if row.n_users else "",
    }


def _horizontal(title: str, values: Iterable[float], width: int, *, signed: bool = False) -> dict[str, Any]:
    """The scale and the axis of figures."""
    axis = marks.number_axis(title, signed=signed, orient="bottom", tickCount=6 if width >= marks.ROOMY else 4)
    return {"scale": alt.Scale(domain=marks.domain(values), nice=False, zero=False), "axis": axis}


def _places(places: Sequence[str], models: Sequence[str], width: int) -> dict[str, Any]:
    """A line for each place, or one for each place and model."""
    room = 230 if width >= marks.ROOMY else 132
    axis = marks.quiet_axis(title=None, grid=False, labelColor=marks.INK, labelLimit=room)
    scale = alt.Scale(paddingInner=0.25, paddingOuter=0.15)
    line: dict[str, Any] = {"y": alt.Y("place:N", sort=list(places), scale=scale, axis=axis)}
    if models:
        line["yOffset"] = alt.YOffset("series:N", sort=list(models), scale=alt.Scale(domain=list(models)))
    return line


def _notes(base: alt.Chart, notes: Iterable[str], width: int) -> list[alt.Chart]:
    """The notes beside the lines, if there is room for them."""
    if width < marks.ROOMY or not any(notes):
        return []
    text: alt.Chart = base.mark_text(align="left", dx=10, limit=220)
    return [text.encode(x=alt.value("width"), text="note:N", color=alt.value(marks.QUIET))]


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
        upright = marks.upright_title("share of users" if histogram is drawn[0] else "")
        axes: dict[str, Any] = {
            "x": alt.X("low:Q", scale=x, axis=x_axis),
            "y": alt.Y("share:Q", scale=y, axis=marks.quiet_axis(**upright, format="~%", tickCount=4)),
        }
        layers = [_bars(histogram, series, signed).encode(**axes), *_mean_lines(histogram, axes["x"], x, signed)]
        panels.append(_with_words(layers, histogram, width, height))
    is_one = len(panels) == 1 and width >= marks.ROOMY
    chart: alt.LayerChart | alt.VConcatChart = panels[0] if is_one else alt.vconcat(*panels, spacing=12)
    about = f"Histogram of {x_title}. {marks.listed(list(map(_histogram_in_words, drawn)))}."
    return marks.titled(chart, title, reading, about)


def _histogram_in_words(histogram: Histogram) -> str:
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


def _mean_lines(histogram: Histogram, x: alt.X, scale: alt.Scale, signed: int) -> list[alt.Chart]:
    """The interval of the mean, shaded; for differences a line at 0; a dashed line at the mean."""
    layers: list[alt.Chart] = []
    if math.isfinite(histogram.low) and math.isfinite(histogram.high):
        shade = marks.chart_of([{"low": histogram.low, "high": histogram.high}])
        layers.append(shade.mark_rect(color=marks.QUIET, opacity=0.25).encode(x=x, x2="high:Q"))
    marker = alt.X("at:Q", scale=scale)
    if signed:
        layers.append(marks.chart_of([{"at": 0}]).mark_rule(color=marks.INK).encode(x=marker))
    if math.isfinite(histogram.mean):
        mean = marks.chart_of([{"at": histogram.mean}])
        layers.append(mean.mark_rule(color=marks.INK, strokeDash=[4, 3]).encode(x=marker))
    return layers


def _with_words(layers: list[alt.Chart], histogram: Histogram, width: int, height: int) -> alt.LayerChart:
    """The panel with its words beside it or, if it is narrow, above it."""
    texts = (histogram.series, f"mean {number(histogram.mean)}", histogram.note)
    words = [text for text in texts if text]
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
