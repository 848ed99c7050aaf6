"""A log of events as training data and labels: by time, by each user's last events, or by a seeded hash; and the k-core of a log.

A split is the same on every cluster: no part of it depends on partitions, on the order of rows, on a setting of the session, or on chance.
"""

from spark_rankeval.splits.split import Split, SplitCounts
from spark_rankeval.splits.splitting import Core, by_hash, by_time, k_core, last_n

__all__ = ["Core", "Split", "SplitCounts", "by_hash", "by_time", "k_core", "last_n"]
