"""The keys of a configuration for what the library's messages call by the names of its options."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spark_rankeval.errors import ConfigurationError, SparkRankEvalError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_BEGINNING = "In the configuration: "
# An option is named as `score=`; a name after a slash is of a path.
_OPTION = re.compile(r"(?<![\w/.@])([a-z_]+)=")
# A metric has parameters of its own; Facts(…) and BCa(…) hold options.
_METRIC = re.compile(r"\b[a-z]\w*\([^()]*\)")


def with_keys(text: str, keys: Mapping[str, str]) -> str:
    """A message, with a sentence on the keys of the options that it names.

    Args:
        text: the message. Up to ``Mend the data`` it is about rows: ``user=1`` is no option there.
        keys: by the options' names.

    >>> keys = {"on_invalid": "evaluation.on_invalid", "score": "columns.score"}
    >>> with_keys("user=1, score=nan. Mend the data, or pass on_invalid='drop'", keys)
    "user=1, score=nan. Mend the data, or pass on_invalid='drop'. In the configuration: evaluation.on_invalid"
    """
    options = _OPTION.findall(_METRIC.sub("", text.rpartition("Mend the ")[2]))
    named = dict.fromkeys(keys[option] for option in options if option in keys)
    # A message may pass several places, of which the first knows best.
    if not named or _BEGINNING in text:
        return text
    return f"{text.rstrip('.')}. {_BEGINNING}{', '.join(named)}"


@contextmanager
def errors_with_keys(keys: Mapping[str, str]) -> Iterator[None]:
    """Errors of the library that say which keys of a configuration the options are that they name.

    Args:
        keys: by the options' names.
    """
    try:
        yield
    except ConfigurationError:
        # It is about keys already.
        raise
    except SparkRankEvalError as error:
        error.args = (with_keys(str(error), keys), *error.args[1:])
        raise
