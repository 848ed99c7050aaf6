"""Altair charts of lines with bands: metrics against cutoffs, recall, and the times of runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import altair as alt

from spark_rankeval.records.chart_rows import WIDTH, Estimate, with_interval
from spark_rankeval.report import marks

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
) -> marks.Drawing:
    """Lines with bands from the lower to the upper end of each interval.

    Places are numbers. Times are milliseconds since 1970; then the axis of values begins near the smallest value.
    Limits are drawn as lines with their words. Points whose note is in `ringed` have a ring. `changes` are places with words, each an
    upright line.
    """
    drawn = [point for point in estimates if math.isfinite(point.value)]
    if not drawn:
        return marks.nothing(title, "no user has a value", width)
    ordered = sorted(drawn, key=_position)
    lines = {name: [point for point in ordered if point.series == name] for name in series}
    lines = {name: line for name, line in lines.items() if line}
    present, texts = list(lines), [_ends(name, line, times) for name, line in lines.items()]
    names_at_ends = len(present) > 1 and width >= marks.ROOMY and len(present) * _LINE_OF_TEXT <= height
    ends = [end for point in drawn for end in (point.value, point.low, point.high)]
    reach = marks.domain([*ends, *(value for _, value in limits)], floor=None if times else 0.0)
    y: dict[str, Any] = {
        "scale": alt.Scale(domain=reach, nice=False),
        "axis": marks.quiet_axis(**marks.upright_title(y_title)),
    }
    # All layers encode colours alike; otherwise Vega draws no legend.
    legend = len(present) > 1 and not names_at_ends
    colour, shape = marks.looks(present, series, legend=legend, width=width, offset=_ABOVE_TITLE)
    records = [
        point.record() | {"at": _place_in_words(point, times), "ringed": point.note in ringed} for point in drawn
    ]
    x = _curve_axis(x_title, sorted(set(map(_position, drawn))), whole_numbers, times)
    base = marks.chart_of(records).encode(x=x, color=colour)
    hints = [alt.Tooltip("series:N", title="model")] if any(present) else []
    hints += [alt.Tooltip("at:N", title=x_title), alt.Tooltip("shown:N", title=y_title)]
    hints.append(alt.Tooltip("note:N", title="run" if times else ""))
    points: dict[str, Any] = {"y": alt.Y("value:Q", **y), "tooltip": hints}
    layers = [
        *_changes(changes or {}, x),
        *_limits(limits, y["scale"]),
        *_bands_and_lines(base, drawn, y, marks.dash(present, series)),
    ]
    layers.append(_points(base, drawn).encode(shape=shape, **points))
    if ringed:
        rings = base.transform_filter("datum.ringed").mark_point(filled=False, size=180, strokeWidth=1.5, opacity=1)
        layers.append(rings.encode(color=alt.value(marks.INK), shape=alt.value("circle"), **points))
    if names_at_ends:
        names = _line_names(lines, _LINE_OF_TEXT * (reach[1] - reach[0]) / height)
        layers.append(names.encode(y=alt.Y("at:Q", scale=y["scale"]), color=marks.text_colour(present, series)))
    others = [f"limit {name}" for name, _ in limits]
    others += [f"{words} at {_time(place)}" for place, words in (changes or {}).items()]
    about = marks.listed([*texts, *others])
    chart = marks.layered(layers, width=width, height=height)
    if names_at_ends:
        # The names have colours of their own, fit for text.
        chart = chart.resolve_scale(color="independent")
    return marks.titled(chart, title, reading, f"Line chart of {y_title} against {x_title}. {about}.")


def _position(point: Estimate) -> float:
    return float(point.place)


def _curve_axis(title: str, places: Sequence[float], whole_numbers: bool, times: bool) -> alt.X:
    room = _HALF_A_DAY if times else 1
    span = [places[0], places[-1]] if len(places) > 1 else [places[0] - room, places[0] + room]
    axis = marks.quiet_axis(title=title, grid=False, domain=True, domainColor=marks.EDGE)
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
    base = marks.chart_of({"place": place, "words": words} for place, words in changes.items())
    rules: alt.Chart = base.mark_rule(strokeDash=[1, 3], strokeWidth=1.5, color=marks.QUIET)
    return [rules.encode(x=x, tooltip=[alt.Tooltip("words:N", title="")])]


def _limits(limits: Sequence[tuple[str, float]], scale: alt.Scale) -> list[alt.Chart]:
    """Dashed lines from side to side, each with its words above its left end."""
    if not limits:
        return []
    base = marks.chart_of({"limit": value, "words": words} for words, value in limits)
    y = alt.Y("limit:Q", scale=scale)
    rules: alt.Chart = base.mark_rule(strokeDash=[4, 3], color=marks.EDGE).encode(y=y)
    words: alt.Chart = base.mark_text(align="left", dx=3, dy=-6, color=marks.QUIET)
    return [rules, words.encode(y=y, x=alt.value(0), text="words:N")]


def _bands_and_lines(
    base: alt.Chart, drawn: Sequence[Estimate], y: dict[str, Any], dash: alt.StrokeDash
) -> list[alt.Chart]:
    """The lines and their bands; of points at a single place, their intervals."""
    bounded = base.transform_filter("isValid(datum.low) && isValid(datum.high)")
    ends: dict[str, Any] = {"y": alt.Y("low:Q", **y), "y2": "high:Q"}
    if len(set(map(_position, drawn))) == 1:
        return [bounded.mark_rule(strokeWidth=2).encode(**ends)]
    line: alt.Chart = base.mark_line(strokeWidth=2).encode(y=alt.Y("value:Q", **y), strokeDash=dash)
    return [bounded.mark_area(opacity=0.16).encode(**ends), line]


def _points(base: alt.Chart, drawn: Sequence[Estimate]) -> alt.Chart:
    """The points, which are not to be seen if there are too many, but still have their tooltips."""
    are_few = len(set(map(_position, drawn))) <= _MOST_POINTS
    points: alt.Chart = base.mark_point(filled=True, size=40 if are_few else 60, opacity=1 if are_few else 0)
    return points


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
    names: alt.Chart = marks.chart_of(records).mark_text(align="left", dx=8, limit=160, fontWeight="bold")
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
