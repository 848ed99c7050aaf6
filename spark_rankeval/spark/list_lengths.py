"""How long users' lists of predictions are, from a sample of rows that are cheap to read."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from spark_rankeval.spark.ids import hash_in
from spark_rankeval.spark.platforms import bytes_of_plain_scan
from spark_rankeval.spark.sql_text import aggregate, bits_and, call, named, number, select, when, where

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from spark_rankeval.spark.source import Source
    from spark_rankeval.spark.sql_text import Sql

# Of so many users one is drawn with all rows, and of so many rows one, whoever's it is.
_SHARE = 256
# Keeping the best of each list pays if they are longer than about so many times what is kept.
_SHORT = 2.5
# Spark holds a list in memory while it grows, with some 100 bytes a prediction.
_LONGEST = 200_000
# Files of so many bytes hold no list that is too long for memory.
_SMALL = 1 << 20
_LIST, _IS_DRAWN, _DRAWN, _ROWS = "list_", "is_drawn_", "drawn_", "rows_"


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
    sizes = [bytes_of_plain_scan(source.frame) for source in sources]
    if None in sizes:
        return None
    if sum(filter(None, sizes)) <= _SMALL:
        return ListLengths(0, 0.0, 0)
    tables = [_drawn(source, place, model_column) for place, source in enumerate(sources)]
    rows = reduce(lambda left, right: left.unionByName(right), tables)
    drawn = call("sum", when(named(_IS_DRAWN), 1, 0)).alias(_DRAWN)
    # One grouping of all tables: one of each would be a stage of each.
    lists = aggregate(rows, [_LIST], drawn, call("count", 1).alias(_ROWS))
    is_whole = _is_drawn(named(_LIST))
    sample = aggregate(
        lists,
        [],
        call("sum", when(is_whole, 1, 0)).alias("n_lists"),
        call("sum", when(is_whole, named(_ROWS), 0)).alias("n_rows"),
        call("max", named(_DRAWN)).alias("most_drawn"),
    ).first()
    assert sample is not None, "an aggregate without keys has a row"
    n_lists, n_rows, most_drawn = (int(count or 0) for count in sample)
    return ListLengths(n_lists, n_rows / n_lists, most_drawn * _SHARE) if n_lists else None


def _drawn(source: Source, place: int, model_column: str | None) -> DataFrame:
    """The rows that are drawn, or whose list is drawn whole: the hash of their list, and whether they are drawn themselves."""
    keys = [*source.user, *([] if model_column is None else [model_column])]
    hashed = call("xxhash64", hash_in(source.frame, keys), number(place)).alias(_LIST)
    rows = select(source.frame, hashed, _is_drawn(call("monotonically_increasing_id")).alias(_IS_DRAWN))
    return where(rows, named(_IS_DRAWN) | _is_drawn(named(_LIST)))


def _is_drawn(number_of_a_row_or_hash: Sql) -> Sql:
    return bits_and(number_of_a_row_or_hash, _SHARE - 1) == 0
