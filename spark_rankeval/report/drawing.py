"""Drawings in Altair: colours, axes and panels that charts share, marks with intervals, histograms and curves."""

from __future__ import annotations

import itertools
import math
import re
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, TypeAlias, cast

import altair as alt

from spark_rankeval.printed_tables import number
from spark_rankeval.records.tables_of_means import WIDTH, Estimate, Histogram, StageBar, with_interval

Drawing: TypeAlias = alt.Chart | alt.LayerChart | alt.VConcatChart

#: Okabe and Ito's colours, which colour-blind people tell apart; the light ones darkened to a contrast of 3 on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#B8558F", "#B07A00", "#3B8FC4", "#555555")
# The same hues with the contrast that text needs, 4.5 on white.
_TEXTS = ("#0072B2", "#B34F00", "#00795A", "#A3457C", "#8A5F00", "#2A74A4", "#555555")
_LIGHT = ("#56B4E9", "#F0883E", "#2FC79A", "#E08FBF", "#E5B73B", "#A5D8F5", "#B8BDC4")
INK, QUIET, EDGE, FAINT = "#222222", "#666666", "#999999", "#DDDDDD"
PAPER = "#FFFFFF"
#: What each colour of the drawings is on a dark ground.
ON_DARK = {
    **dict(zip(PALETTE, _LIGHT, strict=True)),
    **dict(zip(_TEXTS, _LIGHT, strict=True)),
    INK: "#E8EAED",
    QUIET: "#A9AFB7",
    EDGE: "#7C838C",
    FAINT: "#363B42",
    PAPER: "#16191D",
}
_SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right")
# Lines of more models than colours are dashed.
_DASHES = [pattern for pattern in ([1, 0], [6, 3], [2, 2]) for _ in PALETTE]
_MOST_LISTED = 12
# What begins a tag or a comment of HTML.
_TAG = re.compile("<(?=[/!a-z])", re.IGNORECASE)


def domain(values: Iterable[float], *, floor: float | None = None) -> list[float]:
    """From the smallest to the largest finite figure, with room at both ends but not below a floor.

    >>> domain([0.5]), domain([0.0, 1.0], floor=0.0), domain([])
    ([0.45, 0.55], [0.0, 1.05], [0.0, 1.0])
    """
    finite = [value for value in values if math.isfinite(value)]
    if floor is not None and all(value >= floor for value in finite):
        finite.append(floor)
    if not finite:
        return [0.0, 1.0]
    low, high = min(finite), max(finite)
    room = 0.05 * (high - low) or 0.1 * abs(low) or 0.1
    return [low if low == floor else low - room, high + room]


def looks(
    shown: Sequence[str], series: Sequence[str], *, legend: bool, width: int, offset: int = 10
) -> tuple[alt.Color, alt.Shape]:
    """The colour of each series in the chart, and the shape of its points for readers who do not see the colour."""
    columns = min(len(shown), 3) or 1
    names = alt.Legend(
        title=None,
        orient="top",
        labelLimit=max(width // columns - 24, 60),
        labelColor=INK,
        columns=columns,
        columnPadding=14,
        symbolOpacity=1,
        symbolStrokeWidth=2,
        offset=offset,
    )
    options: dict[str, Any] = {"sort": list(shown), "legend": names if legend else None}
    colour = alt.Color("series:N", scale=_looks(shown, series, PALETTE), **options)
    return colour, alt.Shape("series:N", scale=_looks(shown, series, _SHAPES), **options)


def places_of(series: Iterable[str]) -> dict[str, int]:
    """The place of each series in the palette, or in further rounds of it, by its name.

    So a model has one colour in every chart and page. If two names would have the same colour, one of them takes the next
    free one. The last one, a grey, is for series without any other.

    >>> places_of(["als", "popularity"]) == places_of(["popularity", "als"]), places_of([""])
    (True, {'': 0})
    """
    n = len(PALETTE)
    places: dict[str, int] = {}
    # Short names that are alike differ in the high bits.
    for code, name in sorted((zlib.crc32(name.encode()) >> 22, name) for name in dict.fromkeys(series)):
        places_in_turn = [(code + step) % (n - 1) for step in range(n - 1)]
        rounds = (before + place for before in itertools.count(0, n) for place in (*places_in_turn, n - 1))
        places[name] = next(place for place in rounds if place not in places.values())
    return places


def _looks(shown: Sequence[str], series: Sequence[str], chosen: Sequence[Any]) -> alt.Scale:
    places = places_of(series)
    return alt.Scale(domain=list(shown), range=[chosen[places[name] % len(chosen)] for name in shown])


def quiet_axis(**options: Any) -> alt.Axis:
    """An axis with as little ink as possible."""
    colours: dict[str, Any] = {"gridColor": FAINT, "labelColor": QUIET, "titleColor": QUIET}
    marks: dict[str, Any] = {"domain": False, "ticks": False, "tickCount": 6, "labelPadding": 6}
    return alt.Axis(**(colours | marks | {"titleLimit": 260, "titleFontWeight": "normal"} | options))


def number_axis(title: str | None, *, signed: bool, **options: Any) -> alt.Axis:
    """An axis of figures or, if they are signed, of differences. Vega chooses as many digits as tell its ticks apart."""
    label = "datum.value == 0 ? '0' : datum.label"
    return quiet_axis(title=title, format="+~r" if signed else "~r", labelExpr=label, **options)


def upright_title(title: str) -> dict[str, Any]:
    """The title of a vertical axis, above it and not turned."""
    return {"title": title, "titleAngle": 0, "titleAlign": "left", "titleAnchor": "end", "titleX": 0, "titleY": -12}


def nothing(title: str, why: str, width: int) -> Drawing:
    """A chart without figures, which says why there are none."""
    text: alt.Chart = chart_of([{"why": why}]).mark_text(color=QUIET, fontSize=12).encode(text="why:N")
    return titled(text.properties(width=width, height=60), title, [], f"{title}: {why}")


def titled(chart: Drawing, title: str, reading: Sequence[str], about: str) -> Drawing:
    """A chart with its title, how to read it, and a description for those who cannot see it.

    Altair's page has the chart in a script, which a name could end. So no name in the chart looks like a tag.
    """
    below: dict[str, Any] = {"subtitle": list(reading), "subtitleColor": QUIET, "subtitlePadding": 4}
    heading = alt.Title(title, anchor="start", color=INK, offset=14, fontSize=14, **below)
    chart = chart.properties(title=heading, description=about)
    text = chart.to_json(validate=False, indent=None, sort_keys=False)
    harmless = _TAG.sub("<\u2060", text)  # a character without width
    return chart if harmless == text else cast("Drawing", type(chart).from_json(harmless, validate=False))


def chart_of(records: Iterable[Mapping[str, Any]]) -> alt.Chart:
    """A chart without a mark. Its records stay as they are: a table of pandas would be limited in length."""
    return alt.Chart(alt.InlineData(values=list(records)))


def layered(layers: Sequence[alt.Chart], **properties: Any) -> alt.LayerChart:
    """Charts on top of one another, without a frame."""
    return alt.LayerChart(layer=list(layers)).properties(view=alt.ViewBackground(strokeWidth=0), **properties)


def listed(texts: Sequence[str]) -> str:
    """The first texts, and how many more there are."""
    more = f"; and {len(texts) - _MOST_LISTED} more" if len(texts) > _MOST_LISTED else ""
    return "; ".join(texts[:_MOST_LISTED]) + more


# Pixels that a line takes, and the room between groups of them.
_LINE, _ROOM = 16, 10


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
) -> Drawing:
    """A mark and a line to both ends of the interval for each estimate, models in colours on lines of their own.

    Estimates without a value keep their line, empty. A reference is a value for each model, drawn as a dashed line.
    If values are signed, they are differences: a line stands at 0, and margins are shaded.
    Each axis has a panel. The first has the legend of all, and all encode the same series as colours, because they share scales.
    """
    if not estimates:
        return nothing(title, "there is nothing to compare", width)
    drawn = {each.series for each in estimates} | (reference or {}).keys()
    shown = [name for name in series if name in drawn]
    groups: dict[tuple[str, str], list[Estimate]] = {}
    for each in estimates:
        groups.setdefault((each.axis, each.x_title), []).append(each)
    panels = [
        _estimates(
            group, place == 0, title=x_title, shown=shown, series=series, reference=reference or {}, signed=signed, width=width,
        )
        for place, group in enumerate(groups.values())
    ]  # fmt: skip
    chart = panels[0] if len(panels) == 1 else alt.vconcat(*panels).resolve_scale(x="independent")
    texts = [" ".join(filter(None, (str(each.place), each.series, with_interval(each)))) for each in estimates]
    about = f"Marks with intervals, {x_title}: {listed(texts)}."
    return titled(chart, title, reading, about)


def _estimates(
    estimates: Sequence[Estimate],
    has_legend: bool,
    *,
    title: str,
    shown: Sequence[str],
    series: Sequence[str],
    width: int,
    reference: Mapping[str, float] = MappingProxyType({}),
    signed: bool = False,
    ends: Sequence[float] = (),
) -> alt.LayerChart:
    x_title = estimates[0].x_title or title
    places = list(dict.fromkeys(str(each.place) for each in estimates))
    drawn = {each.series for each in estimates} | reference.keys()
    present = [name for name in shown if name in drawn]
    is_model_a_line = all(each.place == each.series for each in estimates)
    several = len(present) > 1 and not is_model_a_line
    margins = {str(each.place): each.margin for each in estimates if each.margin}
    values = [*ends, *reference.values(), *(end for each in estimates for end in (each.value, each.low, each.high))]
    values += [end for margin in margins.values() for end in (margin, -margin)]
    if signed:
        values.append(0.0)
    x = _horizontal(x_title, values, signed=signed)
    line = _places(places, present if several else ())
    # All layers encode colours alike; otherwise Vega draws no legend.
    legend = has_legend and len(shown) > 1 and not is_model_a_line
    colour, shape = looks(shown, series, legend=legend, width=width)
    base = chart_of(each.record() for each in estimates).encode(**line, color=colour)
    layers: list[alt.Chart] = []
    if margins:
        ranges = [{"place": place, "from": -margin, "to": margin} for place, margin in margins.items()]
        shade = chart_of(ranges).mark_rect(color=FAINT, opacity=0.8)
        layers.append(shade.encode(x=alt.X("from:Q", **x), x2="to:Q", y=line["y"]))
    if signed:
        layers.append(chart_of([{"at": 0}]).mark_rule(color=INK).encode(x=alt.X("at:Q", **x)))
    references = [{"series": name, "at": value} for name, value in reference.items() if math.isfinite(value)]
    if references:
        dashed = chart_of(references).mark_rule(strokeDash=[4, 3], opacity=0.7)
        layers.append(dashed.encode(x=alt.X("at:Q", **x), color=colour))
    bounded = base.transform_filter("isValid(datum.low) && isValid(datum.high)")
    layers.append(bounded.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", **x), x2="high:Q"))
    hints = ["place:N", alt.Tooltip("series:N", title="model"), alt.Tooltip("shown:N", title=x_title), "note:N"]
    dots = base.transform_filter("isValid(datum.value)").mark_point(filled=True, opacity=1, size=55)
    layers.append(dots.encode(x=alt.X("value:Q", **x), shape=shape, tooltip=hints))
    if any(each.note for each in estimates):
        beside = base.mark_text(align="left", dx=10, limit=220)
        layers.append(beside.encode(x=alt.value("width"), text="note:N", color=alt.value(QUIET)))
    height = len(places) * ((len(present) if several else 1) * _LINE + _ROOM)
    return layered(layers, width=width, height=height)


# The parts of a stage's relevant items, with their colours.
_PARTS = {"kept": PALETTE[0], "added": PALETTE[2], "lost": FAINT}


def stages_chart(
    bars: Sequence[StageBar],
    estimates: Sequence[Estimate],
    *,
    title: str,
    reading: Sequence[str],
    x_title: str,
    width: int = WIDTH,
) -> Drawing:
    """A bar for each stage, of the relevant items that it keeps, adds and loses, and below marks of what it reaches and allows."""
    series = list(dict.fromkeys(each.series for each in estimates))
    below = _estimates(estimates, True, title=x_title, shown=series, series=series, width=width, ends=[0.0, 1.0])
    texts = [
        f"{bar.place}: {number(bar.kept)} kept, {number(bar.added)} added, {number(bar.lost)} lost" for bar in bars
    ]
    texts += [f"{each.place} {each.series} {with_interval(each)}" for each in estimates]
    chart: alt.VConcatChart = alt.vconcat(_stage_bars(bars, width), below, spacing=24)
    about = f"Bars of shares of the relevant items, and marks with intervals, {x_title}: {listed(texts)}."
    chart = chart.resolve_scale(color="independent", shape="independent")
    return titled(chart, title, reading, about)


def _stage_bars(bars: Sequence[StageBar], width: int) -> alt.LayerChart:
    x = _horizontal("share of a user's relevant items", [0.0, 1.0])
    line = _places([bar.place for bar in bars], ())
    records = []
    for bar in bars:
        start = 0.0
        for part in _PARTS:
            size = getattr(bar, part)
            if math.isfinite(size) and size > 0:
                records.append({"place": bar.place, "part": part, "from": start, "to": start + size, "share": size})
                start += size
    names = alt.Legend(title=None, orient="top", labelColor=INK, columns=len(_PARTS))
    colour = alt.Color(
        "part:N", scale=alt.Scale(domain=list(_PARTS), range=list(_PARTS.values())), sort=list(_PARTS), legend=names
    )
    hints = ["place:N", "part:N", alt.Tooltip("share:Q", format=".1%")]
    boxes = chart_of(records).mark_rect(stroke=PAPER, strokeWidth=0.5)
    ends = [
        {"place": bar.place, "low": bar.low, "high": bar.high}
        for bar in bars
        if math.isfinite(bar.low) and math.isfinite(bar.high)
    ]
    rules = chart_of(ends).mark_rule(strokeWidth=2, color=INK)
    layers = [
        boxes.encode(**line, x=alt.X("from:Q", **x), x2="to:Q", color=colour, tooltip=hints),
        rules.encode(**line, x=alt.X("low:Q", **x), x2="high:Q"),
    ]
    return layered(layers, width=width, height=len(bars) * (_LINE + _ROOM))


def _horizontal(title: str, values: Iterable[float], *, signed: bool = False) -> dict[str, Any]:
    """The scale and the axis of figures. Those without a sign begin at 0, so that a small share looks small."""
    axis = number_axis(title, signed=signed, orient="bottom")
    reach = domain(values, floor=None if signed else 0.0)
    return {"scale": alt.Scale(domain=reach, nice=False, zero=False), "axis": axis}


def _places(places: Sequence[str], models: Sequence[str]) -> dict[str, Any]:
    """A line for each place, or one for each place and model."""
    axis = quiet_axis(title=None, grid=False, labelColor=INK, labelLimit=230)
    scale = alt.Scale(paddingInner=0.25, paddingOuter=0.15)
    line: dict[str, Any] = {"y": alt.Y("place:N", sort=list(places), scale=scale, axis=axis)}
    if models:
        line["yOffset"] = alt.YOffset("series:N", sort=list(models), scale=alt.Scale(domain=list(models)))
    return line


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

    For differences, `signed` is 1 if positive ones are gains, and −1 if they are losses; losses are grey. Otherwise it is 0.
    """
    drawn = [histogram for histogram in histograms if histogram.bins]
    if not drawn:
        return nothing(title, "no user has a value" if not signed else "no user has a difference", width)
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
        x_words = x_title if histogram is drawn[-1] else None
        x_axis = number_axis(x_words, signed=bool(signed), grid=False, domain=True, domainColor=EDGE)
        upright = upright_title("share of users" if histogram is drawn[0] else "")
        axes: dict[str, Any] = {
            "x": alt.X("low:Q", scale=x, axis=x_axis),
            "y": alt.Y("share:Q", scale=y, axis=quiet_axis(**upright, format="~%", tickCount=4)),
        }
        layers = [_bars(histogram, series, signed).encode(**axes), *_mean_lines(histogram, axes["x"], x, signed)]
        panels.append(_with_words(layers, histogram, width, height))
    chart: alt.LayerChart | alt.VConcatChart = panels[0] if len(panels) == 1 else alt.vconcat(*panels, spacing=12)
    about = f"Histogram of {x_title}. {listed(list(map(_histogram_in_words, drawn)))}."
    return titled(chart, title, reading, about)


def _histogram_in_words(histogram: Histogram) -> str:
    mode = max(histogram.bins, key=lambda part: part.count)
    shape = f"most users between {number(mode.low)} and {number(mode.high)}, mean {number(histogram.mean)}"
    return ": ".join(filter(None, (histogram.series, shape))) + (f", {histogram.note}" if histogram.note else "")


def _bars(histogram: Histogram, series: Sequence[str], signed: int) -> alt.Chart:
    place = places_of([*series, histogram.series])[histogram.series]
    colour = PALETTE[place % len(PALETTE)]
    records = [
        {
            **vars(part),
            "share": part.count / histogram.n_users,
            "fill": colour if (part.low + part.high) * signed >= 0 else EDGE,
        }
        for part in histogram.bins
        if part.count
    ]
    users = alt.Tooltip("count:Q", title="users", format=",")
    bars: alt.Chart = chart_of(records).mark_rect(stroke=PAPER, strokeWidth=0.5)
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
        shade = chart_of([{"low": histogram.low, "high": histogram.high}])
        layers.append(shade.mark_rect(color=QUIET, opacity=0.25).encode(x=x, x2="high:Q"))
    marker = alt.X("at:Q", scale=scale)
    if signed:
        layers.append(chart_of([{"at": 0}]).mark_rule(color=INK).encode(x=marker))
    if math.isfinite(histogram.mean):
        mean = chart_of([{"at": histogram.mean}])
        layers.append(mean.mark_rule(color=INK, strokeDash=[4, 3]).encode(x=marker))
    return layers


def _with_words(layers: list[alt.Chart], histogram: Histogram, width: int, height: int) -> alt.LayerChart:
    """The panel with its words beside it."""
    texts = (histogram.series, f"mean {number(histogram.mean)}", histogram.note)
    words = "\n".join(filter(None, texts))
    text = chart_of([{"words": words}]).mark_text(
        align="left", baseline="top", dx=10, lineBreak="\n", color=QUIET, limit=220
    )
    beside = text.encode(x=alt.value("width"), y=alt.value(0), text="words:N")
    return layered([*layers, beside], width=width, height=height)


_LINE_OF_TEXT = 15
# Names stand above the title of the upright axis.
_ABOVE_TITLE = 26
# More points have no room between them, and are not drawn.
_MOST_POINTS = 25
# More places do not all have a label.
_MOST_LABELS = 6
_HALF_A_DAY = 12 * 60 * 60 * 1000
# The format of times on an axis that spans less than so many milliseconds. An axis has ten marks or so.
_TIME_FORMATS = (
    (10_000, "%H:%M:%S.%L"),
    (600_000, "%m-%d %H:%M:%S"),
    (20 * _HALF_A_DAY, "%m-%d %H:%M"),
    (math.inf, "%Y-%m-%d"),
)


def curve_chart(
    estimates: Sequence[Estimate],
    *,
    title: str,
    reading: Sequence[str],
    x_title: str,
    y_title: str,
    series: Sequence[str],
    whole_numbers: bool = False,
    times: bool = False,
    limits: Sequence[tuple[str, float]] = (),
    ringed: Collection[str] = (),
    changes: Mapping[float, str] | None = None,
    width: int = WIDTH,
    height: int = 300,
) -> Drawing:
    """Lines with bands from the lower to the upper end of each interval.

    Places are numbers. Times are milliseconds since 1970; then the axis of values begins near the smallest value.
    Limits are drawn as lines with their words. Points whose note is in `ringed` have a ring. `changes` are places with words, each an
    upright line.
    """
    drawn = [point for point in estimates if math.isfinite(point.value)]
    if not drawn:
        return nothing(title, "no user has a value", width)
    ordered = sorted(drawn, key=_position)
    lines = {name: [point for point in ordered if point.series == name] for name in series}
    lines = {name: line for name, line in lines.items() if line}
    present, texts = list(lines), [_ends(name, line, times) for name, line in lines.items()]
    names_at_ends = len(present) > 1 and len(present) * _LINE_OF_TEXT <= height
    ends = [end for point in drawn for end in (point.value, point.low, point.high)]
    reach = domain([*ends, *(value for _, value in limits)], floor=None if times else 0.0)
    y: dict[str, Any] = {"scale": alt.Scale(domain=reach, nice=False), "axis": quiet_axis(**upright_title(y_title))}
    # All layers encode colours alike; otherwise Vega draws no legend.
    legend = len(present) > 1 and not names_at_ends
    colour, shape = looks(present, series, legend=legend, width=width, offset=_ABOVE_TITLE)
    records = [
        point.record() | {"at": _place_in_words(point, times), "ringed": point.note in ringed} for point in drawn
    ]
    places = sorted(set(map(_position, drawn)))
    x = _curve_axis(x_title, places, whole_numbers, times)
    base = chart_of(records).encode(x=x, color=colour)
    hints = [alt.Tooltip("series:N", title="model")] if any(present) else []
    hints += [alt.Tooltip("at:N", title=x_title), alt.Tooltip("shown:N", title=y_title)]
    hints.append(alt.Tooltip("note:N", title="run" if times else ""))
    points: dict[str, Any] = {"y": alt.Y("value:Q", **y), "tooltip": hints}
    layers = [*_changes(changes or {}, x), *_limits(limits, y["scale"])]
    dash = alt.StrokeDash("series:N", scale=_looks(present, series, _DASHES), sort=present, legend=None)
    layers += _bands_and_lines(base, y, dash, len(places))
    # Too many points are not to be seen, but still have their tooltips.
    are_few = len(places) <= _MOST_POINTS
    marks = base.mark_point(filled=True, size=40 if are_few else 60, opacity=1 if are_few else 0)
    layers.append(marks.encode(shape=shape, **points))
    if ringed:
        rings = base.transform_filter("datum.ringed").mark_point(filled=False, size=180, strokeWidth=1.5, opacity=1)
        layers.append(rings.encode(color=alt.value(INK), shape=alt.value("circle"), **points))
    if names_at_ends:
        names = _line_names(lines, _LINE_OF_TEXT * (reach[1] - reach[0]) / height)
        text_colour = alt.Color("series:N", scale=_looks(present, series, _TEXTS), sort=present, legend=None)
        layers.append(names.encode(y=alt.Y("at:Q", scale=y["scale"]), color=text_colour))
    others = [f"limit {name}" for name, _ in limits]
    others += [f"{words} at {_time(place)}" for place, words in (changes or {}).items()]
    about = listed([*texts, *others])
    chart = layered(layers, width=width, height=height)
    if names_at_ends:
        # The names have colours of their own, fit for text.
        chart = chart.resolve_scale(color="independent")
    return titled(chart, title, reading, f"Line chart of {y_title} against {x_title}. {about}.")


def _position(point: Estimate) -> float:
    return float(point.place)


def _curve_axis(title: str, places: Sequence[float], whole_numbers: bool, times: bool) -> alt.X:
    room = _HALF_A_DAY if times else 1
    span = [places[0], places[-1]] if len(places) > 1 else [places[0] - room, places[0] + room]
    axis = quiet_axis(title=title, grid=False, domain=True, domainColor=EDGE)
    if whole_numbers:
        axis.format, axis.tickMinStep = "d", 1
        axis.values = places if len(places) <= _MOST_LABELS else alt.Undefined
    if not times:
        return alt.X("place:Q", scale=alt.Scale(domain=span, nice=False), axis=axis)
    axis.format = next(form for longest, form in _TIME_FORMATS if span[1] - span[0] < longest)
    if all(place % (2 * _HALF_A_DAY) == 0 for place in places):
        axis.format = _TIME_FORMATS[-1][1]
        axis.values = places if len(places) <= _MOST_LABELS else alt.Undefined
    axis.labelOverlap = True
    return alt.X("place:T", scale=alt.Scale(domain=span, nice=False, type="utc"), axis=axis)


def _changes(changes: Mapping[float, str], x: alt.X) -> list[alt.Chart]:
    """Dotted lines from top to bottom, whose words show when they are pointed at."""
    if not changes:
        return []
    base = chart_of({"place": place, "words": words} for place, words in changes.items())
    rules: alt.Chart = base.mark_rule(strokeDash=[1, 3], strokeWidth=1.5, color=QUIET)
    return [rules.encode(x=x, tooltip=[alt.Tooltip("words:N", title="")])]


def _limits(limits: Sequence[tuple[str, float]], scale: alt.Scale) -> list[alt.Chart]:
    """Dashed lines from side to side, each with its words above its left end."""
    if not limits:
        return []
    base = chart_of({"limit": value, "words": words} for words, value in limits)
    y = alt.Y("limit:Q", scale=scale)
    rules: alt.Chart = base.mark_rule(strokeDash=[4, 3], color=EDGE).encode(y=y)
    words: alt.Chart = base.mark_text(align="left", dx=3, dy=-6, color=QUIET)
    return [rules, words.encode(y=y, x=alt.value(0), text="words:N")]


def _bands_and_lines(base: alt.Chart, y: dict[str, Any], dash: alt.StrokeDash, n_places: int) -> list[alt.Chart]:
    """The lines and their bands; of points at a single place, their intervals."""
    bounded = base.transform_filter("isValid(datum.low) && isValid(datum.high)")
    ends: dict[str, Any] = {"y": alt.Y("low:Q", **y), "y2": "high:Q"}
    if n_places == 1:
        return [bounded.mark_rule(strokeWidth=2).encode(**ends)]
    line: alt.Chart = base.mark_line(strokeWidth=2).encode(y=alt.Y("value:Q", **y), strokeDash=dash)
    return [bounded.mark_area(opacity=0.16).encode(**ends), line]


def _place_in_words(point: Estimate, times: bool) -> str:
    """A place in words."""
    place = _position(point)
    return _time(place) if times else f"{place:g}"


def _time(place: float) -> str:
    """A time in words; of midnight only the date."""
    return f"{datetime.fromtimestamp(place / 1000, UTC):%Y-%m-%d %H:%M}".removesuffix(" 00:00")


def _line_names(lines: Mapping[str, Sequence[Estimate]], gap: float) -> alt.Chart:
    """The names of the series at the ends of their lines, apart from one another."""
    places = spread_out([max(line, key=_position).value for line in lines.values()], gap)
    records = [{"series": name, "at": place} for name, place in zip(lines, places, strict=True)]
    names: alt.Chart = chart_of(records).mark_text(align="left", dx=8, limit=160, fontWeight="bold")
    return names.encode(x=alt.value("width"), text="series:N")


def spread_out(places: Sequence[float], gap: float) -> list[float]:
    """Places moved as little as can be (in squares) so that they are a gap apart.

    >>> spread_out([1.0, 1.0, 5.0], 1.0)
    [0.5, 1.5, 5.0]
    """
    order = sorted(range(len(places)), key=lambda index: places[index])
    # Less their gaps, the places must not fall: isotonic regression by pooling neighbours.
    pools: list[tuple[float, int]] = []
    for rank, index in enumerate(order):
        total, count = places[index] - rank * gap, 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            before, many = pools.pop()
            total, count = total + before, count + many
        pools.append((total, count))
    level = [total / count for total, count in pools for _ in range(count)]
    moved = [0.0] * len(places)
    for rank, index in enumerate(order):
        moved[index] = level[rank] + rank * gap
    return moved


def _ends(name: str, line: Sequence[Estimate], times: bool) -> str:
    """Where a line begins and ends, in words."""
    ends = [line[0]] if len(line) == 1 else [line[0], line[-1]]
    words = ", ".join(f"{with_interval(point)} at {_place_in_words(point, times)}" for point in ends)
    return f"{name}: {words}" if name else words
