"""Models whose predictions are rows, arrays and vectors in one call have, to the bit, the figures that each has alone."""

from dataclasses import replace
from functools import reduce

import pytest
from pyspark.sql import functions as F

from spark_rankeval import Facts, Vectors, evaluate, quarantine
from spark_rankeval.errors import DataError, InputError, MetricError, OptionError

METRICS = ["ndcg@3", "recall@2", "ap@3", "rr@3"]
NAN, INF = float("nan"), float("inf")
ITEMS = range(6)
ROWS, VECTORS = "user long, item long, score double", "user long, vector array<double>"


@pytest.fixture(scope="module")
def models(spark):
    """Rows with ties, the same as arrays of structs, arrays in order, vectors, and more rows; each has users of its own."""
    pairs = [(user, item) for user in range(8) for item in ITEMS if (user + item) % 4]
    rows = spark.createDataFrame([(*pair, float(sum(pair) * 3 % 5)) for pair in pairs], ROWS)
    entries = F.array_sort(F.collect_list(F.struct("item", "score"))).alias("item")
    lists = [(user, [(user + place) % 6 for place in range(4)]) for user in range(1, 9)]
    users = spark.createDataFrame([(user, [1.0 + user, 2.0]) for user in range(2, 10)], VECTORS)
    items = [(item, [item % 3.0, 1.0 - item], "ab"[item % 2]) for item in ITEMS]
    return {
        "structs": rows.where("user > 0").groupBy("user").agg(entries),
        "rows": rows,
        "ordered": spark.createDataFrame(lists, "user long, item array<long>"),
        "vectors": Vectors(users, spark.createDataFrame(items, "item long, vector array<double>, category string")),
        "other rows": rows.where("item < 4").selectExpr("user + 3 user", "item", "-score score"),
    }


@pytest.fixture(scope="module")
def bad(spark, models):
    """The same with rows that cannot be ranked: of each model as many as `N_BAD` says."""
    rows = [(None, 1, 1.0), (1, None, 1.0), (1, 2, None), (2, 3, NAN), (2, 5, INF), (3, 1, 1.0), (3, 1, 2.0)]
    entries = [(None, 1.0), (2, None), (3, 4.0), (3, 5.0), (4, INF)]
    structs = [(None, [(1, 1.0)]), (11, None), (1, [(1, 1.0)]), (12, entries)]
    ordered = [(2, [1, 1, None]), (13, [4, None, 4]), (None, [1]), (14, None)]
    vectors = spark.createDataFrame([(3, [NAN, 1.0]), (15, [1.0]), (None, [1.0, 1.0])], VECTORS)
    more = {
        "structs": spark.createDataFrame(structs, "user long, item array<struct<item:long,score:double>>"),
        "rows": spark.createDataFrame(rows, ROWS),
        "ordered": spark.createDataFrame(ordered, "user long, item array<long>"),
    }
    good = models["vectors"]
    of_tables = {name: models[name].union(table) for name, table in more.items()}
    return {**of_tables, "vectors": Vectors(good.users.union(vectors), good.items)}


N_BAD = {"structs": 6, "rows": 6, "ordered": 5, "vectors": 4}


@pytest.fixture(scope="module")
def labels(spark):
    """Labels of users with and without predictions."""
    rows = [(user, item, 1.0 + (user + item) % 3) for user in range(7) for item in ITEMS if (user * item) % 3]
    return spark.createDataFrame(rows, "user long, item long, grade double").withColumn("half", F.col("user") % 2)


def users_of(tables):
    """All users of some tables or vectors."""
    frames = [table.users if isinstance(table, Vectors) else table for table in tables]
    users = [frame.where("user is not null").select("user") for frame in frames]
    return reduce(lambda one, other: one.union(other), users).distinct()


def check(models, labels, compared, metrics=METRICS, **options):
    """Expect of models together the figures, counts and fingerprints of each alone, among the same users."""
    options = {"relevance": "grade", **options}
    together = evaluate(models, labels, metrics, score="score", **options)
    assert together.models == list(models)
    for name in compared:
        table = models[name]
        score = None if name == "ordered" or isinstance(table, Vectors) else "score"
        alone = evaluate(table, labels, metrics, score=score, users=users_of(models.values()), **options)
        rows = [replace(row, model="", fingerprints={}) for row in together.summary if row.model == name]
        assert repr(rows) == repr([replace(row, fingerprints={}) for row in alone.summary])
        assert together.qualities[name] == alone.data_quality
        if not isinstance(table, Vectors):
            # The fingerprint of vectors also says for which users they ranked.
            assert together.fingerprints[f"predictions of {name}"] == alone.fingerprints["predictions"]
    return together


def some(tables, *names):
    return {name: tables[name] for name in names}


def test_each_model_has_the_figures_that_it_has_alone(models, labels):
    together = check(models, labels, ["structs", "ordered", "other rows"], by=["half"])
    words = together.explain()
    assert "rows, other rows: " in words
    assert "ordered: Only the first 3 items of a user's array are read" in words
    assert "vectors: Every item of the catalogue is ranked" in words


def test_facts_of_items_are_those_of_rows_in_every_form(spark, models, labels):
    training = spark.createDataFrame([(user, user * 2 % 5) for user in range(9)], "user long, item long")
    facts = Facts(training=training, items=models["vectors"].items.select("item", "category"))
    metrics = ["novelty@3", "categorical_diversity@3", "gini@2"]
    check(some(models, "vectors", "ordered", "structs"), labels, ["vectors", "ordered"], metrics, facts=facts)


def test_users_of_a_later_model_are_evaluated_and_those_of_attributes_alone_are_not(spark, models, labels):
    people = spark.createDataFrame([(user, "DE") for user in range(20)], "user long, country string")
    options = {"by": ["country"], "facts": Facts(attributes=people), "relevance": "grade"}
    result = evaluate(some(models, "ordered", "vectors"), labels, "rr", **options)
    assert result.data_quality.n_users == 9


def test_bad_rows_of_every_form_are_counted_as_alone_and_items_left_out(bad, labels):
    seen = labels.selectExpr("user", "3L item").distinct()
    dropped = dict.fromkeys(["invalid_predictions", "duplicate_predictions", "infinite_scores"], "drop")
    check(bad, labels, ["structs", "vectors"], exclude=seen, on_invalid=dropped)


def test_bad_rows_of_every_form_are_named(bad, labels):
    with pytest.raises(DataError) as error:
        evaluate(bad, labels, "rr", score="score")
    for words in (
        "model 'structs': null array of predictions: 1",
        "model 'structs': user in several rows: 1",
        "model 'rows': NaN score: 1",
        "model 'ordered': null prediction item: 1",
        "model 'vectors': vector of another length than most items have: 1",
    ):
        assert words in str(error.value)
    rejected = quarantine(bad, labels, "rr", score="score").groupBy("model").count().collect()
    assert dict(map(tuple, rejected)) == N_BAD


WRONG = [
    (["rows", "vectors"], {"metrics": "entropy"}, MetricError, "entropy looks at every item of a list, and lists from"),
    (["structs", "rows"], {"ties": "position"}, OptionError, "ties='position' needs predictions in arrays with scores"),
    (["structs", "renamed"], {"score": "points"}, InputError, "of model 'structs' has no column 'points' .score=.; .*structs"),
    (["ordered", "rows"], {"score": None}, InputError, "predictions of model 'rows' in rows need either score= "),
]  # fmt: skip


@pytest.mark.parametrize(("names", "options", "kind", "words"), WRONG)
def test_what_a_form_cannot_do_is_refused(models, labels, names, options, kind, words):
    tables = models | {"renamed": models["rows"].withColumnRenamed("score", "points")}
    with pytest.raises(kind, match=words):
        evaluate(some(tables, *names), labels, **{"metrics": "rr", "score": "score", **options})


def test_ranks_of_rows_say_nothing_of_arrays(models, labels):
    ranked = models["ordered"].select("user", F.posexplode("item").alias("rank", "item"))
    result = evaluate({"arrays": models["ordered"], "rows": ranked}, labels, METRICS, rank="rank", relevance="grade")
    assert [result["arrays", name] for name in METRICS] == [result["rows", name] for name in METRICS]
