"""Tables that put items into groups, by columns of the table of items and by popularity in the training data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pyspark.sql import types as T

from spark_rankeval.checks import check_table
from spark_rankeval.errors import InputError
from spark_rankeval.request.call import DEFAULT_ITEM, POPULARITY, ColumnNames, Facts, ItemGroups
from spark_rankeval.spark import source_tables
from spark_rankeval.spark.facts import GroupedTables, SideSources, packed_groups
from spark_rankeval.spark.sql import common_id_type, find_column, problem_of_type
from spark_rankeval.spark.tasks import broadcast_tables
from spark_rankeval.worker.item_facts import POPULARITY_TABLE
from spark_rankeval.worker.item_groups import table_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class GroupSources:
    """The tables that put items into groups, their columns found and their types checked."""

    groups: ItemGroups  # the columns are named as the table names them
    items: source_tables.SourceTable | None  # the table of items; None if no column of it is asked for
    training: source_tables.SourceTable | None  # the training data; None without groups by popularity

    def tables(self) -> list[source_tables.SourceTable]:
        """Those that there are."""
        return [source for source in (self.items, self.training) if source is not None]

    def broadcast(self, users: DataFrame, item_type: T.DataType) -> DataFrame:
        """The users, the first of each task with the packed tables that put items into groups."""
        tables, columns, training = {}, self.groups.columns, self.training
        if self.items is not None:
            for number, name in enumerate(columns):
                tables[table_of(number)] = packed_groups(self.items, name, item_type)
        # Metrics may have brought the table of popularity already.
        if training is not None and POPULARITY_TABLE not in users.columns:
            names = [source_tables.user_column(index) for index in range(len(training.user))]
            typed = source_tables.Typed(names, source_tables.SourceTable.named_users_sql, item_type)
            counted = GroupedTables(SideSources(training=training), frozenset(), typed)
            tables[table_of(len(columns))] = counted.packed_popularity()
        return broadcast_tables(users, tables)


def read_groups(
    facts: Facts, predictions: source_tables.SourceTable, names: ColumnNames, problems: list[str]
) -> GroupSources | None:
    """Find and check the columns that put items into groups, before any job; None if there are no groups."""
    groups = facts.item_groups
    if groups is None or problems:
        return None
    _check_tables(facts, groups)
    items = _read("items", facts.items, names, problems, predictions) if groups.columns else None
    training = _read("training", facts.training, names, problems, predictions) if groups.popularity else None
    columns = () if items is None else tuple(_columns_of(items, groups, problems))
    return GroupSources(replace(groups, columns=columns), items, training)


def _check_tables(facts: Facts, groups: ItemGroups) -> None:
    tables = facts.tables()
    for value, table, needed in (
        (groups.columns, "items", "item_by"),
        (groups.popularity, "training", "popularity_groups"),
    ):
        if value and tables[table] is None:
            raise InputError(f"{needed} needs a table: pass facts=Facts({table}=…, {needed}={value!r})")
        if value:
            check_table(table, tables[table])
    lower = [name.lower() for name in groups.attributes]
    if twice := [name for name in groups.attributes if lower.count(name.lower()) > 1]:
        advice = "; popularity_groups= makes groups of this name, too" if twice[0].lower() == POPULARITY else ""
        raise InputError(f"item_by names {twice[0]!r} twice{advice}")


def _read(
    role: Literal["items", "training"],
    frame: DataFrame | None,
    names: ColumnNames,
    problems: list[str],
    left: source_tables.SourceTable,
) -> source_tables.SourceTable | None:
    """A table of items as a source whose items compare with those of predictions."""
    if frame is None:
        return None
    # One table with both arrays has no column for an item.
    if left.arrays and not any(find_column(frame, name) for name in names.single_items):
        names = replace(names, item=(DEFAULT_ITEM, DEFAULT_ITEM))
    n_before = len(problems)
    source = source_tables.read_source(role, frame, names, problems)
    if len(problems) == n_before and common_id_type(left.item_type, source.item_type) is None:
        problems.append(
            f"items have different types: {left.item!r} of {left.role} is {left.item_type.simpleString()}, {source.item!r} of "
            f"{role} is {source.item_type.simpleString()}. Cast one of them"
        )
    return source


def _columns_of(items: source_tables.SourceTable, groups: ItemGroups, problems: list[str]) -> Iterator[str]:
    """The columns that make groups, as the table names them."""
    for name in groups.columns:
        spelled = source_tables.require_column("items", items.frame, name, "item_by", problems)
        if spelled is not None:
            kind = items.frame.schema[spelled].dataType
            entries = kind.elementType if isinstance(kind, T.ArrayType) else kind
            problems += problem_of_type(f"items: the column {spelled!r} (item_by=)", entries, "category")
            yield spelled
