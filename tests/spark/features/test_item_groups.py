"""Figures of groups of items: of the labels in each group alone, by columns of the items and by popularity."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pyspark.sql import functions as F
from worlds.two_models import GENRES, METRICS, OPTIONS

from spark_rankeval import BCa, Cube, Facts, Vectors, compare, evaluate, merge, summarise
from spark_rankeval.errors import DataError, InputError

FIELDS = (
    "metric", "mean", "std", "n_users", "n_undefined", "minimum", "maximum", "interval_low", "interval_high", "median",
)  # fmt: skip
CUT = ["ndcg@5", "recall@3", "ap@3"]
COLUMNS = ["ndcg_at_5", "recall_at_3", "rr", "ap_at_3", "precision_at_5"]


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


def in_group(group):
    """A condition on items: whether they are in a group."""
    if group == "(not in items)":
        return ~F.col("item").isin([*GENRES])
    return F.col("item").isin([item for item, genres in GENRES.items() if group in (genres or [None])])


def rows_of_group(result, name):
    """The rows of a group of items that users have, by model, slice of users and metric."""
    rows = [row for row in result.summary if row.slice == name or row.slice.startswith(f"{name}, ")]
    assert rows
    return {(row.model, row.slice.removeprefix(name).removeprefix(", ") or "all", row.metric): row for row in rows}


def check_group(result, name, alone):
    """The rows of a group are those of an evaluation of its labels alone."""
    rows = rows_of_group(result, name)
    expected = {(row.model, row.slice, row.metric): row for row in alone.summary if row.n_users}
    assert {key for key, row in rows.items() if row.n_users and row.metric in CUT} == {*expected}
    for key, row in expected.items():
        assert [repr(getattr(rows[key], field)) for field in FIELDS] == [repr(getattr(row, field)) for field in FIELDS]
    return {key: (rows[key], row) for key, row in expected.items()}


@pytest.mark.parametrize("group", ["y", None, "(not in items)"])
def test_a_group_has_the_figures_of_an_evaluation_of_its_labels_alone(two_models_tables, result, group):
    _, labels, about, _ = two_models_tables
    options = {"by": Cube("country", "device"), "users": labels.select("user"), "facts": Facts(attributes=about)}
    alone = evaluate(two_models_tables.models, labels.where(in_group(group)), CUT, **options, **OPTIONS)
    check_group(result, f"item genre={'null' if group is None else group}", alone)


@pytest.mark.filterwarnings("ignore:clusters by home are few", "ignore:the per-user table has no")
def test_clusters_of_a_group_are_those_of_an_evaluation_of_its_labels_alone(tables, films):
    predictions, labels, users = tables
    homes = users.withColumn("home", F.when(F.col("user") != 7, F.col("user") % 70).cast("string"))
    options = {**OPTIONS, "by": "country", "cluster": "home", "on_invalid": "drop"}
    facts = Facts(
        attributes=homes, items=films, item_by="genre", training=labels.where("item < 6"), popularity_groups=2
    )
    grouped = evaluate(predictions, labels, CUT, facts=facts, **options)
    for name, condition in (("item genre=y", in_group("y")), ("item popularity=(not in training)", F.col("item") >= 6)):
        of_users = {"users": labels.select("user"), "facts": Facts(attributes=homes)}
        alone = evaluate(predictions, labels.where(condition), CUT, **of_users, **options)
        pairs = check_group(grouped, name, alone)
        assert {("", "all", "recall@3"), ("", "country=DE", "recall@3")} <= {*pairs}
        for row, other in pairs.values():
            assert (row.cluster, row.n_clusters) == ("home", other.n_clusters)
            assert row.n_clusters > 1
    summarised = summarise(grouped.per_item_group.where("item_group = 'y'"), quantiles=())
    for row in summarised.summary:
        expected = rows_of_group(grouped, "item genre=y")["", "all", row.metric]
        assert (row.mean, row.interval_low) == pytest.approx((expected.mean, expected.interval_low))
        assert (row.cluster, row.n_clusters) == ("home", expected.n_clusters)


def test_groups_have_sizes_and_are_no_slices_of_users(result):
    sizes = {group.group: group.n_items for group in result.item_groups}
    assert sizes == {"x": 4, "y": 3, "z": 1, None: 2, "(not in items)": 0}
    assert result.data_quality.n_unlisted_labels > 0
    assert type(result).from_json(result.to_json()).item_groups == result.item_groups
    with pytest.raises(InputError, match="there are no slices by 'item genre'"):
        result.gaps("item genre")


def test_merged_runs_say_which_groups_may_differ(spark, result):
    larger = [{**row, "n_items": row["n_items"] + 1} for row in result.to_dict()["item_groups"]]
    result = replace(result, summary=tuple(row for row in result.summary if row.metric == "rr"))
    rows = tuple(replace(row, fingerprints={**row.fingerprints, "items": "0" * 32}) for row in result.summary)
    runs = {"a": result, "b": replace(result, summary=rows)}
    first, second = (run.to_stored(datetime.now(UTC)).selectExpr("*", f"'{name}' run_id") for name, run in runs.items())
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
    table = result.per_item_group.toPandas()
    assert list(table.columns) == ["user", "item_attribute", "item_group", "country", "device", "model", *COLUMNS]
    means = table.groupby(["model", "item_group"], dropna=False)[COLUMNS].mean()
    for (model, group), mean in means.iterrows():
        name = f"item genre={'null' if not isinstance(group, str) else group}"
        for metric, column in zip(METRICS, COLUMNS, strict=True):
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
    assert (edges["1"][1], edges["3"][2], edges["(not in training)"]) == (counts[0], counts[-1], (0, 0, 0))
    for metric in ("hit_share@3", "exposure_share@3"):
        shares = [row.mean for row in rows.summary if row.metric == metric and row.slice.startswith("item popularity=")]
        assert sum(shares) == pytest.approx(1)
    pairs = F.sort_array(F.collect_list(F.struct(-F.col("score"), "item")))
    lists = predictions.groupBy("user").agg(F.transform(pairs, lambda pair: pair["item"]).alias("prediction"))
    both = lists.join(labels.groupBy("user").agg(F.collect_list("item").alias("label")), "user", "full")
    empty = F.array().cast("array<bigint>")
    table = both.select("user", *(F.coalesce(name, empty).alias(name) for name in ("prediction", "label")))
    from_arrays = evaluate(table, None, "recall@3", item=("prediction", "label"), facts=facts)
    expected = {row.slice: row.mean for row in rows.summary if row.metric == "recall@3"}
    assert {row.slice: row.mean for row in from_arrays.summary} == pytest.approx(expected, nan_ok=True)
    n_unlisted = from_arrays.data_quality.n_unlisted_labels
    assert f"{n_unlisted:,} labels of items that the table of items lacks" in str(from_arrays)


def test_metrics_and_groups_by_popularity_share_one_table_of_it(tables):
    predictions, labels, _ = tables
    training = {"training": labels.where("item < 6")}
    metrics = ["average_popularity@3", "long_tail_share@3", "recall@3"]
    both, groups, facts = (
        evaluate(predictions, labels, names, facts=Facts(**training, popularity_groups=n_groups), **OPTIONS)
        for names, n_groups in ((metrics, 3), (metrics[-1:], 3), (metrics, None))
    )
    assert both.item_groups == groups.item_groups
    rows = [row for row in both.summary if row.slice != "all" and row.metric == "recall@3"]
    assert rows
    assert [*map(repr, rows)] == [repr(row) for row in groups.summary if row.slice != "all"]
    assert [repr(row) for row in both.summary if row.slice == "all"] == [*map(repr, facts.summary)]


@pytest.mark.parametrize("from_vectors", [True, False], ids=["vectors", "lists"])
def test_groups_of_lists_or_vectors_with_exclusions_relevances_and_a_dialect(tables, films, from_vectors):
    lists, labels, _ = tables
    unlabelled = lists.select("user", "item").join(labels, ["user", "item"], "left_anti")
    options = {
        "relevance": ["grade", "liked"],
        "dialect": "standard",
        "exclude": unlabelled.where("item % 5 = user % 5"),
    }
    predictions = lists
    if from_vectors:
        items = films.select("item", F.array(F.sin("item"), F.cos("item")).alias("vector"))
        predictions = Vectors(
            lists.select("user", F.array(F.sin("user"), F.cos("user")).alias("vector")).distinct(), items
        )
    else:
        options["score"] = "score"
    wanted = labels.withColumn("liked", F.col("item") % 2 * F.col("grade"))
    grouped = evaluate(predictions, wanted, CUT, facts=Facts(items=films, item_by="genre"), **options)
    alone = evaluate(predictions, wanted.where(in_group("x")), CUT, **options)
    expected = {row.key: (row.mean, row.std, row.n_users) for row in alone.summary}
    rows = {row.key: (row.mean, row.std, row.n_users) for row in grouped.summary if row.slice == "item genre=x"}
    assert rows == expected
    assert len(rows) == 2 * len(CUT)
    assert min(n for _, _, n in rows.values()) > 10


def test_groups_survive_ties_weights_bootstraps_and_storage(tables, films, tmp_path):
    predictions, labels, users = tables
    tied = predictions.withColumn("score", F.round(F.col("score"), 1))
    facts = Facts(attributes=users.withColumn("weight", F.col("user") % 3 + 1.0), items=films, item_by="genre")
    options = {**OPTIONS, "facts": facts, "user_weight": "weight", "ci": BCa(replicates=20)}
    result = evaluate(tied, labels, CUT[:2], **options)
    assert any(row.interval_method == "bca" for row in result.summary if row.slice.startswith("item"))
    written = result.write(tmp_path / "users")
    assert [*map(repr, written.summary)] == [*map(repr, result.summary)]
    assert written.item_groups == result.item_groups


def test_a_group_of_no_item_is_an_error(tables, films):
    rows = films.union(films.sparkSession.createDataFrame([(None, ["x"])], films.schema))
    with pytest.raises(DataError, match="items"):
        evaluate(*tables[:2], METRICS, facts=Facts(items=rows, item_by="genre"), **OPTIONS)
