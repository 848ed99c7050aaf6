"""Figures of only the labels in a group of items: equal to the oracle's of users who have no other labels."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from helpers.met_messages import met
from helpers.scored import feature_of, task_of_views
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.lists import World, exposure_share, hit_share
from worlds import recommendations
from worlds.ranked_users import lists_of, random_users, ranked
from worlds.variants import METRICS, variants

from spark_rankeval import score_users
from spark_rankeval.errors import EngineError, OptionError
from spark_rankeval.metrics.naming import parse_metric, parse_metrics
from spark_rankeval.ranking.user_lists import RankingPolicy
from spark_rankeval.records import summary
from spark_rankeval.records.summary import ALL_VALUES, NOT_LISTED, UNSEEN
from spark_rankeval.request.call import Facts, ItemGroups
from spark_rankeval.request.task import GROUP_FACTS, View, has_groups, is_about_labels
from spark_rankeval.spark import scoring
from spark_rankeval.statistics.description import DescriptionOptions
from spark_rankeval.worker import features as item_facts
from spark_rankeval.worker import item_groups
from spark_rankeval.worker.item_groups import ATTRIBUTE_KEY, GROUP_KEY, GroupTables, by_popularity, table_of
from spark_rankeval.worker.process import stream_of, with_columns, with_features
from spark_rankeval.worker.reading import ABSENT, NO_USER, USER_HASH, rows_by_key
from spark_rankeval.worker.scoring import count_names, score
from spark_rankeval.worker.states import merging_states, state_of_batches

VARIANTS = [variants(metric, ties=("order",)) for metric in METRICS if is_about_labels(metric().resolve())]


def as_cell(table):
    return pa.scalar(stream_of(table).to_pybytes(), pa.binary())


def packed(rows):
    """A packed table of an attribute, as Spark makes it of rows of an item and a group, each pair once."""
    items, names = [item for item, _ in rows], [name for _, name in rows]
    columns = {item_facts.ITEM: pa.array(items, pa.int64()), item_facts.GROUP: pa.array(names, pa.string())}
    return as_cell(pa.table(columns | {item_facts.ROWS: pa.array([1] * len(rows))}))


def counted_table(users_of):
    """How many users have each item; None stands for rows that cannot be used."""
    counts = list(users_of.values())
    columns = {
        item_facts.ITEM: list(users_of), item_facts.TRAINING_USERS: counts, item_facts.TRAINING_INTERACTIONS: counts,
    }  # fmt: skip
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def tables_of(rows, users_of=None):
    """The groups of an attribute, and those by popularity if there are counts of users."""
    tables = {table_of(0): packed(rows)}
    if users_of is not None:
        tables[table_of(1)] = as_cell(counted_table(users_of))
    return GroupTables.read(ItemGroups(("genre",), popularity=2 if users_of is not None else None), tables)


def batch_with(world, users, **columns):
    """The grouped rows of users with further columns; the first row has what tasks share."""
    batch = recommendations.batch_of(world, users=users)
    for name, column in columns.items():
        is_shared = isinstance(column, pa.Scalar)
        values = [column.as_py(), *[None] * (len(users) - 1)] if is_shared else column
        batch = with_columns(batch, {name: pa.array(values, pa.binary() if is_shared else None)})
    return batch


def names_of(attribute, items):
    """The groups of items, by their places."""
    which, group = attribute.memberships(attribute.ids.indices(pa.array(items)))
    return [(int(place), attribute.names[number]) for place, number in zip(which, group, strict=True)]


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
GROUPS = st.sampled_from(["x", "y", "z", None])
ROWS_OF_GROUPS = st.lists(st.tuples(st.integers(-3, 9), GROUPS), max_size=20, unique=True)


@st.composite
def some_users(draw):
    scores = draw(st.sampled_from([st.none(), st.sampled_from([0.1, 0.3, 1.0]), st.floats(allow_nan=False)]))
    predictions = st.lists(st.tuples(ITEMS, scores), max_size=12)
    labels = st.lists(st.tuples(ITEMS, st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0])), max_size=8)
    return draw(st.lists(st.tuples(predictions, labels), min_size=1, max_size=5))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    users=some_users(), rows=ROWS_OF_GROUPS, ties=st.sampled_from(["item_asc", "item_desc", "position"]),
    duplicates=st.sampled_from(["each", "keep_best"]), conflicting=st.sampled_from(["highest", "last"]), choice=st.integers(0, 10**6),
)  # fmt: skip
def test_every_metric_of_a_group_is_that_of_its_labels_alone(users, rows, ties, duplicates, conflicting, choice):
    policy = {"ties": ties, "duplicates": duplicates, "conflicting_labels": conflicting}
    ((batch, named),) = pairs_in(tables_of(rows), users, **policy)
    of_users = [{name for item, _ in labels for name in naive_groups(item, rows)} for _, labels in users]
    expected = [(user, name) for user, names in enumerate(of_users) for name in names]
    assert sorted(named, key=str) == sorted(expected, key=str)
    alone = [
        (users[user][0], [(item, grade) for item, grade in users[user][1] if name in naive_groups(item, rows)])
        for user, name in named
    ]
    if not any(map(any, alone)):
        return
    whole, _ = ranked(lists_of(alone), keep_label_order=True, **policy)
    for of_metric in VARIANTS:
        for nth in range(3):
            metric = of_metric[(choice + 7919 * nth) % len(of_metric)].resolve()
            values = [metric.compute(each) for each in (batch, whole)]
            np.testing.assert_allclose(*values, rtol=1e-12, atol=1e-12, equal_nan=True, err_msg=str(metric))


def test_an_average_over_ties_is_that_of_the_groups_labels():
    users = [([(1, 0.5), (2, 0.5), (3, 0.5)], [(1, 1.0), (2, 1.0), (9, 1.0)])]
    ((batch, named),) = pairs_in(tables_of([(1, "x"), (2, "y"), (9, "y")]), users)
    (metric,) = parse_metrics("rr(ties='average')").values()
    values = dict(zip(named, metric.resolve().compute(batch), strict=True))
    assert values == pytest.approx({(0, "x"): (1 + 1 / 2 + 1 / 3) / 3, (0, "y"): (1 + 1 / 2 + 1 / 3) / 3})


def test_each_attribute_has_its_groups_and_keys_tell_them_apart():
    users = random_users(np.random.default_rng(1), 60, n_items=12)
    rows = [(item, "even" if item % 2 == 0 else None) for item in range(10)]
    tables = tables_of(rows, {0: 1, 1: 4, 2: 9, None: 3})
    for place, (_, named) in enumerate(pairs_in(tables, users)):
        codes = np.array([tables.attributes[place].names.index(name) for _, name in named])
        keys = tables.keys(place, codes)
        together = [pa.concat_arrays([keys[name], tables.no_keys(3)[name]]) for name in (ATTRIBUTE_KEY, GROUP_KEY)]
        by_key = {key: len(rows) for key, rows in rows_by_key(together, len(named) + 3)}
        label = ("genre", "popularity")[place]
        expected = {(label, name): sum(name == other for _, other in named) for _, name in named}
        assert by_key == expected | {(None, None): 3}
    assert tables.faults == {"n_invalid_items": 0, "n_invalid_training": 3}


def test_an_item_is_in_each_of_its_groups_and_items_that_a_table_lacks_are_a_group_and_are_counted():
    labels = lists_of([([], [(1, 1.0), (7, 1.0), (8, 0.0)]), ([], [(1, 1.0)]), ([], [])]).labels
    tables = tables_of([(1, "x"), (1, "z"), (2, None), (None, "y")], {1: 2})
    assert tables.n_unlisted(labels, tables.indices(pa.array(labels.values))).tolist() == [2, 0, 0]
    assert tables.faults["n_invalid_items"] == 1
    genre, popularity = tables.attributes
    assert names_of(genre, [2, 1, 7]) == [(0, None), (1, "x"), (1, "z"), (2, NOT_LISTED)]
    assert names_of(popularity, [1, 7]) == [(0, "1"), (1, UNSEEN)]
    nothing = dict.fromkeys(map(table_of, range(2)), pa.scalar(None, pa.binary()))
    tables = GroupTables.read(ItemGroups(("genre",), popularity=3), nothing)
    named = [name for _, named in pairs_in(tables, [([(1, 0.5)], [(1, 1.0), (2, 1.0)])]) for _, name in named]
    assert named == [NOT_LISTED, UNSEEN]


@pytest.mark.parametrize("seed", range(2))
def test_shares_of_groups_are_those_of_a_naive_count_and_other_metrics_stay_the_same(seed):
    random = np.random.default_rng(seed)
    users = random_users(random, 40, longest=12, n_items=13, distinct=True, grades=(0.0, 0.5, 1.0, 2.0))
    rows = list({(int(random.integers(10)), str(random.choice(["x", "y", "z"]))) for _ in range(18)})
    asked, tables = ItemGroups(("genre",)), tables_of(rows)
    names = ["hit_share@3", "exposure_share@3", "exposure_share(discount='log2_from_two')", "ndcg@3", "hit_share"]
    metrics = [metric.resolve() for metric in parse_metrics(names).values()]
    task = task_of_views(View(tuple(metrics), RankingPolicy()), groups=asked)
    alone = replace(task, views=(View((metrics[3],), RankingPolicy()),))
    world = World(*({user: sides[side] for user, sides in enumerate(users)} for side in range(2)))

    def groups_of(task):
        feature = item_groups.FiguresOfGroups(asked, tables)
        scores = score(task, recommendations.batch_of(world), [feature])
        return feature_of(scores, item_groups.GroupsOfBatch).attributes[0]

    shares, sparse = groups_of(task), groups_of(alone)
    by_pair, formulas = {}, {"hit_share": hit_share, "exposure_share": exposure_share}
    for place, (user, key) in enumerate(zip(shares.user.tolist(), shares.keys[GROUP_KEY].to_pylist(), strict=True)):
        group = {item for item in range(13) if key in naive_groups(item, rows)}
        by_pair[user, key] = shares.values[3][place]
        for metric, values in zip(metrics, shares.values, strict=True):
            if metric.name in formulas:
                chosen = {name: value for name, value in metric.chosen().items() if name != "undefined"}
                expected = formulas[metric.name](world, user, metric.k, **chosen, group=group)
                assert values[place] == pytest.approx(expected, nan_ok=True), (metric, user, key)
    assert len(by_pair) == len(users) * len(tables.attributes[0].names)
    pairs = zip(sparse.user.tolist(), sparse.keys[GROUP_KEY].to_pylist(), strict=True)
    for pair, expected in zip(pairs, sparse.values[0], strict=True):
        np.testing.assert_equal(by_pair.pop(pair), expected)
    assert np.isnan(list(by_pair.values())).all()


def test_the_rows_of_pairs_have_the_count_that_is_a_weight_and_nobody_who_is_not_evaluated():
    world = World({1: [(1, 0.5)], 2: [(2, 0.5)]}, {1: [(1, 1.0), (7, 1.0)], 2: [(2, 1.0)]})
    table = packed([(1, "x"), (2, "x")])
    batch = batch_with(world, [1, 2, 3], **{ABSENT: [False, False, True], NO_USER: [False] * 3, table_of(0): table})
    view = View((parse_metric("exposure_share@1").resolve(),), RankingPolicy())
    task = task_of_views(view, groups=ItemGroups(("genre",)), weight_count="n_labels")
    rows = pa.Table.from_batches(item_groups.score_pairs(task, (USER_HASH,), ("share",))(iter([batch]))).to_pylist()
    told = [(row[USER_HASH], row["n_labels"], row[GROUP_KEY], row["share"]) for row in rows]
    assert told == [(1, 2, "x", 1.0), (1, 2, NOT_LISTED, 0.0), (2, 1, "x", 1.0), (2, 1, NOT_LISTED, 0.0)]


def test_a_group_without_a_label_is_one_of_all_users_with_its_size_and_edges():
    world = World({1: [(1, 0.5)], 2: [(2, 0.5)]}, {1: [(1, 1.0)], 2: [(2, 1.0)]})
    genres, popularity = (
        packed([(1, "x"), (2, "x"), (3, "z"), (4, "z")]),
        as_cell(counted_table({1: 7, 2: 8, 3: 1, 5: 2})),
    )
    columns = {"country": ["DE", None], NO_USER: [False] * 2, table_of(0): genres, table_of(1): popularity}
    batch, asked = batch_with(world, [1, 2], **columns), ItemGroups(("genre",), popularity=2)
    task = task_of_views(View((parse_metric("recall@1").resolve(),), RankingPolicy()), groups=asked)
    options, keys = DescriptionOptions("t", quantiles=()), ("country", ATTRIBUTE_KEY, GROUP_KEY)
    rows = list(state_of_batches(task, options, keys)(iter([batch])))
    attributes = asked.attributes
    rolls = summary.rollup_with_items(summary.rollup(1), attributes)
    groups = scoring.Groups(count_names(task), 1, options, len(keys), rolls, attributes)
    merged = met(rows, merging_states(groups.states_of_parts))
    figures = scoring.figures_by_group(merged, groups)
    with pytest.raises(EngineError, match="users of one slice in two places"):
        scoring.figures_by_group(merged * 2, groups._replace(rollup=lambda key: [key]))
    found = item_groups.with_users_outside(figures, len(attributes))
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
    edges = {
        group.slice: (group.n_items, group.least, group.most) for group in summary.item_groups_in(sizes, attributes)
    }
    assert edges == {
        "item genre=x": (2, 0, 0), "item genre=z": (2, 0, 0), "item popularity=1": (2, 1, 2), "item popularity=2": (2, 7, 8)
    }  # fmt: skip


@pytest.mark.parametrize(("metric", "sizes"), [("exposure_share@1", [2, 2, 1]), ("recall@1", [5])])
def test_users_come_in_parts_if_each_has_a_value_in_every_group(monkeypatch, metric, sizes):
    monkeypatch.setattr(item_groups, "_MOST_VALUES", 7)
    users = [1, 2, 3, 4, 5]
    world = World({user: [(user % 3, 0.5)] for user in users}, {user: [(1, 1.0)] for user in users})
    batch = batch_with(world, users, **{table_of(0): packed([(1, "x"), (2, "y")])})
    task = task_of_views(View((parse_metric(metric).resolve(),), RankingPolicy()), groups=ItemGroups(("genre",)))
    parts = [part for part, _ in with_features(task, iter([batch]))]
    assert [part.num_rows for part in parts] == sizes
    assert pa.Table.from_batches(parts)[USER_HASH].to_pylist() == users


@settings(max_examples=60, deadline=None, derandomize=True)
@given(users=st.lists(st.integers(1, 9), min_size=1, max_size=40), n_groups=st.integers(2, 12))
def test_groups_by_popularity_are_shares_of_the_items_with_fewer_users(users, n_groups):
    attribute = by_popularity(counted_table(dict(enumerate(users))), n_groups)
    names = [attribute.names[group] for group in attribute.groups.values]
    for place, count in enumerate(users):
        less = sum(other < count for other in users)
        assert int(names[place]) == next(g for g in range(1, n_groups + 1) if less * n_groups < g * len(users))
    assert names[-1] == UNSEEN


def test_wrong_groups_are_refused():
    for n_groups in (1, 0, -3, 2.5, "10", True, 1001):
        with pytest.raises(OptionError, match="popularity_groups must be a whole number from 2 to 1000; got"):
            Facts(popularity_groups=n_groups)
    for facts in (Facts(item_by="genre"), Facts(popularity_groups=5)):
        with pytest.raises(OptionError, match="score_users has one row a user"):
            score_users(None, None, "recall@3", facts=facts)


def test_metrics_of_all_that_labels_are_about_have_groups():
    names = ("recall@3", "hit_share@3", "alpha_ndcg@3", "novelty@3")
    assert [has_groups(parse_metric(name).resolve()) for name in names] == [True, True, False, False]
