"""From pandas series of arrays to a frame with a column a metric: what a pandas UDF is given and gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa

from spark_rankeval.metrics.ragged import offsets_of
from spark_rankeval.worker.reading import GRADES, ITEMS, LABEL_ROWS, LABELS, PREDICTION_ROWS, SCORES
from spark_rankeval.worker.scoring import COUNTS, INVALID_COUNTS, score

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_rankeval.worker.task import ScoringTask

N_INVALID = "n_invalid"
_COLUMNS = {"items": ITEMS, "scores": SCORES, "labels": LABELS, "grades": GRADES}
_HARMLESS = {"n_duplicate_labels"}


def score_series(task: ScoringTask, given: tuple[str, ...], names: tuple[str, ...]) -> Callable[..., pd.DataFrame]:
    """A function for a pandas UDF: series of arrays in, a frame with the metrics of each row out.

    Args:
        task: what to compute.
        given: which arrays the series are: of ``items``, ``labels``, ``scores``, ``grades``.
        names: the metrics' column names.
    """
    refusing = [index for index, name in enumerate(COUNTS) if name in INVALID_COUNTS and name not in _HARMLESS]
    if task.conflicting_labels == "last":
        refusing.remove(COUNTS.index("n_conflicting_labels"))

    def run(*series: pd.Series) -> pd.DataFrame:
        rows = pa.array(np.ones(len(series[0]), np.int64))
        arrays = {_COLUMNS[name]: _list_array(values) for name, values in zip(given, series, strict=True)}
        scores = score(task, pa.RecordBatch.from_pydict({**arrays, PREDICTION_ROWS: rows, LABEL_ROWS: rows}))
        columns = dict(zip(names, scores.metrics, strict=True))
        invalid = np.sum([scores.counts[index] for index in refusing], axis=0)
        return pd.DataFrame({**columns, N_INVALID: invalid})

    return run


def _list_array(series: pd.Series) -> pa.ListArray:
    """An Arrow array of lists; a row that is not an array is null."""
    missing = np.array([values is None for values in series], np.bool_)
    present = [values for values in series if values is not None]
    lengths = np.zeros(len(series), np.int64)
    lengths[~missing] = [len(values) for values in present]
    flat = np.concatenate(present) if present else np.empty(0)
    values = pa.array(flat, pa.string() if flat.dtype == object else None)
    return pa.ListArray.from_arrays(pa.array(offsets_of(lengths), pa.int32()), values, mask=pa.array(missing))
