"""Split a log of events into training data and labels, by time or by last events.

A split is the same on every cluster. It depends neither on partitions, the order of rows and settings of the session, nor on chance.
"""

from spark_rankeval.splits.splitting import Split, SplitCounts, by_time, last_n

__all__ = ["Split", "SplitCounts", "by_time", "last_n"]
