"""Measures beyond accuracy: each against a naive one of raw tables, through the worker's way from Arrow to values."""

import dataclasses
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from helpers.met_messages import met
from helpers.scored import exposed_in, merging_exposure, task_of_views
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.lists import FORMULAS, World, value
from worlds.recommendations import SIMPLE, batch_of, random_world, scored
from worlds.variants import BEYOND, in_thirds, some, variants

from spark_rankeval.dialects import DEFAULT
from spark_rankeval.errors import MetricError, OptionError
from spark_rankeval.metrics import RankingBatch, parse_metric
from spark_rankeval.metrics.item_groups import Exposure
from spark_rankeval.metrics.stages import Confidence
from spark_rankeval.ranking.batch import UNKNOWN, Totals
from spark_rankeval.ranking.user_lists import Ragged, RankingPolicy
from spark_rankeval.request.task import Lists, View, resolve
from spark_rankeval.worker import all_lists, scoring
from spark_rankeval.worker import features as item_facts
from spark_rankeval.worker import features as side_lists
from spark_rankeval.worker.all_lists import ExposureAccumulator, figures_of_slots, table_of, total_of
from spark_rankeval.worker.process import pack, rows_of, with_features
from spark_rankeval.worker.scoring import score

OF_USERS = [metric for metric in BEYOND if not metric.corpus_level]
OF_ALL = [metric for metric in BEYOND if metric.corpus_level]
ALL_VALUES = pytest.mark.parametrize("metric", OF_USERS, ids=lambda metric: metric.name)


def resolved(metrics):
    return [parse_metric(metric).resolve() for metric in metrics]


def values_of(metrics, world, users=None, shuffled=None):
    """Every metric of every user: a column a metric. Cutoffs need views of their own, which cut lists."""
    views = tuple(View((metric,), RankingPolicy()) for metric in metrics)
    return scored(task_of_views(*views), batch_of(world, users, shuffled)).metrics


def exposures(metrics, world, parts, n_partitions=1, block_of=None):
    """What the driver knows of the exposure of several partitions, by metric; items meet in so many partitions."""
    task = task_of_views(View(tuple(metrics), RankingPolicy()))
    messages, totals = [], Totals()
    for users in parts:
        accumulator = ExposureAccumulator(task, lambda _: ["all"])
        exposed = exposed_in(scored(task, batch_of(world, users)))
        known = dataclasses.astuple(exposed[0].batch.recommended.totals)
        totals = Totals(*map(max, dataclasses.astuple(totals), known))
        blocks = () if block_of is None else (np.array([block_of[user] for user in users], np.int64),)
        messages += accumulator.add([((), slice(None))], np.ones(len(users), np.bool_), exposed, *blocks)
        messages += accumulator.messages()
    merged = met(rows_of(messages), merging_exposure(ci="bca" if block_of else "t"), n_partitions)
    found = figures_of_slots(merged, task, totals, has_blocks=block_of is not None).get("all", {})
    assert block_of or not any(each.leave_one_out for each in found.values()), "nobody asked for blocks"
    return {metric: figures for slot, figures in found.items() for metric in slot.metrics}


def compare(metrics, world, users=None, shuffled=None):
    users = world.users if users is None else users
    for metric, column in zip(metrics, values_of(metrics, world, users, shuffled), strict=True):
        expected = [value(metric, world, user) for user in users]
        np.testing.assert_allclose(column, expected, rtol=1e-12, atol=1e-12, equal_nan=True, err_msg=str(metric))
        (low, high), defined = metric.bounds, column[~np.isnan(column)]
        assert column.dtype == np.float64
        assert ((low <= defined) & (defined <= high + 1e-12)).all(), metric


@pytest.mark.parametrize(("metric", "mine"), in_thirds(OF_USERS))
def test_every_variant_equals_the_naive_one(metric, mine):
    compare(mine, random_world(0, n_users=24))


@pytest.mark.parametrize(("metric", "mine"), in_thirds(OF_ALL))
def test_every_variant_of_all_lists_equals_the_naive_one(metric, mine):
    world = random_world(0)
    found = exposures(mine, world, [world.users])
    for variant in mine:
        expected = pytest.approx(value(variant, world), rel=1e-12, abs=1e-12)
        assert variant.value(found[variant].whole) == expected, variant


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
).map(lambda world: replace(world, genres={item: world.genres[item] for item in world.genres if item in world.items}))
ALL_VARIANTS = {metric.name: variants(metric) for metric in BEYOND}


@settings(max_examples=4, deadline=None, derandomize=True)
@given(world=WORLDS, choice=st.integers(0, 10**6))
def test_any_tables_give_what_the_naive_measures_give(world, choice):
    chosen = [every[(choice + 7919 * n) % len(every)] for every in ALL_VARIANTS.values() for n in range(2)]
    compare([metric for metric in chosen if not metric.corpus_level], world)
    of_all = [metric for metric in chosen if metric.corpus_level]
    found = exposures(of_all, world, [[user] for user in world.users])
    for metric in of_all:
        mine = metric.value(found[metric].whole)
        assert mine == pytest.approx(value(metric, world), rel=1e-12, abs=1e-12, nan_ok=True), metric


def bits(columns):
    return np.stack(columns).view(np.int64)


def test_no_split_into_batches_or_slices_and_no_order_of_rows_changes_a_bit(monkeypatch):
    world, rng = random_world(9), np.random.default_rng(7)
    metrics = [metric for kind in OF_USERS for metric in some(kind, 1)]
    whole = values_of(metrics, world)
    parts = [part.tolist() for part in np.array_split(np.array(world.users), 4)]
    single = [values_of(metrics, world, part, rng) for part in parts]
    np.testing.assert_array_equal(bits([np.concatenate(columns) for columns in zip(*single, strict=True)]), bits(whole))
    monkeypatch.setattr(scoring, "_SLICE", 20)
    np.testing.assert_array_equal(bits(values_of(metrics, world)), bits(whole))


def test_lists_that_are_read_for_the_largest_of_several_cutoffs_have_the_values_of_each():
    world = random_world(11)
    metrics = [kind(k=k).resolve() for kind in OF_USERS if kind.takes_cutoff for k in (1, 3, None)]
    together = scored(task_of_views(View(tuple(metrics), RankingPolicy())), batch_of(world)).metrics
    for metric, alone, beside in zip(metrics, values_of(metrics, world), together, strict=True):
        np.testing.assert_array_equal(beside, alone, err_msg=str(metric))


def test_vectors_come_in_parts_that_fit_into_memory_and_change_no_bit(monkeypatch):
    world = random_world(13)
    metrics = resolved(["diversity(by=vector)@5", "serendipity(against=history)@5", "gini@3", "novelty@3"])
    task, batch = task_of_views(View(tuple(metrics), RankingPolicy())), batch_of(world)
    whole = scored(task, batch).metrics
    monkeypatch.setattr(side_lists, "_CELLS", 100)
    parts, single = [], []
    for part, features in with_features(task, iter([batch])):
        parts.append(part)
        single.append(score(task, part, features).metrics)
    assert len(parts) > 5
    assert sum(part.num_rows for part in parts) == batch.num_rows
    np.testing.assert_array_equal(bits([np.concatenate(columns) for columns in zip(*single, strict=True)]), bits(whole))


@ALL_VALUES
def test_a_mean_over_all_orders_of_ties_is_refused_where_the_order_matters(metric):
    lists = Lists(scored_arrays=False, label_arrays=False)
    asked = {"one": metric(k=3) if metric.takes_cutoff else metric()}
    if metric.takes_cutoff and metric is not Confidence:
        with pytest.raises(OptionError, match="average"):
            resolve(asked, DEFAULT, {}, lists, "average", has_fact_tables=True)
    assert resolve({"one": metric()}, DEFAULT, {}, lists, "average", has_fact_tables=True)


ALL_LISTS = [variant for metric in OF_ALL for variant in variants(metric)]


def test_no_split_into_partitions_changes_a_value_of_all_lists():
    world, n_parts = random_world(10), 7
    parts = [part.tolist() for part in np.array_split(np.array(world.users), n_parts) if len(part)]
    split, whole = exposures(ALL_LISTS, world, parts, 3), exposures(ALL_LISTS, world, [world.users])
    for metric in ALL_LISTS:
        assert metric.value(split[metric].whole) == metric.value(whole[metric].whole), metric


def naive(metric, world, users):
    """The metric of these users' lists."""
    chosen = {name: choice for name, choice in metric.chosen().items() if name != "undefined"}
    found = FORMULAS[metric.name](world, metric.k, users=users, **chosen)
    return {"nan": math.nan, "zero": 0.0, "one": 1.0}[metric.undefined] if math.isnan(found) else found


@settings(max_examples=3, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), n_blocks=st.sampled_from([1, 3, 64]), n_parts=st.sampled_from([1, 3]))
def test_without_a_block_values_are_those_of_the_other_users(seed, n_blocks, n_parts):
    world = random_world(seed, n_users=24)
    rng = np.random.default_rng(seed)
    block_of = dict(zip(world.users, rng.integers(0, n_blocks, len(world.users)).tolist(), strict=True))
    parts = [part.tolist() for part in np.array_split(np.array(world.users), n_parts)]
    found = exposures(ALL_LISTS, world, parts, n_parts, block_of)
    # Users without a list are in no block.
    in_lists = {block_of[user] for user in world.users if world.predictions.get(user)}
    for metric in ALL_LISTS:
        slot = found[metric]
        assert metric.value(slot.whole) == pytest.approx(naive(metric, world, world.users), nan_ok=True), metric
        blocks = sorted(in_lists)
        assert len(slot.leave_one_out) == len(blocks)
        for block, rest in zip(blocks, slot.leave_one_out, strict=True):
            left = [user for user in world.users if block_of[user] != block]
            expected = naive(metric, world, left)
            assert metric.value(rest) == pytest.approx(expected, rel=1e-12, abs=1e-12, nan_ok=True), (metric, block)
            assert rest.n_users == sum(bool(world.predictions.get(user)) for user in left)


def test_no_split_of_users_changes_a_bit_of_a_value_without_a_block():
    world, metrics = random_world(5), [parse_metric(name).resolve() for name in ("gini@3", "entropy@3")]
    block_of = {user: user % 5 for user in world.users}
    apart = exposures(metrics, world, [[user] for user in world.users], 3, block_of)
    together = exposures(metrics, world, [world.users], 1, block_of)
    for metric in metrics:
        pairs = zip(apart[metric].leave_one_out, together[metric].leave_one_out, strict=True)
        assert all(metric.value(one) == metric.value(other) for one, other in pairs)


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
    buckets = all_lists._buckets_of(ids)
    order = np.random.default_rng(1).permutation(len(ids))
    assert all_lists._buckets_of(ids.take(pa.array(order))).tolist() == buckets[order].tolist()
    assert all_lists._buckets_of(ids.slice(7, 90)).tolist() == buckets[7:97].tolist()
    assert np.bincount(buckets, minlength=all_lists.N_BUCKETS).max() < 1.5 * len(ids) / all_lists.N_BUCKETS
    assert set(buckets) == set(range(all_lists.N_BUCKETS))


def test_of_two_zeros_each_meets_the_other_and_a_null_meets_nulls():
    assert len(set(all_lists._buckets_of(pa.array([0.0, -0.0])))) == 1
    for kind in (pa.int64(), pa.string()):
        assert len(set(all_lists._buckets_of(pa.array([None, None], kind)))) == 1


def held_messages(monkeypatch, n_bytes):
    """The messages of exposure of a world by whether they were sent on early, a worker holding so many bytes."""
    monkeypatch.setattr(all_lists, "HELD", n_bytes)
    monkeypatch.setattr(all_lists, "_COUNTED", 16)
    world, metrics = random_world(14, n_users=200), resolved(["entropy@3", "gini(among=recommended)@5"])
    task = task_of_views(View(tuple(metrics), RankingPolicy()))
    accumulator = ExposureAccumulator(task, lambda key: ["all", *key])
    early = []
    for users in np.array_split(world.users, 20):
        side = users % 2
        groups = [(("even",), np.flatnonzero(side == 0)), (("odd",), np.flatnonzero(side == 1))]
        exposed = exposed_in(scored(task, batch_of(world, users.tolist())))
        early += accumulator.add(groups, np.ones(len(users), np.bool_), exposed)
    return early, list(accumulator.messages())


def test_counts_that_a_worker_cannot_hold_are_sent_on_and_add_up(monkeypatch):
    def counted(messages):
        total = total_of((table_of(message.state) for message in messages), all_lists.COUNT)
        return {tuple(row.items()) for row in total.to_pylist()}

    (_, whole), (early, late) = held_messages(monkeypatch, 1 << 20), held_messages(monkeypatch, 1000)
    assert len(early) > 10 * max(1, len(late))
    assert counted(early + late) == counted(whole)
    # Two slots of three slices.
    assert len({(dict(row)["slot"], dict(row)["slice"]) for row in counted(whole)}) == 6


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
    "miscalibration(divergence=js)@1": [0.0, (math.log2(2 / 3) + 1) / 8 + math.log2(4 / 3) / 4, math.nan, math.nan],
    "diversity@3": [2 / 3, 1.0, math.nan, math.nan],
    "diversity(unknown=apart)@3": [2 / 3, 1.0, 1.0, math.nan],
    # Hot and wet, dry, dry and hot: pairs share 0, 1/3 and 1/2.
    "diversity(by=categories)@3": [1 - (1 / 3 + 1 / 2) / 3, 2 / 3, math.nan, math.nan],
    "diversity(by=vector)@2": [1.0, 1 - math.sqrt(0.5), math.nan, math.nan],
    "categorical_diversity@3": [2 / 3, 1.0, 0.5, math.nan],
    "unexpectedness@2": [0.0, 0.5, math.nan, math.nan],
    "serendipity@2": [0.0, 0.5, math.nan, math.nan],
}


OF_ALL_FIGURES = {
    "catalogue_coverage@1": 2 / 3, "catalogue_coverage@2": 1.0, "catalogue_coverage(counted=any)@2": 4 / 3,
    "catalogue_coverage(among=items)@1": 0.5,
    # Three, one and one of the six places have tea, jam and rye; the last is of no item of the training data.
    "gini@2": (3 - 1) * 2 / (3 * 5), "gini(denominator='items_minus_1')@2": (3 - 1) * 2 / (2 * 5),
    "gini(among=recommended)@1": 1 / 6, "entropy@1": 2 / 3 * math.log2(3 / 2) + 1 / 3 * math.log2(3),
    # Of three pairs all share tea.
    "personalisation@2": 0.5, "personalisation@1": 2 / 3, "personalisation(denominator=k)@4": 1 - (1 + 1 + 2) / 3 / 4,
}  # fmt: skip


def test_figures_that_can_be_checked_by_hand():
    for text, found in zip(FIGURES, values_of(resolved(FIGURES), SIMPLE), strict=True):
        np.testing.assert_allclose(found, FIGURES[text], rtol=1e-12, atol=1e-12, err_msg=text)
    of_all = resolved(OF_ALL_FIGURES)
    found = exposures(of_all, SIMPLE, [SIMPLE.users])
    values = {text: one.value(found[one].whole) for text, one in zip(OF_ALL_FIGURES, of_all, strict=True)}
    assert values == pytest.approx(OF_ALL_FIGURES, rel=1e-12)


def test_the_naive_measures_are_those_of_the_registry():
    assert {metric.name for metric in BEYOND} == set(FORMULAS)


def test_the_order_of_ties_is_flagged_where_it_changes_a_value():
    batch, n_changed = batch_of(random_world(12)), 0
    every = [variant for metric in OF_USERS if metric.takes_cutoff for variant in some(metric, 2, cutoffs=(1, 3))]
    for variant in every:
        # The same rule for the baseline's own ties would change its lists, too.
        if not variant.reads.facts & {"baseline"}:
            one, other = (
                scored(task_of_views(View((variant,), RankingPolicy(ties=ties))), batch)
                for ties in ("item_asc", "item_desc")
            )
            differs = ~np.isclose(one.metrics[0], other.metrics[0], rtol=0, atol=1e-12, equal_nan=True)
            assert one.counts["0.hangs_on_tie"][differs].all(), variant
            n_changed += differs.any()
    assert n_changed > len(every) / 3


def test_lists_that_were_reduced_to_their_labels_are_refused():
    nobody = np.empty(0, np.int64)
    empty = RankingBatch(0, nobody, nobody, nobody, nobody, nobody, nobody, nobody, labels=None)
    with pytest.raises(MetricError, match="every item of the lists"):
        parse_metric("novelty@3").compute(empty)


def test_a_histogram_holds_counts_that_no_float_has():
    big = 3_000_000_019
    flags = np.ones(2, np.bool_)
    counted = Exposure(np.array([big, 1]), np.array([2, 5]), flags, flags, big, Totals(training_items=10))
    n, places = 10, 2 * big + 5
    expected = (5 * (2 * 3 + 5 - n) + 2 * big * (2 * 8 + 2 - n)) / (n * places)
    assert parse_metric("gini").resolve().value(counted) == expected
    assert pack({"count": counted.count})


# ---- what is known of items: who is in the long tail, beside Elliot's way to find it, and sets of categories


def above(n_users):
    """The shares of pairs and of items that are of more popular items, for each item by how many users have it."""
    return [shares[:-1] for shares in item_facts.shares_above(n_users)]


def elliots_head(n_users, share):
    """The most popular items, one after the other, until they have this share of the interactions."""
    left = sum(n_users) * share
    head = set()
    for item in sorted(range(len(n_users)), key=lambda item: -n_users[item]):
        head.add(item)
        left -= n_users[item]
        if left <= 0:
            break
    return head


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    n_users=st.lists(st.integers(1, 400), min_size=1, max_size=30, unique=True),
    share=st.sampled_from([0.25, 0.5, 0.75]),
)
def test_of_items_that_differ_in_popularity_the_head_is_that_of_elliot(n_users, share):
    of_interactions, _ = above(np.array(n_users))
    assert set(np.flatnonzero(of_interactions < share).tolist()) == elliots_head(n_users, share)


def test_equally_popular_items_are_in_one_group_and_an_item_of_nobody_is_in_the_tail():
    of_interactions, of_items = above(np.array([1, 4, 2, 1, 2, 0]))
    assert of_interactions.tolist() == [0.8, 0.0, 0.4, 0.8, 0.4, 1.0]
    assert of_items.tolist() == [3 / 5, 0.0, 1 / 5, 3 / 5, 1 / 5, 1.0]


def test_without_training_data_all_items_are_in_the_tail():
    assert [shares.tolist() for shares in above(np.array([0, 0]))] == [[1.0, 1.0], [1.0, 1.0]]


def test_different_sets_of_categories_have_one_index_and_their_categories_one_code_each():
    indices, sets = item_facts.read_sets(pa.array(['["a","b"]', None, "[]", '["c"]', '["a","b"]', '["b"]']))
    assert indices.tolist() == [0, UNKNOWN, UNKNOWN, 1, 0, 2]
    assert [part.tolist() for part in np.split(sets.values, sets.offsets[1:-1])] == [[0, 1], [2], [1]]
    indices, sets = item_facts.read_sets(pa.nulls(2, pa.string()))
    assert (indices.tolist(), sets.n_users) == ([UNKNOWN, UNKNOWN], 0)


def test_the_shares_of_a_history_are_of_its_items_with_a_category():
    sets = Ragged.from_lists([[0, 1], [2], [1]], np.int64)
    user, indices = np.array([0, 0, 0, 2, 1]), np.array([0, 1, UNKNOWN, 2, UNKNOWN])
    shares = side_lists.shares_of_categories(user, indices, sets)
    found = dict(
        zip(zip(shares.user.tolist(), shares.category.tolist(), strict=True), shares.share.tolist(), strict=True)
    )
    assert found == {(0, 0): 0.25, (0, 1): 0.25, (0, 2): 0.5, (2, 1): 1.0}
    assert len(side_lists.shares_of_categories(user[:0], indices[:0], sets).user) == 0
