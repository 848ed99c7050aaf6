"""What travels from workers to the driver: messages with packed states, which are names and numbers, nothing that could be executed.

A packed state begins with a checksum of the rest (4 bytes) and the size of the state (8 bytes). The state follows, compressed with
Zstandard. It begins with the length of a header (4 bytes). The header is a JSON object whose leaves are ``[dtype, shape]``. Then come the
arrays' bytes, in the order of the leaves. All numbers are little-endian.
"""

from __future__ import annotations

import json
import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

Batches = Iterator[pa.RecordBatch]

_CHECKSUM, _SIZE, _LENGTH = 4, 8, 4
# Zstandard takes a third of zlib's time to pack, and Arrow includes it. Arrow writes no checksum.
_CODEC = "zstd"
# Whole numbers, floats and booleans. Arrays of objects could hold more than numbers.
_KINDS = "iufb"


def pack(state: Mapping[str, Any]) -> bytes:
    """Pack a state: numpy arrays of numbers by name, or mappings of these. Anything else is a TypeError."""
    arrays: list[bytes] = []

    def described(node: Any) -> Any:
        if isinstance(node, Mapping):
            # Names are sorted, so that equal states have equal bytes.
            return {name: described(node[name]) for name in sorted(node)}
        if not (isinstance(node, np.ndarray) and node.dtype.kind in _KINDS):
            msg = f"a state holds arrays of numbers; got {node!r}"
            raise TypeError(msg)
        arrays.append(node.tobytes())
        return [node.dtype.str, node.shape]

    header = json.dumps(described(state)).encode()
    whole = b"".join([_bytes_of(len(header), _LENGTH), header, *arrays])
    # Compression pays: most bytes of sums and counts are 0.
    packed = b"".join([_bytes_of(len(whole), _SIZE), pa.compress(whole, codec=_CODEC, asbytes=True)])
    return _bytes_of(zlib.crc32(packed), _CHECKSUM) + packed


def unpack(data: bytes) -> dict[str, Any]:
    """Unpack the output of `pack`; other bytes are a ValueError."""
    checksum, packed = int.from_bytes(data[:_CHECKSUM], "little"), memoryview(data)[_CHECKSUM:]
    if len(packed) <= _SIZE or zlib.crc32(packed) != checksum:
        msg = f"a state of {len(data):,} bytes is damaged: its checksum does not match. Run the job again"
        raise ValueError(msg)
    whole = pa.decompress(packed[_SIZE:], int.from_bytes(packed[:_SIZE], "little"), codec=_CODEC, asbytes=True)
    start = _LENGTH + int.from_bytes(whole[:_LENGTH], "little")

    def read(node: Any) -> Any:
        nonlocal start
        if isinstance(node, dict):
            return {name: read(inside) for name, inside in node.items()}
        kind, shape = np.dtype(node[0]), tuple(node[1])
        if kind.kind not in _KINDS:
            msg = f"a state holds arrays of numbers; got {kind}"
            raise ValueError(msg)
        values = np.frombuffer(whole, kind, math.prod(shape), start).reshape(shape)
        start += values.nbytes
        return values

    state: dict[str, Any] = read(json.loads(whole[_LENGTH:start]))
    return state


def _bytes_of(number: int, size: int) -> bytes:
    return number.to_bytes(size, "little")


class Message(NamedTuple):
    """What a worker sends to others or to the driver.

    Attributes:
        bucket: messages of one kind and bucket meet in one place; None: the message may meet any others of its kind.
        kind: what the payload is, and so what makes one message of several.
        payload: bytes, such as `pack` gives them.
    """

    bucket: int | None
    kind: str
    payload: bytes

    @classmethod
    def from_tree(cls, kind: str, tree: Mapping[str, Any], bucket: int | None = None) -> Message:
        """A message with a packed state."""
        return cls(bucket, kind, pack(tree))

    @property
    def tree(self) -> dict[str, Any]:
        """The state that is packed in the payload."""
        return unpack(self.payload)


class Merger(ABC):
    """Merges the messages of one kind into one message, or into few."""

    @abstractmethod
    def add(self, bucket: int | None, payloads: Iterable[bytes]) -> Iterable[Message]:
        """Take in all messages of a bucket; give merged ones that are ready, or take too much memory."""

    def rest(self) -> Iterable[Message]:
        """The merged messages that are left after the last bucket; none if `add` gave those of each bucket."""
        return ()


#: By kind of message, the function that makes a merger.
Mergers = dict[str, Callable[[], Merger]]
#: The columns of rows that travel.
BUCKET, KIND, PAYLOAD = Message._fields
# Messages wait for one another until they have so many bytes.
_BATCH_BYTES = 1 << 20
_SCHEMA = pa.schema([(BUCKET, pa.int32()), (KIND, pa.string()), (PAYLOAD, pa.binary())])


def rows_of(messages: Iterable[Message]) -> Iterator[pa.RecordBatch]:
    """Messages as rows; small ones share a batch."""
    waiting: list[Message] = []
    n_bytes = 0
    for message in messages:
        waiting.append(message)
        n_bytes += len(message.payload)
        if n_bytes >= _BATCH_BYTES:
            yield _batch_of(waiting)
            waiting, n_bytes = [], 0
    if waiting:
        yield _batch_of(waiting)


def _batch_of(messages: list[Message]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([message._asdict() for message in messages], _SCHEMA)


def messages_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
    """The messages of rows, one at a time."""
    for batch in batches:
        for row in zip(*(batch.column(name) for name in Message._fields), strict=True):
            yield Message(*(value.as_py() for value in row))


def merged_by_bucket(mergers: Mergers, *, sort: bool) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow``: what the mergers, by kind, make of the messages of each bucket.

    A partition has all messages of a bucket, one after the other; or in any order, if it is to `sort` them. A bucket that comes again is
    a ValueError, because the engine did not keep the order of rows and figures would be wrong.
    """

    def run(batches: Batches) -> Batches:
        if sort and (whole := list(batches)):
            order = [(BUCKET, "ascending"), (KIND, "ascending")]
            batches = iter(pa.Table.from_batches(whole).sort_by(order).to_batches())
        started: dict[str, Merger] = {}
        met = set()
        for key, some in groupby(messages_of(batches), key=lambda message: (message.bucket, message.kind)):
            if key in met:
                msg = "messages are not in the order of their buckets, so the engine cannot run this package"
                raise ValueError(msg)
            met.add(key)
            bucket, kind = key
            merger = started[kind] = started.get(kind) or mergers[kind]()
            yield from rows_of(merger.add(bucket, (message.payload for message in some)))
        for merger in started.values():
            yield from rows_of(merger.rest())

    return run
