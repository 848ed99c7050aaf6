"""Predictions of several models in the same lists are parted into those of each model, whatever the batches are."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest

from spark_rankeval.worker import reading
from spark_rankeval.worker.grouped_row import (
    FACTS,
    INFINITE_PREDICTIONS,
    ITEMS,
    LABELS,
    MARKS,
    PREDICTION_ROWS,
    SCORES,
    column_of_model,
    hash_column,
)
from spark_rankeval.worker.reading import INFINITE_SCORE, KIND_BITS, MODEL_BITS, RANKED, REJECTED, with_lists_of_models

N_MODELS, N_USERS = 3, 40


def mark(row, counts_infinite):
    _, model, item, score, hashed = row
    if item is None:
        kind, hashed = INFINITE_SCORE if score > 0.5 and counts_infinite else REJECTED, 0
    else:
        kind = RANKED
    return (((hashed << KIND_BITS) | kind) << MODEL_BITS) | model


def rows(random):
    """Rows of users in any order: the user, the model, an item or none, a score, and a hash of the row."""
    n = 400
    users, models = random.integers(0, N_USERS - 5, n).tolist(), random.integers(0, N_MODELS, n).tolist()
    # The first user has rows of one model alone, the second none that can be ranked.
    models = [2 if user == 0 else model for user, model in zip(users, models, strict=True)]
    items = [
        None if user == 1 or draw < 0.1 else int(draw * 100) for user, draw in zip(users, random.random(n), strict=True)
    ]
    hashes = random.integers(-(2**35), 2**35, n).tolist()
    return list(zip(users, models, items, random.random(n).tolist(), hashes, strict=True))


def batch_of(rows, *, counts_infinite):
    of_users = defaultdict(list)
    for row in rows:
        of_users[row[0]].append(row)
    columns = defaultdict(list)
    for user in range(N_USERS):
        listed = [row for row in of_users[user] if row[2] is not None]
        columns[ITEMS].append([f"item {item}" for _, _, item, _, _ in listed])
        columns[SCORES].append([score for _, _, _, score, _ in listed])
        columns[FACTS].append([{"users": item} for _, _, item, _, _ in listed])
        columns[MARKS].append([mark(row, counts_infinite) for row in of_users[user]])
        columns[PREDICTION_ROWS].append(len(of_users[user]) or None)
        columns[LABELS].append([user])
        if counts_infinite:
            columns[INFINITE_PREDICTIONS].append(
                sum(item is None and score > 0.5 for _, _, item, score, _ in of_users[user])
            )
    return pa.RecordBatch.from_pydict(dict(columns))


@pytest.mark.parametrize("together", [1, 50, 1 << 20])
@pytest.mark.parametrize("counts_infinite", [False, True])
def test_every_model_has_the_rows_that_name_it(monkeypatch, together, counts_infinite):
    monkeypatch.setattr(reading, "_TOGETHER", together)
    random = np.random.default_rng(8)
    drawn = rows(random)
    batch = batch_of(drawn, counts_infinite=counts_infinite)
    # Sliced, as a part of what Spark sends.
    parts = list(with_lists_of_models(range(N_MODELS), iter([batch.slice(0, 17), batch.slice(17)])))
    assert (len(parts) > 2) == (together < 100)
    whole = pa.Table.from_batches(parts)
    assert whole[LABELS].to_pylist() == [[user] for user in range(N_USERS)]
    for model in range(N_MODELS):
        of_users = [[row for row in drawn if row[:2] == (user, model)] for user in range(N_USERS)]
        listed = [[row for row in some if row[2] is not None] for some in of_users]

        def column(name, model=model):
            return whole[column_of_model(name, model)].to_pylist()

        assert column(ITEMS) == [[f"item {item}" for _, _, item, _, _ in some] for some in listed]
        assert column(SCORES) == [[score for _, _, _, score, _ in some] for some in listed]
        assert column(FACTS) == [[{"users": item} for _, _, item, _, _ in some] for some in listed]
        assert column(PREDICTION_ROWS) == list(map(len, of_users))
        hashes = [sum(row[4] for row in some) if of_users[user] else None for user, some in enumerate(listed)]
        assert whole[hash_column(column_of_model("predictions", model))].to_pylist() == hashes
        if counts_infinite:
            assert column(INFINITE_PREDICTIONS) == [
                sum(row[2] is None and row[3] > 0.5 for row in some) for some in of_users
            ]
    assert MARKS not in whole.column_names
    assert (INFINITE_PREDICTIONS in whole.column_names) == counts_infinite


@pytest.mark.parametrize("counts_infinite", [False, True])
def test_marks_without_hashes_part_the_lists_and_leave_the_hashes_to_the_reader(counts_infinite):
    batch = batch_of(rows(np.random.default_rng(9)), counts_infinite=counts_infinite)
    narrow = pa.array(
        [[mark % (1 << MODEL_BITS + KIND_BITS) for mark in marks] for marks in batch[MARKS].to_pylist()],
        pa.list_(pa.int32()),
    )
    place = batch.schema.get_field_index(MARKS)
    (wide,) = with_lists_of_models(range(N_MODELS), iter([batch]))
    (parted,) = with_lists_of_models(range(N_MODELS), iter([batch.set_column(place, MARKS, narrow)]))
    hashes = {hash_column(column_of_model("predictions", model)) for model in range(N_MODELS)}
    assert set(wide.schema.names) - set(parted.schema.names) == hashes
    assert parted == wide.select(parted.schema.names)


def test_lists_of_models_among_others_have_the_names_of_their_indices():
    mark = [[1 | 5 << MODEL_BITS + KIND_BITS, 3 | 7 << MODEL_BITS + KIND_BITS]]
    batch = pa.RecordBatch.from_pydict(
        {
            ITEMS: [["of arrays"]],
            column_of_model(ITEMS, 1): [["a", "b"]],
            column_of_model(SCORES, 1): [[1.0, 2.0]],
            MARKS: mark,
        }
    )
    (parted,) = with_lists_of_models((1, 3), iter([batch]))
    assert {name: parted[name].to_pylist() for name in parted.schema.names if name.startswith(ITEMS)} == {
        ITEMS: [["of arrays"]], column_of_model(ITEMS, 1): [["a"]], column_of_model(ITEMS, 3): [["b"]]
    }  # fmt: skip
    assert parted[column_of_model(SCORES, 3)].to_pylist() == [[2.0]]


def test_lists_of_each_model_go_on_as_they_are():
    batch = pa.RecordBatch.from_pydict({ITEMS: [["a"]], column_of_model(ITEMS, 1): [["b"]]})
    assert list(with_lists_of_models(range(2), iter([batch]))) == [batch]
