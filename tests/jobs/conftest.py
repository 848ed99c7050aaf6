"""Jobs as their users start them: from a shell, in a folder of their own."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(job, *arguments, cwd, **environment):
    # The job is to find its own way, not that of the session of these tests.
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
    command = [sys.executable, str(ROOT / "jobs" / job), *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, env=inherited | environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture(scope="session")
def run_job():
    return run


@pytest.fixture(scope="session")
def example_config():
    return ROOT / "conf" / "evaluate.toml"


@pytest.fixture(scope="session")
def quickstart_run(tmp_path_factory):
    """The quick start run once, as a newcomer does: its folder and what it said."""
    folder = tmp_path_factory.mktemp("quickstart")
    return folder, run("quickstart.py", cwd=folder)


@pytest.fixture(scope="session")
def quickstart():
    spec = importlib.util.spec_from_file_location("quickstart", ROOT / "jobs" / "quickstart.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
