"""What an audit counts, and examples of it, in one action.

Two looks at the rows meet in one row of counts. One brings the rows of each user together as arrays, which are compared as sets. The other
groups rows by item. An example is the flagged user or item with the smallest hash, so it does not depend on partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import types as T

from spark_rankeval.records.audit_rows import Need
from spark_rankeval.spark.ids import for_example, usable
from spark_rankeval.spark.source import WITHOUT_USERS, Role, SourceTable, user_column
from spark_rankeval.spark.sql_text import (
    Sql,
    aggregate,
    aggregate_lists,
    all_of,
    call,
    field_of,
    function_of,
    named,
    null_of,
    number,
    over,
    select,
    union,
    when,
    where,
    with_columns,
)
from spark_rankeval.spark.tasks import broadcast_row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_ITEM, _TIME, _MODEL, _IS_VALID = "item", "time", "model", "is_valid"
# A user's arrays: the items of training; labels; the items of predictions; and how many of these repeat an item of their list.
_TRAINED, _LABELS, _RECOMMENDED, _REPEATED, _REPEATED_ITEM = (
    "known",
    "asked",
    "recommended",
    "repeated",
    "repeated_item",
)
# Of each part of the hashes, what has the smallest one is an example.
_N_PARTS = 3
_HASH = "hash"
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
    rows = {source.role: _rows(tables, source) for source in tables.sources()}
    user_counts, item_counts = _user_counts(tables, users, rows), _item_counts(tables, rows)
    together = item_counts.counts.crossJoin(user_counts.counts.hint("broadcast"))
    examples = {**user_counts.examples, **item_counts.examples}
    sizes = (*user_counts.sizes, *item_counts.sizes)
    kinds = {user_column(index): kind for index, kind in enumerate(tables.user_types)}
    kinds |= {_ITEM: tables.item_type, _TIME: tables.time_type}
    shown = [
        _shown(column, {name: kinds[name] for name in names})
        for check_examples in examples.values()
        for column, names in check_examples.items()
    ]
    (row,) = select(together, *map(named, (*examples, *sizes)), *shown).collect()
    return Counts(
        {
            check: AuditFinding(
                row[check] or 0, tuple(row[column].asDict() for column in check_examples if row[column] is not None)
            )
            for check, check_examples in examples.items()
        },
        {name: row[name] or 0 for name in sizes},
        {source.role: row[f"invalid_{source.role}"] or 0 for source in tables.sources()},
    )


def _shown(example: str, kinds: Mapping[str, T.DataType]) -> Sql:
    """An example as people read it; null if there is none."""
    values = [for_example(field_of(example, name), kind).alias(name) for name, kind in kinds.items()]
    return when(named(example).is_not_null(), call("struct", *values)).alias(example)


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


def _tally(condition: Sql) -> Sql:
    """How many rows meet a condition."""
    return call("count", when(condition, 1))


def _user_counts(tables: AuditTables, users: list[str], rows: Mapping[Role, DataFrame]) -> _Counted:
    """The counts that need the rows of a user beside one another."""
    grouped = _grouped(tables, users, rows)
    trained, labelled, item, kind = named(_TRAINED), named(_LABELS), (*users, _ITEM), tables.item_type
    items = field_of(_LABELS, _ITEM) if tables.times else labelled
    is_cold = call("size", trained) == 0
    flags = {
        "labels_in_training": _Flag(_n_shared(items, trained, kind), item, {_ITEM: _first_shared(items, trained)}),
        "repeated_labels": _Flag(_n_repeated(items), item, {_ITEM: _first_repeated(items, tables.item_type)}),
        "cold_label_users": _Flag(when(is_cold & (call("size", labelled) > 0), 1, 0), tuple(users)),
    }
    sizes = {"label_users": _tally(call("size", labelled) > 0)}
    if tables.times:
        timed = (*item, _TIME)
        ends = {"labels_before_training_end": "training_end", "labels_before_user_end": "user_end"}
        for check, end in ends.items():
            early = call("filter", labelled, function_of(["label"], field_of("label", _TIME) < named(end)))
            first = {name: call("array_min", early).field(name) for name in (_ITEM, _TIME)}
            flags[check] = _Flag(call("size", early), timed, first)
    if tables.predictions is not None:
        listed = named(_RECOMMENDED)
        is_listed = call("size", listed) > 0
        flags |= {
            "recommended_in_training": _Flag(
                _n_shared(listed, trained, kind), item, {_ITEM: _first_shared(listed, trained)}
            ),
            "repeated_predictions": _repeated_predictions(tables, item),
            "cold_recommended_users": _Flag(when(is_cold & is_listed, 1, 0), tuple(users)),
        }
        sizes["recommended_users"] = _tally(is_listed)
    return _counted(grouped, users, flags, sizes)


def _grouped(tables: AuditTables, users: list[str], rows: Mapping[Role, DataFrame]) -> DataFrame:
    """One row per user: arrays of the user's entries in training, labels and predictions, and the ends of training."""
    has_times = bool(tables.times)
    usable = {role: where(frame, named(_IS_VALID)) for role, frame in rows.items()}
    item, by = named(_ITEM), [named(name) for name in users]
    times = [named(_TIME).alias("trained")] if has_times else []
    label = call("struct", item.alias(_ITEM), named(_TIME).alias(_TIME)) if has_times else item
    together = union(
        select(usable["training"], *by, item.alias(_TRAINED), *times),
        select(usable["labels"], *by, label.alias(_LABELS)),
    )
    collected = {name: call("collect_list", named(name)) for name in (_TRAINED, _LABELS)}
    if has_times:
        collected["user_end"] = call("max", named("trained"))
    if tables.predictions is not None:
        listed = _lists(tables, users, usable["predictions"])
        together = union(together, listed)
        collected[_RECOMMENDED] = call("collect_list", named(_RECOMMENDED))
        if tables.model is not None:
            collected[_RECOMMENDED] = call("flatten", collected[_RECOMMENDED])
            collected[_REPEATED] = call("coalesce", call("sum", named(_REPEATED)), 0)
            collected[_REPEATED_ITEM] = call("min", named(_REPEATED_ITEM))
    grouped = aggregate_lists(together, users, *(value.alias(name) for name, value in collected.items()))
    if has_times:
        end = aggregate(usable["training"], [], call("max", named(_TIME)).alias("training_end"))
        grouped = broadcast_row(grouped, end)
    return grouped


def _lists(tables: AuditTables, users: list[str], predictions: DataFrame) -> DataFrame:
    """The recommended items of users, a row each; if there are models, an array for each of them, and what repeats in it."""
    by, item = [named(name) for name in users], named(_ITEM)
    if tables.model is None:
        return select(predictions, *by, item.alias(_RECOMMENDED))
    listed = aggregate_lists(predictions, [*users, _MODEL], call("collect_list", item).alias(_RECOMMENDED))
    items = named(_RECOMMENDED)
    repeated = _n_repeated(items).alias(_REPEATED)
    first = when(_n_repeated(items) > 0, _first_repeated(items, tables.item_type)).alias(_REPEATED_ITEM)
    return select(listed, *by, items, repeated, first)


def _repeated_predictions(tables: AuditTables, columns: tuple[str, ...]) -> _Flag:
    if tables.model is not None:
        return _Flag(named(_REPEATED), columns, {_ITEM: named(_REPEATED_ITEM)})
    items = named(_RECOMMENDED)
    return _Flag(_n_repeated(items), columns, {_ITEM: _first_repeated(items, tables.item_type)})


def _n_repeated(items: Sql) -> Sql:
    """How many entries of an array are there for another time."""
    return call("size", items) - call("size", call("array_distinct", items))


def _first_shared(items: Sql, trained: Sql) -> Sql:
    return call("array_min", call("array_intersect", items, trained))


def _first_repeated(items: Sql, kind: T.DataType) -> Sql:
    """The least entry that an array has twice: the first, in order, that equals the one before."""
    seen, entry = named("seen"), named("entry")
    first, last = seen.field("repeated"), seen.field("last")
    start = call("struct", null_of(kind).alias("last"), null_of(kind).alias("repeated"))
    repeats = call("struct", entry.alias("last"), entry.alias("repeated"))
    next_state = call("struct", entry.alias("last"), first.alias("repeated"))
    step = when(first.is_null() & (last == entry), repeats, next_state)
    return call(
        "aggregate",
        call("sort_array", items),
        start,
        function_of(["seen", "entry"], step),
        function_of(["seen"], first),
    )


def _n_shared(items: Sql, trained: Sql, kind: T.DataType) -> Sql:
    """How many entries of an array another one has, each time that they are there.

    Arrays meet as sets. Only if an entry repeats, the shared ones are sorted among all, each before its own repetitions.
    """
    shared, entry, total = call("array_intersect", items, trained), named("entry"), named("total")

    def marked(array: Sql, *, is_item: bool) -> Sql:
        entry_and_mark = call("struct", entry.alias(_ITEM), number(is_item).alias("is_asked"))
        return call("transform", array, function_of(["entry"], entry_and_mark))

    ordered = call("sort_array", call("concat", marked(shared, is_item=False), marked(items, is_item=True)))
    item, n = total.field(_ITEM), total.field("n")
    comes_next = call("struct", entry.field(_ITEM).alias(_ITEM), n.alias("n"))
    one_more = call("struct", item.alias(_ITEM), (n + 1).alias("n"))
    step = when(~entry.field("is_asked"), comes_next, when(entry.field(_ITEM) == item, one_more, total))
    start = call("struct", null_of(kind).alias(_ITEM), number(0).alias("n"))
    each_time = call("aggregate", ordered, start, function_of(["total", "entry"], step), function_of(["total"], n))
    return when(_n_repeated(items) > 0, each_time, call("size", shared))


def _item_counts(tables: AuditTables, rows: Mapping[Role, DataFrame]) -> _Counted:
    """The counts that need the rows of an item together."""
    is_valid, has_since = named(_IS_VALID), "predictions" in tables.times
    first = [call("min", when(is_valid, named(_TIME))).alias("first")] if has_since else []
    trained = [_tally(is_valid).alias("training"), _tally(~is_valid).alias("invalid_training")]
    together = aggregate(rows["training"], [_ITEM], *trained, *first)
    counted = ["training", "invalid_training"]
    for role in ("labels", "predictions", "items"):
        if role not in rows:
            continue
        counted += [role, f"invalid_{role}"]
        # Each table is added up by itself first, because sums of few columns are fast.
        columns = [_tally(is_valid).alias(role), _tally(~is_valid).alias(f"invalid_{role}")]
        frame, keys = rows[role], [_ITEM]
        if role == "predictions" and has_since:
            frame, keys = with_columns(frame, {"since": when(is_valid, named(_TIME))}), [_ITEM, "since"]
        elif role == "labels":
            columns += first
        together = union(together, aggregate(frame, keys, *columns))
    sums = [call("coalesce", call("sum", named(name)), 0).alias(name) for name in counted]
    if has_since:
        # A row for each time of prediction, beside which stands the first time of the item.
        together = aggregate(together, [_ITEM, "since"], *sums, call("min", named("first")).alias("first"))
        together = with_columns(together, {"first": over(call("min", named("first")), [named(_ITEM)])})
        early = call("sum", when(named("since") < named("first"), named("predictions"), 0))
        sums.append(early.alias("early"))
    items = aggregate(together, [_ITEM], *sums)
    labels, is_cold = named("labels"), named("training") == 0
    conditions = {"cold_label_items": ((labels > 0) & is_cold, number(1))}
    sizes = {"label_items": _tally(labels > 0)}
    if tables.items is not None:
        conditions["labels_outside_items"] = (named("items") == 0, labels)
    if tables.predictions is not None:
        predictions = named("predictions")
        conditions["cold_recommended_items"] = ((predictions > 0) & is_cold, number(1))
        conditions["recommended_never_seen"] = (is_cold & (labels == 0), predictions)
        conditions["labels_never_recommended"] = (predictions == 0, labels)
        sizes["recommended_items"] = _tally(predictions > 0)
        if tables.items is not None:
            conditions["recommended_outside_items"] = (named("items") == 0, predictions)
    if has_since:
        conditions["recommended_before_first_event"] = (number(True), named("early"))
    sizes |= {name: call("sum", named(name)) for name in counted}
    flags = {check: _Flag(when(condition, n, 0), (_ITEM,)) for check, (condition, n) in conditions.items()}
    return _counted(items, [_ITEM], flags, sizes)


class _Flag(NamedTuple):
    """How many cases of a check a row has. An example shows `columns`; `values` are those that are not the row's own."""

    n: Sql
    columns: tuple[str, ...]
    values: Mapping[str, Sql] = MappingProxyType({})


class _Counted(NamedTuple):
    """A table of one row with the counts of some checks and their examples."""

    counts: DataFrame
    sizes: tuple[str, ...]
    examples: Mapping[
        str, Mapping[str, tuple[str, ...]]
    ]  # of each check, the columns with examples and what these hold


def _counted(frame: DataFrame, by: list[str], flags: Mapping[str, _Flag], sizes: Mapping[str, Sql]) -> _Counted:
    """One row of the counts, and of each check the flagged row with the smallest hash in each part of the hashes."""
    counts = {check: flag.n for check, flag in flags.items()}
    hashed = with_columns(frame, {**counts, _HASH: call("xxhash64", *map(named, by))})
    value, values = named(_HASH), []
    for check, flag in flags.items():
        columns = [flag.values.get(name, named(name)).alias(name) for name in flag.columns]
        example = call("struct", value.alias(_HASH), *columns)
        for place in range(_N_PARTS):
            is_flagged = (named(check) > 0) & (call("pmod", value, _N_PARTS) == place)
            values.append(call("min", when(is_flagged, example)).alias(_example(check, place)))
    sums = [call("sum", named(check)).alias(check) for check in flags]
    row = aggregate(hashed, [], *(size.alias(name) for name, size in sizes.items()), *sums, *values)
    examples = {check: dict.fromkeys(_examples(check), flag.columns) for check, flag in flags.items()}
    return _Counted(row, tuple(sizes), examples)


def _example(check: str, place: int) -> str:
    return f"{check}_{place}"


def _examples(check: str) -> list[str]:
    return [_example(check, place) for place in range(_N_PARTS)]
