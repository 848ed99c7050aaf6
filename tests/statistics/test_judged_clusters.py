"""Estimates from two judges of queries in clusters, drawn with equal or other probabilities or from strata: against oracles.

However clusters are divided among workers and days, and whatever text they become, no bit changes.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracles.clusters import degrees_of_freedom, effective_n
from oracles.prediction_powered import clustered, drawn_clusters

from spark_rankeval.statistics.intervals import UNKNOWN_MEAN
from spark_rankeval.statistics.judged_queries import JudgedQueries
from spark_rankeval.statistics.judges import bias_of_judge, draw_check, judged_estimate, labels_needed

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


def judged(queries, clusters=None):
    weights, strata = (queries.weights if queries.is_weighted else None), queries.strata if queries.is_drawn else None
    clusters = queries.clusters if clusters is None else clusters
    return JudgedQueries.from_values(queries.y, queries.f, queries.is_graded, weights, strata, clusters)


LAMBDAS = st.sampled_from([None, 0.0, 0.4, 1.0])


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), LAMBDAS, st.integers(3, 30), st.sampled_from([0.0, 0.2]))
def test_estimates_of_equal_draws_are_those_of_the_oracle(seed, lam, largest, undefined):
    queries = sample(seed, None, 60, largest, undefined)
    result = judged_estimate(judged(queries), lambda_=lam)
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
    result = judged_estimate(judged(queries), lambda_=lam)
    assume(lam is not None or not result.note)
    columns = queries.y, queries.f, queries.is_graded, queries.weights, queries.strata, queries.clusters
    found = result.value, result.standard_error, result.lambda_
    assert found == pytest.approx(drawn_clusters(*columns, lam), rel=1e-5, abs=1e-7)
    bias, (value, error, _) = bias_of_judge(judged(queries)), drawn_clusters(queries.f - queries.y, *columns[1:], 0.0)
    assert (bias.value, bias.standard_error) == pytest.approx((value, error), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("undefined", [0.0, 0.2])
def test_equal_weights_in_one_stratum_give_the_variance_of_clusters_of_an_equal_draw(undefined):
    queries = sample(3, "weights", undefined=undefined)
    queries.weights, queries.is_weighted = np.ones(len(queries.y)), False
    of_draw = judged(queries)
    queries.is_drawn = False
    one, other = (judged_estimate(each) for each in (of_draw, judged(queries)))
    assert one.lambda_ == pytest.approx(other.lambda_, rel=1e-6)
    assert one.interval[:2] == pytest.approx(other.interval[:2], rel=1e-6)
    assert (one.df, one.human.df, one.judge.df) == (other.df, other.human.df, other.judge.df)
    assert one.judge.interval[:2] == pytest.approx(other.judge.interval[:2], rel=1e-6)
    for figure in (lambda m: m.clusters_of_people(1.0).effective_n, lambda m: draw_check(m).standard_error):
        assert figure(of_draw) == pytest.approx(figure(judged(queries)), rel=1e-6)


def test_a_constant_factor_of_all_weights_changes_nothing():
    queries = sample(4, "both")
    one = judged_estimate(judged(queries))
    queries.weights = 8 * queries.weights
    assert judged_estimate(judged(queries)) == one


def test_values_that_are_all_the_same_have_no_spread():
    queries = sample(5, "both", undefined=0.0)
    queries.y = np.full(len(queries.y), 0.3)
    result = judged_estimate(judged(queries))
    assert (result.value, result.standard_error) == (pytest.approx(0.3), 0)


def test_degrees_of_freedom_are_those_of_the_stratum_with_nearly_all_variance():
    queries = sample(6, "nested", n_clusters=900, largest=1, undefined=0.0)
    is_high = queries.strata == "high"
    queries.y = np.where(is_high, queries.y, 0.5)
    # Each cluster has one query, all of the same weight in a stratum.
    assert judged_estimate(judged(queries), lambda_=0.0).human.df == np.sum(is_high & queries.is_graded) - 1


def test_no_other_weight_has_a_smaller_error():
    clustered_queries = judged(sample(3, n_clusters=200))
    best = judged_estimate(clustered_queries)
    assert 0 < best.lambda_ < 1
    for weight in (best.lambda_ - 0.1, best.lambda_ + 0.1):
        assert judged_estimate(clustered_queries, lambda_=weight).standard_error > best.standard_error


def test_degrees_of_freedom_and_the_judge_alone_know_the_sizes_of_clusters():
    queries = sample(4, undefined=0.0)
    result = judged_estimate(judged(queries))
    _, sizes = np.unique(queries.clusters[queries.is_graded], return_counts=True)
    names, of_query, every = np.unique(queries.clusters, return_inverse=True, return_counts=True)
    rests, g = np.bincount(of_query, queries.f - queries.f.mean()), effective_n(every)
    error = math.sqrt(g / (g - 1) * np.sum(rests**2)) / len(of_query)
    assert (result.judge.value, result.judge.standard_error) == pytest.approx((queries.f.mean(), error))
    assert (result.human.df, result.judge.df) == tuple(math.floor(degrees_of_freedom(each)) for each in (sizes, every))
    assert judged(queries).clusters_of_people(0.1).n == len(sizes) < len(names)


def test_clusters_of_one_query_have_nearly_the_estimate_of_independent_queries():
    alone = judged(sample(5, n_clusters=300, largest=1))
    independent = alone.independent
    one, other = judged_estimate(alone), judged_estimate(independent)
    assert one.value == pytest.approx(other.value, abs=0.05 * other.standard_error)
    assert one.standard_error == pytest.approx(other.standard_error, rel=0.02)
    assert one.human.interval[:2] == pytest.approx(other.human.interval[:2], rel=1e-3)
    assert draw_check(alone).p == pytest.approx(draw_check(independent).p, rel=0.02)


def test_clusters_are_counted_that_make_an_interval_of_a_width():
    queries = sample(10, n_clusters=150)
    clustered_queries = judged(queries)
    estimate, n = judged_estimate(clustered_queries), clustered_queries.clusters_of_people(0.1).n
    needed = labels_needed(clustered_queries, estimate.interval.high - estimate.interval.low + 1e-9)
    assert abs(needed.with_judge - n) <= 2
    assert needed.by_hand > n
    # As many clusters again, which are the same, give what is counted for them.
    thrice = changed(queries, lambda each: np.tile(each, 3))
    again = judged_estimate(judged(thrice, thrice.clusters + np.repeat(np.arange(3), len(queries.y))))
    for interval, kind in ((again.interval, "with_judge"), (again.human.interval, "by_hand")):
        assert getattr(labels_needed(clustered_queries, interval.high - interval.low), kind) == pytest.approx(
            3 * n, rel=0.02
        )


def parts_of(queries, n_parts, seed=7):
    part = np.random.default_rng(seed).integers(0, n_parts, len(queries.y))
    return [judged(some(queries, part == number)) for number in range(n_parts)]


@pytest.mark.parametrize("design", [None, "both"])
def test_no_way_of_parting_queries_changes_a_bit_and_text_keeps_every_bit(design):
    # Clusters are in several parts, such as days.
    whole = judged(sample(7, design, n_clusters=200))
    days = parts_of(sample(7, design, n_clusters=200), 3)
    for together in (JudgedQueries.total(days), days[2] + (days[1] + days[0]), JudgedQueries.from_text(whole.text())):
        assert together.text() == whole.text()
        assert judged_estimate(together) == judged_estimate(whole)
    assert judged_estimate(whole.independent) != judged_estimate(whole)
    assert whole.independent.clusters_of_people(0.1) is None


@pytest.mark.parametrize("design", [None, "both"])
def test_many_clusters_are_joined_in_groups_however_queries_are_parted(design):
    queries = sample(11, design, n_clusters=20_000, largest=1)
    queries.clusters = np.random.default_rng(11).integers(-(2**63), 2**63 - 1, len(queries.y))
    queries.is_graded &= np.arange(len(queries.y)) < 1000
    if design:
        queries.is_graded[-1] = False
    whole, parts = judged(queries), parts_of(queries, 12)
    assert (whole.are_joined, parts[0].are_joined, len(whole.text()) < 400_000) == (True, False, True)
    assert JudgedQueries.total(parts).text() == (sum(parts[2:], parts[1]) + parts[0]).text() == whole.text()
    assert whole.clusters_of_people(0.1).n == np.sum(queries.is_graded & ~np.isnan(queries.y))
    found, independent = judged_estimate(whole), judged_estimate(whole.independent)
    assert found.standard_error == pytest.approx(independent.standard_error, rel=0.2)


def test_few_clusters_give_no_interval_or_let_people_alone_count():
    queries = sample(8)
    place = np.arange(len(queries.y))
    clusters = 0 * place, 1 * (place % 10 == 0), place % 10
    one, two, ten = (judged_estimate(judged(queries, each)) for each in clusters)
    assert one.interval.reason == "one cluster has no spread"
    assert "clusters are as good as" in two.interval.reason
    assert ten.note == "too few graded clusters of users: as good as 8.9, and 20 are needed"
    assert ten.interval == ten.human.interval
    lone = judged(queries, np.where(queries.is_graded, place, -1))
    assert judged_estimate(lone).note == "too few clusters have users with only the model's grades"


def test_a_stratum_of_one_cluster_has_no_interval_and_few_others_let_people_alone_count():
    queries = sample(9, "nested")
    one = np.where(queries.strata == "high", 0, queries.clusters)
    assert "a stratum has one cluster alone" in judged_estimate(judged(queries, one)).interval.reason
    lone = np.where(queries.is_graded | (queries.strata == "low"), queries.clusters, 5 << 54)
    assert judged_estimate(judged(queries, lone)).note == "too few clusters have users with only the model's grades"
    for size in (1e170, 1e200):
        large = some(queries, slice(None))
        large.y, large.weights = queries.y * size, np.full(len(queries.y), size)
        assert judged_estimate(judged(large)).interval.reason == UNKNOWN_MEAN
