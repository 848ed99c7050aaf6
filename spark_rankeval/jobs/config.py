"""A job's configuration: TOML read into frozen dataclasses, with every mistake named at once, before Spark starts."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from spark_rankeval.dialects import find_dialect
from spark_rankeval.errors import ConfigurationError, DialectError, MetricError, OptionError
from spark_rankeval.jobs.secrets import redacted, shown
from spark_rankeval.metrics.naming import parse_metric, parse_metrics
from spark_rankeval.on_invalid import OnInvalid
from spark_rankeval.statistics.description import DescriptionOptions

_Section = TypeVar("_Section")
# Which of the two a hint is depends on what stands in it, and on the version of Python.
_UNIONS = (UnionType, Union)
# It is the name of folders and files.
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_INTERVALS = ("ci", "level", "replicates", "seed", "quantiles")
_SLICES = ("by", "totals")


@dataclass(frozen=True)
class Source:
    """A table to read: files, or a name in the catalogue.

    Attributes:
        path: a file or folder, or several, as Spark reads them.
        format: what the files are.
        options: options of Spark's reader; CSV is read with a header and inferred types unless they say otherwise.
        table: a table of the catalogue, instead of files.
    """

    path: str | tuple[str, ...] | None = None
    format: Literal["parquet", "csv", "json", "orc"] = "parquet"
    options: Mapping[str, str | bool | int | float] = field(default_factory=dict, repr=False)
    table: str | None = None


@dataclass(frozen=True)
class Columns:
    """The names of the columns, as `evaluate` takes them."""

    user: str | tuple[str, ...] = "user"
    item: str | tuple[str, ...] = "item"
    score: str | None = None
    rank: str | None = None
    relevance: str | tuple[str, ...] | None = None
    model: str | None = None


@dataclass(frozen=True)
class Evaluation:
    """The metrics, and the options of `evaluate`."""

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
        path: a folder, in which each run has a partition of the tables ``per_user``, ``metrics`` and ``manifests``, and of
            ``quarantine`` where rows are quarantined.
        run_id: the name of the run, whose partitions it replaces; None: one made of the configuration and the input files.
    """

    path: str
    run_id: str | None = None


@dataclass(frozen=True)
class EvaluateConfig:
    """The configuration of ``jobs/evaluate.py``; each attribute is a section of the file."""

    predictions: Source
    evaluation: Evaluation
    output: Output
    labels: Source | None = None
    users: Source | None = None
    exclude: Source | None = None
    attributes: Source | None = None
    columns: Columns = field(default_factory=Columns)

    def sources(self) -> dict[str, Source | None]:
        """The tables to read by the names that `evaluate` has for them."""
        names = ("predictions", "labels", "users", "exclude", "attributes")
        return {name: getattr(self, name) for name in names}

    def redacted(self, text: str) -> str:
        """A text without the secrets of these sources."""
        for source in self.sources().values():
            text = redacted(text, None if source is None else source.options)
        return text


def load_config(path: str) -> EvaluateConfig:
    """Read and check a configuration file.

    Raises:
        ConfigurationError: the file cannot be read, or something in it is wrong; all offenders at once.
    """
    try:
        settings = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"{path}: {error.strerror or error}"
        raise ConfigurationError(msg) from error
    except ValueError as error:
        msg = f"{path} is not TOML: {error}"
        raise ConfigurationError(msg) from error
    try:
        return parse_config(settings)
    except ConfigurationError as error:
        msg = f"{path}: {error}"
        raise ConfigurationError(msg) from error


def parse_config(settings: Mapping[str, Any]) -> EvaluateConfig:
    """Check settings against the dataclasses above, and what they mean against each other.

    Raises:
        ConfigurationError: the key, what was found and what is allowed, of every offender.
    """
    problems: list[str] = []
    config = _read(EvaluateConfig, settings, "", problems)
    evaluation = settings.get("evaluation")
    if isinstance(evaluation, Mapping):
        # Wrong metrics are named beside wrong keys, so they are looked at even where the rest does not read.
        problems += _wrong_names(evaluation)
    if config is not None:
        for check in (
            lambda: DescriptionOptions.given(**config.evaluation.intervals()),
            lambda: OnInvalid.read(config.evaluation.on_invalid),
        ):
            try:
                check()
            except OptionError as error:
                problems.append(f"evaluation: {error}")
        if config.output.run_id is not None and not _RUN_ID.fullmatch(config.output.run_id):
            problems.append(
                f"output.run_id is a name of letters, digits, '.', '_' and '-', of which the first is none of the last "
                f"three; found {config.output.run_id!r}"
            )
        for section, source in config.sources().items():
            if source is not None and (source.path is None) == (source.table is None):
                got = "neither" if source.path is None else "both"
                problems.append(f"[{section}] needs path (files) or table (of the catalogue), one of them; found {got}")
    if problems or config is None:
        raise ConfigurationError("; ".join(problems))
    return config


def _wrong_names(evaluation: Mapping[str, Any]) -> list[str]:
    metrics = evaluation.get("metrics")
    texts = metrics if isinstance(metrics, list) else metrics.values() if isinstance(metrics, Mapping) else [metrics]
    checks: list[tuple[str, Callable[[Any], object], object]] = [("metrics", parse_metric, text) for text in texts]
    if metrics in ([], {}):
        checks.append(("metrics", parse_metrics, []))
    checks.append(("dialect", find_dialect, evaluation.get("dialect", "default")))
    problems = []
    for key, check, value in checks:
        # What is no text has been named already.
        if isinstance(value, str) or value == []:
            try:
                check(value)
            except (MetricError, DialectError) as error:
                problems.append(f"evaluation.{key}: {error}")
    return problems


def _read(section: type[_Section], settings: object, path: str, problems: list[str]) -> _Section | None:
    """An object of a dataclass from a table of TOML; None if something is wrong, which is added to the problems."""
    if not isinstance(settings, Mapping):
        problems.append(f"{path} must be a section, [{path}]; found {shown(settings)}")
        return None
    hints = get_type_hints(section)
    prefix = f"{path}." if path else ""
    already = len(problems)
    for key in settings:
        if key not in hints:
            near = difflib.get_close_matches(key, hints, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            problems.append(f"unknown key {prefix + key!r}; {hint}Allowed: {', '.join(hints)}")
    values: dict[str, object] = {}
    for item in fields(section):  # type: ignore[arg-type] # of the dataclasses above
        key, hint = item.name, hints[item.name]
        nested = next((kind for kind in (hint, *get_args(hint)) if is_dataclass(kind)), None)
        if key not in settings:
            if item.default is MISSING and item.default_factory is MISSING:
                words = f"section [{prefix}{key}]" if nested else f"key {prefix}{key} ({_words(hint)})"
                problems.append(f"the {words} is missing")
        elif nested:
            values[key] = _read(nested, settings[key], prefix + key, problems)  # type: ignore[arg-type] # a class
        elif _fits(hint, settings[key]):
            value = settings[key]
            values[key] = tuple(value) if isinstance(value, list) else value
        else:
            problems.append(f"{prefix}{key} must be {_words(hint)}; found {shown(settings[key])}")
    return section(**values) if len(problems) == already else None


def _fits(hint: object, value: object) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return value in arguments
    if origin in _UNIONS:
        return any(_fits(one, value) for one in arguments)
    if origin is tuple:
        return isinstance(value, list) and all(_fits(arguments[0], one) for one in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(_fits(arguments[1], one) for one in value.values())
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    # To Python true is an int, to the author of a file it is not.
    return isinstance(hint, type) and isinstance(value, hint) and (hint is bool or not isinstance(value, bool))


def _words(hint: object) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return "one of " + ", ".join(map(repr, arguments))
    if origin in _UNIONS:
        return " or ".join(dict.fromkeys(_words(one) for one in arguments if one is not type(None)))
    if origin is tuple:
        return "a list of numbers" if arguments[0] is float else "a list of texts"
    if origin is Mapping:
        return "a table of key = value"
    return (
        "a text"
        if hint is str
        else "true or false"
        if hint is bool
        else "a whole number"
        if hint is int
        else "a number"
    )
