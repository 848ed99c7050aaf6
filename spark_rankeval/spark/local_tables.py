"""What a call takes in the place of two DataFrames: tables of pandas, polars and pyarrow, names in the catalogue, and one long table.

Before the call they become DataFrames of the session, and the long table becomes two. DataFrames of files get types that Spark has.
`write_table` writes what calls return to a table of the catalogue.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type

from spark_rankeval import local
from spark_rankeval.checks import as_names, check_table, is_table, kind_of, local_package, one_of, tested_engine
from spark_rankeval.errors import InputError, OptionError, did_you_mean
from spark_rankeval.records.columns import TIME
from spark_rankeval.request import call
from spark_rankeval.request.call import Facts, Vectors
from spark_rankeval.spark import source_tables, sql
from spark_rankeval.spark.catalog import CatalogTable
from spark_rankeval.spark.engine import from_arrow

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession


P = ParamSpec("P")
R = TypeVar("R")

# The types that Spark lacks, and those that hold the same values.
_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.date64(): pa.date32(),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
    # The oldest pyarrow has no views.
    getattr(pa, "string_view", pa.large_string)(): pa.string(),
    getattr(pa, "binary_view", pa.large_binary)(): pa.binary(),
}
# Annotations of parameters that take tables; what takes results takes their JSON, which is text, too.
_TABLES = re.compile(r"^(?!.*Mergeable).*\b(Table|Predictions|Results)\b")
_LARGEST_INTEGERS = pa.decimal128(20, 0)
# How Sail's catalogue calls types that Spark lacks: categories with the type of their values, and spans of time.
_OF_SAIL = re.compile(r"dictionary<\w+,([^<>]+)>|duration\(\w+\)")
#: What Spark says of files with times of nanoseconds, and what we say.
NANOSECONDS = "TIMESTAMP(NANOS"
ON_NANOSECONDS = (
    "these Parquet files have times of nanoseconds, which pandas may write and Spark does not read. Set "
    "spark.sql.legacy.parquet.nanosAsLong=true, which reads them as whole numbers"
)


def takes_local_tables(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function of DataFrames take tables of pandas, polars and pyarrow, too: as arguments, in dicts, `Facts` and `Vectors`.

    They go to the session of the DataFrames in the call, or else to the active one. The same object becomes the same DataFrame.
    Each may also be the name of a table of the catalogue, such as ``main.evaluation.per_user``.
    An option of another function is refused with the nearest one, because pages keep the options of several calls in one dict.
    """
    parameters = inspect.signature(function).parameters
    names = list(parameters)
    table_parameters = {name for name, parameter in parameters.items() if _TABLES.search(str(parameter.annotation))}

    # Others check their options themselves.
    names_options = not function.__code__.co_flags & inspect.CO_VARKEYWORDS

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if names_options and (unknown := [name for name in kwargs if name not in names]):
            words = ", ".join(map(repr, unknown))
            msg = f"{function.__name__} has no option {words}; {did_you_mean(unknown[0], names)}it has: {', '.join(names)}"
            raise OptionError(msg)
        arguments = [*zip(chain(names, repeat("")), args, strict=False), *kwargs.items()]
        session = next((part.sparkSession for _, value in arguments for part in _parts(value) if is_table(part)), None)
        may_be_missing = _may_be_missing(dict(arguments)) if {"score", "relevance"} <= {*names} else frozenset()
        tables = _Tables(session, may_be_missing)
        values = [tables.converted(value, name, takes_names=name in table_parameters) for name, value in arguments]
        return function(*values[: len(args)], **dict(zip(kwargs, values[len(args) :], strict=True)))

    return run


def _may_be_missing(arguments: Mapping[str, Any]) -> frozenset[str]:
    """The columns of one long table, in lower case, whose NaN in pandas is a missing score or label; none with a table of labels."""
    if arguments.get("labels") is not None:
        return frozenset()
    columns = chain.from_iterable(
        [value] if isinstance(value, str) else value
        for value in map(arguments.get, ("score", "rank", "relevance"))
        if isinstance(value, str | list | tuple)
    )
    return frozenset(name.lower() for name in columns if isinstance(name, str))


def _parts(value: Any) -> Iterator[Any]:
    """What may be a table in an argument."""
    if isinstance(value, Mapping):
        for part in value.values():
            yield from _parts(part)
    elif isinstance(value, Facts | Vectors):
        yield from _tables_of(value).values()
    else:
        yield value


def _tables_of(value: Facts | Vectors) -> dict[str, Any]:
    return {part.name: getattr(value, part.name) for part in fields(value) if _TABLES.search(str(part.type))}


@dataclass
class _Tables:
    """The tables of a call, each made once."""

    session: SparkSession | None
    may_be_missing: frozenset[str]
    frames: dict[int, DataFrame] = field(default_factory=dict)

    def converted(self, value: Any, name: str, *, takes_names: bool = False) -> Any:
        """An argument with DataFrames for its tables; the name is for messages, and texts are tables only if it `takes_names`."""
        if takes_names and isinstance(value, str):
            return CatalogTable(self._session(f"{name}={value!r} names a table"), value, name).rows()
        if local_package(value) or is_table(value):
            if id(value) not in self.frames:
                self.frames[id(value)] = with_spark_types(value, name) if is_table(value) else self._frame(value, name)
            return self.frames[id(value)]
        if isinstance(value, Mapping):
            parts = {key: (part, f"{name} of {key!r}") for key, part in value.items()}
            return {key: self.converted(*part, takes_names=takes_names) for key, part in parts.items()}
        if isinstance(value, Facts | Vectors):
            owner = " of Vectors" if isinstance(value, Vectors) else ""
            tables = {
                key: self.converted(part, f"{key}{owner}", takes_names=True) for key, part in _tables_of(value).items()
            }
            return replace(value, **tables)
        return value

    def _frame(self, value: Any, name: str) -> DataFrame:
        session = self._session(f"{name} is a {kind_of(value)}")
        arrow = _as_arrow(value, name, self.may_be_missing)
        table = _with_spark_types(arrow, name)
        schema = _schema(table, name)
        try:
            frame = local.write_table(session, table)
        except pa.ArrowNotImplementedError as error:  # a struct without fields
            column = next((part for part in table.schema if "struct<>" in str(part.type)), table.schema[0])
            raise InputError(_no_type(name, column.name, column.type)) from error
        return _with_orders(from_arrow(session, table, schema) if frame is None else frame, arrow)

    def _session(self, what: str) -> SparkSession:
        self.session = self.session or local.active_session()
        if self.session is None:
            msg = f"{what}, and no session runs that could evaluate it. Start one with spark_rankeval.session()"
            raise InputError(msg)
        return self.session


def with_spark_types(frame: DataFrame, name: str) -> DataFrame:
    """A table of files in types that Spark has; pandas writes times of nanoseconds and categories, which Sail reads as such.

    Raises:
        InputError: Spark does not read the files.
    """
    tested_engine(frame.sparkSession)
    try:
        _ = frame.schema
    except PySparkException as error:
        if NANOSECONDS in str(error):
            raise InputError(f"{name}: {ON_NANOSECONDS}") from error
        if "to Spark data type" not in str(error):
            raise
        catalog, view = frame.sparkSession.catalog, f"types_{uuid.uuid4().hex}"
        frame.createTempView(view)
        kinds = {each.name: each.dataType for each in catalog.listColumns(view)}
        catalog.dropTempView(view)
        typed = [_OF_SAIL.sub(lambda found: found[1] or "interval day to second", kind) for kind in kinds.values()]
        return frame.select(*(sql.column(key).cast(kind).alias(key) for key, kind in zip(kinds, typed, strict=True)))
    return frame


def _with_orders(frame: DataFrame, table: pa.Table) -> DataFrame:
    """The frame of a table; columns that are ordered categories there say their order, as slices by them have it."""
    marks = {}
    for name, values in zip(table.column_names, table.columns, strict=True):
        if getattr(values.type, "ordered", False) and len(values):
            order = list(map(str, values.chunk(0).dictionary.to_pylist()))
            marks[name] = {sql.MARK_KEY: json.dumps({"kind": "order", "order": order})}
    columns = [
        sql.column(name).alias(name, metadata=marks[name]) if name in marks else sql.column(name)
        for name in frame.columns
    ]
    return frame.select(*columns) if marks else frame


def _as_arrow(table: Any, name: str, may_be_missing: frozenset[str]) -> pa.Table:
    package = local_package(table)
    if package == "pandas":
        return _from_pandas(table, name, may_be_missing)
    if package == "polars":
        return table.lazy().collect().to_arrow()
    _check_names(table.schema.names, name)
    return pa.table(dict(zip(table.schema.names, table.columns, strict=True)))


def _from_pandas(frame: pd.DataFrame, name: str, may_be_missing: frozenset[str]) -> pa.Table:
    """The columns of a table of pandas, and the levels of its index that have names.

    NaN is null in the columns that `may_be_missing`, as pandas has no other null among floats.
    """
    levels = [level for level in frame.index.names if level is not None]
    _check_names([*levels, *frame.columns], name)
    frame = frame.reset_index(levels) if levels else frame
    columns = {}
    for column, series in frame.items():
        try:
            # Arrow takes NaN for null, which it is in columns of objects, but not in most of floats.
            is_float = isinstance(series.dtype, np.dtype) and series.dtype.kind == "f"
            is_float = is_float and str(column).lower() not in may_be_missing
            wide = series.astype("float32") if series.dtype == "float16" else series
            if re.match("interval|period", str(getattr(getattr(series, "cat", None), "categories", series).dtype)):
                # Slices are called as pandas prints these.
                wide = series.cat.rename_categories(str) if hasattr(series, "cat") else series.astype("string")
            columns[column] = pa.array(wide.to_numpy()) if is_float else _array_of(wide)
        except (pa.ArrowException, ValueError, TypeError) as error:
            msg = f"{name}: the column {column!r} ({series.dtype}) cannot become a column of Spark: {error}. Convert it, or leave it out"
            raise InputError(msg) from error
    return pa.table(columns)


def _array_of(series: pd.Series[Any]) -> pa.Array:
    """The values as Arrow has them; UUIDs as text if this version of Arrow has no type of them."""
    try:
        return pa.array(series, from_pandas=True)
    except pa.ArrowInvalid:
        if not all(isinstance(value, uuid.UUID) for value in series.dropna()):
            raise
        return pa.array(series.map(str, na_action="ignore"), from_pandas=True)


def _check_names(names: Iterable[Any], table: str) -> None:
    """Refuse columns that a table of Spark cannot have, and those that would hide one another."""
    names = list(names)
    invalid = [each for each in names if not isinstance(each, str)]
    if invalid:
        msg = f"{table}: column names must be strings; got {invalid[0]!r} ({type(invalid[0]).__name__})"
        raise InputError(msg)
    duplicates = [each for each in names if names.count(each) > 1]
    if duplicates:
        msg = (
            f"{table}: {duplicates[0]!r} is the name of two columns, or of a column and the index; rename one, or call "
            "reset_index(drop=True)"
        )
        raise InputError(msg)


def _with_spark_types(table: pa.Table, name: str) -> pa.Table:
    """The table in types that Spark has. Times have microseconds there."""
    columns = {}
    for column, values in zip(table.column_names, table.columns, strict=True):
        try:
            columns[column] = _cast(values)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(_no_type(name, column, values.type)) from error
    # PySpark takes no column without a chunk.
    return pa.table({key: values if len(values) else pa.array([], values.type) for key, values in columns.items()})


def _cast(values: pa.ChunkedArray) -> pa.ChunkedArray:
    if str(values.type) == "extension<arrow.uuid>":
        return pa.chunked_array([[None if each is None else str(each) for each in values.to_pylist()]], pa.string())
    kinds = [_spark_type(values.type, integers) for integers in (pa.int64(), _LARGEST_INTEGERS)]
    if kinds[0] == values.type:
        return values
    try:
        return values.cast(options=pc.CastOptions(kinds[0], allow_time_truncate=True))
    except pa.ArrowInvalid:
        return values.cast(options=pc.CastOptions(kinds[1], allow_time_truncate=True))


def _spark_type(kind: pa.DataType, uint64: pa.DataType) -> pa.DataType:
    """The type that holds the values of a type, with that of integers of 64 bits without a sign."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _spark_type(kind.value_type, uint64)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_spark_type(kind.value_type, uint64))
    if pa.types.is_struct(kind):
        return pa.struct([part.with_type(_spark_type(part.type, uint64)) for part in kind])
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return {**_WIDER, pa.uint64(): uint64}.get(kind, kind)


def _schema(table: pa.Table, name: str) -> T.StructType:
    """The types of Spark; times without a zone stay without."""
    schema = T.StructType()
    for part in table.schema:
        try:
            schema = schema.add(part.name, from_arrow_type(part.type, prefer_timestamp_ntz=True))
        except PySparkException as error:
            raise InputError(_no_type(name, part.name, part.type)) from error
    return schema


def _no_type(name: str, column: str, kind: pa.DataType) -> str:
    return f"{name}: the column {column!r} is {kind}, which Spark has no type for. Convert it, such as to strings, or leave it out"


class Rows(Protocol):
    """What has rows to write: a result, a comparison, gaps, an audit or a history. A result also has those that `history` reads."""

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """The rows as a DataFrame."""
        ...


@takes_local_tables
def write_table(
    rows: Rows | DataFrame,
    table: str,
    *,
    run_id: str | None = None,
    time: datetime | None = None,
    mode: str = "errorifexists",
) -> DataFrame:
    """Write the rows of a result to a table of the catalogue, and give them as they are read back.

    Columns have their meanings as comments (docs/tables.md). Users' values are written by `Result.write`. Of a result with `run_id` it
    writes what jobs store of their means, which `history` and `merge` read.

    Examples:
        >>> _ = spark.sql(f"CREATE SCHEMA IF NOT EXISTS evaluation LOCATION '{folder}/evaluation'").collect()
        >>> for day in ("2026-11-20", "2026-11-21", "2026-11-20"):
        ...     stored = write_table(result, "evaluation.metrics", run_id=day)
        >>> sorted({row["run_id"] for row in spark.table("evaluation.metrics").collect()}), stored.count() == len(result.summary)
        (['2026-11-20', '2026-11-21'], True)

    Args:
        rows: what `evaluate`, `compare`, `all_pairs`, `compare_groups`, `gaps`, `audit` or `history` returned, or any DataFrame.
        table: the name of the table, such as ``main.evaluation.metrics``. It is made if it is not there.
        run_id: the name of a run, in a table that has the rows of several: they replace those of that name, and other runs stay. None:
            the table has these rows alone.
        time: when the run began, in the column ``time``. None: now.
        mode: what to do without `run_id` if the table exists: ``errorifexists`` or ``overwrite``.

    Raises:
        InputError: it has no rows to write, or has a column ``run_id`` of its own beside `run_id`.
        OptionError: the table exists already, cannot take such rows or replace one run, or an option is not valid.
    """
    one_of("mode", mode, ("errorifexists", "overwrite"))
    time = time or datetime.now(UTC)
    # A protocol does not tell a DataFrame from what has rows.
    given: Any = rows
    if is_table(given):
        check_table("rows", given)
        frame: DataFrame = given
    elif run_id is not None and hasattr(given, "to_stored"):
        frame = given.to_stored(time)
    elif hasattr(given, "to_spark"):
        frame = given.to_spark()
    else:
        msg = f"rows must be a result, a comparison, gaps, an audit, a history or a DataFrame; got a {kind_of(rows)}"
        raise InputError(msg)
    if run_id is not None and sql.find_column(frame, TIME) is None:
        frame = frame.withColumn(TIME, F.lit(time)).withMetadata(TIME, {"comment": "when the run began"})
    target = CatalogTable(frame.sparkSession, table)
    target.check(frame.schema, run_id, mode)
    return target.write(frame, run_id)


#: The column of made ids, where rows name no item: the place of the row in the user's list.
PLACE = "place_in_list"


@dataclass(frozen=True)
class LongTable:
    """What a long table is for an evaluation: the rows of each side, and the options that name their columns."""

    predictions: DataFrame | Mapping[str, DataFrame]
    labels: DataFrame
    options: call.ScoringOptions
    frames: list[DataFrame]  # the tables of all models
    has_made_ids: bool  # whether rows name no item


def _columns_of_long_table(frame: DataFrame, options: call.ScoringOptions) -> dict[str, list[str]]:
    """The columns that options name, as the table spells them; an InputError names all that are lacking."""
    problems: list[str] = []
    kind = "score" if options.rank is None else "rank"
    names: dict[str, Sequence[str]] = {
        "user": as_names("user", options.user),
        kind: [getattr(options, kind)],
        "relevance": as_names("relevance", call.grade_columns(options.relevance)),
        "weight": [] if options.weight is None else [options.weight],
        "cost": [] if options.cost is None else [options.cost],
    }
    columns = source_tables.require_columns("predictions", frame, names, problems)
    if options.item is not None:
        lacking: list[str] = []
        source_tables.require_column("predictions", frame, str(options.item), "item", lacking)
        problems += [f"{problem}. If rows name no item, pass item=None" for problem in lacking]
    if problems:
        raise InputError("; ".join(problems))
    return {**columns, "value": columns[kind]}


def read_long_table(
    predictions: call.Table | Vectors | Mapping[str, call.Table | Vectors], options: call.ScoringOptions
) -> LongTable | None:
    """The sides of a call without labels, if rows of predictions have them; None if it means arrays.

    A row is a prediction if it has a score or rank, and a label if it has a grade. A row without either may declare that its user has no
    answer. Any other counts as a prediction that cannot be ranked, so that none is lost.
    """
    tables = dict(predictions) if isinstance(predictions, Mapping) else {"": predictions}
    frames = {name: table for name, table in tables.items() if not isinstance(table, Vectors)}
    if len(frames) < len(tables) or not frames:
        return None
    for table in frames.values():
        check_table("predictions", table)
    if not _has_rows(next(iter(frames.values())), options.item):
        return None
    has_models = len(frames) > 1 or options.model is not None
    only = next(iter(frames))
    _check(options, has_models=has_models)
    columns = {name: _columns_of_long_table(frame, options) for name, frame in frames.items()}
    has_made_ids = options.item is None
    if has_made_ids:
        item = _made_id(frames[only])
        frames = {only: sql.with_columns(frames[only], {item: _place(columns[only], is_rank=options.rank is not None)})}
        options = replace(options, item=item)
    scored, labels = {}, {}
    for name, frame in frames.items():
        (value,) = columns[name]["value"]
        is_label = sql.any_of(sql.named(grade).is_not_null() for grade in columns[name]["relevance"])
        says_something = is_label | _declares(frame, options.no_answer)
        scored[name] = sql.where(frame, sql.named(value).is_not_null() | ~says_something)
        labels[name] = sql.where(frame, is_label)
    if has_models:
        # Each model may have a row of the same label, which counts once.
        first, subtopic = columns[only], options.facts.subtopic
        names = [*first["user"], str(options.item), *first["relevance"], *first["weight"]]
        names += [] if subtopic is None else [subtopic]
        labels = {only: _rows_of_models(labels, names).distinct()}
    return LongTable(
        scored if isinstance(predictions, Mapping) else scored[only],
        labels[only],
        _with_attributes(frames, options),
        list(frames.values()),
        has_made_ids,
    )


def _declares(frame: DataFrame, no_answer: call.ColumnOrTable | None) -> sql.Sql:
    """Whether a row declares that its user has no answer."""
    column = sql.find_column(frame, no_answer) if isinstance(no_answer, str) else None
    if column is None or not isinstance(frame.schema[column].dataType, T.BooleanType):
        return sql.number(False)
    return sql.call("coalesce", sql.named(column), sql.number(False))


def _has_rows(frame: DataFrame, item: str | tuple[str, str] | None) -> bool:
    """Whether each row is a user and an item: no column has arrays, or the item names one that has none."""
    if item is None or not any(isinstance(field.dataType, T.ArrayType) for field in frame.schema.fields):
        return True
    column = sql.find_column(frame, item) if isinstance(item, str) else None
    return column is not None and not isinstance(frame.schema[column].dataType, T.ArrayType)


def _check(options: call.ScoringOptions, *, has_models: bool) -> None:
    if options.relevance is None or (options.score is None) == (options.rank is None):
        msg = (
            "labels=None needs one table. With a row for each user and item name relevance= and either score= or rank=; with arrays, "
            "item=(predictions, labels)"
        )
        raise InputError(msg)
    if isinstance(options.item, tuple):
        msg = f"item={options.item!r} is for two tables, and labels=None means one; name its column of items, or pass item=None"
        raise InputError(msg)
    if options.user is None:
        msg = "user=None is for one table of arrays, whose rows are users; name the column that says which user or query a row is of"
        raise InputError(msg)
    met = {
        "several models": has_models,
        "exclude=": options.exclude is not None,
        "tables of items in facts=": any(table is not None for table in options.facts.tables().values()),
        "facts=Facts(subtopic=…)": options.facts.subtopic is not None,
    }
    if options.item is None and any(met.values()):
        words = " and ".join(words for words, is_met in met.items() if is_met)
        msg = (
            f"item=None says that rows name no item, and {words} cannot do without; name the column of items with item="
        )
        raise InputError(msg)


def _made_id(frame: DataFrame) -> str:
    """A name for made ids that no column has."""
    name = PLACE
    while sql.find_column(frame, name) is not None:
        name += "_"
    return name


def _place(columns: Mapping[str, Sequence[str]], *, is_rank: bool) -> sql.Sql:
    """The place of a row in the list of its user: by score, of equal scores the unlabelled rows and then the lowest grade first.

    Rows that are equal in all of these can change places without a change of any value, so no order of rows decides.
    """
    # Scores compare as doubles, and of these the two zeros are equal.
    value = sql.named(columns["value"][0]).cast("double") + 0.0
    # A missing grade is the lowest, be it null or NaN.
    graded = map(sql.named, columns["relevance"])
    grades = [sql.when(~sql.call("isnan", grade.cast("double")), grade) for grade in graded]
    others = map(sql.named, (*columns["weight"], *columns["cost"]))
    order = [value if is_rank else sql.descending(value), *grades, *others]
    return sql.over(sql.call("row_number"), map(sql.named, columns["user"]), order).cast("bigint")


def _rows_of_models(frames: Mapping[str, DataFrame], names: Sequence[str]) -> DataFrame:
    """These columns of the tables of all models; an `InputError` says which ones have different types."""
    problems = []
    for name in names:
        columns = {model: sql.find_column(frame, name) for model, frame in frames.items()}
        lacking = [model for model, column in columns.items() if column is None]
        problems += [f"predictions of model {model!r} has no column {name!r}; add it" for model in lacking]
        kinds = {model: frames[model].schema[column].dataType for model, column in columns.items() if column}
        first = next(iter(kinds))
        problems += [
            f"the column {name!r} is {kinds[first].simpleString()} in predictions of model {first!r} and {kind.simpleString()} in "
            f"those of {model!r}; cast one of them"
            for model, kind in kinds.items()
            if not _meet(kinds[first], kind)
        ]
    if problems:
        raise InputError("; ".join(problems))
    return sql.rows_of_all(sql.select(frame, *map(sql.named, names)) for frame in frames.values())


def _meet(kind: T.DataType, other: T.DataType) -> bool:
    """Whether the values of two columns can stand in one, as they are."""
    both = (kind, other)
    return (
        kind == other
        or any(isinstance(each, T.NullType) for each in both)
        or all(isinstance(each, T.NumericType) for each in both)
        or all(isinstance(each, T.StringType | T.CharType | T.VarcharType) for each in both)
    )


def _with_attributes(frames: Mapping[str, DataFrame], options: call.ScoringOptions) -> call.ScoringOptions:
    """The options with the whole table as that of attributes, if it has those that are asked for: no side has all users."""
    users = as_names("user", options.user)
    lower = [name.lower() for name in users]
    names = [name for name in call.AttributeNames(options).all if name.lower() not in lower]
    is_there = all(sql.find_column(frame, name) for frame in frames.values() for name in names)
    if not names or options.facts.attributes is not None or not is_there:
        return options
    if options.users is not None and all(sql.find_column(options.users, name) for name in names):
        return options
    return replace(options, facts=replace(options.facts, attributes=_rows_of_models(frames, (*users, *names))))
