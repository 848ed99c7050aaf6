"""Lists from vectors have, to the bit, the values of a table of all scores; what the vectors cannot say is counted."""

import weakref

import numpy as np
import pyarrow as pa
import pytest
from helpers.scored import task_of_views
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_rankeval.dialects import find_dialect
from spark_rankeval.features.vectors import catalogue
from spark_rankeval.features.vectors import worker as vector_lists
from spark_rankeval.features.vectors.catalogue import PackedCatalogue, pack_catalogue
from spark_rankeval.metrics.naming import parse_metrics
from spark_rankeval.request.availability import Lists
from spark_rankeval.request.readings import resolve, views_of
from spark_rankeval.statistics.description import DescriptionOptions
from spark_rankeval.worker import grouped_row as g
from spark_rankeval.worker.scored_features import with_features
from spark_rankeval.worker.states import state_of_batches
from spark_rankeval.worker.user_metrics import score

METRICS = ["ndcg@3", "ndcg", "ap", "rr", "auc", "percentile_rank", "recall@2", "precision@4", "bpref", "rr(ties='average')"]  # fmt: skip
KNOWN = Lists(scored_arrays=True, label_arrays=False, relevances=("grade",))
# Whole numbers make ties, numbers that differ in their last bit make near-ties, and sums of tenths are not associative.
NUMBERS = st.sampled_from([0.0, 1.0, -1.0, 2.0, 0.1, 0.2, 0.3, 1.0 + 2**-52, 1e-30, -1e8, 1e8])


def task_of(ties, *similarities, further=()):
    dialect = find_dialect("default")
    resolved = resolve(parse_metrics([*METRICS, *further]), dialect, {}, KNOWN, users_alone=False)
    views, _ = views_of(resolved, dialect, KNOWN, ties=ties)
    return task_of_views(*views, similarities=similarities)


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


def catalogue_rows(items, vectors, bias=None):
    columns = {
        catalogue.ITEM: pa.array(items), catalogue.VECTOR: pa.array(vectors, pa.list_(pa.float64())),
        catalogue.ITEM_BIAS: pa.array([0.0] * len(items) if bias is None else bias),
    }  # fmt: skip
    return pa.table(columns | {catalogue.IS_CATALOGUE_ROW: pa.array(np.ones(len(items), bool))})


def world_of(item_vectors, user_vectors, **others):
    """Users and items with vectors; what is not said of them is the same for all."""
    n_users, n_items = len(user_vectors), len(item_vectors)
    return {
        "items": list("abcdefghi"[:n_items]), "item_vectors": np.array(item_vectors), "item_bias": np.zeros(n_items),
        "user_vectors": user_vectors, "user_bias": np.zeros(n_users), "labels": [{"a": 1.0}] * n_users,
        "excluded": [[]] * n_users, "candidates": None, "similarity": "dot",
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


def vectors_of(world):
    rows = catalogue_rows(world["items"], world["item_vectors"].tolist(), world["item_bias"])
    ((packed,),) = [batch.columns for batch in pack_catalogue(iter(rows.to_batches()))]
    n_users = len(world["labels"])
    columns = {
        g.VECTOR: pa.array(list(world["user_vectors"]), pa.list_(pa.float64())), g.BIAS: pa.array(world["user_bias"]),
        # The first user has the packed catalogue.
        g.CATALOGUE: pa.array([packed[0].as_py()] + [None] * (n_users - 1), pa.binary()),
        g.PREDICTION_ROWS: pa.array(np.ones(n_users, np.int64)),
    }  # fmt: skip
    if world["candidates"] is not None:
        columns[g.CANDIDATES] = pa.array(world["candidates"], pa.list_(pa.string()))
    return batch_of(world, **columns)


def of_vectors(world, ties):
    """What the worker makes of the vectors."""
    task = task_of(ties, world["similarity"])
    ((part, features),) = with_features(task, iter([vectors_of(world)]))
    return score(task, part, features)


def of_table(world, ties):
    """What the worker makes of the table of all scores."""
    given = ("user_vectors", "item_vectors", "similarity", "user_bias", "item_bias")
    scores, candidates = exact_scores(*(world[name] for name in given)), world["candidates"]
    allowed = [
        [place for place, item in enumerate(world["items"]) if candidates is None or item in candidates[user]]
        for user in range(len(scores))
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
def worlds(draw):
    n_users, n_items, length = draw(st.integers(1, 4)), draw(st.integers(1, 9)), draw(st.integers(1, 4))

    def matrix(n, width):
        return np.array(draw(st.lists(NUMBERS, min_size=n * width, max_size=n * width))).reshape(n, width)

    items = [f"i{place}" for place in draw(st.permutations(range(n_items)))]
    some = st.lists(st.sampled_from([*items, "unknown", "i99"]), unique=True, max_size=6)
    labelled = st.sampled_from([*items, "unknown", "other"])
    grades = st.dictionaries(labelled, st.sampled_from([0.0, 1.0, 2.0]), max_size=5)

    def of_users(some):
        return st.lists(some, min_size=n_users, max_size=n_users)

    return world_of(
        matrix(n_items, length), matrix(n_users, length), items=items, item_bias=matrix(n_items, 1)[:, 0],
        user_bias=matrix(n_users, 1)[:, 0], similarity=draw(st.sampled_from(["dot", "cosine"])), labels=draw(of_users(grades)),
        excluded=draw(of_users(some)), candidates=draw(st.none() | of_users(some)),
    )  # fmt: skip


@given(worlds(), st.sampled_from(["item_asc", "item_desc"]))
@settings(max_examples=50, deadline=None)
def test_values_and_counts_are_those_of_the_table_of_all_scores(world, ties):
    ours, of_all = of_vectors(world, ties), of_table(world, ties)
    for label, value, other in zip(METRICS, ours.metrics, of_all.metrics, strict=True):
        np.testing.assert_array_equal(value, other, err_msg=label)
    for name, count in of_all.counts.items():
        np.testing.assert_array_equal(ours.counts[name], count, err_msg=name)


def test_first_items_do_not_depend_on_how_many_users_are_worked_at_a_time(monkeypatch):
    rng, n_users = np.random.default_rng(8), 11
    users = [*rng.standard_normal((n_users - 1, 2)).tolist(), None]
    excluded = [["b"] * (user % 2) for user in range(n_users)]
    batch = vectors_of(world_of(rng.integers(-2, 3, (6, 2)).astype(float), users, excluded=excluded))
    run = vector_lists.first_items_of_batches("dot", 3, ("user",), "item")
    (whole,) = run(iter([batch, batch.slice(0, 0)]))
    monkeypatch.setattr(vector_lists, "_LISTED", 12)
    parts = list(run(iter([batch])))
    assert [part.num_rows for part in parts] == [4, 4, 3]
    assert pa.Table.from_batches(parts).to_pylist() == whole.to_pylist()
    assert [len(row["recommendations"] or ()) for row in whole.to_pylist()] == [3] * (n_users - 1) + [0]


def test_no_more_users_are_scored_at_a_time_than_their_first_items_fit_into_memory(monkeypatch):
    batch = vectors_of(world_of([[1.0], [2.0], [3.0]], [[1.0], [-1.0]] * 3 + [[0.0]]))
    task = task_of("item_asc", "dot", further=["personalisation@2"])
    (at_once,) = with_features(task, iter([batch]))
    expected = score(task, *at_once)
    # Two users have the first two items and one more.
    monkeypatch.setattr(vector_lists, "_LISTED", 7)
    parts = list(with_features(task, iter([batch, batch.slice(0, 0)])))
    assert [part.num_rows for part, _ in parts] == [2, 2, 2, 1, 0]
    values = [score(task, *part).metrics for part in parts]
    for found, metric in zip(zip(*values, strict=True), expected.metrics, strict=True):
        np.testing.assert_array_equal(np.concatenate(found), metric)
    # The lists of a part are gone when those of the next one come.
    read, lists, n_kept = vector_lists.VectorLists.read, [], []

    def noted(*of_batch):
        n_kept.append(sum(each() is not None for each in lists))
        found = read(*of_batch)
        lists.append(weakref.ref(found))
        return found

    monkeypatch.setattr(vector_lists.VectorLists, "read", noted)
    run = state_of_batches(task, DescriptionOptions(None, quantiles=()), g.NO_USER)
    assert [*run(iter([batch]))]
    assert n_kept == [0, 0, 0, 0]


def test_a_catalogue_that_no_row_can_hold_ends_before_it_is_copied(monkeypatch):
    (batch,) = catalogue_rows(["a", "b"], [[1.0] * 3] * 2).to_batches()
    monkeypatch.setattr(catalogue, "_MOST_BYTES", 2 * batch.nbytes)
    (packed,) = pack_catalogue(iter([batch] * 2))
    assert PackedCatalogue.unpack(packed.column(0)[0].as_buffer()).faults == (0, 0, 2)
    with pytest.raises(RuntimeError, match=r"the items of Vectors take more than 2 GB.* Use float32"):
        next(pack_catalogue(iter([batch] * 3)))


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
    packed = PackedCatalogue.from_rows(catalogue_rows(items, vectors, bias))
    assert packed.faults == counts
    assert len(packed.ids) == len(items) - sum(counts)
    assert items[0] in packed.ids.to_pylist()


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
def test_no_item_voids_a_user_and_no_user_another(similarity):
    items, users = [[1.0, 2.0], [1e300, 1.0], [1.0, 1.0], [1.0, 0.0]], [[1.0, 1.0], [1e300, 1.0], [1.0, 1.0]]
    bias = {"item_bias": np.array([0.0, 0.0, 1e300, 0.0]), "user_bias": np.array([0.0, 0.0, 1e300])}
    world = world_of(items, users, similarity=similarity, **bias)
    counts = of_vectors(world, "item_asc").counts
    assert counts["0.n_predictions"].tolist() == [2, 0, 0]
    assert counts["0.n_invalid_predictions"].tolist() == [0, 1, 1]
    assert counts["n_invalid_catalogue"].tolist() == [2, 2, 2]


def test_of_an_items_rows_the_greatest_vector_stays_in_any_order():
    items, vectors = ["a", "b", "a", "a"], [[1.0, 5.0], [0.0, 0.0], [2.0, 1.0], [2.0, 0.0]]
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
        rows = catalogue_rows([items[place] for place in order], [vectors[place] for place in order])
        packed = PackedCatalogue.from_rows(rows)
        assert packed.ids.to_pylist() == ["a", "b"]
        assert packed.vectors.tolist() == [[2.0, 1.0], [0.0, 0.0]]


def test_a_packed_catalogue_reads_back_with_items_in_the_order_of_their_bytes():
    ids = ["é", "b", "Z", "a", "zz"]
    packed = PackedCatalogue.from_rows(
        catalogue_rows(ids, [[0.1, place] for place in range(5)], [1.0, 2.0, 3.0, 4.0, 5.0])
    )
    again = PackedCatalogue.unpack(pa.py_buffer(packed.pack()))
    assert again.ids.to_pylist() == ["Z", "a", "b", "zz", "é"]
    assert again.vectors.tolist() == [[0.1, 2.0], [0.1, 3.0], [0.1, 1.0], [0.1, 4.0], [0.1, 0.0]]
    assert again.bias.tolist() == [3.0, 4.0, 2.0, 5.0, 1.0]
    empty = PackedCatalogue.unpack(pa.py_buffer(PackedCatalogue.from_rows(catalogue_rows(["a"], [None])).pack()))
    assert (len(empty.ids), empty.faults.n_invalid) == (0, 1)
