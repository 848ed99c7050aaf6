"""The table of users: what people do with it, what a summary of it says, and notes on definitions."""

import math

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from spark_rankeval import BCa, Facts, compare, evaluate, merge, score_users, summarise, summary_table
from spark_rankeval.errors import InputError, SparkRankEvalWarning
from spark_rankeval.spark.per_user import without_standards


@pytest.fixture(scope="module")
def few(spark):
    predictions = spark.createDataFrame(
        [(u, i, float(-i)) for u in range(6) for i in range(4)], "user long, item long, score double"
    )
    return predictions, spark.createDataFrame([(u, u % 3) for u in range(6)], "user long, item long")


@pytest.fixture(scope="module")
def scored(few):
    """Two models of the same lists."""
    return score_users({"one": few[0], "other": few[0]}, few[1], ["rr", "ndcg@3"], score="score")


def ours(caught):
    """Our warnings, each with the file that it is of; Spark may have others."""
    return [(str(one.message), one.filename) for one in caught if one.category is SparkRankEvalWarning]


@pytest.mark.ci
def test_the_recipe_for_averages_leaves_out_who_has_no_value(spark):
    predictions = spark.createDataFrame([(1, 1, 0.9), (1, 2, 0.8), (2, 3, 0.5)], "user int, item int, score double")
    labels = predictions.where("item = 2").select("user", "item")
    result = evaluate(predictions, labels, "recall@10", score="score")
    # The recipe of `Result.per_user`.
    recipe = F.avg(F.nanvl("recall_at_10", F.lit(None)))
    (row,) = result.per_user.agg(F.avg("recall_at_10").alias("all"), recipe.alias("with_value")).collect()
    assert math.isnan(row["all"])
    assert row["with_value"] == result["recall@10"] == 1


def test_a_table_without_metadata_is_read_by_its_columns(spark, few, scored, tmp_path):
    table = spark.createDataFrame([(1, 0.5), (2, None), (3, 1.0)], "user long, my_metric double")
    with pytest.warns(SparkRankEvalWarning) as caught:
        result = summarise(table)
    said = [text for text, _ in ours(caught)]
    assert any("read as metrics: my_metric; not read: user bigint" in text for text in said)
    assert any("has no n_predictions" in text for text in said)
    assert (result["my_metric"], result.summary[0].n_undefined) == (0.75, 1)
    # A file of text keeps no metadata.
    scored.write.csv(str(tmp_path / "csv"), header=True)
    stored = spark.read.csv(str(tmp_path / "csv"), header=True, inferSchema=True)
    with pytest.warns(SparkRankEvalWarning, match="read as metrics: rr, ndcg_at_3"):
        found = summarise(stored, user="user", model="model")
    expected = summarise(scored)
    assert {(row.model, row.metric.replace("_at_", "@")): row.mean for row in found.summary} == {
        (row.model, row.metric): pytest.approx(row.mean) for row in expected.summary
    }
    plain = scored.select(*(F.col(name).alias(name, metadata={"of": "another program"}) for name in scored.columns))
    with pytest.warns(SparkRankEvalWarning), pytest.raises(InputError, match="Pass model='model' if it names models"):
        summarise(plain)
    per_user = score_users(*few, "rr", score="score").select("user", "rr")
    with pytest.warns(SparkRankEvalWarning) as caught:
        result = summarise(per_user)
    assert ["the result shows 0 for these counts" in text for text, _ in ours(caught)] == [True]
    assert result.data_quality.n_in_both is None


@pytest.mark.ci
def test_users_of_several_runs_are_refused_unless_runs_are_models(few, jobs_of):
    table = score_users(*few, ["rr", "ndcg@3"], score="score").persist()
    runs = table.withColumn("run_id", F.explode(F.array(F.lit("day1"), F.lit("day2"))))
    for options in ({}, {"by": "run_id"}):
        with pytest.raises(InputError, match=r"holds rows of several runs \(column 'run_id'\), and a user in several"):
            summarise(runs, **options)
    with pytest.raises(InputError, match="the column 'run_id' was read as double, but names of runs are text"):
        summarise(table.withColumn("run_id", F.lit(1.5)), model="run_id")
    made = []
    n_jobs = jobs_of(lambda: made.append(summarise(table)))
    assert jobs_of(lambda: made.append(summarise(runs.where("run_id = 'day2'")))) == n_jobs
    assert (made[0].summary, made[0].data_quality) == (made[1].summary, made[1].data_quality)
    each = summarise(runs, model="run_id")
    assert each.models == ["day1", "day2"]
    assert [each["day1", metric] for metric in ("rr", "ndcg@3")] == [made[0][metric] for metric in ("rr", "ndcg@3")]
    table.unpersist()


def test_a_table_with_two_columns_of_models_is_refused(scored):
    renamed = scored.select("user", scored["model"].alias("second"))
    with pytest.raises(InputError, match="name them in a column"):
        compare(scored.join(renamed, "user"), "one", replicates=9)


def test_warnings_are_of_the_line_that_calls(few):
    with pytest.warns(SparkRankEvalWarning, match="none of the 6 labels is relevant") as caught:
        evaluate(few[0], few[1].selectExpr("*", "0 as grade"), "rr", score="score", relevance="grade")
    assert [file for _, file in ours(caught)] == [__file__]


SUMMARIES = {
    "weights": {"ci": "bca", "user_weight": "spend"},
    "slices": {"by": "country", "quantiles": (0.25, 0.5)},
    "clusters": {"cluster": "country"},
}


@pytest.mark.parametrize("name", [n if n == "weights" else pytest.param(n, marks=pytest.mark.ci) for n in SUMMARIES])
@pytest.mark.filterwarnings("ignore:clusters by country are few")
def test_a_lazy_summary_is_the_summary_to_the_last_digit_and_acts_only_when_it_is_used(few, name, jobs_of):
    (predictions, labels), options = few, SUMMARIES[name]
    models = {"a": predictions, "b": predictions.withColumn("score", -F.col("score"))}
    attributes = labels.select(
        "user", F.concat(F.lit("c"), "item").alias("country"), (F.col("user") + 1.0).alias("spend")
    )
    call = {"by": "country", "facts": Facts(attributes=attributes), "score": "score"}
    tables = []
    weight = options.get("user_weight")
    assert jobs_of(lambda: tables.append(score_users(models, labels, ["rr"], user_weight=weight, **call))) == 0
    assert jobs_of(lambda: tables.append(summary_table(tables[0], **options))) == 0
    eager = summarise(tables[0], **options).to_spark(predictions.sparkSession)
    assert tables[1].schema == eager.schema

    def figures(table):
        rows = (row.asDict() for row in table.collect())
        return sorted(repr({**row, "quantiles": sorted(row["quantiles"].items())}) for row in rows)

    assert figures(tables[1]) == figures(eager)


def test_bad_rows_are_an_error_of_the_query_of_a_lazy_summary(few):
    predictions, labels = few
    bad = predictions.withColumn("score", F.when(F.col("item") > 0, F.col("score")))
    table = summary_table(score_users(bad, labels, "rr", score="score"))
    with pytest.raises(PySparkException, match="predictions that cannot be ranked: 6"):
        table.collect()


# --- notes on definitions

METRICS = ["precision@2", "ndcg@2", "map@2"]
# bob has one hit of two relevant items, ann one of one.
PREDICTIONS = [
    ("ann", "a", 2.0, "x"), ("ann", "b", 1.0, "x"), ("bob", "a", 2.0, "x"), ("bob", "b", 1.0, "y"), ("bob", "z", 0.5, "y"),
]  # fmt: skip
LABELS = [("ann", "b", 3.0, 1.0, "DE"), ("bob", "a", 2.0, 3.0, "FR"), ("bob", "c", 1.0, 3.0, "FR")]
MINORITY = "ndcg@2 and map@2 rate only the order of the retrieved items and ignore relevant items that were missed. "


@pytest.fixture(scope="module")
def noted(spark):
    predictions = spark.createDataFrame(PREDICTIONS, "user string, item string, score double, model string")
    labels = spark.createDataFrame(LABELS, "user string, item string, grade double, spend double, land string")
    return predictions, labels


def evaluated(tables, metrics=METRICS, **options):
    return evaluate(*tables, metrics, score="score", relevance="grade", **options)


def test_the_value_of_the_usual_definition_comes_in_the_same_action(noted, jobs_of):
    given = {"model": "model", "by": "land", "user_weight": "spend"}
    default, standard = evaluated(noted, **given), evaluated(noted, dialect="standard", **given)
    # The same digits, weighted and in every slice, without a row of its own.
    assert {(row.model, row.slice, row.key): row.standard_mean for row in default.summary if row.standard} == {
        (row.model, row.slice, row.key): row.mean for row in standard.summary if not row.key.startswith("precision")
    }
    assert default.keys() == ["precision@2", "ndcg@2", "ap@2"]
    assert standard.notes == ()
    figures = "; ".join(
        f"{standard[model, 'ndcg@2']:.4f} and {standard[model, 'ap@2']:.4f} for {model}" for model in ("x", "y")
    )
    words = f"With the definition that most systems use (dialect 'standard'), they are {figures}"
    assert default.notes == (MINORITY + words,)
    for shown in (repr(default), default._repr_html_(), default.explain(), default.to_latex()):
        assert "they are" in shown
    assert default.to_dict()["notes"] == list(default.notes)
    loud, quiet = [], []
    n_jobs = jobs_of(lambda: loud.append(evaluated(noted, ci=BCa(replicates=20))))
    # Who names the definition gets no note, and the same figures.
    assert jobs_of(lambda: quiet.append(evaluated(noted, dialect="default", ci=BCa(replicates=20)))) == n_jobs
    assert (quiet[0].notes, [row.standard for row in quiet[0].summary]) == ((), [""] * 3)
    assert [row.record() for row in quiet[0].summary] == [row.record() for row in loud[0].summary]
    assert evaluated(noted, ["ndcg(ideal='retrieved')@2", "ap(denominator='hits')@2"]).notes == ()


def test_a_stored_table_says_what_to_ask_for(noted, tmp_path):
    table = score_users(*noted, METRICS, score="score", relevance="grade")
    assert table.columns == without_standards(table).columns
    asks = (f"{MINORITY}The dialect 'standard' has the definition that most systems use",)
    fresh = evaluated(noted)
    written = fresh.write(tmp_path / "users")
    assert written.notes == fresh.notes
    assert "standard" not in " ".join(written.per_user.columns)
    assert summarise(table).notes == merge([fresh]).notes == asks
    # AP by threshold with weights divides by hits in every dialect.
    asked = ["ap(by='threshold', decay=0.9)", "ap(by='threshold', weights='1,0.5')"]
    assert summarise(score_users(*noted, asked, score="score", relevance="grade")).notes == ()


@pytest.mark.ci
def test_who_wants_no_notes_stores_none(few):
    models = {"one": few[0], "other": few[0]}
    result = evaluate(models, few[1], ["ndcg@3"], score="score", dialect="default")
    assert summarise(result.per_user).notes == compare(result, "one", replicates=9).notes == ()


@pytest.mark.ci
def test_lists_with_items_twice_may_be_of_several_models(spark):
    rows = [(name, user, item, 1.0 / item) for name in ("old", "new") for user in (1, 2, 3) for item in (1, 2)]
    labels = spark.createDataFrame([(1, 1), (2, 2)], "user int, item int")
    options = {"score": "score", "dialect": "standard", "on_invalid": "drop"}
    # Real duplicates of a single user say nothing of models.
    for n_rows, words in ((12, "3 of 3 users with predictions have items twice there; the best ranked stay"), (8, "")):
        table = spark.createDataFrame(rows[:n_rows], "run string, user int, item int, score double")
        notes = evaluate(table, labels, "ndcg@2", **options).notes
        assert len(notes) == bool(words)
        assert all(note.startswith(words) and note.endswith("name their column with model=") for note in notes)
