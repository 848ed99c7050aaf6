"""The parts that charts share: colours, axes, panels, and the chart that says that there is nothing to draw."""

from __future__ import annotations

import itertools
import math
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import altair as alt

Drawing: TypeAlias = alt.Chart | alt.LayerChart | alt.VConcatChart
Item = TypeVar("Item")

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
_DASHES = ([1, 0], [6, 3], [2, 2])
#: Wide enough for labels beside the marks.
ROOMY = 420
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
    columns = min(len(shown), 3 if width >= ROOMY else 2) or 1
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


def shapes_in_words(shown: Iterable[str], series: Iterable[str]) -> str:
    """The shapes of the points of some series, as the subject of a sentence.

    >>> shapes_in_words(["als", "popularity"], ["als", "popularity"]), shapes_in_words([""], [""])
    ('Triangle or square', 'Dot')
    """
    places = places_of(series)
    shapes = dict.fromkeys(_SHAPES[places[name] % len(_SHAPES)].partition("-")[0] for name in shown)
    return " or ".join(shapes).replace("circle", "dot").capitalize()


def dash(shown: Sequence[str], series: Sequence[str]) -> alt.StrokeDash:
    """The dashes of each line, for more models than colours."""
    scale = _looks(shown, series, [pattern for pattern in _DASHES for _ in PALETTE])
    return alt.StrokeDash("series:N", scale=scale, sort=list(shown), legend=None)


def text_colour(shown: Sequence[str], series: Sequence[str]) -> alt.Color:
    """The colour of each series's name."""
    return alt.Color("series:N", scale=_looks(shown, series, _TEXTS), sort=list(shown), legend=None)


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


def heading(title: str, reading: Sequence[str]) -> alt.Title:
    """The title, and below it how to read the chart."""
    below: dict[str, Any] = {"subtitle": list(reading), "subtitleColor": QUIET, "subtitlePadding": 4}
    return alt.Title(title, anchor="start", color=INK, offset=14, fontSize=14, **below)


def nothing(title: str, why: str, width: int) -> Drawing:
    """A chart without figures, which says why there are none."""
    text: alt.Chart = chart_of([{"why": why}]).mark_text(color=QUIET, fontSize=12).encode(text="why:N")
    return titled(text.properties(width=width, height=60), title, [], f"{title}: {why}")


def titled(chart: Drawing, title: str, reading: Sequence[str], about: str) -> Drawing:
    """A chart with its title, how to read it, and a description for those who cannot see it.

    Altair's page has the chart in a script, which a name could end. So no name in the chart looks like a tag.
    """
    chart = chart.properties(title=heading(title, reading), description=about)
    text = chart.to_json(validate=False, indent=None, sort_keys=False)
    harmless = _TAG.sub("<\u2060", text)  # a character without width
    return chart if harmless == text else cast("Drawing", type(chart).from_json(harmless, validate=False))


def chart_of(records: Iterable[Mapping[str, Any]]) -> alt.Chart:
    """A chart without a mark. Its records stay as they are: a table of pandas would be limited in length."""
    return alt.Chart(alt.InlineData(values=list(records)))


def by_axis(
    items: Sequence[Item],
    axis: Callable[[Item], object],
    panel: Callable[[list[Item], bool], alt.LayerChart],
) -> alt.LayerChart | alt.VConcatChart:
    """A panel for each axis; the first has the legend of all. All must encode the same series as colours, because they share scales."""
    groups: dict[object, list[Item]] = {}
    for item in items:
        groups.setdefault(axis(item), []).append(item)
    panels = [panel(group, place == 0) for place, group in enumerate(groups.values())]
    return panels[0] if len(panels) == 1 else alt.vconcat(*panels).resolve_scale(x="independent")


def layered(layers: Sequence[alt.Chart], **properties: Any) -> alt.LayerChart:
    """Charts on top of one another, without a frame."""
    return alt.LayerChart(layer=list(layers)).properties(view=alt.ViewBackground(strokeWidth=0), **properties)


def listed(texts: Sequence[str]) -> str:
    """The first texts, and how many more there are."""
    more = f"; and {len(texts) - _MOST_LISTED} more" if len(texts) > _MOST_LISTED else ""
    return "; ".join(texts[:_MOST_LISTED]) + more
