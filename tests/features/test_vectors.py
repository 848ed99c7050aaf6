"""Lists from vectors: ranks within a catalogue, and values, are to the bit those of a table of all scores."""

import weakref
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from helpers.scored import task_of_views
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_rankeval.dialects import find_dialect
from spark_rankeval.metrics.naming import parse_metrics
from spark_rankeval.ranking.user_lists import Ragged
from spark_rankeval.request.task import Lists, resolve, views_of
from spark_rankeval.statistics.description import DescriptionOptions
from spark_rankeval.worker import catalogue_lists
from spark_rankeval.worker import reading as g
from spark_rankeval.worker import vectors as catalogue
from spark_rankeval.worker.process import with_features
from spark_rankeval.worker.scoring import score
from spark_rankeval.worker.states import state_of_batches
from spark_rankeval.worker.vectors import (
    LARGEST,
    Catalogue,
    Filter,
    ItemRows,
    ItemValues,
    Limits,
    PackedCatalogue,
    ScoredUserVectors,
    rank_items,
)


def exact_scores(users, items, similarity, user_bias, item_bias):
    """Every score by the definition: one product after the other is added in float64."""

    def scaled(vectors):
        squares = np.zeros(len(vectors))
        for numbers in vectors.T:
            squares = squares + numbers * numbers
        length = np.sqrt(squares)
        return np.where(length[:, None] > 0, vectors / np.where(length > 0, length, 1.0)[:, None], vectors)

    if similarity == "cosine":
        users, items = scaled(users), scaled(items)
    scores = np.zeros((len(users), len(items)))
    for of_users, of_items in zip(users.T, items.T, strict=True):
        scores = scores + of_users[:, None] * of_items
    return scores + item_bias + user_bias[:, None]


#: Vectors whose scores tie, nearly tie, or are too large or small for float32, made of normal ones.
KINDS = {
    "normal": lambda rng, normal: normal,
    "integers": lambda rng, normal: rng.integers(-3, 4, normal.shape).astype(float),
    "duplicates": lambda rng, normal: normal[rng.integers(0, 1 + len(normal) // 4, len(normal))],
    "permuted": lambda rng, normal: rng.permuted(np.tile(normal[:1], (len(normal), 1)), axis=1),
    "close": lambda rng, normal: np.nextafter(np.tile(normal[:1], (len(normal), 1)), normal * np.inf),
    "zeros": lambda rng, normal: normal * (rng.random((len(normal), 1)) < 0.3),
    "some long": lambda rng, normal: normal * np.where(rng.random((len(normal), 1)) < 0.05, 1e5, 1.0),
    "huge": lambda rng, normal: normal * 2.0**460,
    "tiny": lambda rng, normal: normal * 1e-300,
    "underflow": lambda rng, normal: normal * 1e-160,
    "mixed": lambda rng, normal: normal * 10.0 ** rng.integers(-300, 140, normal.shape),
}
FITS_FLOAT32 = tuple(KINDS)[:7]


WORDS = pa.list_(pa.string())


class World(NamedTuple):
    items: np.ndarray
    item_bias: np.ndarray
    users: np.ndarray
    user_bias: np.ndarray
    labels: Ragged
    limits: Limits
    ties: str
    first: int


def drawn_vectors(rng, kind, n, d):
    return KINDS[kind](rng, rng.standard_normal((n, d)))


def filters_of(rng, n_filters, n_users, n_items):
    """Filters with four values, of which items and users have none, one or two."""
    values = pa.array([b"a", b"b", b"c", b"d"], pa.large_binary())
    return tuple(
        Filter(ItemValues(values, lists(rng, n_items, 4, 2)), lists(rng, n_users, 4, 2)) for _ in range(n_filters)
    )


def lists(rng, n_users, n_items, longest, *, with_unknown=False):
    """Distinct items of each user, some of them −1 in the place of an item."""
    made = []
    for _ in range(n_users):
        some = rng.permutation(n_items)[: rng.integers(0, longest + 1)]
        made.append(np.where(with_unknown & (rng.random(len(some)) < 0.1), -1, some).tolist())
    return Ragged.from_lists(made, np.int64)


@st.composite
def worlds(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind, user_kind = draw(st.sampled_from(list(KINDS))), draw(st.sampled_from(list(KINDS)))
    n_items, n_users, d = draw(st.integers(1, 250)), draw(st.integers(0, 6)), draw(st.integers(1, 20))
    dtype = draw(st.sampled_from([np.float64, np.float32])) if kind in FITS_FLOAT32 else np.float64
    # Users of equal numbers make permuted items tie.
    users = drawn_vectors(rng, user_kind, n_users, 1 if draw(st.booleans()) else d) * np.ones(d)
    has_vector = rng.random(n_users) < (0.7 if draw(st.booleans()) else 2)
    users[~has_vector] = 0.0
    item_bias, user_bias = (draw(st.sampled_from([0.0, 1.0, 1e9])) * rng.standard_normal(n) for n in (n_items, n_users))
    return World(
        items=drawn_vectors(rng, kind, n_items, d).astype(dtype),
        item_bias=item_bias,
        users=users,
        user_bias=user_bias,
        labels=lists(rng, n_users, n_items, draw(st.sampled_from([0, 3, 10, n_items])), with_unknown=True),
        limits=Limits(
            has_vector,
            lists(rng, n_users, n_items, n_items // 2) if draw(st.booleans()) else None,
            lists(rng, n_users, n_items, n_items) if draw(st.booleans()) else None,
            filters_of(rng, draw(st.integers(0, 2)), n_users, n_items),
        ),
        ties=draw(st.sampled_from(["item_asc", "item_desc"])),
        first=draw(st.sampled_from([0, 1, 5, n_items, n_items + 3])),
    )


def list_of(ragged, user):
    return ragged.values[ragged.offsets[user] : ragged.offsets[user + 1]].tolist()


def expected(world):
    """Of each user: the ranked labels, how many items the list has, and the first of them with their scores."""
    rows, lengths, firsts, limits = [], [], [], world.limits
    scores = exact_scores(world.users, world.items.astype(float), "dot", world.user_bias, world.item_bias)
    for user, of_user in enumerate(scores.tolist()):
        ranked = set(range(len(of_user))) if limits.has_list[user] else set()
        if limits.candidates is not None:
            ranked &= set(list_of(limits.candidates, user))
        if limits.excluded is not None:
            ranked -= set(list_of(limits.excluded, user))
        for each in limits.filters:
            values = set(list_of(each.of_users, user))
            ranked = {item for item in ranked if values & set(list_of(each.items.of_items, item))}
        sign = -1 if world.ties == "item_desc" else 1
        order = sorted(ranked, key=lambda item: (-of_user[item], sign * item))
        for place, item in enumerate(list_of(world.labels, user)):
            if item in ranked:
                above = sum(of_user[each] > of_user[item] for each in ranked)
                tied = sum(of_user[each] == of_user[item] for each in ranked)
                label = int(world.labels.offsets[user]) + place
                rows.append((label, 1 + order.index(item), above, tied, of_user[item]))
        lengths.append(len(order))
        firsts.append([(item, of_user[item]) for item in order[: world.first]])
    return rows, lengths, firsts if world.first else None


def prepared(items, item_bias, users, user_bias, similarity="dot"):
    """Users, whose products with all items are scores; a bias of 0 stands for one of each."""
    item_bias, user_bias = (np.zeros(len(of)) + bias for of, bias in ((items, item_bias), (users, user_bias)))
    return ScoredUserVectors(Catalogue(items, item_bias, similarity), users, user_bias)


def found(world):
    users = prepared(world.items, world.item_bias, world.users, world.user_bias)
    given_ranks = rank_items(users, world.labels, world.limits, world.ties, world.first)
    label = np.flatnonzero(given_ranks.is_ranked)
    columns = [given_ranks.rank(world.ties), given_ranks.above, given_ranks.tied, given_ranks.score]
    columns = [column[label].tolist() for column in columns]
    firsts = None
    if world.first:
        scored = given_ranks.first.like(given_ranks.first_scores)
        firsts = [
            list(zip(list_of(given_ranks.first, user), list_of(scored, user), strict=True))
            for user in range(len(world.users))
        ]
    lengths = world.limits.lengths(len(world.items)).tolist()
    return list(zip(label.tolist(), *columns, strict=True)), lengths, firsts


# How many scores, users and items are worked at a time, and when all items are scored exactly.
WAYS = st.fixed_dictionaries(
    {},
    optional={
        (catalogue, "_RANKED_CELLS"): st.sampled_from([1, 7, 1000]),
        (catalogue, "_USERS"): st.sampled_from([1, 3, 1000]),
        (catalogue, "_FEW_NEAR"): st.sampled_from([-1, 10**9]),
        (catalogue, "_CELLS"): st.sampled_from([1, 7, 1000]),
    },
)


@given(worlds(), WAYS)
@settings(max_examples=150, deadline=None)
def test_ranks_and_lists_are_those_of_the_sorted_table_of_all_scores_whatever_the_way(world, ways):
    with pytest.MonkeyPatch.context() as patch:
        for (module, name), value in ways.items():
            patch.setattr(module, name, value)
        assert found(world) == expected(world)


def near_ties():
    """Items that differ by about as much as float32 products err."""
    rng = np.random.default_rng(3)
    items = rng.standard_normal((1, 16)) + 1e-7 * rng.standard_normal((200, 16))
    users = np.abs(rng.standard_normal((3, 16)))
    labels = Ragged.from_lists([range(0, 200, 9)] * 3, np.int64)
    return World(items, np.zeros(200), users, np.zeros(3), labels, Limits(np.ones(3, bool)), "item_asc", 20)


def test_scores_that_differ_less_than_products_err_are_told_apart():
    assert found(near_ties()) == expected(near_ties())


@pytest.mark.parametrize("ties", ["item_asc", "item_desc"])
def test_the_first_of_thousands_of_equal_items_are_those_of_their_order(ties):
    equal = World(
        np.ones((3000, 2)), np.zeros(3000), np.ones((1, 2)), np.zeros(1), Ragged.from_lists([[5]], np.int64),
        Limits(np.ones(1, bool), Ragged.from_lists([[0, 2999]], np.int64)), ties, 3,
    )  # fmt: skip
    assert found(equal) == expected(equal)


@given(worlds())
@settings(max_examples=40, deadline=None)
def test_no_product_is_further_from_the_exact_score_than_the_bound(world):
    items = Catalogue(world.items, world.item_bias)
    users = ScoredUserVectors(items, world.users, world.user_bias)
    products = users.approximate @ items.approximate
    for user in range(len(world.users)):
        everyone = np.full(len(world.items), user)
        exact = users.as_about(everyone, users.exact(everyone, np.arange(len(world.items))))
        # The subtraction itself may round up.
        distance = np.abs(users.about(user, 0, products[user]) - exact)
        assert (distance <= users.error[user] * (1 + 1e-15)).all()


def test_the_bound_is_not_far_too_wide():
    """It would be right all the same, but every item would be scored exactly."""
    rng = np.random.default_rng(4)
    items = rng.standard_normal((100, 64))
    users = prepared(items, 0, rng.standard_normal((5, 64)), 0)
    length = np.linalg.norm(users.approximate.astype(float), axis=1)
    assert (users.error < 70 * 2.0**-24 * length * Catalogue(items, np.zeros(100)).longest).all()


@pytest.mark.parametrize("first", [0, 20])
@pytest.mark.parametrize("kind", ["plain", "popularity"])
def test_large_biases_leave_few_items_to_exact_scores(monkeypatch, kind, first):
    rng = np.random.default_rng(6)
    items, bias, vectors = rng.standard_normal((3000, 16)), np.zeros(3000), rng.standard_normal((4, 16))
    if kind == "popularity":
        bias = 1e6 * rng.random(3000) ** 8
    labels = Ragged.from_lists([rng.permutation(3000)[:10] for _ in vectors], np.int64)
    users, n_exact, exact = prepared(items, bias, vectors, 0), [], ScoredUserVectors.exact
    noted = lambda of, user, item: n_exact.append(len(user)) or exact(of, user, item)  # noqa: E731 # it is one
    monkeypatch.setattr(ScoredUserVectors, "exact", noted)
    monkeypatch.setattr(ScoredUserVectors, "exact_of_all", None)
    rank_items(users, labels, Limits(np.ones(4, bool)), first=first)
    assert sum(n_exact) <= 4 * (10 + 10 + first) + 20


def test_the_scores_of_a_vector_of_zeros_need_no_products(monkeypatch):
    rng = np.random.default_rng(6)
    users = prepared(rng.standard_normal((5, 3)), rng.standard_normal(5), np.zeros((1, 3)), 0.5)
    scored = users.exact(np.zeros(5, np.int64), np.arange(5))
    monkeypatch.setattr(catalogue, "added_products", None)
    assert users.exact_of_all(0, 0, 5).tolist() == scored.tolist()


def test_scores_are_added_dimension_after_dimension_and_each_product_is_rounded_before():
    # Any other order of these loses the 1 or keeps it twice.
    users = prepared(np.array([[1e16, 1.0, -1e16, 1.0], [1e16, -1e16, 1.0, 1.0]]), 0, np.ones((1, 4)), 0)
    assert users.exact(np.array([0, 0]), np.array([0, 1])).tolist() == [1.0, 2.0]
    assert users.exact_of_all(0, 0, 2).tolist() == [1.0, 2.0]
    a = 1 + 2.0**-30
    rounded = prepared(np.array([[-(a * a), a]]), 0, np.array([[1.0, a]]), 0)
    assert rounded.exact(np.array([0]), np.array([0])).tolist() == [0.0]


def test_no_score_of_numbers_that_can_be_used_is_infinite():
    numbers = np.array([LARGEST, -LARGEST, np.nextafter(LARGEST, np.inf), 1e300, np.inf, -np.inf, np.nan])
    assert catalogue.is_usable(numbers).tolist() == [True, True, *[False] * 5]
    largest = np.full((2, 20), LARGEST)
    users = prepared(largest, LARGEST, largest, LARGEST)
    assert np.isfinite(users.exact_of_all(0, 0, 2)).all()
    assert np.isfinite(users.error).all()
    # No array is longer.
    assert np.isfinite(LARGEST**2 * 2.0**32)


def test_cosines_are_of_vectors_of_length_one():
    items = np.array([[3.0, 4.0], [0.0, 0.0], [3e200, 4e200]])
    users = prepared(items, 0, np.array([[1e-200, 0.0]]), 0.5, "cosine")
    assert users.exact_of_all(0, 0, 3).tolist() == [1.1, 0.5, 1.1]


@pytest.mark.parametrize("shape", [(0, 3), (4, 0)])
def test_no_items_and_no_dimensions(shape):
    n_items, length = shape
    labels = Ragged.from_lists([[-1], [n_items - 1]], np.int64)
    found_ranks = rank_items(
        prepared(np.zeros(shape), 0, np.zeros((2, length)), 0), labels, Limits(np.ones(2, bool)), first=2
    )
    assert found_ranks.first.values.tolist() == [0, 1] * 2 * bool(n_items)
    assert found_ranks.rank("item_asc").tolist() == [0, n_items]


# --- what the worker makes of vectors

METRICS = ["ndcg@3", "ndcg", "ap", "rr", "auc", "percentile_rank", "recall@2", "precision@4", "bpref", "rr(ties='average')"]  # fmt: skip
KNOWN = Lists(scored_arrays=True, label_arrays=False, relevances=("grade",))
# Whole numbers make ties, numbers that differ in their last bit make near-ties, and sums of tenths are not associative.
NUMBERS = st.sampled_from([0.0, 1.0, -1.0, 2.0, 0.1, 0.2, 0.3, 1.0 + 2**-52, 1e-30, -1e8, 1e8])


def task_of(ties, *similarities, further=()):
    dialect = find_dialect("default")
    resolved = resolve(parse_metrics([*METRICS, *further]), dialect, {}, KNOWN, users_alone=False)
    views, _ = views_of(resolved, dialect, KNOWN, ties=ties)
    return task_of_views(*views, similarities=similarities)


def catalogue_rows(items, vectors, bias=None, filters=()):
    columns = {
        catalogue.CATALOGUE_ITEM: pa.array(items), catalogue.CATALOGUE_VECTOR: pa.array(vectors, pa.list_(pa.float64())),
        catalogue.ITEM_BIAS: pa.array([0.0] * len(items) if bias is None else bias),
    }  # fmt: skip
    columns |= {g.filter_column(index): pa.array(values, WORDS) for index, values in enumerate(filters)}
    return pa.table(columns | {catalogue.IS_CATALOGUE_ROW: pa.array(np.ones(len(items), bool))})


def packed_of(rows):
    item_rows = ItemRows(pa.RecordBatch.from_pylist([], schema=rows.schema))
    for batch in rows.to_batches(max_chunksize=2):
        item_rows.add(batch)
    return PackedCatalogue.of_length(item_rows, catalogue.usual_length(item_rows.n_rows))


def world_of(item_vectors, user_vectors, **others):
    """Users and items with vectors; what is not said of them is the same for all."""
    n_users, n_items = len(user_vectors), len(item_vectors)
    return {
        "items": list("abcdefghi"[:n_items]), "item_vectors": np.array(item_vectors), "item_bias": np.zeros(n_items),
        "user_vectors": user_vectors, "user_bias": np.zeros(n_users), "labels": [{"a": 1.0}] * n_users,
        "excluded": [[]] * n_users, "candidates": None, "similarity": "dot", "filters": [],
    } | others  # fmt: skip


def batch_of(world, **lists):
    """What a task gets of the users beside their lists."""
    n_users, text = len(world["labels"]), pa.list_(pa.string())
    grades = [list(labels.values()) for labels in world["labels"]]
    columns = {
        "user": pa.array(range(n_users)), g.NO_USER: pa.array([False] * n_users), g.EXCLUDED: pa.array(world["excluded"], text),
        g.LABELS: pa.array([list(labels) for labels in world["labels"]], text), g.LABEL_ROWS: pa.array(list(map(len, grades))),
        g.grades_column(0): pa.array(grades, pa.list_(pa.float64())),
    }  # fmt: skip
    return pa.RecordBatch.from_pydict(columns | lists)


PACK = catalogue.pack_catalogue(10**9)


def vectors_of(world):
    of_items = [items for _, items in world["filters"]]
    rows = catalogue_rows(world["items"], world["item_vectors"].tolist(), world["item_bias"], of_items)
    ((packed,),) = [batch.columns for batch in PACK(iter(rows.to_batches()))]
    n_users = len(world["labels"])
    columns = {
        g.VECTOR: pa.array(list(world["user_vectors"]), pa.list_(pa.float64())), g.BIAS: pa.array(world["user_bias"]),
        # The first user has the packed catalogue.
        g.CATALOGUE: pa.array([packed[0].as_py()] + [None] * (n_users - 1), pa.binary()),
        # A user without a vector has no row.
        g.PREDICTION_ROWS: pa.array([int(vector is not None) for vector in world["user_vectors"]]),
    }  # fmt: skip
    columns |= {g.filter_column(index): pa.array(users, WORDS) for index, (users, _) in enumerate(world["filters"])}
    if world["candidates"] is not None:
        columns[g.CANDIDATES] = pa.array(world["candidates"], pa.list_(pa.string()))
    return batch_of(world, **columns)


def of_vectors(world, ties):
    """What the worker makes of the vectors."""
    task = task_of(ties, world["similarity"])
    ((part, features),) = with_features(task, iter([vectors_of(world)]))
    return score(task, part, features)


def labels_of(world):
    return [list(labels) for labels in world["labels"]]


def shard_rows(world, n_shards, **lists):
    """The rows of items and users as shards get them: items by the sum of their bytes, and users in each shard."""
    text, number = pa.list_(pa.string()), pa.float64()
    label = pa.struct(
        {catalogue_lists.ITEM: pa.string(), catalogue_lists.LENGTH: pa.int64(), catalogue_lists.SCORE: number}
    )
    kinds = {
        catalogue_lists.SHARD: pa.int32(), catalogue_lists.IS_USER: pa.bool_(), catalogue.CATALOGUE_ITEM: pa.string(),
        catalogue.CATALOGUE_VECTOR: pa.list_(number), catalogue.ITEM_BIAS: number, "user": pa.int64(),
        catalogue_lists.USER_VECTOR: pa.list_(number), g.EXCLUDED: text, g.LABELS: text, catalogue_lists.LABELLED: pa.list_(label),
    }  # fmt: skip
    if world["candidates"] is not None:
        kinds[g.CANDIDATES] = text
    filters = {g.filter_column(index): values for index, values in enumerate(world["filters"])}
    kinds |= dict.fromkeys(filters, WORDS)
    of_items = {
        "item": world["items"], "vector": world["item_vectors"], "bias": world["item_bias"],
        **{name: values for name, (_, values) in filters.items()},
    }  # fmt: skip
    rows = [
        dict(zip(of_items, values, strict=True))
        | {catalogue_lists.SHARD: sum(values[0].encode()) % n_shards, catalogue_lists.IS_USER: False}
        for values in zip(*of_items.values(), strict=True)
    ]
    of_users = {
        "user": range(len(world["labels"])), catalogue_lists.USER_VECTOR: world["user_vectors"], "bias": world["user_bias"],
        g.EXCLUDED: world["excluded"], g.CANDIDATES: world["candidates"] or world["excluded"], **lists,
        **{name: values for name, (values, _) in filters.items()},
    }  # fmt: skip
    for values in zip(*of_users.values(), strict=True):
        user = dict(zip(of_users, values, strict=True)) | {catalogue_lists.IS_USER: True}
        rows += [user | {catalogue_lists.SHARD: shard} for shard in range(n_shards)]
    rows.sort(key=lambda row: (row[catalogue_lists.SHARD], row[catalogue_lists.IS_USER]))
    return pa.Table.from_pylist(rows, pa.schema(kinds)).to_batches(max_chunksize=5)


def of_shards(world, ties, n_shards):
    """What the worker makes of the vectors if no task holds all of the items."""
    task, users = task_of(ties, world["similarity"]), ("user",)
    labelled, messages = ([[] for _ in world["labels"]] for _ in range(2))
    run = catalogue_lists.in_shards(world["similarity"], catalogue_lists.label_scores(users))
    for batch in run(iter(shard_rows(world, n_shards, **{g.LABELS: labels_of(world)}))):
        for row in batch.to_pylist():
            labelled[row["user"]] += row[catalogue_lists.LABELLED]
    first = catalogue_lists.first_items(task, 0) or catalogue_lists.FirstItems(0, ties)
    run = catalogue_lists.in_shards(world["similarity"], catalogue_lists.ranks_in_shard(users, first), first.k)
    for batch in run(iter(shard_rows(world, n_shards, **{catalogue_lists.LABELLED: labelled}))):
        for row in batch.to_pylist():
            messages[row.pop("user")].append(row)
    rows = [int(vector is not None) for vector in world["user_vectors"]]
    message = pa.struct([field for field in batch.schema if field.name != "user"])
    part = batch_of(world, **{g.SHARDS: pa.array(messages, pa.list_(message)), g.PREDICTION_ROWS: pa.array(rows)})
    return score(task, part, list(task.features))


def of_table(world, ties):
    """What the worker makes of the table of all scores."""
    given = ("user_vectors", "item_vectors", "similarity", "user_bias", "item_bias")
    scores, candidates = exact_scores(*(world[name] for name in given)), world["candidates"]

    def is_allowed(user, place):
        is_candidate = candidates is None or world["items"][place] in candidates[user]
        return is_candidate and all(
            {*(of[user] or ())} & {*(of_items[place] or ())} for of, of_items in world["filters"]
        )

    allowed = [
        [place for place in range(len(world["items"])) if is_allowed(user, place)] for user in range(len(scores))
    ]
    items = [[world["items"][place] for place in places] for places in allowed]
    listed = [scores[user, places].tolist() for user, places in enumerate(allowed)]
    columns = {
        g.ITEMS: pa.array(items, pa.list_(pa.string())),
        g.SCORES: pa.array(listed, pa.list_(pa.float64())),
        g.PREDICTION_ROWS: pa.array([len(places) for places in allowed]),
    }
    return score(task_of(ties), batch_of(world, **columns))


@st.composite
def tables(draw):
    n_users, n_items, length = draw(st.integers(1, 4)), draw(st.integers(1, 9)), draw(st.integers(1, 4))

    def matrix(n, width):
        return np.array(draw(st.lists(NUMBERS, min_size=n * width, max_size=n * width))).reshape(n, width)

    items = [f"i{place}" for place in draw(st.permutations(range(n_items)))]
    some = st.lists(st.sampled_from([*items, "unknown", "i99"]), unique=True, max_size=6)
    labelled = st.sampled_from([*items, "unknown", "other"])
    grades = st.dictionaries(labelled, st.sampled_from([0.0, 1.0, 2.0]), max_size=5)

    def of_users(some):
        return st.lists(some, min_size=n_users, max_size=n_users)

    values = st.none() | st.lists(st.sampled_from(["x", "y", "é"]), max_size=2)
    filters = [
        [draw(st.lists(values, min_size=n, max_size=n)) for n in (n_users, n_items)]
        for _ in range(draw(st.integers(0, 2)))
    ]
    return world_of(
        matrix(n_items, length), matrix(n_users, length), items=items, item_bias=matrix(n_items, 1)[:, 0], filters=filters,
        user_bias=matrix(n_users, 1)[:, 0], similarity=draw(st.sampled_from(["dot", "cosine"])), labels=draw(of_users(grades)),
        excluded=draw(of_users(some)), candidates=draw(st.none() | of_users(some)),
    )  # fmt: skip


@given(tables(), st.sampled_from(["item_asc", "item_desc"]))
@settings(max_examples=50, deadline=None)
def test_values_and_counts_are_those_of_the_table_of_all_scores(world, ties):
    ours, of_all = of_vectors(world, ties), of_table(world, ties)
    for label, value, other in zip(METRICS, ours.metrics, of_all.metrics, strict=True):
        np.testing.assert_array_equal(value, other, err_msg=label)
    for name, count in of_all.counts.items():
        np.testing.assert_array_equal(ours.counts[name], count, err_msg=name)


@given(tables(), st.sampled_from(["item_asc", "item_desc"]), st.sampled_from([1, 3, 7]))
@settings(max_examples=30, deadline=None)
def test_values_and_counts_are_the_same_bits_in_any_number_of_shards(world, ties, n_shards):
    ours, of_all = of_shards(world, ties, n_shards), of_table(world, ties)
    for label, value, other in zip(METRICS, ours.metrics, of_all.metrics, strict=True):
        np.testing.assert_array_equal(value, other, err_msg=label)
    for name, count in of_all.counts.items():
        np.testing.assert_array_equal(ours.counts[name], count, err_msg=name)


def test_shards_whose_rows_come_in_another_order_are_an_error():
    world = world_of([[1.0], [2.0], [3.0]], [[1.0]])
    batches = shard_rows(world, 2, **{g.LABELS: labels_of(world)})
    rows = pa.Table.from_batches(batches).to_batches()[0]
    run = catalogue_lists.in_shards("dot", catalogue_lists.label_scores(("user",)))
    assert list(run(iter([rows])))
    for order in (np.arange(rows.num_rows)[::-1], np.r_[np.arange(rows.num_rows), 0]):
        with pytest.raises(ValueError, match="not in the order of their shards"):
            list(run(iter([rows.take(pa.array(order))])))


def test_first_items_do_not_depend_on_how_many_users_are_worked_at_a_time(monkeypatch):
    rng, n_users = np.random.default_rng(8), 11
    users = [*rng.standard_normal((n_users - 1, 2)).tolist(), None]
    excluded = [["b"] * (user % 2) for user in range(n_users)]
    batch = vectors_of(world_of(rng.integers(-2, 3, (6, 2)).astype(float), users, excluded=excluded))
    run = catalogue_lists.first_items_of_batches("dot", catalogue_lists.FirstItems(3, "item_asc"), ("user",), "item")
    (whole,) = run(iter([batch, batch.slice(0, 0)]))
    monkeypatch.setattr(catalogue_lists, "_LISTED", 12)
    parts = list(run(iter([batch])))
    assert [part.num_rows for part in parts] == [4, 4, 3]
    assert pa.Table.from_batches(parts).to_pylist() == whole.to_pylist()
    assert [len(row["recommendations"] or ()) for row in whole.to_pylist()] == [3] * (n_users - 1) + [0]


def test_a_first_batch_without_users_leaves_the_catalogue_to_the_next_one():
    batch = vectors_of(world_of([[1.0], [2.0]], [[1.0], [-1.0]]))
    task = task_of("item_asc", "dot")
    (part,) = with_features(task, iter([batch.slice(0, 0), batch]))
    assert score(task, *part).counts["0.n_predictions"].tolist() == [2, 2]


def test_no_more_users_are_scored_at_a_time_than_their_first_items_fit_into_memory(monkeypatch):
    batch = vectors_of(world_of([[1.0], [2.0], [3.0]], [[1.0], [-1.0]] * 3 + [[0.0]]))
    task = task_of("item_asc", "dot", further=["personalisation@2"])
    (at_once,) = with_features(task, iter([batch]))
    expected = score(task, *at_once)
    # Two users have the first two items and one more.
    monkeypatch.setattr(catalogue_lists, "_LISTED", 7)
    parts = list(with_features(task, iter([batch, batch.slice(0, 0)])))
    assert [part.num_rows for part, _ in parts] == [2, 2, 2, 1]
    values = [score(task, *part).metrics for part in parts]
    for found, metric in zip(zip(*values, strict=True), expected.metrics, strict=True):
        np.testing.assert_array_equal(np.concatenate(found), metric)
    # The lists of a part are gone when those of the next one come.
    read, lists, n_kept = catalogue_lists.VectorLists, [], []

    def noted(*of_batch):
        n_kept.append(sum(each() is not None for each in lists))
        found = read(*of_batch)
        lists.append(weakref.ref(found))
        return found

    monkeypatch.setattr(catalogue_lists, "VectorLists", noted)
    run = state_of_batches(task, DescriptionOptions(None, quantiles=()))
    assert [*run(iter([batch]))]
    assert n_kept == [0, 0, 0, 0]


def test_a_catalogue_that_no_row_can_hold_says_how_many_shards_to_ask_for(monkeypatch):
    (batch,) = catalogue_rows(["a", "b"], [[1.0] * 3] * 2).to_batches()
    pack = catalogue.pack_catalogue(2 * batch.nbytes)
    (packed,) = pack(iter([batch] * 2))
    assert PackedCatalogue.unpack(packed.column(0)[0].as_buffer()).faults == (0, 0, 2)
    monkeypatch.setattr(catalogue, "_SHARD_BYTES", batch.nbytes)
    with pytest.raises(
        RuntimeError, match=r"^the items of Vectors are too large for one row: 6 items .*\(…, shards=3\)"
    ):
        next(pack(iter([batch] * 3)))


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("items", "vectors", "bias", "counts"),
    [
        (["a", None], [[1.0], [1.0]], None, (1, 0, 0)),
        (["a", "b"], [[1.0], None], None, (1, 0, 0)),
        (["a", "b"], [[1.0], [NAN]], None, (1, 0, 0)),
        (["a", "b"], [[1.0], [INF]], None, (1, 0, 0)),
        (["a", "b"], [[1.0], [1e300]], None, (1, 0, 0)),
        (["a", "b"], [[1.0], [None]], None, (1, 0, 0)),
        (["a", "b"], [[1.0], []], None, (1, 0, 0)),
        (["a", "b", "c"], [[1.0], [2.0], [1.0, 2.0]], None, (0, 1, 0)),
        (["a", "a", "b"], [[1.0], [2.0], [3.0]], None, (0, 0, 1)),
        ([1.0, NAN], [[1.0], [1.0]], None, (1, 0, 0)),
        ([0.0, -0.0], [[1.0], [2.0]], None, (0, 0, 1)),
        *((["a", "b"], [[1.0], [1.0]], [1.0, bias], (1, 0, 0)) for bias in (1e300, INF, NAN, None)),
    ],
)
def test_items_that_cannot_be_used_are_left_out_and_counted(items, vectors, bias, counts):
    packed = packed_of(catalogue_rows(items, vectors, bias))
    assert packed.faults == counts
    assert len(packed.ids) == len(items) - sum(counts)
    assert items[0] in packed.ids.to_pylist()


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
def test_no_item_voids_a_user_and_no_user_another(similarity):
    items, users = [[1.0, 2.0], [1e300, 1.0], [1.0, 1.0], [1.0, 0.0]], [[1.0, 1.0], [1e300, 1.0], [1.0, 1.0], None]
    bias = {"item_bias": np.array([0.0, 0.0, 1e300, 0.0]), "user_bias": np.array([0.0, 0.0, 1e300, 0.0])}
    world = world_of(items, users, similarity=similarity, **bias)
    counts = of_vectors(world, "item_asc").counts
    assert counts["0.n_predictions"].tolist() == [2, 0, 0, 0]
    assert counts["0.n_invalid_predictions"].tolist() == [0, 1, 1, 0]
    assert counts["n_invalid_catalogue"].tolist() == [2, 2, 2, 2]


def test_of_an_items_rows_the_greatest_vector_stays_in_any_order():
    items, vectors = ["a", "b", "a", "a"], [[1.0, 5.0], [0.0, 0.0], [2.0, 1.0], [2.0, 0.0]]
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
        rows = catalogue_rows([items[place] for place in order], [vectors[place] for place in order])
        packed = packed_of(rows)
        assert packed.ids.to_pylist() == ["a", "b"]
        assert packed.vectors.tolist() == [[2.0, 1.0], [0.0, 0.0]]


def test_of_an_items_equal_rows_the_last_values_of_filters_stay_in_any_order():
    rows = [(["x"], ["p", "q"]), (["x"], ["p"]), (["x"], None), (["w"], ["z"])]
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
        filters = zip(*(rows[place] for place in order), strict=True)
        packed = packed_of(catalogue_rows(["a"] * 4, [[1.0]] * 4, filters=filters))
        assert [values.to_pylist() for values in packed.filters] == [[[b"x"]], [[b"p"]]]


def test_a_packed_catalogue_reads_back_with_items_in_the_order_of_their_bytes():
    ids = ["é", "b", "Z", "a", "zz"]
    packed = packed_of(catalogue_rows(ids, [[0.1, place] for place in range(5)], [1.0, 2.0, 3.0, 4.0, 5.0]))
    again = PackedCatalogue.unpack(pa.py_buffer(packed.pack()))
    assert again.ids.to_pylist() == ["Z", "a", "b", "zz", "é"]
    assert again.vectors.tolist() == [[0.1, 2.0], [0.1, 3.0], [0.1, 1.0], [0.1, 4.0], [0.1, 0.0]]
    assert again.bias.tolist() == [3.0, 4.0, 2.0, 5.0, 1.0]
    empty = PackedCatalogue.unpack(pa.py_buffer(packed_of(catalogue_rows(["a"], [None])).pack()))
    assert (len(empty.ids), empty.faults.n_invalid) == (0, 1)
