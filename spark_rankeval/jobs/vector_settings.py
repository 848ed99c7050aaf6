"""The section of a configuration that names vectors of users and items."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from spark_rankeval.jobs.config import Source  # noqa: TC001 # the same
from spark_rankeval.request.vectors import (
    NO_PARTS,
    Similarity,  # of a field, whose type is looked at
    Vectors,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The keys that are tables.
TABLES_OF_VECTORS = ("users", "items", "candidates")


@dataclass(frozen=True)
class VectorTables:
    """Vectors of users and items, from which the whole catalogue is ranked; the keys are the arguments of `Vectors`.

    Attributes:
        users: a row for each user, with the user's columns and the vector.
        items: the catalogue: a row for each item, with the column of items and the vector.
        candidates: the items that can be recommended, or those of each user; left out, the whole catalogue.
        vector: the column of both tables that holds the vectors: arrays of numbers, all of the same length.
        user_bias: the column of users with a number to add to all scores of the user.
        item_bias: the column of items with a number to add to all scores of the item.
        similarity: dot, the sum of products; or cosine, the same of vectors that are scaled to length 1 first.
    """

    #: What to do about keys that there were.
    REMOVED = MappingProxyType({"parts": NO_PARTS})

    users: Source
    items: Source
    candidates: Source | None = None
    vector: str = Vectors.vector
    user_bias: str | None = Vectors.user_bias
    item_bias: str | None = Vectors.item_bias
    similarity: Similarity = Vectors.similarity

    def options(self) -> dict[str, Any]:
        """The arguments of `Vectors`, except tables."""
        return {name: value for name, value in vars(self).items() if name not in TABLES_OF_VECTORS}

    def sources(self, section: str) -> dict[str, Source]:
        """The tables to read, by the names of their sections in this one."""
        tables = {name: getattr(self, name) for name in TABLES_OF_VECTORS}
        return {f"{section}.{name}": source for name, source in tables.items() if source is not None}

    def of(self, tables: Mapping[str, Any], section: str) -> Vectors:
        """The vectors in tables that were read, by the names of their sections in this one."""
        arguments = self.options() | {name: tables.get(f"{section}.{name}") for name in TABLES_OF_VECTORS}
        return Vectors(**arguments)
