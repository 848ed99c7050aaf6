"""Tables of pandas, polars and pyarrow give what the same data gives as Spark DataFrames, to the bit."""

import datetime
import decimal
import gc
import json
import re
import uuid

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from spark_rankeval import Facts, Vectors, compare, evaluate, local, score_users, summarise, top_items
from spark_rankeval.errors import DataError, InputError
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.splits import by_time

pytestmark = pytest.mark.filterwarnings("ignore:.* every label as relevant", "ignore:.* are the last of their list")

NAN, DAY = float("nan"), datetime.date(2026, 11, 2)
NOON = datetime.datetime(2026, 11, 2, 12)


@takes_local_tables
def as_frame(table):
    return table


def columns_of(table):
    """The types of a table as Spark has it, and its rows; NaN as text, which equals itself."""
    frame = as_frame(table)
    rows = [["NaN" if value != value else value for value in row] for row in frame.collect()]  # noqa: PLR0124 # NaN
    return frame.schema.simpleString().removeprefix("struct<").removesuffix(">"), rows


ITEMS = ["b", None, "a"]
# The columns of a table: as what they arrive, and with which rows.
COLUMNS = {
    "pandas floats": (lambda: pd.DataFrame({"x": [1.5, NAN]}), "x:double", [1.5, "NaN"]),
    "pandas floats of 16 bits": (lambda: pd.DataFrame({"x": np.array([1.5, NAN], "float16")}), "x:float", [1.5, "NaN"]),
    "pandas floats as objects": (lambda: pd.DataFrame({"x": pd.Series([1.5, None], dtype=object)}), "x:double", [1.5, None]),
    "pandas nullable": (lambda: pd.DataFrame({"x": pd.array([1, None], "Int64")}), "x:bigint", [1, None]),
    "pandas nullable flags": (lambda: pd.DataFrame({"x": pd.array([True, None], "boolean")}), "x:boolean", [True, None]),
    "pandas objects": (lambda: pd.DataFrame({"x": pd.Series(["b", NAN, None], dtype=object)}), "x:string", ["b", None, None]),
    "pandas strings": (lambda: pd.DataFrame({"x": pd.array(ITEMS, "string")}), "x:string", ITEMS),
    "pandas categories": (lambda: pd.DataFrame({"x": pd.Categorical(ITEMS, ["a", "b"])}), "x:string", ITEMS),
    "pandas categories of numbers": (lambda: pd.DataFrame({"x": pd.Categorical([7, 5])}), "x:bigint", [7, 5]),
    "pandas ranges": (lambda: pd.DataFrame({"x": pd.cut([5, NAN, 50], [0, 18, 99])}), "x:string", ["(0, 18]", None, "(18, 99]"]),
    "pandas intervals": (lambda: pd.DataFrame({"x": pd.interval_range(0, 2)}), "x:string", ["(0, 1]", "(1, 2]"]),
    "pandas months": (lambda: pd.DataFrame({"x": pd.period_range("2026-11", periods=2, freq="M")}), "x:string", ["2026-11", "2026-12"]),
    "UUIDs": (lambda: pd.DataFrame({"x": [uuid.UUID(int=10), None]}), "x:string", ["00000000-0000-0000-0000-00000000000a", None]),
    "pandas lists": (lambda: pd.DataFrame({"x": [["a", None], np.array(["b"])]}), "x:array<string>", [["a", None], ["b"]]),
    "pandas decimals": (lambda: pd.DataFrame({"x": [decimal.Decimal("1.5")]}), "x:decimal(2,1)", [decimal.Decimal("1.5")]),
    "pandas days": (lambda: pd.DataFrame({"x": [DAY]}), "x:date", [DAY]),
    "pandas times": (lambda: pd.DataFrame({"x": [pd.Timestamp(NOON), None]}), "x:timestamp_ntz", [NOON, None]),
    "pandas times cut": (lambda: pd.DataFrame({"x": [pd.Timestamp(NOON) + pd.Timedelta(1)]}), "x:timestamp_ntz", [NOON]),
    "a named index": (lambda: pd.DataFrame({"x": [5]}, pd.Index(["a"], name="item")), "item:string,x:bigint", None),
    "an index of two levels, one without a name": (
        lambda: pd.DataFrame({"x": [5]}, pd.MultiIndex.from_tuples([(1, "a")], names=["user", None])), "user:bigint,x:bigint", None,
    ),
    "an index without a name": (lambda: pd.DataFrame({"x": [5, 6]}, [9, 8]), "x:bigint", [5, 6]),
    "polars categories": (lambda: pl.DataFrame({"x": pl.Series(ITEMS, dtype=pl.Categorical)}), "x:string", ITEMS),
    "a polars enum": (lambda: pl.DataFrame({"x": pl.Series(ITEMS, dtype=pl.Enum(["a", "b"]))}), "x:string", ITEMS),
    "polars hashes": (lambda: pl.DataFrame({"x": pl.Series([2**64 - 1, 1], dtype=pl.UInt64)}), "x:decimal(20,0)", [2**64 - 1, 1]),
    "small integers without a sign": (lambda: pl.DataFrame({"x": pl.Series([7], dtype=pl.UInt64)}), "x:bigint", [7]),
    "polars counts": (lambda: pl.DataFrame({"x": pl.Series([2**32 - 1], dtype=pl.UInt32)}), "x:bigint", [2**32 - 1]),
    "polars lists of structs": (
        lambda: pl.DataFrame({"x": [[{"item": "a", "score": 0.5}]]}), "x:array<struct<item:string,score:double>>", [[("a", 0.5)]],
    ),
    "polars vectors": (lambda: pl.DataFrame({"x": np.array([[1.0, 2.0]])}), "x:array<double>", [[1.0, 2.0]]),
    "a lazy table": (lambda: pl.LazyFrame({"x": [1, 2]}).filter(pl.col("x") > 1), "x:bigint", [2]),
    "a batch": (lambda: pa.RecordBatch.from_pydict({"x": [1.5, None, NAN]}), "x:double", [1.5, None, "NaN"]),
    "lists of encoded strings": (
        lambda: pa.table({"x": pa.ListArray.from_arrays([0, 1], pa.array(["a"]).dictionary_encode())}), "x:array<string>", [["a"]],
    ),
    "no rows": (lambda: pd.DataFrame({"x": np.array([], "int32")}), "x:int", []),
}  # fmt: skip


@pytest.mark.parametrize("form", COLUMNS)
@pytest.mark.usefixtures("spark")
def test_values_stay_what_they_are(form):
    table, kinds, values = COLUMNS[form]
    types, rows = columns_of(table())
    assert types == kinds
    if values is not None:
        assert [row[0] for row in rows] == values
    else:
        assert rows[0][-1] == 5


def test_times_with_a_zone_are_moments(spark):
    zoned = pd.DataFrame({"x": [pd.Timestamp(NOON, tz="Europe/Berlin")]})
    frame = as_frame(zoned)
    assert frame.schema["x"].dataType.simpleString() == "timestamp"
    assert frame.selectExpr("unix_micros(x) AS x").collect()[0].x == zoned.x[0].value // 1000
    assert as_frame(pl.from_pandas(zoned)).selectExpr("unix_micros(x) AS x").collect()[0].x == zoned.x[0].value // 1000
    # A time without a zone compares as it is written, whatever the zone of the session is.
    log = pd.DataFrame({"user": [1, 1], "item": ["a", "b"], "timestamp": [NOON, NOON + datetime.timedelta(days=1)]})
    split = by_time(log, "2026-11-02 12:00:01")
    assert [row.item for row in split.training.collect()] == ["a"]
    assert [row.item for row in split.labels.collect()] == ["b"]
    assert spark is frame.sparkSession


INF = float("inf")
EDGES = {
    pa.int8(): [-128, 127], pa.uint8(): [0, 255], pa.uint32(): [0, 2**32 - 1],
    pa.int64(): [-(2**63), 2**63 - 1], pa.uint64(): [0, 2**64 - 1],
    pa.float32(): [float(np.float32(0.1)), -INF, 2.0**-149, NAN], pa.float64(): [0.1, INF, 5e-324, NAN],
    pa.large_string(): ["", "u\u0308\0\n", "\U0001f600", "NULL"], pa.dictionary(pa.int32(), pa.string()): ["", "a", "é"],
    pa.timestamp("us"): [datetime.datetime(1900, 1, 1), datetime.datetime(2199, 12, 31, 23, 59, 59, 999_999)],
    pa.large_list(pa.float64()): [[], [0.1, -INF]],
}  # fmt: skip


@pytest.mark.usefixtures("spark")
def test_any_values_arrive_as_they_are():
    columns = [[*values, *[None] * (5 - len(values))] for values in EDGES.values()]
    table = {str(place): pa.array(*each) for place, each in enumerate(zip(columns, EDGES, strict=True))}
    rows = columns_of(pa.table(table))[1]
    assert rows == [["NaN" if value != value else value for value in row] for row in zip(*columns, strict=True)]  # noqa: PLR0124


def flat(*names):
    return pd.DataFrame({name: [1] for name in names})


WRONG = [
    (lambda: flat("user", 3), "labels: column names must be strings; got 3 (int)"),
    (lambda: pd.concat([flat("item"), flat("item")], axis=1), "labels: 'item' is the name of two columns"),
    (lambda: flat("user").set_index("user", drop=False),
     "labels: 'user' is the name of two columns, or of a column and the index"),
    (lambda: pd.DataFrame({"item": pd.Series(["a", 3], dtype=object)}),
     "labels: the column 'item' (object) cannot become a column of Spark"),
    (lambda: pl.DataFrame({"user": [1], "item": [b"ab"]}),
     "labels: the item column 'item' is binary; items must be whole numbers, strings or doubles: write it as text with F.hex"),
    (lambda: pl.DataFrame({"user": [1], "item": pl.Series([2**63], dtype=pl.UInt64)}),
     "labels: the item column 'item' is uint64 (decimal(20,0)); items must be whole numbers, strings or doubles: cast it to string"),
    (lambda: pl.DataFrame({"user": pl.Series([2**63], dtype=pl.UInt64), "item": ["a"]}),
     "'user' is bigint in predictions and uint64 (decimal(20,0)) in labels. Cast both to string"),
    (lambda: pd.DataFrame({"user": [1], "item": [[["a"]]]}), "make one list of the lists with F.flatten"),
    (lambda: pd.DataFrame({"user": [1], "item": [{"id": "a"}]}), "struct<id:string>; items must be whole numbers, strings or doubles: "
     "make a column of its field, or of several with F.concat_ws"),
    (pd.DataFrame, "labels has no column 'user' (user=); it has: ;"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "words"), WRONG)
def test_what_spark_cannot_have_is_named(spark, table, words):
    predictions = spark.createDataFrame([(1, "a", 0.5)], "user long, item string, score double")
    with pytest.raises(InputError, match=re.escape(words)):
        evaluate(predictions, table(), "rr", score="score")


PREDICTIONS = [(user, item, (user * 7 + place * 3) % 5 / 4) for user in range(6) for place, item in enumerate("abcde")]
LABELS = [(user, "abcde"[user % 5], 1.0 + user % 2) for user in range(1, 7)]
TABLES = {
    "old": (PREDICTIONS, "user long, item string, score double"),
    "new": ([(user, item, -score) for user, item, score in PREDICTIONS], "user long, item string, score double"),
    "labels": (LABELS, "user long, item string, grade double"),
    "exclude": ([(0, "b"), (3, "a")], "user long, item string"),
    "users": ([(user,) for user in range(8)], "user long"),
    "attributes": ([(user, None if user == 4 else "xy"[user % 2]) for user in range(8)], "user long, country string"),
}
MAKERS = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}


def pandas_of(name):
    rows, kinds = TABLES[name]
    return pd.DataFrame(rows, columns=[kind.split()[0] for kind in kinds.split(", ")])


def evaluated(tables):
    return evaluate(
        {name: tables[name] for name in ("old", "new")}, tables["labels"], ["ndcg@3", "rr"], score="score", relevance="grade", ci="bca",
        by="country", facts=Facts(attributes=tables["attributes"]), exclude=tables["exclude"], users=tables["users"],
    )  # fmt: skip


def test_results_are_those_of_spark_tables_to_the_bit(spark):
    wanted = evaluated({name: spark.createDataFrame(*table) for name, table in TABLES.items()})
    result = evaluated({name: MAKERS[list(MAKERS)[place % 3]](pandas_of(name)) for place, name in enumerate(TABLES)})
    assert json.loads(result.to_json()) == json.loads(wanted.to_json())
    assert result.fingerprints == wanted.fingerprints
    # In pandas a column of hashes with nulls is one of floats.
    assert compare(result.per_user.toPandas(), "old", user="user", model="model", metrics="rr")["rr"].n_users == 6


def test_one_table_given_twice_is_one_table(spark):
    both = pd.DataFrame({"user": [1, 1, 2], "item": ["a", "b", "a"], "score": [0.5, 0.4, 0.3], "clicked": [0, 1, 1]})
    table = spark.createDataFrame(both)
    result, wanted = (evaluate(each, each, "rr", score="score", relevance="clicked") for each in (both, table))
    assert result.plan == wanted.plan
    assert result["rr"] == 0.75


AGES = pd.cut([5, 150, 18, 20], [0, 18, 100, 200])
ORDERED = {
    "ranges": (AGES, ["'(0, 18]'", "'(18, 100]'", "'(100, 200]'"]),
    "labels": (AGES.rename_categories(["young", "old", "ancient"]), ["young", "old", "ancient"]),
    "numbers": (AGES.rename_categories([9, 10, 8]), ["9", "10", "8"]),
    "an enum": (pl.Series(["s", "l", "s", "m"], dtype=pl.Enum(["s", "m", "l"])), ["s", "m", "l"]),
}  # fmt: skip


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", ORDERED)
def test_slices_by_ordered_categories_have_their_order(name):
    ages, values = ORDERED[name]
    about = (pl if name == "an enum" else pd).DataFrame({"user": [1, 2, 3, 4], "age": ages})
    result = evaluate(
        pandas_of("old"), pandas_of("labels"), "rr", score="score", by="age", facts=Facts(attributes=about)
    )
    wanted = ["all", *(f"age={value}" for value in values), "age=null"]
    assert [row.slice for row in result.summary] == wanted
    assert [row.slice for row in summarise(result.per_user, by="age").summary] == wanted


@pytest.mark.usefixtures("spark")
def test_bad_scores_are_as_bad_as_in_spark():
    scores = pd.DataFrame({"user": [1, 1], "item": ["a", "b"], "score": [0.5, NAN]})
    with pytest.raises(DataError, match=r"NaN score: 1, for example user=1, item='b', score=nan"):
        evaluate(scores, scores, "rr", score="score")
    with pytest.raises(DataError, match=r"null score: 1, for example user=1, item='b', score=None"):
        evaluate(pl.from_pandas(scores), scores, "rr", score="score")


@pytest.mark.usefixtures("spark")
def test_vectors_of_tables_in_memory():
    users = pd.DataFrame({"user": [1], "vector": [[1.0, 0.0]]})
    items = pl.DataFrame({"item": ["a", "b"], "vector": np.array([[0.2, 0.1], [0.5, 0.9]])})
    (row,) = top_items(Vectors(users, items), 1, exclude=pa.table({"user": [1], "item": ["a"]})).collect()
    assert (row.user, row.recommendations) == (1, [("b", 0.5)])


@pytest.mark.sail_alone("files")
def test_a_table_is_in_a_file_of_the_engine_as_long_as_a_frame_or_a_view_needs_it(spark, monkeypatch):
    monkeypatch.setattr(local, "_UNUSED_BYTES", 0)
    # As long as there is a view of another test, no file goes.
    for view in spark.catalog.listTables():
        if view.isTemporary:
            spark.catalog.dropTempView(view.name)

    def n_files():
        gc.collect()
        as_frame(pa.table({"x": [1]}))
        return len(list(local._running.folder.iterdir()))

    before = n_files()
    table = score_users(pandas_of("old"), pandas_of("labels"), "rr", score="score")
    assert n_files() == before + 2
    table.createOrReplaceTempView("scores")
    assert table.count() == 7
    del table
    assert n_files() >= before + 2
    assert spark.sql("SELECT * FROM scores").count() == 7
    spark.catalog.dropTempView("scores")
    assert n_files() == before
    # More than a message to the engine takes.
    large = as_frame(pa.table({"x": np.arange(20_000_000)}))
    assert large.selectExpr("sum(x) AS x").collect()[0].x == 199999990000000


@pytest.mark.usefixtures("spark")
def test_a_struct_without_fields_is_a_column_of_spark_or_named(platform):
    table = pd.DataFrame({"x": [1], "meta": [{}]})
    if platform != "sail":
        assert as_frame(table).select("x").collect() == [(1,)]
        return
    with pytest.raises(InputError, match=r"^table: the column 'meta' is struct<>, which Spark has no type for\. Conv"):
        as_frame(table)
