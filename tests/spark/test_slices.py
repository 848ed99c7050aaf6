"""Slices of the users by their attributes. Groups of items are in features/test_item_groups.py."""

import math

import pytest
from pyspark.sql import functions as F
from worlds.two_models import METRICS, OPTIONS

from spark_rankeval import Cube, Facts, evaluate, summarise
from spark_rankeval.errors import DataError, OptionError
from spark_rankeval.spark import scoring

FIELDS = (
    "metric", "mean", "std", "n_users", "n_undefined", "minimum", "maximum", "interval_low", "interval_high", "median",
)  # fmt: skip


@pytest.fixture(scope="module")
def tables(two_models_tables):
    return two_models_tables[:3]


@pytest.fixture(scope="module")
def result(two_models_result):
    """Two models by country, device and both, and by genre."""
    return two_models_result


@pytest.fixture(scope="module")
def by_country(tables):
    return evaluate(*tables[:2], METRICS, by="country", facts=Facts(attributes=tables[2]), **OPTIONS)


def figures(rows):
    return [repr([getattr(row, name) for name in FIELDS]) for row in rows]


def rows_of(result, *parts):
    """The rows of a model in all and in slices by these attributes."""
    names = ("all", *(f"{part}=" for part in parts))
    rows = [row for row in result.summary if row.model in ("", "als") and "," not in row.slice]
    return [row for row in rows if row.slice.startswith(names)]


def test_a_slice_has_the_figures_of_its_users_alone(tables, result, by_country):
    predictions, labels, about = tables
    rows, n = rows_of(result, "country"), len(METRICS)
    assert [row.slice for row in rows[::n]] == ["all", "country=DE", "country=FR", "country=JP", "country=null"]
    assert figures(rows) == figures(by_country.summary)
    whole = evaluate(predictions, labels, METRICS, **OPTIONS)
    assert figures(rows[:n]) == figures(whole.summary)
    assert by_country["ndcg@5"] == whole["ndcg@5"]
    assert by_country.data_quality == whole.data_quality
    for name in ("FR", None):
        users = about.where(F.col("country").eqNullSafe(name)).select(F.col("user").cast("long").alias("user"))
        alone = evaluate(predictions.join(users, "user"), labels.join(users, "user"), METRICS, **OPTIONS)
        assert figures(row for row in rows if row.slice == f"country={name or 'null'}") == figures(alone.summary)
    empty = [row for row in rows if row.slice == "country=JP"]
    assert {(row.n_users, row.no_interval) for row in empty} == {(0, "no user")}
    assert all(math.isnan(row.mean) for row in empty)
    assert len(by_country.slices) == 4 * n
    assert {"country=FR", "country=JP"} <= {line.split()[0] for line in repr(by_country).splitlines() if line}


def test_totals_are_those_of_a_cube_and_a_written_table_keeps_the_slices(spark, tables, result, by_country, tmp_path):
    predictions, labels, about = tables
    known = Facts(attributes=about.where("country is null or country <> 'JP'"))
    finest = evaluate(predictions, labels, METRICS, by=["country", "device"], facts=known, **OPTIONS)
    cube = {}
    for row in result.summary:
        if row.model == "als" and not row.slice.startswith("item "):
            cube.setdefault(row.slice, []).append(row)
    assert {"all", "country=DE", "device=ios", "country=DE, device=ios", "country=null, device=web"} <= {*cube}
    names = {row.slice for row in finest.summary}
    assert names == {"all", *(name for name in cube if "," in name and "JP" not in name)}
    for name in names:
        assert figures(cube[name]) == figures(row for row in finest.summary if row.slice == name)
    n_users = {name: rows[2].n_users for name, rows in cube.items()}
    for part in ("device=ios", "device=web"):
        assert sum(n for name, n in n_users.items() if name.endswith(f", {part}")) == n_users[part]
    assert n_users["device=ios"] + n_users["device=web"] == n_users["all"]
    written = finest.write(tmp_path / "written")
    assert (written.summary, written.qualities) == (finest.summary, finest.qualities)
    stored = spark.read.parquet(str(tmp_path / "written"))
    assert stored.columns[:3] == ["user", "country", "device"]
    expected = [row for row in by_country.summary if row.slice != "country=JP"]
    assert list(summarise(stored, by="country").summary) == expected


@pytest.mark.parametrize("side", ["labels", "users", "one table"])
def test_attributes_may_stand_in_the_other_tables(tables, result, side):
    predictions, labels, about = tables
    about = about.where("user < 1000").withColumn("user", F.col("user").cast("long"))
    everyone = predictions.select("user").union(labels.select("user")).distinct()
    if side == "users":
        users = about.join(everyone, "user", "left_semi")
        found = evaluate(predictions, labels, METRICS, by=["device"], users=users, **OPTIONS)
        assert figures(found.summary) == figures(rows_of(result, "device"))
    elif side == "labels":
        found = evaluate(predictions, labels.join(about, "user", "left"), METRICS, by=["device"], **OPTIONS)
        # Users that this table does not know have no device.
        unknown = everyone.join(labels, "user", "left_anti").count()
        rows = [row for row in found.summary if row.slice == "device=null" and row.metric == "rr"]
        assert sum(row.n_users + row.n_undefined for row in rows) == unknown > 0
    else:
        lists, liked = (
            table.groupBy("user").agg(F.collect_list("item").alias(name))
            for table, name in ((predictions, "prediction"), (labels, "label"))
        )
        found = evaluate(lists.join(liked, "user").join(about, "user"), None, METRICS, by="device")
        assert {row.slice for row in found.summary} == {"all", "device=ios", "device=web"}


def test_an_attribute_that_is_not_constant_within_a_user_is_a_counted_error(tables):
    predictions, labels, about = tables
    # One of these seven users is in neither table.
    other = about.where("user < 7").withColumn("device", F.lit("tv"))
    options = {"by": "device", "facts": Facts(attributes=about.unionByName(other)), **OPTIONS}
    words = r"attributes that differ between rows of the same user: 6 \(for example user=\d, device=\['.*', 'tv'\]"
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


@pytest.mark.ci
@pytest.mark.filterwarnings("ignore:there are no labels")
def test_nobody_at_all_is_a_slice_of_all(tables):
    predictions, labels, about = (table.limit(0) for table in tables)
    options = {**OPTIONS, "by": Cube("country", "device"), "facts": Facts(attributes=about)}
    found = evaluate({"one": predictions, "another": predictions}, labels, METRICS, **options)
    assert [row.slice for row in found.summary] == ["all"] * len(METRICS) * 2
    assert (found.models, found.data_quality.n_users) == (["one", "another"], 0)
    assert math.isnan(found.summary[0].mean)
    summarised = summarise(found.per_user, by=["country", "device"])
    assert (figures(summarised.summary), summarised.models) == (figures(found.summary), found.models)


def test_no_value_the_text_null_and_rows_of_nobody(spark, tables):
    predictions, labels, _ = tables
    nobody = predictions.union(predictions.limit(1).withColumn("user", F.lit(None).cast("long")))
    about = spark.createDataFrame([(u, ("null", None)[u % 2]) for u in range(120)], "user long, country string")
    options = {"by": "country", "facts": Facts(attributes=about), "on_invalid": "drop", **OPTIONS}
    found = evaluate(nobody, labels, ["rr"], **options)
    assert sorted(row.slice for row in found.summary) == ["all", "country='null'", "country=null"]
    assert found.data_quality.n_invalid_predictions == 1
    assert sum(row.n_users for row in found.summary[1:]) == found.summary[0].n_users


def test_more_slices_than_the_driver_holds_are_refused_with_their_number(tables, monkeypatch):
    predictions, labels, about = tables
    monkeypatch.setattr(scoring, "_MOST_FIGURES", 8)
    with pytest.raises(OptionError, match=r"^4 slices × 3 values do not fit into memory; use attributes with fewer"):
        evaluate(predictions, labels, METRICS[:3], by="country", facts=Facts(attributes=about), **OPTIONS)
