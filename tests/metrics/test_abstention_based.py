"""Metrics of lists that are rightly empty: each against the definition, and what users without an answer are to other metrics."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.rankings import User, value
from worlds.ranked_users import batch_of, lists_of, ranked

from spark_rankeval.dialects import DEFAULT
from spark_rankeval.errors import InputError, MetricError
from spark_rankeval.metrics import RankingBatch, parse_metric
from spark_rankeval.request.task import Lists, resolve

ITEMS = st.integers(0, 6)
PREDICTIONS = st.lists(st.tuples(ITEMS, st.sampled_from([0.0, 0.5, 1.0])), max_size=4, unique_by=lambda pair: pair[0])
LABELS = st.lists(st.tuples(ITEMS, st.sampled_from([0.0, 1.0, 2.0])), max_size=3, unique_by=lambda pair: pair[0])
USERS = st.lists(st.tuples(PREDICTIONS, LABELS, st.booleans()), max_size=8)
#: Metrics whose values for users without an answer can be 1 and 0.
REWARDING = ("ndcg@3", "recall@2", "rr", "precision@1", "f1@3", "ap")


def batch_with_declared(users):
    """The batch of users who may be declared to have no answer."""
    no_answer = np.array([declared for *_, declared in users], np.bool_)
    return dataclasses.replace(batch_of([user[:2] for user in users]), no_answer=no_answer)


def is_right(metric, predictions):
    """The naive value of a user without an answer."""
    n = len(predictions)
    return {"abstention": float(n == 0), "false_alarm": float(n > 0)}.get(metric, math.nan)


@settings(max_examples=40)
@given(USERS)
def test_each_equals_its_definition(users):
    batch = batch_with_declared(users)
    for name in ("abstention", "false_alarm"):
        expected = [is_right(name, predictions) if declared else math.nan for predictions, _, declared in users]
        np.testing.assert_array_equal(parse_metric(name).compute(batch), expected)
    for name in REWARDING:
        metric = parse_metric(name).resolve()
        parameters = {key: one for key, one in metric.chosen().items() if key != "ties"}
        plain = [value(metric.name, User(*user[:2]), metric.k, **parameters) for user in users]
        rewarded = [
            float(not predictions) if declared else one
            for (predictions, _, declared), one in zip(users, plain, strict=True)
        ]
        undefined = [math.nan if user[2] else one for user, one in zip(users, plain, strict=True)]
        found = parse_metric(str(metric).replace("(", "(no_answer='empty_is_right',", 1)).compute(batch)
        np.testing.assert_allclose(found, rewarded, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(metric.compute(batch), undefined, rtol=1e-12, atol=1e-12)


def test_a_batch_without_a_declaration_has_no_value():
    batch = batch_of([([(1, 1.0)], [(1, 1.0)]), ([], [])])
    for name in ("abstention", "false_alarm"):
        assert np.isnan(parse_metric(name).compute(batch)).all()
    plain, asking = (parse_metric(name).compute(batch) for name in ("rr", "rr(no_answer='empty_is_right')"))
    np.testing.assert_array_equal(plain, asking)


def test_batches_keep_who_has_no_answer():
    users = [([(1, 1.0)], [], True), ([], [(1, 1.0)], False)]
    one, other = (batch_with_declared([user]) for user in users)
    assert RankingBatch.concatenate([one, other]).no_answer.tolist() == [True, False]
    assert RankingBatch.concatenate([one, batch_of([users[1][:2]])]).no_answer is None


def lists(**known):
    return Lists(scored_arrays=True, label_arrays=True, **known)


@pytest.mark.parametrize("metric", ["abstention", "rr(no_answer='empty_is_right')"])
def test_a_call_must_declare_who_has_no_answer(metric):
    metrics = {metric: parse_metric(metric)}
    with pytest.raises(InputError, match="pass no_answer="):
        resolve(metrics, DEFAULT, {}, lists())
    assert resolve(metrics, DEFAULT, {}, lists(has_no_answer=True))


@pytest.mark.parametrize("metric", ["dcg@3", "percentile_rank", "gini@3", "rbp_residual", "false_abstention"])
def test_1_for_an_empty_list_fits_shares_of_users_of_which_more_is_better(metric):
    rewarding = dataclasses.replace(parse_metric(metric), no_answer="empty_is_right")
    with pytest.raises(MetricError, match="fits metrics of users between 0 and 1"):
        resolve({metric: rewarding}, DEFAULT, {}, lists(has_no_answer=True), has_fact_tables=True, users_alone=False)


def test_confidence_needs_scores():
    metrics = {"confidence": parse_metric("confidence")}
    with pytest.raises(InputError, match="needs scores, and predictions have only an order"):
        resolve(metrics, DEFAULT, {}, lists(has_scores=False))


@pytest.mark.parametrize("scores", [[math.inf, 1.0], [1.0, -math.inf], [math.inf, math.inf]])
def test_an_infinite_score_makes_a_confidence_that_it_reaches_undefined(scores):
    batch = ranked(lists_of([(list(enumerate(scores)), [])], entry=np.arange(2)))[0]
    for kind in ("std", "diff1"):
        assert math.isnan(parse_metric(f"confidence(kind={kind!r})").compute(batch)[0])
    highest = parse_metric("confidence").compute(batch)[0]
    assert highest == 1.0 if scores[0] == 1.0 else math.isnan(highest)
