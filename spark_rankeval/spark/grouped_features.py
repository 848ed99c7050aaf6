"""What features add while the caller's tables become one row per user: hooks that the core calls, so that it names no feature."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from spark_rankeval.request.column_names import ColumnNames
from spark_rankeval.request.counts import Overlap
from spark_rankeval.request.options import Vectors
from spark_rankeval.request.task import Feature, ScoringTask
from spark_rankeval.spark.fingerprints import ROW_HASH, row_hash, total_of_hashes
from spark_rankeval.spark.source import SourceTable
from spark_rankeval.spark.sql_text import Sql, aggregate_lists, all_of, any_of, call, named, number, select

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql import types as T


#: The item of a row on the way to lists of a feature.
ITEM = "item"


@dataclass(frozen=True)
class Typed:
    """How users and items of all tables compare."""

    user_columns: list[str]  # our names of the user's columns
    named_users: Callable[[SourceTable], list[Sql]]  # a table's user columns under these names
    item_type: T.DataType  # the type that items of all tables get

    @property
    def users(self) -> list[Sql]:
        """The user's columns."""
        return [named(name) for name in self.user_columns]

    def item(self, item: Sql, name: str = ITEM) -> Sql:
        """An item of some table in the type that items of all tables get, under our name."""
        return item.cast(self.item_type).alias(name)

    def is_valid(self, *numbers: str) -> Sql:
        """Whether a row has a user, an item and these numbers, and none of them is NaN."""
        is_whole = ~any_of(named(name).is_null() for name in (*self.user_columns, ITEM, *numbers))
        are_nan = (call("coalesce", call("isnan", named(name)), number(False)) for name in numbers)
        return all_of([is_whole, *(~is_nan for is_nan in are_nan)])

    def lists(self, source: SourceTable, name: str, hashed: str = "") -> DataFrame:
        """Each user's items of a table of users and items, as a list of this name; a null matches nothing.

        A column `hashed` has the sum of the rows' hashes, if it has a name.
        """
        items = self.item(source.ids_sql(), name)
        rows = select(source.frame, *self.named_users(source), items, row_hash(source).alias(ROW_HASH))
        total = [total_of_hashes(named(ROW_HASH)).alias(hashed)] if hashed else []
        return aggregate_lists(rows, self.user_columns, call("collect_list", named(name)).alias(name), *total)


class GroupedFeature:
    """A feature on the way to one row per user. Hooks that it does not need do nothing."""

    #: Tables whose hashes it brings itself, as they are grouped anyway.
    hashed: tuple[str, ...] = ()

    @property
    def joins(self) -> bool:
        """Whether it joins something to predictions or labels, so that one grouping cannot make the lists of both."""
        return False

    def prediction_tables(self) -> list[DataFrame]:
        """Tables of one row per user, for the users with predictions."""
        return []

    def label_tables(self) -> list[DataFrame]:
        """Tables of one row per user, for the users with labels."""
        return []

    def with_broadcasts(self, users: DataFrame) -> DataFrame:
        """Grouped users with what every row, or the first row of each partition, brings to the workers."""
        return users


class MarkedUsers(NamedTuple):
    """Users whom a table marks. They are evaluated even if no other table has them."""

    column: str  # of a grouped row: how many rows mark the user, null if none does
    source: SourceTable  # the rows that mark their users
    whole: DataFrame  # the table that these are rows of
    is_marked: Sql  # whether a row of it marks its user


class SourceFeature:
    """The tables of a feature, their columns found."""

    #: Whether it has a meaning if predictions and labels are arrays in the rows of one table.
    takes_one_table = False

    def tables(self) -> list[SourceTable]:
        """Tables whose users and items are to compare with those of predictions."""
        return []

    def columns_of_items(self) -> Mapping[str, bool]:
        """The columns of the table of items that are read beside the item, and whether each has ids or texts."""
        return {}

    def for_workers(self) -> Iterable[Feature]:
        """What the task gets for these tables, whatever the metrics are."""
        return ()

    def marked_users(self) -> tuple[MarkedUsers, ...]:
        """Users whom its tables mark; several tables may mark users in the same column."""
        return ()

    def overlaps(self, task: ScoringTask) -> Iterable[Overlap]:
        """Ids that should occur in predictions, or among labels."""
        return ()

    def grouped(self, task: ScoringTask, typed: Typed) -> GroupedFeature:
        """The feature while rows are grouped."""
        return GroupedFeature()


class TablesOfCall:
    """The tables of a call beside predictions, labels, users, excluded items and attributes, as the caller gave them."""

    def frames(self) -> Mapping[str, DataFrame | None]:
        """The tables by their roles; None: it is not read."""
        return {}

    def read(
        self, predictions: Sequence[SourceTable], labels: SourceTable, names: ColumnNames, problems: list[str]
    ) -> tuple[tuple[SourceFeature, ...], SourceTable]:
        """The tables of all features with their columns, and the labels as they are read; what is wrong is added to the problems."""
        return (), labels

    def read_vectors(self, vectors: Vectors, names: ColumnNames, problems: list[str]) -> SourceTable:
        """The tables of a model that ranks by vectors, with their columns."""
        raise NotImplementedError
