"""Estimates from two judges of queries in clusters, drawn with equal or other probabilities or from strata: against oracles.

However clusters are divided among workers and days, and whatever text they become, no bit changes.
"""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracles.clusters import degrees_of_freedom, effective_n
from oracles.prediction_powered import clustered, drawn_clusters

from spark_rankeval.statistics import drawn_clusters as drawn
from spark_rankeval.statistics.cluster_sums import sums_by_cluster
from spark_rankeval.statistics.judged_clusters import (
    EXCESSIVE,
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
# Whether queries have weights, and what strata cut: clusters, or whole ones.
DESIGNS = {"weights": (True, None), "strata": (False, "query"), "both": (True, "query"), "nested": (False, "cluster")}


def sample(seed, design=None, n_clusters=60, largest=6, undefined=0.1):
    """Queries whose values agree within clusters, a few of them undefined; without a design they are drawn with equal probabilities."""
    rng, (is_weighted, strata_of) = np.random.default_rng(seed), DESIGNS.get(design, (False, None))
    place = np.repeat(np.arange(n_clusters), rng.integers(1, largest + 1, n_clusters))
    y = 0.5 + 0.1 * rng.normal(size=n_clusters)[place] + 0.1 * rng.normal(size=len(place))
    f = 0.8 * y + 0.05 * rng.normal(size=len(place))
    is_high = f > 0.42 if strata_of != "cluster" else place % 3 == 0
    chance = np.where(is_high, 0.6, 0.3) * (rng.choice([0.6, 1.0], len(place)) if is_weighted else 1.0)
    for values in (y, f):
        values[rng.random(len(place)) < undefined] = NAN
    return SimpleNamespace(
        y=y, f=f, is_graded=rng.random(len(place)) < (chance if design else 0.4),
        weights=1 / chance if is_weighted else np.ones(len(place)),
        strata=np.where(is_high, "high", "low") if strata_of else np.full(len(place), ""),
        # Each cluster has a group of its own.
        clusters=(place.astype(np.int64) * 7919 % 1024) << 54, is_weighted=is_weighted, is_drawn=design is not None,
    )  # fmt: skip


def changed(queries, change):
    arrays = {name: change(each) for name, each in vars(queries).items() if isinstance(each, np.ndarray)}
    return SimpleNamespace(**vars(queries) | arrays)


def some(queries, chosen):
    return changed(queries, lambda each: each[chosen])


def moments_of(queries, clusters=None):
    clusters, columns = queries.clusters if clusters is None else clusters, (queries.y, queries.f, queries.is_graded)
    if not queries.is_drawn:
        made = JudgedClusters.from_values(*columns, clusters)
        return replace(JudgedMoments.from_values(*columns), clusters=made)
    grading = np.where(queries.is_graded, queries.weights, 0.0)
    made = drawn.drawn_clusters_of_values(queries.y, queries.f, grading, clusters, queries.strata)
    weights = queries.weights if queries.is_weighted else None
    return replace(JudgedMoments.from_values(*columns, weights, queries.strata), clusters=made)


LAMBDAS = st.sampled_from([None, 0.0, 0.4, 1.0])


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), LAMBDAS, st.integers(3, 30), st.sampled_from([0.0, 0.2]))
def test_estimates_of_equal_draws_are_those_of_the_oracle(seed, lam, largest, undefined):
    queries = sample(seed, None, 60, largest, undefined)
    result = judged_estimate(moments_of(queries), lambda_=lam)
    assume(lam is not None or not result.note)
    columns = queries.y, queries.f, queries.is_graded, queries.clusters
    found = result.value, result.standard_error, result.lambda_
    assert found == pytest.approx(clustered(*columns, lam), rel=1e-6)
    human, human_error, _ = clustered(*columns, 0.0)
    assert (result.human.value, result.human.standard_error) == pytest.approx((human, human_error), rel=1e-6)


@settings(max_examples=8, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), LAMBDAS, st.sampled_from(list(DESIGNS)))
def test_estimates_of_other_draws_are_those_of_the_oracle(seed, lam, design):
    queries = sample(seed, design, 40)
    result = judged_estimate(moments_of(queries), lambda_=lam)
    assume(lam is not None or not result.note)
    columns = queries.y, queries.f, queries.is_graded, queries.weights, queries.strata, queries.clusters
    found = result.value, result.standard_error, result.lambda_
    assert found == pytest.approx(drawn_clusters(*columns, lam), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("undefined", [0.0, 0.2])
def test_equal_weights_in_one_stratum_give_the_variance_of_clusters_of_an_equal_draw(undefined):
    queries = sample(3, "weights", undefined=undefined)
    queries.weights, queries.is_weighted = np.ones(len(queries.y)), False
    drawn_moments = moments_of(queries)
    queries.is_drawn = False
    one, other = (judged_estimate(each) for each in (drawn_moments, moments_of(queries)))
    assert one.lambda_ == pytest.approx(other.lambda_, rel=1e-6)
    assert one.interval[:2] == pytest.approx(other.interval[:2], rel=1e-6)
    assert (one.df, one.human.df, one.judge.df) == (other.df, other.human.df, other.judge.df)
    assert one.judge.interval[:2] == pytest.approx(other.judge.interval[:2], rel=1e-6)
    for figure in (lambda m: m.clusters_of_people(1.0).effective_n, lambda m: draw_check(m).standard_error):
        assert figure(drawn_moments) == pytest.approx(figure(moments_of(queries)), rel=1e-6)


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
    queries = sample(6, "nested", n_clusters=900, largest=1, undefined=0.0)
    is_high = queries.strata == "high"
    queries.y = np.where(is_high, queries.y, 0.5)
    # Each cluster has one query, all of the same weight in a stratum.
    assert judged_estimate(moments_of(queries), lambda_=0.0).human.df == np.sum(is_high & queries.is_graded) - 1


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
    names, of_query, every = np.unique(queries.clusters, return_inverse=True, return_counts=True)
    rests, g = np.bincount(of_query, queries.f - queries.f.mean()), effective_n(every)
    error = math.sqrt(g / (g - 1) * np.sum(rests**2)) / len(of_query)
    assert (result.judge.value, result.judge.standard_error) == pytest.approx((queries.f.mean(), error))
    assert (result.human.df, result.judge.df) == tuple(math.floor(degrees_of_freedom(each)) for each in (sizes, every))
    assert moments_of(queries).clusters_of_people(0.1).n == len(sizes) < len(names)


def test_clusters_of_one_query_have_nearly_the_estimate_of_independent_queries():
    alone = moments_of(sample(5, n_clusters=300, largest=1))
    independent = alone.independent
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
    thrice = changed(queries, lambda each: np.tile(each, 3))
    again = judged_estimate(moments_of(thrice, thrice.clusters + np.repeat(np.arange(3), len(queries.y))))
    for interval, kind in ((again.interval, "with_judge"), (again.human.interval, "by_hand")):
        assert getattr(labels_needed(moments, interval.high - interval.low), kind) == pytest.approx(3 * n, rel=0.02)


def figures_of(queries):
    """The state of two figures of queries, human and judge in both orders, and how to read a figure from a state."""
    ordered = some(queries, np.argsort(queries.clusters.view(np.uint64), kind="stable"))
    sides, grading = [(ordered.y, ordered.f), (ordered.f, ordered.y)], np.where(ordered.is_graded, ordered.weights, 0.0)
    if queries.is_drawn:
        accumulator = drawn.DrawnClusterAccumulator(2)
        strata = np.where(ordered.strata == "low", 1, 2).astype(np.int64) << 11
        accumulator.add(ordered.clusters, strata, [drawn.drawn_columns(*side, grading) for side in sides])
        return accumulator.state(), lambda state, figure: drawn.drawn_clusters(state, figure, {"low": 1, "high": 2})
    accumulator = JudgedClusterAccumulator(2)
    columns = judged_columns(np.stack(sides[0], axis=1), [(0, 1), (1, 0)], ordered.is_graded.astype(float))
    starts = np.flatnonzero(np.append(True, ordered.clusters[1:] != ordered.clusters[:-1]))
    accumulator.add(sums_by_cluster(ordered.clusters, starts, columns))
    return accumulator.state(), JudgedClusters.from_state


@pytest.mark.parametrize("design", [None, "both"])
def test_no_way_of_parting_clusters_changes_a_bit_and_text_keeps_every_bit(design):
    queries = sample(7, design)
    is_first = queries.clusters.view(np.uint64) >> np.uint64(54) < 300
    whole, read = figures_of(queries)
    parted = merged(figures_of(some(queries, part))[0] for part in (~is_first, is_first))
    moments = moments_of(queries)
    for figure in range(2):
        made, again = (read(state, figure) for state in (whole, parted))
        assert (made, made.grouped.text()) == (again, again.grouped.text())
        assert groups_of(made.grouped.text()) == made.grouped
    found, expected = (judged_estimate(each) for each in (replace(moments, clusters=read(whole, 0)), moments))
    assert (found.interval[:2], found.df) == (pytest.approx(expected.interval[:2], rel=1e-9), expected.df)
    assert JudgedMoments.from_text(moments.text()) == moments
    assert JudgedMoments.from_text(moments.independent.text()).clusters is None


@pytest.mark.parametrize("design", [None, "both"])
def test_days_merge_to_the_estimate_of_all_queries_of_a_cluster(design):
    queries = sample(8, design, n_clusters=200)
    merge = drawn.clusters_of_days if design else JudgedClusters.merged_days
    day = np.random.default_rng(8).integers(0, 3, len(queries.y))
    days = [moments_of(some(queries, day == number)) for number in range(3)]
    texts = [each.clusters.grouped.text() for each in days]
    together = merge([groups_of(text) for text in texts])
    expected = judged_estimate(moments_of(queries))
    found = judged_estimate(replace(JudgedMoments.total(days), clusters=together))
    for name in ("value", "standard_error", "df"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-6)
    again = merge([together.grouped])
    assert (again, again.grouped.text()) == (together, together.grouped.text())
    with pytest.raises(ValueError, match="not the sums"):
        groups_of(texts[0].rpartition("|")[0])


def test_few_clusters_give_no_interval_or_let_people_alone_count():
    queries = sample(8)
    place = np.arange(len(queries.y))
    clusters = 0 * place, 1 * (place % 10 == 0), place % 10
    one, two, ten = (judged_estimate(moments_of(queries, each)) for each in clusters)
    assert one.interval.reason == "one cluster has no spread"
    assert "clusters are as good as" in two.interval.reason
    assert ten.note == "too few graded clusters of users: as good as 8.9, and 20 are needed"
    assert ten.interval == ten.human.interval
    lone = moments_of(queries, np.where(queries.is_graded, place, -1))
    assert judged_estimate(lone).note == "too few clusters have users with only the model's grades"
    unknown = judged_estimate(replace(moments_of(queries), clusters=JudgedClusters.unknown()))
    for estimate in (unknown, unknown.judge):
        assert "nobody knows who is in several" in estimate.interval.reason


def test_a_stratum_of_one_cluster_has_no_interval_and_few_others_let_people_alone_count():
    queries = sample(9, "nested")
    one = np.where(queries.strata == "high", 0, queries.clusters)
    assert "a stratum has one cluster alone" in judged_estimate(moments_of(queries, one)).interval.reason
    lone = np.where(queries.is_graded | (queries.strata == "low"), queries.clusters, 5 << 54)
    assert judged_estimate(moments_of(queries, lone)).note == "too few clusters have users with only the model's grades"
    for size in (1e170, 1e200):
        large = some(queries, slice(None))
        large.y, large.weights = queries.y * size, np.full(len(queries.y), size)
        assert EXCESSIVE in moments_of(large).clusters.sums
