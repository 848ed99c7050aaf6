"""A figure against a number, a line a model: against the cutoff, precision against recall, or runs in time."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import altair as alt

from spark_rankeval.charts.figures import WIDTH, with_interval
from spark_rankeval.charts.marks import (
    EDGE,
    INK,
    QUIET,
    ROOMY,
    axis,
    dash,
    data,
    domain,
    heading,
    layered,
    listed,
    looks,
    nothing,
    text_colour,
    upright,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from spark_rankeval.charts.figures import Estimate

_LINE_OF_TEXT = 15
# Where names stand, the title of the upright axis is below them.
_ABOVE_TITLE = 26
# Points are drawn as such where there is room between them.
_MOST_POINTS = 25
_HALF_A_DAY = 12 * 60 * 60 * 1000
# What tells runs apart on the axis of so long a time, in milliseconds, or of a shorter one; an axis has ten marks or so.
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
    width: int = WIDTH,
    height: int = 300,
) -> alt.Chart | alt.LayerChart:
    """Lines with bands from the lower to the upper end of each interval.

    Args:
        estimates: their places are numbers; those without a value are not drawn.
        title: what is drawn.
        reading: lines that say what the marks are.
        x_title: what the places are.
        y_title: what the values are.
        series: all models that have a colour, drawn or not.
        whole_numbers: places are whole numbers.
        times: places are times, in milliseconds since 1970; the axis of values then begins near the least of them.
        limits: values that are drawn as lines, with what is written on each.
        ringed: the notes of the points that are to be seen as other than the rest.
        width: of the drawing without its labels, in pixels.
        height: of it, in pixels.
    """
    drawn = [one for one in estimates if math.isfinite(one.value)]
    if not drawn:
        return nothing(title, "no user has a value", width)
    places = sorted({float(one.place) for one in drawn})
    present = [name for name in series if any(one.series == name for one in drawn)]
    ends = [end for one in drawn for end in (one.value, one.low, one.high)] + [value for _, value in limits]
    reach = domain(ends, floor=None if times else 0.0)
    beside = len(present) > 1 and width >= ROOMY and len(present) * _LINE_OF_TEXT <= height
    legend = len(present) > 1 and not beside
    x_axis = axis(title=x_title, grid=False, domain=True, domainColor=EDGE)
    if whole_numbers:
        x_axis = axis(title=x_title, grid=False, domain=True, domainColor=EDGE, format="d", tickMinStep=1)
        x_axis.values = places if len(places) <= 6 else alt.Undefined
    room = _HALF_A_DAY if times else 1
    span = [places[0], places[-1]] if len(places) > 1 else [places[0] - room, places[0] + room]
    if times:
        x_axis.format = next(form for longest, form in _TIME_FORMATS if span[1] - span[0] < longest)
        x_axis.labelOverlap = True
    x_scale = alt.Scale(domain=span, nice=False, type="utc") if times else alt.Scale(domain=span, nice=False)
    # All layers encode colours alike; otherwise Vega draws no legend.
    colour, shape = looks(present, series, legend=legend, width=width, offset=_ABOVE_TITLE)
    base = alt.Chart(
        data({**one.record(), "at": _at(one, times), "ringed": one.note in ringed} for one in drawn)
    ).encode(
        x=alt.X("place:T" if times else "place:Q", scale=x_scale, axis=x_axis),
        color=colour,
    )
    y_scale = alt.Scale(domain=reach, nice=False)
    y = alt.Y("value:Q", scale=y_scale, axis=axis(**upright(y_title)))
    hints = [alt.Tooltip("series:N", title="model")] if any(present) else []
    hints += [
        alt.Tooltip("at:N", title=x_title),
        alt.Tooltip("shown:N", title=y_title),
        alt.Tooltip("note:N", title="run" if times else ""),
    ]
    between = {"y": alt.Y("low:Q", scale=y_scale, axis=axis(**upright(y_title))), "y2": "high:Q"}
    known = base.transform_filter("isValid(datum.low) && isValid(datum.high)")
    layers = _limits(limits, y_scale)
    if len(places) > 1:
        layers.append(known.mark_area(opacity=0.16).encode(**between))
        layers.append(base.mark_line(strokeWidth=2).encode(y=y, strokeDash=dash(present, series)))
    else:
        layers.append(known.mark_rule(strokeWidth=2).encode(**between))
    size = 40 if len(places) <= _MOST_POINTS else 0
    points = base.mark_point(filled=True, size=size or 60, opacity=1 if size else 0)
    layers.append(points.encode(y=y, shape=shape, tooltip=hints))
    if ringed:
        rings = base.transform_filter("datum.ringed").mark_point(filled=False, size=180, strokeWidth=1.5, opacity=1)
        layers.append(rings.encode(y=y, color=alt.value(INK), shape=alt.value("circle"), tooltip=hints))
    if beside:
        layers.append(_labels(drawn, present, series, reach, height, y_scale))
    said = [f"limit {name}" for name, _ in limits]
    chart = layered(
        layers,
        width=width,
        height=height,
        title=heading(title, reading),
        description=f"Line chart of {y_title} against {x_title}. {listed(_ends(drawn, present, times) + said)}.",
    )
    # The names have colours of their own, fit for text.
    return chart.resolve_scale(color="independent") if beside else chart


def _limits(limits: Sequence[tuple[str, float]], scale: alt.Scale) -> list[alt.Chart]:
    """Dashed lines from side to side, each with its words above its left end."""
    if not limits:
        return []
    base = alt.Chart(data({"limit": value, "words": words} for words, value in limits))
    y = alt.Y("limit:Q", scale=scale)
    rules: alt.Chart = base.mark_rule(strokeDash=[4, 3], color=EDGE).encode(y=y)
    words: alt.Chart = base.mark_text(align="left", dx=3, dy=-6, color=QUIET)
    return [rules, words.encode(y=y, x=alt.value(0), text="words:N")]


def _at(one: Estimate, times: bool) -> str:
    """A place in words."""
    place = float(one.place)
    return f"{datetime.fromtimestamp(place / 1000, UTC):%Y-%m-%d %H:%M}" if times else f"{place:g}"


def _labels(
    drawn: Sequence[Estimate],
    present: Sequence[str],
    series: Sequence[str],
    reach: Sequence[float],
    height: int,
    scale: alt.Scale,
) -> alt.Chart:
    """The names of the series at the ends of their lines, apart from one another."""
    last = [max((one for one in drawn if one.series == name), key=lambda one: float(one.place)) for name in present]
    apart = spread_out([one.value for one in last], _LINE_OF_TEXT * (reach[1] - reach[0]) / height)
    records = [{"series": one.series, "at": at} for one, at in zip(last, apart, strict=True)]
    names: alt.Chart = alt.Chart(data(records)).mark_text(align="left", dx=8, limit=160, fontWeight="bold")
    return names.encode(
        x=alt.value("width"), y=alt.Y("at:Q", scale=scale), text="series:N", color=text_colour(present, series)
    )


def spread_out(places: Sequence[float], gap: float) -> list[float]:
    """Places moved as little as can be (in squares) so that they are a gap apart, in their order.

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


def _ends(drawn: Sequence[Estimate], present: Sequence[str], times: bool) -> list[str]:
    """Where each line begins and ends, in words."""
    texts = []
    for name in present:
        points = sorted((one for one in drawn if one.series == name), key=lambda one: float(one.place))
        ends = [points[0]] if len(points) == 1 else [points[0], points[-1]]
        line = ", ".join(f"{with_interval(one)} at {_at(one, times)}" for one in ends)
        texts.append(f"{name}: {line}" if name else line)
    return texts
