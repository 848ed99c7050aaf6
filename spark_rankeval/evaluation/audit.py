"""Audit tables before an evaluation: what is counted, examples of it, and what to do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.checks import check_name, check_table, one_of
from spark_rankeval.errors import DataError, InputError, listed
from spark_rankeval.evaluation.result import RowsInTable
from spark_rankeval.printed_tables import Document, Note, OneTable, Plain
from spark_rankeval.records import quality
from spark_rankeval.records.quality import AUDIT
from spark_rankeval.report.contents import Gate
from spark_rankeval.request.call import ColumnNames, OnInvalid, ScoringOptions, Table, Vectors
from spark_rankeval.spark import engine, source_tables, sql
from spark_rankeval.spark import tables as spark_tables
from spark_rankeval.spark.local_tables import takes_local_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row


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
        sources: the tables by their roles: labels, and training, predictions and the catalogue if there are any.
        model: the column of predictions that names the model.
        times: the time column of each table that has one and needs it.
        types: the types under which users, items and times of all tables compare, by our names of these columns.
        lacking: why there is no such thing, for each thing that checks need and that is lacking.
    """

    sources: Mapping[source_tables.Role, source_tables.SourceTable]
    model: str | None
    times: Mapping[source_tables.Role, str]
    types: Mapping[str, T.DataType]
    lacking: Mapping[quality.Need, str]

    @property
    def named(self) -> source_tables.SourceTable:
        """The table whose names of columns examples show."""
        return self.sources.get("training", self.sources["labels"])

    def why_not(self, needs: Iterable[quality.Need]) -> str:
        """Why a check with these needs cannot be made; empty if it can."""
        return next((self.lacking[need] for need in needs if need in self.lacking), "")


def _counts(tables: AuditTables) -> dict[str, Row]:
    """How many there are of what each check counts, and of what it counts among, with examples; of everything that the tables allow."""
    users = list(tables.named.user_names)
    rows = {role: _rows(tables, source) for role, source in tables.sources.items()}
    valid = {role: frame.where(F.col(_IS_VALID)) for role, frame in rows.items()}
    counted = _flagged(tables, users, valid) | {role: (frame, ()) for role, frame in valid.items()}
    counted |= {f"invalid {role}": (frame.where(~F.col(_IS_VALID)), ()) for role, frame in rows.items()}
    queries = [_counted(name, *found, tables.types) for name, found in counted.items()]
    return {row[_NAME]: row for row in reduce(lambda one, other: one.union(other), queries).collect()}


def _rows(tables: AuditTables, source: source_tables.SourceTable) -> DataFrame:
    """A row for each user and item of a table, under our names and the common types, and whether nothing in it is missing."""
    items = source.ids_sql()
    entry = sql.call("explode", sql.usable(items, T.ArrayType(source.item_type))) if source.arrays else items
    columns = source.named_users_sql()
    kinds = {name: tables.types[name] for name in (*source.user_names, _ITEM)}
    if source.role in tables.times:
        columns.append(sql.named(tables.times[source.role]).alias(_TIME))
        kinds[_TIME] = tables.types[_TIME]
    if source.role == "predictions" and tables.model is not None:
        columns.append(sql.named(tables.model).alias(_MODEL))
        kinds[_MODEL] = source.frame.schema[tables.model].dataType
    frame = sql.select(source.frame, *columns, entry.alias(_ITEM))
    present = [sql.named(name).is_not_null() for name in kinds]
    present += [~sql.call("isnan", sql.named(name)) for name, kind in kinds.items() if isinstance(kind, _FLOATING)]
    typed = {name: sql.named(name).cast(kind) for name, kind in kinds.items()}
    # -0.0 becomes 0.0, which it equals.
    typed |= {
        name: typed[name] + sql.number(0.0).cast(kind) for name, kind in kinds.items() if isinstance(kind, _FLOATING)
    }
    return sql.select(
        frame, *(value.alias(name) for name, value in typed.items()), sql.all_of(present).alias(_IS_VALID)
    )


# What is checked alike of labels and of predictions: who and what training has, what repeats, and what the catalogue lacks. The last two
# are what checks count among.
_FLAGS: Mapping[source_tables.Role, tuple[str, ...]] = {
    "labels": (
        "labels_in_training", "repeated_labels", "cold_label_users", "cold_label_items", "labels_outside_items",
        "users with labels", "labelled items",
    ),
    "predictions": (
        "recommended_in_training", "repeated_predictions", "cold_recommended_users", "cold_recommended_items", "recommended_outside_items",
        "users with predictions", "recommended items",
    ),
}  # fmt: skip


def _flagged(
    tables: AuditTables, users: list[str], rows: Mapping[source_tables.Role, DataFrame]
) -> dict[str, tuple[DataFrame, tuple[str, ...]]]:
    """The flagged rows of each check, with the columns that an example shows: the users' first, or the item's; and all users and items."""
    labels, pair = rows["labels"], (*users, _ITEM)
    flagged: dict[str, tuple[DataFrame, tuple[str, ...]]] = {}
    for role, (in_training, repeated, cold_users, cold_items, outside_items, every_user, every_item) in _FLAGS.items():
        if role not in rows:
            continue
        table = rows[role]
        keys = (*pair, *(name for name in table.columns if name == _MODEL))
        flagged[repeated] = _repeated(table, keys), pair
        flagged[every_user] = table.select(*users).distinct(), ()
        flagged[every_item] = table.select(_ITEM).distinct(), ()
        if "training" in rows:
            known = {keys: rows["training"].select(*keys).distinct() for keys in (pair, tuple(users), (_ITEM,))}
            flagged[in_training] = table.join(known[pair], [*pair], "left_semi"), pair
            for cold, every, ids in ((cold_users, every_user, tuple(users)), (cold_items, every_item, (_ITEM,))):
                flagged[cold] = flagged[every][0].join(known[ids], [*ids], "left_anti"), ids
        if "items" in rows:
            # Whom a label is of is worth knowing, too.
            flagged[outside_items] = (
                table.join(rows["items"], [_ITEM], "left_anti"),
                pair if role == "labels" else (_ITEM,),
            )
    if tables.times:
        training, timed, is_early = rows["training"], (*pair, _TIME), F.col(_TIME) < F.col(_END)
        last = F.max(_TIME).alias(_END)
        of_user = labels.join(training.groupBy(*users).agg(last), users)
        flagged["labels_before_training_end"] = engine.broadcast_row(labels, training.agg(last)).where(is_early), timed
        flagged["labels_before_user_end"] = of_user.where(is_early), timed
    if "predictions" in rows:
        listed_items, _ = flagged["recommended items"]
        flagged["labels_never_recommended"] = labels.join(listed_items, [_ITEM], "left_anti"), (_ITEM,)
        if "training" in rows:
            seen_items = rows["training"].select(_ITEM).union(labels.select(_ITEM)).distinct()
            flagged["recommended_never_seen"] = rows["predictions"].join(seen_items, [_ITEM], "left_anti"), (_ITEM,)
    if "predictions" in tables.times:
        events = rows["training"].select(_ITEM, _TIME).union(labels.select(_ITEM, _TIME))
        first = events.groupBy(_ITEM).agg(F.min(_TIME).alias(_FIRST))
        early = rows["predictions"].join(first, [_ITEM]).where(F.col(_TIME) < F.col(_FIRST))
        flagged["recommended_before_first_event"] = early, (_ITEM,)
    return flagged


def _repeated(rows: DataFrame, keys: Iterable[str]) -> DataFrame:
    """What is there several times, with how often beyond the first time."""
    return rows.groupBy(*keys).agg((F.count(F.lit(1)) - 1).alias(_N)).where(F.col(_N) > 0)


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
    return sql.select(
        row, sql.text(name).alias(_NAME), sql.named(_N), *(_shown(example, kinds) for example in _EXAMPLES)
    )


def _shown(example: str, kinds: Mapping[str, T.DataType]) -> sql.Sql:
    """An example as people read it; null if there is none."""
    values = [sql.for_example(sql.field_of(example, name), kind).alias(name) for name, kind in kinds.items()]
    return sql.when(sql.named(example).is_not_null(), sql.call("struct", *values)).alias(example)


@dataclass(frozen=True, repr=False)
class Audit(OneTable, RowsInTable, Plain):
    """The result of `audit`. It prints as a table with a verdict below.

    Examples:
        >>> audited = audit(training, labels)
        >>> audited["cold_label_users"].n, audited["cold_label_users"].of
        (1, 8)
        >>> print(audited.verdict.splitlines()[0])
        Leaked: labels that training also has.

    Attributes:
        rows: the count of each check, those of leaks first.
        invalid: the rows that were left out, by table, if ``on_invalid="drop"`` left out any.
    """

    _columns = AUDIT
    rows: tuple[quality.AuditRow, ...]
    invalid: tuple[quality.InvalidRows, ...] = ()

    def __getitem__(self, name: str) -> quality.AuditRow:
        """The count of a check by its name; `OptionError` if there is no such check."""
        quality.check_names([name], "no check is called")
        return next(row for row in self.rows if row.name == name)

    @property
    def n_invalid(self) -> dict[str, int]:
        """How many rows of each table were left out; no table whose rows can all be used."""
        return {each.table: each.n for each in self.invalid}

    @property
    def leaked(self) -> bool:
        """Whether a check for leaks found any. False does not say that all could be made: see `verdict`."""
        return any(row.result == "leak" for row in self.rows)

    @property
    def verdict(self) -> str:
        """What was found, what it means and what to do: a line for each check that found something, the headline first."""
        return "\n".join(quality.verdict_of(self.rows, self.invalid))

    def check(self, limits: Mapping[str, float]) -> list[Gate]:
        """Compare shares with limits: a gate for each limit, which `Result.report` shows and a job makes its exit code of.

        A check that was not made fails, because its share is unknown.

        Examples:
            >>> [(gate.name, gate.found, gate.passed) for gate in audit(training, labels).check({"cold_label_users": 0.1})]
            [('users with labels but without training rows', '12.5% (1 of 8)', False)]

        Args:
            limits: the largest share that passes, from 0 to 1, by the name of the check.

        Raises:
            OptionError: there is no such check, or a limit is not such a share.
        """
        quality.check_limits(limits)
        return [_gate(self[name], limit) for name, limit in limits.items()]

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """The counts as plain values by the names of checks, without examples; a share that is undefined is None.

        ``n_invalid`` has the rows that were left out, by table: how many, of how many, and why.
        """
        invalid = {each.table: {"n": each.n, "of": each.of, "reason": each.reason} for each in self.invalid}
        return {**{row.name: _plain(row) for row in self.rows}, "n_invalid": invalid}

    def _records(self) -> Iterator[dict[str, Any]]:
        for row in self.rows:
            yield {
                **_plain(row),
                "share": row.share,
                "examples": "; ".join(map(quality.example_in_words, row.examples)),
            }

    def _on_paper(self) -> Document:
        return Document(
            (quality.audit_table(self.rows),), tuple(map(Note, quality.verdict_of(self.rows, self.invalid)))
        )


def _plain(row: quality.AuditRow) -> dict[str, Any]:
    return {
        "check": row.name,
        "result": row.result,
        "n": row.n,
        "of": row.of,
        "share": None if math.isnan(row.share) else row.share,
        "not_checked": row.not_checked,
    }


def _gate(row: quality.AuditRow, limit: float) -> Gate:
    finding = (
        f"not checked: {row.not_checked}" if row.not_checked else f"{100 * row.share:.3g}% ({row.n:,} of {row.of:,})"
    )
    # 3 of 100 meets a limit of 0.03, which is less than 3 / 100 in binary fractions.
    passed = not row.not_checked and row.n <= Fraction(repr(float(limit))) * row.of
    return Gate(row.check.words, f"share at most {limit:.6g}", finding, passed)


#: The time column that is looked for if the caller names none.
DEFAULT_TIME = "timestamp"
# What checks need that may lack, and what is said then.
_LACKING: Mapping[Literal["training", "predictions", "items"], str] = {
    "training": "there is no training data (training=)",
    "predictions": "there are no predictions (predictions=)",
    "items": "there is no catalogue (items=)",
}
_TIMES = (T.NumericType, T.DateType, T.TimestampType, T.TimestampNTZType)


def read_audited(
    training: DataFrame | None,
    labels: DataFrame,
    predictions: DataFrame | None,
    items: DataFrame | None,
    *,
    time: str | None,
    user: str | Sequence[str],
    item: str | tuple[str, str],
    model: str | None,
) -> AuditTables:
    """Find and check the columns of all tables, before any job; an `InputError` names all offenders at once."""
    check_name("time", time)
    if isinstance(predictions, Mapping):
        msg = "predictions must be one table; audit each model by itself, or pass a table of all of them with model="
        raise InputError(msg)
    if isinstance(predictions, Vectors):
        msg = "predictions must be a table of lists; got Vectors. Pass top_items(vectors, k)"
        raise InputError(msg)
    given: dict[source_tables.Role, Any] = {
        "training": training, "labels": labels, "predictions": predictions, "items": items,
    }  # fmt: skip
    lacking: dict[quality.Need, str] = {need: words for need, words in _LACKING.items() if given[need] is None}
    frames = {role: frame for role, frame in given.items() if role not in lacking}
    for role, frame in frames.items():
        check_table(role, frame)
    names = ColumnNames.read(ScoringOptions(user=user, item=item, model=model))
    problems: list[str] = []
    sources = {
        role: source_tables.read_source(role, frame, names, problems, are_ranked=False)
        for role, frame in frames.items()
    }
    if not problems:
        source_tables.check_comparable(sources.get("training", sources["labels"]), sources.values(), problems)
    if model is not None and predictions is None:
        problems.append("model= names a column of predictions, and there are none; leave it out")
    model_column = None if predictions is None else spark_tables.model_column(predictions, model, problems)
    times, lacking_times = _times(sources, time, problems)
    if problems:
        raise InputError("; ".join(dict.fromkeys(problems)))
    user_types = zip(*(each.user_types for each in sources.values() if each.user), strict=True)
    types = {source_tables.user_column(index): _common(kinds) for index, kinds in enumerate(user_types)}
    types[_ITEM] = _common([each.item_type for each in sources.values()])
    types[_TIME] = _common([_time_type(sources[role], name) for role, name in times.items()] or [T.TimestampType()])
    return AuditTables(sources, model_column, times, types, lacking | lacking_times)


def _times(
    sources: Mapping[source_tables.Role, source_tables.SourceTable], time: str | None, problems: list[str]
) -> tuple[dict[source_tables.Role, str], dict[quality.Need, str]]:
    """The time columns of the tables, and why checks of times cannot be made."""
    if time is None or "training" not in sources:
        return {}, {"time": "no time column was named (time=)"}
    times: dict[source_tables.Role, str] = {}
    missing = []
    for role in ("training", "labels"):
        column = _time_column(sources[role], time, problems, is_required=time != DEFAULT_TIME)
        if column is None:
            missing.append(role)
        else:
            times[role] = column
    if missing:
        has = "has" if len(missing) == 1 else "have"
        return {}, {"time": f"{listed(missing)} {has} no column {time!r} (time=)"}
    lacking: dict[quality.Need, str] = {}
    if "predictions" in sources:
        column = _time_column(sources["predictions"], time, problems, is_required=False)
        if column is None:
            lacking["since"] = f"predictions has no column {time!r} (time=), the time of the prediction"
        else:
            times["predictions"] = column
    kinds = {role: _time_type(sources[role], name) for role, name in times.items()}
    problems += [
        f"times have different types: {times['training']!r} is {kinds['training'].simpleString()} in training and "
        f"{kind.simpleString()} in {role}. Cast one of them"
        for role, kind in kinds.items()
        if sql.common_id_type(kinds["training"], kind) is None
    ]
    return times, lacking


def _time_column(source: source_tables.SourceTable, time: str, problems: list[str], *, is_required: bool) -> str | None:
    """The time column of a table; None if there is none."""
    if not is_required and time.lower() not in map(str.lower, source.frame.columns):
        return None
    column = source_tables.require_column(source.role, source.frame, time, "time", problems)
    if column is not None and not isinstance(kind := _time_type(source, column), _TIMES):
        problems.append(
            f"{source.role}: the time column {column!r} must be a date, a timestamp or a number; it is "
            f"{kind.simpleString()}. Cast it, such as with to_timestamp, or pass time=None"
        )
    return column


def _time_type(source: source_tables.SourceTable, name: str) -> T.DataType:
    return source.frame.schema[name].dataType


def _common(kinds: Iterable[T.DataType]) -> T.DataType:
    """The type of all; what does not compare was refused."""
    return reduce(lambda one, other: sql.common_id_type(one, other) or one, kinds)


@takes_local_tables
def audit(
    training: Table | None,
    labels: Table,
    predictions: Table | None = None,
    *,
    time: str | None = DEFAULT_TIME,
    items: Table | None = None,
    user: str | Sequence[str] = "user",
    item: str | tuple[str, str] = "item",
    model: str | None = None,
    on_invalid: str | Mapping[str, str] = "error",
) -> Audit:
    """Count what leaked from labels into training, and what else in the tables makes figures wrong, in one Spark action.

    Each check counts rows, users or items, gives their share and up to three examples. Checks that need a table or a column that there is
    not say so, and are not made. Rows count each time that they are there. A time counts as before another only if it is smaller, so rows
    of one day are not before one another.

    Examples:
        >>> audited = audit(training, labels, predictions)
        >>> audited["recommended_in_training"].n, round(audited["recommended_in_training"].share, 3)
        (8, 0.333)
        >>> audited["labels_before_training_end"].not_checked
        "training and labels have no column 'timestamp' (time=)"

    Args:
        training: the rows of users and items that the model has learned from. None: checks of training are not made.
        labels: the rows, or arrays, that predictions are evaluated against.
        predictions: the rows, or arrays, that were recommended. Neither scores nor ranks are needed. None: checks of predictions are
            not made.
        time: the column of times: a date, a timestamp or a number, of one type in all tables. In predictions it is the time of the
            prediction, and optional. None, or if no table has the default: checks of times are not made.
        items: the catalogue: all items that could be recommended, a row each. None: checks of the catalogue are not made.
        user: the column that identifies a user, or a list of columns that do so together.
        item: the column of items; or two, that of predictions, training and items, and that of labels.
        model: the column of predictions that names the model, if there are several. All of them are counted together.
        on_invalid: "error" refuses rows with a null or NaN user, item, model or time; "drop" leaves them out, and `Audit.invalid`
            counts them. A dict by kind, as in `evaluate`, chooses for predictions (``invalid_predictions``), labels (``invalid_labels``),
            and training and items (``invalid_facts``).

    Raises:
        InputError, OptionError: an argument is not valid; no job has run.
        DataError: rows cannot be used, or a table has no row that can.
    """
    if not isinstance(on_invalid, Mapping):
        one_of("on_invalid", on_invalid, ("error", "drop"))
    choices = OnInvalid.read(on_invalid)
    inputs = read_audited(training, labels, predictions, items, time=time, user=user, item=item, model=model)
    counts = _counts(inputs)
    n_invalid = {role: counts[f"invalid {role}"][_N] for role in inputs.sources}
    invalid = tuple(
        quality.InvalidRows(role, n, n + counts[role][_N], f"a null or NaN {_parts(inputs, role)}")
        for role, n in n_invalid.items()
        if n
    )
    kinds = {"training": "invalid_facts", "items": "invalid_facts"}
    if refused := [
        each for each in invalid if getattr(choices, kinds.get(each.table, f"invalid_{each.table}")) == "error"
    ]:
        words = "; ".join(f"rows of {each.table} with {each.reason}: {each.n:,} of {each.of:,}" for each in refused)
        msg = f"{words}. Fix the data, or pass on_invalid='drop' to leave these out and count them"
        raise DataError(msg, {f"n_invalid_{each.table}": each.n for each in refused})
    if empty := [role for role in inputs.sources if not counts[role][_N]]:
        has = "has" if len(empty) == 1 else "have"
        usable = " that can be used" if any(n_invalid[role] for role in empty) else ""
        msg = f"{listed(empty)} {has} no rows{usable}, so there is nothing to compare; check that the tables are the right ones"
        raise DataError(msg, {f"n_{role}": 0 for role in empty})
    return Audit(tuple(_row(check, inputs, counts) for check in quality.CHECKS), invalid)


def _parts(tables: AuditTables, role: source_tables.Role) -> str:
    """What a row of a table needs, in words."""
    parts = ["item"] if role == "items" else ["user", "item"]
    if role in tables.times:
        parts.append(f"time ({tables.times[role]!r})")
    if role == "predictions" and tables.model is not None:
        parts.append(f"model ({tables.model!r})")
    if any(isinstance(kind, _FLOATING) for name, kind in tables.types.items() if name != _TIME):
        parts.append("an id that floating point rounds")
    return " or ".join(parts)


def _row(check: quality.AuditCheck, tables: AuditTables, counts: Mapping[str, Row]) -> quality.AuditRow:
    reason = tables.why_not(check.needs)
    if reason:
        return quality.AuditRow(check.name, 0, 0, not_checked=reason)
    counted = counts[check.name]
    # Rows that checks count have no null.
    names = {**tables.named.user_names, _ITEM: tables.named.item, _TIME: tables.times.get("labels", _TIME)}
    examples = tuple(
        {names[column]: value for column, value in counted[example].asDict().items() if value is not None}
        for example in _EXAMPLES
        if counted[example] is not None
    )
    return quality.AuditRow(check.name, counted[_N], counts[check.of][_N], examples)
