"""How users' values are spread, from a few quantiles of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import altair as alt

from spark_rankeval.charts.marks import (
    INK,
    QUIET,
    ROOMY,
    UNFRAMED,
    WIDTH,
    Drawing,
    axis,
    colour,
    data,
    domain,
    heading,
    listed,
    nothing,
)
from spark_rankeval.rendering import number

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Spread:
    """The values of a model's users.

    Attributes:
        series: the model.
        place: the metric.
        least: the smallest value of a user.
        greatest: the largest value.
        mean: of the users.
        quantiles: value by share of the users; in the order of the shares.
        note: what is written beside it.
    """

    series: str
    place: str
    least: float
    greatest: float
    mean: float
    quantiles: tuple[tuple[float, float], ...] = ()
    note: str = ""


def quantile_chart(
    spreads: Sequence[Spread], *, title: str, reading: Sequence[str], series: Sequence[str], width: int = WIDTH
) -> Drawing:
    """A thin line from the least to the greatest value, a thick one between the outer quantiles, ticks at all, a dot at the mean.

    Args:
        spreads: a line each, in this order.
        title: what is drawn.
        reading: lines that say what the marks are.
        series: all models, in the order of their colours.
        width: of the drawing without its labels, in pixels.
    """
    drawn = [one for one in spreads if math.isfinite(one.least) and math.isfinite(one.greatest)]
    if not drawn:
        return nothing(title, "no user has a value", width)
    roomy = width >= ROOMY
    records = []
    for one in drawn:
        known = [value for _, value in one.quantiles if math.isfinite(value)]
        records.append(
            {
                "line": " · ".join(filter(None, (one.place, one.series))),
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
        {"line": record["line"], "series": one.series, "at": value, "told": f"{share:.0%} of the users below"}
        for one, record in zip(drawn, records, strict=True)
        for share, value in one.quantiles
        if math.isfinite(value)
    ]
    lines = [str(record["line"]) for record in records]
    scale = alt.Scale(domain=domain([end for one in drawn for end in (one.least, one.greatest)]), nice=False)
    x_axis = axis(title="a user's value", tickCount=6 if roomy else 4, format=".3~g")
    y = alt.Y("line:N", sort=lines, axis=axis(title=None, grid=False, labelColor=INK, labelLimit=230 if roomy else 120))
    present = [name for name in series if any(one.series == name for one in drawn)]
    base = alt.Chart(data(records)).encode(y=y, color=colour(present, series))
    inner = base.transform_filter("isValid(datum.low)")
    layers = [
        base.mark_rule(strokeWidth=1.5, opacity=0.6).encode(
            x=alt.X("least:Q", scale=scale, axis=x_axis), x2="greatest:Q"
        ),
        inner.mark_rule(strokeWidth=6, opacity=0.5).encode(x=alt.X("low:Q", scale=scale), x2="high:Q"),
        alt.Chart(data(ticks))
        .mark_tick(thickness=2, size=14)
        .encode(x=alt.X("at:Q", scale=scale), y=y, color=colour(present, series), tooltip=["at:Q", "told:N"]),
        base.transform_filter("isValid(datum.mean)")
        .mark_point(filled=True, size=45, opacity=1)
        .encode(x=alt.X("mean:Q", scale=scale), tooltip=["line:N", "mean:Q", "least:Q", "greatest:Q"]),
    ]
    if roomy and any(one.note for one in drawn):
        layers.append(
            base.mark_text(align="left", dx=10).encode(x=alt.value("width"), text="note:N", color=alt.value(QUIET))
        )
    said = [
        f"{line}: from {number(one.least)} to {number(one.greatest)}, mean {number(one.mean)}"
        for line, one in zip(lines, drawn, strict=True)
    ]
    return alt.layer(*layers).properties(
        width=width,
        height=26 * len(lines),
        view=UNFRAMED,
        title=heading(title, reading),
        description=f"Lines from the least to the greatest value of a user. {listed(said)}.",
    )
