"""The gates of a run: what they are compared with, and how their outcomes are stored."""

from __future__ import annotations

import math
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_rankeval.gates import check_gates, names
from spark_rankeval.jobs.runs import MANIFESTS, METRICS, read_metrics, run_facts
from spark_rankeval.long_table import RUN_ID, TIME, row_of
from spark_rankeval.spark.storage import exists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from spark_rankeval.gates import GateOutcome, GateRule
    from spark_rankeval.jobs.events import EventLog
    from spark_rankeval.jobs.runs import Run
    from spark_rankeval.result import Result
    from spark_rankeval.summary import SummaryRow

_KINDS: dict[str, T.DataType] = {"passed": T.BooleanType(), "value": T.DoubleType(), "limit": T.DoubleType()}
_COLUMNS = (
    "name",
    "condition",
    "found",
    "passed",
    "metric",
    "model",
    "slice",
    "on",
    "rule",
    "value",
    "limit",
    "earlier",
)
_SCHEMA = T.StructType(
    [T.StructField(name, _KINDS.get(name, T.StringType())) for name in _COLUMNS]
    + [T.StructField(TIME, T.TimestampType())]
)


def outcomes_of(run: Run, rules: Sequence[GateRule], result: Result) -> list[GateOutcome]:
    """Whether a run meets its gates, before it is itself among the runs.

    Args:
        run: under way.
        rules: the gates.
        result: of the run.
    """
    looking_back = [rule for rule in rules if rule.looks_back]
    keys = {row.metric for row in result.summary if any(names(rule.metric, row.key) for rule in looking_back)}
    return check_gates(rules, result.summary, _good_rows(run, sorted(keys)) if keys else ())


def _good_rows(run: Run, metrics: Sequence[str]) -> list[tuple[str, SummaryRow]]:
    """Rows of the earlier runs that failed no gate, the newest first; what no manifest names is no run."""
    if not (exists(run.spark, f"{run.output}/{MANIFESTS}") and exists(run.spark, f"{run.output}/{METRICS}")):
        return []
    manifests = run_facts(run.spark, run.output, (RUN_ID, "started", "gates_failed"))
    good = {
        one[RUN_ID]: datetime.fromisoformat(one["started"])
        for one in manifests
        if one[RUN_ID] not in (None, run.run_id) and one["started"] and one["gates_failed"] in (None, "0")
    }
    good = {name: time for name, time in good.items() if time < run.started}
    table = read_metrics(run.spark, run.output).where(F.col("metric").isin(list(metrics)))
    found = [record.asDict() for record in table.drop(TIME).collect()]
    rows = [(record[RUN_ID], row_of(record)) for record in found if record[RUN_ID] in good]
    earliest = datetime.min.replace(tzinfo=UTC)
    return sorted(rows, key=lambda one: good.get(one[0], earliest), reverse=True)


def gates_table(run: Run, outcomes: Sequence[GateOutcome]) -> DataFrame:
    """Outcomes as the table that all runs share: a row a condition, model and slice.

    Args:
        run: whose they are.
        outcomes: of its gates.
    """
    rows = [(*(_figure(asdict(one)[name]) for name in _COLUMNS), run.started) for one in outcomes]
    return run.spark.createDataFrame(rows, _SCHEMA).coalesce(1)


def told(outcomes: Sequence[GateOutcome]) -> dict[str, Any]:
    """What a manifest says of gates; nothing of none."""
    if not outcomes:
        return {}
    plain = [{name: _figure(value) for name, value in asdict(one).items()} for one in outcomes]
    return {"gates": plain, "gates_failed": sum(not one.passed for one in outcomes)}


def tell_gates(log: EventLog, outcomes: Sequence[GateOutcome]) -> None:
    """An event for each outcome."""
    for one in outcomes:
        figures = {"value": _figure(one.value), "limit": _figure(one.limit)}
        log.tell("gate", gate=one.name, rule=one.rule, on=one.on, passed=one.passed, **figures)


def _figure(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
