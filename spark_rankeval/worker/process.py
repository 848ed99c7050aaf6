"""Prepare a Python worker process once, for all its tasks, and let tasks of one process compute in turns."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import Any, TypeVar

import pyarrow as pa

from spark_rankeval.wire import Message, rows_of

Run = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

T = TypeVar("T")
R = TypeVar("R")

# Some engines run workers as threads of one process. Only one thread at a time runs Python, so to hand Python over at every call of numpy
# takes longer than to compute in turns.
_turn = threading.Lock()
_END = object()


def in_worker(run: Callable[..., R]) -> Callable[..., R]:
    """Decorate a function that Spark calls in a Python worker; the first call prepares the process.

    Between two tasks Spark has the garbage collector visit every object of the process. For numpy, pandas and pyarrow that takes 17 ms
    of processor time, though they are never garbage. `gc.freeze` takes what is loaded by then, above all modules, out of its sight.

    Of several tasks in a process one computes, while others wait for rows or hand rows on.
    """

    @wraps(run)
    def wrapper(*args: Any) -> R:
        _settle()
        # The closure travels to the workers as it is, and no lock does.
        return _run_in_turns(run, args)

    return wrapper


def panics_raised(run: Run) -> Run:
    """A function for ``mapInArrow`` that fails if the engine panics while it computes the rows that the function takes.

    Sail takes its own panic for the end of a worker's results, so the rest of the partition would be lost without a word.
    """

    @wraps(run)
    def wrapper(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from run(batches)
        except BaseException as error:
            if type(error).__name__ != "PanicException":
                raise
            msg = f"the engine panicked while it computed rows for a Python worker: {error}"
            raise RuntimeError(msg) from error

    return wrapper


@cache
def _settle() -> None:
    # Sail's workers are threads of the caller's process, whose garbage is not ours.
    if "pysail" not in sys.modules:
        gc.freeze()


def _run_in_turns(run: Callable[..., R], args: tuple[Any, ...]) -> R:
    with _turn:
        result = run(*(_between_turns(each) if isinstance(each, Iterator) else each for each in args))
    return _in_turns(result) if isinstance(result, Iterator) else result  # type: ignore[return-value] # an iterator of the same


def _in_turns(items: Iterator[T]) -> Iterator[T]:
    """The items; each is made in a turn, and nothing holds the turn while the caller has it."""
    while True:
        with _turn:
            item = next(items, _END)
        if item is _END:
            return
        yield item  # type: ignore[misc] # not the end


def _between_turns(items: Iterator[T]) -> Iterator[T]:
    """The items for a function that has the turn, which others take while it waits for the next."""
    while True:
        _turn.release()
        try:
            item = next(items, _END)
        finally:
            _turn.acquire()
        if item is _END:
            return
        yield item  # type: ignore[misc] # not the end


def sends_messages(messages: Callable[[Iterator[pa.RecordBatch]], Iterator[Message]]) -> Run:
    """A function for ``mapInArrow`` that sends the messages of another."""

    @in_worker
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from rows_of(messages(batches))

    return run
