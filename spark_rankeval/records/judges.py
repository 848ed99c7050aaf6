"""What judges say: means that two judges estimate, what each of them says, and how far they agree."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, TypeVar

import pandas as pd

from spark_rankeval import printed_tables as tables
from spark_rankeval.errors import listed
from spark_rankeval.printed_tables import DASH, Cell, Column, Document, Note, OneTable, Table, Tone
from spark_rankeval.records import summary as summary_rows
from spark_rankeval.records.columns import Part, described, json_record
from spark_rankeval.records.summary import MOST_LISTED, SLICE, ClusterFigures, Spread, SummaryRow, bounds_of
from spark_rankeval.statistics import judges as judge_statistics
from spark_rankeval.statistics.comparisons import interval_in_words, percent, signed
from spark_rankeval.statistics.intervals import PREDICTION_POWERED, Interval, Lift
from spark_rankeval.statistics.judged_queries import JudgedQueries
from spark_rankeval.statistics.judges import Estimate, JudgedEstimate, LabelsNeeded, MeanEstimate, PairFigures

# A draw that would be so rare if it were random is worth a warning.
_UNLIKELY = 0.01


def estimated_row(
    label: str,
    queries: JudgedQueries,
    level: float,
    *,
    definition: str,
    slice_: str = "all",
    cluster: str = "",
    **about: Any,
) -> SummaryRow:
    """The row of a mean under human grades, from what both judges say; `about` has further attributes of `SummaryRow`."""
    text = queries.text()
    estimate = _estimate(text, level, definition)
    interval = estimate.interval
    clusters = queries.clusters_of_people(estimate.standard_error)
    independent = estimate
    if clusters is not None:
        independent = judge_statistics.judged_estimate(queries.independent, level, bounds=bounds_of(definition))
    return SummaryRow(
        metric=label, definition=definition, slice=slice_, mean=estimate.value, n_users=queries.n_defined,
        n_undefined=queries.n_graded + queries.n_others - queries.n_defined, std=math.nan,
        standard_error=estimate.standard_error, df=estimate.df,
        interval=interval._replace(level=level, method=PREDICTION_POWERED), spread=Spread(math.nan, math.nan, 0),
        effective_n_users=estimate.effective_n, clusters=ClusterFigures.of(cluster, clusters, independent.standard_error),
        moments=text, **about,
    )  # fmt: skip


# All figures of a result need the estimates, which take some 10 ms each.
@lru_cache(maxsize=1024)
def _estimate(queries: str, level: float, definition: str) -> JudgedEstimate:
    """The estimate of a metric, from the text of what both judges say."""
    return judge_statistics.judged_estimate(JudgedQueries.from_text(queries), level, bounds=bounds_of(definition))


def with_judges_alone(rows: Iterable[SummaryRow]) -> tuple[SummaryRow, ...]:
    """The rows of a summary, in which the mean of one judge is the one that stands beside the estimate from both.

    The values of a judge alone do not tell how users were drawn for people. Spread, extremes and quantiles are of these users as they are.
    """
    rows = tuple(rows)
    judges = _judges(rows)
    alone: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in filter(is_estimated, rows):
        estimate = _estimate(row.moments, row.interval_level, row.definition)
        for name, mean in zip(judges, (estimate.judge, estimate.human), strict=False):
            alone[row.model, row.slice, f"{row.metric} [{name}]"] = {
                "mean": mean.value,
                "standard_error": mean.standard_error,
                "df": float(mean.df),
                "effective_n_users": mean.equal_n,
                "interval": mean.interval._replace(level=row.interval_level),
                **({} if mean.equal_n == mean.n else {"standard_mean": math.nan}),
            }
    return tuple(replace(row, **alone.get((row.model, row.slice, row.key), {})) for row in rows)


def _judges(rows: Iterable[SummaryRow]) -> tuple[str, ...]:
    """The columns of grades of a summary: of two judges the model's comes first."""
    return tuple(dict.fromkeys(row.relevance for row in rows if row.relevance))


@dataclass(frozen=True)
class JudgedRow:
    """What both judges say of a metric of a model, over all users of a slice.

    Attributes:
        model: the name of the model.
        metric: the metric, as the caller called it.
        slice: which users; ``all``.
        estimate: the mean under human grades from both judges, and the means by each judge alone.
        draw: whether the users that people graded look drawn at random; None if too few have a value.
        queries: what both judges say of each user, or of sums of them.
        bounds: the least and the largest value of the metric, or of its difference.
    """

    model: str
    metric: str
    slice: str
    estimate: JudgedEstimate
    draw: judge_statistics.DrawCheck | None
    queries: JudgedQueries
    bounds: tuple[float, float]

    @cached_property
    def bias(self) -> MeanEstimate:
        """The model's mean less people's over the users with both; of a difference, how much more the model moves it than people do."""
        return judge_statistics.bias_of_judge(self.queries, self.estimate.interval.level, self.bounds)

    def labels_needed(self, width: float) -> LabelsNeeded | None:
        """How many users, or clusters, people must grade for an interval of this width: with the model's grades, and without."""
        # Equal values do not tell how much others vary.
        if not self.estimate.human.standard_error:
            return None
        needed = judge_statistics.labels_needed(self.queries, width, self.estimate.interval.level)
        # What a model would add that does not count so far is not known.
        return needed._replace(with_judge=None) if needed is not None and self.estimate.note else needed

    def remark_on(self, needed: LabelsNeeded | None, width: float) -> str:
        """Why a number of `labels_needed` is missing, or says little; empty if there is nothing to say."""
        estimate, n_all = self.estimate, self.queries.n_graded + self.queries.n_others
        if needed is None:
            return f"the pilot tells too little: {estimate.interval.reason or 'all graded users have the same human value'}"
        facts = {
            f"people alone count: {estimate.note}": bool(estimate.note),
            "the model adds nothing to people's grades": not estimate.lambda_ and not estimate.note,
            f"people's grades of all {n_all:,} users are not enough": needed.with_judge is None and not estimate.note,
            "the pilot's interval is narrow enough": estimate.interval.high - estimate.interval.low <= width,
        }
        return "; ".join(words for words, is_true in facts.items() if is_true)

    def named(self, reason: str) -> tuple[str, str]:
        """What the row is about, with the numbers that stand behind a reason's colon; and the reason without them."""
        words, _, numbers = reason.partition(": ")
        where = "" if self.slice == "all" else f"in {self.slice}"
        return " ".join(filter(None, [self.metric, self.model, where, numbers and f"({numbers})"])), words

    @property
    def n_clusters(self) -> int:
        """The clusters with users whom people graded; 0 if users are independent."""
        clusters = self.queries.clusters_of_people(math.nan)
        return 0 if clusters is None else clusters.n

    @property
    def means(self) -> tuple[tuple[float, Interval], ...]:
        """The estimate from both judges, that of people alone and that of the model alone: each with its interval."""
        estimate = self.estimate
        judges = (estimate.human, estimate.judge)
        return (estimate.value, estimate.interval), *((mean.value, mean.interval) for mean in judges)

    def record(self) -> dict[str, Any]:
        """The figures by column."""
        estimate = self.estimate
        record: dict[str, Any] = {"model": self.model, "slice": self.slice, "metric": self.metric}
        for name, (value, interval) in zip(("mean", "human", "judge"), self.means, strict=True):
            record |= {name: value, f"{name}_low": interval.low, f"{name}_high": interval.high}
        bias, ends = self.bias.value, self.bias.interval
        record |= {"bias": bias, "bias_low": ends.low, "bias_high": ends.high, "no_bias_interval": ends.reason}
        return record | {
            "weight_of_judge": estimate.lambda_,
            "n_graded": estimate.n_graded,
            "n_others": estimate.n_others,
            "effective_n_graded": estimate.effective_n,
            "gain": estimate.gain,
            "p_of_draw": math.nan if self.draw is None else self.draw.p,
        }


def is_estimated(row: SummaryRow) -> bool:
    """Whether two judges estimate the mean of a row, which then has no values of users."""
    return row.interval_method == PREDICTION_POWERED


def judged_rows(summary: Iterable[SummaryRow]) -> tuple[JudgedRow, ...]:
    """The rows of the means that a summary has from two judges."""
    rows = []
    for row in filter(is_estimated, summary):
        queries, bounds = JudgedQueries.from_text(row.moments), bounds_of(row.definition)
        estimate = _estimate(row.moments, row.interval_level, row.definition)
        draw = judge_statistics.draw_check(queries)
        rows.append(JudgedRow(row.model, row.name, row.slice, estimate, draw, queries, bounds))
    return tuple(rows)


@dataclass(frozen=True, repr=False)
class _JudgedFigures(OneTable):
    """Figures under human grades by two judges, beside those by each alone.

    Attributes:
        rows: a row for each model, slice and metric.
        human: the column of grades by people.
        judge: the column of grades by the model.
    """

    rows: tuple[JudgedRow, ...]
    human: str
    judge: str

    def to_pandas(self) -> pd.DataFrame:
        """One row for each model, slice and metric."""
        return pd.DataFrame([row.record() for row in self.rows])

    def records(self) -> list[dict[str, Any]]:
        """The rows as plain values; NaN and infinities become None."""
        return [json_record(row.record()) for row in self.rows]

    def _table(self, title: str, figure: str) -> Table:
        rows = self.rows
        format_value = tables.common_format(value for row in rows for value, _ in row.means)
        format_bias = tables.common_format((row.bias.value for row in rows), sign="+")

        def cell(value: float, ends: Interval) -> str:
            low, high = format_value(ends.low), format_value(ends.high)
            return f"{format_value(value)} {DASH}" if ends.reason else f"{format_value(value)} [{low}, {high}]"

        also: list[Column[Any]] = (
            [tables.text_column("model", lambda row: row.model)] if any(row.model for row in rows) else []
        )
        also += [SLICE] if any(row.slice != "all" for row in rows) else []
        columns: list[Column[Any]] = [
            tables.text_column("metric", lambda row: row.metric),
            *also,
            Column("both", lambda row: cell(*row.means[0])),
            Column(f"{self.human} alone", lambda row: cell(*row.means[1])),
            Column(f"{self.judge} alone", lambda row: cell(*row.means[2])),
            Column("bias", lambda row: format_bias(row.bias.value)),
            Column("weight", lambda row: _or_dash(row.estimate.lambda_, ".2f")),
            Column("graded", lambda row: f"{row.estimate.n_graded:,}"),
            Column("others", lambda row: f"{row.estimate.n_others:,}"),
            Column("worth", lambda row: _or_dash(row.estimate.effective_n, ",.0f")),
        ]
        notes = [
            Note(f"in brackets: {rows[0].estimate.interval.level:.0%} intervals"),
            Note(f"the {figure} under {self.human!r}, estimated from both judges (PPI++)", "both"),
            Note(
                f"the {figure} by {self.judge!r} less that by {self.human!r}, over the graded users",
                "bias",
                "to_pandas() has its interval",
            ),
            Note(f"how much {self.judge!r} counts, from 0 to 1", "weight"),
            Note(f"how many users graded by {self.human!r} alone would give the same interval", "worth"),
            *map(Note, notes_judge_columns(rows, "" if figure == "mean" else f"{figure} in ")),
            *map(Note, self._notes_of_bias()),
        ]
        return Table(rows, columns, title, title, notes, dash_means="there is no interval")

    def _notes_of_bias(self) -> list[str]:
        """Why biases have no interval, where the mean by people has one."""
        rows = [row for row in self.rows if row.bias.interval.reason and not row.estimate.human.interval.reason]
        reasons = [row.named(row.bias.interval.reason) for row in rows]
        return summary_rows.reasons_in_words("the bias has no interval", reasons)


def _or_dash(value: float, spec: str) -> str:
    return DASH if math.isnan(value) else format(value, spec)


@dataclass(frozen=True, repr=False)
class JudgedMeans(_JudgedFigures):
    """What the grades of people and of a model say together, and each alone. It prints as a table; see `Result.judged`."""

    def part(self, *, slices: bool) -> JudgedMeans:
        """The means of slices alone, or of all users alone."""
        return replace(self, rows=tuple(row for row in self.rows if (row.slice != "all") == slices))

    def as_table(self) -> Table:
        """The rows with what explains them."""
        return self._table(f"Means under {self.human!r}, with the grades of {self.judge!r}", "mean")

    def _on_paper(self) -> Document:
        return Document((self.as_table(),))


def judged_means(summary: Iterable[SummaryRow]) -> JudgedMeans | None:
    """The means that a summary has from two judges; None if it has none."""
    summary = tuple(summary)
    rows = judged_rows(summary)
    if not rows:
        return None
    judge, human = _judges(summary)
    return JudgedMeans(rows, human, judge)


@dataclass(frozen=True, repr=False)
class JudgedDifferences(_JudgedFigures):
    """What two judges say together, and each alone, of differences to a baseline. It prints as a table; see `ModelComparison.judged`.

    Attributes:
        baseline: the name of the model that the others are compared with.
    """

    baseline: str

    def _on_paper(self) -> Document:
        title = f"Differences under {self.human!r}, with the grades of {self.judge!r}"
        return Document((self._table(title, "difference"),))

    @property
    def contradictions(self) -> list[str]:
        """A sentence if the model's grades alone surely say the opposite of both judges, or of people."""
        figures = []
        for row in (row for row in self.rows if row.slice == "all"):
            by_model, *others = (
                _sure_sign(each.interval) for each in (row.estimate.judge, row.estimate, row.estimate.human)
            )
            if any(by_model * other < 0 for other in others):
                figures.append(f"{row.metric} of {row.model}")
        named = listed(figures, MOST_LISTED)
        return [f"the grades of {self.judge!r} alone mislead on {named}: they say the opposite"] if figures else []

    @property
    def sentences(self) -> list[str]:
        """A sentence for each difference that the model surely sees larger, or smaller, than people do; empty if it favours no model."""
        sentences = []
        for row in (row for row in self.rows if row.slice == "all" and _sure_sign(row.bias.interval)):
            bias, interval = row.bias.value, row.bias.interval
            sentences.append(
                f"{self.judge!r} grades {row.model} {'higher' if bias > 0 else 'lower'} on {row.metric} against {self.baseline} than "
                f"{self.human!r} does, by {signed(bias)} "
                f"({interval_in_words(interval.level)} {signed(interval.low)} to {signed(interval.high)})"
            )
        return sentences

    def _notes_of_bias(self) -> list[str]:
        return [*self.sentences, *super()._notes_of_bias()]

    def notes(self) -> list[str]:
        """What the figures of a comparison could be mistaken for."""
        about = (
            f"means and differences are those under {self.human!r}, each estimated from both judges by itself, so a difference is "
            f"nearly that of the means; wins, ties and losses are of the users that {self.human!r} graded. comparison.judged has what "
            "each judge alone says"
        )
        everyone = [row for row in self.rows if row.slice == "all"]
        signs = [
            f"{row.metric} of {row.model}" for row in everyone if row.estimate.judge.value * row.estimate.value < 0
        ]
        remarks = self.contradictions
        if signs and not remarks:
            remarks = [f"by {self.judge!r} alone the difference has another sign: {listed(signs, MOST_LISTED)}"]
        return [about, *remarks, *notes_judge_columns(everyone, "difference in ")]


def _sure_sign(interval: Interval) -> int:
    """1 or −1 if the interval lies above or below 0; 0 if it holds 0, or is missing."""
    return (interval.low > 0) - (interval.high < 0)


def notes_judge_columns(rows: Sequence[JudgedRow], figure: str = "") -> list[str]:
    """What the figures of both judges could be mistaken for; `figure` stands before the metric, such as "difference in "."""
    everyone = [row for row in rows if row.slice == "all"]
    reasons = [row.named(row.estimate.note) for row in everyone if row.estimate.note]
    notes = summary_rows.reasons_in_words("people alone count", reasons)
    odd = [(row.metric, row.draw) for row in everyone if row.draw is not None and row.draw.p < _UNLIKELY]
    for metric, draw in odd[:1]:
        notes.append(
            f"the graded users do not look drawn at random: by the model's grades their {figure}{metric} is "
            f"{draw.graded_mean:.3g}, that of all users {draw.all_mean:.3g} (p = {draw.p:.2g}). "
            "The estimate is biased unless probability= says how they were drawn"
        )
    return notes


def merged_estimate(rows: Sequence[SummaryRow]) -> SummaryRow:
    """The row over the users of several; a `ValueError` says what two samples do not have in common."""
    first = rows[0]
    parts = [JudgedQueries.from_text(row.moments) for row in rows if row.moments]
    if len({set(part.strata) <= {""} for part in parts if part.strata}) > 1:
        msg = "users of strata cannot be added to users without"
        raise ValueError(msg)
    queries = JudgedQueries.total(parts, is_clustered=bool(first.cluster))
    same = ("definition", "model", "dialect", "relevance", "cutoff", "cluster", "asked")
    about = {name: getattr(first, name) for name in same}
    return estimated_row(first.metric, queries, first.interval_level, slice_=first.slice, **about)


class Judged(NamedTuple):
    """How a difference is judged: see `ComparisonRow`."""

    p: float
    margin: float
    verdict: str
    sentence: str
    n_joint: int = 1


@dataclass(frozen=True, kw_only=True)
class VerdictRow(summary_rows.IntervalRow):
    """A row with a difference of two means on a metric, and the verdict on it."""

    difference: float = described("the first mean minus the second")
    judged: Judged
    p = Part("judged.p", float, "the p-value of the verdict, corrected for the number of comparisons")
    margin = Part("judged.margin", float, "the largest difference that does not matter")
    verdict = Part(
        "judged.verdict", str, "better, worse, higher, lower, no relevant difference, undecided or no user differs"
    )
    sentence = Part("judged.sentence", str, "the verdict in a sentence, with the figures")

    @property
    def figure(self) -> str:
        """The metric, and all else that the row is about, such as its models."""
        return self.name

    @property
    def names(self) -> set[str]:
        """The names that tell the row from others of its metric."""
        return set()

    @property
    def shown_ends(self) -> tuple[float, float]:
        """The ends of the interval that stands beside the p-value."""
        return self.interval_low, self.interval_high


Row = TypeVar("Row", bound=VerdictRow)


@dataclass(frozen=True, kw_only=True)
class JointRow(VerdictRow):
    """A row that also has the interval that is corrected for the other comparisons as p is."""

    larger_is_better: bool = described("whether a larger value of the metric is better; true if neither is")
    joint: Interval
    joint_low = Part(
        "joint.low",
        float,
        "the lower end of the interval that is corrected as p is, and leaves out 0 exactly if p decides",
    )
    joint_high = Part("joint.high", float, "the upper end of that interval")
    n_joint = Part("judged.n_joint", int, "how many comparisons p and the joint interval are corrected for")

    @property
    def shown_ends(self) -> tuple[float, float]:
        """The ends of the joint interval."""
        return self.joint_low, self.joint_high


@dataclass(frozen=True, kw_only=True)
class LiftedRow(JointRow):
    """A row whose difference is also a share of the baseline's mean."""

    baseline_mean: float = described("the mean of the baseline")
    standard_error: float = described("the standard error of the difference")
    lift: Lift
    relative_lift = Part("lift.value", float, "difference / |baseline_mean|; NaN if that is 0")
    lift_low = Part("lift.low", float, "the lower end of the joint interval of relative_lift; NaN if there is none")
    lift_high = Part("lift.high", float, "the upper end of the joint interval of relative_lift")
    no_lift = Part("lift.reason", str, "why relative_lift has no interval; empty if it has one")


#: The colour of each verdict that decides.
TONES: dict[str, Tone] = {"better": "good", "worse": "bad"}


#: The verdict, in the colour of its meaning.
VERDICT: Column[Any] = tables.text_column("verdict", lambda row: Cell(row.verdict, tone=TONES.get(row.verdict, "")))
#: The verdict on a gap between users, which is neither good news nor bad.
GAP_VERDICT: Column[Any] = tables.text_column("verdict", lambda row: row.verdict)


def means_columns(rows: Sequence[Row], title: str, other_mean: Callable[[Row], float]) -> list[Column[Any]]:
    """The columns of the model's mean and the other model's mean, in the same format."""
    format_value = tables.common_format(mean for row in rows for mean in (row.mean, other_mean(row)))
    return [
        Column("mean", lambda row: format_value(row.mean)),
        Column(title, lambda row: format_value(other_mean(row))),
    ]


def difference_columns(rows: Sequence[VerdictRow], level: float) -> list[Column[Any]]:
    """The columns of the difference, its interval and p. Each column has one format."""
    format_value = tables.common_format((row.difference for row in rows), sign="+")

    def ends(row: VerdictRow) -> str:
        low, high = row.shown_ends
        return DASH if math.isnan(low) else f"{format_value(low)} to {format_value(high)}"

    difference: Column[Any] = Column("difference", lambda row: format_value(row.difference))
    return [difference, Column(interval_in_words(level), ends), Column("p", lambda row: tables.probability(row.p))]


def interval_kind(rows: Sequence[VerdictRow], level: float) -> str:
    """The level and the methods of the intervals of differences."""
    methods = summary_rows.methods_in_words(row.interval_method for row in rows if not row.no_interval)
    return interval_in_words(level) + (f" ({methods})" if methods else "")


#: The lift. Its interval stands in sentences and in `to_pandas()`.
LIFT: Column[Any] = Column("lift", lambda row: DASH if math.isnan(row.lift_low) else percent(row.relative_lift))


def lift_in_words(row: LiftedRow) -> str:
    """The lift after a difference, in parentheses; empty if it has no interval."""
    return "" if math.isnan(row.lift_low) else f" ({percent(row.relative_lift)})"


def joined_in_words(rows: Sequence[JointRow], correction: str = "") -> str:
    """For how many comparisons p and intervals are corrected, after the word; empty if each stands alone."""
    sizes = sorted({row.n_joint for row in rows if row.n_joint > 1 and not math.isnan(row.p)})
    how = f" ({correction})" if correction else ""
    return f", corrected for {' or '.join(f'{size:,}' for size in sizes)} comparisons{how}" if sizes else ""


def joint_notes(rows: Sequence[JointRow], level: float) -> list[Note]:
    """A note that tells what intervals that are corrected promise. Empty if each stands alone."""
    promise = f"corrected as p is; each holds with {100 * level:.6g}% or more, all together may not"
    is_joint = any(row.n_joint > 1 for row in rows)
    return [Note(promise, "interval", "to_pandas() also has each one alone")] if is_joint else []


def lift_notes(rows: Sequence[LiftedRow]) -> list[Note]:
    """Notes that define the lift, and name the rows without one."""
    return [
        Note("difference / |baseline's mean|", "lift", "to_pandas() has its interval (Fieller)"),
        *missing_lifts(rows),
    ]


def missing_lifts(rows: Sequence[LiftedRow]) -> list[Note]:
    """Notes that name the rows without a lift, with the reasons."""
    reasons = [(row.figure, row.no_lift) for row in rows if row.no_lift and not row.no_interval]
    return [Note(text) for text in summary_rows.reasons_in_words("no lift", reasons)]


def rare_value_notes(figures: Sequence[str]) -> list[Note]:
    """The note on figures whose intervals come from Clopper-Pearson intervals."""
    why = "p and interval from the Clopper-Pearson intervals of both means, because a value is rare or all are equal"
    return [Note(f"{why}: {listed(figures, MOST_LISTED)}")] if figures else []


def margins_in_words(rows: Sequence[VerdictRow]) -> list[str]:
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


def is_smallest_p(p: float, replicates: int) -> bool:
    """Whether no replicate gives a difference as large as the observed one. False if p is NaN, because nothing was drawn."""
    return p * (replicates + 1) < 1.5


def smallest_p_in_words(replicates: int, suffix: str = "") -> str:
    """The words for the smallest p-value that a randomisation test can give."""
    return f"p as small as {replicates:,} replicates can show, 1/{replicates + 1:,}{suffix}"


def name_of_test(test: str, replicates: int) -> str:
    """The name of the test that a p comes from."""
    return {
        "sign_flip": f"the sign-flip randomisation test with {replicates:,} replicates",
        "t": "the paired t test",
        PREDICTION_POWERED: "the t test of differences that two judges estimate",
        "tukey": "Tukey's test for a two-way layout",
        "games_howell": "the Games-Howell test with users as blocks",
        "randomised": f"the randomised Tukey test with {replicates:,} replicates",
    }[test]


#: The figures of a pair of judges, by the names of the fields that hold them.
PAIR_FIGURES = ("agreement", "kappa", "linear_kappa", "quadratic_kappa")
# Larger tables of grades do not fit on a page.
_MOST_SHOWN_GRADES = 11


@dataclass(frozen=True)
class JudgePair(PairFigures):
    """How far two judges agree on the items of a slice that both graded.

    Examples:
        >>> row = judged["human", "llm"]
        >>> row.n_items, row.n_judge_only, row.n_other_only, round(row.kappa.value, 3)
        (6, 0, 1, 0.5)

    Attributes:
        slice: which labels, such as ``market=DE``; ``all``.
        judge: the column of the first judge's grades.
        other: the column of the other judge's grades.
        n_items: how many items have a grade of both, each counted with its user.
        n_users: how many users have such items.
        n_judge_only: how many items only the first of the two graded; they are left out.
        n_other_only: how many items only the other graded; likewise.
        mean: of the first judge's grades on the items that both graded; NaN without any.
        other_mean: the same of the other judge's grades.
        agreement: the share of these items whose grades are equal. Like the next three it has ``value``, ``standard_error`` and
            ``interval``, which has ``low`` and ``high``, or a ``reason`` why there is none.
        kappa: Cohen's kappa.
        linear_kappa: Cohen's kappa weighted by the difference of the grades.
        quadratic_kappa: the same with squares of differences.
        confusion: how many items have each grade of the first judge and each of the other, in the order of `JudgeAgreement.grades`.
    """

    slice: str
    judge: str
    other: str

    @property
    def name(self) -> str:
        """The pair in words."""
        return f"{self.judge} with {self.other}"

    @property
    def sentence(self) -> str:
        """The agreement and the bias in a sentence."""
        if not self.n_items:
            return f"{self.judge} and {self.other} graded no item in common."
        gap = self.other_mean - self.mean
        bias = f"on average {self.other} grades {abs(gap):.3g} {'higher' if gap > 0 else 'lower'}"
        return (
            f"{self.judge} and {self.other} give {self.agreement.value:.1%} of {self.n_items:,} items the same grade; quadratic kappa is "
            f"{_estimate_in_words(self.quadratic_kappa)}; {bias if gap else 'their mean grades are equal'}."
        )

    def record(self) -> dict[str, Any]:
        """The row by column: each figure with its standard error and the ends of its interval."""
        figures = {name: getattr(self, name) for name in PAIR_FIGURES}
        users = {"slice": self.slice, "judge": self.judge, "other": self.other}
        counts = {name: value for name, value in vars(self).items() if name not in (*users, *figures, "confusion")}
        return users | counts | _columns_of(figures)


@dataclass(frozen=True)
class JudgesAlpha:
    """Krippendorff's alpha of all judges, over the items of a slice that two or more of them graded.

    Examples:
        >>> row = judged.alphas[0]
        >>> row.judges, row.measurement, row.n_items, round(row.alpha.value, 3)
        (('human', 'llm'), 'ordinal', 6, 0.764)

    Attributes:
        slice: which labels, such as ``market=DE``; ``all``.
        judges: the columns of the judges' grades.
        measurement: ``nominal``, ``ordinal`` or ``interval``.
        n_items: how many items have two grades or more.
        n_users: how many users have such items.
        alpha: its ``value``, ``standard_error`` and ``interval``.
    """

    slice: str
    judges: tuple[str, ...]
    measurement: str
    n_items: int
    n_users: int
    alpha: Estimate

    @property
    def name(self) -> str:
        """The judges in words."""
        return "all judges"

    def record(self) -> dict[str, Any]:
        """The row by column: alpha with its standard error and the ends of its interval."""
        return {name: value for name, value in vars(self).items() if name != "alpha"} | _columns_of(
            {"alpha": self.alpha}
        )


def _columns_of(figures: Mapping[str, Estimate]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name, figure in figures.items():
        columns |= {name: figure.value, f"{name}_standard_error": figure.standard_error}
        columns |= {f"{name}_low": figure.interval.low, f"{name}_high": figure.interval.high}
        columns[f"{name}_no_interval"] = figure.interval.reason
    return columns


def _estimate_in_words(figure: Estimate) -> str:
    if math.isnan(figure.value):
        return "undefined"
    interval = figure.interval
    return f"{figure.value:.2f}" + (f" ({interval.low:.2f} to {interval.high:.2f})" if interval else "")


def agreement_tables(rows: Sequence[JudgePair], alphas: Sequence[JudgesAlpha]) -> tuple[Table, Table, Table]:
    """A table of what was compared, one of the agreement of pairs, and one of that of all judges."""
    also: list[Column[Any]] = [SLICE] if any(row.slice != "all" for row in alphas) else []
    pair: list[Column[Any]] = [
        *also,
        tables.text_column("judge", lambda row: row.judge),
        tables.text_column("other", lambda row: row.other),
    ]
    format_value = tables.common_format(mean for row in rows for mean in (row.mean, row.other_mean))
    graded = Table(
        rows,
        [
            *pair,
            Column("items", lambda row: f"{row.n_items:,}"),
            Column("users", lambda row: f"{row.n_users:,}"),
            Column("judge only", lambda row: f"{row.n_judge_only:,}"),
            Column("other only", lambda row: f"{row.n_other_only:,}"),
            Column("mean", lambda row: format_value(row.mean)),
            Column("other's mean", lambda row: format_value(row.other_mean)),
            Column(
                "other − judge", lambda row: DASH if math.isnan(row.mean) else f"{row.other_mean - row.mean + 0.0:+.4f}"
            ),
        ],
        "graded by both judges",
        "What the judges of each pair graded",
        [Note("items that one of the two did not grade, which are left out", "only")],
        is_grouped=bool(also),
    )
    figures = Table(
        rows,
        [*pair, *(_figure(name.replace("_", " "), attrgetter(name), rows) for name in PAIR_FIGURES)],
        "agreement of pairs of judges",
        "How far the judges of each pair agree",
        _notes(rows, PAIR_FIGURES),
        is_grouped=bool(also),
    )
    all_judges = Table(
        alphas,
        [
            *also,
            tables.text_column("judges", lambda row: ", ".join(row.judges)),
            _figure("alpha", lambda row: row.alpha, alphas),
            Column("items", lambda row: f"{row.n_items:,}"),
            Column("users", lambda row: f"{row.n_users:,}"),
        ],
        f"Krippendorff's alpha, {alphas[0].measurement}",
        f"Krippendorff's alpha of all judges, {alphas[0].measurement}",
        _notes(alphas, ["alpha"]),
        is_grouped=bool(also),
    )
    return graded, figures, all_judges


def _figure(heading: str, figure: Callable[[Any], Estimate], rows: Sequence[Any]) -> Column[Any]:
    """The column of a figure with its interval in brackets."""
    format_value = tables.common_format(figure(row).value for row in rows)

    def cell(row: Any) -> str:
        value, _, interval = figure(row)
        return format_value(value) + (
            f" [{format_value(interval.low)}, {format_value(interval.high)}]" if interval else ""
        )

    return Column(heading, cell)


def _notes(rows: Sequence[Any], names: Sequence[str]) -> list[Note]:
    """What the brackets hold, and why figures are undefined or have no interval."""
    levels = [interval.level for row in rows for name in names if (interval := getattr(row, name).interval)]
    notes = [f"in brackets: {interval_in_words(levels[0])} (jackknife over users)"] if levels else []
    reasons: dict[str, list[tuple[str, str]]] = {"undefined": [], "no interval": []}
    for row in rows:
        about = row.name if row.slice == "all" else f"{row.name} in {row.slice}"
        by_reason: dict[tuple[str, str], list[str]] = {}
        for name in names:
            figure: Estimate = getattr(row, name)
            if not figure.interval:
                what = "undefined" if math.isnan(figure.value) else "no interval"
                # What follows the colon are the numbers of each row.
                reason = figure.interval.reason.partition(":")[0]
                by_reason.setdefault((what, reason), []).append(name.replace("_", " "))
        for (what, reason), figures in by_reason.items():
            which = about if len(figures) == len(names) else f"{listed(figures)} of {about}"
            reasons[what].append((which, reason))
    for what, whys in reasons.items():
        notes += summary_rows.reasons_in_words(what, whys)
    return list(map(Note, notes))


def confusion_table(row: JudgePair, grades: Sequence[str]) -> Table:
    """How many items have each grade of a judge and of the other."""
    columns: list[Column[Any]] = [
        tables.text_column(f"{row.judge} \\ {row.other}", itemgetter(0)),
        *(Column(grade, itemgetter(place)) for place, grade in enumerate(grades, start=1)),
    ]
    lines = [(grade, *map("{:,}".format, counts)) for grade, counts in zip(grades, row.confusion, strict=True)]
    title = f"items by the grades of {row.judge} (rows) and {row.other} (columns)"
    return Table(lines, columns, title, title[0].upper() + title[1:])


def fits_on_page(grades: Sequence[Any]) -> bool:
    """Whether a table of so many grades can be printed."""
    return len(grades) <= _MOST_SHOWN_GRADES
