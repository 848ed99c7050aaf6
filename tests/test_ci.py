"""CI runs make targets that there are, and fails if one of them fails or if all need too many CPU-seconds."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def run_ci(tmp_path):
    """Run .ci/run with a make that only writes down what it is to make, and fails at one target."""
    made, ci = tmp_path / "made", tmp_path / ".ci" / "run"
    (tmp_path / "make").write_text(f'#!/bin/sh\necho "$@" >> {made}\n[ "$1" != "$FAILING" ]\n')
    for name in ("make", "java"):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o755)
    for folder in ("tests", "tools"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    ci.parent.mkdir()

    def run(failing="", most="2000"):
        made.unlink(missing_ok=True)
        ci.write_text(re.sub(r"(?m)^MOST_CPU_SECONDS=\d+$", f"MOST_CPU_SECONDS={most}", (ROOT / ".ci/run").read_text()))
        environment = os.environ | {
            "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
            "FAILING": failing,
            "LAST_GREEN": "",
        }
        done = subprocess.run(["bash", ci], env=environment, capture_output=True, text=True, check=False)
        return done, [line.split()[0] for line in made.read_text().splitlines()]

    return run


def test_ci_makes_the_commands_of_the_readme_first_and_then_targets_that_there_are(run_ci):
    done, targets = run_ci()
    assert done.returncode == 0, done.stderr
    assert targets[:3] == ["setup", "lint", "test"]
    assert {"test-features", "test-sail", "smoke-connect", "smoke-oldest", "parity"} <= set(targets)
    there = re.findall(
        r"^([a-z-]+)(?: [a-z-]+)*:|^test-(?:spark|connect)-%", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    assert set(targets) <= set(there)
    assert "left to `make nightly`" in done.stdout


@pytest.mark.parametrize("failing", ["lint", "test", "smoke-oldest"])
def test_a_step_that_fails_fails_ci(run_ci, failing):
    done, targets = run_ci(failing)
    assert done.returncode != 0
    assert failing in targets
    assert ("test-features" in targets) == (failing == "smoke-oldest")


def test_a_run_that_needs_too_many_cpu_seconds_fails(run_ci):
    done, _ = run_ci(most="-1")
    assert done.returncode != 0
    assert "needs more CPU-seconds than MOST_CPU_SECONDS" in done.stdout
