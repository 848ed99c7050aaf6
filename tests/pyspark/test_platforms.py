"""What Spark's versions and clients call differently."""

from types import SimpleNamespace

import pytest
from pyspark.errors import AnalysisException, PySparkException

from spark_rankeval.spark.platforms import condition_of, setting


@pytest.mark.parametrize(
    ("message", "condition"),
    [
        ("[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03", "PATH_NOT_FOUND"),
        (
            "(org.apache.spark.sql.AnalysisException) [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column",
            "UNRESOLVED_COLUMN.WITH_SUGGESTION",
        ),
        ("Path does not exist: [a]", None),
        ("", None),
    ],
)
@pytest.mark.parametrize("kind", [PySparkException, AnalysisException])
def test_the_condition_of_an_error_that_has_nothing_but_a_message(kind, message, condition):
    """As errors of the server have in a Connect client of 3.5."""
    assert condition_of(kind(message)) == condition


def refused(name, default):
    raise PySparkException(f"{name} is not available on serverless compute")


@pytest.mark.parametrize(
    ("get", "told"),
    [
        (lambda name, default: "4", "4"),
        (lambda name, default: default, "200"),
        (lambda name, default: None, "200"),
        (refused, "200"),
    ],
)
def test_a_setting_that_a_platform_does_not_tell_has_its_default(get, told):
    session = SimpleNamespace(conf=SimpleNamespace(get=get))
    assert setting(session, "spark.sql.shuffle.partitions", "200") == told
