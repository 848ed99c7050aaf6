"""What a configuration may hold, as JSON Schema, for editors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from spark_rankeval.jobs.settings import LISTS, alternatives, is_required, section_of

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}
_AFTER_FIRST_SENTENCE = re.compile(r"(?<=[.?]) [A-Z`].*")
# "    name: what it is", as the docstrings have it; what is indented further goes on.
_ATTRIBUTE = re.compile(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)


def json_schema(section: type, title: str) -> dict[str, Any]:
    """The schema of the dataclass of a configuration; docstrings describe its keys, that of `evaluate` its options."""
    known: dict[str, Any] = {}
    whole = _object(section, known)
    return {"$schema": _DIALECT, "title": title, **whole, "$defs": known}


def _object(section: type, known: dict[str, Any]) -> dict[str, Any]:
    documentation, about = documented(section)
    about = _described_options() | about
    hints = get_type_hints(section)
    return {
        "type": "object",
        "description": documentation,
        "properties": {
            item.name: {
                **_value(hints[item.name], known),
                **({"description": about[item.name]} if item.name in about else {}),
                **({} if item.default in (MISSING, None) else {"default": item.default}),
            }
            for item in fields(section)
        },
        "required": [item.name for item in fields(section) if is_required(item)],
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
    """What each option of `evaluate` is, in one sentence."""
    from spark_rankeval.evaluation.evaluate import evaluate  # noqa: PLC0415 # it imports pyspark
    from spark_rankeval.request.options import Facts  # noqa: PLC0415 # as the other

    arguments = inspect.cleandoc(evaluate.__doc__ or "").partition("Args:\n")[2].partition("\n\n")[0]
    about = documented(Facts)[1] | _described(arguments)
    return {name: _AFTER_FIRST_SENTENCE.sub("", text.replace("``", "`")) for name, text in about.items()}


def _described(attributes: str) -> dict[str, str]:
    return {name: " ".join(text.split()) for name, text in _ATTRIBUTE.findall(attributes)}


def _value(hint: object, known: dict[str, Any]) -> dict[str, Any]:
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
        kinds = [_value(part, known) for part in parts]
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": [word for word in arguments if word is not None]}
    if origin in LISTS:
        return {"type": "array", "items": _value(arguments[0], known)}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _value(arguments[1], known)}
    return {"type": _TYPES[hint]}  # type: ignore[index] # a type
