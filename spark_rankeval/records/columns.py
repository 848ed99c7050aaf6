"""Rows of tables whose columns are declared once, at the fields of the row: name, type and meaning."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar, get_type_hints, overload

import pandas as pd

from spark_rankeval.errors import OptionError

Value = TypeVar("Value")

#: The columns that tell runs apart, and when they were.
RUN_ID, TIME = "run_id", "time"
# The names of runs, which also name folders and files.
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
#: Types, as Spark's SQL writes them.
TEXT, FIGURE, COUNT, FLAG, MOMENT = "string", "double", "bigint", "boolean", "timestamp"
FIGURES, TEXTS = "map<double,double>", "map<string,string>"
_KINDS = {
    str: TEXT, float: FIGURE, int: COUNT, int | None: COUNT, bool: FLAG, Mapping[float, float]: FIGURES, Mapping[str, str]: TEXTS,
}  # fmt: skip


def check_run(run_id: object, option: str = RUN_ID) -> None:
    """Refuse what is no name of a run."""
    if not (isinstance(run_id, str) and _RUN_NAME.fullmatch(run_id)):
        msg = f"{option} must be up to 100 letters, digits, '.', '_' and '-', and begin with a letter or a digit; got {run_id!r}"
        raise OptionError(msg)


class TableColumn(NamedTuple):
    """A column: its name, its type in Spark's SQL, and its meaning in a line, which catalogues show as a comment."""

    name: str
    kind: str
    meaning: str


#: The columns that each stored table has: the partition of a run, and the time.
RUN_COLUMN = TableColumn(RUN_ID, TEXT, "the name of the run, always text")
TIME_COLUMN = TableColumn(TIME, MOMENT, "when the run began")
#: What a comparison says of all of its rows.
LEVEL = TableColumn("level", FIGURE, "the confidence level of the intervals")
CORRECTION = TableColumn("correction", TEXT, "how p is corrected for the number of comparisons")


def described(meaning: str, default: Any = MISSING, **options: Any) -> Any:
    """A field of a row that is a column: its meaning in a line, and what `dataclasses.field` takes."""
    return field(default=default, metadata={"meaning": meaning}, **options)


class Part(Generic[Value]):
    """A column that is part of a value of a row, such as the lower end of its interval.

    Args:
        path: the field of the row, a dot, and the attribute of its value.
        kind: the type of the attribute.
        meaning: what the column is, in a line.
    """

    def __init__(self, path: str, kind: type[Value], meaning: str) -> None:
        self.field, _, self.attribute = path.partition(".")
        self.kind, self.meaning = kind, meaning

    @overload
    def __get__(self, row: None, owner: type) -> Self: ...
    @overload
    def __get__(self, row: object, owner: type) -> Value: ...
    def __get__(self, row: object, owner: type) -> Any:
        """The value of a row."""
        return self if row is None else getattr(getattr(row, self.field), self.attribute)


class Row:
    """A row of a table: a dataclass whose fields are `described`, or values with a `Part` for each of their columns."""

    #: The names of the columns in their order; empty: as they are declared, those of base classes first.
    order: ClassVar[str] = ""
    _declared: ClassVar[dict[str, TableColumn]]
    _kinds: ClassVar[dict[str, Any]]

    @classmethod
    def declared(cls) -> dict[str, TableColumn]:
        """The columns by name."""
        if "_declared" not in vars(cls):
            kinds = cls._kinds = get_type_hints(cls)
            columns: dict[str, TableColumn] = {}
            for base in reversed(cls.__mro__):
                for name, item in vars(base).get("__dataclass_fields__", {}).items():
                    if "meaning" in item.metadata:
                        columns[name] = TableColumn(name, _KINDS[kinds[name]], item.metadata["meaning"])
                for name, part in vars(base).items():
                    if isinstance(part, Part):
                        columns[name] = TableColumn(name, _KINDS[part.kind], part.meaning)
            cls._declared = {name: columns[name] for name in cls.order.split()} or columns
        return cls._declared

    @classmethod
    def of(cls, **columns: Any) -> Self:
        """The row of values by column."""
        values: dict[str, Any] = {}
        parts: dict[str, dict[str, Any]] = {}
        for name, value in columns.items():
            part = getattr(cls, name, None)
            if isinstance(part, Part):
                parts.setdefault(part.field, {})[part.attribute] = value
            else:
                values[name] = value
        cls.declared()
        kinds = cls._kinds
        return cls(**values, **{name: kinds[name](**attributes) for name, attributes in parts.items()})

    def by_column(self) -> dict[str, Any]:
        """The values of the row by column."""
        return {name: getattr(self, name) for name in self.declared()}

    def as_json(self) -> dict[str, Any]:
        """The values by column as JSON has them: NaN and infinities are null."""
        return json_record(self.by_column())


def as_json_value(value: Any) -> Any:
    """A value as JSON has it: NaN and infinities are null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record as JSON has it: NaN and infinities are null."""
    return {name: as_json_value(value) for name, value in record.items()}


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table.

    Attributes:
        row: what has a row.
        columns: in their order, without `RUN_ID`, which each stored table has last.
    """

    row: str
    columns: tuple[TableColumn, ...]

    @classmethod
    def of(cls, rows: type[Row], row: str, *more: TableColumn) -> TableColumns:
        """The columns of a class of rows, and after them more that all rows share."""
        return cls(row, (*rows.declared().values(), *more))

    @property
    def names(self) -> list[str]:
        """The names in their order."""
        return [column.name for column in self.columns]


def frame_of(records: Iterable[Mapping[str, Any]], columns: TableColumns) -> pd.DataFrame:
    """Records by column as a pandas DataFrame, which has the columns of no records, too."""
    return pd.DataFrame(list(records), columns=columns.names)
