"""Pack states as bytes that travel from workers to the driver: names and numbers, nothing that could be executed.

A packed state begins with a checksum of the rest (4 bytes) and the size of the state (8 bytes). The state follows, compressed with
Zstandard. It begins with the length of a header (4 bytes). The header is a JSON object whose leaves are ``[dtype, shape]``. Then come the
arrays' bytes, in the order of the leaves. All numbers are little-endian.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Batches = Iterator[pa.RecordBatch]

#: The columns of rows that travel: the place where a state is merged with others, and the packed state.
PLACE, STATE = "place", "state"

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


def placed(place: int | None, state: Mapping[str, Any]) -> pa.RecordBatch:
    """A state as a row that travels. Rows of one place are merged together; rows without a place may be merged with any others."""
    return pa.RecordBatch.from_pydict(
        {PLACE: pa.array([place], pa.int32()), STATE: pa.array([pack(state)], pa.binary())}
    )


def in_order(run: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow`` that needs the rows of a place together, on an engine that does not keep the order of rows."""

    def run_in_order(batches: Batches) -> Batches:
        whole = list(batches)
        if whole:
            yield from run(iter(pa.Table.from_batches(whole).sort_by(PLACE).to_batches()))

    return run_in_order


def by_place(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int | None, Iterator[bytes]]]:
    """The packed states of rows, place by place; those of a place must be read before those of the next.

    A place that comes again is a ValueError, because the engine did not keep the order of rows and figures would be wrong.
    """
    met = set()
    cells = (cell for batch in batches for cell in zip(batch.column(PLACE), batch.column(STATE), strict=True))
    for place, of_a_place in groupby(cells, key=lambda cell: cell[0].as_py()):
        if place in met:
            msg = "states are not in the order of their places, so the engine cannot run this package"
            raise ValueError(msg)
        met.add(place)
        yield place, (state.as_py() for _, state in of_a_place)
