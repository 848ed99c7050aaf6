"""Settings from the command line, ``--set key=value``, which replace those of the file."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import fields
from typing import Any, NamedTuple, NoReturn, get_args, get_origin, get_type_hints

from spark_rankeval.errors import ConfigurationError
from spark_rankeval.jobs.settings import alternatives, fits, section_of


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
