"""What the package never does, whatever it is given: execute data, or text of the caller's as SQL."""

import ast
import zlib

import numpy as np
import pytest
from helpers.sources import package_trees

from spark_rankeval.request.counts import CountNames
from spark_rankeval.statistics.description import DescriptionOptions
from spark_rankeval.wire import pack, unpack
from spark_rankeval.worker.group_states import GroupStates, StateAccumulator

EXECUTING = {"eval", "exec", "compile", "__import__"}
MODULES_THAT_EXECUTE = {"pickle", "cloudpickle", "marshal", "shelve", "dill", "joblib", "subprocess", "code", "codeop"}
# It asks the Python that Spark is about to run for its version and packages, by a program that is a constant.
MAY_RUN_PYTHON = {"python_workers.py"}
# What opens connections; a part of urllib alone reads addresses.
NETWORK = (
    "socket",
    "ssl",
    "http",
    "ftplib",
    "smtplib",
    "asyncio",
    "requests",
    "urllib3",
    "urllib.request.urlopen",
    "grpc",
)
# The one module that makes SQL of names and values: tests/spark/test_sql_text.py tries to get in.
MAY_MAKE_SQL = {
    "sql_text.py": ["calls selectExpr", "calls expr"],
    # What an engine is and can do.
    "checks.py": ["calls sql"],
    "platforms.py": ["calls sql"],
    # Statements about tables, whose names are quoted, with comments of ours and names of runs: tests/spark/features/test_catalog_names.py.
    "catalog.py": ["calls sql"],
}
# Methods of Spark's that read text as SQL. Text that is a constant of ours is no way in for anybody.
SQL = {"expr", "selectExpr", "sql", "where", "filter", "from_json", "schema_of_json"}


def names_of_calls(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            yield node, function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def is_made_of_text(argument):
    """Text put together where it is used, as in f"{name} = 1"; a column made by comparing others is none."""
    if not isinstance(argument, ast.JoinedStr | ast.BinOp):
        return False
    parts = list(ast.walk(argument))
    has_text = any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in parts)
    return has_text and not any(isinstance(part, ast.Call | ast.Compare) for part in parts)


def offences(tree):
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        yield from (f"imports {name}" for name in names if name.partition(".")[0] in MODULES_THAT_EXECUTE)
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        # A module as a whole is all that is in it.
        parts = [f"{name}.urlopen" if name == "urllib.request" else name for name in names]
        yield from (
            f"connects by {name}" for name in parts if f"{name}.".startswith(tuple(f"{one}." for one in NETWORK))
        )
    for node, name in names_of_calls(tree):
        if isinstance(node.func, ast.Name) and name in EXECUTING:
            yield f"calls {name}"
        if name in SQL:
            texts = [argument for argument in node.args if is_made_of_text(argument)]
            yield from (f"{name}({ast.unparse(text)})" for text in texts)
            if name in ("expr", "selectExpr", "sql"):
                yield f"calls {name}"
        if any(keyword.arg == "allow_pickle" for keyword in node.keywords):
            yield "allow_pickle"


def test_no_module_executes_data_or_makes_sql_of_text():
    for path, tree in package_trees().items():
        name = path.rpartition("/")[2]
        allowed = ["imports subprocess"] if name in MAY_RUN_PYTHON else MAY_MAKE_SQL.get(name, [])
        assert sorted(offences(tree)) == sorted(allowed), path


def test_no_other_module_writes_sql_by_hand():
    """An expression is made by `named`, `text`, `number` and `call`, whose function is a constant."""
    for path, tree in package_trees().items():
        for node, name in names_of_calls(tree):
            if not path.endswith("/sql_text.py"):
                assert name != "Sql", path
                assert name != "call" or isinstance(node.args[0], ast.Constant | ast.Name), path


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "eval('1')",
        "F.expr(name)",
        "frame.where(f'{name} = 1')",
        "frame.selectExpr(name)",
        "spark.sql('select 1')",
        "np.load(f, allow_pickle=True)",
        "import socket",
        "from http.client import HTTPSConnection",
        "from urllib.request import urlopen",
        "import urllib.request",
    ],
)
def test_the_look_at_modules_finds_what_it_looks_for(source):
    assert list(offences(ast.parse(source)))


# --- states travel as names and numbers


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
