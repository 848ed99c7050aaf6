"""Tables of counts that travel as messages: rows that are alike but for one column become one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from spark_rankeval.wire import Merger, Message
from spark_rankeval.worker.process import stream_of

# Tables that wait are added up if they are larger than this.
_WAITING = 2 << 20
_CODEC = "zstd"
# So many bytes of a payload tell its size before it was compressed.
_SIZE = 8


def added_up(tables: list[pa.Table], summed: str) -> pa.Table:
    """One row of all rows that are alike but for one column, which is added up."""
    whole = pa.concat_tables(tables)
    keys = [name for name in whole.column_names if name != summed]
    grouped = whole.group_by(keys, use_threads=False).aggregate([(summed, "sum")])
    return pa.table({name: grouped[f"{summed}_sum" if name == summed else name] for name in whole.column_names})


def message_of(kind: str, table: pa.Table, bucket: int | None = None) -> Message:
    """A table as a message, compressed."""
    stream = stream_of(table)
    # As a whole: Arrow compresses each column by itself, which takes six times as long for small tables.
    compressed = pa.compress(stream, _CODEC, asbytes=True)
    return Message(bucket, kind, stream.size.to_bytes(_SIZE, "little") + compressed)


def table_of(payload: bytes) -> pa.Table:
    """The table of a message's payload."""
    size = int.from_bytes(payload[:_SIZE], "little")
    return pa.ipc.open_stream(pa.decompress(memoryview(payload)[_SIZE:], size, _CODEC)).read_all()


class TableSum:
    """Tables that are added up, a few at a time."""

    def __init__(self, summed: str) -> None:
        self._summed = summed
        self._waiting: list[pa.Table] = []
        self._n_added_up = 0
        self.n_bytes = 0

    def add(self, table: pa.Table) -> None:
        """Take in a table."""
        self._waiting.append(table)
        self.n_bytes += table.nbytes
        # What is added up already may be as large again before it is looked at again.
        if self.n_bytes > max(_WAITING, 2 * self._n_added_up):
            self._waiting = [added_up(self._waiting, self._summed)]
            self.n_bytes = self._n_added_up = self._waiting[0].nbytes

    def total(self) -> pa.Table | None:
        """All tables added up; None if there is none. Afterwards it holds nothing."""
        waiting, self._waiting, self._n_added_up, self.n_bytes = self._waiting, [], 0, 0
        return added_up(waiting, self._summed) if waiting else None


def total_of(tables: Iterable[pa.Table], summed: str) -> pa.Table | None:
    """All tables added up; None if there is none."""
    total = TableSum(summed)
    for table in tables:
        total.add(table)
    return total.total()


class TablesMerger(Merger):
    """One table of those of a kind that meet."""

    def __init__(self, kind: str, summed: str) -> None:
        self._kind, self._summed = kind, summed

    def add(self, bucket: int | None, payloads: Iterable[bytes]) -> Iterator[Message]:
        """Take in the tables of a bucket; gives their sum."""
        total = total_of(map(table_of, payloads), self._summed)
        if total is not None:
            yield message_of(self._kind, total, bucket)
