"""Weighted means: what statsmodels says of the collected users, and users without a weight are not dropped in silence."""

import numpy as np
import pytest
from helpers.effort import FULL_LENGTH, part_of
from oracles.clusters import degrees_of_freedom
from pyspark.sql import functions as F
from scipy import stats
from statsmodels.regression.linear_model import WLS
from worlds.random_logs import random_logs

from spark_rankeval import BCa, Facts, Percentile, compare, detectable_difference, evaluate, score_users, summarise
from spark_rankeval.errors import DataError, InputError, OptionError, SparkRankEvalWarning

METRICS = ["ndcg@5", "rr"]
OPTIONS = {"score": "score", "relevance": "grade"}
N = 120


def weight(user):
    return (user * 37 % 11) / 4


@pytest.fixture(scope="module")
def tables(spark):
    # Somebody who is not evaluated may have any weight.
    about = [*((u, weight(u), "DE" if u % 3 else "FR") for u in range(N)), (9999, -1.0, "JP")]
    about = spark.createDataFrame(about, "user int, spend double, country string")
    return *random_logs(N, 5, seed=43).tables(spark), about


@pytest.fixture(scope="module")
def result(tables):
    predictions, labels, about = tables
    return evaluate(
        predictions, labels, METRICS, by="country", facts=Facts(attributes=about), user_weight="spend", **OPTIONS
    )


@pytest.fixture(scope="module")
def collected(result):
    return result.per_user.toPandas()


@pytest.mark.parametrize("users", ["all", "country=DE"])
def test_mean_error_and_interval_are_those_of_weighted_least_squares(result, collected, users):
    mine = collected if users == "all" else collected[collected["country"] == "DE"]
    assert (mine["spend"] == [weight(user) for user in mine["user"]]).all()
    for row in (row for row in result.summary if row.slice == users):
        values = mine[result.columns[row.key]]
        used = mine[values.notna() & (mine["spend"] > 0)]
        values, weights = used[result.columns[row.key]], used["spend"]
        fit = WLS(values, np.ones(len(values)), weights=weights).fit(cov_type="HC1")
        df = degrees_of_freedom(weights)
        reach = stats.t.ppf(0.975, df) * fit.bse.iloc[0]
        assert row.mean == pytest.approx(fit.params.iloc[0], rel=1e-12)
        assert row.standard_error == pytest.approx(fit.bse.iloc[0], rel=1e-10)
        assert row.df == df < len(values) - 1
        assert (row.interval_low, row.interval_high) == pytest.approx((row.mean - reach, row.mean + reach), rel=1e-10)
        spread = np.average((values - row.mean) ** 2, weights=weights) * len(values) / (len(values) - 1)
        assert row.std == pytest.approx(np.sqrt(spread), rel=1e-10)
        assert row.effective_n_users == pytest.approx(weights.sum() ** 2 / (weights**2).sum(), rel=1e-12)
        # Each user once.
        assert (row.n_users, row.minimum, row.maximum) == (len(values), values.min(), values.max())
        assert row.n_zero == (values == 0).sum()
        assert row.user_weight == "spend"


def test_users_of_weight_0_are_counted(result, collected):
    assert result.data_quality.n_without_weight == (collected["spend"] == 0).sum() > 0
    assert result.data_quality.n_users == len(collected) == sum(1 for user in collected["user"])
    for row in result.summary[: len(METRICS)]:
        assert row.n_users + row.n_undefined + result.data_quality.n_without_weight == result.data_quality.n_users
    text = repr(result)
    assert "users weighted by 'spend'" in text
    assert f"{result.data_quality.n_without_weight} with weight 0, left out" in text


# By day what the other intervals are parts of: BCa's have the replicates of percentiles.
@pytest.mark.parametrize("ci", part_of([BCa(replicates=200), "t", Percentile(replicates=200)], 3))
def test_a_table_of_users_has_the_same_figures(tables, ci, tmp_path):
    predictions, labels, about = tables
    # A slice of nobody is in no table of users.
    about = about.where("user < 1000")
    told = {"by": "country", "user_weight": "spend", "dialect": "default", "ci": ci, **OPTIONS}
    fresh = evaluate(predictions, labels, METRICS, facts=Facts(attributes=about), **told)
    assert summarise(fresh.per_user, by="country", ci=ci).to_dict() == fresh.to_dict()
    assert fresh.write(tmp_path / "users").to_dict() == fresh.to_dict()
    if FULL_LENGTH:
        # No partitioning changes a digit.
        spread = evaluate(
            predictions.repartition(7), labels.repartition(5), METRICS, facts=Facts(attributes=about), **told
        )
        assert spread.to_dict() == fresh.to_dict()


def test_equal_weights_are_none(tables):
    predictions, labels, about = tables
    plain = evaluate(predictions, labels, METRICS, ci=BCa(replicates=200), **OPTIONS)
    equal = evaluate(
        predictions, labels, METRICS, facts=Facts(attributes=about.withColumn("spend", F.lit(3))), user_weight="spend",
        ci=BCa(replicates=200), **OPTIONS,
    )  # fmt: skip
    for one, other in zip(plain.summary, equal.summary, strict=True):
        for name in ("mean", "std", "standard_error", "interval_low", "interval_high", "effective_n_users", "median"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-12)


def test_the_weight_may_stand_in_the_labels(tables):
    predictions, labels, about = tables
    spent = labels.withColumn("spend", ((F.col("user") * 37) % 11 / 4).cast("decimal(10, 2)"))
    joined = evaluate(
        predictions.join(labels.select("user").distinct(), "user"), spent, METRICS, user_weight="spend", **OPTIONS
    )
    users = labels.select("user").distinct()
    told = evaluate(
        predictions.join(users, "user"),
        labels,
        METRICS,
        facts=Facts(attributes=about.join(users, "user")),
        user_weight="spend",
        **OPTIONS,
    )
    assert joined.to_dict() == told.to_dict()


@pytest.fixture(scope="module")
def sum_of_models(tables):
    predictions, labels, about = tables
    models = {"a": predictions, "b": predictions}
    return evaluate(models, labels, METRICS, facts=Facts(attributes=about), user_weight="spend", **OPTIONS)


def test_several_models_and_one_table_of_arrays(tables, sum_of_models):
    predictions, labels, about = tables
    assert sum_of_models["a", "rr"] == sum_of_models["b", "rr"]
    assert sum_of_models.data_quality.n_without_weight == sum_of_models.qualities["a"].n_without_weight > 0
    arrays = (
        labels.groupBy("user").agg(F.collect_list("item").alias("liked"))
        .join(predictions.groupBy("user").agg(F.sort_array(F.collect_set("item")).alias("items")), "user")
        .join(about, "user")
    )  # fmt: skip
    weighted = evaluate(arrays, None, ["recall@3"], item=("items", "liked"), user_weight="spend")
    one = arrays.select("user", "spend").toPandas()
    values = weighted.per_user.toPandas().merge(one[["user"]], on="user")
    used = values.dropna()
    assert weighted["recall@3"] == pytest.approx(np.average(used["recall_at_3"], weights=used["spend"]), rel=1e-12)


@pytest.mark.parametrize("count", part_of(["n_predictions", "n_labels"], 2))
def test_numbers_of_labels_and_of_predictions_are_weights_without_a_column(tables, count):
    predictions, labels, _ = tables
    result = evaluate(predictions, labels, ["auc", "rr"], user_weight=count, **OPTIONS)
    values = result.per_user.toPandas()
    for row, column in zip(result.summary, ("auc", "rr"), strict=True):
        used = values[values[column].notna() & (values[count] > 0)]
        assert used[count].nunique() > 1
        assert row.mean == pytest.approx(np.average(used[column], weights=used[count]), rel=1e-12)
        assert row.user_weight == count
    assert result.data_quality.n_without_weight == (values[count] == 0).sum() > 0
    # The table of users knows its weights.
    assert summarise(result.per_user).to_dict() == result.to_dict()


def test_models_share_the_weights_of_labels(tables):
    predictions, labels, _ = tables
    models = {"a": predictions, "b": predictions.where("item % 3 > 0")}
    both = evaluate(models, labels, [*METRICS, "entropy@3"], user_weight="n_labels", **OPTIONS)
    # A value of all lists together knows no weights.
    assert {row.metric for row in both.summary if not row.user_weight} == {"entropy@3"}
    alone = evaluate(models["b"], labels, METRICS, user_weight="n_labels", **OPTIONS)
    assert [both["b", metric] for metric in METRICS] == [alone[metric] for metric in METRICS]
    with pytest.raises(OptionError, match="user_weight='n_predictions' needs one model"):
        evaluate(models, labels, METRICS, user_weight="n_predictions", **OPTIONS)


def test_a_count_that_may_mean_a_column_is_refused(tables):
    predictions, labels, about = tables
    wider = labels.withColumn("n_labels", F.lit(1))
    with pytest.raises(InputError, match="labels has a column of that name"):
        evaluate(predictions, wider, METRICS, user_weight="n_labels", **OPTIONS)
    facts = Facts(attributes=about.withColumnRenamed("spend", "N_Predictions"))
    with pytest.raises(InputError, match="attributes has a column of that name"):
        evaluate(predictions, labels, METRICS, user_weight="n_predictions", by="country", facts=facts, **OPTIONS)


def test_a_weight_that_is_none_is_an_error_that_counts_and_names(tables):
    predictions, labels, about = tables
    # Users who are evaluated, each with another weight that is none.
    wrong = {4: None, 5: float("nan"), 6: -1.0, 7: float("inf")}
    spend = F.col("spend")
    for user, value in wrong.items():
        spend = F.when(F.col("user") == user, F.lit(value).cast("double")).otherwise(spend)
    told = {"facts": Facts(attributes=about.withColumn("spend", spend)), "user_weight": "spend", **OPTIONS}
    with pytest.raises(DataError, match=r"users whose weight is .*: 4 \(for example user=[4-7] has spend") as caught:
        evaluate(predictions, labels, METRICS, **told)
    assert caught.value.counts == {"n_invalid_weights": 4}
    dropped = evaluate(predictions, labels, METRICS, on_invalid="drop", **told)
    assert dropped.data_quality.n_invalid_weights == 4
    assert "4 without a usable weight, left out" in repr(dropped)
    if FULL_LENGTH:
        strangers = about.replace({user: 555 + user for user in wrong}, subset="user")
        others = evaluate(
            predictions, labels, METRICS, on_invalid="drop", **(told | {"facts": Facts(attributes=strangers)})
        )
        # Somebody who has no row has no weight.
        assert others["rr"] == dropped["rr"]
        assert others.data_quality.n_invalid_weights == 4
    with pytest.raises(DataError, match="users whose weight is"):
        summarise(score_users(predictions, labels, METRICS, **told))


def test_rows_that_do_not_agree_on_the_weight_are_an_error(tables):
    predictions, labels, about = tables
    twice = about.union(about.where("user = 7").withColumn("spend", F.lit(99.0)))
    with pytest.raises(DataError, match=r"rows of the same user: 1 \(for example user=7 has spend"):
        evaluate(predictions, labels, METRICS, facts=Facts(attributes=twice), user_weight="spend", **OPTIONS)


def test_a_weight_that_is_nan_in_one_row_of_a_user_is_no_weight(tables):
    predictions, labels, about = tables
    about = about.withColumn("spend", F.when(F.col("user") == 7, F.lit(1.0)).otherwise(F.col("spend")))
    first = about.where("user = 7").withColumn("spend", F.lit(float("nan"))).union(about).coalesce(1)
    with pytest.raises(DataError, match="for example user=7 has spend"):
        evaluate(predictions, labels, METRICS, facts=Facts(attributes=first), user_weight="spend", **OPTIONS)


def test_wrong_names_raise_before_any_job(tables):
    predictions, labels, about = tables
    for told, match in (
        (
            {"user_weight": "income", "facts": Facts(attributes=about)},
            "user_weight='income': no table has all these columns",
        ),
        (
            {"user_weight": "country", "facts": Facts(attributes=about)},
            "user_weight='country' must be a number; it is string",
        ),
        (
            {"user_weight": "spend", "by": "spend", "facts": Facts(attributes=about)},
            "is also the name of another column",
        ),
        ({"facts": Facts(attributes=about)}, "attributes has no effect"),
    ):
        with pytest.raises(InputError, match=match):
            evaluate(predictions, labels, METRICS, **told, **OPTIONS)
    per_user = score_users(predictions, labels, METRICS, by="country", facts=Facts(attributes=about), **OPTIONS)
    with pytest.raises(InputError, match="user_weight='income': the per-user table has no column"):
        summarise(per_user, user_weight="income")
    with pytest.raises(InputError, match="as string, which is not a number"):
        summarise(per_user, user_weight="country")


def test_weights_joined_to_a_table_are_used_by_name(tables, result):
    predictions, labels, about = tables
    plain = score_users(predictions, labels, METRICS, **OPTIONS)
    weighted = summarise(plain.join(about.select("user", "spend"), "user"), user_weight="spend")
    assert [row.mean for row in weighted.summary] == [row.mean for row in result.summary[: len(METRICS)]]


def test_what_does_not_weight_users_says_so(sum_of_models, result):
    found = detectable_difference(result, "rr").iloc[0]
    row = next(row for row in result.summary if row.key == "rr")
    assert found["std"] == pytest.approx(row.standard_error * np.sqrt(row.n_users), rel=1e-12)
    with pytest.warns(SparkRankEvalWarning, match=r"ignores the weights in 'spend'"):
        compare(sum_of_models, "a", replicates=9)
