"""CI runs a longer suite if what it looks at has changed."""

import subprocess
from pathlib import Path
from runpy import run_path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def suites():
    return run_path(str(ROOT / "tools" / "suites.py"))


@pytest.mark.parametrize(
    ("changed", "run"),
    [
        (["CHANGELOG.md"], []),
        ([], []),
        (["docs/index.md"], ["test-site"]),
        (["spark_rankeval/report/marks.py"], ["test-browser", "test-notebook"]),
        (["spark_rankeval/worker/states.py", "README.md"], ["test-cluster", "test-speed"]),
        (["docs/database.md"], ["test-site"]),
        (["Makefile"], ["test-site", "test-browser", "test-notebook", "test-cluster", "test-speed"]),
    ],
)
def test_a_suite_runs_if_what_it_looks_at_has_changed(suites, changed, run):
    assert suites["suites_of"](changed) == run


def test_what_suites_look_at_is_there_and_what_they_are_is_a_make_target(suites):
    targets = (ROOT / "Makefile").read_text()
    for suite, looked_at in suites["SUITES"].items():
        assert f"\n{suite}:" in targets
        for path in (*looked_at, *suites["EVERYTHING"]):
            assert (ROOT / path).exists(), path


def test_all_run_when_nobody_knows_what_has_changed_and_else_it_is_said_what_does_not(suites, capsys):
    for commit in ([], ["0" * 40]):
        suites["main"](commit)
        assert capsys.readouterr().out.split() == list(suites["SUITES"])
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    if head.returncode == 0:
        suites["main"]([head.stdout.strip()])
        output, said = capsys.readouterr()
        assert not output
        assert said.count("left to make nightly") == len(suites["SUITES"])
