"""Weights and clusters of users: figures of weighted least squares in every form of the call, and what is refused or counted."""

import math
import re

import numpy as np
import pytest
from oracles import intervals as oracle
from oracles.clusters import correction, degrees_of_freedom, effective_n, sizes_of
from pyspark.sql import functions as F
from scipy import stats
from statsmodels.regression.linear_model import WLS
from worlds.random_logs import random_logs

from spark_rankeval import (
    BCa,
    Facts,
    all_pairs,
    compare,
    detectable_difference,
    evaluate,
    score_users,
    summarise,
)
from spark_rankeval.errors import DataError, InputError, OptionError, SparkRankEvalWarning

METRICS = ["ndcg@5", "rr"]
OPTIONS = {"user": ["person", "session"], "score": "score", "relevance": "grade", "dialect": "default"}
FEATURES = {
    "weights": {"by": "country", "user_weight": "n_labels"},
    "weights by predictions": {"user_weight": "n_predictions"},
    "clusters": {"cluster": "household"},
    "clusters with weights": {"by": "country", "cluster": "person", "user_weight": "spend"},
}


@pytest.fixture(scope="module")
def tables(spark):
    logs, people = random_logs(240, 5, seed=47), [session**2 % 193 for session in range(240)]
    predictions = [(people[session], session, *pair) for session, *pair in logs.prediction_rows]
    labels = [(people[session], session, *pair) for session, *pair in logs.label_rows]
    about = [(p, s, f"household {p % 61}", "DE" if s % 3 else "FR", s * 37 % 11 / 4) for s, p in enumerate(people)]
    # An attribute of a user who is not evaluated may be anything.
    about.append((9999, 9999, None, "JP", -1.0))
    return (
        spark.createDataFrame(predictions, "person long, session long, item long, score double"),
        spark.createDataFrame(labels, "person long, session long, item long, grade double"),
        spark.createDataFrame(about, "person int, session int, household string, country string, spend double"),
    )


def run(tables, metrics=METRICS, call=evaluate, **options):
    predictions, labels, about = tables
    if any(options.get(name) in ("country", "spend", "household") for name in ("by", "user_weight", "cluster")):
        options = {"facts": Facts(attributes=about), **options}
    return call(predictions, labels, metrics, **OPTIONS, **options)


def told(result):
    """What clusters change in the rows of a summary."""
    names = ("mean", "standard_error", "interval_low", "interval_high", "cluster", "n_clusters", "design_effect")
    return [[repr(getattr(row, name)) for name in names] for row in result.summary]


def fitted(values, weights=None, clusters=None):
    """Mean, error, degrees of freedom and design effect of weighted least squares with errors that are robust or of clusters."""
    weights = np.ones(len(values)) if weights is None else weights
    model = WLS(values, np.ones(len(values)), weights=weights)
    fit = model.fit(cov_type="HC1")
    mean, error = fit.params.iloc[0], fit.bse.iloc[0]
    if clusters is None:
        return mean, error, degrees_of_freedom(weights), effective_n(weights), math.nan
    sizes, groups = sizes_of(clusters, weights), np.unique(clusters, return_inverse=True)[1]
    of_clusters = model.fit(cov_type="cluster", cov_kwds={"groups": groups}).bse.iloc[0] * correction(sizes)
    return mean, of_clusters, degrees_of_freedom(sizes), effective_n(sizes), (of_clusters / error) ** 2


@pytest.fixture(scope="module")
def results(tables):
    return {name: run(tables, **options) for name, options in FEATURES.items()}


@pytest.fixture(scope="module")
def plain(tables):
    return run(tables)


@pytest.fixture(scope="module")
def by_person(tables):
    return run(tables, cluster="person")


@pytest.mark.parametrize("name", FEATURES)
def test_figures_are_those_of_least_squares(results, name):
    options, result = FEATURES[name], results[name]
    frame, weight, cluster = result.per_user.toPandas(), options.get("user_weight"), options.get("cluster")
    for row in result.summary:
        users = frame if row.slice == "all" else frame[frame["country"] == row.slice.removeprefix("country=")]
        used = users[users[result.columns[row.key]].notna() & (users[weight] > 0 if weight else True)]
        values, weights = used[result.columns[row.key]], used[weight] if weight else None
        assert (row.n_users, row.n_zero, row.user_weight) == (len(used), (values == 0).sum(), weight or "")
        if row.slice == "country=JP":
            continue
        mean, error, df, effective, design = fitted(values, weights, used[cluster] if cluster else None)
        reach = stats.t.ppf(0.975, df) * error
        assert (row.mean, row.standard_error, row.df) == pytest.approx((mean, error, df), rel=1e-10)
        # Values from 0 to 1 of few clusters have an interval of another kind.
        if row.interval_method == "t":
            ends = oracle.interval(mean, reach, error, effective, values)
            assert (row.interval_low, row.interval_high) == pytest.approx(ends, rel=1e-10)
        variance = np.average((values - mean) ** 2, weights=weights) * len(used) / (len(used) - 1)
        assert row.std == pytest.approx(math.sqrt(variance))
        assert (row.minimum, row.maximum, row.cluster) == (values.min(), values.max(), cluster or "")
        if cluster:
            assert (row.n_clusters, row.effective_n_clusters) == (used[cluster].nunique(), pytest.approx(effective))
            assert row.design_effect == pytest.approx(design, rel=1e-9)
        else:
            assert (row.n_clusters, row.effective_n_users) == (0, pytest.approx(effective))
    if weight:
        n = (frame[weight] == 0).sum()
        assert result.data_quality.n_without_weight == n > 0
        assert f"users weighted by '{weight}'" in repr(result)
        assert f"{n} with weight 0, left out" in repr(result)


def test_a_value_of_all_lists_together_and_several_models_know_labels_alone(tables):
    models = {"a": tables[0], "b": tables[0]}, *tables[1:]
    both = run(models, ["rr", "entropy@3"], user_weight="n_labels", cluster="household")
    known = {(row.metric, row.user_weight, row.cluster, row.n_clusters > 0) for row in both.summary}
    assert known == {("rr", "n_labels", "household", True), ("entropy@3", "", "", False)}
    with pytest.raises(OptionError, match="user_weight='n_predictions' needs one model"):
        run(models, user_weight="n_predictions")


def test_a_weight_or_cluster_may_stand_in_any_table(tables, plain, by_person):
    predictions, labels, about = tables
    spent = about.selectExpr("person", "session", "cast(spend AS decimal(10, 2)) spend")
    labelled = predictions.join(labels.select("person", "session").distinct(), ["person", "session"])
    given = labelled, labels.join(spent, ["person", "session"]), None
    weighted = run(given, "rr", user_weight="spend", facts=Facts())
    users = weighted.per_user.toPandas()
    used = users[users["rr"].notna() & (users["spend"] > 0)]
    assert (used["spend"] == used["session"] * 37 % 11 / 4).all()
    assert weighted["rr"] == pytest.approx(np.average(used["rr"], weights=used["spend"].astype(float)), rel=1e-12)
    joined = summarise(plain.per_user.join(spent, ["person", "session"]), user_weight="spend")
    assert told(joined) == told(run(tables, user_weight="spend"))
    assert told(summarise(by_person.per_user, cluster=())) == told(plain)
    assert told(summarise(plain.per_user, cluster=["person"])) == told(by_person)


def test_bootstraps_draw_clusters(tables):
    drawn, plain = (run(tables, "rr", ci=BCa(replicates=200), cluster=each).summary[0] for each in ("person", ()))
    assert drawn.interval_low != plain.interval_low
    assert (drawn.interval_high - drawn.interval_low) / 2 == pytest.approx(1.96 * drawn.standard_error, rel=0.25)


# An attribute of some users, what refuses it, its count, and what a result says that leaves them out.
BAD = {
    "weights": (
        {"user_weight": "spend"},
        "CASE session WHEN 4 THEN NULL WHEN 5 THEN double('NaN') WHEN 6 THEN -1D WHEN 7 THEN double('inf') ELSE spend END",
        "users whose weight is .*: 4", {"n_invalid_weights": 4}, "4 without a usable weight, left out",
    ),
    "clusters": (
        {"cluster": "household"}, "IF(session % 40 = 7, NULL, household)", "without a value in the columns of clusters: 6",
        {"n_missing_clusters": 6}, "6 without a cluster, each taken as one",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_users_without_a_usable_weight_or_cluster_are_refused_or_counted(tables, plain, name):
    options, column, words, counts, shown = BAD[name]
    (name_of_column,) = options.values()
    wrong = *tables[:2], tables[2].withColumn(name_of_column, F.expr(column))
    for call in (run, lambda *of, **more: summarise(run(*of, call=score_users, **more))):
        with pytest.raises(DataError, match=words) as caught:
            call(wrong, **options)
        assert caught.value.counts == counts
    dropped = run(wrong, on_invalid="drop", **options)
    assert {key: getattr(dropped.data_quality, key) for key in counts} == counts
    assert shown in repr(dropped)
    if name == "clusters":
        assert [row.mean for row in dropped.summary] == [row.mean for row in plain.summary]
        # Who has neither a cluster nor a name is one of its own.
        nameless = dropped.per_user.drop("person", "session").repartition(4)
        of_users = nameless.toPandas().dropna(subset=["rr"])["household"]
        assert summarise(nameless)["rr"] == dropped["rr"]
        assert summarise(nameless).summary[1].n_clusters == of_users.nunique() + of_users.isna().sum()


@pytest.mark.parametrize("spend", [99.0, math.nan])
def test_rows_of_a_user_that_do_not_agree_on_the_weight_are_an_error(tables, spend):
    about = tables[2].withColumn("spend", F.expr("IF(session = 7, 1D, spend)"))
    twice = about.where("session = 7").withColumn("spend", F.lit(spend)).union(about).coalesce(1)
    with pytest.raises(DataError, match="session=7, spend="):
        run((*tables[:2], twice), user_weight="spend")


# Options, the words of evaluate, and those of summarise.
REFUSED = [
    ({"user_weight": "income"}, "user_weight='income': no table has all these columns", "the per-user table has no such column"),
    ({"user_weight": "country"}, "user_weight='country' must be a number; it is string", "as string, which is not a number"),
    ({"user_weight": "spend", "by": "spend"}, "is also the name of another column", None),
    ({}, "attributes has no effect", None),
    ({"cluster": "street"}, r"cluster=\['street'\]: no table has all these columns beside the user", "cluster"),
    ({"cluster": ["person", "person"]}, "cluster must be a column name or a list of distinct column names", "cluster"),
    ({"cluster": 5}, "cluster must be a column name", "cluster"),
    ({"user_weight": "n_labels", "by": "country"}, "labels has a column of that name", None),
    ({"user_weight": "n_predictions", "by": "country"}, "attributes has a column of that name", None),
]  # fmt: skip


@pytest.mark.parametrize(("options", "words", "of_users"), REFUSED)
def test_wrong_names_are_refused(tables, options, words, of_users):
    predictions, labels, about = tables
    if options.get("user_weight") == "n_labels":
        labels = labels.withColumn("n_labels", F.lit(1))
    if options.get("user_weight") == "n_predictions":
        about = about.withColumnRenamed("spend", "N_Predictions")
    with pytest.raises(InputError, match=words):
        run((predictions, labels, about), facts=Facts(attributes=about), **options)
    if of_users:
        with pytest.raises(InputError, match=of_users):
            summarise(run(tables, call=score_users, by="country"), **options)


def test_few_clusters_are_warned_of_and_parts_of_a_person_are_noted(tables, plain):
    few = run(tables, "rr", cluster="country")
    assert few.summary[0].no_interval == "the 2 clusters are as good as 1.8 equal ones, too few for an interval"
    note = r"intervals take the 2 clusters by country as independent, .*design effect [\d.]+"
    assert any(re.fullmatch(note, each) for each in few.notes)
    assert plain.notes[-1] == (
        "each person and session counts as independent; if some belong together, intervals are too narrow without the option "
        "cluster='person'"
    )
    assert not any("cluster" in note for note in run(tables, ci=None).notes)
    words = r"clusters by person are few or unequal in 11 slices: at worst they are as good as ([\d.]+) equal ones. With fewer than 30"
    with pytest.warns(SparkRankEvalWarning, match=words) as of_day:
        day = run((*tables[:2], tables[2].where("person < 1000")), by="spend", cluster="person")
    with pytest.warns(SparkRankEvalWarning, match=words) as of_gaps:
        day.gaps("spend", metrics="rr")
    smallest = min(row.effective_n_clusters for row in day.summary)
    for warned in (of_day, of_gaps):
        # An engine may leave a socket open, which is another warning.
        ours = [str(one.message) for one in warned if one.category is SparkRankEvalWarning]
        assert [re.match(words, text)[1] for text in ours] == [f"{smallest:.1f}"]


def test_detectable_differences_know_clusters(by_person, results):
    row, found = by_person.summary[1], detectable_difference(by_person, "rr").iloc[0]
    assert (found["std"], found["n_users"]) == (pytest.approx(row.standard_error * row.n_clusters**0.5), row.n_users)
    critical, shift = stats.t.ppf(0.975, row.df), found["detectable_difference"] / row.standard_error
    assert row.df < row.n_clusters - 1
    assert stats.nct.sf(critical, row.df, shift) + stats.nct.cdf(-critical, row.df, shift) == pytest.approx(0.8)
    of_weights, found = results["weights"].summary[1], detectable_difference(results["weights"], "rr").iloc[0]
    assert found["std"] == pytest.approx(of_weights.standard_error * of_weights.n_users**0.5, rel=1e-12)


# --- comparisons


@pytest.fixture(scope="module")
def models(spark, tables, tmp_path_factory):
    """A stored table of users of three models, with clusters that its columns mark."""
    predictions, labels, about = tables
    scores = {f"m{n}": predictions.withColumn("score", F.xxhash64("session", "item", F.lit(n)) * 1e-18) for n in (1, 2)}
    given = {"m0": predictions, **scores}, labels, about.where("person < 1000")
    path = str(tmp_path_factory.mktemp("models") / "users")
    run(given, call=score_users, by="country", cluster="person").write.parquet(path)
    return spark.read.parquet(path)


def test_models_are_compared_by_clusters(models):
    found = compare(models, "m0", replicates=399, by="country")
    frame = models.toPandas().set_index(["person", "session"])
    rows = [row for row in (*found.rows, *found.sliced) if row.slice in ("all", "country=FR")]
    assert len(rows) == 8
    for row in rows:
        of_slice = frame if row.slice == "all" else frame[frame["country"] == "FR"]
        values = {name: of_model[row.metric.replace("@", "_at_")] for name, of_model in of_slice.groupby("model")}
        difference = (values[row.model] - values["m0"]).dropna()
        persons = difference.index.get_level_values("person")
        mean, error, df, *_ = fitted(difference, None, persons)
        p = 2 * stats.t.sf(abs(mean) / error, df)
        assert (row.difference, row.standard_error, row.p_t) == pytest.approx((mean, error, p), rel=1e-6)
        assert (row.cluster, row.n_clusters, row.n_users) == ("person", persons.nunique(), len(difference))
        # Slices draw no signs.
        assert math.isnan(row.p_sign_flip) == (row.slice != "all")
    apart = compare(models.repartition(7), "m0", replicates=399, by="country", cluster=["person"])
    assert [repr(row) for row in apart.rows] == [repr(row) for row in found.rows]
    plain = compare(models, "m0", metrics="rr", replicates=9, cluster=()).rows[0]
    assert (plain.cluster, plain.n_clusters, plain.difference) == ("", 0, found["rr", "m1"].difference)
    row, std = found["rr", "m1"], detectable_difference(found, "rr").iloc[0]["std"]
    assert std == pytest.approx(row.standard_error * math.sqrt(row.n_clusters))


@pytest.mark.parametrize("test", ["tukey", "games_howell", "randomised"])
def test_pairs_of_models_are_compared_by_clusters(models, test):
    found, plain = (all_pairs(models, test=test, replicates=99, **options) for options in ({}, {"cluster": ()}))
    for row, alone in zip(found, plain, strict=True):
        assert (row.difference, row.n_users, row.cluster) == (alone.difference, alone.n_users, "person")
        assert 30 <= row.n_clusters < row.n_users
        assert (row.interval_low, row.p_tukey) != (alone.interval_low, alone.p_tukey)
        assert (row.p_randomised != alone.p_randomised) or test != "randomised"
    if test == "games_howell":
        row = next(row for row in found if (row.metric, row.other, row.model) == ("rr", "m0", "m1"))
        against = compare(models, "m0", metrics="rr", replicates=9, test="t")
        assert abs(row.difference) / row.q == pytest.approx(against["rr", "m1"].standard_error / math.sqrt(2), rel=1e-9)


def test_comparisons_refuse_clusters_that_are_missing_or_differ_and_note_weights(tables, models):
    one, other = (models.where(F.col("model") == name).drop("model") for name in ("m0", "m1"))
    call = {"user": "session", "cluster": "person", "metrics": "rr"}
    some = models.withColumn("person", F.expr("IF(session = 7, NULL, person)"))
    with pytest.raises(DataError, match=r"users without a value in the columns of clusters: 1 \(cluster=person\)"):
        compare(some, "m0", replicates=9, **call)
    unmarked = {"a": one, "b": other.withColumn("person", F.col("person") + 0)}
    words = "the tables have different clusters: person in 'a', none in 'b'; pass cluster="
    with pytest.raises(InputError, match=words):
        compare(unmarked, "a", user=["person", "session"])
    moved = {"a": one, "b": other.withColumn("person", F.expr("IF(session = 7, 10000, person)"))}
    words = "attributes or clusters that differ between rows of the same user: 1"
    for comparing in (lambda: compare(moved, "a", replicates=9, **call), lambda: all_pairs(moved, **call)):
        with pytest.raises(DataError, match=words) as caught:
            comparing()
        assert caught.value.counts == {"n_conflicting_attributes": 1}
    predictions, labels, about = tables
    about = about.withColumn("household", F.expr("IF(session > 5, household, NULL)")).where("person < 1000")
    pair = {"a": predictions, "b": predictions.withColumn("score", -F.col("score"))}, labels, about
    scored = run(pair, "rr", call=score_users, on_invalid="drop", cluster="household", user_weight="spend")
    n = scored.where("model = 'a' AND household IS NULL").count()
    with pytest.warns(SparkRankEvalWarning, match=r"ignores the weights in 'spend'"):
        compared = compare(scored, "a", replicates=9)
    assert f"users without a cluster by household: {n}; each counts as a cluster alone" in repr(compared)
