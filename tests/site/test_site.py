"""The site as readers open it from a folder: pages show no errors and load nothing from other machines. `make test-site`."""

import json
import os
import re
from pathlib import Path

import html5lib
import pytest
from helpers.chromium import Chromium, find

SITE = Path(__file__).parents[2] / "build" / "site"
PAGES = sorted(page.relative_to(SITE) for page in SITE.rglob("*.html") if page.name != "404.html")
# Elements whose address the browser loads by itself. It loads links only when the reader follows them.
FETCHED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"' >]+)")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    assert find(), "no Chromium was found: install it (Debian: apt-get install chromium), or name it with CHROMIUM="
    browser = Chromium(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


def test_the_site_was_built():
    assert len(PAGES) > 7, "make docs"
    listed = re.findall(r"\]\((.+)\)", (SITE / "llms.txt").read_text())
    assert len(listed) > 40
    assert all((SITE / page).exists() for page in listed)


@pytest.mark.parametrize("page", PAGES, ids=str)
@pytest.mark.parametrize("width", [1280, 380])
def test_a_page_fits_its_window_shows_no_errors_and_loads_nothing_from_elsewhere(browser, page, width):
    browser.open(SITE / page, width=width)
    assert [url for url in browser.requests() if not url.startswith("file:")] == []
    assert browser.complaints() == []
    assert browser.value("document.querySelector('h1').textContent.trim()")
    assert browser.value("document.documentElement.scrollWidth") <= width
    # Pictures took half of the time, to be thrown away unless somebody asks for them.
    if folder := os.environ.get("SCREENSHOTS"):
        browser.screenshot(Path(folder) / f"{page.stem}-{width}.png")


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_the_source_of_a_page_loads_nothing_from_elsewhere(page):
    assert FETCHED.findall((SITE / page).read_text()) == []


@pytest.mark.parametrize(
    ("words", "page", "section"),
    [
        ("map", "which_metric.html", "NDCG, MAP or MRR?"),
        ("weight", "slices.html", "Weights of users"),
        ("cold start", "slices.html", "Cold start"),
        ("undefined", "concepts.html", "Undefined is not zero"),
        ("how many users", "compare.html", "How many users"),
        ("sizing", "platforms.html", "Sizing"),
        ("nan", "concepts.html", "NaN"),
        ("ties", "concepts.html", "Ties"),
        ("mlflow", "coming_from.html", "MLflow"),
        ("delta", "job_outputs.html", "Catalogues"),
        ("chunk", "chunks.html", "Chunks and documents"),
        ("budget", "retrieval.html", "Budget"),
        ("judge", "judges.html", "Human and model judges"),
        ("databricks", "evidence/platforms.html", "Databricks, EMR, YARN and Kubernetes"),
    ],
)
def test_the_search_knows_the_page_that_answers(words, page, section):
    entries = json.loads((SITE / "search" / "search_index.json").read_text())["docs"]
    texts = [
        f"{entry['title']} {entry['text']}"
        for entry in entries
        if entry["location"].split("#")[0] == page and entry["title"] == section
    ]
    assert [words in text.lower() for text in texts] == [True]


def test_a_page_follows_the_system_when_it_changes_to_dark(browser):
    schemes = []
    for dark in (False, True, False):
        browser.open(SITE / "index.html", dark=dark)
        schemes.append(browser.value("document.body.dataset.mdColorScheme"))
    assert schemes == ["default", "slate", "default"]


def test_the_api_has_every_public_name():
    import spark_rankeval

    page = (SITE / "api.html").read_text()
    assert [name for name in spark_rankeval.__all__ if f'id="spark_rankeval.{name}"' not in page] == []


def test_the_steps_of_a_task_are_items_of_one_list():
    page = html5lib.parse((SITE / "jobs.html").read_text(), namespaceHTMLElements=False)
    steps = page.find(".//article//ol").findall("li")
    assert [" ".join("".join(step.itertext()).split())[:9] for step in steps] == ["Copy conf", "Add --dry", "Run it, w"]


def test_links_to_configurations_lead_to_their_sections():
    page = html5lib.parse((SITE / "jobs.html").read_text(), namespaceHTMLElements=False)
    linked = {link.text: link.get("href") for link in page.findall(".//article//a") if link.text}
    file, _, section = linked["conf/evaluate.toml"].partition("#")
    configurations = html5lib.parse((SITE / file).read_text(), namespaceHTMLElements=False)
    assert configurations.find(f".//h2[@id='{section}']") is not None
    text = "".join(configurations.itertext())
    assert all(key in text for key in ("[predictions]", "[models.als]", "[experiment]"))


def test_the_contents_of_the_api_are_in_groups(browser):
    """Functions are listed below the name of their group. Members of a class appear only while the reader is at the class."""
    browser.open(SITE / "api.html")
    shown = browser.value("""
      [...document.querySelectorAll('.md-nav--secondary .md-nav__link')].filter(link => link.getBoundingClientRect().height)
        .map(link => [link.textContent.trim(), getComputedStyle(link).fontWeight >= 700])
    """)
    groups = [name for name, bold in shown if bold]
    assert groups[:4] == ["Audit", "Evaluate", "Options", "In steps"]
    assert ["evaluate", False] in shown
    assert "to_pandas" not in dict(shown)
