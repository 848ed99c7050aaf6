"""Which systems run: those of the environments that were asked for; one that is asked for and missing fails."""

import pytest
from parity import expectations
from parity.environments import ENVIRONMENT_OF


def pytest_addoption(parser):
    everyone = " ".join(sorted(set(ENVIRONMENT_OF.values())))
    parser.addoption("--systems", default=everyone, help=f"names of environments; default: {everyone}")


def system_of(item):
    """The system that a test needs, by its place among the cases or by its name; None: it needs none."""
    told = item.callspec.params if hasattr(item, "callspec") else {}
    return expectations.CASES[told["place"]].system if "place" in told else told.get("system")


def pytest_collection_modifyitems(config, items):
    chosen = set(config.getoption("--systems").split())
    unknown = chosen - set(ENVIRONMENT_OF.values())
    if unknown or not chosen:
        msg = f"--systems: {', '.join(sorted(unknown)) or 'nothing'} is not among {', '.join(sorted(set(ENVIRONMENT_OF.values())))}"
        raise pytest.UsageError(msg)
    needed = {item: system for item in items if (system := system_of(item)) is not None}
    left_out = [item for item, system in needed.items() if ENVIRONMENT_OF[system] not in chosen]
    items[:] = [item for item in items if item not in set(left_out)]
    config.hook.pytest_deselected(items=left_out)
