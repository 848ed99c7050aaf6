"""The configuration of a job: a TOML file and ``--set key=value``, read at once; and events and errors that name its keys."""

from __future__ import annotations

import json
import math
import re
import sys
import tempfile
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, is_dataclass
from datetime import UTC, date, datetime, time
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints
from urllib.parse import quote, unquote

from spark_rankeval.checks import check_extra, check_place, needs_extra
from spark_rankeval.dialects import find_dialect
from spark_rankeval.errors import ConfigurationError, SparkRankEvalError, SparkRankEvalWarning, did_you_mean
from spark_rankeval.local import settings_of
from spark_rankeval.records.columns import check_run

HIDDEN = "***"
#: The tables of options of Spark's readers, whose values are never shown: a name need not say that its value is a secret.
OPTIONS = "options"

_URLS = [
    re.compile(rf"(?P<before>{before})(?P<hidden>{hidden})", re.IGNORECASE)
    for before, hidden in (
        # Each database has a form of its own.
        (r"\bjdbc:", r"[^\s'\"<>]+"),
        # Keys of S3 hold slashes.
        (r"\bs3[an]?://(?=[^/@]*:)", r"(?:(?!://)[^\s'\"<>])*(?=@)"),
        # Before the @ of Azure's stores is a container.
        (r"(?<![\w+.-])(?!abfss?:|wasbs?:)[a-z][a-z0-9+.-]*://", r"[^\s'\"<>/?#;]*(?=@)"),
        # Tokens and signatures; a ? in the name of a folder is a pattern.
        (r"(?<![\w+.-])[a-z][a-z0-9+.-]*://[^\s'\"<>?]*\?(?=[^/\s]*=)", r"[^\s'\"<>]+"),
    )
]
#: Options that name the table of a database, or the version of a table. Names of runs tell them apart.
CHOICES = ("dbtable", "query", "versionasof", "timestampasof", "snapshot-id", "as-of-timestamp", "branch", "tag")
# Shorter values are a part of too many words: those of fewer letters are hidden as whole words alone, or not at all.
_ANYWHERE, _LEAST = 6, 4


def secrets_of(settings: Any, *, is_option: bool = False) -> set[str]:
    """The values of options, and the users, passwords and queries in URLs.

    >>> sorted(secrets_of({"path": "s3a://AK:s3cr3t@bucket/t", "options": {"cred": "hunter2", "sep": ";", "header": True}}))
    ['AK:s3cr3t', 'hunter2', 's3cr3t']
    """
    if isinstance(settings, Mapping):
        inside = (
            secrets_of(value, is_option=is_option or _is_options(key, value))
            for key, value in settings.items()
            if not (is_option and _is_name_of_table(key, value))
        )
        return set().union(*inside)
    if isinstance(settings, tuple | list):
        return set().union(*(secrets_of(value, is_option=is_option) for value in settings))
    text = str(settings)
    users = [match["hidden"] for form in _URLS for match in form.finditer(text)]
    secrets = {*users, *(user.partition(":")[2] for user in users)}
    if is_option and not isinstance(settings, bool):
        secrets.add(text)
    return {secret for secret in secrets if len(secret) >= _LEAST}


def _is_name_of_table(option: str, value: object) -> bool:
    """Whether an option is the plain name of a table or a version, which messages may say."""
    return option.lower() in CHOICES and re.fullmatch(r"[\w.:-]+", str(value)) is not None


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without users and queries of URLs, and without known secrets in any spelling.

    >>> redacted("s3a://AK:s3cr3t@bucket/table and https://host/t?token=b are missing")
    's3a://***@bucket/table and https://host/t?*** are missing'
    >>> redacted("abfss://data@account.dfs.core.windows.net/t and hdfs://name:8020/at@noon")
    'abfss://data@account.dfs.core.windows.net/t and hdfs://name:8020/at@noon'
    >>> redacted("no answer of jdbc:mysql://shop:p@ss/w0rd@db:3306/t")
    'no answer of jdbc:***'
    >>> redacted("wrong: hunter2", {"hunter2"})
    'wrong: ***'
    """
    variants = set()
    for secret in secrets:
        # As it is, and as URLs, JSON and Python write it.
        variants |= {secret, quote(secret, safe=""), quote(secret), unquote(secret)}
        variants |= {json.dumps(secret)[1:-1], repr(secret)[1:-1]}
    for variant in sorted(variants, key=len, reverse=True):
        pattern = re.escape(variant)
        text = re.sub(pattern if len(variant) >= _ANYWHERE else rf"(?<!\w){pattern}(?!\w)", HIDDEN, text)
    for form in _URLS:
        text = form.sub(rf"\g<before>{HIDDEN}", text)
    return text


def shown(value: object) -> str:
    """A value of a configuration for a message, without secrets.

    >>> shown({"cred": "t0", "sep": ";"})
    "{'cred': '***', 'sep': '***'}"
    """
    return redacted(repr(redacted_settings(value, is_option=isinstance(value, Mapping))))


def redacted_settings(settings: Any, *, is_option: bool = False) -> Any:
    """Settings without values of options, and without users and queries of URLs.

    >>> redacted_settings({"path": "s3a://AK:s3cr3t@bucket/t", "options": {"cred": "t0", "sep": ";"}})
    {'path': 's3a://***@bucket/t', 'options': {'cred': '***', 'sep': '***'}}
    """
    if isinstance(settings, Mapping):
        return {
            key: redacted_settings(value, is_option=is_option or _is_options(key, value))
            for key, value in settings.items()
        }
    if isinstance(settings, tuple | list):
        return type(settings)(redacted_settings(value, is_option=is_option) for value in settings)
    if is_option:
        return HIDDEN
    if isinstance(settings, float) and not math.isfinite(settings):
        return str(settings)  # JSON has no infinity
    return redacted(settings) if isinstance(settings, str) else settings


def _is_options(key: object, value: object) -> bool:
    # A metric may have this label.
    return key == OPTIONS and isinstance(value, Mapping)


#: How events are written: for a reader, who sees warnings and errors alone, or for a program.
FORMATS = ("text", "json")

_BEGINNING = "In the configuration: "
# An option is named as `score=`; a name after a slash is of a path.
_OPTION = re.compile(r"(?<![\w/.@])([a-z_]+)=(None\b)?")
# A metric has parameters of its own; Facts(…) and BCa(…) hold options.
_METRIC = re.compile(r"\b[a-z]\w*\([^()]*\)")


class EventLog:
    """A job's events, on stderr or at the end of a file.

    Attributes:
        run_id: the run that events are about, once it is known.
        hide: what takes the secrets out; that of a configuration once it is read.
    """

    def __init__(self, job: str, form: str = "text", file: str | None = None) -> None:
        """Begin a log of a job in one of `FORMATS`."""
        self.run_id: str | None = None
        self.hide: Callable[[str], str] = redacted
        self._job, self._as_json, self._file = job, form == "json", file

    def _write(self, text: str) -> None:
        if self._file is None:
            sys.stderr.write(text)
            sys.stderr.flush()
        else:
            with open(self._file, "a", encoding="utf-8") as file:
                file.write(text)

    def tell(self, event: str, **facts: Any) -> None:
        """Write an event, such as ``started``; for a reader nothing."""
        if self._as_json:
            time = datetime.now(UTC).isoformat(timespec="milliseconds")
            line = {"time": time, "job": self._job, "run_id": self.run_id, "event": event}
            line |= _hide_texts(facts, self.hide)
            self._write(json.dumps(line, ensure_ascii=False, default=str) + "\n")

    def fail(self, text: str, **facts: Any) -> None:
        """Write that the job has failed."""
        if self._as_json:
            trace = {"traceback": text} if text.startswith("Traceback") else {}
            self.tell("failed", **facts, **trace)
        else:
            self._write(self.hide(text))
        if self._file is not None:
            sys.stderr.write(self.hide(text))

    @contextmanager
    def with_warnings(self, keys: Mapping[str, str] | None = None) -> Iterator[None]:
        """Write warnings as events, or those of the package as lines for a reader; for `keys` see `with_keys`."""
        show = warnings.showwarning

        def write(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            is_ours = issubclass(category, SparkRankEvalWarning)
            text = with_keys(str(message), keys or {}) if is_ours else str(message)
            if self._as_json:
                self.tell("warning", kind=category.__name__, warning=text)
            elif is_ours:
                self._write(self.hide(f"{self._job}: warning: {' '.join(text.split())}\n"))
            else:
                show(self.hide(text), category, *place, **more)

        with warnings.catch_warnings():
            warnings.showwarning = write
            yield


def _hide_texts(value: Any, hide: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {name: _hide_texts(inside, hide) for name, inside in value.items()}
    if isinstance(value, list | tuple):
        return [_hide_texts(inside, hide) for inside in value]
    return hide(value) if isinstance(value, str) else value


def with_keys(text: str, keys: Mapping[str, str]) -> str:
    """A message with a sentence on the keys of the options that it names; the keys are by the options' names.

    >>> keys = {"on_invalid": "evaluation.on_invalid", "score": "columns.score"}
    >>> with_keys("user=1, score=nan. Fix the data, or pass on_invalid='drop'", keys)
    "user=1, score=nan. Fix the data, or pass on_invalid='drop'. In the configuration: evaluation.on_invalid"
    """
    # Up to "Fix the data" it is about rows: user=1 is no option there.
    options = _OPTION.findall(_METRIC.sub("", text.rpartition("Fix the ")[2]))
    named = dict.fromkeys(keys.get(f"{option}={none}", keys[option]) for option, none in options if option in keys)
    # A message may pass several places. The first knows best.
    if not named or _BEGINNING in text:
        return text
    return f"{text.rstrip('.')}. {_BEGINNING}{', '.join(named)}"


@contextmanager
def errors_with_keys(keys: Mapping[str, str]) -> Iterator[None]:
    """Errors of the library get the keys of a configuration; see `with_keys`."""
    try:
        yield
    except ConfigurationError:
        # It is about keys already.
        raise
    except SparkRankEvalError as error:
        error.args = (with_keys(str(error), keys), *error.args[1:])
        raise


Section = TypeVar("Section")
#: The key of a field's metadata that names the sections that can stand in its place. Exactly one of all must be given.
INSTEAD = "instead"
#: The key of a field's metadata that has the function to read its sections by name with.
READ = "read"
# What hints call a list of a file.
LISTS = (tuple, Sequence)
# Which of the two a hint is depends on what stands in it, and on the version of Python.
_UNIONS = (UnionType, Union)


def parse_config(settings: object, section: type[Section], path: str = "") -> Section:
    """A configuration, or a section of it, from a table of settings; the error names what is wrong with each key.

    Fields that are dataclasses, and mappings of such, are sections. The path is the section's dotted name in the file.
    """
    if not isinstance(settings, Mapping):
        # A text may be a section that is not TOML, with secrets in it.
        raise ConfigurationError(f"{path} must be a section, [{path}]; found {_form_of(settings)}")
    hints, prefix = get_type_hints(section), f"{path}." if path else ""
    advice = f"allowed: {', '.join(hints)}"
    problems = [
        f"unknown key {f'{prefix}{key}'!r}; {did_you_mean(key, hints)}{advice}" for key in settings if key not in hints
    ]
    values: dict[str, object] = {}
    for item in fields(section):  # type: ignore[arg-type] # of a dataclass
        key, hint = f"{prefix}{item.name}", hints[item.name]
        if item.name in settings:
            try:
                values[item.name] = _read_value(item, hint, settings[item.name], key)
            except ConfigurationError as error:
                problems.append(str(error))
        elif is_required(item):
            words = f"section [{key}]" if section_of(hint)[0] else f"key {key} ({kind_of(hint)[0]})"
            problems.append(f"the {words} is missing")
    problems += _wrong_alternatives(section, settings, prefix)
    if problems:
        raise ConfigurationError("; ".join(problems))
    try:
        return section(**values)
    except SparkRankEvalError as error:
        raise ConfigurationError(redacted(f"[{path}] {error}" if path else str(error))) from error


def _form_of(value: object) -> str:
    """What stands in a section's place, in words."""
    kinds = {str: "a string", dict: "a table without sections", list: "a list"}
    return next((words for kind, words in kinds.items() if isinstance(value, kind)), "a value")


def _read_value(item: Field[Any], hint: object, value: Any, path: str) -> object:
    """The value of a key as its section takes it."""
    nested, many = section_of(hint)
    if nested and not many:
        return parse_config(value, nested, path)
    by_name = nested or READ in item.metadata
    if by_name and not (isinstance(value, Mapping) and value and all(isinstance(name, str) for name in value)):
        raise ConfigurationError(f"{path} must be sections by their names, [{path}.…]; found {_form_of(value)}")
    if READ in item.metadata:
        return item.metadata[READ](value)
    if nested:
        return {name: parse_config(inside, nested, f"{path}.{name}") for name, inside in value.items()}
    value = _as_asked(hint, value)
    if problems := [*_misfits(hint, value, path)]:
        raise ConfigurationError("; ".join(problems))
    if any(isinstance(text, str) and not text.strip() for text in (value if isinstance(value, list) else [value])):
        raise ConfigurationError(f"{path} is empty; {'it needs a value' if is_required(item) else 'leave the key out'}")
    return tuple(value) if isinstance(value, list) else value


class _Whole(int):
    """A whole number of the command line, and how it was written: 007, 0x10 and 1_000 may be names."""

    text: str


class _Number(float):
    """A number of the command line, and how it was written: 12e4 may be the name of a commit."""

    text: str


def _as_asked(hint: object, value: Any, *, is_option: bool = False) -> Any:
    """A date as text, and a number as it was written if a key takes text and no number. Spark takes options as text."""
    kinds = alternatives(hint)
    if isinstance(value, Mapping) and get_origin(kinds[0]) is Mapping:
        inside = get_args(kinds[0])[1]
        return {name: _as_asked(inside, entry, is_option=True) for name, entry in value.items()}
    if isinstance(value, date | time):
        return value.isoformat()
    takes_text = str in kinds and (is_option or not {int, float} & {*kinds})
    if isinstance(value, _Whole | _Number) and takes_text:
        return value.text
    if isinstance(value, _Whole | _Number):
        return int(value) if isinstance(value, int) else float(value)
    return str(value) if type(value) is int and takes_text and not is_option else value


def _wrong_alternatives(section: type, settings: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for keys in alternative_keys(section):
        one, *others = (f"[{prefix}{key}]" for key in keys)
        found, *more = [f"[{prefix}{key}]" for key in keys if key in settings] or [""]
        if not found:
            yield f"the section {one}, or {' or '.join(others)} in its place, is missing"
        for other in more:
            yield f"{other} stands in the place of {found}; found both, so leave one out"


def alternative_keys(section: type) -> list[tuple[str, ...]]:
    """The sections that stand in each other's place."""
    keys = fields(section)
    return [(key.name, *key.metadata[INSTEAD]) for key in keys if INSTEAD in key.metadata]


def _misfits(hint: object, value: object, path: str) -> Iterator[str]:
    words, fits = kind_of(hint)
    if get_origin(hint) is Mapping and isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        for name, entry in value.items():
            yield from _misfits(get_args(hint)[1], entry, f"{path}.{name}")
    elif not fits(value):
        # What names nothing as secret may be secret all the same.
        seen = f"a {type(value).__name__}" if f".{OPTIONS}" in path else shown(value)
        yield f"{path} must be {words}; found {seen}"


def is_required(item: Field[Any]) -> bool:
    """Whether a file must have the key of a field."""
    return item.default is MISSING and item.default_factory is MISSING


def alternatives(hint: object) -> list[Any]:
    """What a file may hold for a hint: the parts of a union, without None and without objects that only Python has."""
    parts = [part for part in (get_args(hint) if get_origin(hint) in _UNIONS else (hint,)) if part is not type(None)]
    return [part for part in parts if not is_dataclass(part)] or parts


def section_of(hint: object) -> tuple[type | None, bool]:
    """The dataclass of a hint, if it has one, and whether the hint is a mapping of several by name."""
    (kind, *others) = alternatives(hint)
    many = get_origin(kind) is Mapping
    inside = get_args(kind)[1] if many else kind
    return (inside, many) if is_dataclass(inside) and not others else (None, False)  # type: ignore[return-value] # a class


# What a plain hint is called, and the types of its values in a file.
_PLAIN: Mapping[object, tuple[str, type | tuple[type, ...]]] = {
    str: ("a string", str),
    bool: ("true or false", bool),
    int: ("a whole number", int),
    float: ("a number", (int, float)),
}


def kind_of(hint: object) -> tuple[str, Callable[[object], bool]]:
    """What a hint asks for, in words, and whether a value of a file is that.

    >>> words, fits = kind_of(float | tuple[str, ...])
    >>> words, fits(3), fits(["a", "b"]), fits(True)
    ('a number or a list of strings', True, True, False)
    """
    parts = alternatives(hint)
    if parts != [hint]:
        kinds = [kind_of(part) for part in parts]
        words = " or ".join(dict.fromkeys(words for words, _ in kinds))
        return words, lambda value: any(fits(value) for _, fits in kinds)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        words = "false" if arguments == (False,) else f"one of {', '.join(map(repr, filter(None, arguments)))}"
        return words, lambda value: isinstance(value, str | bool) and value in arguments
    if origin in LISTS:
        _, fits = kind_of(arguments[0])
        words = "a list of numbers" if arguments[0] is float else "a list of strings"
        return words, lambda value: isinstance(value, list) and all(map(fits, value))
    if origin is Mapping:
        _, fits = kind_of(arguments[1])

        def is_table(value: object) -> bool:
            return isinstance(value, Mapping) and all(isinstance(key, str) and fits(value[key]) for key in value)

        return "a table of key = value", is_table
    words, types = _PLAIN[hint]
    # To Python true is an int, to the author of a file it is not.
    return words, lambda value: isinstance(value, types) and (hint is bool or not isinstance(value, bool))


def overridden(settings: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Settings of a file with those of the command line in them: full keys and values, such as ``evaluation.metrics=ndcg@10``.

    The value is TOML, else a string. A number is as it was written where a string is asked.
    """
    changed = deepcopy(dict(settings))
    for number, override in enumerate(overrides, start=1):
        name, _, text = override.partition("=")
        try:
            inside: Any = tomllib.loads(f"{name} = 0") if name != override else {}
        except tomllib.TOMLDecodeError:
            inside = {}
        path = []
        while isinstance(inside, dict) and len(inside) == 1:
            ((key, inside),) = inside.items()
            path.append(key)
        if inside != 0:
            # What stands there may be a secret.
            msg = (
                f"--set needs key=value with a key of TOML, such as evaluation.metrics=ndcg@10 or gates.'ndcg@10'.min=0.3; number {number} "
                "has none"
            )
            raise ConfigurationError(msg)
        try:
            read = tomllib.loads(f"value = {text}")
        except tomllib.TOMLDecodeError:
            read = {}
        table = changed
        for part in path[:-1]:
            if not isinstance(table.get(part), dict):
                table[part] = {}
            table = table[part]
        value: Any = read["value"] if len(read) == 1 else text
        if type(value) in (int, float):
            value = (_Whole if type(value) is int else _Number)(value)
            value.text = text.strip()
        table[path[-1]] = value
    return changed


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

    def sources(self, section: str) -> dict[str, Source]:
        """The table to read, by the name of its section."""
        return {section: self}

    def read(self, tables: Mapping[str, Any], section: str) -> Any:
        """The table among those that were read."""
        return tables[section]

    def __post_init__(self) -> None:
        of_format = f"of format {self.format!r}"
        if self.table is None and self.format == "jdbc":
            lacking = [] if self.options.get("url") else ["url"]
            lacking += [] if self.options.get("dbtable") or self.options.get("query") else ["dbtable or query"]
            if lacking:
                raise ConfigurationError(f"{of_format} needs options with {' and '.join(lacking)}")
            unused = [name for name in ("path", "schema") if getattr(self, name) is not None]
            if unused:
                raise ConfigurationError(
                    f"{of_format} takes no {' and no '.join(unused)}; name the table in its options"
                )
            return
        if (self.path is None) == (self.table is None):
            got = "neither" if self.path is None else "both"
            raise ConfigurationError(f"needs either path (files) or table (of the catalogue); found {got}")
        if self.schema is not None and (self.table is not None or self.format in ("delta", "iceberg", *_TREC_OPTIONS)):
            holder = "a table of the catalogue" if self.table is not None else f"the format {self.format!r}"
            raise ConfigurationError(f"takes no schema, because {holder} has one")
        known = _TREC_OPTIONS.get(self.format, self.options)
        unknown = [name for name in self.options if name not in known]
        if unknown:
            raise ConfigurationError(f"{of_format} has no option {unknown[0]!r}; it has: {', '.join(known)}")


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

    def __post_init__(self) -> None:
        if self.catalog is not None and not _SCHEMA_NAME.fullmatch(self.catalog):
            msg = f"catalog must name a schema of the catalogue, such as 'main.evaluation'; found {self.catalog!r}"
            raise ConfigurationError(msg)
        if self.catalog is None and self.table_format is not None:
            raise ConfigurationError("table_format needs catalog; a folder has Parquet")
        check_place("the path", self.path)
        if self.run_id is not None:
            check_run(self.run_id, "run_id")
        if isinstance(self.report, str):
            self._check_report(Path(self.report))

    def _check_report(self, file: Path) -> None:
        if "://" in str(self.report) or file.is_dir() or not file.parent.is_dir():
            msg = f"report must be true (a report beside the manifest) or a file in a folder of this machine; found {self.report!r}"
            raise ConfigurationError(msg)
        try:
            # Permissions are not enough to know: a disk may be read-only, and root passes every check.
            with tempfile.TemporaryFile(dir=file.parent):
                pass
        except OSError as error:
            msg = f"report: cannot write to the folder {str(file.parent)!r}: {error.strerror or error}"
            raise ConfigurationError(msg) from error


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

    def __post_init__(self) -> None:
        for name in () if self.dialects == "all" else self.dialects:
            find_dialect(name)


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

    def __post_init__(self) -> None:
        settings_of(self.cores, self.memory)
        if self.sizes and self.engine != "sail":
            msg = "cores and memory need engine = 'sail'; Spark has settings of its own, spark.master and spark.driver.memory"
            raise ConfigurationError(msg)

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

    def __post_init__(self) -> None:
        if self.output.report:
            check_extra("report", "reports")
        problems = [*self.conflicts()]
        if problems:
            raise ConfigurationError("; ".join(problems))

    def conflicts(self) -> Iterator[str]:
        """What its sections say against each other and `evaluate` does not refuse itself, or only after it has computed everything."""
        if self.output.report is None and self.report != Report():
            yield "[report] has settings, but no report is written; set output.report = true"

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


def keys_of(section: str, kind: type) -> dict[str, str]:
    """The full keys of the fields of a section."""
    return {key.name: f"{section}.{key.name}" for key in fields(kind)}


def names_in(*columns: str | Sequence[str] | None) -> frozenset[str]:
    """The column names in several keys; a key holds a name, several, or none."""
    keys = [(names,) if isinstance(names, str) else names or () for names in columns]
    return frozenset(name for names in keys for name in names)


Config = TypeVar("Config", bound=JobConfig)


def load_config(path: str, kind: type[Config], overrides: Sequence[str] = ()) -> Config:
    """Read and check a configuration file, TOML or YAML by its ending; overrides are strings as ``--set`` takes them."""
    written = _read_file(path)
    settings = overridden(written, overrides)
    keys = [override.partition("=")[0].strip() for override in overrides]
    try:
        config = parse_config(settings, kind)
    except ConfigurationError as error:
        msg = f"{path}{' and --set' if overrides else ''}: {error}"
        raise ConfigurationError(msg) from error
    _check_names_of_models(written, settings, keys)
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


def _read_file(path: str) -> dict[str, Any]:
    """The settings in a file: ``.yaml`` and ``.yml`` are YAML, all others TOML."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        if Path(path).suffix.lower() not in (".yaml", ".yml"):
            return tomllib.loads(text)
    except OSError as error:
        msg = f"{path}: {error.strerror or error}"
        raise ConfigurationError(msg) from error
    # Bytes that are not UTF-8 raise a ValueError, too.
    except ValueError as error:
        msg = f"{path} is not TOML: {error}"
        raise ConfigurationError(msg) from error
    return _read_yaml(path, text)


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
    # Of a date that is none.
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, ConfigurationError):
            raise
        msg = f"{path} is not YAML: {type(error).__name__}"
        raise ConfigurationError(msg) from error
    if settings is None:
        return {}
    if not isinstance(settings, dict):
        msg = f"{path} must have sections with keys in them; it holds a {type(settings).__name__}"
        raise ConfigurationError(msg)
    return settings
