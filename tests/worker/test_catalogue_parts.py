"""A catalogue that is worked in parts gives, to the bit, what the whole one gives: values, counts, first items."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_rankeval.dialects import find_dialect
from spark_rankeval.metrics.naming import parse_metrics
from spark_rankeval.request.readings import Lists, resolve, views_of
from spark_rankeval.request.task import FirstItems, ScoringTask
from spark_rankeval.worker import counted_lists, reading
from spark_rankeval.worker.catalogue import (
    BIAS,
    IN_CATALOGUE,
    ITEM,
    N_ROWS,
    PART,
    USUAL_LENGTH,
    VECTOR,
    count_lengths,
    pack_catalogue,
)
from spark_rankeval.worker.catalogue_parts import ANSWER, MODEL, Part, count_part, score_asked
from spark_rankeval.worker.counted_lists import ASKED, COUNTS_OF_PARTS, SCORES_OF_PARTS, first_items_of_batches
from spark_rankeval.worker.reading import of_model, places_before
from spark_rankeval.worker.scoring import score
from spark_rankeval.worker.task_tables import TaskTables, with_tables
from spark_rankeval.worker.vector_lists import Catalogues

METRICS = [
    "ndcg@3",
    "ap",
    "rr",
    "auc",
    "percentile_rank",
    "recall@2",
    "rr(ties='average')",
    "personalisation@2",
]
KNOWN = Lists(scored_arrays=True, label_arrays=False, relevances=("grade",))
# Whole numbers make ties, numbers that differ in their last bit near-ties; large ones that some parts alone have make other bounds; and
# the largest cannot be used.
NUMBERS = st.sampled_from([0.0, 1.0, -1.0, 2.0, 0.1, 0.2, 0.3, 1.0 + 2**-52, 1e-30, -1e8, 1e8, 1e130, 1e200])
WRONG = st.sampled_from([None, [], [float("nan")], [1.0, float("inf")], [1.0] * 5])
IDS = {
    "text": (pa.string(), ["a", "b", "é", "Z", "zz", "item-10", "item-9", "", "i0", "i1", "ü"]),
    "whole": (pa.int64(), [5, -3, 10**12, 0, 1, 2, 3, 40, -70, 8, 9]),
    "floating": (pa.float64(), [0.0, -0.0, 1.5, -1.5, 1e300, 2.0, 3.0, -1e-300, 7.0, 8.0, 9.0]),
}


@st.composite
def worlds(draw):
    kind, ids = IDS[draw(st.sampled_from(sorted(IDS)))]
    n_models, n_users, length = draw(st.integers(1, 2)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    vector = st.lists(NUMBERS, min_size=length, max_size=length)
    # Most vectors have their length. An item may have several rows.
    vectors = st.one_of(vector, vector, vector, WRONG)
    some = st.lists(st.sampled_from(ids), unique=True, max_size=6)
    labels = st.lists(st.tuples(st.sampled_from(ids), st.sampled_from([0.0, 1.0, 2.0])), max_size=6)

    def rows(each):
        return draw(st.lists(each, min_size=n_users, max_size=n_users))

    return {
        "kind": kind,
        "ids": [*ids, None],
        "models": [
            {
                "similarity": draw(st.sampled_from(["dot", "cosine"])),
                "rows": draw(st.lists(st.tuples(st.sampled_from([*ids, None]), vectors, NUMBERS), max_size=14)),
                "users": rows(vectors),
                "user_bias": rows(NUMBERS),
                "user_rows": rows(st.sampled_from([1, 1, 2, None])),
                "candidates": rows(some) if draw(st.booleans()) else None,
                "parts": draw(st.sampled_from([2, 3, 7])),
            }
            for _ in range(n_models)
        ],
        "labels": rows(labels),
        "excluded": rows(some) if draw(st.booleans()) else None,
        "nobody": rows(st.sampled_from([False, False, False, True])),
        "ties": draw(st.sampled_from(["item_asc", "item_desc"])),
        "seed": draw(st.integers(0, 2**32)),
    }


def task_of(world, metrics=METRICS):
    dialect = find_dialect("default")
    resolved = resolve(parse_metrics(metrics), dialect, None, KNOWN, beside=True, users_alone=False)
    views, _ = views_of(resolved, dialect, KNOWN, ties=world["ties"])
    names = [f"m{model}" for model in range(len(world["models"]))]
    views = [replace(view, model=model) for model in range(len(names)) for view in views]
    return ScoringTask(
        tuple(views), models=tuple(names), similarities=tuple(model["similarity"] for model in world["models"])
    )


def users_of(world):
    """The columns of the users, in which nothing says what the catalogue is."""
    kind, n_users = pa.list_(world["kind"]), len(world["labels"])
    columns = {
        "user": pa.array(range(n_users)),
        reading.LABELS: pa.array([[item for item, _ in labels] for labels in world["labels"]], kind),
        reading.grades_column(0): pa.array(
            [[grade for _, grade in labels] for labels in world["labels"]], pa.list_(pa.float64())
        ),
        reading.LABEL_ROWS: pa.array([len(labels) for labels in world["labels"]]),
        reading.NO_USER: pa.array(world["nobody"]),
    }
    if world["excluded"] is not None:
        columns[reading.EXCLUDED] = pa.array(world["excluded"], kind)
    for place, model in enumerate(world["models"]):
        columns[of_model(reading.VECTOR, place)] = pa.array(model["users"], pa.list_(pa.float64()))
        columns[of_model(reading.BIAS, place)] = pa.array(model["user_bias"])
        columns[of_model(reading.PREDICTION_ROWS, place)] = pa.array(model["user_rows"], pa.int64())
        if model["candidates"] is not None:
            columns[of_model(reading.CANDIDATES, place)] = pa.array(model["candidates"], kind)
    return columns


def item_rows(world, rows, **further):
    columns = list(zip(*rows, strict=True)) or [[], [], []]
    return pa.table(
        {
            ITEM: pa.array(columns[0], world["kind"]),
            VECTOR: pa.array(columns[1], pa.list_(pa.float64())),
            BIAS: pa.array(columns[2], pa.float64()),
            IN_CATALOGUE: pa.array([True] * len(rows), pa.bool_()),
            **{name: pa.array([value] * len(rows), pa.int64()) for name, value in further.items()},
        }
    )


def packed(world, rows, **further):
    # As in Spark, a row is not of the catalogue.
    nothing = pa.Table.from_pylist([further], item_rows(world, [], **further).schema)
    table = pa.concat_tables([item_rows(world, rows, **further), nothing]).combine_chunks()
    ((cell,),) = [batch.columns for batch in pack_catalogue(iter(table.to_batches()))]
    return cell[0].as_py()


def with_catalogue(columns, name, cell):
    return columns | {name: pa.array([cell] + [None] * (len(columns["user"]) - 1), pa.binary())}


def batch_of(columns):
    return pa.RecordBatch.from_pydict(columns)


def whole(world, columns):
    """The users, with catalogues to hold."""
    for place, model in enumerate(world["models"]):
        columns = with_catalogue(columns, of_model(reading.CATALOGUE, place), packed(world, model["rows"]))
    return batch_of(columns)


def usual_length(table):
    """As Spark adds it up: the length of most vectors, of several the shortest."""
    counts = {}
    # In two batches, so that a length comes twice.
    for counted in count_lengths(iter(table.to_batches(max_chunksize=1 + len(table) // 2))):
        for row in counted.to_pylist():
            counts[row[USUAL_LENGTH]] = counts.get(row[USUAL_LENGTH], 0) + row[N_ROWS]
    return min(counts, key=lambda length: (-counts[length], length), default=None)


def counted(world, columns, first):
    """The users, with what parts of the catalogues said; `first` is what is asked of each model's items."""
    rng = np.random.default_rng(world["seed"])
    columns = columns | {ASKED: columns[reading.LABELS]} if reading.LABELS in columns else columns
    cells = {}
    for place, model in enumerate(world["models"]):
        part_of = {item: rng.integers(0, model["parts"]) for item in map(key, world["ids"])}
        length = usual_length(item_rows(world, model["rows"]))
        for part in range(model["parts"]):
            rows = [row for row in model["rows"] if part_of[key(row[0])] == part]
            cells[place, part] = packed(world, rows, **{USUAL_LENGTH: length})
    parts = [Part(place, world["models"][place]["similarity"], first[place]) for place, _ in cells]
    for name, work in ((SCORES_OF_PARTS, score_asked), (COUNTS_OF_PARTS, count_part)):
        if name == SCORES_OF_PARTS and ASKED not in columns:
            continue
        run = work(tuple(parts), ("user",))
        answers = [[[] for _ in world["labels"]] for _ in world["models"]]
        # Parts answer in any order.
        for number, cell in reversed([*enumerate(cells.values())]):
            given = columns | {PART: pa.array([number] * len(world["labels"]), pa.int32())}
            batch = batch_of(with_catalogue(given, reading.CATALOGUE, cell))
            for answer in run(iter([batch.slice(0, 0), batch])):
                kind = answer[ANSWER].type
                for row in answer.to_pylist():
                    answers[row[MODEL]][row["user"]].append(row[ANSWER])
        for place, lists in enumerate(answers):
            columns[of_model(name, place)] = pa.array(lists, pa.list_(kind))
    return batch_of(columns)


def key(item):
    # The two zeros are one item.
    return item + 0.0 if isinstance(item, float) else item


def scored(task, batch):
    catalogues = Catalogues(task)
    catalogues.read(batch)
    return score(task, batch, TaskTables(catalogues))


@given(worlds())
@settings(max_examples=examples(15, 3000), deadline=None)
def test_values_counts_and_first_items_are_those_of_the_whole(world):
    task, columns = task_of(world), users_of(world)
    first = [task.first_items(model) for model in range(len(world["models"]))]
    ours, other = scored(task, counted(world, columns, first)), scored(task, whole(world, columns))
    for value, expected in zip(ours.metrics, other.metrics, strict=True):
        np.testing.assert_array_equal(value, expected)
    assert ours.counts.keys() == other.counts.keys()
    for name, expected in other.counts.items():
        np.testing.assert_array_equal(ours.counts[name], expected, err_msg=name)
    assert ours.exposed.keys() == other.exposed.keys() != set()
    for place, expected in other.exposed.items():
        lists = [(each.batch.recommended, each.ids) for each in (ours.exposed[place], expected)]
        for name in ("user", "rank", "grade"):
            np.testing.assert_array_equal(*(getattr(recommended, name) for recommended, _ in lists))
        assert lists[0][1].take(pa.array(lists[0][0].entry)).equals(lists[1][1].take(pa.array(lists[1][0].entry)))


@given(worlds(), st.integers(1, 12))
@settings(max_examples=examples(12, 1500), deadline=None)
def test_top_items_are_those_of_the_whole(world, k):
    world["models"] = world["models"][:1]
    columns = {
        name: values for name, values in users_of(world).items() if not name.startswith(("label", "grade", "n_label"))
    }
    run = first_items_of_batches(task_of(world, ["rr"]), k, ("user",), "item")
    (ours,) = run(iter([counted(world, columns, [FirstItems(k, "item_asc")])]))
    (other,) = run(iter([whole(world, columns)]))
    assert ours.to_pylist() == other.to_pylist()


def test_no_more_users_are_scored_at_a_time_than_their_first_items_fit_into_memory(monkeypatch):
    n_users = 7
    model = {"similarity": "dot", "rows": [("a", [1.0], 0.0), ("b", [2.0], 0.0), ("c", [3.0], 0.0)], "candidates": None}
    model |= {"users": [[1.0], [-1.0]] * 3 + [None], "user_bias": [0.0] * n_users, "user_rows": [1] * n_users}
    world = {"kind": pa.string(), "models": [model], "labels": [[("a", 1.0)]] * n_users, "ties": "item_asc"}
    world |= {"nobody": [False] * n_users, "excluded": None}
    task, batch = task_of(world), whole(world, users_of(world))
    (at_once,) = with_tables(task, iter([batch]))
    expected = score(task, *at_once)
    # Two users have the first two items and one more.
    monkeypatch.setattr(counted_lists, "_LISTED", 7)
    parts = list(with_tables(task, iter([batch, batch.slice(0, 0)])))
    assert [part.num_rows for part, _ in parts] == [2, 2, 2, 1, 0]
    values = [score(task, *part).metrics for part in parts]
    for found, metric in zip(zip(*values, strict=True), expected.metrics, strict=True):
        np.testing.assert_array_equal(np.concatenate(found), metric)


def test_a_task_with_users_of_two_parts_says_so():
    world = {"kind": pa.string(), "labels": [[], []], "nobody": [False, False], "excluded": None}
    world["models"] = [{"users": [[1.0]] * 2, "user_bias": [0.0] * 2, "user_rows": [1, 1], "candidates": None}]
    columns = users_of(world) | {PART: pa.array([0, 1], pa.int32())}
    batch = batch_of(with_catalogue(columns, reading.CATALOGUE, packed(world, [("a", [1.0], 0.0)])))
    with pytest.raises(RuntimeError, match="a task has users of several parts"):
        next(count_part((Part(0, "dot", None),) * 2, ("user",))(iter([batch])))


@pytest.mark.parametrize("kind", sorted(IDS))
def test_places_before_ids_are_those_of_sorting(kind):
    arrow, ids = IDS[kind]
    order = sorted(
        {key(item): item for item in ids}.values(), key=lambda item: item.encode() if kind == "text" else item
    )
    for known in ([], order, order[1:], order[::2], order[1:-1:3]):
        expected = [sum(order.index(other) < order.index(key(item)) for other in known) for item in ids]
        assert places_before(pa.array(ids, arrow), pa.array(known, arrow)).tolist() == expected
