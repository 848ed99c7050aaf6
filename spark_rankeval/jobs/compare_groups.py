"""The configuration of the job that compares groups of different users, as in an A/B test, and its command.

It reads per-user tables, and writes differences and verdicts.
"""

from __future__ import annotations

from collections.abc import Mapping  # of fields, whose types are looked at
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from spark_rankeval.jobs.command import Command, run_as_task
from spark_rankeval.jobs.compare import PerUserTable  # of fields, whose types are looked at
from spark_rankeval.jobs.config import JobConfig, Source, empty_names, keys_of, names_in
from spark_rankeval.statistics.intervals import checked_level
from spark_rankeval.statistics.verdicts import TIGHTEST_AT


@dataclass(frozen=True)
class Experiment:
    """The groups and metrics to compare, and the options of `compare_groups`.

    Attributes:
        baseline: the name of the group that the others are compared with, such as control.
        group: the column of [results] with the name of each user's group.
        metrics: the metrics to compare; left out, all that every table has.
        user: the columns that identify a user; needed only if the tables do not record them, as tables read from CSV.
        user_weight: the column of users' weights; left out, the weights that the tables record, if any.
        cluster: the columns that make users a cluster; left out, those that the tables record.
        covariate: a column that was measured before the experiment, and that explains a part of the differences between users.
        sequential: whether intervals and p-values hold at all looks together.
        tightest_at: with sequential, the number of users at which the interval is tightest; set it before the first look.
        level: the confidence level of the intervals. A p-value of at most 1 − level, after correction, counts as a difference.
        margin: the largest difference that does not matter, or a table of margins by metric.
        correction: the correction of p-values for the number of metrics and groups.
    """

    baseline: str
    group: str | None = None
    metrics: str | tuple[str, ...] | None = None
    user: str | tuple[str, ...] | None = None
    user_weight: str | None = None
    cluster: str | tuple[str, ...] | None = None
    covariate: str | None = None
    sequential: bool = False
    tightest_at: int = TIGHTEST_AT
    level: float = 0.95
    margin: float | Mapping[str, float] = 0.0
    correction: Literal["holm", "benjamini_hochberg", "none"] = "holm"

    def options(self) -> dict[str, Any]:
        """The options as `compare_groups` takes them."""
        return dict(vars(self))


@dataclass(frozen=True)
class CompareGroupsConfig(JobConfig):
    """The configuration of jobs/compare_groups.py; each attribute is a section of the file.

    Attributes:
        experiment: the baseline and options.
        groups: a per-user table for each group, by the name of the group.
        results: one table of all groups, instead of groups; experiment.group names its column of groups.
    """

    experiment: Experiment
    groups: Mapping[str, PerUserTable] = field(default_factory=dict)
    results: PerUserTable | None = None

    def sources(self) -> dict[str, Source]:
        """The tables to read, by the names of their sections."""
        sources: dict[str, Source] = {f"groups.{name}": table for name, table in self.groups.items()}
        return sources if self.results is None else sources | {"results": self.results}

    def names_of_ids(self) -> frozenset[str]:
        """The columns that identify users, groups and clusters."""
        asked = self.experiment
        return names_in(asked.user, asked.group, asked.cluster)

    def keys(self) -> dict[str, str]:
        """The keys of the options of `compare_groups`; `on_invalid` belongs to the job that evaluates."""
        return {**keys_of("experiment", Experiment), "on_invalid": "evaluation.on_invalid"}

    def problems(self) -> list[str]:
        """What is not valid in its sections, alone or together."""
        problems, asked = super().problems(), self.experiment
        names = ("group", "user", "user_weight", "cluster", "covariate")
        problems += empty_names("experiment", {name: getattr(asked, name) for name in names})
        if bool(self.groups) == (self.results is not None):
            got = "both" if self.groups else "neither"
            problems.append(
                f"name the tables as [groups.…], one per group, or as [results], one table of all groups; found {got}"
            )
        if self.results is not None and asked.group is None:
            problems.append("experiment.group must name the column of [results] with the users' groups")
        if self.groups and asked.group is not None:
            problems.append("experiment.group is for [results]; in [groups] the sections name the groups")
        if self.groups and asked.baseline not in self.groups:
            known = ", ".join(map(repr, self.groups))
            problems.append(f"experiment.baseline {asked.baseline!r} is not among the groups: {known}")
        if len(self.groups) == 1:
            problems.append("[groups] has only one group; give it another one to compare with")
        if asked.tightest_at < 1:
            problems.append(f"experiment.tightest_at must be a number of users from 1 on; found {asked.tightest_at}")
        if self.output.report:
            problems.append("output.report is for jobs/evaluate.py and jobs/compare.py; this job writes no report")
        return problems + self.refused("experiment", lambda: checked_level(asked.level))


COMMAND = Command(
    "compare_groups",
    "Compare groups of different users with a baseline, as in an A/B test, from per-user tables.",
    CompareGroupsConfig,
)
main, task = COMMAND.main, partial(run_as_task, COMMAND.main)
