"""Names of tables and runs, and comments of columns, stand in statements of SQL as what they are."""

import pytest

from spark_rankeval import write_table
from spark_rankeval.errors import InputError, OptionError
from spark_rankeval.spark.catalog import CatalogTable
from spark_rankeval.spark.sql_text import literal

EVIL = "x'; DROP TABLE users; --"


@pytest.mark.parametrize("text", ["", "plain", EVIL, "a\\", "\\'", "'", "ä\n\t", "100 %"])
def test_a_literal_is_the_text(spark, text):
    (row,) = spark.sql(f"SELECT {literal(text)} AS text").collect()
    assert row["text"] == text


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("metrics", "`metrics`"),
        ("main.evaluation.metrics", "`main`.`evaluation`.`metrics`"),
        ("`my schema`.metrics", "`my schema`.`metrics`"),
        ("`a``b`.`c.d`", "`a``b`.`c.d`"),
        ("a;b.c", "`a;b`.`c`"),
    ],
)
def test_each_part_of_a_name_is_quoted(spark, name, quoted):
    assert CatalogTable(spark, name).quoted == quoted


@pytest.mark.parametrize("name", ["", "a..b", "a b", "`a.b", "a.`b", EVIL, ".a", "a.", None, 7])
def test_what_is_no_name_is_refused(spark, name):
    with pytest.raises(OptionError, match="table must name a table of the catalogue"):
        CatalogTable(spark, name)


def test_a_table_that_is_not_there_is_named(spark):
    with pytest.raises(InputError, match="per_user: there is no table nowhere in the catalogue of this session"):
        CatalogTable(spark, "nowhere", "per_user").rows()


@pytest.mark.parametrize("run_id", ["", EVIL, "a/b", "x" * 101, ".hidden"])
def test_what_is_no_name_of_a_run_is_refused(spark, run_id):
    with pytest.raises(OptionError, match="run_id must be up to 100 letters"):
        write_table(spark.createDataFrame([], "x double"), "nowhere", run_id=run_id)


def test_what_has_no_rows_is_not_written():
    with pytest.raises(
        InputError, match="rows must be a result, a comparison, gaps, an audit, a history or a DataFrame; got"
    ):
        write_table("lab.metrics", "lab.other")


def test_rows_that_name_their_runs_take_no_other_name(spark):
    frame = spark.createDataFrame([], "run_id string")
    with pytest.raises(InputError, match="the rows have a column 'run_id' already"):
        write_table(frame, "lab.metrics", run_id="today")
