"""Where a job's tables come from: databases, formats that a session may lack, columns that are named."""

import json
import re

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from spark_rankeval.errors import ConfigurationError
from spark_rankeval.jobs.config import Source
from spark_rankeval.jobs.evaluate import main
from spark_rankeval.jobs.job_tables import read_for_schema, read_table
from spark_rankeval.spark.platforms import input_files

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


def configuration(folder, url, predictions='dbtable = "predictions"', **replace):
    text = f"""
        [predictions]
        format = "jdbc"
        options = {{ url = "{url}", {predictions}, user = "shop", password = "hunter2" }}
        [labels]
        format = "jdbc"
        options = {{ url = "{url};password=hunter2", query = 'SELECT "user", "item" FROM labels', user = "shop" }}
        [columns]
        score = "score"
        [evaluation]
        metrics = ["rr"]
        [output]
        path = "{folder}/out"
    """
    for old, new in replace.items():
        text = text.replace(old, new)
    (folder / "job.toml").write_text(text)
    return ["--config", str(folder / "job.toml")]


@pytest.mark.not_on_sail("jdbc")
def test_tables_of_a_database_are_evaluated_and_no_password_is_left(spark, database, tmp_path, capsys):
    assert main(configuration(tmp_path, database)) == 0
    (row,) = spark.read.parquet(f"{tmp_path}/out/metrics").collect()
    assert (row.mean, row.n_users) == (0.75, 2)
    printed = capsys.readouterr()
    assert all(b"hunter2" not in path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    (line,) = spark.read.text(f"{tmp_path}/out/manifests/run_id={row.run_id}").collect()
    manifest = json.loads(line.value)
    assert manifest["inputs"]["predictions"]["n_files"] == 0
    hidden = dict.fromkeys(("url", "dbtable", "user", "password"), "***")
    assert manifest["config"]["predictions"]["options"] == hidden
    assert manifest["config"]["labels"]["options"] == dict.fromkeys(("url", "query", "user"), "***")
    # What a dry run prints of it.
    assert main([*configuration(tmp_path, database), "--dry-run"]) == 0
    printed = capsys.readouterr()
    assert "jdbc table: user int, item string, score double" in printed.out
    assert "jdbc query: user int, item string" in printed.out
    assert not any(value in printed.out + printed.err for value in ("hunter2", database))


@pytest.mark.not_on_sail("jdbc")
@pytest.mark.parametrize(
    ("replace", "said"),
    [
        ({'dbtable = "predictions"': 'dbtable = "nowhere"'}, "[predictions] cannot be read: "),
        ({"jdbc:derby:memory:jobs": "jdbc:nothing:jobs"}, "No suitable driver"),
    ],
)
def test_a_database_that_does_not_answer_is_one_line_without_secrets(database, tmp_path, capsys, replace, said):
    assert main(configuration(tmp_path, database, **replace)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert "hunter2" not in line


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
        (
            "{folder}/job.toml",
            r"job\.toml is not a Parquet file|job\.toml\. Could not read footer|Invalid Parquet file",
        ),
        ("s3a://KEY:hunter2@bucket/x", "S3AFileSystem not found|failed to lookup address"),
        ("nowhere://KEY:hunter2@bucket/x?password=hunter2", "nowhere"),
    ],
)
def test_files_that_cannot_be_read_are_one_line_without_secrets(spark, tmp_path, capfd, path, said):
    (tmp_path / "job.toml").write_text(
        f"""
        predictions.path = "{path.format(folder=tmp_path)}"
        evaluation.metrics = ["rr"]
        output.path = "{tmp_path}/out"
        """
    )
    assert main(["--config", str(tmp_path / "job.toml")]) == 2
    printed = capfd.readouterr()
    (line,) = [line for line in printed.err.splitlines() if line.startswith("evaluate: ")]
    assert line.startswith("evaluate: wrong config: [predictions] cannot be read: ")
    assert re.search(said, line)
    assert "Exception" not in line
    assert "hunter2" not in printed.out + printed.err
    assert not (tmp_path / "out").exists()


def test_columns_that_are_told_spare_a_look_at_the_rows(spark, jobs_of, tmp_path, platform):
    (tmp_path / "l.csv").write_text("user,item\n1,a\n")
    told = Source(path=str(tmp_path / "l.csv"), format="csv", schema="user bigint, item string")
    assert jobs_of(lambda: read_table(spark, told, "labels")) == 0
    assert read_table(spark, told, "labels").dtypes == [("user", "bigint"), ("item", "string")]
    inferred = Source(path=str(tmp_path / "l.csv"), format="csv")
    # Sail looks at them when it is asked for the schema.
    assert platform == "sail" or jobs_of(lambda: read_table(spark, inferred, "labels")) > 0
    assert read_for_schema({"a": told, "b": inferred, "d": Source(path="p"), "e": Source(table="t")}) == ["b"]
    wrong = Source(path=str(tmp_path / "l.csv"), format="csv", schema="user bigint item")
    with pytest.raises(ConfigurationError, match=r"\[labels\] cannot be read: "):
        read_table(spark, wrong, "labels")


def test_ids_in_csv_are_the_text_that_the_file_has(spark, tmp_path, capsys):
    """Spark would read 007 and 7 as one user, and 1 and 1.0 as one item: the other would vanish unnoticed."""
    (tmp_path / "p.csv").write_text("User,item,score\n007,1,0.5\n7,1,0.25\n7,1.0,0.75\n")
    (tmp_path / "l.csv").write_text("User,item\n007,1\n7,1.0\n")
    (tmp_path / "people.csv").write_text("User,zip\n007,01067\n7,1067\n")
    (tmp_path / "job.toml").write_text(f"""
        predictions = {{ path = "{tmp_path}/p.csv", format = "csv" }}
        labels = {{ path = "{tmp_path}/l.csv", format = "csv" }}
        attributes = {{ path = ["{tmp_path}/people.csv"], format = "csv" }}
        columns = {{ user = "user", score = "score" }}
        evaluation = {{ metrics = ["rr"], by = "zip" }}
        output = {{ path = "{tmp_path}/out", run_id = "day" }}
    """)
    arguments = ["--config", str(tmp_path / "job.toml")]
    assert main([*arguments, "--dry-run"]) == 0
    planned = capsys.readouterr().out
    assert "p.csv (1 file): User string, item string, score double" in planned
    assert "Their ids are text unless all of a column are plain whole numbers: 007 is not 7." in planned
    assert main(arguments) == 0
    rows = {
        row.user: row
        for row in spark.read.parquet(f"{tmp_path}/out/per_user").withColumnRenamed("User", "user").collect()
    }
    assert {user: (row.zip, row.rr) for user, row in rows.items()} == {"007": ("01067", 1.0), "7": ("1067", 1.0)}


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


def test_ids_in_json_are_the_numbers_that_the_file_has(spark, tmp_path, platform, capsys):
    """Two users of 128 bits become one as doubles; half of a user's labels then stand for both."""
    first, second = "340282366920938463463374607431768211455", "340282366920938463463374607431768211454"
    rows = [(first, "1", 0.9), (first, "2", 0.8), (second, "1", 0.9), (second, "2", 0.8)]
    line = '{{"user": {}, "item": {}, "score": {}}}\n'
    (tmp_path / "p.json").write_text("".join(line.format(*row) for row in rows))
    (tmp_path / "l.json").write_text(f'{{"user": {first}, "item": 1}}\n{{"user": {second}, "item": 2}}\n')
    (tmp_path / "job.toml").write_text(f"""
        predictions = {{ path = "{tmp_path}/p.json", format = "json" }}
        labels = {{ path = "{tmp_path}/l.json", format = "json" }}
        columns = {{ score = "score" }}
        evaluation = {{ metrics = ["rr"] }}
        output = {{ path = "{tmp_path}/out", run_id = "day" }}
    """)
    code = main(["--config", str(tmp_path / "job.toml")])
    if platform == "sail":
        assert code == 2
        assert "the ids in user are neither strings nor whole numbers of 64 bits" in capsys.readouterr().err
        return
    assert code == 0
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


def test_csv_has_the_types_of_its_schema_or_options(spark, tmp_path, platform):
    file = tmp_path / "p.csv"
    file.write_text("user,item,score\n007,1,0.5\n")
    for more, types in (
        ({"schema": "user int, item bigint, score float"}, ["int", "bigint", "float"]),
        ({"options": {"inferSchema": False}}, ["string"] * 3),
        ({}, ["string", "bigint" if platform == "sail" else "int", "double"]),
    ):
        source = Source(path=str(file), format="csv", **more)
        assert [kind for _, kind in read_table(spark, source, "labels", ["USER", "item"]).dtypes] == types


@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        (["0", "-7", "", "10"], "int"),
        (["9000000000"], "bigint"),
        *((["7", other], "string") for other in ("007", "+7", "-0", "7.0", "1e3", "99999999999999999999", "x")),
        (["true"], "string"),
        (["2026-11-20"], "string"),
        ([""], "string"),
    ],
)
def test_ids_in_csv_are_numbers_if_all_are_written_as_such(spark, tmp_path, platform, ids, kind):
    kind = "bigint" if platform == "sail" and kind == "int" else kind
    file = tmp_path / "l.csv"
    file.write_text("user,a`b.c\n" + "".join(f"u,{given}\n" for given in ids))
    table = read_table(spark, Source(path=str(file), format="csv"), "labels", ["user", "a`b.c"])
    assert dict(table.dtypes) == {"user": "string", "a`b.c": kind}
    assert [row[1] for row in table.collect()] == [
        (given if kind == "string" else int(given)) if given else None for given in ids
    ]


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
