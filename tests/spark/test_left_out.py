"""Tests that are left out on a platform stand for something that is truly not there."""

import re
import traceback

import pytest
from helpers.left_out import NEEDS, is_there
from pyspark.errors import PySparkException

# Tuning ALS takes as long as twenty evaluations.
PROBES = [pytest.param(need, marks=pytest.mark.night) if need == "tuned_als" else need for need in NEEDS]


@pytest.mark.ci
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
