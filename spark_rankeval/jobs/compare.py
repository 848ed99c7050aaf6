"""The configurations and commands of the jobs that compare: models on the same users, and groups of different users as in an A/B test.

Both read per-user tables, and write differences and verdicts.
"""

from __future__ import annotations

from collections.abc import Mapping  # of fields, whose types are looked at
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from spark_rankeval.jobs.command import Command, run_as_task
from spark_rankeval.jobs.config import (
    JobConfig,
    Output,
    Source,
    empty_names,
    keys_of,
    names_in,
    wrong_catalog,
    wrong_run_id,
)
from spark_rankeval.request.call import parts_of
from spark_rankeval.statistics.groups import TIGHTEST_AT
from spark_rankeval.statistics.intervals import checked_level
from spark_rankeval.statistics.resampling import checked_replicates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class PerUserTable(Source):
    """A per-user table: one that a run of jobs/evaluate.py wrote, or any other source.

    Attributes:
        output: the output folder of jobs/evaluate.py, instead of path or table.
        catalog: the schema of the catalogue that has its tables; for Sail, whose catalogue is as old as a session, beside output.
        run_id: the run there.
    """

    output: str | None = None
    catalog: str | None = None
    run_id: str | None = None

    @property
    def runs(self) -> Output | None:
        """Where the run is; None: the table is no run's."""
        if self.output is None and self.catalog is None:
            return None
        return Output(self.output or "", self.catalog)

    @property
    def place(self) -> str:
        """A description of where the table is, without secrets."""
        if self.runs is None:
            return super().place
        return self.redacted(f"run {self.run_id} of {self.catalog or self.output}")

    def problems(self, section: str) -> list[str]:
        """The problems of this section of the file, by its name there."""
        if self.runs is None and self.run_id is None:
            return super().problems(section)
        if self.runs is None or self.run_id is None:
            return [f"[{section}] needs output (a folder) or catalog (a schema), and run_id (a run in it), together"]
        is_empty = self.output is not None and not self.output.strip()
        problems = [f"{section}.output must name a folder; it is empty"] if is_empty else []
        problems += wrong_catalog(f"{section}.catalog", self.catalog)
        problems += wrong_run_id(f"{section}.run_id", self.run_id)
        defaults = vars(Source())
        others = [name for name, default in defaults.items() if getattr(self, name) != default]
        if others:
            problems.append(f"[{section}] names a run by output and run_id; it takes no {', '.join(others)}")
        return problems


@dataclass(frozen=True)
class Comparison:
    """The models and metrics to compare, and the options of `compare`.

    Attributes:
        baseline: the name of the model that the others are compared with.
        metrics: the metrics to compare; left out, all that every table has.
        user: the columns that identify a user; needed only if the tables do not record them, as tables read from CSV.
        model: the column with the names of the models in [results]; needed only if the table does not record it.
        level: the confidence level of the intervals. A p-value of at most 1 − level, after correction, counts as a difference.
        margin: the largest difference that does not matter, or a table of margins by metric.
        headline: the metric that is tested alone, and the others after it; needs the correction "holm".
        test: the test whose p-value is corrected and decides the verdict.
        correction: the correction of p-values for the number of metrics and models.
        replicates: the number of replicates of the randomisation test.
        seed: another seed draws other random signs.
        by: attributes that divide the users into slices.
        totals: whether to add a total over each attribute, if by has several.
        cluster: the columns that make users a cluster; left out, those that the tables record.
        same_labels: whether models that were evaluated on different labels, users or exclusions are an error.
    """

    baseline: str
    metrics: str | tuple[str, ...] | None = None
    user: str | tuple[str, ...] | None = None
    model: str | None = None
    level: float = 0.95
    margin: float | Mapping[str, float] = 0.0
    headline: str | None = None
    test: Literal["sign_flip", "t"] = "sign_flip"
    correction: Literal["holm", "benjamini_hochberg", "none"] = "holm"
    replicates: int = 9999
    seed: int = 0
    by: str | tuple[str, ...] = ()
    totals: bool = False
    cluster: str | tuple[str, ...] | None = None
    same_labels: bool = False

    def arguments(self) -> dict[str, Any]:
        """The options as `compare` takes them."""
        options = dict(vars(self))
        return options | {"by": parts_of(self.by, totals=options.pop("totals"))}


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

    def arguments(self) -> dict[str, Any]:
        """The options as `compare_groups` takes them."""
        return dict(vars(self))


@dataclass(frozen=True)
class ComparisonConfig(JobConfig):
    """What the configurations of both jobs share: per-user tables by name, or one table of all of them, and a section of options."""

    # Of each job: the section of options, the sections of tables, the key for the column of names, and all keys for columns.
    section, sides, name_key = "", "", ""
    column_keys = tuple[str, ...]()

    @property
    def options(self) -> Comparison | Experiment:
        """The section of options."""
        options: Comparison | Experiment = getattr(self, self.section)
        return options

    @property
    def tables(self) -> Mapping[str, PerUserTable]:
        """The per-user tables by the names of models or groups; empty if one table has all."""
        tables: Mapping[str, PerUserTable] = getattr(self, self.sides)
        return tables

    @property
    def one_table(self) -> PerUserTable | None:
        """The table of all models or groups, if there is one."""
        table: PerUserTable | None = vars(self)["results"]
        return table

    def sources(self) -> dict[str, Source]:
        """The tables to read, by the names of their sections."""
        sources: dict[str, Source] = {f"{self.sides}.{name}": table for name, table in self.tables.items()}
        return sources if self.one_table is None else sources | {"results": self.one_table}

    def compared(self, tables: Mapping[str, DataFrame]) -> Mapping[str, DataFrame] | DataFrame:
        """The tables that were read, as `compare` and `compare_groups` take them."""
        return {name: tables[f"{self.sides}.{name}"] for name in self.tables} or tables["results"]

    def names_of_ids(self) -> frozenset[str]:
        """The columns that identify users, models, groups, slices and clusters."""
        keys = (key for key in self.column_keys if key not in ("user_weight", "covariate"))
        return names_in(*(getattr(self.options, key) for key in keys))

    def keys(self) -> dict[str, str]:
        """The keys of the options in the file; `on_invalid` belongs to the job that evaluates."""
        return {**keys_of(self.section, type(self.options)), "on_invalid": "evaluation.on_invalid"}

    def problems(self) -> list[str]:
        """What is not valid in its sections, alone or together."""
        options, key = self.options, f"{self.section}.{self.name_key}"
        problems = super().problems()
        problems += empty_names(self.section, {name: getattr(options, name) for name in self.column_keys})
        if bool(self.tables) == (self.one_table is not None):
            got = "both" if self.tables else "neither"
            problems.append(
                f"name the tables as [{self.sides}.…], one per {self.name_key}, or as [results], one table of several "
                f"{self.sides}; found {got}"
            )
        if self.tables and getattr(options, self.name_key) is not None:
            problems.append(f"{key} is for [results]; in [{self.sides}] the sections name the {self.sides}")
        if self.tables and options.baseline not in self.tables:
            names = ", ".join(map(repr, self.tables))
            problems.append(f"{self.section}.baseline {options.baseline!r} is not among the {self.sides}: {names}")
        if len(self.tables) == 1:
            problems.append(f"[{self.sides}] has only one {self.name_key}; give it another one to compare with")
        return problems + self.refused(self.section, lambda: checked_level(options.level))


@dataclass(frozen=True)
class CompareConfig(ComparisonConfig):
    """The configuration of jobs/compare.py; each attribute is a section of the file.

    Attributes:
        comparison: the baseline and options.
        models: a per-user table for each model, by the name of the model.
        results: one table of several models, instead of models.
    """

    section, sides, name_key = "comparison", "models", "model"
    column_keys = ("user", "model", "by", "cluster")

    comparison: Comparison
    models: Mapping[str, PerUserTable] = field(default_factory=dict)
    results: PerUserTable | None = None

    def problems(self) -> list[str]:
        """What is not valid in its sections, alone or together."""
        problems, options = super().problems(), self.comparison
        if self.report.dialects:
            problems.append("report.dialects needs predictions and labels; use it with jobs/evaluate.py")
        return problems + self.refused(
            "comparison",
            lambda: checked_replicates(options.replicates),
            lambda: parts_of(options.by, totals=options.totals),
        )


@dataclass(frozen=True)
class CompareGroupsConfig(ComparisonConfig):
    """The configuration of jobs/compare_groups.py; each attribute is a section of the file.

    Attributes:
        experiment: the baseline and options.
        groups: a per-user table for each group, by the name of the group.
        results: one table of all groups, instead of groups; experiment.group names its column of groups.
    """

    section, sides, name_key = "experiment", "groups", "group"
    column_keys = ("group", "user", "user_weight", "cluster", "covariate")

    experiment: Experiment
    groups: Mapping[str, PerUserTable] = field(default_factory=dict)
    results: PerUserTable | None = None

    def problems(self) -> list[str]:
        """What is not valid in its sections, alone or together."""
        problems, options = super().problems(), self.experiment
        if self.results is not None and options.group is None:
            problems.append("experiment.group must name the column of [results] with the users' groups")
        if options.tightest_at < 1:
            problems.append(f"experiment.tightest_at must be a number of users from 1 on; found {options.tightest_at}")
        if self.output.report:
            problems.append("output.report is for jobs/evaluate.py and jobs/compare.py; this job writes no report")
        return problems


COMMAND = Command(
    "compare", "Compare models with a baseline on the same users, from their per-user tables.", CompareConfig
)
GROUPS_COMMAND = Command(
    "compare_groups",
    "Compare groups of different users with a baseline, as in an A/B test, from per-user tables.",
    CompareGroupsConfig,
    module="compare_run",
)
main, task = COMMAND.main, partial(run_as_task, COMMAND.main)
groups_main, groups_task = GROUPS_COMMAND.main, partial(run_as_task, GROUPS_COMMAND.main)
