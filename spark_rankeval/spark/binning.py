"""How many users have a value between which bounds: one aggregation on the executors, and nobody is collected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql import functions as F

from spark_rankeval.spark.ids import model_in
from spark_rankeval.spark.named_columns import column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The number of users by model and bin.
Counts: TypeAlias = dict[str, dict[int, int]]

# Values computed in floating point may lie a hair below the bound that they stand for: 0.15 / 0.05 is 2.9999999999999996.
_HAIR = 1e-9


@dataclass(frozen=True)
class Grid:
    """Bins of equal width; what lies beyond the outer ones is counted with them.

    Attributes:
        low: where the first bin begins.
        width: of a bin.
        n: how many.
    """

    low: float
    width: float
    n: int

    def edges(self, index: int) -> tuple[float, float]:
        """The bounds of a bin, the first being 0."""
        return self.low + index * self.width, self.low + (index + 1) * self.width


def binned(
    frame: DataFrame, name: str, grid: Grid, model: str | None = None, *, leave_out: float | None = None
) -> Counts:
    """Count the rows of each bin, in one action that returns a row a model and bin that is not empty.

    Args:
        frame: a row a user and model.
        name: the column of values; NaN and null are in no bin.
        grid: the bins.
        model: the column of models' names; None: all rows are of one without a name.
        leave_out: a value that is in no bin.
    """
    value = column(name)
    keep = value.isNotNull() & ~F.isnan(value)
    if leave_out is not None:
        keep &= value != F.lit(leave_out)
    owner = F.lit("") if model is None else model_in(frame, model)
    index = F.floor((value - F.lit(grid.low)) / F.lit(grid.width) + F.lit(_HAIR))
    place = F.greatest(F.least(index, F.lit(grid.n - 1)), F.lit(0)).cast("int")
    counts: Counts = {}
    found = frame.where(keep).select(owner.alias("model"), place.alias("bin")).groupBy("model", "bin")
    for mine, at, count in found.agg(F.count(F.lit(1))).collect():
        counts.setdefault(mine, {})[at] = count
    return counts


def coarsened(counts: Counts, grid: Grid, at_most: int) -> tuple[Counts, Grid]:
    """Neighbouring bins joined two by two, from the first on, until those that are not empty span so few.

    >>> coarsened({"als": {2: 5, 3: 1, 5: 2}}, Grid(0.0, 0.5, 8), at_most=2)
    ({'als': {1: 6, 2: 2}}, Grid(low=0.0, width=1.0, n=4))
    """
    taken = {index for mine in counts.values() for index in mine}
    while taken and max(taken) - min(taken) >= at_most:
        joined: Counts = {}
        for model, mine in counts.items():
            pairs = joined.setdefault(model, {})
            for index, count in mine.items():
                pairs[index // 2] = pairs.get(index // 2, 0) + count
        counts, grid = joined, Grid(grid.low, 2 * grid.width, -(-grid.n // 2))
        taken = {index for mine in counts.values() for index in mine}
    return counts, grid
