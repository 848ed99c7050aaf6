"""Small tables that travel as one row."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_rankeval.worker import process
from spark_rankeval.worker.features import CONSUMED, ROWS, ItemIndex, add_counts, count_items
from spark_rankeval.worker.process import MOST_BYTES, PACKED, pack_together, received, rows_in, tables_in, unpacked


def batches_of(*parts):
    return [pa.RecordBatch.from_pydict({"item": pa.array(part, pa.int64())}) for part in parts]


def cells(batches, read=rows_in, combine=None, most_bytes=MOST_BYTES):
    return [cell for batch in pack_together(read, combine, most_bytes)(iter(batches)) for cell in batch.column(PACKED)]


def test_a_partition_becomes_one_row_with_all_of_its_rows_and_none_without_a_batch():
    (cell,) = cells(batches_of([1, 2], [], [3, None]))
    assert unpacked(cell)["item"].to_pylist() == [1, 2, 3, None]
    assert cells([]) == []


def test_a_packed_table_that_is_too_large_is_refused_with_the_numbers():
    batches = batches_of([1, 2], [3, 4])
    (cell,) = cells(batches)
    (same,) = cells(batches, most_bytes=len(cell.as_py()))
    assert same == cell
    with pytest.raises(
        RuntimeError, match=r"at least 4 rows take 0 MB. 0 MB is the limit, some [123] such rows\. Pass only"
    ):
        cells(batches, most_bytes=len(cell.as_py()) - 1)


def test_rows_beyond_the_memory_of_a_worker_are_counted_and_not_kept(monkeypatch):
    monkeypatch.setattr(process, "MOST_BYTES", 1_000_000)
    thousand = [0] * 1000
    assert len(cells(batches_of(*[thousand] * 125))) == 1
    with pytest.raises(
        RuntimeError, match=r"at least 500,000 rows take 4 MB. 1 MB is the limit, some 125,000 such rows\."
    ):
        cells(batches_of(*[thousand] * 500))
    # Rows that are combined may come again, so those that were not seen are not counted.
    with pytest.raises(RuntimeError, match="at least 126,000 rows"):
        cells(batches_of(*[thousand] * 500), combine=lambda table: table)
    assert len(cells(batches_of(*[thousand] * 500), combine=lambda table: table.slice(0, 1))) == 1


def test_rows_of_many_batches_are_combined_a_few_times(monkeypatch):
    monkeypatch.setattr(process, "_WAITING", 10)
    n_combined = []
    (cell,) = cells(
        batches_of(*([n] for n in range(1000))), combine=lambda table: n_combined.append(len(table)) or table
    )
    assert len(unpacked(cell)) == 1000
    # Twice as many rows each time.
    assert n_combined == [11, 23, 47, 95, 191, 383, 767, 1000]


@pytest.mark.parametrize("waiting", [1, 3, 1000])
def test_packed_tables_are_put_together_and_combined_in_any_steps(monkeypatch, waiting):
    monkeypatch.setattr(process, "_WAITING", waiting)
    distinct = lambda table: table.group_by("item").aggregate([])  # noqa: E731 # it is one
    parts = [
        pa.RecordBatch.from_pydict({PACKED: pa.array(cells(batches_of(part)))}) for part in ([1, 2], [2, 3], [3, 1])
    ]
    (cell,) = cells(parts, tables_in, distinct)
    assert sorted(unpacked(cell)["item"].to_pylist()) == [1, 2, 3]


def test_what_the_first_row_of_a_task_has_comes_once():
    come = [first for _, first in received(iter(batches_of([], [7, 8], [9])), ("item", "none"))]
    assert [first.get("item", pa.scalar(0)).as_py() for first in come] == [7, 0]


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
        return count_items(
            pa.RecordBatch.from_pydict({CONSUMED: consumed, ROWS: pa.array([1] * len(part), pa.int64())})
        )

    parts = (lists[:20], lists[20:20], lists[20:])
    rows = add_counts(pa.concat_tables(map(counted, parts))).to_pylist()
    counts = {
        None if row["item"] is None else int(row["item"]): (row["training_users"], row["training_interactions"])
        for row in rows
    }
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
