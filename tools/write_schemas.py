"""Write the JSON Schemas of the jobs' configurations, which editors use and ``--print-schema`` prints.

`python tools/write_schemas.py` writes them, as `make conventions` does; a test checks that they are up to date.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from spark_rankeval.evaluation.evaluate import evaluate
from spark_rankeval.jobs.config import LISTS, alternative_keys, alternatives, is_required, section_of
from spark_rankeval.jobs.evaluate import EvaluateConfig
from spark_rankeval.jobs.runs import CompareConfig, CompareGroupsConfig
from spark_rankeval.request.call import Facts

FOLDER = Path(__file__).resolve().parent.parent / "spark_rankeval" / "jobs" / "schemas"
CONFIGURATIONS = {"evaluate": EvaluateConfig, "compare": CompareConfig, "compare_groups": CompareGroupsConfig}

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}
_AFTER_FIRST_SENTENCE = re.compile(r"(?<=[.?]) [A-Z`].*")
# "    name: what it is", as the docstrings have it; lines with more indentation continue it.
_ATTRIBUTE = re.compile(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)


def json_schema(section: type, title: str) -> dict[str, Any]:
    """The schema of the dataclass of a configuration; docstrings describe its keys, that of `evaluate` its options."""
    definitions: dict[str, Any] = {}
    whole = _object(section, definitions)
    return {"$schema": _DIALECT, "title": title, **whole, "$defs": definitions}


def _object(section: type, definitions: dict[str, Any]) -> dict[str, Any]:
    documentation, about = documented(section)
    about = _described_options() | about
    hints = get_type_hints(section)
    either = [{"oneOf": [{"required": [key]} for key in keys]} for keys in alternative_keys(section)]
    return {
        "type": "object",
        "description": documentation,
        "properties": {
            item.name: {
                **_schema_of(hints[item.name], definitions),
                **({"description": about[item.name]} if item.name in about else {}),
                **({} if item.default in (MISSING, None) else {"default": item.default}),
            }
            for item in fields(section)
        },
        "required": [item.name for item in fields(section) if is_required(item)],
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
    arguments = inspect.cleandoc(evaluate.__doc__ or "").partition("Args:\n")[2].partition("\n\n")[0]
    about = documented(Facts)[1] | _described(arguments)
    return {name: _AFTER_FIRST_SENTENCE.sub("", text.replace("``", "`")) for name, text in about.items()}


def _described(attributes: str) -> dict[str, str]:
    return {name: " ".join(text.split()) for name, text in _ATTRIBUTE.findall(attributes)}


def _schema_of(hint: object, definitions: dict[str, Any]) -> dict[str, Any]:
    nested, many = section_of(hint)
    if nested is not None and not many:
        if nested.__name__ not in definitions:
            # Its name stands before its content, which may be about it again.
            definitions[nested.__name__] = {}
            definitions[nested.__name__] = _object(nested, definitions)
        return {"$ref": f"#/$defs/{nested.__name__}"}
    parts = alternatives(hint)
    if parts != [hint]:
        kinds = [_schema_of(part, definitions) for part in parts]
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": [word for word in arguments if word is not None]}
    if origin in LISTS:
        return {"type": "array", "items": _schema_of(arguments[0], definitions)}
    if origin is Mapping:
        are_sections = all(map(is_dataclass, alternatives(arguments[1])))
        entries = {"additionalProperties": _schema_of(arguments[1], definitions)}
        return {"type": "object", **entries, **({"minProperties": 1} if are_sections else {})}
    return {"type": _TYPES[hint]}  # type: ignore[index] # a type


def texts() -> dict[str, str]:
    """The schema of each job as text, by the name of its file."""
    schemas = {name: json_schema(kind, f"configuration of {name}") for name, kind in CONFIGURATIONS.items()}
    return {f"{name}.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n" for name, schema in schemas.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in texts().items():
        place = FOLDER / name
        # Jobs that run at the same time read the schema.
        if not place.exists() or place.read_text(encoding="utf-8") != text:
            place.write_text(text, encoding="utf-8")
