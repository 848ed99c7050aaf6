"""Who has no answer, by a column of the caller's tables or a table of users."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from spark_rankeval.features.no_answer.worker import NO_ANSWER, NoAnswer
from spark_rankeval.request.column_names import ColumnNames
from spark_rankeval.request.options import Table
from spark_rankeval.request.task import Feature
from spark_rankeval.spark.grouped_features import MarkedUsers, SourceFeature
from spark_rankeval.spark.source import SourceTable, read_source
from spark_rankeval.spark.sql_text import (
    Sql,
    all_of,
    any_of,
    call,
    find_column,
    named,
    number,
    rows_of_all,
    select,
    where,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class NoAnswerSources(SourceFeature):
    """The tables that declare who has no answer."""

    marked: tuple[MarkedUsers, ...]
    takes_one_table: bool  # whether a column declares it, which one table of arrays can have

    def tables(self) -> list[SourceTable]:
        """Those whose users are to compare with those of predictions."""
        return [marked.source for marked in self.marked]

    def marked_users(self) -> tuple[MarkedUsers, ...]:
        """The users."""
        return self.marked

    def for_workers(self) -> tuple[Feature]:
        """What makes metrics know of them."""
        return (NoAnswer(),)


@dataclass(frozen=True)
class NoAnswerOption:
    """What a caller says of users without an answer, with the tables where a column is looked for, in this order."""

    option: str | Table | None = None
    holders: Sequence[Sequence[DataFrame]] = ()  # a holder may be several tables, one for each model

    def frames(self) -> dict[str, DataFrame | None]:
        """The table, if the caller passes one."""
        return {} if isinstance(self.option, str) else {"no_answer": self.option}

    def read(self, names: ColumnNames, problems: list[str]) -> NoAnswerSources | None:
        """The tables with their columns; what is wrong is added to the problems. None: nothing is said."""
        if self.option is None:
            return None
        if not isinstance(self.option, str):
            source = read_source("no_answer", self.option, names, problems)
            return NoAnswerSources((MarkedUsers(NO_ANSWER, source, self.option, number(True)),), takes_one_table=False)
        holders = [[frame for frame in frames if find_column(frame, self.option)] for frames in self.holders]
        frames = next(filter(None, holders), [])
        if not frames:
            there = "; ".join(", ".join(frame.columns) for frames in self.holders for frame in frames)
            problems.append(
                f"no table has the column {self.option!r} (no_answer=); available: {there}. Pass a column of booleans, or a table of the "
                "users who have no answer"
            )
        marked = [each for frame in frames if (each := _marked_by(self.option, frame, names, problems)) is not None]
        return NoAnswerSources(tuple(marked), takes_one_table=True)


def users_with_answer(marked: Iterable[MarkedUsers], labels: SourceTable, threshold: float | None) -> DataFrame:
    """The users who are declared to have no answer and have a relevant label; labels are rows."""
    grades = [value.cast("double") for value in labels.values_sql()[: len(labels.grades)]]
    is_relevant = (
        any_of(grade > 0 if threshold is None else grade >= threshold for grade in grades) if grades else number(True)
    )
    answered = select(where(labels.frame, is_relevant), *labels.named_users_sql())
    declared = rows_of_all(select(each.source.frame, *each.source.named_users_sql()) for each in marked)
    return answered.join(declared, answered.columns, "left_semi")


def _marked_by(name: str, frame: DataFrame, names: ColumnNames, problems: list[str]) -> MarkedUsers | None:
    """The users for whom a column is true. Rows without a user are counted where the table itself is read."""
    column = str(find_column(frame, name))
    kind = frame.schema[column].dataType
    if not isinstance(kind, T.BooleanType):
        problems.append(
            f"no_answer={name!r} must be a column of booleans; it is {kind.simpleString()}. Write a condition, such as "
            "F.col('n_answers') == 0"
        )
        return None
    is_marked: Sql = call("coalesce", named(column), number(False))
    source = read_source("no_answer", frame, names, problems)
    has_user = all_of(user.is_not_null() for user in source.users_sql()) if source.user else number(True)
    rows = where(frame, is_marked & has_user)
    return MarkedUsers(NO_ANSWER, replace(source, frame=rows), frame, is_marked)
