"""The items of the lists, labelled or not, with facts from other tables about items and users, and the groups that items are in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, TypeVar

import numpy as np

from spark_rankeval.errors import MetricError
from spark_rankeval.ranking.ragged import Array, BoolArray, FloatArray, IntArray, Ragged, offsets_of

#: What labels have beside their grades if a metric asks for groups: the place of the item's set of groups.
GROUP_SET = "group_set"
#: The same if a metric asks for the short head and the long tail: the place of the item's level of popularity.
LEVEL = "level"
#: The same if a metric asks for the models before: the item's rank in this model's list, infinite if it is not there.
RANK = "rank"
#: The groups that popularity makes.
HEAD, TAIL = "head", "tail"
#: The group of items without one, if they are a group of their own. No text: a column may hold any.
WITHOUT_GROUP = None


def rank_in_model(index: int) -> str:
    """What labels have as `RANK` of each model before, by its index in the call."""
    return f"{RANK} in model {index}"


@dataclass(frozen=True, eq=False)
class GroupSets:
    """The different sets of groups that items are in. The first one is empty: that of items without a group.

    Attributes:
        names: each group's name.
        members: the codes of each set's groups.
        n_items: int64, how many items of the table are in each set.
    """

    names: tuple[str, ...]
    members: Ragged
    n_items: IntArray

    @property
    def n_groups(self) -> int:
        """How many groups there are, those without one included: these have the last code."""
        return len(self.names) + 1

    def spread(self, sets: IntArray, *, apart: bool) -> tuple[IntArray, IntArray, FloatArray]:
        """The groups of some items by their sets: the place of the item, the group's code, and the part of the item, 1 ÷ its groups.

        Items without a group are left out, or are in the last group if they are to stand `apart`.
        """
        set_groups = self.members.take(sets)
        item, group, size = set_groups.user, set_groups.values, set_groups.lengths
        part = 1 / size[item]
        if apart and (size == 0).any():
            lost = np.flatnonzero(size == 0)
            item, group = np.concatenate([item, lost]), np.concatenate([group, np.full(len(lost), self.n_groups - 1)])
            part = np.concatenate([part, np.ones(len(lost))])
            order = np.argsort(item, kind="stable")
            item, group, part = item[order], group[order], part[order]
        return item, group, part

    def memberships(self, sets: IntArray) -> tuple[IntArray, IntArray]:
        """The groups of some items by their sets: the place of the item, and the group's code."""
        item, group, _ = self.spread(sets, apart=False)
        return item, group

    def sizes(self) -> FloatArray:
        """How many of the table's items are in each group, an item of several in each of them; float64 (n_groups,)."""
        sets, group = self.memberships(np.arange(len(self.n_items)))
        return np.bincount(group, self.n_items[sets], self.n_groups).astype(np.float64, copy=False)

    def population(self, *, apart: bool) -> FloatArray:
        """The share of the table's items that each group has; float64 (n_groups,). All are 0 if no item has a group."""
        sets, group, _ = self.spread(np.arange(len(self.n_items)), apart=apart)
        counts = np.zeros(self.n_groups)
        size = np.maximum(self.members.lengths[sets], 1)
        # Items that share alike are counted, which is exact: no sum depends on the order of the sets.
        for n_shares in np.unique(size).tolist():
            alike = size == n_shares
            counts += np.bincount(group[alike], self.n_items[sets[alike]], self.n_groups) / n_shares
        shares: FloatArray = counts / max(float(counts.sum()), 1.0)
        return shares

    def equal(self, *, apart: bool) -> FloatArray:
        """The same share for every group that has an item; float64 (n_groups,)."""
        has_items = (self.population(apart=apart) > 0).astype(np.float64)
        shares: FloatArray = has_items / max(float(has_items.sum()), 1.0)
        return shares


@dataclass(frozen=True, eq=False)
class PopularityLevels:
    """The different numbers of users that items of the training data have. The first level is that of all other items.

    Attributes:
        share_above: float64, which share of all pairs of a user and an item in the training data is of more popular items.
        items_above: float64, which share of the training data's items is more popular.
        n_items: int64, how many items of the training data are in each level.
    """

    share_above: FloatArray
    items_above: FloatArray
    n_items: IntArray

    def head_and_tail(self, head: float, head_unit: str) -> GroupSets:
        """Each level as a set: the short head, the long tail, or neither. The head is this share of ``interactions`` or of ``items``."""
        above = self.share_above if head_unit == "interactions" else self.items_above
        has_items = self.n_items > 0
        members = Ragged((above[has_items] >= head).astype(np.int64), offsets_of(has_items.astype(np.int64)))
        return GroupSets((HEAD, TAIL), members, self.n_items)


Fact = Literal[
    "popularity",
    "long_tail",
    "category",
    "categories",
    "vector",
    "catalogue",
    "history",
    "history_popularity",
    "history_categories",
    "history_vector",
    "baseline",
    "groups",
    "history_groups",
    "levels",
    "history_levels",
    "intents",
    "models_before",
]
"""What a metric can ask to know beside predictions and labels."""

#: The tables that hold each fact, by their names in `Facts`. The categories and the mean vector of a history need two. The
#: intents of labels may be a column of these instead. The models before have lists of their own.
FACT_TABLES: Final[dict[Fact, tuple[str, ...]]] = {
    "popularity": ("training",),
    "long_tail": ("training",),
    "category": ("items",),
    "categories": ("items",),
    "vector": ("items",),
    "catalogue": ("items",),
    "history": ("training",),
    "history_popularity": ("training",),
    "history_categories": ("training", "items"),
    "history_vector": ("training", "items"),
    "baseline": ("baseline",),
    "groups": ("items",),
    "history_groups": ("training", "items"),
    "levels": ("training",),
    "history_levels": ("training",),
    "intents": ("items",),
    "models_before": (),
}
#: Facts about items; they are looked up for every prediction.
ITEM_FACTS: Final[tuple[Fact, ...]] = ("popularity", "long_tail", "category", "categories", "vector", "catalogue")
#: The fields that hold facts of items, of `Recommended` or of the items of a history.
FACT_FIELDS: Final[dict[Fact, tuple[str, ...]]] = {
    "popularity": ("training_users", "training_interactions"),
    "long_tail": ("share_above", "items_above"),
    "category": ("category",),
    "categories": ("category_set",),
    "vector": ("vector",),
    "catalogue": ("is_in_items",),
    "groups": ("group_set",),
    "levels": ("level",),
    "history_popularity": ("training_users",),
    "history_categories": ("category_set",),
    "history_vector": ("vector",),
    "history_groups": ("group_set",),
    "history_levels": ("level",),
}


class Attribute(NamedTuple):
    """A column of the table of items that holds a field."""

    option: str  # of `Facts`, which names the column
    kind: Literal["text", "texts", "vector"]  # one name of each item, names or arrays of them, or arrays of numbers
    plural: str = ""  # what the rows of an item may disagree in; empty: they add up


#: The columns of the table of items, by their fields.
ATTRIBUTES: Final = {
    "category": Attribute("category", "text", "categories"),
    "category_set": Attribute("category", "texts"),
    "vector": Attribute("vector", "vector", "vectors"),
    "group_set": Attribute("group", "texts"),
}
#: The options whose columns hold numbers, not names.
NUMBERS: Final = frozenset(each.option for each in ATTRIBUTES.values() if not each.kind.startswith("text"))
#: Facts about labels alone: metrics that ask for these do not look at other items.
LABEL_FACTS: Final[frozenset[Fact]] = frozenset({"intents", "models_before"})

# The category of an item that has none.
UNKNOWN = -1


T = TypeVar("T")


def required_fact(fact: T | None) -> T:
    """A fact that a metric has named in `reads`; raises a MetricError if it has not."""
    if fact is None:
        msg = "a metric reads a fact that it did not ask for; add the fact to `reads`"
        raise MetricError(msg)
    return fact


@dataclass(frozen=True)
class Totals:
    """The sizes of the other tables.

    Attributes:
        training_users: how many different users the training data has.
        training_items: how many different items it has.
        training_interactions: how many rows it has; rows that repeat a user and item count each time.
        items: how many different items the given catalogue has.
    """

    training_users: int = 0
    training_items: int = 0
    training_interactions: int = 0
    items: int = 0


class CategoryShares(NamedTuple):
    """Which share of something of each user is of each category: an entry for each user and category, in any order.

    Attributes:
        user: int64.
        category: int64, a code.
        share: float64, above 0; those of a user add up to 1.
    """

    user: IntArray
    category: IntArray
    share: FloatArray


def unit_vectors(vectors: Array) -> Array:
    """Vectors scaled to length 1; 0 for a missing vector or one of length 0."""
    square = np.zeros(len(vectors))
    for dimension in range(vectors.shape[1]):
        square += vectors[:, dimension] * vectors[:, dimension]
    usable = np.isfinite(square) & (square > 0)
    length = np.sqrt(np.where(usable, square, 1.0))
    unit: Array = np.where(usable[:, None], vectors / length[:, None], 0.0)
    return unit


@dataclass(frozen=True, eq=False)
class Recommended:
    """The first items of every user's list, ordered by user and then by rank.

    Facts that no metric needs are None.

    Attributes:
        n_users: how many users there are.
        user: int64, the user whose list the item is in.
        rank: int64, from 1.
        grade: float64, of the item's label; NaN without one.
        entry: int64, the place of the item among the predictions as they came.
        score: float64, what the item was ranked by; −rank if lists came in order.
        training_users: int64, how many users of the training data have the item.
        training_interactions: int64, how many rows of the training data are of the item.
        share_above: float64, the share of all pairs of a user and an item in the training data whose item is more popular, by the
            number of its users; 1 for an item that the training data lacks.
        items_above: float64, the share of the training data's items that are more popular; 1 as above.
        category: int64, a code for the item's category; `UNKNOWN` without one.
        category_set: int64, the place of the item's categories among `category_sets`; `UNKNOWN` without any.
        category_sets: the different sets of categories that items have, with a code for each category.
        vector: float64, one row per item; NaN without one.
        is_in_items: whether the given catalogue has the item.
        consumed: whether the user has the item in the training data.
        baseline_rank: int64, the item's rank in the baseline's list for the user; 0 if it is not there.
        history_size: int64 (n_users,), how many different items the user has in the training data.
        history_popularity: int64 (n_users,), how many users have these items, summed over the items.
        history_categories: which share of each user's history is of each category; an item has its categories in equal parts.
        history_vector: float64, one row per user: the mean of these items' vectors at length 1; items without one count as 0.
        baseline_size: int64 (n_users,), how many items the baseline recommends to the user.
        group_set: int64, the place of the item's set of groups.
        groups: the sets of groups.
        history_groups: the places of the sets of the items that each user has in the training data.
        level: int64, the item's level of popularity.
        levels: the levels of popularity.
        history_levels: the levels of the items that each user has in the training data.
        totals: the sizes of the tables.
    """

    n_users: int
    user: IntArray
    rank: IntArray
    grade: FloatArray
    entry: IntArray
    score: FloatArray | None = None
    training_users: IntArray | None = None
    training_interactions: IntArray | None = None
    share_above: FloatArray | None = None
    items_above: FloatArray | None = None
    category: IntArray | None = None
    category_set: IntArray | None = None
    category_sets: Ragged | None = None
    vector: Array | None = None
    is_in_items: BoolArray | None = None
    consumed: BoolArray | None = None
    baseline_rank: IntArray | None = None
    history_size: IntArray | None = None
    history_popularity: IntArray | None = None
    history_categories: CategoryShares | None = None
    history_vector: Array | None = None
    baseline_size: IntArray | None = None
    group_set: IntArray | None = None
    groups: GroupSets | None = None
    history_groups: Ragged | None = None
    level: IntArray | None = None
    levels: PopularityLevels | None = None
    history_levels: Ragged | None = None
    totals: Totals = field(default_factory=Totals)

    @classmethod
    def none(cls, n_users: int) -> Recommended:
        """Users to whom nothing is recommended."""
        nothing = np.zeros(0, np.int64)
        return cls(n_users, nothing, nothing, np.zeros(0), nothing, np.zeros(0))

    @classmethod
    def concatenate(cls, parts: Sequence[Recommended]) -> Recommended:
        """The lists of several parts, one after the other, before any facts are added."""
        first_user = offsets_of([part.n_users for part in parts])
        scores = [part.score for part in parts if part.score is not None]
        return cls(
            n_users=int(first_user[-1]),
            user=np.concatenate([part.user + first for part, first in zip(parts, first_user, strict=False)]),
            rank=np.concatenate([part.rank for part in parts]),
            grade=np.concatenate([part.grade for part in parts]),
            entry=np.concatenate([part.entry for part in parts]),
            score=np.concatenate(scores) if len(scores) == len(parts) else None,
        )

    def with_facts(
        self,
        item_facts: Mapping[str, Any],
        prediction_facts: Mapping[str, Array],
        user_facts: Mapping[str, Any],
        totals: Totals,
    ) -> Recommended:
        """The same lists with facts about their items, about the predictions as they came and about users, and with the tables' sizes."""
        list_facts: dict[str, Any] = {name: values[self.entry] for name, values in prediction_facts.items()}
        return replace(self, **{**list_facts, **item_facts, **user_facts}, totals=totals)

    @cached_property
    def directions(self) -> Array:
        """The items' vectors scaled to length 1; 0 for a missing vector or one of length 0."""
        return unit_vectors(required_fact(self.vector))

    def within(self, k: int | None) -> BoolArray:
        """Which items stand in the first k places; bool, one entry per item."""
        return np.ones(len(self.rank), np.bool_) if k is None else self.rank <= k

    def count(self, which: BoolArray) -> IntArray:
        """How many of each user's items `which` selects; int64 (n_users,)."""
        return np.bincount(self.user[which], minlength=self.n_users)

    def n_within(self, k: int | None) -> IntArray:
        """ρ_k, how many items stand in the first k places; int64 (n_users,)."""
        return self.count(self.within(k))

    def total(self, values: Array, which: BoolArray) -> FloatArray:
        """The sum of each user's values that `which` selects, added one by one in rank order; float64 (n_users,)."""
        # Without any entry numpy ignores the weights and returns whole numbers.
        return np.bincount(self.user[which], values[which], self.n_users).astype(np.float64, copy=False)
