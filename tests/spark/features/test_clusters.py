"""Clusters of users: errors as statsmodels has them, means as they were, and the same digits fresh, stored and repartitioned."""

import math
import re

import numpy as np
import pytest
from helpers.effort import FULL_LENGTH, part_of
from oracles.clusters import correction, degrees_of_freedom, effective_n, sizes_of
from pyspark.sql import functions as F
from scipy import stats
from statsmodels.regression.linear_model import WLS
from worlds.random_logs import random_logs

from spark_rankeval import (
    BCa,
    Facts,
    Result,
    all_pairs,
    compare,
    detectable_difference,
    evaluate,
    merge,
    score_users,
    summarise,
)
from spark_rankeval.errors import DataError, InputError, SparkRankEvalWarning

METRICS = ["ndcg@5", "rr"]
OPTIONS = {"user": ["person", "session"], "score": "score", "relevance": "grade"}
N, MODULUS = 240, 193
TELLING = ("mean", "standard_error", "interval_low", "interval_high", "cluster", "n_clusters", "design_effect")
SUMS = (*TELLING, "cluster_sums")


def of_session(session):
    """The person and the household of a session."""
    person = session * session % MODULUS
    return person, f"household {person % 61}"


@pytest.fixture(scope="module")
def tables(spark):
    logs = random_logs(N, 5, seed=47)
    predictions = [(of_session(s)[0], s, i, v) for s, pairs in enumerate(logs.predictions) for i, v in pairs]
    labels = [(of_session(s)[0], s, i, g) for s, pairs in enumerate(logs.labels) for i, g in pairs]
    about = [(*of_session(s), s, "DE" if s % 3 else "FR", (s * 37 % 11) / 4) for s in range(N)]
    return (
        spark.createDataFrame(predictions, "person long, session long, item long, score double"),
        spark.createDataFrame(labels, "person long, session long, item long, grade double"),
        spark.createDataFrame(about, "person int, household string, session int, country string, spend double"),
    )


def evaluated(tables, metrics=METRICS, **options):
    predictions, labels, about = tables
    if {"by", "user_weight"} & options.keys() or options.get("cluster") == "household":
        options["facts"] = Facts(attributes=about)
    return evaluate(predictions, labels, metrics, **{**OPTIONS, **options})


@pytest.fixture(scope="module")
def result(tables):
    return evaluated(tables, by="country", cluster="person", user_weight="spend")


@pytest.fixture(scope="module")
def by_person(tables):
    return evaluated(tables, cluster="person")


@pytest.fixture(scope="module")
def plain(tables):
    return evaluated(tables)


def told(result, names=TELLING):
    return [[repr(getattr(row, name)) for name in names] for row in result.summary]


@pytest.mark.parametrize("users", ["all", "country=DE"])
def test_error_and_interval_are_those_of_least_squares_with_clusters_and_their_sizes(result, users):
    frame = result.per_user.toPandas()
    frame = frame if users == "all" else frame[frame["country"] == "DE"]
    for row in (row for row in result.summary if row.slice == users):
        used = frame[frame[result.columns[row.key]].notna() & (frame["spend"] > 0)]
        model = WLS(used[result.columns[row.key]], np.ones(len(used)), weights=used["spend"])
        fit = model.fit(cov_type="cluster", cov_kwds={"groups": used["person"]})
        sizes = sizes_of(used["person"], used["spend"])
        error, df = fit.bse.iloc[0] * correction(sizes), degrees_of_freedom(sizes)
        assert row.mean == pytest.approx(fit.params.iloc[0], rel=1e-12)
        assert row.standard_error == pytest.approx(error, rel=1e-10)
        assert (row.cluster, row.n_clusters, row.df) == ("person", used["person"].nunique(), df)
        assert row.effective_n_clusters == pytest.approx(effective_n(sizes))
        alone = model.fit(cov_type="HC1").bse.iloc[0]
        assert row.design_effect == pytest.approx((error / alone) ** 2, rel=1e-9)
        reach = stats.t.ppf(0.975, df) * error
        assert (row.interval_low, row.interval_high) == pytest.approx((row.mean - reach, row.mean + reach), rel=1e-10)


def test_everything_else_stays_the_same_and_a_stored_table_says_so(tables, result, tmp_path):
    plain = evaluated(tables, by="country", user_weight="spend")
    others = ("mean", "n_users", "std", "minimum", "median", "effective_n_users", "moments")
    assert told(result, others) == told(plain, others)
    assert {(row.cluster, row.n_clusters) for row in plain.summary} == {("", 0)}
    predictions, labels, about = tables
    given = {**OPTIONS, "by": "country", "user_weight": "spend", "facts": Facts(attributes=about)}
    scored = score_users(predictions.repartition(5, "item"), labels, METRICS, cluster="person", **given)
    scored.write.parquet(str(tmp_path / "users"))
    stored = predictions.sparkSession.read.parquet(str(tmp_path / "users"))
    assert told(summarise(stored, by="country"), SUMS) == told(result, SUMS)
    assert told(summarise(stored, by="country", cluster=())) == told(plain)
    assert told(summarise(plain.per_user, by="country", cluster=["person"])) == told(result)


def test_bootstraps_draw_clusters(tables):
    ci = BCa(replicates=200)
    fresh = evaluated(tables, ["rr"], cluster="person", ci=ci)
    assert told(summarise(fresh.per_user, ci=ci)) == told(fresh)
    row = fresh.summary[0]
    plain = evaluated(tables, ["rr"], ci=ci).summary[0]
    assert (row.interval_low, row.interval_high) != (plain.interval_low, plain.interval_high)
    assert (row.interval_high - row.interval_low) / 2 == pytest.approx(1.96 * row.standard_error, rel=0.25)


def test_a_cluster_may_be_an_attribute_and_every_list_counts_where_lists_are_measured_together(tables):
    metrics = ["rr", "gini(among='recommended')@3"]
    whole = evaluated(tables, metrics, cluster="household")
    if FULL_LENGTH:
        apart = evaluated(tuple(table.repartition(6) for table in tables), metrics, cluster="household")
        assert told(apart) == told(whole)
    scored = score_users(*tables[:2], "rr", cluster="household", facts=Facts(attributes=tables[2]), **OPTIONS)
    assert told(summarise(scored)) == [told(whole)[0]]
    by_name = {row.metric: row for row in whole.summary}
    assert by_name["rr"].cluster == "household"
    assert 2 < by_name["rr"].n_clusters <= 61
    together = by_name["gini(among='recommended')@3"]
    assert (together.cluster, together.n_clusters) == ("", 0)
    assert whole.per_user.columns[:3] == ["person", "session", "household"]


def test_who_has_no_cluster_is_counted(tables, plain):
    predictions, labels, about = tables
    some = about.withColumn("household", F.when(F.col("session") % 40 != 7, F.col("household")))
    given = {**OPTIONS, "cluster": "household", "facts": Facts(attributes=some)}
    with pytest.raises(
        DataError, match=r"users without a value in the columns of clusters: 6 \(cluster=household\)"
    ) as caught:
        evaluate(predictions, labels, METRICS, **given)
    assert caught.value.counts == {"n_missing_clusters": 6}
    dropped = evaluate(predictions, labels, METRICS, on_invalid="drop", **given)
    assert dropped.data_quality.n_missing_clusters == 6
    assert [row.mean for row in dropped.summary] == [row.mean for row in plain.summary]
    assert "6 without a cluster, each taken as one" in repr(dropped)


def test_few_clusters_are_warned_of_and_parts_of_a_person_are_noted(tables, plain):
    few = evaluate(tables[0], tables[1], "rr", cluster="country", facts=Facts(attributes=tables[2]), **OPTIONS)
    assert few.summary[0].no_interval == "the 2 clusters are as good as 1.8 equal ones, too few for an interval"
    assert any(
        re.fullmatch(r"intervals take the 2 clusters by country as independent, .*design effect [\d.]+", note)
        for note in few.notes
    )
    assert plain.notes[-1] == (
        "each person and session counts as independent; if some belong together, intervals are too narrow without the option "
        "cluster='person'"
    )
    assert not any("cluster" in note for note in evaluated(tables, ci=None).notes)


def test_slices_gaps_and_merged_days_warn_once_of_few_clusters(tables):
    words = r"clusters by person are few or unequal in 11 slices: at worst they are as good as ([\d.]+) equal ones. With fewer than 30"
    with pytest.warns(SparkRankEvalWarning, match=words) as caught:
        day = evaluated(tables, by="spend", cluster="person")
    smallest = min(row.effective_n_clusters for row in day.summary)
    with pytest.warns(SparkRankEvalWarning, match=words) as of_gaps:
        day.gaps("spend", metrics="rr")
    with pytest.warns(SparkRankEvalWarning, match=words) as sum_of_days:
        merge([day, day])
    for warnings in (caught, of_gaps, sum_of_days):
        assert [re.match(words, str(each.message))[1] for each in warnings] == [f"{smallest:.1f}"]


def test_a_detectable_difference_is_that_of_clusters(by_person):
    found = detectable_difference(by_person, "rr").iloc[0]
    row = next(row for row in by_person.summary if row.metric == "rr")
    assert found["std"] == pytest.approx(row.standard_error * math.sqrt(row.n_clusters))
    assert found["n_users"] == row.n_users
    critical, shift = stats.t.ppf(0.975, row.df), found["detectable_difference"] / row.standard_error
    assert row.df < row.n_clusters - 1
    assert stats.nct.sf(critical, row.df, shift) + stats.nct.cdf(-critical, row.df, shift) == pytest.approx(0.8)


def test_merged_days_of_the_same_people_are_no_more_certain_than_one(by_person, plain):
    row, merged = by_person.summary[0], merge([by_person, by_person]).summary[0]
    assert (merged.cluster, merged.interval_method, merged.n_users) == ("person", "t", 2 * row.n_users)
    # A few persons share a group.
    assert merged.standard_error == pytest.approx(row.standard_error, rel=0.15)
    assert row.n_clusters - 15 <= merged.n_clusters <= row.n_clusters
    assert merged.standard_error > 1.2 * merge([plain, plain]).summary[0].standard_error
    stored = Result.from_json(by_person.to_json())
    assert merge([stored, by_person]).summary[0] == merged


def test_users_without_a_cluster_or_a_name_are_one_each(tables):
    predictions, labels, about = tables
    some = about.withColumn("household", F.when(F.col("session") > 5, F.col("household")))
    given = {**OPTIONS, "facts": Facts(attributes=some), "on_invalid": "drop", "cluster": "household"}
    nameless = score_users(predictions, labels, "rr", **given).drop("person", "session").repartition(4)
    of_users = nameless.toPandas().dropna(subset=["rr"])["household"]
    row = summarise(nameless).summary[0]
    assert of_users.isna().sum() > 2
    assert row.n_clusters == of_users.nunique() + of_users.isna().sum()


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        ("street", r"cluster=\['street'\]: no table has all these columns beside the user"),
        (["person", "person"], "cluster must be a column name or a list of distinct column names"),
        (5, "cluster must be a column name"),
    ],
)
def test_wrong_clusters_are_refused(tables, result, cluster, words):
    with pytest.raises(InputError, match=words):
        evaluated(tables, cluster=cluster)
    with pytest.raises(InputError, match="cluster"):
        summarise(result.per_user, cluster=cluster)


@pytest.fixture(scope="module")
def models(tables, tmp_path_factory):
    """A table of users of three models, with clusters that its columns mark."""
    predictions, labels, about = tables
    others = {f"m{n}": predictions.withColumn("score", F.xxhash64("session", "item", F.lit(n)) * 1e-18) for n in (1, 2)}
    given = {**OPTIONS, "by": "country", "facts": Facts(attributes=about)}
    scored = score_users({"m0": predictions, **others}, labels, METRICS, cluster="person", **given)
    path = str(tmp_path_factory.mktemp("models") / "users")
    scored.write.parquet(path)
    return predictions.sparkSession.read.parquet(path)


@pytest.mark.parametrize("users", part_of(["country=FR", "all"], 2))
def test_models_are_compared_by_clusters(models, users):
    found = compare(models, "m0", replicates=399, by="country")
    frame = models.toPandas()
    frame = frame if users == "all" else frame[frame["country"] == "FR"]
    by_model = frame.set_index(["person", "session"])
    rows = [row for row in (*found.rows, *found.sliced) if row.slice == users]
    assert len(rows) == 4
    for row in rows:
        column = row.metric.replace("@", "_at_")
        values = {name: of_model[column] for name, of_model in by_model.groupby("model")}
        difference = (values[row.model] - values["m0"]).dropna()
        persons = difference.index.get_level_values("person")
        fit = WLS(difference, np.ones(len(difference))).fit(cov_type="cluster", cov_kwds={"groups": persons})
        sizes = sizes_of(persons)
        error = fit.bse.iloc[0] * correction(sizes)
        assert row.difference == pytest.approx(fit.params.iloc[0], rel=1e-9)
        assert row.standard_error == pytest.approx(error, rel=1e-9)
        p = 2 * stats.t.sf(abs(row.difference) / error, degrees_of_freedom(sizes))
        assert row.p_t == pytest.approx(p, rel=1e-6)
        assert (row.cluster, row.n_clusters, row.n_users) == ("person", persons.nunique(), len(difference))
        # Slices draw no signs.
        assert math.isnan(row.p_sign_flip) == (users != "all")
    apart = compare(models.repartition(7), "m0", replicates=399, by="country", cluster=["person"])
    assert [repr(row) for row in apart.rows] == [repr(row) for row in found.rows]
    plain = compare(models, "m0", metrics="rr", replicates=9, cluster=()).rows[0]
    assert (plain.cluster, plain.n_clusters, plain.difference) == ("", 0, found["rr", "m1"].difference)
    known = detectable_difference(found, "rr").iloc[0]
    row = found["rr", "m1"]
    assert known["std"] == pytest.approx(row.standard_error * math.sqrt(row.n_clusters))


@pytest.mark.parametrize("test", ["tukey", "games_howell", "randomised"])
def test_pairs_of_models_are_compared_by_clusters(models, test):
    found = all_pairs(models, test=test, replicates=99)
    plain = all_pairs(models, test=test, replicates=99, cluster=())
    for row, alone in zip(found, plain, strict=True):
        assert (row.difference, row.n_users) == (alone.difference, alone.n_users)
        assert row.cluster == "person"
        assert 30 <= row.n_clusters < row.n_users
        assert (row.interval_low, row.p_tukey) != (alone.interval_low, alone.p_tukey)
        assert (row.p_randomised != alone.p_randomised) or test != "randomised"
    if test == "games_howell":
        row = next(row for row in found if (row.metric, row.other, row.model) == ("rr", "m0", "m1"))
        error = abs(row.difference) / row.q
        against = compare(models, "m0", metrics="rr", replicates=9, test="t")
        assert error == pytest.approx(against["rr", "m1"].standard_error / math.sqrt(2), rel=1e-9)


def test_comparisons_refuse_users_without_a_cluster_and_tables_of_different_clusters(models):
    some = models.withColumn("person", F.when(F.col("session") != 7, F.col("person")))
    with pytest.raises(DataError, match=r"users without a value in the columns of clusters: 1 \(cluster=person\)"):
        compare(some, "m0", user="session", cluster="person", metrics="rr", replicates=9)
    one, other = (models.where(F.col("model") == name).drop("model") for name in ("m0", "m1"))
    unmarked = other.withColumn("person", F.col("person") + 0)
    with pytest.raises(
        InputError, match="the tables have different clusters: person in 'a', none in 'b'; pass cluster="
    ):
        compare({"a": one, "b": unmarked}, "a", user=["person", "session"])


def test_clusters_that_differ_between_tables_are_a_conflict(models):
    one, other = (models.where(F.col("model") == name).drop("model") for name in ("m0", "m1"))
    moved = other.withColumn("person", F.when(F.col("session") == 7, 10_000).otherwise(F.col("person")))
    call = {"user": "session", "cluster": "person", "metrics": "rr"}
    for comparing in (
        lambda: compare({"a": one, "b": moved}, "a", replicates=9, **call),
        lambda: all_pairs({"a": one, "b": moved}, **call),
    ):
        with pytest.raises(
            DataError, match="attributes or clusters that differ between rows of the same user: 1"
        ) as caught:
            comparing()
        assert caught.value.counts == {"n_conflicting_attributes": 1}


def test_a_comparison_takes_users_without_a_cluster_as_they_were_scored(tables):
    predictions, labels, about = tables
    some = about.withColumn("household", F.when(F.col("session") > 5, F.col("household")))
    given = {**OPTIONS, "facts": Facts(attributes=some), "on_invalid": "drop", "cluster": "household"}
    other = predictions.withColumn("score", -F.col("score"))
    scored = score_users({"a": predictions, "b": other}, labels, "rr", **given)
    n = scored.where("model = 'a' AND household IS NULL").count()
    assert n > 3
    note = f"users without a cluster by household: {n}; each counts as a cluster alone"
    assert note in repr(compare(scored, "a", replicates=9))
    if FULL_LENGTH:
        assert note in all_pairs(scored).notes
