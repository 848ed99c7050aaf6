"""Metrics of users: what a class outside the package has to say, which names it may have, and what is refused."""

import math
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import pytest
from worlds.ranked_users import batch_of, in_order, ungraded

from spark_rankeval.errors import MetricError
from spark_rankeval.metrics import NDCG, Precision, parse_metric
from spark_rankeval.metrics.base import REGISTRY, Metric, RelevanceMetric, parameter

BATCH = batch_of([(in_order([1, 2, 3]), ungraded([2, 3])), (in_order([4]), ungraded([5])), (in_order([6]), [])])


@pytest.fixture(autouse=True)
def registry_as_before():
    with patch.dict(REGISTRY):
        yield


class Own(RelevanceMetric):
    """A metric without a name."""

    def _values(self, batch):
        return np.zeros(batch.n_users)


def halving(module=__name__, **attributes):
    """A class as a cell of a notebook defines it, each time anew."""

    class Halving(RelevanceMetric):
        name = "halving"
        aliases = ("half",)
        __module__, __qualname__ = module, "Halving"
        base: float = parameter(0.5, doc="the worth of rank 1")

        def _values(self, batch):
            hit = batch.grade > 0
            return np.bincount(batch.user[hit], self.base ** batch.rank[hit], batch.n_users)

    for name, value in attributes.items():
        setattr(Halving, name, value)
    return Halving


def test_its_parameters_read_back_and_its_values_have_no_bounds_unless_it_says_so():
    metric = halving()(base=0.25, k=3)
    assert str(metric) == "halving(base=0.25)@3"
    assert parse_metric(str(metric)) == metric
    np.testing.assert_array_equal(metric.compute(BATCH), [0.25**2 + 0.25**3, 0, math.nan])
    assert metric.bounds == (-math.inf, math.inf)
    assert halving(value_range=(0.0, 1.0))().bounds == (0.0, 1.0)


def test_parameters_must_be_declared():
    with pytest.raises(
        MetricError, match=r"Undeclared: declare the parameter 'base_of_others' with parameter\(default, doc="
    ):

        class Undeclared(halving()):
            name = "undeclared"
            base_of_others: float = 0.5

    assert "undeclared" not in REGISTRY


def test_what_a_class_says_has_no_type():
    with pytest.raises(MetricError, match="Typed: 'name' is no parameter, but what the class says; write it without a"):

        class Typed(halving()):
            name: str = "typed"


def test_a_class_is_a_dataclass_already():
    with pytest.raises(TypeError, match="Cannot overwrite attribute __setattr__ in class"):
        dataclass(frozen=True, kw_only=True)(halving())


def test_a_class_directly_below_metric_says_itself_who_has_a_value():
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


@pytest.mark.parametrize("taken", ["ndcg", "NDCG", "nDCG", "normalized_dcg"])
def test_no_other_class_takes_a_name_or_alias(taken):
    with pytest.raises(
        MetricError, match=rf"{taken!r} of .*Another is taken by spark_rankeval\.metrics\.\w+\.NDCG; give"
    ):
        type("Another", (Own,), {"name": taken})
    with pytest.raises(MetricError, match="or leave the alias out"):
        type("Another", (Own,), {"name": "another", "aliases": ("another_alias", taken)})
    assert type(parse_metric("ndcg")) is NDCG
    assert not {"another", "another_alias"} & set(REGISTRY)


def test_of_a_cell_that_runs_twice_the_newer_class_counts_and_a_class_of_another_module_is_another():
    old, new = halving("__main__"), halving("__main__")
    assert old is not new
    assert type(parse_metric("halving@3")) is type(parse_metric("Half@3")) is new
    with pytest.raises(MetricError, match=r"of elsewhere\.Halving is taken by __main__\.Halving"):
        halving("elsewhere")
    with pytest.raises(MetricError, match=r"of __main__\.NDCG is taken by spark_rankeval"):
        type("NDCG", (Own,), {"name": "ndcg", "__module__": "__main__"})


def test_a_subclass_needs_a_name_of_its_own_and_has_no_inherited_alias():
    class Mine(Precision):
        pass

    with pytest.raises(MetricError, match=r"Mine has no name of its own; give the class one"):
        Mine(k=3)

    class Named(Precision):
        name = "ranked_5"

    assert Named.aliases == ()
    assert str(Named(k=3)) == "ranked_5@3"
    assert type(parse_metric("p@3")) is Precision
    # A name that is registered wins over its parts.
    assert type(parse_metric("ranked_5")) is Named
    assert parse_metric("ranked_5@2").k == 2


@pytest.mark.parametrize("name", ["my metric", "a@3", "ndcg(", "1st", "gewinn-größe", "größe", 3])
def test_a_name_that_does_not_read_back_is_refused(name):
    with pytest.raises(MetricError, match="cannot be the name of a metric; use letters"):
        type("Own", (Own,), {"name": name})
    with pytest.raises(MetricError, match="cannot be the name of a metric"):
        type("Own", (Own,), {"name": "fine", "aliases": (name,)})
