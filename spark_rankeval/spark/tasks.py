"""What Spark's tasks receive and give back: functions for Python workers, packed tables, messages, and how far they are."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.checks import is_connect, needs_extra, tested_engine
from spark_rankeval.errors import EngineError, InputError
from spark_rankeval.spark.engine import check_local_workers, engine_of, pandas_notice_held, setting, workers_explained
from spark_rankeval.worker import process
from spark_rankeval.worker.process import BUCKET, KIND, PAYLOAD, Mergers, Message, merged_by_bucket

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.connect.shell.progress import ProgressHandler, StageInfo


def run_on_workers(frame: DataFrame, run: process.Run, schema: T.StructType | str) -> DataFrame:
    """``mapInArrow``, if workers on this machine can run the function, and without PySpark's remarks on pandas."""
    _check_workers_of(frame.sparkSession)
    with pandas_notice_held():
        return frame.mapInArrow(process.errors_raised(run), schema)


def without_file_metadata(frame: DataFrame) -> DataFrame:
    """Rows that can be united with those of other files and then grouped.

    Sail does not group rows of a union if the metadata of the files' schemas differ, as in files of pandas.
    """
    return frame if engine_of(frame.sparkSession).is_spark else run_on_workers(frame, iter, frame.schema)


def pandas_function(run: Callable[..., object], schema: T.StructType) -> Callable[..., Column]:
    """A pandas UDF of a function with type hints that say what it takes, without PySpark's remarks on pandas."""
    session = SparkSession.getActiveSession()
    if session is not None:
        _check_workers_of(session)
    with pandas_notice_held():
        return F.pandas_udf(run, schema)  # type: ignore[attr-defined, no-any-return] # missing from the stubs


def _check_workers_of(session: SparkSession) -> None:
    tested_engine(session)
    # A Connect server is somewhere else, unless this process has started it.
    if not is_connect(session) or "SPARK_LOCAL_REMOTE" in os.environ:
        check_local_workers(setting(session, "spark.master", ""))


_SCHEMA = T.StructType([T.StructField(process.PACKED, T.BinaryType())])
# A message of Spark Connect takes 128 MB, and the tables are a part of one.
_MOST_BYTES = 120_000_000
_ROW_TOO_LARGE = (
    "the vectors, facts or groups of the items take more than 120 MB, and no larger table reaches the Python code of this engine; use "
    "PySpark, or fewer items"
)
# Columns that tell to which rows a table is given.
_FIRST, _EVERY = "first_", "every_"


def packed(rows: DataFrame, pack: process.Run) -> DataFrame:
    """One row per partition with the packed table of its rows; `pack` makes it."""
    return run_on_workers(rows, pack, _SCHEMA)


def packed_together(
    rows: DataFrame,
    read: Callable[[pa.RecordBatch], pa.Table] = process.rows_in,
    combine: Callable[[pa.Table], pa.Table] | None = None,
) -> DataFrame:
    """One row per partition with the packed table of its rows; `read` and `combine` as of `pack_together`."""
    most_bytes = process.MOST_BYTES if engine_of(rows.sparkSession).is_spark else _MOST_BYTES
    return packed(rows, process.pack_together(read, combine, most_bytes))


def broadcast_row(rows: DataFrame, one: DataFrame) -> DataFrame:
    """The rows, each with the columns of the one row of another table, which is broadcast.

    By a key that is always true, and Spark does not know: beside a join of all rows with all it would leave partitions small.
    """
    keyed = rows.withColumn(_EVERY, F.rand(0) >= 0)
    one_row = one.withColumn(_EVERY, F.pmod(F.xxhash64(*one.columns), F.lit(2)) < 2)
    return keyed.join(one_row.hint("broadcast"), _EVERY, "left").drop(_EVERY)


def broadcast_tables(rows: DataFrame, tables: Mapping[str, DataFrame]) -> DataFrame:
    """The rows with a column for each packed table, a row or none. The first row of each partition has it, the others have null.

    It is broadcast, so that nothing is shuffled and no row moves. What runs next on each partition finds it in its first row. An engine
    that may move rows gets the tables with the function, after an action.
    """
    if not tables:
        return rows
    if not engine_of(rows.sparkSession).is_spark:
        return _attached(rows, tables)
    # The number of a row within its partition: the low bits of Spark's number of it.
    row_of_partition = F.monotonically_increasing_id().bitwiseAND(F.lit((1 << 33) - 1))
    numbered = rows.withColumn(_FIRST, row_of_partition == 0)
    for name, table in tables.items():
        # Always true, and Spark does not know: of a constant it would make a join of all rows with all.
        cells = F.col(process.PACKED)
        one = table.select(cells.isNotNull().alias(_FIRST), cells.alias(name))
        numbered = numbered.join(one.hint("broadcast"), _FIRST, "left")
    return numbered.drop(_FIRST)


def _cell(table: DataFrame) -> bytes | None:
    """The packed table of a table of one row or none."""
    try:
        rows = table.collect()
    except PySparkException as error:
        if "larger than max" not in str(error):
            raise
        raise EngineError(_ROW_TOO_LARGE) from error
    return bytes(rows[0][process.PACKED]) if rows else None


def _attached(rows: DataFrame, tables: Mapping[str, DataFrame]) -> DataFrame:
    """The rows with each table in a column, from a function that holds the tables, which are collected first."""
    with workers_explained():
        cells = {name: _cell(table) for name, table in tables.items()}
    if sum(map(len, filter(None, cells.values()))) > _MOST_BYTES:
        raise EngineError(_ROW_TOO_LARGE)
    columns = [T.StructField(name, T.BinaryType()) for name in cells]
    return run_on_workers(rows, process.attach(cells), T.StructType([*rows.schema.fields, *columns]))


MESSAGE_SCHEMA = T.StructType(
    [
        T.StructField(BUCKET, T.IntegerType()),
        T.StructField(KIND, T.StringType()),
        T.StructField(PAYLOAD, T.BinaryType()),
    ]
)
# Smaller states the driver takes as they are: a shuffle in between would cost more.
_TAKEN_BY_DRIVER = 128_000
# Messages without a bucket meet in so many; if their states are larger than this, they meet once more in one.
_WIDTH, _LARGE = 8, 1 << 23


def collected_messages(
    messages: DataFrame, mergers: Mergers, n_bytes: int, *, have_buckets: bool = False
) -> list[Message]:
    """The messages of all partitions, merged on the way if they are large, in one action.

    A message travels by its bucket or its partition, never by its bytes. If it is lost and made again, it goes where it went before. If
    messages have buckets, each is merged by itself, so that no two of the results have a group in common. `n_bytes` is the size of a
    packed state.
    """
    widths = [_WIDTH] * (n_bytes > _TAKEN_BY_DRIVER) + [1] * (n_bytes > _LARGE)
    for width in [_WIDTH] if have_buckets else widths:
        messages = merged_messages(messages, mergers, width)
    with workers_explained(frames=[messages]):
        return [Message(row[BUCKET], row[KIND], bytes(row[PAYLOAD])) for row in messages.collect()]


def merged_messages(messages: DataFrame, mergers: Mergers, width: int = _WIDTH) -> DataFrame:
    """The messages with those of each bucket merged; others meet in so many places by their partition."""
    bucket = F.coalesce(BUCKET, F.spark_partition_id() % width)
    met = messages.select(bucket.alias(BUCKET), KIND, PAYLOAD).repartition(BUCKET)
    # Adaptive execution may put several buckets into one partition: they are merged one after the other even so.
    keeps_order = engine_of(messages.sparkSession).is_spark
    if keeps_order:
        met = met.sortWithinPartitions(KIND, BUCKET)
    return run_on_workers(met, merged_by_bucket(mergers, sort=not keeps_order), MESSAGE_SCHEMA)


# Bars appear after so many seconds, so short operations have none.
_DELAY = 0.5
_FORMAT = "{desc}: {percentage:3.0f}%|{bar}|{postfix} [{elapsed}]"


@contextmanager
def progress(spark: SparkSession) -> Iterator[None]:
    """Show how far Spark is while the block runs, in a notebook or a terminal.

    On Spark Connect (4.0 or newer), each operation that takes longer than half a second has a bar of its finished tasks. The bar may fall
    back, because Spark may add tasks while an operation runs. It disappears when the operation is done. Classic Spark draws a bar of its
    own if ``spark.ui.showConsoleProgress`` was true when the session was built. `progress` changes no setting and warns if no bar can
    appear. If the output goes to a file, there is no bar and no warning. Use one block at a time: nested blocks show each bar twice.

    Examples:
        >>> with progress(spark):
        ...     mean = evaluate(predictions, labels, "rr", score="score")["rr"]
        ...

    Args:
        spark: the session that does the work.

    Raises:
        InputError: `spark` is not a session.
        MissingExtraError: a bar would be shown, and tqdm is not installed.
    """
    if not hasattr(spark, "conf"):
        msg = f"progress needs the Spark session that does the work, as in progress(spark); got {type(spark).__name__}"
        raise InputError(msg)
    if not _is_interactive():
        yield
        return
    if not is_connect(spark):
        # Classic Spark draws its bar itself.
        if setting(spark, "spark.ui.showConsoleProgress", "false") != "true":
            msg = (
                "no progress bar is shown, because this session of classic Spark has its bar turned off; to see it, build the session with "
                "SparkSession.builder.config('spark.ui.showConsoleProgress', 'true')"
            )
            warnings.warn(msg, stacklevel=3)
        yield
        return
    if not hasattr(spark, "registerProgressHandler"):
        warnings.warn("Spark Connect reports no progress before version 4.0, so no bar is shown", stacklevel=3)
        yield
        return
    bars = _Bars(_bar_maker())
    # No subclass of Spark's abstract ProgressHandler: its import fails if the packages of Spark Connect are missing.
    handler = cast("ProgressHandler", bars)
    spark.registerProgressHandler(handler)
    try:
        yield
    finally:
        # The block may have cleared all handlers itself.
        with suppress(ValueError):
            spark.removeProgressHandler(handler)
        bars.close()


def _is_interactive() -> bool:
    """Whether bars can be seen: in a notebook, or if stderr is a terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    is_notebook = shell is not None and "IPKernelApp" in shell.config
    return is_notebook or (sys.stderr is not None and sys.stderr.isatty())


def _bar_maker() -> Callable[[], Any]:
    """A function that makes an empty bar."""
    with needs_extra("notebook", "progress bars"), warnings.catch_warnings():
        # Without ipywidgets tqdm warns at its import, and writes its bars as text, which is good enough.
        warnings.filterwarnings("ignore", message="IProgress not found")
        from tqdm.auto import tqdm  # noqa: PLC0415 # an extra
    # A bar counts to 1, not to the number of tasks: a widget's total cannot grow if Spark adds tasks.
    return lambda: tqdm(total=1.0, desc="Spark", leave=False, delay=_DELAY, bar_format=_FORMAT)


class _Bars:
    """A handler for Spark Connect that draws one bar per operation."""

    def __init__(self, make_bar: Callable[[], Any]) -> None:
        self._make_bar = make_bar
        self._bars: dict[str | None, Any] = {}

    def __call__(
        self, stages: Iterable[StageInfo] | None, inflight_tasks: int, operation_id: str | None, done: bool
    ) -> None:
        # Spark would end the query with any error raised here, so bars fail silently.
        with suppress(Exception):
            if done:
                self._close(operation_id)
            else:
                self._draw(list(stages or ()), inflight_tasks, operation_id)

    def _draw(self, stages: list[StageInfo], running: int, operation_id: str | None) -> None:
        tasks = sum(stage.num_tasks for stage in stages)
        if not tasks:
            return
        finished = sum(stage.num_completed_tasks for stage in stages)
        if operation_id not in self._bars:
            self._bars[operation_id] = self._make_bar()
        bar = self._bars[operation_id]
        bar.set_postfix_str(f"{finished:,} of {tasks:,} tasks, {running:,} running", refresh=False)
        bar.update(finished / tasks - bar.n)

    def _close(self, operation_id: str | None) -> None:
        bar = self._bars.pop(operation_id, None)
        if bar is not None:
            # A widget that is closed before it is full stays on the screen in red. That a query failed is said by its exception.
            bar.n = bar.total
            bar.close()

    def close(self) -> None:
        """Remove the bars of operations that never reported their end."""
        for operation_id in list(self._bars):
            with suppress(Exception):
                self._close(operation_id)
