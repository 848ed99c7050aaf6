"""What is said where a package of an extra is missing, and how pages say that extras are installed."""

import re
import tomllib
from contextlib import nullcontext
from pathlib import Path

import pytest

from spark_rankeval import __main__ as door
from spark_rankeval.checks import EXTRAS, check_extra
from spark_rankeval.errors import EngineError, MissingExtraError, OptionError
from spark_rankeval.local import check_installed, session

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
    extras = {"spark": {"pyspark>=3.5"}, **{name: set(packages.values()) for name, packages in EXTRAS.items()}}
    # PySpark warns of pandas 3. It works with it, so no message tells people to replace theirs.
    for name in ("spark", "sail"):
        extras[name].add("pandas<3")
    extras["spark"].add("pyarrow>=18")
    declared = {name: set(packages) for name, packages in DISTRIBUTION["optional-dependencies"].items()}
    assert extras == {name: packages for name, packages in declared.items() if name not in {"test", "dev"}}


def test_the_doctor_asks_for_the_packages_of_the_distribution():
    assert [f"{name}>={least}" for name, least in door._LEAST.items()] == DISTRIBUTION["dependencies"]
    assert f"pyarrow>={door._NEWER_PYARROW}" in DISTRIBUTION["optional-dependencies"]["spark"]


def test_what_is_missing_is_installed_by_a_line_that_works_without_a_package_index(monkeypatch):
    monkeypatch.setattr("spark_rankeval.checks.find_spec", lambda name: None)
    expected = r"^reports need the package altair; install it with pip install 'altair>=5\.5' 'vl-convert-python>=1\.7' 'jinja2>=3\.1'"
    with pytest.raises(MissingExtraError, match=expected):
        check_extra("report", "reports")
    check_extra("mlflow", "runs in MLflow", only=())


# What no package index has is named nowhere as if it had: a checkout is ".", a wheel is a file.
def test_no_page_installs_what_no_index_has():
    for page in PAGES:
        assert re.findall(r"pip install[^\n]*spark-rankeval.*", page.read_text()) == [], page.relative_to(ROOT)


INSTALLED = {
    (
        "4.3.0",
        "4.2.0",
    ): r"^pyspark 4\.3\.0 and pyspark-client 4\.2\.0 are both installed, .* Uninstall both, and install ",
    ("3.5.9", None): r"^sessions without Java need PySpark's client of 4\.0 to 4\.2; 3\.5\.9 is installed\. Install ",
    (None, "4.3.0"): r"client of 4\.0 to 4\.2; 4\.3\.0 is installed\.",
    ("4.2.1", "4.2.1"): None,
    ("4.2.0", None): None,
    (None, "4.0.1"): None,
    (None, None): None,  # a cluster's own PySpark has no distribution
}


@pytest.mark.parametrize("versions", INSTALLED)
def test_packages_that_do_not_go_together_are_named_before_they_are_imported(versions, monkeypatch):
    monkeypatch.setattr("spark_rankeval.checks.find_spec", lambda name: name)
    monkeypatch.setattr(
        "spark_rankeval.local.installed_version", dict(zip(("pyspark", "pyspark-client"), versions, strict=True)).get
    )
    refused = nullcontext() if INSTALLED[versions] is None else pytest.raises(EngineError, match=INSTALLED[versions])
    with refused:
        check_installed()


@pytest.mark.parametrize(("pyspark", "error", "said"), [
    (None, MissingExtraError, r"^sessions without Java need the package pysail; .* pip install 'pysail>=[^']+' 'pyspark-client>="),
    # Its files would be overwritten.
    ("4.2.0", MissingExtraError, r"install it with pip install 'pysail>=[^']+' \(the extra 'sail'\)$"),
    ("4.3.0", EngineError, r'"pysail>=[^"]+" "pyspark-client[^"]+" in another environment, or "pysail[^"]+" "pyspark\[connect\]==4\.2'),
])  # fmt: skip
def test_sessions_without_java_need_an_extra(pyspark, error, said, monkeypatch):
    monkeypatch.setattr("spark_rankeval.checks.find_spec", lambda name: pyspark if name == "pyspark" else None)
    monkeypatch.setattr("spark_rankeval.local.installed_version", {"pyspark": pyspark}.get)
    with pytest.raises(error, match=said):
        check_installed()


@pytest.mark.parametrize(
    "arguments",
    [{"cores": 0}, {"cores": True}, {"cores": 1.5}, {"memory": "8 apples"}, {"memory": -1}, {"memory": "8"}],
)
def test_wrong_sizes_of_an_engine_are_refused(arguments):
    (name,) = arguments
    with pytest.raises(OptionError, match=rf"^{name} must be a "):
        session(**arguments)
