"""Examples that people copy: the README's first one with its output, and those of the docstrings."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path
from runpy import run_path

import pytest

import spark_rankeval
from spark_rankeval.metrics.base import REGISTRY

README = (Path(__file__).parents[1] / "README.md").read_text()
MODULES = [module.name for module in pkgutil.walk_packages(spark_rankeval.__path__, "spark_rankeval.")]


def test_the_readme_example_prints_what_the_readme_says(spark, capsys):
    assert spark is not None
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1]
    printed = re.search(r"```\n(dialect .*?)```", README, re.DOTALL)[1]
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out == printed


def test_the_readme_map_of_dialects_is_what_it_prints(spark, capsys, monkeypatch):
    assert spark is not None
    monkeypatch.setenv("COLUMNS", "110")
    codes = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names = {}
    exec(compile(codes[0], "README.md", "exec"), names)
    capsys.readouterr()
    exec(compile(next(code for code in codes if "dialect_map" in code), "README.md", "exec"), names)
    assert capsys.readouterr().out == re.search(r"```\n(metric  dialect .*?)```", README, re.DOTALL)[1]


@pytest.mark.parametrize("page", ["pyspark_ml.md", "trec.md"])
def test_examples_of_a_page_print_what_it_says(spark, page, capsys):
    """A plain block right after a Python block is what that one prints; one after a comment `not run` is not run."""
    assert spark is not None
    text = (Path(__file__).parents[1] / "docs" / page).read_text()
    names, differences, printed = {}, [], 0
    for why, code, said in re.findall(
        r"^(<!-- not run: .*-->\n)?```python\n(.*?)^```$(?:\n\n```\n(.*?)^```$)?", text, re.DOTALL | re.MULTILINE
    ):
        if not why:
            exec(compile(code, page, "exec"), names)
            found = capsys.readouterr().out
            differences += [(said, found)] * (bool(said) and found != said)
            printed += bool(said)
    assert differences == []
    assert printed >= 2


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_docstring_examples():
    assert sum(doctest.testmod(importlib.import_module(name)).attempted for name in MODULES) >= 4


def test_the_page_of_conventions_is_what_the_registry_says():
    root = Path(__file__).parents[1]
    written = run_path(str(root / "tools" / "write_conventions.py"))["page"]()
    assert (root / "docs" / "conventions.md").read_text() == written, "run make docs"
    assert written.count("\n## ") == len({metric.name for metric in REGISTRY.values()}) + 1


@pytest.mark.parametrize("path", re.findall(r"\]\(([A-Za-z0-9_./-]+)\)", README))
def test_links_of_the_readme_lead_somewhere(path):
    assert (Path(__file__).parents[1] / path).exists()
