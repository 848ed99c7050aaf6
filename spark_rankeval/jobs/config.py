"""What the configurations of all jobs have in common: sources, outputs, and what is wrong with what was written there."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping  # noqa: TC003 # of fields, whose types are looked at
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from spark_rankeval.checks import check_place
from spark_rankeval.errors import ConfigurationError, OptionError, SparkRankEvalError
from spark_rankeval.extras import check_extra
from spark_rankeval.jobs.configuration_file import read_file
from spark_rankeval.jobs.overrides import overridden
from spark_rankeval.jobs.secrets import redacted, secrets_of, shown
from spark_rankeval.jobs.settings import read_settings
from spark_rankeval.jobs.wording import with_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# It is the name of folders and files.
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
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
            those of CSV and JSON are inferred, for which Spark reads the files once more. Ids in CSV (users, items, models, categories
            and slices) are then text unless all of a column are plain whole numbers: 007 is not 7.
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
        return redacted(text, secrets_of(asdict(self)))

    def problems(self, section: str) -> list[str]:
        """What is wrong with it; the section is its name in the file."""
        problems = []
        if self.table is None:
            if self.format == "jdbc":
                return self._problems_of_databases(section)
            problems = self._problems_of_trec(section)
        if problems:
            return problems
        if (self.path is None) == (self.table is None):
            got = "neither" if self.path is None else "both"
            return [f"[{section}] needs path (files) or table (of the catalogue), one of them; found {got}"]
        if self.schema is not None and (self.table is not None or self.format in ("delta", "iceberg")):
            return [f"[{section}] needs no schema: such a table has one"]
        return []

    def _problems_of_databases(self, section: str) -> list[str]:
        lacking = [] if self.options.get("url") else ["url"]
        lacking += [] if self.options.get("dbtable") or self.options.get("query") else ["dbtable or query"]
        problems = [f"[{section}] of format 'jdbc' needs options with {' and '.join(lacking)}"] if lacking else []
        unused = [name for name in ("path", "schema") if getattr(self, name) is not None]
        return problems + [f"[{section}] of format 'jdbc' has no {name}; options say which table" for name in unused]

    def _problems_of_trec(self, section: str) -> list[str]:
        if self.format not in _TREC_OPTIONS:
            return []
        known = _TREC_OPTIONS[self.format]
        of = f"[{section}] of format {self.format!r}"
        problems = [] if self.schema is None else [f"{of} has no schema but its own"]
        unknown = [name for name in self.options if name not in known]
        return problems + [f"{of} has no option {name!r}; it has: {', '.join(known)}" for name in unknown]


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
        problems = [] if self.path.strip() else ["output.path must name a folder; it is empty"]
        try:
            check_place("output.path", self.path)
        except OptionError as error:
            problems.append(redacted(str(error)))
        problems += wrong_run_id("output.run_id", self.run_id)
        if isinstance(self.report, str):
            file = Path(self.report)
            if "://" in self.report or not self.report.strip() or file.is_dir() or not file.parent.is_dir():
                problems.append(
                    f"output.report is true (a report beside the manifest, wherever that is), or a file in a folder of this "
                    f"machine; {self.report!r} is neither"
                )
            else:
                problems += _unwritable(file)
        return problems


def wrong_run_id(key: str, run_id: str | None) -> list[str]:
    """What is wrong with the name of a run that stands under a key; None is none."""
    if run_id is None or _RUN_ID.fullmatch(run_id):
        return []
    return [
        f"{key} must be up to 100 letters, digits, '.', '_' and '-', and begin with a letter or a digit; found {run_id!r}"
    ]


def _unwritable(file: Path) -> list[str]:
    """What is wrong with the folder of a report, which nobody should learn of after the evaluation."""
    try:
        # Permissions do not tell all: a disk may be read-only, and root is refused by none.
        with tempfile.TemporaryFile(dir=file.parent):
            return []
    except OSError as error:
        return [f"output.report: nothing can be written to the folder {str(file.parent)!r}: {error.strerror or error}"]


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

    def sources(self) -> dict[str, Source]:
        """The tables to read, by the names of their sections."""
        raise NotImplementedError

    def names_of_ids(self) -> frozenset[str]:
        """The columns that tell users, items, models and slices apart, and with which nothing is computed."""
        raise NotImplementedError

    def keys(self) -> dict[str, str]:
        """The keys of the options of the library, by the options' names."""
        raise NotImplementedError

    def redacted(self, text: str) -> str:
        """A text without the secrets of this configuration."""
        return redacted(text, secrets_of(asdict(self)))

    def written(self, run_id: str, tables: Sequence[str]) -> str:
        """A sentence on what a run has written, without secrets."""
        return self.redacted(f"run {run_id} written to {self.output.path}: {', '.join(tables)}")

    def problems(self) -> list[str]:
        """What its sections say that they cannot mean, alone or together."""
        problems = self.output.problems()
        for section, source in self.sources().items():
            problems += source.problems(section)
        if self.output.report:
            check_extra("report", "reports")
        elif self.report != Report():
            problems.append("[report] says what a report tells, and none is written; set output.report = true")
        return problems

    def refused(self, section: str, *checks: Callable[[], object]) -> list[str]:
        """What the library's checks of options refuse, with the keys of these."""
        problems = []
        for check in checks:
            try:
                check()
            except SparkRankEvalError as error:
                problems.append(f"{section}: {with_keys(str(error), self.keys())}")
        return list(dict.fromkeys(problems))

    @classmethod
    def wrong_names(cls, settings: Mapping[str, Any]) -> list[str]:
        """What is said of settings even where they do not read as a configuration."""
        del settings
        return []


def keys_of(section: str, kind: type) -> dict[str, str]:
    """The keys of a section, which a dataclass describes, by their names."""
    return {key.name: f"{section}.{key.name}" for key in fields(kind)}


def names_in(*given: str | Sequence[str] | None) -> frozenset[str]:
    """The names of columns that several keys give: each a name, several, or none."""
    keys = [(names,) if isinstance(names, str) else names or () for names in given]
    return frozenset(name for names in keys for name in names)


def empty_names(section: str, names: Mapping[str, object]) -> list[str]:
    """Columns without a name, among what the keys of a section give: a name, several, or what is none."""
    problems = []
    for key, value in names.items():
        texts = value if isinstance(value, tuple) else (value,)
        if any(isinstance(text, str) and not text.strip() for text in texts):
            problems.append(
                f"{section}.{key} has an empty name of a column; found {shown(value)}; leave the key out for none"
            )
    return problems


Config = TypeVar("Config", bound=JobConfig)


def load_config(path: str, kind: type[Config], overrides: Sequence[str] = ()) -> Config:
    """Read and check a configuration file, TOML or YAML by its ending, with settings instead of its own as ``--set`` takes them.

    Raises:
        ConfigurationError: the file cannot be read, or something in it is wrong; all offenders at once.
        MissingExtraError: it asks for what is not installed.
    """
    written = read_file(path)
    settings = overridden(written, overrides, kind)
    try:
        return parse_config(settings, kind)
    except ConfigurationError as error:
        msg = f"{_place_of(error, path, written, kind, overrides)}: {error}"
        raise ConfigurationError(msg) from error


def _place_of(
    error: ConfigurationError, path: str, written: Mapping[str, Any], kind: type[JobConfig], overrides: Sequence[str]
) -> str:
    """Where to mend what is wrong: in the file, or on the command line where the file alone is right."""
    if not overrides:
        return path
    keys = [override.partition("=")[0].strip() for override in overrides]
    keys = [key for key in keys if key.rpartition(".")[2] in str(error)] or keys
    place = f"--set {', '.join(dict.fromkeys(keys))}"
    try:
        parse_config(written, kind)
    except SparkRankEvalError:
        return f"{path} with {place}"
    return place


def parse_config(settings: Mapping[str, Any], kind: type[Config]) -> Config:
    """Check settings against the dataclasses of a configuration, and what they mean against each other.

    Raises:
        ConfigurationError: the key, what was found and what is allowed, of every offender.
        MissingExtraError: it asks for what is not installed.
    """
    problems: list[str] = []
    config = read_settings(kind, settings, problems)
    # Wrong metrics are named beside wrong keys, so they are looked at even if the rest does not read.
    problems += kind.wrong_names(settings)
    if config is not None:
        problems += config.problems()
    if problems or config is None:
        raise ConfigurationError("; ".join(problems))
    return config
