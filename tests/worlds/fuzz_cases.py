"""Random cases of nasty values, and what must come of them by the naive oracle.

A case is a user with rows of predictions and labels. Cases of the same types share a table: a `Batch`, drawn from a seed.
"""

import decimal
import math
import random
import re
import sys
from collections import Counter
from dataclasses import dataclass, field

from oracles.rankings import User, value

NAN, INF = math.nan, math.inf
WORDS = [
    "", " ", "null", "NaN", "0", "00", "-0", "é", "e\u0301", "ß", "𝄞", "～", "a`b", "a.b", "'; --", "\t", "\u200b", "A",
    "a",
]  # fmt: skip
WHOLE = [0, 1, -1, 2, 3, 5, 7, 8, 10, 2**31 - 1, -(2**31), 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), -(2**63) + 1]
REAL = [0.0, -0.0, 0.1, 0.3, 0.1 + 0.2, 1.0, -1.0, 1e-300, 5e-324, 1e300, -1e300, 2.0**53, 0.5, 0.25]
CUT = ["precision@3", "recall@5", "ndcg@5", "ap@3", "rr@5", "hit_rate@1", "rbp@4", "judged@2"]
TOGETHER = ["entropy@3", "gini(among='recommended')@1", "personalisation@3", "personalisation"]
WHOLE_LISTS = ["rr", "ap", "ndcg", "auc", "auc_pr", "bpref", "r_precision", "percentile_rank", "recall@1", "dcg"]
KINDS = ("invalid_predictions", "duplicate_predictions", "invalid_labels", "negative_grades", "conflicting_labels")
# Text that is not UTF-8, as its bytes, beside text that is.
RAW = [
    b"\xff", b"\xfe", b"\xc3", b"\xe9t\xe9", b"\xed\xa0\xb4", b"\xf0\x9d", rb"\xFF", "\xe9".encode(), b"\x00", b"a", b"",
]  # fmt: skip
# Types that Python, or createDataFrame, has no values of: what they are made of, how, and what is read back.
MADE_OF = {
    "raw": ("binary", "cast({} as string)", "cast({} as binary)"),
    "date": ("int", "date_from_unix_date({})", "unix_date({})"),
}
ITEM_TYPES = {"bigint": ("bigint", "int"), "int": ("int", "bigint"), "string": ("string",), "double": ("double",)}


@dataclass
class Batch:
    """What the cases of a table have in common, drawn from a seed.

    Attributes:
        seed: of everything.
        form: ``rows``, ``ordered`` arrays, ``scored`` arrays side by side, or arrays of ``structs``.
        models: tables of predictions.
    """

    seed: int
    rng: random.Random = field(init=False)

    def __post_init__(self):
        rng = self.rng = random.Random(self.seed)
        self.form = rng.choice(["rows", "rows", "rows", "ordered", "scored", "structs"])
        self.user_type = rng.choice(["bigint", "string", "int"])
        self.item_type = rng.choice(list(ITEM_TYPES))
        self.label_item_type = rng.choice(ITEM_TYPES[self.item_type])
        self.ranked = self.form == "rows" and rng.random() < 0.25
        self.value_type = rng.choice(["double", "float", "bigint", "decimal(18,6)", "int"])
        self.grade_type = rng.choice([None, "double", "double", "int", "boolean", "decimal(10,2)"])
        self.metrics = rng.choice([CUT, CUT, WHOLE_LISTS])
        rng.choice(["auto", "auto", "never"])
        self.ties = rng.choice([None, "item_asc", "item_desc"])
        self.excludes = rng.random() < 0.25
        self.models = rng.choice([("",), ("",), ("a", "b")])
        # Drawn by the seed alone, so that the cases of a seed stay as they were.
        self.together = self.seed % 2 == 0
        self.infinite = rng.choice(["rank", "rank", "drop"])
        self.negative = rng.choice(["drop", "clip"])
        plain = self.infinite == "rank" and self.negative == "drop"
        self.on_invalid = rng.choice(["drop", "quarantine"]) if plain else dict.fromkeys(KINDS, "drop") | {
            "infinite_scores": self.infinite, "negative_grades": self.negative,
        }  # fmt: skip
        self.user_type = rng.choice([self.user_type, "raw", "binary", "date"])
        if self.item_type == "string" and rng.random() < 0.5:
            self.item_type = self.label_item_type = "raw"
        self.slice_type = rng.choice([None, "raw", "binary", "double", "date"])

    def __repr__(self):
        shown = {name: one for name, one in vars(self).items() if name not in ("rng", "on_invalid", "metrics")}
        return ", ".join(f"{name}={one!r}" for name, one in shown.items())

    # --- values

    def user(self, index):
        if self.user_type == "string":
            return f"{self.rng.choice(WORDS)}{index}"
        if self.user_type in ("raw", "binary"):
            return self.rng.choice(RAW) + str(index).encode()
        if self.user_type == "date":
            # From the year -7,700 to 15,600.
            return [-3_500_000 + index, 5_000_000 + index, index][index % 3]
        # From the ends of the type inwards, each user another.
        top = 2**31 - 1 if self.user_type == "int" else 2**63 - 1
        return [top - index, -top - 1 + index, index][index % 3]

    def slice_value(self):
        """What parts the users; nulls are a slice, too."""
        if self.rng.random() < 0.1:
            return None
        if self.slice_type == "double":
            return self.rng.choice([0.0, -0.0, NAN, INF, 0.1])
        return self.rng.choice([-800_000, 0, 5_000_000] if self.slice_type == "date" else RAW)

    def pool(self):
        """Items of one user, few, so that they repeat and meet the labels."""
        rng = self.rng
        n_items = 60 if rng.random() < 0.1 else rng.randrange(1, 12)
        if self.item_type == "string":
            return [rng.choice(WORDS) + rng.choice(["", "", str(rng.randrange(n_items))]) for _ in range(n_items)]
        if self.item_type == "raw":
            return [rng.choice(RAW) + rng.choice([b"", b"", b"\xa9"]) for _ in range(n_items)]
        if self.item_type == "double":
            return [rng.choice([*REAL, INF, -INF, rng.random()]) for _ in range(n_items)]
        whole = [one for one in WHOLE if -(2**31) <= one < 2**31 or "int" not in (self.item_type, self.label_item_type)]
        return [rng.choice([*whole, rng.randrange(-99, 99)]) for _ in range(n_items)]

    def item(self, pool):
        if self.rng.random() < 0.05:
            return NAN if self.item_type == "double" and self.rng.random() < 0.5 else None
        return self.rng.choice(pool)

    def score(self, tied):
        rng, kind = self.rng, self.value_type
        if rng.random() < 0.04:
            return None
        if self.ranked:
            return self.rank(tied)
        if kind in ("int", "bigint"):
            return rng.choice([1, 2]) if tied else rng.choice([w for w in WHOLE if kind == "bigint" or abs(w) < 2**31])
        if kind.startswith("decimal"):
            return decimal.Decimal(rng.randrange(2) if tied else rng.randrange(-(10**9), 10**9)) / 1000
        if rng.random() < 0.08:
            return rng.choice([NAN, NAN, INF, -INF])
        return rng.choice([0.5, 0.25, 0.0, -0.0]) if tied else rng.choice([*REAL[:7], rng.random(), rng.random()])

    def rank(self, tied):
        rng, kind = self.rng, self.value_type
        odd = [-1] if kind in ("int", "bigint") else [NAN, -1.0, 1.5, INF, -INF]
        number = rng.choice(odd) if rng.random() < 0.08 else rng.randrange(3 if tied else 40)
        if kind.startswith("decimal"):
            return decimal.Decimal(number) if isinstance(number, int) else decimal.Decimal("1.5")
        return number if kind in ("int", "bigint") else float(number)

    def grade(self):
        rng = self.rng
        if self.grade_type is None:
            return 1.0
        if rng.random() < 0.05:
            return None
        if self.grade_type == "boolean":
            return rng.random() < 0.7
        if self.grade_type == "int":
            return rng.choice([0, 1, 2, 3, -1, -(2**31), 4])
        if self.grade_type.startswith("decimal"):
            return decimal.Decimal(rng.choice(["0", "0.5", "1", "2", "3", "-0.01", "-7"]))
        return rng.choice([0.0, 0.0, 0.5, 1.0, 1.0, 2.0, 3.0, -0.0, -1.0, -5e-324, NAN, INF, -INF, 1024.0, 1e300])

    # --- cases

    def case(self):
        """A user: for each model rows of (item, value), rows of labels, and items to leave out; None for a missing table."""
        rng, pool = self.rng, self.pool()

        def pairs(most, number):
            skew = rng.choice([0, 1, 3, most, most, 10 * most if rng.random() < 0.05 else most])
            return [(self.item(pool), number()) for _ in range(rng.randrange(skew + 1))]

        tied = rng.random() < 0.5
        return (
            [self.rows_of(pairs(12, lambda: self.score(tied)), self.form != "ordered") for _ in self.models],
            self.rows_of(pairs(8, self.grade), self.grade_type is not None),
            [rng.choice([*pool, None]) for _ in range(rng.randrange(4))] if self.excludes else [],
        )

    def rows_of(self, pairs, valued):
        """Pairs as rows; of arrays one row with all of them, or now and then two, or one that is null or unequal."""
        if self.form == "rows":
            return pairs

        def arrays(some):
            ids, values = [one for one, _ in some], [number for _, number in some]
            odd = self.rng.random()
            if odd < 0.03:
                return None, values if valued else None
            if odd < 0.06 and valued and self.form != "structs":
                return ids, [None, [], [*values, values[-1] if values else None]][int(odd * 1000) % 3]
            return ids, values if valued else None

        if self.rng.random() < 0.05:
            return [arrays(pairs), arrays(pairs[: len(pairs) // 2])]
        return [arrays(pairs)] if pairs or self.rng.random() < 0.7 else []

    # --- what must come of them

    def expected(self, predictions, labels, excluded):
        """Of a user and a model: the values by metric, the counts, and the ranked items."""
        counts = Counter()
        rows = list(self.usable(predictions, "predictions", self.form != "ordered", counts))
        fine = []
        for item, number in rows:
            if number is not None and math.isinf(number):
                counts["n_infinite_scores"] += 1
                if self.infinite == "drop":
                    counts["n_invalid_predictions"] += 1
                    continue
            fine.append((item, number))
        kept = [(item, number) for item, number in fine if item not in excluded]
        counts["n_excluded"] = len(fine) - len(kept)
        graded = []
        for item, grade in self.usable(labels, "labels", self.grade_type is not None, counts):
            if grade < 0:
                counts["n_negative_grades"] += 1
                if self.negative == "drop":
                    counts["n_invalid_labels"] += 1
                    continue
            graded.append((item, max(grade, 0.0)))
        user = User(kept, graded, ties=self.ties or "item_asc", duplicates="keep_best")
        counts["n_predictions"] = len(user.items)
        counts["n_duplicate_predictions"] = len(kept) - len(user.items)
        counts["n_labels"] = len(user.grade)
        counts["n_excluded_labels"] = len({item for item in user.grade if item in excluded})
        for item in user.grade:
            different = len({grade for one, grade in graded if one == item}) - 1
            counts["n_conflicting_labels"] += different
            counts["n_duplicate_labels"] += sum(one == item for one, _ in graded) - 1 - different
        values = {}
        for metric in self.metrics:
            name, _, k = metric.partition("@")
            values[metric] = value(name, user, int(k) if k else None, **({"p": 0.8} if name == "rbp" else {}))
        return values, counts, user.items

    def usable(self, rows, side, valued, counts):
        """The pairs that can be used, as they compare; the others are counted."""
        if self.form != "rows":
            rows = self.read_arrays(rows, side, valued, counts)
        scored = side == "predictions" and valued
        for item, given in rows:
            number = None if given is None else float(given)
            bad = (
                item is None
                or item in ("", b"")
                or (isinstance(item, float) and (math.isnan(item) or 2.0**53 <= abs(item) < INF))
            )
            bad |= valued and (number is None or math.isnan(number))
            if not bad and scored and self.ranked:
                bad = number < 0 or math.isinf(number) or number != int(number)
            if not bad and side == "labels":
                bad = number > self.largest_grade()
            if bad:
                counts[f"n_invalid_{side}"] += 1
                continue
            comparable = item.encode() if isinstance(item, str) else item
            yield comparable, self.compared(number) if scored else number

    def compared(self, number):
        """A score as it is compared: the higher, the better."""
        if self.ranked:
            return -number
        return as_float32(number) if self.value_type == "float" else number

    def largest_grade(self):
        return 992 if any(metric.startswith(("ndcg", "dcg")) for metric in self.metrics) else sys.float_info.max

    def read_arrays(self, rows, side, valued, counts):
        if not rows:
            return []
        counts[f"n_invalid_{side}"] += len(rows) - 1
        ids, values = max(rows, key=array_order)
        if ids is None or (valued and values is None) or (valued and len(ids) != len(values)):
            counts[f"n_invalid_{side}"] += 1
            return []
        return list(zip(ids, values if valued else [None if side == "predictions" else 1.0] * len(ids), strict=True))


def name_of(value, kind):
    """How a slice of this value is named; None of a date, which is compared as Spark writes it."""
    if value is None or kind == "date":
        return None
    if kind == "double":
        return "NaN" if math.isnan(value) else "Infinity" if value == INF else str(value + 0.0)
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = None
    looks_written_out = text is not None and re.fullmatch(r"(\\x[0-9A-F]{2})+", text)
    return text if text is not None and not looks_written_out else "".join(f"\\x{byte:02X}" for byte in value)


def as_float32(number):
    import numpy as np

    with np.errstate(over="ignore"):
        return float(np.float32(number))


def array_order(row):
    """The order of Spark: null first, NaN last, arrays entry by entry, text by its bytes."""

    def entry(one):
        if one is None:
            return (0,)
        if isinstance(one, float) and math.isnan(one):
            return (1, 1)
        return (1, 0, one.encode() if isinstance(one, str) else one)

    return tuple((0,) if array is None else (1, [entry(one) for one in array]) for array in row)
