"""What is said where a package of an extra is missing, and how pages say that extras are installed."""

import re
import tomllib
from pathlib import Path

import pytest

from spark_rankeval.errors import MissingExtraError
from spark_rankeval.extras import EXTRAS, check_extra

ROOT = Path(__file__).parents[1]
DISTRIBUTION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/*.*"),
    *ROOT.glob("conf/*"),
    *ROOT.rglob("spark_rankeval/**/*.py"),
    *ROOT.glob("jobs/*.py"),
]


def test_extras_are_those_of_the_distribution():
    extras = {name: sorted(packages.values()) for name, packages in EXTRAS.items()}
    assert {"spark": ["pyspark>=3.5"], **extras} == {
        name: sorted(packages) for name, packages in DISTRIBUTION["optional-dependencies"].items()
    }


def test_what_is_missing_is_installed_by_a_line_that_works_without_a_package_index(monkeypatch):
    monkeypatch.setattr("spark_rankeval.extras.find_spec", lambda name: None)
    expected = r"^reports need the package altair; install it with pip install 'altair>=5\.5' 'vl-convert-python>=1\.7' 'jinja2>=3\.1'"
    with pytest.raises(MissingExtraError, match=expected):
        check_extra("report", "reports")
    check_extra("mlflow", "runs in MLflow", only=())


# What no package index has is named nowhere as if it had: a checkout is ".", a wheel is a file.
def test_no_page_installs_what_no_index_has():
    for page in PAGES:
        assert re.findall(r"pip install[^\n]*spark-rankeval.*", page.read_text()) == [], page.relative_to(ROOT)
