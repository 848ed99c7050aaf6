"""MLflow: datasets of Spark's tables, names and figures of a run, and an evaluator for ``mlflow.models.evaluate``."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import re
import tempfile
import time
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from spark_rankeval.checks import check_extra, check_table, needs_extra
from spark_rankeval.errors import InputError, OptionError, did_you_mean
from spark_rankeval.evaluation.evaluate import evaluate
from spark_rankeval.evaluation.merge import column_of
from spark_rankeval.evaluation.result import Result
from spark_rankeval.metrics.naming import column_name
from spark_rankeval.records.quality import MEANING, DataQuality
from spark_rankeval.records.summary import SummaryRow
from spark_rankeval.request.call import Table
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.source_tables import table_fingerprint

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.data.dataset_source import DatasetSource
    from mlflow.data.spark_dataset import SparkDataset
    from mlflow.models import EvaluationArtifact, EvaluationResult
    from pyspark.sql import DataFrame


#: The attribute by which MLflow's EvaluationDataset takes the whole table to our evaluator.
WHOLE_TABLE = "spark_rankeval_table"


@takes_local_tables
def ranking_dataset(
    predictions: Table,
    name: str = "recommendations",
    *,
    digest: str | None = None,
    source: DatasetSource | None = None,
) -> SparkDataset:
    """A whole table as ``data`` of ``mlflow.models.evaluate`` with ``evaluators="spark_rankeval"``; no row of it is collected.

    ``mlflow.models.evaluate(data=ranking_dataset(predictions), model_type="ranking", evaluators="spark_rankeval",
    evaluator_config={"metrics": "ndcg@10", "labels": labels, "score": "score"})``

    A DataFrame alone would not do, because MLflow hands over only its first 10,000 rows.

    Examples:
        >>> data = ranking_dataset(predictions)
        >>> data.name, len(data.digest), data.profile
        ('recommendations', 32, {'num_rows': 24})

    Args:
        predictions: what was recommended, as in `evaluate`.
        name: the name of the dataset in MLflow. The tables that were evaluated are inputs of their own, such as ``predictions``.
        digest: a fingerprint that is known, such as ``result.fingerprints["predictions"]``, of at most 36 characters. None: 32 digits
            that change if any row of any column changes. Spark then reads the table once more to add up hashes and rows.
        source: where the table comes from, as MLflow shows it. None: the code that runs.

    Raises:
        InputError: the first argument is no table, or a column has maps, which have no hash.
        MissingExtraError: MLflow is not installed.
    """
    check_table("predictions", predictions)
    with needs_extra("mlflow", "datasets of MLflow"):
        from mlflow.data.code_dataset_source import CodeDatasetSource  # noqa: PLC0415 # of an extra
        from mlflow.tracking.context import registry  # noqa: PLC0415 # the same
    n_rows = None
    if digest is None:
        digest, n_rows = table_fingerprint(predictions)
    dataset: SparkDataset = _class()(
        predictions, source or CodeDatasetSource(registry.resolve_tags()), name, digest, n_rows
    )
    return dataset


@cache
def _class() -> type[Any]:
    """The class of such datasets, made when it is needed: this package loads without MLflow."""
    import pandas as pd  # noqa: PLC0415 # beside what takes longer
    from mlflow.data.evaluation_dataset import EvaluationDataset  # noqa: PLC0415 # of an extra
    from mlflow.data.spark_dataset import SparkDataset  # noqa: PLC0415 # the same

    class RankingDataset(SparkDataset):
        def __init__(self, df: DataFrame, source: DatasetSource, name: str, digest: str, n_rows: int | None) -> None:
            super().__init__(df, source, name=name, digest=digest)
            self._n_rows = n_rows

        @property
        def profile(self) -> dict[str, int] | None:
            return None if self._n_rows is None else {"num_rows": self._n_rows}

        def to_evaluation_dataset(self, path: Any = None, feature_names: Any = None) -> EvaluationDataset:
            no_rows = pd.DataFrame(columns=self.df.columns)
            dataset = EvaluationDataset(no_rows, name=self.name, path=path, digest=self.digest)
            setattr(dataset, WHOLE_TABLE, self.df)
            return dataset

    return RankingDataset


# What MLflow takes in names; anything else becomes an underscore.
_UNWANTED = re.compile(r"[^\w\-. /]")
#: MLflow takes names of 250 characters and a file system of 255 bytes, with room for ".ci_high" and "definition.".
LONGEST_NAME = 215
# The figures of a row: what the name ends in, and the attribute.
_SUFFIXES = {"": "mean", ".ci_low": "interval_low", ".ci_high": "interval_high", ".users": "n_users"}
#: A row's key, its slice and a suffix; a key, this word and a model; or this word, nothing and a count.
Figure = tuple[str, str, str]
MODEL, _COUNTS = "model", "data_quality"


def figures_of(rows: Sequence[SummaryRow], quality: DataQuality | None) -> dict[Figure, float]:
    """The figures of rows of one model, with the counts of its users and rows."""
    figures = {
        (row.key, row.slice, suffix): getattr(row, attribute) for row in rows for suffix, attribute in _SUFFIXES.items()
    }
    counts = {} if quality is None else quality.to_dict()
    return figures | {(_COUNTS, "", name): count for name, count in counts.items() if count is not None}


def names_of(summary: Sequence[SummaryRow], columns: Mapping[str, str], slash: str) -> dict[Figure, str]:
    """What MLflow calls the figures of a run: ``ndcg_at_10``, ``ndcg_at_10.ci_low``, ``ndcg_at_10/country.DE``.

    A name that MLflow takes stays as it is. Any other ends in a hash of what it stands for, which is the same in every run. Names
    that a database may take for equal get a hash too.
    """
    names: dict[Figure, str] = {(_COUNTS, "", name): f"{_COUNTS}{slash}{name}" for name in MEANING}
    name_of = partial(_name, has_folders=slash == "/")
    for row in summary:
        column = column_name(row.name) if row.asked else columns.get(row.key) or column_of(row)
        users = "" if row.slice == "all" else slash + row.slice.replace("=", ".").replace(", ", slash)
        name = name_of(column + users, (row.key, row.slice))
        for suffix in _SUFFIXES:
            names[row.key, row.slice, suffix] = name + suffix
        names[row.key, MODEL, row.model] = name_of(f"{column}{slash}{row.model}", (row.key, row.model))
    n_alike = Counter(map(_folded, names.values()))
    return {
        figure: f"{name}-{hash_of(figure)}" if n_alike[_folded(name)] > 1 else name for figure, name in names.items()
    }


def _name(text: str, figure: Sequence[str], *, has_folders: bool) -> str:
    """A text as a name that MLflow takes, with a hash of what it stands for if it is not that text."""
    parts = _UNWANTED.sub("_", text).split("/")
    name = ("/" if has_folders else "_").join("_" if part in ("", ".", "..") else part for part in parts)
    if name == text and len(name.encode()) <= LONGEST_NAME:
        return name
    end = f"-{hash_of(figure)}"
    return name.encode()[: LONGEST_NAME - len(end)].decode(errors="ignore") + end


def hash_of(texts: Sequence[str]) -> str:
    """Twelve digits that stand for texts."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]


def _folded(name: str) -> str:
    """A name as the least exact databases compare it: without case, accents and blanks at its end."""
    letters = unicodedata.normalize("NFKD", name.strip())
    return "".join(letter for letter in letters if not unicodedata.combining(letter)).casefold()


# The most metrics and parameters that a call may log.
_METRICS_PER_CALL, _PARAMS_PER_CALL = 900, 100
# The longest value of a parameter.
_LONGEST_PARAM = 6000
# The tables that may be the test set that a metric is measured on; one table of arrays has its labels among the predictions.
_TEST_SETS = ("labels", "predictions")


def slash_of(tracking_uri: str) -> str:
    """What divides names: a store of files has one file per metric, and ndcg_at_10 cannot be a folder, too."""
    return "." if urlsplit(tracking_uri).scheme in ("", "file") else "/"


def log_figures(
    client: MlflowClient,
    run_id: str,
    figures: Mapping[str, float],
    fingerprints: Mapping[str, str],
    *,
    time: int,
    params: Mapping[str, str] = MappingProxyType({}),
    model_id: str | None = None,
    sources: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Log figures, and the tables that they come from as datasets whose digests are our fingerprints; no table is read.

    Args:
        client: of the tracking server.
        run_id: MLflow's id of the run.
        figures: by name; NaN and infinities are left out.
        fingerprints: those of the tables, as `Result.fingerprints` has them.
        time: when the run started, in milliseconds since 1970.
        params: parameters by name; empty ones are left out.
        model_id: the logged model that the figures are about. None: there is none.
        sources: where a table is, as JSON, by the table's name in fingerprints. Without an entry the code is the source.
    """
    from mlflow.entities import Dataset, DatasetInput, InputTag, LoggedModelInput, Metric, Param  # noqa: PLC0415 # of an extra

    inputs = []
    for table, digest in fingerprints.items():
        kind = ("spark", sources[table]) if table in sources else ("code", json.dumps({"tags": {}}))
        inputs.append(DatasetInput(Dataset(table, digest, *kind), [InputTag("mlflow.data.context", "evaluation")]))
    models = [LoggedModelInput(model_id)] if model_id else None
    if inputs or models:
        client.log_inputs(run_id, inputs, models)
    measured = next((table for table in _TEST_SETS if table in fingerprints), None)
    links = {"dataset_name": measured, "dataset_digest": fingerprints.get(measured or ""), "model_id": model_id}
    metrics = [
        # A figure that is not defined is no point of a chart, and not every store takes NaN.
        Metric(name, float(value), time, 0, **links)
        for name, value in figures.items()
        if math.isfinite(value)
    ]
    for first in range(0, len(metrics), _METRICS_PER_CALL):
        client.log_batch(run_id, metrics=metrics[first : first + _METRICS_PER_CALL])
    parameters = [Param(name, value[:_LONGEST_PARAM]) for name, value in params.items() if value]
    for first in range(0, len(parameters), _PARAMS_PER_CALL):
        client.log_batch(run_id, params=parameters[first : first + _PARAMS_PER_CALL])


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
    from mlflow.models.evaluation import artifacts as kinds  # noqa: PLC0415 # of an extra

    place, summary = client.get_run(run_id).info.artifact_uri, result.to_pandas()
    client.log_text(run_id, summary.to_csv(index=False), "summary.csv")
    client.log_text(run_id, result.to_json(), "result.json")
    artifacts = {
        "summary": kinds.CsvEvaluationArtifact(f"{place}/summary.csv", summary),
        "result": kinds.JsonEvaluationArtifact(f"{place}/result.json", result.to_dict()),
    }
    if with_report:
        with tempfile.TemporaryDirectory() as folder:
            page = result.report(Path(folder, "report.html")).read_text(encoding="utf-8")
        client.log_text(run_id, page, "report.html")
        artifacts[_REPORT] = kinds.TextEvaluationArtifact(f"{place}/report.html", page)
    return artifacts
