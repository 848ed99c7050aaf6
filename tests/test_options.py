"""What is not a Spark DataFrame is refused in one sentence, whatever package it is of; none of these is imported."""

import pandas as pd
import pyarrow as pa
import pytest

from spark_rankeval import merge
from spark_rankeval.checks import check_table, is_name
from spark_rankeval.errors import InputError


def of(module, name="DataFrame", *, bases=(), **attributes):
    """Something with the attributes that tables of every package have, of a class of this module."""
    known = {"schema": None, "select": None, "columns": ["user"], "collect": None}
    return type(name, bases, {"__module__": module, **known, **attributes})()


FRAME = pd.DataFrame({"user": [1]})
TABLES = {
    "a pandas DataFrame. Pass spark.createDataFrame(table)": FRAME,
    "a pyarrow Table. Pass spark.createDataFrame(table.to_pandas())": pa.table(FRAME),
    "a polars DataFrame. Pass spark.createDataFrame(table.to_pandas())": of("polars.dataframe.frame"),
    "a polars LazyFrame. Pass spark.createDataFrame(table.collect().to_pandas())": of(
        "polars.lazyframe.frame", "LazyFrame"
    ),
    "a snowflake DataFrame. Save it as a table, and read that table with Spark": of("snowflake.snowpark.dataframe"),
    "a pyspark DataFrame. Pass table.to_spark()": of("pyspark.pandas.frame"),
    "a duckdb DuckDBPyRelation": of("duckdb", "DuckDBPyRelation"),
}


@pytest.mark.parametrize("words", TABLES)
def test_tables_of_other_packages_are_refused_by_their_name(words):
    with pytest.raises(InputError) as caught:
        check_table("labels", TABLES[words])
    assert str(caught.value) == f"labels must be a Spark DataFrame; got {words}"
    with pytest.raises(InputError, match="the table of metrics must be a Spark DataFrame"):
        merge(TABLES[words])
    with pytest.raises(InputError, match=r"result 1 is not a result, nor what .* returned; got a "):
        merge([TABLES[words]])


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
    check_table("labels", of(module, isStreaming=False))
    check_table("labels", of("my.own", "Table", bases=(type(of(module)),), isStreaming=False))
    with pytest.raises(InputError, match=r"^labels must be a batch DataFrame; got a streaming one\. Read it as a"):
        check_table("labels", of(module, isStreaming=True))


def test_a_name_is_text_that_utf_8_can_hold():
    assert [is_name(one) for one in ("als", "\U0001d11e", "\ud834", " ", "", 5, None)] == [True, True, *[False] * 5]
