"""Evaluate rankings and recommendations on Spark: every metric of every user in one pass.

The names are loaded when they are first used: executors import `spark_rankeval.metrics` without Spark's API or pandas.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from spark_rankeval.version import __version__ as __version__

if TYPE_CHECKING:
    from spark_rankeval.charts.of_comparisons import ComparisonPlots as ComparisonPlots
    from spark_rankeval.charts.of_results import ResultPlots as ResultPlots
    from spark_rankeval.comparison.compare import all_pairs as all_pairs
    from spark_rankeval.comparison.compare import compare as compare
    from spark_rankeval.comparison.compare import differences as differences
    from spark_rankeval.comparison.detectable import detectable_difference as detectable_difference
    from spark_rankeval.comparison.result import ModelComparison as ModelComparison
    from spark_rankeval.comparison.result import PairwiseComparison as PairwiseComparison
    from spark_rankeval.evaluation.agreement import agreement as agreement
    from spark_rankeval.evaluation.dialect_map import DialectMap as DialectMap
    from spark_rankeval.evaluation.dialect_map import dialect_map as dialect_map
    from spark_rankeval.evaluation.evaluate import evaluate as evaluate
    from spark_rankeval.evaluation.evaluate import quarantine as quarantine
    from spark_rankeval.evaluation.evaluate import score_users as score_users
    from spark_rankeval.evaluation.merge import merge as merge
    from spark_rankeval.evaluation.result import Result as Result
    from spark_rankeval.evaluation.summarise import summarise as summarise
    from spark_rankeval.evaluation.summarise import write_per_user as write_per_user
    from spark_rankeval.metrics.naming import parse_metric as parse_metric
    from spark_rankeval.records.comparison import ComparisonRow as ComparisonRow
    from spark_rankeval.records.quality import DataQuality as DataQuality
    from spark_rankeval.records.summary import SummaryRow as SummaryRow
    from spark_rankeval.request.on_invalid import OnInvalid as OnInvalid
    from spark_rankeval.request.options import Cube as Cube
    from spark_rankeval.request.options import Facts as Facts
    from spark_rankeval.run_history.gates import check_gates as check_gates
    from spark_rankeval.run_history.gates import read_gates as read_gates
    from spark_rankeval.run_history.history import History as History
    from spark_rankeval.run_history.history import history as history
    from spark_rankeval.spark.metrics_column import metrics_column as metrics_column
    from spark_rankeval.spark.package_zip import package_zip as package_zip
    from spark_rankeval.spark.progress import progress as progress
    from spark_rankeval.statistics.methods import BCa as BCa
    from spark_rankeval.statistics.methods import Percentile as Percentile
    from spark_rankeval.statistics.methods import Student as Student
    from spark_rankeval.tables.models import ModelsTable as ModelsTable

# The module of each public name.
_HOMES = {
    "BCa": "statistics.methods",
    "ComparisonPlots": "charts.of_comparisons",
    "ComparisonRow": "records.comparison",
    "Cube": "request.options",
    "DataQuality": "records.quality",
    "DialectMap": "evaluation.dialect_map",
    "Facts": "request.options",
    "History": "run_history.history",
    "ModelComparison": "comparison.result",
    "ModelsTable": "tables.models",
    "OnInvalid": "request.on_invalid",
    "PairwiseComparison": "comparison.result",
    "Percentile": "statistics.methods",
    "Result": "evaluation.result",
    "ResultPlots": "charts.of_results",
    "Student": "statistics.methods",
    "SummaryRow": "records.summary",
    "agreement": "evaluation.agreement",
    "all_pairs": "comparison.compare",
    "check_gates": "run_history.gates",
    "compare": "comparison.compare",
    "detectable_difference": "comparison.detectable",
    "dialect_map": "evaluation.dialect_map",
    "differences": "comparison.compare",
    "evaluate": "evaluation.evaluate",
    "history": "run_history.history",
    "merge": "evaluation.merge",
    "metrics_column": "spark.metrics_column",
    "package_zip": "spark.package_zip",
    "parse_metric": "metrics.naming",
    "progress": "spark.progress",
    "quarantine": "evaluation.evaluate",
    "read_gates": "run_history.gates",
    "score_users": "evaluation.evaluate",
    "summarise": "evaluation.summarise",
    "write_per_user": "evaluation.summarise",
}

__all__ = list(_HOMES)  # the names are said once


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
