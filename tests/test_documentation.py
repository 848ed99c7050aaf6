"""Pages and docstrings agree with the code; the examples of the pages, and docstrings that need Spark, run in tests/pages."""

import json
import re
from pathlib import Path
from runpy import run_path

import pytest
from helpers.docstrings import EXAMPLES, PUBLIC, failures_of, needs_tables
from helpers.documented import PAGES, ROOT

from spark_rankeval import errors, splits, trec
from spark_rankeval.metrics.base import REGISTRY
from spark_rankeval.ml import CatalogueCrossValidator, RankingEvaluator
from spark_rankeval.request.on_invalid import KINDS, OnInvalid

README, DOCS = ROOT / "README.md", ROOT / "docs"
NOTEBOOKS = run_path(str(ROOT / "tools" / "write_notebook.py"))

# Written by tools from the registry, or from docstrings.
GENERATED = {"conventions.md", "tables.md", "api.md"}
WRITTEN = [page for page in PAGES if page.name not in GENERATED]


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_a_page_that_people_write_is_short(page):
    assert len(page.read_text().splitlines()) <= 150


def test_the_first_screen_of_the_readme_ends_with_a_verdict():
    screen = "\n".join(README.read_text().splitlines()[:40])
    for shown in ("pip install", "evaluate(", "interval_low", "new is better than old on ndcg@10"):
        assert shown in screen


def folders_of(path):
    return {
        each.name for each in path.iterdir() if each.is_dir() and any(each.glob("*.*")) and each.name[0] not in "._"
    }


def test_the_map_of_the_code_is_one_screen_and_has_every_room():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    code_map = re.search(r"```\n(spark_rankeval/\n.*?)```", text, re.DOTALL)[1]
    assert len(code_map.splitlines()) <= 40
    package, others = code_map.split("\njobs/ ")
    rooms = folders_of(ROOT / "spark_rankeval")
    assert set(re.findall(r"(\w+)/", package)) == rooms | {"spark_rankeval"}
    modules = {path.name for path in (ROOT / "spark_rankeval").glob("*.py")} - {"__init__.py"}
    assert set(re.findall(r"\w+\.py", package)) == modules
    features = package.split("\n5 ")[1].split("\n6 ")[0]
    assert folders_of(ROOT / "spark_rankeval" / "features") <= set(re.findall(r"\w+", features))
    assert folders_of(ROOT / "tests") - rooms <= set(re.findall(r"(\w+)/", others))


# Those that need Spark run in tests/pages.
@pytest.mark.parametrize("name", [name for name in EXAMPLES if not needs_tables(name)])
def test_docstring_examples(name, tmp_path):
    assert failures_of(name, {"folder": str(tmp_path)}) == 0


# They need a job, a server, an environment that lacks something, or data of which a test is warned.
WITHOUT_EXAMPLE = {
    "SparkRankEvalError", "SparkRankEvalWarning", "FinishedRunError", "GateError", "TrackingError", "SupersededError", "MissingExtraError",
    "WorkerError", "UndefinedMeanError", "EngineError",
}  # fmt: skip
DOCUMENTED = PUBLIC | {
    each.__name__: each
    for each in vars(errors).values()
    if isinstance(each, type) and each.__module__ == errors.__name__
}
DOCUMENTED |= {name: getattr(trec, name) for name in trec.__all__ if name != "OFFICIAL"}
DOCUMENTED |= {name: getattr(splits, name) for name in splits.__all__}
DOCUMENTED |= {each.__name__: each for each in (RankingEvaluator, CatalogueCrossValidator)}


@pytest.mark.parametrize("name", sorted(DOCUMENTED.keys() - WITHOUT_EXAMPLE))
def test_what_is_public_has_an_example(name):
    assert ">>> " in DOCUMENTED[name].__doc__


def test_the_pages_of_conventions_and_of_columns_are_what_the_code_says():
    root = Path(__file__).parents[1]
    pages = run_path(str(root / "tools" / "write_conventions.py"))
    written = pages["page"]()
    assert (root / "docs" / "conventions.md").read_text() == written, "run make conventions"
    assert (root / "docs" / "tables.md").read_text() == pages["tables_page"](), "run make conventions"
    assert written.count("\n## ") == len({metric.name for metric in REGISTRY.values()}) + 2


LINKS = [(page, path) for page in PAGES for path in re.findall(r"\]\(([A-Za-z0-9_./-]+)[)#]", page.read_text())]


def test_the_page_of_bad_data_has_every_kind_and_its_choices():
    page = " ".join((DOCS / "bad_data.md").read_text().split())
    for name, kind in KINDS.items():
        choices = "" if kind.choices == ("error", "drop") else f" ({', '.join(f'`{each}`' for each in kind.choices)})"
        assert f"`{name}`{choices}" in page
        assert f"{name}: " in OnInvalid.__doc__


def test_links_of_pages_lead_somewhere():
    assert [f"{page.name}: {path}" for page, path in LINKS if not (page.parent / path).exists()] == []


def test_a_notebook_of_a_page_has_its_text_and_its_code():
    for path in NOTEBOOKS["NOTEBOOKS"]:
        if path.with_suffix(".md").exists():
            committed = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(path.read_text())["cells"]]
            cells = [(cell.cell_type, cell.source) for cell in NOTEBOOKS["cells_of"](path.with_suffix(".md"))]
            assert committed == cells, f"{path.name}: run make notebook"
            assert len(cells) > 10


# A paragraph, fence or list under an item of a list that is indented by one to three spaces; an item right below such a paragraph.
SWALLOWED = re.compile(r"^ {1,3}(?:```|[-*+] |\d+\. )|(?<=\n\n) {1,3}\S|(?<=\n) {4}\S.*\n(?=[-*+] |\d+\. )", re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_item_of_a_list_is_swallowed(page):
    """GitHub takes fewer spaces, and no blank line before the next item; the site then swallows the items that follow."""
    text = re.sub(r"^```.*?^```$", "```", page.read_text(), flags=re.M | re.S)
    assert [text.count("\n", 0, match.start()) + 1 for match in SWALLOWED.finditer(text)] == []


def test_every_recipe_says_when_it_is_needed_and_what_it_prints():
    pages = [DOCS / "recipes.md", DOCS / "more_recipes.md"]
    recipes = [recipe for page in pages for recipe in re.split(r"^## ", page.read_text(), flags=re.M)[1:]]
    assert len(recipes) >= 11
    for recipe in recipes:
        assert recipe.split("\n\n")[1].startswith("**When:** "), recipe
        assert re.search(r"^```\n\n```\n.+?^```$|^<!-- not run: ", recipe, re.M | re.S), recipe
