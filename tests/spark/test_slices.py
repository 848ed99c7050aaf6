"""Slices of the users by their attributes, and of their labels by groups of items."""

import math
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from chispa import assert_df_equality
from helpers.effort import FULL_LENGTH, part_of
from pyspark.sql import functions as F
from worlds.two_models import GENRES, METRICS, OPTIONS

from spark_rankeval import BCa, Cube, Facts, Vectors, compare, evaluate, merge, score_users, summarise
from spark_rankeval.errors import DataError, InputError, OptionError, SparkRankEvalWarning
from spark_rankeval.jobs.outputs import metrics_table
from spark_rankeval.spark import describing as scoring
from spark_rankeval.worker import states

FIELDS = (
    "metric", "mean", "std", "n_users", "n_undefined", "minimum", "maximum", "interval_low", "interval_high", "median",
)  # fmt: skip
CUT = ["ndcg@5", "recall@3", "ap@3"]
BOTH = Cube("country", "device")


@pytest.fixture(scope="module")
def tables(two_models_tables):
    return two_models_tables[:3]


@pytest.fixture(scope="module")
def films(two_models_tables):
    return two_models_tables.films


@pytest.fixture(scope="module")
def result(two_models_result):
    """Two models by country, device and both, and by genre."""
    return two_models_result


@pytest.fixture(scope="module")
def by_country(tables):
    return evaluate(*tables[:2], METRICS, by="country", facts=Facts(attributes=tables[2]), **OPTIONS)


def figures(rows):
    return [tuple(getattr(row, name) for name in FIELDS) for row in rows]


def same(one, two):
    return repr(figures(one)) == repr(figures(two))


def rows_of(result, *parts, model="als"):
    """The rows of a model in all and in slices by these attributes."""
    names = ("all", *(f"{part}=" for part in parts))
    return [
        row for row in result.summary if row.model == model and "," not in row.slice and row.slice.startswith(names)
    ]


def test_a_slice_has_the_figures_of_its_users_alone(tables, result, by_country):
    predictions, labels, about = tables
    rows, n = rows_of(result, "country"), len(METRICS)
    assert [row.slice for row in rows[::n]] == ["all", "country=DE", "country=FR", "country=JP", "country=null"]
    assert same(rows, by_country.summary)
    whole = evaluate(predictions, labels, METRICS, **OPTIONS)
    assert same(rows[:n], whole.summary)
    assert by_country["ndcg@5"] == whole["ndcg@5"]
    assert by_country.data_quality == whole.data_quality
    for name in ("FR", None):
        users = about.where(F.col("country").eqNullSafe(name)).select(F.col("user").cast("long").alias("user"))
        alone = evaluate(predictions.join(users, "user"), labels.join(users, "user"), METRICS, **OPTIONS)
        assert same([row for row in rows if row.slice == f"country={name or 'null'}"], alone.summary)
    empty = [row for row in rows if row.slice == "country=JP"]
    assert {(row.n_users, row.no_interval) for row in empty} == {(0, "no user")}
    assert all(math.isnan(row.mean) for row in empty)
    assert len(by_country.slices) == 4 * n
    assert {"country=FR", "country=JP"} <= {line.split()[0] for line in repr(by_country).splitlines() if line}


@pytest.fixture(scope="module")
def finest(tables):
    predictions, labels, about = tables
    known = about.where("country is null or country <> 'JP'")
    return evaluate(predictions, labels, METRICS, by=["country", "device"], facts=Facts(attributes=known), **OPTIONS)


def test_totals_are_those_of_a_cube(result, finest):
    cube = {}
    for row in result.summary:
        if row.model == "als" and not row.slice.startswith("item "):
            cube.setdefault(row.slice, []).append(row)
    assert {"all", "country=DE", "device=ios", "country=DE, device=ios", "country=null, device=web"} <= {*cube}
    names = {row.slice for row in finest.summary}
    assert names == {"all", *(name for name in cube if "," in name and "JP" not in name)}
    for name in names:
        assert same(cube[name], [row for row in finest.summary if row.slice == name])
    for part in ("device=ios", "device=web"):
        shares = [rows[2].n_users for name, rows in cube.items() if name.endswith(f", {part}")]
        assert sum(shares) == cube[part][2].n_users
    assert cube["device=ios"][2].n_users + cube["device=web"][2].n_users == cube["all"][2].n_users


@pytest.mark.parametrize("side", part_of(["labels", "predictions", "users"], 2))
def test_attributes_may_stand_in_the_other_tables(tables, result, side):
    predictions, labels, about = tables
    about = about.where("user < 1000").withColumn("user", F.col("user").cast("long"))
    everyone = predictions.select("user").union(labels.select("user")).distinct()
    given = {"predictions": predictions, "labels": labels, "users": about.limit(0).select("user")}
    if side == "users":
        given["users"] = about.join(everyone, "user", "left_semi")
    else:
        given[side] = given[side].join(about, "user", "left")
    found = evaluate(given["predictions"], given["labels"], METRICS, by=["device"], users=given["users"], **OPTIONS)
    if side == "users":
        assert same(found.summary, rows_of(result, "device"))
    else:
        # Users that this table does not know have no device.
        unknown = everyone.join(labels if side == "labels" else predictions, "user", "left_anti").count()
        rows = [row for row in found.summary if row.slice == "device=null" and row.metric == "rr"]
        assert sum(row.n_users + row.n_undefined for row in rows) == unknown > 0


def test_arrays_and_several_models_have_slices(tables, result):
    predictions, labels, about = tables
    options = {"by": "device", "facts": Facts(attributes=about)}
    if FULL_LENGTH:
        turned = evaluate(predictions.withColumn("score", -F.col("score")), labels, METRICS, **options, **OPTIONS)
        assert same(rows_of(result, "device", model="upside down"), turned.summary)
    arrays = labels.groupBy("user").agg(F.collect_list("item").alias("item"), F.collect_list("grade").alias("grade"))
    assert same(evaluate(predictions, arrays, METRICS, **options, **OPTIONS).summary, rows_of(result, "device"))
    lists = predictions.groupBy("user").agg(F.collect_list("item").alias("prediction"))
    one_table = lists.join(arrays.select("user", F.col("item").alias("label")), "user").join(about, "user")
    slices = {row.slice for row in evaluate(one_table, None, METRICS, by="device").summary}
    assert slices == {"all", "device=ios", "device=web"}


def test_the_per_user_table_keeps_the_slices_and_is_summarised_by_them(spark, tables, finest, by_country, tmp_path):
    written = finest.write(tmp_path / "written")
    assert (written.summary, written.qualities) == (finest.summary, finest.qualities)
    stored = spark.read.parquet(str(tmp_path / "written"))
    assert stored.columns[:3] == ["user", "country", "device"]
    again = {row.slice: row for row in summarise(stored, by="country").summary if row.metric == "rr"}
    expected = {row.slice: row for row in by_country.summary if row.metric == "rr" and row.slice != "country=JP"}
    assert again == expected
    if FULL_LENGTH:
        assert summarise(stored).summary == finest.summary[: len(METRICS)]
        plain = score_users(*tables[:2], METRICS, **OPTIONS)
        ignored = {"ignore_row_order": True, "allow_nan_equality": True, "ignore_metadata": True}
        assert_df_equality(stored.drop("country", "device", "attributes_hash"), plain, **ignored)
    with pytest.raises(InputError, match="no column 'city'; it can be sliced by: country, device"):
        summarise(stored, by="city")


def test_an_attribute_that_is_not_constant_within_a_user_is_a_counted_error(tables):
    predictions, labels, about = tables
    # One of these seven users is in neither table.
    other = about.where("user < 7").withColumn("device", F.lit("tv"))
    options = {"by": "device", "facts": Facts(attributes=about.unionByName(other)), **OPTIONS}
    words = r"attributes that differ between rows of the same user: 6 \(for example user=\d has device"
    with pytest.raises(DataError, match=words) as caught:
        evaluate(predictions, labels, "rr", **options)
    assert caught.value.counts == {"n_conflicting_attributes": 6}
    dropped = evaluate(predictions, labels, "rr", on_invalid="drop", **options)
    assert dropped.data_quality.n_conflicting_attributes == 6
    assert sum(row.n_users + row.n_undefined for row in dropped.summary if row.slice == "device=null") > 0


def test_a_user_to_count_who_is_in_neither_table_is_in_a_slice(tables, by_country):
    predictions, labels, about = tables
    # 5001 is of Germany; of 5000 alone the attributes know.
    users = about.where("user = 5001").select("user")
    found = evaluate(predictions, labels, METRICS, by="country", facts=Facts(attributes=about), users=users, **OPTIONS)
    assert found.data_quality.n_users == by_country.data_quality.n_users + 1
    pairs = zip(found.summary, by_country.summary, strict=True)
    more = {row.slice: row.n_undefined - other.n_undefined for row, other in pairs}
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
    facts = Facts(attributes=about.withColumnRenamed("country", "Model"))
    with pytest.raises(InputError, match="'Model' is also the name of another column of the per-user table"):
        run({"one": predictions, "other": predictions}, labels, METRICS, by="Model", facts=facts, **OPTIONS)


@pytest.mark.filterwarnings("ignore:there are no labels")
@pytest.mark.parametrize("n_models", part_of([2, 1], 2))
def test_nobody_at_all_is_a_slice_of_all(tables, n_models):
    predictions, labels, about = (table.limit(0) for table in tables)
    models = predictions if n_models == 1 else {"one": predictions, "another": predictions}
    options = {**OPTIONS, "by": BOTH, "facts": Facts(attributes=about)}
    found = evaluate(models, labels, METRICS, **options)
    assert [row.slice for row in found.summary] == ["all"] * len(METRICS) * n_models
    assert found.models == ([""] if n_models == 1 else ["one", "another"])
    assert math.isnan(found.summary[0].mean)
    assert found.data_quality.n_users == 0
    summarised = summarise(score_users(models, labels, METRICS, **options), by=["country", "device"])
    assert (same(summarised.summary, found.summary), summarised.models) == (True, found.models)


def test_no_value_and_the_text_null_are_two_slices(spark, tables):
    predictions, labels, _ = tables
    about = spark.createDataFrame([(u, ("null", None)[u % 2]) for u in range(120)], "user long, country string")
    found = evaluate(predictions, labels, ["rr"], by="country", facts=Facts(attributes=about), **OPTIONS)
    assert sorted(row.slice for row in found.summary) == ["all", "country='null'", "country=null"]


def test_rows_of_nobody_are_no_slice(tables):
    predictions, labels, about = tables
    nobody = predictions.union(predictions.limit(1).withColumn("user", F.lit(None).cast("long")))
    options = {"by": "device", "on_invalid": "drop", "dialect": "default", "facts": Facts(attributes=about), **OPTIONS}
    found = evaluate(nobody, labels, METRICS, **options)
    assert {row.slice for row in found.summary} == {"all", "device=ios", "device=web"}
    assert found.data_quality.n_invalid_predictions == 1
    if FULL_LENGTH:
        again = summarise(score_users(nobody, labels, METRICS, **options), by="device")
        assert again.to_dict() == found.to_dict()


def test_a_table_without_metadata_is_told_what_its_columns_are(two_models_tables, result, tmp_path):
    _, labels, about, _ = two_models_tables
    options = {"by": "country", "facts": Facts(attributes=about), **OPTIONS}
    per_user = score_users(two_models_tables.models, labels, METRICS[:3], **options)
    # A file of text keeps no metadata.
    per_user.write.csv(str(tmp_path / "csv"), header=True)
    stored = per_user.sparkSession.read.csv(str(tmp_path / "csv"), header=True, inferSchema=True)
    with pytest.warns(SparkRankEvalWarning) as warned:
        found = summarise(stored, user="user", model="model", by="country")
    assert any("read as metrics: ndcg_at_5, recall_at_3, rr" in str(one.message) for one in warned)
    assert found.models == ["als", "upside down"]
    expected = {
        (row.model, row.slice, row.metric): row.mean
        for name in found.models
        for row in rows_of(result, "country", model=name)
    }
    for row in found.summary:
        metric = row.metric.replace("_at_", "@")
        assert row.mean == pytest.approx(expected[row.model, row.slice, metric])
    with pytest.raises(InputError, match="user='who': the per-user table has no such column"):
        summarise(stored, user="who")


def test_more_slices_than_the_driver_holds_are_refused_with_their_number(tables, monkeypatch):
    predictions, labels, about = tables
    monkeypatch.setattr(scoring, "_MOST_FIGURES", 8)
    with pytest.raises(OptionError, match=r"^4 slices × 3 values do not fit into memory; use attributes with fewer"):
        evaluate(predictions, labels, METRICS[:3], by="country", facts=Facts(attributes=about), **OPTIONS)


def test_replicates_that_no_worker_holds_are_refused_before_any_job(tables, jobs_of, monkeypatch):
    predictions, labels, about = tables
    # Without slices there is room for more. Here is a hundredth of both: the driver makes an empty state to measure it.
    assert states.MERGED_BYTES < scoring._LARGEST_STATE
    monkeypatch.setattr(scoring, "MERGED_BYTES", states.MERGED_BYTES // 100)
    monkeypatch.setattr(scoring, "_LARGEST_STATE", scoring._LARGEST_STATE // 100)
    options = {"ci": BCa(replicates=10**4), "by": "country", "facts": Facts(attributes=about), **OPTIONS}

    def calls():
        with pytest.raises(OptionError, match="3 values × 10,000 replicates do not fit into memory; use fewer"):
            evaluate(predictions, labels, METRICS[:3], **options)
        with pytest.raises(OptionError, match="3 values × 100,000 replicates do not fit into memory"):
            summarise(score_users(predictions, labels, METRICS[:3], **OPTIONS), ci=BCa(replicates=10**5))

    assert jobs_of(calls) == 0


# --- groups of items


def in_group(group):
    """A condition on items: whether they are in a group."""
    if group == "(not in items)":
        return ~F.col("item").isin([*GENRES])
    return F.col("item").isin([item for item, genres in GENRES.items() if group in (genres or [None])])


def rows_of_group(result, name):
    """The rows of a group of items, by model, slice of users and metric."""
    rows = [row for row in result.summary if row.slice == name or row.slice.startswith(f"{name}, ")]
    assert rows
    return {(row.model, row.slice.removeprefix(name).removeprefix(", ") or "all", row.metric): row for row in rows}


@pytest.mark.parametrize("group", part_of(["y", None, "(not in items)", "x", "z"], 5))
def test_a_group_of_items_has_the_figures_of_an_evaluation_of_its_labels_alone(two_models_tables, result, group):
    _, labels, about, _ = two_models_tables
    options = {"by": BOTH, "users": labels.select("user"), "facts": Facts(attributes=about), **OPTIONS}
    alone = evaluate(two_models_tables.models, labels.where(in_group(group)), CUT, **options)
    rows = rows_of_group(result, f"item genre={'null' if group is None else group}")
    expected = {(row.model, row.slice, row.metric): row for row in alone.summary if row.n_users}
    assert {key for key, row in rows.items() if row.n_users and row.metric in CUT} == {*expected}
    for key, row in expected.items():
        assert same([rows[key]], [row])


@pytest.mark.filterwarnings("ignore:clusters by home are few", "ignore:the per-user table has no")
def test_clusters_of_a_group_of_items_are_those_of_an_evaluation_of_its_labels_alone(tables, films):
    predictions, labels, users = tables
    homes = users.withColumn("home", F.when(F.col("user") != 7, F.col("user") % 70).cast("string"))
    options = {**OPTIONS, "by": "country", "cluster": "home", "on_invalid": "drop"}
    popularity = {"training": labels.where("item < 6"), "popularity_groups": 2} if FULL_LENGTH else {}
    facts = Facts(attributes=homes, items=films, item_by="genre", **popularity)
    grouped = evaluate(predictions, labels, CUT, facts=facts, **options)
    parts = {"item genre=y": in_group("y"), "item popularity=(not in training)": "item >= 6"}
    for name, condition in part_of(parts.items(), 2):
        facts = Facts(attributes=homes)
        alone = evaluate(predictions, labels.where(condition), CUT, users=labels.select("user"), facts=facts, **options)
        expected = {(row.model, row.slice, row.metric): row for row in alone.summary if row.n_users}
        assert {("", "all", "recall@3"), ("", "country=DE", "recall@3")} <= {*expected}
        rows = rows_of_group(grouped, name)
        for key, row in expected.items():
            assert same([rows[key]], [row])
            assert (rows[key].cluster, rows[key].n_clusters) == ("home", row.n_clusters)
            assert row.n_clusters > 1
    summarised = summarise(grouped.per_item_group.where("item_group = 'y'"), quantiles=())
    for row in summarised.summary:
        expected = rows_of_group(grouped, "item genre=y")["", "all", row.metric]
        assert (row.mean, row.interval_low) == pytest.approx((expected.mean, expected.interval_low))
        assert (row.cluster, row.n_clusters) == ("home", expected.n_clusters)


def test_groups_of_items_have_sizes_and_are_no_slices_of_users(result):
    sizes = {group.group: group.n_items for group in result.item_groups}
    assert sizes == {"x": 4, "y": 3, "z": 1, None: 2, "(not in items)": 0}
    assert result.data_quality.n_unlisted_labels > 0
    assert type(result).from_json(result.to_json()).item_groups == result.item_groups
    with pytest.raises(InputError, match="there are no slices by 'item genre'"):
        result.gaps("item genre")


def test_merged_runs_say_which_groups_of_items_may_differ(spark, result):
    larger = [{**row, "n_items": row["n_items"] + 1} for row in result.to_dict()["item_groups"]]
    result = replace(result, summary=tuple(row for row in result.summary if row.metric == "rr"))
    rows = tuple(replace(row, fingerprints={**row.fingerprints, "items": "0" * 32}) for row in result.summary)
    runs = {"a": result, "b": replace(result, summary=rows)}
    first, second = (
        metrics_table(spark, run, datetime.now(UTC)).selectExpr("*", f"'{name}' run_id") for name, run in runs.items()
    )
    table = first.union(second)
    alone = merge(table)
    assert "not known whether all summaries have the same items in item genre=(not in items)" in str(alone)
    manifests = [{"run_id": name, **run.to_dict()} for name, run in runs.items()]
    known = merge(table, manifests)
    assert (known.item_groups, known.notes) == (result.item_groups, ())
    unlike = merge(table, [manifests[0], {**manifests[1], "item_groups": larger}])
    assert "the summaries differ in the items of item genre=(not in items)" in str(unlike)
    assert (alone.item_groups, unlike.item_groups) == ((), ())


def test_the_table_of_users_and_groups_has_the_means_of_the_summary(result):
    columns = ["ndcg_at_5", "recall_at_3", "rr", "ap_at_3", "precision_at_5"]
    table = result.per_item_group.toPandas()
    assert list(table.columns) == ["user", "item_attribute", "item_group", "country", "device", "model", *columns]
    means = table.groupby(["model", "item_group"], dropna=False)[columns].mean()
    for (model, group), mean in means.iterrows():
        name = f"item genre={'null' if not isinstance(group, str) else group}"
        for metric, column in zip(METRICS, columns, strict=True):
            assert result[model, metric, name] == pytest.approx(mean[column], nan_ok=True)
    compared = compare(result.per_item_group.where("item_group = 'x'"), baseline="als", metrics="ndcg@5")
    one, other = (result[name, "ndcg@5", "item genre=x"] for name in ("als", "upside down"))
    assert [row.difference for row in compared.rows] == pytest.approx([other - one])


def test_arrays_popularity_and_shares(tables, films):
    predictions, labels, _ = tables
    metrics = ["recall@3", "hit_share@3", "exposure_share@3"]
    facts = Facts(items=films, item_by=["genre"], training=labels.where("item < 6"), popularity_groups=3)
    rows = evaluate(predictions, labels.select("user", "item"), metrics, score="score", facts=facts)
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
    pairs = predictions.groupBy("user").agg(
        F.sort_array(F.collect_list(F.struct(-F.col("score"), "item"))).alias("sorted")
    )
    arrays = pairs.select("user", F.col("sorted.item").alias("prediction"))
    wanted = labels.groupBy("user").agg(F.collect_list("item").alias("label"))
    one_table = arrays.join(wanted, "user", "full").select(
        "user", *(F.coalesce(name, F.array().cast("array<bigint>")).alias(name) for name in ("prediction", "label"))
    )
    from_arrays = evaluate(one_table, None, "recall@3", item=("prediction", "label"), facts=facts)
    expected = {row.slice: row.mean for row in rows.summary if row.metric == "recall@3"}
    assert {row.slice: row.mean for row in from_arrays.summary} == pytest.approx(expected, nan_ok=True)
    n_unlisted = from_arrays.data_quality.n_unlisted_labels
    assert f"{n_unlisted:,} labels of items that the table of items lacks" in str(from_arrays)


def test_metrics_and_groups_by_popularity_share_one_table_of_it(tables):
    predictions, labels, _ = tables
    training = {"training": labels.where("item < 6")}
    metrics = ["average_popularity@3", "popreo@3", "recall@3"]
    both, groups, *facts = (
        evaluate(predictions, labels, names, facts=Facts(**training, popularity_groups=n_groups), **OPTIONS)
        for names, n_groups in ((metrics, 3), (metrics[-1:], 3), *[(metrics, None)] * FULL_LENGTH)
    )
    assert both.item_groups == groups.item_groups
    rows = [row for row in both.summary if row.slice != "all" and row.metric == "recall@3"]
    assert rows
    assert [*map(repr, rows)] == [repr(row) for row in groups.summary if row.slice != "all"]
    for alone in facts:
        assert [repr(row) for row in both.summary if row.slice == "all"] == [*map(repr, alone.summary)]


# By day from vectors, as lists have theirs above.
@pytest.mark.parametrize(
    "from_vectors", part_of([True, False], 2), ids=lambda vectors: "vectors" if vectors else "lists"
)
def test_groups_of_items_of_lists_or_vectors_with_exclusions_relevances_and_a_dialect(tables, films, from_vectors):
    lists, labels, _ = tables
    unlabelled = lists.select("user", "item").join(labels, ["user", "item"], "left_anti")
    exclude = unlabelled.where("item % 5 = user % 5")
    options = {"relevance": ["grade", "liked"], "dialect": "standard", "exclude": exclude}
    options |= {} if from_vectors else {"score": "score"}
    items = films.select("item", F.array(F.sin("item"), F.cos("item")).alias("vector"))
    users = lists.select("user", F.array(F.sin("user"), F.cos("user")).alias("vector")).distinct()
    predictions = Vectors(users, items) if from_vectors else lists
    wanted = labels.withColumn("liked", F.col("item") % 2 * F.col("grade"))
    grouped, alone = (
        evaluate(predictions, each, CUT, facts=facts, **options)
        for each, facts in ((wanted, Facts(items=films, item_by="genre")), (wanted.where(in_group("x")), Facts()))
    )
    expected = {row.key: (row.mean, row.std, row.n_users) for row in alone.summary}
    rows = {row.key: (row.mean, row.std, row.n_users) for row in grouped.summary if row.slice == "item genre=x"}
    assert rows == expected
    assert len(rows) == 2 * len(CUT)
    assert min(n for _, _, n in rows.values()) > 10


def test_groups_of_items_survive_pruned_ties_weights_bootstraps_and_storage(tables, films, tmp_path):
    predictions, labels, users = tables
    tied = predictions.withColumn("score", F.round(F.col("score"), 1))
    facts = Facts(attributes=users.withColumn("weight", F.col("user") % 3 + 1.0), items=films, item_by="genre")
    options = {**OPTIONS, "facts": facts, "user_weight": "weight", "ci": BCa(replicates=20)}
    pruned, whole = (evaluate(tied, labels, CUT[:2], prune=prune, **options) for prune in ("auto", "never"))
    assert [*map(repr, pruned.summary)] == [*map(repr, whole.summary)]
    assert any(row.interval_method == "bca" for row in whole.summary if row.slice.startswith("item"))
    written = pruned.write(tmp_path / "users")
    assert [*map(repr, written.summary)] == [*map(repr, pruned.summary)]
    assert written.item_groups == pruned.item_groups


@pytest.mark.parametrize(
    ("facts", "metrics", "message"),
    [
        ({"item_by": "genre"}, METRICS, "item_by needs a table"),
        ({"popularity_groups": 10}, METRICS, "popularity_groups needs a table"),
        ({"items": "films", "item_by": "studio"}, METRICS, "items has no column 'studio'"),
        ({"items": "films", "item_by": ["genre", "GENRE"]}, METRICS, "item_by names 'genre' twice"),
        ({}, ["hit_share@3"], "hit_share@3: a share of a group of items; name the groups"),
    ],
)
def test_groups_of_items_need_tables_and_columns(tables, films, facts, metrics, message):
    given = {**facts, **({"items": films} if "items" in facts else {})}
    with pytest.raises(InputError, match=message):
        evaluate(*tables[:2], metrics, facts=Facts(**given), **OPTIONS)


def test_a_group_of_no_item_is_an_error(tables, films):
    rows = films.union(films.sparkSession.createDataFrame([(None, ["x"])], films.schema))
    with pytest.raises(DataError, match="items"):
        evaluate(*tables[:2], METRICS, facts=Facts(items=rows, item_by="genre"), **OPTIONS)
