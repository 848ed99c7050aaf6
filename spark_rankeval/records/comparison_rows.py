"""The rows of comparisons of models with a baseline, with their tables and notes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from spark_rankeval.errors import listed
from spark_rankeval.printed_tables import Column, Note, Table, text_column
from spark_rankeval.records.judged_rows import (
    TONES,
    VERDICT,
    LiftedRow,
    corrected_in_words,
    difference_columns,
    is_smallest_p,
    joint_notes,
    lift_columns,
    lift_notes,
    margins_in_words,
    means_columns,
    missing_intervals,
    name_of_test,
    smallest_p_in_words,
)
from spark_rankeval.records.summary import METRIC, MODEL, MOST_LISTED, SLICE, USERS
from spark_rankeval.statistics.intervals import PREDICTION_POWERED, SCORE
from spark_rankeval.statistics.verdicts import UNDECIDED, p_in_words, signed


@dataclass(frozen=True)
class ComparisonRow(LiftedRow):
    """One metric of one model against the baseline, over the users for whom both have a value.

    Examples:
        >>> row = comparison["rr"]
        >>> round(row.mean, 4), round(row.baseline_mean, 4), round(row.difference, 4)
        (0.875, 0.4583, 0.4167)
        >>> row.wins, row.ties, row.losses, row.p, row.verdict
        (6, 2, 0, 0.03125, 'better')

    Attributes:
        metric: the metric's label.
        model: the model.
        baseline: what it is compared with.
        slice: which users, such as ``country=DE``; ``all``.
        n_users: how many users these are.
        n_undefined: how many users are left out, because the model, the baseline or both have no value.
        mean: the model's mean over these users, which may differ from that over all of the model's users.
        baseline_mean: the baseline's mean over the same.
        difference: the mean of the users' differences, model − baseline.
        relative_lift: difference / |baseline's mean|; NaN if that is 0.
        std: the standard deviation of the users' differences, divisor n − 1.
        standard_error: of the difference, std / √n.
        interval_low: the lower end of the interval of the difference, within the metric's bounds; NaN if there is none. It is for this
            comparison alone.
        interval_high: its upper end.
        joint_low: the lower end of the interval that is corrected for `n_joint` comparisons as p is. It stands in tables, charts and
            sentences, and leaves out 0, or what a margin holds, exactly if p decides.
        joint_high: its upper end.
        n_joint: how many comparisons p and the joint interval are corrected for; 1: they stand alone.
        lift_low: the lower end of the interval of relative_lift (Fieller), joint as well; NaN if there is none.
        lift_high: its upper end.
        no_lift: why relative_lift has no interval; empty if it has one.
        p_t: the two-sided p-value of the paired t test.
        p_sign_flip: the two-sided p-value of the randomisation test that gives each user's difference a random sign. It is exact
            if up to 16 users differ, or all by as much. Slices with more users draw no signs and have NaN.
        p: of what the verdict states, corrected for all comparisons of all users, or for all of slices. It is that of the interval, or
            that of signs if these are the test and it is larger. Metrics without a direction are corrected for each other alone.
        cohens_d: difference / std, the effect size.
        wins: how many users are better off: their value is larger, or smaller if smaller values are better. Of two judges only the
            users whom people graded count here, and in ties and losses.
        ties: for how many users both are equal.
        losses: how many users are worse off.
        margin: the largest difference that does not matter.
        larger_is_better: whether a larger value of the metric is better; true if neither is.
        verdict: ``better``, ``worse``, ``no relevant difference``, ``undecided``, or ``no user differs`` if both are equal for each user.
            ``higher`` or ``lower`` if the metric describes lists, or is a column of your own: nobody said which way is better.
        sentence: the same in a sentence, with the figures.
        interval_method: ``t``; ``score`` if few users differ far more than others; ``clopper_pearson`` if all users have nearly the same
            difference, or fewer than 30 users shall show what a margin holds; ``prediction_powered`` of two judges.
        p_test: what p is of: ``exact`` (all signs of the users who differ), ``sign_flip`` (drawn), or the method of the interval.
        p_margin: with a margin, the uncorrected two-sided p-value of the nearer of two statements: that the difference is beyond
            ±margin, or within.
        asked: the caller's name for the metric, such as ``map@10`` for ``ap@10``; empty if it equals `metric`.
        cluster: the columns of the clusters that users come in, which the interval and all p-values are of; empty: users are
            independent.
        n_clusters: how many clusters have a user with a difference; 0 if users are independent.
        effective_n_clusters: how many clusters of equal size would do as well; NaN if users are independent.
        df: the degrees of freedom of the standard error; n_users − 1 if users are independent.
        design_effect: the variance of the difference with clusters ÷ without; NaN if users are independent.
        no_interval: why there is no interval; empty if there is one.
        not_shared: which tables the two were not both evaluated on, and for how many users of either, such as ``labels (12 users)``;
            empty: none, or the tables of users do not tell.
    """

    metric: str
    model: str
    baseline: str
    slice: str
    n_users: int
    n_undefined: int
    mean: float
    baseline_mean: float
    difference: float
    relative_lift: float
    std: float
    standard_error: float
    interval_low: float
    interval_high: float
    joint_low: float
    joint_high: float
    n_joint: int
    lift_low: float
    lift_high: float
    no_lift: str
    p_t: float
    p_sign_flip: float
    p: float
    cohens_d: float
    wins: int
    ties: int
    losses: int
    margin: float
    larger_is_better: bool
    verdict: str
    sentence: str
    interval_method: str = "t"
    p_test: str = ""
    p_margin: float = math.nan
    asked: str = ""
    cluster: str = ""
    n_clusters: int = 0
    effective_n_clusters: float = math.nan
    df: float = math.nan
    design_effect: float = math.nan
    no_interval: str = ""
    not_shared: str = ""

    @property
    def figure(self) -> str:
        """The metric, the model and the slice, in words."""
        users = "" if self.slice == "all" else f" for users with {self.slice}"
        return f"{self.name} of {self.model}{users}"

    @property
    def p_of_signs(self) -> float:
        """The p-value of signs before correction, if p is of them; else NaN."""
        return self.p_sign_flip if self.p_test in ("exact", "sign_flip") else math.nan

    @property
    def names(self) -> set[str]:
        """The model, and the slice unless it is all users."""
        return {self.model} if self.slice == "all" else {self.model, self.slice}


def largest_losses(rows: Iterable[ComparisonRow]) -> list[ComparisonRow]:
    """The rows in which the model is worse than the baseline, the worst first."""
    gains = [(row.difference if row.larger_is_better else -row.difference, row) for row in rows]
    # An undefined difference is no loss, and has no place in an order.
    losses = [(gain, row) for gain, row in gains if gain < 0]
    return [row for _, row in sorted(losses, key=lambda pair: pair[0])]


# A page begins with so many sentences.
_MOST_SENTENCES = 8
# The meaning of a dash, whether an interval, a lift or a p-value is missing.
_DASH_MEANS = "cannot be computed, for the reason in the notes"


def differences_table(
    rows: Sequence[ComparisonRow],
    level: float,
    caption: str,
    notes: Sequence[Note] = (),
    *,
    headline: str = "",
    slices: bool = False,
) -> Table:
    """Models compared with a baseline: one row for each metric and model, or for each metric, slice and model.

    The rows of the metric whose label is `headline` say so.
    """
    columns: list[Column[Any]] = [
        text_column("metric", lambda row: f"{row.name} (headline)" if row.metric == headline else row.name),
        *([SLICE] if slices else []),
        MODEL,
        USERS,
        *means_columns(rows, "baseline", attrgetter("baseline_mean")),
        *lift_columns(),
        *difference_columns(rows, level),
        Column("wins/ties/losses", lambda row: f"{row.wins:,}/{row.ties:,}/{row.losses:,}"),
        VERDICT,
    ]
    return Table(rows, columns, caption=caption, notes=notes, dash_means=_DASH_MEANS, is_grouped=True)


def losses_table(rows: Sequence[ComparisonRow], level: float, title: str, notes: Sequence[Note]) -> Table:
    """The slices in which models lose: one row for each slice, metric and model."""
    lift = lift_columns()[:1]
    means = means_columns(rows, "baseline", attrgetter("baseline_mean"))
    columns = [SLICE, METRIC, MODEL, USERS, *means, *lift, *difference_columns(rows, level), VERDICT]
    return Table(rows, columns, title, title, notes, dash_means=_DASH_MEANS)


def difference_notes(
    rows: Sequence[ComparisonRow], level: float, test: str, correction: str, replicates: int, headline: str
) -> list[Note]:
    """Notes that explain the columns of a table of differences."""
    return [
        *_headline_notes(rows, headline),
        Note(f"from {name_of_test(test, replicates)}{_corrected_in_words(rows, correction, headline)}", "p"),
        *joint_notes(rows, level, headline),
        *lift_notes(rows),
        *(Note(text, "verdict") for text in margins_in_words(rows)),
        *map(Note, _exceptions(rows, test, replicates, headline)),
    ]


def slice_notes(
    rows: Sequence[ComparisonRow], sliced: Sequence[ComparisonRow], level: float, correction: str
) -> list[Note]:
    """Notes that explain the columns of a table of some slices, which are judged together with all others."""
    is_judged = any(row.p_test == PREDICTION_POWERED for row in rows)
    test = name_of_test(PREDICTION_POWERED, 0) if is_judged else "all patterns of signs or the paired t test"
    return [
        Note(f"from {test}{corrected_in_words(sliced, correction)}", "p"),
        *joint_notes(sliced, level),
        *lift_notes(rows),
        *map(Note, missing_intervals(rows)),
    ]


def first_sentences(rows: Sequence[ComparisonRow], headline: str) -> list[str]:
    """The sentences to begin with: those of the headline metric, or else of the first, then other verdicts, then what is undecided."""
    key = headline or next((row.metric for row in rows), "")
    first, others = [row for row in rows if row.metric == key], [row for row in rows if row.metric != key]
    decided = [row for row in others if row.verdict != UNDECIDED]
    sentences = [row.sentence for row in (*first, *decided)]
    n_more = len(sentences) - _MOST_SENTENCES
    more = [f"{n_more:,} more verdict{'s are' if n_more > 1 else ' is'} in the table."] if n_more > 0 else []
    undecided = [row.figure for row in others if row.verdict == UNDECIDED]
    rest = [f"Undecided: {listed(undecided, MOST_LISTED)}."] if undecided else []
    return [*sentences[:_MOST_SENTENCES], *more, *rest]


def _corrected_in_words(rows: Sequence[ComparisonRow], correction: str, headline: str) -> str:
    """How p-values are corrected if a headline metric, which may be empty, is tested first; after the name of their test."""
    first = [row for row in rows if row.metric == headline]
    sizes = sorted({row.n_joint for row in rows if row.metric != headline and not math.isnan(row.p)})
    if not first or not sizes:
        return corrected_in_words(rows, correction)
    if sizes[-1] == 1:
        return f", each metric alone, {first[0].name} first"
    n_models = max(row.n_joint for row in first)
    own = "alone" if n_models == 1 else f"corrected for {n_models:,} models"
    n = " or ".join(f"{size:,}" for size in sizes)
    return f", {first[0].name} {own}, other metrics corrected for {n} comparisons ({correction})"


def _headline_notes(rows: Sequence[ComparisonRow], headline: str) -> list[Note]:
    """How the headline metric is tested before the others."""
    names = [row.name for row in rows if row.metric == headline]
    if not names:
        return []
    share = "; the models share the error" if len({row.model for row in rows}) > 1 else ""
    return [Note(f"{names[0]} is tested first and alone, other metrics only if it is decided{share}", "headline")]


def reversals_in_words(rows: Sequence[ComparisonRow], sliced: Sequence[ComparisonRow]) -> list[str]:
    """A sentence on slices in which the opposite of the difference over all users is decided. Empty if there are none."""
    total = {(row.metric, row.model): row.difference for row in rows}
    opposite = [
        f"{row.figure} ({signed(row.difference)}, {p_in_words(row.p)})"
        for row in sliced
        if row.verdict in TONES and row.difference * total.get((row.metric, row.model), math.nan) < 0
    ]
    return [f"the opposite of the mean over all users: {listed(opposite, MOST_LISTED)}"] if opposite else []


def _exceptions(rows: Sequence[ComparisonRow], test: str, replicates: int, headline: str) -> list[str]:
    """Sentences on the rows without an interval, or whose p or interval comes from another method than in the other rows."""
    same = "Clopper-Pearson interval, because all users have nearly the same difference, or are few"
    far = "longer interval and larger p than of t, because few users differ far more than others"
    kinds = {
        smallest_p_in_words(replicates, " before correction"): [
            row for row in rows if row.p_test == "sign_flip" and is_smallest_p(row.p_sign_flip, replicates)
        ],
        **_raised_by_headline(rows, headline),
        "p from all patterns of signs, not from random ones": [row for row in rows if row.p_test == "exact"],
        "p from the paired t test": [row for row in rows if row.p_test == "t" != test and not math.isnan(row.p)],
        far: [row for row in rows if row.interval_method == SCORE],
        same: [row for row in rows if row.interval_method == "clopper_pearson"],
    }
    figures = {kind: [row.figure for row in kind_rows] for kind, kind_rows in kinds.items()}
    return [
        *(f"{kind}: {listed(names, MOST_LISTED)}" for kind, names in figures.items() if names),
        *missing_intervals(rows),
    ]


def _raised_by_headline(rows: Sequence[ComparisonRow], headline: str) -> dict[str, list[ComparisonRow]]:
    """The rows whose p would be smaller if the headline metric of their model were not tested first."""
    gates = {row.model: row for row in rows if row.metric == headline}
    raised: dict[str, list[ComparisonRow]] = {}
    for row in rows:
        gate = gates.get(row.model, row)
        p_alone = row.p_margin if row.margin else row.p_t if math.isnan(row.p_of_signs) else row.p_of_signs
        if gate is not row and p_alone < row.p == gate.p < 1:
            raised.setdefault(f"p no smaller than that of {gate.name}, which is tested first", []).append(row)
    return raised
