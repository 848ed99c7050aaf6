"""Which functions of the package each test calls.

The package is imported with a call of `__hit__` in front of each function, which costs little. What Sail's Python workers call
is seen too, as they are threads of the same process. Functions are named by their file and qualified name: `ranking/batch.py::Batch.hits`.
"""

import ast
import builtins
import os
from collections import defaultdict
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "spark_rankeval"
_called = set()


def functions_of(node, outer=""):
    """The functions below a node of a syntax tree, with their qualified names."""
    for child in ast.iter_child_nodes(node):
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function:
            yield outer + child.name, child
        inner = f"{outer}{child.name}." if is_function or isinstance(child, ast.ClassDef) else outer
        yield from functions_of(child, inner)


def _code_with_hits(path):
    tree = ast.parse(path.read_bytes())
    for name, function in functions_of(tree):
        # PySpark's workers run functions of the driver, and watch nothing.
        (call,) = ast.parse(
            f"__import__('builtins').__dict__.get('__hit__', id)('{path.relative_to(PACKAGE).as_posix()}::{name}')"
        ).body
        for part in ast.walk(call):
            ast.copy_location(part, function.body[0])
        function.body.insert(0 if ast.get_docstring(function) is None else 1, call)
    return compile(tree, str(path), "exec", dont_inherit=True)


def watch():
    """Let every module of the package that is imported from now on say what is called."""
    usual = SourceFileLoader.get_code

    def get_code(loader, fullname):
        path = Path(loader.get_filename(fullname))
        return _code_with_hits(path) if path.is_relative_to(PACKAGE) else usual(loader, fullname)

    builtins.__hit__, SourceFileLoader.get_code = _called.add, get_code


class Recorder:
    """A plugin of pytest that records for each test that passes its seconds of CPU and the functions that it calls.

    Calls of a fixture count for every test that uses it, also if another test needed it first.
    """

    def __init__(self):
        self.at_import, self.tests, self._failed = sorted(_called), {}, set()
        self._of_fixtures = defaultdict(set)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        before = set(_called)
        _called.clear()
        try:
            return (yield)
        finally:
            self._of_fixtures[fixturedef] |= _called
            _called.update(before)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        _called.clear()
        began = sum(os.times()[:4])
        result = yield
        if item.nodeid not in self._failed:
            used = [each for several in item._fixtureinfo.name2fixturedefs.values() for each in several]
            called = _called.union(*(self._of_fixtures[fixture] for fixture in used))
            self.tests[item.nodeid] = [round(sum(os.times()[:4]) - began, 4), sorted(called)]
        return result

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self._failed.add(report.nodeid)

    def as_json(self):
        """Each name stands once, and tests have the places of names."""
        names = sorted({name for _, called in self.tests.values() for name in called})
        places = {name: place for place, name in enumerate(names)}
        tests = {test: [seconds, [places[name] for name in called]] for test, (seconds, called) in self.tests.items()}
        return {"at_import": self.at_import, "names": names, "tests": tests, "failed": sorted(self._failed)}
