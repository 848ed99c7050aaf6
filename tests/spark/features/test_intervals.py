"""What a summary says beside a mean: intervals against scipy's, and that nothing but the data and the seed changes a digit."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from helpers.effort import FULL_LENGTH, part_of
from pyspark.sql import functions as F
from scipy import stats
from worlds.random_logs import random_logs

from spark_rankeval import BCa, Facts, Percentile, Student, evaluate, score_users, summarise
from spark_rankeval.errors import OptionError, SparkRankEvalWarning
from spark_rankeval.spark import tasks as states
from spark_rankeval.statistics.quantiles import RELATIVE_ACCURACY

METRICS = ["precision@5", "ndcg@5", "rr", "dcg@5"]
N_USERS = 300
GRADED = {"score": "score", "relevance": "grade"}
SAMPLES = {"ci": BCa(seed=3), "quantiles": (0.1, 0.9)}


@pytest.fixture(scope="module")
def tables(spark):
    return tuple(table.cache() for table in random_logs(N_USERS, 5, seed=61).tables(spark))


@pytest.fixture(scope="module")
def values(tables):
    """Every user's defined values, by metric."""
    frame = score_users(*tables, METRICS, **GRADED).toPandas()
    columns = zip(METRICS, frame.columns[1:], strict=False)
    return {metric: frame[name].dropna().to_numpy() for metric, name in columns}


@pytest.fixture(scope="module")
def bca(tables):
    return evaluate(*tables, METRICS, **GRADED, **SAMPLES)


@pytest.mark.parametrize("level", part_of([0.95, 0.5, 0.999], 3))
def test_t_intervals_are_scipys(tables, values, level):
    for row in evaluate(*tables, METRICS, **GRADED, ci=Student(level=level)).summary:
        mine = values[row.metric]
        expected = stats.t.interval(level, len(mine) - 1, mine.mean(), stats.sem(mine))
        assert (row.interval_low, row.interval_high) == pytest.approx(expected, abs=1e-10)
        assert (row.interval_level, row.interval_method, row.no_interval) == (level, "t", "")


@pytest.mark.parametrize(("ci", "theirs"), part_of([(BCa, "BCa"), (Percentile, "percentile")], 2))
def test_bootstrap_intervals_are_scipys_within_their_noise(tables, values, ci, theirs):
    for row in evaluate(*tables, METRICS, **GRADED, ci=ci(replicates=20_000)).summary:
        expected = stats.bootstrap((values[row.metric],), np.mean, n_resamples=20_000, method=theirs, rng=1, batch=1000)
        # Five standard deviations of the difference between two such quantiles.
        noise = 0.13 * expected.standard_error
        assert (row.interval_low, row.interval_high) == pytest.approx(tuple(expected.confidence_interval), abs=noise)
        assert row.interval_method == theirs.lower()


def test_quantiles_are_numpys_within_the_promise(bca, values):
    for row in bca.summary:
        found = {0.5: row.median, **row.quantiles}
        assert list(found) == [0.5, 0.1, 0.9]
        for share, quantile in found.items():
            assert quantile == pytest.approx(np.quantile(values[row.metric], share), rel=2 * RELATIVE_ACCURACY)
    # Shares of hits have few values: there quantiles are exact.
    assert bca.summary[0].median == np.median(values["precision@5"])


def shuffled(tables, partitions, seed):
    return tuple(table.orderBy(F.xxhash64(F.lit(seed), *table.columns)).repartition(partitions) for table in tables)


def as_arrays(tables):
    predictions, labels = tables
    best = F.sort_array(F.collect_list(F.struct(-F.col("score"), "item")))
    return (
        predictions.groupBy("user").agg(F.transform(best, lambda pair: pair["item"]).alias("items")),
        labels.groupBy("user").agg(F.collect_list("item").alias("liked"), F.collect_list("grade").alias("grade")),
    )


@pytest.mark.parametrize("partitions", part_of([7, 1], 2))
def test_no_partitioning_or_order_changes_a_digit(tables, bca, partitions):
    again = evaluate(*shuffled(tables, partitions, seed=partitions), METRICS, **GRADED, **SAMPLES)
    assert again.summary == bca.summary


def test_pruning_changes_no_digit(tables):
    cut = [metric for metric in METRICS if "@" in metric]
    results = [evaluate(*tables, cut, **GRADED, ci="bca", prune=prune).summary for prune in ("auto", "never")]
    assert results[0] == results[1]


def test_arrays_give_the_intervals_of_rows(tables, bca):
    arrays = evaluate(*as_arrays(tables), METRICS[:2], item=("items", "liked"), relevance="grade", **SAMPLES)
    assert arrays.summary == bca.summary[:2]


def test_one_table_of_arrays_with_users_gives_the_intervals_of_rows(tables, bca):
    left, right = as_arrays(tables)
    empty = {"items": "array<long>", "liked": "array<long>", "grade": "array<double>"}
    table = left.join(right, "user", "full").select(
        "user", *(F.coalesce(name, F.array().cast(kind)).alias(name) for name, kind in empty.items())
    )
    one = evaluate(table, None, METRICS[:2], item=("items", "liked"), relevance="grade", **SAMPLES)
    assert one.summary == bca.summary[:2]


def test_ids_of_another_width_are_the_same_users(tables, bca):
    narrow = tuple(table.withColumn("user", F.col("user").cast("int")) for table in tables)
    for pair in (narrow, (narrow[0], tables[1])):
        again = evaluate(*pair, METRICS, **GRADED, **SAMPLES)
        assert again.summary == bca.summary


def test_several_user_columns_are_all_drawn_by(tables, bca):
    parts = tuple(
        table.withColumns({"one": F.col("user") % 7, "two": F.col("user").cast("string")}) for table in tables
    )
    both = evaluate(*parts, METRICS, user=["one", "two"], **GRADED, **SAMPLES).summary
    assert [row.mean for row in both] == [row.mean for row in bca.summary]
    widths = [[row.interval_high - row.interval_low for row in rows] for rows in (both, bca.summary)]
    assert widths[0] == pytest.approx(widths[1], rel=0.3)
    assert widths[0] != widths[1]


def test_another_seed_gives_other_samples(tables, bca):
    other = evaluate(*tables, METRICS, **GRADED, ci=BCa(seed=4))
    assert [row.mean for row in other.summary] == [row.mean for row in bca.summary]
    assert all(a.interval_low != b.interval_low for a, b in zip(other.summary, bca.summary, strict=True))


def test_summarise_gives_the_intervals_of_evaluate_to_the_last_digit(tables, bca, tmp_path):
    if FULL_LENGTH:
        assert summarise(score_users(*tables, METRICS, **GRADED), **SAMPLES).summary == bca.summary
    written = bca.write(str(tmp_path / "per_user"))
    assert written.summary == bca.summary
    assert summarise(written.per_user.repartition(5), **SAMPLES).summary == bca.summary


def test_states_merged_on_executors_give_the_same(tables, bca, monkeypatch):
    many = tuple(table.repartition(4) for table in tables)
    for limit in part_of((0, 10**9), 2):
        monkeypatch.setattr(states, "_TAKEN_BY_DRIVER", limit)
        again = evaluate(*many, METRICS, **GRADED, **SAMPLES)
        assert again.summary == bca.summary


def test_rows_of_nobody_are_in_no_sample(tables, bca):
    predictions, labels = tables
    nobody = predictions.sparkSession.createDataFrame([(None, 1, 0.5)], predictions.schema)
    counted = evaluate(predictions.union(nobody), labels, METRICS, **GRADED, **SAMPLES, on_invalid="drop")
    assert counted.data_quality.n_invalid_predictions == 1
    assert counted.summary == bca.summary


# By day test_same_everywhere.py has the intervals of models and of slices.
def test_models_beside_one_another_have_the_intervals_they_have_alone(tables):
    predictions, labels = tables
    worse = predictions.withColumn("score", -F.col("score"))
    # The same users, so that what is compared with both are the same.
    both = {"one": predictions, "other": worse}
    options = {"ci": BCa(replicates=200), "users": predictions.select("user").distinct()}
    together = evaluate(both, labels, METRICS, **GRADED, **options)
    assert [row.model for row in together.summary] == ["one"] * 4 + ["other"] * 4
    for model, table in both.items():
        alone = evaluate(table, labels, METRICS, **GRADED, **options, model=None)
        assert [replace(row, model="") for row in together.summary if row.model == model] == list(alone.summary)


def test_a_slice_has_the_interval_of_its_users(tables):
    users = tables[0].sparkSession.range(N_USERS).select(F.col("id").alias("user"), (F.col("id") % 3).alias("part"))
    sliced = evaluate(
        *tables, METRICS, **GRADED, by="part", facts=Facts(attributes=users), ci=Percentile(replicates=200)
    )
    mine = tuple(table.where(F.col("user") % 3 == 1) for table in tables)
    alone = evaluate(*mine, METRICS, **GRADED, ci=Percentile(replicates=200))
    rows = [replace(row, slice="all") for row in sliced.summary if row.slice.endswith("1")]
    assert rows == list(alone.summary)


# --- where there is none


def few(tables, n):
    """The first n users for whom something is relevant."""
    _, labels = tables
    users = [row.user for row in labels.where("grade > 0").select("user").distinct().orderBy("user").limit(n).collect()]
    return tuple(table.where(F.col("user").isin(users)) if users else table.limit(0) for table in tables)


@pytest.mark.filterwarnings("ignore:there are no labels", "ignore:none of the 1 labelled items")
@pytest.mark.parametrize(
    ("n", "reason", "ci"),
    part_of(
        [
            (n, reason, ci)
            for ci in ("t", "bca", "percentile")
            for n, reason in ((0, "no user"), (1, "one user has no spread"))
        ],
        3,
    ),
)
def test_no_user_and_one_user_have_no_interval_and_it_says_so(tables, n, reason, ci):
    result = evaluate(*few(tables, n), METRICS[:2], **GRADED, ci=ci)
    for row in result.summary:
        assert (row.n_users, row.no_interval, row.interval_method) == (n, reason, ci)
        assert math.isnan(row.interval_low)
        assert math.isnan(row.interval_high)
        assert math.isnan(row.median) == (n == 0)
    assert f"no interval for any mean: {reason}" in repr(result)
    document = json.loads(result.to_json(), parse_constant=pytest.fail)
    assert document["summary"][0]["interval_low"] is None
    assert document["summary"][0]["no_interval"] == reason


def test_a_mean_over_all_users_that_some_value_spoils_has_none(tables):
    predictions, labels = as_arrays(tables)
    labels = labels.withColumn("grade", F.expr("transform(grade, g -> if(user = 1, double('NaN'), g))"))
    result = evaluate(predictions, labels, "ndcg@5", item=("items", "liked"), relevance="grade", dialect="mllib")
    (row,) = result.summary
    assert math.isnan(row.mean)
    assert math.isnan(row.interval_low)
    assert row.no_interval == "the mean is over all users, and some have no value"


def test_nothing_beyond_the_moments_when_nothing_is_asked_for(tables):
    result = evaluate(*tables, METRICS, **GRADED, ci=None, quantiles=())
    for row in result.summary:
        assert (row.interval_method, row.no_interval, row.quantiles) == ("", "not asked for", {})
        assert math.isnan(row.interval_low)
        assert math.isnan(row.median)
    assert "interval" not in repr(result)
    assert json.loads(result.to_json(), parse_constant=pytest.fail)["summary"][0]["median"] is None


def test_quantiles_are_columns(bca):
    frame = bca.to_pandas()
    assert {"median", "q0.1", "q0.9"} <= set(frame)
    assert frame["q0.9"].tolist() == [row.quantiles[0.9] for row in bca.summary]
    assert bca.to_dict()["summary"][0]["q0.1"] == bca.summary[0].quantiles[0.1]


# --- options


def test_arrays_without_users_cannot_be_resampled(spark):
    table = spark.createDataFrame([([1], [1])], "prediction array<int>, label array<int>")
    assert evaluate(table, None, "rr")["rr"] == 1.0
    with pytest.raises(
        OptionError, match=r"resamples users by their ids, and this table has none\. To resample, name the user column"
    ):
        evaluate(table, None, "rr", ci="bootstrap")


def test_a_table_that_names_no_users_cannot_be_resampled(spark):
    table = spark.createDataFrame([(1, 0.5)], "user long, mine double")
    with (
        pytest.warns(SparkRankEvalWarning, match="read as metrics: mine"),
        pytest.raises(OptionError, match=r"this table has none\. To resample, pass a table of score_users"),
    ):
        summarise(table, ci="percentile")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"ci": "normal"},
            "ci must be one of 't', 'bca', 'bootstrap', 'percentile', None, or an object such as .*; got 'normal'",
        ),
        ({"quantiles": 0.5}, r"quantiles must be shares from 0 to 1.*got 0\.5"),
        ({"quantiles": [0.5, 50]}, r"got \[0\.5, 50\]"),
        ({"quantiles": "0.5"}, "got '0.5'"),
    ],
)
def test_wrong_options_are_named_before_any_job(tables, options, said, tmp_path):
    per_user = score_users(*tables, METRICS, **GRADED)
    for call in (
        lambda: evaluate(*tables, METRICS, **GRADED, **options),
        lambda: summarise(per_user, **options),
        lambda: per_user_written(per_user, tmp_path, options),
    ):
        with pytest.raises(OptionError, match=said):
            call()


def per_user_written(per_user, tmp_path, options):
    from spark_rankeval import write_per_user

    write_per_user(per_user, str(tmp_path / "table"), **options)
