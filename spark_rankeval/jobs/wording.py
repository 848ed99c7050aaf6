"""What the library says in words of Python, said in those of a configuration, which is all that a job's user has."""

from __future__ import annotations

import ast
import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from spark_rankeval.errors import ConfigurationError, SparkRankEvalError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Advice that is about more than an option; what it says of calls, in words of a configuration.
PHRASES = {
    "Pass labels as a table of its own": "Give the labels as [labels]",
    "pass labels as a table of their own": "give the labels as [labels]",
    "pass labels as a table": "give the labels as [labels]",
    "labels=None means one table": "no [labels] means one table",
    "predictions come as a dict by model; leave the column of models (model=) out": (
        "evaluation.model names all predictions, and columns.model is a column that names them; leave one of the two out"
    ),
    "or a dict by kind": "or a table by kind",
    "or a dict of them by metric": "or a table of them by metric",
    "pass model=, or a dict from model to table": "set comparison.model, or give each model a table, [models.…]",
    "and a table of several models alone, not in a dict": "and a table of several models as [results]",
    ": pass it alone": ": give it as [results]",
    "Give it a table of score_users": "Give it a table per_user of jobs/evaluate.py",
    "give a table of score_users whose columns": "give a table per_user of jobs/evaluate.py whose columns",
    "score_users(by=…) keeps attributes": "evaluation.by of jobs/evaluate.py keeps attributes",
    "summarise(table) says which": "jobs/evaluate.py says which",
}
# A metric says its parameters in brackets, and they are the same in a configuration.
_METRIC = re.compile(r"(\b\w+\([^()]*\))")
_VALUE = r"'[^']*'|\{[^{}]*\}|\[[^\[\]]*\]|True|False|-?\d[\d.]*\b"
# Not of paths such as s3://bucket/by=day, nor of what says already which key it is.
_OPTION = re.compile(rf"(?P<verb>\b[Pp]ass )?(?<![\w/.@])(?P<name>[a-z_]+)=(?P<value>{_VALUE})?")


def in_keys(text: str, keys: Mapping[str, str]) -> str:
    """A message in which options are called by their keys.

    Args:
        text: the message. If it says ``Mend the data``, what stands before is about rows: ``user=1`` is no option there.
        keys: by the options' names.

    >>> keys = {"on_invalid": "evaluation.on_invalid", "score": "columns.score"}
    >>> in_keys("user=1, score=nan. Mend the data, or pass on_invalid='drop'", keys)
    'user=1, score=nan. Mend the data, or set evaluation.on_invalid = "drop"'
    >>> in_keys("the table has no column 'points' (score=)", keys)
    "the table has no column 'points' (columns.score)"
    """
    for words, mine in PHRASES.items():
        text = text.replace(words, mine)
    rows, mend, advice = text.rpartition("Mend the ")
    parts = _METRIC.split(advice)
    # Every second part is a metric.
    parts[::2] = [_OPTION.sub(lambda found: _named(found, keys), part) for part in parts[::2]]
    return f"{rows}{mend}{''.join(parts)}"


@contextmanager
def errors_in_keys(keys: Mapping[str, str]) -> Iterator[None]:
    """Errors of the library that call its options by the keys of a configuration.

    Args:
        keys: by the options' names.
    """
    try:
        yield
    except ConfigurationError:
        # It is about keys already.
        raise
    except SparkRankEvalError as error:
        error.args = (in_keys(str(error), keys), *error.args[1:])
        raise


def _named(found: re.Match[str], keys: Mapping[str, str]) -> str:
    key, value = keys.get(found["name"]), found["value"]
    if key is None:
        return found[0]
    verb = "set " if found["verb"] else ""
    return f"{verb}{key}" if value is None else f"{verb}{key} = {_as_toml(value)}"


def _as_toml(value: str) -> str:
    """A literal of Python as one of TOML.

    >>> _as_toml("{'negative_grades': 'clip'}"), _as_toml("['a']"), _as_toml("True")
    ('{ negative_grades = "clip" }', '["a"]', 'true')
    """
    try:
        read: Any = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value
    if isinstance(read, dict):
        return "{ " + ", ".join(f"{name} = {json.dumps(one, ensure_ascii=False)}" for name, one in read.items()) + " }"
    return json.dumps(read, ensure_ascii=False)
