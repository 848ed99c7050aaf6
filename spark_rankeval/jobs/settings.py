"""Settings of a file or of ``--set key=value``, read into frozen dataclasses with every mistake named at once; and their JSON Schema."""

from __future__ import annotations

import difflib
import inspect
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import date, time
from functools import cache
from types import UnionType
from typing import Any, Literal, NamedTuple, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from spark_rankeval.errors import ConfigurationError, did_you_mean
from spark_rankeval.jobs.secrets import OPTIONS, shown

Section = TypeVar("Section")
#: The key of a field's metadata that names the sections that can stand in its place. Exactly one of all must be given.
INSTEAD = "instead"
# What hints call a list of a file.
_LISTS = (tuple, Sequence)
# Which of the two a hint is depends on what stands in it, and on the version of Python.
_UNIONS = (UnionType, Union)

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}
_AFTER_FIRST_SENTENCE = re.compile(r"(?<=[.?]) [A-Z`].*")
# "    name: what it is", as the docstrings have it; what is indented further goes on.
_ATTRIBUTE = re.compile(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)


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
            # What the class says of keys that there were.
            advice = getattr(section, "REMOVED", {}).get(key, advice)
            problems.append(f"unknown key {f'{prefix}{key}'!r}; {advice}")
    values: dict[str, object] = {}
    for item in fields(section):  # type: ignore[arg-type] # of a dataclass
        key, hint = item.name, hints[item.name]
        nested, many = section_of(hint)
        if key not in settings:
            if _is_required(item):
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
    for keys in _alternative_keys(section):
        one, *others = (f"[{prefix}{key}]" for key in keys)
        given = [f"[{prefix}{key}]" for key in keys if key in settings]
        if not given:
            problems.append(f"the section {one}, or {' or '.join(others)} in its place, is missing")
        problems += [f"{other} stands in the place of {given[0]}; found both, so leave one out" for other in given[1:]]
    return problems


def _alternative_keys(section: type) -> list[tuple[str, ...]]:
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


def _is_required(item: Field[Any]) -> bool:
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
        return isinstance(value, str) and value in arguments
    if origin in _LISTS:
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
    if origin is Literal:
        return "one of " + ", ".join(repr(word) for word in arguments if word is not None)
    if origin in _LISTS:
        return "a list of numbers" if arguments[0] is float else "a list of strings"
    if origin is Mapping:
        return "a table of key = value"
    return {str: "a string", bool: "true or false", int: "a whole number"}.get(hint, "a number")  # type: ignore[call-overload, no-any-return] # a type


def json_schema(section: type, title: str) -> dict[str, Any]:
    """The schema of the dataclass of a configuration; docstrings describe its keys, that of `evaluate` its options."""
    known: dict[str, Any] = {}
    whole = _object(section, known)
    return {"$schema": _DIALECT, "title": title, **whole, "$defs": known}


def _object(section: type, known: dict[str, Any]) -> dict[str, Any]:
    documentation, about = documented(section)
    about = _described_options() | about
    hints = get_type_hints(section)
    either = [{"oneOf": [{"required": [key]} for key in keys]} for keys in _alternative_keys(section)]
    return {
        "type": "object",
        "description": documentation,
        "properties": {
            item.name: {
                **_schema_of(hints[item.name], known),
                **({"description": about[item.name]} if item.name in about else {}),
                **({} if item.default in (MISSING, None) else {"default": item.default}),
            }
            for item in fields(section)
        },
        "required": [item.name for item in fields(section) if _is_required(item)],
        **({"allOf": either} if either else {}),
        "additionalProperties": False,
    }


def documented(section: type) -> tuple[str, dict[str, str]]:
    """What a dataclass is, and what its attributes are, from its docstring and those of its bases."""
    about: dict[str, str] = {}
    for kind in reversed(section.__mro__):
        _, _, attributes = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")
        about |= _described(attributes)
    first = inspect.cleandoc(section.__doc__ or "").partition("\n\n")[0]
    return " ".join(first.split()), about


@cache
def _described_options() -> dict[str, str]:
    from spark_rankeval.evaluation.evaluate import evaluate  # noqa: PLC0415 # it imports pyspark
    from spark_rankeval.request.options import Facts  # noqa: PLC0415 # as the other

    arguments = inspect.cleandoc(evaluate.__doc__ or "").partition("Args:\n")[2].partition("\n\n")[0]
    about = documented(Facts)[1] | _described(arguments)
    return {name: _AFTER_FIRST_SENTENCE.sub("", text.replace("``", "`")) for name, text in about.items()}


def _described(attributes: str) -> dict[str, str]:
    return {name: " ".join(text.split()) for name, text in _ATTRIBUTE.findall(attributes)}


def _schema_of(hint: object, known: dict[str, Any]) -> dict[str, Any]:
    nested, many = section_of(hint)
    if nested is not None:
        if nested.__name__ not in known:
            # Its name stands before its content, which may be about it again.
            known[nested.__name__] = {}
            known[nested.__name__] = _object(nested, known)
        reference = {"$ref": f"#/$defs/{nested.__name__}"}
        return {"type": "object", "additionalProperties": reference, "minProperties": 1} if many else reference
    parts = alternatives(hint)
    if parts != [hint]:
        kinds = [_schema_of(part, known) for part in parts]
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": [word for word in arguments if word is not None]}
    if origin in _LISTS:
        return {"type": "array", "items": _schema_of(arguments[0], known)}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _schema_of(arguments[1], known)}
    return {"type": _TYPES[hint]}  # type: ignore[index] # a type


class _Key(NamedTuple):
    """A key of the configuration: its sections and name, and the type of its value; ``*`` is a name of the file's author."""

    path: tuple[str, ...]
    hint: object


def overridden(settings: Mapping[str, Any], overrides: Sequence[str], section: type) -> dict[str, Any]:
    """Settings of a file with those of the command line in them, texts such as ``evaluation.metrics=ndcg@10``.

    The key is that of the file, or its end if no other key ends so. The value is TOML if the key takes it so, else a text.
    """
    changed = deepcopy(dict(settings))
    known = list(_keys(section, ()))
    for number, override in enumerate(overrides, start=1):
        name, equals, text = override.partition("=")
        if not equals or not name.strip():
            # What stands there may be a secret.
            lacking = "key" if equals else "'='"
            msg = f"--set needs key=value, such as evaluation.metrics=ndcg@10; number {number} has no {lacking}"
            raise ConfigurationError(msg)
        path, hint = _resolved(_parts(name.strip()), known)
        table = changed
        for part in path[:-1]:
            if not isinstance(table.get(part), dict):
                table[part] = {}
            table = table[part]
        value = _value(text, hint)
        if hint is Mapping and not isinstance(value, dict):
            _refuse_section(name.strip(), path, known)
        table[path[-1]] = value
    return changed


def _keys(section: type, before: tuple[str, ...]) -> Iterator[_Key]:
    hints = get_type_hints(section)
    for item in fields(section):
        path, hint = (*before, item.name), hints[item.name]
        nested, many = section_of(hint)
        if nested is None:
            yield _Key(path, hint)
            continue
        inside = (*path, "*") if many else path
        if many:
            yield _Key(path, Mapping)
        yield _Key(inside, Mapping)
        yield from _keys(nested, inside)


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


def _resolved(parts: tuple[str, ...], known: Sequence[_Key]) -> tuple[tuple[str, ...], object]:
    """The full path of a key of the command line, and the type of its value."""
    whole = [match for key in known if (match := _match(parts, key, 0))]
    ends = [match for key in known for start in range(1, len(key.path)) if (match := _match(parts, key, start))]
    name = ".".join(parts)
    if whole or len(ends) == 1:
        return (whole or ends)[0]
    if ends:
        candidates = ", ".join(".".join(path) for path, _ in ends)
        msg = f"--set {name} is ambiguous: it matches {candidates}; write one of these out"
        raise ConfigurationError(msg)
    near = _near(parts, known)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    msg = f"--set {name}: there is no such key; {hint}{_allowed(near[0] if near else name, known)}"
    raise ConfigurationError(msg)


def _near(parts: tuple[str, ...], known: Sequence[_Key]) -> list[str]:
    """Keys that may have been meant, the likeliest first; those in sections of the author's own names last."""
    names = [".".join(key.path) for key in known]
    near = difflib.get_close_matches(".".join(parts), names, n=3)
    ends = difflib.get_close_matches(parts[-1], {key.path[-1] for key in known}, n=3)
    near += [name for end in ends for name, key in zip(names, known, strict=True) if key.path[-1] == end]
    return sorted(dict.fromkeys(near), key=lambda name: "*" in name)[:3]


def _allowed(name: str, known: Sequence[_Key]) -> str:
    """The keys of the section that a key is of, or the sections if it is of none."""
    section = name.partition(".")[0]
    inside = [".".join(key.path[1:]) for key in known if key.path[0] == section and len(key.path) > 1]
    if inside:
        return f"[{section}] has: {', '.join(inside)}"
    return f"sections are: {', '.join(dict.fromkeys(key.path[0] for key in known))}"


def _refuse_section(name: str, path: tuple[str, ...], known: Sequence[_Key]) -> NoReturn:
    same = [".".join(key.path) for key in known if key.path[-1] == path[-1] and len(key.path) > len(path)]
    hint = f"did you mean {' or '.join(same)}? " if same else ""
    msg = f"--set {name}: [{'.'.join(path)}] is a section, not a key; {hint}{_allowed(path[0], known)}"
    raise ConfigurationError(msg)


def _match(parts: tuple[str, ...], key: _Key, start: int) -> tuple[tuple[str, ...], object] | None:
    """The full path, if the parts are the end of a key from a place on."""
    tail = key.path[start:]
    # The name of a section of several is the author's, so that it cannot be left out.
    if ("*" in key.path[: start + 1] and start) or len(parts) < len(tail):
        return None
    if any(expected not in ("*", part) for expected, part in zip(tail, parts, strict=False)):
        return None
    path, rest = (*key.path[:start], *parts[: len(tail)]), parts[len(tail) :]
    if not rest:
        return path, key.hint
    for kind in alternatives(key.hint):
        if get_origin(kind) is Mapping:
            # Names such as fs.s3a.secret.key hold dots of their own.
            return (*path, ".".join(rest)), get_args(kind)[1]
    return None


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
