"""Check the names in the code: no pronoun, participle or preposition stands for a thing; a part of `make lint`.

python tools/names.py [folder …]
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ["spark_rankeval", "jobs", "tools", "benchmarks"]
# No part of a name.
WORDS = {"asked", "beside", "found", "further", "given", "known", "mine", "nobody", "somebody", "told"}
PREPOSITIONS = {"as", "at", "by", "for", "from", "in", "of", "on", "to", "with", "without"}
# A function may be called `with_ranks`, `to_pandas` or `user_of`; these words begin no name.
NEVER_FIRST = {"at", "in", "of"}
# Names that users write or read, in calls, rows and stored columns.
PUBLIC = {
    "asked", "by", "found", "head_of", "in_place", "item_by", "metrics_from", "n_without", "of", "on", "std_of", "tightest_at",
    "TIGHTEST_AT", "told",
}  # fmt: skip


def parts_of(name: str) -> list[str]:
    """The words of a name in snake or camel case."""
    return [part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


def problem_of(name: str, is_function: bool) -> str | None:
    """What is wrong with a name, if anything is."""
    parts = parts_of(name)
    if not parts or name in PUBLIC:
        return None
    if words := WORDS.intersection(parts):
        return f"{name!r}: write a noun instead of {min(words)!r}"
    if len(parts) == 1 and parts[0] in PREPOSITIONS:
        return f"{name!r} is a preposition"
    if parts[0] in NEVER_FIRST:
        return f"{name!r}: begin with a noun or a verb"
    if parts[-1] in PREPOSITIONS and not is_function:
        return f"{name!r}: end with a noun"
    return None


def names_of(tree: ast.AST) -> Iterator[tuple[int, str, bool]]:
    """The names that a module defines: the line, the name, and whether it is a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name, True
        elif isinstance(node, ast.ClassDef):
            yield node.lineno, node.name, False
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg, False
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id, False
        elif isinstance(node, ast.alias) and node.asname:
            yield node.lineno, node.asname, False


def problems(folders: list[str]) -> Iterator[str]:
    """What is wrong with the names of modules and of what they define."""
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*.py")):
            name = file.relative_to(ROOT)
            for line, problem in [(1, problem_of(file.stem, False))] + [
                (line, problem_of(defined, is_function))
                for line, defined, is_function in names_of(ast.parse(file.read_text()))
            ]:
                if problem:
                    yield f"{name}:{line}: {problem}"


if __name__ == "__main__":
    found = list(problems(sys.argv[1:] or FOLDERS))
    print("\n".join(found) or "names: nothing found")
    sys.exit(bool(found))
