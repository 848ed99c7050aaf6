"""How an option of the front doors is refused."""

from __future__ import annotations

from spark_rankeval.errors import OptionError


def one_of(option: str, value: object, allowed: tuple[object, ...]) -> None:
    """Refuse a value that an option does not have.

    Args:
        option: its name, for the message.
        value: what was given.
        allowed: what it may be.
    """
    if value not in allowed:
        msg = f"{option} must be one of {', '.join(map(repr, allowed))}; got {value!r}"
        raise OptionError(msg)
