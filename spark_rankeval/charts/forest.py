"""Figures with their intervals, one below the other: models side by side, slices, differences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import altair as alt

from spark_rankeval.charts.figures import WIDTH, with_interval
from spark_rankeval.charts.marks import (
    FAINT,
    INK,
    QUIET,
    ROOMY,
    UNIT,
    Drawing,
    axis,
    data,
    domain,
    heading,
    layered,
    listed,
    looks,
    nothing,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_rankeval.charts.figures import Estimate

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
    """A dot and a line to both ends of the interval for each estimate, models in colours on lines of their own.

    Args:
        estimates: in the order in which they are to stand; those without a value keep their line, empty.
        title: what is drawn.
        reading: lines that say what the marks are.
        x_title: what the values are.
        series: all models that have a colour, drawn or not.
        reference: a value a series that is drawn as a dashed line, such as that of all users.
        signed: values are differences: a line stands at 0, and margins are shaded.
        width: of the drawing without its labels, in pixels.
    """
    if not estimates:
        return nothing(title, "there is nothing to compare", width)
    large = {one.place for one in estimates if any(abs(end) > UNIT for end in _known(one))}
    groups = [[one for one in estimates if one.place not in large], [one for one in estimates if one.place in large]]
    panels = [
        _panel(group, x_title, series, reference or {}, signed, width, first=index == 0 or not groups[0])
        for index, group in enumerate(groups)
        if group
    ]
    whole: alt.LayerChart | alt.VConcatChart = (
        panels[0] if len(panels) == 1 else alt.vconcat(*panels).resolve_scale(x="independent")
    )
    texts = [" ".join(filter(None, (str(one.place), one.series, with_interval(one)))) for one in estimates]
    return whole.properties(
        title=heading(title, reading), description=f"Dots with intervals of {x_title}. {listed(texts)}."
    )


def _known(estimate: Estimate) -> list[float]:
    return [end for end in (estimate.value, estimate.low, estimate.high) if math.isfinite(end)]


def _panel(
    estimates: Sequence[Estimate],
    x_title: str,
    series: Sequence[str],
    reference: Mapping[str, float],
    signed: bool,
    width: int,
    *,
    first: bool,
) -> alt.LayerChart:
    labels = list(dict.fromkeys(str(one.place) for one in estimates))
    present = [name for name in series if name in reference or any(one.series == name for one in estimates)]
    by_itself = all(one.place == one.series for one in estimates)
    several = len(present) > 1 and not by_itself
    roomy = width >= ROOMY
    values = [end for one in estimates for end in _known(one)]
    margins = {str(one.place): one.margin for one in estimates if one.margin}
    values += [
        *reference.values(),
        *margins.values(),
        *(-margin for margin in margins.values()),
        *([0.0] if signed else []),
    ]
    x_axis = axis(title=x_title, orient="bottom", tickCount=6 if roomy else 4, format="+.3~g" if signed else ".3~g")
    x_axis.labelExpr = "datum.value == 0 ? '0' : datum.label"
    x: dict[str, Any] = {"scale": alt.Scale(domain=domain(values), nice=False, zero=False), "axis": x_axis}
    y: dict[str, Any] = {
        "y": alt.Y(
            "place:N",
            sort=labels,
            scale=alt.Scale(paddingInner=0.25, paddingOuter=0.15),
            axis=axis(title=None, grid=False, labelColor=INK, labelLimit=230 if roomy else 120),
        )
    }
    line = dict(y)
    if several:
        line["yOffset"] = alt.YOffset("series:N", sort=present, scale=alt.Scale(domain=present))
    # All layers encode colours alike; otherwise Vega draws no legend.
    colour, shape = looks(present, series, legend=several and first, width=width)
    base = alt.Chart(data(one.record() for one in estimates)).encode(**line, color=colour)
    layers: list[alt.Chart] = []
    if margins:
        shaded = [{"place": place, "from": -margin, "to": margin} for place, margin in margins.items()]
        layers.append(
            alt.Chart(data(shaded)).mark_rect(color=FAINT, opacity=0.8).encode(x=alt.X("from:Q", **x), x2="to:Q", **y)
        )
    if signed:
        layers.append(alt.Chart(data([{"at": 0}])).mark_rule(color=INK).encode(x=alt.X("at:Q", **x)))
    lines = [{"series": name, "at": at} for name, at in reference.items() if math.isfinite(at)]
    if lines:
        dashed = alt.Chart(data(lines)).mark_rule(strokeDash=[4, 3], opacity=0.7)
        layers.append(dashed.encode(x=alt.X("at:Q", **x), color=colour))
    known = base.transform_filter("isValid(datum.low) && isValid(datum.high)")
    layers.append(known.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", **x), x2="high:Q"))
    hints = ["place:N", alt.Tooltip("series:N", title="model"), alt.Tooltip("shown:N", title=x_title), "note:N"]
    dots = base.transform_filter("isValid(datum.value)").mark_point(filled=True, opacity=1, size=55)
    layers.append(dots.encode(x=alt.X("value:Q", **x), shape=shape, tooltip=hints))
    if roomy and any(one.note for one in estimates):
        notes = base.mark_text(align="left", dx=10, limit=220).encode(
            x=alt.value("width"), text="note:N", color=alt.value(QUIET)
        )
        layers.append(notes)
    height = len(labels) * ((len(present) if several else 1) * _LINE + _ROOM)
    return layered(layers, width=width, height=height)
