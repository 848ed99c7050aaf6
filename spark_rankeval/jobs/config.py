"""The configurations of jobs: what their sections are, and what is wrong with what was written there."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from spark_rankeval.dialects import find_dialect
from spark_rankeval.errors import ConfigurationError, DialectError, MetricError, OptionError
from spark_rankeval.extras import check_extra
from spark_rankeval.jobs.configuration_file import read_file
from spark_rankeval.jobs.overrides import overridden
from spark_rankeval.jobs.secrets import redacted
from spark_rankeval.jobs.settings import read_settings
from spark_rankeval.metrics.naming import parse_metric, parse_metrics
from spark_rankeval.on_invalid import OnInvalid
from spark_rankeval.statistics.description import DescriptionOptions

# It is the name of folders and files.
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_INTERVALS = ("ci", "level", "replicates", "seed", "quantiles")
_SLICES = ("by", "totals")
_TREC_OPTIONS = {"trec_run": ("model", "on_invalid"), "trec_qrels": ("on_invalid",)}


@dataclass(frozen=True)
class Source:
    """A table to read: files, a name in the catalogue, or a query of a database.

    Attributes:
        path: a file or folder, or several, as Spark reads them; of delta and iceberg a table's place or name.
        format: what the files are; jdbc is a database, of which options say url, dbtable or query, user and password;
            delta and iceberg need a session that has them; trec_run and trec_qrels are TREC's, of whose lines each is looked at.
        options: options of Spark's reader; CSV is read with a header and inferred types unless they say otherwise.
        schema: columns and types, such as "user bigint, item string, score double"; left out, they are those of the table, and
            those of CSV and JSON are inferred, for which Spark reads the files once more.
        table: a table of the catalogue, instead of files.
    """

    path: str | tuple[str, ...] | None = None
    format: Literal["parquet", "csv", "json", "orc", "delta", "iceberg", "jdbc", "trec_run", "trec_qrels"] = "parquet"
    options: Mapping[str, str | bool | int | float] = field(default_factory=dict, repr=False)
    schema: str | None = None
    table: str | None = None

    @property
    def place(self) -> str:
        """Where the table is, in words, without secrets."""
        if self.table is not None:
            return f"table {self.table}"
        if self.format == "jdbc":
            of = self.options.get("dbtable") or self.options.get("query")
            return self.redacted(f"jdbc {of} of {self.options.get('url')}")
        paths = [self.path] if isinstance(self.path, str) else list(self.path or ())
        return self.redacted(f"{self.format} {', '.join(paths)}")

    def redacted(self, text: str) -> str:
        """A text without the secrets of this source."""
        return redacted(text, self.options)

    def problems(self, section: str) -> list[str]:
        """What is wrong with it.

        Args:
            section: its name in the file.
        """
        if self.format == "jdbc" and self.table is None:
            lacking = [] if self.options.get("url") else ["url"]
            lacking += [] if self.options.get("dbtable") or self.options.get("query") else ["dbtable or query"]
            found = [f"[{section}] of format 'jdbc' needs options with {' and '.join(lacking)}"] if lacking else []
            unused = [name for name in ("path", "schema") if getattr(self, name) is not None]
            return found + [f"[{section}] of format 'jdbc' has no {name}; options say which table" for name in unused]
        if self.format in _TREC_OPTIONS and self.table is None:
            unknown = [name for name in self.options if name not in _TREC_OPTIONS[self.format]]
            found = (
                [f"[{section}] of format {self.format!r} has no schema but its own"] if self.schema is not None else []
            )
            found += [
                f"[{section}] of format {self.format!r} has no option {name!r}; it has: {', '.join(_TREC_OPTIONS[self.format])}"
                for name in unknown
            ]
            if found:
                return found
        if (self.path is None) == (self.table is None):
            got = "neither" if self.path is None else "both"
            return [f"[{section}] needs path (files) or table (of the catalogue), one of them; found {got}"]
        if self.schema is not None and (self.table is not None or self.format in ("delta", "iceberg")):
            return [f"[{section}] needs no schema: such a table has one"]
        return []


@dataclass(frozen=True)
class Columns:
    """The names of the columns, as `evaluate` takes them.

    Attributes:
        user: the column that makes a user, or several.
        item: the column of items, or two: that of predictions and that of labels.
        score: the column of scores; the highest is first.
        rank: the column of ranks instead; the lowest is first.
        relevance: the column of grades, or several; left out, every labelled item is relevant alike.
        model: the column of predictions that says which model a row is of.
    """

    user: str | tuple[str, ...] = "user"
    item: str | tuple[str, ...] = "item"
    score: str | None = None
    rank: str | None = None
    relevance: str | tuple[str, ...] | None = None
    model: str | None = None


@dataclass(frozen=True)
class Evaluation:
    """The metrics, and the options of `evaluate`.

    Attributes:
        metrics: names such as "ndcg@10", or a table from labels of your own to names.
        dialect: whose conventions fill what a metric leaves open.
        relevance_threshold: items of this grade or more are relevant; left out, those above 0, or as the dialect says.
        ties: how equal scores are ordered; left out, as the dialect says.
        on_invalid: what becomes of rows that cannot be ranked, or a table of choices by kind.
        population: whom the means are about; left out, as the dialect says.
        prune: whether predictions beyond the largest cutoff are left out early; no figure hangs on it.
        model: the name of the predictions, where the table holds those of one model.
        by: attributes of the user that part the users into slices.
        totals: whether there are totals over each of several attributes.
        user_weight: the column of the users' weights.
        ci: the interval of each mean.
        level: the share of such intervals that hold the true mean.
        replicates: bootstrap samples.
        seed: of the bootstrap.
        quantiles: shares of the users, each a column of the summary.
    """

    metrics: str | tuple[str, ...] | Mapping[str, str]
    dialect: str = "default"
    relevance_threshold: float | None = None
    ties: Literal["item_asc", "item_desc", "position", "average"] | None = None
    on_invalid: Literal["error", "drop", "quarantine"] | Mapping[str, str] = "error"
    population: Literal["every", "labelled", "predicted", "both"] | None = None
    prune: Literal["auto", "never"] = "auto"
    model: str = ""
    by: str | tuple[str, ...] = ()
    totals: bool = False
    user_weight: str | None = None
    ci: Literal["t", "bca", "bootstrap", "percentile", "none"] = "t"
    level: float = 0.95
    replicates: int = 1000
    seed: int = 0
    quantiles: tuple[float, ...] = (0.5,)

    def intervals(self) -> dict[str, Any]:
        """The options of what is said of the users' values, as `summarise` takes them."""
        options: dict[str, Any] = {name: getattr(self, name) for name in _INTERVALS}
        # TOML has no None.
        return {**options, "ci": None if self.ci == "none" else self.ci}

    def slices(self) -> dict[str, Any]:
        """How users are parted, as `summarise` takes it."""
        return {name: getattr(self, name) for name in _SLICES}

    def scoring(self) -> dict[str, Any]:
        """The other options, as `score_users` takes them."""
        return {name: value for name, value in vars(self).items() if name not in (*_INTERVALS, "totals")}


@dataclass(frozen=True)
class Output:
    """Where the results go.

    Attributes:
        path: a folder, in which each run has a partition of every table: its figures, its manifest and its status.
        run_id: the name of the run, whose partitions it replaces; left out: one made of the configuration and the input files.
        report: whether there is an HTML report in that folder too; or the path of a file on the driver's disk to write it to.
    """

    path: str
    run_id: str | None = None
    report: bool | str = False

    def problems(self) -> list[str]:
        """What is wrong with it, as far as can be said before Spark starts."""
        found = []
        if not self.path.strip():
            found.append("output.path must name a folder; it is empty")
        if self.run_id is not None and not _RUN_ID.fullmatch(self.run_id):
            found.append(
                f"output.run_id is a name of letters, digits, '.', '_' and '-', of which the first is none of the last "
                f"three; found {self.run_id!r}"
            )
        if isinstance(self.report, str):
            file = Path(self.report)
            if "://" in self.report or not self.report.strip() or file.is_dir() or not file.parent.is_dir():
                found.append(
                    f"output.report is true (a report beside the manifest, wherever that is), or a file in a folder of this "
                    f"machine; {self.report!r} is neither"
                )
        return found


@dataclass(frozen=True)
class EvaluationOutput(Output):
    """Where the results go, and how they are printed.

    Attributes:
        printed: as a table, or as trec_eval prints them: the means, or every query before.
    """

    printed: Literal["table", "trec", "trec_queries"] = "table"


@dataclass(frozen=True)
class Report:
    """What the report tells beside the figures.

    Attributes:
        title: of the page; left out, one that names the models.
        distributions: metrics whose users are drawn as histograms.
        dialects: whose means stand beside those of the default, with what makes the difference, or "all"; takes another pass.
    """

    title: str | None = None
    distributions: tuple[str, ...] = ()
    dialects: Literal["all"] | tuple[str, ...] = ()


@dataclass(frozen=True)
class JobConfig:
    """What the configurations of all jobs have in common.

    Attributes:
        output: where the results go.
        report: what the report tells, where one is written.
    """

    output: Output
    report: Report = field(default_factory=Report, kw_only=True)

    def sources(self) -> dict[str, Source | None]:
        """The tables to read, by the names of their sections."""
        raise NotImplementedError

    def redacted(self, text: str) -> str:
        """A text without the secrets of these sources."""
        for source in self.sources().values():
            text = text if source is None else source.redacted(text)
        return redacted(text)

    def written(self, run_id: str, tables: Sequence[str]) -> str:
        """A sentence on what a run has written, without secrets."""
        return self.redacted(f"run {run_id} written to {self.output.path}: {', '.join(tables)}")

    def problems(self) -> list[str]:
        """What its sections say that they cannot mean, alone or together."""
        found = self.output.problems()
        for section, source in self.sources().items():
            found += [] if source is None else source.problems(section)
        if self.output.report:
            check_extra("report", "reports")
        elif self.report != Report():
            found.append("[report] says what a report tells, and none is written; set output.report = true")
        return found

    @classmethod
    def wrong_names(cls, settings: Mapping[str, Any]) -> list[str]:
        """What is said of settings even where they do not read as a configuration."""
        del settings
        return []


@dataclass(frozen=True)
class EvaluateConfig(JobConfig):
    """The configuration of jobs/evaluate.py; each attribute is a section of the file.

    Attributes:
        output: where the results go.
        predictions: what was recommended: a row a user and item, or a row a user with an array of items.
        evaluation: the metrics and options.
        labels: what the users wanted; left out if the table of predictions holds both arrays.
        users: everyone to count, when some users are in neither table.
        exclude: items to leave out of the predictions before they are ranked.
        attributes: columns of the users, for by and user_weight.
        columns: the names of the columns.
    """

    output: EvaluationOutput
    predictions: Source
    evaluation: Evaluation
    labels: Source | None = None
    users: Source | None = None
    exclude: Source | None = None
    attributes: Source | None = None
    columns: Columns = field(default_factory=Columns)

    def sources(self) -> dict[str, Source | None]:
        """The tables to read by the names that `evaluate` has for them."""
        names = ("predictions", "labels", "users", "exclude", "attributes")
        return {name: getattr(self, name) for name in names}

    def problems(self) -> list[str]:
        """What its sections say that they cannot mean, alone or together."""
        found = super().problems()
        checks: list[Callable[[], object]] = [
            lambda: DescriptionOptions.given(**self.evaluation.intervals()),
            lambda: OnInvalid.read(self.evaluation.on_invalid),
        ]
        for check in checks:
            try:
                check()
            except OptionError as error:
                found.append(f"evaluation: {error}")
        found += self._unknown_distributions()
        several = isinstance(self.columns.relevance, tuple) or self.columns.model is not None
        if self.report.dialects and several:
            found.append(
                "report.dialects is for one model and one relevance; leave it out, or columns.model and further grades"
            )
        return found

    def _unknown_distributions(self) -> list[str]:
        """Histograms of what is not evaluated, which nobody should learn of after the evaluation."""
        try:
            known = parse_metrics(self.evaluation.metrics)
        except MetricError:
            # These are named already.
            return []
        found = []
        for name in self.report.distributions:
            # Of several relevances the report has "ndcg@10 [click]".
            label = name.partition(" [")[0]
            try:
                is_known = label in known or parse_metric(label) in known.values()
            except MetricError:
                is_known = False
            if not is_known:
                found.append(f"report.distributions: {name!r} is not evaluated; there are {', '.join(known)}")
        return found

    @classmethod
    def wrong_names(cls, settings: Mapping[str, Any]) -> list[str]:
        """Wrong metrics and dialects, which are named beside wrong keys."""
        evaluation, report = settings.get("evaluation"), settings.get("report")
        found = _wrong_names(evaluation) if isinstance(evaluation, Mapping) else []
        dialects = report.get("dialects") if isinstance(report, Mapping) else None
        for name in dialects if isinstance(dialects, list) else []:
            found += _refusal("report.dialects", find_dialect, name)
        return found


Config = TypeVar("Config", bound=JobConfig)


def load_config(path: str, overrides: Sequence[str] = (), kind: type[Config] = EvaluateConfig) -> Config:  # type: ignore[assignment] # the default is one
    """Read and check a configuration file, TOML or YAML by its ending.

    Args:
        path: of the file.
        overrides: settings that stand instead of those of the file, as ``--set`` takes them.
        kind: whose configuration it is.

    Raises:
        ConfigurationError: the file cannot be read, or something in it is wrong; all offenders at once.
        MissingExtraError: it asks for what is not installed.
    """
    settings = overridden(read_file(path), overrides, kind)
    try:
        return parse_config(settings, kind)
    except ConfigurationError as error:
        msg = f"{path}: {error}"
        raise ConfigurationError(msg) from error


def parse_config(settings: Mapping[str, Any], kind: type[Config] = EvaluateConfig) -> Config:  # type: ignore[assignment] # the default is one
    """Check settings against the dataclasses of a configuration, and what they mean against each other.

    Args:
        settings: plain values, as a file holds them.
        kind: whose configuration it is.

    Raises:
        ConfigurationError: the key, what was found and what is allowed, of every offender.
        MissingExtraError: it asks for what is not installed.
    """
    problems: list[str] = []
    config = read_settings(kind, settings, problems)
    # Wrong metrics are named beside wrong keys, so they are looked at even where the rest does not read.
    problems += kind.wrong_names(settings)
    if config is not None:
        problems += config.problems()
    if problems or config is None:
        raise ConfigurationError("; ".join(problems))
    return config


def _wrong_names(evaluation: Mapping[str, Any]) -> list[str]:
    metrics = evaluation.get("metrics")
    key = "evaluation.metrics"
    if isinstance(metrics, Mapping):
        found = [problem for text in metrics.values() for problem in _refusal(key, parse_metric, text)]
    else:
        # A text may stand for a curve of many.
        texts = metrics if isinstance(metrics, list) else [metrics]
        found = [problem for text in texts for problem in _refusal(key, lambda text: parse_metrics([text]), text)]
    if metrics in ([], {}):
        found += _refusal(key, lambda _: parse_metrics([]), "")
    return found + _refusal("evaluation.dialect", find_dialect, evaluation.get("dialect", "default"))


def _refusal(key: str, check: Callable[[Any], object], value: object) -> list[str]:
    # What is no text has been named already.
    if isinstance(value, str):
        try:
            check(value)
        except (MetricError, DialectError) as error:
            return [f"{key}: {error}"]
    return []
