"""What executors import: the zip alone, with numpy, pandas and pyarrow beside it."""

import ast
import graphlib
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from helpers.sources import package_trees

from spark_rankeval import package_zip

ROOT = Path(__file__).parents[1]

GUARD = """
import importlib.abc, sys
ALLOWED = {"numpy", "pandas", "pyarrow", "spark_rankeval"}
STANDARD = set(sys.stdlib_module_names)
# What pandas itself needs beside numpy.
NEEDED = {"dateutil", "six", "pytz", "tzdata", "_cython_3_0_11", "cython_runtime"}

class Guard(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in ALLOWED | STANDARD | NEEDED or top.startswith("_"):
            return None
        if any(f"/{package}/" in frame for frame in callers() for package in ("numpy", "pandas", "pyarrow")):
            return None  # optional imports of these packages are their own affair
        raise ImportError(f"executors do not have {name}")

def callers():
    frame = sys._getframe(2)
    while frame:
        if "importlib" not in frame.f_code.co_filename:
            yield frame.f_code.co_filename.replace("\\\\", "/")
        frame = frame.f_back

sys.meta_path.insert(0, Guard())
"""


@pytest.fixture(scope="module", name="package_zip")
def _package_zip(tmp_path_factory):
    return package_zip(tmp_path_factory.mktemp("dist"))


def run(package_zip, code, tmp_path):
    program = f"{GUARD}\nsys.path.insert(0, {str(package_zip)!r})\n{code}"
    return subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PATH": "/usr/bin:/bin"},
    )  # fmt: skip


MODULES = (
    "ranking.user_lists", "ranking.ranks", "metrics", "request.task", "worker.scoring", "worker.states",
    "worker.comparing", "experiments.covariates", "worker.process", "records.stored", "dialects",
    "statistics.exact", "statistics.description", "statistics.resampling", "statistics.comparisons", "statistics.intervals",
)  # fmt: skip


@pytest.mark.night
def test_executor_modules_import_from_the_zip_without_spark(package_zip, tmp_path):
    code = f"""
import importlib
for module in {MODULES}:
    # Each is the first of the package that is imported.
    for name in [name for name in sys.modules if name.partition(".")[0] == "spark_rankeval"]:
        del sys.modules[name]
    assert "spark_rankeval.zip" in importlib.import_module(f"spark_rankeval.{{module}}").__file__
    assert "pyspark" not in sys.modules, module
"""
    done = run(package_zip, code, tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_guard_refuses_other_packages(package_zip, tmp_path):
    done = run(package_zip, "import pyspark", tmp_path)
    assert "executors do not have pyspark" in done.stderr


def test_metrics_are_computed_from_the_zip(package_zip, tmp_path):
    code = """
from spark_rankeval.metrics import parse_metric
from spark_rankeval.ranking.user_lists import Ragged
from spark_rankeval.ranking.user_lists import RawLists
from spark_rankeval.ranking.ranks import rank_lists
batch, _ = rank_lists(RawLists(Ragged.from_lists([[5, 6]]), None, Ragged.from_lists([[6]])))
print(parse_metric("rr").resolve().compute(batch)[0])
"""
    done = run(package_zip, code, tmp_path)
    assert (done.stdout.strip(), done.returncode) == ("0.5", 0), done.stderr


def test_the_package_itself_loads_nothing_before_it_is_used():
    heavy = {"numpy", "pandas", "pyarrow", "pyspark"}
    code = f"import sys, spark_rankeval; print(sorted({{m.partition('.')[0] for m in sys.modules}} & {heavy}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_zip_holds_every_source_and_writes_itself_again(package_zip, tmp_path):
    """Also from inside a zip, as on a driver that got the package that way."""
    with zipfile.ZipFile(package_zip) as archive:
        names = set(archive.namelist())
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "spark_rankeval").rglob("*.py")}
    templates = {f"spark_rankeval/report/templates/{name}" for name in ("report.html", "style.css")}
    schemas = {f"spark_rankeval/jobs/schemas/{name}.json" for name in ("evaluate", "compare", "compare_groups")}
    assert names == sources | templates | schemas | {"spark_rankeval/py.typed"}
    done = run(package_zip, f"from spark_rankeval import package_zip\nprint(package_zip({str(tmp_path)!r}))", tmp_path)
    again = tmp_path / "spark_rankeval.zip"
    assert (done.stdout.strip(), done.returncode) == (str(again), 0), done.stderr
    # Written from other files at another time, it is the same zip: Spark refuses another of the same name.
    assert again.read_bytes() == Path(package_zip).read_bytes()


def test_the_zip_is_made_with_python_alone(package_zip, tmp_path):
    """As `make dist` makes it on a machine that has no other package."""
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^dist:  ## ", makefile, re.MULTILINE), "it installs something first"
    (code,) = re.findall(r"\$\(PYTHON\) -c '(.*package_zip.*)'", makefile)
    (tmp_path / "dist").mkdir()
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (0, "dist/spark_rankeval.zip"), done.stderr
    assert (tmp_path / "dist" / "spark_rankeval.zip").read_bytes() == Path(package_zip).read_bytes()


def test_the_zip_can_be_written_over_itself(package_zip, tmp_path):
    """As by a driver that runs from the zip and sends it once more."""
    copy = tmp_path / "spark_rankeval.zip"
    shutil.copyfile(package_zip, copy)
    done = run(copy, f"from spark_rankeval import package_zip\npackage_zip({str(tmp_path)!r})", tmp_path)
    assert (done.returncode, copy.read_bytes()) == (0, Path(package_zip).read_bytes()), done.stderr


def test_the_zip_says_nothing_of_the_time_when_it_was_written(package_zip):
    with zipfile.ZipFile(package_zip) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def imported_modules(tree, modules):
    """The modules of the package that a program imports, also those that only a type checker reads, but not inside functions."""
    if isinstance(tree, ast.ImportFrom):
        for alias in tree.names:
            whole = f"{tree.module}.{alias.name}"
            yield whole if whole in modules else tree.module
    elif not isinstance(tree, ast.FunctionDef | ast.expr):
        for node in ast.iter_child_nodes(tree):
            yield from imported_modules(node, modules)


@pytest.mark.ci
def test_no_module_imports_itself_by_way_of_others():
    trees = {f"spark_rankeval.{path[:-3].replace('/', '.')}": tree for path, tree in package_trees().items()}
    modules = {name for name in trees if not name.endswith("__init__")}
    graph = {name: {*imported_modules(trees[name], modules)} & modules for name in modules}
    # A circle is a CycleError that names its modules.
    graphlib.TopologicalSorter(graph).prepare()
