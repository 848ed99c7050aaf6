"""What a task receives with its first row, for all of its users: tables of items, and catalogues with vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from spark_rankeval.features.item_groups.worker import GroupTables
from spark_rankeval.features.items.lists import in_parts
from spark_rankeval.features.items.tables import ItemFacts
from spark_rankeval.features.items.wire import ITEM_TABLES
from spark_rankeval.worker.model_lists import with_lists_of_models
from spark_rankeval.worker.packed import received
from spark_rankeval.worker.vector_lists import Catalogues, few_users

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from spark_rankeval.request.task import ScoringTask

    Batches = Iterator[pa.RecordBatch]


# If every user has a value in every group of items, so many values are computed at once: 64 MB.
_MOST_VALUES = 1 << 23


class TaskTables(NamedTuple):
    """The tables of a task."""

    catalogues: Catalogues  # of the models that rank from vectors
    items: ItemFacts | None = None  # where facts of items are looked up; None: they are in the batches
    groups: GroupTables | None = None  # the groups of items that have figures of their own; None: there are none


def with_tables(task: ScoringTask, batches: Batches) -> Iterator[tuple[pa.RecordBatch, TaskTables]]:
    """The batches of a task in parts, each with what the task received.

    The parts are those of `in_parts`. If models rank from vectors, those of `few_users`, whose lists' first items fit into memory.
    They are smaller if any metric is a share of a group of items, because every user then has a value in every group.
    """
    firsts = [task.first_items(model) for model in range(len(task.similarities))]
    k = max((first.k for first in firsts if first is not None), default=0)
    n_most = 0
    tables = TaskTables(Catalogues(task))
    group_columns = GroupTables.columns(task)
    for batch, packed in received(with_lists_of_models(len(task.models), batches), (*ITEM_TABLES, *group_columns)):
        tables.catalogues.read(batch)
        if tables.items is None and (cells := {name: packed[name] for name in ITEM_TABLES if name in packed}):
            tables = tables._replace(items=ItemFacts.read(task.facts, cells))
        users = batch
        if task.item_groups is not None:
            # A batch without a row has no group, and does not bring the tables.
            if not batch.num_rows:
                continue
            if tables.groups is None:
                groups = GroupTables.read(task.item_groups, packed)
                tables = tables._replace(groups=groups)
                if task.has_group_shares:
                    n_most = max(1, _MOST_VALUES // (groups.n_groups * task.n_values))
            # By selection: PyArrow 15, of Spark 3.5, drops no columns of a batch.
            users = batch.select([name for name in batch.schema.names if name not in group_columns])
        for part in in_parts(users, tables.items):
            for few in few_users(iter([part]), k) if k and part.num_rows else [part]:
                size = n_most or max(few.num_rows, 1)
                yield from ((few.slice(first, size), tables) for first in range(0, max(few.num_rows, 1), size))
