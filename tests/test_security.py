"""States travel as names and numbers: bytes that ask for more are refused. tools/security.py looks at the code."""

import zlib

import numpy as np
import pytest

from spark_rankeval.request.counts import CountNames
from spark_rankeval.statistics.description import DescriptionOptions
from spark_rankeval.wire import pack, unpack
from spark_rankeval.worker.group_states import GroupStates, StateAccumulator


def states(key=(), n_values=3, ci="bca"):
    options = DescriptionOptions(ci, 0.95, 50, 0, (0.5,))
    rng = np.random.default_rng(5)
    accumulator = StateAccumulator(n_values, CountNames(("a", "b"), ("c",)), options)
    accumulator.add(
        [np.where(rng.random(200) < 0.1, np.nan, rng.random(200)) for _ in range(n_values)],
        {name: rng.integers(0, 2**62, 200) for name in "abc"},
        rng.random(200) < 0.1,
        rng.integers(-(2**63), 2**63 - 1, 200),
    )
    return accumulator.states([key])


@pytest.mark.parametrize("key", [(), ("DE", None), ("", "null"), ('"a/b"', "ü\n𝄞")])
def test_states_come_back_as_they_were(key):
    made = states(key)
    found = GroupStates.from_tree(unpack(pack(made.tree())))
    assert found.keys == [key]
    assert set(found.parts) == set(made.parts)
    for part, fields in made.parts.items():
        assert set(found.parts[part]) == set(fields)
        for name, values in fields.items():
            again = found.parts[part][name]
            assert (again.dtype, again.shape) == (values.dtype, values.shape)
            assert again.tobytes() == values.tobytes()


@pytest.mark.parametrize("value", [np.array([object()]), "text", None, [1], np.array(["a"])])
def test_a_state_of_anything_but_numbers_is_refused(value):
    with pytest.raises(TypeError, match="arrays of numbers"):
        pack({"a": value})


def test_bytes_that_ask_for_objects_are_refused():
    import json

    import pyarrow as pa

    header = json.dumps({"a": ["|O", [1]]}).encode()
    whole = len(header).to_bytes(4, "little") + header + b"\0" * 8
    packed = len(whole).to_bytes(8, "little") + pa.compress(whole, codec="zstd", asbytes=True)
    with pytest.raises(ValueError, match="arrays of numbers"):
        unpack(zlib.crc32(packed).to_bytes(4, "little") + packed)


def test_damaged_bytes_are_refused():
    packed = pack(states().tree())
    flipped = [packed[:place] + bytes([packed[place] ^ 4]) + packed[place + 1 :] for place in range(0, len(packed), 97)]
    cut = [packed[:length] for length in (0, 3, 12, len(packed) // 2, len(packed) - 1)]
    for damaged in [*flipped, *cut, packed + b"x", b"no state at all, just text", b"\xff" * 30]:
        with pytest.raises(ValueError, match="is damaged"):
            unpack(damaged)
