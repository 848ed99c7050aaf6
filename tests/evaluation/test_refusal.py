"""What is warned of by counts alone."""

import warnings
from dataclasses import replace
from types import SimpleNamespace

import pytest
from pyspark.sql import types as T
from worlds.summary_rows import QUALITY, row

from spark_rankeval.errors import SparkRankEvalWarning
from spark_rankeval.evaluation.result import all_relevant_in_words, misread_in_words, warn_of_labels
from spark_rankeval.metrics.naming import parse_metrics
from spark_rankeval.records.quality import quality_notes
from spark_rankeval.spark.source_tables import SourceTable, ValueColumn
from spark_rankeval.spark.tables import Model, Sources

EXCLUDED, IRRELEVANT, NO_LABELS = {"n_excluded_labels": 910}, {"n_relevant": 0}, {"n_labels": 0, "n_relevant": 0}
NEED_LABELS, NEED_NONE = ("recall@10", "ndcg@10", ["novelty@10", "cg"]), ["novelty@10", "catalog_coverage@10"]


@pytest.mark.parametrize(
    ("counts", "metrics", "says"),
    [
        (EXCLUDED, "recall@10", "910 of 9,100 labels (10.0%) are of excluded items: "),
        ({"n_excluded_labels": 1}, "ndcg@10", "1 of 9,100 labels (0.0%) is of an excluded item"),
        ({}, "recall@10", None),
        *((IRRELEVANT, metrics, "none of the 9,100 labels is relevant; check that relevance_threshold= fits") for metrics in NEED_LABELS),
        *((NO_LABELS, metrics, "there are no labels, so metrics have no value") for metrics in NEED_LABELS),
        # Correlations need labels and no relevant one.
        (IRRELEVANT, ["spearman", "rbo"], None),
        (NO_LABELS, ["spearman", "rbo"], "there are no labels"),
        *((counts, NEED_NONE, None) for counts in (EXCLUDED, NO_LABELS)),
    ],
)  # fmt: skip
def test_labels_that_no_list_can_find_are_warned_of_once(counts, metrics, says):
    quality = QUALITY.with_counts(**counts)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        warn_of_labels({"a": quality, "b": quality}, parse_metrics(metrics).values())
    assert all(issubclass(warning.category, SparkRankEvalWarning) for warning in warned)
    assert len(warned) == (says is not None)
    assert all(str(warning.message).startswith(says) for warning in warned)


def test_labels_of_excluded_items_are_in_the_notes():
    assert "910 labels of excluded items" in quality_notes(QUALITY.with_counts(**EXCLUDED))[-1].text


ALONE = (
    "{} every label as relevant, with grade 1, because the call names no column of grades. If 'grade' of the labels has grades, "
    "pass relevance='grade'"
)
SEVERAL = ALONE.replace("'grade' of", "'stars' or 'Rel' of").replace("'grade'", "…")


@pytest.mark.parametrize(
    ("metrics", "numbers", "values", "others", "says"),
    [
        (["recall@5", "ndcg@5"], ["grade"], (), {}, ALONE.format("recall@5 and ndcg@5 take")),
        (["dcg@5", "err"], ["stars", "day", "Rel"], (), {}, SEVERAL.format("dcg@5 and err take")),
        ("recall@5", ["grade"], (), {}, ALONE.format("recall@5 takes")),
        ("ndcg(gain='binary')@5", ["grade"], (), {}, ALONE.format("ndcg(gain='binary')@5 takes")),
        ("recall(relevance_threshold=-inf)@5", ["grade"], (), {}, ""),
        (["novelty@5", "spearman"], ["grade"], (), {}, ""),
        ("ndcg@5", [], (), {}, ""),
        ("ndcg@5", ["day", "views", "timestamp"], (), {}, ""),
        ("ndcg@5", ["grade"], (ValueColumn("label", T.IntegerType()),), {}, ""),
        ("ndcg@5", ["grade"], (ValueColumn("grade", T.IntegerType(), extra="weight"),), {}, ""),
        ("ndcg@5", ["grade"], (), {"slices": ("grade",)}, ""),
        ("ndcg@5", ["grade"], (), {"weight": "grade"}, ""),
    ],
)
def test_metrics_of_relevance_say_that_numbers_of_the_labels_may_be_grades(metrics, numbers, values, others, says):
    columns = [T.StructField(name, T.IntegerType()) for name in ("user", *numbers)]
    schema = T.StructType([*columns, T.StructField("item", T.StringType())])
    frame = SimpleNamespace(schema=schema)
    labels = SourceTable("labels", frame, ("user",), "item", T.StringType(), value_columns=values)
    resolved = {name: each.resolve() for name, each in parse_metrics(metrics).items()}
    assert "".join(misread_in_words(Sources((), labels, **others), resolved)) == says


@pytest.mark.parametrize(("kind", "name", "warned"), [
    ("score", "distance", True), ("score", "valid_loss", True), ("score", "score", False), ("rank", "distance", False),
])  # fmt: skip
def test_a_score_that_is_called_like_a_distance_is_said_to_put_its_highest_values_first(kind, name, warned):
    labels = SourceTable("labels", SimpleNamespace(schema=T.StructType()), ("user",), "item", T.StringType())
    values = (ValueColumn(name, T.DoubleType()),)
    lists = replace(labels, role="predictions", value_kind=kind, value_columns=values)
    says = f"score={name!r} puts the highest values first; if the lowest are the best, pass a column of their negatives"
    assert misread_in_words(Sources((Model("a", lists), Model("b", lists)), labels), {}) == [says] * warned


@pytest.mark.parametrize(("grades", "n_relevant", "mean", "said"), [
    (("rating",), 9_100, 1.0, True), ((), 9_100, 1.0, False), (("rating",), 9_099, 1.0, False), (("rating",), 9_100, 0.99, False),
])  # fmt: skip
def test_a_metric_that_is_1_because_every_grade_is_relevant_says_nothing(grades, n_relevant, mean, said):
    values = tuple(ValueColumn(name, T.IntegerType()) for name in grades)
    labels = SourceTable("labels", SimpleNamespace(), ("user",), "item", T.StringType(), value_columns=values)
    rows = [row("precision@5", mean=mean, definition="precision@5"), row("ndcg@5", mean=1.0, definition="ndcg@5")]
    words = all_relevant_in_words(Sources((), labels), QUALITY.with_counts(n_relevant=n_relevant), rows)
    assert [each[:66] for each in words] == [
        "all 9,100 labels are relevant, and precision@5 can say nothing if l"[:66]
    ] * said
