"""A run in the tracking server of MLflow, beside the outputs."""

from __future__ import annotations

import json
import math
import re
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from spark_rankeval.extras import needs_extra
from spark_rankeval.jobs.reporting import report_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_rankeval.jobs.evaluate_config import EvaluateConfig
    from spark_rankeval.jobs.runs import Run
    from spark_rankeval.result import Result
    from spark_rankeval.summary import SummaryRow

# What MLflow takes in names; anything else becomes an underscore.
_UNWANTED = re.compile(r"[^\w\-. /]")
# The most parameters that a call may log, and the longest value of one.
_BATCH, _LONGEST = 100, 6000


def track(run: Run, config: EvaluateConfig, result: Result, manifest: Mapping[str, Any]) -> None:
    """Log a run to MLflow: its means and the ends of their intervals as metrics, definitions as parameters, manifest and report.

    One model is one run. Several are a parent run, which has the manifest and the report, with a nested run a model, which has the
    metrics under the same names, so that MLflow's own tables and charts set models side by side.

    Args:
        run: that has written its outputs.
        config: of the run.
        result: of the run.
        manifest: what the run was.

    Raises:
        MissingExtraError: mlflow-skinny is not installed.
    """
    with needs_extra("mlflow", "runs in MLflow"):
        from mlflow import MlflowClient  # noqa: PLC0415 # of an extra
    assert config.mlflow is not None, "a run is tracked where the configuration says so"
    asked = config.mlflow
    client = MlflowClient(tracking_uri=asked.tracking_uri)
    known = client.get_experiment_by_name(asked.experiment)
    experiment = client.create_experiment(asked.experiment) if known is None else known.experiment_id
    name = asked.run_name or run.run_id
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
