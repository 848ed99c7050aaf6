"""Which users and which items a figure is about: slices of users by their attributes, and groups of items beside them."""

from __future__ import annotations

import enum
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

from spark_rankeval.errors import OptionError
from spark_rankeval.request.task import GROUP_FACTS

if TYPE_CHECKING:
    from spark_rankeval.records.comparison_rows import ComparisonRow
    from spark_rankeval.records.summary import SummaryRow

    Row = TypeVar("Row", SummaryRow, ComparisonRow)

Key = tuple[Any, ...]

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


#: How the name of an attribute of items begins in the name of a slice, such as ``item genre=drama``. Users may have a ``genre``, too.
OF_ITEMS = "item "
#: The group of items that the table of items lacks, and that of items that the training data lacks.
NOT_LISTED, UNSEEN = "(not in items)", "(not in training)"


#: In the place of the values of a user's attributes in a key: what is told of a group of items is about no slice of users.
NO_SLICE = -1


@dataclass(frozen=True)
class ItemGroup:
    """A group of items that a result has figures of, one of `Result.item_groups`.

    Examples:
        >>> films = spark.createDataFrame([("a", "drama"), ("b", "drama"), ("c", "comedy")], "item string, genre string")
        >>> facts = Facts(items=films, item_by="genre")
        >>> groups = evaluate(predictions, labels, "rr", score="score", facts=facts).item_groups
        >>> [(group.slice, group.n_items) for group in groups]
        [('item genre=(not in items)', 0), ('item genre=comedy', 1), ('item genre=drama', 2)]

    Attributes:
        slice: what the group is called in the summary, such as ``item genre=drama``.
        attribute: the column of the table of items, or ``popularity``.
        group: the value of the column, or the number of the group by popularity; None is null.
        n_items: how many items are in it.
        least: of groups by popularity, how many users of the training data have its least popular item; else 0.
        most: the same of its most popular item.
    """

    slice: str
    attribute: str
    group: str | None
    n_items: int
    least: int
    most: int


def item_groups_in(slices: Mapping[Key, Mapping[str, int]], attributes: Sequence[str]) -> tuple[ItemGroup, ...]:
    """The groups of items among slices, from how many items each has, and its edges, by name."""
    groups = []
    for key in in_order(list(slices)):
        named = [(name, value) for name, value in zip(attributes, key, strict=False) if value is not EVERY]
        if len(named) == 1 and is_of_all(key[len(attributes) :]):
            ((attribute, group),) = named
            about = slice_name([item_attribute(attribute)], (group,))
            facts = {
                name: slices[key][fact] for name, fact in zip(("n_items", "least", "most"), GROUP_FACTS, strict=True)
            }
            groups.append(ItemGroup(about, attribute, group, **facts))
    return tuple(groups)


def alike_groups(of_days: Iterable[tuple[ItemGroup, ...]]) -> tuple[tuple[ItemGroup, ...], list[str]]:
    """The groups of items of several results that have the same size and edges in each, and the names of the others."""
    groups: dict[str, set[ItemGroup]] = {}
    for group in chain.from_iterable(of_days):
        groups.setdefault(group.slice, set()).add(group)
    names = sorted(groups, key=lambda name: (attributes_of(name), name))
    return tuple(next(iter(groups[name])) for name in names if len(groups[name]) == 1), [
        name for name in names if len(groups[name]) > 1
    ]


def unknown_groups(summaries: Iterable[Sequence[SummaryRow]], of_days: Iterable[tuple[ItemGroup, ...]]) -> list[str]:
    """The groups of items with figures in a summary that does not tell their sizes and edges, which other days may not share.

    Days whose tables of items and training data are the same have the same groups.
    """
    names: set[str] = set()
    tables = set()
    for rows, groups in zip(summaries, of_days, strict=True):
        names |= {row.slice for row in rows if is_item_group(row.slice)} - {group.slice for group in groups}
        tables |= {tuple(row.fingerprints.get(table) for table in ("items", "training")) for row in rows}
    if len(tables) == 1 and any(next(iter(tables))):
        return []
    return sorted(names, key=lambda name: (attributes_of(name), name))


def about_items(name: str) -> str:
    """A slice in words: the labels that count, and the users.

    >>> about_items("item genre=drama, country=DE"), about_items("country=DE")
    ('labels of items with genre=drama, users with country=DE', 'users with country=DE')
    """
    attributes = attributes_of(name)
    of_items = [attribute for attribute in attributes if attribute.startswith(OF_ITEMS)]
    of_users = [attribute for attribute in attributes if attribute not in of_items]
    parts = [f"labels of items with {slice_of(name, of_items).removeprefix(OF_ITEMS)}"] if of_items else []
    return ", ".join([*parts, *([f"users with {slice_of(name, of_users)}"] if of_users else [])])


def group_of(name: str) -> str:
    """The group of items that a slice is about, without the word that sets items apart from users.

    >>> group_of("item genre=drama, country=DE")
    'genre=drama'
    """
    of_items = [attribute for attribute in attributes_of(name) if attribute.startswith(OF_ITEMS)]
    return slice_of(name, of_items).removeprefix(OF_ITEMS)


def users_of(name: str) -> str:
    """The slice of users that a slice is about, whatever the group of items is.

    >>> users_of("item genre=drama, country=DE"), users_of("item genre=drama")
    ('country=DE', 'all')
    """
    of_users = [attribute for attribute in attributes_of(name) if not attribute.startswith(OF_ITEMS)]
    return slice_of(name, of_users) or "all"


def item_attribute(name: str) -> str:
    """What an attribute of items is called in the names of slices."""
    return OF_ITEMS + name


def has_item_group(name: str) -> bool:
    """Whether a slice is about a group of items, from its name.

    >>> has_item_group("item genre=drama, country=DE"), has_item_group("country=DE"), has_item_group("all")
    (True, False, False)
    """
    return any(attribute.startswith(OF_ITEMS) for attribute in attributes_of(name))


def is_item_group(name: str) -> bool:
    """Whether a slice is a group of items of all users, from its name.

    >>> is_item_group("item genre=drama"), is_item_group("item genre=drama, country=DE"), is_item_group("all")
    (True, False, False)
    """
    attributes = attributes_of(name)
    return bool(attributes) and all(attribute.startswith(OF_ITEMS) for attribute in attributes)


def roll_with_items(roll: Callable[[Key], Iterable[Key]], attributes: Sequence[str]) -> Callable[[Key], Iterator[Key]]:
    """The slices for a key that ends in an attribute of items and a group of it; both are null for all items of a user.

    The slices of the user, which `roll` gives, follow an entry for each attribute of items. A key of `NO_SLICE` is of all users alone.

    >>> from spark_rankeval.records.slices import roll
    >>> rolled = roll_with_items(roll(1), ["genre", "year"])
    >>> [key[:2] == (EVERY, EVERY) for key in rolled(("DE", None, None))]
    [True, True]
    >>> [key[::2] for key in rolled(("DE", "genre", "drama")) if EVERY not in key[::2]], list(rolled(("DE", "year", None)))[1][1]
    ([('drama', 'DE')], None)
    >>> [key == ("drama", EVERY, EVERY) for key in rolled((NO_SLICE, "genre", "drama"))]
    [True]
    """

    def rolled(key: Key) -> Iterator[Key]:
        *of_user, attribute, group = key
        of_items = tuple(group if name == attribute else EVERY for name in attributes)
        for values in roll(tuple(of_user)):
            if NO_SLICE not in values:
                yield of_items + tuple(values)

    return rolled
