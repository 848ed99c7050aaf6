"""Predictions of several models in the same lists are parted into those of each model, whatever the batches are."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest

from spark_rankeval.worker import reading
from spark_rankeval.worker import reading as g
from spark_rankeval.worker.reading import INFINITE_SCORE, KIND_BITS, MODEL_BITS, RANKED, REJECTED, with_lists_of_models

N_MODELS, N_USERS = 3, 40


def is_infinite(row):
    """Whether a row without an item is left out for its score; the others say nothing."""
    return row[2] is None and row[3] > 0.5


def mark(row, counts_infinite):
    _, model, item, _, hashed = row
    left_out = INFINITE_SCORE if is_infinite(row) and counts_infinite else REJECTED
    kind, hashed = (left_out, 0) if item is None else (RANKED, hashed)
    return (((hashed << KIND_BITS) | kind) << MODEL_BITS) | model


def rows(seed):
    """Rows of users in any order: the user, the model, an item or none, a score, and a hash of the row."""
    random, made = np.random.default_rng(seed), []
    for draw, score in random.random((400, 2)).tolist():
        user, model = random.integers(0, N_USERS - 5), random.integers(0, N_MODELS)
        # The first user has rows of one model alone, the second none that can be ranked.
        item = None if user == 1 or draw < 0.1 else int(draw * 100)
        made.append((int(user), 2 if user == 0 else int(model), item, score, int(random.integers(-(2**35), 2**35))))
    return made


def batch_of(rows, *, counts_infinite):
    columns = defaultdict(list)
    for user in range(N_USERS):
        of_user = [row for row in rows if row[0] == user]
        listed = [row for row in of_user if row[2] is not None]
        columns[g.ITEMS].append([f"item {item}" for _, _, item, _, _ in listed])
        columns[g.SCORES].append([score for _, _, _, score, _ in listed])
        columns[g.MARKS].append([mark(row, counts_infinite) for row in of_user])
        columns[g.PREDICTION_ROWS].append(len(of_user) or None)
        columns[g.LABELS].append([user])
        if counts_infinite:
            columns[g.INFINITE_PREDICTIONS].append(sum(map(is_infinite, of_user)))
    return pa.RecordBatch.from_pydict(dict(columns))


@pytest.mark.parametrize(("together", "counts_infinite"), [(1, False), (50, True), (1 << 20, False), (1 << 20, True)])
def test_every_model_has_the_rows_that_name_it(monkeypatch, together, counts_infinite):
    monkeypatch.setattr(reading, "_TOGETHER", together)
    drawn = rows(8)
    batch = batch_of(drawn, counts_infinite=counts_infinite)
    # Sliced, as a part of what Spark sends.
    parts = list(with_lists_of_models(range(N_MODELS), iter([batch.slice(0, 17), batch.slice(17)])))
    assert (len(parts) > 2) == (together < 100)
    whole = pa.Table.from_batches(parts)
    assert whole[g.LABELS].to_pylist() == [[user] for user in range(N_USERS)]
    for model in range(N_MODELS):
        of_users = [[row for row in drawn if row[:2] == (user, model)] for user in range(N_USERS)]
        listed = [[row for row in some if row[2] is not None] for some in of_users]
        expected = {
            g.ITEMS: [[f"item {item}" for _, _, item, _, _ in some] for some in listed],
            g.SCORES: [[score for _, _, _, score, _ in some] for some in listed],
            g.PREDICTION_ROWS: list(map(len, of_users)),
        }
        if counts_infinite:
            expected[g.INFINITE_PREDICTIONS] = [sum(map(is_infinite, some)) for some in of_users]
        assert {name: whole[g.column_of_model(name, model)].to_pylist() for name in expected} == expected
        hashes = [sum(row[4] for row in some) if of_users[user] else None for user, some in enumerate(listed)]
        assert whole[g.hash_column(g.column_of_model("predictions", model))].to_pylist() == hashes
    assert g.MARKS not in whole.column_names
    assert (g.INFINITE_PREDICTIONS in whole.column_names) == counts_infinite


def test_marks_without_hashes_part_the_lists_and_leave_the_hashes_to_the_reader():
    batch = batch_of(rows(9), counts_infinite=True)
    marks = [[mark % (1 << MODEL_BITS + KIND_BITS) for mark in some] for some in batch[g.MARKS].to_pylist()]
    narrow = pa.RecordBatch.from_pydict({**reading.columns_of(batch), g.MARKS: pa.array(marks, pa.list_(pa.int32()))})
    (wide,) = with_lists_of_models(range(N_MODELS), iter([batch]))
    (parted,) = with_lists_of_models(range(N_MODELS), iter([narrow]))
    hashes = {g.hash_column(g.column_of_model("predictions", model)) for model in range(N_MODELS)}
    assert set(wide.schema.names) - set(parted.schema.names) == hashes
    assert parted == wide.select(parted.schema.names)


def test_lists_of_models_among_others_have_the_names_of_their_indices():
    items, scores = (g.column_of_model(name, 1) for name in (g.ITEMS, g.SCORES))
    marks = [[1 | 5 << MODEL_BITS + KIND_BITS, 3 | 7 << MODEL_BITS + KIND_BITS]]
    columns = {g.ITEMS: [["of arrays"]], items: [["a", "b"]], scores: [[1.0, 2.0]], g.MARKS: marks}
    (parted,) = with_lists_of_models((1, 3), iter([pa.RecordBatch.from_pydict(columns)]))
    last = g.column_of_model(g.ITEMS, 3)
    found = {name: parted[name].to_pylist() for name in parted.schema.names if name.startswith(g.ITEMS)}
    assert found == {g.ITEMS: [["of arrays"]], items: [["a"]], last: [["b"]]}
    assert parted[g.column_of_model(g.SCORES, 3)].to_pylist() == [[2.0]]
    # Lists of each model go on as they are.
    batch = pa.RecordBatch.from_pydict({g.ITEMS: [["a"]], items: [["b"]]})
    assert list(with_lists_of_models(range(2), iter([batch]))) == [batch]
