"""How an option of the front doors is refused."""

from __future__ import annotations

import numbers
from typing import Any

from spark_rankeval.errors import InputError, OptionError


def one_of(option: str, value: object, allowed: tuple[object, ...]) -> None:
    """Refuse a value that an option does not have.

    Args:
        option: its name, for the message.
        value: what was given.
        allowed: what it may be.
    """
    # 1 is not True here, and what has no hash or no == is nothing that is allowed.
    if not any(type(value) is type(one) and value == one for one in allowed):
        msg = f"{option} must be one of {', '.join(map(repr, allowed))}; got {value!r}"
        raise OptionError(msg)


def as_names(option: str, given: object) -> tuple[str, ...]:
    """The names of columns as a caller gives them: one, or several different ones.

    Args:
        option: its name, for the message.
        given: what was given.

    Raises:
        InputError: it is neither.
    """
    names = (given,) if isinstance(given, str) else given
    if (
        not isinstance(names, tuple | list)
        or not all(isinstance(name, str) for name in names)
        or len(set(names)) < len(names)
    ):
        msg = f"{option} must be the name of a column, or a list of different names; got {given!r}"
        raise InputError(msg)
    return tuple(names)


def check_place(option: str, path: str) -> None:
    """Refuse a path to write to that Spark would not find again: it writes to the path itself, and reads such a path as a pattern.

    Args:
        option: its name, for the message.
        path: what was given.

    Raises:
        OptionError: the path has a character of patterns.
    """
    special = [character for character in "[]{}*?\\" if character in path]
    if special:
        msg = f"{option}: {path} has {' '.join(special)}, which Spark reads as a pattern of several paths; choose a path without"
        raise OptionError(msg)


def is_number(value: object, kind: type = numbers.Real) -> bool:
    """Whether a value is a number of a kind; true and false are none."""
    return isinstance(value, kind) and not isinstance(value, bool)


def check_table(role: str, frame: Any) -> None:
    """Refuse what is no DataFrame.

    Args:
        role: what it was given as.
        frame: what was given.

    Raises:
        InputError: so it is.
    """
    if not (hasattr(frame, "schema") and hasattr(frame, "select")):
        msg = f"{role} must be a Spark DataFrame; got a {type(frame).__name__}"
        raise InputError(msg)


def check_totals(totals: object, by: tuple[str, ...]) -> None:
    """Refuse totals that are no yes or no, or that are over nothing.

    Raises:
        OptionError: so it is.
    """
    one_of("totals", totals, (True, False))
    if totals and not by:
        msg = "totals=True is for slices: name the attributes that part the users with by="
        raise OptionError(msg)


def check_name(option: str, given: object) -> None:
    """Refuse what is no column's name, and not None either.

    Args:
        option: its name, for the message.
        given: what was given.

    Raises:
        InputError: so it is.
    """
    if not (given is None or isinstance(given, str)):
        msg = f"{option} must be the name of a column; got {given!r}"
        raise InputError(msg)
