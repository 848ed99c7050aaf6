"""Tests that are left out on a platform stand for something that is truly not there."""

import re
import traceback
from collections import Counter

import pytest
from helpers.left_out import NEEDS, is_there
from pyspark.errors import PySparkException

# Tuning ALS takes as long as twenty evaluations.
PROBES = [pytest.param(need, marks=pytest.mark.night) if need == "tuned_als" else need for need in NEEDS]

# How many tests of tests/spark each need leaves out on Sail. A new one is written down here.
MOST_ON_SAIL = Counter(
    {
        "plans": 22,
        "tuned_als": 12,
        "ml": 10,
        "order": 8,
        "bytes": 6,
        "collations": 3,
        "random joins": 2,
        "rdd": 2,
        "progress": 2,
    }
    | {"jvm": 1, "settings": 1}
)


@pytest.mark.parametrize("need", PROBES)
def test_what_a_platform_lacks_is_missing(spark, platform, need):
    """A newer version of the platform may have it, which this test notices."""
    _, probe = NEEDS[need]
    if is_there(need, platform):
        assert probe(spark) == 1
        return
    refusal = _refusal(probe, spark, need)
    if platform == "connect" and need not in ("ml", "tuned_als"):
        assert re.search("JVM_ATTRIBUTE_NOT_SUPPORTED|NOT_IMPLEMENTED", refusal)


def _refusal(probe, spark, need):
    """What PySpark or the engine says against it; a probe that gives another value than 1 says nothing."""
    try:
        assert probe(spark) != 1
    except (PySparkException, AttributeError, AssertionError) as error:
        *_, last = traceback.extract_tb(error.__traceback__)
        # Without a JVM the object itself is not there.
        if "pyspark" not in last.filename and not (
            isinstance(error, AttributeError) and need in ("rdd", "jvm", "progress")
        ):
            raise
        return str(error)
    return ""


def test_few_tests_are_left_out(pytestconfig, platform):
    """A new one is a decision: most of what classic Spark alone has can be asked for in another way."""
    others = [line for line in pytestconfig.left_out if not line.endswith(": at night")]
    left_out = [line.partition(": ")[0] for line in others if ": about Sail" not in line]
    if platform == "sail":
        reasons = [line.partition(": ")[2] for line in others if line.startswith("tests/spark/")]
        assert Counter(need for reason in reasons for need in NEEDS if f"{need} (" in reason) <= MOST_ON_SAIL
        return
    # Of a page it is the page that is left out, of others the test.
    assert {name if "test_pages" in name else name.partition("[")[0] for name in left_out} <= {
        "tests/spark/test_local_session.py::test_a_process_has_one_engine",
        "tests/spark/features/test_local_tables.py::test_a_table_is_in_a_file_of_the_engine_as_long_as_a_frame_or_a_view_needs_it",
        "tests/jobs/test_evaluate_job.py::test_a_job_gives_a_connect_server_the_package",
        "tests/spark/features/test_progress.py::test_a_long_operation_has_a_bar_and_leaves_none",
        "tests/spark/features/test_progress.py::test_the_handler_goes_after_an_error_and_after_the_caller_has_cleared_all",
        "tests/spark/features/test_progress.py::test_a_handler_of_the_callers_stays",
        "tests/pages/test_pages.py::test_examples_of_a_page_print_what_it_says[pyspark_ml.md]",
        "tests/pages/test_pages.py::test_examples_of_a_page_print_what_it_says[without_java.md]",
        "tests/pages/test_pages.py::test_examples_of_a_page_print_what_it_says[retrieval.md]",
        "tests/pages/test_pages.py::test_examples_of_a_page_print_what_it_says[exact_neighbours.md]",
        "tests/pyspark/test_pyspark_ml.py::test_the_better_model_is_chosen_and_kept",
        "tests/pyspark/test_pyspark_ml.py::test_a_metric_whose_smaller_values_are_better_chooses_the_smallest",
        "tests/pyspark/test_pyspark_ml.py::test_a_mean_over_nobody_is_an_error_and_chooses_no_model",
        "tests/pyspark/test_pyspark_ml.py::test_saved_and_loaded",
        "tests/pyspark/test_pyspark_ml.py::test_als_is_chosen_by_ranks_of_the_whole_catalogue",
        "tests/pyspark/test_pyspark_ml.py::test_what_a_fold_trained_on_is_not_ranked",
        "tests/pyspark/test_pyspark_ml.py::test_random_folds_are_the_same_by_any_number_of_threads",
        "tests/pyspark/test_pyspark_ml.py::test_a_validator_is_saved_and_loaded",
        "tests/pyspark/test_pyspark_ml.py::test_an_evaluator_of_another_kind_is_refused_at_once",
        "tests/pyspark/test_pyspark_ml.py::test_what_goes_wrong_in_a_fold_is_an_error",
        "tests/pages/test_docstrings.py::test_docstring_examples",
        "tests/spark/test_evaluate.py::test_output_of_als_goes_in_as_it_is",
        "tests/pyspark/test_mllib_parity.py::test_arrays_equal_ranking_evaluator",
        "tests/pyspark/test_mllib_parity.py::test_arrays_equal_ranking_metrics",
        "tests/pyspark/test_mllib_parity.py::test_rows_equal_ranking_metrics_of_the_same_ranking",
        "tests/pyspark/test_mllib_parity.py::test_graded_arrays_equal_scala_ranking_metrics",
    }
