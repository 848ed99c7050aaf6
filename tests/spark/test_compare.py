"""Models side by side: tables of any form come to what is said of their users without Spark, which has its tests beside."""

import json
import math

import pytest
from helpers.effort import FULL_LENGTH, part_of
from helpers.shuffles import shuffled_into
from statsmodels.stats.power import TTestPower
from worlds.model_frames import METRICS, both, compare_frames, users_of_models

from spark_rankeval import all_pairs, compare, detectable_difference, differences, evaluate, score_users, summarise
from spark_rankeval.errors import DataError, InputError, MetricError, OptionError, UnknownMetricError
from spark_rankeval.spark import tasks as states


def marked(frame, kinds, dialect="default", definition=None):
    """A table whose columns say what they are, as those of `score_users` do."""
    from pyspark.sql import functions as F

    named = {column: label for label, column in METRICS.items()}
    columns = []
    for name in frame.columns:
        said = {"kind": kinds.get(name, "metric")}
        if said["kind"] == "metric":
            text = definition or named[name]
            said |= {"label": named[name], "metric": text, "dialect": dialect, "on_invalid": "error", "relevance": ""}
        columns.append(F.col(name).alias(name, metadata={"spark_rankeval": json.dumps(said)}))
    return frame.select(*columns)


@pytest.fixture(scope="module")
def users():
    return users_of_models()


@pytest.fixture(scope="module")
def tables(spark, users):
    schema = "user long, ndcg_at_10 double, recall_at_5 double, percentile_rank double"
    # A table in memory that comes back as numbers: createDataFrame of pandas would make null of NaN.
    rows = {
        model: spark.createDataFrame([tuple(row) for row in frame.itertuples(index=False)], schema)
        for model, frame in users.items()
    }
    return {model: marked(frame, {"user": "user"}) for model, frame in rows.items()}


@pytest.fixture(scope="module")
def compared(tables):
    return compare(tables, "old", replicates=199)


def without_p(rows):
    """The figures but for those of the randomisation test, whose signs depend on how Spark hashes users."""
    drawn = ("p_sign_flip", "p", "p_test", "verdict", "sentence")
    return [{name: value for name, value in vars(row).items() if name not in drawn} for row in rows]


def test_the_figures_are_those_of_the_users_without_spark(users, compared):
    assert repr(without_p(compared.rows)) == repr(without_p(compare_frames(users, METRICS, "old", replicates=9).rows))


def narrow(table):
    return marked(table.selectExpr("cast(user as int) as user", *METRICS.values()), {"user": "user"})


def test_no_form_of_the_tables_changes_a_digit(spark, tables, compared, tmp_path):
    from pyspark.sql import functions as F

    for model, table in tables.items():
        table.write.parquet(str(tmp_path / model))
    stored = {model: spark.read.parquet(str(tmp_path / model)) for model in tables}
    long = None
    for model, table in tables.items():
        part = table.select(F.lit(model).alias("variant"), "*")
        long = part if long is None else long.unionByName(part)
    kinds = {"user": "user", "variant": "model"}
    forms = {
        "32-bit ids": {model: narrow(table) for model, table in tables.items()},
        "shuffled": {model: table.orderBy(F.rand(3)) for model, table in tables.items()},
        "read back beside fresh": stored | {"new": tables["new"]},
        "seven partitions": {model: table.repartition(7, "ndcg_at_10") for model, table in tables.items()},
    }
    for name, form in part_of(forms.items(), 2):
        assert compare(form, "old", replicates=199) == compared, name
    by_name = {(row.metric, row.model): row for row in compared.rows}
    rows = compare(marked(long.repartition(5), kinds).orderBy("user"), "old", replicates=199).rows
    assert {(row.metric, row.model): row for row in rows} == by_name
    assert [row.model for row in rows[:2]] == ["new", "other"]
    if FULL_LENGTH:
        told = {"model": "variant", "user": "user", "metrics": ["ndcg@10"], "replicates": 9}
        assert compare(long.select("*"), "old", **told)["ndcg@10", "new"].n_users > 0


def test_partitions_merged_by_tasks_give_the_same(tables, compared, monkeypatch):
    monkeypatch.setattr(states, "_TAKEN_BY_DRIVER", 0)
    assert compare(tables, "old", replicates=199) == compared


def test_the_number_of_shuffle_partitions_changes_nothing(spark, tables, compared):
    with shuffled_into(spark, 7):
        assert compare(tables, "old", replicates=199) == compared


def test_several_columns_make_a_user_in_any_order(spark, tables, compared):
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


def test_results_and_tables_may_stand_beside_each_other(small):
    predictions, labels = small
    one = evaluate(predictions, labels, ["rr", "ndcg@2"], score="score")
    other = score_users(
        predictions.selectExpr("user", "item", "-score as score"), labels, ["rr", "hit_rate@1"], score="score"
    )
    row = compare({"one": one, "other": other}, "one", replicates=9)["mrr"]
    assert (row.metric, row.n_users, row.mean, row.baseline_mean) == ("rr", 2, 1.0, 0.75)


def test_what_an_evaluation_of_several_models_gives_is_compared_as_it_is(small):
    predictions, labels = small
    turned = predictions.selectExpr("user", "item", "-score as score")
    models = {"plain": predictions, "turned": turned}
    metrics = ["rr", "ndcg@2"]
    result = evaluate(models, labels, metrics, score="score")
    apart = {name: score_users({name: table}, labels, metrics, score="score") for name, table in models.items()}
    expected = compare(apart, "turned", replicates=99)
    assert expected["rr"].difference == -0.25
    assert compare(result, "turned", replicates=99) == expected
    assert detectable_difference(result, "rr")["model"].tolist() == ["plain", "turned"]
    with pytest.raises(InputError, match=r"the baseline 'als' is not among the models: 'plain', 'turned'"):
        compare(result, "als")
    with pytest.raises(
        InputError, match=r"the result of 'both' has several models \(plain, turned\); pass it alone, not in a dict"
    ):
        compare({"both": result, "plain": apart["plain"]}, "plain")


def test_it_takes_one_pass_over_each_table(small, spark, tmp_path):
    predictions, labels = small
    marks = tmp_path / "marks"
    marks.mkdir()

    def mark(batches):
        for batch in batches:
            (marks / str(len(list(marks.iterdir())))).touch()
            yield batch

    counted = predictions.coalesce(1).mapInArrow(mark, predictions.schema)
    tables = {
        "counted": score_users(counted, labels, "rr", score="score"),
        "plain": score_users(predictions, labels, "rr", score="score"),
    }
    compare(tables, "plain", replicates=9)
    assert len(list(marks.iterdir())) == 1


def test_a_user_in_several_rows_is_named(tables, users):
    first, second = users["new"]["user"].iloc[:2].tolist()
    twice = tables["new"].union(tables["new"].where(f"user in ({first}, {second})"))
    message = (
        rf"several rows in 'new': 2, for example user=({first}|{second}) in 2 rows. Pass one row per user and model"
    )
    with pytest.raises(DataError, match=message) as caught:
        compare({"old": tables["old"], "new": twice}, "old", replicates=9)
    assert caught.value.counts == {"n_repeated_users of new": 2}
    if FULL_LENGTH:
        with pytest.raises(DataError, match="several rows in 'new': 2"):
            all_pairs({"old": tables["old"], "new": twice})
    # Any of a baseline's rows would be subtracted.
    with pytest.raises(DataError, match="several rows in 'old': 2, for example user="):
        differences({"old": twice, "new": tables["old"]}, "old")


def test_rows_that_could_not_be_ranked_are_an_error_unless_they_were_dropped(small, spark):
    predictions, labels = small
    nobody = spark.createDataFrame([(None, 3, 0.1), (1, 1, 0.2)], predictions.schema)

    def scored(table, **options):
        return score_users(table, labels, "rr", score="score", **options)

    good, bad = scored(predictions), predictions.union(nobody)
    with pytest.raises(DataError, match=r"'bad' has 2 rows that could not be ranked; summarise") as caught:
        compare({"good": good, "bad": scored(bad)}, "good", replicates=9)
    assert caught.value.counts == {"n_invalid of bad": 2}
    row = compare({"good": good, "bad": scored(bad, on_invalid="drop")}, "good", replicates=9)["rr"]
    # The row of nobody is no user.
    assert (row.n_users, row.n_undefined, row.difference, row.ties) == (2, 0, 0.0, 2)
    if FULL_LENGTH:
        assert differences({"good": good, "bad": scored(bad)}, "good").count() == 2


def bad_calls(tables):
    import pyspark.sql.functions as F

    old, new = tables["old"], tables["new"]
    other = marked(new.select("*"), {"user": "user"}, dialect="mllib")
    text = marked(new.withColumn("user", F.col("user").cast("string")), {"user": "user"})
    renamed = marked(new.withColumnRenamed("user", "customer"), {"customer": "user"})
    two = {"old": old, "new": new}
    plain = new.selectExpr("user + 0 as id", "recall_at_5 + 0 as recall")
    return [
        (two, {"baseline": "als"}, InputError, r"baseline 'als' is not among the models: 'old', 'new'"),
        (two, {"baseline": None}, InputError, r"name the baseline, such as compare\(result, baseline='new'\); the models are "
         "'old', 'new'"),
        ({"old": old}, {"baseline": None}, InputError, "results has one model, 'old', and a comparison needs two"),
        ({"old": old}, {}, InputError, "the only model is the baseline 'old'"),
        ({}, {}, InputError, "per-user tables by model name"),
        ({"old": old, "new": [1]}, {}, InputError, "the table of 'new' must be a table or a Result; got a list"),
        ({"old": old, "new": other}, {}, InputError, "'ndcg@10' is not the same metric in all tables: ndcg@10 in the "
         "dialect 'default' in 'old', ndcg@10 in the dialect 'mllib' in 'new'"),
        ({"old": old, "new": text}, {}, InputError, "'user' is bigint in 'old' and string in 'new'"),
        ({"old": old, "new": renamed}, {}, InputError, "user in 'old', customer in 'new'"),
        ({"old": old, "new": plain}, {}, InputError, "'new' has lost the metadata that marks its user columns"),
        (old, {}, InputError, "the table has one model, and a comparison needs two"),
        (two, {"model": "variant"}, InputError, "model='variant' is for one table"),
        (two, {"user": "nobody"}, InputError, "no column 'nobody'"),
        (two, {"metrics": "rr"}, UnknownMetricError, "not every table has a metric 'rr'; all have: ndcg@10"),
        (two, {"metrics": "ndgc"}, MetricError, "did you mean"),
        (two, {"metrics": []}, MetricError, "no metric was asked for"),
        (two, {"level": 95}, OptionError, "level"),
        (two, {"margin": -1}, OptionError, "margin"),
        (two, {"margin": {"ndcg@10": math.inf}}, OptionError, "margin"),
        (two, {"margin": {"ndcg@10": 0.1}, "metrics": "recall@5"}, OptionError, "ndcg@10, which this call does not compare"),
        (two, {"test": "wilcoxon"}, OptionError, "test must be one of 'sign_flip', 't'"),
        (two, {"correction": "bonferroni"}, OptionError, "there is no correction"),
        (two, {"replicates": 0}, OptionError, "replicates"),
        (two, {"seed": 0.5}, OptionError, "seed"),
    ]  # fmt: skip


@pytest.mark.parametrize("case", range(24))
def test_a_wrong_call_raises_before_any_job(jobs_of, tables, case):
    results, options, error, message = bad_calls(tables)[case]

    def call():
        with pytest.raises(error, match=message):
            compare(results, **{"baseline": "old", **options})

    assert jobs_of(call) == 0


def test_tables_of_one_metric_each_have_none_in_common(tables):
    one, other = tables["old"].select("user", "ndcg_at_10"), tables["new"].select("user", "recall_at_5")
    with pytest.raises(InputError, match="no metric in common: 'old' has ndcg@10; 'new' has recall@5"):
        compare({"old": one, "new": other}, "old")


def test_a_table_without_metadata_is_read_by_its_column_names(tables, users):
    plain = {
        model: table.selectExpr("user + 0 as user", "ndcg_at_10 + 0 as quality") for model, table in tables.items()
    }
    row = compare(plain, "old", user="user", replicates=9)["quality", "new"]
    assert row.n_users == len(both(users, "new", "ndcg_at_10")[0])


def test_the_baseline_of_a_long_table_is_looked_for_in_it(tables):
    from pyspark.sql import functions as F

    long = tables["old"].select(F.lit("old").alias("model"), "*").unionByName(
        tables["new"].select(F.lit("new").alias("model"), "*")
    )  # fmt: skip
    with pytest.raises(InputError, match="the baseline 'als' is not among the models: 'new', 'old'"):
        compare(long, "als", model="model", replicates=9)
    with pytest.raises(InputError, match="the only model is the baseline 'old'"):
        compare(long.where("model = 'old'"), "old", model="model", replicates=9)
    marked_long = marked(long, {"user": "user", "model": "model"})
    with pytest.raises(DataError, match=r"several rows in 'both': .* a table of several models alone"):
        compare({"both": marked_long, "new": tables["new"]}, "new", replicates=9)


def test_a_row_of_nobody_is_of_no_model(spark, tables):
    from pyspark.sql import functions as F

    long = tables["old"].select(F.lit("old").alias("model"), "*").unionByName(
        tables["new"].select(F.lit("new").alias("model"), "*")
    )  # fmt: skip
    nobody = spark.createDataFrame([(None, 0.5, 0.5, 0.5)], ", ".join(f"{n} {t}" for n, t in long.dtypes[1:]))
    # On Sail a union keeps only marks that both tables have.
    nobody = marked(nobody, {"user": "user"}).select(F.lit(None).cast("string").alias("model"), "*")
    told = {"model": "model", "metrics": ["ndcg@10"], "replicates": 9}
    assert compare(long.union(nobody), "old", **told) == compare(long, "old", **told)


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
    with pytest.raises(InputError, match="not among the models"):
        differences(tables, "als")


def test_one_model_has_nothing_to_compare(small):
    """A result or a per-user table of one model, by any function: the message says what to call instead."""
    alone = evaluate(*small, "rr", score="score")
    named = evaluate({"als": small[0]}, small[1], "rr", score="score")
    for result, words in ((alone, "the result has one model, and"), (named, "the result has one model, 'als', and")):
        for function in (compare, all_pairs, differences):
            with pytest.raises(InputError) as caught:
                function(result, **({} if function is all_pairs else {"baseline": "als"}))
            assert str(caught.value).startswith(words)
            assert "Evaluate a dict of models" in str(caught.value)
    with pytest.raises(InputError, match="the table has one model, and a comparison needs two"):
        compare(score_users(*small, "rr", score="score"), "als")
    with pytest.raises(InputError, match="the result has one model, 'als', and"):
        compare(named)
    two = {"als": named, "popularity": alone}
    with pytest.raises(
        InputError, match=r"such as differences\(result, baseline='popularity'\); the models are 'als', 'pop"
    ):
        differences(two)


def test_the_detectable_difference_of_one_model_is_statsmodels(small):
    result = evaluate({"m": small[0]}, small[1], ["rr", "precision@1"], score="score")
    line = detectable_difference(result, "mrr", level=0.9).iloc[0]
    power = TTestPower().power(line["detectable_difference"] / result.summary[0].std, 2, 0.1)
    assert power == pytest.approx(0.8, abs=1e-9)
    assert (line["model"], line["std_of"], line["n_users"]) == ("m", "values", 2)
    with pytest.raises(UnknownMetricError, match="no metric 'ndcg@3'; available: rr, precision@1"):
        detectable_difference(result, "ndcg@3")
    with pytest.raises(InputError, match="needs a Result or a comparison; got a str"):
        detectable_difference("rr")
    with pytest.raises(OptionError, match="power"):
        detectable_difference(result, power=0.01)


@pytest.fixture(scope="module")
def parted(tables):
    from pyspark.sql import functions as F

    place = (F.col("user") / 7919 % 4).cast("int")
    where = F.when(place < 3, F.element_at(F.array(*map(F.lit, ("DE", "FR", "PL"))), F.least(place, F.lit(2)) + 1))
    device = F.when(F.col("user") % 2 == 0, "web").otherwise("ios")
    return {name: table.withColumn("country", where).withColumn("device", device) for name, table in tables.items()}


def test_slices_that_tables_lack_or_disagree_on(spark, parted, tables):
    with pytest.raises(InputError, match=r"by=\['country'\]: 'new' has no column 'country'"):
        compare(parted | {"new": tables["new"]}, "old", by="country")
    from pyspark.sql import functions as F

    moved = parted["new"].withColumn("country", F.when(F.col("user") == 0, "XX").otherwise(F.col("country")))
    one_of_both = moved.where("user = 0").count() * parted["old"].where("user = 0").count()
    assert one_of_both == 1
    with pytest.raises(DataError, match=r"rows of the same user: 1;"):
        compare(parted | {"new": moved}, "old", by="country", replicates=9)


def test_predictions_are_refused_by_that_name_before_any_job(spark, jobs_of):
    predictions = spark.createDataFrame([("ann", "tea", 0.9)], "user string, item string, score double")
    arrays = spark.createDataFrame([(1, [2])], "user int, predictions array<int>")
    said = r"holds predictions, not values of users; evaluate first, .* It has: user"

    def compared(given, **options):
        with pytest.raises(InputError, match=said):
            compare(given, "a", **options)

    assert jobs_of(lambda: compared({"a": predictions, "b": predictions})) == 0
    compared({"a": predictions, "b": predictions}, user="user")
    compared({"a": arrays, "b": arrays})
    compared(predictions)
