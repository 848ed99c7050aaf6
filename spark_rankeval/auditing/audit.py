"""Audit an evaluation: what of the answer was in training, and what the tables do not know of one another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from spark_rankeval.auditing.counting import count
from spark_rankeval.auditing.reading import DEFAULT_TIME, read_tables
from spark_rankeval.auditing.result import Audit
from spark_rankeval.checks import one_of
from spark_rankeval.errors import DataError
from spark_rankeval.records.audit import CHECKS, AuditRow, InvalidRows
from spark_rankeval.request.on_invalid import OnInvalid
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.source import user_column
from spark_rankeval.wording import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_rankeval.auditing.counting import Counts
    from spark_rankeval.auditing.reading import AuditTables
    from spark_rankeval.request.options import Table
    from spark_rankeval.spark.source import Role

# What the things that a check counts among are called in the counts.
_SIZE_OF = {
    "labels": "labels",
    "predictions": "predictions",
    "users with labels": "label_users",
    "users with predictions": "recommended_users",
    "labelled items": "label_items",
    "recommended items": "recommended_items",
}
# The kind of `OnInvalid` that the rows of a table are.
_KIND_OF: Mapping[str, str] = {
    "training": "invalid_facts",
    "labels": "invalid_labels",
    "predictions": "invalid_predictions",
    "items": "invalid_facts",
}


@takes_local_tables
def audit(
    training: Table,
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
        training: the rows of users and items that the model has learned from.
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
    tables = read_tables(training, labels, predictions, items, time=time, user=user, item=item, model=model)
    counts = count(tables)
    invalid = tuple(
        InvalidRows(role, n, n + counts.sizes[role], f"a null or NaN {_parts(tables, role)}")
        for role, n in counts.n_invalid.items()
        if n
    )
    _raise_if_invalid([each for each in invalid if getattr(choices, _KIND_OF[each.table]) == "error"])
    _raise_if_empty(tables, counts)
    return Audit(tuple(_row(check.name, tables, counts) for check in CHECKS), invalid)


def _raise_if_invalid(refused: Sequence[InvalidRows]) -> None:
    if refused:
        words = "; ".join(f"rows of {each.table} with {each.reason}: {each.n:,} of {each.of:,}" for each in refused)
        msg = f"{words}. Fix the data, or pass on_invalid='drop' to leave these out and count them"
        raise DataError(msg, {f"n_invalid_{each.table}": each.n for each in refused})


def _raise_if_empty(tables: AuditTables, counts: Counts) -> None:
    empty = [source.role for source in tables.sources() if not counts.sizes[source.role]]
    if empty:
        has = "has" if len(empty) == 1 else "have"
        usable = " that can be used" if any(counts.n_invalid[role] for role in empty) else ""
        msg = f"{listed(empty)} {has} no rows{usable}, so there is nothing to compare; check that the tables are the right ones"
        raise DataError(msg, {f"n_{role}": 0 for role in empty})


def _parts(tables: AuditTables, role: Role) -> str:
    """What a row of a table needs, in words."""
    parts = ["item"] if role == "items" else ["user", "item"]
    parts += [f"time ({name!r})" for table, name in tables.times.items() if table == role]
    if role == "predictions" and tables.model is not None:
        parts.append(f"model ({tables.model!r})")
    if any(isinstance(kind, T.FloatType | T.DoubleType) for kind in (*tables.user_types, tables.item_type)):
        parts.append("an id that floating point rounds")
    return " or ".join(parts)


def _row(name: str, tables: AuditTables, counts: Counts) -> AuditRow:
    check = next(check for check in CHECKS if check.name == name)
    reason = tables.why_not(check.needs)
    if reason:
        return AuditRow(name, 0, 0, not_checked=reason)
    found = counts.findings[name]
    names = _shown_names(tables)
    examples = tuple({names[column]: value for column, value in example.items()} for example in found.examples)
    return AuditRow(name, found.n, counts.sizes[_SIZE_OF[check.of]], examples)


def _shown_names(tables: AuditTables) -> dict[str, str]:
    """The caller's names of our columns: those of training."""
    users = {user_column(index): name for index, name in enumerate(tables.training.user)}
    return {**users, "item": tables.training.item, "time": tables.times.get("labels", "time")}
