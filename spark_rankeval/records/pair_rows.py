"""The rows of comparisons of all pairs of several models, and of the ranks of these models, with their tables and notes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from spark_rankeval.errors import listed
from spark_rankeval.records.judged_rows import (
    VERDICT,
    JudgedRow,
    difference_columns,
    is_least,
    least_p_in_words,
    means_columns,
    missing_intervals,
    name_of_test,
)
from spark_rankeval.records.summary import METRIC, MODEL, MOST_LISTED, USERS, MetricRow
from spark_rankeval.tables import DASH, Column, Note, Table, common_format, words


@dataclass(frozen=True)
class PairRow(JudgedRow):
    """One metric of two of several models, over the users for whom all models have a value.

    There is no lift, which only `ComparisonRow` has. The tests of all pairs are for differences alone. The interval of a ratio also needs
    the covariance of both means.

    Attributes:
        metric: the metric's label.
        model: the one model.
        other: the one that it is compared with.
        n_users: how many users these are.
        n_undefined: how many users of any table are left out, because a model has no value.
        mean: the model's mean over these users.
        other_mean: the other's.
        difference: model − other.
        interval_low: the lower end of the difference's interval; the intervals of all pairs hold together.
        interval_high: its upper end.
        q: |difference| / √(residual mean square / n); of ``games_howell`` / √(variance of the users' differences / 2n).
        p_tukey: of q by the studentized range; corrected for the number of pairs.
        p_randomised: of the test that permutes models within each user; NaN if it was not asked for.
        p: the one of the two that was asked for; with a margin, of what the verdict states.
        margin: the difference that does not matter.
        verdict: as in `ComparisonRow`. Tukey's test does not tell whether any user differs, unless all models are alike.
        sentence: the same in a sentence, with the figures.
        interval_method: ``tukey`` or ``games_howell``; ``clopper_pearson`` if no user differs from another.
        asked: what the caller called the metric; empty: as `metric` has it.
        cluster: as in `ComparisonRow`.
        n_clusters: as in `ComparisonRow`.
        effective_n_clusters: as in `ComparisonRow`.
        design_effect: as in `ComparisonRow`.
        no_interval: as in `ComparisonRow`.
    """

    metric: str
    model: str
    other: str
    n_users: int
    n_undefined: int
    mean: float
    other_mean: float
    difference: float
    interval_low: float
    interval_high: float
    q: float
    p_tukey: float
    p_randomised: float
    p: float
    margin: float
    verdict: str
    sentence: str
    interval_method: str = "tukey"
    asked: str = ""
    cluster: str = ""
    n_clusters: int = 0
    effective_n_clusters: float = math.nan
    design_effect: float = math.nan
    no_interval: str = ""

    @property
    def figure(self) -> str:
        """The metric and both models, in words."""
        return f"{self.name} of {self.model} and {self.other}"

    @property
    def names(self) -> set[str]:
        """Both models."""
        return {self.model, self.other}


@dataclass(frozen=True)
class RankRow(MetricRow):
    """The rank of one of several models on a metric, 1 being the best, and the ranks that it may have.

    Attributes:
        metric: the metric's label.
        model: the model.
        n_users: how many users have a value under every model.
        mean: the model's mean over these users.
        rank: by the mean, of models with equal means the same; 0 without a mean.
        lowest: 1 + the number of models that are surely better.
        highest: the number of models less those that are surely worse.
        n_models: how many models there are.
        sentence: the same in a sentence.
        asked: what the caller called the metric; empty: as `metric` has it.
    """

    metric: str
    model: str
    n_users: int
    mean: float
    rank: int
    lowest: int
    highest: int
    n_models: int
    sentence: str
    asked: str = ""


def ranks_in_words(model: str, metric: str, lowest: int, highest: int, n_models: int) -> str:
    """A sentence on the ranks that a model may have.

    >>> ranks_in_words("als", "rr", 1, 3, 12)
    'als is between 1st and 3rd of 12 on rr.'
    """
    places = _ordinal(lowest) if lowest == highest else f"between {_ordinal(lowest)} and {_ordinal(highest)}"
    return f"{model} is {places} of {n_models} on {metric}."


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def pairs_table(rows: Sequence[PairRow], level: float, caption: str, notes: Sequence[Note]) -> Table:
    """Pairs of models: one row for each metric and pair."""
    columns: list[Column[Any]] = [
        METRIC,
        MODEL,
        words("other", lambda row: row.other),
        USERS,
        *means_columns(rows, "other's", attrgetter("other_mean")),
        *difference_columns(rows, level),
        VERDICT,
    ]
    return Table(rows, columns, caption=caption, notes=notes, is_grouped=True)


def ranks_table(rows: Sequence[RankRow], level: float, caption: str) -> Table:
    """Sets of ranks: one row for each metric and model, the best model of a metric first."""
    written = common_format(row.mean for row in rows)
    columns: list[Column[Any]] = [
        METRIC,
        MODEL,
        USERS,
        Column("mean", lambda row: written(row.mean)),
        Column("rank", lambda row: f"{row.rank:,}" if row.rank else DASH),
        Column(
            f"{100 * level:.6g}% ranks",
            lambda row: f"{row.lowest:,}" if row.lowest == row.highest else f"{row.lowest:,} to {row.highest:,}",
        ),
    ]
    text = (
        "those that the true rank may have; the sets of all models of a metric hold together. A model is before or after another "
        "if the interval of their difference says so"
    )
    return Table(rows, columns, caption=caption, notes=[Note(text, "ranks")], dash_means="no mean", is_grouped=True)


def pairs_in_words(rows: Sequence[PairRow], test: str, replicates: int) -> list[Note]:
    """Notes that explain the columns of a table of pairs."""
    p = f"from {name_of_test(test, replicates)}, corrected for the number of pairs of a metric, not for the number of metrics"
    ends = (
        "the intervals of all pairs of a metric hold together. Only users with a value under every model are compared"
    )
    drawn = [row for row in rows if test == "randomised" and is_least(row.p_randomised, replicates)]
    least = [f"{least_p_in_words(replicates)}: {listed([row.figure for row in drawn], MOST_LISTED)}"] if drawn else []
    return [Note(p, "p"), Note(ends, "interval"), *map(Note, [*least, *missing_intervals(rows)])]
