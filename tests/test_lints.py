"""The lints of names and prose find each kind of what they refuse, and nothing else."""

import ast
from pathlib import Path
from runpy import run_path

import pytest

TOOLS = Path(__file__).parents[1] / "tools"


@pytest.fixture(scope="module")
def names():
    return run_path(str(TOOLS / "names.py"))


@pytest.fixture(scope="module")
def prose():
    return run_path(str(TOOLS / "prose.py"))


@pytest.mark.parametrize(
    ("code", "refused"),
    [
        ("nobody = 1", ["nobody"]),
        ("def rows(known_users): pass", ["known_users"]),
        ("class FurtherTables: pass", ["FurtherTables"]),
        ("at = 1", ["at"]),
        ("in_folder = 1", ["in_folder"]),
        ("labels_of = 1", ["labels_of"]),
        ("import numpy as without", ["without"]),
        ("def labels_of(user): pass", []),
        ("def without_nulls(rows): counts = rows", []),
    ],
)
def test_a_name_is_a_noun(names, code, refused):
    defined = names["names_of"](ast.parse(code))
    assert [name for _, name, is_function in defined if names["problem_of"](name, is_function)] == refused


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("A table has a row a user.", "write 'one … per …'"),
        (" ".join(["It", *["counts"] * 25]) + ".", "26 words"),
        ("It counts users. It drops nobody.", "write 'no user'"),
        ("It counts users.", None),
    ],
)
@pytest.mark.parametrize("place", ['"""{}"""\n', '"""Users."""\n\n\ndef _rows():\n    """{}"""\n', "# {}\n"])
def test_a_sentence_is_short_and_plain(prose, tmp_path, text, says, place):
    module = tmp_path / "module.py"
    module.write_text(place.format(text))
    habits = prose["HABITS"] | prose["HABITS_IN_CODE"]
    found = [problem for _, part in prose["texts_of"](module) for _, problem in prose["problems_of"](part, habits)]
    assert len(found) == (says is not None)
    assert all(says in problem for problem in found)
