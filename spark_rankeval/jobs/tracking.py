"""A run in the tracking server of MLflow, beside the outputs."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_rankeval.checks import needs_extra
from spark_rankeval.errors import ConfigurationError, TrackingError
from spark_rankeval.jobs.evaluate import LONGEST_RUN_NAME, EvaluateConfig, Tracking
from spark_rankeval.jobs.outputs import Run, report_file
from spark_rankeval.records.stored import fingerprints_of, qualities_in
from spark_rankeval.records.summary import SummaryRow
from spark_rankeval.spark.catalog import on_this_disk
from spark_rankeval.tracking.mlflow import (
    LONGEST_NAME,
    MODEL,
    Figure,
    figures_of,
    hash_of,
    log_figures,
    names_of,
    slash_of,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient


# The longest value of a tag.
_LONGEST_TAG = 5000
# The longest value of a parameter.
_LONGEST = 6000
#: A server that is away costs three minutes and not twenty: the run can be logged later. What MLflow prints is not the job's result.
_SETTINGS = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "5",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
_RUN, _OUTPUT, _ATTEMPT = "spark_rankeval.run_id", "spark_rankeval.output", "spark_rankeval.attempt"


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
    """Log a run to MLflow: figures as metrics, definitions as parameters, manifest and report.

    What MLflow has of the same attempt is deleted. Earlier attempts at the run stay, with the state of one that was killed and a tag that
    says by what they were replaced.

    One model is one run. Several are nested runs of one that has the first metric of each, so that MLflow's tables and charts set
    them side by side.
    """
    tracking = config.mlflow or Tracking()
    experiment = _experiment(client, tracking)
    # The folders of two projects may have one relative path.
    folder = str(on_this_disk(run.output).absolute()) if run.is_on_disk else run.output
    tags = {_RUN: run.run_id, _OUTPUT: config.redacted(folder)[:_LONGEST_TAG], _ATTEMPT: manifest["attempt"]}
    replaced = []
    for earlier in client.search_runs([experiment], f"tags.`{_RUN}` = '{run.run_id}'"):
        if earlier.data.tags.get(_ATTEMPT) == tags[_ATTEMPT]:
            client.delete_run(earlier.info.run_id)
        elif earlier.data.tags.get(_OUTPUT) == tags[_OUTPUT]:
            replaced.append(earlier.info.run_id)
    if (judged := config.evaluation.judged) is not None:
        tags |= {"spark_rankeval.human": judged.human, "spark_rankeval.judge": judged.judge}
    start = int(1000 * datetime.fromisoformat(manifest["started"]).timestamp())
    names = names_of(summary, manifest.get("columns", {}), slash_of(client.tracking_uri))
    logger = _Logger(client, config, experiment, tags, start, names)
    title, qualities = tracking.run_name or run.run_id, qualities_in(manifest, summary)
    state = "FAILED" if manifest.get("gates_failed", 0) > 0 else "FINISHED"
    models = dict.fromkeys(row.model for row in summary)
    unknown = tracking.model_id.keys() - models if isinstance(tracking.model_id, Mapping) else ()
    if unknown:
        msg = f"mlflow.model_id: the run has no model {min(unknown)!r}; it has: {', '.join(map(repr, models))}"
        raise ConfigurationError(msg)
    if len(models) == 1:
        parent = logger.log(title, summary, figures_of(summary, qualities.get(summary[0].model)))
    else:
        first = [row for row in summary if (row.key, row.slice) == (summary[0].key, "all")]
        parent = logger.log(title, first, {(row.key, MODEL, row.model): row.mean for row in first})
        for model in models:
            rows = [row for row in summary if row.model == model]
            short = model if len(model) <= LONGEST_RUN_NAME else f"{model[:LONGEST_NAME]}-{hash_of([model])}"
            nested = {"mlflow.parentRunId": parent, "model": model[:_LONGEST_TAG]}
            child = logger.log(short, rows, figures_of(rows, qualities.get(model)), nested)
            client.set_terminated(child, state)
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary, "manifest.json")
        file.write_text(json.dumps(manifest, indent=2, ensure_ascii=False, default=str), encoding="utf-8")
        client.log_artifact(parent, str(file))
        report = report_file(run, Path(temporary))
        if report is not None:
            client.log_artifact(parent, str(report))
    client.set_terminated(parent, state)
    for each in replaced:
        client.set_tag(each, "spark_rankeval.replaced_by", parent)
        client.update_run(each, "KILLED")


@dataclass(frozen=True)
class _Logger:
    """What the MLflow runs of one run of the job share."""

    client: MlflowClient
    config: EvaluateConfig
    experiment: str
    tags: Mapping[str, str]
    start: int
    names: Mapping[Figure, str]

    def log(
        self,
        title: str,
        rows: Sequence[SummaryRow],
        figures: Mapping[Figure, float],
        more_tags: Mapping[str, str] | None = None,
    ) -> str:
        """Log figures, and what they mean, which the rows say; gives MLflow's id of the new run."""
        tags, models = {**self.tags, **(more_tags or {})}, {row.model for row in rows}
        model, ids = models.pop() if len(models) == 1 else "", (self.config.mlflow or Tracking()).model_id
        fingerprints = fingerprints_of(rows)
        run = self.client.create_run(self.experiment, start_time=self.start, tags=tags, run_name=title)
        log_figures(
            self.client,
            run.info.run_id,
            {self.names[figure]: value for figure, value in figures.items()},
            fingerprints,
            time=self.start,
            params=_params(self.config, rows, self.names, model),
            model_id=ids.get(model) if isinstance(ids, Mapping) else ids,
            sources=_sources(self.config, model, fingerprints),
        )
        return str(run.info.run_id)


def _sources(config: EvaluateConfig, model: str, datasets: Iterable[str]) -> dict[str, str]:
    """Where the tables of datasets are, as MLflow describes sources of Spark, without secrets; a database has no place."""
    places = {name: [source] for name, source in config.sources().items()}
    if config.split is not None:
        places = {"labels": places["split.log"], "exclude": places["split.log"], **places}
    if config.vectors is not None:
        places["predictions"] = [*config.vectors.sources("").values()]
    places |= {f"predictions of {name}": [*each.sources_of_model("").values()] for name, each in config.models.items()}
    described = {}
    for name in datasets:
        # Several models may be in one table.
        found = places.get(f"{name} of {model}") or places.get(name) or places.get(name.partition(" of ")[0], [])
        tables = [source.table for source in found if source.table is not None]
        if where := tables or [path for source in found for path in source.paths]:
            described[name] = json.dumps({"table_name" if tables else "path": config.redacted(", ".join(where))})
    return described


def _params(
    config: EvaluateConfig, rows: Sequence[SummaryRow], names: Mapping[Figure, str], model: str
) -> dict[str, str]:
    """What the numbers of some rows mean: their metrics with every parameter, and the options of all of them."""
    first_slices = {row.key: row.slice for row in reversed(rows)}
    definitions = {row.key: row.definition for row in rows}
    texts = {f"definition.{names[key, first_slices[key], '']}": text for key, text in definitions.items()}
    texts |= {
        "dialect": rows[0].dialect,
        "model": model,
        "user_weight": config.evaluation.user_weight or "",
        "ci": config.evaluation.ci,
        "cluster": rows[0].cluster,
    }
    return {name: text[:_LONGEST] for name, text in texts.items() if text}
