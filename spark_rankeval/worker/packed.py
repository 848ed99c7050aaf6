"""Small tables that travel as one row each: workers pack them, and every task that needs one receives it with its first row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa

from spark_rankeval.worker.process import in_worker

Batches = Iterator[pa.RecordBatch]

#: The count that says whether a table was too large for workers: 1, and nothing of it is known; else 0.
TOO_LARGE = "table_too_large"
#: The column of packed tables.
PACKED = "packed"
# What stands for a table that is too large; no packed table is empty.
_TOO_LARGE = b""
# So many rows wait at the most before they are combined.
_WAITING = 1 << 22


class Bound(NamedTuple):
    """How large a packed table may be."""

    rows: int
    n_bytes: int


def pack_together(
    read: Callable[[pa.RecordBatch], pa.Table | None], combine: Callable[[pa.Table], pa.Table], bound: Bound | None
) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow``: all rows of a partition as one row with a packed table; no row if there is no batch.

    Args:
        read: the rows of a batch; None if it holds a table that is too large.
        combine: makes fewer rows of those of several batches. It may run more than once.
        bound: a table beyond it is too large, and `unpacked` says so. None: no table is.
    """

    @in_worker
    def run(batches: Batches) -> Batches:
        waiting: list[pa.Table] = []
        fits = True
        # Once a table is too large, batches are only read to their end.
        for batch in filter(len, batches):
            table = read(batch) if fits else None
            fits = table is not None
            waiting = [*waiting, table] if table is not None else []
            if sum(rows.num_rows for rows in waiting) > _WAITING:
                waiting = [combine(pa.concat_tables(waiting))]
                fits = bound is None or waiting[0].num_rows <= bound.rows
        if waiting or not fits:
            whole = _packed(combine(pa.concat_tables(waiting)), bound) if fits else _TOO_LARGE
            yield pa.RecordBatch.from_pydict({PACKED: pa.array([whole], pa.binary())})

    return run


def _packed(table: pa.Table, bound: Bound | None) -> bytes:
    if bound is not None and table.num_rows > bound.rows:
        return _TOO_LARGE
    whole = stream_of(table)
    return _TOO_LARGE if bound is not None and whole.size > bound.n_bytes else whole.to_pybytes()


def stream_of(table: pa.Table) -> pa.Buffer:
    """A table as Arrow's stream of one batch, also if it has no rows."""
    sink = pa.BufferOutputStream()
    (batch,) = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def unpacked(packed: pa.Scalar) -> pa.Table | None:
    """The packed table of a row; None if it is too large. It shares the memory of the row."""
    whole = packed.as_buffer()
    return pa.ipc.open_stream(whole).read_all() if whole.size else None


def rows_in(batch: pa.RecordBatch) -> pa.Table:
    """The rows of a batch."""
    return pa.Table.from_batches([batch])


def tables_in(batch: pa.RecordBatch) -> pa.Table | None:
    """All rows of the packed tables of a batch; None if one is too large."""
    tables = [unpacked(cell) for cell in batch.column(PACKED)]
    return None if any(table is None for table in tables) else pa.concat_tables(tables)


def received(batches: Batches, names: tuple[str, ...]) -> Iterator[tuple[pa.RecordBatch, dict[str, pa.Scalar]]]:
    """The batches of a task, each with what the task's first row has in those of some columns that there are."""
    first: dict[str, pa.Scalar] | None = None
    for batch in batches:
        if first is None and batch.num_rows:
            first = {name: batch.column(name)[0] for name in names if name in batch.schema.names}
        yield batch, first or {}


def attach(cells: Mapping[str, bytes | None]) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow``: the rows with a column for each packed table, which the first row of a task has."""

    @in_worker
    def run(batches: Batches) -> Batches:
        is_first = True
        for batch in batches:
            for name, cell in cells.items():
                values = [cell if is_first else None] * min(batch.num_rows, 1) + [None] * (batch.num_rows - 1)
                batch = batch.append_column(name, pa.array(values, pa.binary()))  # noqa: PLW2901 # a column more each time
            is_first = is_first and batch.num_rows == 0
            yield batch

    return run
