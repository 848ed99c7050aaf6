"""What is measured: metrics over ranked lists, in numpy alone.

One module a family; a new metric is a class in one of them and its name in that module's ``__all__``.
"""

from spark_rankeval.metrics.base import UNSET as UNSET
from spark_rankeval.metrics.base import Metric as Metric
from spark_rankeval.metrics.base import RelevanceMetric as RelevanceMetric
from spark_rankeval.metrics.base import parameter as parameter
from spark_rankeval.metrics.beyond_accuracy import *  # noqa: F403 - each family says in __all__ what it offers
from spark_rankeval.metrics.gains import *  # noqa: F403 - each family says in __all__ what it offers
from spark_rankeval.metrics.intents import *  # noqa: F403 - each family says in __all__ what it offers
from spark_rankeval.metrics.item_groups import *  # noqa: F403 - each family says in __all__ what it offers
from spark_rankeval.metrics.naming import parse_metric as parse_metric
from spark_rankeval.metrics.relevance import *  # noqa: F403 - each family says in __all__ what it offers
from spark_rankeval.metrics.stages import *  # noqa: F403 - each family says in __all__ what it offers
from spark_rankeval.ranking.batch import RankingBatch as RankingBatch
