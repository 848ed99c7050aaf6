"""Tables of a catalogue: create one with comments, replace the rows of a run or the whole table, and read it back.

What a table's format cannot do is refused before anything is computed.
"""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, PySparkException, UnsupportedOperationException
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.errors import InputError, OptionError
from spark_rankeval.records.table_columns import RUN_COLUMN, RUN_ID
from spark_rankeval.spark.engine import condition_of, engine_of, said_by_java, setting
from spark_rankeval.spark.sql import call, column, find_column, function_of, literal, mark_of, named, quoted
from spark_rankeval.spark.storage import clear_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


_FORMAT = re.compile(r"\w+(\.\w+)*")
# A part of a name as people write it: letters, or anything in backticks, where two stand for one.
_PART = re.compile(r"(?:`((?:[^`]|``)+)`|([^`.\s]+))(?:\.|$)")
# Sail writes other folders under another name than it reads.
_FOLDER = re.compile(r"[\w!$&'()+,./:;=@-]+", re.ASCII)
# Iceberg has no shorter integers.
_SHORT = re.compile(r"\b(tinyint|smallint)\b")
#: Formats whose tables replace the rows that a condition names, in one commit.
LAKE_FORMATS = ("delta", "iceberg")
# Formats of tables of Spark's own catalogue, which replaces whole partitions.
_FILES = ("parquet", "orc", "csv", "json", "text", "avro", "hive")
# What engines say of a table that is not there: Sail has no condition for each of them.
_NOT_THERE = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND")
# What engines say if another writer was faster.
_CONFLICTS = ("Failed to commit", "commit failed", "Missing commit file", "Concurrent")
_TRIES = 5
# Without it Sail answers from statistics of Delta, which are doubles as text: not the last digit, and no NaN.
_NO_STATISTICS = ("delta.dataSkippingNumIndexedCols", "0")
# Headings of what the catalogue says of a table.
_PARTITIONS, _DETAILS = "# Partition Information", "# Detailed Table Information"
_RUN_FIELD = T.StructField(RUN_ID, T.StringType(), metadata={"comment": RUN_COLUMN.meaning})
_NO_SCHEMA = ("location must be an absolute path", "Database not found", "SCHEMA_NOT_FOUND")


def make_schema(spark: SparkSession, name: str, folder: str) -> None:
    """Make a schema whose tables are in a folder, unless it is there."""
    schema = CatalogTable(spark, name, "catalog")
    schema.run(f"CREATE SCHEMA IF NOT EXISTS {schema.quoted} LOCATION {literal(folder)}")


@dataclass(frozen=True)
class CatalogTable:
    """A table of a catalogue, which may not be there yet.

    Attributes:
        spark: the session.
        name: the name as the caller wrote it, such as ``main.evaluation.metrics``.
        option: what the caller named it with, for messages.
        format: the format of a table that is to be made; None: the catalogue's own, on Sail delta.
    """

    spark: SparkSession
    name: str
    option: str = "table"
    format: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or self.name.endswith(".") or _PART.sub("", self.name) != "":
            msg = f"{self.option} must name a table of the catalogue, such as 'main.evaluation.metrics'; got {self.name!r}"
            raise OptionError(msg)
        if self.format is not None and not _FORMAT.fullmatch(self.format):
            raise OptionError(f"table_format must be the name of a format, such as 'delta'; got {self.format!r}")

    @property
    def _parts(self) -> list[str]:
        return [quoted(each.replace("``", "`") or plain) for each, plain in _PART.findall(self.name)]

    @property
    def quoted(self) -> str:
        """The name as SQL has it."""
        return ".".join(self._parts)

    @property
    def _schema(self) -> str:
        """The name of its schema as SQL has it; empty: the current one."""
        return ".".join(self._parts[:-1])

    def run(self, statement: str, **frames: Any) -> list[Row]:
        """Run a statement of SQL about the table, in which ``{name}`` stands for a frame, if there are any."""
        return self.spark.sql(statement, **frames).collect()

    def insert(self, rows: DataFrame, into: str = "INTO", where: str = "") -> None:
        """Insert rows whose columns have the order of the table's: by names Sail finds none with a capital letter."""
        entry, takes_arrays = function_of(["entry"], named("entry")), engine_of(self.spark).is_spark
        # Sail takes an array into Iceberg only from a function.
        values = [
            named(each.name)
            if takes_arrays or not isinstance(each.dataType, T.ArrayType)
            else call("transform", named(each.name), entry)
            for each in rows.schema.fields
        ]
        statement = f"INSERT {into} {self.quoted} {where} SELECT {', '.join(map(str, values))} FROM "
        self.run(statement.replace("{", "{{").replace("}", "}}") + "{rows}", rows=rows)

    def frame(self) -> DataFrame | None:
        """The rows of all runs; None: the table is not there."""
        there = self._frame_in_catalog()
        if there is not None or engine_of(self.spark).is_spark:
            return there
        self._check_folder()
        # A catalogue in memory has forgotten what an earlier session made. The folder of the schema still has the files.
        for kind in LAKE_FORMATS:
            with suppress(PySparkException):
                self.run(f"CREATE TABLE IF NOT EXISTS {self.quoted} USING {kind}")
                return self._frame_in_catalog()
        return None

    def _frame_in_catalog(self) -> DataFrame | None:
        try:
            frame = self.spark.table(self.quoted)
            # Spark Connect looks for a table only when its schema is asked for.
            _ = frame.schema
        except PySparkException as error:
            if condition_of(error) in _NOT_THERE or any(words in str(error) for words in _NOT_THERE):
                return None
            raise self.refusal("read", error) from error
        return frame

    def _check_folder(self) -> None:
        """Refuse a schema in whose folder the engine loses tables."""
        facts: list[Row] = []
        with suppress(PySparkException):
            facts = self.run(f"DESCRIBE SCHEMA {self._schema}") if self._schema else []
        folder = next((value for name, value in facts if name == "Location" and value), "/")
        if not _FOLDER.fullmatch(folder):
            msg = (
                f"{self.option}: tables in the folder {folder} lose their rows on Sail, because its name has blanks, %, # or letters "
                "beyond ASCII; choose another folder"
            )
            raise OptionError(msg)

    def rows(self, run_id: str | None = None) -> DataFrame:
        """The rows of the table, or those of a run; a table that is not there is an `InputError`."""
        frame, engine = self.frame(), engine_of(self.spark)
        if frame is None:
            advice = f". If it is a path, pass spark.read.parquet({self.name!r})" if "/" in self.name else ""
            if not engine.is_spark and self._schema and not advice:
                place = f"CREATE SCHEMA IF NOT EXISTS {self._schema} LOCATION '/a/folder'"
                advice = f". On {engine.name} a catalogue is as old as its session; say where the tables of earlier ones are: {place}"
            raise InputError(f"{self.option}: there is no table {self.name} in the catalogue of this session{advice}")
        if run_id is not None and RUN_ID not in frame.columns:
            raise OptionError(self.no_runs())
        return frame if run_id is None else frame.where(F.col(RUN_ID) == run_id)

    def no_runs(self) -> str:
        """The message that the table has no runs."""
        return (
            f"{self.option}: the table {self.name} lacks the column {RUN_ID}, which tables of runs have; choose another"
        )

    def has_run(self, run_id: str) -> bool:
        """Whether the table has a row of a run."""
        return self.frame() is not None and not self.rows(run_id).isEmpty()

    def prepare(self, schema: T.StructType) -> StoredTable:
        """The table for runs of such rows, whose metadata may have comments: created unless it is there.

        Raises:
            OptionError: it cannot take such rows, or replace one run.
        """
        full_schema = T.StructType([*schema.fields, _RUN_FIELD])
        there = self.stored()
        if there is None:
            if not engine_of(self.spark).is_spark and self._new_format not in LAKE_FORMATS:
                raise OptionError(self.cannot_replace(self._new_format))
            try:
                self._create(full_schema, RUN_ID)
            except PySparkException as error:
                # Another writer may have made it at the same time.
                if self._frame_in_catalog() is None:
                    raise self.refusal("create", error) from error
            there = self.stored()
            assert there is not None, "it was made"
        there.check(full_schema)
        return there

    def stored(self) -> StoredTable | None:
        """The table as it is now, for writers; None: it is not there. A view is an `OptionError`."""
        frame = self.frame()
        if frame is None:
            return None
        details, partitions = self._description()
        # Spark says nothing more of a temporary view.
        if not details or "VIEW" in details.get("Type", "") or details.get("Type") == "TEMPORARY":
            msg = f"{self.option}: {self.name} is a view, which takes no rows; choose another name, or drop the view"
            raise OptionError(msg)
        return StoredTable(self, frame, details.get("Provider", "").lower(), details.get("Location", ""), partitions)

    def _description(self) -> tuple[dict[str, str], list[str]]:
        """What the catalogue says of the table, by name, and the columns that part its files."""
        rows = [(str(row[0]), str(row[1] or "")) for row in self.run(f"DESCRIBE TABLE EXTENDED {self.quoted}")]
        names = [name for name, _ in rows]
        details = dict(rows[names.index(_DETAILS) + 1 :]) if _DETAILS in names else {}
        parting = names[names.index(_PARTITIONS) + 1 :] if _PARTITIONS in names else []
        return details, [name for name in takewhile(bool, parting) if not name.startswith("#")]

    @property
    def _new_format(self) -> str:
        """The format of a table that is to be made; empty: the catalogue's own."""
        if self.format:
            return self.format
        if not engine_of(self.spark).is_spark:
            return LAKE_FORMATS[0]
        # Without a format Spark 3.5 would make a table of Hive in its own catalogue; other catalogues have a default.
        is_own = len(self._parts) < len(("catalog", "schema", "table"))
        return setting(self.spark, "spark.sql.sources.default", "parquet") if is_own else ""

    def _create(self, schema: T.StructType, *partitions: str) -> None:
        if engine_of(self.spark).is_spark:
            writer = self.spark.createDataFrame([], schema).writeTo(self.quoted)
            writer = writer.using(self._new_format) if self._new_format else writer
            (writer.partitionedBy(*map(F.col, partitions)) if partitions else writer).create()
            return
        # Sail takes comments from SQL alone.
        columns = ", ".join(
            f"{quoted(each.name)} {each.dataType.simpleString()} COMMENT {literal(str(each.metadata.get('comment', '')))}"
            for each in schema.fields
        )
        parted = f" PARTITIONED BY ({', '.join(partitions)})" if partitions else ""
        name, value = map(literal, _NO_STATISTICS)
        properties = f" TBLPROPERTIES ({name} = {value})" if self._new_format == "delta" else ""
        head = f"CREATE TABLE IF NOT EXISTS {self.quoted}"
        self.run(f"{head} ({columns}) USING {self._new_format}{parted}{properties}")

    def write_whole(self, frame: DataFrame, there: StoredTable | None) -> None:
        """Make a table of a frame, or put the frame in the place of the table that is there.

        Metadata of columns stays if the format keeps it.
        """
        kind = self._new_format if there is None else there.kind
        rows = without_nan(frame, kind)
        try:
            if there is None and not engine_of(self.spark).is_spark:
                self._create(frame.schema)
                self.insert(rows)
                return
            writer = rows.write.mode("overwrite").options(**dict([_NO_STATISTICS]), overwriteSchema="true")
            (writer.format(kind) if kind else writer).saveAsTable(self.quoted)
        except AnalysisException as error:
            raise self.refusal("write", error) from error

    @contextmanager
    def staged(self, frame: DataFrame) -> Iterator[DataFrame]:
        """Write a table once beside its place, give what is read back, with the metadata of its columns, and remove it."""
        name = f"{self.quoted[:-1]}_staging_{uuid.uuid4().hex}`"
        staging = CatalogTable(self.spark, name, self.option, self.format)
        try:
            staging.write_whole(frame, None)
            yield with_metadata_of(frame.schema, staging.rows())
        finally:
            is_there = staging._frame_in_catalog() is not None
            place = staging._description()[0].get("Location", "") if is_there else ""
            self.run(f"DROP TABLE IF EXISTS {staging.quoted}")
            # A catalogue in memory forgets a table, and leaves its folder.
            clear_folder(place)

    def remove_run(self, run_id: str) -> None:
        """Remove the rows of a run, if there are any."""
        if self.has_run(run_id):
            nothing = self.rows().limit(0).drop(RUN_ID)
            self.prepare(nothing.schema).replace_run(nothing, run_id)

    def cannot_replace(self, kind: str) -> str:
        """The message that the engine can replace only whole tables of a format."""
        engine = engine_of(self.spark).name
        return f"{self.option}: {engine} cannot replace one run in {self.name}, a table of format {kind}; let it be delta or iceberg"

    def refusal(self, verb: str, error: PySparkException) -> OptionError:
        """The error that an engine's refusal is for the caller."""
        lines = str(error).strip().splitlines()
        reason = said_by_java(lines[0]) if lines else type(error).__name__
        advice = ""
        if self._schema and any(words in reason for words in _NO_SCHEMA):
            advice = f". Make its schema, with a folder: CREATE SCHEMA {self._schema} LOCATION '/a/folder'"
        if "Unsupported timezone" in reason:
            advice = ". Iceberg on Sail takes times only in the zone UTC: set spark.sql.session.timeZone, or TZ for a job, to UTC"
        return OptionError(f"{self.option}: cannot {verb} the table {self.name}: {reason}{advice}")


@dataclass(frozen=True)
class StoredTable:
    """A table that the catalogue has, as it was before anything is computed.

    Attributes:
        table: its name.
        frame: its rows.
        kind: its format, in lower case.
        place: its path, if the catalogue says so.
        partitions: the columns that part its files.
    """

    table: CatalogTable
    frame: DataFrame
    kind: str
    place: str
    partitions: list[str]

    def check(self, schema: T.StructType) -> None:
        """Raise an `OptionError` if it cannot take such rows, or replace one run. Case makes no other name of a column."""
        about = f"{self.table.option}: the table {self.table.name}"
        if RUN_ID not in self.frame.columns:
            raise OptionError(self.table.no_runs())
        lacking: dict[str, str] = {}
        wrong = []
        for field in schema.fields:
            own, name = field.dataType.simpleString(), find_column(self.frame, field.name)
            there = own if name is None else self.frame.schema[name].dataType.simpleString()
            if name is None:
                lacking[field.name] = own
            elif there not in (own, _SHORT.sub("int", own)):
                wrong.append(f"{name} is {there}, not {own}")
        if lacking:
            raise OptionError(f"{about} lacks {', '.join(lacking)}. To add them, run: {self._addition(lacking)}")
        if wrong:
            raise OptionError(f"{about} has other types ({', '.join(wrong)}); choose another table")
        self._check_format()

    def _addition(self, lacking: Mapping[str, str]) -> str:
        """The line that adds columns."""
        if engine_of(self.frame.sparkSession).is_spark:
            columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in lacking.items())
            return f"ALTER TABLE {self.table.quoted} ADD COLUMNS ({columns})"
        # By its path the line runs in every session.
        added = ", ".join(f'"CAST(NULL AS {kind}) AS {quoted(name)}"' for name, kind in lacking.items())
        rows = f'spark.read.format("{self.kind}").load({self.place!r}).limit(0).selectExpr("*", {added})'
        return f'{rows}.write.format("{self.kind}").mode("append").option("mergeSchema", "true").save({self.place!r})'

    def _check_format(self) -> None:
        """Refuse a table in which one run cannot be replaced."""
        replaces_partitions = engine_of(self.frame.sparkSession).is_spark
        if self.kind in LAKE_FORMATS or (self.kind not in _FILES and replaces_partitions):
            return
        if not replaces_partitions:
            raise OptionError(self.table.cannot_replace(self.kind))
        if self.partitions != [RUN_ID]:
            by = f"by {', '.join(self.partitions)}" if self.partitions else "by nothing"
            msg = (
                f"{self.table.option}: the table {self.table.name} is partitioned {by}, and Spark can replace one run only "
                f"in one that is partitioned by {RUN_ID}; choose another table, which is then made so"
            )
            raise OptionError(msg)

    def replace_run(self, frame: DataFrame, run_id: str) -> None:
        """Put rows in the place of those that the table has of a run; other runs stay."""
        marked = frame.withColumn(RUN_ID, F.lit(run_id))
        columns = []
        for field in self.frame.schema.fields:
            name = find_column(marked, field.name)
            columns.append((F.lit(None) if name is None else column(name)).cast(field.dataType).alias(field.name))
        rows, run = without_nan(marked.select(*columns), self.kind), f"{RUN_ID} = {literal(run_id)}"
        try:
            if self.kind not in _FILES:
                _repeated(lambda: self.table.insert(rows, where=f"REPLACE WHERE {run}"))
            elif self.kind == "hive" or rows.isEmpty():
                # Dynamic overwrite leaves the partition as it is if there is no row.
                self.table.insert(rows.drop(RUN_ID), "OVERWRITE TABLE", f"PARTITION ({run})")
            else:
                self._replace_partition(rows, run)
        except (AnalysisException, UnsupportedOperationException) as error:
            raise self.table.refusal("write", error) from error

    def _replace_partition(self, rows: DataFrame, run: str) -> None:
        """Replace a partition of a table of files. By the table's path Spark stages the files of each writer.

        `INSERT OVERWRITE` empties the partition before it writes, and two at once mix their rows.
        """
        writer = rows.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy(RUN_ID)
        writer.format(self.kind).save(self.place)
        self.table.run(f"ALTER TABLE {self.table.quoted} ADD IF NOT EXISTS PARTITION ({run})")
        self.table.spark.catalog.refreshTable(self.table.quoted)


def without_nan(frame: DataFrame, kind: str) -> DataFrame:
    """The rows with null for NaN, if the engine would read NaN from a table of such a format as another row's value."""
    if kind != "delta" or engine_of(frame.sparkSession).is_spark:
        return frame
    doubles = [each.name for each in frame.schema.fields if isinstance(each.dataType, T.DoubleType | T.FloatType)]
    values = {name: F.when(~F.isnan(column(name)), column(name)) for name in doubles}
    return with_metadata_of(frame.schema, frame.withColumns(values)) if values else frame


def with_metadata_of(schema: T.StructType, frame: DataFrame) -> DataFrame:
    """The columns of a schema out of a table, with what the schema says of them: few catalogues keep it.

    Null in a metric is NaN again, which Delta on Sail cannot hold.
    """
    has_nan = engine_of(frame.sparkSession).is_spark
    columns = []
    for each in schema.fields:
        is_metric = mark_of(each).get("kind") in ("metric", "standard") and not has_nan
        values = F.coalesce(column(each.name), F.lit(math.nan)) if is_metric else column(each.name)
        columns.append(values.alias(each.name, metadata=each.metadata))
    return frame.select(*columns)


def _repeated(write: Callable[[], None]) -> None:
    """Write again if another writer was faster: of two runs at once, each has its own rows."""
    for _ in range(_TRIES - 1):
        try:
            return write()
        except PySparkException as error:
            if not any(words in str(error) for words in _CONFLICTS):
                raise
    return write()
