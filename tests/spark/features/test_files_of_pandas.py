"""Parquet files that pandas wrote, whose schemas carry pandas' own metadata, in every table of a call."""

import pandas as pd
import pytest

from spark_rankeval import Facts, evaluate

FILES = {
    "lists": {"user": [1, 1, 2], "item": ["a", "b", "a"], "score": [0.9, 0.8, 0.7]},
    "labels": {"user": [1, 2, 3], "item": ["b", "a", "b"]},
    "users": {"user": [1, 2, 3, 4]},
    "answerless": {"user": [5, 6]},
    "about": {"user": [1, 2, 3, 4], "country": ["at", "de", "at", "de"]},
}


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pandas")
    for name, columns in FILES.items():
        pd.DataFrame(columns).to_parquet(folder / f"{name}.parquet")
    return {name: spark.read.parquet(f"{folder}/{name}.parquet") for name in FILES}


@pytest.mark.parametrize(
    ("names", "n_users"),
    [
        ({"users": "users"}, 4),
        ({"no_answer": "answerless"}, 5),
        ({"users": "users", "no_answer": "answerless"}, 6),
        ({"by": "about", "users": "users"}, 4),
    ],
    ids=lambda value: " and ".join(value) if isinstance(value, dict) else None,
)
def test_users_of_other_files_are_counted_beside_the_labels(tables, names, n_users):
    options = {name: tables[table] for name, table in names.items()}
    if "by" in options:
        options |= {"by": "country", "facts": Facts(attributes=options["by"])}
    result = evaluate(tables["lists"], tables["labels"], "rr", score="score", ci=None, **options)
    # Of users 1 to 3, who have labels, the third has no predictions.
    rows = {row.slice: row for row in result.summary}
    assert (rows["all"].mean, rows["all"].n_users) == (pytest.approx((1 / 2 + 1 + 0) / 3), 3)
    assert result.data_quality.n_users == n_users
    if "by" in options:
        assert rows["country=at"].mean == pytest.approx(1 / 4)


def test_times_of_nanoseconds_and_categories_are_read_as_their_values_or_named(spark, tmp_path, platform):
    at = pd.to_datetime(["2026-11-02 12:00"] * 3).astype("datetime64[ns]")
    odd = {"at": at, "zoned": at.tz_localize("UTC"), "took": at - at, "tag": pd.Categorical(["x", "x", "y"])}
    pd.DataFrame(FILES["lists"] | odd).to_parquet(tmp_path / "lists.parquet")
    labels = spark.createDataFrame([(1, "b"), (2, "a")], "user long, item string")
    if platform == "sail":
        lists = spark.read.parquet(f"{tmp_path}/lists.parquet")
        result = evaluate(lists, labels, "rr", score="score", by=["at", "zoned", "tag"], ci=None)
        assert result["rr"] == 0.75
        return
    # Classic Spark refuses such files when they are read, and Spark 3.5 by an error of the JVM's.
    with pytest.raises(Exception, match=r"nanosAsLong=true|TIMESTAMP\(NANOS"):
        evaluate(spark.read.parquet(f"{tmp_path}/lists.parquet"), labels, "rr", score="score")
