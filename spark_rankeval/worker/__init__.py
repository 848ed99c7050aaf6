"""What runs in Spark's Python workers: Arrow batches of grouped users in, metrics or their moments out; nothing of Spark."""
