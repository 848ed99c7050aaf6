"""The audit of a run: what a job's tables share that they should not, and the limits of the configuration as gates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_rankeval.auditing.audit import audit, read_tables
from spark_rankeval.records.audit_rows import CHECKS
from spark_rankeval.run_history.gates import GateOutcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from spark_rankeval.auditing.audit_result import Audit
    from spark_rankeval.jobs.evaluate import EvaluateConfig


def audit_tables(config: EvaluateConfig, tables: Mapping[str, DataFrame]) -> Audit | None:
    """The audit of a run; None if the configuration asks for none."""
    if config.audit is None:
        return None
    # An evaluation reads no times, and not all of training. So rows that it can use may be bad rows of the audit.
    given = config.evaluation.on_invalid
    return audit(**_call(config, tables), on_invalid="drop" if given == "quarantine" else given)


def checks_to_make(config: EvaluateConfig, tables: Mapping[str, DataFrame]) -> list[tuple[str, str]]:
    """The checks of a run by name, and why some cannot be made; tables that cannot be audited are refused."""
    if config.audit is None:
        return []
    found = read_tables(**_call(config, tables))
    reasons = {check.name: found.why_not(check.needs) for check in CHECKS}
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


def _call(config: EvaluateConfig, tables: Mapping[str, DataFrame]) -> dict[str, Any]:
    """The arguments of `audit`, except `on_invalid`. Vectors are no lists, so a run of them audits training and labels."""
    assert config.audit is not None, "the caller looked"
    columns, given = config.columns, config.arguments(tables)
    return {
        "training": given["training"],
        "labels": given["labels"],
        "predictions": tables.get("predictions"),
        "items": tables.get("items"),
        "time": config.audit.time,
        "user": columns.user,
        "item": columns.item,
        "model": columns.model,
    }
