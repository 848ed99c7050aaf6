"""Jobs as their users start them: from a shell, in a folder of their own."""

import importlib.util
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from helpers.processes import SUBMIT_OPTIONS, without_startup

ROOT = Path(__file__).parents[2]


def run(job, *arguments, cwd, platform="classic", **environment):
    # The job is to find its own way, not that of the session of these tests.
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
    # Frames of the first compiler are large: what ALS makes, step by step, is read by a recursion that is as deep.
    inherited["SPARK_SUBMIT_OPTS"] = f"{SUBMIT_OPTIONS} -Xss4m"
    engine = ["--engine", "sail"] if platform == "sail" else []
    command = [sys.executable, str(ROOT / "jobs" / job), *map(str, arguments), *engine]
    done = subprocess.run(
        command, cwd=cwd, env=inherited | environment, capture_output=True, text=True, timeout=300, check=False
    )
    done.stderr = without_startup(done.stderr)
    return done


@pytest.fixture(scope="session")
def run_job(platform):
    return partial(run, platform=platform)


@pytest.fixture(scope="session")
def example_config():
    return ROOT / "conf" / "evaluate.toml"


@pytest.fixture(scope="session")
def quickstart_run(tmp_path_factory, run_job):
    """The quick start run once, as a newcomer does: its folder and what it said."""
    folder = tmp_path_factory.mktemp("quickstart")
    return folder, run_job("quickstart.py", cwd=folder)


@pytest.fixture(scope="session")
def quickstart():
    """The quick start as a module."""
    spec = importlib.util.spec_from_file_location("quickstart", ROOT / "jobs" / "quickstart.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
