"""What a metric is: an immutable value whose fields are its parameters and whose string reads back to it."""

from __future__ import annotations

import dataclasses
import enum
import math
import numbers
import re
import sys
import textwrap
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Final, Literal, Protocol, Self, dataclass_transform

import numpy as np

from spark_rankeval.checks import is_cutoff, number
from spark_rankeval.errors import MetricError
from spark_rankeval.ranking.batch import LABEL_FACTS, Fact, GroupSets, RankingBatch, Recommended, Sees, required_fact
from spark_rankeval.ranking.user_lists import Array, BoolArray, FloatArray, IntArray


class Unset(enum.Enum):
    """The value of an unset parameter, which a dialect fills. An enum member stays itself through pickle."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET

Needs = Literal["relevant", "gain", "labels", "predictions", "no_answer"]
"""What the labels of a user must hold for a metric to be defined: a relevant one, a grade above 0, or anything; or that
something was predicted, or that the user is declared to have no answer, whatever the labels."""

# Text of a metric has parameters in brackets and a cutoff behind an @, and words may be parted by spaces or hyphens.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

REGISTRY: dict[str, type[Metric]] = {}
"""Every metric by its canonical name and by each alias, in lower case."""


# What stands for a value that there is not, by the parameter `undefined`.
UNDEFINED = {"nan": math.nan, "zero": 0.0, "one": 1.0}


def parameter(
    default: Any,
    *,
    doc: str,
    choices: tuple[Any, ...] = (),
    check: Callable[[Any], str | None] | None = None,
    canonical: Callable[[Any], Any] | None = None,
    is_grade: bool = False,
) -> Any:
    """Declare a parameter of a metric.

    Args:
        default: the value in the default dialect. UNSET: there is none, and the metric's text leaves the parameter out.
        doc: what it chooses, in a sentence.
        choices: the allowed values. Empty: any value that passes `check`.
        check: returns None for an allowed value; for any other, what the value must be.
        canonical: gives what is kept of a value other than None, so that values that mean the same are equal.
        is_grade: the value is a grade, and is rounded like the grades that it compares with.
    """
    metadata = {"default": default, "doc": doc, "choices": choices, "check": check, "canonical": canonical}
    return field(default=UNSET, metadata=metadata | {"is_grade": is_grade})


#: Checks of parameters: a share above 0, one that is also below 1, and how many times as much one part of a mean weighs as another.
POSITIVE_SHARE = number(0, 1, what="a number above 0 and up to 1", open_low=True)
OPEN_SHARE = number(0, 1, what="a number between 0 and 1", open_low=True, open_high=True)
BETA = number(0, 1e100, what="a number from 0 on")


def undefined_with_rightly_empty_lists() -> Any:
    """Declare `Metric.undefined` for a metric whose best value an empty list may have."""
    return parameter(
        "nan",
        choices=("nan", "zero", "one", "one_if_empty"),
        doc="value of a user for whom the metric is undefined: NaN (left out of the mean), 0, 1, or 1 if the list is empty and 0 if not",
    )


def as_float32(grade: float) -> float:
    """A grade as a column of 32-bit floats holds it; unchanged if that is infinite or, for another grade than 0, 0."""
    with np.errstate(over="ignore", under="ignore"):
        held = float(np.float32(float(grade)))
    return held if math.isfinite(held) and bool(held) == bool(grade) else grade


@dataclass(frozen=True, kw_only=True)
class Reads:
    """What a metric reads of a user's list: an evaluation keeps that, and counts what depends on it.

    Attributes:
        depth: the largest rank that can change the value; None: all ranks.
        items: what matters of an item. Two items that are alike in it can change places.
        unlabelled: whether items without a label matter, too.
        facts: what must be known of items and users beside predictions and labels.
        scores: whether more matters of scores than their order: which are equal, or by how much they differ.
        tie_order: whether the order of equal scores can change the value.
        label_order: whether the order of a user's labels can change the value; rows of a table have none.
        judged_below: with `items` ``judgement``, grades from 0 to below this are judged not relevant.
    """

    depth: int | None = None
    items: Sees = "label"
    unlabelled: bool = False
    facts: frozenset[Fact] = frozenset()
    scores: bool = False
    tie_order: bool = True
    label_order: bool = False
    judged_below: float = 0.0

    @property
    def looks_at_items(self) -> bool:
        """Whether items matter that have no label."""
        return self.unlabelled or bool(self.facts - LABEL_FACTS)

    def but(self, **changes: Any) -> Reads:
        """This metric with other attributes."""
        return replace(self, **changes)


class SuppliesDefaults(Protocol):
    """What fills a metric's unset parameters: a dialect."""

    def defaults_for(self, metric: type[Metric]) -> Mapping[str, Any]:
        """The parameters that this dialect sets for a metric, by name."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
class FrozenDataclass:
    """A class whose subclasses are frozen dataclasses, without a decorator."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        doc = vars(cls).get("__doc__")
        dataclass(frozen=True, kw_only=True)(cls)
        cls.__doc__ = doc  # and not the signature: a metric without a text has that of its base


class Metric(FrozenDataclass, ABC):
    """One float64 number for every user's ranked list, computed from a `RankingBatch`.

    All attributes but ``k`` and ``undefined`` are of the class.

    Attributes:
        name: how calls write the metric. A class with a name is registered under it.
        aliases: its other names, in any case of letters. Subclasses do not inherit them.
        takes_cutoff: whether ``@k`` may follow the name.
        larger_is_better: which way comparisons read.
        describes: whether the metric says what lists are like, and neither way is better: verdicts are "higher" and "lower".
        k: the cutoff; None for the whole list.
        undefined: the value of a user for whom the metric is undefined: ``nan`` leaves the user out of the mean, ``zero`` and
            ``one`` count. Some metrics also take ``one_if_empty``: 1 without predictions, which is right if there is nothing to find,
            else 0.
        judged_only: true if an evaluation is to rank only items with a grade from 0 on. It changes the lists, not the formula.
        min_score: an evaluation ranks only items with at least this score; it changes the lists, too.
        budget: an evaluation ranks only the first items whose costs add up to no more than this; it changes the lists, too.
        crossing: ``in`` if the item that passes the budget is ranked, too.
        no_answer: the value of a user who is declared to have no answer: undefined, or ``empty_is_right``, which is 1 if the list is
            empty and else 0.
        needs: what a user needs for the metric to be defined: a ``relevant`` label, ``gain`` (a grade above 0, whatever the
            threshold; a `GainMetric` may also need one that reaches it), any ``labels``, ``predictions``, or ``no_answer``.
        covers_no_answer: whether the formula also holds for users without an answer; other metrics are undefined for them.
        value_range: the smallest and the largest possible value; intervals of means stay within it. Default: no bounds.
        corpus_level: whether there is one value of all lists together, and none of a user.
        sees: what matters of an item.
        facts: what must be known of items and users beside predictions and labels.
        whole_order: whether the order of the items matters without a cutoff, too.

    Raises:
        MetricError: a parameter has a value that is not allowed; or another class has the name of a new one.
    """

    name: ClassVar[str] = ""
    aliases: ClassVar[tuple[str, ...]] = ()
    takes_cutoff: ClassVar[bool] = True
    larger_is_better: ClassVar[bool] = True
    describes: ClassVar[bool] = False
    needs: ClassVar[Needs] = "relevant"
    covers_no_answer: ClassVar[bool] = False
    corpus_level: ClassVar[bool] = False
    value_range: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    sees: ClassVar[Sees] = "label"
    facts: ClassVar[frozenset[Fact]] = frozenset()
    whole_order: ClassVar[bool] = True

    k: int | None = None
    undefined: str = parameter(
        "nan",
        choices=("nan", "zero", "one"),
        doc="value of a user for whom the metric is undefined: NaN (left out of the mean), 0 or 1",
    )
    judged_only: bool | Unset = parameter(
        UNSET,
        choices=(True,),
        doc="True: an evaluation ranks only items with a grade from 0 on, as trec_eval does with -J",
    )
    min_score: float | Unset = parameter(
        UNSET, check=number(-math.inf, what="a number"), doc="an evaluation ranks only items with at least this score"
    )
    budget: float | Unset = parameter(
        UNSET,
        check=number(0.0, what="a number above 0", open_low=True),
        doc="an evaluation ranks only the first items whose costs add up to no more than this",
    )
    crossing: str | Unset = parameter(
        UNSET, choices=("out", "in"), doc="whether the item that passes the budget is left out, as if unset, or in"
    )
    no_answer: str | Unset = parameter(
        UNSET,
        choices=("empty_is_right",),
        doc="empty_is_right: a user who is declared to have no answer counts, with 1 for an empty list and 0 for any other",
    )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # An alias means one metric: a subclass does not inherit those of its parent.
        cls.aliases = cls.__dict__.get("aliases", ())
        undeclared = [item.name for item in fields(cls) if item.name != "k" and "doc" not in item.metadata]
        if undeclared:
            name = undeclared[0]
            msg = f"{cls.__qualname__}: declare the parameter {name!r} with parameter(default, doc='what it chooses')"
            if name in vars(Metric) and name not in {item.name for item in fields(Metric)}:
                msg = f"{cls.__qualname__}: {name!r} is no parameter, but what the class says; write it without a type: {name} = …"
            raise MetricError(msg)
        if cls.__dict__.get("name"):
            _register(cls)

    def __post_init__(self) -> None:
        if not type(self).__dict__.get("name"):
            msg = f"{type(self).__qualname__} has no name of its own; give the class one, such as name = 'my_metric'"
            raise MetricError(msg)
        if self.k is not None:
            if not is_cutoff(self.k):
                msg = f"{self.name}: the cutoff k must be a whole number from 1 on, or None for the whole list; got {self.k!r}"
                raise MetricError(msg)
            if not self.takes_cutoff:
                msg = f"{self.name} takes no cutoff; got k={self.k}. Write {self.name!r}"
                raise MetricError(msg)
            object.__setattr__(self, "k", int(self.k))
        for item in self.parameters():
            value = getattr(self, item.name)
            self._check(item, value)
            canonical = item.metadata["canonical"]
            if canonical is not None and value is not UNSET and value is not None:
                object.__setattr__(self, item.name, canonical(value))
            elif isinstance(value, numbers.Real) and not isinstance(value, bool):
                # Numbers of numpy do not read back from their text.
                plain = int(value) if isinstance(value, numbers.Integral) else float(value)
                object.__setattr__(self, item.name, plain)
        for problem in self._problems():
            raise MetricError(f"{self._short_name}: {problem}")

    def _check(self, item: dataclasses.Field[Any], value: Any) -> None:
        if value is UNSET:
            return
        choices, check = item.metadata["choices"], item.metadata["check"]
        wanted = None
        # 1 equals True and is not what it says.
        if choices and (value not in choices or isinstance(value, bool) != isinstance(choices[0], bool)):
            wanted = "one of " + ", ".join(map(repr, choices))
        elif check is not None:
            wanted = check(value)
        if wanted is not None:
            msg = f"{self.name}: {item.name} must be {wanted}; got {value!r}"
            raise MetricError(msg)

    def _problems(self) -> Iterator[str]:
        """Why parameters do not fit with one another."""
        if self.crossing is not UNSET and self.budget is UNSET:
            yield f"crossing={self.crossing!r} is about a budget; give it one, such as budget=4000"

    @property
    def _short_name(self) -> str:
        """The name with the cutoff."""
        return self.name if self.k is None else f"{self.name}@{self.k}"

    @classmethod
    def parameters(cls) -> list[dataclasses.Field[Any]]:
        """The parameters beside the cutoff; those that all metrics share come last."""
        # The cloudpickle of Spark 3.5 brings a notebook's class to workers with fields that `dataclasses.fields` passes over.
        declared = [item for item in cls.__dataclass_fields__.values() if "doc" in item.metadata]
        shared = Metric.__dataclass_fields__
        return [item for item in declared if item.name not in shared] + [i for i in declared if i.name in shared]

    def resolve(self, *sources: SuppliesDefaults) -> Self:
        """This metric with every unset parameter filled: from the first source that has it, or from its own default."""
        # A parameter whose default is to be unset stays so if no source has it.
        values: dict[str, Any] = {item.name: item.metadata["default"] for item in self.parameters()}
        for source in reversed(sources):
            supplied = source.defaults_for(type(self))
            values.update({name: value for name, value in supplied.items() if name in values})
        return type(self)(k=self.k, **values | self.chosen())

    def for_grades_of_32_bits(self) -> Self:
        """This metric for a column of such grades: what grades compare with is held as they are."""
        chosen = self.chosen()
        for item in self.parameters():
            bound = chosen.get(item.name)
            if item.metadata.get("is_grade") and bound is not None:
                chosen[item.name] = as_float32(bound)
        return type(self)(k=self.k, **chosen)

    def for_scores_of_32_bits(self) -> Self:
        """This metric for a column of such scores."""
        return self

    def chosen(self) -> dict[str, Any]:
        """The parameters that are set, by name."""
        values = {item.name: getattr(self, item.name) for item in self.parameters()}
        return {name: value for name, value in values.items() if value is not UNSET}

    @property
    def reads(self) -> Reads:
        """What the value depends on: by default the first k ranks, and what the class says of items."""
        has_order = self.whole_order or self.k is not None
        return Reads(depth=self.k, items=self.sees, facts=self.facts, tie_order=has_order)

    @property
    def reads_labels(self) -> bool:
        """Whether labels matter to the value, or to whether there is one."""
        return self.needs not in ("predictions", "no_answer") or self.reads.items == "labelled"

    @property
    def reads_no_answer(self) -> bool:
        """Whether a call must declare who has no answer."""
        return self.needs == "no_answer" or self.no_answer is not UNSET

    @property
    def largest_grade(self) -> float:
        """The largest grade that the formula allows; an evaluation reports labels above it."""
        return sys.float_info.max

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value: `value_range`, unless parameters change it."""
        return self.value_range

    @property
    def normalises(self) -> bool:
        """Whether the mean is weighted: a user's value counts with the weight `normaliser`."""
        return False

    def normaliser(self, batch: RankingBatch) -> FloatArray:
        """The weight of each user's value in the mean if the metric normalises; float64 (n_users,)."""
        return np.ones(batch.n_users)

    def compute(self, batch: RankingBatch) -> FloatArray:
        """The metric of every user, NaN if it is undefined; float64 (n_users,). Unset parameters have their defaults."""
        metric = self if self._is_resolved else self.resolve()
        values = np.asarray(metric._values(batch), np.float64)
        if values.shape != (batch.n_users,):
            msg = f"{self.name}: _values must return a number for each of {batch.n_users} users; got the shape {values.shape}"
            raise MetricError(msg)
        defined = metric._is_defined(batch)
        if not defined.all():
            values = np.where(defined, values, metric._undefined_values(batch))
        if batch.no_answer is None or self.covers_no_answer:
            return values
        is_right = batch.n_predictions == 0 if self.no_answer == "empty_is_right" else math.nan
        return np.where(batch.no_answer, is_right, values)

    def _undefined_values(self, batch: RankingBatch) -> FloatArray | float:
        """What stands for each user's value if there is none."""
        if self.undefined == "one_if_empty":
            is_empty: FloatArray = (batch.n_predictions == 0).astype(np.float64)
            return is_empty
        return UNDEFINED[self.undefined]

    @cached_property
    def _is_resolved(self) -> bool:
        chosen = self.chosen()
        return all(item.name in chosen or item.metadata["default"] is UNSET for item in self.parameters())

    @abstractmethod
    def _values(self, batch: RankingBatch) -> FloatArray:
        """The formula, for users who have something to find; 0 if nothing was found."""

    @abstractmethod
    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        """Whether the metric has a value for each user: there is something to find, and the formula has a value."""

    def __str__(self) -> str:
        """The metric as text: ``ndcg(gain='linear')@10``; `parse_metric` reads it back."""
        chosen = ", ".join(f"{name}={value!r}" for name, value in self.chosen().items())
        return self.name + (f"({chosen})" if chosen else "") + (f"@{self.k}" if self.k is not None else "")


def metric_values(metric: Metric, batch: RankingBatch) -> FloatArray:
    """The values of a metric; an error in a class of the caller's own becomes a `MetricError` of one line that says where."""
    try:
        return metric.compute(batch)
    except Exception as error:
        if isinstance(error, MetricError) or type(metric).__module__.startswith("spark_rankeval."):
            raise
        frames = traceback.extract_tb(error.__traceback__)
        file = getattr(getattr(type(metric)._values, "__code__", None), "co_filename", "")
        place = next((frame for frame in reversed(frames) if frame.filename == file), frames[-1])
        reason = textwrap.shorten(f"{type(error).__name__}: {error}", 300, placeholder=" …")
        msg = (
            f"the metric {metric._short_name!r} raised {reason} (line {place.lineno} of {place.filename}, in {place.name}); call "
            "compute(batch) of the metric on a small RankingBatch to debug it"
        )
        raise MetricError(msg) from error


def _register(metric: type[Metric]) -> None:
    """Give a class its name and aliases; a class defined again, as when a notebook's cell runs twice, replaces the older one."""
    names = [metric.name, *metric.aliases]
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            msg = (
                f"{_place_of(metric)}: {name!r} cannot be the name of a metric; "
                "use letters, digits and underscores, with a letter first"
            )
            raise MetricError(msg)
        taken = REGISTRY.get(name.lower(), metric)
        if _place_of(taken) != _place_of(metric):
            msg = (
                f"the name {name!r} of {_place_of(metric)} is taken by {_place_of(taken)}; "
                "give the new class another name, or leave the alias out"
            )
            raise MetricError(msg)
    REGISTRY.update(dict.fromkeys(map(str.lower, names), metric))


def _place_of(metric: type[Metric]) -> str:
    return f"{metric.__module__}.{metric.__qualname__}"


class RelevanceMetric(Metric):
    """A metric that sees items as relevant or not.

    Attributes:
        relevance_threshold: a labelled item is relevant from this grade on. None: if its grade is above 0; ``-inf``: always.
    """

    sees: ClassVar[Sees] = "relevance"

    relevance_threshold: float | Unset | None = parameter(
        None,
        check=number(-math.inf, what="a number, or None", optional=True),
        is_grade=True,
        doc="a labelled item is relevant from this grade on; None: above 0; -inf: always",
    )

    @property
    def threshold(self) -> float | None:
        """The resolved threshold."""
        return None if self.relevance_threshold is UNSET else self.relevance_threshold

    @property
    def needed_grade(self) -> float | None:
        """A user's value needs a label of at least this grade; None: of any grade above 0."""
        return None if self.needs == "gain" else self.threshold

    @property
    def labels_alone_define(self) -> bool:
        """Whether a user has a value if and only if there is something to find, whatever was predicted."""
        return self.undefined == "nan" and type(self)._is_defined is RelevanceMetric._is_defined

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        threshold = self.needed_grade
        return batch.remember(("has relevant", threshold), lambda: batch.n_relevant(threshold) > 0)


def ratio(numerator: Array, denominator: Array | float, otherwise: float = 0.0) -> FloatArray:
    """The quotient, and 0 or another value where the denominator is 0; the numerator has one entry per user."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient: FloatArray = numerator / np.asarray(denominator)
    if not np.all(denominator):
        quotient[np.broadcast_to(denominator == 0, quotient.shape)] = otherwise
    return quotient


class ListMetric(Metric):
    """A metric of the recommended items, whatever their labels: defined for users with a prediction."""

    needs: ClassVar[Needs] = "predictions"
    describes = True
    value_range = (0.0, 1.0)
    sees: ClassVar[Sees] = "item"
    whole_order = False

    @property
    def reads(self) -> Reads:
        """All items."""
        return super().reads.but(unlabelled=True)

    def _recommended(self, batch: RankingBatch) -> Recommended:
        if batch.recommended is None:
            msg = f"{self.name} needs every item of the lists, and these lists hold only labelled items"
            raise MetricError(msg)
        return batch.recommended

    def groups_of(self, batch: RankingBatch) -> GroupSets:
        """The sets of groups of the batch's items."""
        return required_fact(self._recommended(batch).groups)

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return self._recommended(batch).n_within(self.k) > 0


class ShareOfPlaces(ListMetric):
    """A sum over the first k places, divided by how many there are."""

    denominator: str = parameter(
        "predictions", choices=("predictions", "k"), doc="min(k, ρ), the places that were filled, or k"
    )

    def _places(self, recommended: Recommended) -> FloatArray | IntArray:
        if self.denominator == "k" and self.k is not None:
            return np.full(recommended.n_users, self.k)
        return recommended.n_within(self.k)


class AllListsMetric(ListMetric):
    """A metric of all lists together; single users have no value."""

    corpus_level = True

    @property
    def counted_as(self) -> Hashable:
        """What is counted of all lists: metrics for which this is equal share one count."""
        return self

    @abstractmethod
    def _value(self, totals: Any) -> float:
        """The value from what all lists add up to; NaN if it is not defined, whatever the parameter `undefined` is."""

    def value(self, totals: Any) -> float:
        """The metric of all users' lists; if it is not defined, NaN, 0 or 1 as `undefined` says."""
        value = self._value(totals)
        return UNDEFINED[self.undefined] if math.isnan(value) else value

    def _values(self, batch: RankingBatch) -> FloatArray:
        return np.full(batch.n_users, math.nan)

    def _is_defined(self, batch: RankingBatch) -> BoolArray:
        return np.ones(batch.n_users, np.bool_)


def findable(batch: RankingBatch, k: int | None, threshold: float | None) -> IntArray:
    """min(k, γ), how many relevant items the first k places could hold; γ without a cutoff."""
    relevant = batch.n_relevant(threshold)
    return relevant if k is None else np.minimum(relevant, k)
