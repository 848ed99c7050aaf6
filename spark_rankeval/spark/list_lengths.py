"""How long users' lists of predictions are, from a sample of rows that are cheap to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pyspark.errors import PySparkException

from spark_rankeval.spark.ids import hash_in
from spark_rankeval.spark.platforms import bytes_of_plain_scan, collected_columns
from spark_rankeval.spark.sql_text import bits_and, call, named, number, row_of_partition, rows_of_all, select, where

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from spark_rankeval.ranking.ragged import BoolArray, IntArray
    from spark_rankeval.spark.source import Source
    from spark_rankeval.spark.sql_text import Sql

# One list of so many is drawn with all rows, and one row of so many, whoever's it is. Both are powers of two.
_USUAL_SHARE, _LARGEST_SHARE = 1 << 8, 1 << 14
# Of larger tables less is drawn, because the driver counts the rows: the share is their bytes over this.
_BYTES = 1 << 22
# A task draws no more rows. Once one has drawn so many, nothing is said.
_MOST_OF_TASK = 1 << 18
# Keeping the best of each list pays if they are longer than about so many times what is kept.
_SHORT = 2.5
# Spark holds a list in memory while it grows, with some 100 bytes a prediction.
_LONGEST = 200_000
# Files of so many bytes hold no list that is too long for memory.
_SMALL = 1 << 20
_LIST, _IS_DRAWN, _PLACE = "list_", "is_drawn_", "place_"


class ListLengths(NamedTuple):
    """What a sample says of users' lists."""

    n_lists: int  # lists drawn; 0: the tables are small
    mean: float  # rows of a drawn list
    longest: int  # about the most rows of any list, if these are some thousands

    def are_short(self, keep: int) -> bool:
        """Whether grouping whole lists costs less than to keep the best `keep` of each, and fits into memory."""
        return self.mean <= _SHORT * keep and self.longest <= _LONGEST

    @property
    def words(self) -> str:
        """How long they are, for a person."""
        if not self.n_lists:
            return "the table is small"
        return f"lists are short ({self.mean:,.1f} predictions on average, in a sample of {self.n_lists:,})"


def sampled_lengths(models: Sequence[Source], model_column: str | None = None) -> ListLengths | None:
    """The lengths of users' lists, from one job that reads the users of the tables; None if that might be expensive.

    A table is cheap to read if its plan scans files or a cached table, and does nothing else. Any other would be computed twice. Of
    small tables no list is drawn: they fit into memory, whatever their lists are.
    """
    sources = list({id(source.frame): source for source in models}.values())
    sizes = [size for source in sources if (size := bytes_of_plain_scan(source.frame)) is not None]
    if len(sizes) < len(sources):
        return None
    if sum(sizes) <= _SMALL:
        return ListLengths(0, 0.0, 0)
    share = share_of(sum(sizes))
    rows = [_lists_of_rows(source, place, model_column) for place, source in enumerate(sources)]
    try:
        # The driver counts: to group so few rows in Spark would take two stages more.
        drawn = collected_columns(_drawn(rows_of_all(rows), share))
    except PySparkException:
        # Too much for the driver; or what cannot be read, which the evaluation says better.
        return None
    is_cut = drawn[_PLACE].max(initial=0) == _MOST_OF_TASK - 1
    return None if is_cut else lengths_of(drawn[_LIST], drawn[_IS_DRAWN], share)


def lengths_of(lists: IntArray, is_drawn: BoolArray, share: int) -> ListLengths | None:
    """What a sample says, which has the hash of each row's list, and whether the row is drawn itself; None if no list is drawn.

    One list of `share` is drawn, and one row of `share`.
    """
    whole = lists[lists & (share - 1) == 0]
    n_lists = len(np.unique(whole))
    most_drawn = int(np.unique(lists[is_drawn], return_counts=True)[1].max(initial=0))
    return ListLengths(n_lists, len(whole) / n_lists, most_drawn * share) if n_lists else None


def share_of(n_bytes: int) -> int:
    """Of how many lists of tables of so many bytes one is drawn."""
    return min(max(_USUAL_SHARE, 1 << (n_bytes // _BYTES).bit_length()), _LARGEST_SHARE)


def _lists_of_rows(source: Source, place: int, model_column: str | None) -> DataFrame:
    """The hash of the list that each row of a table is of."""
    keys = [*source.user, *([] if model_column is None else [model_column])]
    return select(source.frame, call("xxhash64", hash_in(source.frame, keys), number(place)).alias(_LIST))


def _drawn(rows: DataFrame, share: int) -> DataFrame:
    """The rows that are drawn, or whose list is: the hash of their list, whether they are drawn themselves, and their place in the task."""
    numbered = select(rows, named(_LIST), _is_one_of(share, call("monotonically_increasing_id")).alias(_IS_DRAWN))
    drawn = where(numbered, named(_IS_DRAWN) | _is_one_of(share, named(_LIST)))
    placed = select(drawn, named(_LIST), named(_IS_DRAWN), row_of_partition().alias(_PLACE))
    return where(placed, named(_PLACE) < _MOST_OF_TASK)


def _is_one_of(share: int, whole_number: Sql) -> Sql:
    return bits_and(whole_number, share - 1) == 0
