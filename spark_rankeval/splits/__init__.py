"""Split a log of events into training data and labels, by time, by last events or by a seeded hash; and the k-core.

A split is the same on every cluster. It depends neither on partitions, the order of rows and settings of the session, nor on chance.
"""

from spark_rankeval.splits.split import Split, SplitCounts
from spark_rankeval.splits.splitting import Core, by_hash, by_time, k_core, last_n

__all__ = ["Core", "Split", "SplitCounts", "by_hash", "by_time", "k_core", "last_n"]
