"""The jobs that read what runs wrote: comparisons of models and of groups of users, and the trend of metrics over all runs.

Comparisons read per-user tables, and write differences and verdicts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from spark_rankeval.checks import check_extra
from spark_rankeval.errors import ConfigurationError, listed
from spark_rankeval.jobs.command import Command, job_parser, job_session, overrides_of, run_as_task, run_job
from spark_rankeval.jobs.config import (
    INSTEAD,
    EventLog,
    JobConfig,
    Output,
    Session,
    Source,
    keys_of,
    load_config,
    names_in,
)
from spark_rankeval.jobs.evaluate import EvaluateConfig
from spark_rankeval.records.columns import check_run
from spark_rankeval.request.call import parts_of
from spark_rankeval.run_history.gates import GateRule
from spark_rankeval.statistics.groups import TIGHTEST_AT
from spark_rankeval.statistics.intervals import check_level
from spark_rankeval.statistics.resampling import check_replicates

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

    def __post_init__(self) -> None:
        if self.runs is None and self.run_id is None:
            super().__post_init__()
            return
        if self.runs is None or self.run_id is None:
            raise ConfigurationError(
                "needs output (a folder) or catalog (a schema), and run_id (a run in it), together"
            )
        check_run(self.run_id)
        others = [each.name for each in fields(Source) if getattr(self, each.name) not in (None, {}, each.default)]
        if others:
            raise ConfigurationError(f"names a run by output and run_id; it takes no {', '.join(others)}")


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

    def __post_init__(self) -> None:
        check_level(self.level)
        check_replicates(self.replicates)
        parts_of(self.by, totals=self.totals)

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

    def __post_init__(self) -> None:
        check_level(self.level)


@dataclass(frozen=True)
class ComparisonConfig(JobConfig):
    """What the configurations of both jobs share: per-user tables by name, or one table of all of them, and a section of options.

    Attributes:
        results: one table of all models or groups, in the place of a table for each.
    """

    # Of each job: the section of options, and the sections of tables.
    section, sides = "", ""

    results: PerUserTable | None = field(default=None, kw_only=True)

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

    def sources(self) -> dict[str, Source]:
        """The tables to read, by the names of their sections."""
        if self.results is not None:
            return {"results": self.results}
        return {f"{self.sides}.{name}": table for name, table in self.tables.items()}

    def compared(self, tables: Mapping[str, DataFrame]) -> Mapping[str, DataFrame] | DataFrame:
        """The tables that were read, as `compare` and `compare_groups` take them."""
        return tables["results"] if self.results else {name: tables[f"{self.sides}.{name}"] for name in self.tables}

    def names_of_ids(self) -> frozenset[str]:
        """The columns that identify users, models, groups, slices and clusters."""
        options = self.options
        names = (options.model, options.by) if isinstance(options, Comparison) else (options.group,)
        return names_in(options.user, options.cluster, *names)

    def keys(self) -> dict[str, str]:
        """The keys of the options in the file; `on_invalid` belongs to the job that evaluates."""
        return {**keys_of(self.section, type(self.options)), "on_invalid": "evaluation.on_invalid"}

    def conflicts(self) -> Iterator[str]:
        """What its sections say against each other, and the calls do not refuse themselves before they compute."""
        yield from super().conflicts()
        baseline, names = self.options.baseline, ", ".join(map(repr, self.tables))
        if self.tables and not {baseline} < self.tables.keys():
            yield f"{self.section}.baseline {baseline!r} must be one of two or more {self.sides}; there are: {names}"


@dataclass(frozen=True)
class CompareConfig(ComparisonConfig):
    """The configuration of jobs/compare.py; each attribute is a section of the file.

    Attributes:
        comparison: the baseline and options.
        models: a per-user table for each model, by the name of the model.
        results: one table of several models, instead of models.
    """

    section, sides = "comparison", "models"

    comparison: Comparison
    models: Mapping[str, PerUserTable] = field(default_factory=dict, metadata={INSTEAD: ("results",)})

    def conflicts(self) -> Iterator[str]:
        """What its sections say against each other."""
        yield from super().conflicts()
        if self.report.dialects:
            yield "report.dialects needs predictions and labels; use it with jobs/evaluate.py"


@dataclass(frozen=True)
class CompareGroupsConfig(ComparisonConfig):
    """The configuration of jobs/compare_groups.py; each attribute is a section of the file.

    Attributes:
        experiment: the baseline and options.
        groups: a per-user table for each group, by the name of the group.
        results: one table of all groups, instead of groups; experiment.group names its column of groups.
    """

    section, sides = "experiment", "groups"

    experiment: Experiment
    groups: Mapping[str, PerUserTable] = field(default_factory=dict, metadata={INSTEAD: ("results",)})

    def conflicts(self) -> Iterator[str]:
        """What its sections say against each other."""
        yield from super().conflicts()
        if self.output.report:
            yield "output.report is for jobs/evaluate.py and jobs/compare.py; this job writes no report"


COMMAND = Command(
    "compare", "Compare models with a baseline on the same users, from their per-user tables.", CompareConfig
)
GROUPS_COMMAND = Command(
    "compare_groups",
    "Compare groups of different users with a baseline, as in an A/B test, from per-user tables.",
    CompareGroupsConfig,
    module="compare_run",
)
compare_main, compare_task = COMMAND.main, partial(run_as_task, COMMAND.main)
groups_main, groups_task = GROUPS_COMMAND.main, partial(run_as_task, GROUPS_COMMAND.main)


# So many runs without figures are named.
_MOST_RUNS = 20


def trend_main(arguments: Sequence[str] | None = None) -> int:
    """Read the history and show it; `arguments` are by default those of the process. For the exit code see `run_job`."""
    options = trend_options(arguments)
    log = EventLog("trend", options.log_format, options.log_file)

    def job() -> None:
        rules: tuple[GateRule, ...] = ()
        output, session = Output(options.output or "", options.catalog), Session(options.engine)
        if options.config is not None:
            config = load_config(options.config, EvaluateConfig, overrides_of(options))
            rules, session = tuple(config.gates.values()), config.session
            output = config.output if options.output is None and options.catalog is None else output
        if options.html:
            check_extra("report", "reports")
        with log.with_warnings(), job_session("spark_rankeval trend", session) as spark:
            from spark_rankeval.jobs.outputs import read_history  # noqa: PLC0415 # it imports pyspark

            slice_ = None if options.slice == "every" else options.slice
            full = read_history(spark, output, slice_, options.metric or ())
            shown = full.of(options.metric) if options.metric else full.headline([rule.metric for rule in rules])
            n_more = 0 if options.metric else len(full.keys()) - len(shown.keys())
            more = f"{n_more:,} more metrics, points of curves: --metric NAME shows one\n" if n_more else ""
            lacking = [f"{run} ({why})" for run, why in full.failed.items() if run not in full.runs]
            more += f"no figures of {listed(lacking, _MOST_RUNS)}\n" if lacking else ""
            if options.html:
                path = shown.report(options.html, gates=rules)
                log.tell("written", what="trend", place=str(path))
                sys.stdout.write(f"{len(shown.runs):,} runs of {len(shown.keys()):,} metrics written to {path}\n{more}")
            else:
                sys.stdout.write(f"{shown!r}\n" + (f"\n{more}" if more else ""))

    return run_job("trend", job, log=log)


trend_task = partial(run_as_task, trend_main)


def trend_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The words of the command line; by default those of the process."""
    about_config = "of jobs/evaluate.py, instead: its output, and its gates as lines in the charts"
    parser = job_parser("trend", "Show the metrics of all runs of the evaluation job.", about_config)
    parser.add_argument("--output", metavar="FOLDER", help="of the outputs of jobs/evaluate.py")
    parser.add_argument(
        "--catalog",
        metavar="SCHEMA",
        help="of the catalogue with the tables of jobs/evaluate.py; on Sail beside --output",
    )
    parser.add_argument(
        "--metric",
        metavar="NAME",
        action="append",
        help="such as ndcg@10; repeatable; default: every metric, but of curves the usual points",
    )
    parser.add_argument(
        "--slice", metavar="NAME", default="all", help="which users: country=DE, or every; default: %(default)s"
    )
    parser.add_argument("--html", metavar="FILE", help="write a page with charts there instead of printing tables")
    options = parser.parse_args(arguments)
    if options.config is None and options.output is None and options.catalog is None:
        parser.error("--output FOLDER, --catalog SCHEMA or --config FILE is needed")
    return options
