"""The tables of training, items and a baseline that a caller gave: which of them the metrics ask for, and which they lack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_rankeval.checks import check_name
from spark_rankeval.errors import InputError
from spark_rankeval.ranking.recommended import OF_ITEMS
from spark_rankeval.request.readings import tables_asked_for
from spark_rankeval.spark.inputs import FurtherTables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_rankeval.dialects import Dialect
    from spark_rankeval.metrics.base import Metric
    from spark_rankeval.request.options import Facts

_MEANING = (
    "Training is a table of users and items, the interactions that the model was trained on; items one of items and their "
    "attributes; baseline one of recommendations, as predictions"
)


def further_tables(asked: Mapping[str, Metric], convention: Dialect, facts: Facts) -> FurtherTables | None:
    """The tables that the metrics ask for beside predictions and labels; None if they ask for none.

    Args:
        asked: the metrics by label.
        convention: the dialect.
        facts: what the caller gave.

    Raises:
        InputError: a table that a metric asks for was not given.
    """
    given, category, vector = facts.tables(), facts.category, facts.vector
    needed = tables_asked_for(asked, convention)
    lacking = [f"{', '.join(labels)} needs {table}" for table, labels in needed.tables.items() if given[table] is None]
    if lacking:
        tables = ", ".join(f"{table}=…" for table in needed.tables if given[table] is None)
        msg = f"{'; '.join(lacking)}: pass facts=Facts({tables}). {_MEANING}"
        raise InputError(msg)
    if not needed.facts and not needed.tables:
        return None
    for option, name in (("category", category), ("vector", vector)):
        check_name(option, name)
    return FurtherTables(
        **{table: frame if table in needed.tables else None for table, frame in given.items()},
        category=category if "category" in needed.facts else None,
        vector=vector if needed.facts & {"vector", "history_vector"} else None,
        facts_of_items=bool(needed.facts & set(OF_ITEMS)),
    )
