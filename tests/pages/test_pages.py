"""Examples that people copy: those of all written pages, with what they print."""

from unittest.mock import patch

import pytest
from helpers.documented import PAGES, ROOT, differences_of, examples_of
from pyspark.ml.recommendation import ALS
from worlds.named_in_calls import tables_of_all_kinds

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
def public_names(first_names):
    return (
        {name: getattr(spark_rankeval, name) for name in spark_rankeval.__all__} | {"metrics": ["ndcg@2"]} | first_names
    )


@pytest.fixture(scope="module")
def all_tables(spark, public_names):
    return public_names | tables_of_all_kinds(spark)


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


def of_pages():
    starts_sail = [pytest.mark.sail_alone("its examples start it")]
    needs = {
        "platforms.md": starts_sail,
        "pyspark_ml.md": [
            pytest.mark.classic_alone("tuned_als"),
            pytest.mark.filterwarnings("ignore:there are no labels"),
        ],
        # Its tables have columns for all calls.
        "calls.md": [pytest.mark.filterwarnings("ignore:.*excluded item", "ignore:.* every label as relevant")],
    }
    return [pytest.param(page, id=page.name, marks=needs.get(page.name, ())) for page in PAGES if page != README]


@pytest.mark.parametrize("page", of_pages())
@pytest.mark.usefixtures("few_blocks", "registry_as_before")
def test_examples_of_a_page_print_what_it_says(request, first_names, page, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.chdir(tmp_path)
    examples = [example for example in examples_of(page) if not example.not_run]
    if examples:
        # A list of calls speaks of more tables than the first example has.
        names = request.getfixturevalue("all_tables") if page.name == "calls.md" else first_names
        assert differences_of(examples, {**names, "path": str(tmp_path / "per_user")}) == []


def test_examples_of_the_readme_print_what_it_says(spark, monkeypatch):
    """It reads files of the checkout."""
    assert spark is not None
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.chdir(ROOT)
    assert differences_of(examples_of(README), {}) == []
