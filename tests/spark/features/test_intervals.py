"""What a summary says beside a mean: intervals against scipy's, and that nothing but the data and the seed changes a digit."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from oracles import intervals as oracle
from pyspark.sql import functions as F
from scipy import stats
from worlds.random_logs import random_logs

from spark_rankeval import BCa, Facts, Percentile, Student, evaluate, score_users, summarise, write_per_user
from spark_rankeval.errors import OptionError, SparkRankEvalWarning
from spark_rankeval.spark import engine as states
from spark_rankeval.statistics.exact import RELATIVE_ACCURACY

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


def test_t_intervals_are_scipys(tables, values):
    for row in evaluate(*tables, METRICS, **GRADED, ci=Student(level=0.5)).summary:
        mine = values[row.metric]
        n, error = len(mine), stats.sem(mine)
        reach, most = stats.t.ppf(0.75, n - 1) * error, mine.max() if row.metric == "dcg@5" else 1.0
        expected = oracle.interval(mine.mean(), reach, error, n, mine, most, level=0.5)
        assert (row.interval_low, row.interval_high) == pytest.approx(expected, abs=1e-10)
        assert (row.interval_level, row.interval_method, row.no_interval) == (0.5, "t", "")


def test_quantiles_are_numpys_within_the_promise_and_are_columns(bca, values):
    for row in bca.summary:
        found = {0.5: row.median, **row.quantiles}
        assert list(found) == [0.5, 0.1, 0.9]
        for share, quantile in found.items():
            assert quantile == pytest.approx(np.quantile(values[row.metric], share), rel=2 * RELATIVE_ACCURACY)
    # Shares of hits have few values: there quantiles are exact.
    assert bca.summary[0].median == np.median(values["precision@5"])
    frame = bca.to_pandas()
    assert {"median", "q0.1", "q0.9"} <= set(frame)
    assert frame["q0.9"].tolist() == [row.quantiles[0.9] for row in bca.summary]
    assert bca.to_dict()["summary"][0]["q0.1"] == bca.summary[0].quantiles[0.1]


def as_arrays(tables):
    predictions, labels = tables
    best = F.sort_array(F.collect_list(F.struct(-F.col("score"), "item")))
    return (
        predictions.groupBy("user").agg(F.transform(best, lambda pair: pair["item"]).alias("items")),
        labels.groupBy("user").agg(F.collect_list("item").alias("liked"), F.collect_list("grade").alias("grade")),
    )


def as_one_table(tables):
    left, right = as_arrays(tables)
    empty = {"items": "array<long>", "liked": "array<long>", "grade": "array<double>"}
    columns = [F.coalesce(name, F.array().cast(kind)).alias(name) for name, kind in empty.items()]
    return left.join(right, "user", "full").select("user", *columns), None


def narrow(table):
    return table.withColumn("user", F.col("user").cast("int"))


def with_nobody(table):
    return table.union(table.sparkSession.createDataFrame([(None, 1, 0.5)], table.schema))


# The same users in other forms, the options that these need, and how many of the metrics.
ARRAYS = {"item": ("items", "liked"), "relevance": "grade"}
FORMS = {
    "narrow ids": (lambda tables: (narrow(tables[0]), narrow(tables[1])), GRADED, 4),
    "narrow ids of predictions": (lambda tables: (narrow(tables[0]), tables[1]), GRADED, 4),
    "rows of nobody": (lambda tables: (with_nobody(tables[0]), tables[1]), {**GRADED, "on_invalid": "drop"}, 4),
    "arrays": (as_arrays, ARRAYS, 2),
    "one table of arrays": (as_one_table, ARRAYS, 2),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_same_users_have_the_same_digits_in_any_form(tables, bca, form):
    of_form, options, n_metrics = FORMS[form]
    found = evaluate(*of_form(tables), METRICS[:n_metrics], **options, **SAMPLES)
    assert found.summary == bca.summary[:n_metrics]
    if form == "rows of nobody":
        assert found.data_quality.n_invalid_predictions == 1


def test_another_order_and_states_merged_on_executors_change_no_digit(tables, bca, monkeypatch):
    monkeypatch.setattr(states, "_TAKEN_BY_DRIVER", 0)
    shuffled = (table.orderBy(F.xxhash64(F.lit(7), *table.columns)).repartition(7) for table in tables)
    assert evaluate(*shuffled, METRICS, **GRADED, **SAMPLES).summary == bca.summary


def test_the_seed_and_all_columns_of_users_draw(tables, bca):
    other = evaluate(*tables, METRICS, **GRADED, ci=BCa(seed=4))
    columns = {"one": F.col("user") % 7, "two": F.col("user").cast("string")}
    parts = (table.withColumns(columns) for table in tables)
    both = evaluate(*parts, METRICS, user=["one", "two"], **GRADED, **SAMPLES)
    for found in (other, both):
        for one, row in zip(found.summary, bca.summary, strict=True):
            assert one.mean == row.mean
            assert one.interval_low != row.interval_low
            assert one.interval_high - one.interval_low == pytest.approx(row.interval_high - row.interval_low, rel=0.3)


def test_a_slice_has_the_interval_of_its_users(tables):
    users = tables[0].sparkSession.range(N_USERS).select(F.col("id").alias("user"), (F.col("id") % 3).alias("part"))
    drawn = {**GRADED, "ci": Percentile(replicates=200)}
    sliced = evaluate(*tables, METRICS, **drawn, by="part", facts=Facts(attributes=users))
    alone = evaluate(*(table.where(F.col("user") % 3 == 1) for table in tables), METRICS, **drawn)
    rows = [replace(row, slice="all") for row in sliced.summary if row.slice.endswith("1")]
    assert rows == list(alone.summary)


# --- where there is none


@pytest.mark.filterwarnings("ignore:there are no labels", "ignore:none of the 1 labelled items")
@pytest.mark.parametrize(("n", "reason", "ci"), [(0, "no user", "t"), (1, "one user has no spread", "bca")])
def test_no_user_and_one_user_have_no_interval_and_it_says_so(tables, n, reason, ci):
    users = tables[1].where("grade > 0").select("user").distinct().orderBy("user").limit(n)
    result = evaluate(*(table.join(users, "user") for table in tables), METRICS[:2], **GRADED, ci=ci)
    for row in result.summary:
        assert (row.n_users, row.no_interval, row.interval_method) == (n, reason, ci)
        assert [math.isnan(each) for each in (row.interval_low, row.interval_high, row.median)] == [True, True, n == 0]
    assert f"no interval for {METRICS[0]} and {METRICS[1]}: {reason}" in repr(result)
    row = json.loads(result.to_json(), parse_constant=pytest.fail)["summary"][0]
    assert (row["interval_low"], row["no_interval"]) == (None, reason)


def test_nothing_beyond_the_moments_when_nothing_is_asked_for(tables):
    result = evaluate(*tables, METRICS, **GRADED, ci=None, quantiles=())
    for row in result.summary:
        assert (row.interval_method, row.no_interval, row.quantiles) == ("", "not asked for", {})
        assert math.isnan(row.interval_low)
        assert math.isnan(row.median)
    assert "interval" not in repr(result)
    assert json.loads(result.to_json(), parse_constant=pytest.fail)["summary"][0]["median"] is None


# --- options


def test_tables_without_users_cannot_be_resampled(spark):
    arrays = spark.createDataFrame([([1], [1])], "prediction array<int>, label array<int>")
    words = r"resamples users by their ids, and this table has none\. To resample, name the user column"
    with pytest.raises(OptionError, match=words):
        evaluate(arrays, None, "rr", ci="bootstrap")
    users = spark.createDataFrame([(1, 0.5)], "user long, mine double")
    words = r"this table has none\. To resample, pass a table of score_users"
    with pytest.warns(SparkRankEvalWarning, match="read as metrics: mine"), pytest.raises(OptionError, match=words):
        summarise(users, ci="percentile")


REFUSED = [
    ({"ci": "normal"}, "ci must be one of 't', 'bca', 'bootstrap', 'percentile', None, or an object .*; got 'normal'"),
    ({"quantiles": 0.5}, r"quantiles must be shares from 0 to 1.*got 0\.5"),
    ({"quantiles": [0.5, 50]}, r"got \[0\.5, 50\]"),
    ({"quantiles": "0.5"}, "got '0.5'"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED)
def test_wrong_options_are_named_before_any_job(tables, options, words, tmp_path):
    per_user = score_users(*tables, METRICS, **GRADED)
    for call in (
        lambda: evaluate(*tables, METRICS, **GRADED, **options),
        lambda: summarise(per_user, **options),
        lambda: write_per_user(per_user, str(tmp_path / "table"), **options),
    ):
        with pytest.raises(OptionError, match=words):
            call()
