"""Charts as pictures of a page: SVG in two widths, without what draws nothing."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import vl_convert
from altair.utils.schemapi import debug_mode

from spark_rankeval.report.marks import Drawing

#: How wide the drawings are with their labels, in pixels: for desks and paper, and for phones.
WIDE, NARROW = 740, 336
# Labels take about so much of it; if they take more or less, the chart is drawn again.
_LABELS, _TOLERANCE = {WIDE: 190, NARROW: 90}, 40
_NUMBER = re.compile(r"-?\d+\.\d+(e-?\d+)?")
_SVG = "http://www.w3.org/2000/svg"
_KEPT = {
    "d", "x", "y", "x1", "x2", "y1", "y2", "width", "height", "transform", "fill", "fill-opacity", "stroke",
    "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity", "text-anchor", "font-size", "font-weight", "viewBox",
    "dx", "dy",
}  # fmt: skip
_CONFIG: dict[str, Any] = {
    "aria": False,
    "background": None,
    "font": "Liberation Sans, Arial, Helvetica, sans-serif",
    "axis": {"labelFontSize": 12, "titleFontSize": 12},
    "legend": {"labelFontSize": 12},
    "text": {"fontSize": 12},
}


@dataclass(frozen=True)
class Picture:
    """A chart in a page: how to read it, the same in words for readers who do not see it, and SVG in two widths."""

    title: str
    reading: str
    alternative: str
    wide: str
    narrow: str


def picture(draw: Callable[..., Drawing]) -> Picture:
    """A chart in both widths; `draw` makes it in a width without its labels."""
    # Charts are checked against their schema in the tests; here that would take most of the time.
    with debug_mode(False):
        spec, wide = _fitting(draw, WIDE)
        _, narrow = _fitting(draw, NARROW)
    title = spec["title"]
    return Picture(title["text"], " ".join(title.get("subtitle", [])), spec["description"], wide, narrow)


def _fitting(draw: Callable[..., Drawing], target: int) -> tuple[dict[str, Any], str]:
    width = target - _LABELS[target]
    spec = draw(width=width).to_dict(validate=False)
    svg = _svg(spec)
    over = float(svg.get("width", target)) - target
    if not -_TOLERANCE <= over <= 0:
        svg = _svg(draw(width=max(int(width - over), target // 3)).to_dict(validate=False))
    return spec, ET.tostring(svg, encoding="unicode", short_empty_elements=True)


def _svg(spec: dict[str, Any]) -> ET.Element:
    # The page has title and description in its own type.
    untitled = {name: value for name, value in spec.items() if name not in ("title", "description")}
    config = {**spec.get("config", {}), **_CONFIG}
    root = ET.fromstring(vl_convert.vegalite_to_svg({**untitled, "config": config}))
    return _lean(root)


def _lean(root: ET.Element) -> ET.Element:
    """Without what draws nothing, names of classes, roles, and digits beyond a hundredth of a pixel.

    Paths without a colour draw nothing, since the group around all says so. Nothing is clipped: no id is needed.
    """
    for parent in list(root.iter()):
        parent.tag = parent.tag.removeprefix(f"{{{_SVG}}}")
        for name, value in list(parent.attrib.items()):
            if name not in _KEPT or (name, value) in (("opacity", "1"), ("transform", "translate(0,0)")):
                del parent.attrib[name]
            elif name in ("d", "transform", "x1", "x2", "y1", "y2"):
                parent.set(name, _NUMBER.sub(_rounded, value))
    for parent in list(root.iter()):
        for child in list(parent):
            if _draws_nothing(child):
                parent.remove(child)
    root.set("aria-hidden", "true")
    root.set("focusable", "false")
    return root


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def _draws_nothing(element: ET.Element) -> bool:
    unseen = element.tag == "path" and not {"fill", "stroke"} & set(element.attrib)
    return unseen or element.tag == "defs" or element.get("opacity") == "0"
