"""Scores as probabilities: against plain loops, through the worker's way from Arrow to sums."""

import math
from dataclasses import replace

import numpy as np
import pytest
from helpers.met_messages import met
from helpers.scored import exposed_in, merging_exposure, task_of_views
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import probabilities
from oracles.lists import World
from worlds.recommendations import batch_of, random_world, scored
from worlds.variants import PROBABILITIES, variants

from spark_rankeval.metrics import parse_metric
from spark_rankeval.ranking.batch import Totals
from spark_rankeval.ranking.user_lists import RankingPolicy
from spark_rankeval.request.task import View
from spark_rankeval.worker.all_lists import PairAccumulator, figures_of_slots, slots_of
from spark_rankeval.worker.process import rows_of

EVERY = [
    variant.resolve() for metric in PROBABILITIES for variant in variants(metric, (None, 1, 4), precision=("float64",))
]


def world_of(seed, n_users=24):
    """A world whose scores are probabilities; some are 0 and 1."""
    world, rng = random_world(seed, n_users), np.random.default_rng(seed)
    lists = {
        user: [(item, float(np.clip(rng.normal(0.5, 0.4), 0, 1))) for item, _ in pairs]
        for user, pairs in world.predictions.items()
    }
    return replace(world, predictions=lists)


def sums(metrics, world, parts, block_of=None):
    """The sums of the pairs of each metric, of several partitions."""
    task = task_of_views(View(tuple(metrics), RankingPolicy()))
    messages = []
    for users in parts:
        accumulator = PairAccumulator(task, lambda _: ["all"])
        exposed = exposed_in(scored(task, batch_of(world, users)))
        blocks = None if block_of is None else np.array([block_of[user] for user in users], np.int64)
        messages += accumulator.add([((), slice(None))], np.ones(len(users), np.bool_), exposed, blocks)
        messages += accumulator.messages()
    merged = met(rows_of(messages), merging_exposure(ci="bca" if block_of else "t"))
    found = figures_of_slots(merged, task, Totals(), has_blocks=block_of is not None)["all"]
    return {metric: pairs for slot, pairs in found.items() for metric in slot.metrics}


def same(mine, expected):
    return mine == pytest.approx(expected, rel=1e-12, abs=1e-12, nan_ok=True)


@settings(max_examples=5, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), n_blocks=st.sampled_from([2, 64]), n_parts=st.sampled_from([1, 3]))
def test_every_variant_is_that_of_plain_loops_also_without_a_block(seed, n_blocks, n_parts):
    world, rng = world_of(seed), np.random.default_rng(seed)
    block_of = dict(zip(world.users, rng.integers(0, n_blocks, len(world.users)).tolist(), strict=True))
    parts = [part.tolist() for part in np.array_split(np.array(world.users), n_parts)]
    found = sums(EVERY, world, parts, block_of)
    for metric in EVERY:
        pairs = found[metric]
        assert same(metric.value(pairs.whole), probabilities.value(metric, world, world.users)), metric

        def counts(user, metric=metric):
            return any(probabilities.pairs(world, [user], metric.k, metric.threshold, metric.unlabelled))

        counted = list(filter(counts, world.users))
        assert pairs.whole.n_users == len(counted)
        blocks = sorted({block_of[user] for user in counted})
        others = [without for without in pairs.leave_one_out if without.n_users < len(counted)]
        for block, without in zip(blocks, others, strict=True):
            left = [user for user in counted if block_of[user] != block]
            assert same(metric.value(without), probabilities.value(metric, world, left)), (metric, block)
            assert without.n_users == len(left)


def test_no_split_into_partitions_changes_a_bit():
    world = world_of(3, 60)
    block_of = {user: user % 7 for user in world.users}
    whole = sums(EVERY, world, [world.users], block_of)
    split = sums(EVERY, world, [[user] for user in reversed(world.users)], block_of)
    for metric in EVERY:
        assert split[metric].whole.sums == whole[metric].whole.sums
        for one, other in zip(split[metric].leave_one_out, whole[metric].leave_one_out, strict=True):
            assert one.sums == other.sums


SIMPLE = World(
    predictions={1: [(10, 0.75), (11, 0.5)], 2: [(10, 0.25), (12, 0.0)], 3: []},
    labels={1: [(10, 1.0), (11, 0.0), (13, 1.0)], 2: [(10, 2.0)], 4: [(10, 1.0)]},
)
CLIPPED = -math.log1p(-(2.0**-52))
FIGURES = {
    # 10 and 11 of user 1, and 10 of user 2; item 12 has no label, and that of 13 has no score.
    "log_loss": (math.log(4 / 3) + math.log(2) + math.log(4) + CLIPPED) / 4,
    "log_loss(unlabelled=left_out)": (math.log(4 / 3) + math.log(2) + math.log(4)) / 3,
    "logloss@1": (math.log(4 / 3) + math.log(4)) / 2,
    "log_loss(relevance_threshold=2)@1": (math.log(4) + math.log(4)) / 2,
    "normalised_entropy": (math.log(4 / 3) + math.log(2) + math.log(4) + CLIPPED) / 4 / math.log(2),
    "normalized_entropy@1": math.nan,
    "calibration_ratio": 1.5 / 2, "calibration_ratio@1": 1.0 / 2,
    "calibration_ratio(relevance_threshold=3)": math.nan, "calibration_ratio(relevance_threshold=3,undefined=zero)": 0.0,
}  # fmt: skip


def test_figures_that_can_be_checked_by_hand():
    metrics = [parse_metric(text).resolve() for text in FIGURES]
    found = sums(metrics, SIMPLE, [SIMPLE.users])
    values = [metric.value(found[metric].whole) for metric in metrics]
    assert dict(zip(FIGURES, values, strict=True)) == pytest.approx(FIGURES, rel=1e-14, nan_ok=True)


def test_scores_of_32_bits_are_clipped_by_their_epsilon():
    certain = World(predictions={1: [(10, 0.0), (11, 1.0)]}, labels={1: [(10, 1.0), (11, 0.0)]})
    losses = {"float32": 23 * math.log(2), "float64": 52 * math.log(2)}
    for precision, loss in losses.items():
        metric = parse_metric(f"log_loss(precision={precision})").resolve()
        assert same(metric.value(sums([metric], certain, [[1]])[metric].whole), loss)
        assert metric.for_scores_of_32_bits() == metric
    plain = parse_metric("log_loss").resolve()
    assert plain.for_scores_of_32_bits() == parse_metric("log_loss(precision=float32)").resolve()
    view = View((plain, parse_metric("gini@3").resolve()), RankingPolicy()).for_numbers_of_32_bits(
        frozenset({"scores", "grades"})
    )
    assert [getattr(metric, "precision", "") for metric in view.metrics] == ["float32", ""]


def test_metrics_of_the_same_pairs_are_added_up_once():
    names = [
        "log_loss", "normalised_entropy", "log_loss(undefined=zero)", "calibration_ratio", "log_loss@3",
        "log_loss(precision=float32)", "normalised_entropy(unlabelled=left_out)", "log_loss(relevance_threshold=2)",
    ]  # fmt: skip
    metrics = [parse_metric(name).resolve() for name in names]
    slots = slots_of(task_of_views(View(tuple(metrics), RankingPolicy())))
    assert [len(slot.metrics) for slot in slots] == [3, 1, 1, 1, 1, 1]


def test_directions_and_bounds():
    kinds = {metric.name: metric for metric in PROBABILITIES}
    assert {*kinds} == {*probabilities.FORMULAS}
    assert [(kinds[name].describes, kinds[name].larger_is_better) for name in sorted(kinds)] == [
        (True, True), (False, False), (False, False),
    ]  # fmt: skip
    assert all(kind().bounds == (0.0, math.inf) and kind().reads_labels and kind.corpus_level for kind in PROBABILITIES)
