"""What is warned of by counts alone."""

import warnings
from types import SimpleNamespace

import pytest
from pyspark.sql import Row
from pyspark.sql import types as T
from worlds.summary_rows import QUALITY

from spark_rankeval.errors import SparkRankEvalWarning
from spark_rankeval.evaluation.bad_rows import _repeated_item, unread_grades_in_words, warn_of_labels
from spark_rankeval.metrics.naming import parse_metrics
from spark_rankeval.records.quality import quality_notes
from spark_rankeval.spark.inputs import Sources
from spark_rankeval.spark.source import SourceTable, ValueColumn


def warned_of(quality, metrics):
    """The warnings, of two models of the same labels."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_of_labels({"a": quality, "b": quality}, parse_metrics(metrics).values())
    assert all(issubclass(warning.category, SparkRankEvalWarning) for warning in found)
    return [str(warning.message) for warning in found]


def test_labels_that_nobody_can_find_are_warned_of_once():
    (words,) = warned_of(QUALITY.with_counts(n_excluded_labels=910), "recall@10")
    assert words.startswith("910 of 9,100 labels (10.0%) are of excluded items: ")
    assert (
        "1 of 9,100 labels (0.0%) is of an excluded item"
        in warned_of(QUALITY.with_counts(n_excluded_labels=1), "ndcg@10")[0]
    )
    assert "910 labels of excluded items" in quality_notes(QUALITY.with_counts(n_excluded_labels=910))[-1].text
    assert warned_of(QUALITY, "recall@10") == []


@pytest.mark.parametrize("metrics", ["recall@10", "ndcg@10", ["novelty@10", "cg"]])
def test_labels_of_which_none_is_relevant_are_warned_of(metrics):
    (words,) = warned_of(QUALITY.with_counts(n_relevant=0), metrics)
    assert words.startswith("none of the 9,100 labels is relevant; check that relevance_threshold= fits the grades.")
    (words,) = warned_of(QUALITY.with_counts(n_relevant=0, n_labels=0), metrics)
    assert words.startswith("there are no labels, so metrics have no value")


def test_correlations_need_labels_and_no_relevant_one():
    assert warned_of(QUALITY.with_counts(n_relevant=0), ["spearman", "rbo"]) == []
    assert len(warned_of(QUALITY.with_counts(n_relevant=0, n_labels=0), ["spearman", "rbo"])) == 1


@pytest.mark.parametrize("counts", [{"n_excluded_labels": 910}, {"n_labels": 0, "n_relevant": 0}])
def test_what_needs_no_labels_is_not_warned_of(counts):
    assert warned_of(QUALITY.with_counts(**counts), ["novelty@10", "catalog_coverage@10"]) == []


def test_scores_and_costs_of_a_repeated_item_are_shown_as_numbers():
    source = SimpleNamespace(user=("query",), has_value=True, value_kind="score", extra_columns=("cost",))
    example = Row(user_0="q", item_="a", n=2, values=[Row(value_0=0.87, value_1=419.0), Row(value_0=0.9, value_1=None)])
    words = _repeated_item(SimpleNamespace(example=example), source)
    assert words == "query='q', item='a' 2 times, with scores and cost [(0.87, 419.0), (0.9, None)]"


def ungraded(metric, numbers=("grade",), values=(), **others):
    """The sentence on labels with these columns of numbers and one of texts, if there is one."""
    schema = T.StructType(
        [*(T.StructField(name, T.IntegerType()) for name in ("user", *numbers)), T.StructField("item", T.StringType())]
    )
    labels = SourceTable(
        "labels", SimpleNamespace(schema=schema), ("user",), "item", T.StringType(), value_columns=values
    )
    resolved = {name: each.resolve() for name, each in parse_metrics(metric).items()}
    return "".join(unread_grades_in_words(Sources((), labels, **others), resolved))


def test_metrics_of_gain_say_that_numbers_of_the_labels_may_be_grades():
    assert ungraded(["recall@5", "ndcg@5"]) == (
        "ndcg@5 takes every label as grade 1, because the call names no column of grades. If 'grade' of the labels has grades, pass "
        "relevance='grade'"
    )
    several = ungraded(["dcg@5", "err"], ["stars", "day", "Rel"])
    assert several.startswith("dcg@5 and err take every label")
    assert several.endswith("If 'stars' or 'Rel' of the labels has grades, pass relevance=…")


@pytest.mark.parametrize(
    "call",
    [
        {"metric": "recall@5"},
        {"metric": "ndcg(gain='binary')@5"},
        {"metric": "ndcg@5", "numbers": []},
        {"metric": "ndcg@5", "numbers": ["day", "views", "timestamp"]},
        {"metric": "ndcg@5", "values": (ValueColumn("label", T.IntegerType()),)},
        {"metric": "ndcg@5", "values": (ValueColumn("grade", T.IntegerType(), extra="weight"),)},
        {"metric": "ndcg@5", "slices": ("grade",)},
        {"metric": "ndcg@5", "weight": "grade"},
    ],
)
def test_labels_without_numbers_that_could_be_grades_say_nothing(call):
    assert ungraded(**call) == ""
