"""Figures, definitions and fingerprints in a run of MLflow."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from mlflow import MlflowClient

# The most metrics and parameters that a call may log.
_METRICS_PER_CALL, _PARAMS_PER_CALL = 900, 100
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
    params: Mapping[str, str] | None = None,
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
        params: parameters by name.
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
    parameters = [Param(name, value) for name, value in (params or {}).items()]
    for batch in range(max(math.ceil(len(metrics) / _METRICS_PER_CALL), math.ceil(len(parameters) / _PARAMS_PER_CALL))):
        client.log_batch(
            run_id,
            metrics=metrics[batch * _METRICS_PER_CALL : (batch + 1) * _METRICS_PER_CALL],
            params=parameters[batch * _PARAMS_PER_CALL : (batch + 1) * _PARAMS_PER_CALL],
        )
