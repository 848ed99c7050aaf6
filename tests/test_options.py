"""What is no table is refused in one sentence, whatever package it is of; none of these is imported."""

import inspect
import re

import pandas as pd
import pyarrow as pa
import pytest

import spark_rankeval
from spark_rankeval import Vectors, evaluate, merge, splits, trec
from spark_rankeval.checks import check_table, is_name, local_package
from spark_rankeval.errors import InputError, OptionError


def of(module, name="DataFrame", *, bases=(), **attributes):
    """Something with the attributes that tables of every package have, of a class of this module."""
    known = {"schema": None, "select": None, "columns": ["user"], "collect": None}
    return type(name, bases, {"__module__": module, **known, **attributes})()


BATCH = {"isStreaming": False, "sparkSession": of("pyspark.sql.session", "SparkSession", version="4.3.0")}
FRAME = pd.DataFrame({"user": [1]})
KINDS = ". Tables are DataFrames of Spark, pandas or polars, or Tables of pyarrow"
TABLES = {
    f"a pandas Series{KINDS}": FRAME["user"],
    "a snowflake DataFrame. Save it as a table, and read that table with Spark": of("snowflake.snowpark.dataframe"),
    "a pyspark DataFrame. Pass table.to_spark()": of("pyspark.pandas.frame"),
    f"a duckdb DuckDBPyRelation{KINDS}": of("duckdb", "DuckDBPyRelation"),
}
LOCAL_TABLES = {
    "pandas DataFrame": FRAME,
    "geopandas GeoDataFrame": type("GeoDataFrame", (pd.DataFrame,), {"__module__": "geopandas"})({"user": [1]}),
    "pyarrow Table": pa.table(FRAME),
    "pyarrow RecordBatch": pa.RecordBatch.from_pandas(FRAME),
    "polars DataFrame": of("polars.dataframe.frame"),
    "polars LazyFrame": of("polars.lazyframe.frame", "LazyFrame"),
}


@pytest.mark.parametrize("words", TABLES)
def test_tables_of_other_packages_are_refused_by_their_name(words):
    with pytest.raises(InputError) as caught:
        check_table("labels", TABLES[words])
    assert str(caught.value) == f"labels must be a table; got {words}"
    with pytest.raises(InputError, match="the table of metrics must be a table"):
        merge(of("duckdb", "DuckDBPyRelation"))
    with pytest.raises(InputError, match=r"result 1 is not a result, nor what .* returned; got a "):
        merge([TABLES[words]])


@pytest.mark.parametrize(
    ("given", "advice"), [({"als": of("pyspark.sql.dataframe")}, "Pass one of"), ({"q": {"d": 1}}, "Make rows")]
)
def test_a_dict_of_tables_is_no_dict_of_values(given, advice):
    with pytest.raises(InputError, match=rf"labels must be a table; got a dict\. {advice}"):
        check_table("labels", given)


@pytest.mark.parametrize("kind", LOCAL_TABLES)
def test_tables_in_memory_need_a_session(kind, monkeypatch):
    monkeypatch.setattr("spark_rankeval.local.active_session", lambda: None)
    table = LOCAL_TABLES[kind]
    words = rf" is a {kind}, and no session runs .* spark_rankeval\.session\(\)$"
    with pytest.raises(InputError, match=f"^predictions{words}"):
        evaluate(table, None, "rr")
    with pytest.raises(InputError, match=f"^predictions of 'als'{words}"):
        evaluate({"als": table}, None, "rr")
    with pytest.raises(InputError, match=f"^users of Vectors{words}"):
        evaluate(Vectors(table, table), None, "rr")


def test_every_public_function_of_tables_takes_those_in_memory():
    functions = {name: getattr(module, name) for module in (spark_rankeval, splits, trec) for name in module.__all__}
    annotations = {
        name: " ".join(str(parameter.annotation) for parameter in inspect.signature(function).parameters.values())
        for name, function in functions.items()
        if inspect.isfunction(function)
    }
    of_tables = {
        name for name, words in annotations.items() if re.search(r"\b(Table|DataFrame|Predictions|Results)\b", words)
    }
    assert {name for name in of_tables if hasattr(functions[name], "__wrapped__")} == of_tables
    assert len(of_tables) == 27


def test_an_option_of_another_function_is_refused_with_the_nearest_one():
    functions = [getattr(module, name) for module in (spark_rankeval, splits, trec) for name in module.__all__]
    refusing = 0
    for function in functions:
        if hasattr(function, "__wrapped__"):
            with pytest.raises((OptionError, TypeError)) as caught:
                function(color=1)
            refusing += str(caught.value).startswith(f"{function.__name__} has no option 'color'; ")
    # The others take the options of `evaluate`, and check them.
    assert refusing == 24
    with pytest.raises(
        OptionError,
        match=r"^dialect_map has no option 'dialect', 'by'; did you mean 'dialects'\? it has: predictions, ",
    ):
        spark_rankeval.dialect_map(FRAME, None, "rr", dialect="mllib", by="country")


def test_what_is_in_memory_is_known_by_its_package():
    assert [local_package(table) for table in LOCAL_TABLES.values()] == ["pandas"] * 2 + ["pyarrow"] * 2 + [
        "polars"
    ] * 2
    assert not any(map(local_package, [*TABLES.values(), None, [FRAME], {"als": FRAME}]))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "got a list"),
        (None, "got a NoneType"),
        (of("pyspark.sql.group", "GroupedData"), r"got a pyspark GroupedData. Aggregate it with agg\(\)"),
    ],
)
def test_what_is_no_table_is_refused(given, words):
    with pytest.raises(InputError, match=words):
        check_table("labels", given)


@pytest.mark.parametrize(
    "module", ["pyspark.sql.dataframe", "pyspark.sql.classic.dataframe", "pyspark.sql.connect.dataframe"]
)
def test_dataframes_of_every_spark_are_taken_unless_they_stream(module):
    check_table("labels", of(module, **BATCH))
    check_table("labels", of("my.own", "Table", bases=(type(of(module)),), **BATCH))
    with pytest.raises(InputError, match=r"^labels must be a batch DataFrame; got a streaming one\. Read it as a"):
        check_table("labels", of(module, isStreaming=True))


def test_a_name_is_text_that_utf_8_can_hold():
    assert [is_name(one) for one in ("als", "\U0001d11e", "\ud834", " ", "", 5, None)] == [True, True, *[False] * 5]
