"""A result without Spark: numbers by name."""

from functools import partial

import pytest
from summary_rows import QUALITY, row

from spark_rankeval.errors import UnknownMetricError
from spark_rankeval.result import Result


def result_of(rows, plan=("One pass.",)):
    qualities = {one.model: QUALITY for one in rows}
    columns = {one.key: one.key.replace("@", "_at_") for one in rows}
    nothing = partial(pytest.fail, "there is no table")
    return Result(tuple(rows), qualities, columns, plan, nothing, nothing)


SLICED = result_of([
    row(model=model, mean=mean, slice=slice_)
    for model, means in (("als", (0.3, 0.5)), ("pop", (0.2, 0.1)))
    for slice_, mean in zip(("all", "activity=light"), means, strict=True)
])  # fmt: skip


def test_a_number_of_a_slice_is_named_by_it():
    assert SLICED["als", "ndcg@10"] == 0.3
    assert SLICED["als", "ndcg@10", "activity=light"] == 0.5
    assert SLICED["pop", "ndcg_at_10", "activity=light"] == 0.1
    assert SLICED["als", "ndcg@10", "all"] == 0.3
    assert ("als", "ndcg@10", "activity=light") in SLICED
    alone = result_of([row(mean=0.4), row(mean=0.6, slice="activity=light")])
    assert (alone["ndcg@10"], alone["ndcg@10", "activity=light"]) == (0.4, 0.6)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            ("als", "ndcg@10", "activity=lite"),
            r"Did you mean 'activity=light'\? This result has the models: 'als', 'pop'; the slices",
        ),
        (("ndcg@10", "activity=lite"), r"Did you mean 'activity=light'\? "),
        (("asl", "ndcg@10"), r"Did you mean 'als'\? "),
        (
            ("als", "ndgc@10", "activity=light"),
            r"this result has no metric 'ndgc@10'; did you mean 'ndcg@10'\? it has: ndcg@10",
        ),
        (("ndcg@10", "activity=light"), r"is ambiguous: \('als', 'ndcg@10'\), \('pop', 'ndcg@10'\)"),
        ((), "this result has no metric ''"),
        (([], "ndcg@10"), "a number is named by a metric"),
        ("rmse", "this result has no metric 'rmse'; it has"),
    ],
)
def test_a_name_that_nothing_answers_to_is_an_error_with_what_was_meant(name, expected):
    with pytest.raises(UnknownMetricError, match=expected):
        _ = SLICED[name]
    assert name not in SLICED
