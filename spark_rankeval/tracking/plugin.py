"""The evaluator that ``mlflow.models.evaluate(…, evaluators="spark_rankeval")`` finds by its entry point."""

from __future__ import annotations

import inspect
import math
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_rankeval.checks import check_extra
from spark_rankeval.errors import InputError, OptionError, did_you_mean
from spark_rankeval.evaluation.evaluate import evaluate
from spark_rankeval.evaluation.result import Result
from spark_rankeval.tracking.datasets import WHOLE_TABLE
from spark_rankeval.tracking.metric_names import figures_of, names_of
from spark_rankeval.tracking.run_figures import log_figures, slash_of

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.models import EvaluationArtifact, EvaluationResult

MODEL_TYPE = "ranking"
_REPORT = "report"
_LABELS, _METRICS = "labels", "metrics"


class TableEvaluator:
    """An evaluator of MLflow for ``model_type="ranking"`` that evaluates a whole table of Spark, as `evaluate` does.

    The data must be a `ranking_dataset`. ``evaluator_config`` takes the arguments of `evaluate` except ``predictions`` and ``model``,
    and ``report``: False leaves out the report, which needs the extra ``report``. The run gets the metrics under the names that jobs
    use, such as ``ndcg_at_10``, the tables as inputs, and ``summary.csv``, ``result.json`` and ``report.html`` as artifacts.

    MLflow makes it without arguments, and needs no base class of its own.
    """

    @classmethod
    def can_evaluate(cls, *, model_type: str | None, evaluator_config: Mapping[str, Any] | None, **_: Any) -> bool:
        """Whether the evaluator is one for such models."""
        return model_type == MODEL_TYPE

    def evaluate(
        self,
        *,
        model_type: str,
        dataset: Any,
        run_id: str,
        evaluator_config: Mapping[str, Any],
        model: Any = None,
        extra_metrics: Any = None,
        custom_artifacts: Any = None,
        model_id: str | None = None,
        **_: Any,
    ) -> EvaluationResult:
        """Evaluate the table, log what it gives to the run, and return it.

        Raises:
            InputError: the data is no `ranking_dataset`.
            OptionError: `evaluator_config` has an unknown option, or there is an argument that only MLflow's own evaluators take.
        """
        unused = {"model": model, "extra_metrics": extra_metrics, "custom_artifacts": custom_artifacts}
        for name in (name for name, value in unused.items() if value is not None):
            msg = f"the evaluator spark_rankeval takes no {name}; leave it out: data has the predictions, evaluator_config the metrics"
            raise OptionError(msg)
        options = _read(evaluator_config)
        with_report = options.pop(_REPORT, True)
        if with_report:
            check_extra("report", "reports (without one, write evaluator_config={'report': False, …})")
        table = getattr(dataset, WHOLE_TABLE, None)
        if table is None:
            msg = (
                "MLflow hands an evaluator at most 10,000 rows of a Spark table. To evaluate the whole table, import ranking_dataset from "
                "spark_rankeval.tracking and pass data=ranking_dataset(predictions)"
            )
            raise InputError(msg)
        result = evaluate(table, options.pop(_LABELS, None), options.pop(_METRICS), **options)
        return _logged(result, run_id, model_id, with_report=with_report)


def _read(config: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `evaluate` in a configuration."""
    names = [name for name in inspect.signature(evaluate).parameters if name not in ("predictions", "model")]
    available = [*names, _REPORT]
    for name in config:
        if name in ("predictions", "model"):
            msg = f"evaluator_config takes no {name!r}: data is the predictions of one model, and each model is a call of its own"
            raise OptionError(msg)
        if name not in available:
            msg = f"evaluator_config has no option {name!r}; {did_you_mean(name, available)}available: {', '.join(available)}"
            raise OptionError(msg)
    if _METRICS not in config:
        msg = "evaluator_config needs metrics, as in {'metrics': ['ndcg@10'], 'labels': labels, 'score': 'score'}"
        raise OptionError(msg)
    return dict(config)


def _logged(result: Result, run_id: str, model_id: str | None, *, with_report: bool) -> EvaluationResult:
    """Log a result of one model to the run, and return it as MLflow has it."""
    from mlflow import MlflowClient  # noqa: PLC0415 # of an extra
    from mlflow.models import EvaluationResult  # noqa: PLC0415 # the same

    client = MlflowClient()
    names = names_of(result.summary, result.columns, slash_of(client.tracking_uri))
    figures = figures_of(result.summary, result.data_quality)
    metrics = {names[figure]: float(value) for figure, value in figures.items() if math.isfinite(value)}
    # With a model, MLflow itself logs what it gets back; logged here as well, the model would have each metric twice.
    own = metrics if model_id is None else {}
    log_figures(client, run_id, own, result.fingerprints, time=int(1000 * time.time()))
    return EvaluationResult(metrics, _artifacts(client, result, run_id, with_report=with_report), run_id)


def _artifacts(
    client: MlflowClient, result: Result, run_id: str, *, with_report: bool
) -> dict[str, EvaluationArtifact]:
    """The tables and the report as artifacts of the run, by name."""
    from mlflow.models.evaluation.artifacts import (  # noqa: PLC0415 # of an extra
        CsvEvaluationArtifact,
        JsonEvaluationArtifact,
        TextEvaluationArtifact,
    )

    place, summary = client.get_run(run_id).info.artifact_uri, result.to_pandas()
    artifacts = {
        "summary": CsvEvaluationArtifact(f"{place}/summary.csv", summary),
        "result": JsonEvaluationArtifact(f"{place}/result.json", result.to_dict()),
    }
    client.log_text(run_id, summary.to_csv(index=False), "summary.csv")
    client.log_text(run_id, result.to_json(), "result.json")
    if with_report:
        with tempfile.TemporaryDirectory() as folder:
            page = result.report(Path(folder, "report.html"))
            client.log_artifact(run_id, str(page))
            artifacts[_REPORT] = TextEvaluationArtifact(f"{place}/report.html", page.read_text(encoding="utf-8"))
    return artifacts
