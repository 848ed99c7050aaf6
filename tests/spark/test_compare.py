"""Models side by side: what scipy and statsmodels say of the collected users, whatever the partitions and the form."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from shuffles import shuffled_into
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from spark_rankeval import all_pairs, compare, detectable_difference, differences, evaluate, score_users, summarise
from spark_rankeval.errors import (
    DataError,
    InputError,
    MetricError,
    OptionError,
    SparkRankEvalWarning,
    UnknownMetricError,
)
from spark_rankeval.spark import states

METRICS = {"ndcg@10": "ndcg_at_10", "recall@5": "recall_at_5", "percentile_rank": "percentile_rank"}
MODELS = ("old", "new", "other")
N = 300


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
    """Each model's users: not all users have every model, and not every metric is defined."""
    rng = np.random.default_rng(7)
    skill = rng.random((N, len(METRICS)))
    frames = {}
    for shift, model in enumerate(MODELS):
        values = np.clip(skill + rng.normal(0.02 * shift, 0.1, skill.shape), 0, 1)
        # Few distinct values, where a randomisation test depends on exact sums.
        values[:, 1] = np.round(values[:, 1] * 5) / 5
        values[rng.random(values.shape) < 0.05] = np.nan
        frame = pd.DataFrame(values, columns=list(METRICS.values()))
        frame.insert(0, "user", np.arange(N) * 7919)
        frames[model] = frame.iloc[rng.permutation(N)[: N - 20 * shift]]
    return frames


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
    return compare(tables, "old")


def both(users, model, column, baseline="old"):
    joined = users[model].merge(users[baseline], on="user", suffixes=("", "_baseline"), how="outer")
    pair = joined[[column, f"{column}_baseline"]]
    defined = pair.dropna().to_numpy()
    return defined[:, 0], defined[:, 1], len(pair) - len(defined)


def test_every_figure_is_that_of_scipy_on_the_collected_users(users, compared):
    assert [(row.metric, row.model) for row in compared.rows] == [
        (label, model) for label in METRICS for model in MODELS[1:]
    ]
    for row in compared.rows:
        values, baseline, n_undefined = both(users, row.model, METRICS[row.metric])
        difference = values - baseline
        expected = stats.ttest_rel(values, baseline)
        interval = expected.confidence_interval(0.95)
        assert (row.n_users, row.n_undefined, row.baseline) == (len(values), n_undefined, "old")
        assert [row.mean, row.baseline_mean, row.difference] == pytest.approx(
            [values.mean(), baseline.mean(), difference.mean()], rel=1e-10
        )
        assert row.relative_lift == pytest.approx(difference.mean() / baseline.mean(), rel=1e-10)
        assert row.std == pytest.approx(difference.std(ddof=1), rel=1e-10)
        assert row.standard_error == pytest.approx(stats.sem(difference), rel=1e-10)
        assert row.p_t == pytest.approx(expected.pvalue, rel=1e-10)
        assert [row.interval_low, row.interval_high] == pytest.approx([interval.low, interval.high], rel=1e-10)
        assert row.cohens_d == pytest.approx(difference.mean() / difference.std(ddof=1), rel=1e-10)
        up, down = (difference > 1e-9).sum(), (difference < -1e-9).sum()
        # Of the percentile rank, the smaller value is the better one.
        wins, losses = (down, up) if row.metric == "percentile_rank" else (up, down)
        assert (row.wins, row.ties, row.losses) == (wins, len(values) - up - down, losses)


def test_the_sign_flip_test_is_scipys_within_the_noise_of_both(users, compared):
    for row in compared.rows:
        values, baseline, _ = both(users, row.model, METRICS[row.metric])
        expected = stats.permutation_test(
            (np.round(values - baseline, 12),), np.mean, permutation_type="samples", n_resamples=9999, rng=5
        ).pvalue
        assert row.p_sign_flip == pytest.approx(expected, abs=5 * math.sqrt(2 * expected / 10_000) + 2e-4)


@pytest.mark.parametrize(("correction", "theirs"), [("holm", "holm"), ("benjamini_hochberg", "fdr_bh"), ("none", None)])
@pytest.mark.parametrize("test", ["sign_flip", "t"])
def test_p_is_corrected_over_all_metrics_and_models(tables, correction, theirs, test):
    rows = compare(tables, "old", correction=correction, test=test, replicates=199).rows
    raw = [getattr(row, f"p_{test}") for row in rows]
    expected = raw if theirs is None else multipletests(raw, method=theirs)[1]
    assert [row.p for row in rows] == pytest.approx(list(expected), rel=1e-10)


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
        "one partition": {model: table.repartition(1) for model, table in tables.items()},
        "seven": {model: table.repartition(7, "ndcg_at_10") for model, table in tables.items()},
        "shuffled": {model: table.orderBy(F.rand(3)) for model, table in tables.items()},
        "32-bit ids": {model: narrow(table) for model, table in tables.items()},
        "read back": stored,
        "read back beside fresh": stored | {"new": tables["new"]},
    }  # fmt: skip
    for name, form in forms.items():
        assert compare(form, "old") == compared, name
    by_name = {(row.metric, row.model): row for row in compared.rows}
    for form in (marked(long, kinds), marked(long.repartition(5), kinds).orderBy("user")):
        rows = compare(form, "old").rows
        assert {(row.metric, row.model): row for row in rows} == by_name
        assert [row.model for row in rows[:2]] == ["new", "other"]
    assert (
        compare(long.select("*"), "old", model="variant", user="user", metrics=["ndcg@10"])["ndcg@10", "new"].n_users
        > 0
    )


def test_partitions_merged_by_tasks_give_the_same(tables, compared, monkeypatch):
    monkeypatch.setattr(states, "_TAKEN_BY_DRIVER", 0)
    assert compare(tables, "old") == compared


def test_the_number_of_shuffle_partitions_changes_nothing(spark, tables, compared):
    with shuffled_into(spark, 23):
        assert compare(tables, "old") == compared


def test_another_seed_draws_other_signs(tables, compared):
    other = compare(tables, "old", seed=1, metrics="recall@5", replicates=999)
    assert [row.p_sign_flip for row in other.rows] != [
        row.p_sign_flip for row in compare(tables, "old", metrics="recall@5", replicates=999).rows
    ]
    assert other["recall@5", "new"].difference == compared["recall@5", "new"].difference


def test_a_model_that_few_partitions_have(spark, tables, users):
    few = {**tables, "rare": tables["new"].where("user < 20000")}
    row = compare(few, "old", metrics=["ndcg@10"], replicates=99)["ndcg@10", "rare"]
    rare = users["new"][users["new"]["user"] < 20000]
    values, _, n_undefined = both({"rare": rare, "old": users["old"]}, "rare", "ndcg_at_10")
    assert (row.n_users, row.n_undefined) == (len(values), n_undefined)


def test_a_model_without_a_row_is_undecided(tables):
    row = compare({**tables, "none": tables["new"].limit(0)}, "old", replicates=9)["ndcg@10", "none"]
    assert (row.n_users, row.n_undefined, row.verdict) == (0, N, "undecided")
    assert row.sentence == "Nothing can be said of none and old on ndcg@10: no user."
    assert math.isnan(row.p)


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


def test_verdicts_follow_the_margin(tables):
    wide = compare(tables, "old", margin=0.2, replicates=999)
    assert {row.verdict for row in wide.rows} == {"no relevant difference"}
    row = compare(tables, "old", margin={"nDCG@10": 0.2}, replicates=999)["ndcg@10", "other"]
    assert (row.margin, row.verdict) == (0.2, "no relevant difference")
    assert row.sentence.startswith("other and old differ by less than a margin of 0.2 on ndcg@10 (difference +")
    plain = compare(tables, "old", replicates=999, metrics=["percentile_rank", "ndcg_at_10"])
    assert [row.metric for row in plain.rows] == ["percentile_rank"] * 2 + ["ndcg@10"] * 2
    assert plain["ndcg@10", "other"].verdict == "better"
    # The same shift of a metric whose smaller values are better.
    assert plain["percentile_rank", "other"].verdict == "worse"
    assert plain.sentences[1].startswith("other is worse than old on percentile_rank (")


def test_it_prints_as_a_table_and_reads_as_pandas_and_json(tables, compared):
    text = repr(compare(tables, "old", margin=0.001, replicates=199))
    head, line = text.splitlines()[1:3]
    assert text.startswith("baseline 'old'\n")
    assert head.split() == [
        "metric", "model", "users", "mean", "baseline", "difference", "95", "%", "interval", "p", "d", "wins/ties/losses",
        "verdict",
    ]  # fmt: skip
    row = compared.rows[0]
    means = [f"{row.mean:.4f}", f"{row.baseline_mean:.4f}", f"{row.difference:+.4f}"]
    assert line.split()[:6] == ["ndcg@10", "new", str(row.n_users), *means]
    assert f"{row.interval_low:+.4f} to {row.interval_high:+.4f}" in line
    assert f"{row.wins}/{row.ties}/{row.losses}" in line
    assert "sign-flip randomisation test, 199 replicates, corrected for 6 comparisons (holm)" in text
    assert "differences up to 0.001 do not matter" in text
    frame = compared.to_pandas()
    assert frame["p"].tolist() == [row.p for row in compared.rows]
    assert json.loads(compared.to_json())["rows"][0]["sentence"] == row.sentence
    assert compared._repr_html_().count("<tr") == len(compared) + 1
    with pytest.raises(UnknownMetricError, match="several rows answer to 'ndcg@10'"):
        compared["ndcg@10"]
    with pytest.raises(UnknownMetricError, match="no row answers to 'rr'"):
        compared["rr"]


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
    result = evaluate(models, labels, ["rr", "ndcg@2"], score="score")
    apart = {name: evaluate({name: table}, labels, ["rr", "ndcg@2"], score="score") for name, table in models.items()}
    expected = compare(apart, "turned", replicates=99)
    assert expected["rr"].difference == -0.25
    assert compare(result, "turned", replicates=99) == expected
    assert compare(score_users(models, labels, ["rr", "ndcg@2"], score="score"), "turned", replicates=99) == expected
    assert detectable_difference(result, "rr")["model"].tolist() == ["plain", "turned"]
    with pytest.raises(InputError, match=r"the baseline 'als' is none of the models: 'plain', 'turned'"):
        compare(result, "als")
    with pytest.raises(InputError, match=r"the result of 'both' is of several models \(plain, turned\): pass it alone"):
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


def test_a_user_in_several_rows_is_named(tables):
    twice = tables["new"].union(tables["new"].where("user in (0, 7919)"))
    message = r"several rows of 'new': 2, for example user=(0|7919) in 2 rows; each model has one row a user"
    with pytest.raises(DataError, match=message) as caught:
        compare({"old": tables["old"], "new": twice}, "old", replicates=9)
    assert caught.value.counts == {"n_repeated_users of new": 2}
    for repeated in ({"old": tables["old"], "new": twice}, {"old": twice, "new": tables["new"]}):
        name = next(name for name, table in repeated.items() if table is twice)
        with pytest.raises(DataError, match=f"several rows of '{name}': 2"):
            all_pairs(repeated)
        # Any of a baseline's rows would be subtracted.
        with pytest.raises(DataError, match=f"several rows of '{name}': 2, for example user="):
            differences(repeated, "old")


def test_rows_that_could_not_be_ranked_are_an_error_unless_they_were_dropped(small, spark):
    predictions, labels = small
    nobody = spark.createDataFrame([(None, 3, 0.1), (1, 1, 0.2)], predictions.schema)

    def scored(table, **options):
        return score_users(table, labels, "rr", score="score", **options)

    good, bad = scored(predictions), predictions.union(nobody)
    with pytest.raises(DataError, match=r"rows of 'bad' that could not be ranked: 2; summarise") as caught:
        compare({"good": good, "bad": scored(bad)}, "good", replicates=9)
    assert caught.value.counts == {"n_invalid of bad": 2}
    row = compare({"good": good, "bad": scored(bad, on_invalid="drop")}, "good", replicates=9)["rr"]
    # The row of nobody is no user.
    assert (row.n_users, row.n_undefined, row.difference, row.ties) == (2, 0, 0.0, 2)
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
        (two, {"baseline": "als"}, InputError, r"baseline 'als' is none of the models: 'old', 'new'"),
        ({"old": old}, {}, InputError, "only the baseline 'old'"),
        ({}, {}, InputError, "per-user tables by the names"),
        ({"old": old, "new": [1]}, {}, InputError, "the table of 'new' must be a Spark DataFrame or a Result; got a list"),
        ({"old": old, "new": other}, {}, InputError, "'ndcg@10' is not the same metric in all tables: ndcg@10 in the "
         "dialect 'default' in 'old', ndcg@10 in the dialect 'mllib' in 'new'"),
        ({"old": old, "new": text}, {}, InputError, "'user' is bigint in 'old' and string in 'new'"),
        ({"old": old, "new": renamed}, {}, InputError, "user in 'old', customer in 'new'"),
        ({"old": old, "new": plain}, {}, InputError, "'new' does not say which columns are the user"),
        (old, {}, InputError, "one table alone must hold several models"),
        (two, {"model": "variant"}, InputError, "model='variant' is for one table"),
        (two, {"user": "nobody"}, InputError, "no column 'nobody'"),
        (two, {"metrics": "rr"}, UnknownMetricError, "not every table has a metric 'rr'; all have: ndcg@10"),
        (two, {"metrics": "ndgc"}, MetricError, "did you mean"),
        (two, {"metrics": []}, MetricError, "no metric was asked for"),
        (two, {"level": 95}, OptionError, "level"),
        (two, {"margin": -1}, OptionError, "margin"),
        (two, {"margin": {"ndcg@10": math.inf}}, OptionError, "margin"),
        (two, {"margin": {"ndcg@10": 0.1}, "metrics": "recall@5"}, OptionError, "ndcg@10, which is not compared"),
        (two, {"test": "wilcoxon"}, OptionError, "test must be one of 'sign_flip', 't'"),
        (two, {"correction": "bonferroni"}, OptionError, "unknown correction"),
        (two, {"replicates": 0}, OptionError, "replicates"),
        (two, {"seed": 0.5}, OptionError, "seed"),
    ]  # fmt: skip


@pytest.mark.parametrize("case", range(22))
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
    with pytest.raises(InputError, match="the baseline 'als' is none of the models: 'new', 'old'"):
        compare(long, "als", model="model", replicates=9)
    with pytest.raises(InputError, match="only the baseline 'old'"):
        compare(long.where("model = 'old'"), "old", model="model", replicates=9)
    marked_long = marked(long, {"user": "user", "model": "model"})
    with pytest.raises(DataError, match=r"several rows of 'both': .* a table of several models alone"):
        compare({"both": marked_long, "new": tables["new"]}, "new", replicates=9)


def test_a_row_of_nobody_is_of_no_model(spark, tables):
    from pyspark.sql import functions as F

    long = tables["old"].select(F.lit("old").alias("model"), "*").unionByName(
        tables["new"].select(F.lit("new").alias("model"), "*")
    )  # fmt: skip
    nobody = spark.createDataFrame([(None, None, 0.5, 0.5, 0.5)], ", ".join(f"{n} {t}" for n, t in long.dtypes))
    assert compare(long.union(nobody), "old", model="model", replicates=9) == compare(
        long, "old", model="model", replicates=9
    )
    assert repr(all_pairs(long.union(nobody), model="model").rows) == repr(all_pairs(long, model="model").rows)


def complete(users, column):
    joined = [users[model].set_index("user")[column] for model in sorted(MODELS)]
    frame = pd.concat(joined, axis=1, join="inner").dropna()
    return frame.to_numpy()


def test_all_pairs_is_tukeys_test_with_users_as_blocks(tables, users):
    pairs = all_pairs(tables)
    assert [(row.model, row.other) for row in pairs.rows[:3]] == [("old", "new"), ("other", "new"), ("other", "old")]
    for row in pairs.rows:
        values = complete(users, METRICS[row.metric])
        n, k = values.shape
        residuals = values - values.mean(axis=1, keepdims=True) - values.mean(axis=0) + values.mean()
        df = (n - 1) * (k - 1)
        error = math.sqrt((residuals**2).sum() / df / n)
        one, other = (sorted(MODELS).index(model) for model in (row.model, row.other))
        difference = values[:, one].mean() - values[:, other].mean()
        q = abs(difference) / error
        reach = stats.studentized_range.ppf(0.95, k, df) * error
        assert (row.n_users, row.n_undefined) == (n, N - n)
        assert [row.mean, row.other_mean] == pytest.approx([values[:, one].mean(), values[:, other].mean()], rel=1e-10)
        assert [row.difference, row.q] == pytest.approx([difference, q], rel=1e-9)
        assert row.p_tukey == pytest.approx(stats.studentized_range.sf(q, k, df), rel=1e-6, abs=1e-9)
        assert [row.interval_low, row.interval_high] == pytest.approx(
            [difference - reach, difference + reach], rel=1e-6
        )
        assert math.isnan(row.p_randomised)
        assert row.p == row.p_tukey
    assert repr(pairs).splitlines()[0].split()[:3] == ["metric", "model", "other"]
    assert pairs["ndcg@10", "old", "other"].sentence.startswith("other is better than old on ndcg@10 (")


def test_the_randomised_test_hangs_on_no_partition(tables, users):
    first = all_pairs(tables, test="randomised", replicates=499, metrics=["recall@5", "ndcg@10"])
    other = all_pairs(
        {model: table.repartition(5, "recall_at_5") for model, table in reversed(tables.items())},
        test="randomised", replicates=499, metrics=["recall@5", "ndcg@10"],
    )  # fmt: skip
    assert first == other
    row = first["ndcg@10", "new", "old"]
    values = complete(users, "ndcg_at_10")
    rng = np.random.default_rng(0)
    ranges = [np.ptp(rng.permuted(values, axis=1).mean(axis=0)) for _ in range(2000)]
    expected = np.mean(np.array(ranges) >= abs(row.difference))
    assert row.p_randomised == pytest.approx(expected, abs=5 * math.sqrt(expected / 499) + 0.005)
    assert row.p == row.p_randomised


def test_all_pairs_of_too_many_or_too_few_models(tables):
    many = {f"model {index}": tables["new"] for index in range(9)}
    with pytest.raises(OptionError, match="permutes up to 8 models; there are 9"):
        all_pairs(many, test="randomised")
    with pytest.raises(InputError, match="pairs are of two models or more; the table has 'old'"):
        all_pairs({"old": tables["old"]})
    with pytest.raises(OptionError, match="test must be one of 'tukey', 'randomised'"):
        all_pairs(tables, test="t")
    row = all_pairs({**tables, "none": tables["new"].limit(0)})["ndcg@10", "none", "old"]
    assert (row.n_users, row.n_undefined, row.verdict) == (0, N, "undecided")


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
    with pytest.raises(InputError, match="no column of a metric"):
        summarise(frame)
    with pytest.raises(InputError, match="none of the models"):
        differences(tables, "als")


def test_the_detectable_difference_is_statsmodels(small, compared):
    table = detectable_difference(compared, power=0.9)
    assert table["std_of"].unique().tolist() == ["differences"]
    for row, line in zip(compared.rows, table.itertuples(), strict=True):
        power = TTestPower().power(line.detectable_difference / row.std, row.n_users, 0.05)
        assert power == pytest.approx(0.9, abs=1e-9)
        assert (line.metric, line.model, line.n_users) == (row.metric, row.model, row.n_users)
        assert line.relative == pytest.approx(line.detectable_difference / row.baseline_mean)
    result = evaluate({"m": small[0]}, small[1], ["rr", "precision@1"], score="score")
    line = detectable_difference(result, "mrr", level=0.9).iloc[0]
    power = TTestPower().power(line["detectable_difference"] / result.summary[0].std, 2, 0.1)
    assert power == pytest.approx(0.8, abs=1e-9)
    assert (line["model"], line["std_of"], line["n_users"]) == ("m", "values", 2)
    with pytest.raises(UnknownMetricError, match="no metric 'ndcg@3'; there are rr, precision@1"):
        detectable_difference(result, "ndcg@3")
    with pytest.raises(InputError, match="takes a Result or a comparison; got a str"):
        detectable_difference("rr")
    with pytest.raises(OptionError, match="power"):
        detectable_difference(result, power=0.01)


def country(user):
    return ("DE", "FR", "PL", None)[user // 7919 % 4]


@pytest.fixture(scope="module")
def parted(tables):
    from pyspark.sql import functions as F

    place = (F.col("user") / 7919 % 4).cast("int")
    where = F.when(place < 3, F.element_at(F.array(*map(F.lit, ("DE", "FR", "PL"))), F.least(place, F.lit(2)) + 1))
    device = F.when(F.col("user") % 2 == 0, "web").otherwise("ios")
    return {name: table.withColumn("country", where).withColumn("device", device) for name, table in tables.items()}


def test_a_slice_is_compared_as_its_users_alone(parted, users, compared):
    found = compare(parted, "old", by="country")
    assert found.to_dict() | {"slices": []} == compared.to_dict()
    assert [row.slice for row in found.sliced[:: 2 * len(METRICS)]] == [
        f"country={name}" for name in ("DE", "FR", "null", "PL")
    ]
    p_values = []
    for row in found.sliced:
        mine = {
            model: frame[[f"country={country(user) or 'null'}" == row.slice for user in frame["user"]]]
            for model, frame in users.items()
        }
        new, old, n_undefined = both(mine, row.model, METRICS[row.metric])
        assert (row.n_users, row.n_undefined) == (len(new), n_undefined)
        assert row.difference == pytest.approx((new - old).mean(), rel=1e-10)
        expected = stats.ttest_rel(new, old)
        interval = expected.confidence_interval(0.95)
        assert (row.interval_low, row.interval_high) == pytest.approx((interval.low, interval.high), rel=1e-10)
        assert row.p_t == pytest.approx(expected.pvalue, rel=1e-9)
        assert math.isnan(row.p_sign_flip)
        p_values.append(row.p_t)
    assert [row.p for row in found.sliced] == pytest.approx(multipletests(p_values, method="holm")[1], rel=1e-10)
    assert "of users with country=DE" in found.sliced[0].sentence
    assert found.slices["slice"].tolist() == [row.slice for row in found.sliced]


def test_totals_of_slices_and_partitions(parted):
    found = compare(parted, "old", by=["country", "device"], totals=True, replicates=9)
    by_country = compare(parted, "old", by="country", replicates=9)
    # The total over the device has the figures of the country; only p is corrected for more comparisons.
    mine = [row for row in found.sliced if row.slice.startswith("country=") and "device" not in row.slice]
    fields = ("slice", "metric", "model", "n_users", "difference", "interval_low", "p_t", "wins", "losses")
    assert [[getattr(row, name) for name in fields] for row in mine] == [
        [getattr(row, name) for name in fields] for row in by_country.sliced
    ]
    assert {row.slice for row in found.sliced} >= {"device=ios", "country=null, device=ios"}
    again = compare({name: table.repartition(5) for name, table in parted.items()}, "old", by="country", replicates=9)
    assert again.to_dict() == by_country.to_dict()


def test_the_largest_losses_come_first(parted):
    found = compare(parted, "other", by="country", metrics=["ndcg@10", "percentile_rank"], replicates=9)
    losses = found.largest_losses()
    gains = np.where(losses["metric"] == "percentile_rank", -losses["difference"], losses["difference"])
    assert len(losses) > 3
    assert (gains < 0).all()
    assert (np.diff(gains) >= 0).all()
    assert found.largest_losses(2, "ndcg@10")["metric"].tolist() == ["ndcg@10"] * 2
    text = repr(found)
    assert "the largest losses of 16 comparisons of slices" in text
    assert losses["slice"][0] in text
    with pytest.raises(UnknownMetricError, match="no slice has a metric 'rr'; there are ndcg@10"):
        found.largest_losses(metric="rr")


def test_slices_that_tables_lack_or_disagree_on(spark, parted, tables):
    with pytest.raises(InputError, match=r"by=\['country'\]: 'new' has no column 'country'"):
        compare(parted | {"new": tables["new"]}, "old", by="country")
    with pytest.raises(OptionError, match="totals=True is for slices"):
        compare(parted, "old", totals=True)
    from pyspark.sql import functions as F

    moved = parted["new"].withColumn("country", F.when(F.col("user") == 0, "XX").otherwise(F.col("country")))
    one_of_both = moved.where("user = 0").count() * parted["old"].where("user = 0").count()
    assert one_of_both == 1
    with pytest.raises(DataError, match=r"do not agree: 1;"):
        compare(parted | {"new": moved}, "old", by="country", replicates=9)


def test_slices_by_name_and_undefined_ones_are_no_losses(parted):
    from pyspark.sql import functions as F

    gone = {
        name: table.withColumn(
            "ndcg_at_10",
            F.when(F.col("country") == "FR", F.lit(float("nan")))
            .otherwise(F.col("ndcg_at_10"))
            .alias("ndcg_at_10", metadata=table.schema["ndcg_at_10"].metadata),
        )
        for name, table in parted.items()
    }
    gone = {
        name: frame.withMetadata("ndcg_at_10", parted[name].schema["ndcg_at_10"].metadata)
        for name, frame in gone.items()
    }
    found = compare(gone, "other", by=["country", "device"], metrics="ndcg@10", replicates=9)
    gains = [row.difference for row in found.sliced]
    assert any(math.isnan(gain) for gain in gains)
    assert found.largest_losses(99)["difference"].tolist() == sorted(gain for gain in gains if gain < 0)
    row = found["ndcg@10", "old", "country=DE, device=web"]
    assert (row.slice, row.model) == ("country=DE, device=web", "old")
    assert found["ndcg@10", "old"].slice == "all"
    assert "slices with the largest losses" in found._repr_html_()


def test_a_column_of_a_distance_without_metadata_is_better_when_smaller(spark):
    rows = [(u, m, 0.2 + 0.4 * (m == "far") + 0.001 * (u % 7)) for u in range(40) for m in ("near", "far")]
    table = spark.createDataFrame(rows, "user long, model string, kendall_distance_at_5 double")
    found = compare(table, "near", user="user", model="model", replicates=99, test="t")
    assert found["kendall_distance_at_5"].verdict == "worse"


def test_small_slices_are_judged_by_all_their_signs(spark):
    """Six users a slice who all gain alike, of a metric between 0 and 1: t would be infinite, and p 0."""
    rows = [(u, m, float(m == "new"), f"s{u % 40}") for u in range(240) for m in ("old", "new")]
    table = spark.createDataFrame(rows, "user long, model string, hit_rate_at_5 double, part string")
    found = compare(table, "old", user="user", model="model", by="part", replicates=9)
    assert {row.p_test for row in found.sliced} == {"exact"}
    assert {row.p_sign_flip for row in found.sliced} == {2.0**-5}
    assert {row.verdict for row in found.sliced} == {"undecided"}
    (row,) = found.rows
    assert (row.verdict, row.p_test, row.interval_method, row.interval_high) == (
        "better",
        "exact",
        "clopper_pearson",
        1,
    )
    assert "Clopper-Pearson interval, as all users have the same difference: hit_rate_at_5 of new" in repr(found)
    margin = compare(table, "old", user="user", model="model", margin=0.5, replicates=9).rows[0]
    assert (margin.verdict, margin.p) == ("better", margin.p_margin)
    assert 0 < margin.p < 1e-6


def test_too_few_replicates_for_as_many_comparisons_are_warned_of_and_t_stands_for_them(spark):
    rng = np.random.default_rng(9)
    models = ["old", *(f"m{place}" for place in range(8))]
    rows = [(u, m, float(rng.random() / 4 + (m != "old") / 2)) for u in range(40) for m in models]
    table = spark.createDataFrame(rows, "user long, model string, ndcg_at_5 double")
    few = {model: table.where(f"model = '{model}'").drop("model") for model in models}
    with pytest.warns(SparkRankEvalWarning, match="8 comparisons corrected by holm need 159 replicates"):
        found = compare(few, "old", user="user", replicates=99)
    assert {row.p_test for row in found.rows} == {"t"}
    assert {row.verdict for row in found.rows} == {"better"}
    assert "p by the paired t test: ndcg_at_5 of m0, " in repr(found)


def test_all_pairs_by_the_spread_of_each_pair(tables, users):
    found = all_pairs(tables, metrics="ndcg@10", test="games_howell", margin=0.001)
    assert {row.interval_method for row in found.rows} == {"games_howell"}
    everyone = users["old"]
    for model in MODELS[1:]:
        everyone = everyone.merge(users[model], on="user", suffixes=("", f"_{model}"))
    values = everyone[["ndcg_at_10", *(f"ndcg_at_10_{model}" for model in MODELS[1:])]].dropna()
    values.columns = MODELS
    for row in found.rows:
        error = (values[row.model] - values[row.other]).std() / math.sqrt(2 * len(values))
        assert row.q == pytest.approx(abs(row.difference) / error, rel=1e-9)
        assert row.p == pytest.approx(
            max(row.p_tukey, stats.studentized_range.sf(abs(abs(row.difference) - 0.001) / error, 3, len(values) - 1))
            if abs(row.difference) > 0.001
            else stats.studentized_range.sf(abs(abs(row.difference) - 0.001) / error, 3, len(values) - 1),
            abs=1e-9,
        )
    assert "the test of Games and Howell" in repr(found)
