"""Mutants that need no thought: small changes of a function's syntax tree."""

import ast
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from .calls import PACKAGE, functions_of

SWAPPED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And, ast.USub: ast.UAdd,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A function with a fault; `compiled` gives its whole module."""

    name: str
    file: str
    function: str
    compiled: callable
    planted: bool = False

    @property
    def full_name(self):
        """The function as the map of calls names it."""
        return f"{self.file}::{self.function}"

    @property
    def room(self):
        return self.file.partition("/")[0].removesuffix(".py")


def changed(node):
    """Change a node; whether an operator is for it."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
        node.ops[0] = SWAPPED[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.UnaryOp) and type(node.op) in SWAPPED:
        node.op = SWAPPED[type(node.op)]()
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        node.value = not node.value if isinstance(node.value, bool) else node.value + 1
    elif isinstance(node, ast.IfExp):
        node.body, node.orelse = node.orelse, node.body
    elif isinstance(node, ast.If | ast.While):
        node.test = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
    elif isinstance(node, ast.Return | ast.Expr) and node.value and not isinstance(node.value, ast.Constant):
        node.value = ast.copy_location(ast.Constant(None), node.value)
    else:
        return False
    return True


def sites_of(tree):
    """Each node within a function, with the name of the function."""

    def inside(node):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return
        yield node
        for part in [node.value] if isinstance(node, ast.AnnAssign) else ast.iter_child_nodes(node):
            if part is not None:
                yield from inside(part)

    for name, function in functions_of(tree):
        for statement in function.body:
            for node in inside(statement):
                yield name, node


def _text(node):
    """The first words of a node. Of a statement with a condition it is the condition alone."""
    text = " ".join(ast.unparse(node.test if isinstance(node, ast.If | ast.While) else node).split())
    return text if len(text) <= 60 else f"{text[:60]}…"


def _with_change(path, place):
    """The module whose node of this place is changed."""
    tree = ast.parse(path.read_text())
    _, node = list(sites_of(tree))[place]
    changed(node)
    return compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)


def mutants_of(path: Path):
    """All mutants that operators make of a module."""
    file = path.relative_to(PACKAGE).as_posix()
    for place, (function, node) in enumerate(list(sites_of(ast.parse(path.read_text())))):
        before = _text(node)
        if changed(node):
            name = f"{file}:{node.lineno}:{node.col_offset} {function}: {before} → {_text(node)}"
            yield Mutant(name, file, function, partial(_with_change, path, place))
