"""Settings of a file or of ``--set key=value``, read into frozen dataclasses with every mistake named at once."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import date, time
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from spark_rankeval.errors import ConfigurationError, did_you_mean
from spark_rankeval.jobs.logs import OPTIONS, shown

Section = TypeVar("Section")
#: The key of a field's metadata that names the sections that can stand in its place. Exactly one of all must be given.
INSTEAD = "instead"
# What hints call a list of a file.
LISTS = (tuple, Sequence)
# Which of the two a hint is depends on what stands in it, and on the version of Python.
_UNIONS = (UnionType, Union)


def read_settings(section: type[Section], settings: object, problems: list[str], path: str = "") -> Section | None:
    """An object of a dataclass from a table of settings; None if something is wrong, which is added to the problems.

    Fields that are dataclasses, and mappings of such, are sections. The path is the section's dotted name in the file.
    """
    if not isinstance(settings, Mapping):
        problems.append(f"{path} must be a section, [{path}]; found {shown(settings)}")
        return None
    hints = get_type_hints(section)
    prefix = f"{path}." if path else ""
    already = len(problems)
    for key in settings:
        if key not in hints:
            advice = f"{did_you_mean(key, hints)}allowed: {', '.join(hints)}"
            problems.append(f"unknown key {f'{prefix}{key}'!r}; {advice}")
    values: dict[str, object] = {}
    for item in fields(section):  # type: ignore[arg-type] # of a dataclass
        key, hint = item.name, hints[item.name]
        nested, many = section_of(hint)
        if key not in settings:
            if is_required(item):
                words = f"section [{prefix}{key}]" if nested else f"key {prefix}{key} ({_words_of(hint)})"
                problems.append(f"the {words} is missing")
        elif nested and many:
            values[key] = _sections(nested, settings[key], problems, prefix + key)
        elif nested:
            values[key] = read_settings(nested, settings[key], problems, prefix + key)
        elif fits(hint, settings[key]):
            value = settings[key]
            values[key] = tuple(value) if isinstance(value, list) else value
        else:
            problems += _misfits(hint, settings[key], prefix + key)
    problems += _wrong_alternatives(section, settings, prefix)
    return section(**values) if len(problems) == already else None


def _wrong_alternatives(section: type, settings: Mapping[str, Any], prefix: str) -> list[str]:
    problems = []
    for keys in alternative_keys(section):
        one, *others = (f"[{prefix}{key}]" for key in keys)
        sections = [f"[{prefix}{key}]" for key in keys if key in settings]
        if not sections:
            problems.append(f"the section {one}, or {' or '.join(others)} in its place, is missing")
        problems += [
            f"{other} stands in the place of {sections[0]}; found both, so leave one out" for other in sections[1:]
        ]
    return problems


def alternative_keys(section: type) -> list[tuple[str, ...]]:
    """The sections that stand in each other's place."""
    keys = fields(section)
    return [(key.name, *key.metadata[INSTEAD]) for key in keys if INSTEAD in key.metadata]


def _misfits(hint: object, value: object, path: str) -> list[str]:
    if get_origin(hint) is Mapping and isinstance(value, Mapping):
        inside = get_args(hint)[1]
        return [
            f"{path}.{name} must be {_words_of(inside)}; found a {type(entry).__name__}"
            for name, entry in value.items()
            if not isinstance(name, str) or not fits(inside, entry)
        ]
    if isinstance(value, date | time) and fits(hint, str(value)):
        return [f"{path} must be {_words_of(hint)}; found the date {value}, which needs quotes: '{value}'"]
    # What names nothing as secret may be secret all the same.
    seen = f"a {type(value).__name__}" if path.endswith(f".{OPTIONS}") else shown(value)
    return [f"{path} must be {_words_of(hint)}; found {seen}"]


def _sections(section: type, settings: object, problems: list[str], path: str) -> dict[str, object]:
    if not isinstance(settings, Mapping) or not settings or not all(isinstance(name, str) for name in settings):
        problems.append(f"{path} must be sections by their names, [{path}.…]; found {shown(settings)}")
        return {}
    return {name: read_settings(section, inside, problems, f"{path}.{name}") for name, inside in settings.items()}


def is_required(item: Field[Any]) -> bool:
    """Whether a file must have the key of a field."""
    return item.default is MISSING and item.default_factory is MISSING


def alternatives(hint: object) -> list[Any]:
    """What a file may hold for a hint: the parts of a union, without None and without objects that only Python has."""
    parts = [part for part in (get_args(hint) if get_origin(hint) in _UNIONS else (hint,)) if part is not type(None)]
    return [part for part in parts if len(parts) == 1 or not is_dataclass(part)]


def section_of(hint: object) -> tuple[type | None, bool]:
    """The dataclass of a hint, if it has one, and whether the hint is a mapping of several by name."""
    (kind, *others) = alternatives(hint)
    many = get_origin(kind) is Mapping
    inside = get_args(kind)[1] if many else kind
    return (inside, many) if is_dataclass(inside) and not others else (None, False)  # type: ignore[return-value] # a class


def fits(hint: object, value: object) -> bool:
    """Whether a value of a file is what a hint asks for.

    >>> fits(str | tuple[str, ...], ["a", "b"]), fits(int, True), fits(float, 3)
    (True, False, True)
    """
    parts = alternatives(hint)
    if parts != [hint]:
        return any(fits(part, value) for part in parts)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return isinstance(value, str | bool) and any(value is word or value == word for word in arguments)
    if origin in LISTS:
        return isinstance(value, list) and all(fits(arguments[0], entry) for entry in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            isinstance(name, str) and fits(arguments[1], entry) for name, entry in value.items()
        )
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    # To Python true is an int, to the author of a file it is not.
    return isinstance(hint, type) and isinstance(value, hint) and (hint is bool or not isinstance(value, bool))


def _words_of(hint: object) -> str:
    """What a hint asks for, in words.

    >>> _words_of(float | Mapping[str, float])
    'a number or a table of key = value'
    """
    parts = alternatives(hint)
    if parts != [hint]:
        return " or ".join(dict.fromkeys(map(_words_of, parts)))
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal and arguments == (False,):
        return "false"
    if origin is Literal:
        return "one of " + ", ".join(repr(word) for word in arguments if word is not None)
    if origin in LISTS:
        return "a list of numbers" if arguments[0] is float else "a list of strings"
    if origin is Mapping:
        return "a table of key = value"
    return {str: "a string", bool: "true or false", int: "a whole number"}.get(hint, "a number")  # type: ignore[call-overload, no-any-return] # a type


def overridden(settings: Mapping[str, Any], overrides: Sequence[str], section: type) -> dict[str, Any]:
    """Settings of a file with those of the command line in them: full keys and values, such as ``evaluation.metrics=ndcg@10``.

    The value is TOML if the key takes it so, else a string.
    """
    changed = deepcopy(dict(settings))
    for number, override in enumerate(overrides, start=1):
        name, equals, text = override.partition("=")
        if not equals or not name.strip():
            # What stands there may be a secret.
            lacking = "key" if equals else "'='"
            msg = f"--set needs key=value, such as evaluation.metrics=ndcg@10; number {number} has no {lacking}"
            raise ConfigurationError(msg)
        path, hint = _resolved(name.strip(), section)
        table = changed
        for part in path[:-1]:
            if not isinstance(table.get(part), dict):
                table[part] = {}
            table = table[part]
        value = _value(text, hint)
        if isinstance(hint, type) and is_dataclass(hint) and not isinstance(value, dict):
            keys = ", ".join(get_type_hints(hint))
            msg = f"--set {name.strip()}: [{'.'.join(path)}] is a section, not a key; its keys are: {keys}"
            raise ConfigurationError(msg)
        table[path[-1]] = value
    return changed


def _resolved(name: str, section: type) -> tuple[tuple[str, ...], object]:
    """The path of a full key and the type of its value; the type of a section is its dataclass."""
    path: tuple[str, ...] = ()
    rest, kind = _parts(name), section
    while True:
        hints = get_type_hints(kind)
        if rest[0] not in hints:
            raise ConfigurationError(_no_key(name, path, rest[0], hints))
        path, rest, hint = (*path, rest[0]), rest[1:], hints[rest[0]]
        nested, many = section_of(hint)
        if nested is not None:
            if many and rest:
                # The name of one section of several is the author's.
                path, rest = (*path, rest[0]), rest[1:]
            if not rest:
                return path, nested
            kind = nested
            continue
        if not rest:
            return path, hint
        inside = [get_args(each)[1] for each in alternatives(hint) if get_origin(each) is Mapping]
        if not inside:
            raise ConfigurationError(_no_key(name, path, rest[0], {}))
        # Names such as fs.s3a.secret.key hold dots of their own.
        return (*path, ".".join(rest)), inside[0]


def _no_key(name: str, path: Sequence[str], key: str, hints: Mapping[str, object]) -> str:
    if not path:
        kinds = {place: section_of(hint) for place, hint in hints.items()}
        holders = [
            f"{place}.{key}"
            for place, (nested, many) in kinds.items()
            if nested and not many and key in get_type_hints(nested)
        ]
        near = f"did you mean {' or '.join(holders)}? " if holders else did_you_mean(key, hints)
        return f"--set {name}: there is no such key; {near}keys are whole, such as output.path; sections are: {', '.join(hints)}"
    allowed = (
        f"{did_you_mean(key, hints)}[{'.'.join(path)}] has: {', '.join(hints)}"
        if hints
        else f"{'.'.join(path)} has none"
    )
    return f"--set {name}: there is no such key; {allowed}"


def _parts(name: str) -> tuple[str, ...]:
    """The parts of a dotted key, quoted as in TOML or not."""
    try:
        inside: Any = tomllib.loads(f"{name} = 0") if "\n" not in name else None
    except tomllib.TOMLDecodeError:
        inside = None
    if not isinstance(inside, dict):
        return tuple(name.split("."))
    parts = []
    while isinstance(inside, dict):
        ((part, inside),) = inside.items()
        parts.append(part)
    return tuple(parts)


def _value(text: str, hint: object) -> Any:
    try:
        read = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    value = read["value"]
    if len(read) > 1:
        return text
    # A date or a number may be meant as the text that it is; a list or a table is none.
    return value if fits(hint, value) or isinstance(value, list | dict) or not fits(hint, text) else text
