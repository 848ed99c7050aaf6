"""Daily results merged, against one evaluation of all days' users."""

import json
import math
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from worlds.random_logs import random_logs

from spark_rankeval import evaluate, history, merge
from spark_rankeval.errors import InputError, MergeError

METRICS = ["ndcg@5", "dcg@5", "ap", "rr"]
OPTIONS = {"score": "score", "relevance": "grade", "by": "country"}
# What the rows of one evaluation alone have.
UNKNOWN = {"median", "quantiles", "standard", "standard_mean"}


def figures(result):
    return {
        (row.model, row.slice, row.key): {
            # A map that comes back from Spark has another order.
            name: repr(sorted(value.items()) if isinstance(value, dict) else value)
            for name, value in row.by_column().items()
            if name not in UNKNOWN
        }
        for row in result.summary
    }


@pytest.fixture(scope="module")
def logs(spark):
    logs = random_logs(60, 5, seed=77)
    labels = [*((*row, "DE" if row[0] % 3 else "FR") for row in logs.label_rows), (900, 1, 2.0, "JP")]
    predictions, _ = logs.tables(spark)
    return predictions, spark.createDataFrame(labels, "user long, item long, grade double, country string")


@pytest.fixture(scope="module")
def days(logs):
    """Three days, on the last of which a user of Japan comes first."""
    parts = ["user < 20", "user >= 20 and user < 45", "user >= 45"]
    return [evaluate(*(one.where(part) for one in logs), METRICS, **OPTIONS) for part in parts]


@pytest.fixture(scope="module")
def whole(logs):
    return evaluate(*logs, METRICS, **OPTIONS)


@pytest.fixture(scope="module")
def stored(spark, days):
    """The days in a table of metrics."""
    tables = [
        day.to_stored(datetime(2026, 11, 16 + n, 12, tzinfo=UTC)).selectExpr("*", f"'day{n}' run_id")
        for n, day in enumerate(days)
    ]
    return tables[0].union(tables[1]).union(tables[2]).cache()


def test_so_they_are_from_json_and_from_the_table_of_metrics(days, whole, stored):
    of_documents = merge({"monday": days[0], "tuesday": days[1].to_json(), "more": days[2].to_dict()})
    week = merge(stored)
    assert figures(of_documents) == figures(week) == figures(whole)
    assert [*figures(week)] == [*figures(of_documents)] == [*figures(whole)]
    assert of_documents.data_quality == whole.data_quality
    assert week["ndcg_at_5"] == whole["ndcg@5"]
    with pytest.raises(InputError, match="does not describe its data"):
        _ = week.data_quality
    known = [{**row, "standard": ""} for row in merge(days).to_dict()["summary"]]
    assert json.loads(week.to_json())["summary"] == known


@pytest.mark.usefixtures("without_charts")
def test_a_merged_result_shows_itself_and_has_no_users(days, stored, tmp_path):
    week = merge(days)
    assert week.report(tmp_path / "week.html").read_text().count("counts in each") == 1
    for found in (week, merge(stored)):
        assert "ndcg@5" in repr(found)
        assert "counts in each" in found.explain()
        assert "medians and quantiles are NaN" in found.explain()
        assert found.to_pandas()["median"].isna().all()
        with pytest.raises(InputError, match="a merged result has no values of users"):
            _ = found.per_user
        with pytest.raises(InputError, match="a merged result has no values of users"):
            found.write(tmp_path / "users")


def test_what_is_no_result_is_refused(days, spark):
    lone = days[0].to_dict()
    for given, error, words in (
        ([], MergeError, "there is nothing to merge"),
        *(
            (given, InputError, "result 1: this is not a result")
            for given in (["{}"], ["[" * 100_000], ['{"summary": [{"mean": 1}]}'])
        ),
        ({"a": 5}, InputError, "a is not a result"),
        *((given, InputError, "merge needs several results") for given in ("monday.json", 5, days[0], lone)),
        ([lone, lone | {"summary": lone["summary"][:1]}], MergeError, "the metrics differ"),
        (spark.range(1), InputError, r"the table has no model, .* pass a job's table of metrics"),
    ):
        with pytest.raises(error, match=words):
            merge(given)


@pytest.mark.usefixtures("without_charts")
def test_what_the_page_of_history_says_in_python_runs(spark, days, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for place, day in enumerate(days):
        table = day.to_stored(datetime(2026, 11, 16 + place, 12, tzinfo=UTC))
        table.write.parquet(f"{tmp_path}/metrics/run_id=day{place}")
    page = (Path(__file__).parents[3] / "docs" / "history.md").read_text()
    # The pages' test runs the others.
    codes = re.findall(r"<!-- not run: .*? -->\n```python\n(.*?)```", page, re.DOTALL)
    assert len(codes) == 2
    names = {"spark": spark, "merge": merge}
    for code in codes:
        here = code.replace("output/nightly", str(tmp_path)).replace("ndcg@10", "ndcg@5")
        exec(compile(here, "history.md", "exec"), names)
    assert len(names["runs"].runs) == 3
    assert names["week"]["ndcg@5"] == merge(days)["ndcg@5"]


def test_a_dataframe_of_a_result_takes_degrees_of_freedom_of_weights(logs):
    result = evaluate(*logs, "rr", score="score", relevance="grade", user_weight="n_labels")
    table = result.to_spark()
    assert table.schema["df"].metadata == {"comment": "the degrees of freedom of the standard error"}
    (found,) = table.collect()
    assert found["df"] == result.summary[0].df > 10
    assert (found["cutoff"], found["asked"], found["quantiles"]) == (None, "rr", {0.5: result.summary[0].median})
    assert math.isnan(found["design_effect"])


def test_a_table_of_metrics_is_read_in_the_order_of_time(spark, stored):
    of_all = stored.where("metric = 'rr' AND slice = 'all'").drop("run_id", "time", "mean", "slice")
    runs = spark.createDataFrame(
        [("b", 2.0, "all", 1), ("a", 1.0, "all", 2), ("c", 3.0, "x=1", 3)],
        "run_id string, mean double, slice string, day int",
    ).selectExpr("run_id", "mean", "slice", "timestamp_seconds(1760000000 + 86400 * (4 - day)) time")
    table = runs.crossJoin(of_all.limit(1))
    found = history(table)
    assert [(run, row.mean) for run, _, row in found.rows] == [("a", 1.0), ("b", 2.0)]
    assert found.runs["a"] == datetime.fromtimestamp(1760000000 + 2 * 86400, UTC)
    assert [run for run, _, _ in history(table, slice=None).rows] == ["c", "a", "b"]
    with pytest.raises(InputError, match="the table has no mean; pass a job's table of metrics"):
        history(table.drop("mean"))
    with pytest.raises(InputError, match="no table output/metrics in the catalogue of this session"):
        history("output/metrics")
