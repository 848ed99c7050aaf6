"""Examples that people copy: those of all written pages, with what they print."""

from pathlib import Path
from unittest.mock import patch

import pytest
from documented import PAGES, ROOT, differences_of, examples_of, goes_on_with_the_quickstart
from pyspark.ml.recommendation import ALS
from readme_names import results_of_all_kinds, tables_of_all_kinds
from shuffles import settings_of

import spark_rankeval
from spark_rankeval.metrics.base import REGISTRY

README, DOCS = ROOT / "README.md", ROOT / "docs"


@pytest.fixture(scope="module")
def first_names(spark):
    """The names that the first example makes, with which the other pages go on."""
    assert spark is not None
    names = {}
    examples_of(DOCS / "index.md")[0].run(names)
    return names


@pytest.fixture(scope="module")
def readme_names(spark, first_names):
    names = {name: getattr(spark_rankeval, name) for name in spark_rankeval.__all__}
    return names | {"metrics": ["ndcg@2"]} | first_names


@pytest.fixture(scope="module")
def all_tables(spark, readme_names):
    return readme_names | tables_of_all_kinds(spark)


@pytest.fixture(scope="module")
def all_results(readme_names):
    return readme_names | results_of_all_kinds(readme_names)


@pytest.fixture
def few_blocks(monkeypatch):
    """ALS parts its users and items by 10, each of which is a task of so few ratings."""
    fit = ALS._fit
    monkeypatch.setattr(ALS, "_fit", lambda als, table: fit(als.setNumBlocks(1), table))


@pytest.fixture
def registry_as_before():
    """Metrics that a page defines are none of other tests."""
    with patch.dict(REGISTRY):
        yield


@pytest.fixture
def several_partitions(spark, request):
    """Which of several bad rows is the example of an error hangs on how many partitions there are: one shows another than several."""
    if request.node.callspec.id != "concepts.md":
        yield
        return
    with settings_of(spark, {"spark.sql.shuffle.partitions": "8"}):
        yield


def of_pages():
    needs = {
        "pyspark_ml.md": [
            pytest.mark.classic_alone("tuned_als"),
            pytest.mark.filterwarnings("ignore:there are no labels"),
        ]
    }
    return [pytest.param(page, id=page.name, marks=needs.get(page.name, ())) for page in PAGES if page != README]


@pytest.mark.parametrize("page", of_pages())
@pytest.mark.usefixtures("few_blocks", "registry_as_before", "several_partitions")
def test_examples_of_a_page_print_what_it_says(first_names, page, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.chdir(tmp_path)
    examples = [example for example in examples_of(page) if not example.not_run]
    if examples:
        assert differences_of(examples, {**first_names}) == []


@pytest.mark.filterwarnings("ignore:.*excluded item")
# The others are run by tests/jobs/test_quickstart.py, which has run the quick start.
@pytest.mark.parametrize(
    "example",
    [one for one in examples_of(README) if not (one.not_run or goes_on_with_the_quickstart(one))],
    ids=lambda example: f"line {example.line}",
)
def test_examples_of_the_readme_print_what_it_says(request, example, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.chdir(tmp_path)
    kind = (
        "all_tables"
        if "als_model" in example.code
        else "all_results"
        if "of_models" in example.code
        else "readme_names"
    )
    names = request.getfixturevalue(kind) | {"path": str(Path.cwd() / "per_user")}
    assert differences_of([example], names) == []
