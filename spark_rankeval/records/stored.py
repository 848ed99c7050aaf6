"""Convert a result to plain values and back, with the fingerprints of its tables; the columns of the table of metrics."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any, NamedTuple, NoReturn

from spark_rankeval.errors import InputError, listed
from spark_rankeval.records.quality import DataQuality
from spark_rankeval.records.slices import ItemGroup
from spark_rankeval.records.summary import SummaryRow

PREDICTIONS = "predictions"
#: The tables that two evaluations must share for a fair comparison, and what they are called in words.
SHARED = {"labels": "labels", "users": "users", "exclude": "exclusions"}


def fingerprints_of(rows: Sequence[SummaryRow]) -> dict[str, str]:
    """The fingerprints of all tables that some rows were computed from.

    Those of several models are "predictions of als" and so on, and so are those of other tables that models do not share.
    """
    by_model: dict[str, Mapping[str, str]] = {}
    for row in rows:
        by_model.setdefault(row.model, row.fingerprints)
    tables = dict.fromkeys(table for fingerprints in by_model.values() for table in fingerprints)
    found: dict[str, str] = {}
    for table in tables:
        digits = {model: fingerprints.get(table) for model, fingerprints in by_model.items()}
        is_shared = len(digits) == 1 or (table != PREDICTIONS and len(set(digits.values())) == 1)
        for model, of_table in digits.items():
            if of_table is not None:
                found[table if is_shared else f"{table} of {model}"] = of_table
    return found


def of_model(fingerprints: Mapping[str, str], model: str) -> dict[str, str]:
    """Those of the tables of one model, of what `fingerprints_of` returned.

    >>> of_model({"predictions of als": "1", "predictions of popular": "2", "labels": "3"}, "als")
    {'predictions': '1', 'labels': '3'}
    """
    # No table has a blank in its name.
    tables = {name: name.partition(" ")[0] for name in fingerprints}
    own = {name: table for name, table in tables.items() if name in (table, f"{table} of {model}")}
    return {table: fingerprints[name] for name, table in own.items()}


def changed_tables(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """The tables, in words, that two evaluations should share and do not; none if either has no fingerprints.

    >>> changed_tables({"labels": "1", "predictions": "2"}, {"labels": "1", "exclude": "5", "predictions": "3"})
    ['exclusions']
    """
    if not one or not other:
        return []
    return [words for table, words in SHARED.items() if one.get(table) != other.get(table)]


def not_shared_in_words(n_users: Mapping[str, int]) -> str:
    """The tables that two sides do not share, from how many users have other rows in them.

    >>> not_shared_in_words({"labels": 1200, "users": 0, "exclude": 1})
    'labels (1,200 users) and exclusions (1 user)'
    """
    return listed([f"{SHARED[table]} ({n:,} user{'s' * (n != 1)})" for table, n in n_users.items() if n])


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


_NO_RESULT = "this is not a result, nor what Result.to_dict or to_json returned"


class Stored(NamedTuple):
    """The fields of a result that are not tables, in its order."""

    summary: tuple[SummaryRow, ...]
    qualities: dict[str, DataQuality]
    columns: dict[str, str]
    plan: tuple[str, ...]
    notes: tuple[str, ...]
    item_groups: tuple[ItemGroup, ...] = ()


def stored_values(
    summary: Sequence[SummaryRow],
    columns: Mapping[str, str],
    qualities: Mapping[str, DataQuality],
    notes: Sequence[str],
    item_groups: Sequence[ItemGroup] = (),
) -> dict[str, Any]:
    """The plain values of a result that `read_stored` reads."""
    stored: dict[str, Any] = {"summary": [row.stored() for row in summary], "columns": dict(columns)}
    if qualities:
        stored["data_quality"] = DataQuality.of_models(list(qualities.values())).to_dict()
    if fingerprints := fingerprints_of(summary):
        stored["fingerprints"] = fingerprints
    if notes:
        stored["notes"] = list(notes)
    if item_groups:
        stored["item_groups"] = list(map(asdict, item_groups))
    if len(qualities) > 1:
        stored["data_quality_of_models"] = {name: quality.to_dict() for name, quality in qualities.items()}
    return stored


def read_stored(stored: Mapping[str, Any]) -> Stored:
    """Read the output of `Result.to_dict`, or a job's manifest; anything else is an `InputError`."""
    try:
        rows, fingerprints = map(SummaryRow.from_stored, stored["summary"]), dict(stored.get("fingerprints", {}))
        summary = tuple(replace(row, fingerprints=of_model(fingerprints, row.model)) for row in rows)
        plan, notes = tuple(stored.get("plan", ())), tuple(stored.get("notes", ()))
        columns = dict(stored.get("columns", {}))
        result = Stored(summary, qualities_in(stored, summary), columns, plan, notes, item_groups_of(stored))
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"{_NO_RESULT} ({type(error).__name__}: {error})") from error
    if not summary:
        raise InputError(f"{_NO_RESULT} (it has no rows)")
    return result


def read_text(text: str) -> Any:
    """Read JSON; a string that is not JSON is an `InputError`."""
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{_NO_RESULT} ({type(error).__name__}: {error})") from error


def qualities_in(stored: Mapping[str, Any], rows: Sequence[SummaryRow]) -> dict[str, DataQuality]:
    """The counts by model in the output of `Result.to_dict`, which stores those of a single model without its name."""
    several = stored.get("data_quality_of_models")
    counts = several or {row.model: stored["data_quality"] for row in rows[:1] if "data_quality" in stored}
    return {model: DataQuality.of(**each) for model, each in counts.items()}


def item_groups_of(stored: Mapping[str, Any]) -> tuple[ItemGroup, ...]:
    """The groups of items in the output of `Result.to_dict`."""
    return tuple(ItemGroup(**group) for group in stored.get("item_groups", ()))


def no_users(why: str) -> Callable[..., NoReturn]:
    """A stand-in for the table of users of a result that has none: it raises an `InputError` that says why."""

    def refuse(*_: object) -> NoReturn:
        raise InputError(why)

    return refuse


READ_BACK = no_users(
    "a result that was read back has no values of users; summarise the table that result.write(path) wrote, as in "
    "summarise(spark.read.parquet(path))"
)
