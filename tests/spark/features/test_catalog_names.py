"""Names of tables and runs, and comments of columns, stand in statements of SQL as what they are."""

import pytest

from spark_rankeval import write_table
from spark_rankeval.errors import InputError, OptionError
from spark_rankeval.spark.catalog import CatalogTable, make_schema
from spark_rankeval.spark.sql import literal

EVIL = "x'; DROP TABLE users; --"


def test_a_literal_is_the_text(spark):
    texts = ["", "plain", EVIL, "a\\", "\\'", "'", "ä\n\t", "100 %"]
    columns = ", ".join(f"{literal(text)} AS text{number}" for number, text in enumerate(texts))
    (row,) = spark.sql(f"SELECT {columns}").collect()
    assert [*row] == texts


QUOTED = {
    "metrics": "`metrics`", "main.evaluation.metrics": "`main`.`evaluation`.`metrics`", "`my schema`.metrics": "`my schema`.`metrics`",
    "`a``b`.`c.d`": "`a``b`.`c.d`", "a;b.c": "`a;b`.`c`",
}  # fmt: skip


@pytest.mark.parametrize("name", QUOTED)
def test_each_part_of_a_name_is_quoted(spark, name):
    assert CatalogTable(spark, name).quoted == QUOTED[name]


@pytest.mark.parametrize("name", ["", "a..b", "a b", "`a.b", "a.`b", EVIL, ".a", "a.", None, 7])
def test_what_is_no_name_is_refused(spark, name):
    with pytest.raises(OptionError, match="table must name a table of the catalogue"):
        CatalogTable(spark, name)


@pytest.mark.parametrize("letter", [" ", "%", "#", "é"])
def test_a_folder_in_which_sail_loses_files_is_refused(spark, letter):
    with pytest.raises(OptionError, match=f"output.path: Sail writes no tables of a catalogue to /a{letter}b"):
        make_schema(spark, "odd", f"/a{letter}b")


def test_a_table_that_is_not_there_is_named(spark):
    with pytest.raises(InputError, match="per_user: there is no table nowhere in the catalogue of this session"):
        CatalogTable(spark, "nowhere", "per_user").rows()


def test_what_cannot_be_written_is_refused(spark):
    rows, of_runs = (spark.createDataFrame([], schema) for schema in ("x double", "RUN_ID string"))
    for run_id in ("", EVIL, "a/b", "x" * 101, ".hidden"):
        with pytest.raises(OptionError, match="run_id must be up to 100 letters"):
            write_table(rows, "nowhere", run_id=run_id)
    with pytest.raises(InputError, match="the rows have a column 'RUN_ID' already"):
        write_table(of_runs, "lab.metrics", run_id="today")
    words = "rows must be a result, a comparison, gaps, an audit, a history or a DataFrame; got"
    with pytest.raises(InputError, match=words):
        write_table("lab.metrics", "lab.other")
