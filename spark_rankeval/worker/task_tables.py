"""What a task receives with its first row, for all of its users: tables of items, and catalogues with vectors."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from spark_rankeval.worker.group_sets import with_item_sets
from spark_rankeval.worker.item_groups import with_group_tables
from spark_rankeval.worker.item_tables import ItemTables, with_item_tables
from spark_rankeval.worker.model_lists import with_lists_of_models
from spark_rankeval.worker.vector_lists import Catalogues, few_users

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from spark_rankeval.request.task import ScoringTask
    from spark_rankeval.worker.group_sets import ItemSets
    from spark_rankeval.worker.item_groups import GroupTables

    Batches = Iterator[pa.RecordBatch]


# If every user has a value in every group of items, so many values are computed at once: 64 MB.
_MOST_VALUES = 1 << 23


class TaskTables(NamedTuple):
    """The tables of a task."""

    catalogues: Catalogues  # of the models that rank from vectors
    items: ItemTables | None = None  # where facts of items are looked up; None: they are in the batches
    groups: GroupTables | None = None  # the groups of items that have figures of their own; None: there are none
    item_sets: Mapping[str, ItemSets] = MappingProxyType({})  # where the groups of items are looked up, by the table


def with_tables(task: ScoringTask, batches: Batches) -> Iterator[tuple[pa.RecordBatch, TaskTables]]:
    """The batches of a task in parts, each with what the task received.

    The parts are those of `with_item_tables`. If models rank from vectors, those of `few_users`, whose lists' first items fit into memory.
    They are smaller if any metric is a share of a group of items, because every user then has a value in every group.
    """
    firsts = [task.first_items(model) for model in range(len(task.similarities))]
    k = max((first.k for first in firsts if first is not None), default=0)
    catalogues = Catalogues(task)
    groups: GroupTables | None = None
    item_sets: dict[str, ItemSets] = {}

    def without_group_tables() -> Batches:
        nonlocal groups
        for batch, tables in with_group_tables(task, with_lists_of_models(len(task.models), batches)):
            groups = tables
            yield batch

    def read() -> Batches:
        nonlocal item_sets
        for batch, sets in with_item_sets(task.facts, without_group_tables()):
            item_sets = sets
            catalogues.read(batch)
            yield batch

    for part, items in with_item_tables(read()):
        received = TaskTables(catalogues, items, groups, item_sets)
        n_users = max(part.num_rows, 1)
        if groups is not None and task.has_group_shares:
            n_groups = sum(len(attribute.names) for attribute in groups.attributes)
            n_users = max(1, _MOST_VALUES // (n_groups * task.n_values))
        for few in few_users(iter([part]), k) if k and part.num_rows else [part]:
            yield from ((few.slice(first, n_users), received) for first in range(0, max(few.num_rows, 1), n_users))
