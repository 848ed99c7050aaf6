"""Means under human grades that are estimated from two judges: their rows in a summary, and the table of what each judge says."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pandas as pd

from spark_rankeval.errors import listed
from spark_rankeval.printed_tables import DASH, Column, Document, Note, OneTable, Table, common_format, text_column
from spark_rankeval.records.summary import MOST_LISTED, SLICE, SummaryRow, as_json_value, bounds_of
from spark_rankeval.statistics.intervals import PREDICTION_POWERED, Interval
from spark_rankeval.statistics.judged_queries import JudgedQueries
from spark_rankeval.statistics.prediction_powered import (
    DrawCheck,
    JudgedEstimate,
    LabelsNeeded,
    draw_check,
    judged_estimate,
    labels_needed,
)

# A draw that would be so rare if it were random is worth a warning.
_UNLIKELY = 0.01


def estimated_row(
    label: str, queries: JudgedQueries, level: float, *, definition: str, slice_: str = "all", **about: Any
) -> SummaryRow:
    """The row of a mean under human grades, from what both judges say; `about` has further attributes of `SummaryRow`."""
    text = queries.text()
    estimate = _estimate(text, level, definition)
    interval = estimate.interval
    n_others = queries.n_defined_others
    nan = math.nan
    clusters = queries.clusters_of_people(estimate.standard_error)
    if clusters is not None:
        independent = judged_estimate(queries.independent, level, bounds=bounds_of(definition))
        about |= {
            "n_clusters": clusters.n,
            "effective_n_clusters": clusters.effective_n,
            "design_effect": clusters.design_effect(independent.standard_error),
        }
    return SummaryRow(
        metric=label, definition=definition, slice=slice_, mean=estimate.value, n_users=queries.n_graded + n_others,
        n_undefined=queries.n_others - n_others, std=nan, standard_error=estimate.standard_error, minimum=nan, maximum=nan, n_zero=0,
        interval_low=interval.low, interval_high=interval.high, interval_level=level,
        interval_method=PREDICTION_POWERED, no_interval=interval.reason,
        effective_n_users=estimate.effective_n, df=estimate.df, moments=text, **about,
    )  # fmt: skip


# All figures of a result need the estimates, which take some 10 ms each.
@lru_cache(maxsize=1024)
def _estimate(queries: str, level: float, definition: str) -> JudgedEstimate:
    """The estimate of a metric, from the text of what both judges say."""
    return judged_estimate(JudgedQueries.from_text(queries), level, bounds=bounds_of(definition))


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
                "mean": mean.value, "standard_error": mean.standard_error, "df": float(mean.df), "effective_n_users": mean.equal_n,
                "interval_low": mean.interval.low, "interval_high": mean.interval.high, "interval_method": mean.interval.method,
                "no_interval": mean.interval.reason, **({} if mean.equal_n == mean.n else {"standard_mean": math.nan}),
            }  # fmt: skip
    return tuple(
        replace(row, **alone[key]) if (key := (row.model, row.slice, row.key)) in alone else row for row in rows
    )


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
    """

    model: str
    metric: str
    slice: str
    estimate: JudgedEstimate
    draw: DrawCheck | None
    queries: JudgedQueries

    def labels_needed(self, width: float) -> LabelsNeeded | None:
        """How many users, or clusters, people must grade for an interval of this width: with the model's grades, and without."""
        # Equal values do not tell how much others vary.
        if not self.estimate.human.standard_error:
            return None
        needed = labels_needed(self.queries, width, self.estimate.interval.level)
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
        queries = JudgedQueries.from_text(row.moments)
        estimate = _estimate(row.moments, row.interval_level, row.definition)
        rows.append(JudgedRow(row.model, row.name, row.slice, estimate, draw_check(queries), queries))
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
        return [{name: as_json_value(value) for name, value in row.record().items()} for row in self.rows]

    def _table(self, title: str, figure: str) -> Table:
        rows = self.rows
        format_value = common_format(value for row in rows for value, _ in row.means)

        def cell(value: float, ends: Interval) -> str:
            low, high = format_value(ends.low), format_value(ends.high)
            return f"{format_value(value)} {DASH}" if ends.reason else f"{format_value(value)} [{low}, {high}]"

        also: list[Column[Any]] = (
            [text_column("model", lambda row: row.model)] if any(row.model for row in rows) else []
        )
        also += [SLICE] if any(row.slice != "all" for row in rows) else []
        columns: list[Column[Any]] = [
            text_column("metric", lambda row: row.metric),
            *also,
            Column("both", lambda row: cell(*row.means[0])),
            Column(f"{self.human} alone", lambda row: cell(*row.means[1])),
            Column(f"{self.judge} alone", lambda row: cell(*row.means[2])),
            Column("weight", lambda row: _or_dash(row.estimate.lambda_, ".2f")),
            Column("graded", lambda row: f"{row.estimate.n_graded:,}"),
            Column("others", lambda row: f"{row.estimate.n_others:,}"),
            Column("worth", lambda row: _or_dash(row.estimate.effective_n, ",.0f")),
        ]
        notes = [
            Note(f"in brackets: {rows[0].estimate.interval.level:.0%} intervals"),
            Note(f"the {figure} under {self.human!r}, estimated from both judges (PPI++)", "both"),
            Note(f"how much {self.judge!r} counts, from 0 to 1", "weight"),
            Note(f"how many users graded by {self.human!r} alone would give the same interval", "worth"),
            *map(Note, notes_judge_columns(rows, "" if figure == "mean" else f"{figure} in ")),
        ]
        return Table(rows, columns, title, title, notes, dash_means="there is no interval")


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
    """What two judges say together, and each alone, of differences to a baseline. It prints as a table; see `ModelComparison.judged`."""

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
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.slice == "all" and row.estimate.note:
            reason, _, numbers = row.estimate.note.partition(": ")
            name = " ".join(filter(None, [row.metric, row.model, numbers and f"({numbers})"]))
            reasons.setdefault(reason, []).append(name)
    notes = [f"{listed(names, MOST_LISTED)}: {reason}, so people alone count" for reason, names in reasons.items()]
    odd = [row for row in rows if row.slice == "all" and row.draw is not None and row.draw.p < _UNLIKELY]
    for row in odd[:1]:
        assert row.draw is not None, "chosen so"
        notes.append(
            f"the graded users do not look drawn at random: by the model's grades their {figure}{row.metric} is "
            f"{row.draw.graded_mean:.3g}, that of all users {row.draw.all_mean:.3g} (p = {row.draw.p:.2g}). "
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
    made = estimated_row(
        first.metric, queries, first.interval_level, definition=first.definition, slice_=first.slice,
        model=first.model, dialect=first.dialect, relevance=first.relevance, cutoff=first.cutoff,
        cluster=first.cluster,
    )  # fmt: skip
    return replace(made, asked=first.asked, over_all=False)
