"""Pages and docstrings agree with the code; the examples of the pages run in tests/pages."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path
from runpy import run_path

import pytest
from documented import PAGES, ROOT, examples_of

import spark_rankeval
from spark_rankeval.metrics.base import REGISTRY

README, DOCS = ROOT / "README.md", ROOT / "docs"
MODULES = [module.name for module in pkgutil.walk_packages(spark_rankeval.__path__, "spark_rankeval.")]


def test_the_first_example_is_the_same_everywhere():
    first, of_readme = (examples_of(page)[0].code for page in (DOCS / "index.md", README))
    assert first.partition("metrics = ")[0] == of_readme.partition("metrics = ")[0]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_docstring_examples():
    assert sum(doctest.testmod(importlib.import_module(name)).attempted for name in MODULES) >= 4


def test_the_page_of_conventions_is_what_the_registry_says():
    root = Path(__file__).parents[1]
    written = run_path(str(root / "tools" / "write_conventions.py"))["page"]()
    assert (root / "docs" / "conventions.md").read_text() == written, "run make conventions"
    assert written.count("\n## ") == len({metric.name for metric in REGISTRY.values()}) + 2


LINKS = [(page, path) for page in PAGES for path in re.findall(r"\]\(([A-Za-z0-9_./-]+)[)#]", page.read_text())]


@pytest.mark.parametrize(("page", "path"), LINKS, ids=[f"{page.name}: {path}" for page, path in LINKS])
def test_links_of_pages_lead_somewhere(page, path):
    assert (page.parent / path).exists()


# A paragraph, fence or list under an item of a list that is indented by one to three spaces; an item right below such a paragraph.
SWALLOWED = re.compile(r"^ {1,3}(?:```|[-*+] |\d+\. )|(?<=\n\n) {1,3}\S|(?<=\n) {4}\S.*\n(?=[-*+] |\d+\. )", re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_item_of_a_list_is_swallowed(page):
    """GitHub takes fewer spaces, and no blank line before the next item; the site then swallows the items that follow."""
    text = re.sub(r"^```.*?^```$", "```", page.read_text(), flags=re.M | re.S)
    assert [text.count("\n", 0, match.start()) + 1 for match in SWALLOWED.finditer(text)] == []


def test_every_recipe_says_when_it_is_needed_and_what_it_prints():
    _, *recipes = re.split(r"^## ", (DOCS / "recipes.md").read_text(), flags=re.M)
    assert len(recipes) >= 11
    for recipe in recipes:
        assert recipe.split("\n\n")[1].startswith("**When:** "), recipe
        assert re.search(r"^```\n\n```\n.+?^```$|^<!-- not run: ", recipe, re.M | re.S), recipe
