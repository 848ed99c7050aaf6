"""A per-user table in storage: published when valid, never half-written, read back to the same result."""

import pytest
from helpers.plans import counted

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


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_is_written_reads_back_to_the_same_result_with_rows_of_nobody_counted(tables, spark, tmp_path):
    predictions = tables[0].union(spark.createDataFrame([(None, 1, 0.5)], tables[0].schema))
    result = evaluate({"m": predictions}, tables[1], METRICS, score="score", on_invalid="drop")
    written = result.write(str(tmp_path / "per_user"))
    again = summarise(spark.read.parquet(str(tmp_path / "per_user")))
    assert names_in(tmp_path) == ["per_user"]
    for one in (written, again):
        assert (one.summary, one.qualities) == (result.summary, result.qualities)
        assert one.data_quality.n_invalid_predictions == 1
        assert one.per_user.count() == 2
    assert {row.model for row in again.summary} == {"m"}
    assert again["m", "map(denominator='labels')@2"] == result["m", "MAP"]


def test_an_existing_table_is_replaced_only_on_request_and_by_valid_rows(tables, scored, spark, tmp_path):
    path = str(tmp_path / "per_user")
    write_per_user(scored.limit(1), path)
    with pytest.raises(OptionError, match="already exists"):
        write_per_user(scored, path)
    predictions, labels = tables
    bad = score_users(predictions.union(predictions), labels, METRICS, score="score")
    with pytest.raises(DataError, match="predictions that repeat an item of their user: 3"):
        write_per_user(bad, path, mode="overwrite")
    assert spark.read.parquet(path).count() == 1
    assert names_in(tmp_path) == ["per_user"]


@pytest.mark.parametrize(
    ("scheme", "name"), [("file://", "Nützer+1"), ("", "per user/"), pytest.param("file:", "per%20user", marks=pytest.mark.ci)]
)  # fmt: skip
def test_a_replaced_table_leaves_nothing_beside_it(scored, spark, tmp_path, scheme, name):
    path = f"{scheme}{tmp_path}/{name}"
    write_per_user(scored.limit(1), path)
    cached = spark.read.parquet(path).cache()
    assert cached.count() == 1
    assert write_per_user(scored, path, mode="overwrite").per_user.count() == 2
    # What was cached of the earlier table is not taken for the new one.
    assert spark.read.parquet(path).count() == 2
    cached.unpersist()
    assert names_in(tmp_path) == [name.rstrip("/")]


@pytest.mark.ci
def test_a_link_is_left_to_spark(scored, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "per_user").symlink_to(tmp_path / "elsewhere")
    assert write_per_user(scored, tmp_path / "per_user", mode="overwrite").per_user.count() == 2
    assert names_in(tmp_path) == ["elsewhere", "per_user"]


@pytest.mark.ci
def test_the_heavy_part_runs_once(tables, tmp_path):
    predictions, labels = tables
    marked, n_batches = counted(predictions, tmp_path / "marks")
    write_per_user(score_users(marked, labels, METRICS, score="score"), str(tmp_path / "per_user"))
    assert n_batches() == 1


def test_what_is_no_path_or_mode_is_an_error_before_any_job(tables, jobs_of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = score_users(*tables, METRICS, score="score")
    wrong = {
        f"{tmp_path}/per_user[1]": r"contains \[ \], which Spark reads as a wildcard pattern; choose a path without these",
        "rag.users": r"rag\.users reads .*; write a table with table='rag\.users', and .* as in './rag\.users'",
        "": "empty",
    }

    def refuse():
        for mode in ("errorifexists", "overwrite"):
            for path, words in wrong.items():
                with pytest.raises(OptionError, match=words):
                    write_per_user(table, path, mode)
        with pytest.raises(OptionError, match="mode must be one of 'errorifexists', 'overwrite'"):
            write_per_user(table, "users", mode="append")

    assert jobs_of(refuse) == 0
    assert list(tmp_path.iterdir()) == []
