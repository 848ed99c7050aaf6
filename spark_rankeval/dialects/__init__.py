"""Named conventions: what a system's name for a metric means."""

from spark_rankeval.dialects.published import DEFAULT as DEFAULT
from spark_rankeval.dialects.published import EVERY_METRIC as EVERY_METRIC
from spark_rankeval.dialects.published import STANDARD as STANDARD
from spark_rankeval.dialects.published import Dialect as Dialect
from spark_rankeval.dialects.published import UnusualGrades as UnusualGrades
from spark_rankeval.dialects.published import every_dialect as every_dialect
from spark_rankeval.dialects.published import find_dialect as find_dialect
