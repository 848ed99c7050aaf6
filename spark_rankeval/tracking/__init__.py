"""For MLflow: an evaluator of rankings that reads whole tables of Spark, and the dataset that takes a table to it."""

from spark_rankeval.tracking.mlflow import ranking_dataset

__all__ = ["ranking_dataset"]
