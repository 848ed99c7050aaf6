"""Pages and docstrings agree with the code; the examples of the pages, and docstrings that need Spark, run in tests/pages."""

import json
import re
from pathlib import Path
from pkgutil import resolve_name
from runpy import run_path

import pytest
from helpers.docstrings import EXAMPLES, PUBLIC, failures_of, needs_tables
from helpers.documented import PAGES, ROOT
from helpers.stored_texts import StoredTexts

from spark_rankeval import errors, splits, trec
from spark_rankeval.metrics.base import REGISTRY
from spark_rankeval.ml import CatalogueCrossValidator, RankingEvaluator
from spark_rankeval.request.call import KINDS, OnInvalid

DOCS = ROOT / "docs"
WRITER = run_path(str(ROOT / "tools" / "write_notebook.py"))


# Those that need Spark run in tests/pages.
@pytest.mark.parametrize("name", [name for name in EXAMPLES if not needs_tables(name)])
def test_docstring_examples(name, tmp_path):
    assert failures_of(name, {"folder": str(tmp_path)}) == 0


# They need a job, a server, an environment that lacks something, or data of which a test is warned.
WITHOUT_EXAMPLE = {
    "SparkRankEvalError", "SparkRankEvalWarning", "FinishedRunError", "GateError", "TrackingError", "MissingExtraError",
    "WorkerError", "UndefinedMeanError", "EngineError", "UnavailableError",
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


def test_the_page_of_the_api_names_what_there_is():
    for name in re.findall(r"^::: (\S+)", (DOCS / "api.md").read_text(), re.M):
        assert resolve_name(name).__doc__


def test_links_of_pages_lead_somewhere():
    assert [f"{page.name}: {path}" for page, path in LINKS if not (page.parent / path).exists()] == []


def test_a_notebook_of_a_page_has_its_text_and_its_code():
    path = WRITER["NOTEBOOK"]
    committed = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(path.read_text())["cells"]]
    cells = WRITER["cells_of"](path.with_suffix(".md"))
    assert committed == cells, f"{path.name}: run make notebook"
    assert len(cells) > 10


def test_the_page_of_published_tables_shows_what_parity_tests_stored():
    stored = StoredTexts(ROOT / "tests" / "parity" / "test_published_tables.py").texts()
    page = (DOCS / "evidence" / "published.md").read_text()
    assert len(stored) == 7
    assert [name for name, text in stored.items() if f"```\n{text}\n```" not in page] == []


# A paragraph, fence or list under an item of a list that is indented by one to three spaces; an item right below such a paragraph.
SWALLOWED = re.compile(r"^ {1,3}(?:```|[-*+] |\d+\. )|(?<=\n\n) {1,3}\S|(?<=\n) {4}\S.*\n(?=[-*+] |\d+\. )", re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_item_of_a_list_is_swallowed(page):
    """GitHub takes fewer spaces, and no blank line before the next item; the site then swallows the items that follow."""
    text = re.sub(r"^```.*?^```$", "```", page.read_text(), flags=re.M | re.S)
    assert [text.count("\n", 0, match.start()) + 1 for match in SWALLOWED.finditer(text)] == []
