"""Groups of items beside slices of users: which groups a figure is about, and what they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_rankeval.records.slices import EVERY, attributes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from spark_rankeval.records.slices import Key

#: How the name of an attribute of items begins in the name of a slice, such as ``item genre=drama``. Users may have a ``genre``, too.
OF_ITEMS = "item "
#: The group of items that the table of items lacks, and that of items that the training data lacks.
NOT_LISTED, UNSEEN = "(not in items)", "(not in training)"


def item_attribute(name: str) -> str:
    """What an attribute of items is called in the names of slices."""
    return OF_ITEMS + name


def has_item_group(name: str) -> bool:
    """Whether a slice is about a group of items, from its name.

    >>> has_item_group("item genre=drama, country=DE"), has_item_group("country=DE"), has_item_group("all")
    (True, False, False)
    """
    return any(attribute.startswith(OF_ITEMS) for attribute in attributes_of(name))


def roll_with_items(roll: Callable[[Key], Iterable[Key]], attributes: Sequence[str]) -> Callable[[Key], Iterator[Key]]:
    """The slices for a key that ends in an attribute of items and a group of it; both are null for all items of a user.

    The slices of the user, which `roll` gives, follow an entry for each attribute of items.

    >>> from spark_rankeval.records.slices import roll
    >>> rolled = roll_with_items(roll(1), ["genre", "year"])
    >>> [key[:2] == (EVERY, EVERY) for key in rolled(("DE", None, None))]
    [True, True]
    >>> [key[::2] for key in rolled(("DE", "genre", "drama")) if EVERY not in key[::2]], list(rolled(("DE", "year", None)))[1][1]
    ([('drama', 'DE')], None)
    """

    def rolled(key: Key) -> Iterator[Key]:
        *of_user, attribute, group = key
        of_items = tuple(group if name == attribute else EVERY for name in attributes)
        for values in roll(tuple(of_user)):
            yield of_items + tuple(values)

    return rolled
