"""Tables of counts that travel as messages: rows that are alike but for one column become one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from spark_rankeval.wire import Merger, Message
from spark_rankeval.worker.packed import stream_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Tables that wait are added up if they are larger than this.
_WAITING = 2 << 20
_CODEC = "zstd"


def added_up(tables: list[pa.Table], summed: str) -> pa.Table:
    """One row of all rows that are alike but for one column, which is added up."""
    whole = pa.concat_tables(tables)
    keys = [name for name in whole.column_names if name != summed]
    grouped = whole.group_by(keys, use_threads=False).aggregate([(summed, "sum")])
    return pa.table({name: grouped[f"{summed}_sum" if name == summed else name] for name in whole.column_names})


def message_of(kind: str, table: pa.Table, bucket: int | None = None) -> Message:
    """A table as a message, compressed."""
    return Message(bucket, kind, stream_of(table, _CODEC).to_pybytes())


def table_of(payload: bytes) -> pa.Table:
    """The table of a message's payload."""
    return pa.ipc.open_stream(payload).read_all()


def total_of(tables: Iterable[pa.Table], summed: str) -> pa.Table | None:
    """All tables added up, a few at a time; None if there is none."""
    waiting: list[pa.Table] = []
    n_bytes = n_added_up = 0
    for table in tables:
        waiting.append(table)
        n_bytes += table.nbytes
        # What is added up already may be as large again before it is looked at again.
        if n_bytes > max(_WAITING, 2 * n_added_up):
            waiting = [added_up(waiting, summed)]
            n_bytes = n_added_up = waiting[0].nbytes
    return added_up(waiting, summed) if waiting else None


class TablesMerger(Merger):
    """One table of those of a kind that meet."""

    def __init__(self, kind: str, summed: str) -> None:
        self._kind, self._summed = kind, summed

    def add(self, bucket: int | None, payloads: Iterable[bytes]) -> Iterator[Message]:
        """Take in the tables of a bucket; gives their sum."""
        total = total_of(map(table_of, payloads), self._summed)
        if total is not None:
            yield message_of(self._kind, total, bucket)
