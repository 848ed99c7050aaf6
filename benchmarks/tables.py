"""Tables of a given shape, as Parquet files that Spark and everything else can read."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Array = np.ndarray[Any, Any]

# Of a user's labels, so many are predicted items.
HITS = 2
# Predictions in a file, about; and the fewest files, so that every core has some.
_PREDICTIONS_PER_FILE, _FEWEST_FILES = 1_250_000, 8
# How often items repeat: the share of items below x is the cube root of x.
_POPULARITY = 3
# Words for the digits of an item's number, none as long as the next: texts of 3 to some 40 characters.
_WORDS_OF_DIGITS = (
    "an",
    "tea",
    "plum",
    "olive",
    "carrot",
    "apricot",
    "hazelnut",
    "pineapple",
    "strawberry",
    "cauliflower",
)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What tables hold.

    Attributes:
        users: how many users.
        predictions: predictions of a user; the median, where lists are ragged.
        labels: labels of a user; the mean, if the pattern is ``logs``.
        items: from how many items predictions come.
        ids: the type of item ids. ``string`` has 16 characters, ``uuid`` 36, and ``words`` are texts of unequal length.
        lengths: ``ragged`` lists are log-normal, from 1 to 10 times the median.
        scores: how scores tie. ``pairs`` has 40 distinct scores, each at most twice among 50 predictions of a user.
        hot_user: so many predictions more for the first user.
        pattern: ``even`` gives every user as many labels, every item the same chance, and one file all rows of a user. ``logs``
            gives a user 0 to twice as many labels, favours items of small numbers, and spreads a user's rows over all files.
    """

    users: int = 200_000
    predictions: int = 50
    labels: int = 10
    items: int = 100_000
    ids: Literal["long", "int", "string", "uuid", "words"] = "long"
    lengths: Literal["equal", "ragged"] = "equal"
    scores: Literal["continuous", "forty", "constant"] = "continuous"
    hot_user: int = 0
    pattern: Literal["even", "logs"] = "even"

    @property
    def n_files(self) -> int:
        """How many files a table has."""
        return max(_FEWEST_FILES, (self.users * self.predictions + self.hot_user) // _PREDICTIONS_PER_FILE)


class Rows(NamedTuple):
    """Rows of a table: the users in order, their items as numbers, and scores; labels have none."""

    user: Array
    item: Array
    score: Array | None = None


def make_tables(shape: Shape, folder: Path, *, arrays: bool = True) -> None:
    """Write predictions and labels as rows in random order; and as arrays, if asked."""
    random = np.random.default_rng(20)
    hot = np.array_split(np.arange(shape.hot_user), shape.n_files)
    draw = _like_logs if shape.pattern == "logs" else _even
    drawn: list[dict[str, Rows]] = []
    for part, users in enumerate(np.array_split(np.arange(shape.users), shape.n_files)):
        predictions, labels = draw(random, shape, users)
        if arrays:
            _write(folder / "arrays", part, _as_arrays(users, predictions, labels))
        tables = {"predictions": _with_hot_user(random, shape, predictions, hot[part]), "labels": labels}
        if shape.pattern == "logs":
            drawn.append(tables)
        else:
            _write_rows(random, shape, folder, part, tables)
    if drawn:
        spread = {name: _spread(random, [tables[name] for tables in drawn]) for name in drawn[0]}
        for part in range(shape.n_files):
            _write_rows(random, shape, folder, part, {name: files[part] for name, files in spread.items()})


def _even(random: np.random.Generator, shape: Shape, users: Array) -> tuple[Rows, Rows]:
    lengths = _lengths(random, shape, len(users))
    user, rank = np.repeat(users, lengths), _within(lengths)
    # A start and a stride a user give items that differ within a list.
    start, stride = random.integers(0, shape.items, len(users)), random.integers(1, 97, len(users))
    # Some strides come round to the start too soon, if there are few items.
    stride += np.gcd(stride, shape.items) * lengths > shape.items
    item = (np.repeat(start, lengths) + rank * np.repeat(stride, lengths)) % shape.items
    score = _scores(random, shape.scores, user, lengths)
    counts = np.full(len(users), shape.labels)
    nth = _within(counts)
    # Some labels are predicted items, so that there is something to hit; the others come from further items.
    place, hit = _hits(random, lengths, counts)
    label = np.where(hit, item[place], shape.items + np.repeat(start, counts) + nth)
    return Rows(user, item, score), Rows(np.repeat(users, counts), label)


def _like_logs(random: np.random.Generator, shape: Shape, users: Array) -> tuple[Rows, Rows]:
    lengths = _lengths(random, shape, len(users))
    counts = random.integers(0, 2 * shape.labels + 1, len(users))
    if max(lengths.max(initial=0), counts.max(initial=0)) > shape.items:
        msg = f"{shape.items:,} items are too few: each item may stand in a user's list once"
        raise ValueError(msg)
    user, label_user = np.repeat(users, lengths), np.repeat(users, counts)
    item = _popular_items(random, shape.items, len(user))
    _redraw_repeats(random, shape.items, user, item)
    score = _scores(random, shape.scores, user, lengths)
    label = _popular_items(random, shape.items, len(label_user))
    place, hit = _hits(random, lengths, counts)
    label[hit] = item[place[hit]]
    _redraw_repeats(random, shape.items, label_user, label)
    return Rows(user, item, score), Rows(label_user, label)


def _lengths(random: np.random.Generator, shape: Shape, n_users: int) -> Array:
    if shape.lengths == "equal":
        return np.full(n_users, shape.predictions)
    drawn = np.exp(random.normal(np.log(shape.predictions), 1, n_users))
    return np.clip(drawn, 1, 10 * shape.predictions).astype(np.int64)


def _hits(random: np.random.Generator, lengths: Array, counts: Array) -> tuple[Array, Array]:
    """For each label the place of a prediction of the same user, and whether the label is to be that item."""
    nth, length = _within(counts), np.repeat(lengths, counts)
    within = (np.repeat(random.integers(0, 1 << 30, len(lengths)), counts) + 7 * nth) % length
    return np.repeat(np.cumsum(lengths) - lengths, counts) + within, nth < np.minimum(HITS, length // 8)


def _popular_items(random: np.random.Generator, n_items: int, n: int) -> Array:
    items: Array = (random.random(n) ** _POPULARITY * n_items).astype(np.int64)
    return items


def _redraw_repeats(random: np.random.Generator, n_items: int, user: Array, item: Array) -> None:
    """Draw again, in place, each item that its user has further up, until there is none."""
    while True:
        pair = user * n_items + item
        # The order keeps rows of one pair as they stand, so that the first of them stays.
        order = np.argsort(pair, kind="stable")
        repeats = order[1:][np.diff(pair[order]) == 0]
        if not len(repeats):
            return
        item[repeats] = _popular_items(random, n_items, len(repeats))


def _scores(random: np.random.Generator, kind: str, user: Array, lengths: Array) -> Array:
    match kind:
        case "forty":
            return random.integers(0, 40, len(user)) / 40
        case "constant":
            return np.zeros(len(user))
        case _:
            return random.random(len(user))


def _with_hot_user(random: np.random.Generator, shape: Shape, rows: Rows, extra_items: Array) -> Rows:
    if not len(extra_items):
        return rows
    assert rows.score is not None, "predictions have scores"
    return Rows(
        np.concatenate([rows.user, np.zeros(len(extra_items), np.int64)]),
        np.concatenate([rows.item, 2 * shape.items + extra_items]),
        np.concatenate([rows.score, random.random(len(extra_items))]),
    )


def _spread(random: np.random.Generator, parts: Sequence[Rows]) -> list[Rows]:
    """As many parts as before, with every row in one that chance decides."""
    user, item = (np.concatenate(columns) for columns in zip(*(part[:2] for part in parts), strict=True))
    scores = [part.score for part in parts if part.score is not None]
    score = np.concatenate(scores) if scores else None
    file = random.integers(0, len(parts), len(user))
    chosen = [np.flatnonzero(file == part) for part in range(len(parts))]
    return [Rows(user[rows], item[rows], None if score is None else score[rows]) for rows in chosen]


def _within(lengths: Array) -> Array:
    first: Array = np.repeat(np.cumsum(lengths) - lengths, lengths)
    within: Array = np.arange(lengths.sum()) - first
    return within


def _as_arrays(users: Array, predictions: Rows, labels: Rows) -> dict[str, pa.Array]:
    """A row a user: the items best first, and the labels."""
    assert predictions.score is not None, "predictions have scores"
    order = np.lexsort((-predictions.score, predictions.user))
    return {
        "user": pa.array(users),
        "prediction": _lists(users, predictions.user, predictions.item[order]),
        "label": _lists(users, labels.user, labels.item),
    }


def _lists(users: Array, user: Array, item: Array) -> pa.ListArray:
    ends = np.searchsorted(user, users, side="right")
    return pa.ListArray.from_arrays(
        pa.array(np.concatenate([[0], ends]), pa.int32()), pa.array(item.astype(np.float64))
    )


def _ids(item: Array, kind: str) -> pa.Array:
    match kind:
        case "string":
            return pa.array(np.char.mod("item-%011d", item))
        case "uuid" | "words":
            distinct, place = np.unique(item, return_inverse=True)
            text = _uuid if kind == "uuid" else _words
            return pa.array([text(number) for number in distinct.tolist()]).take(pa.array(place))
        case _:
            return pa.array(item, pa.int32() if kind == "int" else pa.int64())


def _uuid(number: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, str(number)))


def _words(number: int) -> str:
    return "-".join(_WORDS_OF_DIGITS[int(digit)] for digit in str(number))


def _write_rows(random: np.random.Generator, shape: Shape, folder: Path, part: int, tables: dict[str, Rows]) -> None:
    for name, rows in tables.items():
        columns = {"user": pa.array(rows.user), "item": _ids(rows.item, shape.ids)}
        if rows.score is not None:
            columns["score"] = pa.array(rows.score)
        order = pa.array(random.permutation(len(rows.user)))
        _write(folder / name, part, {column: values.take(order) for column, values in columns.items()})


def _write(folder: Path, part: int, columns: dict[str, pa.Array]) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), folder / f"{part}.parquet")
