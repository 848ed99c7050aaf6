"""What a task receives with its first row, for all of its users: tables of items, and catalogues with vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from spark_rankeval.worker.group_sets import with_group_sets
from spark_rankeval.worker.item_tables import ItemTables, with_item_tables
from spark_rankeval.worker.vector_lists import Catalogues

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from spark_rankeval.request.task import ScoringTask
    from spark_rankeval.worker.group_sets import ItemGroupSets

    Batches = Iterator[pa.RecordBatch]


class TaskTables(NamedTuple):
    """The tables of a task."""

    catalogues: Catalogues  # of the models that rank from vectors
    items: ItemTables | None = None  # where facts of items are looked up; None: they are in the batches
    group_sets: ItemGroupSets | None = None  # where the groups of items are looked up; None: nobody asks


def with_tables(task: ScoringTask, batches: Batches) -> Iterator[tuple[pa.RecordBatch, TaskTables]]:
    """The batches of a task, in parts as of `with_item_tables`, each with what the task received."""
    catalogues = Catalogues(task)

    group_sets: ItemGroupSets | None = None

    def read() -> Batches:
        nonlocal group_sets
        for batch, received in with_group_sets(batches):
            group_sets = received
            catalogues.read(batch)
            yield batch

    for part, items in with_item_tables(read()):
        yield part, TaskTables(catalogues, items, group_sets)
