"""Tests that are left out on Spark Connect stand for something that is truly not there."""

import pytest
from left_out import CLASSIC_ALONE
from pyspark.errors import PySparkException


@pytest.mark.parametrize("need", CLASSIC_ALONE)
def test_what_classic_alone_has_is_there_or_refused(spark, platform, need):
    _, probe = CLASSIC_ALONE[need]
    if platform == "classic":
        assert probe(spark) == 1
        return
    with pytest.raises((PySparkException, AttributeError), match=r"JVM_ATTRIBUTE_NOT_SUPPORTED|NOT_IMPLEMENTED"):
        probe(spark)


def test_few_tests_are_left_out(pytestconfig):
    """A new one is a decision: most of what classic Spark alone has can be asked for in another way."""
    assert {line.partition("[")[0].partition(": ")[0] for line in pytestconfig.left_out} <= {
        "tests/jobs/test_evaluate_job.py::test_a_job_gives_a_connect_server_the_package",
        "tests/spark/test_progress.py::test_a_long_operation_has_a_bar_and_leaves_none",
        "tests/spark/test_progress.py::test_the_handler_goes_after_an_error_and_after_the_caller_has_cleared_all",
        "tests/spark/test_progress.py::test_a_handler_of_the_callers_stays",
        "tests/spark/test_mllib_parity.py::test_arrays_equal_ranking_metrics",
        "tests/spark/test_mllib_parity.py::test_rows_equal_ranking_metrics_of_the_same_ranking",
        "tests/spark/test_mllib_parity.py::test_graded_arrays_equal_scala_ranking_metrics",
    }
