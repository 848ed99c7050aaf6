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
from spark_rankeval.records.table_columns import RUN_ID, RUN_NAME
from spark_rankeval.spark.ids import mark_of
from spark_rankeval.spark.platforms import condition_of, engine_of, said_by_java, setting
from spark_rankeval.spark.sql_text import column, literal, quoted
from spark_rankeval.spark.storage import clear_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


_FORMAT = re.compile(r"\w+(\.\w+)*")
# A part of a name as people write it: letters, or anything in backticks, where two stand for one.
_PART = re.compile(r"(?:`((?:[^`]|``)+)`|([^`.\s]+))(?:\.|$)")
_FOLDER = re.compile(r"[!-$&-~]+")
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
_NO_SCHEMA = ("location must be an absolute path", "Database not found", "SCHEMA_NOT_FOUND")


def make_schema(spark: SparkSession, name: str, folder: str) -> None:
    """Make a schema whose tables are in a folder, unless it is there."""
    if not _FOLDER.fullmatch(folder):
        msg = (
            "output.path: Sail loses rows of tables whose folder has blanks, % or letters beyond ASCII in its name; choose another than "
            f"{folder}"
        )
        raise OptionError(msg)
    schema = CatalogTable(spark, name, "catalog")
    schema.run(f"CREATE SCHEMA IF NOT EXISTS {schema.quoted} LOCATION {literal(folder)}")


def check_run(run_id: object) -> None:
    """Refuse what is no name of a run."""
    if not (isinstance(run_id, str) and RUN_NAME.fullmatch(run_id)):
        msg = f"run_id must be up to 100 letters, digits, '.', '_' and '-', and begin with a letter or a digit; got {run_id!r}"
        raise OptionError(msg)


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
    def quoted(self) -> str:
        """The name as SQL has it."""
        parts = [quoted_part.replace("``", "`") or plain for quoted_part, plain in _PART.findall(self.name)]
        return ".".join(map(quoted, parts))

    def run(self, statement: str, **frames: Any) -> list[Row]:
        """Run a statement of SQL about the table, in which ``{name}`` stands for a frame."""
        return self.spark.sql(statement, **frames).collect()

    def schema(self) -> T.StructType | None:
        """The columns of the table; None: it is not there."""
        there = self._schema_in_catalog()
        if there is not None or engine_of(self.spark).keeps_catalog:
            return there
        # A catalogue in memory has forgotten what an earlier session made. The folder of the schema still has the files.
        for kind in LAKE_FORMATS:
            with suppress(PySparkException):
                self.run(f"CREATE TABLE IF NOT EXISTS {self.quoted} USING {kind}")
                return self._schema_in_catalog()
        return None

    def _schema_in_catalog(self) -> T.StructType | None:
        try:
            return self.spark.table(self.quoted).schema
        except PySparkException as error:
            if condition_of(error) in _NOT_THERE or any(words in str(error) for words in _NOT_THERE):
                return None
            raise self._refusal("read", error) from error

    def rows(self, run_id: str | None = None) -> DataFrame:
        """The rows of the table, or those of a run; a table that is not there is an `InputError`."""
        if self.schema() is None:
            advice = f". If it is a path, pass spark.read.parquet({self.name!r})" if "/" in self.name else ""
            msg = f"{self.option}: there is no table {self.name} in the catalogue of this session{advice}"
            raise InputError(msg)
        table = self.spark.table(self.quoted)
        if run_id is None:
            return table
        if RUN_ID not in table.columns:
            raise OptionError(self._no_runs())
        return table.where(F.col(RUN_ID) == run_id)

    def has_run(self, run_id: str) -> bool:
        """Whether the table has a row of a run."""
        return self.schema() is not None and not self.rows(run_id).isEmpty()

    def prepare(self, schema: T.StructType, comments: Mapping[str, str], *, partitioned: bool) -> None:
        """Create the table unless it is there, and refuse one that cannot take such rows; `partitioned`: by run."""
        if self.schema() is None:
            if not engine_of(self.spark).replaces_partitions and self._new_format not in LAKE_FORMATS:
                raise OptionError(self._cannot_replace(self._new_format))
            try:
                self._create(schema, comments, partitioned=partitioned)
            except PySparkException as error:
                # Another writer may have made it at the same time.
                if self.schema() is None:
                    raise self._refusal("create", error) from error
        self.check(schema, partitioned=partitioned)

    def check(self, schema: T.StructType, *, partitioned: bool) -> None:
        """Raise an `OptionError` if the table is there and cannot take such rows."""
        there = self.schema()
        if there is None:
            return
        types = {field.name: field.dataType.simpleString() for field in there.fields}
        own = {field.name: field.dataType.simpleString() for field in schema.fields}
        lacking = {name: kind for name, kind in own.items() if name not in types}
        if RUN_ID in lacking:
            raise OptionError(self._no_runs())
        if lacking:
            raise OptionError(
                f"{self.option}: the table {self.name} lacks {', '.join(lacking)}. {self._advice(lacking)}"
            )
        wrong = [f"{name} is {types[name]}, not {kind}" for name, kind in own.items() if types[name] != kind]
        if wrong:
            msg = f"{self.option}: the table {self.name} has other types ({', '.join(wrong)}); choose another table"
            raise OptionError(msg)
        if partitioned:
            self._check_format()

    def _no_runs(self) -> str:
        return (
            f"{self.option}: the table {self.name} lacks the column {RUN_ID}, which tables of runs have; choose another"
        )

    def _advice(self, lacking: Mapping[str, str]) -> str:
        columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in lacking.items())
        if engine_of(self.spark).replaces_partitions:
            return f"To add them, run: ALTER TABLE {self.quoted} ADD COLUMNS ({columns})"
        added = ", ".join(f'"CAST(NULL AS {kind}) AS {quoted(name)}"' for name, kind in lacking.items())
        table = f'spark.table("{self.name}").limit(0).selectExpr("*", {added})'
        return f'To add them, run: {table}.writeTo("{self.name}").option("mergeSchema", "true").append()'

    def _check_format(self) -> None:
        """Refuse a table in which one run cannot be replaced."""
        kind, partitions = self._description()
        is_sail = not engine_of(self.spark).replaces_partitions
        if kind in LAKE_FORMATS or (kind not in _FILES and not is_sail):
            return
        if is_sail:
            raise OptionError(self._cannot_replace(kind))
        if partitions != [RUN_ID]:
            by = f"by {', '.join(partitions)}" if partitions else "by nothing"
            msg = (
                f"{self.option}: the table {self.name} is partitioned {by}, and Spark can replace one run only "
                f"in one that is partitioned by {RUN_ID}; choose another table, which is then made so"
            )
            raise OptionError(msg)

    def _cannot_replace(self, kind: str) -> str:
        engine = engine_of(self.spark).name
        return f"{self.option}: {engine} cannot replace one run in {self.name}, a table of format {kind}; let it be delta or iceberg"

    @property
    def _new_format(self) -> str:
        """The format of a table that is to be made; empty: the catalogue's own."""
        if self.format:
            return self.format
        if not engine_of(self.spark).replaces_partitions:
            return LAKE_FORMATS[0]
        # Without a format Spark 3.5 would make a table of Hive in its own catalogue; other catalogues have a default.
        is_own = len(_PART.findall(self.name)) < len(("catalog", "schema", "table"))
        return setting(self.spark, "spark.sql.sources.default", "parquet") if is_own else ""

    def _description(self) -> tuple[str, list[str]]:
        """The format of the table, in lower case, and the columns that part its files."""
        details, rows = self._details()
        partitions = []
        if (
            begin := next((place for place, name in enumerate(rows) if name == "# Partition Information"), None)
        ) is not None:
            for name in takewhile(bool, rows[begin + 1 :]):
                partitions += [] if name.startswith("#") else [name]
        return details.get("Provider", "").lower(), partitions

    def _details(self) -> tuple[dict[str, str], list[str]]:
        """What the catalogue says of the table, by name, and the names in their order."""
        rows = [tuple(row)[:2] for row in self.run(f"DESCRIBE TABLE EXTENDED {self.quoted}")]
        return {str(name): str(value or "") for name, value in rows}, [str(name) for name, _ in rows]

    def _create(self, schema: T.StructType, comments: Mapping[str, str], *, partitioned: bool) -> None:
        if engine_of(self.spark).replaces_partitions:
            fields = [
                T.StructField(each.name, each.dataType, metadata=each.metadata | _comment(comments.get(each.name, "")))
                for each in schema.fields
            ]
            writer = self.spark.createDataFrame([], T.StructType(fields)).writeTo(self.quoted)
            writer = writer.using(self._new_format) if self._new_format else writer
            (writer.partitionedBy(F.col(RUN_ID)) if partitioned else writer).create()
            return
        # Sail takes comments from SQL alone.
        columns = ", ".join(
            f"{quoted(each.name)} {each.dataType.simpleString()} COMMENT {literal(comments.get(each.name, ''))}"
            for each in schema.fields
        )
        parted = f" PARTITIONED BY ({RUN_ID})" if partitioned else ""
        name, value = map(literal, _NO_STATISTICS)
        properties = f" TBLPROPERTIES ({name} = {value})" if self._new_format == "delta" else ""
        head = f"CREATE TABLE IF NOT EXISTS {self.quoted}"
        self.run(f"{head} ({columns}) USING {self._new_format}{parted}{properties}")

    def replace_run(self, frame: DataFrame, run_id: str) -> None:
        """Put rows in the place of those that the table has of a run; other runs stay."""
        check_run(run_id)
        there = self.schema()
        assert there is not None, "prepare comes first"
        marked = frame.withColumn(RUN_ID, F.lit(run_id))
        columns = [
            (column(field.name) if field.name in marked.columns else F.lit(None)).cast(field.dataType).alias(field.name)
            for field in there.fields
        ]
        rows = marked.select(*columns)
        kind, _ = self._description()
        rows = self._without_nan(rows, kind)
        try:
            if kind not in _FILES:
                _repeated(lambda: rows.writeTo(self.quoted).overwrite(F.col(RUN_ID) == run_id))
            elif kind == "hive" or rows.isEmpty():
                # Dynamic overwrite leaves the partition as it is if there is no row.
                names = ", ".join(quoted(field.name) for field in there.fields if field.name != RUN_ID)
                into = f"INSERT OVERWRITE TABLE {self.quoted} PARTITION ({RUN_ID} = {literal(run_id)}) BY NAME"
                self.run(f"{into} SELECT {names} FROM {{rows}}", rows=rows)
            else:
                self._replace_partition(rows, kind, run_id)
        except (AnalysisException, UnsupportedOperationException) as error:
            raise self._refusal("write", error) from error

    def _replace_partition(self, rows: DataFrame, kind: str, run_id: str) -> None:
        """Replace a partition of a table of files. By the table's path Spark stages the files of each writer.

        `INSERT OVERWRITE` empties the partition before it writes, and two at once mix their rows.
        """
        writer = rows.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy(RUN_ID)
        writer.format(kind).save(self._details()[0]["Location"])
        self.run(f"ALTER TABLE {self.quoted} ADD IF NOT EXISTS PARTITION ({RUN_ID} = {literal(run_id)})")
        self.spark.catalog.refreshTable(self.quoted)

    def write_whole(self, frame: DataFrame) -> None:
        """Make a table of a frame, or put the frame in the place of the table. Metadata of columns stays if the format keeps it."""
        there = self.schema() is not None
        kind = self._description()[0] if there else self._new_format
        rows = self._without_nan(frame, kind)
        try:
            if not there and not engine_of(self.spark).replaces_partitions:
                comments = {each.name: str(each.metadata.get("comment", "")) for each in frame.schema.fields}
                self._create(frame.schema, comments, partitioned=False)
                rows.writeTo(self.quoted).append()
                return
            writer = rows.write.mode("overwrite").options(**dict([_NO_STATISTICS]), overwriteSchema="true")
            (writer.format(kind) if kind else writer).saveAsTable(self.quoted)
        except AnalysisException as error:
            raise self._refusal("write", error) from error

    def _without_nan(self, frame: DataFrame, kind: str) -> DataFrame:
        """The rows with null for NaN, if the engine would read NaN from such a table as another row's value."""
        if kind != "delta" or engine_of(self.spark).reads_nan_of_delta:
            return frame
        doubles = [each.name for each in frame.schema.fields if isinstance(each.dataType, T.DoubleType | T.FloatType)]
        values = {name: F.when(~F.isnan(column(name)), column(name)) for name in doubles}
        return with_metadata_of(frame.schema, frame.withColumns(values)) if values else frame

    @contextmanager
    def staged(self, frame: DataFrame) -> Iterator[DataFrame]:
        """Write a table once beside its place, give what is read back, with the metadata of its columns, and remove it."""
        name = f"{self.quoted[:-1]}_staging_{uuid.uuid4().hex}`"
        staging = CatalogTable(self.spark, name, self.option, self.format)
        try:
            staging.write_whole(frame)
            yield with_metadata_of(frame.schema, staging.rows())
        finally:
            place = "" if staging.schema() is None else staging._details()[0].get("Location", "")
            self.run(f"DROP TABLE IF EXISTS {staging.quoted}")
            # A catalogue in memory forgets a table, and leaves its folder.
            clear_folder(place)

    def remove_run(self, run_id: str) -> None:
        """Remove the rows of a run, if there are any."""
        if self.has_run(run_id):
            table = self.spark.table(self.quoted)
            self.replace_run(table.limit(0).drop(RUN_ID), run_id)

    def _refusal(self, verb: str, error: PySparkException) -> OptionError:
        lines = str(error).strip().splitlines()
        reason = said_by_java(lines[0]) if lines else type(error).__name__
        advice, schema = "", self.quoted.rpartition(".")[0]
        if schema and any(words in reason for words in _NO_SCHEMA):
            advice = f". Make its schema, with a folder: CREATE SCHEMA {schema} LOCATION '/a/folder'"
        if "Unsupported timezone" in reason:
            advice = ". Iceberg on Sail takes times only in the zone UTC: set spark.sql.session.timeZone, or TZ for a job, to UTC"
        return OptionError(f"{self.option}: cannot {verb} the table {self.name}: {reason}{advice}")


def with_metadata_of(schema: T.StructType, frame: DataFrame) -> DataFrame:
    """The columns of a schema out of a table, with what the schema says of them: few catalogues keep it.

    Null in a metric is NaN again, which Delta on Sail cannot hold.
    """
    has_nan = engine_of(frame.sparkSession).reads_nan_of_delta
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


def _comment(words: str) -> dict[str, str]:
    return {"comment": words} if words else {}
