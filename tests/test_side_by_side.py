"""What CI runs two at a time: no failure is lost, and nothing starts after one."""

import os
import re
import subprocess
import sys
import threading

import pytest
import side_by_side
from helpers.documented import ROOT


def test_progress_is_shown_at_once_and_everything_else_at_the_end(capfd):
    program = "print('Sail .. [100%]\\nas it is\\n2 passed'); raise SystemExit(3)"
    ended = side_by_side.run("part", [sys.executable, "-c", program])
    assert ended == side_by_side.Ended("part", True, "2 passed")
    progress, _, *others = capfd.readouterr().out.splitlines()
    assert progress == "part     Sail .. [100%]"
    assert others[0].startswith("== part: ")
    assert others[1:3] == ["as it is", "2 passed"]


@pytest.mark.parametrize("failing", [None, "parity"])
def test_nothing_starts_after_a_failure(monkeypatch, capsys, failing):
    commands = []

    def ended(name, command):
        commands.append(command)
        return side_by_side.Ended(name, command[1] == failing, "")

    monkeypatch.setattr(side_by_side, "run", ended)
    monkeypatch.setattr(side_by_side, "side_by_side", lambda run_one, targets: [run_one(target) for target in targets])
    code = side_by_side.main(["parity SYSTEMS='trec ranx'", "test-site"])
    assert commands[0] == ["make", "parity", "SYSTEMS=trec ranx"]
    if failing:
        assert (code, len(commands)) == (1, 1)
        assert capsys.readouterr().out == ("FAILED: parity SYSTEMS='trec ranx'\nNOT RUN after the failure: test-site\n")
    else:
        assert (code, commands[1:]) == (0, [["make", "test-site"]])


def test_two_run_at_a_time():
    both = threading.Barrier(2, timeout=20)
    assert sorted(side_by_side.side_by_side(lambda _: both.wait(), "ab")) == [0, 1]


@pytest.fixture
def make_nothing(tmp_path):
    """A PATH on which make only writes down what it is to make, and fails at one target."""
    told = tmp_path / "told"
    (tmp_path / "make").write_text(f'#!/bin/sh\necho "$1" >> {told}\n[ "$1" != "$FAILING" ]\n')
    for name in ("make", "java", "chromium"):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o755)

    def run_ci(**environment):
        told.unlink(missing_ok=True)
        path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            [ROOT / ".ci" / "run"], env={**os.environ, "PATH": path, "FAILING": "", "LAST_GREEN": "", **environment},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done, told.read_text().split()

    return run_ci


def test_ci_makes_targets_that_there_are_and_fails_with_any_of_them(make_nothing):
    done, targets = make_nothing()
    assert done.returncode == 0, done.stderr
    there = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(targets) <= set(there)
    assert targets[:2] == ["setup", "lint"]
    assert targets[-1] == "test-speed"
    assert targets.count("test") == 4
    for failing, first_left in (("lint", "test"), ("check-oldest", "test-speed")):
        done, started = make_nothing(FAILING=failing)
        assert done.returncode != 0
        assert failing in started
        assert first_left not in started
