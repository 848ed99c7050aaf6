"""What is measured: metrics over ranked lists, in numpy alone.

One module a family; a new metric is a class in one of them.
"""

from spark_rankeval.metrics.base import REGISTRY
from spark_rankeval.metrics.base import UNSET as UNSET
from spark_rankeval.metrics.base import Metric as Metric
from spark_rankeval.metrics.base import RelevanceMetric as RelevanceMetric
from spark_rankeval.metrics.base import parameter as parameter
from spark_rankeval.metrics.beyond_accuracy import *  # noqa: F403 - its metrics
from spark_rankeval.metrics.gains import *  # noqa: F403 - its metrics
from spark_rankeval.metrics.intents import *  # noqa: F403 - its metrics
from spark_rankeval.metrics.item_groups import *  # noqa: F403 - its metrics
from spark_rankeval.metrics.naming import parse_metric as parse_metric
from spark_rankeval.metrics.relevance import *  # noqa: F403 - its metrics
from spark_rankeval.metrics.stages import *  # noqa: F403 - its metrics
from spark_rankeval.ranking.batch import RankingBatch as RankingBatch


def __dir__() -> list[str]:
    """The metrics, and what own metrics are made of; not what the modules of families import."""
    metrics = {metric.__name__ for metric in REGISTRY.values() if metric.__module__.startswith(__name__)}
    return sorted(metrics | {"UNSET", "Metric", "RankingBatch", "RelevanceMetric", "parameter", "parse_metric"})


__all__ = __dir__()  # noqa: PLE0605 # the registry has each name once
