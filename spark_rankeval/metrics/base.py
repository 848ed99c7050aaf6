"""What a metric is: an immutable value whose fields are its parameters and whose string reads back to it."""

from __future__ import annotations

import dataclasses
import enum
import math
import numbers
import re
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, Self

import numpy as np

from spark_rankeval.errors import MetricError
from spark_rankeval.metrics.reads import Reads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spark_rankeval.ranking.batch import RankingBatch
    from spark_rankeval.ranking.ragged import FloatArray


class _Unset(enum.Enum):
    """The value of a parameter that nobody set: a dialect fills it. An enum member stays itself through pickle."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = _Unset.UNSET
Unset = _Unset

Needs = Literal["relevant", "gain", "labels", "predictions"]
"""What the labels of a user must hold for a metric to be defined: a relevant one, a grade above 0, or anything; or that
something was predicted, whatever the labels."""


# Ranks are counted in 32 bits on the way through Spark.
_LARGEST_CUTOFF = 2**31 - 1

# Text of a metric has parameters in brackets and a cutoff behind an @, and words may be parted by spaces or hyphens.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

REGISTRY: dict[str, type[Metric]] = {}
"""Every metric by its canonical name and by each alias, in lower case."""


def parameter(
    default: Any,
    *,
    doc: str,
    choices: tuple[Any, ...] = (),
    check: Callable[[Any], str | None] | None = None,
    is_grade: bool = False,
) -> Any:
    """Declare a parameter of a metric.

    Args:
        default: the value in the default dialect; UNSET: none, and the parameter is left out of the metric's text.
        doc: what it chooses, in a sentence.
        choices: the allowed values; empty where any value that passes `check` is allowed.
        check: returns what the value must be when it is not allowed, else None.
        is_grade: it is a grade that others compare with, which they do in the precision of their column.
    """
    metadata = {"default": default, "doc": doc, "choices": choices, "check": check, "is_grade": is_grade}
    return field(default=UNSET, metadata=metadata)


def as_float32(grade: float) -> float:
    """A grade as a column of 32-bit floats holds it; if it would be none, or not above 0 any more, as it is."""
    with np.errstate(over="ignore", under="ignore"):
        held = float(np.float32(float(grade)))
    return held if math.isfinite(held) and bool(held) == bool(grade) else grade


def number(
    low: float,
    high: float = math.inf,
    *,
    what: str,
    open_low: bool = False,
    open_high: bool = False,
    optional: bool = False,
) -> Callable[[Any], str | None]:
    """A check that a parameter is a number from `low` to `high`, or None where it is optional."""

    def check(value: Any) -> str | None:
        if value is None and optional:
            return None
        if not _is_number(value):
            return what
        number = float(value)
        outside = number < low or number > high or (open_low and number == low) or (open_high and number == high)
        return what if outside else None

    return check


def _threshold(value: Any) -> str | None:
    return None if value is None or _is_number(value) else "a number, or None"


def _is_number(value: Any) -> bool:
    """Whether a value is a number with a place among the floats; one is too large from about 10³⁰⁸ on, unless it is infinite."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    try:
        return not math.isnan(value)
    except OverflowError:
        return False


class SuppliesDefaults(Protocol):
    """What fills a metric's unset parameters: a dialect."""

    def defaults_for(self, metric: type[Metric]) -> Mapping[str, Any]:
        """The parameters that this dialect sets for a metric, by name."""
        ...


@dataclass(frozen=True, kw_only=True)
class Metric(ABC):
    """A number that a user's ranked list is given.

    A metric computes one thing: a float64 vector, one number a user, from a `RankingBatch`. Averaging, slicing,
    statistics and rendering live elsewhere.

    Attributes:
        name: a class attribute; how calls write the metric. A class that states one is registered under it.
        aliases: a class attribute; its other names, in any case of letters. A subclass does not inherit them.
        takes_cutoff: a class attribute; whether ``@k`` may follow the name.
        larger_is_better: a class attribute; which way comparisons read.
        k: the cutoff; None for the whole list.
        undefined: what users get for whom the metric is not defined (nothing to find): ``nan``, which means leave out,
            or ``zero``, which means count.
        needs: a class attribute; what the labels of a user must hold for the metric to be defined: a ``relevant`` one,
            ``gain`` (a grade above 0, whatever the threshold), or any ``labels``; or ``predictions``, whatever the labels.
        value_range: a class attribute; the least and the largest value that a user can have; intervals of means stay within it.
            By default there are no bounds.
        corpus_level: a class attribute; whether it is a value of all lists together, which no user has one of.
        zero_without_predictions: a class attribute; whether a user with something to find has 0 where nothing was
            predicted. Where false, the formula decides, and `_is_defined` says for whom it has no value.
        zero_without_hits: a class attribute; the same where nothing relevant (no gain) stands in the first k places.

    Raises:
        MetricError: a parameter has a value that is not allowed; or, when a class is defined, another has its name.
    """

    name: ClassVar[str] = ""
    aliases: ClassVar[tuple[str, ...]] = ()
    takes_cutoff: ClassVar[bool] = True
    larger_is_better: ClassVar[bool] = True
    needs: ClassVar[Needs] = "relevant"
    zero_without_predictions: ClassVar[bool] = True
    zero_without_hits: ClassVar[bool] = True
    corpus_level: ClassVar[bool] = False
    value_range: ClassVar[tuple[float, float]] = (-math.inf, math.inf)

    k: int | None = None
    undefined: str | Unset = parameter(
        "nan",
        choices=("nan", "zero"),
        doc="value of a user for whom the metric is undefined: NaN (left out of the mean) or 0",
    )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # An alias means one metric: a subclass does not inherit those of its parent.
        cls.aliases = cls.__dict__.get("aliases", ())
        if cls.__dict__.get("name"):
            _register(cls)

    def __post_init__(self) -> None:
        if not type(self).__dict__.get("name"):
            msg = f"{type(self).__qualname__} has no name of its own; give the class one: name = 'my_metric'"
            raise MetricError(msg)
        self._check_declarations()
        if self.k is not None:
            if (
                isinstance(self.k, bool)
                or not isinstance(self.k, numbers.Integral)
                or not 1 <= self.k <= _LARGEST_CUTOFF
            ):
                msg = f"{self.name}: the cutoff k must be a whole number from 1 on, or None for the whole list; got {self.k!r}"
                raise MetricError(msg)
            if not self.takes_cutoff:
                msg = f"{self.name} takes no cutoff: it has one of its own; got k={self.k}. Write {self.name!r}"
                raise MetricError(msg)
            object.__setattr__(self, "k", int(self.k))
        for item in self.parameters():
            value = getattr(self, item.name)
            self._check(item, value)
            if isinstance(value, numbers.Real) and not isinstance(value, bool):
                # Numbers of numpy do not read back from their text.
                plain = int(value) if isinstance(value, numbers.Integral) else float(value)
                object.__setattr__(self, item.name, plain)
        self._check_together()

    @classmethod
    def _check_declarations(cls) -> None:
        """Refuse parameters that the metric's text would lack: two different metrics would then have one name."""
        undecorated = [name for name, value in vars(cls).items() if isinstance(value, dataclasses.Field)]
        if undecorated:
            msg = f"{cls.__qualname__} has the parameter {undecorated[0]!r}: decorate the class with @dataclass(frozen=True, kw_only=True)"
            raise MetricError(msg)
        undeclared = [item.name for item in fields(cls) if item.name != "k" and "doc" not in item.metadata]
        if undeclared:
            msg = f"{cls.__qualname__}: declare the parameter {undeclared[0]!r} by parameter(default, doc='what it chooses')"
            raise MetricError(msg)

    def _check(self, item: dataclasses.Field[Any], value: Any) -> None:
        if value is UNSET:
            return
        choices, check = item.metadata["choices"], item.metadata["check"]
        wanted = None
        if choices and value not in choices:
            wanted = "one of " + ", ".join(map(repr, choices))
        elif check is not None:
            wanted = check(value)
        if wanted is not None:
            msg = f"{self.name}: {item.name} must be {wanted}; got {value!r}"
            raise MetricError(msg)

    def _check_together(self) -> None:  # noqa: B027 - most metrics have nothing to check
        """Raise a MetricError when parameters do not fit with one another."""

    @classmethod
    def parameters(cls) -> list[dataclasses.Field[Any]]:
        """The parameters beside the cutoff: the metric's own first, the ones that all share last."""
        # The cloudpickle of Spark 3.5 brings a notebook's class to workers with fields that `dataclasses.fields` passes over.
        declared = [item for item in cls.__dataclass_fields__.values() if "doc" in item.metadata]
        shared = Metric.__dataclass_fields__
        return [item for item in declared if item.name not in shared] + [i for i in declared if i.name in shared]

    def resolve(self, *sources: SuppliesDefaults) -> Self:
        """This metric with every unset parameter filled.

        Args:
            sources: who fills a parameter, the first that has it wins; the metric's own default is the last.
        """
        # A parameter whose default is to be unset stays so where nobody has it.
        values: dict[str, Any] = {item.name: item.metadata["default"] for item in self.parameters()}
        for source in reversed(sources):
            supplied = source.defaults_for(type(self))
            values.update({name: value for name, value in supplied.items() if name in values})
        return self._with(values | self.chosen())

    def for_grades_of_32_bits(self) -> Self:
        """The same metric for a column of such grades: what grades compare with is held as they are."""
        bounds = {item.name: getattr(self, item.name) for item in self.parameters() if item.metadata.get("is_grade")}
        given = {name: bound for name, bound in bounds.items() if bound is not None and bound is not UNSET}
        held: dict[str, Any] = {name: as_float32(bound) for name, bound in given.items()}
        return self._with(self.chosen() | held)

    def _with(self, values: Mapping[str, Any]) -> Self:
        """The same metric and cutoff with these parameters alone."""
        return type(self)(k=self.k, **values)

    def chosen(self) -> dict[str, Any]:
        """The parameters that somebody set, by name."""
        values = {item.name: getattr(self, item.name) for item in self.parameters()}
        return {name: value for name, value in values.items() if value is not UNSET}

    @property
    def reads(self) -> Reads:
        """What it reads of a user's list: down to the cutoff, everything that labels say of items."""
        return Reads(depth=self.k)

    @property
    def largest_grade(self) -> float:
        """The largest grade that the formula allows: a label above it cannot be used, and an evaluation says so."""
        return sys.float_info.max

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest value that the formula can give: `value_range`, unless parameters change it."""
        return self.value_range

    @property
    def normalises(self) -> bool:
        """Whether the mean is a quotient of two sums over all users: a user's value counts with the weight `normaliser`."""
        return False

    def normaliser(self, batch: RankingBatch) -> FloatArray:
        """The weight of each user's value in the mean, where the metric normalises; float64 (n_users,)."""
        return np.ones(batch.n_users)

    def compute(self, batch: RankingBatch) -> FloatArray:
        """The metric of every user of the batch; unset parameters have the metric's own defaults.

        Args:
            batch: ranked and matched lists of any number of users.

        Returns:
            float64, shape (n_users,); NaN where the metric is undefined.
        """
        metric = self if self._is_resolved else self.resolve()
        values = np.asarray(metric._values(batch), np.float64)
        if values.shape != (batch.n_users,):
            msg = f"{self.name}: _values must return a number for each of {batch.n_users} users; got the shape {values.shape}"
            raise MetricError(msg)
        defined = metric._is_defined(batch)
        return values if defined.all() else np.where(defined, values, math.nan if metric.undefined == "nan" else 0.0)

    @cached_property
    def _is_resolved(self) -> bool:
        chosen = self.chosen()
        return all(item.name in chosen or item.metadata["default"] is UNSET for item in self.parameters())

    @abstractmethod
    def _values(self, batch: RankingBatch) -> FloatArray:
        """The formula, for users who have something to find; 0 where nothing was found."""

    @abstractmethod
    def _is_defined(self, batch: RankingBatch) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Whether the metric has a value for each user: there is something to find, and the formula has a value."""

    def __str__(self) -> str:
        """The metric as text: ``ndcg(gain='linear')@10``; `parse_metric` reads it back."""
        chosen = ", ".join(f"{name}={value!r}" for name, value in self.chosen().items())
        return self.name + (f"({chosen})" if chosen else "") + (f"@{self.k}" if self.k is not None else "")


def _register(metric: type[Metric]) -> None:
    """Give a metric's class its name and aliases.

    A class of the same module and qualified name is the same class defined again, as when a cell of a notebook runs twice:
    the newer one then counts.

    Raises:
        MetricError: a name does not read back, or another class has it.
    """
    names = [metric.name, *metric.aliases]
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            msg = (
                f"{_place_of(metric)}: {name!r} cannot be the name of a metric; "
                "use letters, digits and underscores, with a letter first"
            )
            raise MetricError(msg)
        taken = REGISTRY.get(name.lower(), metric)
        # dataclass(slots=True) makes a class anew, with the same fields, and gives it its qualified name later.
        is_remade = metric.__dict__.get("__dataclass_fields__", ()) is taken.__dict__.get("__dataclass_fields__")
        if _place_of(taken) != _place_of(metric) and not is_remade:
            msg = (
                f"the name {name!r} of {_place_of(metric)} is taken by {_place_of(taken)}; "
                "give the new class another name, or leave the alias out"
            )
            raise MetricError(msg)
    REGISTRY.update(dict.fromkeys(map(str.lower, names), metric))


def _place_of(metric: type[Metric]) -> str:
    return f"{metric.__module__}.{metric.__qualname__}"


@dataclass(frozen=True, kw_only=True)
class RelevanceMetric(Metric):
    """A metric that sees items as relevant or not.

    Attributes:
        relevance_threshold: a labelled item is relevant from this grade on; None: when its grade is above 0;
            ``-inf``: whenever it is labelled.
    """

    relevance_threshold: float | Unset | None = parameter(
        None,
        check=_threshold,
        is_grade=True,
        doc="a labelled item is relevant from this grade on; None: above 0; -inf: always",
    )

    @property
    def threshold(self) -> float | None:
        """The resolved threshold."""
        return None if self.relevance_threshold is UNSET else self.relevance_threshold

    @property
    def reads(self) -> Reads:
        """Which items are relevant."""
        return super().reads.but(items="relevance")

    @property
    def labels_alone_define(self) -> bool:
        """Whether exactly those users have a value who have something to find, whatever was predicted."""
        return self.undefined == "nan" and type(self)._is_defined is RelevanceMetric._is_defined

    def _is_defined(self, batch: RankingBatch) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        threshold = None if self.needs == "gain" else self.threshold
        return batch.remember(("has relevant", threshold), lambda: batch.n_relevant(threshold) > 0)


def ratio(numerator: np.ndarray[Any, Any], denominator: np.ndarray[Any, Any] | float) -> FloatArray:
    """The quotient, 0 where the denominator is 0; the numerator has an entry a user."""
    quotient: FloatArray
    if not isinstance(denominator, np.ndarray):
        quotient = numerator / denominator if denominator else np.zeros(len(numerator))
        return quotient
    if denominator.all():
        quotient = numerator / denominator
        return quotient
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient = numerator / denominator
    quotient[np.flatnonzero(denominator == 0)] = 0.0
    return quotient
