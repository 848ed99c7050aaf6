"""Means under human grades that two judges estimate together, in every form of call."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import functions as F

from spark_rankeval import Judged, compare, evaluate, merge, score_users, summarise
from spark_rankeval.errors import DataError, InputError, MetricError, OptionError
from spark_rankeval.evaluation.result import Result
from spark_rankeval.metrics.naming import column_name
from spark_rankeval.statistics.judged_moments import JudgedMoments
from spark_rankeval.statistics.prediction_powered import judged_estimate

BOTH_COLUMNS = ("human", "llm")
METRICS = ["ndcg@5", "hit_rate@3", "rr"]
BOTH = Judged(human="human", judge="llm")
N, GRADED = 400, 60


def rows_of(query, generator, is_graded):
    """The labels of a query: the model's grades are those of people, with noise."""
    for item in range(8):
        grade = float(generator.integers(0, 4)) if generator.random() < 0.4 else 0.0
        noisy = min(max(grade + float(generator.integers(-1, 2)), 0.0), 3.0)
        yield query, f"i{item}", grade if is_graded else None, noisy, is_graded, "de" if query % 2 else "at"


@pytest.fixture(scope="module")
def tables(spark):
    generator = np.random.default_rng(5)
    labels = [row for query in range(N) for row in rows_of(query, generator, query % 7 == 0 and query < 7 * GRADED)]
    predictions = {
        model: [
            (query, f"i{item}", float(generator.random())) for query in range(N) for item in range(8) if (item + query) % 3 != model
        ]
        for model in (0, 1)
    }  # fmt: skip
    schema = "user long, item string, human double, llm double, is_graded boolean, country string"
    return {
        f"model {model}": spark.createDataFrame(rows, "user long, item string, score double")
        for model, rows in predictions.items()
    }, spark.createDataFrame(labels, schema)


@pytest.fixture(scope="module")
def result(tables):
    predictions, labels = tables
    return evaluate(predictions, labels, METRICS, score="score", relevance=BOTH, by="country", unit="query")


def by_definition(tables, metric, model, country=None):
    """The estimate from a table of values under each judge, made by two evaluations of their own."""
    predictions, labels = tables
    values = {}
    for judge in ("human", "llm"):
        graded = labels.where(F.col(judge).isNotNull())
        table = score_users(predictions[model], graded, metric, score="score", relevance=judge, by="country").toPandas()
        values[judge] = table.set_index("user")
    frame = pd.DataFrame({judge: table[column_name(metric)] for judge, table in values.items()})
    frame["graded"] = frame.index.isin(labels.where("is_graded").select("user").distinct().toPandas()["user"])
    frame["country"] = ["de" if query % 2 else "at" for query in frame.index]
    frame = frame if country is None else frame[frame["country"] == country]
    return judged_estimate(JudgedMoments.from_values(frame["human"], frame["llm"], frame["graded"]), bounds=(0, 1))


def test_estimates_are_those_of_the_definition(tables, result):
    for metric in METRICS:
        for slice_, country in (("all", None), ("country=at", "at")):
            expected = by_definition(tables, metric, "model 1", country)
            row = next(r for r in result.summary if (r.model, r.key, r.slice) == ("model 1", metric, slice_))
            ends = (row.mean, row.interval_low, row.interval_high, row.effective_n_users)
            assert ends == (expected.value, expected.interval.low, expected.interval.high, expected.effective_n)
    assert len({row.model for row in result.judged.rows}) == 2


def test_judges_stay_with_a_result_that_is_stored(result):
    again = Result.from_json(result.to_json())
    assert again.judged.to_pandas().equals(result.judged.to_pandas())
    assert (again.judged.human, again.judged.judge) == ("human", "llm")
    assert again["model 0", "ndcg@5"] == result["model 0", "ndcg@5"] != result["model 0", "ndcg@5 [human]"]
    with pytest.raises(InputError, match="relevance=Judged"):
        _ = replace(result, summary=tuple(row for row in result.summary if row.relevance)).judged


def test_days_merge_to_the_last_bit(tables, result):
    predictions, labels = tables
    days = [
        evaluate(
            {name: table.where(F.col("user") % 3 == day) for name, table in predictions.items()},
            labels.where(F.col("user") % 3 == day), METRICS, score="score", relevance=BOTH, by="country",
        )
        for day in range(3)
    ]  # fmt: skip
    assert merge(days).judged.to_pandas().equals(result.judged.to_pandas())


def test_people_alone_count_only_the_queries_that_they_graded(tables, result):
    predictions, labels = tables
    part = labels.withColumn("human", F.expr("CASE WHEN item = 'i0' AND user = 7 THEN NULL ELSE human END"))
    partly = evaluate(predictions["model 0"], part, "rr", score="score", relevance=BOTH)
    assert partly.judged.rows[0].estimate.n_graded == result.judged.rows[0].estimate.n_graded - 1
    assert partly.data_quality.n_partly_graded == result.qualities["model 0"].n_partly_graded + 1
    assert f"{partly.data_quality.n_partly_graded} graded by people in part, which count as not graded" in str(partly)
    declared = Judged(human="human", judge="llm", graded="is_graded")
    whole = evaluate(predictions["model 0"], part, "rr", score="score", relevance=declared)
    assert whole.judged.rows[0].estimate.n_graded == result.judged.rows[0].estimate.n_graded


def test_a_query_is_graded_if_any_of_its_rows_says_so_in_any_spelling(tables, result):
    predictions, labels = tables
    declared = Judged(human="HUMAN", judge="Llm", graded="is_graded")
    part = labels.withColumn("is_graded", F.expr("is_graded AND item = 'i3'"))
    by_row = evaluate(predictions, part, METRICS, score="score", relevance=declared, by="country")
    assert by_row.judged.to_pandas().equals(result.judged.to_pandas())
    assert (by_row.judged.human, by_row.judged.judge) == ("human", "llm")


def test_one_long_table_has_the_grades_of_both_judges(tables):
    predictions, labels = tables
    both = predictions["model 0"].join(labels, ["user", "item"]).drop("is_graded")
    long = evaluate(both, None, METRICS, score="score", relevance=BOTH)
    apart = evaluate(both.select("user", "item", "score"), both.drop("score"), METRICS, score="score", relevance=BOTH)
    assert long.judged.to_pandas().equals(apart.judged.to_pandas())
    assert long.to_trec().splitlines()[3:5] == [
        f"{name.ljust(22)}\tall\t{long[name]:.4f}" for name in ("ndcg@5", "hit_rate@3")
    ]


def test_a_grade_in_a_row_of_its_own_counts_for_its_item(tables, result):
    predictions, labels = tables
    none = F.lit(None).cast("double")
    apart = labels.where("human IS NOT NULL").withColumn("llm", none).unionByName(labels.withColumn("human", none))
    long = evaluate(predictions, apart, METRICS, score="score", relevance=BOTH, by="country", unit="query")
    assert long.judged.to_pandas().equals(result.judged.to_pandas())


def test_queries_that_the_model_did_not_grade_are_in_no_estimate(tables, result):
    predictions, labels = tables
    more = {
        name: table.unionByName(table.where("user < 150").withColumn("user", F.expr("user + 1000")))
        for name, table in predictions.items()
    }
    people_alone = labels.where("user = 7").selectExpr("user + 1000 AS user", "item", "human", "NULL AS llm", "country")
    wider = evaluate(
        more, labels.drop("is_graded").unionByName(people_alone), METRICS, score="score", relevance=BOTH, unit="query"
    )
    assert (wider.data_quality.n_only_people_graded, result.data_quality.n_only_people_graded) == (1, 0)
    assert "1 graded by people and not by the model, in no estimate" in str(wider)
    everyone = result.judged.to_pandas().query("slice == 'all'").reset_index(drop=True)
    assert wider.judged.to_pandas().equals(everyone)
    assert summarise(wider.per_user).judged.to_pandas().equals(everyone)
    wide, narrow = (
        compare(each, baseline="model 0", metrics="ndcg@5").judged.to_pandas().query("slice == 'all'")
        for each in (wider, result)
    )
    assert wide.equals(narrow)
    both = next(row for row in wider.summary if row.key == "ndcg@5" and row.model == "model 0")
    assert both.n_users + both.n_undefined == N


def test_an_unequal_draw_weighs_queries_by_their_probability(tables):
    predictions, labels = tables
    drawn = labels.withColumn("share", F.when(F.col("country") == "de", 0.25).otherwise(0.1))
    judged = Judged(human="human", judge="llm", probability="share")
    weighted = evaluate(predictions["model 1"], drawn, "ndcg@5", score="score", relevance=judged)
    table = score_users(predictions["model 1"], drawn, "ndcg@5", score="score", relevance=judged).toPandas()
    is_graded = table["grading_weight"] > 0
    assert sorted(table["grading_weight"].unique()) == [0.0, 4.0, 10.0]
    expected = judged_estimate(
        JudgedMoments.from_values(table["ndcg_at_5_human"], table["ndcg_at_5_llm"], is_graded, table["grading_weight"]),
        bounds=(0, 1),
    )
    assert weighted["ndcg@5"] == expected.value
    assert expected.value != judged_estimate(
        JudgedMoments.from_values(table["ndcg_at_5_human"], table["ndcg_at_5_llm"], is_graded), bounds=(0, 1)
    ).value  # fmt: skip


def test_each_stratum_counts_by_its_share_of_all_queries(tables):
    predictions, labels = tables
    drawn = labels.withColumn("part", F.expr("CASE WHEN user % 7 = 0 AND user < 210 THEN 'rare' ELSE 'common' END"))
    judged = Judged(human="human", judge="llm", stratum="part")
    in_strata = evaluate(predictions, drawn, "ndcg@5", score="score", relevance=judged, by="country")
    table = in_strata.per_user.where("model = 'model 1'").toPandas()
    moments = JudgedMoments.from_values(
        table["ndcg_at_5_human"], table["ndcg_at_5_llm"], table["grading_weight"] > 0, strata=table["part"]
    )
    expected = judged_estimate(moments, bounds=(0, 1))
    assert in_strata["model 1", "ndcg@5"] == expected.value
    whole = JudgedMoments.from_values(table["ndcg_at_5_human"], table["ndcg_at_5_llm"], table["grading_weight"] > 0)
    assert expected.value != judged_estimate(whole, bounds=(0, 1)).value
    assert summarise(in_strata.per_user, by="country").judged.to_pandas().equals(in_strata.judged.to_pandas())
    wide = in_strata.per_user.toPandas().pivot(index="user", columns="model")
    human, judge = (
        wide[f"ndcg_at_5_{each}", "model 1"] - wide[f"ndcg_at_5_{each}", "model 0"] for each in BOTH_COLUMNS
    )
    graded, strata = wide["grading_weight", "model 0"] > 0, wide["part", "model 0"]
    difference = judged_estimate(JudgedMoments.from_values(human, judge, graded, strata=strata), bounds=(-1, 1))
    assert compare(in_strata, "model 0")["ndcg@5"].difference == pytest.approx(difference.value, abs=1e-12)


def test_a_probability_that_is_none_is_an_error(tables):
    predictions, labels = tables
    judged = Judged(human="human", judge="llm", probability="share")
    wrong = labels.withColumn("share", F.when(F.col("user") == 7, 1.5).otherwise(0.5))
    with pytest.raises(DataError, match=r"probability 'share' of the draw is missing.*1 user"):
        evaluate(predictions["model 1"], wrong, "ndcg@5", score="score", relevance=judged)
    differing = labels.withColumn("share", F.expr("CASE WHEN user = 7 AND item = 'i0' THEN 0.25D ELSE 0.5D END"))
    with pytest.raises(DataError, match=r"differ between rows of the same user: 1 \(for example user=7 has share"):
        evaluate(predictions["model 1"], differing, "ndcg@5", score="score", relevance=judged)


@pytest.mark.parametrize(
    ("options", "metrics", "error", "words"),
    [
        ({"ci": "bca"}, "rr", OptionError, "t intervals"),
        ({"user_weight": "llm"}, "rr", OptionError, "user_weight and Judged"),
        ({}, "personalisation@5", MetricError, "which Judged needs"),
        ({"relevance": None, "on_missing": "unjudged"}, "rr", OptionError, "name their column with relevance="),
        ({"relevance": Judged(human="hand", judge="llm")}, "rr", InputError, "hand"),
        (
            {"relevance": Judged(human="human", judge="llm", graded="llm")},
            "rr",
            InputError,
            "graded='llm' must be a boolean",
        ),
    ],
)
def test_what_two_judges_do_not_go_with_is_refused(tables, options, metrics, error, words):
    predictions, labels = tables
    with pytest.raises(error, match=words):
        evaluate(predictions["model 0"], labels, metrics, **{"score": "score", "relevance": BOTH} | options)
    with pytest.raises(InputError, match="both are 'human'"):
        Judged(human="human", judge="human")


@pytest.fixture(scope="module")
def comparison(result):
    return compare(result, "model 0", metrics=["ndcg@5", "rr"], by="country")


def differences_by_definition(result, name, country=None):
    """The estimate of the difference of both models, and the mean of the baseline, from the table of their users."""
    wide = result.per_user.toPandas().pivot(index="user", columns="model")
    wide = wide if country is None else wide[wide["country", "model 0"] == country]
    human, judge = (wide[f"{name}_{each}", "model 1"] - wide[f"{name}_{each}", "model 0"] for each in ("human", "llm"))
    graded = wide["grading_weight", "model 0"] > 0
    baseline = (wide[f"{name}_{each}", "model 0"] for each in ("human", "llm"))
    return (
        judged_estimate(JudgedMoments.from_values(human, judge, graded), bounds=(-1, 1)),
        judged_estimate(JudgedMoments.from_values(*baseline, graded), bounds=(0, 1)).value,
    )


def test_differences_are_those_of_the_definition(result, comparison):
    for metric, name in (("ndcg@5", "ndcg_at_5"), ("rr", "rr")):
        for slice_, country in (("all", None), ("country=at", "at")):
            expected, baseline = differences_by_definition(result, name, country)
            rows = comparison.rows if country is None else comparison.sliced
            row = next(r for r in rows if (r.name, r.slice) == (metric, slice_))
            assert row.difference == pytest.approx(expected.value, abs=1e-12)
            assert (row.interval_low, row.interval_high) == pytest.approx(expected.interval[:2], abs=1e-12)
            assert row.baseline_mean == pytest.approx(baseline, abs=1e-12)
            assert row.mean == pytest.approx(baseline + expected.value, abs=1e-12)
            assert (row.p_t < 0.05) == (expected.interval.low > 0 or expected.interval.high < 0)
            assert row.interval_method == row.p_test == "prediction_powered"
            alone = next(r for r in comparison.judged.rows if (r.metric, r.slice) == (metric, slice_)).estimate
            assert alone.human.value == pytest.approx(expected.human.value, abs=1e-12)
            assert alone.judge.value == pytest.approx(expected.judge.value, abs=1e-12)


def test_wins_are_those_of_users_whom_people_graded(result, comparison):
    by_people = compare(result, "model 0", metrics=["ndcg@5 [human]"], replicates=99)["ndcg@5 [human]"]
    row = comparison["ndcg@5"]
    assert (row.wins, row.ties, row.losses) == (by_people.wins, by_people.ties, by_people.losses)
    assert by_people.n_users < row.n_users
    with pytest.raises(InputError, match="relevance=Judged"):
        _ = compare(result, "model 0", metrics="rr [llm]", replicates=99).judged
    assert "estimated from both judges" in str(comparison)
    first = comparison.to_dict()["judged"][0]
    assert first["human"] == comparison.judged.rows[0].estimate.human.value


def test_a_stored_table_of_users_gives_the_same_estimates(result):
    again = summarise(result.per_user, by="country")
    assert again.judged.to_pandas().equals(result.judged.to_pandas())
    assert again.to_pandas().equals(result.to_pandas())
    with pytest.raises(OptionError, match="t intervals"):
        summarise(result.per_user, ci="bca")


def test_models_that_the_judge_orders_in_the_wrong_way_are_a_warning(spark):
    rows = [
        (query, item, human if query % 4 == 0 else None, 1.0 - human)
        for query in range(400)
        for item, human in (("a", float(query % 40 > 0)), ("b", float(query % 40 == 0)))
    ]
    labels = spark.createDataFrame(rows, "user long, item string, human double, llm double")
    models = {
        name: labels.where(f"item = '{first}'").selectExpr("user", "item", "1.0 AS score")
        for name, first in (("old", "b"), ("new", "a"))
    }
    reversed_ = evaluate(models, labels, "hit_rate@1", score="score", relevance=BOTH)
    with pytest.warns(UserWarning, match=r"'llm' alone mislead on hit_rate@1 of new"):
        misled = compare(reversed_, "old")
    assert misled["hit_rate@1"].verdict == "better"
    assert misled.judged.contradictions
