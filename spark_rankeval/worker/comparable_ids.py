"""Ids from Arrow: as numpy arrays whose entries compare and sort as the ids do, and whether ids that should occur in the predictions do.

This distinguishes ids that never match from poor models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.ranking.ragged import Array, BoolArray, IntArray, pieces
from spark_rankeval.ranking.recommended import ATTRIBUTES, UNKNOWN, Recommended
from spark_rankeval.request.counts import Overlap
from spark_rankeval.worker.reading import Side, filled, is_text

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
    for start, stop in pieces(np.add.reduce(offsets), _TEXTS_TOGETHER):
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
    """The same ids as 32-bit whole numbers if that changes none: they compare and sort twice as fast."""
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


# Which recommended items a table has, by the facts that it tells.
_TABLE_CHECKS: dict[str, dict[str, Callable[[Array], BoolArray]]] = {
    "training": {
        "training_users": lambda n_users: n_users > 0,
        "share_above": lambda shares: shares < 1,
        "level": lambda levels: levels > 0,
        "consumed": lambda consumed: consumed,
    },
    "items": {
        "is_in_items": lambda is_listed: is_listed,
        **dict.fromkeys(
            ATTRIBUTES, lambda values: ~np.isnan(values) if values.dtype.kind == "f" else values != UNKNOWN
        ),
        "group_set": lambda ranks: ranks > 0,
    },
    "baseline": {"baseline_rank": lambda ranks: ranks > 0},
}


def tables_met(lists: Iterable[Recommended | None]) -> set[str]:
    """The tables of facts that have any recommended item."""
    return {
        table
        for recommended in lists
        for table, facts in _TABLE_CHECKS.items()
        for name, is_in_table in facts.items()
        if (fact := getattr(recommended, name, None)) is not None and is_in_table(fact).any()
    }


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
    is_met_by_name: dict[str, Any] = {}
    for overlap in overlaps:
        side = sides.get(overlap.role)
        if overlap.kind == "users":
            is_met_by_name[overlap.column] = side is not None and bool((side.lists.lengths[has_list] > 0).any())
        else:
            is_met_by_name[overlap.column] = overlap.role in met or (
                side is not None and _share_an_item(side.ids, predicted)
            )
    return {name: np.full(len(has_list), is_met, np.int64) for name, is_met in is_met_by_name.items()}


def _share_an_item(left: pa.Array, right: pa.Array) -> bool:
    return bool(pc.any(pc.is_in(left, value_set=right.cast(left.type), skip_nulls=True)).as_py())
