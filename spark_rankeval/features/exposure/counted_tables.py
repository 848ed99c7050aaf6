"""Tables of counts that travel as messages: rows that differ in one column alone become one row with its sum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from spark_rankeval.wire import Merger, Message, unpack
from spark_rankeval.worker.process import stream_of

# Waiting tables are merged when they take more bytes than this.
_MOST_WAITING_BYTES = 2 << 20


def merge_counts(tables: list[pa.Table], sum_column: str) -> pa.Table:
    """All tables as one. Rows that are equal in all other columns become one row with the sum of `sum_column`."""
    combined = pa.concat_tables(tables)
    keys = [name for name in combined.column_names if name != sum_column]
    grouped = combined.group_by(keys, use_threads=False).aggregate([(sum_column, "sum")])
    return pa.table(
        {name: grouped[f"{sum_column}_sum" if name == sum_column else name] for name in combined.column_names}
    )


def message_of(kind: str, table: pa.Table, bucket: int | None = None) -> Message:
    """A message with a table."""
    return Message.of(kind, stream_of(table).to_pybytes(), bucket)


def table_of(payload: bytes) -> pa.Table:
    """The table in a message's payload."""
    return pa.ipc.open_stream(unpack(payload)).read_all()


class TableSum:
    """A running sum of tables, which merges a few of them at a time; `n_bytes` is how much memory they take now."""

    def __init__(self, sum_column: str) -> None:
        self._sum_column = sum_column
        self._waiting: list[pa.Table] = []
        self._merged_bytes = 0
        self.n_bytes = 0

    def add(self, table: pa.Table) -> None:
        """Add a table."""
        self._waiting.append(table)
        self.n_bytes += table.nbytes
        # A large sum waits for as many bytes of new tables. Else each small table would cost a merge of all counts.
        if self.n_bytes > max(_MOST_WAITING_BYTES, 2 * self._merged_bytes):
            self._waiting = [merge_counts(self._waiting, self._sum_column)]
            self.n_bytes = self._merged_bytes = self._waiting[0].nbytes

    def take_total(self) -> pa.Table | None:
        """The sum of all tables so far, or None without any. The next sum starts from nothing."""
        waiting, self._waiting, self._merged_bytes, self.n_bytes = self._waiting, [], 0, 0
        return merge_counts(waiting, self._sum_column) if waiting else None


def total_of(tables: Iterable[pa.Table], sum_column: str) -> pa.Table | None:
    """The sum of all tables, or None without any."""
    total = TableSum(sum_column)
    for table in tables:
        total.add(table)
    return total.take_total()


class CountsMerger(Merger):
    """Merges the tables of each bucket into one message with their sum."""

    def __init__(self, kind: str, sum_column: str) -> None:
        self._kind, self._sum_column = kind, sum_column

    def add(self, bucket: int | None, payloads: Iterable[bytes]) -> Iterator[Message]:
        """Add the tables of a bucket; give the message with their sum."""
        total = total_of(map(table_of, payloads), self._sum_column)
        if total is not None:
            yield message_of(self._kind, total, bucket)
