"""The tables of features: facts of items, intents, vectors, users without an answer, groups of items, checked, packed and grouped."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Literal, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.checks import check_table
from spark_rankeval.errors import InputError
from spark_rankeval.ranking.batch import ATTRIBUTES, FACT_TABLES, Attribute, Fact
from spark_rankeval.request.call import DEFAULT_ITEM, POPULARITY, ColumnNames, Facts, ItemGroups, Overlap, Vectors
from spark_rankeval.request.task import ScoringTask
from spark_rankeval.spark import source_tables, sql
from spark_rankeval.spark.engine import engine_of
from spark_rankeval.spark.tasks import broadcast_row, broadcast_tables, packed, packed_together, run_on_workers
from spark_rankeval.worker import features as item_facts
from spark_rankeval.worker.features import INTENT, INTENTS, ITEM, NO_ANSWER, POPULARITY_TABLE, add_counts, count_items
from spark_rankeval.worker.item_groups import table_of
from spark_rankeval.worker.process import tables_in
from spark_rankeval.worker.reading import BIAS, CANDIDATES, column_of_model, grades_column
from spark_rankeval.worker.vectors import (
    CATALOGUE_ITEM,
    CATALOGUE_VECTOR,
    IS_CATALOGUE_ROW,
    ITEM_BIAS,
    LARGEST,
    N_ROWS,
    USUAL_LENGTH,
    count_lengths,
    pack_catalogue,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# Columns of ours on the way: whether a row can be used; the place of an entry of an array, and its scores.
_VALID, _PLACE, _SCORES = "valid_", "place_", "scores_"


class SideTables(NamedTuple):
    """The tables that metrics ask for, as the caller gave them."""

    options: Facts = Facts()
    facts: frozenset[Fact] = frozenset()  # those that metrics ask for
    roles: Collection[str] = ()  # the tables that hold these

    def frames(self) -> dict[str, DataFrame | None]:
        """The tables by their roles."""
        return {role: frame if role in self.roles else None for role, frame in self.options.tables().items()}


@dataclass(frozen=True)
class SideSources:
    """The tables that hold facts; None if no metric asks for one."""

    training: source_tables.SourceTable | None = None  # interactions of users with items
    items: source_tables.SourceTable | None = None  # attributes of items
    baseline: source_tables.SourceTable | None = None  # the recommendations of a baseline
    columns: Mapping[str, str] = field(default_factory=dict)  # the columns of `items`, by the options that name them

    def tables(self) -> list[source_tables.SourceTable]:
        """Those that there are."""
        return [source for source in (self.training, self.items, self.baseline) if source is not None]

    def overlaps(self, facts: Collection[Fact]) -> Iterator[Overlap]:
        """Recommended items should be in the tables, and the users of the training data and of the baseline among those with lists."""
        # The intents of labels are of items that need not be predicted.
        tables = {table for fact in facts if fact != "intents" for table in FACT_TABLES[fact]}
        yield from (Overlap(table, "items") for table in ("training", "items", "baseline") if table in tables)
        if any(fact.startswith("history") for fact in facts):
            yield Overlap("training", "users")
        if "baseline" in tables:
            yield Overlap("baseline", "users")


def read_side_tables(tables: SideTables, names: ColumnNames, problems: list[str]) -> SideSources:
    """Find and check the columns of the tables; what is wrong with them is added to the problems."""
    options, facts, frames = tables.options, tables.facts, tables.frames()
    # A baseline may have its items in order even if the predictions have scores.
    sources = {
        role: None if frame is None else source_tables.read_source(role, frame, names, problems)  # type: ignore[arg-type] # a role
        for role, frame in frames.items()
    }
    columns: dict[str, str] = {}
    if (items := frames["items"]) is not None:
        fields = item_facts.fields_of(facts)
        for option, attribute in ((each.option, each) for name, each in ATTRIBUTES.items() if name in fields):
            # If fields share a column, the first of them asks the most of it.
            columns[option] = columns.get(option) or column_of(items, attribute, getattr(options, option), problems)
    return SideSources(sources["training"], sources["items"], sources["baseline"], columns)


@dataclass(frozen=True)
class GroupedTables:
    """The tables of an evaluation, and the columns of grouped users that are made of them."""

    sources: SideSources
    facts: frozenset[Fact]  # those that metrics ask for
    typed: source_tables.Typed

    def lists(self) -> list[DataFrame]:
        """What each user has in the training data, and what the baseline recommends: one row per user each."""
        lists = [self.history()] if any(fact.startswith("history") for fact in self.facts) else []
        return [*lists, self._baseline()] if "baseline" in self.facts else lists

    def with_facts(self, users: DataFrame) -> DataFrame:
        """Attach sizes and fault counts of tables to every row, and packed tables, which have their own, to the first of each task."""
        if rows := self.totals():
            totals = reduce(lambda left, right: left.crossJoin(right), rows)
            totals = sql.select(totals, *(sql.named(name).cast("bigint").alias(name) for name in totals.columns))
            users = broadcast_row(users, totals)
        return broadcast_tables(users, self.packed_tables())

    @property
    def reads_popularity(self) -> bool:
        """Whether metrics need the popularity of items."""
        return bool(item_facts.fields_of(self.facts) & item_facts.POPULARITY_FIELDS)

    @property
    def reads_attributes(self) -> bool:
        """Whether metrics need attributes of items."""
        return bool(item_facts.fields_of(self.facts) & item_facts.ATTRIBUTE_FIELDS)

    @cached_property
    def by_user(self) -> DataFrame:
        """The training data, one row per user: the items as often as they are there, and how many rows cannot be used."""
        source, typed = _required(self.sources.training), self.typed
        rows = sql.select(source.frame, *typed.named_users(source), typed.item(source.ids_sql()))
        # A column of its own: inside the aggregate Spark computes it slowly.
        rows = sql.with_columns(rows, {item_facts.ITEM: sql.when(typed.is_valid(), sql.named(item_facts.ITEM))})
        grouped = sql.aggregate_lists(
            rows,
            typed.user_columns,
            sql.call("collect_list", sql.named(item_facts.ITEM)).alias(item_facts.CONSUMED),
            count_of(sql.named(item_facts.ITEM).is_null(), item_facts.ROWS),
        )
        return _one_table(
            grouped, sql.call("size", sql.named(item_facts.CONSUMED)) >= 0, sql.named(item_facts.ROWS) >= 0
        )

    @cached_property
    def attributes(self) -> DataFrame:
        """The table of items, one row per item: sets of categories add up, and another attribute in which its rows do not agree is null."""
        source = _required(self.sources.items)
        columns, aggregates = [self.typed.item(source.ids_sql())], [sql.call("count", 1).alias(item_facts.ROWS)]
        for name in (
            name for name in ATTRIBUTES if name in item_facts.fields_of(self.facts) & item_facts.ATTRIBUTE_FIELDS
        ):
            option, kind, plural = ATTRIBUTES[name]
            columns.append(_VALUES[kind](source.frame, self.sources.columns[option]).alias(name))
            if plural:
                least = sql.call("min", sql.named(name))
                agree = least == sql.call("max", sql.named(name))
                aggregates += [sql.when(agree, least).alias(name), (~agree).alias(item_facts.CONFLICT + name)]
            else:
                together = sql.call("flatten", sql.call("collect_list", sql.named(name)))
                sorted_sets = sql.call("to_json", sql.call("array_sort", sql.call("array_distinct", together)))
                aggregates.append(sql.when(sql.call("count", sql.named(name)) > 0, sorted_sets).alias(name))
        return sql.aggregate(sql.select(source.frame, *columns), [item_facts.ITEM], *aggregates)

    def history(self) -> DataFrame:
        """The different items of each user in the training data, one row per user."""
        items = sql.call("array_distinct", sql.named(item_facts.CONSUMED)).alias(item_facts.HISTORY)
        return sql.select(self.by_user, *self.typed.users, items)

    def packed_tables(self) -> dict[str, DataFrame]:
        """All tables of items as one row each."""
        sources, tables = self.sources, {}
        if group := sources.columns.get("group"):
            tables[item_facts.GROUPS_TABLE] = packed_groups(_required(sources.items), group, self.typed.item_type)
        if self.reads_popularity:
            tables[item_facts.POPULARITY_TABLE] = self.packed_popularity()
        if self.reads_attributes:
            tables[item_facts.ATTRIBUTES_TABLE] = packed_together(self.attributes.repartition(1))
        return tables

    def packed_popularity(self) -> DataFrame:
        """How many users have each item of the training data, in one row."""
        lists = sql.select(self.by_user, *map(sql.named, (item_facts.CONSUMED, item_facts.ROWS)))
        parts = packed_together(lists, count_items, add_counts)
        return packed_together(parts.repartition(1), tables_in, add_counts)

    def _baseline(self) -> DataFrame:
        """The baseline's items and scores, one row per user."""
        valid = sql.where(self._baseline_rows(), sql.named(_VALID))
        # Two lists of numbers, which are built and carried much faster than a list of structs.
        items, scores = (sql.call("collect_list", sql.named(name)) for name in (item_facts.ITEM, item_facts.SCORE))
        lists = (items.alias(item_facts.BASELINE), scores.alias(item_facts.BASELINE_SCORES))
        return sql.aggregate_lists(valid, self.typed.user_columns, *lists)

    def totals(self) -> list[DataFrame]:
        """One row each: how many rows cannot be used of tables that are not grouped by item."""
        rows = []
        if self.sources.training is not None and not self.reads_popularity:
            n_users = count_of(sql.call("size", sql.named(item_facts.CONSUMED)) > 0, item_facts.N_TRAINING_USERS)
            n_invalid = sql.call("coalesce", sql.call("sum", sql.named(item_facts.ROWS)), 0)
            rows.append(sql.aggregate(self.by_user, (), n_users, n_invalid.alias("n_invalid_training")))
        if self.sources.items is not None and not self.reads_attributes:
            n_invalid = count_of(self.sources.items.ids_sql().is_null(), "n_invalid_items")
            rows.append(sql.aggregate(self.sources.items.frame, (), n_invalid))
        if self.sources.baseline is not None:
            # As a filter, which Spark moves to where the table is read: there may be no other row to look at.
            invalid = sql.where(self._baseline_rows(), ~sql.named(_VALID))
            rows.append(sql.aggregate(invalid, (), sql.call("count", 1).alias("n_invalid_baseline")))
        return rows

    def _baseline_rows(self) -> DataFrame:
        """The baseline's rows, or the entries of its arrays; those of arrays in order have their place for a score."""
        source, typed = _required(self.sources.baseline), self.typed
        if source.arrays:
            values = [one.alias(_SCORES) for one in source.values_sql()]
            entry = sql.call("posexplode_outer", source.ids_sql()).aliases(_PLACE, item_facts.ITEM)
            entries = sql.select(source.frame, *typed.named_users(source), entry, *values)
            score = sql.call("get", sql.named(_SCORES), sql.named(_PLACE)) if values else -sql.named(_PLACE)
            users, item = typed.users, sql.usable(sql.named(item_facts.ITEM), source.item_type)
        else:
            entries, users, item = source.frame, typed.named_users(source), source.ids_sql()
            score = source.values_sql()[0].cast("double")
            score = -score if source.value_kind == "rank" else score
        rows = sql.select(entries, *users, typed.item(item), score.cast("double").alias(item_facts.SCORE))
        return sql.with_columns(rows, {_VALID: typed.is_valid(item_facts.SCORE)})


def packed_groups(items: source_tables.SourceTable, name: str, item_type: T.DataType) -> DataFrame:
    """One row: each item with each of its groups, and how many rows of the table have the pair; null stands for no group."""
    item, group = items.ids_sql().cast(item_type).alias(item_facts.ITEM), sql.named(name)
    if isinstance(items.frame.schema[name].dataType, T.ArrayType):
        rows = sql.select(items.frame, item, sql.call("posexplode_outer", group).aliases(_PLACE, item_facts.GROUP))
    else:
        rows = sql.select(items.frame, item, sql.number(0).alias(_PLACE), group.alias(item_facts.GROUP))
    rows = sql.select(
        rows,
        sql.named(item_facts.ITEM),
        sql.named(_PLACE),
        sql.name_in_sql(rows, item_facts.GROUP).alias(item_facts.GROUP),
    )
    # A row of an array counts once, by its first entry.
    n_rows = count_of(sql.call("coalesce", sql.named(_PLACE), 0) == 0, item_facts.ROWS)
    grouped = sql.aggregate(rows, [item_facts.ITEM, item_facts.GROUP], n_rows)
    return packed_together(grouped.repartition(1))


def column_of(items: DataFrame, attribute: Attribute, name: str, problems: list[str]) -> str:
    """The column of an attribute as the table of items spells it; what is wrong with it is added to the problems."""
    if attribute.kind == "vector":
        return array_of_numbers("items", items, name, problems)
    if (spelled := source_tables.require_column("items", items, name, attribute.option, problems)) is None:
        return name
    kind, words = items.schema[spelled].dataType, f"items: the column {spelled!r} ({attribute.option}=)"
    if isinstance(kind, T.ArrayType) and attribute.kind == "text":
        problems.append(
            f"{words} is {kind.simpleString()}, several {attribute.plural} for each item. diversity(by='categories') compares such "
            f"sets; metrics of one {attribute.option} need one value for each item"
        )
    else:
        problems += sql.problem_of_type(words, kind.elementType if isinstance(kind, T.ArrayType) else kind, "category")
    return spelled


def array_of_numbers(role: source_tables.Role, frame: DataFrame, name: str, problems: list[str]) -> str:
    """The name of a column of vectors as the table spells it; what is wrong with it is added to the problems."""
    spelled = source_tables.require_column(role, frame, name, "vector", problems)
    kind = T.NullType() if spelled is None else frame.schema[spelled].dataType
    if spelled is not None and not (isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.NumericType)):
        problems.append(
            f"{role}: the column {spelled!r} (vector=) must be an array of numbers; it is {kind.simpleString()}. Convert a vector of "
            "pyspark.ml with pyspark.ml.functions.vector_to_array"
        )
    return spelled or name


def vector_type(frame: DataFrame, name: str) -> T.ArrayType:
    """The type that workers get vectors in: arrays of floats stay as they are, which takes half the memory of doubles."""
    kind = frame.schema[name].dataType
    is_single = isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.FloatType)
    return T.ArrayType(T.FloatType() if is_single else T.DoubleType())


def _usable_vectors(frame: DataFrame, name: str) -> sql.Sql:
    """Vectors as arrays of numbers; one with a hole or without a number is none, and is counted by its length."""
    array = vector_type(frame, name)
    vector = sql.named(name).cast(array)
    broken = sql.call("exists", vector, sql.function_of(["one"], _is_no_number(sql.named("one"))))
    return sql.when(broken, sql.call("array").cast(array), vector)


# The values of attributes in the table of items, by kind.
_VALUES = {"text": sql.text_in_sql, "texts": sql.set_in, "vector": _usable_vectors}


def count_of(condition: sql.Sql, name: str) -> sql.Sql:
    """How many rows meet a condition, under a name."""
    return sql.call("count", sql.when(condition, 1)).alias(name)


def _required(table: source_tables.SourceTable | None) -> source_tables.SourceTable:
    """A table that the call was checked for."""
    assert table is not None, "a fact of the table is asked for"
    return table


def _one_table(table: DataFrame, *always_true: sql.Sql) -> DataFrame:
    """The rows of a table that is used more than once, so that Spark computes it once: the conditions name its columns.

    Elsewhere Spark leaves out unused columns and null keys of joins, and then sees two tables. Conditions that always hold
    keep all columns, and Spark moves no filter below one that numbers rows.
    """
    if not engine_of(table.sparkSession).is_spark:
        return table
    return sql.where(table, sql.all_of([sql.call("monotonically_increasing_id") >= 0, *always_true]))


# The column of the subtopic of a label as text, or of the hash of an array of them.
_SUBTOPIC, _HASH = "subtopic_", "subtopics_hash_"


class IntentSources(NamedTuple):
    """Where the intents of labels come from."""

    labels: source_tables.SourceTable  # as they were given: an item may have a row for each of its subtopics
    subtopic: source_tables.ValueColumn | None  # their column of subtopics; None: intents are categories of items
    items: source_tables.SourceTable | None  # the table of items
    category: str | None  # the column of items that has the categories; None: subtopics are the intents

    def subtopics(self) -> sql.Sql | None:
        """The column of subtopics, or the arrays of them; None if the intents are the categories of items."""
        if self.subtopic is None:
            return None
        is_field, name = self.subtopic.is_field, self.subtopic.name
        return self.labels.field(name) if is_field else sql.named(name)

    def read(self) -> source_tables.SourceTable:
        """The labels with what their hash and examples need of subtopics."""
        labels, subtopics = self.labels, self.subtopics()
        if self.subtopic is None or subtopics is None:
            return labels
        if labels.arrays or isinstance(self.subtopic.kind, T.ArrayType):
            frame = sql.with_columns(labels.frame, {_HASH: sql.call("xxhash64", subtopics)})
            return replace(labels, frame=frame, hashed=_HASH)
        frame = sql.with_columns(labels.frame, {_SUBTOPIC: sql.readable(sql.as_text(subtopics, self.subtopic.kind))})
        return replace(labels, frame=frame, hashed=_SUBTOPIC, subtopic=_SUBTOPIC)


def _subtopic_column(
    labels: source_tables.SourceTable, name: str, problems: list[str]
) -> source_tables.ValueColumn | None:
    """The labels' column of subtopics of this name; what is wrong with it is added to the problems."""
    if labels.arrays:
        element = labels.frame.schema[labels.item].dataType.elementType  # type: ignore[attr-defined] # an array
        column = source_tables.array_value(
            "labels", labels.frame, labels.item, element, name, "subtopic", problems=problems
        )
    else:
        spelled = source_tables.require_column("labels", labels.frame, name, "subtopic", problems)
        column = None if spelled is None else source_tables.ValueColumn(spelled, labels.frame.schema[spelled].dataType)
    if column is not None:
        problems += _problem_of_intents(f"labels: the column {column.name!r} (subtopic=)", column.kind)
    return column


def _problem_of_intents(what: str, kind: T.DataType) -> list[str]:
    return sql.problem_of_type(what, kind.elementType if isinstance(kind, T.ArrayType) else kind, "intent")


def intents_of_labels(sources: IntentSources, task: ScoringTask, typed: source_tables.Typed) -> DataFrame:
    """What the labels of each user are about: structs of item, intent and grades."""
    labels, subtopic = sources.labels, sources.subtopic
    if task.has_subtopic_rows:
        unusual = source_tables.unusual_reasons(labels, labels.values_sql(), task)
        is_usable = source_tables.says_something(labels, task) & sql.none_holds(unusual)
        labels = replace(labels, frame=sql.where(labels.frame, is_usable))
    rows, grades = _judged_items(labels, sources.subtopics(), typed)
    rows = _with_categories(rows, sources, typed) if subtopic is None else _with_intents(rows, subtopic.kind)
    rows = sql.where(rows, typed.is_valid(*grades) & sql.named(INTENT).is_not_null())
    pair = sql.call("struct", *map(sql.named, (ITEM, INTENT, *grades)))
    return sql.aggregate_lists(rows, typed.user_columns, sql.call("collect_list", pair).alias(INTENTS))


def _with_categories(rows: DataFrame, sources: IntentSources, typed: source_tables.Typed) -> DataFrame:
    """A row for each category of each row's item."""
    items, category = sources.items, sources.category
    assert items is not None, "without a subtopic, the table of items was asked for"
    assert category is not None, "the same"
    item = typed.item(items.ids_sql())
    categories = _with_intents(
        sql.select(items.frame, item, sql.named(category).alias(INTENT)), items.frame.schema[category].dataType
    )
    return rows.join(categories.dropna().distinct(), ITEM)


def read_intents(
    facts: Facts,
    metric_facts: frozenset[Fact],
    items: source_tables.SourceTable | None,
    labels: source_tables.SourceTable,
    problems: list[str],
) -> IntentSources | None:
    """Where the intents of labels come from; None if no metric asks for any, or if there are problems already."""
    if problems or not ("intents" in metric_facts or facts.subtopic is not None):
        return None
    if facts.subtopic is not None:
        return IntentSources(labels, _subtopic_column(labels, facts.subtopic, problems), items, None)
    category = None
    if items is not None:
        category = source_tables.require_column("items", items.frame, facts.category, "category", problems)
        if category is not None:
            kind = items.frame.schema[category].dataType
            problems += _problem_of_intents(f"items: the column {category!r} (category=)", kind)
    return IntentSources(labels, None, items, category)


def _judged_items(
    labels: source_tables.SourceTable, subtopics: sql.Sql | None, typed: source_tables.Typed
) -> tuple[DataFrame, list[str]]:
    """A row for each label with its item and grades, whose names are returned as well, and its subtopic or subtopics."""
    users = typed.named_users(labels)
    grades = [grades_column(index) for index in range(len(labels.grades))]
    values = dict(zip(grades, labels.values_sql(), strict=False))
    if subtopics is not None:
        values[INTENT] = subtopics
    columns = [value.alias(name) for name, value in values.items()]
    if labels.arrays:
        entry = sql.call("posexplode", labels.ids_sql()).aliases(_PLACE, ITEM)
        entries = sql.select(labels.frame, *users, entry, *columns)
        values = {name: sql.call("get", sql.named(name), sql.named(_PLACE)) for name in values}
    else:
        entries = sql.select(labels.frame, *users, labels.ids_sql().alias(ITEM), *columns)
        values = {name: sql.named(name) for name in values}
    read = [(value.cast("double") if name in grades else value).alias(name) for name, value in values.items()]
    return sql.select(entries, *typed.users, typed.item(sql.named(ITEM)), *read), grades


def _with_intents(rows: DataFrame, kind: T.DataType) -> DataFrame:
    """The rows with intents of this type as text; a row whose intent is an array becomes one for each entry."""
    others, intent = [sql.named(name) for name in rows.columns if name != INTENT], sql.named(INTENT)
    if isinstance(kind, T.ArrayType):
        entry = sql.call("explode", sql.call("array_distinct", intent)).alias(INTENT)
        rows, kind = sql.select(rows, *others, entry), kind.elementType
    return sql.select(rows, *others, sql.readable(sql.as_text(intent, kind)).alias(INTENT))


def lists_of_candidates(
    models: Mapping[int, source_tables.VectorColumns], typed: source_tables.Typed
) -> list[DataFrame]:
    """The candidates of users, one row per user, for each model that has some of the user's own."""
    candidates = {model: columns.candidates for model, columns in models.items()}
    return [
        typed.lists(source, column_of_model(CANDIDATES, model))
        for model, source in candidates.items()
        if source is not None and source.role == "candidates"
    ]


def packed_catalogue(columns: source_tables.VectorColumns, item_type: T.DataType) -> DataFrame:
    """One row: the catalogue with its vectors, as `pack_catalogue` packs it."""
    rows = sql.with_columns(catalogue_rows(columns), {CATALOGUE_ITEM: sql.named(CATALOGUE_ITEM).cast(item_type)})
    # A row of nothing: an empty table would have no task, and no task would report that it is empty.
    nothing = [F.lit(None).cast(field.dataType).alias(field.name) for field in rows.schema.fields]
    rows = rows.unionByName(rows.sparkSession.range(0, 1, 1, 1).select(*nothing)).repartition(1)
    return packed(rows, pack_catalogue)


def usual_length(rows: DataFrame) -> DataFrame:
    """One row: how long most vectors of a catalogue's rows are, of several lengths the shortest; null if there is none."""
    schema = T.StructType([T.StructField(name, T.LongType()) for name in (USUAL_LENGTH, N_ROWS)])
    counted = sql.aggregate(
        run_on_workers(rows, count_lengths, schema), [USUAL_LENGTH], sql.call("sum", sql.named(N_ROWS)).alias(N_ROWS)
    )
    order = sql.call("struct", sql.named(N_ROWS), -sql.named(USUAL_LENGTH))
    return sql.aggregate(counted, [], sql.call("max_by", sql.named(USUAL_LENGTH), order).alias(USUAL_LENGTH))


def catalogue_rows(columns: source_tables.VectorColumns) -> DataFrame:
    """The rows of the catalogue under our names; only those of candidates, if these are items."""
    source, candidates = columns.items, columns.candidates
    frame = source.frame
    vector = sql.named(columns.item_vector).cast(vector_type(frame, columns.item_vector))
    bias = sql.number(0.0) if columns.item_bias is None else sql.named(columns.item_bias).cast("double")
    rows = sql.select(
        frame,
        source.ids_sql().alias(CATALOGUE_ITEM),
        vector.alias(CATALOGUE_VECTOR),
        bias.alias(BIAS),
        sql.number(True).alias(IS_CATALOGUE_ROW),
    )
    if candidates is not None and candidates.role != "candidates":
        allowed = sql.select(candidates.frame, candidates.ids_sql().alias(CATALOGUE_ITEM)).distinct()
        # A row without an item stays, to be counted.
        rows = rows.join(allowed, CATALOGUE_ITEM, "left_semi").unionByName(
            sql.where(rows, sql.named(CATALOGUE_ITEM).is_null())
        )
    return rows


_REPEATED_ITEM = "item in several rows"


def users_with_reasons(
    source: source_tables.SourceTable, columns: source_tables.VectorColumns, item: str, reason: str
) -> DataFrame:
    """The rows of users' vectors under our names, without an item, each with why it cannot be used, or null."""
    rows = sql.select(source.frame, *source.raw_users(), *columns.user_columns())
    users = [sql.named(name) for name in source.user_names]
    rows = _with_reasons(rows, columns, users, source.user_reasons(), source_tables.REPEATED_USER, reason)
    return sql.with_columns(rows, {item: sql.null_of(source.item_type)})


def catalogue_with_reasons(columns: source_tables.VectorColumns, item: str, reason: str) -> DataFrame:
    """The rows of the catalogue under our names, each with why it cannot be used, or null."""
    reasons = sql.id_reasons("item", sql.named(CATALOGUE_ITEM), columns.items.item_type)
    rows = _with_reasons(catalogue_rows(columns), columns, [sql.named(CATALOGUE_ITEM)], reasons, _REPEATED_ITEM, reason)
    return rows.withColumnRenamed(CATALOGUE_ITEM, item)


def read_vectors(vectors: Vectors, names: ColumnNames, problems: list[str]) -> source_tables.SourceTable:
    """Find the columns of a model's vectors, as `read_source` finds those of its lists."""
    found: list[str] = []
    users = [
        spelled
        for name in names.user
        if (spelled := source_tables.require_column("predictions", vectors.users, name, "user", found))
    ]
    for name in users:
        kind = vectors.users.schema[name].dataType
        found += sql.problem_of_type(f"predictions: the user column {name!r}", kind, "user")
    items = source_tables.read_source("catalogue", vectors.items, names, found)
    vector = array_of_numbers("predictions", vectors.users, vectors.vector, found)
    item_vector = array_of_numbers("catalogue", vectors.items, vectors.vector, found)
    user_bias = _bias("predictions", vectors.users, vectors.user_bias, "user_bias", found)
    item_bias = _bias("catalogue", vectors.items, vectors.item_bias, "item_bias", found)
    candidates = None
    if vectors.candidates is not None:
        has_users = all(sql.find_column(vectors.candidates, name) for name in names.user)
        role: source_tables.Role = "candidates" if has_users else "catalogue"
        wrong: list[str] = []
        candidates = source_tables.read_source(role, vectors.candidates, names, wrong)
        found += [f"candidates{problem.removeprefix(role)}" for problem in wrong]
    # A problem begins with the role of its table. The caller knows the table by another name.
    for table, name in {"predictions": "users", "catalogue": "items", "candidates": "candidates"}.items():
        problems += [
            f"{name} of Vectors{problem.removeprefix(table)}" for problem in found if problem.startswith(table)
        ]
    columns = source_tables.VectorColumns(
        items, vector, item_vector, user_bias, item_bias, vectors.similarity, candidates
    )
    return source_tables.SourceTable(
        "predictions", vectors.users, tuple(users), items.item, items.item_type, arrays=True, vectors=columns
    )


def _bias(role: source_tables.Role, frame: DataFrame, name: str | None, option: str, problems: list[str]) -> str | None:
    spelled = None if name is None else source_tables.require_column(role, frame, name, option, problems)
    if spelled is not None and not isinstance(frame.schema[spelled].dataType, T.NumericType):
        kind = frame.schema[spelled].dataType.simpleString()
        problems.append(f"{role}: {option}={spelled!r} must be a number; it is {kind}. Cast it")
    return spelled


def _with_reasons(
    rows: DataFrame,
    columns: source_tables.VectorColumns,
    keys: list[sql.Sql],
    reasons: dict[str, sql.Sql],
    repeated: str,
    reason: str,
) -> DataFrame:
    """Rows of vectors with a reason each. Of several rows of a key one is used, that of the greatest vector.

    Of an item's rows that is one of those that can be used. Of a user's rows it is one of all, as they are grouped.
    """
    vector, bias, entry = sql.named(CATALOGUE_VECTOR), sql.named(ITEM_BIAS), sql.named("entry")
    reasons = {
        **reasons,
        "null vector": vector.is_null(),
        "empty vector": sql.call("size", vector) == 0,
        "null, NaN or infinite number in the vector": sql.call(
            "exists", vector, sql.function_of(["entry"], _is_no_number(entry))
        ),
        f"number beyond ±{LARGEST:g} in the vector": sql.call(
            "exists", vector, sql.function_of(["entry"], _is_too_large(entry))
        ),
        "null, NaN or infinite bias": _is_no_number(bias),
        f"bias beyond ±{LARGEST:g}": _is_too_large(bias),
        "vector of another length than most items have": sql.call("size", vector) != sql.named(USUAL_LENGTH),
    }
    rows = rows.crossJoin(usual_length(catalogue_rows(columns)).hint("broadcast"))
    rows = sql.with_columns(rows, {reason: sql.first_true(reasons)})
    usable_first = [sql.named(reason).is_not_null()] if repeated == _REPEATED_ITEM else []
    nth = sql.over(sql.call("row_number"), keys, [*usable_first, sql.descending(vector), sql.descending(bias)])
    again = sql.when(nth > 1, sql.text(repeated))
    return sql.with_columns(rows, {reason: sql.call("coalesce", sql.named(reason), again)}).drop(
        CATALOGUE_VECTOR, ITEM_BIAS, USUAL_LENGTH
    )


def _is_no_number(value: sql.Sql) -> sql.Sql:
    return value.is_null() | sql.call("isnan", value) | (sql.call("abs", value) == math.inf)


def _is_too_large(value: sql.Sql) -> sql.Sql:
    return sql.call("abs", value) > LARGEST


def read_no_answer(
    option: str | DataFrame | None,
    holders: Iterable[Iterable[DataFrame | None]],
    names: ColumnNames,
    problems: list[str],
) -> tuple[source_tables.MarkedUsers, ...]:
    """The users whom a table, or a column of the first of the holders that has it, declares to have no answer.

    A holder may be several tables, one for each model. What is wrong is added to the problems.
    """
    if option is None:
        return ()
    if not isinstance(option, str):
        source = source_tables.read_source("no_answer", option, names, problems)
        return (source_tables.MarkedUsers(NO_ANSWER, source, option, sql.number(True)),)
    tables = [[frame for frame in frames if frame is not None] for frames in holders]
    having = ([frame for frame in frames if sql.find_column(frame, option)] for frames in tables)
    frames = next(filter(None, having), [])
    if not frames:
        there = "; ".join(", ".join(frame.columns) for frames in tables for frame in frames)
        problems.append(
            f"no table has the column {option!r} (no_answer=); available: {there}. Pass a column of booleans, or a table of the "
            "users who have no answer"
        )
    marked = (_marked_by(option, frame, names, problems) for frame in frames)
    return tuple(each for each in marked if each is not None)


def users_with_answer(
    marked: Iterable[source_tables.MarkedUsers], labels: source_tables.SourceTable, threshold: float | None
) -> DataFrame:
    """The users who are declared to have no answer and have a relevant label; labels are rows."""
    grades = [value.cast("double") for value in labels.values_sql()[: len(labels.grades)]]
    is_relevant = (
        sql.any_of(grade > 0 if threshold is None else grade >= threshold for grade in grades)
        if grades
        else sql.number(True)
    )
    answered = sql.select(sql.where(labels.frame, is_relevant), *labels.named_users_sql())
    declared = sql.rows_of_all(sql.select(each.source.frame, *each.source.named_users_sql()) for each in marked)
    return answered.join(declared, answered.columns, "left_semi")


def _marked_by(
    name: str, frame: DataFrame, names: ColumnNames, problems: list[str]
) -> source_tables.MarkedUsers | None:
    """The users for whom a column is true. Rows without a user are counted where the table itself is read."""
    column = str(sql.find_column(frame, name))
    kind = frame.schema[column].dataType
    if not isinstance(kind, T.BooleanType):
        problems.append(
            f"no_answer={name!r} must be a column of booleans; it is {kind.simpleString()}. Write a condition, such as "
            "F.col('n_answers') == 0"
        )
        return None
    is_marked: sql.Sql = sql.call("coalesce", sql.named(column), sql.number(False))
    source = source_tables.read_source("no_answer", frame, names, problems)
    has_user = sql.all_of(user.is_not_null() for user in source.users_sql()) if source.user else sql.number(True)
    rows = sql.where(frame, is_marked & has_user)
    return source_tables.MarkedUsers(NO_ANSWER, replace(source, frame=rows), frame, is_marked)


@dataclass(frozen=True)
class GroupSources:
    """The tables that put items into groups, their columns found and their types checked."""

    groups: ItemGroups  # the columns are named as the table names them
    items: source_tables.SourceTable | None  # the table of items; None if no column of it is asked for
    training: source_tables.SourceTable | None  # the training data; None without groups by popularity

    def tables(self) -> list[source_tables.SourceTable]:
        """Those that there are."""
        return [source for source in (self.items, self.training) if source is not None]

    def with_groups(self, users: DataFrame, item_type: T.DataType) -> DataFrame:
        """The users, the first of each task with the packed tables that put items into groups."""
        tables, columns, training = {}, self.groups.columns, self.training
        if self.items is not None:
            for number, name in enumerate(columns):
                tables[table_of(number)] = packed_groups(self.items, name, item_type)
        # Metrics may have brought the table of popularity already.
        if training is not None and POPULARITY_TABLE not in users.columns:
            names = [source_tables.user_column(index) for index in range(len(training.user))]
            typed = source_tables.Typed(names, source_tables.SourceTable.named_users_sql, item_type)
            counted = GroupedTables(SideSources(training=training), frozenset(), typed)
            tables[table_of(len(columns))] = counted.packed_popularity()
        return broadcast_tables(users, tables)


def read_groups(
    facts: Facts, predictions: source_tables.SourceTable, names: ColumnNames, problems: list[str]
) -> GroupSources | None:
    """Find and check the columns that put items into groups, before any job; None if there are no groups."""
    groups = facts.item_groups
    if groups is None or problems:
        return None
    _check_tables(facts, groups)
    items = _read("items", facts.items, names, problems, predictions) if groups.columns else None
    training = _read("training", facts.training, names, problems, predictions) if groups.popularity else None
    columns = () if items is None else tuple(_columns_of(items, groups, problems))
    return GroupSources(replace(groups, columns=columns), items, training)


def _check_tables(facts: Facts, groups: ItemGroups) -> None:
    tables = facts.tables()
    for value, table, needed in (
        (groups.columns, "items", "item_by"),
        (groups.popularity, "training", "popularity_groups"),
    ):
        if value and tables[table] is None:
            raise InputError(f"{needed} needs a table: pass facts=Facts({table}=…, {needed}={value!r})")
        if value:
            check_table(table, tables[table])
    lower = [name.lower() for name in groups.attributes]
    if twice := [name for name in groups.attributes if lower.count(name.lower()) > 1]:
        advice = "; popularity_groups= makes groups of this name, too" if twice[0].lower() == POPULARITY else ""
        raise InputError(f"item_by names {twice[0]!r} twice{advice}")


def _read(
    role: Literal["items", "training"],
    frame: DataFrame | None,
    names: ColumnNames,
    problems: list[str],
    left: source_tables.SourceTable,
) -> source_tables.SourceTable | None:
    """A table of items as a source whose items compare with those of predictions."""
    if frame is None:
        return None
    # One table with both arrays has no column for an item.
    if left.arrays and not any(sql.find_column(frame, name) for name in names.single_items):
        names = replace(names, item=(DEFAULT_ITEM, DEFAULT_ITEM))
    n_before = len(problems)
    source = source_tables.read_source(role, frame, names, problems)
    if len(problems) == n_before and sql.common_id_type(left.item_type, source.item_type) is None:
        problems.append(
            f"items have different types: {left.item!r} of {left.role} is {left.item_type.simpleString()}, {source.item!r} of "
            f"{role} is {source.item_type.simpleString()}. Cast one of them"
        )
    return source


def _columns_of(items: source_tables.SourceTable, groups: ItemGroups, problems: list[str]) -> Iterator[str]:
    """The columns that make groups, as the table names them."""
    for name in groups.columns:
        spelled = source_tables.require_column("items", items.frame, name, "item_by", problems)
        if spelled is not None:
            kind = items.frame.schema[spelled].dataType
            entries = kind.elementType if isinstance(kind, T.ArrayType) else kind
            problems += sql.problem_of_type(f"items: the column {spelled!r} (item_by=)", entries, "category")
            yield spelled
