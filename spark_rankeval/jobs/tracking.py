"""A run in the tracking server of MLflow, beside the outputs."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from spark_rankeval.errors import ConfigurationError, MissingExtraError, TrackingError
from spark_rankeval.extras import needs_extra
from spark_rankeval.jobs.reporting import report_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mlflow import MlflowClient

    from spark_rankeval.jobs.evaluate_config import EvaluateConfig
    from spark_rankeval.jobs.runs import Run
    from spark_rankeval.result import Result
    from spark_rankeval.summary import SummaryRow

# What MLflow takes in names; anything else becomes an underscore.
_UNWANTED = re.compile(r"[^\w\-. /]")
# The most parameters that a call may log, and the longest value of one.
_BATCH, _LONGEST = 100, 6000
# MLflow's own patience with a server that does not answer is minutes, which suits a run that is done, not one that has yet to begin.
_IMPATIENCE = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "10", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}


def reach(config: EvaluateConfig) -> None:
    """Contact the tracking server before a run, and make the experiment if there is none.

    A server is asked for 10 seconds, twice, unless MLflow's environment variables for that say otherwise.

    Args:
        config: of the run.

    Raises:
        ConfigurationError: the server does not answer, or refuses the experiment.
        MissingExtraError: mlflow-skinny is not installed.
    """
    assert config.mlflow is not None, "a run is tracked where the configuration says so"
    place = config.mlflow.tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or "its own place"
    try:
        with _impatient():
            client = _client(config)
            place = client.tracking_uri
            _experiment(client, config)
    except MissingExtraError:
        raise
    # What can fail is the store's to choose: a server, a database, a folder.
    except Exception as error:
        where = f"MLflow at {place} cannot be used: {_one_line(error)}"
        msg = config.redacted(
            f"[mlflow] {where}; mend mlflow.tracking_uri or MLFLOW_TRACKING_URI, or leave [mlflow] out"
        )
        raise ConfigurationError(msg) from error


def track(run: Run, config: EvaluateConfig, result: Result, manifest: Mapping[str, Any]) -> None:
    """Log a run that has written all its tables to MLflow; see `_log_run`.

    Args:
        run: that has written its outputs.
        config: of the run.
        result: of the run.
        manifest: what the run was.

    Raises:
        MissingExtraError: mlflow-skinny is not installed.
        TrackingError: MLflow did not take all of it.
    """
    client = _client(config)
    try:
        _log_run(client, run, config, result, manifest)
    except Exception as error:
        msg = (
            f"the tables and the manifest of run {run.run_id} are whole; MLflow at {client.tracking_uri} did not take all of the "
            f"run: {_one_line(error)}"
        )
        raise TrackingError(config.redacted(msg)) from error


def _client(config: EvaluateConfig) -> MlflowClient:
    with needs_extra("mlflow", "runs in MLflow"):
        from mlflow import MlflowClient  # noqa: PLC0415 # of an extra
    if "MLFLOW_LOGGING_LEVEL" not in os.environ:
        # A job's stderr has warnings and errors alone.
        logging.getLogger("mlflow").setLevel(logging.WARNING)
    assert config.mlflow is not None, "a run is tracked where the configuration says so"
    return MlflowClient(tracking_uri=config.mlflow.tracking_uri)


def _experiment(client: MlflowClient, config: EvaluateConfig) -> str:
    """The id of the experiment, which is made where there is none."""
    assert config.mlflow is not None, "a run is tracked where the configuration says so"
    name = config.mlflow.experiment
    known = client.get_experiment_by_name(name)
    if known is None:
        return str(client.create_experiment(name))
    if known.lifecycle_stage == "deleted":
        msg = f"the experiment {name!r} is deleted there; restore it, or name another"
        raise ConfigurationError(msg)
    return str(known.experiment_id)


@contextmanager
def _impatient() -> Iterator[None]:
    """Little patience with a server, where the environment does not say how much."""
    mine = {name: value for name, value in _IMPATIENCE.items() if name not in os.environ}
    os.environ.update(mine)
    try:
        yield
    finally:
        for name in mine:
            os.environ.pop(name, None)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _log_run(
    client: MlflowClient, run: Run, config: EvaluateConfig, result: Result, manifest: Mapping[str, Any]
) -> None:
    """Log a run to MLflow: its means and the ends of their intervals as metrics, definitions as parameters, manifest and report.

    One model is one run. Several are a parent run, which has the manifest and the report, with a nested run a model, which has the
    metrics under the same names, so that MLflow's own tables and charts set models side by side.

    Args:
        client: of the tracking server.
        run: that has written its outputs.
        config: of the run.
        result: of the run.
        manifest: what the run was.
    """
    assert config.mlflow is not None, "a run is tracked where the configuration says so"
    experiment = _experiment(client, config)
    name = config.mlflow.run_name or run.run_id
    tags = {"spark_rankeval.run_id": run.run_id, "spark_rankeval.output": config.redacted(run.output)}
    start = int(1000 * run.started.timestamp())
    failed = manifest.get("gates_failed", 0) > 0
    models = result.models
    parent = client.create_run(experiment, start_time=start, tags=tags, run_name=name)
    identity = parent.info.run_id
    # A store of files has a file a metric, and ndcg_at_10 cannot be a folder too.
    slash = "." if urlsplit(client.tracking_uri).scheme in ("", "file") else "/"
    log = partial(_log, client, columns=result.columns, slash=slash, time=start)
    log(identity, rows=result.summary if len(models) == 1 else (), params=_common(config, result))
    if len(models) > 1:
        for model in models:
            rows = [row for row in result.summary if row.model == model]
            nested = {**tags, "mlflow.parentRunId": identity, "model": model}
            child = client.create_run(experiment, start_time=start, tags=nested, run_name=model).info.run_id
            log(child, rows=rows, params={"model": model})
            client.set_terminated(child, "FAILED" if failed else "FINISHED")
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary, "manifest.json")
        file.write_text(json.dumps(manifest, indent=2, ensure_ascii=False, default=str), encoding="utf-8")
        client.log_artifact(identity, str(file))
        report = report_file(run, Path(temporary))
        if report is not None:
            client.log_artifact(identity, str(report))
    client.set_terminated(identity, "FAILED" if failed else "FINISHED")


def _common(config: EvaluateConfig, result: Result) -> dict[str, str]:
    model = next(iter(result.models), "")
    told = {"dialect": result.summary[0].dialect, "model": model if len(result.models) == 1 else ""}
    told |= {f"definition.{name}": text for name, text in _definitions(result.summary, result.columns)}
    told |= {"user_weight": config.evaluation.user_weight or "", "ci": config.evaluation.ci}
    return {name: text[:_LONGEST] for name, text in told.items() if text}


def _definitions(rows: Sequence[SummaryRow], columns: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for row in rows:
        yield _name(columns.get(row.key, row.key)), row.definition


def _log(
    client: Any,
    identity: str,
    *,
    rows: Sequence[SummaryRow],
    columns: Mapping[str, str],
    params: Mapping[str, str],
    slash: str,
    time: int,
) -> None:
    from mlflow.entities import Metric, Param  # noqa: PLC0415 # of an extra

    metrics = [
        Metric(name, value, time, 0)
        for row in rows
        for name, value in _figures(row, columns.get(row.key, row.key), slash)
        # A figure that is not defined is no point of a chart, and not every store takes NaN.
        if math.isfinite(value)
    ]
    given = [Param(name, value) for name, value in params.items()]
    for first in range(0, max(len(metrics), len(given)), _BATCH):
        last = first + _BATCH
        client.log_batch(identity, metrics=metrics[first:last], params=given[first:last])


def _figures(row: SummaryRow, column: str, slash: str) -> Iterator[tuple[str, float]]:
    """The names and values of a row's metrics: ``ndcg_at_10``, ``ndcg_at_10.ci_low``, ``ndcg_at_10/country.DE``."""
    slice_ = "" if row.slice == "all" else slash + _name(row.slice.replace("=", ".").replace(", ", slash))
    name = _name(column) + slice_
    yield name, row.mean
    if not slice_:
        yield f"{name}.ci_low", row.interval_low
        yield f"{name}.ci_high", row.interval_high
        yield f"{name}.users", float(row.n_users)


def _name(text: str) -> str:
    return _UNWANTED.sub("_", text)
