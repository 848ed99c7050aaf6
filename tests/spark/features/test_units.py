"""Texts speak of queries where a caller does: tables, sentences, charts, pages, warnings and errors."""

import json
import re
import warnings

import pytest

from spark_rankeval import compare, evaluate, merge, score_users, summarise
from spark_rankeval.errors import DataError, OptionError, SparkRankEvalWarning, speaking_of, unit_words
from spark_rankeval.evaluation.result import Result

COLUMNS = {"user": "query", "item": "chunk", "score": "score"}
# The word for users, but not in the names of columns, options and counts.
USERS = re.compile(r"(?<![\w'\"`=.])[Uu]sers?(?![\w\"`=])")


@pytest.fixture(scope="module")
def tables(spark):
    rows = [(query, chunk, (query * 7 + chunk * 3) % 11 / 11) for query in range(12) for chunk in range(4)]
    predictions = spark.createDataFrame(rows, "query long, chunk long, score double")
    rows = [(query, query % 3, f"half {query % 2}") for query in range(14)]
    labels = spark.createDataFrame(rows, "query long, chunk long, half string")
    return {"a": predictions, "b": predictions.withColumn("score", -predictions.score)}, labels


@pytest.fixture(scope="module")
def result(tables):
    models, labels = tables
    return evaluate(models, labels, ["rr", "recall@2"], by="half", unit="query", quantiles=(0.5, 0.9), **COLUMNS)


def test_tables_sentences_and_documents_speak_of_queries(result):
    comparison = compare(result, baseline="a")
    shown = [
        repr(result), result._repr_html_(), result.to_markdown(), result.to_latex(), result.to_text(),
        repr(result.models_table(comparison)), repr(result.table("metric", "model")), repr(comparison),
        *comparison.sentences, repr(Result.from_json(result.to_json())),
    ]  # fmt: skip
    assert [USERS.findall(text) for text in shown] == [[]] * len(shown)
    assert "14 queries" in repr(result)
    assert result.unit == Result.from_json(result.to_json()).unit == comparison.unit == "query"
    assert "n_users" in result.to_pandas().columns


def test_names_of_the_caller_stay(tables):
    models, labels = tables
    named = {"power users": models["a"], "old users": models["b"], "again": models["a"]}
    result = evaluate(named, labels, {"hits per user": "recall@2"}, unit="query", **COLUMNS)
    assert "power users" in repr(result)
    assert "hits per user" in repr(result)
    comparison = compare(result, baseline="power users")
    assert comparison.sentences[0].startswith(("old users is", "Whether old users is"))
    assert "no query differs" in repr(comparison)
    row = comparison["hits per user", "again"]
    assert row.sentence.startswith("No query differs between again and power users on hits per user (")
    assert row.sentence in comparison.to_pandas().sentence.tolist()
    assert merge([result, result]).unit == "query"


@pytest.mark.parametrize(("unit", "plural"), [("day", "days"), ("box", "boxes"), ("SKU", "SKUs")])
def test_plurals_are_english(unit, plural):
    with speaking_of(unit):
        assert unit_words("Users of a user") == f"{plural[0].upper()}{plural[1:]} of a {unit}"


def test_charts_and_pages_speak_of_queries(result, tmp_path, without_charts):
    plot, comparison = result.plot, compare(result, baseline="a")
    charts = [comparison.plot(), plot(), plot("rr"), plot.slices("rr"), plot.quantiles(), plot.histogram("rr")]
    texts = [json.dumps(chart.to_dict(), ensure_ascii=False) for chart in charts]
    found = [re.findall(r"[^\"]*\busers?\b[^\"]*", text) for text in texts]
    assert found == [[]] * len(charts)
    page = result.report(tmp_path / "report.html", comparison=comparison).read_text()
    text = re.sub(r"<style.*?</style>|<[^>]*>", " ", page, flags=re.DOTALL)
    assert USERS.findall(text) == []
    assert "queries" in text


def test_stored_tables_keep_the_word(tables, result):
    models, labels = tables
    stored = score_users(models, labels, ["rr"], unit="session", **COLUMNS)
    assert "14 sessions" in repr(summarise(stored))
    assert compare(stored, baseline="a").unit == "session"
    assert "14 users" in repr(evaluate(models, labels, "rr", **COLUMNS))


def test_warnings_and_errors_speak_of_queries(spark, tables):
    models, labels = tables
    strangers = labels.withColumn("query", labels.query + 100)
    with pytest.warns(SparkRankEvalWarning, match="none of 14 queries with labels has predictions"):
        evaluate(models["a"], strangers, "rr", unit="query", **COLUMNS)
    twice = models["a"].union(models["a"])
    with warnings.catch_warnings(action="ignore"), pytest.raises(DataError, match="that repeat an item of their query"):
        evaluate(twice, labels, "rr", unit="query", **COLUMNS)
    with pytest.raises(OptionError, match="unit must be a word"):
        evaluate(twice, labels, "rr", unit="", **COLUMNS)
