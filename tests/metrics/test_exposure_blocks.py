"""Values of all lists together without each block of users, against naive ones of the users who are left."""

import math

import numpy as np
import pyarrow as pa
import pytest
from beyond_oracle import FORMULAS
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from variants import BEYOND, variants
from worlds import batch_of, random_world

from spark_rankeval.metrics import parse_metric
from spark_rankeval.ranking.lists import RankingPolicy
from spark_rankeval.request.task import ScoringTask, View
from spark_rankeval.worker.exposures import (
    BLOCK,
    BLOCKS,
    COUNT,
    EXPOSURE,
    ITEM,
    KEY,
    KIND,
    SLOT,
    ExposureAccumulator,
    Slot,
    slots_of,
)
from spark_rankeval.worker.merged_exposures import merge_exposures
from spark_rankeval.worker.merging import MergedStates
from spark_rankeval.worker.packing import PLACE, STATE
from spark_rankeval.worker.scoring import score
from spark_rankeval.worker.slot_exposures import exposures_of

OF_ALL = [variant for metric in BEYOND if metric.corpus_level for variant in variants(metric)]


def added_up(rows, n_reducers):
    """What Spark makes of the rows of exposure: a row an item, with its count in each block."""
    of_items = {}
    for row in pa.Table.from_batches(rows).to_pylist():
        blocks = of_items.setdefault(tuple(row[name] for name in (SLOT, KEY, ITEM, KIND)), {})
        blocks[row[BLOCK]] = blocks.get(row[BLOCK], 0) + row[COUNT]
    for reducer in range(n_reducers):
        mine = [each for place, each in enumerate(of_items.items()) if place % n_reducers == reducer]
        yield pa.table(
            {
                PLACE: pa.nulls(len(mine), pa.int32()),
                STATE: pa.nulls(len(mine), pa.binary()),
                SLOT: pa.array([key[0] for key, _ in mine], pa.int32()),
                KEY: pa.array([key[1] for key, _ in mine], pa.string()),
                KIND: pa.array([key[3] for key, _ in mine], pa.int8()),
                COUNT: pa.array([sum(blocks.values()) for _, blocks in mine], pa.int64()),
                BLOCKS: pa.array(
                    [[{BLOCK: block, COUNT: count} for block, count in blocks.items()] for _, blocks in mine],
                    pa.list_(pa.struct({BLOCK: pa.int8(), COUNT: pa.int64()})),
                ),
            }
        )


def exposures(metrics, world, parts, block_of, n_reducers=1):
    """The exposure of each slot, of all users and without each block."""
    task = ScoringTask((View(tuple(metrics), RankingPolicy()),))
    rows, totals = [], None
    for users in parts:
        accumulator = ExposureAccumulator(slots_of(task), lambda _: ["all"])
        scores = score(task, batch_of(world, users))
        totals = totals or scores.exposed[0].batch.recommended.totals
        blocks = np.array([block_of[user] for user in users], np.int64)
        counted = np.ones(len(users), np.bool_)
        rows += accumulator.add([((), slice(None))], counted, scores.exposed, blocks)
        rows += accumulator.rows()
    packed = [
        batch.column(EXPOSURE)[0].as_py()
        for whole in added_up(rows, n_reducers)
        for batch in merge_exposures(lambda: MergedStates(dict))(iter(whole.to_batches(max_chunksize=7)))
    ]
    return exposures_of(packed, slots_of(task), totals)["all"]


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
    found = exposures(OF_ALL, world, parts, block_of, n_reducers=n_parts)
    # Users without a list are in no block, but for block 0, of which nothing may be known either.
    in_lists = {block_of[user] for user in world.users if world.predictions.get(user)}
    for metric in OF_ALL:
        slot = found[Slot(0, metric.k)]
        assert metric.value(slot.whole) == pytest.approx(naive(metric, world, world.users), nan_ok=True), metric
        blocks = sorted(in_lists | {0})
        assert len(slot.without) == len(blocks)
        for block, exposure in zip(blocks, slot.without, strict=True):
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
        pairs = zip(apart[Slot(0, 3)].without, together[Slot(0, 3)].without, strict=True)
        assert all(metric.value(one) == metric.value(other) for one, other in pairs)
