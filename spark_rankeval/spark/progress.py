"""Progress bars for long operations: tqdm draws what Spark Connect reports, in notebooks and terminals."""

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


# Operations that take fewer seconds need no bar.
_DELAY = 0.5
_FORMAT = "{desc}: {percentage:3.0f}%|{bar}|{postfix} [{elapsed}]"


@contextmanager
def progress(spark: SparkSession) -> Iterator[None]:
    """Show how far Spark is while the block runs, in a notebook or a terminal.

    ``with progress(spark): result = evaluate(…)``. On Spark Connect (4.0 or newer), each operation that takes longer than half a second
    has a bar of its finished tasks. Spark may find more tasks on the way. The bar goes away when the operation is done. Classic Spark
    has a bar of its own. To show it, set ``spark.ui.showConsoleProgress`` when you build the session; no setting is changed here. A job
    whose output goes to a file has no bar. Use one block at a time: two blocks show two bars.

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
    if not _is_watched():
        yield
        return
    if not is_connect(spark):
        if setting(spark, "spark.ui.showConsoleProgress", "false") != "true":
            msg = (
                "classic Spark shows its own progress bar, or none; set it when the session is built: "
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
    # Handlers have an abstract class in Spark Connect, whose packages may be missing.
    handler = cast("ProgressHandler", bars)
    spark.registerProgressHandler(handler)
    try:
        yield
    finally:
        # The caller may have cleared all handlers meanwhile.
        with suppress(ValueError):
            spark.removeProgressHandler(handler)
        bars.close()


def _is_watched() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    is_notebook = shell is not None and "IPKernelApp" in shell.config
    return is_notebook or (sys.stderr is not None and sys.stderr.isatty())


def _bar_maker() -> Callable[[], Any]:
    with needs_extra("notebook", "progress bars"), warnings.catch_warnings():
        # Without ipywidgets tqdm writes its bar as text, which is enough, but it warns at every first import.
        warnings.filterwarnings("ignore", message="IProgress not found")
        from tqdm.auto import tqdm  # noqa: PLC0415 # an extra
    # The bar shows a share, not a number of tasks: a widget's total cannot grow when Spark finds more tasks.
    return lambda: tqdm(total=1.0, desc="Spark", leave=False, delay=_DELAY, bar_format=_FORMAT)


class _Bars:
    """A bar for each operation, as a handler of Spark Connect."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._bars: dict[str | None, Any] = {}

    def __call__(
        self, stages: Iterable[StageInfo] | None, inflight_tasks: int, operation_id: str | None, done: bool
    ) -> None:
        # An error here would end the user's query, so a bar that cannot be drawn is left out.
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
            self._bars[operation_id] = self._make()
        bar = self._bars[operation_id]
        bar.set_postfix_str(f"{finished:,} of {tasks:,} tasks, {running:,} running", refresh=False)
        bar.update(finished / tasks - bar.n)

    def _close(self, operation_id: str | None) -> None:
        bar = self._bars.pop(operation_id, None)
        if bar is not None:
            # A widget that is closed before its end stays on screen in red. If the work failed, an exception says so.
            bar.n = bar.total
            bar.close()

    def close(self) -> None:
        """Remove the bars of operations that never reported their end."""
        for operation_id in list(self._bars):
            with suppress(Exception):
                self._close(operation_id)
