"""Figures of only the labels in a group of items: equal to the oracle's of users who have no other labels."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from helpers.effort import examples
from helpers.met_messages import met
from helpers.scored import feature_of, task_of_views
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.lists import World, exposure_share, hit_share
from oracles.rankings import User, value
from worlds.ranked_users import lists_of, random_users, ranked
from worlds.recommendations import batch_of as grouped
from worlds.variants import METRICS, parameters_of, variants

from spark_rankeval import score_users
from spark_rankeval.errors import EngineError, OptionError
from spark_rankeval.features.item_groups import worker as item_groups
from spark_rankeval.features.item_groups.group_rankings import (
    ATTRIBUTE_KEY,
    GROUP_KEY,
    GroupTables,
    by_column,
    by_popularity,
    table_of,
)
from spark_rankeval.features.item_groups.worker import GroupsOfBatch, GroupsOfPartition, score_pairs, with_users_outside
from spark_rankeval.features.items.item_facts import GROUP, ITEM, ROWS, TRAINING_INTERACTIONS, TRAINING_USERS
from spark_rankeval.metrics.naming import parse_metric, parse_metrics
from spark_rankeval.ranking.lists import RankingPolicy
from spark_rankeval.records.slices import ALL_VALUES, NOT_LISTED, UNSEEN, item_groups_in, rollup, rollup_with_items
from spark_rankeval.request.options import Facts, ItemGroups
from spark_rankeval.request.task import GROUP_FACTS, View, has_groups, is_about_labels
from spark_rankeval.spark.describing import Groups, figures_by_group
from spark_rankeval.statistics.description import DescriptionOptions
from spark_rankeval.worker.group_states import rows_by_key
from spark_rankeval.worker.grouped_row import ABSENT, NO_USER, USER_HASH
from spark_rankeval.worker.process import stream_of
from spark_rankeval.worker.scored_features import with_features
from spark_rankeval.worker.states import merging_states, state_of_batches
from spark_rankeval.worker.user_metrics import count_names, score

VARIANTS = {metric.name: variants(metric, ties=("order",)) for metric in METRICS if is_about_labels(metric().resolve())}


def packed(rows):
    """A packed table of an attribute, as Spark makes it of rows of an item and a group, each pair once."""
    items, names = [item for item, _ in rows], [name for _, name in rows]
    columns = {ITEM: pa.array(items, pa.int64()), GROUP: pa.array(names, pa.string()), ROWS: pa.array([1] * len(rows))}
    return pa.scalar(stream_of(pa.table(columns)).to_pybytes(), pa.binary())


def counted(users_of):
    """A packed table of popularity: how many users have each item; None stands for rows that cannot be used."""
    counts = list(users_of.values())
    columns = {ITEM: list(users_of), TRAINING_USERS: counts, TRAINING_INTERACTIONS: counts}
    table = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    return pa.scalar(stream_of(table).to_pybytes(), pa.binary())


def naive_groups(item, rows):
    """The groups of an item, from rows of items and groups."""
    return {name for known, name in rows if known == item} or {NOT_LISTED}


def pairs_in(tables, users, **policy):
    """The pairs of every attribute, and which user and group each is, by name."""
    lists = lists_of(users)
    indices = tables.indices(pa.array(lists.labels.values))
    beside = {name: lists.labels.like(values) for name, values in indices.items()}
    batch, _ = ranked(lists_of(users, extra_values=beside), keep_label_order=True, **policy)
    for attribute, pairs in zip(tables.attributes, tables.pairs(batch, indices), strict=True):
        yield pairs.batch, [(int(u), attribute.names[g]) for u, g in zip(pairs.user, pairs.group, strict=True)]


ITEMS = st.integers(-3, 12)
ROWS_OF_GROUPS = st.lists(
    st.tuples(st.integers(-3, 9), st.sampled_from(["x", "y", "z", None])), max_size=20, unique=True
)


@st.composite
def some_users(draw):
    scores = draw(st.sampled_from([st.none(), st.sampled_from([0.1, 0.3, 1.0]), st.floats(allow_nan=False)]))
    predictions = st.lists(st.tuples(ITEMS, scores), max_size=12)
    labels = st.lists(st.tuples(ITEMS, st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0])), max_size=8)
    return draw(st.lists(st.tuples(predictions, labels), min_size=1, max_size=5))


@settings(max_examples=examples(by_day=30, at_night=300), deadline=None, derandomize=True)
@given(
    users=some_users(),
    rows=ROWS_OF_GROUPS,
    ties=st.sampled_from(["item_asc", "item_desc", "position"]),
    duplicates=st.sampled_from(["each", "keep_best"]),
    conflicting=st.sampled_from(["highest", "last"]),
    choice=st.integers(0, 10**6),
)
def test_every_metric_of_a_group_is_the_oracles_of_its_labels_alone(users, rows, ties, duplicates, conflicting, choice):
    tables = GroupTables.read(ItemGroups(("genre",)), {table_of(0): packed(rows)})
    policy = {"ties": ties, "duplicates": duplicates, "conflicting_labels": conflicting}
    ((batch, named),) = pairs_in(tables, users, **policy)
    expected = [
        (user, name)
        for user, (_, labels) in enumerate(users)
        for name in {name for item, _ in labels for name in naive_groups(item, rows)}
    ]
    assert sorted(named, key=str) == sorted(expected, key=str)
    alone = [
        (users[user][0], [(item, grade) for item, grade in users[user][1] if name in naive_groups(item, rows)])
        for user, name in named
    ]
    settled = [User(*user, ties=ties, duplicates=duplicates, conflicting=conflicting) for user in alone]
    for of_metric in VARIANTS.values():
        for nth in range(3):
            metric = of_metric[(choice + 7919 * nth) % len(of_metric)].resolve()
            actual = metric.compute(batch)
            whole = [value(metric.name, user, **parameters_of(metric)) for user in settled]
            np.testing.assert_allclose(actual, whole, rtol=1e-12, atol=1e-12, equal_nan=True, err_msg=str(metric))


def test_an_average_over_ties_is_that_of_the_groups_labels():
    users = [([(1, 0.5), (2, 0.5), (3, 0.5)], [(1, 1.0), (2, 1.0), (9, 1.0)])]
    tables = GroupTables.read(ItemGroups(("genre",)), {table_of(0): packed([(1, "x"), (2, "y"), (9, "y")])})
    ((batch, named),) = pairs_in(tables, users)
    (metric,) = parse_metrics("rr(ties='average')").values()
    values = dict(zip(named, metric.resolve().compute(batch), strict=True))
    assert values == pytest.approx({(0, "x"): (1 + 1 / 2 + 1 / 3) / 3, (0, "y"): (1 + 1 / 2 + 1 / 3) / 3})


def test_each_attribute_has_its_groups_and_keys_tell_them_apart():
    random = np.random.default_rng(1)
    users = random_users(random, 60, n_items=12)
    rows = [(item, "even" if item % 2 == 0 else None) for item in range(10)]
    groups_asked = ItemGroups(("parity",), popularity=2)
    tables = GroupTables.read(
        groups_asked, {table_of(0): packed(rows), table_of(1): counted({0: 1, 1: 4, 2: 9, None: 3})}
    )
    for place, (_, named) in enumerate(pairs_in(tables, users)):
        codes = np.array([tables.attributes[place].names.index(name) for _, name in named])
        keys = tables.keys(place, codes)
        together = [pa.concat_arrays([keys[name], tables.no_keys(3)[name]]) for name in (ATTRIBUTE_KEY, GROUP_KEY)]
        by_key = {key: len(rows) for key, rows in rows_by_key(together, len(named) + 3)}
        label = groups_asked.attributes[place]
        expected = {(label, name): sum(name == other for _, other in named) for _, name in named}
        assert by_key == expected | {(None, None): 3}
    assert tables.faults == {"n_invalid_items": 0, "n_invalid_training": 3}


def test_items_that_a_table_lacks_are_a_group_and_are_counted():
    labels = lists_of([([], [(1, 1.0), (7, 1.0), (8, 0.0)]), ([], [(1, 1.0)]), ([], [])]).labels
    tables = GroupTables.read(
        ItemGroups(("genre",), popularity=2),
        {table_of(0): packed([(1, "x"), (None, "y")]), table_of(1): counted({1: 2})},
    )
    indices = tables.indices(pa.array(labels.values))
    assert tables.n_unlisted(labels, indices).tolist() == [2, 0, 0]
    assert tables.faults["n_invalid_items"] == 1
    genre, popularity = tables.attributes
    named = [genre.names[group] for group in genre.memberships(genre.ids.indices(pa.array([1, 7])))[1]]
    assert named == ["x", NOT_LISTED]
    assert [popularity.names[g] for g in popularity.memberships(popularity.ids.indices(pa.array([1, 7])))[1]] == [
        "1",
        UNSEEN,
    ]


def test_a_table_without_a_row_knows_no_item():
    tables = GroupTables.read(
        ItemGroups(("genre",), popularity=3), {table_of(place): pa.scalar(None, pa.binary()) for place in range(2)}
    )
    named = [name for _, named in pairs_in(tables, [([(1, 0.5)], [(1, 1.0), (2, 1.0)])]) for _, name in named]
    assert named == [NOT_LISTED, UNSEEN]


@pytest.mark.parametrize("seed", range(4))
def test_shares_of_groups_are_those_of_a_naive_count_and_other_metrics_stay_the_same(seed):
    random = np.random.default_rng(seed)
    users = random_users(random, 40, longest=12, n_items=13, distinct=True, grades=(0.0, 0.5, 1.0, 2.0))
    rows = list({(int(random.integers(10)), str(random.choice(["x", "y", "z"]))) for _ in range(18)})
    asked = ItemGroups(("genre",))
    tables = GroupTables.read(asked, {table_of(0): packed(rows)})
    names = ["hit_share@3", "exposure_share@3", "exposure_share(discount='log2_from_two')", "ndcg@3", "hit_share"]
    metrics = [metric.resolve() for metric in parse_metrics(names).values()]
    task = task_of_views(View(tuple(metrics), RankingPolicy()), groups=asked)
    alone = replace(task, views=(View((metrics[3],), RankingPolicy()),))
    world = World(
        {user: predictions for user, (predictions, _) in enumerate(users)},
        {user: labels for user, (_, labels) in enumerate(users)},
    )
    shares, sparse = (
        feature_of(
            score(asked_for, grouped(world), [GroupsOfPartition(asked, (), asked_for, tables)]), GroupsOfBatch
        ).scores.attributes[0]
        for asked_for in (task, alone)
    )
    by_pair = {}
    for place, (user, key) in enumerate(zip(shares.user.tolist(), shares.keys[GROUP_KEY].to_pylist(), strict=True)):
        group = {item for item in range(13) if key in naive_groups(item, rows)}
        by_pair[user, key] = shares.values[3][place]
        for metric, values in zip(metrics, shares.values, strict=True):
            if metric.name in ("hit_share", "exposure_share"):
                formula = {"hit_share": hit_share, "exposure_share": exposure_share}[metric.name]
                chosen = {name: value for name, value in metric.chosen().items() if name != "undefined"}
                expected = formula(world, user, metric.k, **chosen, group=group)
                assert values[place] == pytest.approx(expected, nan_ok=True), (metric, user, key)
    assert len(by_pair) == len(users) * len(tables.attributes[0].names)
    pairs = zip(sparse.user.tolist(), sparse.keys[GROUP_KEY].to_pylist(), strict=True)
    for pair, expected in zip(pairs, sparse.values[0], strict=True):
        np.testing.assert_equal(by_pair.pop(pair), expected)
    assert np.isnan(list(by_pair.values())).all()


def test_the_rows_of_pairs_have_the_count_that_is_a_weight_and_nobody_who_is_not_evaluated():
    world = World({1: [(1, 0.5)], 2: [(2, 0.5)]}, {1: [(1, 1.0), (7, 1.0)], 2: [(2, 1.0)]})
    batch = grouped(world, users=[1, 2, 3])
    given_tables = {
        ABSENT: pa.array([False, False, True]),
        NO_USER: pa.array([False] * 3),
        table_of(0): pa.array([packed([(1, "x"), (2, "x")]).as_py(), None, None], pa.binary()),
    }
    for name, column in given_tables.items():
        batch = batch.append_column(name, column)
    views = (View((parse_metric("exposure_share@1").resolve(),), RankingPolicy()),)
    task = task_of_views(*views, groups=ItemGroups(("genre",)), weight_count="n_labels")
    rows = pa.Table.from_batches(score_pairs(task, (USER_HASH,), ("share",))(iter([batch]))).to_pylist()
    told = [(row[USER_HASH], row["n_labels"], row[GROUP_KEY], row["share"]) for row in rows]
    assert told == [(1, 2, "x", 1.0), (1, 2, NOT_LISTED, 0.0), (2, 1, "x", 1.0), (2, 1, NOT_LISTED, 0.0)]


def test_a_group_without_a_label_is_one_of_all_users_with_its_size_and_edges():
    world = World({1: [(1, 0.5)], 2: [(2, 0.5)]}, {1: [(1, 1.0)], 2: [(2, 1.0)]})
    batch = grouped(world, users=[1, 2])
    tables = [packed([(1, "x"), (2, "x"), (3, "z"), (4, "z")]), counted({1: 7, 2: 8, 3: 1, 5: 2})]
    given_columns = {
        "country": pa.array(["DE", None]),
        NO_USER: pa.array([False] * 2),
        **{table_of(place): pa.array([table.as_py(), None], pa.binary()) for place, table in enumerate(tables)},
    }
    for name, column in given_columns.items():
        batch = batch.append_column(name, column)
    asked = ItemGroups(("genre",), popularity=2)
    task = task_of_views(View((parse_metric("recall@1").resolve(),), RankingPolicy()), groups=asked)
    options, keys = DescriptionOptions("t", quantiles=()), ("country", ATTRIBUTE_KEY, GROUP_KEY)
    rows = list(state_of_batches(task, options, NO_USER, keys)(iter([batch])))
    attributes = asked.attributes
    asked_groups = Groups(
        count_names(task), 1, options, len(keys), rollup_with_items(rollup(1), attributes), attributes
    )
    merged = met(rows, merging_states(asked_groups.states_of_users))
    figures = figures_by_group(merged, asked_groups)
    with pytest.raises(EngineError, match="users of one slice in two places"):
        figures_by_group(merged * 2, asked_groups._replace(rollup=lambda key: [key]))
    found = with_users_outside(figures, len(attributes))
    users = {key: (each.values[0].moments.n, each.values[0].moments.n_undefined) for key, each in found.items()}
    assert users == {
        (ALL_VALUES, ALL_VALUES, ALL_VALUES): (2, 0), (ALL_VALUES, ALL_VALUES, "DE"): (1, 0), (ALL_VALUES, ALL_VALUES, None): (1, 0),
        ("x", ALL_VALUES, ALL_VALUES): (2, 0), ("x", ALL_VALUES, "DE"): (1, 0), ("x", ALL_VALUES, None): (1, 0),
        ("z", ALL_VALUES, ALL_VALUES): (0, 2),
        (ALL_VALUES, "2", ALL_VALUES): (2, 0), (ALL_VALUES, "2", "DE"): (1, 0), (ALL_VALUES, "2", None): (1, 0),
        (ALL_VALUES, "1", ALL_VALUES): (0, 2),
    }  # fmt: skip
    sizes = {key: {name: int(each.counts[name].greatest) for name in GROUP_FACTS if each.counts[name].n}
             for key, each in found.items() if key[-1] is ALL_VALUES and key != (ALL_VALUES,) * 3}  # fmt: skip
    edges = {group.slice: (group.n_items, group.least, group.most) for group in item_groups_in(sizes, attributes)}
    assert edges == {
        "item genre=x": (2, 0, 0), "item genre=z": (2, 0, 0), "item popularity=1": (2, 1, 2), "item popularity=2": (2, 7, 8)
    }  # fmt: skip


@pytest.mark.parametrize(("metric", "sizes"), [("exposure_share@1", [2, 2, 1]), ("recall@1", [5])])
def test_users_come_in_parts_if_each_has_a_value_in_every_group(monkeypatch, metric, sizes):
    monkeypatch.setattr(item_groups, "_MOST_VALUES", 7)
    users = [1, 2, 3, 4, 5]
    world = World({user: [(user % 3, 0.5)] for user in users}, {user: [(1, 1.0)] for user in users})
    table = pa.array([packed([(1, "x"), (2, "y")]).as_py(), *[None] * 4], pa.binary())
    batch = grouped(world, users=users).append_column(table_of(0), table)
    metrics = (parse_metric(metric).resolve(),)
    task = task_of_views(View(metrics, RankingPolicy()), groups=ItemGroups(("genre",)))
    parts = list(with_features(task, iter([batch])))
    assert [part.num_rows for part, _ in parts] == sizes
    assert pa.Table.from_batches([part for part, _ in parts])[USER_HASH].to_pylist() == users


@settings(max_examples=examples(by_day=60, at_night=600), deadline=None, derandomize=True)
@given(users=st.lists(st.integers(1, 9), min_size=1, max_size=40), n_groups=st.integers(2, 12))
def test_groups_by_popularity_are_shares_of_the_items_with_fewer_users(users, n_groups):
    attribute = by_popularity(counted_table(users), n_groups)
    names = [attribute.names[group] for group in attribute.groups.values]
    for place, count in enumerate(users):
        less = sum(other < count for other in users)
        assert int(names[place]) == next(g for g in range(1, n_groups + 1) if less * n_groups < g * len(users))
    assert names[-1] == UNSEEN


def counted_table(users):
    columns = {ITEM: range(len(users)), TRAINING_USERS: users, TRAINING_INTERACTIONS: users}
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def test_an_item_of_several_groups_is_in_each_of_them():
    table = pa.table({ITEM: [3, 3, 4], GROUP: pa.array(["a", "b", None]), ROWS: [1, 1, 1]})
    attribute = by_column(table)
    which, group = attribute.memberships(attribute.ids.indices(pa.array([4, 3, 5])))
    assert [(int(w), attribute.names[g]) for w, g in zip(which, group, strict=True)] == [
        (0, None), (1, "a"), (1, "b"), (2, NOT_LISTED),
    ]  # fmt: skip


@pytest.mark.parametrize("given_groups", [1, 0, -3, 2.5, "10", True, 1001])
def test_a_number_of_groups_must_be_one(given_groups):
    with pytest.raises(OptionError, match="popularity_groups must be a whole number from 2 to 1000; got"):
        Facts(popularity_groups=given_groups)


@pytest.mark.parametrize("facts", [Facts(item_by="genre"), Facts(popularity_groups=5)])
def test_a_table_of_users_has_no_groups_of_items(facts):
    with pytest.raises(OptionError, match="score_users has one row a user"):
        score_users(None, None, "recall@3", facts=facts)


@pytest.mark.parametrize(
    ("metric", "has"), [("recall@3", True), ("hit_share@3", True), ("alpha_ndcg@3", False), ("novelty@3", False)]
)
def test_metrics_of_all_that_labels_are_about_have_no_groups(metric, has):
    assert has_groups(parse_metric(metric).resolve()) == has
