"""What MLflow gets of a job's run, read back from its stores; and the evaluator of whole tables that MLflow finds.

mlflow-skinny lacks matplotlib, which MLflow imports with its own evaluators and does not use here. `tests/orchestrators/test_mlflow.py`
runs the example of docs/coming_from.md with all of MLflow.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from worlds.summary_rows import QUALITY, row, undefined

from spark_rankeval import evaluate
from spark_rankeval.errors import InputError, MissingExtraError, OptionError, TrackingError
from spark_rankeval.jobs import evaluate_run
from spark_rankeval.jobs.command import run_job
from spark_rankeval.jobs.config import EventLog, parse_config
from spark_rankeval.jobs.evaluate import EvaluateConfig
from spark_rankeval.jobs.outputs import Run
from spark_rankeval.tracking import ranking_dataset
from spark_rankeval.tracking.mlflow import TableEvaluator

ROOT = Path(__file__).parents[2]
# SQLAlchemy warns of what MLflow's tables use, and MLflow of what its evaluators import.
pytestmark = pytest.mark.filterwarnings("ignore")
N_USERS, N_HITS = 12_000, 3_000
SETTINGS = {"predictions": {"path": "p"}, "evaluation": {"metrics": ["ndcg@10"]}, "output": {"path": "s3a://AK:SK@b/o"}}


MANIFEST = {
    "run_id": "r1",
    "started": "2026-11-20T06:00:00+00:00",
    "columns": {"ndcg@10": "ndcg_at_10", "my own": "my own"},
}


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


def run_of(config, *, is_on_disk=False):
    return Run(None, "evaluate", config, {}, EventLog("evaluate"), "r1", is_on_disk=is_on_disk)


def tracked(client, rows, manifest=None, *, settings=SETTINGS, is_on_disk=False, **mlflow):
    told = {"experiment": "shop", "tracking_uri": client.tracking_uri, **mlflow}
    config = parse_config(settings | {"mlflow": told}, EvaluateConfig)
    run = run_of(config, is_on_disk=is_on_disk)
    evaluate_run.TrackedRun(run, config, config.mlflow, rows, MANIFEST | (manifest or {})).track()
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
    runs = [*tracked(client, rows), *tracked(client, list(reversed(rows)))]
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
    (run,) = tracked(client, [row(f"ndcg@{k}", 0.1) for k in range(1, 251)])
    assert sum(name.startswith("definition.") for name in run.data.params) == 250
    assert len(run.data.metrics) == 4 * 250


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


ON_DISK = {**SETTINGS, "output": {"path": "out"}}


@pytest.mark.parametrize("client", STORES, indirect=True)
def test_a_run_takes_the_place_of_the_earlier_one_of_its_name_and_folder(client, tmp_path, monkeypatch):
    rows = [row(mean=mean, model=model) for model, mean in (("als", 0.3), ("pop", 0.2))]
    # Two projects with one relative path, and a folder elsewhere, are other runs.
    for number, name in enumerate(("a", "b"), start=1):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        assert len(tracked(client, rows, settings=ON_DISK, is_on_disk=True)) == 3 * number
    before = {run.info.run_id for run in tracked(client, rows)}
    monkeypatch.chdir(tmp_path / "a")
    after = {run.info.run_id for run in tracked(client, rows, {"gates_failed": 1}, settings=ON_DISK, is_on_disk=True)}
    assert (len(before), len(after), len(before & after)) == (9, 9, 6)
    # A run of which MLflow does not take everything leaves the earlier one.
    with monkeypatch.context() as patched:
        patched.setattr("mlflow.MlflowClient.log_text", MagicMock(side_effect=OSError("the disk is full")))
        with pytest.raises(TrackingError):
            tracked(client, rows, settings=ON_DISK, is_on_disk=True)
    (experiment,) = [each for each in client.search_experiments() if each.name == "shop"]
    assert after < {run.info.run_id for run in client.search_runs([experiment.experiment_id])}
    assert len(tracked(client, rows, settings=ON_DISK, is_on_disk=True)) == 9


PLACES = [
    (
        SETTINGS | {"labels": {"path": ["l/1", "s3a://AK:SK@b/l"]}},
        {"predictions": '{"path": "p"}', "labels": '{"path": "l/1, s3a://***@b/l"}'},
    ),
    (SETTINGS | {"predictions": {"table": "shop.served"}}, {"predictions": '{"table_name": "shop.served"}'}),
    (
        SETTINGS | {"predictions": {"format": "jdbc", "options": {"url": "jdbc:x", "dbtable": "t"}}},
        {"predictions": '{"tags": {}}'},
    ),
    (
        SETTINGS | {"split": {"log": {"path": "log"}, "cut": 7}},
        {"labels": '{"path": "log"}', "exclude": '{"path": "log"}'},
    ),
]


@pytest.mark.parametrize(("settings", "places"), PLACES)
def test_a_table_has_its_place_as_source(client, settings, places):
    (run,) = tracked(client, [row(fingerprints=dict.fromkeys(places, "1" * 32))], settings=settings)
    found = {each.dataset.name: each.dataset for each in run.inputs.dataset_inputs}
    assert {name: dataset.source for name, dataset in found.items()} == places
    kinds = {name: "code" if "tags" in place else "spark" for name, place in places.items()}
    assert {name: dataset.source_type for name, dataset in found.items()} == kinds


VECTORS = {"users": {"path": "u"}, "items": {"path": "i"}}
SEVERAL = {name: section for name, section in SETTINGS.items() if name != "predictions"} | {"labels": {"path": "l"}}


def test_each_of_several_models_has_its_own_source_and_logged_model(client):
    experiment = client.create_experiment("shop")
    ids = {
        name: client.create_logged_model(experiment, name=name.replace(".", "_")).model_id
        for name in ("als", "two.towers")
    }
    rows = [row(model=name, fingerprints={"predictions": name * 3, "labels": "1"}) for name in (*ids, "pop")]
    settings = SEVERAL | {"models": {"als": {"path": "a"}, "two.towers": VECTORS, "pop": {"path": "p"}}}
    runs = {run.info.run_name: run for run in tracked(client, rows, settings=settings, model_id=ids)}
    assert {name: [each.model_id for each in run.inputs.model_inputs] for name, run in runs.items()} == {
        "r1": [], "pop": [], **{name: [own] for name, own in ids.items()},
    }  # fmt: skip
    assert {name: sources_of(run) for name, run in runs.items()} == {
        "r1": {
            "predictions of als": "a",
            "predictions of two.towers": "u, i",
            "predictions of pop": "p",
            "labels": "l",
        },
        "als": {"predictions": "a", "labels": "l"},
        "two.towers": {"predictions": "u, i", "labels": "l"},
        "pop": {"predictions": "p", "labels": "l"},
    }
    of_one_table = SETTINGS | {"columns": {"model": "model"}}
    # MLflow keeps the first place of a dataset of one digest.
    rows = [replace(each, fingerprints={"predictions": each.model * 2}) for each in rows]
    runs = {run.info.run_name: run for run in tracked(client, rows, settings=of_one_table, run_name="column")}
    assert sources_of(runs["column"])["predictions of als"] == "p"
    with pytest.raises(
        TrackingError, match=r"mlflow.model_id: the run has no model 'asl'; it has: 'als', 'two.towers'"
    ):
        tracked(client, rows, settings=settings, model_id={"asl": "m-1"})


def sources_of(run):
    return {each.dataset.name: json.loads(each.dataset.source).get("path") for each in run.inputs.dataset_inputs}


def logged(uri):
    """The exit code of a run that is logged to a server."""
    config = parse_config(SETTINGS | {"mlflow": {"experiment": "shop", "tracking_uri": uri}}, EvaluateConfig)
    run = run_of(config, is_on_disk=True)
    return run_job("evaluate", evaluate_run.TrackedRun(run, config, config.mlflow, [row()], MANIFEST).track)


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
    monkeypatch.setattr(evaluate_run.TrackedRun, "log", lambda *_: seen.append(dict(os.environ)))
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


# --- the evaluator of whole tables


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory):
    """MLflow with a new store and this evaluator."""
    folder = tmp_path_factory.mktemp("mlflow")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        patched.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        patched.chdir(folder)
        for name in {"matplotlib", "matplotlib.pyplot", "matplotlib.figure"} - set(sys.modules):
            patched.setitem(sys.modules, name, MagicMock())
        # Without a file of the main module, as in a process of xdist, PySpark's client takes the tests for doctests, and exits.
        patched.setattr(sys.modules["__main__"], "__file__", __file__, raising=False)
        mlflow = import_module("mlflow")
        registry = import_module("mlflow.models.evaluation.evaluator_registry")._model_evaluation_registry
        patched.setitem(registry._registry, "spark_rankeval", TableEvaluator)
        mlflow.set_tracking_uri(f"file://{folder}/mlruns")
        mlflow.set_experiment("shop")
        yield mlflow
        mlflow.set_tracking_uri(None)


@pytest.fixture(scope="module")
def predictions(spark):
    """More rows than MLflow hands over."""
    return spark.sql(f"SELECT int(id) AS user, 'a' AS item, 1.0D AS score FROM range({N_USERS})")


@pytest.fixture(scope="module")
def labels(spark):
    return spark.sql(f"SELECT int(id) AS user, if(id < {N_HITS}, 'a', 'b') AS item FROM range({N_USERS})")


def evaluated(mlflow, data, config, **others):
    return mlflow.models.evaluate(
        data=data, model_type="ranking", evaluators="spark_rankeval", evaluator_config=config, **others
    )


def test_the_whole_table_is_evaluated_and_its_figures_tables_and_report_are_in_the_run(mlflow, predictions, labels):
    data = ranking_dataset(predictions, "test users")
    found = evaluated(mlflow, data, {"metrics": "recall@1", "labels": labels, "score": "score"})
    expected = evaluate(predictions, labels, "recall@1", score="score")
    assert found.metrics["recall_at_1"] == expected["recall@1"] == N_HITS / N_USERS
    assert found.metrics["recall_at_1.users"] == found.metrics["data_quality.n_users"] == N_USERS
    run = mlflow.get_run(found.run_id)
    assert run.data.metrics == found.metrics
    assert digests_of(run) == {"test users": data.digest, **expected.fingerprints}
    profiles = {each.dataset.name: each.dataset.profile for each in run.inputs.dataset_inputs}
    assert json.loads(profiles["test users"]) == {"num_rows": N_USERS}
    artifacts = {name: mlflow.artifacts.load_text(each.uri) for name, each in found.artifacts.items()}
    assert artifacts["summary"] == expected.to_pandas().to_csv(index=False)
    assert json.loads(artifacts["result"]) == expected.to_dict() == found.artifacts["result"].content
    assert artifacts["report"].startswith("<!DOCTYPE html>")


def test_a_model_gets_each_metric_once_with_the_dataset(mlflow, predictions, labels):
    model = mlflow.create_external_model(name="als").model_id
    data = ranking_dataset(predictions, digest="0" * 36)
    assert data.profile is None
    config = {"metrics": "recall@1", "labels": labels, "score": "score", "report": False}
    found = evaluated(mlflow, data, config, model_id=model)
    assert sorted(found.artifacts) == ["result", "summary"]
    metrics = mlflow.get_logged_model(model).metrics
    assert {metric.key: metric.value for metric in metrics} == found.metrics
    assert len(metrics) == len(found.metrics)
    assert {(metric.dataset_name, metric.dataset_digest) for metric in metrics} == {("recommendations", "0" * 36)}
    assert mlflow.get_run(found.run_id).data.metrics == found.metrics


def test_a_table_of_which_mlflow_hands_over_10_000_rows_is_refused_with_the_line_that_works(mlflow, predictions):
    rows = predictions.limit(5).toPandas()
    with pytest.raises(InputError, match=r"at most 10,000 rows .* pass data=ranking_dataset\(predictions\)$"):
        evaluated(mlflow, rows, {"metrics": "rr"})


@pytest.mark.parametrize(("config", "others", "said"), [
    ({"metric": "rr"}, {}, r"no option 'metric'; did you mean 'metrics'\? available: labels, metrics, user"),
    ({"metrics": "rr", "scor": "score"}, {}, r"no option 'scor'; did you mean 'score'"),
    ({"labels": "db.labels"}, {}, "needs metrics, as in"),
    ({"metrics": "rr", "model": "model"}, {}, "no 'model': data is the predictions of one model"),
    # What only other evaluators take.
    *(({"metrics": "rr"}, {unused: [1]}, f"takes no {unused}; leave it out")
      for unused in ("model", "extra_metrics", "custom_artifacts")),
    # A report needs its packages before anything is evaluated.
    ({"metrics": "rr"}, {}, r"without one, write evaluator_config=\{'report': False, …\}"),
])  # fmt: skip
def test_a_wrong_configuration_is_refused(monkeypatch, config, others, said):
    monkeypatch.setattr("spark_rankeval.checks.find_spec", lambda name: None)
    with pytest.raises((OptionError, MissingExtraError), match=said):
        TableEvaluator().evaluate(model_type="ranking", dataset=None, run_id="r", evaluator_config=config, **others)


def test_it_is_an_evaluator_of_rankings_alone():
    models = ("ranking", "retriever", None)
    can = [TableEvaluator.can_evaluate(model_type=kind, evaluator_config={}) for kind in models]
    assert can == [True, False, False]


def test_the_digest_is_one_of_all_rows_and_columns_in_any_order(mlflow, spark):
    def digest(sql):
        return ranking_dataset(spark.sql(f"SELECT * FROM VALUES {sql}")).digest

    first = digest("(1, 'a', array(1.0D)), (2, 'b', null) AS t(user, item, vector)")
    assert first == digest("('b', null, 2), ('a', array(1.0D), 1) AS t(item, vector, user)")
    others = [digest(f"(1, 'a', array(1.0D)){more} AS t(user, item, vector)")
              for more in ("", ", (2, 'b', array(1.0D))", ", (2, 'c', null)")]  # fmt: skip
    assert len({first, *others}) == 4
    assert {len(each) for each in others} == {32}
    with pytest.raises(InputError, match="column 'facts' has maps, which have no hash; select the columns to evaluate"):
        ranking_dataset(spark.sql("SELECT 1 AS user, map('a', 1) AS facts"))


def test_the_entry_point_is_the_evaluator_and_nothing_imports_mlflow_before_it_is_used():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["mlflow.model_evaluator"]["spark_rankeval"].partition(":")
    code = f"import sys, spark_rankeval.tracking, {module} as plugin; plugin.{name}(); print('mlflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
