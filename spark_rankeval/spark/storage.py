"""Per-user tables in storage: written to a staging place, looked at, and only then published."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame


@contextmanager
def staged(frame: DataFrame, path: str) -> Iterator[DataFrame]:
    """Write a table beside its place, give it read back, and leave the staging place empty.

    Only the DataFrame API is used, so that it works on every storage that Spark writes to.

    Args:
        frame: what to write; it is computed once.
        path: where it is to be published. The staging place is its sibling, hidden by an underscore.
    """
    head, _, tail = path.rstrip("/").rpartition("/")
    staging = f"{head}{'/' if head or path.startswith('/') else ''}_{tail}.staging-{uuid.uuid4().hex}"
    frame.write.mode("errorifexists").parquet(staging)
    session = frame.sparkSession
    try:
        # The schema is given: its metadata says what the columns are, and nothing has to be inferred.
        yield session.read.schema(frame.schema).parquet(staging)
    finally:
        session.createDataFrame([], frame.schema).write.mode("overwrite").parquet(staging)


def publish(staged_table: DataFrame, path: str, mode: str) -> DataFrame:
    """Copy a staged table to its place and give it read from there."""
    staged_table.write.mode(mode).parquet(path)
    return staged_table.sparkSession.read.schema(staged_table.schema).parquet(path)
