"""The whole catalogue ranked from vectors is what the table of all scores is, for everything that takes predictions."""

import itertools

import numpy as np
import pytest
from chispa import assert_df_equality
from helpers.effort import FULL_LENGTH
from pyspark.sql import functions as F

from spark_rankeval import Facts, Vectors, compare, evaluate, quarantine, score_users, top_items
from spark_rankeval.errors import (
    DataError,
    DialectError,
    EngineError,
    InputError,
    MetricError,
    OptionError,
    SparkRankEvalWarning,
)
from spark_rankeval.features.vectors import catalogue
from spark_rankeval.request.options import CATALOGUE_TOO_LARGE

N_USERS, N_ITEMS, LENGTH = 24, 15, 3
METRICS = ["ndcg@5", "ap", "rr", "auc", "percentile_rank", "recall@3"]


class World:
    """Users and items with vectors of small whole numbers, whose scores often tie, and the table of all these scores."""

    def __init__(self, spark):
        rng = np.random.default_rng(5)
        self.spark = spark
        self.user_vectors, self.item_vectors = (
            rng.integers(-2, 3, (n, LENGTH)).astype(float) for n in (N_USERS, N_ITEMS)
        )
        self.users = spark.createDataFrame(
            [
                (user, self.user_vectors[user].tolist(), "even" if user % 2 == 0 else "odd")
                for user in range(2, N_USERS)
            ],
            "user int, vector array<double>, parity string",
        )
        self.items = spark.createDataFrame(
            [(f"i{item:02}", self.item_vectors[item].tolist(), float(item % 3)) for item in range(N_ITEMS)],
            "item string, vector array<double>, bias double",
        )
        self.categories = self.items.select("item", F.substring("item", 3, 1).alias("category"))
        pairs = sorted(
            {
                (int(user), int(item))
                for user, item in zip(rng.integers(0, N_USERS, 90), rng.integers(0, N_ITEMS + 2, 90), strict=True)
            }
        )
        self.labels = spark.createDataFrame(
            [(user, f"i{item:02}", float(rng.integers(1, 4))) for user, item in pairs],
            "user int, item string, grade double",
        )
        # A label of an item that is left out is worth a warning.
        others = sorted(
            {
                (int(user), int(item))
                for user, item in zip(rng.integers(0, N_USERS, 60), rng.integers(0, N_ITEMS, 60), strict=True)
            }
        )
        self.training = spark.createDataFrame(
            [(user, f"i{item:02}") for user, item in others if (user, item) not in pairs], "user int, item string"
        )

    def scores(self, bias=False, only=lambda user, item: True):
        """The table of all scores."""
        rows = [
            (user, f"i{item:02}", float(self.user_vectors[user] @ self.item_vectors[item] + (item % 3 if bias else 0)))
            for user, item in itertools.product(range(2, N_USERS), range(N_ITEMS))
            if only(user, item)
        ]
        return self.spark.createDataFrame(rows, "user int, item string, score double")


@pytest.fixture(scope="module")
def world(spark):
    return World(spark)


def figures(result):
    return [
        (row.model, row.metric, row.slice, row.mean, row.std, row.n_users, row.n_undefined) for row in result.summary
    ]


def assert_same(ours, other):
    assert figures(ours) == figures(other)
    for model, quality in other.qualities.items():
        counts = ours.qualities[model].to_dict()
        assert {name: count for name, count in counts.items() if name != "n_labels_without_vector"} == {
            name: count for name, count in quality.to_dict().items() if name != "n_labels_without_vector"
        }


def test_an_evaluation_is_that_of_the_table_of_all_scores(world):
    options = {
        "relevance": "grade",
        "exclude": world.training,
        "by": "parity",
        "facts": Facts(attributes=world.users.drop("vector")),
    }
    ours = evaluate(Vectors(world.users, world.items), world.labels, METRICS, **options)
    assert_same(ours, evaluate(world.scores(), world.labels, METRICS, score="score", **options))
    # Two of the labelled items have no vector.
    assert ours.data_quality.n_labels_without_vector == world.labels.where("item > 'i14'").count() > 0
    assert "labels of items without a vector" in str(ours)


def test_several_models_stand_side_by_side(world):
    with_bias = Vectors(world.users, world.items, item_bias="bias")
    some = world.items.where("item < 'i10'").select("item")
    models = {
        "plain": Vectors(world.users, world.items),
        "bias": with_bias,
        "some": Vectors(world.users, world.items, candidates=some),
    }
    tables = {
        "plain": world.scores(),
        "bias": world.scores(bias=True),
        "some": world.scores(only=lambda user, item: item < 10),
    }
    ours = evaluate(models, world.labels, METRICS, relevance="grade")
    other = evaluate(tables, world.labels, METRICS, relevance="grade", score="score")
    assert_same(ours, other)
    if not FULL_LENGTH:
        return
    ours, other = (
        compare(score_users(sum_of_models, world.labels, "ndcg@5", relevance="grade", **options), baseline="plain")
        for sum_of_models, options in ((models, {}), (tables, {"score": "score"}))
    )
    assert [row.difference for row in ours.rows] == [row.difference for row in other.rows]


def test_each_user_can_have_candidates_of_their_own(world):
    candidates = world.spark.createDataFrame(
        [
            (user, f"i{item:02}")
            for user, item in itertools.product(range(N_USERS), range(N_ITEMS))
            if (user + item) % 3
        ],
        "user int, item string",
    )
    # The table of items has a column that candidates lack.
    options = {"exclude": world.training, "facts": Facts(items=world.categories)}
    metrics = [*METRICS, "diversity@4"]
    ours = evaluate(Vectors(world.users, world.items, candidates=candidates), world.labels, metrics, **options)
    table = world.scores(only=lambda user, item: (user + item) % 3)
    assert_same(ours, evaluate(table, world.labels, metrics, score="score", **options))


def test_the_table_of_users_is_that_of_the_table_of_all_scores(world):
    ours = score_users(Vectors(world.users, world.items), world.labels, METRICS)
    other = score_users(world.scores(), world.labels, METRICS, score="score")
    # Predictions are other tables.
    shared = [name for name in other.columns if name in ours.columns and name != "predictions_hash"]
    assert "ndcg_at_5" in shared
    assert_df_equality(
        ours.select(*shared),
        other.select(*shared),
        ignore_row_order=True,
        ignore_nullable=True,
        ignore_metadata=True,
        allow_nan_equality=True,
    )


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
    excluded = {(row.user, row.item) for row in world.training.collect()}
    lists = {}
    for row in world.scores(bias=True).collect():
        if (row.user, row.item) not in excluded:
            lists.setdefault(row.user, []).append((-row.score, row.item))
    assert found == {user: [(item, -score) for score, item in sorted(of_user)[:4]] for user, of_user in lists.items()}


@pytest.mark.classic_alone("ml")
def test_the_factors_of_als_are_vectors(world):
    from pyspark.ml.recommendation import ALS  # one test needs it

    ratings = world.labels.select("user", F.substring("item", 2, 2).cast("int").alias("film"), "grade")
    model = ALS(rank=2, maxIter=1, seed=1, itemCol="film", ratingCol="grade").fit(ratings)
    ours = evaluate(Vectors.of(model), ratings, "ndcg@5", item="film", relevance="grade")
    # Its lists go in as they are.
    lists = evaluate(model.recommendForAllUsers(5), ratings, "ndcg@5", item="film", relevance="grade")
    assert ours["ndcg@5"] == pytest.approx(lists["ndcg@5"], abs=1e-9)
    assert lists.data_quality.n_predictions == 5 * model.userFactors.count()
    assert ours.data_quality.n_predictions == model.userFactors.count() * model.itemFactors.count()


class TestBadInput:
    def test_users_without_a_usable_vector_are_counted_and_named(self, world):
        bad = [
            (None, [1.0] * 3),
            (30, None),
            (31, [1.0, float("nan"), 1.0]),
            (32, [1.0]),
            (2, [9.0] * 3),
            (33, [1e300] * 3),
        ]
        users = world.users.select("user", "vector").unionByName(
            world.spark.createDataFrame(bad, "user int, vector array<double>")
        )
        vectors = Vectors(users, world.items)
        with pytest.raises(DataError, match="predictions that cannot be ranked: 6") as raised:
            evaluate(vectors, world.labels, "rr")
        for words in (
            "null user",
            "null vector",
            "NaN or infinite number in the vector",
            "of another length",
            "number beyond ±1e+140 in the vector: 1, for example user=33",
            "user in several rows",
        ):
            assert words in str(raised.value)
        result = evaluate(vectors, world.labels, "rr", on_invalid="drop")
        assert result.data_quality.n_invalid_predictions == 6
        reasons = quarantine(vectors, world.labels, "rr").groupBy("reason").count().collect()
        assert {row["reason"]: row["count"] for row in reasons} == {
            "null user (user)": 1,
            "null vector": 1,
            "null, NaN or infinite number in the vector": 1,
            "number beyond ±1e+140 in the vector": 1,
            "vector of another length than most items have": 1,
            "user in several rows": 1,
        }

    def test_items_without_a_usable_vector_are_counted(self, world):
        # An item's row that can be used is used, whatever its others are.
        bad = [
            (None, [1.0] * 3, 0.0),
            ("x", None, 0.0),
            ("y", [1.0], 0.0),
            ("z", [1.0, 1.0, 1e300], 0.0),
            ("i00", [9.0] * 3, 0.0),
            ("i01", [float("nan")] * 3, 0.0),
            ("i02", [9.0] * 3, -1e300),
        ]
        items = world.items.unionByName(
            world.spark.createDataFrame(bad, "item string, vector array<double>, bias double")
        )
        vectors = Vectors(world.users, items, item_bias="bias")
        with pytest.raises(DataError) as raised:
            evaluate(vectors, world.labels, "rr")
        assert raised.value.counts == {"n_invalid_catalogue": 5, "n_ragged_catalogue": 1, "n_repeated_catalogue": 1}
        assert "or whose vector or bias is missing, NaN, infinite or beyond ±1e+140: 5" in str(raised.value)
        assert (
            evaluate(vectors, world.labels, "rr", on_invalid="drop").data_quality.n_predictions
            == N_ITEMS * world.users.count()
        )
        rows = quarantine(vectors, world.labels, "rr").where("table = 'catalogue'").collect()
        assert {(row.item, row.reason) for row in rows} == {
            (None, "null item"),
            ("x", "null vector"),
            ("y", "vector of another length than most items have"),
            ("i00", "item in several rows"),
            ("i01", "null, NaN or infinite number in the vector"),
            ("z", "number beyond ±1e+140 in the vector"),
            ("i02", "bias beyond ±1e+140"),
        }
        assert len(rows) == 7
        first = top_items(vectors, 2).first()
        assert first.n_invalid_catalogue == 7

    def test_the_two_zeros_are_one_item(self, world):
        rows = [(0.0, [1.0]), (-0.0, [2.0]), (2.0, [3.0]), (3.0, [1.0, 2.0]), (4.0, None), (5.0, [5.0])]
        items = world.spark.createDataFrame(rows, "item double, vector array<double>")
        users = world.spark.createDataFrame([(1, [1.0])], "user int, vector array<double>")
        labels = world.spark.createDataFrame([(1, -0.0)], "user int, item double")
        (row,) = score_users(Vectors(users, items), labels, "rr", on_invalid="drop").collect()
        assert (row.rr, row.n_predictions, row.n_invalid_facts) == (1 / 3, 3, 3)

    @pytest.mark.sail_alone("its workers, which a test can change")
    def test_a_catalogue_that_no_row_can_hold_says_what_to_do(self, world, monkeypatch):
        monkeypatch.setattr(catalogue, "_MOST_BYTES", 100)
        with pytest.raises(EngineError) as raised:
            evaluate(Vectors(world.users, world.items), world.labels, "rr")
        assert str(raised.value) == CATALOGUE_TOO_LARGE

    def test_each_model_of_one_table_has_its_reasons(self, world):
        users = world.users.selectExpr(
            "user", "vector", "IF(user = 2, NULL, 0.0D) AS one", "IF(user < 5, NULL, 0.0D) AS other"
        )
        models = {name: Vectors(users, world.items, user_bias=name) for name in ("one", "other")}
        with pytest.raises(DataError) as raised:
            evaluate(models, world.labels, "rr")
        for words in ("model 'one': null, NaN or infinite bias: 1,", "model 'other': null, NaN or infinite bias: 3,"):
            assert words in str(raised.value)

    def test_only_candidates_are_looked_at(self, world):
        """Most items that are no candidates, or have no id, are of another length, which is then not the usual one."""
        bad = [(None, [1.0])] * 9 + [("x", [1.0]), ("y", None), ("i00", None)] + [("no candidate", [1.0])] * 9
        items = world.items.select("item", "vector").unionByName(
            world.spark.createDataFrame(bad, "item string, vector array<double>")
        )
        candidates = world.spark.createDataFrame([("i00",), ("i01",), ("i02",), ("x",)], "item string")
        vectors = Vectors(world.users, items, candidates=candidates)
        result = evaluate(vectors, world.labels, "rr", on_invalid="quarantine")
        assert result.data_quality.n_predictions == 3 * world.users.count()
        reasons = result.quarantine.groupBy("table", "item", "reason").count().collect()
        assert {tuple(row) for row in reasons} == {
            ("catalogue", None, "null item", 9),
            ("catalogue", "i00", "null vector", 1),
            ("catalogue", "x", "vector of another length than most items have", 1),
        }
        assert top_items(vectors, 1).first().n_invalid_catalogue == 11

    def test_an_empty_catalogue_is_nothing_to_rank(self, world):
        with pytest.warns(SparkRankEvalWarning, match="none of 20 users with labels has predictions"):
            result = evaluate(Vectors(world.users, world.items.limit(0)), world.labels, "rr")
        assert result.data_quality.n_predictions == 0
        assert result["rr"] == 0

    @pytest.mark.parametrize(
        ("call", "error", "words"),
        [
            (lambda w: evaluate(Vectors(w.users, w.items), None, "rr"), InputError, "labels=None is for one table of arrays"),
            (
                lambda w: evaluate(Vectors(w.users, w.items), w.labels, "rr", score="score"),
                InputError,
                "score='score' is for tables of lists",
            ),
            (
                lambda w: evaluate({"a": Vectors(w.users, w.items), "b": w.labels}, w.labels, "rr"),
                InputError,
                "predictions of model 'b' in rows need either score=",
            ),
            (lambda w: evaluate(Vectors(w.users, w.items, vector="bias"), w.labels, "rr"), InputError, "must be an array of numbers"),
            (
                lambda w: evaluate(Vectors(w.users, w.items, item_bias="item"), w.labels, "rr"),
                InputError,
                "must be a number; it is string",
            ),
            (lambda w: evaluate(Vectors(w.users, w.labels), w.labels, "rr"), InputError, "items of Vectors has no column 'vector'"),
            (
                lambda w: evaluate(Vectors(w.items, w.items, candidates=w.users), w.labels, "rr"),
                InputError,
                "users of Vectors has no column 'user'",
            ),
            (
                lambda w: evaluate(Vectors(w.users, w.items, candidates=w.items.drop("item")), w.labels, "rr"),
                InputError,
                "candidates of Vectors has no column 'item'",
            ),
            (lambda w: evaluate(Vectors(w.users, w.items), w.labels, "rr", dialect="torchmetrics"), DialectError, "from Vectors"),
            (
                lambda w: evaluate(Vectors(w.users, w.items), w.labels, "repetition", facts=Facts(training=w.training)),
                MetricError,
                "give a cutoff",
            ),
            (
                lambda w: evaluate(
                    Vectors(w.users, w.items), w.labels, "novelty@3", facts=Facts(training=w.training, lookup="join")
                ),
                InputError,
                "lookup='join' joins facts of items to rows",
            ),
            (lambda w: Vectors(w.users, None), InputError, "items of Vectors must be a table"),
            (lambda w: Vectors(w.users, w.items, parts=8), OptionError, "parts was removed, and each task holds the whole"),
            (lambda w: Vectors.of(w.users), InputError, "must be a fitted ALSModel"),
            (lambda w: top_items(w.users, 3), InputError, "vectors must be Vectors"),
            (
                lambda w: top_items(Vectors(w.users, w.items.withColumnRenamed("item", "score")), 3, item="score"),
                InputError,
                "the item column 'score' has the name",
            ),
        ],
    )  # fmt: skip
    def test_a_wrong_call_says_what_is_wrong(self, world, call, error, words):
        with pytest.raises(error, match=words.replace("(", r"\(")):
            call(world)


def test_candidates_that_are_no_items_are_named_and_user_ids_are_not_blamed(spark, world):
    others = spark.createDataFrame(
        [(user, f"{item}.0") for user in range(2) for item in range(2)], "user int, item string"
    )
    given = {"users": world.users, "items": world.items, "vector": "vector"}
    for candidates in (others.select("item").distinct(), others.withColumn("user", F.col("user") + 2)):
        with pytest.warns(SparkRankEvalWarning) as said:
            evaluate(Vectors(**given, candidates=candidates), world.labels, "rr")
        words = [str(one.message) for one in said]
        assert words[0].startswith("none of 20 users with labels has predictions; the lists of all users are empty. ")
        assert words[1:] == [
            "none of the 2 items of candidates is among the 15 with a vector, for example '0.0' and 'i00', so all lists are empty. If "
            "both mean the same items, use the same ids: cast or trim them, or map them by a join"
        ]
    ours = world.scores().select("user", "item")
    models = {"ours": Vectors(**given, candidates=ours), "other": Vectors(**given, candidates=others)}
    with pytest.warns(SparkRankEvalWarning) as said:
        evaluate(models, world.labels, "rr")
    assert "model 'other': none of the 2 items of candidates is among the 15 with a vector" in str(said[1].message)
    with pytest.warns(SparkRankEvalWarning, match="none of the 17 labelled items is among the 15 with a vector"):
        evaluate(Vectors(**given), world.labels.withColumn("item", F.upper("item")), "rr")
