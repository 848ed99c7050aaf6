"""What travels from workers to the driver: messages with packed states, which are numbers, texts, arrays and records of this package.

A packed state begins with its size (8 bytes). The state follows as a pickle, compressed with Zstandard. A pickle can name any function,
so the reader makes nothing but arrays and classes of this package.
"""

from __future__ import annotations

import io
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

Batches = Iterator[pa.RecordBatch]

# Zstandard takes a third of zlib's time to pack, and Arrow includes it. Arrow writes no checksum.
_CODEC = "zstd"
_SIZE = 8
# What numpy makes an array of when it is read. Its modules have other names in version 1 than in version 2, and workers may have
# another version than the driver.
_MAKERS: tuple[Any, ...] = (
    np.zeros(1).__reduce_ex__(5)[0],
    np.zeros(1).__reduce__()[0],
    np.float64(0).__reduce__()[0],
    np.dtype,
    np.ndarray,
)
_OF_NUMPY = {each.__name__: each for each in _MAKERS}


def pack(state: Any) -> bytes:
    """Pack numbers, texts, arrays, records of this package, and tuples, lists and dicts of these."""
    whole = pickle.dumps(state, protocol=5)
    # Compression pays: most bytes of sums and counts are 0.
    compressed: bytes = pa.compress(whole, codec=_CODEC, asbytes=True)
    return len(whole).to_bytes(_SIZE, "little") + compressed


def unpack(data: bytes) -> Any:
    """Unpack the output of `pack`; anything that asks for another class or a function is a ValueError."""
    size = int.from_bytes(data[:_SIZE], "little")
    return _Reader(io.BytesIO(pa.decompress(memoryview(data)[_SIZE:], size, codec=_CODEC))).load()


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """A class of this package, or what numpy needs to make an array."""
        package = module.partition(".")[0]
        # A name with dots would go through a module of ours to any other.
        if package == "numpy" and name in _OF_NUMPY:
            return _OF_NUMPY[name]
        if (module, name) == ("fractions", "Fraction"):
            return super().find_class(module, name)
        if package == __name__.partition(".")[0] and "." not in name:
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        msg = f"a state holds numbers, texts, arrays and records of this package; got {module}.{name}"
        raise ValueError(msg)


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
    def of(cls, kind: str, state: Any, bucket: int | None = None) -> Message:
        """A message with a packed state."""
        return cls(bucket, kind, pack(state))

    @property
    def state(self) -> Any:
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
