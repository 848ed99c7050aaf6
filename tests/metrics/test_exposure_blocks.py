"""Values of all lists together without each block of users, against naive ones of the users who are left."""

import math

import numpy as np
import pytest
from helpers.effort import examples
from helpers.met_messages import met
from helpers.scored import exposed_in, merging_exposure, task_of_views
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.lists import FORMULAS
from worlds.recommendations import batch_of, random_world
from worlds.variants import BEYOND, variants

from spark_rankeval.features.exposure.items import ExposureAccumulator, Slot, exposures_of, slots_of
from spark_rankeval.metrics import parse_metric
from spark_rankeval.ranking.lists import RankingPolicy
from spark_rankeval.request.task import View
from spark_rankeval.wire import rows_of
from spark_rankeval.worker.user_metrics import score

OF_ALL = [variant for metric in BEYOND if metric.corpus_level for variant in variants(metric)]


def exposures(metrics, world, parts, block_of, n_partitions=1):
    """The exposure of each slot, of all users and without each block."""
    task = task_of_views(View(tuple(metrics), RankingPolicy()))
    messages, totals = [], None
    for users in parts:
        accumulator = ExposureAccumulator(slots_of(task), lambda _: ["all"])
        scores = score(task, batch_of(world, users))
        totals = totals or exposed_in(scores)[0].batch.recommended.totals
        blocks = np.array([block_of[user] for user in users], np.int64)
        counted = np.ones(len(users), np.bool_)
        messages += accumulator.add([((), slice(None))], counted, exposed_in(scores), blocks)
        messages += accumulator.messages()
    merged = met(rows_of(messages), merging_exposure(ci="bca"), n_partitions)
    return exposures_of(merged, slots_of(task), totals)["all"]


def naive(metric, world, users):
    """The metric of these users' lists."""
    chosen = {name: choice for name, choice in metric.chosen().items() if name != "undefined"}
    value = FORMULAS[metric.name](world, metric.k, users=users, **chosen)
    return 0.0 if metric.undefined == "zero" and math.isnan(value) else value


@settings(max_examples=examples(by_day=5, at_night=60), deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), n_blocks=st.sampled_from([1, 3, 64]), n_parts=st.sampled_from([1, 3]))
def test_without_a_block_values_are_those_of_the_other_users(seed, n_blocks, n_parts):
    world = random_world(seed, n_users=24)
    rng = np.random.default_rng(seed)
    block_of = dict(zip(world.users, rng.integers(0, n_blocks, len(world.users)).tolist(), strict=True))
    parts = [part.tolist() for part in np.array_split(np.array(world.users), n_parts)]
    found = exposures(OF_ALL, world, parts, block_of, n_partitions=n_parts)
    # Users without a list are in no block, but for block 0, of which nothing may be known either.
    in_lists = {block_of[user] for user in world.users if world.predictions.get(user)}
    for metric in OF_ALL:
        slot = found[Slot(0, metric.k)]
        assert metric.value(slot.whole) == pytest.approx(naive(metric, world, world.users), nan_ok=True), metric
        blocks = sorted(in_lists | {0})
        assert len(slot.leave_one_out) == len(blocks)
        for block, exposure in zip(blocks, slot.leave_one_out, strict=True):
            left = [user for user in world.users if block_of[user] != block]
            expected = naive(metric, world, left)
            assert metric.value(exposure) == pytest.approx(expected, rel=1e-12, abs=1e-12, nan_ok=True), (metric, block)
            assert exposure.n_users == sum(bool(world.predictions.get(user)) for user in left)


def test_no_split_of_users_changes_a_bit_of_a_value_without_a_block():
    world, metrics = random_world(5), [parse_metric(name).resolve() for name in ("gini@3", "entropy@3")]
    block_of = {user: user % 5 for user in world.users}
    apart = exposures(metrics, world, [[user] for user in world.users], block_of, 3)
    together = exposures(metrics, world, [world.users], block_of)
    for metric in metrics:
        pairs = zip(apart[Slot(0, 3)].leave_one_out, together[Slot(0, 3)].leave_one_out, strict=True)
        assert all(metric.value(one) == metric.value(other) for one, other in pairs)
