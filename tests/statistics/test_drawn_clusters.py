"""Estimates from two judges of queries in clusters that were drawn with unequal probabilities or from strata: against an oracle."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.effort import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracles.prediction_powered import drawn_clusters as by_derivatives

from spark_rankeval.statistics.drawn_clusters import (
    STRATA,
    DrawnClusterAccumulator,
    clusters_of_days,
    drawn_clusters,
    drawn_clusters_of_values,
    drawn_columns,
)
from spark_rankeval.statistics.judged_clusters import EXCESSIVE, JudgedClusters, groups_of
from spark_rankeval.statistics.judged_draws import draw_check
from spark_rankeval.statistics.judged_moments import JudgedMoments
from spark_rankeval.statistics.moments import merged
from spark_rankeval.statistics.prediction_powered import judged_estimate

NAN = math.nan
DESIGNS = {"weights": (True, None), "strata": (False, "query"), "both": (True, "query"), "nested": (False, "cluster")}


def sample(seed, design="both", n_clusters=60, largest=6, undefined=0.1):
    """Queries whose values agree within clusters. Each cluster has a group of its own; strata cut through clusters, or hold whole ones."""
    rng = np.random.default_rng(seed)
    is_weighted, strata_of = DESIGNS[design]
    place = np.repeat(np.arange(n_clusters), rng.integers(1, largest + 1, n_clusters))
    y = 0.5 + 0.1 * rng.normal(size=n_clusters)[place] + 0.1 * rng.normal(size=len(place))
    f = 0.8 * y + 0.05 * rng.normal(size=len(place))
    is_high = f > 0.42 if strata_of != "cluster" else place % 3 == 0
    chance = np.where(is_high, 0.6, 0.3) * (rng.choice([0.6, 1.0], len(place)) if is_weighted else 1.0)
    for values in (y, f):
        values[rng.random(len(place)) < undefined] = NAN
    return SimpleNamespace(
        y=y, f=f, is_graded=rng.random(len(place)) < chance, weights=1 / chance if is_weighted else np.ones(len(place)),
        strata=np.where(is_high, "high", "low") if strata_of else np.full(len(place), ""),
        clusters=(place.astype(np.int64) * 7919 % 1024) << 54, is_weighted=is_weighted,
    )  # fmt: skip


def some(queries, chosen):
    return SimpleNamespace(
        **{name: values[chosen] if isinstance(values, np.ndarray) else values for name, values in vars(queries).items()}
    )


def clusters_of(queries, clusters=None):
    grading = np.where(queries.is_graded, queries.weights, 0.0)
    clusters = queries.clusters if clusters is None else clusters
    return drawn_clusters_of_values(queries.y, queries.f, grading, clusters, queries.strata)


def moments_of(queries, clusters=None):
    weights = queries.weights if queries.is_weighted else None
    moments = JudgedMoments.from_values(queries.y, queries.f, queries.is_graded, weights, queries.strata)
    return replace(moments, clusters=clusters_of(queries, clusters))


@settings(max_examples=examples(8, 100), deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([None, 0.0, 0.4, 1.0]), st.sampled_from(list(DESIGNS)))
def test_estimates_and_errors_are_those_of_the_oracle(seed, lam, design):
    queries = sample(seed, design)
    result = judged_estimate(moments_of(queries), lambda_=lam)
    assume(lam is not None or not result.note)
    value, error, best = by_derivatives(
        queries.y, queries.f, queries.is_graded, queries.weights, queries.strata, queries.clusters, lam
    )
    assert result.lambda_ == pytest.approx(best, rel=1e-5, abs=1e-7)
    assert (result.value, result.standard_error) == pytest.approx((value, error), rel=1e-5)


@pytest.mark.parametrize("undefined", [0.0, 0.2])
def test_equal_weights_in_one_stratum_give_the_variance_of_clusters_of_an_equal_draw(undefined):
    queries = sample(3, "weights", undefined=undefined)
    queries.weights, queries.is_weighted = np.ones(len(queries.y)), False
    plain = JudgedClusters.from_values(queries.y, queries.f, queries.is_graded, queries.clusters)
    drawn, expected = moments_of(queries), replace(moments_of(queries), clusters=plain)
    one, other = judged_estimate(drawn), judged_estimate(expected)
    assert one.lambda_ == pytest.approx(other.lambda_, rel=1e-6)
    assert one.interval[:2] == pytest.approx(other.interval[:2], rel=1e-6)
    assert (one.df, one.human.df, one.judge.df) == (other.df, other.human.df, other.judge.df)
    assert one.judge.interval[:2] == pytest.approx(other.judge.interval[:2], rel=1e-6)
    assert drawn.clusters_of_people(1.0).effective_n == pytest.approx(expected.clusters_of_people(1.0).effective_n)
    assert draw_check(drawn).standard_error == pytest.approx(draw_check(expected).standard_error, rel=1e-6)


def test_a_constant_factor_of_all_weights_changes_nothing():
    queries = sample(4, "both")
    one = judged_estimate(moments_of(queries))
    queries.weights = 8 * queries.weights
    assert judged_estimate(moments_of(queries)) == one


def test_values_that_are_all_the_same_have_no_spread():
    queries = sample(5, "both", undefined=0.0)
    queries.y = np.full(len(queries.y), 0.3)
    result = judged_estimate(moments_of(queries))
    assert (result.value, result.standard_error) == (pytest.approx(0.3), 0)


def test_degrees_of_freedom_are_those_of_the_stratum_with_nearly_all_variance():
    queries = sample(6, "nested", n_clusters=90, largest=1, undefined=0.0)
    is_high = queries.strata == "high"
    queries.y = np.where(is_high, queries.y, 0.5)
    # Each cluster has one query, all of the same weight in a stratum.
    assert judged_estimate(moments_of(queries), lambda_=0.0).human.df == np.sum(is_high & queries.is_graded) - 1


def state_of(queries):
    order = np.argsort(queries.clusters.view(np.uint64), kind="stable")
    ordered = some(queries, order)
    grading = np.where(ordered.is_graded, ordered.weights, 0.0)
    figures = [
        drawn_columns(human, judge, grading) for human, judge in ((ordered.y, ordered.f), (ordered.f, ordered.y))
    ]
    accumulator = DrawnClusterAccumulator(2)
    accumulator.add(ordered.clusters, np.where(ordered.strata == "low", 1, 2).astype(np.int64) << 11, figures)
    return accumulator.state()


def test_no_way_of_parting_clusters_changes_a_bit_and_text_keeps_every_bit():
    queries = sample(7)
    is_first = queries.clusters.view(np.uint64) >> np.uint64(54) < 300
    whole, parted = state_of(queries), merged([state_of(some(queries, part)) for part in (~is_first, is_first)])
    assert STRATA in whole
    for figure in range(2):
        made = drawn_clusters(whole, figure, {"low": 1, "high": 2})
        again = drawn_clusters(parted, figure, {"low": 1, "high": 2})
        assert (made, made.grouped.text()) == (again, again.grouped.text())
    moments = moments_of(queries)
    assert JudgedMoments.from_text(moments.text()) == moments
    assert groups_of(moments.clusters.grouped.text()) == moments.clusters.grouped


def test_days_merge_to_the_estimate_of_all_queries():
    queries = sample(8, "both", n_clusters=200)
    day = np.random.default_rng(8).integers(0, 3, len(queries.y))
    days = [moments_of(some(queries, day == number)) for number in range(3)]
    together = clusters_of_days([groups_of(each.clusters.grouped.text()) for each in days])
    found, expected = (
        judged_estimate(replace(JudgedMoments.total(days), clusters=together)),
        judged_estimate(moments_of(queries)),
    )
    assert (found.value, found.standard_error, found.df) == pytest.approx(
        (expected.value, expected.standard_error, expected.df), rel=1e-6
    )  # fmt: skip
    again = clusters_of_days([together.grouped])
    assert (again, again.grouped.text()) == (together, together.grouped.text())
    with pytest.raises(ValueError, match="not the sums"):
        groups_of(days[0].clusters.grouped.text().rpartition("|")[0])


def test_a_stratum_of_one_cluster_has_no_interval_and_few_others_let_people_alone_count():
    queries = sample(9, "nested")
    one = np.where(queries.strata == "high", 0, queries.clusters)
    assert "a stratum has one cluster alone" in judged_estimate(moments_of(queries, one)).interval.reason
    lone = np.where(queries.is_graded | (queries.strata == "low"), queries.clusters, 5 << 54)
    assert judged_estimate(moments_of(queries, lone)).note == "too few clusters have users with only the model's grades"
    for size in (1e170, 1e200):
        large = some(queries, slice(None))
        large.y, large.weights = queries.y * size, np.full(len(queries.y), size)
        assert EXCESSIVE in clusters_of(large).sums
