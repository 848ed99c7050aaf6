"""The gates of a run, what they are compared with, and how outcomes are stored; and its audit, whose limits are gates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial, reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from spark_rankeval.auditing.audit import Audit, audit, read_audited
from spark_rankeval.evaluation.result import Result
from spark_rankeval.jobs.evaluate import EvaluateConfig
from spark_rankeval.jobs.outputs import GATES, MANIFESTS, METRICS, has_table, read_metrics, run_facts
from spark_rankeval.jobs.runs import Run
from spark_rankeval.records.audit_rows import CHECKS
from spark_rankeval.records.stored import row_of
from spark_rankeval.records.summary import SummaryRow, as_json_record
from spark_rankeval.records.table_columns import GATES as GATE_COLUMNS
from spark_rankeval.records.table_columns import METRICS as METRIC_COLUMNS
from spark_rankeval.records.table_columns import RUN_ID, TIME
from spark_rankeval.run_history.gate_rules import ATTRIBUTES, GateRule
from spark_rankeval.run_history.gates import GateOutcome, check_gates, lacking_rows
from spark_rankeval.run_history.history import date_of_run
from spark_rankeval.spark.catalog import read_while_others_write, table_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# Rows of two runs that agree in these columns are the same figure; for an end of an interval also in the last three.
_FIGURE = ("model", "slice", "metric", "relevance", "definition", "dialect", "user_weight")
_SAME = (*_FIGURE, "interval_method", "interval_level", "cluster")
# Columns that no gate compares, and that take long to read.
_NOT_COMPARED = ("quantiles", "moments", "cluster_sums")
_EPOCH = datetime.fromtimestamp(0, UTC)


def outcomes_of(run: Run, rules: Sequence[GateRule], result: Result) -> list[GateOutcome]:
    """Whether a run meets its gates; it is not yet among the earlier runs."""
    earlier: list[tuple[str, SummaryRow]] = []
    output, summary = run.config.output, result.summary
    looks_back = bool(lacking_rows(rules, summary, ()))
    if looks_back and all(has_table(run.spark, output, table) for table in (MANIFESTS, METRICS)):
        earlier = read_while_others_write(partial(_look_back, run, rules, summary))
    return check_gates(rules, summary, earlier)


def _look_back(
    run: Run, rules: Sequence[GateRule], summary: Sequence[SummaryRow], missing_ok: bool
) -> list[tuple[str, SummaryRow]]:
    """The last row of each figure that a gate looks back at, of earlier runs that failed no gate, the newest run first.

    Runs come in the order of the dates in their ids, so that a night that is evaluated later has its place among the others.
    """
    manifests = run_facts(run.spark, run.config.output, (RUN_ID, "started", "gates_failed"), missing_ok=missing_ok)
    good = {
        other[RUN_ID]: datetime.fromisoformat(other["started"])
        for other in manifests
        if other[RUN_ID] not in (None, run.run_id) and other["started"] and other["gates_failed"] in (None, "0")
    }
    places = {name: _place_of(name, time, run.run_id) for name, time in good.items()}
    own_places = [_place_of(run.run_id, run.started, other) for other in (run.run_id, "")]
    ordered = sorted(
        (name for name, place in places.items() if place < own_places[not place[0]]), key=places.__getitem__
    )[::-1]
    table = read_metrics(run.spark, run.config.output, missing_ok=missing_ok)
    earlier: list[tuple[str, SummaryRow]] = []
    # The newest run mostly has all others; further runs are read only for what it lacks.
    for runs in (ordered[:1], ordered[1:]):
        times = {name: good[name] for name in runs}
        for figure, rows in lacking_rows(rules, summary, earlier) if runs else ():
            earlier += _rows_of_runs(table, times, ATTRIBUTES[figure], rows)
    return sorted(earlier, key=lambda row: places[row[0]], reverse=True)


def _place_of(name: str, started: datetime, other: str) -> tuple[bool, datetime, datetime]:
    """Where a run stands among others: by the dates in the ids if both have one, else after these and by when it began."""
    date = date_of_run(name) if date_of_run(other) else None
    return date is not None, date or started, started


def _rows_of_runs(
    table: DataFrame, runs: Mapping[str, datetime], attribute: str, rows: Sequence[SummaryRow]
) -> list[tuple[str, SummaryRow]]:
    """The rows of the same figures as some rows in the table of metrics, with their runs; of each figure the first run's.

    Only these runs count, if they began at these times. The attribute is the figure that must be finite.
    """
    began = F.concat_ws(" ", RUN_ID, F.unix_micros(TIME).cast("string"))
    row_conditions = [F.col(name).isin(sorted({getattr(row, name) for row in rows})) for name in _FIGURE]
    conditions = [
        F.col(RUN_ID).isin(list(runs)),
        *row_conditions,
        began.isin([f"{name} {(time - _EPOCH) // timedelta(microseconds=1)}" for name, time in runs.items()]),
        F.abs(attribute) < math.inf,
    ]
    needed = [name for name in METRIC_COLUMNS.names if name not in (*_SAME, *_NOT_COMPARED, TIME)]
    chosen = table.where(reduce(and_, conditions)).select(*_SAME, RUN_ID, *needed)
    place = F.coalesce(*(F.when(F.col(RUN_ID) == name, place) for place, name in enumerate(runs)))
    last = F.min_by(F.struct(RUN_ID, *needed), place).alias("last")
    newest = chosen.groupBy(*_SAME).agg(last).select(*_SAME, "last.*")
    return [(record[RUN_ID], row_of(record.asDict())) for record in newest.collect()]


def write_gates(run: Run, outcomes: Sequence[GateOutcome]) -> None:
    """Write outcomes, if there are any, as a table with one row per condition, model and slice, and log an event for each."""
    if not outcomes:
        return
    plain = [as_json_record(outcome) for outcome in outcomes]
    records = ({**outcome, TIME: run.started} for outcome in plain)
    run.write(table_of(records, GATE_COLUMNS, run.spark).coalesce(1), GATES)
    for outcome in plain:
        facts = {name: outcome[name] for name in ("rule", "on", "passed", "value", "limit")}
        run.log.tell("gate", gate=outcome["name"], **facts)


def facts_of_gates(outcomes: Sequence[GateOutcome]) -> dict[str, Any]:
    """What a manifest says of gates, if there are any."""
    if not outcomes:
        return {}
    return {"gates": [*map(as_json_record, outcomes)], "gates_failed": sum(not outcome.passed for outcome in outcomes)}


def audit_tables(config: EvaluateConfig, tables: Mapping[str, DataFrame]) -> Audit | None:
    """The audit of a run; None if the configuration asks for none."""
    if config.audit is None:
        return None
    # An evaluation reads no times, and not all of training. So rows that it can use may be bad rows of the audit.
    on_invalid = config.evaluation.on_invalid
    return audit(**_tables_of(config, tables), on_invalid="drop" if on_invalid == "quarantine" else on_invalid)


def checks_to_make(config: EvaluateConfig, tables: Mapping[str, DataFrame]) -> list[tuple[str, str]]:
    """The checks of a run by name, and why some cannot be made; tables that cannot be audited are refused."""
    if config.audit is None:
        return []
    inputs = read_audited(**_tables_of(config, tables))
    reasons = {check.name: inputs.why_not(check.needs) for check in CHECKS}
    return [(name, f"not made: {reason}" if reason else "") for name, reason in reasons.items()]


def outcomes_of_audit(config: EvaluateConfig, audited: Audit | None) -> list[GateOutcome]:
    """Whether the audit keeps the limits of the configuration."""
    if config.audit is None or audited is None:
        return []
    limits = config.audit.limits
    return [
        GateOutcome(
            **vars(gate),
            metric=f"audit.{name}",
            model="",
            slice="all",
            on="share",
            rule="max",
            value=audited[name].share,
            limit=float(limit),
            earlier="",
        )
        for (name, limit), gate in zip(limits.items(), audited.check(limits), strict=True)
    ]


def _tables_of(config: EvaluateConfig, tables: Mapping[str, DataFrame]) -> dict[str, Any]:
    """The arguments of `audit`, except `on_invalid`. Vectors are no lists, so a run of them audits training and labels."""
    assert config.audit is not None, "the caller looked"
    columns, arguments = config.columns, config.arguments(tables)
    return {
        "training": arguments["training"],
        "labels": arguments["labels"],
        "predictions": tables.get("predictions"),
        "items": tables.get("items"),
        "time": config.audit.time,
        "user": columns.user,
        "item": columns.item,
        "model": columns.model,
    }
