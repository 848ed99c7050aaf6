"""An evaluator for pyspark.ml, and a cross-validator that evaluates whole catalogues."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pyspark import keyword_only
from pyspark.ml import Estimator
from pyspark.ml.evaluation import Evaluator
from pyspark.ml.param import Param, Params
from pyspark.ml.param.shared import HasLabelCol, HasPredictionCol
from pyspark.ml.tuning import CrossValidator, CrossValidatorModel, _ValidatorSharedReadWrite
from pyspark.ml.util import DefaultParamsReadable, DefaultParamsReader, DefaultParamsWritable, MLReader

from spark_rankeval.checks import is_number, one_of
from spark_rankeval.dialects import Dialect, find_dialect
from spark_rankeval.errors import DataError, InputError, MetricError, OptionError, UndefinedMeanError
from spark_rankeval.evaluation.evaluate import prepare, result_of
from spark_rankeval.metrics import base, naming
from spark_rankeval.records.summary import SummaryRow
from spark_rankeval.request.call import ScoringOptions, SummaryOptions, Vectors
from spark_rankeval.spark.engine import read_by

if TYPE_CHECKING:
    from pyspark.ml import Model
    from pyspark.sql import DataFrame

    ParamMap = dict[Param[Any], Any]


_MISSING = "evaluate(dataset, None, …) takes null scores and labels as items that were not retrieved or not judged"
# What to do about rows, by the reasons for which they cannot be used.
_ADVICE = {
    "NaN score": (
        "ALS predicts NaN for users and items that its training data lacks: ALS(coldStartStrategy='drop') leaves these rows out, and "
        "RankingEvaluator(onInvalid='drop') keeps their ratings as labels without a prediction"
    ),
    "null score": _MISSING,
    "null relevance": _MISSING,
}


def _name(value: object) -> str:
    if not isinstance(value, str) or not value:
        msg = f"a column name must be a non-empty string; got {value!r}"
        raise InputError(msg)
    return value


def _metric(value: object) -> str:
    metrics = naming.parse_metrics(value)  # type: ignore[arg-type] # it refuses what is none
    if len(metrics) != 1:
        msg = f"metricName must be one metric, the one to choose models by; got {value!r}, which is {len(metrics)}"
        raise MetricError(msg)
    return str(next(iter(metrics.values())))


def _dialect(value: object) -> str:
    return find_dialect(value.name if isinstance(value, Dialect) else value).name  # type: ignore[arg-type] # the same


def _threshold(value: object) -> float | None:
    if value is None:
        return None
    if not is_number(value) or math.isnan(value):  # type: ignore[arg-type] # a number
        msg = f"relevanceThreshold must be a number or None; got {value!r}"
        raise OptionError(msg)
    return float(value)  # type: ignore[arg-type] # the same


def _ties(value: object) -> str | None:
    one_of("ties", value, (None, "item_asc", "item_desc", "average"))
    return value  # type: ignore[return-value] # one of these


def _on_invalid(value: object) -> str:
    one_of("onInvalid", value, ("error", "drop"))
    return str(value)


class RankingEvaluator(
    Evaluator, HasLabelCol, HasPredictionCol, DefaultParamsReadable["RankingEvaluator"], DefaultParamsWritable
):
    """The mean of one metric over users, of rows of user, item, rating and prediction as ``ALS.transform`` gives them.

    The prediction of a row is a score to rank its item by, the rating is the grade of its label. Only a user's rows of this table
    are ranked: the held-out ratings, not the catalogue. Each row has an item, a prediction and a rating, and nulls are bad data.
    `CatalogueCrossValidator` ranks all items by this evaluator's metric.

    The columns are ``userCol`` ("user"), ``itemCol`` ("item"), ``labelCol`` ("rating") and ``predictionCol`` ("prediction"), with
    the defaults of `ALS`. The others are:

    - ``metricName``: one metric, as `evaluate` takes it, such as ``"ndcg@10"`` or ``"ap(denominator='labels')@10"``.
    - ``dialect``: as in `evaluate`; it says what a metric means, not which of two values is better.
    - ``relevanceThreshold``: an item is relevant from this rating on; None: above 0, or as the dialect says.
    - ``ties``: how equal predictions are ordered: ``item_asc``, ``item_desc``, ``average``; None: as the dialect says.
    - ``onInvalid``: ``error``, or ``drop`` to leave out unusable predictions and ratings. The rating of a row without a usable
      prediction stays a label that the list lacks.

    Examples:
        >>> held_out = spark.createDataFrame([(1, 7, 5.0, 0.2), (1, 8, 1.0, 0.9)], "user int, item int, rating float, prediction float")
        >>> RankingEvaluator(metricName="rr", relevanceThreshold=4.0).evaluate(held_out)
        0.5

    Raises:
        MetricError, DialectError, OptionError, InputError: a Param has a value that is not allowed, or a column is wrong.
        DataError: rows cannot be ranked.
        UndefinedMeanError: there is no row, or the metric is defined for no user.
    """

    # The metadata of a saved evaluator name this module, by which it is read again.
    __module__ = "spark_rankeval.ml"
    _input_kwargs: dict[str, Any]

    userCol: Param[str] = Param(Params._dummy(), "userCol", "the column of users", _name)
    itemCol: Param[str] = Param(Params._dummy(), "itemCol", "the column of items", _name)
    metricName: Param[str] = Param(Params._dummy(), "metricName", "a metric, such as ndcg@10", _metric)
    dialect: Param[str] = Param(Params._dummy(), "dialect", "whose conventions hold", _dialect)
    relevanceThreshold: Param[float | None] = Param(
        Params._dummy(), "relevanceThreshold", "an item is relevant from this rating on", _threshold
    )
    ties: Param[str | None] = Param(Params._dummy(), "ties", "how equal predictions are ordered", _ties)
    onInvalid: Param[str] = Param(
        Params._dummy(), "onInvalid", "what becomes of rows that cannot be ranked: error or drop", _on_invalid
    )

    @keyword_only
    def __init__(
        self,
        *,
        userCol: str = "user",
        itemCol: str = "item",
        labelCol: str = "rating",
        predictionCol: str = "prediction",
        metricName: str | base.Metric = "ndcg@10",
        dialect: str | Dialect = "default",
        relevanceThreshold: float | None = None,
        ties: str | None = None,
        onInvalid: str = "error",
    ) -> None:
        super().__init__()
        self._setDefault(
            userCol="user", itemCol="item", labelCol="rating", predictionCol="prediction", metricName="ndcg@10",
            dialect="default", relevanceThreshold=None, ties=None, onInvalid="error",
        )  # fmt: skip
        self.setParams(**self._input_kwargs)

    def setParams(self, **params: Any) -> RankingEvaluator:
        """Set those Params that are given, by name; see the class. A metric that the dialect lacks is refused before a model is fitted."""
        if "itemCol" in params and params["itemCol"] is None:
            msg = "itemCol must be a column name; for rows that name no item call evaluate(dataset, None, …, item=None)"
            raise InputError(msg)
        # Spark does not check None, nor these two at all.
        for name in ("userCol", "labelCol", "predictionCol"):
            if name in params:
                _name(params[name])
        dialect, metric = params.get("dialect", self.getDialect()), params.get("metricName", self.getMetricName())
        find_dialect(_dialect(dialect)).defaults_for(type(naming.parse_metric(_metric(metric))))
        return self._set(**params)

    def _evaluate(self, dataset: DataFrame) -> float:
        try:
            return mean_by(self, dataset, dataset, score=self.getPredictionCol())
        except DataError as error:
            advice = [words for reason, words in _ADVICE.items() if reason in str(error)]
            if isinstance(error, UndefinedMeanError) or not advice:
                raise
            msg = ". ".join([str(error), *dict.fromkeys(advice)])
            raise DataError(msg, error.counts) from error

    def isLargerBetter(self) -> bool:
        """Whether a larger value of the metric is better, which is a property of the metric in every dialect."""
        return naming.parse_metric(self.getMetricName()).larger_is_better

    def getUserCol(self) -> str:
        """The column of users."""
        return self.getOrDefault(self.userCol)

    def setUserCol(self, value: str) -> RankingEvaluator:
        """Set the column of users."""
        return self.setParams(userCol=value)

    def getItemCol(self) -> str:
        """The column of items."""
        return self.getOrDefault(self.itemCol)

    def setItemCol(self, value: str) -> RankingEvaluator:
        """Set the column of items."""
        return self.setParams(itemCol=value)

    def setLabelCol(self, value: str) -> RankingEvaluator:
        """Set the column of ratings."""
        return self.setParams(labelCol=value)

    def setPredictionCol(self, value: str) -> RankingEvaluator:
        """Set the column of predictions."""
        return self.setParams(predictionCol=value)

    def getMetricName(self) -> str:
        """The metric."""
        return self.getOrDefault(self.metricName)

    def setMetricName(self, value: str | base.Metric) -> RankingEvaluator:
        """Set the metric."""
        return self.setParams(metricName=value)

    def getDialect(self) -> str:
        """Whose conventions hold."""
        return self.getOrDefault(self.dialect)

    def setDialect(self, value: str | Dialect) -> RankingEvaluator:
        """Set whose conventions hold."""
        return self.setParams(dialect=value)

    def getRelevanceThreshold(self) -> float | None:
        """From which rating on an item is relevant; None: above 0, or as the dialect says."""
        return self.getOrDefault(self.relevanceThreshold)

    def setRelevanceThreshold(self, value: float | None) -> RankingEvaluator:
        """Set from which rating on an item is relevant."""
        return self.setParams(relevanceThreshold=value)

    def getTies(self) -> str | None:
        """How equal predictions are ordered; None: as the dialect says."""
        return self.getOrDefault(self.ties)

    def setTies(self, value: str | None) -> RankingEvaluator:
        """Set how equal predictions are ordered."""
        return self.setParams(ties=value)

    def getOnInvalid(self) -> str:
        """What becomes of rows that cannot be ranked."""
        return self.getOrDefault(self.onInvalid)

    def setOnInvalid(self, value: str) -> RankingEvaluator:
        """Set what becomes of rows that cannot be ranked."""
        return self.setParams(onInvalid=value)


def mean_by(
    evaluator: RankingEvaluator,
    predictions: DataFrame | Vectors,
    labels: DataFrame,
    *,
    score: str | None = None,
    exclude: DataFrame | None = None,
) -> float:
    """The mean of an evaluator's metric, for predictions and labels of any kind that `evaluate` takes.

    Raises:
        UndefinedMeanError: the mean is NaN, which would be chosen as the best.
    """
    options = ScoringOptions(
        user=evaluator.getUserCol(),
        item=evaluator.getItemCol(),
        score=score,
        relevance=evaluator.getLabelCol(),
        relevance_threshold=evaluator.getRelevanceThreshold(),
        dialect=evaluator.getDialect(),
        # Params are checked when they are set.
        ties=evaluator.getTies(),  # type: ignore[arg-type]
        on_invalid=evaluator.getOnInvalid(),  # type: ignore[arg-type]
        exclude=exclude,
    )
    # Spark's cross-validation draws its folds by rand(), and nothing but the mean is computed of them.
    scoring = prepare(predictions, labels, evaluator.getMetricName(), options)
    result = result_of(scoring, SummaryOptions(ci=None, quantiles=()))
    (row,) = result.summary
    if math.isnan(row.mean):
        counts = {name: count for name, count in result.data_quality.to_dict().items() if count is not None}
        raise UndefinedMeanError(_why_undefined(row, counts), counts)
    return row.mean


def _why_undefined(row: SummaryRow, counts: dict[str, int]) -> str:
    if not counts["n_predictions"] and not counts["n_labels"]:
        return (
            f"{row.metric!r} has no value, because the table to evaluate has no rows. If ALS(coldStartStrategy='drop') removed "
            "them, split so that each user has ratings in both parts, for example by foldCol"
        )
    return (
        f"{row.metric!r} (dialect {row.dialect!r}) has no mean: of {counts['n_users']:,} users {row.n_users:,} have a value, "
        f"and {counts['n_without_relevant']:,} have no relevant item. Lower relevanceThreshold, take more rows of each user, or "
        "count such users as 0 with (undefined='zero')"
    )


class CatalogueCrossValidator(CrossValidator):
    """pyspark.ml's `CrossValidator`, which here ranks the whole catalogue for each user instead of the held-out rows alone.

    For each fold and each of the ``estimatorParamMaps`` it fits a model on the fold's training rows. The model's factors rank all
    items that the user has no training row of, and the held-out rows are the labels. The best mean over the folds chooses the
    Params, by which ``fit`` then fits a model on all rows. It returns pyspark's `CrossValidatorModel`.

    Params, setters, folds and threads are those of `CrossValidator`. These differ:

    - ``estimator``: an `ALS`, or another estimator whose models have ``userFactors`` and ``itemFactors``. Models predict nothing, so
      that ``coldStartStrategy`` has no effect: a held-out item without factors is a label that no list can hold.
    - ``evaluator``: a `RankingEvaluator` with the same ``userCol`` and ``itemCol``. All its Params count except ``predictionCol``.

    Examples:
        >>> from pyspark.ml.recommendation import ALS
        >>> rows = [(user, item, 1.0, (user + item) % 2) for user in range(4) for item in range(4) if user != item]
        >>> ratings = spark.createDataFrame(rows, "user int, item int, rating float, fold int")
        >>> als = ALS(rank=2, maxIter=1, seed=1, numUserBlocks=1, numItemBlocks=1)
        >>> validator = CatalogueCrossValidator(
        ...     estimator=als, estimatorParamMaps=[{als.regParam: 0.1}], evaluator=RankingEvaluator(metricName="recall@2"),
        ...     numFolds=2, foldCol="fold")
        >>> float(validator.fit(ratings).avgMetrics[0])
        0.8125

    Raises:
        InputError: the estimator or the evaluator is of another kind, or is missing, or their columns differ.
        DataError: rows cannot be ranked.
        UndefinedMeanError: the metric is defined for no user of a fold.
    """

    # The metadata of a saved validator name this module, by which it is read again.
    __module__ = "spark_rankeval.ml"

    def _set(self, **kwargs: Any) -> CatalogueCrossValidator:
        """Set Params, and refuse what cannot be evaluated before anything is fitted or saved."""
        if kwargs.get("estimator") is not None:
            _check_estimator(kwargs["estimator"])
        if kwargs.get("evaluator") is not None:
            _check_evaluator(kwargs["evaluator"])
        return super()._set(**kwargs)

    def _fit(self, dataset: DataFrame) -> CrossValidatorModel:
        estimator, evaluator = self._checked()
        # pyspark's own validator has the folds, threads and tables in memory, of each version and platform as they are there.
        validator = self._copyValues(CrossValidator())
        validator.setEstimator(_FoldEstimator(estimator)).setEvaluator(_CatalogueEvaluator(evaluator))
        fitted = validator.fit(dataset)
        models = fitted.subModels
        if models is not None:
            models = [[cast("_FoldModel", each).model for each in fold_models] for fold_models in models]
        return self._copyValues(CrossValidatorModel(fitted.bestModel, fitted.avgMetrics, models, fitted.stdMetrics))

    def _checked(self) -> tuple[Estimator[Any], RankingEvaluator]:
        """The estimator and the evaluator. Params of one call come past `_set`, so that both are checked again."""
        for param in (self.estimator, self.estimatorParamMaps, self.evaluator):
            # pyspark stores None for what a constructor was not given.
            if not self.isDefined(param) or self.getOrDefault(param) is None:
                msg = f"{param.name} of CatalogueCrossValidator is missing; pass it, or call set{param.name[0].upper()}{param.name[1:]}"
                raise InputError(msg)
        estimator, evaluator = self.getEstimator(), self.getEvaluator()
        _check_estimator(estimator)
        ranking_evaluator = _check_evaluator(evaluator)
        for name in ("userCol", "itemCol"):
            estimator_column, evaluator_column = (each.getOrDefault(name) for each in (estimator, ranking_evaluator))
            if estimator_column != evaluator_column:
                msg = f"estimator and evaluator must have the same {name}; got {estimator_column!r} and {evaluator_column!r}"
                raise InputError(msg)
        return estimator, ranking_evaluator

    @classmethod
    def read(cls) -> CatalogueCrossValidatorReader:  # type: ignore[override] # pyspark's reader makes a CrossValidator of everything
        """A reader of saved validators."""
        return CatalogueCrossValidatorReader(cls)


def _check_estimator(estimator: object) -> None:
    if not all(hasattr(estimator, name) for name in ("fitMultiple", "userCol", "itemCol")):
        msg = (
            "estimator must be an ALS, or another estimator whose models have factors of users and items; got "
            f"{type(estimator).__name__}. Run the other stages of a Pipeline before"
        )
        raise InputError(msg)


def _check_evaluator(evaluator: object) -> RankingEvaluator:
    if not isinstance(evaluator, RankingEvaluator):
        kind = f"{type(evaluator).__module__}.{type(evaluator).__name__}"
        msg = f"evaluator must be a spark_rankeval.ml.RankingEvaluator; got {kind}"
        raise InputError(msg)
    return evaluator


@dataclass(frozen=True)
class _FoldModel:
    """A model with the rows that it was fitted on, in the place of the model that pyspark's validator would transform rows by."""

    model: Model
    training: DataFrame

    def transform(self, held_out: DataFrame, _params: ParamMap | None = None) -> tuple[Vectors, DataFrame, DataFrame]:
        """What ranks the catalogue, the labels, and what is left out of the lists."""
        return Vectors.of(self.model), held_out, self.training


class _FoldEstimator(Estimator[Any]):
    """An estimator whose models know what they were fitted on."""

    def __init__(self, estimator: Estimator[Any]) -> None:
        super().__init__()
        self._estimator = estimator

    def fitMultiple(self, dataset: DataFrame, paramMaps: Sequence[ParamMap]) -> Iterator[tuple[int, Any]]:
        def with_training(fitted: tuple[int, Model]) -> tuple[int, _FoldModel]:
            index, model = fitted
            return index, _FoldModel(model, dataset)

        # Several threads take from it at the same time, which a map allows and a generator does not.
        return map(with_training, self._estimator.fitMultiple(dataset, paramMaps))

    def fit(self, dataset: DataFrame, params: Any = None) -> Any:
        return self._estimator.fit(dataset, params)

    def _fit(self, dataset: DataFrame) -> Any:
        return self._estimator.fit(dataset)


class _CatalogueEvaluator(Evaluator):
    """An evaluator of a fold's catalogue, by the metric and all Params of a `RankingEvaluator`."""

    def __init__(self, evaluator: RankingEvaluator) -> None:
        super().__init__()
        self._evaluator = evaluator

    def _evaluate(self, dataset: Any) -> float:
        vectors, held_out, training = dataset
        return mean_by(self._evaluator, vectors, held_out, exclude=training)

    def isLargerBetter(self) -> bool:
        return self._evaluator.isLargerBetter()


class CatalogueCrossValidatorReader(MLReader[CatalogueCrossValidator]):
    """Reads what `CatalogueCrossValidator.save` wrote, which is what pyspark's `CrossValidator` writes but for the class."""

    def __init__(self, kind: type[CatalogueCrossValidator]) -> None:
        super().__init__()
        self._kind = kind

    def load(self, path: str) -> CatalogueCrossValidator:
        """Read a validator from a path."""
        spark = read_by(self)
        metadata = DefaultParamsReader.loadMetadata(path, spark)
        # By a class of pyspark.ml it recognises what Python wrote.
        _, estimator, evaluator, param_maps = _ValidatorSharedReadWrite.load(
            path, spark, {**metadata, "class": "pyspark.ml.tuning.CrossValidator"}
        )
        validator = self._kind(estimator=estimator, estimatorParamMaps=param_maps, evaluator=evaluator)
        validator._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(validator, metadata, skipParams=["estimatorParamMaps"])
        return validator
