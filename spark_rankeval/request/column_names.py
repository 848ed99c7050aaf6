"""The names of columns that a caller passes, and of attributes of users, checked before any table is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from spark_rankeval.errors import InputError
from spark_rankeval.ranking.lists import LABEL_COLUMNS
from spark_rankeval.request.counts import WEIGHTS
from spark_rankeval.request.options import Judged, ScoringOptions, attributes_in, grade_columns

DEFAULT_ITEM = "item"
#: What Spark's RankingEvaluator calls the two array columns of its one table.
_ONE_TABLE_ITEMS = ("prediction", "label")


@dataclass(frozen=True)
class ColumnNames:
    """The names that the caller gave."""

    user: tuple[str, ...]  # the columns that make a user; none for one table of arrays without ids of users
    item: tuple[str, str]  # the column of items in predictions and in labels
    score: str | None = None  # column or field of scores
    rank: str | None = None  # column of ranks
    relevance: tuple[str, ...] = ()  # columns or fields of grades; none if labels have none
    model: str | None = None  # the column of predictions that names the model
    # Columns or fields of what labels have beside their grades, by name; see `LABEL_COLUMNS`.
    label_columns: Mapping[str, str] = field(default_factory=dict)
    cost: str | None = None  # column or field of predictions with what items cost

    def extra(self, role: str) -> Mapping[str, str]:
        """The columns that a table has beside scores or grades, by their names in `EXTRA_COLUMNS`."""
        if role == "labels":
            return self.label_columns
        return {"cost": self.cost} if role == "predictions" and self.cost is not None else {}

    @property
    def single_items(self) -> tuple[str, ...]:
        """The names that a column of single items may have, best first: those of both tables, or of a field of their arrays."""
        return (*self.item, *(name.rpartition(".")[2] for name in self.item))

    @classmethod
    def read(cls, options: ScoringOptions, *, one_table: bool) -> ColumnNames:
        """Names as a caller gives them: one item column for both tables, or one for each; one table has two arrays."""
        item = _ONE_TABLE_ITEMS if one_table and options.item == DEFAULT_ITEM else options.item
        users = () if options.user is None else _as_names(options.user, "user")
        # A list could also be the columns that make an item together.
        items: tuple[str, ...] = (item, item) if isinstance(item, str) else item if isinstance(item, tuple) else ()
        relevance = grade_columns(options.relevance)
        grades = () if relevance is None else _as_names(relevance, "relevance")
        label_columns = {name: getattr(options, name) for name in LABEL_COLUMNS if getattr(options, name) is not None}
        problems = []
        if options.relevance is not None and not grades:
            problems.append("relevance must name at least one column, or be None")
        if item is None:
            problems.append(
                "item=None is for one table of users, scores and labels: evaluate(table, None, …, item=None, score=…, relevance=…). Name "
                "the column of items"
            )
        elif len(items) != 2:
            words = "If an item has several columns, join them in one, as with concat_ws"
            problems.append(
                f"item must be one column, or a tuple of two (of predictions and of labels); got {item!r}. {words}"
            )
        if one_table and len(set(items)) == 1:
            problems.append(
                f"labels=None needs one table with two columns of arrays, item=(predictions, labels); got item={item!r}. If each row is a "
                "user and an item, pass score= or rank=, and relevance=; if no column has items, item=None"
            )
        if options.user is None and not one_table:
            problems.append("user=None is for one table of arrays; with two tables name the column that joins them")
        if options.user is not None and not users:
            problems.append("user must name at least one column")
        problems += [
            f"column names must be strings; got {name!r} ({type(name).__name__})"
            for name in (
                *users,
                *items,
                options.score,
                options.rank,
                *grades,
                options.model,
                options.cost,
                *label_columns.values(),
            )
            if name is not None and not isinstance(name, str)
        ]
        if not problems and len(set(users)) < len(users):
            problems.append(f"user names a column twice: {list(users)}")
        if not problems and len(set(grades)) < len(grades):
            problems.append(f"relevance names a column twice: {list(grades)}")
        problems += [
            f"{name}={column!r} is also the name of a column of users, items or grades; give each its own column"
            for name, column in {**label_columns, "cost": options.cost}.items()
            if isinstance(column, str) and column in (*users, *items, *grades)
        ]
        if problems:
            raise InputError("; ".join(problems))
        return cls(
            users, (items[0], items[1]), options.score, options.rank, grades, options.model, label_columns, options.cost
        )


def _as_names(value: object, option: str) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, tuple | list) and all(isinstance(name, str) for name in value):
        return tuple(value)
    msg = f"{option} must be a column name or a list of column names; got {value!r}"
    raise InputError(msg)


class AttributeNames(NamedTuple):
    """The attributes of users that a caller asks for."""

    by: tuple[str, ...] = ()  # those that divide users into slices
    weight: str | None = None  # the users' weight
    cluster: tuple[str, ...] = ()  # those that make users a cluster
    user_clusters: tuple[str, ...] = ()  # the same, of the columns of the user
    weight_count: str | None = None  # the count of the per-user table that is the users' weight, if no column is
    judged: Judged | None = None  # the two judges, if the grades are theirs

    @classmethod
    def from_options(cls, options: ScoringOptions) -> AttributeNames:
        """Those that a call names."""
        counted = options.user_weight if options.user_weight in WEIGHTS else None
        weight = None if counted else options.user_weight
        return cls(attributes_in(options.by), weight, options.clusters or (), (), counted, options.judged)

    def with_user_clusters(self, users: tuple[str, ...]) -> AttributeNames:
        """The same, with the columns of the user taken out of those that make a cluster."""
        user_names = [name.lower() for name in users]
        user_clusters = tuple(name for name in self.cluster if name.lower() in user_names)
        return self._replace(
            cluster=tuple(name for name in self.cluster if name not in user_clusters), user_clusters=user_clusters
        )

    @property
    def judge_columns(self) -> dict[str, str]:
        """The columns that say which users people graded, by their options, which name the columns of grouped rows, too."""
        if self.judged is None:
            return {}
        judged = self.judged
        columns = {"probability": judged.probability, "graded": judged.graded, "stratum": judged.stratum}
        return {name: column for name, column in columns.items() if column is not None}

    @property
    def all(self) -> tuple[str, ...]:
        """All that some table must have beside the user."""
        return (*self.by, *([] if self.weight is None else [self.weight]), *self.cluster, *self.judge_columns.values())

    def words(self) -> str:
        """The options as the caller wrote them."""
        words = [f"by={list(self.by)}"] if self.by else []
        words += [] if self.weight is None else [f"user_weight={self.weight!r}"]
        words += [f"{name}={column!r}" for name, column in self.judge_columns.items()]
        return ", ".join(words + ([f"cluster={list(self.cluster)}"] if self.cluster else []))
