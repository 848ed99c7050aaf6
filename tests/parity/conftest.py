"""Which systems run: those of the environments that were asked for; one that is asked for and missing fails."""

import pytest
from parity import expectations
from parity.environments import ENVIRONMENT_OF


def pytest_addoption(parser):
    everyone = " ".join(sorted(set(ENVIRONMENT_OF.values())))
    parser.addoption("--systems", default=everyone, help=f"names of environments; default: {everyone}")


def pytest_collection_modifyitems(config, items):
    chosen = set(config.getoption("--systems").split())
    unknown = chosen - set(ENVIRONMENT_OF.values())
    if unknown or not chosen:
        msg = f"--systems: {', '.join(sorted(unknown)) or 'nothing'} is not among {', '.join(sorted(set(ENVIRONMENT_OF.values())))}"
        raise pytest.UsageError(msg)
    places = {item: item.callspec.params.get("place") for item in items if hasattr(item, "callspec")}
    needed = {item: place for item, place in places.items() if place is not None}
    systems = {item: expectations.CASES[place].system for item, place in needed.items()}
    systems |= {item: item.callspec.params["system"] for item in places if "system" in item.callspec.params}
    left_out = [item for item, system in systems.items() if ENVIRONMENT_OF[system] not in chosen]
    items[:] = [item for item in items if item not in set(left_out)]
    config.hook.pytest_deselected(items=left_out)
