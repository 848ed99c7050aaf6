"""The examples of docstrings. They are doctests, and may use the public names and the tables of docs/api.md."""

import ast
import doctest
import importlib
import pkgutil

import spark_rankeval

PUBLIC = {name: getattr(spark_rankeval, name) for name in spark_rankeval.__all__}
# The names that the first block of docs/api.md defines. Examples that use them need Spark.
TABLES = {
    "spark", "predictions", "labels", "training", "result", "comparison", "stages", "trial", "judged", "by_judge", "metrics_table",
}  # fmt: skip


def _examples_in(name):
    module, finder = importlib.import_module(name), doctest.DocTestFinder(exclude_empty=True)
    # The finder misses some functions of the module that a decorator of another module wraps, and finds others: each runs once.
    wrapped = [each for each in vars(module).values() if hasattr(each, "__wrapped__") and each.__module__ == name]
    found = [test for each in (module, *wrapped) for test in finder.find(each, globs=vars(module))]
    return [test for test in {test.docstring: test for test in found}.values() if test.examples]


_MODULES = [module.name for module in pkgutil.walk_packages(spark_rankeval.__path__, "spark_rankeval.")]
# The examples of each module that has any.
EXAMPLES = {name: examples for name in _MODULES if (examples := _examples_in(name))}


def needs_tables(name):
    """Whether a module's examples need a Spark session."""
    nodes = (node for test in EXAMPLES[name] for each in test.examples for node in ast.walk(ast.parse(each.source)))
    return any(isinstance(node, ast.Name) and node.id in TABLES for node in nodes)


def failures_of(name, names, flags=0):
    """Run the examples of a module with these names, and return how many fail. The flags of doctest say which differences are allowed."""
    runner = doctest.DocTestRunner(optionflags=flags)
    for test in EXAMPLES[name]:
        test.globs = {**PUBLIC, **vars(importlib.import_module(name)), **names}
        runner.run(test)
    return runner.failures
