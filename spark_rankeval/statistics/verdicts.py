"""What may be said of a difference, in a word and in a sentence with the figures behind it."""

from __future__ import annotations

import math
from typing import NamedTuple

from spark_rankeval.statistics.intervals import Interval

BETTER = "better"

WORSE = "worse"

#: Instead of "better" and "worse", if nobody said which way is better.
HIGHER = "higher"

LOWER = "lower"

NO_RELEVANT_DIFFERENCE = "no relevant difference"

UNDECIDED = "undecided"

NO_USER_DIFFERS = "no user differs"


class Verdict(NamedTuple):
    """What may be said of a model beside its baseline, in a word and in a plain sentence with the figures behind it."""

    word: str
    sentence: str


class ShownFigures(NamedTuple):
    """What the sentence of a verdict shows beside its p-value.

    Attributes:
        joint: the interval that is corrected for other comparisons as p is, and decides; None: there are no others.
        n_comparisons: how many comparisons these are.
        means: of the model and of the baseline.
        lift: the difference as a share of the baseline's mean; the sentence has it if it has an interval.
    """

    joint: Interval | None = None
    n_comparisons: int = 1
    means: tuple[float, float] | None = None
    lift: tuple[float, float, float] | None = None

    def figures_in_words(self, interval: Interval, difference: float, margin: float) -> str:
        """The lift with its interval; or the difference with its own, if the lift has none or a margin is in the metric's units."""
        level = interval_in_words(interval.level)
        if self.n_comparisons > 1:
            level += f" for {self.n_comparisons:,} comparisons"
        lift = ""
        if self.lift is not None and self.means is not None and not math.isnan(self.lift[1]):
            lift = f"{percent(self.lift[0])}, {_apart(*reversed(self.means))}; "
            if not margin:
                return f"{lift}{level} {percent(self.lift[1])} to {percent(self.lift[2])}"
        low, high = (interval if self.joint is None else self.joint)[:2]
        return f"{lift}difference {signed(difference)}, {level} {signed(low)} to {signed(high)}"


def interval_in_words(level: float) -> str:
    """The name of intervals at a level: ``95% interval``."""
    return f"{100 * level:.6g}% interval"


def percent(share: float) -> str:
    """A share as a percentage with its sign: ``+28%``, ``-3.5%``, ``+0.42%``. What rounds to 0 has no sign: ``0.00%``."""
    size = abs(100 * share)
    text = f"{100 * share:+,.{0 if size >= 10 else 1 if size >= 1 else 2}f}%"
    return text[1:] if size < 0.005 else text


def signed(difference: float) -> str:
    """A difference with its sign and four digits, or as a whole number if it has more; 0 has no sign."""
    if not difference:
        return "0"
    return f"{difference:+,.0f}" if abs(difference) >= 1000 else f"{difference:+.4g}"


def p_in_words(p: float) -> str:
    """The p-value, with its name."""
    return "p unknown" if math.isnan(p) else "p < 0.0001" if p < 1e-4 else f"p = {p:.4f}"


def _apart(first: float, second: float) -> str:
    """Two means with so many digits that they differ, three at least."""
    digits = next((n for n in range(3, 7) if f"{first:.{n}g}" != f"{second:.{n}g}"), 3)
    return f"{_digits_of(first, digits)} → {_digits_of(second, digits)}"


def _digits_of(mean: float, digits: int) -> str:
    """A mean with so many digits; from 1,000 on with all before the point."""
    text = f"{mean:#.{digits}g}".rstrip(".")
    size = abs(float(text))
    return f"{mean:,.{max(0, digits - len(f'{size:.0f}'))}f}" if 1000 <= size < math.inf else text


def verdict_of(
    interval: Interval,
    p: float,
    *,
    margin: float = 0.0,
    difference: float,
    names: tuple[str, str] = ("the model", "the baseline"),
    metric: str = "the metric",
    higher_is_better: bool | None = True,
    shown: ShownFigures | None = None,
    no_user_differs: bool = False,
) -> Verdict:
    """The verdict on a difference, model − baseline, from its interval and p-value.

    Nothing is decided unless p, corrected for the other comparisons, is at most 1 − level. Then the interval that is shown decides. Beyond
    the margin on one side, the model is better or worse. It is higher or lower if `higher_is_better` is None, because it is not known.
    Within ±margin, there is no relevant difference. These are two one-sided tests (TOST; Schuirmann 1987), each with α = (1 − level)/2,
    stricter than the 90% interval of TOST at α = 5%. Without a margin (0) any
    difference is relevant. The sentence has the figures of `shown`. If nothing is decided because `no_user_differs`, the verdict says so.
    """
    model, baseline = names
    if not interval and not no_user_differs:
        return Verdict(UNDECIDED, f"Nothing can be said of {model} and {baseline} on {metric}: {interval.reason}.")
    figures = shown or ShownFigures()
    decisive = interval if figures.joint is None else figures.joint
    word = _word(decisive, margin, higher_is_better) if is_enough(p, interval.level) else UNDECIDED
    if no_user_differs and word == UNDECIDED:
        word = NO_USER_DIFFERS
    within = f"a margin of {margin:g}"
    up, down = (HIGHER, LOWER) if higher_is_better is None else (BETTER, WORSE)
    says = {
        NO_RELEVANT_DIFFERENCE: f"{model} and {baseline} differ by less than {within} on {metric}",
        UNDECIDED: f"whether {model} is {up} or {down} than {baseline} on {metric} is undecided",
        NO_USER_DIFFERS: f"no user differs between {model} and {baseline} on {metric}",
    }.get(word, f"{model} is {word} than {baseline} on {metric}" + (f" by more than {within}" if margin else ""))
    # A model's name is written as it is.
    begin = says[0].upper() if says.startswith(("the model", "whether", "no user")) else says[0]
    if not interval:
        return Verdict(word, f"{begin}{says[1:]} ({p_in_words(p)}).")
    direction = "smaller is better; " if higher_is_better is False else ""
    shown_words = figures.figures_in_words(interval, difference, margin)
    return Verdict(word, f"{begin}{says[1:]} ({direction}{shown_words}, {p_in_words(p)}).")


def is_enough(p: float, level: float) -> bool:
    """Whether a corrected p-value decides at a level."""
    # 1 − 0.95 is not 0.05 in floats.
    return p <= 1 - level + 1e-12


def _place(interval: Interval, margin: float) -> int | None:
    """Where an interval lies: above (1) or below (−1) 0 and the margin, or within the margin (0); None if it decides nothing."""
    if interval.low > margin:
        return 1
    if interval.high < -margin:
        return -1
    return 0 if -margin < interval.low and interval.high < margin else None


def as_decided(interval: Interval, p: float, level: float, margin: float) -> Interval:
    """The interval that decides no more than p does: up to the nearest difference that p leaves open, which is 0 or a margin."""
    place = _place(interval, margin)
    if is_enough(p, level) or place is None:
        return interval
    return interval.reaching(0.0, 0.0) if place else interval.reaching(-margin, margin)


def _word(interval: Interval, margin: float, higher_is_better: bool | None) -> str:
    up, down = {True: (BETTER, WORSE), False: (WORSE, BETTER), None: (HIGHER, LOWER)}[higher_is_better]
    return {None: UNDECIDED, 0: NO_RELEVANT_DIFFERENCE, 1: up, -1: down}[_place(interval, margin)]
