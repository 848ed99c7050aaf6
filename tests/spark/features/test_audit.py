"""Audits: a naive version in plain Python on random tables, a planted case of each check, and bad input."""

import random
from datetime import date, datetime

import pytest

from spark_rankeval import audit
from spark_rankeval.errors import DataError, InputError, OptionError
from spark_rankeval.records.quality import CHECKS
from spark_rankeval.request.call import Vectors

EVENTS = "user int, item string, timestamp int"
NO_TIME = "training and labels have no column 'timestamp' (time=)"


def naive(training, labels, predictions=None, items=None):
    """The counts of an audit by the names of checks, of rows (user, item, time, model); a time may be None for all rows of a table."""
    pairs = {row[:2] for row in training}
    users, known = {row[0] for row in training}, {row[1] for row in training}
    counts = {
        "labels_in_training": sum(row[:2] in pairs for row in labels),
        "repeated_labels": len(labels) - len({row[:2] for row in labels}),
        "cold_label_users": len({row[0] for row in labels} - users),
        "cold_label_items": len({row[1] for row in labels} - known),
    }
    if items is not None:
        counts["labels_outside_items"] = sum(row[1] not in items for row in labels)
    if training[0][2] is not None:
        end = max(row[2] for row in training)
        ends = {user: max(row[2] for row in training if row[0] == user) for user in users}
        counts["labels_before_training_end"] = sum(row[2] < end for row in labels)
        counts["labels_before_user_end"] = sum(row[0] in ends and row[2] < ends[row[0]] for row in labels)
    if predictions is not None:
        listed = {row[1] for row in predictions}
        counts |= {
            "recommended_in_training": sum(row[:2] in pairs for row in predictions),
            "repeated_predictions": len(predictions) - len({(*row[:2], row[3]) for row in predictions}),
            "cold_recommended_users": len({row[0] for row in predictions} - users),
            "cold_recommended_items": len(listed - known),
            "recommended_never_seen": sum(row[1] not in {*known, *(row[1] for row in labels)} for row in predictions),
            "labels_never_recommended": sum(row[1] not in listed for row in labels),
        }
        if items is not None:
            counts["recommended_outside_items"] = sum(row[1] not in items for row in predictions)
        if predictions[0][2] is not None:
            events = [*training, *labels]
            counts["recommended_before_first_event"] = sum(
                any(event[1] == row[1] for event in events) and row[2] < min(e[2] for e in events if e[1] == row[1])
                for row in predictions
            )
    return counts


def rows_of(draw, n, n_items=8, n_users=7, times=(0, 9), models=("",)):
    return [
        (draw.randrange(n_users), "abcdefgh"[draw.randrange(n_items)], draw.randint(*times), draw.choice(models))
        for _ in range(n)
    ]


def counted(audited):
    return {row.name: row.n for row in audited.rows if not row.not_checked}


def test_equal_to_the_naive_version(spark):
    draw = random.Random(0)
    training, labels = rows_of(draw, 25, n_items=6, n_users=5), rows_of(draw, 40, n_items=7, times=(4, 14))
    predictions = [row for row in rows_of(draw, 60, times=(0, 12), models=("als", "popular")) if row[1] != "b"]
    items = set("abcdf")
    audited = audit(
        spark.createDataFrame([row[:3] for row in training], EVENTS).repartition(3),
        spark.createDataFrame([row[:3] for row in labels], "user long, item string, timestamp long").repartition(3),
        spark.createDataFrame(predictions, "user short, item string, timestamp long, model string"),
        items=spark.createDataFrame([(item,) for item in items], "item string"),
        model="model",
    )
    expected = naive(training, labels, predictions, items)
    assert counted(audited) == expected
    assert set(expected) == {check.name for check in CHECKS}
    assert all(expected.values()), "every check is planted"
    of = {row.name: row.of for row in audited.rows}
    assert (of["repeated_labels"], of["repeated_predictions"]) == (len(labels), len(predictions))
    assert of["cold_label_users"] == len({row[0] for row in labels})
    assert of["cold_recommended_items"] == len({row[1] for row in predictions})
    for row in audited.rows:
        assert 1 <= len(row.examples) <= min(3, row.n)
    (example, *_) = audited["labels_before_user_end"].examples
    assert (example["user"], example["item"], example["timestamp"]) in [row[:3] for row in labels]
    assert all(example["item"] not in items for example in audited["labels_outside_items"].examples)


def test_several_user_columns_numbers_as_items_arrays_and_another_item_column(spark):
    """Tables without times and of many rows of few items; lists as arrays."""
    draw = random.Random(5)
    pairs = [[(draw.choice([1, 1, 1, 2]), draw.randrange(97, 97 + n)) for _ in range(3_000)] for n in (20, 40)]
    training, labels = ([((user, user % 2), item, None, "") for user, item in table] for table in pairs)
    lists = {(user, 1): [draw.randrange(97, 140) for _ in range(5)] for user in range(6)}
    predictions = [(user, item, None, "") for user, items in lists.items() for item in items]
    flat = [[(f"u{user}", day, item) for (user, day), item, _, _ in table] for table in (training, labels)]
    arrays = [(f"u{user}", day, [(item, 0.5) for item in items]) for (user, day), items in lists.items()]
    audited = audit(
        spark.createDataFrame(flat[0], "user string, `the day` int, item int"),
        spark.createDataFrame(flat[1], "user string, `the day` long, bought long"),
        spark.createDataFrame(arrays, "user string, `the day` int, list array<struct<item:int,score:double>>"),
        user=["user", "the day"],
        item=("item", "bought"),
    )
    assert counted(audited) == naive(training, labels, predictions)
    assert audited["labels_before_user_end"].not_checked == NO_TIME
    assert audited["labels_outside_items"].not_checked == "there is no catalogue (items=)"
    assert audited["recommended_before_first_event"].not_checked == NO_TIME
    assert set(audited["labels_in_training"].examples[0]) == {"user", "the day", "item"}


def test_without_predictions(spark):
    training = spark.createDataFrame([(1, "a", 5), (1, "b", 6), (2, "c", 9)], EVENTS)
    audited = audit(training, spark.createDataFrame([(1, "b", 9), (2, "d", 9), (3, "c", 8)], EVENTS))
    # A label of the time at which training ends is not before it.
    assert [example["timestamp"] for example in audited["labels_before_training_end"].examples] == [8]
    assert [audited[name].n for name in ("labels_before_training_end", "labels_before_user_end")] == [1, 0]
    assert audited["labels_in_training"].examples == ({"user": 1, "item": "b"},)
    assert audited["recommended_in_training"].not_checked == "there are no predictions (predictions=)"
    assert audited.leaked


def test_labels_of_a_golden_set_whose_item_no_longer_exists_need_no_training_data(spark):
    labels, lists, items = (
        [(1, "a"), (2, "gone"), (3, "gone"), (3, "b"), (3, "b")],
        [(1, "a"), (2, "b"), (2, "new")],
        "ab",
    )
    tables = [spark.createDataFrame(rows, "user int, item string") for rows in (labels, lists)]
    audited = audit(None, *tables, items=spark.createDataFrame([(item,) for item in items], "item string"))
    expected = naive([(0, "", None, "")], *([(*row, None, "") for row in rows] for rows in (labels, lists)), items)
    training = {check.name for check in CHECKS if "training" in check.needs}
    assert counted(audited) == {name: n for name, n in expected.items() if name not in training}
    assert {row["item"] for row in audited["labels_outside_items"].examples} == {"gone"}
    assert {row["user"] for row in audited["labels_outside_items"].examples} <= {2, 3}
    reasons = {row.not_checked for row in audited.rows if row.name in training}
    assert reasons == {"there is no training data (training=)"}


@pytest.mark.parametrize(
    ("kind", "early", "late"),
    [
        ("timestamp", datetime(2026, 1, 1), datetime(2026, 1, 1, 0, 0, 1)),
        ("date", date(1, 1, 1), date(9999, 12, 31)),
        ("double", 0.25, 0.5),
    ],
)
def test_times_of_other_types(spark, kind, early, late):
    tables = [[(1, "a", late)], [(1, "b", early), (1, "c", late)]]
    audited = audit(*(spark.createDataFrame(table, f"user int, item string, at {kind}") for table in tables), time="at")
    assert [audited[name].n for name in ("labels_before_training_end", "labels_before_user_end")] == [1, 1]
    (example,) = audited["labels_before_user_end"].examples
    assert str(example["at"]).startswith(str(early)[:4])


def test_rows_that_lack_something_are_counted_or_left_out(spark):
    training = spark.createDataFrame([(1, "a", 1), (None, "a", 99), (2, None, 99), (2, "b", None)], EVENTS)
    labels = spark.createDataFrame([(1, "a", 5), (1, None, 0)], EVENTS)
    lists = spark.createDataFrame([(1, ["a", None]), (None, ["b"]), (2, None)], "user int, item array<string>")
    items = spark.createDataFrame([("a",), (None,)], "item string")
    bad = {"training": 3, "labels": 1, "predictions": 2, "items": 1}
    some = {"invalid_facts": "drop", "invalid_labels": "drop"}
    for on_invalid, named in (("error", bad), (some, ["predictions"])):
        with pytest.raises(DataError) as raised:
            audit(training, labels, lists, items=items, on_invalid=on_invalid)
        assert raised.value.counts == {f"n_invalid_{table}": bad[table] for table in named}
        words = "rows of training with a null or NaN user or item or time ('timestamp'): 3 of 4"
        assert (words in str(raised.value)) == (named is bad)
    assert "on_invalid='drop'" in str(raised.value)
    audited = audit(training, labels, lists, items=items, on_invalid="drop")
    assert audited.n_invalid == bad
    assert (audited["labels_in_training"].n, audited["labels_in_training"].of) == (1, 1)
    assert audited["labels_before_training_end"].n == 0
    assert (audited["recommended_in_training"].of, audited["cold_recommended_users"].of) == (1, 1)


def test_ids_that_are_nan_are_counted_and_zeros_of_both_signs_are_one(spark):
    nan = float("nan")
    training = spark.createDataFrame([(0.0, 1.0), (nan, 1.0)], "user double, item double")
    labels = spark.createDataFrame([(-0.0, 1.0), (2.0, nan)], "user double, item double")
    lists = spark.createDataFrame([(0.0, 1.0, 1.0), (0.0, 1.0, nan)], "user float, item double, model double")
    with pytest.raises(DataError) as raised:
        audit(training, labels, lists, model="model")
    assert raised.value.counts == {f"n_invalid_{table}": 1 for table in ("training", "labels", "predictions")}
    words = "null or NaN user or item or model ('model') or an id that floating point rounds"
    assert f"rows of predictions with a {words}: 1 of 2" in str(raised.value)
    audited = audit(training, labels, lists, model="model", on_invalid="drop")
    assert counted(audited) == naive([(0, 1, None, "")], [(0, 1, None, "")], [(0, 1, None, "")])
    assert audited["labels_in_training"].examples == ({"user": 0.0, "item": 1.0},)


def test_tables_without_rows_are_refused(spark):
    some = spark.createDataFrame([(1, "a", 1)], EVENTS)
    with pytest.raises(DataError, match="training has no rows, so there is nothing to compare") as raised:
        audit(some.limit(0), some)
    assert raised.value.counts == {"n_training": 0}
    with pytest.raises(DataError, match="labels has no rows that can be used"):
        audit(some, some.selectExpr("int(NULL) user", "item", "timestamp"), on_invalid="drop")


WRONG = [
    (InputError, {"time": "at"}, r"training has no column 'at' \(time=\)"),
    (InputError, {"user": "who"}, r"training has no column 'who' \(user=\)"),
    (InputError, {"item": "what"}, r"labels has no column 'what' \(item=\)"),
    (InputError, {"model": "model"}, "model= names a column of predictions, and there are none"),
    (OptionError, {"on_invalid": "quarantine"}, "on_invalid must be one of 'error', 'drop'"),
    (InputError, {"time": 3}, "time must be a column name; got 3"),
    (InputError, {"predictions": {}}, "predictions must be one table; audit each model by itself"),
    (InputError, {"predictions": Vectors}, "got Vectors. Pass top_items"),
    (InputError, {"labels": None}, "labels must be a table; got a NoneType"),
    (InputError, {"labels": "user, 1 item"}, "items have different types: 'item' of training is string, 'item' of labels"),
    (InputError, {"labels": "'1' user, item"}, "users have different types: 'user' is int in training and string in"),
    (InputError, {"labels": "user, item, '1' timestamp"}, "labels: the time column 'timestamp' must be a date"),
    (InputError, {"labels": "user, item, 1D timestamp"}, "times have different types: 'timestamp' is int in training"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "change", "words"), WRONG)
def test_a_wrong_call_is_refused_before_any_job(spark, error, change, words):
    table = spark.createDataFrame([(1, "1", 1)], EVENTS)
    call = {"training": table, "labels": table, **change}
    if isinstance(call["labels"], str):
        call["labels"] = table.selectExpr(*call["labels"].split(", "))
    if change.get("predictions") is Vectors:
        call["predictions"] = Vectors(table, table)
    with pytest.raises(error, match=words):
        audit(**call)
