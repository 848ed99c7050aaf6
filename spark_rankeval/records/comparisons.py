"""The rows of comparisons of models with a baseline, with their tables and notes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from spark_rankeval.dialects.published import formula
from spark_rankeval.errors import listed
from spark_rankeval.metrics.base import RelevanceMetric
from spark_rankeval.metrics.gains import GainMetric
from spark_rankeval.printed_tables import DASH, Column, Note, Table, common_format, number, share, text_column
from spark_rankeval.records import columns as table_columns
from spark_rankeval.records import judges
from spark_rankeval.records import summary as summary_rows
from spark_rankeval.records.columns import CORRECTION, LEVEL, TIME_COLUMN, Part, TableColumn, TableColumns, described
from spark_rankeval.records.judges import LIFT, VERDICT, LiftedRow, VerdictRow, difference_columns, means_columns
from spark_rankeval.records.quality import DataQuality
from spark_rankeval.records.summary import METRIC, MODEL, MOST_LISTED, SLICE, USERS, ClusteredRow, MetricRow, SummaryRow
from spark_rankeval.statistics.comparisons import UNDECIDED, interval_in_words, p_in_words, signed
from spark_rankeval.statistics.intervals import PREDICTION_POWERED, SCORE


class Tests(NamedTuple):
    """The p-values of a comparison before correction; see `ComparisonRow`."""

    p_t: float
    p_sign_flip: float
    p_test: str = ""
    p_margin: float = math.nan


@dataclass(frozen=True, kw_only=True)
class ComparisonRow(LiftedRow, ClusteredRow):
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

    order = (
        "metric model baseline slice n_users n_undefined mean baseline_mean difference relative_lift std standard_error interval_low "
        "interval_high joint_low joint_high n_joint lift_low lift_high no_lift p_t p_sign_flip p cohens_d wins ties losses margin "
        "larger_is_better verdict sentence interval_method p_test p_margin asked cluster n_clusters effective_n_clusters df "
        "design_effect no_interval not_shared"
    )

    model: str = described("the name of the predictions; empty if they have none")
    baseline: str = described("the model that it is compared with")
    slice: str = described("the users, such as country=DE; all")
    n_users: int = described("how many users have a value of both models")
    n_undefined: int = described("how many users are left out, because a model has no value")
    mean: float = described("the mean of the model over these users")
    std: float = described("the standard deviation of the users' differences, divisor n - 1")
    df: float = described("the degrees of freedom of the standard error", math.nan)
    cohens_d: float = described("difference / std, the effect size")
    tests: Tests
    p_t = Part("tests.p_t", float, "the two-sided p-value of the paired t test")
    p_sign_flip = Part(
        "tests.p_sign_flip", float, "the two-sided p-value of the test that gives each difference a random sign"
    )
    p_test = Part("tests.p_test", str, "the test of p: exact, sign_flip, t, score or clopper_pearson")
    p_margin = Part("tests.p_margin", float, "the p-value of the statement about the margin; NaN without a margin")
    wins: int = described("how many users are better off")
    ties: int = described("for how many users both are equal")
    losses: int = described("how many users are worse off")
    not_shared: str = described("which tables the two were not both evaluated on; empty if none, or not known", "")

    @property
    def figure(self) -> str:
        """The metric, the model and the slice, in words."""
        users = "" if self.slice == "all" else f" for users with {self.slice}"
        return f"{self.name} of {self.model}{users}"

    @property
    def names(self) -> set[str]:
        """The model, and the slice unless it is all users."""
        return {self.model} if self.slice == "all" else {self.model, self.slice}


_HEADLINE = TableColumn(
    "headline",
    table_columns.TEXT,
    "the metric that was tested first, as its rows have it in asked; empty if there is none",
)
#: What `ModelComparison.to_spark` has, of all users and of slices.
MODEL_COMPARISON = TableColumns.of(ComparisonRow, "each metric, model and slice", LEVEL, CORRECTION, _HEADLINE)
#: The table of comparisons of a job.
COMPARISONS = TableColumns(MODEL_COMPARISON.row, (*MODEL_COMPARISON.columns, TIME_COLUMN))


def largest_losses(rows: Iterable[ComparisonRow]) -> list[ComparisonRow]:
    """The rows in which the model is worse than the baseline, the worst first."""
    gains = [(row.difference if row.larger_is_better else -row.difference, row) for row in rows]
    # An undefined difference is no loss, and has no place in an order.
    losses = [(gain, row) for gain, row in gains if gain < 0]
    return [row for _, row in sorted(losses, key=lambda pair: pair[0])]


# A page begins with so many sentences, and a screen ends with so many.
_MOST_SENTENCES, _MOST_SENTENCES_ON_SCREEN = 8, 3
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
        LIFT,
        *difference_columns(rows, level),
        Column("wins/ties/losses", lambda row: f"{row.wins:,}/{row.ties:,}/{row.losses:,}"),
        VERDICT,
    ]
    return Table(rows, columns, caption=caption, notes=notes, dash_means=_DASH_MEANS, is_grouped=True)


def losses_table(rows: Sequence[ComparisonRow], level: float, title: str, notes: Sequence[Note]) -> Table:
    """The slices in which models lose: one row for each slice, metric and model."""
    means = means_columns(rows, "baseline", attrgetter("baseline_mean"))
    columns = [SLICE, METRIC, MODEL, USERS, *means, LIFT, *difference_columns(rows, level), VERDICT]
    return Table(rows, columns, title, title, notes, dash_means=_DASH_MEANS)


def difference_notes(
    rows: Sequence[ComparisonRow], level: float, test: str, correction: str, replicates: int, headline: str
) -> list[Note]:
    """Notes that explain the columns of a table of differences."""
    return [
        *_headline_notes(rows, headline),
        Note(f"from {judges.name_of_test(test, replicates)}{judges.joined_in_words(rows, correction)}", "p"),
        *judges.joint_notes(rows, level),
        *judges.lift_notes(rows),
        *(Note(text, "verdict") for text in judges.margins_in_words(rows)),
        *map(Note, _exceptions(rows, test, replicates)),
    ]


def notes_on_screen(
    rows: Sequence[ComparisonRow], test: str, correction: str, replicates: int, headline: str
) -> list[Note]:
    """What a screen shows below a table of differences: what the first metric says, the test, and why figures are missing."""
    first = headline or next((row.metric for row in rows), "")
    sentences = [Note(row.sentence) for row in rows if row.metric == first][:_MOST_SENTENCES_ON_SCREEN]
    # Signs alone decide only if their p is the larger one.
    others = test == "sign_flip" and any(row.p_test not in ("", "sign_flip", "exact") for row in rows)
    or_interval = ", or of the interval's test if that is larger" if others else ""
    how = f"from {judges.name_of_test(test, replicates)}{or_interval}{judges.joined_in_words(rows, correction)}"
    return [*sentences, *missing_notes(rows), Note(how, "p", "comparison.explain() says more")]


def missing_notes(rows: Sequence[ComparisonRow]) -> list[Note]:
    """Notes on the rows that have no lift or no interval."""
    return [*judges.missing_lifts(rows), *map(Note, summary_rows.missing_intervals(rows, attrgetter("figure")))]


def slice_notes(
    rows: Sequence[ComparisonRow], sliced: Sequence[ComparisonRow], level: float, correction: str
) -> list[Note]:
    """Notes that explain the columns of a table of some slices, which are judged together with all others."""
    is_judged = any(row.p_test == PREDICTION_POWERED for row in rows)
    test = judges.name_of_test(PREDICTION_POWERED, 0) if is_judged else "all patterns of signs or the paired t test"
    return [
        Note(f"from {test}{judges.joined_in_words(sliced, correction)}", "p"),
        *judges.joint_notes(sliced, level),
        *judges.lift_notes(rows),
        *map(Note, summary_rows.missing_intervals(rows, attrgetter("figure"))),
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


# With other parameters, such as a budget or the weights of a log, a metric is not a plain share of items or users.
_PLAIN = {"relevance_threshold", "ties", "denominator", "undefined"}


def answers(rows: Sequence[ComparisonRow], headline: str, definitions: Mapping[str, str]) -> list[str]:
    """What the differences mean for users, in a sentence per model without terms of statistics.

    `definitions` has the full definition of each metric by its label. Without one a metric is not put into words.
    """
    first = headline or next((row.metric for row in rows), "")
    sentences = []
    for model in dict.fromkeys(row.model for row in rows):
        of_model = [row for row in rows if row.model == model]
        means = next(filter(None, (_means_for_users(row, definitions) for row in of_model)), "")
        for row in of_model:
            if row.metric == first and row.n_users:
                metric = summary_rows.metric_or_none(definitions.get(row.metric, ""))
                has_direction = summary_rows.direction_of(metric) is not None
                gain, lose = ("gain", "lose") if has_direction else ("have a higher value", "a lower one")
                counts = f"{row.wins:,} users {gain}, {row.losses:,} {lose}, and {row.ties:,} see no change"
                rest = f"{means} By {row.name}, {counts}." if means else f"{counts} by {row.name}."
                sentences.append(f"With {model} instead of {row.baseline}, {rest}")
    return sentences


def _means_for_users(row: ComparisonRow, definitions: Mapping[str, str]) -> str:
    """Both means of a metric that counts relevant items or users; empty if it counts neither."""
    metric = summary_rows.metric_or_none(definitions.get(row.metric, ""))
    if metric is None or metric.k is None or math.isnan(row.mean) or metric.chosen().keys() - _PLAIN:
        return ""
    denominator = getattr(metric, "denominator", None)
    mean, baseline = (f"{100 * value:.1f}%" for value in (row.mean, row.baseline_mean))
    if metric.name == "recall" and denominator == "labels":
        return f"on average {mean} instead of {baseline} of a user's relevant items are in the first {metric.k}."
    if metric.name == "precision" and denominator == "k":
        return f"on average {mean} instead of {baseline} of the first {metric.k} items are relevant."
    if metric.name == "hit_rate":
        return f"{mean} instead of {baseline} of the users have a relevant item in the first {metric.k}."
    return ""


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
        if row.verdict in judges.TONES and row.difference * total.get((row.metric, row.model), math.nan) < 0
    ]
    return [f"the opposite of the mean over all users: {listed(opposite, MOST_LISTED)}"] if opposite else []


def _exceptions(rows: Sequence[ComparisonRow], test: str, replicates: int) -> list[str]:
    """Sentences on the rows without an interval, or whose p or interval comes from another method than in the other rows."""
    same = "Clopper-Pearson interval, because all users have nearly the same difference, or are few"
    far = "longer interval and larger p than of t, because few users differ far more than others"
    kinds = {
        judges.smallest_p_in_words(replicates, " before correction"): [
            row for row in rows if row.p_test == "sign_flip" and judges.is_smallest_p(row.p_sign_flip, replicates)
        ],
        "p from the paired t test": [row for row in rows if row.p_test == "t" != test and not math.isnan(row.p)],
        far: [row for row in rows if row.interval_method == SCORE],
        same: [row for row in rows if row.interval_method == "clopper_pearson"],
    }
    figures = {kind: [row.figure for row in kind_rows] for kind, kind_rows in kinds.items()}
    return [
        *(f"{kind}: {listed(names, MOST_LISTED)}" for kind, names in figures.items() if names),
        *summary_rows.missing_intervals(rows, attrgetter("figure")),
    ]


@dataclass(frozen=True, kw_only=True)
class PairRow(VerdictRow, ClusteredRow):
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

    order = (
        "metric model other n_users n_undefined mean other_mean difference interval_low interval_high q p_tukey p_randomised p margin "
        "verdict sentence interval_method asked cluster n_clusters effective_n_clusters design_effect no_interval"
    )

    model: str = described("the name of the predictions; empty if they have none")
    other: str = described("the model that it is compared with")
    n_users: int = described("how many users have a value of all models")
    n_undefined: int = described("how many users are left out, because they have no value")
    other_mean: float = described("the mean of the other side")
    q: float = described("the statistic of the studentized range")
    p_tukey: float = described("the p-value of q, corrected for the number of pairs")
    p_randomised: float = described(
        "the p-value of the test that permutes models within each user; NaN if not requested"
    )

    @property
    def figure(self) -> str:
        """The metric and both models, as words."""
        return f"{self.name} of {self.model} and {self.other}"

    @property
    def names(self) -> set[str]:
        """Both models."""
        return {self.model, self.other}


#: What `PairwiseComparison.to_spark` has.
PAIRS = TableColumns.of(PairRow, "each metric and pair of models", LEVEL)


@dataclass(frozen=True, kw_only=True)
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

    order = "metric model n_users mean rank lowest highest n_models sentence asked"

    model: str = described("the name of the predictions; empty if they have none")
    n_users: int = described("how many users have a value of all models")
    mean: float = described("the mean over the users who have a value; NaN over none")
    rank: int = described("the rank by the mean, 1 for the best; 0 without a mean")
    lowest: int = described("the best rank that the true one may be")
    highest: int = described("the worst rank that the true one may be")
    n_models: int = described("how many models there are")
    sentence: str = described("the verdict in a sentence, with the figures")


#: What the ranks of a `PairwiseComparison` have.
RANKS = TableColumns.of(RankRow, "each metric and model", LEVEL)


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
    name = judges.name_of_test(test, replicates)
    correction = f"from {name}, corrected for the number of pairs of a metric, not for the number of metrics"
    users = (
        "the intervals of all pairs of a metric hold together. Only users with a value under every model are compared"
    )
    smallest = [
        row.figure for row in rows if test == "randomised" and judges.is_smallest_p(row.p_randomised, replicates)
    ]
    others = [f"{judges.smallest_p_in_words(replicates)}: {listed(smallest, MOST_LISTED)}"] if smallest else []
    return [
        Note(correction, "p"),
        Note(users, "interval"),
        *map(Note, [*others, *summary_rows.missing_intervals(rows, attrgetter("figure"))]),
    ]


@dataclass(frozen=True, kw_only=True)
class GroupRow(LiftedRow, ClusteredRow):
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
        margin: the largest difference that does not matter.
        larger_is_better: whether a larger value of the metric is better.
        verdict: ``better``, ``worse``, ``no relevant difference`` or ``undecided``.
        sentence: the same in a sentence, with the figures.
        theta: by how much the metric rises with the covariate; NaN without an adjustment.
        variance_saved: the share of the difference's variance that the adjustment saved: 0.3 is 30%. NaN without one.
        n_without_covariate: how many users of both groups have a value but no covariate, and take its mean.
        not_adjusted: why there is no adjustment although there is a covariate.
        asked: the caller's name for the metric, such as ``map@10`` for ``ap@10``; empty if it equals `metric`.
        cluster: the columns of the clusters that users come in, which errors, interval and p are of; empty: users are independent.
        n_clusters: how many clusters have a user of the group with a value; 0 if users are independent.
        n_baseline_clusters: how many have one of the baseline.
        effective_n_clusters: how many clusters of equal weight would do as well, of the group with fewer; NaN if users are independent.
    """

    order = (
        "metric group baseline n_users n_baseline_users n_undefined mean baseline_mean difference relative_lift standard_error df "
        "interval_low interval_high joint_low joint_high n_joint lift_low lift_high no_lift interval_method no_interval p margin "
        "larger_is_better verdict sentence theta variance_saved n_without_covariate not_adjusted asked cluster n_clusters "
        "n_baseline_clusters effective_n_clusters"
    )

    group: str = described("the group of users")
    baseline: str = described("the group that it is compared with")
    n_users: int = described("how many users of the group have a value")
    n_baseline_users: int = described("how many users of the baseline have a value")
    n_undefined: int = described("how many users of both have no value")
    df: float = described("the degrees of freedom of the standard error")
    theta: float = described("by how much the metric rises with the covariate; NaN without an adjustment", math.nan)
    variance_saved: float = described("the share of the variance that the adjustment saved; NaN without one", math.nan)
    n_without_covariate: int = described("how many users have a value but no covariate, and take its mean", 0)
    not_adjusted: str = described("why there is no adjustment although there is a covariate", "")
    n_baseline_clusters: int = described("how many clusters have a user of the baseline with a value", 0)

    @property
    def figure(self) -> str:
        """The metric and the group, in words."""
        return f"{self.name} of {self.group}"

    @property
    def names(self) -> set[str]:
        """The group."""
        return {self.group}


#: What `GroupComparison.to_spark` has.
GROUP_COMPARISON = TableColumns.of(
    GroupRow,
    "each metric and group",
    LEVEL,
    CORRECTION,
    TableColumn("covariate", table_columns.TEXT, "the column by which means are adjusted; null if there is none"),
    TableColumn("sequential", table_columns.FLAG, "whether intervals and p-values hold at all looks together"),
    TableColumn(
        "tightest_at",
        table_columns.COUNT,
        "the number of users at which such intervals are tightest; null without them",
    ),
)
#: The table of comparisons of groups of a job.
GROUP_COMPARISONS = TableColumns(GROUP_COMPARISON.row, (*GROUP_COMPARISON.columns, TIME_COLUMN))


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
        text_column("group", lambda row: row.group),
        Column("users", lambda row: f"{row.n_users:,}"),
        Column("baseline's", lambda row: f"{row.n_baseline_users:,}"),
        *means_columns(rows, "baseline", attrgetter("baseline_mean")),
        LIFT,
        *difference_columns(rows, level),
    ]
    if covariate is not None:
        columns.append(Column("saved", _saved))
    notes = [
        *_test_notes(rows, level, correction, tightest_at),
        *judges.joint_notes(rows, level),
        *judges.lift_notes(rows),
        *_adjustment_notes(rows, covariate),
        *(Note(text, "verdict") for text in judges.margins_in_words(rows)),
        *([Note(f"users are weighted by {', '.join(weights)}", "mean")] if weights else []),
    ]
    caption = f"Differences from {baseline}, with {interval_in_words(level)}s"
    return Table(
        rows, [*columns, VERDICT], f"baseline {baseline!r}", caption, notes, dash_means="not known", is_grouped=True
    )


def _saved(row: GroupRow) -> str:
    return DASH if math.isnan(row.variance_saved) else f"{100 * row.variance_saved:.1f}%"


def _test_notes(rows: Sequence[GroupRow], level: float, correction: str, tightest_at: int | None) -> list[Note]:
    corrected = judges.joined_in_words(rows, correction)
    if tightest_at is None:
        notes = [Note(f"from Welch's test of different users{corrected}", "p")]
    else:
        notes = [
            Note(f"valid at all looks together{corrected}", "p"),
            Note(f"a confidence sequence, valid at all looks together; tightest at {tightest_at:,} users", "interval"),
        ]
    rare = [row.figure for row in rows if row.interval_method == "mover" and not row.no_interval]
    # The reasons name the group.
    return [*notes, *judges.rare_value_notes(rare), *map(Note, summary_rows.missing_intervals(rows))]


def _adjustment_notes(rows: Sequence[GroupRow], covariate: str | None) -> list[Note]:
    if covariate is None:
        return []
    saved = f"the share of the difference's variance that {covariate} explains; means are adjusted for it (CUPED)"
    notes = [Note(saved, "saved")]
    n_missing = max((row.n_without_covariate for row in rows), default=0)
    if n_missing:
        who = "1 user without it takes" if n_missing == 1 else f"{n_missing:,} users without it take"
        notes.append(Note(f"{'at most ' if len(rows) > 1 else ''}{who} its mean", covariate))
    plain = summary_rows.reasons_in_words(
        "no adjustment", [(row.figure, row.not_adjusted) for row in rows if row.not_adjusted]
    )
    return [*notes, *map(Note, plain)]


# Clusters whose effective number is below this share of their number differ in size.
_UNEQUAL = 0.9
# A metric at more cutoffs than these is a curve; one point of it has the other value.
_FEW = 6
_ELSEWHERE = "The dialect 'standard' has the definition that most systems use"
_CUTOFF = re.compile(r"@\d+$")
#: The note on labels that stand in the rows of predictions.
NOTE_OF_RETRIEVED_LABELS = (
    "labels are in the rows of the predictions. A labelled item that was not retrieved counts only if it has a row without a "
    "score"
)


def notes_of_tables(labels: str) -> tuple[str, ...]:
    """The note on labels without a table that knows them, which `Settings` describes."""
    return (NOTE_OF_RETRIEVED_LABELS,) if labels == "predictions" else ()


def kept_notes_of_tables(notes: Iterable[str]) -> tuple[str, ...]:
    """Those of a result's notes that `notes_of_tables` makes: they hold for all of its figures, however these are shown."""
    return tuple(note for note in notes if note == NOTE_OF_RETRIEVED_LABELS)


def notes_of_given_order(
    dialects: Sequence[str], qualities: Iterable[DataQuality], *, names_items: bool
) -> tuple[str, ...]:
    """The note on dialects that leave equal scores in the order given, which rows do not have; none if no value depends on it."""
    n = max(quality.n_hanging_on_ties for quality in qualities)
    verb = "leaves" if len(dialects) == 1 else "leave"
    place = "by item" if names_items else "with the lowest grade first"
    order = f"{verb} equal scores in the order given. Rows have none, and stand {place}"
    note = f"{listed(dialects, _FEW)} {order}: the values of {n:,} user{'s' * (n > 1)} depend on it, and the system may give others"
    return (note,) if n and dialects else ()


def notes_of(
    rows: Sequence[SummaryRow], users: Sequence[str] = (), longest: Mapping[str, int] = MappingProxyType({})
) -> tuple[str, ...]:
    """The notes for these rows, of users who are identified by these columns; `longest` is the length of each model's longest list."""
    total_rows = [row for row in rows if row.slice == "all"] or list(rows)
    notes = (
        note_of_definitions(total_rows),
        _note_of_short_lists(total_rows, longest),
        _note_of_gains(total_rows),
        _note_of_clusters(total_rows),
        _note_of_ids(total_rows, users),
    )
    return tuple(note for note in notes if note)


def notes_of_clusters(
    rows: Sequence[SummaryRow] | Sequence[ComparisonRow] | Sequence[PairRow], users: Sequence[str] = ()
) -> tuple[str, ...]:
    """The note on clusters, or on users that look like parts of a person if the caller named no clusters."""
    return tuple(note for note in (_note_of_clusters(rows), _note_of_ids(rows, users)) if note)


def notes_of_empty_lists(counts: Mapping[str, tuple[int, int]]) -> tuple[str, ...]:
    """The note on users who count as 0 because a model has no predictions for them, of so many with a value; by model."""
    models: dict[tuple[int, int], list[str]] = {}
    for model, (n_empty, n_users) in counts.items():
        if n_empty:
            models.setdefault((n_empty, n_users), []).append(model)
    parts = [
        f"{n_empty:,} of {n_users:,}{share(n_empty, n_users)} for {listed(names, _FEW)}"
        for (n_empty, n_users), names in models.items()
    ]
    return (f"users without predictions count as 0: {'; '.join(parts)}",) if parts else ()


def _note_of_clusters(rows: Sequence[SummaryRow] | Sequence[ComparisonRow] | Sequence[PairRow]) -> str:
    """The note on intervals of clusters: how many there are, and what difference they make. Empty if users are independent."""
    few = [row for row in rows if row.cluster and row.n_clusters]
    if not few:
        return ""
    sizes = sorted({row.n_clusters for row in few})
    effective = min(row.effective_n_clusters for row in few)
    effects = sorted(row.design_effect for row in few if not math.isnan(row.design_effect))
    n_clusters = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    words = f"intervals take the {n_clusters} clusters by {few[0].cluster} as independent, not their users"
    if effective < _UNEQUAL * sizes[0]:
        words += f"; their sizes differ, and they are as good as {effective:,.1f} equal ones"
    if not effects:
        return words
    ends = list(dict.fromkeys(f"{effect:.2f}" for effect in (effects[0], effects[-1])))
    return f"{words}; design effect {' to '.join(ends)}"


def _note_of_ids(rows: Sequence[SummaryRow] | Sequence[ComparisonRow] | Sequence[PairRow], users: Sequence[str]) -> str:
    """The note on users that look like parts of a person. Empty if a user is one column, or the caller chose clusters."""
    if len(users) < 2 or not any(row.interval_method and not row.cluster for row in rows):
        return ""
    return (
        f"each {' and '.join(users)} counts as independent; if some belong together, intervals are too narrow "
        f"without the option cluster={users[0]!r}"
    )


def note_of_definitions(rows: Sequence[SummaryRow]) -> str:
    """The note on metrics that ignore missed items, with their values by the usual definition. Empty if there are no such metrics."""
    few = [row for row in rows if row.standard]
    if not few:
        return ""
    names = list(dict.fromkeys(row.name for row in few))
    with_values = [row for row in few if not math.isnan(row.standard_mean)]
    if not with_values:
        return f"{_rating(_named(few), len(names))}. {_ELSEWHERE}"
    by_model: dict[str, dict[str, float]] = {}
    for row in with_values:
        by_model.setdefault(row.model, {})[row.name] = row.standard_mean
    whole = all(list(values) == names for values in by_model.values())
    subject = ("it is" if len(names) == 1 else "they are") if whole else ""
    parts = []
    for model, values in by_model.items():
        figures = [number(value) if whole else f"{name} is {number(value)}" for name, value in values.items()]
        parts.append(listed(figures) + (f" for {model}" if len(by_model) > 1 else ""))
    values_in_words = f"{subject} {'; '.join(parts)}".lstrip()
    return (
        f"{_rating(_named(few), len(names))}. With the definition that most systems use (dialect 'standard'), "
        f"{values_in_words}"
    )


def _note_of_short_lists(rows: Sequence[SummaryRow], longest: Mapping[str, int]) -> str:
    """The note on cutoffs that no list reaches. Empty if there are none, or if nothing was predicted."""
    defined = [row for row in rows if row.cutoff is not None and row.n_users]
    few = [row for row in defined if row.cutoff and 0 < longest.get(row.model, 0) < row.cutoff]
    if not few:
        return ""
    lengths = {row.model: longest[row.model] for row in few}
    parts = [f"{n:,} item{'s' * (n != 1)}{f' for {model}' * bool(model)}" for model, n in lengths.items()]
    return (
        f"no list reaches the cutoff of {_named(few)}: the longest has {listed(parts)}, and further items count as not recommended. "
        f"Predict longer lists if there are more items, or use a cutoff of at most {min(lengths.values()):,}"
    )


def _note_of_gains(rows: Sequence[SummaryRow]) -> str:
    """The note on grades below the threshold that count as gain, and give gain metrics other users than metrics of relevant items."""
    metrics = [(row, summary_rows.metric_or_none(row.definition)) for row in rows if row.model == rows[0].model]
    n_users = {
        (row.n_users, metric.threshold, row.relevance)
        for row, metric in metrics
        if isinstance(metric, RelevanceMetric) and metric.labels_alone_define and metric.needs == "relevant"
    }
    thresholds = {(threshold, relevance) for _, threshold, relevance in n_users}
    gains = [
        (row.name, metric.threshold)
        for row, metric in metrics
        if isinstance(metric, GainMetric)
        and (metric.needs, metric.below_threshold) == ("gain", "keep")
        and _is_left_open(row, metric)
        and (metric.threshold, row.relevance) in thresholds
        and (row.n_users, metric.threshold, row.relevance) not in n_users
    ]
    if not gains:
        return ""
    names = listed(list(dict.fromkeys(name for name, _ in gains)), _FEW)
    return (
        f"grades below {gains[0][1]:g} still count as gain in {names}, and give it other users than metrics of relevant items have; with "
        "the option below_threshold='zero' they do not"
    )


def _is_left_open(row: SummaryRow, metric: GainMetric) -> bool:
    """Whether a metric has a threshold, and the caller did not choose how grades below it count."""
    requested = summary_rows.metric_or_none(row.metric)
    is_chosen = requested is not None and "below_threshold" in requested.chosen()
    return not is_chosen and metric.threshold is not None and metric.threshold > 0


def note_of_labels(labels: Sequence[str]) -> str:
    """The note on metrics whose values by the usual definition are unknown. Empty if there are no labels."""
    return f"{_rating(listed(labels), len(labels))}. {_ELSEWHERE}" if labels else ""


def _rating(subject: str, n: int) -> str:
    verbs = ("rates", "ignores") if n == 1 else ("rate", "ignore")
    return f"{subject} {verbs[0]} only the order of the retrieved items and {verbs[1]} relevant items that were missed"


def _named(rows: Sequence[SummaryRow]) -> str:
    """The names of the rows' metrics. A curve is named by its first and last metric."""
    families: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        labels = families.setdefault((_CUTOFF.sub("", row.definition), row.relevance), [])
        labels += [row.name] if row.name not in labels else []
    names: list[str] = []
    for labels in families.values():
        names += labels if len(labels) <= _FEW else [f"{labels[0]} … {labels[-1]} ({len(labels):,})"]
    return listed(names)


def definitions_table(rows: Sequence[SummaryRow]) -> Table:
    """How each metric is defined: a row for each definition; cutoffs and recalls of a definition share a row."""
    families: dict[tuple[str, str, str], list[SummaryRow]] = {}
    for row in rows:
        families.setdefault((_general(row), row.dialect, row.relevance), []).append(row)
    columns: list[Column[list[SummaryRow]]] = [
        text_column("metric", lambda family: _metrics_in_words(list(dict.fromkeys(row.name for row in family)))),
        text_column("dialect", lambda family: family[0].dialect),
        text_column("definition", lambda family: _general(family[0])),
        text_column("meaning", lambda family: _formula(family[0].definition)),
    ]
    return Table(list(families.values()), columns, caption="How each metric is defined")


def _general(row: SummaryRow) -> str:
    """A definition without its cutoff and recall."""
    return re.sub(r"(?<=recall=)[\d.]+", "r", re.sub(r"@\d+$", "@k", row.definition))


def _metrics_in_words(metrics: Sequence[str]) -> str:
    return ", ".join(metrics) if len(metrics) <= 4 else f"{metrics[0]} … {metrics[-1]} ({len(metrics)})"


def _formula(definition: str) -> str:
    metric = summary_rows.metric_or_none(definition)
    return "" if metric is None else formula(type(metric))
