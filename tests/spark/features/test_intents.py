"""Metrics of intents through the front door: subtopics of judgements, or categories of items."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from oracles import intents as intents_oracle
from oracles import rankings as oracle
from oracles.intents import random_judged
from pyspark.sql import functions as F
from worlds.variants import INTENTS, parameters_of

from spark_rankeval import Facts, Vectors, evaluate
from spark_rankeval.errors import DataError, InputError
from spark_rankeval.metrics import parse_metric

JUDGED = random_judged(np.random.default_rng(31), 60)
OF_INTENTS = [metric(k=k).resolve() for metric in INTENTS for k in (None, 3)]


@pytest.fixture(scope="module")
def judged(spark):
    """Predictions, and judgements with a row for each subtopic of an item. Everybody has a judgement, of an item of their own."""
    of_all = [(user, "extra", 1000 + user, 1.0) for user in range(0, len(JUDGED), 2)]
    triples = [(user, f"i{i}", item, grade) for user, (_, rows) in enumerate(JUDGED) for item, i, grade in rows]
    lists = [(user, *pair) for user, (pairs, _) in enumerate(JUDGED) for pair in pairs]
    return {
        "predictions": spark.createDataFrame(lists, "user long, item long, score double"),
        "labels": spark.createDataFrame(triples + of_all, "user long, subtopic string, item long, grade double"),
        "score": "score",
        "relevance": "grade",
        "facts": Facts(subtopic="subtopic"),
    }


def judged_by(user):
    """The list and the judgements of a user of these tables."""
    pairs, triples = JUDGED[user]
    ranked = [item for item, _ in oracle.rank(pairs, "item_asc")]
    judged = [(item, f"i{intent}", grade) for item, intent, grade in triples]
    return ranked, judged + ([] if user % 2 else [(1000 + user, "extra", 1.0)])


def check_intents(result, metrics=OF_INTENTS, rows=None):
    """Every user has the naive value of every metric."""
    table = (result.per_user if rows is None else rows).toPandas().set_index("user").reindex(range(60))
    for metric in metrics:
        expected = [intents_oracle.value(metric.name, *judged_by(user), **parameters_of(metric)) for user in range(60)]
        np.testing.assert_allclose(table[result.columns[str(metric)]], expected, 1e-12, 1e-15, err_msg=str(metric))


def test_judged_subtopics_give_every_user_the_naive_metrics(spark, judged):
    sides = [(user, "right" if user % 3 else "left") for user in range(60)]
    facts = replace(judged["facts"], attributes=spark.createDataFrame(sides, "user long, side string"))
    result = evaluate(metrics=[*OF_INTENTS, "ndcg@3"], by="side", **{**judged, "facts": facts})
    check_intents(result)
    # Other metrics see an item once, with its highest grade.
    merged = judged["labels"].groupBy("user", "item").agg(F.max("grade").alias("grade"))
    alone = evaluate(**{**judged, "labels": merged, "facts": Facts(), "metrics": "ndcg@3"})
    assert result["ndcg@3"] == alone["ndcg@3"]
    values = [intents_oracle.value("s_recall", *judged_by(user), k=3) for user in range(0, 60, 3)]
    of_side = result["s_recall(undefined='nan', relevance_threshold=None)@3", "side=left"]
    assert of_side == pytest.approx(np.nanmean(values))


def test_subtopics_and_lists_in_arrays_give_the_same(judged):
    metrics, of_rows = OF_INTENTS[::3], judged["labels"].where("grade = 1")
    # One grade an item, so that all its subtopics fit into one row.
    graded = of_rows.groupBy("user", "item", "grade").agg(F.collect_set("subtopic").alias("subtopic"))
    structs = graded.groupBy("user").agg(F.collect_list(F.struct("item", "grade", "subtopic")).alias("liked"))
    pairs = F.array_sort(F.collect_list(F.struct((-F.col("score")).alias("place"), "item")))
    lists = judged["predictions"].groupBy("user").agg(F.transform(pairs, lambda pair: pair["item"]).alias("listed"))
    results = [
        *(evaluate(**{**judged, "labels": labels, "metrics": metrics}) for labels in (of_rows, graded)),
        evaluate(lists, structs, metrics, item=("listed", "item"), relevance="grade", facts=judged["facts"]),
    ]
    expected, *others = [[(row.mean, row.n_users) for row in result.summary] for result in results]
    assert others == [expected, expected]


@pytest.fixture(scope="module")
def kinds(spark):
    """Categories of items in arrays, and in rows of their own."""
    of_items = {item: ["x"] * (item % 2) + ["y"] * (item % 3 == 0) + ["z"] * (item == 4) for item in range(10)}
    rows = [*of_items.items(), (4, ["x"])]
    return (
        spark.createDataFrame(rows, "item long, kinds array<string>"),
        spark.createDataFrame([(item, kind) for item, each in rows for kind in each], "item long, kinds string"),
    )


def test_categories_of_items_are_the_intents_of_their_labels(judged, kinds):
    labels = judged["labels"].groupBy("user", "item").agg(F.max("grade").alias("grade"))
    subtopics = labels.join(kinds[1].distinct(), "item").withColumnRenamed("kinds", "subtopic")
    metrics = OF_INTENTS[::3]
    expected = evaluate(**{**judged, "labels": subtopics, "metrics": metrics})
    for items in kinds:
        facts = Facts(items=items, category="kinds")
        found = evaluate(**{**judged, "labels": labels, "metrics": metrics, "facts": facts})
        assert [row.mean for row in found.summary] == [row.mean for row in expected.summary]
        assert found.data_quality.n_labels == labels.count()
    unknown = kinds[0].union(kinds[0].limit(1).withColumn("item", F.lit(None).cast("long")))
    facts = Facts(items=unknown, category="kinds")
    with pytest.raises(DataError, match="rows of items without an item: 1"):
        evaluate(**{**judged, "labels": labels, "metrics": "s_recall@3", "facts": facts})


def test_models_and_lists_from_vectors_have_intents(spark, judged):
    metrics = [parse_metric(name).resolve() for name in ("alpha_ndcg@3", "s_recall@3")]
    users = spark.createDataFrame([(user, [1.0]) for user in range(60)], "user long, vector array<double>")
    items = spark.createDataFrame([(item, [float(item % 5)]) for item in range(14)], "item long, vector array<double>")
    whole = users.select("user").crossJoin(items.select("item", F.col("vector")[0].alias("score")))
    both = evaluate(**{**judged, "predictions": {"one": judged["predictions"], "other": whole}, "metrics": metrics})
    check_intents(both, metrics=metrics, rows=both.per_user.where("model = 'one'"))
    vectors = evaluate(Vectors(users, items), judged["labels"], metrics, relevance="grade", facts=judged["facts"])
    assert [row.mean for row in vectors.summary] == [row.mean for row in both.summary if row.model == "other"]


REFUSED = {
    "neither subtopics nor items": (Facts(), "needs items; .* name it: Facts"),
    "no such column": (Facts(subtopic="topic"), "labels has no column 'topic'"),
    "a name that is none": (Facts(subtopic=3), "subtopic must be a column name"),
    "a column of structs": (Facts(subtopic="both"), "plain values or arrays of these"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_intents_that_cannot_be_found_are_named(judged, case):
    facts, words = REFUSED[case]
    labels = judged["labels"].withColumn("both", F.struct("item", "grade"))
    with pytest.raises(InputError, match=words):
        evaluate(metrics="alpha_ndcg@3", **{**judged, "labels": labels, "facts": facts})


def test_several_categories_of_an_item_are_refused_where_one_is_needed(judged, kinds):
    nested = kinds[0].withColumn("kinds", F.array("kinds"))
    for metric, items, words in (
        ("s_recall@3", kinds[0], "one value for each item"),
        ("diversity(by='categories')@3", nested, r"one value for each item\Z"),
    ):
        with pytest.raises(InputError, match=words):
            evaluate(metrics=["diversity@3", metric], **{**judged, "facts": Facts(items=items, category="kinds")})


def test_judgements_that_contradict_each_other_are_counted(judged):
    first = judged["labels"].where("grade = 1").orderBy("user", "item", "subtopic").limit(1)
    labels = judged["labels"].union(first.withColumn("grade", F.lit(0.0)))
    # Rows without a grade take no other judgement of the item with them.
    unusable = first.withColumn("grade", F.lit(None).cast("double"))
    bad = labels.union(unusable).union(unusable.withColumn("subtopic", F.lit("i8")))
    metrics = OF_INTENTS[:2]
    asked = {**judged, "labels": bad, "metrics": metrics, "on_invalid": "quarantine"}
    result = evaluate(**asked)
    check_intents(result, metrics=metrics)
    assert (result.data_quality.n_conflicting_labels, result.data_quality.n_invalid_labels) == (1, 2)
    (item,) = first.collect()
    found = Counter((row.user, row.item, row.grade, row.reason) for row in result.quarantine.collect())
    assert found == {
        (item.user, item.item, None, "null relevance"): 2,
        (item.user, item.item, 0.0, "repeats an item of the user with a lower grade"): 1,
    }
    # The labels are others if their subtopics are.
    other = evaluate(**{**asked, "labels": bad.withColumn("subtopic", F.regexp_replace("subtopic", "i1", "i9"))})
    assert [name for name, digits in result.fingerprints.items() if other.fingerprints[name] != digits] == ["labels"]


SUBTOPIC_ROWS = [
    # Another subtopic, with a lower grade: its row counts as one of another subtopic.
    ("a", "leaf", "tea", 2.0), ("a", "fruit", "tea", 1.0),
    # The same subtopic again, equal and not.
    ("a", "leaf", "jam", 1.0), ("a", "leaf", "jam", 1.0), ("a", "leaf", "jam", 0.0),
    # Without a subtopic there is nothing that could conflict.
    ("b", None, "rye", 1.0), ("b", None, "rye", 2.0), ("b", "leaf", "ham", 3.0),
    # Beside a higher grade, alone, and for the same subtopic as a higher grade.
    ("b", "fruit", "ham", -1.0), ("b", "leaf", "egg", -2.0), ("b", "root", "egg", -1.0), ("b", "leaf", "ham", -1.0),
    # If -1 is clipped, it equals this one.
    ("b", "root", "egg", 0.0),
    # Rows that cannot be used.
    ("b", "leaf", "ham", None), (None, "leaf", "tea", 1.0), ("b", "fruit", None, 1.0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("negative", "counts"),
    [
        ("drop", {"labels": 5, "subtopic_labels": 2, "duplicate_labels": 1, "conflicting_labels": 1, "invalid_labels": 7}),
        # Clipped grades are 0: for one subtopic of ham 3 and 0 conflict.
        ("clip", {"labels": 5, "subtopic_labels": 4, "duplicate_labels": 2, "conflicting_labels": 2, "invalid_labels": 3}),
    ],
)  # fmt: skip
def test_every_row_of_a_subtopic_is_used_or_counted(spark, negative, counts):
    labels = spark.createDataFrame(SUBTOPIC_ROWS, "user string, subtopic string, item string, grade double")
    lists = [("a", "tea", 1.0), ("b", "ham", 1.0)]
    predictions = spark.createDataFrame(lists, "user string, item string, score double")
    call = {"score": "score", "relevance": "grade", "facts": Facts(subtopic="subtopic")}
    kinds = {"negative_grades": negative, **dict.fromkeys(("conflicting_labels", "invalid_labels"), "drop")}
    for metrics in (["ndcg@1"], ["s_recall@1", "ndcg@1"]):
        result = evaluate(predictions, labels, metrics, **call, on_invalid=kinds)
        found = result.data_quality.to_dict()
        assert {name: found[f"n_{name}"] for name in counts} == counts
        assert sum(counts.values()) == len(SUBTOPIC_ROWS)
        assert found["n_negative_grades"] == 4
        assert f"{counts['subtopic_labels']} labels for other subtopics of their item" in str(result)
        assert result["ndcg@1"] == 1.0
        reasons = Counter(row.reason for row in result.quarantine.collect())
        assert sum(reasons.values()) == counts["invalid_labels"] + counts["conflicting_labels"]
    assert result["s_recall@1"] == 1.0
    with pytest.raises(DataError, match="negative relevance: 4, for example user='b', item=") as caught:
        evaluate(predictions, labels, "ndcg@1", **call)
    assert caught.value.counts == {"n_invalid_labels": 7, "n_conflicting_labels": 1}
    assert "item='jam', grade=0.0, best=[1.0]" in str(caught.value)


def test_a_subtopic_twice_in_an_array_is_one_judgement(spark):
    labels = spark.createDataFrame([("a", ["leaf", "leaf"], "tea")], "user string, subtopic array<string>, item string")
    predictions = spark.createDataFrame([("a", "tea", 1.0)], "user string, item string, score double")
    result = evaluate(predictions, labels, "s_recall@1", score="score", facts=Facts(subtopic="subtopic"))
    assert (result.data_quality.n_labels, result.data_quality.n_duplicate_labels) == (1, 0)
