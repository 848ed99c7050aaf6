"""What is said where Spark's Python workers lack something."""

import sys

import pytest

from spark_rankeval.errors import OptionError, WorkerError
from spark_rankeval.python_workers import what_workers_lack, workers_explained


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
    assert str(caught.value).startswith("Spark's Python workers lack numpy. ")
    assert sys.executable in str(caught.value)


@pytest.mark.parametrize("error", [OptionError("No module named 'numpy'"), RuntimeError("other"), KeyboardInterrupt()])
def test_other_errors_pass(error):
    with pytest.raises(type(error)) as caught, workers_explained():
        raise error
    assert caught.value is error
