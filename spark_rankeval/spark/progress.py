"""Progress bars for operations on Spark Connect, which reports its finished tasks; tqdm draws them in notebooks and terminals."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from spark_rankeval.checks import is_connect, needs_extra
from spark_rankeval.errors import InputError
from spark_rankeval.spark.platforms import setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.shell.progress import ProgressHandler, StageInfo


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
