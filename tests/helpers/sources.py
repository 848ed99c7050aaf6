"""The package's modules as syntax trees, which many tests read: parsed once."""

import ast
from functools import cache
from pathlib import Path

import spark_rankeval

PACKAGE = Path(spark_rankeval.__file__).parent


@cache
def package_trees():
    """The syntax tree of each module, by its path within the package. Readers must not change them."""
    return {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
