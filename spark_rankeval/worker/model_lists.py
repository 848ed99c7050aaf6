"""Predictions of several models that come in the same lists, parted into lists of each model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_rankeval.ranking.ragged import Ragged, offsets_of, pieces
from spark_rankeval.worker.facts import FACTS
from spark_rankeval.worker.reading import (
    INFINITE_PREDICTIONS,
    ITEMS,
    PREDICTION_ROWS,
    SCORES,
    columns_of,
    flat,
    hash_column,
    of_model,
    whole_numbers,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_rankeval.ranking.ragged import Array

    Batches = Iterator[pa.RecordBatch]

#: The mark of each prediction in the lists: the hash of its row, then the place of its model; of 32 bits, the place alone. The marks of
#: rows that cannot be ranked have 1 in the place of the hash if the row was left out for its infinite score, and else 0.
MARKS, MARKS_OF_OTHERS = "marks", "marks_of_others"
#: How many bits of a mark are the place of the model.
MODEL_BITS = 16
# So many predictions of all models are parted at a time: they are in memory twice.
_TOGETHER = 1 << 20


def with_lists_of_models(n_models: int, batches: Batches) -> Batches:
    """The batches with lists of each model, cut into parts of fewer users; as they are if they have such lists already."""
    for batch in batches:
        if MARKS not in batch.schema.names:
            yield batch
            continue
        _, offsets = flat(batch.column(MARKS))
        for start, stop in pieces(offsets, _TOGETHER):
            yield _parted(n_models, batch.slice(start, stop - start))


def _parted(n_models: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = columns_of(batch)
    are_hashed = not pa.types.is_int32(columns[MARKS].type.value_type)
    marks, others = _marks(columns.pop(MARKS)), _marks(columns.pop(MARKS_OF_OTHERS))
    user, model, hashes = marks
    cells, cells_of_others = model * batch.num_rows + user, others[1] * batch.num_rows + others[0]
    n_cells = n_models * batch.num_rows
    lengths = np.bincount(cells, minlength=n_cells)
    rows = lengths + np.bincount(cells_of_others, minlength=n_cells)
    infinite = np.bincount(cells_of_others[others[2] > 0], minlength=n_cells)
    # Users stay in their order, so that only the models, which are few, are sorted.
    order = np.argsort(model.astype(np.uint16), kind="stable")
    bounds = offsets_of(lengths)
    totals = Ragged(hashes[order], bounds).summed() if are_hashed else None
    lists = {
        name: flat(columns.pop(name))[0].take(pa.array(order)) for name in (ITEMS, SCORES, FACTS) if name in columns
    }
    counts_infinite = INFINITE_PREDICTIONS in columns
    for place in range(n_models):
        of_users = slice(place * batch.num_rows, (place + 1) * batch.num_rows)
        offsets = bounds[place * batch.num_rows : (place + 1) * batch.num_rows + 1]
        for name, values in lists.items():
            part = values.slice(offsets[0], offsets[-1] - offsets[0])
            columns[of_model(name, place)] = pa.LargeListArray.from_arrays(offsets - offsets[0], part)
        columns[of_model(PREDICTION_ROWS, place)] = pa.array(rows[of_users])
        if totals is not None:
            # Without a row there is no hash.
            columns[hash_column(of_model("predictions", place))] = pa.array(totals[of_users], mask=rows[of_users] == 0)
        if counts_infinite:
            columns[of_model(INFINITE_PREDICTIONS, place)] = pa.array(infinite[of_users])
    return pa.RecordBatch.from_pydict(columns)


def _marks(column: pa.Array) -> tuple[Array, Array, Array]:
    """Whose each mark is, its model, and what stands beside the model; int64."""
    marks, offsets = flat(column)
    values = whole_numbers(marks)
    user = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return user, values & ((1 << MODEL_BITS) - 1), values >> MODEL_BITS
