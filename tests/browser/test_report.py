"""The report in a real browser: no complaint, no request, all charts there, nothing wider than the screen. `make test-browser`."""

import os
from pathlib import Path

import pytest
from helpers.chromium import Chromium, find
from helpers.reports import full_report
from worlds.judged_users import result_of, rows_of, users
from worlds.summary_rows import QUALITY, row

from spark_rankeval.evaluation.result import Result

WIDTHS = (1280, 768, 380)
# A chart gets no smaller than 38rem.
SMALLEST = 608

# What is seen of each chart: its width, and whether its drawing is.
CHARTS = """
[...document.querySelectorAll('.chart svg')].map(svg => {
  const box = svg.getBoundingClientRect();
  return {width: box.width, height: box.height, marks: svg.querySelectorAll('path, line, text').length};
})
"""
# Where the words of a chart end, and where its drawing begins.
SIDES = """
[...document.querySelectorAll('figure')].map(figure => {
  const sides = part => figure.querySelector(part).getBoundingClientRect();
  return [sides('figcaption').right, sides('.chart').left];
})
"""
# Texts that end beyond their chart.
BEYOND = """
[...document.querySelectorAll('.chart text')].filter(text => {
  const box = text.getBoundingClientRect(), chart = text.closest('svg').getBoundingClientRect();
  return box.width && (box.left < chart.left - 1 || box.right > chart.right + 1);
}).map(text => text.textContent)
"""
# The colours of what is written, and of the ground below.
COLOURS = """
[...document.querySelectorAll('p, h1, h2, a, th, td, dt, dd, li, summary, figcaption span, .chart text')].filter(
  one => one.getBoundingClientRect().width && one.textContent.trim() && !one.classList.contains('skip')
).map(one => [one.matches('.chart text') ? getComputedStyle(one).fill : getComputedStyle(one).color, one.textContent.slice(0, 30)])
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    assert find(), "no Chromium was found: install it (Debian: apt-get install chromium), or name it with CHROMIUM="
    browser = Chromium(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return full_report(tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Where screenshots go: to the folder SCREENSHOTS, if it is named, to be looked at."""
    folder = Path(os.environ.get("SCREENSHOTS") or tmp_path_factory.mktemp("pictures"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_report_is_shown(browser, report, pictures, width, dark):
    browser.open(report, width=width, dark=dark)
    assert browser.requests() == [report.absolute().as_uri()]
    assert browser.complaints() == []
    charts = browser.value(CHARTS)
    assert len(charts) >= 8
    for seen in charts:
        assert seen["width"] <= max(width, SMALLEST), (
            "on a phone a chart scrolls sideways, because its words must be read"
        )
        assert seen["height"] > 50
        assert seen["marks"] > 5
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value(BEYOND) == []
    beside = {words_end < left for words_end, left in browser.value(SIDES)}
    assert beside == {width == 1280}, "in a wide window, words stand beside their chart"
    grounds = browser.value("getComputedStyle(document.body).backgroundColor")
    written = browser.value(COLOURS)
    assert len(written) > 200
    assert [text for enough, text in contrasts(written, grounds) if not enough] == []
    assert (brightness(rgb(grounds)) < 0.1) == dark
    browser.screenshot(pictures / f"{width}-{'dark' if dark else 'light'}.png")
    assert (pictures / f"{width}-{'dark' if dark else 'light'}.png").stat().st_size > 50_000


def test_long_definitions_fit_a_narrow_window(browser, tmp_path):
    long = "ndcg(relevance_threshold=3.0, denominator='labels', ungraded='not_relevant')@10"
    path = Result((row(definition=long),), {"": QUALITY}, {}, (), None, None).report(tmp_path / "report.html")
    browser.open(path, width=500)
    widths = browser.value(
        "(box => [box.scrollWidth, box.clientWidth])(document.querySelector('#definitions .scroll'))"
    )
    assert widths[0] <= widths[1]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_chart_of_judges_fits_the_window(browser, pictures, width):
    path = result_of(rows_of(*users(400))).report(pictures / "judges.html")
    browser.open(path, width=width)
    assert browser.complaints() == []
    assert len(browser.value(CHARTS.replace("'.chart svg'", "'#means .chart svg'"))) == 1
    assert browser.value(BEYOND) == []
    assert browser.value("document.documentElement.scrollWidth") <= width
    browser.screenshot(pictures / f"judges-{width}.png")


def test_paper_is_light_and_has_no_links_to_sections(browser, report, pictures):
    browser.open(report, width=1000, dark=True, media="print")
    assert brightness(rgb(browser.value("getComputedStyle(document.body).backgroundColor"))) in (0, 1)
    assert browser.value("getComputedStyle(document.querySelector('nav')).display") == "none"
    ink = browser.value("getComputedStyle(document.body).color")
    assert brightness(rgb(ink)) < 0.1
    browser.screenshot(pictures / "print.png")
    browser.pdf(pictures / "report.pdf")
    assert (pictures / "report.pdf").read_bytes().startswith(b"%PDF")


def test_keys_reach_the_results(browser, report):
    browser.open(report)
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
    assert browser.value("document.activeElement.className") == "skip"
    assert browser.value("document.activeElement.getBoundingClientRect().left") >= 0
    named = browser.value("[...document.querySelectorAll('.scroll')].every(one => one.tabIndex === 0)")
    assert named is True


def test_a_browser_sees_what_a_bad_page_does(browser, tmp_path):
    """Complaints and requests are found, where there are any."""
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<!DOCTYPE html><title>x</title><script>console.error('bad'); missing()</script><img src='there.png'>"
    )
    browser.open(bad)
    assert len(browser.requests()) == 2
    assert len(browser.complaints()) >= 2


def test_folded_tables_are_open_on_paper(browser, report):
    shown = "[...document.querySelectorAll('details table')].map(table => table.checkVisibility({contentVisibilityAuto: true}))"
    browser.open(report, width=1000)
    assert set(browser.value(shown)) == {False}
    browser.open(report, width=1000, media="print")
    assert set(browser.value(shown)) == {True}
    assert browser.value("getComputedStyle(document.querySelector('summary')).display") == "none"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_table_that_goes_on_has_a_shade_at_that_side(browser, report, dark):
    browser.open(report, width=390, dark=dark)
    table = "document.querySelector('#means .scroll')"
    assert browser.value(f"{table}.scrollWidth > {table}.clientWidth")
    attached = browser.value(f"getComputedStyle({table}).backgroundAttachment")
    assert attached == "local, local, scroll, scroll"
    assert browser.value(f"getComputedStyle({table}).backgroundImage").count("linear-gradient") == 4


def rgb(colour):
    return [float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]


def brightness(colour):
    linear = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in (c / 255 for c in colour)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrasts(colours, ground):
    """Whether each colour of text has the contrast of 4.5 that WCAG's level AA asks for."""
    below = brightness(rgb(ground))
    for colour, text in colours:
        bright, dark = sorted((brightness(rgb(colour)), below), reverse=True)
        yield (bright + 0.05) / (dark + 0.05) >= 4.5, f"{text}: {colour} on {ground}"
