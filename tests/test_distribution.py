"""Whether the files that say what the package needs agree: pyproject.toml, its pins for tests, and the recipe for conda."""

import re
import tomllib
from importlib.metadata import requires
from pathlib import Path
from runpy import run_path

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from spark_rankeval.checks import __version__

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
# The engine, and what it shares with the package: their versions are those of a platform.
OF_PLATFORMS = {"pyspark", "numpy", "pandas", "pyarrow"}


def of_extra(name):
    """The requirements of an extra and of the extras that it takes, by the names of their packages."""
    found = {}
    for text in PROJECT["optional-dependencies"][name]:
        requirement = Requirement(text)
        if requirement.name == PROJECT["name"]:
            for each in requirement.extras:
                found |= of_extra(each)
        else:
            found[canonicalize_name(requirement.name)] = requirement
    return found


def pins(path):
    lines = [line.strip() for line in (ROOT / path).read_text().splitlines()]
    parts = [line.split("==") for line in lines if line and not line.startswith(("#", "-r"))]
    return {canonicalize_name(name): version for name, version in parts}


def test_links_of_the_readme_lead_somewhere_on_a_package_index():
    readme = run_path(str(ROOT / "setup.py"))["readme_of_index"]()
    links = re.findall(r"\]\(([^)\s]+)\)", readme)
    home = PROJECT["urls"]["Repository"]
    assert len(links) > 20
    for link in links:
        assert link.startswith("https://")
        place = link.removeprefix(f"{home}/blob/main/").removeprefix(f"{home}/raw/main/").partition("#")[0]
        assert (ROOT / place).exists()
    assert f"]({home}/raw/main/docs/comparison.svg)" in readme


def test_a_release_has_one_version(tmp_path):
    problems = run_path(str(ROOT / "tools" / "check_release.py"))["problems"]
    for name in ("pyproject.toml", "spark_rankeval/checks.py", "CITATION.cff"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## [{__version__}] - 2027-01-31\n")
    assert problems(f"v{__version__}", tmp_path) == []
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n")
    assert problems("v9.9", tmp_path) == [
        f"the tag is v9.9, and pyproject.toml has {__version__}",
        f"CHANGELOG.md begins with Unreleased, and pyproject.toml has {__version__}",
        "the changelog gives Unreleased no date",
    ]


def test_what_is_pinned_for_development_is_what_the_extra_admits():
    pinned = {name: version for name, version in pins("requirements-dev.txt").items() if name not in OF_PLATFORMS}
    admitted = of_extra("dev")
    assert sorted(pinned) == sorted(admitted)
    assert [name for name, version in pinned.items() if not admitted[name].specifier.contains(version)] == []


def test_platforms_have_the_same_pins_of_packages_that_the_extra_of_tests_names():
    pinned, of_platforms = pins("requirements-dev.txt"), pins("tests/platforms/tools.txt")
    assert of_platforms.items() <= pinned.items()
    assert of_platforms.keys() <= of_extra("test").keys()


def test_the_extra_of_spark_brings_a_pyarrow_that_the_installed_pyspark_takes():
    """PySpark names it in an extra of its own, which a plain installation does not read."""
    (ours,) = of_extra("spark")["pyarrow"].specifier
    needed = {
        bound for each in map(Requirement, requires("pyspark")) if each.name == "pyarrow" for bound in each.specifier
    }
    assert needed
    assert all(bound.contains(ours.version) for bound in needed)


def test_the_recipe_for_conda_says_what_the_project_says():
    recipe = yaml.safe_load((ROOT / "conda/recipe/recipe.yaml").read_text())
    context, wanted = recipe["context"], recipe["requirements"]
    assert recipe["package"]["name"] == PROJECT["name"]
    assert context["version"] == PROJECT["version"] == __version__
    assert f">={context['python_min']}" == PROJECT["requires-python"]
    assert spaced(PROJECT["dependencies"]) == wanted["run"][1:]
    assert spaced(PYPROJECT["build-system"]["requires"]) == wanted["host"][2:]
    assert wanted["run_constraints"] == spaced(text for text in PROJECT["optional-dependencies"]["spark"][:1])
    commands = [f"{name} = {place}" for name, place in PROJECT["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == commands
    assert recipe["about"]["summary"] == PROJECT["description"]
    assert recipe["about"]["license"] == PROJECT["license"]


def spaced(requirements):
    return [f"{requirement.name} {requirement.specifier}" for requirement in map(Requirement, requirements)]


def test_classifiers_name_the_pythons_that_ci_runs():
    matrix = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["check"]["strategy"]["matrix"]
    versions = [f"Programming Language :: Python :: {version}" for version in matrix["python"]]
    assert [each for each in PROJECT["classifiers"] if " :: 3." in each] == versions
