"""What a job must not print or store: passwords, tokens and keys of the sources that it reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "***"
# Names of options: fs.s3a.secret.key, password, sas.token.provider, account.key, …
_NAMES = re.compile(r"passw|passphrase|pwd|secret|token|credential|signature|key|\bsig\b", re.IGNORECASE)
# s3a://KEY:SECRET@bucket; the container in abfss://container@account is no secret.
_IN_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)[^\s/@:'\"]*:[^\s/@'\"]*@", re.IGNORECASE)
# jdbc:oracle:thin:USER/PASSWORD@host.
_IN_ORACLE_URL = re.compile(r"(?P<scheme>jdbc:oracle:\w+:)[^\s/@'\"]+/[^\s@]+@", re.IGNORECASE)
# password=…, as in the parameters of a URL, and 'password': '…'.
_ASSIGNED = re.compile(
    r"(?P<name>\b[\w.-]*(password|passwd|pwd|secret|token|credential|signature|(access|account|api|private|shared)[\w.-]*key)"
    r"[\w.-]*['\"]?\s*[=:]\s*['\"]?|[?&;]sig=)(?P<value>[^\s'\"&;,}]+)",
    re.IGNORECASE,
)


def names_secret(option: str) -> bool:
    """Whether the value of an option of this name is a secret.

    >>> names_secret("fs.s3a.secret.key"), names_secret("Password"), names_secret("sep"), names_secret("header")
    (True, True, False, False)
    """
    return _NAMES.search(option) is not None


def redacted(text: str, options: Mapping[str, Any] | None = None) -> str:
    """A text without the secrets that it has in URLs and assignments.

    Args:
        text: to be printed.
        options: of a source: the values of those whose name says so are hidden wherever they stand.

    >>> redacted("s3a://AK:s3cr3t@bucket/table?user=a&password=b is missing")
    's3a://***@bucket/table?user=a&password=*** is missing'
    >>> redacted("abfss://data@account.dfs.core.windows.net/t")
    'abfss://data@account.dfs.core.windows.net/t'
    >>> redacted("wrong: hunter2", {"dbPassword": "hunter2"})
    'wrong: ***'
    >>> redacted("jdbc:oracle:thin:scott/tiger@db:1521/shop")
    'jdbc:oracle:thin:***@db:1521/shop'
    """
    hidden = [str(value) for name, value in (options or {}).items() if names_secret(name) and str(value)]
    for value in sorted(hidden, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    for url in (_IN_URL, _IN_ORACLE_URL):
        text = url.sub(rf"\g<scheme>{HIDDEN}@", text)
    return _ASSIGNED.sub(rf"\g<name>{HIDDEN}", text)


def shown(value: object) -> str:
    """What was found in a configuration, for a message: options whose names say that they are secret are hidden.

    >>> shown({"token": "t0", "sep": ";"})
    "{'token': '***', 'sep': ';'}"
    """
    if isinstance(value, Mapping):
        value = {name: HIDDEN if names_secret(str(name)) else inside for name, inside in value.items()}
    return redacted(repr(value))


def redacted_settings(settings: Any) -> Any:
    """Settings as plain values without their secrets: dicts and sequences in each other, and texts.

    >>> redacted_settings({"path": "s3a://AK:s3cr3t@bucket/t", "options": {"token": "t0", "sep": ";"}})
    {'path': 's3a://***@bucket/t', 'options': {'token': '***', 'sep': ';'}}
    """
    if isinstance(settings, Mapping):
        # What holds further settings is no secret by itself: a model may be called "keywords".
        return {
            name: HIDDEN if names_secret(str(name)) and not _holds(value) else redacted_settings(value)
            for name, value in settings.items()
        }
    if isinstance(settings, tuple | list):
        return [redacted_settings(one) for one in settings]
    return redacted(settings) if isinstance(settings, str) else settings


def _holds(value: object) -> bool:
    return value is None or isinstance(value, Mapping)
