"""The task of docs/submitting.md without Airflow: what it makes of the exit code of spark-submit and the status of the run."""

import json
import re
import sys
from types import ModuleType, SimpleNamespace

import pytest
from helpers.documented import ROOT

(EXAMPLE,) = re.findall(r"^```python\n(import json.*?)^```$", (ROOT / "docs/submitting.md").read_text(), re.M | re.S)


# It ends a task that is not tried again.
AirflowFailException = type("AirflowFailException", (Exception,), {})


@pytest.fixture
def run_task(tmp_path, monkeypatch):
    """Runs the task; the command ends with a code, and leaves the exit code of a new attempt in the status if there is one."""
    tasks = []
    sdk = ModuleType("airflow.sdk")
    sdk.dag = lambda **_: lambda build: build
    sdk.task = lambda **_: lambda function: lambda: tasks.append(function)
    exceptions = ModuleType("airflow.sdk.exceptions")
    exceptions.AirflowFailException = AirflowFailException
    for module in (ModuleType("airflow"), sdk, exceptions):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(EXAMPLE.replace("/srv/evaluation", str(tmp_path)), {})
    folder = tmp_path / "output/evaluation/status/run_id=day"
    folder.mkdir(parents=True)
    (folder / "status.json").write_text(json.dumps({"started": "earlier", "exit_code": 0}))

    def run(code, **status):
        def command(*_, **__):
            if status:
                (folder / "status.json").write_text(json.dumps({"started": "now", "error": "why", **status}))
            return SimpleNamespace(returncode=code, stderr="said")

        monkeypatch.setattr("subprocess.run", command)
        return tasks[0]("day")

    return run


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        # On this machine and in client mode.
        (4, {"exit_code": 4}, "exit code 4: why"),
        (2, {}, "exit code 2: said"),
        # In cluster mode.
        (1, {"exit_code": 4}, "exit code 4: why"),
        (0, {"exit_code": 3}, "exit code 3: why"),
    ],
)
def test_a_failed_gate_is_not_tried_again(run_task, code, status, said):
    with pytest.raises(AirflowFailException, match=f"^{said}$"):
        run_task(code, **status)


@pytest.mark.parametrize(
    ("code", "status"), [(1, {"exit_code": 1}), (1, {}), (0, {}), (-9, {"exit_code": None}), (1, {"exit_code": None})]
)
def test_what_may_pass_is_tried_again(run_task, code, status):
    """Also a run that did not begin, whose status is that of an earlier attempt, and a driver that was killed."""
    with pytest.raises(RuntimeError):
        run_task(code, **status)


@pytest.mark.parametrize("code", [0, 6])
def test_a_run_that_succeeded_gives_its_report(run_task, code):
    assert run_task(code, exit_code=0).endswith("/output/evaluation/reports/run_id=day/report.html")
