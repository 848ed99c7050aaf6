"""The examples of docs/submitting.md, each in an environment of its orchestrator, with a gate that is met and one that fails."""

import re

import pytest
import yaml
from helpers.documented import ROOT
from helpers.environments import UV, environment, run

PAGE = (ROOT / "docs" / "submitting.md").read_text()
# Airflow's, and Dagster's.
BLOCKS = re.findall(r"^```python\n(import json.*?|import subprocess.*?)^```$", PAGE, re.M | re.S)
CONFIG = (ROOT / "conf" / "evaluate.toml").read_text()
CHECK = "check-jsonschema==0.39.0"
# The least NDCG, the exit code of the orchestrator's command, and whether the gate is met.
GATES = [(0.05, 0), (0.99, 1)]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with the package in `.venv`, and the tables of the quick start."""
    folder = tmp_path_factory.mktemp("evaluation")
    (wheel,) = (ROOT / "dist").glob("spark_rankeval-*.whl")
    environment(folder, f"spark-rankeval[sail,report] @ {wheel.as_uri()}", name=".venv")
    run(folder / ".venv/bin/python", str(ROOT / "jobs/quickstart.py"), "--engine", "sail", folder=folder)
    (folder / "conf").mkdir()
    return folder


def configure(project, minimum):
    """conf/evaluate.toml with what the page adds; without Java there is another model."""
    (added,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.M | re.S)
    output, gates = added.split("\n\n")
    text = CONFIG.replace("[output] ", f"{output} ", 1).replace("quickstart/als", "quickstart/item_to_item")
    text = f"{text}\n{gates.replace('0.31', str(minimum))}\n[session]\nengine = 'sail'\n"
    (project / "conf/evaluate.toml").write_text(text)


@pytest.fixture(scope="module")
def airflow(project, tmp_path_factory):
    folder = tmp_path_factory.mktemp("airflow")
    environment(folder, f"apache-airflow=={version_of('Airflow')}")
    (folder / "dags").mkdir()
    (folder / "dags/evaluation.py").write_text(BLOCKS[0].replace("/srv/evaluation", str(project)))
    return folder


@pytest.fixture(scope="module")
def dagster(project, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dagster")
    environment(folder, f"dagster=={version_of('Dagster')}")
    (folder / "evaluation.py").write_text(BLOCKS[1].replace("/srv/evaluation", str(project)))
    return folder


def version_of(orchestrator):
    """The version that the page names."""
    return re.search(rf"{orchestrator} (\d[\d.]*\d)", PAGE)[1]


@pytest.mark.parametrize(("minimum", "code"), GATES)
def test_the_task_of_airflow_fails_if_a_gate_does(project, airflow, minimum, code, monkeypatch):
    configure(project, minimum)
    monkeypatch.setenv("AIRFLOW_HOME", str(airflow))
    monkeypatch.setenv("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
    command, day = airflow / "env/bin/airflow", f"2026-11-2{code}"
    run(command, "db", "migrate", folder=airflow)
    ran = run(command, "dags", "test", "evaluation", day, folder=airflow, code=code)
    printed = ran.stdout + ran.stderr
    assert report_of(project, day).exists()
    assert (f"Returned value was: {report_of(project, day)}" in printed) == (code == 0)
    # It has a second and a third try, which would change nothing.
    assert printed.count("exit code 4: ndcg@10 of als: mean at least 0.99; found ") == code
    assert "UP_FOR_RETRY" not in printed.upper()


@pytest.mark.parametrize(("minimum", "code"), GATES)
def test_the_check_of_the_asset_of_dagster_fails_if_a_gate_does(project, dagster, minimum, code, monkeypatch):
    configure(project, minimum)
    monkeypatch.setenv("DAGSTER_HOME", str(dagster))
    day = f"2026-11-1{code}"
    select = ("-f", "evaluation.py", "--select", "evaluation", "--partition", day)
    ran = run(dagster / "env/bin/dagster", "asset", "materialize", *select, folder=dagster, code=code)
    assert report_of(project, day).exists()
    assert f"Asset check 'gates' on 'evaluation' {'did not pass' if code else 'passed'}." in ran.stdout + ran.stderr


@pytest.mark.parametrize(("minimum", "code"), [(0.05, 0), (0.99, 4)])
def test_the_workflow_of_github_is_one_and_its_command_ends_with_the_code_of_the_gate(project, minimum, code):
    configure(project, minimum)
    (text,) = re.findall(r"^```yaml\n(on:.*?)^```$", PAGE, re.M | re.S)
    (project / "workflow.yml").write_text(text)
    schema = ("--builtin-schema", "vendor.github-workflows")
    run(UV, "tool", "run", "--from", CHECK, "check-jsonschema", *schema, "workflow.yml", folder=project)
    steps = yaml.safe_load(text)["jobs"]["evaluate"]["steps"]
    (command,) = [step["run"] for step in steps if step.get("run", "").startswith("spark-rankeval")]
    named = command.replace("$(date -u +%F)", "by-github")
    run(project / ".venv/bin/spark-rankeval", *named.split()[1:], folder=project, code=code)
    assert report_of(project, "by-github").exists()


def report_of(project, day):
    return project / f"output/evaluation/reports/run_id={day}/report.html"
