"""What runs in Spark's Python workers: Arrow batches of grouped users in, metrics or their moments out.

Executors import this module and what is below it: numpy, pyarrow and the metrics, nothing of Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.metrics.ragged import Array, BoolArray, IntArray, Ragged, offsets_of
from spark_rankeval.metrics.batch import RankingBatch
from spark_rankeval.metrics.ranking import Duplicates, Findings, Lists, Ties, rank_lists
from spark_rankeval.statistics.moments import MomentsAccumulator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spark_rankeval.metrics.base import Metric

# Users are worked in slices of about so many predictions, whatever the size of a batch: a slice's matrices stay in a
# core's cache, and memory stays bounded.
_SLICE = 1 << 17

_INT32 = np.iinfo(np.int32)

#: The columns of a grouped table that the worker reads; those of scores and grades only where there are any.
ITEMS, SCORES, LABELS, GRADES = "items", "scores", "labels", "grades"
PREDICTION_ROWS, LABEL_ROWS, VALID_PREDICTIONS = "n_prediction_rows", "n_label_rows", "n_valid_predictions"
MERGED_PREDICTIONS, SUSPECT = "n_merged_predictions", "suspect"

#: The counts that stand beside the metrics of every user.
USER_COUNTS = ("n_predictions", "n_labels", "n_relevant", "hangs_on_tie")
INVALID_COUNTS = (
    "n_invalid_predictions",
    "n_invalid_labels",
    "n_duplicate_predictions",
    "n_duplicate_labels",
    "n_conflicting_labels",
)
COUNTS = (*USER_COUNTS, *INVALID_COUNTS)
#: In the moments alone: users whose pruned list cannot settle a tie.
UNRESOLVED = "n_unresolved"


@dataclass(frozen=True)
class ScoringTask:
    """What a worker computes; small, immutable and pickled into the plan.

    Attributes:
        metrics: resolved metrics.
        relevance_threshold: what `n_relevant` counts.
        ties: how equal scores are ordered.
        duplicates: what becomes of an item that a user's predictions have twice.
        conflicting_labels: which grade an item has that is labelled twice.
        prediction_arrays: predictions come as the arrays of a table, not as grouped rows: entries are checked here.
        label_arrays: the same for labels.
        keep_unusual_grades: negative and NaN grades are no mistake.
        keep_null_items: a null item takes a rank.
    """

    metrics: tuple[Metric, ...]
    relevance_threshold: float | None = None
    ties: Ties = "item_asc"
    duplicates: Duplicates = "count"
    conflicting_labels: Literal["highest", "last"] = "highest"
    prediction_arrays: bool = False
    label_arrays: bool = False
    keep_unusual_grades: bool = False
    keep_null_items: bool = False

    @property
    def largest_cutoff(self) -> int | None:
        """The largest rank that any metric looks at; None: all ranks."""
        if any(metric.needs_whole_list for metric in self.metrics):
            return None
        return max(metric.k or 1 for metric in self.metrics)

    @property
    def needs_label_order(self) -> bool:
        """Whether any metric looks at the raw label lists."""
        return any(metric.needs_label_order for metric in self.metrics)


class Scores(NamedTuple):
    """What was computed of some users.

    Attributes:
        metrics: float64 (n_users,), one a metric.
        counts: int64 (n_users,), one for each of `COUNTS`.
        unresolved: int64 (n_users,), 1 where a pruned list leaves a tie open.
    """

    metrics: list[Array]
    counts: list[Array]
    unresolved: IntArray


def score(task: ScoringTask, batch: pa.RecordBatch) -> Scores:
    """Compute every metric of every user of an Arrow batch."""
    columns = {name: batch.column(index) for index, name in enumerate(batch.schema.names)}
    predictions = _read_predictions(task, columns)
    labels = _read_labels(task, columns)
    items, label_items, order = _comparable(predictions.ids, labels.ids)
    slices: list[tuple[RankingBatch, Findings]] = []
    item_lists, label_lists = predictions.lists.like(items), labels.lists.like(label_items)
    for start, stop in _slices(item_lists.offsets, label_lists.offsets):
        low, high = item_lists.offsets[start], item_lists.offsets[stop]
        lists = Lists(
            items=item_lists.users(start, stop),
            scores=None if predictions.values is None else predictions.lists.like(predictions.values).users(start, stop),
            labels=label_lists.users(start, stop),
            grades=None if labels.values is None else labels.lists.like(labels.values).users(start, stop),
            order=None if order is None else lambda low=low, high=high: order()[low:high],
            matchable=None if predictions.present is None else predictions.present[low:high],
            n_predictions=None if predictions.total is None else predictions.total[start:stop],
        )
        slices.append(
            rank_lists(
                lists,
                ties=task.ties,
                duplicates=task.duplicates,
                largest_cutoff=task.largest_cutoff,
                conflicting=task.conflicting_labels,
                keep_label_order=task.needs_label_order,
            )
        )
    if not slices:
        none = np.empty(0, np.int64)
        return Scores([np.empty(0)] * len(task.metrics), [none] * len(COUNTS), none)
    ranked = RankingBatch.concatenate([part for part, _ in slices])
    found = Findings(*map(np.concatenate, zip(*(findings for _, findings in slices), strict=True)))
    metrics = [metric.compute(ranked) for metric in task.metrics]
    counts = [
        ranked.n_predictions,
        ranked.labels.lengths,
        ranked.n_relevant(task.relevance_threshold),
        found.tied | found.cut,
        predictions.invalid,
        labels.invalid,
        found.duplicate_predictions + predictions.merged,
        found.duplicate_labels,
        found.conflicting_labels,
    ]
    unresolved = found.cut if SUSPECT not in columns else found.cut | _whole(columns[SUSPECT])
    return Scores(metrics, counts, unresolved)


def _slices(items: IntArray, labels: IntArray) -> Iterator[tuple[int, int]]:
    """Consecutive users whose lists together have about `_SLICE` entries; one user at least."""
    n_users = len(items) - 1
    if not n_users:
        return
    piece = (items + labels)[:-1] // _SLICE
    bounds = np.flatnonzero(np.diff(piece)) + 1
    edges = [0, *bounds.tolist(), n_users]
    yield from zip(edges[:-1], edges[1:], strict=True)


class _Side(NamedTuple):
    """One side of the input: ids, their scores or grades, and what was wrong with them."""

    lists: Ragged
    ids: pa.Array
    values: Array | None
    invalid: IntArray
    merged: IntArray
    present: BoolArray | None = None
    total: IntArray | None = None


def _read_predictions(task: ScoringTask, columns: dict[str, pa.Array]) -> _Side:
    rows = _whole(columns[PREDICTION_ROWS])
    ids, offsets = _flat(columns[ITEMS])
    lists = Ragged(np.empty(len(ids), np.bool_), offsets)
    merged = _whole(columns[MERGED_PREDICTIONS]) if MERGED_PREDICTIONS in columns else np.zeros(len(rows), np.int64)
    if task.prediction_arrays:
        side = _check_arrays(rows, columns[ITEMS], columns.get(SCORES), _bad_score, task.keep_null_items)
        return side._replace(total=_whole(columns[VALID_PREDICTIONS])) if VALID_PREDICTIONS in columns else side
    scores = _numbers(_flat(columns[SCORES])[0])
    if VALID_PREDICTIONS in columns:
        total = _whole(columns[VALID_PREDICTIONS])
        return _Side(lists, ids, scores, rows - total - merged, merged, total=total)
    return _Side(lists, ids, scores, rows - lists.lengths - merged, merged)


def _read_labels(task: ScoringTask, columns: dict[str, pa.Array]) -> _Side:
    rows = _whole(columns[LABEL_ROWS])
    if task.label_arrays:
        bad = _never if task.keep_unusual_grades else _bad_grade
        return _check_arrays(rows, columns[LABELS], columns.get(GRADES), bad, keep_null_items=False)
    ids, offsets = _flat(columns[LABELS])
    lists = Ragged(np.empty(len(ids), np.bool_), offsets)
    grades = _numbers(_flat(columns[GRADES])[0]) if GRADES in columns else None
    return _Side(lists, ids, grades, rows - lists.lengths, np.zeros(len(rows), np.int64))


def _bad_score(values: Array) -> BoolArray:
    return np.isnan(values)


def _bad_grade(values: Array) -> BoolArray:
    return ~(values >= 0)


def _never(values: Array) -> BoolArray:
    return np.zeros(len(values), np.bool_)


def _check_arrays(
    rows: IntArray,
    ids_column: pa.Array,
    values_column: pa.Array | None,
    bad: Callable[[Array], BoolArray],
    keep_null_items: bool,
) -> _Side:
    """Read one side that came as arrays; entries that cannot be used are left out and counted.

    Args:
        rows: how many rows of the table each user has: 0 where the table does not have the user.
        ids_column: the arrays of ids.
        values_column: the parallel arrays of scores or grades, if any.
        bad: which scores or grades cannot be used.
        keep_null_items: a null id is no mistake, but an item that has no label.
    """
    # A user in several rows keeps the first; a row with a null array says nothing.
    invalid = np.maximum(rows - 1, 0) + ((rows > 0) & _nulls(ids_column))
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
            invalid += np.where(unequal, np.maximum(np.maximum(value_lengths, lists.lengths), 1), 0)
            value_user = np.repeat(np.arange(len(rows)), value_lengths)
            flat_values = flat_values.filter(pa.array(~unequal[value_user]))
            keep = ~unequal[lists.user]
            ids, lists = ids.filter(pa.array(keep)), lists.where(keep)
        values = _numbers(flat_values)
    missing = _nulls(ids)
    if pa.types.is_floating(ids.type) and len(ids) and np.isnan(_numbers(ids).min()):
        missing = missing | np.isnan(_numbers(ids))
    wrong = np.zeros(len(ids), np.bool_) if keep_null_items else missing
    if values is not None:
        wrong = wrong | bad(values)
    present = ~missing if keep_null_items and missing.any() else None
    if wrong.any():
        invalid = invalid + np.bincount(lists.user[wrong], minlength=len(rows))
        keep = ~wrong
        ids, values, lists = ids.filter(pa.array(keep)), None if values is None else values[keep], lists.where(keep)
        present = None if present is None else present[keep]
    return _Side(lists, ids, values, invalid, none, present)


def _flat(column: pa.Array) -> tuple[pa.Array, IntArray]:
    """The values of all lists, and the offsets; a null list is an empty one."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return column.flatten(), offsets_of(lengths)


def _whole(column: pa.Array) -> IntArray:
    """Whole numbers, 0 for null."""
    values: IntArray = pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return values


def _numbers(values: pa.Array) -> Array:
    """float64, NaN for null."""
    numbers: Array = values.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    return numbers


def _nulls(values: pa.Array) -> BoolArray:
    if not values.null_count:
        return np.zeros(len(values), np.bool_)
    nulls: BoolArray = values.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _comparable(items: pa.Array, labels: pa.Array) -> tuple[Array, Array, Callable[[], Array] | None]:
    """Ids as numpy arrays that compare: numbers as they are, text as codes.

    Returns:
        the items, the labels, and for text what gives the items' places in the order of their UTF-8 bytes.
    """
    if not (pa.types.is_string(items.type) or pa.types.is_large_string(items.type)):
        fill = 0.0 if pa.types.is_floating(items.type) else 0
        return (*_narrow(_filled(items, fill), _filled(labels, fill)), None)
    both = pa.concat_arrays([items, labels.cast(items.type)]).dictionary_encode()
    codes = _filled(both.indices, 0)
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


def _filled(values: pa.Array, fill: float) -> Array:
    filled: Array = (pc.fill_null(values, fill) if values.null_count else values).to_numpy(zero_copy_only=False)
    return filled


def score_batches(
    task: ScoringTask, passed_on: tuple[str, ...], names: tuple[str, ...]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow``: the metrics and counts of every user.

    Args:
        task: what to compute.
        passed_on: columns that go through unchanged, first.
        names: the metrics' column names.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            scores = score(task, batch)
            kept = [batch.column(batch.schema.get_field_index(name)) for name in passed_on]
            columns = [*kept, *map(pa.array, scores.metrics), *map(pa.array, scores.counts)]
            yield pa.RecordBatch.from_arrays(columns, names=[*passed_on, *names, *COUNTS])

    return run


#: The columns of a state: what `moments_batches` and `moments_of_columns` yield.
STATE_INDEX = "index"


def moments_batches(task: ScoringTask, no_user: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow``: the moments of the metrics and counts of all users of a partition.

    Args:
        task: what to compute.
        no_user: a column of booleans: rows that belong to nobody, of which only the invalid rows are counted.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        moments = _TableMoments(len(task.metrics) + 1 + len(USER_COUNTS))
        for batch in batches:
            scores = score(task, batch)
            nobody = _filled(batch.column(batch.schema.get_field_index(no_user)), 0).astype(np.bool_)
            users = [*scores.metrics, scores.unresolved, *scores.counts[: len(USER_COUNTS)]]
            moments.add(users, scores.counts[len(USER_COUNTS) :], nobody)
        yield moments.batch()

    return run


def moments_of_columns(
    columns: tuple[str, ...], counts: tuple[str, ...], no_user: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow``: the moments of columns that hold a per-user table's values.

    Args:
        columns: columns of users' values; null is NaN.
        counts: columns of counts of invalid rows, also of those that belong to nobody.
        no_user: a column of booleans: rows that belong to nobody.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        moments = _TableMoments(len(columns))
        for batch in batches:
            by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
            values = [_numbers(by_name[name]) for name in columns]
            invalid = [_whole(by_name[name]).astype(np.float64) for name in counts]
            nobody = _filled(by_name[no_user], 0).astype(np.bool_)
            moments.add(values, invalid, nobody)
        yield moments.batch()

    return run


class _TableMoments:
    """The moments of users' columns, and of counts that also rows without a user have."""

    def __init__(self, n_columns: int) -> None:
        self._users = MomentsAccumulator(n_columns)
        self._counts = MomentsAccumulator(len(INVALID_COUNTS))

    def add(self, users: list[Array], counts: list[Array], nobody: BoolArray) -> None:
        somebody = ~nobody if nobody.any() else slice(None)
        for index, values in enumerate(users):
            self._users.add(index, values[somebody].astype(np.float64, copy=False))
        for index, values in enumerate(counts):
            self._counts.add(index, values.astype(np.float64, copy=False))

    def batch(self) -> pa.RecordBatch:
        users, counts = self._users.state(), self._counts.state()
        state: dict[str, Any] = {name: np.concatenate([users[name], counts[name]]) for name in users}
        n = len(state["n"])
        return pa.RecordBatch.from_pydict({STATE_INDEX: np.arange(n, dtype=np.int32), **state})
