"""What runs in Spark's Python workers: Arrow batches of grouped users in, metrics or their moments out.

Executors import this and what is below it: numpy, pyarrow and the metrics, nothing of Spark.
"""
