"""Predictions of several models that come in the same lists, parted into lists of each model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_rankeval.ranking.ragged import Ragged, offsets_of, pieces
from spark_rankeval.worker.grouped_row import (
    FACTS,
    INFINITE_PREDICTIONS,
    ITEMS,
    MARKS,
    PREDICTION_ROWS,
    SCORES,
    hash_column,
    of_model,
)
from spark_rankeval.worker.reading import columns_of, filled, flat

if TYPE_CHECKING:
    from collections.abc import Iterator

    Batches = Iterator[pa.RecordBatch]

# The mark of each row is the place of its model, then what kind of row it is, then the hash of the row; without a hash it has 32 bits.
#: How many bits of a mark are the place of the model, and how many the kind of the row.
MODEL_BITS, KIND_BITS = 16, 2
#: The kinds of rows: in the lists; left out; left out for its infinite score.
RANKED, REJECTED, OF_INFINITE_SCORE = 0, 1, 2
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
    values, offsets_of_marks = flat(columns.pop(MARKS))
    marks = filled(values, 0)
    # The lowest bits, in a type that sorts quickly.
    model, kind = marks.astype(np.uint16), (marks >> MODEL_BITS) & ((1 << KIND_BITS) - 1)
    n_cells = n_models * batch.num_rows
    cells = model.astype(np.int64) * batch.num_rows + np.repeat(np.arange(batch.num_rows), np.diff(offsets_of_marks))
    rows = lengths = np.bincount(cells, minlength=n_cells)
    infinite = None
    if INFINITE_PREDICTIONS in columns:
        infinite = np.bincount(cells[kind == OF_INFINITE_SCORE], minlength=n_cells)
    ranked = kind == RANKED
    if not ranked.all():
        marks, model, lengths = marks[ranked], model[ranked], np.bincount(cells[ranked], minlength=n_cells)
    # Users stay in their order, so that only the models, which are few, are sorted.
    order = np.argsort(model, kind="stable")
    bounds = offsets_of(lengths)
    totals = Ragged(marks[order] >> (MODEL_BITS + KIND_BITS), bounds).summed() if are_hashed else None
    lists = {
        name: flat(columns.pop(name))[0].take(pa.array(order)) for name in (ITEMS, SCORES, FACTS) if name in columns
    }
    for place in range(n_models):
        of_users = slice(place * batch.num_rows, (place + 1) * batch.num_rows)
        offsets = bounds[place * batch.num_rows : (place + 1) * batch.num_rows + 1]
        for name, entries in lists.items():
            part = entries.slice(offsets[0], offsets[-1] - offsets[0])
            columns[of_model(name, place)] = pa.LargeListArray.from_arrays(offsets - offsets[0], part)
        columns[of_model(PREDICTION_ROWS, place)] = pa.array(rows[of_users])
        if totals is not None:
            # Without a row there is no hash.
            columns[hash_column(of_model("predictions", place))] = pa.array(totals[of_users], mask=rows[of_users] == 0)
        if infinite is not None:
            columns[of_model(INFINITE_PREDICTIONS, place)] = pa.array(infinite[of_users])
    return pa.RecordBatch.from_pydict(columns)
