"""Facts of items that workers look up: each table is packed into one row, which every task receives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_rankeval.features.items import wire
from spark_rankeval.features.items.grouped import GroupedTables
from spark_rankeval.spark.packed import packed
from spark_rankeval.worker.packed import pack_together, rows_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_rankeval.ranking.recommended import Fact
    from spark_rankeval.request.options import Lookup, LookupOption
    from spark_rankeval.spark.plan import Plan
    from spark_rankeval.worker.packed import Bound


def with_lookup(
    plan: Plan, facts: frozenset[Fact], option: LookupOption, *, lazy: bool, tables_fit: bool, from_vectors: bool
) -> Plan:
    """The plan with how facts of items come to predictions."""
    fields = wire.fields_of(facts) | wire.fields_of(facts, history=True)
    if not fields & (wire.POPULARITY_FIELDS | wire.ATTRIBUTE_FIELDS):
        return plan
    most = f"{wire.BOUND.rows:,} items and {wire.BOUND.n_bytes >> 20} MB"
    looked_up = "Every task receives the tables of items, and workers look up the facts of predicted items"
    joined = "Facts of items are joined to predictions"
    lookup: Lookup = "join"
    if option == "join":
        words = f"{joined}: lookup='join' was asked for."
    elif from_vectors:
        lookup, words = "workers", f"{looked_up}: there are no rows to join them to."
    elif option == "workers":
        lookup, words = "workers", f"{looked_up}: lookup='workers' was asked for."
    elif lazy:
        words = f"{joined}: the size of their tables is not known before a table per user is computed."
    elif not tables_fit:
        words = f"{joined}: a table has more than {most}. To find out, the evaluation began twice; lookup='join' saves that."
    else:
        lookup, words = "workers", f"{looked_up}: each table has at most {most}."
    return replace(plan, lookup=lookup, words=(*plan.words, words))


@dataclass(frozen=True)
class PackedFacts(GroupedTables):
    """Tables in which workers look facts of items up."""

    must_fit: bool  # whether tables of any size are packed; else one that is too large is none

    def packed_tables(self) -> dict[str, DataFrame]:
        """All tables of items as one row each."""
        bound = None if self.must_fit else wire.BOUND
        tables = super().packed_tables()
        if self.reads_popularity:
            # It has the levels, too.
            tables.pop(wire.LEVELS_TABLE, None)
            tables[wire.POPULARITY_TABLE] = self.packed_popularity(bound)
        if self.reads_attributes:
            tables[wire.ATTRIBUTES_TABLE] = self._packed_attributes(bound)
        return tables

    def _packed_attributes(self, bound: Bound | None) -> DataFrame:
        rows = self.attributes
        # One row more than a table may have shows that it is too large, and no worker need read them all.
        # Spark drops a limit that it knows to be above the table, and the one partition with it.
        rows = rows.repartition(1) if bound is None else rows.limit(bound.rows + 1).coalesce(1)
        return packed(rows, pack_together(rows_in, lambda table: table, bound))
