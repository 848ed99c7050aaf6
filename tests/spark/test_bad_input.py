"""Bad input: the table of docs/bad_data.md#which-rows-are-bad. ``pytest tests/spark/test_bad_input.py -k rounded``

`KINDS` has rows that an evaluation of all of them together refuses, or leaves out and counts. `CASES` has calls with tables of their own.
"""

import math
import re
import warnings
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import pytest
from pyspark.sql import functions as F

from spark_rankeval import Facts, audit, evaluate, quarantine, score_users, summarise
from spark_rankeval.errors import DataError, DialectError, InputError, SparkRankEvalWarning
from spark_rankeval.splits import by_time

NAN, INF = math.nan, math.inf
PREDICTED, GRADED = "user string, item string, score double", "user string, item string, grade double"
GOOD = [("a", "x", 3.0), ("a", "y", 2.0), ("a", "z", 1.0), ("b", "x", 1.0)]
LIKED = [("a", "y", 1.0), ("b", "x", 2.0)]
CUT, WHOLE = ["precision@2", "ndcg@2", "cg@2"], ["rr", "ndcg@2", "cg@2"]
COLUMNS = {"score": "score", "relevance": "grade"}
BETTER, LOWER = "repeats an item of the user, ranked better", "repeats an item of the user with a lower grade"


class Rows(NamedTuple):
    """A table: its columns and rows; `arrays` makes an array of structs of each user's."""

    schema: str
    rows: list
    arrays: bool = False

    def table(self, spark):
        table = spark.createDataFrame(self.rows, self.schema)
        if not self.arrays:
            return table
        return table.groupBy("user").agg(F.collect_list(F.struct(*table.columns[1:])).alias("item"))


def predicted(*more):
    return Rows(PREDICTED, [*GOOD, *more])


def graded(*more, arrays=False):
    return Rows(GRADED, [*LIKED, *more], arrays)


def run(spark, predictions, labels, metrics="rr", **options):
    """Evaluate; `Rows` become tables."""
    tables = [one.table(spark) if isinstance(one, Rows) else one for one in (predictions, labels)]
    options = {name: one.table(spark) if isinstance(one, Rows) else one for name, one in options.items()}
    return evaluate(*tables, metrics, **options)


def refused(call, **counts):
    with pytest.raises(DataError) as caught:
        call()
    assert caught.value.counts == counts
    assert "\n" not in str(caught.value)
    return str(caught.value)


def rows(frame, *names):
    return sorted((tuple(row[name] for name in names) for row in frame.collect()), key=repr)


def accounted(quality):
    """How many rows of predictions and of labels the counts of an evaluation or of a user speak of."""
    counts = quality if isinstance(quality, dict) else quality.to_dict()
    predicted = ("n_predictions", "n_excluded", "n_invalid_predictions", "n_duplicate_predictions")
    labelled = ("n_labels", "n_invalid_labels", "n_duplicate_labels", "n_conflicting_labels")
    return tuple(sum(counts[name] for name in names) for names in (predicted, labelled))


@dataclass(frozen=True)
class Kind:
    """Rows of one user, what the refusal says of them, and what is counted, rejected and computed if they are left out.

    The user also has the predictions x, y and z, and the label y. `values` differ from those of a user without bad rows.
    """

    listed: list = field(default_factory=list)
    liked: list = field(default_factory=list)
    words: tuple = ()
    counts: dict = field(default_factory=dict)
    rejected: list = field(default_factory=list)
    values: dict = field(default_factory=dict)


# There are as many null items as pruning keeps. NaN is the best score to Spark. z moves to the top, and pushes y out of the first two.
TOO_LARGE = "relevance above 992, the largest grade of a metric (set max_grade or gain='linear')"
EMPTY = "empty {} item (give it another name if it is one)"
KINDS = {
    "nothing": Kind(),
    "null item": Kind(
        [(None, 9.0)] * 12, [(None, 1.0)],
        ("null prediction item: 13, for example user='",
         "null label item: 1, for example user='null item', item=None, grade=1.0"),
        {"n_invalid_predictions": 12, "n_invalid_labels": 1},
        [("labels", None, None, 1.0, "null label item"), *[("predictions", None, 9.0, None, "null prediction item")] * 12],
    ),
    "empty item": Kind(
        [("", 9.0)], [("", 1.0)],
        (f"{EMPTY.format('prediction')}: 1, for example user='empty item', item='', score=9.0",
         f"{EMPTY.format('label')}: 1, for example user='empty item', item='', grade=1.0"),
        {"n_invalid_predictions": 1, "n_invalid_labels": 1},
        [("labels", "", None, 1.0, EMPTY.format("label")), ("predictions", "", 9.0, None, EMPTY.format("prediction"))],
    ),
    "null score": Kind(
        [("w", None)], [], ("null score: 1, for example user='null score', item='w', score=None",),
        {"n_invalid_predictions": 1}, [("predictions", "w", None, None, "null score")],
    ),
    "NaN score": Kind(
        [("w", NAN)], [], ("NaN score: 1, for example user='NaN score', item='w', score=nan",),
        {"n_invalid_predictions": 1}, [("predictions", "w", NAN, None, "NaN score")],
    ),
    "repeated predictions": Kind(
        [("z", 9.0), ("x", 0.5), ("x", 0.25)], [],
        ("predictions that repeat an item of their user: 3 (for example user='repeated predictions', item=",),
        {"n_duplicate_predictions": 3}, [("predictions", *row, None, BETTER) for row in (("x", 0.25), ("x", 0.5), ("z", 1.0))],
        {"precision@2": 0.0, "rr": 1 / 3, "ndcg@2": 0.0, "cg@2": 0.0},
    ),
    "equal labels": Kind([], [("y", 1.0)] * 2, (), {"n_duplicate_labels": 2}),
    "conflicting labels": Kind(
        [], [("y", 3.0), ("y", 3.0), ("y", 0.0)],
        ("another grade: 2 (for example user='conflicting labels', item='y', grade=", ", best=[3.0])"),
        {"n_duplicate_labels": 1, "n_conflicting_labels": 2}, [("labels", "y", None, grade, LOWER) for grade in (0.0, 1.0)],
        {"cg@2": 3.0},
    ),
    "null grade": Kind(
        [], [("w", None)], ("null relevance: 1, for example user=",),
        {"n_invalid_labels": 1}, [("labels", "w", None, None, "null relevance")],
    ),
    "NaN grade": Kind(
        [], [("w", NAN)], ("NaN relevance: 1, for example user=",),
        {"n_invalid_labels": 1}, [("labels", "w", None, NAN, "NaN relevance")],
    ),
    "negative grades": Kind(
        [], [("w", -1.0), ("v", -INF)], ("negative relevance: 2, for example user=",),
        {"n_invalid_labels": 2, "n_negative_grades": 2},
        [("labels", item, None, grade, "negative relevance") for item, grade in (("v", -INF), ("w", -1.0))],
    ),
    "grade above 992": Kind(
        [], [("w", 1024.0)], (f"{TOO_LARGE}: 1, for example user=",),
        {"n_invalid_labels": 1}, [("labels", "w", None, 1024.0, TOO_LARGE)],
    ),
}  # fmt: skip
# Users who have nothing else, and what is refused of all rows.
ALONE = {"invalid rows alone": ([(None, 9.0)], []), None: ([("x", 9.0), (None, None)], [("y", 1.0)])}
COUNTS = {"n_invalid_predictions": 18, "n_invalid_labels": 8, "n_duplicate_predictions": 3, "n_conflicting_labels": 2}


@pytest.fixture(scope="module")
def tables(spark):
    """All kinds of bad rows, each of a user of its name."""
    listed, liked = [("x", 3.0), ("y", 2.0), ("z", 1.0)], [("y", 1.0)]
    users = {user: (listed + kind.listed, liked + kind.liked) for user, kind in KINDS.items()} | ALONE
    sides = [[(user, *pair) for user, sides in users.items() for pair in sides[side]] for side in (0, 1)]
    return spark.createDataFrame(sides[0], PREDICTED), spark.createDataFrame(sides[1], GRADED)


class Evaluated:
    """What an evaluation of `tables` refuses, and what it has of each user if bad rows are left out."""

    def __init__(self, tables, metrics):
        self.metrics = metrics
        self.refusal = refused(lambda: evaluate(*tables, metrics, **COLUMNS), **COUNTS)
        self.result = evaluate(*tables, metrics, on_invalid="quarantine", **COLUMNS)
        self.users = {row["user"]: row.asDict() for row in self.result.per_user.collect()}
        self.rejected = self.result.quarantine.collect()

    def values(self, user):
        return {metric: self.users[user][self.result.columns[metric]] for metric in self.metrics}

    def quarantined(self, user):
        names = ("table", "item", "score", "grade", "reason")
        return sorted(repr(tuple(row[name] for name in names)) for row in self.rejected if row["user"] == user)


@pytest.fixture(scope="module", params=[CUT, pytest.param(WHOLE, marks=pytest.mark.ci)], ids=["pruned", "whole"])
def evaluated(tables, request):
    return Evaluated(tables, request.param)


@pytest.mark.parametrize("user", KINDS)
def test_a_kind_of_bad_rows_is_refused_or_left_out(evaluated, user):
    kind, of_user = KINDS[user], evaluated.users[user]
    for words in kind.words:
        assert words in evaluated.refusal
    expected = evaluated.values("nothing") | {
        name: kind.values[name] for name in evaluated.metrics if name in kind.values
    }
    assert evaluated.values(user) == pytest.approx(expected, abs=1e-15)
    names = (*COUNTS, "n_duplicate_labels", "n_negative_grades", "n_infinite_scores")
    assert {name: of_user[name] for name in names if of_user[name]} == kind.counts
    assert evaluated.quarantined(user) == sorted(map(repr, kind.rejected))
    assert accounted({"n_excluded": 0, **of_user}) == (3 + len(kind.listed), 1 + len(kind.liked))


def test_rows_without_a_user_are_no_user_and_a_user_with_invalid_rows_alone_is(evaluated):
    for words in (
        "predictions that cannot be ranked: 18 (", "labels that cannot be used: 8 (", "on_invalid='drop'",
        "null user (user): 2, for example user=None, item=", "null user (user): 1, for example user=None, item='y', grade=1.0",
    ):  # fmt: skip
        assert words in evaluated.refusal
    quality = evaluated.result.data_quality
    assert set(evaluated.users) == {*KINDS, "invalid rows alone"}
    assert (quality.n_users, quality.n_without_predictions, quality.n_without_relevant) == (len(KINDS) + 1, 1, 1)
    for row in evaluated.result.summary:
        values = [user[evaluated.result.columns[row.key]] for user in evaluated.users.values()]
        defined = [value for value in values if not math.isnan(value)]
        assert (row.n_users, row.n_undefined) == (len(defined), 1)
        assert row.mean == pytest.approx(sum(defined) / len(KINDS), rel=1e-12)
    assert evaluated.result.quarantine.columns == ["table", "user", "item", "score", "grade", "reason"]
    assert evaluated.quarantined(None) == sorted(map(repr, [
        ("labels", "y", None, 1.0, "null user (user)"),
        ("predictions", "x", 9.0, None, "null user (user)"),
        ("predictions", None, None, None, "null user (user)"),
    ]))  # fmt: skip
    users = [*((kind.listed, kind.liked) for kind in KINDS.values()), *ALONE.values()]
    n_rows = [sum(len(sides[side]) for sides in users) for side in (0, 1)]
    assert accounted(quality) == (n_rows[0] + 3 * len(KINDS), n_rows[1] + len(KINDS))


def test_a_table_of_users_keeps_the_counts_and_the_quarantine_is_lazy_alone(tables, evaluated, jobs_of):
    refused(lambda: summarise(score_users(*tables, evaluated.metrics, **COLUMNS)), **COUNTS)
    dropped = summarise(score_users(*tables, evaluated.metrics, on_invalid="drop", **COLUMNS))
    assert dropped.summary == evaluated.result.summary
    assert dropped.data_quality.to_dict() == evaluated.result.data_quality.to_dict()
    with pytest.raises(InputError, match="does not hold them; use evaluate"):
        _ = dropped.quarantine
    frames = []
    assert jobs_of(lambda: frames.append(quarantine(*tables, evaluated.metrics, **COLUMNS))) == 0
    assert sorted(map(repr, frames[0].collect())) == sorted(map(repr, evaluated.rejected))


@dataclass(frozen=True)
class Case:
    """A call with bad rows: the words of its refusal as regular expressions, its counts, and what it gives without them.

    `figures` are metrics and counts. `rejected` are rows of the quarantine, in the columns `shown`.
    """

    call: dict
    words: tuple
    counts: dict = field(default_factory=dict)
    figures: dict | None = None
    rejected: list | None = None
    shown: tuple = ("table", "item", "reason")
    on_invalid: object = "quarantine"


def invalid(n_predictions=0, n_labels=0, **others):
    counts = {"n_invalid_predictions": n_predictions, "n_invalid_labels": n_labels}
    return {name: n for name, n in counts.items() if n} | others


def nan_item(arrays):
    return Case(
        {"predictions": Rows("user int, item double, score double", [(1, NAN, 2.0), (1, 5.0, 1.0)], arrays),
         "labels": Rows("user int, item double", [(1, 5.0)]), "score": "score"},
        ("NaN prediction item: 1",), invalid(1), {"rr": 1.0},
    )  # fmt: skip


def rounded_ids(kind, bits):
    """From 2^53 on doubles lack whole numbers, and from 2^24 on floats: two ids may have become one."""
    large, good = 2.0**bits, 2.0**bits - 1
    listed = [(good, good), (large, good), (large, 1.0), (good, large), (good, -large), (NAN, 1.0)]
    advice = re.escape(f"of 2^{bits} or more, which a {kind} rounds (read ids as strings or bigint)")
    return Case(
        {"predictions": Rows(f"user {kind}, item {kind}, score double", [(*ids, 0.9 if abs(ids[1]) == large else 0.5) for ids in listed]),
         "labels": Rows(f"user {kind}, item {kind}", [(good, good), (large, good), (good, 4 * large)]), "score": "score"},
        (rf"user \(user\) {advice}: 2, for example user={re.escape(repr(large))}, item=", rf"prediction item {advice}: 2, for",
         rf"user \(user\) {advice}: 1, for example", rf"label item {advice}: 1, for example user=", r"NaN user \(user\): 1"),
        invalid(5, 2), {"rr": 1.0, "n_users": 1, "n_predictions": 1, "n_labels": 1},
        [("labels",)] * 2 + [("predictions",)] * 5, ("table",),
    )  # fmt: skip


def rounded_entries(kind, bits, dialect):
    large = 2.0**bits
    return Case(
        {"predictions": Rows(f"user int, item array<{kind}>", [(1, [large, 5.0]), (2, [INF, large - 1]), (3, [])]),
         "labels": Rows(f"user int, label array<{kind}>", [(1, [5.0]), (2, [large - 1, -large]), (3, [])]),
         "metrics": "ap@2", "item": ("item", "label"), "dialect": dialect},
        (), invalid(1, 1), {"n_predictions": 3, "n_labels": 2},
    )  # fmt: skip


RANKS = [("a", "x", 1.0), ("a", "y", 2.0), ("a", "y", 3.0), ("b", "x", None), ("b", "y", -1.0), ("b", "z", 1.5), ("b", "w", NAN),
         ("b", "v", INF)]  # fmt: skip
BAD_ARRAYS = [
    (1, [1, 2], [0.2, 0.9]), (2, None, [0.5]), (3, [1, 2], None), (4, [1, None], [0.5, 0.4]), (5, [1, 2], [0.5, None]),
    (6, [1, 2, 3], [0.5]), (7, [1, 2], [NAN, 0.5]), (None, [1, 2], [0.5, 0.4]), (8, [1], [0.1]), (8, [1, 2], [0.2, 0.1]), (9, [], []),
]  # fmt: skip
ARRAY_REASONS = [
    ("NaN score", 7, 1), ("null array of predictions", 2, None), ("null array of predictions", 3, None),
    ("null prediction item", 4, None), ("null score", 5, 2), ("null user (user)", None, None),
    ("unequal lengths of items and scores", 6, None), ("user in several rows", 8, None),
]  # fmt: skip
ONE_TABLE = [
    ([1, 2, 2, None], [2, 2, 3], [1.0, 3.0, -1.0]),
    ([1, 2], [2, 2], [1.0, 1.0]),
    (None, [1], [None]),
    ([5, 5], [5], [1.0, 2.0]),
]
ENTRIES_OF_ONE_TABLE = [
    ("labels", 1, None, "null relevance"), ("labels", 2, 1.0, LOWER), ("labels", 3, -1.0, "negative relevance"),
    ("labels", None, None, "unequal lengths of label and grade"), ("predictions", 2, None, BETTER),
    ("predictions", 5, None, BETTER), ("predictions", None, None, "null array of predictions"),
    ("predictions", None, None, "null prediction item"),
]  # fmt: skip
EQUAL = r"If these rows are equal in what is read, dropDuplicates\(\['user', 'item', 'score'\]\) leaves one of each\."


FRONT = {
    "NaN items": nan_item(False),
    # Of repeated ranks the smallest is the best.
    "ranks": Case(
        {"predictions": Rows("user string, item string, place double", RANKS), "labels": graded(), "metrics": CUT, "rank": "place",
         "relevance": "grade"},
        ("null rank: 1", "negative rank: 1", "fractional rank: 1", "NaN rank: 1", "infinite rank: 1",
         r"A rank is a whole number; of distances and losses pass the negative as score=\. If these rows"),
        invalid(5, n_duplicate_predictions=1), {"precision@2": 0.25, "n_without_predictions": 1},
        [("v", INF, "infinite rank"), ("w", NAN, "NaN rank"), ("x", None, "null rank"), ("y", -1.0, "negative rank"), ("y", 3.0, BETTER),
         ("z", 1.5, "fractional rank")], ("item", "place", "reason"),
    ),
    # Of the two rows of user 8 the same one is read every time.
    "arrays": Case(
        {"predictions": Rows("user long, items array<long>, scores array<double>", BAD_ARRAYS),
         "labels": Rows("user long, item long", [(user, 1) for user in range(1, 10)]), "item": ("items", "item"), "score": "scores"},
        (*(rf"{re.escape(reason)}: {n}, for example user=" for reason, n in Counter(row[0] for row in ARRAY_REASONS).items()),
         r"user in several rows: 1, for example user=8\)\. .* dropDuplicates\(\['user', 'items', 'scores'\]\) leaves"),
        invalid(8), {"rr": 3.5 / 9, "n_predictions": 7, "n_users": 9}, ARRAY_REASONS, ("reason", "user", "item"),
    ),
    "empty items of arrays": Case(
        {"predictions": Rows("user int, item array<string>, label array<string>", [(1, ["", None, "x"], ["x", ""]), (2, ["y"], ["y"])]),
         "labels": None, "item": ("item", "label")},
        (r"empty prediction item \(give it another name if it is one\): 1, for example user=1, item=''", "empty label item"),
        invalid(2, 1), {"rr": 1.0, "n_predictions": 2, "n_labels": 2},
    ),
}  # fmt: skip
CASES = FRONT | {
    "NaN items of arrays": nan_item(True),
    "rounded doubles": rounded_ids("double", 53),
    "rounded floats": rounded_ids("float", 24),
    "rounded doubles in arrays": rounded_entries("double", 53, "mllib"),
    "rounded floats in arrays": rounded_entries("float", 24, "default"),
    "null user of lists in one table": Case(
        {"predictions": Rows("user string, prediction array<string>, label array<string>", [("a", ["x"], ["x"]), (None, ["x"], ["y"])]),
         "labels": None},
        ("null user",), invalid(1, 1), {"n_users": 1, "rr": 1.0},
    ),
    "null user of the table of users": Case(
        {"predictions": predicted(), "labels": graded(), **COLUMNS, "users": Rows("user string", [("a",), ("zz",), (None,)])},
        (r"null user \(user\) in the table of users: 1",), invalid(0, 1), {"n_users": 3},
    ),
    "repeated predictions alone": Case(
        {"predictions": predicted(("a", "z", 9.0), ("b", "x", 0.5), ("b", "x", 0.25)), "labels": graded(("a", "z", 1.0)),
         "metrics": "rr@2", **COLUMNS},
        (rf"\(for example user='.', item='.', score=.*, best=.*\)\. {EQUAL} Otherwise fix",), {"n_duplicate_predictions": 3}, {"rr@2": 1.0},
        [("predictions", "x", BETTER)] * 2 + [("predictions", "z", BETTER)], on_invalid={"duplicate_predictions": "drop"},
    ),
    "conflicting labels alone": Case(
        {"predictions": predicted(), "labels": graded(("a", "y", 3.0), ("a", "x", 1.0)), "metrics": "ndcg@2", **COLUMNS},
        (), {"n_conflicting_labels": 1}, {"ndcg@2": ((1 + 7 / math.log2(3)) / (7 + 1 / math.log2(3)) + 1) / 2},
        on_invalid={"conflicting_labels": "drop"},
    ),
    "conflicting labels in mllib, which has no last label": Case(
        {"predictions": predicted(), "labels": Rows(GRADED, [("a", "x", 5.0), ("a", "x", 1.0)]), "metrics": "precision@1",
         "dialect": "mllib", **COLUMNS},
        ("with another grade: 1",), {"n_conflicting_labels": 1},
    ),
    "conflicting labels of several judges": Case(
        {"predictions": predicted(), "labels": Rows(f"{GRADED}, judge string", [("a", "y", 1.0, "ann"), ("a", "y", 2.0, "bob")]),
         **COLUMNS},
        (r"grade=1.0, best=\[2.0\]\)\. If another column, such as 'judge', tells these rows apart, keep one of its values\. Otherwise",),
        {"n_conflicting_labels": 1},
    ),
    "lists of several models": Case(
        {"predictions": Rows("user string, item array<string>, model string", [("a", ["x", "y"], "old"), ("a", ["y", "x"], "new")]),
         "labels": graded()},
        (r"such as 'model', .* If it names models or runs, pass it as model=\. Otherwise",), invalid(1),
    ),
    # What no metric raises to a power may be large, and not infinite.
    "infinite grade": Case(
        {"predictions": predicted(), "labels": graded(("a", "q", 1024.0), ("a", "w", INF)), "metrics": ["rr", "ndcg(gain=linear)@2"],
         **COLUMNS},
        ("infinite relevance: 1, for example user='a', item='w'",), invalid(0, 1),
    ),
    "grade above the scale of a metric": Case(
        {"predictions": predicted(), "labels": graded(), "metrics": "err@2", **COLUMNS},
        ("relevance above 1, the largest grade of a metric",), invalid(0, 1),
    ),
    "arrays of one table": Case(
        {"predictions": Rows("prediction array<int>, label array<int>, grade array<double>", ONE_TABLE), "labels": None,
         "relevance": "grade"},
        ("for example item=2, grade=1.0",), invalid(2, 3, n_duplicate_predictions=2, n_conflicting_labels=1),
        {"n_predictions": 5, "n_labels": 2}, ENTRIES_OF_ONE_TABLE, ("table", "item", "grade", "reason"),
    ),
    "repeated predictions with further columns": Case(
        {"predictions": Rows(f"{PREDICTED}, week int, run string", [("a", "x", 3.0, 1, "p"), ("a", "x", 2.0, 1, "q")]),
         "labels": graded(), "score": "score"},
        (rf"item='x', score=2.0, best=\[3.0\]\)\. {EQUAL} If another column, such as 'week' or 'run', tells these rows apart, keep one of "
         r"its values\. If it names models or runs, pass it as model=; if it names chunks, pass roll_up\(predictions, 'item', …",),
        {"n_duplicate_predictions": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in FRONT else pytest.mark.ci) for name in CASES])
def test_a_case_is_refused_or_left_out(spark, name):
    case = CASES[name]
    message = refused(lambda: run(spark, **case.call), **case.counts)
    for words in case.words:
        assert re.search(words, message), message
    if case.figures is None:
        return
    result = run(spark, **case.call, on_invalid=case.on_invalid)
    counts = result.data_quality.to_dict()
    figures = {name: counts[name] if name.startswith("n_") else result[name] for name in case.figures}
    assert figures == pytest.approx(case.figures, abs=1e-12)
    assert {name: counts[name] for name in case.counts} == case.counts
    sides = [case.call["predictions"], case.call["labels"]]
    if "users" not in case.call and not any(side is None or side.arrays or "array" in side.schema for side in sides):
        assert accounted(counts) == tuple(len(side.rows) for side in sides)
    if case.rejected is not None:
        assert sorted(map(repr, rows(result.quarantine, *case.shown))) == sorted(map(repr, case.rejected))


@pytest.mark.ci
def test_rounded_ids_of_other_tables(spark):
    large = 2.0**53
    mine = spark.createDataFrame([(1.0, 1.0, 0.5), (2.0, 2.0, 0.5)], "user double, item double, score double")
    events = [(1.0, 1.0, 1), (large, 1.0, 1), (1.0, large, 2), (2.0, 2.0, 2)]
    log, liked = spark.createDataFrame(events, "user double, item double, day int"), mine.drop("score")
    for options, counts in (
        ({"metrics": "novelty@1", "facts": Facts(training=log)}, {"n_invalid_training": 2}),
        ({"metrics": "rr", "facts": Facts(items=log, item_by="day")}, {"n_invalid_items": 1}),
        ({"metrics": "rr", "users": log}, {"n_invalid_labels": 1}),
    ):
        refused(partial(evaluate, mine, liked, score="score", **options), **counts)
    halves = by_time(log, 2, time="day")
    assert (halves.training.count(), halves.labels.count()) == (1, 1)
    assert set(halves.counts().invalid.values()) == {1}
    with pytest.raises(DataError, match="or an id that floating point rounds: 2 of 4"):
        audit(log, mine, time=None)


def test_infinite_scores_are_ranked_with_a_warning_refused_or_dropped(spark):
    """Whatever happens to other rows."""
    bad = [("a", "w", INF), ("b", "w", -INF)]
    ranked, liked = predicted(*bad).table(spark), graded(("a", "w", 3.0)).table(spark)
    with pytest.warns(SparkRankEvalWarning, match="2 predictions have an infinite score.*'infinite_scores': 'error'"):
        result = evaluate(ranked, liked, CUT, **COLUMNS)
    assert (result.data_quality.n_infinite_scores, result.data_quality.n_invalid_predictions) == (2, 0)
    assert result["precision@2"] == 0.5
    table = score_users(ranked, liked, "rr", **COLUMNS)
    with pytest.warns(SparkRankEvalWarning, match="infinite"):
        assert summarise(table)["rr"] == 1.0
    with pytest.raises(DataError, match="predictions that cannot be ranked: 2"):
        summarise(table, {"infinite_scores": "error"})
    worse = predicted(*bad, ("a", "q", NAN))

    def call(**kinds):
        return run(spark, worse, graded(), CUT, on_invalid=kinds, **COLUMNS)

    with warnings.catch_warnings(action="error", category=SparkRankEvalWarning):
        message = refused(lambda: call(infinite_scores="error", invalid_predictions="drop"), n_invalid_predictions=2)
        assert "infinite score: 2, for example user=" in message
        assert "NaN" not in message
        message = refused(lambda: call(infinite_scores="drop"), n_invalid_predictions=1)
        assert "NaN score: 1" in message
        assert "infinite score" not in message
        dropped = call(infinite_scores="drop", invalid_predictions="drop")
        # A stored table knows that they were dropped, and does not warn of them.
        without = score_users(ranked, liked, "rr", on_invalid={"infinite_scores": "drop"}, **COLUMNS)
        assert summarise(without, {"infinite_scores": "rank"}).data_quality.n_infinite_scores == 2
    # Of a the second is liked, of b the only one.
    expected = [0.5, (1 / math.log2(3) + 1) / 2, 1.5]
    assert [row.mean for row in dropped.summary] == pytest.approx(expected, abs=1e-12)
    quality = dropped.data_quality
    assert (quality.n_infinite_scores, quality.n_invalid_predictions, accounted(quality)[0]) == (2, 3, 7)
    assert rows(dropped.quarantine, "item", "reason")[0] == ("q", "NaN score")


@pytest.mark.parametrize("arrays", [False, pytest.param(True, marks=pytest.mark.ci)], ids=["rows", "arrays"])
def test_negative_grades_are_dropped_or_clipped(spark, arrays):
    bad = graded(("a", "x", -1.0), ("b", "q", NAN), ("b", "w", None), ("a", "v", -INF), arrays=arrays)

    def call(on_invalid):
        return run(spark, predicted(), bad, ["cg@2", "bpref"], on_invalid=on_invalid, **COLUMNS)

    if arrays:
        dropped = call("drop")
        assert [(row.mean, row.n_users) for row in dropped.summary] == [(1.5, 2), (1.0, 2)]
        assert (dropped.data_quality.n_invalid_labels, dropped.data_quality.n_negative_grades) == (4, 2)
    choice = {"negative_grades": "clip" if arrays else "drop"}
    assert "negative" not in refused(lambda: call(choice), n_invalid_labels=2)
    clipped = call({"negative_grades": "clip", "invalid_labels": "drop"})
    # Of grade 0, x is judged and not liked, and stands before y.
    assert [(row.mean, row.n_users) for row in clipped.summary] == [(1.5, 2), (0.5, 2)]
    quality = clipped.data_quality
    assert (quality.n_invalid_labels, quality.n_negative_grades, accounted(quality)[1]) == (2, 2, 6)
    assert rows(clipped.quarantine, "item", "reason") == [("q", "NaN relevance"), ("w", "null relevance")]


@pytest.mark.ci
@pytest.mark.parametrize("arrays", [False, True])
def test_a_dialect_may_take_negative_grades_and_still_no_nan(spark, arrays):
    """The item before the liked one is not liked by `zero`; `negative` has not judged it."""
    users = ("zero", "negative")
    listed = Rows(PREDICTED, [(user, item, score) for user in users for item, score in (("x", 3.0), ("y", 2.0))])
    grades = [*((user, "y", 1.0) for user in users), ("zero", "x", 0.0), ("negative", "x", -1.0)]
    options = {**COLUMNS, "metrics": "bpref", "dialect": "trec_eval"}
    values = run(spark, listed, Rows(GRADED, grades, arrays), **options).per_user.select("user", "bpref").collect()
    assert {row["user"]: row["bpref"] for row in values} == {"zero": 0.0, "negative": 1.0}
    with pytest.raises(DataError, match="NaN relevance"):
        run(spark, listed, Rows(GRADED, [*grades, ("zero", "z", NAN)], arrays), **options)


@pytest.mark.ci
def test_labels_of_several_relevances_are_all_accounted_for(spark):
    x = [("a", "x", 1.0, 1.0), ("a", "x", 1.0, 2.0), ("a", "x", 2.0, 1.0)]
    cells = [*x, ("a", "y", 1.0, -1.0), ("a", "z", NAN, 1.0), *[("b", "x", 1.0, 1.0)] * 2]
    liked = Rows("user string, item string, click double, buy double", cells)
    result = run(spark, predicted(), liked, score="score", relevance=["click", "buy"], on_invalid="drop")
    quality = result.data_quality
    assert accounted(quality) == (len(GOOD), len(cells))
    assert (quality.n_invalid_labels, quality.n_negative_grades) == (2, 1)
    reasons = dict(result.quarantine.groupBy("reason").count().collect())
    assert reasons["NaN relevance 'click'"] == reasons["negative relevance 'buy'"] == 1
    assert quality.n_conflicting_labels + quality.n_duplicate_labels == 3


@pytest.mark.ci
def test_mllib_ranks_null_items_and_takes_nan_grades(spark):
    table = Rows("prediction array<long>, label array<long>", [([None, 1], [1])])
    result = run(spark, table, None, ["precision@2", "ap", "ndcg@2"], dialect="mllib")
    assert [row.mean for row in result.summary] == pytest.approx([0.5, 0.5, 1 / math.log2(3)], abs=1e-12)
    lists = [([1, 2], [1, 2], [NAN, 2.0]), ([1], [1], [1.0])]
    table = Rows("prediction array<long>, label array<long>, grade array<double>", lists)
    result = run(spark, table, None, ["ndcg@2", "precision@2"], relevance="grade", dialect="mllib")
    assert math.isnan(result["ndcg@2"])
    assert result["precision@2"] == 0.75
    with pytest.raises(DialectError, match=r"depends on the order of a user's labels.*ndcg\(ideal='labels'\)"):
        run(spark, predicted(), graded(), "ndcg@2", dialect="mllib", **COLUMNS)


@pytest.mark.ci
def test_a_null_in_an_ordered_array_is_an_error_where_it_is_read(spark):
    """At the places 0 and 4 of lists that are read up to the fifth, and at 49, where only a metric of whole lists looks."""
    lists = [([*range(place), None, *range(place, 50)], [7]) for place in (0, 4, 49)]
    schema = "prediction array<long>, label array<long>"
    table, beyond = (spark.createDataFrame(one, schema) for one in (lists, lists[2:]))
    for metric, n in (("precision@5", 2), ("rr", 3)):
        refused(lambda metric=metric: evaluate(table, None, metric), n_invalid_predictions=n)
    result = evaluate(beyond, None, "precision@5")
    assert "duplicates and nulls further down are not counted" in result.explain()
    assert result.data_quality.n_predictions == 51
    without = evaluate(table, None, ["precision@5", "rr"], on_invalid="drop")
    assert without.data_quality.n_invalid_predictions == 3
    assert without["rr"] == pytest.approx(1 / 8)


@pytest.mark.parametrize("infinite", ["drop", pytest.param("rank", marks=pytest.mark.ci)])
def test_rows_in_are_rows_ranked_and_rows_reported(spark, infinite):
    """Also where items are excluded, and where a model has no rows; tests of random cases have every plan."""
    bad = [
        (None, "x", 1.0), ("a", None, 9.0), ("c", "q", NAN), ("a", "x", 0.5), ("b", "x", 0.5), ("b", "w", -INF),
        ("d", "x", INF),
    ]  # fmt: skip
    mine = predicted(*bad).table(spark)
    theirs = graded(("a", "y", 1.0), ("a", "y", 2.0), ("b", None, 1.0), ("z", "z", -1.0)).table(spark)
    excluded = spark.createDataFrame([("a", "x"), ("b", "w"), ("d", None)], "user string, item string")
    kinds = ("invalid_predictions", "duplicate_predictions", "invalid_labels", "conflicting_labels")
    choice = dict.fromkeys(kinds, "drop") | {"infinite_scores": infinite}
    models = {"one": mine, "two": mine.limit(0)}
    with warnings.catch_warnings(action="ignore", category=SparkRankEvalWarning):
        result = evaluate(models, theirs, "rr@2", on_invalid=choice, exclude=excluded, **COLUMNS)
    counted = result.qualities["one"]
    assert accounted(counted) == (len(GOOD) + len(bad), len(LIKED) + 4)
    assert accounted(result.qualities["two"])[0] == 0
    assert Counter(row["table"] for row in result.quarantine.collect()) == {
        "predictions": counted.n_invalid_predictions + counted.n_duplicate_predictions,
        "labels": counted.n_invalid_labels + counted.n_conflicting_labels,
    }
