"""Catalogues that a task cannot hold as a whole: tasks of their own work each part, and what they count meets by user."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.spark.packed import given_to_tasks
from spark_rankeval.spark.partitions import to_partitions
from spark_rankeval.spark.platforms import setting
from spark_rankeval.spark.sql_text import call, field_of, named, rows_of_all, select, union, when, with_columns
from spark_rankeval.spark.workers import run_on_workers
from spark_rankeval.worker import counted_lists as names
from spark_rankeval.worker import reading
from spark_rankeval.worker.catalogue import CATALOGUE_FAULTS, PART
from spark_rankeval.worker.catalogue_parts import ANSWER, MODEL, count_part, score_asked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from spark_rankeval.worker.catalogue_parts import Part
    from spark_rankeval.worker.process import Run

# Columns of ours on the way: whether a row is of somebody with predictions, all that is known of the user, and the number of a partition.
_PREDICTED, _ROW, _PLACE = "predicted_", "row_", "place_"
# The columns that each model has.
_OF_MODELS = (reading.VECTOR, reading.BIAS, reading.PREDICTION_ROWS, reading.CANDIDATES, names.SCORES_OF_PARTS)


class PartedModel(NamedTuple):
    """A model whose catalogue is worked in parts."""

    part: Part  # what a task must know of each of them
    n_parts: int
    packed: DataFrame  # a row a part: its number from 0, and the part of the catalogue


def with_counts_of_parts(
    users: DataFrame, user_columns: list[str], item_type: T.DataType, models: Sequence[PartedModel]
) -> DataFrame:
    """Grouped users with what all parts of the models' catalogues say of each, as `CountedLists` reads it.

    Every part meets all users in tasks of its own. The first time, they score the labels that the part has; with these scores,
    they count the second time. No task holds more than one part.
    """
    # Rows of nobody may be two: one of predictions and one of labels.
    users = with_columns(users, {_PREDICTED: named(reading.PREDICTION_ROWS).is_not_null()})
    keys = (*user_columns, _PREDICTED)
    parts = tuple(model.part for model in models for _ in range(model.n_parts))
    if reading.LABELS in users.columns:
        # In one order: what tasks say of the items is aligned with it.
        asked = call("array_sort", call("array_compact", named(reading.LABELS)))
        # All tasks read what one shuffle wrote.
        users = _gathered(with_columns(users, {names.ASKED: asked}), keys)
        scores = _answers(users, keys, models, score_asked(parts, keys), T.ArrayType(T.DoubleType()))
        users = _gathered(users, keys, scores, models, names.SCORES_OF_PARTS)
    counts = _answers(users, keys, models, count_part(parts, keys), _type_of_counts(item_type))
    return _gathered(users, keys, counts, models, names.COUNTS_OF_PARTS).drop(_PREDICTED)


def _type_of_counts(item_type: T.DataType) -> T.StructType:
    whole = T.LongType()
    fields: dict[str, T.DataType] = {
        names.HAS_VECTOR: T.BooleanType(),
        **dict.fromkeys((names.N_LISTED, names.N_EXCLUDED, *CATALOGUE_FAULTS), whole),
        names.PLACE: T.ArrayType(T.ByteType()),
        **dict.fromkeys((names.ABOVE, names.TIED, names.BEFORE), T.ArrayType(whole)),
        names.FIRST: T.ArrayType(item_type),
        names.FIRST_SCORES: T.ArrayType(T.DoubleType()),
    }
    return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])


def _answers(
    users: DataFrame, keys: tuple[str, ...], models: Sequence[PartedModel], run: Run, kind: T.DataType
) -> DataFrame:
    """What each part says of all users."""
    n_parts = sum(model.n_parts for model in models)
    offsets = [0, *accumulate(model.n_parts for model in models)]
    part = named(PART)
    columns = [named(name) for name in (*keys, reading.NO_USER)]
    columns += [named(name) for name in (names.ASKED, reading.EXCLUDED) if name in users.columns]
    for model, start, end in zip(models, offsets, offsets[1:], strict=False):
        of_users = [reading.of_model(name, model.part.model) for name in _OF_MODELS]
        # A part takes along nothing of other models.
        is_wanted = ~(part < start) & (part < end)
        columns += [when(is_wanted, named(name)).alias(name) for name in of_users if name in users.columns]
    # As many tasks as other shuffles have, or some more.
    per_part = -(-int(setting(users.sparkSession, "spark.sql.shuffle.partitions", "200")) // n_parts)
    place = F.col(PART) * per_part + F.pmod(F.xxhash64(*keys), F.lit(per_part))
    every = users.withColumn(PART, F.explode(F.sequence(F.lit(0), F.lit(n_parts - 1))))
    rows = select(every, *columns, part).withColumn(_PLACE, place)
    rows = to_partitions(rows, _PLACE, n_parts * per_part).drop(_PLACE)
    packed = rows_of_all(
        model.packed.withColumn(PART, F.col(PART) + start) for model, start in zip(models, offsets, strict=False)
    )
    answers = [T.StructField(MODEL, T.IntegerType()), T.StructField(ANSWER, kind)]
    schema = T.StructType([*(users.schema[key] for key in keys), *answers])
    return run_on_workers(given_to_tasks(rows, {reading.CATALOGUE: packed}, by=PART), run, schema)


def _gathered(
    users: DataFrame,
    keys: tuple[str, ...],
    answers: DataFrame | None = None,
    models: Sequence[PartedModel] = (),
    name: str = "",
) -> DataFrame:
    """Users, each with the answers of each model as a list of this name, in any order; by one shuffle."""
    known = [column for column in users.columns if column not in keys]
    rows = select(users, *map(named, keys), call("struct", *map(named, known)).alias(_ROW))
    if answers is not None:
        rows = union(rows, answers)
    places = [model.part.model for model in models]
    lists = {reading.of_model(name, place): when(named(MODEL) == place, named(ANSWER)) for place in places}
    first = F.first(_ROW, ignorenulls=True).alias(_ROW)
    collected = [call("collect_list", values).alias(column).column for column, values in lists.items()]
    grouped = rows.groupBy(*keys).agg(first, *collected)
    fields = [field_of(_ROW, column).alias(column) for column in known]
    return select(grouped, *map(named, keys), *fields, *map(named, lists))
