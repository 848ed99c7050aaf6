"""From pandas series of arrays to a frame with one column per metric: what a pandas UDF is given and gives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pyarrow as pa

from spark_rankeval.ranking.ragged import offsets_of
from spark_rankeval.request.counts import INVALID_COUNTS
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.worker.grouped_row import ITEMS, LABELS, SCORES, grades_column
from spark_rankeval.worker.process import runs_in_worker
from spark_rankeval.worker.user_metrics import count_of_model, score

N_INVALID = "n_invalid"
_COLUMNS = {"items": ITEMS, "scores": SCORES, "labels": LABELS, "grades": grades_column(0)}
_HARMLESS = {"n_duplicate_labels"}


def score_series(task: ScoringTask, arguments: tuple[str, ...], names: tuple[str, ...]) -> Callable[..., pd.DataFrame]:
    """A function for a pandas UDF: the arrays that `arguments` names in, a frame with the metrics of each row out.

    Beside grades ``single`` may say whether these are floats of 32 bits, the same in every row.
    """
    refusing = [name for name in INVALID_COUNTS if name not in _HARMLESS]
    if task.views[0].ranking.conflicting_labels == "last":
        refusing.remove("n_conflicting_labels")

    @runs_in_worker
    def run(*series: pd.Series) -> pd.DataFrame:
        by_name = dict(zip(arguments, series, strict=True))
        kind = _common_kind(by_name["items"], by_name["labels"])
        n_rows = len(series[0])
        if kind is None:
            # Ids that do not compare match nothing; that is no ranking to measure.
            values = {name: np.full(n_rows, np.nan) for name in names}
            return pd.DataFrame({**values, N_INVALID: np.ones(n_rows, np.int64)})
        single = by_name.pop("single", None)
        grades = pa.float64() if single is None or not single.any() else pa.float32()
        types = {"items": kind, "labels": kind, "scores": pa.float64(), "grades": grades}
        arrays = {_COLUMNS[name]: _list_array(values, types[name]) for name, values in by_name.items()}
        scores = score(task, pa.RecordBatch.from_pydict(arrays))
        columns = dict(zip(names, scores.metrics, strict=True))
        invalid = np.sum([scores.counts[count_of_model(name, 0)] for name in refusing], axis=0)
        return pd.DataFrame({**columns, N_INVALID: invalid})

    return run


def _common_kind(*columns: pd.Series) -> pa.DataType | None:
    """The Arrow type of the ids of all columns: text, whole numbers or doubles; None if they do not compare."""
    kinds = set()
    for column in columns:
        for ids in column:
            if ids is not None and len(ids):
                # Sail makes objects of the numbers of all rows if a row that is null hides a null entry.
                kind = np.array(ids.tolist()).dtype.kind if ids.dtype == object else ids.dtype.kind
                text = kind in "OUT" and all(isinstance(one, str) for one in ids)
                kinds.add("text" if text else {"i": "whole", "u": "whole", "f": "double"}.get(kind, "other"))
    types = {"text": pa.string(), "whole": pa.int64(), "double": pa.float64()}
    if len(kinds) > 1 or "other" in kinds:
        return None
    return types[kinds.pop()] if kinds else pa.int64()


def _list_array(series: pd.Series, kind: pa.DataType) -> pa.ListArray:
    """An Arrow array of lists; a row that is not an array is null."""
    missing = np.array([values is None for values in series], np.bool_)
    present = [values for values in series if values is not None and len(values)]
    lengths = np.array([0 if values is None else len(values) for values in series], np.int64)
    values = pa.array(np.concatenate(present) if present else [], kind)
    return pa.ListArray.from_arrays(pa.array(offsets_of(lengths), pa.int32()), values, mask=pa.array(missing))
