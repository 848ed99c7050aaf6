"""What a Python worker's process does once, for all the tasks that Spark will give it."""

from __future__ import annotations

import gc
from functools import cache, wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


def in_worker(run: Callable[P, R]) -> Callable[P, R]:
    """What Spark calls in a Python worker; when it is called first, the process settles.

    Between two tasks Spark has the garbage collector look at every object of the process: 17 ms of a processor's time for numpy, pandas
    and pyarrow, though none of it is ever garbage. What is loaded by now, modules above all, is taken out of its sight.
    """

    @wraps(run)
    def settling(*args: P.args, **kwargs: P.kwargs) -> R:
        _settle()
        return run(*args, **kwargs)

    return settling


@cache
def _settle() -> None:
    gc.freeze()
