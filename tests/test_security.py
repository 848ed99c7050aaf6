"""States travel as records of the package: bytes that ask for more are refused. tools/security.py looks at the code."""

import io
import os
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from spark_rankeval.request.call import CountNames
from spark_rankeval.statistics.description import DescriptionOptions
from spark_rankeval.worker import process
from spark_rankeval.worker.process import pack, unpack
from spark_rankeval.worker.states import StateAccumulator, UsersOfGroups


def states(key=(), n_values=3, ci="bca"):
    options = DescriptionOptions(ci, 0.95, 50, 0, (0.5,))
    rng = np.random.default_rng(5)
    accumulator = StateAccumulator(n_values, CountNames(("a", "b"), ("c",)), options)
    users = UsersOfGroups(
        {index: np.where(rng.random(200) < 0.1, np.nan, rng.random(200)) for index in range(n_values)},
        {name: rng.integers(0, 2**62, 200) for name in "abc"},
        {},
        {},
        {"is_null": rng.random(200) < 0.1, "hash": rng.integers(-(2**63), 2**63 - 1, 200)},
    )
    accumulator.add(users)
    return accumulator.states([key])


@pytest.mark.parametrize("key", [(), ("DE", None), ("", "null"), ('"a/b"', "ü\n𝄞")])
def test_states_come_back_as_they_were(key):
    made = states(key)
    found = unpack(pack(made))
    assert found.keys == [key]
    assert set(found.parts) == set(made.parts)
    for part, fields in made.parts.items():
        assert set(found.parts[part]) == set(fields)
        for name, values in fields.items():
            again = found.parts[part][name]
            assert (again.dtype, again.shape) == (values.dtype, values.shape)
            assert again.tobytes() == values.tobytes()


@pytest.mark.parametrize("protocol", [4, 5])
def test_arrays_of_another_version_of_numpy_are_read(protocol):
    """Its modules have other names there."""
    written = pickle.dumps([np.arange(6.0).reshape(2, 3), np.float64(0.5)], protocol=protocol)
    core = np.zeros(1).__reduce__()[0].__module__.partition(".multiarray")[0]
    other = {"numpy._core": "numpy.core_", "numpy.core": "numpy.cor_"}[core]
    assert core.encode() in written
    whole = written.replace(core.encode(), other.encode())
    packed = len(whole).to_bytes(8, "little") + pa.compress(whole, codec="zstd", asbytes=True)
    array, number = unpack(packed)
    assert (array.tolist(), float(number)) == ([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], 0.5)


class Executes:
    def __reduce__(self):
        return os.system, ("true",)


@pytest.mark.parametrize(
    ("state", "named"),
    [
        (Executes(), r"posix\.system"),
        ({"a": [np.array([Executes()], object)]}, r"posix\.system"),
        (pack, r"spark_rankeval\.worker\.process\.pack"),
        (Path("x"), r"pathlib\."),
        (np.loadtxt, r"numpy\..*loadtxt"),
    ],
)
def test_bytes_that_ask_for_a_function_or_a_class_of_others_are_refused(state, named):
    with pytest.raises(ValueError, match=f"records of this package; got {named}"):
        unpack(pack(state))


def test_a_name_with_dots_does_not_lead_out_of_the_package():
    for name in ("io.open", "Message.__init__", "pa.compress"):
        with pytest.raises(ValueError, match="records of this package"):
            process._Reader(io.BytesIO(b"\x80\x04cspark_rankeval.worker.process\n%s\n." % name.encode())).load()
