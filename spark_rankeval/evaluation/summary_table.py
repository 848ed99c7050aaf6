"""The means of a per-user table as a lazy DataFrame, for pipelines in which nothing may act before the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_rankeval.evaluation.build import checked_qualities, summary_of_findings
from spark_rankeval.evaluation.summarise import UserTable
from spark_rankeval.records.table_columns import COUNT, FIGURE, FIGURES, SUMMARY, TEXT
from spark_rankeval.request.on_invalid import OnInvalid
from spark_rankeval.request.options import ByOption, SummaryOptions, Table
from spark_rankeval.spark.describing import Groups, computed_lazily, figures_by_group
from spark_rankeval.spark.local_tables import takes_local_tables
from spark_rankeval.spark.record_tables import schema_of
from spark_rankeval.statistics.intervals import IntervalMethod
from spark_rankeval.wire import Batches, messages_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_ARROW = {TEXT: pa.string(), FIGURE: pa.float64(), COUNT: pa.int64(), FIGURES: pa.map_(pa.float64(), pa.float64())}
_SCHEMA = pa.schema([pa.field(name, _ARROW[kind]) for name, kind, _ in SUMMARY.columns])


@takes_local_tables
def summary_table(
    per_user: Table,
    on_invalid: str | Mapping[str, str] | None = None,
    *,
    user: str | Sequence[str] | None = None,
    model: str | None = None,
    by: ByOption = (),
    user_weight: str | None = None,
    cluster: str | Sequence[str] | None = None,
    ci: str | IntervalMethod | None = "t",
    quantiles: Sequence[float] = (0.5,),
) -> DataFrame:
    """Compute the means of a per-user table as a lazy DataFrame, with the columns and the digits of ``summarise(…).to_spark()``.

    Nothing runs before the DataFrame is used, so it fits into pipelines that forbid actions.

    A lazy table gives no warnings: what `summarise` warns of, such as ids that never meet, has to be looked for with `summarise`. Rows of
    several runs and bad rows are errors of the query.

    Examples:
        >>> users = score_users(predictions, labels, ["rr", "recall@1"], score="score")
        >>> means = summary_table(users)
        >>> means.select("metric", "mean", "interval_low", "n_users", "n_undefined").toPandas().round(3)
             metric   mean  interval_low  n_users  n_undefined
        0        rr  0.458         0.136        8            0
        1  recall@1  0.250         0.032        8            0

    Args:
        per_user: a table of `score_users`, fresh or stored.
        on_invalid: as in `summarise`.
        user: as in `summarise`.
        model: as in `summarise`.
        by: as in `summarise`.
        user_weight: as in `summarise`.
        cluster: as in `summarise`.
        ci: as in `summarise`.
        quantiles: as in `summarise`.

    Raises:
        InputError: the table has no column of a metric.
        OptionError: an option is not valid, or users cannot be drawn because the table does not say who they are.
    """
    chosen = None if on_invalid is None else OnInvalid.read(on_invalid)
    table = UserTable.read(per_user, SummaryOptions(by, user_weight, cluster, ci, quantiles), user=user, model=model)
    messages, groups = table.states()
    rows = _Rows(replace(table, per_user=None), groups, chosen)
    return computed_lazily(messages, groups, rows, schema_of(SUMMARY.columns))


@dataclass(frozen=True)
class _Rows:
    """What a worker makes of the merged states of all users: the rows of the summary."""

    table: UserTable
    groups: Groups
    on_invalid: OnInvalid | None

    def __call__(self, batches: Batches) -> Batches:
        findings = self.table.findings(figures_by_group(list(messages_of(batches)), self.groups), self.on_invalid)
        # Bad rows are an error here, too.
        checked_qualities(findings)
        records = [_arrow_record(row.shown()) for row in summary_of_findings(findings)]
        yield pa.RecordBatch.from_pylist(records, _SCHEMA)


def _arrow_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record whose mappings are pairs, as Arrow takes them."""
    return {name: list(value.items()) if isinstance(value, Mapping) else value for name, value in record.items()}
