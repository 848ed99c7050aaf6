"""Lists from vectors have, to the bit, the values of a table of all scores; what the vectors cannot say is counted."""

import weakref

import numpy as np
import pyarrow as pa
import pytest
from helpers.effort import examples
from helpers.scored import task_of_views
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_rankeval.dialects import find_dialect
from spark_rankeval.features.vectors import catalogue
from spark_rankeval.features.vectors import worker as vector_lists
from spark_rankeval.features.vectors.catalogue import (
    IS_CATALOGUE_ROW,
    ITEM,
    ITEM_BIAS,
    VECTOR,
    PackedCatalogue,
    pack_catalogue,
)
from spark_rankeval.features.vectors.worker import VectorLists, first_items_of_batches
from spark_rankeval.metrics.naming import parse_metrics
from spark_rankeval.request.availability import Lists
from spark_rankeval.request.readings import resolve, views_of
from spark_rankeval.statistics.description import DescriptionOptions
from spark_rankeval.worker import grouped_row
from spark_rankeval.worker.scored_features import with_features
from spark_rankeval.worker.states import state_of_batches
from spark_rankeval.worker.user_metrics import score

METRICS = [
    "ndcg@3",
    "ndcg",
    "ap",
    "rr",
    "auc",
    "percentile_rank",
    "recall@2",
    "precision@4",
    "bpref",
    "rr(ties='average')",
]
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


def catalogue_rows(items, vectors, bias):
    return pa.table(
        {
            ITEM: pa.array(items, pa.string()),
            VECTOR: pa.array(vectors.tolist(), pa.list_(pa.float64())),
            ITEM_BIAS: pa.array(bias),
            IS_CATALOGUE_ROW: pa.array(np.ones(len(items), bool)),
        }
    )


def catalogue_column(items, vectors, bias, n_users):
    """What each of some users has of the packed catalogue: the first one has it."""
    rows = catalogue_rows(items, vectors, bias)
    ((packed,),) = [batch.columns for batch in pack_catalogue(iter(rows.to_batches()))]
    return pa.array([packed[0].as_py()] + [None] * (n_users - 1), pa.binary())


def batch_of(world):
    """What a task gets of the vectors."""
    n_users = len(world["labels"])
    text = pa.list_(pa.string())
    columns = {
        grouped_row.VECTOR: pa.array(world["user_vectors"].tolist(), pa.list_(pa.float64())),
        grouped_row.BIAS: pa.array(world["user_bias"]),
        grouped_row.PREDICTION_ROWS: pa.array(np.ones(n_users, np.int64)),
        grouped_row.LABELS: pa.array([list(labels) for labels in world["labels"]], text),
        grouped_row.grades_column(0): pa.array(
            [list(labels.values()) for labels in world["labels"]], pa.list_(pa.float64())
        ),
        grouped_row.LABEL_ROWS: pa.array([len(labels) for labels in world["labels"]]),
        grouped_row.EXCLUDED: pa.array(world["excluded"], text),
        grouped_row.NO_USER: pa.array(np.zeros(n_users, bool)),
        grouped_row.CATALOGUE: catalogue_column(world["items"], world["item_vectors"], world["item_bias"], n_users),
    }
    if world["candidates"] is not None:
        columns[grouped_row.CANDIDATES] = pa.array(world["candidates"], text)
    return pa.RecordBatch.from_pydict(columns)


def of_vectors(world, ties):
    """What the worker makes of the vectors."""
    batch, task = batch_of(world), task_of(ties, world["similarity"])
    ((part, features),) = with_features(task, iter([batch]))
    return score(task, part, features)


def of_table(world, ties):
    """What the worker makes of the table of all scores."""
    scores = exact_scores(
        *(world[name] for name in ("user_vectors", "item_vectors", "similarity", "user_bias", "item_bias"))
    )
    allowed = [
        [
            place
            for place, item in enumerate(world["items"])
            if world["candidates"] is None or item in world["candidates"][user]
        ]
        for user in range(len(scores))
    ]
    columns = {
        grouped_row.ITEMS: pa.array(
            [[world["items"][place] for place in places] for places in allowed], pa.list_(pa.string())
        ),
        grouped_row.SCORES: pa.array(
            [scores[user, places].tolist() for user, places in enumerate(allowed)], pa.list_(pa.float64())
        ),
        grouped_row.PREDICTION_ROWS: pa.array([len(places) for places in allowed]),
        grouped_row.LABELS: pa.array([list(labels) for labels in world["labels"]], pa.list_(pa.string())),
        grouped_row.grades_column(0): pa.array(
            [list(labels.values()) for labels in world["labels"]], pa.list_(pa.float64())
        ),
        grouped_row.LABEL_ROWS: pa.array([len(labels) for labels in world["labels"]]),
        grouped_row.EXCLUDED: pa.array(world["excluded"], pa.list_(pa.string())),
        grouped_row.NO_USER: pa.array(np.zeros(len(scores), bool)),
    }
    task = task_of(ties)
    return score(task, pa.RecordBatch.from_pydict(columns))


@st.composite
def worlds(draw):
    n_users, n_items, length = draw(st.integers(1, 4)), draw(st.integers(1, 9)), draw(st.integers(1, 4))

    def matrix(n, width):
        return np.array(draw(st.lists(NUMBERS, min_size=n * width, max_size=n * width))).reshape(n, width)

    items = [f"i{place}" for place in draw(st.permutations(range(n_items)))]
    some = st.lists(st.sampled_from([*items, "unknown", "i99"]), unique=True, max_size=6)
    grades = st.dictionaries(
        st.sampled_from([*items, "unknown", "other"]), st.sampled_from([0.0, 1.0, 2.0]), max_size=5
    )
    return {
        "items": items,
        "item_vectors": matrix(n_items, length),
        "user_vectors": matrix(n_users, length),
        "item_bias": matrix(n_items, 1)[:, 0],
        "user_bias": matrix(n_users, 1)[:, 0],
        "similarity": draw(st.sampled_from(["dot", "cosine"])),
        "labels": draw(st.lists(grades, min_size=n_users, max_size=n_users)),
        "excluded": draw(st.lists(some, min_size=n_users, max_size=n_users)),
        "candidates": draw(st.none() | st.lists(some, min_size=n_users, max_size=n_users)),
    }


@given(worlds(), st.sampled_from(["item_asc", "item_desc"]))
@settings(max_examples=examples(by_day=40, at_night=150), deadline=None)
def test_values_and_counts_are_those_of_the_table_of_all_scores(world, ties):
    ours, of_all = of_vectors(world, ties), of_table(world, ties)
    for label, value, other in zip(METRICS, ours.metrics, of_all.metrics, strict=True):
        np.testing.assert_array_equal(value, other, err_msg=label)
    for name, count in of_all.counts.items():
        np.testing.assert_array_equal(ours.counts[name], count, err_msg=name)


def test_first_items_do_not_depend_on_how_many_users_are_worked_at_a_time(monkeypatch):
    rng = np.random.default_rng(8)
    vectors = rng.integers(-2, 3, (6, 2)).astype(float)
    n_users = 11
    batch = pa.RecordBatch.from_pydict(
        {
            "user": pa.array(range(n_users)),
            grouped_row.VECTOR: pa.array(
                [*rng.standard_normal((n_users - 1, 2)).tolist(), None], pa.list_(pa.float64())
            ),
            grouped_row.BIAS: pa.array(np.zeros(n_users)),
            grouped_row.PREDICTION_ROWS: pa.array(np.ones(n_users, np.int64)),
            grouped_row.EXCLUDED: pa.array([["b"] * (user % 2) for user in range(n_users)], pa.list_(pa.string())),
            grouped_row.NO_USER: pa.array(np.zeros(n_users, bool)),
            grouped_row.CATALOGUE: catalogue_column(list("abcdef"), vectors, np.zeros(6), n_users),
        }
    )
    run = first_items_of_batches("dot", 3, ("user",), "item")
    (whole,) = run(iter([batch, batch.slice(0, 0)]))
    monkeypatch.setattr(vector_lists, "_LISTED", 12)
    parts = list(run(iter([batch])))
    assert [part.num_rows for part in parts] == [4, 4, 3]
    assert pa.Table.from_batches(parts).to_pylist() == whole.to_pylist()
    assert [len(row["recommendations"] or ()) for row in whole.to_pylist()] == [3] * (n_users - 1) + [0]


def test_no_more_users_are_scored_at_a_time_than_their_first_items_fit_into_memory(monkeypatch):
    n_users = 7
    world = {"items": ["a", "b", "c"], "item_vectors": np.array([[1.0], [2.0], [3.0]]), "item_bias": np.zeros(3)}
    world |= {"user_vectors": np.array([[1.0], [-1.0]] * 3 + [[0.0]]), "user_bias": np.zeros(n_users)}
    world |= {"labels": [{"a": 1.0}] * n_users, "excluded": [[]] * n_users, "candidates": None}
    task, batch = task_of("item_asc", "dot", further=["personalisation@2"]), batch_of(world)
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
    read, lists, n_kept = VectorLists.read, [], []

    def noted(*of_batch):
        n_kept.append(sum(each() is not None for each in lists))
        found = read(*of_batch)
        lists.append(weakref.ref(found))
        return found

    monkeypatch.setattr(VectorLists, "read", noted)
    run = state_of_batches(task, DescriptionOptions(None, quantiles=()), grouped_row.NO_USER)
    assert [*run(iter([batch]))]
    assert n_kept == [0, 0, 0, 0]


def test_a_catalogue_that_no_row_can_hold_ends_before_it_is_copied(monkeypatch):
    (batch,) = catalogue_rows(["a", "b"], np.ones((2, 3)), np.zeros(2)).to_batches()
    monkeypatch.setattr(catalogue, "_MOST_BYTES", 2 * batch.nbytes)
    (packed,) = pack_catalogue(iter([batch] * 2))
    assert PackedCatalogue.unpack(packed.column(0)[0].as_buffer()).faults == (0, 0, 2)
    with pytest.raises(RuntimeError, match=r"the items of Vectors take more than 2 GB.* Use float32"):
        next(pack_catalogue(iter([batch] * 3)))


class TestWhatCannotBeUsed:
    def rows(self, items, vectors, bias=None):
        return pa.table(
            {
                ITEM: pa.array(items),
                VECTOR: pa.array(vectors, pa.list_(pa.float64())),
                ITEM_BIAS: pa.array([0.0] * len(items) if bias is None else bias),
            }
        )

    @pytest.mark.parametrize(
        ("items", "vectors", "counts"),
        [
            (["a", None], [[1.0], [1.0]], (1, 0, 0)),
            (["a", "b"], [[1.0], None], (1, 0, 0)),
            (["a", "b"], [[1.0], [float("nan")]], (1, 0, 0)),
            (["a", "b"], [[1.0], [float("inf")]], (1, 0, 0)),
            (["a", "b"], [[1.0], [1e300]], (1, 0, 0)),
            (["a", "b"], [[1.0], [None]], (1, 0, 0)),
            (["a", "b"], [[1.0], []], (1, 0, 0)),
            (["a", "b", "c"], [[1.0], [2.0], [1.0, 2.0]], (0, 1, 0)),
            (["a", "a", "b"], [[1.0], [2.0], [3.0]], (0, 0, 1)),
            ([1.0, float("nan")], [[1.0], [1.0]], (1, 0, 0)),
            ([0.0, -0.0], [[1.0], [2.0]], (0, 0, 1)),
        ],
    )
    def test_is_left_out_and_counted(self, items, vectors, counts):
        catalogue = PackedCatalogue.from_rows(self.rows(items, vectors))
        assert catalogue.faults == counts
        assert len(catalogue.ids) == len(items) - sum(counts)

    @pytest.mark.parametrize("bias", [1e300, float("inf"), float("nan"), None])
    def test_an_item_with_such_a_bias_is_left_out_and_counted(self, bias):
        catalogue = PackedCatalogue.from_rows(self.rows(["a", "b"], [[1.0], [1.0]], [bias, 1.0]))
        assert catalogue.faults == (1, 0, 0)
        assert catalogue.ids.to_pylist() == ["b"]

    @pytest.mark.parametrize("similarity", ["dot", "cosine"])
    def test_no_item_voids_a_user_and_no_user_another(self, similarity):
        world = {
            "items": ["a", "b", "c", "d"],
            "item_vectors": np.array([[1.0, 2.0], [1e300, 1.0], [1.0, 1.0], [1.0, 0.0]]),
            "user_vectors": np.array([[1.0, 1.0], [1e300, 1.0], [1.0, 1.0]]),
            "item_bias": np.array([0.0, 0.0, 1e300, 0.0]),
            "user_bias": np.array([0.0, 0.0, 1e300]),
            "similarity": similarity,
            "labels": [{"a": 1.0}] * 3,
            "excluded": [[]] * 3,
            "candidates": None,
        }
        counts = of_vectors(world, "item_asc").counts
        assert counts["0.n_predictions"].tolist() == [2, 0, 0]
        assert counts["0.n_invalid_predictions"].tolist() == [0, 1, 1]
        assert counts["n_invalid_catalogue"].tolist() == [2, 2, 2]

    def test_of_an_items_rows_the_greatest_vector_stays_in_any_order(self):
        items, vectors = ["a", "b", "a", "a"], [[1.0, 5.0], [0.0, 0.0], [2.0, 1.0], [2.0, 0.0]]
        for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
            rows = self.rows([items[place] for place in order], [vectors[place] for place in order])
            catalogue = PackedCatalogue.from_rows(rows)
            assert catalogue.ids.to_pylist() == ["a", "b"]
            assert catalogue.vectors.tolist() == [[2.0, 1.0], [0.0, 0.0]]

    def test_items_are_in_the_order_of_their_bytes(self):
        ids = ["é", "b", "Z", "a", "zz"]
        catalogue = PackedCatalogue.from_rows(self.rows(ids, [[1.0]] * len(ids)))
        assert catalogue.ids.to_pylist() == sorted(ids, key=str.encode)

    def test_a_packed_catalogue_reads_back(self):
        catalogue = PackedCatalogue.from_rows(
            self.rows([3, 1, 2], [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]], [1.0, 2.0, 3.0])
        )
        again = PackedCatalogue.unpack(pa.py_buffer(catalogue.pack()))
        assert again.ids.to_pylist() == [1, 2, 3]
        np.testing.assert_array_equal(again.vectors, catalogue.vectors)
        np.testing.assert_array_equal(again.bias, [2.0, 3.0, 1.0])

    def test_an_empty_catalogue_reads_back(self):
        again = PackedCatalogue.unpack(pa.py_buffer(PackedCatalogue.from_rows(self.rows(["a"], [None])).pack()))
        assert len(again.ids) == 0
        assert again.faults.n_invalid == 1
