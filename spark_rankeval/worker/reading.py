"""From Arrow columns to ids, scores and grades in numpy; what cannot be used is left out and counted."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.metrics.ragged import Array, BoolArray, IntArray, Ragged, offsets_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_rankeval.worker.task import ScoringTask

_INT32 = np.iinfo(np.int32)

#: The columns of a grouped table that the worker reads; those of scores and grades only where there are any, and the
#: counts of rows only where rows were grouped.
ITEMS, SCORES, LABELS, GRADES = "items", "scores", "labels", "grades"
PREDICTION_ROWS, LABEL_ROWS, VALID_PREDICTIONS = "n_prediction_rows", "n_label_rows", "n_valid_predictions"
MERGED_PREDICTIONS, NO_USER = "n_merged_predictions", "no_user"


class Side(NamedTuple):
    """One side of the input: ids, their scores or grades, and what was wrong with them."""

    lists: Ragged
    ids: pa.Array
    values: Array | None
    invalid: IntArray
    merged: IntArray
    present: BoolArray | None = None
    total: IntArray | None = None


def read_predictions(task: ScoringTask, columns: dict[str, pa.Array]) -> Side:
    """The predictions of a batch of grouped users."""
    rows = _rows(columns, PREDICTION_ROWS)
    ids, offsets = _flat(columns[ITEMS])
    lists = Ragged(np.empty(len(ids), np.bool_), offsets)
    merged = (
        whole_numbers(columns[MERGED_PREDICTIONS]) if MERGED_PREDICTIONS in columns else np.zeros(len(rows), np.int64)
    )
    if task.prediction_arrays:
        nobody = _nobody(columns, len(rows))
        side = _check_arrays(rows, nobody, columns[ITEMS], columns.get(SCORES), _bad_score, task.keep_null_items)
        return side._replace(total=whole_numbers(columns[VALID_PREDICTIONS])) if VALID_PREDICTIONS in columns else side
    scores = numbers(_flat(columns[SCORES])[0])
    if VALID_PREDICTIONS in columns:
        total = whole_numbers(columns[VALID_PREDICTIONS])
        return Side(lists, ids, scores, rows - total - merged, merged, total=total)
    return Side(lists, ids, scores, rows - lists.lengths - merged, merged)


def read_labels(task: ScoringTask, columns: dict[str, pa.Array]) -> Side:
    """The labels of a batch of grouped users."""
    rows = _rows(columns, LABEL_ROWS)
    if task.label_arrays:
        bad = _never if task.keep_unusual_grades else partial(_bad_grade, largest=task.largest_grade)
        nobody = _nobody(columns, len(rows))
        return _check_arrays(rows, nobody, columns[LABELS], columns.get(GRADES), bad, keep_null_items=False)
    ids, offsets = _flat(columns[LABELS])
    lists = Ragged(np.empty(len(ids), np.bool_), offsets)
    grades = numbers(_flat(columns[GRADES])[0]) if GRADES in columns else None
    return Side(lists, ids, grades, rows - lists.lengths, np.zeros(len(rows), np.int64))


def _rows(columns: dict[str, pa.Array], name: str) -> IntArray:
    """How many rows of a table each user has; 1 where a row is a user and nobody counted."""
    return whole_numbers(columns[name]) if name in columns else np.ones(len(columns[ITEMS]), np.int64)


def _bad_score(values: Array) -> BoolArray:
    return np.isnan(values)


def _bad_grade(values: Array, largest: float) -> BoolArray:
    return ~((values >= 0) & (values <= largest))


def _never(values: Array) -> BoolArray:
    return np.zeros(len(values), np.bool_)


def _nobody(columns: dict[str, pa.Array], n_users: int) -> BoolArray:
    return filled(columns[NO_USER], 0).astype(np.bool_) if NO_USER in columns else np.zeros(n_users, np.bool_)


def _check_arrays(
    rows: IntArray,
    nobody: BoolArray,
    ids_column: pa.Array,
    values_column: pa.Array | None,
    bad: Callable[[Array], BoolArray],
    keep_null_items: bool,
) -> Side:
    """Read one side that came as arrays; entries that cannot be used are left out and counted.

    Args:
        rows: how many rows of the table each user has: 0 where the table does not have the user.
        nobody: rows without a user: they count as they are, and hold nothing.
        ids_column: the arrays of ids.
        values_column: the parallel arrays of scores or grades, if any.
        bad: which scores or grades cannot be used.
        keep_null_items: a null id is no mistake, but an item that has no label.
    """
    # A user in several rows keeps the first; a row with a null array says nothing.
    null_row = _nulls(ids_column) if values_column is None else _nulls(ids_column) | _nulls(values_column)
    invalid = np.where(nobody, rows, np.maximum(rows - 1, 0) + ((rows > 0) & null_row))
    none = np.zeros(len(rows), np.int64)
    ids, offsets = _flat(ids_column)
    lists = Ragged(np.empty(len(ids), np.bool_), offsets)
    values: Array | None = None
    if values_column is not None:
        flat_values, value_offsets = _flat(values_column)
        if (value_offsets != offsets).any():
            # Which score belongs to which item is not known where the two arrays are not equally long.
            value_lengths = np.diff(value_offsets)
            unequal = value_lengths != lists.lengths
            invalid += unequal & ~null_row & ~nobody
            value_user = np.repeat(np.arange(len(rows)), value_lengths)
            flat_values = flat_values.filter(pa.array(~unequal[value_user]))
            keep = ~unequal[lists.user]
            ids, lists = ids.filter(pa.array(keep)), lists.where(keep)
        values = numbers(flat_values)
    if nobody.any():
        keep = ~nobody[lists.user]
        ids, values = ids.filter(pa.array(keep)), None if values is None else values[keep]
        lists = lists.where(keep)
    missing = _nulls(ids)
    if pa.types.is_floating(ids.type) and len(ids) and np.isnan(numbers(ids).min()):
        missing = missing | np.isnan(numbers(ids))
    wrong = np.zeros(len(ids), np.bool_) if keep_null_items else missing
    if values is not None:
        wrong = wrong | bad(values)
    present = ~missing if keep_null_items and missing.any() else None
    if wrong.any():
        invalid = invalid + np.bincount(lists.user[wrong], minlength=len(rows))
        keep = ~wrong
        ids, values, lists = ids.filter(pa.array(keep)), None if values is None else values[keep], lists.where(keep)
        present = None if present is None else present[keep]
    return Side(lists, ids, values, invalid, none, present)


def _flat(column: pa.Array) -> tuple[pa.Array, IntArray]:
    """The values of all lists, and the offsets; a null list is an empty one."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return column.flatten(), offsets_of(lengths)


def whole_numbers(column: pa.Array) -> IntArray:
    """Whole numbers, 0 for null."""
    values: IntArray = pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return values


def numbers(values: pa.Array) -> Array:
    """float64, NaN for null."""
    as_floats: Array = values.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    return as_floats


def _nulls(values: pa.Array) -> BoolArray:
    if not values.null_count:
        return np.zeros(len(values), np.bool_)
    nulls: BoolArray = values.is_null().to_numpy(zero_copy_only=False)
    return nulls


def comparable(items: pa.Array, labels: pa.Array) -> tuple[Array, Array, Callable[[], Array] | None]:
    """Ids as numpy arrays that compare: numbers as they are, text as codes.

    Returns:
        the items, the labels, and for text what gives the items' places in the order of their UTF-8 bytes.
    """
    if not (pa.types.is_string(items.type) or pa.types.is_large_string(items.type)):
        fill = 0.0 if pa.types.is_floating(items.type) else 0
        return (*_narrow(filled(items, fill), filled(labels, fill)), None)
    both = pa.concat_arrays([items, labels.cast(items.type)]).dictionary_encode()
    codes = filled(both.indices, 0)
    ordered: list[Array] = []

    def order() -> Array:
        if not ordered:
            # As bytes: no collation may come between, and numbers in text are text.
            by_bytes = pc.array_sort_indices(both.dictionary.cast(pa.large_binary())).to_numpy()
            place = np.empty(len(by_bytes), np.int64)
            place[by_bytes] = np.arange(len(by_bytes))
            ordered.append(place[codes[: len(items)]] if len(by_bytes) else codes[: len(items)])
        return ordered[0]

    return codes[: len(items)], codes[len(items) :], order


def _narrow(items: Array, labels: Array) -> tuple[Array, Array]:
    """The same ids as 32-bit whole numbers where that changes none: they compare and sort twice as fast."""
    narrow = []
    for ids in (items, labels):
        if ids.dtype == np.int32 or not len(ids):
            narrow.append(ids.astype(np.int32))
            continue
        low, high = ids.min(), ids.max()
        if not (low >= _INT32.min and high <= _INT32.max):
            return items, labels
        short = ids.astype(np.int32)
        if ids.dtype.kind == "f" and not (short == ids).all():
            return items, labels
        narrow.append(short)
    return narrow[0], narrow[1]


def filled(values: pa.Array, fill: float) -> Array:
    """The values as a numpy array, with a value for null."""
    without_null: Array = (pc.fill_null(values, fill) if values.null_count else values).to_numpy(zero_copy_only=False)
    return without_null
