"""The evaluator of whole tables that MLflow finds, with a store of files.

mlflow-skinny lacks matplotlib, which MLflow imports with its own evaluators and does not use here. `tests/orchestrators/test_mlflow.py`
runs the example of docs/mlflow.md with all of MLflow.
"""

import json
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from spark_rankeval import evaluate
from spark_rankeval.errors import InputError, MissingExtraError, OptionError
from spark_rankeval.tracking import ranking_dataset
from spark_rankeval.tracking.plugin import TableEvaluator

ROOT = Path(__file__).parents[2]
# SQLAlchemy warns of what MLflow's tables use, and MLflow of what its evaluators import.
pytestmark = pytest.mark.filterwarnings("ignore")
N_USERS, N_HITS = 12_000, 3_000


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


def inputs_of(run):
    return {each.dataset.name: each.dataset for each in run.inputs.dataset_inputs}


def test_the_whole_table_is_evaluated_and_its_figures_tables_and_report_are_in_the_run(mlflow, predictions, labels):
    data = ranking_dataset(predictions, "test users")
    found = evaluated(mlflow, data, {"metrics": "recall@1", "labels": labels, "score": "score"})
    expected = evaluate(predictions, labels, "recall@1", score="score")
    assert found.metrics["recall_at_1"] == expected["recall@1"] == N_HITS / N_USERS
    assert found.metrics["recall_at_1.users"] == found.metrics["data_quality.n_users"] == N_USERS
    run = mlflow.get_run(found.run_id)
    assert run.data.metrics == found.metrics
    inputs = inputs_of(run)
    assert {name: each.digest for name, each in inputs.items()} == {"test users": data.digest, **expected.fingerprints}
    assert json.loads(inputs["test users"].profile) == {"num_rows": N_USERS}
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
