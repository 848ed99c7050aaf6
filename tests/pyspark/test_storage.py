"""A per-user table in storage: published when valid, never half-written, read back to the same result."""

import pytest
from helpers.effort import part_of

from spark_rankeval import evaluate, score_users, summarise, write_per_user
from spark_rankeval.errors import DataError, OptionError

METRICS = {"ndcg": "ndcg@2", "MAP": "ap(denominator='labels')@2", "rr@2": "rr@2"}


@pytest.fixture(scope="module")
def tables(spark):
    predictions = spark.createDataFrame([(1, 1, 0.9), (1, 2, 0.8), (2, 3, 0.5)], "user int, item int, score double")
    return predictions, spark.createDataFrame([(1, 2), (2, 4)], "user int, item int")


@pytest.fixture(scope="module")
def scored(tables, tmp_path_factory):
    """The users of the tables, stored as `score_users` gives them: what is written here takes no evaluation."""
    place = str(tmp_path_factory.mktemp("scored") / "users")
    score_users(*tables, METRICS, score="score").write.parquet(place)
    return tables[0].sparkSession.read.parquet(place)


def test_what_is_written_reads_back_to_the_same_result(tables, spark, tmp_path):
    result = evaluate({"m": tables[0]}, tables[1], METRICS, score="score")
    written = result.write(tmp_path / "per_user")
    assert written.summary == result.summary
    again = summarise(spark.read.parquet(str(tmp_path / "per_user")))
    assert again.summary == result.summary
    assert again.data_quality == result.data_quality
    assert {row.model for row in again.summary} == {"m"}
    assert again["map(denominator='labels')@2"] == result["MAP"]
    with pytest.raises(OptionError, match="empty"):
        result.write("")


def test_the_staging_place_is_gone(scored, tmp_path):
    write_per_user(scored, str(tmp_path / "per_user"))
    assert [path.name for path in tmp_path.iterdir()] == ["per_user"]


def test_invalid_rows_publish_nothing_and_leave_what_was_there(tables, scored, spark, tmp_path):
    predictions, labels = tables
    path = str(tmp_path / "per_user")
    write_per_user(scored, path)
    bad = predictions.union(predictions)
    with pytest.raises(DataError, match="predictions that repeat an item of their user: 3"):
        write_per_user(score_users(bad, labels, METRICS, score="score"), path, mode="overwrite")
    assert spark.read.parquet(path).count() == 2
    assert [path.name for path in tmp_path.iterdir()] == ["per_user"]


def test_an_existing_table_is_replaced_only_on_request(scored, tmp_path):
    path = str(tmp_path / "per_user")
    write_per_user(scored.limit(1), path)
    with pytest.raises(OptionError, match="already exists"):
        write_per_user(scored, path)
    assert write_per_user(scored, path, mode="overwrite").per_user.count() == 2
    with pytest.raises(OptionError, match="mode must be one of 'errorifexists', 'overwrite'"):
        write_per_user(scored, path, mode="append")


@pytest.mark.parametrize(
    ("scheme", "name"), part_of([("file://", "Nützer+1"), ("", "per user/"), ("file:", "per%20user")], 3)
)
def test_a_replaced_table_leaves_nothing_beside_it(scored, spark, tmp_path, scheme, name):
    path = f"{scheme}{tmp_path}/{name}"
    write_per_user(scored.limit(1), path)
    cached = spark.read.parquet(path).cache()
    assert cached.count() == 1
    assert write_per_user(scored, path, mode="overwrite").per_user.count() == 2
    # What was cached of the earlier table is not taken for the new one.
    assert spark.read.parquet(path).count() == 2
    cached.unpersist()
    assert [one.name for one in tmp_path.iterdir()] == [name.rstrip("/")]


def test_a_link_is_left_to_spark(scored, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "per_user").symlink_to(tmp_path / "elsewhere")
    assert write_per_user(scored, tmp_path / "per_user", mode="overwrite").per_user.count() == 2
    assert sorted(one.name for one in tmp_path.iterdir()) == ["elsewhere", "per_user"]


def test_the_heavy_part_runs_once(tables, spark, tmp_path):
    marks = tmp_path / "marks"
    marks.mkdir()

    def mark(batches):
        for batch in batches:
            (marks / str(len(list(marks.iterdir())))).touch()
            yield batch

    predictions, labels = tables
    counted = predictions.coalesce(1).mapInArrow(mark, predictions.schema)
    write_per_user(score_users(counted, labels, METRICS, score="score"), str(tmp_path / "per_user"))
    assert len(list(marks.iterdir())) == 1


@pytest.mark.parametrize("mode", ["errorifexists", "overwrite"])
def test_a_pattern_or_a_name_of_a_table_in_the_place_of_a_path_is_an_error_before_any_job(
    tables, jobs_of, tmp_path, mode, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    table = score_users(*tables, METRICS, score="score")

    def refuse():
        with pytest.raises(
            OptionError,
            match=r"contains \[ \], which Spark reads as a wildcard pattern; choose a path without these characters",
        ):
            write_per_user(table, str(tmp_path / "per_user[1]"), mode)
        with pytest.raises(
            OptionError,
            match=r"rag\.users reads .*; write a table with table='rag\.users', and .* as in './rag\.users'",
        ):
            write_per_user(table, "rag.users", mode)

    assert jobs_of(refuse) == 0
    assert list(tmp_path.iterdir()) == []


def test_rows_without_a_user_stay_counted_in_storage(tables, spark, tmp_path):
    predictions, labels = tables
    nobody = predictions.union(spark.createDataFrame([(None, 1, 0.5)], predictions.schema))
    result = evaluate(nobody, labels, METRICS, score="score", on_invalid="drop")
    written = result.write(str(tmp_path / "per_user"))
    again = summarise(spark.read.parquet(str(tmp_path / "per_user")))
    for one in (result, written, again):
        assert one.data_quality.n_invalid_predictions == 1
        assert one.per_user.count() == 2
