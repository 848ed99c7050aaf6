"""Figures of other evaluators for queries with graded labels, in `golden/graded.json`."""

import json
from pathlib import Path

import pytest
from worlds.ranked_users import batch_of

from spark_rankeval.metrics import parse_metric

GRADED = json.loads((Path(__file__).parents[1] / "golden" / "graded.json").read_text())


def user_of(case):
    """A query as a user; the documents become numbers in the same order."""
    run = case["run"] or []
    number = {item: place for place, item in enumerate(sorted({*case["qrels"], *(item for item, _ in run)}))}
    labels = [(number[item], float(grade)) for item, grade in case["qrels"].items()]
    return [(number[item], score) for item, score in run], labels


def figures_of(*names):
    """Every figure of these metrics, as a parameter of a test."""
    return [
        pytest.param(figures, query, id=f"{figures['system']} {figures['metric']} {query}")
        for figures in GRADED["figures"]
        if parse_metric(figures["metric"]).name in names
        for query in figures["values"]
    ]


def check(figures, query):
    """Whether a metric has the figure of the evaluator."""
    batch = batch_of([user_of(GRADED["cases"][query])], ties=figures["ties"])
    value = parse_metric(figures["metric"]).compute(batch)[0]
    assert value == pytest.approx(figures["values"][query], rel=0, abs=figures["abs_tol"])


def value_of(metric, predictions, labels):
    """A metric of one user."""
    return parse_metric(metric).compute(batch_of([(predictions, labels)]))[0]
