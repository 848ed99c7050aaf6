"""Values that Spark holds and Python does not, or that Spark and Python compare differently: text that is not UTF-8, collations,
dates beyond the year 9999, signs of zero, names that differ in case alone, grades of 32 bits."""

import math
import warnings

import pytest
from helpers.shuffles import settings_of
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval import (
    BCa,
    Facts,
    agreement,
    all_pairs,
    compare,
    dialect_map,
    differences,
    evaluate,
    metrics_column,
    quarantine,
    score_users,
    summarise,
)
from spark_rankeval.errors import DataError, InputError
from spark_rankeval.ml import RankingEvaluator
from spark_rankeval.spark.sql import call, named, number, readable, text_of
from spark_rankeval.trec import evaluate_runs, write_run

# Bytes, and how they are shown as the name of a slice or model: text that looks like bytes written out is written out, too.
NAMES = {
    b"DE": "DE", "Österreich".encode(): "Österreich", b"": "", b"\xff": r"\xFF", b"\xfe": r"\xFE",
    b"caf\xe9": r"\x63\x61\x66\xE9", b"\xed\xa0\xb4": r"\xED\xA0\xB4", rb"\xFF": r"\x5C\x78\x46\x46", rb"\xff": r"\xff",
}  # fmt: skip


def users(spark, column, *values):
    """A user for each value, whose best item is liked, with the value in a column."""
    rows = [(place, 1, 0.5, value) for place, value in enumerate(values)]
    kind = "binary" if isinstance(values[0], bytes) else "int" if isinstance(values[0], int) else "double"
    return spark.createDataFrame(rows, f"user int, item int, score double, {column} {kind}")


def test_every_text_has_a_name_of_its_own_that_leads_back(spark):
    texts = spark.createDataFrame([(one,) for one in NAMES], "bytes binary").select(
        "bytes", readable(named("bytes").cast("string")).column.alias("name")
    )
    assert {bytes(row["bytes"]): row["name"] for row in texts.collect()} == NAMES
    back = F.map_from_arrays(
        F.array(*map(F.lit, NAMES.values())), F.array(*(text_of(name).cast("binary").column for name in NAMES.values()))
    )
    assert texts.where(F.element_at(back, F.col("name")) == F.col("bytes")).count() == len(NAMES)
    assert spark.range(1).select(readable(call("nullif", number(1), 1).cast("string")).column).first()[0] is None


@pytest.mark.ci
def test_slices_that_are_not_utf_8_are_told_apart(spark):
    table = users(spark, "part", b"\xff", b"\xfe", b"\xff", rb"\xFF")
    slices = {"all": 4, r"part=\xFF": 2, r"part=\xFE": 1, r"part=\x5C\x78\x46\x46": 1}
    result = evaluate(table, table, "rr", score="score", by="part")
    assert {row.slice: row.n_users for row in result.summary} == slices
    # What a table of users keeps is read as it is, and text that never was UTF-8 beside it.
    scored = spark.createDataFrame(result.per_user.collect(), result.per_user.schema)
    scored = scored.withColumn("raw", F.when(F.col("user") > 0, F.lit(b"\xc3").cast("string")))
    assert {row.slice: row.n_users for row in summarise(scored, by="part").summary} == slices
    compared = compare({"a": scored, "b": scored}, "a", by=["part", "raw"], replicates=9, metrics="rr")
    assert {row.slice: row.n_users for row in compared.sliced} == {
        r"part=\xFF, raw=null": 1, r"part=\xFF, raw=\xC3": 1, r"part=\xFE, raw=\xC3": 1,
        r"part=\x5C\x78\x46\x46, raw=\xC3": 1,
    }  # fmt: skip


@pytest.mark.ci
def test_models_that_are_not_utf_8_are_told_apart(spark):
    """They all counted as the first one's."""
    table = users(spark, "model", b"\xff", b"\xfe", rb"\xFF", b"")
    mine = table.withColumn("model", F.col("model").cast("string"))
    names = sorted([r"\xFF", r"\xFE", r"\x5C\x78\x46\x46", ""])
    result = evaluate(mine, table.drop("score"), "rr", score="score", model="model")
    assert {model: quality.n_predictions for model, quality in result.qualities.items()} == dict.fromkeys(names, 1)
    stored = table.where("user < 3").select(F.lit(1).alias("user"), "model", F.col("score").alias("rr"))
    with warnings.catch_warnings(action="ignore"):
        assert sorted(summarise(stored, user="user", model="model").models) == names[1:]
        rows = compare(stored, r"\xFF", user="user", model="model", replicates=9).rows
    assert [(row.model, row.n_users) for row in rows] == [(r"\x5C\x78\x46\x46", 1), (r"\xFE", 1)]


@pytest.mark.ci
def test_ids_that_are_not_utf_8_are_ranked_and_shown(spark):
    raw = [(b"\xff", b"\xfe", 2.0), (b"\xff", b"\xff", 1.0), (b"\xfe", b"\xff", 1.0), (b"\xfe", b"\xff", None)]
    table = spark.createDataFrame(raw, "user binary, item binary, score double")
    mine = table.select(*(F.col(name).cast("string") for name in ("user", "item")), "score")
    liked = mine.where("score = 1").drop("score")
    assert evaluate(mine.dropna(), liked, "rr", score="score", ci=BCa(replicates=9))["rr"] == 0.75
    with pytest.raises(DataError, match=r"null score: 1, for example user='\\\\xFE', item='\\\\xFF', score=None"):
        evaluate(mine, liked, "rr", score="score")


@pytest.mark.ci
def test_dates_beyond_the_year_9999_stand_in_examples(spark):
    """Python has none, so that collecting one raised and the counts were lost."""
    # The year 16,000 or so.
    far = F.date_add(F.lit("1970-01-01").cast("date"), 5_000_000 + F.col("n")).alias("user")
    table = users(spark, "n", 0, 0).select(far, "item", "score")
    day = "user='+15659-07-15'"
    with pytest.raises(DataError, match=rf"repeat an item.*\(for example {day.replace('+', '[+]')}") as caught:
        evaluate(table, table, "rr", score="score")
    assert caught.value.counts == {"n_duplicate_predictions": 1}
    nulls = table.withColumn("score", F.lit(None).cast("double"))
    with pytest.raises(DataError, match=r"null score: 2, for example user='\+15659-07-15', item=1, score=None"):
        evaluate(nulls, table.dropDuplicates(), "rr", score="score")
    scored = score_users(table.dropDuplicates(), table, "rr", score="score")
    with pytest.raises(DataError, match=r"several rows in 'a': 1, for example user='\+15659-07-15' in 2 rows"):
        compare({"a": scored.unionAll(scored), "b": scored}, "b", replicates=9)


@pytest.mark.ci
def test_zeros_of_both_signs_are_one_slice_and_nan_is_a_user(spark):
    table = users(spark, "part", 0.0, -0.0, math.nan)
    result = evaluate(table, table, "rr", score="score", by="part")
    assert {row.slice: row.n_users for row in result.summary} == {"all": 3, "part=0.0": 2, "part=NaN": 1}
    scored = result.per_user.select(F.lit(math.nan).alias("who"), "rr")
    with pytest.raises(DataError, match="several rows in 'a': 1, for example who=nan in 3 rows"):
        compare({"a": scored, "b": scored.limit(1)}, "b", user="who", replicates=9)


# Arrays, and how many of a prediction and a label of them are not valid.
ODD_ARRAYS = {
    "array(date'+10001-01-01')": 2, "array('é', 'b')": 0, "array(1, 2)": 0,
    "array(cast(X'ff' as string), 'b')": 2, "array(cast(X'c3' as string), cast(X'a9' as string))": 2,
}  # fmt: skip


def test_arrays_of_a_column_that_pandas_cannot_read_make_no_metric(spark):
    table = spark.sql(f"select {', '.join(f'{ids} items_{place}' for place, ids in enumerate(ODD_ARRAYS))}")
    columns = [metrics_column(name, name, "rr") for name in table.columns]
    row = table.select(*(column.alias(ids) for column, ids in zip(columns, ODD_ARRAYS, strict=True))).first()
    for ids, n_invalid in ODD_ARRAYS.items():
        assert (row[ids]["rr"], row[ids]["n_invalid"]) == (None if n_invalid else 1.0, n_invalid), ids


def front_doors(spark, name, odd):
    """Every front door with a column of odd type where it names users, items, slices, models or categories."""
    good = spark.createDataFrame([("a", "x", 1.0, "m")], "user string, item string, score double, model string")
    bad = good.withColumn(name, odd)
    scored = score_users(good, good, "rr", score="score", model="model")
    stored = bad.drop("score", "item").withColumn("rr", F.lit(1.0))
    given = {"score": "score"}
    if name in ("user", "item"):
        yield lambda: evaluate(good, bad, "rr", **given)
        yield lambda: evaluate({"a": good, "b": bad}, good, "rr", **given)
        yield lambda: evaluate(good, good, "novelty@2", facts=Facts(training=bad), **given)
        yield lambda: evaluate(good, good, "rr", exclude=bad, **given)
        yield lambda: agreement(good, bad, **given)
        yield lambda: dialect_map(bad, good, "rr", **given)
        yield lambda: quarantine(bad, good, "rr", **given)
        runs = bad.withColumnRenamed("user", "query").drop("model")
        yield lambda: evaluate_runs(runs, runs)
        yield lambda: write_run(runs, "nowhere", tag="a")
    if name == "user":
        yield lambda: evaluate(good, good, "rr", users=bad, **given)
        yield lambda: evaluate(good, good, "rr", facts=Facts(attributes=bad), by="model", **given)
        yield lambda: compare({"a": stored, "b": scored.drop("model")}, "a", user="user")
        yield lambda: summarise(stored, user="user")
    if name == "model":
        yield lambda: evaluate(bad, good, "rr", model="model", **given)
        yield lambda: evaluate(good, good, "rr", facts=Facts(attributes=bad), by="model", **given)
        yield lambda: summarise(stored, user="user", model="model")
        yield lambda: summarise(stored, user="user", by="model")
        for door in (compare, differences):
            yield lambda door=door: door(stored, "a", user="user", model="model")
        yield lambda: all_pairs(stored, user="user", model="model")
        yield lambda: compare({"a": stored, "b": stored}, "a", user="user", by="model")
        items = bad.withColumnRenamed("model", "category")
        yield lambda: evaluate(good, good, "diversity@2", facts=Facts(items=items), **given)


# Types of a column, and what is said of them.
ODD_TYPES = {"map<string,string>": "map(#, #)", "interval year": "interval '1' year"}
if hasattr(T.StringType(), "collation"):
    ODD_TYPES["string collate UTF8_LCASE; strings are compared by their bytes"] = "# collate UTF8_LCASE"


@pytest.mark.ci
@pytest.mark.parametrize("name", ["user", "item", "model"])
def test_types_that_name_nothing_are_refused_at_every_front_door(spark, jobs_of, name):
    kinds = [(words, F.expr(text.replace("#", name))) for words, text in ODD_TYPES.items()]
    doors = [(words, door) for words, kind in kinds for door in front_doors(spark, name, kind)]
    assert len(doors) > 7 * len(kinds)

    def knock():
        for words, door in doors:
            with pytest.raises(InputError, match=f"'(category|query|{name})'.* is {words}.*(cast it|make rows)"):
                door()

    with warnings.catch_warnings(action="ignore"):
        assert jobs_of(knock) == 0


@pytest.mark.ci
@pytest.mark.parametrize("matters", ["true", "false"])
def test_users_whose_columns_differ_in_case_alone(spark, matters):
    """Two columns of a user where case matters; else columns of two tables that are one, and in one table neither."""
    table = spark.createDataFrame(
        [("a", "p", 1, 0.5), ("a", "q", 1, 0.5)], "user string, USER string, item int, score double"
    )
    both, other = ["user", "USER"], spark.createDataFrame([("a", 1.0)], "USER string, rr double")
    with settings_of(spark, {"spark.sql.caseSensitive": matters}), warnings.catch_warnings(action="ignore"):
        if matters == "true":
            scored = score_users(table, table, "rr", user=both, score="score")
            compared = compare({"one": scored, "two": scored}, "one", replicates=9)
            assert (
                compared.rows[0].n_users
                == evaluate(table, table, "rr", user=both, score="score").summary[0].n_users
                == 2
            )
            assert differences({"one": scored, "two": scored}, "one").columns[:2] == both
            return
        with pytest.raises(InputError, match=r"'USER' is ambiguous: the table has \['user', 'USER'\]"):
            evaluate(table, table, "rr", user="USER", score="score")
        one = other.withColumnRenamed("USER", "user")
        assert compare({"one": one, "two": other}, "one", user="user", replicates=9).rows[0].n_users == 1
        twice = one.select("*", F.lit(2.0).alias("RR"))
        for call in (lambda: summarise(twice, user="user"), lambda: compare({"a": twice}, "a", user="user")):
            with pytest.raises(InputError, match=r"'rr' is ambiguous: the table has \['rr', 'RR'\]"):
                call()


@pytest.mark.ci
def test_a_grade_at_the_threshold_is_relevant_whatever_its_precision(spark):
    """A threshold is compared in the precision of its column, by every way into an evaluation."""
    metrics = ["precision@2", "err(max_grade=0.7)@2"]
    rows = [("a", 1, 0.9, 0.7), ("a", 2, 0.8, 0.5), ("b", 1, 0.9, 0.5), ("b", 2, 0.8, 0.7)]
    table = spark.createDataFrame(rows, "user string, item long, score double, grade float")
    given = {"score": "score", "relevance": "grade", "relevance_threshold": 0.7}
    result = evaluate(table, table, metrics, **given)
    assert (result["precision@2"], result.data_quality.n_relevant) == (0.5, 2)
    high, low = ((2**grade - 1) / 2**0.7 for grade in (0.7, 0.5))
    expected = ((high + (1 - high) * low / 2) + (low + (1 - low) * high / 2)) / 2
    assert result["err(max_grade=0.7)@2"] == pytest.approx(expected, rel=1e-6)
    assert "relevance_threshold=0.7" in result.summary[0].definition
    assert summarise(score_users(table, table, metrics, **given))["precision@2"] == 0.5
    rows = dialect_map(table, table, "precision@2", dialects="trec_eval", **given).rows
    assert [row.mean for row in rows] == [0.5, 0.5]
    chosen = RankingEvaluator(predictionCol="score", labelCol="grade", metricName="precision@2", relevanceThreshold=0.7)
    assert chosen.evaluate(table) == 0.5
    # Arrays keep the precision of their elements.
    listed = [F.collect_list(name).alias(name) for name in ("item", "score", "grade")]
    both = table.groupBy("user").agg(*listed).withColumn("label", F.col("item")).drop("user")
    assert evaluate(both, None, metrics, item=("item", "label"), **given)["precision@2"] == 0.5
    metric = {"p": "precision(relevance_threshold=0.7)@2"}
    column = metrics_column("item", "label", metric, scores="score", relevance="grade")
    assert [row[0] for row in both.select(column.getField("p")).collect()] == [0.5, 0.5]
