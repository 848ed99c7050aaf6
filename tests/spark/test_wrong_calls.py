"""Wrong calls: each raises what it says, before any job.

Refusals that look at rows are in test_bad_input.py, values that no argument can be in test_wrong_values.py.
"""

import ast
import re
import warnings

import pytest
from pyspark.sql import functions as F
from worlds import film_lists
from worlds.model_frames import marked, tables_of_models

from spark_rankeval import (
    BCa,
    Facts,
    all_pairs,
    compare,
    detectable_difference,
    differences,
    evaluate,
    metrics_column,
    quarantine,
    score_users,
    summarise,
)
from spark_rankeval.errors import (
    DialectError,
    InputError,
    MetricError,
    OptionError,
    SparkRankEvalError,
    UnknownMetricError,
)
from spark_rankeval.spark import scoring
from spark_rankeval.worker import states


@pytest.fixture(scope="module")
def world(spark):
    """Tables by name."""
    mine = spark.createDataFrame([(1, 1, 0.9), (2, 3, 0.5)], "user long, item long, score double")
    labels = spark.createDataFrame([(1, 2), (2, 3)], "user long, item long")
    about = spark.createDataFrame([(1, "DE", "ios"), (2, None, "web")], "user int, country string, device string")
    films = spark.createDataFrame([(1, ["x"])], "item long, genre array<string>")
    text = mine.withColumn("score", F.col("score").cast("string"))
    unread = spark.range(1).selectExpr("cast(raise_error('a job ran') as bigint) as user", "id as item", "0.5 as score")
    return {
        "mine": mine, "labels": labels, "about": about, "films": films, "text scores": text, "unread": unread,
        "several scores": mine.select("*", F.col("score").alias("SCORE")), "models": {"one": mine, "other": mine},
        "scored": score_users(mine, labels, ["rr", "ap"], score="score"),
    } | {f"{name} films": table for name, table in film_lists.tables_of(spark).items()}  # fmt: skip


def on(predictions="mine", labels="labels", metrics=("rr", "ndcg@5"), call=evaluate, **options):
    """A call on tables by their names, or on what a function makes of the world."""

    def of(given, world):
        return given(world) if callable(given) else world[given] if isinstance(given, str) else given

    def made(world):
        given = {name: value(world) if callable(value) else value for name, value in options.items()}
        tables = [of(predictions, world), of(labels, world)]
        return call(
            *tables, metrics if isinstance(metrics, str | int) else list(metrics), **{"score": "score", **given}
        )

    return made


def baseline(w):
    fields = "transform(recs, one -> struct(one.rating, one.movieId AS film)) AS movieId"
    return w["scored films"].selectExpr("user", fields)


def cast(column, kind, table="mine"):
    return lambda w: w[table].withColumn(column, F.col(column).cast(kind))


def named(**names):
    """Tables with other names of columns."""
    sides = {"predictions": "mine", "labels": "labels"}
    return {side: lambda w, table=table: w[table].withColumnsRenamed(names) for side, table in sides.items()}


def about(**options):
    return {"facts": lambda w: Facts(attributes=w["about"]), **options}


def items(**options):
    return lambda w: Facts(items=w["films"], **options)


EVALUATIONS = [
    (on(metrics=["ndgc@5"]), MetricError, "did you mean 'ndcg'"),
    (on(metrics=5), MetricError, "got 5"),
    (on(metrics="ndcg@3000000000"), MetricError, "cutoff"),
    (on(dialect="mlib"), DialectError, "did you mean 'mllib'"),
    (on(dialect="mllib", metrics="rr"), DialectError, "has no 'rr'; it has ap, ndcg, precision, recall"),
    (on(on_invalid="ignore"), OptionError, "one of 'error', 'drop', 'quarantine', or a dict by kind.*got 'ignore'"),
    (on(ties="position"), OptionError, "position"),
    (on(relevance_threshold="4"), OptionError, "relevance_threshold must be a number"),
    # Columns
    (on(score=None), InputError, "got neither. The table has: user, item, score"),
    (on(rank="score"), InputError, "either score= .* or rank= .*; got both. The table has: user, item, score"),
    (on(user="usr"), InputError, r"no column 'usr' \(user=\); did you mean 'user'\? it has: user bigint"),
    (on(user="who", score="points", relevance="grade"), InputError, "'who'.*'points'.*labels has no column 'who'.*'grade'"),
    (on(item="thing"), InputError, "no column 'thing'"),
    (on(score="nested.score"), InputError, "has no column 'nested.score'"),
    (on(user=None), InputError, "user=None"),
    (on(user=5), InputError, "user must be a column name"),
    (on(user=["user", "USER"]), InputError, "twice"),
    (on(item=None), InputError, "item=None is for one table"),
    (on(item=["item", "grade"]), InputError, "item must be one column, or a tuple of two .* got .'item', 'grade'.. If"),
    (on("text scores"), InputError, "score='score' must be a number; it is string"),
    *[
        (
            on(lambda w, kind=kind: w["mine"].withColumn("score", F.expr(f"{kind}'2026-11-20'"))),
            InputError,
            f"it is {kind}. Cast it to timestamp, and that to double",
        )
        for kind in ("date", "timestamp_ntz")
    ],
    (on("several scores"), InputError, r"'score' is ambiguous: the table has \['score', 'SCORE'\]"),
    (on([1]), InputError, "predictions must be a table or Vectors; got a list"),
    (on(**named(user="n_labels"), user="n_labels"), InputError, "'n_labels' is also the name of a count"),
    *[
        (on(lambda w, text=text: w["mine"].withColumn("user", F.expr(text))), InputError, f"user.*is {kind}; .*make columns of its parts")
        for kind, text in {"struct<a:int>": "struct(1 AS a)", "map<int,int>": "map(1, 1)"}.items()
    ],
    (on(lambda w: w["mine"].withColumn("item", F.array(F.array("item")))), InputError, "item|score"),
    # Types of ids
    (on(cast("item", "string")), InputError, "items have different types: .*string"),
    *[
        (on(cast(column, mine, "unread"), cast(column, other, "unread")), InputError, f"{mine}.*{other}.*Cast one of them")
        for column in ("user", "item")
        for mine, other in (("string", "bigint"), ("bigint", "double"), ("float", "int"), ("double", "string"))
    ],
    (on(cast("item", "decimal(9,0)")), InputError, "decimal"),
    # Models
    (on(lambda w: {}), InputError, "predictions is an empty dict"),
    (on(lambda w: {" ": w["mine"]}), InputError, "a model's name must be a non-empty string"),
    (on(lambda w: {7: w["mine"]}), InputError, "a model's name must be a non-empty string"),
    (on(lambda w: {"x": w["mine"].drop("score")}), InputError, "^predictions of model 'x' has no column 'score'"),
    (on(lambda w: {"a": w["mine"], "x": cast("item", "string")(w)}), InputError, "items have different types"),
    (on(model="which"), InputError, "predictions has no column 'which'"),
    # Slices and groups of items
    (on(**about(by=["city"])), InputError, r"by=\['city'\]: no table has all these columns beside the user"),
    (on(**about(by=["country", "country"])), InputError, "a list of distinct column names"),
    (on(**about(by=3)), InputError, "a list of distinct column names"),
    (on(**about(by=["user"])), InputError, "'user' is also the name of another column"),
    (on(**about(by=["country", "COUNTRY"])), InputError, "'country' is also the name of another column"),
    (on(**about()), InputError, "attributes has no effect"),
    *[
        (
            on("models", by="Model", call=call, facts=lambda w: Facts(attributes=w["about"].withColumnRenamed("country", "Model"))),
            InputError, "'Model' is also the name of another column of the per-user table",
        )
        for call in (evaluate, score_users)
    ],
    (on(facts=Facts(item_by="genre")), InputError, "item_by needs a table"),
    (on(facts=Facts(popularity_groups=10)), InputError, "popularity_groups needs a table"),
    (on(facts=items(item_by="studio")), InputError, "items has no column 'studio'"),
    (on(facts=items(item_by=["genre", "GENRE"])), InputError, "item_by names 'genre' twice"),
    (on(metrics="hit_share@3"), InputError, "hit_share@3: a share of a group of items; name the groups"),
    # Other functions
    (on(call=score_users, ci="t"), OptionError, "'ci': only evaluate and summarise have this option"),
    (on(call=quarantine, scores="score"), OptionError, r"no option 'scores'; did you mean 'score'\? available: user, item"),
    *[
        # The columns of items may have any name: the quarantine calls them "item".
        (on(**named(item="product", user=name), user=name, item="product", call=call, **options), InputError, "several columns named")
        for name in ("table", "Table", "Item", "reason")
        for call, options in ((quarantine, {}), (evaluate, {"on_invalid": "quarantine"}))
    ],
    (lambda w: metrics_column("a", "b", "ndgc"), MetricError, "did you mean"),
    (lambda w: metrics_column("a", "b", "rr", dialect="mllib"), DialectError, "has no 'rr'"),
    (lambda w: metrics_column("a", "b", "rr", ties="x"), OptionError, "ties"),
    (lambda w: summarise(w["mine"].select("user")), InputError, "no metric column; it has: user bigint"),
    (lambda w: summarise(w["scored"], user="who"), InputError, "user='who': the per-user table has no such column"),
    (lambda w: summarise(w["scored"], by="city"), InputError, "no column 'city'"),
    (lambda w: summarise(w["scored"].selectExpr("rr", "'x' as n_labels")), InputError, "n_labels; this count must be a whole number"),
]  # fmt: skip
FIELDS_OF_ARRAYS = [
    (on("ranked films", "labels films", item="recs", score=None),
     "recs.rank int, recs.movieId int. Write item=('recs.rank', 'recs') or item=('recs.movieId', 'recs')"),
    (on("scored films", "labels films", score=None),
     "predictions has no column 'item' (item=); it has: user int, recs array<struct<rating:double,movieId:int>>"),
    (on("scored films", "other films", item=("recs", "film"), score=None), "Write item=('recs.movieId', 'film')"),
    (on("rows films", "liked films", item=("rank", "liked"), rank="rank", score=None), "Write item=('rank', 'liked.movieId')"),
    (on("both films", None, item=("recs", "liked"), score=None), "or item=('recs.movieId', 'liked')"),
    (on("both films", None, item=("recs", "liked"), score=None), "Write item=('recs', 'liked.movieId')"),
    (on("both films", "labels films", item="movieId", score=None), "item=('recs.movieId', 'movieId') or item=('liked.movieId', 'movieId')"),
    (on("ranked films", "labels films", item=("recs", "movieId"), score=None, exclude=lambda w: w["ranked films"]),
     "pass a row for each item"),
    (on("rows films", "labels films", ["unexpectedness@3"], item="movieId", score="rank", facts=lambda w: Facts(baseline=baseline(w))),
     "baseline: item='movieId' does not say which field of the array 'movieId' holds the items: movieId.rating double, "
     "movieId.film int. Rename the field of the items to 'movieId'"),
]  # fmt: skip
EVALUATIONS += [(call, InputError, re.escape(words)) for call, words in FIELDS_OF_ARRAYS]


def refuse(call, error, words, jobs_of):
    def refused():
        with warnings.catch_warnings(action="ignore"), pytest.raises(error, match=words):
            call()

    assert jobs_of(refused) == 0


@pytest.mark.parametrize(("call", "error", "words"), EVALUATIONS, ids=[words for _, _, words in EVALUATIONS])
def test_a_wrong_call_raises_before_any_job(world, jobs_of, call, error, words):
    refuse(lambda: call(world), error, words, jobs_of)


@pytest.mark.parametrize("name", ["item", "recs"])
def test_the_advice_on_the_field_of_items_works_whatever_the_labels_call_theirs(world, name):
    labels = world["labels films"].withColumnRenamed("movieId", name)
    with pytest.raises(InputError) as caught:
        evaluate(world["ranked films"], labels, "rr", item=("recs", name))
    advice = re.search(r"or item=(\(.*\))", str(caught.value))[1]
    found = evaluate(world["ranked films"], labels, "rr", item=ast.literal_eval(advice))
    assert 0 < found["rr"] < 1
    assert found.data_quality.n_without_predictions == found.data_quality.n_without_labels == 0


def test_replicates_that_no_worker_holds_are_refused(world, jobs_of, monkeypatch):
    # Without slices there is room for more. Here is a hundredth of both: the driver makes an empty state to measure it.
    assert states.MERGED_BYTES < scoring._LARGEST_STATE
    monkeypatch.setattr(states, "MERGED_BYTES", states.MERGED_BYTES // 100)
    monkeypatch.setattr(scoring, "_LARGEST_STATE", scoring._LARGEST_STATE // 100)
    metrics = ["ndcg@5", "recall@3", "rr"]
    sliced = on(metrics=metrics, ci=BCa(replicates=10**4), **about(by="country"))
    refuse(
        lambda: sliced(world), OptionError, "3 values × 10,000 replicates do not fit into memory; use fewer", jobs_of
    )
    scored = on(metrics=metrics, call=score_users)(world)
    whole = lambda: summarise(scored, ci=BCa(replicates=10**5))  # noqa: E731
    refuse(whole, OptionError, "3 values × 100,000 replicates do not fit into memory", jobs_of)


@pytest.fixture(scope="module")
def models(spark, world):
    """Tables of users by model, and what is wrong with some of them."""
    tables = tables_of_models(spark)
    old, new = tables["old"], tables["new"]
    arrays = spark.createDataFrame([(1, [2])], "user int, predictions array<int>")
    return {
        "two": {"old": old, "new": new},
        "one": {"old": old},
        "old": old,
        "list": {"old": old, "new": [1]},
        "mllib": {"old": old, "new": marked(new.select("*"), {"user": "user"}, dialect="mllib")},
        "text": {"old": old, "new": marked(new.withColumn("user", F.col("user").cast("string")), {"user": "user"})},
        "customer": {"old": old, "new": marked(new.withColumnRenamed("user", "customer"), {"customer": "user"})},
        "plain": {"old": old, "new": new.selectExpr("user + 0 as id", "recall_at_5 + 0 as recall")},
        "sliced": {"old": old.withColumn("country", F.lit("x")), "new": new},
        "no metric in common": {"old": old.select("user", "ndcg_at_10"), "new": new.select("user", "recall_at_5")},
        "predictions": {"old": world["mine"], "new": world["mine"]},
        "arrays of predictions": {"old": arrays, "new": arrays},
    }


PREDICTIONS = r"holds predictions, not values of users; evaluate first, .* It has: user"
COMPARISONS = [
    ("two", {"baseline": "als"}, InputError, r"baseline 'als' is not among the models: 'old', 'new'"),
    ("two", {"baseline": None}, InputError, r"name the baseline, such as compare\(result, baseline='new'\); the models are 'old', 'new'"),
    ("one", {"baseline": None}, InputError, "results has one model, 'old', and a comparison needs two"),
    ("one", {}, InputError, "the only model is the baseline 'old'"),
    ("old", {}, InputError, "the table has one model, and a comparison needs two"),
    ("list", {}, InputError, "the table of 'new' must be a table or a Result; got a list"),
    ("mllib", {}, InputError, "'ndcg@10' is not the same metric in all tables: ndcg@10 in the dialect 'default' in 'old', ndcg@10 "
     "in the dialect 'mllib' in 'new'"),
    ("text", {}, InputError, "'user' is bigint in 'old' and string in 'new'"),
    ("customer", {}, InputError, "user in 'old', customer in 'new'"),
    ("plain", {}, InputError, "'new' has lost the metadata that marks its user columns"),
    ("sliced", {"by": "country"}, InputError, r"by=\['country'\]: 'new' has no column 'country'"),
    ("no metric in common", {}, InputError, "no metric in common: 'old' has ndcg@10; 'new' has recall@5"),
    ("predictions", {}, InputError, PREDICTIONS),
    ("predictions", {"user": "user"}, InputError, PREDICTIONS),
    ("arrays of predictions", {}, InputError, PREDICTIONS),
    ("two", {"model": "variant"}, InputError, "model='variant' is for one table"),
    ("two", {"user": "nobody"}, InputError, "no column 'nobody'"),
    ("two", {"metrics": "rr"}, UnknownMetricError, "not every table has a metric 'rr'; all have: ndcg@10"),
    ("two", {"metrics": "ndgc"}, MetricError, "did you mean"),
    ("two", {"margin": -1}, OptionError, "margin"),
    ("two", {"margin": {"ndcg@10": 0.1}, "metrics": "recall@5"}, OptionError, "ndcg@10, which this call does not compare"),
    ("two", {"test": "wilcoxon"}, OptionError, "test must be one of 'sign_flip', 't'"),
    ("two", {"correction": "bonferroni"}, OptionError, "there is no correction"),
]  # fmt: skip


@pytest.mark.parametrize("case", COMPARISONS, ids=[f"{name}: {words}" for name, _, _, words in COMPARISONS])
def test_a_wrong_comparison_raises_before_any_job(models, jobs_of, case):
    name, options, error, words = case
    refuse(lambda: compare(models[name], **{"baseline": "old", **options}), error, words, jobs_of)


def test_results_of_one_model_and_of_several_are_refused_with_what_to_call_instead(world, models):
    mine, labels = world["mine"], world["labels"]
    alone, als, result = (
        evaluate(given, labels, ["rr", "precision@1"], score="score")
        for given in (mine, {"als": mine}, world["models"])
    )
    for one, words in ((alone, "the result has one model, and"), (als, "the result has one model, 'als', and")):
        for call in (compare, all_pairs, differences):
            with pytest.raises(InputError, match=f"^{words}.*Evaluate a dict of models"):
                call(one, **({} if call is all_pairs else {"baseline": "als"}))
    two = {"als": als, "popularity": alone}
    for call, given, options, words in (
        (compare, als, {}, "the result has one model, 'als', and"),
        (differences, two, {}, r"such as differences\(result, baseline='popularity'\); the models are 'als', 'pop"),
        (differences, models["two"], {"baseline": "als"}, "not among the models"),
        (compare, result, {"baseline": "als"}, r"the baseline 'als' is not among the models: 'one', 'other'"),
        (compare, {"both": result, "als": als}, {"baseline": "als"},
         r"the result of 'both' has several models \(one, other\); pass it alone, not in a dict"),
        (detectable_difference, alone, {"metric": "ndcg@3"}, "no metric 'ndcg@3'; available: rr, precision@1"),
        (detectable_difference, "rr", {}, "needs a Result or a comparison; got a str"),
        (detectable_difference, alone, {"power": 0.01}, "power"),
    ):  # fmt: skip
        with pytest.raises(SparkRankEvalError, match=words):
            call(given, **options)
