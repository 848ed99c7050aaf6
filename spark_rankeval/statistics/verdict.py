"""What a comparison says, in a word and in a sentence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from spark_rankeval.statistics.intervals import Interval

BETTER = "better"
WORSE = "worse"
NO_RELEVANT_DIFFERENCE = "no relevant difference"
UNDECIDED = "undecided"


class Verdict(NamedTuple):
    """What may be said of a model beside its baseline, in a word and in a plain sentence with the figures behind it."""

    word: str
    sentence: str


def verdict_of(
    interval: Interval,
    p: float,
    *,
    margin: float = 0.0,
    difference: float,
    names: tuple[str, str] = ("the model", "the baseline"),
    metric: str = "the metric",
    higher_is_better: bool = True,
) -> Verdict:
    """The verdict on a difference, model − baseline, from its interval and p-value.

    Nothing is decided unless p, corrected for the other comparisons, is at most 1 − level. Then the interval decides. Beyond the
    margin on one side, the model is better or worse. Within ±margin, there is no relevant difference: two one-sided tests (TOST;
    Schuirmann 1987), each with α = (1 − level)/2, stricter than the 90 % interval of TOST at α = 5 %. Without a margin (0) any
    difference is relevant.
    """
    model, baseline = names
    if not interval:
        return Verdict(UNDECIDED, f"Nothing can be said of {model} and {baseline} on {metric}: {interval.reason}.")
    word = _word(interval, p, margin, higher_is_better)
    within = f"a margin of {margin:g}"
    says = {
        BETTER: f"{model} is better than {baseline} on {metric}" + (f" by more than {within}" if margin else ""),
        WORSE: f"{model} is worse than {baseline} on {metric}" + (f" by more than {within}" if margin else ""),
        NO_RELEVANT_DIFFERENCE: f"{model} and {baseline} differ by less than {within} on {metric}",
        UNDECIDED: f"whether {model} is better or worse than {baseline} on {metric} is undecided",
    }[word]
    figures = (
        f"difference {difference:+.4g}, {100 * interval.level:g} % interval {interval.low:+.4g} to {interval.high:+.4g}"
    )
    # A model's name is written as it is.
    begin = says[0].upper() if says.startswith(("the model", "whether")) else says[0]
    return Verdict(word, f"{begin}{says[1:]} ({figures}, {_p_text(p)}).")


def _word(interval: Interval, p: float, margin: float, higher_is_better: bool) -> str:
    # 1 − 0.95 is not 0.05 in floats.
    if not p <= 1 - interval.level + 1e-12:
        return UNDECIDED
    if margin and -margin <= interval.low and interval.high <= margin:
        return NO_RELEVANT_DIFFERENCE
    if interval.low > margin:
        return BETTER if higher_is_better else WORSE
    if interval.high < -margin:
        return WORSE if higher_is_better else BETTER
    return UNDECIDED


def _p_text(p: float) -> str:
    return "p unknown" if math.isnan(p) else "p < 0.0001" if p < 1e-4 else f"p = {p:.4f}"
