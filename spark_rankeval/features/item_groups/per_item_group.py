"""The lazy table of every user in every group of items where the user has a label."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.errors import InputError
from spark_rankeval.features.item_groups.scored_pairs import score_pairs
from spark_rankeval.features.item_groups.tables import ATTRIBUTE_KEY, GROUP_KEY
from spark_rankeval.metrics.naming import parse_metric
from spark_rankeval.request.task import has_groups
from spark_rankeval.spark.workers import run_on_workers
from spark_rankeval.worker.grouped_row import USER_WEIGHT
from spark_rankeval.worker.scoring import MODEL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_rankeval.spark.scoring import Scoring

# The columns that tell the group.
ITEM_ATTRIBUTE, ITEM_GROUP = "item_attribute", "item_group"


def per_item_group(scoring: Scoring) -> DataFrame:
    """The lazy table of every user and group of items: the user's columns, the group, a double for each metric that groups have."""
    if not scoring.item_attributes:
        msg = "the evaluation has no groups of items; name them with facts=Facts(items=…, item_by=…)"
        raise InputError(msg)
    task, schema = scoring.reading.task, scoring.schema
    grouping = scoring.grouping(scoring.plan(exact=True, lazy=True))
    users = grouping.frame(with_users=True)
    values = tuple(f"metric_{place}" for place in range(len(scoring.reading.columns)))
    name_of = dict(zip(scoring.reading.columns, values, strict=True))
    attributes = list(grouping.attributes.columns)
    counted = [task.weight_count] if task.weight_count else []
    text, double = T.StringType(), T.DoubleType()
    kinds = [
        *zip(grouping.user_columns, grouping.user_types(), strict=True),
        *((name, double if name == USER_WEIGHT else text) for name in attributes),
        *((name, T.LongType()) for name in counted),
        *((name, text) for name in (ATTRIBUTE_KEY, GROUP_KEY, MODEL)),
        *((name, double) for name in values),
    ]
    run = score_pairs(task, (*grouping.user_columns, *attributes), values)
    scored = run_on_workers(users, run, T.StructType([T.StructField(name, kind) for name, kind in kinds]))
    metrics = tuple(
        replace(metric, normaliser="", standard="", standard_column="")
        for metric in schema.metrics
        if has_groups(parse_metric(metric.definition).resolve())
    )
    schema = replace(schema, metrics=metrics, counts=(), hashes={})
    ours = [*grouping.user_columns, *attributes, *counted, *([] if schema.model is None else [MODEL])]
    columns = schema.marked([F.col(name) for name in (*ours, *(name_of[metric.column] for metric in metrics))])
    if twice := [name for name in (ITEM_ATTRIBUTE, ITEM_GROUP) if name in schema.marks()]:
        msg = (
            f"the table of users and groups has a column {twice[0]!r} of its own; rename the other column of that name"
        )
        raise InputError(msg)
    groups = [F.col(ATTRIBUTE_KEY).alias(ITEM_ATTRIBUTE), F.col(GROUP_KEY).alias(ITEM_GROUP)]
    n_users = len(schema.users)
    return scored.select(*columns[:n_users], *groups, *columns[n_users:])
