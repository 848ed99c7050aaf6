"""A run in the tracking server of MLflow, beside the outputs."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import re
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from spark_rankeval.checks import check_extra, needs_extra
from spark_rankeval.errors import ConfigurationError, MissingExtraError, TrackingError
from spark_rankeval.evaluation.merge import column_of
from spark_rankeval.evaluation.result import Result
from spark_rankeval.jobs.evaluate import LONGEST_RUN_NAME, EvaluateConfig, Tracking
from spark_rankeval.jobs.reporting import report_file
from spark_rankeval.jobs.runs import Run
from spark_rankeval.metrics.naming import column_name
from spark_rankeval.records.summary import SummaryRow

if TYPE_CHECKING:
    from mlflow import MlflowClient


# What MLflow takes in names; anything else becomes an underscore.
_UNWANTED = re.compile(r"[^\w\-. /]")
# MLflow takes names of 250 characters and a file system of 255 bytes, with room for ".ci_high" and "definition.".
_LONGEST_NAME = 215
# The longest value of a tag.
_LONGEST_TAG = 5000
# The figures of all users, of slices the mean alone: what the name ends in, and the attribute of a summary's row.
_SUFFIXES = {"": "mean", ".ci_low": "interval_low", ".ci_high": "interval_high", ".users": "n_users"}
# A row's key, its slice and a suffix.
_Figure = tuple[str, str, str]
# The most parameters that a call may log, and the longest value of one.
_BATCH, _LONGEST = 100, 6000
# MLflow keeps runs in databases of these kinds by packages that a client of a server does not need.
_DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
# MLflow waits minutes for a server that does not answer, which suits a run that is done, but not one that has yet to begin.
_IMPATIENCE = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "10", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}


def reach(config: EvaluateConfig) -> None:
    """Contact the tracking server before a run, and make the experiment if there is none."""
    tracking = config.mlflow or Tracking()
    place = tracking.tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or "its own place"
    if place.startswith(_DATABASES):
        check_extra("mlflow", "databases of MLflow")
    settings = {name: value for name, value in _IMPATIENCE.items() if name not in os.environ}
    os.environ.update(settings)
    try:
        client = _client(tracking)
        place = client.tracking_uri
        _experiment(client, tracking)
    except MissingExtraError:
        raise
    # What can fail is the store's to choose: a server, a database, a folder.
    except Exception as error:
        where = f"MLflow at {place} cannot be used: {_one_line(error)}"
        msg = config.redacted(
            f"[mlflow] {where}; correct mlflow.tracking_uri or MLFLOW_TRACKING_URI, or leave [mlflow] out"
        )
        raise ConfigurationError(msg) from error
    finally:
        for name in settings:
            os.environ.pop(name, None)


def track(run: Run, config: EvaluateConfig, result: Result, manifest: Mapping[str, Any]) -> None:
    """Log a run that has written all its tables to MLflow; see `_log_run`."""
    client = _client(config.mlflow or Tracking())
    try:
        _log_run(client, run, config, result, manifest)
    except Exception as error:
        msg = (
            f"the tables and the manifest of run {run.run_id} are complete, but MLflow at {client.tracking_uri} did not take "
            f"all of the run: {_one_line(error)}"
        )
        raise TrackingError(config.redacted(msg)) from error


def _client(tracking: Tracking) -> MlflowClient:
    with needs_extra("mlflow", "runs in MLflow"):
        from mlflow import MlflowClient  # noqa: PLC0415 # of an extra
    if "MLFLOW_LOGGING_LEVEL" not in os.environ:
        # A job's stderr has warnings and errors alone.
        logging.getLogger("mlflow").setLevel(logging.WARNING)
    return MlflowClient(tracking_uri=tracking.tracking_uri)


def _experiment(client: MlflowClient, tracking: Tracking) -> str:
    name = tracking.experiment
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        return str(client.create_experiment(name))
    if experiment.lifecycle_stage == "deleted":
        msg = f"the experiment {name!r} is deleted there; restore it, or name another"
        raise ConfigurationError(msg)
    return str(experiment.experiment_id)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _log_run(
    client: MlflowClient, run: Run, config: EvaluateConfig, result: Result, manifest: Mapping[str, Any]
) -> None:
    """Log a run to MLflow: figures as metrics, definitions as parameters, manifest and report.

    One model is one run. Several are a parent run with a nested run a model, so that MLflow's tables and charts set them side by side.
    """
    tracking = config.mlflow or Tracking()
    experiment = _experiment(client, tracking)
    name = tracking.run_name or run.run_id
    tags = {"spark_rankeval.run_id": run.run_id, "spark_rankeval.output": config.redacted(run.output)[:_LONGEST_TAG]}
    start = int(1000 * run.started.timestamp())
    state = "FAILED" if manifest.get("gates_failed", 0) > 0 else "FINISHED"
    models = result.models
    identity = client.create_run(experiment, start_time=start, tags=tags, run_name=name).info.run_id
    # A store of files has a file a metric, and ndcg_at_10 cannot be a folder too.
    slash = "." if urlsplit(client.tracking_uri).scheme in ("", "file") else "/"
    names = _names_of(result, slash)
    log = partial(_log, client, names=names, time=start)
    log(identity, rows=result.summary if len(models) == 1 else (), params=_common(config, result, names))
    if len(models) > 1:
        for model in models:
            rows = [row for row in result.summary if row.model == model]
            nested = {**tags, "mlflow.parentRunId": identity, "model": model[:_LONGEST_TAG]}
            title = model if len(model) <= LONGEST_RUN_NAME else f"{model[:_LONGEST_NAME]}-{_hash_of([model])}"
            child = client.create_run(experiment, start_time=start, tags=nested, run_name=title).info.run_id
            log(child, rows=rows, params={"model": model[:_LONGEST]})
            client.set_terminated(child, state)
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary, "manifest.json")
        file.write_text(json.dumps(manifest, indent=2, ensure_ascii=False, default=str), encoding="utf-8")
        client.log_artifact(identity, str(file))
        report = report_file(run, Path(temporary))
        if report is not None:
            client.log_artifact(identity, str(report))
    client.set_terminated(identity, state)


def _common(config: EvaluateConfig, result: Result, names: Mapping[_Figure, str]) -> dict[str, str]:
    model = next(iter(result.models), "")
    texts = {"dialect": result.summary[0].dialect, "model": model if len(result.models) == 1 else ""}
    first_slices = {row.key: row.slice for row in reversed(result.summary)}
    definitions = {row.key: row.definition for row in result.summary}
    texts |= {f"definition.{names[key, first_slices[key], '']}": text for key, text in definitions.items()}
    texts |= {"user_weight": config.evaluation.user_weight or "", "ci": config.evaluation.ci}
    texts["cluster"] = result.summary[0].cluster
    return {name: text[:_LONGEST] for name, text in texts.items() if text}


def _log(
    client: Any,
    identity: str,
    *,
    rows: Sequence[SummaryRow],
    names: Mapping[_Figure, str],
    params: Mapping[str, str],
    time: int,
) -> None:
    from mlflow.entities import Metric, Param  # noqa: PLC0415 # of an extra

    metrics = []
    for row in rows:
        for suffix in _SUFFIXES if row.slice == "all" else [""]:
            value = float(getattr(row, _SUFFIXES[suffix]))
            # A figure that is not defined is no point of a chart, and not every store takes NaN.
            if math.isfinite(value):
                metrics.append(Metric(names[row.key, row.slice, suffix], value, time, 0))
    parameters = [Param(name, value) for name, value in params.items()]
    for first in range(0, max(len(metrics), len(parameters)), _BATCH):
        last = first + _BATCH
        client.log_batch(identity, metrics=metrics[first:last], params=parameters[first:last])


def _names_of(result: Result, slash: str) -> dict[_Figure, str]:
    """What MLflow calls the figures of a result: ``ndcg_at_10``, ``ndcg_at_10.ci_low``, ``ndcg_at_10/country.DE``.

    A name that MLflow takes stays as it is. Any other ends in a hash of what it stands for, which is the same in every run. Names
    that a database may take for equal get a hash too.
    """
    names: dict[_Figure, str] = {}
    for (key, slice_), row in {(row.key, row.slice): row for row in result.summary}.items():
        column = column_name(row.name) if row.asked else result.columns.get(key) or column_of(row)
        users = "" if slice_ == "all" else slash + slice_.replace("=", ".").replace(", ", slash)
        name = _name(column + users, (key, slice_), has_folders=slash == "/")
        for suffix in [""] if users else _SUFFIXES:
            names[key, slice_, suffix] = name + suffix
    n_alike = Counter(map(_folded, names.values()))
    return {
        figure: f"{name}-{_hash_of(figure)}" if n_alike[_folded(name)] > 1 else name for figure, name in names.items()
    }


def _name(text: str, figure: Sequence[str], *, has_folders: bool = True) -> str:
    """A text as a name that MLflow takes, with a hash of what it stands for if it is not that text."""
    parts = _UNWANTED.sub("_", text).split("/")
    name = ("/" if has_folders else "_").join("_" if part in ("", ".", "..") else part for part in parts)
    if name == text and len(name.encode()) <= _LONGEST_NAME:
        return name
    end = f"-{_hash_of(figure)}"
    return name.encode()[: _LONGEST_NAME - len(end)].decode(errors="ignore") + end


def _hash_of(texts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]


def _folded(name: str) -> str:
    """A name as the least exact databases compare it: without case, accents and blanks at its end."""
    letters = unicodedata.normalize("NFKD", name.strip())
    return "".join(letter for letter in letters if not unicodedata.combining(letter)).casefold()
