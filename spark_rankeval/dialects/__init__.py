"""Named conventions: what a system's name for a metric means."""

from __future__ import annotations

from spark_rankeval.dialects.published import DEFAULT as DEFAULT
from spark_rankeval.dialects.published import DIALECTS
from spark_rankeval.dialects.published import EVERY_METRIC as EVERY_METRIC
from spark_rankeval.dialects.published import STANDARD as STANDARD
from spark_rankeval.dialects.published import Dialect as Dialect
from spark_rankeval.dialects.published import UnusualGrades as UnusualGrades
from spark_rankeval.errors import DialectError, did_you_mean

# Of the versions of a system the one that stands first is the newest.
_BY_NAME = {name.lower(): dialect for dialect in reversed(DIALECTS) for name in (dialect.name, dialect.system)}


def every_dialect() -> tuple[Dialect, ...]:
    """All dialects, the default first, of each system the newest version."""
    return tuple({dialect.system: dialect for dialect in reversed(DIALECTS)}.values())[::-1]


def find_dialect(name: str | Dialect) -> Dialect:
    """A dialect by its name, or by its system for the newest version; a dialect passes through.

    Raises:
        DialectError: no dialect has that name; the message lists near ones and all.
    """
    if isinstance(name, Dialect):
        return name
    if isinstance(name, str) and name.lower() in _BY_NAME:
        return _BY_NAME[name.lower()]
    msg = (
        f"no dialect is called {name!r}; {did_you_mean(name, _BY_NAME)}available: "
        f"{', '.join(dialect.name for dialect in DIALECTS)}"
    )
    raise DialectError(msg)
