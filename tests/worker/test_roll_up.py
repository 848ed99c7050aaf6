"""Chunks rolled up to documents, against loops from the definition: any lists, dialects and orders of ties."""

import math
from dataclasses import replace

import numpy as np
import pytest
from helpers.scored import KNOWN, scores_in, values_in
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.rankings import User, value
from oracles.roll_up import documents_of, labels_of, places_of

from spark_rankeval.dialects import DEFAULT, every_dialect

K_COUNTS = ("documents", "chunks")
DOCUMENT_LISTS = replace(KNOWN, k_counts="documents")
METRICS = {
    "precision@2": ("precision", {"k": 2}), "recall@3": ("recall", {"k": 3}), "hit_rate@1": ("hit_rate", {"k": 1}),
    "rr": ("rr", {}), "ap(denominator='labels')": ("ap", {"denominator": "labels"}),
    "ap(denominator='hits')@3": ("ap", {"denominator": "hits", "k": 3}),
    "ndcg(ideal='labels', gain='linear')@3": ("ndcg", {"ideal": "labels", "gain": "linear", "k": 3}),
    "ndcg(ideal='retrieved')@4": ("ndcg", {"k": 4}), "judged@3": ("judged", {"k": 3}),
}  # fmt: skip
DOCUMENTS = st.sampled_from("abcdefg")
CHUNKS = st.lists(st.tuples(DOCUMENTS, st.sampled_from([-1.0, 0.0, 0.25, 0.5, 0.5, 0.75, math.inf])), max_size=14)
LABELS = st.lists(st.tuples(DOCUMENTS, st.sampled_from([0.0, 1.0, 1.0, 2.0, 3.0])), max_size=7)
USERS = st.lists(st.tuples(CHUNKS, LABELS), min_size=1, max_size=5)


def by_name(users):
    return {f"user {index}": user for index, user in enumerate(users)}


@settings(max_examples=25, deadline=None, derandomize=True)
@given(users=USERS, k_counts=st.sampled_from(K_COUNTS), ties=st.sampled_from(["item_asc", "item_desc"]))
def test_metrics_equal_the_loops(users, k_counts, ties):
    values = values_in(
        DEFAULT, {label: label for label in METRICS}, by_name(users), ties=ties, lists=replace(KNOWN, k_counts=k_counts)
    )
    for label, (metric, parameters) in METRICS.items():
        for name, (chunks, labels) in by_name(users).items():
            listed = documents_of(chunks) if k_counts == "documents" else places_of(chunks, ties)
            expected = value(metric, User(listed, labels_of(labels), ties), **parameters)
            assert values[label].get(name, math.nan) == pytest.approx(expected, abs=1e-12, nan_ok=True), label


@settings(max_examples=2, deadline=None, derandomize=True)
@given(users=USERS)
@pytest.mark.parametrize(
    "dialect", [each for each in every_dialect() if each.system != "ndeval"], ids=lambda dialect: dialect.name
)
def test_every_dialect_ranks_documents_as_if_they_had_no_chunks(dialect, users):
    """Whatever a dialect makes of repeated items, and of labels that differ."""
    names = {"precision": "precision@2", "recall": "recall@3", "ndcg": "ndcg(ideal='labels')@3"}
    metrics = [name for metric, name in names.items() if dialect.metrics is None or metric in dialect.metrics]
    once = [(documents_of(chunks), labels_of(labels)) for chunks, labels in users]
    rolled_up = values_in(dialect, metrics, by_name(users), lists=DOCUMENT_LISTS)
    assert rolled_up == values_in(dialect, metrics, by_name(once))


@settings(max_examples=5, deadline=None, derandomize=True)
@given(users=USERS)
def test_ties_are_averaged_over_documents(users):
    once = [(documents_of(chunks), labels_of(labels)) for chunks, labels in users]
    rolled_up = values_in(DEFAULT, ["rr", "recall@2"], by_name(users), ties="average", lists=DOCUMENT_LISTS)
    assert rolled_up == values_in(DEFAULT, ["rr", "recall@2"], by_name(once), ties="average")


@pytest.mark.parametrize(("k_counts", "n_predictions"), [("documents", 2), ("chunks", 4)])
def test_repeats_are_no_mistakes(k_counts, n_predictions):
    chunks, labels = [("a", 0.9), ("a", 0.9), ("b", 0.8), ("a", 0.1)], [("a", 1.0), ("a", 3.0), ("a", 3.0), ("c", 1.0)]
    _, scores = scores_in(DEFAULT, ["rr"], {"user": (chunks, labels)}, lists=replace(KNOWN, k_counts=k_counts))
    counts = {name.removeprefix("0."): int(np.sum(count)) for name, count in scores.counts.items()}
    assert counts["n_predictions"] == n_predictions
    assert counts["n_labels"] == 2
    assert not any(counts[f"n_{kind}"] for kind in ("duplicate_predictions", "duplicate_labels", "conflicting_labels"))
