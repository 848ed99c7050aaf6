"""Metrics of the caller's own in a job: a module that the configuration names."""

import sys

import pytest

from spark_rankeval.errors import ConfigurationError, WorkerError
from spark_rankeval.jobs.config import parse_config
from spark_rankeval.jobs.evaluate import EvaluateConfig
from spark_rankeval.metrics.base import REGISTRY
from spark_rankeval.spark.python_workers import workers_explained

OWN_METRIC = """
from dataclasses import dataclass

from spark_rankeval.metrics import RelevanceMetric, parameter


@dataclass(frozen=True, kw_only=True)
class Fading(RelevanceMetric):
    name = "fading_of_a_job"
    base: float = parameter(0.5, doc="what a hit at rank 1 is worth")

    def _values(self, batch):
        hits = batch.hits(self.threshold)
        return batch.total(hits.user, self.base**hits.rank, hits.rank <= self.k)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of modules; what they define is forgotten after the test."""
    registered, modules = dict(REGISTRY), set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    REGISTRY.clear()
    REGISTRY.update(registered)
    for name in set(sys.modules) - modules:
        if name.partition(".")[0].endswith("_of_a_job"):
            del sys.modules[name]


def config_with(metrics, **module):
    evaluation = {"metrics": metrics, **module}
    return parse_config(
        {"predictions": {"path": "p"}, "evaluation": evaluation, "output": {"path": "o"}}, EvaluateConfig
    )


def test_a_module_has_metrics_of_the_callers_own(folder):
    (folder / "shop_of_a_job").mkdir()
    (folder / "shop_of_a_job" / "metrics.py").write_text(OWN_METRIC)
    config = config_with(["fading_of_a_job(base=0.25)@3"], metrics_from="shop_of_a_job.metrics")
    assert config.own_module == "shop_of_a_job.metrics"
    # A module that only repeats another's metric has one.
    (folder / "names_of_a_job.py").write_text("from shop_of_a_job.metrics import Fading")
    config_with(["fading_of_a_job@3"], metrics_from="names_of_a_job")


@pytest.mark.parametrize(
    ("module", "text", "said"),
    [
        (
            "nowhere.metrics",
            "",
            r"'nowhere\.metrics' cannot be imported \(ModuleNotFoundError: No module named 'nowhere'\); install it",
        ),
        ("broken_of_a_job", "1 / 0", r"'broken_of_a_job' cannot be imported \(ZeroDivisionError: division by zero\)"),
        ("empty_of_a_job", "from spark_rankeval.metrics import NDCG", "'empty_of_a_job' has no metric of its own"),
    ],
)
def test_a_module_without_metrics_is_a_wrong_configuration(folder, module, text, said):
    (folder / f"{module}.py").write_text(text)
    with pytest.raises(ConfigurationError, match=rf"evaluation\.metrics_from: {said}"):
        config_with(["rr"], metrics_from=module)


@pytest.mark.parametrize(("module", "is_named"), [("shop.metrics", True), ("shops", False)])
def test_workers_that_cannot_import_the_module_are_named(module, is_named):
    said = "ModuleNotFoundError: No module named 'shop'"
    with pytest.raises(WorkerError if is_named else RuntimeError) as caught, workers_explained(module):
        raise RuntimeError(said)
    assert is_named == str(caught.value).startswith(f"Spark's Python workers lack {module}; install it where they run")
