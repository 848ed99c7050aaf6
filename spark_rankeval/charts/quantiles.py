"""How users' values are spread, from a few quantiles of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import altair as alt

from spark_rankeval.charts.figures import WIDTH
from spark_rankeval.charts.marks import (
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
from spark_rankeval.tables.numbers import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_rankeval.charts.figures import Spread


def quantile_chart(
    spreads: Sequence[Spread], *, title: str, reading: Sequence[str], series: Sequence[str], width: int = WIDTH
) -> Drawing:
    """A thin line from the least to the greatest value, a thick one between the outer quantiles, ticks at all, a dot at the mean.

    Args:
        spreads: a line each, in this order.
        title: what is drawn.
        reading: lines that say what the marks are.
        series: all models that have a colour, drawn or not.
        width: of the drawing without its labels, in pixels.
    """
    drawn = [one for one in spreads if math.isfinite(one.least) and math.isfinite(one.greatest)]
    if not drawn:
        return nothing(title, "no user has a value", width)
    large = {one.place for one in drawn if max(abs(one.least), abs(one.greatest)) > UNIT}
    groups = [[one for one in drawn if one.place not in large], [one for one in drawn if one.place in large]]
    panels = [
        _panel(group, series, width, first=index == 0 or not groups[0]) for index, group in enumerate(groups) if group
    ]
    whole: alt.LayerChart | alt.VConcatChart = (
        panels[0] if len(panels) == 1 else alt.vconcat(*panels).resolve_scale(x="independent")
    )
    said = [
        f"{' '.join(filter(None, (one.place, one.series)))}: from {number(one.least)} to {number(one.greatest)}, "
        f"mean {number(one.mean)}"
        for one in drawn
    ]
    return whole.properties(
        title=heading(title, reading),
        description=f"Lines from the least to the greatest value of a user. {listed(said)}.",
    )


def _panel(drawn: Sequence[Spread], series: Sequence[str], width: int, *, first: bool) -> alt.LayerChart:
    roomy = width >= ROOMY
    present = [name for name in series if any(one.series == name for one in drawn)]
    places = list(dict.fromkeys(one.place for one in drawn))
    records = []
    for one in drawn:
        known = [value for _, value in one.quantiles if math.isfinite(value)]
        records.append(
            {
                "place": one.place,
                "series": one.series,
                "least": one.least,
                "greatest": one.greatest,
                "mean": one.mean if math.isfinite(one.mean) else None,
                "low": known[0] if len(known) > 1 else None,
                "high": known[-1] if len(known) > 1 else None,
                "note": one.note,
            }
        )
    ticks = [
        {"place": one.place, "series": one.series, "at": value, "shown": f"{share:.0%} of the users below"}
        for one in drawn
        for share, value in one.quantiles
        if math.isfinite(value)
    ]
    scale = alt.Scale(domain=domain([end for one in drawn for end in (one.least, one.greatest)]), nice=False)
    x_axis = axis(title="a user's value", tickCount=6 if roomy else 4, format=".3~g")
    colour, shape = looks(present, series, legend=len(present) > 1 and first, width=width)
    line: dict[str, Any] = {
        "y": alt.Y(
            "place:N",
            sort=places,
            scale=alt.Scale(paddingInner=0.25, paddingOuter=0.15),
            axis=axis(title=None, grid=False, labelColor=INK, labelLimit=230 if roomy else 120),
        ),
        "color": colour,
    }
    if len(present) > 1:
        line["yOffset"] = alt.YOffset("series:N", sort=present, scale=alt.Scale(domain=present))
    base = alt.Chart(data(records)).encode(**line)
    layers = [
        base.mark_rule(strokeWidth=1.5, opacity=0.6).encode(
            x=alt.X("least:Q", scale=scale, axis=x_axis), x2="greatest:Q"
        ),
        base.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=6, opacity=0.4)
        .encode(x=alt.X("low:Q", scale=scale), x2="high:Q"),
        alt.Chart(data(ticks))
        .mark_tick(thickness=2, size=12)
        .encode(x=alt.X("at:Q", scale=scale), tooltip=["at:Q", "shown:N"], **line),
        base.transform_filter("isValid(datum.mean)")
        .mark_point(filled=True, size=50, opacity=1)
        .encode(
            x=alt.X("mean:Q", scale=scale),
            shape=shape,
            tooltip=["place:N", "series:N", "mean:Q", "least:Q", "greatest:Q"],
        ),
    ]
    if roomy and any(one.note for one in drawn):
        layers.append(
            base.mark_text(align="left", dx=10).encode(x=alt.value("width"), text="note:N", color=alt.value(QUIET))
        )
    return layered(layers, width=width, height=len(places) * (18 * len(present) + 10))
