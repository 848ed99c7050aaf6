"""The section of a configuration that asks for an audit."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 # of a field, whose type is looked at
from dataclasses import dataclass, field

from spark_rankeval.auditing.audit_result import check_limits
from spark_rankeval.errors import OptionError
from spark_rankeval.jobs.config import empty_names


@dataclass(frozen=True)
class AuditSettings:
    """An audit of training, labels and predictions: what leaked.

    Attributes:
        time: the column of times in training and labels, and in predictions that of the prediction, if they have it.
        limits: the largest share that passes, from 0 to 1, by the name of the check; a run above one exits with 4.
    """

    time: str = "timestamp"
    limits: Mapping[str, float] = field(default_factory=dict)

    def problems(self) -> list[str]:
        """The limits that cannot be met or belong to no check."""
        problems = empty_names("audit", {"time": self.time})
        try:
            check_limits(self.limits)
        except OptionError as error:
            problems.append(f"audit.{error}")
        return problems
