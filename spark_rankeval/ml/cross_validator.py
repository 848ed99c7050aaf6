"""Cross-validation that ranks the whole catalogue by a model's factors, without what a fold trained on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pyspark.ml import Estimator
from pyspark.ml.evaluation import Evaluator
from pyspark.ml.tuning import CrossValidator, CrossValidatorModel, _ValidatorSharedReadWrite
from pyspark.ml.util import DefaultParamsReader, MLReader

from spark_rankeval.errors import InputError
from spark_rankeval.ml.evaluator import RankingEvaluator, mean_by
from spark_rankeval.request.options import Vectors
from spark_rankeval.spark.platforms import read_by

if TYPE_CHECKING:
    from pyspark.ml import Model
    from pyspark.ml.param import Param
    from pyspark.sql import DataFrame

    ParamMap = dict[Param[Any], Any]


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
        fitted = CrossValidator(
            estimator=_FoldEstimator(estimator),
            estimatorParamMaps=self.getEstimatorParamMaps(),
            evaluator=_CatalogueEvaluator(evaluator),
            numFolds=self.getNumFolds(),
            seed=self.getSeed(),
            parallelism=self.getParallelism(),
            collectSubModels=self.getCollectSubModels(),
            foldCol=self.getFoldCol(),
        ).fit(dataset)
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
class _Catalogue:
    """What ranks the catalogue for the users of held-out rows, and what is left out of it."""

    vectors: Vectors
    training: DataFrame
    held_out: DataFrame


@dataclass(frozen=True)
class _FoldModel:
    """A model with the rows that it was fitted on, in the place of the model that pyspark's validator would transform rows by."""

    model: Model
    training: DataFrame

    def transform(self, held_out: DataFrame, _params: ParamMap | None = None) -> _Catalogue:
        return _Catalogue(Vectors.of(self.model), self.training, held_out)


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
        catalogue: _Catalogue = dataset
        return mean_by(self._evaluator, catalogue.vectors, catalogue.held_out, exclude=catalogue.training)

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
