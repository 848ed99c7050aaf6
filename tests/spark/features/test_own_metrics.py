"""Metrics whose classes workers do not have: those of a notebook travel to them."""

from unittest.mock import patch

import numpy as np
import pytest

from spark_rankeval import compare, evaluate, score_users, write_per_user
from spark_rankeval.errors import MetricError, SparkRankEvalWarning
from spark_rankeval.metrics import parse_metric
from spark_rankeval.metrics.base import REGISTRY

# A class of `__main__` goes to workers by value, as in a notebook.
CELL = """

import numpy as np
from spark_rankeval.metrics import RelevanceMetric, parameter


class Fading(RelevanceMetric):
    name = "fading"
    aliases = ("fades",)
    value_range = (0.0, 1.0)
    base: float = parameter(BASE, doc="the worth of rank 1")

    def _values(self, batch):
        hits = batch.hits(self.threshold)
        return batch.total(hits.user, self.base**hits.rank, hits.rank <= (self.k or np.inf))
"""

LISTS = {"ann": ["tea", "jam", "rye"], "bob": ["rye", "tea"], "eve": ["tea"]}
GRADES = {"ann": {"jam": 3.0, "ham": 1.0, "rye": 1.5}, "bob": {"rye": 2.0}, "dan": {"tea": 1.0}}


@pytest.fixture(autouse=True)
def registry_as_before():
    with patch.dict(REGISTRY):
        yield


@pytest.fixture(scope="module")
def tables(spark):
    predictions = [(user, item, -float(place)) for user, items in LISTS.items() for place, item in enumerate(items)]
    labels = [(user, item, grade) for user, grades in GRADES.items() for item, grade in grades.items()]
    return (
        spark.createDataFrame(predictions, "user string, item string, score double"),
        # Thresholds are rounded as such grades are, on the worker.
        spark.createDataFrame(labels, "user string, item string, grade float"),
    )


def define(base=0.5):
    names = {"__name__": "__main__", "BASE": base}
    exec(CELL, names)
    return names["Fading"]


def naive(base, k, threshold=0.0):
    """The mean over the users with a relevant label."""
    worths = []
    for user, grades in GRADES.items():
        if max(grades.values()) >= threshold:
            ranks = 1 + np.flatnonzero([grades.get(item, -1.0) >= threshold for item in LISTS.get(user, [])])
            worths.append(sum(base**rank for rank in ranks if rank <= k))
    return np.mean(worths)


OPTIONS = {"score": "score", "relevance": "grade"}


def test_by_name_and_as_an_object_and_in_a_comparison(tables):
    fading = define()
    asked = ["Fades@2", fading(k=3, base=0.25), "fading(relevance_threshold=1.5)@3", "ndcg@2"]
    predictions, labels = tables
    models = {"first": predictions, "reversed": predictions.withColumn("score", -predictions["score"])}
    both = evaluate(models, labels, asked, **OPTIONS)
    values = {"fading@2": naive(0.5, 2), "fading(base=0.25)@3": naive(0.25, 3)}
    values["fading(relevance_threshold=1.5)@3"] = naive(0.5, 3, 1.5)
    for metric, value in values.items():
        assert both["first", metric] == value
    assert both["first", "fades@2"] == values["fading@2"]
    rows = [row for row in both.summary if row.model == "first"]
    assert [type(parse_metric(row.definition)) is fading for row in rows] == [True] * 3 + [False]
    assert all(0 <= row.interval_low <= row.interval_high <= 1 for row in rows[:3])
    difference = compare(both, baseline="first")["fading@2", "reversed"].difference
    assert difference == pytest.approx((0.5 - 0.25) / 3)


def test_of_two_definitions_the_newer_one_counts(tables):
    old, new = define(0.5), define(0.25)
    assert evaluate(*tables, ["fading@3"], **OPTIONS)["fading@3"] == naive(0.25, 3)
    assert evaluate(*tables, [new(k=3)], **OPTIONS)["fading@3"] == naive(0.25, 3)
    # An object is of the class that it was made of, also where a worker has met the other.
    assert evaluate(*tables, [old(k=3)], **OPTIONS)["fading@3"] == naive(0.5, 3)


def test_values_beyond_the_declared_range_are_reported(tables):
    define(7.0)
    words = "fades@3 has values from 0 to 392, outside of the range 0 to 1 that its class"
    with pytest.warns(SparkRankEvalWarning, match=words):
        result = evaluate(*tables, ["fades@3"], **OPTIONS)
    assert result["fading@3"] == naive(7.0, 3)
    # Everybody has the same lists.
    alike = [table.where("user = 'bob'") for table in tables]
    alike = [table.union(table.replace("bob", "cat")) for table in alike]
    with pytest.warns(SparkRankEvalWarning, match="fading@1 has values from 7 to 7"):
        (row,) = evaluate(*alike, ["fading@1"], **OPTIONS).summary
    assert row.no_interval == "all users have the same value, and it is outside of the metric's bounds"


FAILING = """
from spark_rankeval.metrics import RelevanceMetric

class Failing(RelevanceMetric):
    name = "failing"

    def _values(self, batch):
        return batch.nonsense
"""


def test_an_error_of_a_metric_says_where_it_is_without_the_stack_of_spark(tables, tmp_path):
    exec(compile(FAILING, "cell 7", "exec"), {"__name__": "__main__"})
    raised = "AttributeError: 'RankingBatch' object has no attribute 'nonsense'"
    reason = f"the metric 'failing@2' raised {raised} (line 8 of cell 7, in _values)"
    per_user = score_users(*tables, "failing@2", **OPTIONS)
    for call in (
        lambda: evaluate(*tables, ["rr", "failing@2"], **OPTIONS),
        lambda: write_per_user(per_user, str(tmp_path / "per_user")),
    ):
        with pytest.raises(MetricError) as caught:
            call()
        assert str(caught.value).startswith(f"{reason}; call compute(batch)")
        assert "\n" not in str(caught.value)
        assert caught.value.__suppress_context__
    with pytest.raises(Exception, match="failing@2") as caught:
        per_user.collect()
    # What engines add to the error of a lazy table: a head and at most two calls.
    traceback = str(caught.value).strip().splitlines()
    assert next(place for place, line in enumerate(traceback) if reason in line) < 10
    assert "user_metrics.py" not in str(caught.value)
