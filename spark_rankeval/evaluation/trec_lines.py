"""A summary as trec_eval prints it, with counts and, if asked for, every query's values from the per-user table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_rankeval.spark.queries import queries_of, totals_of
from spark_rankeval.tables.trec import Query, render_trec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from spark_rankeval.records.summary import SummaryRow

_NO_QUERY = Query("all", 0, 0, 0, (), 0)


def in_trec_lines(
    rows: Sequence[SummaryRow],
    models: Sequence[str],
    per_user: DataFrame,
    columns: Mapping[str, str],
    *,
    per_query: bool,
    runid: str | None,
) -> str:
    """The lines of every model, one model after the other; see `Result.to_trec`.

    Raises:
        InputError: the table has no column of users, or lacks their counts.
    """
    first = [row for row in rows if row.model == rows[0].model]
    totals = totals_of(per_user, first, columns)
    queries = queries_of(per_user, first, columns) if per_query else {}
    texts = []
    for model in models:
        of_model = [row for row in rows if row.model == model]
        total = totals.get(model, _NO_QUERY)._replace(values=[row.mean for row in of_model])
        of_queries = queries.get(model, [])
        if total.n_found is None:
            # A count that not every query has is printed of none.
            of_queries = [query._replace(n_found=None) for query in of_queries]
        texts.append(render_trec(of_model, of_queries, total, runid or model or None))
    return "\n".join(texts)
