"""For pyspark.ml: an evaluator of rankings, and cross-validation that ranks the whole catalogue."""

from spark_rankeval.ml.evaluator import CatalogueCrossValidator, RankingEvaluator

__all__ = ["CatalogueCrossValidator", "RankingEvaluator"]
