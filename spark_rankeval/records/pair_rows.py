"""The rows of `all_pairs`: pairs of models with their differences, and models with their ranks; and their tables and notes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from spark_rankeval.errors import listed
from spark_rankeval.printed_tables import DASH, Column, Note, Table, common_format, text_column
from spark_rankeval.records.judged_rows import (
    VERDICT,
    VerdictRow,
    difference_columns,
    is_smallest_p,
    means_columns,
    missing_intervals,
    name_of_test,
    smallest_p_in_words,
)
from spark_rankeval.records.summary import METRIC, MODEL, MOST_LISTED, USERS, MetricRow


@dataclass(frozen=True)
class PairRow(VerdictRow):
    """The difference of two models on a metric, over the users with a value under every model of `all_pairs`.

    Only `ComparisonRow` has a lift. An interval of a lift needs the covariance of both means, and the tests of all pairs compute only the
    spread of differences.

    Attributes:
        metric: the metric's label.
        model: the model.
        other: the model that it is compared with.
        n_users: how many users have a value under every model.
        n_undefined: how many users of some model's table are left out, because a model has no value for them.
        mean: the mean of `model` over the `n_users` users.
        other_mean: the mean of `other` over the same users.
        difference: the mean of the users' differences, model − other.
        interval_low: the lower end of the difference's interval. The intervals of all pairs of a metric hold together (simultaneous
            confidence intervals).
        interval_high: its upper end.
        q: |difference| / √(residual mean square / n), or / √(variance of the users' differences / 2n) for ``games_howell``. If users
            come in clusters, the divisor comes from the sums of clusters.
        p_tukey: the p-value of q from the studentized range distribution, which corrects for the number of pairs.
        p_randomised: the p-value of the test that permutes the models within each user; NaN if the caller did not choose it.
        p: the p-value of the chosen test, `p_tukey` or `p_randomised`. With a margin, it is that of the verdict's claim.
        margin: the largest difference that does not matter.
        verdict: as in `ComparisonRow`. Tukey's test gives ``no user differs`` only if all models have equal values for each user.
        sentence: the verdict in a sentence, with the figures.
        interval_method: ``tukey`` or ``games_howell``; ``clopper_pearson`` if all users have the same difference.
        asked: the caller's name for the metric, such as ``map@10`` for ``ap@10``; empty if it equals `metric`.
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
        """The metric and both models, as words."""
        return f"{self.name} of {self.model} and {self.other}"

    @property
    def names(self) -> set[str]:
        """Both models."""
        return {self.model, self.other}


@dataclass(frozen=True)
class RankRow(MetricRow):
    """The rank of one of several models on a metric, and the confidence set of its true rank; 1 is the best.

    Attributes:
        metric: the metric's label.
        model: the model.
        n_users: how many users have a value under every model.
        mean: the model's mean over these users.
        rank: the rank by the mean. Models with equal means share a rank. It is 0 for a model without a mean.
        lowest: the best rank in the set: 1 + the number of models that are better by the interval of their difference.
        highest: the worst rank in the set: the number of models less those that are worse by the interval of their difference.
        n_models: how many models there are.
        sentence: the set of ranks in a sentence.
        asked: the caller's name for the metric, such as ``map@10`` for ``ap@10``; empty if it equals `metric`.
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
    """A sentence with the set of ranks that a model may have.

    >>> ranks_in_words("als", "rr", 1, 3, 12)
    'als is between 1st and 3rd of 12 on rr.'
    """
    ranks = _ordinal(lowest) if lowest == highest else f"between {_ordinal(lowest)} and {_ordinal(highest)}"
    return f"{model} is {ranks} of {n_models} on {metric}."


def _ordinal(number: int) -> str:
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def pairs_table(rows: Sequence[PairRow], level: float, caption: str, notes: Sequence[Note]) -> Table:
    """The table of all pairs: one row for each metric and pair of models."""
    columns: list[Column[Any]] = [
        METRIC,
        MODEL,
        text_column("other", lambda row: row.other),
        USERS,
        *means_columns(rows, "other's", attrgetter("other_mean")),
        *difference_columns(rows, level),
        VERDICT,
    ]
    return Table(rows, columns, caption=caption, notes=notes, is_grouped=True)


def ranks_table(rows: Sequence[RankRow], level: float, caption: str) -> Table:
    """The table of ranks: one row for each metric and model, the best model of a metric first."""
    format_value = common_format(row.mean for row in rows)
    columns: list[Column[Any]] = [
        METRIC,
        MODEL,
        USERS,
        Column("mean", lambda row: format_value(row.mean)),
        Column("rank", lambda row: f"{row.rank:,}" if row.rank else DASH),
        Column(
            f"{100 * level:.6g}% ranks",
            lambda row: f"{row.lowest:,}" if row.lowest == row.highest else f"{row.lowest:,} to {row.highest:,}",
        ),
    ]
    ranks = (
        "those that the true rank may have; the sets of all models of a metric hold together. A model is before or after another "
        "if the interval of their difference says so"
    )
    return Table(rows, columns, caption=caption, notes=[Note(ranks, "ranks")], dash_means="no mean", is_grouped=True)


def pair_notes(rows: Sequence[PairRow], test: str, replicates: int) -> list[Note]:
    """Notes that explain the columns of a table of pairs."""
    name = name_of_test(test, replicates)
    correction = f"from {name}, corrected for the number of pairs of a metric, not for the number of metrics"
    users = (
        "the intervals of all pairs of a metric hold together. Only users with a value under every model are compared"
    )
    smallest = [row.figure for row in rows if test == "randomised" and is_smallest_p(row.p_randomised, replicates)]
    others = [f"{smallest_p_in_words(replicates)}: {listed(smallest, MOST_LISTED)}"] if smallest else []
    return [Note(correction, "p"), Note(users, "interval"), *map(Note, [*others, *missing_intervals(rows)])]
