"""For ``mapInArrow``: lines of files to rows, and to what the driver has to know of those that do not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.trec.files import name_of
from spark_rankeval.trec.lines import Form, parse
from spark_rankeval.worker.process import in_worker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: A row a batch and block of a file: its lines, the least id of a row, and the first that do not read.
SURVEY = "file string, block bigint, first bigint, n_lines bigint, n_wrong bigint, places array<bigint>, problems array<string>"
_SURVEY = pa.schema(
    [
        ("file", pa.string()),
        ("block", pa.int64()),
        ("first", pa.int64()),
        ("n_lines", pa.int64()),
        ("n_wrong", pa.int64()),
        ("places", pa.list_(pa.int64())),
        ("problems", pa.list_(pa.string())),
    ]
)
_MOST_EXAMPLES = 3


@in_worker
def tabulate(batches: Iterable[pa.RecordBatch], *, form: Form, keep: bool) -> Iterator[pa.RecordBatch]:
    """The columns of a form.

    Args:
        batches: ``line``, and ``file`` where the file names the model.
        form: what the lines hold.
        keep: keep a row for a line that does not read, so that it is counted later: then the file has changed since.
    """
    for batch in batches:
        parsed = parse(batch["line"], form)
        columns = dict(parsed.columns)
        if "file" in batch.schema.names:
            files = pc.dictionary_encode(batch["file"].take(pa.array(parsed.place)))
            names = pa.array([name_of(one) for one in files.dictionary.to_pylist()], pa.string())
            columns["model"] = names.take(files.indices)
        rows = pa.RecordBatch.from_pydict(columns)
        yield rows if keep or parsed.problem.null_count == len(rows) else rows.filter(pc.is_null(parsed.problem))


@in_worker
def survey_lines(batches: Iterable[pa.RecordBatch], *, form: Form) -> Iterator[pa.RecordBatch]:
    """How many lines each block of a file has and how many do not read.

    Args:
        batches: ``line``, ``file``, ``block`` (where it begins in the file), ``place`` (growing by 1 within a block).
        form: what the lines are said to hold.
    """
    for batch in batches:
        if not batch.num_rows:
            continue
        parsed = parse(batch["line"], form)
        wrong = np.zeros(batch.num_rows, np.bool_)
        wrong[parsed.place] = pc.is_valid(parsed.problem).to_numpy(zero_copy_only=False)
        problems = dict(zip(parsed.place.tolist(), parsed.problem.to_pylist(), strict=True)) if wrong.any() else {}
        place = batch["place"].to_numpy()
        blocks = batch["block"].to_numpy()
        files = pc.dictionary_encode(batch["file"])
        code = files.indices.to_numpy()
        starts = np.flatnonzero((np.diff(code, prepend=-1) != 0) | (np.diff(blocks, prepend=-1) != 0))
        rows = []
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), batch.num_rows], strict=True):
            lines = np.flatnonzero(wrong[start:end])
            some = (lines[:_MOST_EXAMPLES] + start).tolist()
            rows.append(
                {
                    "file": files.dictionary[code[start]].as_py(),
                    "block": int(blocks[start]),
                    "first": int(place[start]),
                    "n_lines": end - start,
                    "n_wrong": len(lines),
                    "places": [int(place[one]) for one in some],
                    "problems": [problems[one] for one in some],
                }
            )
        yield pa.RecordBatch.from_pylist(rows, schema=_SURVEY)
