"""Metrics of users: what a class outside the package has to say, and what is refused."""

import math
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import pytest
from worlds.ranked_users import batch_of, in_order, ungraded

from spark_rankeval.errors import MetricError
from spark_rankeval.metrics import parse_metric
from spark_rankeval.metrics.base import REGISTRY, Metric, parameter
from spark_rankeval.metrics.kinds import RelevanceMetric

BATCH = batch_of([(in_order([1, 2, 3]), ungraded([2, 3])), (in_order([4]), ungraded([5])), (in_order([6]), [])])


@pytest.fixture(autouse=True)
def registry_as_before():
    with patch.dict(REGISTRY):
        yield


def halving(**attributes):
    @dataclass(frozen=True, kw_only=True)
    class Halving(RelevanceMetric):
        name = "halving"
        base: float = parameter(0.5, doc="the worth of rank 1")

        def _values(self, batch):
            hit = batch.grade > 0
            return np.bincount(batch.user[hit], self.base ** batch.rank[hit], batch.n_users)

    for name, value in attributes.items():
        setattr(Halving, name, value)
    return Halving


def test_its_parameters_read_back():
    metric = halving()(base=0.25, k=3)
    assert str(metric) == "halving(base=0.25)@3"
    assert parse_metric(str(metric)) == metric
    np.testing.assert_array_equal(metric.compute(BATCH), [0.25**2 + 0.25**3, 0, math.nan])


def test_its_values_have_no_bounds_unless_it_says_so():
    assert halving()().bounds == (-math.inf, math.inf)
    assert halving(value_range=(0.0, 1.0))().bounds == (0.0, 1.0)


def test_fields_that_are_no_parameters_are_refused():
    @dataclass(frozen=True, kw_only=True)
    class Undeclared(halving()):
        name = "undeclared"
        base_of_others: float = 0.5

    with pytest.raises(
        MetricError, match=r"Undeclared: declare the parameter 'base_of_others' with parameter\(default, doc="
    ):
        Undeclared()


def test_a_class_with_parameters_needs_its_decorator():
    class Undecorated(halving()):
        name = "undecorated"
        other: float = parameter(0.5, doc="another number")

    with pytest.raises(
        MetricError, match=r"Undecorated has the parameter 'other'; decorate the class with @dataclass\("
    ):
        Undecorated()


def test_a_class_without_parameters_needs_none():
    class Length(Metric):
        name = "length"

        def _values(self, batch):
            return batch.n_predictions

        def _is_defined(self, batch):
            return batch.n_predictions > 1

    values = Length().compute(BATCH)
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, [3, math.nan, math.nan])


@pytest.mark.parametrize("values", [0.5, [1.0, 2.0], [[1.0], [2.0], [3.0]]])
def test_values_that_are_no_number_a_user_are_refused(values):
    metric = halving(_values=lambda self, batch: np.array(values))
    with pytest.raises(
        MetricError, match=r"halving: _values must return a number for each of 3 users; got the shape \("
    ):
        metric().compute(BATCH)
