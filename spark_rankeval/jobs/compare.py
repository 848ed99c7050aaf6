"""The configuration of the job that compares models, and its command.

It reads per-user tables, and writes differences and verdicts.
"""

from __future__ import annotations

from collections.abc import Mapping  # of fields, whose types are looked at
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from spark_rankeval.jobs.command import Command, run_as_task
from spark_rankeval.jobs.config import JobConfig, Source, empty_names, keys_of, names_in, wrong_run_id
from spark_rankeval.request.options import parts_of
from spark_rankeval.statistics.intervals import checked_level
from spark_rankeval.statistics.resampling import checked_replicates


@dataclass(frozen=True)
class PerUserTable(Source):
    """A per-user table: one that a run of jobs/evaluate.py wrote, or any other source.

    Attributes:
        output: the output folder of jobs/evaluate.py, instead of path or table.
        run_id: the run in that folder.
    """

    output: str | None = None
    run_id: str | None = None

    @property
    def place(self) -> str:
        """A description of where the table is, without secrets."""
        return super().place if self.output is None else self.redacted(f"run {self.run_id} of {self.output}")

    def problems(self, section: str) -> list[str]:
        """The problems of this section of the file, by its name there."""
        if self.output is None and self.run_id is None:
            return super().problems(section)
        if self.output is None or self.run_id is None:
            return [f"[{section}] needs output (a folder) and run_id (a run in it) together"]
        problems = [] if self.output.strip() else [f"{section}.output must name a folder; it is empty"]
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
    test: Literal["sign_flip", "t"] = "sign_flip"
    correction: Literal["holm", "benjamini_hochberg", "none"] = "holm"
    replicates: int = 9999
    seed: int = 0
    by: str | tuple[str, ...] = ()
    totals: bool = False
    cluster: str | tuple[str, ...] | None = None
    same_labels: bool = False

    def options(self) -> dict[str, Any]:
        """The options as `compare` takes them."""
        options = dict(vars(self))
        return options | {"by": parts_of(self.by, totals=options.pop("totals"))}


@dataclass(frozen=True)
class CompareConfig(JobConfig):
    """The configuration of jobs/compare.py; each attribute is a section of the file.

    Attributes:
        comparison: the baseline and options.
        models: a per-user table for each model, by the name of the model.
        results: one table of several models, instead of models.
    """

    comparison: Comparison
    models: Mapping[str, PerUserTable] = field(default_factory=dict)
    results: PerUserTable | None = None

    def sources(self) -> dict[str, Source]:
        """The tables to read, by the names of their sections."""
        sources: dict[str, Source] = {f"models.{name}": table for name, table in self.models.items()}
        return sources if self.results is None else sources | {"results": self.results}

    def names_of_ids(self) -> frozenset[str]:
        """The columns that identify users, models and slices."""
        asked = self.comparison
        return names_in(asked.user, asked.model, asked.by, asked.cluster)

    def keys(self) -> dict[str, str]:
        """The keys of the options of `compare`; `on_invalid` belongs to the other job."""
        return {**keys_of("comparison", Comparison), "on_invalid": "evaluation.on_invalid"}

    def problems(self) -> list[str]:
        """What is not valid in its sections, alone or together."""
        problems = super().problems()
        problems += empty_names(
            "comparison", {name: getattr(self.comparison, name) for name in ("user", "model", "by", "cluster")}
        )
        if bool(self.models) == (self.results is not None):
            got = "both" if self.models else "neither"
            problems.append(
                f"name the tables as [models.…], one per model, or as [results], one table of several models; found {got}"
            )
        if self.models and self.comparison.baseline not in self.models:
            known = ", ".join(map(repr, self.models))
            problems.append(f"comparison.baseline {self.comparison.baseline!r} is not among the models: {known}")
        if len(self.models) == 1:
            problems.append("[models] has only one model; give it another one to compare with")
        if self.models and self.comparison.model is not None:
            problems.append("comparison.model is for [results]; in [models] the sections name the models")
        if self.report.dialects:
            problems.append("report.dialects needs predictions and labels; use it with jobs/evaluate.py")
        return problems + self.refused(
            "comparison",
            lambda: checked_level(self.comparison.level),
            lambda: checked_replicates(self.comparison.replicates),
            lambda: parts_of(self.comparison.by, totals=self.comparison.totals),
        )


COMMAND = Command(
    "compare", "Compare models with a baseline on the same users, from their per-user tables.", CompareConfig
)
main, task = COMMAND.main, partial(run_as_task, COMMAND.main)
