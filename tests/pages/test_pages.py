"""Examples that people copy: those of all written pages, with what they print."""

import pytest
from documented import PAGES, ROOT, differences_of, examples_of, goes_on_with_the_quickstart
from readme_names import results_of_all_kinds, tables_of_all_kinds

import spark_rankeval

README, DOCS = ROOT / "README.md", ROOT / "docs"


def start(spark):
    """The names that the first example makes, with which the other pages go on."""
    assert spark is not None
    names = {}
    examples_of(DOCS / "index.md")[0].run(names)
    return names


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
