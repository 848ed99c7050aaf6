"""Estimates from two judges of queries that come in clusters: against an oracle, and however clusters are divided and merged."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.effort import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracles.clusters import degrees_of_freedom, effective_n
from oracles.prediction_powered import clustered

from spark_rankeval.statistics.cluster_sums import sums_by_cluster
from spark_rankeval.statistics.judged_clusters import (
    JudgedClusterAccumulator,
    JudgedClusters,
    groups_of,
    judged_columns,
)
from spark_rankeval.statistics.judged_draws import draw_check, labels_needed
from spark_rankeval.statistics.judged_moments import JudgedMoments
from spark_rankeval.statistics.moments import merged
from spark_rankeval.statistics.prediction_powered import judged_estimate

NAN = math.nan


def sample(seed, n_clusters=50, largest=12, share=0.3, undefined=0.1):
    """Queries with hashes of their clusters; values agree within these, and a few are undefined."""
    rng = np.random.default_rng(seed)
    place = np.repeat(np.arange(n_clusters), rng.integers(1, largest + 1, n_clusters))
    y = 0.5 + 0.1 * rng.normal(size=n_clusters)[place] + 0.1 * rng.normal(size=len(place))
    f = 0.8 * y + 0.05 * rng.normal(size=len(place))
    for values in (y, f):
        values[rng.random(len(place)) < undefined] = NAN
    hashes = rng.integers(-(2**63), 2**63 - 1, n_clusters)[place]
    return SimpleNamespace(y=y, f=f, is_graded=rng.random(len(place)) < share, clusters=hashes)


def moments_of(queries, clusters=None):
    moments = JudgedMoments.from_values(queries.y, queries.f, queries.is_graded)
    made = JudgedClusters.from_values(
        queries.y, queries.f, queries.is_graded, queries.clusters if clusters is None else clusters
    )
    return replace(moments, clusters=made)


@settings(max_examples=examples(15, 200), deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([None, 0.0, 0.4, 1.0]), st.integers(3, 30), st.sampled_from([0.0, 0.2]))
def test_estimates_and_errors_are_those_of_the_oracle(seed, lam, largest, undefined):
    queries = sample(seed, 100, largest, undefined=undefined)
    result = judged_estimate(moments_of(queries), lambda_=lam)
    assume(lam is not None or not result.note)
    value, error, best = clustered(queries.y, queries.f, queries.is_graded, queries.clusters, lam)
    assert result.lambda_ == pytest.approx(best, rel=1e-6)
    assert (result.value, result.standard_error) == pytest.approx((value, error), rel=1e-6)
    human, human_error, _ = clustered(queries.y, queries.f, queries.is_graded, queries.clusters, 0.0)
    assert (result.human.value, result.human.standard_error) == pytest.approx((human, human_error), rel=1e-6)


def test_no_other_weight_has_a_smaller_error():
    moments = moments_of(sample(3, n_clusters=200))
    best = judged_estimate(moments)
    assert 0 < best.lambda_ < 1
    for weight in (best.lambda_ - 0.1, best.lambda_ + 0.1):
        assert judged_estimate(moments, lambda_=weight).standard_error > best.standard_error


def test_degrees_of_freedom_and_the_judge_alone_know_the_sizes_of_clusters():
    queries = sample(4, undefined=0.0)
    result = judged_estimate(moments_of(queries))
    _, sizes = np.unique(queries.clusters[queries.is_graded], return_counts=True)
    assert result.human.df == math.floor(degrees_of_freedom(sizes))
    names, of_query = np.unique(queries.clusters, return_inverse=True)
    every = np.bincount(of_query)
    rests = np.bincount(of_query, queries.f - queries.f.mean())
    g = effective_n(every)
    assert result.judge.standard_error == pytest.approx(math.sqrt(g / (g - 1) * np.sum(rests**2)) / len(of_query))
    assert result.judge.df == math.floor(degrees_of_freedom(every))
    assert result.judge.value == pytest.approx(queries.f.mean())
    assert moments_of(queries).clusters_of_people(0.1).n == len(sizes) < len(names)


def test_clusters_of_one_query_have_nearly_the_estimate_of_independent_queries():
    queries = sample(5, n_clusters=300, largest=1)
    alone, independent = moments_of(queries), moments_of(queries).independent
    one, other = judged_estimate(alone), judged_estimate(independent)
    assert one.value == pytest.approx(other.value, abs=0.05 * other.standard_error)
    assert one.standard_error == pytest.approx(other.standard_error, rel=0.02)
    assert one.human.interval[:2] == pytest.approx(other.human.interval[:2], rel=1e-3)
    assert draw_check(alone).p == pytest.approx(draw_check(independent).p, rel=0.02)


def test_clusters_are_counted_that_make_an_interval_of_a_width():
    queries = sample(10, n_clusters=150)
    moments = moments_of(queries)
    estimate, n = judged_estimate(moments), moments.clusters_of_people(0.1).n
    needed = labels_needed(moments, estimate.interval.high - estimate.interval.low + 1e-9)
    assert abs(needed.with_judge - n) <= 2
    assert needed.by_hand > n
    # As many clusters again, which are the same, give what is counted for them.
    thrice = SimpleNamespace(**{name: np.tile(values, 3) for name, values in vars(queries).items()})
    thrice.clusters = thrice.clusters + np.repeat(np.arange(3), len(queries.y))
    again = judged_estimate(moments_of(thrice))
    for interval, kind in ((again.interval, "with_judge"), (again.human.interval, "by_hand")):
        found = getattr(labels_needed(moments, interval.high - interval.low), kind)
        assert found == pytest.approx(3 * n, rel=0.02)


def state_of(queries, rows):
    order = np.argsort(queries.clusters[rows].view(np.uint64), kind="stable")
    clusters = queries.clusters[rows][order]
    values = np.stack([queries.y[rows], queries.f[rows]], axis=1)[order]
    starts = np.flatnonzero(np.append(True, clusters[1:] != clusters[:-1]))
    accumulator = JudgedClusterAccumulator(2)
    columns = judged_columns(values, [(0, 1), (1, 0)], queries.is_graded[rows][order].astype(float))
    accumulator.add(sums_by_cluster(clusters, starts, columns))
    return accumulator.state()


def test_no_way_of_parting_clusters_changes_a_bit_and_text_keeps_every_bit():
    queries = sample(6)
    whole = state_of(queries, np.arange(len(queries.y)))
    is_first = queries.clusters.view(np.uint64) % 3 == 0
    parted = merged([state_of(queries, np.flatnonzero(rows)) for rows in (is_first, ~is_first)])
    for figure in range(2):
        made = JudgedClusters.from_state(whole, figure)
        assert JudgedClusters.from_state(parted, figure) == made
        assert JudgedClusters.from_state(parted, figure).grouped.text() == made.grouped.text()
    moments = replace(JudgedMoments.from_values(queries.y, queries.f, queries.is_graded), clusters=made)
    assert JudgedMoments.from_text(moments.text()) == moments
    assert JudgedMoments.from_text(moments.independent.text()).clusters is None


def test_days_know_which_clusters_came_back():
    queries = sample(7, n_clusters=400)
    day = np.random.default_rng(7).integers(0, 3, len(queries.y))
    texts = []
    for number in range(3):
        some = SimpleNamespace(**{name: values[day == number] for name, values in vars(queries).items()})
        texts.append(moments_of(some).clusters.grouped.text())
    together = JudgedClusters.merged_days([groups_of(text) for text in texts])
    groups = (queries.clusters.view(np.uint64) >> np.uint64(54)).astype(np.int64)
    expected = judged_estimate(moments_of(queries, groups))
    found = judged_estimate(replace(moments_of(queries), clusters=together))
    assert (found.value, found.standard_error, found.df) == pytest.approx(
        (expected.value, expected.standard_error, expected.df), rel=1e-6
    )
    assert together.grouped.text() == JudgedClusters.merged_days([together.grouped]).grouped.text()
    with pytest.raises(ValueError, match="not the sums"):
        groups_of("|".join(texts[0].split("|")[:2]))


def test_few_clusters_give_no_interval_or_let_people_alone_count():
    queries = sample(8)
    one = judged_estimate(moments_of(queries, np.zeros(len(queries.y), np.int64)))
    assert one.interval.reason == "one cluster has no spread"
    two = np.where(np.arange(len(queries.y)) % 10, 0, 1)
    assert "clusters are as good as" in judged_estimate(moments_of(queries, two)).interval.reason
    ten = judged_estimate(moments_of(queries, np.arange(len(queries.y)) % 10))
    assert ten.note == "fewer than 20 graded clusters of users, or as good as fewer"
    assert ten.interval == ten.human.interval
    lone = moments_of(queries, np.where(queries.is_graded, np.arange(len(queries.y)), -1))
    assert judged_estimate(lone).note == "too few clusters have users with only the model's grades"
    unknown = judged_estimate(replace(moments_of(queries), clusters=JudgedClusters.unknown()))
    assert "nobody knows who is in several" in unknown.interval.reason
    assert "nobody knows" in unknown.judge.interval.reason
