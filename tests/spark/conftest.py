"""One world that a session evaluates once, for all files that look at rows of an evaluation."""

import pytest
from worlds import two_models


@pytest.fixture(scope="session")
def two_models_tables(spark):
    return two_models.tables_of(spark)


@pytest.fixture(scope="session")
def two_models_result(two_models_tables):
    return two_models.evaluated(two_models_tables)
