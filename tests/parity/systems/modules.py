"""Modules of packages whose own start imports far more than the evaluator needs: models, services, half of a framework."""

import importlib.util
import sys
import types
from pathlib import Path


def skip_start(*packages):
    """Let modules of these packages be imported without what the packages themselves import; outer packages come first."""
    for name in packages:
        outer, _, last = name.rpartition(".")
        package = types.ModuleType(name)
        if outer in sys.modules:
            package.__path__ = [str(Path(folder, last)) for folder in sys.modules[outer].__path__]
        else:
            package.__path__ = list(importlib.util.find_spec(name).submodule_search_locations)
        sys.modules[name] = package


def stand_in(name, **contents):
    """A module that is imported and not used, or of which only these contents are."""
    module = types.ModuleType(name)
    vars(module).update(contents)
    sys.modules[name] = module
