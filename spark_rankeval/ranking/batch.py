"""The ranked lists of a batch of users, as metrics read them, with the facts of recommended items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Final, Literal, NamedTuple, Self, TypeVar

import numpy as np

from spark_rankeval.errors import MetricError
from spark_rankeval.ranking import user_lists
from spark_rankeval.ranking.user_lists import Array, BoolArray, FloatArray, IntArray, IntentPairs, Memory, Ragged, Runs

#: What labels have beside their grades if a metric asks for groups: the place of the item's set of groups.
GROUP_SET = "group_set"
#: What they have if a metric asks for the models before: the item's rank in this model's list, infinite if it is not there.
RANK = "rank"
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
        """An equal share for every group that has an item; float64 (n_groups,)."""
        has_items = (self.population(apart=apart) > 0).astype(np.float64)
        shares: FloatArray = has_items / max(float(has_items.sum()), 1.0)
        return shares


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
    "history_popularity": ("training_users",),
    "history_categories": ("category_set",),
    "history_vector": ("vector",),
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
        totals: the sizes of the tables.
    """

    n_users: int
    user: IntArray
    rank: IntArray
    grade: FloatArray
    entry: IntArray
    score: FloatArray
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
    totals: Totals = field(default_factory=Totals)

    @classmethod
    def none(cls, n_users: int) -> Recommended:
        """Users to whom nothing is recommended."""
        nothing = np.zeros(0, np.int64)
        return cls(n_users, nothing, nothing, np.zeros(0), nothing, np.zeros(0))

    @classmethod
    def concatenate(cls, parts: Sequence[Recommended]) -> Recommended:
        """The lists of several parts, one after the other, before any facts are added."""
        first_user = user_lists.offsets_of([part.n_users for part in parts])
        users = user_lists.joined_indices([part.user for part in parts], first_user)
        others = [[getattr(part, name) for part in parts] for name in ("rank", "grade", "entry", "score")]
        return cls(int(first_user[-1]), users, *map(user_lists.joined, others))

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


def is_relevant(grade: FloatArray, threshold: float | None) -> BoolArray:
    """Which labelled items are relevant: grade at or above the threshold; without one, grade above 0."""
    if threshold is None:
        return grade > 0
    # A NaN grade (only MLlib's dialect lets one in) is not below any threshold: labelled is then relevant.
    return ~(grade < threshold)


def retrieved(batch: RankingBatch, k: int | None) -> IntArray:
    """ρ_k = min(k, ρ), how many items stand in the first k places; ρ without a cutoff."""
    return batch.n_predictions if k is None else np.minimum(batch.n_predictions, k)


class Hits(NamedTuple):
    """The relevant items of the lists, by user and then by rank.

    Attributes:
        user: int64, whose list.
        rank: int64, from 1.
        ordinal: int64, H at that rank: how many hits stand at it or above.
        entry: int64, its index among the labelled predictions.
    """

    user: IntArray
    rank: IntArray
    ordinal: IntArray
    entry: IntArray


@dataclass(frozen=True, eq=False)
class RankingBatch(Memory):
    """Ranked lists of many users, reduced to what metrics need: their labelled items, by user and then by rank.

    An item without a label gains nothing: it only shows in the ranks of others and in `n_predictions`.

    Attributes:
        n_users: how many users.
        n_predictions: int64 (n_users,), ρ: how many items were ranked, including those that pruning left out.
        user: int64, the user of each labelled prediction.
        rank: int64, its rank, from 1.
        grade: float64, its label's grade.
        score: float64, what it was ranked by; −rank if lists came in order.
        tied_above: int64, how many items score strictly higher.
        tied: int64, how many items have its score, itself included.
        labels: the grades of every user's distinct labelled items, in no order.
        raw_labels: the grades of the raw label lists in their order, a repeated item with the grade that holds;
            None without an order.
        recommended: the items of the lists, labelled or not; None if no metric looks at them.
        extra_values: float64, what each labelled prediction's label has beside its grade, by name; see `LABEL_COLUMNS`.
        label_extra_values: the same of `labels`.
        intents: what labelled items are about; None if no metric looks at it.
        label: int64, a number for the label of each labelled prediction that no other label of the user has; None if no
            list can repeat an item.
        no_answer: bool (n_users,), for whom it is right to retrieve nothing; None if the call does not say.
    """

    n_users: int
    n_predictions: IntArray
    user: IntArray
    rank: IntArray
    grade: FloatArray
    score: FloatArray
    tied_above: IntArray
    tied: IntArray
    labels: Ragged
    raw_labels: Ragged | None = None
    recommended: Recommended | None = None
    extra_values: Mapping[str, FloatArray] = field(default_factory=dict)
    label_extra_values: Mapping[str, Ragged] = field(default_factory=dict)
    intents: IntentPairs | None = None
    label: IntArray | None = None
    no_answer: BoolArray | None = None

    @classmethod
    def concatenate(cls, batches: Sequence[RankingBatch]) -> RankingBatch:
        """The users of several batches, one batch after the other."""
        if len(batches) == 1:
            return batches[0]
        columns = {item.name: [getattr(batch, item.name) for batch in batches] for item in fields(cls) if item.init}
        first_user = user_lists.offsets_of(columns.pop("n_users"))
        first_label = user_lists.offsets_of([len(labels.values) for labels in columns["labels"]])
        users, recommended, intents = (columns.pop(name) for name in ("user", "recommended", "intents"))
        return cls(
            n_users=int(first_user[-1]),
            user=user_lists.joined_indices(users, first_user),
            recommended=None if None in recommended else Recommended.concatenate(recommended),
            intents=None if None in intents else IntentPairs.concatenate(intents, first_user, first_label),
            **{name: user_lists.joined(values) for name, values in columns.items()},
        )

    @property
    def weight(self) -> FloatArray | None:
        """The weight of each labelled prediction's label; None if labels have none."""
        return self.extra_values.get("weight")

    @property
    def label_weights(self) -> Ragged | None:
        """The weights of `labels`; None if they have none."""
        return self.label_extra_values.get("weight")

    def n_relevant(self, threshold: float | None) -> IntArray:
        """γ: how many distinct items of each user are relevant; int64 (n_users,)."""

        def count() -> IntArray:
            relevant = is_relevant(self.labels.values, threshold)
            if relevant.all():
                return self.labels.lengths
            return np.bincount(self.labels.user[relevant], minlength=self.n_users)

        return self.labels.remember(("n_relevant", threshold), count)

    def hits(self, threshold: float | None) -> Hits:
        """The relevant items of every list."""

        def find() -> Hits:
            entry = np.flatnonzero(is_relevant(self.grade, threshold))
            user = self.user[entry]
            return Hits(user, self.rank[entry], user_lists.position_within(user, self.n_users) + 1, entry)

        return self.remember(("hits", threshold), find)

    def n_hits(self, k: int | None, threshold: float | None) -> FloatArray:
        """H_k: how many of the first k items are relevant; float64 (n_users,), whole numbers ready to be divided."""

        def count() -> FloatArray:
            hits = self.hits(threshold)
            user = hits.user if k is None else hits.user[np.flatnonzero(hits.rank <= k)]
            return np.bincount(user, minlength=self.n_users).astype(np.float64)

        return self.remember(("n_hits", k, threshold), count)

    def total(self, user: IntArray, values: FloatArray, within: BoolArray | None = None) -> FloatArray:
        """The sum of each user's values, or of those within; float64 (n_users,).

        Added one after the other, so that neither padding nor the split into batches changes a bit.
        """
        if within is not None and not within.all():
            counted = np.flatnonzero(within)
            user, values = user[counted], values[counted]
        # Without an entry numpy forgets the weights, and counts in whole numbers.
        return np.bincount(user, values, self.n_users).astype(np.float64, copy=False)

    def total_of_labels(self, values: FloatArray, within: BoolArray | None = None) -> FloatArray:
        """The sum over each user's labels, or over those within; float64 (n_users,).

        Labels come in any order: they are added from the smallest to the largest, so that no order changes a bit.
        """
        user = self.labels.user
        if within is not None:
            user, values = user[within], values[within]
        ascending = np.lexsort((values, user))
        return self.total(user, values[ascending])

    def repeats(self) -> IntArray:
        """Which labelled predictions have an item that stands above, too; int64, ascending."""

        def find() -> IntArray:
            if self.label is None or not len(self.label):
                return np.empty(0, np.int64)
            # A user's labelled predictions come by rank, and of equal values numpy gives the first.
            first = np.unique(self.user * (int(self.label.max()) + 1) + self.label, return_index=True)[1]
            return np.delete(np.arange(len(self.label)), first)

        return self.remember("repeats", find)

    def within(self, k: int | None) -> BoolArray | None:
        """Which labelled predictions stand in the first k places; None where all do."""
        return None if k is None else self.remember(("within", k), lambda: self.rank <= k)

    def labels_by_grade(self) -> Ragged:
        """Every user's label grades, best first."""

        def sort() -> Ragged:
            grades = self.labels.values
            if len(grades) == 0 or bool((grades == grades[0]).all()):
                return self.labels
            grades, keys, _ = self._grade_keys()
            return self.labels.like(grades[keys - self.labels.user * len(grades)])

        return self.labels.remember("labels_by_grade", sort)

    def label_rank(self) -> IntArray:
        """The place of each label among its user's, best first, from 1; int64, shape of `labels`."""
        return self.labels.remember(
            "label_rank", lambda: user_lists.position_within(self.labels.user, self.n_users) + 1
        )

    def label_runs(self) -> tuple[Runs, Runs]:
        """How many labels have a higher grade, how many the same: of labels, best first; of labelled predictions."""

        def find() -> tuple[Runs, Runs]:
            _, keys, prediction_keys = self._grade_keys()
            new = user_lists.starts_of_runs(keys)
            start, run_of_label = np.flatnonzero(new), np.cumsum(new) - 1
            size = np.diff(np.append(start, len(keys)))

            def runs(user: IntArray, run: IntArray) -> Runs:
                return Runs(start[run] - self.labels.offsets[user], size[run])

            return runs(self.labels.user, run_of_label), runs(self.user, np.searchsorted(keys[start], prediction_keys))

        return self.remember("label_runs", find)

    def _grade_keys(self) -> tuple[FloatArray, IntArray, IntArray]:
        """The different grades, best first; and user · their number + index among them, of sorted labels and of predictions.

        One sort of whole numbers takes less than one by two keys.
        """

        def find() -> tuple[FloatArray, IntArray, IntArray]:
            negated = np.unique(-self.labels.values)

            def keys(user: IntArray, grade: FloatArray) -> IntArray:
                return user * len(negated) + np.searchsorted(negated, -grade)

            return -negated, np.sort(keys(self.labels.user, self.labels.values)), keys(self.user, self.grade)

        return self.remember("grade_places", find)


@dataclass(frozen=True)
class Population:
    """Which users an evaluation is about; others have no value, as if undefined.

    Attributes:
        absent_from_labels: users without a label: undefined as the metrics say, or left out.
        without_predictions: users without predictions: counted as the metrics say, or left out.
    """

    absent_from_labels: Literal["undefined", "left_out"] = "undefined"
    without_predictions: Literal["counted", "left_out"] = "counted"

    def includes(self, n_labels: IntArray, n_predictions: IntArray) -> BoolArray:
        """Whether it is about users with so many labels and predictions; bool (n_users,)."""
        included = np.ones(len(n_labels), np.bool_)
        if self.absent_from_labels == "left_out":
            included &= n_labels > 0
        if self.without_predictions == "left_out":
            included &= n_predictions > 0
        return included


#: By the names that callers use.
POPULATIONS = {
    "every": Population(),
    "labelled": Population(absent_from_labels="left_out"),
    "predicted": Population(without_predictions="left_out"),
    "both": Population(absent_from_labels="left_out", without_predictions="left_out"),
}


Sees = Literal["gaining", "relevance", "judgement", "labelled", "gain", "label", "intents", "item"]
"""What of an item a metric looks at: whether its grade is above 0; whether it is relevant; that and whether it is judged not to be, passing
over items without a label; whether it has a label; whether it is relevant and how far its grade is above 0; the grade itself and
whether there is one; whether it is relevant, and for which intents, so that no two relevant ones are alike; or the item, so that no two are
alike."""


class Look(NamedTuple):
    """How a metric may tell items of equal scores apart.

    Attributes:
        sees: what it looks at of an item.
        threshold: from which grade on an item is relevant; None: above 0.
        cutoff: the lowest rank that matters; None: all do.
        judged_below: grades from 0 to below this are judged not relevant.
    """

    sees: Sees = "gain"
    threshold: float | None = None
    cutoff: int | None = None
    judged_below: float = 0.0


def depends_on_tie(batch: RankingBatch, look: Look) -> IntArray:
    """1 for users with a group of equal scores whose items differ in what is seen of them, at ranks that matter."""
    matters = batch.tied > 1
    if look.cutoff is not None:
        matters &= batch.tied_above < look.cutoff
    flag = np.zeros(batch.n_users, np.int64)
    if not matters.any():
        return flag
    user, above, tied = batch.user[matters], batch.tied_above[matters], batch.tied[matters]
    start = np.flatnonzero(user_lists.starts_of_runs(user, above))
    # The other items of a group have no label.
    others = np.diff(np.append(start, len(user))) < tied[start]
    if look.sees == "labelled":
        flag[user[start[others]]] = 1
        return flag
    columns = _visible_columns(batch.grade[matters], look, None if batch.weight is None else batch.weight[matters])
    mixed = others & (look.sees in ("label", "item"))
    for column in columns:
        best, least = np.maximum.reduceat(column, start), np.minimum.reduceat(column, start)
        mixed |= (best > least) | (others & (best > 0) & (look.sees != "judgement"))
        # The whole group may be relevant, for different intents.
        mixed |= (best > 0) & (look.sees == "intents")
    flag[user[start[mixed]]] = 1
    return flag


def _visible_columns(grade: FloatArray, look: Look, weight: FloatArray | None) -> list[FloatArray]:
    """What a look sees of labelled items: it cannot tell items apart that agree in every column. No label is 0 in each."""
    columns: list[FloatArray] = []
    if look.sees != "gaining":
        columns.append(is_relevant(grade, look.threshold).astype(np.float64))
    match look.sees:
        case "gaining":
            columns.append((grade > 0).astype(np.float64))
        case "gain":
            columns.append(np.maximum(grade, 0))
        case "judgement":
            columns.append(((grade >= 0) & (grade < look.judged_below)).astype(np.float64))
        case "label" | "item":
            columns.append(grade)
    if weight is not None:
        columns.append(weight if look.sees in ("label", "item") else np.where(columns[-1] > 0, weight, 0.0))
    return columns


class TiedGroups(NamedTuple):
    """The groups of equal scores that hold an item of some kind, by user and then by score; int64 each.

    Attributes:
        user: whose list.
        above: a: how many items score higher; the group has the ranks from a + 1 on.
        size: t: how many items the group has; 1 for an untied item.
        held_above: C: how many items of the kind score higher.
        held: s: how many items of the kind the group has, at least 1.
        start: the index of its first item of the kind among all of the kind.
    """

    user: IntArray
    above: IntArray
    size: IntArray
    held_above: IntArray
    held: IntArray
    start: IntArray

    def where(self, keep: BoolArray) -> Self:
        """Some of the groups."""
        return self._replace(**{name: column[keep] for name, column in self._asdict().items()})

    def places_within(self, cutoff: IntArray | int | None) -> IntArray:
        """How many of each group's places stand within the cutoff, of all users or of each; None: all."""
        if cutoff is None:
            return self.size
        last = cutoff[self.user] if isinstance(cutoff, np.ndarray) else cutoff
        return np.clip(last - self.above, 0, self.size)


def tied_groups(batch: RankingBatch, entry: IntArray) -> TiedGroups:
    """The groups of equal scores that hold some of the labelled predictions, given ascending."""
    user, above = batch.user[entry], batch.tied_above[entry]
    start = np.flatnonzero(user_lists.starts_of_runs(user, above))
    return TiedGroups(
        user=user[start],
        above=above[start],
        size=batch.tied[entry[start]],
        held_above=user_lists.position_within(user, batch.n_users)[start],
        held=np.diff(np.append(start, len(entry))),
        start=start,
    )


def tied_hits(batch: RankingBatch, threshold: float | None) -> TiedGroups:
    """The groups that hold a relevant item."""
    return batch.remember(("tied hits", threshold), lambda: tied_groups(batch, batch.hits(threshold).entry))


def tied_labels(batch: RankingBatch) -> TiedGroups:
    """The groups that hold a labelled item."""
    return batch.remember("tied labels", lambda: tied_groups(batch, np.arange(len(batch.user))))
