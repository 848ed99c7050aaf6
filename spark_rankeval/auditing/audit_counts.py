"""What an audit counts, and examples of it, in one action.

Each check is a query of its own, which gives the rows that are flagged. An example is the flagged user or item with the smallest hash. So
it does not depend on partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.records.audit_rows import Need
from spark_rankeval.spark.ids import for_example, usable
from spark_rankeval.spark.source import WITHOUT_USERS, Role, SourceTable, user_column
from spark_rankeval.spark.sql_text import Sql, all_of, call, field_of, named, number, select, text, when
from spark_rankeval.spark.tasks import broadcast_row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_ITEM, _TIME, _MODEL, _IS_VALID = "item", "time", "model", "is_valid"
# How often a flagged row counts, and the end or the beginning that times are compared with.
_N, _END, _FIRST = "n", "end", "first"
# Of each third of the hashes, what has the smallest one is an example.
_NAME, _EXAMPLES = "name", ("example_0", "example_1", "example_2")
_FLOATING = (T.FloatType, T.DoubleType)


@dataclass(frozen=True)
class AuditTables:
    """The tables of an audit, and what its columns become on the way.

    Attributes:
        training: rows of users and items.
        labels: rows or arrays.
        predictions: rows or arrays; None if there are none.
        items: the catalogue; None if there is none.
        model: the column of predictions that names the model.
        times: the time column of each table that has one and needs it.
        user_types: the type under which each column of the user compares.
        item_type: that of the items.
        time_type: that of the times.
        lacking: why there is no such thing, for each thing that checks need and that is lacking.
    """

    training: SourceTable
    labels: SourceTable
    predictions: SourceTable | None
    items: SourceTable | None
    model: str | None
    times: Mapping[Role, str]
    user_types: tuple[T.DataType, ...]
    item_type: T.DataType
    time_type: T.DataType
    lacking: Mapping[Need, str]

    def sources(self) -> list[SourceTable]:
        """Every table that there is."""
        return [each for each in (self.training, self.labels, self.predictions, self.items) if each is not None]

    def why_not(self, needs: Iterable[Need]) -> str:
        """Why a check with these needs cannot be made; empty if it can."""
        return next((self.lacking[need] for need in needs if need in self.lacking), "")


class AuditFinding(NamedTuple):
    """How many there are of something, and up to three examples by our names of columns."""

    n: int
    examples: tuple[Mapping[str, Any], ...] = ()


class Counts(NamedTuple):
    """The counts of an audit: by the names of checks, and the sizes of tables by their roles and as ``label_users`` and so on."""

    findings: Mapping[str, AuditFinding]
    sizes: Mapping[str, int]
    n_invalid: Mapping[Role, int]


def count(tables: AuditTables) -> Counts:
    """Count everything that the tables allow."""
    users = [user_column(index) for index in range(len(tables.user_types))]
    kinds = dict(zip(users, tables.user_types, strict=True)) | {_ITEM: tables.item_type, _TIME: tables.time_type}
    rows = {source.role: _rows(tables, source) for source in tables.sources()}
    valid = {role: frame.where(F.col(_IS_VALID)) for role, frame in rows.items()}
    flagged = _flagged(tables, users, valid)
    queries = [_counted(check, *found, kinds) for check, found in flagged.items()]
    queries += [_counted(name, frame, (), kinds) for name, frame in _sizes(users, rows, valid)]
    by_name = {row[_NAME]: row for row in reduce(lambda one, other: one.union(other), queries).collect()}
    findings = {}
    for check, (_, columns) in flagged.items():
        examples = [by_name[check][name] for name in _EXAMPLES]
        shown = tuple({name: example[name] for name in columns} for example in examples if example is not None)
        findings[check] = AuditFinding(by_name[check][_N], shown)
    sizes = {name: row[_N] for name, row in by_name.items() if name not in findings}
    return Counts(findings, sizes, {role: sizes[f"invalid_{role}"] for role in rows})


def _rows(tables: AuditTables, source: SourceTable) -> DataFrame:
    """A row for each user and item of a table, under our names and the common types, and whether nothing in it is missing."""
    ids = source.ids_sql()
    frame = source.frame
    users = [] if source.role in WITHOUT_USERS else source.users_sql()
    user_names = {user_column(index): name for index, name in enumerate(users)}
    kinds = {user_column(index): kind for index, kind in enumerate(tables.user_types) if users}
    kinds |= {_ITEM: tables.item_type}
    if source.role in tables.times:
        user_names[_TIME] = named(tables.times[source.role])
        kinds[_TIME] = tables.time_type
    if source.role == "predictions" and tables.model is not None:
        user_names[_MODEL] = named(tables.model)
        kinds[_MODEL] = frame.schema[tables.model].dataType
    entry = call("explode", usable(ids, T.ArrayType(source.item_type))) if source.arrays else ids
    frame = select(frame, *(value.alias(name) for name, value in user_names.items()), entry.alias(_ITEM))
    present = [named(name).is_not_null() for name in kinds]
    present += [~call("isnan", named(name)) for name, kind in kinds.items() if isinstance(kind, _FLOATING)]
    # -0.0 becomes 0.0, which it equals.
    typed = {
        name: named(name).cast(kind) + number(0.0).cast(kind) if isinstance(kind, _FLOATING) else named(name).cast(kind)
        for name, kind in kinds.items()
    }
    return select(frame, *(value.alias(name) for name, value in typed.items()), all_of(present).alias(_IS_VALID))


def _flagged(
    tables: AuditTables, users: list[str], rows: Mapping[Role, DataFrame]
) -> dict[str, tuple[DataFrame, tuple[str, ...]]]:
    """The flagged rows of each check, and the columns that an example shows: the users' come first, or the item's."""
    training, labels, pair = rows["training"], rows["labels"], (*users, _ITEM)
    pairs, trained_users, trained_items = (training.select(*keys).distinct() for keys in (pair, users, [_ITEM]))
    flagged = {
        "labels_in_training": (labels.join(pairs, [*pair], "left_semi"), pair),
        "repeated_labels": (_repeated(labels, pair), pair),
        "cold_label_users": (labels.select(*users).distinct().join(trained_users, users, "left_anti"), tuple(users)),
        "cold_label_items": (labels.select(_ITEM).distinct().join(trained_items, [_ITEM], "left_anti"), (_ITEM,)),
    }
    if tables.times:
        timed, is_early = (*pair, _TIME), F.col(_TIME) < F.col(_END)
        last = F.max(_TIME).alias(_END)
        of_user = labels.join(training.groupBy(*users).agg(last), users)
        flagged["labels_before_training_end"] = broadcast_row(labels, training.agg(last)).where(is_early), timed
        flagged["labels_before_user_end"] = of_user.where(is_early), timed
    catalogue = rows.get("items")
    if catalogue is not None:
        flagged["labels_outside_items"] = labels.join(catalogue, [_ITEM], "left_anti"), (_ITEM,)
    if (listed := rows.get("predictions")) is None:
        return flagged
    models = [] if tables.model is None else [_MODEL]
    listed_items = listed.select(_ITEM).distinct()
    seen_items = training.select(_ITEM).union(labels.select(_ITEM)).distinct()
    flagged |= {
        "recommended_in_training": (listed.join(pairs, [*pair], "left_semi"), pair),
        "repeated_predictions": (_repeated(listed, (*pair, *models)), pair),
        "cold_recommended_users": (
            listed.select(*users).distinct().join(trained_users, users, "left_anti"),
            tuple(users),
        ),
        "cold_recommended_items": (listed_items.join(trained_items, [_ITEM], "left_anti"), (_ITEM,)),
        "recommended_never_seen": (listed.join(seen_items, [_ITEM], "left_anti"), (_ITEM,)),
        "labels_never_recommended": (labels.join(listed_items, [_ITEM], "left_anti"), (_ITEM,)),
    }
    if catalogue is not None:
        flagged["recommended_outside_items"] = listed.join(catalogue, [_ITEM], "left_anti"), (_ITEM,)
    if "predictions" in tables.times:
        events = training.select(_ITEM, _TIME).union(labels.select(_ITEM, _TIME))
        first = events.groupBy(_ITEM).agg(F.min(_TIME).alias(_FIRST))
        early = listed.join(first, [_ITEM]).where(F.col(_TIME) < F.col(_FIRST))
        flagged["recommended_before_first_event"] = early, (_ITEM,)
    return flagged


def _repeated(rows: DataFrame, keys: Iterable[str]) -> DataFrame:
    """What is there several times, with how often beyond the first time."""
    return rows.groupBy(*keys).agg((F.count(F.lit(1)) - 1).alias(_N)).where(F.col(_N) > 0)


def _sizes(
    users: list[str], rows: Mapping[Role, DataFrame], valid: Mapping[Role, DataFrame]
) -> Iterator[tuple[str, DataFrame]]:
    """The rows of each table, those that cannot be used, and the users and items that checks count among."""
    for role, frame in rows.items():
        yield role, valid[role]
        yield f"invalid_{role}", frame.where(~F.col(_IS_VALID))
    for role, prefix in (("labels", "label"), ("predictions", "recommended")):
        if role in valid:
            yield f"{prefix}_users", valid[role].select(*users).distinct()
            yield f"{prefix}_items", valid[role].select(_ITEM).distinct()


def _counted(name: str, rows: DataFrame, columns: tuple[str, ...], kinds: Mapping[str, T.DataType]) -> DataFrame:
    """One row: a name, how many rows there are, and examples, which show some columns."""
    by = [key for key in columns if key not in (_ITEM, _TIME)] or [*columns]
    hashed = F.xxhash64(*by) if by else F.lit(0)
    values = [F.col(key) if key in columns else F.lit(None).cast(kind).alias(key) for key, kind in kinds.items()]
    examples = [
        F.min(F.when(F.pmod(hashed, F.lit(len(_EXAMPLES))) == place, F.struct(hashed.alias("hash"), *values))).alias(
            example
        )
        for place, example in enumerate(_EXAMPLES)
    ]
    n = F.sum(_N) if _N in rows.columns else F.count(F.lit(1))
    row = rows.agg(F.coalesce(n, F.lit(0)).alias(_N), *examples)
    return select(row, text(name).alias(_NAME), named(_N), *(_shown(example, kinds) for example in _EXAMPLES))


def _shown(example: str, kinds: Mapping[str, T.DataType]) -> Sql:
    """An example as people read it; null if there is none."""
    values = [for_example(field_of(example, name), kind).alias(name) for name, kind in kinds.items()]
    return when(named(example).is_not_null(), call("struct", *values)).alias(example)
