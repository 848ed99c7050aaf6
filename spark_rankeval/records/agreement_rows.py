"""How far judges agree, as rows of pairs of judges, of all judges and of orders of models; and the tables that show them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from spark_rankeval.errors import listed
from spark_rankeval.printed_tables import DASH, Column, Note, Table, common_format, text_column
from spark_rankeval.records.summary import MOST_LISTED, SLICE, as_json_value
from spark_rankeval.statistics.grade_agreement import Estimate
from spark_rankeval.statistics.verdicts import interval_in_words

#: The figures of a pair of judges, by the names of the fields that hold them.
PAIR_FIGURES = ("agreement", "kappa", "linear_kappa", "quadratic_kappa")
# Larger tables of grades do not fit on a page.
_MOST_SHOWN_GRADES = 11


@dataclass(frozen=True)
class JudgePair:
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
    n_items: int
    n_users: int
    n_judge_only: int
    n_other_only: int
    mean: float
    other_mean: float
    agreement: Estimate
    kappa: Estimate
    linear_kappa: Estimate
    quadratic_kappa: Estimate
    confusion: tuple[tuple[int, ...], ...] = field(repr=False)

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
        others = {name: value for name, value in vars(self).items() if name not in (*figures, "confusion")}
        return others | _columns_of(figures)


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


def json_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record as JSON has it: NaN is null."""
    return {name: as_json_value(value) for name, value in record.items()}


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
        text_column("judge", lambda row: row.judge),
        text_column("other", lambda row: row.other),
    ]
    format_value = common_format(mean for row in rows for mean in (row.mean, row.other_mean))
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
            Column("other − judge", _gap),
        ],
        "graded by both judges",
        "What the judges of each pair graded",
        [Note("items that one of the two did not grade, which are left out", "only")],
        is_grouped=bool(also),
    )
    figures = Table(
        rows,
        [*pair, *(_figure(name.replace("_", " "), partial(_named, name), rows) for name in PAIR_FIGURES)],
        "agreement of pairs of judges",
        "How far the judges of each pair agree",
        _notes(rows, PAIR_FIGURES),
        is_grouped=bool(also),
    )
    all_judges = Table(
        alphas,
        [
            *also,
            text_column("judges", lambda row: ", ".join(row.judges)),
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


def _gap(row: JudgePair) -> str:
    return DASH if math.isnan(row.mean) else f"{row.other_mean - row.mean + 0.0:+.4f}"


def _named(name: str, row: Any) -> Estimate:
    figure: Estimate = getattr(row, name)
    return figure


def _figure(heading: str, figure: Callable[[Any], Estimate], rows: Sequence[Any]) -> Column[Any]:
    """The column of a figure with its interval in brackets."""
    format_value = common_format(figure(row).value for row in rows)

    def cell(row: Any) -> str:
        value, _, interval = figure(row)
        return format_value(value) + (
            f" [{format_value(interval.low)}, {format_value(interval.high)}]" if interval else ""
        )

    return Column(heading, cell)


def _notes(rows: Sequence[Any], names: Sequence[str]) -> list[Note]:
    """What the brackets hold, and why figures are undefined or have no interval."""
    levels = [interval.level for row in rows for name in names if (interval := _named(name, row).interval)]
    notes = [f"in brackets: {interval_in_words(levels[0])} (jackknife over users)"] if levels else []
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        about = row.name if row.slice == "all" else f"{row.name} in {row.slice}"
        by_reason: dict[tuple[str, str], list[str]] = {}
        for name in names:
            figure = _named(name, row)
            if not figure.interval:
                what = "undefined" if math.isnan(figure.value) else "no interval"
                # What follows the colon are the numbers of each row.
                reason = figure.interval.reason.partition(":")[0]
                by_reason.setdefault((what, reason), []).append(name.replace("_", " "))
        for key, figures in by_reason.items():
            which = about if len(figures) == len(names) else f"{listed(figures)} of {about}"
            reasons.setdefault(key, []).append(which)
    notes += [f"{what} for {listed(abouts, MOST_LISTED)}: {why}" for (what, why), abouts in reasons.items()]
    return list(map(Note, notes))


def confusion_table(row: JudgePair, grades: Sequence[str]) -> Table:
    """How many items have each grade of a judge and of the other."""
    columns: list[Column[Any]] = [
        text_column(f"{row.judge} \\ {row.other}", lambda line: line[0]),
        *(Column(grade, partial(_count_in, place)) for place, grade in enumerate(grades)),
    ]
    title = f"items by the grades of {row.judge} (rows) and {row.other} (columns)"
    return Table(list(zip(grades, row.confusion, strict=True)), columns, title, title[0].upper() + title[1:])


def _count_in(place: int, line: tuple[str, Sequence[int]]) -> str:
    return f"{line[1][place]:,}"


def fits_on_page(grades: Sequence[Any]) -> bool:
    """Whether a table of so many grades can be printed."""
    return len(grades) <= _MOST_SHOWN_GRADES
