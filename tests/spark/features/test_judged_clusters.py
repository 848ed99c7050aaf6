"""Means under human grades that two judges estimate, of users who come in clusters, in every form of call."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import functions as F

from spark_rankeval import Judged, compare, evaluate, merge, summarise
from spark_rankeval.spark.ids import hash_in
from spark_rankeval.statistics.drawn_clusters import drawn_clusters_of_values
from spark_rankeval.statistics.judged_clusters import JudgedClusters
from spark_rankeval.statistics.judged_moments import JudgedMoments
from spark_rankeval.statistics.prediction_powered import judged_estimate

BOTH = Judged(human="human", judge="llm")
CALL = {
    "metrics": ["ndcg@5", "rr"],
    "score": "score",
    "relevance": BOTH,
    "by": "country",
    "cluster": "person",
    "unit": "session",
}
N_PERSONS, SESSIONS = 90, 6


@pytest.fixture(scope="module")
def tables(spark):
    """Sessions of persons, whose lists are good or bad together; a few have no relevant item."""
    generator = np.random.default_rng(11)
    labels, predictions = [], {0: [], 1: []}
    session = 0
    for person in range(N_PERSONS):
        skill, wishes = generator.random(2), generator.integers(0, 4, 6)
        for _ in range(generator.integers(1, SESSIONS + 1)):
            is_graded = generator.random() < 0.4
            for item in range(6):
                grade = float(wishes[item]) if generator.random() < 0.8 else 0.0
                noisy = min(max(grade + float(generator.integers(-1, 2)), 0.0), 3.0)
                country = "de" if session % 2 else "at"
                labels.append((session, f"i{item}", grade if is_graded else None, noisy, f"p{person}", country))
                for model, rows in predictions.items():
                    rows.append((session, f"i{item}", float(skill[model] * grade + generator.random())))
            session += 1
    schema = "user long, item string, human double, llm double, person string, country string"
    frames = {
        f"model {model}": spark.createDataFrame(rows, "user long, item string, score double")
        for model, rows in predictions.items()
    }
    return frames, spark.createDataFrame(labels, schema)


@pytest.fixture(scope="module")
def result(tables):
    return evaluate(*tables, **CALL)


@pytest.fixture(scope="module")
def users(result):
    """The values of all users by model."""
    table = result.per_user.toPandas().pivot(index="user", columns="model")
    return {model: table.xs(model, axis=1, level=1) for model in ("model 0", "model 1")}


def estimate_of(human, judge, about, bounds, chosen):
    human, judge, about = human[chosen], judge[chosen], about[chosen]
    graded = about["grading_weight"] > 0
    moments = JudgedMoments.from_values(human, judge, graded)
    numbers = pd.factorize(about["person"])[0]
    clusters = JudgedClusters.from_values(human, judge, graded, numbers)
    return judged_estimate(replace(moments, clusters=clusters), bounds=bounds)


def slices_of(about):
    return {
        "all": about["country"].notna(),
        "country=at": about["country"] == "at",
        "country=de": about["country"] == "de",
    }


def test_estimates_are_those_of_the_clusters_of_a_table_of_users(result, users):
    frame = users["model 1"]
    for name, chosen in slices_of(frame).items():
        expected = estimate_of(frame["ndcg_at_5_human"], frame["ndcg_at_5_llm"], frame, (0, 1), chosen)
        row = next(r for r in result.summary if (r.model, r.key, r.slice) == ("model 1", "ndcg@5", name))
        ends = (row.mean, row.standard_error, row.interval_low, row.interval_high)
        assert ends == pytest.approx((expected.value, expected.standard_error, *expected.interval[:2]), rel=1e-9)
        people = next(r for r in result.summary if (r.model, r.key, r.slice) == ("model 1", "ndcg@5 [human]", name))
        assert expected.human.standard_error == pytest.approx(people.standard_error, rel=1e-9)
        assert (row.cluster, row.n_clusters, row.effective_n_clusters) == (
            "person", people.n_clusters, pytest.approx(people.effective_n_clusters),
        )  # fmt: skip
    judged = next(
        row for row in result.judged.rows if (row.model, row.metric, row.slice) == ("model 1", "ndcg@5", "all")
    )
    assert 0 < judged.estimate.lambda_ < 1
    independent = judged_estimate(judged.moments.independent, bounds=(0, 1))
    assert judged.estimate.standard_error > 1.1 * independent.standard_error
    row = next(r for r in result.summary if (r.model, r.key, r.slice) == ("model 1", "ndcg@5", "all"))
    assert row.design_effect == pytest.approx((row.standard_error / independent.standard_error) ** 2)


def test_notes_on_judges_speak_of_what_lists_are_for(result):
    assert "too few graded sessions differ in their human values, so people alone count" in str(result)


def test_a_stored_table_of_users_gives_the_same_estimates(result):
    again = summarise(result.per_user, by="country")
    assert again.judged.to_pandas().equals(result.judged.to_pandas())
    assert again.to_pandas().equals(result.to_pandas())


def test_differences_are_those_of_the_clusters_of_users(result, users):
    comparison = compare(result, "model 0", metrics="ndcg@5", by="country")
    first, second = users["model 0"], users["model 1"]
    human, judge = (second[name] - first[name] for name in ("ndcg_at_5_human", "ndcg_at_5_llm"))
    for row in (*comparison.rows, *comparison.sliced):
        chosen = slices_of(first)[row.slice]
        expected = estimate_of(human, judge, first, (-1, 1), chosen)
        ends = (row.difference, row.interval_low, row.interval_high)
        assert ends == pytest.approx((expected.value, *expected.interval[:2]), abs=1e-9)
        baseline = estimate_of(first["ndcg_at_5_human"], first["ndcg_at_5_llm"], first, (0, 1), chosen)
        assert row.baseline_mean == pytest.approx(baseline.value, abs=1e-9)
        assert (row.cluster, row.n_clusters > 30) == ("person", True)
        assert row.design_effect > 0
    independent = compare(result, "model 0", metrics="ndcg@5", cluster=())["ndcg@5"]
    assert independent.standard_error != comparison["ndcg@5"].standard_error
    assert not independent.cluster


def test_days_merge_by_groups_of_clusters(tables, result):
    predictions, labels = tables
    days = [
        evaluate(
            {name: table.where(F.col("user") % 2 == day) for name, table in predictions.items()},
            labels.where(F.col("user") % 2 == day), **CALL,
        )
        for day in range(2)
    ]  # fmt: skip
    merged = merge(days)
    for row, whole in zip(merged.judged.rows, result.judged.rows, strict=True):
        assert row.estimate.standard_error == pytest.approx(whole.estimate.standard_error, rel=0.15)
        assert row.estimate.human.value == whole.estimate.human.value
    again = merge([merged.to_json()])
    assert again.judged.to_pandas().equals(merged.judged.to_pandas())
    lacking = [replace(day, summary=tuple(replace(row, cluster_sums="") for row in day.summary)) for day in days]
    assert "nobody knows who is in several" in merge(lacking).summary[0].no_interval


def test_clusters_of_an_unequal_draw_have_the_sums_of_groups_by_stratum(tables):
    predictions, labels = tables
    chance = F.when(F.col("user") % 3 == 0, 0.8).otherwise(0.4)
    drawn = labels.withColumn("chance", chance).withColumn(
        "kind", F.when(F.col("user") % 5 > 1, "odd").otherwise("even")
    )
    judged = Judged(human="human", judge="llm", probability="chance", stratum="kind")
    result = evaluate(predictions, drawn, **CALL | {"relevance": judged, "metrics": "ndcg@5"})
    table = result.per_user.select("*", hash_in(result.per_user, ["person"]).column.alias("hash")).toPandas()
    first, second = (table[table["model"] == f"model {number}"].set_index("user").sort_index() for number in range(2))

    def estimate_on(users, human, judge, bounds):
        human, judge, about = human[users], judge[users], first[users]
        columns = human, judge, about["grading_weight"], about["hash"], about["kind"]
        moments = JudgedMoments.from_values(human, judge, columns[2] > 0, columns[2], columns[4].astype(str))
        return judged_estimate(replace(moments, clusters=drawn_clusters_of_values(*columns)), bounds=bounds)

    human, judge = (name.format(5) for name in ("ndcg_at_{}_human", "ndcg_at_{}_llm"))
    for name, users in slices_of(first).items():
        expected = estimate_on(users, first[human], first[judge], (0, 1))
        row = next(r for r in result.summary if (r.model, r.key, r.slice) == ("model 0", "ndcg@5", name))
        assert (row.mean, row.standard_error, row.interval_low, row.df) == pytest.approx(
            (expected.value, expected.standard_error, expected.interval.low, expected.df), rel=1e-7
        )
        assert row.n_clusters == first[users & (first["grading_weight"] > 0) & first[human].notna()]["person"].nunique()
    again = summarise(result.per_user, by="country")
    assert again.to_pandas().equals(result.to_pandas())
    row = compare(result, "model 0")["ndcg@5"]
    expected = estimate_on(
        first[human].notna() | True, second[human] - first[human], second[judge] - first[judge], (-1, 1)
    )
    assert (row.difference, row.interval_low, row.interval_high) == pytest.approx(
        (expected.value, *expected.interval[:2]), rel=1e-7
    )
    parts = [summarise(result.per_user.where(F.col("user") % 2 == day), by="country") for day in range(2)]
    for merged_row, whole in zip(merge(parts).judged.rows, result.judged.rows, strict=True):
        assert merged_row.estimate.standard_error == pytest.approx(whole.estimate.standard_error, rel=1e-7)
        assert merged_row.draw == whole.draw or merged_row.draw.p == pytest.approx(whole.draw.p, rel=1e-6)
