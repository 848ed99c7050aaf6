"""Check what the package never does: execute data, open connections, or read text of the caller's as SQL; a part of `make lint`.

python tools/security.py
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).resolve().parent.parent / "spark_rankeval"
EXECUTING = {"eval", "exec", "compile", "__import__"}
MODULES_THAT_EXECUTE = {"pickle", "cloudpickle", "marshal", "shelve", "dill", "joblib", "subprocess", "code", "codeop"}
# It asks the Python that Spark is about to run for its version and packages, by a program that is a constant.
MAY_RUN_PYTHON = {"engine.py"}
# Its reader makes nothing but arrays and classes of the package: tests/test_security.py.
MAY_PICKLE = {"process.py"}
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
    "sql.py": ["calls selectExpr", "calls expr"],
    # What an engine is and can do.
    "checks.py": ["calls sql", "calls sql"],
    # Statements about tables, whose names are quoted, with comments of ours and names of runs: tests/spark/features/test_catalog_names.py.
    "catalog.py": ["calls sql"],
}
# Methods of Spark's that read text as SQL. Text that is a constant of ours is no way in for anybody.
SQL = {"expr", "selectExpr", "sql", "where", "filter", "from_json", "schema_of_json"}


def names_of_calls(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    """The calls in a tree with the name of what is called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            yield node, function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def is_made_of_text(argument: ast.expr) -> bool:
    """Text put together where it is used, as in f"{name} = 1"; a column made by comparing others is none."""
    if not isinstance(argument, ast.JoinedStr | ast.BinOp):
        return False
    parts = list(ast.walk(argument))
    has_text = any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in parts)
    return has_text and not any(isinstance(part, ast.Call | ast.Compare) for part in parts)


def offences(tree: ast.AST) -> Iterator[str]:
    """What executes data, opens connections or makes SQL of text."""
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


def problems_of(path: Path) -> Iterator[str]:
    """What a module does that it may not do."""
    tree = ast.parse(path.read_text())
    allowed = list(MAY_MAKE_SQL.get(path.name, ()))
    allowed += ["imports subprocess"] if path.name in MAY_RUN_PYTHON else []
    allowed += ["imports pickle"] if path.name in MAY_PICKLE else []
    if sorted(found := list(offences(tree))) != sorted(allowed):
        yield f"{path}: {', '.join(found) or 'nothing'}; allowed: {', '.join(allowed) or 'nothing'}"
    for node, name in names_of_calls(tree):
        # An expression is made by `named`, `text`, `number` and `call`, whose function is a constant.
        by_hand = name == "Sql" or (name == "call" and not isinstance(node.args[0], ast.Constant | ast.Name))
        if by_hand and path.name != "sql.py":
            yield f"{path}:{node.lineno}: writes SQL by hand"


if __name__ == "__main__":
    wrong = [problem for path in sorted(PACKAGE.rglob("*.py")) for problem in problems_of(path)]
    print("\n".join(wrong) or "security: nothing found")
    sys.exit(bool(wrong))
