"""Slices of the users by their attributes."""

import math
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from chispa import assert_df_equality
from helpers.effort import FULL_LENGTH, part_of
from pyspark.sql import functions as F
from worlds.random_logs import random_logs

from spark_rankeval import BCa, Cube, Facts, Vectors, compare, evaluate, merge, score_users, summarise
from spark_rankeval.errors import DataError, InputError, OptionError, SparkRankEvalWarning
from spark_rankeval.jobs.outputs import metrics_table
from spark_rankeval.spark import describing as scoring
from spark_rankeval.worker import states

METRICS = ["ndcg@5", "recall@3", "rr"]
FIELDS = (
    "metric",
    "mean",
    "std",
    "n_users",
    "n_undefined",
    "minimum",
    "maximum",
    "interval_low",
    "interval_high",
    "median",
)
OPTIONS = {"score": "score", "relevance": "grade"}
COUNTRIES, DEVICES = ("DE", "FR", None), ("ios", "web")


def country(user):
    return COUNTRIES[user % 3]


@pytest.fixture(scope="module")
def tables(spark):
    logs = random_logs(120, 5, seed=41)
    predictions = [(u, i, s) for u, pairs in enumerate(logs.predictions) for i, s in pairs]
    labels = [(u, i, g) for u, pairs in enumerate(logs.labels) for i, g in pairs]
    about = [(u, country(u), DEVICES[u % 2]) for u in range(120)]
    # Nobody of JP is evaluated, and one user of Germany neither.
    about += [(5000, "JP", "web"), (5001, "DE", "ios")]
    return (
        spark.createDataFrame(predictions, "user long, item long, score double"),
        spark.createDataFrame(labels, "user long, item long, grade double"),
        spark.createDataFrame(about, "user int, country string, device string"),
    )


@pytest.fixture(scope="module")
def whole(tables):
    """Of all users, without slices."""
    return evaluate(*tables[:2], METRICS, **OPTIONS)


@pytest.fixture(scope="module")
def by_country(tables):
    return evaluate(*tables[:2], METRICS, by="country", facts=Facts(attributes=tables[2]), **OPTIONS)


@pytest.fixture(scope="module")
def by_device(tables):
    return evaluate(*tables[:2], METRICS, by="device", facts=Facts(attributes=tables[2]), **OPTIONS)


def figures(rows):
    return [tuple(getattr(row, name) for name in FIELDS) for row in rows]


def same(one, two):
    return repr(figures(one)) == repr(figures(two))


def test_a_slice_has_the_figures_of_its_users_alone(tables, whole, by_country):
    predictions, labels, about = tables
    result = by_country
    assert [row.slice for row in result.summary[:: len(METRICS)]] == [
        "all",
        "country=DE",
        "country=FR",
        "country=JP",
        "country=null",
    ]
    assert same(result.summary[:3], whole.summary)
    assert result["ndcg@5"] == whole["ndcg@5"]
    assert result.data_quality == whole.data_quality
    for name in ("FR", None):
        users = about.where(F.col("country").eqNullSafe(name)).select(F.col("user").cast("long").alias("user"))
        alone = evaluate(predictions.join(users, "user"), labels.join(users, "user"), METRICS, **OPTIONS)
        mine = [row for row in result.summary if row.slice == f"country={name or 'null'}"]
        assert same(mine, alone.summary)
    empty = [row for row in result.summary if row.slice == "country=JP"]
    assert {row.n_users for row in empty} == {0}
    assert all(math.isnan(row.mean) for row in empty)
    assert {row.no_interval for row in empty} == {"no user"}
    assert len(result.slices) == 4 * len(METRICS)
    assert "users with country=FR" in repr(result)


def test_totals_are_those_of_a_cube(tables, by_country):
    predictions, labels, about = tables
    cube = evaluate(
        predictions, labels, METRICS, by=Cube("country", "device"), facts=Facts(attributes=about), **OPTIONS
    )
    finest = evaluate(predictions, labels, METRICS, by=["country", "device"], facts=Facts(attributes=about), **OPTIONS)
    slices = {row.slice for row in cube.summary}
    assert {"all", "country=DE", "device=ios", "country=DE, device=ios", "country=null, device=web"} <= slices
    for part in (finest, by_country):
        names = {row.slice for row in part.summary}
        assert names <= slices
        for name in names:
            assert same([r for r in cube.summary if r.slice == name], [r for r in part.summary if r.slice == name])
    assert sum(r.n_users for r in cube.summary if r.slice in ("device=ios", "device=web") and r.metric == "rr") == (
        cube.summary[2].n_users
    )


@pytest.mark.parametrize("side", part_of(["labels", "predictions", "users"], 2))
def test_attributes_may_stand_in_the_other_tables(tables, by_device, side):
    predictions, labels, about = tables
    about = about.where("user < 1000").withColumn("user", F.col("user").cast("long"))
    given = {"predictions": predictions, "labels": labels, "users": about.limit(0).select("user")}
    known = labels if side == "labels" else predictions
    if side == "users":
        given["users"] = about.join(
            predictions.select("user").union(labels.select("user")).distinct(), "user", "left_semi"
        )
    else:
        given[side] = given[side].join(about, "user", "left")
    result = evaluate(given["predictions"], given["labels"], METRICS, by=["device"], users=given["users"], **OPTIONS)
    if side == "users":
        assert same(result.summary, by_device.summary)
    else:
        # Users that this table does not know have no device.
        unknown = (
            predictions.select("user").union(labels.select("user")).distinct().join(known, "user", "left_anti").count()
        )
        assert unknown > 0
        assert (
            sum(r.n_users + r.n_undefined for r in result.summary if r.slice == "device=null" and r.metric == "rr")
            == unknown
        )


def test_arrays_and_several_models_have_slices(tables, by_device):
    predictions, labels, about = tables
    models = {"one": predictions, "two": predictions.withColumn("score", -F.col("score"))}
    result = evaluate(models, labels, METRICS, by="device", facts=Facts(attributes=about), **OPTIONS)
    assert same([row for row in result.summary if row.model == "one"], by_device.summary)
    if FULL_LENGTH:
        turned = evaluate(models["two"], labels, METRICS, by="device", facts=Facts(attributes=about), **OPTIONS)
        assert same([row for row in result.summary if row.model == "two"], turned.summary)
    arrays = labels.groupBy("user").agg(F.collect_list("item").alias("item"), F.collect_list("grade").alias("grade"))
    of_arrays = evaluate(predictions, arrays, METRICS, by="device", facts=Facts(attributes=about), **OPTIONS)
    assert same(of_arrays.summary, by_device.summary)
    one_table = (
        predictions.groupBy("user").agg(F.collect_list("item").alias("prediction"))
        .join(arrays.select("user", F.col("item").alias("label")), "user").join(about, "user")
    )  # fmt: skip
    assert {row.slice for row in evaluate(one_table, None, METRICS, by="device").summary} == {
        "all",
        "device=ios",
        "device=web",
    }


def test_the_per_user_table_keeps_the_slices_and_is_summarised_by_them(spark, tables, by_country, tmp_path):
    predictions, labels, about = tables
    known = about.where("country is null or country <> 'JP'")
    result = evaluate(predictions, labels, METRICS, by=["country", "device"], facts=Facts(attributes=known), **OPTIONS)
    written = result.write(tmp_path / "written")
    assert (written.summary, written.qualities) == (result.summary, result.qualities)
    stored = spark.read.parquet(str(tmp_path / "written"))
    assert stored.columns[:3] == ["user", "country", "device"]
    again = {row.slice: row for row in summarise(stored, by="country").summary if row.metric == "rr"}
    expected = {row.slice: row for row in by_country.summary if row.metric == "rr" and row.slice != "country=JP"}
    assert again == expected
    assert summarise(stored).summary == result.summary[: len(METRICS)]
    if FULL_LENGTH:
        plain = score_users(predictions, labels, METRICS, **OPTIONS)
        ignored = {"ignore_row_order": True, "allow_nan_equality": True, "ignore_metadata": True}
        assert_df_equality(stored.drop("country", "device", "attributes_hash"), plain, **ignored)
    with pytest.raises(InputError, match="no column 'city'; it can be sliced by: country, device"):
        summarise(stored, by="city")


def test_an_attribute_that_is_not_constant_within_a_user_is_a_counted_error(tables):
    predictions, labels, about = tables
    # One of these seven users is in neither table.
    other = about.where("user < 7").withColumn("device", F.lit("tv"))
    with pytest.raises(
        DataError, match=r"attributes that differ between rows of the same user: 6 \(for example user=\d has device"
    ) as caught:
        evaluate(predictions, labels, METRICS, by="device", facts=Facts(attributes=about.unionByName(other)), **OPTIONS)
    assert caught.value.counts == {"n_conflicting_attributes": 6}
    result = evaluate(
        predictions,
        labels,
        METRICS,
        by="device",
        facts=Facts(attributes=about.unionByName(other)),
        on_invalid="drop",
        **OPTIONS,
    )
    assert result.data_quality.n_conflicting_attributes == 6
    assert sum(r.n_users + r.n_undefined for r in result.summary if r.slice == "device=null" and r.metric == "rr") > 0


def test_a_user_to_count_who_is_in_neither_table_is_in_a_slice(tables, by_country):
    predictions, labels, about = tables
    # 5001 is of Germany; of 5000 alone the attributes know.
    users = about.where("user = 5001").select("user")
    result = evaluate(predictions, labels, METRICS, by="country", facts=Facts(attributes=about), users=users, **OPTIONS)
    assert result.data_quality.n_users == by_country.data_quality.n_users + 1
    more = {
        row.slice: row.n_undefined - other.n_undefined
        for row, other in zip(result.summary, by_country.summary, strict=True)
    }
    assert more == {"all": 1, "country=DE": 1, "country=FR": 0, "country=JP": 0, "country=null": 0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": ["city"]}, r"by=\['city'\]: no table has all these columns beside the user"),
        ({"by": ["country", "country"]}, "a list of distinct column names"),
        ({"by": 3}, "a list of distinct column names"),
        ({"by": ["user"]}, "'user' is also the name of another column"),
        ({"by": ["country", "COUNTRY"]}, "'country' is also the name of another column"),
        ({}, "attributes has no effect"),
    ],
)
def test_slices_that_cannot_be_made_are_errors(tables, options, message):
    predictions, labels, about = tables
    with pytest.raises(InputError, match=message):
        evaluate(predictions, labels, METRICS, facts=Facts(attributes=about), **OPTIONS, **options)


@pytest.mark.parametrize("run", [evaluate, score_users])
def test_an_attribute_named_like_the_column_of_models_is_an_error(tables, run):
    predictions, labels, about = tables
    models = {"one": predictions, "other": predictions}
    with pytest.raises(InputError, match="'Model' is also the name of another column of the per-user table"):
        run(
            models,
            labels,
            METRICS,
            by="Model",
            facts=Facts(attributes=about.withColumnRenamed("country", "Model")),
            **OPTIONS,
        )


@pytest.mark.filterwarnings("ignore:there are no labels")
@pytest.mark.parametrize("n_models", part_of([2, 1], 2))
def test_nobody_at_all_is_a_slice_of_all(tables, n_models):
    predictions, labels, about = (table.limit(0) for table in tables)
    models = predictions if n_models == 1 else {"one": predictions, "another": predictions}
    options = {**OPTIONS, "by": Cube("country", "device"), "facts": Facts(attributes=about)}
    result = evaluate(models, labels, METRICS, **options)
    assert [row.slice for row in result.summary] == ["all"] * len(METRICS) * n_models
    assert result.models == ([""] if n_models == 1 else ["one", "another"])
    assert math.isnan(result.summary[0].mean)
    assert result.data_quality.n_users == 0
    summarised = summarise(score_users(models, labels, METRICS, **options), by=["country", "device"])
    assert (same(summarised.summary, result.summary), summarised.models) == (True, result.models)


def test_no_value_and_the_text_null_are_two_slices(spark, tables):
    predictions, labels, _ = tables
    about = spark.createDataFrame([(u, ("null", None)[u % 2]) for u in range(120)], "user long, country string")
    result = evaluate(predictions, labels, ["rr"], by="country", facts=Facts(attributes=about), **OPTIONS)
    assert sorted(row.slice for row in result.summary) == ["all", "country='null'", "country=null"]


def test_rows_of_nobody_are_no_slice(tables):
    predictions, labels, about = tables
    nobody = predictions.union(predictions.limit(1).withColumn("user", F.lit(None).cast("long")))
    told = {"by": "device", "on_invalid": "drop", "dialect": "default", **OPTIONS}
    found = evaluate(nobody, labels, METRICS, facts=Facts(attributes=about), **told)
    assert {row.slice for row in found.summary} == {"all", "device=ios", "device=web"}
    assert found.data_quality.n_invalid_predictions == 1
    if FULL_LENGTH:
        again = summarise(score_users(nobody, labels, METRICS, facts=Facts(attributes=about), **told), by="device")
        assert again.to_dict() == found.to_dict()


def test_a_table_without_metadata_is_told_what_its_columns_are(spark, tables, tmp_path):
    predictions, labels, about = tables
    both = {"a": predictions, "b": predictions.withColumn("score", -F.col("score"))}
    per_user = score_users(both, labels, METRICS, by="country", facts=Facts(attributes=about), **OPTIONS)
    per_user.write.csv(str(tmp_path / "csv"), header=True)
    stored = spark.read.csv(str(tmp_path / "csv"), header=True, inferSchema=True)
    with pytest.warns(SparkRankEvalWarning) as warned:
        found = summarise(stored, user="user", model="model", by="country")
    assert any("read as metrics: ndcg_at_5, recall_at_3, rr" in str(one.message) for one in warned)
    fresh = summarise(per_user, by="country")
    assert found.models == ["a", "b"]
    assert [row.mean for row in found.summary] == pytest.approx([row.mean for row in fresh.summary], nan_ok=True)
    with pytest.raises(InputError, match="user='who': the per-user table has no such column"):
        summarise(stored, user="who")


def test_more_slices_than_the_driver_holds_are_refused_with_their_number(tables, monkeypatch):
    predictions, labels, about = tables
    monkeypatch.setattr(scoring, "_MOST_FIGURES", 8)
    with pytest.raises(OptionError, match=r"^4 slices × 3 values do not fit into memory; use attributes with fewer"):
        evaluate(predictions, labels, METRICS, by="country", facts=Facts(attributes=about), **OPTIONS)


def test_replicates_that_no_worker_holds_are_refused_before_any_job(tables, jobs_of, monkeypatch):
    predictions, labels, about = tables
    # Without slices there is room for more. Here is a hundredth of both: the driver makes an empty state to measure it.
    assert states.MERGED_BYTES < scoring._LARGEST_STATE
    monkeypatch.setattr(scoring, "MERGED_BYTES", states.MERGED_BYTES // 100)
    monkeypatch.setattr(scoring, "_LARGEST_STATE", scoring._LARGEST_STATE // 100)

    def calls():
        with pytest.raises(OptionError, match="3 values × 10,000 replicates do not fit into memory; use fewer"):
            evaluate(
                predictions,
                labels,
                METRICS,
                **OPTIONS,
                ci=BCa(replicates=10**4),
                by="country",
                facts=Facts(attributes=about),
            )
        with pytest.raises(OptionError, match="3 values × 100,000 replicates do not fit into memory"):
            summarise(score_users(predictions, labels, METRICS, **OPTIONS), ci=BCa(replicates=10**5))

    assert jobs_of(calls) == 0


# Groups of items. Item 3 is in two groups, item 4 in none, and the table lacks items from 9 on.
GENRES = {0: ["x"], 1: ["y"], 2: ["x"], 3: ["x", "y"], 4: [], 5: None, 6: ["y"], 7: ["x"], 8: ["z"]}
CUT = ["ndcg@5", "recall@3", "ap@3"]


@pytest.fixture(scope="module")
def films(spark):
    return spark.createDataFrame(list(GENRES.items()), "item long, genre array<string>")


@pytest.fixture(scope="module")
def by_genre(tables, films):
    """Two models by genre and country."""
    predictions, labels, users = tables
    models = {"a": predictions, "b": predictions.withColumn("score", -F.col("score"))}
    facts = Facts(attributes=users, items=films, item_by="genre")
    return evaluate(models, labels, CUT, by="country", facts=facts, **OPTIONS)


def of_group(group):
    """A condition on items: whether they are in a group."""
    if group == "(not in items)":
        return ~F.col("item").isin([*GENRES])
    return F.col("item").isin([item for item, genres in GENRES.items() if group in (genres or [None])])


@pytest.mark.parametrize("group", part_of(["y", None, "(not in items)", "x", "z"], 5))
def test_a_group_of_items_has_the_figures_of_an_evaluation_of_its_labels_alone(tables, by_genre, group):
    predictions, labels, users = tables
    alone = evaluate(
        {"a": predictions, "b": predictions.withColumn("score", -F.col("score"))}, labels.where(of_group(group)), CUT,
        by="country", users=labels.select("user"), facts=Facts(attributes=users), **OPTIONS,
    )  # fmt: skip
    name = f"item genre={'null' if group is None else group}"
    expected = {(row.model, row.slice, row.metric): row for row in alone.summary if row.n_users}
    rows = [row for row in by_genre.summary if row.slice == name or row.slice.startswith(f"{name}, ")]
    assert rows
    found = {(row.model, row.slice.removeprefix(name).removeprefix(", ") or "all", row.metric): row for row in rows}
    assert {place for place, row in found.items() if row.n_users} == set(expected)
    for place, row in expected.items():
        assert repr(figures([found[place]])) == repr(figures([row]))


@pytest.mark.filterwarnings("ignore:clusters by home are few", "ignore:the per-user table has no")
def test_clusters_of_a_group_of_items_are_those_of_an_evaluation_of_its_labels_alone(tables, films):
    predictions, labels, users = tables
    homes = users.withColumn("home", F.when(F.col("user") != 7, F.col("user") % 70).cast("string"))
    options = {**OPTIONS, "by": "country", "cluster": "home", "on_invalid": "drop"}
    training = labels.where("item < 6")
    facts = Facts(attributes=homes, items=films, item_by="genre", training=training, popularity_groups=2)
    grouped = evaluate(predictions, labels, CUT, facts=facts, **options)
    for condition, name in (
        (None, ""),
        (of_group("y"), "item genre=y"),
        ("item >= 6", "item popularity=(not in training)"),
    ):
        alone = evaluate(
            predictions, labels if condition is None else labels.where(condition), CUT,
            users=labels.select("user"), facts=Facts(attributes=homes), **options,
        )  # fmt: skip
        expected = {(row.slice, row.metric): row for row in alone.summary if row.n_users}
        found = {
            (row.slice.removeprefix(name).removeprefix(", ") or "all", row.metric): row
            for row in grouped.summary
            if (row.slice == name or row.slice.startswith(f"{name}, ") if name else not row.slice.startswith("item"))
        }
        assert {("all", "recall@3"), ("country=DE", "recall@3")} <= {*expected}
        for place, row in expected.items():
            assert repr(figures([found[place]])) == repr(figures([row]))
            assert (found[place].cluster, found[place].n_clusters) == ("home", row.n_clusters)
            assert row.n_clusters > 1
    of_pairs = grouped.per_item_group.where("item_group = 'y'")
    assert summarise(of_pairs, quantiles=())["recall@3"] == pytest.approx(grouped["recall@3", "item genre=y"])
    rows = {row.metric: row for row in summarise(of_pairs, quantiles=()).summary}
    told = {row.metric: row for row in grouped.summary if row.slice == "item genre=y"}
    assert (rows["ap@3"].cluster, rows["ap@3"].n_clusters) == ("home", told["ap@3"].n_clusters)
    assert rows["ap@3"].interval_low == pytest.approx(told["ap@3"].interval_low)


def test_groups_of_items_change_no_other_figure_and_are_told(by_genre, by_country):
    of_users = [row for row in by_genre.summary if row.model == "a" and "item" not in row.slice]
    others = [row for row in by_country.summary if row.metric in CUT]
    by_name = {(row.slice, row.metric): row for row in of_users}
    for row in others:
        assert repr(figures([by_name[row.slice, row.metric]])) == repr(figures([row]))
    sizes = {group.group: group.n_items for group in by_genre.item_groups}
    assert sizes == {"x": 4, "y": 3, "z": 1, None: 2, "(not in items)": 0}
    assert by_genre.data_quality.n_unlisted_labels > 0
    again = type(by_genre).from_json(by_genre.to_json())
    assert again.item_groups == by_genre.item_groups
    with pytest.raises(InputError, match="there are no slices by 'item genre'"):
        by_genre.gaps("item genre")


def test_merged_runs_say_which_groups_of_items_may_differ(spark, by_genre):
    told = [{**row, "n_items": row["n_items"] + 1} for row in by_genre.to_dict()["item_groups"]]
    rows = tuple(replace(row, fingerprints={**row.fingerprints, "items": "0" * 32}) for row in by_genre.summary)
    runs = {"a": by_genre, "b": replace(by_genre, summary=rows)}
    first, second = (
        metrics_table(spark, run, datetime.now(UTC)).selectExpr("*", f"'{name}' run_id") for name, run in runs.items()
    )
    table = first.union(second)
    alone = merge(table)
    assert "not known whether all summaries have the same items in item genre=(not in items)" in str(alone)
    manifests = [{"run_id": name, **run.to_dict()} for name, run in runs.items()]
    known = merge(table, manifests)
    assert (known.item_groups, known.notes) == (by_genre.item_groups, ())
    unlike = merge(table, [manifests[0], {**manifests[1], "item_groups": told}])
    assert "the summaries differ in the items of item genre=(not in items)" in str(unlike)
    assert (alone.item_groups, unlike.item_groups) == ((), ())


def test_the_table_of_users_and_groups_has_the_means_of_the_summary(by_genre):
    table = by_genre.per_item_group.toPandas()
    assert list(table.columns) == [
        "user",
        "item_attribute",
        "item_group",
        "country",
        "model",
        "ndcg_at_5",
        "recall_at_3",
        "ap_at_3",
    ]
    means = table.groupby(["model", "item_group"], dropna=False)[["ndcg_at_5", "ap_at_3"]].mean()
    for (model, group), mean in means.iterrows():
        name = f"item genre={'null' if not isinstance(group, str) else group}"
        assert by_genre[model, "ndcg@5", name] == pytest.approx(mean["ndcg_at_5"], nan_ok=True)
        assert by_genre[model, "ap@3", name] == pytest.approx(mean["ap_at_3"], nan_ok=True)
    compared = compare(by_genre.per_item_group.where("item_group = 'x'"), baseline="a", metrics="ndcg@5")
    difference = by_genre["b", "ndcg@5", "item genre=x"] - by_genre["a", "ndcg@5", "item genre=x"]
    assert [row.difference for row in compared.rows] == pytest.approx([difference])


def test_arrays_popularity_and_shares(spark, tables, films):
    predictions, labels, _ = tables
    metrics = ["recall@3", "hit_share@3", "exposure_share@3"]
    facts = Facts(items=films, item_by=["genre"], training=labels.where("item < 6"), popularity_groups=3)
    ordered = predictions.dropDuplicates(["user", "item"])
    rows = evaluate(ordered, labels.select("user", "item"), metrics, score="score", facts=facts, on_invalid="drop")
    edges = {
        group.group: (group.n_items, group.least, group.most)
        for group in rows.item_groups
        if group.attribute == "popularity"
    }
    counts = sorted(row["count"] for row in labels.where("item < 6").distinct().groupBy("item").count().collect())
    assert sum(n for n, _, _ in edges.values()) == len(counts) == 6
    assert (edges["1"][1], edges["3"][2]) == (counts[0], counts[-1])
    assert edges["(not in training)"] == (0, 0, 0)
    for metric in ("hit_share@3", "exposure_share@3"):
        shares = [row.mean for row in rows.summary if row.metric == metric and row.slice.startswith("item popularity=")]
        assert sum(shares) == pytest.approx(1)
    pairs = ordered.groupBy("user").agg(F.sort_array(F.collect_list(F.struct(-F.col("score"), "item"))).alias("sorted"))
    arrays = pairs.select("user", F.col("sorted.item").alias("prediction"))
    wanted = labels.groupBy("user").agg(F.collect_list("item").alias("label"))
    one_table = arrays.join(wanted, "user", "full").select(
        "user", *(F.coalesce(name, F.array().cast("array<bigint>")).alias(name) for name in ("prediction", "label"))
    )
    alone = Facts(items=films, item_by=["genre"], training=labels.where("item < 6"), popularity_groups=3)
    of_arrays = evaluate(one_table, None, "recall@3", item=("prediction", "label"), facts=alone, on_invalid="drop")
    expected = {row.slice: row.mean for row in rows.summary if row.metric == "recall@3"}
    assert {row.slice: row.mean for row in of_arrays.summary} == pytest.approx(expected, nan_ok=True)
    assert f"{of_arrays.data_quality.n_unlisted_labels:,} labels of items that the table of items lacks" in str(
        of_arrays
    )


def test_metrics_and_groups_by_popularity_share_one_table_of_it(tables):
    predictions, labels, _ = tables
    training = {"training": labels.where("item < 6")}
    metrics = ["average_popularity@3", "popreo@3", "recall@3"]
    both, groups, facts = (
        evaluate(predictions, labels, asked, facts=Facts(**training, popularity_groups=n_groups), **OPTIONS)
        for asked, n_groups in ((metrics, 3), (metrics[-1:], 3), (metrics, None))
    )
    assert both.item_groups == groups.item_groups
    of_groups = [row for row in both.summary if row.slice != "all" and row.metric == "recall@3"]
    assert of_groups
    assert [*map(repr, of_groups)] == [repr(row) for row in groups.summary if row.slice != "all"]
    assert [repr(row) for row in both.summary if row.slice == "all"] == [*map(repr, facts.summary)]


@pytest.mark.parametrize("from_vectors", [False, True], ids=["lists", "vectors"])
def test_groups_of_items_of_lists_or_vectors_with_exclusions_relevances_and_a_dialect(tables, films, from_vectors):
    lists, labels, _ = tables
    unlabelled = lists.select("user", "item").join(labels, ["user", "item"], "left_anti")
    options = {
        "relevance": ["grade", "liked"], "dialect": "standard", "exclude": unlabelled.where("item % 5 = user % 5"),
        **({} if from_vectors else {"score": "score"}),
    }  # fmt: skip
    items = films.select("item", F.array(F.sin("item"), F.cos("item")).alias("vector"))
    users = lists.select("user", F.array(F.sin("user"), F.cos("user")).alias("vector")).distinct()
    predictions = Vectors(users, items) if from_vectors else lists
    wanted = labels.withColumn("liked", F.col("item") % 2 * F.col("grade"))
    grouped, alone = (
        evaluate(predictions, each, CUT, facts=facts, **options)
        for each, facts in ((wanted, Facts(items=films, item_by="genre")), (wanted.where(of_group("x")), Facts()))
    )
    expected = {row.key: (row.mean, row.std, row.n_users) for row in alone.summary}
    found = {row.key: (row.mean, row.std, row.n_users) for row in grouped.summary if row.slice == "item genre=x"}
    assert found == expected
    assert len(found) == 2 * len(CUT)
    assert min(n for _, _, n in found.values()) > 10


def test_groups_of_items_survive_pruned_ties_weights_bootstraps_and_storage(tables, films, tmp_path):
    predictions, labels, users = tables
    tied = predictions.withColumn("score", F.round(F.col("score"), 1))
    facts = Facts(attributes=users.withColumn("weight", F.col("user") % 3 + 1.0), items=films, item_by="genre")
    options = {**OPTIONS, "facts": facts, "user_weight": "weight", "ci": BCa(replicates=100)}
    pruned, whole = (evaluate(tied, labels, CUT, prune=prune, **options) for prune in ("auto", "never"))
    assert [*map(repr, pruned.summary)] == [*map(repr, whole.summary)]
    assert any(row.interval_method == "bca" for row in whole.summary if row.slice.startswith("item"))
    written = pruned.write(tmp_path / "users")
    assert [*map(repr, written.summary)] == [*map(repr, pruned.summary)]
    assert written.item_groups == pruned.item_groups


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"item_by": "genre"}, "item_by needs a table"),
        ({"popularity_groups": 10}, "popularity_groups needs a table"),
        ({"items": "films", "item_by": "studio"}, "items has no column 'studio'"),
        ({"items": "films", "item_by": ["genre", "GENRE"]}, "item_by names 'genre' twice"),
    ],
)
def test_groups_of_items_need_tables_and_columns(tables, films, facts, message):
    given = {**facts, **({"items": films} if "items" in facts else {})}
    with pytest.raises(InputError, match=message):
        evaluate(*tables[:2], METRICS, facts=Facts(**given), **OPTIONS)


def test_what_groups_of_items_cannot_do_is_refused(tables, films):
    with pytest.raises(InputError, match="hit_share@3: a share of a group of items; name the groups"):
        evaluate(*tables[:2], ["hit_share@3"], **OPTIONS)
    rows = films.union(films.sparkSession.createDataFrame([(None, ["x"])], films.schema))
    with pytest.raises(DataError, match="items"):
        evaluate(*tables[:2], METRICS, facts=Facts(items=rows, item_by="genre"), **OPTIONS)
