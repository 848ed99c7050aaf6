"""What is measured: metrics over ranked lists, in numpy alone.

One module a family; a new metric is a class in one of them and its name in that module's ``__all__``.
"""

from spark_rankeval.metrics.abstention_based import *  # noqa: F403 - as below
from spark_rankeval.metrics.base import UNSET as UNSET
from spark_rankeval.metrics.base import Metric as Metric
from spark_rankeval.metrics.base import parameter as parameter
from spark_rankeval.metrics.correlation_based import *  # noqa: F403 - as below
from spark_rankeval.metrics.diversity_based import *  # noqa: F403 - as below
from spark_rankeval.metrics.exposure_based import *  # noqa: F403 - as below
from spark_rankeval.metrics.gain_based import *  # noqa: F403 - each family says in __all__ what it offers
from spark_rankeval.metrics.grade_scale import *  # noqa: F403 - as above
from spark_rankeval.metrics.graded_relevance import *  # noqa: F403 - as above
from spark_rankeval.metrics.group_exposure import *  # noqa: F403 - as above
from spark_rankeval.metrics.group_rates import *  # noqa: F403 - as above
from spark_rankeval.metrics.ideal_based import *  # noqa: F403 - as above
from spark_rankeval.metrics.intent_based import *  # noqa: F403 - as above
from spark_rankeval.metrics.kinds import RelevanceMetric as RelevanceMetric
from spark_rankeval.metrics.naming import parse_metric as parse_metric
from spark_rankeval.metrics.popularity_based import *  # noqa: F403 - as above
from spark_rankeval.metrics.rank_based import *  # noqa: F403 - as above
from spark_rankeval.metrics.set_based import *  # noqa: F403 - as above
from spark_rankeval.metrics.stage_based import *  # noqa: F403 - as above
from spark_rankeval.metrics.whole_list import *  # noqa: F403 - as above
from spark_rankeval.ranking.batch import RankingBatch as RankingBatch
