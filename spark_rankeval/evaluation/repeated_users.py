"""Users who stand in several rows of a model's per-user table: how they are noticed, and the words to refuse them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_rankeval.errors import InputError
from spark_rankeval.records.metrics_table import RUN_ID
from spark_rankeval.spark.describing import RUN
from spark_rankeval.spark.named_columns import find_column
from spark_rankeval.spark.per_user import is_marked
from spark_rankeval.worker.comparing import N_REPEATED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from spark_rankeval.records.slices import Key
    from spark_rankeval.spark.describing import Figures
    from spark_rankeval.spark.model_tables import ModelTables
    from spark_rankeval.statistics.moments import State
    from spark_rankeval.worker.comparing import Owner


def column_of_runs(per_user: DataFrame, others: set[str]) -> str | None:
    """The column by which a folder of per-user tables tells runs apart; None: there is none.

    Args:
        per_user: the table.
        others: columns that are something else.
    """
    column = find_column(per_user, RUN_ID)
    return None if column is None or column in others or is_marked(per_user.schema[column]) else column


def check_one_run(figures: Mapping[Key, Figures], column: str, *, has_models: bool) -> None:
    """Refuse a per-user table with users of several runs, in which the same users may stand again.

    Args:
        figures: of each group.
        column: of the runs.
        has_models: whether a model is the first part of a key.

    Raises:
        InputError: so it is.
    """
    for key, group in figures.items():
        run = group.counts[RUN]
        if run.n and run.least != run.greatest:
            rows = f"rows of the model {key[0]!r}" if has_models and key else "rows"
            msg = (
                f"the per-user table holds {rows} of several runs, by its column {column!r}, and a user of several would count once "
                f"in each. Keep the rows of one run, such as with .where(\"{column} = '…'\"), or pass model={column!r} for a summary "
                "of each run, or drop the column if they are to count so"
            )
            raise InputError(msg)


def repeated_users(owners: Mapping[Owner, State], tables: ModelTables) -> tuple[list[str], dict[str, int]]:
    """What is wrong if users stand twice in a model's table, in sentences, and how many do.

    Args:
        owners: the counts of each model.
        tables: where examples are looked for.
    """
    problems, counts = [], {}
    for owner, fields in owners.items():
        if isinstance(owner, str) and (repeated := int(fields[N_REPEATED][0])):
            example = tables.repeated_user(owner)
            problems.append(
                f"users that stand in several rows of {owner!r}: {repeated:,}{f', for example {example}' if example else ''}; "
                "each model has one row a user: give one day at a time, and a table of several models alone, not in a dict"
            )
            counts[f"n_repeated_users of {owner}"] = repeated
    return problems, counts
