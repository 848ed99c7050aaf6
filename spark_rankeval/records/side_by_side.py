"""Figures side by side in one table: several models on each metric, and the same data under several dialects."""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pandas as pd

from spark_rankeval.errors import InputError
from spark_rankeval.printed_tables import (
    DASH,
    Cell,
    Column,
    Document,
    Note,
    OneTable,
    Table,
    common_format,
    text_column,
)
from spark_rankeval.records.comparison_rows import ComparisonRow
from spark_rankeval.records.pair_rows import PairRow
from spark_rankeval.records.summary import MetricRow, SummaryRow, metric_or_none, users_in_words

_HEAD = "model"


class Compared(Protocol):
    """The parts of a comparison that a table of models shows."""

    @property
    def rows(self) -> tuple[ComparisonRow | PairRow, ...]: ...  # noqa: D102 # the comparison says it


@dataclass(frozen=True, repr=False)
class ModelsTable(OneTable):
    """The table of `Result.models_table`. It prints as text, and notebooks show it as HTML.

    Examples:
        >>> result.models_table().to_pandas().round(3)
                     rr  recall@1  recall@2  recall@3
        model
        popular   0.458      0.25       0.5      0.75
        personal  0.875      0.75       1.0      1.00
        >>> print(result.models_table(comparison, metrics=["rr", "recall@1"]))
           model            rr  recall@1
        a  popular   0.4583      0.2500
        b  personal  0.8750* a   0.7500
        *  significantly better than every other model in its column
        means over 8 users
        a letter after a mean: significantly better than the model with that letter, according to the comparison. The ...

    Attributes:
        rows: the rows of the summary for all users, metric by metric.
        models: the models, in the order of their rows.
        better: for each metric and model, the models that it is significantly better than. None without a comparison.
        notes: sentences that explain the columns and marks, and their limits.
    """

    rows: tuple[SummaryRow, ...]
    models: tuple[str, ...]
    better: Mapping[tuple[str, str], frozenset[str]] | None
    notes: tuple[str, ...]

    @property
    def caption(self) -> str:
        """A sentence on the content of the table."""
        about = users_in_words([replace(row, model="") for row in self.rows])
        bold = bold_in_words("metric", is_compared=self.better is not None) if self._has_best else ""
        raised = "; a raised letter: significantly better than the model with that letter" if self.better else ""
        return f"Means over users, {about}{bold}{raised}"

    def to_pandas(self) -> pd.DataFrame:
        """The means as a pandas DataFrame, with one row for each model and one column for each metric."""
        columns = []
        for rows in self._by_key().values():
            means = {model: row.mean for model, row in rows.items()}
            columns.append(pd.Series(means, name=next(iter(rows.values())).name, dtype="float64"))
        return pd.concat(columns, axis=1).reindex(pd.Index(self.models, name=_HEAD))

    def _on_paper(self) -> Document:
        letters = self._letters()
        columns = [self._column(key, rows, letters) for key, rows in self._by_key().items()]
        columns.insert(0, text_column(_HEAD, lambda model: model))
        if self.better:
            columns.insert(0, text_column("", lambda model: letters[model].rstrip(",")))
        best = star_in_words("column", is_compared=self.better is not None) if self._has_best else ""
        notes = list(map(Note, self.notes))
        return Document((Table(self.models, columns, caption=self.caption, notes=notes, bold_means=best),))

    @property
    def _has_best(self) -> bool:
        return any(self._best(key, rows) for key, rows in self._by_key().items())

    def _best(self, key: str, rows: Mapping[str, SummaryRow]) -> set[str]:
        better = None if self.better is None else {model: self.better.get((key, model), frozenset()) for model in rows}
        return best_models(rows, better)

    def _by_key(self) -> dict[str, dict[str, SummaryRow]]:
        rows: dict[str, dict[str, SummaryRow]] = {}
        for row in self.rows:
            rows.setdefault(row.key, {})[row.model] = row
        return rows

    def _letters(self) -> dict[str, str]:
        """A letter for each model, or a number if there are more models than letters."""
        signs = string.ascii_lowercase
        many = len(self.models) > len(signs)
        return {model: f"{place + 1}," if many else signs[place] for place, model in enumerate(self.models)}

    def _column(self, key: str, rows: Mapping[str, SummaryRow], letters: Mapping[str, str]) -> Column[str]:
        format_value = common_format(row.mean for row in rows.values())
        best = self._best(key, rows)

        def cell(model: str) -> Cell:
            if model not in rows:
                return Cell(DASH)
            beaten = (self.better or {}).get((key, model), frozenset())
            raised = "".join(letters[other] for other in self.models if other in beaten).rstrip(",")
            return Cell(format_value(rows[model].mean), model in best, raised)

        return Column(next(iter(rows.values())).name, cell)


def models_table(
    rows: Sequence[SummaryRow],
    models: Sequence[str],
    compared: Sequence[ComparisonRow | PairRow] | None,
    notes: Sequence[str],
) -> ModelsTable:
    """The table of a summary's rows of all users.

    If the rows of a comparison are of other models, or of none of the metrics, it is an `InputError`.
    """
    better = None if compared is None else _better(rows, models, compared)
    about = [_users_in_words(rows)]
    downwards = list(dict.fromkeys(row.name for row in rows if not _larger_is_better(row)))
    if downwards:
        about.append(f"smaller is better: {', '.join(downwards)}")
    if compared:
        about.append(_marks_in_words(compared, bool(better)))
    return ModelsTable(tuple(rows), tuple(models), better, (*about, *notes))


def _better(
    rows: Sequence[SummaryRow], models: Sequence[str], compared: Sequence[ComparisonRow | PairRow]
) -> dict[tuple[str, str], frozenset[str]]:
    others = {name for row in compared for name in (row.model, _other(row))} - set(models)
    if others:
        msg = (
            f"the comparison has the models {', '.join(map(repr, sorted(others)))}, and the result has "
            f"{', '.join(map(repr, models))}; pass a comparison of this result"
        )
        raise InputError(msg)
    keys = {row.key for row in rows}
    if not keys & {row.metric for row in compared}:
        msg = (
            f"the comparison has none of the metrics of this table: {', '.join(dict.fromkeys(row.name for row in rows))}; "
            f"it has {', '.join(dict.fromkeys(row.name for row in compared)) or 'none'}"
        )
        raise InputError(msg)
    better: dict[tuple[str, str], frozenset[str]] = {}
    for row in compared:
        pairs = {"better": (row.model, _other(row)), "worse": (_other(row), row.model)}
        if row.verdict in pairs:
            winner, loser = pairs[row.verdict]
            better[row.metric, winner] = better.get((row.metric, winner), frozenset()) | {loser}
    return better


def _other(row: ComparisonRow | PairRow) -> str:
    return row.other if isinstance(row, PairRow) else row.baseline


def _larger_is_better(row: SummaryRow) -> bool:
    metric = metric_or_none(row.definition)
    return metric is None or metric.larger_is_better


def best_models(rows: Mapping[str, SummaryRow], better: Mapping[str, frozenset[str]] | None = None) -> set[str]:
    """The models to mark: those with the best mean, if others have a worse one.

    If `better` says which models each is significantly better than, the best must be so than every other.
    """
    means = {model: row.mean if _larger_is_better(row) else -row.mean for model, row in rows.items()}
    means = {model: mean for model, mean in means.items() if not math.isnan(mean)}
    best = {model for model, mean in means.items() if mean == max(means.values())}
    if better is not None:
        return {model for model in best if len(means) > 1 and means.keys() - {model} <= better[model]}
    return best if len(best) < len(means) else set()


def star_in_words(line: str, *, is_compared: bool = False) -> str:
    """What the mark of `best_models` means below a table in text; `line` is the row or the column of these models."""
    if is_compared:
        return f"significantly better than every other model in its {line}"
    return f"the best mean of its {line}; compare tests whether the lead is decided"


def bold_in_words(line: str, *, is_compared: bool = False) -> str:
    """What bold means, at the end of a caption."""
    which = "if it is significantly better than every other" if is_compared else "whether or not the lead is decided"
    return f"; the best mean of each {line} is bold, {which}"


def _users_in_words(rows: Sequence[SummaryRow]) -> str:
    counts = sorted({row.n_users for row in rows})
    if len(counts) == 1:
        return f"means over {counts[0]:,} users"
    return f"each mean is over the users for whom its metric is defined, {counts[0]:,} to {counts[-1]:,} of them"


def _marks_in_words(compared: Sequence[ComparisonRow | PairRow], some_are_better: bool) -> str:
    bases = {row.baseline for row in compared if isinstance(row, ComparisonRow)}
    which = f". The models were compared only with {', '.join(sorted(bases))}" if bases else ""
    margins = " by more than the margin" if any(row.margin for row in compared) else ""
    marked = "a letter after a mean: significantly better than the model with that letter"
    meaning = marked if some_are_better else "no mean is significantly better than that of another model"
    return f"{meaning}{margins}, according to the comparison{which}"


@dataclass(frozen=True)
class Choice:
    """What a dialect does otherwise than the default, and how far that moves the mean, after the choices before it."""

    words: str
    effect: float


@dataclass(frozen=True)
class MapRow(MetricRow):
    """One metric in one dialect.

    Attributes:
        metric: the metric as it was asked for.
        dialect: the dialect's name, with the version that was compared.
        definition: the metric with every parameter written out; empty if the dialect has none.
        mean: over the `n_users` users that the dialect counts; NaN if there is none.
        difference: to the mean in the default dialect.
        choices: what moves the mean, step by step from the default; the effects add up to the difference.
        note: why there is no value.
    """

    metric: str
    dialect: str
    definition: str
    mean: float
    difference: float
    n_users: int
    choices: tuple[Choice, ...]
    note: str = ""
    asked: str = ""

    @property
    def because(self) -> str:
        """The choices that move the mean, in words, the largest first."""
        if self.note:
            return self.note
        moving = sorted((c for c in self.choices if c.effect), key=lambda choice: -abs(choice.effect))
        if moving:
            return "; ".join(f"{choice.words} ({choice.effect:+.4f})" for choice in moving)
        if self.dialect == "default":
            return "the reference"
        return "the same definition" if not self.choices else "the same on this data"


def dialects_table(rows: Sequence[MapRow], caption: str = "The same data under other dialects") -> Table:
    """One row for each metric and dialect, with the reasons why it differs."""
    mean = common_format(row.mean for row in rows)
    difference = common_format((row.difference for row in rows), sign="+")

    def unless_missing(row: MapRow, text: str) -> str:
        return DASH if math.isnan(row.mean) and not row.n_users else text

    columns: list[Column[MapRow]] = [
        text_column("metric", lambda row: row.name),
        text_column("dialect", lambda row: row.dialect),
        Column("mean", lambda row: unless_missing(row, mean(row.mean))),
        Column("difference", lambda row: unless_missing(row, difference(row.difference) if row.difference else "")),
        Column("users", lambda row: unless_missing(row, f"{row.n_users:,}")),
        Column("because", lambda row: row.because, "prose"),
    ]
    return Table(rows, columns, caption=caption, dash_means="the dialect has no value", is_grouped=True)
