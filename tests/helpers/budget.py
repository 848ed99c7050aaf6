"""What a test run may need, in counts that do not depend on the machine: tests/budget.toml.

A plugin counts actions of Spark and evaluations of metrics, folder by folder, and fails a whole run by day that needs more than the budget.
"""

import tomllib
from collections import Counter
from pathlib import Path

import pytest
from helpers.effort import FULL_LENGTH
from helpers.engines import engines_of

FILE = Path(__file__).parents[1] / "budget.toml"
# A run that needs less than this share of a budget asks for a lower one.
MUCH_LESS = 0.85


def complaints(counts, budget):
    """A sentence for each budget that is exceeded, unused or missing; both are numbers by what is counted and folder."""
    said = []
    for kind, folder in sorted(+Counter(counts)):
        needed, allowed = counts[kind, folder], budget.get((kind, folder), 0)
        if needed > allowed:
            said.append(
                f"{folder} needs {needed} {kind} and may need {allowed}: write {needed} into tests/budget.toml, "
                "and save as many elsewhere, or say in the commit why the tests are worth it"
            )
        elif needed < MUCH_LESS * allowed:
            said.append(f"{folder} needs only {needed} {kind} of {allowed}: write {needed} into tests/budget.toml")
    return said


def read_budget():
    """The numbers of tests/budget.toml by what is counted and folder."""
    return {
        (kind, folder): n for kind, folders in tomllib.loads(FILE.read_text()).items() for folder, n in folders.items()
    }


class Budget:
    """The plugin, which `--budget` registers. Processes of pytest-xdist count, and the process that started them adds up."""

    def __init__(self, config):
        self.platform = config.getoption("platform")
        self.actions = None  # a function of the session of Spark
        self.counts, self._before = Counter(), {"actions": 0, "evaluations": 0}
        self._now = dict(self._before)
        self._count_evaluations()

    def _count_evaluations(self):
        from spark_rankeval.metrics.base import Metric

        compute = Metric.compute

        def counted(metric, batch):
            self._now["evaluations"] += 1
            return compute(metric, batch)

        Metric.compute = counted

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item):
        """Count what a test and its fixtures needed while Spark is still there."""
        if self.actions is not None:
            self._now["actions"] = self.actions()
        needed = {kind: n - self._before[kind] for kind, n in self._now.items()}
        self._before = dict(self._now)
        folder = item.path.parent.relative_to(item.config.rootpath).as_posix()
        if folder != "tests/spark":
            self.counts["evaluations", folder] += needed["evaluations"]
        elif self.platform in engines_of(item):
            self.counts[f"actions on {self.platform}", folder] += needed["actions"]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node, error):
        self.counts.update({tuple(key): n for *key, n in getattr(node, "workeroutput", {}).get("budget", [])})

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        config = session.config
        if hasattr(config, "workeroutput"):
            config.workeroutput["budget"] = [(*key, n) for key, n in self.counts.items()]
        elif session.exitstatus == 0 and is_whole(config):
            self.complaints = complaints(self.counts, read_budget())
            session.exitstatus = int(bool(self.complaints))

    def pytest_terminal_summary(self, terminalreporter):
        for (kind, folder), n in sorted((+self.counts).items()):
            terminalreporter.write_line(f"needed: {n} {kind} in {folder}")
        for complaint in getattr(self, "complaints", []):
            terminalreporter.write_line(f"budget: {complaint}", red=True)


def is_whole(config):
    """Whether a run has all tests by day of some folders; of a part of them the budget says nothing."""
    chosen = FULL_LENGTH or any(config.getoption(name, None) for name in ("keyword", "markexpr", "lf"))
    return not chosen and all((config.invocation_params.dir / argument).is_dir() for argument in config.args)
