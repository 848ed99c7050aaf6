"""What a call gave as lines of text that lose nothing."""

import dataclasses
import json
import math
import os
import re
import warnings
from datetime import date, datetime
from unittest import mock

import pandas as pd

from spark_rankeval import Result
from spark_rankeval.errors import SparkRankEvalError, SparkRankEvalWarning
from spark_rankeval.records.columns import Row

# Tables wrap their sentences at the width of the terminal, which differs from one machine to the next.
_TERMINAL = {"COLUMNS": "140"}
# The columns of a summary that tell its figures.
_SHOWN = [
    "model", "slice", "metric", "relevance", "mean", "n_users", "n_undefined", "std", "standard_error", "interval_low",
    "interval_high", "interval_method", "no_interval", "median", "maximum", "n_clusters",
]  # fmt: skip


def lines_of(call, world, *, may_fail=False):
    """The lines of what a call returns, or of the error that it raises if it may fail, and of its warnings."""
    with warnings.catch_warnings(record=True) as caught, mock.patch.dict(os.environ, _TERMINAL):
        warnings.simplefilter("always")
        try:
            lines = list(_lines(call(world)))
        except SparkRankEvalError as error:
            if not may_fail:
                raise
            lines = _lines_of_error(error)
    said = [str(each.message) for each in caught if issubclass(each.category, SparkRankEvalWarning)]
    # A warning ends with advice that only Sail needs.
    lines += [f"warning: {words.partition('. On Sail')[0]}" for words in said]
    return lines


def _lines_of_error(error):
    counts = getattr(error, "counts", {})
    return [f"{type(error).__name__}: {error}", *([f"counts: {_json(counts)}"] if counts else [])]


def _lines(value):
    """A value as lines: one for each row of a table, and one for each entry of a list in a result."""
    if isinstance(value, pd.DataFrame):
        yield " | ".join(value.columns)
        # Versions of pandas have None, NaN or NA for what is missing.
        for row in value.itertuples(index=False):
            yield " | ".join("" if _is_missing(cell) else _text(cell) for cell in row)
    elif hasattr(value, "collect"):
        yield from _lines_of_table(value)
    elif isinstance(value, Result):
        yield from _lines_of_result(value)
    elif hasattr(value, "to_json"):
        yield from _lines_of_dict(json.loads(value.to_json()))
    elif isinstance(value, dict):
        yield from _lines_of_dict(value)
    elif isinstance(value, str):
        yield from value.splitlines()
    elif isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        for each in value:
            yield from _lines(each)
    elif hasattr(value, "to_pandas"):
        yield from _lines(value.to_pandas())
    else:
        yield _json(value)


def _lines_of_result(result):
    """The figures without the sums behind them; the plan depends on the engine. `whole` gives a result as it is stored."""
    frame = result.to_pandas()
    quantiles = [name for name in frame.columns if re.fullmatch(r"q[\d.]+", name)]
    yield from _lines(frame[[*_SHOWN, *quantiles]])
    for model, quality in result.qualities.items():
        yield f"quality {model}: {_json({name: n for name, n in quality.to_dict().items() if n})}"
    yield from _lines_of_dict({"fingerprints": result.fingerprints})
    yield from (f"note: {note}" for note in result.notes)
    yield from map(_json, result.item_groups)


def whole(result):
    """A result as it is stored, with the definitions and the sums."""
    return json.loads(result.to_json())


def _lines_of_dict(values):
    for name, value in values.items():
        if name == "fingerprints":
            # Those in a table of Spark are a map, which has no order.
            yield f"{name}: {_text(value)}"
        elif isinstance(value, list) and value:
            yield from (f"{name}: {_json(each)}" for each in value)
        elif isinstance(value, dict) and any(isinstance(each, dict | list) for each in value.values()):
            yield from (f"{name}.{key}: {_json(each)}" for key, each in value.items())
        else:
            yield f"{name}: {_json(value)}"


def _lines_of_table(frame):
    """The columns with their types and marks, and the rows in order of their text."""
    for field in frame.schema.fields:
        marks = f" {_json(dict(sorted(field.metadata.items())))}" if field.metadata else ""
        yield f"column {field.name}: {field.dataType.simpleString()}{marks}"
    yield from sorted(" | ".join(map(_text, row)) for row in frame.collect())


def _text(value):
    """A cell; of numbers the shortest text that reads back as the same bits."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else repr(float(value))
    if isinstance(value, dict):
        return f"{{{', '.join(sorted(f'{_text(key)}: {_text(each)}' for key, each in value.items()))}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_text, value))}]"
    return value.isoformat() if isinstance(value, date | datetime) else str(value)


def _is_missing(cell):
    return cell is None or cell is pd.NA or (isinstance(cell, float) and math.isnan(cell))


def _json(value):
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value):
    if isinstance(value, Row):
        return value.by_column()
    if dataclasses.is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    return _text(value)
