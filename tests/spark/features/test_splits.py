"""Splits of a log beside a naive version in plain Python: the same rows, labels and counts, whatever the partitions are."""

import random
import re
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from functools import reduce

import pytest
from helpers.shuffles import settings_of
from oracles import splits as oracle
from pyspark.sql import functions as F

from spark_rankeval import evaluate
from spark_rankeval.errors import DataError, InputError, OptionError
from spark_rankeval.splits import by_time, last_n

NAN = float("nan")
GRADES = {"click": 1, "buy": 3}
# Items come last, so that only the rule about equal times puts them before other columns.
COLUMNS = "event string, user bigint, time bigint, row bigint, item bigint"


def random_rows(seed, n=260):
    """Few times and items, so that times tie and pairs repeat; some rows lack something."""
    draw = random.Random(seed)
    rows = [
        {
            "event": draw.choice(["click", "buy", "view", None]),
            "user": draw.choice([*range(12), None] if draw.random() < 0.2 else range(12)),
            "time": draw.choice([*range(6), None]),
            "row": place,
            "item": draw.choice([*range(-3, 14), None]),
        }
        for place in range(n)
    ]
    # A newcomer, somebody with one row, and an item that nobody had before.
    rows += [{"event": "buy", "user": 100, "time": 5, "row": n, "item": 1}]
    rows += [{"event": "click", "user": 0, "time": 5, "row": n + 1, "item": 99}]
    return rows


ROWS = random_rows(1)
OF_EVENTS = {"time": "time", "relevance": "event", "grades": GRADES}
COLD = ("cold_users", "cold_items")
ALL_OUT = ("seen", *COLD)
# Each split, and what the naive version says: rows in training, rows held out, grades, what labels leave out.
CASES = {
    "time": (lambda log: by_time(log, 3, time="time"), oracle.by_time(ROWS, 3), None, ()),
    "horizon, grades": (lambda log: by_time(log, 3, horizon=2, **OF_EVENTS), oracle.by_time(ROWS, 3, 5), GRADES, ()),
    "unseen": (lambda log: by_time(log, 3, leave_out="seen", **OF_EVENTS), oracle.by_time(ROWS, 3), GRADES, ("seen",)),
    "warm": (lambda log: by_time(log, 3, time="time", leave_out=[*COLD]), oracle.by_time(ROWS, 3), None, COLD),
    "last": (lambda log: last_n(log, time="time"), oracle.last_n(ROWS, 1), None, ()),
    "last 3, all left out":
        (lambda log: last_n(log, 3, time="time", leave_out=[*ALL_OUT]), oracle.last_n(ROWS, 3), None, ALL_OUT),
}  # fmt: skip


def parts_of(log):
    """What splits of a log are, in one action: {(case, part): rows or labels}."""
    pieces = []
    for case, (split_of, *_) in CASES.items():
        split = split_of(log)
        for part, table in (("training", split.training), ("held out", split.held_out), ("labels", split.labels)):
            names = ("row", "user", "item", "time", "relevance")
            columns = (f"double({name if name in table.columns else 'NULL'}) {name}" for name in names)
            pieces.append(table.selectExpr(f"'{case}' case", f"'{part}' part", *columns))
    found = defaultdict(list)
    for case, part, row, *label in reduce(lambda one, other: one.union(other), pieces).collect():
        found[case, part].append(tuple(label) if part == "labels" else row)
    return {key: sorted(values, key=str) for key, values in found.items()}


@pytest.fixture(scope="module", name="log")
def _log(spark):
    return spark.createDataFrame([tuple(row.values()) for row in ROWS], COLUMNS)


@pytest.fixture(scope="module", name="parts")
def _parts(log):
    return parts_of(log)


@pytest.mark.parametrize("case", CASES)
def test_a_split_is_what_its_definition_says(parts, case):
    _, (training, held_out), grades, leave_out = CASES[case]
    assert parts[case, "training"] == sorted((row["row"] for row in training), key=lambda row: str(float(row)))
    assert parts[case, "held out"] == sorted((row["row"] for row in held_out), key=lambda row: str(float(row)))
    labels = oracle.labels(training, held_out, grades, leave_out)
    expected = [(*pair, time, grade) for pair, (time, grade) in labels.items()]
    assert sorted(parts[case, "labels"]) == sorted(expected) if grades else set(parts[case, "labels"]) == set(expected)
    assert len(parts[case, "labels"]) == len(expected) > 5


def test_partitions_and_the_order_of_rows_do_not_matter(spark, parts):
    shuffled = random.Random(2).sample(ROWS, len(ROWS))
    log = spark.createDataFrame([tuple(row.values()) for row in shuffled], COLUMNS).repartition(5)
    # Ids of another width are the same ids.
    narrow = log.withColumns({"user": F.col("user").cast("int"), "item": F.col("item").cast("smallint")})
    assert parts_of(narrow) == parts


def test_counts_are_those_of_the_naive_version(log):
    split_of, (training, held_out), grades, leave_out = CASES["horizon, grades"]
    split = split_of(log)
    counts = split.counts()
    labels = oracle.labels(training, held_out, grades, leave_out)
    trained, labelled = {row["user"] for row in training}, {user for user, _ in labels}
    needed = ("user", "item", "time")
    invalid = {f"null {name}": sum(row[name] is None for row in ROWS) for name in needed}
    n_invalid = sum(any(row[name] is None for name in needed) for row in ROWS)
    assert counts.invalid == invalid
    assert (counts.n_rows, counts.n_invalid) == (len(ROWS), n_invalid)
    assert (counts.n_training, counts.n_held_out) == (len(training), len(held_out))
    assert counts.n_after == len(ROWS) - n_invalid - len(training) - len(held_out)
    assert counts.n_ungraded == sum(row["event"] not in grades for row in held_out)
    assert (counts.n_labels, counts.n_users) == (len(labels), len({row["user"] for row in training + held_out}))
    assert (counts.n_training_users, counts.n_labelled_users) == (len(trained), len(labelled))
    assert counts.n_cold_users == len(labelled - trained)
    assert (counts.first_time, counts.last_time) == ("0", "5")
    words = rf"log: of {len(ROWS)} rows .* with a null item.* cannot be used; fix the data"
    with pytest.raises(DataError, match=words) as error:
        split.check()
    assert error.value.counts == {f"n_{reason.replace(' ', '_')}": n for reason, n in invalid.items()}


def test_what_a_split_prints_says_what_it_is_without_a_job(spark, jobs_of):
    log = spark.createDataFrame([(1, 7, 3, 2.0)], "user int, item int, day int, grade double")
    last = "by each user's order of 'day': labels from the last"
    splits = {
        "by 'day': training before 8, labels from 8 on": by_time(log, 8, time="day", relevance="grade"),
        "by 'day': training before 8, labels from 8 to before 15": by_time(log, 8, horizon=7, time="day"),
        f"{last} row, training from those before": last_n(log, time="day"),
        f"{last} 2 rows, training from those before": last_n(log, 2, time="day"),
    }  # fmt: skip
    shown = {}
    assert jobs_of(lambda: shown.update({line: str(split) for line, split in splits.items()})) == 0
    for line, text in shown.items():
        assert text.startswith(f"split     {line}\ntraining  user, item, day, grade; split.held_out")
        assert "split.counts() counts" in text.splitlines()[3]
    assert next(iter(shown.values())).splitlines()[2] == "labels    user, item, day, relevance, grade"


def test_times_compare_in_utc_whatever_the_zone_of_the_session(spark):
    start = datetime(2026, 11, 1, tzinfo=UTC)
    rows = [(1, place, start + timedelta(hours=hours)) for place, hours in enumerate([-12, -1, 0, 23, 24])]
    log = spark.createDataFrame(rows, "user int, item int, timestamp timestamp")
    split = by_time(log, "2026-11-01", horizon="1d")
    days = by_time(log.withColumn("timestamp", F.to_date("timestamp")), date(2026, 11, 1), horizon="1d")
    with settings_of(spark, {"spark.sql.session.timeZone": "Asia/Tokyo"}):
        assert sorted(row.item for row in split.training.collect()) == [0, 1]
        assert sorted(row.item for row in split.labels.collect()) == [2, 3]
        counts = split.counts()
    assert (counts.n_after, counts.first_time) == (1, "2026-10-31 12:00:00+00:00")
    assert counts.last_time == "2026-11-02 00:00:00+00:00"
    assert days.counts().n_held_out == 2


# 0.7 as a float is below 0.7, and the row at 0.8 is at the end. Doubles have only every second of the large decimals.
AT_THE_CUT = {
    "float": (["0.6", "0.7", "0.8"], 0.7, 0.1),
    "decimal(3,1)": (["0.6", "0.7", "0.9"], 0.7, 0.1),
    "decimal(20,0)": ([str(2**53), str(2**53 + 1), str(2**53 + 2)], 2**53 + 1, 1),
}


@pytest.mark.parametrize("kind", AT_THE_CUT)
def test_a_row_at_the_cut_is_held_out_whatever_type_the_times_have(spark, kind):
    times, cut, horizon = AT_THE_CUT[kind]
    log = spark.createDataFrame([(1, *row) for row in enumerate(times)], "user int, item int, time string")
    split = by_time(log.withColumn("time", F.col("time").cast(kind)), cut, horizon=horizon, time="time")
    parts = split.training.selectExpr("'training' part", "item").union(split.labels.selectExpr("'labels'", "item"))
    assert sorted(map(tuple, parts.collect())) == [("labels", 1), ("training", 0)]


def test_odd_names_and_several_columns_of_a_user(spark):
    rows = [("a", 1, "x", 1.0, 5.0), ("a", 1, "y", 2.0, None), ("a", 2, "x", 9.0, 1.0), ("a", 2, "y", NAN, 2.0)]
    log = spark.createDataFrame(rows, "`the user` string, `$s.1` int, `place` string, `user_0` double, stars double")
    options = {"user": ["the user", "$s.1"], "item": "PLACE", "time": "user_0"}
    split = last_n(log, relevance="stars", **options)
    assert split.held_out.columns == log.columns
    assert sorted(map(tuple, split.held_out.collect())) == rows[1:3]
    assert split.labels.dtypes == [*log.dtypes[:4], ("relevance", "double"), ("stars", "double")]
    assert [tuple(row) for row in split.labels.collect()] == [("a", 2, "x", 9.0, 1.0, 1.0)]
    with pytest.raises(DataError, match="1 with a NaN time and 1 with a null or NaN grade cannot be used"):
        split.check()
    assert split.check("drop") is split


LOG = "user int, item int, timestamp int, event string"
ONE, FAR, SAME = [(1, 1, 3, "a"), (1, 2, 4, "a")], [(1, 1, 3, "a"), (1, 2, 9, "a")], [(1, 2, 3, "a"), (1, 2, 9, "a")]
NOBODY = [
    ([], lambda log: by_time(log, 1), "log: none of 0 rows can be used"),
    (ONE, lambda log: by_time(log, 1),
     "no row to train on: no usable row is before the cut 1; choose a later cut. The log runs from 3 to 4"),
    (FAR, lambda log: by_time(log, 5, horizon=2), "holds no row out: no usable row is at or after the cut 5 and before 7"),
    (FAR, lambda log: by_time(log, 5, relevance="event", grades={"purchse": 1}),
     "none of 1 rows that are held out gives a label; 1 of them have no grade. Check grades="),
    (SAME, lambda log: last_n(log, leave_out="seen"), "none of 1 rows that are held out gives a label. Check"),
    (FAR, lambda log: last_n(log, 2), "no row to train on: no user has more than 2 usable rows; choose a smaller n"),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "split_of", "words"), NOBODY)
def test_a_split_that_leaves_nobody_is_refused(spark, rows, split_of, words):
    with pytest.raises(DataError, match=re.escape(words)):
        split_of(spark.createDataFrame(rows, LOG)).check()


def of_events(**options):
    return lambda log: by_time(log, 1, relevance="event", **options)


WRONG = [
    (lambda log: by_time(log, 1, time="timestamps"), "log has no column 'timestamps' (time=); did you mean 'timestamp'?"),
    (lambda log: last_n(log, user="who", time="event"), "log has no column 'who' (user=)"),
    (lambda log: last_n(log, user="who", time="event"), "; log: the time column 'event' is string; "),
    (lambda log: by_time(log, 1, user="item"), "user, item and time must be different columns"),
    (lambda log: by_time([1], 1), "log must be a table"),
    (of_events(), "relevance='event' must be a number; it is string. Cast it, or pass the grade of each"),
    (of_events(grades={1: 1}), "grades: the column of events 'event' is string, so the event 1 cannot"),
    (lambda log: by_time(log.withColumnRenamed("item", "relevance"), 1, item="relevance", relevance="timestamp"),
     "is named like the grades of labels, 'relevance'; rename it"),
]  # fmt: skip
WRONG_OPTIONS = [
    (lambda log: by_time(log, 1, grades={"a": 1}), "grades needs the column of events"),
    (of_events(grades={"a": "1"}), "grades must be finite numbers; got '1'"),
    (of_events(grades={}), "grades must be a dict"),
    (lambda log: by_time(log, "2026-11-01"), "cut must be a number"),
    (lambda log: last_n(log, leave_out="sen"), "leave_out: 'sen' is not among "),
    (lambda log: last_n(log, leave_out="sen"), "; did you mean 'seen'"),
    (lambda log: last_n(log, leave_out=None), "leave_out must be a word or a list of words"),
    (lambda log: last_n(log, 0), "n must be a whole number, at least 1; got 0"),
    (lambda log: by_time(log, 1).check(on_invalid="quarantine"), "on_invalid must be one of"),
]


@pytest.mark.parametrize(
    ("kind", "call", "words"),
    [*((InputError, *case) for case in WRONG), *((OptionError, *case) for case in WRONG_OPTIONS)],
)
def test_a_wrong_call_is_refused_before_any_job(spark, kind, call, words):
    log = spark.createDataFrame([], LOG)
    with pytest.raises(kind, match=re.escape(words)):
        call(log)


def test_the_next_call_takes_the_name_of_the_column_of_grades(log):
    """Grades of a column keep its name, beside the name that labels have of any split; those of events have none."""
    given = {"time": "time", "user": "user", "item": "item"}
    named = log.where("row is not null").withColumnRenamed("row", "Rating")
    labels = last_n(named, 2, relevance="rating", **given).labels
    columns = ["user", "item", "time", "relevance"]
    assert labels.columns == [*columns, "Rating"]
    assert labels.where("not relevance <=> Rating").count() == 0
    predictions = labels.select("user", "item", "time")
    result = evaluate(predictions, labels, "dcg", score="time", relevance=["rating", "relevance"])
    assert result["dcg [Rating]"] == result["dcg [relevance]"] > 0
    assert last_n(log, relevance="event", grades=GRADES, **given).labels.columns == columns
