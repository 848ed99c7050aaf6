"""The evaluator inside pyspark.ml: what it takes, that it chooses rightly, and that it refuses to choose by nothing."""

import math

import pytest
from pyspark.ml import Estimator, Pipeline
from pyspark.ml.evaluation import RegressionEvaluator
from pyspark.ml.feature import SQLTransformer
from pyspark.ml.param import Param, Params
from pyspark.ml.recommendation import ALS
from pyspark.ml.tuning import CrossValidator, CrossValidatorModel, ParamGridBuilder
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


def als():
    return ALS(userCol="user", itemCol="item", ratingCol="rating", coldStartStrategy="drop", maxIter=1, seed=7,
               numUserBlocks=1, numItemBlocks=1)  # fmt: skip


# Ratings as gains: of ann's list 0, 3 and 5, of bob's 1 and 4.
OF_GAINS = ((3 / math.log2(3) + 5 / 2) / (5 + 3 / math.log2(3)) + (1 + 4 / math.log2(3)) / (4 + 1 / math.log2(3))) / 2
VALUES = [
    # From 4 on: ann's at 3, bob's at 2.
    ({"metricName": "rr", "relevanceThreshold": 4}, (1 / 3 + 1 / 2) / 2),
    ({"metricName": "precision@2"}, (1 / 2 + 1) / 2),
    ({"metricName": "precision@2", "dialect": "mllib"}, 1.0),
    ({"metricName": NDCG(k=10), "dialect": "trec_eval"}, OF_GAINS),
    ({"metricName": "percentile_rank", "relevanceThreshold": 4}, (1 + 1) / 2),
]


@pytest.mark.ci
@pytest.mark.parametrize(("params", "expected"), VALUES)
def test_the_value_of_a_small_table(scored, params, expected):
    assert RankingEvaluator(**params).evaluate(scored) == pytest.approx(expected, abs=1e-12)


def test_it_is_the_mean_that_evaluate_gives_with_columns_and_params_of_the_call(scored):
    evaluator = RankingEvaluator(metricName="ap(denominator='labels')@2", relevanceThreshold=3, ties="average")
    told = {"score": "prediction", "relevance": "rating", "relevance_threshold": 3, "ties": "average"}
    assert evaluator.evaluate(scored) == evaluate(scored, scored, "ap(denominator='labels')@2", **told).summary[0].mean
    renamed = scored.toDF("who", "what", "stars", "the score")
    columns = {"userCol": "who", "itemCol": "what", "labelCol": "stars", "predictionCol": "the score"}
    evaluator = RankingEvaluator(metricName="rr", **columns)
    # ann's first hit is at 2, bob's at 1.
    assert evaluator.evaluate(renamed, {evaluator.relevanceThreshold: 4.0}) == pytest.approx(5 / 12)
    assert evaluator.evaluate(renamed) == pytest.approx(3 / 4)
    with pytest.raises(InputError, match="predictions has no column 'prediction'"):
        RankingEvaluator().setUserCol("who").setItemCol("what").setLabelCol("stars").evaluate(renamed)


def test_which_values_are_better_whatever_the_dialect():
    for dialect in ("default", "sklearn"):
        for metric, larger in {"ndcg@10": True, "auc": True, "percentile_rank": False}.items():
            if (metric, dialect) != ("percentile_rank", "sklearn"):
                assert RankingEvaluator(metricName=metric, dialect=dialect).isLargerBetter() is larger


def test_params_are_set_read_copied_and_explained():
    made, later, one_by_one = RankingEvaluator(**GIVEN), RankingEvaluator().setParams(**GIVEN), RankingEvaluator()
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


WRONG_PARAMS = [
    ({"metricName": "ndgc@10"}, MetricError, "did you mean 'ndcg'"),
    ({"metricName": "ndcg@1..10"}, MetricError, "metricName must be one metric"),
    ({"metricName": None}, SparkRankEvalError, "metrics must be names"),
    ({"metricName": ["rr", "ap"]}, MetricError, "which is 2"),
    ({"dialect": "mlib"}, DialectError, "did you mean 'mllib'"),
    ({"dialect": "mllib", "metricName": "err"}, DialectError, "has no 'err'"),
    ({"dialect": "sklearn", "metricName": "percentile_rank"}, DialectError, "percentile_rank"),
    ({"relevanceThreshold": "4"}, OptionError, "relevanceThreshold must be a number or None; got '4'"),
    ({"relevanceThreshold": NAN}, OptionError, "relevanceThreshold"),
    ({"relevanceThreshold": True}, OptionError, "relevanceThreshold"),
    ({"ties": "position"}, OptionError, "ties must be one of"),
    ({"onInvalid": "quarantine"}, OptionError, "onInvalid must be one of 'error', 'drop'"),
    ({"userCol": 3}, InputError, "must be a non-empty string"),
    ({"labelCol": ""}, InputError, "must be a non-empty string"),
    ({"itemCol": None}, InputError, r"itemCol must be a column name; .* call evaluate\(dataset, None, …, item=None\)"),
    ({"predictionCol": None}, InputError, "must be a non-empty string"),
]


def test_wrong_params_are_refused_at_once():
    evaluator = RankingEvaluator()
    before = evaluator.extractParamMap()
    for params, error, words in WRONG_PARAMS:
        for call in (RankingEvaluator, evaluator.setParams):
            with pytest.raises(error, match=words):
                call(**params)
    assert evaluator.extractParamMap() == before


@pytest.mark.filterwarnings("ignore:there are no labels", "ignore:none of .* labels is relevant")
def test_a_mean_over_nobody_is_an_error(spark, scored):
    """NumPy's argmax, by which CrossValidator chooses, takes the first NaN for the largest value."""
    words = r"'rr' \(dialect 'default'\) has no mean: of 2 users 0 have a value, and 2 have no relevant item\."
    with pytest.raises(UndefinedMeanError, match=words) as caught:
        RankingEvaluator(metricName="rr", relevanceThreshold=1000).evaluate(scored)
    assert caught.value.counts["n_users"] == 2
    assert RankingEvaluator(metricName="rr(undefined='zero')", relevanceThreshold=1000).evaluate(scored) == 0.0
    # As ALS leaves it where nobody of the validation part was trained on.
    words = r"'ndcg@10' has no value, because the table to evaluate has no rows\. If ALS"
    with pytest.raises(UndefinedMeanError, match=words):
        RankingEvaluator().evaluate(spark.createDataFrame([], SCHEMA))


@pytest.mark.ci
def test_rows_without_a_prediction_are_errors_that_say_what_to_do(spark, scored):
    """As coldStartStrategy='nan', the default of ALS, gives them."""
    table = spark.createDataFrame([*ROWS, ("bob", 3, 5.0, NAN)], SCHEMA)
    words = r"NaN score: 1, for example user='bob', item=3.*coldStartStrategy='drop'"
    with pytest.raises(DataError, match=words) as caught:
        RankingEvaluator().evaluate(table)
    assert caught.value.counts == {"n_invalid_predictions": 1}
    # What was not predicted is still to be found.
    assert RankingEvaluator(metricName="recall@5").evaluate(scored) == 1.0
    assert RankingEvaluator(metricName="recall@5", onInvalid="drop").evaluate(table) == pytest.approx((1 + 2 / 3) / 2)
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


def metadata_of(spark, path):
    return spark.read.text(f"{path}/metadata").first()[0].replace(": ", ":")


@pytest.mark.night
@pytest.mark.classic_alone("ml")
def test_saved_and_loaded(spark, scored, tmp_path):
    for name, given in {"given": GIVEN, "defaults": {}, "infinite": {"relevanceThreshold": -math.inf}}.items():
        evaluator = RankingEvaluator(**given)
        evaluator.save(str(tmp_path / name))
        loaded = RankingEvaluator.load(str(tmp_path / name))
        assert '"class":"spark_rankeval.ml.RankingEvaluator"' in metadata_of(spark, tmp_path / name)
        assert loaded.uid == evaluator.uid
        assert [loaded.getOrDefault(p.name) for p in loaded.params] == [
            evaluator.getOrDefault(p) for p in evaluator.params
        ]
    assert loaded.evaluate(scored) == evaluator.evaluate(scored)


@pytest.mark.night
@pytest.mark.classic_alone("tuned_als")
@pytest.mark.filterwarnings("ignore:none of .* labels is relevant")
def test_the_better_model_is_chosen_and_kept(ratings, tmp_path):
    evaluator = RankingEvaluator(metricName="ndcg@10", relevanceThreshold=3)
    estimator, grid = models_by_statement()
    validator = CrossValidator(estimator=estimator, estimatorParamMaps=grid, evaluator=evaluator, numFolds=2, foldCol="fold",
                               parallelism=2)  # fmt: skip
    model = validator.fit(ratings)
    # The second statement predicts the rating itself.
    assert model.avgMetrics[0] < model.avgMetrics[1] == pytest.approx(1)
    assert "-rating" not in model.bestModel.stages[0].getStatement()
    model.save(str(tmp_path / "model"))
    read = CrossValidatorModel.load(str(tmp_path / "model"))
    assert read.bestModel.stages[0].getStatement() == model.bestModel.stages[0].getStatement()
    assert read.avgMetrics == pytest.approx(model.avgMetrics, abs=1e-12)
    assert (read.getEvaluator().getMetricName(), read.getEvaluator().getRelevanceThreshold()) == ("ndcg@10", 3.0)
    with pytest.raises(UndefinedMeanError, match="of 12 users 0 have a value"):
        validator.setEvaluator(RankingEvaluator(metricName="rr", relevanceThreshold=1000)).fit(ratings)


#: Ratings from 4 on are relevant, the best two items of the catalogue count, and equal scores are in the order that is not the default.
CATALOGUE_EVALUATOR = {"metricName": "recall@2", "relevanceThreshold": 4, "ties": "item_desc"}


class FixedFactors(Estimator):
    """An estimator that learns nothing: a user's score of an item is the item's number, with a sign."""

    userCol = Param(Params._dummy(), "userCol", "the column of users")  # noqa: N815 # as in pyspark.ml
    itemCol = Param(Params._dummy(), "itemCol", "the column of items")  # noqa: N815 # the same
    sign = Param(Params._dummy(), "sign", "1: the last item is the best; -1: the first")

    def __init__(self, **columns):
        super().__init__()
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
        factors = {"userFactors": [self.sign] * 12, "itemFactors": [float(item) for item in range(12)]}
        for name, values in factors.items():
            rows = [(place, [value]) for place, value in enumerate(values)]
            setattr(self, name, spark.createDataFrame(rows, "id int, features array<float>"))


class NoFactors(FixedFactors):
    def _fit(self, dataset):
        return self


def by_catalogue(estimator, param_maps, evaluator, **params):
    told = {"numFolds": 2, "foldCol": "fold", **params}
    return CatalogueCrossValidator(estimator=estimator, estimatorParamMaps=param_maps, evaluator=evaluator, **told)


def both_signs(estimator):
    return [{estimator.sign: sign} for sign in (1.0, -1.0)]


@pytest.mark.ci
@pytest.mark.classic_alone("tuned_als")
@pytest.mark.parametrize(
    ("metric", "means", "keeps_all"), [("percentile_rank", [0, 1], True), ("rr", [1, 1 / 11], False)]
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


@pytest.mark.night
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
    model.save(str(tmp_path / "model"))
    read = CrossValidatorModel.load(str(tmp_path / "model"))
    assert list(read.avgMetrics) == pytest.approx(list(model.avgMetrics), abs=1e-12)
    assert (read.bestModel.rank, read.getEvaluator().getRelevanceThreshold()) == (model.bestModel.rank, 4.0)


@pytest.mark.night
@pytest.mark.classic_alone("tuned_als")
def test_random_folds_are_the_same_by_any_number_of_threads(ratings):
    estimator = als()
    maps = [{estimator.rank: rank} for rank in (1, 2)]
    validator = by_catalogue(estimator, maps, RankingEvaluator(), foldCol="", seed=3)
    means = [list(validator.setParallelism(threads).fit(ratings).avgMetrics) for threads in (1, 2)]
    assert means[0] == pytest.approx(means[1], abs=1e-12)
    assert all(0 < mean < 1 for mean in means[0])


@pytest.mark.night
@pytest.mark.classic_alone("ml")
def test_a_validator_is_saved_and_loaded(spark, tmp_path):
    estimator, path = als(), str(tmp_path / "validator")
    options = {"parallelism": 3, "collectSubModels": True, "seed": 5}
    maps = [{estimator.rank: 1}, {estimator.rank: 2}]
    validator = by_catalogue(estimator, maps, RankingEvaluator(**CATALOGUE_EVALUATOR), **options)
    validator.save(path)
    validator.write().overwrite().save(path)
    assert '"class":"spark_rankeval.ml.CatalogueCrossValidator"' in metadata_of(spark, path)
    loaded = CatalogueCrossValidator.load(path)
    assert type(loaded) is CatalogueCrossValidator
    assert loaded.uid == validator.uid
    for name in ("getNumFolds", "getFoldCol", "getParallelism", "getCollectSubModels", "getSeed"):
        assert getattr(loaded, name)() == getattr(validator, name)()
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
    (lambda: CatalogueCrossValidator(evaluator=RankingEvaluator()).fit(None), "estimator of .* is missing; pass it, or call setEstimator"),
    (lambda: by_catalogue(FixedFactors(userCol="who"), [{}], RankingEvaluator()).fit(None), "the same userCol; got 'who' and 'user'"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "words"), WRONG_VALIDATORS, ids=[words for _, words in WRONG_VALIDATORS])
def test_a_validator_that_cannot_rank_a_catalogue_is_refused_at_once(call, words):
    with pytest.raises(InputError, match=words):
        call()


@pytest.mark.classic_alone("ml")
@pytest.mark.usefixtures("spark")
def test_an_evaluator_of_another_kind_is_refused_at_once():
    with pytest.raises(InputError, match=r"got pyspark\.ml\.evaluation\.RegressionEvaluator"):
        CatalogueCrossValidator(evaluator=RegressionEvaluator())


WRONG_FOLDS = [
    (NoFactors, {}, 2, InputError, "must be a fitted ALSModel"),
    (
        FixedFactors,
        {"metricName": "rr", "relevanceThreshold": 1000},
        2,
        UndefinedMeanError,
        "of 12 users 0 have a value",
    ),
    (FixedFactors, {"labelCol": "stars"}, 2, InputError, "has no column 'stars'"),
    # Of pyspark.ml itself.
    (FixedFactors, {}, 1, Exception, r"Fold number must be in range \[0, 1\)"),
    (FixedFactors, {}, 3, ValueError, "The validation data at fold 2 is empty"),
]


@pytest.mark.filterwarnings("ignore:none of .* labels is relevant")
@pytest.mark.classic_alone("tuned_als")
@pytest.mark.night
@pytest.mark.parametrize(("estimator", "evaluator", "folds", "error", "words"), WRONG_FOLDS)
def test_what_goes_wrong_in_a_fold_is_an_error(ratings, estimator, evaluator, folds, error, words):
    validator = by_catalogue(estimator(), [{}], RankingEvaluator(**evaluator), numFolds=folds)
    with pytest.raises(error, match=words):
        validator.fit(ratings)
