"""Groups of items beside slices of users: which groups a figure is about, and what they are called."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from spark_rankeval.records.slices import EVERY, attributes_of, in_order, is_of_all, slice_name, slice_of
from spark_rankeval.request.task import GROUP_FACTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from spark_rankeval.records.slices import Key
    from spark_rankeval.records.summary import SummaryRow

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
