"""From a grouped row to numpy: its columns by name, the ids, scores, grades and hashes of users, and ids that compare."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.metrics.base import as_float32
from spark_rankeval.ranking import user_lists
from spark_rankeval.ranking.user_lists import Array, BoolArray, IntArray, Ragged
from spark_rankeval.records.summary import Key
from spark_rankeval.request.call import Overlap
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.statistics.resampling import fingerprint_limbs, mixed, xxhash64


def column_of_model(name: str, model: int) -> str:
    """The column of a model's predictions, by the model's index: one table of predictions has the plain name."""
    return f"{name}_of_{model}" if model else name


#: The lists of each model, with the models' indices in the names.
ITEMS = "items"  # the predicted items
SCORES = "scores"  # their scores; ranks are negative scores
COSTS = "costs"  # what they cost
PREDICTION_ROWS = "n_prediction_rows"  # how many rows of predictions there are
VALID_PREDICTIONS = "n_valid_predictions"  # how many can be ranked, if only the best are in the lists
MERGED_PREDICTIONS = "n_merged_predictions"  # how many were left out as they repeat an item
INFINITE_PREDICTIONS = "n_infinite_predictions"  # how many were left out as infinite
#: The lists of several models as one, instead of those above.
MARKS = "marks"  # each row's model, whether it is ranked, and its hash
VECTOR = "vector"  # the user's vector
BIAS = "bias"  # what is added to the user's scores
CANDIDATES = "candidates"  # the items that the user can be recommended
CATALOGUE = "catalogue"  # the packed catalogue
SHARDS = "shards"  # what each shard says of the user's list, in the place of vector, bias and candidates
LABELS = "labels"  # the labelled items
LABEL_ROWS = "n_label_rows"  # how many rows of labels there are
NO_USER = "no_user"  # whether the rows have no user: only what is wrong with them counts
USER_HASH = "user_hash"  # the hash of the user's id
EXCLUDED = "excluded"  # the items that predictions leave out
USER_WEIGHT = "user_weight"  # the user's weight
PROBABILITY = "probability"  # the probability that people graded the user's items
GRADED = "graded"  # whether people graded the user's items
STRATUM = "stratum"  # the stratum that the user was drawn from
#: The attributes of users that are numbers; the others are texts.
NUMBERS_OF_USERS = (USER_WEIGHT, PROBABILITY, GRADED)
CLUSTER_HASH = "cluster_hash"  # the hash of the user's cluster
ATTRIBUTE_CONFLICTS = "n_attribute_conflicts"  # in how many attributes rows disagree
ABSENT = "absent"  # whether only a table of attributes has the user: not evaluated, but the slice is there


def hash_column(table: str) -> str:
    """The column of the sums of the hashes of a user's rows of a table; null if the user has no row."""
    return f"hash_of_{table}"


def filter_column(index: int) -> str:
    """The column of the values of a filter, by its index: lists of texts."""
    return f"filter_{index}"


def filters_of(columns: Mapping[str, pa.Array], model: int = 0) -> list[pa.Array]:
    """The values of the filters of a model, by filter; as bytes, because texts need not be UTF-8."""
    names = (column_of_model(filter_column(index), model) for index in itertools.count())
    lists = (flat(columns[name]) for name in itertools.takewhile(columns.__contains__, names))
    return [pa.LargeListArray.from_arrays(offsets, values.cast(pa.large_binary())) for values, offsets in lists]


def grades_column(index: int) -> str:
    """The column of the grades of a relevance, by its index."""
    return f"grades_{index}"


def label_column(name: str) -> str:
    """The column of what labels have beside their grades, by its name in `LABEL_COLUMNS`."""
    return f"label_{name}"


def slice_column(index: int) -> str:
    """The column of an attribute that divides users into slices, by its index."""
    return f"slice_{index}"


def cluster_column(index: int) -> str:
    """The column of an attribute of the user's cluster, by its index."""
    return f"cluster_{index}"


Batches = Iterator[pa.RecordBatch]


def has_single_precision(columns: dict[str, pa.Array], name: str) -> bool:
    """Whether lists of scores or grades come as floats of 32 bits: what these compare with is to be one, too."""
    lists = columns.get(name)
    return lists is not None and bool(pa.types.is_float32(lists.type.value_type))


class Side(NamedTuple):
    """One side of the input: ids, their scores or grades in each column of them, and what was wrong with them."""

    lists: Ragged  # which entries are whose
    ids: pa.Array  # of the items, an entry each
    values: list[Array]  # float64, the scores, or the grades of each relevance and then what stands beside them
    invalid: IntArray  # int64 (n_users,), how many entries or rows could not be used
    merged: IntArray  # int64 (n_users,), how many repeat an item and were left out while rows were grouped
    unusual: IntArray  # int64 (n_users,), how many have an infinite score or a negative grade
    present: BoolArray | None = None  # which entries have an item; None: all
    # int64 (n_users,), how many entries there were, if some were left out on the way; None: these.
    total: IntArray | None = None

    def where(self, keep: BoolArray) -> Side:
        """The side with some of its entries."""
        present = None if self.present is None else self.present[keep]
        values = [entries[keep] for entries in self.values]
        ids, lists = self.ids.filter(pa.array(keep)), self.lists.where(keep)
        return self._replace(lists=lists, ids=ids, values=values, present=present)


def read_predictions(task: ScoringTask, columns: dict[str, pa.Array], model: int = 0) -> Side:
    """The predictions of a model, of a batch of grouped users."""
    suffix = column_of_model("", model)
    lists = {name.removesuffix(suffix): column for name, column in columns.items() if name.endswith(suffix)}
    rows = _rows(lists, PREDICTION_ROWS)
    total = whole_numbers(lists[VALID_PREDICTIONS]) if VALID_PREDICTIONS in lists else None
    if model in task.array_models:
        scores, costs = _existing_columns(lists, SCORES), _existing_columns(lists, COSTS)
        checks: list[Callable[[Array], BoolArray]] = [
            *([np.isnan] * len(scores)),
            *(user_lists.EXTRA_COLUMNS[name].is_wrong for name in task.prediction_columns),
        ]
        side = _check_arrays(rows, columns, lists[ITEMS], [*scores, *costs], checks, task.keep_null_items)
        if total is not None:
            # Of those that were read, entries that are no items are no predictions.
            total = total - np.diff(flat(lists[ITEMS])[1]) + side.lists.lengths
        unusual = None if task.rank_infinite else _left_out
        return _counted(side, np.isinf, unusual, len(scores))._replace(total=total)
    side = side_of(lists[ITEMS], [numbers(flat(column)[0]) for column in _existing_columns(lists, SCORES, COSTS)])
    merged = whole_numbers(lists[MERGED_PREDICTIONS]) if MERGED_PREDICTIONS in lists else side.merged
    n_listed = side.lists.lengths if total is None else total
    side = side._replace(invalid=rows - n_listed - merged, merged=merged, total=total)
    if INFINITE_PREDICTIONS in lists:
        return side._replace(unusual=whole_numbers(lists[INFINITE_PREDICTIONS]))
    return _counted(side, np.isinf, None, 1)


def read_labels(task: ScoringTask, columns: dict[str, pa.Array]) -> Side:
    """The labels of a batch of grouped users; what stands beside their grades comes last of their values."""
    rows = _rows(columns, LABEL_ROWS)
    grades = _existing_columns(columns, *(grades_column(index) for index in range(len(columns))))
    value_columns = [*grades, *(columns[label_column(name)] for name in task.label_columns)]
    if task.label_arrays:
        largest = task.largest_grade
        checks: list[Callable[[Array], BoolArray]] = [_never] * len(grades)
        if task.unusual_grades != "keep":
            single = [has_single_precision(columns, grades_column(relevance)) for relevance in range(len(grades))]
            is_bad = _too_large if task.grades_may_be_missing else _bad_grade
            checks = [partial(is_bad, largest=as_float32(largest) if is_single else largest) for is_single in single]
        checks += [user_lists.EXTRA_COLUMNS[name].is_wrong for name in task.label_columns]
        side = _check_arrays(rows, columns, columns[LABELS], value_columns, checks, keep_null_items=False)
    else:
        side = side_of(columns[LABELS], [numbers(flat(column)[0]) for column in value_columns])
        side = side._replace(invalid=rows - side.lists.lengths)
    if task.clip_grades:
        side = _counted(side, _negative, partial(_clipped, n_grades=len(grades)), len(grades))
    elif task.unusual_grades == "error":
        side = _counted(side, _negative, _left_out, len(grades))
    return _merged(side) if task.has_subtopic_rows else side


def _counted(
    side: Side,
    unusual: Callable[[Array], BoolArray],
    mend: Callable[[Side, BoolArray], Side] | None,
    n_values: int,
) -> Side:
    """The side with its unusual entries counted by their first `n_values` values, and corrected if there is a way."""
    marks = [unusual(entries) for entries in side.values[:n_values]]
    if not any(mark.any() for mark in marks):
        return side
    marked = np.logical_or.reduce(marks)
    counted = side._replace(unusual=np.bincount(side.lists.user[marked], minlength=side.lists.n_users))
    return counted if mend is None else mend(counted, marked)


def _left_out(side: Side, marked: BoolArray) -> Side:
    return side.where(~marked)._replace(invalid=side.invalid + side.unusual)


def _clipped(side: Side, marked: BoolArray, n_grades: int) -> Side:
    clipped = [np.maximum(entries, 0.0) for entries in side.values[:n_grades]]
    return side._replace(values=[*clipped, *side.values[n_grades:]])


def _merged(side: Side) -> Side:
    """The side with one entry for each item of a user, which has the greatest of its values; the other entries are counted."""
    code = side.ids.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    order = np.lexsort((code, side.lists.user))
    user, code = side.lists.user[order], code[order]
    first = np.flatnonzero(user_lists.starts_of_runs(user, code))
    lengths = np.bincount(user[first], minlength=side.lists.n_users)
    return side._replace(
        lists=Ragged(np.empty(len(first), np.bool_), user_lists.offsets_of(lengths)),
        ids=side.ids.take(pa.array(order[first])),
        values=[np.fmax.reduceat(values[order], first) if len(first) else values for values in side.values],
        merged=side.merged + side.lists.lengths - lengths,
    )


def _rows(columns: dict[str, pa.Array], name: str) -> IntArray:
    """How many rows of a table each user has; 1 if a row is a user, and rows were not counted."""
    if name in columns:
        return whole_numbers(columns[name])
    return np.ones(len(columns[ITEMS] if ITEMS in columns else columns[LABELS]), np.int64)


def read_excluded(columns: dict[str, pa.Array]) -> Side | None:
    """The items that a user's predictions are to leave out; None if the call has no such table."""
    return side_of(columns[EXCLUDED]) if EXCLUDED in columns else None


def side_of(items: pa.Array, values: Sequence[Array] = ()) -> Side:
    """A column of lists of items as a side; nothing is wrong with them."""
    ids, offsets = flat(items)
    ids = _with_one_zero(ids)
    none = np.zeros(len(items), np.int64)
    return Side(Ragged(np.empty(len(ids), np.bool_), offsets), ids, list(values), none, none, none)


def _existing_columns(columns: Mapping[str, pa.Array], *names: str) -> list[pa.Array]:
    return [columns[name] for name in names if name in columns]


def _bad_grade(values: Array, largest: float) -> BoolArray:
    return ~(values <= largest)


def _too_large(values: Array, largest: float) -> BoolArray:
    return values > largest


def _negative(values: Array) -> BoolArray:
    return values < 0


def _never(values: Array) -> BoolArray:
    return np.zeros(len(values), np.bool_)


def _check_arrays(
    rows: IntArray,
    columns: Mapping[str, pa.Array],
    ids_column: pa.Array,
    values_columns: list[pa.Array],
    bad: Sequence[Callable[[Array], BoolArray]],
    keep_null_items: bool,
) -> Side:
    """Read one side that came as arrays; entries that cannot be used are left out and counted.

    A user without a row in the table has 0 `rows`. Rows without a user count as they are, and hold nothing. With `keep_null_items` a
    null id is no mistake, but an item that has no label.
    """
    is_null_user = flags(columns[NO_USER]) if NO_USER in columns else np.zeros(len(rows), np.bool_)
    # A user in several rows keeps the first; a row with a null array says nothing.
    null_row = np.logical_or.reduce([_nulls(column) for column in (ids_column, *values_columns)])
    invalid = np.where(is_null_user, rows, np.maximum(rows - 1, 0) + ((rows > 0) & null_row))
    side = side_of(ids_column)
    parallel = [Ragged(numbers(entries), offsets) for entries, offsets in map(flat, values_columns)]
    values = [array.values for array in parallel]
    # Which score belongs to which item is not known if the arrays are not equally long.
    unequal = np.zeros(len(rows), np.bool_)
    for array in parallel:
        unequal |= array.lengths != side.lists.lengths
    if unequal.any():
        invalid += unequal & ~null_row & ~is_null_user
        values = [array.values[~unequal[array.user]] for array in parallel]
        side = side.where(~unequal[side.lists.user])
    side = side._replace(values=values)
    if is_null_user.any():
        side = side.where(~is_null_user[side.lists.user])
    ids, missing = side.ids, _nulls(side.ids)
    wrong = np.zeros(len(ids), np.bool_)
    if pa.types.is_floating(ids.type):
        size = np.abs(numbers(ids))
        missing = np.isnan(size)
        # As `spark.sql.id_reasons`: these may have been other whole numbers.
        wrong = (size >= 2.0 ** (24 if pa.types.is_float32(ids.type) else 53)) & (size < np.inf)
    if not keep_null_items:
        wrong = wrong | missing
        if is_text(ids.type):
            wrong = wrong | pc.fill_null(pc.equal(ids, ""), fill_value=False).to_numpy(zero_copy_only=False)
    for entries, is_bad in zip(side.values, bad, strict=False):
        wrong = wrong | is_bad(entries)
    side = side._replace(present=~missing if keep_null_items and missing.any() else None)
    if wrong.any():
        invalid = invalid + np.bincount(side.lists.user[wrong], minlength=len(rows))
        side = side.where(~wrong)
    return side._replace(invalid=invalid)


def columns_of(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """The columns of a batch by name."""
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def fields_in(structs: pa.StructArray) -> dict[str, pa.Array]:
    """The fields of structs by name."""
    # Flattened: the nulls and the slice of the structs are those of the fields, too.
    return dict(zip([field.name for field in structs.type], structs.flatten(), strict=True))


def flat(column: pa.Array) -> tuple[pa.Array, IntArray]:
    """The values of all lists, and the offsets; a null list is an empty one."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return column.flatten(), user_lists.offsets_of(lengths)


def whole_numbers(column: pa.Array) -> IntArray:
    """Whole numbers, 0 for null."""
    values: IntArray = pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return values


def numbers(values: pa.Array) -> Array:
    """float64, NaN for null."""
    as_floats: Array = values.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    return as_floats


def flags(values: pa.Array) -> BoolArray:
    """Booleans, false for null."""
    return filled(values, 0).astype(np.bool_)


def _nulls(values: pa.Array) -> BoolArray:
    if not values.null_count:
        return np.zeros(len(values), np.bool_)
    nulls: BoolArray = values.is_null().to_numpy(zero_copy_only=False)
    return nulls


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are texts, with offsets of 32 or of 64 bits."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def filled(values: pa.Array, fill: float) -> Array:
    """The values as a numpy array, with a value for null."""
    without_null: Array = (pc.fill_null(values, fill) if values.null_count else values).to_numpy(zero_copy_only=False)
    return without_null


def _with_one_zero(ids: pa.Array) -> pa.Array:
    """The ids with 0.0 for -0.0, which it equals."""
    return pc.add(ids, pa.scalar(0.0, ids.type)) if pa.types.is_floating(ids.type) else ids


def indices_among(ids: pa.Array, distinct_ids: pa.Array, *, unknown: int) -> IntArray:
    """The index of each id among different ids of the same type, or `unknown`; int64. Of the two zeros, `distinct_ids` has 0.0."""
    indices: IntArray = filled(pc.index_in(_with_one_zero(ids), value_set=distinct_ids), unknown).astype(np.int64)
    return indices


# The mark of each row has the index of its model, then the kind of the row, then its hash. Without a hash it has 32 bits.
#: How many bits of a mark are the index of the model, and how many the kind of the row.
MODEL_BITS, KIND_BITS = 16, 2
#: The kinds of rows: in the lists; left out; left out for its infinite score.
RANKED, REJECTED, INFINITE_SCORE = 0, 1, 2
# So many predictions of all models are parted at a time: they are in memory twice.
_TOGETHER = 1 << 20


def with_lists_of_models(models: Sequence[int], batches: Batches) -> Batches:
    """The batches with lists of each of some models, cut into parts of fewer users; as they are if they have such lists already."""
    for batch in batches:
        if MARKS not in batch.schema.names:
            yield batch
            continue
        _, offsets = flat(batch.column(MARKS))
        for start, stop in user_lists.pieces(offsets, _TOGETHER):
            yield _parted(models, batch.slice(start, stop - start))


def _parted(models: Sequence[int], batch: pa.RecordBatch) -> pa.RecordBatch:
    columns, first = columns_of(batch), models[0]
    are_hashed = not pa.types.is_int32(columns[MARKS].type.value_type)
    values, offsets_of_marks = flat(columns.pop(MARKS))
    marks = filled(values, 0)
    # The lowest bits, in a type that sorts quickly.
    model, kind = marks.astype(np.uint16), (marks >> MODEL_BITS) & ((1 << KIND_BITS) - 1)
    n_cells = (max(models) + 1) * batch.num_rows
    cells = model.astype(np.int64) * batch.num_rows + np.repeat(np.arange(batch.num_rows), np.diff(offsets_of_marks))
    rows = lengths = np.bincount(cells, minlength=n_cells)
    infinite = None
    if column_of_model(INFINITE_PREDICTIONS, first) in columns:
        infinite = np.bincount(cells[kind == INFINITE_SCORE], minlength=n_cells)
    ranked = kind == RANKED
    if not ranked.all():
        marks, model, lengths = marks[ranked], model[ranked], np.bincount(cells[ranked], minlength=n_cells)
    # Users stay in their order, so that only the models, which are few, are sorted.
    order = np.argsort(model, kind="stable")
    bounds = user_lists.offsets_of(lengths)
    totals = Ragged(marks[order] >> (MODEL_BITS + KIND_BITS), bounds).summed() if are_hashed else None
    lists = {
        name: flat(columns.pop(column))[0].take(pa.array(order))
        for name in (ITEMS, SCORES, COSTS)
        if (column := column_of_model(name, first)) in columns
    }
    for index in models:
        model_rows = slice(index * batch.num_rows, (index + 1) * batch.num_rows)
        offsets = bounds[index * batch.num_rows : (index + 1) * batch.num_rows + 1]
        for name, entries in lists.items():
            part = entries.slice(offsets[0], offsets[-1] - offsets[0])
            columns[column_of_model(name, index)] = pa.LargeListArray.from_arrays(offsets - offsets[0], part)
        columns[column_of_model(PREDICTION_ROWS, index)] = pa.array(rows[model_rows])
        if totals is not None:
            # Without a row there is no hash.
            columns[hash_column(column_of_model("predictions", index))] = pa.array(
                totals[model_rows], mask=rows[model_rows] == 0
            )
        if infinite is not None:
            columns[column_of_model(INFINITE_PREDICTIONS, index)] = pa.array(infinite[model_rows])
    return pa.RecordBatch.from_pydict(columns)


#: Nothing is known of the rows of this table for users without predictions.
PARTIAL_TABLE = "exclude"
#: So many bits of the hash of a prediction add up: 2^28 equal rows of a user would overflow 64 bits.
SHORT = 36
_PREDICTIONS = "predictions"
# So many predictions are hashed at a time: hashes of a whole batch take as much memory as its scores.
_HASHED_TOGETHER = 1 << 18


def hashes_of_users(table: str, columns: Mapping[str, pa.Array]) -> pa.Array:
    """The sums of the hashes of the users' rows of a table, null without a row.

    Spark leaves those of whole lists of predictions with whole numbers as items to the workers. They are the same: of item, score and
    cost.
    """
    if hash_column(table) in columns:
        return columns[hash_column(table)]
    assert table.startswith(_PREDICTIONS), "Spark hashes the rows of all other tables"
    suffix = table.removeprefix(_PREDICTIONS)
    offsets = flat(columns[ITEMS + suffix])[1]
    lists = [column.flatten() for column in _existing_columns(columns, ITEMS + suffix, SCORES + suffix, COSTS + suffix)]
    totals = np.zeros(len(offsets) - 1, np.int64)
    for start, stop in user_lists.pieces(offsets, _HASHED_TOGETHER):
        first, last = offsets[start], offsets[stop]
        parts = [column.slice(first, last - first) for column in lists]
        read = [whole_numbers(part) if pa.types.is_integer(part.type) else numbers(part) for part in parts]
        hashes = xxhash64(*read) >> (64 - SHORT)
        totals[start:stop] = Ragged(hashes, offsets[start : stop + 1] - first).summed()
    return pa.array(totals, mask=whole_numbers(columns[PREDICTION_ROWS + suffix]) == 0)


def limbs_of_users(tables: Sequence[str], columns: Mapping[str, pa.Array]) -> dict[str, Array]:
    """The limbs of the users' hashes, by table; rows without ids of users have that of their contents."""
    limbs = {}
    for table in tables:
        rows = whole_numbers(hashes_of_users(table, columns))
        users = whole_numbers(columns[USER_HASH]) if USER_HASH in columns else np.zeros_like(rows)
        limbs[table] = fingerprint_limbs(users, rows)
    return limbs


_INT32 = np.iinfo(np.int32)
_WORD = 8
# So many texts are looked up in one table, which then stays in a core's cache.
_TEXTS_TOGETHER = 1 << 14


def comparable(*sides: tuple[pa.Array, IntArray]) -> tuple[list[Array], Callable[[Array], Array] | None]:
    """Ids as numpy arrays that compare within each user: numbers as they are, text as whole numbers.

    If these do not sort as the ids do, in the order of their UTF-8 bytes, a function maps them to ranks that do.

    Args:
        sides: the ids of all users, one user after the other, and where each user's begin and end: int64 (n_users + 1,).
    """
    kind = sides[0][0].type
    if not is_text(kind):
        fill = 0.0 if pa.types.is_floating(kind) else 0
        return _narrow([filled(ids, fill) for ids, _ in sides]), None
    texts = [ids.cast(kind) for ids, _ in sides]
    words = last_bytes(pa.concat_arrays(texts))
    if words is not None:
        return _narrow(np.split(words, np.cumsum([len(ids) for ids in texts])[:-1])), None
    return _codes(texts, [offsets for _, offsets in sides])


def last_bytes(texts: pa.Array) -> Array | None:
    """The last bytes of texts as whole numbers, which compare and sort as texts such as "item-00000000017" do.

    None unless all texts have one length and are alike but for their last eight bytes. Looking each up in a table takes ten times as long.
    """
    if not len(texts) or texts.null_count:
        return None
    offset_type = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    _, offsets, data = texts.buffers()
    starts: Any = np.frombuffer(offsets, offset_type)[texts.offset : texts.offset + len(texts) + 1]
    length = int(starts[1] - starts[0])
    if not length or not (np.diff(starts) == length).all():
        return None
    text_bytes = np.frombuffer(data, np.uint8)[starts[0] : starts[-1]]
    if length < _WORD:
        # The last text is read beyond its end, too.
        text_bytes = np.concatenate([text_bytes, np.zeros(_WORD, np.uint8)])

    def word(start: int, n_bytes: int) -> Array:
        # Most significant byte first: numbers then sort as bytes do.
        words = np.ndarray(len(texts), ">u8", text_bytes, start, (length,)).astype(np.uint64)
        return words >> np.uint64(8 * (_WORD - n_bytes))

    shared = max(0, length - _WORD)
    for start in range(0, shared, _WORD):
        words = word(start, min(_WORD, shared - start))
        if (words != words[0]).any():
            return None
    words = word(shared, min(_WORD, length))
    words -= words.min()
    return words.view(np.int64) if words.max() < 1 << 63 else None


def _codes(sides: Sequence[pa.Array], offsets: Sequence[IntArray]) -> tuple[list[Array], Callable[[Array], Array]]:
    """A number a text, which is the same for equal texts of a user, and what maps these to ranks in the order of bytes."""
    codes = [np.empty(len(texts), np.int32) for texts in sides]
    dictionaries = [sides[0].slice(0, 0)]
    n_codes = 0
    for start, stop in user_lists.pieces(np.add.reduce(offsets), _TEXTS_TOGETHER):
        parts = [slice(each[start], each[stop]) for each in offsets]
        together = pa.concat_arrays([texts[part] for texts, part in zip(sides, parts, strict=True)])
        encoded = together.dictionary_encode()
        # A null has the number of some text, if there is any.
        indices = filled(encoded.indices, -n_codes) + n_codes
        for side_codes, part in zip(codes, parts, strict=True):
            side_codes[part], indices = np.split(indices, [part.stop - part.start])
        dictionaries.append(encoded.dictionary)
        n_codes += len(encoded.dictionary)
    ranks: list[Array] = []

    def order(some: Array) -> Array:
        if not ranks:
            # As bytes: no collation may come between, and numbers in text are text.
            once = pa.concat_arrays(dictionaries).dictionary_encode()
            by_bytes = pc.array_sort_indices(once.dictionary.cast(pa.large_binary())).to_numpy()
            rank = np.empty(len(by_bytes), np.int64)
            rank[by_bytes] = np.arange(len(by_bytes))
            ranks.append(rank[filled(once.indices, 0)])
        ordered: Array = ranks[0][some] if len(ranks[0]) else some
        return ordered

    return codes, order


def _narrow(sides: list[Array]) -> list[Array]:
    """Ids as 32-bit whole numbers if that changes none: they compare and sort twice as fast."""
    narrow = []
    for ids in sides:
        if ids.dtype == np.int32 or not len(ids):
            narrow.append(ids.astype(np.int32))
            continue
        low, high = ids.min(), ids.max()
        if not (low >= _INT32.min and high <= _INT32.max):
            return sides
        short = ids.astype(np.int32)
        if ids.dtype.kind == "f" and not (short == ids).all():
            return sides
        narrow.append(short)
    return narrow


def overlap_counts(
    overlaps: Sequence[Overlap],
    met: set[str],
    sides: Mapping[str, Side | None],
    predicted: pa.Array,
    has_list: BoolArray,
) -> dict[str, Array]:
    """The counts of overlaps by name; int64 (n_users,).

    Args:
        overlaps: what to count.
        met: the tables of which an item is known to occur in a list.
        sides: the tables whose rows came with the users. Their items are compared with those of other users, too, if none occurs.
        predicted: the predicted items.
        has_list: which users have predictions.
    """
    counts = {}
    for overlap in overlaps:
        side = sides.get(overlap.role)
        is_met = overlap.kind == "items" and overlap.role in met
        if overlap.kind == "users" and side is not None:
            is_met = bool((side.lists.lengths[has_list] > 0).any())
        elif side is not None and not is_met:
            shared = pc.is_in(side.ids, value_set=predicted.cast(side.ids.type), skip_nulls=True)
            is_met = bool(pc.any(shared).as_py())
        counts[overlap.column] = np.full(len(has_list), is_met, np.int64)
    return counts


# Codes of groups up to here are whole numbers of 64 bits.
_MOST_CODES = 1 << 62
# Sets the hashes of users who stand for a cluster alone apart from those of clusters, which may have the users' ids.
_ALONE = np.uint64(0x9E3779B97F4A7C15)


def rows_by_key(columns: list[pa.Array], n_rows: int) -> Iterator[tuple[Key, Array | slice]]:
    """The rows of each combination of values, in their order; all of them if there is no column."""
    if not columns:
        yield (), slice(None)
        return
    encoded = [
        column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode("encode") for column in columns
    ]
    code = np.zeros(n_rows, np.int64)
    n_codes = 1
    for column in encoded:
        if n_codes * len(column.dictionary) > _MOST_CODES:
            # As many as there are combinations so far: their product would leave 64 bits, and codes meet.
            distinct, code = np.unique(code, return_inverse=True)
            n_codes = len(distinct)
        code = code * len(column.dictionary) + filled(column.indices, 0)
        n_codes *= len(column.dictionary)
    ordered = np.argsort(code, kind="stable")
    for rows in np.split(ordered, np.flatnonzero(np.diff(code[ordered])) + 1) if n_rows else ():
        yield tuple(column[int(rows[0])].as_py() for column in columns), rows


def hashes_of_clusters(clusters: pa.Array, users: IntArray) -> IntArray:
    """The hashes of the clusters of users, null if not known: such a user is a cluster alone, with the hash of no other cluster."""
    alone = pa.array(mixed(users.view(np.uint64) ^ _ALONE).view(np.int64))
    hashes: IntArray = pc.coalesce(clusters, alone).to_numpy(zero_copy_only=False)
    return hashes
