"""What a job prints on stderr or into a file: events, warnings and errors with the keys of options that they name, and without secrets."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote

from spark_rankeval.errors import ConfigurationError, SparkRankEvalError, SparkRankEvalWarning

HIDDEN = "***"
#: The tables of options of Spark's readers, whose values are never shown: a name need not say that its value is a secret.
OPTIONS = "options"
#: The default of `spark.redaction.regex`: the names whose values are secrets.
DEFAULT_RULE = "(?i)secret|password|token|access[.]?key"

_URLS = [
    re.compile(rf"(?P<before>{before})(?P<hidden>{hidden})", re.IGNORECASE)
    for before, hidden in (
        # Each database has a form of its own.
        (r"\bjdbc:", r"[^\s'\"<>]+"),
        # Keys of S3 hold slashes.
        (r"\bs3[an]?://(?=[^/@]*:)", r"(?:(?!://)[^\s'\"<>])*(?=@)"),
        # Before the @ of Azure's stores is a container.
        (r"(?<![\w+.-])(?!abfss?:|wasbs?:)[a-z][a-z0-9+.-]*://", r"[^\s'\"<>/?#;]*(?=@)"),
    )
]
# Shorter values are a part of too many words: those of fewer letters are hidden as whole words alone, or not at all.
_ANYWHERE, _LEAST = 6, 4
# What many texts and paths hold for other reasons: a short word or number.
_ORDINARY = re.compile(r"[A-Z]?[a-z]{,11}|[A-Z]{,12}|\d{,5}")


def _pairs(rule: str) -> re.Pattern[str]:
    """What a name that a rule matches hides: name=value, 'name': 'value', {"name": "value"} in JSON in a string, and headers."""
    flag = "i" if rule.startswith("(?i)") else "-i"
    name = rf"(?<![\w.-])(?=[\w.-]*(?{flag}:{rule.removeprefix('(?i)')}))[\w.-]+"
    # A decimal number is the value of a metric.
    value = r"(?!\d*\.\d+[,;)}\]]*(?!\S))(?P<hidden>(?(quoted)[^'\"\n]+|[^\s'\"&;]+))"
    before = rf"(?P<before>{name}\\*['\"]?\s*[=:]\s*(?:bearer\s+|basic\s+)?\\*(?P<quoted>['\"])?)"
    return re.compile(before + value, re.IGNORECASE)


_secret_pairs = _pairs(DEFAULT_RULE)


def follow_session(rule: str) -> None:
    """From now on hide the values of names that a session's `spark.redaction.regex` matches; empty: Spark's default."""
    global _secret_pairs  # noqa: PLW0603 # what is printed is the process's, also after the session
    try:
        _secret_pairs = _pairs(rule or DEFAULT_RULE)
    except re.error as error:
        _secret_pairs = _pairs(DEFAULT_RULE)
        msg = f"this session's spark.redaction.regex cannot be read by Python ({error}), so Spark's default applies: {DEFAULT_RULE}"
        warnings.warn(msg, SparkRankEvalWarning, stacklevel=2)


def secrets_of(settings: Any) -> set[str]:
    """The secrets that settings hold in options and in URLs.

    >>> secrets_of({"options": {"token": "t0", "sep": ";"}})
    {'t0'}
    >>> {"s3cr3t"} <= secrets_of({"path": "s3a://AK:s3cr3t@bucket/t"})
    True
    """
    secrets: set[str] = set()

    def look(name: str, value: Any, *, is_option: bool) -> None:
        text = str(value)
        if is_option and not isinstance(value, bool) and (_secret_pairs.match(f"{name}=x") or _is_rare(text)):
            secrets.add(text)
        users = [match["hidden"] for pattern in _URLS for match in pattern.finditer(text)]
        secrets.update(filter(_is_rare, users))
        passwords = [user.partition(":")[2] for user in users]
        passwords += [pair["hidden"] for pair in _secret_pairs.finditer(text)]
        secrets.update(password for password in passwords if len(password) >= _LEAST)

    _visited(settings, look)
    return secrets - {""}


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without user parts of URLs, without values of secret names, and without known secrets in any spelling.

    >>> redacted("s3a://AK:s3cr3t@bucket/table and https://host/t?user=a&token=b are missing")
    's3a://***@bucket/table and https://host/t?user=a&token=*** are missing'
    >>> redacted("abfss://data@account.dfs.core.windows.net/t and hdfs://name:8020/at@noon")
    'abfss://data@account.dfs.core.windows.net/t and hdfs://name:8020/at@noon'
    >>> redacted("no answer of jdbc:mysql://shop:p@ss/w0rd@db:3306/t")
    'no answer of jdbc:***'
    >>> redacted("wrong: hunter2; token_ndcg: 0.5; access.key: abc", {"hunter2"})
    'wrong: ***; token_ndcg: 0.5; access.key: ***'
    """
    variants = set()
    for secret in secrets:
        # As it is, and as URLs, JSON and Python write it.
        variants |= {secret, quote(secret, safe=""), quote(secret), unquote(secret)}
        variants |= {json.dumps(secret)[1:-1], repr(secret)[1:-1]}
    for variant in sorted(variants, key=len, reverse=True):
        pattern = re.escape(variant)
        text = re.sub(pattern if len(variant) >= _ANYWHERE else rf"(?<!\w){pattern}(?!\w)", HIDDEN, text)
    for secret_form in (*_URLS, _secret_pairs):
        text = secret_form.sub(rf"\g<before>{HIDDEN}", text)
    return text


def shown(value: object) -> str:
    """A value of a configuration for a message, without secrets.

    >>> shown({"cred": "t0", "sep": ";"})
    "{'cred': '***', 'sep': '***'}"
    """
    return redacted(repr(_visited(value, _hidden, is_option=isinstance(value, Mapping))))


def redacted_settings(settings: Any) -> Any:
    """Settings without their secrets.

    >>> redacted_settings({"path": "s3a://AK:s3cr3t@bucket/t", "options": {"cred": "t0", "sep": ";"}})
    {'path': 's3a://***@bucket/t', 'options': {'cred': '***', 'sep': '***'}}
    >>> redacted_settings({"metrics": {"token_key": "ndcg@10"}})
    {'metrics': {'token_key': 'ndcg@10'}}
    """
    return _visited(settings, _hidden)


def _visited(settings: Any, visit: Callable[..., Any], name: str = "", *, is_option: bool = False) -> Any:
    """Settings with each single value as a visitor returns it: it gets the name, the value, and whether that is an option."""
    if isinstance(settings, Mapping):
        inside = is_option or name == OPTIONS
        return {key: _visited(value, visit, str(key), is_option=inside) for key, value in settings.items()}
    if isinstance(settings, tuple | list):
        return type(settings)(_visited(value, visit, name, is_option=is_option) for value in settings)
    return visit(name, settings, is_option=is_option)


def _hidden(name: str, value: Any, *, is_option: bool) -> Any:
    if is_option:
        return HIDDEN
    return redacted(value) if isinstance(value, str) else value


def _is_rare(value: str) -> bool:
    return len(value) >= _LEAST and not _ORDINARY.fullmatch(value)


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
    """

    def __init__(
        self, job: str, form: str = "text", hide: Callable[[str], str] = redacted, file: str | None = None
    ) -> None:
        """Begin a log of a job in one of `FORMATS`; a function takes the secrets out."""
        self.run_id: str | None = None
        self._job, self._as_json, self._hide, self._file = job, form == "json", hide, file

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
            line = {
                "time": time,
                "job": self._job,
                "run_id": self.run_id,
                "event": event,
                **_hide_texts(facts, self._hide),
            }
            self._write(json.dumps(line, ensure_ascii=False, default=str) + "\n")

    def fail(self, text: str, **facts: Any) -> None:
        """Write that the job has failed."""
        if self._as_json:
            trace = {"traceback": text} if text.startswith("Traceback") else {}
            self.tell("failed", **facts, **trace)
        else:
            self._write(self._hide(text))
        if self._file is not None:
            sys.stderr.write(self._hide(text))

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
                self._write(self._hide(f"{self._job}: warning: {' '.join(text.split())}\n"))
            else:
                show(message, category, *place, **more)

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
