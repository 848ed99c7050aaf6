"""Which class has which name."""

from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import pytest

from spark_rankeval.errors import MetricError
from spark_rankeval.metrics import NDCG, Precision, parse_metric
from spark_rankeval.metrics.base import REGISTRY
from spark_rankeval.metrics.kinds import RelevanceMetric

NOTEBOOK_CELL = """
from spark_rankeval.metrics.kinds import RelevanceMetric

class Halving(RelevanceMetric):
    name = "halving"
    aliases = ("half",)
    version = {version}

    def _values(self, batch):
        raise NotImplementedError
"""


@pytest.fixture(autouse=True)
def registry_as_before():
    with patch.dict(REGISTRY):
        yield


class Own(RelevanceMetric):
    """A metric without a name."""

    def _values(self, batch):
        return np.zeros(batch.n_users)


def run_cell(version, module="__main__"):
    names = {"__name__": module}
    exec(NOTEBOOK_CELL.format(version=version), names)
    return names["Halving"]


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


def test_a_class_of_the_same_qualified_name_in_another_module_is_another():
    with pytest.raises(MetricError, match=r"of __main__\.NDCG is taken by spark_rankeval"):
        type("NDCG", (Own,), {"name": "ndcg", "__module__": "__main__"})
    run_cell(1)
    with pytest.raises(MetricError, match=r"of elsewhere\.Halving is taken by __main__\.Halving"):
        run_cell(2, module="elsewhere")


def test_of_a_cell_that_runs_twice_the_newer_class_counts():
    old, new = run_cell(1), run_cell(2)
    assert old is not new
    assert type(parse_metric("halving@3")) is type(parse_metric("Half@3")) is new


def test_a_class_with_slots_is_defined_twice_at_once():
    @dataclass(frozen=True, kw_only=True, slots=True)
    class Slotted(Own):
        name = "slotted"

    assert REGISTRY["slotted"] is Slotted


def test_a_subclass_needs_a_name_of_its_own_and_has_no_inherited_alias():
    class Mine(Precision):
        pass

    with pytest.raises(MetricError, match=r"Mine has no name of its own; give the class one"):
        Mine(k=3)

    class Named(Precision):
        name = "named"

    assert Named.aliases == ()
    assert str(Named(k=3)) == "named@3"
    assert type(parse_metric("p@3")) is Precision


@pytest.mark.parametrize("name", ["my metric", "a@3", "ndcg(", "1st", "gewinn-größe", "größe", 3])
def test_a_name_that_does_not_read_back_is_refused(name):
    with pytest.raises(MetricError, match="cannot be the name of a metric; use letters"):
        type("Own", (Own,), {"name": name})
    with pytest.raises(MetricError, match="cannot be the name of a metric"):
        type("Own", (Own,), {"name": "fine", "aliases": (name,)})
