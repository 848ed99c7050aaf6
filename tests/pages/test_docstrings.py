"""The examples of docstrings that need Spark; they go on from the tables of docs/api.md."""

import doctest

import pytest
from helpers.docstrings import EXAMPLES, failures_of, needs_tables


def of_modules():
    needs = {"spark_rankeval.ml": pytest.mark.classic_alone("tuned_als")}
    return [pytest.param(name, marks=needs.get(name, ())) for name in EXAMPLES if needs_tables(name)]


@pytest.mark.parametrize("name", of_modules())
def test_docstring_examples(name, tables_of_docstrings, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "110")
    names = {**tables_of_docstrings, "folder": str(tmp_path)}
    # Tables of pandas end lines with blanks, and TREC's have tabs.
    assert failures_of(name, names, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE) == 0
