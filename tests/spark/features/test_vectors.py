"""The whole catalogue ranked from vectors is what the table of all scores is, for everything that takes predictions."""

import itertools
import math
import re
from collections import Counter

import numpy as np
import pytest
from chispa import assert_df_equality
from pyspark.sql import functions as F

from spark_rankeval import Facts, Vectors, evaluate, score_users, top_items
from spark_rankeval.errors import (
    DataError,
    DialectError,
    EngineError,
    InputError,
    MetricError,
    OptionError,
    SparkRankEvalWarning,
)
from spark_rankeval.spark import engine

pytestmark = pytest.mark.filterwarnings("ignore:.* every label as relevant", "ignore:.* are the last of their list")

N_USERS, N_ITEMS, LENGTH = 24, 15, 3
METRICS = ["ndcg@5", "ap", "rr", "auc", "percentile_rank", "recall@3"]


class World:
    """Users and items with vectors of small whole numbers, whose scores often tie, and the table of all these scores."""

    def __init__(self, spark):
        rng = np.random.default_rng(5)
        self.spark, lengths = spark, (N_USERS, N_ITEMS)
        self.user_vectors, self.item_vectors = (rng.integers(-2, 3, (n, LENGTH)).astype(float) for n in lengths)

        def pairs(n, n_items):
            drawn = zip(rng.integers(0, N_USERS, n).tolist(), rng.integers(0, n_items, n).tolist(), strict=True)
            return sorted({*drawn})

        users = [(user, self.user_vectors[user].tolist(), ("even", "odd")[user % 2]) for user in range(2, N_USERS)]
        items = [(f"i{item:02}", self.item_vectors[item].tolist(), float(item % 3)) for item in range(N_ITEMS)]
        labelled = pairs(90, N_ITEMS + 2)
        labels = [(user, f"i{item:02}", float(rng.integers(1, 4))) for user, item in labelled]
        # A label of an item that is left out is worth a warning.
        others = [(user, f"i{item:02}") for user, item in pairs(60, N_ITEMS) if (user, item) not in labelled]
        self.users = spark.createDataFrame(users, "user int, vector array<double>, parity string")
        self.items = spark.createDataFrame(items, "item string, vector array<double>, bias double")
        self.labels = spark.createDataFrame(labels, "user int, item string, grade double")
        self.training = spark.createDataFrame(others, "user int, item string")
        self.categories = self.items.select("item", F.substring("item", 3, 1).alias("category"))

    def scores(self, bias=False, only=lambda user, item: True):
        """The table of all scores."""
        scores = self.user_vectors @ self.item_vectors.T + (np.arange(N_ITEMS) % 3 if bias else 0)
        pairs = itertools.product(range(2, N_USERS), range(N_ITEMS))
        rows = [(user, f"i{item:02}", float(scores[user, item])) for user, item in pairs if only(user, item)]
        return self.spark.createDataFrame(rows, "user int, item string, score double")


@pytest.fixture(scope="module")
def world(spark):
    return World(spark)


def figures(result):
    names = ("model", "metric", "slice", "mean", "std", "n_users", "n_undefined")
    return [[getattr(row, name) for name in names] for row in result.summary]


def assert_same(ours, other):
    assert figures(ours) == figures(other)
    qualities = [
        {model: quality.to_dict() | {"n_labels_without_vector": 0} for model, quality in result.qualities.items()}
        for result in (ours, other)
    ]
    assert qualities[0] == qualities[1]


def test_an_evaluation_is_that_of_the_table_of_all_scores(world):
    options = {"relevance": "grade", "exclude": world.training, "by": "parity"}
    options["facts"] = Facts(attributes=world.users.drop("vector"))
    ours = evaluate(Vectors(world.users, world.items, item_bias="bias"), world.labels, METRICS, **options)
    assert_same(ours, evaluate(world.scores(bias=True), world.labels, METRICS, score="score", **options))
    # Two of the labelled items have no vector.
    assert ours.data_quality.n_labels_without_vector == world.labels.where("item > 'i14'").count() > 0
    assert "labels of items without a vector" in str(ours)


def test_labels_without_a_grade_leave_the_ranks_of_others_as_they_are(world):
    graded = F.when(F.substring("item", 3, 1).cast("int") % 3 > 0, F.col("grade"))
    labels = world.labels.withColumn("grade", graded).where("item <= 'i14'")
    options = {"relevance": "grade", "on_invalid": {"missing_grades": "unjudged"}}
    ours = evaluate(Vectors(world.users, world.items), labels, METRICS, **options)
    theirs = evaluate(world.scores(), labels, METRICS, score="score", **options)
    assert [row.mean for row in ours.summary] == [row.mean for row in theirs.summary]
    assert ours.data_quality.n_labels == theirs.data_quality.n_labels


def test_several_models_with_candidates_of_their_own_stand_side_by_side(world):
    own = [(user, f"i{item:02}") for user in range(N_USERS) for item in range(N_ITEMS) if (user + item) % 3]
    models = {
        "some": Vectors(world.users, world.items, candidates=world.items.where("item < 'i10'").select("item")),
        "own": Vectors(world.users, world.items, candidates=world.spark.createDataFrame(own, "user int, item string")),
        "all": Vectors(world.users, world.items),
    }
    tables = {
        "some": world.scores(only=lambda user, item: item < 10),
        "own": world.scores(only=lambda user, item: (user + item) % 3),
        "all": world.scores(),
    }
    # The table of items has a column that candidates lack.
    options = {"relevance": "grade", "exclude": world.training, "facts": Facts(items=world.categories)}
    ours = evaluate(models, world.labels, [*METRICS, "diversity@4"], **options)
    other = evaluate(tables, world.labels, [*METRICS, "diversity@4"], score="score", **options)
    assert_same(ours, other)
    # Predictions are other tables.
    columns = [name for name in other.per_user.columns if name in ours.per_user.columns and name != "predictions_hash"]
    assert "ndcg_at_5" in columns
    users = [each.per_user.select(*columns) for each in (ours, other)]
    ignored = dict.fromkeys(("ignore_row_order", "ignore_nullable", "ignore_metadata", "allow_nan_equality"), True)
    assert_df_equality(*users, **ignored)


def test_measures_beyond_accuracy_are_those_of_the_table_of_all_scores(world):
    baseline = world.scores(bias=True).where("item < 'i08'")
    facts = Facts(items=world.categories, training=world.training, baseline=baseline)
    # Metrics of the whole list, of which no item is looked at, stand beside them.
    metrics = ["rr", "auc", "novelty@5", "coverage@5", "gini@5", "diversity@4", "repetition@5", "serendipity@3"]
    options = {"facts": facts, "score": "score", "by": "parity", "ties": "item_desc"}
    labels = world.labels.withColumn("parity", F.col("user") % 2)
    ours = evaluate(Vectors(world.users, world.items), labels, metrics, **options)
    assert_same(ours, evaluate(world.scores(), labels, metrics, **options))


def test_top_items_are_the_first_of_the_table_of_all_scores(world):
    ours = top_items(Vectors(world.users, world.items, item_bias="bias"), 4, exclude=world.training)
    found = {row.user: [(entry.item, entry.score) for entry in row.recommendations] for row in ours.collect()}
    frame = world.scores(bias=True).join(world.training, ["user", "item"], "left_anti").toPandas()
    best = frame.sort_values(["score", "item"], ascending=[False, True]).groupby("user").head(4).groupby("user")
    assert found == {user: [*zip(rows["item"], rows["score"], strict=True)] for user, rows in best}


def test_everything_is_the_same_bits_in_any_number_of_shards(world):
    """Of items that repeat, have no vector or one of another length, of users without one, and of users that are null."""
    bad = [
        (None, [1.0] * 3, 0.0),
        ("x", None, 0.0),
        ("y", [1.0], 0.0),
        ("i00", [9.0] * 3, 0.0),
        ("i01", [math.nan] * 3, 0.0),
    ]
    items = world.items.unionByName(world.spark.createDataFrame(bad, world.items.schema))
    users = [(None, [1.0] * 3, "odd"), (30, None, "odd"), (31, [1.0], "odd"), (32, [1e300] * 3, "even")]
    users = world.users.unionByName(world.spark.createDataFrame(users, world.users.schema))
    own = world.spark.createDataFrame(
        [(user, f"i{item:02}") for user in range(N_USERS) for item in range(N_ITEMS) if (user + item) % 3], "user int, item string"
    )  # fmt: skip
    facts = Facts(items=world.categories, attributes=world.users.drop("vector"))
    options = {"relevance": "grade", "exclude": world.training, "by": "parity", "facts": facts, "on_invalid": "drop"}

    def evaluated(shards):
        biased = Vectors(users, items, item_bias="bias", shards=shards)
        models = {"own": Vectors(users, items, candidates=own, similarity="cosine", shards=shards), "biased": biased}
        result = evaluate(models, world.labels, [*METRICS, "diversity@4"], **options)
        qualities = {model: quality.to_dict() for model, quality in result.qualities.items()}
        tables = () if shards in (1, 7) else (result.per_user, top_items(biased, 4, exclude=world.training))
        return figures(result), qualities, result.fingerprints, *(sorted(map(repr, each.collect())) for each in tables)

    whole = evaluated(None)
    assert evaluated(3) == whole
    assert evaluated(1) == evaluated(7) == whole[:3]


# --- bad input


def test_users_without_a_usable_vector_are_counted_and_named(world):
    three = [1.0] * 3
    bad = [(None, three), (30, None), (31, [1.0, math.nan, 1.0]), (32, [1.0]), (2, [9.0] * 3), (33, [1e300] * 3)]
    users = world.users.select("user", "vector")
    users = users.unionByName(world.spark.createDataFrame(bad, users.schema))
    vectors = Vectors(users, world.items)
    with pytest.raises(DataError, match="predictions that cannot be ranked: 6") as raised:
        evaluate(vectors, world.labels, "rr")
    result = evaluate(vectors, world.labels, "rr", on_invalid="quarantine")
    assert result.data_quality.n_invalid_predictions == 6
    reasons = Counter(row.reason for row in result.quarantine.collect())
    assert reasons == dict.fromkeys(
        [
            "null user (user)", "null vector", "null, NaN or infinite number in the vector", "user in several rows",
            "number beyond ±1e+140 in the vector", "vector of another length than most items have",
        ],
        1,
    )  # fmt: skip
    assert all(reason.removesuffix(" (user)") in str(raised.value) for reason in reasons)
    assert "number beyond ±1e+140 in the vector: 1, for example user=33" in str(raised.value)


def test_items_without_a_usable_vector_are_counted(world):
    """An item's row that can be used is used, whatever its others are."""
    bad = [
        (None, [1.0] * 3, 0.0, "null item"),
        ("x", None, 0.0, "null vector"),
        ("y", [1.0], 0.0, "vector of another length than most items have"),
        ("z", [1.0, 1.0, 1e300], 0.0, "number beyond ±1e+140 in the vector"),
        ("i00", [9.0] * 3, 0.0, "item in several rows"),
        ("i01", [math.nan] * 3, 0.0, "null, NaN or infinite number in the vector"),
        ("i02", [9.0] * 3, -1e300, "bias beyond ±1e+140"),
    ]
    rows = world.spark.createDataFrame([row[:3] for row in bad], world.items.schema)
    vectors = Vectors(world.users, world.items.unionByName(rows), item_bias="bias")
    with pytest.raises(DataError) as raised:
        evaluate(vectors, world.labels, "rr")
    assert raised.value.counts == {"n_invalid_catalogue": 5, "n_ragged_catalogue": 1, "n_repeated_catalogue": 1}
    assert "or whose vector or bias is missing, NaN, infinite or beyond ±1e+140: 5" in str(raised.value)
    result = evaluate(vectors, world.labels, "rr", on_invalid="quarantine")
    assert result.data_quality.n_predictions == N_ITEMS * (N_USERS - 2)
    found = [(row.item, row.reason) for row in result.quarantine.where("table = 'catalogue'").collect()]
    assert Counter(found) == Counter((item, reason) for item, _, _, reason in bad)
    assert top_items(vectors, 2).first().n_invalid_catalogue == 7


def test_the_two_zeros_are_one_item(world):
    rows = [(0.0, [1.0]), (-0.0, [2.0]), (2.0, [3.0]), (3.0, [1.0, 2.0]), (4.0, None), (5.0, [5.0])]
    items = world.spark.createDataFrame(rows, "item double, vector array<double>")
    users = world.spark.createDataFrame([(1, [1.0])], "user int, vector array<double>")
    labels = world.spark.createDataFrame([(1, -0.0)], "user int, item double")
    for shards in (None, 2):
        (row,) = score_users(Vectors(users, items, shards=shards), labels, "rr", on_invalid="drop").collect()
        assert (row.rr, row.n_predictions, row.n_invalid_facts) == (1 / 3, 3, 3)


@pytest.mark.sail_alone("its workers, which a test can change")
def test_a_catalogue_that_no_row_can_hold_says_what_to_do(world, monkeypatch):
    monkeypatch.setattr(engine, "_MOST_BYTES", 100)
    with pytest.raises(EngineError, match=r"too large for one row: 15 items take .* Vectors\(…, shards=1\)"):
        evaluate(Vectors(world.users, world.items), world.labels, "rr")
    assert evaluate(Vectors(world.users, world.items, shards=1), world.labels, "rr").summary


def test_each_model_of_one_table_has_its_reasons(world):
    biases = "IF(user = 2, NULL, 0.0D) AS one", "IF(user < 5, NULL, 0.0D) AS other"
    users = world.users.selectExpr("user", "vector", *biases)
    models = {name: Vectors(users, world.items, user_bias=name) for name in ("one", "other")}
    with pytest.raises(DataError) as raised:
        evaluate(models, world.labels, "rr")
    for words in ("model 'one': null, NaN or infinite bias: 1,", "model 'other': null, NaN or infinite bias: 3,"):
        assert words in str(raised.value)


def test_only_candidates_are_looked_at(world):
    """Most items that are no candidates, or have no id, are of another length, which is then not the usual one."""
    bad = [(None, [1.0])] * 9 + [("x", [1.0]), ("y", None), ("i00", None)] + [("no candidate", [1.0])] * 9
    items = world.items.select("item", "vector")
    items = items.unionByName(world.spark.createDataFrame(bad, items.schema))
    candidates = world.spark.createDataFrame([("i00",), ("i01",), ("i02",), ("x",)], "item string")
    vectors = Vectors(world.users, items, candidates=candidates)
    result = evaluate(vectors, world.labels, "rr", on_invalid="quarantine")
    assert result.data_quality.n_predictions == 3 * world.users.count()
    assert Counter((row.table, row.item, row.reason) for row in result.quarantine.collect()) == {
        ("catalogue", None, "null item"): 9,
        ("catalogue", "i00", "null vector"): 1,
        ("catalogue", "x", "vector of another length than most items have"): 1,
    }
    assert top_items(vectors, 1).first().n_invalid_catalogue == 11


def of(w, **changed):
    """The vectors of a world, but for some arguments."""
    return Vectors(**{"users": w.users, "items": w.items} | changed)


def facts(w):
    return {"facts": Facts(training=w.training)}


# Calls of a world and what they say: of predictions and further options, or of anything.
REFUSED = [
    (lambda w: (of(w), {"score": "score"}), InputError, "score='score' is for tables of lists"),
    (lambda w: ({"a": of(w), "b": w.labels}, {}), InputError, "predictions of model 'b' in rows need either score="),
    (lambda w: (of(w, vector="bias"), {}), InputError, "must be an array of numbers"),
    (lambda w: of(w, shards=0), OptionError, "shards must be a whole number from 1 to 10,000, or None; got 0"),
    (lambda w: (of(w, item_bias="item"), {}), InputError, "must be a number; it is string"),
    (lambda w: (of(w, items=w.labels), {}), InputError, "items of Vectors has no column 'vector'"),
    (lambda w: (of(w, users=w.items, candidates=w.users), {}), InputError, "users of Vectors has no column 'user'"),
    (lambda w: (of(w, candidates=w.users), {}), InputError, "candidates of Vectors has no column 'item'"),
    (lambda w: (of(w), {"dialect": "torchmetrics"}), DialectError, "from Vectors"),
    (lambda w: (of(w), {"metrics": "repetition", **facts(w)}), MetricError, "give a cutoff"),
    (lambda w: evaluate(of(w), None, "rr"), InputError, "labels=None is for one table of arrays"),
    (lambda w: of(w, items=None), InputError, "items of Vectors must be a table"),
    (lambda w: Vectors.of(w.users), InputError, "must be a fitted ALSModel"),
    (lambda w: top_items(w.users, 3), InputError, "vectors must be Vectors"),
    (lambda w: top_items(of(w, items=w.items.selectExpr("item score", "*")), 3, item="score"), InputError, "column 'score' has the name"),
]  # fmt: skip


def evaluated(world, call):
    predictions, options = call(world)
    return evaluate(predictions, world.labels, **{"metrics": "rr", **options})


@pytest.mark.parametrize(("call", "error", "words"), REFUSED)
def test_a_wrong_call_says_what_is_wrong(world, call, error, words):
    with pytest.raises(error, match=re.escape(words)):
        evaluated(world, call)


def texts_of(said):
    """The texts of our own warnings: an engine may leave a socket open."""
    texts = [str(one.message) for one in said if one.category is SparkRankEvalWarning]
    return [text for text in texts if "every label as relevant" not in text]


def test_candidates_that_are_no_items_are_named_and_user_ids_are_not_blamed(spark, world):
    pairs = [(user, f"{item}.0") for user in range(2) for item in range(2)]
    others = spark.createDataFrame(pairs, "user int, item string")
    lacking = (
        "none of the 2 items of candidates is among the 15 with a vector, for example '0.0' and 'i00', so all lists are empty. If "
        "both mean the same items, use the same ids: cast or trim them, or map them by a join"
    )
    for candidates in (others.select("item").distinct(), others.withColumn("user", F.col("user") + 2)):
        with pytest.warns(SparkRankEvalWarning) as said:
            evaluate(of(world, candidates=candidates), world.labels, "rr")
        first, *more = texts_of(said)
        assert first.startswith("none of 20 users with labels has predictions; the lists of all users are empty. ")
        assert more == [lacking]
    ours = world.scores().select("user", "item")
    models = {"ours": of(world, candidates=ours), "other": of(world, candidates=others)}
    with pytest.warns(SparkRankEvalWarning) as said:
        evaluate(models, world.labels, "rr")
    assert "model 'other': none of the 2 items of candidates is among the 15 with a vector" in texts_of(said)[1]
    with pytest.warns(SparkRankEvalWarning, match="none of the 17 labelled items is among the 15 with a vector"):
        evaluate(of(world), world.labels.withColumn("item", F.upper("item")), "rr")
