"""Hides what a job must not print or store: passwords, tokens and keys."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

HIDDEN = "***"
#: The tables whose keys name options of Spark's readers. Other free names are the author's: labels of metrics, models, gates.
OPTIONS = "options"

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_STRONG = re.compile(
    r"\w*(passw(or)?d|passphrase|passcode|pwd|secret|token|credential|signature)s?"
    r"|\w*(access|account|api|auth|encryption|master|private|secret|shared|storage)key|jwt|authorization"
)
# Alone they are common words, so that a text has to say more for them to be hidden.
_WEAK = ("pass", "auth", "key", "sig", "sas")
# Before "key" they say that it opens something.
_OF_KEYS = re.compile(
    r"access|account|api|auth|client|encryption|master|private|pvt|sas|secret|shared|ssh|ssl|storage|subscription"
)
_ENCODINGS = ("base", "64", "b", "pem", "der", "hex")

# What stands behind :// up to the end of the word: a password may hold any sign but quotes and blanks.
_URL = re.compile(
    r"(?P<before>(?:\bjdbc:)?(?<![a-z0-9+.-])[a-z][a-z0-9+.-]*://)(?P<rest>(?:(?!://)[^\s'\"<>])*@)",
    re.IGNORECASE,
)
_AUTHORITY = re.compile(r"[^/?#;]*")
_PORT = re.compile(r":\d+$")
# A value that is a URL as a whole may have any sign in its password.
_WHOLE_URL = re.compile(
    r"\A(?P<before>(?:jdbc:)?[a-z][a-z\d+.-]*://)(?P<rest>(?:(?!://).)*@)", re.IGNORECASE | re.DOTALL
)
# jdbc:oracle:thin:USER/PASSWORD@host.
_WHOLE_ORACLE_URL = re.compile(r"\A(?P<before>jdbc:oracle:\w+:)[^/@]+/(?P<secret>.+)(?=@)", re.IGNORECASE | re.DOTALL)
_ORACLE_URL = re.compile(r"(?P<before>jdbc:oracle:\w+:)[^\s/@'\"]+/(?P<secret>[^\s'\"]+)(?=@)", re.IGNORECASE)
_HEADER = re.compile(
    r"(?P<before>\bAuthorization['\"]?\s*[:=]\s*['\"]?|\bBearer\s+)(?:[a-z][\w-]*\s+)?(?P<secret>[^\s'\",;}]+)",
    re.IGNORECASE,
)
# password=…, as in the parameters of a URL, and 'password': '…': the name, and what follows it.
_NAME = re.compile(r"(?P<mark>[?&;]?)(?<![\w.-])(?P<name>[\w.-]*\w)(?P<quote>\\*['\"]?)\s*(?P<sign>[=:])\s*")
# A comma ends a value if another name follows it.
_VALUE = re.compile(
    r"\\+\"[^\"\n]*\"?|\"[^\"\n]*\"?|'[^'\n]*'?|\{[^}]*\}|\[[^\]]*\]|(?:[^\s'\"&;,)}]|,(?![\s'\"]|$|[\w.-]+=))+"
)
# In a URL of JDBC nothing else ends a value, and what is in braces has its closing braces twice.
_JDBC_VALUE = re.compile(r"\{(?:[^}]|\}\})*\}?|[^;&]+")
# Shorter passwords of URLs are hidden there alone: anywhere else they may be a part of any word.
_LEAST = 4


def names_secret(option: str) -> bool:
    """Whether a word of an option's name says that its value is a secret.

    >>> [names_secret(name) for name in ("fs.s3a.secret.key", "dbPassword", "OAuthPvtKey", "pass", "X-Amz-Signature")]
    [True, True, True, True, True]
    >>> [names_secret(name) for name in ("sep", "header", "keyspace", "passthrough", "author")]
    [False, False, False, False, False]
    """
    return any(word in _WEAK or _STRONG.fullmatch(word) for word in _words(option))


def secrets_of(settings: Any) -> set[str]:
    """The secrets that settings hold in options and in URLs.

    >>> sorted(secrets_of({"path": "s3a://AK:s3cr3t@bucket/t", "options": {"token": "t0", "sep": ";"}}))
    ['s3cr3t', 't0']
    """
    secrets: set[str] = set()

    def look(name: str, value: Any, *, are_options: bool) -> None:
        if are_options and names_secret(name) and not isinstance(value, bool):
            secrets.add(str(value))
        if isinstance(value, str):
            _without(value, lambda secret: secrets.update({secret} if len(secret) >= _LEAST else ()), is_setting=True)

    _visited(settings, look)
    return secrets - {""}


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without the secrets in its URLs, headers and assignments, and without known secrets in any spelling.

    >>> redacted("s3a://AK:s3cr3t@bucket/table?user=a&password=b is missing")
    's3a://***@bucket/table?user=a&password=*** is missing'
    >>> redacted("abfss://data@account.dfs.core.windows.net/t and hdfs://name:8020/at@noon")
    'abfss://data@account.dfs.core.windows.net/t and hdfs://name:8020/at@noon'
    >>> redacted("jdbc:mysql://shop:p@ss/w0rd@db:3306/t and jdbc:oracle:thin:scott/ti/g@r@db:1521/shop")
    'jdbc:mysql://***@db:3306/t and jdbc:oracle:thin:***@db:1521/shop'
    >>> redacted("wrong: hunter2; token_ndcg: 0.5; Authorization: Bearer abc", {"hunter2"})
    'wrong: ***; token_ndcg: 0.5; Authorization: ***'
    """
    variants = set()
    for secret in secrets:
        # As it is, and as URLs, JSON and Python write it.
        variants |= {secret, quote(secret, safe=""), quote(secret), json.dumps(secret)[1:-1], repr(secret)[1:-1]}
    for variant in sorted(variants, key=len, reverse=True):
        text = text.replace(variant, HIDDEN)
    return _without(text, lambda _: None)


def shown(value: object) -> str:
    """A value of a configuration for a message, without secrets.

    >>> shown({"token": "t0", "sep": ";"})
    "{'token': '***', 'sep': ';'}"
    """
    return redacted(repr(_visited(value, _hidden, are_options=True)))


def redacted_settings(settings: Any) -> Any:
    """Settings without their secrets.

    >>> redacted_settings({"path": "s3a://AK:s3cr3t@bucket/t", "options": {"token": "t0", "sep": ";"}})
    {'path': 's3a://***@bucket/t', 'options': {'token': '***', 'sep': ';'}}
    >>> redacted_settings({"metrics": {"token_key": "ndcg@10"}})
    {'metrics': {'token_key': 'ndcg@10'}}
    """
    return _visited(settings, _hidden)


def _visited(settings: Any, visit: Callable[..., Any], name: str = "", *, are_options: bool = False) -> Any:
    """Settings with each single value as a visitor returns it: it gets the name, the value, and whether that is an option."""
    if isinstance(settings, Mapping):
        inside = are_options or name == OPTIONS
        return {key: _visited(value, visit, str(key), are_options=inside) for key, value in settings.items()}
    if isinstance(settings, tuple | list):
        return type(settings)(_visited(value, visit, name, are_options=are_options) for value in settings)
    return visit(name, settings, are_options=are_options)


def _hidden(name: str, value: Any, *, are_options: bool) -> Any:
    if are_options and names_secret(name):
        return HIDDEN
    return _without(value, lambda _: None, is_setting=True) if isinstance(value, str) else value


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _without(text: str, note: Callable[[str], object], *, is_setting: bool = False) -> str:
    """A text without what looks like a secret in it; the function notes each.

    A setting that begins as a URL is one as a whole: blanks and quotes are parts of it.
    """

    def url(match: re.Match[str]) -> str:
        authority = _AUTHORITY.match(match["rest"])[0]  # type: ignore[index] # it matches the empty text, too
        # A password with a slash in it may begin as a port does; of databases and of S3, which has no ports, it is hidden even so.
        ends_in_slash = match["rest"][len(authority) :].startswith("/")
        has_no_port = match["before"].lower().startswith(("jdbc:", "s3"))
        named = authority if has_no_port and ends_in_slash else _PORT.sub("", authority)
        if ":" not in named.partition("]")[2 if named.startswith("[") else 0]:
            return match[0]
        # As servers read it, and as it was meant if a slash was not escaped.
        for userinfo in (authority.rpartition("@")[0], match["rest"][:-1]):
            password = userinfo.partition(":")[2]
            note(password)
            note(unquote(password))
        return f"{match['before']}{HIDDEN}@"

    def rest(match: re.Match[str]) -> str:
        note(match["secret"])
        return f"{match['before']}{HIDDEN}"

    whole = ((_WHOLE_URL, url), (_WHOLE_ORACLE_URL, rest)) if is_setting else ()
    for pattern, hide in (*whole, (_URL, url), (_ORACLE_URL, rest), (_HEADER, rest)):
        text = pattern.sub(hide, text)
    is_jdbc = is_setting and text.lower().startswith("jdbc:")
    return _without_assigned(text, note, (_VALUE, _JDBC_VALUE) if is_jdbc else (_VALUE,))


def _without_assigned(text: str, note: Callable[[str], object], values: Sequence[re.Pattern[str]]) -> str:
    """A text without the values of names of secrets; of the patterns of a value, the longest match is hidden, and all are noted."""
    parts, end = [], 0
    for match in _NAME.finditer(text):
        matches = [candidate[0] for pattern in values if (candidate := pattern.match(text, match.end()))]
        if match.start() < end or not matches or not _assigns_secret(match):
            continue
        value = max(matches, key=len)
        mark = value[0] if value[0] in "'\"" else ""
        for plain in (each.strip("'\"{}\\") for each in matches):
            note(plain)
            note(unquote(plain))
        closing = mark if len(value) > 1 and value.endswith(mark) else ""
        parts += [text[end : match.end()], mark, HIDDEN, closing]
        end = match.end() + len(value)
    return "".join([*parts, text[end:]])


def _assigns_secret(match: re.Match[str]) -> bool:
    """Whether what stands before = or : names a secret: the last word of a part between dots does, unlike in token_ndcg."""
    for part in match["name"].split("."):
        words = _words(part)
        # privateKeyBase64
        while words and words[-1] in _ENCODINGS:
            words.pop()
        *before, last = words or [""]
        if _STRONG.fullmatch(last):
            return True
        if last == "key" and before and _OF_KEYS.fullmatch(before[-1]):
            return True
        is_parameter = match["sign"] == "=" and (last != "key" or bool(match["mark"]))
        if last in _WEAK and (is_parameter or match["quote"]):
            return True
    return False
