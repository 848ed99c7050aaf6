"""Models whose predictions are rows, arrays and vectors in one call have, to the bit, the figures that each has alone."""

from dataclasses import replace
from functools import reduce

import pytest
from helpers.effort import part_of
from pyspark.sql import functions as F

from spark_rankeval import Facts, Vectors, evaluate, quarantine
from spark_rankeval.errors import DataError, InputError, MetricError, OptionError

METRICS = ["ndcg@3", "recall@2", "ap@3", "rr@3"]
NAN, INF = float("nan"), float("inf")
ITEMS = range(6)
INVALID = ["invalid_predictions", "duplicate_predictions"]


@pytest.fixture(scope="module")
def models(spark):
    """Rows with ties, the same as arrays of structs, arrays in order, vectors, and more rows; each has users of its own."""
    pairs = [(user, item) for user in range(8) for item in ITEMS if (user + item) % 4]
    rows = spark.createDataFrame(
        [(*pair, float(sum(pair) * 3 % 5)) for pair in pairs], "user long, item long, score double"
    )
    entries = F.array_sort(F.collect_list(F.struct("item", "score"))).alias("item")
    lists = [(user, [(user + place) % 6 for place in range(4)]) for user in range(1, 9)]
    users = spark.createDataFrame(
        [(user, [1.0 + user, 2.0]) for user in range(2, 10)], "user long, vector array<double>"
    )
    items = spark.createDataFrame(
        [(item, [item % 3.0, 1.0 - item]) for item in ITEMS], "item long, vector array<double>"
    )
    return {
        "structs": rows.where("user > 0").groupBy("user").agg(entries),
        "rows": rows,
        "ordered": spark.createDataFrame(lists, "user long, item array<long>"),
        "vectors": Vectors(users, items),
        "other rows": rows.where("item < 4").selectExpr("user + 3 user", "item", "-score score"),
        "other vectors": Vectors(users.where("user > 4"), items, similarity="cosine"),
    }


@pytest.fixture(scope="module")
def bad(spark, models):
    """The same with rows that cannot be ranked."""
    rows = [(None, 1, 1.0), (1, None, 1.0), (1, 2, None), (2, 3, NAN), (2, 5, INF), (3, 1, 1.0), (3, 1, 2.0)]
    structs = [
        (None, [(1, 1.0)]),
        (11, None),
        (1, [(1, 1.0)]),
        (12, [(None, 1.0), (2, None), (3, 4.0), (3, 5.0), (4, INF)]),
    ]
    ordered = [(2, [1, 1, None]), (13, [4, None, 4]), (None, [1]), (14, None)]
    vectors = [(3, [NAN, 1.0]), (15, [1.0]), (None, [1.0, 1.0])]
    good = models["vectors"]
    return {
        "structs": models["structs"].union(
            spark.createDataFrame(structs, "user long, item array<struct<item:long,score:double>>")
        ),
        "rows": models["rows"].union(spark.createDataFrame(rows, "user long, item long, score double")),
        "ordered": models["ordered"].union(spark.createDataFrame(ordered, "user long, item array<long>")),
        "vectors": Vectors(
            good.users.union(spark.createDataFrame(vectors, "user long, vector array<double>")), good.items
        ),
    }


@pytest.fixture(scope="module")
def labels(spark):
    """Labels of users with and without predictions, each user in a country."""
    rows = [(user, item, 1.0 + (user + item) % 3) for user in range(7) for item in ITEMS if (user * item) % 3]
    return spark.createDataFrame(rows, "user long, item long, grade double").withColumn("half", F.col("user") % 2)


def users_of(tables):
    """All users of some tables or vectors."""
    frames = [table.users if isinstance(table, Vectors) else table for table in tables]
    users = [frame.where("user is not null").select("user") for frame in frames]
    return reduce(lambda one, other: one.union(other), users).distinct()


def check(models, labels, metrics=METRICS, **options):
    """Expect of models together the figures, counts and fingerprints of each alone, among the same users."""
    options = {"relevance": "grade", **options}
    together = evaluate(models, labels, metrics, score="score", **options)
    assert together.models == list(models)
    for name, table in part_of(models.items(), 3):
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
    together = check(models, labels)
    words = together.explain()
    assert "rows, other rows: " in words
    assert "ordered: Only the first 3 items of a user's array are read" in words
    assert "vectors, other vectors: Every item of the catalogue is ranked" in words


@pytest.mark.parametrize(
    ("names", "options"),
    part_of(
        [
            (("structs", "rows", "ordered"), {"dialect": "lenskit"}),
            (("rows", "structs", "other rows"), {"dialect": "mllib", "relevance": None}),
            (("ordered", "structs"), {"by": ["half"]}),
            (("vectors", "other rows", "ordered"), {"dialect": "trec_eval"}),
        ],
        4,
    ),
)
def test_dialects_and_slices_hold_for_every_form(models, labels, names, options):
    check(some(models, *names), labels, ["ndcg@3", "precision@2"], **options)


def test_facts_of_items_are_those_of_rows_in_every_form(spark, models, labels):
    training = spark.createDataFrame([(user, user * 2 % 5) for user in range(9)], "user long, item long")
    facts = Facts(
        training=training, items=spark.createDataFrame([(n, "ab"[n % 2]) for n in ITEMS], "item long, category string")
    )
    check(
        some(models, "vectors", "ordered", "structs"),
        labels,
        ["novelty@3", "categorical_diversity@3", "gini@2"],
        facts=facts,
    )


def test_users_of_a_later_model_are_evaluated_and_those_of_attributes_alone_are_not(spark, models, labels):
    people = spark.createDataFrame([(user, "DE") for user in range(20)], "user long, country string")
    result = evaluate(
        some(models, "ordered", "vectors"),
        labels,
        "rr",
        by=["country"],
        facts=Facts(attributes=people),
        relevance="grade",
    )
    assert result.data_quality.n_users == 9


def test_bad_rows_of_every_form_are_counted_as_alone_and_items_left_out(bad, labels):
    seen = labels.selectExpr("user", "3L item").distinct()
    check(bad, labels, exclude=seen, on_invalid={"infinite_scores": "drop", **dict.fromkeys(INVALID, "drop")})


def test_bad_rows_of_every_form_are_named(bad, labels):
    names = part_of(bad, 2)
    with pytest.raises(DataError) as error:
        evaluate(some(bad, *names), labels, "rr", score="score")
    for words in (
        "model 'structs': null array of predictions: 1",
        "model 'structs': user in several rows: 1",
        "model 'rows': NaN score: 1",
        "model 'ordered': null prediction item: 1",
        "model 'vectors': vector of another length than most items have: 1",
    ):
        assert words in str(error.value) or words.split("'")[1] not in names
    rejected = quarantine(bad, labels, "rr", score="score").groupBy("model").count().collect()
    assert dict(map(tuple, rejected)) == {"structs": 6, "rows": 6, "ordered": 5, "vectors": 4}


def test_what_a_form_cannot_do_is_refused(models, labels):
    mixed, renamed = some(models, "rows", "vectors"), models["rows"].withColumnRenamed("score", "points")
    with pytest.raises(MetricError, match=r"entropy looks at every item of a list, and lists from Vectors"):
        evaluate(mixed, labels, "entropy", score="score")
    with pytest.raises(OptionError, match="ties='position' needs predictions in arrays with scores"):
        evaluate(some(models, "structs", "rows"), labels, "rr", score="score", ties="position")
    with pytest.raises(
        InputError,
        match=r"predictions of model 'structs' has no column 'points' \(score=\); .* the structs in 'item' have",
    ):
        evaluate({"structs": models["structs"], "rows": renamed}, labels, "rr", score="points")
    with pytest.raises(InputError, match="predictions of model 'rows' in rows need either score= "):
        evaluate(some(models, "ordered", "rows"), labels, "rr")


def test_ranks_of_rows_say_nothing_of_arrays(models, labels):
    ranked = models["ordered"].select("user", F.posexplode("item").alias("rank", "item"))
    result = evaluate({"arrays": models["ordered"], "rows": ranked}, labels, METRICS, rank="rank")
    assert [result["arrays", name] for name in METRICS] == [result["rows", name] for name in METRICS]
