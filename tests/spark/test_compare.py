"""Models side by side: tables of any form come to what is said of their users without Spark, which has its tests beside."""

import math

import pytest
from helpers.plans import counted
from helpers.shuffles import shuffled_into
from pyspark.sql import functions as F
from statsmodels.stats.power import TTestPower
from worlds.model_frames import METRICS, both, compare_frames, marked, tables_of_models, users_of_models

from spark_rankeval import all_pairs, compare, detectable_difference, differences, evaluate, score_users, summarise
from spark_rankeval.errors import DataError, InputError
from spark_rankeval.spark import engine


@pytest.fixture(scope="module")
def users():
    return users_of_models()


@pytest.fixture(scope="module")
def tables(spark):
    return tables_of_models(spark)


@pytest.fixture(scope="module")
def compared(tables):
    return compare(tables, "old", replicates=199)


def without_p(rows):
    """The figures but for those of the randomisation test, whose signs depend on how Spark hashes users."""
    drawn = ("p_sign_flip", "p", "p_test", "verdict", "sentence")
    return [{name: value for name, value in row.by_column().items() if name not in drawn} for row in rows]


def long(tables, name="model"):
    """Tables of models as one, with a column of models."""
    parts = [table.select(F.lit(model).alias(name), "*") for model, table in tables.items()]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    return marked(whole, {"user": "user", name: "model"})


def test_the_figures_are_those_of_the_users_without_spark(users, compared):
    assert repr(without_p(compared.rows)) == repr(without_p(compare_frames(users, METRICS, "old", replicates=9).rows))


def test_no_form_of_the_tables_changes_a_digit(spark, tables, compared, tmp_path, monkeypatch):
    tables["old"].write.parquet(str(tmp_path / "old"))
    narrow = {
        model: marked(table.selectExpr("cast(user as int) as user", *METRICS.values()), {"user": "user"})
        for model, table in tables.items()
    }
    stored = tables | {"old": spark.read.parquet(str(tmp_path / "old"))}
    with shuffled_into(spark, 7):
        assert compare(stored, "old", replicates=199) == compared
    rows = compare(long(tables, "variant").repartition(5).orderBy("user"), "old", replicates=199).rows
    assert {(row.metric, row.model): row for row in rows} == {(row.metric, row.model): row for row in compared.rows}
    assert [row.model for row in rows[:2]] == ["new", "other"]
    # Tasks merge what the driver does not take.
    monkeypatch.setattr(engine, "_TAKEN_BY_DRIVER", 0)
    apart = {model: table.repartition(7, "ndcg_at_10") for model, table in narrow.items()}
    assert compare(apart, "old", replicates=199) == compared


@pytest.mark.ci
def test_several_columns_make_a_user_in_any_order(tables, compared):
    split = {
        model: marked(
            table.selectExpr("user % 10 as a", "cast(user div 10 as string) as b", *METRICS.values()),
            {"a": "user", "b": "user"},
        )
        for model, table in tables.items()
    }
    turned = split | {"new": split["new"].select("b", *METRICS.values(), "a")}
    rows = compare(turned, "old", replicates=9).rows
    assert [(row.n_users, row.difference) for row in rows] == [(row.n_users, row.difference) for row in compared.rows]


@pytest.fixture
def small(spark):
    predictions = spark.createDataFrame([(1, 1, 0.9), (1, 2, 0.8), (2, 3, 0.5)], "user int, item int, score double")
    return predictions, spark.createDataFrame([(1, 2), (2, 3)], "user int, item int")


def test_results_and_tables_of_one_or_several_models_are_compared_as_they_are(small):
    predictions, labels = small
    models = {"plain": predictions, "turned": predictions.selectExpr("user", "item", "-score as score")}
    result = evaluate(models, labels, ["rr", "ndcg@2"], score="score")
    one = evaluate(predictions, labels, ["rr", "ndcg@2"], score="score")
    other = score_users(models["turned"], labels, ["rr", "hit_rate@1"], score="score")
    row = compare({"plain": one, "turned": other}, "turned", replicates=99)["mrr"]
    assert (row.metric, row.n_users, row.mean, row.baseline_mean, row.difference) == ("rr", 2, 0.75, 1.0, -0.25)
    together = compare(result, "turned", replicates=99)
    assert together["rr"].difference == row.difference
    apart = {
        name: score_users({name: table}, labels, ["rr", "ndcg@2"], score="score") for name, table in models.items()
    }
    assert compare(apart, "turned", replicates=99) == together
    lines = detectable_difference(result, "mrr", level=0.9)
    assert lines[["model", "std_of", "n_users"]].to_numpy().tolist() == [
        ["plain", "values", 2], ["turned", "values", 2]
    ]  # fmt: skip
    std = next(row.std for row in result.summary if (row.model, row.key) == ("plain", "rr"))
    assert TTestPower().power(lines.iloc[0]["detectable_difference"] / std, 2, 0.1) == pytest.approx(0.8, abs=1e-9)


def test_it_takes_one_pass_over_each_table(small, tmp_path):
    predictions, labels = small
    marked, n_batches = counted(predictions, tmp_path / "marks")
    given = {"counted": marked, "plain": predictions}
    compare(
        {name: score_users(table, labels, "rr", score="score") for name, table in given.items()}, "plain", replicates=9
    )
    assert n_batches() == 1


def test_a_user_in_several_rows_is_named(tables, users):
    first, second = users["new"]["user"].iloc[:2].tolist()
    twice = tables["new"].union(tables["new"].where(f"user in ({first}, {second})"))
    words = rf"several rows in 'new': 2, for example user=({first}|{second}) in 2 rows. Pass one row per user and model"
    with pytest.raises(DataError, match=words) as caught:
        compare({"old": tables["old"], "new": twice}, "old", replicates=9)
    assert caught.value.counts == {"n_repeated_users of new": 2}
    with pytest.raises(DataError, match="several rows in 'new': 2"):
        all_pairs({"old": tables["old"], "new": twice})
    # Any of a baseline's rows would be subtracted.
    with pytest.raises(DataError, match="several rows in 'old': 2, for example user="):
        differences({"old": twice, "new": tables["old"]}, "old")
    of_several = long({name: tables[name] for name in ("old", "new")})
    with pytest.raises(DataError, match=r"several rows in 'both': .* a table of several models alone"):
        compare({"both": of_several, "new": tables["new"]}, "new", replicates=9)


def test_rows_that_could_not_be_ranked_are_an_error_unless_they_were_dropped(small, spark):
    predictions, labels = small
    bad = predictions.union(spark.createDataFrame([(None, 3, 0.1), (1, 1, 0.2)], predictions.schema))
    good, unranked = (score_users(table, labels, "rr", score="score") for table in (predictions, bad))
    with pytest.raises(DataError, match=r"'bad' has 2 rows that could not be ranked; summarise") as caught:
        compare({"good": good, "bad": unranked}, "good", replicates=9)
    assert caught.value.counts == {"n_invalid of bad": 2}
    dropped = score_users(bad, labels, "rr", score="score", on_invalid="drop")
    row = compare({"good": good, "bad": dropped}, "good", replicates=9)["rr"]
    # The row of nobody is no user.
    assert (row.n_users, row.n_undefined, row.difference, row.ties) == (2, 0, 0.0, 2)
    assert differences({"good": good, "bad": unranked}, "good").count() == 2


def test_a_table_without_metadata_is_read_by_its_column_names(tables, users):
    plain = {
        model: table.selectExpr("user + 0 as user", "ndcg_at_10 + 0 as quality") for model, table in tables.items()
    }
    row = compare(plain, "old", user="user", replicates=9)["quality", "new"]
    assert row.n_users == len(both(users, "new", "ndcg_at_10")[0])


def test_the_baseline_of_a_long_table_is_looked_for_in_it_and_a_row_of_nobody_is_of_no_model(spark, tables):
    models = long({name: tables[name] for name in ("old", "new")})
    with pytest.raises(InputError, match="the baseline 'als' is not among the models: 'new', 'old'"):
        compare(models, "als", replicates=9)
    with pytest.raises(InputError, match="the only model is the baseline 'old'"):
        compare(models.where("model = 'old'"), "old", replicates=9)
    nobody = spark.createDataFrame([(None, None, 0.5, 0.5, 0.5)], ", ".join(f"{n} {t}" for n, t in models.dtypes))
    # On Sail a union keeps only marks that both tables have.
    nobody = marked(nobody, {"user": "user", "model": "model"})
    told = {"metrics": ["ndcg@10"], "replicates": 9}
    assert compare(models.union(nobody), "old", **told) == compare(models, "old", **told)


def test_differences_are_a_lazy_row_a_user_and_model(jobs_of, tables, users):
    made = []
    counts_users = jobs_of(lambda: tables["old"].groupBy("user").count().collect())
    # Users are counted once, over all tables; values are computed when they are asked for.
    n_jobs = jobs_of(lambda: made.append(differences(tables, "old", metrics=["recall@5", "ndcg@10"])))
    assert 0 < n_jobs <= 3 * counts_users + 1
    (frame,) = made
    assert frame.columns == ["user", "model", "recall_at_5", "ndcg_at_10"]
    found = {(row["user"], row["model"]): row for row in frame.collect()}
    assert len(found) == sum(len(users[model]) for model in ("new", "other"))
    baseline = users["old"].set_index("user")["ndcg_at_10"]
    for model in ("new", "other"):
        for row in users[model].itertuples():
            expected = row.ndcg_at_10 - baseline.get(row.user, math.nan)
            assert found[row.user, model]["ndcg_at_10"] == pytest.approx(expected, nan_ok=True, abs=1e-15)
    with pytest.raises(InputError, match="no metric column"):
        summarise(frame)


def test_slices_that_tables_disagree_on_are_an_error(tables):
    parted = {name: table.withColumn("country", F.lit("DE")) for name, table in tables.items()}
    moved = parted["new"].withColumn("country", F.when(F.col("user") == 0, "XX").otherwise(F.col("country")))
    assert moved.where("user = 0").count() == parted["old"].where("user = 0").count() == 1
    with pytest.raises(DataError, match=r"rows of the same user: 1;"):
        compare(parted | {"new": moved}, "old", by="country", replicates=9)
