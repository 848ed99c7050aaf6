"""What an audit counts, in one action, and examples of it, in another.

Two looks at the rows meet in one row of counts. One sorts the rows of each user, so that training stands before labels and predictions of
the same item. The other groups rows by item. Both give hashes of examples, because numbers are all that Spark's compiled aggregates hold.
What has these hashes is then read from labels and predictions, without a shuffle of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.spark.ids import for_example
from spark_rankeval.spark.source import WITHOUT_USERS, user_column
from spark_rankeval.spark.sql_text import (
    aggregate,
    all_of,
    call,
    named,
    number,
    over,
    select,
    when,
    where,
    with_columns,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame, Row

    from spark_rankeval.auditing.reading import AuditTables
    from spark_rankeval.spark.source import Role, Source
    from spark_rankeval.spark.sql_text import Sql

_ITEM, _TABLE, _TIME, _MODEL, _IS_VALID, _PART = "item", "table_of_row", "time", "model", "is_valid", "part"
# In this order the rows of a user and item are sorted: training first.
_TRAINING, _LABELS, _PREDICTIONS = range(3)
# Of each part, what has the smallest hash is an example.
_N_PARTS = 3
_HASH = "hash"
_UP_TO_HERE = "ROWS UNBOUNDED PRECEDING"


class Finding(NamedTuple):
    """How many there are of something, and up to three examples by our names of columns."""

    n: int
    examples: tuple[Mapping[str, Any], ...] = ()


class Counts(NamedTuple):
    """The counts of an audit: by the names of checks, and the sizes of tables by their roles and as ``label_users`` and so on."""

    findings: Mapping[str, Finding]
    sizes: Mapping[str, int]
    n_invalid: Mapping[str, int]


def count(tables: AuditTables) -> Counts:
    """Count everything that the tables allow, and read examples of what was counted."""
    users = [user_column(index) for index in range(len(tables.user_types))]
    rows = {source.role: _rows(tables, source) for source in tables.sources()}
    training = _items_of_training(rows["training"], timed=bool(tables.times))
    end = aggregate(training, [], call("max", named("last")).alias("training_end")) if tables.times else None
    of_users, of_items = _of_users(tables, users, rows, end), _of_items(tables, rows, training)
    (row,) = of_items.counts.crossJoin(of_users.counts.hint("broadcast")).collect()
    hashes = {**of_users.hashes(row), **of_items.hashes(row)}
    found = _examples(tables, rows, hashes.values())
    return Counts(
        {
            check: Finding(row[check] or 0, tuple(found[each] for each in of_check if each in found))
            for check, of_check in hashes.items()
        },
        {name: row[name] or 0 for name in (*of_users.sizes, *of_items.sizes)},
        {source.role: row[f"invalid_{source.role}"] or 0 for source in tables.sources()},
    )


class _Hash(NamedTuple):
    """The hash of the columns of an example."""

    columns: tuple[str, ...]
    value: int


class _Counted(NamedTuple):
    """A table of one row with the counts of some checks and the hashes of their examples."""

    counts: DataFrame
    sizes: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]]  # the columns of the examples of each check

    def hashes(self, row: Row) -> dict[str, list[_Hash]]:
        """The hashes of the examples of each check in the row."""
        return {
            check: [
                _Hash(names, value) for part in range(_N_PARTS) if (value := row[_example(check, part)]) is not None
            ]
            for check, names in self.columns.items()
        }


def _example(check: str, part: int) -> str:
    return f"{check}_{part}"


def _examples(
    tables: AuditTables, rows: Mapping[Role, DataFrame], hashes: Iterable[Iterable[_Hash]]
) -> dict[_Hash, dict[str, Any]]:
    """What has these hashes. Among a billion rows, something else has one of them with a probability below one in a hundred million."""
    by_columns: dict[tuple[str, ...], set[int]] = {}
    for each in (each for of_check in hashes for each in of_check):
        by_columns.setdefault(each.columns, set()).add(each.value)
    if not by_columns:
        return {}
    asked = _together(rows, {"labels": _LABELS, "predictions": _PREDICTIONS})
    parts = []
    for number_of_part, (names, values) in enumerate(by_columns.items()):
        hashed = with_columns(select(asked, *map(named, names)), {_HASH: call("xxhash64", *map(named, names))})
        parts.append(
            hashed.where(F.col(_HASH).isin(sorted(values))).distinct().withColumn(_PART, F.lit(number_of_part))
        )
    together = parts[0]
    for part in parts[1:]:
        together = together.unionByName(part, allowMissingColumns=True)
    kinds = {user_column(index): kind for index, kind in enumerate(tables.user_types)}
    kinds |= {_ITEM: tables.item_type, _TIME: tables.time_type}
    readable = [for_example(named(name), kinds[name]).alias(name) for name in together.columns if name in kinds]
    columns_of = list(by_columns)
    found = {}
    for row in select(together, *readable, named(_HASH), named(_PART)).collect():
        names = columns_of[row[_PART]]
        found[_Hash(names, row[_HASH])] = {name: row[name] for name in names}
    return found


def _rows(tables: AuditTables, source: Source) -> DataFrame:
    """A row for each user and item of a table, under our names and the common types, and whether nothing in it is missing."""
    ids = source.ids_sql()
    frame = source.frame
    users = [] if source.role in WITHOUT_USERS else source.users_sql()
    given = {user_column(index): name for index, name in enumerate(users)}
    if source.role in tables.times:
        given[_TIME] = named(tables.times[source.role])
    if source.role == "predictions" and tables.model is not None:
        given[_MODEL] = named(tables.model)
    entry = call("explode", ids) if source.arrays else ids
    frame = select(frame, *(value.alias(name) for name, value in given.items()), entry.alias(_ITEM))
    kinds = {user_column(index): kind for index, kind in enumerate(tables.user_types) if users}
    kinds |= {_ITEM: tables.item_type}
    if _TIME in given:
        kinds[_TIME] = tables.time_type
    present = [named(name).is_not_null() for name in frame.columns]
    present += [
        ~call("isnan", named(name))
        for name in (_ITEM, _TIME)
        if isinstance(kinds.get(name), T.FloatType | T.DoubleType)
    ]
    typed = [named(name).cast(kind).alias(name) for name, kind in kinds.items()]
    model = [named(_MODEL)] if _MODEL in given else []
    return select(frame, *typed, *model, all_of(present).alias(_IS_VALID))


def _tally(condition: Sql) -> Sql:
    """How many rows meet a condition."""
    return call("count", when(condition, 1))


def _together(rows: Mapping[Role, DataFrame], places: Mapping[Role, int]) -> DataFrame:
    """The usable rows of several tables, with the number of their table."""
    parts = [
        with_columns(where(rows[role], named(_IS_VALID)), {_TABLE: number(place)}).drop(_IS_VALID)
        for role, place in places.items()
        if role in rows
    ]
    together = parts[0]
    for part in parts[1:]:
        together = together.unionByName(part, allowMissingColumns=True)
    return together


def _items_of_training(training: DataFrame, *, timed: bool) -> DataFrame:
    """A row for each item of training: how often it is there, and when first and last. Rows that lack something are counted beside."""
    is_valid = named(_IS_VALID)
    times = [
        call("min", when(is_valid, named(_TIME))).alias("first"),
        call("max", when(is_valid, named(_TIME))).alias("last"),
    ]
    counts = [_tally(is_valid).alias("training"), _tally(~is_valid).alias("invalid_training")]
    return aggregate(training, [_ITEM], *counts, *(times if timed else []))


def _of_users(tables: AuditTables, users: list[str], rows: Mapping[Role, DataFrame], end: DataFrame | None) -> _Counted:
    """The counts that need the rows of a user and item beside one another."""
    order = [_ITEM, _TABLE, *([_MODEL] if tables.model is not None else [])]
    places: dict[Role, int] = {"training": _TRAINING, "labels": _LABELS, "predictions": _PREDICTIONS}
    together = _together(rows, places)
    table, item, time = named(_TABLE), named(_ITEM), named(_TIME)
    is_label, is_prediction = table == _LABELS, table == _PREDICTIONS
    by, ordered = [named(name) for name in users], [named(name) for name in order]
    before = {
        "known_item": over(call("last", when(table == _TRAINING, item), True), by, ordered, frame=_UP_TO_HERE),
        "label_number": over(_tally(is_label), by, ordered, frame=_UP_TO_HERE),
        "prediction_number": over(_tally(is_prediction), by, ordered, frame=_UP_TO_HERE),
        **{f"previous_{name}": over(call("lag", named(name)), by, ordered) for name in order},
    }
    # The rows are sorted once: those above need the finer order, and are computed first.
    whole = {"first_table": over(call("min", table), by)}
    if tables.times:
        whole["user_end"] = over(call("max", when(table == _TRAINING, time)), by)
    sorted_once = with_columns(with_columns(together, before), whole)
    asked = where(sorted_once, table > _TRAINING)
    if end is not None:
        asked = asked.crossJoin(end.hint("broadcast"))
    is_known, is_cold = named("known_item") == item, named("first_table") != _TRAINING
    is_repeated = all_of(named(f"previous_{name}") == named(name) for name in order if name != _MODEL)
    of_same_model = all_of(named(f"previous_{name}") == named(name) for name in order if name == _MODEL)
    first_label = is_label & (named("label_number") == 1)
    first_prediction = is_prediction & (named("prediction_number") == 1)
    pair = (*users, _ITEM)
    flags = {
        "labels_in_training": (is_label & is_known, pair),
        "repeated_labels": (is_label & is_repeated, pair),
        "cold_label_users": (first_label & is_cold, tuple(users)),
    }
    sizes = {"label_users": first_label}
    if tables.times:
        timed = (*pair, _TIME)
        flags["labels_before_training_end"] = (is_label & (time < named("training_end")), timed)
        flags["labels_before_user_end"] = (is_label & (time < named("user_end")), timed)
    if tables.predictions is not None:
        flags["recommended_in_training"] = (is_prediction & is_known, pair)
        flags["repeated_predictions"] = (is_prediction & is_repeated & of_same_model, pair)
        flags["cold_recommended_users"] = (first_prediction & is_cold, tuple(users))
        sizes["recommended_users"] = first_prediction
    counts = {check: _tally(flag) for check, (flag, _) in flags.items()}
    counts |= {name: _tally(flag) for name, flag in sizes.items()}
    return _counted(asked, flags, counts, tuple(sizes))


def _of_items(tables: AuditTables, rows: Mapping[Role, DataFrame], training: DataFrame) -> _Counted:
    """The counts that need the rows of an item together."""
    is_valid, has_since = named(_IS_VALID), "predictions" in tables.times
    together = training.drop("last")
    for role in ("labels", "predictions", "items"):
        if role not in rows:
            continue
        columns = [when(is_valid, 1, 0).alias(role), when(is_valid, 0, 1).alias(f"invalid_{role}")]
        if role in tables.times:
            columns.append(when(is_valid, named(_TIME)).alias("first" if role == "labels" else "since"))
        together = together.unionByName(select(rows[role], named(_ITEM), *columns), allowMissingColumns=True)
    counted = [name for name in together.columns if name not in (_ITEM, "first", "since")]
    first = [call("min", named("first")).alias("first")] if has_since else []
    sums = [call("coalesce", call("sum", named(name)), 0).alias(name) for name in counted]
    if has_since:
        # A row for each time of prediction, beside which stands the first time of the item.
        together = aggregate(together, [_ITEM, "since"], *sums, *first)
        together = with_columns(together, {"first": over(call("min", named("first")), [named(_ITEM)])})
        early = call("sum", when(named("since") < named("first"), named("predictions"), 0))
        sums.append(early.alias("early"))
    items = aggregate(together, [_ITEM], *sums)
    labels, is_cold = named("labels"), named("training") == 0
    item = (_ITEM,)
    flags = {"cold_label_items": ((labels > 0) & is_cold, item)}
    counts = {check: _tally(flag) for check, (flag, _) in flags.items()}
    sizes = {"label_items": _tally(labels > 0)}

    def weigh(check: str, name: str, condition: Sql) -> None:
        """A check that counts the rows of items that meet a condition."""
        flags[check] = (condition & (named(name) > 0), item)
        counts[check] = call("sum", when(condition, named(name), 0))

    if tables.items is not None:
        weigh("labels_outside_items", "labels", named("items") == 0)
    if tables.predictions is not None:
        predictions = named("predictions")
        flags["cold_recommended_items"] = ((predictions > 0) & is_cold, item)
        counts["cold_recommended_items"] = _tally(flags["cold_recommended_items"][0])
        sizes["recommended_items"] = _tally(predictions > 0)
        weigh("labels_never_recommended", "labels", predictions == 0)
        if tables.items is not None:
            weigh("recommended_outside_items", "predictions", named("items") == 0)
    if has_since:
        weigh("recommended_before_first_event", "early", number(True))
    sizes |= {name: call("sum", named(name)) for name in counted}
    return _counted(items, flags, counts | sizes, tuple(sizes))


def _counted(
    frame: DataFrame,
    flags: Mapping[str, tuple[Sql, tuple[str, ...]]],
    counts: Mapping[str, Sql],
    sizes: tuple[str, ...],
) -> _Counted:
    """One row of the counts, and of each check the smallest hash of each part of the rows that it flags."""
    columns = {check: names for check, (_, names) in flags.items()}
    hash_of = {names: f"hash_{place}" for place, names in enumerate(dict.fromkeys(columns.values()))}
    hashed = with_columns(frame, {name: call("xxhash64", *map(named, names)) for names, name in hash_of.items()})
    firsts = [
        call("min", when(flag & (call("pmod", value, _N_PARTS) == place), value)).alias(_example(check, place))
        for check, (flag, names) in flags.items()
        for value in [named(hash_of[names])]
        for place in range(_N_PARTS)
    ]
    row = aggregate(hashed, [], *(value.alias(name) for name, value in counts.items()), *firsts)
    return _Counted(row, sizes, columns)
