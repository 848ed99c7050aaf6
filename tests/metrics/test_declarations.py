"""What the class of every metric declares: names, docstring, parameters; and that a metric is a value that reads back."""

import dataclasses
import math
import pickle
import re

import numpy as np
import pytest
from worlds.variants import BEYOND, EVERY_METRIC, GROUPS, INTENTS, STAGES, VALUES, single_choices

from spark_rankeval.dialects import DEFAULT
from spark_rankeval.dialects.published import DIALECTS
from spark_rankeval.errors import DialectError, MetricError
from spark_rankeval.metrics import parse_metric
from spark_rankeval.metrics.abstention_based import Confidence
from spark_rankeval.metrics.base import REGISTRY, UNSET
from spark_rankeval.metrics.group_rates import ExposureShare, HitShare
from spark_rankeval.ranking.recommended import FACT_TABLES

ALL_VALUES = pytest.mark.parametrize("metric", EVERY_METRIC, ids=lambda metric: metric.name)
# How a docstring puts the bounds.
BETWEEN = r"Between 0 (\([^)]*\) )?and 1"
BOUNDS = {
    (0, 1): BETWEEN, (-1, 1): BETWEEN.replace("0", "−1"), (0, math.inf): "From 0 up",
    (0, 2): BETWEEN, (0, math.log2(100)): "From 0 up", (0, 100): "From 0 to 100", (-math.inf, math.inf): "Any number",
}  # fmt: skip


@ALL_VALUES
def test_its_names_are_registered(metric):
    assert metric.name == metric.name.lower() != ""
    for name in (metric.name, *metric.aliases):
        assert REGISTRY[name.lower()] is metric


@ALL_VALUES
def test_its_docstring_says_formula_bounds_and_source_and_who_is_undefined(metric):
    text = " ".join(metric.__doc__.split())
    assert "Source:" in text
    assert len(text.split(". ")[0]) > 20
    assert text != metric.__mro__[1].__doc__
    assert any(sign in text for sign in ("÷", "/", "Σ", "max_")), "no formula"
    assert re.search(BOUNDS[metric().resolve().bounds], text), "no bounds"
    if metric in GROUPS:
        assert re.search(r"NaN[^.]* (without|if) ", text)
    elif metric in INTENTS:
        assert re.search(r"NaN without a label[^.]*; 0 without predictions", text)
    else:
        assert re.search(r"NaN[^.]* without", text)
    # Without predictions a stage loses all that none before has lost.
    if metric not in (*GROUPS, *INTENTS, *STAGES):
        assert re.search(
            r"\b0 without predictions" if metric.zero_without_predictions else r"NaN[^.]* without predictions", text
        )


@ALL_VALUES
def test_every_parameter_says_what_it_chooses_and_has_a_default_that_is_allowed(metric):
    for item in metric.parameters():
        default, choices = item.metadata["default"], item.metadata["choices"]
        assert item.metadata["doc"]
        # A parameter without a default is left out of the metric's text.
        assert not choices or default is UNSET or default == choices[0]
        assert getattr(metric(**{item.name: default}), item.name) == default


@ALL_VALUES
def test_it_is_a_value_that_reads_back_from_its_text(metric):
    every = single_choices(metric)
    assert len({str(variant) for variant in every}) == len(set(every)) == len(every)
    for variant in every:
        assert parse_metric(str(variant)) == variant
        assert pickle.loads(pickle.dumps(variant)) == variant
    assert str(metric()) == metric.name
    assert pickle.loads(pickle.dumps(metric())).undefined is UNSET
    with pytest.raises(dataclasses.FrozenInstanceError):
        metric().undefined = "zero"


@pytest.mark.parametrize("value", [np.float64(0.5), np.float32(0.5)], ids=["float64", "float32"])
@ALL_VALUES
def test_numbers_of_numpy_read_back(metric, value):
    for item in metric.parameters():
        if item.name in VALUES and not item.metadata["choices"]:
            if item.name in ("group", "before"):
                continue
            made = metric(**{item.name: value})
            assert parse_metric(str(made)) == made
    if metric.takes_cutoff:
        assert metric(k=np.int64(5)) == metric(k=5)
        assert str(metric(k=np.int64(5))) == f"{metric.name}@5"
    else:
        with pytest.raises(MetricError, match="takes no cutoff"):
            metric(k=np.int64(5))


@ALL_VALUES
def test_resolving_fills_what_is_open_and_nothing_else(metric):
    resolved = metric().resolve()
    for item in metric.parameters():
        assert getattr(resolved, item.name) == item.metadata["default"]
    assert resolved.k is None
    if metric.takes_cutoff:
        assert metric(k=7).resolve().k == 7
    for variant in single_choices(metric, resolved=True):
        assert variant.resolve() == variant.resolve(DEFAULT) == variant


@ALL_VALUES
def test_what_the_caller_chose_wins_over_every_dialect(metric):
    for dialect in DIALECTS:
        try:
            dialect.defaults_for(metric)
        except DialectError:
            continue
        for variant in single_choices(metric, resolved=True):
            assert variant.resolve(dialect) == variant


@ALL_VALUES
def test_the_first_dialect_that_has_a_parameter_fills_it(metric):
    class Supplier:
        def defaults_for(self, _):
            return {"undefined": "zero", "no_such_parameter": 1}

    class Weaker:
        def defaults_for(self, _):
            return {"undefined": "nan"}

    assert metric().resolve(Supplier(), Weaker()).undefined == "zero"
    assert metric().resolve(Weaker(), Supplier()).undefined == "nan"
    assert metric(undefined="nan").resolve(Supplier()).undefined == "nan"


@pytest.mark.parametrize("metric", BEYOND, ids=lambda metric: metric.name)
def test_a_metric_of_items_says_what_it_reads(metric):
    assert metric.needs == ("relevant" if metric.name == "serendipity" else "predictions")
    assert metric().reads_labels == (metric.name == "serendipity")
    # Groups of items tell shares which items are in them; see tests/features/test_item_groups.py.
    needs_facts = not (metric.corpus_level or metric in (ExposureShare, HitShare, Confidence))
    for variant in single_choices(metric, resolved=True):
        reads = variant.reads
        assert reads.items == "item"
        assert reads.unlabelled
        assert reads.facts <= set(FACT_TABLES)
        assert reads.facts or not needs_facts


@pytest.mark.parametrize("metric", INTENTS, ids=lambda metric: metric.name)
def test_a_metric_of_intents_says_what_it_reads(metric):
    for variant in single_choices(metric):
        assert variant.reads.facts == {"intents"}
        assert not variant.reads.looks_at_items
