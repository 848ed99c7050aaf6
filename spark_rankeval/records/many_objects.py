"""Make many small objects at once."""

from __future__ import annotations

import gc
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

# So many objects take longer to visit than an evaluation should: some milliseconds. Fewer stay young.
_MANY = 50_000

P = ParamSpec("P")
R = TypeVar("R")


def without_collection(make: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that makes figures or rows by the thousand, and no garbage.

    Python's collector would visit all of them again and again while they are made, and just afterwards, for a third of the time. So it
    pauses. If they are many, they then count among the old objects, which it seldom visits.
    """

    @wraps(make)
    def making(*args: P.args, **kwargs: P.kwargs) -> R:
        was_on = gc.isenabled()
        gc.disable()
        try:
            return make(*args, **kwargs)
        finally:
            if was_on:
                if gc.get_count()[0] > _MANY and not gc.get_freeze_count():
                    # Without a visit: what thaws is old.
                    gc.freeze()
                    gc.unfreeze()
                gc.enable()

    return making
