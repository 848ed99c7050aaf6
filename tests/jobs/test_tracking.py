"""What MLflow gets of a run, read back from a store of files."""

import os
import shutil
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from worlds.summary_rows import QUALITY, row, undefined

from spark_rankeval.errors import ConfigurationError, MissingExtraError
from spark_rankeval.evaluation.result import Result
from spark_rankeval.jobs import evaluate, tracking
from spark_rankeval.jobs.config import parse_config
from spark_rankeval.jobs.evaluate import EvaluateConfig
from spark_rankeval.jobs.session import run_job
from spark_rankeval.jobs.tracking import reach, track

SETTINGS = {"predictions": {"path": "p"}, "evaluation": {"metrics": ["ndcg@10"]}, "output": {"path": "s3a://AK:SK@b/o"}}


# SQLAlchemy warns of what MLflow's tables use.
pytestmark = pytest.mark.filterwarnings("ignore:::sqlalchemy", "ignore:The ``noload`` loader")


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory):
    """A database with MLflow's tables and nothing in them, which takes seconds to make."""
    from mlflow import MlflowClient

    file = tmp_path_factory.mktemp("mlflow") / "runs.db"
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(file.parent)
        patched.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        MlflowClient(tracking_uri=f"sqlite:///{file}").search_experiments()
    return file


@pytest.fixture(params=["sqlite:///{}/runs.db", "file://{}/mlruns"])
def client(request, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.chdir(tmp_path)
    from mlflow import MlflowClient

    if request.param.startswith("sqlite"):
        shutil.copy(request.getfixturevalue("empty_database"), tmp_path / "runs.db")
    return MlflowClient(tracking_uri=request.param.format(tmp_path))


def tracked(client, rows, manifest=None, **mlflow):
    told = {"experiment": "shop", "tracking_uri": client.tracking_uri, **mlflow}
    config = parse_config(SETTINGS | {"mlflow": told}, EvaluateConfig)
    run = SimpleNamespace(run_id="r1", started=datetime.now(UTC), output=config.output.path, config=config)
    columns = {"ndcg@10": "ndcg_at_10", "my own": "my own"}
    qualities = {one.model: QUALITY for one in rows}
    track(run, config, Result(tuple(rows), qualities, columns, (), lambda: None, None), manifest or {"run_id": "r1"})
    return client.search_runs([client.get_experiment_by_name("shop").experiment_id])


def test_one_model_is_one_run(client):
    rows = [
        row(mean=0.3, model="als"), row("my own", 0.2, model="als", definition="rr(x='y')"),
        row(mean=0.1, model="als", slice="country=DE, device='a:b'"),
        undefined("recall@10", model="als"),
    ]  # fmt: skip
    (run,) = tracked(client, rows, run_name="monday")
    # A store of files cannot have ndcg_at_10 as a file and as a folder.
    slash = "/" if client.tracking_uri.startswith("sqlite") else "."
    assert run.data.metrics == pytest.approx({
        "ndcg_at_10": 0.3, "ndcg_at_10.ci_low": 0.28, "ndcg_at_10.ci_high": 0.32, "ndcg_at_10.users": 1200,
        "my own": 0.2, "my own.ci_low": 0.18, "my own.ci_high": 0.22, "my own.users": 1200,
        slash.join(["ndcg_at_10", "country.DE", "device._a_b_-a2b4c68cbe9f"]): 0.1, "recall_at_10.users": 0,
    })  # fmt: skip
    assert run.data.params["model"] == "als"
    assert run.data.params["definition.my own"] == "rr(x='y')"
    assert (run.info.run_name, run.info.status) == ("monday", "FINISHED")
    assert run.data.tags["spark_rankeval.run_id"] == "r1"
    # Secrets of paths are hidden.
    assert run.data.tags["spark_rankeval.output"] == "s3a://***@b/o"
    assert [file.path for file in client.list_artifacts(run.info.run_id)] == ["manifest.json"]


ODD_SLICES = [
    "genre=Action/Comedy", "genre=Action_Comedy", "genre=Action?Comedy", "genre=Action!Comedy", "path=/a//b/", "path=../..",
    "path=.", "path=", "path= ", "city=Köln", "city=Koln", "city=köln", "city=東京", "text=" + "x" * 1000,
    "text=" + "x" * 999, "text=" + "東" * 300, "line=a\nb", "a.b=c", "a=b.c", "a=b, c=d", "a=b, c.d=",
]  # fmt: skip


def test_every_slice_and_label_has_a_name_of_its_own_that_mlflow_takes(client):
    labels = [
        "a label/with a slash",
        "a label_with a slash",
        "Ndcg_AT_10",
        "ndcg@10",
        "n" * 400,
        "n" * 401,
        "//",
        "rr.users",
        "rr",
    ]
    rows = [row(label, 0.5) for label in labels]
    rows += [row(mean=place / 100, slice=name) for place, name in enumerate(ODD_SLICES, start=1)]
    runs = tracked(client, rows)
    runs = tracked(client, list(reversed(rows)))
    # The same names in every run, and no figure in the place of another.
    assert runs[0].data.metrics == runs[1].data.metrics
    found = runs[0].data.metrics
    assert len(found) == 4 * len(labels) + len(ODD_SLICES)
    assert sorted(set(found.values())) == pytest.approx(
        sorted({0.48, 0.5, 0.52, 1200, *(n / 100 for n in range(1, 22))})
    )
    assert sum(name.startswith("definition.") for name in runs[0].data.params) == len(labels)
    slash = "/" if client.tracking_uri.startswith("sqlite") else "."
    assert found[slash.join(["ndcg_at_10", "a.b", "c.d"])] == pytest.approx(0.2)


def test_models_of_any_name_are_tracked(client):
    names = ["m" * 400, "m" * 399 + "n", "a/b: c"]
    runs = tracked(client, [row(mean=0.1, model=name) for name in names])
    assert len({run.info.run_name for run in runs}) == 4
    assert {run.data.tags["model"] for run in runs if "model" in run.data.tags} == set(names)


@pytest.mark.parametrize("wrong", [{"experiment": "e" * 501}, {"run_name": "r" * 251}])
def test_names_that_mlflow_does_not_take_are_a_wrong_configuration(wrong):
    with pytest.raises(ConfigurationError, match=rf"mlflow.{next(iter(wrong))} must have 1 to"):
        parse_config(SETTINGS | {"mlflow": wrong}, EvaluateConfig)


def test_several_models_are_nested_runs_with_the_same_names(client):
    rows = [row(mean=mean, model=model) for model, mean in (("als", 0.3), ("pop", 0.2))]
    runs = {run.info.run_name: run for run in tracked(client, rows, {"gates_failed": 1})}
    parent = runs.pop("r1")
    assert (parent.data.metrics, parent.info.status) == ({}, "FAILED")
    assert {name: run.data.metrics["ndcg_at_10"] for name, run in runs.items()} == {"als": 0.3, "pop": 0.2}
    assert {run.data.tags["mlflow.parentRunId"] for run in runs.values()} == {parent.info.run_id}


def test_many_definitions_and_runs_of_one_experiment(client):
    rows = [row(f"ndcg@{k}", 0.1) for k in range(1, 251)]
    (run,) = tracked(client, rows)
    assert sum(name.startswith("definition.") for name in run.data.params) == 250
    assert len(run.data.metrics) == 4 * 250
    assert len(tracked(client, rows[:1])) == 2


@pytest.fixture
def nowhere(monkeypatch):
    """A configuration with a server that nobody runs, and a secret in its address."""
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    told = {"experiment": "shop", "tracking_uri": "http://reader:hunter2@localhost:1"}
    return parse_config(SETTINGS | {"mlflow": told}, EvaluateConfig)


def test_a_server_that_does_not_answer_is_a_wrong_configuration(nowhere):
    with pytest.raises(ConfigurationError) as caught:
        reach(nowhere)
    said = str(caught.value)
    assert said.startswith("[mlflow] MLflow at http://***@localhost:1 cannot be used: ")
    assert "hunter2" not in said
    assert "\n" not in said


def test_a_kind_of_store_that_mlflow_does_not_know_is_a_wrong_configuration():
    told = {"experiment": "shop", "tracking_uri": "nowhere://reader:hunter2@x"}
    with pytest.raises(
        ConfigurationError, match=r"^\[mlflow\] MLflow at nowhere://\*\*\*@x cannot be used: .*unsupported"
    ):
        reach(parse_config(SETTINGS | {"mlflow": told}, EvaluateConfig))


def test_little_patience_is_for_the_first_contact_alone_and_what_is_set_stands(nowhere, monkeypatch):
    seen = []
    monkeypatch.setattr(tracking, "_experiment", lambda *_: seen.append(dict(os.environ)))
    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_TIMEOUT", raising=False)
    reach(nowhere)
    assert (seen[0]["MLFLOW_HTTP_REQUEST_TIMEOUT"], seen[0]["MLFLOW_HTTP_REQUEST_MAX_RETRIES"]) == ("10", "0")
    assert "MLFLOW_HTTP_REQUEST_TIMEOUT" not in os.environ
    assert os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "0"


def test_the_first_contact_makes_the_experiment_once_and_names_a_deleted_one(client):
    config = parse_config(
        SETTINGS | {"mlflow": {"experiment": "shop", "tracking_uri": client.tracking_uri}}, EvaluateConfig
    )
    reach(config)
    reach(config)
    client.delete_experiment(client.get_experiment_by_name("shop").experiment_id)
    with pytest.raises(ConfigurationError, match="the experiment 'shop' is deleted there"):
        reach(config)


def test_a_server_that_is_lost_later_leaves_whole_tables_and_says_so(nowhere, capsys):
    run = SimpleNamespace(run_id="r1", started=datetime.now(UTC), output="o", config=nowhere)
    result = Result((row(),), {}, {}, (), lambda: None, None)
    assert run_job("evaluate", lambda: track(run, nowhere, result, {})) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        "evaluate: tracking failed: the tables and the manifest of run r1 are complete, but MLflow at http://***@"
    )
    assert "hunter2" not in line


def test_a_database_without_its_packages_is_named_with_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("spark_rankeval.checks.find_spec", lambda name: None if name == "sqlalchemy" else name)
    told = {"experiment": "shop", "tracking_uri": f"sqlite:///{tmp_path}/runs.db"}
    config = parse_config(SETTINGS | {"mlflow": told}, EvaluateConfig)
    with pytest.raises(
        MissingExtraError, match=r"databases of MLflow need the package sqlalchemy; .* 'sqlalchemy>=1\.4,<3'"
    ):
        reach(config)


@pytest.mark.parametrize("uri", ["file://{}/mlruns", "nowhere://x"])
def test_a_store_that_mlflow_refuses_is_refused_before_spark_starts(uri, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setattr("spark_rankeval.jobs.command.job_session", lambda *_: pytest.fail("Spark was started"))
    file = tmp_path / "job.toml"
    file.write_text(
        'predictions = {path = "p"}\nevaluation = {metrics = ["rr"]}\noutput = {path = "o"}\n'
        f'mlflow = {{tracking_uri = "{uri.format(tmp_path)}"}}\n'
    )
    assert evaluate.main(["--config", str(file)]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("evaluate: wrong config: [mlflow] MLflow at ")
    assert "MLFLOW_ALLOW_FILE_STORE=true" in said or "unsupported" in said
