"""Tables of a given shape, as Parquet files that Spark and everything else can read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

# Of a user's labels, so many are predicted items.
HITS = 2
# Predictions in a file, about; and the fewest files, so that every core has some.
_IN_A_FILE, _FEWEST_FILES = 1_250_000, 8


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What tables hold.

    Attributes:
        users: how many users.
        predictions: predictions of a user; the median, where lists are ragged.
        labels: labels of a user.
        items: from how many items predictions come.
        ids: the type of item ids; text has 16 characters.
        lengths: ``ragged`` lists are log-normal, from 1 to 10 times the median.
        scores: how scores tie.
        hot_user: so many predictions more for the first user.
    """

    users: int = 200_000
    predictions: int = 50
    labels: int = 10
    items: int = 100_000
    ids: Literal["long", "int", "string"] = "long"
    lengths: Literal["equal", "ragged"] = "equal"
    scores: Literal["continuous", "forty", "constant"] = "continuous"
    hot_user: int = 0

    @property
    def n_files(self) -> int:
        """How many files a table has."""
        return max(_FEWEST_FILES, (self.users * self.predictions + self.hot_user) // _IN_A_FILE)


def make_tables(shape: Shape, folder: Path, *, arrays: bool = True) -> None:
    """Write predictions and labels as rows, those of a user spread over a file; and as arrays, if asked."""
    random = np.random.default_rng(20)
    hot = np.array_split(np.arange(shape.hot_user), shape.n_files)
    for part, users in enumerate(np.array_split(np.arange(shape.users), shape.n_files)):
        lengths = np.full(len(users), shape.predictions)
        if shape.lengths == "ragged":
            drawn = np.exp(random.normal(np.log(shape.predictions), 1, len(users)))
            lengths = np.clip(drawn, 1, 10 * shape.predictions).astype(np.int64)
        user, rank = np.repeat(users, lengths), _within(lengths)
        # A start and a stride a user give items that differ within a list.
        start, stride = random.integers(0, shape.items, len(users)), random.integers(1, 97, len(users))
        item = (np.repeat(start, lengths) + rank * np.repeat(stride, lengths)) % shape.items
        score = _scores(random, shape.scores, len(user))
        label_user, nth = np.repeat(users, shape.labels), np.tile(np.arange(shape.labels), len(users))
        # Some labels are predicted items, so that there is something to hit; the others come from further items.
        place = (np.repeat(random.integers(0, 1 << 30, len(users)), shape.labels) + 7 * nth) % np.repeat(
            lengths, shape.labels
        )
        first = np.repeat(np.cumsum(lengths) - lengths, shape.labels)
        hit = nth < np.minimum(HITS, np.repeat(lengths, shape.labels) // 8)
        label = np.where(hit, item[first + place], shape.items + np.repeat(start, shape.labels) + nth)
        if arrays:
            order = np.lexsort((-score, user))
            _write(folder / "arrays", part, {
                "user": pa.array(users),
                "prediction": _lists(item[order].astype(np.float64), lengths),
                "label": _lists(label.astype(np.float64), np.full(len(users), shape.labels)),
            })  # fmt: skip
        if len(hot[part]):
            user = np.concatenate([user, np.zeros(len(hot[part]), np.int64)])
            item = np.concatenate([item, 2 * shape.items + hot[part]])
            score = np.concatenate([score, random.random(len(hot[part]))])
        _write(
            folder / "predictions",
            part,
            _shuffled(random, {"user": user, "item": _ids(item, shape.ids), "score": score}),
        )
        _write(folder / "labels", part, _shuffled(random, {"user": label_user, "item": _ids(label, shape.ids)}))


def _scores(random: np.random.Generator, kind: str, n: int) -> np.ndarray[Any, Any]:
    match kind:
        case "forty":
            return random.integers(0, 40, n) / 40
        case "constant":
            return np.zeros(n)
        case _:
            return random.random(n)


def _within(lengths: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    first: np.ndarray[Any, Any] = np.repeat(np.cumsum(lengths) - lengths, lengths)
    within: np.ndarray[Any, Any] = np.arange(lengths.sum()) - first
    return within


def _lists(values: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any]) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32()), pa.array(values))


def _ids(item: np.ndarray[Any, Any], kind: str) -> pa.Array:
    if kind == "string":
        return pa.array(np.char.mod("item-%011d", item))
    return pa.array(item, pa.int32() if kind == "int" else pa.int64())


def _shuffled(random: np.random.Generator, columns: dict[str, Any]) -> dict[str, pa.Array]:
    order = pa.array(random.permutation(len(columns["user"])))
    return {
        name: (values if isinstance(values, pa.Array) else pa.array(values)).take(order)
        for name, values in columns.items()
    }


def _write(folder: Path, part: int, columns: dict[str, pa.Array]) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), folder / f"{part}.parquet")
