"""The part of a configuration that all jobs share, and how configuration files are read and checked."""

from __future__ import annotations

import re
import tempfile
import tomllib
from collections.abc import (
    Callable,
    Mapping,  # of fields, whose types are looked at
    Sequence,
)
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

from spark_rankeval.checks import check_extra, check_place, needs_extra
from spark_rankeval.errors import ConfigurationError, SparkRankEvalError
from spark_rankeval.jobs.logs import HIDDEN, redacted, secrets_of, shown, with_keys
from spark_rankeval.jobs.settings import overridden, read_settings
from spark_rankeval.local import settings_of
from spark_rankeval.records.table_columns import check_run

_SCHEMA_NAME = re.compile(r"(`[^`]+`|[^`.\s/:]+)(\.(`[^`]+`|[^`.\s/:]+))*")
# The sections of models' tables, and the last parts of the keys that say where a table is.
_OF_MODELS = ("predictions", "vectors", "models")
_PLACES = ("path", "table", "dbtable", "query", *_OF_MODELS, "users", "items")
_TREC_OPTIONS = {"trec_run": ("model", "on_invalid"), "trec_qrels": ("on_invalid",)}


@dataclass(frozen=True)
class Source:
    """A table to read: files, a name in the catalogue, or a query of a database.

    Attributes:
        path: a file or folder, or several, as Spark reads them; for delta and iceberg the table's place or name.
        format: the format of the files. jdbc is a database: its options name url, dbtable or query, user and password. delta and iceberg
            need a session that has them. trec_run and trec_qrels are TREC's formats; a job checks each line.
        options: options of Spark's reader. CSV is read with a header and inferred types unless they say otherwise.
        schema: columns and types, such as "user bigint, item string, score double". Without it the table's own are taken; those of CSV and
            JSON are inferred, for which Spark reads the files once more. Ids there (users, items, models, categories and slices), and
            ids in names of folders, are then strings unless all of a column are plain whole numbers: 007 is not 7.
        table: a table of the catalogue, instead of files.
    """

    path: str | tuple[str, ...] | None = None
    format: Literal["parquet", "csv", "json", "orc", "delta", "iceberg", "jdbc", "trec_run", "trec_qrels"] = "parquet"
    options: Mapping[str, str | bool | int | float] = field(default_factory=dict, repr=False)
    schema: str | None = None
    table: str | None = None

    @property
    def paths(self) -> list[str]:
        """The paths as a list."""
        return [self.path] if isinstance(self.path, str) else list(self.path or ())

    @property
    def place(self) -> str:
        """A description of where the table is, without secrets."""
        if self.table is not None:
            return f"table {self.table}"
        if self.format == "jdbc":
            return "jdbc table" if self.options.get("dbtable") else "jdbc query"
        return self.redacted(f"{self.format} {', '.join(self.paths)}")

    def redacted(self, text: str) -> str:
        """A string without the secrets of this source."""
        return redacted(text, secrets_of(asdict(self)))

    def problems(self, section: str) -> list[str]:
        """The problems of this section of the file, by its name there."""
        if self.table is None and self.format == "jdbc":
            return self._problems_of_databases(section)
        if self.table is None and (problems := self._problems_of_trec(section)):
            return problems
        if (self.path is None) == (self.table is None):
            got = "neither" if self.path is None else "both"
            return [f"[{section}] needs either path (files) or table (of the catalogue); found {got}"]
        if self.schema is not None and (self.table is not None or self.format in ("delta", "iceberg")):
            return [f"[{section}] takes no schema, because a table of the catalogue has one"]
        return []

    def _problems_of_databases(self, section: str) -> list[str]:
        lacking = [] if self.options.get("url") else ["url"]
        lacking += [] if self.options.get("dbtable") or self.options.get("query") else ["dbtable or query"]
        problems = [f"[{section}] of format 'jdbc' needs options with {' and '.join(lacking)}"] if lacking else []
        unused = [name for name in ("path", "schema") if getattr(self, name) is not None]
        return problems + [
            f"[{section}] of format 'jdbc' takes no {name}; name the table in its options" for name in unused
        ]

    def _problems_of_trec(self, section: str) -> list[str]:
        if self.format not in _TREC_OPTIONS:
            return []
        option_names = _TREC_OPTIONS[self.format]
        prefix = f"[{section}] of format {self.format!r}"
        problems = [] if self.schema is None else [f"{prefix} takes no schema, because the format has one"]
        unknown = [name for name in self.options if name not in option_names]
        return problems + [f"{prefix} has no option {name!r}; it has: {', '.join(option_names)}" for name in unknown]


@dataclass(frozen=True)
class Output:
    """Where the results go.

    Attributes:
        path: a folder. Each run has a partition there in every table: its figures, its manifest and its status.
        catalog: a schema of the catalogue, such as "main.evaluation", for all tables but statuses and reports, which stay in the folder.
        table_format: the format of tables that are made there, such as "delta"; left out, the catalogue's own, on Sail delta.
        run_id: the name of the run, whose partitions it replaces. Left out, it is made from the configuration and the input files.
        report: whether to write an HTML report into that folder, too; or the path of a file on the driver's disk to write it to. False
            leaves [report] unused.
    """

    path: str
    catalog: str | None = None
    table_format: str | None = None
    run_id: str | None = None
    report: bool | str | None = None

    def problems(self) -> list[str]:
        """The problems that show before Spark starts."""
        problems = wrong_catalog("output.catalog", self.catalog)
        if self.catalog is None and self.table_format is not None:
            problems.append("output.table_format needs output.catalog; a folder has Parquet")
        problems += [] if self.path.strip() else ["output.path must name a folder; it is empty"]
        problems += map(redacted, refusal(lambda: check_place("output.path", self.path)))
        problems += wrong_run_id("output.run_id", self.run_id)
        if isinstance(self.report, str):
            file = Path(self.report)
            if "://" in self.report or not self.report.strip() or file.is_dir() or not file.parent.is_dir():
                problems.append(
                    "output.report must be true (a report beside the manifest) or a file in a folder of this machine; found "
                    f"{self.report!r}"
                )
                return problems
            try:
                # Permissions are not enough to know: a disk may be read-only, and root passes every check.
                with tempfile.TemporaryFile(dir=file.parent):
                    pass
            except OSError as error:
                reason = error.strerror or error
                problems.append(f"output.report: cannot write to the folder {str(file.parent)!r}: {reason}")
        return problems


def refusal(check: Callable[[], object], prefix: str = "") -> list[str]:
    """What a check of the library refuses, as a list of one problem or of none."""
    try:
        check()
    except SparkRankEvalError as error:
        return [f"{prefix}{error}"]
    return []


def wrong_catalog(key: str, name: str | None) -> list[str]:
    """The problems of the name of a schema of a catalogue under a key; None is allowed."""
    if name is None or _SCHEMA_NAME.fullmatch(name):
        return []
    return [f"{key} must name a schema of the catalogue, such as 'main.evaluation'; found {name!r}"]


def wrong_run_id(key: str, run_id: str | None) -> list[str]:
    """The problems of a run's name under a key; None is allowed."""
    return [] if run_id is None else refusal(lambda: check_run(run_id, key))


@dataclass(frozen=True)
class Report:
    """What the report shows beside the figures.

    Attributes:
        title: the title of the page; left out, it names the models.
        distributions: metrics to draw as histograms of their users.
        dialects: dialects whose means to show beside the default's, and why they differ; or "all". This takes another pass.
    """

    title: str | None = None
    distributions: tuple[str, ...] = ()
    dialects: Literal["all"] | tuple[str, ...] = ()


@dataclass(frozen=True)
class Session:
    """The engine that a job runs on.

    Attributes:
        engine: spark, or sail, which runs in the job's process and needs no Java. Left out, the session of the place, or Spark, or
            sail if Spark cannot start on this machine.
        cores: how many cores Sail uses; left out, all of the machine.
        memory: how much memory Sail uses at most, such as "4g"; left out, no limit.
    """

    engine: Literal["spark", "sail"] | None = None
    cores: int | None = None
    memory: str | None = None

    def problems(self) -> list[str]:
        """The problems that show before the engine starts."""
        problems = refusal(lambda: settings_of(self.cores, self.memory), "session.")
        if self.sizes and self.engine != "sail":
            problems.append(
                f"{self.sizes} need session.engine = 'sail'; Spark has settings of its own, spark.master and spark.driver.memory"
            )
        return problems

    @property
    def sizes(self) -> str:
        """The keys of sizes that are set, for messages; empty if none is."""
        return " and ".join(f"session.{name}" for name in ("cores", "memory") if getattr(self, name) is not None)


@dataclass(frozen=True)
class JobConfig:
    """The part of a configuration that all jobs share.

    Attributes:
        output: where the results go.
        session: the engine that the job runs on.
        report: what the report shows, if one is written.
    """

    output: Output
    session: Session = field(default_factory=Session, kw_only=True)
    report: Report = field(default_factory=Report, kw_only=True)

    def sources(self) -> dict[str, Source]:
        """The tables to read, by the names of their sections."""
        raise NotImplementedError

    def names_of_ids(self) -> frozenset[str]:
        """The columns that identify users, items, models and slices."""
        raise NotImplementedError

    @property
    def own_module(self) -> str:
        """The module that workers must import for the caller's own metrics; empty if there is none."""
        return ""

    def keys(self) -> dict[str, str]:
        """The keys of the library's options in the file, by the options' names."""
        raise NotImplementedError

    def redacted(self, text: str) -> str:
        """A string without the secrets of this configuration."""
        return redacted(text, secrets_of(asdict(self)))

    def written(self, run_id: str, tables: Sequence[str]) -> str:
        """A sentence on what a run has written, without secrets."""
        place = self.output.path if self.output.catalog is None else f"{self.output.catalog} and {self.output.path}"
        return self.redacted(f"run {run_id} written to {place}: {', '.join(tables)}")

    def problems(self) -> list[str]:
        """What is not valid in its sections, alone or together."""
        problems = self.output.problems() + self.session.problems()
        for section, source in self.sources().items():
            problems += source.problems(section)
        if self.output.report:
            check_extra("report", "reports")
        elif self.output.report is None and self.report != Report():
            problems.append("[report] has settings, but no report is written; set output.report = true")
        return problems

    def refused(self, section: str, *checks: Callable[[], object]) -> list[str]:
        """The problems that the library's checks of options find, with the file's keys in place of the options."""
        problems = [problem for check in checks for problem in refusal(check)]
        return list(dict.fromkeys(f"{section}: {with_keys(problem, self.keys())}" for problem in problems))

    @classmethod
    def wrong_names(cls, settings: Mapping[str, Any]) -> list[str]:
        """Problems of settings that are found even if the settings do not read as a configuration."""
        return []


def keys_of(section: str, kind: type) -> dict[str, str]:
    """The full keys of the fields of a section."""
    return {key.name: f"{section}.{key.name}" for key in fields(kind)}


def names_in(*columns: str | Sequence[str] | None) -> frozenset[str]:
    """The column names in several keys; a key holds a name, several, or none."""
    keys = [(names,) if isinstance(names, str) else names or () for names in columns]
    return frozenset(name for names in keys for name in names)


# What to write for no column, if a key that is left out means another one.
_FOR_NONE = {"item": "if rows name no item, write item = false"}


def empty_names(section: str, names: Mapping[str, object]) -> list[str]:
    """The problems of keys that hold an empty column name."""
    problems = []
    for key, value in names.items():
        texts = value if isinstance(value, tuple) else (value,)
        if any(isinstance(text, str) and not text.strip() for text in texts):
            problems.append(
                f"{section}.{key} has an empty column name; found {shown(value)}; {_FOR_NONE.get(key, 'leave the key out for none')}"
            )
    return problems


Config = TypeVar("Config", bound=JobConfig)


def load_config(path: str, kind: type[Config], overrides: Sequence[str] = ()) -> Config:
    """Read and check a configuration file, TOML or YAML by its ending; overrides are strings as ``--set`` takes them."""
    written = _read_file(path)
    settings = overridden(written, overrides, kind)
    try:
        config = parse_config(settings, kind)
    except ConfigurationError as error:
        msg = f"{_place_of(error, path, written, kind, overrides)}: {error}"
        raise ConfigurationError(msg) from error
    _check_names_of_models(written, settings, [override.partition("=")[0].strip() for override in overrides])
    return config


def _check_names_of_models(written: Mapping[str, Any], settings: Mapping[str, Any], keys: Sequence[str]) -> None:
    """Refuse keys of the command line that put another table under the name that the file gives to the model of its own."""
    tables = [key for key in keys if key.startswith(_OF_MODELS) and key.rpartition(".")[2] in _PLACES]
    moved = [key for key in tables if _value_at(written, key) not in (None, _value_at(settings, key))]
    for key in ("evaluation.model", "mlflow.model_id"):
        name = _value_at(written, key)
        if moved and name is not None and not any(each.startswith(key) for each in keys):
            msg = f"--set {moved[0]}: the file calls the model of another table {name!r}; name that of this one with --set {key}=…"
            raise ConfigurationError(msg)


def _value_at(settings: Any, key: str) -> Any:
    for part in key.split("."):
        settings = settings.get(part) if isinstance(settings, Mapping) else None
    return settings


def _place_of(
    error: ConfigurationError, path: str, written: Mapping[str, Any], kind: type[JobConfig], overrides: Sequence[str]
) -> str:
    """Where to fix what is wrong: in the file, or on the command line if the file alone is right."""
    if not overrides:
        return path
    wrong = _wrong_overrides(error, written, kind, overrides) or overrides
    keys = [override.partition("=")[0].strip() for override in wrong]
    place = f"--set {', '.join(dict.fromkeys(keys))}"
    try:
        parse_config(written, kind)
    except SparkRankEvalError as in_file:
        return path if str(in_file) == str(error) else f"{path} with {place}"
    return place


def _wrong_overrides(
    error: ConfigurationError, written: Mapping[str, Any], kind: type[JobConfig], overrides: Sequence[str]
) -> list[str]:
    """The overrides without which some problems of an error are gone and no others come."""
    problems, wrong = set(str(error).split("; ")), []
    for place, override in enumerate(overrides):
        others: set[str] = set()
        try:
            parse_config(overridden(written, [*overrides[:place], *overrides[place + 1 :]], kind), kind)
        except SparkRankEvalError as other:
            others = set(str(other).split("; "))
        if others < problems:
            wrong.append(override)
    return wrong


def parse_config(settings: Mapping[str, Any], kind: type[Config]) -> Config:
    """Make a configuration from settings; an error names all problems at once."""
    problems: list[str] = []
    config = read_settings(kind, settings, problems)
    # Wrong metrics are reported together with wrong keys, so they are checked even if the rest does not read.
    problems += kind.wrong_names(settings)
    if config is not None:
        problems += config.problems()
    if problems or config is None:
        raise ConfigurationError("; ".join(problems))
    return config


def _read_file(path: str) -> dict[str, Any]:
    """The settings in a file: ``.yaml`` and ``.yml`` are YAML, all others TOML."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        if Path(path).suffix.lower() in (".yaml", ".yml"):
            return _read_yaml(path, text)
        return tomllib.loads(text)
    except OSError as error:
        msg = f"{path}: {error.strerror or error}"
        raise ConfigurationError(msg) from error
    except ConfigurationError:
        raise
    # Bytes that are not UTF-8 raise a ValueError, too.
    except ValueError as error:
        msg = f"{path} is not TOML: {error}"
        raise ConfigurationError(msg) from error


def _read_yaml(path: str, text: str) -> dict[str, Any]:
    with needs_extra("yaml", "configurations in YAML"):
        import yaml  # noqa: PLC0415 # an extra

    class Loader(yaml.SafeLoader):
        """It makes plain values alone, and refuses repeated keys: the last would win in silence."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            keys = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
            twice = [key for index, key in enumerate(keys) if key in keys[:index]]
            if twice:
                msg = f"{path} is not YAML: line {node.start_mark.line + 1} repeats the key {twice[0]!r}"
                raise ConfigurationError(msg)
            return super().construct_mapping(node, deep=deep)

    try:
        # The loader makes plain values alone, as yaml.safe_load does.
        settings = yaml.load(text, Loader)
    except yaml.MarkedYAMLError as error:
        # Neither the lines around the error nor the words that YAML quotes are shown: they may hold a password.
        line = "" if error.problem_mark is None else f" (line {error.problem_mark.line + 1})"
        problem = re.sub(r"'[^'\s]{2,}'", HIDDEN, error.problem or "")
        msg = f"{path} is not YAML: {problem}{line}; quote values that begin with *, & or !"
        raise ConfigurationError(msg) from error
    except (yaml.YAMLError, RecursionError) as error:
        msg = f"{path} is not YAML: {type(error).__name__}"
        raise ConfigurationError(msg) from error
    if settings is None:
        return {}
    if not isinstance(settings, dict):
        msg = f"{path} must have sections with keys in them; it holds a {type(settings).__name__}"
        raise ConfigurationError(msg)
    return settings
