"""Evaluate rankings and recommendations on Spark: every metric of every user in one pass.

The names are loaded when they are first used: executors import `spark_rankeval.metrics` without Spark's API or pandas.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_rankeval.compared_dialects import dialect_map as dialect_map
    from spark_rankeval.comparison import all_pairs as all_pairs
    from spark_rankeval.comparison import compare as compare
    from spark_rankeval.comparison import differences as differences
    from spark_rankeval.evaluation import evaluate as evaluate
    from spark_rankeval.evaluation import quarantine as quarantine
    from spark_rankeval.evaluation import score_users as score_users
    from spark_rankeval.list_agreement import agreement as agreement
    from spark_rankeval.merging import merge as merge
    from spark_rankeval.metrics.naming import parse_metric as parse_metric
    from spark_rankeval.progress_bars import progress as progress
    from spark_rankeval.result import Result as Result
    from spark_rankeval.run_history import history as history
    from spark_rankeval.sensitivity import detectable_difference as detectable_difference
    from spark_rankeval.spark.columns import metrics_column as metrics_column
    from spark_rankeval.summarising import summarise as summarise
    from spark_rankeval.summarising import write_per_user as write_per_user
    from spark_rankeval.travel import package_zip as package_zip

__version__ = "0.1.0"

_HOMES = {
    "agreement": "list_agreement",
    "all_pairs": "comparison",
    "compare": "comparison",
    "detectable_difference": "sensitivity",
    "dialect_map": "compared_dialects",
    "differences": "comparison",
    "evaluate": "evaluation",
    "quarantine": "evaluation",
    "score_users": "evaluation",
    "summarise": "summarising",
    "write_per_user": "summarising",
    "history": "run_history",
    "merge": "merging",
    "metrics_column": "spark.columns",
    "package_zip": "travel",
    "parse_metric": "metrics.naming",
    "progress": "progress_bars",
    "Result": "result",
}

__all__ = [
    "Result",
    "agreement",
    "all_pairs",
    "compare",
    "detectable_difference",
    "dialect_map",
    "differences",
    "evaluate",
    "history",
    "merge",
    "metrics_column",
    "package_zip",
    "parse_metric",
    "progress",
    "quarantine",
    "score_users",
    "summarise",
    "write_per_user",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
