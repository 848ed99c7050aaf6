"""Measures beyond accuracy: each against a naive one of raw tables, through the worker's way from Arrow to values."""

import dataclasses
import math

import numpy as np
import pyarrow as pa
import pytest
from helpers.effort import FULL_LENGTH, examples, part_of
from helpers.met_messages import met
from helpers.scored import exposed_in, merging_exposure, task_of_views
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.lists import FORMULAS, World, value
from worlds.recommendations import SIMPLE, batch_of, random_world
from worlds.variants import BEYOND, variants

from spark_rankeval.dialects import DEFAULT
from spark_rankeval.errors import MetricError, OptionError
from spark_rankeval.features.exposure import items as worker_exposures
from spark_rankeval.features.exposure.counted_tables import table_of, total_of
from spark_rankeval.features.exposure.items import (
    EXPOSURE,
    HISTOGRAMS,
    N_BUCKETS,
    N_ITEMS,
    ExposureAccumulator,
    Slot,
    exposures_of,
    slots_of,
)
from spark_rankeval.features.items import worker as side_lists
from spark_rankeval.metrics import RankingBatch, parse_metric
from spark_rankeval.metrics.abstention_based import Confidence
from spark_rankeval.metrics.exposure_based import Exposure
from spark_rankeval.metrics.group_rates import ExposureShare
from spark_rankeval.ranking.lists import RankingPolicy
from spark_rankeval.ranking.recommended import Totals
from spark_rankeval.request.availability import Lists
from spark_rankeval.request.readings import resolve
from spark_rankeval.request.task import View
from spark_rankeval.wire import pack, rows_of
from spark_rankeval.worker import user_metrics
from spark_rankeval.worker.user_metrics import score

OF_USERS = [metric for metric in BEYOND if not metric.corpus_level]
OF_ALL = [metric for metric in BEYOND if metric.corpus_level]
SEEDS = range(4 if FULL_LENGTH else 1)
ALL_VALUES = pytest.mark.parametrize("metric", BEYOND, ids=lambda metric: metric.name)


def resolved(metrics):
    return [parse_metric(metric).resolve() for metric in metrics]


def values_of(metrics, world, users=None, shuffled=None):
    """Every metric of every user: a column a metric. Cutoffs need views of their own, which cut lists."""
    views = tuple(View((metric,), RankingPolicy()) for metric in metrics)
    return score(task_of_views(*views), batch_of(world, users, shuffled)).metrics


def exposures(metrics, world, parts, n_partitions=1):
    """What the driver knows of the exposure of several partitions, by slot; items meet in so many partitions."""
    task = task_of_views(View(tuple(metrics), RankingPolicy()))
    slots = slots_of(task)
    messages, totals = [], Totals()
    for users in parts:
        accumulator = ExposureAccumulator(slots, lambda _: ["all"])
        batch = batch_of(world, users)
        scores = score(task, batch)
        lists = exposed_in(scores)[0].batch.recommended
        totals = Totals(*(max(one, two) for one, two in zip(astuple(totals), astuple(lists.totals), strict=True)))
        messages += accumulator.add([((), slice(None))], np.ones(len(users), np.bool_), exposed_in(scores))
        messages += accumulator.messages()
    found = exposures_of(met(rows_of(messages), merging_exposure(), n_partitions), slots, totals).get("all", {})
    assert not any(exposure.leave_one_out for exposure in found.values()), "nobody asked for blocks"
    return {slot: exposure.whole for slot, exposure in found.items()}


def astuple(totals):
    return dataclasses.astuple(totals)


def compare(metrics, world, users=None, shuffled=None):
    users = world.users if users is None else users
    for metric, column in zip(metrics, values_of(metrics, world, users, shuffled), strict=True):
        expected = [value(metric, world, user) for user in users]
        np.testing.assert_allclose(column, expected, rtol=1e-12, atol=1e-12, equal_nan=True, err_msg=str(metric))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("metric", OF_USERS, ids=lambda metric: metric.name)
def test_every_variant_equals_the_naive_one(metric, seed):
    every = variants(metric)
    compare(part_of(every, 7) if len(every) > 100 else every, random_world(seed))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("metric", OF_ALL, ids=lambda metric: metric.name)
def test_every_variant_of_all_lists_equals_the_naive_one(metric, seed):
    world = random_world(seed)
    every = variants(metric)
    found = exposures(every, world, [world.users])
    for variant in every:
        mine = variant.value(found[Slot(0, variant.k)])
        assert mine == pytest.approx(value(variant, world), rel=1e-12, abs=1e-12), variant


ITEMS, SCORES = st.integers(0, 7), st.sampled_from([-1.0, 0.0, 0.5, 1.0])
LISTS = st.lists(st.tuples(ITEMS, SCORES), max_size=6, unique_by=lambda pair: pair[0])
VECTORS = st.none() | st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=2, max_size=2)
WORLDS = st.builds(
    World,
    predictions=st.dictionaries(st.integers(0, 4), LISTS, min_size=1),
    labels=st.dictionaries(
        st.integers(0, 5),
        st.lists(st.tuples(ITEMS, st.sampled_from([0.0, 1.0, 3.0])), max_size=4, unique_by=lambda p: p[0]),
    ),
    training=st.lists(st.tuples(st.integers(0, 6), ITEMS), max_size=12),
    items=st.dictionaries(ITEMS, st.tuples(st.sampled_from([None, "a", "b"]), VECTORS)),
    baseline=st.dictionaries(st.integers(0, 4), LISTS),
    genres=st.dictionaries(ITEMS, st.lists(st.sampled_from("abc"), max_size=3)),
)
ALL_VARIANTS = {metric.name: variants(metric) for metric in BEYOND}


@settings(max_examples=examples(by_day=8, at_night=150), deadline=None, derandomize=True)
@given(world=WORLDS, choice=st.integers(0, 10**6))
def test_any_tables_give_what_the_naive_measures_give(world, choice):
    chosen = [every[(choice + 7919 * n) % len(every)] for every in ALL_VARIANTS.values() for n in range(2)]
    compare([metric for metric in chosen if not metric.corpus_level], world)
    of_all = [metric for metric in chosen if metric.corpus_level]
    found = exposures(of_all, world, [[user] for user in world.users])
    for metric in of_all:
        mine = metric.value(found[Slot(0, metric.k)])
        assert mine == pytest.approx(value(metric, world), rel=1e-12, abs=1e-12, nan_ok=True), metric


def bits(columns):
    return np.stack(columns).view(np.int64)


@pytest.mark.parametrize("n_parts", part_of([7, 40, 2], 3))
def test_no_split_into_batches_and_no_order_of_rows_changes_a_bit(n_parts):
    world = random_world(9)
    metrics = [metric for kind in OF_USERS for metric in part_of(variants(kind), 23)]
    whole = values_of(metrics, world)
    parts = np.array_split(np.array(world.users), n_parts)
    rng = np.random.default_rng(n_parts)
    single = [values_of(metrics, world, part.tolist(), rng) for part in parts if len(part)]
    np.testing.assert_array_equal(bits([np.concatenate(columns) for columns in zip(*single, strict=True)]), bits(whole))


def test_lists_that_are_read_for_the_largest_of_several_cutoffs_have_the_values_of_each():
    world = random_world(11)
    metrics = [kind(k=k).resolve() for kind in OF_USERS if kind.takes_cutoff for k in (1, 3, None)]
    together = score(task_of_views(View(tuple(metrics), RankingPolicy())), batch_of(world)).metrics
    for metric, alone, beside in zip(metrics, values_of(metrics, world), together, strict=True):
        np.testing.assert_array_equal(beside, alone, err_msg=str(metric))


def test_lists_are_ranked_in_slices_and_no_bit_changes(monkeypatch):
    world = random_world(12)
    metrics = [kind().resolve() for kind in OF_USERS]
    whole = values_of(metrics, world)
    monkeypatch.setattr(user_metrics, "_SLICE", 20)
    np.testing.assert_array_equal(bits(values_of(metrics, world)), bits(whole))


def test_vectors_come_in_parts_that_fit_into_memory_and_change_no_bit(monkeypatch):
    world = random_world(13)
    metrics = resolved(["diversity(by=vector)@5", "serendipity(against=history)@5", "gini@3", "novelty@3"])
    task, batch = task_of_views(View(tuple(metrics), RankingPolicy())), batch_of(world)
    monkeypatch.setattr(side_lists, "_CELLS", 100)
    parts = list(side_lists.split_batch(batch))
    assert len(parts) > 5
    assert sum(part.num_rows for part in parts) == batch.num_rows
    single = [score(task, part).metrics for part in parts]
    whole = score(task, batch).metrics
    np.testing.assert_array_equal(bits([np.concatenate(columns) for columns in zip(*single, strict=True)]), bits(whole))


@pytest.mark.parametrize("metric", OF_USERS, ids=lambda metric: metric.name)
def test_a_mean_over_all_orders_of_ties_is_refused_where_the_order_matters(metric):
    lists = Lists(scored_arrays=False, label_arrays=False)
    asked = {"one": metric(k=3) if metric.takes_cutoff else metric()}
    if metric.takes_cutoff and metric is not Confidence:
        with pytest.raises(OptionError, match="average"):
            resolve(asked, DEFAULT, {}, lists, "average", has_fact_tables=True)
    assert resolve({"one": metric()}, DEFAULT, {}, lists, "average", has_fact_tables=True)


@pytest.mark.parametrize("n_parts", [1, 3, 40])
def test_no_split_into_partitions_changes_a_value_of_all_lists(n_parts):
    world = random_world(10)
    metrics = [metric for kind in OF_ALL for metric in variants(kind)]
    parts = [part.tolist() for part in np.array_split(np.array(world.users), n_parts) if len(part)]
    split, whole = exposures(metrics, world, parts, 3), exposures(metrics, world, [world.users])
    for metric in metrics:
        assert metric.value(split[Slot(0, metric.k)]) == metric.value(whole[Slot(0, metric.k)]), metric


@pytest.mark.parametrize(
    "ids",
    [
        pa.array(range(20_000)),
        pa.array(np.arange(20_000) / 8),
        pa.array(np.arange(20_000, dtype=np.float32)),
        pa.array([f"item {n}" for n in range(20_000)]),
        pa.array([f"{n}" for n in range(20_000)], pa.large_string()),
        pa.array(range(20_000), pa.int32()).cast(pa.date32()),
        pa.array([bytes([255, n // 256, n % 256]) for n in range(20_000)]),
    ],
    ids=lambda ids: str(ids.type),
)
def test_an_item_meets_in_one_bucket_and_items_spread(ids):
    buckets = worker_exposures._buckets_of(ids)
    order = np.random.default_rng(1).permutation(len(ids))
    assert worker_exposures._buckets_of(ids.take(pa.array(order))).tolist() == buckets[order].tolist()
    assert worker_exposures._buckets_of(ids.slice(7, 90)).tolist() == buckets[7:97].tolist()
    assert np.bincount(buckets, minlength=N_BUCKETS).max() < 1.5 * len(ids) / N_BUCKETS
    assert set(buckets) == set(range(N_BUCKETS))


def test_of_two_zeros_each_meets_the_other_and_a_null_meets_nulls():
    assert len(set(worker_exposures._buckets_of(pa.array([0.0, -0.0])))) == 1
    for kind in (pa.int64(), pa.string()):
        assert len(set(worker_exposures._buckets_of(pa.array([None, None], kind)))) == 1


def held_messages(monkeypatch, n_bytes):
    """The messages of exposure of a world by whether they were sent on early, a worker holding so many bytes."""
    monkeypatch.setattr(worker_exposures, "HELD", n_bytes)
    monkeypatch.setattr(worker_exposures, "_COUNTED", 16)
    world, metrics = random_world(14, n_users=200), resolved(["entropy@3", "gini(among=recommended)@5"])
    task = task_of_views(View(tuple(metrics), RankingPolicy()))
    accumulator = ExposureAccumulator(slots_of(task), lambda key: ["all", *key])
    early = []
    for users in np.array_split(world.users, 20):
        side = users % 2
        groups = [(("even",), np.flatnonzero(side == 0)), (("odd",), np.flatnonzero(side == 1))]
        exposed = exposed_in(score(task, batch_of(world, users.tolist())))
        early += accumulator.add(groups, np.ones(len(users), np.bool_), exposed)
    return early, list(accumulator.messages())


def test_counts_that_a_worker_cannot_hold_are_sent_on_and_add_up(monkeypatch):
    def counted(messages):
        tables = {}
        for message in messages:
            tables.setdefault(message.kind, []).append(table_of(message.payload))
        totals = {kind: total_of(tables[kind], summed) for kind, summed in ((EXPOSURE, "count"), (HISTOGRAMS, N_ITEMS))}
        return {kind: {tuple(row.items()) for row in table.to_pylist()} for kind, table in totals.items()}

    (_, whole), (early, late) = held_messages(monkeypatch, 1 << 20), held_messages(monkeypatch, 1000)
    assert len(early) > 10 * len(late) > 0
    assert counted(early + late) == counted(whole)
    # Two slots of three slices.
    assert len({(dict(row)["slot"], dict(row)["slice"]) for row in counted(whole)[EXPOSURE]}) == 6


def test_what_adds_up_to_little_is_kept(monkeypatch):
    early, late = held_messages(monkeypatch, 10_000)
    assert early == []
    assert len(late) > 10


FIGURES = {
    # Three users have tea and one each jam and rye: log2 3 is what is known of these, 0 of tea.
    "novelty@2": [math.log2(3) / 2, math.log2(3) / 2, math.log2(3) / 2, math.nan],
    "novelty(by=interactions)@1": [-math.log2(4 / 6), math.log2(6), -math.log2(4 / 6), math.nan],
    "novelty(by=history)@2": [0.5, 0.5, 1.0, math.nan],
    "surprisal@2": [0.5, 0.5, 0.5, math.nan],
    "surprisal(denominator=k)@4": [0.5, 0.25, 0.25, math.nan],
    "average_popularity@2": [2.0, 2.0, 1.5, math.nan],
    "average_popularity(scale=share)@1": [1.0, 1 / 3, 1.0, math.nan],
    "popularity_ratio@2": [2 / 3, 1.0, math.nan, math.nan],
    "cold_items@2": [0.0, 0.0, 0.5, math.nan],
    "repetition@2": [0.5, 0.5, 0.0, math.nan],
    "cold_user": [0.0, 0.0, 1.0, math.nan],
    # Tea has half of the interactions, and all of those above the others.
    "long_tail_share@2": [0.0, 0.0, 0.5, math.nan],
    "long_tail_share(head=0.5)@2": [0.5, 0.5, 0.5, math.nan],
    "long_tail_share(head=0.6)@1": [0.0, 1.0, 0.0, math.nan],
    "long_tail_share(head=0.5, denominator=k)@4": [0.5, 0.25, 0.25, math.nan],
    "long_tail_share(head=0.3, head_of=items)@1": [0.0, 1.0, 0.0, math.nan],
    "aclt(head=0.5)@3": [2.0, 1.0, 1.0, math.nan],
    # The first user's history and list are hot and wet. The second one's history is also dry, the list half dry and half hot.
    "miscalibration@1": [0.0, (math.log2(0.25 / 0.4975) + math.log2(100)) / 4, math.nan, math.nan],
    "miscalibration(divergence=js)@1": [
        0.0,
        (math.log2(2 / 3) + 1) / 8 + math.log2(4 / 3) / 4,
        math.nan,
        math.nan,
    ],
    "diversity@3": [2 / 3, 1.0, math.nan, math.nan],
    "diversity(unknown=apart)@3": [2 / 3, 1.0, 1.0, math.nan],
    # Hot and wet, dry, dry and hot: pairs share 0, 1/3 and 1/2.
    "diversity(by=categories)@3": [1 - (1 / 3 + 1 / 2) / 3, 2 / 3, 1 / 2, math.nan],
    "diversity(by=vector)@2": [1.0, 1 - math.sqrt(0.5), math.nan, math.nan],
    "categorical_diversity@3": [2 / 3, 1.0, 0.5, math.nan],
    "unexpectedness@2": [0.0, 0.5, math.nan, math.nan],
    "serendipity@2": [0.0, 0.5, math.nan, math.nan],
}


@pytest.mark.parametrize("metric", FIGURES)
def test_figures_that_can_be_checked_by_hand(metric):
    (found,) = values_of(resolved([metric]), SIMPLE)
    np.testing.assert_allclose(found, FIGURES[metric], rtol=1e-12, atol=1e-12)


OF_ALL_FIGURES = {
    "catalogue_coverage@1": 2 / 3,
    "catalogue_coverage@2": 1.0,
    "catalogue_coverage(counted=any)@2": 4 / 3,
    "catalogue_coverage(among=items)@1": 0.5,
    # Three, one and one of the six places have tea, jam and rye; the last is of no item of the training data.
    "gini@2": (3 - 1) * 2 / (3 * 5),
    "gini(denominator='items_minus_1')@2": (3 - 1) * 2 / (2 * 5),
    "gini(among=recommended)@1": 1 / 6,
    "entropy@1": 2 / 3 * math.log2(3 / 2) + 1 / 3 * math.log2(3),
    # Of three pairs all share tea.
    "personalisation@2": 0.5,
    "personalisation@1": 2 / 3,
    "personalisation(denominator=k)@4": 1 - (1 + 1 + 2) / 3 / 4,
}


@pytest.mark.parametrize("metric", OF_ALL_FIGURES)
def test_figures_of_all_lists_that_can_be_checked_by_hand(metric):
    (one,) = resolved([metric])
    found = exposures([one], SIMPLE, [SIMPLE.users])
    assert one.value(found[Slot(0, one.k)]) == pytest.approx(OF_ALL_FIGURES[metric], rel=1e-12)


def test_the_naive_measures_are_those_of_the_registry():
    assert {metric.name for metric in BEYOND} == set(FORMULAS)


@pytest.mark.parametrize("metric", OF_USERS, ids=lambda metric: metric.name)
def test_values_are_within_the_bounds(metric):
    every = part_of(variants(metric), 5)
    for variant, column in zip(every, values_of(every, random_world(11)), strict=True):
        low, high = variant.bounds
        assert column.dtype == np.float64
        assert np.nanmin(column, initial=low) >= low, variant
        assert np.nanmax(column, initial=low) <= high + 1e-12, variant


@pytest.mark.parametrize("metric", OF_USERS, ids=lambda metric: metric.name)
def test_the_order_of_ties_is_flagged_where_it_changes_a_value(metric):
    world = random_world(12)
    every = part_of((variant for variant in variants(metric, undefined=("nan",)) if variant.k is not None), 11)
    changed = 0
    for variant in every:
        found = {}
        for ties in ("item_asc", "item_desc"):
            task = task_of_views(View((variant,), RankingPolicy(ties=ties)))
            scores = score(task, batch_of(world))
            # The same rule for the baseline's own ties would change its lists, too.
            found[ties] = scores.metrics[0], scores.counts["0.hangs_on_tie"]
        (first, hangs), (other, _) = found.values()
        differs = ~np.isclose(first, other, rtol=0, atol=1e-12, equal_nan=True)
        if not variant.reads.facts & {"baseline"}:
            assert hangs[differs].all(), variant
        changed += differs.sum()
    # All items have all of the exposure, in any order; and items of equal scores have the same scores.
    assert changed or not every or metric in (ExposureShare, Confidence)


def test_lists_that_were_reduced_to_their_labels_are_refused():
    nobody = np.empty(0, np.int64)
    empty = RankingBatch(0, nobody, nobody, nobody, nobody, nobody, nobody, nobody, labels=None)
    with pytest.raises(MetricError, match="every item of the lists"):
        parse_metric("novelty@3").compute(empty)


def test_a_histogram_holds_counts_that_no_float_has():
    big = 3_000_000_019
    flags = np.ones(2, np.bool_)
    exposure = Exposure(np.array([big, 1]), np.array([2, 5]), flags, flags, big, Totals(training_items=10))
    n, places = 10, 2 * big + 5
    expected = (5 * (2 * 3 + 5 - n) + 2 * big * (2 * 8 + 2 - n)) / (n * places)
    assert parse_metric("gini").resolve().value(exposure) == expected
    assert pack({"count": exposure.count})
