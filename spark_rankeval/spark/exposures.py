"""How exposure is added up by item on the way to the driver, which is told how many items have which count."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.slices import EVERY
from spark_rankeval.worker.exposures import COUNT, EXPOSURE, ITEM, KEY, KIND, SLOT, merge_exposures
from spark_rankeval.worker.packing import STATE, unpack
from spark_rankeval.worker.states import merged_packed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import DataFrame

    from spark_rankeval.worker.states import Batches, Key


def slice_as_text(key: Key) -> str:
    """A slice as text; the sign for every value is a mapping, which no value is."""
    return json.dumps([{} if value is EVERY else value for value in key])


def slices_of(roll: Callable[[Key], Iterable[Key]]) -> Callable[[Key], list[str]]:
    """The slices, as text, that the users of a group belong to.

    Args:
        roll: the same as groups.
    """

    def named(key: Key) -> list[str]:
        return [slice_as_text(one) for one in roll(key)]

    return named


def exposure_rows(users: DataFrame, run: Callable[[Batches], Batches], item_type: T.DataType) -> DataFrame:
    """A row a partition with the state of some users and the exposure of some items: items part the rows, not users.

    Args:
        users: the grouped table.
        run: gives a state and rows of exposure of a partition of it.
        item_type: the type of items.
    """
    fields = {
        STATE: T.BinaryType(),
        SLOT: T.IntegerType(),
        KEY: T.StringType(),
        ITEM: item_type,
        KIND: T.ByteType(),
        COUNT: T.LongType(),
    }
    rows = users.mapInArrow(run, T.StructType([T.StructField(name, kind) for name, kind in fields.items()]))
    # One shuffle brings the rows of an item together, and spreads the states, so that all is one action.
    place = F.xxhash64(*fields)
    return rows.repartition(place).mapInArrow(
        merge_exposures(merged_packed),
        T.StructType([T.StructField(STATE, T.BinaryType()), T.StructField(EXPOSURE, T.BinaryType())]),
    )


def collected_rows(rows: DataFrame) -> tuple[list[dict[str, Any]], list[bytes]]:
    """The states of users, unpacked, and the exposure of items, packed, in one action."""
    found = rows.collect()
    return [unpack(bytes(row[0])) for row in found if row[0] is not None], [bytes(row[1]) for row in found]
