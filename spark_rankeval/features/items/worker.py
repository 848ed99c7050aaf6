"""Facts of items as a feature of a task: what metrics ask to be known of recommended items and of users' other lists."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_rankeval.features.items.lists import SideLists, in_parts
from spark_rankeval.features.items.tables import ItemFacts
from spark_rankeval.features.items.wire import BASELINE, FAULTS, HISTORY, ITEM_TABLES, TOTALS
from spark_rankeval.worker.features import BatchFeature, PartitionFeature, ScoringFeature

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa

    from spark_rankeval.ranking.batch import RankingBatch
    from spark_rankeval.ranking.ragged import Array, Ragged
    from spark_rankeval.ranking.recommended import Fact
    from spark_rankeval.request.task import ScoringTask
    from spark_rankeval.worker.features import RankedView
    from spark_rankeval.worker.reading import Side

# The tables of users' lists, by role.
_ROLES = {"training": HISTORY, "baseline": BASELINE}


@dataclass(frozen=True)
class FactsOfItems(ScoringFeature):
    """The facts of items, joined to them or looked up in tables that every task receives."""

    totals = TOTALS
    faults = FAULTS

    def tables(self) -> tuple[str, ...]:
        """Those of items."""
        return ITEM_TABLES

    def begin(self, task: ScoringTask) -> PartitionFeature:
        """The facts that the metrics of a task ask for."""
        return _FactsOfPartition(task.facts)


class _FactsOfPartition(PartitionFeature):
    def __init__(self, facts: frozenset[Fact]) -> None:
        self._facts = facts
        self._items: ItemFacts | None = None

    def receive(self, tables: Mapping[str, pa.Scalar]) -> None:
        if self._items is None and (cells := {name: tables[name] for name in ITEM_TABLES if name in tables}):
            self._items = ItemFacts.read(self._facts, cells)

    def parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        return in_parts(batch, self._items)

    def read(self, columns: Mapping[str, pa.Array], labels: Side, excluded: Side | None) -> BatchFeature:
        return _FactsOfBatch(SideLists.read(self._facts, columns, self._items))


class _FactsOfBatch(BatchFeature):
    def __init__(self, lists: SideLists) -> None:
        self._lists, self.totals = lists, lists.totals

    def sides(self) -> Mapping[str, Side]:
        sides = self._lists.sides
        return {role: sides[name] for role, name in _ROLES.items() if name in sides}

    def compare(self, items: Mapping[str, Ragged], order: Callable[[Array], Array] | None) -> None:
        lists = {name: items[role] for role, name in _ROLES.items() if role in items}
        self._lists = replace(self._lists, lists=lists, order=order)

    def label_numbers(self, labels: Side) -> Mapping[str, Array]:
        return self._lists.label_facts(labels.ids)

    def add(self, ranked: RankedView) -> RankingBatch:
        batch = ranked.batch
        if batch.recommended is None:
            return batch
        ids, facts = ranked.predictions.ids, ranked.facts
        return replace(
            batch, recommended=self._lists.with_facts(ranked.view, batch.recommended, ranked.items, ids, facts)
        )
