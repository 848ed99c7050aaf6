"""Bounds of what is not judged, in every form of call."""

import numpy as np
import pytest

from spark_rankeval import Judged, compare, evaluate, merge, score_users, summarise
from spark_rankeval.errors import InputError, MetricError, OptionError
from spark_rankeval.evaluation.result import Result

METRICS = ["precision@3", "recall@2", "dcg@3", "ndcg(ideal='labels')@3", "judged@3"]
CALL = {"score": "score", "relevance": "grade", "by": "country", "bounds": "unjudged", "highest_grade": 3.0}
N = 40


@pytest.fixture(scope="module")
def tables(spark):
    generator = np.random.default_rng(3)
    scores = {
        model: [(user, item, float(generator.random())) for user in range(N) for item in range(6)] for model in "ab"
    }
    labels = [
        (user, int(item), float(generator.integers(0, 4)), "de" if user % 2 else "at")
        for user in range(N)
        for item in generator.choice(9, 4, replace=False)
    ]
    models = {model: spark.createDataFrame(rows, "user int, item int, score double") for model, rows in scores.items()}
    return models, spark.createDataFrame(labels, "user int, item int, grade double, country string")


@pytest.fixture(scope="module")
def result(tables):
    return evaluate(*tables, METRICS, **CALL)


def test_bounds_are_the_values_of_the_worst_and_of_the_best_labels(spark, tables, result):
    models, labels = tables
    graded = labels.toPandas()
    is_evaluated = graded.groupby("user")["grade"].max() > 0
    known = set(zip(graded["user"], graded["item"], strict=True))
    added = [(user, item, 3.0) for user in range(N) for item in range(6) if (user, item) not in known]
    best = labels.select("user", "item", "grade").union(
        spark.createDataFrame(added, "user int, item int, grade double")
    )
    found = score_users(models, best, METRICS[:3], score="score", relevance="grade").toPandas()
    found = found[found["user"].map(is_evaluated).fillna(value=False)]
    for model in "ab":
        rows = {row.metric: row for row in result.bounds.rows if (row.model, row.slice) == (model, "all")}
        values = found[found["model"] == model]
        for metric, column in (("precision@3", "precision_at_3"), ("dcg@3", "dcg_at_3")):
            # They grow with each label.
            assert rows[metric].highest == pytest.approx(values[column].mean(), rel=1e-12)
            assert rows[metric].lowest == rows[metric].mean
            assert rows[metric].reached
        recall, ndcg = rows["recall@2"], rows["ndcg(ideal='labels')@3"]
        assert recall.lowest < recall.mean < recall.highest
        assert ndcg.lowest < ndcg.mean < ndcg.highest < 1
        assert not ndcg.reached
    assert "judged@3" in result.bounds.unbounded


def test_without_bounds_the_means_are_the_same_and_bounds_are_no_means_to_show_first(tables, result):
    plain = evaluate(*tables, METRICS, **CALL | {"bounds": None, "highest_grade": None})
    means = {(row.model, row.slice, row.key): row.mean for row in result.summary}
    assert all(means[row.model, row.slice, row.key] == row.mean for row in plain.summary)
    assert len(result.summary) == len(plain.summary) + 2 * 4 * 2 * 3
    text = str(result)
    assert text.count("precision@3 ") == 1 + 2
    assert "unjudged" not in text
    assert set(result.table("metric", "model").to_pandas().index) == set(METRICS)
    assert result["a", "precision@3 lowest"] == result["a", "precision(unjudged='lowest')@3"]
    with pytest.raises(InputError, match="has bounds of means"):
        _ = plain.bounds


def test_bounds_stay_with_what_is_stored_merged_and_summarised(result):
    expected = result.bounds.to_pandas()

    def check(again):
        columns = expected.columns.drop(["metric"])
        figures = again.bounds.to_pandas()[columns].round(12)
        assert figures.equals(expected[columns].round(12))

    check(Result.from_json(result.to_json()))
    check(merge([summarise(result.per_user.where(half), by="country") for half in ("user < 15", "user >= 15")]))
    comparison = compare(result, baseline="a")
    assert {row.metric for row in comparison.rows} == set(METRICS)


def test_wrong_calls_are_refused(tables):
    models, labels = tables
    predictions = models["a"]
    wrong = [
        ({"highest_grade": None}, InputError, "dcg@3, ndcg@3: bounds of graded labels need the highest grade"),
        ({"bounds": None}, OptionError, "highest_grade=3.0 is about bounds"),
        ({"highest_grade": 0}, OptionError, "highest_grade must be a number above 0"),
        ({"bounds": "all"}, OptionError, "bounds must be"),
        ({"ties": "average"}, MetricError, "cannot be bounded"),
        ({"metrics": ["bpref", "judged@2"]}, MetricError, "bpref, judged@2 cannot be bounded"),
        ({"metrics": ["err(max_grade=2)@2"]}, MetricError, "err@2 takes grades up to 2"),
        ({"weight": "item_weight", "metrics": "dcg@2"}, MetricError, "labels without a weight have no bounds"),
        (
            {"relevance": Judged(human="grade", judge="item_weight")},
            OptionError,
            "bounds and Judged cannot be combined",
        ),
        ({"dialect": "mllib", "metrics": "precision@2"}, OptionError, "each place is an item of its own"),
    ]
    for options, error, words in wrong:
        call = {"metrics": METRICS, **CALL, **options}
        with pytest.raises(error, match=words):
            evaluate(predictions, labels.selectExpr("*", "2.0D AS item_weight"), call.pop("metrics"), **call)
