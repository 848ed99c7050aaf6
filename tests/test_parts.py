"""What `make test` runs on which engine, and what it may need."""

import sys
from collections import Counter
from types import SimpleNamespace

import parts
import pytest
import side_by_side
from helpers import budget, engines
from helpers.documented import ROOT


def test_the_list_of_engines_names_tests_that_there_are():
    for name in engines.engines_of_names():
        file, _, test = name.partition("::")
        text = (ROOT / file).read_text()
        assert not test or f"def {test.rpartition('::')[2]}(" in text, name


def test_the_budget_is_of_folders_that_there_are():
    numbers = budget.read_budget()
    assert {kind for kind, _ in numbers} == {"actions on sail", "actions on classic", "evaluations"}
    assert all((ROOT / folder).is_dir() and n > 0 for (_, folder), n in numbers.items())


@pytest.mark.parametrize(
    ("needed", "words"),
    [
        (100, []),
        (90, []),
        (101, ["tests/a needs 101 evaluations and may need 100"]),
        (50, ["tests/a needs only 50 evaluations of 100: write 50"]),
    ],
)
def test_a_run_that_needs_more_or_much_less_is_told_what_to_do(needed, words):
    key = ("evaluations", "tests/a")
    said = budget.complaints({key: needed}, {key: 100})
    assert len(said) == len(words)
    assert all(one.startswith(word) and "tests/budget.toml" in one for one, word in zip(said, words, strict=True))
    assert budget.complaints({key: needed}, {})[0].startswith(f"tests/a needs {needed} evaluations and may need 0")


@pytest.mark.parametrize(
    ("arguments", "options", "whole"),
    [
        (["tests/metrics", "tests/spark"], {}, True),
        (["tests/metrics"], {"keyword": "ndcg"}, False),
        (["tests/metrics/test_naming.py"], {}, False),
        (["tests/spark/test_trec.py::test_what_is_read"], {}, False),
    ],
)
def test_the_budget_says_nothing_of_a_part_of_the_tests(monkeypatch, arguments, options, whole):
    monkeypatch.setattr(budget, "FULL_LENGTH", False)
    config = SimpleNamespace(
        args=arguments, invocation_params=SimpleNamespace(dir=ROOT), getoption=options.get
    )  # fmt: skip
    assert budget.is_whole(config) == whole


def test_counts_of_several_processes_add_up():
    plugin = object.__new__(budget.Budget)
    plugin.counts = Counter()
    for n in (2, 3):
        node = SimpleNamespace(workeroutput={"budget": [("evaluations", "tests/a", n)]})
        plugin.pytest_testnodedown(node, None)
    plugin.pytest_testnodedown(SimpleNamespace(), "a process that ended early")
    assert plugin.counts == {("evaluations", "tests/a"): 5}


def test_without_java_the_tests_on_pyspark_are_named_and_ci_fails(monkeypatch, capsys):
    ended = []
    monkeypatch.setenv("JAVA", "")
    monkeypatch.setattr(
        parts, "run", lambda name, *_: ended.append(name) or side_by_side.Ended(name, False, "3 passed")
    )
    monkeypatch.setattr(parts, "left_out_without_java", lambda _: Counter({"tests/spark/test_plan.py": 3}))
    monkeypatch.setattr(sys, "argv", ["parts"])
    for ci, code in ((False, 0), (True, 1)):
        monkeypatch.setenv("CI", "true") if ci else monkeypatch.delenv("CI", raising=False)
        assert parts.main() == code
    said = capsys.readouterr().out
    assert set(ended) == {"Sail", "metrics", "others"}
    assert "LEFT OUT: 3 tests of tests/spark/test_plan.py on PySpark" in said
    assert "LEFT OUT: 3 tests that run on PySpark, because no 'java' was found" in said


def test_names_choose_parts(monkeypatch, capsys):
    ended = {}
    monkeypatch.setenv("JAVA", "java")
    monkeypatch.setattr(
        parts, "run", lambda name, *options: ended.update({name: options}) or side_by_side.Ended(name, False, "")
    )
    monkeypatch.setattr(sys, "argv", ["parts", "--all", "Sail"])
    assert parts.main() == 0
    assert ended == {"Sail": (parts.SAIL, "--platform=sail", "tests/spark")}
    monkeypatch.setattr(sys, "argv", ["parts", "Spark"])
    with pytest.raises(SystemExit):
        parts.main()
    assert "unknown part 'Spark'; available: PySpark, Sail, metrics, others" in capsys.readouterr().err
