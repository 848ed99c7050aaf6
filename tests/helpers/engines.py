"""On which engine `make test` runs a test of tests/spark: tests/engines.toml says it, and what Sail cannot run PySpark runs."""

import tomllib
from functools import cache
from pathlib import Path

from helpers.left_out import is_left_out

FILE = Path(__file__).parents[1] / "engines.toml"


@cache
def engines_of_names():
    """The engines of each file and test that the list names."""
    listed = tomllib.loads(FILE.read_text())
    engines = {"pyspark": {"classic"}, "both": {"classic", "sail"}, "ci": set()}
    return {name: engines[part] for part, reasons in listed.items() for names in reasons.values() for name in names}


def engines_of(item):
    """The platforms on which `make test` runs a test; a list that names a test says more than its file."""
    names = engines_of_names()
    test = item.nodeid.partition("[")[0]
    engines = names.get(test, names.get(test.partition("::")[0], {"sail"}))
    return {"classic"} if engines == {"sail"} and is_left_out(item, "sail") else engines


def runs_nowhere(item):
    """Whether no engine that is to run a test can."""
    return all(is_left_out(item, engine) for engine in engines_of(item) or {"classic", "sail"})
