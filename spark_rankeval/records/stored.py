"""Convert a result, except its tables, to plain values and back."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from spark_rankeval.errors import InputError
from spark_rankeval.records.fingerprints import fingerprints_of, of_model
from spark_rankeval.records.item_groups import ItemGroup
from spark_rankeval.records.quality import DataQuality
from spark_rankeval.records.summary import SummaryRow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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
