"""Means under human grades that two judges estimate together, however people's queries were drawn; and grades that are missing."""

import math
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import functions as F

from spark_rankeval import (
    Judged,
    all_pairs,
    compare,
    evaluate,
    labels_needed,
    merge,
    quarantine,
    score_users,
    summarise,
)
from spark_rankeval.errors import DataError, InputError, MetricError, OptionError
from spark_rankeval.spark.sql import hash_in
from spark_rankeval.statistics.judged_queries import JudgedQueries
from spark_rankeval.statistics.judges import judged_estimate

METRICS = ["ndcg@5", "rr"]
GRADES = ["human", "llm"]
# A missing grade is a label that its judge did not give.
UNJUDGED = {"missing_grades": "unjudged"}
# How sessions were drawn for people, and what they come in.
DESIGNS = {
    "alike": {},
    "with a probability": {"probability": "chance"},
    "in strata": {"stratum": "kind"},
    "in clusters": {"cluster": "person"},
    "with a probability in strata and clusters": {"probability": "chance", "stratum": "kind", "cluster": "person"},
}


@pytest.fixture(scope="module")
def tables(spark):
    """Sessions of persons, whose lists are good or bad together; a few have no relevant item."""
    generator = np.random.default_rng(11)
    labels, lists, session = [], {"model 0": [], "model 1": []}, 0
    for person in range(90):
        skill, wishes = generator.random(2), generator.integers(0, 4, 6)
        for _ in range(generator.integers(1, 7)):
            is_graded = generator.random() < 0.4
            for item in range(6):
                grade = float(wishes[item]) if generator.random() < 0.8 else 0.0
                noisy = min(max(grade + float(generator.integers(-1, 2)), 0.0), 3.0)
                labels.append((session, f"i{item}", grade if is_graded else None, noisy, f"p{person}", is_graded))
                for model, rows in enumerate(lists.values()):
                    rows.append((session, f"i{item}", float(skill[model] * grade + generator.random())))
            session += 1
    frame = spark.createDataFrame(
        labels, "user long, item string, human double, llm double, person string, is_graded boolean"
    ).withColumns(
        {
            "country": F.expr("IF(user % 2 = 1, 'de', 'at')"),
            "chance": F.expr("IF(user % 3 = 0, 0.8D, 0.4D)"),
            "kind": F.expr("IF(user % 5 > 1, 'odd', 'even')"),
        }
    )
    schema = "user long, item string, score double"
    return {model: spark.createDataFrame(rows, schema) for model, rows in lists.items()}, frame.cache()


def evaluated(predictions, labels, metrics=METRICS, **options):
    """Means of sessions; options of both judges are among the others."""
    of_judges = {name: options.pop(name) for name in ("probability", "stratum", "graded") if name in options}
    judged = Judged(**{"human": "human", "judge": "llm", **of_judges})
    call = {"score": "score", "relevance": judged, "by": "country"}
    return evaluate(predictions, labels, metrics, **call | options)


@pytest.fixture(scope="module")
def results(tables):
    return {name: evaluated(*tables, **design) for name, design in DESIGNS.items()}


@pytest.fixture(scope="module")
def result(results):
    return results["alike"]


def row_of(rows, **wanted):
    (row,) = (row for row in rows if all(getattr(row, name) == value for name, value in wanted.items()))
    return row


def estimate_of(design, users, human, judge, bounds):
    """What the statistics say of the values of users under each judge."""
    weights = users["grading_weight"]
    strata = users["kind"].astype(str) if "stratum" in design else None
    clusters = users["hash"] if "cluster" in design else None
    drawn = weights if "probability" in design else None
    return judged_estimate(JudgedQueries.from_values(human, judge, weights > 0, drawn, strata, clusters), bounds=bounds)


@pytest.mark.parametrize("name", DESIGNS)
def test_estimates_and_differences_are_those_of_the_values_of_users(results, name):
    design, found = DESIGNS[name], results[name]
    frame, compared = found.per_user, compare(found, "model 0", metrics="ndcg@5", by="country")
    if "cluster" in design:
        frame = frame.withColumn("hash", hash_in(frame, ["person"]).column)
    frame = frame.toPandas()
    models = {model: frame[frame["model"] == model].set_index("user").sort_index() for model in ("model 0", "model 1")}
    for slice_ in ("all", "country=at", "country=de"):
        old, new = (users[(slice_ == "all") | (users["country"] == slice_[-2:])] for users in models.values())
        values = [(users["ndcg_at_5_human"], users["ndcg_at_5_llm"]) for users in (old, new)]
        of_new, of_old = estimate_of(design, new, *values[1], (0, 1)), estimate_of(design, old, *values[0], (0, 1))
        row = row_of(found.summary, model="model 1", key="ndcg@5", slice=slice_)
        figures = row.mean, row.standard_error, row.interval_low, row.interval_high
        of_statistics = of_new.value, of_new.standard_error, *of_new.interval[:2]
        assert figures == pytest.approx(of_statistics, rel=1e-7)
        differences = (values[1][judge] - values[0][judge] for judge in (0, 1))
        expected = estimate_of(design, old, *differences, (-1, 1))
        row = row_of([*compared.rows, *compared.sliced], slice=slice_)
        figures = row.difference, row.interval_low, row.interval_high, row.baseline_mean, row.mean
        of_statistics = expected.value, *expected.interval[:2], of_old.value, of_new.value
        assert figures == pytest.approx(of_statistics, abs=1e-9)
        assert (row.p_t < 0.05) == (expected.interval.low > 0 or expected.interval.high < 0)
        assert row.interval_method == row.p_test == "prediction_powered"
        assert row.cluster == design.get("cluster", "")
        alone, bias = (getattr(row_of(compared.judged.rows, slice=slice_), name) for name in ("estimate", "bias"))
        of_both = values[1][1] - values[0][1] - values[1][0] + values[0][0]
        of_bias = estimate_of(design, old, of_both, of_both, (-2, 2)).human
        assert (bias.value, bias.standard_error) == pytest.approx((of_bias.value, of_bias.standard_error), abs=1e-9)
        judges = expected.human.value, expected.judge.value
        assert (alone.human.value, alone.judge.value) == pytest.approx(judges, abs=1e-9)
    weights = {1.0} if "probability" not in design else {1 / 0.8, 1 / 0.4}
    assert {*frame["grading_weight"]} == {0.0, *weights}


@pytest.mark.parametrize("name", DESIGNS)
def test_a_name_has_one_figure_in_all_tables(results, name):
    found = results[name]
    for each in (found, merge({"one day": found, "the next": found})):
        rows = {(row.model, row.slice, row.key): row for row in each.summary}
        for judged in each.judged.rows:
            for judge, mean in (("human", judged.estimate.human), ("llm", judged.estimate.judge)):
                row = rows[judged.model, judged.slice, f"{judged.metric} [{judge}]"]
                assert (row.mean, row.standard_error, row.interval_low, row.interval_high, row.n_users) == (
                    mean.value, mean.standard_error, *mean.interval[:2], mean.n
                )  # fmt: skip
    compared = compare(found, "model 0", by="country")
    for row in (*compared.rows, *compared.sliced):
        means = (found[model, row.metric, row.slice] for model in ("model 1", "model 0"))
        assert (row.mean, row.baseline_mean) == tuple(means)


def test_what_counts_users_alike_says_so_if_people_graded_others_more_often(results):
    drawn, by_people = results["with a probability"], "ndcg@5 [human]"
    for call in (all_pairs, partial(compare, baseline="model 0")):
        with pytest.warns(UserWarning, match=r"ndcg@5 \[human\]: people graded users who were not drawn alike"):
            call(drawn, metrics=by_people)
    gaps = drawn.gaps("country", metrics=[by_people, "ndcg@5 [llm]"])
    assert all(
        ("not drawn alike" in row.no_interval) == (row.metric == by_people) for row in gaps if row not in gaps.largest
    )
    assert {row.metric for row in gaps.largest if math.isnan(row.mean)} == {by_people}


def test_designs_that_differ_have_other_figures(results):
    rows = [row_of(found.summary, model="model 1", key="ndcg@5", slice="all") for found in results.values()]
    alike, probable, in_strata, in_clusters, _ = rows
    assert len({alike.mean, probable.mean, in_strata.mean}) == 3
    assert in_clusters.standard_error > 1.1 * alike.standard_error
    people = row_of(results["in clusters"].summary, model="model 1", key="ndcg@5 [human]", slice="all")
    assert (in_clusters.cluster, in_clusters.n_clusters) == ("person", people.n_clusters)
    assert in_clusters.effective_n_clusters == pytest.approx(people.effective_n_clusters)
    judged = row_of(results["in clusters"].judged.rows, model="model 1", metric="ndcg@5", slice="all")
    # A model that is wrong on persons whom people did not grade would show in so few persons by chance alone.
    assert judged.estimate.note == "the model's grades would make the interval longer"
    independent = judged_estimate(judged.queries.independent, bounds=(0, 1))
    ratio = in_clusters.standard_error / independent.standard_error
    assert in_clusters.design_effect == pytest.approx(ratio**2)
    by_session = compare(results["in clusters"], "model 0", metrics="ndcg@5", cluster=())["ndcg@5"]
    assert (by_session.cluster, by_session.n_clusters) == ("", 0)


def test_values_of_users_are_those_under_each_judge_alone(tables, result):
    predictions, labels = tables
    frame = result.per_user.where("model = 'model 1'").toPandas().set_index("user").sort_index()
    for judge in GRADES:
        graded = labels.where(F.col(judge).isNotNull())
        alone = score_users(predictions["model 1"], graded, METRICS, score="score", relevance=judge).toPandas()
        alone = alone.set_index("user").sort_index()
        for name in ("ndcg_at_5", "rr"):
            pd.testing.assert_series_equal(frame.loc[alone.index, f"{name}_{judge}"], alone[name], check_names=False)
    assert set(frame.index[frame["grading_weight"] > 0]) == set(labels.where("is_graded").toPandas()["user"])


def test_the_first_figure_is_that_of_both_judges(result):
    assert (result.judged.human, result.judged.judge) == ("human", "llm")
    assert result["model 0", "ndcg@5"] != result["model 0", "ndcg@5 [human]"]
    with pytest.raises(InputError, match="relevance=Judged"):
        _ = replace(result, summary=tuple(row for row in result.summary if row.relevance)).judged


def test_people_alone_count_only_the_queries_that_they_graded(tables, result):
    predictions, labels = tables
    (first,) = labels.where("is_graded").selectExpr("min(user) AS user").collect()
    part = labels.withColumn("human", F.expr(f"IF(item = 'i0' AND user = {first.user}, NULL, human)"))
    partly, whole = (evaluated(predictions["model 0"], part, "rr", **more) for more in ({}, {"graded": "is_graded"}))
    n_graded = row_of(result.judged.rows, model="model 0", metric="rr", slice="all").estimate.n_graded
    assert [found.judged.rows[0].estimate.n_graded for found in (partly, whole)] == [n_graded - 1, n_graded]
    assert (partly.data_quality.n_partly_graded, result.data_quality.n_partly_graded) == (1, 0)
    assert "1 graded by people in part, which count as not graded" in str(partly)


def test_a_grade_or_a_word_of_who_is_graded_may_stand_in_any_row_and_names_in_any_spelling(tables, result):
    predictions, labels = tables
    none = F.lit(None).cast("double")
    of_people = labels.where("human IS NOT NULL").withColumn("llm", none)
    in_one_row = labels.withColumn("is_graded", F.expr("is_graded AND item = 'i3'"))
    spelled = {"relevance": Judged(human="HUMAN", judge="Llm", graded="is_graded")}
    for given, options in ((of_people.unionByName(labels.withColumn("human", none)), {}), (in_one_row, spelled)):
        found = evaluated(predictions, given, **options)
        assert found.judged.to_pandas().equals(result.judged.to_pandas())
        assert (found.judged.human, found.judged.judge) == ("human", "llm")


def test_one_long_table_has_the_grades_of_both_judges(tables, result):
    predictions, labels = tables
    both = predictions["model 0"].join(labels.drop("is_graded"), ["user", "item"])
    long = evaluated(both, None)
    rows = [row for row in result.judged.rows if row.model == "model 0"]
    assert [row.estimate for row in long.judged.rows] == [row.estimate for row in rows]
    trec = [f"{name.ljust(22)}\tall\t{long[name]:.4f}" for name in METRICS]
    assert long.to_trec().splitlines()[3:5] == trec


def test_queries_that_the_model_did_not_grade_are_in_no_estimate(tables, result):
    predictions, labels = tables
    stranger = F.expr("user + 1000")
    more = {
        name: table.unionByName(table.where("user < 150").withColumn("user", stranger))
        for name, table in predictions.items()
    }
    (first,) = labels.where("is_graded").selectExpr("min(user) AS user").collect()
    of_people = labels.where(F.col("user") == first.user).withColumns({"user": stranger, "llm": F.lit(None)})
    wider = evaluated(more, labels.unionByName(of_people).drop("is_graded"))
    assert (wider.data_quality.n_only_people_graded, result.data_quality.n_only_people_graded) == (1, 0)
    assert "1 graded by people and not by the model, in no estimate" in str(wider)
    of_all = [
        [row.estimate for row in found.judged.rows if row.slice == "all"]
        for each in (wider, result)
        for found in (each, compare(each, "model 0", metrics="ndcg@5"))
    ]
    assert of_all[:2] == of_all[2:]
    rows = [row_of(found.summary, model="model 0", key="ndcg@5", slice="all") for found in (wider, result)]
    assert len({row.n_users + row.n_undefined for row in rows}) == 1


def test_parts_merge_to_the_whole_by_clusters(results):
    whole = results["with a probability in strata and clusters"]
    days = [summarise(whole.per_user.where(F.col("user") % 2 == day), by="country") for day in range(2)]
    for row, of_all in zip(merge(days).judged.rows, whole.judged.rows, strict=True):
        assert (row.estimate, row.draw, row.queries.text()) == (of_all.estimate, of_all.draw, of_all.queries.text())


REFUSED = [
    ({"ci": "bca"}, OptionError, "t intervals"),
    ({"user_weight": "llm"}, OptionError, "user_weight and Judged"),
    ({"metrics": "personalisation@5"}, MetricError, "which Judged needs"),
    ({"relevance": None, "on_invalid": UNJUDGED}, OptionError, "name it with relevance="),
    ({"relevance": Judged(human="hand", judge="llm")}, InputError, "hand"),
    ({"graded": "llm"}, InputError, "graded='llm' must be a boolean"),
    ({"probability": "above"}, DataError, r"probability 'above' of the draw is missing.* user"),
    ({"probability": "two"}, DataError, r"differ between rows of the same user: 1 \(for example user=7, two="),
]


@pytest.mark.parametrize(("options", "error", "words"), REFUSED)
def test_what_two_judges_do_not_go_with_is_refused(tables, options, error, words):
    predictions, labels = tables
    odd = {"above": "IF(is_graded, 1.5D, 0.5D)", "two": "IF(user = 7 AND item = 'i0', 0.25D, 0.5D)"}
    labels = labels.withColumns({name: F.expr(column) for name, column in odd.items()})
    with pytest.raises(error, match=words):
        evaluated(predictions["model 0"], labels, **options)


def test_two_judges_are_two_and_have_t_intervals(result):
    with pytest.raises(InputError, match="both are 'human'"):
        Judged(human="human", judge="human")
    with pytest.raises(OptionError, match="t intervals"):
        summarise(result.per_user, ci="bca")
    words = r"people alone count for .*rr model 1 \(as good as [\d.]+, and 5 are needed\): too few graded users carry the spread of"
    assert re.search(words, str(result))


def test_wins_are_those_of_users_whom_people_graded(result):
    compared = compare(result, "model 0", metrics="ndcg@5")
    by_people = compare(result, "model 0", metrics="ndcg@5 [human]", replicates=99)
    row, alone = compared["ndcg@5"], by_people["ndcg@5 [human]"]
    assert (row.wins, row.ties, row.losses) == (alone.wins, alone.ties, alone.losses)
    assert alone.n_users < row.n_users
    with pytest.raises(InputError, match="relevance=Judged"):
        _ = by_people.judged
    assert "estimated from both judges" in str(compared)
    assert compared.to_dict()["judged"][0]["human"] == compared.judged.rows[0].estimate.human.value


def test_labels_needed_says_which_width_decides(results):
    decided = set()
    for margin in (0.0, 0.05, 0.3):
        compared = compare(results["in strata"], "model 0", margin=margin)
        for row, needed in zip(compared, labels_needed(compared, 0.1).itertuples(), strict=True):
            state, width = re.search(
                r"the verdict is (\w+), and a width below ([\d.]+) decides it", needed.remark
            ).groups()
            assert (needed.width < float(width)) == (state == "decided") == (row.verdict != "undecided")
            decided.add((margin, state))
    assert len(decided) > 3


def test_no_width_decides_while_models_are_equal(tables):
    (mine, _), labels = tables[0].values(), tables[1]
    both = evaluated({"one": mine, "other": mine}, labels, "rr", by=())
    remark = labels_needed(compare(both, "one"), 0.1)["remark"][0]
    assert "the verdict is open, and no width decides it if the difference stays +0" in remark


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
    reversed_ = evaluate(models, labels, "hit_rate@1", score="score", relevance=Judged(human="human", judge="llm"))
    with pytest.warns(UserWarning, match=r"'llm' alone mislead on hit_rate@1 of new"):
        misled = compare(reversed_, "old")
    assert misled["hit_rate@1"].verdict == "better"
    assert misled.judged.contradictions
    (sentence,) = misled.judged.sentences
    about = "'llm' grades new lower on hit_rate@1 against old than 'human' does"
    assert sentence == f"{about}, by -1.6 (95% interval -1.839 to -1.361)"
    assert sentence in str(misled.judged)


# --- grades that some judges did not give

OF_ANY_JUDGE = ["ndcg@5", "precision@3", "rr", "judged@3"]


def grade_of(query, place, judge):
    """A grade from 0 to 3, or None if the judge did not grade the item."""
    draw = (query * 7 + place * 5 + judge * 3) % 11
    return None if draw in (judge, 5 + judge) or (judge == 0 and query % 3) else float(draw % 4)


@pytest.fixture(scope="module")
def with_gaps(spark):
    predictions = [(query, f"i{(query + rank) % 9}", 1.0 / (1 + rank)) for query in range(30) for rank in range(6)]
    labels = [
        (query, f"i{(query * 2 + place) % 9}", *(grade_of(query, place, judge) for judge in (0, 1)))
        for query in range(28)
        for place in range(6)
    ]
    return (
        spark.createDataFrame(predictions, "user long, item string, score double"),
        spark.createDataFrame(labels, "user long, item string, human double, llm double"),
    )


@pytest.fixture(scope="module")
def of_each_judge(with_gaps):
    """The figures of each judge, of the labels that this judge graded."""
    predictions, labels = with_gaps
    options = {"score": "score", "users": labels.select("user").distinct()}
    return {
        judge: evaluate(predictions, labels.where(f"{judge} IS NOT NULL"), OF_ANY_JUDGE, relevance=judge, **options)
        for judge in GRADES
    }


@pytest.mark.parametrize("form", ["floats", "arrays", "pandas"])
def test_each_judge_reads_the_labels_that_this_judge_graded(with_gaps, of_each_judge, form):
    predictions, labels = with_gaps
    given = {
        "floats": lambda: labels.withColumn("human", F.col("human").cast("float")),
        "arrays": lambda: labels.groupBy("user").agg(F.collect_list(F.struct("item", *GRADES)).alias("item")),
        "pandas": labels.toPandas,
    }[form]()
    predictions = predictions.toPandas() if form == "pandas" else predictions
    both = evaluate(predictions, given, OF_ANY_JUDGE, score="score", relevance=GRADES, on_invalid=UNJUDGED)
    for judge, alone in of_each_judge.items():
        columns = ["metric", "mean", "standard_error", "n_users", "n_undefined"]
        of_judge = both.to_pandas().query(f"relevance == '{judge}'")[columns].reset_index(drop=True)
        pd.testing.assert_frame_equal(of_judge, alone.to_pandas()[columns].reset_index(drop=True))
    places = [(query, place, judge) for query in range(28) for place in range(6) for judge in (0, 1)]
    n_missing = sum(grade_of(*place) is None for place in places)
    assert both.data_quality.n_missing_grades == n_missing
    assert f"{n_missing} missing grades" in str(both)


def test_a_missing_grade_is_an_error_by_default(with_gaps):
    predictions, labels = with_gaps
    with pytest.raises(
        DataError, match=r"null relevance 'human'.*If a judge did not give .*'missing_grades': 'unjudged'"
    ):
        evaluate(predictions, labels, "ndcg@5", score="score", relevance=GRADES)
    plain = evaluate(predictions, labels.dropna(), "ndcg@5", score="score", relevance=GRADES)
    assert plain.data_quality.n_missing_grades is None
    assert "n_missing_grades" not in plain.data_quality.to_dict()


def test_a_grade_that_is_wrong_is_still_an_error(spark, with_gaps):
    predictions, _ = with_gaps
    schema = "user long, item string, human double, llm double"
    wrong = spark.createDataFrame([(1, "i1", None, -1.0), (1, "i2", math.nan, 2.0), (2, "i3", None, math.inf)], schema)
    options = {"score": "score", "relevance": GRADES, "on_invalid": UNJUDGED}
    with pytest.raises(DataError, match="labels that cannot be used: 2 "):
        evaluate(predictions, wrong, "ndcg@5", **options)
    reasons = quarantine(predictions, wrong, "ndcg@5", **options).toPandas()["reason"]
    assert sorted(reason.partition(" above")[0] for reason in reasons) == [
        "negative relevance 'llm'",
        "relevance 'llm'",
    ]
