"""What Spark's versions and clients call differently."""

import pytest
from pyspark.errors import AnalysisException, PySparkException

from spark_rankeval.spark.platforms import condition_of


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
