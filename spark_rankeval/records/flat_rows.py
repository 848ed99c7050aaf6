"""Rows of figures, dataclasses whose fields are plain values, as tables and as JSON has them."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pandas as pd

from spark_rankeval.records.summary import as_json_value

if TYPE_CHECKING:
    from collections.abc import Sequence


def frame_of(rows: Sequence[Any], kind: type) -> pd.DataFrame:
    """A row for each of some dataclasses of a kind, with the columns of its fields: of no rows, too."""
    # Plain values need no deep copy, which takes most of the time of thousands of rows.
    return pd.DataFrame([vars(row) for row in rows], columns=[item.name for item in fields(kind)])


def as_json_record(row: Any) -> dict[str, Any]:
    """The fields of a row by name, as JSON has them: NaN and infinities are null."""
    return {name: as_json_value(value) for name, value in vars(row).items()}
