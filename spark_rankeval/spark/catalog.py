"""Tables that Spark stores: their schemas, folders that are written apart and then published, and tables of the catalogue."""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import dropwhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from pyspark.errors import AnalysisException, PySparkException, UnsupportedOperationException
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval import local
from spark_rankeval.checks import check_place
from spark_rankeval.errors import InputError, OptionError
from spark_rankeval.records import columns as table_columns
from spark_rankeval.records.columns import RUN_COLUMN, RUN_ID, check_run
from spark_rankeval.spark import engine
from spark_rankeval.spark.sql import column, find_column, literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


Read = TypeVar("Read")

_TYPES: dict[str, T.DataType] = {
    table_columns.TEXT: T.StringType(),
    table_columns.FIGURE: T.DoubleType(),
    table_columns.COUNT: T.LongType(),
    table_columns.FLAG: T.BooleanType(),
    table_columns.MOMENT: T.TimestampType(),
    table_columns.FIGURES: T.MapType(T.DoubleType(), T.DoubleType()),
    table_columns.TEXTS: T.MapType(T.StringType(), T.StringType()),
}
_NUMBERS: dict[str, Callable[[Any], Any]] = {table_columns.FIGURE: float, table_columns.COUNT: int}
_RUN_IN_PATH = re.compile(rf"/{RUN_ID}=([^/]+)/")
_KEEP_TEXT = 'spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")'
# What file systems say about a place that cannot be written. The user has to fix that, unlike a job that fails.
_NO_PLACE = (
    "ParentNotDirectoryException",
    "AccessControlException",
    "Permission denied",
    "Not a directory",
    "Mkdirs failed",
    "No FileSystem for scheme",
    "FileSystem not found",
    "Wrong FS",
    "URISyntaxException",
    "Read-only file system",
    # What Sail says.
    "Unable to create dir",
    "encountered while finalizing writes",
    "failed to lookup address",
    "Failed to resolve region",
    "Unable to recognise URL",
)


def schema_of(columns: Iterable[table_columns.TableColumn]) -> T.StructType:
    """The types of columns, with their meanings as comments."""
    return T.StructType(
        [T.StructField(name, _TYPES[kind], metadata={"comment": meaning}) for name, kind, meaning in columns]
    )


def table_of(
    records: Iterable[Mapping[str, Any]],
    columns: table_columns.TableColumns,
    session: SparkSession | None = None,
    session_of_tables: Callable[[], SparkSession] | None = None,
) -> DataFrame:
    """Records by column as a DataFrame with comments: NaN stays NaN, and None is null.

    Without a session it belongs to the active one, or to that of the caller's tables.

    Raises:
        InputError: there is no session.
    """
    session = session or local.active_session()
    if session is None and session_of_tables is not None:
        # A result that was read back has no tables.
        with suppress(InputError):
            session = session_of_tables()
    if session is None:
        msg = "no session is active: pass one, as in to_spark(spark), or start one with spark_rankeval.session()"
        raise InputError(msg)
    rows = [tuple(_value(record[name], kind) for name, kind, _ in columns.columns) for record in records]
    return session.createDataFrame(rows, schema_of(columns.columns))


def _value(value: Any, kind: str) -> Any:
    # Spark takes no whole number for a double, and no number of numpy.
    number = _NUMBERS.get(kind)
    return value if value is None or number is None else number(value)


def columns_of_runs(option: str, frame: DataFrame, wanted: Collection[str]) -> DataFrame:
    """Some columns of a job's table of metrics, and that of the run.

    Raises:
        InputError: the table lacks some of them, or its names of runs have changed, or may have.
    """
    lacking = [name for name in (*wanted, RUN_ID) if name not in frame.columns]
    if lacking:
        msg = (
            f"the table has no {', '.join(lacking)}; pass a job's table of metrics, the folder 'metrics' of its output"
        )
        raise InputError(msg)
    check_run_ids(option, frame)
    return frame.select(*map(column, (*wanted, RUN_ID)))


def check_run_ids(option: str, frame: DataFrame, name: str = RUN_ID) -> None:
    """Refuse a column of runs that was read as numbers or times, if its text is not that of the runs' names: ``007`` as 7.

    Raises:
        InputError: the names have changed, or may have.
    """
    kind = frame.schema[name].dataType
    # Spark takes a name for a date only if it is written as dates are.
    if isinstance(kind, T.StringType | T.DateType):
        return
    example = ""
    if isinstance(kind, T.IntegralType):
        # Files have the names in their paths, if the platform tells.
        paths = {match[1] for file in engine.input_files(frame) if (match := _RUN_IN_PATH.search(file))}
        changed = [run for run in sorted(map(unquote, paths)) if run != _as_number(run)]
        if not changed:
            return
        example = f", and {changed[0]!r} as {_as_number(changed[0])}"
    msg = (
        f"{option}: the column {name!r} was read as {kind.simpleString()}{example}, but names of runs are text. Call "
        f"{_KEEP_TEXT} before you read the table"
    )
    raise InputError(msg)


def _as_number(run: str) -> str:
    try:
        return str(int(run))
    except ValueError:
        return ""


@contextmanager
def writable(path: str, option: str = "path") -> Iterator[None]:
    """Turn an error of the path or the file system into an `OptionError`; `option` is the user's word for the path."""
    check_place(option, path)
    try:
        yield
    except Exception as error:
        said = [line for line in str(error).splitlines() if any(words in line for words in _NO_PLACE)]
        if not said:
            raise
        # The last line is the cause of the others. Hadoop's names of temporary files help no reader.
        reason = engine.said_by_java(said[-1]).partition("/_temporary")[0]
        msg = f"{option}: cannot write to {path}: {reason}"
        raise OptionError(msg) from error


@contextmanager
def staged(frame: DataFrame, path: str) -> Iterator[DataFrame]:
    """Write a table once to a hidden sibling of its path, give the table read back from there, and clear that staging place.

    Only the DataFrame API is used, so this works on every storage that Spark can write to. The API cannot delete a folder. So an empty
    table stays behind, except on the driver's disk.
    """
    head, _, tail = path.rstrip("/").rpartition("/")
    staging = f"{head}{'/' if head or path.startswith('/') else ''}_{tail}.staging-{uuid.uuid4().hex}"
    # Spark would log that it ignores a path whose last part is hidden.
    table = f"{staging}/table"
    with writable(path):
        frame.write.mode(engine.save_mode("errorifexists")).parquet(table)
    session = frame.sparkSession
    try:
        # The schema is passed, so nothing is inferred and the metadata still says what the columns are.
        yield session.read.schema(frame.schema).parquet(table)
    finally:
        # If the driver's disk has a folder of this unique name, Spark wrote it, whatever its default file system is.
        if not clear_folder(staging) and exists(session, table):
            session.createDataFrame([], frame.schema).write.mode("overwrite").parquet(table)


def on_this_disk(place: str) -> Path:
    """The path of a place if it is on the driver's disk."""
    return Path(place.removeprefix("file://").removeprefix("file:"))


def clear_folder(place: str) -> bool:
    """Remove a folder if it is on the driver's disk; says whether it was."""
    folder = on_this_disk(place)
    is_there = bool(place) and folder.is_dir()
    if is_there:
        shutil.rmtree(folder)
    return is_there


def exists(session: SparkSession, path: str) -> bool:
    """Whether there is something at a path, on any storage that Spark can read."""
    return _text_at(session, path) is not None


def read_while_others_write(read: Callable[[bool], Read]) -> Read:
    """Call a function that reads files which others may replace meanwhile, and return what it reads.

    Spark lists files first and reads them later. If a listed file is gone by then, everything is read again from a new list. The second
    call has the argument True: it must ignore files that vanish even then.
    """
    try:
        return read(False)
    except Exception as error:
        if not engine.file_vanished(error):
            raise
    return read(True)


@contextmanager
def replaced_files_explained(option: str) -> Iterator[None]:
    """Raise an `InputError` if files of a caller's table were replaced since the caller read it."""
    try:
        yield
    except Exception as error:
        if not engine.file_vanished(error):
            raise
        msg = f"{option}: files of the table were replaced after it was read, for example by a repeated run; read it again"
        raise InputError(msg) from error


def lines_at(session: SparkSession, path: str) -> list[str]:
    """The lines of text in a folder, on any storage that Spark can read; none if nothing is there, or a file is being replaced."""
    text = _text_at(session, path)
    return [] if text is None else [row["value"] for row in text.collect()]


def _text_at(session: SparkSession, path: str) -> DataFrame | None:
    """The files at a path as lazy lines of text, whatever they hold; None if nothing is there."""
    try:
        with writable(path):
            reader = session.read.schema("value string").option("ignoreMissingFiles", True)
            # For one missing path, which might be a stream's, Spark 4 logs a warning with a stack trace; for two it logs nothing.
            # Spark Connect checks whether the path exists only when the schema is read.
            _ = reader.text([path, path]).schema
            text = reader.text(path)
    except AnalysisException as error:
        if engine.condition_of(error) != "PATH_NOT_FOUND":
            raise
        return None
    if not engine.engine_of(session).is_spark and not engine.input_files(text):
        return None
    return text


def publish(staged_table: DataFrame, path: str, mode: str) -> DataFrame:
    """Move a staged table to its place, and give the table read from there.

    On the driver's disk its folder is renamed: the table is there as a whole or not at all. The old table is removed last.
    Elsewhere the table is copied, because the DataFrame API cannot rename, and ``overwrite`` removes the old table first.
    """
    session, schema = staged_table.sparkSession, staged_table.schema
    folder = _folder_on_disk(staged_table)
    place = None if folder is None else folder.parent.with_name(path.rstrip("/").rpartition("/")[2])
    if folder is None or place is None or not _can_be_renamed(place, mode):
        staged_table.write.mode(engine.save_mode(mode)).parquet(path)
        return session.read.schema(schema).parquet(path)
    replaced = place.with_name(f"_{place.name}.replaced-{uuid.uuid4().hex}")
    if place.exists():
        os.rename(place, replaced)
    os.rename(folder, place)
    if engine.engine_of(session).is_spark:
        # Spark does the same for its own writes, so that no query reads cached files of the old table.
        session.catalog.refreshByPath(path)
    shutil.rmtree(replaced, ignore_errors=True)
    return session.read.schema(schema).parquet(path)


def _folder_on_disk(table: DataFrame) -> Path | None:
    for file in engine.input_files(table):
        place = urlsplit(file)
        folder = Path(url2pathname(place.path)).parent
        return folder if place.scheme == "file" and folder.is_dir() else None
    return None


def _can_be_renamed(place: Path, mode: str) -> bool:
    """Whether nothing, or a plain folder to overwrite, is there. Spark handles links, mounts, files and refusals."""
    if mode != "overwrite" or not os.path.lexists(place):
        return not os.path.lexists(place)
    return place.is_dir() and not place.is_symlink() and not place.is_mount()


# A part of a name as people write it: letters, or anything in backticks, where two stand for one.
_PART = re.compile(r"(?:`((?:[^`]|``)+)`|([^`.\s]+))(?:\.|$)")
# Sail writes files of Delta to other folders under another name than it reads.
_FOLDER = re.compile(r"[\w!$&'()+,./:;=@-]+", re.ASCII)
# Iceberg has no shorter integers.
_SHORT = re.compile(r"\b(tinyint|smallint)\b")
# Formats whose tables replace the rows that a condition names, in one commit.
_LAKES = ("delta", "iceberg")
# Formats of tables of Spark's own catalogue, which replaces whole partitions.
_FILES = ("parquet", "orc")
# What engines say of a table that is not there: Sail has no condition for each of them.
_NOT_THERE = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND")
_NO_SCHEMA = ("location must be an absolute path", "Database not found", "SCHEMA_NOT_FOUND")
# Unless it is 0, Sail answers from statistics of Delta, which are doubles as text: not the last digit, and no NaN.
_STATISTICS = "delta.dataSkippingNumIndexedCols"
_RUN_FIELD = T.StructField(RUN_ID, T.StringType(), metadata={"comment": RUN_COLUMN.meaning})


def make_schema(spark: SparkSession, name: str, folder: str) -> None:
    """Make a schema whose tables are in a folder, unless it is there."""
    if not _FOLDER.fullmatch(folder):
        msg = f"Sail writes no tables of a catalogue to {folder}: its name has blanks, %, # or letters beyond ASCII; choose another"
        raise OptionError(f"output.path: {msg}")
    schema = CatalogTable(spark, name, "output.catalog")
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

    @property
    def _parts(self) -> list[str]:
        return [quoted(each.replace("``", "`") or plain) for each, plain in _PART.findall(self.name)]

    @property
    def quoted(self) -> str:
        """The name as SQL has it."""
        return ".".join(self._parts)

    def run(self, statement: str, rows: DataFrame | None = None) -> list[Row]:
        """Run a statement of SQL about the table; rows that it inserts have their columns in the table's order."""
        if rows is not None:
            # Names may have braces.
            statement = statement.replace("{", "{{").replace("}", "}}") + " SELECT * FROM {rows}"
        frames: dict[str, Any] = {} if rows is None else {"rows": rows}
        return self.spark.sql(statement, **frames).collect()

    def frame(self) -> DataFrame | None:
        """The rows of all runs; None: the table is not there."""
        # Sail's catalogue has forgotten what an earlier session made. The folder of the schema still has the files.
        for kind in ("",) if engine.engine_of(self.spark).is_spark else ("", *_LAKES):
            try:
                if kind:
                    self.run(f"CREATE TABLE IF NOT EXISTS {self.quoted} USING {kind}")
                frame = self.spark.table(self.quoted)
                # Spark Connect looks for a table only when its schema is asked for.
                _ = frame.schema
            except PySparkException as error:
                if not kind and not any(words in str(error) for words in _NOT_THERE):
                    raise self._refusal("read", error) from error
            else:
                return frame
        return None

    def rows(self, run_id: str | None = None) -> DataFrame:
        """The rows of the table, or those of a run; a table that is not there is an `InputError`."""
        frame = self.frame()
        if frame is None:
            advice = f". If it is a path, pass spark.read.parquet({self.name!r})" if "/" in self.name else ""
            raise InputError(f"{self.option}: there is no table {self.name} in the catalogue of this session{advice}")
        if run_id is None:
            return frame
        if RUN_ID not in frame.columns:
            msg = f"{self.option}: the table {self.name} lacks the column {RUN_ID}, which tables of runs have; choose another"
            raise OptionError(msg)
        return frame.where(F.col(RUN_ID) == run_id)

    def has_run(self, run_id: str) -> bool:
        """Whether the table has a row of a run."""
        return self.frame() is not None and not self.rows(run_id).isEmpty()

    def description(self) -> tuple[str, str]:
        """The format of the table that is there, and its path. A view is an `OptionError`."""
        rows = self.run(f"DESCRIBE TABLE EXTENDED {self.quoted}")
        facts = {row[0]: row[1] for row in dropwhile(lambda row: row[0] != "# Detailed Table Information", rows)}
        kind = str(facts.get("Provider") or "").lower()
        if not kind or "VIEW" in facts.get("Type", ""):
            msg = f"{self.option}: {self.name} is a view, which takes no rows; choose another name, or drop the view"
            raise OptionError(msg)
        return kind, str(facts.get("Location") or "")

    def prepare(self, schema: T.StructType) -> None:
        """Create the table for runs of such rows, whose metadata may have comments, unless it is there.

        Raises:
            OptionError: it cannot take such rows, or replace one run.
        """
        schema = T.StructType([*schema.fields, _RUN_FIELD])
        if self.frame() is None:
            if self._new_format:
                self._check_format(self._new_format)
            try:
                self._create(schema)
            except PySparkException as error:
                # Another writer may have made it at the same time.
                if self.frame() is None:
                    raise self._refusal("create", error) from error
        kind, place = self.description()
        self._check_columns(schema, kind, place)
        self._check_format(kind)
        if kind in _FILES:
            partitions = [each.name for each in self.spark.catalog.listColumns(self.quoted) if each.isPartition]
            if partitions != [RUN_ID]:
                msg = (
                    f"{self.option}: the table {self.name} is partitioned by {', '.join(partitions) or 'nothing'}, and Spark can "
                    f"replace one run only in one that is partitioned by {RUN_ID}; choose another table, which is then made so"
                )
                raise OptionError(msg)

    @property
    def _new_format(self) -> str:
        """The format of a table that is to be made; empty: the catalogue's own."""
        if self.format:
            return self.format.lower()
        if not engine.engine_of(self.spark).is_spark:
            return _LAKES[0]
        # Without a format Spark 3.5 would make a table of Hive in its own catalogue; other catalogues have a default.
        is_own = len(self._parts) < len(("catalog", "schema", "table"))
        return engine.setting(self.spark, "spark.sql.sources.default", "parquet") if is_own else ""

    def _create(self, schema: T.StructType) -> None:
        if engine.engine_of(self.spark).is_spark:
            writer = self.spark.createDataFrame([], schema).writeTo(self.quoted).partitionedBy(F.col(RUN_ID))
            (writer.using(self._new_format) if self._new_format else writer).create()
            return
        # Sail takes comments from SQL alone.
        columns = ", ".join(
            f"{quoted(each.name)} {each.dataType.simpleString()} COMMENT {literal(str(each.metadata.get('comment', '')))}"
            for each in schema.fields
        )
        form = f"USING {self._new_format} PARTITIONED BY ({RUN_ID}) TBLPROPERTIES ({literal(_STATISTICS)} = '0')"
        self.run(f"CREATE TABLE IF NOT EXISTS {self.quoted} ({columns}) {form}")

    def _check_columns(self, schema: T.StructType, kind: str, place: str) -> None:
        """Refuse a table that lacks columns, or has some of other types. Case makes no other name of a column."""
        frame, about = self.rows(run_id=""), f"{self.option}: the table {self.name}"
        lacking: dict[str, str] = {}
        wrong = []
        for field in schema.fields:
            own, name = field.dataType.simpleString(), find_column(frame, field.name)
            there = own if name is None else frame.schema[name].dataType.simpleString()
            if name is None:
                lacking[field.name] = own
            elif there not in (own, _SHORT.sub("int", own)):
                wrong.append(f"{name} is {there}, not {own}")
        if wrong:
            raise OptionError(f"{about} has other types ({', '.join(wrong)}); choose another table")
        if not lacking:
            return
        if engine.engine_of(self.spark).is_spark:
            columns = ", ".join(f"{quoted(name)} {type_}" for name, type_ in lacking.items())
            advice = f"ALTER TABLE {self.quoted} ADD COLUMNS ({columns})"
        else:
            # Sail has no such statement. By its path the line runs in every session.
            added = ", ".join(f'"CAST(NULL AS {type_}) AS {quoted(name)}"' for name, type_ in lacking.items())
            rows = f'spark.read.format("{kind}").load({place!r}).limit(0).selectExpr("*", {added})'
            advice = f'{rows}.write.format("{kind}").mode("append").option("mergeSchema", "true").save({place!r})'
        raise OptionError(f"{about} lacks {', '.join(lacking)}. To add them, run: {advice}")

    def _check_format(self, kind: str) -> None:
        """Refuse a format in which no run can be replaced."""
        here = engine.engine_of(self.spark)
        able = (*_LAKES, *_FILES) if here.is_spark else _LAKES
        if kind not in able:
            msg = f"{here.name} cannot replace one run in {self.name}, a table of format {kind}; let it be {' or '.join(able)}"
            raise OptionError(f"{self.option}: {msg}")

    def check(self, schema: T.StructType, run_id: str | None, mode: str) -> None:
        """Refuse a table that is taken, or cannot take such rows of a run; make one for runs if it is not there."""
        if run_id is not None:
            check_run(run_id)
            taken = [name for name in schema.names if name.lower() == RUN_ID]
            if taken:
                msg = f"the rows have a column {taken[0]!r} already, so run_id= cannot name their run; leave it out"
                raise InputError(msg)
            self.prepare(schema)
        elif self.frame() is not None:
            self.description()
            if mode == "errorifexists":
                msg = f"the table {self.name} already exists; choose another, pass mode='overwrite', or with run_id= add a run to it"
                raise OptionError(msg)

    def write(self, frame: DataFrame, run_id: str | None) -> DataFrame:
        """Write rows in the place of those that the table has of a run, or of all, and give them as they are read back."""
        try:
            if run_id is not None:
                self._replace_run(frame, run_id)
            else:
                kind = self._new_format if self.frame() is None else self.description()[0]
                writer = frame.write.mode("overwrite").options(**{_STATISTICS: "0", "overwriteSchema": "true"})
                (writer.format(kind) if kind else writer).saveAsTable(self.quoted)
        except (AnalysisException, UnsupportedOperationException) as error:
            raise self._refusal("write", error) from error
        return with_metadata_of(frame.schema, self.rows(run_id))

    def _replace_run(self, frame: DataFrame, run_id: str) -> None:
        kind, place = self.description()
        marked = frame.withColumn(RUN_ID, F.lit(run_id))
        columns = []
        for field in self.rows().schema.fields:
            name = find_column(marked, field.name)
            columns.append((F.lit(None) if name is None else column(name)).cast(field.dataType).alias(field.name))
        rows, run = marked.select(*columns), f"{RUN_ID} = {literal(run_id)}"
        if kind in _LAKES:
            self.run(f"INSERT INTO {self.quoted} REPLACE WHERE {run}", rows)
        elif rows.isEmpty():
            # Dynamic overwrite leaves the partition as it is if there is no row.
            self.run(f"INSERT OVERWRITE TABLE {self.quoted} PARTITION ({run})", rows.drop(RUN_ID))
        else:
            # By the table's path: `insertInto` knows no dynamic overwrite but the session's. A static one empties the partition first.
            writer = rows.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy(RUN_ID)
            writer.format(kind).save(place)
            self.run(f"ALTER TABLE {self.quoted} ADD IF NOT EXISTS PARTITION ({run})")
            self.spark.catalog.refreshTable(self.quoted)

    @contextmanager
    def staged(self, frame: DataFrame) -> Iterator[DataFrame]:
        """Write a table once beside its place, give what is read back, with the metadata of its columns, and remove it."""
        name = f"{self.quoted[:-1]}_staging_{uuid.uuid4().hex}`"
        staging = CatalogTable(self.spark, name, self.option, self.format)
        try:
            yield staging.write(frame, None)
        finally:
            place = "" if staging.frame() is None else staging.description()[1]
            self.run(f"DROP TABLE IF EXISTS {staging.quoted}")
            # A catalogue in memory forgets a table, and leaves its folder.
            clear_folder(place)

    def _refusal(self, verb: str, error: PySparkException) -> OptionError:
        """The error that an engine's refusal is for the caller."""
        reason = engine.said_by_java((str(error).strip() or type(error).__name__).splitlines()[0])
        has_no_schema = any(words in reason for words in _NO_SCHEMA)
        advice = ". Make its schema, with a folder: CREATE SCHEMA … LOCATION '/a/folder'" if has_no_schema else ""
        return OptionError(f"{self.option}: cannot {verb} the table {self.name}: {reason}{advice}")


def with_metadata_of(schema: T.StructType, frame: DataFrame) -> DataFrame:
    """The columns of a schema out of a table, with what the schema says of them: few catalogues keep it."""
    return frame.select(*(column(each.name).alias(each.name, metadata=each.metadata) for each in schema.fields))


def place_of_users(
    per_user: DataFrame, path: str | os.PathLike[str] | None, table: str | None, run_id: str | None, mode: str
) -> tuple[AbstractContextManager[DataFrame], Callable[[DataFrame], DataFrame]]:
    """What writes a per-user table once beside its place and gives it as it is read back, and what then moves it to its place.

    A place that cannot be written, or is taken, is an `OptionError`.
    """
    if (path is None) == (table is None):
        raise OptionError(f"name either a path or a table to write to; got {'neither' if path is None else 'both'}")
    if table is not None:
        target = CatalogTable(per_user.sparkSession, table)
        target.check(per_user.schema, run_id, mode)
        return target.staged(per_user), partial(target.write, run_id=run_id)
    if run_id is not None:
        msg = "run_id is for a table of the catalogue, which may have several runs; name one with table="
        raise OptionError(msg)
    path = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(path, str) or not path.strip():
        raise OptionError(f"path must be a non-empty string; got {path!r}")
    if mode == "errorifexists" and exists(per_user.sparkSession, path):
        raise OptionError(f"{path} already exists; choose another path, or pass mode='overwrite'")
    return staged(per_user, path), partial(publish, path=path, mode=mode)
