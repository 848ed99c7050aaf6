"""Bad input: each row of the table in docs/bad_data.md. ``pytest tests/spark/test_bad_input.py -k rounded``

`KINDS` has rows that an evaluation of all of them together refuses, or leaves out and counts. `CASES` has calls with tables of their own.
"""

import itertools
import math
import re
import warnings
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, NamedTuple

import pytest
from helpers.effort import part_of
from pyspark.sql import functions as F

from spark_rankeval import Facts, audit, evaluate, quarantine, score_users, summarise
from spark_rankeval.errors import DataError, DialectError, InputError, OptionError, SparkRankEvalWarning
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


def predictions(spark, *more):
    return predicted(*more).table(spark)


def labels(spark, *more):
    return graded(*more).table(spark)


def run(spark, predictions, labels, metrics="rr", **options):
    """Evaluate; of the options those that are `Rows` become tables."""
    tables = [one.table(spark) if isinstance(one, Rows) else one for one in (predictions, labels)]
    options = {name: one.table(spark) if isinstance(one, Rows) else one for name, one in options.items()}
    return evaluate(*tables, metrics, **options)


def refused(call, **counts):
    with pytest.raises(DataError) as caught:
        call()
    assert caught.value.counts == counts
    assert "\n" not in str(caught.value)
    assert "Traceback" not in str(caught.value)
    return str(caught.value)


def rows(frame, *names):
    return sorted((tuple(row[name] for name in names) for row in frame.collect()), key=repr)


def accounted(quality):
    """How many rows of predictions and of labels the counts speak of."""
    return (
        quality.n_predictions + quality.n_excluded + quality.n_invalid_predictions + quality.n_duplicate_predictions,
        quality.n_labels + quality.n_invalid_labels + quality.n_duplicate_labels + quality.n_conflicting_labels,
    )


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


# As many null items as would fill all that pruning keeps. NaN would be the best of all scores to Spark. z moves to the top, and
# pushes y out of the first two.
KINDS = {
    "nothing": Kind(),
    "null item": Kind(
        [(None, 9.0)] * 12, [(None, 1.0)],
        ("null prediction item: 13, for example user='",
         "null label item: 1, for example user='null item', item=None, relevance=1.0"),
        {"n_invalid_predictions": 12, "n_invalid_labels": 1},
        [("labels", None, None, 1.0, "null label item"), *[("predictions", None, 9.0, None, "null prediction item")] * 12],
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
        ("labels that repeat an item of their user with another grade: 2 (for example user='conflicting labels', item='y' 4 times, "
         "with relevances [0.0, 1.0, 3.0]",),
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
        [], [("w", 1024.0)],
        ("relevance above 992, the largest grade of a metric (set max_grade or gain='linear'): 1, for example user=",),
        {"n_invalid_labels": 1},
        [("labels", "w", None, 1024.0, "relevance above 992, the largest grade of a metric (set max_grade or gain='linear')")],
    ),
}  # fmt: skip
# Users who have nothing else, and what is refused of all rows.
ALONE = {"invalid rows alone": ([(None, 9.0)], []), None: ([("x", 9.0), (None, None)], [("y", 1.0)])}
COUNTS = {
    "n_invalid_predictions": 17, "n_invalid_labels": 7, "n_duplicate_predictions": 3, "n_conflicting_labels": 2
}  # fmt: skip


@pytest.fixture(scope="module")
def tables(spark):
    """All kinds of bad rows, each of a user of its name."""
    listed, liked = [("x", 3.0), ("y", 2.0), ("z", 1.0)], [("y", 1.0)]
    users = {user: (listed + kind.listed, liked + kind.liked) for user, kind in KINDS.items()} | ALONE
    rows = [[(user, *pair) for user, sides in users.items() for pair in sides[side]] for side in (0, 1)]
    return spark.createDataFrame(rows[0], PREDICTED), spark.createDataFrame(rows[1], GRADED)


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

    def counts(self, user):
        """How many rows of a user were left out, by kind."""
        names = (*COUNTS, "n_duplicate_labels", "n_negative_grades", "n_infinite_scores")
        return {name: self.users[user][name] for name in names if self.users[user][name]}

    def quarantined(self, user):
        names = ("table", "item", "score", "grade", "reason")
        return sorted(repr(tuple(row[name] for name in names)) for row in self.rejected if row["user"] == user)


# Of whole lists the fuzz and the test of every plan below see by day what is left out.
PLANS = {"argvalues": part_of([CUT, WHOLE], 2), "ids": part_of(["pruned", "whole"], 2)}


@pytest.fixture(scope="module", params=PLANS["argvalues"], ids=PLANS["ids"])
def evaluated(tables, request):
    return Evaluated(tables, request.param)


class TestKinds:
    @pytest.mark.parametrize("user", KINDS)
    def test_a_kind_is_refused_or_left_out(self, evaluated, user):
        kind = KINDS[user]
        for words in kind.words:
            assert words in evaluated.refusal
        expected = evaluated.values("nothing") | {
            name: kind.values[name] for name in evaluated.metrics if name in kind.values
        }
        assert evaluated.values(user) == pytest.approx(expected, abs=1e-15)
        assert evaluated.counts(user) == kind.counts
        assert evaluated.quarantined(user) == sorted(map(repr, kind.rejected))
        assert accounted(Named(evaluated.users[user])) == (3 + len(kind.listed), 1 + len(kind.liked))

    def test_all_together_are_refused_in_one_sentence(self, evaluated):
        for words in (
            "predictions that cannot be ranked: 17 (",
            "labels that cannot be used: 7 (",
            "null user (user): 2, for example user=None, item=",
            "null user (user): 1, for example user=None, item='y', relevance=1.0",
            "on_invalid='drop'",
        ):
            assert words in evaluated.refusal

    def test_rows_without_a_user_are_no_user_and_a_user_with_invalid_rows_alone_is(self, evaluated):
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

    def test_a_table_of_users_keeps_the_counts(self, tables, evaluated):
        refused(lambda: summarise(score_users(*tables, evaluated.metrics, **COLUMNS)), **COUNTS)
        dropped = summarise(score_users(*tables, evaluated.metrics, on_invalid="drop", **COLUMNS))
        assert dropped.summary == evaluated.result.summary
        assert dropped.data_quality.to_dict() == evaluated.result.data_quality.to_dict()
        with pytest.raises(InputError, match="does not hold them; use evaluate"):
            _ = dropped.quarantine

    def test_the_quarantine_is_lazy_alone(self, tables, evaluated, jobs_of):
        frames = []
        assert jobs_of(lambda: frames.append(quarantine(*tables, evaluated.metrics, **COLUMNS))) == 0
        assert sorted(map(repr, frames[0].collect())) == sorted(map(repr, evaluated.rejected))
        words = r"there is no option 'scores'; did you mean 'score'\? available: user, item, score"
        with pytest.raises(OptionError, match=words):
            quarantine(*tables, evaluated.metrics, scores="score")

    @pytest.mark.parametrize("name", ["table", "Table", "Item", "reason"])
    def test_a_column_with_a_name_of_the_quarantine_is_an_error_before_any_job(self, spark, jobs_of, name):
        # The columns of items may have any name: the quarantine calls them "item".
        tables = (predictions(spark), labels(spark))
        renamed = [table.withColumnsRenamed({"item": "product", "user": name}) for table in tables]
        call = {"metrics": CUT, "user": name, "item": "product", **COLUMNS}

        def refuse():
            words = f"would have several columns named .*'{name}'.*; rename the column of the data"
            with pytest.raises(InputError, match=words):
                quarantine(*renamed, **call)
            with pytest.raises(InputError, match="several columns named"):
                evaluate(*renamed, on_invalid="quarantine", **call)

        assert jobs_of(refuse) == 0


class Named(dict):
    """A row whose columns are attributes."""

    __getattr__ = dict.__getitem__


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
        (rf"user \(user\) {advice}: 2, for example user={re.escape(repr(large))}, item=",
         f"prediction item {advice}: 2, for example user=", rf"user \(user\) {advice}: 1, for example",
         re.escape(f"label item {advice}: 1, for example user={good!r}, item={4 * large!r}").replace(re.escape(advice), advice),
         r"NaN user \(user\): 1"),
        invalid(5, 2), {"rr": 1.0, "n_users": 1, "n_predictions": 1, "n_labels": 1},
        [("labels",)] * 2 + [("predictions",)] * 5, ("table",),
    )  # fmt: skip


def rounded_entries(kind, bits, dialect):
    large = 2.0**bits
    listed = [(1, [large, 5.0]), (2, [INF, large - 1]), (3, [])]
    return Case(
        {"predictions": Rows(f"user int, item array<{kind}>", listed),
         "labels": Rows(f"user int, label array<{kind}>", [(1, [5.0]), (2, [large - 1, -large]), (3, [])]),
         "metrics": "ap@2", "item": ("item", "label"), "dialect": dialect},
        (), invalid(1, 1), {"n_predictions": 3, "n_labels": 2},
    )  # fmt: skip


ONE_TABLE = "prediction array<int>, label array<int>, grade array<double>"
ARRAYS = "user long, items array<long>, scores array<double>"
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
ENTRIES_OF_ONE_TABLE = [
    ("labels", 1, None, "null relevance"), ("labels", 2, 1.0, LOWER), ("labels", 3, -1.0, "negative relevance"),
    ("labels", None, None, "unequal lengths of label and grade"), ("predictions", 2, None, BETTER),
    ("predictions", 5, None, BETTER), ("predictions", None, None, "null array of predictions"),
    ("predictions", None, None, "null prediction item"),
]  # fmt: skip
READ = r"the columns that are read; dropDuplicates\(\['user', 'item', 'score'\]\)"
MANY = ", ".join(f"more_{index} int" for index in range(31))
# A further column of predictions, rows of one item, and what the refusal says of why the item is there twice.
CAUSES = {
    "a column of models and a real duplicate": (
        "run string",
        [(3.0, "a"), *((2.0, name) for name in "abcdefghij")],
        "'run' tells 9 of these 10 rows apart; pass model='run'",
    ),
    "a column of models with equal scores": ("run string", [(3.0, "old"), (3.0, "new")], "'run' tells"),
    "a column of few values": (
        "week int",
        [(3.0, 1), (2.0, 2)],
        "'week' tells these rows apart; .*keep one of its values",
    ),
    "a table read twice": ("week int", [(3.0, 1)] * 2, "equal in all columns.*dropDuplicates"),
    "a map": ("about map<string,int>", [(3.0, {"k": 1})] * 2, f"equal in {READ}"),
    "more columns than are compared": (MANY, [(3.0, *range(31))] * 2, f"equal in {READ}"),
    "a join": ("genre string", [(3.0, "u"), (3.0, "v")], "equal but for 'genre', as after a join"),
    "no cause": ("week int", [(3.0, 1), (2.0, 1)], None),
}


def repeated(column, cells, cause):
    end = r"Otherwise fix the data, or pass on_invalid='drop'"
    words = rf"\. .*{cause}.*\. {end}" if cause else rf"\)\. {end.replace('Otherwise fix', 'Fix')}"
    listed = [*(("a", "x", *row) for row in cells), ("b", "x", 1.0, *cells[0][1:])]
    return Case(
        {"predictions": Rows(f"{PREDICTED}, {column}", listed), "labels": graded(), "score": "score"},
        (f"user='a', item='x' {len(cells)} times, with scores", words), {"n_duplicate_predictions": len(cells) - 1},
    )  # fmt: skip


CASES = {
    "NaN items": nan_item(False),
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
        {"predictions": predicted(), "labels": graded(), "score": "score", "users": Rows("user string", [("a",), ("zz",), (None,)])},
        (r"null user \(user\) in the table of users: 1",), invalid(0, 1), {"n_users": 3},
    ),
    # Of repeated ranks the smallest is the best.
    "ranks": Case(
        {"predictions": Rows("user string, item string, place double", RANKS), "labels": graded(), "metrics": CUT, "rank": "place"},
        ("null rank: 1", "negative rank: 1", "fractional rank: 1", "NaN rank: 1", "infinite rank: 1"),
        invalid(5, n_duplicate_predictions=1), {"precision@2": 0.25, "n_without_predictions": 1},
        [("v", INF, "infinite rank"), ("w", NAN, "NaN rank"), ("x", None, "null rank"), ("y", -1.0, "negative rank"), ("y", 3.0, BETTER),
         ("z", 1.5, "fractional rank")], ("item", "place", "reason"),
    ),
    "repeated predictions alone": Case(
        {"predictions": predicted(("a", "z", 9.0), ("b", "x", 0.5), ("b", "x", 0.25)), "labels": graded(("a", "z", 1.0)),
         "metrics": "rr@2", **COLUMNS},
        (), {"n_duplicate_predictions": 3}, {"rr@2": 1.0, "n_duplicate_predictions": 3},
        [("predictions", "x", BETTER)] * 2 + [("predictions", "z", BETTER)], on_invalid={"duplicate_predictions": "drop"},
    ),
    "conflicting labels alone": Case(
        {"predictions": predicted(), "labels": graded(("a", "y", 3.0), ("a", "x", 1.0)), "metrics": "ndcg@2", **COLUMNS},
        (), {"n_conflicting_labels": 1},
        {"ndcg@2": ((1 + 7 / math.log2(3)) / (7 + 1 / math.log2(3)) + 1) / 2, "n_conflicting_labels": 1},
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
        ("The column 'judge' tells these rows apart; keep one of its values. Otherwise",), {"n_conflicting_labels": 1},
    ),
    "lists of several models": Case(
        {"predictions": Rows("user string, item array<string>, model string", [("a", ["x", "y"], "old"), ("a", ["y", "x"], "new")]),
         "labels": graded()},
        ("pass model='model' if it names models or runs",), invalid(1),
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
    # Of the two rows of user 8 the same one is read every time.
    "arrays": Case(
        {"predictions": Rows(ARRAYS, BAD_ARRAYS), "labels": Rows("user long, item long", [(user, 1) for user in range(1, 10)]),
         "item": ("items", "item"), "score": "scores"},
        (*(rf"{re.escape(reason)}: {n}, for example user=" for reason, n in Counter(row[0] for row in ARRAY_REASONS).items()),
         "user in several rows: 1, for example user=8 in 2 rows"),
        invalid(8), {"rr": 3.5 / 9, "n_predictions": 7, "n_users": 9}, ARRAY_REASONS, ("reason", "user", "item"),
    ),
    "arrays of one table": Case(
        {"predictions": Rows(ONE_TABLE, [([1, 2, 2, None], [2, 2, 3], [1.0, 3.0, -1.0]), ([1, 2], [2, 2], [1.0, 1.0]), (None, [1], [None]),
                                         ([5, 5], [5], [1.0, 2.0])]), "labels": None, "relevance": "grade"},
        ("item=2 2 times", r"with relevances \[1.0, 3.0\]"), invalid(2, 3, n_duplicate_predictions=2, n_conflicting_labels=1),
        {"n_predictions": 5, "n_labels": 2}, ENTRIES_OF_ONE_TABLE, ("table", "item", "grade", "reason"),
    ),
    **{f"repeated items: {name}": repeated(*cause) for name, cause in part_of(CAUSES.items(), 3)},
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_refused_or_left_out(spark, name):
    case = CASES[name]
    message = refused(lambda: run(spark, **case.call), **case.counts)
    for words in case.words:
        assert re.search(words, message), message
    if case.figures is not None:
        result = run(spark, **case.call, on_invalid=case.on_invalid)
        figures = {
            name: getattr(result.data_quality, name) if name.startswith("n_") else result[name] for name in case.figures
        }
        assert figures == pytest.approx(case.figures, abs=1e-12)
        assert {name: n for name in case.counts if (n := getattr(result.data_quality, name))} == case.counts
        sides = [case.call["predictions"], case.call["labels"]]
        if "users" not in case.call and not any(
            side is None or side.arrays or "array" in side.schema for side in sides
        ):
            assert accounted(result.data_quality) == tuple(len(side.rows) for side in sides)
        if case.rejected is not None:
            assert sorted(map(repr, rows(result.quarantine, *case.shown))) == sorted(map(repr, case.rejected))


def test_rounded_ids_of_other_tables(spark):
    call = rounded_ids("double", 53).call
    tables = [call[name].table(spark) for name in ("predictions", "labels")]
    dropped = summarise(score_users(*tables, "rr", score="score", on_invalid="drop"))
    assert dropped.data_quality == evaluate(*tables, "rr", score="score", on_invalid="quarantine").data_quality
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


class TestInfiniteScores:
    BAD = (("a", "w", INF), ("b", "w", -INF))

    def test_ranked_counted_and_warned(self, spark):
        tables = predictions(spark, *self.BAD), labels(spark, ("a", "w", 3.0))
        words = "2 predictions have an infinite score.*'infinite_scores': 'error'"
        for metrics in part_of((CUT, WHOLE), 2):
            with pytest.warns(SparkRankEvalWarning, match=words):
                result = evaluate(*tables, metrics, **COLUMNS)
            assert (result.data_quality.n_infinite_scores, result.data_quality.n_invalid_predictions) == (2, 0)
            assert result[metrics[0]] == {"precision@2": 0.5, "rr": 1.0}[metrics[0]]
        table = score_users(*tables, "rr", **COLUMNS)
        with pytest.warns(SparkRankEvalWarning, match="infinite"):
            assert summarise(table)["rr"] == 1.0
        with pytest.raises(DataError, match="predictions that cannot be ranked: 2"):
            summarise(table, {"infinite_scores": "error"})

    def test_dropped_ones_are_not_warned_of_in_a_stored_table(self, spark):
        options = {"on_invalid": {"infinite_scores": "drop"}, **COLUMNS}
        without = score_users(predictions(spark, *self.BAD), labels(spark), "rr", **options)
        with warnings.catch_warnings(action="error", category=SparkRankEvalWarning):
            assert summarise(without, {"infinite_scores": "rank"}).data_quality.n_infinite_scores == 2

    @pytest.mark.parametrize("metrics", **PLANS)
    def test_an_error_or_dropped_on_request_whatever_other_rows_are(self, spark, metrics):
        bad = predictions(spark, *self.BAD, ("a", "q", NAN))

        def call(**kinds):
            with warnings.catch_warnings(action="error", category=SparkRankEvalWarning):
                return evaluate(bad, labels(spark), metrics, on_invalid=kinds, **COLUMNS)

        message = refused(lambda: call(infinite_scores="error", invalid_predictions="drop"), n_invalid_predictions=2)
        assert "infinite score: 2, for example user=" in message
        assert "NaN" not in message
        message = refused(lambda: call(infinite_scores="drop"), n_invalid_predictions=1)
        assert "NaN score: 1" in message
        assert "infinite score" not in message
        result = call(infinite_scores="drop", invalid_predictions="drop")
        # Of a the second is liked, of b the only one.
        first, of_a = {"precision@2": 0.5, "rr": 0.75}, 1 / math.log2(3)
        expected = [first[metrics[0]], (of_a + 1) / 2, 1.5]
        assert [row.mean for row in result.summary] == pytest.approx(expected, abs=1e-12)
        assert (result.data_quality.n_infinite_scores, result.data_quality.n_invalid_predictions) == (2, 3)
        assert accounted(result.data_quality)[0] == 7
        assert rows(result.quarantine, "item", "reason")[0] == ("q", "NaN score")


class TestGrades:
    @pytest.mark.parametrize("arrays", [False, True], ids=["rows", "arrays"])
    def test_dropped_or_clipped(self, spark, arrays):
        bad = graded(("a", "x", -1.0), ("b", "q", NAN), ("b", "w", None), ("a", "v", -INF), arrays=arrays).table(spark)

        def call(on_invalid):
            return evaluate(predictions(spark), bad, ["cg@2", "bpref"], on_invalid=on_invalid, **COLUMNS)

        if arrays:
            # Those of rows are above.
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

    @pytest.mark.parametrize("arrays", part_of([False, True], 2))
    def test_a_dialect_may_take_negative_grades_and_still_no_nan(self, spark, arrays):
        """The item before the liked one is not liked by `zero`; `negative` has not judged it."""
        users = ("zero", "negative")
        listed = Rows(PREDICTED, [(user, item, score) for user in users for item, score in (("x", 3.0), ("y", 2.0))])
        grades = [*((user, "y", 1.0) for user in users), ("zero", "x", 0.0), ("negative", "x", -1.0)]
        options, liked = {**COLUMNS, "dialect": "trec_eval"}, Rows(GRADED, grades, arrays).table(spark)
        values = score_users(listed.table(spark), liked, "bpref", **options).select("user", "bpref").collect()
        assert {row["user"]: row["bpref"] for row in values} == {"zero": 0.0, "negative": 1.0}
        with pytest.raises(DataError, match="NaN relevance"):
            run(spark, listed, Rows(GRADED, [*grades, ("zero", "z", NAN)], arrays), "bpref", **options)

    def test_labels_of_several_relevances_are_all_accounted_for(self, spark):
        cells = [
            ("a", "x", 1.0, 1.0),
            ("a", "x", 1.0, 2.0),
            ("a", "x", 2.0, 1.0),
            ("a", "y", 1.0, -1.0),
            ("a", "z", NAN, 1.0),
        ]
        cells += [("b", "x", 1.0, 1.0)] * 2
        liked = Rows("user string, item string, click double, buy double", cells)
        result = run(spark, predicted(), liked, score="score", relevance=["click", "buy"], on_invalid="drop")
        quality = result.data_quality
        assert accounted(quality) == (len(GOOD), len(cells))
        assert (quality.n_invalid_labels, quality.n_negative_grades) == (2, 1)
        reasons = dict(result.quarantine.groupBy("reason").count().collect())
        assert reasons["NaN relevance 'click'"] == reasons["negative relevance 'buy'"] == 1
        assert quality.n_conflicting_labels + quality.n_duplicate_labels == 3


class TestMllib:
    def test_a_null_item_takes_a_rank(self, spark):
        table = Rows("prediction array<long>, label array<long>", [([None, 1], [1])])
        result = run(spark, table, None, ["precision@2", "ap", "ndcg@2"], dialect="mllib")
        assert [row.mean for row in result.summary] == pytest.approx([0.5, 0.5, 1 / math.log2(3)], abs=1e-12)

    def test_graded_rows_are_a_named_error(self, spark):
        with pytest.raises(DialectError, match=r"depends on the order of a user's labels.*ndcg\(ideal='labels'\)"):
            run(spark, predicted(), graded(), "ndcg@2", dialect="mllib", **COLUMNS)

    def test_a_nan_grade_makes_the_mean_nan(self, spark):
        lists = [([1, 2], [1, 2], [NAN, 2.0]), ([1], [1], [1.0])]
        table = Rows("prediction array<long>, label array<long>, grade array<double>", lists)
        result = run(spark, table, None, ["ndcg@2", "precision@2"], relevance="grade", dialect="mllib")
        assert math.isnan(result["ndcg@2"])
        assert result["precision@2"] == 0.75


class TestIdsOfDifferentTypes:
    TYPES = (("string", "bigint"), ("bigint", "double"), ("int", "string"), ("double", "string"), ("float", "int"))

    @pytest.mark.parametrize("column", ["user", "item"])
    def test_error_before_any_job_that_says_how(self, spark, column):
        # No job over this table would ever end.
        endless = spark.range(10**15).selectExpr("id as user", "id as item", "0.5 as score")
        for types in self.TYPES:
            tables = [endless.withColumn(column, F.col(column).cast(kind)) for kind in types]
            with pytest.raises(InputError, match="{}.*{}.*Cast one of them".format(*types)):
                evaluate(*tables, "rr", score="score")

    def test_int_against_long_is_fine_and_so_is_an_explicit_cast(self, spark):
        one = spark.createDataFrame([(1, 7, 0.5)], "user int, item int, score double")
        two = spark.createDataFrame([("1", 7)], "user string, item long")
        assert evaluate(one, two.withColumn("user", F.col("user").cast("long")), "rr", score="score")["rr"] == 1.0
        assert evaluate(one.withColumn("user", F.col("user").cast("string")), two, "rr", score="score")["rr"] == 1.0


def test_ties_are_ordered_by_the_rule_their_share_reported_and_averaged_on_request(spark):
    table = Rows(PREDICTED, [*(("a", item, 0.5) for item in "xyz"), ("b", "x", 1.0)])
    result = run(spark, table, graded(), ["rr@3", "rr"], score="score")
    assert result["rr"] == (1 / 2 + 1) / 2
    assert result.data_quality.n_hanging_on_ties == 1
    assert "1 user's values depend on the order of equal scores (50.0% of all users)" in repr(result)
    assert run(spark, table, graded(("a", "z", 1.0)), score="score", ties="item_desc")["rr"] == 1.0
    averaged = run(spark, table, graded(), score="score", ties="average")
    assert averaged["rr"] == pytest.approx(((1 + 1 / 2 + 1 / 3) / 3 + 1) / 2)


class TestUsersInOneTableOnly:
    def test_zero_or_undefined_and_excluded_on_request_with_counts(self, spark):
        mine = predictions(spark, ("only predicted", "x", 1.0), ("of grade 0", "x", 1.0))
        theirs = labels(spark, ("only labelled", "x", 1.0), ("of grade 0", "x", 0.0))
        expected = {
            None: (2 / 3, 3, 2),
            "every": (2 / 3, 3, 2),
            "labelled": (2 / 3, 3, 2),
            "predicted": (1.0, 2, 3),
            "both": (1.0, 2, 3),
        }
        left_out = {None: 0, "every": 0, "labelled": 1, "predicted": 1, "both": 2}
        for population, (mean, n_users, n_undefined) in part_of(expected.items(), 2):
            result = evaluate(mine, theirs, "hit_rate@2", population=population, **COLUMNS)
            (row,) = result.summary
            assert (row.mean, row.n_users, row.n_undefined) == (mean, n_users, n_undefined)
            quality = result.data_quality
            assert (quality.n_users, quality.n_without_predictions, quality.n_without_labels) == (5, 1, 1)
            assert (quality.n_without_relevant, quality.n_left_out) == (2, left_out[population])
        counted = evaluate(mine, theirs, "hit_rate(undefined=zero)@2", population="labelled", **COLUMNS).summary[0]
        assert (counted.mean, counted.n_users) == (2 / 4, 4)
        with pytest.raises(
            OptionError, match="population must be one of None, 'every', 'labelled', 'predicted', 'both'"
        ):
            evaluate(mine, theirs, "rr", population="all", **COLUMNS)

    def test_tables_that_hardly_share_a_user_are_warned_of(self, spark):
        """21 users with labels, 2 of whom have predictions; and 20, 2 of whom do: one in ten."""
        others = [(f"user {n}", "x", 1.0) for n in range(19)]
        few = (predictions(spark), labels(spark, *others))
        said = r"only 2 of 21 users with labels have predictions \(9.5%\); check .* the same user ids\. The other users .* 0"
        said = said.replace(" .* 0", " count as users without hits; population='predicted' leaves them out")
        with pytest.warns(SparkRankEvalWarning, match=said):
            result = evaluate(*few, "rr", **COLUMNS)
        assert "!      only 2 of 21 users with labels have predictions (9.5%); check that both tables" in repr(result)
        with pytest.warns(SparkRankEvalWarning, match=said):
            stored = summarise(score_users(*few, "rr", **COLUMNS))
        assert stored.data_quality == result.data_quality
        assert result.data_quality.n_in_both == 2
        # Who leaves the others out has asked about few; but hardly about nobody.
        assert evaluate(*few, "rr", population="predicted", **COLUMNS).summary[0].n_users == 2
        nobody = spark.createDataFrame(others, "user string, item string, grade double")
        with pytest.warns(
            SparkRankEvalWarning, match=r"none of 19 users with labels has predictions; check .* same user ids$"
        ):
            evaluate(predictions(spark), nobody, "rr", population="predicted", **COLUMNS)
        with warnings.catch_warnings(action="error", category=SparkRankEvalWarning):
            a_tenth = evaluate(predictions(spark), labels(spark, *others[:18]), "rr", **COLUMNS).data_quality
        assert (a_tenth.n_in_both, a_tenth.n_labelled) == (2, 20)

    def test_with_further_users_or_several_models_users_in_both_are_counted_as_well(self, spark):
        strangers = predictions(spark).withColumn("user", F.concat("user", F.lit("'")))
        models = {"good": predictions(spark), "strange": strangers}
        with pytest.warns(SparkRankEvalWarning, match="^model 'strange': none of 2 users with labels has predictions"):
            of_models = evaluate(models, labels(spark), "rr", **COLUMNS)
        assert {name: quality.n_in_both for name, quality in of_models.qualities.items()} == {"good": 2, "strange": 0}
        with pytest.warns(SparkRankEvalWarning, match="^model 'none': none of 2 users with labels has predictions"):
            evaluate({"good": predictions(spark), "none": strangers.limit(0)}, labels(spark), "rr", **COLUMNS)
        users = spark.createDataFrame([(f"user {n}",) for n in range(50)], "user string")
        result = evaluate(predictions(spark), labels(spark), "rr", users=users, **COLUMNS)
        assert result.data_quality.n_in_both == 2
        others = labels(spark, *[(f"user {n}", "x", 1.0) for n in range(19)])
        with pytest.warns(SparkRankEvalWarning, match="only 2 of 21 users with labels"):
            evaluate(predictions(spark), others, "rr", users=users, **COLUMNS)

    def test_what_the_caller_says_wins_over_the_dialect(self, spark):
        mine = predictions(spark, ("only predicted", "x", 1.0))
        options = {**COLUMNS, "dialect": "trec_eval"}
        assert evaluate(mine, labels(spark), "rr", **options).data_quality.n_left_out == 1
        every = evaluate(mine, labels(spark), "rr", population="every", **options)
        assert (every.data_quality.n_left_out, every.summary[0].n_users) == (0, 3)


class TestIdsThatNeverMatch:
    LABELLED = ("3", "n\u00e9")
    # What a model predicts to the users, and the ids that a warning then shows; None: no warning.
    PREDICTED: ClassVar = {
        "index": (("1000", "1001"), "'3' and '1000'"),
        "one of two": (("3", "z"), None),
        "double": (("3.0", "z"), "'3' and '3.0'"),
        "blank": (("3 ", "z"), "'3' and '3 '"),
        "CHAR(8)": (("3       ", "n\u00e9      "), "'3' and '3       '"),
        "zeros": (("z", "003"), "'3' and '003'"),
        "accent": (("z", "ne\u0301"), r"'n\xe9' and 'ne\u0301'"),
        "case": (("z", "N\u00c9"), "'n\u00e9' and 'N\u00c9'"),
        "item of the other user": (("n\u00e9", "3"), None),
    }

    def tables(self, spark, *names):
        rows = [
            (user, item, 1.0, name) for name in names for user, item in zip("ab", self.PREDICTED[name][0], strict=True)
        ]
        schema = "user string, item string, score double"
        models = {name: spark.createDataFrame([row[:3] for row in rows if row[3] == name], schema) for name in names}
        liked = spark.createDataFrame(list(zip("ab", self.LABELLED, strict=True)), "user string, item string")
        return models, liked

    def said(self, call):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = call()
        messages = [str(one.message) for one in caught if issubclass(one.category, SparkRankEvalWarning)]
        assert [note for note in result.notes if note.startswith(("none of", "model "))] == messages
        return messages

    def test_items_are_shown_beside_those_that_look_like_them(self, spark):
        """Each user is a batch, so that of items which others have only the second look knows that they match."""
        names = [name for name, _ in part_of(self.PREDICTED.items(), 4)] + ["one of two"]
        names = list(dict.fromkeys(names))
        models, liked = self.tables(spark, *names)
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 1)
        try:
            said = self.said(lambda: evaluate(models, liked, "rr", score="score"))
        finally:
            spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
        assert said == [
            f"model {name!r}: none of the 2 labelled items is among the 2 predicted ones, for example {shown}, so no list has a hit. "
            "If both mean the same items, use the same ids: cast or trim them, or map them by a join"
            for name in names
            if (shown := self.PREDICTED[name][1])
        ]

    def test_nobody_looks_at_ids_if_one_matches(self, spark, jobs_of):
        def jobs(name):
            models, liked = self.tables(spark, name)
            with warnings.catch_warnings(action="ignore"):
                return jobs_of(
                    lambda: evaluate(models[name], liked, ["rr", "ndcg@1"], score="score", exclude=liked.limit(0))
                )

        models, liked = self.tables(spark, "one of two")
        all_match = liked.selectExpr("user", "item", "1d score")
        least = jobs_of(lambda: evaluate(all_match, liked, ["rr", "ndcg@1"], score="score"))
        assert jobs_of(lambda: evaluate(models["one of two"], liked, ["rr", "ndcg@1"], score="score")) == least
        assert jobs("double") > jobs("one of two")

    @pytest.mark.parametrize("form", ["arrays", "structs", "one table", "model column"])
    def test_lists_of_any_form_are_looked_at(self, spark, form):
        rows = [("a", 1.0, "m"), ("b", 1.0, "m"), ("a", 2.0, "n")]
        flat = spark.createDataFrame(
            [(user, int(item), item, model) for user, item, model in rows],
            "user string, item long, x double, model string",
        )
        liked = spark.createDataFrame([("a", 7), ("b", 8)], "user string, item int")
        options, beginning = {}, "none of the 2 labelled items is among the 2 predicted ones, for example 7 and 1,"
        if form == "model column":
            mine, options = flat, {"score": "x", "model": "model"}
            beginning = "model 'm': none of the 2 labelled items is among the 1 predicted ones, for example 7 and 1,"
        elif form == "arrays":
            mine, liked = (
                flat.groupBy("user").agg(F.collect_list("item").alias("item")),
                liked.groupBy("user").agg(F.collect_list("item").alias("item")),
            )
        elif form == "structs":
            mine = flat.groupBy("user").agg(F.collect_list(F.struct("x", "item")).alias("recommendations"))
            options = {"score": "x"}
        else:
            mine, liked = (
                spark.createDataFrame(
                    [([1, 2], [7]), ([], []), (None, [8])], "prediction array<long>, label array<long>"
                ).where("prediction is not null"),
                None,
            )
            beginning = "none of the 1 labelled items is among the 2 predicted ones, for example 7 and 1,"
        # A share of labelled items has a value whatever the labels are, and is 0 for the same reason.
        said = self.said(lambda: evaluate(mine, liked, "judged" if form == "arrays" else "rr", **options))
        assert said
        assert said[0].startswith(beginning)
        assert len(said) == 1 + (form == "model column")

    def test_tables_that_should_share_ids_with_predictions_are_looked_at(self, spark):
        models, liked = self.tables(spark, "one of two")
        others = liked.withColumn("item", F.concat("item", F.lit(".0")))
        strangers = liked.withColumn("user", F.upper("user"))
        given = {
            "training": others,
            "items": others.withColumn("category", F.lit("c")),
            "baseline": others.withColumn("score", F.lit(1.0)),
        }
        metrics = ["novelty@2", "repetition@2", "categorical_diversity@2", "unexpectedness@2"]
        for lookup in part_of(["workers", "join"], 2):
            facts = Facts(**given, category="category", lookup=lookup)
            call = partial(evaluate, models, liked, metrics, score="score", exclude=strangers, facts=facts)
            assert [re.sub(r" is among.*, so ", ": ", words).partition(". ")[0] for words in self.said(call)] == [
                "none of the 2 users of exclude: nothing is excluded",
                "none of the 2 items of training: every predicted item counts as one that no user has",
                "none of the 2 items of the table of items: no prediction has a category, vector or group",
                "none of the 2 items of the baseline: it recommends none of the predictions",
            ]
        facts = Facts(training=strangers, baseline=strangers.withColumn("score", F.lit(1.0)))
        said = self.said(
            lambda: evaluate(
                models, liked, ["repetition@2", "unexpectedness@2"], score="score", exclude=others, facts=facts
            )
        )
        assert [words.partition(" is among")[0] for words in said] == [
            "none of the 2 excluded items", "none of the 2 users of training", "none of the 2 users of the baseline"
        ]  # fmt: skip
        facts = Facts(items=given["items"], category="category")
        said = self.said(lambda: evaluate(models["one of two"], liked, "alpha_ndcg@2", score="score", facts=facts))
        assert [words.partition(", for")[0] for words in said] == [
            "none of the 2 labelled items is among the 2 in the table of items"
        ]


class TestColumns:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (
                {"score": "score", "rank": "score"},
                "either score= .* or rank= .*; got both. The table has: user, item, score",
            ),
            ({}, "got neither. The table has: user, item, score"),
            (
                {"score": "points"},
                r"predictions has no column 'points' \(score=\); it has: user string, item string, score double",
            ),
            ({"score": "item"}, "score='item' must be a number; it is string"),
            (
                {"score": "score", "user": "who"},
                r"predictions has no column 'who' \(user=\).*labels has no column 'who'",
            ),
            ({"score": "nested.score"}, "has no column 'nested.score'"),
        ],
    )
    def test_an_error_that_names_what_is_there(self, spark, options, words):
        with pytest.raises(InputError, match=words):
            evaluate(predictions(spark), labels(spark), CUT, **options)

    def test_which_of_several_models_lacks_a_column_is_said(self, spark):
        tables = {"als": predictions(spark), "popular": predictions(spark).drop("score")}
        with pytest.raises(InputError, match=r"^predictions of model 'popular' has no column 'score'"):
            evaluate(tables, labels(spark), CUT, score="score")

    def test_ambiguous_and_nested_columns(self, spark):
        twice = predictions(spark).withColumn("x", F.col("score")).toDF("user", "item", "score", "SCORE")
        with pytest.raises(InputError, match=r"'score' is ambiguous: the table has \['score', 'SCORE'\]"):
            evaluate(twice, labels(spark), CUT, score="score")
        for kind, column in {
            "struct<a:int>": F.struct(F.lit(1).alias("a")),
            "map<int,int>": F.create_map(F.lit(1), F.lit(1)),
            "array<array<int>>": F.array(F.array(F.lit(1))),
        }.items():
            with pytest.raises(InputError, match=r"item|score"):
                evaluate(predictions(spark).withColumn("item", column), labels(spark), CUT, score="score")
            with pytest.raises(InputError, match=rf"user.*is {kind}|has no column"):
                evaluate(predictions(spark).withColumn("user", column), labels(spark), CUT, score="score")

    @pytest.mark.parametrize(
        "names", part_of([("a.b c d", "名前", "e`f"), ("USER", "select", "ü Ｓ𝄞"), ("'; --", "iTEM", "x\ty")], 3)
    )
    def test_any_name_simply_works(self, spark, names):
        mine = predictions(spark, ("a", None, 1.0)).toDF(*names)
        theirs = labels(spark).toDF(*names[:2], "gra.de")
        user, item, score = (name.swapcase() if name.isascii() else name for name in names)
        result = evaluate(
            {"one": mine, "two": mine},
            theirs,
            "rr",
            user=user,
            item=item,
            score=score,
            relevance="GRA.de",
            on_invalid="drop",
        )
        assert result["one", "rr"] == 0.75
        assert names[0] in result.per_user.columns
        assert rows(result.quarantine, "model", "reason") == [
            ("one", "null prediction item"),
            ("two", "null prediction item"),
        ]


class TestShapes:
    @pytest.mark.filterwarnings("ignore:there are no labels")
    def test_no_rows_no_labels_no_common_users_one_user(self, spark):
        mine, theirs = predictions(spark), labels(spark)
        strangers = theirs.withColumn("user", F.concat(F.lit("not "), "user"))
        one = F.col("user") == "b"
        shapes = (
            (mine.limit(0), theirs.limit(0), 0, None, "users  0 users\n"),
            (mine.limit(0), theirs, 2, 0.0, "2 have no predictions (100.0%)\n"),
            (mine, theirs.limit(0), 2, None, "2 users, none with labels; 0 have no predictions"),
            (
                mine,
                strangers,
                4,
                0.0,
                "4 users, 2 with labels; of these 0 have no relevant label, 2 have no predictions (100.0%)",
            ),
            (
                mine.where(one),
                theirs.where(one),
                1,
                1.0,
                "1 user, all with labels; of these 0 have no relevant label, 0 have no predictions\n",
            ),
        )
        # Each of both is pruned or whole by day; at night each is both.
        cases = [(shape, metric) for metric in ("rr@2", "rr") for shape in shapes]
        for (left, right, n_users, mean, words), metric in part_of(cases, 2):
            warned = pytest.warns(SparkRankEvalWarning, match="none of 2 users with labels has predictions")
            with warned if mean == 0.0 else nullcontext():
                result = evaluate(left, right, [metric], **COLUMNS)
            assert result.data_quality.n_users == n_users
            assert math.isnan(result[metric]) if mean is None else result[metric] == mean
            assert words in repr(result)
            assert "no interval" in repr(result) or mean == 0.0

    def test_a_list_of_100_000_items_10_000_labels_and_a_k_beyond_any_list(self, spark):
        ids = F.col("id").cast("long")
        mine = spark.range(100_000).select(F.lit(1).alias("user"), ids.alias("item"), (-ids).alias("score"))
        theirs = spark.range(10_000).select(F.lit(1).alias("user"), (10 * ids).alias("item"))
        metrics = ["rr@5", "precision@1000", "recall@99999", "ap(denominator='labels')@200000", "precision@200000"]
        result = evaluate(mine, theirs, metrics, score="score")
        expected = [1.0, 0.1, 1.0, sum((n + 1) / (10 * n + 1) for n in range(10_000)) / 10_000, 10_000 / 200_000]
        assert [row.mean for row in result.summary] == pytest.approx(expected, rel=1e-12)
        assert accounted(result.data_quality) == (100_000, 10_000)
        assert evaluate(mine, theirs, metrics[:2], score="score")["precision@1000"] == 0.1
        arrays = mine.groupBy("user").agg(F.sort_array(F.collect_list("item")).alias("items"))
        assert evaluate(arrays, theirs, metrics, item=("items", "item")).summary[3].mean == pytest.approx(expected[3])


def test_a_null_in_an_ordered_array_is_an_error_where_it_is_read(spark):
    """At the places 0 and 4 of lists that are read up to the fifth, and at 49, where nothing looks."""
    lists = [([*range(place), None, *range(place, 50)], [7]) for place in (0, 4, 49)]
    table, beyond = (
        spark.createDataFrame(one, "prediction array<long>, label array<long>") for one in (lists, lists[2:])
    )
    for prune, n in (("auto", 2), ("never", 3)):
        with pytest.raises(DataError, match="null prediction item: ") as caught:
            evaluate(table, None, "precision@5", prune=prune)
        assert caught.value.counts == {"n_invalid_predictions": n}
    result = evaluate(beyond, None, "precision@5")
    assert "duplicates and nulls further down are not counted" in result.explain()
    assert result.data_quality.n_predictions == 51
    without = evaluate(table, None, ["precision@5", "rr"], on_invalid="drop")
    assert without.data_quality.n_invalid_predictions == 3
    assert without["rr"] == pytest.approx(1 / 8)


def test_users_are_counted_also_where_both_sides_are_the_same_table(spark):
    table = spark.createDataFrame([("a", ["x"], ["x"])], "user string, prediction array<string>, label array<string>")
    users = spark.createDataFrame([("zz",)], "user string")
    result = evaluate(table, table, "rr", item=("prediction", "label"), users=users)
    assert result.data_quality.n_users == 2


def test_rows_in_are_rows_ranked_and_rows_reported_under_every_plan(spark):
    bad = [
        (None, "x", 1.0),
        ("a", None, 9.0),
        ("c", "q", NAN),
        ("a", "x", 0.5),
        ("b", "x", 0.5),
        ("b", "w", -INF),
        ("d", "x", INF),
    ]
    mine, theirs = (
        predictions(spark, *bad),
        labels(spark, ("a", "y", 1.0), ("a", "y", 2.0), ("b", None, 1.0), ("z", "z", -1.0)),
    )
    excluded = spark.createDataFrame([("a", "x"), ("b", "w"), ("d", None)], "user string, item string")
    kinds = ("invalid_predictions", "duplicate_predictions", "invalid_labels", "conflicting_labels")
    plans = itertools.product(("rank", "drop"), (["rr@2"], ["rr"]), ({}, {"exclude": excluded}, {"prune": "never"}))
    # By day two that have nothing in common: pruned as it comes, and whole without excluded items.
    for infinite, metrics, options in part_of(plans, 10):
        on_invalid = dict.fromkeys(kinds, "drop") | {"infinite_scores": infinite}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SparkRankEvalWarning)
            result = evaluate(
                {"one": mine, "two": mine.limit(0)}, theirs, metrics, on_invalid=on_invalid, **options, **COLUMNS
            )
        assert accounted(result.qualities["one"]) == (len(GOOD) + len(bad), len(LIKED) + 4)
        assert accounted(result.qualities["two"])[0] == 0
        counted = result.qualities["one"]
        assert Counter(row["table"] for row in result.quarantine.collect()) == {
            "predictions": counted.n_invalid_predictions + counted.n_duplicate_predictions,
            "labels": counted.n_invalid_labels + counted.n_conflicting_labels,
        }
