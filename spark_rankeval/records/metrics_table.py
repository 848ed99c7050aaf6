"""The long table of metrics that the runs of a job share: what each of its columns holds of a summary's row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from spark_rankeval.records.summary import SummaryRow

# The attributes of `SummaryRow` that columns call otherwise.
_ATTRIBUTES = {
    "k": "cutoff", "value": "mean", "low": "interval_low", "high": "interval_high", "level": "interval_level",
    "interval": "interval_method", "n": "n_users", "undefined": "n_undefined", "zeros": "n_zero", "effective_n": "effective_n_users",
}  # fmt: skip
#: The column of the sums of groups of clusters.
CLUSTER_SUMS = "cluster_sums"
_NAMES = (
    "model", "dialect", "metric", "k", "relevance", "slice", "value", "low", "high", "level", "interval", "n", "undefined", "std",
    "standard_error", "minimum", "median", "maximum", "zeros", "quantiles", "user_weight", "effective_n", "definition", "over_all",
    "moments", "fingerprints", "cluster", "n_clusters", "design_effect", CLUSTER_SUMS,
    "effective_n_clusters", "df",
)  # fmt: skip
#: The attribute of `SummaryRow` that is in a column, by the column.
COLUMNS = {name: _ATTRIBUTES.get(name, name) for name in _NAMES}
#: The columns about clusters; and all that tables of an earlier version lack.
OF_CLUSTERS = ("cluster", "n_clusters", "design_effect", "effective_n_clusters", "df")
LATER = ("over_all", "moments", "fingerprints", CLUSTER_SUMS, *OF_CLUSTERS)
#: The columns that tell runs apart, and when they were.
RUN_ID, TIME = "run_id", "time"
_KINDS = {item.name: item.type for item in fields(SummaryRow)}
_NO_INTERVAL = "the table of metrics does not say why"


def values_of(row: SummaryRow) -> list[Any]:
    """A row's values in the order of `COLUMNS`."""
    values = (getattr(row, name) for name in COLUMNS.values())
    return [dict(value) if isinstance(value, Mapping) else value for value in values]


def row_of(record: Mapping[str, Any]) -> SummaryRow:
    """The row of a summary from one of the table, which says all but why there is no interval; null is NaN in figures.

    Tables of an earlier version lack the columns of `LATER`. Any other column that is not there is a `KeyError`.
    """
    values = {attribute: record[name] for name, attribute in COLUMNS.items() if name not in LATER}
    values |= {name: record.get(name) for name in OF_CLUSTERS[2:]} | {"n_clusters": record.get("n_clusters") or 0}
    for attribute, value in values.items():
        if _KINDS[attribute] == "float":
            values[attribute] = math.nan if value is None else float(value)
        elif _KINDS[attribute] == "int":
            values[attribute] = int(value)
    values["quantiles"] = dict(record["quantiles"] or {})
    known = not math.isnan(values["interval_low"])
    why_not = _NO_INTERVAL if values["interval_method"] else "not asked for"
    return SummaryRow(
        **values,
        no_interval="" if known else why_not,
        over_all=bool(record.get("over_all")),
        moments=record.get("moments") or "",
        cluster=record.get("cluster") or "",
        cluster_sums=record.get(CLUSTER_SUMS) or "",
        fingerprints=dict(record.get("fingerprints") or {}),
    )
