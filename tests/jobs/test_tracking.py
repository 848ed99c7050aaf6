"""What MLflow gets of a run, read back from a store of files."""

import os
import re
import shutil
import uuid
from types import SimpleNamespace

import pytest
from worlds.summary_rows import QUALITY, row, undefined

from spark_rankeval.jobs import tracking
from spark_rankeval.jobs.config import parse_config
from spark_rankeval.jobs.evaluate import EvaluateConfig
from spark_rankeval.jobs.session import run_job
from spark_rankeval.jobs.tracking import track

SETTINGS = {"predictions": {"path": "p"}, "evaluation": {"metrics": ["ndcg@10"]}, "output": {"path": "s3a://AK:SK@b/o"}}


MANIFEST = {
    "run_id": "r1",
    "attempt": "a1",
    "started": "2026-11-20T06:00:00+00:00",
    "columns": {"ndcg@10": "ndcg_at_10", "my own": "my own"},
}

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


STORES = ["file://{}/mlruns", "sqlite:///{}/runs.db"]


@pytest.fixture
def client(request, tmp_path, monkeypatch):
    """A store of files, or the one that a test is parametrized with."""
    store = getattr(request, "param", STORES[0])
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.chdir(tmp_path)
    from mlflow import MlflowClient

    if store.startswith("sqlite"):
        shutil.copy(request.getfixturevalue("empty_database"), tmp_path / "runs.db")
    return MlflowClient(tracking_uri=store.format(tmp_path))


def tracked(client, rows, manifest=None, **mlflow):
    told = {"experiment": "shop", "tracking_uri": client.tracking_uri, **mlflow}
    config = parse_config(SETTINGS | {"mlflow": told}, EvaluateConfig)
    run = SimpleNamespace(run_id="r1", output=config.output.path, config=config)
    track(run, config, rows, MANIFEST | {"attempt": uuid.uuid4().hex} | (manifest or {}))
    return client.search_runs([client.get_experiment_by_name("shop").experiment_id])


@pytest.mark.parametrize("client", STORES, indirect=True)
def test_one_model_is_one_run(client):
    rows = [
        row(mean=0.3, model="als"), row("my own", 0.2, model="als", definition="rr(x='y')"),
        row(mean=0.1, model="als", slice="country=DE, device='a:b'"),
        undefined("recall@10", model="als"),
    ]  # fmt: skip
    (run,) = tracked(client, rows, {"data_quality": QUALITY.to_dict()}, run_name="monday")
    # A store of files cannot have ndcg_at_10 as a file and as a folder.
    slash = "/" if client.tracking_uri.startswith("sqlite") else "."
    sliced = slash.join(["ndcg_at_10", "country.DE", "device._a_b_-a2b4c68cbe9f"])
    figures = {"ndcg_at_10": 0.3, "my own": 0.2, sliced: 0.1}
    ends = {".ci_low": -0.02, ".ci_high": 0.02}
    expected = figures | {name + end: mean + more for name, mean in figures.items() for end, more in ends.items()}
    expected |= {f"{name}.users": 1200 for name in figures} | {"recall_at_10.users": 0}
    counts = {f"data_quality{slash}{name}": n for name, n in QUALITY.to_dict().items() if n is not None}
    assert run.data.metrics == pytest.approx(expected | counts)
    assert counts[f"data_quality{slash}n_hanging_on_ties"] == 12
    assert counts[f"data_quality{slash}n_duplicate_labels"] == 7
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


@pytest.mark.parametrize("client", STORES, indirect=True)
def test_every_slice_and_label_has_a_name_of_its_own_that_mlflow_takes(client):
    labels = ["a label/with a slash", "a label_with a slash", "Ndcg_AT_10", "ndcg@10", "n" * 400, "n" * 401, "//"]
    labels += ["rr.users", "rr"]
    rows = [row(label, 0.5) for label in labels]
    rows += [row(mean=place / 100, slice=name) for place, name in enumerate(ODD_SLICES, start=1)]
    runs = tracked(client, rows)
    runs = tracked(client, list(reversed(rows)))
    # The same names in every run, and no figure in the place of another.
    assert runs[0].data.metrics == runs[1].data.metrics
    found = runs[0].data.metrics
    assert len(found) == 4 * (len(labels) + len(ODD_SLICES))
    means = {mean for name, mean in found.items() if not re.search(r"\.(ci_low|ci_high|users)(-[0-9a-f]{12})?$", name)}
    assert sorted(means) == pytest.approx(sorted({0.5, *(n / 100 for n in range(1, 22))}))
    assert sum(name.startswith("definition.") for name in runs[0].data.params) == len(labels)
    slash = "/" if client.tracking_uri.startswith("sqlite") else "."
    assert found[slash.join(["ndcg_at_10", "a.b", "c.d"])] == pytest.approx(0.2)


def test_models_of_any_name_and_many_definitions_are_tracked(client):
    names = ["m" * 400, "m" * 399 + "n", "a/b: c"]
    runs = tracked(client, [row(mean=0.1, model=name) for name in names])
    assert len({run.info.run_name for run in runs}) == 4
    assert {run.data.tags["model"] for run in runs if "model" in run.data.tags} == set(names)
    runs = tracked(client, [row(f"ndcg@{k}", 0.1) for k in range(1, 251)])
    run = max(runs, key=lambda run: len(run.data.metrics))
    assert sum(name.startswith("definition.") for name in run.data.params) == 250
    assert (len(run.data.metrics), len(runs)) == (4 * 250, 5)


def test_several_models_are_nested_runs_with_the_same_names_and_their_first_metric_is_in_the_parent(client):
    means = {"als": 0.3, "pop": 0.2}
    rows = [row(name, mean, model=model) for model, mean in means.items() for name in ("ndcg@10", "rr")]
    counts = {model: QUALITY.to_dict() | {"n_hanging_on_ties": n} for n, model in enumerate(means)}
    manifest = {"gates_failed": 1, "data_quality": QUALITY.to_dict(), "data_quality_of_models": counts}
    runs = {run.info.run_name: run for run in tracked(client, rows, manifest)}
    parent = runs.pop("r1")
    slash = "/" if client.tracking_uri.startswith("sqlite") else "."
    assert parent.data.metrics == {f"ndcg_at_10{slash}{model}": mean for model, mean in means.items()}
    assert parent.info.status == "FAILED"
    assert {name: run.data.metrics["ndcg_at_10"] for name, run in runs.items()} == means
    ties = {name: run.data.metrics[f"data_quality{slash}n_hanging_on_ties"] for name, run in runs.items()}
    assert ties == {"als": 0, "pop": 1}
    assert {run.data.tags["mlflow.parentRunId"] for run in runs.values()} == {parent.info.run_id}
    # What the numbers mean stands with them.
    of_all = {"dialect": "default", "ci": "t", "definition.ndcg_at_10": "ndcg@10"}
    assert parent.data.params == of_all
    for name, run in runs.items():
        assert run.data.params == {**of_all, "definition.rr": "rr", "model": name}


def digests_of(run):
    return {each.dataset.name: each.dataset.digest for each in run.inputs.dataset_inputs}


@pytest.mark.parametrize("client", STORES, indirect=True)
def test_tables_are_inputs_with_our_fingerprints_and_metrics_are_of_the_labels(client):
    digests = {"predictions": "1" * 32, "labels": "2" * 32}
    rows = [row(mean=0.3, fingerprints=digests), row("rr", 0.2, fingerprints=digests)]
    model = client.create_logged_model(client.create_experiment("shop"), name="als").model_id
    (logged_run,) = tracked(client, rows, model_id=model)
    run = client.get_run(logged_run.info.run_id)
    assert digests_of(run) == digests
    tags = {(tag.key, tag.value) for each in run.inputs.dataset_inputs for tag in each.tags}
    assert tags == {("mlflow.data.context", "evaluation")}
    assert [each.model_id for each in run.inputs.model_inputs] == [model]
    metrics = client.get_logged_model(model).metrics
    assert {metric.key: metric.value for metric in metrics} == run.data.metrics
    assert {(metric.dataset_name, metric.dataset_digest) for metric in metrics} == {("labels", "2" * 32)}


def test_predictions_of_several_models_are_inputs_of_the_run_around_theirs(client):
    labels = {"labels": "3" * 32}
    rows = [row(model=name, fingerprints={"predictions": name * 8, **labels}) for name in ("als_", "pop_")]
    assert {run.info.run_name: digests_of(run) for run in tracked(client, rows)} == {
        "r1": {"predictions of als_": "als_" * 8, "predictions of pop_": "pop_" * 8, **labels},
        "als_": {"predictions": "als_" * 8, **labels},
        "pop_": {"predictions": "pop_" * 8, **labels},
    }


def test_an_attempt_that_is_logged_again_replaces_what_was_there(client):
    rows = [row(mean=mean, model=model) for model, mean in (("als", 0.3), ("pop", 0.2))]
    for _ in range(2):
        assert len(tracked(client, rows, {"attempt": "a1"})) == 3
    assert len(tracked(client, rows, {"attempt": "a2"})) == 6


def logged(uri):
    """The exit code of a run that is logged to a server."""
    config = parse_config(SETTINGS | {"mlflow": {"experiment": "shop", "tracking_uri": uri}}, EvaluateConfig)
    run = SimpleNamespace(run_id="r1", output="o", config=config)
    return run_job("evaluate", lambda: track(run, config, [row()], MANIFEST))


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("http://reader:hunter2@localhost:1", "are complete, but MLflow at http://***@localhost:1 did not take"),
        ("file://{}/mlruns", "MLFLOW_ALLOW_FILE_STORE=true"),
        ("nowhere://reader:hunter2@x", "nsupported"),
    ],
)  # fmt: skip
def test_a_server_that_does_not_take_a_run_is_6_and_one_line_says_how_to_log_it_later(
    uri, said, tmp_path, monkeypatch, capsys
):
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    assert logged(uri.format(tmp_path)) == 6
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(
        "evaluate: tracking failed: the tables and the manifest of run r1 are complete, but MLflow at "
    )
    assert line.endswith("; start the job again with --only-mlflow to log the run later")
    assert said in line
    assert "hunter2" not in line


def test_settings_of_mlflow_are_for_its_calls_alone_and_what_is_set_stands(monkeypatch):
    seen = []
    monkeypatch.setattr(tracking, "_log_run", lambda *_: seen.append(dict(os.environ)))
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_TIMEOUT", raising=False)
    assert logged("http://localhost:1") == 0
    assert (seen[0]["MLFLOW_HTTP_REQUEST_TIMEOUT"], seen[0]["MLFLOW_HTTP_REQUEST_MAX_RETRIES"]) == ("20", "0")
    # It would print to stdout, and draw a bar.
    assert seen[0]["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] == "true"
    assert seen[0]["MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"] == "false"
    assert "MLFLOW_HTTP_REQUEST_TIMEOUT" not in os.environ
    assert os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "0"


def test_an_experiment_that_is_deleted_is_named(client, capsys):
    tracked(client, [row()])
    client.delete_experiment(client.get_experiment_by_name("shop").experiment_id)
    assert logged(client.tracking_uri) == 6
    assert "the experiment 'shop' is deleted there" in capsys.readouterr().err
