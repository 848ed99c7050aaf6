"""Bounds of what is not judged, in every form of call."""

import numpy as np
import pytest

from spark_rankeval import Judged, compare, evaluate, merge, score_users, summarise
from spark_rankeval.errors import InputError, MetricError, OptionError
from spark_rankeval.evaluation.result import Result

METRICS = ["precision@3", "recall@2", "dcg@3", "ndcg(ideal='labels')@3", "judged@3"]
CALL = {"score": "score", "relevance": "grade", "by": "country", "bounds": "unjudged", "highest_grade": 3.0}
N = 40
PAIRS = [(user, item) for user in range(N) for item in range(6)]


@pytest.fixture(scope="module")
def tables(spark):
    draw = np.random.default_rng(3)
    schema = "user int, item int, {0} double"
    lists = {model: [(*pair, float(draw.random())) for pair in PAIRS] for model in "ab"}
    of_users = [(user, item) for user in range(N) for item in draw.choice(9, 4, replace=False).tolist()]
    labels = spark.createDataFrame([(*pair, float(draw.integers(0, 4))) for pair in of_users], schema.format("grade"))
    models = {model: spark.createDataFrame(rows, schema.format("score")) for model, rows in lists.items()}
    return models, labels.selectExpr("*", "IF(user % 2 = 1, 'de', 'at') AS country")


@pytest.fixture(scope="module")
def result(tables):
    return evaluate(*tables, METRICS, **CALL)


def test_bounds_are_the_values_of_the_worst_and_of_the_best_labels(spark, tables, result):
    models, labels = tables
    graded = labels.toPandas()
    known = set(zip(graded["user"], graded["item"], strict=True))
    added = spark.createDataFrame(
        [(*pair, 3.0) for pair in PAIRS if pair not in known], "user int, item int, grade double"
    )
    best = labels.select("user", "item", "grade").union(added)
    found = score_users(models, best, METRICS[:3], score="score", relevance="grade").toPandas()
    found = found[found["user"].isin(graded["user"][graded["grade"] > 0])]
    for model in "ab":
        rows = {row.metric: row for row in result.bounds.rows if (row.model, row.slice) == (model, "all")}
        values = found[found["model"] == model]
        for metric, column in (("precision@3", "precision_at_3"), ("dcg@3", "dcg_at_3")):
            # They grow with each label.
            assert rows[metric].highest == pytest.approx(values[column].mean(), rel=1e-12)
            assert rows[metric].lowest == rows[metric].mean
            assert rows[metric].reached
        for row in (rows["recall@2"], rows["ndcg(ideal='labels')@3"]):
            assert row.lowest < row.mean < row.highest < 1
        assert not row.reached
    assert "judged@3" in result.bounds.unbounded


def test_without_bounds_the_means_are_the_same_and_bounds_are_no_means_to_show_first(tables, result):
    plain = evaluate(*tables, METRICS, **CALL | {"bounds": None, "highest_grade": None})
    means = {(row.model, row.slice, row.key): row.mean for row in result.summary}
    assert all(means[row.model, row.slice, row.key] == row.mean for row in plain.summary)
    assert len(result.summary) == len(plain.summary) + 2 * 4 * 2 * 3
    text = str(result)
    # A row of means, and a row of bounds for each model.
    assert sum(line.startswith("precision@3 ") for line in text.split("\n")) == 1 + 2, text
    assert "unjudged" not in text
    assert set(result.table("metric", "model").to_pandas().index) == set(METRICS)
    assert result["a", "precision@3 lowest"] == result["a", "precision(unjudged='lowest')@3"]
    with pytest.raises(InputError, match="has bounds of means"):
        _ = plain.bounds


def test_bounds_stay_with_what_is_stored_merged_and_compared(result):
    days = [summarise(result.per_user.where(half), by="country") for half in ("user < 15", "user >= 15")]
    found = [
        each.bounds.to_pandas().drop(columns="metric").round(12)
        for each in (result, merge(days), Result.from_json(result.to_json()))
    ]
    assert found[0].equals(found[1])
    assert found[0].equals(found[2])
    assert {row.metric for row in compare(result, baseline="a").rows} == set(METRICS)


REFUSED = [
    ({"highest_grade": None}, InputError, "dcg@3, ndcg@3: bounds of graded labels need the highest grade"),
    ({"bounds": None}, OptionError, "highest_grade=3.0 is about bounds"),
    ({"highest_grade": 0}, OptionError, "highest_grade must be a number above 0"),
    ({"bounds": "all"}, OptionError, "bounds must be"),
    ({"ties": "average"}, MetricError, "cannot be bounded"),
    ({"metrics": ["bpref", "judged@2"]}, MetricError, "bpref, judged@2 cannot be bounded"),
    ({"metrics": ["err(max_grade=2)@2"]}, MetricError, "err@2 takes grades up to 2"),
    ({"weight": "item_weight", "metrics": "dcg@2"}, MetricError, "labels without a weight have no bounds"),
    ({"relevance": Judged(human="grade", judge="item_weight")}, OptionError, "bounds and Judged cannot be combined"),
    ({"dialect": "mllib", "metrics": "precision@2"}, OptionError, "each place is an item of its own"),
]


@pytest.mark.parametrize(("options", "error", "words"), REFUSED)
def test_wrong_calls_are_refused(tables, options, error, words):
    models, labels = tables
    with pytest.raises(error, match=words):
        evaluate(models["a"], labels.selectExpr("*", "2.0D AS item_weight"), **{"metrics": METRICS, **CALL, **options})
