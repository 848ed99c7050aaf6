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
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from spark_rankeval.checks import needs_extra
from spark_rankeval.errors import ConfigurationError, TrackingError
from spark_rankeval.evaluation.merge import column_of
from spark_rankeval.jobs.evaluate import LONGEST_RUN_NAME, EvaluateConfig, Tracking
from spark_rankeval.jobs.reporting import report_file
from spark_rankeval.jobs.runs import Run
from spark_rankeval.metrics.naming import column_name
from spark_rankeval.records.quality import MEANING, DataQuality
from spark_rankeval.records.stored import qualities_in
from spark_rankeval.records.summary import SummaryRow

if TYPE_CHECKING:
    from mlflow import MlflowClient


# What MLflow takes in names; anything else becomes an underscore.
_UNWANTED = re.compile(r"[^\w\-. /]")
# MLflow takes names of 250 characters and a file system of 255 bytes, with room for ".ci_high" and "definition.".
_LONGEST_NAME = 215
# The longest value of a tag.
_LONGEST_TAG = 5000
# The figures of a row: what the name ends in, and the attribute.
_SUFFIXES = {"": "mean", ".ci_low": "interval_low", ".ci_high": "interval_high", ".users": "n_users"}
# A row's key, its slice and a suffix; a key, this word and a model; or this word, nothing and a count.
_Figure = tuple[str, str, str]
_MODEL, _COUNTS = "model", "data_quality"
# The most metrics and parameters that a call may log, and the longest value of a parameter.
_METRICS, _PARAMS, _LONGEST = 900, 100, 6000
#: A server that is away costs three minutes and not twenty: the run can be logged later. What MLflow prints is not the job's result.
_SETTINGS = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "5",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
_ATTEMPT = "spark_rankeval.attempt"


def track(run: Run, config: EvaluateConfig, summary: Sequence[SummaryRow], manifest: Mapping[str, Any]) -> None:
    """Log a run that has written all its tables, from its rows, its manifest and its report; see `_log_run`.

    Raises:
        TrackingError: MLflow did not take all of the run.
    """
    tracking = config.mlflow or Tracking()
    place = tracking.place
    added = {name: value for name, value in _SETTINGS.items() if name not in os.environ}
    os.environ.update(added)
    try:
        client = _client(tracking)
        place = client.tracking_uri
        _log_run(client, run, config, summary, manifest)
    # What can fail is the store's to choose: a server, a database, a folder.
    except Exception as error:
        msg = (
            f"the tables and the manifest of run {run.run_id} are complete, but MLflow at {place} did not take all of the run: "
            f"{_one_line(error)}; start the job again with --only-mlflow to log the run later"
        )
        raise TrackingError(config.redacted(msg)) from error
    finally:
        for name in added:
            os.environ.pop(name, None)


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
    client: MlflowClient,
    run: Run,
    config: EvaluateConfig,
    summary: Sequence[SummaryRow],
    manifest: Mapping[str, Any],
) -> None:
    """Log a run to MLflow: figures as metrics, definitions as parameters, manifest and report. It replaces the same attempt.

    One model is one run. Several are nested runs of one that has the first metric of each, so that MLflow's tables and charts set
    them side by side.
    """
    tracking = config.mlflow or Tracking()
    experiment = _experiment(client, tracking)
    for earlier in client.search_runs([experiment], f"tags.`{_ATTEMPT}` = '{manifest['attempt']}'"):
        client.delete_run(earlier.info.run_id)
    output = config.redacted(run.output)[:_LONGEST_TAG]
    tags = {"spark_rankeval.run_id": run.run_id, "spark_rankeval.output": output, _ATTEMPT: manifest["attempt"]}
    start = int(1000 * datetime.fromisoformat(manifest["started"]).timestamp())
    # A store of files has a file a metric, and ndcg_at_10 cannot be a folder too.
    slash = "." if urlsplit(client.tracking_uri).scheme in ("", "file") else "/"
    names = _names_of(summary, manifest.get("columns", {}), slash)
    logger = _Logger(client, config, experiment, tags, start, names)
    title, qualities = tracking.run_name or run.run_id, qualities_in(manifest, summary)
    state = "FAILED" if manifest.get("gates_failed", 0) > 0 else "FINISHED"
    models = dict.fromkeys(row.model for row in summary)
    if len(models) == 1:
        parent = logger.log(title, summary, _figures_of(summary, qualities.get(summary[0].model)))
    else:
        first = [row for row in summary if (row.key, row.slice) == (summary[0].key, "all")]
        parent = logger.log(title, first, {(row.key, _MODEL, row.model): row.mean for row in first})
        for model in models:
            rows = [row for row in summary if row.model == model]
            short = model if len(model) <= LONGEST_RUN_NAME else f"{model[:_LONGEST_NAME]}-{_hash_of([model])}"
            nested = {"mlflow.parentRunId": parent, "model": model[:_LONGEST_TAG]}
            child = logger.log(short, rows, _figures_of(rows, qualities.get(model)), nested)
            client.set_terminated(child, state)
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary, "manifest.json")
        file.write_text(json.dumps(manifest, indent=2, ensure_ascii=False, default=str), encoding="utf-8")
        client.log_artifact(parent, str(file))
        report = report_file(run, Path(temporary))
        if report is not None:
            client.log_artifact(parent, str(report))
    client.set_terminated(parent, state)


def _figures_of(rows: Sequence[SummaryRow], quality: DataQuality | None) -> dict[_Figure, float]:
    figures = {
        (row.key, row.slice, suffix): getattr(row, attribute) for row in rows for suffix, attribute in _SUFFIXES.items()
    }
    counts = {} if quality is None else quality.to_dict()
    return figures | {(_COUNTS, "", name): count for name, count in counts.items() if count is not None}


@dataclass(frozen=True)
class _Logger:
    """What the MLflow runs of one run of the job share."""

    client: MlflowClient
    config: EvaluateConfig
    experiment: str
    tags: Mapping[str, str]
    start: int
    names: Mapping[_Figure, str]

    def log(
        self,
        title: str,
        rows: Sequence[SummaryRow],
        figures: Mapping[_Figure, float],
        more_tags: Mapping[str, str] | None = None,
    ) -> str:
        """Log figures, and what they mean, which the rows say; gives MLflow's id of the new run."""
        from mlflow.entities import Metric, Param  # noqa: PLC0415 # of an extra

        tags = {**self.tags, **(more_tags or {})}
        run = self.client.create_run(self.experiment, start_time=self.start, tags=tags, run_name=title)
        # A figure that is not defined is no point of a chart, and not every store takes NaN.
        defined = {self.names[figure]: float(value) for figure, value in figures.items() if math.isfinite(value)}
        metrics = [Metric(name, value, self.start, 0) for name, value in defined.items()]
        params = [Param(name, value) for name, value in _params(self.config, rows, self.names).items()]
        for batch in range(max(math.ceil(len(metrics) / _METRICS), math.ceil(len(params) / _PARAMS))):
            self.client.log_batch(
                run.info.run_id,
                metrics=metrics[batch * _METRICS : (batch + 1) * _METRICS],
                params=params[batch * _PARAMS : (batch + 1) * _PARAMS],
            )
        return str(run.info.run_id)


def _params(config: EvaluateConfig, rows: Sequence[SummaryRow], names: Mapping[_Figure, str]) -> dict[str, str]:
    """What the numbers of some rows mean: their metrics with every parameter, and the options of all of them."""
    models = {row.model for row in rows}
    first_slices = {row.key: row.slice for row in reversed(rows)}
    definitions = {row.key: row.definition for row in rows}
    texts = {f"definition.{names[key, first_slices[key], '']}": text for key, text in definitions.items()}
    texts |= {"dialect": rows[0].dialect, "model": models.pop() if len(models) == 1 else ""}
    texts |= {
        "user_weight": config.evaluation.user_weight or "",
        "ci": config.evaluation.ci,
        "cluster": rows[0].cluster,
    }
    return {name: text[:_LONGEST] for name, text in texts.items() if text}


def _names_of(summary: Sequence[SummaryRow], columns: Mapping[str, str], slash: str) -> dict[_Figure, str]:
    """What MLflow calls the figures of a run: ``ndcg_at_10``, ``ndcg_at_10.ci_low``, ``ndcg_at_10/country.DE``.

    A name that MLflow takes stays as it is. Any other ends in a hash of what it stands for, which is the same in every run. Names
    that a database may take for equal get a hash too.
    """
    names: dict[_Figure, str] = {(_COUNTS, "", name): f"{_COUNTS}{slash}{name}" for name in MEANING}
    has_folders = slash == "/"
    for row in summary:
        column = column_name(row.name) if row.asked else columns.get(row.key) or column_of(row)
        users = "" if row.slice == "all" else slash + row.slice.replace("=", ".").replace(", ", slash)
        name = _name(column + users, (row.key, row.slice), has_folders=has_folders)
        for suffix in _SUFFIXES:
            names[row.key, row.slice, suffix] = name + suffix
        names[row.key, _MODEL, row.model] = _name(
            f"{column}{slash}{row.model}", (row.key, row.model), has_folders=has_folders
        )
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
