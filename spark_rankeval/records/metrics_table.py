"""The long table of metrics that the runs of a job share: what of a summary's row each of its columns holds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from spark_rankeval.records.summary import SummaryRow

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The attribute of `SummaryRow` that is in a column, by the column.
COLUMNS = {
    "model": "model",
    "dialect": "dialect",
    "metric": "metric",
    "k": "cutoff",
    "relevance": "relevance",
    "slice": "slice",
    "value": "mean",
    "low": "interval_low",
    "high": "interval_high",
    "level": "interval_level",
    "interval": "interval_method",
    "n": "n_users",
    "undefined": "n_undefined",
    "std": "std",
    "standard_error": "standard_error",
    "minimum": "minimum",
    "median": "median",
    "maximum": "maximum",
    "zeros": "n_zero",
    "quantiles": "quantiles",
    "user_weight": "user_weight",
    "effective_n": "effective_n_users",
    "definition": "definition",
    "over_all": "over_all",
    "moments": "moments",
}
#: The columns that tell runs apart, and when they were.
RUN_ID, TIME = "run_id", "time"
_COUNTS = ("n", "undefined", "zeros")
_FLOATS = ("value", "low", "high", "level", "std", "standard_error", "minimum", "median", "maximum", "effective_n")
_NO_INTERVAL = "the table of metrics does not say why"


def values_of(row: SummaryRow) -> list[Any]:
    """A row's values in the order of `COLUMNS`."""
    return [dict(row.quantiles) if name == "quantiles" else getattr(row, name) for name in COLUMNS.values()]


def row_of(record: Mapping[str, Any]) -> SummaryRow:
    """The row of a summary from one of the table, by column.

    Why there is no interval is the one thing that the table does not hold.

    Args:
        record: at least the columns of `COLUMNS`; null is NaN in figures. Tables of an earlier version lack the last two.

    Raises:
        KeyError: a column is not there.
    """
    values = {attribute: record[name] for name, attribute in COLUMNS.items() if name not in ("over_all", "moments")}
    for name in _FLOATS:
        value = values[COLUMNS[name]]
        values[COLUMNS[name]] = math.nan if value is None else float(value)
    for name in _COUNTS:
        values[COLUMNS[name]] = int(record[name])
    values["quantiles"] = dict(record["quantiles"] or {})
    known = not math.isnan(values["interval_low"])
    return SummaryRow(
        **values,
        no_interval="" if known else _NO_INTERVAL if values["interval_method"] else "not asked for",
        over_all=bool(record.get("over_all")),
        moments=record.get("moments") or "",
    )
