"""How the interval of a mean is made: Student's t, or a bootstrap."""

from __future__ import annotations

import numbers
from dataclasses import dataclass

from spark_rankeval.errors import OptionError
from spark_rankeval.statistics.intervals import checked_level
from spark_rankeval.statistics.resampling import check_seed, checked_replicates


def _check_level(level: object) -> None:
    if not isinstance(level, numbers.Real) or isinstance(level, bool):
        raise OptionError(f"level must be a number between 0 and 1, such as 0.95; got {level!r}")
    checked_level(float(level))


@dataclass(frozen=True)
class Student:
    """Student's t interval; `level` is the share of such intervals that hold the true mean.

    Examples:
        >>> row = evaluate(predictions, labels, "rr", score="score", ci=Student(level=0.9)).summary[0]
        >>> row.interval_method, round(row.interval_low, 3), round(row.interval_high, 3)
        ('t', 0.2, 0.717)
    """

    level: float = 0.95

    name = "t"

    def __post_init__(self) -> None:
        _check_level(self.level)


@dataclass(frozen=True)
class _Bootstrap:
    level: float = 0.95
    replicates: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        _check_level(self.level)
        if not isinstance(self.replicates, numbers.Integral) or isinstance(self.replicates, bool):
            raise OptionError(f"replicates must be a whole number; got {self.replicates!r}")
        checked_replicates(int(self.replicates))
        check_seed(self.seed)


@dataclass(frozen=True)
class BCa(_Bootstrap):
    """The bias-corrected and accelerated bootstrap (Efron 1987).

    `level` is the share of such intervals that hold the true mean; `replicates` samples of the users are drawn with `seed`.

    Examples:
        >>> row = evaluate(predictions, labels, "rr", score="score", ci=BCa(seed=1)).summary[0]
        >>> row.interval_method, round(row.interval_low, 3), round(row.interval_high, 3)
        ('bca', 0.19, 0.75)
    """

    name = "bca"


@dataclass(frozen=True)
class Percentile(_Bootstrap):
    """The percentile bootstrap (Efron 1979), with the options of `BCa`.

    Examples:
        >>> row = evaluate(predictions, labels, "rr", score="score", ci=Percentile(seed=1)).summary[0]
        >>> row.interval_method, round(row.interval_low, 3), round(row.interval_high, 3)
        ('percentile', 0.19, 0.75)
    """

    name = "percentile"


IntervalMethod = Student | BCa | Percentile

_BY_NAME: dict[str, IntervalMethod] = {"t": Student(), "bca": BCa(), "bootstrap": BCa(), "percentile": Percentile()}


def interval_method(ci: str | IntervalMethod | None) -> IntervalMethod | None:
    """The method that a caller names by a word, or gives in full; None: no interval."""
    if ci is None or isinstance(ci, IntervalMethod):
        return ci
    if isinstance(ci, str) and ci in _BY_NAME:
        return _BY_NAME[ci]
    if isinstance(ci, type) and issubclass(ci, IntervalMethod):
        raise OptionError(f"ci={ci.__name__} is a class; write ci={ci.__name__}(), with its options in the parentheses")
    named = ", ".join(map(repr, _BY_NAME))
    msg = f"ci must be one of {named}, None, or an object such as BCa(level=0.99, replicates=2000, seed=1); got {ci!r}"
    raise OptionError(msg)
