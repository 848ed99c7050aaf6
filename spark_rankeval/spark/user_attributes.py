"""The attributes of users on the way to the worker: those that part users, the weight, and those of clusters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from spark_rankeval.spark.fingerprints import hash_of
from spark_rankeval.spark.ids import is_readable, readable, text_in_sql, user_hash
from spark_rankeval.spark.inputs import Sources
from spark_rankeval.spark.source import SourceTable
from spark_rankeval.spark.sql_text import Sql, any_of, call, named, when
from spark_rankeval.worker import grouped_row
from spark_rankeval.worker.grouped_row import cluster_column, slice_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TypedSql = tuple[Sql, T.DataType]


def agreed(names: Sequence[str], conflicts: str) -> list[Sql]:
    """Aggregates of a user's rows: each attribute, null if the rows do not agree, and in how many they do not."""
    if not names:
        return []
    least, greatest = ({name: call(end, named(name)) for name in names} for end in ("min", "max"))
    agree = {name: least[name] == greatest[name] for name in names}
    n_conflicts = reduce(add, [when(~agrees, 1, 0) for agrees in agree.values()])
    attributes = [when(agrees, least[name]).alias(name) for name, agrees in agree.items()]
    return [*attributes, n_conflicts.cast("bigint").alias(conflicts)]


def _weight(value: Sql) -> Sql:
    """A weight; -1 for NaN and infinity, which are as wrong, and which Sail's min and max of a group do not give."""
    return when(~(call("abs", value) < math.inf), -1.0, value)


@dataclass(frozen=True)
class UserAttributes:
    """What users have beside predictions and labels."""

    sources: Sources

    @property
    def columns(self) -> dict[str, str]:
        """The columns of the users' attributes by their names on the way: those of slices, the weight, those of clusters alone."""
        sources = self.sources
        columns = {slice_column(index): name for index, name in enumerate(sources.slices)}
        if sources.weight is not None:
            columns[grouped_row.USER_WEIGHT] = sources.weight
        return columns | {cluster_column(index): name for index, name in enumerate(sources.attributes_of_clusters)}

    def of(self, source: SourceTable, as_text: Callable[[DataFrame, str], Sql] = text_in_sql) -> list[Sql]:
        """The attributes in a table under their names on the way: those that part users, as text, and the weight, as a number."""
        return [value.alias(name) for value, name in zip(self.values(source, as_text), self.columns, strict=True)]

    def values(self, source: SourceTable, as_text: Callable[[DataFrame, str], Sql]) -> list[Sql]:
        """The same without names."""
        return [
            _weight(named(column).cast("double")) if name == grouped_row.USER_WEIGHT else as_text(source.frame, column)
            for name, column in self.columns.items()
        ]

    def hashed(self, values: list[Sql]) -> list[Sql]:
        """The hash of the attributes that a user's rows agree on, if there are any."""
        return [hash_of(values).alias(grouped_row.hash_column("attributes"))] if values else []

    def readable(self, name: str) -> Sql:
        """A column of grouped users; that of a text becomes readable, which costs less once a user than once a row."""
        if name not in self.columns or name == grouped_row.USER_WEIGHT:
            return named(name)
        return self._readable_text(name).alias(name)

    def text_on_the_way(self, attribute: str) -> Sql:
        """An attribute of text of grouped users, by the caller's name, in readable form."""
        columns = self.columns.items()
        name = next(name for name, column in columns if column == attribute and name != grouped_row.USER_WEIGHT)
        return self._readable_text(name)

    def _readable_text(self, name: str) -> Sql:
        source = self.sources.attributes
        known = source is not None and is_readable(source.frame, self.columns[name])
        return readable(named(name), known=known)

    def cluster_hash(self, ids: Mapping[str, TypedSql], attribute: Callable[[str], Sql]) -> list[Sql]:
        """The hash of each user's cluster, null if one of its columns is; none if users are independent.

        `ids` has the user's columns by name, and `attribute` gives any other as text.
        """
        if not self.sources.clusters:
            return []
        text = T.StringType()
        columns = [ids[name] if name in ids else (attribute(name), text) for name in self.sources.clusters]
        values, types = zip(*columns, strict=True)
        is_known = ~any_of(value.is_null() for value in values)
        return [when(is_known, user_hash(values, types)).alias(grouped_row.CLUSTER_HASH)]
