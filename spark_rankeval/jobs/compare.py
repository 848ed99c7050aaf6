"""The job that compares: per-user tables and a configuration in; differences, verdicts and an exit code out."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 # of fields, whose types are looked at
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
    """A table of users' values: what jobs/evaluate.py wrote in a run, or any other source.

    Attributes:
        output: the folder of the outputs of jobs/evaluate.py, instead of path or table.
        run_id: the run in it.
    """

    output: str | None = None
    run_id: str | None = None

    @property
    def place(self) -> str:
        """Where the table is, in words, without secrets."""
        return super().place if self.output is None else self.redacted(f"run {self.run_id} of {self.output}")

    def problems(self, section: str) -> list[str]:
        """What is wrong with it; the section is its name in the file."""
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
    """What is compared, and the options of `compare`.

    Attributes:
        baseline: the name of the model that the others are compared with.
        metrics: which ones; left out, all that every table has.
        user: the columns that make a user, where the tables do not say it themselves.
        model: the column of models' names of one table of several models, where it does not say it itself.
        level: of the intervals; a p-value up to 1 − level, after correction, counts as a difference.
        margin: the difference that does not matter, or a table of them by metric.
        test: whose p-value is corrected and judged.
        correction: for the number of metrics and models.
        replicates: of the randomisation test.
        seed: of its signs.
        by: attributes of the user that part the users into slices.
        totals: whether there are totals over each of several attributes.
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

    def options(self) -> dict[str, Any]:
        """As `compare` takes them."""
        options = dict(vars(self))
        return options | {"by": parts_of(self.by, totals=options.pop("totals"))}


@dataclass(frozen=True)
class CompareConfig(JobConfig):
    """The configuration of jobs/compare.py; each attribute is a section of the file.

    Attributes:
        comparison: the baseline and options.
        models: a per-user table a model, by the models' names.
        results: one table of several models, instead.
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
        return names_in(asked.user, asked.model, asked.by)

    def keys(self) -> dict[str, str]:
        """The keys of the options of `compare`; that of rows is the other job's."""
        return {**keys_of("comparison", Comparison), "on_invalid": "evaluation.on_invalid"}

    def problems(self) -> list[str]:
        """What its sections say that they cannot mean, alone or together."""
        problems = super().problems()
        problems += empty_names(
            "comparison", {name: getattr(self.comparison, name) for name in ("user", "model", "by")}
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
