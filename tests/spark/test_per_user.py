"""What people do with the table of users."""

import math

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from spark_rankeval import Facts, compare, evaluate, score_users, summarise, summary_table
from spark_rankeval.errors import InputError, OptionError, SparkRankEvalWarning


def test_the_recipe_for_averages_leaves_out_who_has_no_value(spark):
    predictions = spark.createDataFrame([(1, 1, 0.9), (1, 2, 0.8), (2, 3, 0.5)], "user int, item int, score double")
    labels = predictions.where("item = 2").select("user", "item")
    result = evaluate(predictions, labels, "recall@10", score="score")
    # The recipe of `Result.per_user`.
    recipe = F.avg(F.nanvl("recall_at_10", F.lit(None)))
    (row,) = result.per_user.agg(F.avg("recall_at_10").alias("all"), recipe.alias("with_value")).collect()
    assert math.isnan(row["all"])
    assert row["with_value"] == result["recall@10"] == 1


@pytest.fixture(scope="module")
def few(spark):
    predictions = spark.createDataFrame(
        [(u, i, float(-i)) for u in range(6) for i in range(4)], "user long, item long, score double"
    )
    return predictions, spark.createDataFrame([(u, u % 3) for u in range(6)], "user long, item long")


def ours(caught):
    """Our warnings, each with the file that it is of; Spark may have others."""
    return [(str(one.message), one.filename) for one in caught if one.category is SparkRankEvalWarning]


def test_a_table_without_counts_says_nothing_of_users_in_both(few):
    per_user = score_users(*few, "rr", score="score").select("user", "rr")
    with pytest.warns(SparkRankEvalWarning) as caught:
        result = summarise(per_user)
    assert ["the result shows 0 for these counts" in text for text, _ in ours(caught)] == [True]
    assert result.data_quality.n_in_both is None


def test_warnings_are_of_the_line_that_calls(few):
    with pytest.warns(SparkRankEvalWarning, match="none of the 6 labels is relevant") as caught:
        evaluate(few[0], few[1].selectExpr("*", "0 as grade"), "rr", score="score", relevance="grade")
    assert [file for _, file in ours(caught)] == [__file__]


def test_who_wants_no_notes_stores_none(few, tmp_path):
    models = {"one": few[0], "other": few[0]}
    result = evaluate(models, few[1], ["ndcg@3"], score="score", dialect="default")
    assert summarise(result.per_user).notes == compare(result, "one", replicates=9).notes == ()


def test_a_table_with_two_columns_of_models_is_refused(few):
    per_user = score_users({"one": few[0], "other": few[0]}, few[1], "rr", score="score")
    renamed = per_user.select("user", per_user["model"].alias("second"))
    with pytest.raises(InputError, match="name them in a column"):
        compare(per_user.join(renamed, "user"), "one", replicates=9)


def test_options_of_summaries_are_not_those_of_a_table(few):
    with pytest.raises(OptionError, match="'ci': only evaluate and summarise have this option"):
        score_users(*few, "rr", score="score", ci="t")


@pytest.mark.parametrize(
    "options",
    [{"by": "country", "quantiles": (0.25, 0.5)}, {"ci": "bca", "user_weight": "spend"}, {"cluster": "country"}],
    ids=["slices", "weights", "clusters"],
)
@pytest.mark.filterwarnings("ignore:clusters by country are few")
def test_a_lazy_summary_is_the_summary_to_the_last_digit_and_acts_only_when_it_is_used(few, options, jobs_of):
    predictions, labels = few
    models = {"a": predictions, "b": predictions.withColumn("score", -F.col("score"))}
    attributes = labels.select(
        "user", F.concat(F.lit("c"), "item").alias("country"), (F.col("user") + 1.0).alias("spend")
    )
    facts = Facts(attributes=attributes)
    call = {
        "by": "country",
        "facts": facts,
        "score": "score",
        "prune": "never",
        "user_weight": options.get("user_weight"),
    }
    tables = []
    assert jobs_of(lambda: tables.append(score_users(models, labels, ["ndcg@3", "rr"], **call))) == 0
    assert jobs_of(lambda: tables.append(summary_table(tables[0], **options))) == 0
    eager = summarise(tables[0], **options).to_spark(few[0].sparkSession)
    assert tables[1].schema == eager.schema

    def figures(table):
        rows = (row.asDict() for row in table.collect())
        return sorted(repr({**row, "quantiles": sorted(row["quantiles"].items())}) for row in rows)

    assert figures(tables[1]) == figures(eager)


def test_bad_rows_are_an_error_of_the_query_of_a_lazy_summary(few):
    predictions, labels = few
    bad = predictions.withColumn("score", F.when(F.col("item") > 0, F.col("score")))
    table = summary_table(score_users(bad, labels, "rr", score="score", prune="never"))
    with pytest.raises(PySparkException, match="predictions that cannot be ranked: 6"):
        table.collect()


def test_models_of_a_table_without_metadata_are_not_taken_together(few):
    predictions, labels = few
    users = score_users({"a": predictions, "b": predictions}, labels, "rr", score="score")
    plain = users.select(*(F.col(name).alias(name, metadata={"of": "another program"}) for name in users.columns))
    with pytest.warns(SparkRankEvalWarning), pytest.raises(InputError, match="Pass model='model' if it names models"):
        summarise(plain)
