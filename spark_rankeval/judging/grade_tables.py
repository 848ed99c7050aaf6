"""How often each combination of the judges' grades occurs in a table of labels, in one action.

Labels meet by user, and all that follows needs no other shuffle of them: items that stand there twice, slices, and users that count once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import types as T

from spark_rankeval.errors import DataError
from spark_rankeval.records.slices import ALL_VALUES, Key, rollup
from spark_rankeval.spark.engine import collected_columns
from spark_rankeval.spark.source_tables import SourceTable, user_column
from spark_rankeval.spark.sql import (
    Sql,
    aggregate,
    all_of,
    any_of,
    call,
    example_of,
    name_in_sql,
    named,
    null_of,
    number,
    over,
    select,
    user_hash,
    when,
    where,
    with_columns,
)
from spark_rankeval.statistics.bootstrap import N_BLOCKS
from spark_rankeval.statistics.grade_agreement import GradeCounts, pairs_of
from spark_rankeval.worker.comparing import slice_field

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
        return [user_column(index) for index in range(len(self.source.user))]

    @property
    def _grades(self) -> list[str]:
        return [f"grade_{index}" for index in range(len(self.judges))]

    @property
    def _slices(self) -> list[str]:
        return [slice_field(index) for index in range(len(self.attributes))]

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
        rows = select(self.source.frame, *self.source.named_users_sql(), self.source.ids_sql().alias(_ITEM))
        twice = where(aggregate(rows, rows.columns, call("count", number(1)).alias(_N_ROWS)), named(_N_ROWS) > 1)
        return example_of(twice.orderBy(*rows.columns), self.source.user_names | {_ITEM: self.source.item})

    def _pair_columns(self) -> list[str]:
        """The columns that count users: one for each pair of judges, and one for any two."""
        return [f"n_users_{place}" for place in range(len(pairs_of(len(self.judges))) + 1)]

    def combinations(self) -> DataFrame:
        """A row for each slice, block of users and combination of grades; NaN is no grade."""
        users, keys = self._users, [_KEPT, *self._slices]
        sliced = self._sliced(self._items())
        counted = aggregate(
            sliced,
            [*users, *keys, *self._grades],
            call("count", number(1)).alias(_N_ITEMS),
            *(call("sum", named(name)).alias(name) for name in (_N_ROWS, _N_INVALID)),
        )
        user_keys = list(map(named, (*users, *keys)))
        is_first = over(call("row_number"), user_keys, map(named, self._grades)) == 1
        once = {
            name: when(is_first, over(call("max", when(has_both, 1, 0)), user_keys), 0)
            for name, has_both in zip(self._pair_columns(), self._have_grades(), strict=True)
        }
        types = self.source.user_types
        block = call("pmod", user_hash(map(named, users), types), N_BLOCKS).cast("bigint")
        marked = with_columns(counted, {**once, _BLOCK: block})
        sums = [_N_ITEMS, _N_ROWS, _N_INVALID, *self._pair_columns()]
        rows = aggregate(
            marked,
            [_BLOCK, *keys, *self._grades],
            *(call("sum", named(name)).cast("bigint").alias(name) for name in sums),
        )
        grades = [call("coalesce", named(name), math.nan).alias(name) for name in self._grades]
        return select(rows, *map(named, (_BLOCK, *keys, *sums)), *grades)

    def _items(self) -> DataFrame:
        """One row per user and item, with how many rows they have. The rows of a user are in one partition."""
        source, frame = self.source, self.source.frame
        grades = [_grade(name).alias(alias) for name, alias in zip(self.judges, self._grades, strict=True)]
        values = [
            name_in_sql(frame, name).alias(alias) for name, alias in zip(self.attributes, self._slices, strict=True)
        ]
        ids = [*source.named_users_sql(), source.ids_sql().alias(_ITEM)]
        rows = select(frame, *ids, *grades, *values).repartition(*self._users)
        # Repeated items are refused, so it does not matter which of their grades is read.
        first = [call("min", named(name)).alias(name) for name in (*self._grades, *self._slices)]
        return aggregate(rows, [*self._users, _ITEM], call("count", number(1)).alias(_N_ROWS), *first)

    def _sliced(self, items: DataFrame) -> DataFrame:
        """A row for each item and each slice that it is in: all labels, and those with its values of the attributes."""
        lacks_id = any_of(named(name).is_null() for name in (*self._users, _ITEM))
        items = with_columns(items, {_N_INVALID: when(lacks_id, named(_N_ROWS), 0)})
        places = range(len(self.attributes))
        parts = []
        for key in rollup(len(self.attributes), totals=self.totals)(tuple(places)):
            kept = [place for place in places if key[place] is not ALL_VALUES]
            values = [
                (named(name) if place in kept else null_of(T.StringType())).alias(name)
                for place, name in enumerate(self._slices)
            ]
            parts.append(call("struct", number(sum(1 << place for place in kept)).alias(_KEPT), *values))
        counts = list(map(named, (*self._users, *self._grades, _N_ROWS, _N_INVALID)))
        exploded = select(items, *counts, call("explode", call("array", *parts)).alias(_PART))
        return select(exploded, *counts, *(named(_PART).field(name).alias(name) for name in (_KEPT, *self._slices)))

    def _have_grades(self) -> list[Sql]:
        """For each pair of judges, and last for any two, whether an item has a grade of both."""
        pairs = [
            all_of(named(self._grades[place]).is_not_null() for place in pair) for pair in pairs_of(len(self.judges))
        ]
        return [*pairs, any_of(pairs)]


def _grade(name: str) -> Sql:
    """A judge's grade as a double; null if there is none."""
    value = named(name).cast("double")
    # -0.0 becomes 0.0, which it equals.
    return when(~call("isnan", value), value + 0.0)
