"""Slices of the users: which users a figure is about, by attributes of theirs."""

from __future__ import annotations

import enum
import itertools
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

from spark_rankeval.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from spark_rankeval.records.comparison import ComparisonRow
    from spark_rankeval.records.summary import SummaryRow

    Key = tuple[Any, ...]
    Row = TypeVar("Row", SummaryRow, ComparisonRow)


# As `slice_name` writes them: a value is quoted if it could be taken for something else.
_PIECE = re.compile(
    r"""(?:^|,\ )(?P<attribute>[^=]+)=(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^,'"](?:[^,]|,(?!\ ))*|)""", re.VERBOSE
)


class _Every(enum.Enum):
    """In the place of an attribute's value: all users, whatever theirs is."""

    EVERY = "every"


EVERY: Final = _Every.EVERY


def roll(n_attributes: int, *, totals: bool = False, n_before: int = 0) -> Callable[[Key], Iterator[Key]]:
    """The slices that users of a key belong to: all users, their own slice, and on request the totals of a cube.

    The first `n_before` entries of the key are no attributes, and stay as they are.

    >>> [key for key in roll(2, totals=True)(("DE", "ios")) if EVERY not in key]
    [('DE', 'ios')]
    >>> len(list(roll(2, totals=True)(("DE", "ios")))), len(list(roll(2)(("DE", "ios")))), list(roll(0)(()))
    (4, 2, [()])
    """

    def rolled(key: Key) -> Iterator[Key]:
        before, values = key[:n_before], key[n_before:]
        for kept in itertools.product((False, True), repeat=n_attributes):
            if totals or all(kept) or not any(kept):
                yield before + tuple(v if keep else EVERY for v, keep in zip(values, kept, strict=True))

    return rolled


def slice_name(attributes: Sequence[str], values: Key) -> str:
    """A slice in words; no values at all are all users, as a table without a row has them.

    >>> slice_name(["country", "device"], ("DE", "ios")), slice_name(["country", "device"], (EVERY, None))
    ('country=DE, device=ios', 'device=null')
    >>> slice_name(["country"], (EVERY,)), slice_name(["country"], ()), slice_name(["country"], ("null",))
    ('all', 'all', "country='null'")
    >>> slice_name(["a", "b"], ("1, b=2", EVERY)), slice_name(["a"], ("",))
    ("a='1, b=2'", "a=''")
    """
    pairs = zip(attributes, values, strict=True) if values else ()
    return ", ".join(f"{name}={_value_in_words(value)}" for name, value in pairs if value is not EVERY) or "all"


def _value_in_words(value: Any) -> Any:
    if value is None:
        return "null"
    # Text that reads as something else is quoted: two slices of one name could not be told apart.
    return repr(value) if _misleads(str(value)) else value


def attributes_of(name: str) -> tuple[str, ...]:
    """The attributes whose values a slice has, from its name; none of all users.

    >>> attributes_of("country=DE, device='a, b=1'"), attributes_of("all")
    (('country', 'device'), ())
    """
    return tuple(_pieces(name))


def slice_of(name: str, attributes: Sequence[str]) -> str:
    """The name of the slice by some attributes that a slice by these and others is part of.

    >>> slice_of("country=DE, device='a, b=1'", ["device"]), slice_of("country=DE, device=ios", ["device", "country"])
    ("device='a, b=1'", 'device=ios, country=DE')
    """
    pieces = _pieces(name)
    return ", ".join(pieces[attribute] for attribute in attributes)


def _misleads(value: str) -> bool:
    return value in ("", "null") or value != value.strip() or any(sign in value for sign in ("'", '"', ", ", "=", "\n"))


def is_of_all(key: Key) -> bool:
    """Whether a key, or the part of one that is about users or items, is that of all of them.

    >>> is_of_all((EVERY, EVERY)), is_of_all(()), is_of_all(("DE", EVERY))
    (True, True, False)
    """
    return key.count(EVERY) == len(key)


def in_order(keys: Sequence[Key]) -> list[Key]:
    """All users first, then totals, then slices, each by value."""
    return sorted(keys, key=lambda key: (-sum(v is EVERY for v in key), [("" if v is EVERY else str(v)) for v in key]))


def _in_given_order(names: Iterable[str], order: Mapping[str, Sequence[Any]]) -> list[str]:
    """Names of slices, all users first, then totals, then slices, each by the given order of an attribute's values.

    Values that are not in the order come behind, as they came. An attribute or value of no slice is an `OptionError`.

    >>> _in_given_order(["all", "age=old", "age=young", "age=null"], {"age": ["young", "old"]})
    ['all', 'age=young', 'age=old', 'age=null']
    """
    parted = {name: _pieces(name) for name in names}
    places: dict[str, dict[str, int]] = {}
    for pieces in parted.values():
        for attribute, piece in pieces.items():
            of_attribute = places.setdefault(attribute, {})
            of_attribute.setdefault(piece, len(of_attribute))
    for attribute, values in order.items():
        known = places.get(attribute)
        if known is None:
            msg = f"there are no slices by {attribute!r}; slices are by {', '.join(map(repr, places)) or 'nothing'}"
            raise OptionError(msg)
        given = [slice_name([attribute], (value,)) for value in values]
        unknown = [piece for piece in given if piece not in known]
        if unknown:
            msg = f"no slice has {', '.join(unknown)}; available: {', '.join(known)}"
            raise OptionError(msg)
        places[attribute] = {piece: place for place, piece in enumerate(dict.fromkeys([*given, *known]))}
    attributes = list(places)

    def place(name: str) -> tuple[int, list[tuple[int, int]]]:
        pieces = parted[name].items()
        return len(pieces), [(attributes.index(attribute), places[attribute][piece]) for attribute, piece in pieces]

    return sorted(parted, key=place)


def by_slice(rows: Sequence[Row], order: Mapping[str, Sequence[Any]]) -> tuple[Row, ...]:
    """Rows of a summary or a comparison with their slices in a given order; models and the rows of a slice keep theirs."""
    places = {
        name: place for place, name in enumerate(_in_given_order(dict.fromkeys(row.slice for row in rows), order))
    }
    models = {model: place for place, model in enumerate(dict.fromkeys(row.model for row in rows))}
    whole_models = [row.model for row in rows] == sorted((row.model for row in rows), key=models.__getitem__)
    return tuple(sorted(rows, key=lambda row: (models[row.model] * whole_models, places[row.slice])))


def _pieces(name: str) -> dict[str, str]:
    """The parts of a slice's name by attribute, such as ``country=DE``; none of all users."""
    parts = [] if name == "all" else _PIECE.finditer(name)
    return {part["attribute"]: part[0].removeprefix(", ") for part in parts}
