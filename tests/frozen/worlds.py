"""The stored batches: users with all that tables may say of them, in tasks and batches, under no name of the package's insides.

A world has all kinds of facts; a case of `cases.py` says which of them its call reads. Worlds are read from `batches.arrow`. The seeds
below make only worlds that the file lacks, so that no change of a generator moves a figure.
"""

import random
from functools import cache
from pathlib import Path

import pyarrow as pa

FILE = Path(__file__).with_name("batches.arrow")
NAN, INF = float("nan"), float("inf")

TEXT, NUMBER, TEXTS, NUMBERS = pa.string(), pa.float64(), pa.list_(pa.string()), pa.list_(pa.float64())
PREDICTION = pa.struct({"item": TEXT, "score": NUMBER, "rank": NUMBER})
LABEL = pa.struct({"item": TEXT, "grades": NUMBERS, "weight": NUMBER, "subtopics": TEXTS})
USER = pa.struct(
    {
        "id": pa.int64(),  # null: rows of no user
        "only_attributes": pa.bool_(),  # in no other table
        "predictions": pa.list_(pa.list_(PREDICTION)),  # of each model; null: no row
        "labels": pa.list_(LABEL),
        "array_rows": pa.int8(),  # if tables have arrays: how many rows the user has
        "lacks_score": pa.bool_(),  # the same: the array of scores or grades is shorter by one
        "excluded": TEXTS,
        "attributes": TEXTS,
        "conflicts": pa.int8(),
        "weight": NUMBER,
        "cluster": TEXT,
        "vector": NUMBERS,
        "bias": NUMBER,
        "candidates": TEXTS,
    }
)
ITEM = pa.struct({"item": TEXT, "category": TEXT, "genres": TEXTS, "groups": TEXTS, "vector": NUMBERS, "bias": NUMBER})
SCHEMA = pa.schema(
    {
        "world": TEXT,
        "item_type": TEXT,
        "tasks": pa.list_(pa.list_(pa.list_(USER))),  # tasks, their batches, and the users of these
        "items": pa.list_(ITEM),
        "training": pa.list_(pa.struct({"user": pa.int64(), "item": TEXT})),
        "baseline": pa.list_(pa.struct({"user": pa.int64(), "item": TEXT, "score": NUMBER})),
    }
)
SEEDS = {
    "plain": {"users": 40, "items": 16, "longest": 10},
    "bad": {"users": 33, "items": 14, "longest": 9, "bad": 0.1, "models": 2},
    "text": {"users": 24, "items": 18, "longest": 8, "kind": "string"},
    "double": {"users": 24, "items": 16, "longest": 8, "kind": "double", "bad": 0.06},
    "models": {"users": 80, "items": 14, "longest": 8, "models": 3},
    "sparse": {"users": 30, "items": 30, "longest": 6, "empty": 0.5},
    "deep": {"users": 18, "items": 70, "longest": 45},
    "many": {"users": 400, "items": 12, "longest": 4, "clusters": 90, "empty": 0.05},
    "one": {"users": 1, "items": 6, "longest": 5, "empty": 0.0},
    "empty": {"users": 0, "items": 5, "longest": 3},
}


class _Drawn:
    """A world of a seed. Only `random.random` is used, whose numbers no version of Python changes."""

    def __init__(self, name, users, items, longest, kind="int64", bad=0.0, empty=0.12, models=1, clusters=12):
        self.r = random.Random(name).random
        self.longest, self.kind, self.bad, self.empty = longest, kind, bad, empty
        self.models, self.clusters = models, clusters
        self.ids = [self.item_id(place) for place in range(items)]
        drawn = [self.user(place) for place in range(users)]
        of_first = [user for place, user in enumerate(drawn) if place % 3]
        middle = len(of_first) // 2
        self.world = {
            "world": name,
            "item_type": kind,
            "tasks": [[of_first[:middle], of_first[middle:]], [drawn[::3]], []],
            "items": self.items(),
            "training": self.training(users),
            "baseline": [
                {"user": user["id"], "item": item, "score": self.number()}
                for user in drawn
                for item in self.some(self.ids, self.longest)
            ],
        }

    def one(self, values):
        return values[int(self.r() * len(values))]

    def some(self, values, most):
        """Different values in any order, at most so many."""
        return sorted(values, key=lambda _: self.r())[: int(self.r() * (most + 1))]

    def is_bad(self):
        return self.r() < self.bad

    def item_id(self, place):
        if self.kind == "string":
            return ["", "é", "Z", "a b", "～", "𝄞"][place] if place < 6 else f"i{place}"
        return str(place / 2 - 1) if self.kind == "double" else str(3 * place - 7)

    def number(self):
        return int(self.r() * 12 - 4) / 4 if self.r() < 0.7 else self.r() * 3 - 1

    def prediction(self, item):
        item, score, rank = None if self.is_bad() else item, self.number(), float(int(self.r() * 12))
        if self.is_bad():
            score, rank = self.one([None, NAN, INF, -INF]), self.one([None, NAN, -1.0, 1.5, INF])
        return {"item": item, "score": score, "rank": rank}

    def label(self, item):
        grades = [self.one([0.0, 0.5, 0.7, 1.0, 1.0, 2.0, 3.0]) for _ in range(2)]
        if self.is_bad():
            grades[0] = self.one([None, NAN, -1.0, -0.25, INF, 2000.0])
        weight = self.one([None, NAN, 0.0, -1.0, INF]) if self.is_bad() else 1 + int(self.r() * 40) / 4
        item = None if self.is_bad() else item
        return {"item": item, "grades": grades, "weight": weight, "subtopics": self.some("abcd", 3)}

    def predictions(self, model):
        return self.rows(self.prediction, self.longest - 3 * model)

    def rows(self, row, most):
        if self.r() < self.empty:
            return None
        rows = [row(item) for item in self.some(self.ids, most)]
        return rows + [row(each["item"]) for each in rows if self.is_bad()]

    def user(self, place):
        only_attributes = place % 17 == 5
        return {
            "id": None if self.bad and place == 3 else 7919 * place - 50_000,
            "only_attributes": only_attributes,
            "predictions": [None if only_attributes else self.predictions(model) for model in range(self.models)],
            "labels": None if only_attributes else self.rows(self.label, max(6, self.longest // 2)),
            "array_rows": 2 if self.is_bad() else 1,
            "lacks_score": self.is_bad(),
            "excluded": None if self.r() < 0.5 else self.some(self.ids, 4),
            "attributes": [self.one(["DE", "DE", "FR", "FR", None]), self.one(["ios", "web"])],
            "conflicts": int(self.is_bad()),
            "weight": self.one([None, -1.0]) if self.is_bad() else self.one([0.0, 0.5, 1.0, 2.0, 3.25]),
            "cluster": None if self.is_bad() else f"c{int(self.r() * self.clusters)}",
            "vector": None if self.is_bad() else [self.number() for _ in range(2 if self.is_bad() else 3)],
            "bias": self.number(),
            "candidates": None if self.r() < 0.3 else self.some(self.ids, 9),
        }  # fmt: skip

    def items(self):
        known = [item for item in self.ids if self.r() < 0.8]
        return [
            {
                "item": None if self.is_bad() else item,
                "category": self.one(["x", "y", "z", None]),
                "genres": None if self.r() < 0.1 else self.some("abcde", 3),
                "groups": self.some(["p", "q", "r"], 2),
                "vector": None if self.r() < 0.1 else [float(int(self.r() * 5) - 1) for _ in range(2 if self.is_bad() else 3)],
                "bias": self.number(),
            }
            for item in [*known, *(item for item in known if self.is_bad())]
        ]  # fmt: skip

    def training(self, users):
        popular = [item for place, item in enumerate(self.ids) for _ in range(max(0, len(self.ids) - 2 - place))]
        return [
            {"user": 7919 * place - 50_000, "item": None if self.is_bad() else self.one(popular)}
            for place in range(users + 5)
            for _ in range(int(self.r() * 6))
        ]


@cache
def stored():
    """The worlds of the file, by name."""
    with pa.ipc.open_file(FILE) as file:
        return {world["world"]: world for world in file.read_all().to_pylist()}


def store_missing():
    """Draw the worlds that the file lacks; says which."""
    worlds = stored() if FILE.exists() else {}
    missing = [name for name in SEEDS if name not in worlds]
    if missing:
        table = pa.Table.from_pylist([worlds.get(name) or _Drawn(name, **SEEDS[name]).world for name in SEEDS], SCHEMA)
        with pa.ipc.new_file(FILE, SCHEMA, options=pa.ipc.IpcWriteOptions(compression="zstd")) as file:
            file.write_table(table)
        stored.cache_clear()
    return missing
