"""What groups of items get: against naive loops, through the worker's way from Arrow to values; figures to check by hand."""

import functools
import itertools
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from helpers.met_messages import met
from helpers.scored import exposed_in, merging_exposure, task_of_views
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.item_groups import OF_ALL, OF_USERS, groups_of, value
from oracles.lists import World
from worlds.recommendations import batch_of, random_world
from worlds.variants import EVERY_METRIC, GROUPS, PROBABILITIES

from spark_rankeval.metrics import parse_metric
from spark_rankeval.metrics.base import UNSET
from spark_rankeval.metrics.item_groups import GroupExposure
from spark_rankeval.ranking.batch import Totals
from spark_rankeval.ranking.user_lists import LIST_PARAMETERS, RankingPolicy
from spark_rankeval.request.task import View
from spark_rankeval.statistics.description import DescriptionOptions
from spark_rankeval.worker.all_lists import GroupAccumulator, figures_of_slots, slice_as_text, slots_of
from spark_rankeval.worker.features import GROUP as NAME
from spark_rankeval.worker.features import GROUPS_TABLE, ITEM, ItemFacts
from spark_rankeval.worker.process import messages_of, rows_of, stream_of, with_columns, with_features
from spark_rankeval.worker.reading import grades_column
from spark_rankeval.worker.scoring import score
from spark_rankeval.worker.states import STATES, state_of_batches


def batch_with_groups(world, users, shuffled=None):
    """The batch of users, with the groups of items."""
    pairs = [(item, name) for item in world.items for name in groups_of(world, item) or [None]]
    if shuffled is not None:
        pairs = [pairs[place] for place in shuffled.permutation(len(pairs))]
    items, names = zip(*pairs, strict=True)
    packed = pa.table({ITEM: pa.array(items, pa.int64()), NAME: pa.array(names, pa.string())})
    first = pa.array([stream_of(packed).to_pybytes()] + [None] * (len(users) - 1), pa.binary())
    return with_columns(batch_of(world, users, shuffled), {GROUPS_TABLE: first})


def scored(task, world, users, shuffled=None):
    """The scores of users, whose task received the groups of items."""
    ((part, received),) = with_features(task, iter([batch_with_groups(world, users, shuffled)]))
    return score(task, part, received)


def task_of(metrics, judged_only=False):
    # In one view, so that metrics share what they remember of a batch.
    return task_of_views(*([View(tuple(metrics), RankingPolicy(judged_only=judged_only))] if metrics else []))


def exposures(metrics, world, parts, block_of=None, shuffled=None, judged_only=False):
    """What groups get, by the place of the metric."""
    task = task_of(metrics, judged_only)
    messages = []
    for users in parts:
        accumulator = GroupAccumulator(task, lambda _: ["all"])
        blocks = None if block_of is None else np.array([block_of[user] for user in users], np.int64)
        exposed = exposed_in(scored(task, world, users, shuffled))
        messages += accumulator.add([((), slice(None))], np.ones(len(users), np.bool_), exposed, blocks)
        messages += accumulator.messages()
    merged = met(rows_of(messages), merging_exposure())
    found = figures_of_slots(merged, task, Totals(), has_blocks=block_of is not None)["all"]
    slot_of = {metric: slot for slot in found for metric in slot.metrics}
    return [found[slot_of[metric]] for metric in metrics]


def drawn(rng, metric):
    """A metric with a cutoff and parameters drawn at random."""
    choices = {
        "relevance_threshold": (None, -math.inf, 2.0),
        "p": (0.8, 0.5),
        "group": (None, "c1", "shared", "nowhere"),
        **dict.fromkeys((*LIST_PARAMETERS, "no_answer"), (UNSET,)),
    }
    options = {item.name: choices.get(item.name) or item.metadata["choices"] for item in metric.parameters()}
    chosen = {name: values[int(rng.integers(len(values)))] for name, values in options.items()}
    return metric(k=(None, 1, 3, 10)[int(rng.integers(4))], **chosen).resolve()


def within_bounds(metric, values):
    low, high = metric.bounds
    return (np.isnan(values) | ((low <= values) & (values <= high + 1e-12))).all()


def same(mine, expected):
    return mine == pytest.approx(expected, rel=1e-7, abs=1e-7, nan_ok=True)


@settings(max_examples=4, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), n_parts=st.sampled_from([1, 3]))
def test_any_tables_give_what_the_naive_loops_give(seed, n_parts):
    rng = np.random.default_rng(seed)
    world = random_world(seed, n_users=12)
    metrics = [drawn(rng, metric) for metric in GROUPS for _ in range(3)]
    assert [parse_metric(str(metric)) for metric in metrics] == metrics
    of_users = [metric for metric in metrics if not metric.corpus_level]
    found = scored(task_of(of_users), world, world.users).metrics
    for metric, column in zip(of_users, found, strict=True):
        expected = [value(metric, world, user) for user in world.users]
        assert within_bounds(metric, column)
        np.testing.assert_allclose(column, expected, rtol=1e-9, atol=1e-12, equal_nan=True, err_msg=str(metric))
    of_all = [metric for metric in metrics if metric.corpus_level]
    block_of = {user: int(rng.integers(4)) for user in world.users}
    parts = [part.tolist() for part in np.array_split(np.array(world.users), n_parts)]
    for metric, groups in zip(of_all, exposures(of_all, world, parts, block_of), strict=True):
        mine = metric.value(groups.whole)
        assert within_bounds(metric, np.array([mine])), metric
        assert same(mine, value(metric, world, world.users)), metric
        for block, without in zip(sorted({*block_of.values(), 0}), groups.leave_one_out, strict=False):
            if len(groups.leave_one_out) == len({*block_of.values(), 0}):
                left = [user for user in world.users if block_of[user] != block]
                assert same(metric.value(without), value(metric, world, left)), (metric, block)


def test_no_split_into_partitions_and_no_order_of_rows_changes_a_bit():
    world, rng = random_world(4, n_users=24), np.random.default_rng(4)
    metrics = [drawn(rng, metric) for metric in GROUPS for _ in range(2)]
    of_users, of_all = ([metric for metric in metrics if metric.corpus_level == level] for level in (False, True))
    whole = np.stack(scored(task_of(of_users), world, world.users).metrics)
    single = [np.stack(scored(task_of(of_users), world, [user], rng).metrics) for user in world.users]
    np.testing.assert_array_equal(np.concatenate(single, axis=1).view(np.int64), whole.view(np.int64))
    apart = exposures(of_all, world, [[user] for user in world.users], shuffled=rng)
    together = exposures(of_all, world, [world.users])
    for metric, one, other in zip(of_all, apart, together, strict=True):
        mine, its = metric.value(one.whole), metric.value(other.whole)
        assert mine == its or (math.isnan(mine) and math.isnan(its)), metric


#: Two users with two places: of attention 1 and 1/log2 3, which is 0.63.
SMALL = World(
    predictions={1: [(10, 0.9), (11, 0.7)], 2: [(10, 0.8), (13, 0.6)], 3: []},
    labels={1: [(11, 1.0)], 2: [(11, 1.0), (10, 1.0)], 3: [(11, 1.0)]},
    items={10: ("a", None), 11: ("b", None), 13: ("b", None), 14: ("b", None)},
    training=[(5, 10), (6, 10), (7, 10), (7, 10), (2, 11), (5, 11), (5, 12), (6, 13)],
)
SECOND = 1 / math.log2(3)
FIGURES = {
    "attention_share(group=a)@1": 1.0, "attention_share(group=a)@2": 1 / (1 + SECOND),
    "attention_share(group=b)@2": SECOND / (1 + SECOND), "attention_share@2": 1 / (1 + SECOND),
    "attention_share(group=a,of=items)@2": 0.25, "attention_share(group=a,of=relevance)@2": 1 / 3,
    "attention_share(group=nowhere)@2": 0.0, "attention_share(group=a,discount=geometric,p=0.5)@2": 2 / 3,
    "exposure_to_merit(group=a)@2": 3 / (1 + SECOND), "exposure_to_merit@2": SECOND / (1 + SECOND) / (2 / 3),
    # Of users 1 and 2, 1 of 1 relevant a is found, and 1 of 2 relevant b.
    "reo@2": 0.25 / 0.75, "reo@1": 1.0,
}  # fmt: skip


@pytest.fixture
def without_second_groups(monkeypatch):
    monkeypatch.setitem(globals(), "groups_of", lambda world, item: [world.items[item][0]])


@pytest.mark.usefixtures("without_second_groups")
def test_figures_that_can_be_checked_by_hand():
    metrics = [parse_metric(text).resolve() for text in FIGURES]
    found = [
        metric.value(each.whole) for metric, each in zip(metrics, exposures(metrics, SMALL, [SMALL.users]), strict=True)
    ]
    assert dict(zip(FIGURES, found, strict=True)) == pytest.approx(FIGURES, rel=1e-8, nan_ok=True)


@pytest.mark.usefixtures("without_second_groups")
def test_a_group_of_an_empty_name_is_not_that_of_items_without_one():
    world = replace(SMALL, items={10: ("", None), 11: (None, None), 13: ("a", None)})
    names = ["attention_share(group='',unknown=apart)@2", "attention_share(of=items,group='',unknown=apart)@2"]
    metrics = [parse_metric(name).resolve() for name in names]
    lists, items = exposures(metrics, world, [world.users])
    assert metrics[0].value(lists.whole) == pytest.approx(1 / (1 + SECOND))
    assert metrics[1].value(items.whole) == pytest.approx(1 / 3)
    assert lists.whole.names == [None, "", "a"]


def test_metrics_of_the_same_attention_are_counted_once():
    names = [
        "attention_share(group=a)@2", "attention_share(group=b)@2", "attention_share@2", "attention_share(of=items)@2",
        "exposure_to_merit(group=a)@2", "exposure_to_merit@2", "attention_share(of=relevance)@2",
        "attention_share(group=a)@3", "exposure_to_merit(unknown=apart)@2", "exposure_to_merit(relevance_threshold=2)@2",
        "exposure_to_merit(discount=ln)@2", "reo@2",
    ]  # fmt: skip
    metrics = [parse_metric(name).resolve() for name in names]
    assert [len(slot.metrics) for slot in slots_of(task_of(metrics))] == [4, 3, *[1] * 5]


@pytest.mark.usefixtures("without_second_groups")
def test_a_list_that_gives_groups_what_they_are_due_has_1():
    metrics = [parse_metric(f"awrf(target={target},distance={distance})@2").resolve()
               for target in ("equal", "relevance") for distance in ("js", "js_nats", "tv")]  # fmt: skip
    # A list of the user's relevant item alone: all attention to one of two groups, p = (0, 1), q = (1/2, 1/2).
    alone = World({1: [(11, 1.0)]}, {1: [(11, 1.0)]}, items=SMALL.items)
    js = 1 - (math.log2(4 / 3) + 0.5 * math.log2(2 / 3) + 0.5) / 2
    values = [column[0] for column in scored(task_of(metrics), alone, [1]).metrics]
    assert values == pytest.approx([js, 1 - (1 - js) * math.log(2), 0.5, 1.0, 1.0, 1.0], rel=1e-12)


def test_sets_of_groups_are_those_of_the_rows_in_any_order():
    items = pa.array([3, 1, 3, 2, 1, 5, 3], pa.int64())
    names = pa.array(["b", "a", "ä", "b", None, None, "b"])
    table = stream_of(pa.table({ITEM: items, NAME: names})).to_pybytes()
    facts = ItemFacts.read({"groups"}, {GROUPS_TABLE: pa.scalar(table, pa.binary())})
    sets, places = (
        facts.sets["groups"],
        facts.look_up(pa.array([1, 2, 3, 5, 99], pa.int64()), {"group_set"})["group_set"],
    )
    item, group, part = sets.spread(places, apart=True)
    named = [(place, [*sets.names, None][code]) for place, code in zip(item.tolist(), group, strict=True)]
    assert named == [(0, "a"), (1, "b"), (2, "b"), (2, "ä"), (3, None), (4, None)]
    assert part.tolist() == [1, 1, 0.5, 0.5, 1, 1]
    assert sets.names == ("a", "b", "ä")
    assert sets.population(apart=False).tolist() == pytest.approx([1 / 3, 0.5, 1 / 6, 0.0])
    assert sets.population(apart=True).tolist() == pytest.approx([0.25, 0.375, 0.125, 0.25])
    nothing = ItemFacts.read({"groups"}, {GROUPS_TABLE: pa.scalar(None, pa.binary())})
    assert nothing.look_up(items, {"group_set"})["group_set"].tolist() == [0] * 7


def test_the_naive_measures_are_those_of_the_registry():
    assert {metric.name for metric in GROUPS} == {*OF_ALL, *OF_USERS}
    assert {metric.name for metric in GROUPS if metric.corpus_level} == set(OF_ALL)


@pytest.mark.parametrize("seed", range(2))
def test_judged_items_alone_are_a_list_without_the_others(seed):
    world = random_world(seed, n_users=12)
    judged = {
        user: [
            pair for pair in pairs if any(item == pair[0] and grade >= 0 for item, grade in world.labels.get(user, []))
        ]
        for user, pairs in world.predictions.items()
    }
    metrics = [drawn(np.random.default_rng(seed), metric) for metric in GROUPS if metric.corpus_level]
    found = exposures(metrics, world, [world.users], judged_only=True)
    expected = exposures(metrics, replace(world, predictions=judged), [world.users])
    for metric, one, other in zip(metrics, found, expected, strict=True):
        assert repr(metric.value(one.whole)) == repr(metric.value(other.whole)), metric


#: Every metric of all lists, and the ways to read them: grades of which column, and of all lists or of judged items alone.
OF_ALL_LISTS = [metric for metric in EVERY_METRIC if metric.corpus_level and metric not in PROBABILITIES]
SLICES = [slice_as_text((name,)) for name in ("all", "a", "b")]
READINGS = [(relevance, judged_only) for relevance in (0, 1) for judged_only in (False, True)]


def in_slices(asked, batch):
    """The values of metrics of all lists in each slice; what is asked for is (metric, (relevance, judged_only))."""
    views = [
        View((metric,), RankingPolicy(judged_only=judged_only), relevance=relevance)
        for metric, (relevance, judged_only) in asked
    ]
    task = task_of_views(*views)
    run = state_of_batches(task, DescriptionOptions(None, quantiles=()), ("side",), lambda key: [("all",), key])
    merged = met(rows_of(each for each in messages_of(run(iter([batch]))) if each.kind != STATES), merging_exposure())
    found = figures_of_slots(merged, task, Totals(items=30, training_items=20), has_blocks=False)
    slots = {slot.view: slot for slot in slots_of(task)}
    return [
        {name: metric.value(found[name][slots[view]].whole) for name in SLICES}
        for view, (metric, _) in enumerate(asked)
    ]


def test_each_metric_of_all_lists_has_the_same_values_beside_every_other_in_every_reading_and_slice():
    world = random_world(3, n_users=12)
    batch = batch_with_groups(world, world.users)
    other_grades = [[2.0 - grade for _, grade in world.labels.get(user, [])] for user in world.users]
    for name, column in (
        (grades_column(1), pa.array(other_grades, pa.list_(pa.float64()))),
        ("no_user", pa.array([False] * len(world.users))),
        ("side", pa.array(["ab"[user % 2] for user in world.users])),
    ):
        batch = with_columns(batch, {name: column})
    alone = functools.cache(lambda one: repr(in_slices([one], batch)[0]))
    every = itertools.product([metric(k=2).resolve() for metric in OF_ALL_LISTS], READINGS)
    for one, other in itertools.islice(itertools.combinations(every, 2), 0, None, 127):
        values = list(map(repr, in_slices([one, other], batch)))
        assert values == [alone(one), alone(other)], (one, other)


def test_ratios_of_groups_with_few_relevant_labels_have_no_interval():
    groups = GroupExposure({"a": 8.0, "b": 9.0, "c": 1.0}, {"a": 30.0, "b": 29.0, "c": 0.0}, 100)
    few = "group 'b': 29 relevant labels; an interval needs 30 of each group"
    expected = {
        **dict.fromkeys(("exposure_to_merit@3", "exposure_to_merit(group=b)@3", "reo@3"), few),
        **dict.fromkeys(
            ("exposure_to_merit(group=a)@3", "exposure_to_merit(group=c)@3", "attention_share(of=relevance)@3"), ""
        ),
    }
    assert {metric: parse_metric(metric).resolve().without_interval(groups) for metric in expected} == expected
