"""How far the grades of several judges agree: `judge_agreement`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pyspark.sql import types as T

from spark_rankeval.checks import check_table, one_of
from spark_rankeval.errors import InputError, did_you_mean
from spark_rankeval.judging.grade_tables import JudgedLabels
from spark_rankeval.printed_tables import Document, Note, Shown, as_latex, remarks
from spark_rankeval.records.agreement_rows import (
    JudgePair,
    JudgesAlpha,
    agreement_tables,
    confusion_table,
    fits_on_page,
    json_record,
)
from spark_rankeval.records.slices import Key, slice_name, sorted_keys
from spark_rankeval.request.call import ByOption, ColumnNames, Cube, ScoringOptions, Table, attributes_in
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.source_tables import SourceTable, read_source, require_column
from spark_rankeval.spark.sql import check_types
from spark_rankeval.statistics.grade_agreement import MEASUREMENTS, GradeCounts, Measurement
from spark_rankeval.statistics.intervals import checked_level

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# So many slices are printed.
_MOST_SLICES = 12


@dataclass(frozen=True, repr=False)
class JudgeAgreement(Shown):
    """The result of `judge_agreement`. It prints as tables.

    Examples:
        >>> judged.to_pandas()[["judge", "other", "n_items", "agreement", "kappa", "quadratic_kappa"]].round(3)
           judge other  n_items  agreement  kappa  quadratic_kappa
        0  human   llm        6      0.667    0.5             0.75
        >>> print(judged.sentences[0])
        human and llm give 66.7% of 6 items the same grade; quadratic kappa is 0.75; on average llm grades 0.333 higher.

    Attributes:
        rows: one for each pair of judges: first over all labels, and then of each slice.
        alphas: Krippendorff's alpha of all judges: first over all labels, and then of each slice.
        grades: the distinct grades, ascending, by which `JudgePair.confusion` counts.
    """

    rows: tuple[JudgePair, ...]
    alphas: tuple[JudgesAlpha, ...]
    grades: tuple[float, ...]

    @property
    def slices(self) -> list[str]:
        """The names of the slices; ``all`` comes first."""
        return [row.slice for row in self.alphas]

    @property
    def sentences(self) -> list[str]:
        """A sentence on each pair of judges, over all labels, and the notes."""
        return [*(row.sentence for row in self.rows if row.slice == "all"), *(f"{note}." for note in self.notes)]

    @property
    def notes(self) -> list[str]:
        """What the figures could be mistaken for: pairs of judges whose grades begin or end apart."""
        notes, grades = [], np.array(self.grades)
        for row in (row for row in self.rows if row.slice == "all" and row.n_items):
            used = (grades[np.any(row.confusion, axis=axis)] for axis in (1, 0))
            judge, other = (f"from {each[0]:g} to {each[-1]:g}" for each in used)
            if judge != other:
                scales = "If these are two scales, no figure tells agreement: map one to the other"
                notes.append(f"the grades of {row.judge} go {judge}, those of {row.other} {other}. {scales}")
        return notes

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[JudgePair]:
        return iter(self.rows)

    def __getitem__(self, names: tuple[str, ...]) -> JudgePair:
        """A pair of judges: ``judged["human", "llm"]``; of a slice: ``judged["human", "llm", "market=DE"]``.

        Judges come in the order of the call. Raises `InputError` if there is no such pair.
        """
        judge, other, slice_ = names if len(names) == 3 else (*names, "all")
        rows = {(row.judge, row.other, row.slice): row for row in self.rows}
        if (judge, other, slice_) not in rows:
            if slice_ not in self.slices:
                what, unknown, available = "slice", slice_, self.slices
            else:
                available = list(dict.fromkeys(f"{row.judge}, {row.other}" for row in self.rows))
                what, unknown = "pair of judges", f"{judge}, {other}"
            msg = f"there is no {what} {unknown!r}; {did_you_mean(unknown, available)}available: {'; '.join(available)}"
            raise InputError(msg)
        return rows[judge, other, slice_]

    def confusion(self, judge: str, other: str, slice: str = "all") -> pd.DataFrame:
        """How many items have each grade of a judge (rows) and of another (columns).

        Examples:
            >>> judged.confusion("human", "llm")
            llm    0.0  1.0  2.0
            human
            0.0      2    1    0
            1.0      0    1    1
            2.0      0    0    1

        Raises:
            InputError: there is no such pair of judges, or no such slice.
        """
        row = self[judge, other, slice]
        return pd.DataFrame(
            row.confusion,
            index=pd.Index(self.grades, name=judge),
            columns=pd.Index(self.grades, name=other),
        )

    def to_pandas(self) -> pd.DataFrame:
        """A row for each slice and pair of judges.

        The columns are slice, judge, other, n_items, n_users, n_judge_only, n_other_only, mean and other_mean. Then come agreement, kappa,
        linear_kappa and quadratic_kappa. Each has its standard error, the ends of its interval, and why it has none, such as
        ``kappa_low`` and ``kappa_no_interval``.
        """
        return pd.DataFrame([row.record() for row in self.rows])

    def to_dict(self) -> dict[str, Any]:
        """The pairs, alphas, grades and confusions as plain values; NaN becomes None."""
        return {
            "grades": list(self.grades),
            "pairs": [json_record(row.record()) | {"confusion": list(map(list, row.confusion))} for row in self.rows],
            "alphas": [json_record(row.record()) | {"judges": list(row.judges)} for row in self.alphas],
        }

    def to_json(self, indent: int | None = 2) -> str:
        """What `to_dict` gives, as JSON; NaN becomes null."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def to_latex(self) -> str:
        """The tables in LaTeX: a ``tabular`` each, for the package ``booktabs``. Captions and notes become comments."""
        return as_latex(self._on_paper())

    def _on_paper(self) -> Document:
        return self._document(self.slices)

    def _on_screen(self) -> Document:
        n_left_out = len(self.slices) - _MOST_SLICES
        more = [Note(f"{n_left_out:,} more slices are not shown: to_pandas() has them all")] if n_left_out > 0 else []
        return self._document(self.slices[:_MOST_SLICES], *more)

    def _document(self, slices: Sequence[str], *more: Note) -> Document:
        rows = [row for row in self.rows if row.slice in slices]
        tables = agreement_tables(rows, [row for row in self.alphas if row.slice in slices])
        pairs = [row for row in rows if row.slice == "all" and row.n_items] if fits_on_page(self.grades) else []
        confusions = (confusion_table(row, [f"{grade:g}" for grade in self.grades]) for row in pairs)
        return Document((*tables, *confusions), (*remarks(self.notes), *more))


@takes_local_tables
def judge_agreement(
    labels: Table,
    judges: Sequence[str],
    *,
    user: str | Sequence[str] = "user",
    item: str = "item",
    by: ByOption = (),
    measurement: Measurement = "ordinal",
    level: float = 0.95,
) -> JudgeAgreement:
    """Measure how far judges agree on the grades of items, such as people and language models, in one Spark action.

    For each pair of judges, the items that both graded give raw agreement, Cohen's kappa plain and weighted, and the confusion of grades.
    Krippendorff's alpha is of all judges together. Intervals know that the grades of a user's items are alike: users, not items, are
    what is drawn.

    Examples:
        >>> grades = [(0, "a", 2, 2), (0, "b", 0, 0), (1, "a", 1, 2), (1, "b", 0, 1), (2, "a", 1, 1), (2, "b", 0, 0), (3, "a", None, 1)]
        >>> graded = spark.createDataFrame(grades, "user int, item string, human int, llm int")
        >>> judged = judge_agreement(graded, ["human", "llm"])
        >>> row = judged["human", "llm"]
        >>> round(row.agreement.value, 3), round(row.kappa.value, 3), round(judged.alphas[0].alpha.value, 3)
        (0.667, 0.5, 0.764)

    Args:
        labels: one row per user and item, with a column of grades for each judge. Null or NaN: the judge did not grade the item. At most
            101 distinct grades.
        judges: the columns of grades, two or more.
        user: the column that identifies a user or query, or a list of columns that do so together.
        item: the column of items.
        by: the columns of labels that divide them into slices, as in `evaluate`. The items of a user may be in several slices.
        measurement: how Krippendorff's alpha reads grades. ``nominal``: they are equal or not. ``ordinal``: their order counts.
            ``interval``: so do their differences.
        level: the confidence level of the intervals.

    Returns:
        the agreement, which prints as tables. A figure is NaN if it is undefined, as kappa is if both judges give one grade. Fewer than
        about 25 users have no interval.

    Raises:
        InputError, OptionError: an argument is not valid; no job has run.
        DataError: rows lack a user or item, repeat them, or have infinite or too many grades.
    """
    one_of("measurement", measurement, MEASUREMENTS)
    checked_level(level)
    check_table("labels", labels)
    judged = read_labels(labels, judges, user=user, item=item, by=by)
    counts = judged.counts_by_slice()
    return rows_of_counts(counts, judged.judges, judged.attributes, level, measurement)


def rows_of_counts(
    counts: Mapping[Key, GradeCounts],
    judges: tuple[str, ...],
    attributes: Sequence[str],
    level: float,
    measurement: Measurement,
) -> JudgeAgreement:
    """The agreement in each slice, from its counts."""
    rows, alphas = [], []
    for key in sorted_keys(list(counts)):
        name = slice_name(attributes, key)
        rows += list(_pair_rows(name, judges, counts[key], level))
        alphas.append(JudgesAlpha(name, judges, measurement, *counts[key].alpha(level, measurement)))
    return JudgeAgreement(tuple(rows), tuple(alphas), tuple(next(iter(counts.values())).scale.tolist()))


def _pair_rows(slice_: str, judges: Sequence[str], counts: GradeCounts, level: float) -> Iterator[JudgePair]:
    for judge, other in counts.pairs:
        figures = counts.pair_figures(judge, other, level)
        yield JudgePair(
            slice_, judges[judge], judges[other], int(figures.table.sum()), figures.n_users,
            counts.n_without_other(judge, other), counts.n_without_other(other, judge), figures.mean, figures.other_mean,
            figures.agreement, figures.kappa, figures.linear_kappa, figures.quadratic_kappa,
            tuple(map(tuple, figures.table.tolist())),
        )  # fmt: skip


def read_labels(
    labels: DataFrame, judges: Sequence[str], *, user: str | Sequence[str], item: str, by: ByOption
) -> JudgedLabels:
    """Find and check all columns, before any job; an `InputError` names all offenders at once."""
    if not isinstance(judges, list | tuple) or len(judges) < 2 or not all(isinstance(name, str) for name in judges):
        msg = f"judges must be a list of two or more columns of grades, such as ['human', 'llm']; got {judges!r}"
        raise InputError(msg)
    if not isinstance(item, str):
        msg = f"item must be the column of items; got {item!r}"
        raise InputError(msg)
    attributes = attributes_in(by)
    names = ColumnNames.read(ScoringOptions(user=user, item=item), one_table=False)
    problems: list[str] = []
    source = read_source("labels", labels, names, problems)
    if source.arrays:
        problems.append(
            f"labels must have a row for each user and item; {source.item!r} is an array. Explode it with F.explode"
        )
    columns = [require_column("labels", labels, name, "judges", problems) for name in judges]
    judge_columns = tuple(column for column in columns if column is not None)
    problems += _problems_judge_columns(source, judge_columns)
    slices = [require_column("labels", labels, name, "by", problems) for name in attributes]
    if problems:
        raise InputError("; ".join(problems))
    attribute_columns = tuple(column for column in slices if column is not None)
    check_types(labels, attribute_columns, "slice", "labels")
    return JudgedLabels(source, judge_columns, attribute_columns, totals=isinstance(by, Cube))


def _problems_judge_columns(source: SourceTable, judges: Sequence[str]) -> list[str]:
    """Why columns are no columns of grades."""
    problems = [f"judges names the column {name!r} twice" for name in dict.fromkeys(judges) if judges.count(name) > 1]
    kinds = {name: source.frame.schema[name].dataType for name in judges}
    for name, kind in kinds.items():
        if name in (*source.user, source.item):
            problems.append(f"judges: {name!r} identifies users or items; name the columns of grades")
        elif not _is_number(kind):
            problems.append(
                f"labels: the grades of judge {name!r} must be numbers; they are {kind.simpleString()}. Cast them"
            )
    return problems


def _is_number(kind: T.DataType) -> bool:
    return isinstance(kind, T.NumericType | T.BooleanType)
