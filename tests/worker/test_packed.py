"""Small tables that travel as one row."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_rankeval.features.items.item_facts import CONSUMED, ROWS, TRAINING_HASH, ItemIndex, add_counts, count_items
from spark_rankeval.worker import process
from spark_rankeval.worker.process import PACKED, Bound, pack_together, received, rows_in, tables_in, unpacked


def batches_of(*parts):
    return [pa.RecordBatch.from_pydict({"item": pa.array(part, pa.int64())}) for part in parts]


def cells(batches, bound=None, combine=lambda table: table, read=rows_in):
    return [cell for batch in pack_together(read, combine, bound)(iter(batches)) for cell in batch.column(PACKED)]


def test_a_partition_becomes_one_row_with_all_of_its_rows_and_none_without_a_batch():
    (cell,) = cells(batches_of([1, 2], [], [3, None]))
    assert unpacked(cell)["item"].to_pylist() == [1, 2, 3, None]
    assert cells([]) == []


@pytest.mark.parametrize(
    ("bound", "fits"), [(Bound(4, 1 << 20), True), (Bound(3, 1 << 20), False), (Bound(4, 9), False)]
)
def test_a_table_beyond_a_bound_is_too_large(bound, fits):
    (cell,) = cells(batches_of([1, 2], [3, 4]), bound)
    assert (unpacked(cell) is not None) == fits


@pytest.mark.parametrize("waiting", [1, 3, 1000])
def test_packed_tables_are_put_together_and_combined_in_any_steps(monkeypatch, waiting):
    monkeypatch.setattr(process, "_WAITING", waiting)
    distinct = lambda table: table.group_by("item").aggregate([])  # noqa: E731 # it is one
    parts = [
        pa.RecordBatch.from_pydict({PACKED: pa.array(cells(batches_of(part)))}) for part in ([1, 2], [2, 3], [3, 1])
    ]
    (cell,) = cells(parts, Bound(3, 1 << 20), distinct, tables_in)
    assert sorted(unpacked(cell)["item"].to_pylist()) == [1, 2, 3]
    (too_large,) = cells(parts, Bound(2, 1 << 20), distinct, tables_in)
    assert unpacked(too_large) is None
    # A part that is too large makes the whole too large.
    large = pa.array([*cells(batches_of([1])), *cells(batches_of([1, 2]), Bound(1, 1 << 20))])
    (cell,) = cells([pa.RecordBatch.from_pydict({PACKED: large})], read=tables_in)
    assert unpacked(cell) is None


def test_what_the_first_row_of_a_task_has_comes_with_every_batch():
    come = [first for _, first in received(iter(batches_of([], [7, 8], [9])), ("item", "none"))]
    assert [first.get("item", pa.scalar(0)).as_py() for first in come] == [0, 7, 7]


@pytest.mark.parametrize(
    ("kind", "least", "step"),
    [
        (pa.int64(), 0, 1), (pa.int64(), 2**63 - 9, 1), (pa.int64(), -(2**63), 2**60), (pa.int32(), -5, 1), (pa.string(), 0, 1),
        (pa.float64(), 0, 1),
    ],
    ids=str,
)  # fmt: skip
def test_users_and_rows_of_items_are_counted_in_parts_and_added_up(kind, least, step):
    random = np.random.default_rng(5)
    lists = [[least + step * int(n) for n in random.integers(0, 9, random.integers(0, 12))] for _ in range(50)]

    def counted(part):
        consumed = pa.array([some or None for some in part], pa.list_(pa.int64())).cast(pa.list_(kind))
        # Sums of hashes are sums modulo 2^64.
        columns = {ROWS: [1] * len(part), TRAINING_HASH: [2**60] * len(part)}
        columns = {name: pa.array(column, pa.int64()) for name, column in columns.items()}
        return count_items(pa.RecordBatch.from_pydict({CONSUMED: consumed, **columns}))

    parts = (lists[:20], lists[20:20], lists[20:])
    rows = add_counts(pa.concat_tables(map(counted, parts))).to_pylist()
    counts = {
        None if row["item"] is None else int(row["item"]): (row["training_users"], row["training_interactions"])
        for row in rows
    }
    assert [row[TRAINING_HASH] for row in rows if row["item"] is None] == [2**61]
    assert counts.pop(None) == (sum(map(bool, lists)), 50)
    assert counts == {
        item: (sum(item in some for some in lists), sum(some.count(item) for some in lists))
        for item in {item for some in lists for item in some}
    }


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    known=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 12), unique=True, max_size=12),
    least=st.sampled_from([-(2**63), -5, 0, 2**63 - 40]),
    asked=st.lists(st.none() | st.integers(0, 30), max_size=12),
)
def test_items_are_found_where_they_stand_and_others_behind_all(known, least, asked):
    near = [least + number for number in (4, 7, 5, 20)]
    for ids in (known, near, []):
        items = [None if one is None else least + one for one in asked] + [2**63 - 1, -(2**63), 0, *ids]
        expected = [ids.index(one) if one in ids else len(ids) for one in items]
        assert ItemIndex(pa.array(ids, pa.int64())).indices(pa.array(items, pa.int64())).tolist() == expected
        known_texts, texts = ([one if one is None else str(one) for one in some] for some in (ids, items))
        found = ItemIndex(pa.array(known_texts, pa.string())).indices(pa.array(texts, pa.string()))
        assert found.tolist() == expected


def test_items_of_smaller_whole_numbers_and_of_doubles_are_found():
    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.float64()):
        known = ItemIndex(pa.array([-128, 127, 5, 0], kind))
        assert known.indices(pa.array([0, 5, None, 7, -128, 127], kind)).tolist() == [3, 2, 4, 4, 0, 1]
    assert ItemIndex(pa.array([0.0, 1.5])).indices(pa.array([-0.0, 1.5, float("nan")])).tolist() == [0, 1, 2]
