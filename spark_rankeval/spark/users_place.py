"""Where the users of an evaluation are written: files under a path, or a table of the catalogue."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from spark_rankeval.checks import check_name
from spark_rankeval.errors import OptionError
from spark_rankeval.records.table_columns import RUN_ID
from spark_rankeval.spark.catalog import CatalogTable, with_metadata_of
from spark_rankeval.spark.per_user import PerUserSchema, comments_of
from spark_rankeval.spark.storage import exists, publish, staged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class UsersPlace:
    """Where a per-user table goes. It is computed once, to a staging place, and published from there.

    Attributes:
        path: the path of its files; empty if it is a table of the catalogue.
        table: the table of the catalogue.
        run_id: the run whose rows it replaces there; None: it is the whole table.
        mode: what becomes of an earlier table: ``errorifexists`` or ``overwrite``.
    """

    path: str
    table: CatalogTable | None
    run_id: str | None
    mode: str

    @classmethod
    def read(
        cls, per_user: DataFrame, path: str | os.PathLike[str] | None, table: str | None, run_id: str | None, mode: str
    ) -> UsersPlace:
        """What a caller names; raises `OptionError` if that is no place, or one that is taken."""
        session = per_user.sparkSession
        check_name("run_id", run_id)
        if (path is None) == (table is None):
            raise OptionError(f"name either a path or a table to write to; got {'neither' if path is None else 'both'}")
        if table is None:
            if run_id is not None:
                raise OptionError(
                    "run_id is for a table of the catalogue, which may have several runs; name one with table="
                )
            path = os.fspath(path) if isinstance(path, str | os.PathLike) else path
            if not isinstance(path, str) or not path.strip():
                msg = f"path must be a non-empty string; got {path!r}"
                raise OptionError(msg)
            if mode == "errorifexists" and exists(session, path):
                msg = f"{path} already exists; choose another path, or pass mode='overwrite'"
                raise OptionError(msg)
            return cls(path, None, None, mode)
        place = cls("", CatalogTable(session, table), run_id, mode)
        place._check(per_user)
        return place

    def _check(self, per_user: DataFrame) -> None:
        """Refuse a table that is taken or cannot take these rows, and make one for runs if it is not there."""
        assert self.table is not None, "the caller looked"
        if self.run_id is not None:
            schema = T.StructType([*per_user.schema.fields, T.StructField(RUN_ID, T.StringType())])
            self.table.prepare(schema, comments_of(PerUserSchema.read(per_user)), partitioned=True)
        elif self.mode == "errorifexists" and self.table.schema() is not None:
            msg = f"the table {self.table.name} already exists; choose another, pass mode='overwrite', or with run_id= add a run to it"
            raise OptionError(msg)

    def staged(self, per_user: DataFrame) -> AbstractContextManager[DataFrame]:
        """Write the table once beside its place, give the table read back from there, and clear that."""
        return staged(per_user, self.path) if self.table is None else self.table.staged(per_user)

    def publish(self, stored: DataFrame) -> DataFrame:
        """Move the staged table to its place, and give the table read from there."""
        if self.table is None:
            return publish(stored, self.path, self.mode)
        if self.run_id is None:
            self.table.write_whole(stored)
        else:
            self.table.replace_run(stored, self.run_id)
        return with_metadata_of(stored.schema, self.table.rows(self.run_id))
