"""Which users and which items a figure is about: slices of users by attributes, and groups of items."""

from __future__ import annotations

import enum
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spark_rankeval.printed_tables import DASH, Column, Table, text_column
from spark_rankeval.request.task import GROUP_FACTS

Key = tuple[Any, ...]

# As `slice_name` writes them: a value is quoted if it could be taken for something else.
_PIECE = re.compile(
    r"""(?:^|,\ )(?P<attribute>[^=]+)=(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^,'"](?:[^,]|,(?!\ ))*|)""", re.VERBOSE
)


class _AllValues(enum.Enum):
    """In the place of an attribute's value: all users, whatever theirs is."""

    ALL_VALUES = "every"


ALL_VALUES: Final = _AllValues.ALL_VALUES


def rollup(n_attributes: int, *, totals: bool = False, n_before: int = 0) -> Callable[[Key], Iterator[Key]]:
    """The slices that users of a key belong to: all users, their own slice, and on request the totals of a cube.

    The first `n_before` entries of the key are no attributes, and stay as they are.

    >>> [key for key in rollup(2, totals=True)(("DE", "ios")) if ALL_VALUES not in key]
    [('DE', 'ios')]
    >>> len(list(rollup(2, totals=True)(("DE", "ios")))), len(list(rollup(2)(("DE", "ios")))), list(rollup(0)(()))
    (4, 2, [()])
    """

    def rolled(key: Key) -> Iterator[Key]:
        before, values = key[:n_before], key[n_before:]
        for kept in itertools.product((False, True), repeat=n_attributes):
            if totals or all(kept) or not any(kept):
                yield before + tuple(v if keep else ALL_VALUES for v, keep in zip(values, kept, strict=True))

    return rolled


def slice_name(attributes: Sequence[str], values: Key) -> str:
    r"""A slice in words; no values at all are all users, as a table without a row has them.

    >>> slice_name(["country", "device"], ("DE", "ios")), slice_name(["country", "device"], (ALL_VALUES, None))
    ('country=DE, device=ios', 'device=null')
    >>> slice_name(["country"], (ALL_VALUES,)), slice_name(["country"], ()), slice_name(["country"], ("null",))
    ('all', 'all', "country='null'")
    >>> slice_name(["a", "b"], ("1, b=2", ALL_VALUES)), slice_name(["a"], ("",))
    ("a='1, b=2'", "a=''")
    >>> print(slice_name(["a"], ("it's",)))
    a='it\'s'
    """
    pairs = zip(attributes, values, strict=True) if values else ()
    return ", ".join(f"{name}={_value_in_words(value)}" for name, value in pairs if value is not ALL_VALUES) or "all"


def _value_in_words(value: Any) -> Any:
    if value is None:
        return "null"
    # Text that reads as something else is quoted. Otherwise two slices could have one name.
    # A quotation mark in it makes `repr` put apostrophes around all, whatever else is in it.
    return f"'{repr(chr(34) + str(value))[2:]}" if _misleads(str(value)) else value


def attributes_of(name: str) -> tuple[str, ...]:
    """The attributes whose values a slice has, from its name; none of all users.

    >>> attributes_of("country=DE, device='a, b=1'"), attributes_of("all")
    (('country', 'device'), ())
    """
    return tuple(slice_pieces(name))


def slice_of(name: str, attributes: Sequence[str]) -> str:
    """The name of the slice by some attributes that a slice by these and others is part of.

    >>> slice_of("country=DE, device='a, b=1'", ["device"]), slice_of("country=DE, device=ios", ["device", "country"])
    ("device='a, b=1'", 'device=ios, country=DE')
    """
    pieces = slice_pieces(name)
    return ", ".join(pieces[attribute] for attribute in attributes)


def _misleads(value: str) -> bool:
    return value in ("", "null") or value != value.strip() or any(sign in value for sign in ("'", '"', ", ", "=", "\n"))


def is_of_all(key: Key) -> bool:
    """Whether a key, or the part of one that is about users or items, is that of all of them.

    >>> is_of_all((ALL_VALUES, ALL_VALUES)), is_of_all(()), is_of_all(("DE", ALL_VALUES))
    (True, True, False)
    """
    return key.count(ALL_VALUES) == len(key)


def sorted_keys(keys: Sequence[Key], orders: Sequence[Sequence[str]] = ()) -> list[Key]:
    """All users first, then totals, then slices, each by value: first those in the order of their attribute, then others.

    >>> sorted_keys([("old",), ("new",), ("best",), (ALL_VALUES,)], [["new", "old"]])[1:]
    [('new',), ('old',), ('best',)]
    """

    def place(key: Key) -> tuple[int, list[tuple[int, str]]]:
        pairs = zip(key, [*orders, *[()] * len(key)], strict=False)
        values = [
            (order.index(v) if v in order else len(order), "" if v is ALL_VALUES else str(v)) for v, order in pairs
        ]
        return -key.count(ALL_VALUES), values

    return sorted(keys, key=place)


def slice_pieces(name: str) -> dict[str, str]:
    """The parts of a slice's name by attribute, such as ``country=DE``; none of all users."""
    parts = [] if name == "all" else _PIECE.finditer(name)
    return {part["attribute"]: part[0].removeprefix(", ") for part in parts}


#: How the name of an attribute of items begins in the name of a slice, such as ``item genre=drama``. Users may have a ``genre``, too.
ITEM_PREFIX = "item "
#: The group of items that the table of items lacks, and that of items that the training data lacks.
NOT_LISTED, UNSEEN = "(not in items)", "(not in training)"

#: Stands for the values of a user's attributes in a key if figures of a group of items are about no slice of users.
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
    for key in sorted_keys(list(slices)):
        named = [(name, value) for name, value in zip(attributes, key, strict=False) if value is not ALL_VALUES]
        if len(named) == 1 and is_of_all(key[len(attributes) :]):
            ((attribute, group),) = named
            about = slice_name([item_attribute(attribute)], (group,))
            facts = {
                name: slices[key][fact] for name, fact in zip(("n_items", "least", "most"), GROUP_FACTS, strict=True)
            }
            groups.append(ItemGroup(about, attribute, group, **facts))
    return tuple(groups)


def about_items(name: str) -> str:
    """A slice in words: the labels that count, and the users.

    >>> about_items("item genre=drama, country=DE"), about_items("country=DE")
    ('labels of items with genre=drama, users with country=DE', 'users with country=DE')
    """
    attributes = attributes_of(name)
    item_attributes = [attribute for attribute in attributes if attribute.startswith(ITEM_PREFIX)]
    user_attributes = [attribute for attribute in attributes if attribute not in item_attributes]
    parts = (
        [f"labels of items with {slice_of(name, item_attributes).removeprefix(ITEM_PREFIX)}"] if item_attributes else []
    )
    return ", ".join([*parts, *([f"users with {slice_of(name, user_attributes)}"] if user_attributes else [])])


def group_of(name: str) -> str:
    """The group of items that a slice is about, without the word that sets items apart from users.

    >>> group_of("item genre=drama, country=DE")
    'genre=drama'
    """
    item_attributes = [attribute for attribute in attributes_of(name) if attribute.startswith(ITEM_PREFIX)]
    return slice_of(name, item_attributes).removeprefix(ITEM_PREFIX)


def users_of(name: str) -> str:
    """The slice of users that a slice is about, whatever the group of items is.

    >>> users_of("item genre=drama, country=DE"), users_of("item genre=drama")
    ('country=DE', 'all')
    """
    user_attributes = [attribute for attribute in attributes_of(name) if not attribute.startswith(ITEM_PREFIX)]
    return slice_of(name, user_attributes) or "all"


def item_attribute(name: str) -> str:
    """What an attribute of items is called in the names of slices."""
    return ITEM_PREFIX + name


def has_item_group(name: str) -> bool:
    """Whether a slice is about a group of items, from its name.

    >>> has_item_group("item genre=drama, country=DE"), has_item_group("country=DE"), has_item_group("all")
    (True, False, False)
    """
    return any(attribute.startswith(ITEM_PREFIX) for attribute in attributes_of(name))


def is_item_group(name: str) -> bool:
    """Whether a slice is a group of items of all users, from its name.

    >>> is_item_group("item genre=drama"), is_item_group("item genre=drama, country=DE"), is_item_group("all")
    (True, False, False)
    """
    attributes = attributes_of(name)
    return bool(attributes) and all(attribute.startswith(ITEM_PREFIX) for attribute in attributes)


def rollup_with_items(
    rollup: Callable[[Key], Iterable[Key]], attributes: Sequence[str]
) -> Callable[[Key], Iterator[Key]]:
    """The slices of a key that ends in an attribute of items and its group. Both are null for all items of a user.

    The slices of the user, which `rollup` gives, follow an entry for each attribute of items. A key of `NO_SLICE` is of all users alone.

    >>> from spark_rankeval.records.slices import rollup
    >>> rolled = rollup_with_items(rollup(1), ["genre", "year"])
    >>> [key[:2] == (ALL_VALUES, ALL_VALUES) for key in rolled(("DE", None, None))]
    [True, True]
    >>> [key[::2] for key in rolled(("DE", "genre", "drama")) if ALL_VALUES not in key[::2]], list(rolled(("DE", "year", None)))[1][1]
    ([('drama', 'DE')], None)
    >>> [key == ("drama", ALL_VALUES, ALL_VALUES) for key in rolled((NO_SLICE, "genre", "drama"))]
    [True]
    """

    def rolled(key: Key) -> Iterator[Key]:
        *user_values, attribute, group = key
        item_values = tuple(group if name == attribute else ALL_VALUES for name in attributes)
        for values in rollup(tuple(user_values)):
            if NO_SLICE not in values:
                yield item_values + tuple(values)

    return rolled


def item_groups_table(groups: Sequence[ItemGroup]) -> Table:
    """A row for each group of items: how large it is, and its edges if it is one by popularity."""
    columns: list[Column[ItemGroup]] = [
        text_column("group", lambda group: group_of(group.slice)),
        Column("items", lambda group: f"{group.n_items:,}"),
    ]
    if any(group.most for group in groups):
        columns += [
            Column("users of the least popular", lambda group: f"{group.least:,}" if group.most else DASH),
            Column("users of the most popular", lambda group: f"{group.most:,}" if group.most else DASH),
        ]
    return Table(
        groups, columns, caption="Groups of items", dash_means="not a group by popularity in the training data"
    )


def alike_groups(groups_by_day: Iterable[tuple[ItemGroup, ...]]) -> tuple[tuple[ItemGroup, ...], list[str]]:
    """The groups of items of several results that have the same size and edges in each, and the names of the others."""
    groups: dict[str, set[ItemGroup]] = {}
    for group in itertools.chain.from_iterable(groups_by_day):
        groups.setdefault(group.slice, set()).add(group)
    names = sorted(groups, key=lambda name: (attributes_of(name), name))
    return tuple(next(iter(groups[name])) for name in names if len(groups[name]) == 1), [
        name for name in names if len(groups[name]) > 1
    ]
