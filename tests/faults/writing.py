"""A program for spark-submit: writes the per-user table of the data to a place, and says what it wrote."""

import sys

from faults.evaluations import stored
from pyspark.sql import SparkSession

folder, path, mode = sys.argv[1:]
sys.stdout.write(stored(SparkSession.builder.getOrCreate(), folder, path, mode))
