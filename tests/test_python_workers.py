"""What is said where Spark's Python workers lack something."""

import sys
import traceback
import warnings

import pytest

from spark_rankeval.checks import PANDAS_NOTICE
from spark_rankeval.errors import EngineError, MetricError, OptionError, WorkerError
from spark_rankeval.spark.engine import (
    check_local_workers,
    pandas_notice_held,
    what_workers_lack,
    workers_explained,
)
from spark_rankeval.worker.process import CATALOGUE_TOO_LARGE


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("  …\nModuleNotFoundError: No module named 'spark_rankeval'\n  …", "lack spark_rankeval"),
        ("ModuleNotFoundError: No module named 'pyarrow.lib'", "lack pyarrow"),
        ("[PACKAGE_NOT_INSTALLED] PyArrow >= 18.0.0 must be installed; however, it was not found.", "lack PyArrow"),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, PySpark cannot",
            "are Python 3.9, and this is Python 3.11",
        ),
        # The caller's own functions have their own errors.
        ("ModuleNotFoundError: No module named 'pandas_of_mine'", ""),
        ("ZeroDivisionError: division by zero", ""),
    ],
)
def test_what_workers_lack_is_read_from_the_error(said, expected):
    assert what_workers_lack(said) == expected


def test_it_is_an_error_that_says_what_to_do():
    with pytest.raises(WorkerError) as caught, workers_explained():
        raise RuntimeError("No module named 'numpy'")
    assert str(caught.value).startswith("Spark's Python workers lack numpy; ")
    assert sys.executable in str(caught.value)


def test_memory_that_is_too_small_is_an_error_that_says_what_to_do():
    """In the words of Sail 0.7.2, whose worker hands them on."""
    said = (
        "Resources exhausted: Failed to allocate additional 439.1 KB for HashJoinInput[1] with 5.6 MB already allocated"
    )
    expected = r"memory is too small for these tables \(Resources exhausted: .* HashJoinInput"
    with pytest.raises(EngineError, match=expected) as caught, workers_explained():
        raise RuntimeError(f"Traceback (most recent call last):\nRuntimeError: {said}\n\nthe query")
    assert "memory=" in str(caught.value)
    assert "the query" not in str(caught.value)


def test_a_catalogue_that_is_too_large_is_an_error_that_says_what_to_do():
    with pytest.raises(EngineError) as caught, workers_explained():
        raise RuntimeError(
            f"Traceback (most recent call last):\nRuntimeError: {CATALOGUE_TOO_LARGE}: 3 items\n\tat org.apache.spark"
        )
    assert str(caught.value) == f"{CATALOGUE_TOO_LARGE}: 3 items"


@pytest.mark.parametrize("error", [OptionError("No module named 'numpy'"), RuntimeError("other"), KeyboardInterrupt()])
def test_other_errors_pass(error):
    with pytest.raises(type(error)) as caught, workers_explained():
        raise error
    assert caught.value is error


def test_an_error_of_a_metric_is_that_of_its_worker():
    said = "Traceback (most recent call last):\n  File \"a.py\"\nspark_rankeval.errors.MetricError: the metric 'a' raised b\n\n\tat org"
    with pytest.raises(MetricError) as caught, workers_explained():
        raise RuntimeError(said)
    assert str(caught.value) == "the metric 'a' raised b"
    assert caught.value.__suppress_context__


def test_the_error_of_spark_is_not_shown_beside_it():
    with pytest.raises(WorkerError) as caught, workers_explained():
        raise RuntimeError("No module named 'numpy'" + 160 * "\n\tat org.apache.spark")
    assert "org.apache" not in "".join(traceback.format_exception(caught.value))


THIS_VERSION = ".".join(map(str, sys.version_info[:2]))


@pytest.fixture
def python_that_says(tmp_path, monkeypatch):
    """Puts first on the PATH a ``python3`` that answers the probe with these lines."""

    def placed(version, lacking):
        python = tmp_path / "python3"
        python.write_text(f"#!/bin/sh\necho {version}\necho '{lacking}'\n")
        python.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        monkeypatch.delenv("PYSPARK_PYTHON", raising=False)

    return placed


@pytest.mark.parametrize(
    ("version", "lacking", "expected"),
    [
        (THIS_VERSION, "numpy, pandas", r"lack numpy, pandas\. They run the first python3 on the PATH, and this is "),
        ("3.9", "", rf"are Python 3\.9, and this is Python {THIS_VERSION}\. "),
    ],
)
def test_workers_on_this_machine_are_refused_before_a_job(python_that_says, version, lacking, expected):
    python_that_says(version, lacking)
    with pytest.raises(WorkerError, match=f"^Spark's Python workers {expected}") as caught:
        check_local_workers("local[*]")
    assert "\n" not in str(caught.value)
    # Those of a cluster run another Python than this machine's.
    check_local_workers("yarn")


def test_another_python_that_has_what_is_needed_is_no_error(python_that_says):
    python_that_says(THIS_VERSION, "")
    check_local_workers("local[2]")


def test_a_python_that_is_not_there_is_named_and_one_that_cannot_be_asked_is_left_to_spark(tmp_path, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "no-such-python")
    with pytest.raises(WorkerError, match="workers do not start: there is no no-such-python"):
        check_local_workers("local")
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(broken))
    check_local_workers("local")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    check_local_workers("local")


def test_a_remark_on_pandas_is_held_and_no_other_one():
    with warnings.catch_warnings(record=True, action="always") as seen:
        with pandas_notice_held():
            warnings.warn(f"{PANDAS_NOTICE} >= 3.0.0.", FutureWarning, stacklevel=1)
            warnings.warn("another", FutureWarning, stacklevel=1)
        warnings.warn(PANDAS_NOTICE, FutureWarning, stacklevel=1)
    assert [str(warning.message) for warning in seen] == ["another", PANDAS_NOTICE]


@pytest.mark.parametrize("says", ["", "hello", "hello\nthere\n"], ids=["nothing", "a word", "two lines"])
def test_a_program_that_is_no_python_is_left_to_spark(tmp_path, monkeypatch, says):
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\nprintf '{says}'\n")
    script.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(script))
    check_local_workers("local[2]")
