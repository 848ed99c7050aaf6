"""The evaluator inside pyspark.ml: what it takes, that it chooses rightly, and that it refuses to choose by nothing."""

import math

import pytest
from helpers.effort import FULL_LENGTH, part_of
from pyspark.ml import Estimator, Pipeline
from pyspark.ml.evaluation import RegressionEvaluator
from pyspark.ml.feature import SQLTransformer
from pyspark.ml.param import Param, Params
from pyspark.ml.recommendation import ALS
from pyspark.ml.tuning import (
    CrossValidator,
    CrossValidatorModel,
    ParamGridBuilder,
    TrainValidationSplit,
    TrainValidationSplitModel,
)
from pyspark.sql import functions as F

from spark_rankeval import Vectors, evaluate
from spark_rankeval.dialects import find_dialect
from spark_rankeval.errors import (
    DataError,
    DialectError,
    InputError,
    MetricError,
    OptionError,
    SparkRankEvalError,
    UndefinedMeanError,
)
from spark_rankeval.metrics import NDCG
from spark_rankeval.ml import CatalogueCrossValidator, RankingEvaluator

NAN = math.nan
#: user, item, rating, prediction: for ann the items stand as 1, 2, 3; for bob as 2, 1.
ROWS = [("ann", 1, 0.0, 9.0), ("ann", 2, 3.0, 8.0), ("ann", 3, 5.0, 7.0), ("bob", 1, 4.0, 0.1), ("bob", 2, 1.0, 0.2)]
SCHEMA = "user string, item int, rating double, prediction double"
GIVEN = {
    "userCol": "who", "itemCol": "what", "labelCol": "stars", "predictionCol": "score", "metricName": "ap@5", "dialect": "mllib-4.3",
    "relevanceThreshold": 3.5, "ties": "item_desc", "onInvalid": "drop",
}  # fmt: skip


@pytest.fixture(scope="module")
def scored(spark):
    return spark.createDataFrame(ROWS, SCHEMA)


@pytest.fixture(scope="module")
def ratings(spark):
    """Ratings that a user's and an item's taste explain, with a fold for each row, that does not depend on partitions."""
    rows = [(u, i, float(1 + (u * i + u + i) % 5), (u + i) % 2) for u in range(12) for i in range(12)]
    return spark.createDataFrame(rows, "user int, item int, rating float, fold int").coalesce(1)


def models_by_statement():
    """A model whose prediction is a statement, and two statements to choose from: nothing to learn, so that tuning takes little."""
    model = SQLTransformer(statement="SELECT *, double(0) AS prediction FROM __THIS__")
    statements = [f"SELECT *, double({sign}rating) AS prediction FROM __THIS__" for sign in ("-", "")]
    return Pipeline(stages=[model]), ParamGridBuilder().addGrid(model.statement, statements).build()


def als(**params):
    return ALS(userCol="user", itemCol="item", ratingCol="rating", coldStartStrategy="drop", maxIter=1, seed=7,
               numUserBlocks=1, numItemBlocks=1, **params)  # fmt: skip


VALUES = [
    # ann's first hit is at 2, bob's at 1.
    ({"metricName": "rr"}, (1 / 2 + 1) / 2),
    # From 4 on: ann's at 3, bob's at 2.
    ({"metricName": "rr", "relevanceThreshold": 4}, (1 / 3 + 1 / 2) / 2),
    ({"metricName": "precision@2"}, (1 / 2 + 1) / 2),
    ({"metricName": "precision@2", "dialect": "mllib"}, 1.0),
    (
        {"metricName": NDCG(k=10), "dialect": "trec_eval"},
        ((3 / math.log2(3) + 5 / 2) / (5 + 3 / math.log2(3)) + (1 + 4 / math.log2(3)) / (4 + 1 / math.log2(3))) / 2,
    ),
    ({"metricName": "percentile_rank", "relevanceThreshold": 4}, (1 + 1) / 2),
]


@pytest.mark.parametrize(("params", "expected"), part_of(VALUES, 2))
def test_the_value_of_a_small_table(scored, params, expected):
    assert RankingEvaluator(**params).evaluate(scored) == pytest.approx(expected, abs=1e-12)


def test_it_is_the_mean_that_evaluate_gives(scored):
    evaluator = RankingEvaluator(metricName="ap(denominator='labels')@2", relevanceThreshold=3, ties="average")
    told = {"score": "prediction", "relevance": "rating", "relevance_threshold": 3, "ties": "average"}
    assert evaluator.evaluate(scored) == evaluate(scored, scored, "ap(denominator='labels')@2", **told).summary[0].mean


def test_one_call_with_other_params(scored):
    evaluator = RankingEvaluator(metricName="rr")
    assert evaluator.evaluate(scored, {evaluator.relevanceThreshold: 4.0}) == pytest.approx(5 / 12)
    assert evaluator.evaluate(scored) == pytest.approx(3 / 4)


def test_columns_of_any_name(scored):
    renamed = scored.toDF("who", "what", "stars", "the score")
    columns = {"userCol": "who", "itemCol": "what", "labelCol": "stars", "predictionCol": "the score"}
    assert RankingEvaluator(metricName="rr", **columns).evaluate(renamed) == 3 / 4
    with pytest.raises(InputError, match="predictions has no column 'prediction'"):
        RankingEvaluator().setUserCol("who").setItemCol("what").setLabelCol("stars").evaluate(renamed)


@pytest.mark.parametrize(("metric", "larger"), [("ndcg@10", True), ("auc", True), ("percentile_rank", False)])
@pytest.mark.parametrize("dialect", ["default", "sklearn"])
def test_which_values_are_better(metric, larger, dialect):
    if metric in ("percentile_rank",) and dialect != "default":
        with pytest.raises(DialectError):
            RankingEvaluator(metricName=metric, dialect=dialect)
        return
    assert RankingEvaluator(metricName=metric, dialect=dialect).isLargerBetter() is larger


def test_params_are_set_read_copied_and_explained():
    made, later = RankingEvaluator(**GIVEN), RankingEvaluator().setParams(**GIVEN)
    one_by_one = RankingEvaluator()
    for name, value in GIVEN.items():
        setter, getter = (f"{verb}{name[0].upper()}{name[1:]}" for verb in ("set", "get"))
        assert getattr(one_by_one, setter)(value) is one_by_one
        assert [getattr(one, getter)() for one in (made, later, one_by_one)] == [value] * 3
    copied = made.copy({made.metricName: "rr"})
    assert (copied.getMetricName(), made.getMetricName(), copied.getUserCol()) == ("rr", "ap@5", "who")
    assert "ndcg@10" in made.explainParam("metricName")
    assert RankingEvaluator(dialect=find_dialect("mllib")).getDialect() == "mllib-4.3"
    with pytest.raises(TypeError, match="forces keyword arguments"):
        RankingEvaluator("ndcg@10")


def metadata_of(spark, path):
    return spark.read.text(f"{path}/metadata").first()[0].replace(": ", ":")


@pytest.mark.night
@pytest.mark.classic_alone("ml")
def test_saved_and_loaded(spark, scored, tmp_path):
    for name, given in {"given": GIVEN, "defaults": {}, "infinite": {"relevanceThreshold": -math.inf}}.items():
        evaluator = RankingEvaluator(**given)
        evaluator.save(str(tmp_path / name))
        loaded = RankingEvaluator.load(str(tmp_path / name))
        # Evaluators that older versions saved, and that they are to read, name the same module.
        assert '"class":"spark_rankeval.ml.RankingEvaluator"' in metadata_of(spark, tmp_path / name)
        assert loaded.uid == evaluator.uid
        assert {p.name: loaded.getOrDefault(p) for p in loaded.params} == {
            p.name: evaluator.getOrDefault(p) for p in evaluator.params
        }
    assert loaded.evaluate(scored) == evaluator.evaluate(scored)


@pytest.mark.parametrize(
    ("params", "error", "words"),
    [
        ({"metricName": "ndgc@10"}, MetricError, "did you mean 'ndcg'"),
        ({"metricName": "ndcg@1..10"}, MetricError, "metricName must be one metric"),
        ({"metricName": None}, SparkRankEvalError, "metrics must be names"),
        ({"metricName": ["rr", "ap"]}, MetricError, "which is 2"),
        ({"dialect": "mlib"}, DialectError, "did you mean 'mllib'"),
        ({"dialect": "mllib", "metricName": "err"}, DialectError, "has no 'err'"),
        ({"relevanceThreshold": "4"}, OptionError, "relevanceThreshold must be a number or None; got '4'"),
        ({"relevanceThreshold": NAN}, OptionError, "relevanceThreshold"),
        ({"relevanceThreshold": True}, OptionError, "relevanceThreshold"),
        ({"ties": "position"}, OptionError, "ties must be one of"),
        ({"onInvalid": "quarantine"}, OptionError, "onInvalid must be one of 'error', 'drop'"),
        ({"userCol": 3}, InputError, "must be a non-empty string"),
        ({"labelCol": ""}, InputError, "must be a non-empty string"),
        ({"userCol": None}, InputError, "must be a non-empty string"),
        (
            {"itemCol": None},
            InputError,
            r"itemCol must be a column name; .* call evaluate\(dataset, None, …, item=None\)",
        ),
        ({"predictionCol": None}, InputError, "must be a non-empty string"),
    ],
)
def test_wrong_params_are_refused_at_once(params, error, words):
    evaluator = RankingEvaluator()
    before = evaluator.extractParamMap()
    for call in (RankingEvaluator, evaluator.setParams):
        with pytest.raises(error, match=words):
            call(**params)
    assert evaluator.extractParamMap() == before


@pytest.mark.filterwarnings("ignore:there are no labels")
def test_a_table_without_rows_is_an_error_of_its_own(spark):
    """As ALS leaves it where nobody of the validation part was trained on."""
    nobody = spark.createDataFrame([], SCHEMA)
    with pytest.raises(
        UndefinedMeanError, match=r"'ndcg@10' has no value, because the table to evaluate has no rows\. If ALS"
    ):
        RankingEvaluator().evaluate(nobody)


@pytest.mark.night
@pytest.mark.filterwarnings("ignore:none of .* labels is relevant")
@pytest.mark.classic_alone("tuned_als")
def test_a_mean_over_nobody_is_an_error_and_chooses_no_model(spark, ratings):
    """NumPy's argmax, by which CrossValidator chooses, takes the first NaN for the largest value."""
    evaluator = RankingEvaluator(relevanceThreshold=1000)
    words = r"'rr' \(dialect 'default'\) has no mean: of 12 users 0 have a value, and 12 have no relevant item\."
    estimator, grid = models_by_statement()
    validator = CrossValidator(estimator=estimator, estimatorParamMaps=grid, evaluator=evaluator.setMetricName("rr"),
                               numFolds=2, foldCol="fold")  # fmt: skip
    with pytest.raises(UndefinedMeanError, match=words) as caught:
        validator.fit(ratings)
    assert caught.value.counts["n_users"] == 12
    zeros = RankingEvaluator(metricName="rr(undefined='zero')", relevanceThreshold=1000)
    assert zeros.evaluate(spark.createDataFrame(ROWS, SCHEMA)) == 0.0


def test_rows_without_a_prediction_are_errors_that_say_what_to_do(spark):
    """As coldStartStrategy='nan', the default of ALS, gives them."""
    table = spark.createDataFrame([*ROWS, ("bob", 3, 5.0, NAN)], SCHEMA)
    with pytest.raises(
        DataError, match=r"NaN score: 1, for example user='bob', item=3.*coldStartStrategy='drop'"
    ) as caught:
        RankingEvaluator().evaluate(table)
    assert caught.value.counts == {"n_invalid_predictions": 1}
    # What was not predicted is still to be found.
    assert RankingEvaluator(metricName="recall@5").evaluate(spark.createDataFrame(ROWS, SCHEMA)) == 1.0
    assert RankingEvaluator(metricName="recall@5", onInvalid="drop").evaluate(table) == pytest.approx((1 + 2 / 3) / 2)


def test_other_bad_rows_are_the_usual_errors(spark):
    rows = {
        "predictions that repeat an item of their user: 1": ("bob", 1, 4.0, 0.1),
        "null relevance: 1": ("bob", 3, None, 0.1),
        "null user": (None, 3, 4.0, 0.1),
        "negative relevance: 1": ("bob", 4, -1.0, 0.1),
    }
    with pytest.raises(DataError) as caught:
        RankingEvaluator().evaluate(spark.createDataFrame([*ROWS, *rows.values()], SCHEMA))
    for words in (*rows, "evaluate(dataset, None, …) takes null scores and labels as items"):
        assert words in str(caught.value)
    assert "ALS" not in str(caught.value)


@pytest.mark.night
@pytest.mark.classic_alone("tuned_als")
def test_the_better_model_is_chosen_and_kept(ratings, tmp_path):
    evaluator = RankingEvaluator(metricName="ndcg@10", relevanceThreshold=3)
    estimator, grid = models_by_statement()
    validator = CrossValidator(estimator=estimator, estimatorParamMaps=grid, evaluator=evaluator, numFolds=2, foldCol="fold",
                               parallelism=2)  # fmt: skip
    model = validator.fit(ratings)
    # The second statement predicts the rating itself.
    assert model.avgMetrics[0] < model.avgMetrics[1] == pytest.approx(1)
    assert "-rating" not in model.bestModel.stages[0].getStatement()
    if not FULL_LENGTH:
        return
    model.save(str(tmp_path / "model"))
    read = CrossValidatorModel.load(str(tmp_path / "model"))
    assert read.bestModel.stages[0].getStatement() == model.bestModel.stages[0].getStatement()
    assert read.avgMetrics == pytest.approx(model.avgMetrics, abs=1e-12)
    assert read.getEvaluator().getMetricName() == "ndcg@10"
    assert read.getEvaluator().getRelevanceThreshold() == 3.0


@pytest.mark.night  # test_which_values_are_better sees what pyspark.ml asks, and the test above that it chooses by it.
@pytest.mark.classic_alone("tuned_als")
def test_a_metric_whose_smaller_values_are_better_chooses_the_smallest(ratings, tmp_path):
    evaluator = RankingEvaluator(metricName="percentile_rank", relevanceThreshold=3)
    estimator, grid = models_by_statement()
    split = TrainValidationSplit(estimator=estimator, estimatorParamMaps=grid, evaluator=evaluator, trainRatio=0.5, seed=3,
                                 parallelism=2)  # fmt: skip
    model = split.fit(ratings)
    assert model.validationMetrics[0] > model.validationMetrics[1]
    assert "-rating" not in model.bestModel.stages[0].getStatement()
    model.save(str(tmp_path / "model"))
    read = TrainValidationSplitModel.load(str(tmp_path / "model"))
    assert read.getEvaluator().isLargerBetter() is False


#: Ratings from 4 on are relevant, the best two items of the catalogue count, and equal scores are in the order that is not the default.
CATALOGUE_EVALUATOR = {"metricName": "recall@2", "relevanceThreshold": 4, "ties": "item_desc"}


class FixedFactors(Estimator):
    """An estimator that learns nothing: a user's score of an item is the item's number, with a sign."""

    userCol = Param(Params._dummy(), "userCol", "the column of users")  # noqa: N815 # as in pyspark.ml
    itemCol = Param(Params._dummy(), "itemCol", "the column of items")  # noqa: N815 # the same
    sign = Param(Params._dummy(), "sign", "1: the last item is the best; -1: the first")

    def __init__(self, n_items=12, **columns):
        super().__init__()
        self.n_items = n_items
        self._setDefault(userCol="user", itemCol="item", sign=1.0)
        self._set(**columns)

    def _fit(self, dataset):
        return FixedModel(self, dataset.sparkSession)


class FixedModel:
    def __init__(self, estimator, spark):
        self.sign = estimator.getOrDefault("sign")
        self.getUserCol, self.getItemCol = (
            lambda name=name: estimator.getOrDefault(name) for name in ("userCol", "itemCol")
        )
        self.userFactors = spark.createDataFrame(
            [(user, [self.sign]) for user in range(12)], "id int, features array<float>"
        )
        rows = [(item, [float(item)]) for item in range(estimator.n_items)]
        self.itemFactors = spark.createDataFrame(rows, "id int, features array<float>")


class NoFactors(FixedFactors):
    def _fit(self, dataset):
        return self


def by_catalogue(estimator, param_maps, evaluator, **params):
    return CatalogueCrossValidator(
        estimator=estimator,
        estimatorParamMaps=param_maps,
        evaluator=evaluator,
        **{"numFolds": 2, "foldCol": "fold", **params},
    )


def both_signs(estimator):
    return [{estimator.sign: sign} for sign in (1.0, -1.0)]


@pytest.mark.night  # test_what_a_fold_trained_on_is_not_ranked sees the same of a model that learns nothing.
@pytest.mark.classic_alone("tuned_als")
def test_als_is_chosen_by_ranks_of_the_whole_catalogue(ratings, tmp_path):
    evaluator, estimator = RankingEvaluator(**CATALOGUE_EVALUATOR), als()
    maps = ParamGridBuilder().addGrid(estimator.rank, [1, 3]).build()
    model = by_catalogue(estimator, maps, evaluator, parallelism=2, collectSubModels=True).fit(ratings)
    means = []
    for params in maps:
        halves = []
        for fold in (0, 1):
            training, held_out = ratings.where(F.col("fold") != fold), ratings.where(F.col("fold") == fold)
            vectors = Vectors.of(estimator.fit(training, params))
            options = {"relevance": "rating", "relevance_threshold": 4, "ties": "item_desc"}
            halves.append(evaluate(vectors, held_out, "recall@2", exclude=training, **options)["recall@2"])
        means.append(halves)
    assert list(model.avgMetrics) == pytest.approx([sum(halves) / 2 for halves in means], abs=1e-12)
    assert list(model.stdMetrics) == pytest.approx([abs(one - other) / 2 for one, other in means], abs=1e-12)
    assert len(set(model.avgMetrics)) == 2
    assert model.bestModel.rank == [1, 3][list(model.avgMetrics).index(max(model.avgMetrics))]
    assert [[each.rank for each in of_fold] for of_fold in model.subModels] == [[1, 3], [1, 3]]
    assert {type(model), type(model.subModels[0][0])} == {CrossValidatorModel, type(model.bestModel)}
    # It was fitted on all rows.
    assert model.bestModel.transform(ratings).count() == ratings.count()
    if not FULL_LENGTH:
        return
    model.save(str(tmp_path / "model"))
    read = CrossValidatorModel.load(str(tmp_path / "model"))
    assert list(read.avgMetrics) == pytest.approx(list(model.avgMetrics), abs=1e-12)
    assert read.bestModel.rank == model.bestModel.rank
    assert read.getEvaluator().getRelevanceThreshold() == 4.0


@pytest.mark.classic_alone("tuned_als")
@pytest.mark.parametrize(
    ("metric", "means", "keeps_all"), part_of([("percentile_rank", [0, 1], True), ("rr", [1, 1 / 11], False)], 2)
)
def test_what_a_fold_trained_on_is_not_ranked(spark, metric, means, keeps_all):
    """The held-out item of 12 is the last but for what was trained on, or the last: it is the first of 11, or the last."""
    rows = [(user, item, 5.0, fold) for user in range(4) for item, fold in ((10, 0), (11, 1))]
    estimator = FixedFactors()
    options = {"parallelism": 2, "collectSubModels": True} if keeps_all else {}
    validator = by_catalogue(estimator, both_signs(estimator), RankingEvaluator(metricName=metric), **options)
    model = validator.fit(spark.createDataFrame(rows, "user int, item int, rating float, fold int"))
    assert list(model.avgMetrics) == pytest.approx(means, abs=1e-12)
    assert model.bestModel.sign == 1
    signs = [[each.sign for each in of_fold] for of_fold in model.subModels or []]
    assert signs == ([[1, -1], [1, -1]] if keeps_all else [])


@pytest.mark.night  # test_als_is_chosen_by_ranks_of_the_whole_catalogue has two threads, and compares with a loop.
@pytest.mark.classic_alone("tuned_als")
def test_random_folds_are_the_same_by_any_number_of_threads(ratings):
    estimator = als()
    validator = by_catalogue(
        estimator, [{estimator.rank: rank} for rank in (1, 2)], RankingEvaluator(), foldCol="", seed=3
    )
    means = [list(validator.setParallelism(threads).fit(ratings).avgMetrics) for threads in (1, 2)]
    assert means[0] == pytest.approx(means[1], abs=1e-12)
    assert all(0 < mean < 1 for mean in means[0])


@pytest.mark.night
@pytest.mark.classic_alone("ml")
def test_a_validator_is_saved_and_loaded(spark, tmp_path):
    estimator = als()
    validator = by_catalogue(estimator, [{estimator.rank: 1}, {estimator.rank: 2}], RankingEvaluator(**CATALOGUE_EVALUATOR),
                             parallelism=3, collectSubModels=True, seed=5)  # fmt: skip
    validator.save(str(tmp_path / "validator"))
    validator.write().overwrite().save(str(tmp_path / "validator"))
    assert '"class":"spark_rankeval.ml.CatalogueCrossValidator"' in metadata_of(spark, tmp_path / "validator")
    loaded = CatalogueCrossValidator.load(str(tmp_path / "validator"))
    assert type(loaded) is CatalogueCrossValidator
    for name in ("uid", "getNumFolds", "getFoldCol", "getParallelism", "getCollectSubModels", "getSeed"):
        one, other = (getattr(each, name) for each in (loaded, validator))
        assert (one() if callable(one) else one) == (other() if callable(other) else other)
    assert loaded.getEvaluator().extractParamMap() == validator.getEvaluator().extractParamMap()
    assert loaded.getEstimator().getMaxIter() == 1
    assert [[*each.values()] for each in loaded.getEstimatorParamMaps()] == [[1], [2]]


def test_a_validator_is_set_and_copied():
    estimator, evaluator = FixedFactors(), RankingEvaluator()
    validator = CatalogueCrossValidator()
    assert validator.setEstimator(estimator).setEvaluator(evaluator) is validator
    assert validator.setEstimatorParamMaps(both_signs(estimator)).setNumFolds(4).setSeed(1) is validator
    copied = validator.copy({evaluator.metricName: "rr", validator.numFolds: 5})
    assert type(copied) is CatalogueCrossValidator
    assert (copied.getNumFolds(), validator.getNumFolds()) == (5, 4)
    assert (copied.getEvaluator().getMetricName(), evaluator.getMetricName()) == ("rr", "ndcg@10")
    assert validator.setParams(numFolds=3).getNumFolds() == 3


WRONG_VALIDATORS = [
    (lambda: by_catalogue(Pipeline(stages=[]), [], RankingEvaluator()), "whose models have factors of users and items; got Pipeline"),
    (lambda: CatalogueCrossValidator().setEvaluator(Estimator), "must be a spark_rankeval.ml.RankingEvaluator; got"),
    (lambda: by_catalogue(FixedFactors(), None, RankingEvaluator()).fit(None, {}), "estimatorParamMaps of .* is missing"),
    (
        lambda: CatalogueCrossValidator(evaluator=RankingEvaluator()).fit(None),
        "estimator of CatalogueCrossValidator is missing; pass it, or call setEstimator",
    ),
    (
        lambda: by_catalogue(FixedFactors(userCol="who"), [{}], RankingEvaluator()).fit(None),
        "must have the same userCol; got 'who' and 'user'",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "words"), WRONG_VALIDATORS)
def test_a_validator_that_cannot_rank_a_catalogue_is_refused_at_once(call, words):
    with pytest.raises(InputError, match=words):
        call()


@pytest.mark.classic_alone("ml")
@pytest.mark.usefixtures("spark")
def test_an_evaluator_of_another_kind_is_refused_at_once():
    with pytest.raises(InputError, match=r"got pyspark\.ml\.evaluation\.RegressionEvaluator"):
        CatalogueCrossValidator(evaluator=RegressionEvaluator())


@pytest.mark.filterwarnings("ignore:none of .* labels is relevant")
@pytest.mark.classic_alone("tuned_als")
@pytest.mark.night
@pytest.mark.parametrize(
    ("estimator", "evaluator", "folds", "error", "words"),
    [
        (NoFactors, {}, 2, InputError, "must be a fitted ALSModel"),
        (
            FixedFactors,
            {"metricName": "rr", "relevanceThreshold": 1000},
            2,
            UndefinedMeanError,
            "has no mean: of 12 users 0 have a value",
        ),
        (FixedFactors, {"labelCol": "stars"}, 2, InputError, "has no column 'stars'"),
        # Of pyspark.ml itself.
        (FixedFactors, {}, 1, Exception, r"Fold number must be in range \[0, 1\)"),
        (FixedFactors, {}, 3, ValueError, "The validation data at fold 2 is empty"),
    ],
)
def test_what_goes_wrong_in_a_fold_is_an_error(ratings, estimator, evaluator, folds, error, words):
    validator = by_catalogue(estimator(), [{}], RankingEvaluator(**evaluator), numFolds=folds)
    with pytest.raises(error, match=words):
        validator.fit(ratings)
