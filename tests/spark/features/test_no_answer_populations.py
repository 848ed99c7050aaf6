"""Users who are declared to have no answer count in every population: they have no labels, and at best no predictions."""

import pytest

from spark_rankeval import evaluate


@pytest.fixture(scope="module")
def tables(spark):
    """User 1 is answered, user 2 is not; of users 3 to 5, who have no answer, user 3 gets a list. User 6 has no label."""
    predictions = spark.createDataFrame(
        [(1, "a", 0.9), (1, "b", 0.8), (3, "a", 0.7), (6, "a", 0.7)], "user int, item string, score double"
    )
    labels = spark.createDataFrame([(1, "b"), (2, "a")], "user int, item string")
    return predictions, labels, spark.createDataFrame([(3,), (4,), (5,)], "user int")


@pytest.mark.parametrize(
    ("options", "rr", "n_left_out"),
    [
        # User 1 has 1/2, user 2 has 0, users 3 to 5 have 0, 1 and 1.
        ({"population": "every"}, (2.5 / 5, 5), 0),
        ({"population": "labelled"}, (2.5 / 5, 5), 1),
        ({"population": "predicted"}, (2.5 / 4, 4), 1),
        ({"population": "both"}, (2.5 / 4, 4), 2),
        ({"dialect": "trec_eval"}, (2.5 / 5, 5), 1),
    ],
)
def test_they_count_in_every_population(tables, options, rr, n_left_out):
    predictions, labels, declared = tables
    result = evaluate(
        predictions, labels, "rr(no_answer='empty_is_right')", score="score", no_answer=declared, ci=None, **options
    )
    (row,) = result.summary
    assert (row.mean, row.n_users) == (pytest.approx(rr[0]), rr[1])
    assert (result.data_quality.n_left_out, result.data_quality.n_no_answer) == (n_left_out, 3)
