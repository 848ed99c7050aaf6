"""Examples that people copy: those of all written pages, with what they print, and those of the docstrings."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path
from runpy import run_path

import pytest
from documented import PAGES, ROOT, differences_of, examples_of, goes_on_with_the_quickstart
from readme_names import results_of_all_kinds, tables_of_all_kinds

import spark_rankeval
from spark_rankeval.metrics.base import REGISTRY

README, DOCS = ROOT / "README.md", ROOT / "docs"
MODULES = [module.name for module in pkgutil.walk_packages(spark_rankeval.__path__, "spark_rankeval.")]


def start(spark):
    """The names that the first example makes, with which the other pages go on."""
    assert spark is not None
    names = {}
    examples_of(DOCS / "index.md")[0].run(names)
    return names


def test_the_first_example_is_the_same_everywhere():
    first, of_readme = (examples_of(page)[0].code for page in (DOCS / "index.md", README))
    assert first.partition("result = ")[0] == of_readme.partition("result = ")[0]


def of_pages():
    needs = {"pyspark_ml.md": [pytest.mark.classic_alone("tuned_als")]}
    return [pytest.param(page, id=page.name, marks=needs.get(page.name, ())) for page in PAGES if page != README]


@pytest.mark.parametrize("page", of_pages())
def test_examples_of_a_page_print_what_it_says(spark, page, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.chdir(tmp_path)
    examples = [example for example in examples_of(page) if not example.not_run]
    if examples:
        assert differences_of(examples, start(spark)) == []


# The others are run by tests/jobs/test_quickstart.py, which has run the quick start.
@pytest.mark.parametrize(
    "example",
    [one for one in examples_of(README) if not (one.not_run or goes_on_with_the_quickstart(one))],
    ids=lambda example: f"line {example.line}",
)
def test_examples_of_the_readme_print_what_it_says(spark, example, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.chdir(tmp_path)
    names = {name: getattr(spark_rankeval, name) for name in spark_rankeval.__all__}
    names |= {"metrics": ["ndcg@2"]} | start(spark)
    if "als_model" in example.code:
        names |= tables_of_all_kinds(spark)
    if "of_models" in example.code:
        names |= results_of_all_kinds(names)
    assert differences_of([example], names) == []


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_docstring_examples():
    assert sum(doctest.testmod(importlib.import_module(name)).attempted for name in MODULES) >= 4


def test_the_page_of_conventions_is_what_the_registry_says():
    root = Path(__file__).parents[1]
    written = run_path(str(root / "tools" / "write_conventions.py"))["page"]()
    assert (root / "docs" / "conventions.md").read_text() == written, "run make conventions"
    assert written.count("\n## ") == len({metric.name for metric in REGISTRY.values()}) + 1


LINKS = [(page, path) for page in PAGES for path in re.findall(r"\]\(([A-Za-z0-9_./-]+)[)#]", page.read_text())]


@pytest.mark.parametrize(("page", "path"), LINKS, ids=[f"{page.name}: {path}" for page, path in LINKS])
def test_links_of_pages_lead_somewhere(page, path):
    assert (page.parent / path).exists()
