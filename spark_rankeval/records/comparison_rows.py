"""The rows of comparisons, of models and of groups of different users, with their tables and notes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar

from spark_rankeval.errors import listed
from spark_rankeval.records.summary import METRIC, MODEL, MOST_LISTED, SLICE, USERS, MetricRow
from spark_rankeval.statistics.intervals import percent
from spark_rankeval.tables import DASH, Cell, Column, Note, Table, Tone, common_format, probability, words


class JudgedRow(MetricRow):
    """A row with a difference of two means on a metric, and the verdict on it."""

    mean: float
    difference: float
    interval_low: float
    interval_high: float
    no_interval: str
    p: float
    margin: float
    verdict: str

    @property
    def shown_ends(self) -> tuple[float, float]:
        """The ends of the interval that stands beside the p-value."""
        return self.interval_low, self.interval_high


class JointRow(JudgedRow):
    """A row that also has the interval that holds together with those of the other comparisons."""

    joint_low: float
    joint_high: float
    n_joint: int

    @property
    def shown_ends(self) -> tuple[float, float]:
        """The ends of the joint interval."""
        return self.joint_low, self.joint_high


class LiftedRow(JointRow):
    """A row whose difference is also a share of the baseline's mean."""

    relative_lift: float
    lift_low: float
    lift_high: float
    no_lift: str


Judged = TypeVar("Judged", bound=JudgedRow)


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
        joint_low: the lower end of the interval that holds together with those of all `n_joint` comparisons, and stands in tables,
            charts and sentences.
        joint_high: its upper end.
        n_joint: how many comparisons p and the joint interval are corrected for; 1: they stand alone.
        lift_low: the lower end of the interval of relative_lift (Fieller), joint as well; NaN if there is none.
        lift_high: its upper end.
        no_lift: why relative_lift has no interval; empty if it has one.
        p_t: the two-sided p-value of the paired t test.
        p_sign_flip: the two-sided p-value of the randomisation test that gives each user's difference a random sign. It is exact
            if up to 16 users differ, or all by as much. Slices with more users draw no signs and have NaN.
        p: of what the verdict states, corrected for all comparisons of all users, or for all of slices. Without a margin it is
            that of `test`; with one, the larger of that and `p_margin`, or `p_margin`. Slices: p_sign_flip, or p_t.
        cohens_d: difference / std, the effect size.
        wins: how many users are better off: their value is larger, or smaller if smaller values are better.
        ties: for how many users both are equal.
        losses: how many users are worse off.
        margin: the difference that does not matter.
        larger_is_better: whether a larger value of the metric is better.
        verdict: ``better``, ``worse``, ``no relevant difference`` or ``undecided``.
        sentence: the same in a sentence, with the figures.
        interval_method: ``t``; ``clopper_pearson`` if all users have the same difference.
        p_test: what p is of: ``exact`` (all signs of the users who differ), ``sign_flip`` (drawn), ``t``, or ``clopper_pearson``
            (with a margin, if all users have the same difference).
        p_margin: with a margin, the uncorrected two-sided p-value of the nearer of two statements: that the difference is beyond
            ±margin, or within.
        asked: what the caller called the metric, such as ``map@10`` for ``ap@10``; empty: as `metric` has it.
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


def largest_losses(rows: Iterable[ComparisonRow]) -> list[ComparisonRow]:
    """The rows in which the model is worse than the baseline, the worst first."""
    gains = [(row.difference if row.larger_is_better else -row.difference, row) for row in rows]
    # An undefined difference is no loss, and has no place in an order.
    losses = [(gain, row) for gain, row in gains if gain < 0]
    return [row for _, row in sorted(losses, key=lambda pair: pair[0])]


@dataclass(frozen=True)
class PairRow(JudgedRow):
    """One metric of two of several models, over the users for whom all models have a value.

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
        verdict: ``better``, ``worse``, ``no relevant difference`` or ``undecided``.
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


@dataclass(frozen=True)
class GroupRow(LiftedRow):
    """One metric of one group of users against the baseline, which is another group.

    Examples:
        >>> row = trial["rr"]
        >>> row.group, row.n_users, row.n_baseline_users
        ('FR', 4, 4)
        >>> round(row.difference, 4), round(row.interval_low, 4), row.verdict
        (-0.25, -0.7093, 'undecided')

    Attributes:
        metric: the metric's label.
        group: the group.
        baseline: the group that it is compared with.
        n_users: how many users of the group have a value.
        n_baseline_users: how many of the baseline have one.
        n_undefined: how many users of both have none.
        mean: of the group; weighted if users have weights, and adjusted for the covariate if there is one.
        baseline_mean: of the baseline, likewise.
        difference: mean − baseline_mean.
        relative_lift: difference / |baseline_mean|; NaN if that is 0.
        standard_error: of the difference; for one look a group of few users counts as at least as spread as the other.
        df: Satterthwaite's degrees of freedom of the standard error; NaN without a spread.
        interval_low: the lower end of the difference's interval, within the metric's bounds; NaN if there is none.
        interval_high: its upper end.
        joint_low: as in `ComparisonRow`.
        joint_high: as in `ComparisonRow`.
        n_joint: as in `ComparisonRow`.
        lift_low: as in `ComparisonRow`; a confidence sequence has none.
        lift_high: as in `ComparisonRow`.
        no_lift: as in `ComparisonRow`.
        interval_method: ``welch``; ``mover`` (from the Clopper-Pearson intervals of both means) if all values of a group are equal,
            or all are 0 or 1 and fewer than 30 users have the rarer one; ``confidence_sequence`` if `sequential`.
        no_interval: why there is no interval; empty if there is one.
        p: of what the verdict states, corrected for all metrics and groups; valid at all looks together if `sequential`.
        margin: the difference that does not matter.
        larger_is_better: whether a larger value of the metric is better.
        verdict: ``better``, ``worse``, ``no relevant difference`` or ``undecided``.
        sentence: the same in a sentence, with the figures.
        theta: by how much the metric rises with the covariate; NaN without an adjustment.
        variance_saved: the share of the difference's variance that the adjustment saved: 0.3 is 30 %. NaN without one.
        n_without_covariate: how many users of both groups have a value but no covariate, and take its mean.
        not_adjusted: why there is no adjustment although there is a covariate.
        asked: what the caller called the metric; empty: as `metric` has it.
        cluster: the columns of the clusters that users come in, which errors, interval and p are of; empty: users are independent.
        n_clusters: how many clusters have a user of the group with a value; 0 if users are independent.
        n_baseline_clusters: how many have one of the baseline.
        effective_n_clusters: how many clusters of equal weight would do as well, of the group with fewer; NaN if users are independent.
    """

    metric: str
    group: str
    baseline: str
    n_users: int
    n_baseline_users: int
    n_undefined: int
    mean: float
    baseline_mean: float
    difference: float
    relative_lift: float
    standard_error: float
    df: float
    interval_low: float
    interval_high: float
    joint_low: float
    joint_high: float
    n_joint: int
    lift_low: float
    lift_high: float
    no_lift: str
    interval_method: str
    no_interval: str
    p: float
    margin: float
    larger_is_better: bool
    verdict: str
    sentence: str
    theta: float = math.nan
    variance_saved: float = math.nan
    n_without_covariate: int = 0
    not_adjusted: str = ""
    asked: str = ""
    cluster: str = ""
    n_clusters: int = 0
    n_baseline_clusters: int = 0
    effective_n_clusters: float = math.nan


_TONES: dict[str, Tone] = {"better": "good", "worse": "bad"}
#: The verdict, in the colour of its meaning.
VERDICT: Column[Any] = words("verdict", lambda row: Cell(row.verdict, tone=_TONES.get(row.verdict, "")))


def differences_table(rows: Sequence[ComparisonRow], level: float, caption: str, *, slices: bool = False) -> Table:
    """Models compared with a baseline: one row for each metric and model, or for each metric, slice and model."""
    columns: list[Column[Any]] = [
        METRIC,
        *([SLICE] if slices else []),
        MODEL,
        USERS,
        *means_columns(rows, "baseline", attrgetter("baseline_mean")),
        *lift_columns(),
        *difference_columns(rows, level),
        Column("wins/ties/losses", lambda row: f"{row.wins:,}/{row.ties:,}/{row.losses:,}"),
        VERDICT,
    ]
    dash = "not defined for these users"
    return Table(rows, columns, caption=caption, dash_means=dash, is_grouped=True)


def losses_table(rows: Sequence[ComparisonRow], level: float, title: str) -> Table:
    """The slices in which models lose: one row for each slice, metric and model."""
    lift = lift_columns()[:1]
    columns = [words("slice", SLICE.cell), METRIC, MODEL, USERS, *lift, *difference_columns(rows, level), VERDICT]
    return Table(rows, columns, title, "the slices with the largest losses")


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


def means_columns(rows: Sequence[Judged], title: str, other_mean: Callable[[Judged], float]) -> list[Column[Any]]:
    """The columns of the model's mean and the other model's mean, in the same format."""
    written = common_format(mean for row in rows for mean in (row.mean, other_mean(row)))
    return [Column("mean", lambda row: written(row.mean)), Column(title, lambda row: written(other_mean(row)))]


def difference_columns(rows: Sequence[JudgedRow], level: float) -> list[Column[Any]]:
    """The columns of the difference, its interval and p. Each column has one format."""
    written = common_format((row.difference for row in rows), sign="+")

    def ends(row: JudgedRow) -> str:
        low, high = row.shown_ends
        return DASH if math.isnan(low) else f"{written(low)} to {written(high)}"

    difference: Column[Any] = Column("difference", lambda row: written(row.difference))
    return [difference, Column(f"{100 * level:g} % interval", ends), Column("p", lambda row: probability(row.p))]


def lift_columns() -> list[Column[Any]]:
    """The columns of the lift and its interval."""

    def ends(row: LiftedRow) -> str:
        return DASH if math.isnan(row.lift_low) else f"{percent(row.lift_low)} to {percent(row.lift_high)}"

    lift: Column[Any] = Column("lift", lambda row: DASH if math.isnan(row.lift_low) else percent(row.relative_lift))
    return [lift, Column("interval of lift", ends)]


def differences_in_words(
    rows: Sequence[ComparisonRow], test: str, correction: str, replicates: int, headline: str
) -> list[Note]:
    """Notes that explain the columns of a table of differences."""
    corrected = "" if correction == "none" else f", {correction_in_words(rows, correction)}"
    return [
        *headline_in_words(rows, headline),
        Note(f"from {name_of_test(test, replicates)}{corrected}", "p"),
        *(floor_in_words(rows, replicates) if test == "sign_flip" else []),
        *(Note(text, "interval") for text in joint_in_words(rows, correction)),
        *lifts_in_words(rows),
        *(Note(text, "verdict") for text in margins_in_words(rows)),
        *map(Note, exceptions(rows, test, replicates)),
    ]


def headline_in_words(rows: Sequence[ComparisonRow], headline: str) -> list[Note]:
    """How the headline metric is tested before the others."""
    names = [row.name for row in rows if row.metric == headline]
    if not names:
        return []
    share = "; the models share the error" if len({row.model for row in rows}) > 1 else ""
    return [Note(f"{names[0]} is tested first and alone, other metrics only if it is decided{share}", "headline")]


def lift_in_words(row: LiftedRow) -> str:
    """The lift after a difference, in parentheses; empty if it has no interval."""
    return "" if math.isnan(row.lift_low) else f" ({percent(row.relative_lift)})"


def joined_in_words(rows: Sequence[JointRow]) -> str:
    """How many comparisons the intervals hold for, after the word; empty if each stands alone."""
    sizes = sorted({row.n_joint for row in rows if row.n_joint > 1})
    return f" for {' or '.join(f'{size:,}' for size in sizes)} comparisons together" if sizes else ""


def joint_in_words(rows: Sequence[JointRow], correction: str) -> list[str]:
    """What the intervals hold together with, and where they do not agree with the verdict."""
    sizes = sorted({row.n_joint for row in rows if row.n_joint > 1})
    if not sizes:
        return []
    n = " or ".join(f"{size:,}" for size in sizes)
    kind = "Benjamini-Yekutieli" if correction == "benjamini_hochberg" else "Bonferroni"
    apart = [
        f"{row.name} of {row.model}"
        for row in rows
        if isinstance(row, ComparisonRow) and row.verdict in _TONES and row.joint_low <= 0 <= row.joint_high
    ]
    disagreement = f"{listed(apart, MOST_LISTED)}: Holm's steps decide what Bonferroni's wider interval leaves open"
    return [
        f"the intervals of {n} comparisons hold together ({kind}); to_pandas() also has each one alone",
        *([disagreement] if apart else []),
    ]


def lifts_in_words(rows: Sequence[LiftedRow]) -> list[Note]:
    """What the lift is, and where it has no interval."""
    notes = [Note("difference / |baseline's mean|, with Fieller's interval", "lift")]
    missing = dict.fromkeys(f"{row.name}: {row.no_lift}" for row in rows if row.no_lift and not row.no_interval)
    return [*notes, *([Note(f"no lift for {listed(list(missing), MOST_LISTED)}")] if missing else [])]


def floor_in_words(rows: Sequence[ComparisonRow], replicates: int) -> list[Note]:
    """How small a drawn p-value can be, if a row has that one."""
    least = 1 / (replicates + 1)
    at_floor = [row.name for row in rows if row.p_test == "sign_flip" and row.p_sign_flip <= least]
    if not at_floor:
        return []
    names = "all" if len(at_floor) == len(rows) > 1 else listed(at_floor, MOST_LISTED)
    times = ", before the correction" if any(row.n_joint > 1 for row in rows) else ""
    return [Note(f"{names}: as small as {replicates:,} draws can give, 1/{replicates + 1:,}{times}", "p")]


def pairs_in_words(rows: Sequence[PairRow], test: str, replicates: int) -> list[Note]:
    """Notes that explain the columns of a table of pairs."""
    p = f"from {name_of_test(test, replicates)}, corrected for the number of pairs of a metric, not for the number of metrics"
    ends = (
        "the intervals of all pairs of a metric hold together. Only users with a value under every model are compared"
    )
    return [Note(p, "p"), Note(ends, "interval"), *map(Note, missing_intervals(rows))]


def correction_in_words(rows: Sequence[JudgedRow], correction: str) -> str:
    """How p-values are corrected."""
    n_tests = sum(not math.isnan(row.p) for row in rows)
    return f"corrected for {n_tests:,} comparison{'s' if n_tests != 1 else ''} ({correction})"


def rare_value_notes(figures: Sequence[str]) -> list[Note]:
    """The note on figures whose intervals come from Clopper-Pearson intervals."""
    why = "p and interval from the Clopper-Pearson intervals of both means, because a value is rare or all are equal"
    return [Note(f"{why}: {listed(figures, MOST_LISTED)}")] if figures else []


def margins_in_words(rows: Sequence[JudgedRow]) -> list[str]:
    """A sentence on the differences that are too small to matter. Empty if all matter."""
    metrics_by_margin: dict[float, dict[str, None]] = {}
    for row in rows:
        metrics_by_margin.setdefault(row.margin, {})[row.name] = None
    margins = [
        f"{margin:g}" if len(metrics_by_margin) == 1 else f"{margin:g} for {listed(list(metrics))}"
        for margin, metrics in sorted(metrics_by_margin.items())
        if margin
    ]
    return [f"differences up to {' or '.join(margins)} do not matter"] if margins else []


def exceptions(rows: Sequence[ComparisonRow], test: str, replicates: int) -> list[str]:
    """Sentences on the rows without an interval, or whose p or interval comes from another method than in the other rows."""
    same = "Clopper-Pearson interval, because all users have the same difference"
    # No draw of signs gives as large a difference; NaN, of rows without draws, is not below.
    floor = f"p as small as {replicates:,} replicates can show, 1/{replicates + 1:,} before correction"
    least = [row for row in rows if row.p_test == "sign_flip" and row.p_sign_flip * (replicates + 1) < 1.5]
    kinds = {
        floor: least,
        "p from all patterns of signs, not from random ones": [row for row in rows if row.p_test == "exact"],
        "p from the paired t test": [row for row in rows if row.p_test == "t" != test and not math.isnan(row.p)],
        same: [row for row in rows if row.interval_method == "clopper_pearson"],
    }
    figures = {kind: [f"{row.name} of {row.model}" for row in kind_rows] for kind, kind_rows in kinds.items()}
    return [
        *(f"{kind}: {listed(names, MOST_LISTED)}" for kind, names in figures.items() if names),
        *missing_intervals(rows),
    ]


def missing_intervals(rows: Sequence[JudgedRow]) -> list[str]:
    """A sentence on why rows have no interval. Empty if all have one."""
    reasons = dict.fromkeys(f"{row.name}: {row.no_interval}" for row in rows if row.no_interval)
    return [f"no interval: {listed(list(reasons), MOST_LISTED)}"] if reasons else []


def name_of_test(test: str, replicates: int) -> str:
    """The name of the test that a p comes from."""
    return {
        "sign_flip": f"the sign-flip randomisation test with {replicates:,} replicates",
        "t": "the paired t test",
        "tukey": "Tukey's test for a two-way layout",
        "games_howell": "the Games-Howell test with users as blocks",
        "randomised": f"the randomised Tukey test with {replicates:,} replicates",
    }[test]


def groups_table(
    rows: Sequence[GroupRow],
    baseline: str,
    level: float,
    *,
    correction: str,
    covariate: str | None,
    tightest_at: int | None,
    weights: Sequence[str],
) -> Table:
    """One row for each metric and group."""
    columns: list[Column[Any]] = [
        METRIC,
        words("group", lambda row: row.group),
        Column("users", lambda row: f"{row.n_users:,}"),
        Column("baseline's", lambda row: f"{row.n_baseline_users:,}"),
        *means_columns(rows, "baseline", attrgetter("baseline_mean")),
        *lift_columns(),
        *difference_columns(rows, level),
    ]
    if covariate is not None:
        columns.append(Column("saved", _saved))
    notes = [
        *_tests_in_words(rows, level, correction, tightest_at),
        *(Note(text, "interval") for text in joint_in_words(rows, correction)),
        *lifts_in_words(rows),
        *_adjustment_in_words(rows, covariate),
        *(Note(text, "verdict") for text in margins_in_words(rows)),
        *([Note(f"users are weighted by {', '.join(weights)}", "mean")] if weights else []),
    ]
    caption = f"Differences from {baseline}, with {100 * level:g} % intervals"
    return Table(
        rows, [*columns, VERDICT], f"baseline {baseline!r}", caption, notes, dash_means="not known", is_grouped=True
    )


def _saved(row: GroupRow) -> str:
    return DASH if math.isnan(row.variance_saved) else f"{100 * row.variance_saved:.1f} %"


def _tests_in_words(rows: Sequence[GroupRow], level: float, correction: str, tightest_at: int | None) -> list[Note]:
    corrected = "" if correction == "none" else f", {correction_in_words(rows, correction)}"
    if tightest_at is None:
        notes = [Note(f"from Welch's test of different users{corrected}", "p")]
    else:
        notes = [
            Note(f"valid at all looks together{corrected}", "p"),
            Note(f"a confidence sequence, valid at all looks together; tightest at {tightest_at:,} users", "interval"),
        ]
    rare = [f"{row.name} of {row.group}" for row in rows if row.interval_method == "mover" and not row.no_interval]
    return [*notes, *rare_value_notes(rare), *map(Note, missing_intervals(rows))]


def _adjustment_in_words(rows: Sequence[GroupRow], covariate: str | None) -> list[Note]:
    if covariate is None:
        return []
    saved = f"the share of the difference's variance that {covariate} explains; means are adjusted for it (CUPED)"
    notes = [Note(saved, "saved")]
    n_missing = max((row.n_without_covariate for row in rows), default=0)
    if n_missing:
        who = "1 user without it takes" if n_missing == 1 else f"{n_missing:,} users without it take"
        notes.append(Note(f"{'at most ' if len(rows) > 1 else ''}{who} its mean", covariate))
    plain = dict.fromkeys(f"{row.name} of {row.group}: {row.not_adjusted}" for row in rows if row.not_adjusted)
    if plain:
        notes.append(Note(f"not adjusted: {listed(list(plain), MOST_LISTED)}"))
    return notes
