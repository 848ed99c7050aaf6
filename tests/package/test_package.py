"""The sdist and the wheel of `make package`: what is in them, and whether they run in environments that have nothing else."""

import subprocess
import tarfile
import zipfile

import pytest
from helpers.documented import ROOT, examples_of, trimmed
from helpers.environments import UV, environment, run

TWINE, RATTLER_BUILD = "twine==7.0.0", "py-rattler-build==0.73.0"
CODE = set(subprocess.check_output(["git", "ls-files", "spark_rankeval"], cwd=ROOT, text=True).split())

JOB = """
[predictions]
path = "predictions.csv"
format = "csv"

[labels]
path = "labels.csv"
format = "csv"

[columns]
score = "score"

[evaluation]
metrics = ["ndcg@10"]

[output]
path = "evaluation"
run_id = "first"
report = "report.html"
"""

ENTRY_POINTS = """
from importlib.metadata import entry_points

points = entry_points(group="spark_rankeval.jobs")
assert {point.name for point in points} == {"evaluate", "compare", "compare_groups", "trend"}
assert all(callable(point.load()) for point in points)
"""


@pytest.fixture(scope="module")
def wheel():
    (file,) = (ROOT / "dist").glob("spark_rankeval-*.whl")
    return file


@pytest.fixture(scope="module")
def sdist():
    (file,) = (ROOT / "dist").glob("spark_rankeval-*.tar.gz")
    return file


def test_twine_accepts_both(wheel, sdist):
    run(UV, "tool", "run", "--from", TWINE, "twine", "check", "--strict", str(wheel), str(sdist), folder=ROOT)


RECIPE = """
from rattler_build import Stage0Recipe, VariantConfig

(rendered,) = Stage0Recipe.from_file("conda/recipe/recipe.yaml").render(VariantConfig())
print(rendered.recipe.package)
"""


def test_the_recipe_for_conda_renders():
    printed = run(
        UV, "run", "--quiet", "--no-project", "--with", RATTLER_BUILD, "python", "-c", RECIPE, folder=ROOT
    ).stdout
    assert "spark-rankeval" in printed


def test_both_have_all_files_of_the_package_and_no_other(wheel, sdist):
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert inside == CODE
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames() if archive.getmember(name).isfile()}
    assert {name for name in names if not name.startswith("spark_rankeval.egg-info/")} == CODE | {
        *(f"conf/{path.name}" for path in (ROOT / "conf").iterdir()),
        *("CHANGELOG.md", "LICENSE", "MANIFEST.in", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg", "setup.py"),
    }


def test_two_builds_of_the_wheel_are_the_same(wheel, tmp_path):
    commit = run("git", "log", "-1", "--format=%ct", folder=ROOT).stdout.strip()
    command = (UV, "build", "--quiet", "--wheel", "--out-dir", str(tmp_path), str(ROOT))
    run("env", f"SOURCE_DATE_EPOCH={commit}", *command, folder=tmp_path)
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()


def test_the_package_alone_explains_metrics_and_says_what_is_missing(wheel, tmp_path):
    environment(tmp_path, str(wheel))
    command = tmp_path / "env/bin/spark-rankeval"
    assert "ndcg" in run(command, "explain", "ndcg@10", folder=tmp_path).stdout
    assert run(command, "evaluate", "--print-schema", folder=tmp_path).stdout.startswith("{")
    tables(tmp_path)
    refused = run(command, "evaluate", "--config", "job.toml", folder=tmp_path, code=2)
    assert "install" in refused.stderr


# The wheel with the newest PySpark, with the oldest, and with Sail; and the sdist, which pip builds.
INSTALLATIONS = {
    "spark": ("wheel", "spark,report", ()),
    "spark 3.5": ("wheel", "spark,report", ("pyspark==3.5.*",)),
    "sail": ("wheel", "sail,report", ()),
    "sail from the sdist": ("sdist", "sail,report", ()),
}


@pytest.mark.parametrize("installation", INSTALLATIONS)
def test_the_example_of_the_readme_and_a_job_run_where_nothing_else_is(request, installation, tmp_path):
    file, extras, others = INSTALLATIONS[installation]
    engine = "sail" if "sail" in extras else "spark"
    environment(tmp_path, f"spark-rankeval[{extras}] @ {request.getfixturevalue(file).as_uri()}", *others)
    python = tmp_path / "env/bin/python"
    example = examples_of(ROOT / "README.md")[0]
    (tmp_path / "example.py").write_text(example.code.replace("docs/example", str(ROOT / "docs/example")))
    assert trimmed(run(python, "example.py", folder=tmp_path).stdout) == trimmed(example.printed)
    run(python, "-c", ENTRY_POINTS, folder=tmp_path)
    tables(tmp_path)
    command = tmp_path / "env/bin/spark-rankeval"
    assert "ndcg@10" in run(command, "evaluate", "--config", "job.toml", "--engine", engine, folder=tmp_path).stdout
    assert "<svg" in (tmp_path / "report.html").read_text()


def tables(folder):
    (folder / "job.toml").write_text(JOB)
    (folder / "predictions.csv").write_text("user,item,score\nann,tea,0.9\nann,milk,0.7\nbob,bread,0.8\nbob,milk,0.5\n")
    (folder / "labels.csv").write_text("user,item\nann,tea\nbob,bread\n")
