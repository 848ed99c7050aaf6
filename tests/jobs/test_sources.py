"""Where a job's tables come from: databases, formats that a session may lack, columns that are named."""

import re
from functools import partial

import pandas as pd
import pytest
from helpers.run_documents import contents, run_document, run_here
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from spark_rankeval.errors import ConfigurationError
from spark_rankeval.jobs.config import Source
from spark_rankeval.jobs.evaluate import main
from spark_rankeval.jobs.outputs import read_table
from spark_rankeval.spark.engine import input_files

EMBEDDED = "jdbc:derby:memory:jobs;create=true"


@pytest.fixture(scope="module")
def database(spark):
    """Predictions and labels in a database that Spark brings, in its own process."""
    tables = {
        "predictions": ([(1, "a", 0.5), (1, "b", 0.9), (2, "a", 0.1)], "user int, item string, score double"),
        "labels": ([(1, "a"), (2, "a")], "user int, item string"),
    }
    for name, (rows, schema) in tables.items():
        writer = spark.createDataFrame(rows, schema).coalesce(1).write.format("jdbc").mode("overwrite")
        writer.options(url=EMBEDDED, dbtable=name, user="shop", password="hunter2").save()
    return EMBEDDED


DATABASE = """
    predictions.format = "jdbc"
    predictions.options = { url = "URL", dbtable = "predictions", user = "shop", password = "hunter2" }
    labels.format = "jdbc"
    labels.options = { url = "URL;password=hunter2", query = 'SELECT "user", "item" FROM labels', user = "shop" }
    columns.score = "score"
    evaluation.metrics = ["rr"]
    output.path = "FOLDER/out"
"""


@pytest.mark.not_on_sail("jdbc")
def test_tables_of_a_database_are_evaluated_and_no_password_is_left(spark, database, tmp_path):
    done = run_here(main, tmp_path, DATABASE.replace("URL", database))
    assert done.code == 0
    (row,) = spark.read.parquet(f"{tmp_path}/out/metrics").collect()
    assert (row.mean, row.n_users) == (0.75, 2)
    assert all(b"hunter2" not in data for data in contents(tmp_path / "out").values())
    manifest = run_document(tmp_path / "out")
    assert manifest["inputs"]["predictions"]["n_files"] == 0
    hidden = dict.fromkeys(("url", "dbtable", "user", "password"), "***")
    assert manifest["config"]["predictions"]["options"] == hidden
    assert manifest["config"]["labels"]["options"] == dict.fromkeys(("url", "query", "user"), "***")
    # What a dry run prints of it.
    planned = run_here(main, tmp_path, DATABASE.replace("URL", database), options=["--dry-run"])
    assert "jdbc table: user int, item string, score double" in planned.out
    assert "jdbc query: user int, item string" in planned.out
    assert not any(value in done.out + planned.out + planned.err for value in ("hunter2", database))
    for old, new, said in (
        ('dbtable = "predictions"', 'dbtable = "nowhere"', "[predictions] cannot be read: "),
        ("jdbc:derby:memory:jobs", "jdbc:nothing:jobs", "No suitable driver"),
    ):
        wrong = run_here(main, tmp_path, DATABASE.replace("URL", database).replace(old, new))
        (line,) = wrong.lines
        assert (wrong.code, said in line, "hunter2" in line) == (2, True, False)


@pytest.mark.not_on_sail("foreign formats")
@pytest.mark.parametrize("name", ["delta", "iceberg"])
def test_a_format_that_the_session_lacks_is_named(spark, tmp_path, name):
    with pytest.raises(ConfigurationError) as caught:
        read_table(spark, Source(path=str(tmp_path), format=name), "labels")
    assert f"[labels] cannot be read: this session does not have the format '{name}'; start Spark with it" in str(
        caught.value
    )


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("FOLDER/job.toml", r"job\.toml is not a Parquet file|job\.toml\. Could not read footer|Invalid Parquet file"),
        ("s3a://KEY:hunter2@bucket/x", "S3AFileSystem not found|failed to lookup address"),
        ("nowhere://KEY:hunter2@bucket/x?password=hunter2", "nowhere"),
    ],
)
def test_files_that_cannot_be_read_are_one_line_without_secrets(spark, tmp_path, path, said):
    text = f'predictions.path = "{path}"\nevaluation.metrics = ["rr"]\noutput.path = "FOLDER/out"'
    done = run_here(main, tmp_path, text)
    (line,) = [line for line in done.lines if line.startswith("evaluate: ")]
    assert (done.code, "Exception" in line, "hunter2" in done.out + done.err) == (2, False, False)
    assert line.startswith("evaluate: wrong config: [predictions] cannot be read: ")
    assert re.search(said, line)
    assert not (tmp_path / "out").exists()


def test_files_with_nanoseconds_are_read_or_their_column_and_the_setting_for_them_are_named(spark, tmp_path, platform):
    at = pd.to_datetime(["2026-11-02", "2026-11-03"]).astype("datetime64[ns]")
    rows = {"user": [1, 2], "item": ["a", "b"], "score": [0.5, 0.4], "at": at}
    pd.DataFrame(rows).to_parquet(tmp_path / "p.parquet")
    pd.DataFrame({"user": [1, 2], "item": ["a", "a"]}).to_parquet(tmp_path / "l.parquet")
    start = partial(run_here, main, tmp_path, JOB.replace("KIND", "parquet"))
    done = start()
    if platform != "sail":
        (line,) = [line for line in done.lines if line.startswith("evaluate: ")]
        assert (done.code, "[predictions] cannot be read: 'at': these Parquet files" in line) == (2, True)
        name, value = re.search(r"Set (\S+)=(\w+)", line).groups()
        spark.conf.set(name, value)
        done = start()
        spark.conf.unset(name)
    assert done.code == 0
    (row,) = spark.read.parquet(f"{tmp_path}/out/metrics").collect()
    assert row.mean == 0.5


@pytest.mark.parametrize("schema", ["", ', schema = "user int, item string, score double"'])
def test_the_line_that_is_no_json_is_named_on_sail_and_its_row_on_spark(spark, tmp_path, platform, schema):
    (tmp_path / "p.json").write_text('{"user": 1, "item": "a", "score": 0.5}\n\n{"user": 1, "item": "b", "sc\n')
    pd.DataFrame({"user": [1, 2], "item": ["a", "a"]}).to_parquet(tmp_path / "l.parquet")
    predictions = f'path = "FOLDER/p.json", format = "json"{schema}'
    text = JOB.replace('path = "FOLDER/p.KIND", format = "KIND"', predictions).replace("KIND", "parquet")
    done = run_here(main, tmp_path, text)
    expected = "FOLDER/p.json, line 3: a line is cut, or is no JSON. Mend it" if platform == "sail" else "null"
    assert expected in done.err


@pytest.mark.parametrize(
    ("said", "may_pass"),
    [
        ("Call From a to nn:8020 failed on connection exception: java.net.ConnectException: Connection refused", True),
        ("com.mysql.cj.jdbc.exceptions.CommunicationsException: Communications link failure", True),
        ("java.sql.SQLRecoverableException: IO Error: The Network Adapter could not connect", True),
        ("FATAL: the database system is starting up", True),
        (
            "Generic S3 error: Error performing GET http://minio:9000/b in 2s, after 10 retries: error sending request",
            True,
        ),
        ("CommunicationsException\nCaused by: java.net.UnknownHostException: mysql.invalid", False),
        ("error sending request: failed to lookup address information", False),
        ("FATAL: password authentication failed", False),
    ],
)
def test_a_store_that_does_not_answer_ends_with_the_code_of_another_attempt(
    spark, tmp_path, monkeypatch, said, may_pass
):
    def refuse(*_):
        raise PySparkException(said)

    monkeypatch.setattr("spark_rankeval.jobs.outputs._frame", refuse)
    done = run_here(main, tmp_path, JOB.replace("KIND", "csv"))
    assert done.code == (1 if may_pass else 2)
    assert done.err.startswith(
        f"evaluate: {'not available' if may_pass else 'wrong config'}: [predictions] cannot be read: "
    )
    assert len(done.lines) == 1


def test_columns_that_are_told_spare_a_look_at_the_rows_and_have_the_types_of_their_schema(
    spark, jobs_of, tmp_path, platform
):
    (tmp_path / "l.csv").write_text("user,item,score\n007,1,0.5\n")
    of = partial(Source, path=str(tmp_path / "l.csv"), format="csv")
    told, inferred = of(schema="user int, item bigint, score float"), of()
    assert jobs_of(lambda: read_table(spark, told, "labels")) == 0
    # Sail looks at them when it is asked for the schema.
    assert platform == "sail" or jobs_of(lambda: read_table(spark, inferred, "labels")) > 0
    for source, types in (
        (told, ["int", "bigint", "float"]),
        (of(options={"inferSchema": False}), ["string"] * 3),
        (inferred, ["string", "bigint" if platform == "sail" else "int", "double"]),
    ):
        assert [kind for _, kind in read_table(spark, source, "labels", ["USER", "item"]).dtypes] == types
    with pytest.raises(ConfigurationError, match=r"\[labels\] cannot be read: "):
        read_table(spark, of(schema="user bigint item"), "labels")


JOB = """
    predictions = { path = "FOLDER/p.KIND", format = "KIND" }
    labels = { path = "FOLDER/l.KIND", format = "KIND" }
    columns = { user = "user", score = "score" }
    evaluation = { metrics = ["rr"] }
    output = { path = "FOLDER/out", run_id = "day" }
"""


def test_ids_in_csv_are_the_text_that_the_file_has(spark, tmp_path):
    """Spark would read 007 and 7 as one user, and 1 and 1.0 as one item: the other would vanish unnoticed."""
    (tmp_path / "p.csv").write_text("User,item,score\n007,1,0.5\n7,1,0.25\n7,1.0,0.75\n")
    (tmp_path / "l.csv").write_text("User,item\n007,1\n7,1.0\n")
    (tmp_path / "people.csv").write_text("User,zip\n007,01067\n7,1067\n")
    settings = ("attributes={ path = ['FOLDER/people.csv'], format = 'csv' }", "evaluation.by=zip")
    start = partial(run_here, main, tmp_path, JOB.replace("KIND", "csv"), *settings)
    planned = start(options=["--dry-run"]).out
    assert "p.csv (1 file): User string, item string, score double" in planned
    assert "Their ids are text unless all of a column are plain whole numbers: 007 is not 7." in planned
    assert start().code == 0
    rows = spark.read.parquet(f"{tmp_path}/out/per_user").withColumnRenamed("User", "user").collect()
    assert {row.user: (row.zip, row.rr) for row in rows} == {"007": ("01067", 1.0), "7": ("1067", 1.0)}


@pytest.mark.parametrize("kind", ["csv", "json", "parquet", pytest.param("orc", marks=pytest.mark.not_on_sail("orc"))])
def test_ids_in_folders_are_the_text_that_the_folder_has(spark, tmp_path, kind):
    rows = [("01", "007", 5, 0.5), ("1", "7", 5, 0.25), ("1", None, 5, 0.75)]
    frame = spark.createDataFrame(rows, "model string, user string, item int, score double")
    place = f"{tmp_path}/day=7"
    frame.write.partitionBy("model", "user").option("header", True).format(kind).save(place)
    names = ["model", "User", "item", "day"]
    table = read_table(spark, Source(path=place, format=kind), "predictions", names)
    assert sorted(table.select("model", "user", "item", "score").collect(), key=str) == sorted(rows, key=str)
    # A folder above the table has no column of it.
    assert "day" not in table.columns


@pytest.mark.not_on_sail("basePath")
def test_a_folder_above_the_table_has_a_column_if_the_base_path_says_so(spark, tmp_path):
    place = f"{tmp_path}/day=7"
    spark.range(1).write.json(place)
    table = read_table(spark, Source(path=place, format="json", options={"basePath": str(tmp_path)}), "t", ["day"])
    assert dict(table.dtypes)["day"] == "int"


def test_a_column_of_json_may_be_called_value_and_empty_lines_are_no_rows(spark, tmp_path):
    (tmp_path / "day=7").mkdir()
    lines = ['{"user": 1, "value": "a"}', "", " \t", '{"user": 2, "value": "b"}', ""]
    (tmp_path / "day=7" / "l.json").write_text("\n".join(lines))
    table = read_table(spark, Source(path=str(tmp_path), format="json"), "labels", ["user"])
    rows = table.selectExpr("user", "value", "cast(day AS int)").collect()
    assert sorted(rows) == [(1, "a", 7), (2, "b", 7)]


def test_ids_in_json_are_the_numbers_that_the_file_has(spark, tmp_path, platform):
    """Two users of 128 bits become one as doubles; half of a user's labels then stand for both."""
    first, second = "340282366920938463463374607431768211455", "340282366920938463463374607431768211454"
    rows = [(user, item, score) for user in (first, second) for item, score in ((1, 0.9), (2, 0.8))]
    (tmp_path / "p.json").write_text("".join('{{"user": {}, "item": {}, "score": {}}}\n'.format(*row) for row in rows))
    (tmp_path / "l.json").write_text(f'{{"user": {first}, "item": 1}}\n{{"user": {second}, "item": 2}}\n')
    done = run_here(main, tmp_path, JOB.replace("KIND", "json"))
    if platform == "sail":
        said = "the ids in user are neither strings nor whole numbers of 64 bits"
        assert done.says(2, said)
        return
    scored = spark.read.parquet(f"{tmp_path}/out/per_user").collect()
    assert {row.user: row.rr for row in scored} == {first: 1.0, second: 0.5}


@pytest.mark.parametrize(
    ("ids", "kind", "read"),
    [
        (["7", "-7", "null"], "bigint", [7, -7, None]),
        (["7", "7.0", "1.5"], "string", ["7", "7.0", "1.5"]),
        (["7", '"07"', "true"], "string", ["7", "07", "true"]),
        (["[1, 2]", "[12345678901234567890]"], "array<string>", [["1", "2"], ["12345678901234567890"]]),
        (["[1, 2]", "[3]"], "array<bigint>", [[1, 2], [3]]),
        (
            ['[{"item": 1, "score": 2}]', '[{"item": 12345678901234567890, "score": 0.5}]'],
            "array<struct<item:string,score:double>>",
            [[("1", 2.0)], [("12345678901234567890", 0.5)]],
        ),
    ],
)
def test_ids_in_json_are_numbers_if_all_are_whole(spark, tmp_path, platform, ids, kind, read):
    (tmp_path / "p.json").write_text("".join(f'{{"item": {given}, "score": 1.5}}\n' for given in ids))
    source = Source(path=f"{tmp_path}/p.json", format="json")
    if platform == "sail" and any("." in one or "345678" in one for one in ids):
        with pytest.raises(ConfigurationError, match="the ids in item are neither"):
            read_table(spark, source, "predictions", ["item"])
        return
    table = read_table(spark, source, "predictions", ["item"])
    assert table.dtypes == [("item", kind), ("score", "double")]
    assert [row.item for row in table.collect()] == read


NUMBERS = [["0", "-7", "", "10"], ["9000000000"]]
OTHERS = ["007", "+7", "-0", "7.0", "1e3", "99999999999999999999", "x"]
NO_NUMBERS = [*(["7", other] for other in OTHERS), ["true"], ["2026-11-20"], [""]]


@pytest.mark.parametrize("ids", [*NUMBERS, *NO_NUMBERS], ids=repr)
def test_ids_in_csv_are_numbers_if_all_are_written_as_such(spark, tmp_path, platform, ids):
    kind = ("bigint" if platform == "sail" or len(ids) == 1 else "int") if ids in NUMBERS else "string"
    (tmp_path / "l.csv").write_text("user,a`b.c\n" + "".join(f"u,{given}\n" for given in ids))
    table = read_table(spark, Source(path=f"{tmp_path}/l.csv", format="csv"), "labels", ["user", "a`b.c"])
    assert dict(table.dtypes) == {"user": "string", "a`b.c": kind}
    expected = [(given if kind == "string" else int(given)) if given else None for given in ids]
    assert [row[1] for row in table.collect()] == expected


def test_a_platform_that_does_not_tell_files_is_no_error(spark, tmp_path, monkeypatch):
    spark.range(2).coalesce(1).write.parquet(f"{tmp_path}/t")
    frame = spark.read.parquet(f"{tmp_path}/t")
    assert len(input_files(frame)) == 1
    assert input_files(spark.range(1)) == []

    def refused(_):
        raise PySparkException("[NOT_SUPPORTED_WITH_SERVERLESS]")

    for kind in {DataFrame, type(frame)}:
        monkeypatch.setattr(kind, "inputFiles", refused)
    assert input_files(frame) == []
