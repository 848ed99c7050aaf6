"""How far judges agree: the combinations of their grades, counted in one action, and the kappas of each pair."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pyspark.sql import types as T

from spark_rankeval.checks import check_table, one_of
from spark_rankeval.errors import DataError, InputError, did_you_mean
from spark_rankeval.printed_tables import Document, Note, Plain, Sliced, Verdicts, remarks
from spark_rankeval.records import judges as judge_rows
from spark_rankeval.records.columns import json_record
from spark_rankeval.records.summary import ALL_VALUES, Key, rollup, slice_name, sorted_keys
from spark_rankeval.request.call import ByOption, ColumnNames, Cube, ScoringOptions, Table, attributes_in
from spark_rankeval.spark import sql
from spark_rankeval.spark.engine import collected_columns
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.source_tables import SourceTable, read_source, require_column
from spark_rankeval.spark.sql import Sql, call, named
from spark_rankeval.statistics.description import N_BLOCKS
from spark_rankeval.statistics.intervals import check_level
from spark_rankeval.statistics.judges import MEASUREMENTS, GradeCounts, Measurement, pairs_of
from spark_rankeval.worker.reading import slice_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


#: With more distinct grades, such as scores that were not rounded, no two judges give the same one. These are 0 to 100.
MOST_GRADES = 101
# More rows of counts do not come from grades, and could fill the driver.
_MOST_ROWS = 2_000_000
# Squares of larger grades do not fit into floats. Sail's minimum of infinite numbers is the largest float.
_LARGEST = 1e100
_ITEM, _KEPT, _PART, _BLOCK = "item_", "kept", "part", "block"
_N_ITEMS, _N_ROWS, _N_INVALID = "n_items", "n_rows", "n_invalid"


@dataclass(frozen=True)
class JudgedLabels:
    """Labels with the grades of several judges, and the attributes that divide them into slices.

    Attributes:
        source: the columns of users and items.
        judges: the columns of grades.
        attributes: the columns that slices are made of.
        totals: whether there are slices by some of the attributes, too.
    """

    source: SourceTable
    judges: tuple[str, ...]
    attributes: tuple[str, ...]
    totals: bool

    @property
    def _users(self) -> list[str]:
        return [*self.source.user_names]

    @property
    def _grades(self) -> list[str]:
        return [f"grade_{index}" for index in range(len(self.judges))]

    @property
    def _slices(self) -> list[str]:
        return [slice_column(index) for index in range(len(self.attributes))]

    def counts_by_slice(self) -> dict[Key, GradeCounts]:
        """The counts of each slice, all labels among them. Raises `DataError` if rows cannot be counted."""
        columns = collected_columns(self.combinations().limit(_MOST_ROWS + 1))
        grades = np.stack([columns[name] for name in self._grades], axis=1)
        scale = np.unique(grades[~np.isnan(grades)])
        is_all = columns[_KEPT] == 0
        sums = {name: int(columns[name][is_all].sum()) for name in (_N_ROWS, _N_INVALID, _N_ITEMS)}
        self._check(sums, scale, len(is_all))
        n_users = np.stack([columns[name] for name in self._pair_columns()], axis=1)
        counts = GradeCounts(grades, columns[_BLOCK], columns[_N_ITEMS], n_users, scale)
        keys = zip(columns[_KEPT].tolist(), *(columns[name].tolist() for name in self._slices), strict=True)
        rows: dict[Key, list[int]] = {}
        for row, (kept, *values) in enumerate(keys):
            key = tuple(value if kept >> place & 1 else ALL_VALUES for place, value in enumerate(values))
            rows.setdefault(key, []).append(row)
        return {key: counts.part(np.array(places)) for key, places in rows.items()}

    def _check(self, sums: dict[str, int], scale: np.ndarray[Any, Any], n_combinations: int) -> None:
        """Refuse rows that cannot be counted."""
        problems = []
        n_invalid, n_repeated = sums[_N_INVALID], sums[_N_ROWS] - sums[_N_ITEMS]
        if not sums[_N_ROWS]:
            problems.append("labels have no rows")
        if n_invalid:
            problems.append(
                f"labels with a null or NaN user or item: {n_invalid:,}. Fix the data, or filter these rows out"
            )
        elif n_repeated:
            problems.append(
                f"labels that repeat a user and item: {n_repeated:,}, such as {self._example()}. A judge gives an item one grade: keep one "
                "row of each pair"
            )
        if len(scale) > MOST_GRADES or n_combinations > _MOST_ROWS:
            problems.append(
                f"{', '.join(self.judges)}: there are more than {MOST_GRADES} distinct grades, so hardly any are equal. Round them, or cut "
                "them into a few grades"
            )
        elif len(scale) and np.abs(scale).max() > _LARGEST:
            problems.append(
                f"{', '.join(self.judges)}: there are infinite grades, or some beyond {_LARGEST:g}. Fix the data, or make them null"
            )
        if problems:
            raise DataError("; ".join(problems), {"n_invalid_labels": n_invalid, "n_repeated_labels": n_repeated})

    def _example(self) -> str:
        """A user and item that several rows have, for a message."""
        rows = sql.select(self.source.frame, *self.source.named_users_sql(), self.source.ids_sql().alias(_ITEM))
        twice = sql.where(
            sql.aggregate(rows, rows.columns, call("count", sql.number(1)).alias(_N_ROWS)), named(_N_ROWS) > 1
        )
        return sql.example_of(twice.orderBy(*rows.columns), self.source.user_names | {_ITEM: self.source.item})

    def _pair_columns(self) -> list[str]:
        """The columns that count users: one for each pair of judges, and one for any two."""
        return [f"n_users_{place}" for place in range(len(pairs_of(len(self.judges))) + 1)]

    def combinations(self) -> DataFrame:
        """A row for each slice, block of users and combination of grades; NaN is no grade."""
        users, keys = self._users, [_KEPT, *self._slices]
        sliced = self._sliced(self._items())
        counted = sql.aggregate(
            sliced,
            [*users, *keys, *self._grades],
            call("count", sql.number(1)).alias(_N_ITEMS),
            *(call("sum", named(name)).alias(name) for name in (_N_ROWS, _N_INVALID)),
        )
        user_keys = list(map(named, (*users, *keys)))
        # For each pair of judges, and last for any two, whether an item has a grade of both.
        have_both = [
            sql.all_of(named(self._grades[place]).is_not_null() for place in pair)
            for pair in pairs_of(len(self.judges))
        ]
        is_first = sql.over(call("row_number"), user_keys, map(named, self._grades)) == 1
        once = {
            name: sql.when(is_first, sql.over(call("max", sql.when(has_both, 1, 0)), user_keys), 0)
            for name, has_both in zip(self._pair_columns(), [*have_both, sql.any_of(have_both)], strict=True)
        }
        types = self.source.user_types
        block = call("pmod", sql.user_hash(map(named, users), types), N_BLOCKS).cast("bigint")
        marked = sql.with_columns(counted, {**once, _BLOCK: block})
        sums = [_N_ITEMS, _N_ROWS, _N_INVALID, *self._pair_columns()]
        rows = sql.aggregate(
            marked,
            [_BLOCK, *keys, *self._grades],
            *(call("sum", named(name)).cast("bigint").alias(name) for name in sums),
        )
        grades = [call("coalesce", named(name), math.nan).alias(name) for name in self._grades]
        return sql.select(rows, *map(named, (_BLOCK, *keys, *sums)), *grades)

    def _items(self) -> DataFrame:
        """One row per user and item, with how many rows they have. The rows of a user are in one partition."""
        source, frame = self.source, self.source.frame
        grades = [_grade(name).alias(alias) for name, alias in zip(self.judges, self._grades, strict=True)]
        values = [
            sql.name_in_sql(frame, name).alias(alias) for name, alias in zip(self.attributes, self._slices, strict=True)
        ]
        ids = [*source.named_users_sql(), source.ids_sql().alias(_ITEM)]
        rows = sql.select(frame, *ids, *grades, *values).repartition(*self._users)
        # Repeated items are refused, so it does not matter which of their grades is read.
        first = [call("min", named(name)).alias(name) for name in (*self._grades, *self._slices)]
        return sql.aggregate(rows, [*self._users, _ITEM], call("count", sql.number(1)).alias(_N_ROWS), *first)

    def _sliced(self, items: DataFrame) -> DataFrame:
        """A row for each item and each slice that it is in: all labels, and those with its values of the attributes."""
        lacks_id = sql.any_of(named(name).is_null() for name in (*self._users, _ITEM))
        items = sql.with_columns(items, {_N_INVALID: sql.when(lacks_id, named(_N_ROWS), 0)})
        n, nothing = len(self.attributes), sql.null_of(T.StringType())
        parts = []
        for key in rollup(n, totals=self.totals)(tuple(range(n))):
            kept = [place for place in range(n) if key[place] is not ALL_VALUES]
            values = [
                (named(name) if place in kept else nothing).alias(name) for place, name in enumerate(self._slices)
            ]
            parts.append(call("struct", sql.number(sum(1 << place for place in kept)).alias(_KEPT), *values))
        counts = list(map(named, (*self._users, *self._grades, _N_ROWS, _N_INVALID)))
        exploded = sql.select(items, *counts, call("explode", call("array", *parts)).alias(_PART))
        return sql.select(exploded, *counts, *(named(_PART).field(name).alias(name) for name in (_KEPT, *self._slices)))


def _grade(name: str) -> Sql:
    """A judge's grade as a double; null if there is none."""
    value = named(name).cast("double")
    # -0.0 becomes 0.0, which it equals.
    return sql.when(~call("isnan", value), value + 0.0)


@dataclass(frozen=True, repr=False)
class JudgeAgreement(Verdicts[judge_rows.JudgePair], Sliced, Plain):
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

    rows: tuple[judge_rows.JudgePair, ...]
    alphas: tuple[judge_rows.JudgesAlpha, ...]
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

    def __getitem__(self, names: tuple[str, ...]) -> judge_rows.JudgePair:
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
        grades = pd.Index(self.grades)
        counts = self[judge, other, slice].confusion
        return pd.DataFrame(counts, index=grades.rename(judge), columns=grades.rename(other))

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

    def _document(self, slices: Sequence[str], *more: Note) -> Document:
        rows = [row for row in self.rows if row.slice in slices]
        tables = judge_rows.agreement_tables(rows, [row for row in self.alphas if row.slice in slices])
        has_room = judge_rows.fits_on_page(self.grades)
        pairs = [row for row in rows if has_room and row.slice == "all" and row.n_items]
        confusions = (judge_rows.confusion_table(row, [f"{grade:g}" for grade in self.grades]) for row in pairs)
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
    check_level(level)
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
        for judge, other in counts[key].pairs:
            figures = vars(counts[key].pair_figures(judge, other, level))
            rows.append(judge_rows.JudgePair(**figures, slice=name, judge=judges[judge], other=judges[other]))
        alphas.append(judge_rows.JudgesAlpha(name, judges, measurement, *counts[key].alpha(level, measurement)))
    return JudgeAgreement(tuple(rows), tuple(alphas), tuple(next(iter(counts.values())).scale.tolist()))


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
    names = ColumnNames.read(ScoringOptions(user=user, item=item))
    problems: list[str] = []
    source = read_source("labels", labels, names, problems)
    if source.arrays:
        problems.append(
            f"labels must have a row for each user and item; {source.item!r} is an array. Explode it with F.explode"
        )
    columns = [require_column("labels", labels, name, "judges", problems) for name in judges]
    judge_columns = tuple(column for column in columns if column is not None)
    twice = [name for name in dict.fromkeys(judge_columns) if judge_columns.count(name) > 1]
    problems += [f"judges names the column {name!r} twice" for name in twice]
    for name in dict.fromkeys(judge_columns):
        kind = source.frame.schema[name].dataType
        if name in (*source.user, source.item):
            problems.append(f"judges: {name!r} identifies users or items; name the columns of grades")
        elif not isinstance(kind, T.NumericType | T.BooleanType):
            problems.append(
                f"labels: the grades of judge {name!r} must be numbers; they are {kind.simpleString()}. Cast them"
            )
    slices = [require_column("labels", labels, name, "by", problems) for name in attributes]
    if problems:
        raise InputError("; ".join(problems))
    attribute_columns = tuple(column for column in slices if column is not None)
    sql.check_types(labels, attribute_columns, "slice", "labels")
    return JudgedLabels(source, judge_columns, attribute_columns, totals=isinstance(by, Cube))
