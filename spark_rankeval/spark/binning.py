"""How many users have a value between which bounds: one aggregation on the executors, and nobody is collected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from spark_rankeval.spark.ids import model_in
from spark_rankeval.spark.named_columns import column
from spark_rankeval.spark.per_user import PerUserSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_rankeval.records.chart_rows import Counts, Grid

# Values computed in floating point may lie a hair below the bound that they stand for: 0.15 / 0.05 is 2.9999999999999996.
_HAIR = 1e-9


def binned(
    frame: DataFrame, name: str, grid: Grid, model: str | None = None, *, leave_out: float | None = None
) -> Counts:
    """Count the rows of each bin, in one action that returns a row a model and bin that is not empty.

    NaN, null and `leave_out` are in no bin. Without a column of models all rows are of one without a name.
    """
    value = column(name)
    keep = value.isNotNull() & ~F.isnan(value)
    if leave_out is not None:
        keep &= value != F.lit(leave_out)
    owner = F.lit("") if model is None else model_in(frame, model)
    index = F.floor((value - F.lit(grid.low)) / F.lit(grid.width) + F.lit(_HAIR))
    place = F.greatest(F.least(index, F.lit(grid.n - 1)), F.lit(0)).cast("int")
    counts: Counts = {}
    bins = frame.where(keep).select(owner.alias("model"), place.alias("bin")).groupBy("model", "bin")
    for name_of_model, index_of_bin, count in bins.agg(F.count(F.lit(1))).collect():
        counts.setdefault(name_of_model, {})[index_of_bin] = count
    return counts


def users_by_value(per_user: DataFrame, name: str, grid: Grid) -> Counts:
    """Count the users of a per-user table by their value in a metric's column."""
    return binned(per_user, name, grid, PerUserSchema.read(per_user).model)


def users_by_difference(differences: DataFrame, metric: str, grid: Grid) -> Counts:
    """Count the users of a table of `differences` by theirs in a metric; those without any difference are in no bin."""
    schema = PerUserSchema.read(differences)
    return binned(differences, schema.differences[metric], grid, schema.model, leave_out=0.0)
